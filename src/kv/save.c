#include "kv/save.h"

#include "base/mem.h"
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

/* Calls copy(device address, bytes at `at`) for every part of a page, and returns where it ends. */
typedef void copy_fn(ft_dev *d, void *device, unsigned char *host, size_t n);

static void out_of(ft_dev *d, void *device, unsigned char *host, size_t n)
{
    d->download(d, host, device, n);
}

static void into(ft_dev *d, void *device, unsigned char *host, size_t n)
{
    d->upload(d, device, host, n);
}

static void pages(const ft_seq *s, int space, int from, int to, unsigned char *at, copy_fn *copy)
{
    const ft_cache *c = s->c;
    const int32_t *table = ft_seq_table(s, space);
    for (int i = from; i < to; i++) {
        assert(table[i] >= 0);
        const size_t page = (size_t)table[i];
        for (int l = 0; l < c->p.n_layer; l++) {
            const ft_kv *kv = ft_cache_kv_in(c, l, space);
            if (!kv) continue;
            copy(c->dev, (unsigned char *)kv->k + page * kv->k_page, at, kv->k_page);
            at += kv->k_page;
            copy(c->dev, (unsigned char *)kv->v + page * kv->v_page, at, kv->v_page);
            at += kv->v_page;
        }
    }
}

void ft_seq_pages_get(const ft_seq *s, int space, int from, int to, void *out)
{
    pages(s, space, from, to, out, out_of);
}

void ft_seq_pages_put(ft_seq *s, int space, int from, int to, const void *in)
{
    pages(s, space, from, to, (unsigned char *)(uintptr_t)in, into);
}

/* ---- delta nets ---- */

/* The parts of a layer's slot: the stored state, or the journal. */
static int parts(const ft_cache *c, int l, int slot, bool journal, float *at[4], size_t n[4])
{
    const ft_delta_sizes z = ft_delta_sizes_of(&c->layer[l], c->p.tentative);
    const ft_delta *d = &c->delta[l];
    float *const base[2][4] = {{d->conv, d->state}, {d->j_conv, d->j_k, d->j_d, d->j_g}};
    const size_t size[2][4] = {{z.conv, z.state}, {z.j_conv, z.j_k, z.j_d, z.j_g}};
    const int count = journal ? 4 : 2;
    for (int i = 0; i < count; i++) {
        n[i] = size[journal][i] * sizeof(float);
        at[i] = base[journal][i] + (size_t)slot * size[journal][i];
    }
    return count;
}

static size_t states(const ft_cache *c, int slot, bool journal, unsigned char *host, copy_fn *copy)
{
    size_t sum = 0;
    for (int l = 0; l < c->p.n_layer; l++) {
        if (c->layer[l].kind != FT_STATE_DELTA) continue;
        float *at[4];
        size_t n[4];
        const int count = parts(c, l, slot, journal, at, n);
        for (int i = 0; i < count; i++) {
            if (copy) copy(c->dev, at[i], host + sum, n[i]);
            sum += n[i];
        }
    }
    return sum;
}

size_t ft_cache_state_bytes(const ft_cache *c)
{
    return states(c, 0, false, NULL, NULL);
}

size_t ft_cache_journal_bytes(const ft_cache *c)
{
    return states(c, 0, true, NULL, NULL);
}

void ft_seq_state_get(const ft_seq *s, void *out)
{
    states(s->c, s->slot, false, out, out_of);
}

void ft_seq_state_put(ft_seq *s, const void *in)
{
    states(s->c, s->slot, false, (unsigned char *)(uintptr_t)in, into);
}

void ft_seq_journal_get(const ft_seq *s, void *out)
{
    states(s->c, s->slot, true, out, out_of);
}

void ft_seq_journal_put(ft_seq *s, const void *in)
{
    states(s->c, s->slot, true, (unsigned char *)(uintptr_t)in, into);
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
