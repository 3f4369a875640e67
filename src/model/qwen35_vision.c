/* The vision tower of Qwen3.5 / 3.6.                                    docs/arch/vision.md
 *   x  = W_0 p + W_1 p + b + P(y, x)       p: a patch; both frames of a still picture are equal;
 *                                          P: a g x g table, resampled bilinearly
 *   x += W_o attn(ln(x)) + b_o             over all patches, rotated by row and column
 *   x += W_2 gelu(W_1 ln(x) + b_1) + b_2
 *   z  = ln(x), the four patches of a 2 x 2 block side by side
 *   row = M_2 gelu_erf(M_0 z + b_0) + b_2 */
#include "base/mem.h"
#include "model/vision.h"

#include <math.h>

enum { FFN_ROWS = 4096 }; /* of a product at once: what lies between its two halves is wide */

typedef struct layer {
    ft_vec ln1, ln1_b, ln2, ln2_b;
    ft_weight qkv, out, up, down;
    ft_vec qkv_b, out_b, up_b, down_b;
} layer;

typedef struct cfg {
    int C, F, L, g; /* width, feed-forward width, blocks, side of the position table */
    int M;          /* width of a merged block */
    float eps;
    ft_rope rope;
    ft_weight patch[2], merge0, merge2;
    ft_vec patch_b, positions, post_ln, post_ln_b, merge0_b, merge2_b;
    layer *layer;
} cfg;

typedef struct act {
    ft_mat x, xn, cs, qkv, o, g, m;
} act;

static act lay_out(const ft_vision *v, ft_step *s, int N)
{
    const cfg *c = v->m->cfg;
    act a = {0};
    a.x = ft_take_rows(s, N, c->C);
    a.xn = ft_take_operand(s, N, c->C);
    a.cs = ft_take_rows(s, N, v->d);
    a.qkv = ft_take_rows(s, N, 3 * c->C);
    a.o = ft_take_operand(s, N, c->C);
    a.g = ft_take_operand(s, FT_MIN(N, FFN_ROWS), c->F);
    a.m = ft_take_operand(s, N / (v->merge * v->merge), c->M);
    return a;
}

static const ft_vec none;

/* y += W x + b */
static void dense_add(ft_step *s, ft_mat y, ft_mat x, const ft_weight *w, ft_vec b)
{
    ft_dense(s, y, x, w, b, FT_ACT_NONE, true);
}

static void attn(const ft_vision *v, const layer *w, const act *a, ft_step *s)
{
    const cfg *c = v->m->cfg;
    const ft_image_attn all = {.q = ft_heads(a->qkv, 0, v->H, v->d, v->d),
                               .k = ft_heads(a->qkv, c->C, v->H, v->d, v->d),
                               .v = ft_heads(a->qkv, 2 * c->C, v->H, v->d, v->d),
                               .scale = 1 / sqrtf((float)v->d),
                               .eps = -1,
                               .cs = {a->cs}};
    ft_layernorm(s, a->xn, a->x, w->ln1, w->ln1_b, c->eps);
    ft_dense(s, a->qkv, a->xn, &w->qkv, w->qkv_b, FT_ACT_NONE, false);
    ft_attend_image(s, ft_heads(a->o, 0, v->H, v->d, v->d), &all);
    dense_add(s, a->x, a->o, &w->out, w->out_b);
}

static void ffn(const cfg *c, const layer *w, const act *a, ft_step *s)
{
    ft_layernorm(s, a->xn, a->x, w->ln2, w->ln2_b, c->eps);
    for (int at = 0; at < a->x.T; at += FFN_ROWS) {
        const int n = FT_MIN(FFN_ROWS, a->x.T - at);
        const ft_mat g = ft_rows(a->g, 0, n);
        ft_dense(s, g, ft_rows(a->xn, at, n), &w->up, w->up_b, FT_GELU, false);
        dense_add(s, ft_rows(a->x, at, n), g, &w->down, w->down_b);
    }
}

static void embed(const cfg *c, const act *a, ft_step *s, const ft_vision_input *in)
{
    ft_dense(s, a->x, in->patches, &c->patch[0], none, FT_ACT_NONE, false);
    dense_add(s, a->x, in->patches, &c->patch[1], c->patch_b);
    ft_mix(s, a->x, ft_mat_at((float *)c->positions.p, c->g * c->g, c->C), in->positions, true);
    ft_rope_angles(s, a->cs, &c->rope);
}

static void merge(const cfg *c, const act *a, ft_step *s, ft_mat out)
{
    const ft_mat z = ft_mat_at(a->xn.p, a->x.T, c->C), block = ft_mat_at(z.p, a->m.T, c->M);
    ft_layernorm(s, z, a->x, c->post_ln, c->post_ln_b, c->eps);
    ft_dense(s, a->m, block, &c->merge0, c->merge0_b, FT_GELU_ERF, false);
    ft_dense(s, out, a->m, &c->merge2, c->merge2_b, FT_ACT_NONE, false);
}

static void forward(const ft_vision *v, ft_step *s, const ft_vision_input *in, ft_mat out,
                    int piece)
{
    const cfg *c = v->m->cfg;
    const act a = lay_out(v, s, s->T);
    const int l = piece - 1;
    if (piece == 0) {
        embed(c, &a, s, in);
        return;
    }
    ft_layer_begin(s, l, a.x);
    if (l == c->L) {
        merge(c, &a, s, out);
        return;
    }
    attn(v, &c->layer[l], &a, s);
    ffn(c, &c->layer[l], &a, s);
}

static size_t arena(const ft_vision *v, int N)
{
    ft_step s = {.T = N};
    lay_out(v, &s, N);
    return s.arena_used;
}

/* The table's corners lie on the picture's corner patches. */
static int position(const ft_vision *v, const ft_grid *g, int y, int x, int32_t *row, float *w)
{
    const int side = ((const cfg *)v->m->cfg)->g;
    const double sy = (double)y * (side - 1) / FT_MAX(g->gh - 1, 1);
    const double sx = (double)x * (side - 1) / FT_MAX(g->gw - 1, 1);
    const int y0 = (int)sy, x0 = (int)sx;
    const int y1 = FT_MIN(y0 + 1, side - 1), x1 = FT_MIN(x0 + 1, side - 1);
    const double fy = sy - y0, fx = sx - x0;
    const int at[4] = {y0 * side + x0, y0 * side + x1, y1 * side + x0, y1 * side + x1};
    const double part[4] = {(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx};
    for (int i = 0; i < 4; i++) {
        row[i] = at[i];
        w[i] = (float)part[i];
    }
    return 4;
}

/* ---- bind ---- */

static void bind_layer(ft_binder *b, const cfg *c, layer *w, int l)
{
    ft_bind_vec(b, &w->ln1, c->C, 1, "v.blk.%d.ln1.weight", l);
    ft_bind_vec(b, &w->ln1_b, c->C, 1, "v.blk.%d.ln1.bias", l);
    ft_bind_vec(b, &w->ln2, c->C, 1, "v.blk.%d.ln2.weight", l);
    ft_bind_vec(b, &w->ln2_b, c->C, 1, "v.blk.%d.ln2.bias", l);
    ft_bind(b, &w->qkv, 3 * c->C, c->C, "v.blk.%d.attn_qkv.weight", l);
    ft_bind_vec(b, &w->qkv_b, 3 * c->C, 1, "v.blk.%d.attn_qkv.bias", l);
    ft_bind(b, &w->out, c->C, c->C, "v.blk.%d.attn_out.weight", l);
    ft_bind_vec(b, &w->out_b, c->C, 1, "v.blk.%d.attn_out.bias", l);
    ft_bind(b, &w->up, c->F, c->C, "v.blk.%d.ffn_up.weight", l);
    ft_bind_vec(b, &w->up_b, c->F, 1, "v.blk.%d.ffn_up.bias", l);
    ft_bind(b, &w->down, c->C, c->F, "v.blk.%d.ffn_down.weight", l);
    ft_bind_vec(b, &w->down_b, c->C, 1, "v.blk.%d.ffn_down.bias", l);
}

/* Features of inner layers that go to the text model's: other models of the same projector. */
static void check_deepstack(ft_binder *b)
{
    const ft_gguf_kv *kv = ft_gguf_kv_find(b->m->file, "clip.vision.is_deepstack_layers");
    for (uint64_t i = 0; kv && i < kv->n; i++) {
        int64_t on = 0;
        if (ft_gguf_kv_i64(kv, i, &on) && on) {
            ft_bind_fail(b, FT_EUNSUPPORTED,
                         "the file is a vision tower of Qwen3-VL (deepstack), want Qwen3.5's");
            return;
        }
    }
}

static void read_cfg(ft_vision *v, ft_binder *b, cfg *c)
{
    c->C = ft_key_need(b, "vision.embedding_length", 4, 1 << 16);
    c->F = ft_key_need(b, "vision.feed_forward_length", 1, 1 << 20);
    c->L = ft_key_need(b, "vision.block_count", 1, 512);
    c->eps = ft_key_f32(b, "vision.attention.layer_norm_epsilon", 1e-6f);
    v->H = ft_key_need(b, "vision.attention.head_count", 1, 1024);
    v->merge = ft_key(b, "vision.spatial_merge_size", 2, 1, 16);
    v->unit = v->p * v->merge;
    v->d = c->C / FT_MAX(v->H, 1);
    c->M = v->merge * v->merge * c->C;
    if (!v->max_px) v->min_px = 65536, v->max_px = 16777216;
    const ft_gguf_tensor *t = ft_gguf_tensor_find(b->m->file, "v.position_embd.weight");
    const int64_t rows = t && t->n[1] < 1 << 20 ? t->n[1] : 0;
    for (c->g = 1; (int64_t)c->g * c->g < rows; c->g++) {
    }
    if (!b->st && (v->d % 4 || v->d * v->H != c->C))
        ft_bind_fail(b, FT_EFORMAT, "%d values in %d heads, want a multiple of four in each", c->C,
                     v->H);
    if (!b->st && (int64_t)c->g * c->g != rows)
        ft_bind_fail(b, FT_EFORMAT, "tensor v.position_embd.weight has %lld rows, want a square",
                     (long long)rows);
    check_deepstack(b);
}

static void bind(ft_vision *v, ft_binder *b)
{
    cfg *c = v->m->cfg = ft_new(cfg);
    read_cfg(v, b, c);
    if (b->st) return;
    c->layer = ft_new_n(layer, (size_t)c->L);
    v->pieces = c->L + 2;
    const int k = 3 * v->p * v->p;
    ft_bind_patch(b, &c->patch[0], c->C, k, "v.patch_embd.weight");
    ft_bind_patch(b, &c->patch[1], c->C, k, "v.patch_embd.weight.1");
    ft_bind_vec(b, &c->patch_b, c->C, 1, "v.patch_embd.bias");
    ft_bind_vec(b, &c->positions, c->g * c->g * c->C, 1, "v.position_embd.weight");
    for (int l = 0; l < c->L && !b->st; l++) bind_layer(b, c, &c->layer[l], l);
    ft_bind_vec(b, &c->post_ln, c->C, 1, "v.post_ln.weight");
    ft_bind_vec(b, &c->post_ln_b, c->C, 1, "v.post_ln.bias");
    ft_bind(b, &c->merge0, c->M, c->M, "mm.0.weight");
    ft_bind_vec(b, &c->merge0_b, c->M, 1, "mm.0.bias");
    ft_bind(b, &c->merge2, v->E, c->M, "mm.2.weight");
    ft_bind_vec(b, &c->merge2_b, v->E, 1, "mm.2.bias");
    if (!b->st) c->rope = ft_vision_rope(b, v->d, v->d / 4, 10000, 0);
}

static void release(ft_vision *v)
{
    ft_free(((cfg *)v->m->cfg)->layer);
}

const ft_tower ft_tower_qwen35 = {
    .projector = "qwen3vl_merger",
    .words = "Qwen3.5 vision tower",
    .bind = bind,
    .release = release,
    .forward = forward,
    .arena = arena,
    .position = position,
};
