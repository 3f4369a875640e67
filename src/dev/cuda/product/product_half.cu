/* Products with F16 and BF16. */
#include "dev/cuda/product/product.cuh"

FT_PRODUCT_DEFINE(Half)
