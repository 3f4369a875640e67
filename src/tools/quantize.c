#define _POSIX_C_SOURCE 200809L
#include "tools/quantize.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "gguf/gguf.h"
#include "gguf/writer.h"
#include "quant/quant.h"
#include "tools/convert_rows.h"
#include "tools/imatrix.h"
#include "tools/mix.h"

#include <pthread.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>

typedef struct override {
    regex_t re;
    char *text;
    ft_type type;
    bool hit;
} override;

struct ft_quantize {
    char *path;
    ft_gguf *g;
    ft_imatrix *imatrix;
    const ft_mix *mix;
    ft_quantize_opts o;
    override *over;
    size_t n_over;
    ft_type output, embedding; /* FT_TYPE_MAX: not given */
    ft_mix_model model;
    int first_mtp; /* blocks from here on are MTP blocks */
    ft_quantize_row *row;
    const float **weight; /* per tensor, or NULL */
    size_t n;
};

/* ---- options ---- */

static ft_status find_type(const char *what, const char *name, ft_type *out, ft_err *err)
{
    if (!ft_type_find(ft_str_of(name), out) || !ft_type_encodes(*out))
        return ft_fail(err, FT_EINVAL,
                       "%s: type \"%s\" cannot be written, want one such as q8_0, "
                       "q6_K, q4_K, iq4_xs, bf16",
                       what, name);
    return FT_OK;
}

static ft_status add_override(ft_quantize *q, const char *text, ft_err *err)
{
    const char *eq = strrchr(text, '=');
    if (!eq || eq == text)
        return ft_fail(err, FT_EINVAL, "tensor type: \"%s\", want PATTERN=TYPE", text);
    q->over = ft_realloc(q->over, (q->n_over + 1) * sizeof *q->over);
    override *v = &q->over[q->n_over];
    memset(v, 0, sizeof *v);
    ft_status st = find_type(text, eq + 1, &v->type, err);
    if (st) return st;
    v->text = ft_strdup(text);
    v->text[eq - text] = 0;
    const int bad = regcomp(&v->re, v->text, REG_EXTENDED | REG_NOSUB);
    if (bad) {
        char why[100];
        regerror(bad, &v->re, why, sizeof why);
        st = ft_fail(err, FT_EINVAL, "tensor type: pattern \"%s\": %s", v->text, why);
        ft_free(v->text);
        return st;
    }
    q->n_over++;
    return FT_OK;
}

static ft_status read_override_file(ft_quantize *q, const char *path, ft_err *err)
{
    char *text, *rest = NULL;
    size_t n;
    ft_status st = ft_file_read(&text, &n, path, (size_t)1 << 20, err);
    if (st) return st;
    for (char *line = strtok_r(text, "\r\n", &rest); line && !st;
         line = strtok_r(NULL, "\r\n", &rest)) {
        line += strspn(line, " \t");
        line[strcspn(line, " \t")] = 0;
        if (*line && *line != '#') st = add_override(q, line, err);
    }
    if (st) ft_err_prefix(err, "%s", path);
    ft_free(text);
    return st;
}

static ft_status read_options(ft_quantize *q, ft_err *err)
{
    ft_status st = FT_OK;
    const ft_quantize_opts *o = &q->o;
    q->mix = ft_mix_find(o->mix);
    q->output = q->embedding = FT_TYPE_MAX;
    if (!q->mix)
        return ft_fail(err, FT_EINVAL, "type \"%s\", want one of %s", o->mix, ft_mix_names());
    for (int i = 0; i < o->n_tensor_type && !st; i++) st = add_override(q, o->tensor_type[i], err);
    if (!st && o->tensor_type_file) st = read_override_file(q, o->tensor_type_file, err);
    if (!st && o->output_type)
        st = find_type("output tensor type", o->output_type, &q->output, err);
    if (!st && o->embedding_type)
        st = find_type("token embedding type", o->embedding_type, &q->embedding, err);
    if (!st && o->imatrix) st = ft_imatrix_open(&q->imatrix, o->imatrix, err);
    return st;
}

/* ---- the plan ---- */

static uint32_t arch_u32(const ft_quantize *q, const char *key, uint32_t def)
{
    const ft_str arch = ft_quantize_arch(q);
    char full[128];
    uint32_t v = def;
    snprintf(full, sizeof full, "%.*s.%s", (int)FT_MIN(arch.n, 60), arch.p, key);
    if (ft_gguf_u32(q->g, full, &v)) return v;
    const ft_gguf_kv *kv = ft_gguf_kv_find(q->g, full); /* a list: the first layer's */
    int64_t first;
    return kv && kv->n && ft_gguf_kv_i64(kv, 0, &first) && first > 0 ? (uint32_t)first : def;
}

static void read_model(ft_quantize *q)
{
    const uint32_t blocks = arch_u32(q, "block_count", arch_u32(q, "vision.block_count", 0));
    const uint32_t nextn = arch_u32(q, "nextn_predict_layers", 0);
    const uint32_t heads = arch_u32(q, "attention.head_count", 1);
    q->model = (ft_mix_model){
        .layers = (int)FT_MIN(blocks, 100000),
        .gqa = (int)(heads / FT_MAX(1, arch_u32(q, "attention.head_count_kv", heads))),
        .tied = !ft_gguf_tensor_find(q->g, "output.weight"),
        .imatrix = q->imatrix != NULL,
    };
    /* in a drafter file all blocks count as MTP blocks */
    q->first_mtp = nextn && nextn < blocks ? (int)(blocks - nextn) : INT32_MAX;
}

static bool is_mtp(const ft_quantize *q, ft_str name)
{
    return ft_mix_layer(name) >= q->first_mtp || ft_str_starts(name, FT_STR("mtp.")) ||
           ft_str_starts(name, FT_STR("masked_embd_")) ||
           ft_str_find(name, FT_STR("nextn."), 0) != SIZE_MAX;
}

/* The index of a value tensor among all value tensors, in layer order. */
static int value_index(const ft_quantize *q, ft_str name, int *of)
{
    int before = 0;
    *of = 0;
    for (size_t i = 0; i < q->n; i++) {
        const ft_str other = ft_gguf_tensor_at(q->g, i)->name;
        if (!ft_mix_is_value(other)) continue;
        ++*of;
        const int a = ft_mix_layer(other), b = ft_mix_layer(name);
        before += a < b || (a == b && strcmp(other.p, name.p) < 0);
    }
    return before;
}

static ft_type choose_type(ft_quantize *q, const ft_gguf_tensor *t)
{
    const ft_type base = q->mix->base;
    const bool number = ft_type_of(t->type)->quant || t->type == FT_F32 || t->type == FT_F16 ||
                        t->type == FT_BF16 || t->type == FT_F64;
    if (!number || ft_mix_keeps(t->name, t->n_dims)) return t->type;
    for (size_t i = 0; i < q->n_over; i++)
        if (!regexec(&q->over[i].re, t->name.p, 0, NULL, 0)) {
            q->over[i].hit = true;
            return ft_mix_fit(q->over[i].type, t->n[0]);
        }
    const bool output = ft_str_is(t->name, "output.weight");
    const bool embd = ft_str_is(t->name, "token_embd.weight") ||
                      ft_str_is(t->name, "per_layer_token_embd.weight");
    if (output && q->o.leave_output) return t->type;
    if (embd && q->embedding != FT_TYPE_MAX) return ft_mix_fit(q->embedding, t->n[0]);
    if ((output || (embd && q->model.tied)) && q->output != FT_TYPE_MAX)
        return ft_mix_fit(q->output, t->n[0]);
    if (q->o.keep_mtp && ft_type_of(base)->quant && is_mtp(q, t->name))
        return ft_mix_fit(FT_Q8_0, t->n[0]);
    if (q->o.pure) return ft_mix_fit(base, t->n[0]);
    int of;
    const int place = value_index(q, t->name, &of);
    return ft_mix_fit(ft_mix_type(q->mix, &q->model, t->name, t->n[0], place, of), t->n[0]);
}

static ft_status plan_row(ft_quantize *q, size_t i, ft_err *err)
{
    const ft_gguf_tensor *t = ft_gguf_tensor_at(q->g, i);
    ft_quantize_row *r = &q->row[i];
    *r = (ft_quantize_row){.name = t->name,
                           .n_dims = t->n_dims,
                           .from = t->type,
                           .to = choose_type(q, t),
                           .bytes_from = t->bytes};
    memcpy(r->n, t->n, sizeof r->n);
    const size_t rows = (size_t)(t->n[1] * t->n[2] * t->n[3]);
    r->bytes_to = r->to == r->from ? t->bytes : rows * ft_type_row(r->to, (size_t)t->n[0]);
    if (r->to == r->from) return FT_OK;
    if (ft_type_of(r->from)->quant && !q->o.allow_requantize)
        return ft_fail(err, FT_EINVAL,
                       "%s: %s is %s already, want F32, F16 or BF16 (or --allow-requantize)",
                       q->path, t->name.p, ft_type_name(r->from));
    if (!q->imatrix || !ft_type_of(r->to)->quant) return FT_OK;
    const ft_status st =
        ft_imatrix_find(q->imatrix, t->name, t->n[0], t->n[2] * t->n[3], &q->weight[i], err);
    r->weighted = q->weight[i] != NULL;
    return st;
}

static ft_status plan(ft_quantize *q, ft_err *err)
{
    q->n = ft_gguf_n_tensor(q->g);
    q->row = ft_new_n(ft_quantize_row, q->n + 1);
    q->weight = ft_new_n(const float *, q->n + 1);
    read_model(q);
    for (size_t i = 0; i < q->n; i++) {
        const ft_status st = plan_row(q, i, err);
        if (st) return st;
    }
    for (size_t i = 0; i < q->n_over; i++)
        if (!q->over[i].hit)
            ft_log(FT_LOG_WARN, "tensor type: no tensor to quantize matches \"%s\"",
                   q->over[i].text);
    return FT_OK;
}

ft_status ft_quantize_open(ft_quantize **out, const char *in, const ft_quantize_opts *o,
                           ft_err *err)
{
    ft_quantize *q = ft_new(ft_quantize);
    q->path = ft_strdup(in);
    q->o = *o;
    ft_status st = read_options(q, err);
    if (!st) st = ft_gguf_open(&q->g, in, true, err);
    if (!st) st = plan(q, err);
    if (st) {
        ft_quantize_close(q);
        return st;
    }
    *out = q;
    return FT_OK;
}

void ft_quantize_close(ft_quantize *q)
{
    if (!q) return;
    for (size_t i = 0; i < q->n_over; i++) {
        regfree(&q->over[i].re);
        ft_free(q->over[i].text);
    }
    ft_free(q->over);
    ft_free(q->row);
    ft_free(q->weight);
    ft_imatrix_close(q->imatrix);
    ft_gguf_close(q->g);
    ft_free(q->path);
    ft_free(q);
}

ft_str ft_quantize_arch(const ft_quantize *q)
{
    ft_str arch = {"", 0};
    ft_gguf_str(q->g, "general.architecture", &arch);
    return arch;
}

size_t ft_quantize_n(const ft_quantize *q)
{
    return q->n;
}

const ft_quantize_row *ft_quantize_at(const ft_quantize *q, size_t i)
{
    return &q->row[i];
}

/* ---- writing ---- */

typedef struct work {
    ft_quantize *q;
    ft_gguf_writer *w;
    float **value;
    unsigned char **bytes;
    ft_progress *progress;
    pthread_mutex_t lock;
    bool failed;
    size_t bad_tensor;
    int64_t bad_row;
} work;

static bool all_finite(const float *x, size_t n)
{
    uint32_t bad = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, &x[i], 4);
        bad |= (u & 0x7f800000u) == 0x7f800000u;
    }
    return !bad;
}

static bool fail_row(work *k, size_t tensor, int64_t row)
{
    pthread_mutex_lock(&k->lock);
    if (!k->failed) {
        k->failed = true;
        k->bad_tensor = tensor;
        k->bad_row = row;
    }
    pthread_mutex_unlock(&k->lock);
    return false;
}

static bool quantize_rows(void *arg, int thread, size_t i, int64_t first, int64_t n)
{
    work *k = arg;
    const ft_quantize_row *r = &k->q->row[i];
    const ft_gguf_tensor *t = ft_gguf_tensor_at(k->q->g, i);
    const size_t cols = (size_t)r->n[0];
    const size_t from = ft_type_row(r->from, cols), to = ft_type_row(r->to, cols);
    const char *src = (const char *)t->data + (size_t)first * from;
    unsigned char *dst = k->bytes[thread];
    if (r->from == r->to) {
        ft_gguf_writer_data(k->w, i, (size_t)first * from, src, (size_t)n * from);
        ft_progress_add(k->progress, (uint64_t)n * from);
        return true;
    }
    for (int64_t j = 0; j < n; j++) {
        float *x = k->value[thread];
        ft_row_decode(r->from, x, src + (size_t)j * from, cols);
        if (!all_finite(x, cols)) return fail_row(k, i, first + j);
        const float *weight = k->q->weight[i];
        if (weight)
            weight += (size_t)((first + j) / r->n[1]) * cols; /* the importances of this expert */
        ft_row_encode(r->to, dst + (size_t)j * to, x, cols, weight);
    }
    ft_gguf_writer_data(k->w, i, (size_t)first * to, dst, (size_t)n * to);
    ft_progress_add(k->progress, (uint64_t)n * from);
    return true;
}

static void put_imatrix_keys(const ft_quantize *q, ft_gguf_writer *w)
{
    if (!q->imatrix) return;
    ft_gguf_put_str(w, "quantize.imatrix.file", ft_str_of(q->o.imatrix));
    const ft_str set = ft_imatrix_dataset(q->imatrix);
    if (set.n) ft_gguf_put_str(w, "quantize.imatrix.dataset", set);
    ft_gguf_put_i32(w, "quantize.imatrix.entries_count", (int32_t)ft_imatrix_n(q->imatrix));
    const uint32_t chunks = ft_imatrix_chunks(q->imatrix);
    if (chunks) ft_gguf_put_i32(w, "quantize.imatrix.chunks_count", (int32_t)chunks);
}

static void put_header(const ft_quantize *q, ft_gguf_writer *w)
{
    for (size_t i = 0; i < ft_gguf_n_kv(q->g); i++) {
        const ft_gguf_kv *kv = ft_gguf_kv_at(q->g, i);
        if (ft_str_starts(kv->key, FT_STR("split.")) || ft_str_is(kv->key, "general.file_type") ||
            ft_str_is(kv->key, "general.quantization_version") ||
            ft_str_is(kv->key, "general.alignment") ||
            ft_str_starts(kv->key, FT_STR("quantize.imatrix.")))
            continue;
        ft_gguf_put_kv(w, kv);
    }
    ft_gguf_put_u32(w, "general.file_type", q->mix->file);
    ft_gguf_put_u32(w, "general.quantization_version", 2);
    put_imatrix_keys(q, w);
    for (size_t i = 0; i < q->n; i++)
        ft_gguf_put_tensor(w, q->row[i].name.p, q->row[i].to, q->row[i].n_dims, q->row[i].n);
}

static void quantize_tensors(work *k)
{
    ft_quantize *q = k->q;
    ft_rows *rows = ft_new_n(ft_rows, q->n + 1);
    uint64_t total = 0;
    size_t widest = 1;
    for (size_t i = 0; i < q->n; i++) {
        const int64_t *n = q->row[i].n;
        rows[i] = (ft_rows){n[1] * n[2] * n[3], n[0]};
        total += q->row[i].bytes_from;
        widest = FT_MAX(widest, (size_t)n[0]);
    }
    ft_pool *pool = ft_pool_new(q->o.threads, 0);
    const size_t threads = (size_t)ft_pool_threads(pool);
    const size_t most = (size_t)ft_rows_values(rows, q->n);
    k->value = ft_new_n(float *, threads);
    k->bytes = ft_new_n(unsigned char *, threads);
    for (size_t t = 0; t < threads; t++) {
        k->value[t] = ft_new_n(float, widest);
        k->bytes[t] = ft_new_n(unsigned char, most * 4);
    }
    k->progress = ft_progress_new("quantize", total, q->o.progress, NULL);
    ft_rows_run(pool, rows, q->n, quantize_rows, k);
    ft_progress_free(k->progress);
    for (size_t t = 0; t < threads; t++) {
        ft_free(k->value[t]);
        ft_free(k->bytes[t]);
    }
    ft_free(k->value);
    ft_free(k->bytes);
    ft_free(rows);
    ft_pool_free(pool);
}

ft_status ft_quantize_write(ft_quantize *q, const char *out, uint64_t *bytes, ft_err *err)
{
    if (ft_gguf_same_file(q->g, out))
        return ft_fail(err, FT_EINVAL, "%s is the input file, want another output file", out);
    work k = {.q = q};
    ft_status st = ft_gguf_writer_open(&k.w, out, err);
    if (st) return st;
    put_header(q, k.w);
    st = ft_gguf_writer_begin(k.w, err);
    if (!st) {
        pthread_mutex_init(&k.lock, NULL);
        quantize_tensors(&k);
        pthread_mutex_destroy(&k.lock);
        if (k.failed)
            st = ft_fail(err, FT_EFORMAT, "%s: %s: row %lld holds a value that is not finite",
                         q->path, q->row[k.bad_tensor].name.p, (long long)k.bad_row);
    }
    if (st) {
        ft_gguf_writer_abort(k.w);
        return st;
    }
    *bytes = ft_gguf_writer_file_bytes(k.w);
    return ft_gguf_writer_commit(k.w, err);
}
