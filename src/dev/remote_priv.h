/* dev/remote_priv.h - internals of dev/remote.h on rank 0. */
#ifndef FT_DEV_REMOTE_PRIV_H
#define FT_DEV_REMOTE_PRIV_H

#include "base/buf.h"
#include "base/file.h"
#include "dev/remote_wire.h"

#include <pthread.h>

enum { FT_SPLIT_RANKS = 62, FT_REMOTE_FILES = 64, FT_REMOTE_KINDS = 128 };

/* A kind of weight and the bytes that it takes there. */
typedef struct ft_remote_kind {
    ft_weight w;
    uint64_t bytes;
} ft_remote_kind;

typedef struct ft_remote_pages {
    int32_t *sent; /* page tables as the other rank has them */
    size_t n;
} ft_remote_pages;

typedef struct ft_remote {
    ft_dev dev;
    ft_ops ops;
    int rank;
    bool thread;    /* of this process, */
    pthread_t runs; /* and which one */
    ft_dev *own;    /* the device that it drives */
    char name[96];
    ft_buf cmd;            /* commands that are not sent yet */
    bool asked;            /* commands since the last answer */
    bool output;           /* a step since the last wait has output rows */
    uint64_t steps, begun; /* recorded here, begun there as far as we know */
    unsigned char *range;  /* addresses that stand for memory of the other rank, */
    uint64_t bytes, used;  /* and how many */
    uint32_t weights;      /* numbers in use */
    ft_mapped file[FT_REMOTE_FILES];
    int n_file;
    ft_remote_kind kind[FT_REMOTE_KINDS];
    int n_kind;
    ft_dev_limits step_limits;
    uint64_t step_bytes;
    ft_remote_pages pages[2];
    uint32_t *free_kept; /* numbers that are free again */
    uint32_t n_free_kept, top_kept;
    ft_status failed; /* the rank has ended or failed, and why */
    ft_err error;
} ft_remote;

void ft_remote_begin(ft_remote *r, ft_remote_op op);
void ft_remote_put(ft_remote *r, const void *p, size_t n);
void ft_remote_flush(ft_remote *r);
ft_remote_weight ft_remote_weight_of(const ft_remote *r, const ft_weight *w);

extern const ft_ops ft_remote_ops;

#endif
