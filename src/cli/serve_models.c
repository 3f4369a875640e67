#define _GNU_SOURCE
#include "cli/serve_models.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/hub.h"
#include "foretoken.h"
#include "report/names.h"

#include <dirent.h>
#include <stdio.h>
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

char *ft_serve_part(const char *path, int k)
{
    const char *part = strstr(ft_file_name(path), "-00001-of-");
    if (k > (part ? atoi(part + 10) : 1) || k > 99999) return NULL;
    char *file = ft_strdup(path), digits[12];
    snprintf(digits, sizeof digits, "%05d", k);
    if (part) memcpy(file + (part + 1 - path), digits, 5);
    return file;
}

/* Of all parts. */
static uint64_t file_bytes(const char *path)
{
    uint64_t bytes = 0;
    char *file;
    for (int k = 1; path && (file = ft_serve_part(path, k)); k++) {
        struct stat st;
        if (!stat(file, &st)) bytes += (uint64_t)st.st_size;
        ft_free(file);
    }
    return bytes;
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
    l->at[l->n++] = (ft_serve_model){
        .name = ft_strdup(name), .o = own, .bytes = file_bytes(ft_opts_text(own, "model"))};
    return FT_OK;
}

static ft_status put_file(ft_serve_list *l, const char *name, const char *path, const ft_opts *o,
                          ft_err *err)
{
    char *argv[] = {"--model", keep(l, ft_strdup(path))};
    return put_model(l, name, o, 2, argv, err);
}

/* ---- a folder ---- */

enum { MAX_DEPTH = 5 }; /* of folders in a folder of models */

typedef struct found_files {
    char *path[MAX_MODELS];
    int n;
} found_files;

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The model files below dir. */
static void find_files(found_files *f, const char *dir, int depth)
{
    DIR *d = opendir(dir);
    if (!d) return;
    for (struct dirent *e; f->n < MAX_MODELS && (e = readdir(d));) {
        struct stat st;
        ft_buf path;
        if (e->d_name[0] == '.') continue;
        ft_buf_init(&path, 1 << 16);
        ft_buf_printf(&path, "%s/%s", dir, e->d_name);
        const bool there = !stat(ft_buf_z(&path), &st);
        if (there && S_ISDIR(st.st_mode) && depth < MAX_DEPTH)
            find_files(f, ft_buf_z(&path), depth + 1);
        else if (there && S_ISREG(st.st_mode) && ft_name_is_model(e->d_name))
            f->path[f->n++] = ft_strdup(ft_buf_z(&path));
        ft_buf_release(&path);
    }
    closedir(d);
}

/* The file name without ".gguf" and, of a split model, without "-00001-of-00003". */
static char *stem_of(const char *path)
{
    char *name = ft_strdup(ft_file_name(path));
    const size_t n = strlen(name);
    if (n > 5 && !strcasecmp(name + n - 5, ".gguf")) name[n - 5] = 0;
    char *part = strstr(name, "-00001-of-");
    if (part && strspn(part + 10, "0123456789") == strlen(part + 10)) *part = 0;
    return name;
}

static bool is_taken(const ft_serve_list *l, const char *name)
{
    for (int i = 0; i < l->n; i++)
        if (!l->at[i].gone && !strcmp(l->at[i].name, name)) return true;
    return false;
}

ft_status ft_serve_model_check(const ft_serve_model *m, ft_err *err)
{
    static const char *const type[] = {"f16"};
    ft_cache_size size;
    const char *path = ft_opts_text(m->o, "model");
    return path ? ft_cache_sizes(path, 256, type, 1, &size, err) : FT_OK;
}

/* USER/NAME and USER/NAME:QUANT, with and without "hf.co/", of STORE/USER--NAME/FILE-QUANT.gguf. */
static char *aliases_of(const char *dir, const char *path)
{
    const char *below = path + strlen(dir) + 1, *dash = strstr(below, "--"),
               *slash = strchr(below, '/');
    if (!dash || !slash || dash > slash || dash == below) return NULL;
    char *stem = stem_of(path);
    const char *quant = stem + strlen(stem);
    while (quant > stem && !strchr("-.", quant[-1])) quant--;
    ft_buf b, repo;
    ft_buf_init(&b, 1 << 16);
    ft_buf_init(&repo, 1 << 16);
    ft_buf_printf(&repo, "%.*s/%.*s", (int)(dash - below), below, (int)(slash - dash - 2),
                  dash + 2);
    const char *r = ft_buf_z(&repo);
    ft_buf_printf(&b, "%s,hf.co/%s,%s:%s,hf.co/%s:%s", r, r, r, quant, r, quant);
    char *out = ft_buf_take(&b);
    ft_buf_release(&b);
    ft_buf_release(&repo);
    ft_free(stem);
    return out;
}

/* The sum that a download was checked against. */
static char *sum_of(const char *path)
{
    ft_buf b;
    char *text = NULL;
    size_t n = 0;
    ft_buf_init(&b, 1 << 16);
    ft_buf_printf(&b, "%s.sha256", path);
    const bool there = !ft_file_read(&text, &n, ft_buf_z(&b), 256, NULL);
    ft_buf_release(&b);
    if (there && strspn(text, "0123456789abcdef") == 64) {
        text[64] = 0;
        return text;
    }
    if (there) ft_free(text);
    return NULL;
}

/* A second file of the same name is called FOLDER/NAME. */
static ft_status put_found(ft_serve_list *l, const char *path, const ft_opts *o, ft_err *err)
{
    ft_err bad;
    char *name = stem_of(path);
    if (is_taken(l, name)) {
        const char *below = path + strlen(l->dir) + 1;
        const size_t n = strlen(below) - strlen(ft_file_name(path));
        ft_buf b;
        ft_buf_init(&b, 1 << 16);
        ft_buf_printf(&b, "%.*s%s", (int)n, below, name);
        ft_free(name);
        name = ft_buf_take(&b);
        ft_buf_release(&b);
    }
    ft_status st = FT_OK;
    if (!is_taken(l, name) && !(st = put_file(l, name, path, o, err))) {
        ft_serve_model *m = &l->at[l->n - 1];
        m->path = ft_strdup(path);
        m->aliases = aliases_of(l->dir, path);
        m->sha256 = sum_of(path);
        if (ft_serve_model_check(m, &bad)) m->error = ft_strdup(bad.text);
    }
    ft_free(name);
    return st;
}

static ft_status scan_folder(ft_serve_list *l, const ft_opts *o, ft_err *err)
{
    found_files *f = ft_new(found_files);
    ft_status st = FT_OK;
    find_files(f, l->dir, 0);
    qsort(f->path, (size_t)f->n, sizeof *f->path, by_name);
    for (int i = 0; i < l->n; i++) l->at[i].gone |= l->at[i].path != NULL;
    for (int i = 0; i < f->n; i++) {
        bool known = false;
        for (int k = 0; k < l->n; k++) {
            if (!l->at[k].path || strcmp(l->at[k].path, f->path[i])) continue;
            l->at[k].gone = false;
            known = true;
        }
        if (!known && !st) st = put_found(l, f->path[i], o, err);
        ft_free(f->path[i]);
    }
    ft_free(f);
    return st;
}

static ft_status from_folder(ft_serve_list *l, const char *dir, const ft_opts *o, ft_err *err)
{
    struct stat s;
    const int before = l->n;
    if (stat(dir, &s) || !S_ISDIR(s.st_mode))
        return ft_fail(err, FT_ENOTFOUND, "--models-dir %s: no such folder", dir);
    l->dir = ft_strdup(dir);
    const ft_status st = scan_folder(l, o, err);
    if (!st && l->n == before)
        return ft_fail(err, FT_ENOTFOUND, "--models-dir %s has no .gguf file", dir);
    return st;
}

ft_status ft_serve_list_store(ft_serve_list *l, const ft_opts *o, ft_err *err)
{
    const ft_status st = ft_hub_folder(&l->dir, err);
    if (st) return st;
    ft_buf b;
    ft_buf_init(&b, 1 << 16);
    ft_buf_printf(&b, "%s/models.ini", l->dir);
    l->preset = keep(l, ft_buf_take(&b));
    ft_buf_release(&b);
    return ft_serve_list_scan(l, o, err);
}

/* Everything that foretoken pull has stored; nothing if the store is empty. */
static ft_status from_store(ft_serve_list *l, const ft_opts *o, ft_err *err)
{
    const ft_status st = ft_serve_list_store(l, o, err);
    if (!l->dir) return FT_OK; /* there is no home: no store */
    if (st || l->n || ft_opts_flag(o, "manage-models")) return st;
    l->preset = NULL;
    ft_free(l->dir);
    l->dir = NULL;
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
    else if (s->name && !(st = put_model(l, s->name, o, s->n, s->argv, err)))
        l->at[l->n - 1].preset = true;
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

static ft_status from_text(ft_serve_list *l, const char *text, const ft_opts *o, ft_err *err)
{
    ft_status st = FT_OK;
    section s = {0};
    int number = 1;
    for (const char *p = text; *p && !st; number++) {
        const size_t n = strcspn(p, "\n");
        st = preset_line(l, &s, trimmed(p, n), number, o, err);
        p += n + (p[n] == '\n');
    }
    return st ? st : end_section(l, &s, o, err);
}

static ft_status from_preset(ft_serve_list *l, const char *path, const ft_opts *o, ft_err *err)
{
    char *text;
    size_t bytes;
    ft_status st = ft_file_read(&text, &bytes, path, PRESET_BYTES, err);
    if (st) return st;
    st = from_text(l, text, o, err);
    if (st) ft_err_prefix(err, "%s", path);
    ft_free(text);
    return st;
}

ft_status ft_serve_preset_check(const char *text, const ft_opts *o, ft_err *err)
{
    ft_serve_list l = {0};
    const ft_status st = from_text(&l, text, o, err);
    ft_serve_list_release(&l);
    return st;
}

static ft_serve_model *find_section(ft_serve_list *l, const char *name)
{
    for (int i = 0; i < l->n; i++)
        if (l->at[i].preset && !strcmp(l->at[i].name, name)) return &l->at[i];
    return NULL;
}

/* Reads the preset again; on failure the list stays as it was. */
static ft_status scan_preset(ft_serve_list *l, const ft_opts *o, ft_err *err)
{
    ft_serve_list fresh = {0};
    const ft_status st = ft_file_exists(l->preset) ? from_preset(&fresh, l->preset, o, err) : FT_OK;
    for (int i = 0; !st && i < l->n; i++) {
        ft_serve_model *m = &l->at[i];
        if (m->gone) m->preset = false; /* if it comes back, it may have other options */
        if (m->preset) m->gone = !find_section(&fresh, m->name);
    }
    for (int i = 0; !st && i < fresh.n; i++) {
        ft_serve_model *m = &fresh.at[i];
        if (find_section(l, m->name) || is_taken(l, m->name) || l->n == MAX_MODELS) continue;
        l->at = ft_realloc(l->at, sizeof *l->at * (size_t)(l->n + 1));
        l->at[l->n++] = *m;
        *m = (ft_serve_model){0};
        for (int k = 0; k < fresh.n_text; k++) keep(l, fresh.text[k]); /* options point to it */
        fresh.n_text = 0;
    }
    ft_serve_list_release(&fresh);
    return st;
}

ft_status ft_serve_list_scan(ft_serve_list *l, const ft_opts *o, ft_err *err)
{
    const ft_status st = l->dir ? scan_folder(l, o, err) : FT_OK;
    return !st && l->preset ? scan_preset(l, o, err) : st;
}

/* ---- all of it ---- */

/* Whether the options name a model to download. */
static bool names_model(const ft_opts *o)
{
    static const char *const option[] = {"hf-repo", "model-url"};
    for (size_t i = 0; i < FT_COUNT(option); i++)
        if (ft_opts_text(o, option[i])) return true;
    return false;
}

ft_status ft_serve_list_find(ft_serve_list *l, const ft_opts *o, ft_err *err)
{
    const char *dir = ft_opts_text(o, "models-dir"), *preset = ft_opts_text(o, "models-preset");
    const char *alias = ft_opts_text(o, "alias");
    const int n = ft_opts_count(o, "model");
    ft_status st = FT_OK;
    if (ft_opts_flag(o, "manage-models") && (n || dir || preset || names_model(o)))
        return ft_fail(err, FT_EINVAL,
                       "--manage-models is for the models of the store (foretoken pull); leave out "
                       "-m, -hf, --models-dir and --models-preset");
    *l = (ft_serve_list){.at_once = -1};
    if (n > 1) {
        for (int i = 0; i < n && !st; i++) {
            const char *path = ft_opts_at(o, "model", i);
            st = put_file(l, keep(l, stem_of(path)), path, o, err);
        }
    } else if (n == 0 && !dir && !preset && !names_model(o)) {
        st = from_store(l, o, err);
    }
    if (!st && n < 2 && (n == 1 || (!dir && !preset && !l->n))) {
        const char *path = ft_opts_text(o, "model");
        st = put_model(l,
                       alias && *alias ? alias
                       : path          ? keep(l, stem_of(path))
                                       : "foretoken-tiny",
                       o, 0, NULL, err);
    }
    if (!st && l->n && !l->dir) l->at_once = 0;
    if (!st && dir) st = from_folder(l, dir, o, err);
    if (!st && preset) st = from_preset(l, preset, o, err);
    if (preset) l->preset = preset;
    if (!st && !l->n) st = ft_fail(err, FT_ENOTFOUND, "%s has no model", preset);
    return st;
}

void ft_serve_list_release(ft_serve_list *l)
{
    for (int i = 0; i < l->n; i++) {
        ft_free(l->at[i].name);
        ft_free(l->at[i].path);
        ft_free(l->at[i].error);
        ft_free(l->at[i].aliases);
        ft_free(l->at[i].sha256);
        ft_opts_free(l->at[i].o);
    }
    for (int i = 0; i < l->n_text; i++) ft_free(l->text[i]);
    ft_free(l->at);
    ft_free(l->dir);
    ft_free(l->text);
    *l = (ft_serve_list){0};
}
