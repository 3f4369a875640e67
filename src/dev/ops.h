/* dev/ops.h - what a model may ask of a device. The same contract for every op:
 *   - it enqueues work and returns: no wait, no allocation, no read-back;
 *   - its launch depends on shapes alone. Positions, lengths, page tables and slots are read on the
 *     device from the batch, so a captured step is still right for the next one;
 *   - it takes T >= 1 rows from any mix of sequences; T == 1 is not a special op;
 *   - it cannot fail here: shapes were settled at bind, device faults surface in ft_dev_sync();
 *   - a row's result does not depend on which other rows ride along, bit for bit;
 *   - outputs alias inputs only where the line above the op says so.
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
 * position, 0 for a pair that does not turn; axis[j] picks the position component (0, 1, 2). */
typedef struct ft_rope {
    int n;
    const double *freq;  /* [n/2], on the device */
    const uint8_t *axis; /* [n/2], on the device */
    float mscale;        /* factor on cos and sin */
} ft_rope;

/* Encodings of a cache. */
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
} ft_kv_type;

/* Keys and values of one layer. A page is [G][FT_PAGE_ROWS][row]; page p starts at p * page_bytes.
 */
typedef struct ft_kv {
    ft_kv_type kt, vt;
    int G, d;
    int space;             /* which page table */
    size_t k_row, v_row;   /* bytes of one head's row */
    size_t k_page, v_page; /* bytes of a page */
    unsigned char *k, *v;  /* on the device */
    /* [G, d] on the device, or NULL. kv_put stores k - mean. The scores of a query all move by the
     * same q . mean, which a softmax does not see: attend need not know. */
    const float *mean;
    /* The most recent positions a second time, in a better encoding and pages of the window space;
     * NULL: none. A row reads the cells from ft_kv_cut on there, those below here. */
    const struct ft_kv *newest;
} ft_kv;

enum { FT_KV_TAIL = 128 }; /* cells that are read from `newest` at least */

/* The first cell that a row which sees the cells below `end` reads from `newest`: the start of a
 * page, and a matter of `end` alone. */
static inline int ft_kv_cut(const ft_kv *kv, int end)
{
    if (!kv->newest) return end;
    return end > FT_KV_TAIL ? (end - FT_KV_TAIL) / FT_PAGE_ROWS * FT_PAGE_ROWS : 0;
}

typedef struct ft_attn {
    float scale;
    int window; /* a row sees the last `window` cells below its end; 0 = all */
    int first;  /* cells below this are never seen */
    bool out;   /* the rows are the batch's out rows, gathered: row i stands for out_row[i] */
    bool ahead; /* a row sees the cells up to ahead[row]; the window still counts from its end */
} ft_attn;

/* What a delta-net layer remembers for each slot: the convolution's last inputs, the state, and
 * two journals of J rows each. Arrays are indexed [slot], journals [slot][plane][row]. */
typedef struct ft_delta {
    int Hk, Hv, S, C, CH, J; /* CH = 2 Hk S + Hv S channels; C taps */
    float *conv;             /* [C-1, CH], oldest first */
    float *state;            /* [Hv, S(key), S(value)] */
    float *j_conv;           /* [CH] raw inputs of the convolution */
    float *j_k;              /* [Hk, S] normalised keys */
    float *j_d;              /* [Hv, S] updates */
    float *j_g;              /* [Hv] log decays */
} ft_delta;

/* Experts: gate and up apart, or fused (gate rows first) in gate_up. */
typedef struct ft_experts {
    ft_weight gate, up, gate_up, down; /* unused ones have data == NULL */
    int E, F;
    ft_act act;
} ft_experts;

/* An expert that every row uses, and what it counts for: sigmoid(s), s: [T, 1]. */
typedef struct ft_shared {
    const ft_weight *gate, *up, *down;
    ft_mat s;
    ft_mat g, u; /* scratch: [T, its width] */
} ft_shared;

/* Which experts each row chose, best first, and their weights. */
typedef struct ft_route {
    int32_t *id; /* [T, K] */
    float *w;    /* [T, K] */
    int K;
} ft_route;

/* One of several products of the same input. */
typedef struct ft_out {
    ft_mat y;
    const ft_weight *w;
} ft_out;

/* One of several norms of the same rows. */
typedef struct ft_normed {
    ft_mat y;
    ft_vec w;
} ft_normed;

enum { FT_NORMS = 3 }; /* of one op, at most */

/* Which n rows a row is mixed from, and how much of each: [T, n], on the device. */
typedef struct ft_mixing {
    const int32_t *row;
    const float *w;
    int n;
} ft_mixing;

typedef struct ft_ops {
    /* y[t] = scale * W[ft_token_of(t)] */
    void (*embed)(ft_dev *, ft_mat y, const ft_weight *w, float scale);
    /* y = rms(x) * w per head (w: d values, or none). y may be x. */
    void (*rmsnorm)(ft_dev *, ft_mat y, ft_mat x, ft_vec w, float eps);
    /* y[T, n] = x[T, k] W[n, k]^T; y += when acc. W is any type in quant/. */
    void (*linear)(ft_dev *, ft_mat y, ft_mat x, const ft_weight *w, bool acc);
    /* linear for each of n outputs of one x: they have nothing to do with each other, and a device
     * may compute them at once. */
    void (*linears)(ft_dev *, const ft_out *o, int n, ft_mat x);
    /* y = act(x Wg^T) * (x Wu^T). u: scratch of y's shape. */
    void (*glu)(ft_dev *, ft_mat y, ft_mat u, ft_mat x, const ft_weight *gate, const ft_weight *up,
                ft_act act);
    /* cs[T, n] = cos of each pair's angle, then sin. Once per step and kind of layer. */
    void (*rope_angles)(ft_dev *, ft_mat cs, const ft_rope *r);
    /* x = rope(rms(x) * w) per head, in place; w none: no norm weight; eps < 0: no norm at all. */
    void (*norm_rope)(ft_dev *, ft_mat x, ft_vec w, float eps, ft_mat cs);
    /* Store this step's k and v [T, G, d] at each row's cell, in the cache's own encoding. */
    void (*kv_put)(ft_dev *, const ft_kv *kv, ft_mat k, ft_mat v);
    /* o = softmax(scale q K^T) V over what each row may see. q, o: [T, H, d]; head h reads K/V head
     * h / (H/G). o may be q. */
    void (*attend)(ft_dev *, ft_mat o, ft_mat q, const ft_kv *kv, ft_attn p);
    /* y = act(g) * u. y may be g or u. */
    void (*act_mul)(ft_dev *, ft_mat y, ft_mat g, ft_mat u, ft_act act);
    /* y = y * sigmoid(g); g has y's shape, or one column that serves the whole row. */
    void (*sigmoid_mul)(ft_dev *, ft_mat y, ft_mat g);
    /* y = (y + x) * scale. */
    void (*add)(ft_dev *, ft_mat y, ft_mat x, float scale);
    /* y = (y + rms(x) * w) * scale; then o.y = rms(y) * o.w for each of n. One head a row. */
    void (*norm_add)(ft_dev *, ft_mat y, ft_mat x, ft_vec w, float eps, float scale,
                     const ft_normed *o, int n);
    /* y = c * tanh(y / c). */
    void (*softcap)(ft_dev *, ft_mat y, float c);
    /* y[i] = x[idx[i]]: idx is the batch's out_row (FT_OUT) or src_row (FT_SRC). */
    void (*gather)(ft_dev *, ft_mat y, ft_mat x, int which);
    /* id[t] = index of row t's largest value, the lowest among equals; -1 when none is above -inf.
     */
    void (*argmax)(ft_dev *, int32_t *id, ft_mat x);
    /* y[to] = what each draw of the batch gives (dev/draw.h), in a step of draws alone. Its row of
     * x, masked and edited, as the best top_k of it, of those the best whose weights reach top_p of
     * their sum, of those that are at most log_min_p below the largest; from their weights, divided
     * by the temperature, the first id in rising order that passes the random number. Equal logits:
     * the lower index is the better one. Every bit is as the host's sampler has it. A device may
     * leave a row to the host (FT_DRAW_MORE). NULL: all rows are. */
    void (*draw)(ft_dev *, ft_drawn *y, ft_mat x);
    /* y[dst_row[t]] = x[t] for the rows that have a place; no two have the same. */
    void (*scatter)(ft_dev *, ft_mat y, ft_mat x);
    /* Depth-wise causal convolution over time, then SiLU: y[T, CH] from u[T, CH], w[CH, C]. Moves
     * the window of each span's slot, or journals. */
    void (*conv)(ft_dev *, ft_mat y, ft_mat u, ft_vec w, const ft_delta *s);
    /* The gated delta rule. y[T, CH]: q, k, v after the convolution; a, b: [T, Hv] raw decay and
     * beta inputs; A, dt: Hv values. o[T, Hv, S]. Value head h uses key head h % Hk. */
    void (*delta_rule)(ft_dev *, ft_mat o, ft_mat y, ft_mat a, ft_mat b, ft_vec A, ft_vec dt,
                       const ft_delta *s);
    /* y = rms(o) * w * silu(z) per head of z; y, o, z: [T, H, d]. y may be o. */
    void (*gated_norm)(ft_dev *, ft_mat y, ft_mat o, ft_mat z, ft_vec w, float eps);
    /* The K largest of softmax(x) per row, weights divided by max(their sum, 2^-14). Equal
     * probabilities: the lower index first. */
    void (*route)(ft_dev *, ft_route r, ft_mat x);
    /* y = sum over the K experts r chose of r.w * down(act(gate x) * up x), in r's order; y += when
     * acc. tmp: [T * K, 2F] scratch. */
    void (*moe)(ft_dev *, ft_mat y, ft_mat x, const ft_experts *e, ft_route r, ft_mat tmp,
                bool acc);
    /* y += sigmoid(s) down(act(gate x) * up x) of the shared expert, then moe with acc. NULL: a
     * step calls the smaller ops. */
    void (*moe_shared)(ft_dev *, ft_mat y, ft_mat x, const ft_experts *e, ft_route r, ft_mat tmp,
                       const ft_shared *sh);
    /* y[T, V] = W x for the tokens of the top centroids by score, -inf for the rest. score: [T,
     * n_c]; order: V ids, V / n_c per centroid. Equal scores: the lower index first. */
    void (*centroid_head)(ft_dev *, ft_mat y, ft_mat x, ft_mat score, const ft_weight *w,
                          const int32_t *order, int top);

    /* ---- vision ---- */

    /* y = (x - mean) / sqrt(var + eps) * w + b per row, population variance. y may be x. */
    void (*layernorm)(ft_dev *, ft_mat y, ft_mat x, ft_vec w, ft_vec b, float eps);
    /* y = act((y + b) * w), b and w one value per column or none. */
    void (*affine)(ft_dev *, ft_mat y, ft_vec b, ft_vec w, ft_act act);
    /* y = min(max(x, lo), hi). y may be x. */
    void (*clamp)(ft_dev *, ft_mat y, ft_mat x, float lo, float hi);
    /* y[t] = sum over j < n of m.w[t, j] x[m.row[t, j]], in the order of j; y += when acc. */
    void (*mix)(ft_dev *, ft_mat y, ft_mat x, ft_mixing m, bool acc);
    /* y[t] = x[b->image_row[t]] for the rows that have one; the others stay. */
    void (*image_rows)(ft_dev *, ft_mat y, ft_mat x);
} ft_ops;

enum { FT_OUT, FT_SRC };

#endif
