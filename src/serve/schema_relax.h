/* serve/schema_relax.h - removes JSON schema keywords that the grammar cannot enforce. */
#ifndef FT_SERVE_SCHEMA_RELAX_H
#define FT_SERVE_SCHEMA_RELAX_H

#include <jansson.h>
#include <stddef.h>

/* Removes each "format" that cannot be enforced, alone or together with a pattern or a length; the
 * schema then accepts more strings. Appends "format NAME at PLACE" for each to note, a string in a
 * buffer of `size` bytes; what does not fit is left out. */
void ft_schema_relax(json_t *schema, char *note, size_t size);

#endif
