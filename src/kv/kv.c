#include "kv/kv.h"

#include "base/mem.h"
#include "kv/kv_priv.h"
#include "kv/plan.h"

#include <stdio.h>

/* ---- sizes ---- */

int ft_pages_for(int64_t cells)
{
    return (int)((cells + FT_PAGE_ROWS - 1) / FT_PAGE_ROWS);
}

static int64_t total_cells(const ft_cache_params *p)
{
    return p->total ? p->total : (int64_t)p->slots * p->cells;
}

/* Maximum number of pages that a window touches: the window, the rows of a long step on both
 * sides, and what the last page boundary needs (kv/prefix.h). */
static int window_pages(const ft_cache_params *p, int window)
{
    const int span = ft_pages_for(window + p->tentative) + 2;
    return FT_MIN(span, ft_pages_for(p->cells));
}

/* The recent-token window of a full-attention layer is a window too, one page longer because it
 * starts at a page boundary. */
static int widest_window(const ft_cache_params *p)
{
    int w = 0;
    for (int l = 0; l < p->n_layer; l++) {
        const ft_layer_state *s = &p->layer[l];
        if (s->kind == FT_STATE_WINDOW) w = FT_MAX(w, s->window);
        if (s->kind == FT_STATE_FULL && p->plan[l].tail) w = FT_MAX(w, FT_KV_RECENT + FT_PAGE_ROWS);
    }
    return w;
}

static int space_pages(const ft_cache_params *p, int which)
{
    if (which == FT_SPACE_FULL) return ft_pages_for(total_cells(p)) + p->slots;
    /* A prompt chunk writes its rows before old ones leave the window: all of it must fit. */
    const int w = widest_window(p);
    const int64_t all = (int64_t)ft_pages_for(p->cells) * p->slots;
    const int64_t windows =
        (int64_t)(window_pages(p, w) + ft_pages_for(p->rows ? p->rows : 2048)) * p->slots;
    return w ? (int)FT_MIN(all, windows) : 0;
}

ft_delta_sizes ft_delta_sizes_of(const ft_layer_state *l, int J)
{
    const size_t S = (size_t)l->S, Hv = (size_t)l->Hv, Hk = (size_t)l->Hk;
    const size_t CH = 2 * Hk * S + Hv * S, j = 2 * (size_t)J;
    return (ft_delta_sizes){
        (size_t)(l->C - 1) * CH, Hv * S * S, j * CH, j * Hk * S, j * Hv * S, j * Hv};
}

static void kv_layout(ft_kv *kv, const ft_cache_params *p, int at)
{
    const ft_layer_state *l = &p->layer[at];
    const ft_kv_choice c = p->plan[at];
    *kv = (ft_kv){.kt = c.kt, .vt = c.vt, .G = l->G, .d = l->d};
    const size_t rows = (size_t)l->G * FT_PAGE_ROWS;
    kv->space = l->kind == FT_STATE_WINDOW ? FT_SPACE_WINDOW : FT_SPACE_FULL;
    kv->k_row = ft_kv_row_bytes(kv->kt, l->d);
    kv->v_row = ft_kv_row_bytes(kv->vt, l->d);
    kv->k_page = kv->k_row * rows;
    kv->v_page = kv->v_row * rows;
}

/* The same for the recent-token window of a layer, if it has one. */
static bool recent_layout(ft_kv *kv, const ft_cache_params *p, int at)
{
    const ft_layer_state *l = &p->layer[at];
    const ft_kv_choice c = p->plan[at];
    if (!c.tail) return false;
    const size_t row = ft_kv_row_bytes(c.nt, l->d), page = row * (size_t)l->G * FT_PAGE_ROWS;
    *kv = (ft_kv){.kt = c.nt, .vt = c.nt, .G = l->G, .d = l->d, .space = FT_SPACE_WINDOW};
    kv->k_row = kv->v_row = row;
    kv->k_page = kv->v_page = page;
    return true;
}

uint64_t ft_cache_layer_bytes(const ft_cache_params *p, int l)
{
    const ft_layer_state *s = &p->layer[l];
    if (s->kind == FT_STATE_NONE) return 0;
    if (s->kind == FT_STATE_DELTA) {
        const ft_delta_sizes z = ft_delta_sizes_of(s, p->tentative);
        return sizeof(float) * (uint64_t)p->slots *
               (z.conv + z.state + z.j_conv + z.j_k + z.j_d + z.j_g);
    }
    ft_kv kv;
    kv_layout(&kv, p, l);
    uint64_t sum = (uint64_t)space_pages(p, kv.space) * (kv.k_page + kv.v_page);
    if (recent_layout(&kv, p, l))
        sum += (uint64_t)space_pages(p, kv.space) * (kv.k_page + kv.v_page);
    return sum;
}

uint64_t ft_cache_bytes(const ft_cache_params *p)
{
    uint64_t sum = 0;
    for (int l = 0; l < p->n_layer; l++) sum += ft_cache_layer_bytes(p, l);
    return sum;
}

/* ---- cache ---- */

static void space_init(ft_space *s, const ft_cache *c, int which)
{
    s->n_page = s->n_free = space_pages(&c->p, which);
    s->window = which == FT_SPACE_WINDOW ? widest_window(&c->p) : 0;
    s->free = ft_new_n(int32_t, (size_t)s->n_page);
    for (int i = 0; i < s->n_page; i++) s->free[i] = s->n_page - 1 - i;
    const size_t n = (size_t)c->p.slots * (size_t)c->pages_per_seq;
    s->table = ft_new_n(int32_t, n);
    for (size_t i = 0; i < n; i++) s->table[i] = -1;
}

static bool delta_alloc(ft_cache *c, ft_delta *d, const ft_layer_state *l)
{
    const ft_delta_sizes z = ft_delta_sizes_of(l, c->p.tentative);
    const size_t slots = (size_t)c->p.slots, f = sizeof(float);
    *d = (ft_delta){.Hk = l->Hk, .Hv = l->Hv, .S = l->S, .C = l->C, .J = c->p.tentative};
    d->CH = 2 * l->Hk * l->S + l->Hv * l->S;
    d->conv = c->dev->alloc(c->dev, slots * z.conv * f);
    d->state = c->dev->alloc(c->dev, slots * z.state * f);
    d->j_conv = c->dev->alloc(c->dev, slots * z.j_conv * f);
    d->j_k = c->dev->alloc(c->dev, slots * z.j_k * f);
    d->j_d = c->dev->alloc(c->dev, slots * z.j_d * f);
    d->j_g = c->dev->alloc(c->dev, slots * z.j_g * f);
    return d->conv && d->state && d->j_conv && d->j_k && d->j_d && d->j_g;
}

static bool pages_alloc(ft_cache *c, ft_kv *kv)
{
    const size_t pages = (size_t)c->space[kv->space].n_page;
    kv->k = c->dev->alloc(c->dev, pages * kv->k_page);
    kv->v = c->dev->alloc(c->dev, pages * kv->v_page);
    return kv->k && kv->v;
}

static bool mean_alloc(ft_cache *c, int l)
{
    if (!c->plan[l].centred) return true;
    const size_t bytes = (size_t)c->kv[l].G * (size_t)c->kv[l].d * sizeof(float);
    float *mean = c->dev->alloc(c->dev, bytes);
    c->kv[l].mean = mean;
    if (mean) c->dev->upload(c->dev, mean, c->p.calibration[l].mean, bytes);
    return mean != NULL;
}

static bool layer_alloc(ft_cache *c, int l)
{
    const ft_layer_state *s = &c->layer[l];
    if (s->kind == FT_STATE_NONE) return true;
    char name[32];
    snprintf(name, sizeof name, "blk.%d.cache", l);
    ft_dev_alloc_for(c->dev, name);
    if (s->kind == FT_STATE_DELTA) {
        c->has_delta = true;
        return delta_alloc(c, &c->delta[l], s);
    }
    ft_kv *kv = &c->kv[l];
    kv_layout(kv, &c->p, l);
    if (recent_layout(&c->recent[l], &c->p, l)) {
        if (!pages_alloc(c, &c->recent[l])) return false;
        kv->recent = &c->recent[l];
    }
    return pages_alloc(c, kv) && mean_alloc(c, l);
}

ft_status ft_cache_new(ft_cache **out, ft_dev *dev, const ft_cache_params *p, ft_err *err)
{
    for (int l = 0; l < p->n_layer; l++) {
        const ft_layer_state *s = &p->layer[l];
        if (s->kind != FT_STATE_FULL && s->kind != FT_STATE_WINDOW) continue;
        const ft_kv_choice w = p->plan[l];
        const ft_kv_type bad = ft_kv_row_fits(w.kt, s->d) ? w.vt : w.kt;
        if (!ft_kv_row_fits(bad, s->d))
            return ft_fail(err, FT_EUNSUPPORTED,
                           "layer %d: heads of %d values cannot be stored as %s", l, s->d,
                           ft_kv_type_name(bad));
    }
    ft_cache *c = ft_new(ft_cache);
    c->dev = dev;
    c->p = *p;
    c->layer = ft_new_n(ft_layer_state, (size_t)p->n_layer);
    memcpy(c->layer, p->layer, sizeof *c->layer * (size_t)p->n_layer);
    c->p.layer = c->layer;
    c->plan = ft_new_n(ft_kv_choice, (size_t)p->n_layer);
    memcpy(c->plan, p->plan, sizeof *c->plan * (size_t)p->n_layer);
    c->p.plan = c->plan;
    c->kv = ft_new_n(ft_kv, (size_t)p->n_layer);
    c->recent = ft_new_n(ft_kv, (size_t)p->n_layer);
    c->delta = ft_new_n(ft_delta, (size_t)p->n_layer);
    c->seq = ft_new_n(ft_seq *, (size_t)p->slots);
    c->pages_per_seq = ft_pages_for(p->cells);
    space_init(&c->space[FT_SPACE_FULL], c, FT_SPACE_FULL);
    space_init(&c->space[FT_SPACE_WINDOW], c, FT_SPACE_WINDOW);
    for (int l = 0; l < p->n_layer; l++) {
        if (layer_alloc(c, l)) continue;
        char need[24];
        ft_cache_free(c);
        return ft_fail(
            err, FT_ENOMEM,
            "not enough memory for the KV cache: %s needed for %d sequences of %d positions",
            ft_human_bytes(need, ft_cache_bytes(p)), p->slots, p->cells);
    }
    *out = c;
    return FT_OK;
}

void ft_cache_free(ft_cache *c)
{
    if (!c) return;
    for (int l = 0; l < c->p.n_layer; l++) {
        ft_delta *d = &c->delta[l];
        void *const taken[] = {c->kv[l].k,
                               c->kv[l].v,
                               d->conv,
                               d->state,
                               d->j_conv,
                               d->j_k,
                               d->j_d,
                               d->j_g,
                               c->recent[l].k,
                               c->recent[l].v,
                               (void *)(uintptr_t)c->kv[l].mean};
        for (size_t i = 0; i < FT_COUNT(taken); i++)
            if (taken[i]) c->dev->free(c->dev, taken[i]);
    }
    for (int i = 0; i < 2; i++) {
        ft_free(c->space[i].free);
        ft_free(c->space[i].table);
    }
    ft_free(c->layer);
    ft_free(c->plan);
    ft_free(c->kv);
    ft_free(c->recent);
    ft_free(c->delta);
    ft_free(c->seq);
    ft_free(c);
}

const ft_kv *ft_cache_kv(const ft_cache *c)
{
    return c->kv;
}

const ft_delta *ft_cache_delta(const ft_cache *c)
{
    return c->delta;
}

const int32_t *ft_cache_pages(const ft_cache *c, int which)
{
    return c->space[which].table;
}

int ft_cache_pages_per_seq(const ft_cache *c)
{
    return c->pages_per_seq;
}

int ft_cache_all_pages(const ft_cache *c)
{
    return c->space[FT_SPACE_FULL].n_page;
}

int ft_seq_pages(const ft_seq *s)
{
    return s->end_page[FT_SPACE_FULL];
}

int ft_cache_free_pages(const ft_cache *c)
{
    return c->space[FT_SPACE_FULL].n_free;
}

/* ---- sequences ---- */

/* The device copies most of the zeros itself. */
static void zero(ft_dev *d, void *p, size_t bytes)
{
    static const unsigned char none[4096];
    unsigned char *to = p;
    size_t have = FT_MIN(sizeof none, bytes);
    d->upload(d, to, none, have);
    for (; have < bytes; have += FT_MIN(have, bytes - have))
        d->move(d, to + have, to, FT_MIN(have, bytes - have));
}

/* An empty sequence has a zero window and a zero state. */
static void clear_states(ft_cache *c, int slot)
{
    for (int l = 0; l < c->p.n_layer; l++) {
        if (c->layer[l].kind != FT_STATE_DELTA) continue;
        const ft_delta_sizes z = ft_delta_sizes_of(&c->layer[l], c->p.tentative);
        zero(c->dev, c->delta[l].conv + (size_t)slot * z.conv, z.conv * sizeof(float));
        zero(c->dev, c->delta[l].state + (size_t)slot * z.state, z.state * sizeof(float));
    }
}

ft_seq *ft_seq_new(ft_cache *c)
{
    for (int i = 0; i < c->p.slots; i++) {
        if (c->seq[i]) continue;
        ft_seq *s = c->seq[i] = ft_new(ft_seq);
        s->c = c;
        s->slot = i;
        clear_states(c, i);
        return s;
    }
    return NULL;
}

/* In reverse order, so that the next sequence gets them in the same order. */
static void release_pages(ft_seq *s, int which, int from, int to)
{
    ft_space *sp = &s->c->space[which];
    int32_t *table = ft_seq_table(s, which);
    for (int i = to - 1; i >= from; i--) {
        if (table[i] < 0) continue;
        sp->free[sp->n_free++] = table[i];
        table[i] = -1;
    }
}

void ft_seq_drop_pages(ft_seq *s, int which)
{
    release_pages(s, which, s->first_page[which], s->end_page[which]);
    s->first_page[which] = s->end_page[which] = 0;
}

void ft_seq_take_pages(ft_seq *s, int which, int end)
{
    ft_space *sp = &s->c->space[which];
    int32_t *table = ft_seq_table(s, which);
    for (; s->end_page[which] < end; s->end_page[which]++)
        table[s->end_page[which]] = sp->free[--sp->n_free];
}

void ft_seq_free(ft_seq *s)
{
    if (!s) return;
    for (int i = 0; i < 2; i++) ft_seq_drop_pages(s, i);
    s->c->seq[s->slot] = NULL;
    ft_free(s);
}

int ft_seq_len(const ft_seq *s)
{
    return s->len;
}

int ft_seq_stored(const ft_seq *s)
{
    return s->c->has_delta ? s->stored : s->len;
}

int ft_seq_slot(const ft_seq *s)
{
    return s->slot;
}

/* Frees pages that have left every window: nothing below len - window - tentative is read, nor
 * below the window of the last page boundary. */
static void drop_passed(ft_seq *s)
{
    const ft_space *sp = &s->c->space[FT_SPACE_WINDOW];
    if (!sp->window) return;
    const int keep_from = (s->len - sp->window - s->c->p.tentative - 1) / FT_PAGE_ROWS - 1;
    if (keep_from <= s->first_page[FT_SPACE_WINDOW]) return;
    release_pages(s, FT_SPACE_WINDOW, s->first_page[FT_SPACE_WINDOW], keep_from);
    s->first_page[FT_SPACE_WINDOW] = keep_from;
}

bool ft_seq_reserve(ft_seq *s, int n)
{
    if (n > s->c->p.cells - s->len) return false;
    const int end = ft_pages_for(s->len + n);
    drop_passed(s);
    for (int i = 0; i < 2; i++) {
        const ft_space *sp = &s->c->space[i];
        if (sp->n_page && end - s->end_page[i] > sp->n_free) return false;
    }
    for (int i = 0; i < 2; i++)
        if (s->c->space[i].n_page) ft_seq_take_pages(s, i, end);
    return true;
}

ft_span ft_seq_span(ft_seq *s, int row, int n, bool tentative)
{
    assert(!s->span_n && n > 0 && (!tentative || n <= s->c->p.tentative));
    s->span_n = n;
    s->tentative = tentative;
    return (ft_span){s->slot, row, n, s->len, s->replay, s->plane, tentative, 0};
}

void ft_seq_accept(ft_seq *s, int kept)
{
    assert(s->span_n && kept <= s->span_n && (s->tentative || kept == s->span_n));
    s->stored = s->tentative ? s->len : s->len + kept;
    s->replay = s->tentative ? kept : 0;
    if (s->tentative) s->plane ^= 1;
    s->len += kept;
    s->span_n = 0;
}

bool ft_seq_can_rewind(const ft_seq *s, int n)
{
    if (n == 0) return true;
    if (n > s->len || (s->c->has_delta && n < s->stored)) return false;
    const ft_space *sp = &s->c->space[FT_SPACE_WINDOW];
    const int lowest = s->first_page[FT_SPACE_WINDOW] * FT_PAGE_ROWS;
    return !sp->window || lowest <= 0 || n - sp->window >= lowest;
}

bool ft_seq_rewind(ft_seq *s, int n)
{
    assert(!s->span_n && n <= s->len);
    if (n == 0) {
        for (int i = 0; i < 2; i++) ft_seq_drop_pages(s, i);
        clear_states(s->c, s->slot);
        s->len = s->stored = s->replay = 0;
        return true;
    }
    if (!ft_seq_can_rewind(s, n)) return false;
    if (s->c->has_delta) s->replay = n - s->stored;
    s->len = n;
    return true;
}

bool ft_seq_adopt(ft_seq *s, int len, int window_first)
{
    ft_seq_rewind(s, 0);
    const bool window = s->c->space[FT_SPACE_WINDOW].n_page > 0;
    if (window) s->first_page[FT_SPACE_WINDOW] = s->end_page[FT_SPACE_WINDOW] = window_first;
    /* One more: a draft head writes the following position first. */
    if (!ft_seq_reserve(s, FT_MIN(len + 1, s->c->p.cells))) {
        s->first_page[FT_SPACE_WINDOW] = s->end_page[FT_SPACE_WINDOW] = 0;
        return false;
    }
    s->len = s->stored = len;
    return true;
}
