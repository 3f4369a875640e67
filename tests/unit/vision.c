/* Vision towers of synthetic files: the 12B's against its formula in double, all of them on two
 * devices, sizes, and what is refused. The golden folders hold the towers with blocks. */
#define _XOPEN_SOURCE 700
#include "model/vision.h"

#include "base/mem.h"
#include "folder.h"
#include "tools/quantize.h"
#include "tools/synth.h"
#include "unit.h"

#include <math.h>

static char dir[64];

static int setup(void **state)
{
    (void)state;
    folder_new(dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return folder_free(dir);
}

static const char *file_of(const char *shape, const char *type)
{
    static char path[160];
    ft_err err;
    ft_synth_result r;
    snprintf(path, sizeof path, "%s/%s-%s.gguf", dir, shape, type);
    const ft_synth_opts o = {.shape = shape, .type = type, .path = path, .seed = 3};
    assert_int_equal(ft_synth(&r, &o, &err), FT_OK);
    return path;
}

static ft_status open_tower(ft_vision **v, const char *path, ft_dev *dev, int E, ft_err *err)
{
    ft_gguf *f;
    ft_status st = ft_gguf_open(&f, path, true, err);
    if (st) return st;
    st = ft_vision_open(v, f, dev, E, err);
    if (st) ft_gguf_close(f);
    return st;
}

/* A picture with some of everything. */
static ft_image picture(int w, int h)
{
    ft_image m = {.w = w, .h = h, .rgb = ft_new_n(unsigned char, (size_t)(w * h * 3))};
    for (int i = 0; i < w * h * 3; i++) m.rgb[i] = (unsigned char)(i * 7 + i / 91 * 13);
    return m;
}

/* The rows of a picture; *T of them, of width 64. */
static float *rows_of(const char *path, const char *device, int w, int h, int *T)
{
    ft_dev *dev;
    ft_vision *v;
    ft_grid g;
    ft_err err;
    assert_int_equal(ft_dev_open(&dev, device, 2, &err), FT_OK);
    assert_int_equal(open_tower(&v, path, dev, 64, &err), FT_OK);
    assert_int_equal(ft_vision_fit(v, w, h, 0, 0, &g, &err), FT_OK);
    *T = g.rows * g.cols;
    float *out = ft_new_n(float, (size_t)*T * 64);
    ft_image m = picture(w, h);
    assert_int_equal(ft_vision_encode(v, &m, &g, out, &err), FT_OK);
    ft_image_release(&m);
    ft_vision_close(v);
    ft_dev_close(dev);
    return out;
}

static double nmse(const float *a, const float *b, size_t n)
{
    double e = 0, s = 0;
    for (size_t i = 0; i < n; i++) {
        e += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        s += (double)b[i] * (double)b[i];
    }
    return e / s;
}

static void test_devices(void **state)
{
    (void)state;
    static const char *const shape[] = {"micro-mmproj", "micro-gemma-mmproj",
                                        "micro-gemma-unified-mmproj"};
    static const char *const type[] = {"f32", "bf16", "f16"};
    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0; k < 3; k++) {
            const char *path = file_of(shape[i], type[k]);
            int T, n;
            float *want = rows_of(path, "ref", 150, 130, &T),
                  *got = rows_of(path, "cpu", 150, 130, &n);
            assert_int_equal(T, n);
            assert_true(nmse(got, want, (size_t)T * 64) < 1e-8);
            ft_free(want);
            ft_free(got);
        }
}

/* The rows of a picture that is encoded piece by piece, with another picture in between. */
static void check_pieces(ft_vision *v, int w, int h)
{
    ft_image m = picture(w, h), other = picture(64, 96);
    ft_grid g, og;
    ft_err err;
    ft_encoding *e;
    bool done = false;
    int calls = 0;
    assert_int_equal(ft_vision_fit(v, w, h, 0, 0, &g, &err), FT_OK);
    assert_int_equal(ft_vision_fit(v, 64, 96, 0, 0, &og, &err), FT_OK);
    const size_t n = (size_t)(g.rows * g.cols) * 64;
    float *whole = ft_new_n(float, n), *out = ft_new_n(float, n);
    float *aside = ft_new_n(float, (size_t)(og.rows * og.cols) * 64);
    assert_int_equal(ft_vision_encode(v, &m, &g, whole, &err), FT_OK);
    assert_int_equal(ft_encoding_new(&e, v, &m, &g, &err), FT_OK);
    for (; !done; calls++) {
        assert_int_equal(ft_encoding_run(e, 0, out, &done, &err), FT_OK);
        assert_int_equal(ft_vision_encode(v, &other, &og, aside, &err), FT_OK);
    }
    assert_int_equal(calls, v->pieces);
    assert_memory_equal(out, whole, n * sizeof *out);
    ft_encoding_free(e);
    ft_image_release(&m);
    ft_image_release(&other);
    ft_free(whole);
    ft_free(out);
    ft_free(aside);
}

static void test_pieces(void **state)
{
    (void)state;
    static const char *const shape[] = {"micro-mmproj", "micro-gemma-mmproj",
                                        "micro-gemma-unified-mmproj"};
    for (size_t i = 0; i < 3; i++) {
        ft_dev *dev;
        ft_vision *v;
        ft_err err;
        assert_int_equal(ft_dev_open(&dev, "cpu", 2, &err), FT_OK);
        assert_int_equal(open_tower(&v, file_of(shape[i], "bf16"), dev, 64, &err), FT_OK);
        check_pieces(v, 150, 130);
        ft_vision_close(v);
        ft_dev_close(dev);
    }
}

/* ---- the 12B, value by value ---- */

static const float *values(const ft_gguf *f, const char *name)
{
    const ft_gguf_tensor *t = ft_gguf_tensor_find(f, name);
    assert_non_null(t);
    assert_int_equal(t->type, FT_F32);
    return t->data;
}

static void ln(double *x, int n, const float *w, const float *b)
{
    double mean = 0, var = 0;
    for (int i = 0; i < n; i++) mean += x[i] / n;
    for (int i = 0; i < n; i++) var += (x[i] - mean) * (x[i] - mean) / n;
    for (int i = 0; i < n; i++)
        x[i] = (x[i] - mean) / sqrt(var + 1e-5) * (double)w[i] + (double)b[i];
}

static void test_unified(void **state)
{
    (void)state;
    enum { C = 96, E = 64, K = 6912 };
    const char *path = file_of("micro-gemma-unified-mmproj", "f32");
    ft_err err;
    ft_gguf *f;
    int T;
    float *got = rows_of(path, "ref", 96, 48, &T);
    assert_int_equal(ft_gguf_open(&f, path, true, &err), FT_OK);
    int W, H;
    ft_image m = picture(96, 48), r;
    ft_image_fit_budget(&W, &H, 96, 48, 48, 16);
    assert_int_equal(T, W / 48 * (H / 48));
    ft_image_resize(&r, &m, W, H);
    double *p = ft_new_n(double, K), z[C], row[E], e = 0, all = 0;
    for (int t = 0; t < T; t++) {
        const int ty = t / (W / 48), tx = t % (W / 48);
        for (int i = 0; i < K; i++) {
            const int c = i / 2304, y = ty * 48 + i / 48 % 48, x = tx * 48 + i % 48;
            p[i] = r.rgb[(y * W + x) * 3 + c] / 255.0;
        }
        ln(p, K, values(f, "v.patch_norm.1.weight"), values(f, "v.patch_norm.1.bias"));
        for (int o = 0; o < C; o++) {
            z[o] = (double)values(f, "v.patch_embd.bias")[o];
            for (int i = 0; i < K; i++)
                z[o] += (double)values(f, "v.patch_embd.weight")[o * K + i] * p[i];
        }
        ln(z, C, values(f, "v.patch_norm.2.weight"), values(f, "v.patch_norm.2.bias"));
        const float *pos = values(f, "v.position_embd.weight");
        for (int o = 0; o < C; o++)
            z[o] += (double)pos[tx * C + o] + (double)pos[(64 + ty) * C + o];
        ln(z, C, values(f, "v.patch_norm.3.weight"), values(f, "v.patch_norm.3.bias"));
        double square = 0;
        for (int o = 0; o < C; o++) square += z[o] * z[o] / C;
        for (int o = 0; o < E; o++) {
            row[o] = 0;
            for (int i = 0; i < C; i++)
                row[o] += (double)values(f, "mm.input_projection.weight")[o * C + i] * z[i] /
                          sqrt(square + 1e-6);
            const double d = row[o] - (double)got[t * E + o];
            e += d * d;
            all += row[o] * row[o];
        }
    }
    assert_true(e / all < 1e-9);
    ft_free(p);
    ft_free(got);
    ft_image_release(&m);
    ft_image_release(&r);
    ft_gguf_close(f);
}

static void test_sizes(void **state)
{
    (void)state;
    ft_err err;
    ft_grid g;
    ft_vision *v;
    ft_dev *dev = ft_dev_ref();
    assert_int_equal(open_tower(&v, file_of("micro-mmproj", "f32"), dev, 64, &err), FT_OK);
    assert_int_equal(ft_vision_fit(v, 4000, 3000, 0, 0, &g, &err), FT_OK);
    assert_true(g.rows * g.cols <= 64 && g.rows * g.cols > 40 && g.gw == 2 * g.cols);
    assert_int_equal(ft_vision_fit(v, 4000, 3000, 0, 10, &g, &err), FT_OK);
    assert_true(g.rows * g.cols <= 10);
    assert_int_equal(ft_vision_fit(v, 10, 10, 0, 0, &g, &err), FT_OK);
    assert_int_equal(g.rows * g.cols, 16);
    assert_int_equal(ft_vision_fit(v, 4000, 10, 0, 0, &g, &err), FT_EFORMAT);
    ft_vision_close(v);
    assert_int_equal(open_tower(&v, file_of("micro-gemma-mmproj", "f32"), dev, 64, &err), FT_OK);
    assert_int_equal(ft_vision_fit(v, 10, 10, 0, 0, &g, &err), FT_OK);
    assert_int_equal(g.rows * g.cols, 16); /* scaled up to the budget */
    assert_int_equal(ft_vision_fit(v, 10000, 10, 0, 40, &g, &err), FT_EFORMAT);
    assert_non_null(strstr(err.text, "at most 64 per side"));
    ft_vision_close(v);
    ft_dev_close(dev);
}

static void test_refused(void **state)
{
    (void)state;
    ft_err err;
    ft_vision *v;
    ft_dev *dev = ft_dev_ref();
    assert_int_equal(open_tower(&v, file_of("micro-mmproj", "f32"), dev, 128, &err),
                     FT_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "width 64"));
    assert_non_null(strstr(err.text, "128"));
    const char *text = file_of("micro", "f32");
    assert_int_equal(open_tower(&v, text, dev, 64, &err), FT_EUNSUPPORTED);
    ft_gguf *f;
    ft_model *m;
    assert_int_equal(ft_gguf_open(&f, file_of("micro-mmproj", "f32"), true, &err), FT_OK);
    assert_true(ft_vision_is(f));
    assert_int_equal(ft_model_open(&m, f, dev, NULL, NULL, &err), FT_EUNSUPPORTED);
    ft_gguf_close(f);
    ft_dev_close(dev);
}

/* Positions and the patch kernel stay as they are; what is left is close to the whole. */
static void test_quantize(void **state)
{
    (void)state;
    char to[160];
    ft_err err;
    ft_quantize *q;
    const ft_quantize_opts o = {.mix = "Q8_0"};
    const char *path = file_of("micro-mmproj", "f32");
    snprintf(to, sizeof to, "%s/q8.gguf", dir);
    assert_int_equal(ft_quantize_open(&q, path, &o, &err), FT_OK);
    uint64_t bytes;
    assert_int_equal(ft_quantize_write(q, to, &bytes, &err), FT_OK);
    ft_quantize_close(q);
    ft_gguf *f;
    assert_int_equal(ft_gguf_open(&f, to, true, &err), FT_OK);
    assert_int_equal(ft_gguf_tensor_find(f, "v.patch_embd.weight")->type, FT_F32);
    assert_int_equal(ft_gguf_tensor_find(f, "v.position_embd.weight")->type, FT_F32);
    assert_int_equal(ft_gguf_tensor_find(f, "v.blk.0.attn_qkv.weight")->type, FT_Q8_0);
    assert_int_equal(ft_gguf_tensor_find(f, "mm.2.weight")->type, FT_Q8_0);
    ft_gguf_close(f);
    int T, n;
    float *want = rows_of(path, "ref", 90, 90, &T), *got = rows_of(to, "cpu", 90, 90, &n);
    assert_true(nmse(got, want, (size_t)T * 64) < 1e-3);
    ft_free(want);
    ft_free(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices), cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_unified), cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_quantize),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
