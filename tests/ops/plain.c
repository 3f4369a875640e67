/* Norms and element-wise ops. */
#include "optest.h"

#include "dev/copies.h"

static void rmsnorm(ft_optest *t, const int *n)
{
    const int T = n[0], D = n[1];
    ft_mat x = t_uniform(t, T, D, -4, 4), y = t_output(t, T, D);
    ft_vec w = t_vec(t, D, 0.5, 1.5);
    t_begin(t);
    ft_rmsnorm(t->step, y, x, w, 1e-6f);
    t_expect(t, y, 1e-12);
    t_check_gaps(t, y);
    t_begin(t);
    ft_rmsnorm(t->step, x, x, (ft_vec){0}, 1e-6f); /* in place, no weight */
    t_cost(t, 8.0 * T * D, 4.0 * T * D);
    t_expect(t, x, 1e-12);
}
OPTEST_ROWS(rmsnorm, {1, 1}, {1, 63}, {1, 5120}, {5, 5120}, {97, 2560}, {3, 17})

static void rmsnorm_heads(ft_optest *t, const int *n)
{
    const int T = n[0], H = n[1], d = n[2], step = n[3];
    ft_mat x = t_uniform(t, T, H * step, -4, 4), y = t_output(t, T, H * d);
    ft_vec w = t_vec(t, d, 0.5, 1.5);
    t_begin(t);
    ft_rmsnorm(t->step, ft_heads(y, 0, H, d, d), ft_heads(x, step - d, H, d, step), w, 1e-5f);
    t_expect(t, y, 1e-12);
    t_check_gaps(t, y);
}
OPTEST_ROWS(rmsnorm_heads, {1, 1, 8, 8}, {2, 3, 16, 32}, {17, 5, 64, 100})

static void gated_norm(ft_optest *t, const int *n)
{
    const int T = n[0], H = n[1], d = n[2];
    ft_mat o = t_uniform(t, T, H * d, -2, 2), z = t_uniform(t, T, H * d, -6, 6);
    ft_mat oh = ft_heads(o, 0, H, d, d), y = t_output(t, T, H * d);
    ft_vec w = t_vec(t, d, 0.5, 1.5);
    t_begin(t);
    ft_gated_norm(t->step, ft_heads(y, 0, H, d, d), oh, ft_heads(z, 0, H, d, d), w, 1e-6f);
    t_expect(t, y, 1e-12);
    t_check_gaps(t, y);
    t_begin(t);
    ft_gated_norm(t->step, oh, oh, ft_heads(z, 0, H, d, d), w, 1e-6f);
    t_cost(t, 12.0 * T * H * d, 0);
    t_expect(t, o, 1e-12);
}
OPTEST_ROWS(gated_norm, {1, 1, 16}, {3, 5, 20}, {17, 4, 128}, {1, 48, 128})

static void act_mul(ft_optest *t, const int *n)
{
    const int T = n[0], F = n[1];
    const ft_act act = n[2] ? FT_GELU : FT_SILU;
    ft_mat g = t_uniform(t, T, F, -12, 12), u = t_uniform(t, T, F, -3, 3), y = t_output(t, T, F);
    t_begin(t);
    ft_act_mul(t->step, y, g, u, act);
    t_expect(t, y, 1e-12);
    t_check_gaps(t, y);
    t_begin(t);
    ft_act_mul(t->step, u, g, u, act);
    t_expect(t, u, 1e-12);
    ft_mat v = t_uniform(t, T, F, -100, 100);
    t_begin(t);
    ft_act_mul(t->step, g, g, v, act);
    t_cost(t, 12.0 * T * F, 0);
    t_expect(t, g, 1e-12);
}
OPTEST_ROWS(act_mul, {1, 1, 0}, {1, 17408, 0}, {5, 333, 0}, {1, 3, 1}, {64, 1024, 1}, {17, 257, 1})

static void sigmoid_mul(ft_optest *t, const int *n)
{
    const int T = n[0], H = n[1], d = n[2];
    ft_mat y = t_uniform(t, T, H * d, -3, 3), g = t_uniform(t, T, 2 * H * d, -9, 9);
    ft_mat one = t_uniform(t, T, 1, -9, 9);
    t_begin(t);
    ft_sigmoid_mul(t->step, y, ft_heads(g, d, H, d, 2 * d)); /* every other head */
    t_cost(t, 12.0 * T * H * d, 0);
    t_expect(t, y, 1e-12);
    t_begin(t);
    ft_sigmoid_mul(t->step, y, one);
    t_expect(t, y, 1e-12);
}
OPTEST_ROWS(sigmoid_mul, {1, 1, 2}, {3, 5, 33}, {17, 8, 64}, {1, 24, 256})

static void add(ft_optest *t, const int *n)
{
    const int T = n[0], D = n[1];
    ft_mat y = t_uniform(t, T, D, -3, 3), x = t_uniform(t, T, D, -3, 3);
    t_begin(t);
    ft_add(t->step, y, x, 1);
    ft_add(t->step, y, x, 0.70710678f);
    t_cost(t, 24.0 * T * D, 0);
    t_expect(t, y, 1e-12);
}
OPTEST_ROWS(add, {1, 1}, {3, 777}, {64, 2560})

static void norm_add(ft_optest *t, const int *n)
{
    const int T = n[0], D = n[1];
    ft_mat y = t_uniform(t, T, D, -3, 3), x = t_uniform(t, T, D, -5, 5);
    ft_vec w = t_vec(t, D, 0.5, 1.5);
    ft_norm_out o[FT_NORMS];
    for (int i = 0; i < n[2]; i++) o[i] = (ft_norm_out){t_output(t, T, D), t_vec(t, D, -1, 1)};
    t_begin(t);
    ft_norm_add(t->step, y, x, w, 1e-6f, 0.75f, o, n[2]);
    t_cost(t, 4.0 * T * D * (3 + n[2]), 0);
    t_expect(t, y, 1e-12);
    for (int i = 0; i < n[2]; i++) {
        t_expect_rest(t, o[i].y, 1e-12);
        t_check_gaps(t, o[i].y);
    }
    t_expect_rest(t, x, 0);
}
OPTEST_ROWS(norm_add, {1, 1, 0}, {3, 17, 1}, {1, 2816, 3}, {5, 5376, 1}, {17, 260, 2},
            {70, 1536, 3}, {2, 8192, 1}, {2, 8196, 2})

static void norm_add_both(ft_optest *t, const int *n)
{
    const int T = n[0], D = n[1];
    ft_mat y = t_uniform(t, T, D, -3, 3);
    const ft_norm_out x[] = {{t_uniform(t, T, D, -5, 5), t_vec(t, D, 0.5, 1.5)},
                             {t_uniform(t, T, D, -1, 1), t_vec(t, D, 0.5, 1.5)}};
    const ft_vec w = t_vec(t, D, 0.5, 1.5);
    ft_norm_out o[FT_NORMS];
    for (int i = 0; i < n[2]; i++) o[i] = (ft_norm_out){t_output(t, T, D), t_vec(t, D, -1, 1)};
    t_begin(t);
    ft_norm_add_both(t->step, y, x, w, 1e-6f, 0.75f, o, n[2]);
    t_expect(t, y, 1e-12);
    for (int i = 0; i < n[2]; i++) {
        t_expect_rest(t, o[i].y, 1e-12);
        t_check_gaps(t, o[i].y);
    }
    t_expect_rest(t, x[1].y, 0);
}
OPTEST_ROWS(norm_add_both, {1, 5, 1}, {1, 2816, 1}, {3, 1024, 0}, {17, 260, 2}, {40, 2816, 1},
            {2, 8192, 1}, {2, 8196, 2})

static void softcap(ft_optest *t, const int *n)
{
    const int T = n[0], V = n[1];
    ft_mat y = t_uniform(t, T, V, -90, 90), x = t_uniform(t, T, V, -0.5f, 0.5f);
    t_begin(t);
    ft_softcap(t->step, y, 30);
    ft_softcap(t->step, x, 30);
    t_cost(t, 16.0 * T * V, 0);
    t_expect(t, y, 1e-12);
    t_expect_rest(t, x, 1e-12);
}
OPTEST_ROWS(softcap, {1, 1}, {3, 1001}, {2, 65536})

static void gather(ft_optest *t, const int *n)
{
    const int T = n[0], D = n[1], out = n[2];
    int32_t *idx = ft_new_n(int32_t, (size_t)(T + out));
    for (int i = 0; i < T + out; i++) idx[i] = t_below(t, T);
    ft_mat x = t_uniform(t, T, D, -3, 3), y = t_output(t, out, D), z = t_output(t, T, D);
    t->batch.T = T;
    t->batch.n_out = out;
    t->batch.out_row = t_ints(t, idx, out);
    t->batch.src_row = t_ints(t, idx + out, T);
    ft_free(idx);
    t_begin(t);
    ft_gather_out(t->step, y, x);
    ft_gather_src(t->step, z, x);
    t_expect(t, y, 0);
    t_expect_rest(t, z, 0);
    t_check_gaps(t, y);
    t_check_gaps(t, z);
}
OPTEST(gather, {1, 1, 1}, {9, 100, 4}, {64, 1024, 3})

static void argmax(ft_optest *t, const int *n)
{
    const int T = n[0], V = n[1], rows = t->pick >= 0 ? 1 : T;
    ft_mat x = t_uniform(t, T, V, -3, 3);
    if (n[2]) x = t_uniform(t, T, V, 1, 1); /* all equal: the lowest index */
    if (n[3]) x = t_uniform(t, T, V, -INFINITY, -INFINITY);
    int32_t *id = t_alloc(t, (size_t)rows * sizeof *id), got[64];
    t_begin(t);
    ft_argmax_rows(t->step, id, x);
    t_run(t);
    t->dev->download(t->dev, got, id, (size_t)rows * sizeof *id);
    float *as_float = ft_new_n(float, (size_t)rows);
    for (int i = 0; i < rows; i++) as_float[i] = (float)got[i];
    t_expect_values(t, (t_result){as_float, rows, 1}, 0);
}
OPTEST_ROWS(argmax, {1, 1}, {3, 100}, {17, 5000}, {2, 65536}, {4, 777, 1}, {2, 300, 0, 1},
            {3, 20000, 1}, {2, 9000, 0, 1})

static void rope(ft_optest *t, const int *n)
{
    const int T = n[0], H = n[1], d = n[2], rot = n[3], rows = t->pick >= 0 ? 1 : T;
    int32_t *pos = ft_new_n(int32_t, (size_t)T);
    double freq[256];
    uint8_t axis[256];
    for (int j = 0; j < rot / 2; j++) {
        freq[j] = j % 7 == 6 ? 0 : pow(1e6, -2.0 * j / rot);
        axis[j] = (uint8_t)(j % 3);
    }
    for (int a = 0; a < 3; a++) {
        for (int i = 0; i < T; i++) pos[i] = t_below(t, i % 2 ? 100 : 200000);
        t->batch.pos[a] = t_ints(t, pos + (t->pick >= 0 ? t->pick : 0), rows);
    }
    ft_free(pos);
    t->batch.T = rows;
    const ft_rope r = {rot, t_put(t, freq, sizeof freq), t_put(t, axis, sizeof axis), 1.1f};
    ft_mat cs = t_output(t, T, rot), x = t_uniform(t, T, H * d, -3, 3);
    ft_mat y = t_uniform(t, T, H * d, -3, 3), z = t_uniform(t, T, H * d, -3, 3);
    t_begin(t);
    ft_rope_angles(t->step, cs, &r);
    ft_norm_rope(t->step, ft_heads(x, 0, H, d, d), t_vec(t, d, 0.5, 1.5), 1e-6f, cs);
    ft_norm_rope(t->step, ft_heads(y, 0, H, d, d), (ft_vec){0}, 1e-6f, cs);
    ft_norm_rope(t->step, ft_heads(z, 0, H, d, d), (ft_vec){0}, -1, cs);
    t_expect(t, cs, 1e-13);
    t_check_gaps(t, cs);
    t_expect_rest(t, x, 1e-12);
    t_expect_rest(t, y, 1e-12);
    t_expect_rest(t, z, 1e-12);
}
OPTEST_ROWS(rope, {1, 1, 8, 8}, {3, 4, 64, 16}, {17, 5, 80, 40}, {64, 8, 256, 64}, {2, 2, 512, 512})

/* Pieces of up to n[1] bytes, uploaded together in one order and downloaded in it again. */
static void copies(ft_optest *t, const int *n)
{
    const size_t most = (size_t)n[1], all = most * (size_t)n[0];
    unsigned char *device = t_alloc(t, all), *to = ft_alloc(all), *from = ft_alloc(all);
    ft_copies in = {.dev = t->dev, .in = true}, out = {.dev = t->dev};
    ft_err err;
    for (size_t i = 0; i < all; i++) from[i] = (unsigned char)(i * 2654435761u >> 13);
    for (int i = 0; i < n[0]; i++) {
        const size_t bytes = i ? (size_t)t_below(t, n[1] + 1) : most, at = most * (size_t)i;
        ft_copies_add(&in, from + at, device + (all - most - at), bytes);
        ft_copies_add(&out, to + at, device + (all - most - at), bytes);
        memset(from + at + bytes, 0, most - bytes);
    }
    t_begin(t);
    ft_copies_run(&in);
    ft_copies_run(&out);
    if (t->dev->sync(t->dev, &err)) t_fail(t, err.text, 0);
    if (memcmp(to, from, all)) t_fail(t, "other bytes of", (double)all);
    ft_free(to);
    ft_free(from);
}
OPTEST(copies, {1, 16}, {7, 4099}, {300, 70001}, {3, 40 << 20}, {9000, 33})

/* Copies in the background: the host gets the bytes of the time of the call, although the device
 * gets others at once. Together they are more than the device has buffers for. */
static void saves(ft_optest *t, const int *n)
{
    enum { ROUNDS = 5 };
    const size_t most = (size_t)n[1], all = most * (size_t)n[0];
    unsigned char *device = t_alloc(t, all), *from = ft_alloc(all + ROUNDS), *to[ROUNDS];
    ft_copying copying[ROUNDS] = {{0}};
    ft_err err;
    for (size_t i = 0; i < all + ROUNDS; i++) from[i] = (unsigned char)(i * 2654435761u >> 13);
    t_begin(t);
    for (int r = 0; r < ROUNDS; r++) {
        ft_copies in = {.dev = t->dev, .in = true}, out = {.dev = t->dev};
        to[r] = ft_alloc(all);
        ft_copies_add(&in, from + r, device, all);
        for (int i = 0; i < n[0]; i++) /* the last bytes of each piece in a piece of their own */
            for (size_t k = 0, at = most * (size_t)i, last = (size_t)i % 7; k < 2; k++)
                ft_copies_add(&out, to[r] + at + k * (most - last), device + at + k * (most - last),
                              k ? last : most - last);
        ft_copies_run(&in);
        ft_copies_save(&out, &copying[r]);
    }
    if (t->dev->sync(t->dev, &err)) t_fail(t, err.text, 0);
    for (int r = 0; r < ROUNDS; r++) {
        if (!ft_copying_wait(&copying[r])) t_fail(t, "failed round", r);
        if (memcmp(to[r], from + r, all)) t_fail(t, "other bytes in round", r);
        ft_free(to[r]);
    }
    ft_free(from);
}
OPTEST(saves, {1, 16}, {7, 4099}, {300, 70001}, {3, 40 << 20}, {9000, 33})

int main(int argc, char **argv)
{
    const t_case *const all[] = {
        &rmsnorm_case,     &rmsnorm_heads_case, &gated_norm_case, &norm_add_case, &act_mul_case,
        &sigmoid_mul_case, &add_case,           &softcap_case,    &gather_case,   &argmax_case,
        &rope_case,        &norm_add_both_case, &copies_case,     &saves_case};
    return t_main(argc, argv, all, FT_COUNT(all));
}
