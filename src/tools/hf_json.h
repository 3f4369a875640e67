/* tools/hf_json.h - reads the JSON files of a Hugging Face folder.
 * A ft_hf_obj gives typed access to the keys of one object. The first key that is missing, of the
 * wrong type or out of range is kept as the error message, and the functions return the default, so
 * a caller reads all keys and checks for an error once, at the end. */
#ifndef FT_TOOLS_HF_JSON_H
#define FT_TOOLS_HF_JSON_H

#include "base/err.h"
#include "base/str.h"

#include <jansson.h>

/* The file dir/name parsed (json_decref releases it), or *out = NULL when it does not exist. */
ft_status ft_hf_json_load(json_t **out, const char *dir, const char *name, ft_err *err);
ft_status ft_hf_json_parse(json_t **out, const char *text, size_t n, const char *name, ft_err *err);

typedef struct ft_hf_note { /* the first error, shared by all readers of a folder */
    ft_err *err;
    ft_status st;
} ft_hf_note;

typedef struct ft_hf_obj {
    json_t
        *at[2]; /* searched in this order: text_config, then the whole object; either may be NULL */
    const char *file; /* for messages */
    ft_hf_note *note;
} ft_hf_obj;

/* The value, or NULL; JSON null counts as absent. */
json_t *ft_hf_get(const ft_hf_obj *o, const char *key);
bool ft_hf_has(const ft_hf_obj *o, const char *key);
void ft_hf_bad(ft_hf_obj *o, const char *fmt, ...) FT_PRINTF(2, 3); /* keeps the first error */

/* Whole numbers in [lo, hi]. Without a default a missing key is an error. */
int64_t ft_hf_int(ft_hf_obj *o, const char *key, int64_t lo, int64_t hi);
int64_t ft_hf_int_or(ft_hf_obj *o, const char *key, int64_t lo, int64_t hi, int64_t def);
double ft_hf_num_or(ft_hf_obj *o, const char *key, double lo, double hi, double def);
bool ft_hf_bool_or(ft_hf_obj *o, const char *key, bool def);
const char *ft_hf_text_or(ft_hf_obj *o, const char *key, const char *def);
/* The object at key; without any keys when absent. */
ft_hf_obj ft_hf_inner(ft_hf_obj *o, const char *key);

#endif
