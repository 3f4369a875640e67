#define _GNU_SOURCE
#include "cli/serve_store.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/hub.h"
#include "report/names.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { INI_BYTES = 1 << 20, NAME_MAX_BYTES = 120 };

ft_status ft_store_pull(const ft_opts *o, const char *name,
                        bool (*progress)(void *user, const char *file, const char *sha256,
                                         uint64_t got, uint64_t total),
                        void *user, ft_err *err)
{
    static const char *const host[] = {"hf.co/", "huggingface.co/"};
    ft_hub_name hub;
    char *path = NULL, *mmproj = NULL;
    for (size_t i = 0; i < FT_COUNT(host); i++)
        if (!strncmp(name, host[i], strlen(host[i]))) name += strlen(host[i]);
    ft_status st = ft_hub_parse(&hub, name, NULL, err);
    if (st) return st;
    ft_hub_set_token(ft_opts_text(o, "hf-token"));
    ft_hub_watch(progress, user);
    st = ft_hub_take(&hub, false, true, &path, &mmproj, err);
    ft_hub_watch(NULL, NULL);
    ft_free(path);
    ft_free(mmproj);
    return st;
}

/* ---- the file of sections ---- */

static ft_status read_ini(const ft_serve_list *l, char **text, ft_err *err)
{
    size_t n;
    if (ft_file_exists(l->preset)) return ft_file_read(text, &n, l->preset, INI_BYTES, err);
    *text = ft_strdup("");
    return FT_OK;
}

static ft_status write_ini(const ft_serve_list *l, const ft_buf *b, ft_err *err)
{
    ft_out_file *f;
    if (b->len > INI_BYTES)
        return ft_fail(err, FT_ELIMIT, "%s would have %zu bytes, the maximum is %d", l->preset,
                       b->len, INI_BYTES);
    const ft_status st = ft_out_open_private(&f, l->preset, err);
    if (st) return st;
    ft_out_write(f, b->data, b->len);
    return ft_out_commit(f, err);
}

/* The section [name]: from its first line to that of the next one. */
static ft_str find_section(const char *text, const char *name)
{
    const size_t n = strlen(name);
    ft_str s = {NULL, 0};
    for (const char *p = text; *p;) {
        const size_t line = strcspn(p, "\n");
        if (s.p && *p == '[') break;
        if (line == n + 2 && *p == '[' && !memcmp(p + 1, name, n) && p[n + 1] == ']') s.p = p;
        p += line + (p[line] == '\n');
        if (s.p) s.n = (size_t)(p - s.p);
    }
    return s;
}

static bool is_plain_name(const char *name)
{
    const size_t n = strlen(name);
    if (!n || n > NAME_MAX_BYTES || !isalnum((unsigned char)name[0])) return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr("._-:/", name[i])) return false;
    return true;
}

/* ---- a copy with parameters ---- */

static bool has_word(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *p = list; p && *p; p += strspn(p, " ")) {
        const size_t k = strcspn(p, " ");
        if (k == n && !memcmp(p, word, n)) return true;
        p += k;
    }
    return false;
}

/* The option that Ollama's parameter sets; NULL: none. */
static const char *option_of(const char *key)
{
    const ft_param *p;
    if (!strcmp(key, "num_ctx")) return "ctx-size";
    for (int i = 0; (p = ft_opt_row(i)); i++)
        if (p->name && (p->programs & FT_CMD_SERVE) && has_word(p->json[FT_JSON_OLLAMA], key))
            return p->name;
    return NULL;
}

/* Appends "option = value"; the value must survive the reader of presets. */
static ft_status put_value(ft_buf *b, const char *key, const json_t *v, ft_err *err)
{
    const char *text = json_string_value(v), *option = option_of(key);
    if (!option)
        return ft_fail(err, FT_EINVAL,
                       "parameter \"%.60s\" cannot be set for a model, want one such as "
                       "temperature, num_predict or num_ctx",
                       key);
    if (text && (!*text || strpbrk(text, "\r\n") || strchr(" \t", *text) ||
                 strchr(" \t", text[strlen(text) - 1])))
        return ft_fail(err, FT_EINVAL,
                       "parameter %.60s is \"%.60s\", want one line without blanks at its ends",
                       key, text);
    if (text)
        ft_buf_printf(b, "%s = %s\n", option, text);
    else if (json_is_integer(v))
        ft_buf_printf(b, "%s = %lld\n", option, (long long)json_integer_value(v));
    else if (json_is_real(v))
        ft_buf_printf(b, "%s = %.9g\n", option, json_real_value(v));
    else if (json_is_boolean(v))
        ft_buf_printf(b, "%s = %s\n", option, json_is_true(v) ? "true" : "false");
    else
        return ft_fail(err, FT_EINVAL, "parameter %.60s is not a number, a text or a flag", key);
    return FT_OK;
}

static ft_status put_params(ft_buf *b, const char *params, ft_err *err)
{
    json_t *j = json_loads(params, 0, NULL), *v, *one;
    const char *key;
    size_t i;
    ft_status st = FT_OK;
    json_object_foreach(j, key, v)
    {
        if (st) break;
        if (!json_is_array(v))
            st = put_value(b, key, v, err);
        else
            json_array_foreach(v, i, one) if (!st) st = put_value(b, key, one, err);
    }
    json_decref(j);
    return st;
}

/* The lines of model i: those of its section, or its file. */
static void put_original(ft_buf *b, const ft_serve_model *m, const char *ini)
{
    const ft_str s = m->preset ? find_section(ini, m->name) : (ft_str){NULL, 0};
    const size_t head = strlen(m->name) + 3;
    const char *path = ft_opts_text(m->o, "model");
    if (s.p && s.n > head)
        ft_buf_put(b, s.p + head, s.n - head);
    else if (!s.p && path)
        ft_buf_printf(b, "model = %s\n", path);
}

ft_status ft_store_derive(const ft_serve_list *l, const ft_opts *o, int i, const char *name,
                          const char *params, ft_err *err)
{
    char *ini, *plain = ft_strdup(name);
    const size_t n = strlen(plain);
    if (n > 7 && !strcmp(plain + n - 7, ":latest")) plain[n - 7] = 0;
    ft_status st = FT_OK;
    if (!is_plain_name(plain))
        st =
            ft_fail(err, FT_EINVAL, "model name \"%.130s\", want 1 to %d letters, digits and ._-:/",
                    name, NAME_MAX_BYTES);
    if (st || (st = read_ini(l, &ini, err))) {
        ft_free(plain);
        return st;
    }
    ft_buf lines, all;
    ft_buf_init(&lines, 2 * INI_BYTES);
    ft_buf_init(&all, 4 * INI_BYTES);
    ft_buf_printf(&lines, "[%s]\n", plain);
    put_original(&lines, &l->at[i], ini);
    if (params) st = put_params(&lines, params, err);
    if (!st) st = ft_serve_preset_check(ft_buf_z(&lines), o, err);
    ft_buf_printf(&all, "%s%s%s", ini, *ini && ini[strlen(ini) - 1] != '\n' ? "\n" : "",
                  ft_buf_z(&lines));
    if (!st) st = write_ini(l, &all, err);
    ft_buf_release(&lines);
    ft_buf_release(&all);
    ft_free(ini);
    ft_free(plain);
    return st;
}

/* ---- removal ---- */

static ft_status remove_section(const ft_serve_list *l, const char *name, const char *ini,
                                ft_err *err)
{
    const ft_str s = find_section(ini, name);
    if (!s.p) return ft_fail(err, FT_ENOTFOUND, "%s has no section [%s]", l->preset, name);
    ft_buf b;
    ft_buf_init(&b, 2 * INI_BYTES);
    ft_buf_put(&b, ini, (size_t)(s.p - ini));
    ft_buf_puts(&b, s.p + s.n);
    const ft_status st = write_ini(l, &b, err);
    ft_buf_release(&b);
    return st;
}

static bool is_gguf(const char *name)
{
    const size_t n = strlen(name);
    return n > 5 && !strcasecmp(name + n - 5, ".gguf");
}

/* Whether the path is that of an unfinished download: FILE.gguf.part. */
static bool is_unfinished(const char *path)
{
    const size_t n = strlen(path);
    return n > 10 && !strcasecmp(path + n - 10, ".gguf.part");
}

/* Removes an unfinished download, unless a process is still writing it. */
static void remove_unfinished(const char *path, ft_removed *r)
{
    struct stat st;
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return;
    if (!flock(fd, LOCK_EX | LOCK_NB) && !fstat(fd, &st) && S_ISREG(st.st_mode) && !unlink(path)) {
        r->bytes += (uint64_t)st.st_size;
        r->files++;
    }
    close(fd);
}

static void remove_file(const char *path, ft_removed *r)
{
    struct stat st;
    ft_buf b;
    ft_buf_init(&b, 1 << 16);
    ft_buf_printf(&b, "%s.sha256", path);
    if (!stat(path, &st) && !unlink(path)) {
        r->bytes += (uint64_t)st.st_size;
        r->files++;
    }
    unlink(ft_buf_z(&b));
    ft_buf_clear(&b);
    ft_buf_printf(&b, "%s.part", path);
    remove_unfinished(ft_buf_z(&b), r);
    ft_buf_release(&b);
}

/* Calls each(FOLDER/NAME) for what is in the folder until it returns true. */
static bool any_entry(const char *folder, bool (*each)(const char *path, ft_removed *r),
                      ft_removed *r)
{
    DIR *d = opendir(folder);
    bool found = false;
    for (struct dirent *e; d && !found && (e = readdir(d));) {
        ft_buf path;
        if (e->d_name[0] == '.') continue;
        ft_buf_init(&path, 1 << 16);
        ft_buf_printf(&path, "%s/%s", folder, e->d_name);
        found = each(ft_buf_z(&path), r);
        ft_buf_release(&path);
    }
    if (d) closedir(d);
    return found;
}

static bool is_folder(const char *path)
{
    struct stat st;
    return !lstat(path, &st) && S_ISDIR(st.st_mode);
}

/* A model file, perhaps unfinished, or a folder with one. */
static bool has_model(const char *path, ft_removed *r)
{
    if (is_folder(path)) return any_entry(path, has_model, r);
    return (is_gguf(path) || is_unfinished(path)) && !strcasestr(ft_file_name(path), "mmproj");
}

static bool remove_tower(const char *path, ft_removed *r)
{
    if (is_folder(path)) return false;
    if (is_gguf(path)) remove_file(path, r);
    if (is_unfinished(path)) remove_unfinished(path, r);
    return false;
}

/* A vision tower without a model is of no use; then the folder is empty. So may be those above it,
 * up to that of the store. */
static void remove_leftovers(const ft_serve_list *l, char *folder, ft_removed *r)
{
    const size_t root = strlen(l->dir);
    while (strlen(folder) > root && !any_entry(folder, has_model, r)) {
        any_entry(folder, remove_tower, r);
        if (rmdir(folder)) break; /* fails unless it is empty */
        *strrchr(folder, '/') = 0;
    }
}

/* The file, and the other parts of a split model. */
static ft_status remove_parts(const ft_serve_list *l, const char *path, ft_removed *r, ft_err *err)
{
    char *file;
    if (access(path, F_OK)) return ft_fail(err, FT_ENOTFOUND, "%s: %s", path, strerror(errno));
    for (int k = 1; (file = ft_serve_part(path, k)); k++) {
        remove_file(file, r);
        ft_free(file);
    }
    if (!access(path, F_OK))
        return ft_fail(err, FT_EIO, "%s cannot be removed: %s", path, strerror(errno));
    file = ft_strdup(path);
    *strrchr(file, '/') = 0;
    remove_leftovers(l, file, r);
    ft_free(file);
    return FT_OK;
}

/* Whether an unfinished download, of one part or all, is that of the model `name`. */
static bool is_unfinished_of(const char *path, const char *name)
{
    char *file = ft_strdup(ft_file_name(path));
    file[strlen(file) - 10] = 0;
    char *part = strstr(file, "-of-");
    if (part && part - file > 6 && part[-6] == '-') part[-6] = 0;
    const bool same = ft_name_is(file, NULL, name);
    ft_free(file);
    return same;
}

int ft_store_unfinished(const ft_serve_list *l, const char *folder, const char *name, ft_removed *r)
{
    DIR *d = opendir(folder);
    const int before = r ? r->files : 0;
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        ft_buf b;
        if (e->d_name[0] == '.') continue;
        ft_buf_init(&b, 1 << 16);
        ft_buf_printf(&b, "%s/%s", folder, e->d_name);
        const char *path = ft_buf_z(&b);
        if (is_folder(path)) {
            n += ft_store_unfinished(l, path, name, r);
        } else if (is_unfinished(path) && is_unfinished_of(path, name)) {
            n++;
            if (r) remove_unfinished(path, r);
        }
        ft_buf_release(&b);
    }
    if (d) closedir(d);
    if (r && r->files > before) {
        char *empty = ft_strdup(folder);
        remove_leftovers(l, empty, r);
        ft_free(empty);
    }
    return n;
}

/* The section that uses the file; NULL: none. */
static const char *user_of(const ft_serve_list *l, const char *path)
{
    for (int k = 0; k < l->n; k++) {
        const char *used = ft_opts_text(l->at[k].o, "model");
        if (l->at[k].preset && !l->at[k].gone && used && !strcmp(used, path)) return l->at[k].name;
    }
    return NULL;
}

ft_status ft_store_remove(const ft_serve_list *l, int i, ft_removed *r, ft_err *err)
{
    const ft_serve_model *m = &l->at[i];
    char *ini;
    if (m->path) {
        const char *user = user_of(l, m->path);
        if (user)
            return ft_fail(err, FT_EINVAL, "%s is used by %s; delete that first", m->name, user);
        return remove_parts(l, m->path, r, err);
    }
    if (!m->preset)
        return ft_fail(err, FT_EINVAL, "%s is not in the store and cannot be deleted", m->name);
    ft_status st = read_ini(l, &ini, err);
    if (st) return st;
    st = remove_section(l, m->name, ini, err);
    ft_free(ini);
    return st;
}
