/* Products with all other types, decoded from file layout. */
#include "dev/cuda/product/product.cuh"

void ft_product_generic(ft_cuda *c, ft_product *p, int tokens, int items)
{
    product_launch<Generic>(c, p, tokens, items);
}
