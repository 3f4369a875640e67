#include "engine/ngram.h"

#include "base/mem.h"

#include <string.h>

/* The history is ids[0 .. n-2]; ids[n-1] is the pending token, the last id of every pattern. */

static bool same_ids(const int32_t *a, const int32_t *b, int n)
{
    return a[n - 1] == b[n - 1] && !memcmp(a, b, sizeof *a * (size_t)n);
}

static void no_begin(void *state, int slot, const int32_t *ids, int n)
{
    (void)state, (void)slot, (void)ids, (void)n;
}

static void no_accept(void *state, int slot, int drafted, int accepted, bool mine)
{
    (void)state, (void)slot, (void)drafted, (void)accepted, (void)mine;
}

static int copy_ids(int32_t *out, const int32_t *from, int n)
{
    if (n > 0) memcpy(out, from, sizeof *out * (size_t)n);
    return FT_MAX(n, 0);
}

/* ---- simple ---- */

static int simple_draft(void *state, int slot, const int32_t *ids, int n, int max, int32_t *out)
{
    const ft_ngram *p = state;
    const int len = n - 1;
    (void)slot;
    if (len <= p->n + p->m + 1) return 0;
    int hits = 0, latest = -1;
    for (int j = len - p->n - 1; j >= 1 && hits < p->min_hits; j--) {
        if (!same_ids(ids + j, ids + n - p->n, p->n)) continue;
        if (!hits++) latest = j + p->n;
    }
    if (hits < p->min_hits) return 0;
    const int c = FT_MIN(p->m, len - latest);
    return c < p->n ? 0 : copy_ids(out, ids + latest, FT_MIN(c, max));
}

ft_ngram_drafter ft_ngram_simple(ft_ngram p)
{
    ft_ngram *s = ft_new(ft_ngram);
    *s = p;
    s->min_hits = FT_MAX(1, p.min_hits);
    return (ft_ngram_drafter){"ngram-simple", s, no_begin, simple_draft, no_accept, ft_free};
}

/* ---- map-k and map-k4v ---- */

enum { CELLS = 1 << 18, KEYS = 1 << 12, VALUES = 4, HITS_MAX = 16380 };

typedef struct value {
    int at;       /* where the copy starts */
    int count;    /* how often it followed the key */
    int accepted; /* maximum length that may be copied */
} value;

typedef struct key {
    int at; /* position of its ids; 0: none */
    int hits, seen;
    value v[VALUES];
} key;

typedef struct map_slot {
    uint32_t *cell; /* [CELLS]: position of the first n-gram with this hash, 0: none */
    key *key;       /* [KEYS] */
    int hashed;     /* positions below this are in `cell` */
    value *used;    /* the value that this step's draft was copied from */
} map_slot;

typedef struct map {
    ft_ngram p;
    bool values;
    int slots;
    map_slot *slot;
} map;

static uint32_t hash_ids(const int32_t *ids, int n)
{
    uint32_t h = 0;
    for (int i = 0; i < n; i++) h = h * 2654435761u + (uint32_t)ids[i];
    return h;
}

/* Another text: old positions are invalid. */
static void map_begin(void *state, int slot, const int32_t *ids, int n)
{
    map *s = state;
    map_slot *l = &s->slot[slot];
    (void)ids, (void)n;
    memset(l->cell, 0, CELLS * sizeof *l->cell);
    memset(l->key, 0, KEYS * sizeof *l->key);
    l->hashed = 1;
    l->used = NULL;
}

/* Finds an earlier occurrence of the pattern: by hash, or by scanning what is not hashed yet. */
static int map_find(const map *s, const map_slot *l, const int32_t *ids, int n, uint32_t h)
{
    const int N = s->p.n, len = n - 1, at = (int)l->cell[h % CELLS];
    if (at > 0 && at < len - N - s->p.m - 1 && same_ids(ids + at, ids + n - N, N)) return at;
    for (int j = len - N - 1; j >= FT_MAX(1, l->hashed); j--)
        if (same_ids(ids + j, ids + n - N, N)) return j;
    return 0;
}

static void map_insert(const map *s, map_slot *l, const int32_t *ids, int n)
{
    for (const int end = n - 1 - s->p.n - s->p.m - 1; l->hashed < end; l->hashed++) {
        uint32_t *c = &l->cell[hash_ids(ids + l->hashed, s->p.n) % CELLS];
        if (!*c) *c = (uint32_t)l->hashed;
    }
}

static key *map_key(const map *s, map_slot *l, const int32_t *ids, int at, uint32_t h)
{
    key *k = &l->key[h % KEYS];
    if (!k->at || !same_ids(ids + k->at, ids + at, s->p.n)) {
        *k = (key){.at = at};
        for (int i = 0; i < VALUES; i++) k->v[i].accepted = s->p.m;
    }
    k->hits = FT_MIN(k->hits + 1, HITS_MAX);
    return k;
}

/* Counts what followed each occurrence of the key that has a complete continuation. */
static void map_collect(const map *s, key *k, const int32_t *ids, int n)
{
    const int N = s->p.n, m = s->p.m, last = n - 1 - N - m;
    for (int j = FT_MAX(1, k->seen); j <= last; j++) {
        if (!same_ids(ids + j, ids + n - N, N)) continue;
        for (int i = 0; i < VALUES; i++) {
            value *v = &k->v[i];
            if (v->count && !same_ids(ids + v->at, ids + j + N, m)) continue;
            v->at = j + N;
            v->count = FT_MIN(v->count + 1, HITS_MAX);
            break;
        }
    }
    k->seen = FT_MAX(k->seen, last + 1);
}

/* The most frequent continuation, if it is the only one or twice as frequent as all others
 * together. */
static value *map_best(key *k)
{
    int best = 0, sum = 0;
    for (int i = 0; i < VALUES; i++) {
        sum += k->v[i].count;
        if (k->v[i].count > k->v[best].count) best = i;
    }
    const int top = k->v[best].count;
    return top > 0 && top >= 2 * (sum - top) ? &k->v[best] : NULL;
}

static int map_draft(void *state, int slot, const int32_t *ids, int n, int max, int32_t *out)
{
    map *s = state;
    map_slot *l = &s->slot[slot];
    const int N = s->p.n, len = n - 1;
    l->used = NULL;
    if (len < 2 * N + s->p.m) return 0;
    map_insert(s, l, ids, n);
    const uint32_t h = hash_ids(ids + n - N, N);
    const int at = map_find(s, l, ids, n, h);
    if (!at) return 0;
    key *k = map_key(s, l, ids, at, h);
    if (k->hits < s->p.min_hits) return 0;
    value *v = &k->v[0];
    if (s->values) {
        map_collect(s, k, ids, n);
        if (!(v = map_best(k))) return 0;
    } else {
        v->at = at + N;
    }
    l->used = v;
    /* A continuation that was rejected grows again by one id at a time. */
    const int c = FT_MIN(FT_MIN(s->p.m, v->accepted), len - v->at);
    v->accepted = FT_MIN(v->accepted + 1, s->p.m);
    return copy_ids(out, ids + v->at, FT_MIN(c, max));
}

static void map_accept(void *state, int slot, int drafted, int accepted, bool mine)
{
    map_slot *l = &((map *)state)->slot[slot];
    if (!mine || !l->used) return;
    /* If a truncated draft was accepted in full, nothing is known about what follows. */
    if (accepted < drafted) l->used->accepted = accepted;
}

static void map_free(void *state)
{
    map *s = state;
    for (int i = 0; i < s->slots; i++) {
        ft_free(s->slot[i].cell);
        ft_free(s->slot[i].key);
    }
    ft_free(s->slot);
    ft_free(s);
}

ft_ngram_drafter ft_ngram_map(ft_ngram p, int slots, bool values)
{
    map *s = ft_new(map);
    *s = (map){.p = p, .values = values, .slots = slots};
    s->slot = ft_new_n(map_slot, (size_t)slots);
    for (int i = 0; i < slots; i++) {
        s->slot[i].cell = ft_new_n(uint32_t, CELLS);
        s->slot[i].key = ft_new_n(key, KEYS);
        s->slot[i].hashed = 1;
    }
    return (ft_ngram_drafter){
        values ? "ngram-map-k4v" : "ngram-map-k", s, map_begin, map_draft, map_accept, map_free};
}

/* ---- mod ---- */

enum { TABLE = 4194304, FRESH = 32, MISSES = 5 };

typedef struct table {
    ft_ngram_mod p;
    int32_t *next; /* [TABLE]: the id that followed, plus one; 0: none */
    int used;
    int *done;   /* per slot: n-grams that end below this are in the table */
    int *misses; /* per slot: consecutive steps with low acceptance */
} table;

static int32_t *table_cell(const table *s, const int32_t *ids)
{
    uint64_t r = 0;
    for (int i = 0; i < s->p.n_match; i++) r = r * 6364136223846793005u + (uint64_t)ids[i];
    return &s->next[r % TABLE];
}

static void table_clear(table *s)
{
    memset(s->next, 0, TABLE * sizeof *s->next);
    s->used = 0;
}

/* Inserts every n-gram that ends at [*done, n - 1) with the id that follows it. */
static void table_insert(table *s, int *done, const int32_t *ids, int n)
{
    for (int i = FT_MAX(*done, s->p.n_match - 1); i < n - 1; i++) {
        int32_t *c = table_cell(s, ids + i - s->p.n_match + 1);
        s->used += !*c;
        *c = ids[i + 1] + 1;
    }
    *done = n - 1;
}

static void table_begin(void *state, int slot, const int32_t *ids, int n)
{
    table *s = state;
    s->done[slot] = s->misses[slot] = 0;
    table_insert(s, &s->done[slot], ids, n);
    if (s->used > TABLE / 4) table_clear(s);
}

static int table_draft(void *state, int slot, const int32_t *ids, int n, int max, int32_t *out)
{
    table *s = state;
    const int N = s->p.n_match;
    int32_t w[2 * FT_NGRAM_MAX];
    if (n - 1 - s->done[slot] >= FRESH) table_insert(s, &s->done[slot], ids, n);
    if (n < N) return 0;
    copy_ids(w, ids + n - N, N);
    int c = 0;
    for (; c < s->p.n_max; c++) {
        const int32_t next = *table_cell(s, w + c);
        if (!next) break;
        w[N + c] = next - 1;
    }
    return c < s->p.n_min ? 0 : copy_ids(out, w + N, FT_MIN(c, max));
}

static void table_accept(void *state, int slot, int drafted, int accepted, bool mine)
{
    table *s = state;
    if (!mine) return;
    s->misses[slot] = 4 * accepted < drafted ? s->misses[slot] + 1 : 0;
    if (s->misses[slot] < MISSES) return;
    s->misses[slot] = 0;
    table_clear(s);
}

static void table_free(void *state)
{
    table *s = state;
    ft_free(s->next);
    ft_free(s->done);
    ft_free(s->misses);
    ft_free(s);
}

ft_ngram_drafter ft_ngram_table(ft_ngram_mod p, int slots)
{
    table *s = ft_new(table);
    s->p = p;
    s->next = ft_new_n(int32_t, TABLE);
    s->done = ft_new_n(int, (size_t)slots);
    s->misses = ft_new_n(int, (size_t)slots);
    return (ft_ngram_drafter){"ngram-mod", s, table_begin, table_draft, table_accept, table_free};
}
