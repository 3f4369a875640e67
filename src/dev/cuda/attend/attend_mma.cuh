/* dev/cuda/attend/attend_mma.cuh - attention on tensor cores. A block computes a tile: 16 WM query
 * vectors, the query heads of one KV head over consecutive rows of a sequence. Keys and values of a
 * page are copied to shared memory in their stored encoding while the previous page is processed.
 * Encodings other than f16 are decoded in registers (encodings.cuh), or, for many rows, expanded in
 * shared memory. Eight warps divide the scores by positions and the sums by columns; softmax
 * weights are exchanged through shared memory.
 *
 * Every sum is in the order of the positions (or of the head's values), whatever the tile: a row
 * has the same bits alone, in a batch with draft tokens and in a prompt.
 *
 * One row with a context of 131,000 on an H200 (27b: 4 KV heads of 256, 6 query heads each),
 * merging of the ranges included: f16 143 us, 81 % of a plain read; q8_0 130 us, 47 %; turbo4 144
 * us, 21 %; turbo3 153 us, 15 %. What limits the last three: docs/why/0019.
 *
 * A prompt of 512 rows over that context (f16, the same heads): 10.9 ms, 152 TFLOP/s, a sixth of
 * the tensor core peak: one block of eight warps per multiprocessor, with three barriers per page.
 */
#ifndef FT_CUDA_ATTEND_WALK_CUH
#define FT_CUDA_ATTEND_WALK_CUH

#include "dev/cuda/attend/attend.cuh"
#include "dev/cuda/attend/encodings.cuh"
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

/* Where a kernel has pages as halves. HALVES: both sides are f16, and pages are used as they are.
 * DECODE, for tiles of few queries: a warp decodes the keys and values that it multiplies in
 * registers. EXPAND: for many queries several warps would decode the same rows, so that pages are
 * expanded in shared memory. */
typedef enum attend_way { HALVES, DECODE, EXPAND } attend_way;

#define DECODES(D, WM, LOOP) (!(LOOP) && (D) % 256 == 0 && (D) * (WM) <= 512)

static inline attend_way way_of(const attend_args *a, int D, int WM, bool loop)
{
    if (a->k.type == FT_KV_F16 && a->v.type == FT_KV_F16) return HALVES;
    return DECODES(D, WM, loop) ? DECODE : EXPAND;
}

static inline layout layout_of(const attend_args *a, int D, int WM, bool loop, int cc)
{
    layout l;
    const int M = 16 * WM;
    const attend_way way = way_of(a, D, WM, loop);
    int at = 0;
    l.q = at;
    at += M * D * 2;
    l.tile = at; /* an expanded page */
    if (way == EXPAND) at += PAGE * D * 2;
    l.ring = at;
    l.place = FT_MAX(scratch_bytes(a->k, D), scratch_bytes(a->v, D));
    at += RING_OF(cc, D) * l.place;
    l.p = at;
    at += M * PAGE * 2;
    l.red = at;
    at += (way == DECODE ? 8 : 8 / WM) * M * 4;
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

/* The tile's queries as halves in the order of the keys, Hadamard-transformed if the keys are. A
 * warp takes a vector. */
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
#pragma unroll
            for (int e = 0; e < E; e += 2) {
                const int c = key_column<D>(a.k, at + e);
                *(uint32_t *)(to + 16 * swizzled(i, c / 8, D / 8) + 2 * (c % 8)) =
                    pack_half(v[e], v[e + 1]);
            }
        }
    }
}

/* ---- softmax and sums ---- */

/* A thread's part of the tile's softmax: rows lane / 4 and + 8 of the 16 of its warp, the columns
 * of its warp. l is the first and third value of a fragment. */
template <int NO> struct running {
    float m[2], l[4], o[NO][4];
    bool decoded; /* the order of o is that of add_decoded */
};

template <int NO> __device__ __forceinline__ void reset(running<NO> &r, bool decoded)
{
    r.decoded = decoded;
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

/* The same with values that are decoded in registers, for MT times 16 vectors: fragment n of four
 * has values n, n + 4, ... of the warp's 32 columns. */
template <int D, int NO, int MT, typename ROWS>
__device__ __forceinline__ void add_decoded(running<NO> (&r)[MT], uint32_t p,
                                            const unsigned char *v, const codebook &book,
                                            int column)
{
    const int lane = threadIdx.x & 31, x = lane & 7, q = column * 2 + lane / 4;
    const uint32_t ones = 0x3c003c00, weights = p + lane % 16 * 2 * PAGE;
    const unsigned char *row = v + lane % 4 * 2 * ROWS::BYTES;
#pragma unroll
    for (int k = 0; k < PAGE / 16; k++, row += 16 * ROWS::BYTES) {
        uint32_t a[MT][4];
#pragma unroll
        for (int mt = 0; mt < MT; mt++) {
            load_frags(a[mt], weights + mt * 16 * 2 * PAGE + 16 * ((2 * k + lane / 16) ^ x));
            mma_f16(r[mt].l, a[mt], ones, ones);
        }
#pragma unroll
        for (int n = 0; n < NO; n += 4) {
            uint32_t b0[4], b1[4];
            ROWS::values(b0, book, row, row + ROWS::BYTES, q + 2 * n);
            ROWS::values(b1, book, row + 8 * ROWS::BYTES, row + 9 * ROWS::BYTES, q + 2 * n);
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int mt = 0; mt < MT; mt++) mma_f16(r[mt].o[n + i], a[mt], b0[i], b1[i]);
        }
    }
}

/* Scores of MT times 16 vectors and eight rows of a page from n on, which are decoded in registers.
 */
template <int D, int MT, typename ROWS>
__device__ __forceinline__ void decoded_scores(float (&c)[MT][1][4], uint32_t q,
                                               const unsigned char *k, const codebook &book, int n)
{
    const int lane = threadIdx.x & 31, x = lane & 7;
    const uint32_t at = q + lane % 16 * 2 * D;
    uint32_t pa[4]; /* the swizzle repeats after 64 columns */
#pragma unroll
    for (int i = 0; i < 4; i++) pa[i] = at + 16 * ((2 * i + lane / 16) ^ x);
    ROWS row;
    row.open(k + (n + lane / 4) * ROWS::BYTES, lane % 4);
#pragma unroll
    for (int j = 0; j < D / 32; j++) {
        const uint4 b = row.keys(j, book);
#pragma unroll
        for (int mt = 0; mt < MT; mt++) {
            uint32_t a0[4], a1[4];
            load_frags(a0, pa[j % 2 * 2] + j / 2 * 128 + mt * 16 * 2 * D);
            load_frags(a1, pa[j % 2 * 2 + 1] + j / 2 * 128 + mt * 16 * 2 * D);
            mma_f16(c[mt][0], a0, b.x, b.y);
            mma_f16(c[mt][0], a1, b.z, b.w);
        }
    }
}

/* Scales the scores of the positions from `cell` on, and puts the largest of the warp into red. */
template <int NT>
__device__ __forceinline__ void scale_scores(float (&s)[NT][4], float scale, int cell,
                                             const int (&lo)[2], const int (&hi)[2], float *red)
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
        if (lane % 4 == 0) red[lane / 4 + 8 * j] = top[j];
    }
}

/* Turns scores into weights; r.m is the largest score so far. red: the maxima of WN warps that
 * share rows, each M floats after the previous one. */
template <int NT, int NO, int WN>
__device__ __forceinline__ void weigh(running<NO> &r, float (&s)[NT][4], const float *red, int M)
{
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int j = 0; j < 2; j++) {
        float all = r.m[j];
#pragma unroll
        for (int w = 0; w < WN; w++) all = fmaxf(all, red[w * M + lane / 4 + 8 * j]);
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

/* Stores row j (0 or 1) of a thread: groups of eight columns, or, if the values were decoded in
 * registers, of four times eight (add_decoded). */
template <int NO>
__device__ __forceinline__ void put_sums(float *row, const running<NO> &r, int j, int wn,
                                         float factor)
{
    const int lane = threadIdx.x & 31;
    row += 8 * wn * NO;
    if (r.decoded) {
        row += 8 * (lane % 4);
#pragma unroll
        for (int n = 0; n < NO; n++)
            *(float2 *)(row + n / 4 * 32 + n % 4 * 2) =
                make_float2(r.o[n / 4 * 4 + n % 2 * 2][2 * j + n % 4 / 2] * factor,
                            r.o[n / 4 * 4 + n % 2 * 2 + 1][2 * j + n % 4 / 2] * factor);
        return;
    }
#pragma unroll
    for (int n = 0; n < NO; n++)
        *(float2 *)(row + 8 * n + 2 * (lane % 4)) =
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

/* How the eight warps divide a tile: WN share its positions and columns, and a warp has MT times 16
 * vectors, NT groups of eight positions and NO groups of eight columns. */
template <int D, int WM, attend_way WAY> struct division {
    enum { MT = WAY == DECODE ? WM : 1, WN = 8 * MT / WM, NT = 8 / WN, NO = D / 8 / WN };
};

__device__ __forceinline__ codebook codebook_for(const kv_side &s, const uint16_t *table)
{
    return codebook_of(table + (s.f.bits == 4 ? 8 : 0));
}

/* A page as halves: the page itself, or expanded into `tile`. */
template <int D, attend_way WAY>
__device__ __forceinline__ uint32_t half_page(const kv_side &s, const unsigned char *page,
                                              unsigned char *tile, const uint16_t *table, bool keys)
{
    if (WAY != EXPAND || s.type == FT_KV_F16) return shared_at(page);
    const codebook book = codebook_for(s, table);
    FOR_ENCODING(s, expand_rows<D, ROWS>(tile, page, book, keys));
    __syncthreads();
    return shared_at(tile);
}

/* Scores of the warp's positions in a page: vectors from m on, positions from n on. */
template <int D, attend_way WAY, int MT, int NT>
__device__ __forceinline__ void score_page(float (&c)[MT][NT][4], const attend_args &a,
                                           const layout &at, unsigned char *sm,
                                           const unsigned char *page, int m, int n)
{
    const uint16_t *table = (const uint16_t *)(sm + at.table);
    const uint32_t q = shared_at(sm + at.q);
    if constexpr (WAY == DECODE)
        if (a.k.type != FT_KV_F16) {
            const codebook book = codebook_for(a.k, table);
            FOR_ENCODING(a.k, decoded_scores<D, MT, ROWS>(c, q, page, book, n));
            return;
        }
    const uint32_t k = half_page<D, WAY>(a.k, page, sm + at.tile, table, true);
#pragma unroll
    for (int mt = 0; mt < MT; mt++) rows_by_rows<D>(c[mt], q, k, m + 16 * mt, n);
}

/* Adds the warp's columns of a page of values. */
template <int D, attend_way WAY, int MT, int NO>
__device__ __forceinline__ void add_page(running<NO> (&r)[MT], const attend_args &a,
                                         const layout &at, unsigned char *sm,
                                         const unsigned char *page, int m, int column)
{
    const uint16_t *table = (const uint16_t *)(sm + at.table) + 16;
    const uint32_t p = shared_at(sm + at.p);
    if constexpr (WAY == DECODE)
        if (a.v.type != FT_KV_F16) {
            const codebook book = codebook_for(a.v, table);
            FOR_ENCODING(a.v, add_decoded<D, NO, MT, ROWS>(r, p, page, book, column));
            return;
        }
    const uint32_t v = half_page<D, WAY>(a.v, page, sm + at.tile, table, false);
#pragma unroll
    for (int mt = 0; mt < MT; mt++) add_values<D>(r[mt], p, v, m + 16 * mt, column);
}

/* The positions [t.lo, t.hi) for a tile. *waited: the previous kernels have finished. */
template <int D, int WM, bool LOOP, attend_way WAY>
__device__ __forceinline__ void attend_tile(const attend_args &a, const layout &at,
                                            unsigned char *sm, const tile &t, int g, bool *waited)
{
    typedef division<D, WM, WAY> V;
    enum { WN = V::WN, NT = V::NT, NO = V::NO, MT = V::MT, M = 16 * WM, RING = ring_of<D>() };
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32, wn = warp % WN, m = warp / WN * 16;
    const int *seen_by = (const int *)(sm + at.rows);
    float *red = (float *)(sm + at.red);
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
    int lo[MT][2], hi[MT][2];
#pragma unroll
    for (int mt = 0; mt < MT; mt++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            const int i = m + 16 * mt + lane / 4 + 8 * j;
            lo[mt][j] = seen_by[2 * i];
            hi[mt][j] = seen_by[2 * i + 1];
        }
    running<NO> r[MT], all;
    const bool decoded = WAY == DECODE && a.v.type != FT_KV_F16;
#pragma unroll
    for (int mt = 0; mt < MT; mt++) reset(r[mt], decoded);
    if (LOOP) reset(all, decoded);
    int cell = t.lo / PAGE * PAGE;
    for (int i = 0; i < w.pages; i++, cell += PAGE) {
        copy_wait<1>();
        __syncthreads(); /* keys and queries are in shared memory */
        if (RING == 3) issue<D>(w, 2 * i + 2);
        float s[MT][NT][4] = {};
        score_page<D, WAY>(s, a, at, sm, place<D>(w, 2 * i), m, 8 * NT * wn);
#pragma unroll
        for (int mt = 0; mt < MT; mt++)
            scale_scores(s[mt], a.scale, cell + 8 * NT * wn, lo[mt], hi[mt],
                         red + wn * M + m + 16 * mt);
        __syncthreads();
        issue<D>(w, 2 * i + RING); /* all warps have computed their scores */
#pragma unroll
        for (int mt = 0; mt < MT; mt++) {
            weigh<NT, NO, WN>(r[mt], s[mt], red + m + 16 * mt, M);
            put_weights(sm + at.p, s[mt], m + 16 * mt, NT * wn);
        }
        copy_wait<RING - 1>();
        __syncthreads(); /* values and weights are in shared memory */
        add_page<D, WAY>(r, a, at, sm, place<D>(w, 2 * i + 1), m, NO * wn);
        if (RING == 2) {
            __syncthreads();
            issue<D>(w, 2 * i + 3);
        }
        if (LOOP && (i + 1 == w.pages || (cell + PAGE) % FT_RANGE == 0)) {
            fold(all, r[0]);
            reset(r[0], decoded);
        }
    }
#pragma unroll
    for (int mt = 0; mt < MT; mt++)
        put_tile<D, LOOP>(a, t, LOOP ? all : r[mt], g, m + 16 * mt, wn, lo[mt], hi[mt]);
}

/* LOOP: one block per tile and KV head. Otherwise the ranges of all tiles are distributed over as
 * many blocks as the GPU runs at a time: the launch does not depend on the context lengths. */
template <int D, int WM, bool LOOP, attend_way WAY>
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
        attend_tile<D, WM, LOOP, WAY>(a, at, sm, t, i % G, &waited);
        if (LOOP) return;
        __syncthreads(); /* the next tile overwrites shared memory */
    }
    if (!waited) wait_for_previous_kernel();
}

typedef void attend_mma_fn(const attend_args, const layout);

template <int D, int WM, bool LOOP> static attend_mma_fn *attend_mma_for(attend_way way)
{
    constexpr attend_way OTHER = DECODES(D, WM, LOOP) ? DECODE : EXPAND;
    return way == HALVES ? attend_mma_kernel<D, WM, LOOP, HALVES>
                         : attend_mma_kernel<D, WM, LOOP, OTHER>;
}

/* The kernel for tiles of 16 WM vectors; NULL: there is none. Each head size has its own file. */
attend_mma_fn *ft_cuda_attend_mma_64(int WM, bool loop, attend_way way);
attend_mma_fn *ft_cuda_attend_mma_128(int WM, bool loop, attend_way way);
attend_mma_fn *ft_cuda_attend_mma_256(int WM, bool loop, attend_way way);
attend_mma_fn *ft_cuda_attend_mma_512(int WM, bool loop, attend_way way);

#endif
