/* tests/unit/kv_calibrate.c - the effect of KV cache types on attention scores when keys share a
 * common component: the correlation falls as that component grows, and subtracting the mean
 * restores it. */
#include "kv/calibrate.h"

#include "base/mem.h"
#include "base/rng.h"

#include "unit.h"

#include <math.h>

enum { HEADS = 16, D = 128, CELLS = 400, ROWS = 2 };

/* Keys mu + delta with |mu| = rho E|delta|; a mu for every head. */
static ft_kv_sample keys_of(double rho)
{
    ft_rng r = {3};
    ft_kv_sample s = {.H = HEADS, .G = HEADS, .d = D, .cells = CELLS, .rows = ROWS};
    s.keys = ft_new_n(float, HEADS *CELLS *D);
    s.q = ft_new_n(float, ROWS *HEADS *D);
    for (int i = 0; i < ROWS * HEADS * D; i++) s.q[i] = (float)ft_rng_normal(&r);
    float *key = s.keys;
    for (int g = 0; g < HEADS; g++) {
        double mu[D], norm = 0;
        for (int i = 0; i < D; i++) {
            mu[i] = ft_rng_normal(&r);
            norm += mu[i] * mu[i];
        }
        for (int i = 0; i < D; i++) mu[i] *= rho * sqrt(D / norm);
        for (int c = 0; c < CELLS; c++)
            for (int i = 0; i < D; i++) *key++ = (float)(mu[i] + ft_rng_normal(&r));
    }
    return s;
}

static void common_parts(void **state)
{
    (void)state;
    static const struct {
        double rho, two, three, four, slack;
    } want[] = {{1, 0.893, 0.968, 0.991, 0.01},
                {3, 0.700, 0.873, 0.959, 0.01},
                {10, 0.40, 0.55, 0.744, 0.05},
                {30, 0.22, 0.32, 0.44, 0.08}};
    for (size_t i = 0; i < FT_COUNT(want); i++) {
        ft_kv_sample s = keys_of(want[i].rho);
        float mean[HEADS * D];
        ft_kv_sample_mean(&s, mean);
        const struct {
            ft_kv_type t;
            double plain, centred;
        } all[] = {{FT_KV_TURBO2, want[i].two, 0.940},
                   {FT_KV_TURBO3, want[i].three, 0.983},
                   {FT_KV_TURBO4, want[i].four, 0.995}};
        for (size_t k = 0; k < FT_COUNT(all); k++) {
            const double plain = ft_kv_sample_correlation(&s, all[k].t, NULL);
            const double centred = ft_kv_sample_correlation(&s, all[k].t, mean);
            if (fabs(plain - all[k].plain) > want[i].slack)
                fail_msg("%s, rho %g: %.4f", ft_kv_type_name(all[k].t), want[i].rho, plain);
            if (fabs(centred - all[k].centred) > 0.004)
                fail_msg("%s, rho %g, centred: %.4f", ft_kv_type_name(all[k].t), want[i].rho,
                         centred);
        }
        assert_true(ft_kv_sample_correlation(&s, FT_KV_F32, NULL) > 1 - 1e-9);
        assert_true(ft_kv_sample_correlation(&s, FT_KV_F32, mean) > 1 - 1e-6);
        ft_kv_sample_release(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(common_parts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
