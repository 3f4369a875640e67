#include "image/codec.h"

#include "base/clock.h"
#include "base/mem.h"

#include <string.h>

const ft_image_limits ft_image_limits_default = {
    .bytes = (size_t)20 << 20, .side = 16384, .pixels = 64000000, .seconds = 10};

typedef ft_status read_fn(ft_picture *p, ft_err *err);

/* By the first bytes, never by a name or a declared type. */
static read_fn *codec_of(const unsigned char *p, size_t n)
{
    static const unsigned char png[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    if (n >= 3 && p[0] == 0xff && p[1] == 0xd8 && p[2] == 0xff) return ft_jpeg_read;
    if (n >= 8 && !memcmp(p, png, 8)) return ft_png_read;
    if (n >= 12 && !memcmp(p, "RIFF", 4) && !memcmp(p + 8, "WEBP", 4)) return ft_webp_read;
    return NULL;
}

ft_status ft_picture_begin(ft_picture *p, int64_t w, int64_t h, ft_err *err)
{
    const ft_image_limits *l = p->limits;
    if (w < 1 || h < 1)
        return ft_fail(err, FT_EFORMAT, "the image is %lld x %lld pixels", (long long)w,
                       (long long)h);
    if (w > l->side || h > l->side)
        return ft_fail(err, FT_EFORMAT, "the image is %lld x %lld pixels, at most %d per side",
                       (long long)w, (long long)h, l->side);
    if (w * h > l->pixels)
        return ft_fail(err, FT_EFORMAT, "the image has %lld pixels, at most %lld are allowed",
                       (long long)(w * h), (long long)l->pixels);
    p->w = (int)w;
    p->h = (int)h;
    if (p->size_only) return FT_OK;
    p->rgb = ft_try_alloc((size_t)(w * h) * 3);
    if (!p->rgb)
        return ft_fail(err, FT_ENOMEM, "no memory for an image of %d x %d pixels", p->w, p->h);
    return FT_OK;
}

bool ft_picture_late(const ft_picture *p)
{
    return ft_now_ns() > p->deadline;
}

void ft_picture_blend(ft_picture *p, const unsigned char *rgba)
{
    const unsigned char *ground = p->limits->background;
    const size_t n = (size_t)p->w * (size_t)p->h;
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < 3; c++) {
            const unsigned a = rgba[4 * i + 3];
            p->rgb[3 * i + c] =
                (unsigned char)((rgba[4 * i + c] * a + ground[c] * (255 - a) + 127) / 255);
        }
}

static ft_status read_picture(ft_picture *p, ft_err *err)
{
    read_fn *fn = codec_of(p->bytes, p->n);
    if (p->n > p->limits->bytes)
        return ft_fail(err, FT_EFORMAT, "the image file has %zu bytes, at most %zu are allowed",
                       p->n, p->limits->bytes);
    if (!fn) return ft_fail(err, FT_EFORMAT, "unknown image format, want JPEG, PNG or WebP");
    p->orientation = 1;
    p->deadline = ft_now_ns() + (int64_t)(p->limits->seconds * 1e9);
    return fn(p, err);
}

/* Where the upright pixel (x, y) is stored: orientations 5 to 8 exchange the sides. */
static size_t stored_at(const ft_picture *p, int x, int y)
{
    int sx = x, sy = y;
    switch (p->orientation) {
    case 2: sx = p->w - 1 - x; break;
    case 3: sx = p->w - 1 - x, sy = p->h - 1 - y; break;
    case 4: sy = p->h - 1 - y; break;
    case 5: sx = y, sy = x; break;
    case 6: sx = y, sy = p->h - 1 - x; break;
    case 7: sx = p->w - 1 - y, sy = p->h - 1 - x; break;
    case 8: sx = p->w - 1 - y, sy = x; break;
    default: break;
    }
    return ((size_t)sy * (size_t)p->w + (size_t)sx) * 3;
}

static ft_status make_upright(ft_image *out, ft_picture *p, ft_err *err)
{
    const bool swap = p->orientation >= 5;
    *out = (ft_image){.w = swap ? p->h : p->w, .h = swap ? p->w : p->h, .rgb = p->rgb};
    if (p->orientation == 1) return FT_OK;
    unsigned char *to = ft_try_alloc((size_t)p->w * (size_t)p->h * 3);
    if (!to)
        return ft_fail(err, FT_ENOMEM, "no memory to rotate an image of %d x %d pixels", p->w,
                       p->h);
    out->rgb = to;
    for (int y = 0; y < out->h; y++)
        for (int x = 0; x < out->w; x++, to += 3) memcpy(to, p->rgb + stored_at(p, x, y), 3);
    ft_free(p->rgb);
    return FT_OK;
}

ft_status ft_image_decode(ft_image *out, const void *bytes, size_t n, const ft_image_limits *l,
                          ft_err *err)
{
    ft_picture p = {.bytes = bytes, .n = n, .limits = l};
    ft_status st = read_picture(&p, err);
    if (!st) st = make_upright(out, &p, err);
    if (st) {
        ft_free(p.rgb);
        *out = (ft_image){0};
    }
    return st;
}

ft_status ft_image_size(int *w, int *h, const void *bytes, size_t n, const ft_image_limits *l,
                        ft_err *err)
{
    ft_picture p = {.bytes = bytes, .n = n, .limits = l, .size_only = true};
    const ft_status st = read_picture(&p, err);
    if (st) return st;
    *w = p.orientation >= 5 ? p.h : p.w;
    *h = p.orientation >= 5 ? p.w : p.h;
    return FT_OK;
}

void ft_image_release(ft_image *m)
{
    ft_free(m->rgb);
    *m = (ft_image){0};
}
