/* engine/governor.h - how many tokens to draft, chosen each round from what rounds really cost and
 * how often drafts were agreed to.
 *
 * A round with K drafts takes t(K + 1 rows) + d(K) seconds and yields 1 + a1 + a1 a2 + ... tokens,
 * a_j being the share of rounds that agreed to draft j after agreeing to all before it. The best K
 * is the one with the most tokens per second; none is a candidate like any other. Of several
 * replies those draft that add most, as many of them as are worth the passes they share. Times are
 * the shortest of recent rounds with about as long a past, so slow rounds change nothing. A reply
 * that does not draft tries one draft now and then, to notice when it would pay again; seldom
 * enough that the tries cost little, whatever a try costs. One that drafts does without now and
 * then, because the machine may have become faster or slower since that was timed.
 *
 * Where a drafter says how far its best token is ahead of the next (the margin of two logits), that
 * tells more than any average: drafts far ahead are nearly always agreed to, close ones seldom.
 * Then the governor decides draft by draft, with the acceptance of drafts of about this margin: a
 * draft is verified if it earns more time than its row takes, and another is made if one that earns
 * its row and its making is likely. A draft that was dropped still teaches: the token drawn in its
 * place shows whether it was right. */
#ifndef FT_ENGINE_GOVERNOR_H
#define FT_ENGINE_GOVERNOR_H

#include "base/err.h"

enum {
    FT_GOV_ROWS = 64,  /* steps of up to so many rows are told apart ... */
    FT_GOV_WIDE = 32,  /* ... and larger ones by so many */
    FT_GOV_SIZES = 96, /* classes of steps: up to 1,056 rows */
    FT_GOV_SAMPLES = 8,
    FT_GOV_CROWDS = 6,  /* classes of replies at once: rows of one cost less than rows of many */
    FT_GOV_PASTS = 6,   /* classes of pasts, each four times as long as the one before */
    FT_GOV_MANY = 8,    /* with more replies costs are not learned for each class */
    FT_GOV_PROBE = 32,  /* rounds without drafts between two tries, at least */
    FT_GOV_AGAIN = 512, /* steps between two tries where drafts cannot pay; ... */
    FT_GOV_AGAIN_MANY = 2048, /* ... of many replies, which all try at once */
    FT_GOV_PLAIN = 64,        /* rounds with drafts between two without, to time one again */
    FT_GOV_LEARN = 16,        /* rounds of a reply at most that only learn what rounds cost */
    FT_GOV_SURE = 6,          /* classes of margins */
};

typedef struct ft_gov_times {
    float sample[FT_GOV_SAMPLES];
    uint8_t n, at;
    int16_t rows; /* of the last sample */
} ft_gov_times;

/* What rounds cost: one for an engine. */
typedef struct ft_gov_costs {
    /* by replies at once, past and rows of the step */
    ft_gov_times trunk[FT_GOV_CROWDS][FT_GOV_PASTS][FT_GOV_SIZES];
    ft_gov_times first[FT_GOV_SIZES]; /* the first draft pass of a round, by replies that draft */
    ft_gov_times next[FT_GOV_SIZES];  /* each further one */
    double prior[FT_DRAFT_MAX];       /* acceptance of earlier replies, where new ones begin */
    double prior_guess[FT_DRAFT_MAX]; /* the same for guessers */
    int past;                         /* class of this step */
    unsigned steps;                   /* that were timed */
    bool mixed;                       /* it read prompts too: it says nothing about costs */
    bool margins;                     /* the drafter tells them */
    double sure[FT_GOV_SURE];         /* acceptance by margin: where new replies begin */
    double share[FT_GOV_SURE];        /* how many drafts have such a margin */
    double behind;  /* seconds for each token that a parked drafter has to read before a try */
    double put_off; /* the same for a head of several replies: what it put off */
} ft_gov_costs;

/* How one reply's drafts fare. */
typedef struct ft_governor {
    double accept[FT_DRAFT_MAX]; /* a_j */
    int rounds;
    int parked, next_try; /* rounds without drafts, and at how many of them to try */
    int drafting;         /* rounds with drafts since the last without */
    bool was_parked;      /* it did without at some time */
    int learning;         /* rounds that were chosen to learn what they cost */
    int failed;           /* tries in a row that did not lead to drafts */
    bool guess;           /* the drafts cost nothing to make */
    int k;                /* of the last choice */
    /* With margins: */
    double sure[FT_GOV_SURE], share[FT_GOV_SURE];
    int seen[FT_GOV_SURE];
    double token, row;            /* seconds that a token is worth in this round, and a row */
    int made;                     /* drafts of this round so far, the last perhaps dropped; */
    uint8_t margin[FT_DRAFT_MAX]; /* the classes of their margins, */
    double reach;                 /* and how likely it is that all of them are agreed to */
    double gain;                  /* seconds that one more is likely to save */
} ft_governor;

void ft_gov_costs_init(ft_gov_costs *c);
/* A round begins: the cells that its replies see, all together; mixed: prompts are read in it too.
 */
void ft_gov_round(ft_gov_costs *c, int64_t cells, bool mixed);
void ft_gov_trunk(ft_gov_costs *c, int lanes, int rows, double seconds);
void ft_gov_draft(ft_gov_costs *c, bool first, int replies, double seconds);
/* A drafter that was parked took so long to read the tokens it had missed; or heads those that they
 * had put off. */
void ft_gov_behind(ft_gov_costs *c, int tokens, double seconds);
void ft_gov_read(ft_gov_costs *c, int tokens, double seconds);

void ft_gov_init(ft_governor *g, const ft_gov_costs *c, bool guess);
/* A round that proposed n drafts and kept `kept` of them. */
void ft_gov_accept(ft_governor *g, ft_gov_costs *c, int n, int kept);
/* One reply's part in the next round: drafts that it may make at most, and that it shall. */
typedef struct ft_gov_turn {
    ft_governor *g;
    int max, k;
} ft_gov_turn;

/* Chooses k for n replies that draft together, when `lanes` replies run at once: who drafts shares
 * the passes that make drafts, so it is decided for all of them. */
void ft_gov_choose(ft_gov_turn *t, int n, const ft_gov_costs *c, int lanes);

/* With margins, what becomes of the draft just made: it is not worth a row, it is the last, or
 * another would be worth making, if it cost nothing; g->gain says by how much. */
typedef enum ft_gov_next { FT_GOV_DROP, FT_GOV_STOP, FT_GOV_MORE } ft_gov_next;
ft_gov_next ft_gov_drafted(ft_governor *g, ft_gov_costs *c, float margin, int lanes);
/* Whether a pass that makes one more draft for each of n replies is worth it; gain: of all. */
bool ft_gov_pays(const ft_gov_costs *c, double gain, int n);
/* The token that was drawn where the dropped draft would have stood was this draft, or not. Before
 * ft_gov_accept. */
void ft_gov_dropped(ft_governor *g, ft_gov_costs *c, bool right);
#endif
