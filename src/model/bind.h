/* model/bind.h - binds the tensors of a file to weights on a device.
 * A binder remembers the first missing or misshapen tensor; check once, at the end.
 * Hyper-parameters are range-checked here, before anything divides by them. */
#ifndef FT_MODEL_BIND_H
#define FT_MODEL_BIND_H

#include "model/model.h"

typedef struct ft_binder {
    ft_model *m;
    char prefix[32]; /* of keys: "qwen35" */
    ft_err *err;
    ft_status st;
    bool lookup;  /* the next weight is read by row lookup only */
    bool rows;    /* the next weight is also read by row */
    bool rounded; /* products may round to f16 */
    bool flat;    /* the inputs of the next weight may be spread over several dimensions */
} ft_binder;

/* Takes the key prefix from general.architecture. */
ft_binder ft_binder_over(ft_model *m, ft_err *err);

/* Rejects a file with a NAME.scale that has no NAME.weight: nothing would read it. */
ft_status ft_bind_check_scales(const ft_gguf *file, ft_err *err);

/* Keys below the prefix. A missing key is an error (_need) or gives def. A value outside [lo,
 * hi] is an error. */
int ft_key_need(ft_binder *b, const char *key, int lo, int hi);
int ft_key(ft_binder *b, const char *key, int def, int lo, int hi);
float ft_key_f32(ft_binder *b, const char *key, float def);
bool ft_key_bool(ft_binder *b, const char *key, bool def);
/* The value for layer l of a key that is a scalar or an array over at least `layers` layers. */
int ft_key_layer(ft_binder *b, const char *key, int l, int layers, int def, int lo, int hi);
ft_str ft_key_str(ft_binder *b, const char *key, const char *def);

/* Names are printf-style. A weight is [k inputs, n outputs] or, with E > 0, E of those. The _opt
 * forms return false when the tensor is absent. A companion tensor NAME.scale is bound too. */
void ft_bind(ft_binder *b, ft_weight *w, int n, int k, const char *fmt, ...) FT_PRINTF(5, 6);
bool ft_bind_opt(ft_binder *b, ft_weight *w, int n, int k, const char *fmt, ...) FT_PRINTF(5, 6);
/* A table that only ft_embed reads. */
void ft_bind_lookup(ft_binder *b, ft_weight *w, int n, int k, const char *name);
/* A patch kernel: its k inputs are one dimension or three. */
void ft_bind_patch(ft_binder *b, ft_weight *w, int n, int k, const char *name);
/* A matrix whose rows are also read one by one, by ft_embed or ft_centroid_head. */
void ft_bind_rows(ft_binder *b, ft_weight *w, int n, int k, const char *name);
/* The embedding and the output matrix. One matrix serves as both if the file has no
 * output.weight. */
void ft_bind_ends(ft_binder *b, ft_weight *embed, ft_weight *head, int V, int D);
void ft_bind_stack(ft_binder *b, ft_weight *w, int E, int n, int k, const char *fmt, ...)
    FT_PRINTF(6, 7);
bool ft_bind_stack_opt(ft_binder *b, ft_weight *w, int E, int n, int k, const char *fmt, ...)
    FT_PRINTF(6, 7);
/* A vector of n values as f32, multiplied by `factor`. */
void ft_bind_vec(ft_binder *b, ft_vec *v, int n, float factor, const char *fmt, ...)
    FT_PRINTF(5, 6);
bool ft_bind_vec_opt(ft_binder *b, ft_vec *v, int n, float factor, const char *fmt, ...)
    FT_PRINTF(5, 6);
bool ft_bind_has(const ft_binder *b, const char *fmt, ...) FT_PRINTF(2, 3);
/* One value of a tensor, on the host. */
float ft_bind_scalar(ft_binder *b, float def, const char *fmt, ...) FT_PRINTF(3, 4);
/* A copy of host bytes on the device that lives as long as the model. */
const void *ft_bind_table(ft_binder *b, const void *host, size_t bytes);
/* Records that the file is invalid; only the first message is kept. */
void ft_bind_fail(ft_binder *b, ft_status st, const char *fmt, ...) FT_PRINTF(3, 4);

/* The angles of a rotary embedding, with the file's rope.scaling.* keys applied. factor: one
 * divisor per pair, or NULL; >= 1e20: the pair is not rotated. sections: how pairs select their
 * position axis, or NULL. */
ft_rope ft_bind_rope(ft_binder *b, int n, double base, const float *factor, const int sections[4],
                     bool scaling);

#endif
