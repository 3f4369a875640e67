/* text/bpe.h - encodes text to token ids.
 * Special tokens are cut out of the text first, longest text first and then leftmost. The remaining
 * text is split by the rules of the model and merged, pair of lowest rank first. Bytes that are not
 * valid UTF-8 become byte tokens, so decoding reproduces every byte.
 * Any number of threads may encode with one vocabulary; working memory is taken from a pool. */
#ifndef FT_TEXT_BPE_H
#define FT_TEXT_BPE_H

#include "text/vocab.h"

/* Flags of ft_encode. */
enum {
    FT_BPE_ADD_SPECIAL = 1,   /* add BOS and EOS where the model wants them */
    FT_BPE_PARSE_SPECIAL = 2, /* the text of a control token is that token */
    FT_BPE_NO_NFC = 4,        /* no Unicode normalisation */
};

#define FT_ENCODE_MAX_TEXT ((size_t)1 << 30)

/* A growable list of ids with a maximum set at initialisation, like ft_buf. */
typedef struct ft_ids {
    int32_t *id;
    size_t n, cap, max;
    bool full; /* ids were dropped */
} ft_ids;

void ft_ids_init(ft_ids *l, size_t max);
void ft_ids_release(ft_ids *l);
void ft_ids_put(ft_ids *l, int32_t id);

/* Appends the ids of text. flags: FT_BPE_... FT_ELIMIT when the text is longer
 * than FT_ENCODE_MAX_TEXT or the list is full. */
ft_status ft_encode(const ft_vocab *v, ft_str text, unsigned flags, ft_ids *out, ft_err *err);

#endif
