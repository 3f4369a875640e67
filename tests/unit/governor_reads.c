/* tests/unit/governor_reads.c - what a choice costs: how many times the governor looks up in its
 * tables. Between two steps a GPU waits for the choice, so that many responses that do not draft
 * must be almost free. And the shortcut that makes it so never rejects a plan that is faster. */
#include "unit.h"

#include "base/rng.h"
#include "engine/governor_times.h"

static int reads;

static double counted_of(const ft_gov_times *table, int rows)
{
    reads++;
    return ft_times_of(table, rows);
}

static double counted_about(const ft_gov_times *table, double rows)
{
    reads++;
    return ft_times_about(table, rows);
}

#define ft_times_of    counted_of
#define ft_times_about counted_about
#include "engine/governor.c"
#undef ft_times_of
#undef ft_times_about

enum { SLOTS = 32, DRAFTS = 3 };

static void init(ft_gov_costs *c, ft_governor *g, double accept)
{
    ft_gov_costs_init(c);
    for (int i = 0; i < FT_GOV_SAMPLES; i++) {
        for (int rows = SLOTS; rows <= SLOTS * (1 + DRAFTS); rows += SLOTS)
            ft_gov_trunk(c, SLOTS, rows, 1 + 0.006 * (rows - SLOTS));
        for (int n = 1; n <= SLOTS; n *= 2) {
            ft_gov_draft(c, true, n, 0.1);
            ft_gov_draft(c, false, n, 0.1);
        }
    }
    c->credit = 4;
    for (int j = 0; j < DRAFTS; j++) c->prior[j] = accept;
    for (int i = 0; i < SLOTS; i++) ft_gov_init(&g[i], c, false);
}

/* The most reads of a choice of all responses, and whether they draft. */
static int most_reads(double accept, bool margins, bool *drafts)
{
    static ft_gov_costs c;
    ft_governor g[SLOTS];
    int most = 0;
    init(&c, g, accept);
    c.margins = margins;
    for (int i = 0; i < FT_GOV_MARGINS; i++)
        for (int j = 0; j < SLOTS; j++) g[j].margin_accept[i] = accept;
    *drafts = false;
    for (int step = 0; step < 24; step++) {
        ft_gov_choice t[SLOTS];
        for (int i = 0; i < SLOTS; i++) t[i] = (ft_gov_choice){&g[i], DRAFTS, 0, 1};
        reads = 0;
        ft_gov_choose(t, SLOTS, &c, SLOTS);
        most = FT_MAX(most, reads);
        *drafts = *drafts || t[0].k;
    }
    return most;
}

static void few_reads(void **state)
{
    (void)state;
    static const struct {
        double accept;
        bool margins, drafts;
        int most;
    } cases[] = {{0.05, false, false, 16},
                 {0.9, false, true, 240},
                 {0.05, true, false, 160},
                 {0.9, true, true, 160}};
    for (size_t i = 0; i < FT_COUNT(cases); i++) {
        bool drafts;
        const int n = most_reads(cases[i].accept, cases[i].margins, &drafts);
        assert_int_equal(drafts, cases[i].drafts);
        if (n > cases[i].most)
            fail_msg("case %zu: %d reads per choice, want %d at most", i, n, cases[i].most);
    }
}

/* Costs of a machine at random; steps and passes of some sizes are timed. */
static void random_costs(ft_gov_costs *c, int slots, ft_rng *r)
{
    const double row = ft_rng_f64(r) * 0.05, pass = ft_rng_f64(r) * 0.4;
    ft_gov_costs_init(c);
    for (int i = 0; i < 24; i++) {
        const int rows = i < 4 ? slots : 1 + (int)(ft_rng_f64(r) * 5 * slots);
        ft_gov_trunk(c, slots, rows, (1 + row * rows) * (1 + 0.2 * ft_rng_f64(r)));
    }
    for (int i = 0; i < 6; i++) {
        const int n = 1 + (int)(ft_rng_f64(r) * slots);
        ft_gov_draft(c, i % 2, n, pass * (1 + ft_rng_f64(r)));
    }
}

/* A plan that the shortcut would reject is not faster than no drafting. */
static void no_plan_is_lost(void **state)
{
    (void)state;
    enum { MANY = 48, NO_CHOICE = FT_DRAFT_MAX + 1 };
    ft_rng r = {5};
    int rejected = 0, faster = 0;
    for (int run = 0; run < 4000; run++) {
        static ft_gov_costs c;
        ft_governor g[MANY];
        ft_gov_choice t[MANY];
        int at[MANY];
        const int slots = 1 + (int)(ft_rng_f64(&r) * MANY);
        const double accept = ft_rng_f64(&r);
        random_costs(&c, slots, &r);
        for (int i = 0; i < slots; i++) {
            ft_gov_init(&g[i], &c, false);
            for (int j = 0; j < DRAFTS; j++) g[i].accept[j] = accept * ft_rng_f64(&r);
            t[i] = (ft_gov_choice){&g[i], 1 + i % DRAFTS, 0, 1};
            at[i] = i;
        }
        const choice o = choice_of(&c, slots);
        const bool may = may_pay(t, at, slots, &o, DRAFTS);
        g[0].k = NO_CHOICE; /* a response that drafts: all plans are compared */
        const plan p = plan_by_average(t, at, slots, &o, DRAFTS);
        if (!may && p.n) fail_msg("run %d: %d of %d responses would draft", run, p.n, slots);
        rejected += !may;
        faster += p.n > 0;
    }
    assert_true(rejected > 500 && faster > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(few_reads),
                                       cmocka_unit_test(no_plan_is_lost)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
