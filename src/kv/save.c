#include "kv/save.h"

#include "base/mem.h"
#include "dev/copies.h"
#include "kv/kv_priv.h"

#include <xxhash.h>

uint64_t ft_cache_layout(const ft_cache *c)
{
    const uint64_t page_rows = FT_PAGE_ROWS;
    uint64_t h = XXH3_64bits_withSeed(c->dev->name, strlen(c->dev->name), page_rows);
    for (int l = 0; l < c->p.n_layer; l++) {
        const ft_layer_state *s = &c->layer[l];
        const ft_kv *kv = &c->kv[l];
        const int32_t is[] = {s->kind, s->G, s->d,        s->window,   s->Hk,         s->Hv,
                              s->S,    s->C, (int)kv->kt, (int)kv->vt, c->p.tentative};
        h = XXH3_64bits_withSeed(is, sizeof is, h);
        const int32_t newest = kv->recent ? (int32_t)kv->recent->kt : -1;
        h = XXH3_64bits_withSeed(&newest, sizeof newest, h);
        if (kv->mean)
            h = XXH3_64bits_withSeed(c->p.calibration[l].mean,
                                     sizeof(float) * (size_t)kv->G * (size_t)kv->d, h);
    }
    return h;
}

/* ---- pages ---- */

size_t ft_cache_page_bytes(const ft_cache *c, int space)
{
    size_t sum = 0;
    for (int l = 0; l < c->p.n_layer; l++) {
        const ft_kv *kv = ft_cache_kv_in(c, l, space);
        if (kv) sum += kv->k_page + kv->v_page;
    }
    return sum;
}

void ft_cache_page_pieces(const ft_cache *c, const int32_t *table, int space, int from, int to,
                          ft_piece_fn *fn, void *user)
{
    for (int i = from; i < to; i++) {
        assert(!table || table[i] >= 0);
        const size_t page = table ? (size_t)table[i] : 0;
        for (int l = 0; l < c->p.n_layer; l++) {
            const ft_kv *kv = ft_cache_kv_in(c, l, space);
            if (!kv) continue;
            fn(user, l, table ? kv->k + page * kv->k_page : NULL, kv->k_page);
            fn(user, l, table ? kv->v + page * kv->v_page : NULL, kv->v_page);
        }
    }
}

/* Copies out of the device and into it. */
typedef struct copying {
    ft_copies all;
    unsigned char *host; /* the next byte */
} copying;

static void copy_piece(void *user, int layer, void *device, size_t n)
{
    copying *k = user;
    (void)layer;
    ft_copies_add(&k->all, k->host, device, n);
    k->host += n;
}

void ft_seq_pages_get(const ft_seq *s, int space, int from, int to, void *out)
{
    copying k = {{.dev = s->c->dev}, out};
    ft_cache_page_pieces(s->c, ft_seq_table(s, space), space, from, to, copy_piece, &k);
    ft_copies_run(&k.all);
}

void ft_seq_pages_put(ft_seq *s, int space, int from, int to, const void *in)
{
    copying k = {{.dev = s->c->dev, .in = true}, (unsigned char *)(uintptr_t)in};
    ft_cache_page_pieces(s->c, ft_seq_table(s, space), space, from, to, copy_piece, &k);
    ft_copies_run(&k.all);
}

/* ---- delta nets ---- */

void ft_cache_state_pieces(const ft_cache *c, int slot, ft_piece_fn *fn, void *user)
{
    for (int l = 0; l < c->p.n_layer; l++) {
        if (c->layer[l].kind != FT_STATE_DELTA) continue;
        const ft_delta_sizes z = ft_delta_sizes_of(&c->layer[l], c->p.tentative);
        const ft_delta *d = &c->delta[l];
        fn(user, l, d->conv + (size_t)slot * z.conv, z.conv * sizeof *d->conv);
        fn(user, l, d->state + (size_t)slot * z.state, z.state * sizeof *d->state);
    }
}

static void add_bytes(void *user, int layer, void *device, size_t n)
{
    (void)layer, (void)device;
    *(size_t *)user += n;
}

size_t ft_cache_state_bytes(const ft_cache *c)
{
    size_t sum = 0;
    ft_cache_state_pieces(c, 0, add_bytes, &sum);
    return sum;
}

/* ---- swapping ---- */

struct ft_swapped {
    int first[2], end[2];
    size_t at[2];
    unsigned char data[];
};

ft_swapped *ft_seq_swap_out(ft_seq *s)
{
    assert(!s->span_n);
    size_t bytes = 0, at[2];
    for (int i = 0; i < 2; i++) {
        at[i] = bytes;
        bytes += (size_t)(s->end_page[i] - s->first_page[i]) * ft_cache_page_bytes(s->c, i);
    }
    ft_swapped *p = ft_try_alloc(sizeof *p + bytes);
    if (!p) return NULL;
    for (int i = 0; i < 2; i++) {
        p->at[i] = at[i];
        p->first[i] = s->first_page[i];
        p->end[i] = s->end_page[i];
        ft_seq_pages_get(s, i, p->first[i], p->end[i], p->data + at[i]);
        ft_seq_drop_pages(s, i);
    }
    return p;
}

bool ft_seq_swap_in(ft_seq *s, ft_swapped *p)
{
    for (int i = 0; i < 2; i++)
        if (p->end[i] - p->first[i] > s->c->space[i].n_free) return false;
    for (int i = 0; i < 2; i++) {
        s->first_page[i] = s->end_page[i] = p->first[i];
        ft_seq_take_pages(s, i, p->end[i]);
        ft_seq_pages_put(s, i, p->first[i], p->end[i], p->data + p->at[i]);
    }
    ft_free(p);
    return true;
}

int ft_swapped_pages(const ft_swapped *p)
{
    return p->end[FT_SPACE_FULL] - p->first[FT_SPACE_FULL];
}

void ft_swapped_free(ft_swapped *p)
{
    ft_free(p);
}

/* ---- resuming ---- */

int ft_cache_window_first(const ft_cache *c, int len)
{
    const int w = c->space[FT_SPACE_WINDOW].window;
    return w ? FT_MAX(0, len + 1 - w) / FT_PAGE_ROWS : 0;
}

bool ft_seq_holds(const ft_seq *s, int len)
{
    if (len <= 0 || len > s->len || s->span_n) return false;
    if (s->c->has_delta && len != s->stored) return false;
    return s->first_page[FT_SPACE_WINDOW] <= ft_cache_window_first(s->c, len);
}
