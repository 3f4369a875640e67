#include "base/json.h"

#include "base/buf.h"
#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Whether an integer of n digits does not fit in 64 bits; text is followed by another character. */
static bool is_long(const char *digits, size_t n, bool negative)
{
    char z[32] = "-";
    if (n < 19) return false;
    if (n > 20) return true;
    memcpy(z + 1, digits, n);
    errno = 0;
    strtoll(negative ? z : z + 1, NULL, 10);
    return errno == ERANGE;
}

/* Copies the text with ".0" after each integer that is too long. */
static void put_reals(ft_buf *out, const char *p, size_t n)
{
    bool text = false;
    size_t from = 0;
    for (size_t i = 0; i < n; i++) {
        if (p[i] == '"') text = !text;
        if (text && p[i] == '\\') i++;
        if (text || p[i] < '0' || p[i] > '9') continue;
        const size_t first = i;
        while (i < n && p[i] >= '0' && p[i] <= '9') i++;
        const bool whole = !first || !strchr(".eE+", p[first - 1]);
        const bool ends = i == n || !strchr(".eE", p[i]);
        if (whole && ends && is_long(p + first, i - first, first && p[first - 1] == '-')) {
            ft_buf_put(out, p + from, i - from);
            ft_buf_puts(out, ".0");
            from = i;
        }
        i--;
    }
    ft_buf_put(out, p + from, n - from);
}

json_t *ft_json_load(const char *p, size_t n, size_t flags, json_error_t *e)
{
    json_error_t own;
    if (!e) e = &own;
    json_t *j = json_loadb(p, n, flags, e);
    if (j || json_error_code(e) != json_error_numeric_overflow) return j;
    ft_buf b;
    ft_buf_init(&b, 2 * n + 16);
    put_reals(&b, p, n);
    j = json_loadb(ft_buf_z(&b), b.len, flags, e);
    ft_buf_release(&b);
    return j;
}
