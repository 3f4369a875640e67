/* text/merge_tree.c - encodes a piece from left to right, without merging.
 *
 * A list of tokens is the result for its text exactly when every two adjacent tokens, merged alone,
 * give the same two tokens (see merge.c for the proof); we say that they stay apart. So the result
 * is found by backtracking search: take the longest token that the text continues with and that
 * stays apart from the previous token; when there is none, go back and take a shorter one. Every
 * prefix of the text has exactly one result, so a position can be reached by one list only: a
 * position from which the search failed is marked and never tried again. The search leaves each
 * position at most once, so the time is linear in the length.
 *
 * Only "whole" tokens are candidates: those that their own symbols merge into. No other token ever
 * occurs, not even temporarily, because until a token is made no merge has crossed its borders and
 * its symbols were merged as in isolation. For the same reason each whole token is made in one way:
 * from two parts, by a last merge of one rank.
 *
 * Testing whether two tokens stay apart: assume that the parts of every rule are made by rules of
 * lower rank, as BPE training produces them. Then merges happen in rank order, so the rank is a
 * time. Going back in time, the two tokens a|b at a border are replaced by their parts, the one
 * made later first, and only the last part of a and the first part of b are adjacent. A rule for an
 * adjacent pair crosses the border if it applies before either of the two becomes part of a larger
 * token: before the rank that merged the left one, and not after the rank that merged the right one
 * (equal ranks are the same rule, and the left pair is merged first). Otherwise the tokens stay
 * apart. The same procedure decides whether a rule makes a whole token: its parts must be whole and
 * no rule may cross the border between them while they are made.
 *
 * For rules that are not in this order no tree is built. It is enough to check rules whose two
 * parts were found whole: a shortest whole token made out of order has parts made in order, so
 * these are found, and the check of its own rule fails.
 *
 * The texts of the whole tokens form a trie of bytes in one array (a double array): the child of a
 * node for byte c is the cell at base ^ c, if that cell has the label c. No two nodes have the same
 * base, so the label identifies the parent. */
#include "text/merge_tree.h"

#include "base/mem.h"

#include <stdlib.h>

#define NEVER         0xFFFFFFFFu /* time of a token that is not whole, and of a pair without a rule */
#define NEVER_ROUGHLY 0xFFu
#define NO_TOKEN      0xFFFFFFFFu
#define LONGEST       1024 /* bytes of a token: bounds the cost of a failed lookup */
#define LABEL_BITS    9
#define NO_LABEL      0x100u
#define MAX_CELLS     ((uint32_t)1 << (32 - LABEL_BITS))
#define BLOCK         256u /* cells; the children of a node share one */
#define EARLY         1    /* slots per rule, at least */
#define RUN           8    /* minimum bytes of a token that is tried again first */
#define OPEN_BLOCKS   16   /* the last blocks, which are searched for free cells */
#define MEMO_BITS     12   /* log2 of the number of cached pairs: 32 KB */
#define MEMO          ((size_t)1 << MEMO_BITS)
#define TRIAL         4096 /* pairs of a piece after which the hit rate of the cache is checked */

/* How a token is made. Kept in an array of its own, because the test of a border reads only this.
 */
typedef struct origin {
    uint32_t time;        /* 0: a symbol; else 1 + the rank of its last merge */
    uint32_t rough;       /* its time, quantised by roughly() */
    uint32_t left, right; /* its parts */
} origin;

typedef struct token {
    uint32_t len;         /* bytes */
    uint32_t shorter;     /* the longest token that it begins with, or NO_TOKEN */
    uint32_t rules, mask; /* the rules in which it is the left part: pair[rules..rules + mask] */
} token;

typedef struct pair {
    uint32_t right, time;
} pair;

typedef struct cell {
    uint32_t link; /* base of the children (0: none) << LABEL_BITS | label */
    uint32_t token;
} cell;

struct ft_merge_tree {
    origin *origin;
    token *token;
    pair *pair;
    cell *cell;
    uint32_t root; /* its base */
    uint64_t seed;
    /* Per hash slot: the quantised time of the earliest rule. It rules out most adjacent pairs,
     * which have no rule or a late one, without reading the rules, which do not fit in the cache.
     */
    uint8_t *early;
    uint32_t early_mask;
};

/* ---- rules ---- */

static inline uint32_t first_slot(const ft_merge_tree *t, uint32_t right, uint32_t mask)
{
    return (uint32_t)(right * t->seed >> 32) & mask;
}

/* The time at which left and right merge, or NEVER. */
static inline uint32_t time_of(const ft_merge_tree *t, const token *left, uint32_t right)
{
    const pair *p = t->pair + left->rules;
    for (uint32_t i = first_slot(t, right, left->mask);; i = (i + 1) & left->mask) {
        if (p[i].right == right) return p[i].time;
        if (p[i].right == FT_NO_SYM) return NEVER;
    }
}

/* Quantises a time to eight steps per power of two. */
static uint32_t roughly(uint32_t time)
{
    const uint32_t e = 31 - (uint32_t)__builtin_clz(time);
    return e * 8 + ((e < 3 ? time << (3 - e) : time >> (e - 3)) & 7);
}

static inline uint8_t *early_slot(const ft_merge_tree *t, uint32_t left, uint32_t right)
{
    return &t->early[(left * 0x9E3779B1u + right) & t->early_mask];
}

/* true when no rule crosses the border between two whole tokens before both are made. */
static inline bool apart_inside(const ft_merge_tree *t, uint32_t a, uint32_t b)
{
    for (;;) {
        const origin *x = &t->origin[a], *y = &t->origin[b];
        if (!(x->time | y->time)) return true; /* both are symbols */
        const bool left = x->time > y->time;
        const uint32_t limit = left ? x->time : y->time + 1, rough = left ? x->rough : y->rough;
        a = left ? x->right : a;
        b = left ? b : y->left;
        if (*early_slot(t, a, b) <= rough && time_of(t, &t->token[a], b) < limit) return false;
    }
}

/* true when two whole tokens stay apart: as apart_inside, and no rule joins the two themselves. */
static inline bool apart(const ft_merge_tree *t, uint32_t a, uint32_t b)
{
    return time_of(t, &t->token[a], b) == NEVER && apart_inside(t, a, b);
}

/* Builds a hash table of rules per left token: its size is a power of two, at most half full. */
static bool build_pairs(ft_merge_tree *t, const ft_merges *m, uint32_t n_ids)
{
    uint64_t total = 1;
    for (size_t i = 0; i < m->n_slot; i++)
        if (m->slot[i].a != FT_NO_SYM) t->token[m->slot[i].a].mask++;
    for (uint32_t i = 0; i < n_ids; i++) {
        const uint32_t n = t->token[i].mask;
        if (!n) continue; /* pair[0] is the empty table of these */
        uint32_t size = 2;
        while (size < (uint64_t)n * 2) size *= 2;
        t->token[i].rules = (uint32_t)total;
        t->token[i].mask = size - 1;
        total += size;
    }
    if (total > UINT32_MAX || !(t->pair = ft_try_alloc_large(total * sizeof *t->pair)))
        return false;
    for (size_t i = 0; i < total; i++) t->pair[i].right = FT_NO_SYM;
    size_t n_early = 16;
    while (n_early < (size_t)m->n * EARLY) n_early *= 2;
    t->early_mask = (uint32_t)(n_early - 1);
    if (!(t->early = ft_try_alloc_large(n_early))) return false;
    memset(t->early, NEVER_ROUGHLY, n_early);
    for (size_t i = 0; i < m->n_slot; i++) {
        const ft_rule *r = &m->slot[i];
        if (r->a == FT_NO_SYM) continue;
        const token *left = &t->token[r->a];
        pair *p = t->pair + left->rules;
        uint32_t k = first_slot(t, r->b, left->mask);
        while (p[k].right != FT_NO_SYM) k = (k + 1) & left->mask;
        p[k] = (pair){r->b, r->rank + 1};
        uint8_t *early = early_slot(t, r->a, r->b);
        *early = (uint8_t)FT_MIN(*early, roughly(r->rank + 1));
    }
    return true;
}

/* ---- whole tokens ---- */

static bool is_whole(const ft_merge_tree *t, uint32_t id)
{
    return t->origin[id].time != NEVER;
}

/* rule[rank], or NULL where a rank has none. */
static const ft_rule **rules_in_order(const ft_merges *m)
{
    const ft_rule **rule = ft_try_alloc(((size_t)m->n + 1) * sizeof *rule);
    for (size_t i = 0; rule && i < m->n_slot; i++)
        if (m->slot[i].a != FT_NO_SYM) rule[m->slot[i].rank] = &m->slot[i];
    return rule;
}

/* false: rules out of order, or a token is too long. */
static bool find_whole(ft_merge_tree *t, const ft_rule *const *rule, uint32_t n)
{
    for (uint32_t r = 0; r < n; r++) {
        if (!rule[r]) continue;
        const uint32_t a = rule[r]->a, b = rule[r]->b;
        const uint32_t id = rule[r]->id;
        if (is_whole(t, id) || !is_whole(t, a) || !is_whole(t, b) || !apart_inside(t, a, b))
            continue;
        t->origin[id] = (origin){r + 1, roughly(r + 1), a, b};
        t->token[id].len = t->token[a].len + t->token[b].len;
        if (t->token[id].len > LONGEST) return false;
    }
    for (uint32_t r = 0; r < n; r++)
        if (rule[r] && is_whole(t, rule[r]->a) && is_whole(t, rule[r]->b) &&
            (t->origin[rule[r]->a].time > r || t->origin[rule[r]->b].time > r))
            return false;
    return true;
}

/* ---- the tree of bytes ---- */

typedef struct word { /* the text of a whole token */
    uint64_t head;    /* its first bytes as a number, for sorting */
    const unsigned char *p;
    uint32_t len, id;
} word;

typedef struct todo { /* a node whose children are not placed yet */
    uint32_t from, to;
    uint32_t depth, cell, token; /* token: the longest up to here */
} todo;

typedef struct plan {
    ft_merge_tree *t;
    word *word;
    unsigned char *text;
    todo *todo;
    uint64_t *used, *is_base; /* bits */
    uint32_t n_cell, cap_cell;
    uint32_t
        open; /* index of the first group of 64 cells with a free cell; the search starts there */
    size_t n_todo, cap_todo;
} plan;

static int by_text(const void *a, const void *b)
{
    const word *x = a, *y = b;
    if (x->head != y->head) return x->head < y->head ? -1 : 1;
    const int c = memcmp(x->p, y->p, FT_MIN(x->len, y->len));
    return c ? c : (x->len > y->len) - (x->len < y->len);
}

static word word_of(const unsigned char *p, uint32_t len, uint32_t id)
{
    word w = {0, p, len, id};
    for (uint32_t i = 0; i < 8; i++) w.head = w.head << 8 | (i < len ? p[i] : 0);
    return w;
}

/* Collects the texts of the whole tokens, parts before the tokens made of them, and sorts them. */
static uint32_t collect_words(plan *b, const ft_base_sym *sym, size_t n_sym,
                              const ft_rule *const *rule, uint32_t n, uint32_t n_ids)
{
    const token *of = b->t->token;
    size_t bytes = 0;
    for (uint32_t i = 0; i < n_ids; i++) bytes += is_whole(b->t, i) ? of[i].len : 0;
    b->text = ft_try_alloc(bytes + 1);
    b->word = ft_try_alloc(((size_t)n_ids + 1) * sizeof *b->word);
    const unsigned char **at = ft_try_alloc(((size_t)n_ids + 1) * sizeof *at);
    uint32_t k = 0;
    unsigned char *p = b->text;
    if (!b->text || !b->word || !at) goto done;
    for (size_t i = 0; i < n_sym; i++) {
        if (at[sym[i].id]) continue;
        at[sym[i].id] = p;
        memcpy(p, sym[i].bytes.p, sym[i].bytes.n);
        p += sym[i].bytes.n;
    }
    for (uint32_t r = 0; r < n; r++) {
        if (!rule[r] || b->t->origin[rule[r]->id].time != r + 1) continue;
        const uint32_t left = rule[r]->a, right = rule[r]->b;
        at[rule[r]->id] = p;
        memcpy(p, at[left], of[left].len);
        memcpy(p + of[left].len, at[right], of[right].len);
        p += of[rule[r]->id].len;
    }
    for (uint32_t i = 0; i < n_ids; i++)
        if (is_whole(b->t, i)) b->word[k++] = word_of(at[i], of[i].len, i);
    qsort(b->word, k, sizeof *b->word, by_text);
done:
    ft_free(at);
    return k;
}

static inline bool bit(const uint64_t *set, size_t i)
{
    return set[i / 64] >> i % 64 & 1;
}

static inline void set_bit(uint64_t *set, size_t i)
{
    set[i / 64] |= (uint64_t)1 << i % 64;
}

static void add_block(plan *b)
{
    if (b->n_cell == b->cap_cell) {
        const size_t old = b->cap_cell, cap = old ? old * 2 : 64 * BLOCK;
        b->t->cell = ft_realloc(b->t->cell, cap * sizeof *b->t->cell);
        b->used = ft_realloc(b->used, cap / 8);
        b->is_base = ft_realloc(b->is_base, cap / 8);
        memset(b->used + old / 64, 0, (cap - old) / 8);
        memset(b->is_base + old / 64, 0, (cap - old) / 8);
        b->cap_cell = (uint32_t)cap;
    }
    for (uint32_t i = 0; i < BLOCK; i++) b->t->cell[b->n_cell++] = (cell){NO_LABEL, NO_TOKEN};
}

static bool base_fits(const plan *b, uint32_t base, const unsigned char *label, unsigned n)
{
    if (base == 0 || bit(b->is_base, base)) return false; /* 0 means: no children */
    for (unsigned i = 0; i < n; i++)
        if (bit(b->used, base ^ label[i])) return false;
    return true;
}

/* A base whose cells for all labels are free. */
static uint32_t find_base(plan *b, const unsigned char *label, unsigned n)
{
    const uint32_t window = OPEN_BLOCKS * BLOCK;
    if (b->n_cell > window) b->open = FT_MAX(b->open, (b->n_cell - window) / 64);
    while (b->open < b->n_cell / 64 && !~b->used[b->open]) b->open++;
    for (uint32_t i = b->open; i < b->n_cell / 64; i++)
        for (uint64_t free = ~b->used[i]; free; free &= free - 1) {
            const uint32_t at = i * 64 + (uint32_t)__builtin_ctzll(free), base = at ^ label[0];
            if (base_fits(b, base, label, n)) return base;
        }
    const uint32_t base = b->n_cell ? b->n_cell : 1;
    add_block(b);
    return base;
}

static void push_todo(plan *b, todo d)
{
    if (b->n_todo == b->cap_todo) {
        b->cap_todo = b->cap_todo ? b->cap_todo * 2 : 4096;
        b->todo = ft_realloc(b->todo, b->cap_todo * sizeof *b->todo);
    }
    b->todo[b->n_todo++] = d;
}

/* Places the children of a node; those that have children join the queue. Returns the base. */
static uint32_t place_children(plan *b, todo d)
{
    unsigned char label[256];
    uint32_t start[257];
    unsigned n = 0;
    if (b->word[d.from].len == d.depth) d.from++; /* the node's own token */
    for (uint32_t i = d.from; i < d.to; i++) {
        const unsigned char c = b->word[i].p[d.depth];
        if (n && label[n - 1] == c) continue;
        start[n] = i;
        label[n++] = c;
    }
    start[n] = d.to;
    const uint32_t base = find_base(b, label, n);
    set_bit(b->is_base, base);
    for (unsigned i = 0; i < n; i++) {
        const uint32_t at = base ^ label[i];
        const word *w = &b->word[start[i]];
        todo child = {start[i], start[i + 1], d.depth + 1, at, d.token};
        set_bit(b->used, at);
        b->t->cell[at] = (cell){label[i], NO_TOKEN};
        if (w->len == child.depth) {
            b->t->token[w->id].shorter = d.token;
            b->t->cell[at].token = child.token = w->id;
        }
        if (start[i + 1] - start[i] > (w->len == child.depth)) push_todo(b, child);
    }
    return base;
}

/* Places nodes level by level, so that the nodes near the root, which every lookup visits, are
 * close together in memory. */
static bool build_cells(plan *b, uint32_t n_word)
{
    add_block(b);
    b->t->root = place_children(b, (todo){0, n_word, 0, 0, NO_TOKEN});
    for (size_t i = 0; i < b->n_todo; i++) {
        const todo d = b->todo[i];
        const uint32_t base = place_children(b, d);
        if (b->n_cell >= MAX_CELLS - BLOCK) return false;
        b->t->cell[d.cell].link |= base << LABEL_BITS;
    }
    cell *grown = b->t->cell;
    const size_t bytes = b->n_cell * sizeof *grown;
    cell *packed = ft_try_alloc_large(bytes);
    if (!packed) return false;
    b->t->cell = memcpy(packed, grown, bytes);
    ft_free(grown);
    return true;
}

ft_merge_tree *ft_merge_tree_new(const ft_merges *m, const ft_base_sym *sym, size_t n_sym,
                                 uint32_t n_ids)
{
    ft_merge_tree *t = ft_new(ft_merge_tree);
    const ft_rule **rule = rules_in_order(m);
    plan b = {.t = t};
    bool ok = false;
    t->seed = m->seed;
    t->token = ft_try_alloc_large(((size_t)n_ids + 1) * sizeof *t->token);
    t->origin = ft_try_alloc_large(((size_t)n_ids + 1) * sizeof *t->origin);
    if (!n_sym || !rule || !t->token || !t->origin || !build_pairs(t, m, n_ids)) goto done;
    for (uint32_t i = 0; i < n_ids; i++) t->origin[i].time = NEVER;
    for (size_t i = 0; i < n_sym; i++) {
        t->origin[sym[i].id].time = 0;
        t->token[sym[i].id].len = (uint32_t)sym[i].bytes.n;
    }
    if (!find_whole(t, rule, m->n)) goto done;
    const uint32_t n_word = collect_words(&b, sym, n_sym, rule, m->n, n_ids);
    ok = n_word && build_cells(&b, n_word);
done:
    ft_free(rule);
    ft_free(b.word);
    ft_free(b.text);
    ft_free(b.todo);
    ft_free(b.used);
    ft_free(b.is_base);
    if (ok) return t;
    ft_merge_tree_free(t);
    return NULL;
}

void ft_merge_tree_free(ft_merge_tree *t)
{
    if (!t) return;
    ft_free(t->token);
    ft_free(t->origin);
    ft_free(t->pair);
    ft_free(t->early);
    ft_free(t->cell);
    ft_free(t);
}

/* ---- encoding ---- */

typedef struct match {
    uint32_t id, len;
} match;

/* The longest token that the text begins with. */
static inline match longest(const ft_merge_tree *t, const char *p, const char *end)
{
    match best = {NO_TOKEN, 0};
    uint32_t base = t->root;
    for (uint32_t len = 1; p < end; p++, len++) {
        const uint32_t c = (unsigned char)*p;
        const cell at = t->cell[base ^ c];
        if ((at.link & (((uint32_t)1 << LABEL_BITS) - 1)) != c) break;
        if (at.token != NO_TOKEN) best = (match){at.token, len};
        base = at.link >> LABEL_BITS;
        if (!base) break;
    }
    return best;
}

static void prepare_work(ft_tree_work *w, size_t n)
{
    if (n > w->cap) {
        ft_tree_work_release(w);
        w->cap = FT_MAX(n, (size_t)1024);
        w->id = ft_new_n(uint32_t, w->cap);
        w->spare = ft_new_n(uint16_t, w->cap);
        w->dead = ft_new_n(uint64_t, w->cap / 64 + 1);
        w->memo = ft_new_n(uint64_t, MEMO);
        memset(w->memo, 0xFF, MEMO * sizeof *w->memo); /* no pair */
    }
    memset(w->dead, 0, (n / 64 + 1) * sizeof *w->dead);
    w->n_asked = n < TRIAL ? TRIAL : 0;
    w->n_known = 0;
}

/* apart_inside with a cache. Pairs repeat in natural text but not in random letters: when most of
 * the first pairs of a piece miss, the cache is not used for the rest of it. */
static inline bool apart_inside_cached(const ft_merge_tree *t, ft_tree_work *w, uint32_t a,
                                       uint32_t b)
{
    if (w->n_asked == TRIAL && w->n_known < TRIAL / 4) return apart_inside(t, a, b);
    const uint64_t key = (uint64_t)a << 32 | b;
    uint64_t *m = &w->memo[(a * 0x9E3779B1u + b * 0x85EBCA6Bu) >> (32 - MEMO_BITS)];
    const bool known = *m >> 1 == key;
    if (w->n_asked < TRIAL) {
        w->n_asked++;
        w->n_known += known;
    }
    if (!known) *m = key << 1 | apart_inside(t, a, b);
    return *m & 1;
}

/* true when the n-th token of the list stays apart from the token `next` after it. A rule that
 * joins the two would make a token that begins where the n-th does, so the rules are searched only
 * when the trie reaches that far from there. */
static inline bool stays_apart(const ft_merge_tree *t, ft_tree_work *w, size_t n, match next)
{
    if (next.len <= w->spare[n]) return apart(t, w->id[n], next.id);
    return apart_inside_cached(t, w, w->id[n], next.id);
}

/* In a long run of one character the result is mostly one token repeated, and not the longest one:
 * true when `last` should be tried before all others. */
static bool repeats(const ft_merge_tree *t, const ft_tree_work *w, ft_str s, size_t at, match last)
{
    const size_t len = last.len;
    return s.n - at >= len && !bit(w->dead, at + len) && !memcmp(s.p + at - len, s.p + at, len) &&
           apart(t, last.id, last.id);
}

size_t ft_merge_tree_encode(const ft_merge_tree *t, ft_tree_work *w, ft_str s)
{
    if (!s.n) return 0;
    prepare_work(w, s.n);
    size_t n = 0, at = 0;
    match m = longest(t, s.p, s.p + s.n);
    uint32_t reach = m.len; /* of the tree, from here */
    while (m.id != NO_TOKEN) {
        if (!bit(w->dead, at + m.len) && (!n || stays_apart(t, w, n - 1, m))) {
            w->id[n] = m.id;
            w->spare[n++] = (uint16_t)(reach - m.len);
            at += m.len;
            if (at == s.n) return n;
            if (m.len >= RUN && repeats(t, w, s, at, m)) {
                reach = LONGEST;
                continue;
            }
            m = longest(t, s.p + at, s.p + s.n);
            reach = m.len;
            continue;
        }
        m.id = t->token[m.id].shorter;
        while (m.id == NO_TOKEN && n) { /* no token fits here: go back */
            set_bit(w->dead, at);
            m.id = w->id[--n];
            m.len = t->token[m.id].len;
            reach = w->spare[n] + m.len;
            at -= m.len;
            /* A token that was tried first: the longer ones have not been tried yet. */
            m.id = reach == LONGEST ? longest(t, s.p + at, s.p + s.n).id : t->token[m.id].shorter;
        }
        if (m.id != NO_TOKEN) m.len = t->token[m.id].len;
    }
    return 0; /* the text has a character that is not a symbol */
}

void ft_tree_work_release(ft_tree_work *w)
{
    ft_free(w->id);
    ft_free(w->spare);
    ft_free(w->dead);
    ft_free(w->memo);
    *w = (ft_tree_work){0};
}
