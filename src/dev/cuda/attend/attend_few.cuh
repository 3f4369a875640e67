/* dev/cuda/attend/attend_few.cuh - attention of few query vectors over an encoded cache, on tensor
 * cores. A block computes a range of positions for up to 32 vectors: the query heads of one KV head
 * over the rows of a step. Four warps compute the scores of a page and turn them into weights while
 * four others multiply the weights of the previous page with its values. Each group copies its own
 * pages, and decodes keys or values to halves in registers (encodings.cuh). Groups meet, and copy,
 * every U pages: with two, a warp has two independent chains of products of keys, which share the
 * fragments of the queries.
 *
 * Keys and values are the first factor of the products, 16 positions or columns at a time, and
 * queries and weights the second, in groups of eight vectors: six query heads fill six of eight
 * columns instead of six of sixteen rows. The sums are those of attend_mma.cuh: products of 16
 * columns or positions in the same order, so that a row has the same bits. */
#ifndef FT_CUDA_ATTEND_FEW_CUH
#define FT_CUDA_ATTEND_FEW_CUH

#include "dev/cuda/attend/attend_mma.cuh"

enum { HALF_THREADS = THREADS / 2, HALF_WARPS = HALF_THREADS / 32 };

/* The decoder of keys or values is part of the kernel for frequent encodings (few_256.cu), and
 * chosen for each page by other kernels, which need more registers. */
struct any_rows {
};
template <typename ROWS> struct rows_known {
    enum { YES = 1 };
};
template <> struct rows_known<any_rows> {
    enum { YES = 0 };
};

/* Layout of a block's shared memory: byte offsets, and sizes of the entries of both rings of pages
 * and of a buffer of weights. */
typedef struct few_layout {
    int q, k, v, p, red, change, rows, table, bytes;
    int pairs[2];                  /* tables of pairs for keys and values */
    int k_bytes, v_bytes, p_bytes; /* of a page */
    int entries;                   /* of a ring, U pages each */
} few_layout;

/* With three entries two copies are in flight at any time. most: bytes of a block if two of them
 * run on a multiprocessor. */
static inline few_layout few_layout_of(const attend_args *a, int D, int NB, int U, int most)
{
    few_layout l;
    for (l.entries = 3;; l.entries--) {
        int at = 0;
        l.k_bytes = scratch_bytes(a->k, D);
        l.v_bytes = scratch_bytes(a->v, D);
        l.p_bytes = 8 * NB * PAGE * 2;
        l.q = at;
        at += 8 * NB * D * 2;
        l.k = at;
        at += l.entries * U * l.k_bytes;
        l.v = at;
        at += l.entries * U * l.v_bytes;
        l.p = at;
        at += 2 * U * l.p_bytes;
        l.red = at;
        at += U * HALF_WARPS * 8 * NB * 4;
        l.change = at;
        at += 2 * U * 8 * NB * 8;
        l.rows = at;
        at += 8 * NB * 8;
        l.table = at;
        at += 2 * 16 * 2;
        l.pairs[0] = at;
        at += a->k.f.bits == 4 ? PAIRS_BYTES : 0;
        l.pairs[1] = a->v.type == a->k.type ? l.pairs[0] : at;
        at += a->v.f.bits == 4 && a->v.type != a->k.type ? PAIRS_BYTES : 0;
        l.bytes = at;
        if (l.entries == 2 || l.bytes <= most) return l;
    }
}

/* The codebook of keys (0) or values (1). */
__device__ __forceinline__ codebook few_book(const kv_side &s, unsigned char *sm,
                                             const few_layout &at, int side)
{
    codebook b = codebook_for(s, (const uint16_t *)(sm + at.table) + 16 * side);
    b.pairs = shared_at(sm + at.pairs[side]) + 4 * (threadIdx.x & 31);
    return b;
}

/* Whether a side is decoded with a table of pairs. */
template <typename ROWS> __device__ __forceinline__ bool few_has_pairs(const kv_side &s)
{
    if constexpr (rows_known<ROWS>::YES)
        return ROWS::PAIRS;
    else
        return s.f.bits == 4;
}

template <typename K, typename V>
__device__ __forceinline__ void few_put_books(const attend_args &a, unsigned char *sm,
                                              const few_layout &at)
{
    const uint16_t *table = (const uint16_t *)(sm + at.table);
    if (threadIdx.x < 32) put_books(a, (uint16_t *)(sm + at.table));
    __syncthreads();
    if (few_has_pairs<K>(a.k)) put_pairs(sm + at.pairs[0], table, THREADS);
    if (few_has_pairs<V>(a.v) && a.v.type != a.k.type)
        put_pairs(sm + at.pairs[1], table + 16, THREADS);
}

/* Named barriers: of the threads that compute scores or values, and, of all threads, whether one of
 * the two buffers of weights is full or free. */
enum { AT_KEYS = 1, AT_MAXIMA, AT_VALUES, FULL, FREE = FULL + 2 };

template <int ID, int N> __device__ __forceinline__ void barrier_sync(void)
{
    asm volatile("bar.sync %0, %1;" ::"n"(ID), "n"(N) : "memory");
}

template <int ID, int N> __device__ __forceinline__ void barrier_arrive(void)
{
    asm volatile("bar.arrive %0, %1;" ::"n"(ID), "n"(N) : "memory");
}

/* FULL or FREE of the buffer of page i. */
template <int ID> __device__ __forceinline__ void sync_buffer(int i)
{
    if (i % 2)
        barrier_sync<ID + 1, THREADS>();
    else
        barrier_sync<ID, THREADS>();
}

template <int ID> __device__ __forceinline__ void arrive_buffer(int i)
{
    if (i % 2)
        barrier_arrive<ID + 1, THREADS>();
    else
        barrier_arrive<ID, THREADS>();
}

/* ---- pages ---- */

/* The ring of pages of keys or values, U of them in an entry. */
template <int U> struct few_pages {
    unsigned char *ring;
    const int32_t *page;
    int bytes, entries; /* of a page; in the ring */
    int g, pages;
    int next, into; /* page to be copied next, and the entry for it */
    int number[U];  /* of that page and those that follow it, read one entry ahead */
    int at;         /* entry of the current page */
    int warp;       /* of those that read this ring */
};

template <int U> __device__ __forceinline__ int next_entry(const few_pages<U> &w, int entry)
{
    return entry + 1 == w.entries ? 0 : entry + 1;
}

template <int U> __device__ __forceinline__ void read_numbers(few_pages<U> &w)
{
#pragma unroll
    for (int u = 0; u < U; u++) w.number[u] = w.next + u < w.pages ? w.page[w.next + u] : 0;
}

/* fetch() of a page in an encoding that is known. */
template <typename ROWS>
__device__ __forceinline__ void fetch_rows(const kv_side &s, uint32_t to, int page, int g, int tid)
{
    enum { PIECES = PAGE / 16 * ROWS::BYTES, REST = PIECES % HALF_THREADS };
    const unsigned char *from = kv_page(s, page, g) + 16 * tid;
    to += 16 * tid;
#pragma unroll
    for (int i = 0; i < PIECES - REST; i += HALF_THREADS) copy_16(to + 16 * i, from + 16 * i);
    if (tid < REST) copy_16(to + 16 * (PIECES - REST), from + 16 * (PIECES - REST));
}

template <int D, typename ROWS, int U>
__device__ __forceinline__ void few_issue(few_pages<U> &w, const kv_side &s)
{
    const int tid = 32 * w.warp + threadIdx.x % 32;
#pragma unroll
    for (int u = 0; u < U; u++) {
        if (w.next + u >= w.pages) break;
        const uint32_t to = shared_at(w.ring + (w.into * U + u) * w.bytes);
        if constexpr (rows_known<ROWS>::YES)
            fetch_rows<ROWS>(s, to, w.number[u], w.g, tid);
        else
            fetch<D, HALF_THREADS>(s, to, w.number[u], w.g, tid);
    }
    w.into = next_entry(w, w.into);
    w.next += U;
    read_numbers(w);
    copy_commit();
}

/* Waits for the next entry, and copies another one into the entry that is free now. */
template <int D, typename ROWS, int BARRIER, int U>
__device__ __forceinline__ const unsigned char *few_next(few_pages<U> &w, const kv_side &s)
{
    const unsigned char *page = w.ring + w.at * U * w.bytes;
    w.at = next_entry(w, w.at);
    if (w.entries == 2)
        copy_wait<0>();
    else
        copy_wait<1>();
    barrier_sync<BARRIER, HALF_THREADS>();
    few_issue<D, ROWS>(w, s);
    return page;
}

/* ---- scores ---- */

template <typename ROWS>
__device__ __forceinline__ uint4 few_keys(const ROWS &row, int j, const codebook &book)
{
    if constexpr (ROWS::PAIRS)
        return row.keys_of_pairs(j, book);
    else
        return row.keys(j, book);
}

/* c[u][nb]: scores of the 16 positions from n on of page u, and the vectors from 8 nb on. */
template <int D, int NB, typename ROWS, int U>
__device__ __forceinline__ void few_scores(float (&c)[U][NB][4], uint32_t q, const unsigned char *k,
                                           const codebook &book, int n)
{
    const int lane = threadIdx.x & 31, x = lane & 7;
    const uint32_t at = q + x * 2 * D;
    const uint32_t pq[2] = {at + 16 * ((lane / 8) ^ x), at + 16 * ((4 + lane / 8) ^ x)};
    ROWS row0[U], row1[U];
#pragma unroll
    for (int u = 0; u < U; u++) {
        row0[u].open(k + (u * PAGE + n + lane / 4) * ROWS::BYTES, lane % 4, book);
        row1[u].open(k + (u * PAGE + n + 8 + lane / 4) * ROWS::BYTES, lane % 4, book);
    }
#pragma unroll 1 /* the loops of both groups of warps must fit into the instruction cache */
    for (int i = 0; i < D / 32 / ROWS::STEPS; i++) {
#pragma unroll
        for (int u = 0; u < U; u++) {
            row0[u].load(i);
            row1[u].load(i);
        }
#pragma unroll
        for (int j = 0; j < ROWS::STEPS; j++) {
            uint32_t b[NB][4];
#pragma unroll
            for (int nb = 0; nb < NB; nb++)
                load_frags(b[nb],
                           pq[j % 2] + (i * (ROWS::STEPS / 2) + j / 2) * 128 + nb * 8 * 2 * D);
#pragma unroll
            for (int u = 0; u < U; u++) {
                const uint4 k0 = few_keys(row0[u], j, book), k1 = few_keys(row1[u], j, book);
                const uint32_t a0[4] = {k0.x, k1.x, k0.y, k1.y}, a1[4] = {k0.z, k1.z, k0.w, k1.w};
#pragma unroll
                for (int nb = 0; nb < NB; nb++) {
                    mma_f16(c[u][nb], a0, b[nb][0], b[nb][1]);
                    mma_f16(c[u][nb], a1, b[nb][2], b[nb][3]);
                }
            }
        }
    }
}

/* The same with keys in f16. */
template <int D, int NB>
__device__ __forceinline__ void few_scores_f16(float (&c)[NB][4], uint32_t q, uint32_t k, int n)
{
    const int lane = threadIdx.x & 31, x = lane & 7;
    const uint32_t at = q + x * 2 * D, row = k + (n + lane % 16) * 2 * D;
#pragma unroll 4
    for (int j = 0; j < D / 32; j++) {
        uint32_t a0[4], a1[4];
        load_frags(a0, row + 16 * ((4 * j + lane / 16) ^ x));
        load_frags(a1, row + 16 * ((4 * j + 2 + lane / 16) ^ x));
#pragma unroll
        for (int nb = 0; nb < NB; nb++) {
            uint32_t b[4];
            load_frags(b, at + 16 * ((4 * j + lane / 8) ^ x) + nb * 8 * 2 * D);
            mma_f16(c[nb], a0, b[0], b[1]);
            mma_f16(c[nb], a1, b[2], b[3]);
        }
    }
}

/* What the warps that compute scores pass on with the weights of a page, for each vector: the
 * largest score so far, and the factor for the sums over the previous pages. */
typedef struct few_change {
    float top, fade;
} few_change;

/* A thread's scores: positions lane / 4 and + 8 of its warp's 16, vectors 8 nb + 2 (lane % 4) and
 * + 1. */
template <int NB> struct few_softmax {
    float top[NB][2];
    int lo[NB][2], hi[NB][2];
};

template <int NB> __device__ __forceinline__ void few_reset(few_softmax<NB> &s)
{
#pragma unroll
    for (int nb = 0; nb < NB; nb++) s.top[nb][0] = s.top[nb][1] = -INFINITY;
}

/* Scales the scores and puts the largest ones of the warp into red. */
template <int NB>
__device__ __forceinline__ void few_scale(float (&c)[NB][4], const few_softmax<NB> &s, float scale,
                                          int cell, float *red)
{
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int nb = 0; nb < NB; nb++)
#pragma unroll
        for (int v = 0; v < 2; v++) {
            float top = -INFINITY;
#pragma unroll
            for (int i = v; i < 4; i += 2) {
                const int at = cell + lane / 4 + i / 2 * 8;
                c[nb][i] = at >= s.lo[nb][v] && at < s.hi[nb][v] ? c[nb][i] * scale : -INFINITY;
                top = fmaxf(top, c[nb][i]);
            }
#pragma unroll
            for (int o = 4; o < 32; o *= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, o));
            if (lane < 4) red[8 * nb + 2 * lane + v] = top;
        }
}

/* Turns the scores into weights. fade: the factors for the sums so far. */
template <int NB>
__device__ __forceinline__ void few_weigh(float (&c)[NB][4], few_softmax<NB> &s, const float *red,
                                          float (&fade)[NB][2])
{
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int nb = 0; nb < NB; nb++)
#pragma unroll
        for (int v = 0; v < 2; v++) {
            float all = s.top[nb][v];
#pragma unroll
            for (int w = 0; w < HALF_WARPS; w++)
                all = fmaxf(all, red[w * 8 * NB + 8 * nb + 2 * (lane % 4) + v]);
            const float use = all == -INFINITY ? 0.0f : all;
            fade[nb][v] = exp2_approx(s.top[nb][v] - use);
            s.top[nb][v] = all;
#pragma unroll
            for (int i = v; i < 4; i += 2) c[nb][i] = exp2_approx(c[nb][i] - use);
        }
}

/* Stores weights as rows of a vector's positions, and what changes with this page. */
template <int NB>
__device__ __forceinline__ void few_put(unsigned char *p, few_change *change,
                                        const float (&c)[NB][4], const few_softmax<NB> &s,
                                        const float (&fade)[NB][2], int n)
{
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int nb = 0; nb < NB; nb++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int vector = 8 * nb + 2 * (lane % 4) + i % 2, piece = n / 8 + i / 2;
            *(__half *)(p + 16 * swizzled(vector, piece, PAGE / 8) + 2 * (lane / 4)) =
                __float2half_rn(c[nb][i]);
            if (!n && lane < 4 && i < 2) change[vector] = {s.top[nb][i % 2], fade[nb][i % 2]};
        }
}

template <int D, int NB, typename K, int U>
__device__ __forceinline__ void few_score_pages(const attend_args &a, const few_layout &at,
                                                unsigned char *sm, few_pages<U> &w, int cell,
                                                int range_bits)
{
    const int lane = threadIdx.x & 31, n = 16 * w.warp;
    const int *seen_by = (const int *)(sm + at.rows);
    const codebook book = few_book(a.k, sm, at, 0);
    const uint32_t q = shared_at(sm + at.q);
    float *red = (float *)(sm + at.red);
    few_softmax<NB> s;
#pragma unroll
    for (int nb = 0; nb < NB; nb++)
#pragma unroll
        for (int v = 0; v < 2; v++) {
            const int i = 8 * nb + 2 * (lane % 4) + v;
            s.lo[nb][v] = seen_by[2 * i];
            s.hi[nb][v] = seen_by[2 * i + 1];
        }
    few_reset(s);
    for (int i = 0; i * U < w.pages; i++, cell += U * PAGE) {
        const unsigned char *page = few_next<D, K, AT_KEYS>(w, a.k);
        float c[U][NB][4] = {};
        if constexpr (rows_known<K>::YES) {
            few_scores<D, NB, K>(c, q, page, book, n);
        } else if (a.k.type == FT_KV_F16) {
#pragma unroll
            for (int u = 0; u < U; u++)
                few_scores_f16<D>(c[u], q, shared_at(page) + u * w.bytes, n);
        } else {
            FOR_ENCODING(a.k, few_scores<D, NB, ROWS>(c, q, page, book, n));
        }
#pragma unroll
        for (int u = 0; u < U; u++)
            few_scale(c[u], s, a.scale, cell + u * PAGE + n,
                      red + (u * HALF_WARPS + w.warp) * 8 * NB);
        barrier_sync<AT_MAXIMA, HALF_THREADS>();
        if (i >= 2) sync_buffer<FREE>(i);
#pragma unroll
        for (int u = 0; u < U; u++) {
            const int buffer = i % 2 * U + u;
            float fade[NB][2];
            if (begins_range(cell + u * PAGE, range_bits)) few_reset(s);
            few_weigh(c[u], s, red + u * HALF_WARPS * 8 * NB, fade);
            few_put(sm + at.p + buffer * at.p_bytes,
                    (few_change *)(sm + at.change) + buffer * 8 * NB, c[u], s, fade, n);
        }
        arrive_buffer<FULL>(i);
    }
}

/* ---- values ---- */

/* The sums of a thread: of MT tiles of 16 columns, rows lane / 4 and + 8, and vectors
 * 8 nb + 2 (lane % 4) and + 1. l: of the weights. */
template <int MT, int NB> struct few_sums {
    float o[MT][NB][4], l[NB][4];
};

/* o += weights times values for MT tiles of columns from `column` on. */
template <int D, int MT, int NB, typename ROWS>
__device__ __forceinline__ void few_values(few_sums<MT, NB> &r, uint32_t p, const unsigned char *v,
                                           const codebook &book, int column)
{
    const int lane = threadIdx.x & 31, x = lane & 7;
    const uint32_t ones[4] = {0x3c003c00, 0x3c003c00, 0x3c003c00, 0x3c003c00};
    uint32_t b[NB][4]; /* of 32 positions */
    const unsigned char *row = v + lane % 4 * 2 * ROWS::BYTES;
#pragma unroll 2
    for (int k = 0; k < PAGE / 16; k++, row += 16 * ROWS::BYTES) {
#pragma unroll
        for (int nb = 0; nb < NB; nb++) {
            if (k % 2 == 0)
                load_frags(b[nb], p + (8 * nb + x) * 2 * PAGE + 16 * ((2 * k + lane / 8) ^ x));
            mma_f16(r.l[nb], ones, b[nb][k % 2 * 2], b[nb][k % 2 * 2 + 1]);
        }
#pragma unroll
        for (int m = 0; m < MT / 4; m++) {
            uint32_t f[2][8];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const unsigned char *from = row + i * 8 * ROWS::BYTES;
                ROWS::columns(f[i], book, from, from + ROWS::BYTES, column / 64 + m, lane / 4);
            }
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const uint32_t av[4] = {f[0][i], f[0][4 + i], f[1][i], f[1][4 + i]};
#pragma unroll
                for (int nb = 0; nb < NB; nb++)
                    mma_f16(r.o[4 * m + i][nb], av, b[nb][k % 2 * 2], b[nb][k % 2 * 2 + 1]);
            }
        }
    }
}

/* The same with values in f16. */
template <int D, int MT, int NB>
__device__ __forceinline__ void few_values_f16(few_sums<MT, NB> &r, uint32_t p, uint32_t v,
                                               int column)
{
    const int lane = threadIdx.x & 31, x = lane & 7;
    const uint32_t ones[4] = {0x3c003c00, 0x3c003c00, 0x3c003c00, 0x3c003c00};
    uint32_t b[NB][4]; /* of 32 positions */
    const uint32_t row = v + (lane / 16 * 8 + x) * 2 * D;
#pragma unroll
    for (int k = 0; k < PAGE / 16; k++) {
#pragma unroll
        for (int nb = 0; nb < NB; nb++) {
            if (k % 2 == 0)
                load_frags(b[nb], p + (8 * nb + x) * 2 * PAGE + 16 * ((2 * k + lane / 8) ^ x));
            mma_f16(r.l[nb], ones, b[nb][k % 2 * 2], b[nb][k % 2 * 2 + 1]);
        }
#pragma unroll
        for (int m = 0; m < MT; m++) {
            uint32_t av[4];
            load_frags_transposed(av, row + k * 16 * 2 * D +
                                          16 * ((column / 8 + 2 * m + lane / 8 % 2) ^ x));
#pragma unroll
            for (int nb = 0; nb < NB; nb++)
                mma_f16(r.o[m][nb], av, b[nb][k % 2 * 2], b[nb][k % 2 * 2 + 1]);
        }
    }
}

/* top: the largest scores so far. */
template <int MT, int NB>
__device__ __forceinline__ void few_fade(few_sums<MT, NB> &r, const few_change *change,
                                         float (&top)[NB][2])
{
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int nb = 0; nb < NB; nb++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const few_change c = change[8 * nb + 2 * (lane % 4) + i];
            top[nb][i] = c.top;
            r.l[nb][i] *= c.fade;
            r.l[nb][i + 2] *= c.fade;
#pragma unroll
            for (int m = 0; m < MT; m++) {
                r.o[m][nb][i] *= c.fade;
                r.o[m][nb][i + 2] *= c.fade;
            }
        }
}

/* Distances between the columns of a thread: from lane to lane, from row lane / 4 of a tile to row
 * + 8, and between the first four tiles. */
typedef struct few_columns {
    int lane, half, tile;
} few_columns;

__device__ __forceinline__ few_columns few_columns_of(const kv_side &s)
{
    if (s.type == FT_KV_F16) return {1, 8, 16};
    return s.hadamard ? few_columns{8, 4, 1} : few_columns{4, 32, 1};
}

/* Stores the columns of a thread for vector 8 nb + 2 (lane % 4) + i. */
template <int MT, int NB>
__device__ __forceinline__ void few_put_sums(float *to, const few_columns &d,
                                             const few_sums<MT, NB> &r, int nb, int i, int column,
                                             float factor)
{
    to += column + (threadIdx.x & 31) / 4 * d.lane;
    if (d.tile == 1 && (uintptr_t)to % 16 == 0) {
#pragma unroll
        for (int m = 0; m < MT; m += 4)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int at = i + 2 * half;
                *(float4 *)(to + 16 * m + half * d.half) =
                    make_float4(r.o[m][nb][at] * factor, r.o[m + 1][nb][at] * factor,
                                r.o[m + 2][nb][at] * factor, r.o[m + 3][nb][at] * factor);
            }
        return;
    }
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            to[m / 4 * 64 + m % 4 * d.tile + half * d.half] = r.o[m][nb][i + 2 * half] * factor;
}

/* Stores the result of the positions [from, to) of a range for a vector: the final result if its
 * row sees no other range, else a partial result. */
template <int D, int MT, int NB>
__device__ __forceinline__ void
few_put_vector(const attend_args &a, const tile &t, const few_sums<MT, NB> &r, float top, int nb,
               int i, const int *seen_by, int g, int column, int from, int to)
{
    const int vector = 8 * nb + 2 * (threadIdx.x % 4) + i;
    if (vector >= t.rows * a.group) return;
    const int lo = seen_by[2 * vector], hi = seen_by[2 * vector + 1];
    const int row = t.row + vector / a.group, h = g * a.group + vector % a.group;
    const int first = lo >> t.range_bits, last = (hi - 1) >> t.range_bits;
    const bool none = lo >= hi;
    if (!none && (from >= hi || to <= lo)) return;
    float factor = 1, *into;
    if (!a.total && (none || (first == last && !a.v.hadamard))) {
        /* 0: any of the tile's blocks may write it */
        factor = none ? 0.0f : inverse_of(r.l[nb][i]);
        into = mat_head(a.o, row, h);
    } else {
        const ft_attn_parts own = {t.part.first + (row - t.row) * t.part.n, t.part.n};
        into = a.total && (none || first == last)
                   ? total_at(a, row, h)
                   : part_at(a, own, h) + ((from >> t.range_bits) - first) * PART_WIDTH(D);
        if (!column && threadIdx.x % 32 < 4) {
            into[0] = top;
            into[1] = r.l[nb][i];
        }
        into += 2;
    }
    few_put_sums(into, few_columns_of(a.v), r, nb, i, column, factor);
}

template <int D, int NB, typename V, int U>
__device__ __forceinline__ void few_value_pages(const attend_args &a, const few_layout &at,
                                                unsigned char *sm, few_pages<U> &w, const tile &t,
                                                int g)
{
    enum { MT = D / 16 / HALF_WARPS };
    const int column = w.warp * 16 * MT;
    const int *seen_by = (const int *)(sm + at.rows);
    const codebook book = few_book(a.v, sm, at, 1);
    const unsigned char *page = NULL;
    few_sums<MT, NB> r = {};
    float top[NB][2];
    for (int i = 0, from = t.lo; i < FT_MAX(w.pages, 1); i++) {
        if (w.pages) {
            const int entry = i / U, buffer = i % (2 * U);
            if (i % U == 0) {
                page = few_next<D, V, AT_VALUES>(w, a.v);
                sync_buffer<FULL>(entry);
            }
            const uint32_t p = shared_at(sm + at.p + buffer * at.p_bytes);
            few_fade(r, (const few_change *)(sm + at.change) + buffer * 8 * NB, top);
            if constexpr (rows_known<V>::YES)
                few_values<D, MT, NB, V>(r, p, page, book, column);
            else if (a.v.type == FT_KV_F16)
                few_values_f16<D>(r, p, shared_at(page), column);
            else
                FOR_ENCODING(a.v, few_values<D, MT, NB, ROWS>(r, p, page, book, column));
            page += w.bytes;
            if (i % U == U - 1 && (entry + 2) * U < w.pages) arrive_buffer<FREE>(entry);
        }
        const int to = (t.lo / PAGE + i + 1) * PAGE;
        if (!begins_range(to, t.range_bits) && i + 1 < w.pages) continue;
#pragma unroll
        for (int nb = 0; nb < NB; nb++)
#pragma unroll
            for (int v = 0; v < 2; v++)
                few_put_vector<D>(a, t, r, w.pages ? top[nb][v] : -INFINITY, nb, v, seen_by, g,
                                  column, from, FT_MIN(to, t.hi));
        r = {};
        from = to;
    }
}

/* ---- blocks ---- */

/* The positions [t.lo, t.hi) for a tile. *waited: the previous kernels have finished. */
template <int D, int NB, typename K, typename V, int U>
__device__ __forceinline__ void few_tile(const attend_args &a, const few_layout &at,
                                         unsigned char *sm, const tile &t, int g, bool *waited)
{
    const int warp = threadIdx.x / 32;
    const bool scores = warp < HALF_WARPS;
    few_pages<U> w = {};
    w.warp = warp % HALF_WARPS;
    w.ring = sm + (scores ? at.k : at.v);
    w.page = a.b.page[a.space] + (size_t)t.slot * a.b.pages_per_seq + t.lo / PAGE;
    w.bytes = scores ? at.k_bytes : at.v_bytes;
    w.entries = at.entries;
    w.g = g;
    w.pages = t.lo < t.hi ? (t.hi - 1) / PAGE - t.lo / PAGE + 1 : 0;
    read_numbers(w);
    /* pages written by earlier steps do not depend on the previous kernels, which computed the
     * queries */
    const int ahead = FT_MIN((w.entries - 1) * U, w.pages);
    const bool wait = !*waited, old = (t.lo / PAGE + ahead) * PAGE <= t.start;
    *waited = true;
    if (wait && !old) wait_for_previous_kernel();
#pragma unroll 1
    for (int i = 1; i < w.entries; i++)
        if (scores)
            few_issue<D, K>(w, a.k);
        else
            few_issue<D, V>(w, a.v);
    if (wait && old) wait_for_previous_kernel();
    load_queries<D>(a, t, g, sm + at.q, 8 * NB);
    __syncthreads();
    if (scores)
        few_score_pages<D, NB, K>(a, at, sm, w, t.lo / PAGE * PAGE, t.range_bits);
    else
        few_value_pages<D, NB, V>(a, at, sm, w, t, g);
}

template <int D, int NB, typename K, typename V, int U, int BLOCKS>
static __global__ void __launch_bounds__(THREADS, BLOCKS)
    attend_few_kernel(const attend_args a, const few_layout at)
{
    extern __shared__ uint4 attend_few_shared[];
    unsigned char *const sm = (unsigned char *)attend_few_shared;
    bool waited = false;
    tile t;
    int g;
    few_put_books<K, V>(a, sm, at);
    units u = units_of_block(a);
    while (next_ranges(a, &u, &t, &g, (int *)(sm + at.rows), 8 * NB)) {
        few_tile<D, NB, K, V, U>(a, at, sm, t, g, &waited);
        __syncthreads(); /* the next tile overwrites shared memory */
    }
    if (!waited) wait_for_previous_kernel();
}

typedef void attend_few_fn(const attend_args, const few_layout);

typedef struct few_kernel {
    attend_few_fn *fn; /* NULL: there is none */
    int blocks;        /* that a multiprocessor runs at a time, if shared memory suffices */
    int unit;          /* pages that it processes at a time */
} few_kernel;

/* The kernels for up to 8, 16, 24 and 32 vectors and these types of keys and values. */
few_kernel ft_cuda_attend_few_256_1(int kt, int vt);
few_kernel ft_cuda_attend_few_256_2(int kt, int vt);
few_kernel ft_cuda_attend_few_256_3(int kt, int vt);
few_kernel ft_cuda_attend_few_256_4(int kt, int vt);
few_kernel ft_cuda_attend_few_512(int NB); /* up to 8 NB vectors */

#endif
