/* dev/cuda/product/weights.cuh - the packed layout of weights, and decoding to tensor core
 * operands. A matrix is cut into tiles of 16 rows, a tile into units of 64 columns; a warp loads
 * one unit at a time, 16 bytes per lane where possible. In each half of 32 columns lane (g, t) =
 * (lane / 4, lane % 4) has columns [8t, 8t + 8) of rows g and g + 8: those eight, in this order,
 * are its operands of two m16n8k16 products. The order of columns inside a product is arbitrary as
 * long as the activations (a bf16 copy, common.cuh) are read in the same order: also sixteen bytes
 * per lane.
 *
 * A weight is decoded to bf16: w = round(q * s - m), with s and m rounded to bf16 when it was
 * packed. The squared error of that is about 3e-6 of the squared weights, far below the
 * quantisation error. Plain numbers are exact: BF16 as it is, F16 and F32 as two bf16 parts. */
#ifndef FT_DEV_CUDA_WEIGHTS_CUH
#define FT_DEV_CUDA_WEIGHTS_CUH

#include "dev/cuda/quant.cuh"

enum { UNIT_K = 64, TILE_N = 16, PARTS = 8 };

/* A packed (or, for `Generic`, a plain) matrix as a kernel sees it. */
typedef struct ft_wview {
    const uint8_t *p; /* the first tile (row) of the matrix */
    size_t row_bytes; /* Generic: of a row */
    const uint16_t *grid;
    int type, n, k, units;
} ft_wview;

/* Both k16 steps of a half unit: a[step] are the four registers of an A operand. */
typedef struct ft_frag {
    uint32_t a[2][4];
} ft_frag;

__device__ __forceinline__ uint32_t bf2(float lo, float hi)
{
    const __nv_bfloat162 v = __floats2bfloat162_rn(lo, hi);
    return *(const uint32_t *)&v;
}

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
    MINUS_136 = 0xc308c308u,
    MINUS_160 = 0xc320c320u,
    TIMES_16 = 0x41804180u,
};

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

/* Address of a unit. Then `load` fetches a lane's part of the unit at p, in global or in shared
 * memory (From), and `frag` decodes half h. */
__device__ __forceinline__ const uint8_t *unit_at(const ft_wview &w, int tile, int u, int bytes)
{
    return w.p + ((size_t)tile * w.units + u) * bytes;
}

__device__ __forceinline__ uint4 ld16(const void *p)
{
    return __ldg((const uint4 *)p);
}

struct Global {
    template <class V> __device__ __forceinline__ static V get(const V *p)
    {
        return __ldg(p);
    }
};

struct Shared {
    template <class V> __device__ __forceinline__ static V get(const V *p)
    {
        return *p;
    }
};

template <class From> __device__ __forceinline__ uint4 get16(const void *p)
{
    return From::get((const uint4 *)p);
}

/* Q4_K, and Q4_1: codes, then for each row and half s and -m. */
struct Q4K {
    enum { BYTES = 640, XP = 1, WP = 1 };
    struct regs {
        uint4 q, s;
    };
    template <class From>
    __device__ static void load(regs &r, const uint8_t *p, const ft_wview &w, int tile, int u,
                                int lane)
    {
        r.q = get16<From>(p + 16 * lane);
        r.s = get16<From>(p + 512 + 16 * (lane >> 2));
    }
    __device__ static void frag(ft_frag *f, const regs &r, int h, int lane)
    {
        const uint32_t q[2] = {h ? r.q.z : r.q.x, h ? r.q.w : r.q.y};
        const uint32_t s[2] = {h ? r.s.y : r.s.x, h ? r.s.w : r.s.z};
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t sc = dup_lo(s[i]), mn = dup_hi(s[i]);
#pragma unroll
            for (int j = 0; j < 4; j++)
                f->a[j / 2][i + 2 * (j % 2)] = fma2(plus2(nib(q[i], j), MINUS_128), sc, mn);
        }
    }
};

/* Q5_K, Q5_1 and Q5_0 (m = 16 s): the fifth bits follow the codes; bit 4c + j of a half-word is
 * pair j of row half c. */
struct Q5K {
    enum { BYTES = 768, XP = 1, WP = 1 };
    struct regs {
        uint4 q, s;
        uint32_t h;
    };
    template <class From>
    __device__ static void load(regs &r, const uint8_t *p, const ft_wview &w, int tile, int u,
                                int lane)
    {
        r.q = get16<From>(p + 16 * lane);
        r.h = From::get((const uint32_t *)(p + 512) + lane);
        r.s = get16<From>(p + 640 + 16 * (lane >> 2));
    }
    __device__ static void frag(ft_frag *f, const regs &r, int h, int lane)
    {
        const uint32_t q[2] = {h ? r.q.z : r.q.x, h ? r.q.w : r.q.y};
        const uint32_t s[2] = {h ? r.s.y : r.s.x, h ? r.s.w : r.s.z};
        const uint32_t top = h ? r.h >> 8 : r.h;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t sc = dup_lo(s[i]), mn = dup_hi(s[i]);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const int at = 4 * i + j;
                const uint32_t t = at < 4 ? top << (4 - at) : top >> (at - 4);
                const uint32_t v = and_or(t, 0x00100010u, nib(q[i], j));
                f->a[j / 2][i + 2 * (j % 2)] = fma2(plus2(v, MINUS_128), sc, mn);
            }
        }
    }
};

/* Q6_K: two more bits for each value, and a scale for every 16 columns. */
struct Q6K {
    enum { BYTES = 896, XP = 1, WP = 1 };
    struct regs {
        uint4 q, s;
        uint2 h;
    };
    template <class From>
    __device__ static void load(regs &r, const uint8_t *p, const ft_wview &w, int tile, int u,
                                int lane)
    {
        r.q = get16<From>(p + 16 * lane);
        r.h = From::get((const uint2 *)(p + 512) + lane);
        r.s = get16<From>(p + 768 + 16 * (lane >> 2));
    }
    __device__ static void frag(ft_frag *f, const regs &r, int h, int lane)
    {
        const uint32_t q[2] = {h ? r.q.z : r.q.x, h ? r.q.w : r.q.y};
        const uint32_t s[2] = {h ? r.s.y : r.s.x, h ? r.s.w : r.s.z};
        const uint32_t top = h ? r.h.y : r.h.x;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t sc = lane & 2 ? dup_hi(s[i]) : dup_lo(s[i]);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const int at = 8 * i + 2 * j;
                const uint32_t t = at < 4 ? top << (4 - at) : top >> (at - 4);
                const uint32_t v = and_or(t, 0x00300030u, nib(q[i], j));
                f->a[j / 2][i + 2 * (j % 2)] = mul2(plus2(v, MINUS_160), sc);
            }
        }
    }
};

/* Q8_0: q + 128 as two nibbles each: low nibbles of a row, high nibbles of a row. */
struct Q8 {
    enum { BYTES = 1088, XP = 1, WP = 1 };
    struct regs {
        uint4 q[2];
        uint2 s;
    };
    template <class From>
    __device__ static void load(regs &r, const uint8_t *p, const ft_wview &w, int tile, int u,
                                int lane)
    {
        r.q[0] = get16<From>(p + 16 * lane);
        r.q[1] = get16<From>(p + 512 + 16 * lane);
        r.s = From::get((const uint2 *)(p + 1024) + (lane >> 2));
    }
    __device__ static void frag(ft_frag *f, const regs &r, int h, int lane)
    {
        const uint4 v = h ? r.q[1] : r.q[0];
        const uint32_t lo[2] = {v.x, v.z}, hi[2] = {v.y, v.w}, s[2] = {r.s.x, r.s.y};
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t sc = h ? dup_hi(s[i]) : dup_lo(s[i]), off = mul2(sc, MINUS_128);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const uint32_t u = fma2(plus2(nib(hi[i], j), MINUS_136), TIMES_16, nib(lo[i], j));
                f->a[j / 2][i + 2 * (j % 2)] = fma2(u, sc, off);
            }
        }
    }
};

/* Q4_0: codes and one scale a half. */
struct Q40 {
    enum { BYTES = 576, XP = 1, WP = 1 };
    struct regs {
        uint4 q;
        uint2 s;
    };
    template <class From>
    __device__ static void load(regs &r, const uint8_t *p, const ft_wview &w, int tile, int u,
                                int lane)
    {
        r.q = get16<From>(p + 16 * lane);
        r.s = From::get((const uint2 *)(p + 512) + (lane >> 2));
    }
    __device__ static void frag(ft_frag *f, const regs &r, int h, int lane)
    {
        const uint32_t q[2] = {h ? r.q.z : r.q.x, h ? r.q.w : r.q.y}, s[2] = {r.s.x, r.s.y};
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t sc = h ? dup_hi(s[i]) : dup_lo(s[i]);
#pragma unroll
            for (int j = 0; j < 4; j++)
                f->a[j / 2][i + 2 * (j % 2)] = mul2(plus2(nib(q[i], j), MINUS_136), sc);
        }
    }
};

struct Iq4Table {
    /* bf16 of -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113 */
    __device__ static void get(uint32_t l[4], uint32_t h[4])
    {
        l[0] = 0x82a6d0feu, h[0] = 0xc2c2c2c2u;
        l[1] = 0x20b00c44u, h[1] = 0xc1c1c2c2u;
        l[2] = 0x18c85080u, h[2] = 0x4241413fu;
        l[3] = 0xe2b28a54u, h[3] = 0x42424242u;
    }
};

struct Fp4Table {
    /* bf16 of 0 1 2 3 4 6 8 12 and their negatives */
    __device__ static void get(uint32_t l[4], uint32_t h[4])
    {
        l[0] = 0x40008000u, h[0] = 0x40403f00u;
        l[1] = 0x4000c080u, h[1] = 0x41414040u;
        l[2] = 0x40008000u, h[2] = 0xc0c0bf80u;
        l[3] = 0x4000c080u, h[3] = 0xc1c1c0c0u;
    }
};

/* IQ4_NL, IQ4_XS, MXFP4 (one scale a half) and NVFP4 (two): codes in natural order. */
template <class Table, int SCALES> struct Lut {
    enum { BYTES = 512 + 64 * SCALES, XP = 1, WP = 1 };
    struct regs {
        uint4 q, s;
    };
    template <class From>
    __device__ static void load(regs &r, const uint8_t *p, const ft_wview &w, int tile, int u,
                                int lane)
    {
        r.q = get16<From>(p + 16 * lane);
        if (SCALES == 1) {
            const uint2 s = From::get((const uint2 *)(p + 512) + (lane >> 2));
            r.s.x = s.x, r.s.y = s.y;
        } else {
            r.s = get16<From>(p + 512 + 16 * (lane >> 2));
        }
    }
    __device__ static void frag(ft_frag *f, const regs &r, int h, int lane)
    {
        const uint32_t q[2] = {h ? r.q.z : r.q.x, h ? r.q.w : r.q.y};
        uint32_t l[4], hi[4];
        Table::get(l, hi);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint32_t sc;
            if (SCALES == 1) {
                const uint32_t s = i ? r.s.y : r.s.x;
                sc = h ? dup_hi(s) : dup_lo(s);
            } else {
                const uint32_t s = i ? (h ? r.s.w : r.s.z) : (h ? r.s.y : r.s.x);
                sc = lane & 2 ? dup_hi(s) : dup_lo(s);
            }
            uint32_t p[4];
            look_up(q[i], l, hi, p[0], p[1]);
            look_up(q[i] >> 16, l, hi, p[2], p[3]);
#pragma unroll
            for (int j = 0; j < 4; j++) f->a[j / 2][i + 2 * (j % 2)] = mul2(p[j], sc);
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

/* BF16: unchanged, for each half and row eight values per lane. */
struct Bf16 {
    enum { BYTES = 2048, XP = 2, WP = 1 };
    struct regs {
        uint4 v[4];
    };
    template <class From>
    __device__ static void load(regs &r, const uint8_t *p, const ft_wview &w, int tile, int u,
                                int lane)
    {
        p += 16 * lane;
#pragma unroll
        for (int i = 0; i < 4; i++) r.v[i] = get16<From>(p + 512 * i);
    }
    __device__ static void frag(ft_frag *f, const regs &r, int h, int lane)
    {
        frag_row(f, 0, h ? r.v[2] : r.v[0]);
        frag_row(f, 1, h ? r.v[3] : r.v[1]);
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

/* F16 and F32 as two bf16 parts: f[0] and f[1]. */
struct F16 {
    enum { BYTES = 2048, XP = 2, WP = 2 };
    typedef Bf16::regs regs;
    template <class From>
    __device__ static void load(regs &r, const uint8_t *p, const ft_wview &w, int tile, int u,
                                int lane)
    {
        Bf16::load<From>(r, p, w, tile, u, lane);
    }
    __device__ static void frag(ft_frag *f, const regs &r, int h, int lane)
    {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint4 v = h ? r.v[2 + i] : r.v[i];
            const uint32_t in[4] = {v.x, v.y, v.z, v.w};
            uint32_t hi[4], lo[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float2 x = __half22float2(*(const __half2 *)&in[j]);
                split2(x.x, x.y, hi[j], lo[j]);
            }
            frag_row(&f[0], i, make_uint4(hi[0], hi[1], hi[2], hi[3]));
            frag_row(&f[1], i, make_uint4(lo[0], lo[1], lo[2], lo[3]));
        }
    }
};

struct F32 {
    enum { BYTES = 4096, XP = 2, WP = 2 };
    struct regs {
        uint4 v[8];
    };
    template <class From>
    __device__ static void load(regs &r, const uint8_t *p, const ft_wview &w, int tile, int u,
                                int lane)
    {
        p += 16 * lane;
#pragma unroll
        for (int i = 0; i < 8; i++) r.v[i] = get16<From>(p + 512 * i);
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

/* decode8 as a function call: it is long, and these types are not critical. */
__device__ __noinline__ static uint4 decode8_bf16(int type, const uint8_t *row, int k, int K,
                                                  const uint16_t *grid)
{
    float v[8];
    decode8(type, row, k, K, v, grid);
    return make_uint4(bf2(v[0], v[1]), bf2(v[2], v[3]), bf2(v[4], v[5]), bf2(v[6], v[7]));
}

/* All other types: decoded from file layout when they are read. */
struct Generic {
    enum { BYTES = 0, XP = 1, WP = 1 };
    struct regs {
        const uint8_t *row[2];
        const uint16_t *grid;
        int type, k, K;
    };
    template <class From>
    __device__ static void load(regs &r, const uint8_t *p, const ft_wview &w, int tile, int u,
                                int lane)
    {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int o = tile * TILE_N + (lane >> 2) + 8 * i;
            r.row[i] = w.p + (size_t)(o < w.n ? o : w.n - 1) * w.row_bytes;
        }
        r.grid = w.grid;
        r.type = w.type;
        r.k = u * UNIT_K + 8 * (lane & 3);
        r.K = w.k;
    }
    __device__ static void frag(ft_frag *f, const regs &r, int h, int lane)
    {
        frag_row(f, 0, decode8_bf16(r.type, r.row[0], r.k + 32 * h, r.K, r.grid));
        frag_row(f, 1, decode8_bf16(r.type, r.row[1], r.k + 32 * h, r.K, r.grid));
    }
};

typedef Lut<Iq4Table, 1> Iq4;
typedef Lut<Fp4Table, 1> Mxfp4;
typedef Lut<Fp4Table, 2> Nvfp4;

/* The type whose layout a type is packed into: mostly the type itself. */
__host__ __device__ __forceinline__ int packed_as(int type)
{
    return type == FT_Q4_1 ? FT_Q4_K : type == FT_Q5_0 || type == FT_Q5_1 ? FT_Q5_K : type;
}

/* Bytes of a unit of a packed type; 0: it stays in file layout. */
static inline int ft_unit_bytes(ft_type t)
{
    switch (packed_as(t)) {
    case FT_Q4_K: return Q4K::BYTES;
    case FT_Q5_K: return Q5K::BYTES;
    case FT_Q6_K: return Q6K::BYTES;
    case FT_Q8_0: return Q8::BYTES;
    case FT_Q4_0: return Q40::BYTES;
    case FT_IQ4_NL:
    case FT_IQ4_XS:
    case FT_MXFP4: return Iq4::BYTES;
    case FT_NVFP4: return Nvfp4::BYTES;
    case FT_BF16:
    case FT_F16: return Bf16::BYTES;
    case FT_F32: return F32::BYTES;
    default: return 0;
    }
}

static inline int ft_units(int k)
{
    return (k + UNIT_K - 1) / UNIT_K;
}

/* Bytes of one matrix. */
static inline size_t ft_packed_bytes(ft_type t, int n, int k)
{
    return (size_t)((n + TILE_N - 1) / TILE_N) * (size_t)ft_units(k) * (size_t)ft_unit_bytes(t);
}

#endif
