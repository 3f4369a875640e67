/* dev/cuda/attend/kv_encode.cuh - encoders of rows of the KV cache, byte for byte those of quant/:
 * sums that decide about a byte run over ascending indices, and multiply-adds are not fused. A warp
 * encodes a row, or a group of a turbo row. */
#ifndef FT_CUDA_KV_ENCODE_CUH
#define FT_CUDA_KV_ENCODE_CUH

#include "dev/cuda/attend/kv.cuh"

/* Writes the nearest finite f16 and returns the value that decoding gives. Blocks have even
 * addresses. (One store of two bytes: with two stores of one byte, nvcc 13.0 writes a wrong lower
 * one.) */
__device__ __forceinline__ float put_f16(unsigned char *to, float x)
{
    const __half h = __float2half_rn(fminf(fmaxf(x, -65504.0f), 65504.0f));
    *(uint16_t *)to = __half_as_ushort(h);
    return __half2float(h);
}

__device__ __forceinline__ uint16_t bf16_of(float x)
{
    const uint32_t u = __float_as_uint(x), top = u & 0x7fffffffu;
    if (top >= 0x7f800000u) return 0;
    if (top >= 0x7f7f8000u) return (uint16_t)((u >> 31 << 15) | 0x7f7f);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* The low eight bits of the integer nearest to v in [lo, hi]. */
__device__ __forceinline__ unsigned char whole_of(float v, float lo, float hi)
{
    v = v > lo ? v : lo;
    v = v < hi ? v : hi;
    return (unsigned char)__float_as_uint(__fadd_rn(v, 12582912.0f));
}

__device__ __forceinline__ float ratio(float a, float b)
{
    return b != 0 ? __fdiv_rn(a, b) : 0.0f;
}

/* Four lanes encode a block, eight values each. */
static __device__ void put_q8_0(unsigned char *to, const float *x, int d)
{
    const int lane = threadIdx.x & 31, end = (d + 31) / 32 * 32;
    for (int at = 8 * lane; at - 8 * lane < end; at += 256) {
        const bool inside = at < end;
        float v[8];
        uint32_t top = 0;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            v[i] = inside ? finite_or_zero(x[at + i]) : 0.0f;
            top = max(top, __float_as_uint(v[i]) & 0x7fffffffu);
        }
        for (int o = 1; o < 4; o *= 2) top = max(top, __shfl_xor_sync(0xffffffffu, top, o));
        const float scale = __fdiv_rn(__uint_as_float(top), 127.0f);
        const float seen = __half2float(__float2half_rn(fminf(scale, 65504.0f)));
        const float inverse = ratio(1, seen);
        unsigned char *block = to + at / 32 * 34;
        if (inside && lane % 4 == 0) put_f16(block, scale);
#pragma unroll
        for (int i = 0; i < 8; i += 2) {
            const int low = whole_of(__fmul_rn(v[i], inverse), -127, 127);
            const int high = whole_of(__fmul_rn(v[i + 1], inverse), -127, 127);
            if (inside) *(uint16_t *)(block + 2 + at % 32 + i) = (uint16_t)(low | high << 8);
        }
    }
}

/* A block of 32 values for an encoder that uses one lane. Values are scaled into [1, 2) by a power
 * of two, which changes no byte and keeps the sums in range. */
typedef struct block {
    const float *x;
    float mul, unit; /* unit = 1 / mul */
} block;

__device__ __forceinline__ float value_of(const block &b, int i)
{
    return __fmul_rn(finite_or_zero(b.x[i]), b.mul);
}

__device__ __forceinline__ block block_of(const float *x)
{
    uint32_t top = 0;
    for (int i = 0; i < 32; i++)
        top = max(top, __float_as_uint(finite_or_zero(x[i])) & 0x7fffffffu);
    const uint32_t e = min(top >> 23, 253u);
    return {x, e ? __uint_as_float((254 - e) << 23) : 0.0f, e ? __uint_as_float(e << 23) : 1.0f};
}

/* Writes a scale or minimum of the block, and returns what decoding gives. */
__device__ __forceinline__ float put_number(unsigned char *to, const block &b, float v)
{
    return __fdiv_rn(put_f16(to, __fmul_rn(v, b.unit)), b.unit);
}

/* The smallest and the largest value. */
__device__ __forceinline__ void bounds_of(const block &b, float &low, float &high)
{
    low = high = value_of(b, 0);
    for (int i = 1; i < 32; i++) {
        const float v = value_of(b, i);
        low = low < v ? low : v;
        high = high > v ? high : v;
    }
}

__device__ __forceinline__ float extreme_of(const block &b)
{
    float low, high;
    bounds_of(b, low, high);
    return -low > high ? low : high;
}

__device__ __forceinline__ float nearest_whole(float v)
{
    return __fsub_rn(__fadd_rn(v, 12582912.0f), 12582912.0f);
}

/* Codes of four or five bits: the integers nearest to x * mul + add. */
__device__ __forceinline__ void put_codes(unsigned char *to, const block &b, float mul, float add,
                                          bool five)
{
    uint32_t fifth = 0;
    unsigned char *codes = to + (five ? 4 : 0);
    for (int i = 0; i < 16; i++) {
        const float most = five ? 31 : 15;
        const int low = whole_of(__fadd_rn(__fmul_rn(value_of(b, i), mul), add), 0, most);
        const int high = whole_of(__fadd_rn(__fmul_rn(value_of(b, i + 16), mul), add), 0, most);
        codes[i] = (unsigned char)((low & 15) | high << 4);
        fifth |= (uint32_t)(low >> 4) << i | (uint32_t)(high >> 4) << (i + 16);
    }
    if (!five) return;
    *(uint16_t *)to = (uint16_t)fifth;
    *(uint16_t *)(to + 2) = (uint16_t)(fifth >> 16);
}

/* Q4_0 and Q5_0: the scale with the least squared error after one rounding. */
static __device__ void put_scaled_block(unsigned char *to, const float *x, bool five)
{
    const block b = block_of(x);
    const float most = five ? 15 : 7, spacing = ratio(five ? -16.1f : -8.15f, extreme_of(b));
    float xq = 0, qq = 0;
    for (int i = 0; i < 32; i++) {
        const float v = value_of(b, i);
        float q = nearest_whole(__fmul_rn(v, spacing));
        q = q < most ? q : most;
        xq = __fadd_rn(xq, __fmul_rn(q, v));
        qq = __fadd_rn(qq, __fmul_rn(q, q));
    }
    const float inverse = ratio(1, put_number(to, b, ratio(xq, qq)));
    put_codes(to + 2, b, inverse, five ? 16 : 8, five);
}

/* Q4_1 and Q5_1: the line with the least squared error after one rounding, or a constant. */
static __device__ void put_line_block(unsigned char *to, const float *x, bool five)
{
    const block b = block_of(x);
    const float most = five ? 31 : 15, cut = five ? 0.006f : 0.02f, n = 32;
    const float inner = __fsub_rn(__fsub_rn(1, cut), cut);
    float low, high, sx = 0, sq = 0, qq = 0, xq = 0;
    bounds_of(b, low, high);
    const float range = __fsub_rn(high, low), start = __fadd_rn(low, __fmul_rn(range, cut));
    const float spacing = ratio(most, __fmul_rn(range, inner));
    for (int i = 0; i < 32; i++) {
        const float v = value_of(b, i);
        float q = nearest_whole(__fmul_rn(__fsub_rn(v, start), spacing));
        q = q > 0 ? q : 0;
        q = q < most ? q : most;
        sx = __fadd_rn(sx, v);
        sq = __fadd_rn(sq, q);
        qq = __fadd_rn(qq, __fmul_rn(q, q));
        xq = __fadd_rn(xq, __fmul_rn(q, v));
    }
    float scale = ratio(__fsub_rn(__fmul_rn(n, xq), __fmul_rn(sx, sq)),
                        __fsub_rn(__fmul_rn(n, qq), __fmul_rn(sq, sq)));
    float min = __fdiv_rn(__fsub_rn(sx, __fmul_rn(scale, sq)), n);
    const float mean = __fdiv_rn(sx, n), twice = __fmul_rn(2, sx);
    const float flat = __fmul_rn(__fsub_rn(twice, __fmul_rn(mean, n)), mean);
    const float slope =
        __fsub_rn(__fmul_rn(2, __fsub_rn(xq, __fmul_rn(min, sq))), __fmul_rn(scale, qq));
    const float gain =
        __fadd_rn(__fmul_rn(scale, slope), __fmul_rn(min, __fsub_rn(twice, __fmul_rn(min, n))));
    if (!(gain > flat && scale > 0)) scale = 0, min = mean;
    const float inverse = ratio(1, put_number(to, b, scale));
    put_codes(to + 4, b, inverse, __fmul_rn(-put_number(to + 2, b, min), inverse), five);
}

/* Between neighbouring steps of IQ4_NL: a value above is nearer to the upper one. And how far apart
 * they are. */
static __constant__ float step_limit[15] = {-115.5f, -93.5f, -74,   -57,   -42, -28.5f, -16, -4.5f,
                                            7,       19,     31.5f, 45.5f, 61,  79,     101};
static __constant__ float step_rise[15] = {23, 21, 18, 16, 14, 13, 12, 11,
                                           12, 12, 13, 15, 16, 20, 24};

/* IQ4_NL: of several scales the one with the least squared error. */
static __device__ void put_steps_block(unsigned char *to, const float *x)
{
    const block b = block_of(x);
    const float trial[6] = {-127, -119, -110, -136, 113, 122};
    const float inverse = ratio(1, extreme_of(b));
    float scale = 0, best = 0;
    for (int t = 0; t <= 6; t++) {
        const float spacing = t < 6 ? __fmul_rn(inverse, trial[t]) : ratio(1, scale);
        float xq = 0, qq = 0;
        for (int i = 0; i < 32; i++) {
            const float v = value_of(b, i), at = __fmul_rn(v, spacing);
            float q = -127;
            for (int j = 0; j < 15; j++) q += at > step_limit[j] ? step_rise[j] : 0.0f;
            xq = __fadd_rn(xq, __fmul_rn(q, v));
            qq = __fadd_rn(qq, __fmul_rn(q, q));
        }
        const float s = ratio(xq, qq), gain = __fmul_rn(s, xq);
        if (gain > best) best = gain, scale = s;
    }
    const float spacing = ratio(1, put_number(to, b, scale));
    for (int i = 0; i < 16; i++) {
        const float low = __fmul_rn(value_of(b, i), spacing);
        const float high = __fmul_rn(value_of(b, i + 16), spacing);
        int code = 0;
        for (int j = 0; j < 15; j++)
            code += (low > step_limit[j]) + (high > step_limit[j] ? 16 : 0);
        to[2 + i] = (unsigned char)code;
    }
}

/* A lane encodes a block. */
static __device__ void put_blocks(int type, unsigned char *to, const float *x, int d, int bytes)
{
    for (int i = threadIdx.x & 31; i < d / 32; i += 32) {
        unsigned char *block = to + bytes * i;
        switch (type) {
        case FT_KV_Q4_0: put_scaled_block(block, x + 32 * i, false); break;
        case FT_KV_Q5_0: put_scaled_block(block, x + 32 * i, true); break;
        case FT_KV_Q4_1: put_line_block(block, x + 32 * i, false); break;
        case FT_KV_Q5_1: put_line_block(block, x + 32 * i, true); break;
        default: put_steps_block(block, x + 32 * i);
        }
    }
}

/* Every lane gets the sum of n values in their order. */
__device__ __forceinline__ float ordered_sum(const float *x, int n)
{
    float sum = 0;
    for (int i = 0; i < n; i += 4) {
        const float4 v = *(const float4 *)(x + i);
        sum = __fadd_rn(__fadd_rn(__fadd_rn(__fadd_rn(sum, v.x), v.y), v.z), v.w);
    }
    return sum;
}

/* The code of the nearest value, and the square of that value: codebooks are symmetric. */
__device__ __forceinline__ int nearest(const ft_turbo_format &f, float y, float *square)
{
    const int half = 1 << (f.bits - 1);
    int c = y >= 0 ? half : half - 1;
    float size = f.value[half];
    for (int j = 1; j < half; j++) {
        const bool above = y >= f.threshold[j], below = y < -f.threshold[j];
        c += above - below;
        size = above || below ? f.value[half + j] : size;
    }
    *square = __fmul_rn(size, size);
    return c;
}

/* N bits of each lane, in the order of the lanes. */
template <int N> __device__ __forceinline__ void put_bits(unsigned char *to, uint32_t bits)
{
    const int lane = threadIdx.x & 31;
    if (N == 16) {
        *(uint16_t *)(to + 2 * lane) = (uint16_t)bits;
        return;
    }
    bits <<= lane * N % 8;
#pragma unroll
    for (int o = 1; o * N < 8; o *= 2) bits |= __shfl_xor_sync(0xffffffffu, bits, o);
    if (lane * N % 8 == 0) to[lane * N / 8] = (unsigned char)bits;
}

/* The codes of a group, E per lane. The third bits follow all pairs. */
template <int E>
__device__ __forceinline__ void put_group_codes(unsigned char *to, int bits, const int (&code)[E])
{
    uint32_t four = 0, two = 0, third = 0;
#pragma unroll
    for (int e = 0; e < E; e++) {
        four |= (uint32_t)code[e] << 4 * e;
        two |= (uint32_t)(code[e] & 3) << 2 * e;
        third |= (uint32_t)(code[e] >> 2) << e;
    }
    if (bits == 4) {
        put_bits<4 * E>(to, four);
        return;
    }
    put_bits<2 * E>(to, two);
    if (bits == 3) put_bits<E>(to + 8 * E, third);
}

/* A group of 32 E values, E per lane. square: that many floats of scratch. */
template <int E>
static __device__ void put_group(unsigned char *to, float (&v)[E], const ft_turbo_format &f,
                                 const kv_hadamard &t, float *square)
{
    const int lane = threadIdx.x & 31, n = 32 * E;
    const float limit = 1e9f;
    int code[E];
#pragma unroll
    for (int e = 0; e < E; e++) {
        v[e] = fminf(fmaxf(finite_or_zero(v[e]), -limit), limit);
        square[E * lane + e] = __fmul_rn(v[e], v[e]);
    }
    __syncwarp();
    const float norm = __fsqrt_rn(ordered_sum(square, n));
    const float inverse = norm > 1e-10f ? __fdiv_rn(1.0f, norm) : 0.0f;
#pragma unroll
    for (int e = 0; e < E; e++) v[e] = __fmul_rn(v[e], inverse);
    hadamard_group(v, t.before, t.after, t.root_128);
    __syncwarp();
#pragma unroll
    for (int e = 0; e < E; e++) code[e] = nearest(f, v[e], &square[E * lane + e]);
    __syncwarp();
    const float size = ordered_sum(square, n);
    if (!lane) put_f16(to, __fdiv_rn(norm, __fsqrt_rn(size)));
    if (lane >= 2 && lane < f.head) to[lane] = 0;
    put_group_codes(to + f.head, f.bits, code);
}

/* Values first... of a head; mean may be NULL. */
template <int E>
__device__ __forceinline__ void load_group(float (&v)[E], const float *x, const float *mean, int d,
                                           int first)
{
    first += E * (threadIdx.x & 31);
#pragma unroll
    for (int e = 0; e < E; e++) v[e] = first + e < d ? x[first + e] : 0.0f;
    if (!mean) return;
#pragma unroll
    for (int e = 0; e < E; e++)
        if (first + e < d) v[e] = __fsub_rn(v[e], mean[first + e]);
}

/* Group number `group` of a turbo row. */
__device__ __forceinline__ void put_turbo(const kv_side &s, const kv_hadamard &t, unsigned char *to,
                                          const float *x, const float *mean, int group,
                                          float *square)
{
    to += group * s.group_bytes;
    if (t.group == 128) {
        float v[4];
        load_group(v, x, mean, s.d, group * 128);
        put_group(to, v, s.f, t, square);
    } else {
        float v[2];
        load_group(v, x, mean, s.d, group * 64);
        put_group(to, v, s.f, t, square);
    }
}

static __device__ void put_row(const kv_side &s, unsigned char *to, const float *x)
{
    const int lane = threadIdx.x & 31;
    switch (s.type) {
    case FT_KV_F32:
        for (int i = lane; i < s.d; i += 32) ((float *)to)[i] = finite_or_zero(x[i]);
        break;
    case FT_KV_F16:
        for (int i = lane; i < s.d; i += 32) ((uint16_t *)to)[i] = kv_half(x[i]);
        break;
    case FT_KV_BF16:
        for (int i = lane; i < s.d; i += 32) ((uint16_t *)to)[i] = bf16_of(x[i]);
        break;
    case FT_KV_Q8_0: put_q8_0(to, x, s.d); break;
    default: put_blocks(s.type, to, x, s.d, s.row / (s.d / 32));
    }
}

#endif
