/* Products with Q6_K, Q8_0 and Q4_0. */
#include "dev/cuda/product/product.cuh"

void ft_product_q6k(ft_cuda *c, ft_product *p, int tokens, int items)
{
    product_launch<Q6K>(c, p, tokens, items);
}

void ft_product_q8(ft_cuda *c, ft_product *p, int tokens, int items)
{
    product_launch<Q8>(c, p, tokens, items);
}

void ft_product_q40(ft_cuda *c, ft_product *p, int tokens, int items)
{
    product_launch<Q40>(c, p, tokens, items);
}
