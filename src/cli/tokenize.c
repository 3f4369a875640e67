/* cli/tokenize.c - converts text to token ids and back; line by line as JSON for programs. */
#define _POSIX_C_SOURCE 200809L
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/cmd.h"
#include "foretoken.h"
#include "report/report.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_INPUT ((size_t)1 << 30)

typedef struct tool {
    ft_vocab *v;
    unsigned flags;
    bool jsonl, back, plain;
    ft_err *err;
} tool;

/* ---- JSON lines ---- */

/* {"text": "..."} to {"ids": [...]} */
static ft_status text_line(const tool *t, const json_t *in, json_t *out)
{
    const json_t *text = json_object_get(in, "text");
    if (!json_is_string(text))
        return ft_fail(t->err, FT_EFORMAT, "want an object with a string \"text\"");
    int32_t *ids;
    size_t n;
    const ft_status st = ft_vocab_encode(t->v, json_string_value(text), json_string_length(text),
                                         t->flags, &ids, &n, t->err);
    if (st) return st;
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(list, json_integer(ids[i]));
    json_object_set_new(out, "ids", list);
    ft_free(ids);
    return FT_OK;
}

/* {"ids": [...]} to {"text": "..."} */
static ft_status ids_line(const tool *t, const json_t *in, json_t *out)
{
    const json_t *list = json_object_get(in, "ids");
    if (!json_is_array(list))
        return ft_fail(t->err, FT_EFORMAT, "want an object with an array \"ids\"");
    const size_t n = json_array_size(list);
    int32_t *ids = ft_new_n(int32_t, n + 1);
    ft_status st = FT_OK;
    for (size_t i = 0; i < n && !st; i++) {
        const json_t *v = json_array_get(list, i);
        const json_int_t id = json_is_integer(v) ? json_integer_value(v) : -1;
        if (id < 0 || id > INT32_MAX)
            st = ft_fail(t->err, FT_EFORMAT, "entry %zu of \"ids\" is no token id", i);
        ids[i] = (int32_t)id;
    }
    char *text = NULL;
    size_t bytes;
    if (!st) st = ft_vocab_decode(t->v, ids, n, true, &text, &bytes, t->err);
    if (!st) json_object_set_new(out, "text", ft_json_string(text, bytes));
    ft_free(text);
    ft_free(ids);
    return st;
}

static ft_status one_line(const tool *t, const char *p, size_t n)
{
    json_error_t e;
    json_t *in = json_loadb(p, n, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &e);
    if (!in) return ft_fail(t->err, FT_EFORMAT, "%s", e.text);
    json_t *out = json_object();
    const ft_status st = t->back ? ids_line(t, in, out) : text_line(t, in, out);
    if (!st) {
        char *s = json_dumps(out, JSON_COMPACT);
        puts(s);
        free(s);
    }
    json_decref(in);
    json_decref(out);
    return st;
}

static ft_status all_lines(const tool *t, const char *p, size_t n)
{
    for (size_t at = 0, line = 1; at < n; line++) {
        const char *end = memchr(p + at, '\n', n - at);
        const size_t len = end ? (size_t)(end - p) - at : n - at;
        const ft_status st = one_line(t, p + at, len);
        if (st) {
            ft_err_prefix(t->err, "line %zu", line);
            return st;
        }
        at += len + 1;
    }
    return FT_OK;
}

/* ---- plain ---- */

static ft_status print_ids(const tool *t, const char *p, size_t n)
{
    int32_t *ids;
    size_t n_ids;
    ft_status st = ft_vocab_encode(t->v, p, n, t->flags, &ids, &n_ids, t->err);
    if (st) return st;
    for (size_t i = 0; i < n_ids && !st; i++) {
        if (t->plain) {
            printf("%s%d", i ? " " : "", ids[i]);
            continue;
        }
        char *text;
        size_t bytes;
        if ((st = ft_vocab_decode(t->v, &ids[i], 1, true, &text, &bytes, t->err))) break;
        json_t *shown = ft_json_string(text, bytes);
        char *s = json_dumps(shown, JSON_ENCODE_ANY);
        printf("%8d  %s\n", ids[i], s);
        free(s);
        json_decref(shown);
        ft_free(text);
    }
    if (t->plain) putchar('\n');
    ft_free(ids);
    return st;
}

/* Numbers separated by white space or commas. */
static ft_status print_text(const tool *t, char *p)
{
    int32_t *ids = ft_new_n(int32_t, strlen(p) / 2 + 2);
    size_t n = 0, bytes = 0;
    ft_status st = FT_OK;
    char *text = NULL, *save;
    for (char *w = strtok_r(p, " \t\r\n,", &save); w && !st;
         w = strtok_r(NULL, " \t\r\n,", &save)) {
        int64_t id;
        if (ft_parse_i64(w, 0, INT32_MAX, &id))
            ids[n++] = (int32_t)id;
        else
            st = ft_fail(t->err, FT_EINVAL, "\"%.40s\" is no token id", w);
    }
    if (!st) st = ft_vocab_decode(t->v, ids, n, true, &text, &bytes, t->err);
    if (!st) fwrite(text, 1, bytes, stdout);
    ft_free(text);
    ft_free(ids);
    return st;
}

/* The words of the command line, else the file, else standard input. */
static ft_status read_input(const ft_opts *o, char **out, size_t *n, ft_err *err)
{
    if (!ft_opts_n_word(o)) {
        const char *path = ft_opts_text(o, "file");
        return ft_file_read(out, n, path ? path : "-", MAX_INPUT, err);
    }
    if (ft_opts_text(o, "file"))
        return ft_fail(err, FT_EINVAL,
                       "both text on the command line and --file %s are given, want one of them",
                       ft_opts_text(o, "file"));
    ft_buf b;
    ft_buf_init(&b, MAX_INPUT);
    for (int i = 0; i < ft_opts_n_word(o); i++) {
        if (i) ft_buf_putc(&b, ' ');
        ft_buf_puts(&b, ft_opts_word(o, i));
    }
    *n = b.len;
    *out = b.data ? ft_buf_take(&b) : ft_strdup("");
    return FT_OK;
}

int ft_cmd_tokenize(const ft_opts *o)
{
    ft_err err;
    tool t = {.jsonl = ft_opts_flag(o, "jsonl"),
              .back = ft_opts_flag(o, "detokenize"),
              .plain = ft_opts_flag(o, "ids"),
              .err = &err};
    if (!ft_opts_flag(o, "nfc")) t.flags |= FT_ENCODE_NO_NFC;
    if (ft_opts_flag(o, "parse-special")) t.flags |= FT_ENCODE_PARSE_SPECIAL;
    if (ft_opts_flag(o, "add-special")) t.flags |= FT_ENCODE_ADD_SPECIAL;
    const char *model = ft_opts_text(o, "model");
    if (!model) model = ft_default_model();
    if (!model) {
        ft_fail(&err, FT_EINVAL, "tokenize: no model file, want -m FILE");
        return ft_die(&err);
    }
    char *in = NULL;
    size_t n = 0;
    ft_status st = ft_vocab_load(&t.v, model, &err);
    if (!st) st = read_input(o, &in, &n, &err);
    if (!st)
        st = t.jsonl ? all_lines(&t, in, n) : t.back ? print_text(&t, in) : print_ids(&t, in, n);
    if (!st && (fflush(stdout) || ferror(stdout)))
        st = ft_fail_errno(&err, "cannot write to standard output");
    ft_free(in);
    ft_vocab_free(t.v);
    return st ? ft_die(&err) : 0;
}
