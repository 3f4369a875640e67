/* Products with four-bit codes into a table: IQ4, MXFP4, NVFP4. */
#include "dev/cuda/product/product.cuh"

void ft_product_iq4(ft_cuda *c, ft_product *p, int tokens, int items)
{
    product_launch<Iq4>(c, p, tokens, items);
}

void ft_product_mxfp4(ft_cuda *c, ft_product *p, int tokens, int items)
{
    product_launch<Mxfp4>(c, p, tokens, items);
}

void ft_product_nvfp4(ft_cuda *c, ft_product *p, int tokens, int items)
{
    product_launch<Nvfp4>(c, p, tokens, items);
}
