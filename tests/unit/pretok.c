/* tests/unit/pretok.c - the split patterns, and the scanner that replaces them for ASCII. */
#include "text/pretok.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/utf8.h"

#include "unit.h"

#include <stdio.h>

/* The pieces of text with '|' between them. */
static const char *split(const char *name, const char *text)
{
    static char out[512];
    ft_pretok *p;
    ft_err err;
    assert_int_equal(ft_pretok_open(&p, ft_str_of(name), &err), FT_OK);
    ft_pretok_work *w = ft_pretok_work_new(p);
    const ft_str s = ft_str_of(text);
    size_t k = 0;
    for (size_t i = 0, n; i < s.n; i += n) {
        n = ft_pretok_next(p, w, s, i);
        assert_true(n > 0 && i + n <= s.n);
        if (i) out[k++] = '|';
        memcpy(out + k, text + i, n);
        k += n;
    }
    out[k] = 0;
    ft_pretok_work_free(w);
    ft_pretok_free(p);
    return out;
}

static void pieces_are_the_known_ones(void **state)
{
    (void)state;
    static const char *const name[] = {"qwen2", "qwen35"};
    for (int i = 0; i < 2; i++) {
        assert_string_equal(split(name[i], "Hello  world's 123\n\n  x"),
                            "Hello| | world|'s| |1|2|3|\n\n| | x");
        assert_string_equal(split(name[i], "I'LL go\t\tnow...\n"), "I|'LL| go|\t|\tnow|...\n");
        assert_string_equal(split(name[i], "x = (1+2);\r\n\r\n y"), "x| =| (|1|+|2|);\r\n\r\n| y");
        assert_string_equal(split(name[i], " \n \n z  "), " \n \n| z|  ");
    }
    /* A vowel sign is part of the word in one pattern, and a separate piece in the other. */
    assert_string_equal(split("qwen35", "\xE0\xA4\x95\xE0\xA4\xBF"), "\xE0\xA4\x95\xE0\xA4\xBF");
    assert_string_equal(split("qwen2", "\xE0\xA4\x95\xE0\xA4\xBF"), "\xE0\xA4\x95|\xE0\xA4\xBF");
}

static void white_space_is_the_one_of_unicode(void **state)
{
    (void)state;
    /* Two spaces between letters: the second is part of the word. Any other character: one piece.
     */
    static const uint32_t space[] = {0x09,   0x0B,   0x0C,   0x20,   0x85,   0xA0,   0x1680,
                                     0x2000, 0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000},
                          other[] = {0x180E, 0x200B, 0x200C, 0x2060, 0xFEFF, 0x1C, 0x1F};
    char c[4], text[32], want[32];
    for (size_t i = 0; i < FT_COUNT(space) + FT_COUNT(other); i++) {
        const bool is = i < FT_COUNT(space);
        const int n = ft_utf8_encode(is ? space[i] : other[i - FT_COUNT(space)], c);
        snprintf(text, sizeof text, "a%.*s%.*sb", n, c, n, c);
        snprintf(want, sizeof want, is ? "a|%.*s|%.*sb" : "a|%.*s%.*s|b", n, c, n, c);
        assert_string_equal(split("qwen35", text), want);
    }
}

static void scanner_equals_the_pattern(void **state)
{
    (void)state;
    static const char *const bit[] = {
        "a",    "Z",    "s",  "S",  "t",  "re", "LL",     "'",      "'s",     "1",          "0",
        " ",    "  ",   "\t", "\n", "\r", "\v", "\f",     "\0",     ".",      "!",          "_",
        "\x1c", "\x7f", "<",  "-",  "é",  "日", "\u0301", "\u00a0", "\u2028", "\U0001F600", "٣"};
    ft_err err;
    ft_rng r = {11};
    for (int which = 0; which < 2; which++) {
        ft_pretok *p;
        assert_int_equal(ft_pretok_open(&p, which ? FT_STR("qwen2") : FT_STR("qwen35"), &err),
                         FT_OK);
        ft_pretok_work *w = ft_pretok_work_new(p);
        size_t by_scanner = 0, by_pattern = 0;
        for (int round = 0; round < 60000; round++) {
            char text[256];
            size_t n = 0;
            for (uint64_t k = 1 + ft_rng_u64(&r) % 24; k > 0; k--) {
                const char *b = bit[ft_rng_u64(&r) % (round % 2 ? 26 : FT_COUNT(bit))];
                const size_t len = *b ? strlen(b) : 1;
                memcpy(text + n, b, len);
                n += len;
            }
            const ft_str s = {text, n};
            for (size_t i = 0, len; i < n; i += len) {
                len = ft_pretok_pattern(p, w, s, i);
                assert_true(len > 0);
                const size_t got = ft_pretok_ascii(s, i);
                if (got) assert_int_equal(got, len);
                got ? by_scanner++ : by_pattern++;
            }
        }
        assert_true(by_scanner > 100000 && by_pattern > 10000);
        ft_pretok_work_free(w);
        ft_pretok_free(p);
    }
}

static void every_byte_of_ascii_in_every_place(void **state)
{
    (void)state;
    ft_pretok *p;
    ft_err err;
    assert_int_equal(ft_pretok_open(&p, FT_STR("qwen35"), &err), FT_OK);
    ft_pretok_work *w = ft_pretok_work_new(p);
    for (int a = 0; a < 128; a++)
        for (int b = 0; b < 128; b++)
            for (int c = 0; c < 128; c += 3) {
                const char text[4] = {(char)a, (char)b, (char)c, 'e'};
                for (size_t n = 1; n <= 4; n++) {
                    const ft_str s = {text, n};
                    assert_int_equal(ft_pretok_ascii(s, 0), ft_pretok_pattern(p, w, s, 0));
                }
            }
    ft_pretok_work_free(w);
    ft_pretok_free(p);
}

static void unknown_names_are_refused(void **state)
{
    (void)state;
    ft_pretok *p;
    ft_err err;
    assert_int_equal(ft_pretok_open(&p, FT_STR("llama\n"), &err), FT_EUNSUPPORTED);
    assert_string_equal(err.text, "pre-tokenizer \"llama?\", want qwen2 or qwen35");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_the_known_ones),
        cmocka_unit_test(white_space_is_the_one_of_unicode),
        cmocka_unit_test(scanner_equals_the_pattern),
        cmocka_unit_test(every_byte_of_ascii_in_every_place),
        cmocka_unit_test(unknown_names_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
