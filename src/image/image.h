/* image/image.h - pictures: encoded bytes to RGB, RGB to the patches that a vision tower reads.
 * Nothing here knows a model or a device. Limits are checked from the header, before any memory is
 * allocated for pixels. docs/arch/vision.md has the numbers. */
#ifndef FT_IMAGE_IMAGE_H
#define FT_IMAGE_IMAGE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* [h, w, 3] bytes: red, green, blue; upright. */
typedef struct ft_image {
    int w, h;
    unsigned char *rgb;
} ft_image;

/* What one picture may take, and what becomes of its alpha. */
typedef struct ft_image_limits {
    size_t bytes;   /* encoded */
    int side;       /* pixels of its longer side */
    int64_t pixels; /* of the whole */
    double seconds; /* to decode it */
    bool blend;     /* transparent pixels are blended with `background`; else alpha is dropped */
    unsigned char background[3]; /* red, green, blue */
} ft_image_limits;

extern const ft_image_limits ft_image_limits_default; /* 20 MiB, 16384, 64 million, 10 s */

/* Decodes JPEG, PNG or WebP, told apart by their first bytes, and applies the EXIF orientation.
 * Alpha is dropped unless it is blended, colour profiles are ignored, an animation gives its first
 * frame. A picture that is rotated takes its pixels twice for a moment. */
ft_status ft_image_decode(ft_image *out, const void *bytes, size_t n, const ft_image_limits *l,
                          ft_err *err);
/* The upright size alone, from the header. */
ft_status ft_image_size(int *w, int *h, const void *bytes, size_t n, const ft_image_limits *l,
                        ft_err *err);
void ft_image_release(ft_image *m);

/* Separable antialiased bicubic (a = -0.5) on 8-bit values, width first: bit for bit what Pillow
 * computes. out is new. */
void ft_image_resize(ft_image *out, const ft_image *in, int w, int h);

/* The size to which a picture of w x h is resized, in multiples of `unit`.
 * By area (Qwen): unit x unit squares, lo to hi pixels in all; sides that differ more than 200
 * times are refused. By budget (Gemma): as large as `tokens` squares allow, also upwards. */
ft_status ft_image_fit_area(int *W, int *H, int w, int h, int unit, int64_t lo, int64_t hi,
                            ft_err *err);
void ft_image_fit_budget(int *W, int *H, int w, int h, int unit, int tokens);

/* Patches of p x p pixels as rows [channel][y][x] of (value / 255 - mean) / std, the patches of
 * each merge x merge block one behind the other, blocks in raster order; n of the w h / p^2 patches,
 * from `first` on. out: [n, 3 p p]. Both sides are multiples of p merge. */
void ft_image_patches(float *out, const ft_image *m, int p, int merge, const float mean[3],
                      const float std[3], int first, int n);

/* Bytes of "data:image/...;base64,DATA", or of DATA alone: standard or URL-safe alphabet, white
 * space allowed, padding optional. More than `limit` bytes are refused. ft_free releases *out. */
ft_status ft_data_uri_decode(unsigned char **out, size_t *n_out, const char *text, size_t n,
                             size_t limit, ft_err *err);

/* The orientation (1 to 8) in an EXIF block that starts with "II" or "MM"; 1 when it has none or is
 * damaged. */
int ft_exif_orientation(const unsigned char *p, size_t n);

#endif
