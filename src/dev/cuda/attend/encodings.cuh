/* dev/cuda/attend/encodings.cuh - rows of the KV cache in shared memory, decoded to halves in
 * registers in the order in which the tensor cores take them.
 *
 * Keys: a product takes 16 columns at a time, and lane l of a warp supplies columns 2 t, 2 t + 1,
 * 2 t + 8 and 2 t + 9 of row l / 4, with t = l % 4. Which value of a head is in which column does
 * not matter as long as queries and keys agree (key_column), so the four columns of a lane are four
 * consecutive values: of its quarter of every 16 values for encodings in blocks, of its quarter of
 * the whole row for turbo encodings. With codes of two and three bits the two values with even
 * numbers come first: every second code of a word is a nibble with one operation. f16 rows keep
 * their order.
 *
 * Values: a lane supplies a column at two neighbouring positions, so it decodes the same values of
 * two rows and pairs them.
 *
 * Rows have even addresses. Words are read at multiples of four and shifted, a few bytes beyond the
 * row. */
#ifndef FT_CUDA_ENCODINGS_CUH
#define FT_CUDA_ENCODINGS_CUH

#include "dev/cuda/attend/kv.cuh"

/* The column of value i of a key. */
template <int D> __device__ __forceinline__ int key_column(const kv_side &s, int i)
{
    if (s.type == FT_KV_F16) return i;
    const int t = s.hadamard ? i / (D / 4) : i / 4 % 4;
    const int step = s.hadamard ? i % (D / 4) / 4 : i / 16;
    const bool even_first = s.hadamard && s.f.bits < 4;
    const int pair = even_first ? i % 2 : i % 4 / 2, at = even_first ? i % 4 / 2 : i % 2;
    return 16 * step + 2 * t + 8 * pair + at;
}

/* ---- bytes and halves ---- */

__device__ __forceinline__ uint32_t two_bytes(const unsigned char *p)
{
    return *(const uint16_t *)p;
}

/* Four bytes at an even address. ODD: it is no multiple of four. */
template <bool ODD> __device__ __forceinline__ uint32_t four_bytes(const unsigned char *p)
{
    if (!ODD) return *(const uint32_t *)p;
    const uint32_t *at = (const uint32_t *)(p - 2);
    return __byte_perm(at[0], at[1], 0x5432);
}

/* The bits of a where mask has ones, of b elsewhere. */
__device__ __forceinline__ uint32_t choose_bits(uint32_t mask, uint32_t a, uint32_t b)
{
    uint32_t v;
    asm("lop3.b32 %0, %1, %2, %3, 0xca;" : "=r"(v) : "r"(mask), "r"(a), "r"(b));
    return v;
}

/* Four of the eight bytes of b and a, by the nibbles of the low half of `which`, all below eight:
 * __byte_perm without a mask for that. */
__device__ __forceinline__ uint32_t pick_bytes(uint32_t a, uint32_t b, uint32_t which)
{
    uint32_t v;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(v) : "r"(a), "r"(b), "r"(which));
    return v;
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

__device__ __forceinline__ uint32_t times(uint32_t halves, __half2 scale)
{
    return bits_of(__hmul2(as_halves(halves), scale));
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
    uint32_t pairs; /* attend_few.cuh, codes of four bits: a lane's copy (put_pairs) */
} codebook;

/* A table in shared memory of the values of every byte, which is two codes of four bits, 32 times:
 * each lane reads its own copy, from its own bank. codes: the values of sixteen codes. */
enum { PAIRS_BYTES = 256 * 32 * 4 };

__device__ __forceinline__ void put_pairs(unsigned char *pairs, const uint16_t *codes, int threads)
{
    for (int i = threadIdx.x; i < PAIRS_BYTES / 16; i += threads) {
        const uint32_t v = codes[i / 8 % 16] | (uint32_t)codes[i / 128] << 16;
        ((uint4 *)pairs)[i] = make_uint4(v, v, v, v);
    }
}

/* The values of byte j of x. A dot product of bytes computes the address. */
template <int J> __device__ __forceinline__ uint32_t pair_of(const codebook &b, uint32_t x)
{
    uint32_t at, v;
    asm("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(at) : "r"(x), "n"(0x80u << 8 * J), "r"(b.pairs));
    asm("ld.shared.b32 %0, [%1];" : "=r"(v) : "r"(at));
    return v;
}

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

/* The same values times a scale. */
__device__ __forceinline__ codebook scaled_book(const codebook &b, __half2 scale)
{
    codebook to = b;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const uint32_t x = times(__byte_perm(b.low[i], b.high[i], 0x5140), scale);
        const uint32_t y = times(__byte_perm(b.low[i], b.high[i], 0x7362), scale);
        to.low[i] = __byte_perm(x, y, 0x6420);
        to.high[i] = __byte_perm(x, y, 0x7531);
    }
    return to;
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
    const uint32_t at = code & 0x7777u, upper = pick_bytes(0xff00u, 0, code >> 3 & 0x1111u);
    const uint32_t low = pick_bytes(0x3f2d1801u, 0x766a5d4fu, at);
    const uint32_t high = pick_bytes(0xa6998d81u, 0xf1d9c5b5u, at);
    return choose_bits(upper, high, low);
}

/* The codes of values 4 q .. 4 q + 3 of a block as bytes. Nibbles of values i and i + 16 share a
 * byte. ODD: the block's codes are at an odd multiple of two. */
template <int TYPE, bool ODD>
__device__ __forceinline__ uint32_t block_codes(const unsigned char *b, int q)
{
    typedef block_format<TYPE> F;
    if (TYPE == FT_KV_Q8_0)
        return four_bytes<ODD>(b + F::CODES + 4 * q) ^ 0x80808080u; /* 128 more */
    const uint32_t word = four_bytes<ODD>(b + F::CODES + q % 4 * 4);
    if (TYPE == FT_KV_IQ4_NL)
        return __byte_perm(iq4_nl_values(word), iq4_nl_values(word >> 16), q < 4 ? 0x6420 : 0x7531);
    const uint32_t low = word >> q / 4 * 4 & 0x0f0f0f0fu;
    return F::FIVE ? low | fifth_bits(four_bytes<ODD>(b + F::FIFTH) >> 4 * q) : low;
}

template <int TYPE>
__device__ __forceinline__ uint32_t block_values(uint32_t halves, __half2 scale, __half2 min)
{
    typedef block_format<TYPE> F;
    const __half2 minus = as_halves((0xe400u | F::OFFSET) * 0x10001u); /* -1024 - OFFSET */
    const __half2 code = __hadd2(as_halves(halves), minus);
    return bits_of(F::MIN ? __hfma2(code, scale, min) : __hmul2(code, scale));
}

/* A lane's part of a key row whose values are in order, t = lane % 4. Keys are decoded in units of
 * STEPS times 32 values of the row, so that loops over units stay small. */
struct plain_part {
    enum { PAIRS = 0, STEPS = 2 };
    const unsigned char *row;
    int t;

    __device__ __forceinline__ void open(const unsigned char *at, int part, const codebook &)
    {
        row = at;
        t = part;
    }

    /* The first of the values in x and y, or in z and w, of keys(j) of unit u. */
    __device__ __forceinline__ int first(int u, int j, int half) const
    {
        return 32 * (STEPS * u + j) + 16 * half + 4 * t;
    }

    static __device__ __forceinline__ uint2 in_order(uint32_t x, uint32_t y)
    {
        return make_uint2(x, y);
    }
};

/* BYTES: of a row, a multiple of four. */
template <int D, int TYPE> struct block_rows : plain_part {
    typedef block_format<TYPE> F;
    enum { BYTES = D / 32 * F::BYTES };

    const unsigned char *unit;

    __device__ __forceinline__ void load(int u)
    {
        unit = row + u * STEPS * F::BYTES;
    }

    /* Values 4 t ... + 3 of block j of the unit in x and y, those 16 further in z and w. */
    __device__ __forceinline__ uint4 keys(int j, const codebook &) const
    {
        const unsigned char *b = unit + j * F::BYTES;
        const __half2 scale = __half2half2(half_at(b));
        const __half2 min = F::MIN ? __half2half2(half_at(b + 2)) : scale;
        uint4 v;
        if ((F::ODD + j * F::ALTERNATE) % 2) {
            widen(block_codes<TYPE, true>(b, t), v.x, v.y);
            widen(block_codes<TYPE, true>(b, t + 4), v.z, v.w);
        } else {
            widen(block_codes<TYPE, false>(b, t), v.x, v.y);
            widen(block_codes<TYPE, false>(b, t + 4), v.z, v.w);
        }
        return make_uint4(block_values<TYPE>(v.x, scale, min), block_values<TYPE>(v.y, scale, min),
                          block_values<TYPE>(v.z, scale, min), block_values<TYPE>(v.w, scale, min));
    }

    /* Values 4 q ... of blocks a and b, in pairs. */
    template <bool ODD>
    static __device__ __forceinline__ void pairs(uint32_t *v, const unsigned char *a,
                                                 const unsigned char *b, int q)
    {
        const __half2 scale = __halves2half2(half_at(a), half_at(b));
        const __half2 min = F::MIN ? __halves2half2(half_at(a + 2), half_at(b + 2)) : scale;
        const uint32_t x = block_codes<TYPE, ODD>(a, q), y = block_codes<TYPE, ODD>(b, q);
        widen(__byte_perm(x, y, 0x5140), v[0], v[1]);
        widen(__byte_perm(x, y, 0x7362), v[2], v[3]);
#pragma unroll
        for (int i = 0; i < 4; i++) v[i] = block_values<TYPE>(v[i], scale, min);
    }

    /* Of 64 values from 64 m on, for lane group i of eight: values 4 i ... of rows a and b in
     * pairs, and those 32 further. */
    static __device__ __forceinline__ void columns(uint32_t (&v)[8], const codebook &,
                                                   const unsigned char *a, const unsigned char *b,
                                                   int m, int i)
    {
        a += 2 * m * F::BYTES;
        b += 2 * m * F::BYTES;
        pairs<F::ODD == 1>(v, a, b, i);
        pairs<(F::ODD + F::ALTERNATE) % 2 == 1>(v + 4, a + F::BYTES, b + F::BYTES, i);
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
    int unit;

    __device__ __forceinline__ void load(int u)
    {
        unit = u;
    }

    __device__ __forceinline__ uint4 keys(int j, const codebook &) const
    {
        const uint2 a = *(const uint2 *)(row + 2 * first(unit, j, 0));
        const uint2 b = *(const uint2 *)(row + 2 * first(unit, j, 1));
        return make_uint4(halves_of_bf16(a.x, a.x >> 16), halves_of_bf16(a.y, a.y >> 16),
                          halves_of_bf16(b.x, b.x >> 16), halves_of_bf16(b.y, b.y >> 16));
    }

    static __device__ __forceinline__ void columns(uint32_t (&v)[8], const codebook &,
                                                   const unsigned char *a, const unsigned char *b,
                                                   int m, int i)
    {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int at = 2 * (64 * m + 4 * i + 32 * h);
            const uint2 x = *(const uint2 *)(a + at), y = *(const uint2 *)(b + at);
            v[4 * h] = halves_of_bf16(x.x, y.x);
            v[4 * h + 1] = halves_of_bf16(x.x >> 16, y.x >> 16);
            v[4 * h + 2] = halves_of_bf16(x.y, y.y);
            v[4 * h + 3] = halves_of_bf16(x.y >> 16, y.y >> 16);
        }
    }
};

/* ---- turbo encodings ---- */

/* Sixteen codes as nibbles: those with even numbers, those with odd numbers. twos: their lower two
 * bits. */
__device__ __forceinline__ void split_twos(uint32_t twos, uint32_t &even, uint32_t &odd)
{
    even = twos & 0x33333333u;
    odd = twos >> 2 & 0x33333333u;
}

/* The same with their third bits, those of four codes in each byte of `thirds`: the products move
 * bits 0 and 2, or 1 and 3, to bits 2 and 6. */
__device__ __forceinline__ void split_threes(uint32_t twos, uint32_t thirds, uint32_t &even,
                                             uint32_t &odd)
{
    even = choose_bits(0x33333333u, twos, (thirds & 0x05050505u) * 20);
    odd = choose_bits(0x33333333u, twos >> 2, (thirds & 0x0a0a0a0au) * 10);
}

/* The values of four codes, which are the nibbles of the low half of `code`: their low bytes and
 * their high bytes. The codebooks of four bits are symmetric: of their codes, negative ones are
 * complemented, and the highest bits of the bytes of `minus` are the signs. */
__device__ __forceinline__ void look_up(const codebook &b, uint32_t code, uint32_t minus,
                                        uint32_t &low, uint32_t &high)
{
    low = pick_bytes(b.low[0], b.low[1], code);
    high = pick_bytes(b.high[0], b.high[1], code) ^ (minus & 0x80808080u);
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

/* A lane's quarter of a key row. HEAD: bytes in front of a group's codes. */
template <int D, int BITS, int HEAD> struct turbo_rows {
    enum {
        PAIRS = BITS == 4, /* attend_few.cuh decodes with a table of pairs */
        GROUP = D % 128 ? 64 : 128,
        GROUP_BYTES = HEAD + GROUP * BITS / 8,
        BYTES = D / GROUP * GROUP_BYTES,
        PART = D / 4,
        UNIT = PART < 32 ? PART : 32, /* values of the quarter that are loaded at a time */
        STEPS = UNIT / 8,
        PLANE = BITS == 4 ? 4 : 2, /* bits of a code in the first plane */
        WORDS = UNIT * PLANE / 32
    };
    const unsigned char *codes; /* of the quarter, */
    int thirds;                 /* and how far behind them its third bits are */
    uint32_t low[WORDS], third[1];
    __half2 scale; /* of the group in which the quarter is, */
    codebook own;  /* and the codebook times the scale, for codes of two and three bits */
    int t;

    __device__ __forceinline__ void open(const unsigned char *at, int part, const codebook &book)
    {
        t = part;
        const int from = t * PART % GROUP;
        const unsigned char *b = at + t * PART / GROUP * GROUP_BYTES;
        scale = __half2half2(half_at(b));
        codes = b + HEAD + from * PLANE / 8;
        thirds = GROUP / 4 + from / 8 - from * PLANE / 8;
        if (BITS < 4) own = scaled_book(book, scale);
    }

    __device__ __forceinline__ void load(int u)
    {
        load_words(low, codes + u * (UNIT * PLANE / 8));
        if (BITS == 3) load_words(third, codes + thirds + u * (UNIT / 8));
    }

    __device__ __forceinline__ int first(int u, int j, int half) const
    {
        return t * PART + u * UNIT + 8 * j + 4 * half;
    }

    /* Values 8 j .. 8 j + 7 of the unit, four at a time. */
    __device__ __forceinline__ uint4 keys(int j, const codebook &book) const
    {
        uint32_t minus0 = 0, minus1 = 0, lo, hi;
        uint4 v;
        if (BITS == 4) {
            const uint32_t code = split_signs(low[j], minus0, minus1);
            look_up(book, code, minus0, lo, hi);
            v.x = times(__byte_perm(lo, hi, 0x5140), scale);
            v.y = times(__byte_perm(lo, hi, 0x7362), scale);
            look_up(book, code >> 16, minus1, lo, hi);
            v.z = times(__byte_perm(lo, hi, 0x5140), scale);
            v.w = times(__byte_perm(lo, hi, 0x7362), scale);
            return v;
        }
        uint32_t even, odd;
        if (BITS == 3) {
            const uint32_t two = __byte_perm(third[0], 0, j / 2 ? 0x3322 : 0x1100);
            split_threes(low[j / 2], choose_bits(0x00ff00ffu, two, two >> 4), even, odd);
        } else {
            split_twos(low[j / 2], even, odd);
        }
        look_up(own, even >> 16 * (j % 2), 0, lo, hi);
        v.x = __byte_perm(lo, hi, 0x5140);
        v.z = __byte_perm(lo, hi, 0x7362);
        look_up(own, odd >> 16 * (j % 2), 0, lo, hi);
        v.y = __byte_perm(lo, hi, 0x5140);
        v.w = __byte_perm(lo, hi, 0x7362);
        return v;
    }

    /* The same with a table of pairs. */
    __device__ __forceinline__ uint4 keys_of_pairs(int j, const codebook &book) const
    {
        const uint32_t w = low[j];
        return make_uint4(times(pair_of<0>(book, w), scale), times(pair_of<1>(book, w), scale),
                          times(pair_of<2>(book, w), scale), times(pair_of<3>(book, w), scale));
    }

    /* Pairs of neighbouring values from two words of keys(). */
    static __device__ __forceinline__ uint2 in_order(uint32_t x, uint32_t y)
    {
        if (BITS == 4) return make_uint2(x, y);
        return make_uint2(__byte_perm(x, y, 0x5410), __byte_perm(x, y, 0x7632));
    }

    /* Of 64 values from 64 m on, for lane group i of eight: values 8 i ... of rows a and b in
     * pairs. */
    static __device__ __forceinline__ void columns(uint32_t (&v)[8], const codebook &book,
                                                   const unsigned char *a, const unsigned char *b,
                                                   int m, int i)
    {
        const int group = 64 * m / GROUP * GROUP_BYTES, at = 64 * m % GROUP + 8 * i;
        a += group;
        b += group;
        const __half2 both = __halves2half2(half_at(a), half_at(b));
        a += HEAD;
        b += HEAD;
        if (BITS == 4) {
            a += at / 2;
            b += at / 2;
            const uint32_t x = two_bytes(a) | two_bytes(a + 2) << 16;
            const uint32_t y = two_bytes(b) | two_bytes(b + 2) << 16;
            const uint32_t even = choose_bits(0x0f0f0f0fu, x, y << 4);
            const uint32_t odd = choose_bits(0x0f0f0f0fu, x >> 4, y);
            v[0] = times(pair_of<0>(book, even), both);
            v[1] = times(pair_of<0>(book, odd), both);
            v[2] = times(pair_of<1>(book, even), both);
            v[3] = times(pair_of<1>(book, odd), both);
            v[4] = times(pair_of<2>(book, even), both);
            v[5] = times(pair_of<2>(book, odd), both);
            v[6] = times(pair_of<3>(book, even), both);
            v[7] = times(pair_of<3>(book, odd), both);
            return;
        }
        uint32_t code[2], lo, hi; /* a0 a2 b0 b2 a4 a6 b4 b6, and a1 ... */
        const uint32_t twos = __byte_perm(two_bytes(a + at / 4), two_bytes(b + at / 4), 0x5140);
        if (BITS == 3) {
            const int third = GROUP / 4 + at / 8;
            const uint32_t two = __byte_perm(a[third], b[third], 0x4040);
            split_threes(twos, choose_bits(0xffffu, two, two >> 4), code[0], code[1]);
        } else {
            split_twos(twos, code[0], code[1]);
        }
#pragma unroll
        for (int j = 0; j < 4; j++) {
            look_up(book, code[j / 2] >> 16 * (j % 2), 0, lo, hi);
            v[j % 2 * 4 + j / 2] = times(__byte_perm(lo, hi, 0x6240), both);
            v[j % 2 * 4 + j / 2 + 2] = times(__byte_perm(lo, hi, 0x7351), both);
        }
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
    rows.open(raw + r * ROWS::BYTES, t, book);
#pragma unroll 1
    for (int u = 0; u < D / 32 / ROWS::STEPS; u++) {
        rows.load(u);
#pragma unroll
        for (int j = 0; j < ROWS::STEPS; j++) {
            const uint4 v = rows.keys(j, book);
            const uint32_t pair[4] = {v.x, v.y, v.z, v.w};
            const int piece = 4 * (ROWS::STEPS * u + j);
#pragma unroll
            for (int i = 0; i < 4; i += 2) {
                if (keys) {
                    unsigned char *to = tile + 4 * t;
                    *(uint32_t *)(to + 16 * swizzled(r, piece + i, D / 8)) = pair[i];
                    *(uint32_t *)(to + 16 * swizzled(r, piece + i + 1, D / 8)) = pair[i + 1];
                } else {
                    const int at = rows.first(u, j, i / 2);
                    *(uint2 *)(tile + 16 * swizzled(r, at / 8, D / 8) + 2 * (at % 8)) =
                        ROWS::in_order(pair[i], pair[i + 1]);
                }
            }
        }
    }
}

#endif
