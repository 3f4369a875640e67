/* tests/serve/routes.c - the routes and fields of llama.cpp, OpenAI and Ollama that describe
 * models, slots and running responses. */
#define _GNU_SOURCE
#include "bench.h"

/* ---- models ---- */

static void one_model(void **state)
{
    (void)state;
    client_response r = get("/v1/models/scripted");
    assert_int_equal(r.status, 200);
    same_text(client_text(r.json, "id"), "scripted");
    same_text(client_text(r.json, "object"), "model"); /* OpenAI */
    same_text(client_text(r.json, "type"), "model");   /* Anthropic */
    same_text(client_text(r.json, "display_name"), "scripted");
    client_release(&r);
    r = get("/v1/models/scripted.gguf"); /* the file name is another spelling */
    same_text(client_text(r.json, "id"), "scripted");
    client_release(&r);
    r = get("/v1/models/some/other%20model");
    assert_int_equal(r.status, 404);
    same_text(client_text(r.json, "error.code"), "model_not_found");
    client_release(&r);
    r = get("/models?reload=1");
    assert_int_equal(json_array_size(client_at(r.json, "data")), 1);
    same_text(client_text(r.json, "models.0.name"), "scripted");
    same_text(client_text(r.json, "first_id"), "scripted");
    client_release(&r);
    r = get("/api/tags");
    same_text(client_text(r.json, "models.0.details.quantization_level"), "F32");
    assert_int_equal(client_int(r.json, "models.0.size"), 2000);
    client_release(&r);
}

/* ---- Ollama ---- */

static void ollama(void **state)
{
    (void)state;
    client_response r = post("/api/embeddings", "{\"model\":\"m\",\"prompt\":\"one two\"}");
    assert_int_equal(json_array_size(client_at(r.json, "embedding")), SCRIPT_WIDTH);
    client_release(&r);
    refused("/api/embeddings", "{\"prompt\":[\"one\",\"two\"]}", 400, "prompt has 2 texts");
    r = post("/api/pull", "{\"model\":\"scripted:latest\"}");
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(ft_buf_z(&r.body), "{\"status\":\"pulling manifest\"}\n"));
    assert_non_null(strstr(ft_buf_z(&r.body), "{\"status\":\"success\"}\n"));
    client_release(&r);
    r = post("/api/pull", "{\"model\":\"scripted\",\"stream\":false}");
    same_text(client_text(r.json, "status"), "success");
    client_release(&r);
    /* errors are {"error": "..."} on all of Ollama's paths */
    refused("/api/pull", "{\"model\":\"other\"}", 404, "foretoken pull other");
    refused("/api/copy", "{\"source\":\"a\",\"destination\":\"b\"}", 403, "--manage-models");
    refused("/api/create", "{\"model\":\"a\",\"from\":\"b\"}", 403, "--manage-models");
    refused("/api/push", "{\"model\":\"a\"}", 501, "/api/push is not");
    refused("/api/nowhere", "{}", 404, "no route /api/nowhere");
    r = client_call(port, "DELETE", "/api/delete", NULL, "{\"model\":\"scripted\"}");
    assert_int_equal(r.status, 403);
    assert_non_null(client_text(r.json, "error"));
    client_release(&r);
    r = get("/v1/messages/nowhere");
    same_text(client_text(r.json, "type"), "error"); /* Anthropic's form */
    client_release(&r);
}

/* ---- llama.cpp ---- */

static void without_v1(void **state)
{
    (void)state;
    client_response r = post("/chat/completions/input_tokens",
                             "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}");
    assert_true(client_int(r.json, "input_tokens") > 3);
    client_release(&r);
    r = post("/responses/input_tokens", "{\"input\":\"hi\"}");
    assert_true(client_int(r.json, "input_tokens") > 3);
    client_release(&r);
    r = post("/apply-template",
             "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"one\"},"
             "{\"type\":\"text\",\"text\":\"two\"}]}]}");
    assert_non_null(strstr(client_text(r.json, "prompt"), "one\ntwo"));
    client_release(&r);
    r = client_call(port, "OPTIONS", "/completion", NULL, NULL);
    assert_int_equal(r.status, 200);
    client_release(&r);
    r = get("/metrics");
    assert_true(strtoll(client_header(&r, "Process-Start-Time-Unix"), NULL, 10) > 1700000000);
    client_release(&r);
}

/* Every event of a stream of /completion has its tokens and, on request, timings. */
static void completion_events(void **state)
{
    (void)state;
    client_response r =
        post("/completion", "{\"prompt\":\"say/step:one two three\",\"stream\":true,"
                            "\"timings_per_token\":true,\"return_progress\":true}");
    json_t *events = client_events(&r), *e;
    size_t i, tokens = 0;
    int64_t last = -1;
    assert_true(json_array_size(events) > 3);
    assert_non_null(client_at(events, "0.prompt_progress"));
    assert_int_equal(client_int(events, "0.prompt_progress.processed"),
                     client_int(events, "0.prompt_progress.cache"));
    assert_int_equal(client_int(events, "0.timings.prompt_n"), 0); /* nothing is processed yet */
    json_array_foreach(events, i, e)
    {
        assert_non_null(client_at(e, "timings"));
        tokens += json_array_size(client_at(e, "tokens"));
        const json_t *done = client_at(e, "prompt_progress");
        if (done) last = client_int(done, "total") - client_int(done, "processed");
    }
    assert_int_equal(last, 0); /* the last event of progress: everything is processed */
    assert_int_equal(tokens, client_int(json_array_get(events, json_array_size(events) - 1),
                                        "tokens_predicted"));
    json_decref(events);
    client_release(&r);
    r = post("/v1/responses", "{\"input\":\"say/step:one two\",\"stream\":true,"
                              "\"reasoning\":{\"effort\":\"none\"},\"timings_per_token\":true,"
                              "\"return_progress\":true}");
    events = client_events(&r);
    size_t progress = 0, timed = 0, deltas = 0;
    json_array_foreach(events, i, e)
    {
        const bool delta = strstr(client_text(e, "type"), ".delta") != NULL;
        progress += client_at(e, "prompt_progress") != NULL;
        deltas += delta;
        timed += delta && client_at(e, "timings");
    }
    assert_true(progress >= 1);
    assert_true(deltas > 1 && timed == deltas);
    json_decref(events);
    client_release(&r);
}

static void native_fields(void **state)
{
    (void)state;
    client_response r = post("/completion", "{\"prompt\":\"say:x\",\"ignore_eos\":true,"
                                            "\"timings_per_token\":true}");
    static const char *const field[] = {"adaptive_target", "adaptive_decay",   "n_keep",
                                        "n_discard",       "grammar_lazy",     "grammar_triggers",
                                        "chat_format",     "backend_sampling", "lora",
                                        "n_predict",       "max_tokens",       "preserved_tokens"};
    for (size_t i = 0; i < FT_COUNT(field); i++)
        if (!json_object_get(client_at(r.json, "generation_settings"), field[i]))
            fail_msg("generation_settings has no %s", field[i]);
    assert_true(json_is_null(client_at(r.json, "generation_settings.logit_bias.0.bias")));
    assert_true(client_int(r.json, "generation_settings.logit_bias.0.token") > 0);
    assert_true(json_is_true(client_at(r.json, "generation_settings.timings_per_token")));
    client_release(&r);
    r = post("/completion", "{\"prompt\":\"say:x\",\"response_fields\":[\"generation_settings/"
                            "n_predict\"]}");
    assert_non_null(json_object_get(r.json, "generation_settings/n_predict"));
    client_release(&r);
    r = post("/v1/chat/completions",
             "{\"verbose\":true,\"messages\":[{\"role\":\"user\",\"content\":\"say:x\"}]}");
    assert_non_null(strstr(client_text(r.json, "__verbose.prompt"), "say:x"));
    assert_non_null(client_at(r.json, "__verbose.generation_settings.seed"));
    client_release(&r);
    r = get("/slots");
    assert_int_equal(client_int(r.json, "0.next_token.0.n_remain"), -1); /* idle */
    assert_non_null(client_at(r.json, "0.n_prompt_tokens"));
    assert_non_null(client_at(r.json, "0.n_prompt_tokens_processed"));
    assert_non_null(client_at(r.json, "0.n_prompt_tokens_cache"));
    client_release(&r);
    r = get("/props");
    assert_int_equal(client_int(r.json, "n_layer"), 1);
    assert_int_equal(client_int(r.json, "n_layer_draft"), 2);
    assert_null(client_at(r.json, "role"));
    client_release(&r);
    refused("/infill",
            "{\"input_prefix\":\"a\",\"input_suffix\":\"b\",\"input_extra\":[{\"filename\":123,"
            "\"text\":\"x\"}]}",
            400, "filename is 123");
    refused("/completion", "{\"prompt\":{\"prompt_string\":\"x\",\"multimodal_data\":\"y\"}}", 400,
            "multimodal_data is \"y\"");
    refused("/completion",
            "{\"prompt\":{\"prompt_string\":\"<__media__>\",\"multimodal_data\":[\"aGk=\"]}}", 400,
            "no vision tower");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_model),     cmocka_unit_test(ollama),
        cmocka_unit_test(without_v1),    cmocka_unit_test(completion_events),
        cmocka_unit_test(native_fields),
    };
    return cmocka_run_group_tests(tests, open_usual, close_usual);
}
