/* Products with BF16 and F16 that may be rounded: Qwen's vision towers. */
#include "dev/cuda/product/product.cuh"

FT_PRODUCT_DEFINE(Bf16Rounded)
FT_PRODUCT_DEFINE(F16Rounded)
