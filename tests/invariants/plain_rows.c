/* tests/invariants/plain_rows.c - a long response takes no more memory than a short one, and a
 * second one in the same process has the same ids as the first. */
#define _DEFAULT_SOURCE
#include "foretoken.h"

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PROMPT = 500, TOKENS = 250, SETTLED = 100 };

typedef struct run {
    int32_t id[TOKENS];
    int n;
    long settled; /* resident pages after the first tokens */
} run;

/* Resident pages; a constant under a sanitizer, which does not return freed memory. */
static long resident(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return 0;
#endif
    long size = 0, pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%ld %ld", &size, &pages) != 2) pages = 0;
    if (f) fclose(f);
    return pages;
}

static bool note(void *user, const ft_event *e)
{
    run *r = user;
    if (e->id < 0) return true;
    if (r->n < TOKENS) r->id[r->n] = e->id;
    if (++r->n == SETTLED) r->settled = resident();
    return true;
}

static void long_response(ft_llm *m, run *r)
{
    static int32_t ids[PROMPT];
    for (int i = 0; i < PROMPT; i++) ids[i] = 300 + (i * 37) % 5000;
    ft_err err;
    ft_request q;
    ft_response out;
    ft_session *s = ft_session_new(m);
    assert_non_null(s);
    ft_request_defaults(&q, m);
    q.ids = ids;
    q.n_ids = PROMPT;
    q.max_tokens = TOKENS;
    q.ignore_eos = true;
    q.sampling.seed = 5;
    q.on_event = note;
    q.user = r;
    *r = (run){0};
    assert_int_equal(ft_session_generate(s, &q, &out, &err), FT_OK);
    assert_int_equal(out.output_tokens, TOKENS);
    ft_session_free(s);
}

static void memory_is_flat_and_runs_repeat(void **state)
{
    (void)state;
    static run one, two;
    ft_err err;
    ft_llm_params p;
    ft_llm *m = NULL;
    ft_llm_defaults(&p);
    p.model = "models/foretoken-tiny.gguf";
    p.ctx = 4096;
    p.draft_fixed = true; /* the same batch shapes in both runs */
    assert_int_equal(ft_llm_open(&m, &p, &err), FT_OK);
    long_response(m, &one);
    /* Cache pages become resident when they are first written: the keys and values of a response.
     */
    const long cache = 3 * TOKENS * 2 * 256 * 2 / sysconf(_SC_PAGESIZE) + 64;
    assert_true(resident() - one.settled <= cache);
    long_response(m, &two);
    assert_memory_equal(one.id, two.id, sizeof one.id);
    const long before = resident();
    long_response(m, &two);
    assert_memory_equal(one.id, two.id, sizeof one.id);
    assert_true(resident() - before <= 32);
    ft_llm_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_is_flat_and_runs_repeat)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
