/* Products with four-bit codes into a table. */
#include "dev/cuda/product/product.cuh"

FT_PRODUCT_DEFINE(Iq4)
FT_PRODUCT_DEFINE(Mxfp4)
