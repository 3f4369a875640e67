/* engine/ngram_cache.c - lookup decoding: counts of what followed the last 1 to 4 ids. */
#include "base/file.h"
#include "base/mem.h"
#include "engine/ngram.h"

#include <string.h>

enum {
    LONGEST = 4,
    DRAFTS = 8,
    STATIC = 2,          /* ids of an n-gram of the corpus */
    NODES_MAX = 1 << 24, /* maximum n-grams, and followers of all of them */
    FILE_MAX = 1 << 30,
};

typedef struct follower {
    int32_t id, count, next; /* next: index of another follower, -1: none */
} follower;

typedef struct node {
    int32_t ids[LONGEST]; /* unused ones are -1 */
    int32_t first;        /* follower */
} node;

/* n-grams by open addressing; an empty entry has index -1. */
typedef struct counts {
    node *node;
    follower *f;
    int32_t *slot;
    int n_node, n_f, cap_node, cap_f, slots;
} counts;

typedef struct lookup {
    counts corpus, responses;
    counts *slot; /* counts of this sequence */
    int *done;    /* ids that are counted */
    int slots;
    char *path; /* of the responses file; NULL: not saved */
} lookup;

/* ---- counts ---- */

static void counts_release(counts *c)
{
    ft_free(c->node);
    ft_free(c->f);
    ft_free(c->slot);
    *c = (counts){0};
}

static uint32_t hash_key(const int32_t k[LONGEST])
{
    uint64_t h = 0;
    for (int i = 0; i < LONGEST; i++) h = (h + (uint32_t)k[i] + 1) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(h >> 32);
}

static int find_slot(const counts *c, const int32_t k[LONGEST])
{
    uint32_t at = hash_key(k) & (uint32_t)(c->slots - 1);
    while (c->slot[at] >= 0 && memcmp(c->node[c->slot[at]].ids, k, sizeof(int32_t) * LONGEST))
        at = (at + 1) & (uint32_t)(c->slots - 1);
    return (int)at;
}

static const node *find(const counts *c, const int32_t k[LONGEST])
{
    if (!c->slots) return NULL;
    const int i = c->slot[find_slot(c, k)];
    return i < 0 ? NULL : &c->node[i];
}

static void grow_slots(counts *c)
{
    c->slots = c->slots ? c->slots * 2 : 1024;
    c->slot = ft_realloc(c->slot, sizeof *c->slot * (size_t)c->slots);
    for (int i = 0; i < c->slots; i++) c->slot[i] = -1;
    for (int i = 0; i < c->n_node; i++) c->slot[find_slot(c, c->node[i].ids)] = i;
}

static node *obtain(counts *c, const int32_t k[LONGEST])
{
    if (2 * (c->n_node + 1) > c->slots) grow_slots(c);
    int32_t *s = &c->slot[find_slot(c, k)];
    if (*s >= 0) return &c->node[*s];
    if (c->n_node == c->cap_node) {
        c->cap_node = c->cap_node ? c->cap_node * 2 : 512;
        c->node = ft_realloc(c->node, sizeof *c->node * (size_t)c->cap_node);
    }
    *s = c->n_node;
    node *n = &c->node[c->n_node++];
    memcpy(n->ids, k, sizeof n->ids);
    n->first = -1;
    return n;
}

static void add(counts *c, const int32_t k[LONGEST], int32_t id, int32_t count)
{
    if (c->n_f >= NODES_MAX || c->n_node >= NODES_MAX) return;
    node *n = obtain(c, k);
    for (int i = n->first; i >= 0; i = c->f[i].next)
        if (c->f[i].id == id) {
            c->f[i].count = (int32_t)FT_MIN((int64_t)c->f[i].count + count, INT32_MAX);
            return;
        }
    if (c->n_f == c->cap_f) {
        c->cap_f = c->cap_f ? c->cap_f * 2 : 512;
        c->f = ft_realloc(c->f, sizeof *c->f * (size_t)c->cap_f);
    }
    c->f[c->n_f] = (follower){id, count, n->first};
    n->first = c->n_f++;
}

static void merge(counts *into, const counts *from)
{
    for (int i = 0; i < from->n_node; i++)
        for (int j = from->node[i].first; j >= 0; j = from->f[j].next)
            add(into, from->node[i].ids, from->f[j].id, from->f[j].count);
}

/* The key of the n ids before `end`. */
static void key_of(int32_t k[LONGEST], const int32_t *end, int n)
{
    for (int i = 0; i < LONGEST; i++) k[i] = i < n ? end[i - n] : -1;
}

static int32_t count_of(const counts *c, const node *n, int32_t id)
{
    for (int i = n ? n->first : -1; i >= 0; i = c->f[i].next)
        if (c->f[i].id == id) return c->f[i].count;
    return 0;
}

/* ---- files ---- */

static int32_t get32(const char *p)
{
    uint32_t v = 0;
    for (int i = 3; i >= 0; i--) v = v << 8 | (unsigned char)p[i];
    return (int32_t)v;
}

static void put32(ft_out_file *o, int32_t v)
{
    unsigned char b[4];
    for (int i = 0; i < 4; i++) b[i] = (unsigned char)((uint32_t)v >> 8 * i);
    ft_out_write(o, b, 4);
}

static ft_status parse(counts *c, const char *p, size_t n, const char *path, ft_err *err)
{
    for (size_t at = 0; at < n;) {
        int32_t k[LONGEST];
        if (n - at < 20)
            return ft_fail(err, FT_EFORMAT, "%s: ends inside the record at byte %zu", path, at);
        for (int i = 0; i < LONGEST; i++) k[i] = get32(p + at + 4 * (size_t)i);
        const int32_t m = get32(p + at + 16);
        if (m < 1 || (size_t)m > (n - at - 20) / 8)
            return ft_fail(err, FT_EFORMAT,
                           "%s: the record at byte %zu has %d counts, want 1 to %zu", path, at, m,
                           (n - at - 20) / 8);
        at += 20;
        for (int32_t i = 0; i < m; i++, at += 8) {
            const int32_t id = get32(p + at), count = get32(p + at + 4);
            if (id < 0 || count < 1)
                return ft_fail(err, FT_EFORMAT, "%s: token %d counted %d times at byte %zu", path,
                               id, count, at);
            add(c, k, id, count);
        }
    }
    return FT_OK;
}

static ft_status load_counts(counts *c, const char *path, ft_err *err)
{
    char *text;
    size_t n;
    ft_status st = ft_file_read(&text, &n, path, FILE_MAX, err);
    if (st) return st;
    st = parse(c, text, n, path, err);
    ft_free(text);
    return st;
}

static void save(const counts *c, const char *path)
{
    ft_out_file *o;
    if (ft_out_open(&o, path, NULL)) return;
    for (int i = 0; i < c->n_node; i++) {
        int32_t n = 0;
        for (int j = c->node[i].first; j >= 0; j = c->f[j].next) n++;
        for (int j = 0; j < LONGEST; j++) put32(o, c->node[i].ids[j]);
        put32(o, n);
        for (int j = c->node[i].first; j >= 0; j = c->f[j].next) {
            put32(o, c->f[j].id);
            put32(o, c->f[j].count);
        }
    }
    ft_out_commit(o, NULL);
}

/* ---- drafting ---- */

static void observe(lookup *s, int slot, const int32_t *ids, int n)
{
    for (int i = FT_MAX(1, s->done[slot]); i < n; i++)
        for (int k = 1; k <= FT_MIN(i, LONGEST); k++) {
            int32_t key[LONGEST];
            key_of(key, ids + i, k);
            add(&s->slot[slot], key, ids[i], 1);
        }
    s->done[slot] = n;
}

static void forget(lookup *s, int slot)
{
    if (s->path) merge(&s->responses, &s->slot[slot]);
    counts_release(&s->slot[slot]);
    s->done[slot] = 0;
}

static void cache_begin(void *state, int slot, const int32_t *ids, int n)
{
    forget(state, slot);
    observe(state, slot, ids, n);
}

/* The best follower of a node, weighted by the corpus; -1 when there are too few samples or none
 * is frequent enough. */
static int32_t best(const lookup *s, const counts *c, const node *n, const node *corpus, int sample,
                    int share)
{
    int64_t sum = 0, top = -1, top_count = 0;
    int32_t id = -1;
    for (int i = n ? n->first : -1; i >= 0; i = c->f[i].next) {
        const int64_t known = corpus ? count_of(&s->corpus, corpus, c->f[i].id) : 0;
        const int64_t score = c->f[i].count * (known ? 100 * known : 1);
        sum += c->f[i].count;
        if (score < top || (score == top && c->f[i].id > id)) continue;
        top = score;
        top_count = c->f[i].count;
        id = c->f[i].id;
    }
    return id >= 0 && sum >= sample && 100 * top_count >= share * sum ? id : -1;
}

static int32_t next_id(const lookup *s, int slot, const int32_t *end, int n)
{
    static const int here[2][LONGEST] = {{2, 2, 1, 1}, {66, 50, 50, 50}};
    static const int before[2][LONGEST] = {{4, 3, 2, 2}, {75, 66, 66, 66}};
    int32_t k[LONGEST];
    key_of(k, end, STATIC);
    const node *corpus = n >= STATIC ? find(&s->corpus, k) : NULL;
    for (int source = 0; source < 2; source++) {
        const counts *c = source ? &s->responses : &s->slot[slot];
        const int(*need)[LONGEST] = source ? before : here;
        for (int i = FT_MIN(n, LONGEST); i >= 1; i--) {
            key_of(k, end, i);
            const int32_t id = best(s, c, find(c, k), corpus, need[0][i - 1], need[1][i - 1]);
            if (id >= 0) return id;
        }
    }
    return best(s, &s->corpus, corpus, NULL, 2, 50);
}

static int cache_draft(void *state, int slot, const int32_t *ids, int n, int max, int32_t *out)
{
    lookup *s = state;
    int32_t w[LONGEST + DRAFTS];
    observe(s, slot, ids, n);
    const int had = FT_MIN(n, LONGEST);
    memcpy(w, ids + n - had, sizeof *w * (size_t)had);
    int c = 0;
    for (; c < FT_MIN(max, DRAFTS); c++) {
        const int32_t id = next_id(s, slot, w + had + c, had + c);
        if (id < 0) break;
        w[had + c] = out[c] = id;
    }
    return c;
}

static void cache_accept(void *state, int slot, int drafted, int accepted, bool mine)
{
    (void)state, (void)slot, (void)drafted, (void)accepted, (void)mine;
}

static void cache_free(void *state)
{
    lookup *s = state;
    for (int i = 0; i < s->slots; i++) forget(s, i);
    if (s->path) save(&s->responses, s->path);
    counts_release(&s->corpus);
    counts_release(&s->responses);
    ft_free(s->slot);
    ft_free(s->done);
    ft_free(s->path);
    ft_free(s);
}

ft_status ft_ngram_cache(ft_ngram_drafter *out, const char *corpus, const char *responses,
                         int slots, ft_err *err)
{
    lookup *s = ft_new(lookup);
    s->slots = slots;
    s->slot = ft_new_n(counts, (size_t)slots);
    s->done = ft_new_n(int, (size_t)slots);
    ft_status st = corpus ? load_counts(&s->corpus, corpus, err) : FT_OK;
    if (!st && responses && ft_file_exists(responses))
        st = load_counts(&s->responses, responses, err);
    if (st) {
        cache_free(s);
        return st;
    }
    s->path = responses ? ft_strdup(responses) : NULL;
    *out = (ft_ngram_drafter){"ngram-cache", s, cache_begin, cache_draft, cache_accept, cache_free};
    return FT_OK;
}
