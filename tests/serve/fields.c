/* tests/serve/fields.c - fields of the APIs of OpenAI, Anthropic, Ollama and vLLM that change a
 * response: each is supported or refused, none is ignored in silence. */
#define _GNU_SOURCE
#include "bench.h"

#define FUNCTION                                                                                   \
    "{\"name\":\"weather\",\"parameters\":{\"type\":\"object\",\"properties\":{\"city\":{"         \
    "\"type\":\"string\"}}}}"
#define CALL                                                                                       \
    "<tool_call>\\n<function=weather>\\n<parameter=city>\\nOslo\\n</parameter>\\n</function>\\n"   \
    "</tool_call>"

/* ---- OpenAI: functions ---- */

static void functions(void **state)
{
    (void)state;
    client_response r = post(CHAT, ask("\"functions\":[" FUNCTION "],", CALL));
    assert_int_equal(r.status, 200);
    same_text(client_text(r.json, "choices.0.message.function_call.name"), "weather");
    same_text(client_text(r.json, "choices.0.message.function_call.arguments"),
              "{\"city\":\"Oslo\"}");
    same_text(client_text(r.json, "choices.0.finish_reason"), "function_call");
    assert_null(client_at(r.json, "choices.0.message.tool_calls"));
    client_release(&r);

    r = post(CHAT, ask("\"stream\":true,\"functions\":[" FUNCTION "],", CALL));
    json_t *e = client_events(&r);
    char *name = client_join(e, "choices.0.delta.function_call.name");
    char *args = client_join(e, "choices.0.delta.function_call.arguments");
    assert_string_equal(name, "weather");
    assert_string_equal(args, "{\"city\":\"Oslo\"}");
    free(name);
    free(args);
    json_decref(e);
    client_release(&r);

    r = post(CHAT, ask("\"functions\":[" FUNCTION "],\"function_call\":\"none\",", CALL));
    assert_null(client_at(r.json, "choices.0.message.function_call"));
    client_release(&r);
    r = post(CHAT, "{\"functions\":[" FUNCTION "],\"messages\":[{\"role\":"
                   "\"user\",\"content\":\"q\"},{\"role\":\"assistant\","
                   "\"content\":null,\"function_call\":{\"name\":\"weather\","
                   "\"arguments\":\"{}\"}},{\"role\":\"function\",\"name\":"
                   "\"weather\",\"content\":\"say:rain\"}]}");
    assert_int_equal(r.status, 200);
    client_release(&r);
    refused(CHAT, ask("\"functions\":7,", "x"), 400, "functions is 7");
    refused(CHAT, ask("\"function_call\":{\"name\":\"x\"},\"functions\":[" FUNCTION "],", "x"), 400,
            "not among the tools");
}

/* ---- vLLM ---- */

static void guided(void **state)
{
    (void)state;
    static const char *const good[] = {
        "\"guided_json\":{\"type\":\"object\"},",
        "\"guided_json\":\"{\\\"type\\\":\\\"object\\\"}\",",
        "\"guided_choice\":[\"yes\",\"n\\\"o\"],",
        "\"guided_grammar\":\"root ::= \\\"x\\\"\",",
        "\"structured_outputs\":{\"json\":{\"type\":\"object\"}},",
        "\"structured_outputs\":{\"choice\":[\"a\"]},",
        "\"structured_outputs\":{\"json_object\":true},",
        "\"structured_outputs\":null,\"guided_json\":null,",
    };
    for (size_t i = 0; i < FT_COUNT(good); i++) {
        client_response r = post(CHAT, ask(good[i], "x"));
        if (r.status != 200) fail_msg("%s: %d %s", good[i], r.status, ft_buf_z(&r.body));
        client_release(&r);
    }
    /* the grammar of a choice is what /completion reports */
    client_response r =
        post("/completion", "{\"prompt\":\"say:x\",\"guided_choice\":[\"yes\",\"n\\\"o\\n\"]}");
    same_text(client_text(r.json, "generation_settings.grammar"),
              "root ::= \"yes\" | \"n\\\"o\\x0a\"");
    client_release(&r);
    r = post("/completion", "{\"prompt\":\"say:x\",\"structured_outputs\":{\"regex\":\"a+\"}}");
    assert_non_null(strstr(client_text(r.json, "generation_settings.grammar"), "{1,}"));
    client_release(&r);
    r = post(CHAT, ask("\"guided_json\":{\"maximum\":18446744073709551615},", "x")); /* 2^64 - 1 */
    assert_int_equal(r.status, 200);
    client_release(&r);
    refused(CHAT, ask("\"seed\":18446744073709551615,", "x"), 400, "seed");
    refused(CHAT, ask("\"guided_regex\":\"(?=a)b\",", "x"), 400,
            "guided_regex: the regular expression, byte 1: lookahead");
    refused(CHAT, ask("\"guided_regex\":3,", "x"), 400, "want a regular expression");
    refused(CHAT, ask("\"structured_outputs\":{\"regex\":\"(a\"},", "x"), 400,
            "structured_outputs.regex: the regular expression, byte 2: a group is not closed");
    refused(CHAT, ask("\"guided_choice\":[],", "x"), 400, "guided_choice is []");
    refused(CHAT, ask("\"guided_json\":7,", "x"), 400, "guided_json is 7");
    refused(CHAT, ask("\"structured_outputs\":7,", "x"), 400, "structured_outputs is 7");
    refused(CHAT, ask("\"guided_json\":{\"type\":\"integer\",\"minimum\":5,\"maximum\":1},", "x"),
            400, "minimum");
    refused(CHAT, ask("\"guided_choice\":[\"a\"],\"guided_json\":{},", "x"), 400,
            "want one of them");
}

/* Keywords that a grammar cannot enforce are left out and named. */
static void relaxed(void **state)
{
    (void)state;
    client_response r =
        post(CHAT, ask("\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{"
                       "\"schema\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":"
                       "\"array\",\"uniqueItems\":true}}}}},",
                       "x"));
    assert_int_equal(r.status, 200);
    same_text(client_header(&r, "X-Schema-Ignored"), "uniqueItems at #/properties/a");
    assert_non_null(strstr(client_text(r.json, "warnings.0"), "uniqueItems at #/properties/a"));
    client_release(&r);
    r = post(CHAT, ask("\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\","
                       "\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":"
                       "\"string\",\"pattern\":\"(?=a)b\"}}}}}],",
                       "x"));
    assert_int_equal(r.status, 200);
    same_text(client_header(&r, "X-Schema-Ignored"),
              "pattern at #/0/function/parameters/properties/a");
    client_release(&r);
}

/* ---- Responses ---- */

static void responses(void **state)
{
    (void)state;
    refused("/v1/responses", "{\"input\":\"x\",\"background\":true}", 400, "background is true");
    refused("/v1/responses", "{\"input\":\"x\",\"conversation\":\"c\"}", 400, "conversation");
    refused("/v1/responses", "{\"input\":\"x\",\"tools\":[{\"type\":\"web_search\"}]}", 400,
            "tools has the type web_search");
    client_response r =
        post("/v1/responses", "{\"input\":\"say:x\",\"tools\":[{\"type\":\"function\",\"name\":"
                              "\"f\",\"parameters\":{}},{\"type\":\"web_search\"}]}");
    same_text(client_text(r.json, "warnings.0"), "tools[1] of type web_search is not available");
    client_release(&r);
    r = post("/v1/responses",
             "{\"stream\":true,\"input\":\"say:x\",\"tools\":[{\"type\":\"function\",\"name\":"
             "\"f\",\"parameters\":{}},{\"type\":\"web_search\"}]}");
    json_t *e = client_events(&r);
    same_text(client_text(e, "0.warnings.0"), "tools[1] of type web_search is not available");
    assert_null(client_at(e, "1.warnings"));
    json_decref(e);
    client_release(&r);
}

/* ---- Anthropic ---- */

static void messages(void **state)
{
    (void)state;
#define ASK(more)                                                                                  \
    "{" more "\"max_tokens\":9,\"messages\":[{\"role\":\"user\",\"content\":\"say:x\"}]}"
    client_response r = post(
        "/v1/messages", ASK("\"output_config\":{\"effort\":\"low\",\"format\":{\"type\":\"json_"
                            "schema\",\"schema\":{\"type\":\"object\"}}},"));
    assert_int_equal(r.status, 200);
    client_release(&r);
    /* the schema is used: one that no document satisfies is refused */
    refused("/v1/messages",
            ASK("\"output_config\":{\"format\":{\"type\":\"json_schema\",\"schema\":{"
                "\"type\":\"integer\",\"minimum\":5,\"maximum\":1}}},"),
            400, "minimum");
    refused("/v1/messages",
            ASK("\"output_format\":{\"type\":\"json_schema\",\"schema\":{\"type\":\"integer\","
                "\"minimum\":5,\"maximum\":1}},"),
            400, "minimum");
    refused("/v1/messages", ASK("\"output_config\":{\"format\":{\"type\":\"xml\"}},"), 400,
            "output_config.format is");
    refused("/v1/messages", ASK("\"output_config\":7,"), 400, "output_config is 7");
    refused("/v1/messages", ASK("\"mcp_servers\":[{\"url\":\"x\"}],"), 400, "mcp_servers");
    refused("/v1/messages", ASK("\"tools\":[{\"type\":\"bash_20250124\",\"name\":\"bash\"}],"), 400,
            "tools has the type bash_20250124");
}

/* ---- Ollama ---- */

static void ollama(void **state)
{
    (void)state;
    client_response r =
        post("/api/generate", "{\"stream\":false,\"prompt\":\"say:one\","
                              "\"suffix\":\" two\",\"options\":{\"num_predict\":1}}");
    assert_int_equal(strncmp(client_text(r.json, "response"), "one", 3), 0);
    assert_null(client_at(r.json, "logprobs"));
    client_release(&r);
    r = post("/api/generate", "{\"stream\":false,\"think\":false,\"prompt\":\"say:one two\","
                              "\"logprobs\":true,\"top_logprobs\":2}");
    assert_int_equal(json_array_size(client_at(r.json, "logprobs")),
                     client_int(r.json, "eval_count"));
    assert_int_equal(json_array_size(client_at(r.json, "logprobs.0.top_logprobs")), 2);
    client_release(&r);
    r = post("/api/chat", "{\"think\":false,\"logprobs\":true,\"messages\":[{\"role\":\"user\","
                          "\"content\":\"say/step:one two\"}]}");
    json_t *first = json_loadb(ft_buf_z(&r.body), strcspn(ft_buf_z(&r.body), "\n"), 0, NULL);
    assert_int_equal(json_array_size(client_at(first, "logprobs")), 1);
    json_decref(first);
    client_release(&r);
    static const char *const own[] = {"\"suffix\":\"x\"", "\"raw\":true"}; /* of a prompt */
    for (size_t i = 0; i < FT_COUNT(own); i++) {
        char body[200];
        snprintf(body, sizeof body, "{%s,\"messages\":[{\"role\":\"user\",\"content\":\"say:x\"}]}",
                 own[i]);
        refused("/api/chat", body, 400, "prompt is missing");
    }
    refused("/api/generate", "{\"prompt\":\"x\",\"template\":\"{{.Prompt}}\"}", 400, "template");
    refused("/api/generate", "{\"prompt\":\"x\",\"context\":[1,2]}", 400, "context");
    refused("/api/chat", "{\"keep_alive\":\"soon\",\"messages\":[]}", 400,
            "keep_alive is \"soon\"");
    refused("/api/chat", "{\"keep_alive\":0,\"messages\":[]}", 400, "cannot unload");
    r = post("/api/chat", "{\"keep_alive\":\"-1m\",\"messages\":[]}");
    same_text(client_text(r.json, "done_reason"), "load");
    client_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions), cmocka_unit_test(guided),   cmocka_unit_test(relaxed),
        cmocka_unit_test(responses), cmocka_unit_test(messages), cmocka_unit_test(ollama),
    };
    return cmocka_run_group_tests(tests, open_usual, close_usual);
}
