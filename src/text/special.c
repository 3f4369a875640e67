/* text/special.c - finds special tokens in a text.
 * The longest token at the leftmost position is the next match unless a longer one begins inside
 * it. In that case the whole range of overlapping tokens is resolved by the definition. */
#include "text/special.h"

#include "base/mem.h"

#include <stdlib.h>

static int by_text(const void *a, const void *b)
{
    const ft_str x = ((const ft_special_token *)a)->text, y = ((const ft_special_token *)b)->text;
    const int c = memcmp(x.p, y.p, FT_MIN(x.n, y.n));
    return c ? c : (x.n > y.n) - (x.n < y.n);
}

void ft_special_init(ft_special *s, ft_special_token *take, size_t n)
{
    *s = (ft_special){.token = take, .n = n};
    if (n) qsort(take, n, sizeof *take, by_text);
    size_t k = 0;
    for (unsigned b = 0; b < 256; b++) {
        s->first[b] = (uint32_t)k;
        for (; k < n && (unsigned char)take[k].text.p[0] == b; k++)
            s->longest[b] = FT_MAX(s->longest[b], take[k].text.n);
    }
    s->first[256] = (uint32_t)k;
}

void ft_special_release(ft_special *s)
{
    ft_free(s->token);
    *s = (ft_special){0};
}

/* Narrows [*lo, *hi), whose texts have equal first d bytes, to those with byte b at d. */
static void narrow(const ft_special *s, size_t *lo, size_t *hi, size_t d, unsigned char b)
{
    for (int side = 0; side < 2; side++) {
        size_t l = *lo, h = *hi;
        while (l < h) {
            const size_t mid = l + (h - l) / 2;
            const ft_str t = s->token[mid].text;
            const int c = t.n <= d ? -1 : (unsigned char)t.p[d];
            if (c < (int)b + side)
                l = mid + 1;
            else
                h = mid;
        }
        *(side ? hi : lo) = l;
    }
}

/* The longest token at pos that has more than `above` bytes. all: also list every such token in
 * all->ready. */
static bool match_at(const ft_special_cut *c, size_t pos, size_t above, ft_special_match *m,
                     ft_special_cut *all)
{
    const unsigned char *p = (const unsigned char *)c->text.p + pos;
    const size_t left = c->text.n - pos;
    size_t lo = c->s->first[p[0]], hi = c->s->first[p[0] + 1];
    bool found = false;
    for (size_t d = 1; lo < hi; d++) {
        const ft_special_token *t = &c->s->token[lo];
        if (t->text.n == d) {
            if (d > above && (t->user || c->parse)) {
                *m = (ft_special_match){pos, d, t->id};
                found = true;
                if (all) {
                    if (all->n_ready == all->cap_ready) {
                        all->cap_ready = all->cap_ready ? all->cap_ready * 2 : 64;
                        all->ready = ft_realloc(all->ready, all->cap_ready * sizeof *all->ready);
                    }
                    all->ready[all->n_ready++] = *m;
                }
            }
            lo++;
        }
        if (d == left) break;
        narrow(c->s, &lo, &hi, d, p[d]);
    }
    return found;
}

static int by_length(const void *a, const void *b)
{
    const ft_special_match *x = a, *y = b;
    if (x->len != y->len) return x->len > y->len ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

static int by_place(const void *a, const void *b)
{
    const ft_special_match *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

/* Collects all matches from pos on that overlap each other, and selects those that the definition
 * prefers. */
static void resolve_overlaps(ft_special_cut *c, size_t pos)
{
    c->n_ready = c->at_ready = 0;
    size_t end = pos + 1;
    ft_special_match m;
    for (size_t i = pos; i < end; i++)
        if (match_at(c, i, 0, &m, c) && m.at + m.len > end) end = m.at + m.len;
    qsort(c->ready, c->n_ready, sizeof *c->ready, by_length);
    unsigned char *taken = ft_alloc(end - pos);
    size_t k = 0;
    for (size_t i = 0; i < c->n_ready; i++) {
        const ft_special_match r = c->ready[i];
        /* Matches selected before are at least as long, so an overlap covers one of the two ends.
         */
        if (taken[r.at - pos] || taken[r.at - pos + r.len - 1]) continue;
        memset(taken + (r.at - pos), 1, r.len);
        c->ready[k++] = r;
    }
    ft_free(taken);
    c->n_ready = k;
    qsort(c->ready, k, sizeof *c->ready, by_place);
}

void ft_special_cut_init(ft_special_cut *c, const ft_special *s, ft_str text, bool parse)
{
    *c = (ft_special_cut){.s = s, .text = text, .parse = parse};
}

void ft_special_cut_release(ft_special_cut *c)
{
    ft_free(c->ready);
    *c = (ft_special_cut){0};
}

bool ft_special_cut_next(ft_special_cut *c, ft_special_match *m)
{
    for (;;) {
        if (c->at_ready < c->n_ready) {
            *m = c->ready[c->at_ready++];
            c->pos = m->at + m->len;
            return true;
        }
        size_t i = c->pos;
        const unsigned char *p = (const unsigned char *)c->text.p;
        const uint32_t *first = c->s->first;
        while (i < c->text.n && first[p[i]] == first[p[i] + 1]) i++;
        if (i == c->text.n) return false;
        c->pos = i + 1;
        if (!match_at(c, i, 0, m, NULL)) continue;
        bool longer = false;
        ft_special_match inner;
        for (size_t k = 1; k < m->len && !longer; k++)
            longer = c->s->longest[p[i + k]] > m->len && match_at(c, i + k, m->len, &inner, NULL);
        if (longer) {
            resolve_overlaps(c, i);
            continue;
        }
        c->pos = i + m->len;
        return true;
    }
}
