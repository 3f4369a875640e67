/* dev/cuda/cuda.h - the cuda device inside, as its op files see it.
 * One stream runs everything in order. An op launches kernels on c->stream and returns; the batch's
 * arrays lie on the device at addresses that stay the same from step to step, so that a captured
 * step can be replayed. An op's launch may depend on c->shape alone (dev/shape.h), never on what
 * the host's arrays hold.
 *
 * Activations are f32. A product multiplies two bf16 planes of them (high part, rest), which are
 * made once for all products that read the same rows: a shadow. Every op that writes a matrix says
 * so with ft_cuda_wrote, or writes the shadow along with it. */
#ifndef FT_DEV_CUDA_H
#define FT_DEV_CUDA_H

#ifdef __cplusplus
extern "C" {
#endif
#include "base/mem.h"
#include "dev/dev.h"
#include "dev/shape.h"
#ifdef __cplusplus
}
#endif

#include <cuda_runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Scratch of an op family: grown on demand, kept until close. */
typedef enum ft_cuda_place {
    FT_PLACE_LINEAR,
    FT_PLACE_PLAN,
    FT_PLACE_MOE,
    FT_PLACE_MOE_HIDDEN,
    FT_PLACE_ATTEND,
    FT_PLACE_ATTEND_MORE,
    FT_PLACE_DELTA,
    FT_PLACE_DRAW,
    FT_PLACE_COUNT
} ft_cuda_place;

enum {
    FT_CUDA_SHADOWS = 6,
    FT_CUDA_GRAPHS = 2048, /* most that are kept */
    FT_CUDA_STAGES = 4,
    FT_CUDA_KERNELS = 256,
    FT_CUDA_BLOCK = 2 << 20, /* cudaMalloc decode_steps up to these, unless a piece is small */
    FT_CUDA_PART_BYTES = 256 << 20, /* most that partial results of an attention may take */
};

/* bf16 planes of a matrix x[T, k]: [plane][k / 64][T][64], k rounded up to a multiple of 64 and
 * filled with zeros. The order of the 64 depends on ft_cuda_wide. */
typedef struct ft_shadow {
    ft_mat x;
    bool valid;
    unsigned used;
    uint16_t *p;
    size_t bytes;
} ft_shadow;

/* Partial results of a row in an attention's scratch: n for each head, one for every range of
 * cells, behind `first` for each head of the rows before it. */
typedef struct ft_parts {
    int32_t first, n;
} ft_parts;

/* Where the rows of a span lie and what they see, so that attention finds it at one look: row r
 * sees cells below end + r * rise. */
typedef struct ft_reach {
    int32_t row, n, slot, past;
    int32_t end, rise;
    ft_parts part; /* of the first row; n is the same for all */
} ft_reach;

/* A captured step. */
typedef struct ft_cuda_graph {
    const void *pass;
    ft_shape shape;
    bool crowded;
    int seen;      /* steps of this shape so far */
    uint64_t used; /* when it was wanted last */
    cudaGraphExec_t exec;
} ft_cuda_graph;

typedef struct ft_cuda {
    ft_dev dev;
    cudaStream_t stream;
    ft_batch batch; /* arrays on the device; S as in the shape, spans beyond the host's are empty */
    const ft_batch *on; /* the same struct on the device, always at this address */
    ft_shape shape;     /* of this step */
    int sms;            /* multiprocessors */
    int cc;             /* compute capability that the kernels were compiled for, times 10: 90 */
    size_t smem;        /* shared memory that a block may take */
    char words[128];

    /* the batch on its way: pinned staging, and its place on the device. There are several, because
     * a step may be recorded while the one before it still runs. */
    unsigned char *stages[FT_CUDA_STAGES], *there;
    cudaEvent_t staged[FT_CUDA_STAGES]; /* the copy out of it has happened */
    unsigned char *stage;               /* of this step */
    unsigned steps;
    size_t stage_bytes, stage_used;

    void *place[FT_PLACE_COUNT];
    size_t place_bytes[FT_PLACE_COUNT];
    ft_shadow shadow[FT_CUDA_SHADOWS];
    unsigned clock;
    const int32_t *planned; /* choices of experts that are sorted already */

    /* partial results of an attention: one for every row and range of cells that it sees */
    const ft_parts *part_of; /* on the device, [T] */
    const ft_reach *reach;   /* on the device, [S] */
    int parts_now, parts;    /* of this step; most that memory is kept for, 0: nobody said */
    bool crowded;            /* this step has more */

    /* graph.cu */
    ft_cuda_graph graph[FT_CUDA_GRAPHS];
    uint32_t hash[FT_CUDA_GRAPHS]; /* of their keys */
    int n_graph;
    uint64_t turn;
    bool rehearsing;           /* steps are kept and do not run */
    bool capturing;            /* this step is being captured, */
    ft_cuda_graph *capture_to; /* to be kept here; NULL: for the scratch that it takes */
    void **retired;            /* scratch that grew: graphs hold its address */
    int n_retired;

    struct ft_cuda_memory *memory; /* memory.cu */
    unsigned char *pin[2];         /* staging of weights */
    struct ft_pool *readers;
    cudaEvent_t pinned[2];
    uint16_t *grid; /* the tables of quant/grids.h, one after the other */
    void *raw;      /* a weight in file layout on its way to its own */
    size_t raw_bytes;

    const void *kernel[FT_CUDA_KERNELS]; /* that ft_cuda_alike has seen, by a hash of the address */

    cudaError_t error; /* the first fault; nothing is launched on purpose after it */
    const char *where; /* what was being done */
} ft_cuda;

/* Whether T rows are many: products of them run on warpgroups then. */
static inline bool ft_cuda_wide(const ft_cuda *c, int T)
{
    return c->cc == 90 && T > 32;
}

/* Whether a card without warpgroups multiplies many rows tile by tile: before 8.0 it has no product
 * of bf16 numbers. */
static inline bool ft_cuda_tiled(const ft_cuda *c)
{
    return c->cc >= 80 && c->cc != 90;
}

/* Remembers the first fault. */
void ft_cuda_check(ft_cuda *c, cudaError_t e, const char *where);
/* At least `bytes` of memory; contents do not survive the next op of the same family. */
void *ft_cuda_scratch(ft_cuda *c, ft_cuda_place which, size_t bytes);

/* memory.cu: alloc, free and room of dev.h. */
void ft_cuda_memory_open(ft_cuda *c, size_t card_bytes);
void ft_cuda_memory_close(ft_cuda *c);
void *ft_cuda_alloc(ft_dev *d, size_t bytes);
void ft_cuda_free(ft_dev *d, void *p);
uint64_t ft_cuda_room(ft_dev *d);
/* What a piece of so many bytes takes. */
uint64_t ft_cuda_piece(const ft_cuda *c, uint64_t bytes);

/* graph.cu: steps as graphs. What replay, commit and rehearse of dev.h say. */
bool ft_cuda_replay(ft_dev *d, const void *pass);
void ft_cuda_commit(ft_dev *d);
void ft_cuda_rehearse(ft_dev *d, bool on);
void ft_cuda_drop_graphs(ft_cuda *c);
/* Memory that graphs may hold the address of: it goes when they do. */
void ft_cuda_retire(ft_cuda *c, void *p);

/* Asks for this kernel what all of them get: as much shared memory on a multiprocessor as there can
 * be. One that wants it otherwise must wait until those before it have left. */
void ft_cuda_alike(ft_cuda *c, const void *kernel);

/* m was written: its shadow, and any that overlaps, is stale. */
void ft_cuda_wrote(ft_cuda *c, ft_mat m);
/* A place for m's shadow: *found says that it is filled already. NULL when there is no memory. */
uint16_t *ft_cuda_shadow(ft_cuda *c, ft_mat m, bool *found);
/* m is being written, and the caller fills this shadow along with it; NULL when m can have
 * none: its width is no multiple of 64. */
uint16_t *ft_cuda_wrote_both(ft_cuda *c, ft_mat m);

/* The ops, in the files of their families. */
void ft_cuda_embed(ft_dev *d, ft_mat y, const ft_weight *w, float scale);
void ft_cuda_rmsnorm(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, float eps);
void ft_cuda_linear(ft_dev *d, ft_mat y, ft_mat x, const ft_weight *w, bool acc);
void ft_cuda_linears(ft_dev *d, const ft_out *o, int n, ft_mat x);
void ft_cuda_glu(ft_dev *d, ft_mat y, ft_mat u, ft_mat x, const ft_weight *gate,
                 const ft_weight *up, ft_act act);
void ft_cuda_rope_angles(ft_dev *d, ft_mat cs, const ft_rope *r);
void ft_cuda_norm_rope(ft_dev *d, ft_mat x, ft_vec w, float eps, ft_mat cs);
void ft_cuda_kv_put(ft_dev *d, const ft_kv *kv, ft_mat k, ft_mat v);
void ft_cuda_attend(ft_dev *d, ft_mat o, ft_mat q, const ft_kv *kv, ft_attn p);
void ft_cuda_act_mul(ft_dev *d, ft_mat y, ft_mat g, ft_mat u, ft_act act);
void ft_cuda_sigmoid_mul(ft_dev *d, ft_mat y, ft_mat g);
void ft_cuda_add(ft_dev *d, ft_mat y, ft_mat x, float scale);
void ft_cuda_norm_add(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, float eps, float scale,
                      const ft_normed *o, int n);
void ft_cuda_softcap(ft_dev *d, ft_mat y, float c);
void ft_cuda_gather(ft_dev *d, ft_mat y, ft_mat x, int which);
void ft_cuda_argmax(ft_dev *d, int32_t *id, ft_mat x);
void ft_cuda_draw(ft_dev *d, ft_drawn *y, ft_mat x);
void ft_cuda_scatter(ft_dev *d, ft_mat y, ft_mat x);
void ft_cuda_conv(ft_dev *d, ft_mat y, ft_mat u, ft_vec w, const ft_delta *s);
void ft_cuda_delta_rule(ft_dev *d, ft_mat o, ft_mat y, ft_mat a, ft_mat b, ft_vec A, ft_vec dt,
                        const ft_delta *s);
void ft_cuda_gated_norm(ft_dev *d, ft_mat y, ft_mat o, ft_mat z, ft_vec w, float eps);
void ft_cuda_route(ft_dev *d, ft_route r, ft_mat x);
void ft_cuda_moe(ft_dev *d, ft_mat y, ft_mat x, const ft_experts *e, ft_route r, ft_mat tmp,
                 bool acc);
void ft_cuda_moe_shared(ft_dev *d, ft_mat y, ft_mat x, const ft_experts *e, ft_route r, ft_mat tmp,
                        const ft_shared *sh);
void ft_cuda_centroid_head(ft_dev *d, ft_mat y, ft_mat x, ft_mat score, const ft_weight *w,
                           const int32_t *order, int top);

void ft_cuda_layernorm(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, ft_vec b, float eps);
void ft_cuda_affine(ft_dev *d, ft_mat y, ft_vec b, ft_vec w, ft_act act);
void ft_cuda_clamp(ft_dev *d, ft_mat y, ft_mat x, float lo, float hi);
void ft_cuda_mix(ft_dev *d, ft_mat y, ft_mat x, ft_mixing m, bool acc);
void ft_cuda_image_rows(ft_dev *d, ft_mat y, ft_mat x);

/* weights.cu: file layout to the layout of the products. */
ft_status ft_cuda_bind(ft_dev *d, ft_weight *w, const void *host, ft_err *err);
void ft_cuda_unbind(ft_dev *d, ft_weight *w);
uint64_t ft_cuda_weight_bytes(ft_dev *d, const ft_weight *w);

#ifdef __cplusplus
}
#endif

#endif
