#include "text/pretok.h"

#include "base/mem.h"
#include "gguf/show.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* White_Space as defined by Unicode. \s of PCRE2 differs: it includes U+180E. */
#define SPACE                                                                                      \
    "\\t-\\r\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}" \
    "\\x{3000}"
/* The split pattern of the models; they differ in what counts as part of a word besides letters. */
#define PATTERN(word)                                                                              \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}" word "]+|\\p{N}| ?[^" SPACE       \
    "\\p{L}" word "\\p{N}]+[\\r\\n]*|[" SPACE "]*[\\r\\n]+|[" SPACE "]+(?![^" SPACE "])|[" SPACE   \
    "]+"

static const struct {
    const char *name, *pattern;
} table[] = {
    {"qwen2", PATTERN("")},
    {"qwen35", PATTERN("\\p{M}")},
};

struct ft_pretok {
    pcre2_code *code;
    bool jit;
};

struct ft_pretok_work {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

ft_status ft_pretok_open(ft_pretok **out, ft_str name, ft_err *err)
{
    const char *pattern = NULL;
    for (size_t i = 0; i < FT_COUNT(table); i++)
        if (ft_str_is(name, table[i].name)) pattern = table[i].pattern;
    if (!pattern)
        return ft_fail(err, FT_EUNSUPPORTED, "pre-tokenizer \"%s\", want qwen2 or qwen35",
                       ft_show(name).text);
    int code;
    size_t at;
    ft_pretok *p = ft_new(ft_pretok);
    p->code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &code, &at, NULL);
    if (!p->code) {
        ft_pretok_free(p);
        return ft_fail(err, FT_EUNSUPPORTED, "PCRE2 rejects the split pattern (error %d at %zu)",
                       code, at);
    }
    p->jit = pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE) == 0;
    *out = p;
    return FT_OK;
}

void ft_pretok_free(ft_pretok *p)
{
    if (!p) return;
    pcre2_code_free(p->code);
    ft_free(p);
}

ft_pretok_work *ft_pretok_work_new(const ft_pretok *p)
{
    ft_pretok_work *w = ft_new(ft_pretok_work);
    w->data = pcre2_match_data_create_from_pattern(p->code, NULL);
    w->context = pcre2_match_context_create(NULL);
    w->stack = pcre2_jit_stack_create((size_t)32 << 10, (size_t)1 << 20, NULL);
    if (!w->data || !w->context ||
        !w->stack) { /* out of memory for small objects: abort as ft_new does */
        ft_pretok_work_free(w);
        return NULL;
    }
    pcre2_set_match_limit(w->context, UINT32_MAX);
    pcre2_jit_stack_assign(w->context, NULL, w->stack);
    return w;
}

void ft_pretok_work_free(ft_pretok_work *w)
{
    if (!w) return;
    pcre2_match_data_free(w->data);
    pcre2_match_context_free(w->context);
    pcre2_jit_stack_free(w->stack);
    ft_free(w);
}

size_t ft_pretok_pattern(const ft_pretok *p, ft_pretok_work *w, ft_str text, size_t pos)
{
    const PCRE2_SPTR s = (PCRE2_SPTR)text.p;
    const int rc =
        p->jit ? pcre2_jit_match(p->code, s, text.n, pos, PCRE2_NO_UTF_CHECK, w->data, w->context)
               : pcre2_match(p->code, s, text.n, pos, PCRE2_NO_UTF_CHECK, w->data, w->context);
    return rc < 1 ? 0 : pcre2_get_ovector_pointer(w->data)[1] - pos;
}

/* ---- the scanner ---- */

enum { OTHER, LETTER, DIGIT, BLANK, BREAK, HIGH }; /* BREAK: CR and LF; HIGH: not ASCII */

static const uint8_t class_of[256] = {
    ['a' ... 'z'] = LETTER, ['A' ... 'Z'] = LETTER,  ['0' ... '9'] = DIGIT,
    ['\t'] = BLANK,         ['\v' ... '\f'] = BLANK, [' '] = BLANK,
    ['\n'] = BREAK,         ['\r'] = BREAK,          [0x80 ... 0xFF] = HIGH,
};

/* Length of 's, 't, 'm, 'd, 're, 've or 'll at p, in any case; 0 for none. */
static size_t contraction_len(const unsigned char *p, size_t n)
{
    if (n < 2) return 0;
    const int a = p[1] | 0x20, b = n > 2 ? p[2] | 0x20 : 0;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    return ((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

/* Length of the piece at a run of white space. It depends on the character after the run. */
static size_t blank_piece(const unsigned char *p, size_t n)
{
    size_t e = 0, line_end = 0;
    for (; e < n && (class_of[p[e]] == BLANK || class_of[p[e]] == BREAK); e++)
        if (class_of[p[e]] == BREAK) line_end = e + 1;
    if (e < n && class_of[p[e]] == HIGH) return 0;
    if (line_end) return line_end;
    return e < n && e > 1 ? e - 1 : e;
}

size_t ft_pretok_ascii(ft_str text, size_t pos)
{
    const unsigned char *p = (const unsigned char *)text.p + pos;
    const size_t n = text.n - pos;
    size_t k = 0;
    const uint8_t c = class_of[p[0]], next = n > 1 ? class_of[p[1]] : BREAK;
    if (c == HIGH) return 0;
    if (c == DIGIT) return 1;
    if (c == BREAK) return blank_piece(p, n);
    if (c != LETTER) {
        if (next == HIGH) return 0;
        if (p[0] == '\'' && (k = contraction_len(p, n))) return k;
        k = 1;
    }
    if (c == LETTER || next == LETTER) {
        while (k < n && class_of[p[k]] == LETTER) k++;
        return k < n && class_of[p[k]] == HIGH ? 0 : k;
    }
    k = p[0] == ' ';
    if (k < n && class_of[p[k]] == OTHER) {
        while (k < n && class_of[p[k]] == OTHER) k++;
        if (k < n && class_of[p[k]] == HIGH) return 0;
        while (k < n && class_of[p[k]] == BREAK) k++;
        return k;
    }
    return blank_piece(p, n);
}

size_t ft_pretok_next(const ft_pretok *p, ft_pretok_work *w, ft_str text, size_t pos)
{
    const size_t n = ft_pretok_ascii(text, pos);
    return n ? n : ft_pretok_pattern(p, w, text, pos);
}
