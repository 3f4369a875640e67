/* tests/serve/scripted.h - a scripted model: implements the part of foretoken.h that the server
 * uses, without weights. The response to a prompt that contains "say:" is the text after it, up to
 * the end of the turn. "say/20ms:" waits 20 ms before each token, "say/fail:" fails at the end,
 * "say/die:" fails permanently, "say/hold:" starts and "say/stay:" ends when ft_scripted_go is
 * called, "say/step:" generates one token each time the reader has read everything, which makes a
 * stream reproducible.
 * Vocabulary, template, stop strings and response parser are the real ones. Include it in one file
 * of a program. */
#ifndef FT_TESTS_SCRIPTED_H
#define FT_TESTS_SCRIPTED_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "foretoken.h"
#include "text/bpe.h"
#include "text/chat.h"
#include "text/detok.h"
#include "text/stop.h"
#include "text/stream.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { SCRIPT_LANES = 64, SCRIPT_EVENTS = 128, SCRIPT_CTX = 4096, SCRIPT_WIDTH = 8 };

typedef struct script_event {
    ft_event e;
    char *text;
    ft_token_prob prob[8];
} script_event;

struct ft_job {
    ft_llm *m;
    ft_job *next;
    void (*wake)(void *user);
    void *user;
    pthread_mutex_t lock;
    uint64_t id, salt;
    /* the request */
    ft_ids response;
    char *stop_word[64];
    int n_stop, max_tokens, top_logprobs, n_prompt, cached;
    double pace_s, due_s;
    bool fail, die, hold, stay, step;
    /* state of the response */
    int slot; /* -1: waiting */
    uint64_t client;
    size_t at;
    ft_detok detok;
    ft_stop stop;
    ft_stream *stream;
    json_t *tools;
    script_event event[SCRIPT_EVENTS];
    int first, n;
    script_event out; /* the last event returned */
    ft_event now;     /* of the current token */
    bool hungry;      /* the reader found no event */
    bool told, stopped, cancelled, end_thought, ended, freed, thinking;
    int n_out, n_thought;
    ft_token_prob *score;
    double first_s, last_s;
};

struct ft_embedding {
    ft_llm *m;
    ft_embedding *next;
    void (*wake)(void *user);
    void *user;
    float *out;
    double due_s;
    bool cancelled, freed, done;
};

struct ft_llm {
    bool hurry; /* scripts do not wait */
    ft_embedding *embeddings;
    double embed_s; /* that a text takes to become a vector */
    ft_vocab *vocab;
    ft_chat_template *chat;
    char *source;
    ft_llm_info info;
    pthread_mutex_t lock;
    pthread_t thread;
    ft_job *jobs; /* oldest first */
    bool stop, slot_busy[SCRIPT_LANES], go;
    int slots, waiting_max; /* as ft_queue_params has them */
    uint64_t slot_salt[SCRIPT_LANES];
    uint64_t next_id;
    float lora[2], last_lora[2]; /* scales of two adapters; those of the last request */
    ft_ids last; /* the last prompt: its common prefix with the next counts as cached */
    ft_llm_stats n;
};

/* ---- output ---- */

static inline void script_tell(ft_job *j, ft_event_part part, int call, ft_str text)
{
    script_event *s = &j->event[(j->first + j->n++) % SCRIPT_EVENTS];
    *s = (script_event){.e = j->now, .text = ft_alloc(text.n + 1)};
    memcpy(s->text, text.p, text.n);
    s->e.text = s->text;
    s->e.bytes = text.n;
    s->e.part = part;
    s->e.call = call;
    if (j->told) {
        s->e.id = -1;
        s->e.n_probs = 0;
    }
    for (int i = 0; i < s->e.n_probs; i++)
        s->prob[i] = (ft_token_prob){s->e.id + i, -0.5f - (float)i};
    j->told = true;
}

static inline void script_delta(void *user, const ft_stream_delta *d)
{
    static const ft_event_part part[] = {
        [FT_DELTA_THOUGHT] = FT_PART_THOUGHT, [FT_DELTA_CONTENT] = FT_PART_ANSWER,
        [FT_DELTA_AFTER] = FT_PART_ANSWER,    [FT_DELTA_CALL] = FT_PART_CALL,
        [FT_DELTA_ARGS] = FT_PART_ARGS,
    };
    ft_job *j = user;
    j->thinking = d->kind == FT_DELTA_THOUGHT;
    script_tell(j, part[d->kind], d->index, d->text);
}

static inline void script_pass(ft_job *j, ft_str text)
{
    if (j->stream)
        ft_stream_feed(j->stream, text);
    else if (text.n)
        script_tell(j, FT_PART_ANSWER, 0, text);
}

static inline void script_text(ft_job *j, const ft_buf *text, bool last)
{
    ft_buf kept;
    ft_buf_init(&kept, 1 << 20);
    if (!j->stopped) j->stopped = ft_stop_feed(&j->stop, ft_buf_str(text), &kept);
    if (last && !j->stopped) ft_stop_end(&j->stop, &kept);
    script_pass(j, ft_buf_str(&kept));
    ft_buf_release(&kept);
}

static inline void script_end(ft_job *j)
{
    ft_buf b;
    ft_buf_init(&b, 64);
    j->now = (ft_event){.id = -1};
    j->told = true;
    ft_detok_flush(&j->detok, &b);
    if (!j->cancelled) {
        script_text(j, &b, true);
        if (j->stream) ft_stream_end(j->stream);
    }
    ft_buf_release(&b);
    j->ended = true;
    j->fail |= j->die;
    j->m->n.failed |= j->die;
    if (j->slot >= 0) j->m->slot_busy[j->slot] = false;
    j->m->n.responses++;
    j->m->n.cancelled += j->cancelled;
    j->m->n.output_tokens += (uint64_t)j->n_out;
    j->m->n.prompt_tokens += (uint64_t)(j->n_prompt - j->cached);
    j->m->n.cached_tokens += (uint64_t)j->cached;
}

static inline void script_token(ft_job *j)
{
    ft_buf b;
    const int32_t id = j->response.id[j->at++];
    const double now = ft_now_s();
    ft_buf_init(&b, 4096);
    j->now = (ft_event){.id = id, .drafted = j->at % 2 == 0};
    j->now.n_probs = j->top_logprobs < 0 ? 0 : FT_MIN(8, j->top_logprobs + 1);
    j->told = false;
    if (!j->n_out++) j->first_s = now;
    j->last_s = now;
    ft_detok_push(&j->detok, id, &b);
    script_text(j, &b, false);
    j->n_thought += j->thinking;
    if (!j->told) script_tell(j, FT_PART_ANSWER, 0, FT_STR(""));
    ft_buf_release(&b);
    j->due_s = now + j->pace_s;
}

/* Advances a job; true when its reader should be woken. */
static inline bool script_step(ft_job *j, double now)
{
    ft_llm *m = j->m;
    if (j->ended) return false;
    if (j->cancelled) {
        script_end(j);
        return true;
    }
    for (int i = 0; j->slot < 0 && i < m->slots; i++) {
        if (m->slot_busy[i]) continue;
        m->slot_busy[i] = true;
        m->slot_salt[i] = j->salt;
        j->slot = i;
    }
    if (m->hurry) now = 1e300;
    if (j->slot < 0 || (j->hold && !m->go) || now < j->due_s) return false;
    if (j->step && !j->hungry) return false;
    j->hungry = false;
    bool news = false;
    while (j->n < SCRIPT_EVENTS / 2 && !j->ended && now >= j->due_s) {
        const bool over = j->at >= j->response.n || j->stopped || j->n_out == j->max_tokens;
        if (over && j->stay && !m->go) break;
        if (over)
            script_end(j);
        else
            script_token(j);
        news = true;
        if (j->step) break;
    }
    return news;
}

static inline void script_free(ft_job *j)
{
    for (; j->n; j->n--, j->first = (j->first + 1) % SCRIPT_EVENTS)
        ft_free(j->event[j->first].text);
    ft_free(j->out.text);
    for (int i = 0; i < j->n_stop; i++) ft_free(j->stop_word[i]);
    ft_stream_free(j->stream);
    ft_stop_release(&j->stop);
    ft_ids_release(&j->response);
    ft_free(j->score);
    json_decref(j->tools);
    pthread_mutex_destroy(&j->lock);
    ft_free(j);
}

/* Under the model's lock. */
static inline void script_embeddings(ft_llm *m, double now)
{
    for (ft_embedding **p = &m->embeddings; *p;) {
        ft_embedding *b = *p;
        const bool over = !b->done && (b->cancelled || m->stop || now >= b->due_s);
        if (over) {
            b->done = true;
            b->cancelled |= now < b->due_s;
            if (!b->freed) b->wake(b->user);
        }
        if (b->freed) {
            *p = b->next;
            ft_free(b->out);
            ft_free(b);
        } else {
            p = &b->next;
        }
    }
}

static inline void *script_run(void *arg)
{
    ft_llm *m = arg;
    for (;;) {
        pthread_mutex_lock(&m->lock);
        const bool stop = m->stop;
        const double now = ft_now_s();
        for (ft_job **p = &m->jobs; *p;) {
            ft_job *j = *p;
            pthread_mutex_lock(&j->lock);
            if (stop) j->cancelled = true;
            if (script_step(j, now) && !j->freed) j->wake(j->user);
            const bool gone = j->freed;
            if (gone && !j->ended) script_end(j);
            pthread_mutex_unlock(&j->lock);
            if (gone) {
                *p = j->next;
                script_free(j);
            } else {
                p = &j->next;
            }
        }
        script_embeddings(m, now);
        const bool left = m->jobs || m->embeddings;
        pthread_mutex_unlock(&m->lock);
        if (stop && !left) return NULL;
        usleep(500);
    }
}

/* ---- the model ---- */

static inline ft_llm *ft_scripted_open(const char *gguf, int slots, int waiting)
{
    ft_err err;
    ft_llm *m = ft_new(ft_llm);
    ft_gguf *g;
    ft_str source = {0};
    if (ft_gguf_open(&g, gguf, true, &err) || ft_vocab_open(&m->vocab, g, &err) ||
        !ft_gguf_str(g, "tokenizer.chat_template", &source) ||
        ft_chat_new(&m->chat, source, FT_STR(""), FT_STR("<|im_end|>"), &err)) {
        fprintf(stderr, "scripted model: %s: %s\n", gguf, err.text);
        exit(1);
    }
    m->source = ft_alloc(source.n + 1);
    memcpy(m->source, source.p, source.n);
    ft_gguf_close(g);
    m->slots = slots;
    m->waiting_max = waiting;
    m->info = (ft_llm_info){.path = "/somewhere/scripted.gguf",
                            .name = "scripted",
                            .arch = "scripted",
                            .device = "none",
                            .drafter = "every second token",
                            .cache = "",
                            .draft_type = "draft-mtp",
                            .drafts = true,
                            .draft_adapts = true,
                            .draft_max = 3,
                            .has_template = true,
                            .template_text = m->source,
                            .call_marker = "<tool_call>",
                            .bos = "",
                            .eos = "<|im_end|>",
                            .layers = 1,
                            .draft_layers = 2,
                            .width = SCRIPT_WIDTH,
                            .pooling = -1,
                            .vocab = ft_vocab_count(m->vocab),
                            .ctx = SCRIPT_CTX,
                            .ctx_train = SCRIPT_CTX,
                            .slots = slots,
                            .jobs_max = slots + waiting,
                            .weight_type = "F32",
                            .parameters = 1000,
                            .weight_bytes = 2000};
    ft_ids_init(&m->last, 1 << 26);
    pthread_mutex_init(&m->lock, NULL);
    pthread_create(&m->thread, NULL, script_run, m);
    return m;
}

static inline void ft_scripted_go(ft_llm *m)
{
    pthread_mutex_lock(&m->lock);
    m->go = true;
    pthread_mutex_unlock(&m->lock);
}

static inline void ft_scripted_close(ft_llm *m)
{
    pthread_mutex_lock(&m->lock);
    m->stop = true;
    pthread_mutex_unlock(&m->lock);
    pthread_join(m->thread, NULL);
    ft_ids_release(&m->last);
    ft_chat_free(m->chat);
    ft_vocab_free(m->vocab);
    ft_free(m->source);
    pthread_mutex_destroy(&m->lock);
    ft_free(m);
}

const ft_llm_info *ft_llm_about(const ft_llm *m)
{
    return &m->info;
}

const ft_vocab *ft_llm_vocab(const ft_llm *m)
{
    return m->vocab;
}

void ft_request_defaults(ft_request *r, const ft_llm *m)
{
    (void)m;
    *r = (ft_request){
        .max_tokens = -1,
        .top_logprobs = -1,
        .draft_max = 3,
        .reasoning_budget = -1,
        .cache_prompt = true,
        .slot = -1,
        .sampling = {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f}};
}

char *ft_llm_prompt_text(const ft_llm *m, const char *prompt)
{
    (void)m;
    return ft_strdup(prompt);
}

ft_status ft_llm_render(const ft_llm *m, const char *messages, const char *options, char **prompt,
                        bool *in_thought, ft_err *err)
{
    json_t *list = json_loads(messages, 0, NULL), *o = json_loads(options, 0, NULL);
    json_t *tools = json_incref(json_object_get(o, "tools"));
    const json_t *think = json_object_get(o, "enable_thinking");
    ft_chat_input in = {.messages = list,
                        .tools = tools,
                        .extra = o,
                        .add_generation_prompt =
                            !json_is_false(json_object_get(o, "add_generation_prompt")),
                        .thinking = json_is_true(think)    ? FT_THINK_ON
                                    : json_is_false(think) ? FT_THINK_OFF
                                                           : FT_THINK_UNSET};
    ft_buf b;
    ft_buf_init(&b, 1 << 26);
    const ft_status st = ft_chat_render(m->chat, &in, &b, err);
    if (!st) {
        *in_thought = ft_chat_in_thought(FT_CHAT_QWEN, ft_buf_str(&b));
        *prompt = ft_buf_take(&b);
    }
    ft_buf_release(&b);
    json_decref(tools);
    json_decref(list);
    json_decref(o);
    return st;
}

ft_status ft_llm_tool_grammar(const ft_llm *m, const char *tools, const ft_tool_rules *rules,
                              char **gbnf, const char **trigger, ft_err *err)
{
    (void)m, (void)tools, (void)rules, (void)err;
    *gbnf = ft_strdup("root ::= \"call\"");
    *trigger = "<tool_call>";
    return FT_OK;
}

/* ---- jobs ---- */

/* Reads the script from the prompt. */
static inline void script_read(ft_job *j, const char *text, size_t n)
{
    const ft_str t = {text, n};
    size_t at = SIZE_MAX;
    for (size_t k = 0; (k = ft_str_find(t, FT_STR("say"), k)) != SIZE_MAX; k++)
        if (k + 3 < n && (text[k + 3] == ':' || text[k + 3] == '/')) at = k + 3;
    ft_str say = FT_STR("ok");
    if (at != SIZE_MAX) {
        if (text[at] == '/') {
            j->fail = ft_str_starts((ft_str){text + at + 1, n - at - 1}, FT_STR("fail"));
            j->die = ft_str_starts((ft_str){text + at + 1, n - at - 1}, FT_STR("die"));
            j->hold = ft_str_starts((ft_str){text + at + 1, n - at - 1}, FT_STR("hold"));
            j->stay = ft_str_starts((ft_str){text + at + 1, n - at - 1}, FT_STR("stay"));
            j->step = ft_str_starts((ft_str){text + at + 1, n - at - 1}, FT_STR("step"));
            j->pace_s = (double)atoi(text + at + 1) * 1e-3; /* strtod reads "inf" too */
            at = ft_str_find(t, FT_STR(":"), at);
        }
        const size_t from = at == SIZE_MAX ? n : at + 1,
                     end = ft_str_find(t, FT_STR("<|im_end|>"), from);
        say = (ft_str){text + from, (end == SIZE_MAX ? n : end) - from};
    }
    ft_encode(j->m->vocab, say, FT_BPE_PARSE_SPECIAL, &j->response, NULL);
}

static inline void script_cached(ft_job *j, const ft_request *r)
{
    ft_llm *m = j->m;
    if (r->cache_prompt)
        while (j->cached < r->n_ids - 1 && (size_t)j->cached < m->last.n &&
               m->last.id[j->cached] == r->ids[j->cached])
            j->cached++;
    m->last.n = 0;
    for (int i = 0; i < r->n_ids; i++) ft_ids_put(&m->last, r->ids[i]);
}

static inline ft_status script_checks(const ft_request *r, ft_err *err)
{
    if (r->grammar && strstr(r->grammar, "broken"))
        return ft_fail(err, FT_EINVAL, "grammar: line 1: no rule named root");
    return FT_OK;
}

/* Leaves out the tokens that the request bans. */
static inline void script_ban(ft_job *j, const ft_sampling *s)
{
    size_t n = 0;
    for (size_t i = 0; i < j->response.n; i++) {
        bool banned = false;
        for (int k = 0; k < s->n_bias; k++)
            banned |= s->bias[k] < -1e20f && s->bias_id[k] == j->response.id[i];
        if (!banned) j->response.id[n++] = j->response.id[i];
    }
    j->response.n = n;
}

/* Token i of the prompt has the log probability -i. */
const ft_token_prob *ft_job_scores(const ft_job *j, int *n, int *width)
{
    *n = j->score ? j->n_prompt : 0;
    *width = 1 + j->top_logprobs;
    return j->score;
}

static inline void script_score(ft_job *j, const ft_request *r)
{
    const int w = 1 + r->top_logprobs;
    if (!r->score_prompt) return;
    j->score = ft_new_n(ft_token_prob, (size_t)(r->n_ids * w));
    for (int i = 0; i < r->n_ids * w; i++)
        j->score[i] = (ft_token_prob){r->ids[i / w] + i % w, i < w ? NAN : -(float)(i / w + i % w)};
}

/* Whether the job runs or waits. */
static inline bool script_live(ft_job *j)
{
    pthread_mutex_lock(&j->lock);
    const bool live = !j->ended && !j->freed;
    pthread_mutex_unlock(&j->lock);
    return live;
}

ft_status ft_job_new(ft_job **out, ft_llm *m, const ft_request *r, void (*wake)(void *user),
                     void *user, ft_err *err)
{
    ft_status st = script_checks(r, err);
    if (st) return st;
    pthread_mutex_lock(&m->lock);
    if (m->n.failed) {
        pthread_mutex_unlock(&m->lock);
        return ft_fail(err, FT_EDEVICE, "the device has failed");
    }
    int live = 0, same = 0;
    ft_job **end = &m->jobs;
    for (; *end; end = &(*end)->next) {
        live += script_live(*end);
        same += script_live(*end) && (*end)->client == r->client;
    }
    if (r->client && same >= m->info.jobs_max) {
        pthread_mutex_unlock(&m->lock);
        return ft_fail(err, FT_EBUSY, "%d requests of this client run or wait", same);
    }
    if (live >= m->slots + m->waiting_max || m->stop) {
        pthread_mutex_unlock(&m->lock);
        return ft_fail(err, m->stop ? FT_ECANCELLED : FT_EBUSY, "%d requests wait already",
                       m->waiting_max);
    }
    for (int i = 0; i < 2; i++)
        m->last_lora[i] = r->lora ? (i < r->n_lora ? r->lora[i] : 0) : m->lora[i];
    ft_job *j = ft_new(ft_job);
    pthread_mutex_init(&j->lock, NULL);
    j->m = m;
    j->id = ++m->next_id;
    j->salt = r->cache_salt;
    j->wake = wake;
    j->user = user;
    j->slot = -1;
    j->client = r->client;
    j->n_prompt = r->n_ids;
    j->max_tokens = r->max_tokens;
    j->top_logprobs = r->top_logprobs;
    ft_ids_init(&j->response, 1 << 26);
    char *text;
    size_t n;
    ft_vocab_decode(m->vocab, r->ids, (size_t)r->n_ids, true, &text, &n, NULL);
    script_read(j, text, n);
    script_ban(j, &r->sampling);
    script_score(j, r);
    free(text);
    ft_detok_init(&j->detok, m->vocab, r->special || r->parse);
    ft_str word[64];
    for (int i = 0; i < r->n_stop; i++) {
        j->stop_word[j->n_stop++] = ft_strdup(r->stop[i]);
        word[i] = ft_str_of(r->stop[i]);
    }
    ft_stop_init(&j->stop, word, r->n_stop, err);
    if (r->tools) j->tools = json_loads(r->tools, 0, NULL);
    const ft_stream_opts o = {FT_CHAT_QWEN, r->in_thought, r->keep_thoughts, !r->no_calls,
                              j->tools};
    j->thinking = r->in_thought;
    if (r->parse) j->stream = ft_stream_new(&o, script_delta, j);
    script_cached(j, r);
    *end = j;
    *out = j;
    pthread_mutex_unlock(&m->lock);
    return FT_OK;
}

bool ft_job_next(ft_job *j, ft_event *e)
{
    pthread_mutex_lock(&j->lock);
    const bool any = j->n > 0;
    j->hungry |= !any;
    if (any) {
        ft_free(j->out.text);
        j->out = j->event[j->first];
        j->first = (j->first + 1) % SCRIPT_EVENTS;
        j->n--;
        *e = j->out.e;
        e->probs = e->n_probs ? j->out.prob : NULL;
    }
    pthread_mutex_unlock(&j->lock);
    return any;
}

bool ft_job_done(ft_job *j)
{
    pthread_mutex_lock(&j->lock);
    const bool done = j->ended && !j->n;
    pthread_mutex_unlock(&j->lock);
    return done;
}

ft_status ft_job_result(ft_job *j, ft_response *out, ft_err *err)
{
    const bool length = !j->stopped && j->n_out == j->max_tokens;
    *out = (ft_response){.reason = j->cancelled ? FT_REASON_CANCEL
                                   : length     ? FT_REASON_LENGTH
                                                : FT_REASON_STOP,
                         .stop_text = j->stopped ? j->stop_word[j->stop.hit] : NULL,
                         .prompt_tokens = j->n_prompt,
                         .cached_tokens = j->cached,
                         .output_tokens = j->n_out,
                         .thought_tokens = j->n_thought,
                         .slot = j->slot,
                         .prompt_s = 0.001,
                         .output_s = j->last_s - j->first_s,
                         .decode_steps = j->n_out,
                         .draft_steps = j->n_out / 2,
                         .drafted = j->n_out / 2,
                         .accepted = j->n_out / 2};
    return j->fail ? ft_fail(err, FT_EDEVICE, "the script says so") : FT_OK;
}

void ft_job_look(ft_job *j, ft_job_progress *out)
{
    pthread_mutex_lock(&j->lock);
    *out = (ft_job_progress){j->n_prompt, j->cached, j->n_prompt, 0, j->slot, j->id};
    pthread_mutex_unlock(&j->lock);
}

void ft_job_cancel(ft_job *j)
{
    pthread_mutex_lock(&j->lock);
    j->cancelled = true;
    pthread_mutex_unlock(&j->lock);
}

/* The end of the reasoning comes next, whatever the script contains. */
void ft_job_end_thought(ft_job *j)
{
    pthread_mutex_lock(&j->lock);
    ft_ids end;
    ft_ids_init(&end, 4096);
    ft_encode(j->m->vocab, FT_STR("</think>\n\ndone"), FT_BPE_PARSE_SPECIAL, &end, NULL);
    j->response.n = j->at;
    for (size_t i = 0; i < end.n; i++) ft_ids_put(&j->response, end.id[i]);
    ft_ids_release(&end);
    pthread_mutex_unlock(&j->lock);
}

void ft_job_free(ft_job *j)
{
    if (!j) return;
    pthread_mutex_lock(&j->lock);
    j->freed = j->cancelled = true;
    pthread_mutex_unlock(&j->lock);
}

#include "scripted_slots.h"

#endif
