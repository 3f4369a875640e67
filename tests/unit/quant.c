/* tests/unit/quant.c - encoding and decoding of blocks: tables, decoders on constructed blocks,
 * error bounds of encoders. */
#include "quant/quant.h"
#include "quant/turbo_weights.h"

#include "base/file.h"
#include "base/half.h"
#include "base/mem.h"
#include "base/rng.h"
#include "quant/grids.h"

#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { COLS = 1024 };

static const ft_type written[] = {FT_F32,  FT_F16,    FT_BF16,   FT_Q8_0,  FT_Q4_0,   FT_Q4_1,
                                  FT_Q5_0, FT_Q5_1,   FT_Q2_K,   FT_Q3_K,  FT_Q4_K,   FT_Q5_K,
                                  FT_Q6_K, FT_IQ4_NL, FT_IQ4_XS, FT_MXFP4, FT_TQ3_1S, FT_TQ4_1S};

static void gauss(float *x, size_t n, uint64_t seed, double scale)
{
    ft_rng r = {seed};
    for (size_t i = 0; i < n; i++) x[i] = (float)(scale * ft_rng_normal(&r));
}

/* sqrt(sum w (x - y)^2 / sum w x^2) */
static double error_of(const float *x, const float *y, size_t n, const float *w)
{
    double e = 0, s = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = (double)x[i] - (double)y[i], k = w ? (double)w[i] : 1;
        e += k * d * d;
        s += k * (double)x[i] * (double)x[i];
    }
    return sqrt(e / s);
}

static double trip_error(ft_type t, const float *x, size_t n, const float *weight,
                         const float *judge)
{
    uint8_t *b = ft_alloc(ft_type_row(t, n));
    float *y = ft_new_n(float, n);
    ft_row_encode(t, b, x, n, weight);
    assert_true(ft_row_finite(t, b, n, NULL));
    ft_row_decode(t, y, b, n);
    const double e = error_of(x, y, n, judge);
    ft_free(b);
    ft_free(y);
    return e;
}

/* ---- tables ---- */

static void grids_are_the_published_ones(void **state)
{
    (void)state;
    static const struct {
        const uint16_t *grid;
        int entries, values;
        int (*value)(uint16_t, int);
        uint64_t sum;
    } table[] = {
        {ft_grid_iq2xxs, 256, 8, ft_grid_iq2_value, 0xbb4ee025b5ac6e8eu},
        {ft_grid_iq2xs, 512, 8, ft_grid_iq2_value, 0xc9b1ee61e79909bdu},
        {ft_grid_iq2s, 1024, 8, ft_grid_iq2_value, 0x123edd38a3b62b90u},
        {ft_grid_iq3xxs, 256, 4, ft_grid_iq3xxs_value, 0xdfa5dc83d6a155d5u},
        {ft_grid_iq3s, 512, 4, ft_grid_iq3s_value, 0xfa37020c25b44829u},
        {ft_grid_iq1s, 2048, 8, ft_grid_iq1s_value, 0x6703ed863501ae2eu},
    };
    static uint8_t bytes[2048 * 8];
    for (size_t t = 0; t < FT_COUNT(table); t++) {
        const size_t n = (size_t)(table[t].entries * table[t].values);
        for (size_t i = 0; i < n; i++)
            bytes[i] = (uint8_t)table[t].value(table[t].grid[i / (size_t)table[t].values],
                                               (int)(i % (size_t)table[t].values));
        assert_true(ft_fnv1a64(bytes, n) == table[t].sum);
    }
}

static void every_type_decodes_and_the_right_ones_encode(void **state)
{
    (void)state;
    size_t encodes = 0;
    for (uint32_t t = 0; t < FT_TYPE_MAX; t++) {
        const ft_type_info *info = ft_type_of(t);
        if (!info->name) {
            assert_false(ft_type_encodes((ft_type)t));
            continue;
        }
        uint8_t block[300] = {0};
        float y[256];
        ft_row_decode((ft_type)t, y, block, info->elems);
        for (int i = 0; i < info->elems; i++) assert_true(y[i] == 0 || t == FT_IQ4_NL);
        encodes += ft_type_encodes((ft_type)t);
    }
    assert_int_equal(encodes, FT_COUNT(written));
    for (size_t i = 0; i < FT_COUNT(written); i++) assert_true(ft_type_encodes(written[i]));
    assert_false(ft_type_encodes((ft_type)-1));
    assert_false(ft_type_encodes(FT_TYPE_MAX));
}

/* ---- decoders without reference data ---- */

static void plain_numbers_decode(void **state)
{
    (void)state;
    float y[2];
    ft_row_decode(FT_I8, y, "\x7f\x80", 2);
    assert_true(y[0] == 127 && y[1] == -128);
    ft_row_decode(FT_I16, y, "\x01\x02\xff\xff", 2);
    assert_true(y[0] == 513 && y[1] == -1);
    ft_row_decode(FT_I32, y, "\x00\x00\x01\x00\x00\x00\x00\x80", 2);
    assert_true(y[0] == 65536 && y[1] == -2147483648.0f);
    ft_row_decode(FT_I64, y, "\0\0\0\0\1\0\0\0\xfe\xff\xff\xff\xff\xff\xff\xff", 2);
    assert_true(y[0] == 4294967296.0f && y[1] == -2);
    ft_row_decode(FT_F64, y, "\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0\x04\xc0", 2);
    assert_true(y[0] == 1 && y[1] == -2.5f);
    ft_row_decode(FT_BF16, y, "\x80\x3f\x20\xc0", 2);
    assert_true(y[0] == 1 && y[1] == -2.5f);
}

static void every_f16_goes_both_ways(void **state)
{
    (void)state;
    static uint16_t h[65536], back[65536];
    static float y[65536];
    for (uint32_t i = 0; i < 65536; i++) h[i] = (uint16_t)i;
    ft_row_decode(FT_F16, y, h, 65536);
    ft_row_encode(FT_F16, back, y, 65536, NULL);
    for (uint32_t i = 0; i < 65536; i++) {
        const float want = ft_f16_to_f32((uint16_t)i);
        assert_int_equal(ft_f32_bits(y[i]), ft_f32_bits(want));
        assert_int_equal(back[i], isfinite(want) ? i : 0);
    }
    /* values between: nearest, ties to even, as in base/half.h */
    ft_rng r = {5};
    for (uint32_t i = 0; i < 65536; i++) {
        y[i] = (float)ldexp(ft_rng_f64(&r) * 2 - 1, (int)(ft_rng_u64(&r) % 44) - 29);
        if (i % 4 == 0) y[i] = ft_f32_of_bits(ft_f32_bits(y[i]) & ~0xfffu);
    }
    ft_row_encode(FT_F16, back, y, 65536, NULL);
    for (uint32_t i = 0; i < 65536; i++) assert_int_equal(back[i], ft_f32_to_f16(y[i]));
}

static void bf16_stays_finite(void **state)
{
    (void)state;
    const float x[6] = {1.00390625f, -3.4028234e38f, NAN, INFINITY, 1e-45f, -2.5f};
    uint16_t h[6];
    ft_row_encode(FT_BF16, h, x, 6, NULL);
    assert_int_equal(h[0], 0x3f80); /* a tie */
    assert_int_equal(h[1], 0xff7f);
    assert_int_equal(h[2], 0);
    assert_int_equal(h[3], 0);
    assert_int_equal(h[4], 0);
    assert_int_equal(h[5], 0xc020);
}

static void one_and_two_bit_blocks_decode(void **state)
{
    (void)state;
    uint8_t b[18] = {0x00, 0x38}; /* d = 0.5 */
    float y[128], z[64];
    b[2] = 0x05;
    b[17] = 0x80;
    ft_row_decode(FT_Q1_0, y, b, 128);
    for (int i = 0; i < 128; i++)
        assert_true(y[i] == (i == 0 || i == 2 || i == 127 ? 0.5f : -0.5f));
    b[2] = 0xe4; /* 0, 1, 2, 3 */
    ft_row_decode(FT_Q2_0, y, b, 64);
    ft_row_decode(FT_Q2_0_FORK, z, b, 64);
    for (int i = 0; i < 4; i++) assert_true(y[i] == (float)(i - 1) * 0.5f);
    assert_true(y[63] == 0.5f);
    assert_memory_equal(y, z, sizeof z);
}

static void *read_all(const char *path, size_t *n)
{
    char *p = NULL;
    ft_err err = {0};
    if (ft_file_read(&p, n, path, 1 << 20, &err)) fail_msg("%s", err.text);
    return p;
}

static void turbo_weights_match_the_reference_bytes(void **state)
{
    (void)state;
    static const struct {
        ft_type type;
        const char *stem;
    } table[] = {{FT_TQ3_1S, "tests/data/turbo/tq3_1s"}, {FT_TQ4_1S, "tests/data/turbo/tq4_1s"}};
    for (size_t t = 0; t < FT_COUNT(table); t++) {
        char path[100];
        size_t n_in, n_blocks, n_want;
        snprintf(path, sizeof path, "%s.in", table[t].stem);
        float *in = read_all(path, &n_in);
        snprintf(path, sizeof path, "%s.blocks", table[t].stem);
        uint8_t *blocks = read_all(path, &n_blocks);
        snprintf(path, sizeof path, "%s.f32", table[t].stem);
        float *want = read_all(path, &n_want);
        const size_t n = n_in / sizeof(float);
        assert_int_equal(n, 192 * 32);
        assert_int_equal(n_want, n_in);
        assert_int_equal(n_blocks, ft_type_row(table[t].type, n));
        uint8_t *got = ft_alloc(n_blocks);
        float *y = ft_new_n(float, n);
        ft_row_encode(table[t].type, got, in, n, NULL);
        assert_memory_equal(got, blocks, n_blocks);
        ft_row_decode(table[t].type, y, blocks, n);
        assert_memory_equal(y, want, n_want);
        ft_free(in);
        ft_free(blocks);
        ft_free(want);
        ft_free(got);
        ft_free(y);
    }
}

static void unaligned_bytes_give_the_same_values(void **state)
{
    (void)state;
    float x[COLS], y[COLS], z[COLS];
    static uint8_t at[4 * COLS + 8];
    gauss(x, COLS, 3, 1);
    for (size_t i = 0; i < FT_COUNT(written); i++) {
        const ft_type t = written[i];
        const size_t n = ft_type_row(t, COLS);
        ft_row_encode(t, at, x, COLS, NULL);
        ft_row_decode(t, y, at, COLS);
        for (size_t shift = 1; shift < 4; shift++) {
            memset(at, 0xee, sizeof at);
            ft_row_encode(t, at + shift, x, COLS, NULL);
            ft_row_decode(t, z, at + shift, COLS);
            assert_memory_equal(y, z, sizeof y);
            for (size_t k = 0; k < shift; k++) assert_int_equal(at[k], 0xee);
            for (size_t k = shift + n; k < sizeof at; k++) assert_int_equal(at[k], 0xee);
        }
    }
}

/* ---- encoders ---- */

static void round_trip_errors_are_bounded(void **state)
{
    (void)state;
    static const struct {
        ft_type type;
        double gauss, laplace; /* relative errors, slightly above the measured ones */
    } bound[] = {
        {FT_F32, 0, 0},
        {FT_F16, 0.0003, 0.0003},
        {FT_BF16, 0.0022, 0.0022},
        {FT_Q8_0, 0.0056, 0.0071},
        {FT_Q4_0, 0.086, 0.107},
        {FT_Q4_1, 0.0755, 0.089},
        {FT_Q5_0, 0.0435, 0.0545},
        {FT_Q5_1, 0.0372, 0.0445},
        {FT_Q2_K, 0.267, 0.295},
        {FT_Q3_K, 0.147, 0.172},
        {FT_Q4_K, 0.072, 0.0855},
        {FT_Q5_K, 0.0358, 0.0426},
        {FT_Q6_K, 0.0178, 0.0218},
        {FT_IQ4_NL, 0.0755, 0.087},
        {FT_IQ4_XS, 0.0758, 0.0875},
        {FT_MXFP4, 0.114, 0.126},
        {FT_TQ3_1S, 0.153, 0.157},
        {FT_TQ4_1S, 0.074, 0.076},
    };
    const size_t n = 64 * COLS;
    float *g = ft_new_n(float, n), *l = ft_new_n(float, n);
    ft_rng r = {11};
    gauss(g, n, 10, 0.02);
    for (size_t i = 0; i < n; i++) {
        const double u = ft_rng_f64(&r) - 0.5;
        l[i] = (float)(-0.02 * copysign(log(1 - 2 * fabs(u)), u));
    }
    for (size_t i = 0; i < FT_COUNT(bound); i++) {
        const double a = trip_error(bound[i].type, g, n, NULL, NULL);
        const double b = trip_error(bound[i].type, l, n, NULL, NULL);
        if (a > bound[i].gauss || b > bound[i].laplace)
            fail_msg("%s: %.5f and %.5f, want at most %.5f and %.5f", ft_type_name(bound[i].type),
                     a, b, bound[i].gauss, bound[i].laplace);
    }
    ft_free(g);
    ft_free(l);
}

/* The Hadamard transform of TQ weights: signs from a multiplicative hash, orthogonal, equal to that
 * of the decoder; and the integer codebooks. */
static void transformed_activations(void **state)
{
    (void)state;
    enum { N = 256, REPEAT = 200 };
    for (uint32_t i = 0; i < 32; i++) {
        float x[32] = {0}, y[32];
        x[i] = 1;
        ft_tq_hadamard(y, x, 32);
        const bool minus = i * 0x9E3779B9u >> 31;
        assert_true(y[0] == (minus ? -0.17677669529663688f : 0.17677669529663688f));
    }
    static const ft_type types[] = {FT_TQ3_1S, FT_TQ4_1S};
    for (size_t k = 0; k < FT_COUNT(types); k++) {
        double error = 0, norm = 0;
        for (int rep = 0; rep < REPEAT; rep++) {
            float w[N], x[N], tw[N], tx[N];
            uint8_t bytes[N];
            gauss(w, N, (uint64_t)(100 + rep), 1);
            gauss(x, N, (uint64_t)(900 + rep), 1);
            ft_row_encode(types[k], bytes, w, N, NULL);
            ft_row_decode(types[k], w, bytes, N);
            ft_tq_hadamard(tw, w, N);
            ft_tq_hadamard(tx, x, N);
            double plain = 0, turned = 0;
            for (int i = 0; i < N; i++) {
                plain += (double)w[i] * (double)x[i];
                turned += (double)tw[i] * (double)tx[i];
            }
            error += (plain - turned) * (plain - turned);
            norm += plain * plain;
        }
        assert_true(error <= 1e-10 * norm);
    }
}

/* Values that a block can hold exactly, both ends of its range in every sub-block. */
static void representable_rows_round_trip(void **state)
{
    (void)state;
    static const struct {
        ft_type type;
        int lo, hi, block;
        bool sub; /* sub-blocks have their own scales */
        bool shift;
    } table[] = {{FT_Q8_0, -127, 127, 32, 0, 0}, {FT_Q4_0, -8, 7, 32, 0, 0},
                 {FT_Q5_0, -16, 15, 32, 0, 0},   {FT_Q4_1, 0, 15, 32, 0, 1},
                 {FT_Q5_1, 0, 31, 32, 0, 1},     {FT_Q2_K, 0, 3, 16, 0, 0},
                 {FT_Q4_K, 0, 15, 32, 1, 0},     {FT_Q5_K, 0, 31, 32, 1, 0},
                 {FT_Q3_K, -4, 3, 16, 0, 0},     {FT_Q6_K, -32, 31, 16, 0, 0}};
    for (size_t t = 0; t < FT_COUNT(table); t++) {
        float x[COLS];
        ft_rng r = {t + 1};
        for (int i = 0; i < COLS; i++) {
            const int b = i / table[t].block, k = i % table[t].block;
            const int span = table[t].hi - table[t].lo + 1;
            int q = table[t].lo + (int)(ft_rng_u64(&r) % (uint64_t)span);
            if (k == 0) q = table[t].lo;
            if (k == 1) q = table[t].hi;
            float d = table[t].type == FT_Q2_K ? 15.0f / 64 : 0.25f; /* an f16 times a sub-scale */
            if (table[t].sub) d = (float)(b % 8 == 3 ? 63 : 20 + b % 8) / 512;
            x[i] = d * (float)q + (table[t].shift ? 1.5f : 0);
        }
        const double e = trip_error(table[t].type, x, COLS, NULL, NULL);
        if (e > 2e-6) fail_msg("%s: relative error %.3g", ft_type_name(table[t].type), e);
    }
}

static void importance_lowers_the_weighted_error(void **state)
{
    (void)state;
    const size_t n = 16 * COLS;
    float *x = ft_new_n(float, n), *w = ft_new_n(float, n);
    gauss(x, n, 21, 0.05);
    gauss(w, n, 22, 1.2);
    for (size_t i = 0; i < n; i++) w[i] = expf(w[i]);
    for (size_t i = 0; i < FT_COUNT(written); i++) {
        const ft_type t = written[i];
        if (!ft_type_of(t)->quant || t == FT_Q8_0 || t == FT_TQ3_1S || t == FT_TQ4_1S) continue;
        const double with = trip_error(t, x, n, w, w), without = trip_error(t, x, n, NULL, w);
        const double gain = t == FT_MXFP4 ? 0.995 : 0.95;
        if (!(with < gain * without))
            fail_msg("%s: %.5f with importances, %.5f without", ft_type_name(t), with, without);
    }
    ft_free(x);
    ft_free(w);
}

static void odd_importances_do_no_harm(void **state)
{
    (void)state;
    float x[COLS], w[COLS];
    gauss(x, COLS, 31, 1);
    static const float odd[] = {0, 1e-42f, 1e-30f, 1e35f, INFINITY, NAN, -1};
    for (size_t k = 0; k < FT_COUNT(odd); k++) {
        for (int i = 0; i < COLS; i++) w[i] = k && i % 3 == 0 ? 1.0f : odd[k];
        for (size_t i = 0; i < FT_COUNT(written); i++)
            assert_true(trip_error(written[i], x, COLS, w, NULL) < 1.0);
    }
    for (int i = 0; i < COLS; i++) w[i] = 1;
    for (size_t i = 0; i < FT_COUNT(written); i++) {
        const double even = trip_error(written[i], x, COLS, w, NULL);
        assert_true(even < 1.03 * trip_error(written[i], x, COLS, NULL, NULL) + 1e-9);
    }
}

static void values_that_are_not_finite_count_as_zero(void **state)
{
    (void)state;
    float x[COLS], z[COLS];
    static uint8_t a[4 * COLS], b[4 * COLS];
    gauss(x, COLS, 41, 1);
    memcpy(z, x, sizeof z);
    static const int at[] = {0, 37, 300, 301, 1023};
    for (size_t i = 0; i < FT_COUNT(at); i++) {
        x[at[i]] = i % 3 == 0 ? INFINITY : i % 3 == 1 ? NAN : -INFINITY;
        z[at[i]] = 0;
    }
    for (size_t i = 0; i < FT_COUNT(written); i++) {
        const size_t n = ft_type_row(written[i], COLS);
        ft_row_encode(written[i], a, x, COLS, NULL);
        ft_row_encode(written[i], b, z, COLS, NULL);
        assert_memory_equal(a, b, n);
    }
}

static void rows_of_zeros_stay_zero(void **state)
{
    (void)state;
    float x[COLS] = {0}, y[COLS];
    static uint8_t b[4 * COLS];
    for (size_t i = 0; i < FT_COUNT(written); i++) {
        ft_row_encode(written[i], b, x, COLS, NULL);
        ft_row_decode(written[i], y, b, COLS);
        for (int k = 0; k < COLS; k++) assert_true(y[k] == 0);
        ft_row_encode(written[i], b, x, COLS, x);
        ft_row_decode(written[i], y, b, COLS);
        for (int k = 0; k < COLS; k++) assert_true(y[k] == 0);
    }
}

/* Values far outside the range of f16 are clipped or become zero, but stay finite; an extreme value
 * does not affect other blocks. */
static void extremes_stay_numbers(void **state)
{
    (void)state;
    static const double size[] = {1e38, 3e20, 1e9, 1e-9, 1e-20, 1e-37, 1e-44};
    float x[COLS], y[COLS], z[COLS];
    static uint8_t b[4 * COLS];
    for (size_t i = 0; i < FT_COUNT(written); i++) {
        for (size_t s = 0; s < FT_COUNT(size); s++) {
            gauss(x, COLS, 50 + s, 0.3 * size[s]);
            ft_row_encode(written[i], b, x, COLS, NULL);
            assert_true(ft_row_finite(written[i], b, COLS, NULL));
            ft_row_decode(written[i], y, b, COLS);
            for (int k = 0; k < COLS; k++) {
                assert_true(isfinite(y[k]));
                assert_true(fabs((double)y[k]) <= 4 * size[s] || size[s] < 1e-6);
            }
        }
        gauss(x, COLS, 60, 1);
        ft_row_encode(written[i], b, x, COLS, NULL);
        ft_row_decode(written[i], y, b, COLS);
        x[5] = 1e30f;
        ft_row_encode(written[i], b, x, COLS, NULL);
        ft_row_decode(written[i], z, b, COLS);
        assert_memory_equal(y + 256, z + 256, sizeof y - 256 * sizeof *y);
    }
}

static void blocks_do_not_depend_on_their_neighbours(void **state)
{
    (void)state;
    float x[9 * 256], w[9 * 256];
    static uint8_t whole[4 * 9 * 256], parts[4 * 9 * 256];
    gauss(x, FT_COUNT(x), 71, 3);
    gauss(w, FT_COUNT(w), 72, 1);
    for (size_t i = 0; i < FT_COUNT(w); i++) w[i] *= w[i];
    for (size_t i = 0; i < FT_COUNT(written); i++) {
        const ft_type_info *info = ft_type_of(written[i]);
        const size_t n = 9 * (size_t)info->elems;
        for (int weighted = 0; weighted < 2; weighted++) {
            ft_row_encode(written[i], whole, x, n, weighted ? w : NULL);
            for (size_t b = 0; b < 9; b++)
                ft_row_encode(written[i], parts + b * info->bytes, x + b * info->elems, info->elems,
                              weighted ? w + b * info->elems : NULL);
            assert_memory_equal(whole, parts, 9u * info->bytes);
        }
    }
}

static void damaged_scales_are_found(void **state)
{
    (void)state;
    static const struct {
        ft_type type;
        size_t at;
    } table[] = {
        {FT_F16, 0},     {FT_BF16, 0},   {FT_Q4_0, 0},      {FT_Q4_1, 0},    {FT_Q4_1, 2},
        {FT_Q5_0, 0},    {FT_Q5_1, 2},   {FT_Q8_0, 0},      {FT_Q2_K, 80},   {FT_Q2_K, 82},
        {FT_Q3_K, 108},  {FT_Q4_K, 0},   {FT_Q4_K, 2},      {FT_Q5_K, 2},    {FT_Q6_K, 208},
        {FT_IQ2_XXS, 0}, {FT_IQ2_XS, 0}, {FT_IQ2_S, 0},     {FT_IQ3_XXS, 0}, {FT_IQ3_S, 0},
        {FT_IQ1_S, 0},   {FT_IQ4_NL, 0}, {FT_IQ4_XS, 0},    {FT_TQ1_0, 52},  {FT_TQ2_0, 64},
        {FT_Q1_0, 0},    {FT_Q2_0, 0},   {FT_Q2_0_FORK, 0}, {FT_TQ3_1S, 2},  {FT_TQ4_1S, 0}};
    for (size_t i = 0; i < FT_COUNT(table); i++) {
        const ft_type_info *info = ft_type_of(table[i].type);
        uint8_t b[3 * 300] = {0};
        const size_t n = 3 * (size_t)info->elems;
        size_t at = 99;
        assert_true(ft_row_finite(table[i].type, b, n, &at));
        const uint16_t bad = table[i].type == FT_BF16 ? 0xff81 : i % 2 ? 0x7c00 : 0xfe01;
        b[2 * info->bytes + table[i].at] = (uint8_t)bad;
        b[2 * info->bytes + table[i].at + 1] = (uint8_t)(bad >> 8);
        assert_false(ft_row_finite(table[i].type, b, n, &at));
        assert_int_equal(at, 2);
    }
    uint8_t m[56] = {0};
    assert_true(ft_row_finite(FT_IQ1_M, m, 256, NULL));
    m[55] = 0x70;
    m[53] = 0xc0;
    assert_false(ft_row_finite(FT_IQ1_M, m, 256, NULL));
    m[0] = 255;
    assert_false(ft_row_finite(FT_MXFP4, m, 32, NULL));
    assert_true(ft_row_finite(FT_NVFP4, m, 64, NULL));
    const float x[3] = {1, 2, NAN};
    const double y[2] = {1, (double)INFINITY};
    size_t at = 9;
    assert_false(ft_row_finite(FT_F32, x, 3, &at));
    assert_int_equal(at, 2);
    assert_false(ft_row_finite(FT_F64, y, 2, &at));
    assert_int_equal(at, 1);
    assert_true(ft_row_finite(FT_I32, x, 3, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grids_are_the_published_ones),
        cmocka_unit_test(every_type_decodes_and_the_right_ones_encode),
        cmocka_unit_test(plain_numbers_decode),
        cmocka_unit_test(every_f16_goes_both_ways),
        cmocka_unit_test(bf16_stays_finite),
        cmocka_unit_test(one_and_two_bit_blocks_decode),
        cmocka_unit_test(turbo_weights_match_the_reference_bytes),
        cmocka_unit_test(unaligned_bytes_give_the_same_values),
        cmocka_unit_test(round_trip_errors_are_bounded),
        cmocka_unit_test(transformed_activations),
        cmocka_unit_test(representable_rows_round_trip),
        cmocka_unit_test(importance_lowers_the_weighted_error),
        cmocka_unit_test(odd_importances_do_no_harm),
        cmocka_unit_test(values_that_are_not_finite_count_as_zero),
        cmocka_unit_test(rows_of_zeros_stay_zero),
        cmocka_unit_test(extremes_stay_numbers),
        cmocka_unit_test(blocks_do_not_depend_on_their_neighbours),
        cmocka_unit_test(damaged_scales_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
