#include "tools/inspect_facts.h"

#include "base/mem.h"
#include "gguf/show.h"
#include "quant/quant.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

enum { MAX_BLOCKS = 4096 };

void ft_facts_arch(const ft_gguf *g, char out[64])
{
    ft_str s = {0};
    ft_gguf_str(g, "general.architecture", &s);
    snprintf(out, 64, "%.60s", ft_show(s).text);
}

int64_t ft_facts_int(const ft_gguf *g, const char *arch, const char *key, int block, int64_t def)
{
    char name[160];
    snprintf(name, sizeof name, "%s.%s", arch, key);
    const ft_gguf_kv *kv = ft_gguf_kv_find(g, name);
    int64_t v;
    if (!kv || !ft_gguf_kv_i64(kv, kv->array ? (uint64_t)block : 0, &v)) return def;
    return v >= 0 && v <= 1 << 30 ? v : def;
}

const ft_gguf_tensor *ft_facts_block_tensor(const ft_gguf *g, int64_t block, const char *name)
{
    char full[96];
    snprintf(full, sizeof full, "blk.%lld.%s", (long long)block, name);
    return ft_gguf_tensor_find(g, full);
}

static void format_fact(char *out, size_t cap, const char *fmt, ...) FT_PRINTF(3, 4);
static void format_fact(char *out, size_t cap, const char *fmt, ...)
{
    const size_t n = strlen(out);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(out + n, cap - n, fmt, ap);
    va_end(ap);
}

static void warn(ft_facts *f, const char *text)
{
    ft_buf_puts(&f->warnings, text);
    ft_buf_putc(&f->warnings, '\n');
}

static int64_t rows(const ft_gguf *g, const char *tensor)
{
    const ft_gguf_tensor *t = ft_gguf_tensor_find(g, tensor);
    return t ? t->n[1] : 0;
}

/* The tail that every description shares. */
static void say_vocab(ft_facts *f, const ft_gguf *g)
{
    const int64_t v = rows(g, "token_embd.weight"),
                  ctx = ft_facts_int(g, f->arch, "context_length", 0, 0);
    if (v) format_fact(f->words, sizeof f->words, ", vocabulary %lld", (long long)v);
    if (ctx) format_fact(f->words, sizeof f->words, ", trained context %lld", (long long)ctx);
    const bool untied = ft_gguf_tensor_find(g, "output.weight") != NULL;
    if (v)
        format_fact(f->words, sizeof f->words,
                    untied ? ", own output matrix" : ", tied output matrix");
}

/* ---- Qwen3.5 ---- */

typedef struct qwen {
    char arch[64];
    bool moe;
    int64_t blocks, declared, trunk; /* trunk: ordinary blocks */
    int64_t head;                    /* the first MTP block */
    bool mtp;                        /* it is there */
    int64_t attention, delta;
    bool head_only;
} qwen;

static bool is_delta(const ft_gguf *g, const qwen *q, int block)
{
    const int64_t flag = ft_facts_int(g, q->arch, "attention.recurrent_layers", block, -1);
    if (flag >= 0) return flag != 0;
    const int64_t every = ft_facts_int(g, q->arch, "full_attention_interval", 0, 4);
    return every > 0 && (block + 1) % every != 0;
}

static void read_qwen(qwen *q, const ft_gguf *g, const char *arch)
{
    *q = (qwen){.moe = !strncmp(arch, "qwen35moe", 9)};
    snprintf(q->arch, sizeof q->arch, "%s", arch);
    q->blocks = FT_MIN(ft_facts_int(g, arch, "block_count", 0, 0), MAX_BLOCKS);
    q->declared = ft_facts_int(g, arch, "nextn_predict_layers", 0, 0);
    const int64_t last = q->blocks - 1;
    q->head = FT_MAX(q->blocks - FT_MAX(q->declared, (int64_t)1), (int64_t)0);
    q->mtp = ft_facts_block_tensor(g, q->head, "nextn.eh_proj.weight") != NULL;
    /* a head that was declared and then stripped may or may not have left its block's number */
    const bool counted =
        q->mtp || (q->declared && !ft_facts_block_tensor(g, last, "attn_norm.weight"));
    q->trunk = FT_MAX(q->blocks - (counted ? FT_MAX(q->declared, (int64_t)1) : 0), (int64_t)0);
    q->head_only = q->mtp && !ft_facts_block_tensor(g, 0, "attn_norm.weight");
    for (int i = 0; i < q->trunk; i++) {
        if (is_delta(g, q, i))
            q->delta++;
        else
            q->attention++;
    }
}

static void qwen_words(ft_facts *f, const ft_gguf *g, const qwen *q)
{
    const char *a = q->arch;
    char *w = f->words;
    const size_t n = sizeof f->words;
    format_fact(w, n, "Qwen3.5 %s, %lld blocks (%lld delta nets, %lld attention), width %lld",
                q->moe ? "mixture of experts" : "dense", (long long)q->trunk, (long long)q->delta,
                (long long)q->attention, (long long)ft_facts_int(g, a, "embedding_length", 0, 0));
    format_fact(w, n, ", %lld query and %lld kv heads of %lld",
                (long long)ft_facts_int(g, a, "attention.head_count", (int)q->trunk - 1, 0),
                (long long)ft_facts_int(g, a, "attention.head_count_kv", (int)q->trunk - 1, 0),
                (long long)ft_facts_int(g, a, "attention.key_length", 0, 0));
    format_fact(w, n, ", delta nets with %lld key and %lld value heads of %lld",
                (long long)ft_facts_int(g, a, "ssm.group_count", 0, 0),
                (long long)ft_facts_int(g, a, "ssm.time_step_rank", 0, 0),
                (long long)ft_facts_int(g, a, "ssm.state_size", 0, 0));
    if (q->moe)
        format_fact(w, n, ", %lld experts of width %lld, %lld used, shared expert %lld",
                    (long long)ft_facts_int(g, a, "expert_count", 0, 0),
                    (long long)ft_facts_int(g, a, "expert_feed_forward_length", 0, 0),
                    (long long)ft_facts_int(g, a, "expert_used_count", 0, 0),
                    (long long)ft_facts_int(g, a, "expert_shared_feed_forward_length", 0, 0));
    else
        format_fact(w, n, ", feed-forward %lld",
                    (long long)ft_facts_int(g, a, "feed_forward_length", 0, 0));
}

static void qwen_memory(ft_facts *f, const ft_gguf *g, const qwen *q, uint32_t ctx)
{
    const char *a = q->arch;
    const double head = (double)ft_facts_int(g, a, "attention.key_length", 0, 0);
    const double state = (double)ft_facts_int(g, a, "ssm.state_size", 0, 0);
    const double inner = (double)ft_facts_int(g, a, "ssm.inner_size", 0, 0);
    const double groups = (double)ft_facts_int(g, a, "ssm.group_count", 0, 0);
    const double taps = (double)ft_facts_int(g, a, "ssm.conv_kernel", 0, 1) - 1;
    for (int i = 0; i < q->trunk; i++) {
        if (is_delta(g, q, i))
            f->state += (taps * (2 * groups * state + inner) + state * inner) * 4;
        else
            f->kv += 4 * head * ctx * (double)ft_facts_int(g, a, "attention.head_count_kv", i, 0);
    }
    if (q->mtp) {
        /* arrays may hold zeros for delta nets, or end with the trunk */
        const int at = (int)q->blocks - 1;
        const int64_t def = ft_facts_int(g, a, "attention.head_count_kv", (int)q->trunk - 1, 0);
        f->mtp_kv = 4 * head * ctx * (double)ft_facts_int(g, a, "attention.head_count_kv", at, def);
        f->state += (double)ft_facts_int(g, a, "embedding_length", 0, 0) * 4; /* pending hidden */
    }
    f->memory_known = head > 0 && q->trunk > 0;
}

static double mean_of(const ft_gguf_tensor *t)
{
    if (!t || !t->bytes || t->n[1] != 1 || t->n[0] > 1 << 20) return (double)NAN;
    float *v = ft_new_n(float, (size_t)t->n[0]);
    ft_row_decode(t->type, v, t->data, (size_t)t->n[0]);
    double sum = 0;
    for (int64_t i = 0; i < t->n[0]; i++) sum += (double)v[i];
    ft_free(v);
    return sum / (double)t->n[0];
}

/* Norm weights are stored with one added. Where a converter forgot that, their mean is negative
 * and the head drafts nothing that is ever accepted, without any other symptom. */
static void check_norms(ft_facts *f, const ft_gguf *g, int64_t block)
{
    static const char *const names[] = {"nextn.enorm.weight", "nextn.hnorm.weight",
                                        "nextn.shared_head_norm.weight"};
    for (size_t i = 0; i < FT_COUNT(names); i++) {
        const double mean = mean_of(ft_facts_block_tensor(g, block, names[i]));
        if (!(mean < 0)) continue; /* also when it is NaN */
        char text[300];
        snprintf(text, sizeof text,
                 "blk.%lld.%s has mean %.2f, want a positive one: converted without the +1, no "
                 "draft will be accepted",
                 (long long)block, names[i], mean);
        warn(f, text);
    }
}

/* Matrices of the head below 6 bits cost more acceptance than they save. */
static void check_bits(ft_facts *f, const ft_gguf *g, int64_t block)
{
    char prefix[32], text[300];
    snprintf(prefix, sizeof prefix, "blk.%lld.", (long long)block);
    const ft_gguf_tensor *first = NULL;
    size_t n = 0;
    for (size_t i = 0; i < ft_gguf_n_tensor(g); i++) {
        const ft_gguf_tensor *t = ft_gguf_tensor_at(g, i);
        const ft_type_info *info = ft_type_of(t->type);
        if (!ft_str_starts(t->name, ft_str_of(prefix)) || !info->quant) continue;
        if (info->bytes * 8 >= info->elems * 6) continue;
        if (!first) first = t;
        n++;
    }
    if (!n) return;
    const ft_type_info *info = ft_type_of(first->type);
    snprintf(text, sizeof text,
             "%zu tensors of the MTP block are below 6 bits (%s: %s, %.4g bits), want Q6_K or "
             "better: coarse heads are rarely accepted",
             n, ft_show(first->name).text, info->name, info->bytes * 8.0 / info->elems);
    warn(f, text);
}

static void qwen_drafter(ft_facts *f, const ft_gguf *g, const qwen *q)
{
    char *d = f->drafter;
    const size_t n = sizeof f->drafter;
    f->has_drafter = q->mtp;
    if (q->head_only) {
        format_fact(d, n,
                    "this file is one: an MTP head without its model, to be loaded next to it");
    } else if (q->mtp && q->declared > 1) {
        format_fact(d, n, "MTP block inside (blk.%lld), the first of %lld", (long long)q->head,
                    (long long)q->declared);
    } else if (q->mtp) {
        format_fact(d, n, "MTP block inside (blk.%lld)", (long long)q->head);
    } else if (q->declared) {
        format_fact(
            d, n,
            "none: %s.nextn_predict_layers is %lld but blk.%lld.nextn.eh_proj.weight is absent "
            "(the "
            "head was stripped)",
            q->arch, (long long)q->declared, (long long)q->head);
        warn(f, "an MTP block is declared but its tensors are absent: no self-drafting");
    } else {
        format_fact(d, n, "none: %s.nextn_predict_layers is 0 or absent", q->arch);
    }
    if (!q->mtp) return;
    check_bits(f, g, q->head);
    check_norms(f, g, q->head);
}

static void qwen_facts(ft_facts *f, const ft_gguf *g, uint32_t ctx)
{
    qwen q;
    read_qwen(&q, g, f->arch);
    qwen_words(f, g, &q);
    say_vocab(f, g);
    qwen_drafter(f, g, &q);
    qwen_memory(f, g, &q, ctx);
    if (q.head_only) {
        f->kv = f->state = 0;
        snprintf(f->memory_note, sizeof f->memory_note, "besides the model it drafts for");
    }
}

/* ---- Gemma 4 ---- */

static bool is_sliding(const ft_gguf *g, const char *arch, int layer)
{
    return ft_facts_int(g, arch, "attention.sliding_window_pattern", layer, 0) != 0;
}

static void gemma_facts(ft_facts *f, const ft_gguf *g, uint32_t ctx)
{
    const char *a = f->arch;
    const int64_t layers = FT_MIN(ft_facts_int(g, a, "block_count", 0, 0), MAX_BLOCKS);
    const int64_t shared = FT_MIN(ft_facts_int(g, a, "attention.shared_kv_layers", 0, 0), layers);
    const int64_t window = ft_facts_int(g, a, "attention.sliding_window", 0, 0);
    const int64_t experts = ft_facts_int(g, a, "expert_count", 0, 0);
    const int64_t per_layer = ft_facts_int(g, a, "embedding_length_per_layer_input", 0, 0);
    const double wide = (double)ft_facts_int(g, a, "attention.key_length", 0, 0);
    const double narrow = (double)ft_facts_int(g, a, "attention.key_length_swa", 0, 0);
    int64_t sliding = 0;
    for (int i = 0; i < layers; i++) {
        const bool s = is_sliding(g, a, i);
        sliding += s;
        if (i >= layers - shared) continue;
        const double cells = s ? FT_MIN((double)window, (double)ctx) : (double)ctx;
        f->kv += 4 * (s ? narrow : wide) * cells *
                 (double)ft_facts_int(g, a, "attention.head_count_kv", i, 0);
    }
    f->memory_known = layers > 0 && wide > 0;
    char *w = f->words;
    const size_t n = sizeof f->words;
    format_fact(w, n, "Gemma 4 %s, %lld layers (%lld sliding over %lld, %lld global), width %lld",
                experts ? "mixture of experts" : "dense", (long long)layers, (long long)sliding,
                (long long)window, (long long)(layers - sliding),
                (long long)ft_facts_int(g, a, "embedding_length", 0, 0));
    format_fact(w, n, ", %lld query heads, heads of %.0f and %.0f",
                (long long)ft_facts_int(g, a, "attention.head_count", 0, 0), narrow, wide);
    if (shared) format_fact(w, n, ", %lld layers keep a cache", (long long)(layers - shared));
    if (per_layer) format_fact(w, n, ", per-layer embeddings of %lld", (long long)per_layer);
    if (experts)
        format_fact(w, n, ", %lld experts of width %lld, %lld used", (long long)experts,
                    (long long)ft_facts_int(g, a, "expert_feed_forward_length", 0, 0),
                    (long long)ft_facts_int(g, a, "expert_used_count", 0, 0));
    else
        format_fact(w, n, ", feed-forward %lld",
                    (long long)ft_facts_int(g, a, "feed_forward_length", 0, 0));
    say_vocab(f, g);
    format_fact(f->drafter, sizeof f->drafter,
                "none inside: Gemma 4 drafters are files of their own (gemma4-assistant)");
}

static void check_order(ft_facts *f, const ft_gguf *g)
{
    const ft_gguf_tensor *t = ft_gguf_tensor_find(g, "masked_embd_ordering");
    if (!t) t = ft_gguf_tensor_find(g, "mtp.token_ordering.weight");
    if (!t) return;
    bool any = false;
    for (size_t i = 0; i < t->bytes && !any; i++) any = ((const unsigned char *)t->data)[i] != 0;
    if (t->type != FT_I32) warn(f, "the token ordering of the centroid head is not I32");
    if (!any) warn(f, "the token ordering of the centroid head is all zeros: a broken conversion");
}

static void assistant_facts(ft_facts *f, const ft_gguf *g)
{
    const char *a = f->arch;
    const int64_t target =
        ft_facts_int(g, a, "embedding_length_out", 0, ft_facts_int(g, a, "n_embd_backbone", 0, 0));
    const bool centroids = ft_gguf_tensor_find(g, "masked_embd_centroids.weight") ||
                           ft_gguf_tensor_find(g, "mtp.centroids.weight");
    format_fact(f->words, sizeof f->words,
                "Gemma 4 assistant, %lld layers without K and V, width %lld%s",
                (long long)ft_facts_int(g, a, "block_count", 0, 0),
                (long long)ft_facts_int(g, a, "embedding_length", 0, 0),
                centroids ? ", centroid head" : "");
    say_vocab(f, g);
    f->has_drafter = true;
    format_fact(f->drafter, sizeof f->drafter,
                "this file is one: for a Gemma 4 model of width %lld", (long long)target);
    f->memory_known = true; /* it reads its model's cache */
    snprintf(f->memory_note, sizeof f->memory_note, "it keeps no cache of its own");
    check_order(f, g);
}

/* ---- vision towers ---- */

static void tower_facts(ft_facts *f, const ft_gguf *g)
{
    const char *a = f->arch;
    char *w = f->words;
    const size_t n = sizeof f->words;
    ft_str type = {"", 0};
    if (!ft_gguf_str(g, "clip.vision.projector_type", &type))
        ft_gguf_str(g, "clip.projector_type", &type);
    const int64_t blocks = ft_facts_int(g, a, "vision.block_count", 0, 0);
    const int64_t patch = ft_facts_int(g, a, "vision.patch_size", 0, 0);
    const int64_t merge = ft_facts_int(g, a, "vision.spatial_merge_size", 0,
                                       ft_facts_int(g, a, "vision.projector.scale_factor", 0, 3));
    const int64_t most = ft_facts_int(g, a, "vision.image_max_pixels", 0, 0);
    format_fact(w, n, "vision tower (%s)", ft_show(type).text);
    if (blocks)
        format_fact(w, n, ", %lld blocks of width %lld, %lld heads, feed-forward %lld",
                    (long long)blocks,
                    (long long)ft_facts_int(g, a, "vision.embedding_length", 0, 0),
                    (long long)ft_facts_int(g, a, "vision.attention.head_count", 0, 0),
                    (long long)ft_facts_int(g, a, "vision.feed_forward_length", 0, 0));
    format_fact(w, n, ", patches of %lld pixels, a token for %lld x %lld", (long long)patch,
                (long long)(patch * merge), (long long)(patch * merge));
    if (most && patch > 0 && merge > 0)
        format_fact(w, n, ", at most %lld tokens for an image",
                    (long long)(most / (patch * merge * patch * merge)));
    format_fact(w, n, ", for a model of width %lld",
                (long long)ft_facts_int(g, a, "vision.projection_dim", 0, 0));
    format_fact(f->drafter, sizeof f->drafter, "none: this file only reads images");
    f->memory_known = true;
    snprintf(f->memory_note, sizeof f->memory_note, "besides the model it works for");
}

/* ---- anything else ---- */

static void foreign_facts(ft_facts *f, const ft_gguf *g, uint32_t ctx)
{
    const char *a = f->arch;
    if (!*a) {
        format_fact(f->words, sizeof f->words, "unknown: no key general.architecture");
    } else {
        const int64_t layers = FT_MIN(ft_facts_int(g, a, "block_count", 0, 0), MAX_BLOCKS);
        const int64_t width = ft_facts_int(g, a, "embedding_length", 0, 0);
        const int64_t heads = ft_facts_int(g, a, "attention.head_count", 0, 0);
        const int64_t head =
            ft_facts_int(g, a, "attention.key_length", 0, heads ? width / heads : 0);
        format_fact(f->words, sizeof f->words, "%s, which this program does not run", a);
        if (layers) format_fact(f->words, sizeof f->words, ", %lld blocks", (long long)layers);
        if (width) format_fact(f->words, sizeof f->words, ", width %lld", (long long)width);
        say_vocab(f, g);
        for (int i = 0; i < layers; i++)
            f->kv += 4 * (double)head * ctx *
                     (double)ft_facts_int(g, a, "attention.head_count_kv", i, heads);
        f->memory_known = f->kv > 0;
        snprintf(f->memory_note, sizeof f->memory_note, "counted as full attention in every block");
    }
    format_fact(f->drafter, sizeof f->drafter, "none known for this architecture");
}

static void check_vocab(ft_facts *f, const ft_gguf *g)
{
    const ft_gguf_kv *tokens = ft_gguf_kv_find(g, "tokenizer.ggml.tokens");
    const int64_t v = rows(g, "token_embd.weight");
    char text[200];
    if (v && !tokens) warn(f, "no tokenizer (key tokenizer.ggml.tokens)");
    if (!v || !tokens || (int64_t)tokens->n == v) return;
    snprintf(text, sizeof text, "%llu token texts for %lld rows of token_embd.weight",
             (unsigned long long)tokens->n, (long long)v);
    warn(f, text);
}

static void check_kind(ft_facts *f, const ft_gguf *g)
{
    ft_str kind;
    if (!ft_gguf_str(g, "general.type", &kind) || ft_str_is(kind, "model")) return;
    char text[160];
    snprintf(text, sizeof text, "general.type is \"%s\": not a model that can run by itself%s",
             ft_show(kind).text, ft_str_is(kind, "mmproj") ? "; give it with --mmproj" : "");
    warn(f, text);
}

void ft_facts_init(ft_facts *f, const ft_gguf *g, uint32_t ctx)
{
    *f = (ft_facts){0};
    ft_buf_init(&f->warnings, 1 << 16);
    ft_facts_arch(g, f->arch);
    for (size_t i = 0; i < ft_gguf_n_tensor(g); i++)
        f->weights += (double)ft_gguf_tensor_at(g, i)->bytes;
    if (!strcmp(f->arch, "qwen35") || !strcmp(f->arch, "qwen35moe") ||
        !strcmp(f->arch, "qwen35_mtp") || !strcmp(f->arch, "qwen35moe_mtp"))
        qwen_facts(f, g, ctx);
    else if (!strcmp(f->arch, "gemma4"))
        gemma_facts(f, g, ctx);
    else if (!strcmp(f->arch, "gemma4-assistant") || !strcmp(f->arch, "gemma4_assistant"))
        assistant_facts(f, g);
    else if (!strcmp(f->arch, "clip"))
        tower_facts(f, g);
    else
        foreign_facts(f, g, ctx);
    check_vocab(f, g);
    check_kind(f, g);
}

void ft_facts_release(ft_facts *f)
{
    ft_buf_release(&f->warnings);
}
