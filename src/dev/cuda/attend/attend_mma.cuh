/* dev/cuda/attend/attend_mma.cuh - attention on tensor cores. A block computes a tile: 16 WM query
 * vectors, the query heads of one KV head over consecutive rows of a sequence. Keys and values of a
 * page are copied to shared memory in their stored encoding while the previous page is processed.
 * Encodings other than f16 are expanded there (encodings.cuh); attend_few.cuh and expand.cu do
 * better where there are few rows, or many. Eight warps divide the scores by positions and the sums
 * by columns; softmax weights are exchanged through shared memory.
 *
 * Every sum is in the order of the positions (or of the head's values), whatever the tile: a row
 * has the same bits alone, in a batch with draft tokens and in a prompt.
 *
 * One row with a context of 131,000 on an H200 (27b: 4 KV heads of 256, 6 query heads each, f16),
 * merging of the ranges included: 143 us, 81 % of a plain read.
 *
 * A prompt of 512 rows over that context (f16, the same heads): 10.9 ms, 152 TFLOP/s, a sixth of
 * the tensor core peak: one block of eight warps per multiprocessor, with three barriers per page.
 */
#ifndef FT_CUDA_ATTEND_WALK_CUH
#define FT_CUDA_ATTEND_WALK_CUH

#include "dev/cuda/attend/encodings.cuh"
#include "dev/cuda/attend/tiles.cuh"

/* Pages of keys and of values alternate in a ring buffer. With three entries two copies are in
 * flight at any time; where shared memory is short there are two entries. cc: compute capability
 * times 10. */
#define RING_OF(cc, D) ((D) <= 256 && ((cc) == 80 || (cc) == 90 || (cc) == 100) ? 3 : 2)

/* Layout of a block's shared memory: byte offsets. */
typedef struct layout {
    int q, tile, ring, place, p, red, rows, table,
        bytes; /* place: bytes of one entry of the ring */
} layout;

static inline __host__ __device__ bool has_halves(const kv_side &s)
{
    return s.type == FT_KV_F16 || s.halves;
}

static inline int scratch_bytes(const kv_side &s, int D)
{
    return PAGE * (has_halves(s) ? 2 * D : s.row);
}

/* HALVES: pages are halves, and are used as they are. EXPAND: they are expanded to halves in shared
 * memory. */
typedef enum attend_way { HALVES, EXPAND } attend_way;

static inline attend_way way_of(const attend_args *a)
{
    return has_halves(a->k) && has_halves(a->v) ? HALVES : EXPAND;
}

static inline layout layout_of(const attend_args *a, int D, int WM, int cc)
{
    layout l;
    const int M = 16 * WM;
    const attend_way way = way_of(a);
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
    at += 8 / WM * M * 4;
    l.rows = at;
    at += M * 2 * 4;
    l.table = at;
    at += 2 * 16 * 2;
    l.bytes = at;
    return l;
}

/* ---- pages ---- */

/* A page of rows in their stored encoding, by N threads, of which this one is `tid`; f16 rows are
 * swizzled. */
template <int D, int N>
__device__ __forceinline__ void fetch(const kv_side &s, uint32_t to, int page, int g, int tid)
{
    enum { PIECES = D / 8, ROWS = N / PIECES }; /* of a row, of a pass */
    const int r = tid / PIECES, c = tid % PIECES;
    const unsigned char *from = kv_page(s, page, g) + 16 * tid;
    if (has_halves(s)) {
#pragma unroll
        for (int i = 0; i < PAGE / ROWS; i++) /* eight rows further the swizzle is the same */
            copy_16(to + 16 * swizzled(r + i * ROWS % 8, c, PIECES) +
                        i * ROWS / 8 * 8 * PIECES * 16,
                    from + 16 * N * i);
    } else {
        to += 16 * tid;
        for (int i = tid; i < PAGE / 16 * s.row; i += N, to += 16 * N, from += 16 * N)
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
    int bytes;           /* of an entry */
    const int32_t *page; /* their numbers; NULL: first, first + 1, ... */
    int first, g, pages;
} page_ring;

template <int D> __device__ __forceinline__ unsigned char *place(const page_ring &w, int item)
{
    return w.ring + item % ring_of<D>() * w.bytes;
}

template <int D> __device__ __forceinline__ void issue(const page_ring &w, int item)
{
    if (item < 2 * w.pages) {
        const int page = w.page ? w.page[item / 2] : w.first + item / 2;
        fetch<D, THREADS>(item & 1 ? w.a->v : w.a->k, shared_at(place<D>(w, item)), page, w.g,
                          threadIdx.x);
    }
    copy_commit();
}

/* Values at... of query vector i of the tile as halves in the order of the keys,
 * Hadamard-transformed if the keys are; a lane has E of them. */
template <int D, int E>
__device__ __forceinline__ void load_query(const attend_args &a, const tile &t, int g,
                                           unsigned char *to, int i, int at)
{
    const bool there = i < t.rows * a.group;
    const float *q = mat_head(a.q, t.row + (there ? i / a.group : 0), g * a.group + i % a.group);
    float v[E];
#pragma unroll
    for (int e = 0; e < E; e++) v[e] = there ? q[at + e] : 0.0f;
    if (a.k.hadamard) hadamard_group(v, a.hadamard.before, a.hadamard.after, a.hadamard.root);
    unsigned char *row = to + 16 * i * (D / 8);
    if constexpr (E == 4) { /* two pairs of columns: key_column */
        const bool even_first = a.k.hadamard && a.k.f.bits < 4;
        const int c = key_column<D>(a.k, at), d = a.k.type == FT_KV_F16 ? c + 2 : c + 8;
        *(uint32_t *)(row + 16 * (c / 8 ^ i % 8) + 2 * (c % 8)) =
            pack_half(v[0], even_first ? v[2] : v[1]);
        *(uint32_t *)(row + 16 * (d / 8 ^ i % 8) + 2 * (d % 8)) =
            pack_half(even_first ? v[1] : v[2], v[3]);
    } else {
#pragma unroll
        for (int e = 0; e < E; e++) {
            const int c = key_column<D>(a.k, at + e);
            *(__half *)(row + 16 * (c / 8 ^ i % 8) + 2 * (c % 8)) = __float2half_rn(v[e]);
        }
    }
}

/* The M query vectors of the tile: a warp takes a vector. */
template <int D>
__device__ __forceinline__ void load_queries(const attend_args &a, const tile &t, int g,
                                             unsigned char *to, int M)
{
    enum { E = D % 128 ? 2 : 4 };
    for (int i = threadIdx.x / 32; i < M; i += THREADS / 32)
#pragma unroll
        for (int at = 0; at < D; at += 32 * E)
            load_query<D, E>(a, t, g, to, i, at + threadIdx.x % 32 * E);
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

/* Stores row j (0 or 1) of a thread. */
template <int NO>
__device__ __forceinline__ void put_sums(float *row, const running<NO> &r, int j, int wn,
                                         float factor)
{
    const int lane = threadIdx.x & 31;
    row += 8 * wn * NO;
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

/* Merges a range into the previous ones, for the rows whose range ends, and begins the next one. */
template <int NO>
__device__ __forceinline__ void fold(running<NO> &all, running<NO> &r, const bool (&ends)[2])
{
#pragma unroll
    for (int j = 0; j < 2; j++) {
        float was, is;
        if (!ends[j]) continue;
        merge(all.m[j], all.l[2 * j], r.m[j], r.l[2 * j], was, is);
#pragma unroll
        for (int n = 0; n < NO; n++) {
            all.o[n][2 * j] = merged(all.o[n][2 * j], r.o[n][2 * j], was, is);
            all.o[n][2 * j + 1] = merged(all.o[n][2 * j + 1], r.o[n][2 * j + 1], was, is);
            r.o[n][2 * j] = r.o[n][2 * j + 1] = 0;
        }
        r.m[j] = -INFINITY;
        r.l[2 * j] = r.l[2 * j + 1] = 0;
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

/* Where a row keeps its sums between segments. */
__device__ __forceinline__ float *sums_at(const attend_args &a, int row, int h)
{
    if (!a.segment.sums) return total_at(a, row, h);
    return a.segment.sums + ((size_t)row * a.q.H + h) * (a.q.d + 2);
}

/* Reads what put_partial has stored. */
template <int NO>
__device__ __forceinline__ void get_partial(const float *from, running<NO> &r, int j, int wn)
{
    r.m[j] = from[0];
    r.l[2 * j] = from[1];
    from += 2 + 8 * wn * NO + 2 * (threadIdx.x % 4);
#pragma unroll
    for (int n = 0; n < NO; n++) {
        const float2 v = *(const float2 *)(from + 8 * n);
        r.o[n][2 * j] = v.x;
        r.o[n][2 * j + 1] = v.y;
    }
}

template <int NO>
__device__ __forceinline__ void resume_tile(const attend_args &a, const tile &t, running<NO> &r,
                                            int g, int m, int wn)
{
#pragma unroll
    for (int j = 0; j < 2; j++) {
        const int i = m + threadIdx.x % 32 / 4 + 8 * j;
        if (i >= t.rows * a.group) continue;
        get_partial(sums_at(a, t.row + i / a.group, g * a.group + i % a.group), r, j, wn);
    }
}

/* Stores the result of one range for a row that sees [lo, hi): the final result if there is no
 * other range, else a partial result. */
template <int D, int NO>
__device__ __forceinline__ void put_range(const attend_args &a, const tile &t, const running<NO> &r,
                                          int row, int h, int j, int wn, int lo, int hi)
{
    const int first = lo >> t.range_bits, last = (hi - 1) >> t.range_bits;
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
    put_partial(part_at(a, own, h) + ((t.lo >> t.range_bits) - first) * PART_WIDTH(D), r, j, wn);
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
        if (LOOP && t.unfinished)
            put_partial(sums_at(a, row, h), r, j, wn);
        else if (LOOP && a.total)
            put_partial(total_at(a, row, h), r, j, wn);
        else if (LOOP)
            put_sums(mat_head(a.o, row, h), r, j, wn, inverse_of(r.l[2 * j]));
        else
            put_range<D>(a, t, r, row, h, j, wn, lo[j], hi[j]);
    }
}

/* How the eight warps divide a tile: WN share its positions and columns, and a warp has NT groups
 * of eight positions and NO groups of eight columns. */
template <int D, int WM> struct division {
    enum { WN = 8 / WM, NT = 8 / WN, NO = D / 8 / WN };
};

/* The codebooks of keys and values as halves, by 32 threads. */
__device__ __forceinline__ void put_books(const attend_args &a, uint16_t *table)
{
    const kv_side &s = threadIdx.x < 16 ? a.k : a.v;
    table[threadIdx.x] = __half_as_ushort(__float2half_rn(s.f.value[threadIdx.x % 16]));
}

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

/* The positions [t.lo, t.hi) for a tile: without LOOP some of its ranges, one after the other.
 * *waited: the previous kernels have finished. */
template <int D, int WM, bool LOOP, attend_way WAY>
__device__ __forceinline__ void attend_tile(const attend_args &a, const layout &at,
                                            unsigned char *sm, tile t, int g, bool *waited)
{
    typedef division<D, WM> V;
    enum { WN = V::WN, NT = V::NT, NO = V::NO, M = 16 * WM, RING = ring_of<D>() };
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32, wn = warp % WN, m = warp / WN * 16;
    const int *seen_by = (const int *)(sm + at.rows);
    float *red = (float *)(sm + at.red);
    const bool expanded = LOOP && a.k.halves;
    const int32_t *table = a.b.page[a.space] + (size_t)t.slot * a.b.pages_per_seq + t.lo / PAGE;
    const page_ring w = {&a,
                         sm + at.ring,
                         at.place,
                         expanded ? NULL : table,
                         t.expanded,
                         g,
                         t.lo < t.hi ? (t.hi - 1) / PAGE - t.lo / PAGE + 1 : 0};
    /* a page written by an earlier step does not depend on the previous kernels, which computed the
     * queries */
    const bool wait = !*waited, old = !expanded && (t.lo / PAGE + 1) * PAGE <= t.start;
    *waited = true;
    if (wait && !old) wait_for_previous_kernel();
    issue<D>(w, 0);
    issue<D>(w, 1);
    if (wait && old) wait_for_previous_kernel();
    load_queries<D>(a, t, g, sm + at.q, M);
    int lo[2], hi[2];
#pragma unroll
    for (int j = 0; j < 2; j++) {
        const int i = m + lane / 4 + 8 * j;
        lo[j] = seen_by[2 * i];
        hi[j] = seen_by[2 * i + 1];
    }
    const uint16_t *books = (const uint16_t *)(sm + at.table);
    const uint32_t q = shared_at(sm + at.q), p = shared_at(sm + at.p);
    running<NO> r, all;
    reset(r);
    if (LOOP) reset(all);
    if (LOOP && t.resumed) resume_tile(a, t, all, g, m, wn);
    const int end = t.hi;
    int cell = t.lo / PAGE * PAGE;
    for (int i = 0; i < w.pages; i++, cell += PAGE) {
        copy_wait<1>();
        __syncthreads(); /* keys and queries are in shared memory */
        if (RING == 3) issue<D>(w, 2 * i + 2);
        float s[NT][4] = {};
        const uint32_t k = half_page<D, WAY>(a.k, place<D>(w, 2 * i), sm + at.tile, books, true);
        rows_by_rows<D>(s, q, k, m, 8 * NT * wn);
        scale_scores(s, a.scale, cell + 8 * NT * wn, lo, hi, red + wn * M + m);
        __syncthreads();
        issue<D>(w, 2 * i + RING); /* all warps have computed their scores */
        weigh<NT, NO, WN>(r, s, red + m, M);
        put_weights(sm + at.p, s, m, NT * wn);
        copy_wait<RING - 1>();
        __syncthreads(); /* values and weights are in shared memory */
        const uint32_t v =
            half_page<D, WAY>(a.v, place<D>(w, 2 * i + 1), sm + at.tile, books + 16, false);
        add_values<D>(r, p, v, m, NO * wn);
        if (RING == 2) {
            __syncthreads();
            issue<D>(w, 2 * i + 3);
        }
        if (LOOP && (i + 1 == w.pages || (cell + PAGE) % RANGE_UNIT == 0)) {
            bool ends[2];
#pragma unroll
            for (int j = 0; j < 2; j++) {
                const int row = (m + lane / 4 + 8 * j) / a.group;
                const int bits = range_bits_of(a, t.end + row * t.rise);
                ends[j] = i + 1 == w.pages || begins_range(cell + PAGE, bits);
            }
            fold(all, r, ends);
        }
        if (!LOOP && (i + 1 == w.pages || begins_range(cell + PAGE, t.range_bits))) {
            t.hi = min(end, cell + PAGE);
            put_tile<D, false>(a, t, r, g, m, wn, lo, hi);
            reset(r);
            t.lo = t.hi;
        }
    }
    if (LOOP || !w.pages) put_tile<D, LOOP>(a, t, LOOP ? all : r, g, m, wn, lo, hi);
}

/* LOOP: one block per tile and KV head. */
template <int D, int WM, bool LOOP, attend_way WAY>
static __global__ void __launch_bounds__(THREADS, LOOP ? 1 : 2)
    attend_mma_kernel(const attend_args a, const layout at)
{
    extern __shared__ uint4 attend_mma_shared[];
    unsigned char *const sm = (unsigned char *)attend_mma_shared;
    const int G = a.k.G;
    int *const seen_by = (int *)(sm + at.rows);
    bool waited = false;
    tile t;
    if (threadIdx.x < 32) put_books(a, (uint16_t *)(sm + at.table));
    if (LOOP && find_tile(a, blockIdx.x / G, &t)) {
        tile_ranges(a, &t, seen_by, 16 * WM);
        if (!a.k.halves || cut_to_segment(a, &t))
            attend_tile<D, WM, LOOP, WAY>(a, at, sm, t, blockIdx.x % G, &waited);
    }
    if (!LOOP) {
        int g;
        units u = units_of_block(a);
        while (next_ranges(a, &u, &t, &g, seen_by, 16 * WM)) {
            attend_tile<D, WM, LOOP, WAY>(a, at, sm, t, g, &waited);
            __syncthreads(); /* the next tile overwrites shared memory */
        }
    }
    if (!waited) wait_for_previous_kernel();
}

typedef void attend_mma_fn(const attend_args, const layout);

template <int D, int WM, bool LOOP> static attend_mma_fn *attend_mma_for(attend_way way)
{
    return way == HALVES ? attend_mma_kernel<D, WM, LOOP, HALVES>
                         : attend_mma_kernel<D, WM, LOOP, EXPAND>;
}

/* The kernel for tiles of 16 WM vectors; NULL: there is none. Each head size has its own file. */
attend_mma_fn *ft_cuda_attend_mma_64(int WM, bool loop, attend_way way);
attend_mma_fn *ft_cuda_attend_mma_128(int WM, bool loop, attend_way way);
attend_mma_fn *ft_cuda_attend_mma_256(int WM, bool loop, attend_way way);
attend_mma_fn *ft_cuda_attend_mma_512(int WM, bool loop, attend_way way);

#endif
