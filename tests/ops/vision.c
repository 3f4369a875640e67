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
    static const t_case *const all[] = {&layernorm_case, &affine_case, &clamp_case, &mix_case,
                                        &image_rows_case};
    return t_main(argc, argv, all, FT_COUNT(all));
}
