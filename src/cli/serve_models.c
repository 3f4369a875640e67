#define _GNU_SOURCE
#include "cli/serve_models.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

#include <dirent.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>

enum { MAX_MODELS = 1024, MAX_ARGS = 256, PRESET_BYTES = 1 << 20 };

static char *keep(ft_serve_list *l, char *text)
{
    l->text = ft_realloc(l->text, sizeof *l->text * (size_t)(l->n_text + 1));
    return l->text[l->n_text++] = text;
}

static char *keep_n(ft_serve_list *l, const char *p, size_t n)
{
    char *z = ft_alloc(n + 1);
    memcpy(z, p, n);
    return keep(l, z);
}

static uint64_t file_bytes(const char *path)
{
    struct stat st;
    return path && !stat(path, &st) ? (uint64_t)st.st_size : 0;
}

/* Adds a model, with its own options after those of the program. */
static ft_status put_model(ft_serve_list *l, const char *name, const ft_opts *o, int argc,
                           char **argv, ft_err *err)
{
    ft_opts *own;
    if (l->n == MAX_MODELS)
        return ft_fail(err, FT_ELIMIT, "more than %d models are given", MAX_MODELS);
    const ft_status st = ft_opts_more(&own, o, argc, argv, err);
    if (st) {
        ft_err_prefix(err, "%s", name);
        return st;
    }
    l->at = ft_realloc(l->at, sizeof *l->at * (size_t)(l->n + 1));
    l->at[l->n++] = (ft_serve_model){ft_strdup(name), own, file_bytes(ft_opts_text(own, "model"))};
    return FT_OK;
}

static ft_status put_file(ft_serve_list *l, const char *name, const char *path, const ft_opts *o,
                          ft_err *err)
{
    char *argv[] = {"--model", keep(l, ft_strdup(path))};
    return put_model(l, name, o, 2, argv, err);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ---- a folder ---- */

/* Is it a model, and neither a further part of a split one nor an mmproj file? */
static bool is_model(const char *name)
{
    const size_t n = strlen(name);
    if (n < 6 || strcasecmp(name + n - 5, ".gguf")) return false;
    const char *part = strstr(name, "-of-");
    return strncmp(name, "mmproj", 6) &&
           (!part || part - name < 5 || !memcmp(part - 5, "00001", 5));
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names without ".gguf", sorted. */
static ft_status from_folder(ft_serve_list *l, const char *dir, const ft_opts *o, ft_err *err)
{
    DIR *d = opendir(dir);
    char *found[MAX_MODELS];
    int n = 0;
    ft_status st = FT_OK;
    if (!d) return ft_fail(err, FT_ENOTFOUND, "--models-dir %s: no such folder", dir);
    for (struct dirent *e; n < MAX_MODELS && (e = readdir(d));)
        if (is_model(e->d_name)) found[n++] = ft_strdup(e->d_name);
    closedir(d);
    qsort(found, (size_t)n, sizeof *found, by_name);
    for (int i = 0; i < n; i++) {
        ft_buf path;
        ft_buf_init(&path, 1 << 16);
        ft_buf_printf(&path, "%s/%s", dir, found[i]);
        found[i][strlen(found[i]) - 5] = 0;
        if (!st) st = put_file(l, found[i], ft_buf_z(&path), o, err);
        ft_buf_release(&path);
        ft_free(found[i]);
    }
    if (!st && !n) st = ft_fail(err, FT_ENOTFOUND, "--models-dir %s has no .gguf file", dir);
    return st;
}

/* ---- a preset: [name], then "option = value" ---- */

typedef struct section {
    char *name; /* NULL: none yet; "*": for all sections that follow */
    char *argv[MAX_ARGS];
    int n, shared; /* shared: the first ones, from [*] */
} section;

static ft_str trimmed(const char *p, size_t n)
{
    while (n && strchr(" \t\r", *p)) p++, n--;
    while (n && strchr(" \t\r", p[n - 1])) n--;
    return (ft_str){p, n};
}

/* A flag is written "x = true"; on the command line that is --x or --no-x. */
static ft_status put_option(ft_serve_list *l, section *s, ft_str key, ft_str value, ft_err *err)
{
    if (s->n + 2 > MAX_ARGS)
        return ft_fail(err, FT_ELIMIT, "a section of the preset has more than %d options",
                       MAX_ARGS / 2);
    const bool yes = ft_str_eq(value, FT_STR("true")), no = ft_str_eq(value, FT_STR("false"));
    ft_buf b;
    ft_buf_init(&b, PRESET_BYTES);
    ft_buf_puts(&b, no ? "--no-" : key.n == 1 ? "-" : "--");
    ft_buf_put_str(&b, key);
    s->argv[s->n++] = keep(l, ft_buf_take(&b));
    if (!yes && !no) s->argv[s->n++] = keep_n(l, value.p, value.n);
    return FT_OK;
}

static ft_status end_section(ft_serve_list *l, section *s, const ft_opts *o, ft_err *err)
{
    ft_status st = FT_OK;
    if (s->name && !strcmp(s->name, "*"))
        s->shared = s->n;
    else if (s->name)
        st = put_model(l, s->name, o, s->n, s->argv, err);
    s->n = s->shared;
    return st;
}

static ft_status preset_line(ft_serve_list *l, section *s, ft_str line, int number,
                             const ft_opts *o, ft_err *err)
{
    if (!line.n || line.p[0] == ';' || line.p[0] == '#') return FT_OK;
    if (line.p[0] == '[' && line.n > 2 && line.p[line.n - 1] == ']') {
        const ft_status st = end_section(l, s, o, err);
        s->name = keep_n(l, line.p + 1, line.n - 2);
        return st;
    }
    const char *eq = memchr(line.p, '=', line.n);
    if (!eq || !s->name)
        return ft_fail(err, FT_EFORMAT,
                       "line %d of the preset is \"%.*s\", want [a name] or option = value", number,
                       (int)FT_MIN(line.n, (size_t)60), line.p);
    const size_t n = (size_t)(eq - line.p);
    return put_option(l, s, trimmed(line.p, n), trimmed(eq + 1, line.n - n - 1), err);
}

static ft_status from_preset(ft_serve_list *l, const char *path, const ft_opts *o, ft_err *err)
{
    char *text;
    size_t bytes;
    ft_status st = ft_file_read(&text, &bytes, path, PRESET_BYTES, err);
    if (st) return st;
    section s = {0};
    int number = 1;
    for (const char *p = text; *p && !st; number++) {
        const size_t n = strcspn(p, "\n");
        st = preset_line(l, &s, trimmed(p, n), number, o, err);
        p += n + (p[n] == '\n');
    }
    if (!st) st = end_section(l, &s, o, err);
    ft_free(text);
    return st;
}

/* ---- all of it ---- */

ft_status ft_serve_list_find(ft_serve_list *l, const ft_opts *o, ft_err *err)
{
    const char *dir = ft_opts_text(o, "models-dir"), *preset = ft_opts_text(o, "models-preset");
    const char *alias = ft_opts_text(o, "alias");
    const int n = ft_opts_count(o, "model");
    ft_status st = FT_OK;
    *l = (ft_serve_list){.at_once = -1};
    if (n > 1) {
        for (int i = 0; i < n && !st; i++) {
            const char *path = ft_opts_at(o, "model", i), *name = base_name(path);
            ft_str stem = ft_str_of(name);
            if (is_model(name)) stem.n -= 5;
            st = put_file(l, keep_n(l, stem.p, stem.n), path, o, err);
        }
    } else if (n == 1 || (!dir && !preset)) {
        const char *path = ft_opts_text(o, "model");
        st = put_model(l,
                       alias && *alias ? alias
                       : path          ? base_name(path)
                                       : "foretoken-tiny.gguf",
                       o, 0, NULL, err);
    }
    if (!st && l->n) l->at_once = 0;
    if (!st && dir) st = from_folder(l, dir, o, err);
    if (!st && preset) st = from_preset(l, preset, o, err);
    if (!st && !l->n) st = ft_fail(err, FT_ENOTFOUND, "%s has no model", preset);
    return st;
}

void ft_serve_list_release(ft_serve_list *l)
{
    for (int i = 0; i < l->n; i++) {
        ft_free(l->at[i].name);
        ft_opts_free(l->at[i].o);
    }
    for (int i = 0; i < l->n_text; i++) ft_free(l->text[i]);
    ft_free(l->at);
    ft_free(l->text);
    *l = (ft_serve_list){0};
}
