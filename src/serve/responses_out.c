/* serve/responses_out.c - responses in the format of the Responses API: reasoning, message and
 * function call items. */
#include "base/mem.h"
#include "serve/responses.h"

#include <stdio.h>

/* ---- items ---- */

/* Item ids are derived from the response id, so that they are the same in all events. */
static const char *item_id(const ft_generation *t, ft_event_part kind, const ft_tool_call *k,
                           char out[64])
{
    if (k)
        snprintf(out, 64, "fc_%s", k->id + strlen("call_"));
    else
        snprintf(out, 64, "%s_%s", kind == FT_PART_THOUGHT ? "rs" : "msg", t->id + strlen("resp_"));
    return out;
}

static json_t *text_part(const char *type, const ft_buf *b)
{
    json_t *p = json_pack("{s:s, s:o}", "type", type, "text",
                          b ? ft_json_string(ft_buf_z(b), b->len) : json_string(""));
    if (!strcmp(type, "output_text")) {
        json_object_set_new(p, "annotations", json_array());
        json_object_set_new(p, "logprobs", json_array());
    }
    return p;
}

static json_t *item(const ft_generation *t, const ft_choice *c, ft_event_part kind,
                    const ft_tool_call *k, bool done)
{
    char id[64];
    const char *status = done ? "completed" : "in_progress";
    item_id(t, kind, k, id);
    if (k)
        return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o}", "type", "function_call", "id", id,
                         "status", status, "call_id", k->id, "name",
                         ft_json_string(k->name, strlen(k->name)), "arguments",
                         done ? ft_json_string(ft_buf_z(&k->args), k->args.len) : json_string(""));
    if (kind == FT_PART_THOUGHT)
        return json_pack("{s:s, s:s, s:s, s:[], s:o}", "type", "reasoning", "id", id, "status",
                         status, "summary", "content",
                         done ? json_pack("[o]", text_part("reasoning_text", &c->thought))
                              : json_array());
    return json_pack("{s:s, s:s, s:s, s:s, s:o}", "type", "message", "id", id, "status", status,
                     "role", "assistant", "content",
                     done ? json_pack("[o]", text_part("output_text", &c->answer)) : json_array());
}

static bool is_incomplete(const ft_choice *c)
{
    return c->response.reason == FT_REASON_LENGTH;
}

/* Marks the last item as incomplete if the response reached its token limit. */
static json_t *mark_incomplete(const ft_choice *c, json_t *j)
{
    if (j && is_incomplete(c)) json_object_set_new(j, "status", json_string("incomplete"));
    return j;
}

static json_t *output(const ft_generation *t, const ft_choice *c)
{
    json_t *list = json_array();
    if (c->thought.len) json_array_append_new(list, item(t, c, FT_PART_THOUGHT, NULL, true));
    if (c->answer.len || !c->n_call)
        json_array_append_new(list, item(t, c, FT_PART_ANSWER, NULL, true));
    for (int i = 0; i < c->n_call; i++)
        json_array_append_new(list, item(t, c, FT_PART_CALL, &c->call[i], true));
    mark_incomplete(c, json_array_get(list, json_array_size(list) - 1));
    return list;
}

/* ---- the response ---- */

static void echo(const ft_generation *t, json_t *j, const char *key, json_t *otherwise)
{
    json_t *v = ft_get(t->extra, key);
    if (v)
        json_object_set(j, key, v);
    else
        json_object_set(j, key, otherwise);
    json_decref(otherwise);
}

static json_t *response(const ft_generation *t, const char *status, json_t *list)
{
    json_t *j = json_pack("{s:s, s:s, s:I, s:s, s:s, s:o, s:n, s:n, s:n, s:b, s:s}", "id", t->id,
                          "object", "response", "created_at", (json_int_t)t->created, "status",
                          status, "model", t->model, "output", list, "error", "incomplete_details",
                          "previous_response_id", "store", 0, "truncation", "disabled");
    echo(t, j, "instructions", json_null());
    echo(t, j, "max_output_tokens", json_null());
    echo(t, j, "metadata", json_object());
    echo(t, j, "parallel_tool_calls", json_true());
    echo(t, j, "reasoning", json_pack("{s:n, s:n}", "effort", "summary"));
    echo(t, j, "temperature", json_null());
    echo(t, j, "text", json_pack("{s:{s:s}}", "format", "type", "text"));
    echo(t, j, "tool_choice", json_string("auto"));
    echo(t, j, "tools", json_array());
    echo(t, j, "top_p", json_null());
    json_object_set_new(j, "usage", json_null());
    return j;
}

static json_t *whole(ft_generation *t)
{
    const ft_choice *c = &t->choice[0];
    const ft_usage u = ft_generation_usage(t);
    json_t *j = response(t, is_incomplete(c) ? "incomplete" : "completed", output(t, c));
    if (is_incomplete(c))
        json_object_set_new(j, "incomplete_details",
                            json_pack("{s:s}", "reason", "max_output_tokens"));
    json_object_set_new(j, "completed_at", json_integer((json_int_t)ft_unix_time()));
    json_object_set_new(j, "usage",
                        json_pack("{s:i, s:{s:i}, s:i, s:{s:i}, s:i}", "input_tokens", u.prompt,
                                  "input_tokens_details", "cached_tokens", u.cached,
                                  "output_tokens", u.response, "output_tokens_details",
                                  "reasoning_tokens", u.thought, "total_tokens",
                                  u.prompt + u.response));
    json_object_set_new(j, "timings", ft_timings_json(&c->response));
    return j;
}

/* ---- streamed ---- */

static void event(ft_generation *t, const char *type, json_t *j)
{
    json_object_set_new(j, "type", json_string(type));
    json_object_set_new(j, "sequence_number", json_integer(t->sequence++));
    ft_generation_event(t, type, j);
}

static void begin(ft_generation *t)
{
    event(t, "response.created",
          json_pack("{s:o}", "response", response(t, "in_progress", json_array())));
    event(t, "response.in_progress",
          json_pack("{s:o}", "response", response(t, "in_progress", json_array())));
}

/* The call of the open item, or NULL if the item is not a call. */
static const ft_tool_call *open_call(const ft_choice *c)
{
    return c->block == FT_PART_CALL ? &c->call[c->n_call_sent - 1] : NULL;
}

/* Fields that all events of the open item share. */
static json_t *item_event(const ft_generation *t, const ft_choice *c, bool part)
{
    char id[64];
    json_t *j =
        json_pack("{s:s, s:i}", "item_id", item_id(t, (ft_event_part)c->block, open_call(c), id),
                  "output_index", c->n_block - 1);
    if (part) json_object_set_new(j, "content_index", json_integer(0));
    return j;
}

static void send_with(ft_generation *t, const char *type, json_t *j, const char *key, json_t *v)
{
    json_object_set_new(j, key, v);
    event(t, type, j);
}

static void close_item(ft_generation *t, ft_choice *c)
{
    if (c->block < 0) return;
    const ft_tool_call *k = open_call(c);
    const ft_event_part kind = (ft_event_part)c->block;
    if (k) {
        json_t *j = item_event(t, c, false);
        json_object_set_new(j, "name", json_string(k->name));
        send_with(t, "response.function_call_arguments.done", j, "arguments",
                  ft_json_string(ft_buf_z(&k->args), k->args.len));
    } else if (kind == FT_PART_THOUGHT) {
        send_with(t, "response.reasoning_text.done", item_event(t, c, true), "text",
                  ft_json_string(ft_buf_z(&c->thought), c->thought.len));
        send_with(t, "response.content_part.done", item_event(t, c, true), "part",
                  text_part("reasoning_text", &c->thought));
    } else {
        json_t *j = item_event(t, c, true);
        json_object_set_new(j, "logprobs", json_array());
        send_with(t, "response.output_text.done", j, "text",
                  ft_json_string(ft_buf_z(&c->answer), c->answer.len));
        send_with(t, "response.content_part.done", item_event(t, c, true), "part",
                  text_part("output_text", &c->answer));
    }
    event(t, "response.output_item.done",
          json_pack("{s:i, s:o}", "output_index", c->n_block - 1, "item",
                    mark_incomplete(c, item(t, c, kind, k, true))));
    c->block = -1;
}

static void open_item(ft_generation *t, ft_choice *c, ft_event_part kind)
{
    close_item(t, c);
    c->block = (int)kind;
    if (kind == FT_PART_CALL) c->n_call_sent++;
    event(t, "response.output_item.added",
          json_pack("{s:i, s:o}", "output_index", c->n_block++, "item",
                    item(t, c, kind, open_call(c), false)));
    if (kind != FT_PART_CALL)
        send_with(t, "response.content_part.added", item_event(t, c, true), "part",
                  text_part(kind == FT_PART_THOUGHT ? "reasoning_text" : "output_text", NULL));
}

static void piece(ft_generation *t, ft_choice *c, const ft_piece *p)
{
    const ft_event_part kind = p->part == FT_PART_ARGS ? FT_PART_CALL : p->part;
    if (p->part == FT_PART_CALL || c->block != (int)kind) open_item(t, c, kind);
    if (p->part == FT_PART_CALL) return;
    json_t *j = item_event(t, c, kind != FT_PART_CALL);
    json_object_set_new(j, "delta", ft_json_string(p->p, p->n));
    if (kind == FT_PART_ANSWER) json_object_set_new(j, "logprobs", json_array());
    ft_live_timings(t, c, NULL, j);
    event(t,
          kind == FT_PART_CALL      ? "response.function_call_arguments.delta"
          : kind == FT_PART_THOUGHT ? "response.reasoning_text.delta"
                                    : "response.output_text.delta",
          j);
}

static void end(ft_generation *t, ft_choice *c)
{
    if (!c->answer.len && !c->n_call)
        open_item(t, c, FT_PART_ANSWER); /* an empty answer is also an item */
    close_item(t, c);
    event(t, is_incomplete(c) ? "response.incomplete" : "response.completed",
          json_pack("{s:o}", "response", whole(t)));
}

static void progress(ft_generation *t, ft_choice *c, const ft_job_progress *p)
{
    (void)c;
    json_t *j = json_pack("{s:o}", "response", response(t, "in_progress", json_array()));
    send_with(t, "response.in_progress", j, "prompt_progress", ft_progress_json(t, p));
}

static void error(ft_generation *t, const ft_http_error *error)
{
    json_t *r = response(t, "failed", json_array());
    json_object_set_new(r, "error",
                        json_pack("{s:s, s:s}", "code", "server_error", "message", error->text));
    event(t, "response.failed", json_pack("{s:o}", "response", r));
}

const ft_api_format ft_responses_format = {
    .begin = begin,
    .piece = piece,
    .end = end,
    .progress = progress,
    .error = error,
    .whole = whole,
};
