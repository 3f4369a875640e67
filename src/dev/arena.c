#include "dev/arena.h"

#include "base/mem.h"

#include <assert.h>
#include <string.h>

typedef struct run {
    uint64_t at, end;
} run;

/* Runs that do not overlap, sorted by address. */
typedef struct runs {
    run *v;
    int n, cap;
    uint64_t sum; /* of their bytes */
} runs;

struct ft_arena {
    ft_arena_memory memory;
    uint64_t size;
    runs piece; /* multiples of FT_ARENA_ALIGN */
    runs map;   /* whole blocks; each has at least one allocation in it */
};

/* ---- runs ---- */

/* The first that ends after `at`. */
static int first_behind(const runs *r, uint64_t at)
{
    int lo = 0, hi = r->n;
    while (lo < hi) {
        const int mid = (lo + hi) / 2;
        if (r->v[mid].end > at)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

static void insert(runs *r, int i, run x)
{
    if (r->n == r->cap) r->v = ft_realloc(r->v, sizeof x * (size_t)(r->cap = 2 * r->cap + 64));
    memmove(r->v + i + 1, r->v + i, sizeof x * (size_t)(r->n - i));
    r->v[i] = x;
    r->n++;
    r->sum += x.end - x.at;
}

static run cut(runs *r, int i)
{
    const run x = r->v[i];
    memmove(r->v + i, r->v + i + 1, sizeof x * (size_t)(--r->n - i));
    r->sum -= x.end - x.at;
    return x;
}

/* ---- memory ---- */

/* The blocks that a run touches. */
static run blocks_of(const ft_arena *a, run x)
{
    const uint64_t mask = a->memory.block - 1;
    return (run){x.at & ~mask, (x.end + mask) & ~mask};
}

/* Bytes of these blocks that are not mapped yet. */
static uint64_t missing(const ft_arena *a, run b)
{
    uint64_t n = b.end - b.at;
    for (int i = first_behind(&a->map, b.at); i < a->map.n && a->map.v[i].at < b.end; i++) {
        const run m = a->map.v[i];
        n -= FT_MIN(m.end, b.end) - FT_MAX(m.at, b.at);
    }
    return n;
}

static bool map_blocks(ft_arena *a, run b)
{
    while (b.at < b.end) {
        const int i = first_behind(&a->map, b.at);
        const uint64_t next = i < a->map.n ? a->map.v[i].at : a->size;
        if (next <= b.at) {
            b.at = a->map.v[i].end;
            continue;
        }
        const run m = {b.at, FT_MIN(b.at + a->memory.most, FT_MIN(next, b.end))};
        if (!a->memory.map(a->memory.owner, m.at, m.end - m.at)) return false;
        insert(&a->map, i, m);
        b.at = m.end;
    }
    return true;
}

static bool is_unused(const ft_arena *a, run m)
{
    const int i = first_behind(&a->piece, m.at);
    return i == a->piece.n || a->piece.v[i].at >= m.end;
}

/* Unmaps the mappings of these blocks that contain no allocation. */
static void unmap_unused(ft_arena *a, run b)
{
    for (int i = first_behind(&a->map, b.at); i < a->map.n && a->map.v[i].at < b.end;) {
        if (!is_unused(a, a->map.v[i])) {
            i++;
            continue;
        }
        const run m = cut(&a->map, i);
        a->memory.unmap(a->memory.owner, m.at, m.end - m.at);
    }
}

/* ---- allocations ---- */

/* A hole for an allocation, and the bytes to be mapped for it. */
typedef struct offer {
    bool some;
    run to;
    int i; /* index of the allocation after it */
    uint64_t missing, hole;
} offer;

static void consider(const ft_arena *a, offer *best, offer o)
{
    o.missing = missing(a, blocks_of(a, o.to));
    if (best->some &&
        (o.missing > best->missing || (o.missing == best->missing && o.hole >= best->hole)))
        return;
    *best = o;
}

bool ft_arena_alloc(ft_arena *a, uint64_t bytes, uint64_t *at)
{
    if (bytes > a->size) return false;
    const uint64_t n = ft_arena_alloc_size(bytes);
    offer best = {0};
    uint64_t lo = 0;
    for (int i = 0; i <= a->piece.n; i++) {
        const bool last = i == a->piece.n;
        const uint64_t hi = last ? a->size : a->piece.v[i].at;
        if (hi - lo >= n) {
            /* either end of a hole may be mapped already */
            consider(a, &best, (offer){true, {lo, lo + n}, i, 0, hi - lo});
            if (!last) consider(a, &best, (offer){true, {hi - n, hi}, i, 0, hi - lo});
        }
        if (!last) lo = a->piece.v[i].end;
    }
    if (!best.some) return false;
    const run blocks = blocks_of(a, best.to);
    if (!map_blocks(a, blocks)) {
        unmap_unused(a, blocks);
        return false;
    }
    insert(&a->piece, best.i, best.to);
    *at = best.to.at;
    return true;
}

void ft_arena_dealloc(ft_arena *a, uint64_t at)
{
    const int i = first_behind(&a->piece, at);
    assert(i < a->piece.n && a->piece.v[i].at == at);
    unmap_unused(a, blocks_of(a, cut(&a->piece, i)));
}

uint64_t ft_arena_mapped(const ft_arena *a)
{
    return a->map.sum;
}

uint64_t ft_arena_idle(const ft_arena *a)
{
    return a->map.sum - a->piece.sum;
}

/* ---- new and free ---- */

ft_arena *ft_arena_new(uint64_t size, const ft_arena_memory *memory)
{
    const uint64_t mask = memory->block - 1;
    assert(memory->block >= FT_ARENA_ALIGN && !(memory->block & mask));
    assert(memory->most && !(memory->most & mask) && !(size & mask));
    ft_arena *a = ft_new(ft_arena);
    a->size = size;
    a->memory = *memory;
    return a;
}

void ft_arena_free(ft_arena *a)
{
    if (!a) return;
    a->piece.n = 0;
    unmap_unused(a, (run){0, a->size});
    ft_free(a->piece.v);
    ft_free(a->map.v);
    ft_free(a);
}
