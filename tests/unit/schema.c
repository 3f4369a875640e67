/* tests/unit/schema.c - schemas: every case of tests/data/schema is compiled or rejected as
 * recorded, and 30 generated documents of each are checked by a small validator in this file.
 * tests/e2e/schema.sh does the same with ajv and more documents. */
#define _GNU_SOURCE
#include "text/schema.h"
#include "base/file.h"
#include "base/mem.h"
#include "text/schema_parts.h"

#include "schema_gen.h"
#include "unit.h"

#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define FOLDER "tests/data/schema"

/* ---- a validator for types, bounds, counts, names, lists and combinations ---- */

static bool valid(json_t *root, json_t *s, json_t *x);

static bool is_type(const char *t, const json_t *x)
{
    if (!strcmp(t, "null")) return json_is_null(x);
    if (!strcmp(t, "boolean")) return json_is_boolean(x);
    if (!strcmp(t, "object")) return json_is_object(x);
    if (!strcmp(t, "array")) return json_is_array(x);
    if (!strcmp(t, "string")) return json_is_string(x);
    if (!strcmp(t, "number")) return json_is_number(x);
    return json_is_number(x) && json_number_value(x) == floor(json_number_value(x));
}

static bool type_ok(json_t *s, json_t *x)
{
    json_t *t = json_object_get(s, "type"), *one;
    size_t i;
    if (!t || (json_is_null(x) && json_is_true(json_object_get(s, "nullable")))) return true;
    if (json_is_string(t)) return is_type(json_string_value(t), x);
    json_array_foreach(t, i, one) if (is_type(json_string_value(one), x)) return true;
    return false;
}

static bool equal(json_t *a, json_t *b)
{
    if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
    return json_equal(a, b);
}

static bool listed(json_t *s, json_t *x)
{
    json_t *list = json_object_get(s, "enum"), *one = json_object_get(s, "const");
    if (one && !equal(one, x)) return false;
    if (!list) return true;
    for (size_t i = 0; i < json_array_size(list); i++)
        if (equal(json_array_get(list, i), x)) return true;
    return false;
}

static bool between(json_t *s, double v, const char *lo, const char *hi)
{
    json_t *a = json_object_get(s, lo), *b = json_object_get(s, hi);
    return (!a || v >= json_number_value(a)) && (!b || v <= json_number_value(b));
}

static bool number_ok(json_t *s, json_t *x)
{
    json_t *a = json_object_get(s, "exclusiveMinimum"), *b = json_object_get(s, "exclusiveMaximum");
    const double v = json_number_value(x);
    json_t *m = json_object_get(s, "multipleOf");
    const double q = m ? v / json_number_value(m) : 0;
    return between(s, v, "minimum", "maximum") && (!a || v > json_number_value(a)) &&
           (!b || v < json_number_value(b)) && fabs(q - round(q)) <= 1e-9 * fmax(1, fabs(q));
}

static bool string_ok(json_t *s, json_t *x)
{
    size_t n = 0;
    for (const char *p = json_string_value(x), *e = p + json_string_length(x); p < e; p++)
        n += (*p & 0xC0) != 0x80;
    return between(s, (double)n, "minLength", "maxLength");
}

static bool array_ok(json_t *root, json_t *s, json_t *x)
{
    json_t *first = json_object_get(s, "prefixItems"), *rest = json_object_get(s, "items"), *one;
    size_t i;
    if (json_is_array(rest)) first = rest, rest = json_object_get(s, "additionalItems");
    json_array_foreach(x, i, one)
    {
        json_t *want = i < json_array_size(first) ? json_array_get(first, i) : rest;
        if (want && !valid(root, want, one)) return false;
    }
    return between(s, (double)json_array_size(x), "minItems", "maxItems");
}

static bool object_ok(json_t *root, json_t *s, json_t *x)
{
    json_t *props = json_object_get(s, "properties"),
           *more = json_object_get(s, "additionalProperties"), *one;
    json_t *need = json_object_get(s, "required"), *names = json_object_get(s, "propertyNames");
    const char *k;
    size_t i;
    json_array_foreach(need, i, one) if (!json_object_get(x, json_string_value(one))) return false;
    json_object_foreach(x, k, one)
    {
        json_t *want = json_object_get(props, k), *key = json_string(k);
        if (!want) want = more;
        const bool named = !names || valid(root, names, key);
        json_decref(key);
        if (!named || (want && !valid(root, want, one))) return false;
    }
    return between(s, (double)json_object_size(x), "minProperties", "maxProperties");
}

static bool combined(json_t *root, json_t *s, json_t *x)
{
    static const char *const keys[] = {"anyOf", "oneOf", "allOf"};
    for (size_t k = 0; k < 3; k++) {
        json_t *list = json_object_get(s, keys[k]);
        size_t hit = 0, n = json_array_size(list);
        if (!list) continue;
        for (size_t i = 0; i < n; i++) hit += valid(root, json_array_get(list, i), x);
        if (k == 0 ? hit == 0 : k == 1 ? hit != 1 : hit != n) return false;
    }
    return true;
}

static json_t *pointer(json_t *root, const char *z)
{
    char name[100];
    for (z++; *z && root;) {
        size_t n = 0;
        for (z++; *z && *z != '/'; z++) name[n++] = *z != '~' ? *z : *++z == '0' ? '~' : '/';
        name[n] = 0;
        root = json_object_get(root, name);
    }
    return root;
}

static bool valid(json_t *root, json_t *s, json_t *x)
{
    if (json_is_boolean(s)) return json_is_true(s);
    json_t *ref = json_object_get(s, "$ref");
    if (ref && !valid(root, pointer(root, json_string_value(ref)), x)) return false;
    if (!type_ok(s, x) || !listed(s, x) || !combined(root, s, x)) return false;
    if (json_is_number(x)) return number_ok(s, x);
    if (json_is_string(x)) return string_ok(s, x);
    if (json_is_array(x)) return array_ok(root, s, x);
    return json_is_object(x) ? object_ok(root, s, x) : true;
}

/* ---- the cases ---- */

static ft_trie *trie;

static void sample(const char *name, json_t *schema, const ft_grammar *g, const char *text, int n)
{
    ft_grammar_state *s;
    ft_buf out;
    ft_rng r = {3};
    bool letters[128];
    gen_letters(ft_str_of(text), letters);
    assert_int_equal(ft_grammar_state_new(&s, g, trie, NULL, NULL), FT_OK);
    ft_buf_init(&out, 1 << 20);
    for (int i = 0; i < n; i++) {
        json_error_t at;
        if (!gen_text(&out, s, &r, letters, 100, 200000))
            fail_msg("%s: no end after %.300s", name, ft_buf_z(&out));
        json_t *doc = json_loadb(ft_buf_z(&out), out.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &at);
        if (!doc) fail_msg("%s: %s in %s", name, at.text, ft_buf_z(&out));
        if (!valid(schema, schema, doc)) fail_msg("%s: not valid: %s", name, ft_buf_z(&out));
        json_decref(doc);
    }
    ft_buf_release(&out);
    ft_grammar_state_free(s);
}

static void one_case(json_t *c)
{
    const char *name = json_string_value(json_object_get(c, "name"));
    const bool refuse = !strcmp(json_string_value(json_object_get(c, "expect")), "refuse");
    json_t *schema = json_object_get(c, "schema");
    char *text = json_dumps(schema, JSON_ENCODE_ANY);
    ft_grammar *g = NULL;
    ft_err err = {.text = ""};
    const ft_status st = ft_schema_grammar(&g, ft_str_of(text), &err);
    if (!refuse && st) fail_msg("%s: %s", name, err.text);
    if (refuse && !st) fail_msg("%s: not rejected", name);
    if (refuse && !strstr(err.text, json_string_value(json_object_get(c, "says"))))
        fail_msg("%s: the error is %s", name, err.text);
    if (!st) sample(name, schema, g, text, 30);
    ft_grammar_free(g);
    free(text);
}

static void every_case_of_the_suite(void **state)
{
    (void)state;
    int n = 0;
    DIR *d = opendir(FOLDER);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        char path[512];
        json_error_t at;
        snprintf(path, sizeof path, FOLDER "/%s", e->d_name);
        if (!strstr(e->d_name, ".json")) continue;
        json_t *cases = json_load_file(path, 0, &at), *c;
        if (!cases) fail_msg("%s: %s", path, at.text);
        size_t i;
        json_array_foreach(cases, i, c) one_case(c), n++;
        json_decref(cases);
    }
    closedir(d);
    assert_true(n >= 120);
}

/* The validator above must reject invalid documents. */
static void the_validator_rejects(void **state)
{
    (void)state;
    static const char *const pair[][2] = {
        {"{\"type\":\"string\"}", "1"},
        {"{\"minimum\":3}", "2"},
        {"{\"exclusiveMaximum\":3}", "3"},
        {"{\"enum\":[1,2]}", "3"},
        {"{\"required\":[\"a\"]}", "{}"},
        {"{\"properties\":{\"a\":false}}", "{\"a\":1}"},
        {"{\"additionalProperties\":false}", "{\"a\":1}"},
        {"{\"propertyNames\":{\"maxLength\":1}}", "{\"ab\":1}"},
        {"{\"multipleOf\":3}", "4"},
        {"{\"maxItems\":1}", "[1,2]"},
        {"{\"maxLength\":1}", "\"ab\""},
        {"{\"oneOf\":[{},true]}", "1"},
        {"{\"anyOf\":[{\"type\":\"null\"}]}", "1"},
        {"{\"$defs\":{\"a\":{\"type\":\"null\"}},\"$ref\":\"#/$defs/a\"}", "1"},
    };
    for (size_t i = 0; i < FT_COUNT(pair); i++) {
        json_t *s = json_loads(pair[i][0], 0, NULL),
               *x = json_loads(pair[i][1], JSON_DECODE_ANY, NULL);
        assert_false(valid(s, s, x));
        json_decref(s), json_decref(x);
    }
}

/* true: the whole text is a document of the schema */
static bool accepts(const char *schema, const char *text)
{
    ft_grammar *g;
    ft_grammar_state *s;
    ft_err err;
    if (ft_schema_grammar(&g, ft_str_of(schema), &err)) fail_msg("%s", err.text);
    assert_int_equal(ft_grammar_state_new(&s, g, trie, NULL, NULL), FT_OK);
    const bool ok = ft_grammar_accept_bytes(s, ft_str_of(text)) && ft_grammar_accepting(s);
    ft_grammar_state_free(s);
    ft_grammar_free(g);
    return ok;
}

/* Documents that must or must not match: a too narrow grammar would pass every check above. */
static void documents_one_by_one(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *text;
        bool in;
    } t[] = {
        {"{}", "{\"a\": [1, 2.5e3, null], \"b\":\"\\u00e4\\n\"}", true},
        {"{}", "{\"a\":  1}", false}, /* two spaces */
        {"{}", "[ 1, 2 ]", true},
        {"{}", "[1 ,2]", false},
        {"{\"type\":\"string\"}", "\"a\nb\"", false},
        {"{\"type\":\"string\"}", "\"\\ud83d\"", false}, /* half a pair */
        {"{\"type\":\"integer\"}", "-0", false},
        {"{\"type\":\"integer\"}", "007", false},
        {"{\"type\":\"integer\",\"minimum\":-3,\"maximum\":12}", "-3", true},
        {"{\"type\":\"integer\",\"minimum\":-3,\"maximum\":12}", "12", true},
        {"{\"type\":\"integer\",\"minimum\":-3,\"maximum\":12}", "13", false},
        {"{\"type\":\"integer\",\"minimum\":-3,\"maximum\":12}", "-4", false},
        {"{\"type\":\"number\",\"minimum\":0,\"maximum\":1}", "0.25", true},
        {"{\"type\":\"number\",\"minimum\":0,\"maximum\":1}", "1.0", true},
        {"{\"type\":\"number\",\"minimum\":0,\"maximum\":1}", "1.01", false},
        {"{\"type\":\"number\",\"exclusiveMinimum\":0,\"maximum\":1}", "0.0", false},
        {"{\"properties\":{\"a\":{},\"b\":{}},\"required\":[\"b\"]}", "{\"a\":1,\"b\":2,\"c\":3}",
         true},
        {"{\"properties\":{\"a\":{},\"b\":{}},\"required\":[\"b\"]}", "{\"b\":2}", true},
        {"{\"properties\":{\"a\":{},\"b\":{}},\"required\":[\"b\"]}", "{\"a\":2}", false},
        {"{\"properties\":{\"a\":{},\"b\":{}},\"required\":[\"b\"]}", "{\"b\":2,\"a\":1}", false},
        {"{\"properties\":{\"ab\":{}},\"additionalProperties\":{}}",
         "{\"a\":1,\"abc\":2,\"b\":3,\"\":4}", true},
        {"{\"properties\":{\"ab\":{\"type\":\"null\"}}}", "{\"ab\":1}", false},
        {"{\"type\":\"integer\",\"minimum\":0,\"maximum\":9007199254740991}", "9007199254740991",
         true},
        {"{\"type\":\"integer\",\"minimum\":0,\"maximum\":9007199254740991}", "9007199254740992",
         false},
        {"{\"type\":\"integer\",\"minimum\":-9223372036854775808}", "-9223372036854775808", true},
        {"{\"type\":\"integer\",\"minimum\":-9223372036854775808}", "-9223372036854775809", false},
        {"{\"type\":\"integer\",\"minimum\":0,\"maximum\":18446744073709551615}",
         "184467440737095516", true},
        {"{\"type\":\"integer\",\"minimum\":0,\"maximum\":18446744073709551615}",
         "18446744073709551616", false},
        {"{\"type\":\"integer\",\"minimum\":0,\"maximum\":18446744073709551615}", "-1", false},
        {"{\"type\":\"number\",\"minimum\":-9223372036854775808}", "-12.25", true},
        {"{\"type\":\"number\",\"maximum\":9007199254740991}", "12.25", true},
        {"{\"type\":\"integer\",\"multipleOf\":3}", "-21", true},
        {"{\"type\":\"integer\",\"multipleOf\":3}", "0", true},
        {"{\"type\":\"integer\",\"multipleOf\":3}", "22", false},
        {"{\"type\":\"integer\",\"multipleOf\":3,\"minimum\":100}", "99", false},
        {"{\"type\":\"integer\",\"multipleOf\":3,\"minimum\":100}", "123456789", true},
        {"{\"type\":\"number\",\"multipleOf\":0.01}", "12.25", true},
        {"{\"type\":\"number\",\"multipleOf\":0.01}", "12.255", false},
        {"{\"propertyNames\":{\"enum\":[\"a\"]},\"additionalProperties\":{}}", "{\"a\":1}", true},
        {"{\"propertyNames\":{\"enum\":[\"a\"]},\"additionalProperties\":{}}", "{\"b\":1}", false},
        {"{\"propertyNames\":{\"pattern\":\"^x\"}}", "{\"xy\":1,\"x\":2}", true},
        {"{\"propertyNames\":{\"pattern\":\"^x\"}}", "{\"y\":1}", false},
        {"{\"format\":\"date\"}", "\"2024-02-28\"", true},
        {"{\"format\":\"date\"}", "\"2024-04-31\"", false},
        {"{\"format\":\"date-time\"}", "\"2024-12-31T23:59:59.5+02:00\"", true},
        {"{\"format\":\"ipv4\"}", "\"255.255.255.255\"", true},
        {"{\"format\":\"ipv4\"}", "\"256.1.1.1\"", false},
        {"{\"pattern\":\"^a.c$\"}", "\"a\\\"c\"", true},
        {"{\"pattern\":\"b\"}", "\"abc\"", true},
        {"{\"pattern\":\"b\"}", "\"ac\"", false},
        {"{\"minLength\":2,\"maxLength\":2}", "\"\xc3\xa4\\n\"", true},
        {"{\"minLength\":2,\"maxLength\":2}", "\"\xc3\xa4\"", false},
    };
    for (size_t i = 0; i < FT_COUNT(t); i++)
        if (accepts(t[i].schema, t[i].text) != t[i].in) fail_msg("%s: %s", t[i].schema, t[i].text);
}

/* What cannot be enforced is removed and named; the rest stays. */
static void unsupported_keywords_are_removed(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *left, *removed; /* of removed: a part of each, by '|' */
    } t[] = {
        {"{\"type\":\"integer\",\"minimum\":3}", "{\"type\":\"integer\",\"minimum\":3}", ""},
        {"{\"pattern\":\"^(?=a)b\",\"minLength\":2}", "{\"minLength\":2}", "pattern at #: "},
        {"{\"properties\":{\"a\":{\"format\":\"idn-email\"},\"b\":{\"uniqueItems\":true,\"items\":{"
         "}}}}",
         "{\"properties\":{\"a\":{},\"b\":{\"items\":{}}}}",
         "format at #/properties/a: |uniqueItems at #/properties/b: "},
        {"{\"$defs\":{\"x\":{\"type\":\"string\",\"contains\":1}},\"items\":{\"$ref\":\"#/$defs/"
         "x\"}}",
         "{\"$defs\":{\"x\":{\"type\":\"string\"}},\"items\":{\"$ref\":\"#/$defs/x\"}}",
         "contains at #/items: "},
        {"{\"oneOf\":[{\"minLength\":1},{\"maxLength\":3}]}",
         "{\"anyOf\":[{\"minLength\":1},{\"maxLength\":3}]}", "oneOf at #: "},
        {"{\"pattern\":\"(?!a)\",\"anyOf\":[{\"minLength\":1},{\"maxLength\":3}]}",
         "{\"anyOf\":[{\"minLength\":1},{\"maxLength\":3}]}", "pattern at #/anyOf/0: "},
        {"{\"anyOf\":[{\"type\":\"null\"},{\"type\":\"string\",\"not\":{}}]}",
         "{\"anyOf\":[{\"type\":\"null\"},{\"type\":\"string\"}]}", "not at #/anyOf/1: "},
        {"{\"patternProperties\":{\"^x\":{}},\"additionalProperties\":false,\"type\":\"object\"}",
         "{\"type\":\"object\"}", "patternProperties at #: "},
        {"{\"allOf\":[{\"properties\":{\"a\":{\"minLength\":1}}},{\"properties\":{\"a\":{"
         "\"pattern\":\"(?=x)\"}}}]}",
         "{\"allOf\":[{\"properties\":{\"a\":{\"minLength\":1}}},{\"properties\":{\"a\":{}}}]}",
         "pattern at #/properties/a: "},
    };
    for (size_t i = 0; i < FT_COUNT(t); i++) {
        ft_err err;
        json_t *s = json_loads(t[i].schema, 0, NULL), *left = json_loads(t[i].left, 0, NULL);
        json_t *removed = json_array();
        if (ft_schema_remove_unsupported(s, removed, &err))
            fail_msg("%s: %s", t[i].schema, err.text);
        char *now = json_dumps(s, JSON_COMPACT), *list = json_dumps(removed, 0);
        if (!json_equal(s, left)) fail_msg("%s became %s", t[i].schema, now);
        size_t n = 0;
        for (const char *p = t[i].removed; *p; n++) {
            const size_t len = strcspn(p, "|");
            const char *found = json_string_value(json_array_get(removed, n));
            if (!found || strncmp(found, p, len)) fail_msg("%s: removed %s", t[i].schema, list);
            p += len + (p[len] == '|');
        }
        assert_int_equal(json_array_size(removed), n);
        free(now), free(list);
        json_decref(s), json_decref(left), json_decref(removed);
    }
    json_t *s = json_loads("{\"type\":\"string\",\"enum\":[1]}", 0, NULL), *none = json_array();
    assert_int_equal(ft_schema_remove_unsupported(s, none, NULL), FT_EINVAL); /* a contradiction */
    json_decref(s), json_decref(none);
}

/* Plain regular expressions match the whole text, without the escapes of JSON. */
static void regular_expressions(void **state)
{
    (void)state;
    static const struct {
        const char *regex, *text;
        bool in;
    } t[] = {
        {"[a-z]{3}[0-9]", "abc1", true},
        {"[a-z]{3}[0-9]", "xabc1", false},
        {"[a-z]{3}[0-9]", "abc12", false},
        {"^a|b$", "a", true},
        {"^a|b$", "ab", false},
        {"(\"|\\\\|\n)+", "\"\\\n", true},
        {"\\d+\\.\\d{2}", "12.50", true},
        {"\\d+\\.\\d{2}", "12.5", false},
        {"", "", true},
        {"caf\xc3\xa9?", "caf\xc3\xa9", true},
    };
    for (size_t i = 0; i < FT_COUNT(t); i++) {
        ft_grammar *g;
        ft_grammar_state *s;
        ft_err err;
        ft_buf b;
        ft_buf_init(&b, FT_SCHEMA_GBNF_MAX);
        if (ft_regex_gbnf(&b, t[i].regex, &err)) fail_msg("%s: %s", t[i].regex, err.text);
        if (ft_grammar_new(&g, ft_buf_str(&b), "root", &err))
            fail_msg("%s: %s", t[i].regex, err.text);
        assert_int_equal(ft_grammar_state_new(&s, g, trie, NULL, NULL), FT_OK);
        const bool in = ft_grammar_accept_bytes(s, ft_str_of(t[i].text)) && ft_grammar_accepting(s);
        if (in != t[i].in) fail_msg("%s: \"%s\" is %d", t[i].regex, t[i].text, in);
        ft_grammar_state_free(s);
        ft_grammar_free(g);
        ft_buf_release(&b);
    }
    static const char *const bad[] = {"(?=a)b", "(a)\\1", "a**", "[a", "a)", "(a", "a^b"};
    for (size_t i = 0; i < FT_COUNT(bad); i++) {
        ft_err err;
        ft_buf b;
        ft_buf_init(&b, FT_SCHEMA_GBNF_MAX);
        assert_int_equal(ft_regex_gbnf(&b, bad[i], &err), FT_EUNSUPPORTED);
        ft_buf_release(&b);
    }
}

static void hostile_schemas_are_bounded(void **state)
{
    (void)state;
    ft_buf b;
    ft_err err;
    ft_grammar *g;
    ft_buf_init(&b, 1 << 22);
    for (int i = 0; i < 1500; i++) ft_buf_puts(&b, "{\"items\":");
    ft_buf_puts(&b, "true");
    for (int i = 0; i < 1500; i++) ft_buf_puts(&b, "}");
    assert_int_not_equal(ft_schema_grammar(&g, ft_buf_str(&b), &err), FT_OK);
    ft_buf_clear(&b); /* 3^40 combinations */
    ft_buf_puts(&b, "{\"allOf\":[");
    for (int i = 0; i < 40; i++)
        ft_buf_printf(&b, "%s{\"anyOf\":[{\"minLength\":%d},{\"maxLength\":%d},{\"minimum\":%d}]}",
                      i ? "," : "", i, 100 + i, i);
    ft_buf_puts(&b, "]}");
    assert_int_not_equal(ft_schema_grammar(&g, ft_buf_str(&b), &err), FT_OK);
    static const char *const bad[] = {
        "", "{", "nul", "\"x\"", "[]", "{\"type\":\"string\",\"type\":\"null\"}", "\xff"};
    for (size_t i = 0; i < FT_COUNT(bad); i++)
        assert_int_not_equal(ft_schema_grammar(&g, ft_str_of(bad[i]), &err), FT_OK);
    ft_buf_release(&b);
}

int main(void)
{
    trie = gen_trie();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_of_the_suite),
        cmocka_unit_test(the_validator_rejects),
        cmocka_unit_test(documents_one_by_one),
        cmocka_unit_test(unsupported_keywords_are_removed),
        cmocka_unit_test(regular_expressions),
        cmocka_unit_test(hostile_schemas_are_bounded),
    };
    const int rc = cmocka_run_group_tests(tests, NULL, NULL);
    ft_trie_free(trie);
    return rc;
}
