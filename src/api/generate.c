/* api/generate.c - turns a request into token ids and the generated ids into text. */
#include "api/generate.h"

#include "api/adapters.h"
#include "api/prompt_scores.h"
#include "base/mem.h"
#include "model/adapter.h"
#include "text/schema.h"

enum { MAX_PROMPT_IDS = 1 << 26, MAX_TEXT = 1 << 30 };

/* ---- output: tokens, characters, stop strings, parts ---- */

static void tell(ft_generate *a, ft_event_part part, int call, ft_str text)
{
    if (part == FT_PART_THOUGHT && !a->told) a->thought_tokens++;
    ft_event e = a->event;
    e.text = text.p;
    e.bytes = text.n;
    e.part = part;
    e.call = call;
    if (a->told) {
        e.id = -1;
        e.probs = NULL;
        e.n_probs = 0;
    }
    a->told = true;
    if (a->tell && !a->cancelled && !a->tell(a->user, &e)) a->cancelled = true;
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

static void pass_on(ft_generate *a, ft_str text)
{
    if (a->stream)
        ft_stream_feed(a->stream, text);
    else if (text.n)
        tell(a, FT_PART_ANSWER, 0, text);
}

static bool on_token(void *user, const ft_emit *e)
{
    ft_generate *a = user;
    _Static_assert(sizeof(ft_token_prob) == sizeof(ft_logprob),
                   "the public type mirrors the engine's");
    a->event = (ft_event){
        .id = e->id,
        .drafted = e->drafted,
        .probs = (const ft_token_prob *)(const void *)e->logprob,
        .n_probs = e->n_logprob,
    };
    a->told = false;
    ft_buf_clear(&a->text);
    ft_buf_clear(&a->kept);
    a->detok.special = a->r->special || (a->stream && ft_llm_tag(a->m, e->id));
    ft_detok_push(&a->detok, e->id, &a->text);
    a->stopped = ft_stop_feed(&a->stop, ft_buf_str(&a->text), &a->kept);
    pass_on(a, ft_buf_str(&a->kept));
    if (!a->told) { /* a token without text of its own */
        const bool inside = a->stream && ft_thought_open(&a->thought);
        tell(a, inside ? FT_PART_THOUGHT : FT_PART_ANSWER, 0, FT_STR(""));
    }
    return !a->cancelled && !a->stopped;
}

void ft_generate_end(ft_generate *a)
{
    a->event = (ft_event){.id = -1};
    a->told = true;
    ft_buf_clear(&a->text);
    ft_buf_clear(&a->kept);
    ft_detok_flush(&a->detok, &a->text);
    if (!a->stopped) {
        a->stopped = ft_stop_feed(&a->stop, ft_buf_str(&a->text), &a->kept);
        if (!a->stopped) ft_stop_end(&a->stop, &a->kept);
        pass_on(a, ft_buf_str(&a->kept));
    }
    if (a->stream) ft_stream_end(a->stream);
}

static ft_status open_text(ft_generate *a, ft_err *err)
{
    const ft_request *r = a->r;
    ft_buf_init(&a->text, MAX_TEXT);
    ft_buf_init(&a->kept, MAX_TEXT);
    ft_detok_init(&a->detok, a->m->vocab, r->special);
    ft_str *words = ft_new_n(ft_str, (size_t)FT_MAX(1, r->n_stop));
    for (int i = 0; i < r->n_stop; i++) words[i] = ft_str_of(r->stop[i]);
    const ft_status st = ft_stop_init(&a->stop, words, r->n_stop, err);
    ft_free(words);
    if (st || !r->parse || !a->m->chat) return st;
    json_error_t je;
    if (r->tools && !(a->tools = json_loads(r->tools, 0, &je)))
        return ft_fail(err, FT_EFORMAT, "tools: line %d: %s", je.line, je.text);
    const ft_stream_opts o = {
        .family = ft_chat_family_of(a->m->chat),
        .in_thought = r->in_thought,
        .keep_thoughts = r->keep_thoughts,
        .calls = !r->no_calls,
        .tools = a->tools,
    };
    a->stream = ft_stream_new(&o, on_delta, a);
    return FT_OK;
}

/* ---- constraints ---- */

static ft_status open_grammar(ft_generate *a, ft_llm *m, ft_err *err)
{
    const ft_request *r = a->r;
    if (r->grammar && r->json_schema)
        return ft_fail(err, FT_EINVAL, "a grammar and a JSON schema together, want one of them");
    if (!r->grammar && !r->json_schema) return FT_OK;
    ft_status st = r->grammar ? ft_grammar_new(&a->grammar, ft_str_of(r->grammar), NULL, err)
                              : ft_schema_grammar(&a->grammar, ft_str_of(r->json_schema), err);
    if (st == FT_ELIMIT)
        st = FT_EINVAL; /* a grammar that is too large is an invalid request,
                         * not a full queue */
    if (st) return st;
    ft_str *words = ft_new_n(ft_str, (size_t)FT_MAX(1, r->n_grammar_trigger));
    for (int i = 0; i < r->n_grammar_trigger; i++) words[i] = ft_str_of(r->grammar_trigger[i]);
    const ft_grammar_lazy lazy = {
        .word = words, .n_word = (size_t)FT_MAX(0, r->n_grammar_trigger), .feed = true};
    st = ft_grammar_state_new(&a->state, a->grammar, ft_llm_trie(m), lazy.n_word ? &lazy : NULL,
                              err);
    ft_free(words);
    if (!st) st = ft_grammar_probe(a->state, err);
    if (st) return st == FT_ELIMIT ? FT_EINVAL : st;
    const ft_grammar_mask *f = &ft_grammar_mask_functions;
    a->mask = (ft_mask){a->state, f->allow, f->allows, f->accept, f->clone,
                        f->copy,  f->free,  f->stop,   NULL};
    return FT_OK;
}

/* ---- input ---- */

static ft_status open_prompt(ft_generate *a, ft_llm *m, ft_err *err)
{
    const ft_request *r = a->r;
    ft_status st = FT_OK;
    ft_ids_init(&a->ids, MAX_PROMPT_IDS);
    if (r->ids) {
        for (int i = 0; i < r->n_ids; i++) ft_ids_put(&a->ids, r->ids[i]);
    } else {
        const unsigned flags =
            FT_ENCODE_PARSE_SPECIAL | (r->raw ? 0u : (unsigned)FT_ENCODE_ADD_SPECIAL);
        st = ft_encode(m->vocab, (ft_str){r->prompt, r->prompt_bytes}, flags, &a->ids, err);
    }
    if (!st) st = ft_prompt_images_init(&a->images, m, r, &a->ids, err);
    return st ? st : ft_prompt_marks_init(&a->marks, m, &a->ids, err);
}

ft_status ft_generate_init(ft_generate *a, ft_llm *m, const ft_request *r, ft_event_fn *fn,
                           void *user, ft_err *err)
{
    *a = (ft_generate){.m = m, .r = r, .tell = fn, .user = user};
    ft_status st = ft_llm_adapter_scales(m, r->lora, r->n_lora, a->lora, err);
    if (st) return st;
    a->lora_key = ft_adapters_key(m->model, a->lora);
    st = open_prompt(a, m, err);
    if (!st) st = ft_sample_setup_init(&a->setup, &r->sampling, m, r->ignore_eos, err);
    if (!st) st = open_grammar(a, m, err);
    if (!st) st = ft_thought_init(&a->thought, m, r, &a->mask, err);
    if (!st) st = open_text(a, err);
    if (st)
        ft_generate_release(a);
    else if (r->score_prompt && r->top_logprobs >= 0)
        ft_scores_begin(a, m);
    return st;
}

void ft_generate_release(ft_generate *a)
{
    ft_stream_free(a->stream);
    ft_stop_release(&a->stop);
    ft_buf_release(&a->text);
    ft_buf_release(&a->kept);
    json_decref(a->tools);
    ft_thought_release(&a->thought);
    ft_grammar_state_free(a->state);
    ft_grammar_free(a->grammar);
    ft_sample_setup_release(&a->setup);
    ft_prompt_images_release(&a->images, a->m);
    ft_prompt_marks_release(&a->marks);
    ft_ids_release(&a->ids);
    ft_free(a->score);
    *a = (ft_generate){0};
}

ft_task ft_generate_task(ft_generate *a)
{
    const ft_request *r = a->r;
    ft_task t = {
        .prompt = a->ids.id,
        .n_prompt = (int)a->ids.n,
        .max_tokens = r->max_tokens,
        .sampling = a->setup.p,
        .mask = a->mask,
        .eog = a->m->eog,
        .n_eog = a->m->n_eog,
        .ignore_eog = r->ignore_eos,
        .top_logprobs = FT_MIN(r->top_logprobs, FT_LOGPROBS_MAX),
        .draft_max = r->draft_max < 0 ? a->m->draft_max : r->draft_max,
        .draft_min = r->draft_min,
        .draft_fixed = r->draft_fixed,
        .draft_p_min = r->draft_p_min,
        .n_checkpoint = a->marks.n_checkpoint,
        .response = a->marks.response,
        .n_response = a->marks.n_response,
        .checkpoint_id = a->marks.checkpoint_id,
        .cache_prompt = r->cache_prompt,
        .salt = r->cache_salt,
        .lora = a->lora,
        .emit = on_token,
        .user = a,
    };
    if (a->score) {
        t.scored = ft_scores_put;
        t.score_from = a->score_from;
    }
    memcpy(t.checkpoint, a->marks.checkpoint, sizeof t.checkpoint);
    ft_prompt_images_task(&a->images, a->m, &t);
    return t;
}

void ft_generate_result(const ft_generate *a, ft_finish f, const ft_stats *s, ft_response *out)
{
    const bool length = f == FT_FINISH_LENGTH || f == FT_FINISH_CONTEXT;
    *out = (ft_response){
        .reason = a->cancelled ? FT_REASON_CANCEL
                  : length     ? FT_REASON_LENGTH
                               : FT_REASON_STOP,
        .stop_text = a->stopped ? a->r->stop[a->stop.hit] : NULL,
        .context_full = f == FT_FINISH_CONTEXT,
        .prompt_tokens = s->prompt_n + s->cached_n,
        .cached_tokens = s->cached_n,
        .output_tokens = s->predicted_n,
        .thought_tokens = a->thought_tokens,
        .slot = -1,
        .prompt_s = s->prompt_s,
        .output_s = s->predicted_s,
        .decode_steps = s->decode_steps,
        .draft_steps = s->draft_steps,
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
