/* Gemma 4: dense, edge (per-layer inputs, shared keys and values) and with experts.
 *                                                                       docs/arch/gemma4.md
 *   x  = sqrt(D) E[token], or a row of the vision tower, unscaled, where an image stands
 *   x += rms(attn_l(rms(x)))      sliding layers, and global ones with other heads
 *   x += rms(ffn_l(rms(x)))       GELU-gated; some models add the experts a router chose
 *   x += rms(proj(gelu(gate x) * ple_l))         where the model has per-layer inputs
 *   x *= scale_l
 *   h  = rms(x), logits = cap(W_out h)
 * In sliding layers the rows of one image see each other where the model was trained so; the
 * per-layer inputs of an image row are those of the pad token, 0. Norms are plain multipliers;
 * attention is not scaled (the query norm carries it). What is added to x goes through norm_add,
 * which makes the norms that are read next as well. */
#include "model/gemma4.h"
#include "base/mem.h"

#include <math.h>

typedef struct layer {
    bool sliding;
    int H, G, d, F;
    int source; /* the layer whose keys and values it reads: itself, or an earlier one */
    ft_vec attn_norm, post_attn_norm, ffn_norm, post_ffn_norm;
    ft_weight wq, wk, wv, wo; /* wv.data == NULL: values are the raw keys */
    ft_vec q_norm, k_norm;
    ft_weight gate, up, down;
    /* experts beside the dense branch */
    ft_weight router;
    ft_vec router_norm, expert_norm, post_dense, post_expert;
    ft_experts experts;
    /* per-layer input */
    ft_weight ple_gate, ple_proj;
    ft_vec ple_norm;
    float scale;
} layer;

typedef struct cfg {
    int D, L, V, P; /* P: width of a per-layer input, 0 without */
    int W;          /* window */
    int E, K, Fe;
    int heads, keys, ffn; /* widest H d, G d and F of any layer */
    bool moe;
    float eps, softcap;
    ft_rope rope_full, rope_slide;
    ft_weight embed, head, ple_embed, ple_model;
    ft_vec out_norm, ple_model_norm;
    layer *layer;
} cfg;

typedef struct act {
    ft_mat x, xn, t, cs_full, cs_slide; /* xn: the normalised x that the next products read */
    ft_mat q, k, v, o;
    ft_mat g, up;
    ft_mat ple, ple_b, ple_g;
    ft_mat xr, xe, router, tmp, moe; /* xr, xe: the inputs of the router and of the experts */
    ft_expert_choice route;
} act;

/* ---- the pass ---- */

static act lay_out(const cfg *c, ft_step *s, int T)
{
    act a = {0};
    a.x = ft_take_rows(s, T, c->D);
    a.xn = ft_take_rows(s, T, c->D);
    a.t = ft_take_rows(s, T, c->D);
    a.cs_full = ft_take_rows(s, T, c->rope_full.n);
    a.cs_slide = ft_take_rows(s, T, c->rope_slide.n);
    a.q = ft_take_rows(s, T, c->heads);
    a.k = ft_take_rows(s, T, c->keys);
    a.v = ft_take_rows(s, T, c->keys);
    a.o = ft_take_rows(s, T, c->heads);
    a.g = ft_take_rows(s, T, c->ffn);
    a.up = ft_take_rows(s, T, c->ffn);
    if (c->P) {
        a.ple = ft_take_rows(s, T, c->P * c->L);
        a.ple_b = ft_take_rows(s, T, c->P * c->L);
        a.ple_g = ft_take_rows(s, T, c->P);
    }
    if (c->moe) {
        a.xr = ft_take_rows(s, T, c->D);
        a.xe = ft_take_rows(s, T, c->D);
        a.router = ft_take_rows(s, T, c->E);
        a.tmp = ft_take_rows(s, T * c->K, 2 * c->Fe);
        a.moe = ft_take_rows(s, T, c->D);
        a.route.K = c->K;
        a.route.id = (int32_t *)ft_take_rows(s, T, c->K).p;
        a.route.w = ft_take_rows(s, T, c->K).p;
    }
    return a;
}

/* ple[t, l] = (sqrt(P) E_l[token] + rms(W x / sqrt(D))) / sqrt(2), x being the scaled embedding.
 * The factor 1/sqrt(D) drops out of the norm but for its eps, so eps is scaled instead. */
static void per_layer_inputs(const cfg *c, const act *a, ft_step *s)
{
    ft_mat b = ft_heads(a->ple_b, 0, c->L, c->P, c->P);
    ft_embed(s, a->ple, &c->ple_embed, sqrtf((float)c->P));
    ft_linear(s, a->ple_b, a->x, &c->ple_model);
    ft_rmsnorm(s, b, b, c->ple_model_norm, c->eps * (float)c->D);
    ft_add(s, a->ple, a->ple_b, 1 / sqrtf(2));
}

/* t = attn(xn) */
static void attn(const cfg *c, const layer *w, const act *a, ft_step *s, int l)
{
    const ft_mat cs = w->sliding ? a->cs_slide : a->cs_full;
    ft_mat q = ft_cols(a->q, 0, w->H * w->d), qh = ft_heads(q, 0, w->H, w->d, w->d);
    ft_mat k = ft_cols(a->k, 0, w->G * w->d), kh = ft_heads(k, 0, w->G, w->d, w->d);
    ft_mat v = ft_cols(a->v, 0, w->G * w->d), vh = ft_heads(v, 0, w->G, w->d, w->d);
    ft_mat o = ft_cols(a->o, 0, w->H * w->d), oh = ft_heads(o, 0, w->H, w->d, w->d);
    const ft_product_out in[] = {{q, &w->wq}, {k, &w->wk}, {v, &w->wv}};
    const bool own = w->source == l;
    ft_linears(s, in, !own ? 1 : w->wv.data ? 3 : 2, a->xn);
    if (own) {
        const ft_qkv x = {.q = qh,
                          .k = kh,
                          .v = vh,
                          .q_norm = w->q_norm,
                          .k_norm = w->k_norm,
                          .norm_v = true,
                          .v_of_k = !w->wv.data,
                          .eps = c->eps,
                          .cs = cs};
        ft_put_heads(s, l, &x);
    } else {
        ft_norm_rope(s, qh, w->q_norm, c->eps, cs);
    }
    const bool ahead = w->sliding && s->b->ahead; /* global layers stay causal */
    ft_attend(s, w->source, oh, qh,
              (ft_attn){.scale = 1, .window = w->sliding ? c->W : 0, .ahead = ahead});
    ft_linear(s, a->t, o, &w->wo);
}

/* t = down(gelu(gate xn) * up xn), and moe = experts(xe) where there are some. */
static void ffn(const layer *w, const act *a, ft_step *s)
{
    ft_mat g = ft_cols(a->g, 0, w->F), u = ft_cols(a->up, 0, w->F);
    if (w->router.data) {
        ft_linear(s, a->router, a->xr, &w->router);
        ft_route_top(s, a->route, a->router);
        ft_moe(s, a->moe, a->xe, &w->experts, a->route, a->tmp, false);
    }
    ft_glu(s, g, u, a->xn, &w->gate, &w->up, FT_GELU);
    ft_linear(s, a->t, g, &w->down);
}

/* x = (x + rms(t)) * scale, with rms(t) + rms(moe) instead of t where there are experts; then the
 * norms of x. */
static void add_ffn(const cfg *c, const layer *w, const act *a, ft_step *s, float scale,
                    const ft_norm_out *o, int n)
{
    const ft_norm_out both[] = {{a->t, w->post_dense}, {a->moe, w->post_expert}};
    if (w->router.data)
        ft_norm_add_both(s, a->x, both, w->post_ffn_norm, c->eps, scale, o, n);
    else
        ft_norm_add(s, a->x, a->t, w->post_ffn_norm, c->eps, scale, o, n);
}

/* t = proj(gelu(gate x) * ple_l) */
static void per_layer(const cfg *c, const layer *w, const act *a, ft_step *s, int l)
{
    ft_linear(s, a->ple_g, a->x, &w->ple_gate);
    ft_act_mul(s, a->ple_g, a->ple_g, ft_cols(a->ple, l * c->P, c->P), FT_GELU);
    ft_linear(s, a->t, a->ple_g, &w->ple_proj);
}

/* next: the norms of x that the next layer reads. */
static void block(const cfg *c, const layer *w, const act *a, ft_step *s, int l, ft_norm_out next)
{
    /* the router's norm is rms0(x) / sqrt(D) * its scale */
    const ft_norm_out in[] = {
        {a->xn, w->ffn_norm}, {a->xr, w->router_norm}, {a->xe, w->expert_norm}};
    attn(c, w, a, s, l);
    ft_norm_add(s, a->x, a->t, w->post_attn_norm, c->eps, 1, in, w->router.data ? 3 : 1);
    ffn(w, a, s);
    if (!c->P) {
        add_ffn(c, w, a, s, w->scale, &next, 1);
        return;
    }
    add_ffn(c, w, a, s, 1, NULL, 0);
    per_layer(c, w, a, s, l);
    ft_norm_add(s, a->x, a->t, w->ple_norm, c->eps, w->scale, &next, 1);
}

static void forward(const ft_model *m, ft_step *s)
{
    const cfg *c = m->cfg;
    const act a = lay_out(c, s, s->T);
    ft_embed(s, a.x, &c->embed, sqrtf((float)c->D));
    ft_image_rows(s, a.x);
    ft_rope_angles(s, a.cs_full, &c->rope_full);
    ft_rope_angles(s, a.cs_slide, &c->rope_slide);
    if (c->P) per_layer_inputs(c, &a, s);
    ft_rmsnorm(s, a.xn, a.x, c->layer[0].attn_norm, c->eps);
    for (int l = 0; l < c->L; l++) {
        const bool last = l + 1 == c->L;
        ft_layer_begin(s, l, a.x);
        block(c, &c->layer[l], &a, s, l,
              last ? (ft_norm_out){s->hidden, c->out_norm}
                   : (ft_norm_out){a.xn, c->layer[l + 1].attn_norm});
    }
    ft_layer_begin(s, c->L, s->hidden);
    if (!s->n_out) return;
    ft_mat h = ft_take_rows(s, s->n_out, c->D);
    ft_gather_out(s, h, s->hidden);
    ft_linear(s, s->logits, h, &c->head);
    if (c->softcap > 0) ft_softcap(s, s->logits, c->softcap);
}

static size_t arena(const ft_model *m, int T, int n_out)
{
    const cfg *c = m->cfg;
    ft_step s = {.T = T, .n_out = n_out};
    lay_out(c, &s, T);
    ft_take_rows(&s, n_out, c->D);
    return s.arena_used;
}

/* ---- bind ---- */

static void bind_experts(ft_binder *b, cfg *c, layer *w, int l)
{
    ft_experts *e = &w->experts;
    *e = (ft_experts){.E = c->E, .F = c->Fe, .act = FT_GELU};
    ft_bind(b, &w->router, c->E, c->D, "blk.%d.ffn_gate_inp.weight", l);
    ft_bind_vec(b, &w->router_norm, c->D, 1 / sqrtf((float)c->D), "blk.%d.ffn_gate_inp.scale", l);
    ft_bind_vec(b, &w->expert_norm, c->D, 1, "blk.%d.pre_ffw_norm_2.weight", l);
    ft_bind_vec(b, &w->post_dense, c->D, 1, "blk.%d.post_ffw_norm_1.weight", l);
    ft_bind_vec(b, &w->post_expert, c->D, 1, "blk.%d.post_ffw_norm_2.weight", l);
    if (!ft_bind_stack_opt(b, &e->gate_up, c->E, 2 * c->Fe, c->D, "blk.%d.ffn_gate_up_exps.weight",
                           l)) {
        ft_bind_stack(b, &e->gate, c->E, c->Fe, c->D, "blk.%d.ffn_gate_exps.weight", l);
        ft_bind_stack(b, &e->up, c->E, c->Fe, c->D, "blk.%d.ffn_up_exps.weight", l);
    }
    ft_bind_stack(b, &e->down, c->E, c->D, c->Fe, "blk.%d.ffn_down_exps.weight", l);
}

static void bind_layer(ft_binder *b, cfg *c, int l, int owners)
{
    layer *w = &c->layer[l];
    ft_bind_vec(b, &w->attn_norm, c->D, 1, "blk.%d.attn_norm.weight", l);
    ft_bind_vec(b, &w->post_attn_norm, c->D, 1, "blk.%d.post_attention_norm.weight", l);
    ft_bind_vec(b, &w->ffn_norm, c->D, 1, "blk.%d.ffn_norm.weight", l);
    ft_bind_vec(b, &w->post_ffn_norm, c->D, 1, "blk.%d.post_ffw_norm.weight", l);
    ft_bind(b, &w->wq, w->H * w->d, c->D, "blk.%d.attn_q.weight", l);
    ft_bind(b, &w->wo, c->D, w->H * w->d, "blk.%d.attn_output.weight", l);
    ft_bind_vec(b, &w->q_norm, w->d, 1, "blk.%d.attn_q_norm.weight", l);
    if (l < owners) {
        ft_bind(b, &w->wk, w->G * w->d, c->D, "blk.%d.attn_k.weight", l);
        ft_bind_opt(b, &w->wv, w->G * w->d, c->D, "blk.%d.attn_v.weight", l);
        ft_bind_vec(b, &w->k_norm, w->d, 1, "blk.%d.attn_k_norm.weight", l);
    }
    ft_bind(b, &w->gate, w->F, c->D, "blk.%d.ffn_gate.weight", l);
    ft_bind(b, &w->up, w->F, c->D, "blk.%d.ffn_up.weight", l);
    ft_bind(b, &w->down, c->D, w->F, "blk.%d.ffn_down.weight", l);
    w->scale = ft_bind_scalar(b, 1, "blk.%d.layer_output_scale.weight", l);
    if (ft_bind_has(b, "blk.%d.ffn_gate_inp.weight", l)) bind_experts(b, c, w, l);
    if (!c->P) return;
    ft_bind(b, &w->ple_gate, c->P, c->D, "blk.%d.inp_gate.weight", l);
    ft_bind(b, &w->ple_proj, c->D, c->P, "blk.%d.proj.weight", l);
    ft_bind_vec(b, &w->ple_norm, c->D, 1, "blk.%d.post_norm.weight", l);
}

void ft_gemma4_heads(ft_binder *b, int l, int L, bool *sliding, int *d)
{
    *sliding = ft_key_layer(b, "attention.sliding_window_pattern", l, L, 0, 0, 1) != 0;
    const int full = ft_key_need(b, "attention.key_length", 2, 1024);
    *d = *sliding ? ft_key_need(b, "attention.key_length_swa", 2, 1024) : full;
    const int v = *sliding ? ft_key(b, "attention.value_length_swa", *d, 1, 1024)
                           : ft_key(b, "attention.value_length", *d, 1, 1024);
    if (!b->st && v != *d)
        ft_bind_fail(b, FT_EUNSUPPORTED,
                     "layer %d: keys of %d and values of %d, want the same width", l, *d, v);
}

void ft_gemma4_ropes(ft_binder *b, ft_rope *full, ft_rope *slide)
{
    const int dg = ft_key_need(b, "attention.key_length", 2, 1024);
    const int ds = ft_key_need(b, "attention.key_length_swa", 2, 1024);
    const int ng = ft_key(b, "rope.dimension_count", dg, 2, dg);
    const int ns = ft_key(b, "rope.dimension_count_swa", ds, 2, ds);
    const double bg = (double)ft_key_f32(b, "rope.freq_base", 1e6f);
    const double bs = (double)ft_key_f32(b, "rope.freq_base_swa", 10000);
    if (b->st) return;
    if (ng % 2 || ns % 2) {
        ft_bind_fail(b, FT_EFORMAT, "rope.dimension_count is %d and %d, want even numbers", ng, ns);
        return;
    }
    const ft_gguf_tensor *t = ft_gguf_tensor_find(b->m->file, "rope_freqs.weight");
    if (t && (t->type != FT_F32 || t->n[0] != ng / 2 || t->n[1] != 1)) {
        ft_bind_fail(b, FT_EFORMAT,
                     "tensor rope_freqs.weight is %s with %lld values, want F32 with %d",
                     ft_type_name(t->type), (long long)t->n[0], ng / 2);
        return;
    }
    *full = ft_bind_rope(b, ng, bg, t ? t->data : NULL, NULL, true);
    *slide = ft_bind_rope(b, ns, bs, NULL, NULL, false);
}

/* What each layer is, before any of its tensors is read: kind, heads, and the layer whose keys
 * it uses. */
static void read_layers(ft_binder *b, cfg *c, int owners)
{
    int last[2] = {-1, -1}; /* last owner of each kind: global, sliding */
    for (int l = 0; l < c->L && !b->st; l++) {
        layer *w = &c->layer[l];
        ft_gemma4_heads(b, l, c->L, &w->sliding, &w->d);
        w->H = ft_key_layer(b, "attention.head_count", l, c->L, 1, 1, 1024);
        w->G = ft_key_layer(b, "attention.head_count_kv", l, c->L, w->H, 1, 1024);
        w->F = ft_key_layer(b, "feed_forward_length", l, c->L, 1, 1, 1 << 20);
        if (l < owners) last[w->sliding] = l;
        w->source = last[w->sliding];
        if (b->st) return;
        if (w->source < 0) {
            ft_bind_fail(b, FT_EFORMAT,
                         "layer %d shares keys, but no earlier layer of its kind has any", l);
            return;
        }
        w->G = c->layer[w->source].G;
        if (w->H % w->G)
            ft_bind_fail(b, FT_EFORMAT,
                         "layer %d: %d query heads are not a multiple of %d key heads", l, w->H,
                         w->G);
        if (l < owners)
            b->m->layer[l] = (ft_layer_state){.kind = w->sliding ? FT_STATE_WINDOW : FT_STATE_FULL,
                                              .G = w->G,
                                              .d = w->d,
                                              .group = w->H / w->G,
                                              .window = c->W};
        c->heads = FT_MAX(c->heads, w->H * w->d);
        c->keys = FT_MAX(c->keys, w->G * w->d);
        c->ffn = FT_MAX(c->ffn, w->F);
        b->m->limits.heads = FT_MAX(b->m->limits.heads, w->H);
        b->m->limits.head_d = FT_MAX(b->m->limits.head_d, w->d);
    }
}

static void read_experts(ft_binder *b, cfg *c)
{
    c->E = ft_key(b, "expert_count", 0, 0, 1024);
    if (!c->E) return;
    c->moe = true;
    c->K = ft_key_need(b, "expert_used_count", 1, c->E);
    c->Fe = ft_key_need(b, "expert_feed_forward_length", 1, 1 << 20);
    b->m->limits.experts = c->K;
    b->m->limits.expert_k = FT_MAX(c->D, c->Fe);
}

static ft_status bind(ft_model *m, ft_err *err)
{
    ft_binder b = ft_binder_over(m, err);
    cfg *c = m->cfg = ft_new(cfg);
    c->L = ft_key_need(&b, "block_count", 1, 512);
    c->D = ft_key_need(&b, "embedding_length", 1, 1 << 20);
    m->ctx_train = ft_key_need(&b, "context_length", 1, 1 << 30);
    c->W = ft_key_need(&b, "attention.sliding_window", 1, 1 << 24);
    c->P = ft_key(&b, "embedding_length_per_layer_input", 0, 0, 1 << 16);
    c->eps = ft_key_f32(&b, "attention.layer_norm_rms_epsilon", 1e-6f);
    c->softcap = ft_key_f32(&b, "final_logit_softcapping", 30);
    const int shared = ft_key(&b, "attention.shared_kv_layers", 0, 0, c->L - 1);
    read_experts(&b, c);
    const ft_gguf_tensor *embd = ft_gguf_tensor_find(m->file, "token_embd.weight");
    c->V = embd && embd->n[1] > 0 && embd->n[1] < 1 << 28 ? (int)embd->n[1] : 1;
    if (b.st) return b.st;

    m->L = m->n_layer = c->L;
    m->V = c->V;
    m->D = c->D;
    m->no_draft = "Gemma 4 drafts with an assistant file, and none was given";
    m->layer = ft_new_n(ft_layer_state, (size_t)c->L);
    c->layer = ft_new_n(layer, (size_t)c->L);
    read_layers(&b, c, c->L - shared);
    ft_gemma4_ropes(&b, &c->rope_full, &c->rope_slide);
    ft_bind_ends(&b, &c->embed, &c->head, c->V, c->D);
    ft_bind_vec(&b, &c->out_norm, c->D, 1, "output_norm.weight");
    if (c->P) {
        ft_bind_lookup(&b, &c->ple_embed, c->V, c->P * c->L, "per_layer_token_embd.weight");
        ft_bind(&b, &c->ple_model, c->P * c->L, c->D, "per_layer_model_proj.weight");
        ft_bind_vec(&b, &c->ple_model_norm, c->P, 1, "per_layer_proj_norm.weight");
    }
    for (int l = 0; l < c->L && !b.st; l++) bind_layer(&b, c, l, c->L - shared);
    m->limits.vocab = c->V;
    return b.st;
}

static void release(ft_model *m)
{
    cfg *c = m->cfg;
    if (c) ft_free(c->layer);
}

bool ft_gemma4_source(const ft_model *m, bool sliding, int *l, int *G, int *d, int *window)
{
    const cfg *c = m->cfg;
    if (m->arch != &ft_arch_gemma4) return false;
    for (int i = c->L - 1; i >= 0; i--) {
        const layer *w = &c->layer[i];
        if (w->sliding != sliding || w->source != i) continue;
        *l = i;
        *G = w->G;
        *d = w->d;
        *window = c->W;
        return true;
    }
    return false;
}

const ft_weight *ft_gemma4_embed(const ft_model *m)
{
    return &((const cfg *)m->cfg)->embed;
}

const ft_arch ft_arch_gemma4 = {
    .name = "gemma4",
    .words = "Gemma 4",
    .bind = bind,
    .release = release,
    .forward = forward,
    .arena = arena,
};
