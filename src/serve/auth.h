/* serve/auth.h - who may ask: keys, and pages from other origins. */
#ifndef FT_SERVE_AUTH_H
#define FT_SERVE_AUTH_H

#include "base/err.h"

typedef struct ft_auth {
    char **key;
    int n_key;
    const char *origins; /* "*", "localhost", or a list separated by commas */
} ft_auth;

/* keys separated by commas, and a file with one per line and # comments; either may be NULL. */
ft_status ft_auth_init(ft_auth *g, const char *keys, const char *file, const char *origins,
                       ft_err *err);
void ft_auth_release(ft_auth *g);
/* Takes as long whether the key is right, nearly right or wrong. Either may be NULL. authorization
 * is "Bearer KEY". */
bool ft_auth_allows(const ft_auth *g, const char *authorization, const char *api_key);
/* May a page from this origin read our answers? */
bool ft_auth_origin_allowed(const ft_auth *g, const char *origin);

#endif
