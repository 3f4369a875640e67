/* TQ3_1S and TQ4_1S weights in plain C. Each half of a block of 32 has its own scale. */
#include "base/half.h"
#include "dev/cpu/kern.h"
#include "quant/turbo_weights.h"

#include <string.h>

enum { HEAD = 4 }; /* bytes of the two scales */

static inline int code_at(const unsigned char *p, int i, const int bits)
{
    if (bits == 4) return p[i / 2] >> 4 * (i % 2) & 15;
    const unsigned char *g = p + 3 * (i / 8);
    return (g[0] | g[1] << 8 | g[2] << 16) >> 3 * (i % 8) & 7;
}

static inline void dot(const ft_type type, const int bits, float *const *y, const unsigned char *w,
                       size_t row_bytes, int rows, int k, const ft_col8 *x, int n)
{
    const ft_tq_book *book = ft_tq_book_of(type);
    const size_t bytes = HEAD + 4 * (size_t)bits;
    for (int o = 0; o < rows; o++, w += row_bytes) {
        float sum[FT_COLS] = {0};
        for (int b = 0; b < k / 32; b++) {
            const unsigned char *p = w + (size_t)b * bytes;
            uint16_t h[2];
            int8_t v[32];
            memcpy(h, p, sizeof h);
            for (int i = 0; i < 32; i++) v[i] = book->small[code_at(p + HEAD, i, bits)];
            for (int c = 0; c < n; c++) {
                const int8_t *q = x[c].q + 32 * b;
                for (int i = 0; i < 32; i += FT_HADAMARD8) {
                    int32_t s = 0;
                    for (int j = i; j < i + FT_HADAMARD8; j++) s += v[j] * q[j];
                    const float d = x[c].d[(32 * b + i) / FT_HADAMARD8];
                    sum[c] = ft_fma((float)s, ft_f16_to_f32(h[i / 16]) * d, sum[c]);
                }
            }
        }
        for (int c = 0; c < n; c++) y[c][o] = sum[c] * book->step;
    }
}

static void dot_tq3_1s(float *const *y, const unsigned char *w, size_t row_bytes, int rows, int k,
                       const ft_col8 *x, int n)
{
    dot(FT_TQ3_1S, 3, y, w, row_bytes, rows, k, x, n);
}

static void dot_tq4_1s(float *const *y, const unsigned char *w, size_t row_bytes, int rows, int k,
                       const ft_col8 *x, int n)
{
    dot(FT_TQ4_1S, 4, y, w, row_bytes, rows, k, x, n);
}

void ft_kern_c_tq(ft_kern *k)
{
    k->dot8[FT_TQ3_1S] = dot_tq3_1s;
    k->dot8[FT_TQ4_1S] = dot_tq4_1s;
}
