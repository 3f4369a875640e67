/* The Gemma 4 assistant: a small model that drafts for one target.      docs/arch/gemma4.md
 *   x  = W_pre [sqrt(D) E_target[token]; h]      h: the target's hidden row, then its own
 *   x += rms(attn_l(rms(x)))    queries only: keys and values are the target's
 *   x += rms(ffn_l(rms(x)))
 *   x *= scale_l
 *   m  = rms(x), h' = W_post m, logits = W_out m, or over the tokens of the best centroids
 * Every draft of a step stands at the same position, that of the pending token. */
#include "base/mem.h"
#include "model/gemma4.h"

#include <math.h>

typedef struct layer {
    bool sliding;
    int H, d, source, window;
    ft_vec attn_norm, post_attn_norm, ffn_norm, post_ffn_norm, q_norm;
    ft_weight wq, wo, gate, up, down;
    float scale;
} layer;

typedef struct cfg {
    int A, D, L, V, F; /* own width, the target's */
    int heads;
    float eps;
    ft_rope rope_full, rope_slide;
    ft_weight pre, post, head, centroid;
    const int32_t *order; /* NULL without a centroid head */
    int n_c, top;
    ft_vec out_norm;
    layer *layer;
} cfg;

typedef struct act {
    ft_mat eh, x, xn, t, m, cs_full, cs_slide, q, o, g, up, score;
} act;

static act lay_out(const cfg *c, ft_step *s, int T)
{
    return (act){
        .eh = ft_take_rows(s, T, 2 * c->D),
        .x = ft_take_rows(s, T, c->A),
        .xn = ft_take_rows(s, T, c->A),
        .t = ft_take_rows(s, T, c->A),
        .m = ft_take_rows(s, T, c->A),
        .cs_full = ft_take_rows(s, T, c->rope_full.n),
        .cs_slide = ft_take_rows(s, T, c->rope_slide.n),
        .q = ft_take_rows(s, T, c->heads),
        .o = ft_take_rows(s, T, c->heads),
        .g = ft_take_rows(s, T, c->F),
        .up = ft_take_rows(s, T, c->F),
        .score = ft_take_rows(s, T, FT_MAX(1, c->n_c)),
    };
}

/* t = attn(xn). The window ends at the last stored position and has one position more than the
 * target's own. */
static void attn(const cfg *c, const layer *w, const act *a, ft_step *s)
{
    ft_mat q = ft_cols(a->q, 0, w->H * w->d), qh = ft_heads(q, 0, w->H, w->d, w->d);
    ft_mat o = ft_cols(a->o, 0, w->H * w->d), oh = ft_heads(o, 0, w->H, w->d, w->d);
    ft_linear(s, q, a->xn, &w->wq);
    ft_norm_rope(s, qh, w->q_norm, c->eps, w->sliding ? a->cs_slide : a->cs_full);
    ft_attend(s, w->source, oh, qh,
              (ft_attn){.scale = 1, .window = w->sliding ? w->window + 1 : 0});
    ft_linear(s, a->t, o, &w->wo);
}

/* next: the norms of x that the next layer reads. */
static void block(const cfg *c, const layer *w, const act *a, ft_step *s, ft_norm_out next)
{
    attn(c, w, a, s);
    ft_norm_add(s, a->x, a->t, w->post_attn_norm, c->eps, 1, &(ft_norm_out){a->xn, w->ffn_norm}, 1);
    ft_glu(s, a->g, a->up, a->xn, &w->gate, &w->up, FT_GELU);
    ft_linear(s, a->t, a->g, &w->down);
    ft_norm_add(s, a->x, a->t, w->post_ffn_norm, c->eps, w->scale, &next, 1);
}

/* All rows are output rows: an assistant stores nothing. */
static void draft(const ft_model *m, ft_step *s)
{
    const cfg *c = m->cfg;
    assert(s->n_out == s->T);
    const act a = lay_out(c, s, s->T);
    ft_embed(s, ft_cols(a.eh, 0, c->D), ft_gemma4_embed(m->target), sqrtf((float)c->D));
    ft_gather_out(s, ft_cols(a.eh, c->D, c->D), s->hidden_in);
    ft_linear(s, a.x, a.eh, &c->pre);
    ft_rope_angles(s, a.cs_full, &c->rope_full);
    ft_rope_angles(s, a.cs_slide, &c->rope_slide);
    ft_rmsnorm(s, a.xn, a.x, c->layer[0].attn_norm, c->eps);
    for (int l = 0; l < c->L; l++)
        block(c, &c->layer[l], &a, s,
              l + 1 == c->L ? (ft_norm_out){a.m, c->out_norm}
                            : (ft_norm_out){a.xn, c->layer[l + 1].attn_norm});
    ft_linear(s, s->hidden, a.m, &c->post);
    if (c->order) {
        ft_linear(s, a.score, a.m, &c->centroid);
        ft_centroid_head(s, s->logits, a.m, a.score, &c->head, c->order, c->top);
    } else {
        ft_linear(s, s->logits, a.m, m->n_draft_ids ? &m->narrow : &c->head);
    }
}

static size_t arena(const ft_model *m, int T, int n_out)
{
    ft_step s = {.T = T, .n_out = n_out};
    lay_out(m->cfg, &s, T);
    return s.arena_used;
}

/* ---- bind ---- */

static void bind_layer(ft_binder *b, cfg *c, int l)
{
    layer *w = &c->layer[l];
    int G = 1, d = 0;
    ft_gemma4_heads(b, l, c->L, &w->sliding, &w->d);
    w->H = ft_key_layer(b, "attention.head_count", l, c->L, 1, 1, 1024);
    if (b->st) return;
    if (!ft_gemma4_source(b->m->target, w->sliding, &w->source, &G, &d, &w->window) || d != w->d ||
        w->H % G) {
        ft_bind_fail(
            b, FT_EFORMAT,
            "layer %d of the assistant has %d heads of %d, the target has %d key heads of %d: "
            "they do not belong together",
            l, w->H, w->d, G, d);
        return;
    }
    c->heads = FT_MAX(c->heads, w->H * w->d);
    b->m->limits.heads = FT_MAX(b->m->limits.heads, w->H);
    b->m->limits.head_d = FT_MAX(b->m->limits.head_d, w->d);
    ft_bind_vec(b, &w->attn_norm, c->A, 1, "blk.%d.attn_norm.weight", l);
    ft_bind_vec(b, &w->post_attn_norm, c->A, 1, "blk.%d.post_attention_norm.weight", l);
    ft_bind_vec(b, &w->ffn_norm, c->A, 1, "blk.%d.ffn_norm.weight", l);
    ft_bind_vec(b, &w->post_ffn_norm, c->A, 1, "blk.%d.post_ffw_norm.weight", l);
    ft_bind_vec(b, &w->q_norm, w->d, 1, "blk.%d.attn_q_norm.weight", l);
    ft_bind(b, &w->wq, w->H * w->d, c->A, "blk.%d.attn_q.weight", l);
    ft_bind(b, &w->wo, c->A, w->H * w->d, "blk.%d.attn_output.weight", l);
    ft_bind(b, &w->gate, c->F, c->A, "blk.%d.ffn_gate.weight", l);
    ft_bind(b, &w->up, c->F, c->A, "blk.%d.ffn_up.weight", l);
    ft_bind(b, &w->down, c->A, c->F, "blk.%d.ffn_down.weight", l);
    w->scale = ft_bind_scalar(b, 1, "blk.%d.layer_output_scale.weight", l);
}

/* Two exporters name the same tensor differently. */
static void bind_either(ft_binder *b, ft_weight *w, int n, int k, const char *one,
                        const char *other)
{
    if (!ft_bind_opt(b, w, n, k, "%s", one) && !ft_bind_opt(b, w, n, k, "%s", other))
        ft_bind_fail(b, FT_EFORMAT, "tensor %s is missing", one);
}

/* The ids of the vocabulary, each once. */
static void check_ordering(ft_binder *b, const ft_gguf_tensor *t, int V)
{
    const int32_t *id = t->data;
    int *at = ft_new_n(int, (size_t)V); /* 1 + where an id stands */
    for (int i = 0; i < V && !b->st; i++) {
        if (id[i] < 0 || id[i] >= V)
            ft_bind_fail(b, FT_EFORMAT, "tensor %s: entry %d is %d, want 0 to %d", t->name.p, i,
                         id[i], V - 1);
        else if (at[id[i]])
            ft_bind_fail(b, FT_EFORMAT,
                         "tensor %s: entries %d and %d are both %d, want each id once", t->name.p,
                         at[id[i]] - 1, i, id[i]);
        else
            at[id[i]] = i + 1;
    }
    ft_free(at);
}

/* The centroid head: ids grouped by centroid. */
static void bind_centroids(ft_binder *b, cfg *c)
{
    const ft_gguf *g = b->m->file;
    const ft_gguf_tensor *cen = ft_gguf_tensor_find(g, "masked_embd_centroids.weight");
    const ft_gguf_tensor *ord = ft_gguf_tensor_find(g, "masked_embd_ordering");
    if (!cen) cen = ft_gguf_tensor_find(g, "mtp.centroids.weight");
    if (!ord) ord = ft_gguf_tensor_find(g, "mtp.token_ordering.weight");
    if (!cen || !ord || !ft_key_bool(b, "use_ordered_embeddings", true)) return;
    c->n_c = (int)FT_MIN(cen->n[1], 1 << 24);
    c->top = ft_key(b, "centroid_top_k", FT_MIN(32, c->n_c), 1, c->n_c);
    if (ord->type != FT_I32 || ord->n[0] != c->V || c->n_c < 1 || c->V % c->n_c) {
        ft_bind_fail(b, FT_EFORMAT,
                     "tensor %s is %s with %lld values for %d centroids, want I32 with %d values "
                     "that divide",
                     ord->name.p, ft_type_name(ord->type), (long long)ord->n[0], c->n_c, c->V);
        return;
    }
    check_ordering(b, ord, c->V);
    if (b->st) return;
    ft_bind(b, &c->centroid, c->n_c, c->A, "%s", cen->name.p);
    c->order = ft_bind_table(b, ord->data, sizeof(int32_t) * (size_t)c->V);
}

static void check_target(ft_binder *b, const cfg *c)
{
    const ft_model *t = b->m->target;
    if (t->arch != &ft_arch_gemma4)
        ft_bind_fail(b, FT_EUNSUPPORTED, "the target is %s, want gemma4", t->arch->name);
    else if (c->D != t->D)
        ft_bind_fail(b, FT_EUNSUPPORTED,
                     "the assistant was made for a target of width %d, this one has %d", c->D,
                     t->D);
    else if (c->V != t->V)
        ft_bind_fail(b, FT_EUNSUPPORTED, "the assistant has %d tokens, the target %d", c->V, t->V);
}

static ft_status bind(ft_model *m, ft_err *err)
{
    ft_binder b = ft_binder_over(m, err);
    cfg *c = m->cfg = ft_new(cfg);
    c->L = ft_key_need(&b, "block_count", 1, 64);
    c->A = ft_key_need(&b, "embedding_length", 1, 1 << 20);
    c->F = ft_key_layer(&b, "feed_forward_length", 0, 1, 1, 1, 1 << 20);
    const int width = ft_key(&b, "n_embd_backbone", 0, 0, 1 << 20);
    c->D = width ? width : ft_key_need(&b, "embedding_length_out", 1, 1 << 20);
    c->eps = ft_key_f32(&b, "attention.layer_norm_rms_epsilon", 1e-6f);
    m->ctx_train = ft_key(&b, "context_length", 1 << 17, 1, 1 << 30);
    const ft_gguf_tensor *embd = ft_gguf_tensor_find(m->file, "token_embd.weight");
    c->V = embd && embd->n[1] > 0 && embd->n[1] < 1 << 28 ? (int)embd->n[1] : 1;
    check_target(&b, c);
    if (b.st) return b.st;

    m->L = m->n_layer = 0;
    m->V = c->V;
    m->D = c->D;
    m->drafter = FT_DRAFT_ASSISTANT;
    c->layer = ft_new_n(layer, (size_t)c->L);
    ft_gemma4_ropes(&b, &c->rope_full, &c->rope_slide);
    for (int l = 0; l < c->L && !b.st; l++) bind_layer(&b, c, l);
    bind_either(&b, &c->pre, c->A, 2 * c->D, "nextn.pre_projection.weight",
                "mtp.pre_projection.weight");
    bind_either(&b, &c->post, c->D, c->A, "nextn.post_projection.weight",
                "mtp.post_projection.weight");
    ft_bind_rows(&b, &c->head, c->V, c->A, "token_embd.weight");
    ft_bind_vec(&b, &c->out_norm, c->A, 1, "output_norm.weight");
    bind_centroids(&b, c);
    m->limits.vocab = c->V;
    return b.st;
}

/* A centroid head computes few logits anyway. */
static const ft_weight *draft_head(const ft_model *m, const ft_gguf_tensor **t)
{
    const cfg *c = m->cfg;
    *t = ft_gguf_tensor_find(m->file, "token_embd.weight");
    return c->order ? NULL : &c->head;
}

static void release(ft_model *m)
{
    cfg *c = m->cfg;
    if (c) ft_free(c->layer);
}

static const char *const aliases[] = {"gemma4_assistant", NULL};

const ft_arch ft_arch_gemma4_assistant = {
    .name = "gemma4-assistant",
    .alias = aliases,
    .words = "Gemma 4 assistant",
    .bind = bind,
    .release = release,
    .draft = draft,
    .arena = arena,
    .draft_head = draft_head,
};
