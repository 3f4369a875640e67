/* base/rng.h - reproducible random numbers, the same on every machine.
 * ft_rng is a stream (splitmix64). ft_rng_at depends only on seed, position and stream, not on how
 * many numbers were generated before. */
#ifndef FT_BASE_RNG_H
#define FT_BASE_RNG_H

#include "base/both.h"

#include <stddef.h>
#include <stdint.h>

typedef struct ft_rng {
    uint64_t state;
} ft_rng;

FT_BOTH uint64_t ft_mix64(uint64_t z)
{
    z ^= z >> 30;
    z *= 0xBF58476D1CE4E5B9u;
    z ^= z >> 27;
    z *= 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static inline uint64_t ft_rng_u64(ft_rng *r)
{
    return ft_mix64(r->state += 0x9E3779B97F4A7C15u);
}

FT_BOTH double ft_unit_f64(uint64_t bits) /* [0, 1) */
{
    return (double)(bits >> 11) * 0x1p-53;
}

static inline double ft_rng_f64(ft_rng *r) /* [0, 1) */
{
    return ft_unit_f64(ft_rng_u64(r));
}

/* 64 random bits computed from (seed, position, stream). */
FT_BOTH uint64_t ft_rng_at(uint64_t seed, uint64_t position, uint32_t stream)
{
    const uint64_t a = ft_mix64(seed + 0x9E3779B97F4A7C15u * (position + 1));
    return ft_mix64(a ^ ft_mix64(0xD1B54A32D192ED03u * ((uint64_t)stream + 1) + seed));
}

double ft_rng_normal(ft_rng *r);              /* mean 0, variance 1 */
uint64_t ft_fnv1a64(const void *p, size_t n); /* FNV-1a */

#endif
