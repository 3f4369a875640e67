/* tools/shapes.h - the dimensions of known models, and the list of tensors of such a model.
 * It does not read or write files; `synth` fills these tensors with random numbers. */
#ifndef FT_TOOLS_SHAPES_H
#define FT_TOOLS_SHAPES_H

#include "base/err.h"
#include "base/type.h"

typedef enum ft_model_family {
    FT_QWEN35,
    FT_QWEN35MOE,
    FT_GEMMA4,
    FT_GEMMA4_ASSISTANT,
    FT_QWEN35_TOWER,
    FT_GEMMA4_TOWER,
    FT_GEMMA4_UNIFIED, /* a tower without blocks */
} ft_model_family;

typedef struct ft_model_shape {
    const char *name;    /* "27b" */
    const char *aliases; /* separated by spaces, or NULL */
    ft_model_family family;
    int layers, width, ffn, vocab, context;
    int heads, kv_heads, head; /* attention; for Gemma the sliding layers */
    int rotary;
    /* Qwen: every `every`-th block is attention; Gemma: every `every`-th layer is global */
    int every;
    /* delta nets */
    int key_heads, value_heads, state, conv;
    /* experts: number, number used per token, width, width of the shared expert */
    int experts, used, expert_ffn, shared_ffn;
    /* Gemma: global layers, window, layers without K and V, per-layer embeddings */
    int global_kv_heads, global_head, window, shared_kv, per_layer;
    int wide_ffn;     /* width on the layers without K and V, or 0 */
    int target_width; /* assistants and towers: the width of the model they work for */
    int centroids;    /* assistants: rows of the centroid head, or 0 */
    bool untied;      /* has a separate output matrix */
    bool k_is_v;      /* Gemma: global layers have no V projection */
    /* towers: rows of the position table, or of each of its two planes; largest picture in tokens
     */
    int positions, tokens;
    bool clipped; /* matrices have bounds; else pooled rows are standardised */
} ft_model_shape;

/* NULL when there is none; the error lists the names. */
const ft_model_shape *ft_shape_find(const char *name, ft_err *err);
const char *ft_shape_arch(const ft_model_shape *s); /* general.architecture */

static inline bool ft_shape_is_qwen(const ft_model_shape *s)
{
    return s->family == FT_QWEN35 || s->family == FT_QWEN35MOE;
}

static inline bool ft_shape_is_tower(const ft_model_shape *s)
{
    return s->family >= FT_QWEN35_TOWER;
}

static inline bool ft_shape_is_attention(const ft_model_shape *s, int layer) /* Qwen */
{
    return (layer + 1) % s->every == 0;
}

static inline bool ft_shape_is_sliding(const ft_model_shape *s, int layer) /* Gemma */
{
    return (layer + 1) % s->every != 0;
}

/* How a tensor is filled. */
typedef enum ft_fill {
    FT_FILL_MATRIX,  /* the requested type, random with standard deviation a */
    FT_FILL_HALF,    /* a matrix that is never quantised: BF16, or F32 when that was requested */
    FT_FILL_F32,     /* random with standard deviation a, always F32 */
    FT_FILL_UNIFORM, /* F32 in [a, b] */
    FT_FILL_ROPE,    /* Gemma's frequency factors: 1 for the first quarter, else 1e30 */
    FT_FILL_ORDER,   /* I32, a permutation of 0 .. n-1 */
} ft_fill;

typedef struct ft_shape_tensor {
    char name[64];
    int n_dims;
    int64_t n[4];
    ft_fill fill;
    double a, b;
} ft_shape_tensor;

typedef struct ft_shape_list {
    ft_shape_tensor *tensor;
    size_t n, cap;
} ft_shape_list;

/* Every tensor of the shape, in file order. */
void ft_shape_tensors(ft_shape_list *out, const ft_model_shape *s, bool mtp);
void ft_shape_list_release(ft_shape_list *l);

#endif
