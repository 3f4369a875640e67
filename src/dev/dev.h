/* dev/dev.h - a device: its memory, its weights, and the steps it runs.
 * Only the engine thread calls these. A step is recorded between ft_dev_record and ft_dev_commit
 * and runs at the latest in ft_dev_sync; a device that can replay keeps it under its key. */
#ifndef FT_DEV_DEV_H
#define FT_DEV_DEV_H

#include "base/err.h"
#include "dev/ops.h"

/* Limits that a device sizes its own scratch for, once, before the first step. */
typedef struct ft_dev_limits {
    int rows;     /* rows of a step */
    int k;        /* longest input of a linear */
    int experts;  /* experts chosen per row, 0 without */
    int expert_k; /* longest input of an expert product */
    int heads;    /* query heads of an attention */
    int head_d;   /* widest head */
    int past;     /* cells of a sequence */
    int vocab;    /* widest output */
    int layers;
    int kept, kept_short; /* steps of all layers, and of a drafter's one, that are rehearsed */
} ft_dev_limits;

struct ft_dev {
    const ft_ops *op;
    const char *name; /* "cpu", "cuda", "ref" */
    int threads;
    bool again;            /* measuring: commit keeps its list, so that it can run once more */
    bool unified;          /* device memory is host memory: no copies needed to read results */
    bool replays;          /* keeps steps: the first ones of a shape are slow */
    bool fresh;            /* set by replay: the step is one of those */
    bool chains;           /* a step may be recorded while others run: record copies the batch */
    bool no_tail;          /* attend does not know ft_kv.newest: caches are made without */
    const ft_batch *batch; /* of the step being recorded */

    /* The tensor whose parts are bound or allocated next, or whose layer's memory is; NULL: memory
     * of steps. For devices that are made of several; else NULL itself. */
    void (*aim)(ft_dev *, const char *tensor);
    /* Zeroed device memory, NULL when there is none left. */
    void *(*alloc)(ft_dev *, size_t bytes);
    void (*free)(ft_dev *, void *p);
    void (*upload)(ft_dev *, void *dst, const void *src, size_t bytes);
    /* Waits for the steps before it. */
    void (*download)(ft_dev *, void *dst, const void *src, size_t bytes);
    /* From one place of the device to another, in the order of steps; waits for nothing. */
    void (*move)(ft_dev *, void *dst, const void *src, size_t bytes);
    /* Makes w->data usable by ops: keeps the mapped bytes, copies or repacks them. */
    ft_status (*bind)(ft_dev *, ft_weight *w, const void *host, ft_err *err);
    void (*unbind)(ft_dev *, ft_weight *w);
    ft_status (*reserve)(ft_dev *, const ft_dev_limits *l, ft_err *err);
    /* What a weight would take here, and what steps take beside their own buffers: for planning. */
    uint64_t (*weight_bytes)(ft_dev *, const ft_weight *w);
    uint64_t (*step_bytes)(ft_dev *, const ft_dev_limits *l);
    /* Begins a step. The batch's arrays are the host's; the device brings them over here, the only
     * host-to-device copy of a step. They stay unchanged until the step has run, or, where steps
     * chain, until commit. */
    void (*record)(ft_dev *, const ft_batch *b);
    /* Right after record: true when the device has kept this pass with a batch of this shape
     * (dev/shape.h) and runs it from its own memory; the caller then calls no ops and goes on to
     * sync. */
    bool (*replay)(ft_dev *, const void *pass);
    void (*commit)(ft_dev *);
    /* While it is on, steps are recorded and kept under their shapes, but do not run: nothing of
     * what they would compute is there. NULL: a device that does not replay. */
    void (*rehearse)(ft_dev *, bool on);
    ft_status (*sync)(ft_dev *, ft_err *err);
    /* Bytes of memory that it could still give; 0 when nobody knows. */
    uint64_t (*room)(ft_dev *);
    /* Bytes per second of a plain read of its memory, measured now. */
    double (*read_rate)(ft_dev *);
    /* Operations per second out of registers: what no op can exceed. NULL: not measured. */
    double (*arithmetic)(ft_dev *);
    void (*close)(ft_dev *);
};

ft_dev *ft_dev_ref(void);
/* threads <= 0: one per core. */
ft_dev *ft_dev_cpu(int threads);
/* Fails where the machine has no such device. Only in builds with CUDA=1. */
ft_status ft_dev_cuda(ft_dev **out, ft_err *err);

/* By name: "cpu", "cuda", "ref", or "auto": cuda where there is one, else cpu. */
ft_status ft_dev_open(ft_dev **out, const char *name, int threads, ft_err *err);

static inline void ft_dev_aim(ft_dev *d, const char *tensor)
{
    if (d->aim) d->aim(d, tensor);
}

static inline void ft_dev_close(ft_dev *d)
{
    if (d) d->close(d);
}

#endif
