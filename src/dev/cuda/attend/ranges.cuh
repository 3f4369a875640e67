/* dev/cuda/attend/ranges.cuh - the ranges of positions that attention computes side by side.
 *
 * All ranges of a row have the same length. It grows with the number of positions that the row
 * sees: short ranges take less time while the GPU computes those of all KV heads at once, long ones
 * have fewer partial results. In layers with a short window they are short. The length depends on
 * the row and the layer only, so rows are invariant. docs/why/0042 has measurements. */
#ifndef FT_CUDA_RANGES_CUH
#define FT_CUDA_RANGES_CUH

#include "dev/cuda/cuda.h"

#include <limits.h>

enum {
    RANGE_BITS = 7,
    RANGE_UNIT = 1 << RANGE_BITS, /* positions of the shortest ranges */
    RANGE_MOST = 4 * RANGE_UNIT,  /* and of the longest ones */
    RANGE_SHORT = 128,  /* most ranges of the shortest length, of a row in all KV heads together */
    RANGE_MIDDLE = 256, /* and of twice that length */
    RANGE_HEADS = 2,    /* layers with fewer KV heads have the ranges of one with so many */
    RANGE_SHORT_WINDOW = 2048 /* windows up to this are short */
};
/* Rows with ranges of twice the shortest length see up to so many times as many positions. */
enum { RANGE_LONGER = 2 * RANGE_MIDDLE / RANGE_SHORT };
static_assert((int)RANGE_UNIT == (int)FT_SHAPE_SHORT_CTX, "a short context is one range");

/* Rows that see up to so many positions have the shortest ranges, in a layer with G KV heads. */
static inline int range_limit(int G, int window)
{
    if (window && window <= RANGE_SHORT_WINDOW) return INT_MAX / RANGE_LONGER;
    return RANGE_SHORT / FT_MAX(G, (int)RANGE_HEADS) * RANGE_UNIT;
}

/* The ranges of a row that sees positions below `end` have 2^range_bits positions. */
static __host__ __device__ __forceinline__ int range_bits(int end, int limit)
{
    if (end <= limit) return RANGE_BITS;
    return end <= RANGE_LONGER * limit ? RANGE_BITS + 1 : RANGE_BITS + 2;
}

/* Upper bound of the ranges of rows that see positions below `end` or fewer, in any layer. */
static inline int most_ranges(int end)
{
    const int shortest = (end + RANGE_UNIT - 1) / RANGE_UNIT;
    const int longest = (end + RANGE_MOST - 1) / RANGE_MOST;
    return FT_MAX(FT_MAX(longest, 1), FT_MIN(shortest, RANGE_MIDDLE / RANGE_HEADS));
}

#endif
