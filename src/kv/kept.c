#include "kv/kept.h"

#include "base/mem.h"
#include "dev/copies.h"
#include "kv/kv_priv.h"

#include <string.h>

/* ---- owners ---- */

static int owner_of(ft_owners *o, ft_dev *dev)
{
    if (!dev || !dev->keep) return 0;
    for (int i = 1; i < o->n; i++)
        if (o->dev[i] == dev) return i;
    if (o->n == FT_OWNERS) return 0;
    o->dev[o->n] = dev;
    return o->n++;
}

typedef struct adding {
    const ft_owners *o;
    size_t *to; /* [owner] */
} adding;

static void add_size(void *user, int layer, void *device, size_t n)
{
    const adding *a = user;
    (void)device;
    a->to[a->o->of[layer]] += n;
}

void ft_owners_init(ft_owners *o, const ft_cache *c, bool alone)
{
    ft_dev *d = c->dev;
    *o = (ft_owners){.n = 1, .of = ft_new_n(uint8_t, (size_t)c->p.n_layer)};
    for (int l = 0; l < c->p.n_layer && d->holder && !alone; l++) {
        const void *p =
            c->layer[l].kind == FT_STATE_DELTA ? (void *)c->delta[l].state : (void *)c->kv[l].k;
        if (p) o->of[l] = (uint8_t)owner_of(o, d->holder(d, p));
    }
    adding full = {o, o->page}, window = {o, o->window_page}, state = {o, o->state};
    ft_cache_page_pieces(c, NULL, FT_SPACE_FULL, 0, 1, add_size, &full);
    ft_cache_page_pieces(c, NULL, FT_SPACE_WINDOW, 0, 1, add_size, &window);
    ft_cache_state_pieces(c, 0, add_size, &state);
}

void ft_owners_release(ft_owners *o)
{
    ft_free(o->of);
}

/* ---- blobs ---- */

/* The numbers under which the other owners keep their bytes. */
typedef struct numbers {
    const ft_owners *o;
    uint32_t at[FT_OWNERS]; /* 0: none */
} numbers;

static uint32_t number_of(const ft_blob *b, int owner)
{
    return ((const numbers *)b->elsewhere)->at[owner];
}

static void drop_numbers(void *elsewhere)
{
    numbers *k = elsewhere;
    for (int i = 1; i < k->o->n; i++)
        if (k->at[i]) k->o->dev[i]->keep_free(k->o->dev[i], k->at[i]);
    ft_free(k);
}

size_t ft_kept_bytes(const ft_owners *o, const ft_kept_size *n, int owner, bool whole)
{
    size_t sum = owner ? 0 : n->extra;
    if (whole && owner) return 0;
    for (int i = 0; i < o->n; i++) {
        if (!whole && i != owner) continue;
        sum += (size_t)n->pages * o->page[i] + (size_t)n->window_pages * o->window_page[i] +
               (n->state ? o->state[i] : 0);
    }
    return sum;
}

ft_blob *ft_kept_new(const ft_owners *o, const ft_kept_size *n)
{
    ft_blob *b = ft_blob_new(ft_kept_bytes(o, n, 0, false));
    if (!b || o->n == 1) return b;
    numbers *k = b->elsewhere = ft_new(numbers);
    b->release = drop_numbers;
    k->o = o;
    for (int i = 1; i < o->n; i++) {
        const size_t bytes = ft_kept_bytes(o, n, i, false);
        if (!bytes || (k->at[i] = o->dev[i]->keep(o->dev[i], bytes))) continue;
        ft_blob_drop(b);
        return NULL;
    }
    return b;
}

bool ft_kept_whole(const ft_owners *o, const ft_blob *b)
{
    return o->n == 1 || (b && !b->elsewhere);
}

ft_blob *ft_kept_without(const ft_owners *o, ft_blob *b, int pages)
{
    const ft_kept_size n = {.pages = pages};
    const size_t skip = ft_kept_bytes(o, &n, 0, ft_kept_whole(o, b));
    ft_blob *rest = ft_blob_new(b->bytes - skip);
    if (!rest) return NULL;
    rest->copying.failed = !ft_blob_wait(b);
    memcpy(rest->data, b->data + skip, rest->bytes);
    rest->elsewhere = b->elsewhere;
    rest->release = b->release;
    b->elsewhere = NULL;
    b->release = NULL;
    for (int i = 1; i < o->n && rest->elsewhere; i++)
        if (number_of(rest, i))
            o->dev[i]->keep_cut(o->dev[i], number_of(rest, i), ft_kept_bytes(o, &n, i, false));
    ft_blob_drop(b);
    return rest;
}

/* ---- copies ---- */

static void copy_piece(ft_kept_copy *k, ft_copies *here, int layer, void *device, size_t n)
{
    const int owner = k->b->elsewhere ? k->o->of[layer] : 0;
    const size_t at = k->at[owner];
    ft_dev *d = k->o->dev[owner];
    k->at[owner] += n;
    if (owner && k->save)
        d->keep_save(d, number_of(k->b, owner), at, device, n);
    else if (owner)
        d->keep_load(d, device, number_of(k->b, owner), at, n);
    else
        ft_copies_add(here, k->b->data + at, device, n);
}

typedef struct user {
    ft_kept_copy *k;
    ft_copies here;
} user;

static void copy_one(void *arg, int layer, void *device, size_t n)
{
    user *u = arg;
    copy_piece(u->k, &u->here, layer, device, n);
}

static void run_copies(user *u)
{
    if (u->k->save)
        ft_copies_save(&u->here, &u->k->b->copying);
    else
        ft_copies_run(&u->here);
}

void ft_kept_pages(ft_kept_copy *k, const ft_seq *s, int space, int from, int to)
{
    user u = {k, {.dev = s->c->dev, .in = !k->save}};
    ft_cache_page_pieces(s->c, ft_seq_table(s, space), space, from, to, copy_one, &u);
    run_copies(&u);
}

void ft_kept_state(ft_kept_copy *k, const ft_seq *s)
{
    user u = {k, {.dev = s->c->dev, .in = !k->save}};
    ft_cache_state_pieces(s->c, s->slot, copy_one, &u);
    run_copies(&u);
}

/* ---- whole blobs ---- */

typedef struct gathering {
    const ft_owners *o;
    const unsigned char *from[FT_OWNERS];
    unsigned char *to;
} gathering;

static void gather_one(void *arg, int layer, void *device, size_t n)
{
    gathering *g = arg;
    const int owner = g->o->of[layer];
    (void)device;
    memcpy(g->to, g->from[owner], n);
    g->from[owner] += n;
    g->to += n;
}

ft_blob *ft_kept_gather(const ft_owners *o, const ft_cache *c, ft_blob *b, const ft_kept_size *n)
{
    if (!b || ft_kept_whole(o, b)) return ft_blob_use(b);
    ft_blob *all = ft_blob_new(ft_kept_bytes(o, n, 0, true));
    unsigned char *copy[FT_OWNERS] = {0};
    if (!all) return NULL;
    gathering g = {.o = o, .from = {b->data}, .to = all->data};
    bool ok = true;
    for (int i = 1; i < o->n && ok; i++) {
        const size_t bytes = ft_kept_bytes(o, n, i, false);
        if (!bytes) continue;
        g.from[i] = copy[i] = ft_try_alloc(bytes);
        ok = copy[i] != NULL;
        if (ok) o->dev[i]->keep_read(o->dev[i], copy[i], number_of(b, i), bytes);
    }
    if (ok) {
        ft_cache_page_pieces(c, NULL, FT_SPACE_FULL, 0, n->pages, gather_one, &g);
        ft_cache_page_pieces(c, NULL, FT_SPACE_WINDOW, 0, n->window_pages, gather_one, &g);
        if (n->state) ft_cache_state_pieces(c, 0, gather_one, &g);
        memcpy(g.to, g.from[0], n->extra);
    }
    for (int i = 1; i < o->n; i++) ft_free(copy[i]);
    if (ok) return all;
    ft_blob_drop(all);
    return NULL;
}
