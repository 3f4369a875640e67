/* tests/unit/ngram.c - the n-gram drafters, which need no model, on constructed histories. */
#define _XOPEN_SOURCE 700
#include "unit.h"

#include "base/mem.h"
#include "engine/ngram.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LONG = 200 };

static int draft(ft_ngram_drafter *g, const int32_t *ids, int n, int max, int32_t *out)
{
    return g->draft(g->state, 0, ids, n, max, out);
}

/* `period` different ids, repeated. */
static void periodic(int32_t *ids, int n, int period)
{
    for (int i = 0; i < n; i++) ids[i] = 100 + i % period;
}

static void simple_copies_the_latest(void **state)
{
    (void)state;
    int32_t ids[LONG], out[16];
    ft_ngram_drafter g = ft_ngram_simple((ft_ngram){4, 6, 1});
    for (int i = 0; i < LONG; i++) ids[i] = 1000 + i;
    for (int i = 0; i < 4; i++) ids[20 + i] = ids[60 + i] = ids[96 + i] = 7 + i;
    assert_int_equal(draft(&g, ids, 100, 3, out), 3);
    assert_int_equal(out[0], 1064);
    assert_int_equal(out[2], 1066);
    assert_int_equal(draft(&g, ids, 100, 16, out), 6); /* the limit of this drafter */
    assert_int_equal(draft(&g, ids, 99, 16, out), 0);  /* the pattern is not complete yet */
    assert_int_equal(draft(&g, ids, 12, 16, out), 0);  /* too short a history */
    g.free(g.state);
    g = ft_ngram_simple((ft_ngram){4, 6, 3});
    assert_int_equal(draft(&g, ids, 100, 16, out), 0); /* seen twice, three times are required */
    g.free(g.state);
    /* fewer ids after the match than in the pattern */
    g = ft_ngram_simple((ft_ngram){4, 6, 1});
    for (int i = 0; i < 4; i++) ids[60 + i] = 0, ids[93 + i] = 7 + i, ids[97 + i] = 7 + i;
    ids[20] = 0;
    assert_int_equal(draft(&g, ids, 101, 16, out), 0);
    g.free(g.state);
}

static void map_learns_how_far(void **state)
{
    (void)state;
    int32_t ids[LONG], out[16];
    ft_ngram_drafter g = ft_ngram_map((ft_ngram){3, 8, 1}, 2, false);
    periodic(ids, LONG, 10);
    g.begin(g.state, 0, ids, 40);
    assert_int_equal(draft(&g, ids, 40, 16, out), 8);
    for (int i = 0; i < 8; i++) assert_int_equal(out[i], ids[40 + i]);
    g.accept(g.state, 0, 8, 2, true);
    assert_int_equal(draft(&g, ids, 40, 16, out), 2);
    g.accept(g.state, 0, 2, 0, true);
    assert_int_equal(draft(&g, ids, 40, 16, out), 0); /* disabled, but not permanently */
    assert_int_equal(draft(&g, ids, 40, 16, out), 1);
    g.accept(g.state, 0, 1, 1, true);
    assert_int_equal(draft(&g, ids, 40, 16, out), 2);
    g.accept(g.state, 0, 2, 1, false); /* a step of another drafter */
    assert_int_equal(draft(&g, ids, 40, 16, out), 3);
    g.free(g.state);
}

static void map_forgets_another_text(void **state)
{
    (void)state;
    int32_t ids[LONG], out[16];
    ft_ngram_drafter g = ft_ngram_map((ft_ngram){3, 8, 1}, 1, false);
    periodic(ids, LONG, 10);
    g.begin(g.state, 0, ids, 100);
    assert_true(draft(&g, ids, 100, 16, out) > 0);
    for (int i = 0; i < LONG; i++) ids[i] = i;
    g.begin(g.state, 0, ids, 60);
    assert_int_equal(draft(&g, ids, 60, 16, out), 0);
    ids[57] = 10, ids[58] = 11, ids[59] = 12;
    assert_int_equal(draft(&g, ids, 60, 16, out), 8);
    assert_int_equal(out[0], 13);
    g.free(g.state);
}

/* A key with two continuations: no draft until one of them is clearly more frequent. */
static void values_want_a_winner(void **state)
{
    (void)state;
    int32_t ids[LONG], out[16];
    ft_ngram_drafter g = ft_ngram_map((ft_ngram){3, 4, 1}, 1, true);
    int n = 0;
    ids[n++] = 0;
    for (int i = 0; i < 7; i++) { /* A B A B A A A: the last is complete, then the key */
        const int base = i == 1 || i == 3 ? 500 : 600;
        for (int j = 0; j < 3; j++) ids[n++] = 10 + j;
        for (int j = 0; j < 5; j++) ids[n++] = base + j;
    }
    const int all = n;
    for (int j = 0; j < 3; j++) ids[n++] = 10 + j;
    g.begin(g.state, 0, ids, 20);
    assert_int_equal(draft(&g, ids, n, 16, out), 4); /* 5 against 2 */
    assert_int_equal(out[0], 600);
    g.begin(g.state, 0, ids, 20);
    int32_t even[LONG];
    memcpy(even, ids, sizeof ids);
    for (int i = 0; i < 3; i++) even[1 + 8 * 4 + i] = 10 + i;
    for (int j = 0; j < 5; j++) even[1 + 8 * 4 + 3 + j] = 500 + j; /* now 4 against 3 */
    assert_int_equal(draft(&g, even, all + 3, 16, out), 0);
    g.free(g.state);
}

static void table_follows(void **state)
{
    (void)state;
    int32_t ids[LONG], out[16];
    ft_ngram_drafter g = ft_ngram_table((ft_ngram_mod){4, 3, 10}, 2);
    periodic(ids, LONG, 9);
    g.begin(g.state, 0, ids, 60);
    assert_int_equal(draft(&g, ids, 60, 16, out), 10);
    for (int i = 0; i < 10; i++) assert_int_equal(out[i], ids[60 + i]);
    assert_int_equal(g.draft(g.state, 1, ids, 20, 5, out), 5); /* slots share the table */
    for (int i = 0; i < LONG; i++) ids[i] = i;
    g.begin(g.state, 1, ids, 30);
    assert_int_equal(g.draft(g.state, 1, ids, 28, 16, out), 0); /* two follow, three are required */
    assert_int_equal(g.draft(g.state, 1, ids, 27, 16, out), 3);
    for (int i = 0; i < 5; i++) g.accept(g.state, 1, 10, 2, true);
    assert_int_equal(g.draft(g.state, 1, ids, 27, 16, out), 0); /* cleared */
    g.free(g.state);
}

static void cache_counts(void **state)
{
    (void)state;
    char path[64];
    int32_t ids[LONG], out[16];
    ft_err err;
    ft_ngram_drafter g;
    snprintf(path, sizeof path, "/tmp/foretoken-ngram-%d", (int)getpid());
    assert_int_equal(ft_ngram_cache(&g, NULL, path, 2, &err), FT_OK);
    periodic(ids, LONG, 6);
    g.begin(g.state, 0, ids, 30);
    assert_int_equal(draft(&g, ids, 30, 16, out), 8); /* the limit of this drafter */
    for (int i = 0; i < 8; i++) assert_int_equal(out[i], ids[30 + i]);
    for (int i = 0; i < LONG; i++) ids[i] = i;
    g.begin(g.state, 0, ids, 20); /* the context is new */
    assert_int_equal(draft(&g, ids, 20, 16, out), 0);
    g.free(g.state);

    assert_int_equal(ft_ngram_cache(&g, NULL, path, 1, &err), FT_OK); /* earlier responses */
    periodic(ids, LONG, 6);
    g.begin(g.state, 0, ids, 4);
    assert_int_equal(draft(&g, ids, 4, 5, out), 5);
    assert_int_equal(out[0], ids[4]);
    g.free(g.state);

    assert_int_equal(truncate(path, 30), 0);
    assert_int_equal(ft_ngram_cache(&g, path, NULL, 1, &err), FT_EFORMAT);
    assert_non_null(strstr(err.text, "record"));
    unlink(path);
    assert_int_equal(ft_ngram_cache(&g, path, NULL, 1, &err), FT_EIO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(simple_copies_the_latest),
        cmocka_unit_test(map_learns_how_far),
        cmocka_unit_test(map_forgets_another_text),
        cmocka_unit_test(values_want_a_winner),
        cmocka_unit_test(table_follows),
        cmocka_unit_test(cache_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
