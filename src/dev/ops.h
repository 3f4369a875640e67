/* dev/ops.h - the operations of a device. Every op keeps the same contract:
 *   - it enqueues work and returns: it does not wait, allocate or read results back;
 *   - its launch depends on shapes only. Positions, lengths, page tables and slots are read on the
 *     device from the batch, so that a captured step can be replayed with another batch;
 *   - it takes T >= 1 rows from any mix of sequences; there is no separate op for T == 1;
 *   - it does not return errors: shapes are checked when weights are bound, and device faults are
 *     reported by the device's sync function (dev/dev.h);
 *   - a row's result does not depend on the other rows of the batch, bit for bit;
 *   - outputs alias inputs only where the comment above the op allows it.
 * Models call the wrappers in dev/step.h. */
#ifndef FT_DEV_OPS_H
#define FT_DEV_OPS_H

#include "dev/batch.h"
#include "dev/tensor.h"

typedef struct ft_dev ft_dev;

typedef enum ft_act {
    FT_SILU,
    FT_GELU,     /* in its tanh form */
    FT_GELU_ERF, /* exact; affine alone knows these two */
    FT_ACT_NONE,
} ft_act;

/* Rotary embedding over the first n values of a head, pairs (j, j + n/2). freq[j] is the angle per
 * position, 0 for a pair that is not rotated; axis[j] selects the position component (0, 1, 2). */
typedef struct ft_rope {
    int n;
    const double *freq;  /* [n/2], on the device */
    const uint8_t *axis; /* [n/2], on the device */
    float mscale;        /* factor on cos and sin */
} ft_rope;

/* Encodings of the KV cache. */
typedef enum ft_kv_type {
    FT_KV_F32,
    FT_KV_F16,
    FT_KV_BF16,
    FT_KV_Q8_0,
    FT_KV_Q4_0,
    FT_KV_TURBO2,
    FT_KV_TURBO3,
    FT_KV_TURBO4,
    FT_KV_TURBO4_LEGACY,
    FT_KV_Q4_1,
    FT_KV_Q5_0,
    FT_KV_Q5_1,
    FT_KV_IQ4_NL,
    FT_KV_TYPES /* their number */
} ft_kv_type;

/* Keys and values of one layer. A page is [G][FT_PAGE_ROWS][row]; page p of the keys starts at
 * p * k_page. */
typedef struct ft_kv {
    ft_kv_type kt, vt;
    int G, d;
    int space;             /* which page table: FT_SPACE_FULL or FT_SPACE_WINDOW */
    size_t k_row, v_row;   /* bytes of one head's row */
    size_t k_page, v_page; /* bytes of a page */
    unsigned char *k, *v;  /* on the device */
    /* [G, d] on the device, or NULL. kv_put stores k - mean. All scores of a query change by the
     * same q . mean, which softmax cancels: attend does not use it. */
    const float *mean;
    /* The recent-token window: the last positions a second time, in an encoding of higher precision
     * and in pages of the window space. NULL: none. A row reads the positions from
     * ft_kv_recent_start on there, the earlier ones here. */
    const struct ft_kv *recent;
} ft_kv;

enum { FT_KV_RECENT = 128 }; /* positions that are read from `recent` at least */

/* The first position that is read from `recent` by a row that sees the positions below `end`: the
 * start of a page. It depends on `end` only. */
#define FT_KV_RECENT_FROM(end)                                                                     \
    ((end) > FT_KV_RECENT ? ((end)-FT_KV_RECENT) / FT_PAGE_ROWS * FT_PAGE_ROWS : 0)

static inline int ft_kv_recent_start(const ft_kv *kv, int end)
{
    return kv->recent ? FT_KV_RECENT_FROM(end) : end;
}

typedef struct ft_attn {
    float scale;
    int window; /* sliding window: a row sees the last `window` positions below its end; 0: all */
    int first;  /* positions below this are not seen */
    bool out;   /* q holds only the batch's output rows: its row i is row out_row[i] */
    bool ahead; /* a row sees the positions below ahead[row]; the window counts from its end */
} ft_attn;

/* The recurrent state of a gated delta net layer, per slot: the last inputs of the convolution, the
 * state matrix, and two journals of J rows each, from which rejected draft rows are rolled back.
 * Arrays are indexed [slot], journals [slot][plane][row]. */
typedef struct ft_delta {
    int Hk, Hv, S, C, CH, J; /* CH = 2 Hk S + Hv S channels; C taps */
    float *conv;             /* [C-1, CH], oldest first */
    float *state;            /* [Hv, S(key), S(value)] */
    float *j_conv;           /* [CH] raw inputs of the convolution */
    float *j_k;              /* [Hk, S] normalised keys */
    float *j_d;              /* [Hv, S] updates */
    float *j_g;              /* [Hv] log decays */
} ft_delta;

/* Routed experts: gate and up as two tensors, or fused (gate rows first) in gate_up. */
typedef struct ft_experts {
    ft_weight gate, up, gate_up, down; /* unused ones have data == NULL */
    int E, F;
    ft_act act;
} ft_experts;

/* The shared expert, which every row uses with weight sigmoid(s), s: [T, 1]. */
typedef struct ft_shared_expert {
    const ft_weight *gate, *up, *down;
    ft_mat s;
    ft_mat g, u; /* scratch: [T, F of the shared expert] */
} ft_shared_expert;

/* The experts chosen for each row, highest weight first, and their weights. */
typedef struct ft_expert_choice {
    int32_t *id; /* [T, K] */
    float *w;    /* [T, K] */
    int K;
} ft_expert_choice;

/* Output and weight of one of several products with the same input. */
typedef struct ft_product_out {
    ft_mat y;
    const ft_weight *w;
} ft_product_out;

/* Output and weight of one of several norms of the same rows; or one of several inputs. */
typedef struct ft_norm_out {
    ft_mat y;
    ft_vec w;
} ft_norm_out;

enum { FT_NORMS = 3 }; /* maximum per op */

/* Queries [T, H, d], keys and values [T, G, d] of attention after their products, and their norms.
 */
typedef struct ft_qkv {
    ft_mat q, k, v; /* q.p == NULL: no queries */
    ft_vec q_norm, k_norm;
    bool norm_v; /* v = rms(v) per head, without a weight; if v_of_k, of k before its rotation */
    bool v_of_k;
    float eps;
    ft_mat cs; /* of rope_angles */
} ft_qkv;

/* Which n rows a row is mixed from, and how much of each: [T, n], on the device. */
typedef struct ft_mixing {
    const int32_t *row;
    const float *w;
    int n;
} ft_mixing;

/* Attention among the rows of a step, which all see each other, without a cache: vision towers. */
typedef struct ft_image_attn {
    ft_mat q, k, v; /* [T, H, d], d even and at most FT_IMAGE_HEAD */
    float scale;
    /* Norms of each head of q, k and v before the rotation, v without a weight; eps < 0: none. */
    float eps;
    ft_vec q_norm, k_norm;
    /* Angles of q and k, as for norm_rope: cs[0] rotates the whole head; with cs[1] (p not NULL)
     * each rotates a half. */
    ft_mat cs[2];
} ft_image_attn;

enum { FT_IMAGE_HEAD = 128 };

typedef struct ft_ops {
    /* y[t] = scale * W[ft_token_of(t)] */
    void (*embed)(ft_dev *, ft_mat y, const ft_weight *w, float scale);
    /* y = rms(x) * w per head (w: d values, or none). y may be x. */
    void (*rmsnorm)(ft_dev *, ft_mat y, ft_mat x, ft_vec w, float eps);
    /* y[T, n] = x[T, k] W[n, k]^T; y += when acc. W is any type in quant/. */
    void (*linear)(ft_dev *, ft_mat y, ft_mat x, const ft_weight *w, bool acc);
    /* linear for each of n outputs with the same x; the outputs do not overlap, and a device may
     * compute them in one launch. */
    void (*linears)(ft_dev *, const ft_product_out *o, int n, ft_mat x);
    /* y = rms(x) * w, then linears of y. H == 1. NULL: dev/step.h calls rmsnorm and linears. */
    void (*norm_linears)(ft_dev *, ft_mat y, ft_mat x, ft_vec w, float eps, const ft_product_out *o,
                         int n);
    /* y = act(x Wg^T) * (x Wu^T). u: scratch of y's shape. */
    void (*glu)(ft_dev *, ft_mat y, ft_mat u, ft_mat x, const ft_weight *gate, const ft_weight *up,
                ft_act act);
    /* cs[T, n] = cos of each pair's angle, then sin. Called once per step and type of layer. */
    void (*rope_angles)(ft_dev *, ft_mat cs, const ft_rope *r);
    /* x = rope(rms(x) * w) per head, in place; w none: no norm weight; eps < 0: no norm at all. */
    void (*norm_rope)(ft_dev *, ft_mat x, ft_vec w, float eps, ft_mat cs);
    /* Stores k and v [T, G, d] of this step at each row's cache position, in the cache's encoding.
     */
    void (*kv_put)(ft_dev *, const ft_kv *kv, ft_mat k, ft_mat v);
    /* q = rope(rms(q) * q_norm) per head, in place, and kv_put of rope(rms(k) * k_norm) and v; k
     * and v are undefined afterwards. NULL: dev/step.h calls norm_rope, rmsnorm and kv_put instead.
     */
    void (*put_heads)(ft_dev *, const ft_kv *kv, const ft_qkv *x);
    /* o = softmax(scale q K^T) V over the positions that each row sees. q, o: [T, H, d]; head h
     * reads KV head h / (H/G). o may be q. */
    void (*attend)(ft_dev *, ft_mat o, ft_mat q, const ft_kv *kv, ft_attn p);
    /* y = act(g) * u. y may be g or u. */
    void (*act_mul)(ft_dev *, ft_mat y, ft_mat g, ft_mat u, ft_act act);
    /* y = y * sigmoid(g); g has y's shape, or one column that is broadcast over the row. */
    void (*sigmoid_mul)(ft_dev *, ft_mat y, ft_mat g);
    /* y = (y + x) * scale. */
    void (*add)(ft_dev *, ft_mat y, ft_mat x, float scale);
    /* y = (y + rms(x) * w) * scale; then o.y = rms(y) * o.w for each of n. H == 1. */
    void (*norm_add)(ft_dev *, ft_mat y, ft_mat x, ft_vec w, float eps, float scale,
                     const ft_norm_out *o, int n);
    /* norm_add of the sum of two norms: of rms(x[0].y) * x[0].w + rms(x[1].y) * x[1].w. x[0].y is
     * undefined afterwards. NULL: dev/step.h calls rmsnorm and norm_add instead. */
    void (*norm_add_both)(ft_dev *, ft_mat y, const ft_norm_out *x, ft_vec w, float eps,
                          float scale, const ft_norm_out *o, int n);
    /* y = c * tanh(y / c). */
    void (*softcap)(ft_dev *, ft_mat y, float c);
    /* y[i] = x[idx[i]]: idx is the batch's out_row (FT_OUT) or src_row (FT_SRC). */
    void (*gather)(ft_dev *, ft_mat y, ft_mat x, int which);
    /* id[t] = index of row t's largest value, the lowest among equals; -1 when none is above -inf.
     */
    void (*argmax)(ft_dev *, int32_t *id, ft_mat x);
    /* Samples a token for each ft_draw of the batch (dev/draw.h) and stores it in y[to]; a step
     * with draws has no other ops. The row of x is masked, biased and penalised; then top_k, top_p
     * and min_p filter the candidates, in this order; then the probabilities at the temperature are
     * cumulated in ascending order of ids, and the first id whose sum exceeds the random number is
     * drawn. Of equal logits the lower id ranks first. The result is bit-identical to that of the
     * host's sampler. A device may leave a row to the host (FT_DRAW_MORE). NULL: the host samples
     * all rows. */
    void (*draw)(ft_dev *, ft_drawn *y, ft_mat x);
    /* y[dst_row[t]] = x[t] for the rows with dst_row[t] >= 0, which are distinct. */
    void (*scatter)(ft_dev *, ft_mat y, ft_mat x);
    /* Depth-wise causal convolution over time, then SiLU: y[T, CH] from u[T, CH], w[CH, C]. Updates
     * the last inputs of each span's slot, or writes its journal if the span is tentative. */
    void (*conv)(ft_dev *, ft_mat y, ft_mat u, ft_vec w, const ft_delta *s);
    /* The gated delta rule. y[T, CH]: q, k, v after the convolution; a, b: [T, Hv] raw decay and
     * beta inputs; A, dt: Hv values. o[T, Hv, S]. Value head h uses key head h % Hk. */
    void (*delta_rule)(ft_dev *, ft_mat o, ft_mat y, ft_mat a, ft_mat b, ft_vec A, ft_vec dt,
                       const ft_delta *s);
    /* y = rms(o) * w * silu(z) per head of z; y, o, z: [T, H, d]. y may be o. */
    void (*gated_norm)(ft_dev *, ft_mat y, ft_mat o, ft_mat z, ft_vec w, float eps);
    /* The K largest of softmax(x) per row, weights divided by max(their sum, 2^-14). Equal
     * probabilities: the lower index first. */
    void (*route)(ft_dev *, ft_expert_choice r, ft_mat x);
    /* y = sum over the K chosen experts of r.w * down(act(gate x) * up x), added in r's order; y +=
     * when acc. tmp: [T * K, 2F] scratch. */
    void (*moe)(ft_dev *, ft_mat y, ft_mat x, const ft_experts *e, ft_expert_choice r, ft_mat tmp,
                bool acc);
    /* y += sigmoid(s) down(act(gate x) * up x) of the shared expert, then moe with acc. NULL:
     * dev/step.h calls glu, sigmoid_mul, linear and moe instead. */
    void (*moe_shared)(ft_dev *, ft_mat y, ft_mat x, const ft_experts *e, ft_expert_choice r,
                       ft_mat tmp, const ft_shared_expert *sh);
    /* Products with one matrix of w for each choice: y[i] = W[r.id[i]] x, with y: [T * K, n], and
     * x: [T, k], or [T * K, k]; y += when acc. NULL: no adapters for experts. */
    void (*expert_linear)(ft_dev *, ft_mat y, ft_mat x, const ft_weight *w, ft_expert_choice r,
                          bool acc);
    /* y[T, V] = W x for the tokens of the `top` centroids with the largest scores, -inf for the
     * others. score: [T, n_c]; order: V ids, V / n_c per centroid. Equal scores: the lower index
     * first. */
    void (*centroid_head)(ft_dev *, ft_mat y, ft_mat x, ft_mat score, const ft_weight *w,
                          const int32_t *order, int top);

    /* ---- vision ---- */

    /* y = (x - mean) / sqrt(var + eps) * w + b per row, population variance. y may be x. */
    void (*layernorm)(ft_dev *, ft_mat y, ft_mat x, ft_vec w, ft_vec b, float eps);
    /* y = act((y + b) * w), b and w one value per column or none. */
    void (*affine)(ft_dev *, ft_mat y, ft_vec b, ft_vec w, ft_act act);
    /* y = act(x W^T + b), b one value per column or none; y += x W^T + b when acc. NULL: dev/step.h
     * calls linear and affine instead. */
    void (*dense)(ft_dev *, ft_mat y, ft_mat x, const ft_weight *w, ft_vec b, ft_act act, bool acc);
    /* o = softmax(scale q k^T) v. May change q, k and v. NULL: dev/step.h calls rmsnorm, norm_rope,
     * kv_put and attend instead, for a batch whose rows are the cache of layer 0. */
    void (*attend_image)(ft_dev *, ft_mat o, const ft_image_attn *a);
    /* y = min(max(x, lo), hi). y may be x. */
    void (*clamp)(ft_dev *, ft_mat y, ft_mat x, float lo, float hi);
    /* y[t] = sum over j < n of m.w[t, j] x[m.row[t, j]], in the order of j; y += when acc. */
    void (*mix)(ft_dev *, ft_mat y, ft_mat x, ft_mixing m, bool acc);
    /* y[t] = x[b->image_row[t]] for the rows that have one; the others stay. */
    void (*image_rows)(ft_dev *, ft_mat y, ft_mat x);
} ft_ops;

enum { FT_OUT, FT_SRC };

#endif
