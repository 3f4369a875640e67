/* Hostile and unlucky clients: what a request may cost, how long it may take, who may send it. */
#define _GNU_SOURCE
#include "bench.h"
#include "folder.h"

#include "base/file.h"

#include <dirent.h>
#include <sys/stat.h>

#define KEY  "Authorization: Bearer k1\r\n"
#define JSON "Content-Type: application/json\r\n"

/* ---- memory ---- */

/* A field of /proc/self/status in MiB. */
static long memory_mib(const char *field)
{
    char line[256];
    long kib = -1;
    FILE *f = fopen("/proc/self/status", "r");
    assert_non_null(f);
    while (kib < 0 && fgets(line, sizeof line, f))
        if (!strncmp(line, field, strlen(field))) kib = atol(line + strlen(field) + 1);
    fclose(f);
    return kib / 1024;
}

/* {"prompt":[ONE,ONE,...]} of so many bytes. free() */
static char *many(const char *one, size_t bytes)
{
    ft_buf b;
    ft_buf_init(&b, (size_t)1 << 30);
    ft_buf_puts(&b, "{\"prompt\":[");
    while (b.len < bytes) ft_buf_printf(&b, "%s,", one);
    ft_buf_printf(&b, "%s]}", one);
    return ft_buf_take(&b);
}

/* An image of the largest size fits in a body, and what is longer does not. */
static void images_fit(void **state)
{
    static const char HEAD[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\","
        "\"image_url\":{\"url\":\"data:image/png;base64,";
    (void)state;
    const size_t base64 = (size_t)(20 << 20) / 3 * 4;
    for (int i = 0; i < 2; i++) {
        const size_t n = i ? (size_t)33 << 20 : base64;
        ft_buf b;
        ft_buf_init(&b, (size_t)64 << 20);
        ft_buf_puts(&b, HEAD);
        char *data = ft_alloc(n);
        memset(data, 'A', n);
        ft_buf_put(&b, data, n);
        ft_free(data);
        ft_buf_puts(&b, "\"}}]}]}");
        if (i)
            refused("/v1/chat/completions", ft_buf_z(&b), 413, "maximum of 33554432 bytes");
        else /* read, and refused because this model has no tower */
            refused("/v1/chat/completions", ft_buf_z(&b), 400, "image");
        ft_buf_release(&b);
    }
    /* integers beyond 64 bits need a copy, which is counted */
    char *body = many("18446744073709551615", (size_t)24 << 20);
    const long before = memory_mib("VmHWM");
    client_response r = post("/completion", body);
    assert_in_range(r.status, 400, 429);
    client_release(&r);
    if (memory_mib("VmHWM") - before > 400)
        fail_msg("the process grew by %ld MiB", memory_mib("VmHWM") - before);
    ft_free(body);
}

static void values_are_counted(void **state)
{
    static const char *const one[] = {"{}", "1", "[]", "\"\"", "{\"a\":1}"};
    (void)state;
    for (size_t i = 0; i < FT_COUNT(one); i++) {
        char *body = many(one[i], (size_t)15 << 20);
        const long before = memory_mib("VmHWM");
        refused("/completion", body, 413, "MiB of memory");
        /* the test's own copies of the body are in there */
        if (memory_mib("VmHWM") - before > 300)
            fail_msg("%s: the process grew by %ld MiB", one[i], memory_mib("VmHWM") - before);
        ft_free(body);
    }
}

static void *post_body(void *body)
{
    client_response r = post("/completion", body);
    const int status = r.status;
    client_release(&r);
    return (void *)(intptr_t)status;
}

/* Values that do fit are parsed, refused for another reason, and their memory given back. Requests
 * at the same time are parsed by several threads, each of which has its own part of the heap. */
static void memory_is_given_back(void **state)
{
    enum { AT_ONCE = 4, TIMES = 3 };
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* their allocators keep what is freed */
#endif
    char *body = many("{}", (size_t)2 << 20);
    const long before = memory_mib("VmRSS");
    for (int i = 0; i < TIMES; i++) {
        pthread_t t[AT_ONCE];
        for (int k = 0; k < AT_ONCE; k++) pthread_create(&t[k], NULL, post_body, body);
        for (int k = 0; k < AT_ONCE; k++) {
            void *status;
            pthread_join(t[k], &status);
            assert_int_equal((intptr_t)status, 400);
        }
    }
    long after = 0;
    for (int i = 0; i < 100; i++) { /* the next tick gives it back */
        after = memory_mib("VmRSS");
        if (after - before < 100) break;
        usleep(100000);
    }
    ft_free(body);
    if (after - before >= 100) fail_msg("%ld MiB before, %ld after", before, after);
}

static void memory_of_all(void **state)
{
    ft_serve_params p;
    (void)state;
    usual(&p);
    p.body_memory = (size_t)8 << 20;
    open_server(&p, 2, 4);
    char *body = many("1000000", 400 << 10); /* parsed: 2.4 MiB, above a quarter */
    refused("/completion", body, 413, "the maximum is 2");
    ft_free(body);
    /* three bodies that have not ended yet take 6 MiB, and a fourth has no place */
    char head[200], *half = ft_alloc((2 << 20) + 1);
    memset(half, ' ', 2 << 20);
    int fd[5];
    for (int i = 0; i < 5; i++) {
        snprintf(head, sizeof head,
                 "POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n",
                 (2 << 20) + 2);
        fd[i] = send_text(head);
        assert_true(client_send(fd[i], half, 2 << 20, 0));
    }
    ft_free(half);
    client_response r =
        post("/completion", "{\"prompt\":\"say:x\"}"); /* a small one is no trouble */
    assert_int_equal(r.status, 200);
    client_release(&r);
    int full = 0;
    for (int i = 0; i < 5; i++) {
        client_puts(fd[i], "{}");
        ft_buf raw;
        ft_buf_init(&raw, 1 << 20);
        while (!strstr(ft_buf_z(&raw), "}}") && client_more(fd[i], &raw, 20000)) continue;
        full += !strncmp(ft_buf_z(&raw), "HTTP/1.1 503", 12);
        ft_buf_release(&raw);
        close(fd[i]);
    }
    assert_true(full >= 1);
    close_server();
}

/* ---- time and connections ---- */

/* The answer comes although the body never does. */
static void refused_at_once(void **state)
{
    static const struct {
        const char *head;
        int status;
    } early[] = {
        {"POST " CHAT " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\n\r\n", 401},
        {"POST " CHAT " HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n", 401},
        {"POST /no HTTP/1.1\r\nHost: localhost\r\n" KEY "Content-Length: 900\r\n\r\n", 404},
        {"POST /metrics HTTP/1.1\r\nHost: localhost\r\n" KEY "Content-Length: 900\r\n\r\n", 405},
        {"PUT /props HTTP/1.1\r\nHost: localhost\r\n" KEY "Content-Length: 900\r\n\r\n", 405},
        {"DELETE /props HTTP/1.1\r\nHost: localhost\r\n" KEY "Content-Length: 900\r\n\r\n", 405},
        {"POST " CHAT " HTTP/1.1\r\nHost: localhost\r\n" KEY "Content-Length: 99000000\r\n\r\n",
         413},
        {"POST " CHAT " HTTP/1.1\r\nHost: localhost\r\n" KEY
         "Content-Type: text/plain\r\nContent-Length: 900\r\n\r\n",
         415},
        {"POST " CHAT " HTTP/1.1\r\nHost: localhost\r\n" KEY
         "Content-Length: 900\r\nContent-Length: 900\r\n\r\n",
         400},
        {"POST " CHAT " HTTP/1.1\r\nHost: localhost\r\n" KEY
         "Content-Length: 900\r\nTransfer-Encoding: chunked\r\n\r\n",
         400},
    };
    ft_serve_params p;
    (void)state;
    usual(&p);
    p.api_key = "k1";
    open_server(&p, 2, 4);
    for (size_t i = 0; i < FT_COUNT(early); i++) {
        const int fd = send_text(early[i].head);
        client_response r;
        client_read(fd, &r); /* to the end of the connection */
        if (r.status != early[i].status)
            fail_msg("%s\n  found %d, wanted %d", early[i].head, r.status, early[i].status);
        same_text(client_header(&r, "Connection"), "close");
        client_release(&r);
        close(fd);
    }
    /* a large body on its way does not destroy the answer */
    ft_buf b;
    char *body = many("1", (size_t)8 << 20);
    client_request(&b, "POST", CHAT, NULL, body);
    const int fd = client_connect(port);
    client_send(fd, ft_buf_z(&b), b.len, 0);
    client_response r;
    client_read(fd, &r);
    assert_int_equal(r.status, 401);
    client_release(&r);
    ft_buf_release(&b);
    ft_free(body);
    close(fd);
    close_server();
}

/* A device that fails: its response ends with an error, and so do all later requests; /health says
 * so. tests/cli/harden.sh checks the exit code. */
static void lost_device(void **state)
{
    ft_serve_params p;
    (void)state;
    usual(&p);
    open_server(&p, 2, 4);
    assert_status("/health", NULL, NULL, 200);
    assert_status("/completion", NULL, "{\"prompt\":\"say/die:a\"}", 500);
    assert_status("/health", NULL, NULL, 503);
    for (int i = 0; i < 3; i++) assert_status("/completion", NULL, "{\"prompt\":\"say:a\"}", 503);
    assert_true(ft_server_failed(server));
    close_server();
}

/* One HTTP thread, and a body that takes it long: others are answered meanwhile. */
static void large_bodies_elsewhere(void **state)
{
    ft_serve_params p;
    (void)state;
    usual(&p);
    p.threads = 1;
    open_server(&p, 2, 4);
    ft_buf text, b;
    ft_buf_init(&text, (size_t)1 << 30);
    ft_buf_puts(&text, "{\"with_pieces\":true,\"content\":\"");
    while (text.len < (size_t)4 << 20) ft_buf_puts(&text, "some words in a row, 1234; ");
    ft_buf_puts(&text, "\"}");
    client_request(&b, "POST", "/tokenize", "Connection: close\r\n", ft_buf_z(&text));
    const int fd = client_connect(port);
    client_send(fd, ft_buf_z(&b), b.len, 0);
    /* no request waits for most of the time that the body takes */
    const double from = ft_now_s();
    double longest = 0, last = from;
    struct pollfd f = {fd, POLLIN, 0};
    do {
        assert_status("/health", NULL, NULL, 200);
        assert_status("/completion", NULL, "{\"prompt\":\"say:x\"}", 200);
        const double now = ft_now_s();
        longest = FT_MAX(longest, now - last);
        last = now;
    } while (!poll(&f, 1, 0));
    if (longest > 0.5 * (last - from))
        fail_msg("two requests waited for %.2f s of %.2f s", longest, last - from);
    client_response r;
    client_init(&r);
    while (client_more(fd, &r.raw, 120000)) continue;
    client_parse(&r);
    assert_int_equal(r.status, 200);
    same_text(client_text(r.json, "tokens.1.piece"), " words");
    client_release(&r);
    ft_buf_release(&b);
    ft_buf_release(&text);
    close(fd);
    close_server();
}

/* ---- fields ---- */

static void numbers_are_not_narrowed(void **state)
{
    (void)state;
    refused("/completion", "{\"prompt\":\"x\",\"logit_bias\":[[-4294967291,1]]}", 400,
            "the token -4294967291, want one from 0");
    refused("/completion", "{\"prompt\":\"x\",\"logit_bias\":[[4294967301,1]]}", 400,
            "the token 4294967301");
    refused("/completion", "{\"prompt\":\"x\",\"logit_bias\":{\"4294967301\":1}}", 400,
            "the token 4294967301");
    refused("/completion", "{\"prompt\":[4294967301]}", 400, "want token ids from 0");
    refused("/detokenize", "{\"tokens\":[-4294967291]}", 400, "want token ids from 0");
    refused("/completion", "{\"prompt\":\"x\",\"n_probs\":4294967297}", 400, "n_probs is");
}

/* {"prompt":"x","FIELD":[ONE,ONE,...]} with n of them */
static void assert_too_many(const char *field, const char *one, int n, const char *words)
{
    ft_buf b;
    ft_buf_init(&b, 1 << 24);
    ft_buf_printf(&b, "{\"prompt\":\"x\",\"%s\":[%s", field, one);
    for (int i = 1; i < n; i++) ft_buf_printf(&b, ",%s", one);
    ft_buf_puts(&b, "]}");
    refused("/completion", ft_buf_z(&b), 400, words);
    client_response r = post("/completion", ft_buf_z(&b));
    same_text(client_text(r.json, "error.param"), field);
    client_release(&r);
    ft_buf_release(&b);
}

static void lists_are_bounded(void **state)
{
    (void)state;
    assert_too_many("logit_bias", "[7,1]", 16385, "more tokens than the maximum of 16384");
    assert_too_many("stop", "\"a\"", 65, "the maximum is 64");
    assert_too_many("dry_sequence_breakers", "\"a\"", 65, "want an array of 1 to 64");
    char long_text[400];
    memset(long_text, 'a', sizeof long_text);
    long_text[0] = long_text[300] = '"';
    long_text[301] = 0;
    assert_too_many("dry_sequence_breakers", long_text, 1, "299 bytes, the maximum is 256");
}

/* ---- who may send it ---- */

static void pages(void **state)
{
    static const char body[] = "{\"prompt\":\"say:x\"}";
    (void)state;
    assert_status("/completion", "Origin: http://evil.example\r\n" JSON, body, 403);
    assert_status("/health", "Origin: null\r\n", NULL, 403);
    assert_status("/completion", "Origin: http://localhost\r\n" JSON, body, 200); /* our page */
    assert_status("/completion", "Origin: http://localhost:3000\r\n" JSON, body, 403);
    assert_status("/completion", "Origin: http://localhost\r\n", body, 415);
    assert_status("/completion", "Content-Type: text/plain\r\n", body, 415);
    assert_status("/completion", "Content-Type: application/jsonx\r\n", body, 415);
    assert_status("/completion",
                  "Sec-Fetch-Site: none\r\nContent-Type: application/x-www-form-urlencoded\r\n",
                  body, 415);
    assert_status("/completion", "Content-Type: application/json; charset=utf-8\r\n", body, 200);
    assert_status("/completion", "Content-Type: application/x-www-form-urlencoded\r\n", body, 200);
    assert_status("/completion", NULL, body, 200);
    client_response r = client_call(port, "OPTIONS", CHAT, "Origin: http://evil.example\r\n", NULL);
    assert_int_equal(r.status, 403);
    assert_null(client_header(&r, "Access-Control-Allow-Origin"));
    client_release(&r);
}

static void any_page(void **state)
{
    ft_serve_params p;
    (void)state;
    usual(&p);
    p.cors_credentials = true;
    p.cors_origins = "*";
    open_server(&p, 2, 4);
    client_response r = client_call(port, "GET", "/health", "Origin: http://a.example\r\n", NULL);
    assert_int_equal(r.status, 200);
    same_text(client_header(&r, "Access-Control-Allow-Origin"), "*");
    assert_null(client_header(&r, "Access-Control-Allow-Credentials"));
    client_release(&r);
    close_server();
    p.cors_origins = "localhost, https://b.example";
    open_server(&p, 2, 4);
    r = client_call(port, "GET", "/health", "Origin: https://b.example\r\n", NULL);
    same_text(client_header(&r, "Access-Control-Allow-Origin"), "https://b.example");
    same_text(client_header(&r, "Access-Control-Allow-Credentials"), "true");
    same_text(client_header(&r, "Vary"), "Origin");
    client_release(&r);
    r = client_call(port, "GET", "/health", "Origin: http://127.0.0.1:5000\r\n", NULL);
    same_text(client_header(&r, "Access-Control-Allow-Origin"), "http://127.0.0.1:5000");
    assert_null(client_header(&r, "Access-Control-Allow-Credentials"));
    client_release(&r);
    assert_status("/health", "Origin: http://localhost.evil.example\r\n", NULL, 403);
    assert_status("/health", "Origin: https://b.example.evil\r\n", NULL, 403);
    close_server();
}

static int status_of_host(const char *host)
{
    char text[300];
    snprintf(text, sizeof text, "GET /health HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
             host);
    const int fd = send_text(text);
    client_response r;
    client_read(fd, &r);
    const int status = r.status;
    client_release(&r);
    close(fd);
    return status;
}

/* A page whose name was made to mean this machine (DNS rebinding) has another name in Host. */
static void hosts(void **state)
{
    ft_serve_params p;
    (void)state;
    usual(&p);
    p.allowed_hosts = "llm.example";
    open_server(&p, 2, 4);
    assert_int_equal(status_of_host("localhost"), 200);
    assert_int_equal(status_of_host("LOCALHOST:8080"), 200);
    assert_int_equal(status_of_host("127.0.0.1:8080"), 200);
    assert_int_equal(status_of_host("[::1]:8080"), 200);
    assert_int_equal(status_of_host("10.0.0.7"), 200);
    assert_int_equal(status_of_host("llm.example:8080"), 200);
    assert_int_equal(status_of_host("evil.example:8080"), 403);
    assert_int_equal(status_of_host("localhost.evil.example"), 403);
    assert_int_equal(status_of_host("llm.example.evil"), 403);
    assert_int_equal(status_of_host("localhost\r\nHost: localhost"), 400);
    close_server();
    p.allowed_hosts = NULL;
    p.api_key = "k1"; /* a page does not know it */
    open_server(&p, 2, 4);
    assert_int_equal(status_of_host("llm.example"), 200);
    close_server();
}

static void write_keys(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void keys_again(void **state)
{
    ft_serve_params p;
    ft_err err;
    char folder[sizeof FOLDER], path[200];
    (void)state;
    folder_new(folder);
    snprintf(path, sizeof path, "%s/keys", folder);
    write_keys(path, "# ours\nold\n");
    usual(&p);
    p.api_key_file = path;
    open_server(&p, 2, 4);
    assert_status("/props", "X-Api-Key: old\r\n", NULL, 200);
    assert_status("/props", "X-Api-Key: new\r\n", NULL, 401);
    write_keys(path, "new\n");
    assert_int_equal(ft_server_reload(server, &err), FT_OK);
    assert_status("/props", "X-Api-Key: old\r\n", NULL, 401);
    assert_status("/props", "X-Api-Key: new\r\n", NULL, 200);
    write_keys(path, "# none\n"); /* must not open the door */
    assert_int_equal(ft_server_reload(server, &err), FT_EINVAL);
    assert_status("/props", "X-Api-Key: new\r\n", NULL, 200);
    assert_status("/props", NULL, NULL, 401);
    close_server();
    assert_int_equal(folder_free(folder), 0);
}

/* ---- what one key sees of another ---- */

/* The prompt of slot 0 as /slots shows it to a key. */
static int64_t prompt_shown(const char *key)
{
    client_response r = client_call(port, "GET", "/slots", key, NULL);
    assert_int_equal(r.status, 200);
    const int64_t n = client_int(r.json, "0.n_prompt_tokens");
    client_release(&r);
    return n;
}

static void keys_apart(void **state)
{
    static const char body[] = "{\"prompt\":\"say:x\",\"id_slot\":0}";
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        ft_serve_params p;
        usual(&p);
        p.api_key = "k1,k2";
        p.cache_shared = shared;
        p.props = true;
        open_server(&p, 1, 4);
        assert_status("/completion", "X-Api-Key: k1\r\n", body, 200);
        assert_int_equal(model->slot_salt[0] == 0, shared);
        const uint64_t first = model->slot_salt[0];
        assert_int_equal(prompt_shown("X-Api-Key: k1\r\n"), shared ? 0 : 5);
        assert_int_equal(prompt_shown("X-Api-Key: k2\r\n"), 0);
        assert_status("/completion", "Authorization: Bearer k2\r\n", body, 200);
        assert_int_equal(model->slot_salt[0] == first, shared);
        assert_status("/completion", "Authorization: Bearer k1\r\n", body, 200);
        assert_true(model->slot_salt[0] == first);
        /* the defaults are those of all keys */
        assert_status("/props", "X-Api-Key: k1\r\n", "{\"top_k\":7}", shared ? 200 : 403);
        assert_status("/lora-adapters", "X-Api-Key: k1\r\n", "[]", shared ? 200 : 403);
        client_response r = client_call(port, "GET", "/props", "X-Api-Key: k2\r\n", NULL);
        assert_int_equal(client_int(r.json, "default_generation_settings.params.top_k") == 7,
                         shared);
        client_release(&r);
        close_server();
    }
}

/* ---- files ---- */

static void assert_mode(const char *path, unsigned mode)
{
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, mode);
}

static void records(void **state)
{
    char folder[sizeof FOLDER], dir[100], path[200], *text = NULL;
    size_t n;
    ft_serve_params p;
    (void)state;
    folder_new(folder);
    snprintf(dir, sizeof dir, "%s/prompts", folder);
    usual(&p);
    p.prompts_dir = dir;
    umask(0);
    open_server(&p, 2, 4);
    assert_mode(dir, 0700);
    /* a link that waits for a request does not lead it elsewhere */
    snprintf(path, sizeof path, "%s/trap.json", dir);
    char target[200];
    snprintf(target, sizeof target, "%s/target", folder);
    assert_int_equal(symlink(target, path), 0);
    assert_status("/tokenize", "X-Request-Id: trap\r\n", "{\"content\":\"first\"}", 200);
    assert_int_not_equal(access(target, F_OK), 0);
    /* the same id twice: two files */
    assert_status("/tokenize", "X-Request-Id: same\r\n", "{\"content\":\"first\"}", 200);
    assert_status("/tokenize", "X-Request-Id: same\r\n", "{\"content\":\"second\"}", 200);
    snprintf(path, sizeof path, "%s/same.json", dir);
    assert_mode(path, 0600);
    assert_int_equal(ft_file_read(&text, &n, path, 1 << 20, NULL), FT_OK);
    assert_string_equal(text, "{\"content\":\"first\"}");
    ft_free(text);
    int files = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) files += strstr(e->d_name, ".json") != NULL;
    closedir(d);
    assert_int_equal(files, 4); /* the link, and three records */
    close_server();
    umask(022);
    assert_int_equal(folder_free(folder), 0);
}

static void no_space(void **state)
{
    char folder[sizeof FOLDER];
    ft_serve_params p;
    (void)state;
    folder_new(folder);
    usual(&p);
    p.slot_save_path = folder;
    open_server(&p, 2, 4);
    refused("/slots/0?action=save", "{\"filename\":\"full.bin\"}", 507, "No space");
    refused("/slots/0?action=restore", "{\"filename\":\"none.bin\"}", 400, "cannot be read");
    assert_status("/slots/0?action=save", NULL, "{\"filename\":\"fine.bin\"}", 200);
    close_server();
    assert_int_equal(folder_free(folder), 0);
}

static char warned[512];

static void keep_warning(void *user, ft_log_level level, const char *line)
{
    (void)user;
    if (level <= FT_LOG_WARN) snprintf(warned, sizeof warned, "%s", line);
}

static void warns_of_open_doors(void **state)
{
    static const struct {
        const char *host, *key;
        bool warns;
    } at[] = {{"127.0.0.1", NULL, false}, {"0.0.0.0", "k", false}, {"0.0.0.0", NULL, true}};
    (void)state;
    for (size_t i = 0; i < FT_COUNT(at); i++) {
        ft_serve_params p;
        ft_err err;
        ft_server *s;
        usual(&p);
        p.host = at[i].host;
        p.api_key = at[i].key;
        warned[0] = 0;
        ft_log_to(keep_warning, NULL);
        assert_int_equal(ft_server_open(&s, &p, &err), FT_OK);
        assert_int_equal(strstr(warned, "--api-key") != NULL, at[i].warns);
        ft_server_close(s);
    }
    ft_log_to(quiet, NULL);
}

int main(void)
{
    const struct CMUnitTest one[] = {
        cmocka_unit_test(images_fit),
        cmocka_unit_test(values_are_counted),
        cmocka_unit_test(memory_is_given_back),
        cmocka_unit_test(pages),
        cmocka_unit_test(numbers_are_not_narrowed),
        cmocka_unit_test(lists_are_bounded),
    };
    const struct CMUnitTest own[] = {
        cmocka_unit_test(memory_of_all), cmocka_unit_test(refused_at_once),
        cmocka_unit_test(lost_device),   cmocka_unit_test(large_bodies_elsewhere),
        cmocka_unit_test(any_page),      cmocka_unit_test(hosts),
        cmocka_unit_test(keys_again),    cmocka_unit_test(warns_of_open_doors),
        cmocka_unit_test(keys_apart),    cmocka_unit_test(records),
        cmocka_unit_test(no_space),
    };
    int failed = cmocka_run_group_tests_name("one server", one, open_usual, close_usual);
    failed += cmocka_run_group_tests_name("settings", own, NULL, NULL);
    const int n = (int)(FT_COUNT(one) + FT_COUNT(own));
    printf("%d passed, %d failed\n", n - failed, failed);
    return failed;
}
