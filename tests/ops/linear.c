/* Products with weights of every type, and the ops built on them. */
#include "base/cpu.h"
#include "optest.h"
#include "quant/turbo_weights.h"

static bool plain_type(ft_type type)
{
    return !ft_type_of(type)->quant;
}

static bool on_cpu(const ft_optest *t)
{
    return !strcmp(t->dev->name, "cpu");
}

/* A matrix of n outputs and k inputs that is stored as another type: cuda rounds large F32 ones. */
static ft_type stored_as(const ft_optest *t, ft_type type, int n, int k)
{
    const bool rounded = type == FT_F32 && n > 512 && n * k >= 1 << 20;
    return rounded && !strcmp(t->dev->name, "cuda") ? FT_F16 : type;
}

/* Activations are multiplied as bytes for some types: their rounding is the error allowed. A few
 * outputs may all be small by chance, and then their relative error is large. Those of F16 weights
 * with FMLAL, and of F16 and BF16 weights on cuda, are rounded to f16, which changes a value by at
 * most 2^-12. */
static double limit(const ft_optest *t, ft_type type, int outputs)
{
    const bool cuda = !strcmp(t->dev->name, "cuda");
    const double plain = cuda ? 2e-10 : 1e-11; /* on cuda F32 is the sum of two bf16 numbers */
    if (type == FT_F16 && on_cpu(t) && ft_cpu_isa() & FT_FHM) return 6e-8;
    if (cuda && (type == FT_F16 || type == FT_BF16)) return outputs < 128 ? 1e-6 : 1e-7;
    if (plain_type(type)) return plain;
    if (outputs < 32) return 5e-3;
    if (ft_tq_is(type)) return outputs < 512 ? 4e-5 : 5e-3 * 5e-3;
    return 2e-4;
}

static void linear(ft_optest *t, const int *n)
{
    const int T = n[0], k = n[1], out = n[2];
    const ft_type type = (ft_type)n[3];
    const double most = limit(t, stored_as(t, type, out, k), T * out);
    ft_weight w = t_weight(t, type, out, k, 1);
    ft_mat x = t_uniform(t, T, k, -1, 1), y = t_output(t, T, out), z = t_uniform(t, T, out, -1, 1);
    t->batch.T = T;
    t_begin(t);
    ft_linear(t->step, y, x, &w);
    t_cost(t, (double)w.row_bytes * out, 2.0 * T * k * out);
    t_expect(t, y, most);
    t_check_gaps(t, y);
    if (t->bench) return;
    const float scale = 0.375f;
    w.scale = t_put(t, &scale, sizeof scale);
    t_begin(t);
    ft_linear_add(t->step, z, x, &w);
    ft_add(t->step, x, x, 0.25f); /* the cached bytes of x must be invalidated */
    ft_linear_add(t->step, z, x, &w);
    t_expect(t, z, most);
}

#define ROWS(type, k, n)                                                                           \
    {1, k, n, type}, {2, k, n, type}, {3, k, n, type}, {5, k, n, type}, {16, k, n, type},          \
        {17, k, n, type}, {31, k, n, type}, {33, k, n, type}, {64, k, n, type},                    \
    {                                                                                              \
        97, k, n, type                                                                             \
    }
#define BLOCK32(type)                                                                              \
    ROWS(type, 256, 37), ROWS(type, 320, 40), {3, 32, 1, type}, {3, 96, 5, type},                  \
        {7, 288, 16, type},                                                                        \
    {                                                                                              \
        4, 2080, 3, type                                                                           \
    }
#define BLOCK256(type)                                                                             \
    ROWS(type, 512, 37), ROWS(type, 768, 24), {3, 256, 1, type},                                   \
    {                                                                                              \
        7, 768, 16, type                                                                           \
    }
/* What every type gets: one row, few rows, and many. */
#define EACH(type, k)                                                                              \
    {1, k, 37, type}, {2, k, 37, type}, {3, k, 37, type}, {4, k, 37, type}, {5, k, 37, type},      \
        {6, k, 37, type}, {7, k, 37, type}, {8, k, 37, type}, {17, k, 9, type}, {31, k, 9, type},  \
        {33, k, 37, type},                                                                         \
    {                                                                                              \
        200, k, 40, type                                                                           \
    }
/* Enough outputs that a block has them for whole rows. */
#define MORE(type, k)                                                                              \
    {9, k, 8260, type}, {10, k, 8260, type}, {18, k, 8260, type}, {30, k, 8260, type},             \
        {33, k, 8260, type}, {48, k, 8260, type},                                                  \
    {                                                                                              \
        75, k, 8260, type                                                                          \
    }
/* Enough blocks of many rows to fill a GPU. */
#define MANY(type, k)                                                                              \
    {                                                                                              \
        390, k, 1100, type                                                                         \
    }
#define EACH_TYPE(X)                                                                               \
    X(FT_F32, 200), X(FT_F16, 200), X(FT_BF16, 200), X(FT_Q8_0, 96), X(FT_Q4_0, 96),               \
        X(FT_Q4_1, 96), X(FT_Q5_0, 96), X(FT_Q5_1, 96), X(FT_Q2_K, 512), X(FT_Q3_K, 512),          \
        X(FT_Q4_K, 512), X(FT_Q5_K, 512), X(FT_Q6_K, 512), X(FT_IQ1_S, 512), X(FT_IQ1_M, 512),     \
        X(FT_IQ2_XXS, 512), X(FT_IQ2_XS, 512), X(FT_IQ2_S, 512), X(FT_IQ3_XXS, 512),               \
        X(FT_IQ3_S, 512), X(FT_IQ4_NL, 96), X(FT_IQ4_XS, 512), X(FT_TQ1_0, 512), X(FT_TQ2_0, 512), \
        X(FT_Q1_0, 256), X(FT_Q2_0, 192), X(FT_MXFP4, 96), X(FT_NVFP4, 192), X(FT_TQ3_1S, 96),     \
        X(FT_TQ4_1S, 96)
OPTEST_ROWS(linear, ROWS(FT_F32, 200, 37), {1, 1, 1, FT_F32}, {3, 17, 5, FT_F32},
            {2, 1023, 3, FT_F32}, {1, 2048, 520, FT_F32}, {7, 1100, 1000, FT_F32},
            {40, 1100, 1000, FT_F32}, {130, 1100, 1000, FT_F32}, ROWS(FT_F16, 200, 37),
            {1, 1, 1, FT_F16}, {3, 21, 5, FT_F16}, ROWS(FT_BF16, 200, 37), {1, 1, 1, FT_BF16},
            {3, 21, 5, FT_BF16}, {390, 200, 4360, FT_BF16}, {129, 4096, 70, FT_BF16},
            {129, 72, 100, FT_F16}, {200, 584, 100, FT_BF16}, {300, 72, 4100, FT_F16},
            /* large BF16 matrices, which AMX multiplies; the last rows are no whole tile */
            ROWS(FT_BF16, 520, 523), {8, 513, 523, FT_BF16}, {130, 520, 523, FT_BF16},
            /* several tiles of a block, of both widths */
            {1030, 70, 2101, FT_F16}, {1030, 70, 2817, FT_BF16}, BLOCK32(FT_Q8_0), BLOCK32(FT_Q4_0),
            BLOCK32(FT_IQ4_NL), BLOCK256(FT_Q4_K), BLOCK256(FT_Q5_K), BLOCK256(FT_Q6_K),
            BLOCK256(FT_Q3_K), BLOCK256(FT_Q2_K), BLOCK256(FT_IQ4_XS), BLOCK32(FT_TQ3_1S),
            BLOCK32(FT_TQ4_1S), {3, 352, 37, FT_TQ4_1S}, {300, 256, 40, FT_Q4_K},
            {200, 64, 5, FT_Q8_0}, /* more rows than stay in the cache */
            /* with AMX: several parts of a row, sixteen columns and nine or fifteen more */
            {25, 1280, 37, FT_Q2_K}, {143, 1312, 37, FT_Q5_1}, {9, 1280, 37, FT_Q3_K},
            {137, 1088, 37, FT_NVFP4}, {41, 1312, 37, FT_Q8_0}, {153, 1056, 37, FT_MXFP4},
            EACH_TYPE(EACH), MORE(FT_Q4_K, 512), MORE(FT_Q8_0, 96), {20, 256, 42300, FT_Q4_K},
            {24, 5376, 700, FT_Q4_K}, {50, 1280, 5130, FT_Q4_K}, {64, 1536, 330, FT_Q5_K},
            {36, 256, 8260, FT_Q6_K}, {75, 256, 8260, FT_Q6_K}, {40, 512, 700, FT_Q5_K},
            {90, 96, 8260, FT_IQ4_NL}, {22, 96, 42300, FT_Q8_0}, {35, 64, 42300, FT_MXFP4},
            {16, 256, 42300, FT_Q4_K}, {11, 1536, 330, FT_Q6_K}, {24, 512, 5120, FT_Q4_K},
            {70, 1280, 5130, FT_Q4_K}, {85, 512, 700, FT_Q5_K}, {128, 1536, 330, FT_Q4_K},
            MANY(FT_Q4_K, 768), MANY(FT_Q6_K, 256), MANY(FT_Q8_0, 96), MANY(FT_BF16, 200),
            MANY(FT_F16, 200), MANY(FT_Q5_1, 96), MANY(FT_Q2_K, 256), MANY(FT_Q3_K, 256),
            MANY(FT_IQ1_M, 256), MANY(FT_IQ2_XXS, 256), MANY(FT_IQ2_S, 256), MANY(FT_IQ3_S, 256),
            MANY(FT_TQ2_0, 256), MANY(FT_TQ3_1S, 96), MANY(FT_TQ4_1S, 96))

/* Results whose rows are not aligned. */
static void linear_unaligned(ft_optest *t, const int *n)
{
    const int T = n[0], k = n[1], out = n[2];
    const ft_type type = (ft_type)n[3];
    ft_weight w = t_weight(t, type, out, k, 1);
    ft_mat x = t_uniform(t, T, k, -1, 1), y = t_output(t, T, out);
    y.rs--;
    t->batch.T = T;
    t_begin(t);
    ft_linear(t->step, y, x, &w);
    ft_linear_add(t->step, y, x, &w);
    t_expect(t, y, limit(t, type, T * out));
    t_check_gaps(t, y);
}
OPTEST_ROWS(linear_unaligned, {3, 200, 40, FT_F32}, {40, 256, 100, FT_Q4_K},
            {130, 256, 300, FT_Q4_K}, {130, 200, 300, FT_F16})

/* Rows of very different sizes, for the CPU, which may scale them; each has its own error. */
static void linear_sizes(ft_optest *t, const int *n)
{
    enum { T = 6 };
    static const float size[T] = {1, 1e6f, 1e-6f, 0, 1e30f, 1e-30f};
    const ft_type type = (ft_type)n[2];
    if (!on_cpu(t) && strcmp(t->dev->name, "ref")) return;
    ft_weight w = t_weight(t, type, n[1], n[0], 1);
    ft_mat x[T], y[T];
    t->batch.T = 1;
    for (int i = 0; i < T; i++) {
        x[i] = t_uniform(t, 1, n[0], -size[i], size[i]);
        y[i] = t_output(t, 1, n[1]);
    }
    t_begin(t);
    for (int i = 0; i < T; i++) ft_linear(t->step, y[i], x[i], &w);
    t_run(t);
    for (int i = 0; i < T; i++) t_expect_rest(t, y[i], limit(t, type, n[1]));
}
OPTEST(linear_sizes, {200, 37, FT_F32}, {200, 37, FT_F16}, {200, 37, FT_BF16})

/* A block whose codes and integer scales all have the largest magnitude, or nearly so (IQ3). */
static void largest_block(unsigned char *b, ft_type type)
{
    const unsigned char one[2] = {0, 0x3c}; /* as f16 */
    const bool min = type == FT_Q2_K || type == FT_Q4_K || type == FT_Q5_K;
    const bool lowest = type == FT_Q3_K || type == FT_Q6_K || type == FT_IQ4_XS;
    const int at = type == FT_Q2_K ? 80 : type == FT_Q3_K ? 108 : type == FT_Q6_K ? 208 : 0;
    memset(b, lowest ? 0 : 0xff, ft_type_of(type)->bytes);
    if (type == FT_Q6_K) memset(b + 192, 0x80, 16);
    memcpy(b + at, one, sizeof one);
    if (min) memcpy(b + at + 2, one, sizeof one);
}

/* Integer sums as large as they can be, which must be exact for any number of rows. */
static void linear_largest(ft_optest *t, const int *n)
{
    enum { K = 512, OUT = 37 };
    const int T = n[0], rows = t->pick >= 0 ? 1 : T;
    const ft_type type = (ft_type)n[1];
    const size_t block = ft_type_of(type)->bytes, bytes = OUT * ft_type_row(type, K);
    unsigned char *raw = t_host(t, bytes);
    for (size_t i = 0; i < bytes; i += block) largest_block(raw + i, type);
    ft_weight w = t_weight_of(t, type, OUT, K, 1, raw);
    float *x = t_host(t, (size_t)rows * K * sizeof *x);
    /* As bytes they are 120 to 127. Their sums are odd, so that none of their bits may be lost. */
    for (int i = 0; i < rows * K; i++) {
        const int row = t->pick >= 0 ? t->pick : i / K, at = i % K;
        const int byte = at % 256 ? 120 + (at * at + 3 * row + at / 7) % 8 : 127;
        x[i] = (float)byte / 127 * (row % 2 ? -1.0f : 1.0f);
    }
    ft_mat y = t_output(t, T, OUT);
    t->batch.T = T;
    t_begin(t);
    ft_linear(t->step, y, ft_mat_at(t_put(t, x, (size_t)rows * K * sizeof *x), rows, K), &w);
    t_expect(t, y, limit(t, type, T * OUT));
}
#define LARGEST(type)                                                                              \
    {1, type}, {4, type}, {8, type}, {25, type},                                                   \
    {                                                                                              \
        130, type                                                                                  \
    }
OPTEST_ROWS(linear_largest, LARGEST(FT_Q2_K), LARGEST(FT_Q3_K), LARGEST(FT_Q4_K), LARGEST(FT_Q5_K),
            LARGEST(FT_Q6_K), LARGEST(FT_IQ4_XS), LARGEST(FT_IQ3_XXS), LARGEST(FT_IQ3_S))

/* One activation that is not a number makes every output of its row one, also where activations are
 * rounded to bytes. */
static void linear_nan(ft_optest *t, const int *n)
{
    enum { K = 512, OUT = 37 };
    if (!on_cpu(t) && strcmp(t->dev->name, "ref")) return;
    ft_weight w = t_weight(t, (ft_type)n[0], OUT, K, 1);
    float x[K];
    for (int i = 0; i < K; i++) x[i] = i == n[1] ? NAN : t_draw(t, -1, 1);
    ft_mat y = t_output(t, 1, OUT);
    t->batch.T = 1;
    t_begin(t);
    ft_linear(t->step, y, ft_mat_at(t_put(t, x, sizeof x), 1, K), &w);
    t_run(t);
    const t_result r = t_read(t, y);
    for (int i = 0; i < OUT; i++)
        if (!isnan(r.v[i])) t_fail(t, "a number from a row that has a NaN", r.v[i]);
    ft_free(r.v);
}
#define WITH_NAN(type)                                                                             \
    {type, 0}, {type, 100},                                                                        \
    {                                                                                              \
        type, 511                                                                                  \
    }
OPTEST(linear_nan, WITH_NAN(FT_F32), WITH_NAN(FT_Q8_0), WITH_NAN(FT_Q4_0), WITH_NAN(FT_Q2_K),
       WITH_NAN(FT_Q3_K), WITH_NAN(FT_Q4_K), WITH_NAN(FT_Q5_K), WITH_NAN(FT_Q6_K),
       WITH_NAN(FT_IQ4_XS), WITH_NAN(FT_IQ2_S), WITH_NAN(FT_MXFP4), WITH_NAN(FT_TQ4_1S))

/* Several products of one x, of the same type and of others; then a pair joined by an activation.
 */
static void linears(ft_optest *t, const int *n)
{
    const int T = n[0], k = n[1], F = n[2];
    const ft_type a = (ft_type)n[3], b = (ft_type)n[4];
    ft_weight w[4] = {t_weight(t, a, 40, k, 1), t_weight(t, b, 3, k, 1), t_weight(t, a, 17, k, 1),
                      t_weight(t, b, 64, k, 1)};
    ft_weight gate = t_weight(t, a, F, k, 1), up = t_weight(t, n[5] ? b : a, F, k, 1);
    ft_weight down = t_weight(t, FT_F32, 5, F, 1);
    ft_mat x = t_uniform(t, T, k, -1, 1), g = t_output(t, T, F), u = t_output(t, T, F);
    ft_mat z = t_output(t, T, 5);
    ft_product_out o[4];
    for (int i = 0; i < 4; i++) o[i] = (ft_product_out){t_output(t, T, w[i].n), &w[i]};
    t->batch.T = t->pick >= 0 ? 1 : T;
    t_begin(t);
    ft_linears(t->step, o, 4, x);
    ft_glu(t->step, g, u, x, &gate, &up, n[6] ? FT_GELU : FT_SILU);
    ft_linear(t->step, z, g, &down); /* tests the bf16 copy of g that a product reads */
    t_run(t);
    for (int i = 0; i < 4; i++) {
        t_expect_rest(t, o[i].y, 10 * FT_MAX(limit(t, a, T * 3), limit(t, b, T * 3)));
        t_check_gaps(t, o[i].y);
    }
    t_expect_rest(t, g, 10 * FT_MAX(limit(t, a, T * F), limit(t, b, T * F)));
    t_expect_rest(t, z, 10 * FT_MAX(limit(t, a, T * 5), limit(t, b, T * 5)));
    t_check_gaps(t, g);
}
OPTEST_ROWS(linears, {1, 64, 48, FT_F32, FT_BF16}, {3, 256, 128, FT_Q4_K, FT_F32},
            {17, 512, 96, FT_Q6_K, FT_Q8_0, 1, 1}, {130, 256, 272, FT_Q4_K, FT_Q5_0},
            {5, 512, 40, FT_Q5_K, FT_IQ4_XS, 1}, {64, 192, 64, FT_NVFP4, FT_MXFP4},
            {390, 256, 600, FT_Q4_K, FT_Q8_0}, {390, 256, 600, FT_BF16, FT_F16},
            {20, 768, 344, FT_Q4_K, FT_BF16}, {30, 512, 640, FT_Q8_0, FT_F16},
            {41, 1536, 192, FT_Q6_K, FT_IQ2_S}, {100, 512, 400, FT_BF16, FT_Q4_K},
            {10, 768, 344, FT_Q4_K, FT_BF16}, {16, 96, 17408, FT_Q8_0, FT_F32},
            {70, 768, 344, FT_Q4_K, FT_BF16}, {90, 512, 640, FT_Q6_K, FT_F32},
            {128, 96, 2100, FT_Q8_0, FT_F16}, {129, 584, 100, FT_F16, FT_BF16},
            {1030, 70, 1536, FT_BF16, FT_F16})

/* Tests the copies that other ops write for a product, not their results themselves. Each is read
 * by weights of one type, or of two. The second time a device may know what is read. */
static void products_of(ft_optest *t, const int *n)
{
    enum { OPS = 7, ROUNDS = 2, ALL = 2 * OPS };
    static const ft_type type[ALL] = {FT_BF16, FT_F32,  FT_F16,  FT_F32,  FT_Q8_0, FT_BF16, FT_BF16,
                                      FT_BF16, FT_Q8_0, FT_BF16, FT_BF16, FT_BF16, FT_BF16, FT_F16};
    const int T = n[0], H = n[1], d = n[2], k = H * d;
    ft_weight w[ALL], gate = t_weight(t, FT_BF16, k, k, 1), up = t_weight(t, FT_BF16, k, k, 1);
    ft_mat x = t_uniform(t, T, k, -1, 1), g = t_uniform(t, T, k, -2, 2), y[OPS], z[ROUNDS][ALL];
    ft_mat u = t_output(t, T, k);
    ft_vec v = t_vec(t, k, 0.5f, 1.5f), own = t_vec(t, d, 0.5f, 1.5f);
    for (int i = 0; i < OPS; i++) y[i] = i == 3 ? t_uniform(t, T, k, -1, 1) : t_output(t, T, k);
    for (int i = 0; i < ALL; i++) {
        w[i] = t_weight(t, type[i], 24, k, 1);
        for (int r = 0; r < ROUNDS; r++) z[r][i] = t_output(t, T, 24);
    }
    t->batch.T = t->pick >= 0 ? 1 : T;
    t_begin(t);
    for (int r = 0; r < ROUNDS; r++) {
        ft_rmsnorm(t->step, y[0], x, v, 1e-6f);
        ft_gated_norm(t->step, ft_heads(y[1], 0, H, d, d), ft_heads(x, 0, H, d, d),
                      ft_heads(g, 0, H, d, d), own, 1e-6f);
        ft_act_mul(t->step, y[2], g, x, FT_SILU);
        ft_sigmoid_mul(t->step, y[3], g);
        ft_glu(t->step, y[6], u, x, &gate, &up, FT_SILU);
        ft_norm_add(t->step, x, g, v, 1e-6f, 0.5f, (ft_norm_out[]){{y[4], v}, {y[5], v}}, 2);
        for (int i = 0; i < ALL; i++) ft_linear(t->step, z[r][i], y[i % OPS], &w[i]);
    }
    t_run(t);
    for (int i = 0; i < ROUNDS * ALL; i++) {
        /* y[6] itself is the result of products with BF16 weights */
        const double bound = FT_MAX(limit(t, type[i % ALL], T * 24),
                                    limit(t, i % OPS == 6 ? FT_BF16 : FT_F32, T * 24));
        t_expect_rest(t, z[i / ALL][i % ALL], 10 * bound);
    }
}
OPTEST_ROWS(products_of, {1, 2, 64}, {5, 1, 192}, {64, 2, 128}, {65, 2, 128}, {131, 3, 64})

/* The same for weights that read their input Hadamard-transformed. The second time a device may
 * know that, and write the transformed copy with the result. */
static void products_of_tq(ft_optest *t, const int *n)
{
    enum { OPS = 6, ROUNDS = 2 };
    const int T = n[0], H = n[1], d = n[2], k = H * d, F = n[3];
    ft_weight w[OPS], gate = t_weight(t, FT_Q8_0, F, k, 1), up = t_weight(t, FT_Q8_0, F, k, 1);
    ft_mat x = t_uniform(t, T, k, -1, 1), g = t_uniform(t, T, k, -2, 2), y[OPS], z[ROUNDS][OPS];
    ft_mat u = t_output(t, T, F);
    ft_vec v = t_vec(t, k, 0.5f, 1.5f), own = t_vec(t, d, 0.5f, 1.5f);
    for (int i = 0; i < OPS; i++) {
        w[i] = t_weight(t, i % 2 ? FT_TQ3_1S : FT_TQ4_1S, 24, i == 4 ? F : k, 1);
        y[i] = i == 5 ? t_uniform(t, T, k, -1, 1) : t_output(t, T, i == 4 ? F : k);
        for (int r = 0; r < ROUNDS; r++) z[r][i] = t_output(t, T, 24);
    }
    t->batch.T = t->pick >= 0 ? 1 : T;
    t_begin(t);
    for (int r = 0; r < ROUNDS; r++) {
        ft_rmsnorm(t->step, y[0], x, v, 1e-6f);
        ft_gated_norm(t->step, ft_heads(y[1], 0, H, d, d), ft_heads(x, 0, H, d, d),
                      ft_heads(g, 0, H, d, d), own, 1e-6f);
        ft_norm_add(t->step, x, g, v, 1e-6f, 0.5f, (ft_norm_out[]){{y[2], v}, {y[3], v}}, 2);
        ft_glu(t->step, y[4], u, x, &gate, &up, FT_SILU);
        ft_sigmoid_mul(t->step, y[5], g);
        for (int i = 0; i < OPS; i++) ft_linear(t->step, z[r][i], y[i], &w[i]);
    }
    t_run(t);
    for (int i = 0; i < ROUNDS * OPS; i++) {
        /* y[4] itself is the result of products with Q8_0 weights */
        const double bound = limit(t, FT_TQ4_1S, T * 24);
        const double more = i % OPS == 4 ? 10 * limit(t, FT_Q8_0, T * 24) : 2 * bound;
        t_expect_rest(t, z[i / OPS][i % OPS], more);
    }
}
OPTEST_ROWS(products_of_tq, {3, 2, 64, 192}, {5, 1, 192, 128}, {2, 4, 128, 6464}, {1, 2, 256, 6400},
            {65, 2, 128, 256}, {131, 2, 256, 512}, {12, 8, 64, 8512})

/* Shapes of real layers, for the bench. */
#define LARGE(type)                                                                                \
    {1, 4096, 4096, type}, {4, 4096, 4096, type},                                                  \
    {                                                                                              \
        64, 4096, 1024, type                                                                       \
    }
static void linear_large(ft_optest *t, const int *n)
{
    if (t->bench) linear(t, n);
}
OPTEST_ROWS(linear_large, {1, 1024, 2048, FT_Q8_0}, LARGE(FT_Q8_0), LARGE(FT_Q4_0), LARGE(FT_Q4_K),
            LARGE(FT_Q5_K), LARGE(FT_Q6_K), LARGE(FT_Q3_K), LARGE(FT_Q2_K), LARGE(FT_IQ4_XS),
            LARGE(FT_BF16), LARGE(FT_F16), {1, 2048, 2048, FT_F32}, {64, 2048, 1024, FT_F32},
            LARGE(FT_IQ1_M), LARGE(FT_IQ2_XXS), LARGE(FT_IQ2_S), LARGE(FT_IQ3_XXS), LARGE(FT_IQ3_S),
            LARGE(FT_TQ2_0), LARGE(FT_TQ3_1S), LARGE(FT_TQ4_1S))

static void embed(ft_optest *t, const int *n)
{
    const int T = n[0], D = n[1], V = n[2], rows = t->pick >= 0 ? 1 : T;
    t->rows = true;
    ft_weight w = t_weight(t, (ft_type)n[3], V, D, 1);
    int32_t token[128];
    for (int i = 0; i < T; i++) token[i] = t_below(t, V);
    /* every third one is an id that an earlier step left on the device, or is missing */
    const int32_t drawn[] = {t_below(t, V), -1, t_below(t, V)};
    for (int i = 2; i < T; i += 3) token[i] = ft_token_drawn(i / 3 % 3);
    t->batch.drawn = t_put(t, drawn, sizeof drawn);
    t->batch.T = rows;
    t->batch.token = t_ints(t, token + (t->pick >= 0 ? t->pick : 0), rows);
    ft_mat y = t_output(t, T, D);
    t_begin(t);
    ft_embed(t->step, y, &w, 3.5f);
    t_expect(t, y, 1e-13);
    t_check_gaps(t, y);
}
OPTEST_ROWS(embed, {1, 64, 10, FT_F32}, {5, 96, 33, FT_Q8_0}, {17, 512, 7, FT_Q6_K},
            {3, 768, 20, FT_Q4_K}, {9, 100, 20, FT_BF16}, {2, 832, 5, FT_NVFP4})

/* The ids of the chosen experts, as results. */
static void expect_ids(ft_optest *t, ft_expert_choice r, int rows)
{
    const size_t all = (size_t)rows * (size_t)r.K;
    int32_t *id = ft_new_n(int32_t, all);
    float *as_float = ft_new_n(float, all);
    t->dev->download(t->dev, id, r.id, all * sizeof *id);
    for (size_t i = 0; i < all; i++) as_float[i] = (float)id[i];
    t_expect_values(t, (t_result){as_float, rows, r.K}, 0);
    ft_free(id);
}

static void route(ft_optest *t, const int *n)
{
    const int T = n[0], E = n[1], K = n[2], rows = t->pick >= 0 ? 1 : T;
    ft_mat x = t_uniform(t, T, E, -6, 6);
    if (n[3]) x = t_uniform(t, T, E, 0, 0); /* all equal: the lower index wins */
    const size_t all = (size_t)rows * (size_t)K;
    ft_expert_choice r = {t_alloc(t, all * sizeof(int32_t)), t_alloc(t, all * sizeof(float)), K};
    t_begin(t);
    ft_route_top(t->step, r, x);
    t_expect(t, ft_mat_at(r.w, rows, K), 1e-11);
    expect_ids(t, r, rows);
}
OPTEST_ROWS(route, {1, 1, 1}, {1, 128, 8}, {5, 16, 16}, {17, 60, 4}, {2, 12, 5, 1}, {33, 256, 8})

static void moe(ft_optest *t, const int *n)
{
    const int T = n[0], D = n[1], F = n[2], E = n[3], K = n[4], rows = t->pick >= 0 ? 1 : T;
    const ft_type type = (ft_type)n[5];
    const bool fused = n[6] != 0;
    ft_experts e = {.E = E, .F = F, .act = n[7] ? FT_GELU : FT_SILU};
    if (fused) {
        e.gate_up = t_weight(t, type, 2 * F, D, E);
        e.gate_up.scale = t_vec(t, E, 0.5, 2).p;
    } else {
        e.gate = t_weight(t, type, F, D, E);
        if (!n[8]) e.up = t_weight(t, type, F, D, E);
        e.gate.scale = t_vec(t, E, 0.5, 2).p;
    }
    if (n[8]) e.up = t_weight(t, (ft_type)n[8], F, D, E); /* up matrices of another type */
    e.down = t_weight(t, n[9] ? (ft_type)n[9] : type, D, F, E);
    e.down.scale = t_vec(t, E, 0.5, 2).p;
    const size_t all = (size_t)rows * (size_t)K;
    ft_expert_choice r = {t_alloc(t, all * sizeof(int32_t)), t_alloc(t, all * sizeof(float)), K};
    ft_mat score = t_uniform(t, T, E, -3, 3), x = t_uniform(t, T, D, -2, 2);
    ft_mat y = t_output(t, T, D), z = t_uniform(t, T, D, -1, 1);
    ft_mat tmp = ft_mat_at(t_alloc(t, all * 2 * (size_t)F * sizeof(float)), (int)all, 2 * F);
    t_begin(t);
    ft_route_top(t->step, r, score);
    ft_moe(t->step, y, x, &e, r, tmp, false);
    ft_moe(t->step, z, x, &e, r, tmp, true);
    double bound = FT_MAX(limit(t, type, T * D), limit(t, e.down.type, T * D));
    if (n[8]) bound = FT_MAX(bound, limit(t, e.up.type, T * D));
    t_expect(t, y, bound * 4);
    t_expect_rest(t, z, bound * 4);
    t_check_gaps(t, y);
}
/* Experts of every type: one row, few, few rows each of many experts, and 16, 30 and 100 rows of an
 * expert on average. */
#define EXPERTS(type, k)                                                                           \
    {1, 256, 256, 4, 2, type}, {7, 256, 256, 4, 2, type, 1}, {40, 256, 256, 32, 2, type},          \
        {33, 256, 256, 4, 2, type}, {60, 256, 256, 4, 2, type},                                    \
    {                                                                                              \
        200, 256, 256, 4, 2, type                                                                  \
    }
/* Few rows, with 768 columns of gate and up and 512 of down: parts of two units and of one. */
#define FEW_ROWS(type, k)                                                                          \
    {                                                                                              \
        3, 768, 512, 3, 2, type                                                                    \
    }
OPTEST_ROWS(moe, EACH_TYPE(EXPERTS), {1, 64, 32, 4, 2, FT_F32}, {5, 64, 48, 8, 3, FT_BF16, 1},
            {17, 96, 128, 16, 4, FT_Q8_0, 0, 1}, {3, 256, 256, 6, 2, FT_Q4_K, 1},
            {40, 512, 256, 5, 5, FT_Q6_K}, {7, 64, 96, 4, 2, FT_Q5_0, 0, 1},
            {16, 128, 192, 32, 2, FT_Q8_0, 1}, {5, 128, 96, 4, 2, FT_TQ4_1S},
            {3, 64, 96, 4, 2, FT_TQ4_1S, 0, 0, FT_Q8_0},
            {3, 64, 96, 4, 2, FT_Q8_0, 0, 1, FT_TQ3_1S}, {100, 256, 256, 8, 2, FT_Q4_K, 1},
            {90, 64, 128, 32, 2, FT_Q8_0}, {130, 64, 96, 4, 2, FT_Q5_0, 0, 1},
            {140, 64, 64, 2, 2, FT_BF16}, {100, 64, 96, 4, 2, FT_Q8_0, 0, 1, FT_F32},
            /* parts of three and five units, more rows of an expert than a tile has, and thousands
             * of choices */
            {150, 1344, 704, 6, 3, FT_Q8_0}, {290, 2112, 192, 3, 2, FT_Q4_0, 1},
            {600, 64, 64, 40, 4, FT_Q8_0},
            /* few rows: parts of six and two units, rows that share experts, all experts */
            {3, 2816, 704, 4, 2, FT_Q4_0}, {4, 1024, 512, 3, 2, FT_Q5_K},
            {2, 1024, 512, 9, 9, FT_Q6_K}, {4, 1024, 64, 160, 8, FT_Q4_0, 1},
            {2, 1024, 512, 9, 3, FT_IQ4_XS, 0, 1, 0, FT_Q8_0},
            /* gate, up and down of different types */
            {1, 256, 256, 4, 2, FT_IQ2_XXS, 0, 0, FT_IQ3_S, FT_Q4_K},
            {9, 256, 256, 8, 2, FT_Q3_K, 1, 0, 0, FT_TQ4_1S},
            {90, 256, 256, 32, 2, FT_TQ3_1S, 0, 0, FT_IQ1_M, FT_Q2_K},
            {200, 256, 256, 4, 2, FT_Q2_K, 0, 0, FT_TQ3_1S, FT_TQ4_1S},
            {200, 256, 256, 4, 2, FT_TQ4_1S, 0, 0, 0, FT_IQ2_S},
            {5, 256, 256, 8, 2, FT_Q8_0, 0, 0, 0, FT_BF16},
            {90, 256, 256, 32, 2, FT_F16, 1, 0, 0, FT_Q4_K},
            {200, 256, 256, 4, 2, FT_BF16, 0, 0, FT_F32, FT_F16}, {3, 512, 520, 8, 3, FT_BF16},
            {90, 512, 520, 4, 2, FT_BF16, 1}, EACH_TYPE(FEW_ROWS))

/* Choices that do not come from route, but from the host: others at the same address for the next
 * moe of a step, as when experts are spread over several devices. */
static void moe_uploaded(ft_optest *t, const int *n)
{
    const int T = n[0], D = n[1], F = n[2], E = n[3], K = n[4];
    const ft_type type = (ft_type)n[5];
    const size_t all = (size_t)T * (size_t)K;
    ft_experts e = {.E = E, .F = F, .act = FT_SILU};
    e.gate = t_weight(t, type, F, D, E);
    e.up = t_weight(t, type, F, D, E);
    e.down = t_weight(t, type, D, F, E);
    ft_mat x = t_uniform(t, T, D, -2, 2), y = t_output(t, T, D), z = t_output(t, T, D);
    ft_mat tmp = ft_mat_at(t_alloc(t, all * 2 * (size_t)F * sizeof(float)), (int)all, 2 * F);
    ft_expert_choice r = {t_alloc(t, all * sizeof(int32_t)), t_uniform(t, T, K, 0, 1).p, K};
    int32_t *id = ft_new_n(int32_t, all);
    t_begin(t);
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < (int)all; i++) id[i] = (i / K * (k + 2) + i % K + k) % E;
        t->dev->commit(t->dev); /* what was recorded before reads the choices before */
        t->dev->upload(t->dev, r.id, id, all * sizeof *id);
        ft_moe(t->step, k ? z : y, x, &e, r, tmp, false);
    }
    ft_free(id);
    t_expect(t, y, limit(t, type, T * D) * 4);
    t_expect_rest(t, z, limit(t, type, T * D) * 4);
}
OPTEST(moe_uploaded, {1, 64, 64, 4, 1, FT_Q8_0}, {6, 64, 64, 4, 2, FT_Q8_0},
       {40, 256, 256, 8, 2, FT_Q4_K}, {300, 64, 64, 4, 1, FT_BF16})

/* One product of each choice: with an input for each row, then with one for each choice. */
static void expert_linear(ft_optest *t, const int *n)
{
    const int T = n[0], D = n[1], F = n[2], E = n[3], K = n[4], rows = t->pick >= 0 ? 1 : T;
    const ft_type type = (ft_type)n[5];
    ft_weight up = t_weight(t, type, F, D, E), down = t_weight(t, type, D, F, E);
    down.scale = t_vec(t, E, 0.5, 2).p;
    const size_t all = (size_t)rows * (size_t)K;
    ft_expert_choice r = {t_alloc(t, all * sizeof(int32_t)), t_alloc(t, all * sizeof(float)), K};
    ft_mat score = t_uniform(t, T, E, -3, 3), x = t_uniform(t, T, D, -2, 2);
    ft_mat h = ft_mat_at(t_alloc(t, all * (size_t)F * sizeof(float)), (int)all, F);
    ft_mat y = ft_mat_at(t_alloc(t, all * (size_t)D * sizeof(float)), (int)all, D);
    t_begin(t);
    ft_route_top(t->step, r, score);
    ft_expert_linear(t->step, h, x, &up, r, false);
    ft_expert_linear(t->step, y, h, &down, r, false);
    ft_expert_linear(t->step, y, h, &down, r, true);
    const double bound = limit(t, type, T * D);
    t_expect(t, ft_mat_at(h.p, rows, K * F), bound); /* a row of the test has all its choices */
    t_expect_rest(t, ft_mat_at(y.p, rows, K * D), bound * 4);
}
OPTEST_ROWS(expert_linear, EACH_TYPE(EXPERTS), {1, 64, 32, 4, 2, FT_F32}, {5, 64, 5, 8, 3, FT_F16},
            {17, 96, 128, 16, 4, FT_F32}, {33, 64, 3, 4, 2, FT_F32}, {70, 64, 40, 32, 8, FT_BF16},
            {130, 64, 96, 4, 2, FT_Q8_0}, {140, 256, 16, 2, 2, FT_F16})

/* A shared expert: of the same shape as the others, of another width, of another type. */
static void moe_shared(ft_optest *t, const int *n)
{
    const int T = n[0], D = n[1], F = n[2], E = n[3], K = n[4], Fs = n[6];
    const int rows = t->pick >= 0 ? 1 : T;
    const ft_type type = (ft_type)n[5], own = n[7] ? (ft_type)n[7] : type;
    ft_experts e = {.E = E, .F = F, .act = FT_SILU};
    e.gate = t_weight(t, type, F, D, E);
    e.up = t_weight(t, type, F, D, E);
    e.down = t_weight(t, type, D, F, E);
    ft_weight gate = t_weight(t, own, Fs, D, 1), up = t_weight(t, own, Fs, D, 1);
    ft_weight down = t_weight(t, own, D, Fs, 1);
    down.scale = t_vec(t, 1, 0.5, 2).p;
    const size_t all = (size_t)rows * (size_t)K;
    ft_expert_choice r = {t_alloc(t, all * sizeof(int32_t)), t_alloc(t, all * sizeof(float)), K};
    ft_mat score = t_uniform(t, T, E, -3, 3), x = t_uniform(t, T, D, -2, 2);
    ft_mat y = t_uniform(t, T, D, -1, 1), s = t_uniform(t, T, 1, -2, 2);
    ft_mat tmp = ft_mat_at(t_alloc(t, all * 2 * (size_t)F * sizeof(float)), (int)all, 2 * F);
    const size_t wide = (size_t)rows * (size_t)Fs * sizeof(float);
    const ft_shared_expert sh = {&gate,
                                 &up,
                                 &down,
                                 s,
                                 ft_mat_at(t_alloc(t, wide), rows, Fs),
                                 ft_mat_at(t_alloc(t, wide), rows, Fs)};
    t_begin(t);
    ft_route_top(t->step, r, score);
    ft_moe_shared(t->step, y, x, &e, r, tmp, &sh);
    t_expect(t, y, limit(t, type, T * D) * 2.5);
    t_expect_rest(t, ft_mat_at(r.w, rows, K), 1e-11);
    expect_ids(t, r, rows);
}
OPTEST_ROWS(moe_shared, {1, 256, 256, 6, 2, FT_Q4_K, 256}, {21, 128, 64, 8, 3, FT_BF16, 64},
            {5, 128, 64, 4, 2, FT_Q8_0, 96}, {3, 64, 64, 4, 2, FT_Q8_0, 64, FT_F32},
            {300, 256, 256, 4, 2, FT_Q4_K, 256}, {4, 1024, 256, 20, 6, FT_Q4_K, 256},
            {16, 1024, 128, 24, 8, FT_Q8_0, 128}, {16, 1024, 256, 24, 8, FT_Q2_K, 256},
            {16, 1024, 256, 24, 8, FT_IQ1_M, 256}, {9, 1024, 256, 24, 8, FT_IQ2_S, 256},
            {16, 1024, 256, 24, 8, FT_IQ3_S, 256}, {16, 1024, 64, 24, 8, FT_TQ3_1S, 64},
            {70, 256, 64, 4, 2, FT_TQ4_1S, 64},
            /* many experts with one to eight rows, and parts of different lengths */
            {40, 512, 256, 32, 4, FT_Q4_0, 256}, {10, 832, 192, 32, 8, FT_Q5_0, 192},
            {12, 320, 704, 30, 8, FT_Q8_0, 704}, {3, 256, 64, 250, 8, FT_Q8_0, 64},
            {2, 512, 256, 33, 7, FT_Q4_K, 256},
            /* few rows, with 512 columns of down; more experts than a block has warps */
            {4, 1024, 512, 40, 8, FT_Q4_K, 512}, {3, 1024, 512, 12, 8, FT_Q4_0, 512},
            {2, 1024, 512, 9, 8, FT_IQ2_XS, 512}, {1, 1024, 512, 24, 8, FT_Q5_K, 512})

/* A norm and the products that read its result, with weights of two types. */
static void norm_linears(ft_optest *t, const int *n)
{
    const int T = n[0], D = n[1], N = n[2];
    const ft_type type[] = {(ft_type)n[3], (ft_type)n[3], (ft_type)n[4]};
    ft_mat x = t_uniform(t, T, D, -2, 2), y = t_output(t, T, D);
    const ft_vec gain = t_vec(t, D, 0.5, 1.5);
    ft_weight w[3];
    ft_product_out o[3];
    for (int i = 0; i < 3; i++) {
        w[i] = t_weight(t, type[i], N / (i + 1), D, 1);
        o[i] = (ft_product_out){t_output(t, T, N / (i + 1)), &w[i]};
    }
    t_begin(t);
    ft_norm_linears(t->step, y, x, gain, 1e-6f, o, 3);
    t_run(t);
    for (int i = 0; i < 3; i++) {
        t_expect_rest(t, o[i].y, limit(t, type[i], T * (N / (i + 1))));
        t_check_gaps(t, o[i].y);
    }
    t_expect_rest(t, y, 1e-11);
    t_check_gaps(t, y);
}
OPTEST_ROWS(norm_linears, {1, 2048, 500, FT_Q4_K, FT_Q4_K}, {4, 2048, 96, FT_Q4_K, FT_F32},
            {3, 1024, 300, FT_Q6_K, FT_Q8_0}, {5, 2048, 64, FT_Q8_0, FT_Q8_0},
            {2, 512, 40, FT_BF16, FT_BF16}, {4, 2048, 64, FT_F16, FT_Q5_K},
            {40, 768, 64, FT_Q4_K, FT_F16}, {300, 584, 500, FT_F16, FT_BF16},
            {1030, 70, 1500, FT_BF16, FT_F16}, {2, 2816, 64, FT_Q4_0, FT_Q4_0},
            {2, 1024, 64, FT_TQ4_1S, FT_Q4_0}, {3, 2048, 64, FT_Q4_0, FT_TQ4_1S},
            {1, 1024, 64, FT_IQ3_S, FT_IQ3_S},
            /* routers */
            {1, 2048, 256, FT_F32, FT_F32}, {4, 2048, 256, FT_F32, FT_F32},
            {9, 2048, 128, FT_F32, FT_F32}, {3, 448, 40, FT_F32, FT_F32},
            {5, 2816, 128, FT_F32, FT_F32})

/* One input, read by weights that need it Hadamard-transformed and by others. */
static void linear_mixed(ft_optest *t, const int *n)
{
    static const ft_type type[] = {FT_TQ4_1S, FT_Q8_0, FT_TQ3_1S, FT_F32, FT_TQ4_1S};
    const int T = n[0], k = n[1], out = n[2];
    ft_mat x = t_uniform(t, T, k, -1, 1), y[FT_COUNT(type)];
    ft_weight w[FT_COUNT(type)];
    t->batch.T = T;
    for (size_t i = 0; i < FT_COUNT(type); i++) {
        w[i] = t_weight(t, type[i], out, k, 1);
        y[i] = t_output(t, T, out);
    }
    t_begin(t);
    for (size_t i = 0; i < FT_COUNT(type); i++) ft_linear(t->step, y[i], x, &w[i]);
    t_run(t);
    /* rounding of activations to eight bits and of the codebooks */
    for (size_t i = 0; i < FT_COUNT(type); i++) t_expect_rest(t, y[i], 6e-5);
    t_expect_rest(t, x, 0);
}
OPTEST_ROWS(linear_mixed, {1, 512, 300}, {6, 1024, 200})

static void centroid_head(ft_optest *t, const int *n)
{
    const int T = n[0], D = n[1], n_c = n[2], group = n[3], top = n[4], V = n_c * group;
    const ft_type type = (ft_type)n[5];
    int32_t *order = ft_new_n(int32_t, (size_t)V);
    for (int i = 0; i < V; i++) order[i] = i;
    for (int i = V - 1; i > 0; i--) {
        const int j = t_below(t, i + 1), s = order[i];
        order[i] = order[j];
        order[j] = s;
    }
    const int32_t *ids = t_put(t, order, (size_t)V * sizeof *order);
    ft_free(order);
    t->rows = true;
    ft_weight w = t_weight(t, type, V, D, 1);
    ft_mat x = t_uniform(t, T, D, -1, 1), score = t_uniform(t, T, n_c, -1, 1);
    ft_mat y = t_output(t, T, V);
    t_begin(t);
    ft_centroid_head(t->step, y, x, score, &w, ids, top);
    t_expect(t, y, limit(t, type, 99));
    t_check_gaps(t, y);
}
OPTEST_ROWS(centroid_head, {1, 64, 16, 8, 3, FT_F32}, {3, 64, 7, 9, 7, FT_Q8_0},
            {5, 96, 32, 16, 4, FT_BF16}, {2, 64, 5, 3, 1, FT_Q5_0})

int main(int argc, char **argv)
{
    const t_case *const all[] = {
        &linear_case,         &linear_unaligned_case, &linear_sizes_case, &linear_nan_case,
        &linear_largest_case, &linears_case,          &products_of_case,  &linear_large_case,
        &embed_case,          &products_of_tq_case,   &route_case,        &moe_case,
        &moe_shared_case,     &expert_linear_case,    &moe_uploaded_case, &centroid_head_case,
        &linear_mixed_case,   &norm_linears_case};
    return t_main(argc, argv, all, FT_COUNT(all));
}
