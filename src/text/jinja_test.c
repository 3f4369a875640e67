/* text/jinja_test.c - the tests: names after `is`. */
#include "text/jinja_run.h"

#define TEST(name, expr)                                                                           \
    static ft_jv name(ft_jctx *c, ft_jv v, const ft_jargs *a)                                      \
    {                                                                                              \
        (void)c, (void)v, (void)a;                                                                 \
        return ft_jv_bool(expr);                                                                   \
    }

static ft_jv first_arg(const ft_jargs *a)
{
    return ft_j_arg(a, 0, NULL, ft_jv_none());
}

static bool has_length(ft_jv v)
{
    return v.kind == FT_J_UNDEF || v.kind == FT_J_STR || v.kind == FT_J_DICT ||
           v.kind == FT_J_RANGE || ft_jv_is_seq(v);
}

static bool callable(ft_jv v)
{
    return v.kind == FT_J_MACRO || v.kind == FT_J_FUNC || v.kind == FT_J_METHOD ||
           v.kind == FT_J_JOINER || v.kind == FT_J_UNDEF;
}

static int64_t want_integer(ft_jctx *c, ft_jv v)
{
    int64_t i;
    if (v.kind == FT_J_UNDEF) ft_j_undefined(c, v);
    if (!ft_jv_integer(v, &i))
        ft_j_fail(c, FT_EINVAL, "test: want an integer, found %s", ft_jv_type(v));
    return i;
}

static bool divisible(ft_jctx *c, ft_jv v, ft_jv by)
{
    const ft_jv rest = ft_j_binary(c, FT_O_MOD, ft_jv_int(want_integer(c, v)), by);
    return ft_jv_equal(c, rest, ft_jv_int(0));
}

static bool same_case(ft_jctx *c, ft_jv v, ft_jcase how)
{
    const ft_jv s = ft_jv_to_str(c, v);
    const ft_jv other =
        ft_j_recase(c, ft_jv_text(s), how == FT_CASE_LOWER ? FT_CASE_UPPER : FT_CASE_LOWER);
    return ft_str_eq(ft_jv_text(s), ft_jv_text(ft_j_recase(c, ft_jv_text(s), how))) &&
           !ft_str_eq(ft_jv_text(s), ft_jv_text(other));
}

TEST(is_defined, v.kind != FT_J_UNDEF)
TEST(is_undefined, v.kind == FT_J_UNDEF)
TEST(is_none, v.kind == FT_J_NONE)
TEST(is_string, v.kind == FT_J_STR)
TEST(is_number, v.kind == FT_J_INT || v.kind == FT_J_FLOAT || v.kind == FT_J_BOOL)
TEST(is_integer, v.kind == FT_J_INT)
TEST(is_float, v.kind == FT_J_FLOAT)
TEST(is_boolean, v.kind == FT_J_BOOL)
TEST(is_true, v.kind == FT_J_BOOL && v.u.b)
TEST(is_false, v.kind == FT_J_BOOL && !v.u.b)
TEST(is_mapping, v.kind == FT_J_DICT)
TEST(is_sequence, has_length(v))
TEST(is_iterable, has_length(v) || v.kind == FT_J_LOOP)
TEST(is_callable, callable(v))
TEST(is_odd, want_integer(c, v) % 2 != 0)
TEST(is_even, want_integer(c, v) % 2 == 0)
TEST(is_lower, same_case(c, v, FT_CASE_LOWER))
TEST(is_upper, same_case(c, v, FT_CASE_UPPER))
TEST(is_divisible, divisible(c, v, first_arg(a)))
TEST(is_in, ft_jv_contains(c, first_arg(a), v))
TEST(is_eq, ft_jv_equal(c, v, first_arg(a)))
TEST(is_ne, !ft_jv_equal(c, v, first_arg(a)))
TEST(is_lt, ft_j_compare_op(c, FT_O_LT, v, first_arg(a)))
TEST(is_le, ft_j_compare_op(c, FT_O_LE, v, first_arg(a)))
TEST(is_gt, ft_j_compare_op(c, FT_O_GT, v, first_arg(a)))
TEST(is_ge, ft_j_compare_op(c, FT_O_GE, v, first_arg(a)))
TEST(is_same, v.kind == first_arg(a).kind && ft_jv_equal(c, v, first_arg(a)))
TEST(is_filter, v.kind == FT_J_STR && ft_j_find_filter(ft_jv_text(v)))
TEST(is_test, v.kind == FT_J_STR && ft_j_find_test(ft_jv_text(v)))
TEST(is_escaped, false)

static const ft_jdef tests[] = {
    {"defined", is_defined, 0, 0},
    {"undefined", is_undefined, 0, 0},
    {"none", is_none, 0, 0},
    {"string", is_string, 0, 0},
    {"number", is_number, 0, 0},
    {"integer", is_integer, 0, 0},
    {"float", is_float, 0, 0},
    {"boolean", is_boolean, 0, 0},
    {"true", is_true, 0, 0},
    {"false", is_false, 0, 0},
    {"mapping", is_mapping, 0, 0},
    {"sequence", is_sequence, 0, 0},
    {"iterable", is_iterable, 0, 0},
    {"callable", is_callable, 0, 0},
    {"odd", is_odd, 0, 0},
    {"even", is_even, 0, 0},
    {"lower", is_lower, 0, 0},
    {"upper", is_upper, 0, 0},
    {"divisibleby", is_divisible, 1, 1},
    {"in", is_in, 1, 1},
    {"eq", is_eq, 1, 1},
    {"equalto", is_eq, 1, 1},
    {"==", is_eq, 1, 1},
    {"ne", is_ne, 1, 1},
    {"!=", is_ne, 1, 1},
    {"lt", is_lt, 1, 1},
    {"lessthan", is_lt, 1, 1},
    {"<", is_lt, 1, 1},
    {"le", is_le, 1, 1},
    {"<=", is_le, 1, 1},
    {"gt", is_gt, 1, 1},
    {"greaterthan", is_gt, 1, 1},
    {">", is_gt, 1, 1},
    {"ge", is_ge, 1, 1},
    {">=", is_ge, 1, 1},
    {"sameas", is_same, 1, 1},
    {"filter", is_filter, 0, 0},
    {"test", is_test, 0, 0},
    {"escaped", is_escaped, 0, 0},
    {NULL, NULL, 0, 0},
};

const ft_jdef *ft_j_find_test(ft_str name)
{
    return ft_j_find_def(tests, name);
}
