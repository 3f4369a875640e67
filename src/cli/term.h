/* cli/term.h - the terminal: whether there is one, colours, and Ctrl-C. */
#ifndef FT_CLI_TERM_H
#define FT_CLI_TERM_H

#include "base/buf.h"

#define FT_EXIT_INTERRUPTED 130 /* what a shell reports for a program that Ctrl-C ended */

typedef enum ft_style {
    FT_STYLE_NONE,
    FT_STYLE_ANSWER,
    FT_STYLE_THOUGHT,
    FT_STYLE_CALL,
    FT_STYLE_PROMPT,
    FT_STYLE_NOTE,
} ft_style;

typedef struct ft_term {
    bool in, out, err;         /* these are terminals */
    bool colour, colour_notes; /* on standard output and standard error */
} ft_term;

/* when: "on", "off" or "auto": on a terminal, unless NO_COLOR is set. */
ft_term ft_term_open(const char *when);
/* The bytes that begin a style; "" without colours. FT_STYLE_NONE ends any. */
const char *ft_style_begin(bool colour, ft_style s);

/* Prints text of a model. Control characters other than newline and tab become U+FFFD, so that the
 * text cannot send commands to the terminal. */
void ft_term_put(const char *text, size_t n);
/* The same, appended to out. */
void ft_term_clean(ft_buf *out, const char *text, size_t n);
/* Columns of standard output; 0: it is not a terminal. */
int ft_term_width(const ft_term *t);

/* One dim line on standard error. */
void ft_term_note(const ft_term *t, const char *fmt, ...) FT_PRINTF(2, 3);

/* ---- Ctrl-C ---- */

typedef enum ft_on_interrupt {
    FT_INTERRUPT_EXITS, /* the program ends at once with FT_EXIT_INTERRUPTED */
    FT_INTERRUPT_STOPS, /* ft_interrupted() becomes true; the third time the program ends */
} ft_on_interrupt;

/* Sets the mode, and clears earlier interrupts. */
void ft_interrupt_mode(ft_on_interrupt m);
bool ft_interrupted(void);

#endif
