/* dev/dev.h - a device: its memory, its weights, and the steps it runs.
 * Only the engine thread calls these functions. A step is: record, the ops of dev/ops.h, commit,
 * sync. Ops may run as soon as they are called and have run when sync returns. A device that
 * captures steps (CUDA graphs) keeps each one under its pass and batch shape; when replay finds
 * one, the ops are not called. */
#ifndef FT_DEV_DEV_H
#define FT_DEV_DEV_H

#include "base/err.h"
#include "dev/ops.h"

/* Upper bounds from which a device sizes its scratch memory, once, before the first step. */
typedef struct ft_dev_limits {
    int rows;     /* rows per step */
    int k;        /* widest input of a linear layer */
    int experts;  /* experts chosen per row; 0: no experts */
    int expert_k; /* widest input of an expert */
    int heads;    /* query heads of an attention layer */
    int head_d;   /* widest head */
    bool recent;  /* caches have a recent-token window */
    bool encoded; /* some cache is neither f32 nor f16 */
    int ctx;      /* positions of a sequence */
    int vocab;    /* widest output layer */
    int layers;
    int graphs, draft_graphs; /* steps to be captured: of the whole model, of one draft layer */
} ft_dev_limits;

#define FT_ALLOC_SCRATCH "scratch"

/* A copy between host and device memory. */
typedef struct ft_copy {
    void *host, *device;
    size_t bytes;
} ft_copy;

/* Downloads that run in the background; zeros: none (dev/copies.h). */
typedef struct ft_copying {
    int pending;
    bool failed;
} ft_copying;

struct ft_dev {
    const ft_ops *op;
    const char *name; /* "cpu", "cuda", "ref" */
    int threads;
    bool cpu;        /* computes on a CPU, of this machine or another */
    bool remote;     /* of another process: it has no ops of vision towers */
    bool keep_ops;   /* benchmarks: commit keeps the recorded ops so that they can run again */
    bool unified;    /* device memory is host memory: results can be read without a copy */
    bool captures;   /* steps are captured; the first steps of a shape are slow */
    bool uncaptured; /* set by replay: this step had no graph, so its time is not typical */
    bool pipelined;  /* a step may be recorded while earlier ones run: record copies the batch */
    /* Of a device made of several: how many compute the layers of a step one after another, each at
     * the same time as the others compute other steps; 0: one device. And the rows of a prompt that
     * keep each of them busy. */
    int stages, part_rows;
    double busy_s; /* seconds from the start of steps on the device to their end, in total, by
                    * its own clock; 0: it has none */
    const ft_batch *batch; /* of the step being recorded */

    /* The tensor that the next bind or alloc calls belong to; NULL: activations; FT_ALLOC_SCRATCH:
     * those that a step writes before it reads them. Only a device made of several (dev/split.h)
     * has this function. */
    void (*alloc_for)(ft_dev *, const char *tensor);
    /* Makes the device the one that the calling thread's ops use; needed where several devices of a
     * kind are used in turns. NULL: nothing to do. */
    void (*enter)(ft_dev *);
    /* Copies between two devices, in the order of both, without waiting; false: it cannot, and
     * nothing was done. NULL: it never can. */
    bool (*copy_from)(ft_dev *to, void *dst, ft_dev *from, const void *src, size_t bytes);
    /* Zeroed device memory; NULL when there is none left. */
    void *(*alloc)(ft_dev *, size_t bytes);
    void (*free)(ft_dev *, void *p);
    void (*upload)(ft_dev *, void *dst, const void *src, size_t bytes);
    /* Waits for the steps before it. */
    void (*download)(ft_dev *, void *dst, const void *src, size_t bytes);
    /* Many uploads or downloads at once. NULL: they are made one by one (dev/copies.h). */
    void (*copy_list)(ft_dev *, const ft_copy *list, size_t n, bool in);
    /* Many downloads that go on in the background. They are in the order of steps: the host gets
     * what a download would give now, once ft_copying_wait has returned. n 0: prepares for the
     * first ones. NULL: there is no background. */
    void (*save_list)(ft_dev *, const ft_copy *list, size_t n, ft_copying *c);
    /* Host memory that copies to and from this device are fast with; host_free releases it. NULL:
     * any memory is. */
    void *(*host_alloc)(ft_dev *, size_t bytes);
    void (*host_free)(ft_dev *, void *p);
    /* Copies inside the device, in stream order; does not wait. */
    void (*move)(ft_dev *, void *dst, const void *src, size_t bytes);
    /* Of a device in another process: memory on its machine for copies of what it holds, under a
     * number; 0: there is none left. Copies into it and out of it are in the order of steps and do
     * not wait; keep_cut removes the first bytes, keep_read waits. NULL: copies are made here. */
    uint32_t (*keep)(ft_dev *, size_t bytes);
    void (*keep_free)(ft_dev *, uint32_t kept);
    void (*keep_cut)(ft_dev *, uint32_t kept, size_t bytes);
    void (*keep_save)(ft_dev *, uint32_t kept, size_t at, const void *src, size_t bytes);
    void (*keep_load)(ft_dev *, void *dst, uint32_t kept, size_t at, size_t bytes);
    void (*keep_read)(ft_dev *, void *host, uint32_t kept, size_t bytes);
    /* Of a device made of several: the one that holds this memory; NULL: all of them. */
    ft_dev *(*holder)(ft_dev *, const void *p);
    /* Makes w->data usable by ops: uses the mapped bytes as they are, copies or repacks them. */
    ft_status (*bind)(ft_dev *, ft_weight *w, const void *host, ft_err *err);
    void (*unbind)(ft_dev *, ft_weight *w);
    ft_status (*reserve)(ft_dev *, const ft_dev_limits *l, ft_err *err);
    /* For planning: bytes that a weight takes on this device, and bytes of scratch per step. */
    uint64_t (*weight_bytes)(ft_dev *, const ft_weight *w);
    uint64_t (*step_bytes)(ft_dev *, const ft_dev_limits *l);
    /* Begins a step. The batch's arrays are in host memory; the device uploads them here, which is
     * the only host-to-device copy of a step. They must not change until the step has run, or, on a
     * pipelined device, until commit. */
    void (*record)(ft_dev *, const ft_batch *b);
    /* Right after record: true when the device has captured this pass with a batch of this shape
     * (dev/batch_shape.h) and runs the captured step; the caller then calls no ops and goes on to
     * sync. */
    bool (*replay)(ft_dev *, const void *pass);
    void (*commit)(ft_dev *);
    /* While on, steps are captured under their shapes but do not run: their results are undefined.
     * NULL: a device that does not capture steps. */
    void (*capture)(ft_dev *, bool on);
    /* For a device made of several. Captures the ops up to commit under this pass, and runs them
     * unless steps are only captured; NULL: the graph is dropped. And whether replay would find
     * it. NULL: a device that does not capture steps. */
    void (*capture_pass)(ft_dev *, const void *pass);
    bool (*captured)(ft_dev *, const void *pass);
    ft_status (*sync)(ft_dev *, ft_err *err);
    /* Bytes of memory that can still be allocated; 0: unknown. */
    uint64_t (*free_bytes)(ft_dev *);
    /* Memory bandwidth in bytes per second, measured by a plain read at the time of the call. */
    double (*read_rate)(ft_dev *);
    /* Peak operations per second with operands in registers, measured. NULL: not measured. */
    double (*arithmetic)(ft_dev *);
    void (*close)(ft_dev *);
};

/* What is known about a device without opening it. */
typedef struct ft_dev_info {
    char name[160];     /* "NVIDIA H200" */
    const char *kind;   /* "CPU", "discrete GPU" */
    uint64_t bytes;     /* of memory */
    uint64_t free;      /* 0: unknown */
    char driver[320];   /* name and version; "": it has none */
    char features[128]; /* what its kernels depend on: "compute capability 9.0" */
    char lacks[80];     /* what this build needs and it does not have; "": nothing */
} ft_dev_info;

ft_dev *ft_dev_ref(void);
/* threads <= 0: one per core. */
ft_dev *ft_dev_cpu(int threads);
void ft_dev_cpu_info(ft_dev_info *out);
/* GPU `index`. Fails where the machine has no such device. Exists only in builds with CUDA=1. */
ft_status ft_dev_cuda(ft_dev **out, int index, ft_err *err);
int ft_dev_cuda_count(void);
/* Of both kinds of GPU. false: no such device, or the kind is not in this build. */
bool ft_dev_cuda_info(int index, ft_dev_info *out);
bool ft_dev_vulkan_info(int index, ft_dev_info *out);

/* Vulkan device `index`, in the loader's order. Exists only in builds with VULKAN=1. */
ft_status ft_dev_vulkan(ft_dev **out, int index, ft_err *err);
int ft_dev_vulkan_discrete(void); /* the first discrete GPU that can be used, -1: none */

/* By name: "cpu" (or "none"), "cuda", "cuda:N" (or "CUDAN"), "vulkan", "vulkan:N", "ref", or
 * "auto": cuda where there is one, else a discrete GPU of Vulkan, else cpu. */
ft_status ft_dev_open(ft_dev **out, const char *name, int threads, ft_err *err);
int ft_dev_gpus(void); /* GPUs that this build can use */

static inline void ft_dev_alloc_for(ft_dev *d, const char *tensor)
{
    if (d->alloc_for) d->alloc_for(d, tensor);
}

static inline void ft_dev_close(ft_dev *d)
{
    if (d) d->close(d);
}

#endif
