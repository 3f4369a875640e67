/* cli/serve_models.h - the models that a server can load: those named with -m, the files of a
 * folder, the sections of a preset; each with its own options. */
#ifndef FT_CLI_SERVE_MODELS_H
#define FT_CLI_SERVE_MODELS_H

#include "cli/opts.h"

typedef struct ft_serve_model {
    char *name;
    ft_opts *o;     /* the program's options, followed by those of the preset */
    uint64_t bytes; /* of its file; 0: not known yet */
} ft_serve_model;

typedef struct ft_serve_list {
    ft_serve_model *at;
    int n;
    int at_once; /* the model to load at start; -1: none */
    char **text; /* what the options point to */
    int n_text;
} ft_serve_list;

ft_status ft_serve_list_find(ft_serve_list *l, const ft_opts *o, ft_err *err);
void ft_serve_list_release(ft_serve_list *l);

#endif
