/* tests/serve/apis.c - the APIs other than chat completions, with the scripted model: completions,
 * native, responses, messages, Ollama, embeddings, and the small routes. */
#define _GNU_SOURCE
#include "bench.h"

#include "base/file.h"

#include <dirent.h>

#define TALK(say) "[{\"role\":\"user\",\"content\":\"say:" say "\"}]"
#define CALL                                                                                       \
    "Wait.\\n<tool_call>\\n<function=add>\\n<parameter=a>\\n1\\n</parameter>\\n<parameter=b>\\n"   \
    "two\\n</parameter>\\n</function>\\n</tool_call>"
#define PARAMS                                                                                     \
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":"           \
    "\"string\"}}}"
#define NO_THOUGHT "\"chat_template_kwargs\":{\"enable_thinking\":false}"

/* The types of the events that do not contain left_out, each followed by a space; free() */
static char *event_types(const json_t *events, const char *left_out)
{
    size_t i;
    json_t *one;
    ft_buf b;
    ft_buf_init(&b, 1 << 16);
    json_array_foreach(events, i, one)
    {
        const char *type = client_text(one, "type");
        same_text(type, client_text(one, "@event"));
        if (!strstr(type, left_out)) ft_buf_printf(&b, "%s ", type);
    }
    return ft_buf_take(&b);
}

/* ---- completions ---- */

static void completions(void **state)
{
    (void)state;
    client_response r =
        post("/v1/completions", "{\"model\":\"m\",\"prompt\":\"say:one two\",\"logprobs\":1}");
    assert_int_equal(r.status, 200);
    same_text(client_text(r.json, "object"), "text_completion");
    same_text(client_text(r.json, "choices.0.text"), "one two");
    same_text(client_text(r.json, "choices.0.finish_reason"), "stop");
    const json_t *l = client_at(r.json, "choices.0.logprobs");
    const size_t n = json_array_size(client_at(l, "tokens"));
    assert_true(n >= 2 && n == json_array_size(client_at(l, "token_logprobs")));
    assert_true(n == json_array_size(client_at(l, "text_offset")) &&
                n == json_array_size(client_at(l, "top_logprobs")));
    assert_int_equal(client_int(l, "text_offset.0"), 0);
    assert_true(client_int(l, "text_offset.1") > 0);
    client_release(&r);

    r = post("/v1/completions", "{\"prompt\":[\"say:a b\",\"say:c d\"],\"n\":2,\"echo\":true}");
    assert_int_equal(json_array_size(client_at(r.json, "choices")), 4);
    same_text(client_text(r.json, "choices.1.text"), "say:a ba b");
    same_text(client_text(r.json, "choices.2.text"), "say:c dc d");
    client_release(&r);

    r = post(
        "/v1/completions",
        "{\"prompt\":\"say:one two\",\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
    json_t *e = client_events(&r);
    char *t = client_join(e, "choices.0.text");
    assert_string_equal(t, "one two");
    same_text(json_string_value(json_array_get(e, json_array_size(e) - 1)), "[DONE]");
    free(t);
    json_decref(e);
    client_release(&r);
    refused("/v1/completions", "{}", 400, "prompt is missing");
    refused("/v1/completions", "{\"prompt\":[]}", 400, "want text or token ids");
    refused("/v1/completions", "{\"prompt\":\"\"}", 400, "empty");
    refused("/v1/completions", "{\"prompt\":\"x\",\"logprobs\":9}", 400, "logprobs is 9");
    refused("/v1/completions", "{\"prompt\":\"x\",\"best_of\":3}", 400, "best_of is 3");
    refused("/v1/completions", "{\"prompt\":[99999999]}", 400, "token ids");
    r = post("/v1/completions", "{\"prompt\":\"say:one\",\"suffix\":\" two\",\"max_tokens\":3}");
    assert_int_equal(strncmp(client_text(r.json, "choices.0.text"), "one", 3), 0); /* as /infill */
    client_release(&r);
    refused("/v1/completions", "{\"prompt\":[1],\"suffix\":\"x\"}", 400, "prompt is");
}

/* With echo and logprobs, the lists begin with the tokens of the prompt. */
static void prompt_scores(void **state)
{
    (void)state;
    client_response r = post("/v1/completions", "{\"prompt\":\"say:one\",\"logprobs\":1,"
                                                "\"echo\":true,\"max_tokens\":1}");
    const json_t *l = client_at(r.json, "choices.0.logprobs");
    const size_t n = json_array_size(client_at(l, "tokens"));
    assert_int_equal(n, client_int(r.json, "usage.prompt_tokens") + 1);
    same_text(client_text(r.json, "choices.0.text"), "say:oneone");
    assert_true(json_is_null(client_at(l, "token_logprobs.0")));
    assert_true(json_is_null(client_at(l, "top_logprobs.0")));
    assert_true(json_number_value(client_at(l, "token_logprobs.1")) == -1);
    assert_int_equal(json_object_size(client_at(l, "top_logprobs.1")), 1);
    assert_int_equal(client_int(l, "text_offset.0"), 0);
    char *text = client_join(client_at(l, "tokens"), "");
    assert_string_equal(text, "say:oneone");
    free(text);
    client_release(&r);
    r = post("/v1/completions", "{\"prompt\":\"say:one\",\"logprobs\":1,\"echo\":true,"
                                "\"max_tokens\":0}");
    assert_int_equal(json_array_size(client_at(r.json, "choices.0.logprobs.tokens")),
                     client_int(r.json, "usage.prompt_tokens"));
    client_release(&r);
    r = post("/completion", "{\"prompt\":\"say:one\",\"n_probs\":2,\"prompt_probs\":true}");
    assert_int_equal(json_array_size(client_at(r.json, "prompt_probabilities")),
                     client_int(r.json, "tokens_evaluated"));
    assert_int_equal(json_array_size(client_at(r.json, "prompt_probabilities.1.top_logprobs")), 2);
    client_release(&r);
    refused("/completion", "{\"prompt\":\"x\",\"prompt_probs\":true}", 400, "without n_probs");
    refused("/v1/completions", "{\"prompt\":\"x\",\"echo\":true,\"logprobs\":0,\"stream\":true}",
            400, "stream is true with echo");
}

/* Every metric that the dashboard uses exists. */
static void dashboard(void **state)
{
    (void)state;
    char *text = NULL;
    size_t n, found = 0;
    assert_int_equal(ft_file_read(&text, &n, "deploy/grafana.json", 1 << 20, NULL), FT_OK);
    client_response r = get("/metrics");
    for (const char *p = text; (p = strstr(p, "foretoken:")); found++) {
        char line[100], kind[120];
        const size_t len = strspn(p + 10, "abcdefghijklmnopqrstuvwxyz_") + 10;
        snprintf(line, sizeof line, "\n%.*s", (int)len, p);
        snprintf(kind, sizeof kind, "# TYPE %s ", line + 1); /* possibly without a value yet */
        const char *at = strstr(ft_buf_z(&r.body), line);
        if (!strstr(ft_buf_z(&r.body), kind) && (!at || !strchr(" {", at[len + 1])))
            fail_msg("/metrics has no %s", line + 1);
        p += len;
    }
    assert_true(found > 20);
    client_release(&r);
    ft_free(text);
}

static void native(void **state)
{
    (void)state;
    client_response r = post(
        "/completion", "{\"prompt\":\"say:one "
                       "two\",\"n_probs\":2,\"return_tokens\":true,\"seed\":5,\"stop\":[\"zzz\"]}");
    same_text(client_text(r.json, "content"), "one two");
    assert_true(json_is_true(client_at(r.json, "stop")));
    same_text(client_text(r.json, "stop_type"), "eos");
    assert_int_equal(client_int(r.json, "generation_settings.seed"), 5);
    same_text(client_text(r.json, "generation_settings.stop.0"), "zzz");
    assert_int_equal(json_array_size(client_at(r.json, "tokens")),
                     client_int(r.json, "tokens_predicted"));
    assert_int_equal(json_array_size(client_at(r.json, "completion_probabilities")),
                     client_int(r.json, "tokens_predicted"));
    same_text(client_text(r.json, "prompt"), "say:one two");
    client_release(&r);

    r = post("/completion", "{\"prompt\":\"say:one two three\",\"stop\":[\"wo\"],\"stream\":true}");
    json_t *e = client_events(&r);
    char *t = client_join(e, "content");
    const json_t *last = json_array_get(e, json_array_size(e) - 1);
    assert_string_equal(t, "one t");
    same_text(client_text(last, "stop_type"), "word");
    same_text(client_text(last, "stopping_word"), "wo");
    free(t);
    json_decref(e);
    client_release(&r);

    r = post("/completion", "{\"prompt\":[\"say:\",\"one\"],\"response_fields\":[\"content\","
                            "\"timings/predicted_n\"]}");
    assert_int_equal(json_array_size(r.json), 2); /* two texts are two prompts */
    assert_int_equal(json_object_size(json_array_get(r.json, 0)), 2);
    client_release(&r);
    r = post("/completion", "{\"prompt\":{\"prompt_string\":\"say:x\"},\"n_predict\":0}");
    assert_int_equal(client_int(r.json, "tokens_predicted"), 0);
    same_text(client_text(r.json, "stop_type"), "limit");
    client_release(&r);
    r = post("/completion", "{\"prompt\":\"say/20ms:a\\nb c d e f g h i j k l m n o p q r s t u v "
                            "w x y z\",\"t_max_predict_ms\":60}");
    same_text(client_text(r.json, "stop_type"), "limit");
    assert_true(client_int(r.json, "tokens_predicted") < 25);
    client_release(&r);
    r = post("/completion", "{\"prompt\":\"say:x\",\"adaptive_decay\":0.5}");
    assert_int_equal(r.status, 200);
    client_release(&r);
    refused("/completion", "{\"prompt\":\"x\",\"adaptive_decay\":2}", 400, "adaptive_decay is 2");
    refused("/completion", "{\"prompt\":true}", 400, "prompt is true");
    refused("/completion", "{\"prompt\":\"x\",\"response_fields\":7}", 400, "response_fields is 7");
    refused("/completion", "{\"prompt\":\"x\",\"n\":99}", 400, "n is 99");
    r = post("/infill", "{\"input_prefix\":\"say:one\",\"input_suffix\":\" "
                        "two\",\"input_extra\":[{\"text\":\"x\"}]}");
    assert_int_equal(strncmp(client_text(r.json, "content"), "one", 3), 0);
    client_release(&r);
    refused("/infill", "{\"input_prefix\":\"a\"}", 400, "input_suffix is missing");
}

/* ---- responses ---- */

static void responses(void **state)
{
    (void)state;
    client_response r = post(
        "/v1/responses", "{\"model\":\"m\",\"chat_template_kwargs\":{\"enable_thinking\":true},"
                         "\"instructions\":\"Be kind.\",\"input\":\"say:hm</think>\\n\\nYes.\"}");
    assert_int_equal(r.status, 200);
    same_text(client_text(r.json, "object"), "response");
    same_text(client_text(r.json, "status"), "completed");
    same_text(client_text(r.json, "output.0.type"), "reasoning");
    same_text(client_text(r.json, "output.0.content.0.text"), "hm");
    same_text(client_text(r.json, "output.1.content.0.text"), "Yes.");
    same_text(client_text(r.json, "output.1.content.0.type"), "output_text");
    assert_true(client_int(r.json, "usage.output_tokens_details.reasoning_tokens") > 0);
    client_release(&r);
}

static void responses_stream(void **state)
{
    (void)state;
    client_response r = post(
        "/v1/responses",
        "{\"stream\":true," NO_THOUGHT
        ",\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"say:" CALL
        "\"}]},"
        "{\"type\":\"unheard_of\"}],\"tools\":[{\"type\":\"function\",\"name\":\"add\","
        "\"parameters\":" PARAMS "},{\"type\":\"web_search\"}]}");
    json_t *e = client_events(&r), *one;
    char *order = event_types(e, "delta");
    assert_string_equal(order, "response.created response.in_progress response.output_item.added "
                               "response.content_part.added response.output_text.done "
                               "response.content_part.done response.output_item.done "
                               "response.output_item.added response.function_call_arguments.done "
                               "response.output_item.done response.completed ");
    ft_buf args;
    ft_buf_init(&args, 1 << 16);
    size_t i;
    json_array_foreach(e, i, one)
    {
        assert_int_equal(client_int(one, "sequence_number"), (int64_t)i);
        if (strcmp(client_text(one, "type"), "response.function_call_arguments.delta")) continue;
        ft_buf_puts(&args, client_text(one, "delta"));
        assert_int_equal(client_int(one, "output_index"), 1);
    }
    assert_string_equal(ft_buf_z(&args), "{\"a\":1,\"b\":\"two\"}");
    const json_t *last = json_array_get(e, json_array_size(e) - 1);
    same_text(client_text(last, "response.output.1.arguments"), ft_buf_z(&args));
    same_text(client_text(last, "response.output.1.name"), "add");
    assert_null(strstr(ft_buf_z(&r.body), "[DONE]"));
    ft_buf_release(&args);
    ft_free(order);
    json_decref(e);
    client_release(&r);
}

static void responses_input(void **state)
{
    (void)state;
    client_response r = post("/v1/responses", "{\"max_output_tokens\":2," NO_THOUGHT
                                              ",\"input\":\"say:one two three four\"}");
    same_text(client_text(r.json, "status"), "incomplete");
    same_text(client_text(r.json, "incomplete_details.reason"), "max_output_tokens");
    client_release(&r);
    r = post(
        "/v1/responses",
        "{" NO_THOUGHT ",\"input\":[{\"role\":\"user\",\"content\":\"q\"},{\"type\":\"reasoning\","
        "\"summary\":[{\"type\":\"summary_text\",\"text\":\"t\"}]},"
        "{\"type\":\"function_call\",\"call_id\":\"c1\",\"name\":\"add\",\"arguments\":\"{}\"},"
        "{\"type\":\"function_call_output\",\"call_id\":\"c1\",\"output\":\"say:three\"}]}");
    same_text(client_text(r.json, "output.0.content.0.text"), "three\n</tool_response>");
    client_release(&r);
    r = post("/v1/responses/input_tokens", "{\"input\":\"hello\"}");
    assert_true(client_int(r.json, "input_tokens") > 3);
    client_release(&r);
    refused("/v1/responses", "{\"input\":\"x\",\"previous_response_id\":\"resp_1\"}", 400,
            "previous_response_id");
    refused("/v1/responses", "{\"input\":7}", 400, "input is 7");
    refused("/v1/responses", "{\"input\":[{\"role\":\"user\"}]}", 400, "no content");
}

/* ---- messages ---- */

static void messages(void **state)
{
    (void)state;
    client_response r = post(
        "/v1/messages", "{\"model\":\"claude\",\"max_tokens\":100,\"thinking\":{\"type\":"
                        "\"enabled\",\"budget_tokens\":50},"
                        "\"system\":[{\"type\":\"text\",\"text\":\"Be kind.\"}],\"messages\":" TALK(
                            "hm</think>\\n\\nYes, STOP") ",\"stop_sequences\":[\"STOP\"]}");
    assert_int_equal(r.status, 200);
    same_text(client_text(r.json, "type"), "message");
    same_text(client_text(r.json, "content.0.type"), "thinking");
    same_text(client_text(r.json, "content.0.thinking"), "hm");
    same_text(client_text(r.json, "content.1.text"), "Yes, ");
    same_text(client_text(r.json, "stop_reason"), "stop_sequence");
    same_text(client_text(r.json, "stop_sequence"), "STOP");
    assert_true(client_int(r.json, "usage.input_tokens") +
                    client_int(r.json, "usage.cache_read_input_tokens") >
                5);
    client_release(&r);
}

static void messages_stream(void **state)
{
    (void)state;
    client_response r = post(
        "/v1/messages",
        "{\"stream\":true,\"max_tokens\":100,\"thinking\":{\"type\":\"disabled\"},"
        "\"messages\":" TALK(CALL) ",\"tools\":[{\"name\":\"add\",\"input_schema\":" PARAMS "},"
                                   "{\"type\":\"web_search_20250305\",\"name\":\"web_search\"}]}");
    json_t *e = client_events(&r), *one;
    char *order = event_types(e, "content_block_delta");
    assert_string_equal(order,
                        "message_start content_block_start content_block_stop content_block_start "
                        "content_block_stop message_delta message_stop ");
    char *text = client_join(e, "delta.text"), *args = client_join(e, "delta.partial_json"),
         *why = client_join(e, "delta.stop_reason");
    assert_string_equal(text, "Wait.");
    assert_string_equal(args, "{\"a\":1,\"b\":\"two\"}");
    assert_string_equal(why, "tool_use");
    size_t i;
    json_array_foreach(e, i, one)
    {
        const char *kind = client_text(one, "content_block.type");
        if (kind && !strcmp(kind, "tool_use"))
            assert_true(json_is_object(client_at(one, "content_block.input")));
    }
    free(text);
    free(args);
    free(why);
    ft_free(order);
    json_decref(e);
    client_release(&r);
}

static void messages_input(void **state)
{
    (void)state;
    client_response r = post("/v1/messages/count_tokens", "{\"messages\":" TALK("x") "}");
    assert_true(client_int(r.json, "input_tokens") > 3);
    client_release(&r);
    r = post("/v1/messages",
             "{\"thinking\":{\"type\":\"disabled\"},\"messages\":[{\"role\":\"user\",\"content\":"
             "\"q\"},{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":"
             "\"t\",\"signature\":\"\"},"
             "{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"add\",\"input\":{\"a\":1}}]},{"
             "\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"toolu_1\","
             "\"content\":[{\"type\":\"text\",\"text\":\"3\"}]},{\"type\":\"text\",\"text\":\"say:"
             "fine\"}]}]}");
    same_text(client_text(r.json, "content.0.text"), "fine");
    same_text(client_text(r.json, "stop_reason"), "end_turn");
    client_release(&r);
    r = post("/v1/messages", "{\"messages\":7}");
    assert_int_equal(r.status, 400);
    same_text(client_text(r.json, "type"), "error");
    same_text(client_text(r.json, "error.type"), "invalid_request_error");
    assert_non_null(client_text(r.json, "request_id"));
    client_release(&r);
    refused("/v1/messages",
            "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\"}]}]}", 400,
            "want type base64 with data");
    refused("/v1/messages",
            "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"source\":"
            "{\"type\":\"base64\",\"data\":\"aGVsbG8=\"}}]}]}",
            400, "no vision tower");
    refused("/v1/messages", "{\"messages\":" TALK("x") ",\"tool_choice\":{\"type\":\"maybe\"}}",
            400, "tool_choice");
    refused("/v1/messages", "{\"messages\":" TALK("x") ",\"thinking\":{\"type\":\"loud\"}}", 400,
            "thinking");
}

/* ---- Ollama ---- */

static void ollama(void **state)
{
    (void)state;
    client_response r =
        post("/api/chat", "{\"model\":\"m\",\"think\":false,\"messages\":" TALK("one two") "}");
    assert_int_equal(r.status, 200);
    same_text(client_header(&r, "Content-Type"), "application/x-ndjson");
    ft_buf text;
    ft_buf_init(&text, 4096);
    json_t *last = NULL;
    for (char *p = r.body.data; *p;) {
        const size_t n = strcspn(p, "\n");
        json_decref(last);
        last = json_loadb(p, n, 0, NULL);
        assert_non_null(last);
        ft_buf_puts(&text, client_text(last, "message.content"));
        p += n + (p[n] == '\n');
    }
    assert_string_equal(ft_buf_z(&text), "one two");
    assert_true(json_is_true(client_at(last, "done")));
    same_text(client_text(last, "done_reason"), "stop");
    assert_true(client_int(last, "eval_count") >= 2);
    json_decref(last);
    ft_buf_release(&text);
    client_release(&r);

    r = post("/api/chat", "{\"stream\":false,\"think\":false,\"messages\":" TALK(
                              CALL) ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":"
                                    "\"add\",\"parameters\":" PARAMS "}}]}");
    assert_int_equal(client_int(r.json, "message.tool_calls.0.function.arguments.a"), 1);
    client_release(&r);
    r = post("/api/generate", "{\"stream\":false,\"think\":false,\"prompt\":\"say:one "
                              "two\",\"options\":{\"num_predict\":1,\"temperature\":0}}");
    assert_int_equal(client_int(r.json, "eval_count"), 1);
    same_text(client_text(r.json, "done_reason"), "length");
    client_release(&r);
    r = post("/api/generate", "{\"stream\":false,\"raw\":true,\"prompt\":\"say:one two\"}");
    same_text(client_text(r.json, "response"), "one two");
    client_release(&r);
    r = post("/api/chat", "{\"model\":\"m\",\"messages\":[]}");
    same_text(client_text(r.json, "done_reason"), "load");
    client_release(&r);
    r = get("/api/tags");
    same_text(client_text(r.json, "models.0.name"), "scripted");
    client_release(&r);
    r = get("/api/version");
    assert_non_null(client_text(r.json, "version"));
    client_release(&r);
    r = get("/api/ps");
    assert_int_equal(client_int(r.json, "models.0.context_length"), SCRIPT_CTX);
    client_release(&r);
    r = post("/api/show", "{\"model\":\"m\"}");
    same_text(client_text(r.json, "details.format"), "gguf");
    client_release(&r);
    r = post("/api/embed", "{\"input\":[\"a b\",\"c d\"]}");
    assert_int_equal(json_array_size(client_at(r.json, "embeddings")), 2);
    client_release(&r);
    refused("/api/chat", "{\"messages\":[{\"role\":\"x\"}]}", 400, "role");
}

/* ---- small routes ---- */

static void tokenizer(void **state)
{
    (void)state;
    client_response r = post("/tokenize", "{\"content\":\"one two\"}");
    char body[512], *ids = json_dumps(client_at(r.json, "tokens"), 0);
    snprintf(body, sizeof body, "{\"tokens\":%s}", ids);
    free(ids);
    client_release(&r);
    r = post("/detokenize", body);
    same_text(client_text(r.json, "content"), "one two");
    client_release(&r);
    r = post("/tokenize", "{\"content\":\"\\u00e9\\ud83d\\ude00\",\"with_pieces\":true}");
    assert_non_null(client_at(r.json, "tokens.0.piece"));
    client_release(&r);
    r = post("/tokenize", "{}");
    assert_int_equal(json_array_size(client_at(r.json, "tokens")), 0);
    client_release(&r);
    refused("/tokenize", "{\"content\":7}", 400, "content is 7");
    refused("/detokenize", "{\"tokens\":[-1]}", 400, "tokens has -1");
    refused("/detokenize", "{}", 400, "tokens is absent");
    r = post("/apply-template", "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}");
    assert_non_null(strstr(client_text(r.json, "prompt"), "<|im_start|>user\nhi<|im_end|>"));
    client_release(&r);
    r = post("/apply-template",
             "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
             "{\"type\":\"text\",\"text\":\"b\"}]}]}");
    assert_non_null(strstr(client_text(r.json, "prompt"), "user\na\nb<|im_end|>"));
    client_release(&r);
}

static void embeddings(void **state)
{
    (void)state;
    client_response r = post("/v1/embeddings", "{\"input\":\"one two\"}");
    assert_int_equal(json_array_size(client_at(r.json, "data.0.embedding")), SCRIPT_WIDTH);
    assert_true(client_int(r.json, "usage.prompt_tokens") > 1);
    client_release(&r);
    r = post("/v1/embeddings",
             "{\"input\":[\"one\",\"two\"],\"dimensions\":2,\"encoding_format\":\"base64\"}");
    assert_int_equal(strlen(client_text(r.json, "data.1.embedding")), 12);
    client_release(&r);
    r = post("/embedding", "{\"content\":\"one\",\"embd_normalize\":0}");
    assert_int_equal(json_array_size(client_at(r.json, "0.embedding.0")), SCRIPT_WIDTH);
    client_release(&r);
    refused("/v1/embeddings", "{\"input\":\"x\",\"dimensions\":99}", 400, "dimensions is 99");
    refused("/v1/embeddings", "{}", 400, "input is missing");
    refused("/v1/embeddings", "{\"input\":\"x\",\"encoding_format\":\"hex\"}", 400,
            "want float or base64");
    refused("/v1/rerank", "{}", 501, "rank");
}

static void facts(void **state)
{
    (void)state;
    client_response r = get("/v1/models");
    same_text(client_text(r.json, "data.0.id"), "scripted");
    assert_int_equal(client_int(r.json, "data.0.meta.n_ctx"), SCRIPT_CTX);
    same_text(client_text(r.json, "models.0.capabilities.0"), "completion");
    client_release(&r);
    r = get("/props");
    same_text(client_text(r.json, "model_path"), "scripted.gguf");
    assert_int_equal(client_int(r.json, "total_slots"), 4);
    assert_true(json_is_true(client_at(r.json, "speculative.active")));
    assert_non_null(strstr(client_text(r.json, "chat_template"), "im_start"));
    client_release(&r);
    refused("/props", "{}", 501, "--props");
    r = get("/slots");
    assert_int_equal(json_array_size(r.json), 4);
    assert_null(client_at(r.json, "0.params")); /* an idle slot has none */
    assert_int_equal(client_int(r.json, "0.next_token.0.n_decoded"), 0);
    client_release(&r);
    refused("/slots/0?action=save", "{\"filename\":\"x\"}", 501, "--slot-save-path");
    refused("/slots/9?action=erase", "{}", 404, "slot 9 does not exist");
    refused("/slots/0?action=sing", "{}", 400, "want save, restore or erase");
    r = post("/slots/1?action=erase", "{}");
    assert_int_equal(client_int(r.json, "n_erased"), 3);
    assert_true(json_is_true(client_at(r.json, "cache_shared")));
    client_release(&r);
    r = get("/metrics");
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(ft_buf_z(&r.body), "\nllamacpp:tokens_predicted_total "));
    assert_non_null(strstr(ft_buf_z(&r.body),
                           "foretoken:http_requests_total{route=\"/props\",code=\"501\"} 1"));
    client_release(&r);
}

/* The metrics equal the sums over the responses. */
static void sums(void **state)
{
    (void)state;
    ft_llm_stats before, after;
    ft_llm_counts(model, &before);
    int64_t response = 0, prompt = 0;
    for (int i = 0; i < 20; i++) {
        char body[200];
        snprintf(body, sizeof body, "{\"prompt\":\"%d say:one two three %d\"}", i, i * i);
        client_response r = post("/v1/completions", body);
        response += client_int(r.json, "usage.completion_tokens");
        prompt += client_int(r.json, "usage.prompt_tokens");
        client_release(&r);
    }
    ft_llm_counts(model, &after);
    assert_int_equal(after.output_tokens - before.output_tokens, response);
    assert_int_equal(after.prompt_tokens + after.cached_tokens - before.prompt_tokens -
                         before.cached_tokens,
                     prompt);
}

/* Requests with the structure and fields that coding clients send are accepted. */
static void coding_clients(void **state)
{
    const char *folder = "tests/data/requests";
    DIR *d = opendir(folder);
    int n = 0;
    (void)state;
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        char path[512];
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        json_t *j = json_load_file(path, 0, NULL);
        char *body = json_dumps(json_object_get(j, "body"), 0);
        client_response r = post(client_text(j, "path"), body);
        if (r.status != 200) fail_msg("%s: %d %s", e->d_name, r.status, ft_buf_z(&r.body));
        client_release(&r);
        free(body);
        json_decref(j);
        n++;
    }
    closedir(d);
    assert_true(n >= 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(completions),
        cmocka_unit_test(native),
        cmocka_unit_test(prompt_scores),
        cmocka_unit_test(responses),
        cmocka_unit_test(responses_stream),
        cmocka_unit_test(responses_input),
        cmocka_unit_test(messages),
        cmocka_unit_test(messages_stream),
        cmocka_unit_test(messages_input),
        cmocka_unit_test(ollama),
        cmocka_unit_test(tokenizer),
        cmocka_unit_test(embeddings),
        cmocka_unit_test(facts),
        cmocka_unit_test(sums),
        cmocka_unit_test(coding_clients),
        cmocka_unit_test(dashboard),
    };
    return cmocka_run_group_tests(tests, open_usual, close_usual);
}
