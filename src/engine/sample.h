/* engine/sample.h - from a row of logits to one token id.
 * A sampler holds its parameters and a short token history for the penalties. It reads a row of
 * logits, never writes it, and returns an id. The result depends on the logits, the mask, the
 * history and (seed, position) alone: sampling twice at a position gives the same id, in any
 * batch and after any number of other calls. Only ft_sampler_accept() changes the history.
 * Order of operations: NaN counts as -inf; the mask and the biases apply first; then the
 * samplers in the order of `order`; then one id is sampled, over the remaining ids in ascending
 * order. Ties go to the lower id. A temperature of 0 or less is greedy: the largest logit after
 * mask, bias and penalties, whatever the other samplers are set to.
 * Nothing allocates after ft_sampler_new(). The scratch memory (24 bytes per vocabulary entry)
 * can be shared by all samplers of a thread. */
#ifndef FT_ENGINE_SAMPLE_H
#define FT_ENGINE_SAMPLE_H

#include "base/err.h"
#include "base/params.h"
#include "dev/draw.h"

/* ---- the token constraint: how a grammar reaches the sampler, which sees no text ---- */

/* A mask is a set of ids as bits: id i is bit i % 32 of word i / 32. FT_MASK_WORDS(V) words. */
#define FT_MASK_WORDS(V) (((size_t)(V) + 31) / 32)

typedef struct ft_mask {
    void *user; /* NULL: no constraint, the functions are not called */
    /* Fills the bits of the allowed next ids; false: every id is allowed and bits is unchanged. */
    bool (*allow)(void *user, uint32_t *bits, int32_t V);
    /* Whether this id is allowed next. Cheap: if the greedy token is allowed, no mask is needed. */
    bool (*allows)(void *user, int32_t id);
    void (*accept)(void *user, int32_t id);     /* advances by one token */
    void *(*clone)(void *user);                 /* an independent copy of the state */
    void (*copy)(void *user, const void *from); /* copies the state of a clone */
    void (*free)(void *user);
    /* Called by another thread while `allow` runs: it returns soon, with any bits, and the state is
     * only good for being freed. NULL: it cannot be stopped. */
    void (*stop)(void *user);
    /* Whether `allow` takes too little time now to be worth another thread. NULL: never. */
    bool (*quick)(void *user);
} ft_mask;

/* ---- parameters ---- */

/* FT_SAMPLE_PENALTIES ... FT_SAMPLE_TEMPERATURE, in the default order (base/request.def). */
typedef enum ft_sampler_kind {
#define FT_SAMPLER(kind, name, letter) FT_SAMPLE_##kind,
#include "base/request.def"
    FT_SAMPLE_KINDS
} ft_sampler_kind;

typedef struct ft_logit_bias {
    int32_t id;
    float bias; /* -INFINITY: never sampled */
} ft_logit_bias;

typedef struct ft_id_seq {
    const int32_t *id;
    size_t n;
} ft_id_seq;

/* One field per FT_SAMPLING row of base/request.def: temperature, top_k, top_p, ... The row says
 * what the field means, its range and its default. Here a temperature <= 0 is greedy, the two
 * last_n are >= 0 (the API has replaced -1), and a mirostat other than 0 applies penalties,
 * temperature and mirostat alone. */
typedef struct ft_sample_params {
    uint64_t seed;
#define FT_SAMPLING(type, field, number, ...) type field;
#include "base/request.def"
    const ft_id_seq *dry_breakers; /* copied; a repetition does not extend across one */
    size_t n_dry_breakers;
    const ft_logit_bias *bias; /* copied */
    size_t n_bias;
    ft_sampler_kind order[FT_SAMPLE_KINDS]; /* in the order of the enumeration */
    int n_order;
} ft_sample_params;

#define FT_SAMPLE_LAST_N_MAX (1 << 20)

void ft_sample_defaults(ft_sample_params *p);
/* "penalties;dry;top_k": fills order and n_order. Each name at most once; "" is the empty list. */
ft_status ft_sample_order_parse(ft_sample_params *p, const char *list, ft_err *err);
ft_status ft_sample_check(const ft_sample_params *p, int32_t V, ft_err *err);
const char *ft_sampler_kind_name(ft_sampler_kind k);

/* ---- the sampler ---- */

typedef struct ft_sampler ft_sampler;
typedef struct ft_sample_scratch ft_sample_scratch;

ft_sample_scratch *ft_sample_scratch_new(int32_t V);
void ft_sample_scratch_free(ft_sample_scratch *t);

/* scratch NULL: the sampler allocates its own. A shared one must be for the same V, outlive the
 * sampler, and be used by one thread. */
ft_status ft_sampler_new(ft_sampler **out, const ft_sample_params *p, int32_t V,
                         ft_sample_scratch *scratch, ft_err *err);
void ft_sampler_free(ft_sampler *s);
/* Copies the history and mirostat's state; both must have been made with equal parameters. */
void ft_sampler_copy(ft_sampler *dst, const ft_sampler *src);
void ft_sampler_reset(ft_sampler *s);
/* Appends a token to the history, also those of the prompt. */
void ft_sampler_accept(ft_sampler *s, int32_t id);
/* mask NULL: all ids are allowed. Returns -1 when no id is left. */
int32_t ft_sampler_draw(ft_sampler *s, const float *logits, const uint32_t *mask,
                        uint64_t position);
/* The distribution that ft_sampler_draw samples from: p[V], sums to 1. false when no id is left. */
bool ft_sampler_probs(ft_sampler *s, const float *logits, const uint32_t *mask, uint64_t position,
                      float *p);
/* Whether a device can sample as this sampler does (dev/ops.h, draw); depends on the parameters
 * alone. */
bool ft_sampler_on_device(const ft_sampler *s);
/* The parameters for sampling on a device at `position`, when the ids of `more` follow the
 * history: all of *d except its row, mask, list and edit offsets; and at most FT_DRAW_EDITS
 * edits. */
void ft_sampler_put(ft_sampler *s, const int32_t *more, int32_t n_more, uint64_t position,
                    ft_draw *d, ft_edit *e);
bool ft_sampler_greedy(const ft_sampler *s); /* it always returns the most likely id */
/* It returns the largest logit unless that id is banned: there are no penalties and no other
 * biases. */
bool ft_sampler_plain(const ft_sampler *s);
/* The id has a bias of -inf: it is never sampled. */
bool ft_sampler_bans(const ft_sampler *s, int32_t id);

/* ---- helpers that need no sampler ---- */

/* The lowest index of the largest value, ignoring NaN; -1 when all are -inf or NaN. mask may be
 * NULL. */
int32_t ft_argmax(const float *x, const uint32_t *mask, int32_t V);

/* Difference between the largest and the second largest value; 0 for fewer than two values. */
float ft_margin(const float *x, int32_t n);

typedef struct ft_logprob {
    int32_t id;
    float logprob;
} ft_logprob;

#define FT_LOGPROBS_MAX 1024

/* Log probability of a logit, where max is the largest and `sum` the sum of all weights
 * (dev/draw.h). */
float ft_logprob_of(float x, float max, uint64_t sum);

/* log-softmax of the raw logits: out[0] is id, out[1..] the top_n largest (at most
 * FT_LOGPROBS_MAX, none that is -inf), largest first. out has 1 + top_n elements. Returns the
 * number written. */
int32_t ft_logprobs(const float *logits, int32_t V, int32_t id, int32_t top_n, ft_logprob *out);

#endif
