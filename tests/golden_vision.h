/* tests/golden_vision.h - the images of a golden folder: from the PNG file through decoder, resize
 * and tower to the rows that the text model reads. Part of golden_run.h. */
#ifndef FT_TESTS_GOLDEN_VISION_H
#define FT_TESTS_GOLDEN_VISION_H

#include "model/vision.h"

/* Inputs of the blocks, first 16 patches of the first picture; the last block's output, 48. */
typedef struct golden_tower {
    golden *g;
    double tol;
    int image;     /* which picture runs */
    float *pooled; /* [rows, C] of all pictures so far */
    size_t n_pooled;
} golden_tower;

static void golden_tower_probe(void *user, const ft_step *s, const char *what, int layer, ft_mat m)
{
    golden_tower *t = user;
    char name[32];
    if (!strcmp(what, "pooled")) {
        const size_t n = (size_t)m.T * (size_t)m.d;
        t->pooled = ft_realloc(t->pooled, (t->n_pooled + n) * sizeof(float));
        memcpy(t->pooled + t->n_pooled, m.p, n * sizeof(float));
        t->n_pooled += n;
        return;
    }
    if (strcmp(what, "layer_in") || t->image > 0) return;
    snprintf(name, sizeof name, "vision_in.%d", layer);
    size_t rows = 16;
    const float *want = golden_array(t->g, name);
    if (!want) {
        snprintf(name, sizeof name, "vision_out");
        want = golden_array(t->g, name);
        rows = 48;
    }
    if (want && (size_t)s->T >= rows)
        golden_compare(t->g, name, m.p, want, rows * (size_t)m.d, t->tol);
}

static bool golden_read_images(golden *g, ft_err *err)
{
    const json_t *list = json_object_get(g->ref, "images"),
                 *all = json_object_get(g->ref, "position_ids");
    g->n_image = (int)json_array_size(list);
    if (g->n_image < 1 || g->n_image > (int)FT_COUNT(g->image)) {
        ft_fail(err, FT_EFORMAT, "ref.json: %d images, want 1 to %zu", g->n_image,
                FT_COUNT(g->image));
        return false;
    }
    for (int k = 0; k < g->n_image; k++) {
        const json_t *m = json_array_get(list, (size_t)k);
        g->image[k].first = (int)json_integer_value(json_object_get(m, "first"));
        g->image[k].n = (int)json_integer_value(json_object_get(m, "tokens"));
    }
    g->next_pos = golden_int(g, "next_position", 0);
    g->ahead = json_is_true(json_object_get(g->ref, "bidirectional"));
    g->pos[0] = ft_new_n(int32_t, 3 * (size_t)g->n);
    const size_t axes = json_array_size(all);
    for (size_t a = 0; a < 3; a++) {
        const json_t *axis = json_array_get(all, a < axes ? a : 0);
        g->pos[a] = g->pos[0] + a * (size_t)g->n;
        for (int i = 0; i < g->n; i++)
            g->pos[a][i] = (int32_t)json_integer_value(json_array_get(axis, (size_t)i));
    }
    return true;
}

static bool golden_encode(golden *g, const char *dir, ft_vision *v, int k, float *out, ft_err *err)
{
    char path[4096], *bytes;
    size_t n;
    ft_image m;
    ft_grid grid;
    snprintf(path, sizeof path, "%s/image%d.png", dir, k);
    if (ft_file_read(&bytes, &n, path, (size_t)20 << 20, err)) return false;
    bool ok = !ft_image_decode(&m, bytes, n, &ft_image_limits_default, err);
    ft_free(bytes);
    if (!ok) return false;
    ok = !ft_vision_fit(v, m.w, m.h, 0, 0, &grid, err);
    if (ok && grid.rows * grid.cols != g->image[k].n)
        ok = !ft_fail(err, FT_EFORMAT, "%s becomes %d tokens, want %d", path, grid.rows * grid.cols,
                      g->image[k].n);
    if (ok) ok = !ft_vision_encode(v, &m, &grid, out, err);
    ft_image_release(&m);
    return ok;
}

/* All pictures of the folder. */
static bool golden_towers(golden *g, const char *dir, ft_vision *v, bool probe, double tol,
                          ft_err *err)
{
    golden_tower t = {.g = g, .tol = tol};
    const size_t E = (size_t)g->m->D;
    size_t row = 0, T = 0;
    bool ok = true;
    for (int k = 0; k < g->n_image; k++) T += (size_t)g->image[k].n;
    if (!golden_has(g, "image_embeds", T * E, err)) return false;
    if (!g->image_rows) g->image_rows = ft_new_n(float, T *E);
    v->probe = probe ? golden_tower_probe : NULL;
    v->probe_user = &t;
    for (t.image = 0; t.image < g->n_image && ok; row += (size_t)g->image[t.image++].n)
        ok = golden_encode(g, dir, v, t.image, g->image_rows + row * E, err);
    if (ok)
        golden_compare(g, "image_embeds", g->image_rows, golden_array(g, "image_embeds"), T * E,
                       tol);
    if (ok && t.n_pooled && golden_has(g, "vision_pooled", t.n_pooled, err))
        golden_compare(g, "vision_pooled", t.pooled, golden_array(g, "vision_pooled"), t.n_pooled,
                       tol);
    ft_free(t.pooled);
    return ok;
}

/* Fills g with the tower's rows and the prompt's positions. */
static bool golden_vision(golden *g, const char *dir, const char *mmproj, ft_dev *dev, ft_err *err)
{
    const bool ref = !strcmp(dev->name, "ref"), half = !dev->unified; /* towers of GPUs use f16 */
    const double tol = ref ? 1e-9 : half ? 1e-4 : 1e-8;
    ft_gguf *f;
    ft_vision *v;
    if (!golden_read_images(g, err) || ft_gguf_open(&f, mmproj, true, err)) return false;
    if (ft_vision_open(&v, f, dev, g->m->D, err)) return ft_gguf_close(f), false;
    bool ok = golden_towers(g, dir, v, ref, tol, err);
    ft_vision_close(v);
    /* The text models amplify errors of image rows: Gemma's by 230, Qwen's by 4. Half-precision
     * towers meet their own tolerance, and the text model, which has a smaller one, continues from
     * the reference rows. */
    size_t rows = 0;
    for (int k = 0; k < g->n_image; k++) rows += (size_t)g->image[k].n;
    if (ok && half)
        memcpy(g->image_rows, golden_array(g, "image_embeds"),
               rows * (size_t)g->m->D * sizeof(float));
    return ok;
}

#endif
