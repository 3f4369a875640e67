/* How many prompt rows a step may have beside response rows (engine/prefill_budget.c). */
#include "engine/slot.h"
#include "unit.h"

#include <limits.h>

enum { SLOTS = 8 };

static ft_slot slots[SLOTS];

/* An engine in which n prompts wait and steps may take 100 ms. */
static ft_engine engine_with(int n)
{
    ft_engine e = {.p.slots = SLOTS, .slot = slots};
    memset(slots, 0, sizeof slots);
    for (int i = 0; i < n; i++) slots[i].state = SLOT_PREFILL;
    ft_engine_limit_step(&e, 100);
    return e;
}

/* A step that took so many milliseconds. */
static void step(ft_engine *e, int response_rows, int prompt_rows, double ms)
{
    e->prefill.rows = prompt_rows;
    ft_prefill_record(e, response_rows, ms * 1e-3);
}

static void no_limit(void **state)
{
    (void)state;
    ft_engine e = engine_with(1);
    assert_int_equal(ft_prefill_rows(&e, 0), INT_MAX); /* no response is delayed */
    step(&e, 4, 64, 20);
    ft_engine_limit_step(&e, 0);
    assert_int_equal(ft_prefill_rows(&e, 4), INT_MAX);
}

/* 0.1 ms per row. */
static void rows_follow_measured_times(void **state)
{
    (void)state;
    ft_engine e = engine_with(1);
    assert_int_equal(ft_prefill_rows(&e, 100), FT_CHUNK_ROWS); /* nothing is measured */
    step(&e, 100, 0, 10);
    step(&e, 100, 100, 20);
    assert_in_range(ft_prefill_rows(&e, 100), 148, 152); /* 2.5 times 10 ms */
    e = engine_with(1);
    step(&e, 10, 0, 1);
    step(&e, 10, 64, 7.4);
    assert_int_equal(ft_prefill_rows(&e, 10), FT_CHUNK_ROWS); /* 2.5 ms: less than a chunk */
}

static void prompts_that_wait_lengthen_a_step(void **state)
{
    (void)state;
    for (int n = 1; n <= SLOTS; n++) {
        ft_engine e = engine_with(n);
        step(&e, 100, 0, 10);
        step(&e, 100, 100, 20);
        const int rows = n < 6 ? 150 * n : 900; /* the limit is 100 ms */
        assert_in_range(ft_prefill_rows(&e, 100), rows - 2, rows + 2);
        slots[0].swapped = (ft_swapped *)slots; /* it cannot be read now */
        if (n > 1 && n < 6) assert_in_range(ft_prefill_rows(&e, 100), rows - 152, rows - 148);
    }
}

/* Steps without prompts were measured with one response; now there are a hundred, and each step has
 * prompts. */
static void responses_since_the_last_plain_step(void **state)
{
    (void)state;
    ft_engine e = engine_with(1);
    step(&e, 1, 0, 0.1);
    for (int i = 0; i < 4; i++) step(&e, 100, 64, 16.4);
    assert_in_range(ft_prefill_rows(&e, 100), 148, 152);
}

static void images_take_their_time_from_prompts(void **state)
{
    (void)state;
    ft_engine e = engine_with(1);
    assert_true(ft_prefill_image_time(&e, 0) > 1e9);
    step(&e, 100, 0, 10);
    step(&e, 100, 100, 20);
    const double s = ft_prefill_image_time(&e, 1);
    assert_true(s > 0.0149 && s < 0.0151);
    e.prefill.images_s = 0.005;
    assert_in_range(ft_prefill_rows(&e, 100), 98, 102);
    e.prefill.images_s = 0.015;
    assert_int_equal(ft_prefill_rows(&e, 100), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_limit),
        cmocka_unit_test(rows_follow_measured_times),
        cmocka_unit_test(prompts_that_wait_lengthen_a_step),
        cmocka_unit_test(responses_since_the_last_plain_step),
        cmocka_unit_test(images_take_their_time_from_prompts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
