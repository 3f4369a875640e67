/* serve/auth.h - which requests are let in: API keys, names in Host, pages from other origins. */
#ifndef FT_SERVE_AUTH_H
#define FT_SERVE_AUTH_H

#include "base/err.h"

#include <pthread.h>

typedef struct ft_auth {
    pthread_mutex_t lock; /* key, n_key: a reload replaces them */
    char **key;
    int n_key;
    const char *keys, *file; /* where they come from */
    const char *origins;     /* "*", "localhost", or a list separated by commas; "": none */
    const char *hosts;       /* names that Host may have beside localhost, or "*" */
    bool check_host;         /* listening on loopback */
} ft_auth;

/* keys separated by commas, and a file with one per line and # comments; any may be NULL. */
ft_status ft_auth_init(ft_auth *g, const char *keys, const char *file, const char *origins,
                       const char *hosts, ft_err *err);
void ft_auth_release(ft_auth *g);
/* Reads the file again. FT_EINVAL: there is none; a file that is wrong leaves the keys as they are.
 */
ft_status ft_auth_reload(ft_auth *g, ft_err *err);
bool ft_auth_has_keys(ft_auth *g);
/* Takes as long whether the key is right, nearly right or wrong. Either may be NULL. authorization
 * is "Bearer KEY". *id is a number that only requests with the same key have when there are several
 * keys, else 0. */
bool ft_auth_allows(ft_auth *g, const char *authorization, const char *api_key, uint64_t *id);

/* Is this name ours? On loopback without keys a page could otherwise give the address its own name
 * (DNS rebinding). Addresses, localhost and the listed names are; everything is when there are
 * keys, or when the server listens beyond loopback. host may be NULL. */
bool ft_auth_host(ft_auth *g, const char *host);

/* How a page from an origin stands to this server. */
typedef enum ft_origin {
    FT_ORIGIN_REFUSED,
    FT_ORIGIN_OWN,    /* our own page */
    FT_ORIGIN_ANY,    /* the list has "*": never with credentials */
    FT_ORIGIN_LOCAL,  /* the list has "localhost": the same */
    FT_ORIGIN_LISTED, /* the list names it */
} ft_origin;
/* host: the request's Host, or NULL. */
ft_origin ft_auth_origin_allowed(const ft_auth *g, const char *origin, const char *host);

#endif
