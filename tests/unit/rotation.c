/* tests/unit/rotation.c - how many responses run in a step: on simulated devices, whose steps take
 * as long as so many tiles of rows. */
#include "unit.h"

#include "base/rng.h"
#include "engine/rotation.h"

#include <math.h>

/* Milliseconds of a step of n rows. */
typedef double step_time(int n);

/* An H200 with the 27B model, whose tiles have up to 64, 80, 96 and 128 rows; more are assumed. */
static double tiles(int n)
{
    static const int most[] = {64, 80, 96, 128, 192, 256};
    static const double first[] = {5.6, 10.2, 13.2, 13.8, 19.3, 24.5};
    static const double each[] = {0.141, 0.103, 0.093, 0.106, 0.106, 0.106};
    int i = 0;
    while (n > most[i]) i++;
    return first[i] + each[i] * n;
}

static double smooth(int n)
{
    return 1 + 0.02 * n;
}

static double full(int n)
{
    return n;
}

/* Tokens per millisecond in `steps` steps with n responses; each step takes up to 3 % longer. */
static double run(ft_rotation *r, int n, int steps, step_time *time, ft_rng *g)
{
    double sum = 0, tokens = 0;
    for (int i = 0; i < steps; i++) {
        const int m = ft_rotation_choose(r, n);
        assert_true(m <= n && 4 * m >= 3 * n);
        const double t = time(m) * (1 + 0.03 * ft_rng_f64(g));
        ft_rotation_timed(r, m, t);
        sum += t;
        tokens += m;
    }
    return tokens / sum;
}

/* One sequence more never gives fewer tokens per second, if all of it is known. */
static void never_falls(void **state)
{
    static ft_rotation r;
    ft_rng g = {3};
    double best = 0, fell = 0;
    (void)state;
    for (int n = 1; n <= FT_ROTATION_ROWS; n++) {
        run(&r, n, 300, tiles, &g);
        const double now = run(&r, n, 2000, tiles, &g);
        assert_true(now > best * 0.97);
        best = fmax(best, now);
        fell = fmax(fell, best / (n / tiles(n) / 1.015));
    }
    assert_true(fell > 1.1); /* with all of them in each step they do */
}

/* Where fewer never give more, looking for it costs less than 1 %. */
static void looking_costs_little(void **state)
{
    step_time *const time[] = {smooth, full};
    (void)state;
    for (size_t i = 0; i < 2; i++)
        for (int n = 2; n <= 300; n += 7) {
            ft_rotation r = {0};
            ft_rng g = {(uint64_t)n};
            const double rate = run(&r, n, 96, time[i], &g);
            assert_true(rate > 0.99 * n / time[i](n) / 1.015);
        }
}

/* Times that change, such as those of growing contexts, are measured again. */
static void times_change(void **state)
{
    ft_rotation r = {0};
    ft_rng g = {9};
    (void)state;
    run(&r, 65, 500, tiles, &g);
    assert_true(run(&r, 65, 1000, tiles, &g) > 1.1 * 65 / tiles(65));
    run(&r, 65, 3000, smooth, &g);
    assert_true(run(&r, 65, 1000, smooth, &g) > 0.98 * 65 / smooth(65) / 1.015);
    run(&r, 65, 3000, tiles, &g);
    assert_true(run(&r, 65, 1000, tiles, &g) > 1.1 * 65 / tiles(65));
}

static void few_and_very_many_all_run(void **state)
{
    ft_rotation r = {0};
    (void)state;
    for (int i = 0; i < 2000; i++)
        for (int n = 1; n <= FT_ROTATION_TILE; n++) {
            assert_int_equal(ft_rotation_choose(&r, n), n);
            ft_rotation_timed(&r, n, n * n);
        }
    assert_int_equal(ft_rotation_choose(&r, FT_ROTATION_ROWS + 1), FT_ROTATION_ROWS + 1);
    ft_rotation_timed(&r, FT_ROTATION_ROWS + 1, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(never_falls),
        cmocka_unit_test(looking_costs_little),
        cmocka_unit_test(times_change),
        cmocka_unit_test(few_and_very_many_all_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
