/* Products with plain numbers. */
#include "dev/cuda/product/product.cuh"

void ft_product_bf16(ft_cuda *c, ft_product *p, int tokens, int items)
{
    product_launch<Bf16>(c, p, tokens, items);
}

void ft_product_f16(ft_cuda *c, ft_product *p, int tokens, int items)
{
    product_launch<F16>(c, p, tokens, items);
}

void ft_product_f32(ft_cuda *c, ft_product *p, int tokens, int items)
{
    product_launch<F32>(c, p, tokens, items);
}
