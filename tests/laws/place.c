/* tests/laws/place.c - a model that does not fit onto its device: what lies there then is as much
 * as fits, it was counted beforehand, and the ids stay. The device is ref with a made-up memory. */
#define _XOPEN_SOURCE 700
#include "laws.h"

#include "dev/host.h"
#include "ft_llm.h"

#include <limits.h>

static uint64_t have, taken;

static uint64_t room(ft_dev *d)
{
    (void)d;
    return have - taken;
}

static void *count_alloc(ft_dev *d, size_t bytes)
{
    taken += bytes;
    return ft_host_alloc(d, bytes);
}

static ft_status count_bind(ft_dev *d, ft_weight *w, const void *host, ft_err *err)
{
    const ft_status st = ft_host_bind(d, w, host, err);
    taken += ft_host_weight_bytes(d, w);
    return st;
}

static uint64_t no_scratch(ft_dev *d, const ft_dev_limits *l)
{
    (void)d, (void)l;
    return 0;
}

static ft_dev *card(uint64_t bytes)
{
    ft_dev *d = ft_dev_ref();
    have = bytes;
    taken = 0;
    d->name = "card";
    d->unified = false;
    d->room = room;
    d->alloc = count_alloc;
    d->bind = count_bind;
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
    p.quiet = true;
    p.fit_target = 0;
    return p;
}

/* The model on a card of so many bytes; a greedy reply. Returns what was expected to lie there. */
static uint64_t reply_on(const ft_llm_params *p, uint64_t bytes, law_reply *r, char words[500])
{
    ft_llm m = {.path = (char *)(uintptr_t)p->model, .dev = card(bytes)};
    ft_drafters d;
    ft_engine_params e;
    ft_err err;
    ft_status st = ft_drafters_of(&d, p, &err);
    if (!st) st = ft_llm_place(&m, p, &d, &err);
    if (!st) st = ft_llm_open_file(&m.model, m.path, m.dev, NULL, p, &err);
    if (!st) st = ft_llm_engine_params(&e, m.model, p, &d, &err);
    if (!st) st = ft_engine_new(&m.engine, m.model, NULL, &e, &err);
    snprintf(words, 500, "%s", st ? err.text : m.place);
    if (!st) {
        int32_t ids[40];
        law_prompt(ids, 40, m.model->V, 1);
        const ft_task j = law_job(16, 3);
        law_reply_on(r, ft_lane_new(m.engine), &j, ids, 40);
        const double off = (double)m.info.device_bytes / (double)taken - 1;
        law(off < 0.03 && off > -0.03, "%s: %llu bytes expected, %llu taken", words,
            (unsigned long long)m.info.device_bytes, (unsigned long long)taken);
    }
    ft_engine_free(m.engine);
    ft_model_close(m.model);
    ft_dev_close(m.dev);
    return m.info.device_bytes;
}

static void shrinking(const char *name, const char *leaves_first)
{
    static law_reply all, some;
    char path[128], words[500];
    law_golden_file(name, path);
    const ft_llm_params p = params(path);
    const uint64_t whole = reply_on(&p, UINT64_MAX / 2, &all, words);
    law(strstr(words, "card: all of the model") != NULL, "%s: %s, want all of it", name, words);
    uint64_t last = whole;
    int steps = 0, sentences = 0;
    for (uint64_t bytes = whole - 1; bytes > whole / 8; bytes -= whole / 9) {
        const uint64_t on = reply_on(&p, bytes, &some, words);
        if (strstr(words, "to spare")) {
            sentences++;
            continue;
        }
        law(on <= bytes && on <= last && on > 0, "%s: %llu bytes on a card of %llu", name,
            (unsigned long long)on, (unsigned long long)bytes);
        if (!steps++)
            law(strstr(words, leaves_first) != NULL, "%s: %s, want %s", name, words, leaves_first);
        law(!sentences, "%s: fits after it did not", name);
        last = on;
    }
    law(steps > 1, "%s: %d ways to fit, want several", name, steps);
    reply_on(&p, 1, &some, words);
    law(strstr(words, "card has 1 B to spare") != NULL, "%s on no card: %s", name, words);
    unlink(path);
}

/* What was asked for stays as it is, fitting or not. */
static void asked(void)
{
    static law_reply r;
    char path[128], words[500];
    law_golden_file("qwen35-moe", path);
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
            reply_on(&p, UINT64_MAX / 2, &r, words);
        } else {
            ft_llm m = {.path = path, .dev = card(1 << 20)};
            ft_drafters d;
            law(!ft_drafters_of(&d, &p, NULL) && !ft_llm_place(&m, &p, &d, NULL), "no layers");
            snprintf(words, sizeof words, "%s", m.place);
            ft_dev_close(m.dev);
        }
        law(strstr(words, want[i].words) != NULL, "-ngl %d: \"%s\", want \"%s\"", want[i].layers,
            words, want[i].words);
    }
    unlink(path);
}

int main(void)
{
    if (getenv("FT_TEST_DEV") && strcmp(getenv("FT_TEST_DEV"), "cpu")) return law_end();
    shrinking("qwen35-dense", "cpu: layers 0 to 0");
    shrinking("qwen35-moe", "experts of layers 0 to 0");
    shrinking("gemma4-dense", "cpu: layers 0 to 0");
    asked();
    return law_end();
}
