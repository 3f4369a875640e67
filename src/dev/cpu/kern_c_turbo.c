/* Turbo caches in plain C. */
#include "base/half.h"
#include "dev/cpu/kern.h"

#include <string.h>

static inline int code_at(const unsigned char *p, int i, int group, const int bits)
{
    if (bits == 4) return p[i / 2] >> 4 * (i % 2) & 15;
    const int low = p[i / 4] >> 2 * (i % 4) & 3;
    return bits == 2 ? low : low | (p[group / 4 + i / 8] >> i % 8 & 1) << 2;
}

static inline void dot(const ft_turbo t, const int bits, float *const *y, const unsigned char *w,
                       size_t row_bytes, int rows, int k, const ft_col8 *x, int n)
{
    const ft_turbo_format *f = ft_turbo_of(t);
    const int group = ft_turbo_group(k);
    const size_t bytes = ft_turbo_group_bytes(t, group);
    for (int o = 0; o < rows; o++, w += row_bytes) {
        for (int c = 0; c < n; c++) y[c][o] = 0;
        for (int g = 0; g < k / group; g++) {
            const unsigned char *p = w + (size_t)g * bytes;
            uint16_t h;
            memcpy(&h, p, 2);
            const float scale = ft_f16_to_f32(h);
            int8_t v[128];
            for (int i = 0; i < group; i++)
                v[i] = f->small[code_at(p + f->head, ft_turbo_plane(bits, i), group, bits)];
            for (int c = 0; c < n; c++) {
                const int8_t *q = x[c].q + g * group;
                int32_t s = 0;
                for (int i = 0; i < group; i++) s += v[i] * q[i];
                y[c][o] = ft_fma((float)s, scale * x[c].d[g], y[c][o]);
            }
        }
    }
}

static inline void values(const ft_turbo t, const int bits, float *y, const unsigned char *p,
                          size_t row_bytes, int rows, int group)
{
    const ft_turbo_format *f = ft_turbo_of(t);
    for (int o = 0; o < rows; o++, p += row_bytes, y += group)
        for (int i = 0; i < group; i++)
            y[i] = f->value[code_at(p + f->head, ft_turbo_plane(bits, i), group, bits)];
}

#define KERNELS(name, t, bits)                                                                     \
    static void dot_##name(float *const *y, const unsigned char *w, size_t row_bytes, int rows,    \
                           int k, const ft_col8 *x, int n)                                         \
    {                                                                                              \
        dot(t, bits, y, w, row_bytes, rows, k, x, n);                                              \
    }                                                                                              \
    static void values_##name(float *y, const unsigned char *group, size_t row_bytes, int rows,    \
                              int n)                                                               \
    {                                                                                              \
        values(t, bits, y, group, row_bytes, rows, n);                                             \
    }

KERNELS(turbo2, FT_TURBO2, 2)
KERNELS(turbo3, FT_TURBO3, 3)
KERNELS(turbo4, FT_TURBO4, 4)
KERNELS(turbo4_legacy, FT_TURBO4_LEGACY, 4)

void ft_kern_c_turbo(ft_kern *k)
{
    k->turbo[FT_TURBO2] = (ft_kern_turbo){dot_turbo2, values_turbo2};
    k->turbo[FT_TURBO3] = (ft_kern_turbo){dot_turbo3, values_turbo3};
    k->turbo[FT_TURBO4] = (ft_kern_turbo){dot_turbo4, values_turbo4};
    k->turbo[FT_TURBO4_LEGACY] = (ft_kern_turbo){dot_turbo4_legacy, values_turbo4_legacy};
}
