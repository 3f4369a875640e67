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
            GLU(FT_F32, 200), GLU(FT_IQ4_XS, 256), GLU(FT_TQ4_1S, 96))

/* The scales of T rows: every third one is 0. */
static const float *some_scales(ft_optest *t, int T)
{
    float *v = ft_new_n(float, (size_t)T);
    for (int i = 0; i < T; i++) {
        const int row = t->pick >= 0 ? t->pick : i;
        v[i] = row % 3 ? 0.5f * (float)(row % 5 + 1) : 0;
    }
    const float *p = t_put(t, v, (size_t)T * sizeof *v);
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
    use_arena(t, ft_lora_arena(T, F, rank));
    ft_step_lora lora = {.scale = some_scales(t, rows), .row = counting(t, rows)};
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

int main(int argc, char **argv)
{
    static const t_case *const all[] = {&glu_parts_case, &shared_expert_case};
    return t_main(argc, argv, all, FT_COUNT(all));
}
