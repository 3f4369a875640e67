/* Products with IQ1 and IQ2. */
#include "dev/cuda/product/product.cuh"

FT_PRODUCT_DEFINE(Iq1)
FT_PRODUCT_DEFINE(Iq2xxs)
FT_PRODUCT_DEFINE(Iq2s)
