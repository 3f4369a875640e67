#include "base/utf8.h"

/* Length of the sequence that starts with this lead byte; 0 for a byte that is not a lead byte. */
static int lead_len(unsigned char c)
{
    if (c < 0x80) return 1;
    if (c >= 0xC2 && c <= 0xDF) return 2;
    if (c >= 0xE0 && c <= 0xEF) return 3;
    if (c >= 0xF0 && c <= 0xF4) return 4;
    return 0;
}

/* true when b is valid as the second byte after this lead byte. Excludes overlong forms, surrogates
 * and values above U+10FFFF. */
static bool second_ok(unsigned char lead, unsigned char b)
{
    switch (lead) {
    case 0xE0: return b >= 0xA0 && b <= 0xBF;
    case 0xED: return b >= 0x80 && b <= 0x9F;
    case 0xF0: return b >= 0x90 && b <= 0xBF;
    case 0xF4: return b >= 0x80 && b <= 0x8F;
    default: return b >= 0x80 && b <= 0xBF;
    }
}

uint32_t ft_utf8_decode(const char *p, size_t n, int *len)
{
    const unsigned char *b = (const unsigned char *)p;
    const int need = lead_len(b[0]);
    *len = 1;
    if (need == 1) return b[0];
    if (need == 0 || (size_t)need > n || !second_ok(b[0], b[1])) return FT_UTF8_BAD;
    uint32_t c = b[0] & (0x7Fu >> need);
    for (int i = 1; i < need; i++) {
        if ((b[i] & 0xC0) != 0x80) return FT_UTF8_BAD;
        c = c << 6 | (b[i] & 0x3Fu);
    }
    *len = need;
    return c;
}

int ft_utf8_encode(uint32_t c, char out[4])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    const int n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char mark[5] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (int i = n - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (c & 0x3F));
        c >>= 6;
    }
    out[0] = (char)(mark[n] | c);
    return n;
}

bool ft_utf8_valid(ft_str s)
{
    for (size_t i = 0; i < s.n;) {
        int len;
        if (ft_utf8_decode(s.p + i, s.n - i, &len) == FT_UTF8_BAD) return false;
        i += (size_t)len;
    }
    return true;
}

size_t ft_utf8_partial(ft_str s)
{
    for (size_t back = 1; back <= 3 && back <= s.n; back++) {
        const unsigned char *b = (const unsigned char *)s.p + s.n - back;
        if ((b[0] & 0xC0) == 0x80) continue;
        const int need = lead_len(b[0]);
        if (need <= (int)back) return 0;
        if (back >= 2 && !second_ok(b[0], b[1])) return 0;
        return back;
    }
    return 0;
}

void ft_utf8_repair(ft_buf *out, const char *p, size_t n)
{
    for (size_t i = 0; i < n;) {
        int len;
        if (ft_utf8_decode(p + i, n - i, &len) == FT_UTF8_BAD)
            ft_buf_puts(out, "\xEF\xBF\xBD");
        else
            ft_buf_put(out, p + i, (size_t)len);
        i += (size_t)len;
    }
}
