#include "text/grammar_step.h"

#include "text/grammar.h"

#include "base/mem.h"
#include "base/rng.h"

#include <stdatomic.h>

#define Q_END  0xFFFFFFFFu
#define Q_EXIT 0xFFFFFFFEu

enum { BUCKETS = 1 << 14, MEMO = 1 << 12, SEEN = 1 << 12 };

typedef struct ctx {
    uint32_t at, n; /* pairs, ascending by state */
    uint32_t depth, chain;
} ctx;

typedef struct memo {
    uint32_t a, b, out, age;
} memo;

struct ft_stepper {
    const ft_auto *a;
    ctx *ctx;
    uint32_t n_ctx, cap_ctx;
    ft_place *pair;
    size_t n_pair, cap_pair;
    uint32_t bucket[BUCKETS];
    memo memo[MEMO];
    uint32_t age;         /* of the memo: grows whenever contexts are dropped */
    uint64_t left, total; /* steps: of this mask or token, of the text */
    bool mask;            /* a mask is computed, not a token read */
    const char *limit, *spent;
    atomic_bool stop; /* set by another thread */
    /* one closure */
    uint32_t tick, n_seen;
    uint32_t *place_tick, *place_at; /* [n_state] */
    struct {
        uint32_t tick, state, ctx;
    } seen[SEEN];
    ft_place *todo;
    size_t n_todo, cap_todo;
    uint32_t *rank_ctx; /* [n_rank] pending, 0: none */
    uint32_t *heap;     /* pending ranks, the least first */
    size_t n_heap;
};

static bool spend(ft_stepper *s, uint64_t n)
{
    if (s->spent) return false;
    if (s->left < n || s->total < n) {
        s->spent = s->limit =
            s->left >= n
                ? "the grammar is too costly: over 30000000 steps, and 30000 for each token"
            : s->mask ? "the grammar is too large or ambiguous: over 3000000 steps for one token"
                      : "the grammar is too ambiguous: over 200000 steps to read one token";
        return false;
    }
    if (atomic_load_explicit(&s->stop, memory_order_relaxed)) {
        s->spent = "the computation of a mask was stopped";
        return false;
    }
    s->left -= n;
    s->total -= n;
    return true;
}

void ft_stepper_stop(ft_stepper *s)
{
    atomic_store_explicit(&s->stop, true, memory_order_relaxed);
}

bool ft_stepper_spend(ft_stepper *s, uint64_t n)
{
    return spend(s, n);
}

const char *ft_stepper_spent(const ft_stepper *s)
{
    return s->spent;
}

/* ---- contexts ---- */

static void chain_in(ft_stepper *s, uint32_t id)
{
    const ctx *c = &s->ctx[id];
    uint32_t *b = &s->bucket[ft_fnv1a64(s->pair + c->at, c->n * sizeof *s->pair) & (BUCKETS - 1)];
    s->ctx[id].chain = *b;
    *b = id;
}

/* The pairs at the end of `pair`, from `at`, become a context; they are taken back when it exists.
 */
static uint32_t intern(ft_stepper *s, size_t at)
{
    const uint32_t n = (uint32_t)(s->n_pair - at);
    if (!n) return FT_CTX_NONE;
    const size_t bytes = n * sizeof *s->pair;
    uint32_t i = s->bucket[ft_fnv1a64(s->pair + at, bytes) & (BUCKETS - 1)];
    for (; i; i = s->ctx[i].chain)
        if (s->ctx[i].n == n && !memcmp(s->pair + s->ctx[i].at, s->pair + at, bytes)) {
            s->n_pair = at;
            return i;
        }
    uint32_t depth = 0;
    for (size_t k = at; k < s->n_pair; k++) depth = FT_MAX(depth, s->ctx[s->pair[k].ctx].depth);
    if (depth >= FT_GRAMMAR_NEST_MAX || s->n_ctx >= FT_CTX_MAX ||
        s->n_pair > 8 * (size_t)FT_CTX_MAX) {
        s->limit = depth >= FT_GRAMMAR_NEST_MAX
                       ? "the text would nest more than 1000 rules in each other"
                       : "the grammar is too ambiguous here: more than 262144 contexts";
        s->n_pair = at;
        return FT_CTX_NONE;
    }
    if (s->n_ctx == s->cap_ctx) {
        s->cap_ctx *= 2;
        s->ctx = ft_realloc(s->ctx, s->cap_ctx * sizeof *s->ctx);
    }
    s->ctx[s->n_ctx] = (ctx){.at = (uint32_t)at, .n = n, .depth = depth + 1};
    chain_in(s, s->n_ctx);
    return s->n_ctx++;
}

static void put_pair(ft_stepper *s, ft_place p)
{
    if (s->n_pair == s->cap_pair) {
        s->cap_pair *= 2;
        s->pair = ft_realloc(s->pair, s->cap_pair * sizeof *s->pair);
    }
    s->pair[s->n_pair++] = p;
}

static uint32_t single(ft_stepper *s, uint32_t state, uint32_t c)
{
    if (!c) return FT_CTX_NONE;
    const size_t at = s->n_pair;
    put_pair(s, (ft_place){state, c});
    return intern(s, at);
}

/* All that a or b allow. Pairs with the same state are merged in turn; depth bounds the recursion.
 */
static uint32_t join(ft_stepper *s, uint32_t a, uint32_t b)
{
    if (a == b || !b) return a;
    if (!a) return b;
    if (a > b) {
        const uint32_t t = a;
        a = b, b = t;
    }
    memo *m = &s->memo[(a * 0x9E3779B1u ^ b * 0x85EBCA77u) >> 20];
    if (m->a == a && m->b == b && m->age == s->age) return m->out;
    const ctx x = s->ctx[a], y = s->ctx[b];
    if (!spend(s, x.n + y.n)) return FT_CTX_NONE;
    ft_place few[16], *merged = x.n + y.n <= FT_COUNT(few) ? few : ft_new_n(ft_place, x.n + y.n);
    uint32_t n = 0;
    for (uint32_t i = 0, j = 0; i < x.n || j < y.n;) {
        const ft_place p = i < x.n ? s->pair[x.at + i] : (ft_place){UINT32_MAX, 0};
        const ft_place q = j < y.n ? s->pair[y.at + j] : (ft_place){UINT32_MAX, 0};
        if (i < x.n && j < y.n && p.state == q.state) {
            i++, j++;
            merged[n++] = (ft_place){p.state, p.state < Q_EXIT ? join(s, p.ctx, q.ctx) : 0};
        } else if (j == y.n || (i < x.n && p.state < q.state)) {
            i++;
            merged[n++] = p;
        } else {
            j++;
            merged[n++] = q;
        }
    }
    const size_t at = s->n_pair;
    for (uint32_t i = 0; i < n; i++)
        if (merged[i].ctx || merged[i].state >= Q_EXIT) put_pair(s, merged[i]);
    const uint32_t out = intern(s, at);
    if (merged != few) ft_free(merged);
    *m = (memo){a, b, out, s->age};
    return out;
}

uint32_t ft_stepper_mark(const ft_stepper *s)
{
    return s->n_ctx;
}

void ft_stepper_drop(ft_stepper *s, uint32_t mark)
{
    if (s->n_ctx == mark) return;
    s->age++;
    while (s->n_ctx > mark) {
        const ctx *c = &s->ctx[--s->n_ctx];
        s->bucket[ft_fnv1a64(s->pair + c->at, c->n * sizeof *s->pair) & (BUCKETS - 1)] = c->chain;
        s->n_pair = c->at;
    }
}

ft_stepper *ft_stepper_new(const ft_auto *a)
{
    ft_stepper *s = ft_new(ft_stepper);
    s->a = a;
    s->age = 1;
    s->cap_ctx = 256;
    s->ctx = ft_new_n(ctx, s->cap_ctx);
    s->cap_pair = 256;
    s->pair = ft_new_n(ft_place, s->cap_pair);
    s->place_tick = ft_new_n(uint32_t, a->n_state);
    s->place_at = ft_new_n(uint32_t, a->n_state);
    s->rank_ctx = ft_new_n(uint32_t, a->n_rank);
    s->heap = ft_new_n(uint32_t, a->n_rank);
    s->n_ctx = 1;
    const uint32_t known[] = {Q_END, Q_EXIT};
    for (size_t i = 0; i < FT_COUNT(known); i++) {
        const size_t at = s->n_pair;
        put_pair(s, (ft_place){known[i], 0});
        intern(s, at);
    }
    s->total = FT_STEP_TOTAL;
    ft_stepper_refill(s, true);
    return s;
}

void ft_stepper_free(ft_stepper *s)
{
    if (!s) return;
    ft_free(s->ctx);
    ft_free(s->pair);
    ft_free(s->place_tick);
    ft_free(s->place_at);
    ft_free(s->todo);
    ft_free(s->rank_ctx);
    ft_free(s->heap);
    ft_free(s);
}

const char *ft_stepper_limit(const ft_stepper *s)
{
    return s->limit;
}

void ft_stepper_refill(ft_stepper *s, bool mask)
{
    s->mask = mask;
    s->left = mask ? FT_STEP_MASK : FT_STEP_READ;
}

void ft_stepper_token(ft_stepper *s)
{
    s->total = FT_MIN(s->total + FT_STEP_TOKEN, (uint64_t)FT_STEP_TOTAL);
}

/* ---- closures ---- */

static void begin(ft_stepper *s)
{
    s->n_seen = 0;
    if (++s->tick) return;
    s->tick = 1; /* after 2^32 closures old stamps would look new */
    memset(s->place_tick, 0, s->a->n_state * sizeof *s->place_tick);
    memset(s->seen, 0, sizeof s->seen);
}

static void place_put(ft_places *out, ft_place p)
{
    if (out->n == out->cap) {
        out->cap = out->cap ? out->cap * 2 : 64;
        out->p = ft_realloc(out->p, out->cap * sizeof *out->p);
    }
    out->p[out->n++] = p;
}

/* A state with neither bytes nor calls only ends its rule; nothing can happen there. */
static void merge(ft_stepper *s, ft_places *out, ft_place p)
{
    if (!p.ctx || !(s->a->flags[p.state] & (FT_AUTO_BYTES | FT_AUTO_CALLS))) return;
    if (s->place_tick[p.state] == s->tick) {
        ft_place *have = &out->p[s->place_at[p.state]];
        have->ctx = join(s, have->ctx, p.ctx);
        return;
    }
    s->place_tick[p.state] = s->tick;
    s->place_at[p.state] = (uint32_t)out->n;
    place_put(out, p);
}

/* false: this place was there already in this closure */
static bool first_time(ft_stepper *s, ft_place p)
{
    uint32_t h = (p.state * 0x9E3779B1u ^ p.ctx * 0x85EBCA77u) >> 20;
    for (; s->seen[h].tick == s->tick; h = (h + 1) & (SEEN - 1))
        if (s->seen[h].state == p.state && s->seen[h].ctx == p.ctx) return false;
    if (s->n_seen >= SEEN * 3 / 4) {
        s->limit = "the grammar is too ambiguous here: more than 3072 ways to end rules at once";
        return false;
    }
    s->n_seen++;
    s->seen[h].tick = s->tick;
    s->seen[h].state = p.state;
    s->seen[h].ctx = p.ctx;
    return true;
}

static void later(ft_stepper *s, ft_place p)
{
    if (s->n_todo == s->cap_todo) {
        s->cap_todo = s->cap_todo ? s->cap_todo * 2 : 64;
        s->todo = ft_realloc(s->todo, s->cap_todo * sizeof *s->todo);
    }
    s->todo[s->n_todo++] = p;
}

static void leave(ft_stepper *s, ft_places *out, uint32_t c)
{
    const ctx x = s->ctx[c];
    for (uint32_t i = 0; i < x.n; i++) {
        const ft_place p = s->pair[x.at + i];
        out->end |= p.state == Q_END;
        out->exit |= p.state == Q_EXIT;
        if (p.state < Q_EXIT) later(s, p);
    }
}

/* Ends every rule that may end here, until nothing new turns up. */
static void end_rules(ft_stepper *s, ft_places *out)
{
    while (s->n_todo) {
        const ft_place p = s->todo[--s->n_todo];
        if (!spend(s, 1) || !first_time(s, p)) continue;
        merge(s, out, p);
        if (s->a->flags[p.state] & FT_AUTO_ACCEPT) leave(s, out, p.ctx);
    }
}

static void heap_put(ft_stepper *s, uint32_t rank)
{
    size_t i = s->n_heap++;
    for (; i && s->heap[(i - 1) / 2] > rank; i = (i - 1) / 2) s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = rank;
}

static uint32_t heap_take(ft_stepper *s)
{
    const uint32_t top = s->heap[0], last = s->heap[--s->n_heap];
    size_t i = 0;
    for (size_t c; (c = 2 * i + 1) < s->n_heap; i = c) {
        if (c + 1 < s->n_heap && s->heap[c + 1] < s->heap[c]) c++;
        if (s->heap[c] >= last) break;
        s->heap[i] = s->heap[c];
    }
    s->heap[i] = last;
    return top;
}

static void call_from(ft_stepper *s, ft_place p)
{
    const ft_auto *a = s->a;
    for (uint32_t i = a->call_at[p.state]; i < a->call_at[p.state + 1]; i++) {
        const ft_acall k = a->call[i];
        const uint32_t c = k.ret ? single(s, k.ret, p.ctx) : p.ctx;
        if (!c || !spend(s, 1)) continue;
        if (!s->rank_ctx[k.rank]) heap_put(s, k.rank);
        s->rank_ctx[k.rank] = join(s, s->rank_ctx[k.rank], c);
        if (!s->rank_ctx[k.rank]) s->rank_ctx[k.rank] = c;
    }
}

/* Enters every rule that may begin here, callers before callees, so that each is entered once. */
static void begin_rules(ft_stepper *s, ft_places *out, size_t from)
{
    const size_t n = out->n;
    for (size_t i = from; i < n; i++)
        if (s->a->flags[out->p[i].state] & FT_AUTO_CALLS) call_from(s, out->p[i]);
    while (s->n_heap) {
        const uint32_t rank = heap_take(s);
        const ft_place p = {s->a->start[rank], s->rank_ctx[rank]};
        s->rank_ctx[rank] = 0;
        merge(s, out, p);
        if (s->a->flags[p.state] & FT_AUTO_CALLS) call_from(s, p);
    }
}

/* Only places with bytes are of use from here on. */
static void tidy(const ft_stepper *s, ft_places *out, size_t from)
{
    size_t n = from;
    for (size_t i = from; i < out->n; i++)
        if (out->p[i].ctx && (s->a->flags[out->p[i].state] & FT_AUTO_BYTES))
            out->p[n++] = out->p[i];
    out->n = n;
}

void ft_step_start(ft_stepper *s, ft_places *out)
{
    const size_t from = out->n;
    begin(s);
    later(s, (ft_place){s->a->root, FT_CTX_END});
    end_rules(s, out);
    begin_rules(s, out, from);
    tidy(s, out, from);
}

void ft_step_leave(ft_stepper *s, ft_places *out, uint32_t c)
{
    const size_t from = out->n;
    begin(s);
    leave(s, out, c);
    end_rules(s, out);
    begin_rules(s, out, from);
    tidy(s, out, from);
}

void ft_step_byte(ft_stepper *s, ft_places *out, size_t from, size_t n, uint8_t byte)
{
    const ft_auto *a = s->a;
    const size_t class = a->class_of[byte], first = out->n;
    begin(s);
    out->end = out->exit = false;
    for (size_t i = from; i < from + n; i++) {
        const uint32_t q = a->next[out->p[i].state * (size_t)a->n_class + class];
        if (q) later(s, (ft_place){q, out->p[i].ctx});
    }
    end_rules(s, out);
    begin_rules(s, out, first);
    tidy(s, out, first);
}
