#include "kv/plan.h"

#include "base/mem.h"

#include <stdio.h>

static bool stores_kv(const ft_layer_state *s)
{
    return s->kind == FT_STATE_FULL || s->kind == FT_STATE_WINDOW;
}

/* Number of full-attention layers, and in *before how many of them precede l. */
static int full_layers(const ft_cache_params *p, int l, int *before)
{
    int n = 0;
    *before = 0;
    for (int i = 0; i < p->trunk; i++) {
        if (p->layer[i].kind != FT_STATE_FULL) continue;
        if (i < l) ++*before;
        n++;
    }
    return n;
}

/* Measured statistics decide; without them, the number of query heads per key head does. */
static void plan_keys(ft_kv_choice *c, const ft_cache_params *p, int l)
{
    const ft_kv_calibration *g = p->calibration && l < p->trunk ? &p->calibration[l] : NULL;
    if (!g || !g->measured) {
        if (!ft_kv_is_turbo(c->vt) || p->layer[l].group < FT_KV_MANY_HEADS) return;
        c->kt = FT_KV_Q8_0;
        c->why = "many query heads per key head";
        return;
    }
    if (g->plain >= FT_KV_GOOD || g->plain >= FT_MAX(g->centred, FT_KV_BAD)) return;
    c->centred = g->centred >= FT_KV_BAD;
    c->why = c->centred ? "keys with their mean subtracted" : "attention scores lose accuracy";
    if (!c->centred) c->kt = FT_KV_Q8_0;
}

ft_kv_choice ft_kv_plan_layer(const ft_cache_params *p, int l)
{
    const ft_layer_state *s = &p->layer[l];
    ft_kv_choice c = {.kt = p->kt, .vt = p->vt};
    const bool kt = ft_kv_is_turbo(c.kt), vt = ft_kv_is_turbo(c.vt);
    if (p->exact || (!kt && !vt)) return c;
    if (s->kind == FT_STATE_WINDOW) {
        if (kt) c.kt = FT_KV_F16;
        if (vt) c.vt = FT_KV_F16;
        c.why = "window";
        return c;
    }
    if (kt) plan_keys(&c, p, l);
    int at;
    const int n = full_layers(p, l, &at);
    const bool edge = at < FT_KV_BOUNDARY || at >= n - FT_KV_BOUNDARY;
    if (c.vt == FT_KV_TURBO2 && n >= FT_KV_BOUNDARY_LAYERS && edge && l < p->trunk) {
        c.vt = FT_KV_Q8_0;
        c.why = c.why ? "keys and boundary" : "boundary";
    }
    c.tail = l < p->trunk && p->tail && (ft_kv_is_turbo(c.kt) || ft_kv_is_turbo(c.vt));
    c.nt = ft_kv_row_fits(FT_KV_Q8_0, s->d) ? FT_KV_Q8_0 : FT_KV_F16;
    return c;
}

ft_kv_choice *ft_kv_plan_new(const ft_cache_params *p)
{
    ft_kv_choice *plan = ft_new_n(ft_kv_choice, (size_t)p->n_layer);
    for (int l = 0; l < p->n_layer; l++)
        if (stores_kv(&p->layer[l])) plan[l] = ft_kv_plan_layer(p, l);
    return plan;
}

bool ft_kv_pair_measured(ft_str name)
{
    return ft_str_is(name, "compact");
}

bool ft_kv_tail_wanted(int wish, const char *name)
{
    if (wish >= 0) return wish;
    const ft_str pair = ft_str_of(name ? name : "");
    return ft_str_is(pair, "quality") || ft_str_is(pair, "balanced");
}

bool ft_kv_pair_find(ft_str name, ft_kv_type *kt, ft_kv_type *vt)
{
    static const struct {
        const char *name;
        ft_kv_type kt, vt;
    } preset[] = {{"quality", FT_KV_Q8_0, FT_KV_TURBO4},
                  {"balanced", FT_KV_Q8_0, FT_KV_TURBO3},
                  {"compact", FT_KV_TURBO4, FT_KV_TURBO3}};
    for (size_t i = 0; i < FT_COUNT(preset); i++) {
        if (!ft_str_is(name, preset[i].name)) continue;
        *kt = preset[i].kt;
        *vt = preset[i].vt;
        return true;
    }
    ft_str v = name;
    for (size_t i = 0; i < name.n; i++) {
        if (name.p[i] != '/') continue;
        v = (ft_str){name.p + i + 1, name.n - i - 1};
        name.n = i;
    }
    return ft_kv_type_find(name, kt) && ft_kv_type_find(v, vt);
}

/* ---- the table ---- */

static bool alike(const ft_cache_params *p, int a, int b)
{
    const ft_layer_state *x = &p->layer[a], *y = &p->layer[b];
    if (!stores_kv(y) || x->kind != y->kind || x->G != y->G || x->d != y->d) return false;
    const ft_kv_choice i = p->plan[a], j = p->plan[b];
    return i.kt == j.kt && i.vt == j.vt && i.centred == j.centred &&
           (a < p->trunk) == (b < p->trunk);
}

static size_t token_bytes(const ft_layer_state *s, ft_kv_type kt, ft_kv_type vt)
{
    return (size_t)s->G * (ft_kv_row_bytes(kt, s->d) + ft_kv_row_bytes(vt, s->d));
}

double ft_kv_token_bytes(const ft_cache_params *p, double *f16)
{
    double sum = 0;
    *f16 = 0;
    for (int l = 0; l < p->trunk; l++) {
        if (!stores_kv(&p->layer[l])) continue;
        const ft_kv_choice c = p->plan[l];
        sum += (double)token_bytes(&p->layer[l], c.kt, c.vt);
        *f16 += (double)token_bytes(&p->layer[l], FT_KV_F16, FT_KV_F16);
    }
    return sum;
}

void ft_kv_plan_table(ft_buf *out, const ft_cache_params *p)
{
    ft_buf_printf(out, "%-7s %-12s %-10s %-14s %-14s %12s  %s\n", "layers", "tokens", "heads",
                  "keys", "values", "bytes/token", "note");
    for (int l = 0; l < p->n_layer; l++) {
        const ft_layer_state *s = &p->layer[l];
        bool seen = !stores_kv(s);
        for (int i = 0; i < l && !seen; i++) seen = alike(p, i, l);
        if (seen) continue;
        int n = 0;
        for (int i = l; i < p->n_layer; i++) n += i == l || alike(p, l, i);
        const ft_kv_choice c = p->plan[l];
        char cells[24] = "all", heads[24];
        if (s->kind == FT_STATE_WINDOW) snprintf(cells, sizeof cells, "last %d", s->window);
        snprintf(heads, sizeof heads, "%d of %d", s->G, s->d);
        const double bytes = (double)n * (double)token_bytes(s, c.kt, c.vt);
        ft_buf_printf(out, "%-7d %-12s %-10s %-14s %-14s %12.0f  %s%s%s\n", n, cells, heads,
                      ft_kv_type_name(c.kt), ft_kv_type_name(c.vt), bytes,
                      l >= p->trunk ? "drafter" : "", l >= p->trunk && c.why ? ", " : "",
                      c.why ? c.why : "");
    }
    char words[200];
    ft_kv_plan_summary(words, sizeof words, p);
    ft_buf_printf(out, "%s\n", words);
}

void ft_kv_plan_special(char *to, size_t cap, const ft_cache_params *p)
{
    size_t at = 0;
    *to = 0;
    for (int l = 0; l < p->trunk; l++) {
        const char *why = stores_kv(&p->layer[l]) ? p->plan[l].why : NULL;
        bool seen = !why;
        for (int i = 0; i < l && !seen; i++)
            seen = stores_kv(&p->layer[i]) && p->plan[i].why == why;
        if (seen) continue;
        int n = 0;
        for (int i = l; i < p->trunk; i++) n += stores_kv(&p->layer[i]) && p->plan[i].why == why;
        const int w = snprintf(to + at, cap - at, "%s%d %s", at ? ", " : "", n, why);
        at = w < 0 ? at : FT_MIN(at + (size_t)w, cap - 1);
    }
}

bool ft_kv_plan_summary(char *to, size_t cap, const ft_cache_params *p)
{
    double sum = 0, f16 = 0;
    bool plain = true, tail = false;
    ft_kv_type nt = FT_KV_F16;
    for (int l = 0; l < p->n_layer; l++) {
        if (!stores_kv(&p->layer[l])) continue;
        const ft_kv_choice c = p->plan[l];
        sum += (double)token_bytes(&p->layer[l], c.kt, c.vt);
        f16 += (double)token_bytes(&p->layer[l], FT_KV_F16, FT_KV_F16);
        plain = plain && c.kt == FT_KV_F16 && c.vt == FT_KV_F16;
        if (c.tail) tail = true, nt = c.nt;
    }
    char total[24], newest[48] = "";
    if (tail)
        snprintf(newest, sizeof newest, "; the most recent %d positions as %s", FT_KV_RECENT,
                 ft_kv_type_name(nt));
    snprintf(to, cap,
             "cache: keys %s, values %s: %.0f bytes per token, %.2f times smaller than f16%s; %s "
             "in total",
             ft_kv_type_name(p->kt), ft_kv_type_name(p->vt), sum, sum > 0 ? f16 / sum : 1.0, newest,
             ft_human_bytes(total, ft_cache_bytes(p)));
    return !plain;
}
