/* engine/step.h - runs rows through a model: the trunk pass and the draft pass.
 * Owns the buffers of a step (batch, activations, hidden rows, logits), all of them sized once.
 * Who fills the rows decides what they mean; nothing here knows of requests or sampling.
 *
 * Hidden rows live in one buffer of three parts: the rows of the last trunk pass, a ring of the
 * last cells of every slot (FT_RING_ROWS where a draft head reads them, else FT_RING_FEW), and the
 * out rows of the last draft pass. A draft pass takes its hidden rows from there by index. */
#ifndef FT_ENGINE_STEP_H
#define FT_ENGINE_STEP_H

#include "model/model.h"

enum { FT_RING_ROWS = 512, FT_RING_FEW = 32, FT_CHAIN_MAX = 15 };

/* The rows of a step, filled by the caller through ft_rows_*. */
typedef struct ft_rowset {
    int T, S, n_out;
    int32_t *token, *cell, *end, *span_of, *src_row, *dst_row, *out_row;
    int32_t *pos[3];          /* time, height, width: the cell, unless the caller says otherwise */
    int32_t *image_row;       /* of the runner's image rows, -1 for text */
    int32_t *ahead;           /* as end; where rows of an image see each other, the image's end */
    bool images, looks_ahead; /* a row of this step is an image's; its `ahead` is not its end */
    ft_span *span;
} ft_rowset;

typedef struct ft_runner ft_runner;

typedef struct ft_runner_params {
    ft_model *model;
    ft_model *drafter; /* an assistant, the model itself for its own head, or NULL */
    ft_cache *cache;
    int slots, rows, out; /* most sequences, rows and out rows of a step */
    int cells;            /* longest sequence */
    int ids;              /* as many as callers know, where that is not the model's V; else 0 */
} ft_runner_params;

ft_status ft_runner_new(ft_runner **out, const ft_runner_params *p, ft_err *err);
void ft_runner_free(ft_runner *r);
uint64_t ft_runner_bytes(const ft_runner_params *p); /* device memory that it takes */
/* Reports named activations of every pass. */
void ft_runner_probe(ft_runner *r, ft_probe_fn *fn, void *user);
void ft_runner_meter(ft_runner *r, ft_meter *m); /* times every op; NULL: no longer */

/* An empty set of rows to fill for the next pass. */
ft_rowset *ft_runner_rows(ft_runner *r);
/* A span of the sequence's next n rows, tentative or not; returns the first row's index. The rows
 * get cells and positions; tokens are the caller's. */
int ft_rows_span(ft_rowset *rows, ft_seq *s, int n, bool tentative);
/* n rows of a draft pass for slot at `cell`, seeing cells below `end` of the first row and one more
 * for each further row (constant: all see the same). Returns the first row's index. */
int ft_rows_draft(ft_rowset *rows, int slot, int cell, int n, int end, bool constant);
void ft_rows_out(ft_rowset *rows, int row); /* this row's logits are wanted */

/* n rows of an image, from row `at` of the runner's image rows on: as many as a step has rows.
 * They stay until others take their place. */
ft_status ft_runner_image_put(ft_runner *r, int at, const float *rows, int n, ft_err *err);
/* Row t of the next pass is image row `at` instead of a token. */
void ft_rows_image(ft_rowset *rows, int t, int at);
void ft_rows_ahead(ft_rowset *rows, int t, int end); /* and sees cells below `end` */
void ft_rows_at(ft_rowset *rows, int t, const int32_t pos[3]);

/* Index into the hidden buffer. */
int ft_hidden_trunk(const ft_runner *r, int row);           /* row of the last trunk pass */
int ft_hidden_ring(const ft_runner *r, int slot, int cell); /* one of the last cells of a slot */
int ft_ring_rows(const ft_runner *r);                       /* that the ring of a slot has */
int ft_hidden_draft(const ft_runner *r, int out);           /* out row of the last draft pass */

/* Begins a pass; ft_runner_wait returns when the results can be read. A draft pass with `more`
 * needs no wait: the next draft pass follows it on the device, with its best ids as tokens
 * (ft_token_drawn of an out row), and waiting for the last one of such a chain, of FT_CHAIN_MAX at
 * most, is waiting for all. */
void ft_runner_trunk_begin(ft_runner *r);
void ft_runner_draft_begin(ft_runner *r, bool more);
ft_status ft_runner_wait(ft_runner *r, ft_err *err);

static inline ft_status ft_runner_trunk(ft_runner *r, ft_err *err)
{
    ft_runner_trunk_begin(r);
    return ft_runner_wait(r, err);
}

static inline ft_status ft_runner_draft(ft_runner *r, bool more, ft_err *err)
{
    ft_runner_draft_begin(r, more);
    return more ? FT_OK : ft_runner_wait(r, err);
}

/* Whether the device draws ids from rows of its logits: where they are far away. */
bool ft_runner_draws(const ft_runner *r);
/* One more draw from out row i of the pass that was begun or waited for last: *d without its row
 * and places, its edits, its mask or NULL. The next wait is for it too; returns its number. Three
 * for each out row at most. */
int ft_runner_draw(ft_runner *r, int i, const ft_draw *d, const ft_edit *e, const uint32_t *mask);
const ft_drawn *ft_runner_drawn(const ft_runner *r, int number); /* until the next pass begins */
/* The last pass, or one of its chain, was slower than others of its shape will be. */
bool ft_runner_fresh(const ft_runner *r);
bool ft_runner_chains(const ft_runner *r); /* whether the device can do that, and gains by it */

/* Logits of out row i of the last pass, one for every id that callers know; valid until the next
 * pass and, of a narrow draft head, until the next call. */
const float *ft_runner_logits(ft_runner *r, int i);
/* The id of row i's largest logit where the device has found it, without the logits themselves: the
 * lowest among equals, -1 when none is above -inf; else FT_BEST_UNKNOWN. */
enum { FT_BEST_UNKNOWN = -2 };
int32_t ft_runner_best(ft_runner *r, int i);
int32_t ft_runner_chained(ft_runner *r, int pass, int i); /* the same of each pass of a chain */
/* How far row i's largest logit is ahead of the next; only where the device's memory is ours. */
float ft_runner_margin(ft_runner *r, int i);
/* A hidden row by its index, copied out or in. */
void ft_runner_hidden_get(ft_runner *r, int index, float *out);
void ft_runner_hidden_set(ft_runner *r, int index, const float *row);

#endif
