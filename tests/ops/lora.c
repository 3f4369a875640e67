/* tests/ops/lora.c - what adapters add (dev/lora.c), on every device: the parts of a fused op give
 * its bits, and a row with a scale of 0 keeps those of a step without adapters. */
#include "optest.h"

static bool same_row(const t_result *a, const t_result *b, int row)
{
    const size_t at = (size_t)row * (size_t)a->cols;
    return !memcmp(a->v + at, b->v + at, sizeof(float) * (size_t)a->cols);
}

static void use_arena(ft_optest *t, size_t values)
{
    t->step->arena = t_alloc(t, values * sizeof(float));
    t->step->arena_cap = values;
    t->step->arena_used = 0;
}

/* A fused pair of products, and its parts: the same bits. */
static void glu_parts(ft_optest *t, const int *n)
{
    const int T = n[0], k = n[1], F = n[2];
    const ft_type type = (ft_type)n[3];
    const ft_act act = n[4] ? FT_GELU : FT_SILU;
    ft_weight gate = t_weight(t, type, F, k, 1), up = t_weight(t, type, F, k, 1);
    ft_mat x = t_uniform(t, T, k, -1, 1), y[2], u[2];
    for (int i = 0; i < 2; i++) {
        y[i] = t_output(t, T, F);
        u[i] = t_output(t, T, F);
    }
    t->batch.T = t->pick >= 0 ? 1 : T;
    t_begin(t);
    ft_glu(t->step, y[0], u[0], x, &gate, &up, act);
    ft_lora_glu(t->step, y[1], u[1], x, &gate, &up, act);
    t_run(t);
    t_result r[2] = {t_read(t, y[0]), t_read(t, y[1])};
    for (int i = 0; i < r[0].T; i++)
        if (!same_row(&r[0], &r[1], i)) t_fail(t, "the parts of glu give other bits in row", i);
    t_expect_values(t, r[0], 1e-3);
    t_expect_values(t, r[1], 1e-3);
}
#define GLU(type, k)                                                                               \
    {1, k, 48, type}, {2, k, 48, type, 1}, {5, k, 272, type}, {9, k, 48, type}, {17, k, 48, type}, \
        {40, k, 96, type}, {70, k, 272, type},                                                     \
    {                                                                                              \
        390, k, 600, type                                                                          \
    }
OPTEST_ROWS(glu_parts, GLU(FT_Q4_K, 512), GLU(FT_Q6_K, 256), GLU(FT_Q8_0, 96), GLU(FT_BF16, 200),
            GLU(FT_F32, 200), GLU(FT_IQ4_XS, 256), GLU(FT_TQ4_1S, 96), {390, 200, 2240, FT_BF16})

/* The scales of T rows for each of n adapters: every third row has 0. */
static const float *some_scales(ft_optest *t, int T, int n)
{
    float *v = ft_new_n(float, (size_t)(T * n));
    for (int i = 0; i < T * n; i++) {
        const int row = t->pick >= 0 ? t->pick : i % T;
        v[i] = row % 3 ? 0.5f * (float)(row % 5 + 1) : 0;
    }
    const float *p = t_put(t, v, (size_t)(T * n) * sizeof *v);
    ft_free(v);
    return p;
}

static const int32_t *counting(ft_optest *t, int T)
{
    int32_t *v = ft_new_n(int32_t, (size_t)T);
    for (int i = 0; i < T; i++) v[i] = i;
    const int32_t *p = t_put(t, v, (size_t)T * sizeof *v);
    ft_free(v);
    return p;
}

/* A shared expert: added with its adapters, and added without and then corrected. */
static void shared_expert(ft_optest *t, const int *n)
{
    const int T = n[0], D = n[1], F = n[2], rank = n[3], rows = t->pick >= 0 ? 1 : T;
    const ft_type type = (ft_type)n[4];
    ft_weight gate = t_weight(t, type, F, D, 1), up = t_weight(t, type, F, D, 1);
    ft_weight down = t_weight(t, type, D, F, 1);
    ft_lora in = {.a = t_weight(t, FT_F16, rank, D, 1), .b = t_weight(t, FT_F32, F, rank, 1)};
    ft_lora out = {.a = t_weight(t, FT_F16, rank, F, 1), .b = t_weight(t, FT_F32, D, rank, 1)};
    ft_mat x = t_uniform(t, T, D, -1, 1), s = t_uniform(t, T, 1, -1, 1), y[3];
    ft_mat g = t_output(t, T, F), u = t_output(t, T, F);
    const ft_rng same = t->rng;
    for (int i = 0; i < 3; i++) {
        t->rng = same;
        y[i] = t_uniform(t, T, D, -1, 1);
    }
    const ft_shared_expert sh = {&gate, &up, &down, s, g, u};
    if (!n[5]) gate.lora = &in;
    down.lora = &out;
    use_arena(t, ft_lora_arena(T, &(ft_lora_sizes){.rank = rank, .shared = F}));
    ft_step_lora lora = {.scale = some_scales(t, rows, 1), .row = counting(t, rows)};
    t->batch.T = rows;
    t_begin(t);
    for (int i = 0; i < 3; i++) { /* with adapters, corrected, without */
        lora.active = i == 0;
        t->step->lora = lora;
        ft_glu(t->step, g, u, x, &gate, &up, FT_SILU);
        ft_sigmoid_mul(t->step, g, s);
        ft_linear_add(t->step, y[i], g, &down);
        t->step->lora.active = 1;
        if (i == 1) ft_lora_shared_expert(t->step, y[i], x, &sh, FT_SILU);
    }
    t->step->lora = (ft_step_lora){0};
    t_run(t);
    t_result r[3];
    for (int i = 0; i < 3; i++) r[i] = t_read(t, y[i]);
    for (int i = 0; i < rows; i++) {
        const bool none = (t->pick >= 0 ? t->pick : i) % 3 == 0;
        if (none && (!same_row(&r[0], &r[2], i) || !same_row(&r[1], &r[2], i)))
            t_fail(t, "a scale of 0 changes row", i);
        if (!none && same_row(&r[1], &r[2], i)) t_fail(t, "a scale does not change row", i);
    }
    const double apart = t_error(r[0].v, r[1].v, (size_t)rows * (size_t)D);
    if (apart > 1e-3) /* devices quantise activations */
        t_fail(t, "corrected: another result", apart);
    for (int i = 0; i < 3; i++) t_expect_values(t, r[i], 1e-3);
    t->step->arena = NULL;
}
OPTEST_ROWS(shared_expert, {1, 64, 48, 4, FT_F32}, {3, 128, 96, 8, FT_BF16},
            {7, 256, 256, 16, FT_Q8_0}, {20, 256, 512, 3, FT_Q8_0, 1}, {70, 128, 64, 1, FT_F32})

/* Routed experts with adapters, n[6] of their matrices; two adapters for the last one. */
static void experts(ft_optest *t, const int *n)
{
    const int T = n[0], D = n[1], F = n[2], E = n[3], K = n[4], rank = n[5];
    const int rows = t->pick >= 0 ? 1 : T;
    const ft_type type = (ft_type)n[7];
    const bool fused = n[8] != 0;
    ft_experts e = {.E = E, .F = F, .act = fused ? FT_GELU : FT_SILU};
    if (fused) {
        e.gate_up = t_weight(t, type, 2 * F, D, E);
    } else {
        e.gate = t_weight(t, type, F, D, E);
        e.up = t_weight(t, type, F, D, E);
    }
    e.down = t_weight(t, type, D, F, E);
    ft_weight *const w[] = {&e.down, fused ? &e.gate_up : &e.gate, &e.up};
    ft_lora pair[3], second = {.adapter = 1};
    for (int i = 0; i < n[6]; i++) {
        pair[i] = (ft_lora){.a = t_weight(t, FT_F16, rank, w[i]->k, E),
                            .b = t_weight(t, FT_F32, w[i]->n, rank, E)};
        pair[i].b.scale = t_vec(t, E, 0.5, 2).p;
        w[i]->lora = &pair[i];
    }
    second.a = t_weight(t, FT_F32, rank, w[n[6] - 1]->k, E);
    second.b = t_weight(t, FT_BF16, w[n[6] - 1]->n, rank, E);
    pair[n[6] - 1].next = &second;
    const size_t all = (size_t)rows * (size_t)K;
    ft_expert_choice r = {t_alloc(t, all * sizeof(int32_t)), t_alloc(t, all * sizeof(float)), K};
    ft_mat score = t_uniform(t, T, E, -3, 3), x = t_uniform(t, T, D, -1, 1);
    ft_mat y[2] = {t_output(t, T, D), t_output(t, T, D)};
    ft_mat tmp = ft_mat_at(t_alloc(t, all * 2 * (size_t)F * sizeof(float)), (int)all, 2 * F);
    const ft_lora_sizes sizes = {.rank = rank, .routed = FT_MAX(D, 2 * F), .chosen = K};
    use_arena(t, ft_lora_arena(T, &sizes));
    const ft_step_lora lora = {.active = 3,
                               .scale = some_scales(t, rows, 2),
                               .row = counting(t, ft_lora_rows(rows, &sizes))};
    t->batch.T = rows;
    t_begin(t);
    ft_route_top(t->step, r, score);
    ft_moe(t->step, y[0], x, &e, r, tmp, false);
    t->step->lora = lora;
    ft_moe(t->step, y[1], x, &e, r, tmp, false);
    t->step->lora = (ft_step_lora){0};
    t_run(t);
    const t_result a = t_read(t, y[0]), b = t_read(t, y[1]);
    for (int i = 0; i < rows; i++) {
        const bool none = (t->pick >= 0 ? t->pick : i) % 3 == 0;
        if (none != same_row(&a, &b, i)) t_fail(t, "adapters and the bits of row", i);
    }
    t_expect_values(t, a, 1e-3);
    t_expect_values(t, b, 1e-3);
    t->step->arena = NULL;
}
OPTEST_ROWS(experts, {1, 64, 48, 4, 2, 4, 3, FT_F32}, {3, 128, 96, 8, 3, 8, 1, FT_BF16},
            {7, 256, 256, 6, 2, 16, 2, FT_Q8_0}, {20, 256, 128, 16, 4, 3, 2, FT_Q8_0, 1},
            {70, 64, 64, 4, 2, 1, 3, FT_F32}, {150, 256, 256, 8, 2, 32, 3, FT_Q4_K},
            {66, 256, 64, 32, 8, 5, 2, FT_BF16, 1})

int main(int argc, char **argv)
{
    static const t_case *const all[] = {&glu_parts_case, &shared_expert_case, &experts_case};
    return t_main(argc, argv, all, FT_COUNT(all));
}
