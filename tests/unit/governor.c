/* tests/unit/governor.c - the governor against simulated machines: it finds the best number of
 * draft tokens and is never much slower than without drafting. */
#include "unit.h"

#include "base/mem.h"
#include "base/rng.h"
#include "engine/governor.h"

#include <math.h>

/* A simulated machine: the time of a step by rows, the time of a draft pass, and the acceptance
 * rate of draft token j. */
typedef struct world {
    double row1, row, draft, noise;
    double accept[4];
    double
        missed;  /* seconds to process one token that the drafter missed while it was swapped out */
    double slow; /* share of the steps that other programs make five times as long */
} world;

static double step_time(const world *w, int rows, ft_rng *r)
{
    const double t = (w->row1 + w->row * (rows - 1)) * (1 + w->noise * ft_rng_f64(r));
    return w->slow > 0 && ft_rng_f64(r) < w->slow ? 5 * t : t;
}

/* Number of draft tokens of one response when this many run at once. */
static int choose_draft(ft_governor *g, const ft_gov_costs *c, int max, int slots)
{
    ft_gov_choice t = {g, max, 0, 0};
    ft_gov_choose(&t, 1, c, slots);
    return t.k;
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
        const int k = fixed >= 0 ? fixed : choose_draft(&g, c, max, 1);
        const double t = step_time(w, 1 + k, &r);
        int kept = 0;
        while (kept < k && ft_rng_f64(&r) < w->accept[kept]) kept++;
        ft_gov_trunk(c, 1, 1 + k, t);
        for (int i = 0; i < k; i++) ft_gov_draft(c, i == 0, 1, w->draft);
        ft_gov_accept(&g, c, k, kept);
        if (k && plain) ft_gov_catch_up(c, plain, plain * w->missed);
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
        {1, 0.0, 0.1, 0.1, {0.8, 0.8, 0.8, 0.8}, 0, 0}, /* rows are free: full drafts are fastest */
        {1, 0.3, 0.2, 0.1, {0.8, 0.7, 0.6, 0.5}, 0, 0}, /* short drafts are fastest */
        {1, 0.3, 0.2, 0.1, {0.3, 0.3, 0.2, 0.2}, 0, 0}, /* no drafting is fastest */
        {1, 1.0, 0.5, 0.1, {0.9, 0.9, 0.9, 0.9}, 0, 0}, /* a row costs as much as a step */
        {1, 1.0, 1.0, 0.3, {0.1, 0.1, 0.1, 0.1}, 0, 0}, /* the worst case */
        {1, 0.1, 0.1, 0.5, {0.5, 0.5, 0.5, 0.5}, 0, 0}, /* a noisy machine */
        {1, 1.0, 1.0, 0.1, {0.1, 0.1, 0.1, 0.1}, 0.1, 0}, /* a large draft model with low acceptance
                                                           */
        {1, 0.1, 0.1, 0.1, {0.8, 0.8, 0.8, 0.8}, 0, 0.25}, /* other programs run at times */
        {1, 1.0, 0.5, 0.1, {0.9, 0.9, 0.9, 0.9}, 0, 0.25}, /* the same, and a row costs as much as a
                                                              step */
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
        if (on < 0.98 * off)
            fail_msg("world %zu: speed %.3f governed, %.3f without drafting", i, on, off);
        if (on < 0.93 * best)
            fail_msg("world %zu: speed %.3f governed, the best is %.3f", i, on, best);
    }
}

/* Several responses at once, each with its own governor: total tokens per second over n common
 * steps. on: governed. */
static double speed_of_many(const world *w, int slots, int n, bool on, ft_gov_costs *c,
                            uint64_t seed)
{
    enum { MOST = 64 };
    ft_rng r = {seed};
    ft_governor g[MOST];
    double s = 0;
    int tokens = 0;
    for (int i = 0; i < slots; i++) ft_gov_init(&g[i], c, false);
    for (int at = 0; at < n; at++) {
        int k[MOST], rows = slots;
        ft_gov_choice turn[MOST];
        for (int i = 0; i < slots; i++) turn[i] = (ft_gov_choice){&g[i], 3, 0, 0};
        if (on) ft_gov_choose(turn, slots, c, slots);
        for (int i = 0; i < slots; i++) rows += k[i] = turn[i].k;
        const double t = step_time(w, rows, &r);
        ft_gov_trunk(c, slots, rows, t);
        s += t;
        for (int j = 0; j < 3; j++) {
            int drafting = 0;
            for (int i = 0; i < slots; i++) drafting += k[i] > j;
            if (!drafting) break;
            ft_gov_draft(c, j == 0, drafting, w->draft * drafting);
            s += w->draft * drafting;
        }
        for (int i = 0; i < slots; i++) {
            int kept = 0;
            while (kept < k[i] && ft_rng_f64(&r) < w->accept[kept]) kept++;
            ft_gov_accept(&g[i], c, k[i], kept);
            tokens += 1 + kept;
        }
    }
    return tokens / s;
}

/* Where drafting cannot be faster at any acceptance rate, trial drafts are as rare for many
 * responses as for one. */
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
        ft_gov_step(&c, 2000 << i, false, false); /* contexts grow */
        const double on = speed_of_many(&w, 32, 100, true, &c, 2),
                     off = speed_of_many(&w, 32, 100, false, &unused, 2);
        if (on < 0.97 * off) fail_msg("context %d: %.4f governed, %.4f without", i, on, off);
        all += on / off / 10;
    }
    if (all < 0.995) fail_msg("32 responses: %.4f of the speed without drafting", all);
}

/* When responses end and contexts grow, no response drafts only to measure the cost. */
static void fewer_responses(void **state)
{
    (void)state;
    const world w = {1, 1.0, 0.3, 0.1, {0.9, 0.9, 0.9, 0.9}, 0, 0};
    ft_gov_costs c;
    ft_gov_costs_init(&c);
    speed(&w, 300, 3, -1, &c, 1);
    speed_of_many(&w, 32, 200, true, &c, 1);
    ft_gov_step(&c, 5000, false, false);
    for (int slots = 31; slots > FT_GOV_MANY; slots--) {
        ft_governor g;
        ft_gov_init(&g, &c, false);
        const int k = choose_draft(&g, &c, 3, slots);
        if (k) fail_msg("%d of 32 responses remain and draft %d tokens each", slots, k);
    }
}

/* Drafting that is faster for one response is not for many when every row and draft costs time: the
 * times of one response, or of trial drafts of a few, do not apply to many. */
static void many_responses(void **state)
{
    (void)state;
    static const world worlds[] = {
        {1, 0.3, 0.15, 0.1, {0.8, 0.7, 0.6, 0.5}, 0, 0},    /* rows cost as much as they gain */
        {1, 0.004, 0.002, 0.1, {0.8, 0.7, 0.6, 0.5}, 0, 0}, /* they are nearly free */
    };
    for (size_t i = 0; i < FT_COUNT(worlds); i++)
        for (int slots = 2; slots <= 48; slots += 23) {
            ft_gov_costs c;
            ft_gov_costs_init(&c);
            speed(&worlds[i], 500, 3, -1, &c, i + 1);
            speed_of_many(&worlds[i], slots, 40, true, &c, i + 2);
            const double on = speed_of_many(&worlds[i], slots, 600, true, &c, i + 3);
            ft_gov_costs unused;
            ft_gov_costs_init(&unused);
            const double off = speed_of_many(&worlds[i], slots, 600, false, &unused, i + 3);
            if (on < 0.98 * off)
                fail_msg("world %zu, %d responses: %.3f governed, %.3f without", i, slots, on, off);
            if (i == 1 && on < 1.3 * off)
                fail_msg("world %zu, %d responses: %.3f governed, only %.3f without", i, slots, on,
                         off);
        }
}

/* Four responses, some with a high acceptance rate, on a machine whose draft passes cost the same
 * for any number of sequences, and where a step of five rows takes as long as one of seven. */
enum { FOUR = 4 };

static double step_of_four(int rows, double kink)
{
    return 1.5 + 0.4 * rows + (rows > FOUR ? kink : 0);
}

/* Their tokens per second over n steps. margins: the drafter reports margins, which are small for
 * wrong draft tokens. */
static double speed_of_four(const double *accept, double draft, double kink, bool margins, int n,
                            bool on, ft_gov_costs *c)
{
    ft_rng r = {7};
    ft_governor g[FOUR];
    double s = 0;
    int tokens = 0;
    for (int i = 0; i < FOUR; i++) ft_gov_init(&g[i], c, false);
    for (int at = 0; at < n; at++) {
        ft_gov_choice turn[FOUR];
        int made[FOUR] = {0}, kept[FOUR] = {0}, rows = FOUR, left = 0;
        bool going[FOUR], right[FOUR] = {true, true, true, true};
        for (int i = 0; i < FOUR; i++) turn[i] = (ft_gov_choice){&g[i], 3, 0, 0};
        if (on) ft_gov_choose(turn, FOUR, c, FOUR);
        for (int i = 0; i < FOUR; i++) left += going[i] = turn[i].k > 0;
        for (int pass = 0; left; pass++) {
            const int served = left;
            double gain = 0;
            for (int i = 0; i < FOUR; i++) {
                if (!going[i]) continue;
                const bool hit = ft_rng_f64(&r) < accept[i];
                ft_gov_next next = made[i] + 1 < turn[i].k ? FT_GOV_MORE : FT_GOV_STOP;
                g[i].gain = (double)INFINITY;
                if (margins) {
                    const ft_gov_next says = ft_gov_drafted(&g[i], c, hit ? 4 : 0.7f, FOUR);
                    next = says == FT_GOV_MORE ? next : says;
                }
                if (next == FT_GOV_DROP) ft_gov_dropped(&g[i], c, hit);
                made[i] += next != FT_GOV_DROP;
                kept[i] += next != FT_GOV_DROP && (right[i] = right[i] && hit);
                going[i] = next == FT_GOV_MORE;
                left -= !going[i];
                if (going[i]) gain += g[i].gain;
            }
            s += draft;
            ft_gov_draft(c, pass == 0, served, draft);
            if (left && !ft_gov_pass_pays(c, gain, left)) left = 0;
        }
        for (int i = 0; i < FOUR; i++) rows += made[i];
        const double t = step_of_four(rows, kink);
        ft_gov_trunk(c, FOUR, rows, t);
        s += t;
        for (int i = 0; i < FOUR; i++) {
            if (on) ft_gov_accept(&g[i], c, made[i], kept[i]);
            tokens += 1 + kept[i];
        }
    }
    return tokens / s;
}

/* Sequences that share a draft pass must gain its time together, and a sequence that does not gain
 * the time of its rows does not draft. */
static void some_of_many(void **state)
{
    (void)state;
    static const struct {
        double accept[FOUR], draft, kink;
        double gain; /* minimum speed relative to no drafting */
    } cases[] = {
        {{0.9, 0.1, 0.1, 0.1}, 1.0, 0, 0.98},   /* one sequence does not gain the time of a pass */
        {{0.9, 0.1, 0.1, 0.1}, 0.02, 0, 1.04},  /* one sequence does */
        {{0.95, 0.95, 0.1, 0.1}, 0.05, 0, 1.1}, /* two sequences do */
        {{0.9, 0.9, 0.9, 0.9}, 0.6, 0.9, 0.98}, /* the fifth row costs more than the sixth */
    };
    for (size_t i = 0; i < FT_COUNT(cases); i++)
        for (int margins = 0; margins < 2; margins++) {
            ft_gov_costs c, unused;
            ft_gov_costs_init(&c);
            ft_gov_costs_init(&unused);
            c.margins = margins;
            speed_of_four(cases[i].accept, cases[i].draft, cases[i].kink, margins, 150, true, &c);
            const double on = speed_of_four(cases[i].accept, cases[i].draft, cases[i].kink, margins,
                                            1500, true, &c),
                         off = speed_of_four(cases[i].accept, cases[i].draft, cases[i].kink,
                                             margins, 1500, false, &unused);
            if (on < cases[i].gain * off)
                fail_msg("case %zu%s: %.4f governed, %.4f without", i, margins ? ", margins" : "",
                         on, off);
        }
}

/* Three draft tokens are faster where one is not: the limit of one token of the other response
 * changes nothing. */
static void different_limits(void **state)
{
    (void)state;
    ft_gov_costs c;
    ft_governor g[2];
    ft_gov_costs_init(&c);
    for (int i = 0; i < FT_GOV_SAMPLES; i++) {
        for (int rows = 2; rows <= 8; rows++) ft_gov_trunk(&c, 2, rows, 1);
        ft_gov_draft(&c, true, 2, 1.1);
        ft_gov_draft(&c, false, 2, 0.05);
    }
    for (int j = 0; j < 3; j++) c.prior[j] = 0.95;
    c.credit = 4;
    for (int i = 0; i < 2; i++) ft_gov_init(&g[i], &c, false);
    for (int last = 0; last < 2; last++) {
        ft_gov_choice t[2] = {{&g[0], last ? 3 : 1, 0, 0}, {&g[1], last ? 1 : 3, 0, 0}};
        ft_gov_choose(t, 2, &c, 2);
        assert_int_equal(t[last ? 0 : 1].k, 3);
        assert_int_equal(t[last ? 1 : 0].k, 1);
    }
}

/* A machine whose drafter reports margins: a draft token has a small or large margin at random,
 * with its own acceptance rate. fixed < 0: governed. *dropped: draft tokens that were not verified.
 */
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
        const int most = fixed >= 0 ? fixed : choose_draft(&g, c, max, 1);
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
        const double t = step_time(w, 1 + k, &r);
        ft_gov_trunk(c, 1, 1 + k, t);
        for (int i = 0; i < made; i++) ft_gov_draft(c, i == 0, 1, w->draft);
        if (dropping && kept == k) ft_gov_dropped(&g, c, right[k]);
        if (fixed < 0) ft_gov_accept(&g, c, k, kept);
        s += t + made * w->draft;
        tokens += 1 + kept;
    }
    return tokens / s;
}

/* Informative margins make drafting faster than any fixed number of draft tokens; uninformative
 * ones do not make it slower than
 * no drafting. */
static void margins(void **state)
{
    (void)state;
    static const struct {
        world w;
        double close, far, gain; /* gain: speed relative to the best fixed number */
    } cases[] = {
        {{1, 0.3, 0.15, 0.1, {0}, 0, 0}, 0.1, 0.98, 1.04},  /* small margins are rarely accepted */
        {{1, 0.3, 0.15, 0.1, {0}, 0, 0}, 0.8, 0.8, 0.93},   /* no difference */
        {{1, 0.3, 0.15, 0.1, {0}, 0, 0}, 0.1, 0.1, 0.97},   /* no draft token is worth it */
        {{1, 1.0, 0.5, 0.1, {0}, 0, 0}, 0.1, 0.98, 0.97},   /* a row costs as much as a step */
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
        if (on < 0.98 * off) fail_msg("case %zu: %.3f governed, %.3f without drafting", i, on, off);
        if (on < cases[i].gain * best)
            fail_msg("case %zu: %.3f governed, the best fixed number gives %.3f", i, on, best);
        if (i == 0) assert_true(dropped > 100);
    }
}

/* n responses of `length` tokens on an engine that has timed its steps: tokens per time of a plain
 * step. close, far: acceptance rates of draft tokens with small and with large margins, which are
 * equally frequent. */
static double speed_of_short(double row, double draft, double close, double far, int length, int n,
                             bool with_margins)
{
    const world w = {1, row, draft, 0, {0}, 0, 0};
    ft_gov_costs c;
    ft_gov_costs_init(&c);
    c.margins = with_margins;
    for (int i = 0; i < 3; i++) {
        for (int rows = 1; rows <= 4; rows++) ft_gov_trunk(&c, 1, rows, 1 + row * (rows - 1));
        ft_gov_draft(&c, true, 1, draft);
        ft_gov_draft(&c, false, 1, draft);
    }
    ft_gov_forget(&c);
    double s = 0;
    int tokens = 0;
    ft_rng r = {7};
    for (int i = 0; i < n; i++) {
        ft_governor g;
        ft_gov_init(&g, &c, false);
        for (int t = 0; t < length;) {
            const int most = choose_draft(&g, &c, FT_MIN(3, length - t - 1), 1);
            bool right[4], dropping = false;
            int k = 0, kept = 0;
            for (ft_gov_next next = FT_GOV_MORE; next == FT_GOV_MORE && k < most;) {
                const bool ahead = ft_rng_f64(&r) < 0.5;
                right[k] = ft_rng_f64(&r) < (ahead ? far : close);
                if (with_margins) next = ft_gov_drafted(&g, &c, ahead ? 4 : 0.2f, 1);
                dropping = next == FT_GOV_DROP;
                k += !dropping;
            }
            while (kept < k && right[kept]) kept++;
            const double time = step_time(&w, 1 + k, &r);
            ft_gov_trunk(&c, 1, 1 + k, time);
            for (int j = 0; j < k + dropping; j++) ft_gov_draft(&c, j == 0, 1, draft);
            if (dropping && kept == k) ft_gov_dropped(&g, &c, right[k]);
            ft_gov_accept(&g, &c, k, kept);
            s += time + (k + dropping) * draft;
            t += 1 + kept;
            tokens += 1 + kept;
        }
    }
    return tokens / s;
}

/* Whatever rows and draft passes cost, however few draft tokens are accepted, and however short
 * the responses are: drafting loses at most 1.5 %. And where it helps, it does so at once. */
static void short_responses(void **state)
{
    (void)state;
    static const double rows[] = {0, 0.02, 0.1, 0.2, 0.3, 0.5, 1};
    static const double passes[] = {0.05, 0.1, 0.2, 0.4};
    static const int lengths[] = {16, 32, 96};
    for (int i = 0; i < 7 * 4 * 3 * 10 * 4; i++) {
        const double row = rows[i % 7], draft = passes[i / 7 % 4];
        const int length = lengths[i / 28 % 3], kind = i / 840;
        const double accept = i / 84 % 10 * 0.1;
        const double far = kind & 2 ? FT_MIN(0.98, 1.5 * accept) : accept;
        const double close = kind & 2 ? 0.5 * accept : accept;
        const int n = 192 / length * (length == 16 ? 2 : 1) + 6;
        const double on = speed_of_short(row, draft, close, far, length, n, kind & 1);
        if (on < 0.985)
            fail_msg("row %.2f, pass %.2f, acceptance %.1f, %d tokens, kind %d: %.4f x off", row,
                     draft, accept, length, kind, on);
    }
    assert_true(speed_of_short(0.1, 0.1, 0.9, 0.9, 16, 20, true) > 1.5);
    assert_true(speed_of_short(0.1, 0.1, 0.9, 0.9, 16, 20, false) > 1.5);
    assert_true(speed_of_short(0.2, 0.1, 0.2, 0.98, 32, 20, true) > 1.1);
}

/* Trial drafts that keep failing become rarer. */
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
        const int k = choose_draft(&g, &c, 3, 1);
        tries[i / 2000] += k > 0;
        ft_gov_trunk(&c, 1, 1 + k, 1 + k);
        ft_gov_accept(&g, &c, k, 0);
    }
    assert_true(tries[0] >= 2);
    assert_true(tries[1] >= 1);
    assert_true(tries[1] < tries[0]);
}

/* Rows of many responses cost more than as many rows of one: those times do not keep the last
 * remaining response from drafting. */
static void one_of_many(void **state)
{
    (void)state;
    const world w = {1, 0.2, 0.1, 0.05, {0.8, 0.8, 0.8, 0.8}, 0, 0};
    ft_gov_costs c;
    ft_gov_costs_init(&c);
    speed(&w, 300, 3, -1, &c, 1);
    for (int rows = 1; rows <= 16; rows++)
        for (int i = 0; i < FT_GOV_SAMPLES; i++) ft_gov_trunk(&c, rows, rows, rows);
    ft_gov_costs unused = c;
    const double on = speed(&w, 200, 3, -1, &c, 2), off = speed(&w, 200, 3, 0, &unused, 2);
    if (on < 1.3 * off) fail_msg("%.3f governed, %.3f without", on, off);
}

/* Times of the first steps, measured while another program runs, do not count for long. */
static void slow_start(void **state)
{
    (void)state;
    const world slow = {6, 2.0, 1.0, 0.05, {0.8, 0.8, 0.8, 0.8}, 0, 0},
                w = {1, 0.2, 0.1, 0.05, {0.8, 0.8, 0.8, 0.8}, 0, 0};
    ft_gov_costs c;
    ft_gov_costs_init(&c);
    ft_governor g;
    ft_gov_init(&g, &c, false);
    ft_rng r = {1};
    for (int i = 0, k; i < 6; i++) {
        k = choose_draft(&g, &c, 3, 1);
        ft_gov_trunk(&c, 1, 1 + k, step_time(k ? &slow : &w, 1 + k, &r));
        for (int j = 0; j < k; j++) ft_gov_draft(&c, j == 0, 1, slow.draft);
        ft_gov_accept(&g, &c, k, k);
    }
    ft_gov_costs unused = c;
    speed(&w, 200, 3, -1, &c, 2);
    const double on = speed(&w, 300, 3, -1, &c, 2), off = speed(&w, 300, 3, 0, &unused, 2);
    if (on < 1.5 * off) fail_msg("%.3f governed, %.3f without", on, off);
}

/* Two responses that do not draft make trial drafts at times, but not when their heads would have
 * to process many tokens first. */
static void expensive_catch_up(void **state)
{
    (void)state;
    for (int dear = 0; dear < 2; dear++) {
        ft_gov_costs c;
        ft_governor g[2];
        int tries = 0;
        ft_gov_costs_init(&c);
        for (int j = 0; j < 3; j++) c.prior[j] = 0.05;
        for (int i = 0; i < FT_GOV_SAMPLES; i++) {
            for (int rows = 2; rows <= 8; rows++) ft_gov_trunk(&c, 2, rows, 1 + 0.2 * rows);
            for (int n = 1; n <= 2; n++) ft_gov_draft(&c, true, n, 0.1);
        }
        ft_gov_feed(&c, 100, dear ? 2 : 0.1);
        c.credit = 0.5;
        for (int i = 0; i < 2; i++) ft_gov_init(&g[i], &c, false);
        for (int at = 0; at < 1000; at++) {
            ft_gov_choice t[2] = {{&g[0], 3, 0, 0}, {&g[1], 3, 0, 0}};
            ft_gov_choose(t, 2, &c, 2);
            tries += t[0].k > 0;
            ft_gov_accept(&g[0], &c, t[0].k, 0);
        }
        assert_true(dear ? tries == 0 : tries > 1);
    }
}

/* The governor follows an acceptance rate that changes in the middle of a response. */
static void follows_changes(void **state)
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

/* What drafting may lose is a share of the time of those that draft: tokens of responses that may
 * not draft add nothing to it. */
static void credit_of_others(void **state)
{
    (void)state;
    ft_gov_costs c;
    ft_governor g;
    ft_gov_costs_init(&c);
    for (int max = 0; max < 2; max++) {
        const double before = c.credit;
        ft_gov_init(&g, &c, false);
        for (int i = 0; i < 100; i++) {
            choose_draft(&g, &c, max, 8);
            ft_gov_accept(&g, &c, 0, 0);
        }
        assert_true(max ? c.credit > before : c.credit == before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(never_loses),      cmocka_unit_test(many_responses),
        cmocka_unit_test(hopeless),         cmocka_unit_test(fewer_responses),
        cmocka_unit_test(margins),          cmocka_unit_test(backs_off),
        cmocka_unit_test(follows_changes),  cmocka_unit_test(some_of_many),
        cmocka_unit_test(one_of_many),      cmocka_unit_test(slow_start),
        cmocka_unit_test(different_limits), cmocka_unit_test(expensive_catch_up),
        cmocka_unit_test(short_responses),  cmocka_unit_test(credit_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
