/* Products with plain numbers. */
#include "dev/cuda/product/product.cuh"

FT_PRODUCT_DEFINE(Bf16)
FT_PRODUCT_DEFINE(F16)
FT_PRODUCT_DEFINE(F32)
