/* The library prints nothing: loading, messages and the draft trace go to the caller's functions.
 */
#define _GNU_SOURCE
#include "base/progress.h"
#include "base/log.h"
#include "base/pool.h"
#include "foretoken.h"
#include "tools/synth.h"

#include "folder.h"
#include "unit.h"

#include <fcntl.h>
#include <unistd.h>

static char dir[64], model[80];

static int fresh(void **state)
{
    (void)state;
    folder_new(dir);
    snprintf(model, sizeof model, "%s/model.gguf", dir);
    return 0;
}

static int done(void **state)
{
    (void)state;
    return folder_free(dir);
}

typedef struct seen {
    uint64_t last, total;
    int calls, ends;
    bool back; /* done went back, or a call came after the end */
} seen;

static void see(void *user, const char *what, uint64_t at, uint64_t total)
{
    seen *s = user;
    if (s->ends || at < s->last) s->back = true;
    if (!what)
        s->ends++;
    else
        s->calls++;
    s->last = at;
    s->total = total;
}

static void add_three(void *user, size_t i)
{
    (void)i;
    ft_progress_add(user, 3);
}

static void counts_from_many_threads(void **state)
{
    (void)state;
    seen s = {0};
    ft_progress *p = ft_progress_new("test", 2500, see, &s);
    ft_pool *pool = ft_pool_new(4, 0);
    ft_pool_each(pool, 1000, add_three, p);
    ft_pool_free(pool);
    assert_int_equal(s.ends, 0);
    ft_progress_free(p);
    assert_int_equal(s.calls, 1000);
    assert_int_equal(s.ends, 1);
    assert_int_equal(s.last, 2500); /* more than the total counts as the total */
    assert_false(s.back);
    assert_null(ft_progress_new("test", 1, NULL, NULL));
    ft_progress_add(NULL, 1);
    ft_progress_free(NULL);
}

static void keep_line(void *user, int level, const char *line)
{
    snprintf(user, 200, "%d %s", level, line);
}

static void messages_go_to_the_caller(void **state)
{
    (void)state;
    char text[200] = "";
    ft_log_set(keep_line, text);
    ft_log(FT_LOG_WARN, "%d things", 3);
    assert_string_equal(text, "1 3 things");
    ft_log_set(NULL, NULL);
    ft_log(FT_LOG_WARN, "nobody reads this");
    assert_string_equal(text, "1 3 things");
}

static void count_line(void *user, const char *line)
{
    assert_int_equal(line[0], '{');
    ++*(int *)user;
}

/* Opens the model, generates a few tokens with drafts, opens what is no model; standard output and
 * standard error are a file meanwhile. */
static void use_the_library(seen *s, seen *failed, int *lines)
{
    ft_llm_params p;
    ft_llm_defaults(&p);
    p.model = model;
    p.ctx = 256;
    p.progress = see;
    p.progress_user = s;
    p.draft_max = 3;
    p.draft_fixed = true;
    p.trace = count_line;
    p.trace_user = lines;
    ft_llm *m = NULL;
    ft_err err;
    assert_int_equal(ft_llm_open(&m, &p, &err), FT_OK);
    ft_session *session = ft_session_new(m);
    ft_request r;
    ft_request_defaults(&r, m);
    const int32_t ids[] = {1, 2, 3};
    r.ids = ids;
    r.n_ids = 3;
    r.max_tokens = 8;
    r.ignore_eos = true;
    ft_response response;
    assert_int_equal(ft_session_generate(session, &r, &response, &err), FT_OK);
    ft_session_free(session);
    ft_llm_close(m);

    assert_int_equal(truncate(model, 200000), 0);
    p.progress_user = failed;
    assert_int_not_equal(ft_llm_open(&m, &p, &err), FT_OK);
}

static void the_library_prints_nothing(void **state)
{
    (void)state;
    ft_err err;
    ft_synth_result made;
    const ft_synth_opts o = {.shape = "micro", .type = "q8_0", .path = model, .mtp = true};
    assert_int_equal(ft_synth(&made, &o, &err), FT_OK);
    char printed[96];
    snprintf(printed, sizeof printed, "%s/printed", dir);
    fflush(stdout);
    const int out = dup(1), errors = dup(2), file = open(printed, O_RDWR | O_CREAT, 0600);
    assert_true(out >= 0 && errors >= 0 && file >= 0);
    dup2(file, 1);
    dup2(file, 2);
    seen s = {0}, failed = {0};
    int lines = 0;
    use_the_library(&s, &failed, &lines);
    fflush(stdout);
    dup2(out, 1);
    dup2(errors, 2);
    assert_int_equal(lseek(file, 0, SEEK_END), 0);
    close(out), close(errors), close(file);
    assert_true(s.calls > 0 && s.last > 0);
    assert_int_equal(s.ends, 1);
    assert_false(s.back);
    assert_true(failed.ends <= 1);
    assert_false(failed.back);
    assert_true(lines > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_from_many_threads),
        cmocka_unit_test(messages_go_to_the_caller),
        cmocka_unit_test_setup_teardown(the_library_prints_nothing, fresh, done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
