/* engine/governor.h - chooses how many tokens to draft in each step, from measured step times
 * and acceptance rates.
 * A step with K draft tokens takes t(K + 1 rows) + d(K) seconds and yields 1 + a1 + a1 a2 + ...
 * tokens, where a_j is the probability that draft token j is accepted given that all before it
 * were. The best K has the most tokens per second; K = 0 is a candidate like any other. With
 * several responses, those with the largest expected gain draft, as many as justify the draft
 * passes that they share. Times are the minimum of recent steps with a similar context length,
 * so that single slow steps do not matter. A response that is not drafting tries one draft token
 * from time to time, rarely enough that the trials cost little. A response that drafts skips
 * drafting from time to time, to measure plain steps again.
 * Where the drafter reports the margin between its two largest logits, that predicts acceptance
 * better than any average. The governor then decides token by token with the acceptance rate of
 * similar margins: a draft token is verified if its expected gain exceeds the time of its row,
 * and another is made if that is likely to hold for it too. A dropped draft token still counts
 * for the statistics: the token sampled in its place shows whether it was right. */
#ifndef FT_ENGINE_GOVERNOR_H
#define FT_ENGINE_GOVERNOR_H

#include "engine/governor_times.h"

enum {
    FT_GOV_MANY = 8,     /* above this many responses, costs are not measured for each class */
    FT_GOV_BATCHES = 6,  /* classes of batch size: a row costs less in a batch of one than of
                          * many */
    FT_GOV_CONTEXTS = 6, /* classes of context length, each four times the previous */
    FT_GOV_MARGINS = 6,  /* classes of logit margins */
};

/* Measured costs; one per engine. */
typedef struct ft_gov_costs {
    /* by number of responses, context length and rows of the step */
    ft_gov_times trunk[FT_GOV_BATCHES][FT_GOV_CONTEXTS][FT_GOV_SIZES];
    ft_gov_times first[FT_GOV_SIZES];     /* the first draft pass of a step, by number of drafting
                                           * responses */
    ft_gov_times next[FT_GOV_SIZES];      /* each further draft pass */
    double prior[FT_DRAFT_MAX];           /* acceptance rates of earlier responses, the start values
                                           * of new ones */
    double prior_ngram[FT_DRAFT_MAX];     /* the same for n-gram drafters */
    int context;                          /* context class of this step */
    unsigned steps;                       /* number of steps that were timed */
    bool mixed;                           /* the step also contains prompt rows: its time is not
                                           * used */
    bool fixed;                           /* a response has a fixed number of draft tokens: the
                                           * step is not charged */
    bool margins;                         /* the drafter reports margins */
    double margin_accept[FT_GOV_MARGINS]; /* acceptance rate by margin, the start values of new
                                           * responses */
    double share[FT_GOV_MARGINS];         /* share of draft tokens with such a margin */
    double plain;                         /* seconds of the last step if it had no draft tokens */
    double credit;     /* time that drafting may still lose, in plain steps; < 0: a debt */
    double overdraft;  /* and that a single response may lose beyond it at the start */
    double catch_up_s; /* seconds per token that a paused draft model has to read before a trial */
    double deferred_s; /* the same for an MTP head */
} ft_gov_costs;

/* Draft statistics of one response. */
typedef struct ft_governor {
    double accept[FT_DRAFT_MAX]; /* a_j */
    int steps;                   /* with draft tokens */
    int paused, next_try; /* steps without draft tokens, and after how many of them to try again */
    int drafting;         /* steps with draft tokens since the last plain one */
    bool was_paused;      /* it was paused at some time */
    int learning;         /* steps that were chosen to measure costs */
    int failed;           /* consecutive trials that did not lead to drafting */
    bool ngram;           /* draft tokens cost nothing to make */
    int k;                /* the last choice */
    int slots;            /* responses that ran then; 0: this one may not draft */
    /* With margins: */
    double margin_accept[FT_GOV_MARGINS], share[FT_GOV_MARGINS];
    int seen[FT_GOV_MARGINS];
    double token, row;            /* seconds that a token saves in this step, and that a row
                                   * costs */
    int made;                     /* draft tokens of this step so far, the last possibly
                                   * dropped; */
    uint8_t margin[FT_DRAFT_MAX]; /* the classes of their margins, */
    double reach;                 /* the probability that all of them are accepted, */
    double gain;                  /* and the seconds that one more is expected to save */
} ft_governor;

void ft_gov_costs_init(ft_gov_costs *c);
void ft_gov_forget(ft_gov_costs *c); /* all but the times */
/* Starts a step: the context positions that its responses attend to, in total; mixed: it also
 * contains prompt rows; fixed: some of its draft tokens were not chosen by a governor. */
void ft_gov_step(ft_gov_costs *c, int64_t cells, bool mixed, bool fixed);
void ft_gov_trunk(ft_gov_costs *c, int slots, int rows, double seconds);
void ft_gov_draft(ft_gov_costs *c, bool first, int responses, double seconds);
/* Time that a paused drafter took to read the tokens it had missed; that heads took for postponed
 * tokens; and that the first draft pass for n responses took together with postponed tokens. */
void ft_gov_catch_up(ft_gov_costs *c, int tokens, double seconds);
void ft_gov_feed(ft_gov_costs *c, int tokens, double seconds);
void ft_gov_draft_feed(ft_gov_costs *c, int n, int tokens, double seconds);

void ft_gov_init(ft_governor *g, const ft_gov_costs *c, bool ngram);
/* Records a step with n draft tokens, `kept` of them accepted. */
void ft_gov_accept(ft_governor *g, ft_gov_costs *c, int n, int kept);
/* One response in the next step: its maximum number of draft tokens, the chosen number, and the
 * tokens that its MTP head must read first. */
typedef struct ft_gov_choice {
    ft_governor *g;
    int max, k, behind;
} ft_gov_choice;

/* Chooses k for n responses that may draft, when `slots` responses run. Drafting responses share
 * the draft passes, so the choice is made for all of them together. */
void ft_gov_choose(ft_gov_choice *t, int n, const ft_gov_costs *c, int slots);

/* With margins, what happens to the draft token just made: drop it, keep it as the last, or make
 * another; g->gain is the time another would save if it cost nothing. */
typedef enum ft_gov_next { FT_GOV_DROP, FT_GOV_STOP, FT_GOV_MORE } ft_gov_next;
ft_gov_next ft_gov_drafted(ft_governor *g, ft_gov_costs *c, float margin, int slots);
/* Whether one more draft pass for n responses is worth its time; gain: the sum of their gains. */
bool ft_gov_pass_pays(const ft_gov_costs *c, double gain, int n);
/* Whether the token sampled in place of the dropped draft token was the same. Call before
 * ft_gov_accept. */
void ft_gov_dropped(ft_governor *g, ft_gov_costs *c, bool right);
#endif
