/* Qwen3.5 / 3.6, dense and with experts.                               docs/arch/qwen35.md
 *   x  = E[token], or a row of the vision tower where an image stands
 *   x += mix_l(rms(x))        three gated delta nets, then one gated attention, repeating
 *   x += ffn_l(rms(x))        SwiGLU, or the experts a router chose and one shared expert
 *   h  = rms(x), logits = W_out h
 * and the head that drafts the token after next from a token t and the hidden row before it:
 *   x  = W_eh [rms(E[t]); rms(h)], one attention block as above, h' = rms(x), logits = W_out h' */
#include "base/mem.h"
#include "model/bind.h"

#include <math.h>
#include <stdio.h>

typedef enum kind { DELTA, ATTN } kind;

typedef struct layer {
    kind kind;
    ft_vec mix_norm, ffn_norm;
    /* attention */
    int G;
    ft_weight wqg, wk, wv, wo;
    ft_vec q_norm, k_norm;
    /* delta net */
    ft_weight wqkv, wz, wa, wb, wout;
    ft_vec conv, A, dt, o_norm;
    /* feed-forward: dense, or experts and a shared expert */
    ft_weight gate, up, down;
    ft_weight router, shared_gate;
    ft_experts experts;
} layer;

typedef struct cfg {
    int D, L, V;
    int H, d, F;             /* query heads, head width, feed-forward width */
    int Hk, Hv, S, C, I, CH; /* delta net: heads, head width, taps, Hv S, channels */
    int E, K, Fe, Fs;        /* experts, experts per token, their width, the shared expert's
                              * width */
    float eps;
    ft_rope rope;
    ft_weight embed, head;
    ft_vec out_norm;
    layer *layer; /* [L], then the draft block */
    struct {
        ft_weight embed, proj, head;
        ft_vec e_norm, h_norm, out_norm;
    } mtp;
} cfg;

/* Activations of one pass, all rows of the arena. */
typedef struct act {
    ft_mat x, xn, cs;
    ft_mat qg, k, v, o;
    ft_mat u, y, z, a, b;
    ft_mat g, up;
    ft_mat router, tmp, sg;
    ft_expert_choice route;
} act;

/* ---- the passes ---- */

static act lay_out(const cfg *c, ft_step *s, int T, int G)
{
    act a = {0};
    a.x = ft_take_rows(s, T, c->D);
    a.xn = ft_take_rows(s, T, c->D);
    a.cs = ft_take_rows(s, T, c->rope.n);
    a.qg = ft_take_rows(s, T, 2 * c->H * c->d);
    a.k = ft_take_rows(s, T, G * c->d);
    a.v = ft_take_rows(s, T, G * c->d);
    a.o = ft_take_rows(s, T, FT_MAX(c->H * c->d, c->I));
    a.u = ft_take_rows(s, T, c->CH);
    a.y = ft_take_rows(s, T, c->CH);
    a.z = ft_take_rows(s, T, c->I);
    a.a = ft_take_rows(s, T, c->Hv);
    a.b = ft_take_rows(s, T, c->Hv);
    const int F = FT_MAX(c->F, c->Fs);
    a.g = ft_take_rows(s, T, F);
    a.up = ft_take_rows(s, T, F);
    if (!c->E) return a;
    a.router = ft_take_rows(s, T, c->E);
    a.tmp = ft_take_rows(s, T * c->K, 2 * c->Fe);
    a.sg = ft_take_rows(s, T, 1);
    a.route.K = c->K;
    a.route.id = (int32_t *)ft_take_rows(s, T, c->K).p;
    a.route.w = ft_take_rows(s, T, c->K).p;
    return a;
}

/* Keys and values of this step's rows, and their queries where all are needed. */
static void attn_kv(const cfg *c, const layer *w, const act *a, ft_step *s, int l, bool queries)
{
    ft_qkv x = {.q_norm = w->q_norm, .k_norm = w->k_norm, .eps = c->eps, .cs = a->cs};
    const ft_product_out o[] = {{ft_cols(a->k, 0, w->G * c->d), &w->wk},
                                {ft_cols(a->v, 0, w->G * c->d), &w->wv},
                                {a->qg, &w->wqg}}; /* [T, H, 2d]: query, then its gate */
    ft_linears(s, o, queries ? 3 : 2, a->xn);
    if (queries) x.q = ft_heads(a->qg, 0, c->H, c->d, 2 * c->d);
    x.k = ft_heads(o[0].y, 0, w->G, c->d, c->d);
    x.v = ft_heads(o[1].y, 0, w->G, c->d, c->d);
    ft_put_heads(s, l, &x);
}

/* Gated attention over the stored positions: x += Wo (attend(q) * sigmoid(gate)). */
static void attn_mix(const cfg *c, const layer *w, const act *a, ft_step *s, int l, ft_attn p)
{
    ft_mat q = ft_heads(a->qg, 0, c->H, c->d, 2 * c->d);
    ft_mat gate = ft_heads(a->qg, c->d, c->H, c->d, 2 * c->d);
    ft_mat o = ft_cols(a->o, 0, c->H * c->d), oh = ft_heads(o, 0, c->H, c->d, c->d);
    ft_attend(s, l, oh, q, p);
    ft_sigmoid_mul(s, oh, gate);
    ft_linear_add(s, a->x, o, &w->wo);
}

static void delta(const cfg *c, const layer *w, const act *a, ft_step *s, int l)
{
    ft_mat o = ft_cols(a->o, 0, c->I), oh = ft_heads(o, 0, c->Hv, c->S, c->S);
    const ft_product_out in[] = {{a->u, &w->wqkv}, {a->z, &w->wz}, {a->a, &w->wa}, {a->b, &w->wb}};
    ft_linears(s, in, 4, a->xn);
    ft_conv(s, l, a->y, a->u, w->conv);
    ft_delta_rule(s, l, oh, a->y, a->a, a->b, w->A, w->dt);
    ft_gated_norm(s, oh, oh, ft_heads(a->z, 0, c->Hv, c->S, c->S), w->o_norm, c->eps);
    ft_linear_add(s, a->x, o, &w->wout);
}

static void ffn(const cfg *c, const layer *w, const act *a, ft_step *s)
{
    ft_mat g = ft_cols(a->g, 0, w->gate.n), u = ft_cols(a->up, 0, w->gate.n);
    if (!c->E) {
        ft_rmsnorm(s, a->xn, a->x, w->ffn_norm, c->eps);
        ft_glu(s, g, u, a->xn, &w->gate, &w->up, FT_SILU);
        ft_linear_add(s, a->x, g, &w->down);
        return;
    }
    const ft_product_out o[] = {{a->router, &w->router}, {a->sg, &w->shared_gate}};
    const ft_shared_expert shared = {&w->gate, &w->up, &w->down, a->sg, g, u};
    ft_norm_linears(s, a->xn, a->x, w->ffn_norm, c->eps, o, 2);
    ft_route_top(s, a->route, a->router);
    ft_moe_shared(s, a->x, a->xn, &w->experts, a->route, a->tmp, &shared);
}

static ft_attn causal(const cfg *c)
{
    return (ft_attn){.scale = 1 / sqrtf((float)c->d)};
}

static void forward(const ft_model *m, ft_step *s)
{
    const cfg *c = m->cfg;
    act a = lay_out(c, s, s->T, c->layer[c->L - 1].G);
    ft_embed(s, a.x, &c->embed, 1);
    ft_image_rows(s, a.x);
    ft_rope_angles(s, a.cs, &c->rope);
    for (int l = 0; l < c->L; l++) {
        const layer *w = &c->layer[l];
        ft_layer_begin(s, l, a.x);
        ft_rmsnorm(s, a.xn, a.x, w->mix_norm, c->eps);
        if (w->kind == DELTA) {
            delta(c, w, &a, s, l);
        } else {
            attn_kv(c, w, &a, s, l, true);
            attn_mix(c, w, &a, s, l, causal(c));
        }
        ffn(c, w, &a, s);
    }
    ft_rmsnorm(s, s->hidden, a.x, c->out_norm, c->eps);
    ft_layer_begin(s, c->L, s->hidden);
    if (!s->n_out) return;
    ft_mat h = ft_take_rows(s, s->n_out, c->D);
    ft_gather_out(s, h, s->hidden);
    ft_linear(s, s->logits, h, &c->head);
}

/* Position 0 of the draft block has no hidden row before it and is never attended to. */
static void draft(const ft_model *m, ft_step *s)
{
    const cfg *c = m->cfg;
    const layer *w = &c->layer[c->L];
    ft_mat e = ft_take(s, c->D), eh = ft_take(s, 2 * c->D);
    act a = lay_out(c, s, s->T, w->G);
    ft_embed(s, e, &c->mtp.embed, 1);
    ft_image_rows(s, e);
    ft_rmsnorm(s, ft_cols(eh, 0, c->D), e, c->mtp.e_norm, c->eps);
    ft_rmsnorm(s, ft_cols(eh, c->D, c->D), s->hidden_in, c->mtp.h_norm, c->eps);
    ft_linear(s, a.x, eh, &c->mtp.proj);
    ft_rmsnorm(s, a.xn, a.x, w->mix_norm, c->eps);
    ft_rope_angles(s, a.cs, &c->rope);
    const bool one = s->T == 1 && s->n_out; /* the only row is the output row */
    attn_kv(c, w, &a, s, c->L, one);
    if (!s->n_out) return;

    act o = one ? a : lay_out(c, s, s->n_out, w->G);
    ft_attn p = causal(c);
    p.first = 1;
    if (!one) {
        ft_gather_out(s, o.x, a.x);
        ft_gather_out(s, o.xn, a.xn);
        ft_gather_out(s, o.cs, a.cs);
        p.out = true;
        ft_linear(s, o.qg, o.xn, &w->wqg);
        ft_norm_rope(s, ft_heads(o.qg, 0, c->H, c->d, 2 * c->d), w->q_norm, c->eps, o.cs);
    }
    attn_mix(c, w, &o, s, c->L, p);
    ffn(c, w, &o, s);
    ft_rmsnorm(s, s->hidden, o.x, c->mtp.out_norm, c->eps);
    ft_linear(s, s->logits, s->hidden, m->n_draft_ids ? &m->narrow : &c->mtp.head);
}

static size_t arena(const ft_model *m, int T, int n_out)
{
    const cfg *c = m->cfg;
    ft_step s = {.T = T, .n_out = n_out};
    int G = 1;
    for (int l = 0; l < m->n_layer; l++) G = FT_MAX(G, c->layer[l].G);
    lay_out(c, &s, T, G);
    lay_out(c, &s, n_out, G);
    ft_take(&s, 3 * c->D);
    ft_take_rows(&s, n_out, c->D);
    return s.arena_used;
}

/* ---- bind ---- */

static void bind_attn(ft_binder *b, const cfg *c, layer *w, int l)
{
    w->kind = ATTN;
    ft_bind(b, &w->wqg, 2 * c->H * c->d, c->D, "blk.%d.attn_q.weight", l);
    ft_bind(b, &w->wk, w->G * c->d, c->D, "blk.%d.attn_k.weight", l);
    ft_bind(b, &w->wv, w->G * c->d, c->D, "blk.%d.attn_v.weight", l);
    ft_bind(b, &w->wo, c->D, c->H * c->d, "blk.%d.attn_output.weight", l);
    ft_bind_vec(b, &w->q_norm, c->d, 1, "blk.%d.attn_q_norm.weight", l);
    ft_bind_vec(b, &w->k_norm, c->d, 1, "blk.%d.attn_k_norm.weight", l);
    b->m->layer[l] =
        (ft_layer_state){.kind = FT_STATE_FULL, .G = w->G, .d = c->d, .group = c->H / w->G};
}

static void bind_delta(ft_binder *b, const cfg *c, layer *w, int l)
{
    w->kind = DELTA;
    ft_bind(b, &w->wqkv, c->CH, c->D, "blk.%d.attn_qkv.weight", l);
    ft_bind(b, &w->wz, c->I, c->D, "blk.%d.attn_gate.weight", l);
    ft_bind(b, &w->wa, c->Hv, c->D, "blk.%d.ssm_alpha.weight", l);
    ft_bind(b, &w->wb, c->Hv, c->D, "blk.%d.ssm_beta.weight", l);
    ft_bind(b, &w->wout, c->D, c->I, "blk.%d.ssm_out.weight", l);
    ft_bind_vec(b, &w->conv, c->CH * c->C, 1, "blk.%d.ssm_conv1d.weight", l);
    ft_bind_vec(b, &w->A, c->Hv, 1, "blk.%d.ssm_a", l);
    if (!ft_bind_vec_opt(b, &w->dt, c->Hv, 1, "blk.%d.ssm_dt.bias", l))
        ft_bind_vec(b, &w->dt, c->Hv, 1, "blk.%d.ssm_dt",
                    l); /* the name that another exporter uses */
    ft_bind_vec(b, &w->o_norm, c->S, 1, "blk.%d.ssm_norm.weight", l);
    b->m->layer[l] =
        (ft_layer_state){.kind = FT_STATE_DELTA, .Hk = c->Hk, .Hv = c->Hv, .S = c->S, .C = c->C};
}

static void bind_ffn(ft_binder *b, const cfg *c, layer *w, int l)
{
    if (!c->E) {
        ft_bind(b, &w->gate, c->F, c->D, "blk.%d.ffn_gate.weight", l);
        ft_bind(b, &w->up, c->F, c->D, "blk.%d.ffn_up.weight", l);
        ft_bind(b, &w->down, c->D, c->F, "blk.%d.ffn_down.weight", l);
        return;
    }
    ft_experts *e = &w->experts;
    *e = (ft_experts){.E = c->E, .F = c->Fe, .act = FT_SILU};
    ft_bind(b, &w->router, c->E, c->D, "blk.%d.ffn_gate_inp.weight", l);
    if (!ft_bind_stack_opt(b, &e->gate_up, c->E, 2 * c->Fe, c->D, "blk.%d.ffn_gate_up_exps.weight",
                           l)) {
        ft_bind_stack(b, &e->gate, c->E, c->Fe, c->D, "blk.%d.ffn_gate_exps.weight", l);
        ft_bind_stack(b, &e->up, c->E, c->Fe, c->D, "blk.%d.ffn_up_exps.weight", l);
    }
    ft_bind_stack(b, &e->down, c->E, c->D, c->Fe, "blk.%d.ffn_down_exps.weight", l);
    ft_bind(b, &w->gate, c->Fs, c->D, "blk.%d.ffn_gate_shexp.weight", l);
    ft_bind(b, &w->up, c->Fs, c->D, "blk.%d.ffn_up_shexp.weight", l);
    ft_bind(b, &w->down, c->D, c->Fs, "blk.%d.ffn_down_shexp.weight", l);
    ft_bind(b, &w->shared_gate, 1, c->D, "blk.%d.ffn_gate_inp_shexp.weight", l);
}

static void bind_block(ft_binder *b, cfg *c, int l, int blocks, bool recurrent)
{
    layer *w = &c->layer[l];
    ft_bind_vec(b, &w->mix_norm, c->D, 1, "blk.%d.attn_norm.weight", l);
    ft_bind_vec(b, &w->ffn_norm, c->D, 1, "blk.%d.post_attention_norm.weight", l);
    w->G = 1;
    if (recurrent) {
        bind_delta(b, c, w, l);
    } else {
        w->G = ft_key_layer(b, "attention.head_count_kv", l, blocks, c->H, 1, 1024);
        if (!b->st && c->H % w->G)
            ft_bind_fail(b, FT_EFORMAT,
                         "layer %d: %d query heads are not a multiple of %d key heads", l, c->H,
                         w->G);
        bind_attn(b, c, w, l);
    }
    bind_ffn(b, c, w, l);
}

/* How many of the file's blocks draft: 1 or 0. Of several heads the first one makes all draft
 * tokens, the others are not read. A head that is declared but absent counts as none; then the last
 * block belongs to the trunk if it exists. */
static int draft_blocks(ft_binder *b, int blocks, int *trunk)
{
    ft_model *m = b->m;
    const int M = ft_key(b, "nextn_predict_layers", 0, 0, blocks - 1);
    *trunk = blocks - M;
    m->no_draft = "the file has no draft head";
    if (M == 0) return 0;
    if (ft_bind_has(b, "blk.%d.nextn.eh_proj.weight", *trunk)) {
        m->draft_heads = M;
        return 1;
    }
    m->no_draft = "the file declares a draft head but does not hold its tensors";
    if (M == 1 && ft_bind_has(b, "blk.%d.attn_norm.weight", blocks - 1)) *trunk = blocks;
    return 0;
}

static void read_sizes(ft_binder *b, cfg *c, bool moe)
{
    ft_model *m = b->m;
    m->ctx_train = ft_key_need(b, "context_length", 1, 1 << 30);
    c->D = ft_key_need(b, "embedding_length", 1, 1 << 20);
    c->H = ft_key_layer(b, "attention.head_count", 0, 1, 1, 1, 1024);
    c->d = ft_key(b, "attention.key_length", c->D / FT_MAX(c->H, 1), 2, 1024);
    c->eps = ft_key_f32(b, "attention.layer_norm_rms_epsilon", 1e-6f);
    c->C = ft_key_need(b, "ssm.conv_kernel", 2, 16);
    c->S = ft_key_need(b, "ssm.state_size", 1, 1024);
    c->Hv = ft_key_need(b, "ssm.time_step_rank", 1, 4096);
    c->Hk = ft_key_need(b, "ssm.group_count", 1, 4096);
    c->I = ft_key_need(b, "ssm.inner_size", 1, 1 << 20);
    c->CH = 2 * c->Hk * c->S + c->I;
    c->F = ft_key_layer(b, "feed_forward_length", 0, 1, moe ? 0 : 1, moe ? 0 : 1, 1 << 20);
    if (b->st) return;
    if (ft_key(b, "attention.value_length", c->d, 1, 1024) != c->d)
        ft_bind_fail(b, FT_EUNSUPPORTED, "keys of %d and values of another width, want the same",
                     c->d);
    if (c->I != c->Hv * c->S || c->Hv % c->Hk)
        ft_bind_fail(b, FT_EFORMAT,
                     "delta net with %d values in %d heads of %d over %d key heads does not divide",
                     c->I, c->Hv, c->S, c->Hk);
    if (!ft_key_bool(b, "ssm.v_head_reordered", true))
        ft_bind_fail(b, FT_EUNSUPPORTED, "ssm.v_head_reordered is false; convert the model again");
    if (!moe) return;
    c->E = ft_key_need(b, "expert_count", 1, 1024);
    c->K = ft_key_need(b, "expert_used_count", 1, c->E);
    c->Fe = ft_key(b, "expert_feed_forward_length", FT_MAX(1, c->F / FT_MAX(1, c->K)), 1, 1 << 20);
    c->Fs = ft_key(b, "expert_shared_feed_forward_length", FT_MAX(1, c->F), 1, 1 << 20);
    c->F = 0;
    m->limits.experts = c->K;
    m->limits.expert_k = FT_MAX(c->D, c->Fe);
}

static void read_rope(ft_binder *b, cfg *c)
{
    int sections[4] = {11, 11, 10, 0};
    char key[96];
    snprintf(key, sizeof key, "%s.rope.dimension_sections", b->prefix);
    const ft_gguf_kv *kv = ft_gguf_kv_find(b->m->file, key);
    for (uint64_t i = 0; kv && i < 4; i++) {
        int64_t v = 0;
        if (i < kv->n && !ft_gguf_kv_i64(kv, i, &v)) v = 0;
        sections[i] = (int)FT_MAX(0, FT_MIN(v, 1 << 16));
    }
    const int n = ft_key(b, "rope.dimension_count", c->d, 2, c->d);
    if (n % 2) ft_bind_fail(b, FT_EFORMAT, "rope.dimension_count is %d, want an even number", n);
    const double base = (double)ft_key_f32(b, "rope.freq_base", 10000);
    if (!b->st) c->rope = ft_bind_rope(b, n, base, NULL, sections, true);
}

static void bind_mtp(ft_binder *b, cfg *c)
{
    const int l = c->L;
    bind_block(b, c, l, l + 1, false);
    ft_bind(b, &c->mtp.proj, c->D, 2 * c->D, "blk.%d.nextn.eh_proj.weight", l);
    ft_bind_vec(b, &c->mtp.e_norm, c->D, 1, "blk.%d.nextn.enorm.weight", l);
    ft_bind_vec(b, &c->mtp.h_norm, c->D, 1, "blk.%d.nextn.hnorm.weight", l);
    if (!ft_bind_vec_opt(b, &c->mtp.out_norm, c->D, 1, "blk.%d.nextn.shared_head_norm.weight", l))
        c->mtp.out_norm = c->out_norm;
    if (!ft_bind_opt(b, &c->mtp.head, c->V, c->D, "blk.%d.nextn.shared_head_head.weight", l))
        c->mtp.head = c->head;
    b->lookup = true;
    if (!ft_bind_opt(b, &c->mtp.embed, c->V, c->D, "blk.%d.nextn.embed_tokens.weight", l))
        c->mtp.embed = c->embed;
    b->lookup = false;
}

static bool is_recurrent(ft_binder *b, int l, int blocks, int interval)
{
    char key[96];
    snprintf(key, sizeof key, "%s.attention.recurrent_layers", b->prefix);
    if (ft_gguf_kv_find(b->m->file, key))
        return ft_key_layer(b, "attention.recurrent_layers", l, blocks, 0, 0, 1) != 0;
    return (l + 1) % interval != 0;
}

/* ---- a head in a file of its own ---- */

/* Old forks name the head in the architecture and not in the keys. */
static void head_prefix(ft_binder *b)
{
    char key[96];
    snprintf(key, sizeof key, "%s.block_count", b->prefix);
    const size_t n = strlen(b->prefix);
    if (!ft_gguf_kv_find(b->m->file, key) && n > 4 && !strcmp(b->prefix + n - 4, "_mtp"))
        b->prefix[n - 4] = 0;
}

/* What it must have in common with the target. */
static void check_target(ft_binder *b, const cfg *c, int blocks)
{
    const ft_model *t = b->m->target;
    if (b->st) return;
    if (t->arch != b->m->arch)
        ft_bind_fail(b, FT_EUNSUPPORTED, "a draft head of %s, the target is %s", b->m->arch->name,
                     t->arch->name);
    else if (!ft_bind_has(b, "blk.%d.nextn.eh_proj.weight", blocks - 1))
        ft_bind_fail(b, FT_EUNSUPPORTED, "the file has no draft head: blk.%d.nextn.eh_proj.weight",
                     blocks - 1);
    else if (c->D != t->D)
        ft_bind_fail(b, FT_EUNSUPPORTED,
                     "the draft head was made for a target of width %d, this one has %d", c->D,
                     t->D);
    else if (blocks - 1 != t->L)
        ft_bind_fail(b, FT_EUNSUPPORTED,
                     "the draft head was made for a target of %d layers, this one has %d",
                     blocks - 1, t->L);
    else if (c->V != t->V)
        ft_bind_fail(b, FT_EUNSUPPORTED, "the draft head has %d tokens, the target %d", c->V, t->V);
}

/* Only its block; embedding, output matrix and norm are the target's. */
static ft_status bind_head(ft_model *m, ft_err *err)
{
    ft_binder b = ft_binder_over(m, err);
    cfg *c = m->cfg = ft_new(cfg);
    head_prefix(&b);
    const int blocks = ft_key_need(&b, "block_count", 1, 512);
    read_sizes(&b, c, m->arch == &ft_arch_qwen35moe);
    const ft_gguf_tensor *embd = ft_gguf_tensor_find(m->file, "token_embd.weight");
    c->V = embd && embd->n[1] > 0 && embd->n[1] < 1 << 28 ? (int)embd->n[1] : m->target->V;
    check_target(&b, c, blocks);
    if (b.st) return b.st;
    const cfg *t = m->target->cfg;
    c->L = m->L = t->L;
    m->n_layer = c->L + 1;
    m->V = c->V;
    m->D = c->D;
    m->layer = ft_new_n(ft_layer_state, (size_t)m->n_layer);
    c->layer = ft_new_n(layer, (size_t)m->n_layer);
    read_rope(&b, c);
    c->embed = t->embed;
    c->head = t->head;
    c->out_norm = t->out_norm;
    bind_mtp(&b, c);
    m->drafter = FT_DRAFT_MTP;
    m->limits.heads = c->H;
    m->limits.head_d = c->d;
    m->limits.vocab = c->V;
    return b.st;
}

static ft_status bind(ft_model *m, ft_err *err)
{
    if (m->target) return bind_head(m, err);
    ft_binder b = ft_binder_over(m, err);
    cfg *c = m->cfg = ft_new(cfg);
    const bool moe = m->arch == &ft_arch_qwen35moe;
    const int blocks = ft_key_need(&b, "block_count", 1, 512);
    const int M = draft_blocks(&b, blocks, &c->L);
    const int interval = ft_key(&b, "full_attention_interval", 4, 1, 512);
    read_sizes(&b, c, moe);
    if (!b.st && c->L > 0 && !ft_bind_has(&b, "blk.0.attn_norm.weight"))
        ft_bind_fail(&b, FT_EUNSUPPORTED, "the file holds a draft head alone, want a whole model");
    const ft_gguf_tensor *embd = ft_gguf_tensor_find(m->file, "token_embd.weight");
    c->V = embd && embd->n[1] > 0 && embd->n[1] < 1 << 28 ? (int)embd->n[1] : 1;
    if (b.st) return b.st;

    m->L = c->L;
    m->n_layer = c->L + M;
    m->V = c->V;
    m->D = c->D;
    m->layer = ft_new_n(ft_layer_state, (size_t)m->n_layer);
    c->layer = ft_new_n(layer, (size_t)m->n_layer);
    read_rope(&b, c);
    ft_bind_ends(&b, &c->embed, &c->head, c->V, c->D);
    ft_bind_vec(&b, &c->out_norm, c->D, 1, "output_norm.weight");
    for (int l = 0; l < c->L; l++)
        bind_block(&b, c, l, blocks, is_recurrent(&b, l, blocks, interval));
    if (M) bind_mtp(&b, c);
    m->drafter = M ? FT_DRAFT_MTP : FT_DRAFT_NONE;
    m->limits.heads = c->H;
    m->limits.head_d = c->d;
    m->limits.vocab = c->V;
    return b.st;
}

static const ft_weight *draft_head(const ft_model *m, const ft_gguf_tensor **t)
{
    const cfg *c = m->cfg;
    const ft_gguf *f = m->target ? m->target->file : m->file;
    char own[64];
    snprintf(own, sizeof own, "blk.%d.nextn.shared_head_head.weight", c->L);
    *t = ft_gguf_tensor_find(m->file, own);
    if (!*t) *t = ft_gguf_tensor_find(f, "output.weight");
    if (!*t) *t = ft_gguf_tensor_find(f, "token_embd.weight");
    return m->drafter == FT_DRAFT_MTP ? &c->mtp.head : NULL;
}

static void release(ft_model *m)
{
    cfg *c = m->cfg;
    if (c) ft_free(c->layer);
}

static const char *const dense_head[] = {"qwen35_mtp", NULL}, *const moe_head[] = {"qwen35moe_mtp",
                                                                                   NULL};

const ft_arch ft_arch_qwen35 = {
    .name = "qwen35",
    .alias = dense_head,
    .words = "Qwen3.5, dense",
    .bind = bind,
    .release = release,
    .forward = forward,
    .draft = draft,
    .arena = arena,
    .draft_head = draft_head,
};

const ft_arch ft_arch_qwen35moe = {
    .name = "qwen35moe",
    .alias = moe_head,
    .words = "Qwen3.5, mixture of experts",
    .bind = bind,
    .release = release,
    .forward = forward,
    .draft = draft,
    .arena = arena,
    .draft_head = draft_head,
};
