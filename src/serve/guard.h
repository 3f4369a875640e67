/* serve/guard.h - who may ask: keys, and pages from other origins. */
#ifndef FT_SERVE_GUARD_H
#define FT_SERVE_GUARD_H

#include "base/err.h"

typedef struct ft_guard {
    char **key;
    int n_key;
    const char *origins; /* "*", "localhost", or a list separated by commas */
} ft_guard;

/* keys separated by commas, and a file with one per line and # comments; either may be NULL. */
ft_status ft_guard_init(ft_guard *g, const char *keys, const char *file, const char *origins,
                        ft_err *err);
void ft_guard_release(ft_guard *g);
/* Takes as long whether the key is right, nearly right or wrong. Either may be NULL. authorization
 * is "Bearer KEY". */
bool ft_guard_allows(const ft_guard *g, const char *authorization, const char *api_key);
/* May a page from this origin read our answers? */
bool ft_guard_origin(const ft_guard *g, const char *origin);

#endif
