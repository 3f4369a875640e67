/* Word wrap: the printed bytes, interpreted as a terminal does, are the text with some spaces
 * replaced by line breaks, and no line is longer than the terminal is wide. */
#include "cli/wrap.c"
#include "base/mem.h"

#include "unit.h"

#include <locale.h>
#include <stdio.h>

enum { WIDTH = 24, LINES = 64 };

/* What a terminal shows after these bytes. ESC [ n D moves left, ESC [ K erases to the end. */
static void show(const char *p, char screen[LINES][200])
{
    int line = 0, column = 0;
    memset(screen, 0, LINES * 200);
    while (*p) {
        int n = 0, used = 0;
        if (sscanf(p, "\x1b[%dD%n", &n, &used) == 1 && used) {
            column -= n;
            p += used;
        } else if (!strncmp(p, "\x1b[K", 3)) {
            screen[line][column] = 0;
            p += 3;
        } else if (*p == '\n') {
            line++, column = 0, p++;
        } else {
            screen[line][column++] = *p++;
        }
        assert_true(line < LINES && column >= 0 && column <= WIDTH);
    }
}

static void wrap(const char *text, size_t piece, char screen[LINES][200])
{
    ft_wrap w = {.width = WIDTH};
    ft_buf out;
    ft_buf_init(&out, 1 << 16);
    for (size_t i = 0; i < strlen(text); i += piece)
        ft_wrap_put(&w, &out, text + i, FT_MIN(piece, strlen(text) - i));
    show(ft_buf_z(&out), screen);
    ft_buf_release(&out);
}

static void breaks_between_words(void **state)
{
    (void)state;
    static char screen[LINES][200];
    for (size_t piece = 1; piece < 12; piece++) {
        wrap("The quick brown fox jumps over the lazy dog.\nAnd then it sleeps.", piece, screen);
        assert_string_equal(screen[0], "The quick brown fox ");
        assert_string_equal(screen[1], "jumps over the lazy ");
        assert_string_equal(screen[2], "dog.");
        assert_string_equal(screen[3], "And then it sleeps.");
    }
}

static void long_words_are_cut(void **state)
{
    (void)state;
    static char screen[LINES][200];
    wrap("a bcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz c", 3, screen);
    assert_string_equal(screen[0], "a ");
    assert_string_equal(screen[1], "bcdefghijklmnopqrstuvwx");
    assert_string_equal(screen[2], "yzabcdefghijklmnopqrstu");
    assert_string_equal(screen[3], "vwxyz c");
}

static void other_text_is_unchanged(void **state)
{
    (void)state;
    ft_wrap off = {0}, on = {.width = 80};
    ft_buf a, b;
    ft_buf_init(&a, 1 << 16);
    ft_buf_init(&b, 1 << 16);
    static const char text[] = "caf\xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x98\x80 \xff x";
    ft_wrap_put(&off, &a, text, sizeof text - 1);
    for (size_t i = 0; i < sizeof text - 1; i++) ft_wrap_put(&on, &b, text + i, 1);
    assert_string_equal(ft_buf_z(&a), text);
    assert_string_equal(ft_buf_z(&b), text);
    ft_buf_release(&a);
    ft_buf_release(&b);
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(breaks_between_words),
        cmocka_unit_test(long_words_are_cut),
        cmocka_unit_test(other_text_is_unchanged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
