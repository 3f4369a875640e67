/* cli/template.c - renders a chat template: one object to one prompt, or line by line for programs.
 */
#define _POSIX_C_SOURCE 200809L
#include "base/file.h"
#include "base/mem.h"
#include "cli/cmd.h"
#include "foretoken.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_SOURCE ((size_t)4 << 20)
#define MAX_INPUT  ((size_t)256 << 20)

static ft_status open_template(ft_template **out, const ft_opts *o, ft_err *err)
{
    const char *file = ft_opts_text(o, "file"), *model = ft_opts_text(o, "model");
    if (!file == !model)
        return ft_fail(err, FT_EINVAL, "template: want one of --file FILE and -m FILE, found %s",
                       file ? "both" : "neither");
    if (model) return ft_template_load(out, model, err);
    char *source;
    size_t n;
    ft_status st = ft_file_read(&source, &n, file, MAX_SOURCE, err);
    if (st) return st;
    st = ft_template_new(out, source, n, err);
    if (st) ft_err_prefix(err, "%s", file);
    ft_free(source);
    return st;
}

/* One line in, one line out: {"prompt": ...} or {"error": ...}. */
static int render_line(const ft_template *t, const char *line, size_t n)
{
    char *text;
    size_t bytes;
    ft_err err;
    json_t *o = json_object();
    if (ft_template_render(t, line, n, &text, &bytes, &err)) {
        json_object_set_new(o, "error", json_string_nocheck(err.text));
    } else {
        json_object_set_new(o, "prompt", json_stringn_nocheck(text, bytes));
        free(text);
    }
    char *out = json_dumps(o, 0);
    const bool ok = out && puts(out) >= 0 && fflush(stdout) == 0;
    free(out);
    json_decref(o);
    return ok ? 0 : 1;
}

static int render_lines(const ft_template *t, ft_err *err)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    int rc = 0;
    while (!rc && (n = getline(&line, &cap, stdin)) >= 0) {
        while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r')) n--;
        if (n) rc = render_line(t, line, (size_t)n);
    }
    free(line);
    if (rc) ft_fail(err, FT_EIO, "template: standard output cannot be written");
    return rc ? ft_die(err) : 0;
}

static int render_once(const ft_template *t, ft_err *err)
{
    char *json, *text;
    size_t n, bytes;
    if (ft_file_read(&json, &n, "-", MAX_INPUT, err)) return ft_die(err);
    const ft_status st = ft_template_render(t, json, n, &text, &bytes, err);
    ft_free(json);
    if (st) return ft_die(err);
    const bool ok = fwrite(text, 1, bytes, stdout) == bytes && fflush(stdout) == 0;
    free(text);
    if (!ok) ft_fail(err, FT_EIO, "template: standard output cannot be written");
    return ok ? 0 : ft_die(err);
}

int ft_cmd_template(const ft_opts *o)
{
    ft_err err;
    ft_template *t = NULL;
    if (open_template(&t, o, &err)) return ft_die(&err);
    const int rc = ft_opts_flag(o, "jsonl") ? render_lines(t, &err) : render_once(t, &err);
    ft_template_free(t);
    return rc;
}
