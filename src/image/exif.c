/* EXIF is a TIFF file: a header, then a directory of entries of twelve bytes. Only the first
 * directory is read, and every offset is checked against the block. */
#include "image/image.h"

#include <stdbool.h>
#include <string.h>

typedef struct tiff {
    const unsigned char *p;
    size_t n;
    bool big;
} tiff;

/* Two bytes at `at`, 0 beyond the end. */
static unsigned half(const tiff *t, size_t at)
{
    if (at > t->n || t->n - at < 2) return 0;
    return t->big ? (unsigned)(t->p[at] << 8 | t->p[at + 1])
                  : (unsigned)(t->p[at + 1] << 8 | t->p[at]);
}

static size_t word(const tiff *t, size_t at)
{
    const size_t a = half(t, at), b = half(t, at + 2);
    return t->big ? a << 16 | b : b << 16 | a;
}

int ft_exif_orientation(const unsigned char *p, size_t n)
{
    enum { ORIENTATION = 0x0112, SHORT = 3 };
    if (n < 8) return 1;
    const tiff t = {p, n, p[0] == 'M'};
    if (memcmp(p, t.big ? "MM" : "II", 2) || half(&t, 2) != 42) return 1;
    const size_t dir = word(&t, 4);
    if (dir > n || n - dir < 2) return 1;
    const unsigned count = half(&t, dir);
    for (unsigned i = 0; i < count; i++) {
        const size_t at = dir + 2 + 12 * (size_t)i;
        if (at > n || n - at < 12) return 1;
        if (half(&t, at) != ORIENTATION) continue;
        const unsigned v = half(&t, at + 2) == SHORT ? half(&t, at + 8) : 1;
        return v >= 1 && v <= 8 ? (int)v : 1;
    }
    return 1;
}
