/* api/vocab.c - the vocabulary functions of foretoken.h. */
#include "base/buf.h"
#include "base/mem.h"
#include "foretoken.h"
#include "text/bpe.h"

#define MAX_IDS       ((size_t)1 << 31)
#define MAX_TEXT_BACK ((size_t)1 << 32)

ft_status ft_vocab_load(ft_vocab **out, const char *path, ft_err *err)
{
    ft_gguf *g;
    ft_status st = ft_gguf_open(&g, path, true, err);
    if (st) return st;
    if ((st = ft_vocab_open(out, g, err))) ft_err_prefix(err, "%s", path);
    ft_gguf_close(g);
    return st;
}

void ft_vocab_free(ft_vocab *v)
{
    ft_vocab_close(v);
}

_Static_assert((int)FT_ENCODE_ADD_SPECIAL == (int)FT_BPE_ADD_SPECIAL &&
                   (int)FT_ENCODE_PARSE_SPECIAL == (int)FT_BPE_PARSE_SPECIAL &&
                   (int)FT_ENCODE_NO_NFC == (int)FT_BPE_NO_NFC,
               "the flags of foretoken.h are passed on as they are");

ft_status ft_vocab_encode(const ft_vocab *v, const char *text, size_t bytes, unsigned flags,
                          int32_t **ids, size_t *n_ids, ft_err *err)
{
    ft_ids l;
    ft_ids_init(&l, MAX_IDS);
    const ft_status st = ft_encode(v, (ft_str){text, bytes}, flags, &l, err);
    if (st) {
        ft_ids_release(&l);
        return st;
    }
    *ids = l.id;
    *n_ids = l.n;
    return FT_OK;
}

ft_status ft_vocab_decode(const ft_vocab *v, const int32_t *ids, size_t n_ids, bool special,
                          char **text, size_t *bytes, ft_err *err)
{
    ft_buf b;
    ft_buf_init(&b, MAX_TEXT_BACK);
    for (size_t i = 0; i < n_ids; i++) {
        if (ids[i] < 0 || ids[i] >= ft_vocab_count(v)) {
            ft_buf_release(&b);
            return ft_fail(err, FT_EINVAL, "id %d, want one from 0 to %d", ids[i],
                           ft_vocab_count(v) - 1);
        }
        ft_buf_put_str(&b, ft_vocab_piece(v, ids[i], special));
    }
    if (b.full) {
        ft_buf_release(&b);
        return ft_fail(err, FT_ELIMIT, "the text of %zu ids is longer than %zu bytes", n_ids,
                       MAX_TEXT_BACK);
    }
    *bytes = b.len;
    *text = b.data ? ft_buf_take(&b) : ft_strdup("");
    return FT_OK;
}

ft_infill_ids ft_vocab_infill(const ft_vocab *v)
{
    const ft_vocab_ids *s = ft_vocab_special(v);
    return (ft_infill_ids){s->fim_pre, s->fim_suf, s->fim_mid, s->fim_sep};
}
