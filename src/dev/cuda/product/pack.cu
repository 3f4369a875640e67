/* Repacking of weights into the layouts of weights.cuh and weights_low.cuh, when they are uploaded.
 * A warp packs a unit, a lane its four pieces: what the lane multiplies with. */
#include "dev/cuda/product/pack.cuh"

/* Eight codes of 4 + `more` bits as code_pair() reads them: v gets four bits of each, and the
 * result has the others: for pairs 2c and 2c + 1 from bit 2 * more * c on, in both half-words. */
__device__ __forceinline__ uint32_t pack_code_pairs(const int *q, int more, uint32_t &v)
{
    uint32_t others = 0;
    v = 0;
    for (int j = 0; j < 8; j++) {
        const int pair = j / 2, half = 16 * (j % 2), odd = pair % 2;
        const uint32_t code = (uint32_t)q[j], mask = (1u << more) - 1;
        v |= (odd ? code >> more : code & 15) << (4 * pair + half);
        others |= (odd ? code & mask : code >> 4 << more) << (2 * more * (pair / 2) + half);
    }
    return others;
}

/* Four bytes in the order 0 2 1 3. */
__device__ __forceinline__ uint32_t pack_bytes(const int *q)
{
    return (uint32_t)q[0] | (uint32_t)q[2] << 8 | (uint32_t)q[1] << 16 | (uint32_t)q[3] << 24;
}

/* As signs and magnitudes: FP4 has them already, IQ4 and TQ4_1S order their codes by value. */
__device__ __forceinline__ uint32_t pack_signed(int type, const int *q)
{
    uint32_t v = 0;
    for (int j = 0; j < 8; j++) {
        const bool fp4 = type == FT_MXFP4 || type == FT_NVFP4, minus = fp4 == (q[j] >> 3 != 0);
        const int size = minus && !fp4 ? 7 - q[j] : q[j] & 7;
        v |= (uint32_t)size << 4 * j | (uint32_t)minus << (j < 4 ? 8 * j + 7 : 8 * (j - 4) + 3);
    }
    return v;
}

__device__ __forceinline__ uint32_t bf_bits(float x)
{
    return __bfloat16_as_ushort(__float2bfloat16_rn(x));
}

/* A scale of half h and row i: of 32 columns, written by the first of their four lanes, or of 16,
 * next to the other scales of these columns. */
__device__ __forceinline__ void put_scale_32(uint8_t *u, float s, int h, int i, int lane)
{
    if (!(lane & 3)) ((uint16_t *)u)[4 * (lane >> 2) + 2 * i + h] = (uint16_t)bf_bits(s);
}

__device__ __forceinline__ void put_scale_16(uint8_t *u, float s, int h, int i, int lane)
{
    if (!(lane & 1)) ((uint16_t *)u)[4 * (lane >> 1) + 2 * i + h] = (uint16_t)bf_bits(s);
}

/* What a lane packs: columns [k, k + 8) of a row, which may be outside the matrix. */
struct piece {
    const uint8_t *row; /* NULL: zeros */
    int k;
};

/* Eight values: w = q * s + m. Q2_K and Q3_K: s and m are those of the block, and `sub` is the
 * stored scale (and minimum) of 16 values. */
struct piece_codes {
    int q[8], sub;
    float s, m;
};

/* Types with blocks of 256. */
__device__ static void codes_256(int type, const piece &p, piece_codes &c)
{
    const int b = p.k / 256, i = p.k % 256, i32 = p.k % 32, b16 = i / 16;
    switch (type) {
    case FT_Q2_K: {
        const uint8_t *x = p.row + (size_t)84 * b, *q = x + 16 + 32 * (i / 128) + i32;
        c.s = rd_f16(x + 80);
        c.m = -rd_f16(x + 82);
        c.sub = x[b16];
        for (int j = 0; j < 8; j++) c.q[j] = q[j] >> 2 * (i / 32 % 4) & 3;
        return;
    }
    case FT_Q3_K: {
        const uint8_t *x = p.row + (size_t)110 * b, *q = x + 32 + 32 * (i / 128) + i32;
        const uint8_t *h = x + i32, *sc = x + 96;
        c.s = rd_f16(x + 108);
        c.sub = (sc[b16 % 8] >> 4 * (b16 / 8) & 15) | (sc[8 + b16 % 4] >> 2 * (b16 / 4) & 3) << 4;
        for (int j = 0; j < 8; j++)
            c.q[j] = (q[j] >> 2 * (i / 32 % 4) & 3) | (h[j] >> i / 32 & 1) << 2;
        return;
    }
    case FT_Q4_K:
    case FT_Q5_K: {
        const bool five = type == FT_Q5_K;
        const uint8_t *x = p.row + (size_t)(five ? 176 : 144) * b;
        const uint8_t *q = x + (five ? 48 : 16) + 32 * (i / 64) + i32, *h = x + 16 + i32;
        int sc, mn;
        scale_min_k4(x + 4, i / 32, sc, mn);
        c.s = rd_f16(x) * (float)sc;
        c.m = -rd_f16(x + 2) * (float)mn;
        for (int j = 0; j < 8; j++) {
            c.q[j] = q[j] >> 4 * (i / 32 % 2) & 15;
            if (five) c.q[j] |= (h[j] >> i / 32 & 1) << 4;
        }
        return;
    }
    case FT_Q6_K: {
        const int g = b16 / 2 % 4;
        const uint8_t *x = p.row + (size_t)210 * b, *lo = x + 64 * (b16 / 8) + 32 * (g % 2) + i32;
        const uint8_t *hi = x + 128 + 32 * (b16 / 8) + i32;
        c.s = rd_f16(x + 208) * (float)(int8_t)x[192 + b16];
        for (int j = 0; j < 8; j++)
            c.q[j] = (lo[j] >> 4 * (g / 2) & 15) | (hi[j] >> 2 * g & 3) << 4;
        return;
    }
    case FT_IQ4_XS: {
        const uint8_t *x = p.row + (size_t)136 * b, *q = x + 8 + 16 * (i / 32) + i32 % 16;
        const int ls = (x[4 + i / 64] >> 4 * (i / 32 % 2) & 15) | (rd16(x + 2) >> 2 * (i / 32) & 3)
                                                                      << 4;
        c.s = rd_f16(x) * (float)(ls - 32);
        for (int j = 0; j < 8; j++) c.q[j] = q[j] >> 4 * (i32 / 16) & 15;
        return;
    }
    }
}

/* Types with blocks of 32, and NVFP4. */
__device__ static void codes_32(int type, const piece &p, piece_codes &c)
{
    const int b32 = p.k / 32, i32 = p.k % 32, at = i32 % 16, up = 4 * (i32 / 16);
    switch (type) {
    case FT_Q4_1: {
        const uint8_t *x = p.row + (size_t)20 * b32;
        c.s = rd_f16(x);
        c.m = rd_f16(x + 2);
        for (int j = 0; j < 8; j++) c.q[j] = x[4 + at + j] >> up & 15;
        return;
    }
    case FT_Q5_0:
    case FT_Q5_1: {
        const bool one = type == FT_Q5_1; /* it stores an offset */
        const uint8_t *x = p.row + (size_t)(one ? 24 : 22) * b32, *h = x + (one ? 4 : 2);
        const uint32_t high = rd32(h) >> i32;
        c.s = rd_f16(x);
        c.m = one ? rd_f16(x + 2) : -16 * c.s;
        for (int j = 0; j < 8; j++) c.q[j] = (h[4 + at + j] >> up & 15) | (int)(high >> j & 1) << 4;
        return;
    }
    case FT_Q8_0: {
        const uint8_t *x = p.row + (size_t)34 * b32;
        c.s = rd_f16(x);
        for (int j = 0; j < 8; j++) c.q[j] = (int8_t)x[2 + i32 + j] + 128;
        return;
    }
    case FT_Q4_0:
    case FT_IQ4_NL: {
        const uint8_t *x = p.row + (size_t)18 * b32;
        c.s = rd_f16(x);
        for (int j = 0; j < 8; j++) c.q[j] = x[2 + at + j] >> up & 15;
        return;
    }
    case FT_MXFP4: {
        const uint8_t *x = p.row + (size_t)17 * b32;
        c.s = half_e8m0(x[0]);
        for (int j = 0; j < 8; j++) c.q[j] = x[1 + at + j] >> up & 15;
        return;
    }
    case FT_NVFP4: {
        const int i64 = p.k % 64;
        const uint8_t *x = p.row + (size_t)36 * (p.k / 64), *q = x + 4 + 8 * (i64 / 16);
        c.s = half_ue4m3(x[i64 / 16]);
        for (int j = 0; j < 8; j++) c.q[j] = q[j] >> 4 * (i64 / 8 % 2) & 15;
        return;
    }
    case FT_TQ3_1S: {
        const uint8_t *x = p.row + (size_t)16 * b32, *q = x + 4 + 3 * (i32 / 8);
        c.s = rd_f16(x + 2 * (i32 / 16)) * TQ3_STEP;
        const uint32_t all = rd16(q) | (uint32_t)q[2] << 16;
        for (int j = 0; j < 8; j++) c.q[j] = (int)(all >> 3 * j & 7);
        return;
    }
    case FT_TQ4_1S: {
        const uint8_t *x = p.row + (size_t)20 * b32, *q = x + 4 + i32 / 2;
        c.s = rd_f16(x + 2 * (i32 / 16)) * TQ4_STEP;
        for (int j = 0; j < 8; j++) c.q[j] = q[j / 2] >> 4 * (j % 2) & 15;
        return;
    }
    }
}

/* Types with codes for -1, 0, 1 and 2 and a scale for at least 64 columns. */
__device__ static void codes_ternary(int type, const piece &p, piece_codes &c)
{
    const int b = p.k / 256, i = p.k % 256;
    switch (type) {
    case FT_TQ1_0: {
        const uint8_t *x = p.row + (size_t)54 * b;
        c.s = rd_f16(x + 52);
        for (int j = 0; j < 8; j++) c.q[j] = 1 + (int)tq1_0(x, i + j, 1.0f);
        return;
    }
    case FT_TQ2_0: {
        const uint8_t *x = p.row + (size_t)66 * b, *q = x + 32 * (i / 128) + i % 32;
        c.s = rd_f16(x + 64);
        for (int j = 0; j < 8; j++) c.q[j] = q[j] >> 2 * (i / 32 % 4) & 3;
        return;
    }
    case FT_Q1_0: {
        const uint8_t *x = p.row + (size_t)18 * (p.k / 128);
        c.s = rd_f16(x);
        for (int j = 0; j < 8; j++) c.q[j] = x[2 + p.k % 128 / 8] >> j & 1 ? 2 : 0;
        return;
    }
    default: { /* Q2_0 */
        const uint8_t *x = p.row + (size_t)18 * (p.k / 64), *q = x + 2 + p.k % 64 / 4;
        c.s = rd_f16(x);
        for (int j = 0; j < 8; j++) c.q[j] = q[j / 4] >> 2 * (j % 4) & 3;
        return;
    }
    }
}

/* Outside the matrix: zeros. */
__device__ static piece_codes codes(int type, const piece &p)
{
    piece_codes c = {};
    for (int j = 0; j < 8; j++) c.q[j] = type == FT_Q8_0 ? 128 : 0;
    if (!p.row) return c;
    switch (type) {
    case FT_Q2_K:
    case FT_Q3_K:
    case FT_Q4_K:
    case FT_Q5_K:
    case FT_Q6_K:
    case FT_IQ4_XS: codes_256(type, p, c); return c;
    case FT_TQ1_0:
    case FT_TQ2_0:
    case FT_Q1_0:
    case FT_Q2_0:
    case FT_Q2_0_FORK: codes_ternary(type, p, c); return c;
    default: codes_32(type, p, c); return c;
    }
}

/* The types with codes of four bits and more: codes and scales of both halves and rows of a lane.
 */
__device__ static void pack_codes(int type, uint8_t *u, const piece p[2][2], int lane)
{
    uint32_t *q = (uint32_t *)u + 4 * lane, others[2] = {0, 0};
    const int g = lane >> 2, t = lane & 3, as = packed_as(type);
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < 2; i++) {
            const piece_codes c = codes(type, p[h][i]);
            const int more = as == FT_Q5_K ? 1 : as == FT_Q6_K ? 2 : 0;
            uint32_t v = 0;
            switch (as) {
            case FT_Q4_K:
            case FT_Q5_K:
                if (!t)
                    ((uint32_t *)(u + (more ? 640 : 512)))[4 * g + 2 * i + h] =
                        bf_bits(c.s * code_scale(4 - more)) | bf_bits(c.m / CODE_FACTOR) << 16;
                others[0] |= pack_code_pairs(c.q, more, v) << (8 * h + 4 * i);
                break;
            case FT_Q6_K:
                put_scale_16(u + 768, c.s * code_scale(4 - more), h, i, lane);
                others[h] |= pack_code_pairs(c.q, more, v) << 8 * i;
                break;
            case FT_Q4_0:
                put_scale_32(u + 512, c.s * code_scale(4), h, i, lane);
                pack_code_pairs(c.q, more, v);
                break;
            case FT_Q8_0:
                put_scale_32(u + 1024, c.s * code_scale(0), h, i, lane);
                for (int j = 0; j < 2; j++)
                    ((uint32_t *)(u + 512 * h))[4 * lane + 2 * i + j] = pack_bytes(c.q + 4 * j);
                continue;
            case FT_NVFP4:
            case FT_TQ4_1S: put_scale_16(u + 512, c.s * code_scale(0), h, i, lane); break;
            default: put_scale_32(u + 512, c.s * code_scale(0), h, i, lane); break;
            }
            if (as == FT_IQ4_NL || as == FT_MXFP4 || as == FT_NVFP4 || as == FT_TQ4_1S)
                v = pack_signed(as, c.q);
            q[2 * h + i] = v;
        }
    if (as == FT_Q5_K) ((uint32_t *)(u + 512))[lane] = others[0];
    if (as == FT_Q6_K) ((uint2 *)(u + 512))[lane] = make_uint2(others[0], others[1]);
}

/* Codes of two and three bits. */
__device__ static void pack_low(int type, uint8_t *u, const piece p[2][2], int lane)
{
    uint32_t q[3] = {0, 0, 0};
    const int g = lane >> 2, t = lane & 3, as = packed_as(type);
    const bool threes = as == FT_Q3_K || as == FT_TQ3_1S;
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < 2; i++) {
            const piece_codes c = codes(type, p[h][i]);
            for (int j = 0; j < 8; j++) {
                const uint32_t code = (uint32_t)c.q[j];
                if (!threes)
                    q[h] |= code << (8 * i + 2 * (j / 2) + 16 * (j % 2));
                else if (h && i)
                    for (int b = 0; b < 3; b++) q[b] |= (code >> b & 1) << (4 * j + 3);
                else
                    q[2 * h + i] |= code << 4 * j;
            }
            const int row = 2 * g + i;
            switch (as) {
            case FT_Q2_K:
                if (!(t & 1)) u[256 + 4 * row + 2 * h + t / 2] = (uint8_t)c.sub;
                if (!t && !h)
                    ((uint32_t *)(u + 320))[row] =
                        bf_bits(c.s * code_scale(6)) | bf_bits(c.m / CODE_FACTOR) << 16;
                break;
            case FT_Q3_K:
                if (!(t & 1)) u[384 + 4 * row + 2 * h + t / 2] = (uint8_t)c.sub;
                if (!t && !h) ((uint16_t *)(u + 448))[row] = (uint16_t)bf_bits(c.s * code_scale(0));
                break;
            case FT_TQ3_1S: put_scale_16(u + 384, c.s * code_scale(0), h, i, lane); break;
            default: /* TQ2_0 */
                if (!t && !h) ((uint16_t *)(u + 256))[row] = (uint16_t)bf_bits(c.s * code_scale(6));
            }
        }
    ((uint2 *)u)[lane] = make_uint2(q[0], q[1]);
    if (threes) ((uint32_t *)(u + 256))[lane] = q[2];
}

/* Scales of 4 bits at `scales`, and d times a factor at `scales` + 32; the thread with the first of
 * 16 columns writes a byte of two: of both halves. */
__device__ static void put_scale_4(uint8_t *scales, const grid_codes c[2][2], float factor,
                                   int lane)
{
    const int g = lane >> 2, t = lane & 3;
    for (int i = 0; i < 2; i++) {
        const uint32_t other0 = __shfl_down_sync(~0u, c[0][i].sub, 2);
        const uint32_t other1 = __shfl_down_sync(~0u, c[1][i].sub, 2);
        if (t) continue;
        ((uint16_t *)scales)[2 * g + i] = (uint16_t)((uint32_t)c[0][i].sub | other0 << 4 |
                                                     (uint32_t)c[1][i].sub << 8 | other1 << 12);
        ((uint16_t *)(scales + 32))[2 * g + i] = (uint16_t)bf_bits(c[0][i].d * factor);
    }
}

__device__ static grid_codes codes_grid(int type, const piece &p)
{
    if (!p.row) return {};
    switch (packed_as(type)) {
    case FT_IQ1_M: return iq1_codes(type, p.row, p.k);
    case FT_IQ2_XXS:
    case FT_IQ2_S: return iq2_codes(type, p.row, p.k);
    default: return iq3_codes(type, p.row, p.k);
    }
}

__device__ static float grid_scale(const grid_codes &c)
{
    return c.d * ((float)c.sub + 0.5f) * code_scale(0);
}

/* Codebook indices, with the higher bits apart, and signs. All lanes of a warp call it together. */
__device__ static void pack_grid(int type, uint8_t *u, const piece p[2][2], int lane)
{
    const int as = packed_as(type);
    uint32_t low[2] = {0, 0}, top = 0, signs = 0;
    grid_codes c[2][2];
    for (int n = 0; n < 4; n++) {
        const int h = n / 2, i = n % 2;
        const grid_codes &x = c[h][i] = codes_grid(type, p[h][i]);
        for (int j = 0; j < 8; j++) signs |= (x.signs >> j & 1) << (8 * (j % 4) + 2 * n + j / 4);
        switch (as) {
        case FT_IQ1_M: top |= (x.index[0] >> 8 | (x.signs & 8)) << 4 * n; break;
        case FT_IQ2_XXS:
        case FT_IQ2_S: top |= x.index[0] >> 8 << 2 * n; break;
        default:
            top |= (x.index[0] >> 8 | x.index[1] >> 8 << 1) << 2 * n;
            low[h] |= ((x.index[0] & 255) | (x.index[1] & 255) << 8) << 16 * i;
            put_scale_32(u + 384, grid_scale(x), h, i, lane);
            continue;
        }
        low[0] |= (x.index[0] & 255) << 8 * n;
    }
    uint32_t *words = (uint32_t *)u;
    switch (as) {
    case FT_IQ1_M:
        words[lane] = low[0];
        ((uint16_t *)(u + 128))[lane] = (uint16_t)top;
        put_scale_4(u + 192, c, code_scale(6), lane);
        break;
    case FT_IQ2_XXS:
        words[lane] = low[0];
        words[32 + lane] = signs;
        for (int n = 0; n < 4; n++) {
            const grid_codes &x = c[n / 2][n % 2];
            put_scale_32(u + 256, grid_scale(x), n / 2, n % 2, lane);
        }
        break;
    case FT_IQ2_S:
        words[lane] = low[0];
        words[32 + lane] = signs;
        u[256 + lane] = (uint8_t)top;
        put_scale_4(u + 288, c, code_scale(0), lane);
        break;
    default:
        ((uint2 *)u)[lane] = make_uint2(low[0], low[1]);
        words[64 + lane] = signs;
        if (as == FT_IQ3_S) u[448 + lane] = (uint8_t)top;
    }
}

/* Clamped to the largest f16; NaN stays. */
__device__ __forceinline__ uint16_t half_bits(float v)
{
    return __half_as_ushort(__float2half_rn(fabsf(v) > 65504.0f ? copysignf(65504.0f, v) : v));
}

/* Plain numbers as F32 or, if `half`, as layout Half; zeros outside the matrix. */
__device__ static void pack_plain(int type, bool half, uint8_t *u, const piece p[2][2], int K,
                                  int lane)
{
    const int g = lane >> 2, t = lane & 3;
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 8; j++) {
                const int o = g + 8 * i;
                const bool some = p[h][i].row && p[h][i].k + j < K;
                const float v = some ? plain_value(type, p[h][i].row, p[h][i].k + j) : 0.0f;
                if (!half)
                    ((float *)u)[128 * (4 * h + 2 * i + j / 4) + 4 * lane + j % 4] = v;
                else
                    ((uint16_t *)u)[64 * o + wide_column(o, 32 * h + 8 * t + j)] =
                        half_bits(v * OPERAND_RANGE);
            }
}

/* A weight as it is packed. */
typedef struct packing {
    uint8_t *dst;
    const uint8_t *src;
    size_t row_bytes, all;                   /* of src; units */
    int type, as, n, k, units, tiles, bytes; /* in the file, on the GPU (packed_as) */
} packing;

/* A warp packs a unit. Experts are stored one after the other, each in whole tiles. */
static __global__ void pack_kernel(const packing w)
{
    const size_t id = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) >> 5;
    const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    if (id >= w.all) return;
    const int u = (int)(id % w.units), tile = (int)(id / w.units % w.tiles);
    const size_t e = id / w.units / w.tiles;
    piece p[2][2];
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < 2; i++) {
            const int o = tile * TILE_N + g + 8 * i, k = u * UNIT_K + 32 * h + 8 * t;
            const bool some = o < w.n && k < w.k;
            p[h][i].row = some ? w.src + (e * w.n + o) * w.row_bytes : NULL;
            p[h][i].k = k;
        }
    uint8_t *to = w.dst + id * w.bytes;
    switch (w.as) {
    case FT_F32:
    case FT_F16: pack_plain(w.type, w.as == FT_F16, to, p, w.k, lane); break;
    case FT_IQ1_M:
    case FT_IQ2_XXS:
    case FT_IQ2_S:
    case FT_IQ3_XXS:
    case FT_IQ3_S: pack_grid(w.type, to, p, lane); break;
    case FT_Q2_K:
    case FT_Q3_K:
    case FT_TQ2_0:
    case FT_TQ3_1S: pack_low(w.type, to, p, lane); break;
    default: pack_codes(w.type, to, p, lane); break;
    }
}

void ft_weights_pack(ft_cuda *c, const ft_weight *w, const void *raw)
{
    packing p = {};
    p.dst = (uint8_t *)w->packed;
    p.src = (const uint8_t *)raw;
    p.row_bytes = w->row_bytes;
    p.type = w->type;
    p.as = packed_as(ft_product_type(w));
    p.n = w->n;
    p.k = w->k;
    p.units = ft_units(w->k);
    p.tiles = (w->n + TILE_N - 1) / TILE_N;
    p.bytes = ft_unit_bytes(ft_product_type(w));
    p.all = (size_t)p.tiles * p.units * w->E;
    FT_LAUNCH(c, pack_kernel, ft_blocks(p.all, 8), 256, 0, p);
}
