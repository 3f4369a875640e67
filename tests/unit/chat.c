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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families),
        cmocka_unit_test(thought_is_open),
        cmocka_unit_test(messages_render),
        cmocka_unit_test(developer_is_system),
        cmocka_unit_test(bad_input_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
