#include "serve/schema_relax.h"

#include "base/mem.h"
#include "foretoken.h"

#include <stdio.h>
#include <string.h>

enum { PATH = 200 };

typedef struct relaxer {
    char *note, path[PATH];
    size_t size;
} relaxer;

static void add_note(relaxer *s, const char *format)
{
    char one[PATH + 80];
    const int n =
        snprintf(one, sizeof one, "%sformat %.40s at #%s", *s->note ? ", " : "", format, s->path);
    for (char *p = one; *p; p++)
        if (*p < 32 || *p > 126) *p = '?'; /* the note becomes an HTTP header */
    if (n > 0 && strlen(s->note) + (size_t)n < s->size) strcat(s->note, one);
}

static int64_t bound(const json_t *schema, const char *key, int64_t other)
{
    const json_t *v = json_object_get(schema, key);
    return json_is_integer(v) ? (int64_t)json_integer_value(v) : other;
}

static bool is_enforced(const json_t *schema, const char *format)
{
    return !json_object_get(schema, "pattern") &&
           ft_schema_holds_format(format, bound(schema, "minLength", 0),
                                  bound(schema, "maxLength", INT64_MAX));
}

/* Keywords whose values are data, not schemas: a "format" inside them is not a keyword. */
static bool is_data(const char *key)
{
    static const char *const data[] = {"enum", "const", "default", "examples", "required"};
    for (size_t i = 0; i < FT_COUNT(data); i++)
        if (!strcmp(key, data[i])) return true;
    return false;
}

static void walk(relaxer *s, json_t *j)
{
    const size_t at = strlen(s->path);
    const char *key;
    json_t *v;
    void *next;
    size_t i;
    const json_t *f = json_object_get(j, "format");
    if (json_is_string(f) && !is_enforced(j, json_string_value(f))) {
        add_note(s, json_string_value(f));
        json_object_del(j, "format");
    }
    json_object_foreach_safe(j, next, key, v)
    {
        if (is_data(key)) continue;
        snprintf(s->path + at, PATH - at, "/%s", key);
        walk(s, v);
        s->path[at] = 0;
    }
    json_array_foreach(j, i, v)
    {
        snprintf(s->path + at, PATH - at, "/%zu", i);
        walk(s, v);
        s->path[at] = 0;
    }
}

void ft_schema_relax(json_t *schema, char *note, size_t size)
{
    relaxer s = {.note = note, .size = size};
    walk(&s, schema);
}
