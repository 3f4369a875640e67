/* dev/cuda/attend/tiles.cuh - which query vectors and which positions a block of attend_mma.cuh
 * computes. */
#ifndef FT_CUDA_TILES_CUH
#define FT_CUDA_TILES_CUH

#include "dev/cuda/attend/attend.cuh"
#include "dev/cuda/spans.cuh"

enum { PAGE = FT_PAGE_ROWS, THREADS = 256 };

typedef struct tile {
    int row, rows; /* rows of q */
    int slot;
    int start;                /* positions from here on are written in this step */
    int end, rise;            /* row r of the tile sees the positions below end + r * rise */
    ft_attn_parts part;       /* of the first row */
    int lo, hi;               /* positions that any of its rows sees, of those to be computed */
    int span;                 /* of a piece */
    int expanded;             /* number of the expanded page of lo, if pages are expanded */
    bool resumed, unfinished; /* earlier segments have been computed; later ones follow */
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

/* Tile number i: a piece of a span, or one of the output rows; false: there is none, or it is not
 * for this kernel. Every warp computes it. */
__device__ __forceinline__ bool find_tile(const attend_args &a, int i, tile *t)
{
    int span, from;
    if (a.out) {
        if (i < a.q.T) out_tile(a, i, t);
        return i < a.q.T;
    }
    if (!span_piece(a.b, i, a.rows, &span, &from)) return false;
    const ft_span_range &s = a.span_range[span];
    if (a.segment.rows && (s.n >= a.segment.rows) != a.k.halves) return false;
    piece_tile(a, s, from, t);
    t->span = span;
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

/* The ranges of a tile: `n` from range `first` on, after `before` ranges of earlier tiles. */
typedef struct tile_span {
    int before, first, n;
} tile_span;

/* The tile of range number i of all tiles in order; false: there are fewer ranges. A lane counts
 * the ranges of a span, or of an output row. *count: their number, once it is known. */
__device__ __forceinline__ bool find_range(const attend_args &a, int i, tile *t, tile_span *of,
                                           int *count)
{
    const int number = i;
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
        int n;
        for (; i >= (n = piece_ranges(a, s, r, &first)); r += a.rows) i -= n;
        *of = {number - i, first, n};
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

/* ---- segments ---- */

/* The positions that the rows of a span see. */
__device__ __forceinline__ void seen_by_span(const attend_args &a, const ft_span_range &s, int *lo,
                                             int *hi)
{
    const int last = s.n - 1;
    int none;
    seen_by_row(a, s.row, s.end, lo, &none);
    seen_by_row(a, s.row + last, s.end + last * s.rise, &none, hi);
}

/* The first position of this segment of a span that sees positions from lo on. */
__device__ __forceinline__ int segment_start(const attend_args &a, int lo)
{
    return lo / FT_RANGE * FT_RANGE + a.segment.at * a.segment.positions;
}

/* The number of long spans before a span. All lanes of a warp must call it. */
__device__ __forceinline__ int long_spans_before(const attend_args &a, int span)
{
    int sum = 0;
    for (int i = threadIdx.x & 31; i - (int)(threadIdx.x & 31) < span; i += 32)
        sum += __popc(__ballot_sync(0xffffffffu, i < span && a.b.span[i].n >= a.segment.rows));
    return sum;
}

/* Cuts a tile of a long span to this segment; false: the tile has nothing to compute in it. */
__device__ __forceinline__ bool cut_to_segment(const attend_args &a, tile *t)
{
    const int positions = a.segment.positions;
    int lo, hi;
    seen_by_span(a, a.span_range[t->span], &lo, &hi);
    const int from = segment_start(a, lo), to = from + positions;
    const int last = max(t->lo, t->hi - 1); /* a tile that sees nothing writes zeros once */
    if (t->lo >= to || last < from) return false;
    t->resumed = t->lo < from;
    t->unfinished = last >= to;
    t->lo = max(t->lo, from);
    t->hi = min(t->hi, to);
    t->expanded = (long_spans_before(a, t->span) * positions + t->lo - from) / PAGE;
    return true;
}

#endif
