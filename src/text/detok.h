/* text/detok.h - ids to text, one at a time, never half a character.
 * A character may span tokens: its first bytes wait here until the rest has come, or until it is
 * clear that they are no UTF-8. Nothing is lost or changed: the concatenation of all results is
 * the concatenation of all pieces. */
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
/* Appends to out what has become complete. */
void ft_detok_push(ft_detok *d, int32_t id, ft_buf *out);
/* Appends what still waits; the object can be used again. */
void ft_detok_flush(ft_detok *d, ft_buf *out);

#endif
