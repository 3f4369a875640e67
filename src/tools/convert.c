#define _XOPEN_SOURCE 700
#include "tools/convert.h"

#include "base/log.h"
#include "base/mem.h"
#include "quant/quant.h"
#include "tools/convert_rows.h"
#include "tools/hf.h"
#include "tools/mix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- general keys ---- */

static void put_name(ft_hf *h)
{
    char *full = realpath(h->dir, NULL); /* a folder may be given as "." */
    const char *name = full && strrchr(full, '/') ? strrchr(full, '/') + 1 : h->dir;
    ft_gguf_put_str(h->w, "general.name", ft_str_of(name));
    free(full);
}

static void put_size_label(ft_hf *h)
{
    int64_t n = 0;
    for (size_t i = 0; i < h->plan.n; i++) n += h->plan.item[i].rows * h->plan.item[i].cols;
    static const struct {
        double unit;
        char letter;
    } scale[] = {{1e12, 'T'}, {1e9, 'B'}, {1e6, 'M'}, {1e3, 'K'}};
    for (size_t i = 0; i < FT_COUNT(scale); i++) {
        const double x = (double)n / scale[i].unit;
        if (x < 1) continue;
        char text[32];
        snprintf(text, sizeof text, x < 10 ? "%.1f%c" : "%.0f%c", x, scale[i].letter);
        ft_gguf_put_str(h->w, "general.size_label", ft_str_of(text));
        return;
    }
}

/* Writes the recommendations of generation_config.json as the sampling defaults of the file. */
static void put_sampling(ft_hf *h)
{
    ft_hf_obj g = {.at = {h->generation}, .file = "generation_config.json", .note = &h->note};
    if (!ft_hf_bool_or(&g, "do_sample", true)) return;
    static const struct {
        const char *hf, *gguf;
    } row[] = {
        {"temperature", "general.sampling.temp"},
        {"top_p", "general.sampling.top_p"},
        {"min_p", "general.sampling.min_p"},
        {"repetition_penalty", "general.sampling.penalty_repeat"},
    };
    for (size_t i = 0; i < FT_COUNT(row); i++)
        if (ft_hf_has(&g, row[i].hf))
            ft_gguf_put_f32(h->w, row[i].gguf, (float)ft_hf_num_or(&g, row[i].hf, 0, 100, 1));
    if (ft_hf_has(&g, "top_k"))
        ft_gguf_put_i32(h->w, "general.sampling.top_k",
                        (int32_t)ft_hf_int_or(&g, "top_k", 0, 1 << 24, 0));
}

static void put_general(ft_hf *h, ft_type type, const ft_convert_opts *o)
{
    const bool vocab_only = o->vocab_only;
    static const struct {
        ft_type type;
        uint32_t file;
    } file[] = {{FT_F32, 0}, {FT_F16, 1}, {FT_Q8_0, 7}, {FT_BF16, 32}};
    ft_gguf_put_str(h->w, "general.type",
                    vocab_only  ? FT_STR("vocab")
                    : o->vision ? FT_STR("mmproj")
                                : FT_STR("model"));
    put_name(h);
    if (!vocab_only) put_size_label(h);
    if (!o->vision) put_sampling(h);
    for (size_t i = 0; i < FT_COUNT(file); i++)
        if (file[i].type == type) ft_gguf_put_u32(h->w, "general.file_type", file[i].file);
    ft_gguf_put_u32(h->w, "general.quantization_version", 2);
}

/* ---- types ---- */

/* The type of most values of the checkpoint; 8-bit floats count as BF16. */
static ft_type natural_type(const ft_hf *h)
{
    int64_t n[3] = {0};
    for (size_t i = 0; i < h->plan.n; i++) {
        const ft_hf_item *it = &h->plan.item[i];
        if (!it->src || it->type == FT_I32) continue;
        const ft_st_type t = it->src[0].t->type;
        n[t == FT_ST_F32 ? 0 : t == FT_ST_F16 ? 1 : 2] += it->rows * it->cols;
    }
    if (n[2] >= n[0] && n[2] >= n[1]) return FT_BF16;
    return n[1] >= n[0] ? FT_F16 : FT_F32;
}

static void choose_types(ft_hf *h, ft_type natural, ft_type wanted)
{
    for (size_t i = 0; i < h->plan.n; i++) {
        ft_hf_item *it = &h->plan.item[i];
        if (it->type != FT_TYPE_MAX) continue;
        const ft_str name = ft_str_of(it->name);
        const bool plain = ft_str_find(name, FT_STR("per_layer_model_proj"), 0) != SIZE_MAX;
        if (plain)
            it->type = ft_type_of(wanted)->quant ? natural : wanted;
        else if (ft_mix_keeps(name, it->n_dims))
            it->type = FT_F32;
        else
            it->type = ft_mix_fit(wanted, it->cols);
    }
}

/* Of a tower: biases, norms, scalars and positions stay F32; the patch kernel has four dimensions,
 * and half floats are all that other programs read of it. */
static void choose_vision_types(ft_hf *h, ft_type wanted)
{
    for (size_t i = 0; i < h->plan.n; i++) {
        ft_hf_item *it = &h->plan.item[i];
        if (ft_str_starts(ft_str_of(it->name), FT_STR("v.patch_embd.weight")))
            it->type = wanted == FT_F16 ? FT_F16 : FT_F32;
        else if (ft_mix_keeps(ft_str_of(it->name), it->n_dims))
            it->type = FT_F32;
        else
            it->type = ft_mix_fit(wanted, it->cols);
    }
}

/* ---- data ---- */

typedef struct stream {
    ft_hf *h;
    size_t *tensor; /* the writer's index of each item */
    float **value, **scratch;
    unsigned char **bytes;
    ft_progress *progress;
} stream;

static bool same_type(const ft_hf_item *it)
{
    if (it->made || it->how & (FT_HF_PLUS_ONE | FT_HF_NEG_EXP | FT_HF_CHANNELS) || it->col_unit)
        return false;
    const ft_st_type t = it->src[0].t->type;
    for (int i = 0; i < it->n_src; i++)
        if (it->src[i].t->type != t) return false;
    return (it->type == FT_F32 && t == FT_ST_F32) || (it->type == FT_F16 && t == FT_ST_F16) ||
           (it->type == FT_BF16 && t == FT_ST_BF16);
}

/* Copies rows that keep their type and only change position. */
static void copy_rows(stream *s, size_t i, int64_t first, int64_t n)
{
    const ft_hf_plan *p = &s->h->plan;
    const ft_hf_item *it = &p->item[i];
    const size_t row = ft_type_row(it->type, (size_t)it->cols);
    for (int64_t r = first; r < first + n;) {
        int part, other;
        const int64_t from = ft_hf_source_row(p, it, r, &part);
        int64_t convert_model = 1;
        while (r + convert_model < first + n &&
               ft_hf_source_row(p, it, r + convert_model, &other) == from + convert_model &&
               other == part)
            convert_model++;
        ft_gguf_writer_data(s->h->w, s->tensor[i], (size_t)r * row,
                            (const char *)it->src[part].t->data + (size_t)from * row,
                            (size_t)convert_model * row);
        r += convert_model;
    }
}

static void write_ids(stream *s, size_t i, int64_t first, int64_t n, unsigned char *bytes)
{
    const char *src = s->h->plan.item[i].src[0].t->data;
    for (int64_t k = 0; k < n; k++) {
        int64_t id;
        memcpy(&id, src + (first + k) * 8, 8);
        const int32_t id32 = (int32_t)id;
        memcpy(bytes + k * 4, &id32, 4);
    }
    ft_gguf_writer_data(s->h->w, s->tensor[i], (size_t)first * 4, bytes, (size_t)n * 4);
}

static bool convert_rows(void *arg, int thread, size_t i, int64_t first, int64_t n)
{
    stream *s = arg;
    const ft_hf_item *it = &s->h->plan.item[i];
    unsigned char *bytes = s->bytes[thread];
    if (it->type == FT_I32) { /* one row of ids */
        write_ids(s, i, first * it->cols, n * it->cols, bytes);
    } else if (same_type(it)) {
        copy_rows(s, i, first, n);
    } else {
        const size_t row = ft_type_row(it->type, (size_t)it->cols);
        for (int64_t r = 0; r < n; r++) {
            ft_hf_read_row(&s->h->plan, it, first + r, s->value[thread], s->scratch[thread]);
            ft_row_encode(it->type, bytes + (size_t)r * row, s->value[thread], (size_t)it->cols,
                          NULL);
        }
        ft_gguf_writer_data(s->h->w, s->tensor[i], (size_t)first * row, bytes, (size_t)n * row);
    }
    ft_progress_add(s->progress, (uint64_t)n * ft_type_row(it->type, (size_t)it->cols));
    return true;
}

static ft_status write_tensors(ft_hf *h, const ft_convert_opts *o, ft_err *err)
{
    ft_hf_plan *p = &h->plan;
    stream s = {.h = h, .tensor = ft_new_n(size_t, p->n + 1)};
    ft_rows *rows = ft_new_n(ft_rows, p->n + 1);
    uint64_t total = 0;
    for (size_t i = 0; i < p->n; i++) {
        const ft_hf_item *it = &p->item[i];
        s.tensor[i] = ft_gguf_put_tensor(h->w, it->name, it->type, it->n_dims, it->n);
        rows[i] = (ft_rows){it->rows, it->cols};
        total += (uint64_t)it->rows * ft_type_row(it->type, (size_t)it->cols);
    }
    const ft_status st = ft_gguf_writer_begin(h->w, err);
    if (!st && p->n) {
        ft_pool *pool = ft_pool_new(o->threads, 0);
        const size_t threads = (size_t)ft_pool_threads(pool);
        const size_t most = (size_t)ft_rows_values(rows, p->n);
        s.value = ft_new_n(float *, threads);
        s.scratch = ft_new_n(float *, threads);
        s.bytes = ft_new_n(unsigned char *, threads);
        for (size_t t = 0; t < threads; t++) {
            s.value[t] = ft_new_n(float, most);
            s.scratch[t] = ft_new_n(float, most);
            s.bytes[t] = ft_new_n(unsigned char, most * 4);
        }
        s.progress = ft_progress_new("convert", total, o->progress, NULL);
        ft_rows_run(pool, rows, p->n, convert_rows, &s);
        ft_progress_free(s.progress);
        for (size_t t = 0; t < threads; t++) {
            ft_free(s.value[t]);
            ft_free(s.scratch[t]);
            ft_free(s.bytes[t]);
        }
        ft_free(s.value);
        ft_free(s.scratch);
        ft_free(s.bytes);
        ft_pool_free(pool);
    }
    ft_free(rows);
    ft_free(s.tensor);
    return st;
}

/* ---- conversion ---- */

static ft_status convert_model(ft_hf *h, const ft_convert_opts *o, ft_type wanted,
                               ft_convert_result *result, ft_err *err)
{
    if (o->vision)
        h->family->build_vision(h);
    else
        h->family->build(h);
    if (h->note.st) return h->note.st;
    const ft_type natural = o->vocab_only || o->vision ? FT_BF16 : natural_type(h);
    const ft_type type = wanted == FT_TYPE_MAX ? natural : wanted;
    if (o->vision)
        choose_vision_types(h, type);
    else
        choose_types(h, natural, type);
    put_general(h, type, o);
    ft_status st = FT_OK;
    if (o->vision)
        ; /* no vocabulary */
    else if (o->no_vocab)
        ft_gguf_put_str(h->w, "tokenizer.ggml.model", FT_STR("none"));
    else
        st = ft_hf_vocab(h, err);
    if (!st) st = h->note.st;
    if (!st) st = write_tensors(h, o, err);
    if (st) return st;
    if (result)
        *result = (ft_convert_result){.bytes = ft_gguf_writer_file_bytes(h->w),
                                      .tensors = h->plan.n,
                                      .arch = h->arch,
                                      .type = ft_type_name(type),
                                      .vision = ft_hf_has_vision(h)};
    ft_gguf_writer *w = h->w;
    h->w = NULL;
    return ft_gguf_writer_commit(w, err);
}

ft_status ft_convert(const char *dir, const char *out, const ft_convert_opts *o,
                     ft_convert_result *result, ft_err *err)
{
    ft_type wanted = FT_TYPE_MAX;
    const bool given = o->outtype && strcmp(o->outtype, "auto");
    if (given && !ft_type_find(ft_str_of(o->outtype), &wanted))
        return ft_fail(err, FT_EINVAL, "outtype is \"%s\", want f32, f16, bf16, q8_0 or auto",
                       o->outtype);
    if (o->vocab_only && o->no_vocab)
        return ft_fail(err, FT_EINVAL, "--vocab-only and --no-vocab leave nothing to write");
    ft_hf h;
    ft_err own;
    ft_status st =
        ft_hf_open(&h, dir, !o->vocab_only, !o->no_vocab && !o->vision, err ? err : &own);
    h.mtp = o->mtp;
    if (!st) st = ft_gguf_writer_open(&h.w, out, err);
    if (!st) st = convert_model(&h, o, wanted, result, err ? err : &own);
    ft_gguf_writer_abort(h.w);
    ft_hf_close(&h);
    return st;
}
