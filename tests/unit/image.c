/* Pictures: decoders, orientation, the resize filter against stored pixels, sizes, patches, limits,
 * data URIs. The folders of tests/golden-vision hold what the original code made of their files. */
#include "image/image.h"

#include "base/file.h"
#include "base/mem.h"
#include "gguf/safetensors.h"
#include "unit.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#ifdef FT_HAVE_JPEG
#include <jpeglib.h>
#endif
#ifdef FT_HAVE_PNG
#include <png.h>
#endif
#ifdef FT_HAVE_WEBP
#include <webp/encode.h>
#endif

static ft_status decode(ft_image *m, const void *p, size_t n)
{
    ft_err err;
    return ft_image_decode(m, p, n, &ft_image_limits_default, &err);
}

/* ---- sizes ---- */

static void test_fit(void **state)
{
    (void)state;
    static const struct {
        int w, h, W, H, budget[4];
    } want[] = {
        {224, 224, 256, 256, {256, 64, 529, 1089}},
        {512, 512, 512, 512, {256, 64, 529, 1089}},
        {640, 480, 640, 480, {266, 63, 540, 1064}},
        {1024, 768, 1024, 768, {266, 63, 540, 1064}},
        {1280, 720, 1280, 704, {264, 66, 527, 1100}},
        {1920, 1080, 1920, 1088, {264, 66, 527, 1100}},
        {3840, 2160, 3840, 2176, {264, 66, 527, 1100}},
        {4032, 3024, 4032, 3008, {266, 63, 540, 1064}},
        {2480, 3508, 2496, 3520, {266, 63, 532, 1092}},
    };
    static const int tokens[] = {280, 70, 560, 1120};
    int W, H;
    ft_err err;
    for (size_t i = 0; i < FT_COUNT(want); i++) {
        assert_int_equal(ft_image_fit_area(&W, &H, want[i].w, want[i].h, 32, 65536, 16777216, &err),
                         FT_OK);
        assert_int_equal(W, want[i].W);
        assert_int_equal(H, want[i].H);
        for (int k = 0; k < 4; k++) {
            ft_image_fit_budget(&W, &H, want[i].w, want[i].h, 48, tokens[k]);
            assert_int_equal(W / 48 * (H / 48), want[i].budget[k]);
        }
    }
    assert_int_equal(ft_image_fit_area(&W, &H, 3840, 2160, 32, 65536, 4096 * 1024, &err), FT_OK);
    assert_int_equal(W / 32 * (H / 32), 4080);
    assert_int_equal(ft_image_fit_area(&W, &H, 200, 1, 32, 65536, 1 << 24, &err), FT_OK);
    assert_int_equal(ft_image_fit_area(&W, &H, 201, 1, 32, 65536, 1 << 24, &err), FT_EFORMAT);
    ft_image_fit_budget(&W, &H, 16384, 1, 48, 280);
    assert_int_equal(W, 280 * 48);
    assert_int_equal(H, 48);
    ft_image_fit_budget(&W, &H, 3, 900, 48, 280);
    assert_int_equal(W, 48);
    assert_int_equal(H, 280 * 48);
}

/* ---- against the original code ---- */

#ifdef FT_HAVE_PNG
/* The patch value that the folder stores as element e of row i. Qwen: [channel][frame][y][x];
 * Gemma: [y][x][channel]. */
static int patch_from(bool qwen, int e)
{
    if (qwen) return e / 512 * 256 + e % 256;
    return e % 3 * 256 + e / 3;
}

static void check_folder(const char *dir, bool qwen, int n_images, int tokens)
{
    char path[256], name[32];
    ft_err err;
    ft_st *arrays;
    snprintf(path, sizeof path, "tests/golden-vision/%s/ref.safetensors", dir);
    assert_int_equal(ft_st_open(&arrays, path, &err), FT_OK);
    for (int k = 0; k < n_images; k++) {
        char *bytes;
        size_t n;
        ft_image m, r;
        int W, H, w, h;
        snprintf(path, sizeof path, "tests/golden-vision/%s/image%d.png", dir, k);
        assert_int_equal(ft_file_read(&bytes, &n, path, 1 << 24, &err), FT_OK);
        assert_int_equal(decode(&m, bytes, n), FT_OK);
        assert_int_equal(ft_image_size(&w, &h, bytes, n, &ft_image_limits_default, &err), FT_OK);
        assert_true(w == m.w && h == m.h);
        if (qwen)
            assert_int_equal(ft_image_fit_area(&W, &H, m.w, m.h, 32, 8192, 20480, &err), FT_OK);
        else
            ft_image_fit_budget(&W, &H, m.w, m.h, 48, tokens);
        ft_image_resize(&r, &m, W, H);
        snprintf(name, sizeof name, "image.%d.resized", k);
        const ft_st_tensor *want = ft_st_tensor_find(arrays, name);
        assert_non_null(want);
        assert_int_equal(want->bytes, (size_t)W * (size_t)H * 3);
        assert_memory_equal(r.rgb, want->data, want->bytes);

        const float half[3] = {0.5f, 0.5f, 0.5f}, zero[3] = {0, 0, 0}, one[3] = {1, 1, 1};
        const int rows = W / 16 * (H / 16), cols = qwen ? 1536 : 768;
        float *patch = ft_new_n(float, (size_t)rows * 768);
        enum { SOME = 35 }; /* pieces that end inside a block */
        for (int at = 0; at < rows; at += SOME)
            ft_image_patches(patch + (size_t)at * 768, &r, 16, qwen ? 2 : 1, qwen ? half : zero,
                             qwen ? half : one, at, rows - at < SOME ? rows - at : SOME);
        snprintf(name, sizeof name, "patches.%d", k);
        want = ft_st_tensor_find(arrays, name);
        assert_non_null(want);
        assert_int_equal(want->count, (int64_t)rows * cols);
        const float *v = want->data;
        for (int i = 0; i < rows; i++)
            for (int e = 0; e < cols; e++)
                assert_true(fabsf(v[i * cols + e] - patch[i * 768 + patch_from(qwen, e)]) <= 1e-6f);
        ft_free(patch);
        ft_image_release(&r);
        ft_image_release(&m);
        ft_free(bytes);
    }
    ft_st_close(arrays);
}

static void test_golden(void **state)
{
    (void)state;
    check_folder("qwen35-vision", true, 1, 0);
    check_folder("qwen35-vision-two", true, 2, 0);
    check_folder("gemma4-vision-dense", false, 2, 12);
    check_folder("gemma4-vision-edge", false, 1, 16);
}

/* ---- PNG ---- */

typedef struct bytes {
    unsigned char p[1 << 16];
    size_t n;
} bytes;

static void png_put(png_structp png, png_bytep p, size_t n)
{
    bytes *b = png_get_io_ptr(png);
    assert_true(n <= sizeof b->p - b->n);
    memcpy(b->p + b->n, p, n);
    b->n += n;
}

static void png_flushed(png_structp png)
{
    (void)png;
}

typedef struct png_how {
    int depth, type, interlace;
    int orientation; /* 0: no eXIf */
    bool trns;
} png_how;

/* rows: as the PNG stores them. */
static void png_make(bytes *b, int w, int h, png_how how, const unsigned char *rows, size_t stride)
{
    b->n = 0;
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_set_write_fn(png, b, png_put, png_flushed);
    png_set_IHDR(png, info, (png_uint_32)w, (png_uint_32)h, how.depth, how.type, how.interlace,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_color pal[4] = {{10, 20, 30}, {40, 50, 60}, {70, 80, 90}, {1, 2, 3}};
    png_byte alpha[4] = {0, 255, 128, 7};
    if (how.type == PNG_COLOR_TYPE_PALETTE) png_set_PLTE(png, info, pal, 4);
    if (how.trns) png_set_tRNS(png, info, alpha, 4, NULL);
    unsigned char exif[] = {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0,
                            3,   0,   0, 0,  1, 0, 0, 0, 0, 0, 0, 0,    0};
    exif[19] = (unsigned char)how.orientation;
    if (how.orientation) png_set_eXIf_1(png, info, sizeof exif, exif);
    png_write_info(png, info);
    const int passes = png_set_interlace_handling(png);
    for (int i = 0; i < passes; i++)
        for (int y = 0; y < h; y++) png_write_row(png, rows + (size_t)y * stride);
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
}

static void test_png_kinds(void **state)
{
    (void)state;
    bytes *b = ft_new(bytes);
    ft_image m;
    const unsigned char palette[] = {0, 1, 2, 3};
    for (int trns = 0; trns < 2; trns++) {
        png_make(b, 2, 2, (png_how){8, PNG_COLOR_TYPE_PALETTE, 0, 0, trns}, palette, 2);
        assert_int_equal(decode(&m, b->p, b->n), FT_OK);
        assert_memory_equal(m.rgb, ((unsigned char[]){10, 20, 30, 40, 50, 60, 70, 80, 90, 1, 2, 3}),
                            12);
        ft_image_release(&m);
    }
    png_make(b, 4, 1, (png_how){2, PNG_COLOR_TYPE_GRAY, 0, 0, false}, (unsigned char[]){0x1b}, 1);
    assert_int_equal(decode(&m, b->p, b->n), FT_OK);
    assert_memory_equal(m.rgb,
                        ((unsigned char[]){0, 0, 0, 85, 85, 85, 170, 170, 170, 255, 255, 255}), 12);
    ft_image_release(&m);
    /* 16 bits: the high byte; alpha dropped, not blended */
    const unsigned char deep[] = {200, 255, 100, 0, 50, 128, 0, 0};
    png_make(b, 1, 1, (png_how){16, PNG_COLOR_TYPE_RGB_ALPHA, 0, 0, false}, deep, 8);
    assert_int_equal(decode(&m, b->p, b->n), FT_OK);
    assert_memory_equal(m.rgb, ((unsigned char[]){200, 100, 50}), 3);
    ft_image_release(&m);
    unsigned char rgb[9 * 7 * 3];
    for (size_t i = 0; i < sizeof rgb; i++) rgb[i] = (unsigned char)(i * 7);
    png_make(b, 9, 7, (png_how){8, PNG_COLOR_TYPE_RGB, 1, 0, false}, rgb, 27);
    assert_int_equal(decode(&m, b->p, b->n), FT_OK);
    assert_memory_equal(m.rgb, rgb, sizeof rgb);
    ft_image_release(&m);
    ft_free(b);
}

/* On a background: (value alpha + background (255 - alpha)) / 255, also of palettes, of pictures
 * with and without alpha, and interlaced. */
static void test_background(void **state)
{
    (void)state;
    bytes *b = ft_new(bytes);
    ft_image m;
    ft_err err;
    ft_image_limits l = ft_image_limits_default;
    l.blend = true;
    memcpy(l.background, (unsigned char[]){255, 0, 100}, 3);
    png_make(b, 2, 2, (png_how){8, PNG_COLOR_TYPE_PALETTE, 0, 0, true},
             (unsigned char[]){0, 1, 2, 3}, 2);
    assert_int_equal(ft_image_decode(&m, b->p, b->n, &l, &err), FT_OK);
    assert_memory_equal(m.rgb,
                        ((unsigned char[]){255, 0, 100, 40, 50, 60, 162, 40, 95, 248, 0, 97}), 12);
    ft_image_release(&m);
    unsigned char rgba[9 * 7 * 4], want[9 * 7 * 3];
    for (size_t i = 0; i < sizeof rgba; i++) rgba[i] = (unsigned char)(i * 7);
    for (size_t i = 0; i < sizeof want; i++) {
        const unsigned a = rgba[i / 3 * 4 + 3], v = rgba[i / 3 * 4 + i % 3];
        want[i] = (unsigned char)((v * a + l.background[i % 3] * (255 - a) + 127) / 255);
    }
    for (int interlace = 0; interlace < 2; interlace++) {
        png_make(b, 9, 7, (png_how){8, PNG_COLOR_TYPE_RGB_ALPHA, interlace, 0, false}, rgba, 36);
        assert_int_equal(ft_image_decode(&m, b->p, b->n, &l, &err), FT_OK);
        assert_memory_equal(m.rgb, want, sizeof want);
        ft_image_release(&m);
    }
    png_make(b, 12, 7, (png_how){8, PNG_COLOR_TYPE_RGB, 0, 0, false}, rgba, 36);
    assert_int_equal(ft_image_decode(&m, b->p, b->n, &l, &err), FT_OK);
    assert_memory_equal(m.rgb, rgba, sizeof rgba); /* opaque */
    ft_image_release(&m);
    png_make(b, 4, 1, (png_how){2, PNG_COLOR_TYPE_GRAY, 0, 0, false}, (unsigned char[]){0x1b}, 1);
    assert_int_equal(ft_image_decode(&m, b->p, b->n, &l, &err), FT_OK);
    assert_memory_equal(m.rgb,
                        ((unsigned char[]){0, 0, 0, 85, 85, 85, 170, 170, 170, 255, 255, 255}), 12);
    ft_image_release(&m);
    ft_free(b);
}

/* Pixel (x, y) of a 3 x 2 picture is 10 y + x; what is upright for each orientation. */
static void test_orientation(void **state)
{
    (void)state;
    static const unsigned char want[9][6] = {
        {0, 1, 2, 10, 11, 12}, {0, 1, 2, 10, 11, 12}, {2, 1, 0, 12, 11, 10},
        {12, 11, 10, 2, 1, 0}, {10, 11, 12, 0, 1, 2}, {0, 10, 1, 11, 2, 12},
        {10, 0, 11, 1, 12, 2}, {12, 2, 11, 1, 10, 0}, {2, 12, 1, 11, 0, 10},
    };
    bytes *b = ft_new(bytes);
    unsigned char grey[6] = {0, 1, 2, 10, 11, 12};
    for (int o = 0; o <= 9; o++) {
        ft_image m;
        int w, h;
        ft_err err;
        png_make(b, 3, 2, (png_how){8, PNG_COLOR_TYPE_GRAY, 0, o, false}, grey, 3);
        assert_int_equal(decode(&m, b->p, b->n), FT_OK);
        assert_int_equal(ft_image_size(&w, &h, b->p, b->n, &ft_image_limits_default, &err), FT_OK);
        assert_int_equal(m.w, o >= 5 && o <= 8 ? 2 : 3);
        assert_true(w == m.w && h == m.h);
        for (int i = 0; i < 6; i++) assert_int_equal(m.rgb[3 * i], want[o % 9][i]);
        ft_image_release(&m);
    }
    ft_free(b);
}

static void test_limits(void **state)
{
    (void)state;
    bytes *b = ft_new(bytes);
    ft_image m;
    ft_err err;
    unsigned char grey[6] = {0};
    png_make(b, 3, 2, (png_how){8, PNG_COLOR_TYPE_GRAY, 0, 0, false}, grey, 3);
    ft_image_limits l = ft_image_limits_default;
    l.side = 2;
    assert_int_equal(ft_image_decode(&m, b->p, b->n, &l, &err), FT_EFORMAT);
    assert_non_null(strstr(err.text, "3 x 2"));
    l.side = 3;
    l.pixels = 5;
    assert_int_equal(ft_image_decode(&m, b->p, b->n, &l, &err), FT_EFORMAT);
    assert_non_null(strstr(err.text, "6 pixels"));
    l.pixels = 6;
    l.bytes = b->n - 1;
    assert_int_equal(ft_image_decode(&m, b->p, b->n, &l, &err), FT_EFORMAT);
    assert_non_null(strstr(err.text, "bytes"));
    l.bytes = b->n;
    assert_int_equal(ft_image_decode(&m, b->p, b->n, &l, &err), FT_OK);
    ft_image_release(&m);
    l.seconds = -1;
    assert_int_equal(ft_image_decode(&m, b->p, b->n, &l, &err), FT_EFORMAT);
    assert_non_null(strstr(err.text, "too long"));
    for (size_t n = 0; n < b->n - 12; n++) /* without IEND it is still a picture */
        assert_int_not_equal(decode(&m, b->p, n), FT_OK);
    memset(b->p + 16, 0x7f, 4); /* a header that claims two thousand million columns */
    assert_int_equal(ft_image_size(&m.w, &m.h, b->p, b->n, &ft_image_limits_default, &err),
                     FT_EFORMAT);
    assert_int_equal(decode(&m, "GIF89a......", 12), FT_EFORMAT);
    ft_free(b);
}
#endif

/* ---- JPEG ---- */

#ifdef FT_HAVE_JPEG
static unsigned long jpeg_make(unsigned char **out, int w, int h, int comps,
                               const unsigned char *px, int orientation, bool progressive)
{
    struct jpeg_compress_struct j;
    struct jpeg_error_mgr e;
    unsigned long n = 0;
    *out = NULL;
    j.err = jpeg_std_error(&e);
    jpeg_create_compress(&j);
    jpeg_mem_dest(&j, out, &n);
    j.image_width = (JDIMENSION)w;
    j.image_height = (JDIMENSION)h;
    j.input_components = comps;
    j.in_color_space = comps == 1 ? JCS_GRAYSCALE : comps == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&j);
    jpeg_set_quality(&j, 100, TRUE);
    if (progressive) jpeg_simple_progression(&j);
    jpeg_start_compress(&j, TRUE);
    unsigned char exif[] = {'E',  'x', 'i', 'f', 0, 0, 'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0,
                            0x12, 1,   3,   0,   1, 0, 0,   0,   0,  0, 0, 0, 0, 0, 0, 0};
    exif[24] = (unsigned char)orientation;
    if (orientation) jpeg_write_marker(&j, JPEG_APP0 + 1, exif, sizeof exif);
    while (j.next_scanline < j.image_height) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(px + (size_t)j.next_scanline * (size_t)(w * comps));
        jpeg_write_scanlines(&j, &row, 1);
    }
    jpeg_finish_compress(&j);
    jpeg_destroy_compress(&j);
    return n;
}

static void test_jpeg(void **state)
{
    (void)state;
    unsigned char *p, px[32 * 16 * 3], cmyk[16 * 16 * 4];
    ft_image m;
    for (int i = 0; i < 32 * 16; i++) memset(px + 3 * i, i % 32 < 16 ? 60 : 200, 3);
    for (int progressive = 0; progressive < 2; progressive++) {
        unsigned long n = jpeg_make(&p, 32, 16, 3, px, 0, progressive);
        assert_int_equal(decode(&m, p, n), FT_OK);
        assert_true(m.w == 32 && m.h == 16);
        assert_memory_equal(m.rgb, px, sizeof px);
        ft_image_release(&m);
        assert_int_not_equal(decode(&m, p, n / 2), FT_OK); /* cut short */
        free(p);
        n = jpeg_make(&p, 32, 16, 3, px, 6, progressive); /* clockwise: left becomes top */
        assert_int_equal(decode(&m, p, n), FT_OK);
        assert_true(m.w == 16 && m.h == 32);
        assert_true(m.rgb[0] == 60 && m.rgb[3 * 16 * 31] == 200);
        ft_image_release(&m);
        free(p);
    }
    /* inks of 40 and black of 100, stored inverted as the Adobe marker says */
    for (int i = 0; i < 256; i++) memcpy(cmyk + 4 * i, (unsigned char[]){215, 215, 215, 155}, 4);
    const unsigned long n = jpeg_make(&p, 16, 16, 4, cmyk, 0, false);
    assert_int_equal(decode(&m, p, n), FT_OK);
    assert_in_range(m.rgb[0], (215 * 155) / 255 - 2, (215 * 155) / 255 + 2);
    ft_image_release(&m);
    free(p);
}
#endif

/* ---- WebP ---- */

#ifdef FT_HAVE_WEBP
static void put32(unsigned char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++) p[i] = (unsigned char)(v >> (8 * i));
}

/* Alpha of WebP: dropped, or blended. A lossless encoder keeps the colours of transparent pixels
 * only if it is told to, so they have some opacity. */
static void test_webp_background(void **state)
{
    (void)state;
    unsigned char rgba[6 * 5 * 4], want[6 * 5 * 3], *p = NULL;
    ft_image m;
    ft_err err;
    ft_image_limits l = ft_image_limits_default;
    l.blend = true;
    memcpy(l.background, (unsigned char[]){9, 200, 77}, 3);
    for (size_t i = 0; i < sizeof rgba; i++) rgba[i] = (unsigned char)(1 + i * 11 % 255);
    for (size_t i = 0; i < sizeof want; i++) {
        const unsigned a = rgba[i / 3 * 4 + 3], v = rgba[i / 3 * 4 + i % 3];
        want[i] = (unsigned char)((v * a + l.background[i % 3] * (255 - a) + 127) / 255);
    }
    const size_t n = WebPEncodeLosslessRGBA(rgba, 6, 5, 24, &p);
    assert_true(n > 0);
    assert_int_equal(ft_image_decode(&m, p, n, &l, &err), FT_OK);
    assert_memory_equal(m.rgb, want, sizeof want);
    ft_image_release(&m);
    assert_int_equal(decode(&m, p, n), FT_OK);
    for (size_t i = 0; i < sizeof want; i++) assert_int_equal(m.rgb[i], rgba[i / 3 * 4 + i % 3]);
    ft_image_release(&m);
    WebPFree(p);
}

static void test_webp(void **state)
{
    (void)state;
    unsigned char px[20 * 12 * 3], *p = NULL;
    for (size_t i = 0; i < sizeof px; i++) px[i] = (unsigned char)(i * 5);
    const size_t n = WebPEncodeLosslessRGB(px, 20, 12, 60, &p);
    ft_image m;
    assert_int_equal(decode(&m, p, n), FT_OK);
    assert_true(m.w == 20 && m.h == 12);
    assert_memory_equal(m.rgb, px, sizeof px);
    ft_image_release(&m);
    for (size_t i = 0; i < n; i++) assert_int_not_equal(decode(&m, p, i), FT_OK);
    /* the same as frame 0 of an animation on a canvas of 24 x 14, at (4, 2) */
    const size_t chunk = n - 12, all = 12 + 18 + 14 + 24 + chunk;
    unsigned char *a = ft_new_n(unsigned char, all), *at = a;
    memcpy(at, "RIFF", 4), put32(at + 4, (uint32_t)all - 8), memcpy(at + 8, "WEBP", 4), at += 12;
    memcpy(at, "VP8X", 4), put32(at + 4, 10), at[8] = 2, at[12] = 23, at[15] = 13, at += 18;
    memcpy(at, "ANIM", 4), put32(at + 4, 6), at += 14;
    memcpy(at, "ANMF", 4), put32(at + 4, (uint32_t)(16 + chunk));
    at[8] = 2, at[11] = 1, at[14] = 19, at[17] = 11, at += 24;
    memcpy(at, p + 12, chunk);
    assert_int_equal(decode(&m, a, all), FT_OK);
    assert_true(m.w == 24 && m.h == 14);
    assert_int_equal(m.rgb[0], 0);
    assert_memory_equal(m.rgb + (2 * 24 + 4) * 3, px, 20 * 3);
    ft_image_release(&m);
    ft_free(a);
    WebPFree(p);
}
#endif

/* ---- the rest ---- */

/* Damaged blocks are upright pictures. */
static void test_exif(void **state)
{
    (void)state;
    unsigned char e[] = {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3,
                         0,   1,   0,  0, 0, 5, 0, 0, 0, 0, 0,    0, 0};
    assert_int_equal(ft_exif_orientation(e, sizeof e), 5);
    for (size_t n = 0; n < 22; n++) assert_int_equal(ft_exif_orientation(e, n), 1);
    e[18] = 9;
    assert_int_equal(ft_exif_orientation(e, sizeof e), 1);
    e[18] = 5, e[12] = 4; /* not a short */
    assert_int_equal(ft_exif_orientation(e, sizeof e), 1);
    e[12] = 3, e[4] = 0xff, e[5] = 0xff, e[6] = 0xff, e[7] = 0xff;
    assert_int_equal(ft_exif_orientation(e, sizeof e), 1);
}

static void uri_is(const char *text, const char *want)
{
    unsigned char *p = NULL;
    size_t n = 0;
    ft_err err;
    const ft_status st = ft_data_uri_decode(&p, &n, text, strlen(text), 16, &err);
    if (!want) {
        assert_int_equal(st, FT_EFORMAT);
        return;
    }
    assert_int_equal(st, FT_OK);
    assert_int_equal(n, strlen(want));
    assert_memory_equal(p, want, n);
    ft_free(p);
}

static void test_data_uri(void **state)
{
    (void)state;
    uri_is("data:image/png;base64,aGVsbG8=", "hello");
    uri_is("DATA:IMAGE/x;charset=a;BASE64,aGVs\n bG8", "hello");
    uri_is("aGVsbG8", "hello");
    uri_is("aGVsbG8gd28=", "hello wo");
    uri_is("Pz8_", "???");
    uri_is("Pz8/", "???");
    uri_is("data:text/plain;base64,aGVsbG8=", NULL);
    uri_is("data:image/png,aGVsbG8=", NULL);
    uri_is("data:image/png;base64", NULL);
    uri_is("aGVsb", NULL);
    uri_is("aGV*", NULL);
    uri_is("aG=s", NULL);
    uri_is("", NULL);
    uri_is("AAAAAAAAAAAAAAAAAAAAAAAA", NULL); /* 18 bytes, more than allowed */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fit),
#ifdef FT_HAVE_PNG
        cmocka_unit_test(test_golden),     cmocka_unit_test(test_png_kinds),
        cmocka_unit_test(test_background), cmocka_unit_test(test_orientation),
        cmocka_unit_test(test_limits),
#endif
#ifdef FT_HAVE_JPEG
        cmocka_unit_test(test_jpeg),
#endif
#ifdef FT_HAVE_WEBP
        cmocka_unit_test(test_webp),       cmocka_unit_test(test_webp_background),
#endif
        cmocka_unit_test(test_exif),       cmocka_unit_test(test_data_uri),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
