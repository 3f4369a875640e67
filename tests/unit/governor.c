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
    double slow;   /* share of the steps that something else makes five times as long */
} world;

static double step(const world *w, int rows, ft_rng *r)
{
    const double t = (w->row1 + w->row * (rows - 1)) * (1 + w->noise * ft_rng_f64(r));
    return w->slow > 0 && ft_rng_f64(r) < w->slow ? 5 * t : t;
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
        for (int i = 0; i < k; i++) ft_gov_draft(c, i == 0, 1, w->draft);
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
        {1, 0.0, 0.1, 0.1, {0.8, 0.8, 0.8, 0.8}, 0, 0},    /* rows are free: all drafts pay */
        {1, 0.3, 0.2, 0.1, {0.8, 0.7, 0.6, 0.5}, 0, 0},    /* a few pay */
        {1, 0.3, 0.2, 0.1, {0.3, 0.3, 0.2, 0.2}, 0, 0},    /* none pays */
        {1, 1.0, 0.5, 0.1, {0.9, 0.9, 0.9, 0.9}, 0, 0},    /* a row costs a step */
        {1, 1.0, 1.0, 0.3, {0.1, 0.1, 0.1, 0.1}, 0, 0},    /* as bad as it gets */
        {1, 0.1, 0.1, 0.5, {0.5, 0.5, 0.5, 0.5}, 0, 0},    /* a noisy machine */
        {1, 1.0, 1.0, 0.1, {0.1, 0.1, 0.1, 0.1}, 0.1, 0},  /* a large draft model that is no use */
        {1, 0.1, 0.1, 0.1, {0.8, 0.8, 0.8, 0.8}, 0, 0.25}, /* other programs take turns */
        {1, 1.0, 0.5, 0.1, {0.9, 0.9, 0.9, 0.9}, 0, 0.25}, /* they do, and a row costs a step */
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

/* So many replies at once, each with a governor of its own: tokens per second of all, over n rounds
 * that each of them takes part in. on: governed. */
static double speed_of_many(const world *w, int lanes, int n, bool on, ft_gov_costs *c,
                            uint64_t seed)
{
    enum { MOST = 64 };
    ft_rng r = {seed};
    ft_governor g[MOST];
    double s = 0;
    int tokens = 0;
    for (int i = 0; i < lanes; i++) ft_gov_init(&g[i], c, false);
    for (int at = 0; at < n; at++) {
        int k[MOST], rows = lanes;
        for (int i = 0; i < lanes; i++) rows += k[i] = on ? ft_gov_choose(&g[i], c, 3, lanes) : 0;
        const double t = step(w, rows, &r);
        ft_gov_trunk(c, rows, t);
        s += t;
        for (int j = 0; j < 3; j++) {
            int drafting = 0;
            for (int i = 0; i < lanes; i++) drafting += k[i] > j;
            if (!drafting) break;
            ft_gov_draft(c, j == 0, drafting, w->draft * drafting);
            s += w->draft * drafting;
        }
        for (int i = 0; i < lanes; i++) {
            int kept = 0;
            while (kept < k[i] && ft_rng_f64(&r) < w->accept[kept]) kept++;
            ft_gov_accept(&g[i], c, k[i], kept);
            tokens += 1 + kept;
        }
    }
    return tokens / s;
}

/* Where no acceptance could make drafts pay, tries are as rare for many replies as for one. */
static void hopeless(void **state)
{
    (void)state;
    const world w = {1, 1.0, 0.3, 0.1, {0.9, 0.9, 0.9, 0.9}, 0, 0};
    ft_gov_costs c, unused;
    ft_gov_costs_init(&c);
    ft_gov_costs_init(&unused);
    for (int i = 0; i < 3; i++) speed_of_many(&w, 32, 200, true, &c, 1);
    double all = 0;
    for (int i = 0; i < 10; i++) {
        ft_gov_round(&c, 2000 << i, false); /* pasts grow */
        const double on = speed_of_many(&w, 32, 100, true, &c, 2),
                     off = speed_of_many(&w, 32, 100, false, &unused, 2);
        if (on < 0.97 * off) fail_msg("past %d: %.4f governed, %.4f without", i, on, off);
        all += on / off / 10;
    }
    if (all < 0.995) fail_msg("32 replies: %.4f of the speed without drafts", all);
}

/* When the many become fewer, and pasts longer, nobody drafts only to learn what that costs. */
static void fewer_replies(void **state)
{
    (void)state;
    const world w = {1, 1.0, 0.3, 0.1, {0.9, 0.9, 0.9, 0.9}, 0, 0};
    ft_gov_costs c;
    ft_gov_costs_init(&c);
    speed(&w, 300, 3, -1, &c, 1);
    speed_of_many(&w, 32, 200, true, &c, 1);
    ft_gov_round(&c, 5000, false);
    for (int lanes = 31; lanes > FT_GOV_MANY; lanes--) {
        ft_governor g;
        ft_gov_init(&g, &c, false);
        const int k = ft_gov_choose(&g, &c, 3, lanes);
        if (k) fail_msg("%d replies of what were 32 draft %d tokens each", lanes, k);
    }
}

/* Drafts that pay for one reply do not when rows and drafts of many cost time each: what one was
 * timed at says nothing about many, nor do the tries of a few among them. */
static void many_replies(void **state)
{
    (void)state;
    static const world worlds[] = {
        {1, 0.3, 0.15, 0.1, {0.8, 0.7, 0.6, 0.5}, 0, 0}, /* rows of many cost as much as they earn
                                                          */
        {1, 0.004, 0.002, 0.1, {0.8, 0.7, 0.6, 0.5}, 0, 0}, /* they are nearly free */
    };
    for (size_t i = 0; i < FT_COUNT(worlds); i++)
        for (int lanes = 2; lanes <= 48; lanes += 23) {
            ft_gov_costs c;
            ft_gov_costs_init(&c);
            speed(&worlds[i], 500, 3, -1, &c, i + 1);
            speed_of_many(&worlds[i], lanes, 40, true, &c, i + 2);
            const double on = speed_of_many(&worlds[i], lanes, 600, true, &c, i + 3);
            ft_gov_costs unused;
            ft_gov_costs_init(&unused);
            const double off = speed_of_many(&worlds[i], lanes, 600, false, &unused, i + 3);
            if (on < 0.98 * off)
                fail_msg("world %zu, %d replies: %.3f governed, %.3f without", i, lanes, on, off);
            if (i == 1 && on < 1.3 * off)
                fail_msg("world %zu, %d replies: %.3f governed, only %.3f without", i, lanes, on,
                         off);
        }
}

/* A machine whose drafter tells margins: a draft is close or far ahead, in turns of chance, and
 * agreed to accordingly. fixed < 0: governed. *dropped: drafts that were made and not verified. */
static double speed_by_margin(const world *w, double close, double far, int n, int max, int fixed,
                              ft_gov_costs *c, int *dropped, uint64_t seed)
{
    ft_rng r = {seed};
    ft_governor g;
    ft_gov_init(&g, c, false);
    double s = 0;
    int tokens = 0;
    *dropped = 0;
    while (tokens < n) {
        const int most = fixed >= 0 ? fixed : ft_gov_choose(&g, c, max, 1);
        bool right[4];
        int k = 0, kept = 0;
        bool dropping = false;
        for (ft_gov_next next = FT_GOV_MORE; next == FT_GOV_MORE && k < most;) {
            const bool ahead = ft_rng_f64(&r) < 0.5;
            right[k] = ft_rng_f64(&r) < (ahead ? far : close);
            if (fixed < 0) next = ft_gov_drafted(&g, c, ahead ? 4 : 0.2f, 1);
            dropping = next == FT_GOV_DROP;
            k += !dropping;
        }
        const int made = k + dropping;
        *dropped += dropping;
        while (kept < k && right[kept]) kept++;
        const double t = step(w, 1 + k, &r);
        ft_gov_trunk(c, 1 + k, t);
        for (int i = 0; i < made; i++) ft_gov_draft(c, i == 0, 1, w->draft);
        if (dropping && kept == k) ft_gov_dropped(&g, c, right[k]);
        if (fixed < 0) ft_gov_accept(&g, c, k, kept);
        s += t + made * w->draft;
        tokens += 1 + kept;
    }
    return tokens / s;
}

/* Margins that tell something make drafting better than any fixed number of drafts; those that tell
 * nothing do not make it worse than none. */
static void margins(void **state)
{
    (void)state;
    static const struct {
        world w;
        double close, far, gain; /* gain: over the best fixed number */
    } cases[] = {
        {{1, 0.3, 0.15, 0.1, {0}, 0, 0}, 0.1, 0.98, 1.04},  /* close ones are a waste */
        {{1, 0.3, 0.15, 0.1, {0}, 0, 0}, 0.8, 0.8, 0.93},   /* no difference */
        {{1, 0.3, 0.15, 0.1, {0}, 0, 0}, 0.1, 0.1, 0.97},   /* no use */
        {{1, 1.0, 0.5, 0.1, {0}, 0, 0}, 0.1, 0.98, 0.97},   /* a row costs a step */
        {{1, 0.02, 0.05, 0.1, {0}, 0, 0}, 0.4, 0.98, 0.96}, /* rows are nearly free */
    };
    for (size_t i = 0; i < FT_COUNT(cases); i++) {
        ft_gov_costs c, unused;
        int dropped, none;
        ft_gov_costs_init(&c);
        c.margins = true;
        speed_by_margin(&cases[i].w, cases[i].close, cases[i].far, 300, 3, -1, &c, &dropped, i + 1);
        const double on = speed_by_margin(&cases[i].w, cases[i].close, cases[i].far, 4000, 3, -1,
                                          &c, &dropped, i + 50);
        double best = 0, off = 0;
        for (int k = 0; k <= 3; k++) {
            ft_gov_costs_init(&unused);
            const double s = speed_by_margin(&cases[i].w, cases[i].close, cases[i].far, 4000, 3, k,
                                             &unused, &none, i + 50);
            best = FT_MAX(best, s);
            if (k == 0) off = s;
        }
        if (on < 0.98 * off) fail_msg("case %zu: %.3f governed, %.3f without drafts", i, on, off);
        if (on < cases[i].gain * best)
            fail_msg("case %zu: %.3f governed, the best fixed number gives %.3f", i, on, best);
        if (i == 0) assert_true(dropped > 100);
    }
}

/* Tries that keep failing become rarer. */
static void backs_off(void **state)
{
    (void)state;
    world w = {1, 1.0, 0.5, 0, {0.05, 0.05, 0.05, 0.05}, 0, 0};
    ft_gov_costs c;
    ft_governor g;
    ft_gov_costs_init(&c);
    speed(&w, 300, 3, -1, &c, 1);
    ft_gov_init(&g, &c, false);
    int tries[2] = {0, 0};
    for (int i = 0; i < 4000; i++) {
        const int k = ft_gov_choose(&g, &c, 3, 1);
        tries[i / 2000] += k > 0;
        ft_gov_trunk(&c, 1 + k, 1 + k);
        ft_gov_accept(&g, &c, k, 0);
    }
    assert_true(tries[0] >= 2);
    assert_true(tries[1] >= 1);
    assert_true(tries[1] < tries[0]);
}

/* Acceptance that changes in the middle of a reply is noticed. */
static void notices(void **state)
{
    (void)state;
    world w = {1, 0.2, 0.1, 0.05, {0.05, 0.05, 0.05, 0.05}, 0, 0};
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
        cmocka_unit_test(never_loses), cmocka_unit_test(many_replies),
        cmocka_unit_test(hopeless),    cmocka_unit_test(fewer_replies),
        cmocka_unit_test(margins),     cmocka_unit_test(backs_off),
        cmocka_unit_test(notices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
