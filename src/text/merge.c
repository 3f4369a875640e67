/* Short runs are merged by looking for the minimum again and again, longer ones with a heap. Very
 * long runs go through a window that moves: a list of tokens is the answer for its whole text
 * exactly when each two neighbours, merged on their own, stay these two. (Assume the merges of the
 * whole text leave the list at some point. The first that does crosses one border, between two
 * neighbours in which nothing has differed until then, so merging these two alone crosses it too.)
 * So windows are merged independently, and the answer is stitched at a border that holds. The cost
 * is linear in the length and the window stays in the first cache. */
#include "text/merge.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"

#include <assert.h>
#include <string.h>

#define NO_RANK 0xFFFFFFFFu
#define SHORT   48  /* longest run that is merged without a heap */
#define WINDOW  256 /* symbols, at first */

typedef struct ft_node {
    uint32_t id, len;
    uint32_t rank;       /* of the pair that begins here */
    uint32_t n;          /* symbols that became this one; 0: merged into the one before */
    uint32_t prev, next; /* used with the heap only */
} node;

bool ft_merges_init(ft_merges *m, uint32_t max_rules)
{
    *m = (ft_merges){.n_slot = 16};
    while (m->n_slot < (size_t)max_rules * 2) m->n_slot *= 2;
    m->slot = ft_try_alloc(m->n_slot * sizeof *m->slot);
    m->result = ft_try_alloc(((size_t)max_rules + 1) * sizeof *m->result);
    m->seed = ft_mix64((uint64_t)ft_now_ns() ^ (uint64_t)(uintptr_t)m->slot) | 1;
    if (!m->slot || !m->result) {
        ft_merges_release(m);
        return false;
    }
    for (size_t i = 0; i < m->n_slot; i++) m->slot[i].a = FT_NO_SYM;
    return true;
}

void ft_merges_release(ft_merges *m)
{
    ft_free(m->slot);
    ft_free(m->result);
    *m = (ft_merges){0};
}

/* The slot where the pair is or would go. */
static ft_rule *probe(const ft_merges *m, uint32_t a, uint32_t b)
{
    uint64_t h = ((uint64_t)a << 32 | b) ^ m->seed;
    h *= 0x9E3779B97F4A7C15u;
    h ^= h >> 32;
    h *= 0xD6E8FEB86659FD93u;
    size_t i = (size_t)(h >> 32) & (m->n_slot - 1);
    for (;; i = (i + 1) & (m->n_slot - 1)) {
        ft_rule *r = &m->slot[i];
        if (r->a == FT_NO_SYM || (r->a == a && r->b == b)) return r;
    }
}

void ft_merges_put(ft_merges *m, uint32_t a, uint32_t b, uint32_t id)
{
    assert((size_t)m->n * 2 < m->n_slot);
    ft_rule *r = probe(m, a, b);
    if (r->a == FT_NO_SYM) *r = (ft_rule){a, b, m->n};
    m->result[m->n++] = id;
}

static inline uint32_t rank_of(const ft_merges *m, uint32_t a, uint32_t b)
{
    if (a == FT_NO_SYM || b == FT_NO_SYM) return NO_RANK;
    const ft_rule *r = probe(m, a, b);
    return r->a == FT_NO_SYM ? NO_RANK : r->rank;
}

/* Few symbols: look for the minimum, close the gap, and again. */
static size_t merge_short(const ft_merges *m, node *a, size_t n)
{
    for (;;) {
        uint32_t best = NO_RANK;
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++)
            if (a[i].rank < best) {
                best = a[i].rank;
                at = i;
            }
        if (best == NO_RANK) return n;
        a[at].id = m->result[best];
        a[at].len += a[at + 1].len;
        a[at].n += a[at + 1].n;
        n--;
        memmove(&a[at + 1], &a[at + 2], (n - at - 1) * sizeof *a);
        a[at].rank = at + 1 < n ? rank_of(m, a[at].id, a[at + 1].id) : NO_RANK;
        if (at > 0) a[at - 1].rank = rank_of(m, a[at - 1].id, a[at].id);
    }
}

/* ---- a binary heap of rank << 32 | position; entries whose rank has changed since are stale ----
 */

static void heap_push(ft_merge_work *w, uint32_t rank, uint32_t at)
{
    if (rank == NO_RANK) return;
    if (w->n_heap == w->heap_cap) {
        w->heap_cap = w->heap_cap ? w->heap_cap * 2 : 4 * WINDOW;
        w->heap = ft_realloc(w->heap, w->heap_cap * sizeof *w->heap);
    }
    const uint64_t key = (uint64_t)rank << 32 | at;
    size_t i = w->n_heap++;
    for (; i > 0 && w->heap[(i - 1) / 2] > key; i = (i - 1) / 2) w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = key;
}

static uint64_t heap_pop(ft_merge_work *w)
{
    const uint64_t top = w->heap[0], last = w->heap[--w->n_heap];
    size_t i = 0;
    for (size_t c; (c = 2 * i + 1) < w->n_heap; i = c) {
        if (c + 1 < w->n_heap && w->heap[c + 1] < w->heap[c]) c++;
        if (w->heap[c] >= last) break;
        w->heap[i] = w->heap[c];
    }
    w->heap[i] = last;
    return top;
}

static size_t merge_heap(const ft_merges *m, ft_merge_work *w, node *a, size_t n)
{
    w->n_heap = 0;
    for (size_t i = 0; i < n; i++) {
        a[i].prev = (uint32_t)i - 1;
        a[i].next = (uint32_t)i + 1;
        heap_push(w, a[i].rank, (uint32_t)i);
    }
    while (w->n_heap) {
        const uint64_t top = heap_pop(w);
        const uint32_t at = (uint32_t)top, rank = (uint32_t)(top >> 32);
        if (!a[at].n || a[at].rank != rank) continue;
        const uint32_t gone = a[at].next, after = a[gone].next;
        a[at].id = m->result[rank];
        a[at].len += a[gone].len;
        a[at].n += a[gone].n;
        a[at].next = after;
        a[gone].n = 0;
        a[at].rank = NO_RANK;
        if (after < n) {
            a[after].prev = at;
            a[at].rank = rank_of(m, a[at].id, a[after].id);
            heap_push(w, a[at].rank, at);
        }
        if (at > 0) {
            const uint32_t before = a[at].prev;
            a[before].rank = rank_of(m, a[before].id, a[at].id);
            heap_push(w, a[before].rank, before);
        }
    }
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
        if (a[i].n) a[k++] = a[i];
    return k;
}

/* Merges n symbols into w->node[base..] and returns how many nodes that makes. */
static size_t merge_nodes(const ft_merges *m, ft_merge_work *w, const ft_sym *sym, size_t n,
                          size_t base)
{
    if (base + n > w->cap) {
        w->cap = FT_MAX(base + n, w->cap * 2);
        w->node = ft_realloc(w->node, w->cap * sizeof *w->node);
    }
    node *a = w->node + base;
    for (size_t i = 0; i < n; i++)
        a[i] = (node){.id = sym[i].id,
                      .len = sym[i].len,
                      .n = 1,
                      .rank = i + 1 < n ? rank_of(m, sym[i].id, sym[i + 1].id) : NO_RANK};
    return n <= SHORT ? merge_short(m, a, n) : merge_heap(m, w, a, n);
}

/* Do the symbols of two tokens, na and nb of them, stay these two when merged on their own? */
static bool border_holds(const ft_merges *m, ft_merge_work *w, const ft_sym *sym, size_t na,
                         size_t nb, size_t base)
{
    return merge_nodes(m, w, sym, na + nb, base) == 2 && w->node[base].n == na;
}

static size_t put_nodes(ft_sym *out, const node *a, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = (ft_sym){a[i].id, a[i].len};
    return n;
}

/* Looks for a border among the n_have tokens at w->node[0..], which begin at sym, such that the
 * text behind it can be merged on its own. On success the tokens before the border stay, the ones
 * of the next window (at most `window` symbols) lie behind them, *keep and *n_next count both. */
static bool stitch(const ft_merges *m, ft_merge_work *w, const ft_sym *sym, size_t left,
                   size_t window, size_t n_have, size_t *keep, size_t *n_next)
{
    /* The last tokens of a window are the ones that more text would change. */
    for (size_t drop = 2; drop <= 8 && drop < n_have; drop *= 2) {
        const size_t k = n_have - drop;
        size_t start = 0;
        for (size_t i = 0; i < k; i++) start += w->node[i].n;
        const uint32_t was = w->node[k].n, last = w->node[k - 1].n;
        const size_t base = n_have; /* keep all of them until the border is known to hold */
        const size_t n = merge_nodes(m, w, sym + start, FT_MIN(window, left - start), base);
        const uint32_t first = w->node[base].n;
        /* The token that followed in the old window: that border is known to hold. */
        if (first != was && !border_holds(m, w, sym + start - last, last, first, base + n))
            continue;
        *keep = k;
        *n_next = n;
        memmove(w->node + k, w->node + base, n * sizeof *w->node);
        return true;
    }
    return false;
}

size_t ft_merge(const ft_merges *m, ft_merge_work *w, ft_sym *sym, size_t n)
{
    if (n < 2) return n;
    size_t window = WINDOW, out = 0, at = 0; /* sym[at..] is not in the answer yet */
    size_t have = merge_nodes(m, w, sym, FT_MIN(n, window), 0), reach = FT_MIN(n, window);
    while (reach < n) {
        size_t keep, n_next;
        if (!stitch(m, w, sym + at, n - at, window, have, &keep, &n_next)) {
            window *= 2; /* tokens longer than the window, or a border that never holds */
            reach = FT_MIN(n, at + window);
            have = merge_nodes(m, w, sym + at, reach - at, 0);
            continue;
        }
        size_t start = at;
        for (size_t i = 0; i < keep; i++) start += w->node[i].n;
        /* The answer needs no more room than the symbols it came from. */
        out += put_nodes(sym + out, w->node, keep);
        memmove(w->node, w->node + keep, n_next * sizeof *w->node);
        at = start;
        have = n_next;
        reach = FT_MIN(n, at + window);
        window = WINDOW;
    }
    return out + put_nodes(sym + out, w->node, have);
}

void ft_merge_work_release(ft_merge_work *w)
{
    ft_free(w->node);
    ft_free(w->heap);
    *w = (ft_merge_work){0};
}
