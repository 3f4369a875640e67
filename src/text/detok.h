/* text/detok.h - decodes ids to text one at a time, in complete UTF-8 characters.
 * A character may span tokens: its first bytes are held back until the rest arrives or until they
 * turn out to be invalid UTF-8. The concatenation of all results is the concatenation of all
 * pieces. */
#ifndef FT_TEXT_DETOK_H
#define FT_TEXT_DETOK_H

#include "base/buf.h"
#include "text/vocab.h"

typedef struct ft_detok {
    const ft_vocab *v;
    bool special;   /* print control tokens too */
    char held[4];   /* the beginning of a character */
    uint8_t n_held; /* 0..3 */
} ft_detok;

void ft_detok_init(ft_detok *d, const ft_vocab *v, bool special);
/* Appends the characters that are complete to out. */
void ft_detok_push(ft_detok *d, int32_t id, ft_buf *out);
/* Appends the bytes held back; the object can be used again. */
void ft_detok_flush(ft_detok *d, ft_buf *out);

#endif
