/* text/jinja_lex.c - splits the source of a template into tokens.
 * It also implements white space control: "-" next to a tag strips all white space on that side, a
 * tag alone on its line loses its indentation (lstrip_blocks) and the line end after it
 * (trim_blocks), and "+" keeps both. */
#include "base/utf8.h"
#include "text/jinja_ast.h"

#include <errno.h>
#include <stdlib.h>

typedef struct lexer {
    ft_jctx *c;
    ft_str s;
    size_t at;
    int line;
    ft_jtok *tok;
    size_t n, cap;
} lexer;

static bool is_space(char ch)
{
    return ch == ' ' || (ch >= '\t' && ch <= '\r');
}

static bool is_alpha(char ch)
{
    return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || ch == '_' || (ch & 0x80);
}

static bool is_digit(char ch)
{
    return ch >= '0' && ch <= '9';
}

static char peek(const lexer *x, size_t ahead)
{
    return x->at + ahead < x->s.n ? x->s.p[x->at + ahead] : 0;
}

static bool looking_at(const lexer *x, const char *z)
{
    const size_t n = strlen(z);
    return x->s.n - x->at >= n && !memcmp(x->s.p + x->at, z, n);
}

static ft_jtok *put_tok(lexer *x, ft_jtok_kind kind, ft_str text)
{
    if (x->n == x->cap) {
        const size_t cap = x->cap ? 2 * x->cap : 64;
        ft_jtok *t = ft_j_alloc_n(x->c, cap, sizeof *t);
        if (x->n) memcpy(t, x->tok, x->n * sizeof *t);
        x->tok = t;
        x->cap = cap;
    }
    x->tok[x->n] = (ft_jtok){kind, x->line, text, 0, 0};
    return &x->tok[x->n++];
}

static void advance(lexer *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x->line += x->s.p[x->at + i] == '\n';
    x->at += n;
    x->c->line = x->line;
}

static void skip_spaces(lexer *x)
{
    while (x->at < x->s.n && is_space(x->s.p[x->at])) advance(x, 1);
}

/* Emits the text [from, to) before a tag, stripped according to the sign of the tag and the
 * options.
 */
static void put_data(lexer *x, size_t from, size_t to, char sign, bool is_var)
{
    size_t end = to;
    if (sign == '-') {
        while (end > from && is_space(x->s.p[end - 1])) end--;
    } else if (sign != '+' && !is_var) {
        while (end > from && is_space(x->s.p[end - 1]) && x->s.p[end - 1] != '\n') end--;
        const bool line_start = end == 0 || x->s.p[end - 1] == '\n';
        if (!line_start) end = to;
    }
    if (end > from) put_tok(x, FT_T_DATA, (ft_str){x->s.p + from, end - from});
}

/* Skips white space after the end of a tag or comment; sign is the character before the bracket. */
static void after_tag(lexer *x, char sign, bool trim)
{
    if (sign == '-')
        skip_spaces(x);
    else if (sign != '+' && trim && peek(x, 0) == '\n')
        advance(x, 1);
}

/* ---- inside a tag ---- */

static uint32_t read_hex(lexer *x, size_t at, int digits)
{
    uint32_t v = 0;
    for (int i = 0; i < digits; i++) {
        const char ch = at + (size_t)i < x->s.n ? x->s.p[at + (size_t)i] : 0;
        const int d = ft_hex_digit(ch);
        if (d < 0) ft_j_fail(x->c, FT_EFORMAT, "a \\ escape: want %d hexadecimal digits", digits);
        v = v * 16 + (uint32_t)d;
    }
    return v;
}

/* Decodes one escape; `at` is the position after the backslash. Returns the number of bytes read.
 */
static size_t decode_escape(lexer *x, ft_jsb *b, size_t at)
{
    static const char names[] = "n\nt\tr\r\\\\'\'\"\"a\ab\bf\fv\v";
    const char ch = x->s.p[at];
    for (const char *p = names; *p; p += 2)
        if (*p == ch) {
            ft_jsb_put(x->c, b, p + 1, 1);
            return 1;
        }
    if (ch == '\n') return 1;
    if (ch == 'x' || ch == 'u' || ch == 'U') {
        const int digits = ch == 'x' ? 2 : ch == 'u' ? 4 : 8;
        ft_jsb_put_char(x->c, b, read_hex(x, at + 1, digits));
        return 1 + (size_t)digits;
    }
    if (ch >= '0' && ch <= '7') {
        uint32_t v = 0;
        size_t n = 0;
        while (n < 3 && x->s.p[at + n] >= '0' && x->s.p[at + n] <= '7')
            v = v * 8 + (uint32_t)(x->s.p[at + n++] - '0');
        ft_jsb_put_char(x->c, b, v);
        return n;
    }
    ft_jsb_put(x->c, b, "\\", 1); /* an unknown escape is kept unchanged */
    return 0;
}

static void lex_string(lexer *x)
{
    const char quote = peek(x, 0);
    size_t end = x->at + 1;
    bool plain = true;
    while (end < x->s.n && x->s.p[end] != quote) {
        if (x->s.p[end] == '\\') plain = false, end++;
        end++;
    }
    if (end >= x->s.n) ft_j_fail(x->c, FT_EFORMAT, "a string that starts here does not end");
    ft_str text = {x->s.p + x->at + 1, end - x->at - 1};
    if (!plain) {
        ft_jsb b = {0};
        for (size_t at = x->at + 1; at < end;) {
            if (x->s.p[at] == '\\')
                at += 1 + decode_escape(x, &b, at + 1);
            else
                ft_jsb_put(x->c, &b, x->s.p + at++, 1);
        }
        text = ft_jv_text(ft_jsb_value(&b));
    }
    put_tok(x, FT_T_STR, text);
    advance(x, end + 1 - x->at);
}

static void lex_number(lexer *x)
{
    char digits[64];
    size_t n = 0, at = x->at;
    bool real = false;
    for (; at < x->s.n; at++) {
        const char ch = x->s.p[at], next = at + 1 < x->s.n ? x->s.p[at + 1] : 0;
        const bool exp = n && (ch | 32) == 'e' &&
                         (is_digit(next) || ((next == '+' || next == '-') && at + 2 < x->s.n &&
                                             is_digit(x->s.p[at + 2])));
        if (ch == '_' && n && is_digit(next)) continue;
        if (!is_digit(ch) && !exp && !(ch == '.' && !real && is_digit(next))) break;
        if (n + 4 > sizeof digits) ft_j_fail(x->c, FT_EFORMAT, "a number of more than 60 digits");
        digits[n++] = ch;
        if (exp && !is_digit(next)) digits[n++] = x->s.p[++at];
        real |= exp || ch == '.';
        if (exp) { /* the digits of the exponent follow */
            while (at + 1 < x->s.n && is_digit(x->s.p[at + 1]) && n + 2 < sizeof digits)
                digits[n++] = x->s.p[++at];
            at++;
            break;
        }
    }
    digits[n] = 0;
    ft_jtok *t = put_tok(x, real ? FT_T_FLOAT : FT_T_INT, (ft_str){x->s.p + x->at, at - x->at});
    errno = 0;
    if (real)
        t->f = strtod(digits, NULL);
    else
        t->i = strtoll(digits, NULL, 10);
    if (!real && errno) ft_j_fail(x->c, FT_ELIMIT, "the integer %s does not fit 64 bits", digits);
    advance(x, at - x->at);
}

static void lex_operator(lexer *x)
{
    static const char *const two[] = {"==", "!=", "<=", ">=", "//", "**"};
    for (size_t i = 0; i < sizeof two / sizeof two[0]; i++)
        if (looking_at(x, two[i])) {
            put_tok(x, FT_T_OP, ft_str_of(two[i]));
            advance(x, 2);
            return;
        }
    const char ch = peek(x, 0);
    if (!ch || !strchr("+-*/%<>=()[]{}.,:|~", ch))
        ft_j_fail(x->c, FT_EFORMAT, "unexpected character '%c' (0x%02x)",
                  ch >= 0x20 && ch < 0x7f ? ch : '?', (unsigned)(unsigned char)ch);
    put_tok(x, FT_T_OP, (ft_str){x->s.p + x->at, 1});
    advance(x, 1);
}

/* Reads tokens up to and including the end of the tag. */
static void lex_code(lexer *x, const char *close, ft_jtok_kind end_kind)
{
    int braces = 0; /* "}}" may close two dicts: an end counts only outside of brackets */
    for (;;) {
        skip_spaces(x);
        if (x->at >= x->s.n) ft_j_fail(x->c, FT_EFORMAT, "the template ends inside a tag");
        const char ch = peek(x, 0);
        const char sign = (ch == '-' || ch == '+') ? ch : 0;
        if (!braces && x->s.n - x->at >= (sign ? 3u : 2u) &&
            !memcmp(x->s.p + x->at + (sign != 0), close, 2) &&
            !(sign == '+' && end_kind == FT_T_VAR_END)) {
            put_tok(x, end_kind, FT_STR(""));
            advance(x, sign ? 3 : 2);
            after_tag(x, sign, end_kind == FT_T_TAG_END);
            return;
        }
        if (is_alpha(ch)) {
            size_t end = x->at;
            while (end < x->s.n && (is_alpha(x->s.p[end]) || is_digit(x->s.p[end]))) end++;
            put_tok(x, FT_T_NAME, (ft_str){x->s.p + x->at, end - x->at});
            advance(x, end - x->at);
        } else if (is_digit(ch)) {
            lex_number(x);
        } else if (ch == '"' || ch == '\'') {
            lex_string(x);
        } else {
            if (ch == '{' || ch == '(' || ch == '[') braces++;
            if ((ch == '}' || ch == ')' || ch == ']') && braces) braces--;
            lex_operator(x);
        }
    }
}

/* At "{%": true when the tag is only the word `word`; *len is its length, *sign the sign at its
 * end.
 */
static bool bare_tag(const lexer *x, size_t at, const char *word, size_t *len, char *sign)
{
    const char *p = x->s.p;
    size_t i = at + 2;
    if (i < x->s.n && (p[i] == '-' || p[i] == '+')) i++;
    while (i < x->s.n && is_space(p[i])) i++;
    const size_t n = strlen(word);
    if (x->s.n - i < n || memcmp(p + i, word, n)) return false;
    i += n;
    while (i < x->s.n && is_space(p[i])) i++;
    *sign = i < x->s.n && (p[i] == '-' || p[i] == '+') ? p[i++] : 0;
    if (x->s.n - i < 2 || memcmp(p + i, "%}", 2)) return false;
    *len = i + 2 - at;
    return true;
}

static void lex_raw(lexer *x, size_t len, char sign)
{
    advance(x, len);
    after_tag(x, sign, false);
    for (size_t end = x->at; (end = ft_str_find(x->s, FT_STR("{%"), end)) != SIZE_MAX; end++) {
        if (!bare_tag(x, end, "endraw", &len, &sign)) continue;
        const char before = x->s.p[end + 2] == '-' || x->s.p[end + 2] == '+' ? x->s.p[end + 2] : 0;
        put_data(x, x->at, end, before, false);
        advance(x, end + len - x->at);
        after_tag(x, sign, true);
        return;
    }
    ft_j_fail(x->c, FT_EFORMAT, "a raw block does not end");
}

static void lex_comment(lexer *x)
{
    const size_t end = ft_str_find(x->s, FT_STR("#}"), x->at + 2);
    if (end == SIZE_MAX) ft_j_fail(x->c, FT_EFORMAT, "a comment does not end");
    const char last = end > x->at + 2 ? x->s.p[end - 1] : 0;
    advance(x, end + 2 - x->at);
    after_tag(x, last == '-' || last == '+' ? last : 0, true);
}

static size_t next_tag(const lexer *x)
{
    for (size_t i = x->at; i + 1 < x->s.n; i++)
        if (x->s.p[i] == '{' &&
            (x->s.p[i + 1] == '%' || x->s.p[i + 1] == '{' || x->s.p[i + 1] == '#'))
            return i;
    return SIZE_MAX;
}

void ft_jlex(ft_jctx *c, ft_str source, ft_jtok **out, size_t *n)
{
    lexer x = {.c = c, .s = source, .line = 1};
    c->line = 1;
    while (x.at < x.s.n) {
        const size_t tag = next_tag(&x);
        if (tag == SIZE_MAX) {
            put_tok(&x, FT_T_DATA, (ft_str){x.s.p + x.at, x.s.n - x.at});
            break;
        }
        const char kind = x.s.p[tag + 1];
        char sign = tag + 2 < x.s.n ? x.s.p[tag + 2] : 0;
        if (sign != '-' && sign != '+') sign = 0;
        put_data(&x, x.at, tag, sign, kind == '{');
        advance(&x, tag - x.at);
        size_t len;
        char end_sign;
        if (kind == '#') {
            lex_comment(&x);
        } else if (kind == '%' && bare_tag(&x, x.at, "raw", &len, &end_sign)) {
            lex_raw(&x, len, end_sign);
        } else {
            put_tok(&x, kind == '{' ? FT_T_VAR_BEGIN : FT_T_TAG_BEGIN, FT_STR(""));
            advance(&x, sign ? 3 : 2);
            lex_code(&x, kind == '{' ? "}}" : "%}", kind == '{' ? FT_T_VAR_END : FT_T_TAG_END);
        }
    }
    put_tok(&x, FT_T_END, FT_STR(""));
    *out = x.tok;
    *n = x.n;
}
