/* tests/unit/sample_list.c - the vectorised row operations of the sampler against the scalar
 * arithmetic of dev/draw.h: host and devices sample the same ids only if all bits are equal. */
#include "engine/sample_list.h"

#include "base/mem.h"
#include "base/rng.h"
#include "unit.h"

#include <string.h>

enum { N = 3 * FT_LIST_PART + 77 };

static float from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* A random value from 0 down to below the smallest with a non-zero weight, and sometimes any float.
 */
static float any_below(ft_rng *r)
{
    const uint64_t bits = ft_rng_u64(r);
    if (bits % 16 == 0) return from_bits((uint32_t)(bits >> 32));
    return -(float)ft_unit_f64(bits) * (bits % 2 ? 30.0f : 3.0f);
}

static uint64_t plain_weight(float x, float max)
{
    return ft_weigh(x > max ? 0 : x - max);
}

/* One value among others of zero weight: no other value can compensate an error. */
static void every_weight_is_the_plain_one(void **state)
{
    (void)state;
    float x[FT_LIST_PART];
    ft_rng r = {1};
    for (int i = 0; i < FT_LIST_PART; i++) x[i] = i % 2 ? -INFINITY : NAN;
    for (int k = 0; k < 200000; k++) {
        const int i = k % FT_LIST_PART;
        const float was = x[i];
        x[i] = k < 100000 ? any_below(&r) : from_bits(0x80000000u + (uint32_t)(k - 100000) * 21475);
        const uint64_t want = plain_weight(x[i], 0), got = ft_sum_exp(x, FT_LIST_PART, 0, NULL);
        if (got != want)
            fail_msg("%a has weight %llu, want %llu", (double)x[i], (unsigned long long)got,
                     (unsigned long long)want);
        x[i] = was;
    }
}

static void sums_are_those_of_all_weights(void **state)
{
    (void)state;
    float x[N] = {0};
    uint64_t part[N / FT_LIST_PART];
    ft_rng r = {2};
    for (int n = 0; n <= N; n += n < 40 ? 1 : 37) {
        const float max = n % 3 ? 12.5f : FLT_MAX; /* FLT_MAX for a row with +inf */
        uint64_t all = 0, want[N / FT_LIST_PART + 1] = {0};
        for (int i = 0; i < n; i++) {
            x[i] = n % 5 ? max + any_below(&r) : max; /* or all of the largest weight */
            want[i / FT_LIST_PART] += plain_weight(x[i], max);
            all += plain_weight(x[i], max);
        }
        assert_true(ft_sum_exp(x, n, max, part) == all);
        assert_true(ft_sum_exp(x, n, max, NULL) == all);
        for (int i = 0; i < n / FT_LIST_PART; i++) assert_true(part[i] == want[i]);
    }
}

/* The entry at each boundary of the cumulative weights, and next to it. */
static void the_entry_is_where_weights_pass(void **state)
{
    (void)state;
    ft_list *l = ft_sample_scratch_new(N);
    float x[N];
    ft_rng r = {3};
    static const int32_t lengths[] = {1, 5, FT_LIST_PART, FT_LIST_PART + 1, 2 * FT_LIST_PART, N};
    for (size_t k = 0; k < FT_COUNT(lengths); k++) {
        for (int i = 0; i < N; i++) x[i] = i % 7 ? -(float)ft_unit_f64(ft_rng_u64(&r)) * 9 : -40;
        ft_list_load(l, x, NULL);
        l->n = lengths[k];
        const float max = ft_list_max(l);
        const uint64_t all = ft_list_sum(l, max);
        uint64_t sum = 0;
        for (int32_t i = 0; i < l->n; i++) {
            const uint64_t w = ft_weigh(l->x[i] - max);
            if (w) assert_int_equal(ft_list_at(l, max, sum), i);
            if (w) assert_int_equal(ft_list_at(l, max, sum + w - 1), i);
            sum += w;
        }
        assert_true(sum == all);
        assert_int_equal(ft_list_at(l, max, all), l->n - 1); /* the last entry */
    }
    ft_sample_scratch_free(l);
}

static void rows_are_what_their_values_are(void **state)
{
    (void)state;
    float x[N];
    ft_rng r = {4};
    for (int n = 1; n <= 100; n++) {
        ft_list *l = ft_sample_scratch_new(n);
        for (int i = 0; i < n; i++) x[i] = from_bits((uint32_t)(ft_rng_u64(&r) >> 32));
        x[n / 2] = n % 3 ? NAN : INFINITY;
        ft_list_load(l, x, NULL);
        float max = -INFINITY;
        for (int i = 0; i < n; i++) {
            assert_true(l->x[i] == ft_logit_finite(x[i]));
            if (l->x[i] > max) max = l->x[i];
        }
        assert_true(ft_list_max(l) == max);
        const float t = 0.05f * (float)n;
        ft_list_temperature(l, t);
        for (int i = 0; i < n; i++)
            assert_true(l->x[i] == ft_logit_tempered(ft_logit_finite(x[i]), t));
        ft_sample_scratch_free(l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_weight_is_the_plain_one),
        cmocka_unit_test(sums_are_those_of_all_weights),
        cmocka_unit_test(the_entry_is_where_weights_pass),
        cmocka_unit_test(rows_are_what_their_values_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
