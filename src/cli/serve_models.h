/* cli/serve_models.h - which models a server may load: those that -m names, the files of a folder,
 * the sections of a preset; each with its own options. */
#ifndef FT_CLI_SERVE_MODELS_H
#define FT_CLI_SERVE_MODELS_H

#include "cli/opts.h"

typedef struct ft_serve_model {
    char *name;
    ft_opts *o;     /* the program's, and what the preset says for this one */
    uint64_t bytes; /* of its file; 0: not known yet */
} ft_serve_model;

typedef struct ft_serve_list {
    ft_serve_model *at;
    int n;
    int at_once; /* the one to load at the start; -1: none */
    char **text; /* what the options point to */
    int n_text;
} ft_serve_list;

ft_status ft_serve_list_find(ft_serve_list *l, const ft_opts *o, ft_err *err);
void ft_serve_list_release(ft_serve_list *l);

#endif
