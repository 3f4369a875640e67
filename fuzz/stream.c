/* fuzz/stream.c - the same response as a whole, byte by byte and in chunks selected by the input
 * must give the same deltas. The arguments of every call are JSON, and only tags and white space
 * are dropped. */
#include "text/stream.h"
#include "base/buf.h"
#include "base/utf8.h"
#include "text/stop.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define MAX_OUT ((size_t)64 << 20)

typedef struct record { /* consecutive deltas of the same kind and call are joined */
    ft_buf text;
    int kind, index;
    ft_buf args;
} record;

static void check_args(record *r)
{
    if (!r->args.len) return;
    json_t *j = json_loadb(r->args.data, r->args.len, 0, NULL);
    /* skip what jansson cannot represent: a zero byte in a key, or a huge number */
    if (!j && !strstr(r->args.data, "\\u0000")) {
        json_error_t e;
        j = json_loadb(r->args.data, r->args.len, 0, &e);
        if (!strstr(e.text, "number") && !strstr(e.text, "depth")) abort();
    }
    json_decref(j);
    ft_buf_clear(&r->args);
}

static void on_delta(void *user, const ft_stream_delta *d)
{
    record *r = user;
    if (d->kind == FT_DELTA_CALL) check_args(r);
    if (d->kind == FT_DELTA_ARGS) ft_buf_put_str(&r->args, d->text);
    if (r->kind != (int)d->kind || r->index != d->index || d->kind == FT_DELTA_CALL)
        ft_buf_printf(&r->text, "\n[%d %d]", (int)d->kind, d->index);
    r->kind = (int)d->kind;
    r->index = d->index;
    ft_buf_put_str(&r->text, d->text);
}

/* cut 0: as a whole; 1: single bytes; else chunks of varying size. */
static void parse_stream(const ft_stream_opts *o, ft_str text, unsigned cut, record *r)
{
    *r = (record){.kind = -1, .index = -1};
    ft_buf_init(&r->text, MAX_OUT);
    ft_buf_init(&r->args, MAX_OUT);
    ft_stream *s = ft_stream_new(o, on_delta, r);
    for (size_t at = 0; at < text.n;) {
        size_t len = cut == 0 ? text.n : cut == 1 ? 1 : 1 + cut % 7;
        if (len > text.n - at) len = text.n - at;
        if (cut > 1) cut = cut * 1103515245u + 12345u;
        char *copy = malloc(len); /* exact size, so that a sanitizer detects reads past the end */
        memcpy(copy, text.p + at, len);
        ft_stream_feed(s, (ft_str){copy, len});
        free(copy);
        at += len;
    }
    ft_stream_end(s);
    ft_stream_free(s);
    check_args(r);
}

static void release_record(record *r)
{
    ft_buf_release(&r->text);
    ft_buf_release(&r->args);
}

static void check_same(const record *a, const record *b)
{
    if (!ft_str_eq(ft_buf_str(&a->text), ft_buf_str(&b->text))) abort();
}

static void check_stop(ft_str text, unsigned cut)
{
    const ft_str words[] = {FT_STR("</"), FT_STR("ab"), FT_STR("babc"), FT_STR("\n\n"),
                            FT_STR("<tool")};
    ft_buf out[2];
    int hit[2];
    for (int k = 0; k < 2; k++) {
        ft_stop s;
        ft_buf_init(&out[k], MAX_OUT);
        if (ft_stop_init(&s, words, 5, NULL)) abort();
        const size_t step = k ? 1 + cut % 5 : text.n;
        for (size_t at = 0; at < text.n; at += step)
            ft_stop_feed(&s, (ft_str){text.p + at, step < text.n - at ? step : text.n - at},
                         &out[k]);
        ft_stop_end(&s, &out[k]);
        hit[k] = s.hit;
        ft_stop_release(&s);
    }
    if (hit[0] != hit[1] || !ft_str_eq(ft_buf_str(&out[0]), ft_buf_str(&out[1]))) abort();
    ft_buf_release(&out[0]);
    ft_buf_release(&out[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char tools_text[] =
        "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{"
        "\"s\":{\"type\":\"string\"},\"i\":{\"type\":\"integer\"},\"o\":{\"type\":\"object\"},"
        "\"u\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]},\"x\":{}}}}}]";
    if (n < 2) return 0;
    const unsigned flags = data[0], cut = data[1];
    const ft_str text = {(const char *)data + 2, n - 2};
    json_t *tools = json_loads(tools_text, 0, NULL);
    const ft_stream_opts o = {
        .family = (ft_chat_family)(flags % 3),
        .in_thought = flags & 4,
        .keep_thoughts = flags & 8,
        .calls = !(flags & 16),
        .tools = flags & 32 ? NULL : tools,
    };
    record whole, bytes, pieces;
    parse_stream(&o, text, 0, &whole);
    parse_stream(&o, text, 1, &bytes);
    parse_stream(&o, text, cut + 2, &pieces);
    check_same(&whole, &bytes);
    check_same(&whole, &pieces);
    release_record(&whole);
    release_record(&bytes);
    release_record(&pieces);
    check_stop(text, cut);
    json_decref(tools);
    return 0;
}
