/* Products with Q8_0 and Q4_0. */
#include "dev/cuda/product/product.cuh"

FT_PRODUCT_DEFINE(Q8)
FT_PRODUCT_DEFINE(Q40)
