/* text/stop.h - finds stop strings in text that arrives in pieces.
 * The first match to be complete is used, and of several that end at the same byte the longest, so
 * the result does not depend on how the text was split. Text that may be the beginning of a stop
 * string is held back until it is decided. */
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

/* Empty words are ignored. FT_ELIMIT: too many words, or one is too long. */
ft_status ft_stop_init(ft_stop *s, const ft_str *words, int n, ft_err *err);
void ft_stop_release(ft_stop *s);
/* Appends the text that may be sent to out. true once a word was found: out then ends before it,
 * and the text after it is dropped. */
bool ft_stop_feed(ft_stop *s, ft_str text, ft_buf *out);
/* End of the text: appends the bytes held back. */
void ft_stop_end(ft_stop *s, ft_buf *out);

#endif
