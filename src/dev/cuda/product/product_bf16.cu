/* Products with BF16. */
#include "dev/cuda/product/product.cuh"

FT_PRODUCT_DEFINE(Bf16)
