/* gguf/show.h - prepares untrusted names from files for error messages: one line of printable
 * ASCII, at most 68 characters, then "..." when cut. */
#ifndef FT_GGUF_SHOW_H
#define FT_GGUF_SHOW_H

#include "base/str.h"

typedef struct ft_shown {
    char text[72];
} ft_shown;

/* Use as ft_show(s).text inside one full expression. */
static inline ft_shown ft_show(ft_str s)
{
    ft_shown o = {{0}};
    const size_t max = sizeof o.text - 4, n = s.n < max ? s.n : max;
    for (size_t i = 0; i < n; i++) o.text[i] = s.p[i] >= ' ' && s.p[i] <= '~' ? s.p[i] : '?';
    if (s.n > n) memcpy(o.text + n, "...", 3);
    return o;
}

#endif
