#include "text/detok.h"

#include "base/utf8.h"

void ft_detok_init(ft_detok *d, const ft_vocab *v, bool special)
{
    *d = (ft_detok){.v = v, .special = special};
}

void ft_detok_push(ft_detok *d, int32_t id, ft_buf *out)
{
    ft_str s = ft_vocab_piece(d->v, id, d->special);
    /* Complete the pending character byte by byte: at most three bytes. */
    while (d->n_held && s.n) {
        d->held[d->n_held++] = s.p[0];
        s.p++;
        s.n--;
        const size_t wait = ft_utf8_partial((ft_str){d->held, d->n_held});
        const size_t done = d->n_held - wait;
        ft_buf_put(out, d->held, done);
        memmove(d->held, d->held + done, wait);
        d->n_held = (uint8_t)wait;
    }
    if (!s.n) return;
    const size_t wait = ft_utf8_partial(s);
    ft_buf_put(out, s.p, s.n - wait);
    memcpy(d->held, s.p + s.n - wait, wait);
    d->n_held = (uint8_t)wait;
}

void ft_detok_flush(ft_detok *d, ft_buf *out)
{
    ft_buf_put(out, d->held, d->n_held);
    d->n_held = 0;
}
