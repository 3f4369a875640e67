/* Chat completions, streamed and not, over the scripted model. */
#define _GNU_SOURCE
#include "bench.h"

static void a_response(void **state)
{
    (void)state;
    client_response r =
        post(CHAT, ask("\"model\":\"gpt-x\",\"seed\":7,", "Hello there, it is \\u00e9t\\u00e9."));
    assert_int_equal(r.status, 200);
    same_text(client_header(&r, "Content-Type"), "application/json; charset=utf-8");
    same_text(client_header(&r, "Server"), "foretoken");
    same_text(client_text(r.json, "object"), "chat.completion");
    same_text(client_text(r.json, "model"), "gpt-x");
    assert_int_equal(strlen(client_text(r.json, "id")), strlen("chatcmpl-") + 32);
    same_text(client_text(r.json, "choices.0.message.role"), "assistant");
    same_text(client_text(r.json, "choices.0.message.content"),
              "Hello there, it is \u00e9t\u00e9.");
    same_text(client_text(r.json, "choices.0.finish_reason"), "stop");
    const int64_t p = client_int(r.json, "usage.prompt_tokens");
    const int64_t n = client_int(r.json, "usage.completion_tokens");
    assert_true(p > 5 && n > 3);
    assert_int_equal(client_int(r.json, "usage.total_tokens"), p + n);
    assert_int_equal(client_int(r.json, "timings.predicted_n"), n);
    assert_int_equal(client_int(r.json, "timings.prompt_n") + client_int(r.json, "timings.cache_n"),
                     p);
    assert_true(client_int(r.json, "timings.draft_n") > 0);
    client_release(&r);
    r = post(CHAT, ask("\"response_fields\":[\"object\",\"usage/total_tokens\"],", "Hello."));
    assert_int_equal(json_object_size(r.json), 2);
    assert_true(json_integer_value(json_object_get(r.json, "usage/total_tokens")) > 5);
    client_release(&r);
}

static void a_stream(void **state)
{
    (void)state;
    client_response r =
        post(CHAT, ask("\"stream\":true,\"stream_options\":{\"include_usage\":true},",
                       "One two three four."));
    assert_int_equal(r.status, 200);
    same_text(client_header(&r, "Content-Type"), "text/event-stream");
    same_text(client_header(&r, "Cache-Control"), "no-cache");
    json_t *e = client_events(&r);
    const size_t n = json_array_size(e);
    assert_true(n >= 5);
    same_text(client_text(e, "0.choices.0.delta.role"), "assistant");
    assert_true(json_is_null(client_at(e, "0.choices.0.delta.content")));
    char *text = client_join(e, "choices.0.delta.content");
    assert_string_equal(text, "One two three four.");
    free(text);
    same_text(json_string_value(json_array_get(e, n - 1)), "[DONE]");
    const json_t *usage = json_array_get(e, n - 2), *last = json_array_get(e, n - 3);
    assert_int_equal(json_array_size(client_at(usage, "choices")), 0);
    assert_true(client_int(usage, "usage.completion_tokens") > 2);
    same_text(client_text(last, "choices.0.finish_reason"), "stop");
    assert_int_equal(json_object_size(client_at(last, "choices.0.delta")), 0);
    assert_non_null(client_at(last, "timings"));
    for (size_t i = 1; i + 1 < n; i++) {
        same_text(client_text(json_array_get(e, i), "id"), client_text(e, "0.id"));
        assert_int_equal(client_int(json_array_get(e, i), "created"), client_int(e, "0.created"));
        same_text(client_text(json_array_get(e, i), "object"), "chat.completion.chunk");
    }
    json_decref(e);
    client_release(&r);
}

/* Asked for, each chunk of text says whether its tokens were drafted; those of the script are by
 * turns. */
static void drafted_tokens(void **state)
{
    (void)state;
    client_response r = post(CHAT, ask("\"stream\":true,\"return_drafted\":true,", "say:a b c d"));
    json_t *events = client_events(&r), *e;
    size_t i;
    int yes = 0, no = 0, last = -1;
    json_array_foreach(events, i, e)
    {
        const json_t *d = json_object_get(e, "drafted");
        if (!client_text(e, "choices.0.delta.content")) continue;
        assert_true(json_is_boolean(d));
        assert_int_not_equal(json_is_true(d), last);
        last = json_is_true(d);
        yes += last, no += !last;
    }
    assert_true(yes > 0 && no > 0);
    json_decref(events);
    client_release(&r);
    r = post(CHAT, ask("\"stream\":true,", "say:a b c d"));
    assert_null(strstr(ft_buf_z(&r.body), "\"drafted\""));
    client_release(&r);
}

static void thoughts(void **state)
{
    (void)state;
#define THINKING                                                                                   \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"say:hm, well</think>\\n\\nYes.\"}],"          \
    "\"chat_template_kwargs\":{\"enable_thinking\":true}%s}"
    char b[512];
    snprintf(b, sizeof b, THINKING, "");
    client_response r = post(CHAT, b);
    same_text(client_text(r.json, "choices.0.message.reasoning_content"), "hm, well");
    same_text(client_text(r.json, "choices.0.message.content"), "Yes.");
    assert_true(client_int(r.json, "usage.completion_tokens_details.reasoning_tokens") > 1);
    client_release(&r);
    snprintf(b, sizeof b, THINKING, ",\"stream\":true");
    r = post(CHAT, b);
    json_t *e = client_events(&r);
    char *t = client_join(e, "choices.0.delta.reasoning_content");
    char *a = client_join(e, "choices.0.delta.content");
    assert_string_equal(t, "hm, well");
    assert_string_equal(a, "Yes.");
    free(t);
    free(a);
    json_decref(e);
    client_release(&r);
    snprintf(b, sizeof b, THINKING, ",\"reasoning_format\":\"none\"");
    r = post(CHAT, b);
    assert_non_null(strstr(client_text(r.json, "choices.0.message.content"), "</think>"));
    client_release(&r);
}

#define TOOL                                                                                       \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"parameters\":{"        \
    "\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"},\"days\":{\"type\":"       \
    "\"integer\"}}}}}],"
#define CALL                                                                                       \
    "Let me see.\\n<tool_call>\\n<function=weather>\\n<parameter=city>\\nOslo\\n</parameter>\\n"   \
    "<parameter=days>\\n3\\n</parameter>\\n</function>\\n</tool_call>"

static void calls(void **state)
{
    (void)state;
    client_response r = post(CHAT, ask(TOOL, CALL CALL));
    same_text(client_text(r.json, "choices.0.finish_reason"), "tool_calls");
    same_text(client_text(r.json, "choices.0.message.content"), "Let me see.");
    assert_int_equal(json_array_size(client_at(r.json, "choices.0.message.tool_calls")), 2);
    same_text(client_text(r.json, "choices.0.message.tool_calls.1.function.name"), "weather");
    same_text(client_text(r.json, "choices.0.message.tool_calls.1.function.arguments"),
              "{\"city\":\"Oslo\",\"days\":3}");
    assert_int_equal(strlen(client_text(r.json, "choices.0.message.tool_calls.0.id")), 29);
    client_release(&r);

    r = post(CHAT, ask(TOOL "\"stream\":true,", CALL));
    json_t *e = client_events(&r);
    char *args = client_join(e, "choices.0.delta.tool_calls.0.function.arguments");
    char *name = client_join(e, "choices.0.delta.tool_calls.0.function.name");
    assert_string_equal(args, "{\"city\":\"Oslo\",\"days\":3}");
    assert_string_equal(name, "weather");
    same_text(client_text(json_array_get(e, json_array_size(e) - 2), "choices.0.finish_reason"),
              "tool_calls");
    free(args);
    free(name);
    json_decref(e);
    client_release(&r);

    r = post(CHAT, ask("", CALL)); /* no tools: it is only text */
    assert_non_null(strstr(client_text(r.json, "choices.0.message.content"), "<tool_call>"));
    client_release(&r);
}

/* With tool_choice "none" the token that begins a call cannot be sampled; the prompt stays the
 * same. */
static void no_calls(void **state)
{
    (void)state;
    client_response r = post(CHAT, ask(TOOL "\"tool_choice\":\"none\",", CALL));
    assert_null(client_at(r.json, "choices.0.message.tool_calls"));
    assert_null(strstr(client_text(r.json, "choices.0.message.content"), "<tool_call>"));
    client_release(&r);
    r = post(CHAT, ask(TOOL "\"tool_choice\":\"none\",\"logit_bias\":{\"7\":1},", CALL));
    assert_null(strstr(client_text(r.json, "choices.0.message.content"), "<tool_call>"));
    client_release(&r);
    r = post("/apply-template", ask(TOOL "\"tool_choice\":\"none\",", "x"));
    client_response with = post("/apply-template", ask(TOOL, "x"));
    same_text(client_text(r.json, "prompt"), client_text(with.json, "prompt"));
    client_release(&with);
    client_release(&r);
    r = post("/v1/messages",
             "{\"max_tokens\":99,\"thinking\":{\"type\":\"disabled\"},\"tool_choice\":{\"type\":"
             "\"none\"},\"tools\":[{\"name\":\"weather\",\"input_schema\":{\"type\":\"object\"}}],"
             "\"messages\":[{\"role\":\"user\",\"content\":\"say:" CALL "\"}]}");
    assert_null(strstr(ft_buf_z(&r.body), "<tool_call>"));
    assert_null(strstr(ft_buf_z(&r.body), "tool_use"));
    client_release(&r);
}

static void several(void **state)
{
    (void)state;
    client_response r = post(CHAT, ask("\"n\":3,", "same"));
    assert_int_equal(json_array_size(client_at(r.json, "choices")), 3);
    assert_int_equal(client_int(r.json, "choices.2.index"), 2);
    client_release(&r);
    r = post(CHAT, ask("\"n\":2,\"stream\":true,", "same"));
    json_t *e = client_events(&r), *one;
    size_t i, ends = 0;
    json_array_foreach(e, i, one) ends += client_text(one, "choices.0.finish_reason") != NULL;
    assert_int_equal(ends, 2);
    json_decref(e);
    client_release(&r);
    refused(CHAT, ask("\"n\":5,", "x"), 400, "n is 5, the maximum is 4");
}

static void limits_of_a_response(void **state)
{
    (void)state;
    client_response r = post(CHAT, ask("\"max_tokens\":3,", "one two three four five six seven"));
    same_text(client_text(r.json, "choices.0.finish_reason"), "length");
    assert_int_equal(client_int(r.json, "usage.completion_tokens"), 3);
    client_release(&r);
    r = post(CHAT, ask("\"stop\":[\"fo\"],", "one two three four five"));
    same_text(client_text(r.json, "choices.0.message.content"), "one two three ");
    same_text(client_text(r.json, "choices.0.finish_reason"), "stop");
    client_release(&r);
    r = post(CHAT, ask("\"max_completion_tokens\":2,\"max_tokens\":5,", "one two three four"));
    assert_int_equal(client_int(r.json, "usage.completion_tokens"), 2);
    client_release(&r);
    r = post(CHAT, ask("\"max_tokens\":0,", "one"));
    assert_int_equal(client_int(r.json, "usage.completion_tokens"), 0);
    client_release(&r);
}

static void probabilities(void **state)
{
    (void)state;
    client_response r = post(CHAT, ask("\"logprobs\":true,\"top_logprobs\":2,", "one two three"));
    const json_t *list = client_at(r.json, "choices.0.logprobs.content");
    assert_int_equal(json_array_size(list), client_int(r.json, "usage.completion_tokens"));
    assert_int_equal(json_array_size(client_at(list, "0.top_logprobs")), 2);
    assert_non_null(client_at(list, "0.bytes"));
    char *t = client_join(list, "token");
    assert_string_equal(t, "one two three");
    free(t);
    client_release(&r);
    refused(CHAT, ask("\"logprobs\":true,\"top_logprobs\":25,", "x"), 400,
            "top_logprobs is 25, the maximum is 20");
    refused(CHAT, ask("\"top_logprobs\":2,", "x"), 400, "without logprobs");
}

static void prefill(void **state)
{
    (void)state;
    client_response r =
        post("/apply-template", "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},"
                                "{\"role\":\"assistant\",\"content\":\"Once upon\"}]}");
    const char *p = client_text(r.json, "prompt");
    assert_non_null(p);
    assert_string_equal(p + strlen(p) - 9, "Once upon");
    client_release(&r);
    refused(CHAT,
            "{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\"},{\"role\":\"assistant\","
            "\"content\":\"b\"}]}",
            400, "two assistant messages");
    refused(
        CHAT,
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"continue_final_message\":true}",
        400, "no assistant message");
}

/* A format that no grammar has only narrows: it is left out, and that is said. */
static void formats(void **state)
{
    (void)state;
    client_response r = post(
        CHAT, ask("\"json_schema\":{\"properties\":{\"a\":{\"type\":\"string\",\"format\":\"json-"
                  "pointer\"},\"format\":{\"type\":\"string\",\"format\":\"uuid\"},\"c\":{\"type\":"
                  "\"string\",\"format\":\"email\",\"maxLength\":9},\"d\":{\"enum\":[{\"format\":"
                  "\"x\"}]}}},\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\","
                  "\"parameters\":{\"properties\":{\"p\":{\"format\":\"odd\"}}}}}],",
                  "x"));
    assert_int_equal(r.status, 200);
    same_text(
        client_header(&r, "X-Schema-Ignored"),
        "format json-pointer at #/properties/a, format email at #/properties/c, format odd at "
        "#/0/function/parameters/properties/p");
    client_release(&r);
    r = post(
        CHAT,
        ask("\"json_schema\":{\"type\":\"string\",\"format\":\"uuid\",\"maxLength\":36},", "x"));
    assert_null(client_header(&r, "X-Schema-Ignored"));
    client_release(&r);
}

static void bad_messages(void **state)
{
    (void)state;
    refused(CHAT, "{\"messages\":[", 400, "byte");
    refused(CHAT, "[1]", 400, "want a JSON object");
    refused(CHAT, "{}", 400, "messages is absent");
    refused(CHAT, "{\"messages\":[]}", 400, "at least one");
    refused(CHAT, "{\"messages\":[7]}", 400, "messages[0] is 7");
    refused(CHAT, "{\"messages\":[{\"role\":\"king\",\"content\":\"x\"}]}", 400,
            "role is \"king\"");
    refused(CHAT, "{\"messages\":[{\"role\":\"user\"}]}", 400, "no content");
    refused(CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":7}]}", 400, "want a string");
    refused(CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}",
            400, "want an image_url with the data of an image");
    refused(CHAT,
            "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\","
            "\"image_url\":{\"url\":\"data:image/png;base64,aGVsbG8=\"}}]}]}",
            400, "no vision tower");
    refused(CHAT,
            "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"chat_template_kwargs\":{"
            "\"enable_thinking\":\"no\"}}",
            400, "enable_thinking is \"no\"");
    client_response r = post(CHAT, "{\"messages\":3}");
    same_text(client_text(r.json, "error.type"), "invalid_request_error");
    same_text(client_text(r.json, "error.param"), "messages");
    assert_true(json_is_null(client_at(r.json, "error.code")));
    assert_int_equal(client_int(r.json, "error.status"), 400);
    client_release(&r);
}

static void bad_fields(void **state)
{
    (void)state;
    refused(CHAT, ask("\"temperature\":\"hot\",", "x"), 400,
            "temperature is \"hot\", want a number");
    refused(CHAT, ask("\"max_tokens\":\"many\",", "x"), 400, "max_tokens is \"many\"");
    refused(CHAT, ask("\"stream\":1,", "x"), 400, "want true or false");
    refused(CHAT, ask("\"n\":0,", "x"), 400, "n is 0");
    refused(CHAT, ask("\"stop\":{},", "x"), 400, "stop is {}");
    ft_buf b;
    ft_buf_init(&b, 4096);
    ft_buf_puts(&b, "\"stop\":[\"a\"");
    for (int i = 0; i < 64; i++) ft_buf_puts(&b, ",\"a\"");
    ft_buf_puts(&b, "],");
    refused(CHAT, ask(ft_buf_z(&b), "x"), 400, "stop has 65 strings, the maximum is 64");
    ft_buf_release(&b);
    refused(CHAT, ask("\"seed\":1.5,", "x"), 400, "seed is 1.5");
    refused(CHAT, ask("\"logit_bias\":{\"99999999\":1},", "x"), 400, "logit_bias names the token");
    refused(CHAT, ask("\"samplers\":[3],", "x"), 400, "samplers is [3]");
    refused(CHAT, ask("\"speculative\":{\"n_max\":\"x\"},", "x"), 400,
            "speculative.n_max is \"x\", want a whole number");
    refused(CHAT, ask("\"stop_sequences\":7,", "x"), 400, "stop_sequences is 7");
    refused(CHAT, ask("\"num_predict\":1.5,", "x"), 400, "num_predict is 1.5");
    refused(CHAT, ask("\"repeat_last_n\":-5,", "x"), 400, "repeat_last_n is -5");
    refused(CHAT, ask("\"tools\":7,", "x"), 400, "tools is 7");
    refused(CHAT, ask("\"tools\":[{}],", "x"), 400, "tools[0]");
    refused(CHAT, ask("\"tool_choice\":\"required\",", "x"), 400, "no function");
    refused(
        CHAT,
        ask(TOOL "\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"nope\"}},", "x"),
        400, "not among the tools");
    refused(CHAT, ask(TOOL "\"grammar\":\"root ::= x\",", "x"), 400, "tools and a grammar");
    refused(CHAT, ask("\"grammar\":\"broken\",", "x"), 400, "grammar");
    refused(CHAT, ask("\"json_schema\":{},\"grammar\":\"root ::= x\",", "x"), 400,
            "want one of them");
    refused(CHAT, ask("\"response_format\":{\"type\":\"xml\"},", "x"), 400,
            "response_format.type is \"xml\"");
    refused(CHAT, ask("\"json_schema\":{\"type\":\"integer\",\"minimum\":5,\"maximum\":1},", "x"),
            400, "minimum");
    refused(CHAT, ask("\"response_fields\":[1],", "x"), 400, "response_fields is");
    refused(CHAT, ask("\"reasoning_format\":\"loud\",", "x"), 400, "reasoning_format is \"loud\"");
    client_response r = post(
        CHAT, ask("\"temperature\":-3,\"top_p\":7,\"user\":\"me\",\"stop\":null,\"unknown\":{},",
                  "fine"));
    assert_int_equal(r.status, 200); /* these clamp, or are ignored */
    client_release(&r);
}

static void too_long(void **state)
{
    (void)state;
    ft_buf b;
    ft_buf_init(&b, 1 << 20);
    ft_buf_puts(&b, "{\"messages\":[{\"role\":\"user\",\"content\":\"");
    for (int i = 0; i < SCRIPT_CTX + 10; i++) ft_buf_puts(&b, " x");
    ft_buf_puts(&b, "\"}]}");
    client_response r = post(CHAT, ft_buf_z(&b));
    assert_int_equal(r.status, 400);
    same_text(client_text(r.json, "error.type"), "exceed_context_size_error");
    same_text(client_text(r.json, "error.code"), "context_length_exceeded");
    assert_non_null(
        strstr(client_text(r.json, "error.message"),
               "exceeds the available context size: the maximum context length is 4096 tokens"));
    assert_true(client_int(r.json, "error.n_prompt_tokens") > SCRIPT_CTX);
    assert_int_equal(client_int(r.json, "error.n_ctx"), SCRIPT_CTX);
    client_release(&r);
    ft_buf_release(&b);
}

static void breaks_down(void **state)
{
    (void)state;
#define FAILING                                                                                    \
    "{%s\"messages\":[{\"role\":\"user\",\"content\":\"say/fail:half a\"}],"                       \
    "\"chat_template_kwargs\":{\"enable_thinking\":false}}"
    char b[400];
    snprintf(b, sizeof b, FAILING, "");
    refused(CHAT, b, 500, "the script says so");
    snprintf(b, sizeof b, FAILING, "\"stream\":true,");
    client_response r = post(CHAT, b);
    json_t *e = client_events(&r);
    const json_t *last = json_array_get(e, json_array_size(e) - 1);
    assert_int_equal(r.status, 200);
    same_text(client_text(last, "error.type"), "server_error"); /* and no [DONE] */
    json_decref(e);
    client_release(&r);
}

static void control(void **state)
{
    (void)state;
    const char *body =
        "{\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"say/20ms:a b c d e f g h "
        "i j k l "
        "m n o p q r s t u v w x y z a b c d e f g h i j k l m n o p q r s t u v w x y z\"}],"
        "\"chat_template_kwargs\":{\"enable_thinking\":true}}";
    client_response r;
    ft_buf b;
    client_request(&b, "POST", CHAT, "Connection: close\r\n", body);
    const int fd = client_connect(port);
    client_send(fd, ft_buf_z(&b), b.len, 0);
    client_init(&r);
    char id[64] = "";
    while (!id[0] && client_more(fd, &r.raw, 5000)) {
        const char *p = strstr(ft_buf_z(&r.raw), "\"id\":\"chatcmpl-");
        if (p && strlen(p) > 60) snprintf(id, sizeof id, "%.41s", p + 6);
    }
    char order[128];
    snprintf(order, sizeof order, "{\"id\":\"%s\",\"action\":\"reasoning_end\"}", id);
    client_response k = post("/v1/chat/completions/control", order);
    assert_true(json_is_true(client_at(k.json, "success")));
    client_release(&k);
    while (client_more(fd, &r.raw, 5000)) continue;
    client_parse(&r);
    json_t *e = client_events(&r);
    char *answer = client_join(e, "choices.0.delta.content");
    assert_string_equal(answer, "done");
    free(answer);
    json_decref(e);
    close(fd);
    client_release(&r);
    ft_buf_release(&b);
    k = post("/v1/chat/completions/control",
             "{\"id\":\"chatcmpl-none\",\"action\":\"reasoning_end\"}");
    assert_true(json_is_false(client_at(k.json, "success")));
    client_release(&k);
    refused("/v1/chat/completions/control", "{\"id\":\"x\",\"action\":\"dance\"}", 400,
            "want reasoning_end");
}

static void counts(void **state)
{
    (void)state;
    client_response r = post(CHAT, ask("", "hello"));
    const int64_t n = client_int(r.json, "usage.prompt_tokens");
    client_release(&r);
    r = post("/v1/chat/completions/input_tokens", ask("", "hello"));
    assert_int_equal(client_int(r.json, "input_tokens"), n);
    client_release(&r);
}

static void silence(void **state)
{
    (void)state;
    client_response r = post(
        CHAT,
        "{\"stream\":true,\"sse_ping_interval\":1,\"return_progress\":true,\"messages\":[{\"role\":"
        "\"user\",\"content\":\"say/1300ms:a "
        "b\"}],\"chat_template_kwargs\":{\"enable_thinking\":false}}");
    json_t *e = client_events(&r), *one;
    size_t i, pings = 0, steps = 0;
    json_array_foreach(e, i, one)
    {
        pings += json_is_string(one) && !strcmp(json_string_value(one), ":");
        steps += client_at(one, "prompt_progress.total") != NULL;
    }
    assert_true(pings >= 1);
    assert_true(steps >= 1);
    json_decref(e);
    client_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_response),     cmocka_unit_test(a_stream),
        cmocka_unit_test(drafted_tokens), cmocka_unit_test(thoughts),
        cmocka_unit_test(calls),          cmocka_unit_test(no_calls),
        cmocka_unit_test(several),        cmocka_unit_test(limits_of_a_response),
        cmocka_unit_test(probabilities),  cmocka_unit_test(prefill),
        cmocka_unit_test(bad_messages),   cmocka_unit_test(bad_fields),
        cmocka_unit_test(formats),        cmocka_unit_test(too_long),
        cmocka_unit_test(breaks_down),    cmocka_unit_test(control),
        cmocka_unit_test(counts),         cmocka_unit_test(silence),
    };
    return cmocka_run_group_tests(tests, open_usual, close_usual);
}
