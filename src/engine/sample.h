/* engine/sample.h - from a row of logits to one token id.
 *
 * A sampler holds its parameters and a short history (the penalties look back at it). It reads a
 * row of logits, never writes it, and gives an id. A draw depends on the logits, the mask, the
 * history and on (seed, position) alone: drawing twice at a position gives the same id, and how
 * many draws came before, in which batch, does not matter. History moves only in
 * ft_sampler_accept().
 *
 * Order of things: NaN counts as -inf; the mask and the biases apply first; then the samplers in
 * the order of `order`; then the draw, over the ids that are left in ascending order of id. Ties
 * break towards the lower id everywhere. A temperature of 0 or less is greedy: the largest logit
 * after mask, bias and penalties, whatever the other samplers say.
 *
 * Nothing here allocates after ft_sampler_new(). The scratch memory (24 bytes per vocabulary entry)
 * can be shared by all samplers of a thread. */
#ifndef FT_ENGINE_SAMPLE_H
#define FT_ENGINE_SAMPLE_H

#include "base/err.h"
#include "base/params.h"
#include "dev/draw.h"

/* ---- the constraint: how a grammar reaches the sampler without the engine seeing a string ---- */

/* A mask is a set of ids as bits: id i is bit i % 32 of word i / 32. FT_MASK_WORDS(V) words. */
#define FT_MASK_WORDS(V) (((size_t)(V) + 31) / 32)

typedef struct ft_mask {
    void *user; /* NULL: no constraint, the functions are not called */
    /* Fills the bits of the ids that may come next; false: every id may, bits are untouched. */
    bool (*allow)(void *user, uint32_t *bits, int32_t V);
    /* May this one id come next? Cheap; a greedy draw that agrees needs no mask at all. */
    bool (*allows)(void *user, int32_t id);
    void (*accept)(void *user, int32_t id);     /* one token further */
    void *(*clone)(void *user);                 /* an independent state at the same place */
    void (*copy)(void *user, const void *from); /* go to the place of a clone */
    void (*free)(void *user);
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
    float bias; /* -INFINITY: never */
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
    ft_sampler_kind order[FT_SAMPLE_KINDS]; /* as the enumeration has it */
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

/* scratch NULL: the sampler has its own. A shared one must be for the same V, outlive the sampler,
 * and serve one thread. */
ft_status ft_sampler_new(ft_sampler **out, const ft_sample_params *p, int32_t V,
                         ft_sample_scratch *scratch, ft_err *err);
void ft_sampler_free(ft_sampler *s);
/* The history and mirostat's state; both must have been made with equal parameters. */
void ft_sampler_copy(ft_sampler *dst, const ft_sampler *src);
void ft_sampler_reset(ft_sampler *s);
/* One token further; also for the tokens of the prompt. */
void ft_sampler_accept(ft_sampler *s, int32_t id);
/* mask NULL: all. -1 when no id is left. */
int32_t ft_sampler_draw(ft_sampler *s, const float *logits, const uint32_t *mask,
                        uint64_t position);
/* The distribution that ft_sampler_draw draws from: p[V], sums to 1. false when no id is left. */
bool ft_sampler_probs(ft_sampler *s, const float *logits, const uint32_t *mask, uint64_t position,
                      float *p);
/* Whether a device can draw as this sampler does (dev/ops.h, draw): a matter of the parameters. */
bool ft_sampler_far(const ft_sampler *s);
/* Such a draw at `position`, when the ids of `more` have followed the history: all of *d but its
 * row, mask, list and where its edits are; and these, FT_DRAW_EDITS at most. */
void ft_sampler_put(ft_sampler *s, const int32_t *more, int32_t n_more, uint64_t position,
                    ft_draw *d, ft_edit *e);
bool ft_sampler_greedy(const ft_sampler *s); /* every draw is an arg-max */
/* A draw is the largest logit, unless that is banned: no penalty and no other bias is in the way.
 */
bool ft_sampler_plain(const ft_sampler *s);
/* It has a bias of -inf: it is never drawn. */
bool ft_sampler_bans(const ft_sampler *s, int32_t id);

/* ---- helpers that need no sampler ---- */

/* The lowest index of the largest value, NaN left out, -1 when all are -inf or NaN. mask may be
 * NULL. */
int32_t ft_argmax(const float *x, const uint32_t *mask, int32_t V);

/* How far the largest value is ahead of the next one; 0 when there are no two. */
float ft_margin(const float *x, int32_t n);

typedef struct ft_logprob {
    int32_t id;
    float logprob;
} ft_logprob;

#define FT_LOGPROBS_MAX 1024

/* Of a logit, where the largest is max and the weights of all sum to `sum` (dev/draw.h). */
float ft_logprob_of(float x, float max, uint64_t sum);

/* log-softmax of the raw logits: out[0] is id, out[1..] the top_n largest (at most FT_LOGPROBS_MAX,
 * none that is -inf), largest first. out has room for 1 + top_n. Returns the number written. */
int32_t ft_logprobs(const float *logits, int32_t V, int32_t id, int32_t top_n, ft_logprob *out);

#endif
