/* The default batch of models with experts is doubled only where memory is plentiful. */
#include "api/model.h"
#include "unit.h"

static void larger_batch(void **state)
{
    (void)state;
    const uint64_t gib = (uint64_t)1 << 30;
    assert_true(ft_batch_widens(2 * gib, 3 * gib, 100 * gib));
    assert_true(ft_batch_widens(5 * gib, 6 * gib, 8 * gib));
    assert_false(ft_batch_widens(5 * gib, 6 * gib + 1, 8 * gib)); /* more than an eighth */
    assert_false(ft_batch_widens(6 * gib, 7 * gib, 8 * gib));     /* less than a quarter is left */
    assert_false(ft_batch_widens(2 * gib, 3 * gib, 2 * gib));
    assert_false(ft_batch_widens(1, 2, 0)); /* free memory is not known */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(larger_batch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
