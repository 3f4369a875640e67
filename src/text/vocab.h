/* text/vocab.h - the tokens of a model: texts, types, special ids, and the bytes each token prints.
 * Built once from the keys of a GGUF file and independent of it afterwards. Immutable after
 * ft_vocab_open(), so many threads may read and encode (text/bpe.h) with one vocabulary at once.
 * Strings returned here are borrowed until ft_vocab_close(). */
#ifndef FT_TEXT_VOCAB_H
#define FT_TEXT_VOCAB_H

#include "base/err.h"
#include "base/str.h"
#include "gguf/gguf.h"

typedef struct ft_vocab ft_vocab;

typedef enum ft_token_type { /* the numbers of the file format */
                             FT_TOKEN_UNDEFINED = 0,
                             FT_TOKEN_NORMAL = 1,
                             FT_TOKEN_UNKNOWN = 2,
                             FT_TOKEN_CONTROL = 3,
                             FT_TOKEN_USER = 4, /* matched in any text before splitting */
                             FT_TOKEN_UNUSED = 5,
                             FT_TOKEN_BYTE = 6,
} ft_token_type;

#define FT_NO_TOKEN (-1)

/* FT_NO_TOKEN where the vocabulary has none. */
typedef struct ft_vocab_ids {
    int32_t bos, eos, eot, eom, unk, sep, pad, mask;
    int32_t fim_pre, fim_suf, fim_mid, fim_pad, fim_rep, fim_sep;
} ft_vocab_ids;

/* Rejects: missing tokens or merges, an unsupported tokenizer model or pre-tokenizer, lists of
 * different lengths, two tokens with the same text, a merge whose parts or result are not tokens.
 * Special ids outside the vocabulary count as absent. */
ft_status ft_vocab_open(ft_vocab **out, const ft_gguf *g, ft_err *err);
/* Fails, naming the difference, when the draft model and the target do not have the same
 * vocabulary. One of them may have up to `apart` more ids at its end, and the texts of the first
 * five ids, which some files use for special tokens under other names, may differ. */
ft_status ft_vocab_same(const ft_gguf *draft, const ft_gguf *target, int apart, ft_err *err);
void ft_vocab_close(ft_vocab *v); /* accepts NULL */

int32_t ft_vocab_count(const ft_vocab *v);
/* For these an id outside [0, count) is an undefined token with an empty text. */
ft_str ft_vocab_text(const ft_vocab *v, int32_t id); /* as in the file */
ft_token_type ft_vocab_type(const ft_vocab *v, int32_t id);
bool ft_vocab_is_eog(const ft_vocab *v, int32_t id); /* ends a response */
/* The bytes that a token prints, which may be a part of a character. Control and unknown tokens
 * print nothing unless special is set. */
ft_str ft_vocab_piece(const ft_vocab *v, int32_t id, bool special);

/* From now on `alias`, where special tokens are parsed, stands for the text of token id as a user
 * might type it: it is encoded as plain text. */
void ft_vocab_add_alias(ft_vocab *v, const char *alias, int32_t id);
int32_t ft_vocab_find(const ft_vocab *v, ft_str text); /* exact text, else FT_NO_TOKEN */
const ft_vocab_ids *ft_vocab_special(const ft_vocab *v);
bool ft_vocab_add_bos(const ft_vocab *v);
bool ft_vocab_add_eos(const ft_vocab *v);
/* Ids that must never be sampled. */
const int32_t *ft_vocab_suppressed(const ft_vocab *v, size_t *n);

#endif
