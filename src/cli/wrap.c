#define _GNU_SOURCE /* wcwidth */
#include "cli/wrap.h"

#include <string.h>
#include <wchar.h>

void ft_wrap_restart(ft_wrap *w)
{
    w->column = w->word_columns = w->n_part = 0;
    w->n = 0;
}

/* Bytes of the character that begins with c. */
static int length_of(unsigned char c)
{
    return c < 0xC0 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

static int columns_of(const unsigned char *p, int n)
{
    wchar_t c = n == 1 ? p[0] : p[0] & (0x7F >> n);
    for (int i = 1; i < n; i++) c = (c << 6) | (p[i] & 0x3F);
    const int k = wcwidth(c);
    return k < 0 ? 1 : k;
}

static void end_word(ft_wrap *w)
{
    w->n = 0;
    w->word_columns = 0;
}

/* Moves the word to the next line, or only begins a line if it is too long. */
static void break_line(ft_wrap *w, ft_buf *out)
{
    const bool moves = w->n && w->word_columns > 0 && w->word_columns < w->column;
    if (moves) {
        ft_buf_printf(out, "\x1b[%dD\x1b[K\n", w->word_columns);
        ft_buf_put(out, w->word, w->n);
        w->column = w->word_columns;
    } else {
        ft_buf_putc(out, '\n');
        w->column = 0;
        w->word_columns = -1;
    }
}

static void put_character(ft_wrap *w, ft_buf *out, const unsigned char *p, int n)
{
    const int k = columns_of(p, n);
    if (p[0] == '\n') {
        ft_buf_putc(out, '\n');
        ft_wrap_restart(w);
        return;
    }
    if (p[0] == ' ' || p[0] == '\t') {
        end_word(w);
        const int to = p[0] == ' ' ? w->column + 1 : (w->column / 8 + 1) * 8;
        if (to < w->width)
            ft_buf_putc(out, (char)p[0]);
        else
            ft_buf_putc(out, '\n'); /* the space is the end of the line */
        w->column = to < w->width ? to : 0;
        return;
    }
    if (w->column + k >= w->width) break_line(w, out);
    ft_buf_put(out, (const char *)p, (size_t)n);
    w->column += k;
    if (w->n + (size_t)n > sizeof w->word) w->word_columns = -1;
    if (w->word_columns < 0) return;
    memcpy(w->word + w->n, p, (size_t)n);
    w->n += (size_t)n;
    w->word_columns += k;
}

void ft_wrap_put(ft_wrap *w, ft_buf *out, const char *text, size_t n)
{
    if (w->width < 20) { /* also: not a terminal */
        ft_buf_put(out, text, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (w->n_part && (c & 0xC0) != 0x80) { /* not UTF-8: as single bytes */
            ft_buf_put(out, (const char *)w->part, (size_t)w->n_part);
            w->n_part = 0;
        }
        w->part[w->n_part++] = c;
        if (w->n_part < length_of(w->part[0])) continue;
        put_character(w, out, w->part, w->n_part);
        w->n_part = 0;
    }
}
