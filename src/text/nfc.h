/* text/nfc.h - Unicode normalisation form C in time linear in the length. Uses utf8proc. */
#ifndef FT_TEXT_NFC_H
#define FT_TEXT_NFC_H

#include "base/buf.h"

/* false: s is in form C already. s is valid UTF-8. */
bool ft_nfc_needed(ft_str s);
/* Appends s in form C. Code point memory is borrowed from *work (ft_free it; starts as NULL). */
typedef struct ft_nfc_work {
    int32_t *c;
    size_t cap;
} ft_nfc_work;
void ft_nfc(ft_str s, ft_nfc_work *work, ft_buf *out);
void ft_nfc_work_release(ft_nfc_work *work);

#endif
