/* serve/schema_relax.h - schemas that ask for more than a grammar can hold to. */
#ifndef FT_SERVE_SCHEMA_RELAX_H
#define FT_SERVE_SCHEMA_RELAX_H

#include <jansson.h>
#include <stddef.h>

/* Takes every "format" out of the schema that cannot be held to, alone or beside a pattern or a
 * length: it only narrows what a text may be. Appends "format NAME at PLACE" for each to note,
 * which has room for `size` bytes and begins as a string; what does not fit is left out. */
void ft_schema_relax(json_t *schema, char *note, size_t size);

#endif
