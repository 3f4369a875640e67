#define _POSIX_C_SOURCE 200809L
#include "tools/synth.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/rng.h"
#include "gguf/writer.h"
#include "tools/shapes.h"
#include "tools/synth_blocks.h"
#include "tools/synth_keys.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>

enum { MAX_TILES = 512, PIECE = 16 << 20 };

/* A byte range of one tensor that one thread writes. */
typedef struct piece {
    size_t tensor, at, bytes;
} piece;

typedef struct job {
    const ft_synth_opts *o;
    ft_gguf_writer *w;
    const ft_shape_tensor *tensor;
    ft_type *type; /* of each tensor */
    ft_tile tile[MAX_TILES];
    size_t n_tile;
    uint64_t *tile_of; /* of each tensor */
    piece *piece;
    size_t n_piece, cap_piece;
    ft_progress *progress;
} job;

/* ---- types ---- */

/* A mix such as "Q4_K_M" means its base type Q4_K here. */
static ft_status find_type(ft_type *out, const char *name, ft_err *err)
{
    static const char *const recipes[][2] = {
        {"IQ3_M", "IQ3_S"}, {"IQ3_XS", "IQ3_S"}, {"IQ2_M", "IQ2_S"}, {"Q2_K_S", "Q2_K"},
        {"Q3_K_S", "Q3_K"}, {"Q3_K_M", "Q3_K"},  {"Q3_K_L", "Q3_K"}, {"Q4_K_S", "Q4_K"},
        {"Q4_K_M", "Q4_K"}, {"Q5_K_S", "Q5_K"},  {"Q5_K_M", "Q5_K"}, {"MXFP4_MOE", "MXFP4"}};
    char upper[24];
    size_t n = 0;
    for (; name[n] && n + 1 < sizeof upper; n++)
        upper[n] = (char)(name[n] >= 'a' && name[n] <= 'z' ? name[n] - 32 : name[n]);
    upper[n] = 0;
    const char *base = upper;
    for (size_t i = 0; i < FT_COUNT(recipes); i++)
        if (!strcmp(recipes[i][0], upper)) base = recipes[i][1];
    if (ft_type_find(ft_str_of(base), out) && ft_tile_can(*out)) return FT_OK;
    return ft_fail(
        err, FT_EINVAL,
        "no tensor type \"%.24s\", want F32, F16, BF16, a block type such as Q8_0, Q4_K, "
        "IQ4_XS or MXFP4, or a mix such as Q4_K_M",
        name);
}

static bool divides(ft_type t, int64_t n)
{
    return n % ft_type_of(t)->elems == 0;
}

/* Rows that are not a multiple of a large block get a type with smaller blocks, as in quantize. */
static ft_type fall_back(ft_type t, int64_t n)
{
    if (divides(t, n)) return t;
    ft_type small = FT_IQ4_NL;
    if (t == FT_Q4_K) small = FT_Q5_0;
    if (t == FT_Q5_K) small = FT_Q5_1;
    if (t == FT_Q6_K) small = FT_Q8_0;
    return divides(small, n) ? small : FT_F16;
}

static ft_type type_of(const ft_shape_tensor *t, ft_type requested)
{
    switch (t->fill) {
    case FT_FILL_MATRIX: return fall_back(requested, t->n[0]);
    case FT_FILL_HALF: return requested == FT_F32 ? FT_F32 : FT_BF16;
    case FT_FILL_ORDER: return FT_I32;
    default: return FT_F32;
    }
}

/* The type after t, in the order of their numbers, whose block divides n. */
static ft_type next_type(ft_type t, int64_t n)
{
    do t = (ft_type)((t + 1) % FT_TYPE_MAX);
    while (!ft_tile_can(t) || !divides(t, n) || t == FT_Q2_0_FORK);
    return t;
}

/* The type of each tensor. */
static void choose_types(ft_type *out, const ft_shape_list *list, ft_type requested, bool mix)
{
    ft_type next = requested;
    for (size_t i = 0; i < list->n; i++) {
        const ft_shape_tensor *t = &list->tensor[i];
        out[i] = type_of(t, requested);
        if (!mix || t->fill != FT_FILL_MATRIX) continue;
        out[i] = divides(next, t->n[0]) ? next : next_type(next, t->n[0]);
        next = next_type(out[i], t->n[0]);
    }
}

static uint64_t count_of(const ft_shape_tensor *t)
{
    uint64_t n = 1;
    for (int i = 0; i < t->n_dims; i++) n *= (uint64_t)t->n[i];
    return n;
}

/* ---- filling ---- */

static bool from_tile(ft_fill f)
{
    return f == FT_FILL_MATRIX || f == FT_FILL_HALF || f == FT_FILL_F32;
}

static size_t tile_for(job *j, ft_type type, double deviation, uint64_t bytes)
{
    for (size_t i = 0; i < j->n_tile; i++)
        if (j->tile[i].type == type && j->tile[i].deviation == deviation) return i;
    assert(j->n_tile < MAX_TILES);
    const size_t about = (size_t)FT_MIN(bytes, (uint64_t)(j->o->mix ? 1 : 4) << 20);
    ft_tile_init(&j->tile[j->n_tile], type, deviation, about,
                 ft_rng_at(j->o->seed, j->n_tile, (uint32_t)type));
    return j->n_tile++;
}

/* Writes a byte range of a tensor by repeating its tile, from a start that depends on the tensor.
 */
static void write_tiled(job *j, const piece *p)
{
    const ft_tile *t = &j->tile[j->tile_of[p->tensor]];
    const size_t size = ft_type_of(t->type)->bytes;
    const size_t start = ft_rng_at(j->o->seed, p->tensor, 1) % t->blocks * size;
    size_t at = (start + p->at) % t->bytes, done = 0;
    while (done < p->bytes) {
        const size_t n = FT_MIN(p->bytes - done, t->bytes - at);
        ft_gguf_writer_data(j->w, p->tensor, p->at + done, t->data + at, n);
        at = 0;
        done += n;
    }
}

static void fill_order(int32_t *v, size_t n, ft_rng *r)
{
    for (size_t i = 0; i < n; i++) v[i] = (int32_t)i;
    for (size_t i = n; i-- > 1;) {
        const size_t k = ft_rng_u64(r) % (i + 1);
        const int32_t x = v[i];
        v[i] = v[k];
        v[k] = x;
    }
}

/* Writes a small tensor as a whole, with every value generated separately. */
static void write_values(job *j, const piece *p)
{
    const ft_shape_tensor *t = &j->tensor[p->tensor];
    const size_t n = (size_t)t->n[0];
    ft_rng r = {ft_rng_at(j->o->seed, p->tensor, 2)};
    void *data = ft_alloc(p->bytes);
    float *v = data;
    if (t->fill == FT_FILL_ORDER)
        fill_order(data, n, &r);
    else
        for (size_t i = 0; i < n; i++)
            v[i] = t->fill == FT_FILL_ROPE ? (i < n / 4 ? 1.0f : 1e30f)
                                           : (float)(t->a + (t->b - t->a) * ft_rng_f64(&r));
    ft_gguf_writer_data(j->w, p->tensor, 0, data, p->bytes);
    ft_free(data);
}

static void write_piece(void *arg, size_t i)
{
    job *j = arg;
    const piece *p = &j->piece[i];
    if (from_tile(j->tensor[p->tensor].fill))
        write_tiled(j, p);
    else
        write_values(j, p);
    ft_progress_add(j->progress, p->bytes);
}

static void add_piece(job *j, piece p)
{
    if (j->n_piece == j->cap_piece) {
        j->cap_piece = j->cap_piece ? j->cap_piece * 2 : 256;
        j->piece = ft_realloc(j->piece, j->cap_piece * sizeof *j->piece);
    }
    j->piece[j->n_piece++] = p;
}

/* Cuts the tensors into pieces and makes the tiles they need; returns the bytes to write. */
static uint64_t plan(job *j, size_t n)
{
    uint64_t total = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t bytes = ft_gguf_writer_tensor_bytes(j->w, i);
        const bool tiled = from_tile(j->tensor[i].fill);
        if (tiled) j->tile_of[i] = tile_for(j, j->type[i], j->tensor[i].a, bytes);
        const size_t step = tiled ? PIECE : bytes;
        for (size_t at = 0; at < bytes; at += step)
            add_piece(j, (piece){i, at, FT_MIN(step, bytes - at)});
        total += bytes;
    }
    return total;
}

static ft_status write_file(ft_synth_result *out, job *j, const ft_model_shape *s, size_t n,
                            ft_type type, ft_err *err)
{
    ft_status st = ft_gguf_writer_open(&j->w, j->o->path, err);
    if (st) return st;
    ft_synth_keys(j->w, s, type, j->o->mtp);
    for (size_t i = 0; i < n; i++)
        ft_gguf_put_tensor(j->w, j->tensor[i].name, j->type[i], j->tensor[i].n_dims,
                           j->tensor[i].n);
    if ((st = ft_gguf_writer_begin(j->w, err))) {
        ft_gguf_writer_abort(j->w);
        return st;
    }
    const uint64_t data = plan(j, n);
    j->progress = ft_progress_new(s->name, data, j->o->progress, NULL);
    out->bytes = ft_gguf_writer_file_bytes(j->w);
    ft_pool *pool = ft_pool_new(j->o->threads, 0);
    ft_pool_each(pool, j->o->blank ? 0 : j->n_piece, write_piece, j);
    ft_pool_free(pool);
    ft_progress_free(j->progress);
    return ft_gguf_writer_commit(j->w, err);
}

ft_status ft_synth(ft_synth_result *out, const ft_synth_opts *o, ft_err *err)
{
    *out = (ft_synth_result){0};
    const ft_model_shape *s = ft_shape_find(o->shape, err);
    if (!s) return FT_EINVAL;
    ft_type type;
    const ft_status st = find_type(&type, o->type, err);
    if (st) return st;
    if (!ft_shape_is_tower(s) && !divides(type, s->width))
        return ft_fail(err, FT_EINVAL,
                       "type %s has blocks of %d values, which do not divide the width %d of %s",
                       ft_type_name(type), ft_type_of(type)->elems, s->width, s->name);
    ft_shape_list list;
    ft_shape_tensors(&list, s, o->mtp);
    job j = {.o = o, .tensor = list.tensor};
    j.type = ft_new_n(ft_type, list.n);
    j.tile_of = ft_new_n(uint64_t, list.n);
    out->tensors = list.n;
    choose_types(j.type, &list, type, o->mix);
    for (size_t i = 0; i < list.n; i++) {
        const uint64_t n = count_of(&list.tensor[i]);
        out->parameters += n;
        out->bytes += ft_round_up(ft_type_row(j.type[i], n), 32);
    }
    const ft_status done = o->dry_run ? FT_OK : write_file(out, &j, s, list.n, type, err);
    for (size_t i = 0; i < j.n_tile; i++) ft_tile_release(&j.tile[i]);
    ft_free(j.type);
    ft_free(j.tile_of);
    ft_free(j.piece);
    ft_shape_list_release(&list);
    return done;
}
