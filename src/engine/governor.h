/* engine/governor.h - how many tokens to draft, chosen each round from what rounds really cost and
 * how often drafts were agreed to.
 *
 * A round with K drafts takes t(K + 1 rows) + d(K) seconds and yields 1 + a1 + a1 a2 + ... tokens,
 * a_j being the share of rounds that agreed to draft j after agreeing to all before it. The best K
 * is the one with the most tokens per second; none is a candidate like any other. Times are medians
 * of recent rounds with about as long a past, so one slow round changes nothing. A reply that does
 * not draft tries one draft now and then, to notice when it would pay again; seldom enough that the
 * tries cost little, whatever a try costs. One that drafts does without now and then, because the
 * machine may have become faster or slower since that was timed. */
#ifndef FT_ENGINE_GOVERNOR_H
#define FT_ENGINE_GOVERNOR_H

#include <stdbool.h>
#include <stdint.h>

enum {
    FT_GOV_DRAFTS = 15,
    FT_GOV_ROWS = 64,  /* steps of up to so many rows are told apart ... */
    FT_GOV_WIDE = 32,  /* ... and larger ones by so many */
    FT_GOV_SIZES = 96, /* classes of steps: up to 1,056 rows */
    FT_GOV_SAMPLES = 5,
    FT_GOV_PASTS = 6,  /* classes of pasts, each four times as long as the one before */
    FT_GOV_PROBE = 32, /* rounds without drafts between two tries, at least */
    FT_GOV_PLAIN = 64, /* rounds with drafts between two without, to time one again */
    FT_GOV_LEARN = 16, /* rounds of a reply at most that only learn what rounds cost */
};

typedef struct ft_gov_times {
    float sample[FT_GOV_SAMPLES];
    uint8_t n, at;
    int16_t rows; /* of the last sample */
} ft_gov_times;

/* What rounds cost: one for an engine. */
typedef struct ft_gov_costs {
    ft_gov_times trunk[FT_GOV_PASTS][FT_GOV_SIZES]; /* by past and rows of the step */
    ft_gov_times first[FT_GOV_SIZES];  /* the first draft pass of a round, by replies that draft */
    ft_gov_times next[FT_GOV_SIZES];   /* each further one */
    double prior[FT_GOV_DRAFTS];       /* acceptance of earlier replies, where new ones begin */
    double prior_guess[FT_GOV_DRAFTS]; /* the same for guessers */
    int past;                          /* class of this step */
    bool mixed;                        /* it read prompts too: it says nothing about costs */
    double behind; /* seconds for each token that a parked drafter has to read before a try */
} ft_gov_costs;

/* How one reply's drafts fare. */
typedef struct ft_governor {
    double accept[FT_GOV_DRAFTS]; /* a_j */
    int rounds;
    int parked, next_try; /* rounds without drafts, and at how many of them to try */
    int drafting;         /* rounds with drafts since the last without */
    int learning;         /* rounds that were chosen to learn what they cost */
    bool guess;           /* the drafts cost nothing to make */
    int k;                /* of the last choice */
} ft_governor;

void ft_gov_costs_init(ft_gov_costs *c);
/* A round begins: the cells that its replies see, all together; mixed: prompts are read in it too.
 */
void ft_gov_round(ft_gov_costs *c, int64_t cells, bool mixed);
void ft_gov_trunk(ft_gov_costs *c, int rows, double seconds);
void ft_gov_draft(ft_gov_costs *c, bool first, int replies, double seconds);
/* A drafter that was parked took so long to read the tokens it had missed. */
void ft_gov_behind(ft_gov_costs *c, int tokens, double seconds);

void ft_gov_init(ft_governor *g, const ft_gov_costs *c, bool guess);
/* A round that proposed n drafts and kept `kept` of them. */
void ft_gov_accept(ft_governor *g, ft_gov_costs *c, int n, int kept);
/* Drafts for the next round, at most max, when `lanes` replies run at once (each is taken to draft
 * as many). */
int ft_gov_choose(ft_governor *g, const ft_gov_costs *c, int max, int lanes);
#endif
