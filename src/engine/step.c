#include "engine/step.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "dev/batch_shape.h"
#include "engine/micro.h"
#include "engine/sample.h"

#include <math.h>

enum { DRAWS = 3 }; /* per output row */

struct ft_runner {
    ft_runner_params p;
    ft_dev *dev;
    ft_rowset rows;
    ft_batch batch;
    int32_t *ints; /* backs the arrays of rows */
    float *arena, *hidden, *logits;
    float *images; /* [rows, D], made when the first image comes; NULL: none came */
    size_t arena_cap;
    float *host_logits; /* only where device memory is separate; rows are downloaded when
                         * requested */
    bool *have;         /* [out]: output rows of the last pass that were downloaded */
    /* [1 + FT_CHAIN_MAX][out]: the most likely id of each row, found on the device: of the last
     * pass, then of each pass of a chain. The results of sampling lie directly before them, in
     * reverse order, so that one copy downloads both. */
    int32_t *best, *host_best;
    int chain;     /* passes of the last chain before its last one */
    bool chaining; /* the chain continues */
    bool fresh;    /* one of its passes was the first of its shape */
    bool started;  /* a pass was started and not waited for */

    ft_micro micro;   /* the parts of a trunk pass, on several devices */
    char *micro_pass; /* [rows]: keys of parts, by their first row */
    int choice;       /* how the last trunk pass was cut, for its time; -1: it is not timed */
    int64_t begun_ns; /* when it began */
    ft_micro_times times;

    ft_draw *draw;            /* [FT_DRAW_ROWS]: the next sampling step */
    uint32_t *draw_words;     /* its masks and edits */
    int n_draw, n_draw_words; /* entries in that step */
    int n_drawn;              /* entries of this pass, in that step and before it */
    int sampled;          /* the largest number of results that one entry of that step requests */
    char draw_pass[3][2]; /* keys of sampling passes: what they request, and whether the logits
                           * are of a narrow head */
    float *wide;          /* [ids]: a row of a narrow draft head expanded to the vocabulary, -inf
                           * where it has no output */
    int ids;              /* vocabulary size that callers use */
    int width;            /* columns of the last pass's logits */
    struct runner_lora {
        float *slot;  /* [slots][n_adapter]: scales; NULL: the model has no adapters */
        float *first; /* [n_adapter]: those of the parameters */
        float *host;  /* the scales of a pass, as ft_step_lora has them */
        float *sent;  /* what `scale` holds */
        size_t n_sent;
        float *scale;  /* on the device */
        int32_t *row;  /* [ft_lora_rows], on the device */
        char *pass[2]; /* keys of trunk and draft passes, by the bits of their active adapters */
    } lora;
    ft_probe_fn *probe;
    void *probe_user;
    ft_profile *profile;
};

/* ---- sizes ---- */

static int ring_rows(const ft_runner_params *p)
{
    return p->drafter && p->drafter->drafter == FT_DRAFT_MTP ? FT_RING_ROWS : FT_RING_FEW;
}

static int hidden_rows(const ft_runner_params *p)
{
    return p->rows + p->slots * ring_rows(p) + p->out;
}

static size_t arena_values(const ft_runner_params *p)
{
    size_t n = p->model->arch->arena(p->model, p->rows, p->out);
    if (p->drafter) {
        const size_t own =
            p->drafter == p->model ? 0 : p->drafter->arch->arena(p->drafter, p->rows, p->out);
        n = FT_MAX(n, own) +
            (size_t)p->rows * (size_t)(p->model->D + 16); /* gathered hidden rows */
    }
    if (p->model->n_adapter) n += ft_lora_arena(p->rows, &p->model->lora);
    return n;
}

/* Scales of a pass: of all rows, and of all output rows. */
static size_t lora_values(const ft_runner_params *p)
{
    return (size_t)p->model->n_adapter * (size_t)(p->rows + p->out);
}

static size_t best_bytes(const ft_runner_params *p)
{
    return ft_round_up(sizeof(int32_t) * (size_t)(1 + FT_CHAIN_MAX) * (size_t)p->out, 16);
}

static size_t drawn_bytes(int n)
{
    return sizeof(ft_drawn) * (size_t)n;
}

/* Memory for the ids that sampling and passes produce. */
static size_t found_bytes(const ft_runner_params *p)
{
    return drawn_bytes(DRAWS * p->out) + best_bytes(p);
}

uint64_t ft_runner_bytes(const ft_runner_params *p)
{
    return sizeof(float) * (arena_values(p) + (uint64_t)hidden_rows(p) * (uint64_t)p->model->D +
                            (uint64_t)p->out * (uint64_t)p->model->V + lora_values(p)) +
           found_bytes(p);
}

/* ---- creation and destruction ---- */

/* The most likely ids within memory of found_bytes, and the start of that memory. */
static int32_t *best_in(void *found, const ft_runner_params *p)
{
    return found ? (int32_t *)(void *)((unsigned char *)found + drawn_bytes(DRAWS * p->out)) : NULL;
}

static void *found_of(int32_t *best, const ft_runner_params *p)
{
    return best ? (unsigned char *)best - drawn_bytes(DRAWS * p->out) : NULL;
}

static void rows_init(ft_runner *r)
{
    const size_t T = (size_t)r->p.rows, n_out = (size_t)r->p.out;
    ft_rowset *w = &r->rows;
    int32_t **const per_row[] = {&w->token,   &w->cell,      &w->pos[0],  &w->pos[1],
                                 &w->pos[2],  &w->end,       &w->span_of, &w->src_row,
                                 &w->dst_row, &w->image_row, &w->ahead};
    int32_t *at = r->ints = ft_new_n(int32_t, FT_COUNT(per_row) * T + n_out);
    for (size_t i = 0; i < FT_COUNT(per_row); i++, at += T) *per_row[i] = at;
    r->rows.out_row = at;
    r->rows.span = ft_new_n(ft_span, (size_t)r->p.rows);
}

/* false: there is no memory. */
static bool lora_init(ft_runner *r)
{
    struct runner_lora *a = &r->lora;
    const size_t n = (size_t)r->p.model->n_adapter;
    const size_t rows = (size_t)ft_lora_rows(r->p.rows, &r->p.model->lora);
    ft_dev *d = r->dev;
    if (!n) return true;
    a->slot = ft_new_n(float, n *(size_t)r->p.slots);
    a->first = ft_new_n(float, n);
    if (r->p.lora) memcpy(a->first, r->p.lora, sizeof *a->first * n);
    for (int i = 0; i < r->p.slots; i++) ft_runner_adapt(r, i, NULL);
    a->host = ft_new_n(float, lora_values(&r->p));
    a->sent = ft_new_n(float, lora_values(&r->p));
    for (int i = 0; i < 2; i++) a->pass[i] = ft_new_n(char, (size_t)1 << n);
    a->scale = d->alloc(d, lora_values(&r->p) * sizeof(float));
    a->row = d->alloc(d, rows * sizeof(int32_t));
    if (!a->scale || !a->row) return false;
    int32_t *row = ft_new_n(int32_t, rows);
    for (size_t i = 0; i < rows; i++) row[i] = (int32_t)i;
    d->upload(d, a->row, row, rows * sizeof *row);
    ft_free(row);
    return true;
}

static void lora_release(ft_runner *r)
{
    struct runner_lora *a = &r->lora;
    if (a->scale) r->dev->free(r->dev, a->scale);
    if (a->row) r->dev->free(r->dev, a->row);
    ft_free(a->slot);
    ft_free(a->first);
    ft_free(a->host);
    ft_free(a->sent);
    for (int i = 0; i < 2; i++) ft_free(a->pass[i]);
}

void ft_runner_adapt(ft_runner *r, int slot, const float *scale)
{
    const size_t n = (size_t)r->p.model->n_adapter;
    if (n)
        memcpy(r->lora.slot + (size_t)slot * n, scale ? scale : r->lora.first, sizeof(float) * n);
}

ft_status ft_runner_new(ft_runner **out, const ft_runner_params *p, ft_err *err)
{
    ft_runner *r = ft_new(ft_runner);
    ft_dev *d = r->dev = p->model->dev;
    r->p = *p;
    r->ids = p->ids ? p->ids : p->model->V;
    rows_init(r);
    r->arena_cap = arena_values(p);
    ft_dev_alloc_for(d, FT_ALLOC_SCRATCH);
    r->arena = d->alloc(d, r->arena_cap * sizeof(float));
    ft_dev_alloc_for(d, NULL);
    r->hidden = d->alloc(d, (size_t)hidden_rows(p) * (size_t)p->model->D * sizeof(float));
    r->logits = d->alloc(d, (size_t)p->out * (size_t)p->model->V * sizeof(float));
    r->best = best_in(d->alloc(d, found_bytes(p)), p);
    ft_status st = FT_OK;
    if (!r->arena || !r->hidden || !r->logits || !r->best || !lora_init(r)) {
        char need[24];
        st = ft_fail(err, FT_ENOMEM, "not enough memory for a step of %d rows: %s needed", p->rows,
                     ft_human_bytes(need, ft_runner_bytes(p)));
    }
    ft_dev_limits l = p->model->limits;
    if (p->drafter) {
        const ft_dev_limits *m = &p->drafter->limits;
        l.k = FT_MAX(l.k, m->k);
        l.experts = FT_MAX(l.experts, m->experts);
        l.expert_k = FT_MAX(l.expert_k, m->expert_k);
        l.heads = FT_MAX(l.heads, m->heads);
        l.head_d = FT_MAX(l.head_d, m->head_d);
    }
    l.rows = p->rows;
    l.ctx = p->cells;
    if (!st) st = d->reserve(d, &l, err);
    if (st) {
        ft_runner_free(r);
        return st;
    }
    if ((p->drafter && p->drafter->n_draft_ids) || r->ids > p->model->V) {
        r->wide = ft_new_n(float, (size_t)r->ids);
        for (int i = 0; i < r->ids; i++) r->wide[i] = -INFINITY;
    }
    if (!d->unified) {
        r->host_logits = ft_new_n(float, (size_t)p->out *(size_t)p->model->V);
        r->have = ft_new_n(bool, (size_t)p->out);
        r->host_best = best_in(ft_alloc(found_bytes(p)), p);
        r->draw = ft_new_n(ft_draw, FT_DRAW_ROWS);
        r->draw_words = ft_new_n(uint32_t, ft_draw_words(p->model->V));
    }
    if (d->stages > 1 || (p->micro > 1 && d->pipelined)) {
        ft_micro_init(&r->micro, p->rows, p->out);
        r->micro_pass = ft_new_n(char, (size_t)p->rows);
    }
    *out = r;
    return FT_OK;
}

void ft_runner_free(ft_runner *r)
{
    if (!r) return;
    void *const paused[] = {r->arena, r->hidden, r->logits, found_of(r->best, &r->p)};
    for (size_t i = 0; i < FT_COUNT(paused); i++)
        if (paused[i]) r->dev->free(r->dev, paused[i]);
    lora_release(r);
    ft_free(r->host_logits);
    ft_free(r->have);
    ft_free(found_of(r->host_best, &r->p));
    ft_free(r->draw);
    ft_free(r->draw_words);
    ft_free(r->wide);
    ft_free(r->ints);
    ft_free(r->rows.span);
    ft_micro_release(&r->micro);
    ft_free(r->micro_pass);
    ft_free(r);
}

void ft_runner_probe(ft_runner *r, ft_probe_fn *fn, void *user)
{
    r->probe = fn;
    r->probe_user = user;
}

void ft_runner_meter(ft_runner *r, ft_profile *m)
{
    r->profile = m;
}

/* ---- rows ---- */

ft_rowset *ft_runner_rows(ft_runner *r)
{
    r->rows.T = r->rows.S = r->rows.n_out = 0;
    r->rows.images = r->rows.looks_ahead = false;
    r->n_drawn = 0;
    return &r->rows;
}

static int rows_add(ft_rowset *rows, ft_span span, int end, bool constant)
{
    const int first = rows->T;
    for (int i = 0; i < span.n; i++) {
        const int t = first + i, cell = constant ? span.start : span.start + i;
        rows->token[t] = 0;
        rows->cell[t] = rows->pos[0][t] = rows->pos[1][t] = rows->pos[2][t] = cell;
        rows->end[t] = rows->ahead[t] = constant ? end : end + i;
        rows->image_row[t] = -1;
        rows->span_of[t] = rows->S;
        rows->src_row[t] = 0;
        rows->dst_row[t] = -1;
    }
    rows->span[rows->S++] = span;
    rows->T += span.n;
    return first;
}

int ft_rows_span(ft_rowset *rows, ft_seq *s, int n, bool tentative)
{
    const ft_span span = ft_seq_span(s, rows->T, n, tentative);
    return rows_add(rows, span, span.start + 1, false);
}

int ft_rows_draft(ft_rowset *rows, int slot, int cell, int n, int end, bool constant)
{
    return rows_add(rows, (ft_span){.slot = slot, .row = rows->T, .n = n, .start = cell}, end,
                    constant);
}

void ft_rows_out(ft_rowset *rows, int row)
{
    rows->out_row[rows->n_out++] = row;
}

void ft_rows_image(ft_rowset *rows, int t, int at)
{
    rows->image_row[t] = at;
    rows->images = true;
}

void ft_rows_ahead(ft_rowset *rows, int t, int end)
{
    rows->ahead[t] = end;
    rows->looks_ahead = true;
}

void ft_rows_at(ft_rowset *rows, int t, const int32_t pos[3])
{
    for (int i = 0; i < 3; i++) rows->pos[i][t] = pos[i];
}

ft_status ft_runner_image_put(ft_runner *r, int at, const float *rows, int n, ft_err *err)
{
    const size_t D = (size_t)r->p.model->D;
    assert(at >= 0 && n >= 0 && at + n <= r->p.rows);
    if (!r->images) {
        ft_dev_alloc_for(r->dev, NULL);
        r->images = r->dev->alloc(r->dev, (size_t)r->p.rows * D * sizeof(float));
    }
    if (!r->images) return ft_fail(err, FT_ENOMEM, "no device memory for the image rows of a step");
    r->dev->upload(r->dev, r->images + (size_t)at * D, rows, (size_t)n * D * sizeof(float));
    return FT_OK;
}

int ft_hidden_trunk(const ft_runner *r, int row)
{
    (void)r;
    return row;
}

int ft_hidden_ring(const ft_runner *r, int slot, int cell)
{
    const int n = ring_rows(&r->p);
    return r->p.rows + slot * n + cell % n;
}

int ft_ring_rows(const ft_runner *r)
{
    return ring_rows(&r->p);
}

int ft_hidden_draft(const ft_runner *r, int out)
{
    return r->p.rows + r->p.slots * ring_rows(&r->p) + out;
}

/* ---- passes ---- */

/* Where steps are captured by shape, the number of output rows is rounded up by repeating the
 * last. */
static int padded_out(const ft_runner *r, ft_rowset *w)
{
    if (!r->dev->captures || !w->n_out) return w->n_out;
    const int n = FT_MIN(ft_batch_shape_out(w->n_out, w->T), r->p.out);
    for (int i = w->n_out; i < n; i++) w->out_row[i] = w->out_row[w->n_out - 1];
    return n;
}

/* ---- adapters ---- */

static const float *row_scales(const ft_runner *r, const ft_rowset *w, int row)
{
    const size_t slot = (size_t)w->span[w->span_of[row]].slot;
    return r->lora.slot + slot * (size_t)r->p.model->n_adapter;
}

/* The adapters of a pass, and the scales of its rows on the device. In most steps they are those of
 * the step before, and nothing is copied. */
static ft_step_lora lora_of_pass(ft_runner *r, const ft_rowset *w, int n_out, bool draft)
{
    struct runner_lora *a = &r->lora;
    const ft_model *m = r->p.model;
    const uint32_t have = draft ? m->draft_adapters : m->adapters;
    ft_step_lora s = {.scale = a->scale, .row = a->row};
    for (int i = 0; i < w->S && have; i++) {
        const float *scale = row_scales(r, w, w->span[i].row);
        for (int j = 0; j < m->n_adapter; j++)
            if (scale[j] != 0) s.active |= 1u << j & have;
    }
    if (!s.active) return s;
    float *to = a->host;
    for (int j = 0; j < m->n_adapter; j++) {
        for (int t = 0; t < w->T; t++) *to++ = row_scales(r, w, t)[j];
        for (int i = 0; i < n_out; i++) *to++ = row_scales(r, w, w->out_row[i])[j];
    }
    const size_t n = (size_t)(to - a->host), bytes = n * sizeof *to;
    if (n == a->n_sent && !memcmp(a->host, a->sent, bytes)) return s;
    r->dev->upload(r->dev, a->scale, a->host, bytes);
    memcpy(a->sent, a->host, bytes);
    a->n_sent = n;
    return s;
}

/* The key of a pass: steps with other adapters call other ops. */
static const void *pass_of(const ft_runner *r, const ft_step *s, bool draft)
{
    const void *plain = draft ? (const void *)&r->p.drafter : (const void *)&r->p.model;
    return s->lora.active ? &r->lora.pass[draft][s->lora.active] : plain;
}

/* The next pass, of all rows. */
static void start_pass(ft_runner *r, int width)
{
    const ft_rowset *w = &r->rows;
    r->width = width;
    assert(w->T > 0 && w->T <= r->p.rows && w->n_out <= r->p.out);
    assert(!r->started || r->chaining); /* its results would be lost */
    r->started = true;
    if (r->have) memset(r->have, 0, (size_t)w->n_out * sizeof *r->have);
}

/* A pass over these rows, or a part of it: n_out output rows from `out` on. draft: only output rows
 * attend to other rows. */
static ft_step begin_pass(ft_runner *r, const ft_rowset *w, int out, int n_out, bool draft)
{
    int ctx = 0;
    for (int t = 0; t < w->T; t++) ctx = FT_MAX(ctx, w->end[t]);
    r->batch = (ft_batch){
        .T = w->T,
        .S = w->S,
        .n_out = n_out,
        .max_ctx = ctx,
        .token = w->token,
        .drawn = r->best,
        .pos = {w->pos[0], w->pos[1], w->pos[2]},
        .cell = w->cell,
        .end = w->end,
        .span_of = w->span_of,
        .src_row = w->src_row,
        .dst_row = w->dst_row,
        .image_row = w->images ? w->image_row : NULL,
        .ahead = w->looks_ahead ? w->ahead : NULL,
        .out_row = w->out_row,
        .span = w->span,
        .page = {ft_cache_pages(r->p.cache, FT_SPACE_FULL),
                 ft_cache_pages(r->p.cache, FT_SPACE_WINDOW)},
        .pages_per_seq = ft_cache_pages_per_seq(r->p.cache),
        .slots = r->p.slots,
        .pad_spans = draft,
    };
    const ft_step_lora lora = lora_of_pass(r, w, n_out, draft);
    r->dev->record(r->dev, &r->batch);
    return (ft_step){
        .dev = r->dev,
        .b = &r->batch,
        .T = w->T,
        .n_out = n_out,
        .arena = r->arena,
        .arena_cap = r->arena_cap,
        .kv = ft_cache_kv(r->p.cache),
        .delta = ft_cache_delta(r->p.cache),
        .images = ft_mat_at(r->images, r->p.rows, r->p.model->D),
        .logits = ft_mat_at(r->logits + (size_t)out * (size_t)r->width, n_out, r->width),
        .probe = r->probe,
        .probe_user = r->probe_user,
        .profile = r->profile,
        .layer = -1,
        .lora = lora,
    };
}

/* Runs the pass; its most likely ids are saved before the next pass overwrites them. */
static void go_on(ft_runner *r)
{
    ft_dev *d = r->dev;
    assert(r->chain < FT_CHAIN_MAX);
    d->move(d, r->best + (size_t)++r->chain * (size_t)r->p.out, r->best,
            (size_t)r->rows.n_out * sizeof *r->best);
}

static ft_mat hidden_part(const ft_runner *r, int first, int n)
{
    const int D = r->p.model->D;
    return ft_mat_at(r->hidden + (size_t)first * (size_t)D, n, D);
}

/* true: the device replays a captured pass with this step's batch. Steps with images call ops that
 * others do not, and are not captured. more: the pass belongs to the one before it. */
static bool replayed(ft_runner *r, const void *pass, bool more)
{
    const bool plain = pass && !r->batch.image_row && !r->batch.ahead;
    const bool again = !r->probe && !r->profile && plain && r->dev->replay(r->dev, pass);
    r->fresh = (more && r->fresh) || r->dev->uncaptured;
    return again;
}

bool ft_runner_fresh(const ft_runner *r)
{
    return r->fresh;
}

/* Where logits are in device memory, the device finds the largest one of each row. Ids that the
 * target does not have are left out. */
static void find_best(ft_runner *r, ft_step *s, int out)
{
    ft_mat x = s->logits;
    x.d = FT_MIN(x.d, r->ids);
    if (r->host_logits && s->n_out) ft_argmax_rows(s, r->best + out, x);
}

/* The rows of a part; it owns nothing. */
static ft_rowset rows_of_part(const ft_runner *r, const ft_micro_part *p)
{
    const ft_micro *m = &r->micro;
    ft_rowset w = r->rows;
    int32_t **const each[] = {&w.token,  &w.cell,   &w.end,    &w.src_row, &w.dst_row,
                              &w.pos[0], &w.pos[1], &w.pos[2], &w.ahead,   &w.image_row};
    for (size_t i = 0; i < FT_COUNT(each); i++) *each[i] += p->row;
    w.span = m->span + p->span;
    w.span_of = m->span_of + p->row;
    w.out_row = m->out_row + p->out;
    w.T = p->T;
    w.S = p->S;
    w.n_out = p->n_out;
    return w;
}

/* A captured part writes to where its rows are: those that begin at another row have graphs of
 * their own. NULL: the part is not likely to come again. */
static const void *pass_of_part(const ft_runner *r, const ft_step *s, const ft_micro_part *p)
{
    if (!p || (!p->row && p->n_out == p->T)) return pass_of(r, s, false);
    return p->row == p->out && p->n_out == p->T && !s->lora.active ? &r->micro_pass[p->row] : NULL;
}

/* Starts the trunk pass, or the part p of it. */
static void trunk_part(ft_runner *r, const ft_micro_part *p)
{
    ft_rowset w = p ? rows_of_part(r, p) : r->rows;
    const int row = p ? p->row : 0, out = p ? p->out : 0;
    ft_step s = begin_pass(r, &w, out, p ? p->n_out : padded_out(r, &r->rows), false);
    s.hidden = hidden_part(r, row, s.T);
    if (!replayed(r, pass_of_part(r, &s, p), row > 0)) {
        r->p.model->arch->forward(r->p.model, &s);
        if (r->p.drafter) ft_scatter(&s, hidden_part(r, 0, hidden_rows(&r->p)), s.hidden);
        find_best(r, &s, out);
    }
    r->dev->commit(r->dev);
}

/* Into how many parts the pass is cut. Steps of generating sequences: as the times say. A prompt:
 * so that each part keeps a device busy. */
static int parts_of_pass(ft_runner *r)
{
    const ft_rowset *w = &r->rows;
    const ft_dev *d = r->dev;
    int longest = 0;
    r->choice = -1;
    if (!r->micro.span || r->probe || r->profile || w->images || w->looks_ahead) return 1;
    if (r->p.micro) return r->p.micro;
    if (d->stages < 2) return 1;
    for (int i = 0; i < w->S; i++) longest = FT_MAX(longest, w->span[i].n);
    if (longest > FT_DECODE_ROWS) return FT_MIN(w->T / d->part_rows, 4 * d->stages);
    if (w->S < 2 || (d->captures && w->T <= FT_MICRO_ABOVE)) return 1;
    r->choice = ft_micro_choose(&r->times, w->T);
    return r->choice ? r->choice * d->stages : 1;
}

void ft_runner_trunk_begin(ft_runner *r)
{
    start_pass(r, r->p.model->V);
    r->chain = 0;
    if (r->profile) ft_profile_begin(r->profile, r->rows.T);
    r->begun_ns = ft_now_ns();
    const int most = parts_of_pass(r), n = most > 1 ? ft_micro_cut(&r->micro, &r->rows, most) : 1;
    if (n == 1) trunk_part(r, NULL);
    for (int i = 0; n > 1 && i < n; i++) trunk_part(r, &r->micro.part[i]);
}

int ft_runner_micro(ft_runner *r, int n)
{
    const int before = r->p.micro;
    r->p.micro = n;
    return before;
}

bool ft_runner_chains(const ft_runner *r)
{
    return r->host_logits && r->dev->pipelined && r->p.drafter && !r->p.drafter->draft_ids;
}

void ft_runner_draft_begin(ft_runner *r, bool more)
{
    const ft_model *m = r->p.drafter;
    start_pass(r, m->n_draft_ids ? m->n_draft_ids : m->V);
    ft_step s = begin_pass(r, &r->rows, 0, padded_out(r, &r->rows), true);
    if (!r->chaining) r->chain = 0;
    r->choice = -1;
    r->chaining = more;
    if (r->profile) ft_profile_begin(r->profile, 0); /* only trunk passes are timed */
    if (!replayed(r, pass_of(r, &s, true), r->chain > 0)) {
        s.hidden_in = ft_take(&s, r->p.model->D);
        s.hidden = hidden_part(r, ft_hidden_draft(r, 0), s.n_out);
        ft_gather_src(&s, s.hidden_in, hidden_part(r, 0, hidden_rows(&r->p)));
        r->p.drafter->arch->draft(r->p.drafter, &s);
        find_best(r, &s, 0);
    }
    r->dev->commit(r->dev);
    if (more) go_on(r);
}

/* The vocabulary ids of the last pass's logits if it was a narrow head; NULL: they are in order. */
static const int32_t *names_of(const ft_runner *r)
{
    return r->width == r->p.model->V ? NULL : r->p.drafter->draft_ids;
}

/* ---- sampling on the device ---- */

bool ft_runner_draws(const ft_runner *r)
{
    return r->host_logits && r->dev->op->draw && !names_of(r);
}

/* Runs the sampling step. The number of entries is rounded up so that few shapes occur. */
static void draw_now(ft_runner *r)
{
    ft_dev *d = r->dev;
    int T = 1;
    if (!r->n_draw) return;
    while (T < r->n_draw) T *= 2;
    for (int i = r->n_draw; i < T; i++) r->draw[i].row = -1;
    r->batch = (ft_batch){.T = T,
                          .draw = r->draw,
                          .draw_words = r->draw_words,
                          .n_draw_words = r->n_draw_words,
                          .sampled = r->sampled};
    d->record(d, &r->batch);
    const bool fresh = r->fresh;
    if (!replayed(r, &r->draw_pass[r->sampled][r->width == r->p.model->V], false)) {
        ft_step s = {.dev = d, .b = &r->batch, .T = T, .profile = r->profile, .layer = -1};
        ft_mat x = ft_mat_at(r->logits, r->p.out, r->width);
        x.d = FT_MIN(r->width, r->ids);
        ft_draw_rows(&s, (ft_drawn *)(void *)r->best, x);
    }
    d->commit(d);
    r->fresh = r->fresh || fresh;
    r->n_draw = r->n_draw_words = 0;
    r->sampled = 0;
}

int ft_runner_draw(ft_runner *r, int i, const ft_draw *d, const ft_edit *e, const uint32_t *mask)
{
    const size_t edits = sizeof *e * (size_t)d->n_edit, bits = mask ? FT_MASK_WORDS(r->ids) : 0;
    const size_t words = edits / sizeof *r->draw_words + bits;
    assert(ft_runner_draws(r) && r->n_drawn < DRAWS * r->p.out);
    if (r->n_draw == FT_DRAW_ROWS || (size_t)r->n_draw_words + words > ft_draw_words(r->p.model->V))
        draw_now(r);
    ft_draw *to = &r->draw[r->n_draw++];
    *to = *d;
    to->row = i;
    to->to = -1 - r->n_drawn;
    to->edit = r->n_draw_words;
    to->mask = mask ? r->n_draw_words + (int32_t)(edits / sizeof *r->draw_words) : -1;
    if (edits) memcpy(r->draw_words + to->edit, e, edits);
    if (mask) memcpy(r->draw_words + to->mask, mask, bits * sizeof *mask);
    r->n_draw_words += (int32_t)words;
    r->sampled = FT_MAX(r->sampled, ft_draw_kind(d));
    return r->n_drawn++;
}

const ft_drawn *ft_runner_drawn(const ft_runner *r, int number)
{
    assert(number < r->n_drawn);
    return (const ft_drawn *)(const void *)r->host_best - 1 - number;
}

/* Waits once, for the ids if there are any; most steps need nothing else. */
ft_status ft_runner_wait(ft_runner *r, ft_err *err)
{
    ft_dev *d = r->dev;
    const size_t n = (size_t)r->rows.n_out, out = (size_t)r->p.out;
    r->started = false;
    draw_now(r);
    if (r->host_logits && n) {
        const size_t ids = r->chain ? out * (size_t)(1 + r->chain) : n;
        const size_t drawn = drawn_bytes(r->n_drawn);
        d->download(d, (unsigned char *)r->host_best - drawn, (unsigned char *)r->best - drawn,
                    drawn + ids * sizeof *r->best);
    }
    const ft_status st = d->sync(d, err);
    if (!st && r->choice >= 0 && n && !r->fresh)
        ft_micro_timed(&r->times, r->rows.T, r->choice, (double)(ft_now_ns() - r->begun_ns) * 1e-9);
    r->choice = -1;
    if (st || !ft_map_broken()) return st;
    return ft_fail(err, FT_EIO, "the model file %s was changed while it was in use",
                   ft_map_broken());
}

/* ---- results ---- */

const float *ft_runner_logits(ft_runner *r, int i)
{
    const size_t n = (size_t)r->width, at = (size_t)i * n;
    const float *row = (r->host_logits ? r->host_logits : r->logits) + at;
    if (r->host_logits && !r->have[i]) {
        r->dev->download(r->dev, r->host_logits + at, r->logits + at, n * sizeof(float));
        r->have[i] = true;
    }
    if (r->width >= r->ids) return row;
    const int32_t *names = names_of(r);
    if (!names) memcpy(r->wide, row, sizeof *row * (size_t)r->width);
    for (int j = 0; names && j < r->width; j++) r->wide[names[j]] = row[j];
    return r->wide;
}

int32_t ft_runner_chained(ft_runner *r, int pass, int i)
{
    assert(ft_runner_chains(r) && pass <= r->chain);
    return r->host_best[(size_t)(pass == r->chain ? 0 : pass + 1) * (size_t)r->p.out + (size_t)i];
}

int32_t ft_runner_best(ft_runner *r, int i)
{
    if (!r->host_logits) return FT_BEST_UNKNOWN;
    const int32_t id = r->host_best[i], *names = names_of(r);
    return id >= 0 && names ? names[id] : id;
}

float ft_runner_margin(ft_runner *r, int i)
{
    assert(!r->host_logits);
    return ft_margin(r->logits + (size_t)i * (size_t)r->width, r->width);
}

void ft_runner_hidden_get(ft_runner *r, int index, float *out)
{
    const size_t n = (size_t)r->p.model->D;
    r->dev->download(r->dev, out, r->hidden + (size_t)index * n, n * sizeof(float));
}

void ft_runner_hidden_set(ft_runner *r, int index, const float *row)
{
    const size_t n = (size_t)r->p.model->D;
    r->dev->upload(r->dev, r->hidden + (size_t)index * n, row, n * sizeof(float));
}
