/* fuzz/utf8.c - strict UTF-8, normalisation, and the split patterns on arbitrary bytes. */
#include "base/utf8.h"
#include "base/buf.h"
#include "base/mem.h"
#include "text/nfc.h"
#include "text/pretok.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(bool ok)
{
    if (!ok) abort();
}

/* Decoding advances over all bytes, and encoding an accepted character gives the same bytes. */
static void decode(ft_str s)
{
    bool valid = true;
    for (size_t i = 0; i < s.n;) {
        int len;
        char b[4];
        const uint32_t c = ft_utf8_decode(s.p + i, s.n - i, &len);
        check(len >= 1 && len <= 4 && i + (size_t)len <= s.n);
        if (c == FT_UTF8_BAD)
            valid = false;
        else
            check(ft_utf8_encode(c, b) == len && !memcmp(b, s.p + i, (size_t)len));
        i += (size_t)len;
    }
    check(valid == ft_utf8_valid(s));
    check(ft_utf8_partial(s) <= 3 && (!valid || ft_utf8_partial(s) == 0));
}

/* Normalisation is idempotent, and a text that does not need it is not changed. */
static void normalise(ft_str s)
{
    ft_nfc_work w = {0};
    ft_buf once, twice;
    ft_buf_init(&once, 1 << 24);
    ft_buf_init(&twice, 1 << 24);
    ft_nfc(s, &w, &once);
    ft_nfc(ft_buf_str(&once), &w, &twice);
    check(!once.full && ft_str_eq(ft_buf_str(&once), ft_buf_str(&twice)));
    check(ft_utf8_valid(ft_buf_str(&once)));
    if (!ft_nfc_needed(s)) check(ft_str_eq(ft_buf_str(&once), s));
    ft_buf_release(&once);
    ft_buf_release(&twice);
    ft_nfc_work_release(&w);
}

static void split(ft_str s, ft_str name)
{
    ft_pretok *p;
    check(!ft_pretok_open(&p, name, NULL));
    ft_pretok_work *w = ft_pretok_work_new(p);
    for (size_t i = 0, len; i < s.n; i += len) {
        len = ft_pretok_pattern(p, w, s, i);
        check(len > 0 && i + len <= s.n);
        const size_t fast = ft_pretok_ascii(s, i);
        check(!fast || fast == len);
    }
    ft_pretok_work_free(w);
    ft_pretok_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char *copy = ft_alloc(n ? n : 1); /* exact size, so that overreads are detected */
    const ft_str s = {memcpy(copy, data, n), n};
    decode(s);
    if (ft_utf8_valid(s)) {
        normalise(s);
        split(s, FT_STR("qwen35"));
        split(s, FT_STR("qwen2"));
    }
    ft_free(copy);
    return 0;
}
