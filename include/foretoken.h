/* foretoken.h - the public C API of foretoken, an inference engine for GGUF models.
 *
 * This page is the whole interface: programs include this header and link libforetoken.
 * Every function that can fail returns ft_status and, when err is not NULL, leaves one sentence
 * there that names the thing, the value found and the value wanted. */
#ifndef FORETOKEN_H
#define FORETOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- errors -------------------------------------------------------------------------------- */

typedef enum ft_status {
    FT_OK = 0,
    FT_EFORMAT = -1,      /* bytes that do not follow their format */
    FT_EUNSUPPORTED = -2, /* well formed, but nothing we can use */
    FT_ELIMIT = -3,       /* larger than a limit we set */
    FT_ENOMEM = -4,
    FT_EIO = -5,    /* the operating system said no */
    FT_EINVAL = -6, /* a wrong argument or option */
    FT_ENOTFOUND = -7,
    FT_ECANCELLED = -8,
    FT_EDEVICE = -9,
} ft_status;

typedef struct ft_err {
    ft_status code;
    char text[500]; /* one sentence, lower case, no newline */
} ft_err;

/* ---- version ------------------------------------------------------------------------------- */

/* "0.1.0 (commit)". Never NULL. */
const char *ft_version(void);

/* ---- vocabulary ---------------------------------------------------------------------------- */

/* The tokens of a model. It never changes, so many threads may use one at once. */
typedef struct ft_vocab ft_vocab;

enum {                              /* flags for encoding */
       FT_ENCODE_ADD_SPECIAL = 1,   /* begin and end as the model wants: BOS, EOS */
       FT_ENCODE_PARSE_SPECIAL = 2, /* the text of a control token is that token */
       FT_ENCODE_NO_NFC = 4,        /* leave the text as it is: no Unicode normalisation */
};

/* From a GGUF file: a model, or a file with a vocabulary and no tensors. */
ft_status ft_vocab_load(ft_vocab **out, const char *path, ft_err *err);
void ft_vocab_free(ft_vocab *v); /* accepts NULL */
/* *ids is yours: free(). text may hold any bytes; they come back when decoded. */
ft_status ft_vocab_encode(const ft_vocab *v, const char *text, size_t bytes, unsigned flags,
                          int32_t **ids, size_t *n_ids, ft_err *err);
/* *text is yours: free(). It is followed by a zero byte and may be no UTF-8 when the ids are not
 * those of a whole text. special: print control tokens too. */
ft_status ft_vocab_decode(const ft_vocab *v, const int32_t *ids, size_t n_ids, bool special,
                          char **text, size_t *bytes, ft_err *err);

/* ---- chat templates ------------------------------------------------------------------------ */

/* A parsed Jinja chat template. It never changes, so many threads may render one at once. */
typedef struct ft_template ft_template;

/* From source text, or from a GGUF file's tokenizer.chat_template (its bos and eos texts then are
 * the variables bos_token and eos_token unless the rendering gives its own). */
ft_status ft_template_new(ft_template **out, const char *source, size_t bytes, ft_err *err);
ft_status ft_template_load(ft_template **out, const char *path, ft_err *err);
void ft_template_free(ft_template *t); /* accepts NULL */
/* json: an object whose members are the variables; an absent one is undefined, null is none.
 * *text is yours: free(). It is followed by a zero byte. */
ft_status ft_template_render(const ft_template *t, const char *json, size_t bytes, char **text,
                             size_t *text_bytes, ft_err *err);

#ifdef __cplusplus
}
#endif
#endif
