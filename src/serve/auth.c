#include "serve/auth.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/str.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <strings.h>

#define MAX_KEY_FILE ((size_t)1 << 20)

typedef struct keys {
    char **at;
    int n;
} keys;

static void add(keys *k, ft_str one)
{
    while (one.n && strchr(" \t\r", one.p[0])) one.p++, one.n--;
    while (one.n && strchr(" \t\r", one.p[one.n - 1])) one.n--;
    if (!one.n) return;
    k->at = ft_realloc(k->at, sizeof *k->at * (size_t)(k->n + 1));
    char *copy = ft_alloc(one.n + 1);
    memcpy(copy, one.p, one.n);
    copy[one.n] = 0;
    k->at[k->n++] = copy;
}

static void add_all(keys *k, const char *text, char part, bool comments)
{
    while (*text) {
        const char *end = strchr(text, part);
        const size_t n = end ? (size_t)(end - text) : strlen(text);
        if (!comments || text[0] != '#') add(k, (ft_str){text, n});
        text += n + (end != NULL);
    }
}

static void release(keys *k)
{
    for (int i = 0; i < k->n; i++) ft_free(k->at[i]);
    ft_free(k->at);
    *k = (keys){0};
}

static ft_status read_keys(keys *k, const char *list, const char *file, ft_err *err)
{
    *k = (keys){0};
    if (list) add_all(k, list, ',', false);
    if (!file) return FT_OK;
    char *text;
    size_t n;
    const ft_status st = ft_file_read(&text, &n, file, MAX_KEY_FILE, err);
    if (st) {
        release(k);
        return st;
    }
    const int before = k->n;
    if (text) add_all(k, text, '\n', true);
    ft_free(text);
    if (k->n > before) return FT_OK; /* an empty key file must not disable authentication */
    release(k);
    return ft_fail(err, FT_EINVAL, "%s has no key, want one per line", file);
}

ft_status ft_auth_init(ft_auth *g, const char *list, const char *file, const char *origins,
                       const char *hosts, ft_err *err)
{
    keys k;
    *g = (ft_auth){.keys = list, .file = file, .origins = origins ? origins : ""};
    g->hosts = hosts ? hosts : "";
    pthread_mutex_init(&g->lock, NULL);
    const ft_status st = read_keys(&k, list, file, err);
    g->key = k.at;
    g->n_key = k.n;
    return st;
}

void ft_auth_release(ft_auth *g)
{
    keys k = {g->key, g->n_key};
    release(&k);
    pthread_mutex_destroy(&g->lock);
    *g = (ft_auth){0};
}

ft_status ft_auth_reload(ft_auth *g, ft_err *err)
{
    keys k;
    if (!g->file) return ft_fail(err, FT_EINVAL, "there is no --api-key-file to read again");
    const ft_status st = read_keys(&k, g->keys, g->file, err);
    if (st) return st;
    pthread_mutex_lock(&g->lock);
    keys old = {g->key, g->n_key};
    g->key = k.at;
    g->n_key = k.n;
    pthread_mutex_unlock(&g->lock);
    release(&old);
    return FT_OK;
}

bool ft_auth_has_keys(ft_auth *g)
{
    pthread_mutex_lock(&g->lock);
    const bool any = g->n_key > 0;
    pthread_mutex_unlock(&g->lock);
    return any;
}

/* Constant time: depends only on the length of what the client sent. */
static unsigned differ(const char *key, const char *given, size_t n)
{
    const size_t len = strlen(key);
    unsigned d = len != n;
    for (size_t i = 0; i < n; i++) d |= (unsigned)(key[i % len] ^ given[i]);
    return d;
}

static uint64_t id_of(const char *key, size_t n)
{
    char hex[65];
    ft_sha256 sum;
    ft_sha256_init(&sum);
    ft_sha256_add(&sum, key, n);
    ft_sha256_hex(&sum, hex);
    hex[16] = 0;
    return strtoull(hex, NULL, 16) | 1; /* 0 means no key */
}

bool ft_auth_allows(ft_auth *g, const char *authorization, const char *api_key, uint64_t *id)
{
    const char *given = api_key ? api_key : "";
    if (authorization && !strncasecmp(authorization, "Bearer ", 7)) given = authorization + 7;
    const size_t n = strlen(given);
    unsigned right = 0;
    pthread_mutex_lock(&g->lock);
    const int n_key = g->n_key;
    for (int i = 0; i < n_key; i++) right |= differ(g->key[i], given, n) == 0;
    pthread_mutex_unlock(&g->lock);
    *id = right && n_key > 1 ? id_of(given, n) : 0;
    return !n_key || right != 0;
}

/* ---- Host and Origin ---- */

/* Whether the comma-separated list has the text or "*". */
static bool listed(const char *list, const char *text)
{
    const size_t n = strlen(text);
    for (const char *p = list; *p;) {
        const size_t len = strcspn(p, ",");
        if ((len == 1 && *p == '*') || (len == n && !strncasecmp(p, text, n))) return true;
        p += len + (p[len] == ',');
        while (*p == ' ') p++;
    }
    return false;
}

/* Splits "name:port" or "[address]:port"; name receives the part before the port, without
 * brackets. */
static bool split_host(const char *host, char name[256])
{
    const bool bracket = host[0] == '[';
    const size_t n = strcspn(host + bracket, bracket ? "]" : ":");
    if (!n || n > 255) return false;
    memcpy(name, host + bracket, n);
    name[n] = 0;
    return true;
}

static bool is_address(const char *name)
{
    struct in6_addr a;
    return inet_pton(AF_INET, name, &a) == 1 || inet_pton(AF_INET6, name, &a) == 1;
}

static bool is_localhost(const char *name)
{
    const size_t n = strlen(name);
    return !strcasecmp(name, "localhost") || (n > 10 && !strcasecmp(name + n - 10, ".localhost"));
}

bool ft_auth_host(ft_auth *g, const char *host)
{
    char name[256];
    if (!g->check_host || !host || ft_auth_has_keys(g)) return true;
    if (!split_host(host, name)) return false;
    return is_address(name) || is_localhost(name) || listed(g->hosts, name) ||
           listed(g->hosts, host);
}

static bool is_loopback(const char *name)
{
    return is_localhost(name) || !strcmp(name, "127.0.0.1") || !strcmp(name, "::1");
}

ft_origin ft_auth_origin_allowed(const ft_auth *g, const char *origin, const char *host)
{
    char name[256];
    const char *p = strstr(origin, "://"), *at = p ? p + 3 : NULL;
    if (at && host && !strcasecmp(at, host)) return FT_ORIGIN_OWN;
    if (listed(g->origins, "*")) return FT_ORIGIN_ANY;
    if (strcmp(origin, "*") && listed(g->origins, origin)) return FT_ORIGIN_LISTED;
    if (listed(g->origins, "localhost") && at && split_host(at, name) && is_loopback(name))
        return FT_ORIGIN_LOCAL;
    return FT_ORIGIN_REFUSED;
}
