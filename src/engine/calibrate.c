#include "engine/calibrate.h"

#include "base/mem.h"
#include "engine/slot.h"

enum { PIECES = 4, QUERIES = 4 };

typedef struct calibrating {
    ft_kv_calibration *g; /* [L] */
    ft_kv_type t;
    int cells;
    ft_status st;
    ft_err *err;
} calibrating;

static void see_query(void *user, const ft_step *s, const char *what, int layer, ft_mat q)
{
    calibrating *u = user;
    ft_kv_calibration *g = &u->g[layer];
    if (u->st || strcmp(what, "query") || g->measured) return;
    if (s->kv[layer].space != FT_SPACE_FULL || q.T != u->cells) return;
    ft_kv_sample k;
    if ((u->st = ft_kv_sample_take(&k, s, layer, q, QUERIES, u->err))) return;
    g->mean = ft_new_n(float, (size_t)k.G *(size_t)k.d);
    ft_kv_sample_mean(&k, g->mean);
    g->plain = ft_kv_sample_correlation(&k, u->t, NULL);
    g->centred = ft_kv_sample_correlation(&k, u->t, g->mean);
    g->measured = true;
    ft_kv_sample_release(&k);
}

/* One step over all ids, spread over the context. */
static ft_status read_text(ft_engine *e, const int32_t *ids, int n, int ctx, ft_err *err)
{
    ft_seq *s = ft_seq_new(e->cache);
    assert(s);
    if (!ft_seq_reserve(s, n)) assert(!"made for n cells");
    ft_rowset *w = ft_runner_rows(e->runner);
    const int first = ft_rows_span(w, s, n, false);
    const int apart = FT_MAX(0, (ctx - n) / (PIECES - 1));
    for (int i = 0; i < n; i++) {
        w->token[first + i] = ids[i];
        w->pos[first + i] += i * PIECES / n * apart;
    }
    ft_rows_out(w, first + n - 1);
    const ft_status st = ft_runner_trunk(e->runner, err);
    ft_seq_accept(s, n);
    ft_seq_free(s);
    return st;
}

ft_status ft_calibrate(ft_kv_calibration **out, ft_model *m, ft_kv_type t, const int32_t *ids,
                       int n, int ctx, ft_err *err)
{
    assert(n >= FT_CALIBRATE_MIN && n <= FT_CALIBRATE_MAX);
    const ft_engine_params p = {
        .slots = 1, .ctx = n, .rows = FT_CALIBRATE_MAX, .kt = FT_KV_F16, .vt = FT_KV_F16};
    ft_engine *e;
    ft_status st = ft_engine_new(&e, m, NULL, &p, err);
    if (st) return st;
    calibrating u = {
        .g = ft_new_n(ft_kv_calibration, (size_t)m->L), .t = t, .cells = n, .err = err};
    ft_engine_probe(e, see_query, &u);
    st = read_text(e, ids, n, ctx, err);
    if (!st) st = u.st;
    ft_engine_free(e);
    *out = u.g;
    if (st) {
        ft_calibration_free(u.g, m);
        *out = NULL;
    }
    return st;
}

void ft_calibration_free(ft_kv_calibration *g, const ft_model *m)
{
    if (!g) return;
    for (int l = 0; l < m->L; l++) ft_free(g[l].mean);
    ft_free(g);
}
