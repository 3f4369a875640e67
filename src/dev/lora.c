/* Low-rank adapters: products that a step adds to those of the model's own weights. Every row has
 * its own scale, and one of 0 adds 0: such a row has the bits of a step without adapters. */
#include "base/mem.h"
#include "dev/dev.h"
#include "dev/step.h"

/* The scales of an adapter for the rows that the pass is at. */
static ft_mixing scales_of(const ft_step *s, int adapter)
{
    const size_t rows = (size_t)(s->T + s->n_out);
    const float *w = s->lora.scale + (size_t)adapter * rows + (s->lora.out ? s->T : 0);
    return (ft_mixing){.row = s->lora.row, .w = w, .n = 1};
}

static bool is_active(const ft_step *s, const ft_lora *l)
{
    return s->lora.active >> l->adapter & 1;
}

/* r, [T, any], with every row multiplied by the adapter's scale for it. */
static ft_mat scaled(ft_step *s, ft_mat r, int adapter)
{
    ft_mat q = ft_take_rows(s, r.T, ft_mat_cols(r));
    assert(r.T == (s->lora.out ? s->n_out : s->T));
    ft_mix(s, q, r, scales_of(s, adapter), false);
    return q;
}

static const ft_lora *find_adapter(const ft_weight *w, int adapter)
{
    const ft_lora *l = w->lora;
    while (l && l->adapter != adapter) l = l->next;
    return l;
}

/* Columns of the products with A: each begins at a multiple of 16 values. */
static int padded(int rank)
{
    return (rank + 15) / 16 * 16;
}

/* The products with all A share an op, and those results their scales. */
static void add_products(ft_step *s, const ft_product_out *o, int n, ft_mat x, int adapter)
{
    const size_t used = s->arena_used;
    const ft_lora *l[FT_LORA_PRODUCTS];
    ft_product_out in[FT_LORA_PRODUCTS];
    int at[FT_LORA_PRODUCTS], m = 0, cols = 0;
    assert(n <= FT_LORA_PRODUCTS);
    for (int i = 0; i < n; i++) {
        at[i] = cols;
        if ((l[i] = find_adapter(o[i].w, adapter))) cols += padded(l[i]->a.n);
    }
    if (!cols) return;
    ft_mat r = ft_take_rows(s, x.T, cols);
    for (int i = 0; i < n; i++)
        if (l[i]) in[m++] = (ft_product_out){ft_cols(r, at[i], l[i]->a.n), &l[i]->a};
    ft_linears(s, in, m, x);
    const ft_mat q = scaled(s, r, adapter);
    for (int i = 0; i < n; i++)
        if (l[i]) ft_linear_add(s, o[i].y, ft_cols(q, at[i], l[i]->b.k), &l[i]->b);
    s->arena_used = used;
}

void ft_lora_linears(ft_step *s, const ft_product_out *o, int n, ft_mat x)
{
    for (int i = 0; i < FT_LORA_MAX; i++)
        if (s->lora.active >> i & 1) add_products(s, o, n, x, i);
}

void ft_lora_embed(ft_step *s, ft_mat y, const ft_weight *w, float scale)
{
    for (const ft_lora *l = w->lora; l; l = l->next) {
        const size_t used = s->arena_used;
        if (!is_active(s, l)) continue;
        ft_mat r = ft_take_rows(s, y.T, l->a.k);
        ft_embed(s, r, &l->a, scale);
        ft_linear_add(s, y, scaled(s, r, l->adapter), &l->b);
        s->arena_used = used;
    }
}

void ft_lora_glu(ft_step *s, ft_mat y, ft_mat u, ft_mat x, const ft_weight *gate,
                 const ft_weight *up, ft_act act)
{
    const ft_product_out o[] = {{y, gate}, {u, up}};
    ft_linears(s, o, 2, x);
    ft_act_mul(s, y, y, u, act);
}

/* The device has added the shared expert without adapters, perhaps in one launch with the others,
 * which rounds in its own way. Here is what adapters change, so that rows without any keep their
 * bits: with h and h' the hidden values without and with adapters,
 * y += sigmoid(s) (down' h' - down h) = down (sigmoid(s) (h' - h)) + B A (sigmoid(s) h'). */
void ft_lora_shared_expert(ft_step *s, ft_mat y, ft_mat x, const ft_shared_expert *sh, ft_act act)
{
    const size_t used = s->arena_used;
    const int F = sh->gate->n;
    const bool inner = sh->gate->lora || sh->up->lora;
    ft_mat d = ft_take_rows(s, x.T, F);
    ft_step plain = *s;
    plain.lora.active = 0;
    ft_lora_glu(&plain, d, sh->u, x, sh->gate, sh->up, act);
    if (!inner) {
        ft_sigmoid_mul(s, d, sh->s);
        ft_lora_linear(s, y, d, sh->down);
        s->arena_used = used;
        return;
    }
    ft_lora_glu(s, sh->g, sh->u, x, sh->gate, sh->up, act);
    ft_sigmoid_mul(s, sh->g, sh->s);
    ft_sigmoid_mul(s, d, sh->s);
    ft_lora_linear(s, y, sh->g, sh->down);
    ft_add(s, d, d, -0.5f); /* exactly -d */
    ft_add(s, d, sh->g, 1);
    ft_linear_add(&plain, y, d, sh->down);
    s->arena_used = used;
}

/* ---- routed experts ---- */

static bool changes(const ft_step *s, const ft_weight *w)
{
    for (const ft_lora *l = w->lora; l; l = l->next)
        if (is_active(s, l)) return true;
    return false;
}

/* Rows of the step of which the experts are computed: those from `first` on. */
typedef struct choices {
    ft_expert_choice r;
    int first, rows;
} choices;

/* y += scale B A x, each choice with its expert's matrices; y = for the first of them with !acc. */
static void add_experts(ft_step *s, ft_mat y, ft_mat x, const ft_weight *w, const choices *c,
                        bool acc)
{
    for (const ft_lora *l = w->lora; l; l = l->next) {
        const size_t used = s->arena_used;
        if (!is_active(s, l)) continue;
        const int n = c->rows * c->r.K, rank = l->a.n, cols = padded(rank);
        ft_mat r = ft_take_rows(s, n, cols), q = ft_take_rows(s, n, cols);
        ft_expert_linear(s, ft_cols(r, 0, rank), x, &l->a, c->r, false);
        ft_mixing m = scales_of(s, l->adapter); /* the choices of a row have one scale */
        m.w += c->first;
        ft_mix(s, ft_mat_at(q.p, c->rows, c->r.K * cols), ft_mat_at(r.p, c->rows, c->r.K * cols), m,
               false);
        ft_expert_linear(s, y, ft_cols(q, 0, rank), &l->b, c->r, acc);
        acc = true;
        s->arena_used = used;
    }
}

/* z = down' h' - down h = down (h' - h) + B A h' of each choice, h and h' the hidden values without
 * and with adapters. */
static void change_of_experts(ft_step *s, ft_mat z, ft_mat x, const ft_experts *e, const choices *c)
{
    const bool fused = e->gate_up.data != NULL;
    const bool inner = changes(s, &e->gate) || changes(s, &e->up) || changes(s, &e->gate_up);
    const ft_mat both = ft_take_rows(s, z.T, 2 * e->F), d = ft_take_rows(s, z.T, e->F);
    const ft_mat g = ft_cols(both, 0, e->F), u = ft_cols(both, e->F, e->F);
    const ft_product_out o[] = {{fused ? both : g, fused ? &e->gate_up : &e->gate}, {u, &e->up}};
    for (int i = 0; i < 2 - fused; i++) ft_expert_linear(s, o[i].y, x, o[i].w, c->r, false);
    if (inner) {
        ft_act_mul(s, d, g, u, e->act);
        for (int i = 0; i < 2 - fused; i++) add_experts(s, o[i].y, x, o[i].w, c, true);
    }
    ft_act_mul(s, g, g, u, e->act);
    if (inner) {
        ft_add(s, d, d, -0.5f); /* exactly -d */
        ft_add(s, d, g, 1);
        ft_expert_linear(s, z, d, &e->down, c->r, false);
    }
    add_experts(s, z, g, &e->down, c, inner);
}

/* As with the shared expert, moe has added the experts without adapters. */
void ft_lora_experts(ft_step *s, ft_mat y, ft_mat x, const ft_experts *e, ft_expert_choice r)
{
    const int D = ft_mat_cols(y);
    if (!changes(s, &e->gate) && !changes(s, &e->up) && !changes(s, &e->gate_up) &&
        !changes(s, &e->down))
        return;
    for (int first = 0; first < y.T; first += FT_LORA_ROWS) {
        const size_t used = s->arena_used, at = (size_t)first * (size_t)r.K;
        const int rows = FT_MIN(y.T - first, FT_LORA_ROWS);
        const choices c = {{r.id + at, r.w + at, r.K}, first, rows};
        ft_mat z = ft_take_rows(s, rows * r.K, D);
        change_of_experts(s, z, ft_rows(x, first, rows), e, &c);
        ft_mix(s, ft_rows(y, first, rows), z, (ft_mixing){s->lora.row, c.r.w, r.K}, true);
        s->arena_used = used;
    }
}

/* ---- memory ---- */

size_t ft_lora_arena(int T, const ft_lora_sizes *n)
{
    ft_step s = {.T = T};
    ft_take(&s, n->shared);
    ft_take(&s, 2 * FT_LORA_PRODUCTS * padded(n->rank));
    if (!n->routed) return s.arena_used;
    s.T = FT_MIN(T, FT_LORA_ROWS) * n->chosen;
    ft_take(&s, n->routed); /* results, gate and up, hidden values */
    ft_take(&s, 2 * n->routed);
    ft_take(&s, n->routed);
    ft_take(&s, 2 * padded(n->rank));
    return s.arena_used;
}

int ft_lora_rows(int T, const ft_lora_sizes *n)
{
    return FT_MAX(T, n->routed ? FT_MIN(T, FT_LORA_ROWS) * n->chosen : 0);
}
