/* image/codec.h - one picture on its way through a decoder; between decode.c and the codecs. */
#ifndef FT_IMAGE_CODEC_H
#define FT_IMAGE_CODEC_H

#include "image/image.h"

#include <stdbool.h>

typedef struct ft_picture {
    const unsigned char *bytes;
    size_t n;
    const ft_image_limits *limits;
    bool size_only;
    int w, h;           /* as stored */
    int orientation;    /* EXIF, 1 to 8 */
    unsigned char *rgb; /* [h, w, 3] */
    int64_t deadline;   /* of ft_now_ns */
} ft_picture;

/* The header says w x h: refuses what is too large, else allocates the pixels unless only the size
 * is wanted. */
ft_status ft_picture_begin(ft_picture *p, int64_t w, int64_t h, ft_err *err);
bool ft_picture_late(const ft_picture *p);
/* rgb from [h, w, 4] pixels with alpha, on the background. */
void ft_picture_blend(ft_picture *p, const unsigned char *rgba);

/* Each fills w, h, orientation and, unless only the size is wanted, rgb. On failure the caller
 * frees rgb. */
ft_status ft_jpeg_read(ft_picture *p, ft_err *err);
ft_status ft_png_read(ft_picture *p, ft_err *err);
ft_status ft_webp_read(ft_picture *p, ft_err *err);

#endif
