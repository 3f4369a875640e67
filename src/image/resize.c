/* Along one axis from n to o samples: s = n / o, f = max(s, 1), the filter reaches 2 f from the
 * centre c = (i + 1/2) s of output i. Weights are B((k - c + 1/2) / f) over their sum, rounded to
 * 22 bits; sums are rounded to bytes between the two passes. */
#include "image/image.h"

#include "base/mem.h"

#include <math.h>

enum { BITS = 22 };

typedef struct taps {
    int *first, *count; /* [o] */
    int32_t *w;         /* [o, most] */
    int most;
} taps;

static double bicubic(double x)
{
    const double a = -0.5;
    x = fabs(x);
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    if (x < 2) return a * (((x - 5) * x + 8) * x - 4);
    return 0;
}

static taps taps_of(int n, int o)
{
    const double s = (double)n / o, f = FT_MAX(s, 1), reach = 2 * f, by = 1 / f;
    taps t = {.most = (int)ceil(reach) * 2 + 1};
    double *w = ft_new_n(double, (size_t)t.most);
    t.first = ft_new_n(int, (size_t)o);
    t.count = ft_new_n(int, (size_t)o);
    t.w = ft_new_n(int32_t, (size_t)o * (size_t)t.most);
    for (int i = 0; i < o; i++) {
        const double c = (i + 0.5) * s;
        const int lo = FT_MAX(0, (int)(c - reach + 0.5)), hi = FT_MIN(n, (int)(c + reach + 0.5));
        double sum = 0;
        for (int k = lo; k < hi; k++) sum += w[k - lo] = bicubic((k - c + 0.5) * by);
        for (int k = lo; k < hi; k++) {
            const double v = (sum != 0 ? w[k - lo] / sum : w[k - lo]) * (1 << BITS);
            t.w[(size_t)i * (size_t)t.most + (size_t)(k - lo)] =
                (int32_t)(v < 0 ? v - 0.5 : v + 0.5);
        }
        t.first[i] = lo;
        t.count[i] = hi - lo;
    }
    ft_free(w);
    return t;
}

static void taps_release(taps *t)
{
    ft_free(t->first);
    ft_free(t->count);
    ft_free(t->w);
}

/* One byte from samples `step` bytes apart. */
static unsigned char weigh(const unsigned char *p, size_t step, const int32_t *w, int n)
{
    int64_t sum = 1 << (BITS - 1);
    for (int k = 0; k < n; k++) sum += (int64_t)w[k] * p[(size_t)k * step];
    sum >>= BITS;
    return (unsigned char)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

/* From m to one with `side` columns (or rows). */
static ft_image pass(const ft_image *m, int side, bool rows)
{
    ft_image out = {.w = rows ? m->w : side, .h = rows ? side : m->h};
    const size_t line = (size_t)m->w * 3, step = rows ? line : 3;
    taps t = taps_of(rows ? m->h : m->w, side);
    unsigned char *to = out.rgb = ft_new_n(unsigned char, (size_t)out.w *(size_t)out.h * 3);
    for (int y = 0; y < out.h; y++)
        for (int x = 0; x < out.w; x++) {
            const int i = rows ? y : x, at = t.first[i];
            const unsigned char *from = rows ? m->rgb + (size_t)at * line + (size_t)x * 3
                                             : m->rgb + (size_t)y * line + (size_t)at * 3;
            for (int c = 0; c < 3; c++)
                *to++ = weigh(from + c, step, t.w + (size_t)i * (size_t)t.most, t.count[i]);
        }
    taps_release(&t);
    return out;
}

void ft_image_resize(ft_image *out, const ft_image *in, int w, int h)
{
    ft_image wide = *in;
    if (w != in->w) wide = pass(in, w, false);
    *out = h != in->h || w == in->w ? pass(&wide, h, true) : wide;
    if (wide.rgb != in->rgb && wide.rgb != out->rgb) ft_image_release(&wide);
}
