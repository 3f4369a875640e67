/* Turbo caches in plain C. */
#include "base/half.h"
#include "dev/cpu/kern_turbo.h"

#include <string.h>

static inline int code_at(const unsigned char *p, int i, int group, const int bits)
{
    if (bits == 4) return p[i / 2] >> 4 * (i % 2) & 15;
    const int low = p[i / 4] >> 2 * (i % 4) & 3;
    return bits == 2 ? low : low | (p[group / 4 + i / 8] >> i % 8 & 1) << 2;
}

static inline void turbo_dot(const turbo_format t, float *const *y, const unsigned char *w,
                             size_t row_bytes, int rows, int k, const ft_col8 *x, int n)
{
    const ft_turbo_format *f = ft_turbo_of(t.type);
    const int group = ft_turbo_group(k);
    const size_t bytes = ft_turbo_group_bytes(t.type, group);
    for (int o = 0; o < rows; o++, w += row_bytes) {
        for (int c = 0; c < n; c++) y[c][o] = 0;
        for (int g = 0; g < k / group; g++) {
            const unsigned char *p = w + (size_t)g * bytes;
            uint16_t h;
            memcpy(&h, p, 2);
            const float scale = ft_f16_to_f32(h);
            int8_t v[128];
            for (int i = 0; i < group; i++)
                v[i] = f->small[code_at(p + t.head, ft_turbo_plane(t.bits, i), group, t.bits)];
            for (int c = 0; c < n; c++) {
                const int8_t *q = x[c].q + g * group;
                int32_t s = 0;
                for (int i = 0; i < group; i++) s += v[i] * q[i];
                y[c][o] = ft_fma((float)s, scale * x[c].d[g], y[c][o]);
            }
        }
    }
}

static inline void turbo_values(const turbo_format t, float *y, const unsigned char *p,
                                size_t row_bytes, int rows, int group)
{
    const ft_turbo_format *f = ft_turbo_of(t.type);
    for (int o = 0; o < rows; o++, p += row_bytes, y += group)
        for (int i = 0; i < group; i++)
            y[i] = f->value[code_at(p + t.head, ft_turbo_plane(t.bits, i), group, t.bits)];
}

TURBO_KERNELS

void ft_kern_c_turbo(ft_kern *k)
{
    fill_turbo(k);
}
