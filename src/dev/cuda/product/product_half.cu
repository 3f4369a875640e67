/* Products with F16 and BF16. */
#include "dev/cuda/product/product.cuh"

#include <stdlib.h>

template <int N> struct HalfProbe : Half {
    enum { PROBE = N };
};

void ft_product_Half(ft_cuda *c, ft_product *p, int tokens, int items)
{
    const char *e = getenv("FT_HALF");
    switch (e ? atoi(e) : 0) {
    case 1: product_launch<HalfProbe<1>>(c, p, tokens, items); break;
    case 2: product_launch<HalfProbe<2>>(c, p, tokens, items); break;
    case 3: product_launch<HalfProbe<3>>(c, p, tokens, items); break;
    default: product_launch<Half>(c, p, tokens, items);
    }
}
