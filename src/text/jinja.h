/* text/jinja.h - chat templates: the subset of Jinja used in model files, with Python's semantics.
 *
 * A template is parsed once and rendered any number of times, from many threads at once. Steps
 * (loop iterations, evaluated nodes, copied bytes), memory, output and nesting are limited, so that
 * no template and no input can block a thread or exhaust memory. Error messages name the line of
 * the template.
 *
 * Rendering follows Hugging Face transformers: trim_blocks and lstrip_blocks on, loop controls,
 * `generation` blocks transparent, tojson like Python's json.dumps without ASCII escapes,
 * raise_exception and strftime_now. Rejected: include, import, extends, block, recursive loops,
 * integers over 64 bits. */
#ifndef FT_TEXT_JINJA_H
#define FT_TEXT_JINJA_H

#include "base/buf.h"

#include <jansson.h>

typedef struct ft_jinja ft_jinja;

typedef struct ft_jinja_limits {
    uint64_t steps; /* evaluated nodes, loop iterations, copied bytes */
    size_t memory;  /* bytes of values alive during a rendering */
    size_t output;  /* bytes of the result */
} ft_jinja_limits;

#define FT_JINJA_MAX_SOURCE ((size_t)4 << 20)

/* source is copied. */
ft_status ft_jinja_new(ft_jinja **out, ft_str source, ft_err *err);
void ft_jinja_free(ft_jinja *t);

/* Renders with the members of vars (an object) as the only variables: an absent one is undefined,
 * null is none. Appends to out; on failure out is unchanged. limits may be NULL for the defaults:
 * 100 million steps, 256 MiB, 64 MiB. */
ft_status ft_jinja_render(const ft_jinja *t, const json_t *vars, const ft_jinja_limits *limits,
                          ft_buf *out, ft_err *err);

/* true when the source of the template uses a variable or attribute of this name. */
bool ft_jinja_mentions(const ft_jinja *t, const char *name);

#endif
