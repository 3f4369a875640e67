#include "serve/body.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"

/* Nesting depth, checked before parsing because the parser is recursive. */
static int depth_of(ft_str t, size_t *at)
{
    int depth = 0, most = 0;
    bool text = false;
    for (size_t i = 0; i < t.n; i++) {
        const char c = t.p[i];
        if (text) {
            if (c == '\\')
                i++;
            else
                text = c != '"';
        } else if (c == '"') {
            text = true;
        } else if (c == '[' || c == '{') {
            if (++depth > most) most = depth, *at = i;
        } else if (c == ']' || c == '}') {
            depth--;
        }
        if (most > FT_JSON_DEPTH) break;
    }
    return most;
}

/* Memory that jansson allocates per value, including allocator overhead: an object starts with
 * eight hash buckets, an array with eight slots; strings and keys are separate allocations. */
enum {
    OBJECT_BYTES = 256,
    ARRAY_BYTES = 144,
    TEXT_BYTES = 96,
    NUMBER_BYTES = 32,
    PLACE_BYTES = 16
};

static size_t text_end(ft_str t, size_t i)
{
    for (i++; i < t.n && t.p[i] != '"'; i++)
        if (t.p[i] == '\\') i++;
    return FT_MIN(i, t.n);
}

size_t ft_body_cost(ft_str t)
{
    size_t bytes = 0, digits = 0;
    bool in_number = false, copied = false;
    for (size_t i = 0; i < t.n; i++) {
        const char c = t.p[i];
        const bool number = c == '-' || c == '+' || c == '.' || (c >= '0' && c <= '9') ||
                            (c >= 'a' && c <= 'z') || c == 'E';
        if (number && !in_number) bytes += NUMBER_BYTES + PLACE_BYTES;
        in_number = number;
        digits = c >= '0' && c <= '9' ? digits + 1 : 0;
        if (digits >= 19 && !copied) { /* ft_json_load may need a copy with a longer text */
            copied = true;
            bytes += t.n + t.n / 8;
        }
        if (c == '{') bytes += OBJECT_BYTES + PLACE_BYTES;
        if (c == '[') bytes += ARRAY_BYTES + PLACE_BYTES;
        if (c == '"') {
            const size_t end = text_end(t, i);
            bytes += TEXT_BYTES + PLACE_BYTES + (end - i);
            i = end;
        }
    }
    return bytes;
}

static size_t bad_utf8_at(ft_str t)
{
    int len;
    size_t i = 0;
    while (i < t.n && ft_utf8_decode(t.p + i, t.n - i, &len) != FT_UTF8_BAD) i += (size_t)len;
    return i;
}

bool ft_body_parse(json_t **out, ft_str text, bool list, ft_http_error *error)
{
    size_t at = 0;
    *out = NULL;
    if (!text.n) {
        *out = json_object();
        return true;
    }
    if (depth_of(text, &at) > FT_JSON_DEPTH)
        return ft_http_error_set(error, FT_ERR_INVALID, NULL,
                                 "byte %zu of the body: JSON more than %d levels deep", at,
                                 FT_JSON_DEPTH);
    if (!ft_utf8_valid(text))
        return ft_http_error_set(error, FT_ERR_INVALID, NULL, "byte %zu of the body is not UTF-8",
                                 bad_utf8_at(text));
    json_error_t e;
    *out = ft_json_load(text.p, text.n, 0, &e);
    if (!*out)
        return ft_http_error_set(error, FT_ERR_INVALID, NULL,
                                 "byte %d of the body is not valid JSON: %s", e.position, e.text);
    if (json_is_object(*out)) return true;
    if (list && json_is_array(*out)) {
        *out = json_pack("{s:o}", "list", *out);
        return true;
    }
    char brief[72];
    ft_http_error_set(error, FT_ERR_INVALID, NULL, "the body is %s, want a JSON object",
                      ft_json_brief(*out, brief));
    json_decref(*out);
    *out = NULL;
    return false;
}
