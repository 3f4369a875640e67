/* tests/vocab_small.h - builds small valid and invalid vocabularies. */
#ifndef FT_TESTS_VOCAB_SMALL_H
#define FT_TESTS_VOCAB_SMALL_H

#include "folder.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "gguf/writer.h"
#include "text/bpe.h"
#include "text/bytemap.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct small_vocab {
    const char *model, *pre;
    ft_str token[800], merge[64];
    int32_t type[800];
    uint32_t n, n_merge, n_type;
    bool no_tokens, no_merges, no_types;
    void (*more)(ft_gguf_writer *w);
    char text[600][8]; /* of the byte tokens */
} small_vocab;

static inline void small_put(small_vocab *s, const char *text, int32_t type)
{
    s->token[s->n] = ft_str_of(text);
    s->type[s->n++] = type;
    s->n_type = s->n;
}

/* "bytes": ids 0..255 are the bytes. "chars": <pad> <eos> <bos> <unk>, bytes from 4 on, some
 * characters. */
static inline small_vocab *small_new(const char *model)
{
    small_vocab *s = ft_new(small_vocab);
    s->model = model;
    s->pre = "qwen35";
    const bool bytes = !strcmp(model, "gpt2");
    if (!bytes) {
        small_put(s, "<pad>", FT_TOKEN_CONTROL);
        small_put(s, "<eos>", FT_TOKEN_NORMAL); /* as in published files */
        small_put(s, "<bos>", FT_TOKEN_CONTROL);
        small_put(s, "<unk>", FT_TOKEN_UNKNOWN);
    }
    for (unsigned b = 0; b < 256; b++) {
        if (bytes)
            s->text[b][ft_utf8_encode(ft_bytemap_char((uint8_t)b), s->text[b])] = 0;
        else
            snprintf(s->text[b], sizeof s->text[b], "<0x%02X>", b);
        small_put(s, s->text[b], bytes ? FT_TOKEN_NORMAL : FT_TOKEN_BYTE);
    }
    if (!bytes)
        for (const char *c = "abcdefghijklmnopqrstuvwxyz\n.,<>|"; *c; c++) {
            s->text[256 + (unsigned char)*c][0] = *c;
            small_put(s, s->text[256 + (unsigned char)*c], FT_TOKEN_NORMAL);
        }
    return s;
}

static inline void small_merge(small_vocab *s, const char *rule)
{
    s->merge[s->n_merge++] = ft_str_of(rule);
}

/* Writes it, opens the file and frees it. */
static inline ft_status small_file(ft_gguf **g, small_vocab *s, ft_err *err)
{
    char dir[64], path[80];
    folder_new(dir);
    snprintf(path, sizeof path, "%s/vocab.gguf", dir);
    ft_gguf_writer *w;
    ft_status st = ft_gguf_writer_open(&w, path, err);
    if (st) goto done;
    ft_gguf_put_str(w, "general.architecture", FT_STR("test"));
    if (s->model) ft_gguf_put_str(w, "tokenizer.ggml.model", ft_str_of(s->model));
    if (s->pre) ft_gguf_put_str(w, "tokenizer.ggml.pre", ft_str_of(s->pre));
    if (!s->no_tokens) ft_gguf_put_str_array(w, "tokenizer.ggml.tokens", s->token, s->n);
    if (!s->no_types)
        ft_gguf_put_array(w, "tokenizer.ggml.token_type", FT_GGUF_I32, s->type, s->n_type);
    if (!s->no_merges) ft_gguf_put_str_array(w, "tokenizer.ggml.merges", s->merge, s->n_merge);
    if (s->more) s->more(w);
    if ((st = ft_gguf_writer_begin(w, err)))
        ft_gguf_writer_abort(w);
    else
        st = ft_gguf_writer_commit(w, err);
    if (!st) st = ft_gguf_open(g, path, true, err);
done:
    folder_free(dir);
    ft_free(s);
    return st;
}

/* The vocabulary of such a file. */
static inline ft_status small_open(ft_vocab **v, small_vocab *s, ft_err *err)
{
    ft_gguf *g = NULL;
    ft_status st = small_file(&g, s, err);
    if (!st) st = ft_vocab_open(v, g, err);
    ft_gguf_close(g); /* the vocabulary does not need the file any more */
    return st;
}

#endif
