/* tests/unit/chat.c - detecting template families, rendering messages, and finding where the
 * response begins. */
#include "text/chat.h"
#include "base/file.h"
#include "base/mem.h"

#include "unit.h"

#define TINY "tests/data/template/tiny.jinja"

static void families(void **state)
{
    (void)state;
    assert_int_equal(ft_chat_detect(FT_STR("x <think> y")), FT_CHAT_QWEN);
    assert_int_equal(ft_chat_detect(FT_STR("<tool_call>")), FT_CHAT_QWEN);
    assert_int_equal(ft_chat_detect(FT_STR("'<|channel>thought'")), FT_CHAT_GEMMA4);
    assert_int_equal(ft_chat_detect(FT_STR("<|tool_call>call:")), FT_CHAT_GEMMA4);
    assert_int_equal(ft_chat_detect(FT_STR("[INST]")), FT_CHAT_PLAIN);
}

static void thought_is_open(void **state)
{
    (void)state;
    assert_true(ft_chat_in_thought(FT_CHAT_QWEN, FT_STR("assistant\n<think>\n")));
    assert_false(ft_chat_in_thought(FT_CHAT_QWEN, FT_STR("<think>\n\n</think>\n\n")));
    assert_false(ft_chat_in_thought(FT_CHAT_QWEN, FT_STR("user\n<think> said\nassistant\n")));
    assert_true(ft_chat_in_thought(FT_CHAT_GEMMA4, FT_STR("model\n<|channel>thought\n")));
    assert_false(ft_chat_in_thought(FT_CHAT_GEMMA4, FT_STR("<|channel>thought\n<channel|>")));
    assert_false(ft_chat_in_thought(FT_CHAT_PLAIN, FT_STR("<think>")));
    assert_false(ft_chat_in_thought(FT_CHAT_QWEN, FT_STR("")));
}

static ft_chat_template *tiny(void)
{
    char *source;
    size_t n;
    ft_chat_template *c;
    ft_err err;
    assert_int_equal(ft_file_read(&source, &n, TINY, 1 << 20, &err), FT_OK);
    assert_int_equal(ft_chat_new(&c, (ft_str){source, n}, FT_STR("<s>"), FT_STR(""), &err), FT_OK);
    ft_free(source);
    return c;
}

static void render_is(const char *messages, const char *tools, int thinking, const char *want)
{
    ft_chat_template *c = tiny();
    ft_buf b;
    ft_err err;
    json_t *m = json_loads(messages, 0, NULL), *t = tools ? json_loads(tools, 0, NULL) : NULL;
    assert_non_null(m);
    const ft_chat_input in = {
        .messages = m, .tools = t, .add_generation_prompt = true, .thinking = thinking};
    ft_buf_init(&b, 1 << 20);
    assert_int_equal(ft_chat_render(c, &in, &b, &err), FT_OK);
    assert_string_equal(ft_buf_z(&b), want);
    ft_buf_release(&b);
    json_decref(m);
    json_decref(t);
    ft_chat_free(c);
}

#define GEN  "<|im_start|>assistant\n<think>\n"
#define DONE "\n</think>\n\n"

static void messages_render(void **state)
{
    (void)state;
    render_is("[{\"role\":\"user\",\"content\":\"hi\"}]", NULL, FT_THINK_UNSET,
              "<|im_start|>user\nhi<|im_end|>\n" GEN DONE);
    render_is("[{\"role\":\"user\",\"content\":\"hi\"}]", "[]", FT_THINK_ON,
              "<|im_start|>user\nhi<|im_end|>\n" GEN);
    render_is("[{\"role\":\"user\",\"content\":\"w\"},{\"role\":\"assistant\",\"content\":null,"
              "\"reasoning\":\"r\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":"
              "\"{\\\"a\\\": [1, \\\"x\\\"], \\\"b\\\": \\\"y\\\"}\"}}]},"
              "{\"role\":\"tool\",\"content\":\"ok\"}]",
              NULL, FT_THINK_OFF,
              "<|im_start|>user\nw<|im_end|>\n<|im_start|>assistant\n<think>\nr\n</think>\n\n"
              "<tool_call>\n<function=f>\n<parameter=a>\n[1, \"x\"]\n</parameter>\n"
              "<parameter=b>\ny\n</parameter>\n</function>\n</tool_call><|im_end|>\n"
              "<|im_start|>user\n<tool_response>\nok\n</tool_response><|im_end|>\n" GEN DONE);
}

/* The role developer becomes system when the template does not use developer. */
static void developer_is_system(void **state)
{
    (void)state;
    ft_chat_template *c;
    ft_buf b;
    json_t *m = json_loads("[{\"role\":\"developer\",\"content\":\"x\"}]", 0, NULL);
    const ft_chat_input in = {.messages = m};
    const char *sources[] = {"{{ messages[0].role }}", "{# developer #}{{ messages[0].role }}"};
    for (int i = 0; i < 2; i++) {
        ft_buf_init(&b, 100);
        assert_int_equal(
            ft_chat_new(&c, ft_str_of(sources[i]), FT_STR("<s>"), FT_STR("</s>"), NULL), FT_OK);
        assert_int_equal(ft_chat_render(c, &in, &b, NULL), FT_OK);
        assert_string_equal(ft_buf_z(&b), i ? "developer" : "system");
        assert_int_equal(ft_chat_without_bos(c, FT_STR("<s>a")).n, 1);
        assert_int_equal(ft_chat_without_bos(c, FT_STR("a")).n, 1);
        ft_chat_free(c);
        ft_buf_release(&b);
    }
    json_decref(m);
}

static void bad_input_is_refused(void **state)
{
    (void)state;
    ft_chat_template *c = tiny();
    ft_buf b;
    ft_err err;
    static const char *const bad[] = {"{}", "[1]", "[{\"role\":\"x\",\"content\":\"y\"}]",
                                      "[{\"role\":\"user\",\"content\":5}]"};
    ft_buf_init(&b, 1000);
    for (size_t i = 0; i < FT_COUNT(bad); i++) {
        json_t *m = json_loads(bad[i], 0, NULL);
        const ft_chat_input in = {.messages = m};
        assert_int_equal(ft_chat_render(c, &in, &b, &err), FT_EINVAL);
        assert_int_equal(b.len, 0);
        json_decref(m);
    }
    ft_chat_free(c);
    assert_int_equal(ft_chat_new(&c, FT_STR("{% if"), FT_STR(""), FT_STR(""), &err), FT_EFORMAT);
}

static char *rendered(const char *source, const char *messages, const char *extra)
{
    ft_chat_template *c;
    ft_err err;
    ft_buf out;
    ft_buf_init(&out, 1 << 16);
    if (ft_chat_new(&c, ft_str_of(source), FT_STR("<bos>"), FT_STR(""), &err))
        fail_msg("%s", err.text);
    json_t *list = json_loads(messages, 0, NULL), *more = extra ? json_loads(extra, 0, NULL) : NULL;
    const ft_chat_input in = {.messages = list, .extra = more, .add_generation_prompt = true};
    if (ft_chat_render(c, &in, &out, &err)) fail_msg("%s", err.text);
    json_decref(list), json_decref(more);
    ft_chat_free(c);
    return ft_buf_take(&out);
}

static void builtin_templates(void **state)
{
    (void)state;
    static const char messages[] =
        "[{\"role\":\"system\",\"content\":\"S\"},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"image\"},"
        "{\"type\":\"text\",\"text\":\"b\"}]},"
        "{\"role\":\"assistant\",\"content\":\"c\"},{\"role\":\"user\",\"content\":\" d \"}]";
    static const char *const want[][2] = {
        {"chatml", "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\na\nb<|im_end|>\n"
                   "<|im_start|>assistant\nc<|im_end|>\n<|im_start|>user\n d <|im_end|>\n"
                   "<|im_start|>assistant\n"},
        {"gemma", "<bos><start_of_turn>user\nS\n\na\nb<end_of_turn>\n<start_of_turn>model\nc"
                  "<end_of_turn>\n<start_of_turn>user\nd<end_of_turn>\n<start_of_turn>model\n"},
        {"gemma4",
         "<bos><|turn>system\nS<turn|>\n<|turn>user\na\nb<turn|>\n<|turn>model\nc<turn|>\n"
         "<|turn>user\nd<turn|>\n<|turn>model\n"},
    };
    for (size_t i = 0; i < FT_COUNT(want); i++) {
        char *got = rendered(ft_chat_builtin(want[i][0]), messages, NULL);
        assert_string_equal(got, want[i][1]);
        ft_free(got);
    }
    assert_null(ft_chat_builtin("llama2"));
}

static void dates(void **state)
{
    (void)state;
    static const char source[] = "{{ date_string }}/{{ datetime }}";
    char *got = rendered(source, "[]", NULL);
    int day, year, d2, y2;
    char month[4], m2[4];
    assert_int_equal(sscanf(got, "%d %3s %d/%3s %d %d", &day, month, &year, m2, &d2, &y2), 6);
    assert_true(day == d2 && year == y2 && year >= 2026);
    assert_string_equal(month, m2);
    ft_free(got);
    got = rendered(source, "[]", "{\"date_string\":\"today\"}");
    assert_memory_equal(got, "today/", 6);
    ft_free(got);
}

static void templates_that_lose_the_message(void **state)
{
    (void)state;
    static const struct {
        const char *source;
        bool good;
    } t[] = {
        {"{% for m in messages %}{{ m.content }}{% endfor %}", true},
        {"{% for m in messages %}{{ m.role }}{% endfor %}", false},
        {"hello", false},
        {"{{ raise_exception('no') }}", false},
    };
    for (size_t i = 0; i < FT_COUNT(t); i++) {
        ft_chat_template *c;
        ft_err err;
        assert_int_equal(ft_chat_new(&c, ft_str_of(t[i].source), FT_STR(""), FT_STR(""), &err),
                         FT_OK);
        if (!ft_chat_check(c, &err) != t[i].good) fail_msg("%s", t[i].source);
        ft_chat_free(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(builtin_templates),
        cmocka_unit_test(dates),
        cmocka_unit_test(templates_that_lose_the_message),
        cmocka_unit_test(families),
        cmocka_unit_test(thought_is_open),
        cmocka_unit_test(messages_render),
        cmocka_unit_test(developer_is_system),
        cmocka_unit_test(bad_input_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
