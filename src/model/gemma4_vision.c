/* The vision towers of Gemma 4.                                         docs/arch/vision.md
 *   x  = W (2 p - 1) + PX[column] + PY[row]         p: a patch in 0..1
 *   n  = rms(x), q = rms(W_q n), k = rms(W_k n), v = rms0(W_v n); q, k rotated: the first half of
 *        a head by the column, the second by the row
 *   x += rms(W_o attn(q, k, v))                     over all patches, not scaled
 *   x += rms(W_down (gelu(W_gate n) * (W_up n))),   n = rms(x)
 *   z  = sqrt(C) mean of 3 x 3 patches, (z - bias) * scale where the file has them
 *   row = W_proj rms0(z)
 * Where a matrix has bounds, what goes in and what comes out are clamped to them.
 *
 * The 12B has no blocks; its patch is the size of a token:
 *   z  = ln(ln(W ln(p) + b) + PX[column] + PY[row]), row = W_proj rms0(z) */
#include "base/mem.h"
#include "model/vision.h"

#include <math.h>

enum { FFN_ROWS = 4096 }; /* of a product at once: what lies between its two halves is wide */

typedef struct bounds {
    float in_min, in_max, out_min, out_max;
    bool any;
} bounds;

typedef struct matrix {
    ft_weight w;
    bounds b;
} matrix;

typedef struct layer {
    ft_vec ln1, attn_post, ln2, ffn_post, q_norm, k_norm;
    matrix q, k, v, out, gate, up, down;
} layer;

typedef struct cfg {
    int C, F, L, G; /* width, feed-forward width, blocks, rows of each position table */
    bool clipped;
    float eps;
    ft_rope by_col, by_row;
    ft_weight patch, proj;
    ft_vec positions, std_bias, std_scale;
    layer *layer;
    /* the 12B */
    ft_vec patch_b, norm1, norm1_b, norm2, norm2_b, norm3, norm3_b;
} cfg;

typedef struct act {
    ft_mat x, xn, t, cx, cy;
    ft_mat q, k, v, o;
    ft_mat g, up, clip, clip_g; /* clip: a product's clamped input */
    ft_mat z;
} act;

static const ft_vec none;

/* ---- with blocks ---- */

static act lay_out(const ft_vision *v, ft_step *s, int N)
{
    const cfg *c = v->m->cfg;
    const int part = FT_MIN(N, FFN_ROWS);
    act a = {0};
    a.x = ft_take_rows(s, N, c->C);
    /* a matrix with bounds reads its own clamped copy */
    a.xn = c->clipped ? ft_take_rows(s, N, c->C) : ft_take_operand(s, N, c->C);
    a.t = ft_take_rows(s, N, c->C);
    a.cx = ft_take_rows(s, N, v->d / 2);
    a.cy = ft_take_rows(s, N, v->d / 2);
    a.q = ft_take_rows(s, N, c->C);
    a.k = ft_take_rows(s, N, c->C);
    a.v = ft_take_rows(s, N, c->C);
    a.o = c->clipped ? ft_take_rows(s, N, c->C) : ft_take_operand(s, N, c->C);
    a.g = c->clipped ? ft_take_rows(s, part, c->F) : ft_take_operand(s, part, c->F);
    a.up = ft_take_rows(s, part, c->F);
    if (c->clipped) {
        a.clip = ft_take_operand(s, N, c->C);
        a.clip_g = ft_take_operand(s, part, c->F);
    }
    a.z = ft_take_rows(s, N / (v->pool * v->pool), c->C);
    return a;
}

/* y = W x, between the matrix's bounds. clip: room for x. */
static void product(ft_step *s, ft_mat y, ft_mat x, const matrix *m, ft_mat clip)
{
    if (!m->b.any) {
        ft_linear(s, y, x, &m->w);
        return;
    }
    clip = ft_rows(clip, 0, x.T);
    ft_clamp(s, clip, x, m->b.in_min, m->b.in_max);
    ft_linear(s, y, clip, &m->w);
    ft_clamp(s, y, y, m->b.out_min, m->b.out_max);
}

/* t = attn(xn) */
static void attn(const ft_vision *v, const layer *w, const act *a, ft_step *s)
{
    const cfg *c = v->m->cfg;
    const ft_image_attn all = {.q = ft_heads(a->q, 0, v->H, v->d, v->d),
                               .k = ft_heads(a->k, 0, v->H, v->d, v->d),
                               .v = ft_heads(a->v, 0, v->H, v->d, v->d),
                               .scale = 1,
                               .eps = c->eps,
                               .q_norm = w->q_norm,
                               .k_norm = w->k_norm,
                               .cs = {a->cx, a->cy}};
    product(s, a->q, a->xn, &w->q, a->clip);
    product(s, a->k, a->xn, &w->k, a->clip);
    product(s, a->v, a->xn, &w->v, a->clip);
    ft_attend_image(s, ft_heads(a->o, 0, v->H, v->d, v->d), &all);
    product(s, a->t, a->o, &w->out, a->clip);
}

/* t = down(gelu(gate xn) * up xn) */
static void ffn(const layer *w, const act *a, ft_step *s)
{
    for (int at = 0; at < a->x.T; at += FFN_ROWS) {
        const int n = FT_MIN(FFN_ROWS, a->x.T - at);
        const ft_mat x = ft_rows(a->xn, at, n), g = ft_rows(a->g, 0, n), u = ft_rows(a->up, 0, n);
        if (!w->gate.b.any && !w->up.b.any) {
            ft_glu(s, g, u, x, &w->gate.w, &w->up.w, FT_GELU);
        } else {
            product(s, g, x, &w->gate, a->clip);
            product(s, u, x, &w->up, a->clip);
            ft_act_mul(s, g, g, u, FT_GELU);
        }
        product(s, ft_rows(a->t, at, n), g, &w->down, a->clip_g);
    }
}

static void embed(const cfg *c, const act *a, ft_step *s, const ft_vision_input *in)
{
    ft_linear(s, a->x, in->patches, &c->patch);
    ft_mix(s, a->x, ft_mat_at((float *)c->positions.p, 2 * c->G, c->C), in->positions, true);
    ft_rope_angles(s, a->cx, &c->by_col);
    ft_rope_angles(s, a->cy, &c->by_row);
    ft_rmsnorm(s, a->xn, a->x, c->layer[0].ln1, c->eps);
}

/* xn: in, ln1(x); out, that of the next block. */
static void block(const ft_vision *v, const act *a, ft_step *s, int l)
{
    const cfg *c = v->m->cfg;
    const layer *w = &c->layer[l];
    const ft_norm_out mid = {a->xn, w->ln2}, next = {a->xn, c->layer[(l + 1) % c->L].ln1};
    attn(v, w, a, s);
    ft_norm_add(s, a->x, a->t, w->attn_post, c->eps, 1, &mid, 1);
    ffn(w, a, s);
    ft_norm_add(s, a->x, a->t, w->ffn_post, c->eps, 1, &next, l + 1 < c->L);
}

static void pool(const cfg *c, const act *a, ft_step *s, const ft_vision_input *in, ft_mat out)
{
    ft_mix(s, a->z, a->x, in->pooling, false);
    ft_affine(s, a->z, c->std_bias, c->std_scale, FT_ACT_NONE);
    ft_probe(s, "pooled", c->L, a->z);
    ft_rmsnorm(s, a->z, a->z, none, c->eps);
    ft_linear(s, out, a->z, &c->proj);
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
    if (l == c->L)
        pool(c, &a, s, in, out);
    else
        block(v, &a, s, l);
}

static size_t arena(const ft_vision *v, int N)
{
    ft_step s = {.T = N};
    lay_out(v, &s, N);
    return s.arena_used;
}

/* ---- the 12B ---- */

typedef struct flat_act {
    ft_mat p, z;
} flat_act;

static flat_act lay_out_flat(const ft_vision *v, ft_step *s, int N)
{
    flat_act a;
    a.p = ft_take_rows(s, N, 3 * v->p * v->p);
    a.z = ft_take_rows(s, N, ((const cfg *)v->m->cfg)->C);
    return a;
}

static void forward_flat(const ft_vision *v, ft_step *s, const ft_vision_input *in, ft_mat out,
                         int piece)
{
    (void)piece; /* the only one */
    const float eps = 1e-5f;
    const cfg *c = v->m->cfg;
    const flat_act a = lay_out_flat(v, s, s->T);
    ft_layernorm(s, a.p, in->patches, c->norm1, c->norm1_b, eps);
    ft_linear(s, a.z, a.p, &c->patch);
    ft_affine(s, a.z, c->patch_b, none, FT_ACT_NONE);
    ft_layernorm(s, a.z, a.z, c->norm2, c->norm2_b, eps);
    ft_mix(s, a.z, ft_mat_at((float *)c->positions.p, 2 * c->G, c->C), in->positions, true);
    ft_layernorm(s, a.z, a.z, c->norm3, c->norm3_b, eps);
    ft_rmsnorm(s, a.z, a.z, none, 1e-6f);
    ft_linear(s, out, a.z, &c->proj);
}

static size_t arena_flat(const ft_vision *v, int N)
{
    ft_step s = {.T = N};
    lay_out_flat(v, &s, N);
    return s.arena_used;
}

/* ---- both ---- */

static int position(const ft_vision *v, const ft_grid *g, int y, int x, int32_t *row, float *w)
{
    (void)g;
    row[0] = x;
    row[1] = ((const cfg *)v->m->cfg)->G + y;
    w[0] = w[1] = 1;
    return 2;
}

static void bind_matrix(ft_binder *b, cfg *c, matrix *m, int n, int k, int l, const char *name)
{
    ft_bind(b, &m->w, n, k, "v.blk.%d.%s.weight", l, name);
    m->b.in_min = ft_bind_scalar(b, -INFINITY, "v.blk.%d.%s.input_min", l, name);
    m->b.in_max = ft_bind_scalar(b, INFINITY, "v.blk.%d.%s.input_max", l, name);
    m->b.out_min = ft_bind_scalar(b, -INFINITY, "v.blk.%d.%s.output_min", l, name);
    m->b.out_max = ft_bind_scalar(b, INFINITY, "v.blk.%d.%s.output_max", l, name);
    m->b.any = isfinite(m->b.in_min) || isfinite(m->b.in_max) || isfinite(m->b.out_min) ||
               isfinite(m->b.out_max);
    c->clipped |= m->b.any;
}

static void bind_layer(ft_vision *v, ft_binder *b, cfg *c, layer *w, int l)
{
    ft_bind_vec(b, &w->ln1, c->C, 1, "v.blk.%d.ln1.weight", l);
    ft_bind_vec(b, &w->attn_post, c->C, 1, "v.blk.%d.attn_post_norm.weight", l);
    ft_bind_vec(b, &w->ln2, c->C, 1, "v.blk.%d.ln2.weight", l);
    ft_bind_vec(b, &w->ffn_post, c->C, 1, "v.blk.%d.ffn_post_norm.weight", l);
    ft_bind_vec(b, &w->q_norm, v->d, 1, "v.blk.%d.attn_q_norm.weight", l);
    ft_bind_vec(b, &w->k_norm, v->d, 1, "v.blk.%d.attn_k_norm.weight", l);
    bind_matrix(b, c, &w->q, c->C, c->C, l, "attn_q");
    bind_matrix(b, c, &w->k, c->C, c->C, l, "attn_k");
    bind_matrix(b, c, &w->v, c->C, c->C, l, "attn_v");
    bind_matrix(b, c, &w->out, c->C, c->C, l, "attn_out");
    bind_matrix(b, c, &w->gate, c->F, c->C, l, "ffn_gate");
    bind_matrix(b, c, &w->up, c->F, c->C, l, "ffn_up");
    bind_matrix(b, c, &w->down, c->C, c->F, l, "ffn_down");
}

/* Both position tables, one behind the other; and what the two kinds have in common. */
static void bind_common(ft_vision *v, ft_binder *b, cfg *c)
{
    const ft_gguf_tensor *t = ft_gguf_tensor_find(b->m->file, "v.position_embd.weight");
    const int64_t rows = t ? t->n[1] : 0;
    if (!t || t->n[0] != c->C || rows < 1 || rows > 1 << 20 || t->n[2] != 2)
        ft_bind_fail(b, FT_EFORMAT, "tensor v.position_embd.weight is not two tables of width %d",
                     c->C);
    if (b->st) return;
    c->G = v->most = (int)rows;
    if (rows * 2 * c->C > 1 << 30)
        ft_bind_fail(b, FT_EFORMAT, "tensor v.position_embd.weight has %lld rows, want fewer",
                     (long long)rows);
    else
        ft_bind_vec(b, &c->positions, 2 * c->G * c->C, 1, "v.position_embd.weight");
    ft_bind_patch(b, &c->patch, c->C, 3 * v->p * v->p, "v.patch_embd.weight");
    ft_bind(b, &c->proj, v->E, c->C, "mm.input_projection.weight");
}

/* Sizes go by a budget of tokens. The text file does not say whether a picture's rows see each
 * other: ours does here. */
static void read_budget(ft_vision *v, ft_binder *b)
{
    ft_str s = {"", 0};
    const int tokens = 280;
    v->by_budget = true;
    if (!v->max_px) v->max_px = (int64_t)tokens * v->unit * v->unit;
    if (ft_gguf_str(b->m->file, "foretoken.image_attention", &s) &&
        !ft_str_is(s, "bidirectional") && !ft_str_is(s, "causal"))
        ft_bind_fail(b, FT_EFORMAT,
                     "key foretoken.image_attention is \"%.*s\", want bidirectional or causal",
                     FT_STR_FMT(s));
    v->attention = ft_str_is(s, "bidirectional") ? FT_IMAGE_AHEAD
                   : ft_str_is(s, "causal")      ? FT_IMAGE_CAUSAL
                                                 : FT_IMAGE_BY_MODEL;
}

static void bind(ft_vision *v, ft_binder *b)
{
    cfg *c = v->m->cfg = ft_new(cfg);
    c->C = ft_key_need(b, "vision.embedding_length", 4, 1 << 16);
    c->F = ft_key_need(b, "vision.feed_forward_length", 1, 1 << 20);
    c->L = ft_key_need(b, "vision.block_count", 1, 512);
    c->eps = ft_key_f32(b, "vision.attention.layer_norm_epsilon", 1e-6f);
    v->H = ft_key_need(b, "vision.attention.head_count", 1, 1024);
    v->pool = ft_key(b, "vision.projector.scale_factor", 3, 1, 16);
    v->unit = v->p * v->pool;
    v->d = c->C / FT_MAX(v->H, 1);
    v->pool_scale = sqrtf((float)c->C);
    read_budget(v, b);
    for (int i = 0; i < 3; i++) { /* 2 p - 1 */
        v->mean[i] += v->std[i] / 2;
        v->std[i] /= 2;
    }
    if (!b->st && (v->d % 4 || v->d * v->H != c->C))
        ft_bind_fail(b, FT_EFORMAT, "%d values in %d heads, want a multiple of four in each", c->C,
                     v->H);
    if (b->st) return;
    c->layer = ft_new_n(layer, (size_t)c->L);
    v->pieces = c->L + 2;
    bind_common(v, b, c);
    for (int l = 0; l < c->L && !b->st; l++) bind_layer(v, b, c, &c->layer[l], l);
    ft_bind_vec_opt(b, &c->std_bias, c->C, -1, "v.std_bias");
    ft_bind_vec_opt(b, &c->std_scale, c->C, 1, "v.std_scale");
    if (b->st) return;
    c->by_col = ft_vision_rope(b, v->d / 2, v->d / 4, 100, 1);
    c->by_row = ft_vision_rope(b, v->d / 2, v->d / 4, 100, 0);
}

static void bind_flat(ft_vision *v, ft_binder *b)
{
    cfg *c = v->m->cfg = ft_new(cfg);
    c->C = ft_key_need(b, "vision.embedding_length", 1, 1 << 16);
    v->p *= ft_key(b, "vision.projector.scale_factor", 3, 1, 16);
    v->unit = v->p;
    v->pieces = 1;
    read_budget(v, b);
    if (b->st) return;
    bind_common(v, b, c);
    const int k = 3 * v->p * v->p;
    ft_bind_vec(b, &c->patch_b, c->C, 1, "v.patch_embd.bias");
    ft_bind_vec(b, &c->norm1, k, 1, "v.patch_norm.1.weight");
    ft_bind_vec(b, &c->norm1_b, k, 1, "v.patch_norm.1.bias");
    ft_bind_vec(b, &c->norm2, c->C, 1, "v.patch_norm.2.weight");
    ft_bind_vec(b, &c->norm2_b, c->C, 1, "v.patch_norm.2.bias");
    ft_bind_vec(b, &c->norm3, c->C, 1, "v.patch_norm.3.weight");
    ft_bind_vec(b, &c->norm3_b, c->C, 1, "v.patch_norm.3.bias");
}

static void release(ft_vision *v)
{
    ft_free(((cfg *)v->m->cfg)->layer);
}

const ft_tower ft_tower_gemma4 = {
    .projector = "gemma4v",
    .words = "Gemma 4 vision tower",
    .bind = bind,
    .release = release,
    .forward = forward,
    .arena = arena,
    .position = position,
};

const ft_tower ft_tower_gemma4_unified = {
    .projector = "gemma4uv",
    .words = "Gemma 4 vision projector",
    .bind = bind_flat,
    .release = release,
    .forward = forward_flat,
    .arena = arena_flat,
    .position = position,
};
