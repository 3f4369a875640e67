/* Products with weights, and the ops that select rows or matrices. */
#include "dev/vulkan/vulkan.h"

#include <limits.h>
#include <string.h>

/* Push constants of linear.comp. */
typedef struct linear_args {
    uint64_t w, x, y, scale, grid, plan, matrix;
    int32_t n, k, T, x_rs, y_rs, y_hs, y_d;
    uint32_t row_bytes;
    int32_t acc, K;
    uint64_t gain;
    float eps;
} linear_args;

/* How many rows of x and of W the lanes of a workgroup have: a choice of speed alone. */
typedef struct tiling {
    uint32_t rows, cols;
} tiling;

static tiling tiling_of(int T, int n)
{
    enum { SMALL = 1024, FILL = 16 }; /* outputs that leave most of a large device idle; rows */
    if (n <= SMALL && T <= FILL) return (tiling){1, T == 1 ? 1 : 2};
    if (T == 1) return (tiling){2, 1};
    if (T == 2) return (tiling){2, 2};
    return T <= 4 ? (tiling){4, 4} : (tiling){4, 8};
}

static linear_args args_of(const ft_vk *v, ft_mat y, ft_mat x, const ft_weight *w, bool acc)
{
    return (linear_args){.w = ft_vk_address(w->data),
                         .x = ft_vk_address(x.p),
                         .y = ft_vk_address(y.p),
                         .scale = ft_vk_address(w->scale),
                         .grid = v->grid,
                         .n = w->n,
                         .k = w->k,
                         .T = x.T,
                         .x_rs = x.rs,
                         .y_rs = y.rs,
                         .y_hs = y.hs,
                         .y_d = y.d,
                         .row_bytes = (uint32_t)w->row_bytes,
                         .acc = acc,
                         .K = 1};
}

/* A grid of n workgroups in x, and in z where there are too many. */
static void run(ft_vk *v, linear_args *a, const ft_weight *w, tiling t, size_t tiles, bool experts)
{
    const size_t blocks = ft_vk_groups((size_t)a->n, 4 * t.rows);
    const size_t x = FT_MIN(blocks, (size_t)FT_VK_GRID);
    const bool fours = a->x % 16 == 0 && a->x_rs % 4 == 0 && a->k % 8 == 0;
    const uint32_t norm = experts ? 0 : v->norm.threads;
    if (norm) {
        a->x = v->norm.x;
        a->gain = v->norm.w;
        a->eps = v->norm.eps;
    }
    ft_vk_dispatch(v, FT_VK_LINEAR, FT_VK_SPEC(w->type, t.rows, t.cols, fours, experts, norm), a,
                   sizeof *a, x, tiles, ft_vk_groups(blocks, x));
}

/* ---- cooperative matrices ---- */

enum {
    ONE = 4,           /* rows up to which one.comp is used, */
    FEW = 64,          /* and few.comp */
    PAIR_ROWS = 32,    /* and for pairs of matrices: shared memory */
    COOP_BLOCK = 256,  /* columns of a block: coop_weights.glsl */
    PACKED_Q6_K = 224, /* bytes of a block of Q6_K there; the others have their size */
};

/* EXPERTS of one.comp, few.comp and many.comp. */
enum { NO_EXPERTS, PLANNED, DIRECT, ROUTED };

/* Push constants of one.comp, few.comp and many.comp. */
typedef struct coop_args {
    uint64_t w, x, y, scale, plan, matrix;
    int32_t n, k, T, x_rs, y_rs, y_hs, y_d;
    uint32_t row_bytes;
    int32_t acc, K, rows, act;
    uint64_t up, up_scale, by;
    int32_t by_rs;
} coop_args;

/* Whether a weight is multiplied on cooperative matrices, for any number of rows. */
static bool coop(const ft_vk *v, const ft_weight *w)
{
    return v->coop && (w->type == FT_Q4_K || w->type == FT_Q5_K || w->packed);
}

/* ---- packed weights ---- */

bool ft_vk_packs(const ft_vk *v, const ft_weight *w)
{
    return v->coop && (w->type == FT_Q6_K || w->type == FT_Q8_0) && w->k % COOP_BLOCK == 0 &&
           !w->lookup && !w->rows;
}

static size_t coop_row_bytes(const ft_weight *w)
{
    const size_t blocks = (size_t)w->k / COOP_BLOCK;
    return w->type == FT_Q6_K && w->packed ? blocks * PACKED_Q6_K : w->row_bytes;
}

uint64_t ft_vk_packed_bytes(const ft_weight *w)
{
    const uint64_t row =
        w->type == FT_Q6_K ? (uint64_t)(w->k / COOP_BLOCK) * PACKED_Q6_K : (uint64_t)w->row_bytes;
    return row * (uint64_t)w->n * (uint64_t)w->E;
}

void ft_vk_pack(ft_vk *v, const ft_weight *w, void *to, const void *from)
{
    const size_t blocks = (size_t)w->k / COOP_BLOCK, rows = (size_t)w->n * (size_t)w->E;
    const size_t y = FT_MIN(rows, (size_t)FT_VK_GRID);
    const struct {
        uint64_t from, to;
        int32_t blocks, rows;
        uint32_t row_bytes;
    } a = {ft_vk_address(from), ft_vk_address(to), (int32_t)blocks, (int32_t)rows,
           (uint32_t)w->row_bytes};
    FT_VK_RUN(v, FT_VK_PACK, FT_VK_SPEC(w->type), a, ft_vk_groups(blocks, 64), y,
              ft_vk_groups(rows, y));
}

/* ---- products ---- */

/* Push constants of halves.comp. */
typedef struct halves_args {
    uint64_t x, y;
    int32_t x_rs, k;
    uint64_t up, by;
    int32_t up_rs, by_rs, act;
} halves_args;

static uint64_t run_halves(ft_vk *v, halves_args *a, int T, ft_vk_scratch_id where)
{
    const size_t k = (size_t)a->k;
    a->y = ft_vk_scratch(v, where, (size_t)T * k * sizeof(uint16_t));
    if (a->y)
        FT_VK_RUN(v, FT_VK_HALVES, FT_VK_SPEC(0, a->up != 0), *a, ft_vk_groups(k, 8 * 128),
                  (size_t)T, 1);
    return a->y;
}

/* The f16 copy of x that many.comp reads; 0: no memory. */
static uint64_t halves_of(ft_vk *v, ft_mat x, ft_vk_scratch_id where)
{
    halves_args a = {.x = ft_vk_address(x.p), .x_rs = x.rs, .k = ft_mat_cols(x)};
    return run_halves(v, &a, x.T, where);
}

/* The same of act(gate) * up, times the sigmoid of a row's `by`, if any. */
static uint64_t halves_of_glu(ft_vk *v, ft_mat gate, ft_mat up, ft_act act, ft_mat by,
                              ft_vk_scratch_id where)
{
    halves_args a = {.x = ft_vk_address(gate.p),
                     .x_rs = gate.rs,
                     .k = ft_mat_cols(gate),
                     .up = ft_vk_address(up.p),
                     .up_rs = up.rs,
                     .by = ft_vk_address(by.p),
                     .by_rs = by.rs,
                     .act = act};
    return run_halves(v, &a, gate.T, where);
}

static coop_args coop_args_of(ft_mat y, ft_mat x, const ft_weight *w, bool acc)
{
    return (coop_args){.w = ft_vk_address(w->data),
                       .x = ft_vk_address(x.p),
                       .y = ft_vk_address(y.p),
                       .scale = ft_vk_address(w->scale),
                       .n = w->n,
                       .k = w->k,
                       .T = x.T,
                       .x_rs = x.rs,
                       .y_rs = y.rs,
                       .y_hs = y.hs,
                       .y_d = y.d,
                       .row_bytes = (uint32_t)coop_row_bytes(w),
                       .acc = acc,
                       .K = 1};
}

/* How many subgroups share a tile. */
static uint32_t share_of(const ft_weight *w)
{
    const int blocks = w->k / COOP_BLOCK;
    return blocks > 4 ? 8 : blocks > 2 ? 4 : blocks > 1 ? 2 : 1;
}

/* Groups of up to `rows` rows, at most ONE, with one matrix or a pair of them. Where there are
 * very many tiles, as of a vocabulary, a workgroup computes several. */
static void one(ft_vk *v, coop_args *a, const ft_weight *w, uint32_t rows, size_t groups,
                int experts)
{
    enum { RESIDENT = 3, MANY = 4 }; /* workgroups that a multiprocessor holds; times as many */
    const bool fours = a->x % 16 == 0 && a->x_rs % 4 == 0;
    const uint32_t share = share_of(w);
    const size_t tiles = ft_vk_groups((size_t)a->n, 16 * (8 / share));
    const size_t most = (size_t)RESIDENT * v->multiprocessors;
    const size_t each = most && !experts && tiles > MANY * most ? ft_vk_groups(tiles, most) : 1;
    a->rows = (int32_t)rows;
    ft_vk_dispatch(
        v, FT_VK_ONE,
        FT_VK_SPEC(w->type, share, a->up ? 2 : 1, fours, (uint32_t)experts, v->order, rows), a,
        sizeof *a, FT_MIN(ft_vk_groups(tiles, each), (size_t)FT_VK_GRID), groups, 1);
}

/* Groups of up to `rows` rows, at most FEW, with one matrix or a pair of them. */
static void few(ft_vk *v, coop_args *a, const ft_weight *w, uint32_t rows, size_t groups,
                int experts)
{
    if (rows <= ONE) {
        one(v, a, w, rows, groups, experts);
        return;
    }
    const bool fours = a->x % 16 == 0 && a->x_rs % 4 == 0;
    const uint32_t share = share_of(w), nt = rows / 8;
    const size_t n = ft_vk_groups((size_t)a->n, 16 * (8 / share));
    const size_t x = FT_MIN(n, (size_t)FT_VK_GRID);
    a->rows = (int32_t)(8 * nt);
    ft_vk_dispatch(
        v, FT_VK_FEW,
        FT_VK_SPEC(w->type, nt, share, fours, (uint32_t)experts, v->order, a->up ? 2 : 1), a,
        sizeof *a, x, groups, ft_vk_groups(n, x));
}

/* Groups of up to 16 nt rows of an f16 copy. */
static void many(ft_vk *v, coop_args *a, const ft_weight *w, uint32_t nt, size_t groups,
                 int experts, uint64_t halves)
{
    a->x = halves;
    a->rows = (int32_t)(16 * nt);
    const size_t outputs = ft_vk_groups((size_t)w->n, 128);
    const bool rows_first = experts == NO_EXPERTS;
    ft_vk_dispatch(v, FT_VK_MANY, FT_VK_SPEC(w->type, nt, (uint32_t)experts, 0, 0, v->order), a,
                   sizeof *a, rows_first ? groups : outputs, rows_first ? outputs : groups, 1);
}

/* ---- linear ---- */

/* The rows of a group that has T of them. */
static uint32_t group_rows(int T)
{
    uint32_t rows = FT_MIN((uint32_t)T, (uint32_t)ONE);
    while (rows < (uint32_t)T) rows *= 2;
    return rows;
}

/* halves: the f16 copy of x, where there are many rows. */
static void linear(ft_vk *v, ft_mat y, ft_mat x, const ft_weight *w, bool acc, uint64_t halves)
{
    const size_t T = (size_t)x.T;
    if (!coop(v, w)) {
        const tiling t = tiling_of(x.T, w->n);
        linear_args a = args_of(v, y, x, w, acc);
        run(v, &a, w, t, ft_vk_groups(T, t.cols), false);
        return;
    }
    coop_args a = coop_args_of(y, x, w, acc);
    if (x.T > FEW) {
        many(v, &a, w, 8, ft_vk_groups(T, 128), NO_EXPERTS, halves);
        return;
    }
    few(v, &a, w, group_rows(x.T), 1, NO_EXPERTS);
}

/* Before products of x with plain weights: if its norm was the last op, they compute it themselves
 * and run at the same time. */
static void start_plain(ft_vk *v, const ft_product_out *o, int n, ft_mat x)
{
    if (ft_vk_address(x.p) % 16 == 0 && x.rs % 4 == 0 && ft_mat_cols(x) % 8 == 0)
        v->norm = ft_vk_norm_of(v, x);
    for (int i = 0; i < n; i++) /* the input of the norm is still read */
        if (ft_vk_address(o[i].y.p) == v->norm.x) v->norm.threads = 0;
    if (v->norm.threads)
        ft_vk_beside(v);
    else
        ft_vk_barrier(v);
}

void ft_vk_linears(ft_dev *d, const ft_product_out *o, int n, ft_mat x)
{
    ft_vk *v = (ft_vk *)d;
    bool some = false;
    uint64_t halves = 0;
    for (int i = 0; i < n; i++) some = some || coop(v, o[i].w);
    if (some && x.T > FEW && !(halves = halves_of(v, x, FT_VK_SCRATCH_HALVES))) return;
    if (some)
        ft_vk_barrier(v);
    else
        start_plain(v, o, n, x);
    for (int i = 0; i < n; i++) linear(v, o[i].y, x, o[i].w, false, halves);
    v->norm.threads = 0;
}

void ft_vk_linear(ft_dev *d, ft_mat y, ft_mat x, const ft_weight *w, bool acc)
{
    ft_vk *v = (ft_vk *)d;
    uint64_t halves = 0;
    if (coop(v, w) && x.T > FEW && !(halves = halves_of(v, x, FT_VK_SCRATCH_HALVES))) return;
    ft_vk_beside_conv(v, y);
    ft_vk_barrier(v);
    linear(v, y, x, w, acc, halves);
}

/* A pair of matrices of the same shape whose results few.comp joins: y = act(gate) * up, times the
 * sigmoid of a row's `by`, if any. */
typedef struct pair {
    const ft_weight *gate, *up;
    uint64_t up_at; /* the address of up */
    int n;          /* outputs of each */
    ft_act act;
    ft_mat by;
} pair;

static bool can_join(const ft_vk *v, const ft_weight *gate, const ft_weight *up, int T)
{
    return T <= PAIR_ROWS && coop(v, gate) && coop(v, up) && gate->type == up->type &&
           gate->n == up->n && gate->k == up->k;
}

static coop_args pair_args(ft_mat y, ft_mat x, const pair *p)
{
    coop_args a = coop_args_of(y, x, p->gate, false);
    a.n = p->n;
    a.act = p->act;
    a.up = p->up_at;
    a.up_scale = ft_vk_address(p->up->scale);
    a.by = ft_vk_address(p->by.p);
    a.by_rs = p->by.rs;
    return a;
}

static pair pair_of(const ft_weight *gate, const ft_weight *up, ft_act act)
{
    return (pair){gate, up, ft_vk_address(up->data), gate->n, act, {0}};
}

static void linear_pair(ft_vk *v, ft_mat y, ft_mat x, const pair *p)
{
    coop_args a = pair_args(y, x, p);
    few(v, &a, p->gate, group_rows(x.T), 1, NO_EXPERTS);
}

void ft_vk_glu(ft_dev *d, ft_mat y, ft_mat u, ft_mat x, const ft_weight *gate, const ft_weight *up,
               ft_act act)
{
    ft_vk *v = (ft_vk *)d;
    const ft_product_out o[] = {{y, gate}, {u, up}};
    if (can_join(v, gate, up, x.T)) {
        const pair p = pair_of(gate, up, act);
        ft_vk_barrier(v);
        linear_pair(v, y, x, &p);
        return;
    }
    ft_vk_linears(d, o, 2, x);
    ft_vk_act_mul(d, y, y, u, act);
}

void ft_vk_embed(ft_dev *d, ft_mat y, const ft_weight *w, float scale)
{
    ft_vk *v = (ft_vk *)d;
    const struct {
        ft_vk_mat y;
        uint64_t w, scale, grid, batch;
        uint32_t row_bytes;
        int32_t k;
        float f;
    } a = {ft_vk_mat_of(y),
           ft_vk_address(w->data),
           ft_vk_address(w->scale),
           v->grid,
           v->batch_mem.address,
           (uint32_t)w->row_bytes,
           w->k,
           scale};
    FT_VK_RUN(v, FT_VK_EMBED, FT_VK_SPEC(w->type), a, ft_vk_groups((size_t)w->k, 8 * 64),
              (size_t)y.T, 1);
}

/* ---- experts ---- */

/* Push constants of select.comp. */
typedef struct select_args {
    ft_vk_mat x;
    uint64_t id, w;
    int32_t K;
} select_args;

static void select_top(ft_vk *v, enum ft_vk_select op, ft_mat x, uint64_t id, uint64_t w, int K)
{
    const select_args a = {ft_vk_mat_of(x), id, w, K};
    FT_VK_RUN(v, FT_VK_SELECT, FT_VK_SPEC(op), a, (size_t)x.T, 1, 1);
}

void ft_vk_route(ft_dev *d, ft_expert_choice r, ft_mat x)
{
    ft_vk *v = (ft_vk *)d;
    select_top(v, FT_VK_ROUTE, x, ft_vk_address(r.id), ft_vk_address(r.w), r.K);
}

/* How the pairs of rows and experts of a step are multiplied. */
typedef struct plan {
    uint64_t at; /* the list of plan.comp, or the experts of the pairs */
    size_t tiles;
    tiling t;       /* of linear.comp */
    int rows;       /* of a tile */
    bool direct;    /* each pair is a tile of one.comp */
    bool many;      /* many.comp is used */
    uint64_t score; /* of the experts, which are being chosen (one.comp); 0: they are chosen */
    int score_rs;
} plan;

/* Which of the matrices are multiplied on cooperative matrices. */
typedef enum coop_share { COOP_NONE, COOP_SOME, COOP_ALL } coop_share;

static plan plan_of(ft_vk *v, ft_expert_choice r, int T, int E, coop_share coop)
{
    const size_t pairs = (size_t)T * (size_t)r.K;
    const uint64_t ids = ft_vk_address(r.id);
    plan p = {0};
    p.t = coop == COOP_NONE && pairs <= (size_t)E ? tiling_of(1, INT_MAX) : tiling_of(8, INT_MAX);
    p.rows = (int)p.t.cols;
    if (coop == COOP_ALL) {
        p.direct = pairs <= FEW;
        p.many = !p.direct && pairs > 16 * (size_t)E;
        p.rows = p.direct                ? 1
                 : p.many                ? 64
                 : pairs > 8 * (size_t)E ? 16
                 : pairs > 2 * (size_t)E ? 8
                 : pairs > (size_t)E     ? 4
                                         : 2;
    }
    p.tiles = p.direct ? pairs : FT_MIN(pairs, ft_vk_groups(pairs, (size_t)p.rows) + (size_t)E);
    p.at = p.direct ? ids : ft_vk_scratch(v, FT_VK_SCRATCH_PLAN, 8 + 12 * p.tiles + 4 * pairs);
    if (!p.at || p.direct) return p;
    const struct {
        uint64_t id, plan;
        int32_t pairs, E, tile, tiles;
    } a = {ids, p.at, (int32_t)pairs, E, p.rows, (int32_t)p.tiles};
    const bool wide = v->props.limits.maxComputeWorkGroupInvocations >= 1024;
    FT_VK_RUN(v, FT_VK_PLAN, FT_VK_SPEC(wide ? 1024 : 256), a, 1, 1, 1);
    return p;
}

/* y[pair] = W of its expert times x[pair / K]. halves: the f16 copy of x, for many.comp. */
static void expert(ft_vk *v, const plan *p, ft_mat y, ft_mat x, const ft_weight *w, int K, bool acc,
                   uint64_t halves)
{
    if (!coop(v, w)) {
        linear_args a = args_of(v, y, x, w, acc);
        a.plan = p->at;
        a.matrix = (uint64_t)w->row_bytes * (uint64_t)w->n;
        a.K = K;
        run(v, &a, w, p->t, p->tiles, true);
        return;
    }
    coop_args a = coop_args_of(y, x, w, acc);
    a.plan = p->at;
    a.matrix = (uint64_t)coop_row_bytes(w) * (uint64_t)w->n;
    a.K = K;
    if (p->many)
        many(v, &a, w, (uint32_t)p->rows / 16, p->tiles, PLANNED, halves);
    else
        few(v, &a, w, (uint32_t)p->rows, p->tiles, p->direct ? DIRECT : PLANNED);
}

/* Gate and up of the experts as a pair; false: not possible. */
static bool expert_pair(const ft_vk *v, const plan *p, const ft_experts *e, pair *out)
{
    if (p->many) return false;
    if (!e->gate_up.data) {
        *out = pair_of(&e->gate, &e->up, e->act);
        return can_join(v, &e->gate, &e->up, 1);
    }
    *out = pair_of(&e->gate_up, &e->gate_up, e->act);
    out->n = e->F;
    out->up_at += (uint64_t)coop_row_bytes(&e->gate_up) * (uint64_t)e->F;
    return coop(v, &e->gate_up);
}

/* tmp: act(gate) * up of the pairs, in its first columns. */
static void expert_gates(ft_vk *v, const plan *p, ft_mat x, const ft_experts *e, int K, ft_mat tmp,
                         uint64_t halves, const pair *both)
{
    const ft_mat gate = ft_cols(tmp, 0, e->F);
    if (both) {
        coop_args a = pair_args(gate, x, both);
        a.plan = p->at;
        a.matrix = (uint64_t)coop_row_bytes(both->gate) * (uint64_t)both->gate->n;
        a.K = K;
        if (p->score) {
            a.plan = p->score;
            a.by_rs = p->score_rs;
            a.T = e->E;
        }
        few(v, &a, both->gate, (uint32_t)p->rows, p->tiles,
            p->score    ? ROUTED
            : p->direct ? DIRECT
                        : PLANNED);
    } else if (e->gate_up.data) {
        expert(v, p, tmp, x, &e->gate_up, K, false, halves);
    } else {
        expert(v, p, gate, x, &e->gate, K, false, halves);
        expert(v, p, ft_cols(tmp, e->F, e->F), x, &e->up, K, false, halves);
    }
}

static coop_share coop_experts(const ft_vk *v, const ft_experts *e)
{
    const int all = e->gate_up.data ? 2 : 3;
    const int n = e->gate_up.data ? coop(v, &e->gate_up) : coop(v, &e->gate) + coop(v, &e->up);
    const int found = n + coop(v, &e->down);
    return found == all ? COOP_ALL : found ? COOP_SOME : COOP_NONE;
}

/* Gate and up of the shared expert, joined. */
static void shared_gates(ft_vk *v, ft_mat x, const ft_experts *e, const ft_shared_expert *sh)
{
    pair p = pair_of(sh->gate, sh->up, e->act);
    p.by = sh->s;
    linear_pair(v, sh->g, x, &p);
}

/* If the last dispatch, after a barrier, chooses the experts of a plan from their scores, gate and
 * up can be computed at the same time: one.comp finds the experts by itself. */
static void choose_beside(const ft_vk *v, plan *p, int K, int E)
{
    enum { EXPERTS = 256, CHOSEN = 32 }; /* routed_expert of one.comp */
    const ft_vk_command *c = v->cmd && v->n_list > 1 ? &v->list[v->n_list - 1] : NULL;
    select_args s;
    if (!p->direct || K > CHOSEN || E > EXPERTS || !c || c[0].kind != FT_VK_DISPATCH ||
        c[-1].kind != FT_VK_BARRIER || c->pipeline->shader != FT_VK_SELECT ||
        c->pipeline->spec[0] != FT_VK_ROUTE)
        return;
    memcpy(&s, c->push, sizeof s);
    if (s.id != p->at || s.x.H != 1 || s.x.d != E || s.K != K) return;
    p->score = s.x.p;
    p->score_rs = s.x.rs;
}

/* sh: the shared expert, or NULL. */
static void moe(ft_vk *v, ft_mat y, ft_mat x, const ft_experts *e, ft_expert_choice r, ft_mat tmp,
                const ft_shared_expert *sh, bool acc)
{
    const int D = e->down.n;
    const size_t pairs = (size_t)x.T * (size_t)r.K;
    const ft_mat gate = ft_cols(tmp, 0, e->F), up = ft_cols(tmp, e->F, e->F);
    const uint64_t sums =
        ft_vk_scratch(v, FT_VK_SCRATCH_EXPERTS, pairs * (size_t)D * sizeof(float));
    const ft_mat out = ft_mat_at((float *)(uintptr_t)sums, (int)pairs, D);
    plan p = plan_of(v, r, x.T, e->E, coop_experts(v, e));
    const bool wide = sh && x.T > FEW && (coop(v, sh->gate) || coop(v, sh->up));
    const bool wide_down = sh && x.T > FEW && coop(v, sh->down);
    uint64_t halves = 0, shared = 0;
    if (!sums || !p.at) return;
    if (p.many) ft_vk_beside(v); /* the copy does not need the plan */
    if ((p.many || wide) && !(halves = halves_of(v, x, FT_VK_SCRATCH_HALVES))) return;
    pair both;
    const bool joined = expert_pair(v, &p, e, &both);
    const bool sh_joined = sh && can_join(v, sh->gate, sh->up, x.T);
    if (joined) choose_beside(v, &p, r.K, e->E);
    if (p.score) ft_vk_beside(v);
    ft_vk_barrier(v);
    expert_gates(v, &p, x, e, r.K, tmp, halves, joined ? &both : NULL);
    if (sh_joined) {
        shared_gates(v, x, e, sh);
    } else if (sh) {
        linear(v, sh->g, x, sh->gate, false, halves);
        linear(v, sh->u, x, sh->up, false, halves);
    }
    if (p.many) {
        halves = halves_of_glu(v, gate, up, e->act, (ft_mat){0}, FT_VK_SCRATCH_HALVES);
        if (!halves) return;
    } else if (!joined) {
        ft_vk_act_mul(&v->dev, gate, gate, up, e->act);
    }
    if (!joined && sh && !sh_joined) ft_vk_beside(v);
    if (wide_down && !sh_joined) {
        shared = halves_of_glu(v, sh->g, sh->u, e->act, sh->s, FT_VK_SCRATCH_SHARED);
        if (!shared) return;
    } else if (sh && !sh_joined) {
        ft_vk_act_mul_by(v, sh->g, sh->g, sh->u, e->act, sh->s);
    }
    ft_vk_barrier(v);
    expert(v, &p, out, gate, &e->down, 1, false, halves);
    if (sh) linear(v, y, sh->g, sh->down, true, shared);
    ft_vk_combine(v, y, out, r.w, r.K, acc);
}

void ft_vk_moe(ft_dev *d, ft_mat y, ft_mat x, const ft_experts *e, ft_expert_choice r, ft_mat tmp,
               bool acc)
{
    moe((ft_vk *)d, y, x, e, r, tmp, NULL, acc);
}

void ft_vk_moe_shared(ft_dev *d, ft_mat y, ft_mat x, const ft_experts *e, ft_expert_choice r,
                      ft_mat tmp, const ft_shared_expert *sh)
{
    moe((ft_vk *)d, y, x, e, r, tmp, sh, true);
}

void ft_vk_expert_linear(ft_dev *d, ft_mat y, ft_mat x, const ft_weight *w, ft_expert_choice r,
                         bool acc)
{
    ft_vk *v = (ft_vk *)d;
    r.K = 1;
    const plan p = plan_of(v, r, y.T, w->E, coop(v, w) ? COOP_ALL : COOP_NONE);
    uint64_t halves = 0;
    if (!p.at || (p.many && !(halves = halves_of(v, x, FT_VK_SCRATCH_HALVES)))) return;
    ft_vk_barrier(v);
    expert(v, &p, y, x, w, y.T / x.T, acc, halves);
}

/* ---- centroid_head ---- */

void ft_vk_centroid_head(ft_dev *d, ft_mat y, ft_mat x, ft_mat score, const ft_weight *w,
                         const int32_t *order, int top)
{
    ft_vk *v = (ft_vk *)d;
    const int n_c = ft_mat_cols(score), some = FT_MIN(top, n_c), group = w->n / n_c;
    const uint64_t chosen =
        ft_vk_scratch(v, FT_VK_SCRATCH_TOP, (size_t)x.T * (size_t)some * sizeof(int32_t));
    if (!chosen) return;
    select_top(v, FT_VK_TOP, score, chosen, 0, some);
    ft_vk_minus_inf(v, y);
    const struct {
        ft_vk_mat y, x;
        uint64_t w, scale, grid, order, chosen;
        uint32_t row_bytes;
        int32_t k, group, top;
    } a = {ft_vk_mat_of(y),
           ft_vk_mat_of(x),
           ft_vk_address(w->data),
           ft_vk_address(w->scale),
           v->grid,
           ft_vk_address(order),
           chosen,
           (uint32_t)w->row_bytes,
           w->k,
           group,
           some};
    FT_VK_RUN(v, FT_VK_CENTROID, FT_VK_SPEC(w->type), a,
              ft_vk_groups((size_t)group * (size_t)some, 4), (size_t)x.T, 1);
}
