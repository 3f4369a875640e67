/* base/half.h - exact conversions of binary16 and bfloat16, including subnormals, infinities and
 * NaN. Encoding rounds to nearest, ties to even; a NaN becomes a quiet NaN. */
#ifndef FT_BASE_HALF_H
#define FT_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t ft_f32_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}

static inline float ft_f32_of_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, 4);
    return x;
}

static inline float ft_bf16_to_f32(uint16_t h)
{
    return ft_f32_of_bits((uint32_t)h << 16);
}

static inline uint16_t ft_f32_to_bf16(float x)
{
    const uint32_t u = ft_f32_bits(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 0x40u);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

static inline float ft_f16_to_f32(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, e = (h >> 10) & 31u, m = h & 1023u;
    if (e == 31) return ft_f32_of_bits(sign | 0x7f800000u | m << 13);
    if (e) return ft_f32_of_bits(sign | (e + 112u) << 23 | m << 13);
    const float v = (float)m * 0x1p-24f;
    return sign ? -v : v;
}

static inline uint16_t ft_f32_to_f16(float x)
{
    const uint32_t u = ft_f32_bits(x), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
    if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((a >> 13) & 0x3ffu));
    if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* rounds past 65504 */
    if (a < 0x38800000u) { /* subnormal: the addition rounds at 2^-24 */
        const float s = ft_f32_of_bits(a) + 0.5f;
        return (uint16_t)(sign | (ft_f32_bits(s) - 0x3f000000u));
    }
    return (uint16_t)(sign | ((a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13));
}

#endif
