/* Ops of vision towers, and what image rows add to those of text. */
#include "optest.h"

static void layernorm(ft_optest *t, const int *n)
{
    const int T = n[0], D = n[1];
    ft_mat x = t_uniform(t, T, D, 2, 6), y = t_output(t, T, D); /* the mean is not small */
    ft_vec w = t_vec(t, D, 0.5, 1.5), b = t_vec(t, D, -1, 1);
    t_begin(t);
    ft_layernorm(t->step, y, x, w, b, 1e-6f);
    t_expect(t, y, 1e-11);
    t_check_gaps(t, y);
    t_begin(t);
    ft_layernorm(t->step, x, x, w, b, 1e-5f);
    t_cost(t, 8.0 * T * D, 8.0 * T * D);
    t_expect(t, x, 1e-11);
}
OPTEST_ROWS(layernorm, {1, 2}, {1, 63}, {5, 1152}, {97, 288}, {3, 6912})

/* Errors are relative to the squares of the results, so that a single value far below 0, whose
 * activation is nearly 0, has to be accurate by itself: exp(-z) in float32 has a relative error of
 * about z 2^-24, and z is up to 70 here where the result is above the error's base. */
static void affine(ft_optest *t, const int *n)
{
    static const ft_act act[] = {FT_ACT_NONE, FT_GELU, FT_GELU_ERF, FT_SILU};
    const int T = n[0], D = n[1];
    const double limit = D > 1 ? 1e-12 : 1e-10;
    ft_vec none = {0}, b = t_vec(t, D, -1, 1), w = t_vec(t, D, -2, 2);
    for (int i = 0; i < 4; i++) {
        ft_mat y = t_uniform(t, T, D, -6, 6), z = t_uniform(t, T, D, -6, 6);
        t_begin(t);
        ft_affine(t->step, y, b, none, act[i]);
        ft_affine(t->step, z, b, w, act[i]);
        t_cost(t, 16.0 * T * D, 0);
        t_expect(t, y, limit);
        t_expect_rest(t, z, limit);
    }
}
OPTEST_ROWS(affine, {1, 1}, {1, 4304}, {5, 288}, {67, 130})

/* Products of vision towers, whose weights and inputs may be rounded to f16: a norm, a product with
 * an activation and the product after it; a pair; inputs that are no operands. */
static void dense(ft_optest *t, const int *n)
{
    const int T = n[0], k = n[1], F = n[2];
    const ft_type type = (ft_type)n[3];
    const double limit = type == FT_Q8_0 ? 2e-4 : 1e-6; /* the CPU quantises inputs of Q8_0 */
    t->rounded = true;
    ft_weight up = t_weight(t, type, F, k, 1), down = t_weight(t, type, k, F, 1);
    ft_weight gate = t_weight(t, type, F, k, 1);
    ft_vec none = {0}, w = t_vec(t, k, 0.5, 1.5), b = t_vec(t, k, -1, 1), c = t_vec(t, F, -1, 1);
    ft_mat x = t_uniform(t, T, k, -2, 2), sum = t_uniform(t, T, k, -2, 2), u = t_output(t, T, F);
    ft_mat xn = t_operand(t, T, k), clamped = t_operand(t, T, k), g = t_operand(t, T, F);
    ft_mat pair = t_operand(t, T, F), y[5];
    for (int i = 0; i < 5; i++) y[i] = t_output(t, T, i == 4 ? F : k);
    t->batch.T = x.T;
    t_begin(t);
    ft_layernorm(t->step, xn, x, w, b, 1e-6f);
    ft_dense(t->step, g, xn, &up, c, FT_GELU, false);
    ft_dense(t->step, sum, g, &down, b, FT_ACT_NONE, true);
    ft_glu(t->step, pair, u, xn, &gate, &up, FT_GELU);
    ft_linear(t->step, y[0], pair, &down);
    ft_rmsnorm(t->step, xn, x, w, 1e-6f);
    ft_dense(t->step, g, xn, &up, none, FT_SILU, false);
    ft_dense(t->step, y[1], g, &down, b, FT_GELU_ERF, false);
    ft_clamp(t->step, clamped, x, -1.5f, 1);
    ft_dense(t->step, y[4], clamped, &gate, c, FT_GELU, false);
    ft_dense(t->step, y[2], y[4], &down, none, FT_ACT_NONE, false);
    ft_norm_add(t->step, x, y[2], w, 1e-6f, 1, &(ft_norm_out){xn, w}, 1);
    ft_dense(t->step, g, xn, &up, c, FT_GELU, false);
    ft_dense(t->step, y[3], g, &down, none, FT_ACT_NONE, false);
    t_cost(t, 0, 18.0 * T * k * F);
    t_expect(t, sum, limit);
    for (int i = 0; i < 5; i++) {
        t_expect_rest(t, y[i], limit);
        t_check_gaps(t, y[i]);
    }
}
OPTEST_ROWS(dense, {5, 64, 96, FT_BF16}, {70, 192, 304, FT_BF16}, {200, 128, 258, FT_F16},
            {131, 64, 64, FT_F32}, {9, 100, 72, FT_F32}, {400, 192, 544, FT_Q8_0},
            {2100, 64, 1536, FT_BF16}, {33, 1152, 48, FT_BF16})

/* The batch and the cache of a tower: every row sees all rows. */
static void image_batch(ft_optest *t, ft_kv *kv, int T, int H, int d)
{
    enum { MOST = 1024 };
    int32_t cell[MOST], end[MOST], zero[MOST] = {0}, page[MOST];
    const ft_span span = {.n = T};
    const int pages = (T + FT_PAGE_ROWS - 1) / FT_PAGE_ROWS;
    assert(T <= MOST);
    for (int i = 0; i < T; i++) cell[i] = page[i] = i, end[i] = T;
    const int32_t *all = t_ints(t, zero, T), *at = t_ints(t, page, pages);
    t->batch = (ft_batch){.T = T,
                          .S = 1,
                          .max_ctx = T,
                          .token = all,
                          .pos = {all, all, all},
                          .cell = t_ints(t, cell, T),
                          .end = t_ints(t, end, T),
                          .span_of = all,
                          .span = t_keep(t, &span, sizeof span),
                          .page = {at, at},
                          .pages_per_seq = pages,
                          .slots = 1,
                          .pad_spans = true};
    *kv = (ft_kv){.kt = FT_KV_F32, .vt = FT_KV_F32, .G = H, .d = d, .space = FT_SPACE_FULL};
    kv->k_row = kv->v_row = (size_t)d * sizeof(float);
    kv->k_page = kv->v_page = kv->k_row * (size_t)(H * FT_PAGE_ROWS);
    kv->k = t_alloc(t, kv->k_page * (size_t)pages);
    kv->v = t_alloc(t, kv->v_page * (size_t)pages);
}

static ft_mat angles(ft_optest *t, int T, int n)
{
    float *v = ft_new_n(float, (size_t)(T * n));
    for (int i = 0; i < T; i++)
        for (int j = 0; j < n / 2; j++) {
            const float a = t_draw(t, -3, 3);
            v[i * n + j] = cosf(a);
            v[i * n + n / 2 + j] = sinf(a);
        }
    ft_mat m = ft_mat_at(t_put(t, v, (size_t)(T * n) * sizeof *v), T, n);
    ft_free(v);
    return m;
}

/* Attention among all rows: with norms and halves of heads as in Gemma's towers, or without; its
 * result as an operand of a product, or as it is. */
static void attend_image(ft_optest *t, const int *n)
{
    const int T = n[0], H = n[1], d = n[2], D = H * d;
    const bool norms = n[3], operand = n[4];
    const ft_vec none = {0};
    ft_kv kv;
    image_batch(t, &kv, T, H, d);
    t->rounded = true;
    ft_weight w = t_weight(t, FT_BF16, 40, D, 1);
    ft_mat qkv = t_uniform(t, T, 3 * D, -1, 1),
           o = operand ? t_operand(t, T, D) : t_output(t, T, D);
    ft_mat y = t_output(t, T, 40);
    const ft_image_attn a = {
        .q = ft_heads(qkv, 0, H, d, d),
        .k = ft_heads(qkv, D, H, d, d),
        .v = ft_heads(qkv, 2 * D, H, d, d),
        .scale = norms ? 0.25f : 1,
        .eps = norms ? 1e-6f : -1,
        .q_norm = norms ? t_vec(t, d, 0.5, 1.5) : none,
        .k_norm = norms ? t_vec(t, d, 0.5, 1.5) : none,
        .cs = {angles(t, T, norms ? d / 2 : d), norms ? angles(t, T, d / 2) : (ft_mat){0}}};
    t_begin(t);
    t->step->kv = &kv;
    ft_attend_image(t->step, ft_heads(o, 0, H, d, d), &a);
    if (operand) ft_linear(t->step, y, o, &w);
    t_cost(t, 16.0 * T * D, 4.0 * T * T * D);
    t_expect(t, operand ? y : o, 2e-6);
    t_check_gaps(t, operand ? y : o);
}
OPTEST(attend_image, {1, 1, 16}, {64, 2, 72, 0, 1}, {200, 3, 72, 0, 0}, {130, 2, 72, 1, 1},
       {65, 4, 64, 1, 0}, {300, 1, 48, 0, 1}, {77, 2, 128, 0, 1}, {129, 2, 100, 1, 0},
       {50, 3, 24, 0, 1}, {1000, 2, 72, 1, 1})

static void clamp(ft_optest *t, const int *n)
{
    const int T = n[0], D = n[1];
    ft_mat x = t_uniform(t, T, D, -4, 4), y = t_output(t, T, D);
    t_begin(t);
    ft_clamp(t->step, y, x, -1.25f, 2.5f);
    ft_clamp(t->step, x, x, -INFINITY, 0.5f);
    t_expect(t, y, 0);
    t_expect_rest(t, x, 0);
    t_check_gaps(t, y);
}
OPTEST_ROWS(clamp, {1, 1}, {3, 70}, {40, 768})

static void mix(ft_optest *t, const int *n)
{
    const int T = n[0], D = n[1], rows = n[2], k = n[3];
    ft_mat y = t_uniform(t, T, D, -2, 2), z = t_output(t, T, D);
    const ft_vec table = t_vec(t, rows * D, -2, 2);
    ft_mat x = ft_mat_at((float *)table.p, rows, D);
    int32_t *row = ft_new_n(int32_t, (size_t)(T * k));
    float *w = ft_new_n(float, (size_t)(T * k));
    for (int i = 0; i < T * k; i++) {
        row[i] = t_below(t, rows);
        w[i] = t_draw(t, -1, 1);
    }
    const int first = t->pick >= 0 ? t->pick * k : 0;
    const ft_mixing m = {t_put(t, row + first, sizeof *row * (size_t)(y.T * k)),
                         t_put(t, w + first, sizeof *w * (size_t)(y.T * k)), k};
    ft_free(row);
    ft_free(w);
    t_begin(t);
    ft_mix(t->step, y, x, m, true);
    ft_mix(t->step, z, x, m, false);
    t_cost(t, 4.0 * T * D * (k + 2), 2.0 * T * D * k);
    t_expect(t, y, 1e-12);
    t_expect_rest(t, z, 1e-12);
    t_check_gaps(t, z);
}
OPTEST_ROWS(mix, {1, 1, 1, 1}, {7, 288, 64, 4}, {40, 130, 9, 2}, {12, 1152, 108, 9})

static void image_rows(ft_optest *t, const int *n)
{
    const int T = n[0], D = n[1], rows = n[2];
    ft_mat y = t_uniform(t, T, D, -2, 2), x = t_uniform(t, rows, D, -2, 2);
    int32_t *from = ft_new_n(int32_t, (size_t)T);
    for (int i = 0; i < T; i++) from[i] = t_below(t, rows + 1) - 1;
    t->batch.T = T;
    t->batch.image_row = t_ints(t, from, T);
    ft_free(from);
    t_begin(t);
    ft_mat kept = y;
    t->step->images = x;
    ft_image_rows(t->step, y);
    t_expect(t, kept, 0);
}
OPTEST(image_rows, {1, 5, 1}, {9, 256, 3}, {70, 130, 20})

int main(int argc, char **argv)
{
    static const t_case *const all[] = {&layernorm_case,    &affine_case, &dense_case,
                                        &attend_image_case, &clamp_case,  &mix_case,
                                        &image_rows_case};
    return t_main(argc, argv, all, FT_COUNT(all));
}
