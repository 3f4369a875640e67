/* tests/unit/grammar.c - grammars: the language against a naive recogniser, masks against accepting
 * single tokens, lazy triggers, limits. With --bench: the time of masks over a large synthetic
 * vocabulary. */
#include "text/grammar.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "text/gbnf.h"

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- vocabularies ---- */

typedef struct vocab {
    ft_str *s;
    int32_t n, eog;
} vocab;

static ft_str token_bytes(void *user, int32_t id)
{
    return ((vocab *)user)->s[id];
}

static bool token_eog(void *user, int32_t id)
{
    return id == ((vocab *)user)->eog;
}

/* The 256 bytes, an end token, then n random tokens over the given letters (UTF-8 may be cut
 * anywhere). */
static vocab make_vocab(ft_rng *r, const char *letters, int n)
{
    vocab v = {.s = ft_new_n(ft_str, (size_t)n + 257), .n = n + 257, .eog = 256};
    for (int i = 0; i < v.n; i++) {
        size_t len = i < 256 ? 1 : 1 + (size_t)(ft_rng_u64(r) % 6);
        char *p = ft_alloc(len);
        p[0] = (char)i;
        for (size_t k = 0; i > 256 && k < len; k++) p[k] = letters[ft_rng_u64(r) % strlen(letters)];
        v.s[i] = (ft_str){p, len};
    }
    return v;
}

static void free_vocab(vocab *v)
{
    for (int i = 0; i < v->n; i++) ft_free((char *)(uintptr_t)v->s[i].p);
    ft_free(v->s);
}

static ft_trie *make_trie(vocab *v)
{
    const ft_token_source src = {v, v->n, token_bytes, token_eog};
    return ft_trie_new(&src);
}

static ft_grammar *compile(const char *text)
{
    ft_grammar *g;
    ft_err err;
    if (ft_grammar_new(&g, ft_str_of(text), NULL, &err)) fail_msg("%s in %s", err.text, text);
    return g;
}

static ft_grammar_state *new_state(const ft_grammar *g, const ft_trie *t,
                                   const ft_grammar_lazy *lazy)
{
    ft_grammar_state *s;
    ft_err err;
    if (ft_grammar_state_new(&s, g, t, lazy, &err)) fail_msg("%s", err.text);
    return s;
}

/* 0: not a prefix of the language, 1: a prefix, 2: a text of it */
static int classify(const ft_grammar_state *start, ft_str text)
{
    ft_grammar_state *s = ft_grammar_state_clone(start);
    const bool ok = ft_grammar_accept_bytes(s, text);
    const int kind = !ok ? 0 : ft_grammar_accepting(s) ? 2 : 1;
    ft_grammar_state_free(s);
    return kind;
}

/* ---- tables ---- */

typedef struct sample {
    const char *grammar, *yes[6], *no[6]; /* no: not even a prefix, or not complete */
} sample;

static const sample table[] = {
    {"root ::= \"a\" [b-d]* \"e\"?", {"a", "abcd", "abe", "ae"}, {"", "b", "aee", "abx"}},
    {"root ::= (\"ab\" | \"a\") \"c\"", {"abc", "ac"}, {"a", "ab", "abcc"}},
    {"root ::= [a-z]{2} [0-9]{1,2} \"!\"{0,}", {"ab1", "ab12!!!"}, {"a1", "ab", "ab123"}},
    {"root ::= [^a\\n]+ # all but a\n", {"b", "\xc3\xa4\xe2\x82\xac"}, {"a", "\n", "", "\xc3"}},
    {"root ::= \"\\u00e4\" \"\\x41\" \"\\U0001F600\"",
     {"\xc3\xa4"
      "A\xf0\x9f\x98\x80"},
     {"\xc3\xa4"}},
    {"root ::= [\\u00e4-\\u20ac] .",
     {"\xc3\xa4x", "\xe2\x82\xac\n"},
     {"\xc3\xa3x", "\xe2\x82\xadx"}},
    {"root ::= list\nlist ::= \"(\" list* \")\"", {"()", "(()())", "((()))"}, {"(", ")", "())"}},
    {"root ::= item | item \",\" root\nitem ::= [0-9]+", {"1", "12,3,4"}, {",", "1,", "1,,2"}},
    {"root ::= \"\" | \"a\"", {"", "a"}, {"b", "aa"}},
    {"root ::= a-b c_d\na-b ::= \"x\"\nc_d ::= \"y\" |\n  \"z\"", {"xy", "xz"}, {"x", "yx"}},
    {"root ::= (\n \"a\"\n | \"b\" # c\n)", {"a", "b"}, {"", "ab"}},
    {"root ::= opt \"x\"\nopt ::= \"a\"? \"b\"?", {"x", "ax", "bx", "abx"}, {"bax", "aax"}},
    {"root ::= [\\]\\[\\\\-] [a-]", {"]a", "[-", "\\a"}, {"xa"}},
};

static void languages_of_the_table(void **state)
{
    (void)state;
    ft_rng r = {1};
    vocab v = make_vocab(&r, "ab", 0);
    ft_trie *t = make_trie(&v);
    for (size_t i = 0; i < FT_COUNT(table); i++) {
        ft_grammar *g = compile(table[i].grammar);
        ft_grammar_state *s = new_state(g, t, NULL);
        for (int k = 0; k < 6 && table[i].yes[k]; k++)
            if (classify(s, ft_str_of(table[i].yes[k])) != 2)
                fail_msg("%s rejects %s", table[i].grammar, table[i].yes[k]);
        for (int k = 0; k < 6 && table[i].no[k]; k++)
            if (classify(s, ft_str_of(table[i].no[k])) == 2)
                fail_msg("%s accepts %s", table[i].grammar, table[i].no[k]);
        ft_grammar_state_free(s);
        ft_grammar_free(g);
    }
    ft_trie_free(t);
    free_vocab(&v);
}

static void errors_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "no rule 'root'"},
        {"a ::= \"x\"", "no rule 'root'"},
        {"root ::= missing", "'missing' is used but not defined"},
        {"root ::= \"x\"\nroot ::= \"y\"", "line 2"},
        {"root ::= \"x", "literal"},
        {"root ::= \"x\n\"", "line ends"},
        {"root ::= [a-", "class"},
        {"root ::= [z-a]", "below its start"},
        {"root ::= (\"x\"", "')'"},
        {"root ::= \"x\")", "unexpected"},
        {"root ::= \"\\q\"", "escape"},
        {"root ::= \"\\ud800\"", "not a Unicode character"},
        {"root ::= \"a\"{3,2}", "below min"},
        {"root ::= \"a\"{0,1000000}", "100000"},
        {"root ::= \"a\"{", "number"},
        {"root = \"a\"", "::="},
        {"root ::= root \"a\" | \"b\"", "'root' (line 1) is left recursive"},
        {"root ::= x\nx ::= y? x \"a\" | \"b\"\ny ::= \"c\"", "'x' (line 2) is left recursive"},
        {"root ::= a \"z\" | \"k\"\na ::= b \"x\" | \"l\"\nb ::= a \"y\" | \"m\"",
         "left recursive"},
        {"root ::= \"a\" root", "no finite text"},
        {"root ::= (((\"a\"{1000}){1000}){1000})", "pieces"},
        {"root ::= [ab]* \"a\" [ab]{30}", "too large or too ambiguous"},
        {"root ::= \"\xff\"", "UTF-8"},
    };
    for (size_t i = 0; i < FT_COUNT(bad); i++) {
        ft_grammar *g;
        ft_err err;
        if (!ft_grammar_new(&g, ft_str_of(bad[i].text), NULL, &err))
            fail_msg("%s passes", bad[i].text);
        if (!strstr(err.text, bad[i].says)) fail_msg("%s: the error is %s", bad[i].text, err.text);
    }
    ft_buf deep;
    ft_buf_init(&deep, 1 << 20);
    ft_buf_puts(&deep, "root ::= ");
    for (int i = 0; i < 100000; i++) ft_buf_putc(&deep, '(');
    ft_grammar *g;
    assert_int_equal(ft_grammar_new(&g, ft_buf_str(&deep), NULL, NULL), FT_ELIMIT);
    ft_buf_release(&deep);
}

/* ---- a naive recogniser: sets of positions as bits ---- */

static long plain_left; /* it may take exponential time; then the text is not compared */

static uint64_t plain(const ft_gbnf *g, uint32_t at, ft_str text, uint64_t from);

static uint64_t plain_class(const ft_gbnf *g, const ft_gnode *c, ft_str text, uint64_t from)
{
    uint64_t out = 0;
    for (size_t i = 0; i < text.n; i++) {
        int len;
        if (!(from >> i & 1)) continue;
        const uint32_t ch = ft_utf8_decode(text.p + i, text.n - i, &len);
        for (uint32_t k = 0; k < c->n; k++)
            if (ch >= g->range[c->at + k].lo && ch <= g->range[c->at + k].hi)
                out |= (uint64_t)1 << (i + (size_t)len);
    }
    return out;
}

static uint64_t plain(const ft_gbnf *g, uint32_t at, ft_str text, uint64_t from)
{
    const ft_gnode *c = &g->node[at];
    uint64_t out = 0;
    if (!from || --plain_left < 0) return 0;
    switch (c->kind) {
    case FT_G_EMPTY: return from;
    case FT_G_CLASS: return plain_class(g, c, text, from);
    case FT_G_RULE: return plain(g, g->rule[c->at].body, text, from);
    case FT_G_BYTES:
        for (size_t i = 0; i + c->n <= text.n; i++)
            if ((from >> i & 1) && !memcmp(text.p + i, g->byte + c->at, c->n))
                out |= (uint64_t)1 << (i + c->n);
        return out;
    case FT_G_SEQ:
        for (uint32_t k = c->first; k; k = g->node[k].next) from = plain(g, k, text, from);
        return from;
    case FT_G_ALT:
        for (uint32_t k = c->first; k; k = g->node[k].next) out |= plain(g, k, text, from);
        return out;
    case FT_G_REPEAT:
        if (c->min == 0) out = from;
        for (uint32_t i = 1; i <= c->max && i <= c->min + 20 && from; i++) {
            from = plain(g, c->first, text, from);
            if (i >= c->min) out |= from;
        }
        return out;
    }
    return 0;
}

static void random_expr(ft_rng *r, ft_buf *b, int depth, int rules)
{
    const int pick = (int)(ft_rng_u64(r) % (depth > 2 ? 4 : 8));
    switch (pick) {
    case 0: ft_buf_puts(b, "\"a\""); break;
    case 1: ft_buf_puts(b, "\"b\""); break;
    case 2: ft_buf_puts(b, "[ab]"); break;
    case 3: ft_buf_printf(b, "r%d", (int)(ft_rng_u64(r) % (uint64_t)rules)); break;
    case 4: ft_buf_puts(b, "\"ab\""); break;
    default:
        ft_buf_putc(b, '(');
        for (uint64_t k = 1 + ft_rng_u64(r) % 3, i = 0; i < k; i++) {
            if (i) ft_buf_puts(b, pick == 5 ? " | " : " ");
            random_expr(r, b, depth + 1, rules);
        }
        ft_buf_putc(b, ')');
    }
    static const char *const suffix[] = {"", "", "", "", "?", "*", "+", "{2}", "{1,3}", "{0,2}"};
    ft_buf_puts(b, suffix[ft_rng_u64(r) % FT_COUNT(suffix)]);
}

/* For every text of up to 6 letters over a, b, the automaton must agree with the recogniser. */
static void random_grammars_agree_with_a_plain_recogniser(void **state)
{
    (void)state;
    ft_rng r = {4};
    vocab v = make_vocab(&r, "ab", 0);
    ft_trie *t = make_trie(&v);
    int compared = 0;
    for (int round = 0; round < 700; round++) {
        ft_buf b;
        ft_buf_init(&b, 1 << 16);
        const int rules = 1 + round % 4;
        for (int i = 0; i < rules; i++) {
            ft_buf_printf(&b, "r%d ::= ", i);
            for (uint64_t k = 1 + ft_rng_u64(&r) % 3; k--;) {
                random_expr(&r, &b, 0, rules);
                ft_buf_puts(&b, ft_rng_u64(&r) % 3 ? " " : " | ");
            }
            ft_buf_puts(&b, "\"b\"\n");
        }
        ft_grammar *g;
        ft_gbnf text;
        ft_err err;
        if (!ft_grammar_new(&g, ft_buf_str(&b), "r0", &err)) {
            assert_int_equal(ft_gbnf_init(&text, ft_buf_str(&b), "r0", NULL), FT_OK);
            ft_grammar_state *s = new_state(g, t, NULL);
            for (size_t n = 0; n <= 6; n++)
                for (unsigned w = 0; w < 1u << n; w++) {
                    char z[8];
                    for (size_t k = 0; k < n; k++) z[k] = w >> k & 1 ? 'b' : 'a';
                    plain_left = 5000;
                    const bool want =
                        plain(&text, text.rule[text.root].body, (ft_str){z, n}, 1) >> n & 1;
                    if (plain_left >= 0 && want != (classify(s, (ft_str){z, n}) == 2))
                        fail_msg("%.*s: want %d in\n%s", (int)n, z, want, ft_buf_z(&b));
                }
            compared++;
            ft_grammar_state_free(s);
            ft_grammar_free(g);
            ft_gbnf_release(&text);
        }
        ft_buf_release(&b);
    }
    assert_true(compared > 200);
    ft_trie_free(t);
    free_vocab(&v);
}

/* ---- masks ---- */

static const char json[] =
    "root ::= value\n"
    "value ::= object | array | string | number | \"true\" | \"false\" | \"null\"\n"
    "object ::= \"{\" ws (string \":\" ws value (\",\" ws string \":\" ws value)*)? \"}\"\n"
    "array ::= \"[\" ws (value (\",\" ws value)*)? \"]\"\n"
    "string ::= \"\\\"\" char* \"\\\"\"\n"
    "char ::= [^\"\\\\\\x00-\\x1f] | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" [0-9a-fA-F]{4})\n"
    "number ::= \"-\"? (\"0\" | [1-9] [0-9]{0,15}) (\".\" [0-9]{1,15})? ([eE] [+-]? [0-9]{1,3})?\n"
    "ws ::= \" \"?\n";

static const char *const masked[] = {
    json,
    "root ::= list\nlist ::= \"(\" list* \")\"",
    "root ::= [^a]{3,9} \"a\" \"\xc3\xa4\"*",
    "root ::= x y | y x\nx ::= \"a\" x? \"b\"\ny ::= (\"a\" | \"b\" | \"\xe2\x82\xac\")+",
    "root ::= s s?\ns ::= \"a\" s \"a\" | \"b\" s \"b\" | \"a\" | \"b\" | \"\"",
    "root ::= w (\" \" w){0,3}\nw ::= [ab]{1,3}",
};

/* For every id, the mask, ft_grammar_allows and ft_grammar_accept must agree. */
static void check_mask(ft_grammar_state *s, const vocab *v, const uint32_t *bits)
{
    for (int id = 0; id < v->n; id++) {
        const bool in = bits[id / 32] >> id % 32 & 1;
        if (in != ft_grammar_allows(s, id))
            fail_msg("id %d '%.*s': mask %d", id, FT_STR_FMT(v->s[id]), in);
        if (id % 7) continue;
        ft_grammar_state *c = ft_grammar_state_clone(s);
        assert_int_equal(ft_grammar_accept(c, id), in);
        assert_true(in || ft_grammar_ended(c));
        ft_grammar_state_free(c);
    }
}

static int pick(ft_rng *r, const vocab *v, const uint32_t *bits)
{
    int n = 0, got = -1;
    for (int id = 0; id < v->n; id++)
        if ((bits[id / 32] >> id % 32 & 1) && ft_rng_u64(r) % (uint64_t)++n == 0) got = id;
    return got;
}

static void masks_agree_with_accept(void **state)
{
    (void)state;
    ft_rng r = {12};
    vocab v = make_vocab(&r, "ab\"\\{}[],: 0123\xc3\xa4\xe2\x82\xac()u", 1200);
    ft_trie *t = make_trie(&v);
    uint32_t bits[64];
    for (size_t i = 0; i < FT_COUNT(masked); i++) {
        ft_grammar *g = compile(masked[i]);
        for (int round = 0; round < 12; round++) {
            ft_grammar_state *s = new_state(g, t, NULL);
            for (int step = 0; step < 25; step++) {
                assert_true(ft_grammar_allow(s, bits, v.n));
                if (step < 10) check_mask(s, &v, bits);
                const int id = pick(&r, &v, bits);
                if (id < 0) fail_msg("grammar %zu: nothing is allowed after %d tokens", i, step);
                assert_true(ft_grammar_accept(s, id));
                if (id == v.eog) break;
            }
            assert_null(ft_grammar_limit(s));
            ft_grammar_state_free(s);
        }
        ft_grammar_free(g);
    }
    ft_trie_free(t);
    free_vocab(&v);
}

static void end_tokens_only_where_it_accepts(void **state)
{
    (void)state;
    ft_rng r = {2};
    vocab v = make_vocab(&r, "ab", 10);
    ft_trie *t = make_trie(&v);
    ft_grammar *g = compile("root ::= \"a\" \"b\"?");
    ft_grammar_state *s = new_state(g, t, NULL);
    assert_false(ft_grammar_allows(s, v.eog));
    assert_true(ft_grammar_accept(s, 'a'));
    assert_true(ft_grammar_allows(s, v.eog));
    assert_false(ft_grammar_ended(s));
    ft_grammar_state *c = ft_grammar_state_clone(s);
    assert_true(ft_grammar_accept(s, 'b'));
    assert_true(ft_grammar_ended(s) && ft_grammar_accepting(s));
    assert_true(ft_grammar_accept(s, v.eog));
    uint32_t bits[9] = {0}, none[9] = {0};
    assert_true(ft_grammar_allow(s, bits, v.n));
    assert_memory_equal(bits, none, sizeof bits);
    assert_false(ft_grammar_accept(s, v.eog));
    ft_grammar_state_copy(s, c); /* back to the position of the clone */
    assert_true(ft_grammar_accept(s, v.eog));
    assert_false(ft_grammar_accept(c, 'x'));
    assert_true(ft_grammar_ended(c));
    ft_grammar_state_free(s), ft_grammar_state_free(c);
    ft_grammar_free(g);
    ft_trie_free(t);
    free_vocab(&v);
}

static void characters_may_be_cut(void **state)
{
    (void)state;
    ft_rng r = {2};
    vocab v = make_vocab(&r, "ab", 0);
    ft_trie *t = make_trie(&v);
    ft_grammar *g = compile("root ::= \"\xe2\x82\xac\" | \"\xe2\x82\xad\" | [\xc3\xa4-\xc3\xa6]");
    ft_grammar_state *s = new_state(g, t, NULL);
    uint32_t bits[9];
    ft_grammar_allow(s, bits, v.n);
    for (int id = 0; id < 256; id++)
        assert_int_equal(bits[id / 32] >> id % 32 & 1, id == 0xE2 || id == 0xC3);
    assert_true(ft_grammar_accept(s, 0xE2) && ft_grammar_accept(s, 0x82));
    assert_false(ft_grammar_accepting(s));
    assert_true(ft_grammar_allows(s, 0xAC) && ft_grammar_allows(s, 0xAD) &&
                !ft_grammar_allows(s, 0xAE));
    ft_grammar_state_free(s);
    ft_grammar_free(g);
    ft_trie_free(t);
    free_vocab(&v);
}

static void lazy_waits_for_its_trigger(void **state)
{
    (void)state;
    ft_rng r = {2};
    vocab v = make_vocab(&r, "ab", 0);
    ft_trie *t = make_trie(&v);
    ft_grammar *g = compile("root ::= \"<go>\"? \"{\" [0-9] \"}\"");
    const ft_str word[] = {FT_STR("<go>"), FT_STR("<run>")};
    const int32_t id[] = {'#'};
    ft_grammar_lazy lazy = {.id = id, .n_id = 1, .word = word, .n_word = 2};
    uint32_t bits[9];
    for (int feed = 0; feed < 2; feed++) {
        lazy.feed = feed;
        ft_grammar_state *s = new_state(g, t, &lazy);
        assert_false(ft_grammar_allow(s, bits, v.n));
        assert_true(ft_grammar_accept_bytes(s, FT_STR("text <g <g")));
        assert_true(ft_grammar_waiting(s) && ft_grammar_allows(s, v.eog));
        ft_grammar_state *c = ft_grammar_state_clone(s);
        assert_true(ft_grammar_accept_bytes(s, FT_STR("o>{")));
        assert_false(ft_grammar_waiting(s));
        assert_true(ft_grammar_allows(s, '7') && !ft_grammar_allows(s, 'x'));
        assert_false(ft_grammar_accept_bytes(c, FT_STR("o>x{")));
        assert_true(ft_grammar_ended(c));
        ft_grammar_state_free(s), ft_grammar_state_free(c);
    }
    lazy.feed = false;
    ft_grammar_state *s = new_state(g, t, &lazy);
    assert_true(ft_grammar_accept(s, 'x') && ft_grammar_accept(s, '#'));
    assert_true(ft_grammar_allows(s, '{') && !ft_grammar_allows(s, 'x'));
    ft_grammar_state_free(s);
    ft_grammar_free(g);
    ft_trie_free(t);
    free_vocab(&v);
}

/* 2^40 derivations, and palindromes; both stay small because places are merged. */
static void ambiguity_does_not_explode(void **state)
{
    (void)state;
    ft_rng r = {2};
    vocab v = make_vocab(&r, "ab", 300);
    ft_trie *t = make_trie(&v);
    ft_buf b;
    ft_buf_init(&b, 1 << 16);
    ft_buf_puts(&b, "root ::= r0\n");
    for (int i = 0; i < 40; i++)
        ft_buf_printf(&b,
                      "r%d ::= r%d \"a\" (\"x\" \"y\"? | \"z\")* | r%d (\"b\" \"x\"* | \"a\")\n", i,
                      i + 1, i + 1);
    ft_buf_puts(&b, "r40 ::= \"a\"* \"b\"?");
    const char *text[] = {ft_buf_z(&b), masked[4], "root ::= (\"a\"* \"a\"* \"a\"*)* \"b\""};
    for (size_t i = 0; i < FT_COUNT(text); i++) {
        ft_grammar *g = compile(text[i]);
        ft_grammar_state *s = new_state(g, t, NULL);
        uint32_t bits[18];
        const int64_t began = ft_now_ns();
        for (int k = 0; k < 60; k++) {
            ft_grammar_allow(s, bits, v.n);
            assert_true(ft_grammar_accept(s, 'a'));
        }
        assert_true(ft_now_ns() - began < (int64_t)20e9);
        ft_grammar_state_free(s);
        ft_grammar_free(g);
    }
    ft_buf_release(&b);
    ft_trie_free(t);
    free_vocab(&v);
}

static void nesting_closes_at_its_limit(void **state)
{
    (void)state;
    ft_rng r = {2};
    vocab v = make_vocab(&r, "ab", 0);
    ft_trie *t = make_trie(&v);
    ft_grammar *g = compile(json);
    ft_grammar_state *s = new_state(g, t, NULL);
    int depth = 0;
    while (depth < 5000 && ft_grammar_allows(s, '[')) {
        assert_true(ft_grammar_accept(s, '['));
        depth++;
    }
    assert_true(depth > 300 && depth <= FT_GRAMMAR_NEST_MAX);
    assert_non_null(ft_grammar_limit(s));
    for (; depth; depth--) assert_true(ft_grammar_accept(s, ']'));
    assert_true(ft_grammar_accepting(s));
    ft_grammar_state_free(s);
    /* right recursion is a loop and has no limit */
    ft_grammar *q = compile("root ::= \"a\" root | \"b\"");
    s = new_state(q, t, NULL);
    for (int i = 0; i < 5000; i++) assert_true(ft_grammar_accept(s, 'a'));
    assert_null(ft_grammar_limit(s));
    ft_grammar_state_free(s);
    ft_grammar_free(g), ft_grammar_free(q);
    ft_trie_free(t);
    free_vocab(&v);
}

/* Rules that call each other in so many ways that one mask is the work of seconds. */
static char *costly_rules(const char *root)
{
    enum { N = 300 };
    ft_buf b;
    ft_buf_init(&b, 1 << 16);
    ft_buf_puts(&b, root);
    for (int i = 0; i < N; i++)
        ft_buf_printf(&b, "r%d ::= \"a\" r%d \"b\" | [a-z ] r%d r%d | [a-z]\n", i, (i * 7 + 1) % N,
                      (i * 13 + 5) % N, (i * 31 + 11) % N);
    return ft_buf_take(&b);
}

/* Work has a bound for a mask and for a text; past it nothing is allowed and the reason is said. */
static void costly_masks_end(void **state)
{
    (void)state;
    ft_rng r = {3};
    ft_err err;
    vocab v = make_vocab(&r, "abcdefghijklmnopqrstuvwxyz ", 200000);
    ft_trie *t = make_trie(&v);
    uint32_t *bits = ft_new_n(uint32_t, (size_t)v.n / 32 + 1);
    char *now = costly_rules("root ::= r0\n"), *later = costly_rules("root ::= \"x\" r0\n");
    ft_grammar *g = compile(now);
    ft_grammar_state *s = new_state(g, t, NULL);
    assert_int_equal(ft_grammar_probe(s, &err), FT_ELIMIT); /* known before a token is drawn */
    assert_non_null(strstr(err.text, "3000000 steps"));
    ft_grammar_state_free(s);
    ft_grammar_free(g);
    g = compile(later);
    s = new_state(g, t, NULL);
    assert_int_equal(ft_grammar_probe(s, &err), FT_OK);
    assert_null(ft_grammar_spent(s));
    assert_true(ft_grammar_accept(s, 'x'));
    assert_true(ft_grammar_allow(s, bits, v.n));
    for (int32_t i = 0; i < v.n / 32; i++) assert_int_equal(bits[i], 0);
    assert_non_null(ft_grammar_spent(s));
    assert_false(ft_grammar_allows(s, 'a'));
    ft_grammar_state_free(s);
    ft_grammar_free(g);
    g = compile(json); /* a long text of a plain grammar never comes near */
    s = new_state(g, t, NULL);
    assert_true(ft_grammar_accept(s, '['));
    for (int i = 0; i < 5000; i++) {
        static const char one[] = "\"a b\",";
        ft_grammar_allow(s, bits, v.n);
        assert_true(ft_grammar_accept(s, one[i % 6]));
    }
    assert_null(ft_grammar_spent(s));
    ft_grammar_state_free(s);
    ft_grammar_free(g);
    ft_free(now), ft_free(later), ft_free(bits);
    ft_trie_free(t);
    free_vocab(&v);
}

/* Many masks, each of which is within its bound: the text as a whole is not. */
static void costly_texts_end(void **state)
{
    (void)state;
    ft_rng r = {4};
    vocab v = make_vocab(&r, "abcdefghijklmnopqrstuvwxyz ", 200000);
    ft_trie *t = make_trie(&v);
    uint32_t *bits = ft_new_n(uint32_t, (size_t)v.n / 32 + 1);
    ft_grammar *g = compile("root ::= [a-z ]{0,5000} \".\""); /* every state is another view */
    ft_grammar_state *s = new_state(g, t, NULL);
    int n = 0;
    for (; n < 5000 && !ft_grammar_spent(s); n++) {
        ft_grammar_allow(s, bits, v.n);
        ft_grammar_accept(s, 'a');
    }
    assert_in_range(n, 50, 4000);
    assert_non_null(strstr(ft_grammar_spent(s), "30000 for each token"));
    ft_grammar_state_free(s);
    ft_grammar_free(g);
    ft_free(bits);
    ft_trie_free(t);
    free_vocab(&v);
}

/* ---- bench ---- */

static vocab large_vocab(int n)
{
    ft_rng r = {6};
    vocab v = {.s = ft_new_n(ft_str, (size_t)n), .n = n, .eog = n - 1};
    static const char tail[] = "\",:}]{[ \n.;()'";
    for (int i = 0; i < n; i++) {
        char z[40];
        size_t len = 0;
        if (i < 256) z[len++] = (char)i;
        const int kind = (int)(ft_rng_u64(&r) % 100);
        if (i >= 256 && kind < 40) z[len++] = ' ';
        const size_t want = len + 2 + (size_t)(ft_rng_u64(&r) % 7);
        while (i >= 256 && len < want) {
            if (kind < 80)
                z[len++] = "etaoinshrdlucmfwypvbgkjqxz"[ft_rng_u64(&r) % (5 + ft_rng_u64(&r) % 22)];
            else if (kind < 95)
                len += (size_t)ft_utf8_encode(0x4E00 + (uint32_t)(ft_rng_u64(&r) % 4000), z + len);
            else
                z[len++] = tail[ft_rng_u64(&r) % (sizeof tail - 1)];
        }
        char *p = ft_alloc(len + 1);
        memcpy(p, z, len);
        v.s[i] = (ft_str){p, len};
    }
    return v;
}

static void time_walk(const char *name, const ft_grammar *g, const ft_trie *t, const vocab *v,
                      const char *text)
{
    uint32_t *bits = ft_new_n(uint32_t, (size_t)v->n / 32 + 1);
    ft_grammar_state *s = new_state(g, t, NULL);
    double first = 0, again = 0, worst = 0;
    int n = 0;
    for (const char *z = text; *z; z++, n++) {
        int64_t at = ft_now_ns();
        ft_grammar_allow(s, bits, v->n);
        const double us = (double)(ft_now_ns() - at) * 1e-3;
        first += us;
        worst = us > worst ? us : worst;
        at = ft_now_ns();
        ft_grammar_allow(s, bits, v->n);
        again += (double)(ft_now_ns() - at) * 1e-3;
        if (!ft_grammar_accept(s, (unsigned char)*z)) printf("%s: stuck at %s\n", name, z);
    }
    printf("%-24s first %8.1f us, worst %8.1f us, again %7.1f us\n", name, first / n, worst,
           again / n);
    ft_grammar_state_free(s);
    ft_free(bits);
}

static int bench(void)
{
    vocab v = large_vocab(248320);
    int64_t at = ft_now_ns();
    ft_trie *t = make_trie(&v);
    printf("trie: %zu nodes, %.1f ms\n", ft_trie_nodes(t), (double)(ft_now_ns() - at) * 1e-6);
    at = ft_now_ns();
    ft_grammar *g = compile(json);
    printf("json: %zu states, %.2f ms\n", ft_grammar_states(g), (double)(ft_now_ns() - at) * 1e-6);
    time_walk("json", g, t, &v,
              "{\"name\":\"some text here\",\"list\":[1,2.5,true,{\"a\":\"bcd\"}]}");
    ft_grammar_free(g);
    g = compile("root ::= \"\\\"\" ([^\"\\\\\\x00-\\x1f] | \"\\\\\" [\"\\\\nt]){0,500} \"\\\"\"");
    printf("string of 500: %zu states\n", ft_grammar_states(g));
    time_walk("string of up to 500", g, t, &v, "\"a text that goes on\"");
    ft_grammar_free(g);
    ft_trie_free(t);
    free_vocab(&v);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--bench")) return bench();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(languages_of_the_table),
        cmocka_unit_test(errors_are_named),
        cmocka_unit_test(random_grammars_agree_with_a_plain_recogniser),
        cmocka_unit_test(masks_agree_with_accept),
        cmocka_unit_test(end_tokens_only_where_it_accepts),
        cmocka_unit_test(characters_may_be_cut),
        cmocka_unit_test(lazy_waits_for_its_trigger),
        cmocka_unit_test(ambiguity_does_not_explode),
        cmocka_unit_test(nesting_closes_at_its_limit),
        cmocka_unit_test(costly_masks_end),
        cmocka_unit_test(costly_texts_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
