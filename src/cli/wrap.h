/* cli/wrap.h - breaks text between words at the width of the terminal while it is printed. A word
 * that does not fit is erased with control sequences and printed again on the next line, so nothing
 * is held back. */
#ifndef FT_CLI_WRAP_H
#define FT_CLI_WRAP_H

#include "base/buf.h"

typedef struct ft_wrap {
    int width;        /* columns of the terminal; 0: no wrapping */
    int column;       /* of the cursor */
    char word[256];   /* the bytes of the word that is being printed; a longer one is not moved */
    size_t n;         /* of word */
    int word_columns; /* -1: too long to be moved */
    unsigned char part[4]; /* of a character whose last bytes are to come */
    int n_part;
} ft_wrap;

/* Appends the bytes to print for text to out. */
void ft_wrap_put(ft_wrap *w, ft_buf *out, const char *text, size_t n);
/* The cursor is at the start of a line. */
void ft_wrap_restart(ft_wrap *w);

#endif
