#define _GNU_SOURCE
/* tests/serve/pull.c - `foretoken pull` against a small model host that also breaks off transfers,
 * sends wrong data and rejects requests. */
#include "base/buf.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "folder.h"
#include "unit.h"

#include <microhttpd.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAYBE __attribute__((unused)) /* unused in a build without libcurl */

enum { FILE_BYTES = 300000 };

static unsigned char content[FILE_BYTES];
static char sum[65], folder[64];
static atomic_int towers;        /* number of requests for the vision tower */
static atomic_int asked, ranged; /* number of requests for the file, and of range requests */
static atomic_int break_after;   /* bytes of a response before it breaks off; 0: all */
static atomic_bool no_ranges;

typedef struct answer {
    size_t from, stop;
} answer;

static ssize_t send_body(void *user, uint64_t pos, char *out, size_t max)
{
    const answer *a = user;
    const size_t at = a->from + (size_t)pos;
    if (a->stop && at >= a->stop) return MHD_CONTENT_READER_END_WITH_ERROR;
    if (at >= FILE_BYTES) return MHD_CONTENT_READER_END_OF_STREAM;
    const size_t end = a->stop ? a->stop : FILE_BYTES, n = FT_MIN(max, end - at);
    memcpy(out, content + at, n);
    return (ssize_t)n;
}

static enum MHD_Result send_text(struct MHD_Connection *c, unsigned status, const char *s)
{
    struct MHD_Response *r =
        MHD_create_response_from_buffer(strlen(s), (void *)(uintptr_t)s, MHD_RESPMEM_MUST_COPY);
    const enum MHD_Result ok = MHD_queue_response(c, status, r);
    MHD_destroy_response(r);
    return ok;
}

static enum MHD_Result send_listing(struct MHD_Connection *c, const char *name, const char *sha)
{
    char s[2000];
    snprintf(s, sizeof s,
             "[{\"type\":\"file\",\"path\":\"README.md\",\"size\":5},"
             "{\"type\":\"file\",\"path\":\"../../escape-Q8_0.gguf\",\"size\":9},"
             "{\"type\":\"file\",\"path\":\"mmproj-F32.gguf\",\"size\":900},"
             "{\"type\":\"file\",\"path\":\"mmproj-Q8_0.gguf\",\"size\":9},"
             "{\"type\":\"file\",\"path\":\"%s-Q4_K_S.gguf\",\"size\":9},"
             "{\"type\":\"file\",\"path\":\"%s-Q8_0.gguf\",\"size\":1,"
             "\"lfs\":{\"oid\":\"%s\",\"size\":%d}}]",
             name, name, sha, FILE_BYTES);
    return send_text(c, 200, s);
}

static enum MHD_Result send_file(struct MHD_Connection *c)
{
    const char *range = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Range");
    answer *a = ft_new(answer);
    asked++;
    if (range && !no_ranges) {
        a->from = strtoul(range + 6, NULL, 10);
        ranged++;
    }
    if (break_after) a->stop = FT_MIN(a->from + (size_t)break_after, (size_t)FILE_BYTES);
    struct MHD_Response *r =
        MHD_create_response_from_callback(FILE_BYTES - a->from, 4096, send_body, a, ft_free);
    if (a->from) {
        char s[100];
        snprintf(s, sizeof s, "bytes %zu-%d/%d", a->from, FILE_BYTES - 1, FILE_BYTES);
        MHD_add_response_header(r, "Content-Range", s);
    }
    const enum MHD_Result ok = MHD_queue_response(c, a->from ? 206 : 200, r);
    MHD_destroy_response(r);
    return ok;
}

static enum MHD_Result serve(void *cls, struct MHD_Connection *c, const char *url,
                             const char *method, const char *version, const char *data, size_t *n,
                             void **state)
{
    static const char *const wrong =
        "0000000000000000000000000000000000000000000000000000000000000000";
    (void)cls, (void)method, (void)version, (void)data, (void)n;
    if (!*state) {
        *state = (void *)(uintptr_t)1;
        return MHD_YES;
    }
    if (!strcmp(url, "/api/models/me/good/tree/main")) return send_listing(c, "good", sum);
    if (!strcmp(url, "/api/models/me/lies/tree/main")) return send_listing(c, "lies", wrong);
    if (!strcmp(url, "/api/models/me/secret/tree/main")) {
        const char *key = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Authorization");
        if (!key || strcmp(key, "Bearer key-1")) return send_text(c, 401, "no");
        return send_listing(c, "good", sum);
    }
    if (!strcmp(url, "/me/secret/resolve/main/good-Q8_0.gguf")) return send_file(c);
    if (!strcmp(url, "/files/plain.gguf")) return send_file(c);
    if (!strcmp(url, "/api/models/me/noise/tree/main")) return send_text(c, 200, "<html>");
    if (!strcmp(url, "/me/good/resolve/main/good-Q8_0.gguf")) return send_file(c);
    if (!strcmp(url, "/me/lies/resolve/main/lies-Q8_0.gguf")) return send_file(c);
    if (strstr(url, "/resolve/main/mmproj-Q8_0.gguf")) {
        towers++;
        return send_text(c, 200, "123456789");
    }
    return send_text(c, 404, "not here");
}

/* Runs a program and returns its exit code; out receives its output. */
static int run(const char *program, const char *words, char out[2000])
{
    char cmd[600];
    const char *build = getenv("BUILD");
    snprintf(cmd, sizeof cmd, "%s/foretoken %s -q %s 2>&1 </dev/null", build ? build : "build",
             program, words);
    FILE *f = popen(cmd, "r");
    assert_non_null(f);
    out[fread(out, 1, 1999, f)] = 0;
    return WEXITSTATUS(pclose(f));
}

static int pull(const char *words, char out[2000])
{
    return run("pull", words, out);
}

static bool is_content(const char *path)
{
    unsigned char *got = ft_alloc(FILE_BYTES + 1);
    char name[200];
    snprintf(name, sizeof name, "%s", path);
    name[strcspn(name, "\n")] = 0;
    FILE *f = fopen(name, "rb");
    assert_non_null(f);
    const bool same =
        fread(got, 1, FILE_BYTES + 1, f) == FILE_BYTES && !memcmp(got, content, FILE_BYTES);
    fclose(f);
    ft_free(got);
    return same;
}

MAYBE static int fresh(void **state)
{
    char cmd[100];
    (void)state;
    snprintf(cmd, sizeof cmd, "rm -rf %s/*", folder);
    asked = ranged = towers = break_after = 0;
    no_ranges = false;
    return system(cmd);
}

MAYBE static void fetches_once(void **state)
{
    char out[2000];
    (void)state;
    assert_int_equal(pull("me/good:q8_0", out), 0);
    assert_true(is_content(out));
    assert_int_equal(pull("me/good", out), 0); /* Q8_0 is preferred to Q4_K_S */
    assert_int_equal(asked, 1);
    assert_int_equal(towers, 1);
    assert_int_equal(pull("--offline me/good:Q8_0", out), 0);
    assert_true(is_content(out));
    assert_int_equal(pull("--list", out), 0);
    assert_non_null(strstr(out, "good-Q8_0.gguf"));
    assert_non_null(strstr(out, "mmproj-Q8_0.gguf"));
    assert_non_null(strstr(out, "2 files"));
}

MAYBE static void leaves_the_tower(void **state)
{
    char out[2000];
    (void)state;
    assert_int_equal(pull("--no-mmproj me/good:q8_0", out), 0);
    assert_true(is_content(out));
    assert_int_equal(towers, 0);
}

/* --hf-token, HF_TOKEN; the option counts. */
MAYBE static void sends_the_token(void **state)
{
    char out[2000];
    (void)state;
    assert_int_equal(pull("--hf-token key-1 me/secret:Q8_0", out), 0);
    assert_true(is_content(out));
    fresh(NULL);
    setenv("HF_TOKEN", "key-1", 1);
    assert_int_equal(pull("me/secret:Q8_0", out), 0);
    assert_int_equal(pull("-hft key-2 me/secret:Q8_0", out), 1);
    unsetenv("HF_TOKEN");
}

/* --model-url: the file is downloaded, once, and then opened (it is no model). */
MAYBE static void fetches_addresses(void **state)
{
    char out[2000], words[300], path[300];
    (void)state;
    snprintf(words, sizeof words, "-mu %s/files/plain.gguf hi", getenv("HF_ENDPOINT"));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run("run", words, out), 1);
        assert_non_null(strstr(out, "not a GGUF file"));
    }
    assert_int_equal(asked, 2); /* its length, and the file */
    snprintf(path, sizeof path, "%s/127.0.0.1--url/plain.gguf", folder);
    assert_true(is_content(path));
    assert_int_equal(run("run", "-mu ftp://x/y.gguf hi", out), 1);
    assert_non_null(strstr(out, "want http(s)://HOST/PATH/FILE.gguf"));
}

MAYBE static void goes_on_where_it_broke(void **state)
{
    char out[2000];
    (void)state;
    break_after = 110000;
    assert_int_equal(pull("me/good:Q8_0", out), 0);
    assert_true(is_content(out));
    assert_int_equal(asked, 3);
    assert_int_equal(ranged, 2);
}

MAYBE static void starts_over_without_ranges(void **state)
{
    char out[2000], path[300];
    (void)state;
    snprintf(path, sizeof path, "mkdir -p %s/me--good && head -c 1000 /dev/zero > %s/me--good/%s",
             folder, folder, "good-Q8_0.gguf.part");
    assert_int_equal(system(path), 0);
    no_ranges = true;
    assert_int_equal(pull("me/good:Q8_0", out), 0);
    assert_true(is_content(out));
}

MAYBE static void refuses(void **state)
{
    static const struct {
        const char *words, *says;
    } error[] = {
        {"me/lies:Q8_0", "its SHA-256 is"},
        {"me/secret", "set HF_TOKEN"},
        {"me/absent", "status 404"},
        {"me/noise", "not a JSON array"},
        {"me/good:Q2_K", "no file for Q2_K; available: good-Q4_K_S.gguf, good-Q8_0.gguf"},
        {"good", "want USER/NAME"},
        {"../x/y", "want USER/NAME"},
        {"me/good:../x", "want one like"},
        {"--hf-file ../../etc/passwd me/good", "want the path of a file"},
        {"--hf-file absent.gguf me/good", "no such file"},
        {"--offline me/other", "no local copy"},
        {"", "want one"},
    };
    (void)state;
    for (size_t i = 0; i < FT_COUNT(error); i++) {
        char out[2000];
        assert_int_equal(pull(error[i].words, out), 1);
        if (!strstr(out, error[i].says)) fail_msg("%s: the error is %s", error[i].words, out);
        assert_ptr_equal(strchr(out, '\n'), out + strlen(out) - 1); /* one line */
    }
    char path[200];
    snprintf(path, sizeof path, "%s/me--lies/lies-Q8_0.gguf", folder);
    assert_int_equal(access(path, F_OK), -1);
}

static void sums(void **state)
{
    char out[65];
    ft_sha256 s;
    (void)state;
    ft_sha256_init(&s);
    ft_sha256_add(&s, "abc", 3);
    ft_sha256_hex(&s, out);
    assert_string_equal(out, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    ft_sha256_init(&s);
    for (int i = 0; i < 1000; i++) ft_sha256_add(&s, "aaaaaaaaaa", 10);
    ft_sha256_hex(&s, out);
    assert_string_equal(out, "27dd1f61b867b6a0f6e9d8a41c43231de52107e53ae424de8f847b821db4b711");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums),
#ifdef FT_HAVE_CURL
        cmocka_unit_test_setup(fetches_once, fresh),
        cmocka_unit_test_setup(leaves_the_tower, fresh),
        cmocka_unit_test_setup(sends_the_token, fresh),
        cmocka_unit_test_setup(fetches_addresses, fresh),
        cmocka_unit_test_setup(goes_on_where_it_broke, fresh),
        cmocka_unit_test_setup(starts_over_without_ranges, fresh),
        cmocka_unit_test_setup(refuses, fresh),
#endif
    };
    char address[64];
    ft_sha256 s;
    for (int i = 0; i < FILE_BYTES; i++) content[i] = (unsigned char)(i * 7 + i / 251);
    ft_sha256_init(&s);
    ft_sha256_add(&s, content, FILE_BYTES);
    ft_sha256_hex(&s, sum);
    folder_new(folder);
    struct MHD_Daemon *d = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL, serve,
                                            NULL, MHD_OPTION_END);
    if (!d) return 1;
    snprintf(address, sizeof address, "http://127.0.0.1:%d",
             (int)MHD_get_daemon_info(d, MHD_DAEMON_INFO_BIND_PORT)->port);
    setenv("HF_ENDPOINT", address, 1);
    setenv("FT_MODELS", folder, 1);
    setenv("no_proxy", "127.0.0.1", 1);
    unsetenv("HF_TOKEN");
    const int rc = cmocka_run_group_tests(tests, NULL, NULL);
    MHD_stop_daemon(d);
    folder_free(folder);
    return rc;
}
