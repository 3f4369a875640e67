/* cli/help.c - prints the option rows for people (--help, --help-all) and for scripts
 * (--help-list). */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/opts.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { TEXT_COLUMN = 30, TEXT_NARROW = 8, NAMES_INDENT = 2, NARROW = 80, WIDE = 100 };

static const char *const title[FT_GROUPS] = {
    [FT_GROUP_GENERAL] = "General",
    [FT_GROUP_MODEL] = "Model",
    [FT_GROUP_INPUT] = "Input",
    [FT_GROUP_PROMPT] = "Prompt",
    [FT_GROUP_CONTEXT] = "Context and cache",
    [FT_GROUP_DEVICE] = "GPU and CPU",
    [FT_GROUP_DRAFT] = "Speculative decoding",
    [FT_GROUP_NGRAM] = "N-gram drafting",
    [FT_GROUP_SAMPLING] = "Sampling",
    [FT_GROUP_RESPONSE] = "Response",
    [FT_GROUP_SERVER] = "Server",
    [FT_GROUP_MODELS] = "Models of the server",
    [FT_GROUP_SECURITY] = "Access and encryption",
    [FT_GROUP_MEASURE] = "Measurement",
    [FT_GROUP_OUTPUT] = "Output",
    [FT_GROUP_COMPAT] = "Accepted for compatibility with llama.cpp",
};

/* The terminal's width. Without a terminal COLUMNS, within 80 to 100 columns. */
static int width(void)
{
    struct winsize w;
    if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) && w.ws_col) return FT_MAX(40, w.ws_col);
    const char *columns = getenv("COLUMNS");
    int64_t n = WIDE;
    if (columns) ft_parse_i64(columns, 1, 1 << 20, &n);
    return (int)FT_MAX(NARROW, FT_MIN(n, WIDE));
}

/* ---- one row as text ---- */

/* "-c, --ctx-size N", or with `sep` " " and no value for scripts: "-c --ctx-size". */
static void put_names(ft_buf *b, const ft_param *p, const char *sep, bool value)
{
    for (const char *a = p->aliases; a && *a; a += strspn(a, " ")) {
        const size_t n = strcspn(a, " ");
        if (a[1] != '-') ft_buf_printf(b, "%.*s%s", (int)n, a, sep);
        a += n;
    }
    ft_buf_printf(b, "--%s", p->name);
    for (const char *a = p->aliases; a && *a; a += strspn(a, " ")) {
        const size_t n = strcspn(a, " ");
        if (a[1] == '-') ft_buf_printf(b, "%s%.*s", sep, (int)n, a);
        a += n;
    }
    for (const char *a = p->unset; a && *a; a += strspn(a, " ")) {
        const size_t n = strcspn(a, " ");
        ft_buf_printf(b, "%s%.*s", sep, (int)n, a);
        a += n;
    }
    if (value && p->value) ft_buf_printf(b, " %s", p->value);
}

/* Does the help say what this value means, as in "(0: disabled)"? Then it has no unit. */
static bool explained(const ft_param *p)
{
    char with[2][24];
    snprintf(with[0], sizeof with[0], "(%.20s:", p->def);
    snprintf(with[1], sizeof with[1], ", %.20s:", p->def);
    return strstr(p->help, with[0]) || strstr(p->help, with[1]);
}

static void put_unit(ft_buf *b, const ft_param *p)
{
    const size_t n = strlen(p->unit);
    const bool one = !strcmp(p->def, "1") && p->unit[n - 1] == 's'; /* 1 row, 2 rows */
    ft_buf_printf(b, " %.*s", (int)(n - one), p->unit);
}

static void put_default(ft_buf *b, const ft_param *p)
{
    if (p->def_note) {
        ft_buf_printf(b, "default: %s", p->def_note);
    } else if (p->kind == FT_PARAM_FLAG) {
        if (p->def && p->def[0] == '1')
            ft_buf_printf(b, "default: on, --no-%s turns it off", p->name);
    } else if (p->def) {
        ft_buf_printf(b, "default: %s%s", p->gguf ? "what the model file recommends, else " : "",
                      p->def);
        if (p->unit && !explained(p)) put_unit(b, p);
    }
}

static void put_env(ft_buf *b, const ft_param *p)
{
    const char *sep = b->len ? "; env: " : "env: ";
    for (const char *e = p->env; e && *e; e += strspn(e, " ")) {
        const size_t n = strcspn(e, " ");
        ft_buf_printf(b, "%s%.*s", sep, (int)n, e);
        sep = ", ";
        e += n;
    }
}

/* "what it does [default: 3 tokens; env: X]" */
static void put_text(ft_buf *b, const ft_param *p)
{
    const bool ignored = p->flags & FT_PARAM_IGNORED, refused = p->flags & FT_PARAM_REFUSED;
    ft_buf note;
    ft_buf_init(&note, 1 << 12);
    if (!ignored && !refused) {
        put_default(&note, p);
        if (p->kind == FT_PARAM_LIST)
            ft_buf_printf(&note, "%scan be repeated", note.len ? "; " : "");
    }
    put_env(&note, p);
    ft_buf_puts(b, p->help);
    if (ignored || refused)
        ft_buf_printf(b, "; %s: %s", ignored ? "no effect" : "not supported", p->why);
    if (note.len) ft_buf_printf(b, " [%s]", ft_buf_z(&note));
    ft_buf_release(&note);
}

/* ---- wrapped ---- */

/* Prints words from column `at` on, in lines that begin at `indent` and end before `right`. Returns
 * the column after the last word. */
static int wrap(const char *text, int at, int indent, int right)
{
    bool first = true;
    for (const char *p = text; *p; p += strspn(p, " ")) {
        const int n = (int)strcspn(p, " ");
        if (!first && at + 1 + n > right) {
            printf("\n%*s", indent, "");
            at = indent;
        } else if (!first) {
            putchar(' ');
            at++;
        }
        printf("%.*s", n, p);
        at += n;
        p += n;
        first = false;
    }
    return at;
}

static void print_row(const ft_param *p, int right)
{
    ft_buf names, text;
    ft_buf_init(&names, 1 << 12);
    ft_buf_init(&text, 1 << 12);
    put_names(&names, p, ", ", true);
    put_text(&text, p);
    printf("%*s", NAMES_INDENT, "");
    const int at = wrap(ft_buf_z(&names), NAMES_INDENT, NAMES_INDENT + 4, right);
    const int column = right < NARROW - 8 ? TEXT_NARROW : TEXT_COLUMN;
    if (at + 2 > column)
        printf("\n%*s", column, "");
    else
        printf("%*s", column - at, "");
    wrap(ft_buf_z(&text), column, column, right);
    putchar('\n');
    ft_buf_release(&names);
    ft_buf_release(&text);
}

static bool listed(const ft_param *p, unsigned cmd, int group, bool all)
{
    return (p->programs & cmd) && (int)p->group == group && (all || !(p->flags & FT_PARAM_LONG));
}

void ft_opts_help(unsigned cmd, bool all)
{
    const int right = width();
    const ft_param *p;
    bool more = false;
    for (int g = 0; g < FT_GROUPS; g++) {
        bool begun = false;
        for (int i = 0; (p = ft_opt_row(i)); i++) {
            more |= listed(p, cmd, g, true) && !listed(p, cmd, g, all) && g != FT_GROUP_GENERAL;
            if (!listed(p, cmd, g, all)) continue;
            if (!begun) printf("\n%s:\n", title[g]);
            if (!begun && g == FT_GROUP_SAMPLING && cmd == FT_CMD_BENCH)
                puts("  (decoding is greedy unless --temp is given)");
            begun = true;
            print_row(p, right);
        }
    }
    if (more) puts("\n--help-all also lists rarely used options.");
}

/* ---- for scripts ---- */

void ft_opts_list(unsigned cmd)
{
    const ft_param *p;
    for (int g = 0; g < FT_GROUPS; g++) {
        for (int i = 0; (p = ft_opt_row(i)); i++) {
            if (!listed(p, cmd, g, true)) continue;
            ft_buf b;
            ft_buf_init(&b, 1 << 12);
            put_names(&b, p, " ", false);
            if (p->kind == FT_PARAM_FLAG && p->def && p->def[0] == '1')
                ft_buf_printf(&b, " --no-%s", p->name);
            ft_buf_printf(&b, "\t%s\t%s\t", p->value ? p->value : "", title[g]);
            put_text(&b, p);
            puts(ft_buf_z(&b));
            ft_buf_release(&b);
        }
    }
}
