/* dev/cpu/kern_mm.h - c[m, n] += a[m, k] b[k, n] in tiles, for a file that includes this and
 * defines
 *     W, TILE_ROWS floats of a vector, rows of the largest tile
 *     mm_tile R rows by V vectors of columns, all of k
 * The edges are computed in smaller tiles, then value by value. */
#ifndef FT_DEV_CPU_KERN_MM_H
#define FT_DEV_CPU_KERN_MM_H

#include "dev/cpu/kern.h"

INLINE void mm_rows(float *c, int ldc, const float *a, int lda, const float *b, int ldb, int n,
                    int k, const int R)
{
    int j = 0;
    for (; j + 4 * W <= n; j += 4 * W) mm_tile(c + j, ldc, a, lda, b + j, ldb, k, R, 4);
    for (; j + W <= n; j += W) mm_tile(c + j, ldc, a, lda, b + j, ldb, k, R, 1);
    for (; j < n; j++)
        for (int i = 0; i < R; i++) {
            float *to = c + (size_t)i * (size_t)ldc + j, s = *to;
            for (int x = 0; x < k; x++)
                s = ft_fma(a[(size_t)i * (size_t)lda + (size_t)x],
                           b[(size_t)x * (size_t)ldb + (size_t)j], s);
            *to = s;
        }
}

static void mm(float *c, int ldc, const float *a, int lda, const float *b, int ldb, int m, int n,
               int k)
{
    int i = 0;
    for (; i + TILE_ROWS <= m; i += TILE_ROWS)
        mm_rows(c + (size_t)i * (size_t)ldc, ldc, a + (size_t)i * (size_t)lda, lda, b, ldb, n, k,
                TILE_ROWS);
    for (; i + 2 <= m; i += 2)
        mm_rows(c + (size_t)i * (size_t)ldc, ldc, a + (size_t)i * (size_t)lda, lda, b, ldb, n, k,
                2);
    if (i < m)
        mm_rows(c + (size_t)i * (size_t)ldc, ldc, a + (size_t)i * (size_t)lda, lda, b, ldb, n, k,
                1);
}

#endif
