#define _GNU_SOURCE
#include "api/images.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sha256.h"

#include <dirent.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_TOKENS = 4096 };                  /* of an image, where nobody says otherwise */
static const int64_t MAX_PIXELS = 256000000; /* of all images of a request */

/* An image and, when a tower has read it, its rows. Only the engine thread changes these two. */
typedef struct ft_tower_rows {
    char key[65]; /* a hash of the pixels, the tower and the size */
    ft_grid grid;
    ft_image sized; /* until the rows are there */
    float *data;    /* NULL: not yet */
    size_t bytes;   /* of the rows */
    int users;      /* prompts that point into it */
    uint64_t used;  /* when it was last asked for */
    struct ft_tower_rows *next;
} ft_tower_rows;

struct ft_images {
    ft_vision *tower;
    int32_t pad, begin, end; /* a token of an image; around its tokens where `wraps`, else -1 */
    bool wraps;              /* the prompt has the placeholder alone */
    bool by_axis, ahead;     /* as ft_task has them */
    const char *marker;
    ft_placeholders placeholders;
    int min_tokens, max_tokens;
    ft_image_limits limits;
    uint64_t digest; /* of the tower's file */
    pthread_mutex_t lock;
    ft_tower_rows *cache;
    size_t cache_bytes, cache_most;
    uint64_t clock;
    /* What the tower is at; only the engine thread touches these. One image at a time. */
    ft_encoding *encoding; /* NULL: nothing */
    ft_tower_rows *encodes;
    float *encoded;
};

/* ---- opening ---- */

static bool is_qwen(const ft_model *m)
{
    return m->arch == &ft_arch_qwen35 || m->arch == &ft_arch_qwen35moe;
}

/* Whether the tower's file is named after the model: mmproj-NAME.gguf for NAME.gguf. */
static bool is_named_after(const char *tower, const char *model)
{
    const char *name = ft_file_name(model);
    return !strncasecmp(tower, "mmproj-", 7) && !strcmp(tower + 7, name);
}

/* The tower in the model's folder: the one that is named after it, else the only *mmproj*.gguf;
 * NULL where there is none, or more than one. */
static char *find_beside(const char *model, bool warn)
{
    const char *slash = strrchr(model, '/');
    char *dir = slash ? strndup(model, (size_t)(slash - model) + 1) : strdup("./");
    char *found = NULL;
    int n = 0;
    bool own = false;
    DIR *d = dir ? opendir(dir) : NULL;
    for (struct dirent *e; d && !own && (e = readdir(d));) {
        if (fnmatch("*mmproj*.gguf", e->d_name, FNM_CASEFOLD)) continue;
        own = is_named_after(e->d_name, model);
        n = own ? 1 : n + 1;
        ft_free(found);
        found = ft_alloc(strlen(dir) + strlen(e->d_name) + 1);
        strcpy(stpcpy(found, slash ? dir : ""), e->d_name);
    }
    if (d) closedir(d);
    free(dir);
    if (n == 1) return found;
    if (n > 1 && warn)
        ft_log(FT_LOG_WARN, "%d files *mmproj*.gguf beside the model: name one with --mmproj", n);
    ft_free(found);
    return NULL;
}

static ft_status check_family(const ft_llm *m, const ft_vision *v, ft_err *err)
{
    if (is_qwen(m->model) == (v->tower == &ft_tower_qwen35)) return FT_OK;
    return ft_fail(err, FT_EUNSUPPORTED, "a %s for %s: it was made for another model",
                   v->tower->words, m->model->arch->words);
}

static ft_status find_ids(struct ft_images *s, const ft_llm *m, ft_err *err)
{
    const bool qwen = is_qwen(m->model);
    const char *const name[] = {qwen ? "<|image_pad|>" : "<|image|>",
                                qwen ? "<|vision_start|>" : "<|image>",
                                qwen ? "<|vision_end|>" : "<image|>"};
    int32_t *const to[] = {&s->pad, &s->begin, &s->end};
    for (int i = 0; i < 3; i++) {
        *to[i] = ft_vocab_find(m->vocab, ft_str_of(name[i]));
        if (*to[i] < 0 || *to[i] >= m->model->V)
            return ft_fail(err, FT_EUNSUPPORTED,
                           "the vocabulary has no token %s: the model reads no images", name[i]);
    }
    s->wraps = !qwen;
    s->marker = qwen ? "<|vision_start|><|image_pad|><|vision_end|>" : "<|image|>";
    return FT_OK;
}

/* The text file of a Gemma model does not say whether rows of an image see each other: those with
 * per-layer inputs were not trained so. */
static bool sees_ahead(const ft_llm *m, const ft_vision *v)
{
    int64_t per_layer = 0;
    if (is_qwen(m->model)) return false;
    if (v->attention != FT_IMAGE_BY_MODEL) return v->attention == FT_IMAGE_AHEAD;
    ft_gguf_i64(m->model->file, "gemma4.embedding_length_per_layer_input", &per_layer);
    return per_layer == 0;
}

static ft_status open_tower(ft_vision **out, const ft_llm *m, const char *path, bool mmap,
                            ft_err *err)
{
    ft_gguf *g = NULL;
    ft_status st = ft_gguf_open(&g, path, mmap, err);
    if (st) return st;
    st = ft_vision_open(out, g, ft_split_local(m->dev), m->model->D, err);
    if (st) {
        ft_gguf_close(g);
    } else if ((st = check_family(m, *out, err))) {
        ft_vision_close(*out);
        *out = NULL;
    }
    if (st) ft_err_prefix(err, "%s", path);
    return st;
}

/* Of an image; 0: what the tower's file says. */
static int max_tokens(const ft_llm_params *p, bool qwen)
{
    return p->image_max_tokens ? p->image_max_tokens : qwen ? MAX_TOKENS : 0;
}

static bool parse_colour(ft_image_limits *l, const char *text)
{
    if (strlen(text) != 6 || strspn(text, "0123456789abcdefABCDEF") != 6) return false;
    const unsigned long v = strtoul(text, NULL, 16);
    for (int i = 0; i < 3; i++) l->background[i] = (unsigned char)(v >> (16 - 8 * i));
    return l->blend = true;
}

ft_status ft_llm_open_images(ft_llm *m, const ft_llm_params *p, ft_err *err)
{
    ft_err own;
    if (!err) err = &own;
    if (p->no_mmproj) return FT_OK;
    char *beside = p->mmproj ? NULL : find_beside(m->path, true);
    const char *path = p->mmproj ? p->mmproj : beside;
    ft_image_limits limits = ft_image_limits_default;
    if (p->image_background && !parse_colour(&limits, p->image_background)) {
        ft_free(beside);
        return ft_fail(err, FT_EINVAL,
                       "--image-background is %.40s, want RRGGBB: six hexadecimal "
                       "digits",
                       p->image_background);
    }
    if (!path) return FT_OK;
    struct ft_images *s = ft_new(struct ft_images);
    ft_status st = open_tower(&s->tower, m, path, !p->no_mmap, err);
    if (!st) st = find_ids(s, m, err);
    if (st) {
        ft_vision_close(s->tower);
        ft_free(s);
        if (beside || p->mmproj_found) { /* nobody named it */
            ft_log(FT_LOG_WARN, "images cannot be read: %s", err->text);
            st = FT_OK;
        }
        ft_free(beside);
        return st;
    }
    ft_free(beside);
    s->limits = limits;
    s->by_axis = is_qwen(m->model);
    s->ahead = sees_ahead(m, s->tower);
    s->min_tokens = p->image_min_tokens;
    s->max_tokens = max_tokens(p, s->by_axis);
    s->digest = ft_model_digest(s->tower->m);
    if (s->tower->m->dev->captures && ft_vision_warm_up(s->tower, s->max_tokens, err))
        ft_log(FT_LOG_WARN, "the largest image cannot be encoded: %s (--image-max-tokens)",
               err->text);
    s->cache_most = (size_t)FT_MAX(0, p->image_cache_mib) << 20;
    pthread_mutex_init(&s->lock, NULL);
    m->images = s;
    int32_t id[FT_IMAGE_IDS];
    ft_placeholders_init(&s->placeholders, m->vocab, id, ft_llm_image_ids(m, id));
    return FT_OK;
}

ft_vision *ft_llm_size_images(const ft_llm *m, const ft_llm_params *p, ft_dev *none, int *most)
{
    ft_gguf *g = NULL;
    ft_vision *v = NULL;
    if (p->no_mmproj) return NULL;
    char *beside = p->mmproj ? NULL : find_beside(m->path, false);
    const char *path = p->mmproj ? p->mmproj : beside;
    if (path && !ft_gguf_open(&g, path, true, NULL) && ft_vision_open(&v, g, none, 0, NULL))
        ft_gguf_close(g);
    ft_free(beside);
    if (v) *most = max_tokens(p, v->tower == &ft_tower_qwen35);
    return v;
}

static void free_rows(ft_tower_rows *r)
{
    ft_image_release(&r->sized);
    ft_free(r->data);
    ft_free(r);
}

static void stop_encoding(struct ft_images *s);

void ft_llm_close_images(ft_llm *m)
{
    struct ft_images *s = m->images;
    if (!s) return;
    if (s->encoding) stop_encoding(s);
    while (s->cache) {
        ft_tower_rows *r = s->cache;
        s->cache = r->next;
        free_rows(r);
    }
    ft_vision_close(s->tower);
    pthread_mutex_destroy(&s->lock);
    ft_free(s);
    m->images = NULL;
}

const char *ft_llm_image_marker(const ft_llm *m)
{
    return m->images ? m->images->marker : NULL;
}

const ft_placeholders *ft_llm_placeholders(const ft_llm *m)
{
    return m->images ? &m->images->placeholders : NULL;
}

int ft_llm_image_ids(const ft_llm *m, int32_t out[FT_IMAGE_IDS])
{
    static const char *const more[] = {"<|video_pad|>", "<|video|>", "<|audio|>"};
    int n = 0;
    if (!m->images) return 0;
    const int32_t known[] = {m->images->pad, m->images->begin, m->images->end};
    for (size_t i = 0; i < FT_COUNT(known); i++) out[n++] = known[i];
    for (size_t i = 0; i < FT_COUNT(more); i++) {
        const int32_t id = ft_vocab_find(m->vocab, ft_str_of(more[i]));
        if (id >= 0) out[n++] = id;
    }
    return n;
}

/* ---- rows that were made before ---- */

/* Under the lock: what nobody uses goes, the least recently used first, and all that has no rows.
 */
static void shrink(struct ft_images *s)
{
    for (;;) {
        ft_tower_rows **oldest = NULL;
        for (ft_tower_rows **at = &s->cache; *at; at = &(*at)->next) {
            if ((*at)->users) continue;
            if (!oldest || (*at)->used < (*oldest)->used || !(*at)->data) oldest = at;
            if (!(*at)->data) break;
        }
        if (!oldest || ((*oldest)->data && s->cache_bytes <= s->cache_most)) return;
        ft_tower_rows *r = *oldest;
        *oldest = r->next;
        s->cache_bytes -= r->bytes;
        free_rows(r);
    }
}

/* The entry of this key, which is made of the image when there is none; the image is taken over. */
static ft_tower_rows *take_rows(struct ft_images *s, const char *key, const ft_grid *g,
                                ft_image *image)
{
    pthread_mutex_lock(&s->lock);
    ft_tower_rows *r = s->cache;
    while (r && strcmp(r->key, key)) r = r->next;
    if (!r) {
        r = ft_new(ft_tower_rows);
        memcpy(r->key, key, sizeof r->key);
        r->grid = *g;
        r->sized = *image;
        *image = (ft_image){0};
        r->bytes = sizeof(float) * (size_t)(g->rows * g->cols) * (size_t)s->tower->E;
        r->next = s->cache;
        s->cache = r;
        s->cache_bytes += r->bytes;
    }
    r->users++;
    r->used = ++s->clock;
    shrink(s);
    pthread_mutex_unlock(&s->lock);
    return r;
}

/* ---- one image ---- */

static void key_of(char key[65], const struct ft_images *s, const ft_image *m, const ft_grid *g)
{
    const uint64_t head[5] = {(uint64_t)m->w, (uint64_t)m->h, s->digest, (uint64_t)g->W,
                              (uint64_t)g->H};
    ft_sha256 h;
    ft_sha256_init(&h);
    ft_sha256_add(&h, head, sizeof head);
    ft_sha256_add(&h, m->rgb, (size_t)m->w * (size_t)m->h * 3);
    ft_sha256_hex(&h, key);
}

static ft_status no_tower(ft_err *err)
{
    return ft_fail(err, FT_EUNSUPPORTED,
                   "the model has no vision tower and reads no images: start with --mmproj");
}

static ft_status fit_image(const struct ft_images *s, int w, int h, const ft_image_input *in,
                           ft_grid *g, ft_err *err)
{
    int most = s->max_tokens;
    if (in->max_tokens > 0) most = most ? FT_MIN(most, in->max_tokens) : in->max_tokens;
    return ft_vision_fit(s->tower, w, h, s->min_tokens, most, g, err);
}

/* Decodes and resizes: all that needs no device. */
static ft_status read_image(ft_tower_rows **out, const ft_llm *m, const ft_image_input *in,
                            ft_err *err)
{
    struct ft_images *s = m->images;
    ft_image image, sized = {0};
    ft_grid g;
    char key[65];
    ft_status st = ft_image_decode(&image, in->bytes, in->n, &s->limits, err);
    if (st) return st;
    st = fit_image(s, image.w, image.h, in, &g, err);
    if (!st) {
        key_of(key, s, &image, &g);
        ft_image_resize(&sized, &image, g.W, g.H);
        *out = take_rows(s, key, &g, &sized);
        ft_image_release(&sized);
    }
    ft_image_release(&image);
    return st;
}

/* ---- the tower, on the engine thread ---- */

static void stop_encoding(struct ft_images *s)
{
    ft_encoding_free(s->encoding);
    ft_free(s->encoded);
    s->encoding = NULL;
    s->encoded = NULL;
    pthread_mutex_lock(&s->lock);
    s->encodes->users--;
    shrink(s);
    pthread_mutex_unlock(&s->lock);
    s->encodes = NULL;
}

static ft_status start_encoding(struct ft_images *s, ft_tower_rows *r, ft_err *err)
{
    const ft_status st = ft_encoding_new(&s->encoding, s->tower, &r->sized, &r->grid, err);
    if (st) return st;
    s->encoded = ft_alloc(r->bytes);
    s->encodes = r;
    pthread_mutex_lock(&s->lock);
    r->users++;
    pthread_mutex_unlock(&s->lock);
    return FT_OK;
}

/* Goes on with the image that the tower is at. */
static ft_status go_on(struct ft_images *s, double seconds, ft_err *err)
{
    bool done = false;
    ft_tower_rows *r = s->encodes;
    const ft_status st = ft_encoding_run(s->encoding, seconds, s->encoded, &done, err);
    if (done) {
        r->data = s->encoded;
        s->encoded = NULL;
        ft_image_release(&r->sized);
    }
    if (done || st) stop_encoding(s);
    return st;
}

/* The first image behind token `from` that the tower has not read yet; NULL: all are there. */
static ft_tower_rows *next_unread(const ft_prompt_images *p, int from)
{
    for (int i = 0; i < p->n; i++) {
        const ft_task_image *m = &p->image[i];
        if (m->first + m->rows * m->cols > from && !p->rows[i]->data) return p->rows[i];
    }
    return NULL;
}

/* The tower is in the middle of an image whose requests have all ended. */
static bool abandoned(struct ft_images *s)
{
    pthread_mutex_lock(&s->lock);
    const bool yes = s->encodes && s->encodes->users == 1;
    pthread_mutex_unlock(&s->lock);
    return yes;
}

static ft_status prepare(void *images, int from, double seconds, bool *done, ft_err *err)
{
    const ft_prompt_images *p = images;
    struct ft_images *s = p->of;
    const int64_t start = ft_now_ns();
    if (abandoned(s)) stop_encoding(s);
    for (ft_tower_rows *r; (r = next_unread(p, from));) {
        ft_status st = s->encoding ? FT_OK : start_encoding(s, r, err);
        if (!st) st = go_on(s, seconds - (double)(ft_now_ns() - start) * 1e-9, err);
        if (st) return st;
        if (s->encoding || (double)(ft_now_ns() - start) * 1e-9 >= seconds) return FT_OK;
    }
    for (int i = 0; i < p->n; i++) p->image[i].data = p->rows[i]->data;
    *done = true;
    return FT_OK;
}

/* ---- the prompt ---- */

/* The headers alone, before anything is decoded. */
static ft_status check_request(const ft_llm *m, const ft_request *r, int found, ft_err *err)
{
    int64_t pixels = 0;
    if (!m->images) return no_tower(err);
    if (r->n_images > FT_REQUEST_IMAGES)
        return ft_fail(err, FT_EINVAL, "the request has %d images, at most %d are allowed",
                       r->n_images, FT_REQUEST_IMAGES);
    if (found != r->n_images)
        return ft_fail(err, FT_EINVAL, "the prompt has %d image placeholders for %d images", found,
                       r->n_images);
    for (int i = 0; i < r->n_images; i++) {
        int w, h;
        const ft_status st = ft_image_size(&w, &h, r->images[i].bytes, r->images[i].n,
                                           &ft_image_limits_default, err);
        if (st) {
            ft_err_prefix(err, "image %d", i + 1);
            return st;
        }
        pixels += (int64_t)w * h;
    }
    if (pixels > MAX_PIXELS)
        return ft_fail(err, FT_EINVAL, "the images have %lld pixels, at most %lld are allowed",
                       (long long)pixels, (long long)MAX_PIXELS);
    return FT_OK;
}

/* The tokens of image r, and those around it. */
static void put_tokens(const struct ft_images *s, ft_task_image *m, const ft_tower_rows *r,
                       ft_ids *ids)
{
    char head[17] = "";
    memcpy(head, r->key, 16);
    const uint64_t key = strtoull(head, NULL, 16);
    if (s->wraps) ft_ids_put(ids, s->begin);
    *m = (ft_task_image){.first = (int)ids->n, .rows = r->grid.rows, .cols = r->grid.cols};
    for (int i = 0; i < m->rows * m->cols; i++) ft_ids_put(ids, ft_image_id(key, i));
    if (s->wraps) ft_ids_put(ids, s->end);
}

/* ids with every placeholder replaced. */
static void expand(ft_prompt_images *p, const struct ft_images *s, ft_ids *ids)
{
    ft_ids out;
    int k = 0;
    ft_ids_init(&out, ids->max);
    for (size_t i = 0; i < ids->n; i++) {
        if (ids->id[i] == s->pad) {
            put_tokens(s, &p->image[k], p->rows[k], &out);
            k++;
        } else {
            ft_ids_put(&out, ids->id[i]);
        }
    }
    ft_ids_release(ids);
    *ids = out;
}

ft_status ft_prompt_images_init(ft_prompt_images *out, ft_llm *m, const ft_request *r, ft_ids *ids,
                                ft_err *err)
{
    int found = 0;
    *out = (ft_prompt_images){0};
    if (!r->n_images) return FT_OK;
    for (size_t i = 0; m->images && i < ids->n; i++) found += ids->id[i] == m->images->pad;
    ft_status st = check_request(m, r, found, err);
    if (st) return st;
    out->image = ft_new_n(ft_task_image, (size_t)r->n_images);
    out->rows = ft_new_n(ft_tower_rows *, (size_t)r->n_images);
    for (; out->n < r->n_images && !st; out->n += !st) {
        st = read_image(&out->rows[out->n], m, &r->images[out->n], err);
        if (st) ft_err_prefix(err, "image %d", out->n + 1);
    }
    out->of = m->images;
    if (!st) expand(out, m->images, ids);
    return st;
}

void ft_prompt_images_release(ft_prompt_images *p, const ft_llm *m)
{
    struct ft_images *s = m ? m->images : NULL;
    if (p->n) {
        pthread_mutex_lock(&s->lock);
        for (int i = 0; i < p->n; i++) p->rows[i]->users--;
        shrink(s);
        pthread_mutex_unlock(&s->lock);
    }
    ft_free(p->image);
    ft_free(p->rows);
    *p = (ft_prompt_images){0};
}

void ft_prompt_images_task(const ft_prompt_images *p, const ft_llm *m, ft_task *t)
{
    if (!p->n) return;
    t->image = p->image;
    t->n_image = p->n;
    t->images_by_axis = m->images->by_axis;
    t->images_ahead = m->images->ahead;
    t->prepare = prepare;
    t->prepare_user = (void *)(uintptr_t)p;
}

ft_status ft_image_from_text(const char *text, size_t n, void **bytes, size_t *n_bytes, ft_err *err)
{
    unsigned char *p = NULL;
    const ft_status st =
        ft_data_uri_decode(&p, n_bytes, text, n, ft_image_limits_default.bytes, err);
    *bytes = p;
    return st;
}

ft_status ft_llm_image_tokens(const ft_llm *m, const ft_image_input *image, int *tokens,
                              ft_err *err)
{
    const struct ft_images *s = m->images;
    int w, h;
    ft_grid g;
    if (!s) return no_tower(err);
    ft_status st = ft_image_size(&w, &h, image->bytes, image->n, &ft_image_limits_default, err);
    if (!st) st = fit_image(s, w, h, image, &g, err);
    if (!st) *tokens = g.rows * g.cols + (s->wraps ? 2 : 0);
    return st;
}
