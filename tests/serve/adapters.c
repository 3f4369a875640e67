/* tests/serve/adapters.c - LoRA adapters, pooling of embeddings, and ranking. */
#define _GNU_SOURCE
#include "bench.h"

#include <math.h>

/* ---- adapters ---- */

static void same_scales(float a, float b)
{
    pthread_mutex_lock(&model->lock);
    const float found[] = {model->last_lora[0], model->last_lora[1]};
    pthread_mutex_unlock(&model->lock);
    if (found[0] != a || found[1] != b)
        fail_msg("scales %g and %g, want %g and %g", (double)found[0], (double)found[1], (double)a,
                 (double)b);
}

static void completes(const char *path, const char *body)
{
    client_response r = post(path, body);
    assert_int_equal(r.status, 200);
    client_release(&r);
}

static void list_of_adapters(void **state)
{
    (void)state;
    client_response r = get("/lora-adapters");
    assert_int_equal(json_array_size(r.json), 2);
    assert_int_equal(client_int(r.json, "1.id"), 1);
    same_text(client_text(r.json, "1.path"), "two.gguf");
    same_text(client_text(r.json, "1.task_name"), "rhymes");
    same_text(client_text(r.json, "1.prompt_prefix"), "");
    client_release(&r);
    r = post("/lora-adapters", "[{\"id\":1,\"scale\":0.5}]");
    assert_int_equal(r.status, 200);
    assert_true(json_is_true(client_at(r.json, "success")));
    client_release(&r);
    r = get("/lora-adapters");
    assert_true(json_real_value(client_at(r.json, "1.scale")) == 0.5);
    assert_true(json_real_value(client_at(r.json, "0.scale")) == 0); /* not in the list */
    client_release(&r);
    completes("/completion", "{\"prompt\":\"say:x\"}");
    same_scales(0, 0.5f);
    refused("/lora-adapters", "[{\"id\":2,\"scale\":1}]", 400, "id is 2, the model has 2 adapters");
    refused("/lora-adapters", "[{\"id\":0}]", 400, "scale is absent, want a number");
    refused("/lora-adapters", "{\"id\":0,\"scale\":1}", 400,
            "the body is an object, want an array");
    refused("/lora-adapters", "3", 400, "not valid JSON");
    refused("/completion", "[]", 400, "want a JSON object");
}

static void scales_of_a_request(void **state)
{
    (void)state;
    static const char chat[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"say:x\"}],%s}";
    char body[256];
    completes("/lora-adapters", "[{\"id\":0,\"scale\":1}]");
    client_response r = post("/completion", "{\"prompt\":\"say:x\","
                                            "\"lora\":[{\"id\":1,\"scale\":-2}]}");
    assert_int_equal(client_int(r.json, "generation_settings.lora.1.id"), 1);
    assert_true(json_real_value(client_at(r.json, "generation_settings.lora.1.scale")) == -2);
    client_release(&r);
    same_scales(0, -2);
    snprintf(body, sizeof body, chat, "\"lora\":[{\"id\":0,\"scale\":0}]");
    completes("/v1/chat/completions", body);
    same_scales(0, 0);
    snprintf(body, sizeof body, chat, "\"lora\":[]"); /* those of the server */
    completes("/v1/chat/completions", body);
    same_scales(1, 0);
    refused("/completion", "{\"prompt\":\"x\",\"lora\":{}}", 400, "lora is {}, want an array");
    refused("/completion", "{\"prompt\":\"x\",\"lora\":[5]}", 400, "lora[0] is 5, want an object");
    refused("/completion", "{\"prompt\":\"x\",\"lora\":[{\"id\":9,\"scale\":1}]}", 400,
            "lora[0].id is 9");
    refused("/completion", "{\"prompt\":\"x\",\"lora\":[{\"id\":0,\"scale\":\"1\"}]}", 400,
            "lora[0].scale is \"1\", want a number");
    refused("/completion", "{\"prompt\":\"x\",\"lora\":[{\"id\":0,\"scale\":1e99}]}", 400,
            "want a number");
}

/* ---- pooling ---- */

static void open_pooling(int pooling, int norm)
{
    ft_serve_params p;
    ft_serve_defaults(&p);
    p.port = 0;
    p.pooling = pooling;
    p.embd_normalize = norm;
    open_server(&p, 4, 64);
}

static double norm_of(const json_t *v)
{
    double sum = 0;
    for (size_t i = 0; i < json_array_size(v); i++) {
        const double x = json_number_value(json_array_get(v, i));
        sum += x * x;
    }
    return sqrt(sum);
}

static void a_vector_per_token(void **state)
{
    (void)state;
    open_pooling(FT_POOL_NONE, 2);
    client_response t = post("/tokenize", "{\"content\":\"one two three\"}");
    const size_t n = json_array_size(client_at(t.json, "tokens"));
    client_release(&t);
    assert_true(n > 1);
    client_response r = post("/embedding", "{\"content\":[\"one two three\",\"one\"]}");
    assert_int_equal(json_array_size(r.json), 2);
    assert_int_equal(json_array_size(client_at(r.json, "0.embedding")), n);
    assert_int_equal(json_array_size(client_at(r.json, "0.embedding.1")), SCRIPT_WIDTH);
    const double norm = norm_of(client_at(r.json, "0.embedding.0"));
    assert_true(fabs(norm - 1) > 1e-3); /* not normalized, as in llama.cpp */
    client_release(&r);
    refused("/v1/embeddings", "{\"input\":\"x\"}", 400, "--pooling none");
    refused("/api/embed", "{\"input\":\"x\"}", 400, "--pooling none");
    close_server();
}

static void norms(void **state)
{
    (void)state;
    open_pooling(FT_POOL_LAST, -1);
    client_response r = post("/embedding", "{\"content\":\"one\"}");
    const double raw = norm_of(client_at(r.json, "0.embedding.0"));
    assert_true(fabs(raw - 1) > 1e-3);
    client_release(&r);
    r = post("/v1/embeddings", "{\"input\":\"one\",\"embd_normalize\":2}");
    const double unit = norm_of(client_at(r.json, "data.0.embedding"));
    assert_true(fabs(unit - 1) < 1e-5);
    client_release(&r);
    close_server();
}

/* ---- ranking ---- */

static void ranking(void **state)
{
    (void)state;
    open_pooling(-1, 2);
    refused("/rerank", "{\"query\":\"q\",\"documents\":[\"a\"]}", 501, "no classification head");
    model->info.ranks = true;
    client_response r =
        post("/v1/rerank", "{\"query\":\"q\",\"documents\":[\"one\",\"one two three "
                           "four\",\"one two\"],\"top_n\":2}");
    assert_int_equal(r.status, 200);
    assert_int_equal(json_array_size(client_at(r.json, "results")), 2);
    assert_int_equal(client_int(r.json, "results.0.index"), 1);
    assert_int_equal(client_int(r.json, "results.1.index"), 2);
    assert_true(json_real_value(client_at(r.json, "results.0.relevance_score")) >
                json_real_value(client_at(r.json, "results.1.relevance_score")));
    assert_true(client_int(r.json, "usage.prompt_tokens") > 6);
    client_release(&r);
    model->info.rank_template = "Is {document} about {query}?";
    r = post("/reranking", "{\"query\":\"q\",\"texts\":[\"a\",\"b c d\"],\"return_text\":true}");
    same_text(client_text(r.json, "0.text"), "b c d");
    assert_true(json_real_value(client_at(r.json, "0.score")) > 5);
    client_release(&r);
    refused("/rerank", "{\"documents\":[\"a\"]}", 400, "query is absent");
    refused("/rerank", "{\"query\":\"q\",\"documents\":[]}", 400, "at least one string");
    refused("/rerank", "{\"query\":\"q\",\"documents\":[1]}", 400, "documents[0] is 1");
    refused("/rerank", "{\"query\":\"q\",\"documents\":[\"a\"],\"top_n\":-1}", 400, "top_n is -1");
    close_server();
    open_pooling(FT_POOL_RANK, 2);
    model->info.ranks = true;
    r = post("/embedding", "{\"content\":\"one two\"}");
    assert_int_equal(json_array_size(client_at(r.json, "0.embedding.0")), 1); /* the score */
    client_release(&r);
    close_server();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(list_of_adapters, open_usual, close_usual),
        cmocka_unit_test_setup_teardown(scales_of_a_request, open_usual, close_usual),
        cmocka_unit_test(a_vector_per_token),
        cmocka_unit_test(norms),
        cmocka_unit_test(ranking),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
