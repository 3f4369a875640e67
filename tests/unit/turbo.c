/* tests/unit/turbo.c - the turbo KV cache types: bytes against the reference, errors against
 * theory, edge cases. */
#include "quant/turbo.h"

#include "base/file.h"
#include "base/half.h"
#include "base/mem.h"
#include "base/rng.h"

#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { G = 128, MOST = 512 };

static const struct {
    const char *name;
    int bits;
    double error;        /* relative squared error of random vectors */
    double one;          /* ... of a vector with one non-zero coordinate after the transform */
    double bias;         /* limit of the relative shrinking of products */
    size_t bytes[4];     /* rows of 64, 128, 256, 512 */
    uint8_t zero, third; /* the codes of a zero vector */
} about[FT_TURBO_MAX] = {
    [FT_TURBO2] = {"turbo2", 2, 0.11881, 1.432, 0.065, {18, 34, 68, 136}, 0xaa, 0xaa},
    [FT_TURBO3] = {"turbo3", 3, 0.03384, 0.762, 0.018, {26, 50, 100, 200}, 0x00, 0xff},
    [FT_TURBO3_REVISED] =
        {"turbo3-revised", 3, 0.03381, 0.771, 0.018, {26, 50, 100, 200}, 0x00, 0xff},
    [FT_TURBO4] = {"turbo4-corrected", 4, 0.00918, 0.233, 0.006, {34, 66, 132, 264}, 0x88, 0x88},
    [FT_TURBO4_LEGACY] = {"turbo4-legacy", 4, 0.01812, 0.176, 0.01, {36, 68, 136, 272}, 0x88, 0x88},
};

static void gauss(float *x, int n, ft_rng *r, double scale)
{
    for (int i = 0; i < n; i++) x[i] = (float)(scale * ft_rng_normal(r));
}

static double dot(const float *a, const float *b, int n)
{
    double s = 0;
    for (int i = 0; i < n; i++) s += (double)a[i] * (double)b[i];
    return s;
}

/* x after encoding, decoding and the inverse transform */
static void trip(ft_turbo t, float *back, const float *x, int d)
{
    uint8_t bytes[1024];
    float y[MOST];
    ft_turbo_encode(t, bytes, x, d);
    ft_turbo_decode(t, y, bytes, d);
    ft_turbo_hadamard_inverse(back, y, d);
}

static double trip_error(ft_turbo t, const float *x, int d)
{
    float y[MOST];
    trip(t, y, x, d);
    double e = 0;
    for (int i = 0; i < d; i++) e += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
    return e / dot(x, x, d);
}

static void *read_all(const char *stem, const char *suffix, size_t *n)
{
    char path[100], *p = NULL;
    ft_err err = {0};
    snprintf(path, sizeof path, "tests/data/turbo/%s.%s", stem, suffix);
    if (ft_file_read(&p, n, path, 1 << 20, &err)) fail_msg("%s", err.text);
    return p;
}

static void bytes_are_those_of_the_reference(void **state)
{
    (void)state;
    for (int t = 0; t < FT_TURBO_MAX; t++) {
        size_t n_in, n_blocks, n_want;
        float *in = read_all(about[t].name, "in", &n_in);
        uint8_t *blocks = read_all(about[t].name, "blocks", &n_blocks);
        float *want = read_all(about[t].name, "f32", &n_want);
        const size_t bytes = ft_turbo_row_bytes((ft_turbo)t, G), rows = n_in / sizeof(float) / G;
        assert_int_equal(rows, 64);
        assert_int_equal(n_want, n_in);
        assert_int_equal(n_blocks, rows * bytes);
        for (size_t r = 0; r < rows; r++) {
            uint8_t got[128];
            float y[G];
            ft_turbo_encode((ft_turbo)t, got, in + r * G, G);
            if (memcmp(got, blocks + r * bytes, bytes))
                fail_msg("%s: row %zu has different bytes", about[t].name, r);
            ft_turbo_decode((ft_turbo)t, y, blocks + r * bytes, G);
            assert_memory_equal(y, want + r * G, sizeof y);
        }
        ft_free(in);
        ft_free(blocks);
        ft_free(want);
    }
}

static void golden_vector(void **state)
{
    (void)state;
    static const struct {
        ft_turbo t;
        unsigned scale;
        const char *codes;
        double error, first[4];
    } want[] = {
        {FT_TURBO2,
         0x4d9d,
         "6d5e66ad91645be79b55389a9ae16627699174a518c637695b4752ef85870a16",
         0.110898,
         {-1.87994, 0.50298, 1.24497, -1.98695}},
        {FT_TURBO3,
         0x4d29,
         "cfa98d0a67c8e6ce36bf61217487d80e8323ac4e318c7bd2e3ceb49a5a5a506c"
         "36e548d30bb6cb5586c4926513f19813",
         0.031600,
         {-1.83337, -0.25637, 1.89032, -1.95762}},
        {FT_TURBO3_REVISED,
         0x4d34,
         "cfa98d0a67c8f6ce36bf61217447d80e8323ac0e318c7bd2e3ceb49a1a5e506c"
         "36e548d30bb6cb5586c4926513f19813",
         0.031949,
         {-1.44209, 0.00474, 2.17231, -1.90748}},
        {FT_TURBO4_LEGACY,
         0x4d59,
         "f758eb335c3ae39816c44069be647df8cf857635911e8c93cad707d8497b6e09"
         "862907a3502e64baa20659d03f1f945c9f647f702a45deed34b14ec188215a14",
         0.016558,
         {-2.44132, -0.30095, 2.14967, -1.86701}},
        {FT_TURBO4,
         0x4d1e,
         "f768ca446a59c59837a55278ad667ce8ad867646932d8b84a9b727b8587a7c08"
         "87491794624c7699941769c25e2e956b8f657d714956cdcb55936ca388326935",
         0.009107,
         {-2.16067, 0.12127, 2.42477, -1.73332}},
    };
    float x[G], back[G];
    for (int i = 0; i < G; i++) x[i] = (float)((37 * i + 11) % 101 - 50) / 16.0f;
    for (size_t k = 0; k < FT_COUNT(want); k++) {
        uint8_t b[80];
        char hex[200];
        ft_turbo_encode(want[k].t, b, x, G);
        assert_int_equal(b[0] | b[1] << 8, want[k].scale);
        const int head = ft_turbo_of(want[k].t)->head;
        const int n = (int)ft_turbo_row_bytes(want[k].t, G) - head;
        for (int i = 0; i < n; i++) snprintf(hex + 2 * i, 3, "%02x", b[head + i]);
        assert_string_equal(hex, want[k].codes);
        assert_true(fabs(trip_error(want[k].t, x, G) - want[k].error) < 1e-6);
        trip(want[k].t, back, x, G);
        for (int i = 0; i < 4; i++) assert_true(fabs((double)back[i] - want[k].first[i]) < 1e-5);
    }
}

/* The sign masks come from the generator PCG64 with the state and stream below: bit 31 of each
 * output, then bit 63. */
static void signs_come_from_their_generator(void **state)
{
    (void)state;
#if defined(__SIZEOF_INT128__)
    __extension__ typedef unsigned __int128 u128;
    const u128 mul = (u128)0x2360ED051FC65DA4u << 64 | 0x4385DF649FCCF645u;
    const u128 init = (u128)0x9f1e2e6dcd540ab7u << 64 | 0xd57873dc79fb94b6u;
    const u128 inc = ((u128)0x7d282a1b64d420b7u << 64 | 0x336579714692d5ffu) << 1 | 1;
    u128 s = (inc + init) * mul + inc;
    float sign[256];
    for (int i = 0; i < 256; i += 2) {
        s = s * mul + inc;
        const uint64_t x = (uint64_t)(s >> 64) ^ (uint64_t)s;
        const unsigned turn = (unsigned)(s >> 122);
        const uint64_t out = x >> turn | x << (-turn & 63);
        sign[i] = out >> 31 & 1 ? 1.0f : -1.0f;
        sign[i + 1] = out >> 63 ? 1.0f : -1.0f;
    }
    /* column j of the transform is s1[j] s2 H[:, j] */
    for (int j = 0; j < G; j++) {
        float x[G] = {0}, y[G];
        x[j] = 1;
        ft_turbo_hadamard(y, x, G);
        for (int i = 0; i < G; i++) {
            const float h = __builtin_parity((unsigned)(i & j)) ? -1.0f : 1.0f;
            assert_true(y[i] == sign[j] * sign[G + i] * h * 0.08838834764831845f);
        }
    }
#endif
}

static void transform_round_trip(void **state)
{
    (void)state;
    static const int sizes[] = {8, 32, 64, 80, 96, 128, 192, 256, 512};
    ft_rng r = {5};
    for (size_t k = 0; k < FT_COUNT(sizes); k++) {
        const int d = sizes[k], width = ft_turbo_width(d);
        float x[MOST], y[MOST], back[MOST];
        gauss(x, d, &r, 3);
        ft_turbo_hadamard(y, x, d);
        const double norm = sqrt(dot(x, x, d));
        assert_true(fabs(sqrt(dot(y, y, width)) / norm - 1) < 1e-6);
        ft_turbo_hadamard_inverse(back, y, d);
        for (int i = 0; i < d; i++) assert_true(fabs((double)(x[i] - back[i])) <= 1e-6 * norm);
    }
}

static void sizes_and_padding(void **state)
{
    (void)state;
    for (int t = 0; t < FT_TURBO_MAX; t++)
        for (int i = 0; i < 4; i++)
            assert_int_equal(ft_turbo_row_bytes((ft_turbo)t, 64 << i), about[t].bytes[i]);
    assert_int_equal(ft_turbo_group(64), 64);
    assert_int_equal(ft_turbo_group(192), 64);
    assert_int_equal(ft_turbo_group(80), 128);
    assert_int_equal(ft_turbo_width(80), 128);
    assert_int_equal(ft_turbo_width(96), 128);
    assert_int_equal(ft_turbo_row_bytes(FT_TURBO3, 80), 50);
    assert_int_equal(ft_turbo_row_bytes(FT_TURBO3, 192), 78);
    /* padded rows are the rows of the padded vector */
    ft_rng r = {6};
    float x[G] = {0};
    uint8_t a[128], b[128];
    gauss(x, 96, &r, 1);
    for (int t = 0; t < FT_TURBO_MAX; t++) {
        ft_turbo_encode((ft_turbo)t, a, x, 96);
        ft_turbo_encode((ft_turbo)t, b, x, G);
        assert_memory_equal(a, b, ft_turbo_row_bytes((ft_turbo)t, G));
    }
}

static double mean_error(ft_turbo t, int d, int rows)
{
    ft_rng r = {7};
    float x[MOST];
    double sum = 0;
    for (int i = 0; i < rows; i++) {
        gauss(x, d, &r, 1);
        sum += trip_error(t, x, d);
    }
    return sum / rows;
}

static void errors_are_those_of_the_theory(void **state)
{
    (void)state;
    for (int t = 0; t < FT_TURBO_MAX; t++) {
        const double e = mean_error((ft_turbo)t, G, 10000), floor = pow(4, -about[t].bits);
        if (fabs(e / about[t].error - 1) > 0.01)
            fail_msg("%s: error %.5f, want %.5f", about[t].name, e, about[t].error);
        assert_true(e >= floor);
        assert_true(t == FT_TURBO4_LEGACY || e <= sqrt(3) * 1.5707963 * floor);
    }
    /* a group of 64 has the same error at half the bytes of a padded one */
    assert_true(fabs(mean_error(FT_TURBO2, 64, 10000) / 0.1164 - 1) < 0.01);
    assert_true(fabs(mean_error(FT_TURBO3, 64, 10000) / 0.0328 - 1) < 0.01);
    assert_true(fabs(mean_error(FT_TURBO4, 64, 10000) / 0.0089 - 1) < 0.01);
    assert_true(fabs(mean_error(FT_TURBO3, 256, 2000) / 0.0338 - 1) < 0.01);
    assert_true(fabs(mean_error(FT_TURBO4, 512, 1000) / 0.00918 - 1) < 0.01);
    /* values in the padding are dropped */
    assert_true(fabs(mean_error(FT_TURBO3, 96, 10000) / 0.0252 - 1) < 0.02);
    assert_true(fabs(mean_error(FT_TURBO4, 80, 10000) / 0.0057 - 1) < 0.02);
}

/* E<y, x'> against <y, x>: norms are preserved, so products shrink slightly. */
static void products_keep_their_size(void **state)
{
    (void)state;
    for (int t = 0; t < FT_TURBO_MAX; t++) {
        ft_rng r = {8};
        double got = 0, want = 0;
        for (int i = 0; i < 4000; i++) {
            float x[G], y[G], back[G];
            gauss(x, G, &r, 1);
            gauss(y, G, &r, 1);
            for (int j = 0; j < G; j++) y[j] += x[j];
            trip((ft_turbo)t, back, x, G);
            got += dot(y, back, G);
            want += dot(y, x, G);
        }
        const double shrink = 1 - got / want;
        if (shrink < 0 || shrink > about[t].bias)
            fail_msg("%s: products shrink by %.4f", about[t].name, shrink);
    }
}

static void structured_rows(void **state)
{
    (void)state;
    for (int k = 0; k < FT_TURBO_MAX; k++) {
        const ft_turbo t = (ft_turbo)k;
        float x[G], y[G];
        for (int shape = 0; shape < 4; shape++) {
            for (int i = 0; i < G; i++)
                x[i] = shape == 0   ? 2.5f
                       : shape == 1 ? (float)i
                       : shape == 2 ? (float)sin(0.3 * i)
                                    : (i % 37 ? 0.01f : 50.0f + (float)i);
            assert_true(trip_error(t, x, G) <= 2.5 * about[k].error);
        }
        memset(x, 0, sizeof x);
        x[77] =
            -3; /* all coordinates have the same magnitude: exact up to the rounding of the scale */
        assert_true(trip_error(t, x, G) < 1e-6);
        /* one non-zero coordinate is the worst case, and shows the rule for ties */
        memset(y, 0, sizeof y);
        y[20] = 1;
        ft_turbo_hadamard_inverse(x, y, G);
        const double e = trip_error(t, x, G);
        if (fabs(e - about[k].one) > 0.002) fail_msg("%s: worst case %.4f", about[k].name, e);
    }
}

static void norms_survive(void **state)
{
    (void)state;
    ft_rng r = {9};
    for (int t = 0; t < FT_TURBO_MAX; t++)
        for (int d = 64; d <= 512; d *= 2) {
            float x[MOST], y[MOST];
            gauss(x, d, &r, 100);
            trip((ft_turbo)t, y, x, d);
            assert_true(fabs(sqrt(dot(y, y, d) / dot(x, x, d)) - 1) < 6e-4);
        }
}

static void edges(void **state)
{
    (void)state;
    for (int k = 0; k < FT_TURBO_MAX; k++) {
        const ft_turbo t = (ft_turbo)k;
        const size_t n = ft_turbo_row_bytes(t, G), head = (size_t)ft_turbo_of(t)->head;
        float x[G] = {0}, y[G];
        uint8_t b[128];
        for (int tiny = 0; tiny < 2; tiny++) {
            if (tiny) x[3] = 1e-20f;
            memset(b, 0x55, sizeof b);
            ft_turbo_encode(t, b, x, G);
            for (size_t i = 0; i < head; i++) assert_int_equal(b[i], 0);
            for (size_t i = head; i < n; i++)
                assert_int_equal(b[i], i < head + 32 ? about[k].zero : about[k].third);
            assert_int_equal(b[n], 0x55);
        }
        /* NaN counts as zero; values that are too large stay finite */
        x[0] = NAN;
        x[1] = INFINITY;
        x[2] = 5;
        float z[G] = {0};
        uint8_t b2[128];
        z[2] = 5;
        z[3] = x[3];
        ft_turbo_encode(t, b, x, G);
        ft_turbo_encode(t, b2, z, G);
        assert_memory_equal(b, b2, n);
        for (int i = 0; i < G; i++) x[i] = 3e38f;
        trip(t, y, x, G);
        for (int i = 0; i < G; i++) assert_true(isfinite(y[i]));
        for (int i = 0; i < G; i++) x[i] = i % 2 ? 5000.0f : -5000.0f; /* norm 56569 */
        assert_true(trip_error(t, x, G) < 2.5 * about[k].error);
    }
}

/* The integer codebook against the float one: the error of <q, k> with q in int8, relative to its
 * variance, may grow by 2 % at most. */
static void whole_numbers_are_good_enough(void **state)
{
    (void)state;
    for (int k = 0; k < FT_TURBO_MAX; k++) {
        const ft_turbo t = (ft_turbo)k;
        const ft_turbo_format *f = ft_turbo_of(t);
        for (int i = 0; i < 1 << f->bits; i++)
            assert_int_equal(f->small[i], lrint(127 * (double)f->value[i] /
                                                (double)f->value[(1 << f->bits) - 1]));
        ft_rng r = {10};
        double plain = 0, small = 0;
        for (int rep = 0; rep < 20000; rep++) {
            float x[G], q[G], tx[G], tq[G], y[G], y8[G], q8[G], top = 0;
            uint8_t b[128];
            gauss(x, G, &r, 1);
            gauss(q, G, &r, 1);
            ft_turbo_hadamard(tx, x, G);
            ft_turbo_hadamard(tq, q, G);
            ft_turbo_encode(t, b, x, G);
            ft_turbo_decode(t, y, b, G);
            const float scale = ft_f16_to_f32((uint16_t)(b[0] | b[1] << 8));
            for (int i = 0; i < G; i++) {
                int c = 0;
                while (f->value[c] * scale != y[i]) c++;
                y8[i] = (float)f->small[c] * f->step * scale;
                top = fmaxf(top, fabsf(tq[i]));
            }
            for (int i = 0; i < G; i++) q8[i] = rintf(tq[i] / top * 127) * top / 127;
            const double want = dot(tx, tq, G), e = dot(y, tq, G) - want,
                         e8 = dot(y8, q8, G) - want;
            plain += e * e;
            small += e8 * e8;
        }
        if (small / plain > 1.02)
            fail_msg("%s: error variance grows by %.4f", about[k].name, small / plain);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_those_of_the_reference),
        cmocka_unit_test(golden_vector),
        cmocka_unit_test(signs_come_from_their_generator),
        cmocka_unit_test(transform_round_trip),
        cmocka_unit_test(sizes_and_padding),
        cmocka_unit_test(errors_are_those_of_the_theory),
        cmocka_unit_test(products_keep_their_size),
        cmocka_unit_test(structured_rows),
        cmocka_unit_test(norms_survive),
        cmocka_unit_test(edges),
        cmocka_unit_test(whole_numbers_are_good_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
