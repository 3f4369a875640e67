/* tests/serve/models.c - several models: loaded on demand, unloaded when another model needs the
 * memory, without losing a request. */
#define _GNU_SOURCE
#include "bench.h"

#include <stdatomic.h>

#define SAY(model, how, what)                                                                      \
    "{\"model\":\"" model                                                                          \
    "\",\"stream\":true,\"chat_template_kwargs\":{\"enable_thinking\":false}"                      \
    ",\"messages\":[{\"role\":\"user\",\"content\":\"say" how ":" what "\"}]}"

enum { MODELS = 3 };

/* Calls of the loader, and its configured behaviour. */
static struct {
    atomic_int loaded, most, loads[MODELS];
    atomic_bool fail, tight, broken;
    int slow_us;
} seen;

static ft_status check_file(void *user, int i, ft_err *err)
{
    (void)user;
    return seen.broken && i == 1 ? ft_fail(err, FT_EFORMAT, "this file is cut off") : FT_OK;
}

static ft_status load_model(void *user, int i, ft_llm **out, ft_request *r, ft_err *err)
{
    (void)user;
    usleep((useconds_t)seen.slow_us);
    if (seen.fail) return ft_fail(err, FT_EFORMAT, "this file is not a model");
    if (seen.tight && seen.loaded)
        return ft_fail(err, FT_ENOMEM, "not enough memory for a second model");
    *out = ft_scripted_open("models/foretoken-tiny.gguf", 4, 64);
    ft_request_defaults(r, *out);
    seen.loads[i]++;
    const int n = ++seen.loaded;
    if (n > seen.most) seen.most = n;
    return FT_OK;
}

static void unload_model(void *user, int i, ft_llm *m)
{
    (void)user, (void)i;
    ft_scripted_close(m);
    seen.loaded--;
}

static void open_models(const ft_models_params *more)
{
    static const ft_served_model names[MODELS] = {{.name = "one", .bytes = 100},
                                                  {.name = "two", .bytes = 100},
                                                  {.name = "three", .bytes = 100}};
    ft_models_params p = *more;
    ft_serve_params sp;
    ft_err err;
    memset(&seen, 0, sizeof seen);
    ft_log_to(quiet, NULL);
    ft_serve_defaults(&sp);
    sp.port = 0;
    sp.metrics = true;
    p.at = names;
    p.n = MODELS;
    p.load = load_model;
    p.unload = unload_model;
    if (ft_server_open(&server, &sp, &err) || ft_server_models(server, &p, &err) ||
        ft_server_load(server, -1, &err))
        fail_msg("%s", err.text);
    port = ft_server_port(server);
}

static void close_models(void)
{
    ft_server_close(server);
    server = NULL;
    assert_int_equal(seen.loaded, 0);
}

/* Checks the text of a streamed response, which must be complete. */
static void expect_text(const char *body, const char *want)
{
    client_response r = post(CHAT, body);
    json_t *events = client_events(&r);
    char *text = client_join(events, "choices.0.delta.content");
    if (r.status != 200 || strcmp(text, want) || !strstr(ft_buf_z(&r.body), "[DONE]"))
        fail_msg("%s\n  found  %d %s\n  want   %s", body, r.status, ft_buf_z(&r.body), want);
    free(text);
    json_decref(events);
    client_release(&r);
}

static void status_is(int i, const char *want)
{
    char path[64];
    snprintf(path, sizeof path, "data.%d.status.value", i);
    const char *found = NULL;
    for (int k = 0; k < 500; k++) { /* a model is unloaded shortly after its last request */
        client_response r = get("/v1/models");
        found = client_text(r.json, path);
        const bool same = found && !strcmp(found, want);
        client_release(&r);
        if (same) return;
        usleep(10000);
    }
    fail_msg("the status of model %d never became %s", i, want);
}

static void by_name(void **state)
{
    (void)state;
    open_models(&(ft_models_params){.max = 2});
    status_is(0, "unloaded");
    client_response r = get("/health");
    assert_int_equal(r.status, 200);
    client_release(&r);
    expect_text(SAY("two", "", "hello"), "hello");
    status_is(1, "loaded");
    status_is(0, "unloaded");
    refused(CHAT, "{\"model\":\"four\",\"messages\":[]}", 404, "the model four");
    expect_text(
        "{\"stream\":true,\"chat_template_kwargs\":{\"enable_thinking\":false},\"messages\":[{"
        "\"role\":\"user\",\"content\":\"say:the one used last\"}]}",
        "the one used last");
    assert_int_equal(seen.loads[1], 1);
    expect_text(SAY("one:latest", "", "as Ollama says it"), "as Ollama says it");
    expect_text(SAY("three", "", "room for two"), "room for two");
    status_is(1, "unloaded"); /* the least recently used */
    status_is(0, "loaded");
    assert_int_equal(seen.most, 2);
    r = post("/tokenize", "{\"model\":\"one\",\"content\":\"one two\"}");
    assert_int_equal(r.status, 200);
    client_release(&r);
    r = get("/slots?model=three");
    assert_int_equal(json_array_size(r.json), 4);
    client_release(&r);
    r = get("/api/tags");
    assert_int_equal(json_array_size(client_at(r.json, "models")), 3);
    client_release(&r);
    r = get("/api/ps");
    assert_int_equal(json_array_size(client_at(r.json, "models")), 2);
    client_release(&r);
    close_models();
}

/* Ollama's keep_alive: 0 unloads the model after the response, a duration sets its idle time. */
static void keep_alive(void **state)
{
    (void)state;
    open_models(&(ft_models_params){.max = 2});
    expect_text(SAY("one", "", "hello"), "hello");
    client_response r = post("/api/chat", "{\"model\":\"one\",\"think\":false,\"stream\":false,"
                                          "\"keep_alive\":0,\"messages\":[{\"role\":\"user\","
                                          "\"content\":\"say:bye\"}]}");
    same_text(client_text(r.json, "message.content"), "bye");
    client_release(&r);
    status_is(0, "unloaded");
    r = post("/api/generate", "{\"model\":\"two\"}");
    same_text(client_text(r.json, "done_reason"), "load");
    client_release(&r);
    status_is(1, "loaded");
    r = post("/api/generate", "{\"model\":\"two\",\"keep_alive\":\"0s\"}");
    same_text(client_text(r.json, "done_reason"), "unload");
    client_release(&r);
    status_is(1, "unloaded");
    r = post("/api/embed", "{\"model\":\"three\",\"input\":\"x\",\"keep_alive\":\"20ms\"}");
    assert_int_equal(r.status, 200);
    client_release(&r);
    status_is(2, "unloaded");
    assert_int_equal(seen.loads[2], 1);
    close_models();
}

/* ---- alternating models ---- */

static atomic_int answered;

static void *request_thread(void *arg)
{
    const bool odd = *(const int *)arg % 2;
    for (int i = 0; i < 6; i++) {
        client_response list = get("/v1/models"), tags = get("/api/ps"), props = get("/props");
        if (list.status != 200 || tags.status != 200 || props.status != 200) answered -= 100;
        client_release(&list);
        client_release(&tags);
        client_release(&props);
        client_response r =
            post(CHAT, (i + odd) % 2 ? SAY("one", "", "a b c") : SAY("two", "", "a b c"));
        if (r.status == 200 && strstr(ft_buf_z(&r.body), "[DONE]")) answered++;
        client_release(&r);
    }
    return NULL;
}

/* Two models where one fits, and clients that use both. */
static void alternating(void **state)
{
    (void)state;
    pthread_t t[6];
    int id[6];
    open_models(&(ft_models_params){.max = 1});
    answered = 0;
    for (int i = 0; i < 6; i++) {
        id[i] = i;
        pthread_create(&t[i], NULL, request_thread, &id[i]);
    }
    for (int i = 0; i < 6; i++) pthread_join(t[i], NULL);
    assert_int_equal(answered, 36);
    assert_int_equal(seen.most, 1);
    client_response r = get("/metrics"); /* of all models, also of unloaded ones */
    assert_non_null(strstr(ft_buf_z(&r.body), "foretoken:tokens_predicted_total 1"));
    client_release(&r);
    close_models();
}

static int begin_request(const char *body)
{
    ft_buf b;
    client_request(&b, "POST", CHAT, "Connection: close\r\n", body);
    const int fd = client_connect(port);
    assert_true(fd >= 0 && client_send(fd, ft_buf_z(&b), b.len, 0));
    ft_buf_release(&b);
    return fd;
}

static void ends_with_done(int fd)
{
    client_response r;
    client_read(fd, &r);
    close(fd);
    if (r.status != 200 || !strstr(ft_buf_z(&r.body), "[DONE]"))
        fail_msg("status %d: %s", r.status, ft_buf_z(&r.body));
    client_release(&r);
}

/* A response that runs when its model is to be unloaded finishes normally; requests for the model
 * in the meantime wait until it is loaded again. */
static void in_flight(void **state)
{
    (void)state;
    open_models(&(ft_models_params){.max = 1});
    const int slow = begin_request(SAY("one", "/20ms", "a b c d e f g h i j k l m n o p q r s t"));
    status_is(0, "loaded");
    const int other = begin_request(SAY("two", "", "hello"));
    usleep(50000);
    const int again = begin_request(SAY("one", "", "once more"));
    ends_with_done(slow);
    ends_with_done(other);
    ends_with_done(again);
    assert_int_equal(seen.loads[0], 2);
    assert_int_equal(seen.most, 1);
    close_models();
}

static void on_demand(void **state)
{
    (void)state;
    open_models(&(ft_models_params){.no_autoload = true});
    refused(CHAT, SAY("one", "", "x"), 400, "is not loaded");
    refused("/models/unload", "{\"model\":\"one\"}", 400, "is not loaded");
    refused("/models/load", "{\"model\":\"four\"}", 404, "four");
    refused("/models/load", "{\"model\":7}", 400, "model");
    refused("/models/load", "{}", 400, "missing");
    client_response r = post("/models/load", "{\"model\":\"one\"}");
    assert_int_equal(r.status, 200);
    assert_true(json_is_true(client_at(r.json, "success")));
    client_release(&r);
    status_is(0, "loaded");
    refused("/models/load", "{\"model\":\"one\"}", 400, "is already loaded");
    const int slow = begin_request(SAY("one", "/20ms", "a b c d e f g h i j"));
    usleep(50000);
    r = post("/models/unload", "{\"model\":\"one\"}");
    assert_int_equal(r.status, 200);
    client_release(&r);
    ends_with_done(slow);
    status_is(0, "unloaded");
    close_models();
}

/* ---- failures ---- */

static void failures(void **state)
{
    (void)state;
    open_models(&(ft_models_params){.max = 0});
    seen.fail = true;
    refused(CHAT, SAY("one", "", "x"), 500, "this file is not a model");
    status_is(0, "failed");
    seen.fail = false;
    expect_text(SAY("one", "", "it was mended"), "it was mended");
    status_is(0, "loaded");
    /* not enough memory for two: the other is unloaded, although the number of models is not
     * limited */
    seen.tight = true;
    expect_text(SAY("two", "", "hello"), "hello");
    assert_int_equal(seen.most, 1);
    status_is(0, "unloaded");
    const int slow = begin_request(SAY("two", "/20ms", "a b c d e f g h i j"));
    const int waits = begin_request(SAY("three", "", "hello"));
    ends_with_done(slow);
    ends_with_done(waits);
    close_models();
    /* of two models, the unused one is unloaded */
    open_models(&(ft_models_params){.max = 2});
    expect_text(SAY("one", "", "a"), "a");
    const int busy[] = {begin_request(SAY("one", "/20ms", "a b c d e f g h i j")),
                        begin_request(SAY("two", "/20ms", "a b c d e f g h i j k l m n"))};
    status_is(1, "loaded");
    expect_text(SAY("three", "", "hello"), "hello");
    ends_with_done(busy[0]);
    ends_with_done(busy[1]);
    client_response r = get("/api/ps");
    assert_int_equal(json_array_size(client_at(r.json, "models")), 2);
    client_release(&r);
    close_models();
    /* a limit in bytes; the size of a model is known exactly only after loading */
    open_models(&(ft_models_params){.memory = 150});
    expect_text(SAY("one", "", "a"), "a");
    expect_text(SAY("two", "", "b"), "b");
    assert_int_equal(seen.most, 1);
    close_models();
}

/* A file that cannot be loaded does not displace the loaded model. */
static void checked_first(void **state)
{
    (void)state;
    open_models(&(ft_models_params){.max = 1, .check = check_file});
    expect_text(SAY("one", "", "a"), "a");
    seen.broken = true;
    refused(CHAT, SAY("two", "", "x"), 500, "this file is cut off");
    status_is(0, "loaded");
    status_is(1, "failed");
    assert_int_equal(seen.loads[1], 0);
    seen.broken = false; /* complete now */
    expect_text(SAY("two", "", "b"), "b");
    status_is(0, "unloaded");
    assert_int_equal(seen.loads[0], 1);
    close_models();
}

/* Clients that disconnect while they wait, and a server that stops in the meantime. */
static void leaving(void **state)
{
    (void)state;
    open_models(&(ft_models_params){.max = 1});
    seen.slow_us = 300000;
    for (int i = 0; i < 4; i++)
        close(begin_request(i % 2 ? SAY("one", "", "x") : SAY("two", "", "x")));
    expect_text(SAY("three", "", "still here"), "still here");
    const int fd = begin_request(SAY("one", "", "x"));
    usleep(50000);
    close_models();
    close(fd);
}

static void sleeping(void **state)
{
    (void)state;
    open_models(&(ft_models_params){.idle_s = 1});
    expect_text(SAY("one", "", "hello"), "hello");
    client_response r = get("/props?model=one");
    assert_true(json_is_false(client_at(r.json, "is_sleeping")));
    client_release(&r);
    status_is(0, "unloaded");
    r = get("/props?model=one"); /* does not wake it */
    assert_int_equal(r.status, 200);
    assert_true(json_is_true(client_at(r.json, "is_sleeping")));
    same_text(client_text(r.json, "model_alias"), "one");
    client_release(&r);
    status_is(0, "unloaded");
    expect_text(SAY("one", "", "awake"), "awake");
    assert_int_equal(seen.loads[0], 2);
    close_models();
}

/* GET /props only looks, also at a model that was never loaded. */
static void props_only_looks(void **state)
{
    (void)state;
    open_models(&(ft_models_params){.max = 1});
    client_response r = get("/props");
    assert_int_equal(r.status, 200);
    same_text(client_text(r.json, "role"), "router");
    client_release(&r);
    r = get("/props?model=two");
    assert_int_equal(r.status, 200);
    assert_true(json_is_true(client_at(r.json, "is_sleeping")));
    same_text(client_text(r.json, "model_alias"), "two");
    client_release(&r);
    r = get("/props?model=four");
    assert_int_equal(r.status, 404);
    client_release(&r);
    const int slow = begin_request(SAY("one", "/20ms", "a b c d e f g h i j"));
    status_is(0, "loaded");
    r = get("/props?model=two");
    client_release(&r);
    ends_with_done(slow);
    expect_text(SAY("one", "", "still loaded"), "still loaded");
    assert_int_equal(seen.loads[0], 1);
    assert_int_equal(seen.loads[1], 0);
    close_models();
}

/* A client that leaves while it waits for another model: nobody wants that model any more, and the
 * one that had to leave for it stays and answers those who wait for it. */
static void abandoned(void **state)
{
    (void)state;
    open_models(&(ft_models_params){.max = 1});
    const int slow =
        begin_request(SAY("one", "/20ms", "a b c d e f g h i j k l m n o p q r s t u v w x"));
    status_is(0, "loaded");
    const int other = begin_request(SAY("two", "", "hello"));
    usleep(50000);
    const int again = begin_request(SAY("one", "", "once more")); /* waits: the model is leaving */
    usleep(50000);
    close(other);
    ends_with_done(again);
    ends_with_done(slow);
    expect_text(SAY("one", "", "still loaded"), "still loaded");
    assert_int_equal(seen.loads[0], 1);
    assert_int_equal(seen.loads[1], 0);
    /* but a request to load it is one, whoever sent it */
    client_response r = post("/models/load", "{\"model\":\"two\"}");
    assert_int_equal(r.status, 200);
    client_release(&r);
    status_is(1, "loaded");
    status_is(0, "unloaded");
    close_models();
}

/* ---- changes by request ---- */

static struct {
    char pulled[64], derived[64], params[128];
    int removed, from, fail;
    atomic_bool wait, ended;
} changed;

static ft_status pull_model(void *user, const char *name, ft_pull_progress *progress, void *to,
                            ft_err *err)
{
    (void)user;
    snprintf(changed.pulled, sizeof changed.pulled, "%s", name);
    if (changed.fail) return ft_fail(err, FT_ENOTFOUND, "%s: not found (status 404)", name);
    progress(to, "file.gguf", "abc", 10, 100);
    while (changed.wait && !(changed.ended = !progress(to, "file.gguf", "abc", 20, 100)))
        usleep(1000);
    progress(to, "file.gguf", "abc", 100, 100);
    return FT_OK;
}

static ft_status remove_model(void *user, int i, ft_err *err)
{
    (void)user, (void)err;
    changed.removed = i;
    return FT_OK;
}

static ft_status derive_model(void *user, int i, const char *name, const char *params, ft_err *err)
{
    (void)user;
    changed.from = i;
    if (!strcmp(name, "bad")) return ft_fail(err, FT_EINVAL, "parameter \"x\" is not known");
    snprintf(changed.derived, sizeof changed.derived, "%s", name);
    snprintf(changed.params, sizeof changed.params, "%s", params ? params : "none");
    return FT_OK;
}

static void open_managed(void)
{
    memset(&changed, 0, sizeof changed);
    open_models(
        &(ft_models_params){.pull = pull_model, .remove = remove_model, .derive = derive_model});
}

/* Ollama's pull: a line for each step, progress, and an error in its form. */
static void pulling(void **state)
{
    (void)state;
    open_managed();
    client_response r = post("/api/pull", "{\"model\":\"me/mine:Q8_0\"}");
    assert_int_equal(r.status, 200);
    same_text(changed.pulled, "me/mine:Q8_0");
    const char *text = ft_buf_z(&r.body);
    assert_non_null(strstr(text, "{\"status\":\"pulling manifest\"}\n"));
    assert_non_null(strstr(text,
                           "{\"status\":\"pulling file.gguf\",\"total\":100,\"completed\":100,"
                           "\"digest\":\"sha256:abc\"}\n"));
    assert_true(!strcmp(strrchr(text, '{'), "{\"status\":\"success\"}\n"));
    client_release(&r);
    r = post("/api/pull", "{\"model\":\"me/mine\",\"stream\":false}");
    same_text(client_text(r.json, "status"), "success");
    client_release(&r);
    r = post("/api/pull", "{\"model\":\"one\"}"); /* is there */
    assert_non_null(strstr(ft_buf_z(&r.body), "success"));
    same_text(changed.pulled, "me/mine");
    client_release(&r);
    changed.fail = 1;
    r = post("/api/pull", "{\"model\":\"me/none\"}");
    assert_non_null(strstr(ft_buf_z(&r.body), "{\"error\":\"me/none: not found (status 404)\"}"));
    client_release(&r);
    refused("/api/pull", "{\"model\":\"me/none\",\"stream\":false}", 404, "not found");
    refused("/api/pull", "{}", 400, "model is missing");
    close_models();
}

/* A download ends when its client leaves; until then there is no other. */
static void pull_abandoned(void **state)
{
    (void)state;
    open_managed();
    changed.wait = true;
    ft_buf b;
    ft_buf_init(&b, 4096);
    client_request(&b, "POST", "/api/pull", NULL, "{\"model\":\"me/mine\"}");
    const int fd = client_connect(port);
    assert_true(client_send(fd, ft_buf_z(&b), b.len, b.len));
    ft_buf_release(&b);
    for (int i = 0; !changed.pulled[0] && i < 5000; i++) usleep(1000);
    refused("/api/pull", "{\"model\":\"me/other\"}", 503, "another model is being downloaded");
    close(fd);
    for (int i = 0; !changed.ended && i < 5000; i++) usleep(1000);
    assert_true(changed.ended);
    close_models();
}

static void changing(void **state)
{
    (void)state;
    open_managed();
    expect_text(SAY("two", "", "hello"), "hello");
    client_response r = client_call(port, "DELETE", "/api/delete", NULL, "{\"model\":\"two\"}");
    assert_int_equal(r.status, 200);
    assert_int_equal(changed.removed, 1);
    client_release(&r);
    status_is(1, "unloaded");
    r = client_call(port, "DELETE", "/api/delete", NULL, "{\"model\":\"nine\"}");
    assert_int_equal(r.status, 404);
    same_text(client_text(r.json, "error"), "model \"nine\" not found");
    client_release(&r);
    r = post("/api/copy", "{\"source\":\"three\",\"destination\":\"mine\"}");
    assert_int_equal(r.status, 200);
    same_text(changed.derived, "mine");
    same_text(changed.params, "none");
    assert_int_equal(changed.from, 2);
    client_release(&r);
    r = post("/api/create",
             "{\"model\":\"cool\",\"from\":\"one\",\"parameters\":{\"temperature\":0.5}}");
    assert_non_null(strstr(ft_buf_z(&r.body), "{\"status\":\"success\"}\n"));
    same_text(changed.params, "{\"temperature\":0.5}");
    client_release(&r);
    refused("/api/create", "{\"model\":\"one\",\"from\":\"two\"}", 400, "already");
    refused("/api/create", "{\"model\":\"bad\",\"from\":\"two\",\"stream\":false}", 400,
            "not known");
    refused("/api/create", "{\"model\":\"x\",\"from\":\"two\",\"system\":\"s\"}", 400,
            "system is not");
    refused("/api/create", "{\"model\":\"x\"}", 400, "from is missing");
    refused("/api/copy", "{\"source\":\"nine\",\"destination\":\"mine\"}", 404, "not found");
    close_models();
    open_models(&(ft_models_params){0});
    refused("/api/copy", "{\"source\":\"one\",\"destination\":\"x\"}", 403, "--manage-models");
    close_models();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_name),        cmocka_unit_test(keep_alive),
        cmocka_unit_test(alternating),    cmocka_unit_test(in_flight),
        cmocka_unit_test(on_demand),      cmocka_unit_test(failures),
        cmocka_unit_test(checked_first),  cmocka_unit_test(leaving),
        cmocka_unit_test(sleeping),       cmocka_unit_test(props_only_looks),
        cmocka_unit_test(abandoned),      cmocka_unit_test(pulling),
        cmocka_unit_test(pull_abandoned), cmocka_unit_test(changing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
