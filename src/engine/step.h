/* engine/step.h - runs rows through a model: the trunk pass and the draft pass.
 * Owns the buffers of a step (batch, activations, hidden rows, logits), all sized once. The
 * caller fills the rows; nothing here knows of requests or sampling.
 * Hidden rows are in one buffer of three parts: the rows of the last trunk pass, a ring of the
 * last positions of every slot (FT_RING_ROWS where an MTP head reads them, else FT_RING_FEW),
 * and the output rows of the last draft pass. A draft pass selects its hidden rows from it by
 * index. */
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
    int slots, rows, out; /* maximum sequences, rows and output rows of a step */
    int cells;            /* maximum context length */
    int ids;              /* vocabulary size that callers use, if it is not the model's V; else 0 */
    int micro;            /* micro-batches of a trunk pass (engine/micro.h); 0: chosen; 1: whole */
    const float *lora;    /* [n_adapter]: scales that every slot has at first; NULL: 0 */
} ft_runner_params;

ft_status ft_runner_new(ft_runner **out, const ft_runner_params *p, ft_err *err);
void ft_runner_free(ft_runner *r);
uint64_t ft_runner_bytes(const ft_runner_params *p); /* device memory that it needs */
/* Reports named activations of every pass. */
void ft_runner_probe(ft_runner *r, ft_probe_fn *fn, void *user);
void ft_runner_meter(ft_runner *r, ft_profile *m); /* times every op; NULL: stop */

/* The scales of the model's adapters for the rows of a slot: [n_adapter]; NULL: those of the
 * parameters. */
void ft_runner_adapt(ft_runner *r, int slot, const float *scale);

/* An empty set of rows for the next pass. */
ft_rowset *ft_runner_rows(ft_runner *r);
/* Adds the sequence's next n rows as a span, tentative or not; returns the index of the first
 * row. The rows get cache positions and rotary positions; the caller sets the tokens. */
int ft_rows_span(ft_rowset *rows, ft_seq *s, int n, bool tentative);
/* Adds n rows of a draft pass for a slot at position `cell`. The first row sees the positions
 * below `end`, each further row one more (constant: all see the same). Returns the first row's
 * index. */
int ft_rows_draft(ft_rowset *rows, int slot, int cell, int n, int end, bool constant);
void ft_rows_out(ft_rowset *rows, int row); /* request the logits of this row */

/* n rows of an image, from row `at` of the runner's image rows on: as many as a step has rows.
 * They stay until others take their place. */
ft_status ft_runner_image_put(ft_runner *r, int at, const float *rows, int n, ft_err *err);
/* Row t of the next pass is image row `at` instead of a token. */
void ft_rows_image(ft_rowset *rows, int t, int at);
void ft_rows_ahead(ft_rowset *rows, int t, int end); /* and sees cells below `end` */
void ft_rows_at(ft_rowset *rows, int t, const int32_t pos[3]);

/* Indices into the buffer of hidden rows. */
int ft_hidden_trunk(const ft_runner *r, int row); /* row of the last trunk pass */
int ft_hidden_ring(const ft_runner *r, int slot,
                   int cell);                     /* one of the last positions of a slot */
int ft_ring_rows(const ft_runner *r);             /* rows of one slot's ring */
int ft_hidden_draft(const ft_runner *r, int out); /* output row of the last draft pass */

/* Starts a pass; ft_runner_wait returns when its results can be read. Starting another one before
 * that is an error of the caller (assert). Only a draft pass with `more` needs no wait: the next
 * draft pass follows on the device and takes this pass's most likely ids as tokens (ft_token_drawn
 * of an output row). Waiting for the last pass of such a chain (at most FT_CHAIN_MAX) waits for all
 * of them. */
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

/* Sets the number of micro-batches, as in the parameters; returns the number before. */
int ft_runner_micro(ft_runner *r, int n);

/* Whether ids are sampled on the device: where logits are in separate device memory. */
bool ft_runner_draws(const ft_runner *r);
/* Adds one sampling operation on output row i of the last pass: *d without its row and offsets,
 * its edits, and its mask or NULL. The next wait includes it; returns its number. At most three
 * per output row. */
int ft_runner_draw(ft_runner *r, int i, const ft_draw *d, const ft_edit *e, const uint32_t *mask);
const ft_drawn *ft_runner_drawn(const ft_runner *r,
                                int number); /* valid until the next pass starts */
/* The last pass, or one of its chain, ran for the first time and was slower than usual. */
bool ft_runner_fresh(const ft_runner *r);
bool ft_runner_chains(const ft_runner *r); /* whether the device can chain passes and gains by it */

/* Logits of output row i of the last pass, one per id that callers use; valid until the next
 * pass and, for a narrow draft head, until the next call. */
const float *ft_runner_logits(ft_runner *r, int i);
/* The most likely id of row i if the device has found it, without the logits: the lowest among
 * equals, -1 if all are -inf; else FT_BEST_UNKNOWN. */
enum { FT_BEST_UNKNOWN = -2 };
int32_t ft_runner_best(ft_runner *r, int i);
int32_t ft_runner_chained(ft_runner *r, int pass, int i); /* the same for each pass of a chain */
/* Difference between row i's largest and second largest logit; only where device memory is host
 * memory. */
float ft_runner_margin(ft_runner *r, int i);
/* Copies a hidden row out or in, by its index. */
void ft_runner_hidden_get(ft_runner *r, int index, float *out);
void ft_runner_hidden_set(ft_runner *r, int index, const float *row);

#endif
