/* cli/store.c - foretoken list and foretoken rm: the models of the store, which foretoken pull
 * fills and foretoken serve offers. */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cmd.h"
#include "cli/serve_store.h"
#include "report/names.h"
#include "report/report.h"
#include "tools/inspect.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* The models as a server without -m lists them; sections have options of the server. */
typedef struct store {
    ft_opts *serve;
    ft_serve_list l;
} store;

static ft_status open_store(store *s, ft_err *err)
{
    char *argv[] = {"serve", NULL};
    *s = (store){0};
    const ft_status st = ft_opts_parse(&s->serve, FT_CMD_SERVE, 1, argv, err);
    return st ? st : ft_serve_list_store(&s->l, s->serve, err);
}

static void close_store(store *s)
{
    ft_serve_list_release(&s->l);
    ft_opts_free(s->serve);
}

/* ---- list ---- */

static const char *file_of(const ft_serve_model *m)
{
    return m->path ? m->path : ft_opts_text(m->o, "model");
}

/* What the file name says, else what the file has. */
static const char *quantization(const ft_serve_model *m, char out[32])
{
    const char *path = file_of(m), *slash = path ? strrchr(path, '/') : NULL;
    const char *q = path ? ft_name_quantization(slash ? slash + 1 : path, out) : NULL;
    if (path && !q) q = ft_inspect_type(path);
    return q ? q : "unknown";
}

/* Of the file, in UTC. */
static const char *date_of(const ft_serve_model *m, char out[40])
{
    const char *path = file_of(m);
    struct stat st;
    struct tm tm;
    if (!path || stat(path, &st) || !gmtime_r(&st.st_mtime, &tm) ||
        !strftime(out, 40, "%Y-%m-%dT%H:%M:%SZ", &tm))
        return "unknown";
    return out;
}

static json_t *model_json(const ft_serve_model *m)
{
    char type[32], when[40];
    const char *path = file_of(m);
    json_t *j = json_pack("{s:o, s:I, s:s, s:s}", "name", ft_json_string(m->name, strlen(m->name)),
                          "size", (json_int_t)m->bytes, "quantization", quantization(m, type),
                          "modified_at", date_of(m, when));
    if (path) json_object_set_new(j, "file", ft_json_string(path, strlen(path)));
    if (m->sha256) json_object_set_new(j, "digest", json_string(m->sha256));
    if (m->error) json_object_set_new(j, "error", ft_json_string(m->error, strlen(m->error)));
    return j;
}

static void print_json(const ft_serve_list *l)
{
    json_t *all = json_array();
    for (int i = 0; i < l->n; i++) json_array_append_new(all, model_json(&l->at[i]));
    json_t *j =
        json_pack("{s:o, s:o}", "folder", ft_json_string(l->dir, strlen(l->dir)), "models", all);
    char *text = json_dumps(j, JSON_COMPACT);
    puts(text);
    ft_free(text);
    json_decref(j);
}

static void print_text(const ft_serve_list *l)
{
    char size[24], type[32], when[40];
    int width = 4;
    uint64_t bytes = 0;
    for (int i = 0; i < l->n; i++) width = FT_MAX(width, (int)strlen(l->at[i].name));
    if (l->n) printf("%-*s  %10s  %-12s  %s\n", width, "NAME", "SIZE", "QUANTIZATION", "DATE");
    for (int i = 0; i < l->n; i++) {
        const ft_serve_model *m = &l->at[i];
        printf("%-*s  %10s  %-12s  %.10s", width, m->name, ft_human_bytes(size, m->bytes),
               quantization(m, type), date_of(m, when));
        if (m->error) printf("  cannot be loaded: %s", m->error);
        if (m->preset) printf("  settings in models.ini");
        putchar('\n');
        if (m->path) bytes += m->bytes;
    }
    printf("%d model%s, %s in %s\n", l->n, l->n == 1 ? "" : "s", ft_human_bytes(size, bytes),
           l->dir);
}

int ft_cmd_list(const ft_opts *o)
{
    ft_err err;
    store s;
    ft_status st = open_store(&s, &err);
    if (!st && ft_opts_flag(o, "json"))
        print_json(&s.l);
    else if (!st)
        print_text(&s.l);
    if (!st && fflush(stdout) && errno != EPIPE) /* a closed pipe is not an error */
        st = ft_fail_errno(&err, "standard output: write");
    close_store(&s);
    return st ? ft_die(&err) : 0;
}

/* ---- rm ---- */

static void put_names(ft_buf *b, const ft_serve_list *l, const char *text)
{
    const size_t before = b->len;
    for (int i = 0; i < l->n; i++)
        if (!text || ft_name_is(l->at[i].name, l->at[i].aliases, text))
            ft_buf_printf(b, "%s%s", b->len > before ? ", " : "", l->at[i].name);
}

/* The model that text names: its name, or another one that no second model has. */
static ft_status find_model(const ft_serve_list *l, const char *text, int *at, ft_err *err)
{
    int n = 0;
    for (int i = 0; i < l->n; i++) {
        if (!strcmp(l->at[i].name, text)) {
            *at = i;
            return FT_OK;
        }
        if (!ft_name_is(l->at[i].name, l->at[i].aliases, text)) continue;
        *at = i;
        n++;
    }
    if (n == 1) return FT_OK;
    ft_buf names;
    ft_buf_init(&names, 1 << 16);
    put_names(&names, l, n ? text : NULL);
    const ft_status st =
        n      ? ft_fail(err, FT_EINVAL, "\"%.120s\" may be any of %s: name one of them", text,
                         ft_buf_z(&names))
        : l->n ? ft_fail(err, FT_ENOTFOUND, "no model \"%.120s\" in %s, which has %s", text, l->dir,
                         ft_buf_z(&names))
               : ft_fail(err, FT_ENOTFOUND, "no model \"%.120s\": %s has no models", text, l->dir);
    ft_buf_release(&names);
    return st;
}

/* A model of which there is nothing but an unfinished download. */
static ft_status remove_unfinished(const ft_serve_list *l, const char *name, ft_err *err)
{
    ft_removed r = {0};
    char size[24];
    ft_store_unfinished(l, l->dir, name, &r);
    if (!r.files)
        return ft_fail(err, FT_EINVAL, "\"%.120s\" is being downloaded and cannot be removed",
                       name);
    printf("removed the unfinished download of %s: %d file%s, %llu bytes (%s)\n", name, r.files,
           r.files == 1 ? "" : "s", (unsigned long long)r.bytes, ft_human_bytes(size, r.bytes));
    return FT_OK;
}

static ft_status remove_one(ft_serve_list *l, int i, ft_err *err)
{
    ft_removed r = {0};
    char size[24];
    const ft_status st = ft_store_remove(l, i, &r, err);
    if (st) return st;
    l->at[i].gone = true;
    if (r.files)
        printf("removed %s: %d file%s, %llu bytes (%s)\n", l->at[i].name, r.files,
               r.files == 1 ? "" : "s", (unsigned long long)r.bytes, ft_human_bytes(size, r.bytes));
    else
        printf("removed %s: its settings in models.ini, 0 bytes\n", l->at[i].name);
    return FT_OK;
}

/* Nothing is removed unless all names are known. Settings first: they use the files. */
static ft_status remove_all(ft_serve_list *l, const ft_opts *o, ft_err *err)
{
    const int n = ft_opts_n_word(o);
    int *at = ft_alloc(sizeof *at * (size_t)n);
    ft_status st = FT_OK;
    for (int k = 0; k < n && !st; k++) {
        st = find_model(l, ft_opts_word(o, k), &at[k], err);
        if (st != FT_ENOTFOUND || !ft_store_unfinished(l, l->dir, ft_opts_word(o, k), NULL))
            continue;
        at[k] = -1;
        st = FT_OK;
    }
    for (int files = 0; files < 2; files++)
        for (int k = 0; k < n && !st; k++)
            if (at[k] < 0 && files)
                st = remove_unfinished(l, ft_opts_word(o, k), err);
            else if (at[k] >= 0 && !l->at[at[k]].gone && l->at[at[k]].preset == !files)
                st = remove_one(l, at[k], err);
    ft_free(at);
    return st;
}

int ft_cmd_rm(const ft_opts *o)
{
    ft_err err;
    store s;
    ft_status st = open_store(&s, &err);
    if (!st) st = remove_all(&s.l, o, &err);
    close_store(&s);
    return st ? ft_die(&err) : 0;
}
