#include "tools/hf.h"

#include "base/buf.h"
#include "base/mem.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- the folder ---- */

static const ft_hf_family *const families[] = {&ft_hf_qwen35, &ft_hf_gemma4};

static bool has_word(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *p = list; n && (p = strstr(p, word)); p += n)
        if ((p == list || p[-1] == ' ') && (p[n] == 0 || p[n] == ' ')) return true;
    return false;
}

static ft_status find_family(ft_hf *h, ft_err *err)
{
    const json_t *v = json_object_get(h->config, "model_type");
    const char *type = v && json_is_string(v) ? json_string_value(v) : "";
    for (size_t i = 0; i < FT_COUNT(families); i++)
        if (has_word(families[i]->model_types, type)) {
            h->family = families[i];
            return FT_OK;
        }
    return ft_fail(err, FT_EUNSUPPORTED,
                   "%s/config.json: model_type is \"%.60s\", want qwen3_5, qwen3_5_moe, gemma4 or "
                   "gemma4_assistant",
                   h->dir, type);
}

static ft_status open_weights(ft_hf *h, ft_err *err)
{
    ft_status st = ft_st_open(&h->st, h->dir, err);
    if (st) return st;
    const size_t n = ft_st_n_tensor(h->st);
    h->used = ft_new_n(bool, n + 1);
    h->name = ft_new_n(char *, n + 1);
    for (size_t i = 0; i < n; i++) {
        const ft_str full = ft_st_tensor_at(h->st, i)->name, part = FT_STR("language_model.");
        const size_t at = ft_str_find(full, part, 0);
        const size_t head = at == SIZE_MAX ? full.n : at;
        const size_t tail = at == SIZE_MAX ? full.n : at + part.n;
        h->name[i] = ft_alloc(full.n + 1);
        memcpy(h->name[i], full.p, head);
        memcpy(h->name[i] + head, full.p + tail, full.n - tail);
        if (!ft_dict_put(&h->by_name, ft_str_of(h->name[i]), (uint32_t)i))
            return ft_fail(err, FT_EFORMAT, "%s: two tensors are called %.200s", h->dir,
                           h->name[i]);
    }
    return FT_OK;
}

ft_status ft_hf_setup(ft_hf *h, const char *dir, ft_err *err)
{
    h->dir = dir;
    h->note.err = err;
    if (!h->config)
        return ft_fail(err, FT_ENOTFOUND, "%s: no config.json, want a folder in Hugging Face form",
                       dir);
    const ft_status st = find_family(h, err);
    if (st) return st;
    json_t *text = json_object_get(h->config, "text_config");
    h->cfg = (ft_hf_obj){.at = {json_is_object(text) ? text : h->config, h->config},
                         .file = "config.json",
                         .note = &h->note};
    ft_hf_obj quant = ft_hf_inner(&h->cfg, "quantization_config");
    const json_t *block = ft_hf_get(&quant, "weight_block_size");
    h->plan.block_r = h->plan.block_c = 128;
    if (block) {
        h->plan.block_r = json_integer_value(json_array_get(block, 0));
        h->plan.block_c = json_integer_value(json_array_get(block, 1));
    }
    if (h->plan.block_r < 1 || h->plan.block_c < 1 ||
        FT_MAX(h->plan.block_r, h->plan.block_c) >> 20)
        ft_hf_bad(&h->cfg, "weight_block_size is not two numbers from 1 to 1048575");
    return h->note.st;
}

ft_status ft_hf_open(ft_hf *h, const char *dir, bool weights, bool vocab, ft_err *err)
{
    struct {
        const char *name;
        json_t **to;
        bool wanted;
    } file[] = {
        {"config.json", &h->config, true},
        {"generation_config.json", &h->generation, true},
        {"tokenizer.json", &h->tokenizer, vocab},
        {"tokenizer_config.json", &h->tokenizer_config, vocab},
        {"preprocessor_config.json", &h->preprocessor, weights},
        {"processor_config.json", &h->processor, weights},
    };
    memset(h, 0, sizeof *h);
    ft_dict_init(&h->by_name);
    ft_status st = FT_OK;
    for (size_t i = 0; i < FT_COUNT(file) && !st; i++) {
        if (file[i].wanted) st = ft_hf_json_load(file[i].to, dir, file[i].name, err);
        if (!st && i == 0) st = ft_hf_setup(h, dir, err);
    }
    if (!st && weights) st = open_weights(h, err);
    return st;
}

void ft_hf_close(ft_hf *h)
{
    for (size_t i = 0; i < h->plan.n; i++) {
        ft_free(h->plan.item[i].src);
        ft_free(h->plan.item[i].made);
    }
    ft_free(h->plan.item);
    ft_dict_release(&h->by_name);
    for (size_t i = 0; h->name && i < ft_st_n_tensor(h->st); i++) ft_free(h->name[i]);
    ft_free(h->name);
    ft_free(h->used);
    ft_st_close(h->st);
    json_decref(h->config);
    json_decref(h->generation);
    json_decref(h->tokenizer);
    json_decref(h->tokenizer_config);
    json_decref(h->preprocessor);
    json_decref(h->processor);
}

/* ---- keys ---- */

static const char *full_key(const ft_hf *h, const char *key, char out[128])
{
    snprintf(out, 128, "%s.%s", h->arch, key);
    return out;
}

void ft_hf_key_u32(ft_hf *h, const char *key, int64_t v)
{
    char k[128];
    ft_gguf_put_u32(h->w, full_key(h, key, k), (uint32_t)v);
}

void ft_hf_key_f32(ft_hf *h, const char *key, double v)
{
    char k[128];
    ft_gguf_put_f32(h->w, full_key(h, key, k), (float)v);
}

void ft_hf_key_bool(ft_hf *h, const char *key, bool v)
{
    char k[128];
    ft_gguf_put_bool(h->w, full_key(h, key, k), v);
}

void ft_hf_key_i32s(ft_hf *h, const char *key, const int32_t *v, size_t n)
{
    char k[128];
    ft_gguf_put_array(h->w, full_key(h, key, k), FT_GGUF_I32, v, n);
}

bool ft_hf_tied(ft_hf *h)
{
    const json_t *v = json_object_get(h->config, "tie_word_embeddings");
    if (json_is_boolean(v)) return json_is_true(v);
    return ft_hf_bool_or(&h->cfg, "tie_word_embeddings", !ft_hf_tensor_has(h, "lm_head.weight"));
}

bool *ft_hf_layer_types(ft_hf *h, int64_t L, const char *yes, const char *no)
{
    const json_t *list = ft_hf_get(&h->cfg, "layer_types");
    if (!list) return NULL;
    if (!json_is_array(list) || (int64_t)json_array_size(list) != L) {
        ft_hf_bad(&h->cfg, "layer_types has %zu entries, want %lld", json_array_size(list),
                  (long long)L);
        return NULL;
    }
    bool *flag = ft_new_n(bool, (size_t)L);
    for (int64_t i = 0; i < L; i++) {
        const json_t *v = json_array_get(list, (size_t)i);
        const char *s = json_is_string(v) ? json_string_value(v) : "";
        flag[i] = !strcmp(s, yes);
        if (flag[i] || !strcmp(s, no)) continue;
        ft_hf_bad(&h->cfg, "layer_types[%lld] is \"%.60s\", want %s or %s", (long long)i, s, yes,
                  no);
        ft_free(flag);
        return NULL;
    }
    return flag;
}

/* ---- the plan ---- */

static void bad(ft_hf *h, const char *fmt, ...) FT_PRINTF(2, 3);
static void bad(ft_hf *h, const char *fmt, ...)
{
    if (h->note.st) return;
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    h->note.st = ft_fail(h->note.err, FT_EFORMAT, "%s: %s", h->dir, text);
}

static const char *shape_text(char out[96], int n_dims, const int64_t *shape)
{
    size_t at = (size_t)snprintf(out, 96, "[");
    for (int i = 0; i < n_dims && at < 80; i++)
        at += (size_t)snprintf(out + at, 96 - at, "%s%lld", i ? ", " : "", (long long)shape[i]);
    snprintf(out + at, 96 - at, "]");
    return out;
}

static const ft_st_tensor *find(const ft_hf *h, const char *name, bool mark)
{
    uint32_t i;
    if (!h->st || !ft_dict_find(&h->by_name, ft_str_of(name), &i)) return NULL;
    if (mark) h->used[i] = true;
    return ft_st_tensor_at(h->st, i);
}

bool ft_hf_tensor_has(const ft_hf *h, const char *name)
{
    return find(h, name, false) != NULL;
}

static ft_hf_item *new_item(ft_hf *h, const char *prefix, const char *name, int n_src)
{
    ft_hf_plan *p = &h->plan;
    if (p->n == p->cap) {
        p->cap = p->cap ? 2 * p->cap : 64;
        p->item = ft_realloc(p->item, p->cap * sizeof *p->item);
    }
    ft_hf_item *it = &p->item[p->n++];
    memset(it, 0, sizeof *it);
    snprintf(it->name, sizeof it->name, "%s%s", prefix, name);
    it->type = FT_TYPE_MAX;
    it->n_src = n_src;
    it->src = n_src ? ft_new_n(ft_hf_part, (size_t)n_src) : NULL;
    return it;
}

/* The scales beside an 8-bit float tensor: one per block of its last two dimensions. */
static bool find_scale(ft_hf *h, const char *name, const ft_st_tensor *t, ft_hf_part *part)
{
    char scale[300], have[96], want[96];
    if (snprintf(scale, sizeof scale, "%s_scale_inv", name) >= (int)sizeof scale) return false;
    part->scale = find(h, scale, true);
    if (!part->scale) {
        bad(h, "tensor %s is F8_E4M3 without %s beside it", name, scale);
        return false;
    }
    int64_t shape[8];
    memcpy(shape, t->shape, sizeof shape);
    const int d = t->n_dims;
    if (d >= 2) {
        shape[d - 2] = (shape[d - 2] + h->plan.block_r - 1) / h->plan.block_r;
        shape[d - 1] = (shape[d - 1] + h->plan.block_c - 1) / h->plan.block_c;
    }
    if (d >= 2 && part->scale->n_dims == d && part->scale->type != FT_ST_OTHER &&
        !memcmp(part->scale->shape, shape, (size_t)d * sizeof *shape))
        return true;
    bad(h, "tensor %s: shape %s, want %s", scale,
        shape_text(have, part->scale->n_dims, part->scale->shape), shape_text(want, d, shape));
    return false;
}

/* Finds the tensor, checks shape and type, and fills the part; false after an error. */
static bool take_part(ft_hf *h, ft_hf_part *part, const char *name, int n_dims,
                      const int64_t *shape, unsigned how)
{
    const ft_st_tensor *t = find(h, name, true);
    char have[96], want[96];
    if (!t) {
        bad(h, "tensor %s is missing, want shape %s", name, shape_text(want, n_dims, shape));
        return false;
    }
    bool same = t->n_dims == n_dims;
    for (int i = 0; same && i < n_dims; i++)
        same = t->shape[i] == shape[i] ||
               (i == 0 && (how & FT_HF_MORE_ROWS) && t->shape[i] > shape[i]);
    if (!same) {
        bad(h, "tensor %s: shape %s, want %s", name, shape_text(have, t->n_dims, t->shape),
            shape_text(want, n_dims, shape));
        return false;
    }
    part->t = t;
    switch (t->type) {
    case FT_ST_F32:
    case FT_ST_F16:
    case FT_ST_BF16: return true;
    case FT_ST_F8_E4M3: return find_scale(h, name, t, part);
    default:
        bad(h, "tensor %s: type %s, want F32, F16, BF16 or F8_E4M3", name, t->type_name);
        return false;
    }
}

/* How rows and columns move, from the flags and the output shape. */
static void set_moves(const ft_hf_plan *p, ft_hf_item *it, unsigned how)
{
    it->how = how;
    it->cols = it->n[0];
    it->rows = 1;
    for (int i = 1; i < it->n_dims; i++) it->rows *= it->n[i];
    if (it->n_dims == 1 && (how & FT_HF_HEADS_ONE)) {
        it->rows = it->cols;
        it->cols = 1;
    }
    if (how & FT_HF_HEADS) it->row_unit = p->S;
    if (how & FT_HF_HEADS_ONE) it->row_unit = 1;
    if (how & FT_HF_HEADS_TAIL) {
        it->row_unit = p->S;
        it->row_first = 2 * p->Hk * p->S;
    }
    if (how & FT_HF_HEADS_COLS) it->col_unit = p->S;
}

static void add_row(ft_hf *h, const char *hf, const char *gguf, const ft_hf_row *row)
{
    ft_hf_plan *p = &h->plan;
    char name[256];
    int64_t shape[5];
    int n_dims = 0;
    snprintf(name, sizeof name, "%s%s", hf, row->hf);
    if ((row->how & FT_HF_OPTIONAL) && !ft_hf_tensor_has(h, name)) return;
    while (n_dims < 5 && row->shape[n_dims] != FT_HF_END) {
        shape[n_dims] = p->dim[row->shape[n_dims]];
        n_dims++;
    }
    ft_hf_part part = {0};
    if (!take_part(h, &part, name, n_dims, shape, row->how)) return;
    ft_hf_item *it = new_item(h, gguf, row->gguf, 1);
    it->src[0] = part;
    int64_t group = n_dims > 1 ? shape[n_dims - 2] : 1;
    if (row->how & FT_HF_FRAMES) {
        it->group = 2 * shape[3];
    } else if (row->how & (FT_HF_LOWER | FT_HF_UPPER)) {
        it->group = group;
        shape[n_dims - 2] = group / 2;
    }
    for (int i = n_dims - 1; i >= 0; i--)
        if (row->shape[i] != FT_HF_ONE && !(i == 2 && row->how & FT_HF_FRAMES))
            it->n[it->n_dims++] = shape[i];
    if (!it->n_dims) it->n[it->n_dims++] = 1;
    set_moves(p, it, row->how);
    it->src_rows = part.t->count / FT_MAX(it->cols, 1);
}

void ft_hf_add(ft_hf *h, const char *hf, const char *gguf, const ft_hf_row *row, size_t n)
{
    if (!h->st) return;
    h->plan.dim[FT_HF_ONE] = 1;
    for (size_t i = 0; i < n && !h->note.st; i++) add_row(h, hf, gguf, &row[i]);
}

void ft_hf_add_stack(ft_hf *h, const char *hf, const char *gguf, int64_t X, uint8_t rows,
                     uint8_t cols)
{
    if (!h->st || h->note.st) return;
    const int64_t shape[2] = {h->plan.dim[rows], h->plan.dim[cols]};
    ft_hf_item *it = new_item(h, "", gguf, (int)X);
    for (int64_t x = 0; x < X; x++) {
        const char *at = strchr(hf, '%');
        char name[256];
        snprintf(name, sizeof name, "%.*s%lld%s", (int)(at - hf), hf, (long long)x, at + 2);
        if (!take_part(h, &it->src[x], name, 2, shape, 0)) return;
    }
    it->n_dims = 3;
    it->n[0] = shape[1];
    it->n[1] = shape[0];
    it->n[2] = X;
    set_moves(&h->plan, it, 0);
    it->src_rows = shape[0];
}

void ft_hf_add_made(ft_hf *h, const char *gguf, const float *v, int64_t n)
{
    if (!h->st || h->note.st) return;
    ft_hf_item *it = new_item(h, "", gguf, 0);
    it->n_dims = 1;
    it->n[0] = n;
    set_moves(&h->plan, it, 0);
    it->made = ft_new_n(float, (size_t)n);
    memcpy(it->made, v, (size_t)n * sizeof *v);
}

void ft_hf_add_ids(ft_hf *h, const char *hf, const char *gguf, int64_t n)
{
    if (!h->st || h->note.st) return;
    const ft_st_tensor *t = find(h, hf, true);
    if (!t || t->type != FT_ST_I64 || t->n_dims != 1 || t->shape[0] != n) {
        char have[96];
        bad(h, "tensor %s: %s %s, want I64 [%lld]", hf, t ? t->type_name : "missing",
            t ? shape_text(have, t->n_dims, t->shape) : "", (long long)n);
        return;
    }
    bool *seen = ft_new_n(bool, (size_t)n);
    for (int64_t i = 0; i < n && !h->note.st; i++) {
        int64_t id;
        memcpy(&id, (const char *)t->data + i * 8, 8);
        if (id < 0 || id >= n || seen[id])
            bad(h, "tensor %s: entry %lld is %lld, want every id below %lld once", hf, (long long)i,
                (long long)id, (long long)n);
        else
            seen[id] = true;
    }
    ft_free(seen);
    if (h->note.st) return;
    ft_hf_item *it = new_item(h, "", gguf, 1);
    it->type = FT_I32;
    it->src[0].t = t;
    it->n_dims = 1;
    it->n[0] = n;
    set_moves(&h->plan, it, 0);
}

void ft_hf_forget(ft_hf *h, const char *prefix)
{
    for (size_t i = 0; h->st && i < ft_st_n_tensor(h->st); i++)
        if (!strncmp(h->name[i], prefix, strlen(prefix))) h->used[i] = true;
}

void ft_hf_check_all_used(ft_hf *h)
{
    for (size_t i = 0; h->st && i < ft_st_n_tensor(h->st) && !h->note.st; i++) {
        const char *name = h->name[i];
        bool skip = h->used[i];
        for (const char *p = h->family->skip; !skip && p;) {
            const char *end = strchr(p, ' ');
            const size_t n = end ? (size_t)(end - p) : strlen(p);
            skip = !strncmp(name, p, n);
            p = end ? end + 1 : NULL;
        }
        if (!skip) bad(h, "tensor %.200s is not part of architecture %s", name, h->arch);
    }
}

/* ---- reading ---- */

/* GGUF keeps value head j * Hk + g where the checkpoint has g * (Hv / Hk) + j. */
static int64_t moved(const ft_hf_plan *p, int64_t at, int64_t unit)
{
    const int64_t head = at / unit, j = head / p->Hk, g = head % p->Hk;
    return (g * (p->Hv / p->Hk) + j) * unit + at % unit;
}

int64_t ft_hf_source_row(const ft_hf_plan *p, const ft_hf_item *it, int64_t r, int *part)
{
    if (it->group) {
        const int64_t half = it->group / 2;
        r = r / half * it->group + (it->how & FT_HF_UPPER ? half : 0) + r % half;
    }
    if (it->how & FT_HF_PLANES) r = r % (it->rows / 2) * 2 + r / (it->rows / 2);
    if (it->row_unit && r >= it->row_first)
        r = it->row_first + moved(p, r - it->row_first, it->row_unit);
    *part = it->n_src > 1 ? (int)(r / it->src_rows) : 0;
    return it->n_src > 1 ? r % it->src_rows : r;
}

static void unscale(const ft_hf_plan *p, const ft_hf_part *s, int64_t row, int64_t cols, float *x)
{
    const int64_t R = s->t->shape[s->t->n_dims - 2];
    const int64_t sr = (R + p->block_r - 1) / p->block_r;
    const int64_t sc = (cols + p->block_c - 1) / p->block_c;
    for (int64_t b = 0; b < sc; b++) {
        float f;
        ft_st_read_f32(s->scale, (row / R * sr + row % R / p->block_r) * sc + b, 1, &f);
        const int64_t end = FT_MIN(cols, (b + 1) * p->block_c);
        for (int64_t c = b * p->block_c; c < end; c++) x[c] *= f;
    }
}

void ft_hf_read_row(const ft_hf_plan *p, const ft_hf_item *it, int64_t r, float *out,
                    float *scratch)
{
    if (it->made) {
        memcpy(out, it->made + r * it->cols, (size_t)it->cols * sizeof *out);
        return;
    }
    int part;
    const int64_t row = ft_hf_source_row(p, it, r, &part);
    const bool channels = it->how & FT_HF_CHANNELS;
    float *x = it->col_unit || channels ? scratch : out;
    ft_st_read_f32(it->src[part].t, row * it->cols, it->cols, x);
    if (it->src[part].scale) unscale(p, &it->src[part], row, it->cols, x);
    if (it->col_unit)
        for (int64_t c = 0; c < it->cols; c++) out[c] = scratch[moved(p, c, it->col_unit)];
    for (int64_t c = 0; channels && c < it->cols; c++)
        out[c] = scratch[c % (it->cols / 3) * 3 + c / (it->cols / 3)];
    if (it->how & FT_HF_PLUS_ONE)
        for (int64_t c = 0; c < it->cols; c++) out[c] += 1.0f;
    if (it->how & FT_HF_NEG_EXP)
        for (int64_t c = 0; c < it->cols; c++) out[c] = -expf(out[c]);
}
