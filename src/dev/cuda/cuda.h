/* dev/cuda/cuda.h - internals of the CUDA device, shared by its op files.
 * One stream runs everything in order. An op launches kernels on c->stream and returns. The batch's
 * arrays are at device addresses that do not change from step to step, so that a captured step can
 * be replayed. An op's launch may depend on c->shape only (dev/batch_shape.h), never on the
 * contents of the host's arrays.
 *
 * Activations are f32. A product reads a copy of them in half precision (ft_copy_kind), which is
 * made once for all products that read the same rows. Every op that writes a matrix calls
 * ft_cuda_wrote, which invalidates the copies, or writes the copy too. */
#ifndef FT_DEV_CUDA_H
#define FT_DEV_CUDA_H

#ifdef __cplusplus
extern "C" {
#endif
#include "base/mem.h"
#include "dev/batch_shape.h"
#include "dev/dev.h"
#ifdef __cplusplus
}
#endif

#include <cuda_runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Scratch memory per family of ops: grown on demand, freed on close. */
typedef enum ft_cuda_scratch_id {
    FT_SCRATCH_LINEAR,
    FT_SCRATCH_PARTS,
    FT_SCRATCH_PLAN,
    FT_SCRATCH_MOE,
    FT_SCRATCH_MOE_HIDDEN,
    FT_SCRATCH_ATTEND,
    FT_SCRATCH_ATTEND_MORE,
    FT_SCRATCH_DELTA,
    FT_SCRATCH_DRAW,
    FT_SCRATCH_DENSE,
    FT_SCRATCH_IMAGE,
    FT_SCRATCH_COUNT
} ft_cuda_scratch_id;

enum {
    FT_CUDA_BF16_COPIES = 6,
    FT_CUDA_READ_BITS = 6, /* the tables of matrices that products read have 2^6 entries */
    FT_CUDA_READ = 1 << FT_CUDA_READ_BITS,
    FT_CUDA_GRAPHS = 2048, /* maximum number of captured steps */
    FT_CUDA_STAGES = 4,
    FT_CUDA_KERNEL_BITS = 9,
    FT_CUDA_KERNELS = 1 << FT_CUDA_KERNEL_BITS,
    FT_CUDA_BLOCK = 2 << 20,         /* cudaMalloc rounds larger allocations up to this */
    FT_CUDA_PART_BYTES = 256 << 20,  /* maximum size of the partial results of attention */
    FT_CUDA_PART_HEAD = 4,           /* floats in front of the values of each of them */
    FT_CUDA_EXPAND_BYTES = 64 << 20, /* and of expanded pages of the KV cache */
};

/* The planes of a copy. Quantized weights read the first plane of either of the first two kinds. */
typedef enum ft_copy_kind {
    FT_COPY_SPLIT = 1,   /* bf16: the rounded value, and the remainder, for F32 weights */
    FT_COPY_HALF = 2,    /* bf16, then f16 for F16 and BF16 weights */
    FT_COPY_HADAMARD = 4 /* bf16, transformed for TQ3_1S and TQ4_1S weights */
} ft_copy_kind;

/* Planes of a matrix x[T, k]: [plane][k / 64][T][64], k rounded up to a multiple of 64 and padded
 * with zeros. The order of the 64 columns depends on ft_cuda_wide. */
typedef struct ft_bf16_copy {
    ft_mat x;
    bool valid;
    ft_copy_kind kind;
    unsigned used;
    uint16_t *p;
    size_t bytes;
} ft_bf16_copy;

/* Partial results of a row in the scratch memory of attention: n per head, one for each range of
 * positions; they follow those of `first` earlier ranges per head. */
typedef struct ft_attn_parts {
    int32_t first, n;
} ft_attn_parts;

/* Rows, context and attention range of a span: row r sees the positions below end + r * rise. */
typedef struct ft_span_range {
    int32_t row, n, slot, start;
    int32_t end, rise;
    ft_attn_parts part; /* of the first row; n is the same for all rows of the span */
} ft_span_range;

/* A captured step. */
typedef struct ft_cuda_graph {
    const void *pass;
    ft_batch_shape shape;
    bool parts_overflow;
    int seen;      /* steps of this shape that ran uncaptured */
    uint64_t used; /* time of last use, for eviction */
    cudaGraphExec_t exec;
} ft_cuda_graph;

typedef struct ft_cuda {
    ft_dev dev;
    ft_ops ops;
    int index; /* of the GPU */
    char name[16];
    cudaStream_t stream;
    ft_batch batch;       /* arrays on the device; S as in the shape, surplus spans are empty */
    const ft_batch *on;   /* a copy of `batch` on the device, always at the same address */
    ft_batch_shape shape; /* of this step */
    int sms;              /* multiprocessors */
    int cc;               /* compute capability the kernels were compiled for, times 10: 90 */
    size_t smem;          /* maximum shared memory per block */

    /* Upload of the batch: pinned staging buffers, and device memory. There are several staging
     * buffers because a step may be recorded while earlier ones still run. */
    unsigned char *stages[FT_CUDA_STAGES], *batch_mem;
    cudaEvent_t staged[FT_CUDA_STAGES]; /* the upload from it has finished */
    cudaEvent_t began, ended;           /* the first step since the last sync, and the last one */
    bool timing;                        /* `began` was recorded */
    unsigned char *stage;               /* of this step */
    unsigned steps;
    size_t stage_bytes, stage_used;

    void *scratch[FT_SCRATCH_COUNT];
    size_t scratch_bytes[FT_SCRATCH_COUNT];
    ft_bf16_copy bf16[FT_CUDA_BF16_COPIES];
    unsigned clock;
    /* matrices that products read transformed, as f16, and whose copy a product had to make, by a
     * hash of the address */
    const float *hadamard_read[FT_CUDA_READ], *half_read[FT_CUDA_READ], *missed_read[FT_CUDA_READ];
    const int32_t *planned; /* expert choices that are already sorted (moe.cu), n_planned of them */
    int n_planned;
    struct {
        ft_expert_choice r; /* id NULL: none */
        ft_mat x;
    } unrouted; /* a choice of experts that the kernels of the experts can make themselves */

    /* partial results of attention: one for each row and range of positions that it sees */
    const ft_attn_parts *part_of;    /* on the device, [T] */
    const ft_span_range *span_range; /* on the device, [S] */
    int parts_now, parts; /* in this step; maximum that memory is reserved for, 0: no limit known */
    bool parts_overflow;  /* this step exceeds the maximum */
    size_t expand_bytes;  /* of expanded pages, and sums between segments; 0: no limit known */

    /* graph.cu */
    ft_cuda_graph graph[FT_CUDA_GRAPHS];
    uint32_t hash[FT_CUDA_GRAPHS]; /* of their keys */
    int n_graph;
    uint64_t graph_clock;
    bool capture_only;     /* steps are captured but not run */
    bool capturing;        /* the current step is being captured */
    bool experts;          /* the model has some... */
    bool experts_of_eight; /* ...with matrices of eight units of columns: product_few needs them */
    size_t packed, groups; /* bytes of packed weights; of those that product_groups multiplies */
    int carveout;          /* of its kernels: percent of the largest shared memory; 0: all of it */
    ft_cuda_graph
        *capture_to; /* where the graph goes; NULL: it is dropped, only scratch is allocated */
    void **retired;  /* outgrown scratch: captured graphs may still refer to it */
    int n_retired;

    struct ft_cuda_memory *memory; /* memory.cu */
    struct ft_cuda_copies *copies; /* copies.cu: pinned buffers and threads */
    uint16_t *grid; /* the tables of quant/grids.h, concatenated, in both orders (weights.cu) */
    void *raw;      /* a weight in file layout, before it is repacked */
    size_t raw_bytes;

    const void *kernel[FT_CUDA_KERNELS]; /* kernels that ft_cuda_max_carveout has configured, by a
                                            hash of the address */

    /* Copies from another GPU: this stream waits for `ready` of the other one, and the other one
     * for `copied` of this one. */
    cudaEvent_t ready, copied;

    cudaError_t error; /* the first error */
    const char *where; /* the call that caused it */
} ft_cuda;

/* Whether products of T rows use warpgroup instructions: above 32 rows; above 8 if product_groups
 * multiplies most weights (others would be slower) and no experts need the column order for few
 * rows. */
static inline bool ft_cuda_wide(const ft_cuda *c, int T)
{
    return c->cc == 90 && T > (c->experts || c->groups < c->packed / 4 * 3 ? 32 : 8);
}

/* Whether a GPU without warpgroup instructions multiplies many rows in tiles: before compute
 * capability 8.0 there are no bf16 tensor core instructions. */
static inline bool ft_cuda_tiled(const ft_cuda *c)
{
    return c->cc >= 80 && c->cc != 90;
}

/* Stores the first error; later ones are ignored. */
void ft_cuda_check(ft_cuda *c, cudaError_t e, const char *where);
/* At least `bytes` of memory; the contents are lost with the next op of the same family. */
void *ft_cuda_scratch(ft_cuda *c, ft_cuda_scratch_id which, size_t bytes);

/* The GPU becomes the one that the calling thread's CUDA calls use. */
static inline void ft_cuda_enter(ft_dev *d)
{
    cudaSetDevice(((ft_cuda *)d)->index);
}

/* memory.cu: alloc, free and free_bytes of dev.h. */
void ft_cuda_memory_open(ft_cuda *c, size_t gpu_bytes);
void ft_cuda_memory_close(ft_cuda *c);
void *ft_cuda_alloc(ft_dev *d, size_t bytes);
void ft_cuda_free(ft_dev *d, void *p);
uint64_t ft_cuda_free_bytes(ft_dev *d);
/* Bytes of GPU memory that an allocation of `bytes` takes. */
uint64_t ft_cuda_alloc_size(const ft_cuda *c, uint64_t bytes);

/* graph.cu: steps as CUDA graphs: replay, commit and the capture functions of dev.h. */
bool ft_cuda_replay(ft_dev *d, const void *pass);
bool ft_cuda_captured(ft_dev *d, const void *pass);
void ft_cuda_capture_pass(ft_dev *d, const void *pass);
void ft_cuda_commit(ft_dev *d);
void ft_cuda_capture(ft_dev *d, bool on);
void ft_cuda_drop_graphs(ft_cuda *c);
/* Frees memory that graphs may refer to: now, or together with the graphs. */
void ft_cuda_retire(ft_cuda *c, void *p);

/* Configures a kernel for the largest shared memory carveout. All kernels use the same carveout,
 * because a kernel with another one can start only when the multiprocessor is empty. */
void ft_cuda_max_carveout(ft_cuda *c, const void *kernel);

/* m was written: invalidates its bf16 copy and all copies that overlap. */
void ft_cuda_wrote(ft_cuda *c, ft_mat m);
/* The copy of m whose kind is in the set `kinds`. If there is none (*found is false), memory for
 * one of the lowest kind of the set, which the caller fills. NULL: no memory. */
uint16_t *ft_cuda_bf16_copy(ft_cuda *c, ft_mat m, unsigned kinds, bool *found);
/* m is being written, and the caller writes the copy that products read too, of kind FT_COPY_HALF
 * if *half, else FT_COPY_SPLIT. */
uint16_t *ft_cuda_new_copy(ft_cuda *c, ft_mat m, bool *half);
/* The same; NULL if the width of m is not a multiple of 64. */
uint16_t *ft_cuda_wrote_with_bf16(ft_cuda *c, ft_mat m, bool *half);
/* Products read m in this way: the ops that write m make that copy from now on. FT_COPY_SPLIT: a
 * product had to make its copy, of any kind but FT_COPY_HADAMARD, itself. */
void ft_cuda_reads(ft_cuda *c, ft_mat m, ft_copy_kind kind);
/* ft_cuda_wrote_with_bf16 for ops whose results are not always read by products: NULL unless a
 * product had to make its copy of m (ft_cuda_reads, FT_COPY_SPLIT). */
uint16_t *ft_cuda_wrote_with_missed(ft_cuda *c, ft_mat m, bool *half);
/* After ft_cuda_wrote_with_bf16: where to write the transformed copy, or NULL. */
uint16_t *ft_cuda_wrote_with_hadamard(ft_cuda *c, ft_mat m);
/* That copy was not written after all. */
void ft_cuda_no_hadamard(ft_cuda *c, const uint16_t *copy);

/* The ops, implemented in the files of their families. */
void ft_cuda_embed(ft_dev *d, ft_mat y, const ft_weight *w, float scale);
void ft_cuda_rmsnorm(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, float eps);
void ft_cuda_linear(ft_dev *d, ft_mat y, ft_mat x, const ft_weight *w, bool acc);
void ft_cuda_linears(ft_dev *d, const ft_product_out *o, int n, ft_mat x);
/* moe.cu: makes the choice of experts that was put off, if there is one. */
void ft_cuda_route_now(ft_cuda *c);
void ft_cuda_norm_linears(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, float eps,
                          const ft_product_out *o, int n);
void ft_cuda_glu(ft_dev *d, ft_mat y, ft_mat u, ft_mat x, const ft_weight *gate,
                 const ft_weight *up, ft_act act);
void ft_cuda_rope_angles(ft_dev *d, ft_mat cs, const ft_rope *r);
void ft_cuda_norm_rope(ft_dev *d, ft_mat x, ft_vec w, float eps, ft_mat cs);
void ft_cuda_kv_put(ft_dev *d, const ft_kv *kv, ft_mat k, ft_mat v);
void ft_cuda_put_heads(ft_dev *d, const ft_kv *kv, const ft_qkv *x);
void ft_cuda_attend(ft_dev *d, ft_mat o, ft_mat q, const ft_kv *kv, ft_attn p);
void ft_cuda_act_mul(ft_dev *d, ft_mat y, ft_mat g, ft_mat u, ft_act act);
void ft_cuda_sigmoid_mul(ft_dev *d, ft_mat y, ft_mat g);
void ft_cuda_add(ft_dev *d, ft_mat y, ft_mat x, float scale);
void ft_cuda_norm_add(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, float eps, float scale,
                      const ft_norm_out *o, int n);
void ft_cuda_norm_add_both(ft_dev *d, ft_mat y, const ft_norm_out *x, ft_vec w, float eps,
                           float scale, const ft_norm_out *o, int n);
void ft_cuda_softcap(ft_dev *d, ft_mat y, float c);
void ft_cuda_gather(ft_dev *d, ft_mat y, ft_mat x, int which);
void ft_cuda_argmax(ft_dev *d, int32_t *id, ft_mat x);
void ft_cuda_draw(ft_dev *d, ft_drawn *y, ft_mat x);
void ft_cuda_scatter(ft_dev *d, ft_mat y, ft_mat x);
void ft_cuda_conv(ft_dev *d, ft_mat y, ft_mat u, ft_vec w, const ft_delta *s);
void ft_cuda_delta_rule(ft_dev *d, ft_mat o, ft_mat y, ft_mat a, ft_mat b, ft_vec A, ft_vec dt,
                        const ft_delta *s);
void ft_cuda_gated_norm(ft_dev *d, ft_mat y, ft_mat o, ft_mat z, ft_vec w, float eps);
void ft_cuda_route(ft_dev *d, ft_expert_choice r, ft_mat x);
void ft_cuda_expert_linear(ft_dev *d, ft_mat y, ft_mat x, const ft_weight *w, ft_expert_choice r,
                           bool acc);
void ft_cuda_moe(ft_dev *d, ft_mat y, ft_mat x, const ft_experts *e, ft_expert_choice r, ft_mat tmp,
                 bool acc);
void ft_cuda_moe_shared(ft_dev *d, ft_mat y, ft_mat x, const ft_experts *e, ft_expert_choice r,
                        ft_mat tmp, const ft_shared_expert *sh);
void ft_cuda_centroid_head(ft_dev *d, ft_mat y, ft_mat x, ft_mat score, const ft_weight *w,
                           const int32_t *order, int top);

void ft_cuda_layernorm(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, ft_vec b, float eps);
void ft_cuda_affine(ft_dev *d, ft_mat y, ft_vec b, ft_vec w, ft_act act);
void ft_cuda_dense(ft_dev *d, ft_mat y, ft_mat x, const ft_weight *w, ft_vec b, ft_act act,
                   bool acc);
void ft_cuda_attend_image(ft_dev *d, ft_mat o, const ft_image_attn *a);
void ft_cuda_clamp(ft_dev *d, ft_mat y, ft_mat x, float lo, float hi);
void ft_cuda_mix(ft_dev *d, ft_mat y, ft_mat x, ft_mixing m, bool acc);
void ft_cuda_image_rows(ft_dev *d, ft_mat y, ft_mat x);

/* copies.cu: copy_list and save_list of dev.h. */
void ft_cuda_copy_list(ft_dev *d, const ft_copy *list, size_t n, bool in);
void ft_cuda_save_list(ft_dev *d, const ft_copy *list, size_t n, ft_copying *copying);
void ft_cuda_copies_close(ft_cuda *c); /* when they have ended; opened again by the next ones */

/* product/weights.cu: repacks weights from file layout. */
ft_status ft_cuda_bind(ft_dev *d, ft_weight *w, const void *host, ft_err *err);
void ft_cuda_unbind(ft_dev *d, ft_weight *w);
uint64_t ft_cuda_weight_bytes(ft_dev *d, const ft_weight *w);

#ifdef __cplusplus
}
#endif

#endif
