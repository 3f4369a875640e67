/* text/stream.c - the response parser: a state machine over the text received so far. A state
 * either consumes input, or returns false because it needs more. */
#include "text/stream.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "text/stream_value.h"

enum { MAX_NAME = 256, MAX_GIVEN_UP = 64 };
#define MAX_HELD ((size_t)64 << 20)

typedef enum state {
    CONTENT,
    THOUGHT,
    CHANNEL,     /* after <|channel>: its name */
    CALL_OPEN,   /* after <tool_call>: <function= or JSON */
    CALL_NAME,   /* after <function= */
    CALL_PARAMS, /* between parameters */
    CALL_KEY,    /* after <parameter= */
    CALL_VALUE,  /* after the key */
    CALL_STRING, /* inside a string value, which is sent as it arrives */
    CALL_CLOSE,  /* after </function> */
    CALL_JSON,   /* JSON up to </tool_call> */
    CALL_GEMMA,  /* up to <tool_call|> */
} state;

struct ft_stream {
    ft_stream_opts o;
    ft_stream_fn fn;
    void *user;
    state st;
    ft_buf in;       /* received and not yet consumed */
    size_t consumed; /* bytes at the start of `in` that were consumed */
    size_t seen;     /* bytes after `consumed` that were searched already */
    bool final;
    ft_buf gap;      /* white space that is dropped if a tag follows */
    bool skip_space; /* at the start of a reasoning block or of the text after one */
    bool thought_before;
    bool answered; /* the content has begun: <think> is ordinary text from now on */
    int n_given_up;
    ft_buf raw; /* the input of a possible tool call, in case it turns out not to be one */
    ft_buf name, tmp;
    bool first_param, value_started, in_mark;
    int n_calls;
};

ft_stream *ft_stream_new(const ft_stream_opts *o, ft_stream_fn fn, void *user)
{
    ft_stream *s = ft_new(ft_stream);
    s->o = *o;
    s->fn = fn;
    s->user = user;
    ft_buf *all[] = {&s->in, &s->gap, &s->raw, &s->name, &s->tmp};
    for (size_t i = 0; i < FT_COUNT(all); i++) ft_buf_init(all[i], 2 * MAX_HELD);
    s->st = o->in_thought && !o->keep_thoughts && o->family != FT_CHAT_PLAIN ? THOUGHT : CONTENT;
    s->skip_space = s->st == THOUGHT;
    return s;
}

void ft_stream_free(ft_stream *s)
{
    if (!s) return;
    ft_buf *all[] = {&s->in, &s->gap, &s->raw, &s->name, &s->tmp};
    for (size_t i = 0; i < FT_COUNT(all); i++) ft_buf_release(all[i]);
    ft_free(s);
}

int ft_stream_n_calls(const ft_stream *s)
{
    return s->n_calls;
}

bool ft_stream_tag(ft_chat_family f, ft_str text)
{
    static const char *const tags[][6] = {
        [FT_CHAT_PLAIN] = {NULL},
        [FT_CHAT_QWEN] = {"<think>", "</think>", "<tool_call>", "</tool_call>"},
        [FT_CHAT_GEMMA4] = {"<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", "<|\"|>"},
    };
    for (const char *const *t = tags[f]; *t; t++)
        if (ft_str_is(text, *t)) return true;
    return false;
}

/* ---- input ---- */

static ft_str pending_input(const ft_stream *s)
{
    return (ft_str){ft_buf_z(&s->in) + s->consumed, s->in.len - s->consumed};
}

static void consume(ft_stream *s, size_t n)
{
    s->consumed += n;
    s->seen = 0;
}

static void skip_spaces(ft_stream *s)
{
    const ft_str t = pending_input(s);
    size_t n = 0;
    while (n < t.n && ft_json_space(t.p[n])) n++;
    ft_buf_put(&s->raw, t.p, n);
    consume(s, n);
}

/* Position of the first tag in t, or of text that may be the beginning of a tag. *tag is the index
 * of the tag, or -1 in the second case; SIZE_MAX when there is neither. */
static size_t find_tag(ft_str t, const char *const *tags, int n, bool final, int *tag)
{
    for (size_t at = 0; at < t.n; at++) {
        const char *lt = memchr(t.p + at, '<', t.n - at);
        if (!lt) return SIZE_MAX;
        at = (size_t)(lt - t.p);
        for (int i = 0; i < n; i++) {
            const size_t len = strlen(tags[i]), have = FT_MIN(len, t.n - at);
            if (memcmp(t.p + at, tags[i], have) || (have < len && final)) continue;
            *tag = have == len ? i : -1;
            return at;
        }
    }
    return SIZE_MAX;
}

typedef enum match { NO, YES, MAYBE } match;

static match starts(const ft_stream *s, const char *tag)
{
    const ft_str t = pending_input(s);
    const size_t n = strlen(tag), have = FT_MIN(n, t.n);
    if (have && memcmp(t.p, tag, have)) return NO;
    return have == n ? YES : s->final ? NO : MAYBE;
}

/* ---- output ---- */

static void send_delta(ft_stream *s, ft_stream_kind kind, ft_str text)
{
    if (!text.n && kind != FT_DELTA_CALL) return;
    const ft_stream_delta d = {kind, s->n_calls - 1, text};
    s->fn(s->user, &d);
}

static ft_stream_kind content_kind(const ft_stream *s)
{
    return s->n_calls ? FT_DELTA_AFTER : FT_DELTA_CONTENT;
}

/* Sends text of a reasoning block or of the content. White space at its end is held back. */
static void send_text(ft_stream *s, ft_stream_kind kind, ft_str t)
{
    size_t from = 0, end = t.n;
    if (s->skip_space)
        while (from < t.n && ft_json_space(t.p[from])) from++;
    if (from == t.n) return;
    s->skip_space = false;
    while (end > from && ft_json_space(t.p[end - 1])) end--;
    if (end > from) {
        send_delta(s, kind, ft_buf_str(&s->gap));
        ft_buf_clear(&s->gap);
        send_delta(s, kind, (ft_str){t.p + from, end - from});
    }
    ft_buf_put(&s->gap, t.p + end, t.n - end);
}

static void send_consumed(ft_stream *s, ft_stream_kind kind, size_t n)
{
    const ft_str t = {pending_input(s).p, n};
    send_text(s, kind, t);
    consume(s, n);
}

/* Not a tool call: sends the consumed input as content. Text that looks like a call is parsed again
 * each time, so after MAX_GIVEN_UP attempts calls are no longer parsed. */
static void abandon_call(ft_stream *s)
{
    s->st = CONTENT;
    if (++s->n_given_up >= MAX_GIVEN_UP) s->o.calls = false;
    send_text(s, content_kind(s), ft_buf_str(&s->raw));
    ft_buf_clear(&s->raw);
}

static void begin_call(ft_stream *s, ft_str name)
{
    ft_buf_clear(&s->gap);
    ft_buf_clear(&s->raw);
    s->n_calls++;
    send_delta(s, FT_DELTA_CALL, name);
}

static void send_args(ft_stream *s, const char *z)
{
    send_delta(s, FT_DELTA_ARGS, ft_str_of(z));
}

static void end_call(ft_stream *s)
{
    s->st = CONTENT;
    s->skip_space = true;
    ft_buf_clear(&s->raw);
}

/* ---- reasoning and content ---- */

static bool in_thought(ft_stream *s)
{
    const char *const end[] = {s->o.family == FT_CHAT_GEMMA4 ? "<channel|>" : "</think>"};
    const ft_str t = pending_input(s);
    int tag = -1;
    const size_t at = find_tag(t, end, 1, s->final, &tag);
    send_consumed(s, FT_DELTA_THOUGHT, at == SIZE_MAX ? t.n : at);
    if (at == SIZE_MAX || tag < 0) return false;
    consume(s, strlen(end[0]));
    ft_buf_clear(&s->gap);
    s->thought_before = true;
    s->skip_space = true;
    s->st = CONTENT;
    return true;
}

static void begin_thought(ft_stream *s)
{
    ft_buf_clear(&s->gap);
    s->skip_space = true;
    if (s->thought_before)
        ft_buf_putc(&s->gap, '\n'); /* separates two reasoning blocks, if the second has text */
    s->st = THOUGHT;
}

/* Checks whether the response starts with <think>. MAYBE: not decided yet. */
static match opening_thought(ft_stream *s)
{
    const ft_str t = pending_input(s);
    size_t n = 0;
    while (n < t.n && ft_json_space(t.p[n])) n++;
    const ft_stream rest = {.in = s->in, .consumed = s->consumed + n, .final = s->final};
    return starts(&rest, "<think>");
}

static bool qwen_content(ft_stream *s)
{
    static const char *const tags[] = {"<tool_call>", "<function="};
    const ft_str t = pending_input(s);
    int tag = -1;
    if (!s->answered && !s->o.keep_thoughts) {
        const match m = opening_thought(s);
        if (m == MAYBE) return false;
        if (m == YES) {
            consume(s, ft_str_find(t, FT_STR(">"), 0) + 1);
            begin_thought(s);
            return true;
        }
    }
    s->answered = true;
    const size_t at = s->o.calls ? find_tag(t, tags, 2, s->final, &tag) : SIZE_MAX;
    send_consumed(s, content_kind(s), at == SIZE_MAX ? t.n : at);
    if (at == SIZE_MAX || tag < 0) return false;
    ft_buf_clear(&s->raw);
    ft_buf_puts(&s->raw, tags[tag]);
    consume(s, strlen(tags[tag]));
    s->st = tag == 0 ? CALL_OPEN : CALL_NAME;
    return true;
}

static bool gemma_content(ft_stream *s)
{
    static const char *const tags[] = {"<|tool_call>", "<|channel>", "<channel|>"};
    const int from = s->o.calls ? 0 : 1, n = s->o.keep_thoughts ? 1 : 3;
    const ft_str t = pending_input(s);
    int tag = -1;
    if (from >= n) {
        send_consumed(s, content_kind(s), t.n);
        return false;
    }
    const size_t at = find_tag(t, tags + from, n - from, s->final, &tag);
    send_consumed(s, content_kind(s), at == SIZE_MAX ? t.n : at);
    if (at == SIZE_MAX || tag < 0) return false;
    const char *found = tags[tag + from];
    consume(s, strlen(found));
    ft_buf_clear(&s->raw);
    ft_buf_puts(&s->raw, found);
    if (found == tags[0]) {
        s->st = CALL_GEMMA;
        s->in_mark = false;
    } else if (found == tags[1]) {
        s->st = CHANNEL;
    } /* an end tag without a channel is dropped */
    return true;
}

static bool in_content(ft_stream *s)
{
    if (!pending_input(s).n) return false;
    switch (s->o.family) {
    case FT_CHAT_QWEN: return qwen_content(s);
    case FT_CHAT_GEMMA4: return gemma_content(s);
    default: send_consumed(s, FT_DELTA_CONTENT, pending_input(s).n); return false;
    }
}

/* Only the channel "thought" is reasoning; the text of other channels is content. */
static bool in_channel(ft_stream *s)
{
    const match m = starts(s, "thought");
    if (m == MAYBE) return false;
    if (m == YES) {
        consume(s, strlen("thought"));
        begin_thought(s);
        ft_buf_clear(&s->raw);
    } else {
        abandon_call(s);
    }
    return true;
}

/* ---- Qwen calls ---- */

static bool call_open(ft_stream *s)
{
    skip_spaces(s);
    const match f = starts(s, "<function=");
    if (f == YES) {
        ft_buf_puts(&s->raw, "<function=");
        consume(s, strlen("<function="));
        s->st = CALL_NAME;
        return true;
    }
    if (f == MAYBE) return false;
    if (starts(s, "{") == YES)
        s->st = CALL_JSON;
    else
        abandon_call(s);
    return true;
}

/* Finds a name that ends with '>'. MAYBE: incomplete; NO: not a name. *len is the length of the
 * name.
 */
static match name_end(const ft_stream *s, size_t *len)
{
    const ft_str t = pending_input(s);
    for (size_t i = 0; i < t.n && i <= MAX_NAME; i++) {
        if (t.p[i] == '>') {
            *len = i;
            return i && ft_utf8_valid((ft_str){t.p, i}) ? YES : NO;
        }
        if (t.p[i] == '<' || t.p[i] == '\n') return NO;
    }
    return s->final || t.n > MAX_NAME ? NO : MAYBE;
}

static bool call_name(ft_stream *s)
{
    size_t n = 0;
    const match m = name_end(s, &n);
    if (m == MAYBE) return false;
    const ft_str name = {pending_input(s).p, n};
    /* without <tool_call> before it, it is a call only when a tool of that name exists */
    const bool bare = ft_str_starts(ft_buf_str(&s->raw), FT_STR("<function="));
    if (m == NO || (bare && !ft_tool_known(s->o.tools, name))) {
        abandon_call(s);
        return true;
    }
    ft_buf_clear(&s->name);
    ft_buf_put_str(&s->name, name);
    consume(s, n + 1);
    begin_call(s, ft_buf_str(&s->name));
    send_args(s, "{");
    s->first_param = true;
    s->st = CALL_PARAMS;
    return true;
}

static bool call_params(ft_stream *s)
{
    skip_spaces(s);
    ft_buf_clear(&s->raw);
    const match p = starts(s, "<parameter="), f = starts(s, "</function>"),
                c = starts(s, "</tool_call>");
    if (p == YES) {
        consume(s, strlen("<parameter="));
        ft_buf_puts(&s->raw, "<parameter=");
        s->st = CALL_KEY;
        return true;
    }
    if (f == MAYBE || p == MAYBE || c == MAYBE) {
        if (f != YES && c != YES) return false;
    }
    send_args(s, "}");
    s->st = CALL_CLOSE;
    if (f == YES)
        consume(s, strlen("</function>"));
    else if (c == NO)
        end_call(s); /* other text: it ends the call */
    return true;
}

static bool call_key(ft_stream *s)
{
    size_t n = 0;
    const match m = name_end(s, &n);
    if (m == MAYBE) return false;
    if (m == NO) {
        send_args(s, "}");
        s->skip_space = false;
        abandon_call(s);
        return true;
    }
    const ft_str key = {pending_input(s).p, n};
    const unsigned types = ft_tool_types(s->o.tools, ft_buf_str(&s->name), key);
    ft_buf_clear(&s->tmp);
    ft_buf_puts(&s->tmp, s->first_param ? "\"" : ",\"");
    ft_json_escape(&s->tmp, key);
    ft_buf_puts(&s->tmp, types == FT_TYPE_STRING ? "\":\"" : "\":");
    send_delta(s, FT_DELTA_ARGS, ft_buf_str(&s->tmp));
    s->first_param = false;
    s->value_started = false;
    ft_buf_clear(&s->tmp);
    ft_buf_put_str(&s->tmp, key);
    consume(s, n + 1);
    s->st = types == FT_TYPE_STRING ? CALL_STRING : CALL_VALUE;
    return true;
}

/* Removes one line end at each side of the value. */
static ft_str unwrap(ft_str v)
{
    if (v.n && v.p[0] == '\n') v.p++, v.n--;
    if (v.n && v.p[v.n - 1] == '\n') v.n--;
    return v;
}

static const char *const value_end[] = {"</parameter>"};

/* A value that is not a string is converted and sent when it is complete. Its key is in tmp. */
static bool call_value(ft_stream *s)
{
    const ft_str t = pending_input(s);
    int tag = -1;
    size_t at = find_tag((ft_str){t.p + s->seen, t.n - s->seen}, value_end, 1, s->final, &tag);
    at = at == SIZE_MAX ? t.n : at + s->seen;
    if (tag < 0 && !s->final && t.n < MAX_HELD) {
        s->seen = at;
        return false;
    }
    const unsigned types = ft_tool_types(s->o.tools, ft_buf_str(&s->name), ft_buf_str(&s->tmp));
    ft_buf_clear(&s->tmp);
    ft_json_of_text(&s->tmp, unwrap((ft_str){t.p, at}), types);
    send_delta(s, FT_DELTA_ARGS, ft_buf_str(&s->tmp));
    consume(s, at + (tag < 0 ? 0 : strlen(value_end[0])));
    s->st = CALL_PARAMS;
    return true;
}

/* A string is sent as it arrives, except for text that may be its end tag. */
static bool call_string(ft_stream *s)
{
    if (!s->value_started) {
        if (!pending_input(s).n && !s->final) return false;
        if (starts(s, "\n") == YES) consume(s, 1);
        s->value_started = true;
    }
    const ft_str t = pending_input(s);
    int tag = -1;
    size_t at = find_tag(t, value_end, 1, s->final, &tag);
    if (at == SIZE_MAX) at = t.n;
    size_t end = at;
    if (end && t.p[end - 1] == '\n') end--;
    const bool over = tag == 0 || s->final;
    if (!over) end -= ft_utf8_partial((ft_str){t.p, end});
    ft_buf_clear(&s->tmp);
    ft_json_escape(&s->tmp, (ft_str){t.p, end});
    send_delta(s, FT_DELTA_ARGS, ft_buf_str(&s->tmp));
    consume(s, over ? at + (tag == 0 ? strlen(value_end[0]) : 0) : end);
    if (!over) return false;
    send_args(s, "\"");
    s->st = CALL_PARAMS;
    return true;
}

static bool call_close(ft_stream *s)
{
    skip_spaces(s);
    const match m = starts(s, "</tool_call>");
    if (m == MAYBE) return false;
    if (m == YES) consume(s, strlen("</tool_call>"));
    end_call(s);
    return true;
}

/* ---- calls that are parsed when complete ---- */

static bool call_whole(ft_stream *s, size_t body, size_t close,
                       bool (*parse)(ft_str text, ft_buf *name, ft_buf *send_args))
{
    const ft_str t = pending_input(s);
    ft_buf out;
    ft_buf_init(&out, 8 * MAX_HELD);
    ft_buf_clear(&s->name);
    const bool ok = parse((ft_str){t.p, body}, &s->name, &out) && !out.full;
    if (ok) {
        consume(s, body + close);
        begin_call(s, ft_buf_str(&s->name));
        send_delta(s, FT_DELTA_ARGS, ft_buf_str(&out));
        end_call(s);
    } else {
        abandon_call(s); /* sends the opening tag; the rest is parsed again as content */
    }
    ft_buf_release(&out);
    return true;
}

static bool call_json(ft_stream *s)
{
    static const char *const end[] = {"</tool_call>"};
    const ft_str t = pending_input(s);
    int tag = -1;
    size_t at = find_tag((ft_str){t.p + s->seen, t.n - s->seen}, end, 1, s->final, &tag);
    at = at == SIZE_MAX ? t.n : at + s->seen;
    if (tag < 0 && !s->final && t.n < MAX_HELD) {
        s->seen = at;
        return false;
    }
    return call_whole(s, at, tag < 0 ? 0 : strlen(end[0]), ft_json_call);
}

/* The end tag counts only outside of strings. */
static bool call_gemma(ft_stream *s)
{
    const match m = starts(s, "call:");
    if (m == MAYBE) return false;
    if (m == NO) {
        abandon_call(s);
        return true;
    }
    static const char *const look[] = {"<tool_call|>", "<|\"|>"};
    for (;;) {
        const ft_str t = pending_input(s);
        int tag = -1;
        const ft_str rest = {t.p + s->seen, t.n - s->seen};
        const size_t at = find_tag(rest, look, 2, s->final, &tag);
        if (at == SIZE_MAX || tag < 0) {
            s->seen += at == SIZE_MAX ? rest.n : at;
            if (!s->final && t.n < MAX_HELD) return false;
            return call_whole(s, t.n, 0, ft_gemma_call);
        }
        const size_t body = s->seen + at;
        if (tag == 0 && !s->in_mark) return call_whole(s, body, strlen(look[0]), ft_gemma_call);
        s->in_mark ^= tag == 1;
        s->seen = body + strlen(look[tag]);
    }
}

/* ---- the loop ---- */

static bool parse_step(ft_stream *s)
{
    switch (s->st) {
    case CONTENT: return in_content(s);
    case THOUGHT: return pending_input(s).n && in_thought(s);
    case CHANNEL: return in_channel(s);
    case CALL_OPEN: return call_open(s);
    case CALL_NAME: return call_name(s);
    case CALL_PARAMS: return call_params(s);
    case CALL_KEY: return call_key(s);
    case CALL_VALUE: return call_value(s);
    case CALL_STRING: return call_string(s);
    case CALL_CLOSE: return call_close(s);
    case CALL_JSON: return call_json(s);
    case CALL_GEMMA: return call_gemma(s);
    }
    return false;
}

void ft_stream_feed(ft_stream *s, ft_str text)
{
    ft_buf_put_str(&s->in, text);
    while (parse_step(s)) {
    }
    if (!s->consumed) return;
    const size_t n = s->in.len - s->consumed;
    memmove(s->in.data, s->in.data + s->consumed, n);
    s->in.len = n;
    s->in.data[n] = 0;
    s->consumed = 0;
}

void ft_stream_end(ft_stream *s)
{
    if (s->final) return;
    s->final = true;
    while (parse_step(s)) {
    }
    if (s->st == CONTENT) send_delta(s, content_kind(s), ft_buf_str(&s->gap));
    ft_buf_clear(&s->gap);
}
