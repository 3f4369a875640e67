/* text/schema.h - compiles JSON schemas to grammars.
 * Every keyword is enforced, or the schema is rejected with the keyword and its path; a document
 * that matches the grammar validates. The reverse does not hold: some valid spellings of a document
 * do not match (docs/grammar.md lists them). Documents are compact JSON with at most one space
 * where JSON allows white space, and properties come in the order of the schema. */
#ifndef FT_TEXT_SCHEMA_H
#define FT_TEXT_SCHEMA_H

#include "base/buf.h"
#include "text/grammar.h"

#define FT_SCHEMA_TEXT_MAX  ((size_t)1 << 20)
#define FT_SCHEMA_RULES_MAX 20000
#define FT_SCHEMA_GBNF_MAX  ((size_t)8 << 20)

/* Appends the grammar, whose first rule is "root". FT_EUNSUPPORTED: a keyword that cannot be
 * enforced; FT_EINVAL: keywords that contradict each other or have a wrong value; FT_EFORMAT: not
 * JSON. */
ft_status ft_schema_gbnf(ft_buf *out, ft_str schema, ft_err *err);
/* The same, compiled. */
ft_status ft_schema_grammar(ft_grammar **out, ft_str schema, ft_err *err);

#endif
