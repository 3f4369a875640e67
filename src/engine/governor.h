/* engine/governor.h - how many tokens to draft, chosen each step from what steps really cost and
 * how often drafts were accepted.
 *
 * A step with K drafts takes t(K + 1 rows) + d(K) seconds and yields 1 + a1 + a1 a2 + ... tokens,
 * a_j being the share of steps that accepted draft j after agreeing to all before it. The best K
 * is the one with the most tokens per second; none is a candidate like any other. Of several
 * responses those draft that add most, as many of them as are worth the passes they share. Times
 * are the shortest of recent steps with about as long a context, so slow steps change nothing. A
 * response that does not draft tries one draft now and then, to notice when it would pay again;
 * seldom enough that the tries cost little, whatever a try costs. One that drafts does without now
 * and then, because the machine may have become faster or slower since that was timed.
 *
 * Where a drafter says how far its best token is ahead of the next (the margin of two logits), that
 * tells more than any average: drafts far ahead are nearly always accepted, close ones seldom.
 * Then the governor decides draft by draft, with the acceptance of drafts of about this margin: a
 * draft is verified if it earns more time than its row takes, and another is made if one that earns
 * its row and its making is likely. A draft that was dropped still teaches: the token drawn in its
 * place shows whether it was right. */
#ifndef FT_ENGINE_GOVERNOR_H
#define FT_ENGINE_GOVERNOR_H

#include <stdbool.h>
#include <stdint.h>

enum {
    FT_GOV_DRAFTS = 15,
    FT_GOV_ROWS = 64,  /* steps of up to so many rows are told apart ... */
    FT_GOV_WIDE = 32,  /* ... and larger ones by so many */
    FT_GOV_SIZES = 96, /* classes of steps: up to 1,056 rows */
    FT_GOV_SAMPLES = 8,
    FT_GOV_BATCHES = 6,  /* classes of responses at once: rows of one cost less than rows of many */
    FT_GOV_CONTEXTS = 6, /* classes of pasts, each four times as long as the one before */
    FT_GOV_MANY = 8,     /* with more responses costs are not learned for each class */
    FT_GOV_PROBE = 32,   /* steps without drafts between two tries, at least */
    FT_GOV_AGAIN = 512,  /* steps between two tries where drafts cannot pay; ... */
    FT_GOV_AGAIN_MANY = 2048, /* ... of many responses, which all try at once */
    FT_GOV_PLAIN = 64,        /* steps with drafts between two without, to time one again */
    FT_GOV_LEARN = 16,        /* steps of a response at most that only learn what steps cost */
    FT_GOV_MARGINS = 6,       /* classes of margins */
};

typedef struct ft_gov_times {
    float sample[FT_GOV_SAMPLES];
    uint8_t n, at;
    int16_t rows; /* of the last sample */
} ft_gov_times;

/* What steps cost: one for an engine. */
typedef struct ft_gov_costs {
    /* by responses at once, context and rows of the step */
    ft_gov_times trunk[FT_GOV_BATCHES][FT_GOV_CONTEXTS][FT_GOV_SIZES];
    ft_gov_times first[FT_GOV_SIZES];  /* the first draft pass of a step, by responses that draft */
    ft_gov_times next[FT_GOV_SIZES];   /* each further one */
    double prior[FT_GOV_DRAFTS];       /* acceptance of earlier responses, where new ones begin */
    double prior_ngram[FT_GOV_DRAFTS]; /* the same for n-gram drafters */
    int context;                       /* class of this step */
    unsigned steps;                    /* that were timed */
    bool mixed;                        /* it read prompts too: it says nothing about costs */
    bool margins;                      /* the drafter tells them */
    double margin_accept[FT_GOV_MARGINS]; /* acceptance by margin: where new responses begin */
    double share[FT_GOV_MARGINS];         /* how many drafts have such a margin */
    double
        catch_up_s; /* seconds for each token that a swapped out drafter has to read before a try */
    double deferred_s; /* the same for a head of several responses: what it put off */
} ft_gov_costs;

/* How one response's drafts fare. */
typedef struct ft_governor {
    double accept[FT_GOV_DRAFTS]; /* a_j */
    int rounds;
    int paused, next_try; /* steps without drafts, and at how many of them to try */
    int drafting;         /* steps with drafts since the last without */
    bool was_paused;      /* it did without at some time */
    int learning;         /* steps that were chosen to learn what they cost */
    int failed;           /* tries in a row that did not lead to drafts */
    bool ngram;           /* the drafts cost nothing to make */
    int k;                /* of the last choice */
    /* With margins: */
    double margin_accept[FT_GOV_MARGINS], share[FT_GOV_MARGINS];
    int seen[FT_GOV_MARGINS];
    double token, row;             /* seconds that a token is worth in this step, and a row */
    int made;                      /* drafts of this step so far, the last perhaps dropped; */
    uint8_t margin[FT_GOV_DRAFTS]; /* the classes of their margins, */
    double reach;                  /* and how likely it is that all of them are accepted */
    double gain;                   /* seconds that one more is likely to save */
} ft_governor;

void ft_gov_costs_init(ft_gov_costs *c);
/* A step begins: the cells that its responses see, all together; mixed: prompts are read in it too.
 */
void ft_gov_round(ft_gov_costs *c, int64_t cells, bool mixed);
void ft_gov_trunk(ft_gov_costs *c, int slots, int rows, double seconds);
void ft_gov_draft(ft_gov_costs *c, bool first, int responses, double seconds);
/* A drafter that was swapped out took so long to read the tokens it had missed; or heads those that
 * they had put off. */
void ft_gov_catch_up(ft_gov_costs *c, int tokens, double seconds);
void ft_gov_feed(ft_gov_costs *c, int tokens, double seconds);

void ft_gov_init(ft_governor *g, const ft_gov_costs *c, bool ngram);
/* A step that proposed n drafts and kept `kept` of them. */
void ft_gov_accept(ft_governor *g, ft_gov_costs *c, int n, int kept);
/* One response's part in the next step: drafts that it may make at most, and that it shall. */
typedef struct ft_gov_choice {
    ft_governor *g;
    int max, k;
} ft_gov_choice;

/* Chooses k for n responses that draft together, when `slots` responses run at once: who drafts
 * shares the passes that make drafts, so it is decided for all of them. */
void ft_gov_choose(ft_gov_choice *t, int n, const ft_gov_costs *c, int slots);

/* With margins, what becomes of the draft just made: it is not worth a row, it is the last, or
 * another would be worth making, if it cost nothing; g->gain says by how much. */
typedef enum ft_gov_next { FT_GOV_DROP, FT_GOV_STOP, FT_GOV_MORE } ft_gov_next;
ft_gov_next ft_gov_drafted(ft_governor *g, ft_gov_costs *c, float margin, int slots);
/* Whether a pass that makes one more draft for each of n responses is worth it; gain: of all. */
bool ft_gov_pass_pays(const ft_gov_costs *c, double gain, int n);
/* The token that was drawn where the dropped draft would have stood was this draft, or not. Before
 * ft_gov_accept. */
void ft_gov_dropped(ft_governor *g, ft_gov_costs *c, bool right);
#endif
