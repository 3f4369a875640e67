/* serve/auth.h - access control: API keys, the Host header (DNS rebinding) and CORS origins. */
#ifndef FT_SERVE_AUTH_H
#define FT_SERVE_AUTH_H

#include "base/err.h"

#include <pthread.h>

typedef struct ft_auth {
    pthread_mutex_t lock; /* protects key and n_key, which a reload replaces */
    char **key;
    int n_key;
    const char *keys, *file; /* --api-key and --api-key-file */
    const char *origins;     /* "*", "localhost" or a comma-separated list; "": none */
    const char *hosts;       /* allowed Host names besides localhost, or "*" */
    bool check_host;         /* true when the server listens on loopback */
} ft_auth;

/* keys: comma-separated. file: one key per line, # starts a comment. Both may be NULL. */
ft_status ft_auth_init(ft_auth *g, const char *keys, const char *file, const char *origins,
                       const char *hosts, ft_err *err);
void ft_auth_release(ft_auth *g);
/* Reads the key file again. Returns FT_EINVAL if there is none. If the file is not valid, the
 * current keys stay in use. */
ft_status ft_auth_reload(ft_auth *g, ft_err *err);
bool ft_auth_has_keys(ft_auth *g);
/* Compares in constant time. Either header may be NULL; authorization is "Bearer KEY". With several
 * keys, *id is a number that identifies the key; otherwise it is 0. */
bool ft_auth_allows(ft_auth *g, const char *authorization, const char *api_key, uint64_t *id);

/* Whether the Host header is acceptable. On loopback without API keys, DNS rebinding would let a
 * web page reach the server under its own name, so only IP addresses, localhost and the listed
 * names are allowed. Every host is allowed if there are API keys or the server listens beyond
 * loopback. host may be NULL. */
bool ft_auth_host(ft_auth *g, const char *host);

/* What a web page from another origin may do. */
typedef enum ft_origin {
    FT_ORIGIN_REFUSED,
    FT_ORIGIN_OWN,    /* the server's own page */
    FT_ORIGIN_ANY,    /* the list has "*": allowed without credentials */
    FT_ORIGIN_LOCAL,  /* the list has "localhost": allowed without credentials */
    FT_ORIGIN_LISTED, /* the list names the origin */
} ft_origin;
/* host: the Host header of the request, or NULL. */
ft_origin ft_auth_origin_allowed(const ft_auth *g, const char *origin, const char *host);

#endif
