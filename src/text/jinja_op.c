/* text/jinja_op.c - operators with Python's semantics: floor division, remainders with the sign of
 * the divisor, concatenation and repetition of strings and lists, slices. */
#include "text/jinja_run.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <math.h>

static const char *const op_text[] = {"+", "-", "*", "/", "//", "%", "**"};

_Noreturn static void overflow(ft_jctx *c, ft_jop op)
{
    ft_j_fail(c, FT_ELIMIT, "the result of '%s' does not fit a 64-bit integer", op_text[op]);
}

_Noreturn static void mismatch(ft_jctx *c, ft_jop op, ft_jv a, ft_jv b)
{
    if (a.kind == FT_J_UNDEF) ft_j_undefined(c, a);
    if (b.kind == FT_J_UNDEF) ft_j_undefined(c, b);
    ft_j_fail(c, FT_EINVAL, "operator '%s' is not defined for %s and %s", op_text[op],
              ft_jv_type(a), ft_jv_type(b));
}

static int64_t floor_div(int64_t a, int64_t b)
{
    const int64_t q = a / b;
    return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}

static ft_jv int_pow(ft_jctx *c, int64_t a, int64_t b)
{
    if (b < 0) return ft_jv_float(pow((double)a, (double)b));
    int64_t r = 1;
    for (; b; b >>= 1) {
        if ((b & 1) && __builtin_mul_overflow(r, a, &r)) overflow(c, FT_O_POW);
        if (b > 1 && __builtin_mul_overflow(a, a, &a)) overflow(c, FT_O_POW);
    }
    return ft_jv_int(r);
}

static ft_jv int_op(ft_jctx *c, ft_jop op, int64_t a, int64_t b)
{
    int64_t r = 0;
    bool over = false;
    if (!b && (op == FT_O_DIV || op == FT_O_FLOORDIV || op == FT_O_MOD))
        ft_j_fail(c, FT_EINVAL, "division by zero");
    switch (op) {
    case FT_O_ADD: over = __builtin_add_overflow(a, b, &r); break;
    case FT_O_SUB: over = __builtin_sub_overflow(a, b, &r); break;
    case FT_O_MUL: over = __builtin_mul_overflow(a, b, &r); break;
    case FT_O_DIV: return ft_jv_float((double)a / (double)b);
    case FT_O_FLOORDIV:
        over = a == INT64_MIN && b == -1;
        if (!over) r = floor_div(a, b);
        break;
    case FT_O_MOD:
        if (b != -1) r = a - b * floor_div(a, b);
        break;
    default: return int_pow(c, a, b);
    }
    if (over) overflow(c, op);
    return ft_jv_int(r);
}

static ft_jv float_op(ft_jctx *c, ft_jop op, double a, double b)
{
    const bool zero = !(b < 0) && !(b > 0) && !isnan(b);
    if (zero && (op == FT_O_DIV || op == FT_O_FLOORDIV || op == FT_O_MOD))
        ft_j_fail(c, FT_EINVAL, "division by zero");
    switch (op) {
    case FT_O_ADD: return ft_jv_float(a + b);
    case FT_O_SUB: return ft_jv_float(a - b);
    case FT_O_MUL: return ft_jv_float(a * b);
    case FT_O_DIV: return ft_jv_float(a / b);
    case FT_O_FLOORDIV: return ft_jv_float(floor(a / b));
    case FT_O_MOD: {
        const double m = fmod(a, b);
        return ft_jv_float(m != 0 && (m < 0) != (b < 0) ? m + b : m);
    }
    default: return ft_jv_float(pow(a, b));
    }
}

static ft_jv repeat(ft_jctx *c, ft_jv v, int64_t times)
{
    size_t bytes;
    const size_t n = times > 0 ? (size_t)times : 0;
    if (v.kind == FT_J_STR) {
        if (!ft_mul_size(n, v.n, &bytes) || bytes > UINT32_MAX)
            ft_j_fail(c, FT_ELIMIT, "a string repeated %zu times is too long", n);
        char *p = ft_j_alloc(c, bytes);
        if (v.n) ft_j_step(c, n);
        for (size_t i = 0; i < n && v.n; i++) memcpy(p + i * v.n, v.u.s, v.n);
        ft_j_step(c, bytes / 32);
        return ft_jv_str(p, bytes);
    }
    if (!ft_mul_size(n, v.u.list->n, &bytes))
        ft_j_fail(c, FT_ELIMIT, "a list repeated %zu times is too long", n);
    const size_t total = bytes;
    ft_jlist *l = ft_jlist_new(c, total);
    for (size_t i = 0; i < total; i++) ft_jlist_put(c, l, v.u.list->v[i % v.u.list->n]);
    return ft_jv_ref((ft_jkind)v.kind, l);
}

static ft_jv join_lists(ft_jctx *c, ft_jv a, ft_jv b)
{
    ft_jlist *l = ft_jlist_new(c, a.u.list->n + b.u.list->n);
    for (size_t i = 0; i < a.u.list->n; i++) ft_jlist_put(c, l, a.u.list->v[i]);
    for (size_t i = 0; i < b.u.list->n; i++) ft_jlist_put(c, l, b.u.list->v[i]);
    return ft_jv_ref((ft_jkind)a.kind, l);
}

ft_jv ft_j_binary(ft_jctx *c, ft_jop op, ft_jv a, ft_jv b)
{
    int64_t i, k;
    double x, y;
    if (ft_jv_integer(a, &i) && ft_jv_integer(b, &k)) return int_op(c, op, i, k);
    if (ft_jv_number(a, &x) && ft_jv_number(b, &y)) return float_op(c, op, x, y);
    if (op == FT_O_ADD && a.kind == b.kind) {
        if (a.kind == FT_J_STR) return ft_jv_concat(c, ft_jv_text(a), ft_jv_text(b));
        if (ft_jv_is_seq(a)) return join_lists(c, a, b);
    }
    if (op == FT_O_MUL) {
        if ((a.kind == FT_J_STR || ft_jv_is_seq(a)) && ft_jv_integer(b, &k)) return repeat(c, a, k);
        if ((b.kind == FT_J_STR || ft_jv_is_seq(b)) && ft_jv_integer(a, &k)) return repeat(c, b, k);
    }
    if (op == FT_O_MOD && a.kind == FT_J_STR && b.kind != FT_J_UNDEF) {
        if (b.kind == FT_J_TUPLE) return ft_j_printf(c, ft_jv_text(a), b.u.list->v, b.u.list->n);
        return ft_j_printf(c, ft_jv_text(a), &b, 1);
    }
    mismatch(c, op, a, b);
}

bool ft_j_compare_op(ft_jctx *c, ft_jop op, ft_jv a, ft_jv b)
{
    double x, y;
    switch (op) {
    case FT_O_EQ: return ft_jv_equal(c, a, b);
    case FT_O_NE: return !ft_jv_equal(c, a, b);
    case FT_O_IN: return ft_jv_contains(c, b, a);
    case FT_O_NOT_IN: return !ft_jv_contains(c, b, a);
    default: break;
    }
    if (ft_jv_number(a, &x) && ft_jv_number(b, &y) && isnan(x + y) && (isnan(x) || isnan(y)))
        return false;
    const int d = ft_jv_compare(c, a, b);
    switch (op) {
    case FT_O_LT: return d < 0;
    case FT_O_LE: return d <= 0;
    case FT_O_GT: return d > 0;
    default: return d >= 0;
    }
}

/* ---- slices ---- */

static int64_t bound_of(ft_jctx *c, ft_jv v, int64_t dflt)
{
    int64_t i;
    if (v.kind == FT_J_NONE) return dflt;
    if (v.kind == FT_J_UNDEF) ft_j_undefined(c, v);
    if (!ft_jv_integer(v, &i))
        ft_j_fail(c, FT_EINVAL, "slice: want integers, found %s", ft_jv_type(v));
    return i;
}

static int64_t clamp(int64_t i, int64_t n, int64_t lo, int64_t hi)
{
    if (i < 0) i = i < -n ? -1 - n : i + n; /* avoids an overflow */
    return i < lo ? lo : i > hi ? hi : i;
}

/* Start, step and count of v[a:b:s] for a length of n. */
static void resolve_slice(ft_jctx *c, const ft_jv b[3], int64_t n, int64_t *start, int64_t *step,
                          int64_t *count)
{
    *step = bound_of(c, b[2], 1);
    if (*step == 0) ft_j_fail(c, FT_EINVAL, "a slice with a step of 0");
    const bool up = *step > 0;
    const int64_t lo = up ? 0 : -1, hi = up ? n : n - 1;
    const int64_t from =
        b[0].kind == FT_J_NONE ? (up ? 0 : n - 1) : clamp(bound_of(c, b[0], 0), n, lo, hi);
    const int64_t to =
        b[1].kind == FT_J_NONE ? (up ? n : -1) : clamp(bound_of(c, b[1], 0), n, lo, hi);
    *start = from;
    if (up)
        *count = to > from ? (to - from - 1) / *step + 1 : 0;
    else
        *count = from > to ? (from - to - 1) / (*step == INT64_MIN ? INT64_MAX : -*step) + 1 : 0;
}

static ft_jv slice_str(ft_jctx *c, ft_jv v, const ft_jv b[3])
{
    int64_t start, step, count;
    const size_t n = ft_j_utf8_count(ft_jv_text(v));
    ft_j_step(c, v.n / 16);
    resolve_slice(c, b, (int64_t)n, &start, &step, &count);
    if (step != 1 && n != v.n) {
        const ft_jlist *all = ft_jv_elements(c, v);
        ft_jsb s = {0};
        for (int64_t i = 0; i < count; i++) {
            const ft_jv ch = all->v[start + i * step];
            ft_jsb_put(c, &s, ch.u.s, ch.n);
        }
        return ft_jsb_value(&s);
    }
    if (step != 1) {
        char *p = ft_j_alloc(c, (size_t)count);
        for (int64_t i = 0; i < count; i++) p[i] = v.u.s[start + i * step];
        return ft_jv_str(p, (size_t)count);
    }
    size_t at[2] = {0, 0}, seen = 0;
    if (n == v.n) {
        at[0] = (size_t)start;
        at[1] = (size_t)(start + count);
    } else {
        at[0] = at[1] = v.n;
        for (size_t i = 0; i <= v.n; i++) {
            if (i < v.n && ((unsigned char)v.u.s[i] & 0xC0) == 0x80) continue;
            if (seen == (size_t)start) at[0] = i;
            if (seen == (size_t)(start + count)) at[1] = i;
            seen++;
        }
    }
    return ft_jv_str(v.u.s + at[0], count ? at[1] - at[0] : 0);
}

ft_jv ft_j_slice(ft_jctx *c, ft_jv v, const ft_jv b[3])
{
    int64_t start, step, count;
    if (v.kind == FT_J_STR) return slice_str(c, v, b);
    if (v.kind == FT_J_UNDEF) ft_j_undefined(c, v);
    if (!ft_jv_is_seq(v) && v.kind != FT_J_RANGE) return ft_jv_undef(FT_STR("slice"));
    const ft_jlist *l = ft_jv_elements(c, v);
    resolve_slice(c, b, (int64_t)l->n, &start, &step, &count);
    ft_jlist *r = ft_jlist_new(c, (size_t)count);
    for (int64_t i = 0; i < count; i++) ft_jlist_put(c, r, l->v[start + i * step]);
    return ft_jv_ref(v.kind == FT_J_TUPLE ? FT_J_TUPLE : FT_J_LIST, r);
}
