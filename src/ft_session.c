/* ft_session.c - a request on its way in and a reply on its way out: text to ids to text. */
#include "base/buf.h"
#include "base/mem.h"
#include "ft_llm.h"
#include "ft_sampling.h"
#include "text/bpe.h"
#include "text/detok.h"

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

/* One reply while it runs. */
typedef struct reply {
    const ft_request *r;
    ft_detok detok;
    ft_buf text;
    bool cancelled;
} reply;

static bool on_token(void *user, const ft_emit *e)
{
    reply *p = user;
    ft_buf_clear(&p->text);
    ft_detok_push(&p->detok, e->id, &p->text);
    if (!p->r->on_event) return true;
    _Static_assert(sizeof(ft_token_prob) == sizeof(ft_logprob),
                   "the public type mirrors the engine's");
    const ft_event ev = {
        .text = ft_buf_z(&p->text),
        .bytes = p->text.len,
        .part = FT_PART_ANSWER,
        .id = e->id,
        .drafted = e->drafted,
        .probs = (const ft_token_prob *)(const void *)e->logprob,
        .n_probs = e->n_logprob,
    };
    p->cancelled = !p->r->on_event(p->r->user, &ev);
    return !p->cancelled;
}

static void finish_text(reply *p)
{
    ft_buf_clear(&p->text);
    ft_detok_flush(&p->detok, &p->text);
    if (!p->text.len || !p->r->on_event || p->cancelled) return;
    const ft_event ev = {
        .text = ft_buf_z(&p->text), .bytes = p->text.len, .part = FT_PART_ANSWER, .id = -1};
    p->r->on_event(p->r->user, &ev);
}

static ft_status prompt_ids(const ft_llm *m, const ft_request *r, ft_ids *ids, ft_err *err)
{
    ft_ids_init(ids, MAX_PROMPT_IDS);
    if (r->ids) {
        for (int i = 0; i < r->n_ids; i++) ft_ids_put(ids, r->ids[i]);
        return FT_OK;
    }
    const unsigned flags = FT_ENCODE_PARSE_SPECIAL | (r->raw ? 0u : FT_ENCODE_ADD_SPECIAL);
    return ft_encode(m->vocab, (ft_str){r->prompt, r->prompt_bytes}, flags, ids, err);
}

static void fill_reply(ft_reply *out, const ft_lane *l, const reply *p)
{
    const ft_stats *s = ft_lane_stats(l);
    const ft_finish f = ft_lane_finish(l);
    *out = (ft_reply){
        .reason = p->cancelled                                      ? FT_REASON_CANCEL
                  : f == FT_FINISH_LENGTH || f == FT_FINISH_CONTEXT ? FT_REASON_LENGTH
                                                                    : FT_REASON_STOP,
        .context_full = f == FT_FINISH_CONTEXT,
        .prompt_tokens = s->prompt_n + s->cached_n,
        .cached_tokens = s->cached_n,
        .reply_tokens = s->predicted_n,
        .prompt_s = s->prompt_s,
        .reply_s = s->predicted_s,
        .rounds = s->rounds,
        .drafted = s->drafted,
        .accepted = s->accepted,
    };
    for (int i = 0; i < FT_DRAFT_MAX; i++) {
        out->drafted_at[i] = s->drafted_at[i];
        out->accepted_at[i] = s->accepted_at[i];
    }
}

static ft_status run(ft_session *s, const ft_job *j, reply *p, ft_reply *out, ft_err *err)
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
    ft_status st = prompt_ids(m, r, &ids, err);
    if (!st) st = ft_sample_setup_init(&setup, &r->sampling, m, err);
    if (!st) {
        reply p = {.r = r};
        ft_buf_init(&p.text, MAX_TEXT);
        ft_detok_init(&p.detok, m->vocab, r->special);
        const ft_job j = {
            .prompt = ids.id,
            .n_prompt = (int)ids.n,
            .max_tokens = r->max_tokens,
            .sampling = setup.p,
            .eog = m->eog,
            .n_eog = m->n_eog,
            .ignore_eog = r->ignore_eos,
            .top_logprobs = FT_MIN(r->top_logprobs, FT_LOGPROBS_MAX),
            .draft_max = r->draft_max < 0 ? m->draft_max : r->draft_max,
            .draft_p_min = r->draft_p_min,
            .emit = on_token,
            .user = &p,
        };
        st = run(s, &j, &p, out, err);
        ft_buf_release(&p.text);
    }
    ft_sample_setup_release(&setup);
    ft_ids_release(&ids);
    return st;
}
