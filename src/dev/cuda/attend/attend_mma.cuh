/* dev/cuda/attend/attend_mma.cuh - attention on tensor cores. A block computes a tile: 16 WM query
 * vectors, the query heads of one KV head over consecutive rows of a sequence. Keys and values of a
 * page are copied to shared memory in their stored encoding while the previous page is processed;
 * encodings other than f16 are expanded there. Eight warps divide the scores by positions and the
 * sums by columns; softmax weights are exchanged through shared memory.
 *
 * Every sum is in the order of the positions (or of the head's values), whatever the tile: a row
 * has the same bits alone, in a batch with draft tokens and in a prompt.
 *
 * One row with a context of 32,000 on an H200 (27b: 4 KV heads of 256, 6 query heads each): f16 131
 * MB in 34 us, 3.9 TB/s, 84 % of a plain read; turbo4 35 MB in 46 us, 16 % (with a longer decoding
 * than today's): pages are expanded between barriers, and scores, weights and sums depend on one
 * another, with only two blocks per multiprocessor to hide the latency. Merging the ranges takes 4
 * to 6 us more.
 *
 * A prompt of 4096 rows (f16, the same heads): 1.4 ms, 148 TFLOP/s, a fifth of the tensor core
 * peak: one block of eight warps per multiprocessor, with three barriers per page. */
#ifndef FT_CUDA_ATTEND_WALK_CUH
#define FT_CUDA_ATTEND_WALK_CUH

#include "dev/cuda/attend/attend.cuh"
#include "dev/cuda/spans.cuh"

enum { PAGE = FT_PAGE_ROWS, THREADS = 256 };

/* Pages of keys and of values alternate in a ring buffer. With three entries two copies are in
 * flight at any time; where shared memory is short there are two entries. cc: compute capability
 * times 10. */
#define RING_OF(cc, D) ((D) <= 256 && ((cc) == 80 || (cc) == 90 || (cc) == 100) ? 3 : 2)

/* Layout of a block's shared memory: byte offsets. */
typedef struct layout {
    int q, tile, ring, place, p, red, rows, table,
        bytes; /* place: bytes of one entry of the ring */
} layout;

static inline int scratch_bytes(const kv_side &s, int D)
{
    return PAGE * (s.type == FT_KV_F16 ? 2 * D : s.row);
}

static inline layout layout_of(const attend_args *a, int D, int WM, int cc)
{
    layout l;
    const int M = 16 * WM;
    const bool direct = a->k.type == FT_KV_F16 && a->v.type == FT_KV_F16;
    int at = 0;
    l.q = at;
    at += M * D * 2;
    l.tile = at; /* an expanded page */
    if (!direct) at += PAGE * D * 2;
    l.ring = at;
    l.place = FT_MAX(scratch_bytes(a->k, D), scratch_bytes(a->v, D));
    at += RING_OF(cc, D) * l.place;
    l.p = at;
    at += M * PAGE * 2;
    l.red = at;
    at += 8 / WM * M * 4;
    l.rows = at;
    at += M * 2 * 4;
    l.table = at;
    at += 2 * 16 * 2;
    l.bytes = at;
    return l;
}

/* ---- pages ---- */

/* A page of rows in their stored encoding; f16 rows are swizzled. One pass of all threads copies
 * 4096 bytes. */
template <int D>
__device__ __forceinline__ void fetch(const kv_side &s, uint32_t to, int page, int g)
{
    enum { PIECES = D / 8, ROWS = THREADS / PIECES }; /* of a row, of a pass */
    const int tid = threadIdx.x, r = tid / PIECES, c = tid % PIECES;
    const unsigned char *from = kv_page(s, page, g) + 16 * tid;
    if (s.type == FT_KV_F16) {
#pragma unroll
        for (int i = 0; i < PAGE / ROWS; i++) /* eight rows further the swizzle is the same */
            copy_16(to + 16 * swizzled(r + (ROWS < 8 ? i % 2 * ROWS : 0), c, PIECES) +
                        (ROWS < 8 ? i / 2 * 8192 : i * 4096),
                    from + 4096 * i);
    } else {
        to += 16 * tid;
        for (int i = tid; i < PAGE / 16 * s.row; i += THREADS, to += 4096, from += 4096)
            copy_16(to, from);
    }
}

template <int D> __device__ constexpr int ring_of(void)
{
#ifdef __CUDA_ARCH__
    return RING_OF(__CUDA_ARCH__ / 10, D);
#else
    return 3;
#endif
}

/* The pages that a block processes. Entry 2 i of the ring is page i of the keys, 2 i + 1 of the
 * values. */
typedef struct page_ring {
    const attend_args *a;
    unsigned char *ring;
    int bytes; /* of an entry */
    const int32_t *page;
    int g, pages;
} page_ring;

template <int D> __device__ __forceinline__ unsigned char *place(const page_ring &w, int item)
{
    return w.ring + item % ring_of<D>() * w.bytes;
}

template <int D> __device__ __forceinline__ void issue(const page_ring &w, int item)
{
    if (item < 2 * w.pages)
        fetch<D>(item & 1 ? w.a->v : w.a->k, shared_at(place<D>(w, item)), w.page[item / 2], w.g);
    copy_commit();
}

__device__ __forceinline__ uint4 pack_eight(const float (&v)[8])
{
    return make_uint4(pack_half(v[0], v[1]), pack_half(v[2], v[3]), pack_half(v[4], v[5]),
                      pack_half(v[6], v[7]));
}

__device__ __forceinline__ uint32_t two_bytes(const unsigned char *p)
{
    return *(const uint16_t *)p;
}

/* Values i .. i + 7 of a row, as halves. Rows have even addresses. */
__device__ __forceinline__ uint4 eight_bf16(const unsigned char *row, int i)
{
    float v[8];
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const float x = __uint_as_float(two_bytes(row + 2 * (i + j)) << 16);
        v[j] = fminf(fmaxf(x, -65504.0f), 65504.0f);
    }
    return pack_eight(v);
}

__device__ __forceinline__ __half2 as_halves(uint32_t v)
{
    __half2 h;
    memcpy(&h, &v, 4);
    return h;
}

/* Two halves, plus a constant, times a scale. */
__device__ __forceinline__ uint32_t scaled(uint32_t v, float plus, __half2 scale)
{
    const __half2 h = __hmul2(__hadd2(as_halves(v), __float2half2_rn(plus)), scale);
    uint32_t u;
    memcpy(&u, &h, 4);
    return u;
}

__device__ __forceinline__ __half2 scale_of_block(const unsigned char *b)
{
    return __half2half2(__ushort_as_half((uint16_t)two_bytes(b)));
}

/* A half with the bits 0x6400 | n is 1024 + n, for n below 1024. */
__device__ __forceinline__ uint4 eight_q8_0(const unsigned char *row, int i)
{
    const unsigned char *b = row + i / 32 * 34, *q = b + 2 + i % 32;
    const __half2 scale = scale_of_block(b);
    uint32_t out[4];
#pragma unroll
    for (int j = 0; j < 2; j++) {
        const uint32_t four = two_bytes(q + 4 * j) | two_bytes(q + 4 * j + 2) << 16;
        const uint32_t up = four ^ 0x80808080u; /* 128 more, without a sign */
        out[2 * j] = scaled(__byte_perm(up, 0x64, 0x4140), -1152.0f, scale);
        out[2 * j + 1] = scaled(__byte_perm(up, 0x64, 0x4342), -1152.0f, scale);
    }
    return make_uint4(out[0], out[1], out[2], out[3]);
}

__device__ __forceinline__ uint4 eight_q4_0(const unsigned char *row, int i)
{
    const unsigned char *b = row + i / 32 * 18, *q = b + 2 + i % 16;
    const __half2 scale = scale_of_block(b);
    const int shift = i % 32 / 16 * 4;
    uint32_t out[4];
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const uint32_t two = __byte_perm(two_bytes(q + 2 * j) >> shift, 0, 0x4140);
        out[j] = scaled(and_or(two, 0x000f000fu, 0x64006400u), -1032.0f, scale);
    }
    return make_uint4(out[0], out[1], out[2], out[3]);
}

/* A table of eight halves in registers, as low bytes and high bytes. The codebooks of four bits are
 * symmetric: their upper half. */
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

/* Four values of the table: codes in the nibbles of the low half of v, signs as the highest bits of
 * bytes. */
__device__ __forceinline__ void four_of(const codebook &b, uint32_t v, uint32_t minus,
                                        __half2 scale, uint32_t &p0, uint32_t &p1)
{
    const uint32_t lo = __byte_perm(b.low[0], b.low[1], v);
    const uint32_t hi = __byte_perm(b.high[0], b.high[1], v) ^ (minus & 0x80808080u);
    const __half2 h0 = __hmul2(as_halves(__byte_perm(lo, hi, 0x5140)), scale);
    const __half2 h1 = __hmul2(as_halves(__byte_perm(lo, hi, 0x7362)), scale);
    memcpy(&p0, &h0, 4);
    memcpy(&p1, &h1, 4);
}

template <int D, int BITS>
__device__ __forceinline__ uint4 eight_turbo(const unsigned char *row, int i, int head,
                                             int group_bytes, const codebook &book)
{
    enum { GROUP = D % 128 ? 64 : 128 };
    const unsigned char *b = row + i / GROUP * group_bytes, *codes = b + head;
    const int at = i % GROUP;
    const __half2 scale = scale_of_block(b);
    uint32_t code, minus0 = 0, minus1 = 0, out[4]; /* codes below eight, in nibbles */
    if (BITS == 4) {
        const uint32_t all = two_bytes(codes + at / 2) | two_bytes(codes + at / 2 + 2) << 16;
        const uint32_t up = all << 4, lower = ~(all >> 3) & 0x11111111u; /* below zero */
        code = (all ^ lower * 7) & 0x77777777u;
        minus0 = ~__byte_perm(up, all, 0x5140);
        minus1 = ~__byte_perm(up, all, 0x7362);
    } else {
        code = spread_twos(two_bytes(codes + at / 4));
        if (BITS == 3) code |= spread_ones(codes[GROUP / 4 + at / 8]) << 2;
    }
    four_of(book, code, minus0, scale, out[0], out[1]);
    four_of(book, code >> 16, minus1, scale, out[2], out[3]);
    return make_uint4(out[0], out[1], out[2], out[3]);
}

/* Expands a page of rows to a tile of halves. */
template <int D>
__device__ __forceinline__ void expand(const kv_side &s, unsigned char *to,
                                       const unsigned char *raw, const uint16_t *table)
{
    uint4 *tile = (uint4 *)to;
    enum { PIECES = D / 8, ROWS = THREADS / PIECES }; /* of a row, of a pass of all threads */
    const int first = threadIdx.x / PIECES, c = threadIdx.x % PIECES, i = 8 * c;
    const unsigned char *row = raw + first * s.row;
#define EACH(eight)                                                                                \
    _Pragma("unroll 4") for (int r = first; r < PAGE; r += ROWS, row += ROWS * s.row)              \
    {                                                                                              \
        tile[swizzled(r, c, PIECES)] = eight;                                                      \
    }
    switch (s.type) {
    case FT_KV_BF16: EACH(eight_bf16(row, i)); break;
    case FT_KV_Q8_0: EACH(eight_q8_0(row, i)); break;
    case FT_KV_Q4_0: EACH(eight_q4_0(row, i)); break;
    default: {
        const codebook book = codebook_of(table + (s.f.bits == 4 ? 8 : 0));
        if (s.f.bits == 4) {
            EACH((eight_turbo<D, 4>(row, i, s.f.head, s.group_bytes, book)));
        } else if (s.f.bits == 3) {
            EACH((eight_turbo<D, 3>(row, i, s.f.head, s.group_bytes, book)));
        } else {
            EACH((eight_turbo<D, 2>(row, i, s.f.head, s.group_bytes, book)));
        }
    }
    }
#undef EACH
}

/* ---- tiles ---- */

typedef struct tile {
    int row, rows; /* rows of q */
    int slot;
    int start;          /* positions from here on are written in this step */
    int end, rise;      /* row r of the tile sees the positions below end + r * rise */
    ft_attn_parts part; /* of the first row */
    int lo, hi;         /* positions that any of its rows sees */
} tile;

/* One of the output rows. */
__device__ __forceinline__ void out_tile(const attend_args &a, int i, tile *t)
{
    const int row = a.b.out_row[i];
    const ft_span *of = &a.b.span[a.b.span_of[row]];
    *t = {i, 1, of->slot, of->start, a.b.end[row], 0, a.part_of[row], 0, 0};
}

__device__ __forceinline__ void piece_tile(const attend_args &a, const ft_span_range &s, int from,
                                           tile *t)
{
    const ft_attn_parts part = {s.part.first + from * s.part.n, s.part.n};
    const int rows = min(a.rows, s.n - from), end = s.end + from * s.rise;
    *t = {s.row + from, rows, s.slot, s.start, end, s.rise, part, 0, 0};
}

/* Tile number i: a piece of a span, or one of the output rows. Every warp computes it. */
__device__ __forceinline__ bool find_tile(const attend_args &a, int i, tile *t)
{
    int span, from;
    if (a.out ? i >= a.q.T : !span_piece(a.b, i, a.rows, &span, &from)) return false;
    if (a.out)
        out_tile(a, i, t);
    else
        piece_tile(a, a.span_range[span], from, t);
    return true;
}

/* The first range that rows with ends from...to see, and the number of ranges up to the last. Rows
 * that see nothing have one range. */
__device__ __forceinline__ int ranges_of(const attend_args &a, int from, int to, int *first)
{
    int lo, hi, none;
    seen(a, from, &lo, &none);
    seen(a, to, &none, &hi);
    *first = lo / FT_RANGE;
    return hi > lo ? (hi - 1) / FT_RANGE - *first + 1 : 1;
}

__device__ __forceinline__ int piece_ranges(const attend_args &a, const ft_span_range &s, int from,
                                            int *first)
{
    const int last = min(from + a.rows, s.n) - 1;
    return ranges_of(a, s.end + from * s.rise, s.end + last * s.rise, first);
}

/* The value that lane `at` of the warp holds. */
__device__ __forceinline__ ft_span_range span_range_of(const ft_span_range &s, int at)
{
    const unsigned all = 0xffffffffu;
    return {__shfl_sync(all, s.row, at),
            __shfl_sync(all, s.n, at),
            __shfl_sync(all, s.slot, at),
            __shfl_sync(all, s.start, at),
            __shfl_sync(all, s.end, at),
            __shfl_sync(all, s.rise, at),
            {__shfl_sync(all, s.part.first, at), __shfl_sync(all, s.part.n, at)}};
}

/* Range number i of all tiles in order: its tile, and which range of positions it is. A lane counts
 * the ranges of a span, or of an output row. *count: their number, once it is known. */
__device__ __forceinline__ bool find_range(const attend_args &a, int i, tile *t, int *range,
                                           int *count)
{
    const int lane = threadIdx.x & 31, spans = a.out ? a.q.T : a.b.S;
    for (int from = 0, before = 0; from < spans; from += 32) {
        const int own = from + lane;
        ft_span_range s = {};
        int sum = 0, first;
        if (own < spans && a.out) {
            s = {own, 1, 0, 0, a.b.end[a.b.out_row[own]], 0, {0, 0}};
        } else if (own < spans) {
            *(int4 *)&s.row = *(const int4 *)&a.span_range[own].row;
            *(int4 *)&s.end = *(const int4 *)&a.span_range[own].end;
        }
        for (int r = 0; r < s.n; r += a.rows) sum += piece_ranges(a, s, r, &first);
        int upto = sum;
#pragma unroll
        for (int o = 1; o < 32; o *= 2) {
            const int left = __shfl_up_sync(0xffffffffu, upto, o);
            if (lane >= o) upto += left;
        }
        upto += before;
        before = __shfl_sync(0xffffffffu, upto, 31);
        if (from + 32 >= spans) *count = before;
        const unsigned beyond = __ballot_sync(0xffffffffu, i < upto);
        if (!beyond) continue;
        const int at = __ffs(beyond) - 1;
        i -= __shfl_sync(0xffffffffu, upto - sum, at);
        s = span_range_of(s, at);
        int r = 0;
        for (int k; i >= (k = piece_ranges(a, s, r, &first)); r += a.rows) i -= k;
        *range = first + i;
        if (a.out)
            out_tile(a, s.row, t);
        else
            piece_tile(a, s, r, t);
        return true;
    }
    return false;
}

/* The positions that each query vector of the tile sees, into shared memory; none for padding. The
 * last row sees the farthest ahead: images lie in a span as a whole. */
__device__ __forceinline__ void tile_ranges(const attend_args &a, tile *t, int *seen_by, int M)
{
    for (int i = threadIdx.x; i < M; i += THREADS) {
        const int r = i / a.group;
        int lo = 0, hi = 0;
        if (r < t->rows) seen_by_row(a, t->row + r, t->end + r * t->rise, &lo, &hi);
        seen_by[2 * i] = lo;
        seen_by[2 * i + 1] = hi;
    }
    int none;
    seen_by_row(a, t->row, t->end, &t->lo, &none);
    seen_by_row(a, t->row + t->rows - 1, t->end + (t->rows - 1) * t->rise, &none, &t->hi);
    t->lo = min(t->lo, t->hi);
    __syncthreads();
}

/* The tile's queries as halves, Hadamard-transformed if the keys are. A warp takes a vector. */
template <int D>
__device__ __forceinline__ void load_queries(const attend_args &a, const tile &t, int g,
                                             unsigned char *to, int M)
{
    enum { E = D % 128 ? 2 : 4 };
    const int lane = threadIdx.x & 31;
    for (int i = threadIdx.x / 32; i < M; i += THREADS / 32) {
        const bool there = i < t.rows * a.group;
        const float *q =
            mat_head(a.q, t.row + (there ? i / a.group : 0), g * a.group + i % a.group);
#pragma unroll
        for (int at = E * lane; at < D; at += 32 * E) {
            float v[E];
#pragma unroll
            for (int e = 0; e < E; e++) v[e] = there ? q[at + e] : 0.0f;
            if (a.k.hadamard)
                hadamard_group(v, a.hadamard.before, a.hadamard.after, a.hadamard.root);
            unsigned char *piece = to + 16 * swizzled(i, at / 8, D / 8) + 2 * (at % 8);
#pragma unroll
            for (int e = 0; e < E; e += 2) *(uint32_t *)(piece + 2 * e) = pack_half(v[e], v[e + 1]);
        }
    }
}

/* ---- softmax and sums ---- */

/* A thread's part of the tile's softmax: rows lane / 4 and + 8 of the 16 of its warp, the columns
 * of its warp. l is the first and third value of a fragment. */
template <int NO> struct running {
    float m[2], l[4], o[NO][4];
};

template <int NO> __device__ __forceinline__ void reset(running<NO> &r)
{
    r.m[0] = r.m[1] = -INFINITY;
#pragma unroll
    for (int i = 0; i < 4; i++) r.l[i] = 0;
#pragma unroll
    for (int n = 0; n < NO; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) r.o[n][i] = 0;
}

/* o += weights times values, l += weights. column: a multiple of NO, in groups of eight. */
template <int D, int NO>
__device__ __forceinline__ void add_values(running<NO> &r, uint32_t p, uint32_t v, int m,
                                           int column)
{
    const int lane = threadIdx.x & 31, x = lane & 7;
    const uint32_t ones = 0x3c003c00, row = v + lane * 2 * D;
    const uint32_t weights = p + (m + lane % 16) * 2 * PAGE;
#pragma unroll
    for (int k = 0; k < PAGE / 32; k++) {
        uint32_t a0[4], a1[4], b[4];
        load_frags(a0, weights + 16 * ((4 * k + lane / 16) ^ x));
        load_frags(a1, weights + 16 * ((4 * k + 2 + lane / 16) ^ x));
        mma_f16(r.l, a0, ones, ones);
        mma_f16(r.l, a1, ones, ones);
#pragma unroll
        for (int n = 0; n < NO; n++) {
            load_frags_transposed(b, row + k * 32 * 2 * D + 16 * ((column + n) ^ x));
            mma_f16(r.o[n], a0, b[0], b[1]);
            mma_f16(r.o[n], a1, b[2], b[3]);
        }
    }
}

/* Turns the scores of the positions from `cell` on into weights; r.m is the largest score so far.
 * The warps that share rows exchange their maxima through red. */
template <int NT, int NO, int WN>
__device__ __forceinline__ void weigh(running<NO> &r, float (&s)[NT][4], float scale, int cell,
                                      const int (&lo)[2], const int (&hi)[2], float *red, int m,
                                      int wn, int M)
{
    const int lane = threadIdx.x & 31;
    float top[2] = {-INFINITY, -INFINITY};
#pragma unroll
    for (int n = 0; n < NT; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int c = cell + 8 * n + 2 * (lane % 4) + i % 2;
            s[n][i] = c >= lo[i / 2] && c < hi[i / 2] ? s[n][i] * scale : -INFINITY;
            top[i / 2] = fmaxf(top[i / 2], s[n][i]);
        }
#pragma unroll
    for (int j = 0; j < 2; j++) {
        top[j] = fmaxf(top[j], __shfl_xor_sync(0xffffffffu, top[j], 1));
        top[j] = fmaxf(top[j], __shfl_xor_sync(0xffffffffu, top[j], 2));
        if (lane % 4 == 0) red[wn * M + m + lane / 4 + 8 * j] = top[j];
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < 2; j++) {
        float all = r.m[j];
#pragma unroll
        for (int w = 0; w < WN; w++) all = fmaxf(all, red[w * M + m + lane / 4 + 8 * j]);
        const float use = all == -INFINITY ? 0.0f : all, fade = exp2_approx(r.m[j] - use);
        r.m[j] = all;
        r.l[2 * j] *= fade;
        r.l[2 * j + 1] *= fade;
#pragma unroll
        for (int n = 0; n < NO; n++) {
            r.o[n][2 * j] *= fade;
            r.o[n][2 * j + 1] *= fade;
        }
#pragma unroll
        for (int n = 0; n < NT; n++) {
            s[n][2 * j] = exp2_approx(s[n][2 * j] - use);
            s[n][2 * j + 1] = exp2_approx(s[n][2 * j + 1] - use);
        }
    }
}

/* Where a thread's values are stored: row j (0 or 1), eight-column group n of its warp. */
template <int NO>
__device__ __forceinline__ void put_sums(float *row, const running<NO> &r, int j, int wn,
                                         float factor)
{
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int n = 0; n < NO; n++)
        *(float2 *)(row + 8 * (wn * NO + n) + 2 * (lane % 4)) =
            make_float2(r.o[n][2 * j] * factor, r.o[n][2 * j + 1] * factor);
}

/* Stores the weights of NT groups of eight positions as halves, for all warps. */
template <int NT>
__device__ __forceinline__ void put_weights(unsigned char *to, const float (&s)[NT][4], int m,
                                            int group)
{
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int n = 0; n < NT; n++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            const int piece = swizzled(m + lane / 4 + 8 * j, group + n, PAGE / 8);
            *(uint32_t *)(to + 16 * piece + 4 * (lane % 4)) =
                pack_half(s[n][2 * j], s[n][2 * j + 1]);
        }
}

/* Merges a range into the previous ones. */
template <int NO> __device__ __forceinline__ void fold(running<NO> &all, const running<NO> &r)
{
#pragma unroll
    for (int j = 0; j < 2; j++) {
        float was, is;
        merge(all.m[j], all.l[2 * j], r.m[j], r.l[2 * j], was, is);
#pragma unroll
        for (int n = 0; n < NO; n++) {
            all.o[n][2 * j] = merged(all.o[n][2 * j], r.o[n][2 * j], was, is);
            all.o[n][2 * j + 1] = merged(all.o[n][2 * j + 1], r.o[n][2 * j + 1], was, is);
        }
    }
}

/* The same with the maximum and the sum of the weights before it: a partial result, or a total. */
template <int NO>
__device__ __forceinline__ void put_partial(float *to, const running<NO> &r, int j, int wn)
{
    if (!wn && threadIdx.x % 4 == 0) {
        to[0] = r.m[j];
        to[1] = r.l[2 * j];
    }
    put_sums(to + 2, r, j, wn, 1.0f);
}

/* Stores the result of one range for a row that sees [lo, hi): the final result if there is no
 * other range, else a partial result. */
template <int D, int NO>
__device__ __forceinline__ void put_range(const attend_args &a, const tile &t, const running<NO> &r,
                                          int row, int h, int j, int wn, int lo, int hi)
{
    const int first = lo / FT_RANGE, last = (hi - 1) / FT_RANGE;
    float *to = mat_head(a.o, row, h);
    if (a.total && (lo >= hi || (first == last && t.lo < hi && t.hi > lo))) {
        put_partial(total_at(a, row, h), r, j, wn);
        return;
    }
    if (lo >= hi) {
        put_sums(to, r, j, wn, 0.0f); /* any of the tile's blocks may write it */
        return;
    }
    if (t.lo >= hi || t.hi <= lo) return;
    if (first == last && !a.v.hadamard) {
        put_sums(to, r, j, wn, inverse_of(r.l[2 * j]));
        return;
    }
    const ft_attn_parts own = {t.part.first + (row - t.row) * t.part.n, t.part.n};
    put_partial(part_at(a, own, h) + (t.lo / FT_RANGE - first) * (D + 2), r, j, wn);
}

/* A page as halves: the page itself, or expanded into `tile`. */
template <int D>
__device__ __forceinline__ const unsigned char *
half_page(const kv_side &s, const unsigned char *page, unsigned char *tile, const uint16_t *table)
{
    if (s.type == FT_KV_F16) return page;
    expand<D>(s, tile, page, table);
    __syncthreads();
    return tile;
}

/* Stores a thread's two rows: the result, or without LOOP that of the range. */
template <int D, bool LOOP, int NO>
__device__ __forceinline__ void put_tile(const attend_args &a, const tile &t, const running<NO> &r,
                                         int g, int m, int wn, const int (&lo)[2],
                                         const int (&hi)[2])
{
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int j = 0; j < 2; j++) {
        const int i = m + lane / 4 + 8 * j, row = t.row + i / a.group;
        const int h = g * a.group + i % a.group;
        if (i >= t.rows * a.group) continue;
        if (LOOP && a.total)
            put_partial(total_at(a, row, h), r, j, wn);
        else if (LOOP)
            put_sums(mat_head(a.o, row, h), r, j, wn, inverse_of(r.l[2 * j]));
        else
            put_range<D>(a, t, r, row, h, j, wn, lo[j], hi[j]);
    }
}

/* The positions [t.lo, t.hi) for a tile. *waited: the previous kernels have finished. */
template <int D, int WM, bool LOOP>
__device__ __forceinline__ void attend_tile(const attend_args &a, const layout &at,
                                            unsigned char *sm, const tile &t, int g, bool *waited)
{
    enum { WN = 8 / WM, NT = 8 / WN, NO = D / 8 / WN, M = 16 * WM, RING = ring_of<D>() };
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32, wn = warp % WN, m = warp / WN * 16;
    const uint16_t *table = (const uint16_t *)(sm + at.table);
    const int *seen_by = (const int *)(sm + at.rows);
    const page_ring w = {
        &a,       sm + at.ring,
        at.place, a.b.page[a.space] + (size_t)t.slot * a.b.pages_per_seq + t.lo / PAGE,
        g,        t.lo < t.hi ? (t.hi - 1) / PAGE - t.lo / PAGE + 1 : 0};
    /* a page written by an earlier step does not depend on the previous kernels, which computed the
     * queries */
    const bool wait = !*waited, old = (t.lo / PAGE + 1) * PAGE <= t.start;
    *waited = true;
    if (wait && !old) wait_for_previous_kernel();
    issue<D>(w, 0);
    issue<D>(w, 1);
    if (wait && old) wait_for_previous_kernel();
    load_queries<D>(a, t, g, sm + at.q, M);
    int lo[2], hi[2];
#pragma unroll
    for (int j = 0; j < 2; j++) {
        lo[j] = seen_by[2 * (m + lane / 4 + 8 * j)];
        hi[j] = seen_by[2 * (m + lane / 4 + 8 * j) + 1];
    }
    running<NO> r, all;
    reset(r);
    if (LOOP) reset(all);
    int cell = t.lo / PAGE * PAGE;
    for (int i = 0; i < w.pages; i++, cell += PAGE) {
        copy_wait<1>();
        __syncthreads(); /* keys and queries are in shared memory */
        if (RING == 3) issue<D>(w, 2 * i + 2);
        const unsigned char *page = half_page<D>(a.k, place<D>(w, 2 * i), sm + at.tile, table);
        float s[NT][4] = {};
        rows_by_rows<D>(s, shared_at(sm + at.q), shared_at(page), m, 8 * NT * wn);
        weigh<NT, NO, WN>(r, s, a.scale, cell + 8 * NT * wn, lo, hi, (float *)(sm + at.red), m, wn,
                          M);
        issue<D>(w, 2 * i + RING); /* all warps have computed their scores */
        put_weights(sm + at.p, s, m, NT * wn);
        copy_wait<RING - 1>();
        __syncthreads(); /* values and weights are in shared memory */
        page = half_page<D>(a.v, place<D>(w, 2 * i + 1), sm + at.tile, table + 16);
        add_values<D>(r, shared_at(sm + at.p), shared_at(page), m, NO * wn);
        if (RING == 2) {
            __syncthreads();
            issue<D>(w, 2 * i + 3);
        }
        if (LOOP && (i + 1 == w.pages || (cell + PAGE) % FT_RANGE == 0)) {
            fold(all, r);
            reset(r);
        }
    }
    put_tile<D, LOOP>(a, t, LOOP ? all : r, g, m, wn, lo, hi);
}

/* LOOP: one block per tile and KV head. Otherwise the ranges of all tiles are distributed over as
 * many blocks as the GPU runs at a time: the launch does not depend on the context lengths. */
template <int D, int WM, bool LOOP>
static __global__ void __launch_bounds__(THREADS, LOOP ? 1 : 2)
    attend_mma_kernel(const attend_args a, const layout at)
{
    extern __shared__ uint4 attend_mma_shared[];
    unsigned char *const sm = (unsigned char *)attend_mma_shared;
    const int G = a.k.G;
    int count = INT_MAX / G;
    bool waited = false;
    if (threadIdx.x < 32) {
        const kv_side &s = threadIdx.x < 16 ? a.k : a.v;
        ((uint16_t *)(sm + at.table))[threadIdx.x] =
            __half_as_ushort(__float2half_rn(s.f.value[threadIdx.x % 16]));
    }
    for (int i = blockIdx.x; i < count * G; i += gridDim.x) {
        tile t;
        int range = 0;
        if (!(LOOP ? find_tile(a, i / G, &t) : find_range(a, i / G, &t, &range, &count))) break;
        tile_ranges(a, &t, (int *)(sm + at.rows), 16 * WM);
        if (!LOOP) {
            t.lo = max(t.lo, range * FT_RANGE);
            t.hi = min(t.hi, (range + 1) * FT_RANGE);
        }
        attend_tile<D, WM, LOOP>(a, at, sm, t, i % G, &waited);
        if (LOOP) return;
        __syncthreads(); /* the next tile overwrites shared memory */
    }
    if (!waited) wait_for_previous_kernel();
}

typedef void attend_mma_fn(const attend_args, const layout);

/* The kernel for tiles of 16 WM vectors; NULL: there is none. Each head size has its own file. */
attend_mma_fn *ft_cuda_attend_mma_64(int WM, bool loop);
attend_mma_fn *ft_cuda_attend_mma_128(int WM, bool loop);
attend_mma_fn *ft_cuda_attend_mma_256(int WM, bool loop);
attend_mma_fn *ft_cuda_attend_mma_512(int WM, bool loop);

#endif
