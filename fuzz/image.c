/* Any bytes through the picture decoders; what they accept is resized and cut into patches. */
#include "image/image.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const ft_image_limits l = {.bytes = 1 << 20, .side = 512, .pixels = 1 << 16, .seconds = 10};
    const float mean[3] = {0.5f, 0.5f, 0.5f};
    ft_image m, r;
    ft_err err = {0};
    int w = 0, h = 0, W, H;
    const ft_status head = ft_image_size(&w, &h, data, n, &l, &err);
    if (head && (!err.text[0] || strchr(err.text, '\n'))) abort();
    if (ft_image_decode(&m, data, n, &l, &err)) {
        if (!err.text[0] || strchr(err.text, '\n')) abort();
        return 0;
    }
    ft_image_limits on = l;
    on.blend = true;
    if (!ft_image_decode(&r, data, n, &on, &err)) ft_image_release(&r);
    if (head || w != m.w || h != m.h) abort(); /* the header must say the same */
    if (!ft_image_fit_area(&W, &H, m.w, m.h, 32, 1024, 16384, &err)) {
        ft_image_resize(&r, &m, W, H);
        const int patches = W / 16 * (H / 16), half = patches / 2;
        float *p = ft_new_n(float, (size_t)W *(size_t)H * 3);
        ft_image_patches(p, &r, 16, 2, mean, mean, 0, half);
        ft_image_patches(p + (size_t)half * 768, &r, 16, 2, mean, mean, half, patches - half);
        ft_free(p);
        ft_image_release(&r);
    }
    ft_image_release(&m);
    return 0;
}
