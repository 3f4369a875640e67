/* Products with F16 and F32. */
#include "dev/cuda/product/product.cuh"

FT_PRODUCT_DEFINE(F16)
FT_PRODUCT_DEFINE(F32)
