/* base/str.h - borrowed strings with a length, and strict number parsing.
 * A ft_str is not terminated and may hold any bytes. Nothing here allocates. */
#ifndef FT_BASE_STR_H
#define FT_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct ft_str {
    const char *p;
    size_t n;
} ft_str;

#define FT_STR(lit)   ((ft_str){(lit), sizeof(lit) - 1})
#define FT_STR_FMT(s) (int)(s).n, (s).p /* for "%.*s" */

static inline ft_str ft_str_of(const char *z)
{
    return (ft_str){z, strlen(z)};
}

static inline bool ft_str_eq(ft_str a, ft_str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static inline bool ft_str_is(ft_str a, const char *z)
{
    return ft_str_eq(a, ft_str_of(z));
}

bool ft_str_starts(ft_str s, ft_str prefix);
bool ft_str_ends(ft_str s, ft_str suffix);
/* Index of the first occurrence of needle at or after from, or SIZE_MAX. */
size_t ft_str_find(ft_str s, ft_str needle, size_t from);

/* The whole of z must be a decimal number in [lo, hi]; false otherwise and *out is untouched. */
bool ft_parse_i64(const char *z, int64_t lo, int64_t hi, int64_t *out);
bool ft_parse_f64(const char *z, double lo, double hi, double *out);

/* The value of a hexadecimal digit, -1 for any other character. */
static inline int ft_hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* "1.5 GiB", "812 B": for display. Writes into out and returns it. */
char *ft_human_bytes(char out[24], uint64_t bytes);

#endif
