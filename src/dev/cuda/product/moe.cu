/* Experts. route chooses them; moe sorts the choices by expert, so that an expert's weights are
 * read once for all of its rows, multiplies, and adds each row's results in the order of its
 * choices. All of it is on the device: the number of rows per expert is known to the kernels only.
 * For up to four rows the kernels that multiply choose and sort (chosen.cuh): a step of one row of
 * the 35b-a3b takes 1.56 ms on an H200 instead of 1.68, of four rows 2.38 instead of 2.71.
 *
 * On an H200, a layer of 35b-a3b (256 experts of 2048 x 512, 8 chosen): one row 10 us for gate and
 * up, 7 for down (18 MB: 1.1 TB/s, 24 % of a plain read), routing 5, adding 3: dependent kernels,
 * bound by latency. 16 rows: 41 us for gate and up of about 100 experts and the shared one, 24 for
 * down (203 MB: 3.1 TB/s, 68 %; listed.cuh), adding 4. 2048 rows: 326 and 227 us (rows_wgmma.cuh),
 * two fifths of a prompt. docs/why/0033 has the other kernels of a layer. */
#include "dev/cuda/product/product.cuh"

/* ---- route ---- */

__device__ __forceinline__ void route_any(const ft_expert_choice &r, const ft_mat &x, int E, int t,
                                          int32_t *chosen)
{
    if (E <= 256)
        route_row<8>(r, x, E, t, chosen);
    else
        route_row<32>(r, x, E, t, chosen);
}

static __global__ void route_kernel(ft_expert_choice r, ft_mat x, int E)
{
    wait_for_previous_kernel();
    const int t = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    if (t < x.T) route_any(r, x, E, t, NULL);
}

/* ---- sorting rows by expert ---- */

enum {
    PLAN_THREADS = 1024, /* one for each expert */
    ROUTE_ROWS = 16,     /* most that one block routes and sorts: it computes 4 rows in a us */
    ROUTE_CHOICES = 512,
    SHORT_PLAN = 8 /* most rows whose choices a warp sorts */
};

typedef struct plan {
    ft_item *item;
    int32_t *n_item, *list;
    int items; /* maximum */
} plan;

/* One block, a thread for each expert: counts, offsets, then the list of choices by expert, cut
 * into items of up to `tokens` rows: as few as possible, of about as many rows each. */
__device__ __forceinline__ void make_plan(const plan &p, const int32_t *id, int n, int tokens)
{
    __shared__ int start[PLAN_THREADS], rows[32], items[32]; /* the last two: sums of warps */
    const int e = threadIdx.x, warp = e >> 5, lane = e & 31;
    start[e] = 0;
    __syncthreads();
    for (int i = e; i < n; i += blockDim.x) atomicAdd(&start[id[i]], 1);
    __syncthreads();
    const int mine = start[e], cut = (mine + tokens - 1) / tokens;
    int first = warp_running_sum(mine), at = warp_running_sum(cut);
    if (lane == 31) rows[warp] = first, items[warp] = at;
    __syncthreads();
    for (int i = 0; i < warp; i++) first += rows[i], at += items[i];
    if (e == (int)blockDim.x - 1) *p.n_item = at;
    first -= mine;
    at -= cut;
    start[e] = first;
    const int each = min(tokens, (mine + 32 * cut - 1) / max(32 * cut, 1) * 32);
    for (int i = 0; i < cut; i++)
        p.item[at + i] = ft_item{e, first + i * each, min(each, mine - i * each)};
    __syncthreads();
    for (int i = e; i < n; i += blockDim.x) p.list[atomicAdd(&start[id[i]], 1)] = i;
}

static __global__ void __launch_bounds__(PLAN_THREADS)
    plan_kernel(plan p, const int32_t *id, int n, int tokens)
{
    wait_for_previous_kernel();
    make_plan(p, id, n, tokens);
}

/* Few choices: a warp for each row, the first of which sorts. */
static __global__ void __launch_bounds__(32 * SHORT_PLAN)
    route_short_kernel(ft_expert_choice r, ft_mat x, int E, plan p)
{
    __shared__ int32_t id[SORT_SHORT];
    const int t = threadIdx.x / 32;
    wait_for_previous_kernel();
    route_any(r, x, E, t, id + t * r.K);
    __syncthreads();
    if (!t) sort_short(p.item, p.list, p.n_item, id, x.T * r.K);
}

/* Few rows: routing and sorting in one block, which has a warp for each row and a thread for each
 * expert. */
static __global__ void __launch_bounds__(PLAN_THREADS)
    route_plan_kernel(ft_expert_choice r, ft_mat x, int E, plan p, int tokens)
{
    __shared__ int32_t id[ROUTE_CHOICES];
    const int t = threadIdx.x / 32;
    wait_for_previous_kernel();
    if (t < x.T) route_any(r, x, E, t, id + t * r.K);
    make_plan(p, id, x.T * r.K, tokens);
}

/* Most rows of an item. The rows of the busiest expert are not known here, so it follows the
 * average. With 16 rows an expert takes as long on warpgroups as without. */
static int item_tokens(const ft_cuda *c, int T, int K, int E)
{
    const int average = T * K / E;
    if (average < 8) return 8;
    if (average <= 16) return 16;
    if (ft_cuda_wide(c, T)) return average > ROWS_FEW ? ROWS_MANY : ROWS_FEW;
    return ft_cuda_tiled(c) ? ROWS_FEW : 16;
}

/* Memory for the sorted list of n choices; false: no memory. */
static bool plan_place(ft_cuda *c, plan *p, int n, int E, int tokens)
{
    p->items = FT_MIN(n, E + n / tokens);
    const size_t head = ft_round_up(sizeof(ft_item) * (size_t)p->items, 16);
    unsigned char *m = (unsigned char *)ft_cuda_scratch(c, FT_SCRATCH_PLAN,
                                                        head + sizeof(int32_t) * ((size_t)n + 4));
    p->item = (ft_item *)m;
    p->n_item = (int32_t *)(m + head);
    p->list = p->n_item + 4;
    return m != NULL;
}

/* Sorts the first n choices, unless that is done. */
static void sort_choices(ft_cuda *c, const plan &p, ft_expert_choice r, int n, int tokens)
{
    if (c->planned == r.id && c->n_planned == n) return;
    FT_LAUNCH_NEXT(c, plan_kernel, 1, PLAN_THREADS, 0, p, r.id, n, tokens);
    c->planned = r.id;
    c->n_planned = n;
}

/* Routes the rows of x, and sorts the choices if there are few. */
static void route_rows(ft_cuda *c, ft_expert_choice r, ft_mat x)
{
    const int E = ft_mat_cols(x), tokens = item_tokens(c, x.T, r.K, E), n = x.T * r.K;
    plan p;
    if (x.T > ROUTE_ROWS || n > ROUTE_CHOICES || !plan_place(c, &p, n, E, tokens)) {
        FT_LAUNCH_NEXT(c, route_kernel, ft_blocks((size_t)x.T, 4), 128, 0, r, x, E);
        return;
    }
    if (n <= SORT_SHORT && x.T <= SHORT_PLAN)
        FT_LAUNCH_NEXT(c, route_short_kernel, 1, 32 * x.T, 0, r, x, E, p);
    else
        FT_LAUNCH_NEXT(c, route_plan_kernel, 1, FT_MAX(32 * x.T, (E + 31) / 32 * 32), 0, r, x, E, p,
                       tokens);
    c->planned = r.id; /* until the next step */
    c->n_planned = n;
}

extern "C" void ft_cuda_route_now(ft_cuda *c)
{
    if (c->unrouted.r.id) route_rows(c, c->unrouted.r, c->unrouted.x);
    c->unrouted.r.id = NULL;
}

/* The choices of few rows are put off: the next op is moe, whose kernels may make them. If they do
 * not, it is better to choose now, while the next kernel reads its weights. */
extern "C" void ft_cuda_route(ft_dev *d, ft_expert_choice r, ft_mat x)
{
    ft_cuda *c = (ft_cuda *)d;
    assert(ft_mat_cols(x) <= PLAN_THREADS);
    ft_cuda_route_now(c);
    c->planned = NULL;
    c->unrouted.r = r;
    c->unrouted.x = x;
    if (x.T > (c->experts_of_eight ? CHOSEN_ROWS : 1) || x.T * r.K > SORT_SHORT ||
        ft_mat_cols(x) > ROUTE_MAX)
        ft_cuda_route_now(c);
}

/* ---- the experts ---- */

/* y[t] = sum over i of w[i] * part[t K + i], in this order, after the shared expert's result in
 * part[T K + t]. */
static __global__ void combine_kernel(ft_mat y, const float *part, ft_expert_choice r, bool acc,
                                      const float *gate, int gate_rs)
{
    wait_for_previous_kernel();
    const int t = blockIdx.x, n = y.H * y.d;
    const float shared_weight = gate ? 1.0f / (1.0f + expf(-gate[(size_t)t * gate_rs])) : 0.0f;
    for (int c = blockIdx.y * blockDim.x + threadIdx.x; c < n; c += blockDim.x * gridDim.y) {
        const float *from = part + (size_t)t * r.K * n + c;
        float *at = mat_value(y, t, c), old = acc ? *at : 0.0f, sum = 0;
        const float shared = gate ? part[((size_t)y.T * r.K + t) * n + c] : 0.0f;
        for (int first = 0; first < r.K; first += 8, from += (size_t)8 * n) {
            float v[8], w[8]; /* all loads are issued before the first value is used */
#pragma unroll
            for (int i = 0; i < 8; i++) {
                v[i] = first + i < r.K ? from[(size_t)i * n] : 0.0f;
                w[i] = first + i < r.K ? r.w[t * r.K + first + i] : 0.0f;
            }
#pragma unroll
            for (int i = 0; i < 8; i++)
                if (first + i < r.K) sum = fmaf(w[i], v[i], sum);
        }
        if (gate) old = fmaf(shared_weight, shared, old);
        *at = old + sum;
    }
}

/* act(gate) * up where the two could not share a launch: from the two halves of tmp to the
 * planes of the result. */
static __global__ void join_kernel(ft_mat tmp, int F, int act, uint16_t *s, ft_plane plane,
                                   bool wide)
{
    wait_for_previous_kernel();
    const int i = blockIdx.x, cols = (F + 63) / 64 * 64;
    for (int f = blockIdx.y * blockDim.x + threadIdx.x; f < cols; f += blockDim.x * gridDim.y) {
        const float *g = tmp.p + (size_t)i * tmp.rs;
        const float v = f < F ? act_of(g[f], act) * g[F + f] : 0.0f;
        bf16_put(s, plane, bf16_index(tmp.T, wide, i, f), v);
    }
}

static ft_product expert_product(const plan &p, const uint16_t *x, size_t plane, int rows,
                                 bool wide, int div)
{
    ft_product q = {};
    q.x = x;
    q.x_plane = plane;
    q.x_T = q.T = rows;
    q.wide = wide;
    q.item = p.item;
    q.n_item = p.n_item;
    q.list = p.list;
    q.list_div = div;
    return q;
}

/* Gate and up of the experts as segments. */
static void pair_of(const ft_cuda *c, const ft_experts *e, ft_seg s[2])
{
    if (!e->gate_up.data) {
        s[0] = ft_product_seg(c, &e->gate, NULL, 0);
        s[1] = ft_product_seg(c, &e->up, NULL, 0);
        return;
    }
    s[0] = s[1] = ft_product_seg(c, &e->gate_up, NULL, 0);
    s[0].w.n = s[1].w.n = e->F;
    s[1].w.p += (size_t)ft_unit_bytes(ft_product_type(&e->gate_up)) * (size_t)s[1].w.units *
                (size_t)(e->F / TILE_N);
}

/* The copy of x for weights of a type; in `narrow` if the order for few rows is needed. */
static const uint16_t *rows_for(ft_cuda *c, ft_mat x, uint16_t *narrow, ft_type type)
{
    return narrow ? ft_product_narrow(c, narrow, x, type) : ft_product_x(c, x, type);
}

/* Gate and up as separate products into tmp, then joined: their types differ, or the tiles do not
 * divide. */
static void hidden_apart(ft_cuda *c, const ft_experts *e, const ft_product *base, ft_mat x,
                         uint16_t *narrow, ft_mat tmp, uint16_t *h, ft_plane plane, int tokens,
                         int items)
{
    const ft_weight *w[2] = {e->gate_up.data ? &e->gate_up : &e->gate,
                             e->gate_up.data ? NULL : &e->up};
    for (int i = 0; i < 2 && w[i]; i++) {
        ft_product p = *base;
        p.x = rows_for(c, x, narrow, ft_product_type(w[i]));
        if (!p.x) return;
        p.seg[0] = ft_product_seg(c, w[i], tmp.p + i * e->F, tmp.rs);
        p.n_seg = 1;
        ft_product_run(c, &p, ft_product_type(w[i]), tokens, items);
    }
    FT_LAUNCH_NEXT(c, join_kernel, dim3((unsigned)tmp.T, ft_blocks((size_t)e->F, 256)), 256, 0, tmp,
                   e->F, (int)e->act, h, plane, base->wide);
}

/* Whether gate and up can be multiplied in one launch. */
static bool in_pairs(const ft_experts *e)
{
    const bool fused = e->gate_up.data != NULL;
    return (fused ? e->F % TILE_N == 0 : ft_product_type(&e->gate) == ft_product_type(&e->up)) &&
           e->F % UNIT_K == 0;
}

/* Adds the matrix of the shared expert to a segment. */
static void add_own(const ft_cuda *c, ft_seg *s, const ft_weight *w)
{
    const ft_seg shared = ft_product_seg(c, w, NULL, 0);
    s->shared_w = shared.w.p;
    s->shared_scale = w->scale;
}

/* Whether the kernels of gate and up and of the down projections can choose the experts. */
static bool can_choose(const ft_cuda *c, const ft_product *up, ft_type up_type,
                       const ft_product *down, ft_type down_type, int tokens, int items)
{
    const int up_unit = ft_unit_bytes(up_type), down_unit = ft_unit_bytes(down_type);
    if (!down_fits(c, down, down_unit, tokens, items)) return false;
    return up->T == 1 ? split_chooses(c, up, up_unit, tokens, items)
                      : few_chooses(c, up, up_unit, down, down_unit, tokens, items);
}

/* moe, with the shared expert as one more expert that has all rows (sh: or NULL). Its results
 * follow the others'. */
static void run_experts(ft_cuda *c, ft_mat y, ft_mat x, const ft_experts *e, ft_expert_choice r,
                        ft_mat tmp, bool acc, const ft_shared_expert *sh)
{
    const int T = x.T, n = T * r.K, D = e->down.n, F = e->F, rows = n + (sh ? T : 0);
    const int tokens = item_tokens(c, T, r.K, e->E);
    const ft_type type = ft_product_type(e->gate_up.data ? &e->gate_up : &e->gate);
    const bool wide = ft_cuda_wide(c, T) && tokens >= ROWS_FEW;
    const bool few = ft_cuda_wide(c, T) && !wide; /* many rows in total, but few per expert */
    plan p;
    float *part =
        (float *)ft_cuda_scratch(c, FT_SCRATCH_MOE, sizeof(float) * (size_t)rows * (size_t)D);
    const ft_plane plane = ft_product_plane(rows, F, ft_product_type(&e->down));
    const size_t x_plane = bf16_plane(T, ft_mat_cols(x));
    uint16_t *h = (uint16_t *)ft_cuda_scratch(
        c, FT_SCRATCH_MOE_HIDDEN, 2 * (plane.at + (few ? x_plane : 0)) * sizeof(uint16_t));
    if (!part || !h || !plan_place(c, &p, n, e->E, tokens)) return;
    uint16_t *narrow = few ? h + 2 * plane.at : NULL;
    const uint16_t *xs = rows_for(c, x, narrow, type);
    if (!xs) return;

    ft_product up = expert_product(p, xs, x_plane, T, wide, r.K);
    ft_product down = expert_product(p, plane.half ? h + plane.at : h, plane.at, rows, wide, 1);
    down.seg[0] = ft_product_seg(c, &e->down, part, D);
    down.n_seg = 1;
    down.item_old = true;
    if (y.H == 1 || y.hs == y.d)
        down.sum = ft_expert_sum{
            y.p, y.rs, r.K, T, acc, r.id, r.w, sh ? sh->s.p : NULL, sh ? sh->s.rs : 0};
    const bool pairs = in_pairs(e);
    if (pairs) {
        pair_of(c, e, up.seg);
        up.n_seg = 2;
        up.glu = true;
        up.act = e->act;
        up.out = h;
        up.out_plane = plane;
        up.out_T = rows;
    }
    if (sh) {
        add_own(c, &up.seg[0], sh->gate);
        add_own(c, &up.seg[1], sh->up);
        add_own(c, &down.seg[0], sh->down);
        up.shared_blocks = down.shared_blocks = (int)ft_blocks((size_t)T, (size_t)tokens);
        up.shared_T = down.shared_T = T;
        up.shared_y = down.shared_x = down.shared_y = n;
    }
    if (c->unrouted.r.id == r.id &&
        can_choose(c, &up, type, &down, ft_product_type(&e->down), tokens, p.items)) {
        up.logits = down.logits = ft_logits{c->unrouted.x, e->E, r.K};
        c->unrouted.r.id = NULL;
    } else {
        ft_cuda_route_now(c);
        sort_choices(c, p, r, n, tokens);
    }
    if (pairs)
        ft_product_run(c, &up, type, tokens, p.items);
    else
        hidden_apart(c, e, &up, x, narrow, tmp, h, plane, tokens, p.items);
    ft_cuda_wrote(c, tmp);
    ft_product_prepare(c, h, rows, F, wide, ft_product_type(&e->down));
    ft_product_run(c, &down, ft_product_type(&e->down), tokens, p.items);
    ft_cuda_wrote(c, y);
    if (down.summed) return;
    FT_LAUNCH_NEXT(c, combine_kernel, dim3((unsigned)T, ft_blocks((size_t)D, 256)), 256, 0, y, part,
                   r, acc, sh ? sh->s.p : NULL, sh ? sh->s.rs : 0);
}

extern "C" void ft_cuda_moe(ft_dev *d, ft_mat y, ft_mat x, const ft_experts *e, ft_expert_choice r,
                            ft_mat tmp, bool acc)
{
    run_experts((ft_cuda *)d, y, x, e, r, tmp, acc, NULL);
}

/* Whether the shape and types of the shared expert are those of the routed experts. */
static bool shared_alike(const ft_experts *e, const ft_shared_expert *sh)
{
    const ft_type type = ft_product_type(e->gate_up.data ? &e->gate_up : &e->gate);
    return in_pairs(e) && sh->gate->n == e->F && ft_product_type(sh->gate) == type &&
           ft_product_type(sh->up) == type &&
           ft_product_type(sh->down) == ft_product_type(&e->down);
}

/* In the same launches if they are alike. */
extern "C" void ft_cuda_moe_shared(ft_dev *d, ft_mat y, ft_mat x, const ft_experts *e,
                                   ft_expert_choice r, ft_mat tmp, const ft_shared_expert *sh)
{
    ft_cuda *c = (ft_cuda *)d;
    const bool alike = shared_alike(e, sh);
    if (!alike) {
        ft_cuda_route_now(c);
        ft_cuda_glu(d, sh->g, sh->u, x, sh->gate, sh->up, e->act);
        ft_cuda_sigmoid_mul(d, sh->g, sh->s);
        ft_cuda_linear(d, y, sh->g, sh->down, true);
    }
    run_experts(c, y, x, e, r, tmp, true, alike ? sh : NULL);
}

/* One product of each choice with its expert's matrix. */
extern "C" void ft_cuda_expert_linear(ft_dev *d, ft_mat y, ft_mat x, const ft_weight *w,
                                      ft_expert_choice r, bool acc)
{
    ft_cuda *c = (ft_cuda *)d;
    const int n = y.T, T = n / r.K, tokens = item_tokens(c, T, r.K, w->E);
    const bool wide = ft_cuda_wide(c, T) && tokens >= ROWS_FEW;
    const size_t plane = bf16_plane(x.T, ft_mat_cols(x));
    plan p;
    uint16_t *narrow = NULL;
    ft_cuda_route_now(c);
    if (ft_cuda_wide(c, x.T) && !wide) {
        narrow = (uint16_t *)ft_cuda_scratch(c, FT_SCRATCH_MOE_HIDDEN, 2 * plane * sizeof *narrow);
        if (!narrow) return;
    }
    const uint16_t *xs = rows_for(c, x, narrow, ft_product_type(w));
    if (!xs || !plan_place(c, &p, n, w->E, tokens)) return;
    sort_choices(c, p, r, n, tokens);
    ft_product q = expert_product(p, xs, plane, x.T, wide, n / x.T);
    q.seg[0] = ft_product_seg(c, w, y.p, y.rs);
    q.n_seg = 1;
    q.acc = acc;
    ft_cuda_wrote(c, y);
    ft_product_run(c, &q, ft_product_type(w), tokens, p.items);
}
