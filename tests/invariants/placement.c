/* tests/invariants/placement.c - a model that does not fit in device memory: as much as fits is
 * placed there, within the estimate, the ids do not change, and all memory is freed at the end. The
 * device is ref with a simulated memory, laid out as on a GPU. */
#define _XOPEN_SOURCE 700
#include "invariants.h"

#include "api/images.h"
#include "dev/arena.h"
#include "dev/host.h"
#include "folder.h"
#include "tools/synth.h"

#include <limits.h>

enum { BLOCK = 4096, RANGE = 256 << 20 };

static uint64_t have;
static unsigned char *base; /* base of the simulated GPU addresses */
static ft_arena *arena;

static bool map(void *owner, uint64_t at, uint64_t bytes)
{
    (void)owner, (void)at;
    return ft_arena_mapped(arena) + bytes <= have;
}

static void unmap(void *owner, uint64_t at, uint64_t bytes)
{
    (void)owner;
    memset(base + at, 0xff, bytes);
}

static uint64_t free_bytes(ft_dev *d)
{
    (void)d;
    return have - ft_arena_mapped(arena) + ft_arena_idle(arena);
}

static void *gpu_alloc(ft_dev *d, size_t bytes)
{
    (void)d;
    uint64_t at;
    return ft_arena_alloc(arena, bytes, &at) ? memset(base + at, 0, bytes) : NULL;
}

static void gpu_free(ft_dev *d, void *p)
{
    (void)d;
    ft_arena_dealloc(arena, (uint64_t)((unsigned char *)p - base));
}

static ft_status gpu_bind(ft_dev *d, ft_weight *w, const void *host, ft_err *err)
{
    const uint64_t bytes = ft_host_weight_bytes(d, w);
    void *p = d->alloc(d, bytes);
    if (!p) return ft_fail(err, FT_ENOMEM, "no device memory for %s", w->name);
    memcpy(p, host, bytes);
    return ft_host_bind(d, w, p, err);
}

static void gpu_unbind(ft_dev *d, ft_weight *w)
{
    d->free(d, (void *)(uintptr_t)w->data);
}

static uint64_t no_scratch(ft_dev *d, const ft_dev_limits *l)
{
    (void)d, (void)l;
    return 0;
}

static ft_dev *new_gpu(uint64_t bytes)
{
    ft_dev *d = ft_dev_ref();
    const ft_arena_memory way = {BLOCK, 16 * BLOCK, map, unmap, NULL};
    have = bytes;
    arena = ft_arena_new(RANGE, &way);
    d->name = "card";
    d->unified = false;
    d->free_bytes = free_bytes;
    d->alloc = gpu_alloc;
    d->free = gpu_free;
    d->bind = gpu_bind;
    d->unbind = gpu_unbind;
    d->step_bytes = no_scratch;
    return d;
}

static ft_llm_params params(const char *path)
{
    ft_llm_params p;
    ft_llm_defaults(&p);
    p.model = path;
    p.ctx = 256;
    p.batch = 64;
    p.threads = 1;
    p.fit_target = 0;
    return p;
}

/* A greedy response with the model on a GPU of this many bytes. Returns the estimated use of GPU
 * memory. */
static uint64_t response_on(const ft_llm_params *p, uint64_t bytes, inv_response *r,
                            char words[2000])
{
    ft_llm m = {.path = (char *)(uintptr_t)p->model, .dev = new_gpu(bytes)};
    ft_draft_methods d;
    ft_engine_params e;
    ft_err err;
    ft_status st = ft_draft_methods_of(&d, p, &err);
    if (!st) st = ft_llm_place(&m, p, &d, &err);
    if (!st) st = ft_llm_open_file(&m.model, m.path, m.dev, NULL, p, &err);
    if (!st) st = ft_llm_open_drafter(&m, p, &d, &err);
    if (!st) st = ft_llm_engine_params(&e, m.model, p, &d, &err);
    if (!st) st = ft_engine_new(&m.engine, m.model, m.assistant, &e, &err);
    snprintf(words, 2000, "%s", st ? err.text : m.place);
    if (!st) {
        int32_t ids[40];
        inv_prompt(ids, 40, m.model->V, 1);
        const ft_task j = inv_job(16, 3);
        inv_response_on(r, ft_slot_new(m.engine), &j, ids, 40);
        const uint64_t taken = ft_arena_mapped(arena);
        const double off = (double)m.info.device_bytes / (double)taken - 1;
        check(off < 0.03 && off > -0.03, "%s: %llu bytes estimated, %llu used", words,
              (unsigned long long)m.info.device_bytes, (unsigned long long)taken);
    }
    ft_engine_free(m.engine);
    ft_model_close(m.assistant);
    ft_model_close(m.model);
    check(!ft_arena_mapped(arena), "%s: %llu bytes were not freed", words,
          (unsigned long long)ft_arena_mapped(arena));
    ft_dev_close(m.dev);
    ft_arena_free(arena);
    return m.info.device_bytes;
}

static void shrinking(const char *name, const char *leaves_first)
{
    static inv_response all, some;
    char path[128], words[2000];
    inv_golden_file(name, path);
    const ft_llm_params p = params(path);
    const uint64_t whole = response_on(&p, UINT64_MAX / 2, &all, words);
    check(strstr(words, "card: all of the model") != NULL, "%s: %s, want all of it", name, words);
    uint64_t last = whole;
    int steps = 0, sentences = 0;
    for (uint64_t bytes = whole - 1; bytes > whole / 8; bytes -= whole / 9) {
        const uint64_t on = response_on(&p, bytes, &some, words);
        if (strstr(words, "to spare")) {
            sentences++;
            continue;
        }
        check(on <= bytes && on <= last && on > 0, "%s: %llu bytes on a GPU of %llu", name,
              (unsigned long long)on, (unsigned long long)bytes);
        if (!steps++)
            check(strstr(words, leaves_first) != NULL, "%s: %s, want %s", name, words,
                  leaves_first);
        check(!sentences, "%s: fits in less memory than before", name);
        last = on;
    }
    check(steps > 1, "%s: %d placements, want several", name, steps);
    response_on(&p, 1, &some, words);
    check(strstr(words, "card has 1 B to spare") != NULL, "%s without GPU memory: %s", name, words);
    unlink(path);
}

/* An explicit placement is kept, whether it fits or not. */
static void check_explicit(void)
{
    static inv_response r;
    char path[128], words[2000];
    inv_golden_file("qwen35-moe", path);
    static const struct {
        int layers, moe;
        const char *words;
    } want[] = {{1, -1, "card: the output"},
                {2, -1, "cpu: layers 0 to"},
                {INT_MAX, INT_MAX, "experts of layers 0 to"},
                {INT_MAX, 1, "experts of layers 0 to 0"},
                {INT_MAX, -1, "all of the model"},
                {-1, 0, "all of the model"},
                {0, -1, "cpu: all of the model"}};
    for (size_t i = 0; i < FT_COUNT(want); i++) {
        ft_llm_params p = params(path);
        p.gpu_layers = want[i].layers;
        p.cpu_moe = want[i].moe;
        if (want[i].layers) {
            response_on(&p, UINT64_MAX / 2, &r, words);
        } else {
            ft_llm m = {.path = path, .dev = new_gpu(1 << 20)};
            ft_draft_methods d;
            check(!ft_draft_methods_of(&d, &p, NULL) && !ft_llm_place(&m, &p, &d, NULL),
                  "no layers");
            snprintf(words, sizeof words, "%s", m.place);
            ft_dev_close(m.dev);
            ft_arena_free(arena);
        }
        check(strstr(words, want[i].words) != NULL, "-ngl %d: \"%s\", want \"%s\"", want[i].layers,
              words, want[i].words);
    }
    unlink(path);
}

/* Several GPUs, whose memory is only counted. */
static uint64_t gpu_room[3];

static uint64_t room_0(ft_dev *d)
{
    (void)d;
    return gpu_room[0];
}
static uint64_t room_1(ft_dev *d)
{
    (void)d;
    return gpu_room[1];
}
static uint64_t room_2(ft_dev *d)
{
    (void)d;
    return gpu_room[2];
}

static void place_on_gpus(const ft_llm_params *p, bool all, const char *want)
{
    static uint64_t (*const room[3])(ft_dev *) = {room_0, room_1, room_2};
    ft_llm m = {.path = (char *)(uintptr_t)p->model, .all_gpus = all};
    ft_draft_methods d;
    ft_err err = {0};
    for (int i = 0; i < 3; i++) {
        ft_dev *gpu = ft_dev_ref();
        gpu->name = i == 0 ? "gpu0" : i == 1 ? "gpu1" : "gpu2";
        gpu->unified = false;
        gpu->free_bytes = room[i];
        gpu->step_bytes = no_scratch;
        if (i)
            m.more[m.n_more++] = gpu;
        else
            m.dev = gpu;
    }
    ft_status st = ft_draft_methods_of(&d, p, &err);
    if (!st) st = ft_llm_place(&m, p, &d, &err);
    const char *words = st ? err.text : m.place;
    check(strstr(words, want) != NULL, "three GPUs: \"%s\", want \"%s\"", words, want);
    ft_dev_close(m.dev);
    for (int i = 0; i < m.n_more; i++) ft_dev_close(m.more[i]);
}

static void several_gpus(void)
{
    char path[128];
    inv_golden_file("qwen35-dense", path);
    ft_llm_params p = params(path);
    for (int i = 0; i < 3; i++) gpu_room[i] = UINT64_C(1) << 30;
    place_on_gpus(&p, false, "gpu0: layers 0 to 1, ");
    place_on_gpus(&p, true, "gpu0: all of the model");
    p.tensor_split = "0,1,3";
    place_on_gpus(&p, false, "gpu0: no layer, ");
    place_on_gpus(&p, false, "gpu2: layers ");
    p.tensor_split = "1,1,1,1";
    place_on_gpus(&p, false, "has more than 3 shares");
    p.tensor_split = "1,x";
    place_on_gpus(&p, false, "--tensor-split 1,x, want numbers");
    p.tensor_split = "0,0";
    place_on_gpus(&p, false, "want a share above 0");
    p.tensor_split = NULL;
    p.gpu_layers = 2;
    place_on_gpus(&p, false, "cpu: layers 0 to ");
    p.gpu_layers = -1;
    gpu_room[0] = gpu_room[1] = gpu_room[2] = 4400 << 10;
    place_on_gpus(&p, false, "; cpu: layers 0 to ");
    gpu_room[0] = gpu_room[2] = 1 << 30;
    gpu_room[1] = 1;
    place_on_gpus(&p, false, "gpu1 has 1 B to spare");
    unlink(path);
}

/* A drafter in a separate file counts with its weights, cache and buffers. */
static void drafters(void)
{
    static const char *const pair[][2] = {{"gemma4-dense", "gemma4-dense-assistant"},
                                          {"qwen35-dense", "qwen35-gqa"}};
    static inv_response alone, r;
    char path[128], draft[128], words[2000];
    for (size_t i = 0; i < FT_COUNT(pair); i++) {
        inv_golden_file(pair[i][0], path);
        inv_golden_file(pair[i][1], draft);
        ft_llm_params p = params(path);
        const uint64_t bare = response_on(&p, UINT64_MAX / 2, &alone, words);
        p.draft_model = draft;
        if (i) p.spec_type = "draft-simple";
        const uint64_t both = response_on(&p, UINT64_MAX / 2, &r, words);
        check(strstr(words, "all of the model") != NULL, "%s: %s", pair[i][1], words);
        check(both > bare, "%s: %llu bytes with a drafter, %llu without", pair[i][1],
              (unsigned long long)both, (unsigned long long)bare);
        check(inv_same(&alone, &r), "%s: different id at %d", pair[i][1],
              inv_first_difference(&alone, &r));
        response_on(&p, both - 1, &r, words);
        check(strstr(words, "cpu: layers 0 to") != NULL, "%s: %s", pair[i][1], words);
        unlink(path);
        unlink(draft);
    }
}

/* The largest image that the tower takes, encoded beside the placed model. Returns its tokens. */
static int encode_largest(const ft_llm *m, ft_vision *v, ft_err *err)
{
    ft_grid g;
    ft_status st = ft_vision_warm_up(v, 0, err);
    if (!st) st = ft_vision_fit(v, 2048, 2048, 0, 0, &g, err);
    const int T = st ? 0 : g.rows * g.cols;
    ft_image image = {.w = 64, .h = 64, .rgb = ft_new_n(unsigned char, 64 * 64 * 3)};
    float *out = ft_new_n(float, (size_t)(T * m->model->D) + 1);
    if (!st) st = ft_vision_encode(v, &image, &g, out, err);
    ft_image_release(&image);
    ft_free(out);
    return st ? 0 : T;
}

/* A vision tower and its largest image find memory on whatever GPU the model was placed on. */
static void images(void)
{
    char dir[64], model[128], tower[128], words[2000];
    static inv_response r;
    ft_synth_result made;
    ft_err err;
    folder_new(dir);
    snprintf(model, sizeof model, "%s/model.gguf", dir);
    snprintf(tower, sizeof tower, "%s/mmproj.gguf", dir);
    const ft_synth_opts text = {.shape = "micro", .type = "f16", .path = model, .seed = 1};
    const ft_synth_opts eye = {.shape = "micro-mmproj", .type = "f16", .path = tower, .seed = 1};
    check(!ft_synth(&made, &text, &err) && !ft_synth(&made, &eye, &err), "%s", err.text);
    ft_llm_params p = params(model);
    p.no_mmproj = true;
    const uint64_t whole = response_on(&p, UINT64_MAX / 2, &r, words);
    p.no_mmproj = false;
    int placed = 0;
    for (uint64_t bytes = 8 * whole; bytes > whole; bytes -= whole / 4) {
        ft_llm m = {.path = model, .dev = new_gpu(bytes)};
        ft_draft_methods d;
        ft_engine_params e;
        ft_gguf *file = NULL;
        ft_vision *v = NULL;
        ft_status st = ft_draft_methods_of(&d, &p, &err);
        if (!st) st = ft_llm_place(&m, &p, &d, &err);
        const bool fits = !st;
        if (!st) st = ft_llm_open_file(&m.model, m.path, m.dev, NULL, &p, &err);
        if (!st) st = ft_gguf_open(&file, tower, true, &err);
        if (!st)
            st = ft_vision_open(&v, file, ft_split_device(m.dev, FT_SPLIT_FAST), m.model->D, &err);
        if (!st) st = ft_llm_engine_params(&e, m.model, &p, &d, &err);
        if (!st) st = ft_engine_new(&m.engine, m.model, NULL, &e, &err);
        check(!fits || !st, "placed on a GPU of %llu bytes: %s", (unsigned long long)bytes,
              err.text);
        if (!st) {
            check(encode_largest(&m, v, &err) > 0, "the largest image on a GPU of %llu bytes: %s",
                  (unsigned long long)bytes, err.text);
            placed++;
        }
        ft_engine_free(m.engine);
        ft_vision_close(v);
        ft_model_close(m.model);
        ft_dev_close(m.dev);
        ft_arena_free(arena);
    }
    check(placed > 2, "%d placements with a vision tower, want several", placed);
    folder_free(dir);
}

int main(void)
{
    if (getenv("FT_TEST_DEV") && strcmp(getenv("FT_TEST_DEV"), "cpu")) return inv_end();
    unsigned char *memory = ft_alloc(RANGE + BLOCK);
    base = memory + (BLOCK - (uintptr_t)memory % BLOCK);
    shrinking("qwen35-dense", "cpu: layers 0 to 0");
    shrinking("qwen35-moe", "cpu: the embedding");
    shrinking("gemma4-dense", "cpu: layers 0 to 0");
    check_explicit();
    several_gpus();
    drafters();
    images();
    ft_free(memory);
    return inv_end();
}
