/* dev/split_experts.c - experts of a layer spread over devices. Each device has a range of the
 * experts. The rows of an op are gathered for the devices of their chosen experts, each device
 * computes its rows, and the results return to the device of the layer, which adds them in the
 * order of the choices: the sums are those of one device, bit for bit.
 *
 * Which rows go where is decided by this process, so that it waits for the choices of every layer.
 * Such steps are not captured. */
#include "dev/split_priv.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

/* Experts [*first, *first + result) of E are on a device. */
int ft_split_spread_range(const ft_split_rule *r, int E, int side, int *first)
{
    const int n = __builtin_popcountll(r->spread);
    const int at = __builtin_popcountll(r->spread & ((UINT64_C(1) << side) - 1));
    *first = 0;
    if (!(r->spread >> side & 1)) return 0;
    *first = (int)((int64_t)E * at / n);
    return (int)((int64_t)E * (at + 1) / n) - *first;
}

bool ft_split_spreads(const ft_split_rule *r, const char *tensor)
{
    int l;
    if (!r->spread || !strstr(tensor, "_exps.") || r->n_over) return false;
    return sscanf(tensor, "blk.%d.", &l) == 1 && (l >= r->layers || l >= r->experts);
}

/* ---- weights ---- */

ft_status ft_split_bind_spread(ft_split *s, ft_weight *w, const void *host, ft_err *err)
{
    ft_split_experts *x = ft_new(ft_split_experts);
    const size_t each = ft_type_row(w->type, (size_t)w->k) * (size_t)w->n;
    ft_status st = FT_OK;
    x->part = ft_new_n(ft_weight, (size_t)s->n);
    x->first = ft_new_n(int, (size_t)s->n + 1);
    for (int i = 0; i < s->n && !st; i++) {
        ft_weight *p = &x->part[i];
        const int E = ft_split_spread_range(&s->rule, w->E, i, &x->first[i]);
        if (!E) continue;
        *p = *w;
        p->E = E;
        if (w->scale) p->scale = (const float *)ft_split_at(s, w->scale, i) + x->first[i];
        st = ft_split_use(s, i)->bind(
            s->part[i], p, (const unsigned char *)host + each * (size_t)x->first[i], err);
        s->used |= UINT64_C(1) << i;
    }
    w->side = FT_SPLIT_SPREAD;
    w->data = w->packed = x;
    s->spread = true;
    if (st) ft_split_unbind_spread(s, w);
    return st;
}

void ft_split_unbind_spread(ft_split *s, ft_weight *w)
{
    ft_split_experts *x = w->packed;
    for (int i = 0; i < s->n; i++)
        if (x->part[i].data) ft_split_use(s, i)->unbind(s->part[i], &x->part[i]);
    ft_free(x->part);
    ft_free(x->first);
    ft_free(x);
    w->data = w->packed = NULL;
}

uint64_t ft_split_spread_bytes(ft_split *s, const ft_weight *w)
{
    const ft_split_experts *x = w->packed;
    uint64_t sum = 0;
    for (int i = FT_SPLIT_FAST; i < s->n; i++)
        if (x->part[i].data) sum += ft_split_use(s, i)->weight_bytes(s->part[i], &x->part[i]);
    return sum;
}

static ft_weight weight_on(const ft_weight *w, int side)
{
    return w->data ? ((const ft_split_experts *)w->packed)->part[side] : *w;
}

/* ---- rows ---- */

/* Memory of all devices for the rows of n choices, D values wide. */
static bool rows_ready(ft_split *s, size_t n, size_t D)
{
    ft_split_rows *r = &s->rows;
    char before[sizeof s->alloc_for];
    if (n * D <= r->values && n <= r->n) return true;
    r->values = FT_MAX(r->values, n * D);
    r->n = FT_MAX(r->n, n);
    memcpy(before, s->alloc_for, sizeof before);
    snprintf(s->alloc_for, sizeof s->alloc_for, FT_ALLOC_SCRATCH);
    void **const each[] = {(void **)&r->x,  (void **)&r->z,   (void **)&r->sum,
                           (void **)&r->id, (void **)&r->row, (void **)&r->one};
    bool ok = true;
    for (size_t i = 0; i < FT_COUNT(each); i++) {
        s->dev.free(&s->dev, *each[i]);
        *each[i] = s->dev.alloc(&s->dev, (i < 3 ? r->values : 2 * r->n) * sizeof(float));
        ok = ok && *each[i];
    }
    memcpy(s->alloc_for, before, sizeof before);
    r->host = ft_realloc(r->host, 4 * r->n * sizeof *r->host);
    r->ones = ft_realloc(r->ones, r->n * sizeof *r->ones);
    for (size_t i = 0; i < r->n; i++) r->ones[i] = 1;
    return ok;
}

void ft_split_free_rows(ft_split *s)
{
    ft_split_rows *r = &s->rows;
    void *const each[] = {r->x, r->z, r->sum, r->id, r->row, r->one};
    for (size_t i = 0; i < FT_COUNT(each); i++) s->dev.free(&s->dev, each[i]);
    ft_free(r->host);
    ft_free(r->ones);
    *r = (ft_split_rows){0};
}

/* A table of this process on a device. */
static void *table_on(ft_split *s, void *to, const void *from, size_t bytes, int side)
{
    ft_dev *part = ft_split_use(s, side);
    part->commit(part);
    part->upload(part, ft_split_at(s, to, side), from, bytes);
    ft_split_wrote(s, to, bytes, side);
    return ft_split_at(s, to, side);
}

/* Sorts the choices by device: id[i]: the expert of the i-th row there, by its number on that
 * device; row[i]: the row of x; at[c]: the place of choice c. first[side]: the first row of a
 * device. */
static void sort_choices(const ft_split *s, const ft_split_experts *x, const int32_t *chosen, int n,
                         int K, int *first)
{
    int32_t *id = s->rows.host + s->rows.n, *row = id + s->rows.n, *at = row + s->rows.n;
    int m = 0;
    memset(at, 0, sizeof *at * (size_t)n); /* for a choice that is no expert */
    for (int side = 0; side < s->n; side++) {
        first[side] = m;
        for (int c = 0; c < n && x->part[side].E; c++) {
            const int32_t e = chosen[c] - x->first[side];
            if (e < 0 || e >= x->part[side].E) continue;
            id[m] = e;
            row[m] = c / K;
            at[c] = m++;
        }
    }
    first[s->n] = m;
}

/* The rows [from, to) of a device. */
static void compute_rows(ft_split *s, const ft_experts *e, ft_mat tmp, int from, int to, int D,
                         int side)
{
    ft_split_rows *r = &s->rows;
    const int n = to - from;
    ft_mat x = ft_mat_at(r->x + (size_t)from * (size_t)D, n, D);
    ft_mat z = ft_mat_at(r->z + (size_t)from * (size_t)D, n, D);
    const ft_experts own = {weight_on(&e->gate, side),
                            weight_on(&e->up, side),
                            weight_on(&e->gate_up, side),
                            weight_on(&e->down, side),
                            weight_on(&e->down, side).E,
                            e->F,
                            e->act};
    ft_split_need(s, x.p, ft_mat_extent(x), side);
    x.p = ft_split_at(s, x.p, side);
    const ft_expert_choice c = {table_on(s, r->id, r->host + r->n + from, 4 * (size_t)n, side),
                                table_on(s, r->one, r->ones, sizeof(float) * (size_t)n, side), 1};
    tmp = ft_rows(tmp, 0, n);
    ft_split_wrote(s, tmp.p, ft_mat_extent(tmp), side);
    tmp.p = ft_split_at(s, tmp.p, side);
    ft_split_wrote(s, z.p, ft_mat_extent(z), side);
    z.p = ft_split_at(s, z.p, side);
    ft_dev *part = ft_split_op(s, side);
    part->op->moe(part, z, x, &own, c, tmp, false);
    part->commit(part); /* another process begins at once */
}

static void gather_rows(ft_split *s, ft_mat x, int n, int home)
{
    ft_split_rows *r = &s->rows;
    ft_mat to = ft_mat_at(r->x, n, ft_mat_cols(x));
    const ft_mixing m = {table_on(s, r->row, r->host + 2 * r->n, 4 * (size_t)n, home),
                         table_on(s, r->one, r->ones, sizeof(float) * (size_t)n, home), 1};
    ft_split_wrote(s, to.p, ft_mat_extent(to), home);
    to.p = ft_split_at(s, to.p, home);
    ft_dev *part = ft_split_op(s, home);
    part->op->mix(part, to, x, m, false);
}

/* y, x, r: on the device of the layer. */
void ft_split_moe_spread(ft_split *s, int home, ft_mat y, ft_mat x, const ft_experts *e,
                         ft_expert_choice r, ft_mat tmp, bool acc)
{
    const int D = ft_mat_cols(x), n = x.T * r.K;
    int first[FT_SPLIT_MAX + 1];
    ft_dev *part = ft_split_use(s, home);
    if (s->rows_failed || !rows_ready(s, (size_t)n, (size_t)D)) {
        s->rows_failed = true;
        return;
    }
    ft_split_rows *w = &s->rows;
    part->commit(part);
    part->download(part, w->host, r.id, 4 * (size_t)n);
    sort_choices(s, e->down.packed, w->host, n, r.K, first);
    gather_rows(s, x, n, home);
    for (int i = 0; i <= s->n;
         i++) { /* the device of the layer last: the others compute meanwhile */
        const int side = i < s->n ? i : home;
        if ((i < s->n && i == home) || first[side] == first[side + 1]) continue;
        compute_rows(s, e, tmp, first[side], first[side + 1], D, side);
    }
    ft_mat z = ft_mat_at(w->z, n, D), sum = ft_mat_at(w->sum, x.T, D);
    ft_split_need(s, z.p, ft_mat_extent(z), home);
    z.p = ft_split_at(s, z.p, home);
    sum.p = ft_split_at(s, sum.p, home);
    const ft_mixing m = {table_on(s, w->row, w->host + 3 * w->n, 4 * (size_t)n, home), r.w, r.K};
    part = ft_split_op(s, home);
    part->op->mix(part, acc ? sum : y, z, m, false);
    if (acc) part->op->add(part, y, sum, 1);
    part->commit(part); /* the tables are overwritten by the next layer */
}
