/* cli/opts.h - parses the command line and the environment by the option rows.
 * base/params.h says what a row is; cli/opts_table.c joins the families of rows. A program asks for
 * values by the option's name; a name that it does not have is a bug of ours and asserts. Values
 * are checked while parsing. An option that is accepted without effect prints one warning line, and
 * one that is not supported is an error; both name the option as it was typed. run, chat, serve and
 * bench accept the options of each other too, with a warning, so that a command line of one works
 * with all four. */
#ifndef FT_CLI_OPTS_H
#define FT_CLI_OPTS_H

#include "base/err.h"
#include "base/params.h"

/* Row i of all options, request parameters without an option included (their programs are 0); NULL
 * after the last. */
const ft_param *ft_opt_row(int i);

typedef struct ft_opts ft_opts;

/* Parses argv[1..] for the program `cmd`. Arguments that are not options ("words") are collected in
 * order; everything after "--" is a word. "--name=value" and "--name value" are the same. */
ft_status ft_opts_parse(ft_opts **out, unsigned cmd, int argc, char **argv, ft_err *err);
/* The same options followed by argv[0..]. Both must outlive *out. */
ft_status ft_opts_more(ft_opts **out, const ft_opts *o, int argc, char **argv, ft_err *err);
void ft_opts_free(ft_opts *o);
/* Prints "foretoken: warning: " and the text as one line. */
void ft_opts_warn(const char *fmt, ...) FT_PRINTF(1, 2);
/* Prints "foretoken: warning: --NAME has no effect: WHY" if the option was given. */
void ft_opts_warn_unused(const ft_opts *o, const char *name, const char *why);

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

/* ---- help (cli/help.c) ---- */

/* Prints the options of a program in groups, wrapped to the terminal's width; all: those too that
 * are rarely needed. */
void ft_opts_help(unsigned cmd, bool all);
/* One line per option for scripts: names, value, group, description, separated by tabs. */
void ft_opts_list(unsigned cmd);

#endif
