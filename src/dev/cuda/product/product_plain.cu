/* Products with F32. */
#include "dev/cuda/product/product.cuh"

FT_PRODUCT_DEFINE(F32)
