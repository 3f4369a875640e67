/* text/merge.c - BPE merging.
 * Short runs are merged by repeated search for the pair of lowest rank. Longer runs are merged in a
 * sliding window. This is correct because of the following property: a list of tokens is the result
 * for its whole text exactly when every two adjacent tokens, merged alone, give the same two
 * tokens. (Proof: if merging the whole text gave another list, its first merge that differs would
 * join symbols across one border between two adjacent tokens. Everything in these two was merged as
 * in isolation until then, so merging the two alone would cross the border too.) So windows are
 * merged independently and joined at a border with this property. The cost is linear in the length.
 * When tokens are longer than a window, the window grows, and a heap replaces the linear search. */
#include "text/merge.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"

#include <assert.h>
#include <string.h>

#define NO_RANK 0xFFFFFFFFu
#define NO_KEY  0xFFFFFFFFu
#define WINDOW  64 /* symbols, at first; up to this many are merged without a heap */
#define STEP    16 /* keys that are compared together */
#define MEMO    ((size_t)1 << 14)

typedef struct ft_node {
    uint32_t id, len;
    uint32_t rank, to;   /* of the pair that begins here; what it becomes */
    uint32_t n;          /* symbols that became this one; 0: merged into the one before */
    uint32_t prev, next; /* adjacent nodes that remain */
} node;

bool ft_merges_init(ft_merges *m, uint32_t max_rules)
{
    *m = (ft_merges){.n_slot = 16};
    while (m->n_slot < (size_t)max_rules * 2) m->n_slot *= 2;
    m->slot = ft_try_alloc_large(m->n_slot * sizeof *m->slot);
    m->seed = ft_mix64((uint64_t)ft_now_ns() ^ (uint64_t)(uintptr_t)m->slot) | 1;
    if (!m->slot) return false;
    for (size_t i = 0; i < m->n_slot; i++) m->slot[i].a = FT_NO_SYM;
    return true;
}

void ft_merges_release(ft_merges *m)
{
    ft_free(m->slot);
    *m = (ft_merges){0};
}

/* The slot that holds the pair, or the free slot where it would be inserted. */
static ft_rule *probe_rule(const ft_merges *m, uint32_t a, uint32_t b)
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
    ft_rule *r = probe_rule(m, a, b);
    if (r->a == FT_NO_SYM) *r = (ft_rule){a, b, m->n, id};
    m->n++;
}

/* The rule for a pair, with rank NO_RANK when there is none. The table of rules is larger than the
 * L2 cache, so each thread caches the pairs it looked up recently. */
static inline const ft_rule *rule_of(const ft_merges *m, ft_merge_work *w, uint32_t a, uint32_t b)
{
    static const ft_rule none = {.rank = NO_RANK};
    if (a == FT_NO_SYM || b == FT_NO_SYM) return &none;
    const uint64_t h = ((uint64_t)a << 32 | b) * 0x9E3779B97F4A7C15u;
    ft_rule *memo = &w->memo[(h ^ h >> 32) * 0x9E3779B97F4A7C15u >> 50];
    if (memo->a == a && memo->b == b) return memo;
    const ft_rule *r = probe_rule(m, a, b);
    *memo = (ft_rule){a, b, r->a == FT_NO_SYM ? NO_RANK : r->rank, r->id};
    return memo;
}

/* Looks up the pair of node `at` and the node `next`. */
static inline void rate(const ft_merges *m, ft_merge_work *w, node *a, uint32_t at, uint32_t next)
{
    const ft_rule *r = rule_of(m, w, a[at].id, a[next].id);
    a[at].rank = r->rank;
    a[at].to = r->id;
}

static inline uint32_t key_of(uint32_t rank, size_t at)
{
    return rank == NO_RANK ? NO_KEY : rank * WINDOW + (uint32_t)at;
}

/* Joins node `at` and the node after it. */
static inline void join_nodes(node *a, size_t n, uint32_t at)
{
    const uint32_t gone = a[at].next, after = a[gone].next;
    a[at].id = a[at].to;
    a[at].len += a[gone].len;
    a[at].n += a[gone].n;
    a[at].next = after;
    a[gone].n = 0;
    a[at].rank = NO_RANK;
    if (after < n) a[after].prev = at;
}

static size_t close_gaps(node *a, size_t n)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
        if (a[i].n) a[k++] = a[i];
    return k;
}

typedef uint32_t u32x4 __attribute__((vector_size(16)));

static inline u32x4 min_u32x4(u32x4 a, u32x4 b)
{
    const u32x4 m = (u32x4)(a < b);
    return (a & m) | (b & ~m);
}

/* The smallest of n keys; n is a positive multiple of STEP. */
static inline uint32_t smallest(const u32x4 *key, size_t n)
{
    u32x4 a = key[0], b = key[1], c = key[2], d = key[3];
    for (size_t i = 4; i < n / 4; i += 4) {
        a = min_u32x4(a, key[i]);
        b = min_u32x4(b, key[i + 1]);
        c = min_u32x4(c, key[i + 2]);
        d = min_u32x4(d, key[i + 3]);
    }
    a = min_u32x4(min_u32x4(a, b), min_u32x4(c, d));
    return FT_MIN(FT_MIN(a[0], a[1]), FT_MIN(a[2], a[3]));
}

/* Merges up to WINDOW symbols in place. A key is rank and position, so the smallest one is the
 * leftmost pair of lowest rank; nodes that were merged into another stay in the array without a
 * key. */
static size_t merge_short(const ft_merges *m, ft_merge_work *w, node *a, size_t n)
{
    union {
        uint32_t at[WINDOW];
        u32x4 all[WINDOW / 4];
    } key;
    const size_t all = (n + STEP - 1) / STEP * STEP;
    for (size_t i = 0; i < n; i++) key.at[i] = key_of(a[i].rank, i);
    for (size_t i = n; i < all; i++) key.at[i] = NO_KEY;
    for (;;) {
        const uint32_t best = smallest(key.all, all);
        if (best == NO_KEY) return close_gaps(a, n);
        const uint32_t at = best % WINDOW, gone = a[at].next;
        join_nodes(a, n, at);
        key.at[gone] = NO_KEY;
        if (a[at].next < n) rate(m, w, a, at, a[at].next);
        key.at[at] = key_of(a[at].rank, at);
        if (at > 0) {
            const uint32_t before = a[at].prev;
            rate(m, w, a, before, at);
            key.at[before] = key_of(a[before].rank, before);
        }
    }
}

/* ---- a binary heap of rank << 32 | position; entries whose rank has changed since are stale ----
 */

static void heap_push(ft_merge_work *w, uint32_t rank, uint32_t at)
{
    if (rank == NO_RANK) return;
    if (w->n_heap == w->heap_cap) {
        w->heap_cap = w->heap_cap ? w->heap_cap * 2 : 1024;
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
    for (size_t i = 0; i < n; i++) heap_push(w, a[i].rank, (uint32_t)i);
    while (w->n_heap) {
        const uint64_t top = heap_pop(w);
        const uint32_t at = (uint32_t)top, rank = (uint32_t)(top >> 32);
        if (!a[at].n || a[at].rank != rank) continue;
        join_nodes(a, n, at);
        if (a[at].next < n) {
            rate(m, w, a, at, a[at].next);
            heap_push(w, a[at].rank, at);
        }
        if (at > 0) {
            const uint32_t before = a[at].prev;
            rate(m, w, a, before, at);
            heap_push(w, a[before].rank, before);
        }
    }
    return close_gaps(a, n);
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
                      .rank = NO_RANK,
                      .prev = (uint32_t)i - 1,
                      .next = (uint32_t)i + 1};
    for (size_t i = 0; i + 1 < n; i++) rate(m, w, a, (uint32_t)i, (uint32_t)i + 1);
    return n <= WINDOW ? merge_short(m, w, a, n) : merge_heap(m, w, a, n);
}

/* true when the symbols of two adjacent tokens (na and nb of them) merge to the same two tokens. */
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

/* Searches the n_have tokens at w->node[0..], which begin at sym, for a border such that the text
 * after it can be merged independently. On success the tokens before the border are kept, those of
 * the next window (at most `window` symbols) follow them, and *keep and *n_next count both. */
static bool stitch(const ft_merges *m, ft_merge_work *w, const ft_sym *sym, size_t left,
                   size_t window, size_t n_have, size_t *keep, size_t *n_next)
{
    /* Only the last tokens of a window can change when more text follows. */
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
    if (!w->memo) {
        w->memo = ft_new_n(ft_rule, MEMO);
        for (size_t i = 0; i < MEMO; i++) w->memo[i].a = FT_NO_SYM;
    }
    size_t window = WINDOW, out = 0, at = 0; /* sym[at..] is not in the result yet */
    size_t have = merge_nodes(m, w, sym, FT_MIN(n, window), 0), reach = FT_MIN(n, window);
    while (reach < n) {
        size_t keep, n_next;
        if (!stitch(m, w, sym + at, n - at, window, have, &keep, &n_next)) {
            window *= 2; /* tokens longer than the window, or no border was found */
            reach = FT_MIN(n, at + window);
            have = merge_nodes(m, w, sym + at, reach - at, 0);
            continue;
        }
        size_t start = at;
        for (size_t i = 0; i < keep; i++) start += w->node[i].n;
        /* The result never has more symbols than its input. */
        out += put_nodes(sym + out, w->node, keep);
        memmove(w->node, w->node + keep, n_next * sizeof *w->node);
        at = start;
        have = n_next;
        reach = FT_MIN(n, at + window);
        if (have > 16)
            window = FT_MAX(window / 2, (size_t)WINDOW); /* it had grown for long tokens */
    }
    return out + put_nodes(sym + out, w->node, have);
}

void ft_merge_work_release(ft_merge_work *w)
{
    ft_free(w->node);
    ft_free(w->heap);
    ft_free(w->memo);
    *w = (ft_merge_work){0};
}
