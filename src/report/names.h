/* report/names.h - names of models, as the command line and the server read them. */
#ifndef FT_REPORT_NAMES_H
#define FT_REPORT_NAMES_H

#include <stdbool.h>

/* Whether text is the name or one of the aliases (comma-separated, or NULL): exactly, or without
 * the folder, ".gguf" and ":latest". */
bool ft_name_is(const char *name, const char *aliases, const char *text);

/* The quantization that a name of a model ends with, such as "Q4_K_M"; NULL: it has none. */
const char *ft_name_quantization(const char *name, char out[32]);

/* Whether a file is a vision tower, by its name: it contains "mmproj". */
bool ft_name_is_mmproj(const char *path);

/* Whether a file is a model, by its name: a GGUF file that is neither a vision tower, nor an
 * importance matrix, nor a further part of a split model. */
bool ft_name_is_model(const char *path);

#endif
