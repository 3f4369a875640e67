/* tests/unit/toolgram.c - grammars for tool calls, in each syntax. */
#include "text/toolgram.h"
#include "schema_gen.h"
#include "text/grammar.h"
#include "unit.h"

static ft_trie *trie;

static const char *const TOOLS =
    "[{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"parameters\":{\"type\":"
    "\"object\","
    "\"properties\":{\"city\":{\"type\":\"string\"},\"unit\":{\"type\":\"string\",\"enum\":[\"C\","
    "\"F\"]},"
    "\"days\":{\"type\":\"integer\"},"
    "\"at\":{\"$ref\":\"#/$defs/place\"}},\"required\":[\"city\"],"
    "\"$defs\":{\"place\":{\"type\":\"object\",\"properties\":{\"x\":{\"type\":\"number\"}},"
    "\"required\":[\"x\"],\"additionalProperties\":false}}}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"far\",\"parameters\":{\"properties\":{\"n\":{"
    "\"type\":\"integer\",\"minimum\":-9007199254740991,\"maximum\":9007199254740991}}}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"now\"}}]";

/* true when the text is a complete response of the grammar. */
static bool matches(ft_toolgram g, const char *text)
{
    ft_err err = {0};
    ft_buf b;
    ft_grammar *gram;
    ft_grammar_state *s;
    json_t *tools = json_loads(TOOLS, 0, NULL);
    g.tools = tools;
    ft_buf_init(&b, 16 << 20);
    if (ft_toolgram_gbnf(&b, &g, &err)) fail_msg("%s", err.text);
    if (ft_grammar_new(&gram, ft_buf_str(&b), NULL, &err))
        fail_msg("%s\n%s", err.text, ft_buf_z(&b));
    assert_int_equal(ft_grammar_state_new(&s, gram, trie, NULL, &err), FT_OK);
    const bool ok = ft_grammar_accept_bytes(s, ft_str_of(text)) && ft_grammar_accepting(s);
    ft_grammar_state_free(s);
    ft_grammar_free(gram);
    ft_buf_release(&b);
    json_decref(tools);
    return ok;
}

#define P(key, value) "<parameter=" key ">\n" value "\n</parameter>\n"
#define W(params)     "<tool_call>\n<function=weather>\n" params "</function>\n</tool_call>"
#define NOW           "<tool_call>\n<function=now>\n</function>\n</tool_call>"

static void xml(void **state)
{
    (void)state;
    const ft_toolgram g = {.syntax = FT_CALLS_XML};
    assert_true(matches(g, W(P("city", "Oslo"))));
    assert_true(matches(g, W(P("city", "Oslo") P("unit", "C") P("days", "3"))));
    assert_true(matches(g, W(P("city", "Oslo") P("at", "{\"x\": 1.5}"))));
    assert_true(matches(g, W(P("city", ""))));
    assert_true(
        matches(g, W(P("city", "two\nlines, </div> and << and </parameter and <parameter=x>"))));
    assert_true(matches(g, NOW));
    assert_true(matches(g, NOW "\n" NOW));
    assert_false(matches(g, W("")));                                  /* city is required */
    assert_false(matches(g, W(P("city", "Oslo") P("unit", "K"))));    /* not in the enum */
    assert_false(matches(g, W(P("city", "Oslo") P("days", "many")))); /* not an integer */
    assert_false(matches(g, W(P("days", "3") P("city", "Oslo")))); /* in the order of the schema */
    assert_false(matches(g, W(P("city", "Oslo") P("at", "{\"y\": 1}")))); /* through $ref */
    assert_false(matches(g, W(P("city", "a\n</parameter>\n<parameter=evil>\nb"))));
    assert_false(matches(g, "<tool_call>\n<function=rm>\n</function>\n</tool_call>"));
    assert_false(matches(g, "hello"));
    /* for a range that cannot be enforced, only the type is */
    assert_true(
        matches(g, "<tool_call>\n<function=far>\n" P("n", "-12") "</function>\n</tool_call>"));
    assert_false(
        matches(g, "<tool_call>\n<function=far>\n" P("n", "x") "</function>\n</tool_call>"));
}

static void choices(void **state)
{
    (void)state;
    const ft_toolgram one = {.syntax = FT_CALLS_XML, .one = true};
    assert_true(matches(one, NOW));
    assert_false(matches(one, NOW "\n" NOW));
    const ft_toolgram named = {.syntax = FT_CALLS_XML, .name = "now"};
    assert_true(matches(named, NOW));
    assert_false(matches(named, W(P("city", "Oslo"))));
    const ft_toolgram either = {.syntax = FT_CALLS_XML, .schema = "{\"type\":\"integer\"}"};
    assert_true(matches(either, NOW));
    assert_true(matches(either, "42"));
    assert_false(matches(either, "\"42\""));
    ft_err err;
    ft_buf b;
    json_t *tools = json_loads(TOOLS, 0, NULL);
    ft_buf_init(&b, 1 << 20);
    const ft_toolgram none = {.syntax = FT_CALLS_XML, .tools = tools, .name = "nothing"};
    assert_int_equal(ft_toolgram_gbnf(&b, &none, &err), FT_EINVAL);
    ft_buf_release(&b);
    json_decref(tools);
}

static void json_calls(void **state)
{
    (void)state;
    const ft_toolgram g = {.syntax = FT_CALLS_JSON};
    assert_true(matches(
        g,
        "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>"));
    assert_true(matches(g, "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"));
    assert_false(
        matches(g, "<tool_call>\n{\"name\": \"weather\", \"arguments\": {}}\n</tool_call>"));
}

static void gemma(void **state)
{
    (void)state;
    const ft_toolgram g = {.syntax = FT_CALLS_GEMMA4};
#define Q "<|\"|>"
    assert_true(matches(g, "<|tool_call>call:weather{city:" Q "Oslo, \"N\" <|x" Q "}<tool_call|>"));
    assert_true(matches(g, "<|tool_call>call:weather{city:" Q "Oslo" Q ",days:3}<tool_call|>"));
    assert_true(matches(g, "<|tool_call>call:now{}<tool_call|><|tool_call>call:now{}<tool_call|>"));
    assert_true(matches(g, "<|tool_call>call:weather{city:" Q "a" Q
                           ",at:{x:[1,true,{y:null}]}}<tool_call|>"));
    assert_false(matches(g, "<|tool_call>call:weather{days:3}<tool_call|>"));
    assert_false(matches(g, "<|tool_call>call:weather{city:Oslo}<tool_call|>"));
    assert_false(matches(g, "<|tool_call>call:weather{city:" Q "a" Q ",}<tool_call|>"));
}

static int begin(void **state)
{
    (void)state;
    trie = gen_trie();
    return 0;
}

static int end(void **state)
{
    (void)state;
    ft_trie_free(trie);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(xml),
        cmocka_unit_test(choices),
        cmocka_unit_test(json_calls),
        cmocka_unit_test(gemma),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
