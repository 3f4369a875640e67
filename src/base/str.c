#define _GNU_SOURCE
#include "base/str.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

bool ft_str_starts(ft_str s, ft_str prefix)
{
    return s.n >= prefix.n && memcmp(s.p, prefix.p, prefix.n) == 0;
}

bool ft_str_ends(ft_str s, ft_str suffix)
{
    return s.n >= suffix.n && memcmp(s.p + s.n - suffix.n, suffix.p, suffix.n) == 0;
}

size_t ft_str_find(ft_str s, ft_str needle, size_t from)
{
    if (from > s.n) return SIZE_MAX;
    if (needle.n == 0) return from;
    const char *hit = memmem(s.p + from, s.n - from, needle.p, needle.n);
    return hit ? (size_t)(hit - s.p) : SIZE_MAX;
}

bool ft_parse_i64(const char *z, int64_t lo, int64_t hi, int64_t *out)
{
    if (!(*z == '-' || (*z >= '0' && *z <= '9'))) return false;
    char *end;
    errno = 0;
    const long long v = strtoll(z, &end, 10);
    if (errno || end == z || *end || v < lo || v > hi) return false;
    *out = v;
    return true;
}

bool ft_parse_f64(const char *z, double lo, double hi, double *out)
{
    if (!(*z == '-' || *z == '.' || (*z >= '0' && *z <= '9'))) return false;
    char *end;
    errno = 0;
    const double v = strtod(z, &end);
    if (end == z || *end || !isfinite(v) || v < lo || v > hi) return false;
    *out = v;
    return true;
}

char *ft_human_bytes(char out[24], uint64_t bytes)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double v = (double)bytes;
    int u = 0;
    while (v >= 1024 && u < 6) v /= 1024, u++;
    snprintf(out, 24, u && v < 100 ? "%.2f %s" : "%.0f %s", v, unit[u]);
    return out;
}
