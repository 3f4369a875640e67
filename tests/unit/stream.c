/* tests/unit/stream.c - responses split into reasoning, content and calls, for both families and
 * for any chunking; stop strings. */
#include "text/stream.h"
#include "base/buf.h"
#include "base/mem.h"
#include "text/stop.h"

#include "unit.h"

#define TOOLS                                                                                      \
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{"        \
    "\"s\":{\"type\":\"string\"},\"i\":{\"type\":\"integer\"},\"o\":{\"type\":\"object\"},"        \
    "\"u\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]},"                               \
    "\"e\":{\"enum\":[1,2]},\"l\":{\"type\":[\"array\",\"null\"]},\"x\":{}}}}}]"

typedef struct record {
    ft_buf b;
    int kind, index;
} record;

/* T:thought C:content A:after N0:name J0:json */
static void on_delta(void *user, const ft_stream_delta *d)
{
    static const char *const names[] = {"T", "C", "A", "N", "J"};
    record *r = user;
    if (r->kind != (int)d->kind || r->index != d->index || d->kind == FT_DELTA_CALL) {
        if (r->b.len) ft_buf_putc(&r->b, '|');
        ft_buf_puts(&r->b, names[d->kind]);
        if (d->kind >= FT_DELTA_CALL) ft_buf_printf(&r->b, "%d", d->index);
        ft_buf_putc(&r->b, ':');
    }
    r->kind = (int)d->kind;
    r->index = d->index;
    ft_buf_put_str(&r->b, d->text);
}

static char *parsed(const ft_stream_opts *o, ft_str text, size_t step)
{
    record r = {.kind = -1, .index = -1};
    ft_buf_init(&r.b, 1 << 20);
    ft_stream *s = ft_stream_new(o, on_delta, &r);
    for (size_t at = 0; at < text.n; at += step)
        ft_stream_feed(s, (ft_str){text.p + at, FT_MIN(step, text.n - at)});
    ft_stream_end(s);
    ft_stream_end(s); /* a second call sends nothing */
    ft_stream_free(s);
    ft_buf_putc(&r.b, 0);
    return ft_buf_take(&r.b);
}

typedef struct sample {
    const char *text, *want;
    bool in_thought, no_calls, keep, no_tools;
} sample;

static void check_cases(ft_chat_family family, const sample *cases, size_t n)
{
    json_t *tools = json_loads(TOOLS, 0, NULL);
    assert_non_null(tools);
    for (size_t i = 0; i < n; i++) {
        const sample *c = &cases[i];
        const ft_stream_opts o = {family, c->in_thought, c->keep, !c->no_calls,
                                  c->no_tools ? NULL : tools};
        for (size_t step = 1; step < 40; step += step < 5 ? 1 : 7) {
            char *got = parsed(&o, ft_str_of(c->text), step);
            if (strcmp(got, c->want)) print_error("%s\nin pieces of %zu\n", c->text, step);
            assert_string_equal(got, c->want);
            ft_free(got);
        }
    }
    json_decref(tools);
}

#define CALL(params) "<tool_call>\n<function=f>\n" params "</function>\n</tool_call>"
#define P(key, v)    "<parameter=" key ">\n" v "\n</parameter>\n"

static void qwen_responses(void **state)
{
    (void)state;
    static const sample cases[] = {
        {"hello", "C:hello", false, false, false, false},
        {"", "", false, false, false, false},
        {"  two \n", "C:  two \n", false, false, false, false},
        {"why\n</think>\n\nbecause", "T:why|C:because", true, false, false, false},
        {"\n\nwhy \n\n</think>\n\n  because\n", "T:why|C:because\n", true, false, false, false},
        {"</think>\n\nx", "C:x", true, false, false, false},
        {"cut off </thi", "T:cut off </thi", true, false, false, false},
        {"<think>\na\n</think>\n\nb", "T:a|C:b", false, false, false, false},
        {"say <think> twice", "C:say <think> twice", false, false, false, false},
        {"a</think>b", "C:a</think>b", false, false, false, false},
        {"a\n</think>\n\nb", "C:a\n</think>\n\nb", true, false, true, false},
        {"x < y <tool", "C:x < y <tool", false, false, false, false},
        {CALL(""), "N0:f|J0:{}", false, false, false, false},
        {"look:\n\n" CALL(P("s", "a\nb")), "C:look:|N0:f|J0:{\"s\":\"a\\nb\"}", false, false, false,
         false},
        {CALL(P("s", "12") P("i", "12")), "N0:f|J0:{\"s\":\"12\",\"i\":12}", false, false, false,
         false},
        {CALL(P("o", "{\"a\": [1, 2.5]}")), "N0:f|J0:{\"o\":{\"a\":[1,2.5]}}", false, false, false,
         false},
        {CALL(P("u", "null") P("u", "nil")), "N0:f|J0:{\"u\":null,\"u\":\"nil\"}", false, false,
         false, false},
        {CALL(P("i", "many") P("x", "True") P("x", "yes")),
         "N0:f|J0:{\"i\":\"many\",\"x\":true,\"x\":\"yes\"}", false, false, false, false},
        {CALL(P("e", "2") P("l", "[]") P("l", "None")), "N0:f|J0:{\"e\":2,\"l\":[],\"l\":null}",
         false, false, false, false},
        {CALL(P("other", "5")), "N0:f|J0:{\"other\":\"5\"}", false, false, false, false},
        {CALL(P("other", "5")), "N0:f|J0:{\"other\":5}", false, false, false, true},
        {CALL(P("s", "")), "N0:f|J0:{\"s\":\"\"}", false, false, false, false},
        {CALL(P("s", "\n a \n")), "N0:f|J0:{\"s\":\"\\n a \\n\"}", false, false, false, false},
        {CALL("<parameter=s>inline</parameter>"), "N0:f|J0:{\"s\":\"inline\"}", false, false, false,
         false},
        {CALL(P("s", "q\" \\ \t \x01 </p> \xc3\xbc \xff")),
         "N0:f|J0:{\"s\":\"q\\\" \\\\ \\t \\u0001 </p> \xc3\xbc \xef\xbf\xbd\"}", false, false,
         false, false},
        {CALL(P("s", "a")) "\n" CALL(P("s", "b")), "N0:f|J0:{\"s\":\"a\"}|N1:f|J1:{\"s\":\"b\"}",
         false, false, false, false},
        {CALL("") "\nmore", "N0:f|J0:{}|A:more", false, false, false, false},
        {"t\n</think>\n\n" CALL(P("i", "1")), "T:t|N0:f|J0:{\"i\":1}", true, false, false, false},
        {CALL(""), "C:" CALL(""), false, true, false, false},
        /* without the outer tag, when a tool of that name exists */
        {"<function=f>\n" P("i", "3") "</function>", "N0:f|J0:{\"i\":3}", false, false, false,
         false},
        {"<function=g>\n</function>", "C:<function=g>\n</function>", false, false, false, false},
        /* JSON inside */
        {"<tool_call>\n{\"name\": \"g\", \"arguments\": {\"a\": 1}}\n</tool_call>",
         "N0:g|J0:{\"a\":1}", false, false, false, false},
        {"<tool_call>{\"name\": \"g\", \"arguments\": \"{}\"}</tool_call>", "N0:g|J0:{}", false,
         false, false, false},
        {"<tool_call>{\"name\": \"g\"}", "N0:g|J0:{}", false, false, false, false},
        /* not calls */
        {"<tool_call>\n{\"nam\": 1}\n</tool_call>x", "C:<tool_call>\n{\"nam\": 1}\n</tool_call>x",
         false, false, false, false},
        {"<tool_call> what", "C:<tool_call> what", false, false, false, false},
        {"<tool_call>\n<function=>\n", "C:<tool_call>\n<function=>\n", false, false, false, false},
        {"<tool_call>\n<function=f", "C:<tool_call>\n<function=f", false, false, false, false},
        {"<tool_call>", "C:<tool_call>", false, false, false, false},
        /* cut off or malformed after the name: the call is kept, the rest is text */
        {"<tool_call>\n<function=f>\n<parameter=s>\nhal", "N0:f|J0:{\"s\":\"hal\"}", false, false,
         false, false},
        {"<tool_call>\n<function=f>\n<parameter=i>\n4", "N0:f|J0:{\"i\":4}", false, false, false,
         false},
        {"<tool_call>\n<function=f>\n<par", "N0:f|J0:{}|A:<par", false, false, false, false},
        {"<tool_call>\n<function=f>\n<parameter=s", "N0:f|J0:{}|A:<parameter=s", false, false,
         false, false},
        {"<tool_call>\n<function=f>\noops</function>", "N0:f|J0:{}|A:oops</function>", false, false,
         false, false},
        {"<tool_call>\n<function=f>\n</tool_call>", "N0:f|J0:{}", false, false, false, false},
    };
    check_cases(FT_CHAT_QWEN, cases, FT_COUNT(cases));
}

#define Q "<|\"|>"

static void gemma_responses(void **state)
{
    (void)state;
    static const sample cases[] = {
        {"hello", "C:hello", false, false, false, false},
        {"<|channel>thought\nhm\n<channel|>yes", "T:hm|C:yes", false, false, false, false},
        {"hm\n<channel|>yes", "T:hm|C:yes", true, false, false, false},
        {"yes<|channel>thought\n<channel|>", "C:yes", false, false, false, false},
        {"yes<channel|>", "C:yes", false, false, false, false},
        {"<|channel>thought\na<channel|>b<|channel>thought\nc<channel|>d", "T:a|C:b|T:\nc|C:d",
         false, false, false, false},
        {"<|channel>final\nx", "C:<|channel>final\nx", false, false, false, false},
        {"<|channel>thought\nx<channel|>y", "C:<|channel>thought\nx<channel|>y", false, false, true,
         false},
        {"<|tool_call>call:f{}<tool_call|>", "N0:f|J0:{}", false, false, false, false},
        {"so: <|tool_call>call:f{i:3,s:" Q "a, {b}" Q "}<tool_call|>",
         "C:so:|N0:f|J0:{\"i\":3,\"s\":\"a, {b}\"}", false, false, false, false},
        {"<|tool_call>call:f{o:{k:[1,-2.5,true,null," Q "x" Q "],e:{}}}<tool_call|>",
         "N0:f|J0:{\"o\":{\"k\":[1,-2.5,true,null,\"x\"],\"e\":{}}}", false, false, false, false},
        {"<|tool_call>call:f{s:" Q "say <tool_call|> \"now\"\n" Q "}<tool_call|>",
         "N0:f|J0:{\"s\":\"say <tool_call|> \\\"now\\\"\\n\"}", false, false, false, false},
        {"<|tool_call>call:f{" Q "a b" Q ":1,\"c\": \"d\", e : word}<tool_call|>",
         "N0:f|J0:{\"a b\":1,\"c\":\"d\",\"e\":\"word\"}", false, false, false, false},
        {"<|tool_call>call:a{}<tool_call|><|tool_call>call:b{x:1}<tool_call|>",
         "N0:a|J0:{}|N1:b|J1:{\"x\":1}", false, false, false, false},
        {"<|tool_call>call:f{i:1}", "N0:f|J0:{\"i\":1}", false, false, false, false},
        /* not calls */
        {"<|tool_call>call:f{i:1", "C:<|tool_call>call:f{i:1", false, false, false, false},
        {"<|tool_call>f{}<tool_call|>", "C:<|tool_call>f{}<tool_call|>", false, false, false,
         false},
        {"<|tool_call>call:f{s:" Q "open}<tool_call|>",
         "C:<|tool_call>call:f{s:" Q "open}<tool_call|>", false, false, false, false},
        {"<|tool_call>call:f{,}<tool_call|>", "C:<|tool_call>call:f{,}<tool_call|>", false, false,
         false, false},
        {"<|tool_call>call:f{} x<tool_call|>", "C:<|tool_call>call:f{} x<tool_call|>", false, false,
         false, false},
        {"<|tool_call>call:f{}<tool_call|>", "C:<|tool_call>call:f{}<tool_call|>", false, true,
         false, false},
    };
    check_cases(FT_CHAT_GEMMA4, cases, FT_COUNT(cases));
}

static void plain_responses_are_content(void **state)
{
    (void)state;
    static const sample cases[] = {
        {" <think>x</think> <tool_call> ", "C: <think>x</think> <tool_call> ", false, false, false,
         false},
    };
    check_cases(FT_CHAT_PLAIN, cases, FT_COUNT(cases));
}

/* After many failed attempts calls are no longer parsed, and no text is lost. */
static void endless_false_calls_end(void **state)
{
    (void)state;
    ft_buf text;
    ft_buf_init(&text, 1 << 20);
    for (int i = 0; i < 2000; i++) ft_buf_puts(&text, "<tool_call>{");
    const ft_stream_opts o = {.family = FT_CHAT_QWEN, .calls = true};
    char *got = parsed(&o, ft_buf_str(&text), 100);
    assert_string_equal(got + 2, ft_buf_z(&text));
    ft_free(got);
    ft_buf_release(&text);
}

/* ---- stop strings ---- */

static void stop_case(const char *const *words, int n, const char *text, const char *want, int hit)
{
    ft_str list[8];
    for (int i = 0; i < n; i++) list[i] = ft_str_of(words[i]);
    for (size_t step = 1; step <= strlen(text) + 1; step++) {
        ft_stop s;
        ft_buf out;
        ft_buf_init(&out, 1000);
        assert_int_equal(ft_stop_init(&s, list, n, NULL), FT_OK);
        for (size_t at = 0; at < strlen(text); at += step)
            ft_stop_feed(&s, (ft_str){text + at, FT_MIN(step, strlen(text) - at)}, &out);
        ft_stop_end(&s, &out);
        assert_string_equal(ft_buf_z(&out), want);
        assert_int_equal(s.hit, hit);
        ft_stop_release(&s);
        ft_buf_release(&out);
    }
}

static void stop_strings(void **state)
{
    (void)state;
    static const char *const one[] = {"STOP"}, *const two[] = {"abc", "b"},
                             *const end[] = {"bc", "abc"}, *const line[] = {"", "\n\n", "###"};
    stop_case(one, 1, "go on", "go on", -1);
    stop_case(one, 1, "go STOP there", "go ", 0);
    stop_case(one, 1, "go STO", "go STO", -1);
    stop_case(one, 1, "SSTOSTOP", "SSTO", 0);
    stop_case(two, 2, "xabcx", "xa", 1); /* the first to be complete */
    stop_case(end, 2, "xabcx", "x", 1);  /* complete at the same byte: the longest */
    stop_case(line, 3, "a\nb\n\nc", "a\nb", 0);
    stop_case(NULL, 0, "text", "text", -1);
}

static void text_is_held_back(void **state)
{
    (void)state;
    const ft_str words[] = {FT_STR("<|im_end|>")};
    ft_stop s;
    ft_buf out;
    ft_buf_init(&out, 100);
    assert_int_equal(ft_stop_init(&s, words, 1, NULL), FT_OK);
    assert_false(ft_stop_feed(&s, FT_STR("hi <|im"), &out));
    assert_string_equal(ft_buf_z(&out), "hi ");
    assert_false(ft_stop_feed(&s, FT_STR("_"), &out));
    assert_string_equal(ft_buf_z(&out), "hi ");
    assert_false(ft_stop_feed(&s, FT_STR("x"), &out));
    assert_string_equal(ft_buf_z(&out), "hi <|im_x");
    ft_stop_release(&s);
    ft_buf_release(&out);
    char big[FT_STOP_BYTES + 1];
    memset(big, 'a', sizeof big);
    const ft_str too_long[] = {{big, sizeof big}};
    assert_int_equal(ft_stop_init(&s, too_long, 1, NULL), FT_ELIMIT);
    ft_str many[FT_STOP_MAX + 1];
    for (int i = 0; i <= FT_STOP_MAX; i++) many[i] = FT_STR("x");
    assert_int_equal(ft_stop_init(&s, many, FT_STOP_MAX + 1, NULL), FT_ELIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(qwen_responses),
        cmocka_unit_test(gemma_responses),
        cmocka_unit_test(plain_responses_are_content),
        cmocka_unit_test(endless_false_calls_end),
        cmocka_unit_test(stop_strings),
        cmocka_unit_test(text_is_held_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
