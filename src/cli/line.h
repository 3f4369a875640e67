/* cli/line.h - reading what a person types, line by line: with editing and history where libedit
 * was found and there is a terminal, plainly otherwise. */
#ifndef FT_CLI_LINE_H
#define FT_CLI_LINE_H

#include "cli/term.h"

typedef struct ft_line ft_line;

typedef enum ft_line_end {
    FT_LINE_OK,
    FT_LINE_EOF,
    FT_LINE_INTERRUPTED, /* Ctrl-C: what was typed is gone */
} ft_line_end;

/* history: a file that keeps the lines, or NULL. */
ft_line *ft_line_new(const ft_term *t, const char *history);
void ft_line_free(ft_line *l); /* accepts NULL; writes the history */

/* One message: a line; lines that end in a backslash go on; a line that begins with """ goes on
 * until one that ends so. *text is borrowed until the next call. */
ft_line_end ft_line_read(ft_line *l, const char **text, size_t *bytes);

#endif
