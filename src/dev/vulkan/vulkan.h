/* dev/vulkan/vulkan.h - internals of the Vulkan device, shared by its files.
 * Device pointers are buffer device addresses, so that ops pass them to shaders in push constants
 * and there are no descriptor sets. One queue runs everything in order: an op records a dispatch in
 * the open command buffer, commit submits it, and a timeline semaphore says what has run. Between
 * ops is a memory barrier. The batch's arrays are read by shaders from a table at a fixed address
 * (ft_vk_batch), so that a recorded command buffer can be submitted again with another batch. */
#ifndef FT_DEV_VULKAN_H
#define FT_DEV_VULKAN_H

#include "base/mem.h"
#include "dev/arena.h"
#include "dev/batch_shape.h"
#include "dev/dev.h"

#include <vulkan/vulkan.h>

/* Shaders, in the order of the table in pipeline.c. */
typedef enum ft_vk_shader {
    FT_VK_EACH,
    FT_VK_NORM,
    FT_VK_ANGLES,
    FT_VK_EMBED,
    FT_VK_LINEAR,
    FT_VK_PLAN,
    FT_VK_SELECT,
    FT_VK_CENTROID,
    FT_VK_KV_PUT,
    FT_VK_ATTEND,
    FT_VK_FOLD,
    FT_VK_JOIN,
    FT_VK_CONV,
    FT_VK_DELTA,
    FT_VK_DELTA_SHUFFLE,
    FT_VK_DELTA_CONV,
    FT_VK_DRAW,
    FT_VK_DRAW_ROW,
    FT_VK_PACK,
    FT_VK_LAYOUT, /* from here on with cooperative matrices */
    FT_VK_HALVES,
    FT_VK_ONE,
    FT_VK_FEW,
    FT_VK_MANY,
    FT_VK_ATTEND_COOP,
    FT_VK_SHADERS
} ft_vk_shader;

/* Ops of each.comp, norm.comp and select.comp. */
enum ft_vk_each {
    FT_VK_ACT_MUL,
    FT_VK_SIGMOID_MUL,
    FT_VK_ADD,
    FT_VK_SOFTCAP,
    FT_VK_GATHER,
    FT_VK_SCATTER,
    FT_VK_AFFINE,
    FT_VK_CLAMP,
    FT_VK_MIX,
    FT_VK_IMAGE_ROWS,
    FT_VK_MINUS_INF,
    FT_VK_COMBINE
};
enum ft_vk_norm { FT_VK_RMS, FT_VK_ROPE, FT_VK_GATED, FT_VK_NORM_ADD, FT_VK_LAYER, FT_VK_SUM };
enum ft_vk_select { FT_VK_ARGMAX, FT_VK_ROUTE, FT_VK_TOP, FT_VK_PART, FT_VK_JOIN_PARTS };

/* Scratch memory per family of ops: grown on demand, freed on close. */
typedef enum ft_vk_scratch_id {
    FT_VK_SCRATCH_PLAN,
    FT_VK_SCRATCH_EXPERTS,
    FT_VK_SCRATCH_ATTEND,
    FT_VK_SCRATCH_PIECES,
    FT_VK_SCRATCH_TOP,
    FT_VK_SCRATCH_DRAW,
    FT_VK_SCRATCH_ARGMAX,
    FT_VK_SCRATCH_HALVES,
    FT_VK_SCRATCH_SHARED,
    FT_VK_SCRATCH_COUNT
} ft_vk_scratch_id;

enum {
    FT_VK_RING = 8,       /* command buffers, and staging buffers of batches */
    FT_VK_SPECS = 8,      /* maximum specialisation constants of a shader */
    FT_VK_PUSH = 192,     /* bytes of push constants, at most; every device has 128 */
    FT_VK_KEPT = 2048,    /* maximum recorded steps that are submitted again */
    FT_VK_GRID = 32768,   /* largest grid in x that is used; devices have 65535 at least */
    FT_VK_EXPERTS = 2048, /* plan.comp */
    FT_VK_HEAD = 1024,    /* largest head: fold.glsl, kv_put.comp */
    FT_VK_TAPS = 16,      /* conv.comp */
    FT_VK_SHARED = 24576, /* bytes of shared memory that the largest shader needs */
};

/* A matrix in push constants: Mat of common.glsl. */
typedef struct ft_vk_mat {
    uint64_t p;
    int32_t rs, hs, d, H;
} ft_vk_mat;

/* Batch of common.glsl. */
typedef struct ft_vk_batch {
    int32_t T, S, n_out, pages_per_seq;
    uint64_t token, drawn, pos[3], cell, end, span_of, out_row, src_row, dst_row, image_row, ahead,
        span, page[2], draw, draw_words;
} ft_vk_batch;

/* A buffer with memory of its own. */
typedef struct ft_vk_buffer {
    VkDeviceMemory memory;
    VkBuffer buffer;
    uint64_t address;
    uint64_t bytes;
    unsigned char *host; /* where it is mapped, or NULL */
} ft_vk_buffer;

/* Device memory is taken from the driver in blocks, and allocated from them. */
typedef struct ft_vk_block {
    ft_vk_buffer b;
    ft_arena *arena;
    int pieces; /* allocations in it */
} ft_vk_block;

typedef struct ft_vk_pipeline {
    ft_vk_shader shader;
    uint32_t spec[FT_VK_SPECS];
    VkPipeline pipeline;
    VkResult result; /* of its compilation */
} ft_vk_pipeline;

typedef struct ft_vk_pipelines {
    ft_vk_pipeline **v;
    int n, cap;
} ft_vk_pipelines;

/* Commands are listed first and written to the command buffer when it is closed, so that the
 * pipelines that a step needs for the first time are compiled at the same time. */
typedef enum ft_vk_command_kind {
    FT_VK_BARRIER,
    FT_VK_DISPATCH,
    FT_VK_COPY,
    FT_VK_FILL
} ft_vk_command_kind;

typedef struct ft_vk_command {
    ft_vk_command_kind kind;
    const ft_vk_pipeline *pipeline;
    uint32_t grid[3], push_bytes;
    VkBuffer from, to;
    VkBufferCopy part; /* FILL: dstOffset and size */
    unsigned char push[FT_VK_PUSH];
} ft_vk_command;

/* The norm of one row that the last command computes as x: linear.comp can compute it, too. */
typedef struct ft_vk_normed {
    uint64_t x, w;
    float eps;
    uint32_t threads; /* WG of norm.comp; 0: the last command is something else */
} ft_vk_normed;

/* A norm and rotation of keys that kv_put.comp computes. */
typedef struct ft_vk_rotation {
    ft_vk_mat cs;
    uint64_t w;
    float eps;
} ft_vk_rotation;

/* A recorded step. */
typedef struct ft_vk_step {
    const void *pass;
    ft_batch_shape shape;
    int32_t pages_per_seq, kind; /* kind: which optional arrays the batch has */
    int seen;                    /* steps of this shape that were recorded to run once */
    uint64_t used, value;        /* last use: order, and its value of the timeline */
    VkCommandBuffer cmd;
} ft_vk_step;

typedef struct ft_vk {
    ft_dev dev;
    ft_ops ops;
    int index;
    char name[16];
    VkInstance instance;
    VkPhysicalDevice gpu;
    VkPhysicalDeviceProperties props;
    VkPhysicalDeviceMemoryProperties memory;
    uint64_t most_bytes; /* of one allocation */
    VkDevice device;
    VkQueue queue;
    uint32_t family;
    bool mapped;              /* device memory is mapped: integrated GPUs and CPUs */
    bool budget;              /* VK_EXT_memory_budget */
    bool shuffles;            /* of subgroups of at least four */
    bool coop;                /* cooperative matrices as coop.glsl needs them, */
    uint32_t order;           /* and LAYOUT there */
    uint32_t multiprocessors; /* 0: not known */
    uint32_t local;           /* memory type of device memory */
    uint32_t host;            /* and of staging buffers */

    /* memory.c */
    ft_vk_block *block;
    int n_block, cap_block;
    ft_vk_buffer stage; /* uploads and downloads */
    void *scratch[FT_VK_SCRATCH_COUNT];
    size_t scratch_bytes[FT_VK_SCRATCH_COUNT];
    void **retired; /* outgrown scratch that recorded steps may use */
    int n_retired;

    /* step.c */
    VkCommandPool pool;
    VkCommandBuffer ring[FT_VK_RING];
    uint64_t ring_value[FT_VK_RING]; /* of the timeline when it has run */
    unsigned ring_at;
    VkCommandBuffer cmd; /* open, or NULL */
    ft_vk_command *list; /* its commands */
    int n_list, cap_list;
    VkCommandBuffer again; /* submitted by the next commit again (keep_ops) */
    bool dirty;            /* commands since the last barrier */
    bool staged;           /* the open command buffer copies a batch */
    VkSemaphore timeline;
    uint64_t value;           /* of the last submission */
    ft_vk_buffer batch_stage; /* FT_VK_RING times batch_bytes */
    ft_vk_buffer batch_mem;
    size_t batch_bytes, batch_used;
    unsigned char *batch_at; /* staging of this step */
    ft_vk_batch batch;
    ft_batch_shape shape;
    ft_vk_step *kept;
    uint32_t *hash; /* of their keys */
    int n_kept;
    uint64_t clock;
    bool only;           /* steps are recorded, but do not run */
    ft_vk_step loose;    /* a recorded step that is not kept */
    ft_vk_step *keeping; /* the step being recorded is kept here, */
    bool keep_not;       /* unless it contains what must not be repeated */

    /* pipeline.c */
    VkShaderModule module[FT_VK_SHADERS];
    VkPipelineLayout layout;
    VkPipelineCache cache;
    char *cache_path; /* or NULL */
    bool cache_new;   /* has pipelines that are not in the file */
    ft_vk_pipelines pipelines[FT_VK_SHADERS];
    ft_vk_pipelines fresh; /* those that have not been compiled yet */

    ft_vk_normed norm; /* product.c: of the products being recorded */

    uint64_t grid; /* address of the tables of quant/grids.h */

    VkResult error; /* the first */
    const char *where;
} ft_vk;

/* Stores the first error; later ones are ignored. */
void ft_vk_check(ft_vk *v, VkResult r, const char *where);
const char *ft_vk_error_name(VkResult r);

/* ---- coop.c ---- */

#define FT_VK_COOP "VK_KHR_cooperative_matrix"
typedef struct ft_vk_coop_features { /* VkPhysicalDeviceCooperativeMatrixFeaturesKHR */
    VkStructureType sType;
    void *pNext;
    VkBool32 matrices, robust;
} ft_vk_coop_features;

/* Whether a device has the extension FT_VK_COOP and what coop.glsl needs. FT_VULKAN=basic: no. */
bool ft_vk_coop_offered(VkInstance instance, VkPhysicalDevice gpu);
/* Fills what vkCreateDevice needs for it; returns the structure to chain. */
void *ft_vk_coop_enable(ft_vk_coop_features *coop, VkPhysicalDeviceVulkan12Features *v12);
/* The code of a shader that includes coop.glsl, with the instructions of FT_VK_COOP; the caller
 * frees it. */
uint32_t *ft_vk_coop_code(const uint32_t *code, size_t *bytes);
/* Clears v->coop where the elements of a matrix are laid out differently. */
void ft_vk_coop_check(ft_vk *v);

/* ---- memory.c ---- */

bool ft_vk_memory_open(ft_vk *v, ft_err *err);
void ft_vk_memory_close(ft_vk *v);
/* host: in the memory of staging buffers, mapped. */
VkResult ft_vk_buffer_open(ft_vk *v, ft_vk_buffer *b, uint64_t bytes, bool host);
void ft_vk_buffer_close(ft_vk *v, ft_vk_buffer *b);
void *ft_vk_alloc(ft_dev *d, size_t bytes);
void ft_vk_free(ft_dev *d, void *p);
void ft_vk_upload(ft_dev *d, void *dst, const void *src, size_t bytes);
void ft_vk_download(ft_dev *d, void *dst, const void *src, size_t bytes);
void ft_vk_copy_list(ft_dev *d, const ft_copy *list, size_t n, bool up);
void ft_vk_move(ft_dev *d, void *dst, const void *src, size_t bytes);
uint64_t ft_vk_free_bytes(ft_dev *d);
/* At least `bytes`; the contents are lost with the next op of the same family. 0: no memory. */
uint64_t ft_vk_scratch(ft_vk *v, ft_vk_scratch_id which, size_t bytes);
void ft_vk_free_retired(ft_vk *v); /* nothing runs any more */
ft_status ft_vk_bind(ft_dev *d, ft_weight *w, const void *host, ft_err *err);
void ft_vk_unbind(ft_dev *d, ft_weight *w);

/* ---- step.c ---- */

bool ft_vk_steps_open(ft_vk *v, ft_err *err);
void ft_vk_steps_close(ft_vk *v);
/* A place for one more command; NULL after an error. */
ft_vk_command *ft_vk_command_add(ft_vk *v, ft_vk_command_kind kind);
/* What is recorded next waits for what was recorded before. */
void ft_vk_barrier(ft_vk *v);
/* Copies, and sets to zero, after a barrier. */
void ft_vk_copy(ft_vk *v, VkBuffer from, VkBuffer to, VkBufferCopy part);
void ft_vk_fill(ft_vk *v, VkBuffer to, uint64_t at, uint64_t bytes);
void ft_vk_flush(ft_vk *v);     /* submits the open command buffer */
void ft_vk_wait(ft_vk *v);      /* until everything has run */
void ft_vk_drop_kept(ft_vk *v); /* waits too */
void ft_vk_batch_reserve(ft_vk *v, size_t bytes);
void ft_vk_record(ft_dev *d, const ft_batch *b);
bool ft_vk_replay(ft_dev *d, const void *pass);
bool ft_vk_captured(ft_dev *d, const void *pass);
void ft_vk_capture_pass(ft_dev *d, const void *pass);
void ft_vk_capture(ft_dev *d, bool on);
void ft_vk_commit(ft_dev *d);
ft_status ft_vk_sync(ft_dev *d, ft_err *err);

/* ---- pipeline.c ---- */

bool ft_vk_pipelines_open(ft_vk *v, ft_err *err);
void ft_vk_pipelines_close(ft_vk *v);
void ft_vk_pipelines_compile(ft_vk *v); /* those that are new */
/* A dispatch of x * y * z workgroups, without a barrier. spec: FT_VK_SPECS values. */
void ft_vk_dispatch(ft_vk *v, ft_vk_shader s, const uint32_t *spec, const void *push, size_t bytes,
                    size_t x, size_t y, size_t z);

/* The next dispatch depends on none of those since the last barrier. */
static inline void ft_vk_beside(ft_vk *v)
{
    v->dirty = false;
}

#define FT_VK_SPEC(...) ((const uint32_t[FT_VK_SPECS]){__VA_ARGS__})
/* A barrier, then a dispatch with the arguments of a struct. */
#define FT_VK_RUN(v, shader, spec, push, x, y, z)                                                  \
    (ft_vk_barrier(v), ft_vk_dispatch(v, shader, spec, &(push), sizeof(push), x, y, z))

static inline uint64_t ft_vk_address(const void *p)
{
    return (uint64_t)(uintptr_t)p;
}

static inline ft_vk_mat ft_vk_mat_of(ft_mat m)
{
    return (ft_vk_mat){ft_vk_address(m.p), m.rs, m.hs, m.d, m.H};
}

static inline size_t ft_vk_groups(size_t n, size_t each)
{
    return (n + each - 1) / each;
}

/* ---- the ops: plain.c, product.c, attend.c, delta.c, draw.c ---- */

void ft_vk_rmsnorm(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, float eps);
void ft_vk_rope_angles(ft_dev *d, ft_mat cs, const ft_rope *r);
ft_vk_normed ft_vk_norm_of(const ft_vk *v, ft_mat x);
void ft_vk_norm_rope(ft_dev *d, ft_mat x, ft_vec w, float eps, ft_mat cs);
/* Takes the norm and rotation of keys off the list if that was the last op: kv_put computes it. */
bool ft_vk_take_rotation(ft_vk *v, ft_mat k, ft_mat values, ft_vk_rotation *r);
void ft_vk_act_mul(ft_dev *d, ft_mat y, ft_mat g, ft_mat u, ft_act act);
void ft_vk_sigmoid_mul(ft_dev *d, ft_mat y, ft_mat g);
void ft_vk_add(ft_dev *d, ft_mat y, ft_mat x, float scale);
void ft_vk_norm_add(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, float eps, float scale,
                    const ft_norm_out *o, int n);
void ft_vk_softcap(ft_dev *d, ft_mat y, float c);
void ft_vk_gather(ft_dev *d, ft_mat y, ft_mat x, int which);
void ft_vk_argmax(ft_dev *d, int32_t *id, ft_mat x);
void ft_vk_scatter(ft_dev *d, ft_mat y, ft_mat x);
void ft_vk_gated_norm(ft_dev *d, ft_mat y, ft_mat o, ft_mat z, ft_vec w, float eps);
void ft_vk_layernorm(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, ft_vec b, float eps);
void ft_vk_affine(ft_dev *d, ft_mat y, ft_vec b, ft_vec w, ft_act act);
void ft_vk_clamp(ft_dev *d, ft_mat y, ft_mat x, float lo, float hi);
void ft_vk_mix(ft_dev *d, ft_mat y, ft_mat x, ft_mixing m, bool acc);
void ft_vk_image_rows(ft_dev *d, ft_mat y, ft_mat x);
/* act_mul, times the sigmoid of a row's s. */
void ft_vk_act_mul_by(ft_vk *v, ft_mat y, ft_mat g, ft_mat u, ft_act act, ft_mat s);
/* y = -inf, and the weighted sum of each row's K experts. */
void ft_vk_minus_inf(ft_vk *v, ft_mat y);
void ft_vk_combine(ft_vk *v, ft_mat y, ft_mat x, const float *w, int K, bool acc);

void ft_vk_embed(ft_dev *d, ft_mat y, const ft_weight *w, float scale);
void ft_vk_linear(ft_dev *d, ft_mat y, ft_mat x, const ft_weight *w, bool acc);
void ft_vk_linears(ft_dev *d, const ft_product_out *o, int n, ft_mat x);
void ft_vk_glu(ft_dev *d, ft_mat y, ft_mat u, ft_mat x, const ft_weight *gate, const ft_weight *up,
               ft_act act);
void ft_vk_route(ft_dev *d, ft_expert_choice r, ft_mat x);
void ft_vk_moe(ft_dev *d, ft_mat y, ft_mat x, const ft_experts *e, ft_expert_choice r, ft_mat tmp,
               bool acc);
void ft_vk_moe_shared(ft_dev *d, ft_mat y, ft_mat x, const ft_experts *e, ft_expert_choice r,
                      ft_mat tmp, const ft_shared_expert *sh);
void ft_vk_expert_linear(ft_dev *d, ft_mat y, ft_mat x, const ft_weight *w, ft_expert_choice r,
                         bool acc);
/* Weights that are repacked for cooperative matrices when they are bound. */
bool ft_vk_packs(const ft_vk *v, const ft_weight *w);
uint64_t ft_vk_packed_bytes(const ft_weight *w);
void ft_vk_pack(ft_vk *v, const ft_weight *w, void *to, const void *from);
void ft_vk_centroid_head(ft_dev *d, ft_mat y, ft_mat x, ft_mat score, const ft_weight *w,
                         const int32_t *order, int top);

void ft_vk_kv_put(ft_dev *d, const ft_kv *kv, ft_mat k, ft_mat v);
void ft_vk_attend(ft_dev *d, ft_mat o, ft_mat q, const ft_kv *kv, ft_attn p);
/* Lets attention apply the gates of its queries, if it was the last op; false: it cannot. */
bool ft_vk_attend_gate(ft_vk *v, ft_mat y, ft_mat g);

void ft_vk_conv(ft_dev *d, ft_mat y, ft_mat u, ft_vec w, const ft_delta *s);
void ft_vk_delta_rule(ft_dev *d, ft_mat o, ft_mat y, ft_mat a, ft_mat b, ft_vec A, ft_vec dt,
                      const ft_delta *s);

/* Lets the delta rule compute this gated norm, and the convolution before it where that is
 * possible, if it was the last op; false: it cannot. */
bool ft_vk_delta_norm(ft_vk *v, ft_mat y, ft_mat o, ft_mat z, ft_vec w, float eps);
/* Before a product with the result y: it does not depend on the state of a convolution, if that was
 * written last. */
void ft_vk_beside_conv(ft_vk *v, ft_mat y);

void ft_vk_draw(ft_dev *d, ft_drawn *y, ft_mat x);

#endif
