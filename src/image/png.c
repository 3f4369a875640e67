/* PNG: palettes expanded, grey spread, 16 bits cut to the high byte, alpha and tRNS dropped or
 * blended.
 * Ancillary chunks are skipped but for tRNS and eXIf. setjmp stays in this file. */
#include "image/codec.h"

#ifdef FT_HAVE_PNG

#include "base/mem.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <png.h>

enum { MAX_CHUNK = 1 << 20 };

typedef struct reader {
    png_structp png;
    png_infop info;
    jmp_buf out;
    ft_picture *p;
    size_t at;
    unsigned char *rgba; /* pixels that are to be blended, or NULL */
    char why[160];
} reader;

static void on_error(png_structp png, png_const_charp text)
{
    reader *r = png_get_error_ptr(png);
    snprintf(r->why, sizeof r->why, "%s", text);
    longjmp(r->out, 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
    (void)png, (void)text;
}

static void on_read(png_structp png, png_bytep to, size_t n)
{
    reader *r = png_get_io_ptr(png);
    if (n > r->p->n - r->at) png_error(png, "the data ends too early");
    memcpy(to, r->p->bytes + r->at, n);
    r->at += n;
}

static void find_orientation(reader *r)
{
    png_uint_32 n = 0;
    png_bytep exif = NULL;
    if (png_get_eXIf_1(r->png, r->info, &n, &exif) && exif)
        r->p->orientation = ft_exif_orientation(exif, n);
}

static void read_rows(reader *r)
{
    ft_picture *p = r->p;
    png_set_palette_to_rgb(r->png);
    png_set_expand_gray_1_2_4_to_8(r->png);
    png_set_strip_16(r->png);
    png_set_gray_to_rgb(r->png);
    if (r->rgba) {
        png_set_tRNS_to_alpha(r->png);
        png_set_filler(r->png, 255, PNG_FILLER_AFTER);
    } else {
        png_set_strip_alpha(r->png);
    }
    const int passes = png_set_interlace_handling(r->png);
    png_read_update_info(r->png, r->info);
    unsigned char *to = r->rgba ? r->rgba : p->rgb;
    const size_t row = (size_t)p->w * (r->rgba ? 4 : 3);
    if (png_get_rowbytes(r->png, r->info) != row) png_error(r->png, "unexpected width of a row");
    for (int i = 0; i < passes; i++)
        for (int y = 0; y < p->h; y++) {
            if (ft_picture_late(p)) png_error(r->png, "decoding takes too long");
            png_read_row(r->png, to + (size_t)y * row, NULL);
        }
    if (r->rgba) ft_picture_blend(p, r->rgba);
}

static void set_limits(reader *r)
{
    static const png_byte exif[] = "eXIf";
    png_set_keep_unknown_chunks(r->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_set_keep_unknown_chunks(r->png, PNG_HANDLE_CHUNK_AS_DEFAULT, exif, 1);
    png_set_chunk_malloc_max(r->png, MAX_CHUNK);
    png_set_user_limits(r->png, (png_uint_32)r->p->limits->side, (png_uint_32)r->p->limits->side);
    png_set_option(r->png, PNG_MAXIMUM_INFLATE_WINDOW, PNG_OPTION_ON);
}

/* The first chunk is the header; its size is ours to refuse, before the library sees it. */
static ft_status check_header(ft_picture *p, ft_err *err)
{
    const unsigned char *b = p->bytes;
    if (p->n < 33 || memcmp(b + 12, "IHDR", 4))
        return ft_fail(err, FT_EFORMAT, "PNG: the header is missing");
    int64_t side[2] = {0, 0};
    for (int i = 0; i < 8; i++) side[i / 4] = side[i / 4] << 8 | b[16 + i];
    return ft_picture_begin(p, side[0], side[1], err);
}

ft_status ft_png_read(ft_picture *p, ft_err *err)
{
    ft_status st = check_header(p, err);
    if (st) return st;
    reader *r = ft_new(reader);
    r->p = p;
    if (p->limits->blend && !p->size_only &&
        !(r->rgba = ft_try_alloc((size_t)p->w * (size_t)p->h * 4))) {
        ft_free(r);
        return ft_fail(err, FT_ENOMEM, "no memory for an image of %d x %d pixels", p->w, p->h);
    }
    if (setjmp(r->out)) {
        st = ft_fail(err, FT_EFORMAT, "PNG: %s", r->why);
    } else {
        r->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, r, on_error, on_warning);
        r->info = r->png ? png_create_info_struct(r->png) : NULL;
        if (r->info) {
            png_set_read_fn(r->png, r, on_read);
            set_limits(r);
            png_read_info(r->png, r->info);
            find_orientation(r);
            if (!p->size_only) read_rows(r);
        } else {
            st = ft_fail(err, FT_ENOMEM, "PNG: no memory for the decoder");
        }
    }
    png_destroy_read_struct(&r->png, &r->info, NULL);
    ft_free(r->rgba);
    ft_free(r);
    return st;
}

#else

ft_status ft_png_read(ft_picture *p, ft_err *err)
{
    (void)p;
    return ft_fail(err, FT_EUNSUPPORTED,
                   "PNG images are not supported by this build: it was compiled without libpng");
}

#endif
