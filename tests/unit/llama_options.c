/* docs/llama-cpp.md lists every option of llama.cpp's programs and what becomes of it. The table is
 * compared with the option rows in both directions: every spelling of the table is known to run,
 * chat, serve and bench, and is honoured, warns or is refused as the table says; and every spelling
 * that is in the rows for llama.cpp's sake alone is in the table. */
#include "base/file.h"
#include "cli/opts.c"
#include "cli/opts_compat.c"
#include "cli/opts_draft.c"
#include "cli/opts_model.c"
#include "cli/opts_programs.c"
#include "cli/opts_serve.c"
#include "cli/opts_table.c"
#include "unit.h"

enum { SERVER_SPELLINGS = 407 }; /* of llama.cpp's server */

static char *page;

static int load_page(void **state)
{
    (void)state;
    ft_err err;
    size_t n;
    return ft_file_read(&page, &n, "docs/llama-cpp.md", (size_t)1 << 20, &err) ? -1 : 0;
}

static int free_page(void **state)
{
    (void)state;
    ft_free(page);
    return 0;
}

static const char *fate_of(const ft_param *p)
{
    return p->flags & FT_PARAM_REFUSED   ? "refused"
           : p->flags & FT_PARAM_IGNORED ? "warns"
                                         : "honoured";
}

/* One spelling of a row of the table. */
static void check_spelling(unsigned cmd, const char *name, const char *fate)
{
    static const struct {
        unsigned bit;
        const char *name;
    } program[] = {{FT_CMD_RUN, "run"},
                   {FT_CMD_CHAT, "chat"},
                   {FT_CMD_SERVE, "serve"},
                   {FT_CMD_BENCH, "bench"}};
    bool negated, other;
    for (size_t i = 0; i < FT_COUNT(program); i++)
        if (find_row(program[i].bit, name, &negated, &other) < 0)
            fail_msg("foretoken %s does not know %s", program[i].name, name);
    const ft_param *p = ft_opt_row(find_row(cmd, name, &negated, &other));
    const char *found =
        other && !(p->flags & (FT_PARAM_IGNORED | FT_PARAM_REFUSED)) ? "warns" : fate_of(p);
    if (strcmp(found, fate)) fail_msg("%s: the page says %s, the rows %s", name, fate, found);
}

/* The spellings of the table after a heading, each with what becomes of it. */
static int check_table(const char *heading, unsigned cmd)
{
    const char *at = strstr(page, heading);
    if (!at) fail_msg("no heading %s", heading);
    const char *end = strstr(at + 3, "\n## ");
    int n = 0;
    for (; at && (!end || at < end); at = strchr(at + 1, '\n')) {
        if (strncmp(at, "\n| `", 4)) continue;
        const char *bar = strstr(at + 3, " | ");
        char fate[16] = "";
        assert_non_null(bar);
        assert_int_equal(sscanf(bar, " | %15[a-z] |", fate), 1);
        for (const char *p = at; (p = strchr(p, '`')) && p < bar; n++) {
            char name[64];
            const size_t len = strcspn(p + 1, "` ");
            assert_true(len < sizeof name);
            snprintf(name, sizeof name, "%.*s", (int)len, p + 1);
            check_spelling(cmd, name, fate);
            p = strchr(p + 1, '`') + 1;
        }
    }
    return n;
}

static void options_of_the_server(void **state)
{
    (void)state;
    assert_int_equal(check_table("\n## Options of llama-server", FT_CMD_SERVE), SERVER_SPELLINGS);
}

static void options_of_the_terminal(void **state)
{
    (void)state;
    assert_true(check_table("\n## Options of llama-cli", FT_CMD_RUN) > 20);
}

static void in_the_table(const char *name, size_t n)
{
    char quoted[80];
    snprintf(quoted, sizeof quoted, "`%.*s", (int)n, name);
    const char *at = page;
    while ((at = strstr(at, quoted)) && !strchr("` ", at[strlen(quoted)])) at++;
    if (!at) fail_msg("docs/llama-cpp.md does not list %.*s", (int)n, name);
}

static void every_row_is_listed(void **state)
{
    (void)state;
    for (int i = 0; i < ft_n_opts_compat; i++) {
        const ft_param *p = &ft_opts_compat[i];
        char name[64];
        snprintf(name, sizeof name, "--%s", p->name);
        in_the_table(name, strlen(name));
        for (const char *a = p->aliases; a && *a; a += strspn(a, " ")) {
            in_the_table(a, strcspn(a, " "));
            a += strcspn(a, " ");
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_of_the_server),
        cmocka_unit_test(options_of_the_terminal),
        cmocka_unit_test(every_row_is_listed),
    };
    return cmocka_run_group_tests(tests, load_page, free_page);
}
