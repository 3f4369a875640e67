#include "engine/governor.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

/* All constants of the policy. */
static const struct {
    double prior;                          /* acceptance rate before anything is known */
    double margin_prior[FT_GOV_MARGINS];   /* the same by class of logit margin */
    float margin_from[FT_GOV_MARGINS - 1]; /* where the next class of margins begins */
    int context_first;                     /* first class of context length; each next is 4 x */
    double accept_window, accept_start; /* steps over which acceptance is averaged, and at first */
    double margin_window, margin_start; /* the same for each class of margins, in draft tokens */
    double prior_window, margin_prior_window; /* the same for the start values of new responses */
    int probe;             /* minimum plain steps between two trials of a response */
    int again, again_many; /* steps between two trials where drafting cannot be faster */
    int plain;             /* steps with draft tokens between two plain steps that are timed */
    int learn;             /* steps of a response at most that only measure costs */
    int trial_loss; /* plain steps per plain step that a trial costs: 200 is half a percent */
    double trial_loss_max;
    double catch_up;    /* maximum cost of catching up for a trial, as a share of a step */
    int trial_slots;    /* trials become rarer with the number of responses, up to this many */
    int failed_max;     /* failed trials that double the time until the next one */
    double switch_gain; /* gain that another number of draft tokens needs */
    double start_one, start_many; /* share of a plain step's time that a plan must beat to begin */
    double go_on_many;            /* and to continue, with several responses */
    double credit, credit_max;    /* plain steps that drafting may lose at first, and at most */
    double debt_max;              /* and the largest debt after a step that cost more */
    double overdraft;    /* how far a single response with one draft token per step may overdraw the
                          * credit, once, at the start */
    double credit_token; /* plain steps that every token adds to the credit: bounds the loss */
} tune = {
    .prior = 0.7,
    .margin_prior = {0.3, 0.4, 0.6, 0.8, 0.9, 0.95},
    .margin_from = {0.5F, 1, 2, 3.5F, 6},
    .context_first = 2048,
    .accept_window = 32,
    .accept_start = 4,
    .margin_window = 32,
    .margin_start = 12,
    .prior_window = 128,
    .margin_prior_window = 64,
    .probe = 32,
    .again = 512,
    .again_many = 2048,
    .plain = 64,
    .learn = 16,
    .trial_loss = 200,
    .trial_loss_max = 10,
    .catch_up = 0.01,
    .trial_slots = 16,
    .failed_max = 3,
    .switch_gain = 1.01,
    .start_one = 0.99,
    .start_many = 0.94,
    .go_on_many = 0.96,
    .credit = 0.5,
    .credit_max = 4,
    .debt_max = 4,
    .overdraft = 1.25,
    .credit_token = 0.005,
};

/* ---- costs ---- */

void ft_gov_costs_init(ft_gov_costs *c)
{
    *c = (ft_gov_costs){0};
    for (int j = 0; j < FT_DRAFT_MAX; j++) c->prior[j] = c->prior_ngram[j] = tune.prior;
    memcpy(c->margin_accept, tune.margin_prior, sizeof tune.margin_prior);
    for (int i = 0; i < FT_GOV_MARGINS; i++) c->share[i] = 1.0 / FT_GOV_MARGINS;
    c->credit = tune.credit;
    c->overdraft = tune.overdraft;
}

void ft_gov_forget(ft_gov_costs *c)
{
    ft_gov_costs fresh;
    ft_gov_costs_init(&fresh);
    memcpy(fresh.trunk, c->trunk, sizeof c->trunk);
    memcpy(fresh.first, c->first, sizeof c->first);
    memcpy(fresh.next, c->next, sizeof c->next);
    fresh.margins = c->margins;
    *c = fresh;
}

void ft_gov_step(ft_gov_costs *c, int64_t cells, bool mixed, bool fixed)
{
    c->mixed = mixed;
    c->fixed = fixed;
    c->context = 0;
    for (int64_t limit = tune.context_first; cells >= limit && c->context < FT_GOV_CONTEXTS - 1;
         limit *= 4)
        c->context++;
}

static int batch_class(int slots)
{
    int i = 0;
    while (i < FT_GOV_BATCHES - 1 && 1 << i < slots) i++;
    return i;
}

typedef bool suits_fn(const ft_gov_times *t, int slots);

static bool suits_plain(const ft_gov_times *t, int slots)
{
    return ft_times_known(t, slots);
}

static bool suits_slope(const ft_gov_times *t, int slots)
{
    (void)slots;
    return ft_times_slope(t) >= 0;
}

/* The table of the most similar number of responses and context that suits; NULL: none does. The
 * context matters less. */
static const ft_gov_times *similar(const ft_gov_costs *c, int slots, suits_fn *suits)
{
    const int batch = batch_class(slots);
    for (int far = 0; far < FT_GOV_BATCHES; far++)
        for (int side = -1; side <= 1; side += 2)
            for (int d = 0; d < 2 * FT_GOV_CONTEXTS; d++) {
                const int i = batch + side * far, p = c->context + (d % 2 ? -d / 2 - 1 : d / 2);
                if (i < 0 || i >= FT_GOV_BATCHES || p < 0 || p >= FT_GOV_CONTEXTS) continue;
                if (suits(c->trunk[i][p], slots)) return c->trunk[i][p];
            }
    return NULL;
}

/* The time of a step over its rows. Plain steps are measured at no cost; larger steps are
 * estimated until drafting has measured them: with the time that a row adds to similar steps. */
typedef struct curve {
    const ft_gov_times *t; /* NULL: plain steps are not known yet */
    int slots, most;       /* rows of the largest timed step */
    double plain, last;    /* seconds of a plain step, and of the largest timed one */
    double slope;          /* seconds per row beyond that; < 0: not known */
} curve;

static curve curve_of(const ft_gov_costs *c, int slots)
{
    curve k = {.t = similar(c, slots, suits_plain), .slots = slots, .slope = -1};
    if (!k.t) return k;
    k.plain = ft_times_of(k.t, slots);
    k.most = FT_MAX(slots, k.t[ft_times_last(k.t)].rows);
    k.last = ft_times_of(k.t, k.most);
    k.slope = ft_times_slope(k.t);
    if (k.slope < 0) {
        const ft_gov_times *other = similar(c, slots, suits_slope);
        if (other) k.slope = ft_times_slope(other);
    }
    return k;
}

/* Seconds of a step with this many rows, which may be an average. */
static double step_time(const curve *k, double rows)
{
    if (rows <= k->most) return ft_times_about(k->t, rows);
    return k->last + FT_MAX(0.0, k->slope) * (rows - k->most);
}

/* How much longer a plain step of `to` responses takes than one of `from`. */
static double plain_ratio(const ft_gov_costs *c, int from, int to)
{
    const ft_gov_times *a = similar(c, from, suits_plain), *b = similar(c, to, suits_plain);
    const ft_gov_times *slope = similar(c, from, suits_slope);
    if (!a || !(b || slope)) return (double)to / from;
    const double one = ft_times_of(a, from);
    const double all = b ? ft_times_of(b, to) : one + ft_times_slope(slope) * (to - from);
    return FT_MAX(1.0, all / one);
}

/* Seconds of a draft pass for n responses: measured or interpolated; for more than were ever timed
 * in proportion to the model itself, which calls the same kernels. */
static double pass_time(const ft_gov_costs *c, const ft_gov_times *t, int n)
{
    const int least_n = t[ft_times_first(t)].rows, most_n = t[ft_times_last(t)].rows;
    if (!ft_times_first(t)) return 0;
    if (n <= most_n) return ft_times_of(t, FT_MAX(n, least_n));
    return ft_times_of(t, most_n) * plain_ratio(c, most_n, n);
}

static double next_time(const ft_gov_costs *c, int n)
{
    const double next = pass_time(c, c->next, n);
    return next > 0 ? next : pass_time(c, c->first, n);
}

/* ---- credit ---- */

/* Drafting is paid from a credit that accepted tokens and, a little, all tokens add to, and that a
 * step does not overdraw by much: however wrong all estimates of acceptance are, drafting loses no
 * more than 0.5 % of the time and the credit of the start. Everything is charged: rows, draft
 * passes, and what a drafter reads before it drafts again.
 * The first draft tokens of an engine may be rejected by chance, and the credit of the start is
 * worth two of them. A single response may overdraw it, until that was used up or until the credit
 * has become as large: what it lost is paid back before the next trial, so that the bound remains.
 */
static void charge(ft_gov_costs *c, double seconds)
{
    if (c->mixed || c->fixed || !(c->plain > 0)) return;
    c->credit = FT_MAX(c->credit - FT_MAX(0.0, seconds) / c->plain, -tune.debt_max);
    if (c->credit + c->overdraft < tune.credit) c->overdraft = 0;
}

/* Responses that may not draft (slots is 0) add nothing: drafting would lose the time of others. */
static void earn(ft_gov_costs *c, int slots, int kept)
{
    if (c->mixed || c->fixed || !slots) return;
    const double sum = kept + tune.credit_token * (1 + kept);
    c->credit = FT_MIN(c->credit + sum / slots, tune.credit_max);
    if (c->credit >= tune.credit + tune.overdraft) c->overdraft = 0;
}

void ft_gov_trunk(ft_gov_costs *c, int slots, int rows, double seconds)
{
    ft_times_put(c->trunk[batch_class(slots)][c->context], rows, seconds);
    c->steps++;
    const ft_gov_times *plain = similar(c, slots, suits_plain);
    c->plain = plain ? ft_times_of(plain, slots) : 0;
    if (!plain || rows <= slots) return;
    const curve k = curve_of(c, slots);
    charge(c, step_time(&k, rows) - k.plain);
}

void ft_gov_draft(ft_gov_costs *c, bool first, int responses, double seconds)
{
    ft_gov_times *t = first ? c->first : c->next;
    ft_times_put(t, responses, seconds);
    charge(c, (double)t[ft_times_size(responses)].least);
}

void ft_gov_catch_up(ft_gov_costs *c, int tokens, double seconds)
{
    c->catch_up_s = seconds / tokens;
}

void ft_gov_feed(ft_gov_costs *c, int tokens, double seconds)
{
    c->deferred_s = seconds / tokens;
    charge(c, seconds);
}

void ft_gov_draft_feed(ft_gov_costs *c, int n, int tokens, double seconds)
{
    const ft_gov_times *t = &c->first[ft_times_size(n)];
    if (tokens > 0 && t->n) c->deferred_s = FT_MAX(0.0, seconds - (double)t->least) / tokens;
    charge(c, t->n ? (double)t->least + c->deferred_s * tokens : seconds);
}

/* ---- one response ---- */

void ft_gov_init(ft_governor *g, const ft_gov_costs *c, bool ngram)
{
    *g = (ft_governor){.ngram = ngram, .next_try = tune.probe};
    memcpy(g->accept, ngram ? c->prior_ngram : c->prior, sizeof g->accept);
    memcpy(g->margin_accept, c->margin_accept, sizeof g->margin_accept);
    memcpy(g->share, c->share, sizeof g->share);
}

/* Records whether a draft token of this margin class was accepted, given that all before it
 * were. Earlier responses count as a dozen draft tokens of this one, and the first tokens of a
 * response count half: its beginning is not representative (dialogue 1.305 x off; counted fully
 * 1.278). */
static void learn_margin(ft_governor *g, ft_gov_costs *c, int class, bool hit)
{
    g->seen[class]++;
    const double w = FT_MAX(1 / tune.margin_window, 1 / (2 * g->seen[class] + tune.margin_start));
    g->margin_accept[class] += w * (hit - g->margin_accept[class]);
    c->margin_accept[class] += (hit - c->margin_accept[class]) / tune.margin_prior_window;
}

void ft_gov_dropped(ft_governor *g, ft_gov_costs *c, bool right)
{
    if (g->made > 0) learn_margin(g, c, g->margin[g->made - 1], right);
}

void ft_gov_accept(ft_governor *g, ft_gov_costs *c, int n, int kept)
{
    earn(c, g->slots, kept);
    /* Adapts fast at first, then over about 32 steps; the prior over about 128. */
    const double w = FT_MAX(1 / tune.accept_window, 1 / (g->steps + tune.accept_start));
    double *prior = g->ngram ? c->prior_ngram : c->prior;
    for (int j = 0; j < n && j <= kept; j++) {
        const double hit = j < kept;
        g->accept[j] += w * (hit - g->accept[j]);
        prior[j] += (hit - prior[j]) / tune.prior_window;
        if (j < g->made) learn_margin(g, c, g->margin[j], j < kept);
    }
    if (n) g->steps++;
}

/* The inputs of a choice. */
typedef struct choice {
    const ft_gov_costs *c;
    curve k;
    int slots;
    double first, next; /* seconds of a draft pass for all responses */
    bool ngram;         /* draft tokens cost nothing to make */
    bool drafts;        /* draft passes were timed */
} choice;

static choice choice_of(const ft_gov_costs *c, int slots)
{
    return (choice){.c = c,
                    .k = curve_of(c, slots),
                    .slots = slots,
                    .first = pass_time(c, c->first, slots),
                    .next = next_time(c, slots),
                    .drafts = ft_times_any(c->first, 1, INT16_MAX)};
}

/* Seconds of a draft pass for n responses, between those that were timed and `all`, of all. */
static double pass_of(const choice *o, const ft_gov_times *t, double all, int n)
{
    const int most = t[ft_times_last(t)].rows;
    if (n >= o->slots) return all;
    if (n <= most) return pass_time(o->c, t, n);
    const double one = ft_times_of(t, most);
    return one + (all - one) * (n - most) / (o->slots - most);
}

/* Seconds of one draft pass for n responses. */
static double making_one(const choice *o, bool first, int n)
{
    if (o->ngram || !ft_times_first(o->c->first)) return 0;
    const bool next = !first && ft_times_first(o->c->next);
    return pass_of(o, next ? o->c->next : o->c->first, first ? o->first : o->next, n);
}

/* Seconds of k draft passes for n responses. */
static double making(const choice *o, int k, int n)
{
    if (!k) return 0;
    return making_one(o, true, n) + (k > 1 ? making_one(o, false, n) * (k - 1) : 0);
}

/* Tokens that k draft tokens of a response add on average. */
static double adds(const ft_governor *g, int k)
{
    double sum = 0, reach = 1;
    for (int j = 0; j < k; j++) sum += reach *= g->accept[j];
    return sum;
}

/* Whether drafting by one response or by all would be faster if every draft token were accepted. */
static bool could_pay(const choice *o, int max)
{
    const double token = o->k.plain / o->slots;
    for (int k = 1; k <= max; k++)
        for (int n = 1;; n = o->slots) {
            const int rows = o->slots + n * k;
            if (step_time(&o->k, rows) + making(o, k, n) < token * rows) return true;
            if (n == o->slots) break;
        }
    return false;
}

/* Lower bounds of the seconds that a further row adds to a plain step of up to `most` rows, and of
 * a draft pass for any number of responses. Times between timed sizes are interpolated, so that
 * these sizes suffice. */
static double cheapest_row(const choice *o, int most)
{
    const curve *k = &o->k;
    double row = most > k->most ? FT_MAX(0.0, k->slope) : (double)INFINITY;
    for (int i = k->t[ft_times_size(o->slots)].above; i; i = ft_times_next(k->t, i)) {
        const double more = (double)k->t[i].least - k->plain;
        const int rows = more < 0 ? ft_times_rows(k->t, i - 1) + 1 : ft_times_rows(k->t, i);
        if (rows > o->slots) row = FT_MIN(row, more / (rows - o->slots));
    }
    return row;
}

static double cheapest_pass(const choice *o, bool first)
{
    const ft_gov_times *t = first || !ft_times_first(o->c->next) ? o->c->first : o->c->next;
    double pass = making_one(o, first, o->slots);
    for (int i = ft_times_first(t); i && !o->ngram; i = ft_times_next(t, i))
        pass = FT_MIN(pass, (double)t[i].least);
    return pass;
}

/* False: drafting is not faster with the acceptance rates of these responses, even if all rows and
 * passes took as long as the cheapest ones. Most steps without draft tokens need no other plan. */
static bool may_pay(const ft_gov_choice *t, const int *at, int n, const choice *o, int max)
{
    const double token = o->k.plain / o->slots, row = cheapest_row(o, o->slots + n * max);
    double gain[FT_DRAFT_MAX] = {0};
    for (int i = 0; i < n; i++) {
        const ft_gov_choice *x = &t[at[i]];
        double tokens = 0, reach = 1, most = 0;
        for (int k = 0; k < max; k++) {
            if (k < x->max) {
                tokens += reach *= x->g->accept[k];
                most = FT_MAX(0.0, tokens * token - (k + 1) * row);
            }
            gain[k] += most;
        }
    }
    const double next = cheapest_pass(o, false);
    double passes = cheapest_pass(o, true);
    for (int k = 0; k < max; k++, passes += next)
        if (gain[k] > passes) return true;
    return false;
}

/* True at intervals that grow: costs measured while the machine was busy are soon measured
 * again. */
static bool early(const ft_gov_costs *c)
{
    return c->steps >= 16 && !(c->steps & (c->steps - 1)) && !c->mixed;
}

/* Whether a drafter that has paused takes too long to read what it missed. */
static bool slow_to_resume(const choice *o)
{
    const double several = o->slots > 1 ? o->c->deferred_s * o->slots : 0;
    return FT_MAX(o->c->catch_up_s, several) > tune.catch_up * o->k.plain;
}

/* Not drafting, except for a trial when it is due. All trials together may cost half a percent,
 * and catching up for them one percent: a drafter that takes longer is not tried again in this
 * response. With more responses each one tries more rarely, and trials that keep failing become
 * rare. Where drafting cannot be faster at any acceptance rate, all responses try together and
 * rarely, only to check that. loss: cost of a trial, in plain steps. */
static int pause_drafting(ft_governor *g, const choice *o, bool hopeless, double loss)
{
    g->k = g->drafting = 0;
    g->was_paused = true;
    const unsigned again = (unsigned)(o->slots > FT_GOV_MANY ? tune.again_many : tune.again);
    const bool due = ++g->paused >= g->next_try * FT_MIN(o->slots, tune.trial_slots);
    if (hopeless ? !early(o->c) && (!due || o->c->steps % again) : !due) return 0;
    if (slow_to_resume(o)) return 0;
    g->paused = 0;
    g->next_try = FT_MAX(tune.probe, (int)(FT_MIN(loss, tune.trial_loss_max) * tune.trial_loss))
                  << FT_MIN(g->failed, tune.failed_max);
    g->failed++;
    return 1;
}

/* Drafting is faster: k draft tokens. */
static void start_drafting(ft_governor *g, int k)
{
    g->paused = g->failed = 0;
    g->next_try = tune.probe;
    g->k = k;
    g->drafting++;
}

/* From time to time none, to time a plain step again; soon after the first steps of a response
 * that had paused, because a few slow steps may have made drafting look faster. */
static bool plain_now(const ft_governor *g)
{
    const int n = g->drafting;
    const bool soon = g->was_paused && n < tune.plain && n > 1 && !(n & (n - 1));
    return soon || n % tune.plain == 0;
}

/* From time to time one more or one less than the best, to time those again; one more also soon
 * after the start, because the first steps of an engine are slow. */
static int around(const ft_governor *g, int k, int max)
{
    const int at = g->drafting % (2 * tune.plain);
    const bool soon = g->drafting == 6 || g->drafting == 20;
    if (soon || at == tune.plain * 3 / 4) return FT_MIN(k + 1, max);
    if (at == tune.plain * 7 / 4) return FT_MAX(k - 1, 1);
    return k;
}

/* ---- which responses draft ---- */

enum { TOGETHER = 64 }; /* responses that are considered; others do not draft */

/* A response that might draft: the tokens that this adds and the rows that it takes, on average. */
typedef struct candidate {
    int at; /* its index in the choices */
    double tokens, rows;
    double worth; /* larger is chosen first */
} candidate;

/* Which responses draft in how many passes, and the resulting seconds per token. */
typedef struct plan {
    int at[TOGETHER], n, passes;
    double rows; /* rows beyond one per response */
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

/* Replaces the plan by the best set of candidates for this number of passes, if that needs less
 * time per token. passes_s[i]: seconds of the passes for i + 1 of them. */
static void best_of(plan *p, const choice *o, candidate *v, int n, int passes,
                    const double *passes_s)
{
    double tokens = o->slots, rows = 0;
    int best = 0;
    sort(v, n);
    for (int m = 1; m <= n; m++) {
        tokens += v[m - 1].tokens;
        rows += v[m - 1].rows;
        const double step = step_time(&o->k, o->slots + rows);
        const double token = (step + passes_s[m - 1]) / tokens;
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

/* By the average gain of each response. */
static plan plan_by_average(const ft_gov_choice *t, const int *at, int n, const choice *o, int max)
{
    plan best = {.token = o->k.plain / o->slots};
    double passes_s[TOGETHER] = {0};
    bool drafted = false;
    for (int i = 0; i < n; i++) drafted = drafted || t[at[i]].g->k;
    if (!drafted && !may_pay(t, at, n, o, max)) return best;
    for (int k = 1; k <= max; k++) {
        candidate v[TOGETHER];
        bool last = false;
        for (int i = 0; i < n; i++) {
            passes_s[i] += making_one(o, k == 1, i + 1);
            const ft_gov_choice *x = &t[at[i]];
            const int rows = FT_MIN(k, x->max);
            v[i] = (candidate){at[i], adds(x->g, rows), rows, adds(x->g, rows) / rows};
            last = last || x->g->k == k;
        }
        plan p = {.token = (double)INFINITY};
        best_of(&p, o, v, n, k, passes_s);
        p.token /= last ? tune.switch_gain : 1.0;
        if (p.token < best.token) best = p;
    }
    return best;
}

/* ---- with margins ---- */

/* Seconds that row k of a response adds to a step, per response. */
static double row_time(const choice *o, int k)
{
    const double more = step_time(&o->k, o->slots * (1 + k)) - step_time(&o->k, o->slots * k);
    return FT_MAX(0.0, more) / o->slots;
}

/* Seconds per row that a plan adds: a few more rows may cost as much as many more. */
static double plan_row(const choice *o, const plan *p)
{
    const double none = o->k.plain;
    return FT_MAX(0.0, step_time(&o->k, o->slots + p->rows) - none) / p->rows;
}

/* The expected gain of one more draft token before it is made, when all before it are accepted
 * with probability `reach`: its token minus its row, if positive. *tokens, *rows: what it adds
 * on average. */
static double earns(const ft_governor *g, double reach, double token, double row, double *tokens,
                    double *rows)
{
    *tokens = *rows = 0;
    for (int i = 0; i < FT_GOV_MARGINS; i++) {
        if (reach * g->margin_accept[i] * token <= row) continue;
        *tokens += g->share[i] * reach * g->margin_accept[i];
        *rows += g->share[i];
    }
    return *tokens * token - *rows * row;
}

/* One draft token each, verified if worthwhile. The value of a token is what it costs that way. */
static plan plan_by_margin(const ft_gov_choice *t, const int *at, int n, const choice *o)
{
    const double none = o->k.plain / o->slots;
    double row = row_time(o, 1), passes_s[TOGETHER];
    plan p = {.token = none};
    for (int i = 0; i < n; i++) passes_s[i] = making_one(o, true, i + 1);
    for (int turn = 0; turn < 3; turn++) {
        candidate v[TOGETHER];
        const double token = p.token;
        p = (plan){.token = none};
        for (int i = 0; i < n; i++) {
            v[i].at = at[i];
            v[i].worth = earns(t[at[i]].g, 1, token, row, &v[i].tokens, &v[i].rows);
        }
        best_of(&p, o, v, n, 1, passes_s);
        if (p.n) row = plan_row(o, &p);
    }
    return p;
}

static int margin_class(float margin)
{
    int i = 0;
    while (i < FT_GOV_MARGINS - 1 && margin >= tune.margin_from[i]) i++;
    return i;
}

ft_gov_next ft_gov_drafted(ft_governor *g, ft_gov_costs *c, float margin, int slots)
{
    const int class = margin_class(margin), k = g->made + 1;
    for (int i = 0; i < FT_GOV_MARGINS; i++) {
        g->share[i] += ((i == class) - g->share[i]) / 32;
        c->share[i] += ((i == class) - c->share[i]) / 128;
    }
    g->margin[g->made++] = (uint8_t) class;
    g->reach *= g->margin_accept[class];
    g->gain = (double)INFINITY;
    if (g->token <= 0) return FT_GOV_MORE; /* this step measures what drafting costs */
    const choice o = {.c = c, .k = curve_of(c, slots), .slots = slots};
    if (g->reach * g->token <= (k == 1 ? g->row : row_time(&o, k))) return FT_GOV_DROP;
    double tokens, rows;
    g->gain = earns(g, g->reach, g->token, row_time(&o, k + 1), &tokens, &rows);
    return g->gain > 0 ? FT_GOV_MORE : FT_GOV_STOP;
}

bool ft_gov_pass_pays(const ft_gov_costs *c, double gain, int n)
{
    return gain > next_time(c, n);
}

/* ---- the choice ---- */

/* Whether the credit covers the cheapest draft pass, as limit_to_credit demands it. */
static bool affordable(const choice *o)
{
    const double credit = o->c->credit;
    return credit >= tune.credit * 0.99 || credit >= cheapest_pass(o, true) / o->k.plain;
}

/* As many draft tokens per response as the credit covers if all of them are rejected. A single one
 * may cost more than the credit can ever be: the debt is paid back before the next one. */
static void limit_to_credit(ft_gov_choice *t, const int *at, int n, const choice *o)
{
    int most = 0;
    for (int i = 0; i < n; i++) most = FT_MAX(most, t[at[i]].k);
    for (; most > 0; most--) {
        int rows = 0, responses = 0;
        double behind = 0;
        for (int i = 0; i < n; i++) {
            const int k = FT_MIN(t[at[i]].k, most);
            rows += k;
            responses += k > 0;
            behind += k ? FT_MAX(0, t[at[i]].behind - 1) : 0;
        }
        const double more = FT_MAX(0.0, step_time(&o->k, o->slots + rows) - o->k.plain);
        const double read = o->ngram ? 0 : behind * o->c->deferred_s;
        const double cost = (more + making(o, most, responses) + read) / o->k.plain;
        const double credit = o->c->credit + (o->slots == 1 && most == 1 ? o->c->overdraft : 0);
        if (FT_MIN(cost, (most == 1 ? tune.credit : tune.credit_max) * 0.99) <= credit) break;
    }
    for (int i = 0; i < n; i++) t[at[i]].k = FT_MIN(t[at[i]].k, most);
}

/* Costs must be measured first: plain steps, and the largest steps and drafts of an engine that
 * has not timed any. Not in steps with prompt rows. */
static bool learn(ft_governor *g, const choice *o, int max)
{
    const bool drafts = o->ngram || o->drafts;
    if (o->k.t && (g->learning >= tune.learn || (drafts && o->k.slope >= 0))) return false;
    const ft_gov_times *now = o->c->trunk[batch_class(o->slots)][o->c->context];
    const bool rows = similar(o->c, o->slots, suits_slope) != NULL ||
                      ft_times_any(now, o->slots * (1 + max), INT16_MAX);
    g->k = (drafts && rows) || o->c->mixed || g->learning >= tune.learn ? 0 : max;
    if (!o->c->mixed) g->learning++;
    return true;
}

/* The largest step is timed again at times until it has enough samples: the first ones may have
 * been slow. */
static bool time_again(const choice *o, int max)
{
    const ft_gov_times *t = &o->k.t[ft_times_size(o->slots * (1 + max))];
    return o->slots == 1 && t->n < FT_GOV_SAMPLES && early(o->c) && !slow_to_resume(o);
}

/* Whether a plan is good enough. Times are minima, which favours the many parts of a step with
 * drafting: with margins, where a plan also counts on dropped draft tokens, several responses
 * need a gain of a few percent, more to begin. */
static bool promises(const plan *p, const ft_gov_choice *t, const choice *o)
{
    const double none = o->k.plain / o->slots;
    bool drafted = false;
    if (!o->c->margins || o->ngram) return p->token < none;
    for (int i = 0; i < p->n; i++) drafted = drafted || t[p->at[i]].g->k;
    const double one = drafted ? 1.0 : tune.start_one;
    const double many = drafted ? tune.go_on_many : tune.start_many;
    return p->token < none * (o->slots > 1 ? many : one);
}

/* The responses of the plan draft; the first of them decides when to run a plain step; all
 * others do not draft. */
static void carry_out(const plan *p, ft_gov_choice *t, const int *at, int n, const choice *o,
                      bool hopeless)
{
    const bool margins = o->c->margins && !o->ngram;
    const double none = o->k.plain, pass = making_one(o, true, o->slots);
    const double one = (step_time(&o->k, 2 * o->slots) + pass) / none;
    const double token = margins ? p->token : 0, row = p->n ? plan_row(o, p) : row_time(o, 1);
    bool led = false;
    int k = p->passes;
    for (int i = 0; i < p->n; i++) t[p->at[i]].k = 1;
    for (int i = 0; i < n; i++) {
        ft_gov_choice *x = &t[at[i]];
        x->g->token = token;
        x->g->row = row;
        if (!x->k) {
            const double loss = margins ? pass / none : one / (1 + x->g->accept[0]) - 1;
            x->k = pause_drafting(x->g, o, hopeless, loss);
            continue;
        }
        start_drafting(x->g, margins ? x->max : p->passes);
        if (!led) k = plain_now(x->g) ? 0 : margins ? INT16_MAX : around(x->g, k, x->max);
        led = true;
        x->k = FT_MIN(k, x->max);
    }
}

void ft_gov_choose(ft_gov_choice *t, int n, const ft_gov_costs *c, int slots)
{
    int at[TOGETHER], m = 0, most = 0;
    choice o = choice_of(c, slots);
    for (int i = 0; i < n; i++) {
        ft_governor *g = t[i].g;
        g->made = 0;
        g->reach = 1;
        g->token = 0;
        g->slots = t[i].max > 0 ? slots : 0;
        t[i].k = 0;
        if (!g->slots) {
            g->k = 0;
            continue;
        }
        o.ngram = g->ngram;
        if (learn(g, &o, t[i].max)) {
            t[i].k = g->k;
        } else if (m < TOGETHER) {
            at[m++] = i;
            most = FT_MAX(most, t[i].max);
        }
    }
    if (!m || (m > 1 && !affordable(&o))) return;
    if (time_again(&o, most)) {
        for (int i = 0; i < m; i++) t[at[i]].k = t[at[i]].g->k = t[at[i]].max;
    } else {
        const bool hopeless = !could_pay(&o, most);
        plan p = {.token = o.k.plain / slots};
        if (!hopeless)
            p = c->margins && !o.ngram ? plan_by_margin(t, at, m, &o)
                                       : plan_by_average(t, at, m, &o, most);
        if (!promises(&p, t, &o)) p.n = 0;
        carry_out(&p, t, at, m, &o, hopeless);
    }
    limit_to_credit(t, at, m, &o);
}
