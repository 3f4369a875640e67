#include "cli/opts.h"

#include "base/mem.h"
#include "base/str.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct value {
    const char **text; /* every value given; the last one counts, except for lists */
    int n;
    bool from_user;
} value;

struct ft_opts {
    unsigned cmd;
    value *v; /* one per row of the table */
    const char **word;
    int n_word;
};

static int table_len(void)
{
    int n = 0;
    while (ft_opt_table[n].name) n++;
    return n;
}

/* Two programs may have rows of one name, each with its own default and help. */
static int row_of(const ft_opts *o, const char *name)
{
    for (int i = 0; ft_opt_table[i].name; i++)
        if ((ft_opt_table[i].cmds & o->cmd) && !strcmp(ft_opt_table[i].name, name)) return i;
    assert(!"an option that the table does not have");
    return 0;
}

/* Is `word` one of the space-separated words of `list`? */
static bool in_list(const char *list, const char *word, char sep)
{
    const size_t n = strlen(word);
    for (const char *p = list; p && *p;) {
        const char *end = strchr(p, sep);
        const size_t len = end ? (size_t)(end - p) : strlen(p);
        if (len == n && !memcmp(p, word, n)) return true;
        p = end ? end + 1 : NULL;
    }
    return false;
}

/* The row that a typed option names for this program, or -1. *negated: it was --no-NAME. */
static int find_row(unsigned cmd, const char *typed, bool *negated)
{
    *negated = false;
    for (int i = 0; ft_opt_table[i].name; i++) {
        const ft_opt *o = &ft_opt_table[i];
        if (!(o->cmds & cmd)) continue;
        if (!strncmp(typed, "--", 2) && !strcmp(typed + 2, o->name)) return i;
        if (o->aliases && in_list(o->aliases, typed, ' ')) return i;
        if (o->kind == FT_OPT_FLAG && !strncmp(typed, "--no-", 5) && !strcmp(typed + 5, o->name)) {
            *negated = true;
            return i;
        }
    }
    return -1;
}

static void add(value *v, const char *text)
{
    v->text = ft_realloc(v->text, sizeof *v->text * (size_t)(v->n + 1));
    v->text[v->n++] = text;
}

static ft_status check(const ft_opt *o, const char *shown, const char *text, ft_err *err)
{
    int64_t i;
    double f;
    switch (o->kind) {
    case FT_OPT_INT:
        if (!ft_parse_i64(text, (int64_t)o->lo, (int64_t)o->hi, &i))
            return ft_fail(err, FT_EINVAL, "%s: \"%s\", want a whole number from %.0f to %.0f",
                           shown, text, o->lo, o->hi);
        break;
    case FT_OPT_FLOAT:
        if (!ft_parse_f64(text, o->lo, o->hi, &f))
            return ft_fail(err, FT_EINVAL, "%s: \"%s\", want a number from %g to %g", shown, text,
                           o->lo, o->hi);
        break;
    case FT_OPT_CHOICE:
        if (!in_list(o->what, text, '|'))
            return ft_fail(err, FT_EINVAL, "%s: \"%s\", want one of %s", shown, text, o->what);
        break;
    default: break;
    }
    return FT_OK;
}

/* The first variable of the option that is set; its name goes to `name`. */
static const char *env_value(const ft_opt *t, char name[64])
{
    for (const char *p = t->env; p && *p; p += strspn(p, " ")) {
        const size_t n = strcspn(p, " ");
        assert(n < 64);
        memcpy(name, p, n);
        name[n] = 0;
        const char *v = getenv(name);
        if (v && *v) return v;
        p += n;
    }
    return NULL;
}

static ft_status read_env(ft_opts *o, unsigned cmd, ft_err *err)
{
    for (int i = 0; ft_opt_table[i].name; i++) {
        const ft_opt *t = &ft_opt_table[i];
        char name[64];
        const char *v = t->cmds & cmd ? env_value(t, name) : NULL;
        if (!v) continue;
        if (t->kind == FT_OPT_FLAG) {
            if (in_list("1|true|on|enabled", v, '|'))
                v = "1";
            else if (in_list("0|false|off|disabled", v, '|'))
                v = "0";
            else
                return ft_fail(err, FT_EINVAL, "%s: \"%s\", want on or off", name, v);
        } else {
            ft_status st = check(t, name, v, err);
            if (st) return st;
        }
        add(&o->v[i], v);
        o->v[i].from_user = true;
    }
    return FT_OK;
}

static ft_status parse_one(ft_opts *o, unsigned cmd, int argc, char **argv, int *at, ft_err *err)
{
    char *arg = argv[*at], *eq = strncmp(arg, "--", 2) ? NULL : strchr(arg, '=');
    if (eq) *eq = 0;
    bool negated;
    const int row = find_row(cmd, arg, &negated);
    if (row < 0)
        return ft_fail(err, FT_EINVAL, "unknown option %s (--help lists the options)", arg);
    const ft_opt *t = &ft_opt_table[row];
    value *v = &o->v[row];
    const char *text = negated ? "0" : "1";
    if (t->kind == FT_OPT_FLAG) {
        if (eq) return ft_fail(err, FT_EINVAL, "%s takes no value, found \"%s\"", arg, eq + 1);
    } else if (eq) {
        text = eq + 1;
    } else {
        if (*at + 1 >= argc)
            return ft_fail(err, FT_EINVAL, "%s wants a value (%s)", arg,
                           t->what ? t->what : "text");
        text = argv[++*at];
    }
    if (t->kind != FT_OPT_FLAG) {
        ft_status st = check(t, arg, text, err);
        if (st) return st;
    }
    if (t->kind == FT_OPT_LIST && !v->from_user) v->n = 0;
    add(v, text);
    v->from_user = true;
    return FT_OK;
}

/* Options and words from argv[from..] on. */
static ft_status parse_all(ft_opts *o, int from, int argc, char **argv, ft_err *err)
{
    ft_status st = FT_OK;
    bool only_words = false;
    for (int i = from; i < argc && !st; i++) {
        const bool dash = argv[i][0] == '-' && argv[i][1];
        if (only_words || !dash)
            o->word[o->n_word++] = argv[i];
        else if (!strcmp(argv[i], "--"))
            only_words = true;
        else
            st = parse_one(o, o->cmd, argc, argv, &i, err);
    }
    return st;
}

ft_status ft_opts_parse(ft_opts **out, unsigned cmd, int argc, char **argv, ft_err *err)
{
    ft_opts *o = ft_new(ft_opts);
    o->cmd = cmd;
    o->v = ft_new_n(value, (size_t)table_len());
    o->word = ft_new_n(const char *, (size_t)argc + 1);
    ft_status st = read_env(o, cmd, err);
    if (!st) st = parse_all(o, 1, argc, argv, err);
    if (st) {
        ft_opts_free(o);
        return st;
    }
    *out = o;
    return FT_OK;
}

ft_status ft_opts_more(ft_opts **out, const ft_opts *o, int argc, char **argv, ft_err *err)
{
    ft_opts *more = ft_new(ft_opts);
    more->cmd = o->cmd;
    more->v = ft_new_n(value, (size_t)table_len());
    for (int i = 0; i < table_len(); i++) {
        more->v[i].from_user = o->v[i].from_user;
        for (int k = 0; k < o->v[i].n; k++) add(&more->v[i], o->v[i].text[k]);
    }
    more->word = ft_new_n(const char *, (size_t)(o->n_word + argc + 1));
    for (int i = 0; i < o->n_word; i++) more->word[more->n_word++] = o->word[i];
    const ft_status st = parse_all(more, 0, argc, argv, err);
    if (st)
        ft_opts_free(more);
    else
        *out = more;
    return st;
}

void ft_opts_free(ft_opts *o)
{
    if (!o) return;
    for (int i = 0; ft_opt_table[i].name; i++) ft_free(o->v[i].text);
    ft_free(o->v);
    ft_free(o->word);
    ft_free(o);
}

bool ft_opts_has(const ft_opts *o, const char *name)
{
    for (const ft_opt *t = ft_opt_table; t->name; t++)
        if ((t->cmds & o->cmd) && !strcmp(t->name, name)) return true;
    return false;
}

bool ft_opts_set(const ft_opts *o, const char *name)
{
    return o->v[row_of(o, name)].from_user;
}

const char *ft_opts_text(const ft_opts *o, const char *name)
{
    const int row = row_of(o, name);
    const value *v = &o->v[row];
    return v->n ? v->text[v->n - 1] : ft_opt_table[row].def;
}

bool ft_opts_flag(const ft_opts *o, const char *name)
{
    const char *t = ft_opts_text(o, name);
    return t && t[0] == '1';
}

int64_t ft_opts_int(const ft_opts *o, const char *name)
{
    const char *t = ft_opts_text(o, name);
    return t ? strtoll(t, NULL, 10) : 0;
}

double ft_opts_float(const ft_opts *o, const char *name)
{
    const char *t = ft_opts_text(o, name);
    return t ? strtod(t, NULL) : 0;
}

int ft_opts_count(const ft_opts *o, const char *name)
{
    return o->v[row_of(o, name)].n;
}

const char *ft_opts_at(const ft_opts *o, const char *name, int i)
{
    const value *v = &o->v[row_of(o, name)];
    assert(i >= 0 && i < v->n);
    return v->text[i];
}

int ft_opts_n_word(const ft_opts *o)
{
    return o->n_word;
}

const char *ft_opts_word(const ft_opts *o, int i)
{
    return i < o->n_word ? o->word[i] : NULL;
}

void ft_opts_help(unsigned cmd)
{
    puts("\noptions:");
    for (int i = 0; ft_opt_table[i].name; i++) {
        const ft_opt *o = &ft_opt_table[i];
        if (!(o->cmds & cmd)) continue;
        char left[96];
        const int n =
            snprintf(left, sizeof left, "%s%s--%s%s%s", o->aliases ? o->aliases : "",
                     o->aliases ? " " : "", o->name, o->what ? " " : "", o->what ? o->what : "");
        if (n > 33)
            printf("  %s\n%37s%s", left, "", o->help); /* too long for its column */
        else
            printf("  %-34s %s", left, o->help);
        if (o->def && o->kind != FT_OPT_FLAG)
            printf(" (default %s)", o->def);
        else if (o->def && o->def[0] == '1')
            printf(" (on; --no-%s turns it off)", o->name);
        if (o->env) printf(" [%s]", o->env);
        putchar('\n');
    }
}
