/* serve/schema_relax.h - removes JSON schema keywords that the grammar cannot enforce. */
#ifndef FT_SERVE_SCHEMA_RELAX_H
#define FT_SERVE_SCHEMA_RELAX_H

#include "serve/params.h"

/* Removes the keywords that a grammar cannot enforce from the schema, which then accepts more
 * documents, and appends each to a->ignored ("KEYWORD at PATH") and to a->warnings. *text: the
 * schema that remains; the caller frees it with free(). param: the field, for errors; where: prefix
 * of the paths. Fails if the schema is invalid or contradicts itself. */
bool ft_schema_relax(ft_gen_params *a, const json_t *schema, const char *param, const char *where,
                     char **text, ft_http_error *error);

#endif
