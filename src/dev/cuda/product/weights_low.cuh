/* dev/cuda/product/weights_low.cuh - packed layouts of the types with one to three bits for a
 * weight, and the table of all layouts. A lane's eight columns of a row are one vector of the IQ1
 * and IQ2 codebooks or two of IQ3: the packed unit has the index of a vector, which is smaller than
 * its codes, and the codebook is in shared memory. Scales are stored multiplied out where that
 * takes no more space, else as in the file: an integer for 16 columns, and d of the row. */
#ifndef FT_DEV_CUDA_WEIGHTS_LOW_CUH
#define FT_DEV_CUDA_WEIGHTS_LOW_CUH

#include "dev/cuda/product/weights.cuh"

enum : uint32_t {
    MINUS_127_5 = 0xc2ffc2ffu,
    MINUS_BIT_6 = 0x80408040u,      /* minus the code of bit 6 alone */
    MINUS_BIT_6_MORE = 0x80488048u, /* 9/8 of it */
    MINUS_BIT_6_LESS = 0x80388038u, /* 7/8 of it */
};

/* Four pairs of row i of 2-bit codes: value 2j at bit 2j, value 2j + 1 at bit 16 + 2j. sc: the
 * scale of pair 3. */
__device__ __forceinline__ void put_twos(ft_frag *f, uint32_t v, int i, uint32_t sc, uint32_t off)
{
#pragma unroll
    for (int j = 3; j >= 0; j--) {
        f->a[j / 2][i + 2 * (j % 2)] = fma2(v & 0x00030003u << 2 * j, sc, off);
        sc = mul2(sc, TIMES_4);
    }
}

/* Q2_K: for every 16 columns of a row a byte, scale and minimum; for a row d and -dmin. */
struct Q2K : code_layout<384> {
    struct regs {
        uint2 q, s, d;
    };
    __device__ static void load(regs &r, const uint8_t *p, int lane)
    {
        r.q = get<uint2>(p, lane);
        r.s = get<uint2>(p + 256, lane >> 2);
        r.d = get<uint2>(p + 320, lane >> 2);
    }
    __device__ static void frag(ft_frag *f, const regs &r, int h, int lane)
    {
        const uint32_t s[2] = {r.s.x, r.s.y}, d[2] = {r.d.x, r.d.y};
        const uint32_t which = 0x4040u + 0x0101u * (2 * h + (lane >> 1 & 1));
#pragma unroll
        for (int i = 0; i < 2; i++) {
            /* (128 + s) d - 128 d: both products are exact, the sum is rounded once */
            const uint32_t b = __byte_perm(s[i], 0, which), off = mul2(d[i], MINUS_128);
            const uint32_t sc = fma2(nib(b, 0), dup_lo(d[i]), dup_lo(off));
            const uint32_t mn = fma2(nib(b, 1), dup_hi(d[i]), dup_hi(off));
            put_twos(f, (h ? r.q.y : r.q.x) >> 8 * i, i, sc, mn);
        }
    }
};

/* TQ2_0, TQ1_0, Q2_0 and Q1_0: codes 0 1 2 3 for -1 0 1 2, and one scale for a row. */
struct Ternary : code_layout<288> {
    struct regs {
        uint2 q;
        uint32_t s;
    };
    __device__ static void load(regs &r, const uint8_t *p, int lane)
    {
        r.q = get<uint2>(p, lane);
        r.s = get<uint32_t>(p + 256, lane >> 2);
    }
    __device__ static void frag(ft_frag *f, const regs &r, int h, int lane)
    {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t sc = i ? dup_hi(r.s) : dup_lo(r.s);
            put_twos(f, (h ? r.q.y : r.q.x) >> 8 * i, i, sc, mul2(sc, MINUS_BIT_6));
        }
    }
};

struct Q3Table : eight<0, 1, 2, 3, 4, 5, 6, 7> {
    enum : uint32_t { MINUS = 0x80048004u }; /* minus the code of 0: 4 */
};

/* The codebook of TQ3_1S divided by TQ3_STEP, plus 128 (squared error 5.6e-6). */
struct Tq3Table : eight<15, 55, 86, 114, 141, 169, 200, 240> {
    enum : uint32_t { MINUS = MINUS_BIT_7 };
};
#define TQ3_STEP (1 / 56.48348f)

typedef eight<8, 25, 43, 0, 0, 0, 0, 0> Iq2Table;
typedef eight<4, 12, 20, 28, 36, 44, 52, 62> Iq3xxsTable;
typedef eight<1, 3, 5, 7, 9, 11, 13, 15> Iq3sTable;

/* Q3_K (a byte scale for 16 columns, 32 too large, and d) and TQ3_1S (a bf16 scale for 16 columns).
 * A lane has four times eight codes in three words: nibble j of word 2h + i has code j of half h
 * and row i; the fourth row has none, and bit b of its codes is the fourth bit of the nibbles of
 * word b. */
template <class Table, bool BYTE_SCALES> struct Three : code_layout<BYTE_SCALES ? 480 : 512> {
    struct regs {
        uint2 q, s;
        uint32_t top, d;
    };
    __device__ static void load(regs &r, const uint8_t *p, int lane)
    {
        r.q = get<uint2>(p, lane);
        r.top = get<uint32_t>(p + 256, lane);
        r.s = get<uint2>(p + 384, BYTE_SCALES ? lane >> 2 : lane >> 1);
        if (BYTE_SCALES) r.d = get<uint32_t>(p + 448, lane >> 2);
    }
    __device__ static void frag(ft_frag *f, const regs &r, int h, int lane)
    {
        const uint32_t which = 0x4040u + 0x0101u * (2 * h + (lane >> 1 & 1));
#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint32_t sc;
            if (BYTE_SCALES) {
                const uint32_t s = __byte_perm(i ? r.s.y : r.s.x, MAGIC >> 24, which);
                sc = mul2(plus2(s, MINUS_160), i ? dup_hi(r.d) : dup_lo(r.d));
            } else {
                sc = half_scale(r.s, h, i);
            }
            uint32_t q = (h ? r.top : i ? r.q.y : r.q.x) & 0x77777777u;
            if (h && i)
                q = and_or(r.q.x >> 3, 0x11111111u,
                           and_or(r.q.y >> 2, 0x22222222u, r.top >> 1 & 0x44444444u));
            const uint32_t off = mul2(sc, Table::MINUS);
#pragma unroll
            for (int step = 0; step < 2; step++) {
                const uint32_t u = __byte_perm(Table::first, Table::second, step ? q >> 16 : q);
                f->a[step][i] = fma2(__byte_perm(u, 0, 0x4140), sc, off);
                f->a[step][i + 2] = fma2(__byte_perm(u, 0, 0x4342), sc, off);
            }
        }
    }
};

/* ---- codebooks ---- */

/* The codebook of a layout in shared memory: filled by all threads, and used after a barrier. An
 * entry has the codes of four values in its nibbles, or (IQ2) of eight: code j at bit 4 (j % 4) + 2
 * (j / 4). */
template <class W> __device__ __forceinline__ uint16_t *table_of()
{
    __shared__ __align__(16) uint16_t table[W::TABLE];
    return table;
}

template <class W> __device__ __forceinline__ void fill_table(const ft_wview &w)
{
    if constexpr (W::TABLE > 0)
        for (int i = threadIdx.x; i < W::TABLE / 8; i += blockDim.x)
            ((uint4 *)table_of<W>())[i] = ld16(w.table + 8 * i);
}

/* Value 4c.. of row i and half h has its sign at bit 8 (j % 4) + 4h + 2i + c. */
__device__ __forceinline__ uint32_t signs_of(uint32_t w, int h, int i, int c)
{
    return w << (7 - (4 * h + 2 * i + c));
}

/* Eight values from an entry of an IQ2 codebook. */
__device__ __forceinline__ void put_iq2_entry(ft_frag *f, uint32_t entry, uint32_t signs, int h,
                                              int i, uint32_t sc)
{
    put_four<Iq2Table>(f, i, 0, entry & 0x3333u, signs_of(signs, h, i, 0), sc);
    put_four<Iq2Table>(f, i, 1, entry >> 2 & 0x3333u, signs_of(signs, h, i, 1), sc);
}

/* Byte 2h + i: the index of a vector, or its lower bits. */
__device__ __forceinline__ uint32_t index_byte(uint32_t q, int h, int i)
{
    return q >> 8 * (2 * h + i) & 255;
}

/* Scales of 4 bits for 16 columns: (s + 1/2) d. A half-word of s, and of d, belongs to a row; s was
 * shifted by own_scales, so that bits 8h.. of it are those of this lane. */
__device__ __forceinline__ uint32_t own_scales(uint32_t s, int lane)
{
    return s >> 4 * (lane >> 1 & 1);
}

__device__ __forceinline__ uint32_t scale_4(uint32_t s, uint32_t d, int h, int i)
{
    const uint32_t x = nib(__byte_perm(s, 0, 0x4040u + 0x0101u * (2 * i + h)), 0);
    return mul2(plus2(x, MINUS_127_5), i ? dup_hi(d) : dup_lo(d));
}

/* IQ2_XXS: index, signs, and a scale a half. */
struct Iq2xxs : code_layout<320, 256> {
    struct regs {
        uint32_t q, signs;
        uint2 s;
    };
    __device__ static void load(regs &r, const uint8_t *p, int lane)
    {
        r.q = get<uint32_t>(p, lane);
        r.signs = get<uint32_t>(p + 128, lane);
        r.s = get<uint2>(p + 256, lane >> 2);
    }
    __device__ static void frag(ft_frag *f, const regs &r, int h, int lane)
    {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t s = i ? r.s.y : r.s.x;
            put_iq2_entry(f, table_of<Iq2xxs>()[index_byte(r.q, h, i)], r.signs, h, i,
                          h ? dup_hi(s) : dup_lo(s));
        }
    }
};

/* IQ2_S and IQ2_XS: two more bits of each index; bits 4h + 2i.. of a lane's byte. */
struct Iq2s : code_layout<352, 1024> {
    struct regs {
        uint32_t q, signs, top, s, d;
    };
    __device__ static void load(regs &r, const uint8_t *p, int lane)
    {
        r.q = get<uint32_t>(p, lane);
        r.signs = get<uint32_t>(p + 128, lane);
        r.top = get<uint8_t>(p + 256, lane);
        r.s = own_scales(get<uint32_t>(p + 288, lane >> 2), lane);
        r.d = get<uint32_t>(p + 320, lane >> 2);
    }
    __device__ static void frag(ft_frag *f, const regs &r, int h, int lane)
    {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t top = r.top << (8 - 2 * (2 * h + i)) & 0x300;
            put_iq2_entry(f, table_of<Iq2s>()[index_byte(r.q, h, i) | top], r.signs, h, i,
                          scale_4(r.s, r.d, h, i));
        }
    }
};

/* IQ1_M and IQ1_S: bits 4 (2h + i).. of a lane's half-word are three more bits of the index, and
 * whether 1/8 is subtracted. Values are -1 0 1 plus or minus 1/8. An entry has codes 0 1 2: value
 * 2j at bit 2j, value 2j + 1 at bit 8 + 2j. */
struct Iq1 : code_layout<256, 2048> {
    struct regs {
        uint32_t q, top, s, d;
    };
    __device__ static void load(regs &r, const uint8_t *p, int lane)
    {
        r.q = get<uint32_t>(p, lane);
        r.top = get<uint16_t>(p + 128, lane);
        r.s = own_scales(get<uint32_t>(p + 192, lane >> 2), lane);
        r.d = get<uint32_t>(p + 224, lane >> 2);
    }
    __device__ static void frag(ft_frag *f, const regs &r, int h, int lane)
    {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int at = 4 * (2 * h + i);
            const uint32_t top = (at < 8 ? r.top << (8 - at) : r.top >> (at - 8)) & 0x700;
            const uint32_t entry = table_of<Iq1>()[index_byte(r.q, h, i) | top];
            const uint32_t less = r.top & 8u << at ? MINUS_BIT_6_MORE : MINUS_BIT_6_LESS;
            const uint32_t sc = scale_4(r.s, r.d, h, i);
            put_twos(f, __byte_perm(entry, 0, 0x4140), i, sc, mul2(sc, less));
        }
    }
};

/* IQ3_XXS, and IQ3_S with a ninth bit: two indices of four values each, signs, a scale a half. */
template <class Table, int ENTRIES> struct Iq3 : code_layout<ENTRIES == 512 ? 480 : 448, ENTRIES> {
    struct regs {
        uint2 q, s;
        uint32_t signs, top;
    };
    __device__ static void load(regs &r, const uint8_t *p, int lane)
    {
        r.q = get<uint2>(p, lane);
        r.signs = get<uint32_t>(p + 256, lane);
        r.s = get<uint2>(p + 384, lane >> 2);
        if (ENTRIES == 512) r.top = get<uint8_t>(p + 448, lane);
    }
    __device__ static void frag(ft_frag *f, const regs &r, int h, int lane)
    {
        const uint16_t *table = table_of<Iq3>();
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t s = i ? r.s.y : r.s.x, sc = h ? dup_hi(s) : dup_lo(s);
#pragma unroll
            for (int c = 0; c < 2; c++) {
                uint32_t index = (h ? r.q.y : r.q.x) >> 8 * (2 * i + c) & 255;
                if (ENTRIES == 512) index |= r.top << (8 - (4 * h + 2 * i + c)) & 0x100;
                put_four<Table>(f, i, c, table[index], signs_of(r.signs, h, i, c), sc);
            }
        }
    }
};

typedef Three<Q3Table, true> Q3K;
typedef Three<Tq3Table, false> Tq3;
typedef Iq3<Iq3xxsTable, 256> Iq3xxs;
typedef Iq3<Iq3sTable, 512> Iq3s;

/* ---- all layouts ---- */

/* Each is named after one of the types that it is used for. */
#define FT_LAYOUTS(X)                                                                              \
    X(FT_Q2_K, Q2K)                                                                                \
    X(FT_Q3_K, Q3K)                                                                                \
    X(FT_Q4_K, Q4K)                                                                                \
    X(FT_Q5_K, Q5K)                                                                                \
    X(FT_Q6_K, Q6K)                                                                                \
    X(FT_Q8_0, Q8)                                                                                 \
    X(FT_Q4_0, Q40)                                                                                \
    X(FT_IQ1_M, Iq1)                                                                               \
    X(FT_IQ2_XXS, Iq2xxs)                                                                          \
    X(FT_IQ2_S, Iq2s)                                                                              \
    X(FT_IQ3_XXS, Iq3xxs)                                                                          \
    X(FT_IQ3_S, Iq3s)                                                                              \
    X(FT_IQ4_NL, Iq4)                                                                              \
    X(FT_TQ2_0, Ternary)                                                                           \
    X(FT_TQ3_1S, Tq3)                                                                              \
    X(FT_TQ4_1S, Tq4)                                                                              \
    X(FT_MXFP4, Mxfp4)                                                                             \
    X(FT_NVFP4, Nvfp4)                                                                             \
    X(FT_F16, Half)                                                                                \
    X(FT_F32, F32)

/* The type whose layout a type is packed into: mostly the type itself. */
__host__ __device__ __forceinline__ int packed_as(int type)
{
    switch (type) {
    case FT_Q4_1: return FT_Q4_K;
    case FT_Q5_0:
    case FT_Q5_1: return FT_Q5_K;
    case FT_IQ1_S: return FT_IQ1_M;
    case FT_IQ2_XS: return FT_IQ2_S;
    case FT_IQ4_XS: return FT_IQ4_NL;
    case FT_BF16: return FT_F16;
    case FT_TQ1_0:
    case FT_Q1_0:
    case FT_Q2_0:
    case FT_Q2_0_FORK: return FT_TQ2_0;
#define SAME(type, W) case type:
        FT_LAYOUTS(SAME)
#undef SAME
        return type;
    default: return FT_F32; /* other plain numbers */
    }
}

/* Bytes of a unit. */
static inline int ft_unit_bytes(ft_type t)
{
    switch (packed_as(t)) {
#define UNIT(type, W)                                                                              \
    case type: return W::BYTES;
        FT_LAYOUTS(UNIT)
#undef UNIT
    default: return 0;
    }
}

/* Whether product_groups multiplies a layout: larger weights would leave its ring buffer few
 * entries, smaller ones and codebooks were not measured. */
template <class W> constexpr bool groups_layout()
{
    return (int)W::BYTES > 512 && (int)W::BYTES <= 1088 && (int)W::TABLE == 0 && (int)W::XP == 1;
}

static inline bool ft_groups_type(ft_type t)
{
    switch (packed_as(t)) {
#define GROUPS(type, W)                                                                            \
    case type: return groups_layout<W>();
        FT_LAYOUTS(GROUPS)
#undef GROUPS
    default: return false;
    }
}

static inline int ft_units(int k)
{
    return (k + UNIT_K - 1) / UNIT_K;
}

enum { F32_SMALL = 1 << 20, F32_OUTPUTS = 512 };

/* The type that products read w as: large F32 matrices are stored as f16. Routers, other small ones
 * and experts stay F32. */
static inline ft_type ft_product_type(const ft_weight *w)
{
    const bool large = (size_t)w->n * (size_t)w->k >= F32_SMALL;
    return w->type == FT_F32 && w->E == 1 && large && w->n > F32_OUTPUTS ? FT_F16 : w->type;
}

/* Bytes of one matrix. */
static inline size_t ft_packed_bytes(ft_type t, int n, int k)
{
    return (size_t)((n + TILE_N - 1) / TILE_N) * (size_t)ft_units(k) * (size_t)ft_unit_bytes(t);
}

#endif
