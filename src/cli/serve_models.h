/* cli/serve_models.h - the models that a server can load: those named with -m, the files of a
 * folder, the sections of a preset; each with its own options. */
#ifndef FT_CLI_SERVE_MODELS_H
#define FT_CLI_SERVE_MODELS_H

#include "cli/opts.h"

typedef struct ft_serve_model {
    char *name;
    ft_opts *o;     /* the program's options, followed by those of the preset */
    uint64_t bytes; /* of its file; 0: not known yet */
    char *path;     /* of a file in the folder; NULL: it is not from there */
    char *error;    /* why that file is not a model; NULL: it may be one */
    char *aliases;  /* of a downloaded one: USER/NAME:QUANT and so on, comma-separated; or NULL */
    char *sha256;   /* of a downloaded one, in hex; or NULL */
    bool gone;      /* the file, or its section of the preset, was removed */
    bool preset;    /* it is a section of the preset */
} ft_serve_model;

typedef struct ft_serve_list {
    ft_serve_model *at;
    int n;
    int at_once; /* the model to load at start; -1: none */
    char **text; /* what the options point to */
    int n_text;
    char *dir;          /* the folder of models, or the store of foretoken pull; NULL: none */
    const char *preset; /* the file of a preset, or the sections of the store; NULL: none */
} ft_serve_list;

ft_status ft_serve_list_find(ft_serve_list *l, const ft_opts *o, ft_err *err);
/* Adds the files that are new in l->dir and the sections that are new in l->preset, and marks those
 * that were removed. The options of a section stay those that were read first. */
ft_status ft_serve_list_scan(ft_serve_list *l, const ft_opts *o, ft_err *err);
/* Checks the text of a preset: its form, and the values of its options. */
ft_status ft_serve_preset_check(const char *text, const ft_opts *o, ft_err *err);
/* Reads the metadata of a model's file. */
ft_status ft_serve_model_check(const ft_serve_model *m, ft_err *err);
void ft_serve_list_release(ft_serve_list *l);

#endif
