#include "engine/engine.h"

#include "base/clock.h"
#include "base/mem.h"
#include "engine/lane.h"
#include "kv/plan.h"
#include "kv/save.h"

#include <stdio.h>

/* ---- sizes ---- */

static ft_model *drafter_of(ft_model *m, ft_model *assistant, const ft_engine_params *p)
{
    if (p->draft_max <= 0 || p->no_head) return NULL;
    return assistant ? assistant : m->drafter ? m : NULL;
}

/* What it is to this model. */
static ft_drafter kind_of(const ft_model *m, const ft_model *drafter)
{
    if (!drafter) return FT_DRAFT_NONE;
    return drafter != m && !drafter->target ? FT_DRAFT_MODEL : drafter->drafter;
}

/* The layers that keep something: the model's, and the head's last. The list is the caller's. */
static ft_layer_state *layers_of(const ft_model *m, const ft_model *drafter, int *n)
{
    const bool head = kind_of(m, drafter) == FT_DRAFT_MTP;
    ft_layer_state *l = ft_new_n(ft_layer_state, (size_t)m->L + 1);
    memcpy(l, m->layer, sizeof *l * (size_t)m->L);
    if (head) l[m->L] = drafter->layer[m->L];
    *n = m->L + head;
    return l;
}

/* Without a head, drafts can still be guessed: the journal and the out rows are sized for them. */
static ft_cache_params cache_params(const ft_model *m, const ft_layer_state *layer, int n,
                                    const ft_engine_params *p)
{
    return (ft_cache_params){
        .layer = layer,
        .n_layer = n,
        .trunk = m->L,
        .kt = p->kt,
        .vt = p->vt,
        .exact = p->kv_exact,
        .gauge = p->gauge,
        .slots = p->lanes,
        .cells = p->ctx,
        .total = p->cells,
        .rows = FT_MAX(p->rows, p->score_rows),
        .tail = p->kv_tail && !m->dev->no_tail,
        .tentative = ft_most_drafts(p) + 1,
    };
}

static ft_runner_params runner_params(ft_model *m, ft_model *drafter, ft_cache *c,
                                      const ft_engine_params *p)
{
    return (ft_runner_params){
        .model = m,
        .drafter = kind_of(m, drafter) == FT_DRAFT_MODEL ? NULL : drafter,
        .cache = c,
        .slots = p->lanes,
        .rows = p->rows + p->lanes * (FT_FEED_ROWS + 1),
        .out = FT_MAX(p->lanes * (1 + ft_most_drafts(p)), p->score_rows),
        .cells = p->ctx,
    };
}

uint64_t ft_engine_bytes(const ft_model *m, const ft_model *drafter, const ft_engine_params *p)
{
    return ft_engine_bytes_from(m, drafter, p, 0);
}

uint64_t ft_engine_bytes_from(const ft_model *m, const ft_model *drafter, const ft_engine_params *p,
                              int first)
{
    ft_model *model = (ft_model *)(uintptr_t)m;
    ft_model *d = drafter_of(model, (ft_model *)(uintptr_t)drafter, p);
    int n;
    ft_layer_state *layer = layers_of(m, d, &n);
    const ft_cache_params cp = cache_params(m, layer, n, p);
    const ft_runner_params rp = runner_params(model, d, NULL, p);
    uint64_t bytes = ft_runner_bytes(&rp);
    for (int l = first; l < n; l++) bytes += ft_cache_layer_bytes(&cp, l);
    if (kind_of(m, d) == FT_DRAFT_MODEL) bytes += ft_second_bytes(d, p);
    ft_free(layer);
    return bytes;
}

ft_dev_limits ft_engine_limits(const ft_model *m, const ft_model *drafter,
                               const ft_engine_params *p)
{
    ft_model *model = (ft_model *)(uintptr_t)m;
    const ft_model *d = drafter_of(model, (ft_model *)(uintptr_t)drafter, p);
    const ft_warm_plan w = ft_warm_plan_of(p, kind_of(m, d));
    ft_dev_limits l = m->limits;
    l.rows = runner_params(model, NULL, NULL, p).rows;
    l.past = p->ctx;
    l.layers = m->L;
    ft_warm_count(&w, &l.kept, &l.kept_short);
    return l;
}

uint64_t ft_engine_cache_bytes(const ft_model *m, const ft_model *drafter,
                               const ft_engine_params *p)
{
    ft_model *d = drafter_of((ft_model *)(uintptr_t)m, (ft_model *)(uintptr_t)drafter, p);
    int n;
    ft_layer_state *layer = layers_of(m, d, &n);
    const ft_cache_params cp = cache_params(m, layer, n, p);
    const uint64_t bytes = ft_cache_bytes(&cp);
    ft_free(layer);
    return bytes;
}

double ft_engine_token_bytes(const ft_model *m, const ft_engine_params *p, double *f16)
{
    const ft_cache_params cp = cache_params(m, m->layer, m->L, p);
    return ft_kv_token_bytes(&cp, f16);
}

bool ft_engine_cache_table(ft_buf *out, char *words, char *special, size_t cap, const ft_model *m,
                           const ft_model *drafter, const ft_engine_params *p)
{
    ft_model *d = drafter_of((ft_model *)(uintptr_t)m, (ft_model *)(uintptr_t)drafter, p);
    int n;
    ft_layer_state *layer = layers_of(m, d, &n);
    const ft_cache_params cp = cache_params(m, layer, n, p);
    ft_kv_plan_table(out, &cp);
    ft_kv_plan_special(special, cap, &cp);
    const bool small = ft_kv_plan_words(words, cap, &cp);
    ft_free(layer);
    return small;
}

/* ---- life ---- */

ft_status ft_engine_new(ft_engine **out, ft_model *m, ft_model *drafter, const ft_engine_params *p,
                        ft_err *err)
{
    assert(p->lanes > 0 && p->rows >= FT_CHUNK_ROWS && ft_most_drafts(p) <= FT_DRAFT_MAX);
    ft_engine *e = ft_new(ft_engine);
    e->m = m;
    e->p = *p;
    e->drafter = drafter_of(m, drafter, p);
    e->kind = kind_of(m, e->drafter);
    e->lane = ft_new_n(ft_lane, (size_t)p->lanes);
    e->seen = ft_new_n(bool, (size_t)p->lanes);
    e->turn = ft_new_n(ft_gov_turn, (size_t)p->lanes);
    int n;
    ft_layer_state *layer = layers_of(m, e->drafter, &n);
    const ft_cache_params cp = cache_params(m, layer, n, &e->p);
    ft_status st = ft_cache_new(&e->cache, m->dev, &cp, err);
    ft_free(layer);
    if (!st) {
        const ft_runner_params rp = runner_params(m, e->drafter, e->cache, &e->p);
        st = ft_runner_new(&e->run, &rp, err);
    }
    e->draft_run = e->run;
    if (!st && e->kind == FT_DRAFT_MODEL) st = ft_second_new(e, err);
    if (st) {
        ft_engine_free(e);
        return st;
    }
    e->scratch = ft_sample_scratch_new(m->V);
    ft_gov_costs_init(&e->costs);
    e->costs.margins = m->dev->unified; /* elsewhere logits stay where they are */
    *out = e;
    return FT_OK;
}

void ft_engine_free(ft_engine *e)
{
    if (!e) return;
    ft_engine_unshare(e);
    for (int i = 0; i < e->p.lanes; i++) ft_lane_free(&e->lane[i]);
    for (int i = 0; i < e->n_guesser; i++) e->guesser[i].free(e->guesser[i].state);
    ft_free(e->guesser);
    ft_sample_scratch_free(e->scratch);
    if (e->draft_run != e->run) ft_runner_free(e->draft_run);
    ft_runner_free(e->run);
    ft_cache_free(e->second);
    ft_cache_free(e->cache);
    ft_free(e->lane);
    ft_free(e->seen);
    ft_free(e->turn);
    ft_free(e);
}

bool ft_engine_drafts(const ft_engine *e)
{
    return e->drafter != NULL;
}

void ft_engine_add_guesser(ft_engine *e, ft_guesser g)
{
    e->guesser = ft_realloc(e->guesser, sizeof *e->guesser * (size_t)(e->n_guesser + 1));
    e->guesser[e->n_guesser++] = g;
}

void ft_engine_trace(ft_engine *e, void (*fn)(void *user, const char *line), void *user)
{
    e->trace = fn;
    e->trace_user = user;
}

/* ---- lanes ---- */

ft_lane *ft_lane_new(ft_engine *e)
{
    for (int i = 0; i < e->p.lanes; i++) {
        ft_lane *l = &e->lane[i];
        if (l->state != LANE_FREE) continue;
        *l = (ft_lane){.e = e, .state = LANE_IDLE, .seq = ft_seq_new(e->cache)};
        if (e->second) l->second = ft_seq_new(e->second);
        assert(l->seq && !l->second == !e->second);
        l->ids = ft_new_n(int32_t, (size_t)e->p.ctx + 1);
        l->bits = ft_new_n(uint32_t, FT_MASK_WORDS(e->m->V));
        l->logprob = ft_new_n(ft_logprob, 1 + FT_LOGPROBS_MAX);
        if (e->p.reject && e->drafter) {
            l->p = ft_new_n(float, (size_t)e->m->V);
            l->q = ft_new_n(float, (size_t)e->m->V *(size_t)e->p.draft_max);
        }
        return l;
    }
    return NULL;
}

void ft_lane_free(ft_lane *l)
{
    if (!l || l->state == LANE_FREE) return;
    if (l->ahead) l->job.mask.free(l->ahead);
    ft_seq_free(l->seq);
    if (l->second) ft_seq_free(l->second);
    ft_sampler_free(l->sampler);
    ft_sampler_free(l->drafting);
    ft_free(l->ids);
    ft_free(l->bits);
    ft_free(l->logprob);
    ft_free(l->p);
    ft_free(l->q);
    *l = (ft_lane){0};
}

int ft_lane_match(const ft_lane *l, const ft_task *t)
{
    const int most = FT_MIN(lane_len(l), t->n_prompt - 1);
    int same = 0;
    while (same < most && l->ids[same] == t->prompt[same]) same++;
    return same;
}

/* Goes back to where the lane's past and the prompt part. */
static int rewound(ft_lane *l, int same)
{
    if (same > 0 && ft_seq_rewind(l->seq, same)) {
        l->fed = FT_MIN(l->fed, same + 1);
        return same;
    }
    ft_seq_rewind(l->seq, 0);
    l->fed = 0;
    return 0;
}

/* How much of the prompt is there already; at least one token is always read again, because its
 * logits are wanted. Lanes that share take only what has the bits of a prompt read from the start,
 * which the past of a delta net, with replies in it, has not. */
static int reusable(ft_lane *l, const ft_task *j)
{
    if (j->hidden) return rewound(l, 0); /* every row is wanted */
    if (!l->e->prefix) return rewound(l, ft_lane_match(l, j));
    if (!j->keep) return rewound(l, 0);
    const int own = ft_cache_state_bytes(l->e->cache) ? 0 : ft_lane_match(l, j);
    int n = ft_keep_find(l, j, own);
    if (n) return n;
    n = rewound(l, FT_MIN(own, lane_len(l))); /* pages may have run out: nothing is left then */
    return n || !own ? n : ft_keep_find(l, j, 0);
}

static ft_status make_samplers(ft_lane *l, const ft_task *j, ft_err *err)
{
    ft_sampler_free(l->sampler);
    ft_sampler_free(l->drafting);
    l->sampler = l->drafting = NULL;
    ft_status st = ft_sampler_new(&l->sampler, &j->sampling, l->e->m->V, l->e->scratch, err);
    if (st) return st;
    ft_sample_params drafts = j->sampling;
    if (!l->q) drafts.temperature = 0;
    drafts.mirostat = 0;
    return ft_sampler_new(&l->drafting, &drafts, l->e->m->V, l->e->scratch, err);
}

ft_status ft_task_check(const ft_engine *e, const ft_task *t, ft_err *err)
{
    if (t->n_prompt < 1)
        return ft_fail(err, FT_EINVAL, "the prompt is empty, want at least one token");
    if (t->n_prompt >= e->p.ctx)
        return ft_fail(err, FT_ECONTEXT,
                       "the request has %d tokens, which is more than the maximum context length "
                       "of %d tokens leaves room for",
                       t->n_prompt, e->p.ctx);
    if (t->n_prompt / FT_PAGE_ROWS >= ft_cache_all_pages(e->cache))
        return ft_fail(err, FT_ECONTEXT,
                       "the request has %d tokens, which is more than the maximum context length "
                       "of %d tokens that all requests share",
                       t->n_prompt, ft_cache_all_pages(e->cache) * FT_PAGE_ROWS);
    for (int i = 0; i < t->n_prompt; i++)
        if (t->prompt[i] < 0 || t->prompt[i] >= e->m->V)
            return ft_fail(err, FT_EINVAL, "token %d of the prompt is %d, want 0 to %d", i,
                           t->prompt[i], e->m->V - 1);
    return ft_sample_check(&t->sampling, e->m->V, err);
}

ft_status ft_lane_start(ft_lane *l, const ft_task *j, ft_err *err)
{
    assert(l->state == LANE_IDLE);
    const ft_engine *e = l->e;
    ft_status st = ft_task_check(e, j, err);
    if (st) return st;
    if ((st = make_samplers(l, j, err))) return st;
    ft_second_start(l, j);
    l->stats = (ft_stats){.cached_n = reusable(l, j)};
    l->stats.prompt_n = j->n_prompt - l->stats.cached_n;
    l->job = *j;
    l->job.prompt = l->ids;
    memcpy(l->ids, j->prompt, sizeof(int32_t) * (size_t)j->n_prompt);
    l->n_ids = j->n_prompt;
    ft_keep_plan(l);
    for (int i = 0; i < j->n_prompt; i++) ft_sampler_accept(l->sampler, l->ids[i]);
    l->n_draft = l->next_max = l->n_rows = 0;
    l->held = false;
    l->waited = 0;
    l->arrival = ++l->e->arrivals;
    l->winner = -1;
    l->dropped = false;
    ft_gov_init(&l->gov, &e->costs, false);
    ft_gov_init(&l->gov_guess, &e->costs, true);
    l->finish = FT_FINISH_NONE;
    l->error[0] = 0;
    l->t_start = ft_now_ns();
    l->t_first = 0;
    l->state = LANE_PROMPT;
    return FT_OK;
}

static void forget_ahead(ft_lane *l)
{
    if (l->ahead) l->job.mask.free(l->ahead);
    l->ahead = NULL;
}

void ft_lane_end(ft_lane *l, ft_finish why)
{
    if (l->state < LANE_PROMPT) return;
    l->state = LANE_IDLE;
    if (l->parked) {
        ft_parked_free(l->parked);
        l->parked = NULL;
        ft_seq_rewind(l->seq, 0);
        l->fed = 0;
    }
    l->finish = why;
    l->n_draft = 0;
    forget_ahead(l);
    if (l->t_first) l->stats.predicted_s = (double)(ft_now_ns() - l->t_first) * 1e-9;
}

bool ft_lane_busy(const ft_lane *l)
{
    return l->state >= LANE_PROMPT;
}

ft_finish ft_lane_finish(const ft_lane *l)
{
    return l->finish;
}

const char *ft_lane_error(const ft_lane *l)
{
    return l->error;
}

const ft_stats *ft_lane_stats(const ft_lane *l)
{
    return &l->stats;
}

void ft_lane_cancel(ft_lane *l)
{
    ft_lane_end(l, FT_FINISH_STOP);
}

void ft_lane_hold(ft_lane *l, bool hold)
{
    l->held = hold;
}

/* ---- rounds ---- */

static void lane_fail(ft_engine *e, const ft_err *err)
{
    if (!e->fault[0]) snprintf(e->fault, sizeof e->fault, "%s", err->text);
    for (int i = 0; i < e->p.lanes; i++) {
        ft_lane *l = &e->lane[i];
        if (l->state < LANE_PROMPT) continue;
        snprintf(l->error, sizeof l->error, "%s", err->text);
        ft_lane_end(l, FT_FINISH_ERROR);
    }
}

/* The prompt is read: the clock of the reply starts with its first token. */
static void prompt_done(ft_lane *l)
{
    l->t_first = ft_now_ns();
    l->stats.prompt_s = (double)(l->t_first - l->t_start) * 1e-9;
    for (int i = 0; i < l->e->n_guesser; i++) {
        const ft_guesser *g = &l->e->guesser[i];
        g->begin(g->state, lane_index(l), l->ids, l->job.n_prompt);
    }
    if (l->job.max_tokens == 0)
        ft_lane_end(l, FT_FINISH_LENGTH);
    else
        ft_spec_first(l);
}

static void give_hidden(ft_lane *l)
{
    ft_engine *e = l->e;
    float *row = ft_new_n(float, (size_t)e->m->D);
    for (int i = 0; i < l->n_rows; i++) {
        ft_runner_hidden_get(e->run, ft_hidden_trunk(e->run, l->first_row + i), row);
        l->job.hidden(l->job.user, l->past + i, row);
    }
    ft_free(row);
}

static void read_rows(ft_engine *e)
{
    for (int i = 0; i < e->p.lanes; i++) {
        ft_lane *l = &e->lane[i];
        if (!l->n_rows) continue;
        if (l->state == LANE_REPLY) {
            ft_spec_verify(l);
        } else if (l->state == LANE_PROMPT) {
            ft_seq_accept(l->seq, l->n_rows);
            if (l->job.hidden) give_hidden(l);
            if (lane_len(l) == l->job.n_prompt) prompt_done(l);
        }
    }
}

static bool any_busy(const ft_engine *e)
{
    for (int i = 0; i < e->p.lanes; i++)
        if (e->lane[i].state >= LANE_PROMPT) return true;
    return false;
}

/* A lane that continues an earlier sequence: its head may be behind. */
static bool any_behind(const ft_engine *e)
{
    for (int i = 0; i < e->p.lanes; i++) {
        const ft_lane *l = &e->lane[i];
        if (l->state == LANE_PROMPT && !l->parked && lane_len(l) > 0 && l->fed <= lane_len(l))
            return true;
    }
    return false;
}

/* The trunk pass of a round, timed for the governor where no prompt rows are in the way. */
static ft_status trunk(ft_engine *e, ft_err *err)
{
    int64_t cells = 0;
    int lanes = 0;
    for (int i = 0; i < e->p.lanes; i++) {
        if (e->lane[i].state != LANE_REPLY) continue;
        cells += lane_len(&e->lane[i]);
        lanes += e->lane[i].n_rows > 0;
    }
    ft_gov_round(&e->costs, cells, !e->pure);
    const int64_t start = ft_now_ns();
    const int rows = e->rows_now;
    ft_runner_trunk_begin(e->run);
    ft_draw_plan(e);
    const ft_status st = ft_runner_wait(e->run, err);
    if (st) return st;
    e->steps++;
    read_rows(e);
    const double seconds = (double)(ft_now_ns() - start) * 1e-9;
    if (e->pure && !ft_runner_fresh(e->run)) ft_gov_trunk(&e->costs, lanes, rows, seconds);
    for (int i = 0; i < e->p.lanes; i++)
        if (e->lane[i].n_rows) e->lane[i].stats.verify_s += seconds;
    return FT_OK;
}

bool ft_engine_round(ft_engine *e)
{
    ft_err err;
    ft_status st = FT_OK;
    if (!any_busy(e)) return false;
    const int64_t start = ft_now_ns();
    if (e->kind == FT_DRAFT_MTP && any_behind(e)) st = ft_spec_catch_up(e, &err);
    if (!st && ft_batch_fill(e)) {
        st = trunk(e, &err);
        if (!st && (e->drafter || e->n_guesser)) st = ft_spec_draft(e, &err);
    }
    if (st)
        lane_fail(e, &err);
    else
        ft_keep_round(e);
    ft_pace_round(e, e->rows_now, (double)(ft_now_ns() - start) * 1e-9);
    return any_busy(e);
}

const char *ft_engine_fault(const ft_engine *e)
{
    return e->fault[0] ? e->fault : NULL;
}

ft_status ft_lane_score(ft_lane *l, const int32_t *ids, int n, int from,
                        void (*row)(void *user, int index, const float *logits), void *user,
                        ft_err *err)
{
    ft_engine *e = l->e;
    assert(l->state == LANE_IDLE && e->p.score_rows > 0);
    if (n > e->p.ctx)
        return ft_fail(err, FT_ELIMIT, "%d tokens to score, the context has room for %d", n,
                       e->p.ctx);
    ft_seq_rewind(l->seq, 0);
    if (l->second) ft_seq_rewind(l->second, 0);
    l->fed = l->n_ids = 0;
    ft_status st = FT_OK;
    for (int at = 0, step; at < n && !st; at += step) {
        step = FT_MIN(n - at, at < from ? FT_MIN(e->p.rows, from - at) : e->p.score_rows);
        if (!ft_seq_reserve(l->seq, step))
            return ft_fail(err, FT_ELIMIT, "the cache has no room for %d tokens", n);
        ft_rowset *w = ft_runner_rows(e->run);
        const int first = ft_rows_span(w, l->seq, step, false);
        memcpy(w->token + first, ids + at, sizeof(int32_t) * (size_t)step);
        for (int i = 0; i < step && at >= from; i++) ft_rows_out(w, first + i);
        st = ft_runner_trunk(e->run, err);
        ft_seq_accept(l->seq, step);
        for (int i = 0; i < step && at >= from && !st; i++)
            row(user, at + i, ft_runner_logits(e->run, i));
    }
    ft_seq_rewind(l->seq, 0);
    return st;
}

/* One step over `rows` tokens that repeat ids[0..n-1]. */
static ft_status one_step(ft_lane *l, const int32_t *ids, int n, int rows, bool tentative,
                          ft_err *err)
{
    ft_engine *e = l->e;
    if (!ft_seq_reserve(l->seq, rows))
        return ft_fail(err, FT_ELIMIT, "the cache has no room for %d tokens", lane_len(l) + rows);
    ft_rowset *w = ft_runner_rows(e->run);
    const int first = ft_rows_span(w, l->seq, rows, tentative);
    for (int i = 0; i < rows; i++) w->token[first + i] = ids[(lane_len(l) + i) % n];
    for (int i = tentative ? 0 : rows - 1; i < rows; i++) ft_rows_out(w, first + i);
    return ft_runner_trunk(e->run, err);
}

ft_status ft_lane_steps(ft_lane *l, const int32_t *ids, int n, int rows, int steps, double *seconds,
                        ft_err *err)
{
    const ft_engine *e = l->e;
    assert(l->state == LANE_IDLE && n > 0);
    if (rows < 1 || rows > ft_most_drafts(&e->p) + 1)
        return ft_fail(err, FT_EINVAL, "steps of %d rows, want 1 to %d", rows,
                       ft_most_drafts(&e->p) + 1);
    ft_seq_rewind(l->seq, 0);
    l->fed = l->n_ids = 0;
    ft_status st = FT_OK;
    while (lane_len(l) < n && !st) {
        const int part = FT_MIN(n - lane_len(l), e->p.rows);
        st = one_step(l, ids, n, part, false, err);
        ft_seq_accept(l->seq, part);
    }
    for (int i = 0; i < steps && !st; i++) {
        const int64_t start = ft_now_ns();
        st = one_step(l, ids, n, rows, rows > 1, err);
        seconds[i] = (double)(ft_now_ns() - start) * 1e-9;
        ft_seq_accept(l->seq, 1 + i % rows);
    }
    ft_seq_rewind(l->seq, 0);
    return st;
}

const ft_kv *ft_engine_kv(const ft_engine *e)
{
    return ft_cache_kv(e->cache);
}

void ft_engine_probe(ft_engine *e, ft_probe_fn *fn, void *user)
{
    ft_runner_probe(e->run, fn, user);
}

void ft_engine_meter(ft_engine *e, ft_meter *m)
{
    ft_runner_meter(e->run, m);
}
