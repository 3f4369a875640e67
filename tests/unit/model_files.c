/* Model files as people download them: split into parts, with a different type in every tensor (as
 * "UD" mixes have), and with keys that this program does not know. Such files are written from the
 * small model with the project's own writer and encoders, and load and generate. */
#define _GNU_SOURCE
#include "base/mem.h"
#include "folder.h"
#include "foretoken.h"
#include "gguf/writer.h"
#include "quant/quant.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>

#define MODEL "models/foretoken-tiny.gguf"
enum { TOKENS = 6, PARTS = 4 };

static char folder[64];

typedef struct result {
    int32_t id[TOKENS];
    float logprob[TOKENS];
    int n;
} result;

static bool on_event(void *user, const ft_event *e)
{
    result *r = user;
    if (e->id < 0 || r->n == TOKENS) return true;
    r->id[r->n] = e->id;
    r->logprob[r->n++] = e->probs[0].logprob;
    return true;
}

/* The model predicts " Foundation" with a probability of 0.9: rounding does not change it. */
static result generate(const char *path, const char *device)
{
    ft_llm_params p;
    ft_llm *m = NULL;
    ft_err err;
    ft_llm_defaults(&p);
    p.model = path;
    p.device = device;
    p.ctx = 256;
    p.threads = 2;
    if (ft_llm_open(&m, &p, &err)) fail_msg("%s", err.text);
    ft_session *s = ft_session_new(m);
    ft_request r;
    ft_response out;
    result got = {0};
    static const char prompt[] = "Copyright (C) 2024 Free Software";
    ft_request_defaults(&r, m);
    r.prompt = prompt;
    r.prompt_bytes = sizeof prompt - 1;
    r.max_tokens = TOKENS;
    r.sampling.temperature = 0;
    r.top_logprobs = 0;
    r.ignore_eos = true;
    r.on_event = on_event;
    r.user = &got;
    if (ft_session_generate(s, &r, &out, &err)) fail_msg("%s", err.text);
    ft_session_free(s);
    ft_llm_close(m);
    assert_int_equal(got.n, TOKENS);
    return got;
}

static ft_gguf *open_model(void)
{
    ft_gguf *g;
    ft_err err;
    if (ft_gguf_open(&g, MODEL, true, &err)) fail_msg("%s", err.text);
    return g;
}

static ft_gguf_writer *start_file(const char *path)
{
    ft_gguf_writer *w;
    ft_err err;
    if (ft_gguf_writer_open(&w, path, &err)) fail_msg("%s", err.text);
    return w;
}

static void end_file(ft_gguf_writer *w)
{
    ft_err err;
    if (ft_gguf_writer_commit(w, &err)) fail_msg("%s", err.text);
}

static void begin_data(ft_gguf_writer *w)
{
    ft_err err;
    if (ft_gguf_writer_begin(w, &err)) fail_msg("%s", err.text);
}

static void put_keys(ft_gguf_writer *w, const ft_gguf *g)
{
    for (size_t i = 0; i < ft_gguf_n_kv(g); i++) ft_gguf_put_kv(w, ft_gguf_kv_at(g, i));
}

/* Keys of other tools: notes of quantizers, tags, values of every kind. */
static void put_extra_keys(ft_gguf_writer *w)
{
    static const ft_str tags[] = {{"text-generation", 15}, {"", 0}, {"\xc3\xa9", 2}};
    static const float numbers[] = {1, 2.5f};
    ft_gguf_put_str_array(w, "general.tags", tags, FT_COUNT(tags));
    ft_gguf_put_str(w, "general.quantized_by", FT_STR("somebody"));
    ft_gguf_put_str(w, "quantize.imatrix.file", FT_STR("imatrix.gguf"));
    ft_gguf_put_i32(w, "quantize.imatrix.entries_count", 123);
    ft_gguf_put_bool(w, "mradermacher.convert_type", true);
    ft_gguf_put_array(w, "some.tool.numbers", FT_GGUF_F32, numbers, FT_COUNT(numbers));
    ft_gguf_put_array(w, "some.tool.empty", FT_GGUF_U8, numbers, 0);
    ft_gguf_put_f32(w, "some.tool.nan", NAN);
}

static void split_and_extra_keys(void **state)
{
    (void)state;
    ft_gguf *g = open_model();
    const size_t n = ft_gguf_n_tensor(g);
    char first[200] = "";
    for (int part = 0; part < PARTS;
         part++) { /* the first has no tensors, as llama.cpp writes it */
        char path[200];
        snprintf(path, sizeof path, "%s/m-%05d-of-%05d.gguf", folder, part + 1, PARTS);
        if (!part) memcpy(first, path, sizeof path);
        ft_gguf_writer *w = start_file(path);
        if (!part) put_keys(w, g);
        if (!part) put_extra_keys(w);
        ft_gguf_put_u32(w, "split.no", (uint32_t)part);
        ft_gguf_put_u32(w, "split.count", PARTS);
        ft_gguf_put_i32(w, "split.tensors.count", (int32_t)n);
        size_t at[1000], k = 0;
        for (size_t i = 0; i < n; i++) {
            const ft_gguf_tensor *t = ft_gguf_tensor_at(g, i);
            if (!part || i % (PARTS - 1) != (size_t)part - 1) continue;
            assert_true(k < FT_COUNT(at));
            ft_gguf_put_tensor(w, t->name.p, t->type, t->n_dims, t->n);
            at[k++] = i;
        }
        begin_data(w);
        for (size_t i = 0; i < k; i++) {
            const ft_gguf_tensor *t = ft_gguf_tensor_at(g, at[i]);
            ft_gguf_writer_data(w, i, 0, t->data, t->bytes);
        }
        end_file(w);
    }
    ft_gguf_close(g);
    const result whole = generate(MODEL, "cpu"), parts = generate(first, "cpu");
    assert_memory_equal(whole.id, parts.id, sizeof whole.id);
    assert_memory_equal(whole.logprob, parts.logprob, sizeof whole.logprob);
}

/* The next type of the mix that rows of n values can have. */
static ft_type next_type(size_t *turn, int64_t n)
{
    static const ft_type mix[] = {FT_Q4_0, FT_Q8_0, FT_Q5_K,   FT_Q4_1,   FT_Q6_K, FT_F16,
                                  FT_Q5_0, FT_Q4_K, FT_IQ4_NL, FT_IQ4_XS, FT_Q5_1, FT_BF16};
    ft_type t;
    do t = mix[(*turn)++ % FT_COUNT(mix)];
    while (n % ft_type_of(t)->elems);
    return t;
}

static void every_tensor_another_type(void **state)
{
    (void)state;
    char path[200];
    ft_gguf *g = open_model();
    const size_t n = ft_gguf_n_tensor(g);
    size_t turn = 0, mixed = 0;
    ft_type *type = ft_new_n(ft_type, n);
    snprintf(path, sizeof path, "%s/model-UD-Q4_K_XL.gguf", folder);
    ft_gguf_writer *w = start_file(path);
    put_keys(w, g);
    for (size_t i = 0; i < n; i++) {
        const ft_gguf_tensor *t = ft_gguf_tensor_at(g, i);
        const bool matrix = ft_type_of(t->type)->quant;
        type[i] = matrix ? next_type(&turn, t->n[0]) : t->type;
        mixed += matrix && type[i] != t->type;
        ft_gguf_put_tensor(w, t->name.p, type[i], t->n_dims, t->n);
    }
    begin_data(w);
    for (size_t i = 0; i < n; i++) {
        const ft_gguf_tensor *t = ft_gguf_tensor_at(g, i);
        if (type[i] == t->type) {
            ft_gguf_writer_data(w, i, 0, t->data, t->bytes);
            continue;
        }
        const size_t values = (size_t)(t->n[0] * t->n[1] * t->n[2] * t->n[3]);
        const size_t bytes = ft_gguf_writer_tensor_bytes(w, i);
        float *f = ft_new_n(float, values);
        void *to = ft_alloc(bytes);
        ft_row_decode(t->type, f, t->data, values);
        ft_row_encode(type[i], to, f, values, NULL);
        ft_gguf_writer_data(w, i, 0, to, bytes);
        ft_free(to);
        ft_free(f);
    }
    end_file(w);
    ft_free(type);
    ft_gguf_close(g);
    assert_true(mixed > 40);
    const result plain = generate(MODEL, "cpu"), cpu = generate(path, "cpu"),
                 ref = generate(path, "ref");
    assert_int_equal(cpu.id[0], plain.id[0]);
    assert_int_equal(ref.id[0], plain.id[0]);
    assert_true(fabsf(cpu.logprob[0] - plain.logprob[0]) < 0.5f);
    assert_true(fabsf(cpu.logprob[0] - ref.logprob[0]) < 0.1f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(split_and_extra_keys),
        cmocka_unit_test(every_tensor_another_type),
    };
    folder_new(folder);
    const int rc = cmocka_run_group_tests(tests, NULL, NULL);
    folder_free(folder);
    return rc;
}
