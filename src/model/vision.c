/* model/vision.c - which tower a file is, and what every tower needs around its own code. */
#include "model/vision.h"

#include "base/clock.h"
#include "base/mem.h"
#include "dev/kv_row.h"

#include <math.h>
#include <stdio.h>

static const ft_tower *const towers[] = {&ft_tower_qwen35, &ft_tower_gemma4,
                                         &ft_tower_gemma4_unified};

enum { MAX_PATCHES = 1 << 18, PARTS = 16 }; /* PARTS: pieces of device memory of a picture */

/* ---- the file ---- */

bool ft_vision_is(const ft_gguf *file)
{
    ft_str name;
    return ft_gguf_str(file, "general.architecture", &name) && ft_str_is(name, "clip");
}

static ft_status find_tower(const ft_tower **out, const ft_gguf *f, ft_err *err)
{
    ft_str type;
    if (!ft_vision_is(f))
        return ft_fail(err, FT_EUNSUPPORTED,
                       "general.architecture is not \"clip\": the file is "
                       "not a vision tower (mmproj)");
    if (!ft_gguf_str(f, "clip.vision.projector_type", &type) &&
        !ft_gguf_str(f, "clip.projector_type", &type))
        return ft_fail(err, FT_EFORMAT, "key clip.projector_type is missing");
    for (size_t i = 0; i < FT_COUNT(towers); i++)
        if (ft_str_is(type, towers[i]->projector)) {
            *out = towers[i];
            return FT_OK;
        }
    return ft_fail(err, FT_EUNSUPPORTED,
                   "projector type \"%.*s\", want qwen3vl_merger, gemma4v or gemma4uv",
                   FT_STR_FMT(type));
}

static void read_three(ft_binder *b, const char *key, float *to, float def)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s", b->prefix, key);
    const ft_gguf_kv *kv = ft_gguf_kv_find(b->m->file, full);
    for (uint64_t i = 0; i < 3; i++) {
        double x = (double)def;
        if (kv && (!kv->array || kv->n != 3 || !ft_gguf_kv_f64(kv, i, &x) || !isfinite(x)))
            ft_bind_fail(b, FT_EFORMAT, "key %s is not three finite numbers", full);
        to[i] = (float)x;
    }
}

static void read_sizes(ft_vision *v, ft_binder *b, int E)
{
    v->p = v->unit = ft_key_need(b, "vision.patch_size", 1, 256);
    v->E = ft_key_need(b, "vision.projection_dim", 1, 1 << 20);
    v->merge = 1;
    v->min_px = ft_key(b, "vision.image_min_pixels", 0, 0, 1 << 30);
    v->max_px = ft_key(b, "vision.image_max_pixels", 0, 0, 1 << 30);
    read_three(b, "vision.image_mean", v->mean, 0);
    read_three(b, "vision.image_std", v->std, 1);
    for (int i = 0; i < 3; i++)
        if (!(v->std[i] > 0))
            ft_bind_fail(b, FT_EFORMAT, "key clip.vision.image_std is %g, want more than 0",
                         (double)v->std[i]);
    if (E && v->E != E)
        ft_bind_fail(b, FT_EUNSUPPORTED,
                     "the vision tower was made for a model of width %d, this one has %d", v->E, E);
    if (!ft_key_bool(b, "has_vision_encoder", true))
        ft_bind_fail(b, FT_EUNSUPPORTED, "the file has no vision tower");
}

static void release_nothing(ft_model *m)
{
    (void)m;
}

static const ft_arch vision_arch = {
    .name = "clip", .words = "vision tower", .release = release_nothing};

ft_status ft_vision_open(ft_vision **out, ft_gguf *file, ft_dev *dev, int E, ft_err *err)
{
    const ft_tower *tower = NULL;
    ft_status st = find_tower(&tower, file, err);
    if (st) return st;
    ft_vision *v = ft_new(ft_vision);
    ft_model *m = v->m = ft_new(ft_model);
    v->tower = tower;
    m->arch = &vision_arch;
    m->dev = dev;
    m->file = file;
    ft_binder b = ft_binder_over(m, err);
    read_sizes(v, &b, E);
    b.rounded = true;
    if (!b.st) tower->bind(v, &b);
    if (!b.st && v->d > FT_IMAGE_HEAD)
        ft_bind_fail(&b, FT_EUNSUPPORTED,
                     "the vision tower has heads of %d values, want at most %d", v->d,
                     FT_IMAGE_HEAD);
    if (b.st) {
        m->file = NULL;
        ft_vision_close(v);
        return b.st;
    }
    *out = v;
    return FT_OK;
}

void ft_vision_close(ft_vision *v)
{
    if (!v) return;
    if (v->m->cfg) v->tower->release(v);
    ft_model_close(v->m);
    ft_free(v);
}

ft_rope ft_vision_rope(ft_binder *b, int n, int quarter, double base, int axis)
{
    const int half = n / 2;
    double *freq = ft_new_n(double, (size_t)half);
    uint8_t *of = ft_new_n(uint8_t, (size_t)half);
    for (int j = 0; j < half; j++) {
        freq[j] = pow(base, -(double)(j % quarter) / quarter);
        of[j] = (uint8_t)(axis + j / quarter);
    }
    const ft_rope r = {.n = n,
                       .freq = ft_bind_table(b, freq, sizeof *freq * (size_t)half),
                       .axis = ft_bind_table(b, of, (size_t)half),
                       .mscale = 1};
    ft_free(freq);
    ft_free(of);
    return r;
}

/* ---- sizes ---- */

ft_status ft_vision_fit(const ft_vision *v, int w, int h, int least, int most, ft_grid *g,
                        ft_err *err)
{
    const int64_t area = (int64_t)v->unit * v->unit;
    if (v->by_budget) {
        const int64_t tokens = most > 0 ? most : FT_MAX(1, v->max_px / area);
        ft_image_fit_budget(&g->W, &g->H, w, h, v->unit, (int)FT_MIN(tokens, 1 << 16));
    } else {
        int64_t lo = FT_MAX(v->min_px, least * area), hi = v->max_px;
        if (most > 0) hi = FT_MIN(hi, most * area);
        lo = FT_MIN(lo, hi);
        const ft_status st = ft_image_fit_area(&g->W, &g->H, w, h, v->unit, lo, hi, err);
        if (st) return st;
    }
    g->gw = g->W / v->p;
    g->gh = g->H / v->p;
    g->cols = g->W / v->unit;
    g->rows = g->H / v->unit;
    if (v->most && FT_MAX(g->gw, g->gh) > v->most)
        return ft_fail(err, FT_EFORMAT, "the image becomes %d x %d patches, at most %d per side",
                       g->gw, g->gh, v->most);
    if ((int64_t)g->gw * g->gh > MAX_PATCHES)
        return ft_fail(err, FT_EFORMAT, "the image becomes %lld patches, at most %d are possible",
                       (long long)g->gw * g->gh, MAX_PATCHES);
    return FT_OK;
}

static ft_status fit_largest(const ft_vision *v, int most, ft_grid *g, ft_err *err)
{
    enum { LARGE = 8192 };
    return ft_vision_fit(v, LARGE, LARGE, 0, most, g, err);
}

uint64_t ft_vision_bytes(const ft_vision *v, int most)
{
    ft_grid g;
    if (fit_largest(v, most, &g, NULL)) return 0;
    const uint64_t N = (uint64_t)g.gw * (uint64_t)g.gh, T = (uint64_t)g.rows * (uint64_t)g.cols;
    const uint64_t values =
        v->tower->arena(v, (int)N) + N * 3 * (uint64_t)(v->p * v->p) + T * (uint64_t)v->E;
    const uint64_t heads = 3 * N * (uint64_t)v->H * FT_IMAGE_HEAD * sizeof(uint16_t);
    const uint64_t bytes = values * sizeof(float) + heads; /* q, k and v of attend_image */
    return bytes + bytes / 4; /* the device's own copies of a product's input */
}

/* ---- one picture ---- */

/* The arrays of a tower's batch and inputs, on the host and on the device. */
struct ft_encoding {
    ft_vision *v;
    ft_dev *dev;
    ft_grid g;
    int N, T;      /* patches, tokens */
    int32_t *ints; /* backs the batch: cell, end, y, x, zeros, pages */
    ft_span span;
    ft_batch batch;
    ft_kv kv;
    void *memory[PARTS]; /* on the device */
    int n_memory;
    bool full; /* the device had no more of it */
    ft_vision_input in;
    ft_step step;
    float *rows;    /* [T, E], on the device */
    int piece;      /* the next one */
    double slowest; /* seconds of a piece so far */
};

static void *device_memory(ft_encoding *e, const void *host, size_t bytes)
{
    void *p = e->dev->alloc(e->dev, bytes);
    e->full |= !p;
    if (!p) return NULL;
    assert(e->n_memory < PARTS);
    if (host) e->dev->upload(e->dev, p, host, bytes);
    return e->memory[e->n_memory++] = p;
}

/* Patches of a merge x merge block are neighbours; blocks are in raster order. */
static void patch_place(const ft_encoding *e, int i, int *y, int *x)
{
    const int m = e->v->merge, wide = e->g.gw / m, block = i / (m * m), in = i % (m * m);
    *y = block / wide * m + in / m;
    *x = block % wide * m + in % m;
}

static void make_batch(ft_encoding *e)
{
    const int N = e->N, pages = (N + FT_PAGE_ROWS - 1) / FT_PAGE_ROWS;
    int32_t *cell = e->ints = ft_new_n(int32_t, 5 * (size_t)N + (size_t)pages);
    int32_t *end = cell + N, *y = end + N, *x = y + N, *zero = x + N, *page = zero + N;
    for (int i = 0; i < N; i++) {
        cell[i] = i;
        end[i] = N;
        patch_place(e, i, &y[i], &x[i]);
    }
    for (int i = 0; i < pages; i++) page[i] = i;
    e->span = (ft_span){.n = N};
    e->batch = (ft_batch){.T = N,
                          .S = 1,
                          .max_ctx = N,
                          .token = zero,
                          .pos = {y, x, zero},
                          .cell = cell,
                          .end = end,
                          .span_of = zero,
                          .span = &e->span,
                          .page = {page, page},
                          .pages_per_seq = pages,
                          .slots = 1,
                          .pad_spans = true};
}

static ft_mixing make_positions(ft_encoding *e)
{
    const ft_vision *v = e->v;
    int32_t *row = ft_new_n(int32_t, 4 * (size_t)e->N);
    float *w = ft_new_n(float, 4 * (size_t)e->N);
    int n = 0;
    for (int i = 0; i < e->N; i++) {
        int y, x;
        patch_place(e, i, &y, &x);
        n = v->tower->position(v, &e->g, y, x, row + (size_t)n * (size_t)i,
                               w + (size_t)n * (size_t)i);
    }
    const size_t count = (size_t)n * (size_t)e->N;
    const ft_mixing m = {device_memory(e, row, count * sizeof *row),
                         device_memory(e, w, count * sizeof *w), n};
    ft_free(row);
    ft_free(w);
    return m;
}

/* Each token is the mean of pool x pool patches, times a factor. */
static ft_mixing make_pooling(ft_encoding *e)
{
    const int K = e->v->pool, n = K * K;
    int32_t *row = ft_new_n(int32_t, (size_t)n * (size_t)e->T), *at = row;
    float *w = ft_new_n(float, (size_t)n *(size_t)e->T);
    for (int i = 0; i < e->T; i++)
        for (int j = 0; j < n; j++)
            *at++ = (i / e->g.cols * K + j / K) * e->g.gw + i % e->g.cols * K + j % K;
    for (size_t i = 0; i < (size_t)n * (size_t)e->T; i++) w[i] = e->v->pool_scale / (float)n;
    const size_t count = (size_t)n * (size_t)e->T;
    const ft_mixing m = {device_memory(e, row, count * sizeof *row),
                         device_memory(e, w, count * sizeof *w), n};
    ft_free(row);
    ft_free(w);
    return m;
}

static void make_cache(ft_encoding *e)
{
    const ft_vision *v = e->v;
    const ft_kv_type type = e->dev->unified ? FT_KV_F32 : FT_KV_F16;
    ft_kv *kv = &e->kv;
    *kv = (ft_kv){.kt = type, .vt = type, .G = v->H, .d = v->d, .space = FT_SPACE_FULL};
    kv->k_row = kv->v_row = ft_kv_row_bytes(type, kv->d);
    kv->k_page = kv->v_page = kv->k_row * (size_t)(kv->G * FT_PAGE_ROWS);
    const size_t bytes = kv->k_page * (size_t)e->batch.pages_per_seq;
    kv->k = device_memory(e, NULL, bytes);
    kv->v = device_memory(e, NULL, bytes);
}

/* A few patches at a time: a buffer for all of them would be large, and its pages new for every
 * picture. */
static ft_mat make_patches(ft_encoding *e, const ft_image *m)
{
    enum { AT_ONCE = 256 };
    const ft_vision *v = e->v;
    const int k = 3 * v->p * v->p;
    const bool fits = m->w == e->g.W && m->h == e->g.H;
    ft_image sized = *m;
    float *host = ft_new_n(float, (size_t)FT_MIN(e->N, (int)AT_ONCE) * (size_t)k);
    float *p = device_memory(e, NULL, (size_t)e->N * (size_t)k * sizeof *p);
    if (!fits) ft_image_resize(&sized, m, e->g.W, e->g.H);
    for (int at = 0; p && at < e->N; at += AT_ONCE) {
        const int n = FT_MIN(AT_ONCE, e->N - at);
        ft_image_patches(host, &sized, v->p, v->merge, v->mean, v->std, at, n);
        e->dev->upload(e->dev, p + (size_t)at * (size_t)k, host, (size_t)(n * k) * sizeof *host);
    }
    if (!fits) ft_image_release(&sized);
    ft_free(host);
    return ft_mat_at(p, e->N, k);
}

static void make_step(ft_encoding *e)
{
    const ft_vision *v = e->v;
    e->step = (ft_step){.dev = e->dev,
                        .b = &e->batch,
                        .T = e->N,
                        .kv = &e->kv,
                        .profile = v->profile,
                        .probe = v->probe,
                        .probe_user = v->probe_user};
    e->step.arena_cap = v->tower->arena(v, e->N);
    e->step.arena = device_memory(e, NULL, e->step.arena_cap * sizeof(float));
    e->rows = device_memory(e, NULL, (size_t)e->T * (size_t)v->E * sizeof(float));
}

ft_status ft_encoding_new(ft_encoding **out, ft_vision *v, const ft_image *m, const ft_grid *g,
                          ft_err *err)
{
    ft_encoding *e = ft_new(ft_encoding);
    *e = (ft_encoding){
        .v = v, .dev = v->m->dev, .g = *g, .N = g->gw * g->gh, .T = g->rows * g->cols};
    ft_dev_alloc_for(e->dev, NULL);
    make_batch(e);
    e->in = (ft_vision_input){.grid = *g, .patches = make_patches(e, m)};
    e->in.positions = make_positions(e);
    if (v->pool) e->in.pooling = make_pooling(e);
    if (v->H && !e->dev->op->attend_image) make_cache(e);
    make_step(e);
    if (!e->full) {
        *out = e;
        return FT_OK;
    }
    const ft_status st =
        ft_fail(err, FT_ENOMEM, "no device memory for an image of %d patches", e->N);
    ft_encoding_free(e);
    return st;
}

void ft_encoding_free(ft_encoding *e)
{
    if (!e) return;
    for (int i = 0; i < e->n_memory; i++) e->dev->free(e->dev, e->memory[i]);
    ft_free(e->ints);
    ft_free(e);
}

/* The pieces up to `to`, as one step of the device. */
static ft_status run_pieces(ft_encoding *e, int to, ft_err *err)
{
    const ft_vision *v = e->v;
    const ft_mat out = ft_mat_at(e->rows, e->T, v->E);
    e->dev->record(e->dev, &e->batch);
    for (; e->piece < to; e->piece++) {
        e->step.arena_used = 0; /* every piece finds its activations where the last one left them */
        v->tower->forward(v, &e->step, &e->in, out, e->piece);
    }
    e->dev->commit(e->dev);
    return e->dev->sync(e->dev, err);
}

ft_status ft_encoding_run(ft_encoding *e, double seconds, float *out, bool *done, ft_err *err)
{
    const int pieces = e->v->pieces;
    const int64_t start = ft_now_ns();
    ft_status st = FT_OK;
    double spent = 0;
    do {
        st = run_pieces(e, isinf(seconds) ? pieces : e->piece + 1, err);
        const double now = (double)(ft_now_ns() - start) * 1e-9;
        e->slowest = FT_MAX(e->slowest, now - spent);
        spent = now;
    } while (!st && e->piece < pieces && spent + e->slowest <= seconds);
    *done = !st && e->piece == pieces;
    if (*done) e->dev->download(e->dev, out, e->rows, (size_t)e->T * (size_t)e->v->E * sizeof *out);
    return st;
}

ft_status ft_vision_encode(ft_vision *v, const ft_image *m, const ft_grid *g, float *out,
                           ft_err *err)
{
    bool done;
    ft_encoding *e = NULL;
    ft_status st = ft_encoding_new(&e, v, m, g, err);
    if (!st) st = ft_encoding_run(e, INFINITY, out, &done, err);
    ft_encoding_free(e);
    return st;
}

ft_status ft_vision_warm_up(ft_vision *v, int most, ft_err *err)
{
    ft_grid g;
    ft_encoding *e = NULL;
    ft_status st = fit_largest(v, most, &g, err);
    if (st) return st;
    ft_image blank = {.w = g.W, .h = g.H};
    blank.rgb = ft_new_n(unsigned char, (size_t)g.W *(size_t)g.H * 3);
    st = ft_encoding_new(&e, v, &blank, &g, err);
    if (!st) st = run_pieces(e, FT_MIN(2, v->pieces), err);
    if (!st && v->pieces > 2) {
        e->piece = v->pieces - 1;
        st = run_pieces(e, v->pieces, err);
    }
    ft_encoding_free(e);
    ft_image_release(&blank);
    return st;
}
