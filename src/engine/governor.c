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
    for (int j = 0; j < FT_GOV_DRAFTS; j++) c->prior[j] = 0.7;
}

void ft_gov_trunk(ft_gov_costs *c, int rows, double seconds)
{
    put(&c->trunk[FT_MIN(rows, FT_GOV_ROWS)], seconds);
}

void ft_gov_draft(ft_gov_costs *c, bool first, double seconds)
{
    put(first ? &c->first : &c->next, seconds);
}

/* Seconds of a step of so many rows: measured, or on the line between its measured neighbours. */
static double trunk_time(const ft_gov_costs *c, int rows)
{
    rows = FT_MIN(rows, FT_GOV_ROWS);
    int lo = rows, hi = rows;
    while (lo > 0 && !c->trunk[lo].n) lo--;
    while (hi <= FT_GOV_ROWS && !c->trunk[hi].n) hi++;
    if (lo == 0 && hi > FT_GOV_ROWS) return 0;
    if (lo == 0) return median(&c->trunk[hi]);
    if (hi > FT_GOV_ROWS) return median(&c->trunk[lo]) * (1 + 0.05 * (rows - lo));
    if (lo == hi) return median(&c->trunk[lo]);
    const double a = median(&c->trunk[lo]), b = median(&c->trunk[hi]);
    return a + (b - a) * (rows - lo) / (hi - lo);
}

static double draft_time(const ft_gov_costs *c, int k)
{
    if (k == 0) return 0;
    const double first = median(&c->first), next = c->next.n ? median(&c->next) : first;
    return first + next * (k - 1);
}

/* ---- one reply ---- */

void ft_gov_init(ft_governor *g, const ft_gov_costs *c)
{
    *g = (ft_governor){0};
    for (int j = 0; j < FT_GOV_DRAFTS; j++) g->accept[j] = c->prior[j];
}

void ft_gov_accept(ft_governor *g, ft_gov_costs *c, int n, int kept)
{
    /* Fast at first, then over about 32 rounds; the prior follows over about 512. */
    const double w = FT_MAX(1.0 / 32, 1.0 / (g->rounds + 4));
    for (int j = 0; j < n && j <= kept; j++) {
        const double hit = j < kept;
        g->accept[j] += w * (hit - g->accept[j]);
        c->prior[j] += (hit - c->prior[j]) / 512;
    }
    if (n) g->rounds++;
}

double ft_gov_rate(const ft_governor *g, const ft_gov_costs *c, int k, int lanes, bool guess)
{
    const double t = trunk_time(c, lanes * (1 + k)) + (guess ? 0 : draft_time(c, k));
    if (t <= 0) return 0;
    double tokens = 1, reach = 1;
    for (int j = 0; j < k; j++) tokens += reach *= g->accept[j];
    return tokens / t;
}

static bool timed(const ft_gov_costs *c, int rows)
{
    return c->trunk[FT_MIN(rows, FT_GOV_ROWS)].n >= 3;
}

int ft_gov_choose(ft_governor *g, const ft_gov_costs *c, int max, int lanes, bool guess)
{
    if (max <= 0) return g->k = 0;
    /* Both ends of the scale must have been timed before they can be compared. */
    if ((!guess && c->first.n < 3) || !timed(c, lanes * (1 + max))) return g->k = max;
    if (!timed(c, lanes)) return g->k = 0;
    int best = 0;
    double top = ft_gov_rate(g, c, 0, lanes, guess);
    for (int k = 1; k <= max; k++) {
        const double rate = ft_gov_rate(g, c, k, lanes, guess) * (k == g->k ? 1.01 : 1.0);
        if (rate <= top) continue;
        top = rate;
        best = k;
    }
    if (best > 0) {
        g->parked = 0;
        return g->k = best;
    }
    g->k = 0;
    return ++g->parked % FT_GOV_PROBE == 0 ? 1 : 0;
}
