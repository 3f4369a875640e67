/* text/stop.h - finds stop strings in text that arrives in pieces.
 * The match that is complete first wins; of several complete at the same byte the longest does. So
 * the answer does not depend on how the text was cut into pieces. Text that may be the beginning
 * of a stop string is held back until it is known. */
#ifndef FT_TEXT_STOP_H
#define FT_TEXT_STOP_H

#include "base/buf.h"

enum { FT_STOP_MAX = 64, FT_STOP_BYTES = 256 };

typedef struct ft_stop {
    ft_buf word[FT_STOP_MAX]; /* copies */
    int n;
    ft_buf held;
    int hit; /* index of the word that was found, or -1 */
} ft_stop;

/* Empty words are left out. FT_ELIMIT: too many, or one too long. */
ft_status ft_stop_init(ft_stop *s, const ft_str *words, int n, ft_err *err);
void ft_stop_release(ft_stop *s);
/* Appends to out what may be sent. true once a word was found: out then ends in front of it, and
 * whatever follows is swallowed. */
bool ft_stop_feed(ft_stop *s, ft_str text, ft_buf *out);
/* The text is over: appends what was held back. */
void ft_stop_end(ft_stop *s, ft_buf *out);

#endif
