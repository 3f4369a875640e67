/* dev/cuda/attend/encodings.cuh - rows of the KV cache in shared memory, decoded to halves in
 * registers in the order in which the tensor cores take them.
 *
 * Keys: a product takes 16 columns at a time, and lane l of a warp supplies columns 2 t, 2 t + 1,
 * 2 t + 8 and 2 t + 9 of row l / 4, with t = l % 4. Which value of a head is in which column does
 * not matter as long as queries and keys agree (key_column), so the four columns of a lane are four
 * consecutive values: of its quarter of every 16 values for encodings in blocks, of its quarter of
 * the whole row for turbo encodings. f16 rows keep their order.
 *
 * Values: a lane supplies a column at two neighbouring positions, so it decodes the same four
 * values of two rows and pairs them.
 *
 * Rows have even addresses. Words are read at multiples of four and shifted, a few bytes beyond the
 * row. */
#ifndef FT_CUDA_ENCODINGS_CUH
#define FT_CUDA_ENCODINGS_CUH

#include "dev/cuda/attend/kv.cuh"

/* The column of value i of a key; i is even, and the next value has the next column. */
template <int D> __device__ __forceinline__ int key_column(const kv_side &s, int i)
{
    if (s.type == FT_KV_F16) return i;
    const int t = s.hadamard ? i / (D / 4) : i / 4 % 4;
    const int step = s.hadamard ? i % (D / 4) / 4 : i / 16;
    return 16 * step + 2 * t + i % 4 / 2 * 8;
}

/* ---- bytes and halves ---- */

__device__ __forceinline__ uint32_t two_bytes(const unsigned char *p)
{
    return *(const uint16_t *)p;
}

/* Four bytes at an even address. ODD: 1 if it is known to be no multiple of four, 0 if it is one,
 * -1 if that is in `odd`. */
template <int ODD> __device__ __forceinline__ uint32_t four_bytes(const unsigned char *p, bool odd)
{
    if (ODD == 0) return *(const uint32_t *)p;
    const int back = ODD == 1 || odd ? 2 : 0;
    const uint32_t *at = (const uint32_t *)(p - back);
    return __byte_perm(at[0], at[1], back ? 0x5432 : 0x3210);
}

__device__ __forceinline__ __half2 as_halves(uint32_t v)
{
    __half2 h;
    memcpy(&h, &v, 4);
    return h;
}

__device__ __forceinline__ uint32_t bits_of(__half2 h)
{
    uint32_t u;
    memcpy(&u, &h, 4);
    return u;
}

__device__ __forceinline__ __half half_at(const unsigned char *p)
{
    return __ushort_as_half(*(const uint16_t *)p);
}

/* Four bytes n as the halves 1024 + n, in two words: such a half has the bits 0x6400 | n. */
__device__ __forceinline__ void widen(uint32_t four, uint32_t &p0, uint32_t &p1)
{
    p0 = __byte_perm(four, 0x64, 0x4140);
    p1 = __byte_perm(four, 0x64, 0x4342);
}

/* A table of eight halves in registers, as low bytes and high bytes. Of a symmetric codebook of
 * sixteen values it is the upper half. */
typedef struct codebook {
    uint32_t low[2], high[2];
} codebook;

__device__ __forceinline__ codebook codebook_of(const uint16_t *table)
{
    codebook b;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const uint2 v = ((const uint2 *)table)[i];
        b.low[i] = __byte_perm(v.x, v.y, 0x6420);
        b.high[i] = __byte_perm(v.x, v.y, 0x7531);
    }
    return b;
}

/* ---- encodings in blocks of 32 ---- */

/* A block is a scale of 2 bytes, in some encodings a minimum of 2, the fifth bits of the codes in
 * 4, then codes. A value is scale * (code - OFFSET), or scale * code + minimum. */
template <int TYPE> struct block_format {
    enum {
        MIN = TYPE == FT_KV_Q4_1 || TYPE == FT_KV_Q5_1,
        FIVE = TYPE == FT_KV_Q5_0 || TYPE == FT_KV_Q5_1,
        FIFTH = MIN ? 4 : 2,
        CODES = FIFTH + (FIVE ? 4 : 0),
        BYTES = CODES + (TYPE == FT_KV_Q8_0 ? 32 : 16),
        ODD = CODES % 4 / 2, /* codes of block 0 are at an odd multiple of two; so are, where */
        ALTERNATE = BYTES % 4 / 2, /* blocks alternate, those of every second block */
        OFFSET = MIN                  ? 0
                 : TYPE == FT_KV_Q4_0 ? 8
                 : TYPE == FT_KV_Q5_0 ? 16
                                      : 128
    };
};

/* Four bits into the fifth bits of four bytes. */
__device__ __forceinline__ uint32_t fifth_bits(uint32_t bits)
{
    return ((bits & 15) * 0x00204081u & 0x01010101u) << 4;
}

/* The values of four codes of IQ4_NL, given as nibbles; 128 is added to them. */
__device__ __forceinline__ uint32_t iq4_nl_values(uint32_t code)
{
    const uint32_t at = code & 0x7777u, upper = __byte_perm(0xff00u, 0, code >> 3 & 0x1111u);
    const uint32_t low = __byte_perm(0x3f2d1801u, 0x766a5d4fu, at);
    const uint32_t high = __byte_perm(0xa6998d81u, 0xf1d9c5b5u, at);
    return (low & ~upper) | (high & upper);
}

/* The codes of values 4 q .. 4 q + 3 of a block as bytes. Nibbles of values i and i + 16 share a
 * byte. ODD, odd: whether the block's codes are at an odd multiple of two (four_bytes). */
template <int TYPE, int ODD>
__device__ __forceinline__ uint32_t block_codes(const unsigned char *b, int q, bool odd)
{
    typedef block_format<TYPE> F;
    if (TYPE == FT_KV_Q8_0)
        return four_bytes<ODD>(b + F::CODES + 4 * q, odd) ^ 0x80808080u; /* 128 more */
    const uint32_t word = four_bytes<ODD>(b + F::CODES + q % 4 * 4, odd);
    if (TYPE == FT_KV_IQ4_NL)
        return __byte_perm(iq4_nl_values(word), iq4_nl_values(word >> 16), q < 4 ? 0x6420 : 0x7531);
    const uint32_t low = word >> q / 4 * 4 & 0x0f0f0f0fu;
    return F::FIVE ? low | fifth_bits(four_bytes<ODD>(b + F::FIFTH, odd) >> 4 * q) : low;
}

template <int TYPE>
__device__ __forceinline__ uint32_t block_values(uint32_t halves, __half2 scale, __half2 min)
{
    typedef block_format<TYPE> F;
    const __half2 minus = as_halves((0xe400u | F::OFFSET) * 0x10001u); /* -1024 - OFFSET */
    const __half2 code = __hadd2(as_halves(halves), minus);
    return bits_of(F::MIN ? __hfma2(code, scale, min) : __hmul2(code, scale));
}

/* A lane's part of a key row whose values are in order, t = lane % 4. */
struct plain_part {
    enum { WIDE = 0 };
    const unsigned char *row;
    int t;

    __device__ __forceinline__ void open(const unsigned char *at, int part)
    {
        row = at;
        t = part;
    }

    /* The first of the values in x, or in z, of keys(j). */
    __device__ __forceinline__ int first(int j, int half) const
    {
        return 32 * j + 16 * half + 4 * t;
    }
};

/* BYTES: of a row, a multiple of four. */
template <int D, int TYPE> struct block_rows : plain_part {
    typedef block_format<TYPE> F;
    enum { BYTES = D / 32 * F::BYTES };

    /* Values 32 j + 4 t ... + 3 in x and y, those 16 further in z and w. */
    __device__ __forceinline__ uint4 keys(int j, const codebook &) const
    {
        const unsigned char *b = row + j * F::BYTES;
        const __half2 scale = __half2half2(half_at(b));
        const __half2 min = F::MIN ? __half2half2(half_at(b + 2)) : scale;
        uint4 v;
        if ((F::ODD + j * F::ALTERNATE) % 2) {
            widen(block_codes<TYPE, 1>(b, t, true), v.x, v.y);
            widen(block_codes<TYPE, 1>(b, t + 4, true), v.z, v.w);
        } else {
            widen(block_codes<TYPE, 0>(b, t, false), v.x, v.y);
            widen(block_codes<TYPE, 0>(b, t + 4, false), v.z, v.w);
        }
        return make_uint4(block_values<TYPE>(v.x, scale, min), block_values<TYPE>(v.y, scale, min),
                          block_values<TYPE>(v.z, scale, min), block_values<TYPE>(v.w, scale, min));
    }

    /* v[i]: value 4 q + i of rows a and b. */
    static __device__ __forceinline__ void values(uint32_t (&v)[4], const codebook &,
                                                  const unsigned char *a, const unsigned char *b,
                                                  int q)
    {
        const bool odd = (F::ODD + q / 8 * F::ALTERNATE) % 2;
        a += q / 8 * F::BYTES;
        b += q / 8 * F::BYTES;
        const __half2 scale = __halves2half2(half_at(a), half_at(b));
        const __half2 min = F::MIN ? __halves2half2(half_at(a + 2), half_at(b + 2)) : scale;
        const uint32_t x = block_codes<TYPE, -1>(a, q % 8, odd);
        const uint32_t y = block_codes<TYPE, -1>(b, q % 8, odd);
        widen(__byte_perm(x, y, 0x5140), v[0], v[1]);
        widen(__byte_perm(x, y, 0x7362), v[2], v[3]);
#pragma unroll
        for (int i = 0; i < 4; i++) v[i] = block_values<TYPE>(v[i], scale, min);
    }
};

/* ---- bf16 ---- */

/* Two bf16, one from each word, as halves. */
__device__ __forceinline__ uint32_t halves_of_bf16(uint32_t a, uint32_t b)
{
    const float x = __uint_as_float(a << 16), y = __uint_as_float(b << 16);
    return pack_half(fminf(fmaxf(x, -65504.0f), 65504.0f), fminf(fmaxf(y, -65504.0f), 65504.0f));
}

template <int D> struct bf16_rows : plain_part {
    enum { BYTES = 2 * D };

    __device__ __forceinline__ uint4 keys(int j, const codebook &) const
    {
        const uint2 a = *(const uint2 *)(row + 2 * first(j, 0));
        const uint2 b = *(const uint2 *)(row + 2 * first(j, 1));
        return make_uint4(halves_of_bf16(a.x, a.x >> 16), halves_of_bf16(a.y, a.y >> 16),
                          halves_of_bf16(b.x, b.x >> 16), halves_of_bf16(b.y, b.y >> 16));
    }

    static __device__ __forceinline__ void values(uint32_t (&v)[4], const codebook &,
                                                  const unsigned char *a, const unsigned char *b,
                                                  int q)
    {
        const uint2 x = *(const uint2 *)(a + 8 * q), y = *(const uint2 *)(b + 8 * q);
        v[0] = halves_of_bf16(x.x, y.x);
        v[1] = halves_of_bf16(x.x >> 16, y.x >> 16);
        v[2] = halves_of_bf16(x.y, y.y);
        v[3] = halves_of_bf16(x.y >> 16, y.y >> 16);
    }
};

/* ---- turbo encodings ---- */

/* Eight codes of two bits, or eight bits, into the lower bits of nibbles. */
__device__ __forceinline__ uint32_t spread_twos(uint32_t v)
{
    v = (v | v << 8) & 0x00ff00ffu;
    v = (v | v << 4) & 0x0f0f0f0fu;
    return (v | v << 2) & 0x33333333u;
}

__device__ __forceinline__ uint32_t spread_ones(uint32_t v)
{
    v = (v | v << 12) & 0x000f000fu;
    v = (v | v << 6) & 0x03030303u;
    return (v | v << 3) & 0x11111111u;
}

/* Four codes of two bits of a and four of b, or four bits of each, into the lower bits of nibbles:
 * a0 b0 a1 b1 a2 b2 a3 b3. */
__device__ __forceinline__ uint32_t pair_twos(uint32_t a, uint32_t b)
{
    const uint32_t v = ((a | a << 12) & 0x000f000fu) | ((b << 4 | b << 16) & 0x00f000f0u);
    return (v | v << 6) & 0x33333333u;
}

__device__ __forceinline__ uint32_t pair_ones(uint32_t a, uint32_t b)
{
    const uint32_t v = ((a | a << 14) & 0x00030003u) | ((b << 4 | b << 18) & 0x00300030u);
    return (v | v << 7) & 0x11111111u;
}

/* The values of four codes, which are the nibbles of the low half of `code`: their low bytes and
 * their high bytes. The codebooks of four bits are symmetric: of their codes, negative ones are
 * complemented, and the highest bits of the bytes of `minus` are the signs. */
__device__ __forceinline__ void look_up(const codebook &b, uint32_t code, uint32_t minus,
                                        uint32_t &low, uint32_t &high)
{
    low = __byte_perm(b.low[0], b.low[1], code);
    high = __byte_perm(b.high[0], b.high[1], code) ^ (minus & 0x80808080u);
}

/* Splits eight codes of four bits into three bits for look_up and signs. */
__device__ __forceinline__ uint32_t split_signs(uint32_t code, uint32_t &minus0, uint32_t &minus1)
{
    const uint32_t up = code << 4, negative = ~(code >> 3) & 0x11111111u;
    minus0 = ~__byte_perm(up, code, 0x5140);
    minus1 = ~__byte_perm(up, code, 0x7362);
    return (code ^ negative * 7) & 0x77777777u;
}

/* Words from an even address on. */
template <int N>
__device__ __forceinline__ void load_words(uint32_t (&w)[N], const unsigned char *p)
{
    const int odd = (int)((uintptr_t)p & 2);
    const uint32_t *from = (const uint32_t *)(p - odd);
    uint32_t word = from[0];
#pragma unroll
    for (int i = 0; i < N; i++) {
        const uint32_t next = from[i + 1];
        w[i] = __funnelshift_r(word, next, 8 * odd);
        word = next;
    }
}

__device__ __forceinline__ uint32_t times(uint32_t halves, __half2 scale)
{
    return bits_of(__hmul2(as_halves(halves), scale));
}

/* A lane's quarter of a key row. HEAD: bytes in front of a group's codes. */
template <int D, int BITS, int HEAD> struct turbo_rows {
    enum {
        WIDE = 1, /* attend_few.cuh: a lane has eight consecutive values instead of twice four */
        GROUP = D % 128 ? 64 : 128,
        GROUP_BYTES = HEAD + GROUP * BITS / 8,
        BYTES = D / GROUP * GROUP_BYTES,
        PART = D / 4,
        PLANE = BITS == 4 ? 4 : 2, /* bits of a code in the first plane */
        WORDS = PART * PLANE / 32,
        THIRDS = PART / 32 ? PART / 32 : 1
    };
    uint32_t low[WORDS], third[THIRDS];
    __half2 scale;
    int t;

    __device__ __forceinline__ void open(const unsigned char *at, int part)
    {
        t = part;
        const int from = t * PART % GROUP;
        const unsigned char *b = at + t * PART / GROUP * GROUP_BYTES, *codes = b + HEAD;
        scale = __half2half2(half_at(b));
        load_words(low, codes + from * PLANE / 8);
        if (BITS == 3) load_words(third, codes + GROUP / 4 + from / 8);
    }

    __device__ __forceinline__ int first(int j, int half) const
    {
        return t * PART + 8 * j + 4 * half;
    }

    /* Values 8 j .. 8 j + 7 of the quarter. */
    __device__ __forceinline__ uint4 keys(int j, const codebook &book) const
    {
        uint32_t code, minus0 = 0, minus1 = 0, lo, hi;
        if (BITS == 4) {
            code = split_signs(low[j], minus0, minus1);
        } else {
            code = spread_twos(low[j / 2] >> 16 * (j % 2) & 0xffff);
            if (BITS == 3) code |= spread_ones(third[j / 4] >> 8 * (j % 4) & 0xff) << 2;
        }
        uint4 v;
        look_up(book, code, minus0, lo, hi);
        v.x = times(__byte_perm(lo, hi, 0x5140), scale);
        v.y = times(__byte_perm(lo, hi, 0x7362), scale);
        look_up(book, code >> 16, minus1, lo, hi);
        v.z = times(__byte_perm(lo, hi, 0x5140), scale);
        v.w = times(__byte_perm(lo, hi, 0x7362), scale);
        return v;
    }

    static __device__ __forceinline__ void values(uint32_t (&v)[4], const codebook &book,
                                                  const unsigned char *a, const unsigned char *b,
                                                  int q)
    {
        const int group = 4 * q / GROUP * GROUP_BYTES, at = 4 * q % GROUP;
        a += group;
        b += group;
        const __half2 both = __halves2half2(half_at(a), half_at(b));
        a += HEAD;
        b += HEAD;
        uint32_t code, minus0 = 0, minus1 = 0, lo, hi;
        if (BITS == 4) { /* a0 a1 b0 b1 a2 a3 b2 b3 */
            code = __byte_perm(two_bytes(a + at / 2), two_bytes(b + at / 2), 0x5140);
            code = split_signs(code, minus0, minus1);
        } else {
            code = pair_twos(a[at / 4], b[at / 4]);
            const int third = GROUP / 4 + at / 8, shift = at / 4 % 2 * 4;
            if (BITS == 3) code |= pair_ones(a[third] >> shift & 15, b[third] >> shift & 15) << 2;
        }
        enum { FIRST = BITS == 4 ? 0x6240 : 0x5140, SECOND = BITS == 4 ? 0x7351 : 0x7362 };
        look_up(book, code, minus0, lo, hi);
        v[0] = times(__byte_perm(lo, hi, FIRST), both);
        v[1] = times(__byte_perm(lo, hi, SECOND), both);
        look_up(book, code >> 16, minus1, lo, hi);
        v[2] = times(__byte_perm(lo, hi, FIRST), both);
        v[3] = times(__byte_perm(lo, hi, SECOND), both);
    }
};

/* Runs a statement with ROWS defined as the decoder of a side's encoding; D is the size of a head.
 */
#define ENCODING(types, rows, ...)                                                                 \
    types : {                                                                                      \
        typedef rows ROWS;                                                                         \
        __VA_ARGS__;                                                                               \
        break;                                                                                     \
    }
#define BLOCKS(type, ...) ENCODING(case type, block_rows<D COMMA type>, __VA_ARGS__)
#define COMMA             ,
#define FOR_ENCODING(side, ...)                                                                    \
    switch ((side).type) {                                                                         \
        BLOCKS(FT_KV_Q8_0, __VA_ARGS__)                                                            \
        BLOCKS(FT_KV_Q4_0, __VA_ARGS__)                                                            \
        BLOCKS(FT_KV_Q4_1, __VA_ARGS__)                                                            \
        BLOCKS(FT_KV_Q5_0, __VA_ARGS__)                                                            \
        BLOCKS(FT_KV_Q5_1, __VA_ARGS__)                                                            \
        BLOCKS(FT_KV_IQ4_NL, __VA_ARGS__)                                                          \
        ENCODING(case FT_KV_BF16, bf16_rows<D>, __VA_ARGS__)                                       \
        ENCODING(case FT_KV_TURBO2, turbo_rows<D COMMA 2 COMMA 2>, __VA_ARGS__)                    \
        ENCODING(case FT_KV_TURBO3, turbo_rows<D COMMA 3 COMMA 2>, __VA_ARGS__)                    \
        ENCODING(case FT_KV_TURBO4, turbo_rows<D COMMA 4 COMMA 2>, __VA_ARGS__)                    \
        ENCODING(default, turbo_rows<D COMMA 4 COMMA 4>, __VA_ARGS__)                              \
    }

/* ---- pages ---- */

/* Expands a page of rows to a tile of halves: keys in the order of key_column. A warp takes eight
 * rows, eight lanes at a time the same quarter of them. */
template <int D, typename ROWS>
__device__ __forceinline__ void expand_rows(unsigned char *tile, const unsigned char *raw,
                                            const codebook &book, bool keys)
{
    const int lane = threadIdx.x & 31, r = threadIdx.x / 32 * 8 + lane % 8, t = lane / 8;
    ROWS rows;
    rows.open(raw + r * ROWS::BYTES, t);
#pragma unroll 4
    for (int j = 0; j < D / 32; j++) {
        const uint4 v = rows.keys(j, book);
        const uint32_t pair[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
            if (keys) {
                unsigned char *to = tile + 4 * t;
                *(uint32_t *)(to + 16 * swizzled(r, 4 * j + i, D / 8)) = pair[i];
                *(uint32_t *)(to + 16 * swizzled(r, 4 * j + i + 1, D / 8)) = pair[i + 1];
            } else {
                const int at = rows.first(j, i / 2);
                *(uint2 *)(tile + 16 * swizzled(r, at / 8, D / 8) + 2 * (at % 8)) =
                    make_uint2(pair[i], pair[i + 1]);
            }
        }
    }
}

#endif
