#include "image/image.h"

#include "base/mem.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

static int digit(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == '+' || c == '-') return 62;
    if (c == '/' || c == '_') return 63;
    return -1;
}

static bool white(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Where the data begins: behind "data:image/...;base64," or at once. */
static ft_status skip_head(const char **p, size_t *n, ft_err *err)
{
    static const char scheme[] = "data:", kind[] = "image/", coding[] = ";base64";
    const size_t s = sizeof scheme - 1, k = sizeof kind - 1, b = sizeof coding - 1;
    if (*n < s || strncasecmp(*p, scheme, s)) return FT_OK;
    const char *comma = memchr(*p, ',', FT_MIN(*n, (size_t)256));
    if (!comma) return ft_fail(err, FT_EFORMAT, "the data URI has no comma before its data");
    const size_t head = (size_t)(comma - *p);
    if (head < s + k || strncasecmp(*p + s, kind, k))
        return ft_fail(err, FT_EFORMAT,
                       "the data URI is not an image, want data:image/...;base64,");
    if (head < b || strncasecmp(comma - b, coding, b))
        return ft_fail(err, FT_EFORMAT,
                       "the data URI is not in base64, want data:image/...;base64,");
    *n -= head + 1;
    *p = comma + 1;
    return FT_OK;
}

ft_status ft_data_uri_decode(unsigned char **out, size_t *n_out, const char *text, size_t n,
                             size_t limit, ft_err *err)
{
    ft_status st = skip_head(&text, &n, err);
    if (st) return st;
    size_t digits = 0;
    for (size_t i = 0; i < n; i++) digits += !white(text[i]) && text[i] != '=';
    const size_t bytes = digits / 4 * 3 + (digits % 4 ? digits % 4 - 1 : 0);
    if (bytes > limit)
        return ft_fail(err, FT_EFORMAT, "the image file has %zu bytes, at most %zu are allowed",
                       bytes, limit);
    if (digits % 4 == 1 || !digits)
        return ft_fail(err, FT_EFORMAT, "bad base64: %zu digits cannot be whole bytes", digits);
    unsigned char *to = ft_new_n(unsigned char, bytes + 1);
    size_t at = 0, seen = 0, i = 0;
    uint32_t bits = 0;
    for (; i < n && text[i] != '='; i++) {
        if (white(text[i])) continue;
        const int v = digit(text[i]);
        if (v < 0) break;
        bits = bits << 6 | (uint32_t)v;
        seen++;
        if (seen % 4 != 1) to[at++] = (unsigned char)(bits >> (6 - 2 * ((seen + 3) % 4)));
    }
    for (; i < n && (text[i] == '=' || white(text[i])); i++) {
    }
    if (i < n) {
        ft_free(to);
        return ft_fail(err, FT_EFORMAT, "bad base64: character %zu of the data is not a digit", i);
    }
    *out = to;
    *n_out = at;
    return FT_OK;
}
