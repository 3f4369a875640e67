/* JPEG with libjpeg's defaults: slow integer DCT, fancy upsampling. setjmp stays in this file. */
#include "image/codec.h"

#ifdef FT_HAVE_JPEG

#include "base/mem.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>

enum { MAX_SCANS = 100 };

typedef struct reader {
    struct jpeg_decompress_struct j;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf out;
    ft_picture *p;
    unsigned char *row; /* of CMYK */
    char why[JMSG_LENGTH_MAX];
} reader;

static void fail(reader *r, const char *why)
{
    snprintf(r->why, sizeof r->why, "%s", why);
    longjmp(r->out, 1);
}

static void on_error(j_common_ptr j)
{
    reader *r = j->client_data;
    char text[JMSG_LENGTH_MAX];
    r->errors.format_message(j, text);
    fail(r, text);
}

/* Warnings pass, but for missing data: a truncated picture is not a picture. */
static void on_message(j_common_ptr j, int level)
{
    reader *r = j->client_data;
    if (level < 0 && r->errors.msg_code == JWRN_JPEG_EOF) fail(r, "the data ends too early");
}

static void on_progress(j_common_ptr j)
{
    reader *r = j->client_data;
    if (r->j.input_scan_number > MAX_SCANS) fail(r, "more than 100 scans");
    if (ft_picture_late(r->p)) fail(r, "decoding takes too long");
}

static int orientation_of(const reader *r)
{
    for (jpeg_saved_marker_ptr m = r->j.marker_list; m; m = m->next)
        if (m->data_length > 6 && !memcmp(m->data, "Exif\0\0", 6))
            return ft_exif_orientation(m->data + 6, m->data_length - 6);
    return 1;
}

/* Inks to light. Photoshop stores them inverted and says so in its marker. */
static void from_cmyk(unsigned char *to, const unsigned char *from, int n, bool inverted)
{
    for (int i = 0; i < n; i++, from += 4) {
        const unsigned k = inverted ? from[3] : 255u - from[3];
        for (int c = 0; c < 3; c++) {
            const unsigned ink = inverted ? from[c] : 255u - from[c];
            *to++ = (unsigned char)((ink * k + 127) / 255);
        }
    }
}

static void read_rows(reader *r)
{
    ft_picture *p = r->p;
    const bool cmyk = r->j.num_components == 4;
    r->j.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(&r->j);
    if (cmyk) r->row = ft_new_n(unsigned char, 4 * (size_t)p->w);
    while (r->j.output_scanline < r->j.output_height) {
        unsigned char *to = p->rgb + (size_t)r->j.output_scanline * (size_t)p->w * 3;
        JSAMPROW row = cmyk ? r->row : to;
        if (jpeg_read_scanlines(&r->j, &row, 1) != 1) fail(r, "the data ends too early");
        if (cmyk) from_cmyk(to, r->row, p->w, r->j.saw_Adobe_marker);
    }
    jpeg_finish_decompress(&r->j);
}

ft_status ft_jpeg_read(ft_picture *p, ft_err *err)
{
    reader *r = ft_new(reader);
    ft_status st = FT_OK;
    r->p = p;
    r->j.err = jpeg_std_error(&r->errors);
    r->j.client_data = r;
    r->errors.error_exit = on_error;
    r->errors.emit_message = on_message;
    r->progress.progress_monitor = on_progress;
    if (setjmp(r->out)) {
        st = ft_fail(err, FT_EFORMAT, "JPEG: %s", r->why);
    } else {
        jpeg_create_decompress(&r->j);
        r->j.progress = &r->progress;
        jpeg_mem_src(&r->j, p->bytes, (unsigned long)p->n);
        jpeg_save_markers(&r->j, JPEG_APP0 + 1, 0xffff);
        jpeg_read_header(&r->j, TRUE);
        p->orientation = orientation_of(r);
        st = ft_picture_begin(p, r->j.image_width, r->j.image_height, err);
        if (!st && !p->size_only) read_rows(r);
    }
    jpeg_destroy_decompress(&r->j);
    ft_free(r->row);
    ft_free(r);
    return st;
}

#else

ft_status ft_jpeg_read(ft_picture *p, ft_err *err)
{
    (void)p;
    return ft_fail(err, FT_EUNSUPPORTED,
                   "JPEG images are not supported by this build: it was "
                   "compiled without libjpeg");
}

#endif
