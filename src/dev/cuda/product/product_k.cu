/* Products with Q4_K and Q5_K. */
#include "dev/cuda/product/product.cuh"

void ft_product_q4k(ft_cuda *c, ft_product *p, int tokens, int items)
{
    product_launch<Q4K>(c, p, tokens, items);
}

void ft_product_q5k(ft_cuda *c, ft_product *p, int tokens, int items)
{
    product_launch<Q5K>(c, p, tokens, items);
}
