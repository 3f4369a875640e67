/* Products with Q4_K, Q5_K and Q6_K. */
#include "dev/cuda/product/product.cuh"

FT_PRODUCT_DEFINE(Q4K)
FT_PRODUCT_DEFINE(Q5K)
FT_PRODUCT_DEFINE(Q6K)
