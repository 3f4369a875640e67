/* tools/inspect_mtp.c - extracts the MTP block of a model into a file, and merges such a file into
 * a model. A file with only the MTP block has the architecture and block count of its model, but
 * only the last block, the embedding and the output tensors. */
#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "gguf/show.h"
#include "gguf/writer.h"
#include "tools/inspect.h"
#include "tools/inspect_facts.h"

#include <stdio.h>

enum { PIECE = 16 << 20, MAX_BLOCKS = 4096 };

/* ---- copying tensors ---- */

typedef struct piece {
    const ft_gguf_tensor *from;
    size_t to, at, bytes;
} piece;

typedef struct source {
    const ft_gguf_tensor *t;
} source;

typedef struct copy {
    ft_gguf_writer *w;
    source *tensor;
    size_t n, cap;
    piece *piece;
    size_t n_piece, cap_piece;
    ft_progress *progress;
} copy;

static void add_tensor(copy *c, const ft_gguf_tensor *t)
{
    if (c->n == c->cap) {
        c->cap = c->cap ? c->cap * 2 : 256;
        c->tensor = ft_realloc(c->tensor, c->cap * sizeof *c->tensor);
    }
    c->tensor[c->n++].t = t;
    ft_gguf_put_tensor(c->w, t->name.p, t->type, t->n_dims, t->n);
}

static void copy_piece(void *arg, size_t i)
{
    copy *c = arg;
    const piece *p = &c->piece[i];
    ft_gguf_writer_data(c->w, p->to, p->at, (const char *)p->from->data + p->at, p->bytes);
    ft_progress_add(c->progress, p->bytes);
}

static void cut_pieces(copy *c)
{
    for (size_t i = 0; i < c->n; i++) {
        for (size_t at = 0; at < c->tensor[i].t->bytes; at += PIECE) {
            if (c->n_piece == c->cap_piece) {
                c->cap_piece = c->cap_piece ? c->cap_piece * 2 : 256;
                c->piece = ft_realloc(c->piece, c->cap_piece * sizeof *c->piece);
            }
            const size_t n = FT_MIN((size_t)PIECE, c->tensor[i].t->bytes - at);
            c->piece[c->n_piece++] = (piece){c->tensor[i].t, i, at, n};
        }
    }
}

/* Writes all tensors that were added, and frees the writer. */
static ft_status write_copy(copy *c, const ft_mtp_opts *o, ft_err *err)
{
    ft_status st = ft_gguf_writer_begin(c->w, err);
    if (st) {
        ft_gguf_writer_abort(c->w);
    } else {
        cut_pieces(c);
        const uint64_t bytes = ft_gguf_writer_file_bytes(c->w);
        c->progress = ft_progress_new("copy", bytes, o->progress, NULL);
        ft_pool *p = ft_pool_new(o->threads, 0);
        ft_pool_each(p, c->n_piece, copy_piece, c);
        ft_pool_free(p);
        ft_progress_free(c->progress);
        st = ft_gguf_writer_commit(c->w, err);
    }
    ft_free(c->tensor);
    ft_free(c->piece);
    return st;
}

/* ---- source files ---- */

typedef struct model {
    ft_gguf *g;
    char arch[64];
    int64_t blocks, trunk;
    bool has_trunk, has_head;
} model;

static ft_status open_model(model *m, const char *path, bool use_mmap, ft_err *err)
{
    *m = (model){0};
    const ft_status st = ft_gguf_open(&m->g, path, use_mmap, err);
    if (st) return st;
    ft_facts_arch(m->g, m->arch);
    m->blocks = FT_MIN(ft_facts_int(m->g, m->arch, "block_count", 0, 0), MAX_BLOCKS);
    m->has_trunk = ft_facts_block_tensor(m->g, 0, "attn_norm.weight") != NULL;
    m->has_head = ft_facts_block_tensor(m->g, m->blocks - 1, "nextn.eh_proj.weight") != NULL;
    const bool counted =
        m->has_head || !ft_facts_block_tensor(m->g, m->blocks - 1, "attn_norm.weight");
    m->trunk = m->blocks - (counted ? 1 : 0);
    if (!strncmp(m->arch, "gemma4", 6))
        return ft_fail(err, FT_EUNSUPPORTED,
                       "%s: architecture %s has no MTP block: Gemma 4 drafters are files of their "
                       "own",
                       path, m->arch);
    if (strncmp(m->arch, "qwen35", 6) != 0 || m->blocks < 1)
        return ft_fail(err, FT_EUNSUPPORTED,
                       "%s: architecture \"%s\" with %lld blocks, want qwen35 or qwen35moe", path,
                       m->arch, (long long)m->blocks);
    return FT_OK;
}

/* true when the tensor belongs to this block. */
static bool in_block(const ft_gguf_tensor *t, int64_t block)
{
    char prefix[32];
    snprintf(prefix, sizeof prefix, "blk.%lld.", (long long)block);
    return ft_str_starts(t->name, ft_str_of(prefix));
}

/* ---- extract ---- */

/* Removes the suffix _mtp, which older forks append to the architecture of MTP-only files. */
static ft_str plain_arch(const char *arch)
{
    const ft_str s = ft_str_of(arch);
    return ft_str_ends(s, FT_STR("_mtp")) ? (ft_str){s.p, s.n - 4} : s;
}

ft_status ft_mtp_extract(const ft_mtp_opts *o, ft_err *err)
{
    model m;
    copy c = {0};
    ft_status st = open_model(&m, o->path, o->use_mmap, err);
    if (!st && !m.has_head)
        st = ft_fail(err, FT_ENOTFOUND, "%s: no MTP block: blk.%lld.nextn.eh_proj.weight is absent",
                     o->path, (long long)m.blocks - 1);
    const int64_t heads = st ? 1 : ft_facts_int(m.g, m.arch, "nextn_predict_layers", 0, 1);
    if (heads > 1)
        st = ft_fail(err, FT_EUNSUPPORTED, "%s: %lld MTP blocks, want a file with one", o->path,
                     (long long)heads);
    if (!st && ft_gguf_same_file(m.g, o->out))
        st = ft_fail(err, FT_EINVAL, "%s: the output would replace the model itself", o->out);
    if (!st) st = ft_gguf_writer_open(&c.w, o->out, err);
    if (!st) {
        for (size_t i = 0; i < ft_gguf_n_kv(m.g); i++) ft_gguf_put_kv(c.w, ft_gguf_kv_at(m.g, i));
        for (size_t i = 0; i < ft_gguf_n_tensor(m.g); i++) {
            const ft_gguf_tensor *t = ft_gguf_tensor_at(m.g, i);
            if (in_block(t, m.blocks - 1) || ft_str_is(t->name, "token_embd.weight") ||
                ft_str_is(t->name, "output.weight") || ft_str_is(t->name, "output_norm.weight"))
                add_tensor(&c, t);
        }
        st = write_copy(&c, o, err);
    }
    ft_gguf_close(m.g);
    return st;
}

/* ---- merge ---- */

static ft_status check_pair(const model *m, const model *h, const ft_mtp_opts *o, ft_err *err)
{
    if (!m->has_trunk)
        return ft_fail(err, FT_EINVAL, "%s: no blk.0.attn_norm.weight, want a whole model",
                       o->path);
    if (m->has_head)
        return ft_fail(err, FT_EINVAL, "%s: has an MTP block already (blk.%lld)", o->path,
                       (long long)m->blocks - 1);
    if (!h->has_head)
        return ft_fail(err, FT_EINVAL, "%s: no MTP block: blk.%lld.nextn.eh_proj.weight is absent",
                       o->head, (long long)h->blocks - 1);
    if (!ft_str_is(plain_arch(h->arch), m->arch))
        return ft_fail(err, FT_EINVAL, "%s: architecture %s, want %s (that of the model)", o->head,
                       h->arch, m->arch);
    if (h->trunk != m->trunk)
        return ft_fail(err, FT_EINVAL, "%s: a head for %lld blocks, but the model has %lld",
                       o->head, (long long)h->trunk, (long long)m->trunk);
    const ft_gguf_tensor *eh = ft_facts_block_tensor(h->g, h->blocks - 1, "nextn.eh_proj.weight");
    const int64_t width = ft_facts_int(m->g, m->arch, "embedding_length", 0, 0);
    if (eh->n[1] != width)
        return ft_fail(err, FT_EINVAL, "%s: a head of width %lld, but the model has width %lld",
                       o->head, (long long)eh->n[1], (long long)width);
    const ft_gguf_tensor *a = ft_gguf_tensor_find(m->g, "token_embd.weight");
    const ft_gguf_tensor *b = ft_gguf_tensor_find(h->g, "token_embd.weight");
    if (a && b && a->n[1] != b->n[1])
        return ft_fail(err, FT_EINVAL, "%s: a head for %lld tokens, but the model has %lld",
                       o->head, (long long)b->n[1], (long long)a->n[1]);
    if (ft_gguf_same_file(m->g, o->out) || ft_gguf_same_file(h->g, o->out))
        return ft_fail(err, FT_EINVAL, "%s: the output would replace one of its sources", o->out);
    return FT_OK;
}

static bool is_per_block(ft_str key, const char *arch)
{
    static const char *const names[] = {"feed_forward_length", "attention.head_count",
                                        "attention.head_count_kv", "attention.recurrent_layers"};
    const size_t n = strlen(arch) + 1;
    if (key.n <= n || !ft_str_starts(key, ft_str_of(arch))) return false;
    for (size_t i = 0; i < FT_COUNT(names); i++)
        if (ft_str_is((ft_str){key.p + n, key.n - n}, names[i])) return true;
    return false;
}

/* Writes the keys of the model; block_count and per-block lists come from the file of the head. */
static ft_status merge_keys(ft_gguf_writer *w, const model *m, const model *h, ft_err *err)
{
    char count[96], nextn[96];
    snprintf(count, sizeof count, "%s.block_count", m->arch);
    snprintf(nextn, sizeof nextn, "%s.nextn_predict_layers", m->arch);
    for (size_t i = 0; i < ft_gguf_n_kv(m->g); i++) {
        const ft_gguf_kv *kv = ft_gguf_kv_at(m->g, i);
        if (ft_str_is(kv->key, nextn)) continue;
        if (ft_str_is(kv->key, count)) {
            ft_gguf_put_u32(w, count, (uint32_t)m->trunk + 1);
            ft_gguf_put_u32(w, nextn, 1);
            continue;
        }
        const bool per_block =
            kv->array && kv->n == (uint64_t)m->trunk && is_per_block(kv->key, m->arch);
        if (per_block) {
            const ft_gguf_kv *longer = ft_gguf_kv_find(h->g, kv->key.p);
            if (!longer || !longer->array || longer->n != kv->n + 1)
                return ft_fail(
                    err, FT_EINVAL,
                    "%s: key %s has a value for each of %lld blocks, but the file of the "
                    "head has none for its block",
                    ft_gguf_path(h->g), ft_show(kv->key).text, (long long)m->trunk);
            kv = longer;
        }
        ft_gguf_put_kv(w, kv);
    }
    return FT_OK;
}

static ft_status write_merged(const model *m, const model *h, const ft_mtp_opts *o, ft_err *err)
{
    copy c = {0};
    ft_status st = ft_gguf_writer_open(&c.w, o->out, err);
    if (st) return st;
    if ((st = merge_keys(c.w, m, h, err))) {
        ft_gguf_writer_abort(c.w);
        return st;
    }
    for (size_t i = 0; i < ft_gguf_n_tensor(m->g); i++) add_tensor(&c, ft_gguf_tensor_at(m->g, i));
    for (size_t i = 0; i < ft_gguf_n_tensor(h->g); i++)
        if (in_block(ft_gguf_tensor_at(h->g, i), h->blocks - 1))
            add_tensor(&c, ft_gguf_tensor_at(h->g, i));
    return write_copy(&c, o, err);
}

ft_status ft_mtp_merge(const ft_mtp_opts *o, ft_err *err)
{
    model m, h = {0};
    ft_status st = open_model(&m, o->path, o->use_mmap, err);
    if (!st) st = open_model(&h, o->head, o->use_mmap, err);
    if (!st) st = check_pair(&m, &h, o, err);
    if (!st) st = write_merged(&m, &h, o, err);
    ft_gguf_close(m.g);
    ft_gguf_close(h.g);
    return st;
}
