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
    for (int j = 0; j < FT_DRAFT_MAX; j++) c->prior[j] = c->prior_guess[j] = 0.7;
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

static int crowd_of(int lanes)
{
    int i = 0;
    while (i < FT_GOV_CROWDS - 1 && 1 << i < lanes) i++;
    return i;
}

void ft_gov_trunk(ft_gov_costs *c, int lanes, int rows, double seconds)
{
    put(c->trunk[crowd_of(lanes)][c->past], rows, seconds);
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

void ft_gov_read(ft_gov_costs *c, int tokens, double seconds)
{
    c->put_off = seconds / tokens;
}

/* Seconds of a pass of so many rows: measured, or on the line between its measured neighbours;
 * below the least of them as if rows cost their share. */
static double time_of(const ft_gov_times *t, int rows)
{
    int lo = size_of(rows), hi = lo;
    while (lo > 0 && !t[lo].n) lo--;
    while (hi < FT_GOV_SIZES && !t[hi].n) hi++;
    if (lo == 0 && hi == FT_GOV_SIZES) return 0;
    if (lo == 0) return least(&t[hi]) * rows / t[hi].rows;
    const double a = least(&t[lo]);
    if (lo == hi) return a;
    if (hi == FT_GOV_SIZES) return a * (1 + 0.05 * (rows - t[lo].rows));
    return a + (least(&t[hi]) - a) * (rows - t[lo].rows) / (t[hi].rows - t[lo].rows);
}

/* The same where the number of rows is an average. */
static double time_about(const ft_gov_times *t, double rows)
{
    const int lo = (int)rows;
    const double a = time_of(t, lo);
    return rows > lo ? a + (rows - lo) * (time_of(t, lo + 1) - a) : a;
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

typedef bool known_fn(const ft_gov_times *t, int max, int lanes);

/* The nearest past, at most `far` classes away, of which that is known; else NULL. */
static const ft_gov_times *nearest(const ft_gov_costs *c, int crowd, int max, int lanes, int far,
                                   known_fn *is_known)
{
    for (int d = 0; d < far; d++)
        for (int side = -1; side <= 1; side += 2) {
            const int p = c->past + side * d;
            if (p < 0 || p >= FT_GOV_PASTS) continue;
            const ft_gov_times *t = c->trunk[crowd][p];
            if (is_known(t, max, lanes)) return t;
        }
    return NULL;
}

/* Steps of about as many replies with about this past; or with a past a class away, before these
 * are known. With many replies, where it is dear to learn what steps cost, with any past and any
 * number of replies, and be it that only the large ones are known: what small ones cost is learned
 * at no cost. */
static const ft_gov_times *steps_of(const ft_gov_costs *c, int max, int lanes)
{
    const int crowd = crowd_of(lanes);
    const bool many = lanes > FT_GOV_MANY;
    const ft_gov_times *t = nearest(c, crowd, max, lanes, many ? FT_GOV_PASTS : 2, ends_known);
    for (int i = FT_GOV_CROWDS - 1; !t && many && i > crowd_of(FT_GOV_MANY); i--)
        t = nearest(c, i, max, lanes, FT_GOV_PASTS, most_known);
    return t ? t : c->trunk[crowd][c->past];
}

/* Seconds of a draft pass for n replies: for fewer than were ever timed no less than for those. */
static double pass_time(const ft_gov_times *t, int n)
{
    int least_n = 1;
    while (least_n < FT_GOV_SIZES - 1 && !t[least_n].n) least_n++;
    return time_of(t, FT_MAX(n, least_n));
}

static double next_time(const ft_gov_costs *c, int n)
{
    const double next = pass_time(c->next, n);
    return next > 0 ? next : pass_time(c->first, n);
}

/* Seconds of k draft passes for n replies. */
static double draft_time(const ft_gov_costs *c, int k, int n)
{
    return k ? pass_time(c->first, n) + next_time(c, n) * (k - 1) : 0;
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
 * taught counts as a dozen drafts of this one, whose own are believed half at first: what a reply
 * begins with is not what it goes on with (dialogue 1.305 x off, believed whole 1.278). */
static void learn_margin(ft_governor *g, ft_gov_costs *c, int class, bool hit)
{
    g->seen[class]++;
    const double w = FT_MAX(1.0 / 32, 1.0 / (2 * g->seen[class] + 12));
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
    const ft_gov_costs *c;
    const ft_gov_times *steps;
    int lanes;
    bool guess; /* drafts cost nothing to make */
} choice;

static double making(const choice *o, int k, int n)
{
    return o->guess ? 0 : draft_time(o->c, k, n);
}

/* Tokens that k drafts of a reply add on average. */
static double adds(const ft_governor *g, int k)
{
    double sum = 0, reach = 1;
    for (int j = 0; j < k; j++) sum += reach *= g->accept[j];
    return sum;
}

/* Whether drafts of one reply or of all would pay if all of them were agreed to. */
static bool could_pay(const choice *o, int max)
{
    const double token = time_of(o->steps, o->lanes) / o->lanes;
    for (int k = 1; k <= max; k++)
        for (int n = 1;; n = o->lanes) {
            const int rows = o->lanes + n * k;
            if (time_of(o->steps, rows) + making(o, k, n) < token * rows) return true;
            if (n == o->lanes) break;
        }
    return false;
}

/* At times that become rare: what was timed when the machine was busy is timed again before long.
 */
static bool early(const ft_gov_costs *c)
{
    return c->steps >= 16 && !(c->steps & (c->steps - 1)) && !c->mixed;
}

/* Parked: none, but a try when it is due. All tries together may cost half a percent, and what has
 * to be read for them one: a drafter that takes longer is not tried again in this reply. The more
 * replies there are the seldomer each tries. Tries that keep failing become rare. Where no
 * acceptance would make drafts pay, all replies try together and seldom, only to see whether that
 * is still so. loss: of a try, in rounds without drafts. */
static int park(ft_governor *g, const choice *o, bool hopeless, double loss)
{
    g->k = g->drafting = 0;
    g->was_parked = true;
    const unsigned again = o->lanes > FT_GOV_MANY ? FT_GOV_AGAIN_MANY : FT_GOV_AGAIN;
    const bool due = ++g->parked >= g->next_try * FT_MIN(o->lanes, 16);
    if (hopeless ? !early(o->c) && (!due || o->c->steps % again) : !due) return 0;
    const double several = o->lanes > 1 ? o->c->put_off * o->lanes : 0;
    if (FT_MAX(o->c->behind, several) > 0.01 * time_of(o->steps, o->lanes)) return 0;
    g->parked = 0;
    g->next_try = FT_MAX(FT_GOV_PROBE, (int)(FT_MIN(loss, 10.0) * 200)) << FT_MIN(g->failed, 3);
    g->failed++;
    return 1;
}

/* Drafts pay: k of them. */
static void go_on(ft_governor *g, int k)
{
    g->parked = g->failed = 0;
    g->next_try = FT_GOV_PROBE;
    g->k = k;
    g->drafting++;
}

/* Now and then none, to time that again: soon after the first of a reply that did without, because
 * a few slow rounds may have been why drafts seemed to pay. */
static bool plain_now(const ft_governor *g)
{
    const int n = g->drafting;
    const bool soon = g->was_parked && n < FT_GOV_PLAIN && n > 1 && !(n & (n - 1));
    return soon || n % FT_GOV_PLAIN == 0;
}

/* Now and then one more or one less than the best, to time those again too; one more also soon
 * after the first, because the first steps of an engine were slow. */
static int around(const ft_governor *g, int k, int max)
{
    const int turn = g->drafting % (2 * FT_GOV_PLAIN);
    const bool soon = g->drafting == 6 || g->drafting == 20;
    if (soon || turn == FT_GOV_PLAIN * 3 / 4) return FT_MIN(k + 1, max);
    if (turn == FT_GOV_PLAIN * 7 / 4) return FT_MAX(k - 1, 1);
    return k;
}

/* ---- who drafts ---- */

enum { TOGETHER = 64 }; /* replies that are chosen from; others do without */

/* A reply that might draft: tokens that this adds and rows that it takes, on average. */
typedef struct candidate {
    int at; /* its turn */
    double tokens, rows;
    double worth; /* who has more comes first */
} candidate;

/* Who drafts in how many passes, and the seconds of a token then. */
typedef struct plan {
    int at[TOGETHER], n, passes;
    double rows; /* more than one for each reply */
    double token;
} plan;

static void sort(candidate *v, int n)
{
    for (int i = 1; i < n; i++) {
        const candidate x = v[i];
        int j = i;
        for (; j > 0 && v[j - 1].worth < x.worth; j--) v[j] = v[j - 1];
        v[j] = x;
    }
}

/* The plan becomes the best of the candidates, as many as make for the least time of a token with
 * so many passes, if that is less than it has. */
static void best_of(plan *p, const choice *o, candidate *v, int n, int passes)
{
    double tokens = o->lanes, rows = 0;
    int best = 0;
    sort(v, n);
    for (int m = 1; m <= n; m++) {
        tokens += v[m - 1].tokens;
        rows += v[m - 1].rows;
        const double step = time_about(o->steps, o->lanes + rows);
        const double token = (step + making(o, passes, m)) / tokens;
        if (token >= p->token) continue;
        p->token = token;
        p->rows = rows;
        best = m;
    }
    if (!best) return;
    p->passes = passes;
    p->n = best;
    for (int i = 0; i < best; i++) p->at[i] = v[i].at;
}

/* By what drafts of each reply were worth on average. */
static plan plan_by_average(const ft_gov_turn *t, const int *at, int n, const choice *o)
{
    plan best = {.token = time_of(o->steps, o->lanes) / o->lanes};
    int most = 0;
    for (int i = 0; i < n; i++) most = FT_MAX(most, t[at[i]].max);
    for (int k = 1; k <= most; k++) {
        candidate v[TOGETHER];
        bool last = false;
        for (int i = 0; i < n; i++) {
            const ft_gov_turn *x = &t[at[i]];
            const int rows = FT_MIN(k, x->max);
            v[i] = (candidate){at[i], adds(x->g, rows), rows, adds(x->g, rows) / rows};
            last = last || x->g->k == k;
        }
        plan p = {.token = (double)INFINITY};
        best_of(&p, o, v, n, k);
        p.token /= last ? 1.01 : 1.0;
        if (p.token < best.token) best = p;
    }
    return best;
}

/* ---- with margins ---- */

/* Seconds that row number k of a reply adds to a round, for each of the replies. */
static double row_time(const choice *o, int k)
{
    const double more = time_of(o->steps, o->lanes * (1 + k)) - time_of(o->steps, o->lanes * k);
    return FT_MAX(0.0, more) / o->lanes;
}

/* Seconds of each row that a plan adds: steps of a few rows more may cost as much as of many more.
 */
static double plan_row(const choice *o, const plan *p)
{
    const double none = time_of(o->steps, o->lanes);
    return FT_MAX(0.0, time_about(o->steps, o->lanes + p->rows) - none) / p->rows;
}

/* What one more draft earns on average before it is made, when all before it are agreed to with
 * probability `reach`: its token, less its row, where that is more than nothing. *tokens, *rows:
 * what such a draft brings and costs. */
static double earns(const ft_governor *g, double reach, double token, double row, double *tokens,
                    double *rows)
{
    *tokens = *rows = 0;
    for (int i = 0; i < FT_GOV_SURE; i++) {
        if (reach * g->sure[i] * token <= row) continue;
        *tokens += g->share[i] * reach * g->sure[i];
        *rows += g->share[i];
    }
    return *tokens * token - *rows * row;
}

/* With one draft each, verified where that pays. A token is worth what it costs that way. */
static plan plan_by_margin(const ft_gov_turn *t, const int *at, int n, const choice *o)
{
    const double none = time_of(o->steps, o->lanes) / o->lanes;
    double row = row_time(o, 1);
    plan p = {.token = none};
    for (int turn = 0; turn < 3; turn++) {
        candidate v[TOGETHER];
        const double token = p.token;
        p = (plan){.token = none};
        for (int i = 0; i < n; i++) {
            v[i].at = at[i];
            v[i].worth = earns(t[at[i]].g, 1, token, row, &v[i].tokens, &v[i].rows);
        }
        best_of(&p, o, v, n, 1);
        if (p.n) row = plan_row(o, &p);
    }
    return p;
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
    g->gain = (double)INFINITY;
    if (g->token <= 0) return FT_GOV_MORE; /* this round learns what drafts cost */
    const choice o = {c, steps_of(c, FT_MAX(1, g->k), lanes), lanes, false};
    if (g->reach * g->token <= (k == 1 ? g->row : row_time(&o, k))) return FT_GOV_DROP;
    double tokens, rows;
    g->gain = earns(g, g->reach, g->token, row_time(&o, k + 1), &tokens, &rows);
    return g->gain > 0 ? FT_GOV_MORE : FT_GOV_STOP;
}

bool ft_gov_pays(const ft_gov_costs *c, double gain, int n)
{
    return gain > next_time(c, n);
}

/* ---- the choice ---- */

/* What rounds cost must be learned first, the dear ones before the plain ones; not where prompts
 * are read beside. What others draft may keep a round from ever having just the rows that are
 * missing: after a while it must do. */
static bool learn(ft_governor *g, const choice *o, int max)
{
    const bool drafts = o->guess || drafts_known(o->c->first, o->lanes);
    if (drafts && ends_known(o->steps, max, o->lanes)) {
        const bool few = o->steps[size_of(o->lanes * (1 + max))].n < FT_GOV_SAMPLES;
        if (o->lanes > FT_GOV_MANY || !few || !early(o->c)) return false;
        g->k = max;
        return true;
    }
    if (g->learning >= FT_GOV_LEARN) return false;
    g->k = drafts && most_known(o->steps, max, o->lanes) ? 0 : max;
    if (o->c->mixed)
        g->k = 0;
    else
        g->learning++;
    return true;
}

/* Whether a plan is good enough. Times are the shortest ones, which flatters the many parts of a
 * round with drafts more than a plain step: with margins, where a plan also counts on drafts that
 * are dropped in time, several replies want a few percent, more to begin. */
static bool promises(const plan *p, const ft_gov_turn *t, const choice *o)
{
    const double none = time_of(o->steps, o->lanes) / o->lanes;
    bool drafted = false;
    if (!o->c->margins || o->guess) return p->token < none;
    for (int i = 0; i < p->n; i++) drafted = drafted || t[p->at[i]].g->k;
    const double one = drafted ? 1.0 : 0.99, many = drafted ? 0.96 : 0.94;
    return p->token < none * (o->lanes > 1 ? many : one);
}

/* The replies of the plan draft, the first of them decides when to do without; all others wait. */
static void carry_out(const plan *p, ft_gov_turn *t, const int *at, int n, const choice *o,
                      bool hopeless)
{
    const bool margins = o->c->margins && !o->guess;
    const double none = time_of(o->steps, o->lanes), making_one = making(o, 1, o->lanes);
    const double one = (time_of(o->steps, 2 * o->lanes) + making_one) / none;
    const double token = margins ? p->token : 0, row = p->n ? plan_row(o, p) : row_time(o, 1);
    bool in[TOGETHER] = {false}, led = false;
    int k = p->passes;
    for (int i = 0; i < p->n; i++)
        for (int j = 0; j < n; j++) in[j] = in[j] || at[j] == p->at[i];
    for (int i = 0; i < n; i++) {
        ft_gov_turn *x = &t[at[i]];
        x->g->token = token;
        x->g->row = row;
        if (!in[i]) {
            const double loss = margins ? making_one / none : one / (1 + x->g->accept[0]) - 1;
            x->k = park(x->g, o, hopeless, loss);
            continue;
        }
        go_on(x->g, margins ? x->max : p->passes);
        if (!led) k = plain_now(x->g) ? 0 : margins ? INT16_MAX : around(x->g, k, x->max);
        led = true;
        x->k = FT_MIN(k, x->max);
    }
}

void ft_gov_choose(ft_gov_turn *t, int n, const ft_gov_costs *c, int lanes)
{
    int at[TOGETHER], m = 0, max = 0, most = 0;
    choice o = {.c = c, .lanes = lanes};
    for (int i = 0; i < n; i++) {
        ft_governor *g = t[i].g;
        g->made = 0;
        g->reach = 1;
        g->token = 0;
        t[i].k = 0;
        if (t[i].max <= 0) {
            g->k = 0;
            continue;
        }
        o.guess = g->guess;
        if (t[i].max != max) o.steps = steps_of(c, max = t[i].max, lanes);
        if (learn(g, &o, max)) {
            t[i].k = g->k;
        } else if (m < TOGETHER) {
            at[m++] = i;
            most = FT_MAX(most, max);
        }
    }
    if (!m) return;
    o.steps = steps_of(c, most, lanes);
    const bool hopeless = !could_pay(&o, most);
    plan p = {.token = time_of(o.steps, lanes) / lanes};
    if (!hopeless)
        p = c->margins && !o.guess ? plan_by_margin(t, at, m, &o) : plan_by_average(t, at, m, &o);
    if (!promises(&p, t, &o)) p.n = 0;
    carry_out(&p, t, at, m, &o, hopeless);
}
