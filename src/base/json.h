/* base/json.h - reading JSON with jansson. */
#ifndef FT_BASE_JSON_H
#define FT_BASE_JSON_H

#include <jansson.h>

/* Like json_loadb, but integers beyond 64 bits, which jansson rejects, become reals: JSON allows
 * them, and schemas have bounds such as 18446744073709551615. */
json_t *ft_json_load(const char *p, size_t n, size_t flags, json_error_t *e);

#endif
