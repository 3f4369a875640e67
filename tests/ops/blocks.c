/* Products and experts with blocks of 256 columns: long rows, whose columns are shared by several
 * warps or subgroups, and every number of rows at which a device may choose another kernel. */
#include "optest.h"

static void linear_blocks(ft_optest *t, const int *n)
{
    const int T = n[0], k = n[1], out = n[2];
    ft_weight w = t_weight(t, (ft_type)n[3], out, k, 1);
    ft_mat x = t_uniform(t, T, k, -1, 1), y = t_output(t, T, out), z = t_uniform(t, T, out, -1, 1);
    t->batch.T = t->pick >= 0 ? 1 : T;
    t_begin(t);
    ft_linear(t->step, y, x, &w);
    ft_linear_add(t->step, z, x, &w);
    t_cost(t, 2 * (double)w.row_bytes * out, 4.0 * T * k * out);
    t_expect(t, y, 2e-4);
    t_expect_rest(t, z, 2e-4);
    t_check_gaps(t, y);
}
#define BLOCKS(type)                                                                               \
    {1, 2048, 48, type}, {4, 5120, 80, type}, {8, 1280, 33, type}, {9, 1024, 40, type},            \
        {17, 2304, 16, type}, {33, 1536, 20, type}, {65, 2560, 130, type},                         \
    {                                                                                              \
        140, 1792, 257, type                                                                       \
    }
OPTEST_ROWS(linear_blocks, {2, 3072, 8208, FT_Q4_K}, BLOCKS(FT_Q4_K), BLOCKS(FT_Q5_K),
            BLOCKS(FT_Q6_K), BLOCKS(FT_Q8_0), {2, 4352, 40, FT_Q4_K}, {3, 2560, 33, FT_Q4_K},
            {5, 512, 70, FT_Q5_K}, {6, 256, 200, FT_Q4_K}, {2, 1024, 20, FT_Q6_K},
            {7, 2304, 48, FT_Q8_0})

/* Products of rows that have just been normed. */
static void norm_blocks(ft_optest *t, const int *n)
{
    const int T = n[0], k = n[1], out = n[2];
    ft_weight gate = t_weight(t, (ft_type)n[3], out, k, 1),
              up = t_weight(t, (ft_type)n[3], out, k, 1);
    ft_mat x = t_uniform(t, T, k, -4, 4), xn = t_output(t, T, k), y = t_output(t, T, out);
    ft_mat z = t_output(t, T, out), g = t_output(t, T, out), u = t_output(t, T, out);
    ft_mat own = t_uniform(t, T, k, -4, 4), yo = t_output(t, T, out), zo = t_output(t, T, out);
    const ft_vec w = t_vec(t, k, 0.5, 2);
    const ft_product_out o[] = {{y, &gate}, {z, &up}}, from_own[] = {{yo, &gate}, {zo, &up}};
    t->batch.T = t->pick >= 0 ? 1 : T;
    t_begin(t);
    ft_rmsnorm(t->step, xn, x, w, 1e-6f);
    ft_linears(t->step, o, 2, xn);
    ft_rmsnorm(t->step, xn, x, w, 1e-6f);
    ft_glu(t->step, g, u, xn, &gate, &up, FT_SILU);
    ft_rmsnorm(t->step, own, own, w, 1e-6f); /* in place */
    ft_linears(t->step, from_own, 2, own);
    t_expect(t, y, 2e-4);
    t_expect_rest(t, z, 2e-4);
    t_expect_rest(t, g, 4e-4);
    t_expect_rest(t, xn, 1e-6);
    t_expect_rest(t, yo, 2e-4);
    t_expect_rest(t, zo, 2e-4);
    t_check_gaps(t, y);
}
OPTEST_ROWS(norm_blocks, {1, 2048, 48, FT_Q4_K}, {3, 5120, 33, FT_Q4_K}, {2, 512, 20, FT_Q5_K},
            {20, 2560, 40, FT_Q6_K}, {70, 1024, 40, FT_Q8_0}, {1, 1000, 33, FT_F32},
            {5, 3072, 20, FT_BF16})

/* Chosen experts; n[6]: all scores are equal. */
static void moe_blocks(ft_optest *t, const int *n)
{
    const int T = n[0], D = n[1], F = n[2], E = n[3], K = n[4], rows = t->pick >= 0 ? 1 : T;
    const float most = n[6] ? 0 : 3;
    const ft_type type = (ft_type)n[5];
    ft_experts e = {.E = E, .F = F, .act = FT_SILU};
    e.gate = t_weight(t, type, F, D, E);
    e.up = t_weight(t, type, F, D, E);
    e.down = t_weight(t, type, D, F, E);
    e.down.scale = t_vec(t, E, 0.5, 2).p;
    const size_t all = (size_t)rows * (size_t)K;
    ft_expert_choice r = {t_alloc(t, all * sizeof(int32_t)), t_alloc(t, all * sizeof(float)), K};
    ft_mat score = t_uniform(t, T, E, -most, most), x = t_uniform(t, T, D, -2, 2);
    ft_mat y = t_output(t, T, D), yn = t_output(t, T, D);
    const ft_vec w = t_vec(t, D, 0.5, 2);
    ft_mat tmp = ft_mat_at(t_alloc(t, all * 2 * (size_t)F * sizeof(float)), (int)all, 2 * F);
    t_begin(t);
    ft_route_top(t->step, r, score);
    ft_moe(t->step, y, x, &e, r, tmp, false);
    ft_rmsnorm(t->step, yn, y, w, 1e-6f); /* a device may add the experts here */
    t_expect(t, y, 8e-4);
    t_expect_rest(t, yn, 8e-4);
    t_check_gaps(t, y);
}
OPTEST_ROWS(moe_blocks, {1, 2048, 512, 8, 4, FT_Q4_K}, {20, 512, 512, 16, 4, FT_Q4_K},
            {20, 512, 256, 6, 4, FT_Q5_K}, {90, 512, 256, 8, 4, FT_Q4_K},
            {60, 256, 256, 40, 4, FT_Q4_K}, {2, 256, 256, 256, 8, FT_Q4_K},
            {1, 256, 256, 100, 5, FT_Q4_K, 1}, {3, 256, 256, 70, 20, FT_Q4_K},
            {20, 256, 256, 2, 2, FT_Q4_K})

int main(int argc, char **argv)
{
    return t_main(argc, argv,
                  (const t_case *const[]){&linear_blocks_case, &norm_blocks_case, &moe_blocks_case},
                  3);
}
