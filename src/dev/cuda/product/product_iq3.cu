/* Products with IQ3. */
#include "dev/cuda/product/product.cuh"

FT_PRODUCT_DEFINE(Iq3xxs)
FT_PRODUCT_DEFINE(Iq3s)
