#include "text/grammar_nfa.h"

#include "text/grammar_auto.h"

#include "base/mem.h"
#include "base/utf8.h"

/* A rule of at most this many pieces is copied into its callers. A rule with a loop stays a rule
 * unless it is tiny: its states are then shared, and so are the token masks computed for them. */
enum { COPY_MAX = 200, COPY_TIMES_MAX = 2000, COPY_LOOP_MAX = 6, DEPTH_MAX = 3000 };

typedef struct shape {
    uint64_t size;
    bool loop, recursive, known, busy;
    bool keep; /* repeated so often that copies would be too many */
} shape;

typedef struct builder {
    const ft_gbnf *g;
    ft_nfa *n;
    shape *rule;
    int depth;
    bool full;
} builder;

static uint32_t add_node(builder *b)
{
    ft_nfa *n = b->n;
    if (n->n_node >= FT_AUTO_NFA_MAX) {
        b->full = true;
        return 0;
    }
    if (n->n_node == n->cap_node) {
        n->cap_node = n->cap_node ? n->cap_node * 2 : 256;
        n->first = ft_realloc(n->first, n->cap_node * sizeof *n->first);
    }
    n->first[n->n_node] = 0;
    return (uint32_t)n->n_node++;
}

static void add_edge(builder *b, uint32_t from, ft_edge e)
{
    ft_nfa *n = b->n;
    if (n->n_edge >= 3 * (size_t)FT_AUTO_NFA_MAX) b->full = true;
    if (b->full) return;
    if (n->n_edge == n->cap_edge) {
        n->cap_edge = n->cap_edge ? n->cap_edge * 2 : 256;
        n->edge = ft_realloc(n->edge, n->cap_edge * sizeof *n->edge);
    }
    e.next = n->first[from];
    n->edge[n->n_edge] = e;
    n->first[from] = (uint32_t)n->n_edge++;
}

static void empty_edge(builder *b, uint32_t from, uint32_t to)
{
    add_edge(b, from, (ft_edge){.kind = FT_E_EMPTY, .to = to});
}

static void byte_edge(builder *b, uint32_t from, uint32_t to, unsigned lo, unsigned hi)
{
    add_edge(b, from, (ft_edge){.kind = FT_E_BYTE, .to = to, .lo = (uint8_t)lo, .hi = (uint8_t)hi});
}

/* ---- characters as bytes ---- */

typedef struct tails {
    uint32_t
        node[4]; /* node[k]: k more continuation bytes of any value, then the end; made on demand */
} tails;

static uint32_t tail(builder *b, tails *t, int k)
{
    if (!t->node[k]) {
        t->node[k] = add_node(b);
        if (!b->full) byte_edge(b, t->node[k], tail(b, t, k - 1), 0x80, 0xBF);
    }
    return t->node[k];
}

/* Bytes i.. of characters lo..hi, which are n bytes long and share the bytes before i. */
static void span(builder *b, tails *t, uint32_t from, const unsigned char *lo,
                 const unsigned char *hi, int i, int n)
{
    if (b->full) return;
    if (i == n - 1) {
        byte_edge(b, from, t->node[0], lo[i], hi[i]);
        return;
    }
    bool low = true, high = true; /* the rest of lo is all 80, of hi all BF */
    for (int k = i + 1; k < n; k++) {
        low &= lo[k] == 0x80;
        high &= hi[k] == 0xBF;
    }
    static const unsigned char least[4] = {0, 0x80, 0x80, 0x80}, most[4] = {0, 0xBF, 0xBF, 0xBF};
    unsigned a = lo[i], z = hi[i];
    if (a == z && !(low && high)) {
        const uint32_t mid = add_node(b);
        if (b->full) return;
        byte_edge(b, from, mid, a, a);
        span(b, t, mid, lo, hi, i + 1, n);
        return;
    }
    if (!low) {
        unsigned char to[4];
        memcpy(to, lo, 4);
        memcpy(to + i + 1, most + 1, (size_t)(n - i - 1));
        const uint32_t mid = add_node(b);
        if (b->full) return;
        byte_edge(b, from, mid, a, a);
        span(b, t, mid, lo, to, i + 1, n);
        a++;
    }
    if (!high) {
        unsigned char to[4];
        memcpy(to, hi, 4);
        memcpy(to + i + 1, least + 1, (size_t)(n - i - 1));
        const uint32_t mid = add_node(b);
        if (b->full) return;
        byte_edge(b, from, mid, z, z);
        span(b, t, mid, to, hi, i + 1, n);
        z--;
    }
    if (a <= z) byte_edge(b, from, tail(b, t, n - i - 1), a, z);
}

static void build_class(builder *b, const ft_gnode *c, uint32_t from, uint32_t to)
{
    static const ft_grange part[] = {
        {0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, 0x10FFFF}};
    tails t = {{to}};
    for (uint32_t i = 0; i < c->n; i++) {
        const ft_grange r = b->g->range[c->at + i];
        for (size_t k = 0; k < FT_COUNT(part); k++) {
            const uint32_t lo = FT_MAX(r.lo, part[k].lo), hi = FT_MIN(r.hi, part[k].hi);
            if (lo > hi) continue;
            char x[4] = {0}, y[4] = {0};
            const int n = ft_utf8_encode(lo, x);
            ft_utf8_encode(hi, y);
            span(b, &t, from, (unsigned char *)x, (unsigned char *)y, 0, n);
        }
    }
}

/* ---- trees as graphs ---- */

static void build(builder *b, uint32_t at, uint32_t from, uint32_t to);

static bool copied(const builder *b, uint32_t rule)
{
    const shape *s = &b->rule[rule];
    return !s->recursive && !s->keep && s->size <= (s->loop ? COPY_LOOP_MAX : COPY_MAX);
}

static void build_bytes(builder *b, const ft_gnode *c, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < c->n && !b->full; i++) {
        const unsigned char v = (unsigned char)b->g->byte[c->at + i];
        const uint32_t next = i + 1 == c->n ? to : add_node(b);
        if (!b->full) byte_edge(b, from, next, v, v);
        from = next;
    }
}

/* x{m,n}: m copies, then n - m that may be left by an empty edge, or one that loops. */
static void build_repeat(builder *b, const ft_gnode *c, uint32_t from, uint32_t to)
{
    const uint32_t min = c->min, max = c->max, child = c->first;
    for (uint32_t i = 0; i < min && !b->full; i++) {
        const uint32_t next = add_node(b);
        if (!b->full) build(b, child, from, next);
        from = next;
    }
    if (b->full) return;
    if (max == UINT32_MAX) {
        const uint32_t loop = add_node(b), back = add_node(b);
        if (b->full) return;
        empty_edge(b, from, loop);
        build(b, child, loop, back);
        empty_edge(b, back, loop);
        empty_edge(b, loop, to);
        return;
    }
    for (uint32_t i = min; i < max && !b->full; i++) {
        const uint32_t next = add_node(b);
        empty_edge(b, from, to);
        if (!b->full) build(b, child, from, next);
        from = next;
    }
    if (!b->full) empty_edge(b, from, to);
}

static void build(builder *b, uint32_t at, uint32_t from, uint32_t to)
{
    const ft_gnode *c = &b->g->node[at];
    if (b->full) return;
    switch (c->kind) {
    case FT_G_EMPTY: empty_edge(b, from, to); break;
    case FT_G_BYTES: build_bytes(b, c, from, to); break;
    case FT_G_CLASS: build_class(b, c, from, to); break;
    case FT_G_RULE:
        if (copied(b, c->at))
            build(b, b->g->rule[c->at].body, from, to);
        else
            add_edge(b, from, (ft_edge){.kind = FT_E_CALL, .to = to, .rule = c->at});
        break;
    case FT_G_SEQ:
        for (uint32_t k = c->first; k && !b->full; k = b->g->node[k].next) {
            const uint32_t next = b->g->node[k].next ? add_node(b) : to;
            if (!b->full) build(b, k, from, next);
            from = next;
        }
        if (!c->first) empty_edge(b, from, to);
        break;
    case FT_G_ALT:
        for (uint32_t k = c->first; k && !b->full; k = b->g->node[k].next) {
            /* its own first node: a loop at the start of one branch must not lead into the others
             */
            const uint32_t own = add_node(b);
            if (b->full) break;
            empty_edge(b, from, own);
            build(b, k, own, to);
        }
        break;
    case FT_G_REPEAT: build_repeat(b, c, from, to); break;
    }
}

/* ---- sizes, to decide what is copied ---- */

#define SIZE_CAP ((uint64_t)1 << 40)

static shape measure(builder *b, uint32_t at);

/* Following calls depth first, every cycle has a rule that calls one which is still being measured.
 * That rule is never copied, so copying ends. */
static shape measure_rule(builder *b, uint32_t rule)
{
    shape *s = &b->rule[rule];
    if (s->known) return *s;
    if (s->busy || b->depth > DEPTH_MAX) return (shape){.size = SIZE_CAP, .recursive = true};
    s->busy = true;
    shape got = measure(b, b->g->rule[rule].body);
    got.known = true;
    got.keep = s->keep;
    *s = got;
    return got;
}

static shape measure(builder *b, uint32_t at)
{
    const ft_gnode *c = &b->g->node[at];
    shape sum = {.size = 1};
    if (c->kind == FT_G_BYTES) sum.size = c->n;
    if (c->kind == FT_G_CLASS) sum.size = 1 + 2 * (uint64_t)c->n;
    if (c->kind == FT_G_RULE) {
        b->depth++;
        sum = measure_rule(b, c->at);
        b->depth--;
        return copied(b, c->at) ? sum : (shape){.size = 1};
    }
    if (b->depth > DEPTH_MAX) return (shape){.size = SIZE_CAP, .recursive = true};
    b->depth++;
    for (uint32_t k = c->first; k; k = b->g->node[k].next) {
        const shape s = measure(b, k);
        sum.size += s.size;
        sum.loop |= s.loop;
        sum.recursive |= s.recursive;
    }
    b->depth--;
    if (c->kind == FT_G_REPEAT) {
        sum.loop |= c->max == UINT32_MAX;
        sum.size *= c->max == UINT32_MAX ? c->min + 1 : FT_MAX(c->max, 1);
    }
    sum.size = FT_MIN(sum.size, SIZE_CAP);
    return sum;
}

/* ---- what can end, and what can end without a byte ---- */

static bool reaches(const ft_nfa *n, const uint8_t *mark, const uint8_t *rule, uint32_t node,
                    bool bytes)
{
    for (uint32_t e = n->first[node]; e; e = n->edge[e].next) {
        const ft_edge *x = &n->edge[e];
        if (!mark[x->to]) continue;
        if (x->kind == FT_E_EMPTY || (x->kind == FT_E_BYTE && bytes)) return true;
        if (x->kind == FT_E_CALL && rule[x->rule]) return true;
    }
    return false;
}

/* Marks the nodes from which the end of their rule can be reached, and the rules that begin in one.
 */
static ft_status mark_ends(ft_nfa *n, uint8_t *mark, uint8_t *rule, bool bytes, ft_err *err)
{
    for (size_t r = 0; r < n->n_rule; r++)
        if (n->start[r]) mark[n->end[r]] = 1;
    uint64_t work = 0;
    for (bool more = true; more;) {
        more = false;
        for (size_t i = n->n_node; i-- > 1;)
            if (!mark[i] && reaches(n, mark, rule, (uint32_t)i, bytes)) mark[i] = 1, more = true;
        for (size_t r = 0; r < n->n_rule; r++)
            if (n->start[r] && mark[n->start[r]]) rule[r] = 1;
        if ((work += n->n_edge) > FT_AUTO_WORK_MAX)
            return ft_fail(err, FT_ELIMIT, "grammar needs more than %d steps to build",
                           FT_AUTO_WORK_MAX);
    }
    return FT_OK;
}

ft_status ft_nfa_init(ft_nfa *n, const ft_gbnf *g, ft_err *err)
{
    *n = (ft_nfa){.n_rule = g->n_rule};
    n->start = ft_new_n(uint32_t, g->n_rule);
    n->end = ft_new_n(uint32_t, g->n_rule);
    n->nullable = ft_new_n(uint8_t, g->n_rule);
    n->productive = ft_new_n(uint8_t, g->n_rule);
    builder b = {.g = g, .n = n, .rule = ft_new_n(shape, g->n_rule)};
    add_node(&b);
    n->cap_edge = 64;
    n->edge = ft_new_n(ft_edge, n->cap_edge);
    n->n_edge = 1;
    for (size_t i = 1; i < g->n_node; i++) {
        const ft_gnode *c = &g->node[i];
        const uint32_t times = c->max == UINT32_MAX ? c->min : c->max;
        if (c->kind == FT_G_REPEAT && times > COPY_TIMES_MAX && g->node[c->first].kind == FT_G_RULE)
            b.rule[g->node[c->first].at].keep = true;
    }
    measure_rule(&b, g->root);
    for (uint32_t r = 0; r < g->n_rule; r++) measure_rule(&b, r);
    for (uint32_t r = 0; r < g->n_rule && !b.full; r++) {
        if (r != g->root && copied(&b, r)) continue;
        n->start[r] = add_node(&b);
        n->end[r] = add_node(&b);
        if (!b.full) build(&b, g->rule[r].body, n->start[r], n->end[r]);
        if (b.full)
            ft_fail(err, FT_ELIMIT, "grammar rule '%.*s' brings the grammar to more than %d pieces",
                    (int)FT_MIN(g->rule[r].name.n, 60), g->rule[r].name.p, FT_AUTO_NFA_MAX);
    }
    ft_free(b.rule);
    if (b.full) return FT_ELIMIT;
    n->live = ft_new_n(uint8_t, n->n_node);
    n->skip = ft_new_n(uint8_t, n->n_node);
    ft_status st;
    if ((st = mark_ends(n, n->live, n->productive, true, err))) return st;
    return mark_ends(n, n->skip, n->nullable, false, err);
}

void ft_nfa_release(ft_nfa *n)
{
    ft_free(n->first);
    ft_free(n->live);
    ft_free(n->skip);
    ft_free(n->edge);
    ft_free(n->start);
    ft_free(n->end);
    ft_free(n->nullable);
    ft_free(n->productive);
    *n = (ft_nfa){0};
}
