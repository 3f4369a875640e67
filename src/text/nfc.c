#include "text/nfc.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <utf8proc.h>

#define MAX_DECOMPOSED 8 /* code points of one code point; Unicode's longest canonical one is 4 */

/* true when c does not compose with the preceding character, decompose or reorder. Conservative. */
static bool inert(uint32_t c)
{
    if (c < 0x300) return true;
    if (c >= 0x10000) return false;
    if ((c >= 0x1100 && c <= 0x11FF) || (c >= 0xA960 && c <= 0xA97F) ||
        (c >= 0xD7B0 && c <= 0xD7FF)) /* Hangul jamo */
        return false;
    const utf8proc_property_t *p = utf8proc_get_property((utf8proc_int32_t)c);
    switch (p->category) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME: return false;
    default: break;
    }
    if (p->combining_class) return false;
    if (c >= 0xAC00 && c <= 0xD7A3) return true; /* syllables; only jamo after them compose */
    return p->decomp_seqindex == UINT16_MAX || p->decomp_type != 0;
}

bool ft_nfc_needed(ft_str s)
{
    for (size_t i = 0; i < s.n;) {
        if ((unsigned char)s.p[i] < 0xCC) { /* below U+0300, or the rest of such a character */
            i++;
            continue;
        }
        int len;
        if (!inert(ft_utf8_decode(s.p + i, s.n - i, &len))) return true;
        i += (size_t)len;
    }
    return false;
}

static uint8_t class_of(int32_t c)
{
    return (uint8_t)utf8proc_get_property(c)->combining_class;
}

/* Sorts a run of combining characters by class, keeping the order within a class. */
static void reorder(int32_t *c, size_t n)
{
    size_t i = 1;
    while (i < n && class_of(c[i - 1]) <= class_of(c[i])) i++;
    if (i >= n) return;
    size_t start[257] = {0};
    int32_t *sorted = ft_new_n(int32_t, n);
    for (i = 0; i < n; i++) start[class_of(c[i]) + 1]++;
    for (i = 1; i < 257; i++) start[i] += start[i - 1];
    for (i = 0; i < n; i++) sorted[start[class_of(c[i])]++] = c[i];
    memcpy(c, sorted, n * sizeof *c);
    ft_free(sorted);
}

static size_t decompose(ft_str s, ft_nfc_work *w)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n;) {
        if (n + MAX_DECOMPOSED > w->cap) {
            w->cap = w->cap ? w->cap * 2 : 256;
            w->c = ft_realloc(w->c, w->cap * sizeof *w->c);
        }
        int len, bound = UTF8PROC_BOUNDCLASS_START;
        const int32_t c = (int32_t)ft_utf8_decode(s.p + i, s.n - i, &len);
        const utf8proc_ssize_t k = utf8proc_decompose_char(
            c, w->c + n, MAX_DECOMPOSED, UTF8PROC_DECOMPOSE | UTF8PROC_STABLE, &bound);
        if (k < 1 || k > MAX_DECOMPOSED)
            w->c[n++] = c; /* not assigned: decomposes to itself */
        else
            n += (size_t)k;
        i += (size_t)len;
    }
    return n;
}

/* The reordering of utf8proc takes quadratic time on long runs of combining characters, so the code
 * points are decomposed and ordered here, and utf8proc only composes them. */
void ft_nfc(ft_str s, ft_nfc_work *w, ft_buf *out)
{
    const size_t n = decompose(s, w);
    for (size_t i = 0; i < n; i++) {
        size_t k = i;
        while (k < n && class_of(w->c[k])) k++;
        if (k > i) reorder(w->c + i, k - i);
        i = k;
    }
    const utf8proc_ssize_t k =
        utf8proc_normalize_utf32(w->c, (utf8proc_ssize_t)n, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    for (utf8proc_ssize_t i = 0; i < k; i++) {
        char b[4];
        ft_buf_put(out, b, (size_t)ft_utf8_encode((uint32_t)w->c[i], b));
    }
}

void ft_nfc_work_release(ft_nfc_work *w)
{
    ft_free(w->c);
    *w = (ft_nfc_work){0};
}
