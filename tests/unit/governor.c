/* tests/unit/governor.c - the governor against made-up machines: it finds the best number of drafts
 * and never loses much. */
#include "unit.h"

#include "base/mem.h"
#include "base/rng.h"
#include "engine/governor.h"

/* A machine: seconds of a step by rows and of a draft; and how often draft j is agreed to. */
typedef struct world {
    double row1, row, draft, noise;
    double accept[4];
    double missed; /* seconds to read one token that the drafter missed while it was parked */
} world;

static double step(const world *w, int rows, ft_rng *r)
{
    return (w->row1 + w->row * (rows - 1)) * (1 + w->noise * ft_rng_f64(r));
}

/* Tokens per second over n tokens, drafting at most max; fixed < 0: governed. */
static double speed(const world *w, int n, int max, int fixed, ft_gov_costs *c, uint64_t seed)
{
    ft_rng r = {seed};
    ft_governor g;
    ft_gov_init(&g, c, false);
    double s = 0;
    int tokens = 0, plain = 0;
    while (tokens < n) {
        const int k = fixed >= 0 ? fixed : ft_gov_choose(&g, c, max, 1);
        const double t = step(w, 1 + k, &r);
        int kept = 0;
        while (kept < k && ft_rng_f64(&r) < w->accept[kept]) kept++;
        ft_gov_trunk(c, 1 + k, t);
        if (k) ft_gov_draft(c, k, k * w->draft);
        ft_gov_accept(&g, c, k, kept);
        if (k && plain) ft_gov_behind(c, plain, plain * w->missed);
        s += t + k * w->draft + (k ? plain * w->missed : 0);
        plain = k ? 0 : plain + 1;
        tokens += 1 + kept;
    }
    return tokens / s;
}

static void never_loses(void **state)
{
    (void)state;
    static const world worlds[] = {
        {1, 0.0, 0.1, 0.1, {0.8, 0.8, 0.8, 0.8}, 0},   /* rows are free: all drafts pay */
        {1, 0.3, 0.2, 0.1, {0.8, 0.7, 0.6, 0.5}, 0},   /* a few pay */
        {1, 0.3, 0.2, 0.1, {0.3, 0.3, 0.2, 0.2}, 0},   /* none pays */
        {1, 1.0, 0.5, 0.1, {0.9, 0.9, 0.9, 0.9}, 0},   /* a row costs a step */
        {1, 1.0, 1.0, 0.3, {0.1, 0.1, 0.1, 0.1}, 0},   /* as bad as it gets */
        {1, 0.1, 0.1, 0.5, {0.5, 0.5, 0.5, 0.5}, 0},   /* a noisy machine */
        {1, 1.0, 1.0, 0.1, {0.1, 0.1, 0.1, 0.1}, 0.1}, /* a large draft model that is no use */
    };
    for (size_t i = 0; i < FT_COUNT(worlds); i++) {
        ft_gov_costs c;
        ft_gov_costs_init(&c);
        speed(&worlds[i], 128, 4, -1, &c, i + 1); /* the first tokens may explore */
        const double on = speed(&worlds[i], 4000, 4, -1, &c, i + 50);
        ft_gov_costs unused;
        ft_gov_costs_init(&unused);
        double best = 0, off = 0;
        for (int k = 0; k <= 4; k++) {
            const double s = speed(&worlds[i], 4000, 4, k, &unused, i + 50);
            best = FT_MAX(best, s);
            if (k == 0) off = s;
        }
        if (on < 0.98 * off) fail_msg("world %zu: %.3f governed, %.3f without drafts", i, on, off);
        if (on < 0.93 * best) fail_msg("world %zu: %.3f governed, the best is %.3f", i, on, best);
    }
}

/* Acceptance that changes in the middle of a reply is noticed. */
static void notices(void **state)
{
    (void)state;
    world w = {1, 0.2, 0.1, 0.05, {0.05, 0.05, 0.05, 0.05}, 0};
    ft_gov_costs c;
    ft_gov_costs_init(&c);
    speed(&w, 600, 4, -1, &c, 3);
    for (int j = 0; j < 4; j++) w.accept[j] = 0.9;
    speed(&w, 1500, 4, -1, &c, 4);
    ft_gov_costs other = c;
    const double on = speed(&w, 1000, 4, -1, &c, 5), off = speed(&w, 1000, 4, 0, &other, 5);
    assert_true(on > 1.5 * off);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(never_loses),
        cmocka_unit_test(notices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
