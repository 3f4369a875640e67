#include "serve/auth.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

#include <strings.h>

#define MAX_KEY_FILE ((size_t)1 << 20)

static void add(ft_auth *g, ft_str k)
{
    while (k.n && strchr(" \t\r", k.p[0])) k.p++, k.n--;
    while (k.n && strchr(" \t\r", k.p[k.n - 1])) k.n--;
    if (!k.n) return;
    g->key = ft_realloc(g->key, sizeof *g->key * (size_t)(g->n_key + 1));
    char *copy = ft_alloc(k.n + 1);
    memcpy(copy, k.p, k.n);
    g->key[g->n_key++] = copy;
}

static void add_all(ft_auth *g, const char *text, char part, bool comments)
{
    while (*text) {
        const char *end = strchr(text, part);
        const size_t n = end ? (size_t)(end - text) : strlen(text);
        if (!comments || text[0] != '#') add(g, (ft_str){text, n});
        text += n + (end != NULL);
    }
}

ft_status ft_auth_init(ft_auth *g, const char *keys, const char *file, const char *origins,
                       ft_err *err)
{
    *g = (ft_auth){.origins = origins ? origins : "*"};
    if (keys) add_all(g, keys, ',', false);
    if (!file) return FT_OK;
    char *text;
    size_t n;
    const ft_status st = ft_file_read(&text, &n, file, MAX_KEY_FILE, err);
    if (st) return st;
    if (text) add_all(g, text, '\n', true);
    ft_free(text);
    /* an empty file must not open the door */
    return g->n_key ? FT_OK : ft_fail(err, FT_EINVAL, "%s: no key in it, want one per line", file);
}

void ft_auth_release(ft_auth *g)
{
    for (int i = 0; i < g->n_key; i++) ft_free(g->key[i]);
    ft_free(g->key);
    *g = (ft_auth){0};
}

/* The time depends on the length of what was given alone. */
static unsigned differ(const char *key, const char *given, size_t n)
{
    const size_t len = strlen(key);
    unsigned d = len != n;
    for (size_t i = 0; i < n; i++) d |= (unsigned)(key[i % len] ^ given[i]);
    return d;
}

bool ft_auth_allows(const ft_auth *g, const char *authorization, const char *api_key)
{
    if (!g->n_key) return true;
    const char *given = api_key ? api_key : "";
    if (authorization && !strncasecmp(authorization, "Bearer ", 7)) given = authorization + 7;
    const size_t n = strlen(given);
    unsigned right = 0;
    for (int i = 0; i < g->n_key; i++) right |= differ(g->key[i], given, n) == 0;
    return right != 0;
}

static bool is_local(const char *origin)
{
    static const char *const host[] = {"localhost", "127.0.0.1", "[::1]"};
    const char *p = strstr(origin, "://");
    if (!p) return false;
    for (size_t i = 0; i < FT_COUNT(host); i++) {
        const size_t n = strlen(host[i]);
        if (!strncasecmp(p + 3, host[i], n) && (!p[3 + n] || p[3 + n] == ':')) return true;
    }
    return false;
}

bool ft_auth_origin_allowed(const ft_auth *g, const char *origin)
{
    const size_t n = strlen(origin);
    for (const char *p = g->origins; *p;) {
        const size_t len = strcspn(p, ",");
        const ft_str one = {p, len};
        if (ft_str_is(one, "*") || (len == n && !memcmp(p, origin, n))) return true;
        if (ft_str_is(one, "localhost") && is_local(origin)) return true;
        p += len + (p[len] == ',');
        while (*p == ' ') p++;
    }
    return false;
}
