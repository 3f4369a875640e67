/* tests/unit/model_names.c - names of models: spellings, the quantization in a name,
 * and which files are models. */
#include "report/names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void spellings(void **state)
{
    (void)state;
    static const char aliases[] = "me/mine,hf.co/me/mine,me/mine:Q8_0";
    assert_true(ft_name_is("mine-Q8_0", aliases, "mine-Q8_0"));
    assert_true(ft_name_is("mine-Q8_0", NULL, "mine-Q8_0:latest"));
    assert_true(ft_name_is("mine-Q8_0", NULL, "mine-Q8_0.gguf"));
    assert_true(ft_name_is("mine-Q8_0", NULL, "/models/mine-Q8_0.gguf:latest"));
    assert_true(ft_name_is("mine-Q8_0", aliases, "me/mine:Q8_0"));
    assert_true(ft_name_is("mine-Q8_0", aliases, "hf.co/me/mine:latest"));
    assert_false(ft_name_is("mine-Q8_0", aliases, "mine"));
    assert_false(ft_name_is("mine-Q8_0", aliases, "me/mine,hf.co/me/mine"));
    assert_false(ft_name_is("mine-Q8_0", aliases, ""));
}

static void quantizations(void **state)
{
    (void)state;
    static const char *const of[][2] = {
        {"Qwen3.5-4B-Q4_K_M", "Q4_K_M"},
        {"Qwen3.5-4B-UD-IQ2_XXS.gguf", "IQ2_XXS"},
        {"gemma-4-E2B-it.q8_0.gguf", "q8_0"},
        {"big-BF16-00001-of-00002.gguf", "BF16"},
        {"gpt-MXFP4.gguf", "MXFP4"},
        {"my-Qwen3-4B.gguf", NULL},
        {"Q8_0", NULL},
        {"plain", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        char out[32];
        const char *q = ft_name_quantization(of[i][0], out);
        assert_int_equal(q != NULL, of[i][1] != NULL);
        if (q) assert_string_equal(q, of[i][1]);
    }
}

static void files(void **state)
{
    (void)state;
    static const char *const model[] = {
        "m.gguf",
        "sub/M.GGUF",
        "big-00001-of-00003.gguf",
        "the-best-of-both.gguf",
        "a-00002-of-three.gguf",
    };
    static const char *const tower[] = {"mmproj-F16.gguf", "sub/MMPROJ.gguf", "m.mmproj-Q8_0.gguf"};
    static const char *const neither[] = {
        "big-00002-of-00003.gguf", "m.gguf.part", "imatrix_unsloth.gguf", "m.safetensors", ".gguf",
    };
    for (size_t i = 0; i < sizeof model / sizeof model[0]; i++) {
        assert_true(ft_name_is_model(model[i]));
        assert_false(ft_name_is_mmproj(model[i]));
    }
    for (size_t i = 0; i < sizeof tower / sizeof tower[0]; i++) {
        assert_false(ft_name_is_model(tower[i]));
        assert_true(ft_name_is_mmproj(tower[i]));
    }
    for (size_t i = 0; i < sizeof neither / sizeof neither[0]; i++) {
        assert_false(ft_name_is_model(neither[i]));
        assert_false(ft_name_is_mmproj(neither[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spellings),
        cmocka_unit_test(quantizations),
        cmocka_unit_test(files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
