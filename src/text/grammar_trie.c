#define _GNU_SOURCE
#include "text/grammar_trie.h"

#include "base/mem.h"

#include <stdlib.h>

typedef struct entry {
    ft_str s;
    int32_t id;
} entry;

static int by_bytes(const void *a, const void *b)
{
    const entry *l = a, *r = b;
    const int c = memcmp(l->s.p, r->s.p, FT_MIN(l->s.n, r->s.n));
    if (c) return c;
    if (l->s.n != r->s.n) return l->s.n < r->s.n ? -1 : 1;
    return l->id < r->id ? -1 : 1;
}

static size_t common(ft_str a, ft_str b)
{
    size_t n = 0;
    while (n < a.n && n < b.n && a.p[n] == b.p[n]) n++;
    return n;
}

static void lay_out(ft_trie *t, const entry *e, size_t n)
{
    uint32_t path[FT_TRIE_DEPTH_MAX + 1] = {0};
    size_t depth = 0;
    t->n = 1;
    t->token[0] = FT_TRIE_NONE;
    for (size_t i = 0; i < n; i++) {
        const ft_str s = e[i].s;
        const size_t keep = i ? common(s, e[i - 1].s) : 0;
        for (; depth > keep; depth--) t->end[path[depth]] = t->n;
        for (; depth < s.n; depth++) {
            const uint32_t at = t->n++;
            t->byte[at] = (uint8_t)s.p[depth];
            t->token[at] = FT_TRIE_NONE;
            t->above[at] = path[depth];
            path[depth + 1] = at;
        }
        const uint32_t at = path[depth];
        t->of[e[i].id] = at;
        if (t->token[at] == FT_TRIE_NONE)
            t->token[at] = e[i].id;
        else
            t->twin[e[i - 1].id] = e[i].id;
    }
    for (; depth; depth--) t->end[path[depth]] = t->n;
    t->end[0] = t->n;
}

ft_trie *ft_trie_new(const ft_token_source *v)
{
    ft_trie *t = ft_new(ft_trie);
    const size_t V = (size_t)v->n;
    t->V = v->n;
    entry *e = ft_new_n(entry, V);
    t->twin = ft_new_n(int32_t, V);
    t->of = ft_new_n(uint32_t, V);
    t->eog = ft_new_n(int32_t, V);
    t->is_eog = ft_new_n(uint8_t, V);
    size_t n = 0, nodes = 1;
    for (int32_t id = 0; id < v->n; id++) {
        t->twin[id] = FT_TRIE_NONE;
        if (v->is_eog && v->is_eog(v->user, id)) {
            t->is_eog[id] = 1;
            t->eog[t->n_eog++] = id;
            continue;
        }
        const ft_str s = v->bytes(v->user, id);
        if (s.n && s.n <= FT_TRIE_DEPTH_MAX) e[n++] = (entry){s, id};
    }
    if (n) qsort(e, n, sizeof *e, by_bytes);
    for (size_t i = 0; i < n; i++) nodes += e[i].s.n - (i ? common(e[i].s, e[i - 1].s) : 0);
    t->byte = ft_new_n(uint8_t, nodes);
    t->end = ft_new_n(uint32_t, nodes);
    t->token = ft_new_n(int32_t, nodes);
    t->above = ft_new_n(uint32_t, nodes);
    lay_out(t, e, n);
    ft_free(e);
    return t;
}

void ft_trie_free(ft_trie *t)
{
    if (!t) return;
    ft_free(t->byte);
    ft_free(t->end);
    ft_free(t->token);
    ft_free(t->twin);
    ft_free(t->of);
    ft_free(t->above);
    ft_free(t->eog);
    ft_free(t->is_eog);
    ft_free(t);
}

size_t ft_trie_nodes(const ft_trie *t)
{
    return t->n;
}
