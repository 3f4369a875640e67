/* serve/ollama_out.c - responses in Ollama's format: lines of JSON. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/mem.h"
#include "serve/ollama.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

const char *ft_ollama_time(char out[40])
{
    return ft_ollama_later(out, 0);
}

const char *ft_ollama_later(char out[40], double s)
{
    struct timespec now;
    struct tm t;
    clock_gettime(CLOCK_REALTIME, &now);
    now.tv_sec += (time_t)fmin(s, 1e9);
    gmtime_r(&now.tv_sec, &t);
    const size_t n = strftime(out, 40, "%Y-%m-%dT%H:%M:%S", &t);
    snprintf(out + n, 40 - n, ".%06ldZ", now.tv_nsec / 1000);
    return out;
}

static json_t *line(const ft_generation *t, bool done)
{
    char when[40];
    return json_pack("{s:s, s:s, s:b}", "model", t->model, "created_at", ft_ollama_time(when),
                     "done", done);
}

static void put_end(const ft_generation *t, const ft_choice *c, json_t *j)
{
    const ft_response *r = &c->response;
    const double ns = 1e9;
    json_object_set_new(j, "done_reason",
                        json_string(r->reason == FT_REASON_LENGTH ? "length" : "stop"));
    json_object_set_new(j, "total_duration",
                        json_integer((json_int_t)((ft_now_s() - t->c->begun_s) * ns)));
    json_object_set_new(j, "load_duration", json_integer(0));
    json_object_set_new(j, "prompt_eval_count", json_integer(r->prompt_tokens));
    json_object_set_new(j, "prompt_eval_duration", json_integer((json_int_t)(r->prompt_s * ns)));
    json_object_set_new(j, "eval_count", json_integer(r->output_tokens));
    json_object_set_new(j, "eval_duration", json_integer((json_int_t)(r->output_s * ns)));
}

/* Tool calls from number `from` on, with their arguments as objects. */
static json_t *calls(const ft_choice *c, int from)
{
    json_t *list = json_array();
    for (int i = from; i < c->n_call; i++) {
        const ft_tool_call *k = &c->call[i];
        json_t *args = json_loadb(ft_buf_z(&k->args), k->args.len, 0, NULL);
        json_array_append_new(list, json_pack("{s:s, s:{s:i, s:o, s:o}}", "id", k->id, "function",
                                              "index", i, "name",
                                              ft_json_string(k->name, strlen(k->name)), "arguments",
                                              args ? args : json_object()));
    }
    return list;
}

static json_t *message(json_t *content, json_t *thought, json_t *list)
{
    json_t *m = json_pack("{s:s, s:o}", "role", "assistant", "content", content);
    if (thought) json_object_set_new(m, "thinking", thought);
    if (json_array_size(list)) json_object_set(m, "tool_calls", list);
    json_decref(list);
    return m;
}

static void put_logprobs(json_t *j, json_t *entries)
{
    if (json_array_size(entries)) json_object_set_new(j, "logprobs", json_copy(entries));
}

/* ---- chat ---- */

/* Tool calls are sent whole, at the end: this API has no partial calls. */
static void chat_piece(ft_generation *t, ft_choice *c, const ft_piece *p)
{
    (void)c;
    if (p->part == FT_PART_CALL || p->part == FT_PART_ARGS) return;
    const bool thought = p->part == FT_PART_THOUGHT;
    json_t *text = ft_json_string(p->p, p->n), *j = line(t, false);
    json_object_set_new(j, "message",
                        thought ? message(json_string(""), text, NULL) : message(text, NULL, NULL));
    put_logprobs(j, p->logprobs);
    ft_generation_line(t, j);
}

static void chat_end(ft_generation *t, ft_choice *c)
{
    if (c->n_call) {
        json_t *j = line(t, false);
        json_object_set_new(j, "message", message(json_string(""), NULL, calls(c, 0)));
        ft_generation_line(t, j);
    }
    json_t *j = line(t, true);
    json_object_set_new(j, "message", message(json_string(""), NULL, NULL));
    put_end(t, c, j);
    ft_generation_line(t, j);
}

static json_t *text_of(const ft_buf *b)
{
    return ft_json_string(ft_buf_z(b), b->len);
}

static json_t *chat_whole(ft_generation *t)
{
    const ft_choice *c = &t->choice[0];
    json_t *j = line(t, true);
    json_object_set_new(
        j, "message",
        message(text_of(&c->answer), c->thought.len ? text_of(&c->thought) : NULL, calls(c, 0)));
    put_logprobs(j, c->logprobs);
    put_end(t, c, j);
    return j;
}

/* ---- generate ---- */

static void generate_piece(ft_generation *t, ft_choice *c, const ft_piece *p)
{
    (void)c;
    if (p->part == FT_PART_CALL || p->part == FT_PART_ARGS) return;
    const bool thought = p->part == FT_PART_THOUGHT;
    json_t *j = line(t, false);
    json_object_set_new(j, "response", thought ? json_string("") : ft_json_string(p->p, p->n));
    if (thought) json_object_set_new(j, "thinking", ft_json_string(p->p, p->n));
    put_logprobs(j, p->logprobs);
    ft_generation_line(t, j);
}

static void generate_end(ft_generation *t, ft_choice *c)
{
    json_t *j = line(t, true);
    json_object_set_new(j, "response", json_string(""));
    put_end(t, c, j);
    ft_generation_line(t, j);
}

static json_t *generate_whole(ft_generation *t)
{
    const ft_choice *c = &t->choice[0];
    json_t *j = line(t, true);
    json_object_set_new(j, "response", text_of(&c->answer));
    if (c->thought.len) json_object_set_new(j, "thinking", text_of(&c->thought));
    put_logprobs(j, c->logprobs);
    put_end(t, c, j);
    return j;
}

static void error(ft_generation *t, const ft_http_error *error)
{
    ft_generation_line(t, ft_error_ollama(error));
}

const ft_api_format ft_ollama_chat_format = {
    .stream_type = "application/x-ndjson",
    .piece = chat_piece,
    .end = chat_end,
    .error = error,
    .whole = chat_whole,
};

const ft_api_format ft_ollama_generate_format = {
    .stream_type = "application/x-ndjson",
    .piece = generate_piece,
    .end = generate_end,
    .error = error,
    .whole = generate_whole,
};
