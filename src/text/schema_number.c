/* text/schema_number.c - grammars for numbers between bounds, digit by digit.
 * A number with j decimals is an integer multiple of 10^-j; the integers of one length between two
 * bounds are a short expression over digits. Bounds are whole numbers of 64 bits, or exact decimals
 * of at most 15 digits, which doubles can distinguish. A bound that no number of the grammar
 * reaches is replaced by the largest one of 18 digits. For multiples the expression becomes an
 * automaton whose states are the remainder and whether the digits so far are those of a bound. */
#include "text/schema_parts.h"

#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { DIGITS = 15, DECIMALS = 6, WHOLE = 9, LONGEST = 19 };

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

/* As unsigned, which holds 10^19. */
static uint64_t pow10u(int n)
{
    uint64_t p = 1;
    while (n-- > 0) p *= 10;
    return p;
}

static bool decimal_of(const json_t *v, decimal *out)
{
    if (json_is_integer(v)) {
        *out = (decimal){json_integer_value(v), 0};
        return true;
    }
    const double d = json_number_value(v);
    if (d == floor(d) && fabs(d) < 9e18) {
        *out = (decimal){(int64_t)d, 0};
        return true;
    }
    if (fabs(d) >= 9e18) { /* see read_bound */
        *out = (decimal){d < 0 ? -(pow10i(18) - 1) : pow10i(18) - 1, 0};
        return true;
    }
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

/* ---- multiples ---- */

/* Rules for the digits of multiples of m. loose[n * m + r]: the rule for n further digits after a
 * remainder of r, any digits; 0: there is none yet. */
typedef struct multiples {
    int m;
    ft_buf *rules;
    uint32_t *n_rule, *loose;
} multiples;

static uint32_t loose_rule(multiples *a, int n, int r);

/* Digits lo..hi (as many in each) whose number, after a remainder of r, is a multiple. The digits
 * of the bounds are taken one by one; false: there are none. */
static bool put_multiples(multiples *a, ft_buf *out, const char *lo, const char *hi, int r)
{
    const int n = (int)strlen(lo);
    if (!n) {
        if (r % a->m == 0) ft_buf_puts(out, " \"\"");
        return r % a->m == 0;
    }
    if (all_are(lo, '0') && all_are(hi, '9')) {
        const uint32_t rule = loose_rule(a, n, r % a->m);
        if (rule) ft_buf_printf(out, " r%u", rule);
        return rule != 0;
    }
    char zeros[LONGEST + 1], nines[LONGEST + 1];
    memset(zeros, '0', sizeof zeros);
    memset(nines, '9', sizeof nines);
    zeros[n - 1] = nines[n - 1] = 0;
    bool any = false;
    ft_buf all;
    ft_buf_init(&all, (size_t)1 << 20);
    for (char d = *lo; d <= *hi; d++) {
        ft_buf rest;
        ft_buf_init(&rest, (size_t)1 << 20);
        if (put_multiples(a, &rest, d == *lo ? lo + 1 : zeros, d == *hi ? hi + 1 : nines,
                          (r * 10 + d - '0') % a->m)) {
            ft_buf_printf(&all, "%s\"%c\"%s", any ? " | " : "", d, ft_buf_z(&rest));
            any = true;
        }
        ft_buf_release(&rest);
    }
    if (any) ft_buf_printf(out, " (%s)", ft_buf_z(&all));
    ft_buf_release(&all);
    return any;
}

static uint32_t loose_rule(multiples *a, int n, int r)
{
    uint32_t *at = &a->loose[n * a->m + r];
    if (*at) return *at == UINT32_MAX ? 0 : *at;
    ft_buf body;
    bool any = false;
    ft_buf_init(&body, (size_t)1 << 16);
    for (int d = 0; d < 10; d++) {
        const int next = (r * 10 + d) % a->m;
        const uint32_t rule = n > 1 ? loose_rule(a, n - 1, next) : 0;
        if (n > 1 ? !rule : next) continue;
        ft_buf_printf(&body, "%s\"%d\"", any ? " | " : "", d);
        if (rule) ft_buf_printf(&body, " r%u", rule);
        any = true;
    }
    *at = UINT32_MAX;
    if (any) {
        *at = (*a->n_rule)++;
        ft_buf_printf(a->rules, "r%u ::= %s\n", *at, ft_buf_z(&body));
    }
    ft_buf_release(&body);
    return any ? *at : 0;
}

/* ---- spans ---- */

/* The integers lo..hi with a decimal point before the last j digits; a: multiples only, or NULL. */
static void put_span(ft_buf *out, uint64_t lo, uint64_t hi, int j, const char *sign,
                     const char **bar, multiples *a)
{
    for (int w = j + 1; w <= LONGEST; w++) {
        const uint64_t least = w == j + 1 ? 0 : pow10u(w - 1), most = pow10u(w) - 1;
        const uint64_t from = FT_MAX(lo, least), to = FT_MIN(hi, most);
        if (from > to) continue;
        char x[24], y[24];
        snprintf(x, sizeof x, "%0*llu", w, (unsigned long long)from);
        snprintf(y, sizeof y, "%0*llu", w, (unsigned long long)to);
        ft_buf one;
        ft_buf_init(&one, (size_t)1 << 20);
        bool any = true;
        if (a)
            any = put_multiples(a, &one, x, y, 0);
        else
            put_between(&one, x, y, j ? w - j : -1);
        if (any) {
            ft_buf_printf(out, "%s%s%s", *bar, sign, ft_buf_z(&one));
            *bar = " | ";
        }
        ft_buf_release(&one);
    }
}

static void put_range(ft_buf *out, int64_t lo, int64_t hi, int j, const char **bar, multiples *a)
{
    if (hi >= 0) put_span(out, (uint64_t)FT_MAX(lo, 0), (uint64_t)hi, j, "", bar, a);
    if (lo < 0) put_span(out, hi < 0 ? -(uint64_t)hi : 1, -(uint64_t)lo, j, "\"-\"", bar, a);
}

bool ft_schema_is_multiple(double x, const json_t *of)
{
    const double m = json_number_value(of), q = x / m;
    return !of || fabs(q - round(q)) <= 1e-9 * fmax(1, fabs(q));
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
        return ft_schema_unsupported(c, key,
                                     "want a whole number of 64 bits, or at most 15 digits");
    if (fabs(json_number_value(v)) >= 9e18 && low == (d.m > 0))
        return ft_schema_unsupported(c, key, "numbers of more than 18 digits are not generated");
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

static uint64_t magnitude(int64_t m)
{
    return m < 0 ? -(uint64_t)m : (uint64_t)m;
}

static int digits_of(int64_t m)
{
    int n = 1;
    for (uint64_t u = magnitude(m); u >= 10; u /= 10) n++;
    return n;
}

/* The bound in units of 10^-j, rounded inwards. With decimals it has at most 15 digits. */
static int64_t scaled(decimal d, int j, bool open, bool low)
{
    const int64_t step = open ? (low ? 1 : -1) : 0, most = pow10i(DIGITS) - 1;
    if (j && magnitude(d.m / pow10i(d.k)) > (uint64_t)(most / pow10i(j)))
        return d.m < 0 ? (low ? -most : INT64_MIN) : (low ? INT64_MAX : most);
    if (d.k <= j) return d.m * pow10i(j - d.k) + step;
    const int64_t unit = pow10i(d.k - j), down = d.m / unit - (d.m % unit < 0),
                  rest = d.m - down * unit;
    if (rest == 0) return down + step;
    return low ? down + 1 : down;
}

/* A bound that is not given: as far as the other one has digits, and more. */
static void fill_bounds(bounds *b, bool integer)
{
    const int whole = FT_MAX(b->has_lo ? digits_of(b->lo.m / pow10i(b->lo.k)) : 1,
                             b->has_hi ? digits_of(b->hi.m / pow10i(b->hi.k)) : 1);
    const int width = FT_MAX(whole + 1, integer ? DIGITS : WHOLE);
    const int64_t far = width > 18 ? INT64_MAX : pow10i(FT_MIN(width, 18)) - 1;
    if (!b->has_lo) b->lo = (decimal){-far, 0};
    if (!b->has_hi) b->hi = (decimal){far, 0};
}

/* The decimals that a multipleOf below 1 leaves. */
static int decimals_of(const json_t *multiple)
{
    const double m = json_number_value(multiple);
    return m < 1 ? (int)round(-log10(m)) : 0;
}

ft_status ft_schema_number(ft_schema_ctx *c, ft_buf *out, const json_t *flat, bool integer,
                           ft_buf *rules, uint32_t *n_rule)
{
    bounds b;
    const json_t *multiple = json_object_get(flat, "multipleOf");
    const ft_status st = read_bounds(c, flat, &b);
    if (st) return st;
    multiples a = {.m = (int)json_number_value(multiple), .rules = rules, .n_rule = n_rule};
    const bool whole = a.m > 1;
    if (!b.has_lo && !b.has_hi && (!multiple || a.m == 1)) {
        ft_buf_puts(out, integer || multiple ? "integer" : "number");
        return FT_OK;
    }
    fill_bounds(&b, integer);
    const int free = FT_MIN(FT_MAX(FT_MAX(b.lo.k, b.hi.k), DECIMALS), DIGITS - 1);
    const int decimals = integer || whole ? 0
                         : multiple       ? FT_MIN(free, decimals_of(multiple))
                                          : free;
    const char *bar = "";
    if (whole) a.loose = ft_new_n(uint32_t, (size_t)a.m * (LONGEST + 1));
    ft_buf_putc(out, '(');
    for (int j = 0; j <= decimals; j++) {
        const int64_t lo = scaled(b.lo, j, b.open_lo, true), hi = scaled(b.hi, j, b.open_hi, false);
        if (lo <= hi) put_range(out, lo, hi, j, &bar, whole ? &a : NULL);
    }
    ft_buf_putc(out, ')');
    ft_free(a.loose);
    if (*bar) return FT_OK;
    return ft_schema_contradiction(c,
                                   b.has_lo   ? b.open_lo ? "exclusiveMinimum" : "minimum"
                                   : b.has_hi ? "maximum"
                                              : "multipleOf",
                                   "there is no number between the bounds");
}
