/* text/schema_number.c - grammars for numbers between bounds, digit by digit.
 * A number with j decimals is an integer multiple of 10^-j; the integers of one length between two
 * bounds are a short expression over digits. Bounds are exact decimals of at most 15 digits, which
 * doubles can distinguish. */
#include "text/schema_parts.h"

#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { DIGITS = 15, DECIMALS = 6, WHOLE = 9 };

typedef struct decimal {
    int64_t m; /* value = m / 10^k */
    int k;
} decimal;

static int64_t pow10i(int n)
{
    int64_t p = 1;
    while (n-- > 0) p *= 10;
    return p;
}

static bool decimal_of(const json_t *v, decimal *out)
{
    if (json_is_integer(v)) {
        *out = (decimal){json_integer_value(v), 0};
        return llabs(out->m) < pow10i(DIGITS);
    }
    const double d = json_number_value(v);
    char z[40], digits[20];
    snprintf(z, sizeof z, "%.*e", DIGITS - 1, fabs(d));
    if (strtod(z, NULL) != fabs(d)) return false;
    int n = 0, e = atoi(strchr(z, 'e') + 1);
    for (const char *p = z; *p != 'e'; p++)
        if (*p != '.') digits[n++] = *p;
    while (n > 1 && digits[n - 1] == '0') n--;
    digits[n] = 0;
    *out = (decimal){strtoll(digits, NULL, 10), n - 1 - e};
    for (; out->k < 0; out->k++) {
        out->m *= 10;
        if (out->m >= pow10i(DIGITS)) return false;
    }
    if (out->m == 0) out->k = 0;
    if (d < 0) out->m = -out->m;
    return out->k < DIGITS;
}

/* ---- digits between digits ---- */

static void any_digits(ft_buf *out, int n, int dot)
{
    if (dot > 0 && dot < n) {
        ft_buf_printf(out, " [0-9]{%d} \".\" [0-9]{%d}", dot, n - dot);
    } else {
        if (dot == 0) ft_buf_puts(out, " \".\"");
        if (n) ft_buf_printf(out, " [0-9]{%d}", n);
    }
}

static bool all_are(const char *z, char c)
{
    return z[strspn(z, (char[]){c, 0})] == 0;
}

/* lo and hi have the same length; the decimal point comes before digit `dot` (negative: no point).
 */
static void put_between(ft_buf *out, const char *lo, const char *hi, int dot)
{
    const int n = (int)strlen(lo);
    if (all_are(lo, '0') && all_are(hi, '9')) {
        any_digits(out, n, dot);
        return;
    }
    if (dot == 0) ft_buf_puts(out, " \".\"");
    const int next = dot <= 0 ? -1 : dot - 1;
    if (*lo == *hi) {
        ft_buf_printf(out, " \"%c\"", *lo);
        put_between(out, lo + 1, hi + 1, next);
        return;
    }
    char zeros[40], nines[40];
    memset(zeros, '0', sizeof zeros);
    memset(nines, '9', sizeof nines);
    zeros[n - 1] = nines[n - 1] = 0;
    const bool low = !all_are(lo + 1, '0'), high = !all_are(hi + 1, '9');
    const char a = (char)(*lo + low), z = (char)(*hi - high);
    const char *bar = "";
    ft_buf_puts(out, " (");
    if (low) {
        ft_buf_printf(out, "\"%c\"", *lo);
        put_between(out, lo + 1, nines, next);
        bar = " | ";
    }
    if (a <= z) {
        ft_buf_printf(out, "%s[%c-%c]", bar, a, z);
        any_digits(out, n - 1, next);
        bar = " | ";
    }
    if (high) {
        ft_buf_printf(out, "%s\"%c\"", bar, *hi);
        put_between(out, zeros, hi + 1, next);
    }
    ft_buf_putc(out, ')');
}

/* The integers lo..hi (not negative) with a decimal point before the last j digits. */
static void put_span(ft_buf *out, int64_t lo, int64_t hi, int j, const char *sign, const char **bar)
{
    for (int w = j + 1; w <= 18; w++) {
        const int64_t least = w == j + 1 ? 0 : pow10i(w - 1), most = pow10i(w) - 1;
        const int64_t a = FT_MAX(lo, least), b = FT_MIN(hi, most);
        if (a > b) continue;
        char x[24], y[24];
        snprintf(x, sizeof x, "%0*lld", w, (long long)a);
        snprintf(y, sizeof y, "%0*lld", w, (long long)b);
        ft_buf_printf(out, "%s%s", *bar, sign);
        put_between(out, x, y, j ? w - j : -1);
        *bar = " | ";
    }
}

static void put_range(ft_buf *out, int64_t lo, int64_t hi, int j, const char **bar)
{
    if (hi >= 0) put_span(out, FT_MAX(lo, 0), hi, j, "", bar);
    if (lo < 0) put_span(out, FT_MAX(-hi, 1), -lo, j, "\"-\"", bar);
}

/* ---- bounds ---- */

typedef struct bounds {
    decimal lo, hi;
    bool has_lo, has_hi, open_lo, open_hi;
} bounds;

static double value(decimal d)
{
    return (double)d.m / (double)pow10i(d.k);
}

static ft_status read_bound(ft_schema_ctx *c, const json_t *flat, const char *key, bool open,
                            bool low, bounds *b)
{
    const json_t *v = json_object_get(flat, key);
    decimal d;
    if (!v) return FT_OK;
    if (!decimal_of(v, &d))
        return ft_schema_unsupported(c, key, "want a bound of at most 15 digits");
    bool *has = low ? &b->has_lo : &b->has_hi, *is_open = low ? &b->open_lo : &b->open_hi;
    decimal *at = low ? &b->lo : &b->hi;
    const double mine = value(d), old = *has ? value(*at) : 0;
    if (*has && (low ? old > mine : old < mine)) return FT_OK;
    *is_open = open || (*has && old == mine && *is_open);
    *has = true;
    *at = d;
    return FT_OK;
}

static ft_status read_bounds(ft_schema_ctx *c, const json_t *flat, bounds *b)
{
    ft_status st;
    *b = (bounds){0};
    if ((st = read_bound(c, flat, "minimum", false, true, b))) return st;
    if ((st = read_bound(c, flat, "exclusiveMinimum", true, true, b))) return st;
    if ((st = read_bound(c, flat, "maximum", false, false, b))) return st;
    return read_bound(c, flat, "exclusiveMaximum", true, false, b);
}

static int digits_of(int64_t m)
{
    int n = 1;
    for (m = llabs(m); m >= 10; m /= 10) n++;
    return n;
}

/* The bound in units of 10^-j, rounded inwards. */
static int64_t scaled(decimal d, int j, bool open, bool low)
{
    if (d.k <= j) return d.m * pow10i(j - d.k) + (open ? (low ? 1 : -1) : 0);
    const int64_t unit = pow10i(d.k - j), down = d.m / unit - (d.m % unit < 0),
                  rest = d.m - down * unit;
    if (rest == 0) return down + (open ? (low ? 1 : -1) : 0);
    return low ? down + 1 : down;
}

ft_status ft_schema_number(ft_schema_ctx *c, ft_buf *out, const json_t *flat, bool integer)
{
    bounds b;
    const ft_status st = read_bounds(c, flat, &b);
    if (st) return st;
    if (!b.has_lo && !b.has_hi) {
        ft_buf_puts(out, integer ? "integer" : "number");
        return FT_OK;
    }
    const int whole = FT_MAX(b.has_lo ? digits_of(b.lo.m / pow10i(b.lo.k)) : 1,
                             b.has_hi ? digits_of(b.hi.m / pow10i(b.hi.k)) : 1);
    const int width =
        b.has_lo && b.has_hi ? whole : FT_MIN(FT_MAX(whole + 1, integer ? DIGITS : WHOLE), DIGITS);
    const int64_t far = pow10i(width) - 1;
    if (!b.has_lo) b.lo = (decimal){-far, 0};
    if (!b.has_hi) b.hi = (decimal){far, 0};
    const int decimals =
        integer ? 0 : FT_MIN(FT_MAX(FT_MAX(b.lo.k, b.hi.k), DECIMALS), DIGITS - width);
    const char *bar = "";
    ft_buf_putc(out, '(');
    for (int j = 0; j <= decimals; j++) {
        const int64_t lo = scaled(b.lo, j, b.open_lo, true), hi = scaled(b.hi, j, b.open_hi, false);
        if (lo <= hi) put_range(out, lo, hi, j, &bar);
    }
    ft_buf_putc(out, ')');
    if (*bar) return FT_OK;
    return ft_schema_contradiction(
        c, b.has_lo ? b.open_lo ? "exclusiveMinimum" : "minimum" : "maximum",
        "there is no number between the bounds");
}
