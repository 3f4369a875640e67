/* How large a picture becomes, and its patches. */
#include "image/image.h"

#include "base/mem.h"

#include <math.h>

ft_status ft_image_fit_area(int *W, int *H, int w, int h, int unit, int64_t lo, int64_t hi,
                            ft_err *err)
{
    const double F = unit, area = (double)w * h;
    if (FT_MAX(w, h) > 200 * (int64_t)FT_MIN(w, h))
        return ft_fail(err, FT_EFORMAT,
                       "the image is %d x %d pixels: one side is more than 200 times the other", w,
                       h);
    double x = rint(w / F) * F, y = rint(h / F) * F;
    if (x * y > (double)hi) {
        const double b = sqrt(area / (double)hi);
        y = fmax(F, floor(h / b / F) * F);
        x = fmax(F, floor(w / b / F) * F);
    } else if (x * y < (double)lo) {
        const double b = sqrt((double)lo / area);
        y = ceil(h * b / F) * F;
        x = ceil(w * b / F) * F;
    }
    *W = (int)x;
    *H = (int)y;
    return FT_OK;
}

void ft_image_fit_budget(int *W, int *H, int w, int h, int unit, int tokens)
{
    const double F = unit, f = sqrt(tokens * F * F / ((double)h * w));
    *H = (int)floor(f * h / F) * unit;
    *W = (int)floor(f * w / F) * unit;
    if (*H == 0) {
        *H = unit;
        *W = FT_MAX(1, FT_MIN(w / h, tokens)) * unit;
    } else if (*W == 0) {
        *W = unit;
        *H = FT_MAX(1, FT_MIN(h / w, tokens)) * unit;
    }
}

void ft_image_patches(float *out, const ft_image *m, int p, int merge, const float mean[3],
                      const float std[3], int first, int n)
{
    float value[3][256];
    for (int c = 0; c < 3; c++)
        for (int v = 0; v < 256; v++)
            value[c][v] = (float)((v / 255.0 - (double)mean[c]) / (double)std[c]);
    const int block = p * merge, wide = m->w / block;
    for (int i = first; i < first + n; i++) {
        const int b = i / (merge * merge), in = i % (merge * merge);
        const int y0 = b / wide * block + in / merge * p, x0 = b % wide * block + in % merge * p;
        for (int c = 0; c < 3; c++)
            for (int y = 0; y < p; y++) {
                const unsigned char *row =
                    m->rgb + ((size_t)(y0 + y) * (size_t)m->w + (size_t)x0) * 3 + c;
                for (int x = 0; x < p; x++) *out++ = value[c][row[3 * x]];
            }
    }
}
