/* serve/native.c - POST /completion as llama.cpp has it, and /infill on top of it. */
#include "base/mem.h"
#include "serve/ids.h"
#include "serve/routes.h"
#include "serve/settings.h"

#include <stdlib.h>

/* ---- what goes out ---- */

/* extra: {"settings", "prompts": [...], "fields": [...]} */

static const char *stop_type(const ft_choice *c)
{
    if (c->reply.reason == FT_REASON_LENGTH) return "limit";
    return c->reply.stop_text ? "word" : c->reply.reason == FT_REASON_STOP ? "eos" : "none";
}

static json_t *final_object(const ft_talk *t, const ft_choice *c)
{
    const ft_reply *r = &c->reply;
    json_t *settings = json_deep_copy(json_object_get(t->extra, "settings"));
    json_object_set_new(settings, "seed", json_integer((json_int_t)c->seed));
    json_t *j = json_pack(
        "{s:i, s:o, s:o, s:i, s:b, s:s, s:i, s:i, s:o, s:O, s:b, s:b, s:s, s:s, s:i, s:o}", "index",
        c->index, "content",
        t->stream ? json_string("") : ft_say_text(ft_buf_z(&c->answer), c->answer.len), "tokens",
        t->return_tokens && !t->stream ? json_incref(c->ids) : json_array(), "id_slot", r->lane,
        "stop", 1, "model", t->model, "tokens_predicted", r->reply_tokens, "tokens_evaluated",
        r->prompt_tokens, "generation_settings", settings, "prompt",
        json_array_get(json_object_get(t->extra, "prompts"), (size_t)c->prompt), "has_new_line",
        memchr(ft_buf_z(&c->answer), '\n', c->answer.len) != NULL, "truncated", r->context_full,
        "stop_type", stop_type(c), "stopping_word", r->stop_text ? r->stop_text : "",
        "tokens_cached", r->prompt_tokens + r->reply_tokens, "timings", ft_timings(r));
    if (t->top_logprobs >= 0 && !t->stream)
        json_object_set(j, "completion_probabilities", c->logprobs);
    return ft_only_fields(t, j);
}

static void piece(ft_talk *t, ft_choice *c, const ft_piece *p)
{
    ft_job_progress at;
    ft_job_look(c->job, &at);
    json_t *j = json_pack("{s:i, s:o, s:o, s:b, s:i, s:i, s:i}", "index", c->index, "content",
                          ft_say_text(p->p, p->n), "tokens",
                          p->ids ? json_copy(p->ids) : json_array(), "stop", 0, "id_slot", at.lane,
                          "tokens_predicted", c->n_tokens, "tokens_evaluated", c->n_prompt);
    if (json_array_size(p->logprobs))
        json_object_set_new(j, "completion_probabilities", json_copy(p->logprobs));
    ft_talk_event(t, NULL, j);
}

static void end(ft_talk *t, ft_choice *c)
{
    ft_talk_event(t, NULL, final_object(t, c));
}

static void progress(ft_talk *t, ft_choice *c, const ft_job_progress *p)
{
    ft_talk_event(t, NULL,
                  json_pack("{s:i, s:s, s:b, s:o}", "index", c->index, "content", "", "stop", 0,
                            "prompt_progress", ft_progress_json(t, p)));
}

/* One reply is an object, several are an array. */
static json_t *whole(ft_talk *t)
{
    if (t->n == 1) return final_object(t, &t->choice[0]);
    json_t *list = json_array();
    for (int i = 0; i < t->n; i++) json_array_append_new(list, final_object(t, &t->choice[i]));
    return list;
}

static const ft_api_format SHAPE = {
    .piece = piece,
    .end = end,
    .progress = progress,
    .whole = whole,
};

/* ---- what comes in ---- */

/* n_probs, under any of its names. */
static bool n_probs(ft_ask *a, const json_t *body, ft_bad *bad)
{
    int n = 0;
    const json_t *l = ft_get(body, "logprobs");
    if (json_is_number(l) && !ft_want_int(body, "logprobs", 0, FT_ASK_PROBS, &n, bad)) return false;
    if (!ft_want_int(body, "n_probs", 0, FT_ASK_PROBS, &n, bad)) return false;
    a->r.top_logprobs = n > 0 ? n : -1;
    return true;
}

static json_t *prompt_texts(const ft_served *d, const ft_prompts *p)
{
    json_t *list = json_array();
    for (int i = 0; i < p->n; i++) {
        char *text;
        size_t n;
        if (ft_vocab_decode(d->vocab, p->at[i].ids, (size_t)p->at[i].n, true, &text, &n, NULL)) {
            json_array_append_new(list, json_string(""));
            continue;
        }
        json_array_append_new(list, ft_say_text(text, n));
        free(text);
    }
    return list;
}

static void run(ft_call *c, ft_served *d, ft_ask *a, const ft_prompts *p, const char *model,
                ft_bad *bad)
{
    json_t *extra = json_object();
    if (!ft_response_fields(c->body, extra, bad) || !n_probs(a, c->body, bad)) {
        json_decref(extra);
        ft_call_fail(c, bad);
        return;
    }
    a->r.parse = false;
    json_object_set_new(extra, "settings", ft_settings_json(&a->r, 0));
    json_object_set_new(extra, "prompts", prompt_texts(d, p));
    ft_talk_start(c, d, &SHAPE, "cmpl-", a, p->at, p->n, model, extra);
}

void ft_run_native(ft_call *c)
{
    const char *model = NULL;
    ft_bad bad;
    ft_ask a;
    ft_prompts p = {0};
    ft_served *d = ft_call_model(c, NULL);
    if (!d) return;
    ft_ask_init(&a, c->s, d);
    if (ft_want_text(c->body, "model", &model, &bad) && ft_ask_fields(&a, d, c->body, &bad) &&
        ft_prompts_read(d, ft_get(c->body, "prompt"), "prompt", &p, &bad))
        run(c, d, &a, &p, model, &bad);
    else
        ft_call_fail(c, &bad);
    ft_prompts_release(&p);
    ft_ask_release(&a);
}

/* ---- infill ---- */

static bool infill_prompt(const ft_served *d, const json_t *body, ft_prompt *p, ft_bad *bad)
{
    const char *prefix = NULL, *suffix = NULL, *prompt = "";
    if (!ft_want_text(body, "input_prefix", &prefix, bad) ||
        !ft_want_text(body, "input_suffix", &suffix, bad) ||
        !ft_want_text(body, "prompt", &prompt, bad))
        return false;
    if (!prefix || !suffix)
        return ft_bad_say(bad, FT_P_INVALID, prefix ? "input_suffix" : "input_prefix",
                          "%s is missing, want a text", prefix ? "input_suffix" : "input_prefix");
    return ft_prompt_infill(d, ft_get(body, "input_extra"), prefix, prompt, suffix, p, bad);
}

void ft_run_infill(ft_call *c)
{
    ft_bad bad;
    ft_ask a;
    ft_prompt p = {0};
    ft_served *d = ft_call_model(c, NULL);
    if (!d) return;
    ft_ask_init(&a, c->s, d);
    if (ft_ask_fields(&a, d, c->body, &bad) && infill_prompt(d, c->body, &p, &bad)) {
        const ft_prompts one = {&p, 1};
        run(c, d, &a, &one, NULL, &bad);
    } else {
        ft_call_fail(c, &bad);
    }
    ft_free(p.ids);
    ft_ask_release(&a);
}
