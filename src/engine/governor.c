#include "engine/governor.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

/* ---- costs ---- */

/* The class of steps of so many rows. */
static int size_of(int rows)
{
    const int wide = (FT_MAX(rows - FT_GOV_ROWS, 0) + FT_GOV_WIDE - 1) / FT_GOV_WIDE;
    return FT_MIN(FT_MIN(rows, FT_GOV_ROWS) + wide, FT_GOV_SIZES - 1);
}

static void put(ft_gov_times *table, int rows, double seconds)
{
    ft_gov_times *t = &table[size_of(rows)];
    t->sample[t->at] = (float)seconds;
    t->at = (uint8_t)((t->at + 1) % FT_GOV_SAMPLES);
    t->rows = (int16_t)FT_MIN(rows, INT16_MAX);
    if (t->n < FT_GOV_SAMPLES) t->n++;
}

/* The shortest of the samples: what disturbs a pass only makes it longer. */
static double least(const ft_gov_times *t)
{
    float s = t->n ? t->sample[0] : 0;
    for (int i = 1; i < t->n; i++) s = FT_MIN(s, t->sample[i]);
    return (double)s;
}

void ft_gov_costs_init(ft_gov_costs *c)
{
    *c = (ft_gov_costs){0};
    for (int j = 0; j < FT_GOV_DRAFTS; j++) c->prior[j] = c->prior_guess[j] = 0.7;
    static const double sure[FT_GOV_SURE] = {0.3, 0.4, 0.6, 0.8, 0.9, 0.95};
    memcpy(c->sure, sure, sizeof sure);
    for (int i = 0; i < FT_GOV_SURE; i++) c->share[i] = 1.0 / FT_GOV_SURE;
}

void ft_gov_round(ft_gov_costs *c, int64_t cells, bool mixed)
{
    c->mixed = mixed;
    c->past = 0;
    for (int64_t limit = 2048; cells >= limit && c->past < FT_GOV_PASTS - 1; limit *= 4) c->past++;
}

void ft_gov_trunk(ft_gov_costs *c, int rows, double seconds)
{
    put(c->trunk[c->past], rows, seconds);
    c->steps++;
}

void ft_gov_draft(ft_gov_costs *c, bool first, int replies, double seconds)
{
    put(first ? c->first : c->next, replies, seconds);
}

void ft_gov_behind(ft_gov_costs *c, int tokens, double seconds)
{
    c->behind = seconds / tokens;
}

/* Seconds of a pass of so many rows: measured, or on the line between its measured neighbours. */
static double time_of(const ft_gov_times *t, int rows)
{
    int lo = size_of(rows), hi = lo;
    while (lo > 0 && !t[lo].n) lo--;
    while (hi < FT_GOV_SIZES && !t[hi].n) hi++;
    if (lo == 0 && hi == FT_GOV_SIZES) return 0;
    if (lo == 0) return least(&t[hi]);
    const double a = least(&t[lo]);
    if (lo == hi) return a;
    if (hi == FT_GOV_SIZES) return a * (1 + 0.05 * (rows - t[lo].rows));
    return a + (least(&t[hi]) - a) * (rows - t[lo].rows) / (t[hi].rows - t[lo].rows);
}

/* Whether something from `lo` to `hi` rows was timed. */
static bool timed(const ft_gov_times *t, int lo, int hi)
{
    for (int i = size_of(lo), last = size_of(hi); i <= last; i++)
        if (t[i].n >= 3) return true;
    return false;
}

/* Whether the time of so many rows is known well enough: about as many were timed, or some on both
 * sides that are not far. Few rows must be timed themselves, they may cost nothing. */
static bool known(const ft_gov_times *t, int rows)
{
    if (timed(t, rows - rows / 8, rows + rows / 8)) return true;
    return rows > 8 && timed(t, rows / 2, rows) && timed(t, rows, 2 * rows);
}

/* Whether a step as large as the largest was timed. */
static bool most_known(const ft_gov_times *t, int max, int lanes)
{
    const int most = lanes * (1 + max);
    return timed(t, most - most / 8, INT16_MAX);
}

/* Both ends of the scale must be known before they can be compared: what lies between them is on
 * the line. */
static bool ends_known(const ft_gov_times *t, int max, int lanes)
{
    return known(t, lanes) && most_known(t, max, lanes);
}

/* Whether the time of a draft pass for so many replies is known well enough. With many replies it
 * is dear to find out, and lies on the line to that of more. */
static bool drafts_known(const ft_gov_times *t, int lanes)
{
    return known(t, lanes) || (lanes > FT_GOV_MANY && timed(t, lanes, INT16_MAX));
}

/* The nearest past, at most `far` classes away, of which that is known; else NULL. */
static const ft_gov_times *nearest(const ft_gov_costs *c, int max, int lanes, int far,
                                   bool (*is_known)(const ft_gov_times *, int, int))
{
    for (int d = 0; d < far; d++)
        for (int side = -1; side <= 1; side += 2) {
            const int p = c->past + side * d;
            if (p >= 0 && p < FT_GOV_PASTS && is_known(c->trunk[p], max, lanes)) return c->trunk[p];
        }
    return NULL;
}

/* Steps with about this past; or with a past a class away, before these are known. With many
 * replies, where it is dear to learn what steps cost, with any past, and be it that only the large
 * ones are known: what small ones cost is learned at no cost. */
static const ft_gov_times *steps_of(const ft_gov_costs *c, int max, int lanes)
{
    const bool many = lanes > FT_GOV_MANY;
    const ft_gov_times *t = nearest(c, max, lanes, many ? FT_GOV_PASTS : 2, ends_known);
    if (!t && many) t = nearest(c, max, lanes, FT_GOV_PASTS, most_known);
    return t ? t : c->trunk[c->past];
}

static double draft_time(const ft_gov_costs *c, int k, int lanes)
{
    if (k == 0) return 0;
    const double first = time_of(c->first, lanes), next = time_of(c->next, lanes);
    return first + (next > 0 ? next : first) * (k - 1);
}

/* ---- one reply ---- */

void ft_gov_init(ft_governor *g, const ft_gov_costs *c, bool guess)
{
    *g = (ft_governor){.guess = guess, .next_try = FT_GOV_PROBE};
    memcpy(g->accept, guess ? c->prior_guess : c->prior, sizeof g->accept);
    memcpy(g->sure, c->sure, sizeof g->sure);
    memcpy(g->share, c->share, sizeof g->share);
}

/* A draft of this class was agreed to, or not, after all before it were. What earlier replies
 * taught counts as a dozen rounds of this one. */
static void learn_margin(ft_governor *g, ft_gov_costs *c, int class, bool hit)
{
    const double w = FT_MAX(1.0 / 32, 1.0 / (++g->seen[class] + 12));
    g->sure[class] += w * (hit - g->sure[class]);
    c->sure[class] += (hit - c->sure[class]) / 64;
}

void ft_gov_dropped(ft_governor *g, ft_gov_costs *c, bool right)
{
    if (g->made > 0) learn_margin(g, c, g->margin[g->made - 1], right);
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
        if (j < g->made) learn_margin(g, c, g->margin[j], j < kept);
    }
    if (n) g->rounds++;
}

/* What a choice rests on. */
typedef struct choice {
    const ft_governor *g;
    const ft_gov_costs *c;
    const ft_gov_times *steps;
    int lanes;
} choice;

/* Tokens per second that k drafts promise; 0 when nothing is known yet. */
static double rate(const choice *o, int k)
{
    const double t =
        time_of(o->steps, o->lanes * (1 + k)) + (o->g->guess ? 0 : draft_time(o->c, k, o->lanes));
    if (t <= 0) return 0;
    double tokens = 1, reach = 1;
    for (int j = 0; j < k; j++) tokens += reach *= o->g->accept[j];
    return tokens / t;
}

/* Whether drafts would pay if all of them were agreed to. */
static bool could_pay(const choice *o, int max)
{
    const double none = time_of(o->steps, o->lanes);
    for (int k = 1; k <= max; k++) {
        const double drafts = o->g->guess ? 0 : draft_time(o->c, k, o->lanes);
        if (time_of(o->steps, o->lanes * (1 + k)) + drafts < none * (1 + k)) return true;
    }
    return false;
}

/* Parked: none, but a try when it is due. All tries together may cost half a percent, and what has
 * to be read for them one: a drafter that takes longer is not tried again in this reply. Tries that
 * keep failing become rare. Where no acceptance would make drafts pay, all replies try together and
 * seldom, only to see whether that is still so. loss: of a try, in rounds without drafts. */
static int park(ft_governor *g, const choice *o, int max, double loss)
{
    g->k = g->drafting = 0;
    g->was_parked = true;
    if (++g->parked < g->next_try) return 0;
    const unsigned again = o->lanes > FT_GOV_MANY ? FT_GOV_AGAIN_MANY : FT_GOV_AGAIN;
    if (o->c->steps % again && !could_pay(o, max)) return 0;
    if (o->c->behind * rate(o, 0) > 0.01) return 0;
    g->parked = 0;
    g->next_try = FT_MAX(FT_GOV_PROBE, (int)(FT_MIN(loss, 10.0) * 200)) << FT_MIN(g->failed, 3);
    g->failed++;
    return 1;
}

/* Drafts pay: best of them, but now and then none, to time that again: soon after the first of a
 * reply that did without, because a few slow rounds may have been why drafts seemed to pay. */
static int go_on(ft_governor *g, int best)
{
    g->parked = g->failed = 0;
    g->next_try = FT_GOV_PROBE;
    g->k = best;
    const int n = ++g->drafting;
    const bool soon = g->was_parked && n < FT_GOV_PLAIN && n > 1 && !(n & (n - 1));
    return soon || n % FT_GOV_PLAIN == 0 ? 0 : best;
}

/* Now and then one more or one less than the best, to time those again too. */
static int around(const ft_governor *g, int k, int max)
{
    const int turn = g->drafting % (2 * FT_GOV_PLAIN);
    if (turn == FT_GOV_PLAIN * 3 / 4) return FT_MIN(k + 1, max);
    if (turn == FT_GOV_PLAIN * 7 / 4) return FT_MAX(k - 1, 1);
    return k;
}

/* ---- with margins ---- */

/* Seconds that row number k of a reply adds to a round, for each of the replies. */
static double row_time(const choice *o, int k)
{
    const double more = time_of(o->steps, o->lanes * (1 + k)) - time_of(o->steps, o->lanes * k);
    return FT_MAX(0.0, more) / o->lanes;
}

/* What one more draft earns on average before it is made, when all before it are agreed to with
 * probability `reach`: its token, less its row, where that is more than nothing. *tokens, *rows:
 * what such a draft brings and costs. */
static double earns(const choice *o, double reach, double token, double row, double *tokens,
                    double *rows)
{
    const ft_governor *g = o->g;
    *tokens = *rows = 0;
    for (int i = 0; i < FT_GOV_SURE; i++) {
        if (reach * g->sure[i] * token <= row) continue;
        *tokens += g->share[i] * reach * g->sure[i];
        *rows += g->share[i] * row;
    }
    return *tokens * token - *rows;
}

/* With one draft a round, verified where that pays. A token is worth what it costs that way. */
static int choose_by_margin(ft_governor *g, const choice *o, int max)
{
    const double none = time_of(o->steps, o->lanes) / o->lanes, row = row_time(o, 1);
    const double draft = draft_time(o->c, 1, o->lanes) / o->lanes;
    double token = none, tokens, rows;
    for (int i = 0; i < 3; i++) {
        earns(o, 1, token, row, &tokens, &rows);
        token = FT_MIN(none, (none + draft + rows) / (1 + tokens));
    }
    g->token = token;
    if (token >= none * (g->k ? 1.0 : 0.99)) return park(g, o, max, draft / none);
    return go_on(g, max);
}

static int margin_class(float margin)
{
    static const float from[FT_GOV_SURE - 1] = {0.5f, 1, 2, 3.5f, 6};
    int i = 0;
    while (i < FT_GOV_SURE - 1 && margin >= from[i]) i++;
    return i;
}

ft_gov_next ft_gov_drafted(ft_governor *g, ft_gov_costs *c, float margin, int lanes)
{
    const int class = margin_class(margin), k = g->made + 1;
    for (int i = 0; i < FT_GOV_SURE; i++) {
        g->share[i] += ((i == class) - g->share[i]) / 32;
        c->share[i] += ((i == class) - c->share[i]) / 128;
    }
    g->margin[g->made++] = (uint8_t) class;
    g->reach *= g->sure[class];
    if (g->token <= 0) return FT_GOV_MORE; /* this round learns what drafts cost */
    const choice o = {g, c, steps_of(c, FT_MAX(1, g->k), lanes), lanes};
    if (g->reach * g->token <= row_time(&o, k)) return FT_GOV_DROP;
    double tokens, rows;
    const double gain = earns(&o, g->reach, g->token, row_time(&o, k + 1), &tokens, &rows);
    const double next = (draft_time(c, 2, lanes) - draft_time(c, 1, lanes)) / lanes;
    return gain > next ? FT_GOV_MORE : FT_GOV_STOP;
}

/* ---- the choice ---- */

/* What rounds cost must be learned first, the dear ones before the plain ones; not where prompts
 * are read beside. What others draft may keep a round from ever having just the rows that are
 * missing: after a while it must do. */
static bool learn(ft_governor *g, const choice *o, int max)
{
    const bool drafts = g->guess || drafts_known(o->c->first, o->lanes);
    if (drafts && ends_known(o->steps, max, o->lanes)) return false;
    if (g->learning >= FT_GOV_LEARN) return false;
    g->k = drafts && most_known(o->steps, max, o->lanes) ? 0 : max;
    if (o->c->mixed)
        g->k = 0;
    else
        g->learning++;
    return true;
}

int ft_gov_choose(ft_governor *g, const ft_gov_costs *c, int max, int lanes)
{
    g->made = 0;
    g->reach = 1;
    g->token = 0;
    if (max <= 0) return g->k = 0;
    const choice o = {g, c, steps_of(c, max, lanes), lanes};
    if (learn(g, &o, max)) return g->k;
    if (c->margins && !g->guess) return choose_by_margin(g, &o, max);
    int best = 0;
    double top = rate(&o, 0);
    for (int k = 1; k <= max; k++) {
        const double r = rate(&o, k) * (k == g->k ? 1.01 : 1.0);
        if (r <= top) continue;
        top = r;
        best = k;
    }
    const double none = rate(&o, 0), one = rate(&o, 1);
    return best ? around(g, go_on(g, best), max) : park(g, &o, max, one > 0 ? none / one - 1 : 0);
}
