/* tests/serve/transcripts.c - the responses of every route, streamed and not, are compared byte for
 * byte with tests/golden/serve.txt, except for ids and times.
 *   build/tests/serve/transcripts --write      rewrites that file; review the difference */
#define _GNU_SOURCE
#include "bench.h"

#include "base/file.h"

#define GOLDEN     "tests/golden/serve.txt"
#define THINK(on)  "\"chat_template_kwargs\":{\"enable_thinking\":" on "}"
#define USER(text) "\"messages\":[{\"role\":\"user\",\"content\":\"" text "\"}]"
#define TOOLS                                                                                      \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"parameters\":{"        \
    "\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"},\"days\":{\"type\":"       \
    "\"integer\"}}}}}]"
#define CALL                                                                                       \
    "<tool_call>\\n<function=weather>\\n<parameter=city>\\nRome\\n</parameter>\\n<parameter=days>" \
    "\\n3\\n</parameter>\\n</function>\\n</tool_call>"
#define PLAIN  "{\"seed\":1," THINK("false") "," USER("say:Hello, w\303\266rld.")
#define STEPS  "{\"stream\":true,\"seed\":1," THINK("false") "," USER("say/step:One two three.")
#define THINKS THINK("true") "," USER("say/step:a thought</think>\\n\\nan answer")
#define CALLS  THINK("false") "," TOOLS "," USER("say/step:Let me see. " CALL)

typedef struct request {
    const char *method, *path, *body;
} request;

static const request REQUESTS[] = {
    {"GET", "/health", NULL},
    {"GET", "/v1/models", NULL},
    {"GET", "/v1/models/scripted", NULL},
    {"GET", "/props", NULL},
    {"GET", "/slots", NULL},
    {"GET", "/metrics", NULL},
    {"GET", "/", NULL},
    /* OpenAI chat */
    {"POST", "/v1/chat/completions", PLAIN "}"},
    {"POST", "/v1/chat/completions", STEPS "}"},
    {"POST", "/v1/chat/completions", STEPS ",\"stream_options\":{\"include_usage\":true}}"},
    {"POST", "/v1/chat/completions",
     STEPS ",\"logprobs\":true,\"top_logprobs\":1,\"max_tokens\":2}"},
    {"POST", "/v1/chat/completions", STEPS ",\"return_drafted\":true,\"return_tokens\":true}"},
    {"POST", "/v1/chat/completions", PLAIN ",\"stop\":[\", \"],\"logprobs\":true}"},
    {"POST", "/v1/chat/completions", PLAIN ",\"n\":2,\"max_tokens\":1}"},
    {"POST", "/v1/chat/completions", "{" THINKS "}"},
    {"POST", "/v1/chat/completions", "{\"stream\":true," THINKS "}"},
    {"POST", "/v1/chat/completions", "{\"reasoning_format\":\"none\"," THINKS "}"},
    {"POST", "/v1/chat/completions", "{" CALLS "}"},
    {"POST", "/v1/chat/completions", "{\"stream\":true," CALLS "}"},
    {"POST", "/v1/chat/completions", "{\"stream\":true," THINK("false") "," USER("say/fail:x") "}"},
    {"POST", "/v1/chat/completions", "{" THINK("false") "," USER("say/fail:x") "}"},
    {"POST", "/v1/chat/completions", "{\"messages\":[]}"},
    {"POST", "/v1/chat/completions", "{\"messages\":"},
    {"POST", "/v1/chat/completions", PLAIN ",\"top_logprobs\":25,\"logprobs\":true}"},
    {"POST", "/v1/chat/completions/input_tokens", PLAIN "}"},
    {"POST", "/v1/chat/completions/control",
     "{\"id\":\"chatcmpl-none\",\"action\":\"reasoning_end\"}"},
    /* OpenAI text */
    {"POST", "/v1/completions", "{\"prompt\":\"say:Hello there\",\"logprobs\":1,\"echo\":true}"},
    {"POST", "/v1/completions", "{\"prompt\":[\"say:one\",\"say:two\"]}"},
    {"POST", "/v1/completions",
     "{\"stream\":true,\"prompt\":\"say/step:one two\",\"stream_options\":{"
     "\"include_usage\":true}}"},
    /* OpenAI responses */
    {"POST", "/v1/responses",
     "{" THINK("true") ",\"input\":\"say:a thought</think>\\n\\nan answer\"}"},
    {"POST", "/v1/responses",
     "{\"stream\":true," THINK("true") ",\"input\":\"say/step:a thought</think>\\n\\nan answer\"}"},
    {"POST", "/v1/responses",
     "{\"stream\":true,\"reasoning\":{\"effort\":\"none\"},\"tools\":[{\"type\":\"function\","
     "\"name\":"
     "\"weather\",\"parameters\":{\"type\":\"object\",\"properties\":{\"city\":{\"type\":"
     "\"string\"},"
     "\"days\":{\"type\":\"integer\"}}}}],\"input\":\"say/step:" CALL "\"}"},
    {"POST", "/v1/responses",
     "{\"max_output_tokens\":1,\"reasoning\":{\"effort\":\"none\"},\"input\":"
     "\"say:one two three\"}"},
    {"POST", "/v1/responses", "{\"previous_response_id\":\"resp_1\",\"input\":\"x\"}"},
    {"POST", "/v1/responses/input_tokens", "{\"input\":\"hi\"}"},
    /* Anthropic */
    {"POST", "/v1/messages",
     "{\"max_tokens\":64,\"thinking\":{\"type\":\"disabled\"}," USER("say:Hello.") "}"},
    {"POST", "/v1/messages",
     "{\"stream\":true,\"max_tokens\":64,\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":99}"
     "," USER("say/step:a thought</think>\\n\\nan answer") "}"},
    {"POST", "/v1/messages",
     "{\"stream\":true,\"max_tokens\":64,\"thinking\":{\"type\":\"disabled\"},\"tools\":[{\"name\":"
     "\"weather\",\"input_schema\":{\"type\":\"object\",\"properties\":{\"city\":{\"type\":"
     "\"string\"},\"days\":{\"type\":\"integer\"}}}}]," USER("say/step:Let me see. " CALL) "}"},
    {"POST", "/v1/messages",
     "{\"max_tokens\":64,\"stop_sequences\":[\"two\"],\"thinking\":{\"type\":\"disabled\"}," USER(
         "say:one two three") "}"},
    {"POST", "/v1/messages", "{\"max_tokens\":64,\"messages\":7}"},
    {"POST", "/v1/messages/count_tokens", "{" USER("hi") "}"},
    /* llama.cpp */
    {"POST", "/completion",
     "{\"seed\":1,\"prompt\":\"say:Hello there\",\"n_probs\":1,\"return_tokens\":true}"},
    {"POST", "/completion",
     "{\"seed\":1,\"stream\":true,\"prompt\":\"say/step:one two\",\"return_progress\":true}"},
    {"POST", "/completion",
     "{\"seed\":1,\"prompt\":\"say:Hello there\",\"n_predict\":1,\"response_fields\":"
     "[\"content\",\"generation_settings/n_predict\"]}"},
    {"POST", "/infill", "{\"input_prefix\":\"a\",\"input_suffix\":\"b\"}"},
    {"POST", "/tokenize", "{\"content\":\"one two\",\"with_pieces\":true}"},
    {"POST", "/detokenize", "{\"tokens\":[72,105]}"},
    {"POST", "/apply-template", "{" USER("hi") "}"},
    {"POST", "/props", "{\"temperature\":0.2}"},
    {"POST", "/slots/1?action=erase", "{}"},
    {"POST", "/slots/1?action=save", "{\"filename\":\"x\"}"},
    {"POST", "/v1/embeddings", "{\"input\":[\"one\",\"two\"]}"},
    {"POST", "/v1/embeddings", "{\"input\":\"one\",\"encoding_format\":\"base64\"}"},
    {"POST", "/embedding", "{\"content\":\"one\"}"},
    {"POST", "/rerank", "{\"query\":\"a\",\"documents\":[\"b\"]}"},
    {"POST", "/models/load", "{\"model\":\"x\"}"},
    {"POST", "/models/unload", "{\"model\":\"x\"}"},
    /* Ollama */
    {"GET", "/api/version", NULL},
    {"GET", "/api/tags", NULL},
    {"GET", "/api/ps", NULL},
    {"POST", "/api/show", "{\"model\":\"any\"}"},
    {"POST", "/api/chat", "{\"think\":false," USER("say/step:one two") "}"},
    {"POST", "/api/chat",
     "{\"stream\":false,\"think\":true," USER("say:a thought</think>\\n\\nan answer") "}"},
    {"POST", "/api/chat", "{\"think\":false," TOOLS "," USER("say/step:" CALL) "}"},
    {"POST", "/api/generate", "{\"stream\":false,\"think\":false,\"prompt\":\"say:one two\"}"},
    {"POST", "/api/generate", "{\"think\":false,\"prompt\":\"say/step:one two\"}"},
    {"POST", "/api/embed", "{\"input\":\"one\"}"},
    {"POST", "/api/embeddings", "{\"prompt\":\"one\"}"},
    {"POST", "/api/pull", "{\"model\":\"scripted\"}"},
    {"DELETE", "/api/delete", "{\"model\":\"scripted\"}"},
    /* unknown routes */
    {"GET", "/nowhere", NULL},
    {"DELETE", "/props", NULL},
};

/* ---- values that differ between runs ---- */

static bool ends_in(const char *p, size_t n, const char *end)
{
    const size_t k = strlen(end);
    return n >= k && !memcmp(p + n - k, end, k);
}

/* Members whose values are times, dates, versions or random. */
static bool varies(const char *p, size_t n)
{
    static const char *const key[] = {
        "created",     "created_at", "completed_at", "system_fingerprint", "build_info",
        "modified_at", "expires_at", "seed",         "signature_time",     "id_task"};
    for (size_t i = 0; i < FT_COUNT(key); i++)
        if (strlen(key[i]) == n && !memcmp(key[i], p, n)) return true;
    return ends_in(p, n, "_ms") || ends_in(p, n, "_per_second") || ends_in(p, n, "_duration");
}

/* The letters before the random part of an id, or 0. */
static size_t id_prefix(const char *p, size_t n)
{
    static const char *const prefix[] = {"chatcmpl-", "cmpl-", "resp_",  "msg_", "rs_",
                                         "fc_",       "call_", "toolu_", "req_"};
    for (size_t i = 0; i < FT_COUNT(prefix); i++) {
        const size_t k = strlen(prefix[i]);
        if (n >= k + 16 && !memcmp(p, prefix[i], k)) return k;
    }
    return 0;
}

/* The end of a JSON string that begins after p. */
static const char *text_end(const char *p)
{
    while (*p && *p != '"') p += *p == '\\' && p[1] ? 2 : 1;
    return p;
}

static void mask_values(ft_buf *out, const char *p)
{
    while (*p) {
        if (*p != '"') {
            ft_buf_putc(out, *p++);
            continue;
        }
        const char *from = p + 1, *end = text_end(from);
        const size_t n = (size_t)(end - from), k = id_prefix(from, n);
        if (k)
            ft_buf_printf(out, "\"%.*s~\"", (int)k, from);
        else
            ft_buf_printf(out, "\"%.*s\"", (int)n, from);
        p = *end ? end + 1 : end;
        if (*p != ':' || !varies(from, n)) continue;
        ft_buf_puts(out, ":~");
        p++;
        p = *p == '"' ? text_end(p + 1) + 1 : p + strcspn(p, ",}]");
    }
}

/* Names and types of metrics, without the values. */
static void mask_metrics(ft_buf *out, const char *p)
{
    while (*p) {
        const size_t n = strcspn(p, "\n"), k = *p == '#' ? n : strcspn(p, " ");
        ft_buf_printf(out, "%.*s\n", (int)k, p);
        p += n + (p[n] == '\n');
    }
}

static void transcript(ft_buf *out, const request *q)
{
    client_response r = client_call(port, q->method, q->path, NULL, q->body);
    const char *type = client_header(&r, "Content-Type");
    ft_buf_printf(out, "#### %s %s\n%s%s%d %s\n\n", q->method, q->path, q->body ? q->body : "",
                  q->body ? "\n" : "", r.status, type ? type : "");
    if (!strcmp(q->path, "/metrics"))
        mask_metrics(out, ft_buf_z(&r.body));
    else if (strcmp(q->path, "/"))
        mask_values(out, ft_buf_z(&r.body));
    ft_buf_puts(out, "\n\n");
    client_release(&r);
}

static void fail_at_difference(const char *found, const char *want)
{
    int line = 1;
    while (*found && *found == *want) line += *found++ == '\n', want++;
    if (*found == *want) return;
    while (line > 1 && found[-1] != '\n') found--, want--;
    fail_msg("%s, line %d\n  found  %.*s\n  want   %.*s", GOLDEN, line, (int)strcspn(found, "\n"),
             found, (int)strcspn(want, "\n"), want);
}

static bool write_anew;

static void all(void **state)
{
    (void)state;
    ft_buf b;
    ft_err err;
    char *want = NULL;
    size_t n;
    ft_buf_init(&b, 1 << 24);
    for (size_t i = 0; i < FT_COUNT(REQUESTS); i++) transcript(&b, &REQUESTS[i]);
    if (write_anew) {
        FILE *f = fopen(GOLDEN, "w");
        assert_non_null(f);
        fwrite(b.data, 1, b.len, f);
        fclose(f);
    } else {
        if (ft_file_read(&want, &n, GOLDEN, 1 << 24, &err)) fail_msg("%s", err.text);
        fail_at_difference(ft_buf_z(&b), want);
    }
    ft_free(want);
    ft_buf_release(&b);
}

int main(int argc, char **argv)
{
    write_anew = argc > 1 && !strcmp(argv[1], "--write");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all, open_usual, close_usual)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
