/* gguf/override.c - keys that replace those of a file, from text: "KEY=TYPE:VALUE,...". */
#include "base/mem.h"
#include "base/str.h"
#include "gguf/gguf.h"

static ft_status override_one(ft_gguf *g, char *text, ft_err *err)
{
    char *type = strchr(text, '='), *value = type ? strchr(type, ':') : NULL;
    int64_t i;
    double f;
    if (!value || type == text)
        return ft_fail(err, FT_EINVAL, "\"%.80s\", want KEY=TYPE:VALUE", text);
    *type++ = 0;
    *value++ = 0;
    if (!strcmp(type, "int")) {
        if (!ft_parse_i64(value, INT64_MIN, INT64_MAX, &i))
            return ft_fail(err, FT_EINVAL, "%.80s=int:%.40s, want a whole number", text, value);
        ft_gguf_set(g, text, FT_GGUF_I64, &i, sizeof i);
    } else if (!strcmp(type, "float")) {
        if (!ft_parse_f64(value, -1e300, 1e300, &f))
            return ft_fail(err, FT_EINVAL, "%.80s=float:%.40s, want a number", text, value);
        ft_gguf_set(g, text, FT_GGUF_F64, &f, sizeof f);
    } else if (!strcmp(type, "bool")) {
        const bool on = !strcmp(value, "true");
        if (!on && strcmp(value, "false"))
            return ft_fail(err, FT_EINVAL, "%.80s=bool:%.40s, want true or false", text, value);
        ft_gguf_set(g, text, FT_GGUF_BOOL, &on, 1);
    } else if (!strcmp(type, "str")) {
        ft_gguf_set(g, text, FT_GGUF_STR, value, strlen(value));
    } else {
        return ft_fail(err, FT_EINVAL, "%.80s=%.40s:..., want a type of int, float, bool or str",
                       text, type);
    }
    return FT_OK;
}

ft_status ft_gguf_override(ft_gguf *g, const char *text, ft_err *err)
{
    char *copy = ft_strdup(text);
    ft_status st = FT_OK;
    for (char *p = copy, *next; p && !st; p = next) {
        if ((next = strchr(p, ','))) *next++ = 0;
        st = override_one(g, p, err);
    }
    ft_free(copy);
    return st;
}
