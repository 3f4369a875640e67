#include "text/grammar_auto.h"

#include "text/grammar_nfa.h"

#include "base/mem.h"
#include "base/rng.h"

#include <stdlib.h>

typedef struct vec {
    uint32_t *p;
    size_t n, cap;
} vec;

static void push(vec *v, uint32_t x)
{
    if (v->n == v->cap) {
        v->cap = v->cap ? v->cap * 2 : 64;
        v->p = ft_realloc(v->p, v->cap * sizeof *v->p);
    }
    v->p[v->n++] = x;
}

/* Subset construction: a state is a set of nodes of the graph, kept in `pool`. */
typedef struct maker {
    ft_auto *a;
    const ft_gbnf *g;
    ft_nfa nfa;
    vec pool, at; /* set of state q: pool[at[q] .. at[q + 1]) */
    vec next;     /* the table */
    vec call, ret, call_at;
    uint32_t *slot; /* hash of sets: state, 0 is empty */
    size_t n_slot;
    uint32_t *stamp, tick; /* per node: the last closure that saw it */
    vec set, todo, seed;
    uint32_t *first; /* [rule] first state, 0: not reached */
    vec rules;       /* reached rules, in the order of discovery */
    uint64_t work;
    ft_err *err;
} maker;

static int by_value(const void *a, const void *b)
{
    const uint32_t l = *(const uint32_t *)a, r = *(const uint32_t *)b;
    return l < r ? -1 : l > r;
}

/* m->set = the nodes that matter among all that m->seed reaches without a byte. */
static void close_set(maker *m)
{
    const ft_nfa *n = &m->nfa;
    m->tick++;
    m->set.n = m->todo.n = 0;
    for (size_t i = 0; i < m->seed.n; i++) push(&m->todo, m->seed.p[i]);
    while (m->todo.n) {
        const uint32_t at = m->todo.p[--m->todo.n];
        if (m->stamp[at] == m->tick || !n->live[at]) continue;
        m->stamp[at] = m->tick;
        bool matters = !n->first[at]; /* an end has no edges */
        for (uint32_t e = n->first[at]; e; e = n->edge[e].next) {
            const ft_edge *x = &n->edge[e];
            matters |= x->kind != FT_E_EMPTY;
            if (x->kind == FT_E_EMPTY || (x->kind == FT_E_CALL && n->nullable[x->rule]))
                push(&m->todo, x->to);
            m->work++;
        }
        if (matters) push(&m->set, at);
    }
    if (m->set.n > 1) qsort(m->set.p, m->set.n, sizeof *m->set.p, by_value);
}

static void rehash(maker *m)
{
    ft_free(m->slot);
    m->n_slot = m->n_slot ? m->n_slot * 2 : 1024;
    m->slot = ft_new_n(uint32_t, m->n_slot);
    for (size_t q = 1; q + 1 < m->at.n; q++) {
        const uint32_t from = m->at.p[q], n = m->at.p[q + 1] - from;
        size_t h = ft_fnv1a64(m->pool.p + from, n * sizeof(uint32_t)) & (m->n_slot - 1);
        while (m->slot[h]) h = (h + 1) & (m->n_slot - 1);
        m->slot[h] = (uint32_t)q;
    }
}

/* The state of m->set, made when new; 0 for the empty set. */
static uint32_t state_of(maker *m)
{
    if (!m->set.n) return 0;
    if (m->at.n * 2 >= m->n_slot) rehash(m);
    const size_t bytes = m->set.n * sizeof(uint32_t);
    size_t h = ft_fnv1a64(m->set.p, bytes) & (m->n_slot - 1);
    for (; m->slot[h]; h = (h + 1) & (m->n_slot - 1)) {
        const uint32_t q = m->slot[h], from = m->at.p[q];
        if (m->at.p[q + 1] - from == m->set.n && !memcmp(m->pool.p + from, m->set.p, bytes))
            return q;
    }
    const uint32_t q = (uint32_t)m->at.n - 1;
    m->slot[h] = q;
    for (size_t i = 0; i < m->set.n; i++) push(&m->pool, m->set.p[i]);
    push(&m->at, (uint32_t)m->pool.n);
    m->work += m->set.n;
    return q;
}

static void byte_classes(maker *m)
{
    bool begins[257] = {true};
    for (size_t e = 1; e < m->nfa.n_edge; e++) {
        if (m->nfa.edge[e].kind != FT_E_BYTE) continue;
        begins[m->nfa.edge[e].lo] = true;
        begins[m->nfa.edge[e].hi + 1] = true;
    }
    uint32_t n = 0;
    for (int c = 0; c < 256; c++) {
        n += begins[c];
        m->a->class_of[c] = (uint8_t)(n - 1);
    }
    m->a->n_class = n;
}

/* The successors of state q by every class of bytes. */
static void byte_row(maker *m, uint32_t q, vec *edges)
{
    const ft_nfa *n = &m->nfa;
    edges->n = 0;
    for (uint32_t i = m->at.p[q]; i < m->at.p[q + 1]; i++)
        for (uint32_t e = n->first[m->pool.p[i]]; e; e = n->edge[e].next)
            if (n->edge[e].kind == FT_E_BYTE && n->live[n->edge[e].to]) push(edges, e);
    vec before = {0};
    uint32_t last = 0;
    for (uint32_t c = 0; c < m->a->n_class; c++) {
        m->seed.n = 0;
        for (size_t i = 0; i < edges->n; i++) {
            const ft_edge *x = &n->edge[edges->p[i]];
            if (m->a->class_of[x->lo] <= c && c <= m->a->class_of[x->hi]) push(&m->seed, x->to);
        }
        m->work += edges->n / 8 + 1;
        if (m->seed.n != before.n ||
            (before.n && memcmp(before.p, m->seed.p, before.n * sizeof *before.p))) {
            close_set(m);
            last = state_of(m);
            before.n = 0;
            for (size_t i = 0; i < m->seed.n; i++) push(&before, m->seed.p[i]);
        }
        push(&m->next, m->seed.n ? last : 0);
    }
    ft_free(before.p);
}

static int by_rule(const void *a, const void *b)
{
    const ft_edge *const *l = a, *const *r = b;
    return (*l)->rule < (*r)->rule ? -1 : (*l)->rule > (*r)->rule;
}

/* The calls of state q: for each rule, the state after it. */
static void call_row(maker *m, uint32_t q)
{
    const ft_nfa *n = &m->nfa;
    size_t k = 0, cap = 0;
    const ft_edge **list = NULL;
    for (uint32_t i = m->at.p[q]; i < m->at.p[q + 1]; i++)
        for (uint32_t e = n->first[m->pool.p[i]]; e; e = n->edge[e].next) {
            const ft_edge *x = &n->edge[e];
            if (x->kind != FT_E_CALL || !n->live[x->to] || !n->productive[x->rule]) continue;
            if (k == cap) list = ft_realloc(list, (cap = cap ? cap * 2 : 16) * sizeof *list);
            list[k++] = x;
        }
    if (k > 1) qsort(list, k, sizeof *list, by_rule);
    for (size_t i = 0; i < k;) {
        const uint32_t rule = list[i]->rule;
        m->seed.n = 0;
        for (; i < k && list[i]->rule == rule; i++) push(&m->seed, list[i]->to);
        close_set(m);
        push(&m->call, rule);
        push(&m->ret, state_of(m));
    }
    ft_free(list);
    push(&m->call_at, (uint32_t)m->call.n);
}

static void enter_rule(maker *m, uint32_t rule)
{
    if (m->first[rule]) return;
    m->seed.n = 0;
    push(&m->seed, m->nfa.start[rule]);
    close_set(m);
    m->first[rule] = state_of(m);
    push(&m->rules, rule);
}

static ft_status too_large(maker *m)
{
    const ft_str name = m->g->rule[m->rules.p[m->rules.n - 1]].name;
    return ft_fail(m->err, FT_ELIMIT, "grammar is too large or too ambiguous near rule '%.*s'",
                   (int)FT_MIN(name.n, 60), name.p);
}

static ft_status make_states(maker *m)
{
    vec edges = {0};
    ft_status st = FT_OK;
    enter_rule(m, m->g->root);
    for (uint32_t q = 1; q + 1 < m->at.n && !st; q++) {
        byte_row(m, q, &edges);
        const size_t from = m->call.n;
        call_row(m, q);
        for (size_t i = from; i < m->call.n; i++) enter_rule(m, m->call.p[i]);
        if (m->work > FT_AUTO_WORK_MAX || m->next.n > FT_AUTO_TABLE_MAX ||
            m->pool.n > 4 * FT_AUTO_TABLE_MAX)
            st = too_large(m);
    }
    ft_free(edges.p);
    return st;
}

/* ---- ranks: callers before what they call first; a cycle is left recursion ---- */

typedef struct frame {
    uint32_t rule, call;
} frame;

static ft_status left_recursion(maker *m, uint32_t rule)
{
    const ft_grule *r = &m->g->rule[rule];
    return ft_fail(m->err, FT_EUNSUPPORTED, "grammar rule '%.*s' (line %u) is left recursive",
                   (int)FT_MIN(r->name.n, 60), r->name.p, r->line);
}

static ft_status make_ranks(maker *m, uint32_t *rank)
{
    enum { NEW, OPEN, DONE };
    uint8_t *mark = ft_new_n(uint8_t, m->nfa.n_rule);
    frame *stack = ft_new_n(frame, m->rules.n + 1);
    uint32_t left = (uint32_t)m->rules.n;
    ft_status st = FT_OK;
    for (size_t i = 0; i < m->rules.n && !st; i++) {
        if (mark[m->rules.p[i]] != NEW) continue;
        size_t depth = 0;
        stack[depth++] = (frame){m->rules.p[i], m->call_at.p[m->first[m->rules.p[i]]]};
        mark[m->rules.p[i]] = OPEN;
        while (depth && !st) {
            frame *f = &stack[depth - 1];
            if (f->call == m->call_at.p[m->first[f->rule] + 1]) {
                mark[f->rule] = DONE;
                rank[f->rule] = --left;
                depth--;
                continue;
            }
            const uint32_t callee = m->call.p[f->call++];
            if (mark[callee] == OPEN) st = left_recursion(m, callee);
            if (mark[callee] != NEW) continue;
            mark[callee] = OPEN;
            stack[depth++] = (frame){callee, m->call_at.p[m->first[callee]]};
        }
    }
    ft_free(mark);
    ft_free(stack);
    return st;
}

static void finish(maker *m, const uint32_t *rank)
{
    ft_auto *a = m->a;
    a->n_state = (uint32_t)m->at.n - 1;
    a->flags = ft_new_n(uint8_t, a->n_state);
    for (uint32_t q = 1; q < a->n_state; q++) {
        for (uint32_t i = m->at.p[q]; i < m->at.p[q + 1]; i++)
            if (!m->nfa.first[m->pool.p[i]]) a->flags[q] |= FT_AUTO_ACCEPT;
        for (uint32_t c = 0; c < a->n_class; c++)
            if (m->next.p[(size_t)q * a->n_class + c]) a->flags[q] |= FT_AUTO_BYTES;
        if (m->call_at.p[q] != m->call_at.p[q + 1]) a->flags[q] |= FT_AUTO_CALLS;
    }
    a->call = ft_new_n(ft_acall, m->call.n);
    for (size_t i = 0; i < m->call.n; i++) {
        const uint32_t ret = m->ret.p[i];
        a->call[i] = (ft_acall){rank[m->call.p[i]], a->flags[ret] == FT_AUTO_ACCEPT ? 0 : ret};
    }
    a->n_rank = (uint32_t)m->rules.n;
    a->start = ft_new_n(uint32_t, a->n_rank);
    for (size_t i = 0; i < m->rules.n; i++) a->start[rank[m->rules.p[i]]] = m->first[m->rules.p[i]];
    a->root = m->first[m->g->root];
    a->next = m->next.p;
    a->call_at = m->call_at.p;
    m->next = m->call_at = (vec){0};
}

static ft_status make(maker *m)
{
    ft_status st;
    if ((st = ft_nfa_init(&m->nfa, m->g, m->err))) return st;
    if (!m->nfa.productive[m->g->root])
        return ft_fail(m->err, FT_EUNSUPPORTED, "grammar describes no finite text");
    byte_classes(m);
    m->stamp = ft_new_n(uint32_t, m->nfa.n_node);
    m->first = ft_new_n(uint32_t, m->nfa.n_rule);
    push(&m->at, 0); /* state 0: the empty set */
    push(&m->at, 0);
    for (uint32_t c = 0; c < m->a->n_class; c++) push(&m->next, 0);
    push(&m->call_at, 0);
    push(&m->call_at, 0);
    if ((st = make_states(m))) return st;
    uint32_t *rank = ft_new_n(uint32_t, m->nfa.n_rule);
    if (!(st = make_ranks(m, rank))) finish(m, rank);
    ft_free(rank);
    return st;
}

ft_status ft_auto_init(ft_auto *a, const ft_gbnf *g, ft_err *err)
{
    *a = (ft_auto){0};
    maker m = {.a = a, .g = g, .err = err};
    const ft_status st = make(&m);
    ft_nfa_release(&m.nfa);
    vec *all[] = {&m.pool,    &m.at,  &m.next, &m.call, &m.ret,
                  &m.call_at, &m.set, &m.todo, &m.seed, &m.rules};
    for (size_t i = 0; i < FT_COUNT(all); i++) ft_free(all[i]->p);
    ft_free(m.slot);
    ft_free(m.stamp);
    ft_free(m.first);
    return st;
}

void ft_auto_release(ft_auto *a)
{
    ft_free(a->next);
    ft_free(a->flags);
    ft_free(a->call_at);
    ft_free(a->call);
    ft_free(a->start);
    *a = (ft_auto){0};
}
