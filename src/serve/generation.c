#include "serve/generation.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

enum {
    MAX_TEXT = 256 << 20,
    UNSENT_MAX = 64 << 10, /* maximum of unsent bytes; the response waits beyond that */
};

/* ---- from events to pieces ---- */

static json_t *token_json(const ft_generation *t, const ft_token_prob *p)
{
    const double logprob = fmax((double)p->logprob, -1e4); /* JSON has no infinity */
    json_t *j = json_object(), *bytes = json_array();
    char *text;
    size_t n;
    if (ft_vocab_decode(t->d->vocab, &p->id, 1, true, &text, &n, NULL)) {
        text = ft_strdup("");
        n = 0;
    }
    for (size_t i = 0; i < n; i++)
        json_array_append_new(bytes, json_integer((unsigned char)text[i]));
    json_object_set_new(j, "id", json_integer(p->id));
    json_object_set_new(j, "token", ft_json_string(text, n));
    json_object_set_new(j, "bytes", bytes);
    json_object_set_new(j, t->post_probs ? "prob" : "logprob",
                        json_real(t->post_probs ? exp(logprob) : logprob));
    free(text);
    return j;
}

/* [0] is the token, then come the most likely ones; an id of -1 ends the list. */
static json_t *probs_json(const ft_generation *t, const ft_token_prob *p, int n)
{
    json_t *j = token_json(t, &p[0]), *top = json_array();
    for (int i = 1; i < n && i <= t->top_logprobs && p[i].id >= 0; i++)
        json_array_append_new(top, token_json(t, &p[i]));
    json_object_set_new(j, t->post_probs ? "top_probs" : "top_logprobs", top);
    return j;
}

json_t *ft_prompt_probs(const ft_generation *t, const ft_choice *c)
{
    int n, width;
    const ft_token_prob *p = ft_job_scores(c->job, &n, &width);
    json_t *list = json_array();
    for (int i = 0; i < n; i++, p += width) {
        json_t *j = probs_json(t, p, width);
        if (isnan(p->logprob)) { /* nothing comes before the first token */
            json_object_set_new(j, t->post_probs ? "prob" : "logprob", json_null());
            json_object_set_new(j, t->post_probs ? "top_probs" : "top_logprobs", json_null());
        }
        json_array_append_new(list, j);
    }
    return list;
}

static void flush(ft_generation *t, ft_choice *c)
{
    const ft_piece p = {c->part,      c->part_call,   ft_buf_z(&c->piece), c->piece.len,
                        c->piece_ids, c->piece_probs, c->piece_drafted};
    const bool tokens = json_array_size(p.ids) || json_array_size(p.logprobs);
    if (t->stream && (p.n || p.part == FT_PART_CALL || tokens)) t->format->piece(t, c, &p);
    ft_buf_clear(&c->piece);
    if (c->piece_ids) json_array_clear(c->piece_ids);
    if (c->piece_probs) json_array_clear(c->piece_probs);
    c->part = FT_PART_ANSWER;
    c->part_call = 0;
}

static void begin_call(ft_choice *c, const ft_event *e)
{
    c->call = ft_realloc(c->call, sizeof *c->call * (size_t)(c->n_call + 1));
    ft_tool_call *k = &c->call[c->n_call++];
    *k = (ft_tool_call){.name = ft_alloc(e->bytes + 1)};
    memcpy(k->name, e->text, e->bytes);
    ft_random_id(k->id, "call_", 24);
    ft_buf_init(&k->args, MAX_TEXT);
}

static void take_token(ft_generation *t, ft_choice *c, const ft_event *e)
{
    if (c->first_s <= 0) c->first_s = ft_now_s();
    c->n_tokens++;
    c->drafted = e->drafted;
    if (t->return_tokens) {
        json_array_append_new(c->ids, json_integer(e->id));
        json_array_append_new(c->piece_ids, json_integer(e->id));
    }
    if (t->top_logprobs >= 0 && e->n_probs > 0) {
        json_t *j = probs_json(t, e->probs, e->n_probs);
        json_array_append(c->piece_probs, j);
        json_array_append_new(c->logprobs, j);
    }
}

/* Output that is not shown: reasoning if it was not requested, and text after a tool call, which
 * templates do not allow. */
static bool is_hidden(const ft_generation *t, const ft_choice *c, const ft_event *e)
{
    if (e->part == FT_PART_THOUGHT) return t->drop_thought;
    return e->part == FT_PART_ANSWER && c->n_call > 0;
}

static void take_text(ft_generation *t, ft_choice *c, const ft_event *e)
{
    const bool fresh = e->part == FT_PART_CALL;
    const bool other = t->return_drafted && c->drafted != c->piece_drafted;
    if (fresh || other || e->part != c->part || e->call != c->part_call) {
        if (c->piece.len || c->part == FT_PART_CALL) flush(t, c);
        c->part = e->part;
        c->part_call = e->call;
    }
    c->piece_drafted = c->drafted;
    ft_buf_put(&c->piece, e->text, e->bytes);
    switch (e->part) {
    case FT_PART_THOUGHT:
        ft_buf_put(&c->thought, e->text, e->bytes);
        if (t->both_thoughts) ft_buf_put(&c->answer, e->text, e->bytes);
        break;
    case FT_PART_ANSWER: ft_buf_put(&c->answer, e->text, e->bytes); break;
    case FT_PART_CALL: begin_call(c, e); break;
    case FT_PART_ARGS:
        if (c->n_call) ft_buf_put(&c->call[c->n_call - 1].args, e->text, e->bytes);
        break;
    }
}

static void take_event(ft_generation *t, ft_choice *c, const ft_event *e)
{
    if (e->id >= 0) take_token(t, c, e);
    if (!e->bytes && e->part != FT_PART_CALL) return;
    if (!is_hidden(t, c, e))
        take_text(t, c, e);
    else if (e->part == FT_PART_ANSWER)
        ft_log(FT_LOG_DEBUG, "%s: %zu bytes after a tool call were dropped", t->c->id, e->bytes);
}

/* Ends a response that exceeds max_ms, once it has a complete line. */
static void check_time_limit(ft_generation *t, ft_choice *c)
{
    if (!t->max_ms || c->first_s <= 0 || c->time_up) return;
    if ((ft_now_s() - c->first_s) * 1e3 < t->max_ms) return;
    if (!memchr(ft_buf_z(&c->answer), '\n', c->answer.len)) return;
    c->time_up = true;
    ft_job_cancel(c->job);
}

/* ---- pump ---- */

static void end_choice(ft_generation *t, ft_choice *c)
{
    c->done = true;
    c->st = ft_job_result(c->job, &c->response, &c->err);
    if (c->time_up && c->response.reason == FT_REASON_CANCEL) c->response.reason = FT_REASON_LENGTH;
    const double first = c->first_s > 0 ? c->first_s - t->c->begun_s : -1;
    ft_metrics_response(&t->c->s->metrics, &c->response, first);
    if (!c->st && c->response.reason == FT_REASON_CANCEL && !atomic_load(&t->c->gone))
        c->st = ft_fail(&c->err, FT_ECANCELLED, "the server is shutting down");
    if (!c->st && t->stream) t->format->end(t, c);
}

/* The first event says that nothing is processed, the last one, before the first token, that
 * everything is. */
static void send_progress(ft_generation *t, ft_choice *c)
{
    ft_job_progress p;
    if (!t->progress || !t->format->progress || (c->n_tokens && t->done_tokens >= 0)) return;
    ft_job_look(c->job, &p);
    if (p.slot < 0) return;
    if (t->done_tokens < 0) {
        ft_job_progress first = p;
        t->done_tokens = first.done_tokens = p.cached_tokens;
        t->format->progress(t, c, &first);
    }
    if (p.done_tokens <= t->done_tokens) return;
    t->done_tokens = p.done_tokens;
    t->format->progress(t, c, &p);
}

static void pump_choice(ft_generation *t, ft_choice *c)
{
    ft_event e;
    if (t->stream) send_progress(t, c);
    while ((!t->stream || t->c->out.len < UNSENT_MAX) && ft_job_next(c->job, &e)) {
        if (t->stream && !c->n_tokens) send_progress(t, c);
        take_event(t, c, &e);
    }
    check_time_limit(t, c);
    if (t->stream || ft_job_done(c->job)) flush(t, c);
    if (ft_job_done(c->job)) end_choice(t, c);
}

static void record_usage(ft_generation *t)
{
    const ft_usage u = ft_generation_usage(t);
    const ft_choice *c = &t->choice[0];
    const ft_response *r = &c->response;
    ft_call *call = t->c;
    call->usage.set = true;
    call->usage.prompt = u.prompt;
    call->usage.cached = u.cached;
    call->usage.output = u.response;
    call->usage.first_ms = c->first_s > 0 ? (c->first_s - call->begun_s) * 1e3 : 0;
    call->usage.per_second = ft_response_rate(r);
    call->usage.per_step =
        r->draft_steps > 0 ? 1 + (double)r->accepted / (double)r->draft_steps : 1;
    call->usage.reason = c->st ? "error" : ft_finish_reason(c);
}

/* Returns the error of the first choice that failed. */
static bool first_error(const ft_generation *t, ft_http_error *error)
{
    for (int i = 0; i < t->n; i++)
        if (t->choice[i].st)
            return !ft_http_error_from(error, t->choice[i].st, NULL, &t->choice[i].err);
    return false;
}

static void send_error(ft_generation *t, const ft_http_error *error)
{
    if (t->format->error)
        t->format->error(t, error);
    else
        ft_generation_event(t, NULL, ft_error_openai(error));
}

static void send_ping(ft_generation *t)
{
    if (t->format->ping)
        t->format->ping(t);
    else
        ft_sse_ping(t);
}

static void complete(ft_generation *t)
{
    ft_http_error error;
    record_usage(t);
    t->finished = true;
    if (first_error(t, &error)) {
        if (t->stream)
            send_error(t, &error);
        else
            ft_call_fail(t->c, &error);
    } else if (!t->stream) {
        ft_call_json(t->c, 200, ft_with_warnings(t, t->format->whole(t)));
    } else if (t->format->finish) {
        t->format->finish(t);
    }
}

static bool pump(ft_call *call)
{
    ft_generation *t = call->user;
    bool done = true;
    for (int i = 0; i < t->n; i++) {
        if (!t->choice[i].done) pump_choice(t, &t->choice[i]);
        done &= t->choice[i].done;
    }
    if (done && !t->finished) complete(t);
    if (atomic_exchange(&call->ping_due, false) && t->stream && !done && !call->out.len)
        send_ping(t);
    return done;
}

/* ---- start, cancel and release ---- */

static void cancel(ft_call *call)
{
    ft_generation *t = call->user;
    for (int i = 0; i < t->n; i++) ft_job_cancel(t->choice[i].job);
}

static void free_choice(ft_choice *c)
{
    ft_job_free(c->job);
    ft_buf_release(&c->answer);
    ft_buf_release(&c->thought);
    ft_buf_release(&c->piece);
    for (int i = 0; i < c->n_call; i++) {
        ft_free(c->call[i].name);
        ft_buf_release(&c->call[i].args);
    }
    ft_free(c->call);
    json_decref(c->ids);
    json_decref(c->logprobs);
    json_decref(c->piece_ids);
    json_decref(c->piece_probs);
}

static void free_generation(ft_generation *t)
{
    for (int i = 0; i < t->n; i++) free_choice(&t->choice[i]);
    ft_free(t->choice);
    ft_free(t->model);
    json_decref(t->warnings);
    json_decref(t->extra);
    ft_free(t);
}

static void release(ft_call *call)
{
    free_generation(call->user);
}

static void wake(void *user)
{
    ft_call_wake(user);
}

static ft_status start_choice(ft_generation *t, ft_choice *c, const ft_gen_params *a,
                              const ft_prompt *p, ft_err *err)
{
    ft_request r = a->r;
    r.ids = p->ids;
    r.n_ids = p->n;
    r.progress = t->progress && t->stream;
    r.top_logprobs = t->top_logprobs;
    c->seed = r.sampling.seed = (a->r.sampling.seed + (uint64_t)(c->index % a->n)) & 0xFFFFFFFFu;
    c->n_prompt = p->n;
    c->block = -1;
    ft_buf_init(&c->answer, MAX_TEXT);
    ft_buf_init(&c->thought, MAX_TEXT);
    ft_buf_init(&c->piece, MAX_TEXT);
    if (t->return_tokens) c->ids = json_array(), c->piece_ids = json_array();
    if (t->top_logprobs >= 0) c->logprobs = json_array(), c->piece_probs = json_array();
    return ft_job_new(&c->job, t->d->llm, &r, wake, t->c, err);
}

static ft_generation *new_generation(ft_call *c, ft_served *d, const ft_api_format *format,
                                     const ft_gen_params *a, const char *model, json_t *extra)
{
    ft_generation *t = ft_new(ft_generation);
    t->c = c;
    t->d = d;
    t->format = format;
    t->created = ft_unix_time();
    t->model = ft_strdup(model ? model : d->name);
    t->stream = a->stream;
    t->include_usage = a->include_usage;
    t->timings_per_token = a->timings_per_token;
    t->return_tokens = a->return_tokens;
    t->return_drafted = a->return_drafted;
    t->progress = a->progress;
    t->post_probs = a->post_probs;
    t->drop_thought = a->drop_thought;
    t->both_thoughts = a->both_thoughts;
    t->top_logprobs = a->r.top_logprobs;
    t->max_ms = a->max_ms;
    t->done_tokens = -1;
    t->warnings = json_incref(a->warnings);
    t->extra = extra;
    c->ping_s = a->ping_s;
    return t;
}

static bool fits(const ft_served *d, const ft_prompt *p, ft_http_error *error)
{
    if (p->n > 0 && p->n < d->info->ctx) return true;
    if (!p->n) return ft_http_error_set(error, FT_ERR_INVALID, "prompt", "the prompt is empty");
    ft_http_error_set(error, FT_ERR_CONTEXT, NULL,
                      "the request has %d tokens and exceeds the available context size: the "
                      "maximum context length is %d tokens",
                      p->n, d->info->ctx);
    error->n_prompt = p->n;
    error->n_ctx = d->info->ctx;
    return false;
}

/* Whether one client may have so many jobs at a time. */
static bool within_share(const ft_served *d, int n_prompt, int n, ft_http_error *error)
{
    if (n_prompt * n <= d->info->jobs_max) return true;
    return ft_http_error_set(
        error, FT_ERR_INVALID, n_prompt > 1 ? "prompt" : "n",
        "the request is for %d responses (%d prompts, n = %d), want at most %d "
        "(--queue-per-client)",
        n_prompt * n, n_prompt, n, d->info->jobs_max);
}

void ft_generation_start(ft_call *c, ft_served *d, const ft_api_format *format, const char *prefix,
                         ft_gen_params *a, const ft_prompt *prompt, int n_prompt, const char *model,
                         json_t *extra)
{
    a->r.cache_salt = ft_call_salt(c);
    ft_generation *t = new_generation(c, d, format, a, model, extra);
    ft_http_error error;
    ft_err err;
    ft_status st = FT_OK;
    bool ok = within_share(d, n_prompt, a->n, &error);
    ft_random_id(t->id, prefix, 32);
    a->r.client = ft_call_client(c);
    for (int i = 0; i < n_prompt && ok; i++) ok = fits(d, &prompt[i], &error);
    t->choice = ft_new_n(ft_choice, (size_t)n_prompt * (size_t)a->n);
    for (int i = 0; ok && i < n_prompt * a->n; i++) {
        ft_choice *k = &t->choice[t->n++];
        k->index = i;
        k->prompt = i / a->n;
        if ((st = start_choice(t, k, a, &prompt[k->prompt], &err)))
            ok = ft_http_error_from(&error, st, NULL, &err);
        if (st == FT_EDEVICE)
            error.kind = FT_ERR_UNAVAILABLE; /* rejected before it started: the client may retry */
    }
    if (!ok) {
        free_generation(t);
        ft_call_fail(c, &error);
        return;
    }
    memcpy(c->ignored, a->ignored, sizeof c->ignored);
    c->user = t;
    c->pump = pump;
    c->cancel = cancel;
    c->release = release;
    if (!t->stream) return;
    ft_call_stream(c, format->stream_type ? format->stream_type : "text/event-stream");
    if (format->begin) format->begin(t);
}

bool ft_generation_end_thought(ft_server *s, const char *id)
{
    bool found = false;
    pthread_mutex_lock(&s->lock);
    for (const ft_call *c = s->calls; c; c = c->next) {
        const ft_generation *t = c->pump == pump ? c->user : NULL;
        if (!t || strcmp(t->id, id)) continue;
        for (int i = 0; i < t->n; i++) ft_job_end_thought(t->choice[i].job);
        found = true;
    }
    pthread_mutex_unlock(&s->lock);
    return found;
}
