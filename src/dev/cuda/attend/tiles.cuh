/* dev/cuda/attend/tiles.cuh - which query vectors and which positions a block of attend_mma.cuh
 * computes. */
#ifndef FT_CUDA_TILES_CUH
#define FT_CUDA_TILES_CUH

#include "dev/cuda/attend/attend.cuh"
#include "dev/cuda/spans.cuh"

enum { PAGE = FT_PAGE_ROWS, THREADS = 256 };

/* Whether one of the ranges of 2^bits positions begins at a position. */
__device__ __forceinline__ bool begins_range(int position, int bits)
{
    return !(position & ((1 << bits) - 1));
}

typedef struct tile {
    int row, rows; /* rows of q */
    int slot;
    int start;                /* positions from here on are written in this step */
    int end, rise;            /* row r of the tile sees the positions below end + r * rise */
    ft_attn_parts part;       /* of the first row */
    int range_bits;           /* ranges have 2^range_bits positions, where a block computes some */
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
    const int end = a.b.end[row];
    *t = {i, 1, of->slot, of->start, end, 0, a.part_of[row], range_bits_of(a, end)};
}

/* The rows [from, to) of a span. */
__device__ __forceinline__ void piece_tile(const attend_args &a, const ft_span_range &s, int from,
                                           int to, tile *t)
{
    const ft_attn_parts part = {s.part.first + from * s.part.n, s.part.n};
    const int end = s.end + from * s.rise;
    *t = {s.row + from, to - from, s.slot, s.start, end, s.rise, part, range_bits_of(a, end)};
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
    piece_tile(a, s, from, min(from + a.rows, s.n), t);
    t->span = span;
    return true;
}

/* The end of a piece of a span: its rows have ranges of the same length. */
__device__ __forceinline__ int piece_end(const attend_args &a, const ft_span_range &s, int from)
{
    const int to = min(from + a.rows, s.n), end = s.end + from;
    const int limit = a.range_limit, next = RANGE_LONGER * limit;
    if (!s.rise || end > next) return to;
    return min(to, (end > limit ? next : limit) + 1 - s.end);
}

/* The ranges that the rows [from, to) of a span see, in units of RANGE_UNIT positions. Rows that
 * see nothing have one range. */
__device__ __forceinline__ int piece_units(const attend_args &a, const ft_span_range &s, int from,
                                           int to, int *first)
{
    const int end = s.end + from * s.rise, bits = range_bits_of(a, end);
    int lo, hi, none;
    seen(a, end, &lo, &none);
    seen(a, s.end + (to - 1) * s.rise, &none, &hi);
    const int n = hi > lo ? ((hi - 1) >> bits) - (lo >> bits) + 1 : 1;
    *first = lo >> bits << (bits - RANGE_BITS);
    return n << (bits - RANGE_BITS);
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

/* The units of a tile: `n` from unit `first` on, after `before` units of earlier tiles. */
typedef struct tile_units {
    int before, first, n;
} tile_units;

/* The tile of unit number i of all tiles in order; false: there are fewer units. A lane counts the
 * units of a span, or of an output row. *count: their number, once it is known. */
__device__ __forceinline__ bool find_unit(const attend_args &a, int i, tile *t, tile_units *of,
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
        for (int r = 0, to; r < s.n; r = to) {
            to = piece_end(a, s, r);
            sum += piece_units(a, s, r, to, &first);
        }
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
        int r = 0, to, n;
        while (to = piece_end(a, s, r), i >= (n = piece_units(a, s, r, to, &first))) {
            i -= n;
            r = to;
        }
        *of = {number - i, first, n};
        if (a.out)
            out_tile(a, s.row, t);
        else
            piece_tile(a, s, r, to, t);
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

/* ---- distribution ---- */

/* The units of all tiles and KV heads are distributed over as many blocks as the GPU runs at a
 * time: the launch does not depend on the context lengths. A block has the units [next, end), and
 * computes the ranges that begin in them: those of a tile one after the other, without waiting for
 * a page in between. */
typedef struct units {
    int next, end;
} units;

/* The first blocks have one unit more than the others: blocks are placed one per multiprocessor
 * before any of them gets a second one. */
__device__ __forceinline__ units units_of_block(const attend_args &a)
{
    tile t;
    tile_units of;
    int count = 0;
    find_unit(a, INT_MAX, &t, &of, &count);
    const int all = count * a.k.G, each = all / gridDim.x, more = all % gridDim.x, b = blockIdx.x;
    return {b * each + min(b, more), (b + 1) * each + min(b + 1, more)};
}

/* The beginning of the first range that begins in this unit or after it. */
__device__ __forceinline__ int next_range(const tile &t, int unit)
{
    return (unit * RANGE_UNIT + (1 << t.range_bits) - 1) >> t.range_bits << t.range_bits;
}

/* The next ranges of the block that belong to one tile and KV head: the positions [t->lo, t->hi)
 * of the tile. false: there are no more. */
__device__ __forceinline__ bool next_ranges(const attend_args &a, units *u, tile *t, int *g,
                                            int *seen_by, int M)
{
    const int G = a.k.G;
    tile_units of;
    int count;
    while (u->next < u->end && find_unit(a, u->next / G, t, &of, &count)) {
        const int at = u->next - G * of.before, first = at % of.n;
        const int n = min(u->end - u->next, of.n - first);
        u->next += n;
        *g = at / of.n;
        tile_ranges(a, t, seen_by, M);
        const bool none = t->lo >= t->hi;
        t->lo = max(t->lo, next_range(*t, of.first + first));
        t->hi = min(t->hi, next_range(*t, of.first + first + n));
        if (none || t->lo < t->hi) return true;
    }
    return false;
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
    return lo / RANGE_MOST * RANGE_MOST + a.segment.at * a.segment.positions;
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
