#include "engine/governor.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- costs ---- */

static void put(ft_gov_times *t, double seconds)
{
    t->sample[t->at] = (float)seconds;
    t->at = (uint8_t)((t->at + 1) % FT_GOV_SAMPLES);
    if (t->n < FT_GOV_SAMPLES) t->n++;
}

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double median(const ft_gov_times *t)
{
    if (!t->n) return 0;
    float s[FT_GOV_SAMPLES];
    memcpy(s, t->sample, sizeof *s * t->n);
    qsort(s, t->n, sizeof *s, by_value);
    return (double)s[t->n / 2];
}

void ft_gov_costs_init(ft_gov_costs *c)
{
    *c = (ft_gov_costs){0};
    for (int j = 0; j < FT_GOV_DRAFTS; j++) c->prior[j] = c->prior_guess[j] = 0.7;
}

void ft_gov_past(ft_gov_costs *c, int64_t cells)
{
    c->past = 0;
    for (int64_t limit = 2048; cells >= limit && c->past < FT_GOV_PASTS - 1; limit *= 4) c->past++;
}

void ft_gov_trunk(ft_gov_costs *c, int rows, double seconds)
{
    put(&c->trunk[c->past][FT_MIN(rows, FT_GOV_ROWS)], seconds);
}

void ft_gov_draft(ft_gov_costs *c, int drafts, double seconds)
{
    put(&c->draft[FT_MIN(drafts, FT_GOV_DRAFTS)], seconds);
}

void ft_gov_behind(ft_gov_costs *c, int tokens, double seconds)
{
    c->behind = seconds / tokens;
}

/* Seconds of a step of so many rows: measured, or on the line between its measured neighbours. */
static double trunk_time(const ft_gov_costs *c, int rows)
{
    const ft_gov_times *t = c->trunk[c->past];
    rows = FT_MIN(rows, FT_GOV_ROWS);
    int lo = rows, hi = rows;
    while (lo > 0 && !t[lo].n) lo--;
    while (hi <= FT_GOV_ROWS && !t[hi].n) hi++;
    if (lo == 0 && hi > FT_GOV_ROWS) return 0;
    if (lo == 0) return median(&t[hi]);
    if (hi > FT_GOV_ROWS) return median(&t[lo]) * (1 + 0.05 * (rows - lo));
    if (lo == hi) return median(&t[lo]);
    const double a = median(&t[lo]), b = median(&t[hi]);
    return a + (b - a) * (rows - lo) / (hi - lo);
}

/* The same for k drafts; beyond what was measured each takes as long as the others. */
static double draft_time(const ft_gov_costs *c, int k)
{
    const ft_gov_times *t = c->draft;
    int lo = k, hi = k;
    while (lo > 0 && !t[lo].n) lo--;
    while (hi <= FT_GOV_DRAFTS && !t[hi].n) hi++;
    if (hi > FT_GOV_DRAFTS) return lo ? median(&t[lo]) * k / lo : 0;
    const double b = median(&t[hi]);
    if (lo == 0) return b * k / hi;
    const double a = median(&t[lo]);
    return lo == hi ? a : a + (b - a) * (k - lo) / (hi - lo);
}

/* ---- one reply ---- */

void ft_gov_init(ft_governor *g, const ft_gov_costs *c, bool guess)
{
    *g = (ft_governor){.guess = guess, .next_try = FT_GOV_PROBE};
    memcpy(g->accept, guess ? c->prior_guess : c->prior, sizeof g->accept);
}

void ft_gov_accept(ft_governor *g, ft_gov_costs *c, int n, int kept)
{
    /* Fast at first, then over about 32 rounds; the prior follows over about 128. */
    const double w = FT_MAX(1.0 / 32, 1.0 / (g->rounds + 4));
    double *prior = g->guess ? c->prior_guess : c->prior;
    for (int j = 0; j < n && j <= kept; j++) {
        const double hit = j < kept;
        g->accept[j] += w * (hit - g->accept[j]);
        prior[j] += (hit - prior[j]) / 128;
    }
    if (n) g->rounds++;
}

double ft_gov_rate(const ft_governor *g, const ft_gov_costs *c, int k, int lanes)
{
    const double t = trunk_time(c, lanes * (1 + k)) + (g->guess ? 0 : draft_time(c, k));
    if (t <= 0) return 0;
    double tokens = 1, reach = 1;
    for (int j = 0; j < k; j++) tokens += reach *= g->accept[j];
    return tokens / t;
}

static bool timed(const ft_gov_costs *c, int rows)
{
    return c->trunk[c->past][FT_MIN(rows, FT_GOV_ROWS)].n >= 3;
}

static bool draft_timed(const ft_gov_costs *c)
{
    int n = 0;
    for (int k = 1; k <= FT_GOV_DRAFTS; k++) n += c->draft[k].n;
    return n >= 3;
}

/* Parked: none, but a try when it is due. All tries together may cost half a percent, and what has
 * to be read for them one: a drafter that takes longer is not tried again in this reply. */
static int park(ft_governor *g, const ft_gov_costs *c, int lanes)
{
    g->k = 0;
    if (++g->parked < g->next_try) return 0;
    const double none = ft_gov_rate(g, c, 0, lanes), one = ft_gov_rate(g, c, 1, lanes);
    if (c->behind * none > 0.01) return 0;
    const double loss = one > 0 ? FT_MIN(none / one - 1, 10.0) : 0;
    g->parked = 0;
    g->next_try = FT_MAX(FT_GOV_PROBE, (int)(loss * 200));
    return 1;
}

int ft_gov_choose(ft_governor *g, const ft_gov_costs *c, int max, int lanes)
{
    if (max <= 0) return g->k = 0;
    /* Both ends of the scale must have been timed before they can be compared. */
    if ((!g->guess && !draft_timed(c)) || !timed(c, lanes * (1 + max))) return g->k = max;
    if (!timed(c, lanes)) return g->k = 0;
    int best = 0;
    double top = ft_gov_rate(g, c, 0, lanes);
    for (int k = 1; k <= max; k++) {
        const double rate = ft_gov_rate(g, c, k, lanes) * (k == g->k ? 1.01 : 1.0);
        if (rate <= top) continue;
        top = rate;
        best = k;
    }
    if (best == 0) return park(g, c, lanes);
    g->parked = 0;
    g->next_try = FT_GOV_PROBE;
    g->k = best;
    g->drafting = (g->drafting + 1) % FT_GOV_PLAIN;
    return g->drafting ? best : 0;
}
