/* fuzz/schema.c - arbitrary bytes as a schema: rejected with a message, or documents generated from
 * its grammar parse; without its unsupported keywords a rejected schema compiles. The same bytes as
 * a regular expression are rejected with a message, or become a grammar that compiles. */
#include "text/schema.h"
#include "base/mem.h"
#include "text/schema_parts.h"

#include "../tests/schema_gen.h"

#include <jansson.h>
#include <stdlib.h>

/* A schema without its unsupported keywords compiles. */
static void relax(ft_str text)
{
    json_t *schema, *removed = json_array();
    ft_buf out;
    ft_buf_init(&out, FT_SCHEMA_GBNF_MAX);
    if (!ft_schema_load(&schema, text, NULL)) {
        if (!ft_schema_remove_unsupported(schema, removed, NULL) &&
            ft_schema_compile(&out, schema, NULL, NULL))
            abort();
        json_decref(schema);
    }
    json_decref(removed);
    ft_buf_release(&out);
}

static void regex(const uint8_t *data, size_t n)
{
    char *text = ft_alloc(n + 1);
    ft_grammar *g;
    ft_err err = {.text = ""};
    ft_buf out;
    memcpy(text, data, n);
    ft_buf_init(&out, FT_SCHEMA_GBNF_MAX);
    if (ft_regex_gbnf(&out, text, &err) || ft_grammar_new(&g, ft_buf_str(&out), "root", &err)) {
        if (!err.text[0]) abort();
    } else {
        ft_grammar_free(g);
    }
    ft_buf_release(&out);
    ft_free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static ft_trie *t;
    static const bool letters[128];
    if (!t) t = gen_trie();
    regex(data, n);
    ft_grammar *g;
    ft_err err = {.text = ""};
    if (ft_schema_grammar(&g, (ft_str){(const char *)data, n}, &err)) {
        if (!err.text[0]) abort();
        relax((ft_str){(const char *)data, n});
        return 0;
    }
    ft_grammar_state *s;
    if (!ft_grammar_state_new(&s, g, t, NULL, &err)) {
        ft_rng r = {n};
        ft_buf out;
        ft_buf_init(&out, 4096);
        for (int i = 0; i < 3; i++) {
            if (!gen_text(&out, s, &r, letters, 100, 600)) continue;
            json_t *doc =
                json_loadb(ft_buf_z(&out), out.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
            if (!doc) abort();
            json_decref(doc);
        }
        ft_buf_release(&out);
        ft_grammar_state_free(s);
    }
    ft_grammar_free(g);
    return 0;
}
