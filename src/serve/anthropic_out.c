/* serve/anthropic_out.c - responses in Anthropic's format: a sequence of content blocks that do not
 * overlap. */
#include "base/mem.h"
#include "serve/anthropic.h"

static const char *stop_reason(const ft_choice *c)
{
    if (c->response.reason == FT_REASON_LENGTH) return "max_tokens";
    if (c->n_call) return "tool_use";
    return c->response.stop_text ? "stop_sequence" : "end_turn";
}

static json_t *stop_text(const ft_choice *c)
{
    return !c->n_call && c->response.stop_text ? json_string(c->response.stop_text) : json_null();
}

static json_t *usage(int prompt, int cached, int response)
{
    return json_pack("{s:i, s:i, s:i, s:i}", "input_tokens", prompt - cached,
                     "cache_read_input_tokens", cached, "cache_creation_input_tokens", 0,
                     "output_tokens", response);
}

static json_t *message(const ft_generation *t, json_t *content, json_t *reason, json_t *stop,
                       json_t *use)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o}", "id", t->id, "type", "message",
                     "role", "assistant", "model", t->model, "content", content, "stop_reason",
                     reason, "stop_sequence", stop, "usage", use);
}

/* "toolu_" and the random part of the call's id */
static json_t *call_id(const ft_tool_call *k)
{
    char id[48];
    snprintf(id, sizeof id, "toolu_%s", k->id + strlen("call_"));
    return json_string(id);
}

/* ---- streamed ---- */

static void event(ft_generation *t, const char *type, json_t *j)
{
    json_object_set_new(j, "type", json_string(type));
    ft_generation_event(t, type, j);
}

/* Sent before the first piece, because the number of cached tokens is not known earlier. */
static void begin(ft_generation *t, ft_choice *c)
{
    if (c->begun) return;
    c->begun = true;
    ft_job_progress p;
    ft_job_look(c->job, &p);
    event(t, "message_start",
          json_pack("{s:o}", "message",
                    message(t, json_array(), json_null(), json_null(),
                            usage(c->n_prompt, p.cached_tokens, FT_MIN(1, c->n_tokens)))));
}

static void delta(ft_generation *t, const ft_choice *c, json_t *d)
{
    event(t, "content_block_delta", json_pack("{s:i, s:o}", "index", c->n_block - 1, "delta", d));
}

static void close_block(ft_generation *t, ft_choice *c)
{
    if (c->block < 0) return;
    if (c->block == FT_PART_THOUGHT)
        delta(t, c, json_pack("{s:s, s:s}", "type", "signature_delta", "signature", ""));
    event(t, "content_block_stop", json_pack("{s:i}", "index", c->n_block - 1));
    c->block = -1;
}

static void open_block(ft_generation *t, ft_choice *c, ft_event_part kind, json_t *block)
{
    close_block(t, c);
    c->block = (int)kind;
    event(t, "content_block_start",
          json_pack("{s:i, s:o}", "index", c->n_block++, "content_block", block));
}

static void piece(ft_generation *t, ft_choice *c, const ft_piece *p)
{
    begin(t, c);
    json_t *text = ft_json_string(p->p, p->n);
    switch (p->part) {
    case FT_PART_CALL:
        open_block(t, c, FT_PART_CALL,
                   json_pack("{s:s, s:o, s:O, s:{}}", "type", "tool_use", "id",
                             call_id(&c->call[p->call]), "name", text, "input"));
        break;
    case FT_PART_ARGS:
        delta(t, c, json_pack("{s:s, s:O}", "type", "input_json_delta", "partial_json", text));
        break;
    case FT_PART_THOUGHT:
        if (c->block != FT_PART_THOUGHT)
            open_block(
                t, c, FT_PART_THOUGHT,
                json_pack("{s:s, s:s, s:s}", "type", "thinking", "thinking", "", "signature", ""));
        delta(t, c, json_pack("{s:s, s:O}", "type", "thinking_delta", "thinking", text));
        break;
    case FT_PART_ANSWER:
        if (!p->n) break;
        if (c->block != FT_PART_ANSWER)
            open_block(t, c, FT_PART_ANSWER, json_pack("{s:s, s:s}", "type", "text", "text", ""));
        delta(t, c, json_pack("{s:s, s:O}", "type", "text_delta", "text", text));
        break;
    }
    json_decref(text);
}

static void end(ft_generation *t, ft_choice *c)
{
    const ft_response *r = &c->response;
    begin(t, c);
    close_block(t, c);
    event(t, "message_delta",
          json_pack("{s:{s:s, s:o}, s:o}", "delta", "stop_reason", stop_reason(c), "stop_sequence",
                    stop_text(c), "usage",
                    usage(r->prompt_tokens, r->cached_tokens, r->output_tokens)));
    event(t, "message_stop", json_object());
}

static void ping(ft_generation *t)
{
    if (t->choice[0].begun)
        event(t, "ping", json_object());
    else
        ft_sse_ping(t);
}

static void error(ft_generation *t, const ft_http_error *error)
{
    ft_generation_event(t, "error", ft_error_anthropic(error, t->c->id));
}

/* ---- unstreamed ---- */

static json_t *input_of(const ft_tool_call *k)
{
    json_t *j = json_loadb(ft_buf_z(&k->args), k->args.len, 0, NULL);
    return json_is_object(j) ? j : (json_decref(j), json_object());
}

static json_t *whole(ft_generation *t)
{
    const ft_choice *c = &t->choice[0];
    const ft_response *r = &c->response;
    json_t *content = json_array();
    if (c->thought.len)
        json_array_append_new(content,
                              json_pack("{s:s, s:o, s:s}", "type", "thinking", "thinking",
                                        ft_json_string(ft_buf_z(&c->thought), c->thought.len),
                                        "signature", ""));
    if (c->answer.len)
        json_array_append_new(content,
                              json_pack("{s:s, s:o}", "type", "text", "text",
                                        ft_json_string(ft_buf_z(&c->answer), c->answer.len)));
    for (int i = 0; i < c->n_call; i++)
        json_array_append_new(content, json_pack("{s:s, s:o, s:s, s:o}", "type", "tool_use", "id",
                                                 call_id(&c->call[i]), "name", c->call[i].name,
                                                 "input", input_of(&c->call[i])));
    return message(t, content, json_string(stop_reason(c)), stop_text(c),
                   usage(r->prompt_tokens, r->cached_tokens, r->output_tokens));
}

const ft_api_format ft_anthropic_format = {
    .piece = piece,
    .end = end,
    .ping = ping,
    .error = error,
    .whole = whole,
};
