#define _GNU_SOURCE
#include "cli/hub.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "report/names.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { LISTING_MAX = 16 << 20, PARTS_MAX = 1000 };

/* ---- names ---- */

static bool plain_part(const char *s, size_t n)
{
    if (!n || s[0] == '.' || s[0] == '-') return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && !strchr("._-", s[i])) return false;
    return true;
}

/* Is a path of the listing safe to use locally? It must not leave the folder. */
static bool plain_path(const char *s)
{
    if (strlen(s) > 240) return false;
    for (;;) {
        const size_t n = strcspn(s, "/");
        if (!plain_part(s, n)) return false;
        if (!s[n]) return true;
        s += n + 1;
    }
}

ft_status ft_hub_parse(ft_hub_name *out, const char *text, const char *file, ft_err *err)
{
    *out = (ft_hub_name){0};
    const size_t n = strcspn(text, ":"), user = strcspn(text, "/");
    const char *quant = text[n] ? text + n + 1 : "";
    if (user >= n || n >= sizeof out->repo || !plain_part(text, user) ||
        !plain_part(text + user + 1, n - user - 1))
        return ft_fail(err, FT_EINVAL, "model name \"%.80s\", want USER/NAME or USER/NAME:QUANT",
                       text);
    if ((text[n] && !plain_part(quant, strlen(quant))) || strlen(quant) >= sizeof out->quant)
        return ft_fail(err, FT_EINVAL, "quant \"%.40s\" of the model name, want one like Q4_K_M",
                       quant);
    if (file && (!plain_path(file) || strlen(file) >= sizeof out->file))
        return ft_fail(err, FT_EINVAL, "file name \"%.80s\", want the path of a file in %.80s",
                       file, text);
    memcpy(out->repo, text, n);
    memcpy(out->quant, quant, strlen(quant) + 1);
    if (file) memcpy(out->file, file, strlen(file) + 1);
    return FT_OK;
}

static char *join(const char *a, const char *b)
{
    const size_t n = strlen(a), m = strlen(b);
    char *s = ft_alloc(n + m + 2);
    memcpy(s, a, n);
    s[n] = '/';
    memcpy(s + n + 1, b, m + 1);
    return s;
}

ft_status ft_hub_folder(char **out, ft_err *err)
{
    const char *own = getenv("FT_MODELS"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (own && *own)
        *out = ft_strdup(own);
    else if (xdg && *xdg)
        *out = join(xdg, "foretoken");
    else if (home && *home)
        *out = join(home, ".cache/foretoken");
    else
        return ft_fail(err, FT_EINVAL, "no folder for models: set FT_MODELS or HOME");
    return FT_OK;
}

/* CACHE/USER--NAME */
static ft_status folder_of(const char *repo, char **out, ft_err *err)
{
    char name[256], *root;
    const ft_status st = ft_hub_folder(&root, err);
    if (st) return st;
    const size_t user = strcspn(repo, "/");
    snprintf(name, sizeof name, "%.*s--%s", (int)user, repo, repo + user + 1);
    *out = join(root, name);
    ft_free(root);
    return FT_OK;
}

static ft_status make_folders(const char *path, ft_err *err)
{
    char *p = ft_strdup(path);
    ft_status st = FT_OK;
    for (char *s = p + 1; !st && s; s = strchr(s + 1, '/')) {
        char *slash = strchr(s, '/');
        if (!slash) break;
        *slash = 0;
        if (mkdir(p, 0777) && errno != EEXIST)
            st = ft_fail(err, FT_EIO, "%s: cannot create the folder: %s", p, strerror(errno));
        *slash = '/';
        s = slash;
    }
    ft_free(p);
    return st;
}

/* ---- which file ---- */

/* Does the name have the quant as a word: "-Q4_K_M." and not "Q4_K" in it? */
static bool has_quant(const char *name, const char *quant)
{
    const size_t n = strlen(quant);
    for (const char *p = name; *p; p++) {
        const bool before = p == name || !(isalnum((unsigned char)p[-1]) || p[-1] == '_');
        if (before && !strncasecmp(p, quant, n) && !isalnum((unsigned char)p[n]) && p[n] != '_')
            return true;
    }
    return false;
}

int ft_hub_choose(const char *const *path, int n, const char *quant, ft_err *err)
{
    static const char *const LIKED[] = {"Q4_K_M", "Q5_K_M", "Q8_0", "Q6_K",
                                        "Q4_K_S", "Q4_0",   "BF16", "F16"};
    char seen[300] = "";
    int any = -1;
    for (int i = 0; i < n; i++) {
        if (!ft_name_is_model(path[i])) continue;
        if (*quant && has_quant(ft_file_name(path[i]), quant)) return i;
        if (any < 0) any = i;
        const size_t used = strlen(seen);
        snprintf(seen + used, sizeof seen - used, "%s%s", used ? ", " : "", ft_file_name(path[i]));
    }
    if (any < 0) {
        ft_fail(err, FT_ENOTFOUND, "no GGUF model among its %d files", n);
        return -1;
    }
    if (*quant) {
        ft_fail(err, FT_ENOTFOUND, "no file for %s; available: %s", quant, seen);
        return -1;
    }
    for (size_t k = 0; k < FT_COUNT(LIKED); k++)
        for (int i = 0; i < n; i++)
            if (ft_name_is_model(path[i]) && has_quant(ft_file_name(path[i]), LIKED[k])) return i;
    return any;
}

/* The types that converters write by default come first. */
int ft_hub_choose_mmproj(const char *const *path, int n)
{
    static const char *const LIKED[] = {"BF16", "F16", "Q8_0", "F32"};
    int any = -1;
    for (size_t k = 0; k < FT_COUNT(LIKED); k++)
        for (int i = 0; i < n; i++) {
            if (!ft_name_is_mmproj(path[i])) continue;
            if (has_quant(ft_file_name(path[i]), LIKED[k])) return i;
            if (any < 0) any = i;
        }
    return any;
}

/* ---- fetching ---- */

typedef struct listing {
    const char **path, **sha256;
    uint64_t *bytes;
    int n;
    json_t *json;
} listing;

static void listing_release(listing *l)
{
    ft_free(l->path);
    ft_free(l->sha256);
    ft_free(l->bytes);
    json_decref(l->json);
}

static const char *hub_token;

void ft_hub_set_token(const char *token)
{
    hub_token = token;
}

static const char *endpoint(void)
{
    const char *e = getenv("HF_ENDPOINT");
    return e && *e ? e : "https://huggingface.co";
}

static ft_status listing_read(listing *l, const char *repo, ft_err *err)
{
    char url[600], *text;
    size_t n;
    snprintf(url, sizeof url, "%.250s/api/models/%s/tree/main?recursive=true", endpoint(), repo);
    const ft_status st = ft_hub_get((ft_hub_url){url, hub_token}, LISTING_MAX, &text, &n, err);
    if (st) return st;
    *l = (listing){.json = json_loadb(text, n, 0, NULL)};
    ft_free(text);
    if (!json_is_array(l->json)) {
        json_decref(l->json);
        return ft_fail(err, FT_EFORMAT, "%.200s: the listing is not a JSON array", url);
    }
    const size_t all = json_array_size(l->json);
    l->path = ft_new_n(const char *, all + 1);
    l->sha256 = ft_new_n(const char *, all + 1);
    l->bytes = ft_new_n(uint64_t, all + 1);
    for (size_t i = 0; i < all; i++) {
        const json_t *e = json_array_get(l->json, i), *lfs = json_object_get(e, "lfs");
        const char *path = json_string_value(json_object_get(e, "path"));
        const char *sum = json_string_value(json_object_get(lfs, "oid"));
        const json_int_t bytes = json_integer_value(json_object_get(lfs ? lfs : e, "size"));
        if (!path || !plain_path(path) || bytes <= 0) continue;
        l->path[l->n] = path;
        l->sha256[l->n] = sum && strlen(sum) == 64 ? sum : "";
        l->bytes[l->n++] = (uint64_t)bytes;
    }
    return FT_OK;
}

static int find_path(const listing *l, const char *path)
{
    for (int i = 0; i < l->n; i++)
        if (!strcmp(l->path[i], path)) return i;
    return -1;
}

/* Is there a local copy of the right length that was checked against this sum? */
static bool is_here(const char *path, uint64_t bytes, const char *sha256)
{
    struct stat st;
    if (stat(path, &st) || (uint64_t)st.st_size != bytes) return false;
    if (!*sha256) return true;
    char *note = ft_alloc(strlen(path) + 8), *text = NULL;
    size_t n;
    sprintf(note, "%s.sha256", path);
    const bool same =
        !ft_file_read(&text, &n, note, 256, NULL) && n >= 64 && !memcmp(text, sha256, 64);
    ft_free(text);
    ft_free(note);
    return same;
}

static ft_status fetch_one(const listing *l, int i, const char *repo, const char *folder,
                           bool quiet, char **path, ft_err *err)
{
    char url[900];
    *path = join(folder, l->path[i]);
    ft_status st = FT_OK;
    if (is_here(*path, l->bytes[i], l->sha256[i])) return FT_OK;
    snprintf(url, sizeof url, "%.250s/%s/resolve/main/%s", endpoint(), repo, l->path[i]);
    if (!(st = make_folders(*path, err)))
        st = ft_hub_fetch((ft_hub_url){url, hub_token}, *path, l->bytes[i], l->sha256[i], quiet,
                          err);
    if (!st) return FT_OK;
    ft_free(*path);
    *path = NULL;
    return st;
}

/* The other parts of a split model: "-00002-of-00003" and so on. */
static ft_status fetch_parts(const listing *l, int first, const char *repo, const char *folder,
                             bool quiet, ft_err *err)
{
    const char *path = l->path[first], *at = strstr(ft_file_name(path), "-00001-of-");
    const int parts = at ? atoi(at + 10) : 1;
    if (parts > PARTS_MAX)
        return ft_fail(err, FT_ELIMIT, "%s: %d parts, at most %d are supported", path, parts,
                       PARTS_MAX);
    for (int k = 2; k <= parts; k++) {
        char name[300], *got;
        snprintf(name, sizeof name, "%.*s-%05d%s", (int)(at - path), path, k, at + 6);
        const int i = find_path(l, name);
        if (i < 0)
            return ft_fail(err, FT_ENOTFOUND, "%s: part %d of %d is missing", path, k, parts);
        const ft_status st = fetch_one(l, i, repo, folder, quiet, &got, err);
        if (st) return st;
        ft_free(got);
    }
    return FT_OK;
}

/* ---- copies ---- */

typedef struct copies {
    const char **path;
    int n, cap;
} copies;

static void walk(const char *folder, const char *below, int depth,
                 void (*each)(void *, const char *, uint64_t), void *user)
{
    DIR *d = opendir(folder);
    if (!d) return;
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.') continue;
        char *path = join(folder, e->d_name);
        char *name = *below ? join(below, e->d_name) : ft_strdup(e->d_name);
        struct stat st;
        if (!stat(path, &st) && S_ISDIR(st.st_mode) && depth < 4)
            walk(path, name, depth + 1, each, user);
        else if (!stat(path, &st) && S_ISREG(st.st_mode))
            each(user, name, (uint64_t)st.st_size);
        ft_free(path);
        ft_free(name);
    }
    closedir(d);
}

static void keep_copy(void *user, const char *name, uint64_t bytes)
{
    copies *c = user;
    (void)bytes;
    if (c->n == c->cap) {
        c->cap = c->cap ? c->cap * 2 : 16;
        c->path = ft_realloc(c->path, (size_t)c->cap * sizeof *c->path);
    }
    c->path[c->n++] = ft_strdup(name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A local copy, without network access. */
static ft_status take_copy(const ft_hub_name *name, const char *folder, char **path, char **mmproj,
                           ft_err *err)
{
    copies c = {0};
    ft_err why;
    walk(folder, "", 0, keep_copy, &c);
    if (c.n) qsort(c.path, (size_t)c.n, sizeof *c.path, by_name);
    int i = -1;
    if (*name->file)
        for (int k = 0; k < c.n; k++) i = strcmp(c.path[k], name->file) ? i : k;
    else
        i = ft_hub_choose(c.path, c.n, name->quant, &why);
    const int tower = mmproj && i >= 0 ? ft_hub_choose_mmproj(c.path, c.n) : -1;
    if (i >= 0) *path = join(folder, c.path[i]);
    if (tower >= 0) *mmproj = join(folder, c.path[tower]);
    for (int k = 0; k < c.n; k++) ft_free((void *)(uintptr_t)c.path[k]);
    ft_free(c.path);
    if (i >= 0) return FT_OK;
    return ft_fail(err, FT_ENOTFOUND, "%s: no local copy in %s", name->repo, folder);
}

static void fetch_mmproj(const listing *l, const char *repo, const char *folder, bool quiet,
                         char **mmproj)
{
    ft_err why;
    const int i = mmproj ? ft_hub_choose_mmproj(l->path, l->n) : -1;
    if (i >= 0 && fetch_one(l, i, repo, folder, quiet, mmproj, &why))
        ft_log(FT_LOG_WARN, "the vision tower cannot be downloaded: %s", why.text);
}

ft_status ft_hub_take(const ft_hub_name *name, bool offline, bool quiet, char **path, char **mmproj,
                      ft_err *err)
{
    char *folder;
    listing l = {0};
    ft_status st = folder_of(name->repo, &folder, err);
    if (st) return st;
    if (offline) {
        st = take_copy(name, folder, path, mmproj, err);
    } else if ((st = listing_read(&l, name->repo, err))) {
        /* The host cannot be reached: use a local copy, with a warning. */
        if (st == FT_EIO && !take_copy(name, folder, path, mmproj, NULL)) {
            ft_log(FT_LOG_WARN, "%s; using the local copy in %s",
                   err ? err->text : "the host does not respond", folder);
            st = FT_OK;
        }
    } else {
        ft_err why = {0};
        const int i =
            *name->file ? find_path(&l, name->file) : ft_hub_choose(l.path, l.n, name->quant, &why);
        if (i < 0)
            st = ft_fail(err, FT_ENOTFOUND, "%s: %s", name->repo,
                         *name->file ? "no such file" : why.text);
        else if (!(st = fetch_one(&l, i, name->repo, folder, quiet, path, err)) &&
                 (st = fetch_parts(&l, i, name->repo, folder, quiet, err)))
            ft_free(*path);
        if (!st) fetch_mmproj(&l, name->repo, folder, quiet, mmproj);
        listing_release(&l);
    }
    ft_free(folder);
    return st;
}

/* ---- addresses ---- */

/* CACHE/HOST--url/FILE; a query and a fragment are no part of the name. */
static ft_status url_path(const char *url, char **path, ft_err *err)
{
    const bool https = !strncmp(url, "https://", 8), http = !strncmp(url, "http://", 7);
    const char *host = url + (https ? 8 : 7);
    const size_t h = https || http ? strcspn(host, "/?#:") : 0, end = strcspn(host, "?#");
    size_t from = end;
    while (from > h && host[from - 1] != '/') from--;
    char name[512];
    if (!h || from <= h || end == from || !plain_part(host, h) ||
        !plain_part(host + from, end - from) || end - from > 240 || h > 200)
        return ft_fail(err, FT_EINVAL, "address \"%.120s\", want http(s)://HOST/PATH/FILE.gguf",
                       url);
    snprintf(name, sizeof name, "%.*s--url/%.*s", (int)h, host, (int)(end - from), host + from);
    char *root;
    const ft_status st = ft_hub_folder(&root, err);
    if (st) return st;
    *path = join(root, name);
    ft_free(root);
    return FT_OK;
}

ft_status ft_hub_take_url(const char *url, bool offline, bool quiet, char **path, ft_err *err)
{
    uint64_t bytes = 0;
    const ft_hub_url from = {url, NULL};
    char *to;
    ft_status st = url_path(url, &to, err);
    if (st) return st;
    if (!offline && ft_file_exists(to)) offline = true; /* addresses have no sums to compare */
    if (offline && !ft_file_exists(to))
        st = ft_fail(err, FT_ENOTFOUND, "%.200s: no local copy at %s", url, to);
    if (!offline) st = ft_hub_size(from, &bytes, err);
    if (!st && !offline) st = make_folders(to, err);
    if (!st && !offline) st = ft_hub_fetch(from, to, bytes, "", quiet, err);
    if (st)
        ft_free(to);
    else
        *path = to;
    return st;
}

typedef struct lister {
    void (*each)(void *, const char *, const char *, uint64_t, bool);
    void *user;
} lister;

static void list_one(void *user, const char *name, uint64_t bytes)
{
    const lister *l = user;
    char repo[256];
    const char *slash = strchr(name, '/'), *dash = strstr(name, "--");
    const size_t n = strlen(name);
    const bool part = n > 5 && !strcmp(name + n - 5, ".part");
    if (!slash || !dash || dash > slash || n - (size_t)(slash - name) > 255) return;
    if (!part && (n < 5 || strcasecmp(name + n - 5, ".gguf"))) return;
    snprintf(repo, sizeof repo, "%.*s/%.*s", (int)FT_MIN(dash - name, 120), name,
             (int)FT_MIN(slash - dash - 2, 120), dash + 2);
    l->each(l->user, repo, slash + 1, bytes, !part);
}

ft_status ft_hub_each(void (*each)(void *user, const char *repo, const char *file, uint64_t bytes,
                                   bool whole),
                      void *user, ft_err *err)
{
    char *root;
    const ft_status st = ft_hub_folder(&root, err);
    if (st) return st;
    walk(root, "", 0, list_one, &(lister){each, user});
    ft_free(root);
    return FT_OK;
}
