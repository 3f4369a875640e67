#include "cli/opts.h"

#include "base/mem.h"
#include "base/str.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct value {
    const char **text; /* every value given; the last one counts, except for lists */
    int n;
    bool from_user;
} value;

struct ft_opts {
    unsigned cmd;
    value *v;   /* one per row */
    char **own; /* values that were not typed like this */
    int n_own;
    const char **word;
    int n_word;
};

static int n_rows(void)
{
    int n = 0;
    while (ft_opt_row(n)) n++;
    return n;
}

/* Two programs can have rows of one name, each with its own default and help. */
static int find_name(const ft_opts *o, const char *name)
{
    const ft_param *p;
    for (int i = 0; (p = ft_opt_row(i)); i++)
        if ((p->programs & o->cmd) && !strcmp(p->name, name)) return i;
    return -1;
}

static int row_of(const ft_opts *o, const char *name)
{
    const int row = find_name(o, name);
    assert(row >= 0 && "an option that the table does not have");
    return row;
}

/* Is `word` one of the words of `list`, which `sep` separates? */
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

/* Is it --NAME or one of the aliases? */
static bool names(const ft_param *p, const char *typed)
{
    return (!strncmp(typed, "--", 2) && !strcmp(typed + 2, p->name)) ||
           (p->aliases && in_list(p->aliases, typed, ' '));
}

/* The row that a typed option names for this program, or -1. *negated: it was --no-NAME or a
 * spelling that unsets it. */
static int find_typed(unsigned cmd, const char *typed, bool *negated)
{
    const ft_param *p;
    char positive[64] = "";
    if (!strncmp(typed, "--no-", 5)) snprintf(positive, sizeof positive, "--%s", typed + 5);
    for (int i = 0; (p = ft_opt_row(i)); i++) {
        if (!(p->programs & cmd)) continue;
        *negated = false;
        if (names(p, typed)) return i;
        *negated = p->kind == FT_PARAM_FLAG && ((positive[0] && names(p, positive)) ||
                                                (p->unset && in_list(p->unset, typed, ' ')));
        if (*negated) return i;
    }
    return -1;
}

static void add(value *v, const char *text)
{
    v->text = ft_realloc(v->text, sizeof *v->text * (size_t)(v->n + 1));
    v->text[v->n++] = text;
}

/* llama.cpp's words for on and off, or NULL. */
static const char *switch_word(const char *text)
{
    if (in_list("1|true|on|enabled", text, '|')) return "on";
    return in_list("0|false|off|disabled", text, '|') ? "off" : NULL;
}

/* The value; of options that are on, off or auto in the words of the row; of some options the
 * nearest one inside the range, with a warning. */
static const char *nearest(ft_opts *o, const ft_param *p, const char *shown, const char *text)
{
    int64_t i;
    const char *word = switch_word(text);
    if (p->kind == FT_PARAM_CHOICE && word && in_list(p->value, word, '|')) return word;
    if (!(p->flags & FT_PARAM_NEAREST) || p->kind != FT_PARAM_INT ||
        !ft_parse_i64(text, -((int64_t)1 << 53), (int64_t)1 << 53, &i) ||
        ((double)i >= p->lo && (double)i <= p->hi))
        return text;
    char inside[24];
    snprintf(inside, sizeof inside, "%.0f", (double)i < p->lo ? p->lo : p->hi);
    ft_opts_warn("%s %s is outside of %.0f to %.0f, using %s", shown, text, p->lo, p->hi, inside);
    o->own = ft_realloc(o->own, sizeof *o->own * (size_t)(o->n_own + 1));
    return o->own[o->n_own++] = ft_strdup(inside);
}

void ft_opts_warn(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("foretoken: warning: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
}

static ft_status check_value(const ft_param *p, const char *shown, const char *text, ft_err *err)
{
    int64_t i;
    double f;
    switch (p->kind) {
    case FT_PARAM_INT:
        if (!ft_parse_i64(text, (int64_t)p->lo, (int64_t)p->hi, &i))
            return ft_fail(err, FT_EINVAL, "%s: \"%s\", want a whole number from %.0f to %.0f",
                           shown, text, p->lo, p->hi);
        break;
    case FT_PARAM_FLOAT:
        if (!ft_parse_f64(text, p->lo, p->hi, &f))
            return ft_fail(err, FT_EINVAL, "%s: \"%s\", want a number from %g to %g", shown, text,
                           p->lo, p->hi);
        break;
    case FT_PARAM_CHOICE:
        if (!in_list(p->value, text, '|'))
            return ft_fail(err, FT_EINVAL, "%s: \"%s\", want one of %s", shown, text, p->value);
        break;
    default: break;
    }
    return FT_OK;
}

static void warn_unused(const char *shown, const char *text, const char *why)
{
    ft_opts_warn("%s%s%s has no effect: %s", shown, text ? " " : "", text ? text : "", why);
}

/* An option that has no effect here, or is not supported, is fine as long as it asks for what
 * happens anyway. Otherwise it is one warning line, or an error. */
static ft_status check_support(const ft_param *p, const char *shown, const char *text, ft_err *err)
{
    const char *as_is = p->def ? p->def : p->kind == FT_PARAM_FLAG ? "0" : NULL;
    if (!(p->flags & (FT_PARAM_IGNORED | FT_PARAM_REFUSED))) return FT_OK;
    if (as_is && (!strcmp(text, as_is) || !strcmp(text, "auto"))) return FT_OK;
    const bool flag = p->kind == FT_PARAM_FLAG;
    if (p->flags & FT_PARAM_REFUSED)
        return ft_fail(err, FT_EUNSUPPORTED, "%s%s%s is not supported: %s", shown, flag ? "" : " ",
                       flag ? "" : text, p->why);
    warn_unused(shown, flag ? NULL : text, p->why);
    return FT_OK;
}

/* The first variable of the option that is set; its name goes to `name`. */
static const char *env_value(const ft_param *t, char name[64])
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
    const ft_param *p;
    for (int i = 0; (p = ft_opt_row(i)); i++) {
        char name[64];
        const char *v = p->programs & cmd ? env_value(p, name) : NULL;
        if (!v) continue;
        if (p->kind == FT_PARAM_FLAG) {
            const char *word = switch_word(v);
            if (!word) return ft_fail(err, FT_EINVAL, "%s: \"%s\", want on or off", name, v);
            v = strcmp(word, "on") ? "0" : "1";
        }
        v = nearest(o, p, name, v);
        ft_status st = check_value(p, name, v, err);
        if (!st) st = check_support(p, name, v, err);
        if (st) return st;
        add(&o->v[i], v);
        o->v[i].from_user = true;
    }
    return FT_OK;
}

/* Names of the programs that share one list of options, for messages. */
static const char *program_name(unsigned programs)
{
    return programs & FT_CMD_SERVE  ? "serve"
           : programs & FT_CMD_RUN  ? "run"
           : programs & FT_CMD_CHAT ? "chat"
                                    : "bench";
}

/* run, chat, serve and bench take each other's options, so that one command line does for all of
 * them. *other: the option has an effect in another program only. */
static int find_row(unsigned cmd, const char *typed, bool *negated, bool *other)
{
    char dashes[64];
    const size_t n = strlen(typed);
    int row = find_typed(cmd, typed, negated);
    *other = row < 0 && (cmd & FT_CMD_DRAFT);
    if (*other) row = find_typed(FT_CMD_DRAFT, typed, negated);
    if (row >= 0 || strncmp(typed, "--", 2) || !strchr(typed, '_') || n >= sizeof dashes)
        return row;
    for (size_t i = 0; i <= n; i++) dashes[i] = typed[i] == '_' ? '-' : typed[i];
    return find_row(cmd, dashes, negated, other); /* as llama.cpp does */
}

/* The value of the option argv[*at]; *at moves on if it is the next argument. NULL: it has none. */
static const char *value_of(const ft_param *p, bool negated, char *eq, int argc, char **argv,
                            int *at)
{
    const char *next = *at + 1 < argc ? argv[*at + 1] : NULL;
    if (p->kind == FT_PARAM_FLAG) return eq ? NULL : negated ? "0" : "1";
    if (eq) return eq + 1;
    if ((p->flags & FT_PARAM_BARE) && (!next || next[0] == '-')) return "on";
    if (next) ++*at;
    return next;
}

static ft_status parse_one(ft_opts *o, int argc, char **argv, int *at, ft_err *err)
{
    char *arg = argv[*at], *eq = strncmp(arg, "--", 2) ? NULL : strchr(arg, '=');
    if (eq) *eq = 0;
    bool negated, other;
    const int row = find_row(o->cmd, arg, &negated, &other);
    if (row < 0)
        return ft_fail(err, FT_EINVAL, "unknown option %s (--help-all lists the options)", arg);
    const ft_param *p = ft_opt_row(row);
    value *v = &o->v[row];
    const char *text = value_of(p, negated, eq, argc, argv, at);
    if (!text && p->kind == FT_PARAM_FLAG)
        return ft_fail(err, FT_EINVAL, "%s takes no value, found \"%s\"", arg, eq + 1);
    if (!text) return ft_fail(err, FT_EINVAL, "%s has no value, want %s", arg, p->value);
    text = nearest(o, p, arg, text);
    ft_status st = check_value(p, arg, text, err);
    if (!st) st = check_support(p, arg, text, err);
    if (st) return st;
    if (other) {
        if (!(p->flags & FT_PARAM_IGNORED))
            ft_opts_warn("%s has no effect: it is an option of foretoken %s", arg,
                         program_name(p->programs));
        return FT_OK;
    }
    if (p->kind == FT_PARAM_LIST && !v->from_user) v->n = 0;
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
            st = parse_one(o, argc, argv, &i, err);
    }
    return st;
}

ft_status ft_opts_parse(ft_opts **out, unsigned cmd, int argc, char **argv, ft_err *err)
{
    ft_opts *o = ft_new(ft_opts);
    o->cmd = cmd;
    o->v = ft_new_n(value, (size_t)n_rows());
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
    more->v = ft_new_n(value, (size_t)n_rows());
    for (int i = 0; i < n_rows(); i++) {
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
    for (int i = 0; ft_opt_row(i); i++) ft_free(o->v[i].text);
    for (int i = 0; i < o->n_own; i++) ft_free(o->own[i]);
    ft_free(o->own);
    ft_free(o->v);
    ft_free(o->word);
    ft_free(o);
}

void ft_opts_warn_unused(const ft_opts *o, const char *name, const char *why)
{
    char shown[64];
    snprintf(shown, sizeof shown, "--%s", name);
    if (ft_opts_has(o, name) && ft_opts_set(o, name)) warn_unused(shown, NULL, why);
}

bool ft_opts_has(const ft_opts *o, const char *name)
{
    return find_name(o, name) >= 0;
}

bool ft_opts_set(const ft_opts *o, const char *name)
{
    return o->v[row_of(o, name)].from_user;
}

const char *ft_opts_text(const ft_opts *o, const char *name)
{
    const int row = row_of(o, name);
    const value *v = &o->v[row];
    return v->n ? v->text[v->n - 1] : ft_opt_row(row)->def;
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
