/* text/schema_relax.c - takes keywords out of a schema until it can be enforced. A failed
 * compilation names the keyword and the schemas on the way to it; the keyword is removed from the
 * innermost of them that has it, also behind its $ref and allOf. */
#include "base/mem.h"
#include "text/schema.h"
#include "text/schema_parts.h"

#include <stdio.h>

enum { REMOVED_MAX = 256 };

typedef struct remover {
    json_t *root;
    const char *key;
    bool alternatives; /* look into anyOf and oneOf too */
    int depth, removed;
} remover;

/* Is the object part of the schema, and not one that merging made? */
static bool is_part(json_t *of, const json_t *x)
{
    const char *k;
    json_t *v;
    size_t i;
    if (of == x) return true;
    json_object_foreach(of, k, v) if (is_part(v, x)) return true;
    json_array_foreach(of, i, v) if (is_part(v, x)) return true;
    return false;
}

/* The keywords whose removal alone would not make the schema wider. */
static void remove_key(remover *r, json_t *schema)
{
    json_t *v = json_incref(json_object_get(schema, r->key));
    if (!strcmp(r->key, "oneOf") && !json_object_get(schema, "anyOf"))
        json_object_set(schema, "anyOf", v); /* one or more, instead of exactly one */
    if (!strcmp(r->key, "patternProperties") &&
        json_is_false(json_object_get(schema, "additionalProperties")))
        json_object_del(schema, "additionalProperties");
    json_object_del(schema, r->key);
    if (!strcmp(r->key, "additionalProperties")) /* there they are allowed unless excluded */
        json_object_set_new(schema, r->key, json_false());
    json_decref(v);
    r->removed++;
}

static void remove_from(remover *r, json_t *schema);

static void remove_from_all(remover *r, json_t *list)
{
    size_t i;
    json_t *x;
    json_array_foreach(list, i, x) remove_from(r, x);
}

static json_t *find_ref(json_t *root, const char *ref)
{
    json_t *at = root;
    if (!ref || ref[0] != '#') return NULL;
    for (const char *p = ref + 1; *p == '/' && at;) {
        char name[256];
        const size_t n = strcspn(++p, "/");
        if (n >= sizeof name) return NULL;
        memcpy(name, p, n);
        name[n] = 0;
        p += n;
        at = json_object_get(at, name);
    }
    return at;
}

static void remove_from(remover *r, json_t *schema)
{
    if (!json_is_object(schema) || r->depth >= FT_SCHEMA_DEPTH) return;
    r->depth++;
    if (json_object_get(schema, r->key) && is_part(r->root, schema)) {
        remove_key(r, schema);
    } else {
        remove_from(r, find_ref(r->root, json_string_value(json_object_get(schema, "$ref"))));
        remove_from_all(r, json_object_get(schema, "allOf"));
        if (r->alternatives) {
            remove_from_all(r, json_object_get(schema, "anyOf"));
            remove_from_all(r, json_object_get(schema, "oneOf"));
        }
    }
    r->depth--;
}

static bool remove_blamed(json_t *root, const ft_schema_blame *b)
{
    remover r = {.root = root, .key = b->key};
    for (int i = FT_MIN(b->n, FT_SCHEMA_DEPTH) - 1; i >= 0 && *b->key; i--)
        for (int k = 0; k < 2 && !r.removed; k++) {
            r.alternatives = k;
            remove_from(&r, b->at[i]);
        }
    return r.removed > 0;
}

ft_status ft_schema_remove_unsupported(json_t *schema, json_t *removed, ft_err *err)
{
    for (int i = 0;; i++) {
        ft_schema_blame blame;
        ft_buf scratch;
        ft_buf_init(&scratch, FT_SCHEMA_GBNF_MAX);
        const ft_status st = ft_schema_compile(&scratch, schema, &blame, err);
        const bool again =
            st == FT_EUNSUPPORTED && i < REMOVED_MAX && remove_blamed(schema, &blame);
        ft_buf_release(&scratch);
        ft_schema_blame_release(&blame);
        if (!again) return st;
        char note[sizeof blame.key + sizeof blame.path + sizeof blame.why + 16];
        snprintf(note, sizeof note, "%s at %s: %s", blame.key, blame.path, blame.why);
        json_array_append_new(removed, json_string(note));
    }
}
