/* Attention over a turbo cache: transformation of queries, and of the resulting sums. */
#include "dev/cpu/cpu_dev.h"

void ft_cpu_turbo_query(int8_t *q8, float *scale, float *work, const float *q, ft_turbo t, int d)
{
    const ft_turbo_format *f = ft_turbo_of(t);
    const int width = ft_turbo_width(d), group = ft_turbo_group(d);
    ft_turbo_hadamard(work, q, d);
    for (int g = 0; g < width / group; g++, work += group, q8 += group) {
        float top = 0;
        for (int i = 0; i < group; i++) {
            const float a = fabsf(work[i]);
            top = a > top ? a : top;
        }
        const float inverse = top > 0 ? 127.0f / top : 0;
        scale[g] = top / 127.0f * f->step;
        for (int i = 0; i < group; i++)
            q8[i] = (int8_t)lrintf(work[ft_turbo_plane(f->bits, i)] * inverse);
    }
}

void ft_cpu_turbo_back(float *o, float *work, const float *planes, ft_turbo t, int d)
{
    const int width = ft_turbo_width(d), bits = ft_turbo_of(t)->bits;
    for (int i = 0; i < width; i++) work[ft_turbo_plane(bits, i)] = planes[i];
    ft_turbo_hadamard_inverse(o, work, d);
}
