/* cli/line.h - reads messages from the terminal or standard input: with line editing and history if
 * libedit was found and there is a terminal. */
#ifndef FT_CLI_LINE_H
#define FT_CLI_LINE_H

#include "cli/term.h"

typedef struct ft_line ft_line;

typedef enum ft_line_end {
    FT_LINE_OK,
    FT_LINE_EOF,
    FT_LINE_INTERRUPTED, /* Ctrl-C: the line is discarded */
} ft_line_end;

/* history: a file for the messages typed, or NULL. command(i): the commands that Tab completes; it
 * completes file names elsewhere. */
ft_line *ft_line_new(const ft_term *t, const char *history, const char *(*command)(int i));
void ft_line_free(ft_line *l); /* accepts NULL; writes the history */

/* One message: a line; a line that ends in a backslash continues on the next one; a line that
 * begins with """ continues until one that ends with """. Lines that are pasted into a terminal are
 * one message; while it is edited and in the history a line break is shown as U+23CE. *text is
 * borrowed until the next call. */
ft_line_end ft_line_read(ft_line *l, const char **text, size_t *bytes);

#endif
