/* dev/ref/ref.h - every op in plain C, one value at a time, sums in double: the reference that the
 * other devices are tested against. An op runs when it is called; nothing is recorded. */
#ifndef FT_DEV_REF_H
#define FT_DEV_REF_H

#include "dev/host.h"

typedef struct ft_ref {
    ft_dev dev;
    float *row; /* scratch: one decoded row and a second vector, grown on demand */
    size_t row_cap;
} ft_ref;

/* n values of scratch; the next call may move them. */
float *ft_ref_row(ft_dev *d, size_t n);
/* Row o of matrix e, decoded into ft_ref_row. */
const float *ft_ref_weight(ft_dev *d, const ft_weight *w, int e, int o);

void ft_ref_embed(ft_dev *d, ft_mat y, const ft_weight *w, float scale);
void ft_ref_linear(ft_dev *d, ft_mat y, ft_mat x, const ft_weight *w, bool acc);
void ft_ref_route(ft_dev *d, ft_expert_choice r, ft_mat x);
void ft_ref_expert_linear(ft_dev *d, ft_mat y, ft_mat x, const ft_weight *w, ft_expert_choice r,
                          bool acc);
void ft_ref_moe(ft_dev *d, ft_mat y, ft_mat x, const ft_experts *e, ft_expert_choice r, ft_mat tmp,
                bool acc);
void ft_ref_centroid_head(ft_dev *d, ft_mat y, ft_mat x, ft_mat score, const ft_weight *w,
                          const int32_t *order, int top);

void ft_ref_rmsnorm(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, float eps);
void ft_ref_act_mul(ft_dev *d, ft_mat y, ft_mat g, ft_mat u, ft_act act);
void ft_ref_sigmoid_mul(ft_dev *d, ft_mat y, ft_mat g);
void ft_ref_add(ft_dev *d, ft_mat y, ft_mat x, float scale);
void ft_ref_norm_add(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, float eps, float scale,
                     const ft_norm_out *o, int n);
void ft_ref_softcap(ft_dev *d, ft_mat y, float c);
void ft_ref_gather(ft_dev *d, ft_mat y, ft_mat x, int which);
void ft_ref_argmax(ft_dev *d, int32_t *id, ft_mat x);
void ft_ref_draw(ft_dev *d, ft_drawn *y, ft_mat x);
void ft_ref_scatter(ft_dev *d, ft_mat y, ft_mat x);
void ft_ref_gated_norm(ft_dev *d, ft_mat y, ft_mat o, ft_mat z, ft_vec w, float eps);
double ft_ref_sigmoid(double x);
double ft_ref_act(double x, ft_act act);

void ft_ref_rope_angles(ft_dev *d, ft_mat cs, const ft_rope *r);
void ft_ref_norm_rope(ft_dev *d, ft_mat x, ft_vec w, float eps, ft_mat cs);
void ft_ref_kv_put(ft_dev *d, const ft_kv *kv, ft_mat k, ft_mat v);
void ft_ref_attend(ft_dev *d, ft_mat o, ft_mat q, const ft_kv *kv, ft_attn p);

void ft_ref_conv(ft_dev *d, ft_mat y, ft_mat u, ft_vec w, const ft_delta *s);
void ft_ref_delta_rule(ft_dev *d, ft_mat o, ft_mat y, ft_mat a, ft_mat b, ft_vec A, ft_vec dt,
                       const ft_delta *s);

void ft_ref_layernorm(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, ft_vec b, float eps);
void ft_ref_affine(ft_dev *d, ft_mat y, ft_vec b, ft_vec w, ft_act act);
void ft_ref_clamp(ft_dev *d, ft_mat y, ft_mat x, float lo, float hi);
void ft_ref_mix(ft_dev *d, ft_mat y, ft_mat x, ft_mixing m, bool acc);
void ft_ref_image_rows(ft_dev *d, ft_mat y, ft_mat x);

#endif
