/* text/stop.c - searches a stream for stop strings. */
#include "text/stop.h"

#include "base/mem.h"

ft_status ft_stop_init(ft_stop *s, const ft_str *words, int n, ft_err *err)
{
    memset(s, 0, sizeof *s);
    s->hit = -1;
    ft_buf_init(&s->held, (size_t)1 << 30);
    for (int i = 0; i < n; i++) {
        if (!words[i].n) continue;
        if (words[i].n > FT_STOP_BYTES || s->n == FT_STOP_MAX) {
            ft_stop_release(s);
            if (words[i].n > FT_STOP_BYTES)
                return ft_fail(err, FT_ELIMIT, "stop string %d has %zu bytes, want at most %d", i,
                               words[i].n, FT_STOP_BYTES);
            return ft_fail(err, FT_ELIMIT, "more than %d stop strings", FT_STOP_MAX);
        }
        ft_buf_init(&s->word[s->n], FT_STOP_BYTES);
        ft_buf_put_str(&s->word[s->n++], words[i]);
    }
    return FT_OK;
}

void ft_stop_release(ft_stop *s)
{
    for (int i = 0; i < s->n; i++) ft_buf_release(&s->word[i]);
    ft_buf_release(&s->held);
    s->n = 0;
}

/* The longest word that ends at `end` of the text, or -1. */
static int word_at(const ft_stop *s, ft_str text, size_t end)
{
    int best = -1;
    for (int i = 0; i < s->n; i++) {
        const ft_str w = ft_buf_str(&s->word[i]);
        if (w.n > end || w.p[w.n - 1] != text.p[end - 1]) continue;
        if (memcmp(text.p + end - w.n, w.p, w.n)) continue;
        if (best < 0 || w.n > s->word[best].len) best = i;
    }
    return best;
}

/* Bytes at the end of the text that may begin a word. */
static size_t may_begin(const ft_stop *s, ft_str text)
{
    size_t longest = 0;
    for (int i = 0; i < s->n; i++) {
        const ft_str w = ft_buf_str(&s->word[i]);
        for (size_t k = FT_MIN(w.n - 1, text.n); k > longest; k--)
            if (!memcmp(text.p + text.n - k, w.p, k)) {
                longest = k;
                break;
            }
    }
    return longest;
}

bool ft_stop_feed(ft_stop *s, ft_str text, ft_buf *out)
{
    if (s->hit >= 0) return true;
    const size_t old = s->held.len; /* no word ends in there */
    ft_buf_put_str(&s->held, text);
    const ft_str all = ft_buf_str(&s->held);
    for (size_t end = old + 1; end <= all.n; end++) {
        s->hit = word_at(s, all, end);
        if (s->hit < 0) continue;
        ft_buf_put(out, all.p, end - s->word[s->hit].len);
        ft_buf_clear(&s->held);
        return true;
    }
    const size_t keep = may_begin(s, all);
    ft_buf_put(out, all.p, all.n - keep);
    char tail[FT_STOP_BYTES];
    if (keep) memcpy(tail, all.p + all.n - keep, keep);
    ft_buf_clear(&s->held);
    ft_buf_put(&s->held, tail, keep);
    return false;
}

void ft_stop_end(ft_stop *s, ft_buf *out)
{
    if (s->hit < 0) ft_buf_put_str(out, ft_buf_str(&s->held));
    ft_buf_clear(&s->held);
}
