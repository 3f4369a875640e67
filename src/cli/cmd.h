/* cli/cmd.h - the programs of `foretoken NAME`. Each reads its arguments and options, prints, and
 * returns the exit code. */
#ifndef FT_CLI_CMD_H
#define FT_CLI_CMD_H

#include "base/str.h"
#include "cli/opts.h"

typedef struct ft_cmd {
    const char *name;
    unsigned bit;
    int (*run)(const ft_opts *o);
    const char *words; /* its arguments, for the usage line */
    const char *help;
    int min_words, max_words;
} ft_cmd;

int ft_cmd_tokenize(const ft_opts *o);
int ft_cmd_template(const ft_opts *o);

extern const ft_cmd ft_cmd_table[]; /* ends with name == NULL */

int ft_cmd_inspect(const ft_opts *o);
int ft_cmd_synth(const ft_opts *o);

/* Prints "foretoken: MESSAGE" on standard error. Returns 1, the exit code. */
int ft_die(const ft_err *err);

/* Prints the command line that uses a file which convert or quantize has written. */
void ft_print_usage_of(const char *path, ft_str arch);

int ft_cmd_convert(const ft_opts *o);
int ft_cmd_quantize(const ft_opts *o);
int ft_cmd_run(const ft_opts *o);
int ft_cmd_chat(const ft_opts *o);
int ft_cmd_serve(const ft_opts *o);
int ft_cmd_perplexity(const ft_opts *o);
int ft_cmd_bench(const ft_opts *o);
int ft_cmd_kvbench(const ft_opts *o);
int ft_cmd_pull(const ft_opts *o);
int ft_cmd_list(const ft_opts *o);
int ft_cmd_rm(const ft_opts *o);
int ft_pull_list(void); /* prints the local copies; the exit code */

#endif
