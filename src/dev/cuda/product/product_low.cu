/* Products with codes of two and three bits. */
#include "dev/cuda/product/product.cuh"

FT_PRODUCT_DEFINE(Q2K)
FT_PRODUCT_DEFINE(Q3K)
FT_PRODUCT_DEFINE(Tq3)
FT_PRODUCT_DEFINE(Ternary)
