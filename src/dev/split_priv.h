/* dev/split_priv.h - internals of dev/split.h: where memory is, which bytes are valid on which
 * device, and captured steps. */
#ifndef FT_DEV_SPLIT_PRIV_H
#define FT_DEV_SPLIT_PRIV_H

#include "dev/batch_shape.h"
#include "dev/split.h"

/* In a mask, while a step is captured: written by this step. */
#define FT_SPLIT_FRESH (UINT64_C(1) << FT_SPLIT_MAX)

/* A run of bytes that is valid on the devices of `mask`. The runs of an allocation are in order,
 * without gaps. */
typedef struct ft_split_run {
    size_t end;
    uint64_t mask;
} ft_split_run;

/* An allocation: on one device, or mirrored on all. */
typedef struct ft_split_mem {
    unsigned char **p;    /* [n]; mirrored: p[FT_SPLIT_HOST] is the address that callers use */
    unsigned char *known; /* the address that callers use */
    size_t bytes;
    int side;     /* -1: mirrored */
    bool scratch; /* has nothing to keep from one step to the next */
    ft_split_run *run;
    int n_run, cap_run;
    ft_split_run *saved; /* the runs before a step that is captured but not run */
    int n_saved;
} ft_split_mem;

/* Bytes that are needed on a device, or valid on the devices of a mask. */
typedef struct ft_split_range {
    unsigned char *at; /* the address that callers use */
    size_t n;
    uint64_t mask;
} ft_split_range;

/* A part of a captured step: what device `from` has captured under `key`, or a copy. */
typedef struct ft_split_action {
    int from, to; /* to < 0: not a copy */
    const void *key;
    void *src, *dst;
    size_t n;
} ft_split_action;

/* A captured step (split_plan.c). */
typedef struct ft_split_plan {
    const void *pass;
    ft_batch_shape shape;
    bool complete;   /* captured */
    uint64_t embeds; /* devices that read tokens, which may be ids of an earlier step */
    int seen;        /* steps of this shape that ran uncaptured */
    uint64_t id;     /* keys of its parts are made of it */
    int n_key;
    ft_split_action *action; /* in order */
    int n_action, cap_action;
    ft_split_range *read; /* what it reads of earlier steps, each on one device */
    int n_read, cap_read;
    ft_split_range *wrote; /* what is valid where after it */
    int n_wrote, cap_wrote;
} ft_split_plan;

enum { FT_SPLIT_SPREAD = FT_SPLIT_MAX }; /* the device of experts that are spread */

/* Experts that are spread (split_experts.c): the part of each device, and its first expert. */
typedef struct ft_split_experts {
    ft_weight *part;
    int *first;
} ft_split_experts;

/* Memory for the rows of experts that are spread: their inputs, results and sums, on all devices;
 * tables; and in host memory the choices, experts, rows and places of n choices. */
typedef struct ft_split_rows {
    float *x, *z, *sum;
    int32_t *id, *row;
    float *one;
    int32_t *host;
    float *ones;
    size_t values, n;
} ft_split_rows;

/* All plans, and the one that is being captured. */
typedef struct ft_split_plans {
    ft_split_plan **plan;
    uint32_t *hash; /* of their keys */
    int n, cap;
    uint64_t ids;
    bool capturing;    /* this step is captured, */
    ft_split_plan *to; /* and this is its plan; NULL: it is dropped */
    bool only;         /* steps are captured but not run */
    uint64_t open;     /* devices that are capturing */
} ft_split_plans;

typedef struct ft_split {
    ft_dev dev;
    ft_ops ops;
    ft_dev *part[FT_SPLIT_MAX];
    int n;
    uint64_t busy;                /* devices with weights that products read */
    uint64_t used;                /* devices with weights */
    ft_batch batch[FT_SPLIT_MAX]; /* of this step, as each device sees it */
    bool output;                  /* a step since the last wait has output rows, or draws */
    ft_split_plans plans;
    bool spread; /* some experts are */
    ft_split_rows rows;
    bool rows_failed; /* there was no memory for them: sync reports it */
    ft_split_rule rule;
    char alloc_for[96]; /* the tensor that is being bound; "": activations */
    ft_split_mem *mem;
    int n_mem, cap_mem; /* sorted by the address that callers use */
    void *bounce;       /* for copies between two devices without host memory */
    size_t bounce_bytes;
    ft_dev *bounce_of; /* the device that has allocated it; NULL: none has */
    char words[256];
} ft_split;

ft_split_mem *ft_split_find(const ft_split *s, const void *p);
int ft_split_of(const ft_split *s, const void *p); /* the device of memory that is not mirrored */
/* Bytes [from, from + n) of mirrored memory are about to be read or have been written on a device:
 * copies them there, or marks them invalid on the others. */
void ft_split_need(ft_split *s, const void *from, size_t n, int side);
void ft_split_wrote(ft_split *s, const void *from, size_t n, int side);
/* They have been written with the same values on all devices of `mask`. */
void ft_split_wrote_all(ft_split *s, const void *from, size_t n, uint64_t mask);
/* The devices on which all of them are valid without a copy. */
uint64_t ft_split_valid(const ft_split *s, const void *from, size_t n);
/* Of the devices of a mask, the last; the host if there is none. */
int ft_split_last(uint64_t mask);
/* The device, ready to be called by this thread. */
ft_dev *ft_split_use(const ft_split *s, int side);
/* The same, for an op whose inputs are there: the device captures it if the step is captured. */
ft_dev *ft_split_op(ft_split *s, int side);
/* The address on a device for an address that callers use. */
void *ft_split_at(const ft_split *s, const void *p, int side);

/* After everything recorded so far on both devices. */
void ft_split_copy(ft_split *s, int from, void *src, int to, void *dst, size_t n);
void ft_split_join_runs(ft_split_mem *m);
uint64_t ft_split_all(const ft_split *s); /* the mask of all devices */

/* split_plan.c: replay, commit and capture of dev/dev.h, where all devices capture. */
bool ft_split_replay(ft_dev *d, const void *pass);
void ft_split_commit(ft_dev *d);
void ft_split_capture(ft_dev *d, bool on);
void ft_split_drop_plans(ft_split *s);
/* Ends what a device has recorded, or captured. */
void ft_split_commit_part(ft_split *s, int side);
/* While a step is captured: these bytes are read on a device; a copy was made. */
void ft_split_note_read(ft_split *s, const ft_split_mem *m, const void *from, size_t n, int side);
void ft_split_note_copy(ft_split *s, int from, void *src, int to, void *dst, size_t n);
/* Copies the ids of an earlier step that stand for tokens of this one; as many as a captured step
 * may use. Whether there are any differs from step to step: a plan has no copies of them. */
void ft_split_need_drawn(ft_split *s, int side);

/* split_experts.c */
ft_status ft_split_bind_spread(ft_split *s, ft_weight *w, const void *host, ft_err *err);
void ft_split_unbind_spread(ft_split *s, ft_weight *w);
uint64_t ft_split_spread_bytes(ft_split *s, const ft_weight *w);
void ft_split_free_rows(ft_split *s);
void ft_split_moe_spread(ft_split *s, int home, ft_mat y, ft_mat x, const ft_experts *e,
                         ft_expert_choice r, ft_mat tmp, bool acc);

extern const ft_ops ft_split_ops;

#endif
