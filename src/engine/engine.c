#include "engine/engine.h"

#include "base/clock.h"
#include "base/mem.h"
#include "engine/slot.h"
#include "kv/plan.h"
#include "kv/save.h"

#include <stdio.h>

/* ---- sizes ---- */

ft_cache_params ft_engine_cache_params(const ft_model *m, const ft_engine_params *p)
{
    return (ft_cache_params){
        .layer = m->layer,
        .n_layer = m->L,
        .trunk = m->L,
        .kt = p->kt,
        .vt = p->vt,
        .exact = p->kv_exact,
        .tail = p->kv_tail,
        .slots = p->slots,
        .cells = p->ctx,
        .total = p->cells,
    };
}

static ft_model *drafter_of(ft_model *m, ft_model *assistant, const ft_engine_params *p)
{
    if (p->draft_max <= 0 || p->no_head) return NULL;
    return assistant ? assistant : m->drafter ? m : NULL;
}

/* The kind of drafter that it is for this model. */
static ft_drafter kind_of(const ft_model *m, const ft_model *drafter)
{
    if (!drafter) return FT_DRAFT_NONE;
    return drafter != m && !drafter->target ? FT_DRAFT_MODEL : drafter->drafter;
}

/* The parameters of the cache. Its layers are the model's, followed by that of the MTP head.
 * Release with cache_params_release. Without a head, n-gram methods may still draft: the journal
 * is sized for them. */
static ft_cache_params cache_params_init(const ft_model *m, const ft_model *drafter,
                                         const ft_engine_params *p)
{
    const bool head = kind_of(m, drafter) == FT_DRAFT_MTP;
    ft_layer_state *layer = ft_new_n(ft_layer_state, (size_t)m->L + 1);
    memcpy(layer, m->layer, sizeof *layer * (size_t)m->L);
    if (head) layer[m->L] = drafter->layer[m->L];
    ft_cache_params c = ft_engine_cache_params(m, p);
    c.layer = layer;
    c.n_layer = m->L + head;
    c.calibration = p->calibration;
    c.rows = FT_MAX(p->rows, p->score_rows);
    c.tentative = ft_most_drafts(p) + 1;
    c.plan = ft_kv_plan_new(&c);
    return c;
}

static void cache_params_release(ft_cache_params *c)
{
    ft_free(c->layer);
    ft_free(c->plan);
}

static ft_runner_params runner_params(ft_model *m, ft_model *drafter, ft_cache *c,
                                      const ft_engine_params *p)
{
    return (ft_runner_params){
        .model = m,
        .drafter = kind_of(m, drafter) == FT_DRAFT_MODEL ? NULL : drafter,
        .cache = c,
        .slots = p->slots,
        .rows = p->rows + p->slots * (FT_FEED_ROWS + 1),
        .out = p->slots * (1 + ft_most_drafts(p)) + p->score_rows,
        .cells = p->ctx,
        .micro = p->micro,
        .lora = p->lora,
    };
}

int ft_engine_parts(ft_model *m, ft_model *drafter, const ft_engine_params *p, uint64_t *step,
                    uint64_t *draft, uint64_t *cache)
{
    ft_model *d = drafter_of(m, drafter, p);
    ft_cache_params cp = cache_params_init(m, d, p);
    const ft_runner_params rp = runner_params(m, d, NULL, p);
    const int n = cp.n_layer;
    assert(n <= FT_ENGINE_LAYERS);
    *step = ft_runner_bytes(&rp);
    *draft = kind_of(m, d) == FT_DRAFT_MODEL ? ft_draft_model_bytes(d, p) : 0;
    for (int l = 0; l < n; l++) cache[l] = ft_cache_layer_bytes(&cp, l);
    cache_params_release(&cp);
    return n;
}

uint64_t ft_engine_bytes(ft_model *m, ft_model *drafter, const ft_engine_params *p)
{
    uint64_t cache[FT_ENGINE_LAYERS], step, draft;
    const int n = ft_engine_parts(m, drafter, p, &step, &draft, cache);
    uint64_t sum = step + draft;
    for (int l = 0; l < n; l++) sum += cache[l];
    return sum;
}

static bool is_encoded(ft_kv_type t)
{
    return t != FT_KV_F32 && t != FT_KV_F16;
}

ft_dev_limits ft_engine_limits(ft_model *m, ft_model *drafter, const ft_engine_params *p)
{
    const ft_model *d = drafter_of(m, drafter, p);
    const ft_warmup_plan w = ft_warmup_plan_of(p, kind_of(m, d));
    ft_dev_limits l = m->limits;
    l.rows = runner_params(m, NULL, NULL, p).rows;
    l.ctx = p->ctx;
    l.recent = p->kv_tail;
    l.encoded = is_encoded(p->kt) || is_encoded(p->vt);
    l.layers = m->L;
    ft_warmup_count(&w, &l.graphs, &l.draft_graphs);
    return l;
}

uint64_t ft_engine_cache_bytes(ft_model *m, ft_model *drafter, const ft_engine_params *p)
{
    ft_cache_params cp = cache_params_init(m, drafter_of(m, drafter, p), p);
    const uint64_t bytes = ft_cache_bytes(&cp);
    cache_params_release(&cp);
    return bytes;
}

double ft_engine_token_bytes(const ft_model *m, const ft_engine_params *p, double *f16)
{
    ft_cache_params cp = cache_params_init(m, NULL, p);
    const double bytes = ft_kv_token_bytes(&cp, f16);
    cache_params_release(&cp);
    return bytes;
}

bool ft_engine_cache_table(ft_buf *out, char *words, char *special, size_t cap, ft_model *m,
                           ft_model *drafter, const ft_engine_params *p)
{
    ft_cache_params cp = cache_params_init(m, drafter_of(m, drafter, p), p);
    ft_kv_plan_table(out, &cp);
    ft_kv_plan_special(special, cap, &cp);
    const bool small = ft_kv_plan_summary(words, cap, &cp);
    cache_params_release(&cp);
    return small;
}

/* ---- creation and destruction ---- */

ft_status ft_engine_new(ft_engine **out, ft_model *m, ft_model *drafter, const ft_engine_params *p,
                        ft_err *err)
{
    assert(p->slots > 0 && p->rows >= FT_CHUNK_ROWS && ft_most_drafts(p) <= FT_DRAFT_MAX);
    ft_engine *e = ft_new(ft_engine);
    e->m = m;
    e->p = *p;
    if (p->lora) memcpy(e->lora, p->lora, sizeof *e->lora * (size_t)m->n_adapter);
    e->p.lora = e->lora;
    e->masks = ft_masks_new();
    e->drafter = drafter_of(m, drafter, p);
    e->kind = kind_of(m, e->drafter);
    e->slot = ft_new_n(ft_slot, (size_t)p->slots);
    e->seen = ft_new_n(bool, (size_t)p->slots);
    e->choice = ft_new_n(ft_gov_choice, (size_t)p->slots);
    ft_cache_params cp = cache_params_init(m, e->drafter, &e->p);
    ft_status st = ft_cache_new(&e->cache, m->dev, &cp, err);
    cache_params_release(&cp);
    if (!st) {
        const ft_runner_params rp = runner_params(m, e->drafter, e->cache, &e->p);
        st = ft_runner_new(&e->runner, &rp, err);
    }
    e->draft_runner = e->runner;
    if (!st && e->kind == FT_DRAFT_MODEL) st = ft_draft_model_new(e, err);
    if (st) {
        ft_engine_free(e);
        return st;
    }
    e->scratch = ft_sample_scratch_new(m->V);
    ft_gov_costs_init(&e->costs);
    e->costs.margins = m->dev->unified; /* elsewhere the logits stay in device memory */
    *out = e;
    return FT_OK;
}

void ft_engine_free(ft_engine *e)
{
    if (!e) return;
    ft_engine_unshare(e);
    for (int i = 0; i < e->p.slots; i++) ft_slot_free(&e->slot[i]);
    for (int i = 0; i < e->n_ngram_drafter; i++)
        e->ngram_drafter[i].free(e->ngram_drafter[i].state);
    ft_free(e->ngram_drafter);
    ft_sample_scratch_free(e->scratch);
    if (e->draft_runner != e->runner) ft_runner_free(e->draft_runner);
    ft_runner_free(e->runner);
    ft_cache_free(e->draft_cache);
    ft_cache_free(e->cache);
    ft_masks_free(e->masks);
    ft_free(e->slot);
    ft_free(e->seen);
    ft_free(e->choice);
    ft_free(e);
}

bool ft_engine_drafts(const ft_engine *e)
{
    return e->drafter != NULL;
}

void ft_engine_add_ngram_drafter(ft_engine *e, ft_ngram_drafter g)
{
    e->ngram_drafter =
        ft_realloc(e->ngram_drafter, sizeof *e->ngram_drafter * (size_t)(e->n_ngram_drafter + 1));
    e->ngram_drafter[e->n_ngram_drafter++] = g;
}

void ft_engine_trace(ft_engine *e, void (*fn)(void *user, const char *line), void *user)
{
    e->trace = fn;
    e->trace_user = user;
}

/* ---- slots ---- */

ft_slot *ft_slot_new(ft_engine *e)
{
    for (int i = 0; i < e->p.slots; i++) {
        ft_slot *s = &e->slot[i];
        if (s->state != SLOT_FREE) continue;
        *s = (ft_slot){.e = e, .state = SLOT_IDLE, .seq = ft_seq_new(e->cache)};
        ft_runner_adapt(e->runner, ft_seq_slot(s->seq), NULL);
        if (e->draft_cache) s->draft_model.seq = ft_seq_new(e->draft_cache);
        assert(s->seq && !s->draft_model.seq == !e->draft_cache);
        s->ids = ft_new_n(int32_t, (size_t)e->p.ctx + 1);
        s->key = ft_new_n(int32_t, (size_t)e->p.ctx + 1);
        s->bits = ft_new_n(uint32_t, FT_MASK_WORDS(e->m->V));
        s->logprob = ft_new_n(ft_logprob, 1 + FT_LOGPROBS_MAX);
        if (e->p.reject && e->drafter) {
            s->draft.p = ft_new_n(float, (size_t)e->m->V);
            s->draft.q = ft_new_n(float, (size_t)e->m->V *(size_t)e->p.draft_max);
        }
        return s;
    }
    return NULL;
}

void ft_slot_free(ft_slot *s)
{
    if (!s || s->state == SLOT_FREE) return;
    ft_mask_thread_free(s);
    if (s->mask_ahead) s->task.mask.free(s->mask_ahead);
    ft_seq_free(s->seq);
    if (s->draft_model.seq) ft_seq_free(s->draft_model.seq);
    ft_sampler_free(s->sampler);
    ft_sampler_free(s->draft.sampler);
    ft_free(s->ids);
    ft_free(s->key);
    ft_free(s->bits);
    ft_free(s->logprob);
    ft_free(s->held.logits);
    ft_free(s->draft.p);
    ft_free(s->draft.q);
    *s = (ft_slot){0};
}

uint64_t ft_slot_salt(const ft_slot *s)
{
    return slot_len(s) ? s->task.salt : 0;
}

int ft_slot_match(const ft_slot *s, const ft_task *t)
{
    const bool ours = s->task.salt == t->salt && s->lora_key == ft_reuse_lora_key(s->e, t->lora);
    const int most = ours ? FT_MIN(slot_len(s), t->n_prompt - 1) : 0;
    int same = 0, range = 0;
    while (same < most && (s->e->prefix ? s->key[same] == ft_reuse_key(s->e, t, same, &range)
                                        : s->ids[same] == t->prompt[same]))
        same++;
    return same;
}

/* Rewinds the slot to the prefix that it shares with the prompt. */
static int rewound(ft_slot *s, int same)
{
    if (same > 0 && ft_seq_rewind(s->seq, same)) {
        s->head.fed = FT_MIN(s->head.fed, same + 1);
        return same;
    }
    ft_seq_rewind(s->seq, 0);
    s->head.fed = 0;
    return 0;
}

/* How many prompt tokens need not be computed. At least one token is always computed, for its
 * logits. With prefix checkpoints enabled, a slot reuses only states that are bit-identical to a
 * prompt computed from the start. Fills s->key. */
static int reusable(ft_slot *s, const ft_task *j)
{
    const int most = j->scored ? FT_MIN(j->n_prompt, j->score_from + 1) : j->n_prompt;
    const int same = FT_MIN(ft_slot_match(s, j), most - 1), own = ft_reuse_own(s, same);
    ft_reuse_keys(s, j);
    s->lora_key = ft_reuse_lora_key(s->e, j->lora);
    if (j->hidden) return rewound(s, 0); /* the hidden rows of all positions are needed */
    if (!s->e->prefix) return rewound(s, same);
    if (!j->cache_prompt) return rewound(s, 0);
    if (s->saved > own) s->saved = 0;
    const int found = ft_reuse_find(s, j->salt + s->lora_key, most, own);
    if (found) return s->saved = found;
    return rewound(s, FT_MIN(own, slot_len(s))); /* if pages ran out, nothing is left */
}

static ft_status make_samplers(ft_slot *s, const ft_task *j, ft_err *err)
{
    ft_sampler_free(s->sampler);
    ft_sampler_free(s->draft.sampler);
    s->sampler = s->draft.sampler = NULL;
    ft_status st = ft_sampler_new(&s->sampler, &j->sampling, s->e->m->V, s->e->scratch, err);
    if (st) return st;
    ft_sample_params drafts = j->sampling;
    if (!s->draft.q) drafts.temperature = 0;
    drafts.mirostat = 0;
    return ft_sampler_new(&s->draft.sampler, &drafts, s->e->m->V, s->e->scratch, err);
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
    for (int i = 0, k = 0; i < t->n_prompt; i++) {
        const ft_task_image *m = k < t->n_image ? &t->image[k] : NULL;
        if (m && i == m->first) { /* ids of images are none of the model's */
            i += m->rows * m->cols - 1;
            k++;
            continue;
        }
        if (t->prompt[i] < 0 || t->prompt[i] >= e->m->V)
            return ft_fail(err, FT_EINVAL, "token %d of the prompt is %d, want 0 to %d", i,
                           t->prompt[i], e->m->V - 1);
    }
    if (t->scored && !e->p.score_rows)
        return ft_fail(err, FT_EUNSUPPORTED,
                       "the model was opened without score_rows, so prompts cannot be scored");
    const ft_status st = ft_images_check(e, t, err);
    if (st) return st;
    return ft_sample_check(&t->sampling, e->m->V, err);
}

ft_status ft_slot_start(ft_slot *s, const ft_task *j, ft_err *err)
{
    assert(s->state == SLOT_IDLE);
    const ft_engine *e = s->e;
    ft_status st = ft_task_check(e, j, err);
    if (st) return st;
    if ((st = make_samplers(s, j, err))) return st;
    ft_draft_model_start(s, j);
    s->stats = (ft_stats){.cached_n = reusable(s, j)};
    s->stats.prompt_n = j->n_prompt - s->stats.cached_n;
    if (j->cache_prompt) *(s->stats.cached_n ? &s->e->reuse_hits : &s->e->reuse_misses) += 1;
    s->task = *j;
    s->task.prompt = s->ids;
    ft_runner_adapt(e->runner, ft_seq_slot(s->seq), j->lora);
    memcpy(s->ids, j->prompt, sizeof(int32_t) * (size_t)j->n_prompt);
    s->n_ids = j->n_prompt;
    ft_reuse_plan(s);
    for (int i = 0; i < j->n_prompt; i++)
        if (s->ids[i] >= 0) ft_sampler_accept(s->sampler, s->ids[i]);
    s->draft.n = s->draft.next_max = s->rows.n = s->mark = 0;
    s->paused = false;
    s->preparing = j->n_image && j->prepare;
    s->waited = 0;
    s->arrival = ++s->e->arrivals;
    s->draft.method = -1;
    s->draft.dropped = false;
    ft_gov_init(&s->gov.head, &e->costs, false);
    ft_gov_init(&s->gov.ngram, &e->costs, true);
    s->finish = FT_FINISH_NONE;
    s->error[0] = 0;
    s->t_start = ft_now_ns();
    s->t_first = 0;
    s->state = SLOT_PREFILL;
    return FT_OK;
}

static void forget_ahead(ft_slot *s)
{
    if (s->mask_ahead) s->task.mask.free(s->mask_ahead);
    s->mask_ahead = NULL;
}

void ft_slot_end(ft_slot *s, ft_finish why)
{
    if (s->state < SLOT_PREFILL) return;
    s->state = SLOT_IDLE;
    if (s->swapped) {
        ft_swapped_free(s->swapped);
        s->swapped = NULL;
        ft_seq_rewind(s->seq, 0);
        s->head.fed = 0;
    }
    s->finish = why;
    s->draft.n = 0;
    s->held.on = false;
    ft_mask_drop(s);
    forget_ahead(s);
    if (s->t_first) s->stats.predicted_s = (double)(ft_now_ns() - s->t_first) * 1e-9;
}

bool ft_slot_busy(const ft_slot *s)
{
    return s->state >= SLOT_PREFILL;
}

ft_finish ft_slot_finish(const ft_slot *s)
{
    return s->finish;
}

const char *ft_slot_error(const ft_slot *s)
{
    return s->error;
}

const ft_stats *ft_slot_stats(const ft_slot *s)
{
    return &s->stats;
}

void ft_slot_cancel(ft_slot *s)
{
    ft_slot_end(s, FT_FINISH_STOP);
}

void ft_slot_pause(ft_slot *s, bool hold)
{
    s->paused = hold;
}

/* ---- steps ---- */

static void slot_fail(ft_engine *e, const ft_err *err)
{
    if (!e->fault[0]) snprintf(e->fault, sizeof e->fault, "%s", err->text);
    for (int i = 0; i < e->p.slots; i++) {
        ft_slot *s = &e->slot[i];
        if (s->state < SLOT_PREFILL) continue;
        snprintf(s->error, sizeof s->error, "%s", err->text);
        ft_slot_end(s, FT_FINISH_ERROR);
    }
}

/* The prompt is complete. Response time is measured from the first token on. */
static void prompt_done(ft_slot *s)
{
    s->t_first = ft_now_ns();
    s->stats.prompt_s = (double)(s->t_first - s->t_start) * 1e-9;
    for (int i = 0; !s->task.n_image && i < s->e->n_ngram_drafter; i++) {
        const ft_ngram_drafter *g = &s->e->ngram_drafter[i];
        g->begin(g->state, slot_index(s), s->ids, s->task.n_prompt);
    }
    if (s->task.max_tokens == 0)
        ft_slot_end(s, FT_FINISH_LENGTH);
    else
        ft_verify_first(s);
}

static void give_hidden(ft_slot *s)
{
    ft_engine *e = s->e;
    float *row = ft_new_n(float, (size_t)e->m->D);
    for (int i = 0; i < s->rows.n; i++) {
        ft_runner_hidden_get(e->runner, ft_hidden_trunk(e->runner, s->rows.first + i), row);
        s->task.hidden(s->task.user, s->rows.first_pos + i, row);
    }
    ft_free(row);
}

static void give_scores(ft_slot *s)
{
    ft_engine *e = s->e;
    for (int i = 0; i < s->rows.n_score; i++) {
        const int at = s->rows.score_pos + i + 1; /* the token that this row predicts */
        const int n = ft_logprobs(ft_runner_logits(e->runner, s->rows.first_score + i), e->m->V,
                                  s->ids[at], s->task.top_logprobs, s->logprob);
        s->task.scored(s->task.user, at, s->logprob, n);
    }
}

static void read_rows(ft_engine *e)
{
    for (int i = 0; i < e->p.slots; i++) {
        ft_slot *s = &e->slot[i];
        if (!s->rows.n) continue;
        if (s->state == SLOT_DECODE) {
            ft_verify(s);
        } else if (s->state == SLOT_PREFILL) {
            ft_seq_accept(s->seq, s->rows.n);
            if (s->task.hidden) give_hidden(s);
            if (s->task.scored) give_scores(s);
            if (slot_len(s) == s->task.n_prompt) prompt_done(s);
        }
    }
}

static bool any_busy(const ft_engine *e)
{
    for (int i = 0; i < e->p.slots; i++)
        if (e->slot[i].state >= SLOT_PREFILL) return true;
    return false;
}

/* A slot that continues an earlier sequence: its MTP head may be behind. */
static bool any_behind(const ft_engine *e)
{
    for (int i = 0; i < e->p.slots; i++) {
        const ft_slot *s = &e->slot[i];
        if (s->state == SLOT_PREFILL && !s->swapped && !s->preparing && slot_len(s) > 0 &&
            s->head.fed <= slot_len(s))
            return true;
    }
    return false;
}

/* If some responses rested, the step is for the governor one of all of them that took longer, so
 * that drafting is compared with what its absence takes. */
static void time_step(ft_engine *e, int slots, int rows, double seconds)
{
    const int all = slots + e->resting;
    if (rows == slots) ft_rotation_timed(&e->rotation, slots, seconds);
    ft_gov_trunk(&e->costs, all, rows + e->resting, seconds * all / slots);
}

/* The trunk pass of a step, timed for the governor if it has no prompt rows. */
static ft_status trunk(ft_engine *e, ft_err *err)
{
    int64_t cells = 0;
    int slots = 0;
    bool fixed = false;
    for (int i = 0; i < e->p.slots; i++) {
        const ft_slot *s = &e->slot[i];
        if (s->state != SLOT_DECODE) continue;
        cells += slot_len(s);
        slots += s->rows.n > 0;
        fixed = fixed || (s->draft.n && !ft_slot_governed(s));
    }
    ft_gov_step(&e->costs, cells, !e->pure, fixed);
    const int64_t start = ft_now_ns();
    const int rows = e->rows_now;
    ft_runner_trunk_begin(e->runner);
    ft_mask_limit(e, e->prefill.plain_s);
    ft_draw_plan(e);
    const ft_status st = ft_runner_wait(e->runner, err);
    if (st) return st;
    e->steps++;
    ft_mask_limit(e, (double)(ft_now_ns() - start) * 1e-9);
    read_rows(e);
    const double seconds = (double)(ft_now_ns() - start - e->mask_wait_ns) * 1e-9;
    if (e->pure && !ft_runner_fresh(e->runner)) time_step(e, slots, rows, seconds);
    for (int i = 0; i < e->p.slots; i++)
        if (e->slot[i].rows.n) e->slot[i].stats.verify_s += seconds;
    return FT_OK;
}

/* Tokens of rows whose mask was not ready in the step that computed them. */
static void read_held(ft_engine *e)
{
    for (int i = 0; i < e->p.slots; i++) {
        ft_slot *s = &e->slot[i];
        s->held.sampled = false;
        if (!s->held.on || s->paused) continue;
        ft_verify_held(s);
        ft_reuse_ended(s);
    }
}

/* Adds the time since the start of the last step, if there was work all the time. */
static void count_time(ft_engine *e)
{
    const int64_t now = ft_now_ns();
    const double busy = e->m->dev->busy_s;
    if (e->run_ns) {
        e->time.run_s += (double)(now - e->run_ns) * 1e-9;
        e->time.busy_s += busy - e->run_busy;
    }
    e->run_ns = now;
    e->run_busy = busy;
}

ft_device_time ft_engine_device_time(const ft_engine *e)
{
    return e->time;
}

bool ft_engine_step(ft_engine *e)
{
    ft_err err;
    ft_status st = FT_OK;
    if (!any_busy(e)) {
        e->run_ns = 0;
        return false;
    }
    count_time(e);
    read_held(e);
    e->mask_wait_ns = 0;
    const int64_t start = ft_now_ns();
    ft_images_prepare(e);
    if (e->kind == FT_DRAFT_MTP && any_behind(e)) st = ft_head_catch_up(e, &err);
    if (!st && ft_batch_fill(e)) {
        st = trunk(e, &err);
        if (!st && (e->drafter || e->n_ngram_drafter)) st = ft_draft(e, &err);
    } else if (!st) {
        ft_mask_wait_any(e);
    }
    if (st)
        slot_fail(e, &err);
    else
        ft_reuse_save(e);
    ft_prefill_record(e, e->rows_now, (double)(ft_now_ns() - start - e->mask_wait_ns) * 1e-9);
    if (any_busy(e)) return true;
    count_time(e);
    e->run_ns = 0;
    return false;
}

const char *ft_engine_fault(const ft_engine *e)
{
    return e->fault[0] ? e->fault : NULL;
}

ft_status ft_slot_score(ft_slot *s, const int32_t *ids, int n, int from,
                        void (*row)(void *user, int index, const float *logits), void *user,
                        ft_err *err)
{
    ft_engine *e = s->e;
    assert(s->state == SLOT_IDLE && e->p.score_rows > 0);
    if (n > e->p.ctx)
        return ft_fail(err, FT_ELIMIT, "%d tokens to score, the context has room for %d", n,
                       e->p.ctx);
    ft_seq_rewind(s->seq, 0);
    if (s->draft_model.seq) ft_seq_rewind(s->draft_model.seq, 0);
    s->head.fed = s->n_ids = 0;
    ft_runner_adapt(e->runner, ft_seq_slot(s->seq), NULL);
    ft_status st = FT_OK;
    for (int at = 0, step; at < n && !st; at += step) {
        step = FT_MIN(n - at, at < from ? FT_MIN(e->p.rows, from - at) : e->p.score_rows);
        if (!ft_seq_reserve(s->seq, step))
            return ft_fail(err, FT_ELIMIT, "the cache has no room for %d tokens", n);
        ft_rowset *w = ft_runner_rows(e->runner);
        const int first = ft_rows_span(w, s->seq, step, false);
        memcpy(w->token + first, ids + at, sizeof(int32_t) * (size_t)step);
        for (int i = 0; i < step && at >= from; i++) ft_rows_out(w, first + i);
        st = ft_runner_trunk(e->runner, err);
        ft_seq_accept(s->seq, step);
        for (int i = 0; i < step && at >= from && !st; i++)
            row(user, at + i, ft_runner_logits(e->runner, i));
    }
    ft_seq_rewind(s->seq, 0);
    return st;
}

/* One step over `rows` tokens that repeat ids[0..n-1]. */
static ft_status one_step(ft_slot *s, const int32_t *ids, int n, int rows, bool tentative,
                          ft_err *err)
{
    ft_engine *e = s->e;
    if (!ft_seq_reserve(s->seq, rows))
        return ft_fail(err, FT_ELIMIT, "the cache has no room for %d tokens", slot_len(s) + rows);
    ft_rowset *w = ft_runner_rows(e->runner);
    const int first = ft_rows_span(w, s->seq, rows, tentative);
    for (int i = 0; i < rows; i++) w->token[first + i] = ids[(slot_len(s) + i) % n];
    for (int i = tentative ? 0 : rows - 1; i < rows; i++) ft_rows_out(w, first + i);
    return ft_runner_trunk(e->runner, err);
}

ft_status ft_slot_steps(ft_slot *s, const int32_t *ids, int n, int rows, int steps, double *seconds,
                        ft_err *err)
{
    const ft_engine *e = s->e;
    assert(s->state == SLOT_IDLE && n > 0);
    if (rows < 1 || rows > ft_most_drafts(&e->p) + 1)
        return ft_fail(err, FT_EINVAL, "steps of %d rows, want 1 to %d", rows,
                       ft_most_drafts(&e->p) + 1);
    ft_seq_rewind(s->seq, 0);
    s->head.fed = s->n_ids = 0;
    ft_status st = FT_OK;
    while (slot_len(s) < n && !st) {
        const int part = FT_MIN(n - slot_len(s), e->p.rows);
        st = one_step(s, ids, n, part, false, err);
        ft_seq_accept(s->seq, part);
    }
    for (int i = 0; i < steps && !st; i++) {
        const int64_t start = ft_now_ns();
        st = one_step(s, ids, n, rows, rows > 1, err);
        seconds[i] = (double)(ft_now_ns() - start) * 1e-9;
        ft_seq_accept(s->seq, 1 + i % rows);
    }
    ft_seq_rewind(s->seq, 0);
    return st;
}

const ft_kv *ft_engine_kv(const ft_engine *e)
{
    return ft_cache_kv(e->cache);
}

void ft_engine_probe(ft_engine *e, ft_probe_fn *fn, void *user)
{
    ft_runner_probe(e->runner, fn, user);
}

void ft_engine_meter(ft_engine *e, ft_profile *m)
{
    ft_runner_meter(e->runner, m);
}
