/* cli/opts.h - the one table of options (name, default, help) that every program and the server
 * read. A program asks for values by the option's canonical name; a typo there is our bug and
 * asserts. Values are checked against the table while parsing: a wrong one is one sentence. */
#ifndef FT_CLI_OPTS_H
#define FT_CLI_OPTS_H

#include "base/err.h"

/* Programs that take an option, as bits. */
enum {
    FT_CMD_RUN = 1 << 0,
    FT_CMD_CHAT = 1 << 1,
    FT_CMD_SERVE = 1 << 2,
    FT_CMD_BENCH = 1 << 3,
    FT_CMD_PERPLEXITY = 1 << 4,
    FT_CMD_INSPECT = 1 << 5,
    FT_CMD_CONVERT = 1 << 6,
    FT_CMD_QUANTIZE = 1 << 7,
    FT_CMD_SYNTH = 1 << 8,
    FT_CMD_TOKENIZE = 1 << 9,
    FT_CMD_TEMPLATE = 1 << 10,
    FT_CMD_KVBENCH = 1 << 11,
    FT_CMD_PULL = 1 << 12,
    FT_CMD_MODEL = FT_CMD_RUN | FT_CMD_CHAT | FT_CMD_SERVE | FT_CMD_BENCH | FT_CMD_PERPLEXITY |
                   FT_CMD_KVBENCH, /* all that load a model to run it */
    FT_CMD_ANY = (1 << 13) - 1,
};

typedef enum ft_opt_kind {
    FT_OPT_FLAG,   /* no value; "no-NAME" unsets it */
    FT_OPT_INT,    /* lo..hi */
    FT_OPT_FLOAT,  /* lo..hi */
    FT_OPT_TEXT,   /* any string */
    FT_OPT_CHOICE, /* one of choices, separated by '|' */
    FT_OPT_LIST,   /* any string, may be given many times */
} ft_opt_kind;

typedef struct ft_opt {
    const char *name;    /* canonical, without dashes: "ctx-size" */
    const char *aliases; /* as typed, separated by spaces: "-c"; NULL for none */
    ft_opt_kind kind;
    unsigned cmds;
    const char *def;  /* as it would be typed; NULL: unset */
    const char *what; /* name of the value in the help: "N"; or the choices: "f32|f16" */
    double lo, hi;
    const char *env; /* environment variables that set it, separated by spaces; or NULL */
    const char *help;
} ft_opt;

extern const ft_opt ft_opt_table[]; /* ends with name == NULL */

typedef struct ft_opts ft_opts;

/* Parses argv[1..] for the program `cmd`. Words that are not options are collected in order;
 * everything after "--" is one of them. "--name=value" and "--name value" are the same. */
ft_status ft_opts_parse(ft_opts **out, unsigned cmd, int argc, char **argv, ft_err *err);
/* The same options with further ones, argv[0..], behind them; both must live. */
ft_status ft_opts_more(ft_opts **out, const ft_opts *o, int argc, char **argv, ft_err *err);
void ft_opts_free(ft_opts *o);

bool ft_opts_has(const ft_opts *o, const char *name); /* this program takes it */
bool ft_opts_set(const ft_opts *o, const char *name); /* given by the user or the environment */
bool ft_opts_flag(const ft_opts *o, const char *name);
int64_t ft_opts_int(const ft_opts *o, const char *name);
double ft_opts_float(const ft_opts *o, const char *name);
const char *ft_opts_text(const ft_opts *o, const char *name); /* NULL when unset */
int ft_opts_count(const ft_opts *o, const char *name);        /* times given, for lists */
const char *ft_opts_at(const ft_opts *o, const char *name, int i);
int ft_opts_n_word(const ft_opts *o);
const char *ft_opts_word(const ft_opts *o, int i);

/* The option list of a program, for --help. */
void ft_opts_help(unsigned cmd);

#endif
