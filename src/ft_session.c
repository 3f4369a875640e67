/* ft_session.c - a request on its way in and a reply on its way out: text to ids to text. */
#include "base/buf.h"
#include "base/mem.h"
#include "ft_llm.h"
#include "ft_sampling.h"
#include "text/bpe.h"
#include "text/detok.h"
#include "text/schema.h"
#include "text/stop.h"
#include "text/stream.h"

enum { MAX_PROMPT_IDS = 1 << 26, MAX_TEXT = 1 << 30 };

struct ft_session {
    ft_llm *m;
    ft_lane *lane;
};

ft_session *ft_session_new(ft_llm *m)
{
    ft_lane *l = ft_lane_new(m->engine);
    if (!l) return NULL;
    ft_session *s = ft_new(ft_session);
    s->m = m;
    s->lane = l;
    return s;
}

void ft_session_free(ft_session *s)
{
    if (!s) return;
    ft_lane_free(s->lane);
    ft_free(s);
}

void ft_request_defaults(ft_request *r, const ft_llm *m)
{
    *r = (ft_request){.max_tokens = -1, .top_logprobs = -1, .draft_max = -1};
    ft_sampling_defaults(&r->sampling, m);
}

/* ---- the way out: tokens, characters, stop texts, parts ---- */

typedef struct reply {
    const ft_request *r;
    ft_detok detok;
    ft_stop stop;
    ft_stream *stream; /* NULL: everything is the answer */
    json_t *tools;
    ft_buf text, kept; /* of one token: its characters, and those that no stop text holds back */
    ft_event event;    /* of the token at hand; later events of it have id -1 */
    bool told;         /* the token at hand was reported */
    bool cancelled, stopped;
} reply;

static void tell(reply *p, ft_event_part part, int call, ft_str text)
{
    if (!p->r->on_event || p->cancelled) return;
    ft_event e = p->event;
    e.text = text.p;
    e.bytes = text.n;
    e.part = part;
    e.call = call;
    if (p->told) {
        e.id = -1;
        e.probs = NULL;
        e.n_probs = 0;
    }
    p->told = true;
    if (!p->r->on_event(p->r->user, &e)) p->cancelled = true;
}

static void on_delta(void *user, const ft_stream_delta *d)
{
    static const ft_event_part part[] = {
        [FT_DELTA_THOUGHT] = FT_PART_THOUGHT, [FT_DELTA_CONTENT] = FT_PART_ANSWER,
        [FT_DELTA_AFTER] = FT_PART_ANSWER,    [FT_DELTA_CALL] = FT_PART_CALL,
        [FT_DELTA_ARGS] = FT_PART_ARGS,
    };
    tell(user, part[d->kind], d->index, d->text);
}

static void pass_on(reply *p, ft_str text)
{
    if (p->stream)
        ft_stream_feed(p->stream, text);
    else if (text.n)
        tell(p, FT_PART_ANSWER, 0, text);
}

static bool on_token(void *user, const ft_emit *e)
{
    reply *p = user;
    _Static_assert(sizeof(ft_token_prob) == sizeof(ft_logprob),
                   "the public type mirrors the engine's");
    p->event = (ft_event){
        .id = e->id,
        .drafted = e->drafted,
        .probs = (const ft_token_prob *)(const void *)e->logprob,
        .n_probs = e->n_logprob,
    };
    p->told = false;
    ft_buf_clear(&p->text);
    ft_buf_clear(&p->kept);
    ft_detok_push(&p->detok, e->id, &p->text);
    p->stopped = ft_stop_feed(&p->stop, ft_buf_str(&p->text), &p->kept);
    pass_on(p, ft_buf_str(&p->kept));
    if (!p->told) tell(p, FT_PART_ANSWER, 0, FT_STR("")); /* a token without text of its own */
    return !p->cancelled && !p->stopped;
}

/* The reply is over: what still waits comes out. */
static void finish_text(reply *p)
{
    p->event = (ft_event){.id = -1};
    p->told = true;
    ft_buf_clear(&p->text);
    ft_buf_clear(&p->kept);
    ft_detok_flush(&p->detok, &p->text);
    if (!p->stopped) {
        p->stopped = ft_stop_feed(&p->stop, ft_buf_str(&p->text), &p->kept);
        if (!p->stopped) ft_stop_end(&p->stop, &p->kept);
        pass_on(p, ft_buf_str(&p->kept));
    }
    if (p->stream) ft_stream_end(p->stream);
}

static ft_status reply_init(reply *p, const ft_llm *m, const ft_request *r, ft_err *err)
{
    *p = (reply){.r = r};
    ft_buf_init(&p->text, MAX_TEXT);
    ft_buf_init(&p->kept, MAX_TEXT);
    ft_detok_init(&p->detok, m->vocab, r->special);
    ft_str *words = ft_new_n(ft_str, (size_t)FT_MAX(1, r->n_stop));
    for (int i = 0; i < r->n_stop; i++) words[i] = ft_str_of(r->stop[i]);
    const ft_status st = ft_stop_init(&p->stop, words, r->n_stop, err);
    ft_free(words);
    if (st || !r->parse || !m->chat) return st;
    json_error_t je;
    if (r->tools && !(p->tools = json_loads(r->tools, 0, &je)))
        return ft_fail(err, FT_EFORMAT, "tools: line %d: %s", je.line, je.text);
    const ft_stream_opts o = {
        .family = ft_chat_family_of(m->chat),
        .in_thought = r->in_thought,
        .calls = true,
        .tools = p->tools,
    };
    p->stream = ft_stream_new(&o, on_delta, p);
    return FT_OK;
}

static void reply_release(reply *p)
{
    ft_stream_free(p->stream);
    ft_stop_release(&p->stop);
    ft_buf_release(&p->text);
    ft_buf_release(&p->kept);
    json_decref(p->tools);
}

/* ---- constraints ---- */

static ft_str token_bytes(void *user, int32_t id)
{
    return ft_vocab_piece(user, id, false);
}

static bool token_ends(void *user, int32_t id)
{
    return ft_vocab_is_eog(user, id);
}

static const ft_trie *trie_of(ft_llm *m)
{
    if (!m->trie) {
        const int n = FT_MIN(ft_vocab_count(m->vocab), m->model->V);
        m->trie = ft_trie_new(&(ft_token_source){m->vocab, n, token_bytes, token_ends});
    }
    return m->trie;
}

typedef struct constraint {
    ft_grammar *grammar;
    ft_grammar_state *state;
} constraint;

static ft_status constraint_init(constraint *c, ft_llm *m, const ft_request *r, ft_mask *mask,
                                 ft_err *err)
{
    *c = (constraint){0};
    if (r->grammar && r->json_schema)
        return ft_fail(err, FT_EINVAL, "a grammar and a JSON schema together, want one of them");
    if (!r->grammar && !r->json_schema) return FT_OK;
    ft_status st = r->grammar ? ft_grammar_new(&c->grammar, ft_str_of(r->grammar), NULL, err)
                              : ft_schema_grammar(&c->grammar, ft_str_of(r->json_schema), err);
    if (!st) st = ft_grammar_state_new(&c->state, c->grammar, trie_of(m), NULL, err);
    if (st) return st;
    const ft_grammar_mask *f = &ft_grammar_mask_functions;
    *mask = (ft_mask){c->state, f->allow, f->allows, f->accept, f->clone, f->copy, f->free};
    return FT_OK;
}

static void constraint_release(constraint *c)
{
    ft_grammar_state_free(c->state);
    ft_grammar_free(c->grammar);
}

/* ---- the reply ---- */

static ft_status prompt_ids(const ft_llm *m, const ft_request *r, ft_ids *ids, ft_err *err)
{
    ft_ids_init(ids, MAX_PROMPT_IDS);
    if (r->ids) {
        for (int i = 0; i < r->n_ids; i++) ft_ids_put(ids, r->ids[i]);
        return FT_OK;
    }
    const unsigned flags =
        FT_ENCODE_PARSE_SPECIAL | (r->raw ? 0u : (unsigned)FT_ENCODE_ADD_SPECIAL);
    return ft_encode(m->vocab, (ft_str){r->prompt, r->prompt_bytes}, flags, ids, err);
}

static void fill_reply(ft_reply *out, const ft_lane *l, const reply *p)
{
    const ft_stats *s = ft_lane_stats(l);
    const ft_finish f = ft_lane_finish(l);
    const bool length = f == FT_FINISH_LENGTH || f == FT_FINISH_CONTEXT;
    *out = (ft_reply){
        .reason = p->cancelled ? FT_REASON_CANCEL
                  : length     ? FT_REASON_LENGTH
                               : FT_REASON_STOP,
        .stop_text = p->stopped ? p->r->stop[p->stop.hit] : NULL,
        .context_full = f == FT_FINISH_CONTEXT,
        .prompt_tokens = s->prompt_n + s->cached_n,
        .cached_tokens = s->cached_n,
        .reply_tokens = s->predicted_n,
        .prompt_s = s->prompt_s,
        .reply_s = s->predicted_s,
        .rounds = s->rounds,
        .draft_rounds = s->draft_rounds,
        .drafted = s->drafted,
        .accepted = s->accepted,
        .draft_s = s->draft_s,
        .verify_s = s->verify_s,
    };
    for (int i = 0; i < FT_DRAFT_MAX; i++) {
        out->drafted_at[i] = s->drafted_at[i];
        out->accepted_at[i] = s->accepted_at[i];
    }
}

static ft_status run(ft_session *s, const ft_task *j, reply *p, ft_reply *out, ft_err *err)
{
    const ft_status st = ft_lane_start(s->lane, j, err);
    if (st) return st;
    while (ft_lane_busy(s->lane)) ft_engine_round(s->m->engine);
    if (ft_lane_finish(s->lane) == FT_FINISH_ERROR)
        return ft_fail(err, FT_EDEVICE, "%s", ft_lane_error(s->lane));
    finish_text(p);
    fill_reply(out, s->lane, p);
    return FT_OK;
}

ft_status ft_session_reply(ft_session *s, const ft_request *r, ft_reply *out, ft_err *err)
{
    ft_llm *m = s->m;
    ft_ids ids;
    ft_sample_setup setup = {0};
    constraint c = {0};
    reply p = {0};
    ft_mask mask = {0};
    ft_status st = prompt_ids(m, r, &ids, err);
    if (!st) st = ft_sample_setup_init(&setup, &r->sampling, m, err);
    if (!st) st = constraint_init(&c, m, r, &mask, err);
    if (!st) st = reply_init(&p, m, r, err);
    if (!st) {
        const ft_task j = {
            .prompt = ids.id,
            .n_prompt = (int)ids.n,
            .max_tokens = r->max_tokens,
            .sampling = setup.p,
            .mask = mask,
            .eog = m->eog,
            .n_eog = m->n_eog,
            .ignore_eog = r->ignore_eos,
            .top_logprobs = FT_MIN(r->top_logprobs, FT_LOGPROBS_MAX),
            .draft_max = r->draft_max < 0 ? m->draft_max : r->draft_max,
            .draft_min = r->draft_min,
            .draft_fixed = r->draft_fixed,
            .draft_p_min = r->draft_p_min,
            .emit = on_token,
            .user = &p,
        };
        st = run(s, &j, &p, out, err);
    }
    reply_release(&p);
    constraint_release(&c);
    ft_sample_setup_release(&setup);
    ft_ids_release(&ids);
    return st;
}
