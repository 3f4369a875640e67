#define _GNU_SOURCE
#include "base/rng.h"

#include <math.h>

double ft_rng_normal(ft_rng *r)
{
    const double u = 1.0 - ft_rng_f64(r), v = ft_rng_f64(r);
    return sqrt(-2.0 * log(u)) * cos(2.0 * M_PI * v);
}

uint64_t ft_fnv1a64(const void *p, size_t n)
{
    const unsigned char *b = p;
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) h = (h ^ b[i]) * 0x100000001b3u;
    return h;
}
