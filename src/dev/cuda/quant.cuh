/* dev/cuda/quant.cuh - decodes eight values of a row in file layout, for every type: the device
 * version of quant/. Used for lookups and for repacking. Rows may have any alignment; k is a
 * multiple of eight, except for rows of plain numbers.
 */
#ifndef FT_DEV_CUDA_QUANT_CUH
#define FT_DEV_CUDA_QUANT_CUH

#include "dev/cuda/common.cuh"

/* The tables of quant/grids.h, concatenated. */
enum {
    GRID_IQ2XXS = 0,
    GRID_IQ2XS = 256,
    GRID_IQ2S = 768,
    GRID_IQ3XXS = 1792,
    GRID_IQ3S = 2048,
    GRID_IQ1S = 2560,
    GRID_ALL = 4608
};

__device__ __forceinline__ uint32_t rd16(const uint8_t *p)
{
    return p[0] | p[1] << 8;
}

__device__ __forceinline__ uint32_t rd32(const uint8_t *p)
{
    return rd16(p) | rd16(p + 2) << 16;
}

__device__ __forceinline__ float rd_f16(const uint8_t *p)
{
    return __half2float(__ushort_as_half((unsigned short)rd16(p)));
}

__device__ __forceinline__ int iq4_value(int q)
{
    const int8_t v[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    return v[q];
}

__device__ __forceinline__ int fp4_value(int q)
{
    const int8_t v[8] = {0, 1, 2, 3, 4, 6, 8, 12};
    return q & 8 ? -v[q & 7] : v[q];
}

__device__ __forceinline__ float half_e8m0(uint32_t e)
{
    return __uint_as_float(e < 2 ? 0x00200000u << e : (e - 1) << 23);
}

__device__ __forceinline__ float half_ue4m3(uint32_t b)
{
    const uint32_t e = b >> 3 & 15, m = b & 7;
    if (b == 0 || b == 0x7f) return 0.0f;
    if (e == 0) return (float)m * 0x1p-10f;
    return __uint_as_float((e + 119) << 23 | m << 20);
}

__device__ __forceinline__ void scale_min_k4(const uint8_t *s, int b, int &scale, int &min)
{
    if (b < 4) {
        scale = s[b] & 63;
        min = s[b + 4] & 63;
    } else {
        scale = (s[b + 4] & 15) | s[b - 4] >> 6 << 4;
        min = s[b + 4] >> 4 | s[b] >> 6 << 4;
    }
}

__device__ __forceinline__ uint32_t even_signs(uint32_t v)
{
    v &= 127;
    return v | (__popc(v) & 1) << 7;
}

__device__ __forceinline__ void put_iq2(float *v, uint32_t entry, uint32_t signs, float scale)
{
    for (int j = 0; j < 8; j++) {
        const uint32_t c = entry >> 2 * j & 3;
        const float x = scale * (c == 0 ? 8.0f : c == 1 ? 25.0f : 43.0f);
        v[j] = signs >> j & 1 ? -x : x;
    }
}

/* Undoes the signs and the Walsh-Hadamard transform of 32 values. */
__device__ __noinline__ static void unrotate8(float *v, const uint8_t *s, int i, bool four)
{
    const float book3[8] = {-1.996684f, -1.291398f, -0.740341f, -0.247508f,
                            0.230106f,  0.725222f,  1.277503f,  1.988943f};
    const float book4[8] = {0.128395f, 0.388048f, 0.656759f, 0.942340f,
                            1.256231f, 1.618046f, 2.069017f, 2.732590f};
    float x[32];
    const float d[2] = {rd_f16(s), rd_f16(s + 2)};
    for (int j = 0; j < 32; j++) {
        float b;
        if (four) {
            const int q = s[4 + j / 2] >> 4 * (j % 2) & 15;
            b = q < 8 ? -book4[7 - q] : book4[q - 8];
        } else {
            const uint8_t *p = s + 4 + 3 * (j / 8);
            b = book3[(rd16(p) | (uint32_t)p[2] << 16) >> 3 * (j % 8) & 7];
        }
        x[j] = b * d[j / 16];
    }
    for (int h = 1; h < 32; h *= 2)
        for (int a = 0; a < 32; a += 2 * h)
            for (int j = a; j < a + h; j++) {
                const float p = x[j], q = x[j + h];
                x[j] = p + q;
                x[j + h] = p - q;
            }
    for (int j = 0; j < 8; j++)
        v[j] =
            x[i + j] * (0x696b4b4au >> (i + j) & 1 ? -0.17677669529663688f : 0.17677669529663688f);
}

__device__ __forceinline__ float trit(uint32_t byte, int digit, float d)
{
    const int pow3[5] = {1, 3, 9, 27, 81};
    const uint32_t fraction = (byte * pow3[digit]) & 255;
    return (float)((int)(fraction * 3 >> 8) - 1) * d;
}

__device__ __forceinline__ float tq1_0(const uint8_t *s, int i, float d)
{
    if (i < 160) return trit(s[i % 32], i / 32, d);
    if (i < 240) return trit(s[32 + (i - 160) % 16], (i - 160) / 16, d);
    return trit(s[48 + (i - 240) % 4], (i - 240) / 4, d);
}

/* The types with 32 values and one scale. */
__device__ __forceinline__ bool decode_simple(int type, const uint8_t *row, int k, float *v)
{
    const int b = k / 32, i = k % 32, at = i % 16, up = 4 * (i / 16);
    switch (type) {
    case FT_Q4_0: {
        const uint8_t *s = row + 18 * b;
        const float d = rd_f16(s);
        for (int j = 0; j < 8; j++) v[j] = (float)((s[2 + at + j] >> up & 15) - 8) * d;
        return true;
    }
    case FT_Q4_1: {
        const uint8_t *s = row + 20 * b;
        const float d = rd_f16(s), m = rd_f16(s + 2);
        for (int j = 0; j < 8; j++) v[j] = (float)(s[4 + at + j] >> up & 15) * d + m;
        return true;
    }
    case FT_Q5_0: {
        const uint8_t *s = row + 22 * b;
        const float d = rd_f16(s);
        const uint32_t high = rd32(s + 2) >> i;
        for (int j = 0; j < 8; j++)
            v[j] = (float)((int)((s[6 + at + j] >> up & 15) | (high >> j & 1) << 4) - 16) * d;
        return true;
    }
    case FT_Q5_1: {
        const uint8_t *s = row + 24 * b;
        const float d = rd_f16(s), m = rd_f16(s + 2);
        const uint32_t high = rd32(s + 4) >> i;
        for (int j = 0; j < 8; j++)
            v[j] = (float)((s[8 + at + j] >> up & 15) | (high >> j & 1) << 4) * d + m;
        return true;
    }
    case FT_Q8_0: {
        const uint8_t *s = row + 34 * b;
        const float d = rd_f16(s);
        for (int j = 0; j < 8; j++) v[j] = (float)(int8_t)s[2 + i + j] * d;
        return true;
    }
    case FT_IQ4_NL: {
        const uint8_t *s = row + 18 * b;
        const float d = rd_f16(s);
        for (int j = 0; j < 8; j++) v[j] = d * (float)iq4_value(s[2 + at + j] >> up & 15);
        return true;
    }
    case FT_MXFP4: {
        const uint8_t *s = row + 17 * b;
        const float d = half_e8m0(s[0]);
        for (int j = 0; j < 8; j++) v[j] = (float)fp4_value(s[1 + at + j] >> up & 15) * d;
        return true;
    }
    case FT_TQ3_1S: unrotate8(v, row + 16 * b, i, false); return true;
    case FT_TQ4_1S: unrotate8(v, row + 20 * b, i, true); return true;
    default: return false;
    }
}

/* The types with 256 values and scales of scales. */
__device__ __forceinline__ bool decode_k(int type, const uint8_t *row, int k, float *v)
{
    const int b = k / 256, i = k % 256, b16 = i / 16, b32 = i / 32, in16 = i % 16;
    switch (type) {
    case FT_Q2_K: {
        const uint8_t *s = row + 84 * b, *q = s + 16 + 32 * (b16 / 8) + 16 * (b16 % 2) + in16;
        const float scale = rd_f16(s + 80) * (float)(s[b16] & 15);
        const float min = rd_f16(s + 82) * (float)(s[b16] >> 4);
        for (int j = 0; j < 8; j++) v[j] = scale * (float)(q[j] >> 2 * (b16 / 2 % 4) & 3) - min;
        return true;
    }
    case FT_Q3_K: {
        const uint8_t *s = row + 110 * b, *sc = s + 96;
        const uint8_t *q = s + 32 + 32 * (b16 / 8) + 16 * (b16 % 2) + in16;
        const uint8_t *h = s + 16 * (b16 % 2) + in16;
        const int lo = sc[b16 % 8] >> 4 * (b16 / 8) & 15, hi = sc[8 + b16 % 4] >> 2 * (b16 / 4) & 3;
        const float scale = rd_f16(s + 108) * (float)((lo | hi << 4) - 32);
        for (int j = 0; j < 8; j++)
            v[j] =
                scale * (float)(((q[j] >> 2 * (b16 / 2 % 4) & 3) | (h[j] >> b16 / 2 & 1) << 2) - 4);
        return true;
    }
    case FT_Q4_K:
    case FT_Q5_K: {
        const bool five = type == FT_Q5_K;
        const uint8_t *s = row + (five ? 176 : 144) * b;
        const uint8_t *q = s + (five ? 48 : 16) + 32 * (b32 / 2) + i % 32, *h = s + 16 + i % 32;
        int sc, mn;
        scale_min_k4(s + 4, b32, sc, mn);
        const float scale = rd_f16(s) * (float)sc, min = rd_f16(s + 2) * (float)mn;
        for (int j = 0; j < 8; j++) {
            int x = q[j] >> 4 * (b32 % 2) & 15;
            if (five) x |= (h[j] >> b32 & 1) << 4;
            v[j] = scale * (float)x - min;
        }
        return true;
    }
    case FT_Q6_K: {
        const int g = b16 / 2 % 4, r = 16 * (b16 % 2) + in16;
        const uint8_t *s = row + 210 * b, *lo = s + 64 * (b16 / 8) + 32 * (g % 2) + r;
        const uint8_t *hi = s + 128 + 32 * (b16 / 8) + r;
        const float scale = rd_f16(s + 208) * (float)(int8_t)s[192 + b16];
        for (int j = 0; j < 8; j++)
            v[j] = scale * (float)(((lo[j] >> 4 * (g / 2) & 15) | (hi[j] >> 2 * g & 3) << 4) - 32);
        return true;
    }
    case FT_IQ4_XS: {
        const uint8_t *s = row + 136 * b, *q = s + 8 + 16 * b32 + in16;
        const int ls = (s[4 + b32 / 2] >> 4 * (b32 % 2) & 15) | (rd16(s + 2) >> 2 * b32 & 3) << 4;
        const float scale = rd_f16(s) * (float)(ls - 32);
        for (int j = 0; j < 8; j++) v[j] = scale * (float)iq4_value(q[j] >> 4 * (i / 16 % 2) & 15);
        return true;
    }
    default: return false;
    }
}

/* Ternary types: blocks of 256 values of -1, 0 and 1. */
__device__ __forceinline__ bool decode_ternary(int type, const uint8_t *row, int k, float *v)
{
    const int b = k / 256, i = k % 256, b32 = i / 32;
    switch (type) {
    case FT_TQ1_0: {
        const uint8_t *s = row + 54 * b;
        const float d = rd_f16(s + 52);
        for (int j = 0; j < 8; j++) v[j] = tq1_0(s, i + j, d);
        return true;
    }
    case FT_TQ2_0: {
        const uint8_t *s = row + 66 * b;
        const float d = rd_f16(s + 64);
        for (int j = 0; j < 8; j++)
            v[j] = (float)((s[32 * (b32 / 4) + i % 32 + j] >> 2 * (b32 % 4) & 3) - 1) * d;
        return true;
    }
    default: return false;
    }
}

/* Eight values of a type with a codebook: one index of eight values or two of four, a bit for each
 * value (IQ1: all equal) and the scale (sub + 1/2) d. */
struct grid_codes {
    uint32_t index[2], signs;
    int sub;
    float d;
};

__device__ __forceinline__ grid_codes iq1_codes(int type, const uint8_t *row, int k)
{
    const int b = k / 256, g = k % 256 / 8;
    if (type == FT_IQ1_S) {
        const uint8_t *s = row + 50 * b;
        const uint32_t h = rd16(s + 34 + 2 * (g / 4));
        return {{s[2 + g] | (h >> 3 * (g % 4) & 7) << 8, 0},
                h >> 15 ? 255u : 0,
                (int)(h >> 12 & 7),
                2 * rd_f16(s)};
    }
    const uint8_t *s = row + 56 * b, *sc = s + 48; /* IQ1_M */
    const uint32_t h = sc[1] >> 4 | (sc[3] & 0xf0) | (sc[5] & 0xf0) << 4 | (sc[7] & 0xf0) << 8;
    const uint32_t nibble = s[32 + g / 2] >> 4 * (g % 2) & 15;
    return {{s[g] | (nibble & 7) << 8, 0},
            nibble & 8 ? 255u : 0,
            (int)(rd16(sc + 2 * (g / 8)) >> 3 * (g / 2 % 4) & 7),
            2 * __half2float(__ushort_as_half((unsigned short)h))};
}

__device__ __forceinline__ grid_codes iq2_codes(int type, const uint8_t *row, int k)
{
    const int b = k / 256, g = k % 256 / 8;
    if (type == FT_IQ2_XXS) {
        const uint8_t *s = row + 66 * b, *r = s + 2 + 8 * (g / 4);
        const uint32_t w = rd32(r + 4);
        return {{r[g % 4], 0}, even_signs(w >> 7 * (g % 4)), (int)(w >> 28), 0.25f * rd_f16(s)};
    }
    if (type == FT_IQ2_XS) {
        const uint8_t *s = row + 74 * b;
        const uint32_t w = rd16(s + 2 + 2 * g);
        return {{w & 511, 0},
                even_signs(w >> 9),
                s[66 + g / 4] >> 4 * (g / 2 % 2) & 15,
                0.25f * rd_f16(s)};
    }
    const uint8_t *s = row + 82 * b; /* IQ2_S */
    return {{s[2 + g] | (s[66 + g / 4] >> 2 * (g % 4) & 3u) << 8, 0},
            s[34 + g],
            s[74 + g / 4] >> 4 * (g / 2 % 2) & 15,
            0.25f * rd_f16(s)};
}

__device__ __forceinline__ grid_codes iq3_codes(int type, const uint8_t *row, int k)
{
    const int b = k / 256, g = k % 256 / 8;
    if (type == FT_IQ3_XXS) {
        const uint8_t *s = row + 98 * b;
        const uint32_t w = rd32(s + 66 + 4 * (g / 4));
        return {{s[2 + 2 * g], s[3 + 2 * g]},
                even_signs(w >> 7 * (g % 4)),
                (int)(w >> 28),
                0.5f * rd_f16(s)};
    }
    const uint8_t *s = row + 110 * b; /* IQ3_S */
    const uint32_t high = s[66 + g / 4] >> 2 * (g % 4);
    return {{s[2 + 2 * g] | (high & 1) << 8, s[3 + 2 * g] | (high & 2) << 7},
            s[74 + g],
            s[106 + g / 8] >> 4 * (g / 4 % 2) & 15,
            2 * rd_f16(s)};
}

/* The types whose values are vectors of a codebook; each has 256 values. */
__device__ __forceinline__ bool decode_grid(int type, const uint8_t *row, int k, float *v,
                                            const uint16_t *grid)
{
    switch (type) {
    case FT_IQ1_S:
    case FT_IQ1_M: {
        const grid_codes c = iq1_codes(type, row, k);
        const float delta = c.signs ? -0.125f : 0.125f, scale = c.d * ((float)c.sub + 0.5f);
        const uint32_t entry = grid[GRID_IQ1S + c.index[0]];
        for (int j = 0; j < 8; j++) v[j] = scale * ((float)((int)(entry >> 2 * j & 3) - 1) + delta);
        return true;
    }
    case FT_IQ2_XXS:
    case FT_IQ2_XS:
    case FT_IQ2_S: {
        const grid_codes c = iq2_codes(type, row, k);
        const int from = type == FT_IQ2_XXS  ? GRID_IQ2XXS
                         : type == FT_IQ2_XS ? GRID_IQ2XS
                                             : GRID_IQ2S;
        put_iq2(v, grid[from + c.index[0]], c.signs, c.d * ((float)c.sub + 0.5f));
        return true;
    }
    case FT_IQ3_XXS:
    case FT_IQ3_S: {
        const grid_codes c = iq3_codes(type, row, k);
        const bool s = type == FT_IQ3_S;
        const float scale = c.d * ((float)c.sub + 0.5f);
        for (int j = 0; j < 8; j++) {
            const uint32_t index = c.index[j / 4] + (s ? GRID_IQ3S : GRID_IQ3XXS);
            const uint32_t q = grid[index] >> 3 * (j % 4) & 7;
            const float x = scale * (s        ? 1.0f + 2.0f * (float)q
                                     : q == 7 ? 62.0f
                                              : 4.0f + 8.0f * (float)q);
            v[j] = c.signs >> j & 1 ? -x : x;
        }
        return true;
    }
    default: return false;
    }
}

__device__ __forceinline__ float plain_value(int type, const uint8_t *row, int i)
{
    switch (type) {
    case FT_F32: return __uint_as_float(rd32(row + 4 * (size_t)i));
    case FT_F16: return rd_f16(row + 2 * (size_t)i);
    case FT_BF16: return __uint_as_float(rd16(row + 2 * (size_t)i) << 16);
    case FT_F64: {
        const uint8_t *p = row + 8 * (size_t)i;
        return (float)__longlong_as_double((long long)((uint64_t)rd32(p + 4) << 32 | rd32(p)));
    }
    default: return (float)(int16_t)rd16(row + 2 * (size_t)i); /* I16 */
    }
}

/* Values [k, k + 8) of a row of K values; zeros beyond its end. */
__device__ __forceinline__ void decode8(int type, const uint8_t *row, int k, int K, float *v,
                                        const uint16_t *grid)
{
    if (k >= K) {
        for (int j = 0; j < 8; j++) v[j] = 0.0f;
        return;
    }
    if (decode_simple(type, row, k, v) || decode_k(type, row, k, v) ||
        decode_ternary(type, row, k, v) || decode_grid(type, row, k, v, grid))
        return;
    switch (type) {
    case FT_NVFP4: {
        const int i = k % 64;
        const uint8_t *s = row + 36 * (k / 64), *q = s + 4 + 8 * (i / 16);
        const float d = half_ue4m3(s[i / 16]);
        for (int j = 0; j < 8; j++) v[j] = (float)fp4_value(q[j] >> 4 * (i / 8 % 2) & 15) * d;
        return;
    }
    case FT_Q1_0: {
        const uint8_t *s = row + 18 * (k / 128);
        const float d = rd_f16(s);
        for (int j = 0; j < 8; j++) v[j] = s[2 + k % 128 / 8] >> j & 1 ? d : -d;
        return;
    }
    case FT_Q2_0:
    case FT_Q2_0_FORK: {
        const uint8_t *s = row + 18 * (k / 64);
        const float d = rd_f16(s);
        for (int j = 0; j < 8; j++)
            v[j] = (float)((s[2 + (k % 64 + j) / 4] >> 2 * (j % 4) & 3) - 1) * d;
        return;
    }
    default:
        for (int j = 0; j < 8; j++) v[j] = k + j < K ? plain_value(type, row, k + j) : 0.0f;
    }
}

#endif
