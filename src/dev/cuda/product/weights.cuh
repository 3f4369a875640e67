/* dev/cuda/product/weights.cuh - the packed layout of weights, and decoding to tensor core
 * operands. A matrix is cut into tiles of 16 rows, a tile into units of 64 columns; a warp loads
 * one unit at a time, 16 bytes per lane where possible. In each half of 32 columns lane (g, t) =
 * (lane / 4, lane % 4) has columns [8t, 8t + 8) of rows g and g + 8: those eight, in this order,
 * are its operands of two m16n8k16 products. The order of columns inside a product is arbitrary as
 * long as the activations (a copy of them, common.cuh) are read in the same order: also sixteen
 * bytes per lane.
 *
 * A weight is decoded to bf16: w = round(q * s - m), with s and m rounded to bf16 when it was
 * packed. The squared error of that is about 3e-6 of the squared weights, far below the
 * quantisation error. Plain numbers are exact, except that BF16 has the range of f16: F16 and BF16
 * are f16 operands (and so are the activations they read), F32 is two bf16 parts.
 *
 * An integer code is a bf16 number without an instruction to convert it: a number whose exponent
 * bits are 0 or 1 is its low eight bits times 2^-133. Only a mask is needed to separate a code from
 * its neighbours, which may lie below it too, or a lookup in a table of bytes; scales are stored
 * multiplied with what that makes of a code (code_scale). To keep them in the range of bf16,
 * decoded weights are CODE_FACTOR times too small, and results are multiplied with it. All of these
 * are powers of two, so no bit of a result changes. */
#ifndef FT_DEV_CUDA_WEIGHTS_CUH
#define FT_DEV_CUDA_WEIGHTS_CUH

#include "dev/cuda/mma.cuh"
#include "dev/cuda/quant.cuh"

enum { UNIT_K = 64, TILE_N = 16, PARTS = 8 };

/* A packed matrix as a kernel sees it. */
typedef struct ft_wview {
    const uint8_t *p;      /* the first tile */
    const uint16_t *table; /* the codebook of its type, or NULL */
    int n, units;
} ft_wview;

/* Both k16 steps of a half unit: a[step] are the four registers of an A operand. */
typedef struct ft_frag {
    uint32_t a[2][4];
} ft_frag;

/* Two bf16 numbers at a time; before compute capability 8.0 by way of f32. */
__device__ __forceinline__ uint32_t fma2(uint32_t a, uint32_t b, uint32_t c)
{
#if __CUDA_ARCH__ >= 800
    const __nv_bfloat162 r = __hfma2(*(const __nv_bfloat162 *)&a, *(const __nv_bfloat162 *)&b,
                                     *(const __nv_bfloat162 *)&c);
    return *(const uint32_t *)&r;
#else
    const uint32_t high = 0xffff0000u;
    return bf2(
        fmaf(__uint_as_float(a << 16), __uint_as_float(b << 16), __uint_as_float(c << 16)),
        fmaf(__uint_as_float(a & high), __uint_as_float(b & high), __uint_as_float(c & high)));
#endif
}

__device__ __forceinline__ uint32_t mul2(uint32_t a, uint32_t b)
{
    return fma2(a, b, 0x80008000u); /* minus zero: keeps the sign of a zero product */
}

/* a * 1 + c: an addition that all GPUs from 8.0 on have */
__device__ __forceinline__ uint32_t plus2(uint32_t a, uint32_t c)
{
    return fma2(a, 0x3f803f80u, c);
}

enum : uint32_t {
    MAGIC = 0x43004300u,     /* 128 | small: 128 + small */
    MINUS_128 = 0xc300c300u, /* subtracts the 128 again */
    MINUS_160 = 0xc320c320u,
    TIMES_4 = 0x40804080u,
    TIMES_8 = 0x41004100u,
    TIMES_16 = 0x41804180u,
    MINUS_BIT_7 = 0x80808080u, /* minus the code of bit 7 alone: half of a range that ends there */
};

#define CODE_FACTOR 4294967296.0f /* 2^32 */

/* What a scale is stored multiplied with for codes whose lowest bit is `bit`. */
__host__ __device__ constexpr float code_scale(int bit)
{
    return 0x1p101f / (float)(1 << bit); /* 2^133 / CODE_FACTOR / 2^bit */
}

/* The same half twice. This form is free: fma2 can take one half for both operands. */
__device__ __forceinline__ uint32_t dup_lo(uint32_t w)
{
    uint32_t r;
    asm("{.reg .b16 a, b;\n\tmov.b32 {a, b}, %1;\n\tmov.b32 %0, {a, a};}" : "=r"(r) : "r"(w));
    return r;
}

__device__ __forceinline__ uint32_t dup_hi(uint32_t w)
{
    uint32_t r;
    asm("{.reg .b16 a, b;\n\tmov.b32 {a, b}, %1;\n\tmov.b32 %0, {b, b};}" : "=r"(r) : "r"(w));
    return r;
}

/* Pair j of eight 4-bit codes: value 2j at bit 4j, value 2j + 1 at bit 16 + 4j; 128 too large. */
__device__ __forceinline__ uint32_t nib(uint32_t v, int j)
{
    return and_or(v >> 4 * j, 0x000f000fu, MAGIC);
}

/* Address of a unit. Then `load` fetches a lane's part of the unit at p, in shared memory, and
 * `frag` decodes half h. */
__device__ __forceinline__ const uint8_t *unit_at(const ft_wview &w, int tile, int u, int bytes)
{
    return w.p + ((size_t)tile * w.units + u) * bytes;
}

__device__ __forceinline__ uint4 ld16(const void *p)
{
    return __ldg((const uint4 *)p);
}

/* Value i of an array in shared memory. */
template <class V> __device__ __forceinline__ V get(const uint8_t *p, int i)
{
    return ((const V *)p)[i];
}

/* What every layout defines: BYTES of a unit, XP planes of activations it is multiplied with, WP
 * parts of a weight, TABLE entries of its codebook (weights_low.cuh), whether operands are f16
 * (HALF) or bf16. */
template <int BYTES_, int XP_ = 1, int WP_ = 1, int TABLE_ = 0> struct layout {
    enum { BYTES = BYTES_, XP = XP_, WP = WP_, TABLE = TABLE_, HALF = 0 };
    static constexpr float FACTOR = 1.0f; /* of results */
};

/* Layouts of integer codes. */
template <int BYTES_, int TABLE_ = 0> struct code_layout : layout<BYTES_, 1, 1, TABLE_> {
    static constexpr float FACTOR = CODE_FACTOR;
};

/* Pair j of eight 4-bit codes: value 2j at bit 4j, value 2j + 1 at bit 16 + 4j. An even pair is a
 * number from bit 0 on, an odd one from bit 4 on. */
__device__ __forceinline__ uint32_t code_pair(uint32_t v, int j)
{
    return (j / 2 ? v >> 8 : v) & (j % 2 ? 0x00f000f0u : 0x000f000fu);
}

/* Q4_K, and Q4_1: codes, then for each row and half s (for odd pairs) and -m. */
struct Q4K : code_layout<640> {
    struct regs {
        uint4 q, s;
    };
    __device__ static void load(regs &r, const uint8_t *p, int lane)
    {
        r.q = get<uint4>(p, lane);
        r.s = get<uint4>(p + 512, lane >> 2);
    }
    __device__ static void frag(ft_frag *f, const regs &r, int h, int lane)
    {
        const uint32_t q[2] = {h ? r.q.z : r.q.x, h ? r.q.w : r.q.y};
        const uint32_t s[2] = {h ? r.s.y : r.s.x, h ? r.s.w : r.s.z};
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t odd = dup_lo(s[i]), even = mul2(odd, TIMES_16), mn = dup_hi(s[i]);
#pragma unroll
            for (int j = 0; j < 4; j++)
                f->a[j / 2][i + 2 * (j % 2)] = fma2(code_pair(q[i], j), j % 2 ? odd : even, mn);
        }
    }
};

/* Of the scales of a lane's columns, for both halves and rows, that of half h and row i. */
__device__ __forceinline__ uint32_t half_scale(const uint2 &s, int h, int i)
{
    const uint32_t both = i ? s.y : s.x;
    return h ? dup_hi(both) : dup_lo(both);
}

/* Four bits of each code, then the other one or two (More: those of a lane), then 16 bytes of
 * scales for rows g and g + 8. Of an even pair these are the highest bits, of an odd pair the
 * lowest: so both kinds of pairs are numbers that begin or end at a bit of their own, and one shift
 * brings the bits of two pairs to their places. A lane reads 16 bytes of scales, or the 8 of its 16
 * columns. */
template <class More, class Scales> struct longer_codes : code_layout<640 + 32 * sizeof(More)> {
    enum { MORE = sizeof(More) / 4 }; /* bits */
    struct regs {
        uint4 q;
        Scales s;
        More h;
    };
    __device__ static void load(regs &r, const uint8_t *p, int lane)
    {
        r.q = get<uint4>(p, lane);
        r.h = get<More>(p + 512, lane);
        r.s =
            get<Scales>(p + 512 + 32 * sizeof(More), sizeof(Scales) == 16 ? lane >> 2 : lane >> 1);
    }
    /* pair j of the codes q; from bit `at` of `more` on are the bits of the odd pair, then those of
     * the even one before it */
    __device__ __forceinline__ static uint32_t pair(uint32_t q, int j, uint32_t more, int at)
    {
        const int to = 4 - MORE;
        const uint32_t mask = (0x00010001u << MORE) - 0x00010001u;
        const uint32_t bits = at < to ? more << (to - at) : more >> (at - to);
        return and_or(bits, j % 2 ? mask << to : mask << 4, code_pair(q, j));
    }
};

/* Q5_K, Q5_1 and Q5_0 (m = 16 s): bits 8h + 4i + 2c.. of a half-word of `h` belong to pairs 2c and
 * 2c + 1 of row i and half h. For each row and half s (for odd pairs) and -m. */
struct Q5K : longer_codes<uint32_t, uint4> {
    __device__ static void frag(ft_frag *f, const regs &r, int h, int lane)
    {
        const uint32_t q[2] = {h ? r.q.z : r.q.x, h ? r.q.w : r.q.y};
        const uint32_t s[2] = {h ? r.s.y : r.s.x, h ? r.s.w : r.s.z};
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t odd = dup_lo(s[i]), even = mul2(odd, TIMES_8), mn = dup_hi(s[i]);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const uint32_t v = pair(q[i], j, r.h, 8 * h + 4 * i + 2 * (j / 2));
                f->a[j / 2][i + 2 * (j % 2)] = fma2(v, j % 2 ? odd : even, mn);
            }
        }
    }
};

/* Q6_K: two more bits for each value, a word of them for each half, and a scale (for odd pairs) for
 * every 16 columns. Codes are 32 too large. */
struct Q6K : longer_codes<uint2, uint2> {
    __device__ static void frag(ft_frag *f, const regs &r, int h, int lane)
    {
        const uint32_t q[2] = {h ? r.q.z : r.q.x, h ? r.q.w : r.q.y};
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t odd = half_scale(r.s, h, i), even = mul2(odd, TIMES_4);
            const uint32_t off = mul2(odd, MINUS_BIT_7);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const uint32_t v = pair(q[i], j, h ? r.h.y : r.h.x, 8 * i + 4 * (j / 2));
                f->a[j / 2][i + 2 * (j % 2)] = fma2(v, j % 2 ? odd : even, off);
            }
        }
    }
};

/* Q8_0: bytes q + 128, four columns in the order 0 2 1 3 in a word; then a scale for each row and
 * half. */
struct Q8 : code_layout<1088> {
    struct regs {
        uint4 q[2];
        uint2 s;
    };
    __device__ static void load(regs &r, const uint8_t *p, int lane)
    {
        r.q[0] = get<uint4>(p, lane);
        r.q[1] = get<uint4>(p + 512, lane);
        r.s = get<uint2>(p + 1024, lane >> 2);
    }
    __device__ static void frag(ft_frag *f, const regs &r, int h, int lane)
    {
        const uint4 v = h ? r.q[1] : r.q[0];
        const uint32_t q[2][2] = {{v.x, v.y}, {v.z, v.w}}, s[2] = {r.s.x, r.s.y};
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t sc = h ? dup_hi(s[i]) : dup_lo(s[i]), off = mul2(sc, MINUS_BIT_7);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const uint32_t u = __byte_perm(q[i][j / 2], 0, j % 2 ? 0x4341 : 0x4240);
                f->a[j / 2][i + 2 * (j % 2)] = fma2(u, sc, off);
            }
        }
    }
};

/* Q4_0: codes, 8 too large, and one scale (for odd pairs) a half. */
struct Q40 : code_layout<576> {
    struct regs {
        uint4 q;
        uint2 s;
    };
    __device__ static void load(regs &r, const uint8_t *p, int lane)
    {
        r.q = get<uint4>(p, lane);
        r.s = get<uint2>(p + 512, lane >> 2);
    }
    __device__ static void frag(ft_frag *f, const regs &r, int h, int lane)
    {
        const uint32_t q[2] = {h ? r.q.z : r.q.x, h ? r.q.w : r.q.y}, s[2] = {r.s.x, r.s.y};
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t odd = h ? dup_hi(s[i]) : dup_lo(s[i]), even = mul2(odd, TIMES_16);
            const uint32_t off = mul2(odd, MINUS_BIT_7);
#pragma unroll
            for (int j = 0; j < 4; j++)
                f->a[j / 2][i + 2 * (j % 2)] = fma2(code_pair(q[i], j), j % 2 ? odd : even, off);
        }
    }
};

/* A table of eight bytes, which are bf16 numbers as they are. */
template <uint32_t A, uint32_t B, uint32_t C, uint32_t D, uint32_t E, uint32_t F, uint32_t G,
          uint32_t H>
struct eight {
    enum : uint32_t {
        first = A | B << 8 | C << 16 | D << 24,
        second = E | F << 8 | G << 16 | H << 24
    };
};

typedef eight<0, 1, 2, 3, 4, 6, 8, 12> Fp4Table;

/* The upper half of the codebook of TQ4_1S divided by TQ4_STEP (squared error 2.6e-6). */
typedef eight<11, 33, 56, 80, 107, 138, 176, 233> Tq4Table;
#define TQ4_STEP (1 / 85.15546f)

/* Four values times sc: one code below eight in each nibble of the low half of v; with the sign
 * bits of `signs` (the highest of each byte). */
template <class Table>
__device__ __forceinline__ void put_four(ft_frag *f, int i, int step, uint32_t v, uint32_t signs,
                                         uint32_t sc)
{
    const uint32_t u = __byte_perm(Table::first, Table::second, v), minus = signs & 0x80808080u;
    f->a[step][i] = mul2(__byte_perm(u, minus, 0x5140), sc);
    f->a[step][i + 2] = mul2(__byte_perm(u, minus, 0x7362), sc);
}

/* MXFP4 (one scale a half), NVFP4 and TQ4_1S (two): signs and magnitudes. A nibble has the
 * magnitude of a value; the fourth bits of the odd nibbles are the signs of the first four values,
 * those of the even nibbles of the others. */
template <class Table, int SCALES> struct Signed : code_layout<512 + 64 * SCALES> {
    struct regs {
        uint4 q;
        uint2 s;
    };
    __device__ static void load(regs &r, const uint8_t *p, int lane)
    {
        r.q = get<uint4>(p, lane);
        r.s = get<uint2>(p + 512, SCALES == 1 ? lane >> 2 : lane >> 1);
    }
    __device__ static void frag(ft_frag *f, const regs &r, int h, int lane)
    {
        const uint32_t q[2] = {h ? r.q.z : r.q.x, h ? r.q.w : r.q.y};
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t v = q[i] & 0x77777777u, sc = half_scale(r.s, h, i);
            put_four<Table>(f, i, 0, v, q[i], sc);
            put_four<Table>(f, i, 1, v >> 16, q[i] << 4, sc);
        }
    }
};

/* Each byte is 255 if its highest bit is set, else 0. __byte_perm cannot do that: it ignores the
 * highest bits of a selector. */
__device__ __forceinline__ uint32_t byte_signs(uint32_t v)
{
    uint32_t r;
    asm("prmt.b32 %0, %1, 0, 0xba98;" : "=r"(r) : "r"(v));
    return r;
}

/* IQ4_NL and IQ4_XS: codes as in Signed, and a scale a half. The eight positive and the eight
 * negative values are bytes, 128 too large: 129 141 153 166 181 197 217 241, 118 106 93 79 63 45 24
 * 1. Both are looked up, and the sign selects one. */
struct Iq4 : code_layout<576> {
    struct regs {
        uint4 q;
        uint2 s;
    };
    __device__ static void load(regs &r, const uint8_t *p, int lane)
    {
        r.q = get<uint4>(p, lane);
        r.s = get<uint2>(p + 512, lane >> 2);
    }
    /* four bytes for the codes in the low half of v; minus: the highest bit of each byte */
    __device__ __forceinline__ static uint32_t four_bytes(uint32_t v, uint32_t minus)
    {
        const uint32_t up = __byte_perm(0xa6998d81u, 0xf1d9c5b5u, v);
        const uint32_t down = __byte_perm(0x4f5d6a76u, 0x01182d3fu, v);
        return (down & byte_signs(minus)) | (up & ~byte_signs(minus));
    }
    __device__ static void frag(ft_frag *f, const regs &r, int h, int lane)
    {
        const uint32_t q[2] = {h ? r.q.z : r.q.x, h ? r.q.w : r.q.y};
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t sc = half_scale(r.s, h, i), off = mul2(sc, MINUS_BIT_7);
            const uint32_t v = q[i] & 0x77777777u;
#pragma unroll
            for (int step = 0; step < 2; step++) {
                const uint32_t u = four_bytes(step ? v >> 16 : v, step ? q[i] << 4 : q[i]);
                f->a[step][i] = fma2(__byte_perm(u, 0, 0x4140), sc, off);
                f->a[step][i + 2] = fma2(__byte_perm(u, 0, 0x4342), sc, off);
            }
        }
    }
};

__device__ __forceinline__ void frag_row(ft_frag *f, int i, uint4 v)
{
    f->a[0][i] = v.x;
    f->a[0][i + 2] = v.y;
    f->a[1][i] = v.z;
    f->a[1][i + 2] = v.w;
}

/* F16 and BF16 as f16: a unit is 16 rows of 128 bytes, an output each, in the order and with the
 * swizzle of the rows of activations (wide_column). Warpgroups can multiply it as it is, and a warp
 * gets both steps of a half with two instructions. Values are multiplied by OPERAND_RANGE, by which
 * activations are divided: so BF16 has no rounding error from 4e-6 on, and below it one of 2e-9;
 * values above 4094 are clamped. */
struct Half : layout<2048> {
    enum { HALF = 1 };
    struct regs {
        uint32_t a[4][4]; /* of steps of 16 columns */
    };
    __device__ static void load(regs &r, const uint8_t *p, int lane)
    {
        const uint32_t row = shared_at(p) + 128 * (lane & 15);
#pragma unroll
        for (int i = 0; i < 4; i++)
            load_frags(r.a[i], row + 16 * ((2 * i + (lane >> 4)) ^ (lane & 7)));
    }
    __device__ static void frag(ft_frag *f, const regs &r, int h, int lane)
    {
#pragma unroll
        for (int i = 0; i < 8; i++) f->a[i / 4][i % 4] = r.a[2 * h + i / 4][i % 4];
    }
};

__device__ __forceinline__ void split2(float a, float b, uint32_t &hi, uint32_t &lo)
{
    __nv_bfloat16 ah, al, bh, bl;
    split_bf16(a, ah, al);
    split_bf16(b, bh, bl);
    hi = (uint32_t)__bfloat16_as_ushort(ah) | (uint32_t)__bfloat16_as_ushort(bh) << 16;
    lo = (uint32_t)__bfloat16_as_ushort(al) | (uint32_t)__bfloat16_as_ushort(bl) << 16;
}

/* F32 as two bf16 parts: f[0] and f[1]. */
struct F32 : layout<4096, 2, 2> {
    struct regs {
        uint4 v[8];
    };
    __device__ static void load(regs &r, const uint8_t *p, int lane)
    {
#pragma unroll
        for (int i = 0; i < 8; i++) r.v[i] = get<uint4>(p + 512 * i, lane);
    }
    __device__ static void frag(ft_frag *f, const regs &r, int h, int lane)
    {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint32_t hi[4], lo[4];
#pragma unroll
            for (int j = 0; j < 2; j++) {
                const uint4 v = h ? r.v[4 + 2 * i + j] : r.v[2 * i + j];
                split2(__uint_as_float(v.x), __uint_as_float(v.y), hi[2 * j], lo[2 * j]);
                split2(__uint_as_float(v.z), __uint_as_float(v.w), hi[2 * j + 1], lo[2 * j + 1]);
            }
            frag_row(&f[0], i, make_uint4(hi[0], hi[1], hi[2], hi[3]));
            frag_row(&f[1], i, make_uint4(lo[0], lo[1], lo[2], lo[3]));
        }
    }
};

typedef Signed<Fp4Table, 1> Mxfp4;
typedef Signed<Fp4Table, 2> Nvfp4;
typedef Signed<Tq4Table, 2> Tq4;

#endif
