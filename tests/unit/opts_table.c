/* tests/unit/opts_table.c - the table of options: names and spellings are unique within a program.
 */
#include "cli/opts_table.c"
#include "unit.h"

#include <string.h>

static void names_are_unique(void **state)
{
    (void)state;
    for (const ft_opt *a = ft_opt_table; a->name; a++)
        for (const ft_opt *b = a + 1; b->name; b++)
            if ((a->cmds & b->cmds) && !strcmp(a->name, b->name))
                fail_msg("two rows of one program are named %s", a->name);
}

/* true when row o has the spelling of n bytes at word. */
static bool has_spelling(const ft_opt *o, const char *word, size_t n)
{
    if (n > 2 && !memcmp(word, "--", 2) && strlen(o->name) == n - 2 &&
        !memcmp(o->name, word + 2, n - 2))
        return true;
    for (const char *p = o->aliases; p && *p; p += strspn(p, " ")) {
        const size_t len = strcspn(p, " ");
        if (len == n && !memcmp(p, word, n)) return true;
        p += len;
    }
    return false;
}

static void spellings_are_unique(void **state)
{
    (void)state;
    for (const ft_opt *a = ft_opt_table; a->name; a++) {
        for (const ft_opt *b = ft_opt_table; b->name; b++) {
            if (a == b || !(a->cmds & b->cmds)) continue;
            for (const char *p = a->aliases; p && *p; p += strspn(p, " ")) {
                const size_t n = strcspn(p, " ");
                if (has_spelling(b, p, n))
                    fail_msg("%.*s means %s and %s", (int)n, p, a->name, b->name);
                p += n;
            }
        }
    }
}

static void rows_are_whole(void **state)
{
    (void)state;
    for (const ft_opt *o = ft_opt_table; o->name; o++) {
        assert_non_null(o->help);
        assert_true(o->cmds != 0);
        assert_true(o->kind == FT_OPT_FLAG || o->what);
        assert_true((o->kind != FT_OPT_INT && o->kind != FT_OPT_FLOAT) || o->lo < o->hi);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_unique),
        cmocka_unit_test(spellings_are_unique),
        cmocka_unit_test(rows_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
