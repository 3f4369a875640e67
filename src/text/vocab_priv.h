/* text/vocab_priv.h - the vocabulary as built by text/vocab.c and read by text/bpe.c. Private to
 * these two. */
#ifndef FT_TEXT_VOCAB_PRIV_H
#define FT_TEXT_VOCAB_PRIV_H

#include "base/dict.h"
#include "text/merge.h"
#include "text/merge_tree.h"
#include "text/pretok.h"
#include "text/special.h"
#include "text/vocab.h"

typedef enum ft_vocab_family {
    FT_FAMILY_BYTES, /* byte-level: pieces are split by a pattern, symbols are bytes */
    FT_FAMILY_CHARS, /* Gemma 4: pieces are lines, symbols are characters, with byte fallback */
} ft_vocab_family;

/* Single characters to ids; pages exist only where the vocabulary has characters. */
typedef struct ft_char_ids {
    uint32_t *page[0x110000 >> 8];
} ft_char_ids;

typedef struct ft_encoder_pool ft_encoder_pool;

struct ft_vocab {
    ft_vocab_family family;
    int32_t n;
    char *text_data, *piece_data;
    ft_str *text, *piece; /* piece: as printed, for every type */
    uint8_t *type;
    bool *eog;
    ft_dict by_text;
    ft_vocab_ids ids;
    bool add_bos, add_eos;
    int32_t *suppress;
    size_t n_suppress;

    ft_merges merges;
    ft_merge_tree *tree; /* NULL: the rules do not allow a tree; encoding merges instead */
    ft_special special;  /* ids below -1: the text of token -2 - id, as plain text */
    char **alias;        /* [n_alias]: of ft_vocab_add_alias */
    size_t n_alias;
    uint32_t byte_sym[256]; /* the symbol (bytes) or fallback token (chars) of each byte */
    ft_pretok *pretok;      /* bytes */
    ft_char_ids *chars;     /* chars */
    bool joins_space[256];  /* chars: some rule joins this last byte with a space after it */
    ft_encoder_pool *pool;  /* text/bpe.c */
};

ft_encoder_pool *ft_encoder_pool_new(void);
void ft_encoder_pool_free(ft_encoder_pool *p);

#endif
