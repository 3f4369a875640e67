/* Products with four-bit codes into a table, and a scale for every 16 columns. */
#include "dev/cuda/product/product.cuh"

FT_PRODUCT_DEFINE(Nvfp4)
FT_PRODUCT_DEFINE(Tq4)
