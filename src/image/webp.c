/* WebP: the still picture, or frame 0 of an animation on a black canvas; alpha is ignored, or
 * blended with the background, which is the canvas too. */
#include "image/codec.h"

#ifdef FT_HAVE_WEBP

#include "base/mem.h"

#include <string.h>

#include <webp/decode.h>
#include <webp/demux.h>

enum { PIECE = 64 << 10 }; /* bytes fed to the decoder between two looks at the clock */

/* Into `canvas`, pixels of `each` bytes. */
static ft_status decode_frame(ft_picture *p, const WebPIterator *f, unsigned char *canvas,
                              size_t each, ft_err *err)
{
    const size_t stride = (size_t)p->w * each;
    const size_t first = (size_t)f->y_offset * stride + (size_t)f->x_offset * each;
    if (f->x_offset < 0 || f->y_offset < 0 || f->width < 1 || f->height < 1 ||
        f->x_offset > p->w - f->width || f->y_offset > p->h - f->height)
        return ft_fail(err, FT_EFORMAT, "WebP: the first frame lies outside the canvas");
    WebPIDecoder *d =
        WebPINewRGB(each == 4 ? MODE_RGBA : MODE_RGB, canvas + first,
                    (size_t)(f->height - 1) * stride + (size_t)f->width * each, (int)stride);
    if (!d) return ft_fail(err, FT_ENOMEM, "WebP: no memory for the decoder");
    VP8StatusCode code = VP8_STATUS_SUSPENDED;
    bool late = false;
    for (size_t at = 0; at < f->fragment.size && code == VP8_STATUS_SUSPENDED && !late;) {
        const size_t n = FT_MIN((size_t)PIECE, f->fragment.size - at);
        code = WebPIAppend(d, f->fragment.bytes + at, n);
        at += n;
        late = ft_picture_late(p);
    }
    WebPIDelete(d);
    if (late) return ft_fail(err, FT_EFORMAT, "WebP: decoding takes too long");
    if (code == VP8_STATUS_SUSPENDED)
        return ft_fail(err, FT_EFORMAT, "WebP: the data ends too early");
    if (code != VP8_STATUS_OK) return ft_fail(err, FT_EFORMAT, "WebP: the data is damaged");
    return FT_OK;
}

static ft_status blend_frame(ft_picture *p, const WebPIterator *f, ft_err *err)
{
    const size_t n = (size_t)p->w * (size_t)p->h * 4;
    unsigned char *rgba = ft_try_alloc(n);
    if (!rgba)
        return ft_fail(err, FT_ENOMEM, "no memory for an image of %d x %d pixels", p->w, p->h);
    memset(rgba, 0, n);
    const ft_status st = decode_frame(p, f, rgba, 4, err);
    if (!st) ft_picture_blend(p, rgba);
    ft_free(rgba);
    return st;
}

static void find_orientation(ft_picture *p, const WebPDemuxer *d)
{
    WebPChunkIterator c;
    if (WebPDemuxGetChunk(d, "EXIF", 1, &c)) {
        const uint8_t *b = c.chunk.bytes;
        size_t n = c.chunk.size;
        if (n > 6 && b[0] == 'E' && b[1] == 'x') b += 6, n -= 6; /* "Exif\0\0" as in JPEG */
        p->orientation = ft_exif_orientation(b, n);
    }
    WebPDemuxReleaseChunkIterator(&c);
}

ft_status ft_webp_read(ft_picture *p, ft_err *err)
{
    WebPBitstreamFeatures head;
    if (WebPGetFeatures(p->bytes, p->n, &head) != VP8_STATUS_OK)
        return ft_fail(err, FT_EFORMAT, "WebP: the header is damaged");
    ft_status st = ft_picture_begin(p, head.width, head.height, err);
    if (st) return st;
    const WebPData data = {p->bytes, p->n};
    WebPDemuxer *d = WebPDemux(&data);
    if (!d) return ft_fail(err, FT_EFORMAT, "WebP: the data is damaged or ends too early");
    find_orientation(p, d);
    WebPIterator frame;
    if (!p->size_only) {
        if (WebPDemuxGetFrame(d, 1, &frame))
            st = p->limits->blend ? blend_frame(p, &frame, err)
                                  : decode_frame(p, &frame, p->rgb, 3, err);
        else
            st = ft_fail(err, FT_EFORMAT, "WebP: there is no frame");
        WebPDemuxReleaseIterator(&frame);
    }
    WebPDemuxDelete(d);
    return st;
}

#else

ft_status ft_webp_read(ft_picture *p, ft_err *err)
{
    (void)p;
    return ft_fail(err, FT_EUNSUPPORTED,
                   "WebP images are not supported by this build: it was compiled without libwebp");
}

#endif
