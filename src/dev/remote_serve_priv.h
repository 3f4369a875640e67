/* dev/remote_serve_priv.h - internals of a rank that computes for rank 0. */
#ifndef FT_DEV_REMOTE_SERVE_PRIV_H
#define FT_DEV_REMOTE_SERVE_PRIV_H

#include "base/file.h"
#include "dev/remote_wire.h"

typedef struct ft_serve_mem {
    uint64_t at, bytes; /* the address that rank 0 uses */
    unsigned char *p;
} ft_serve_mem;

typedef struct ft_serve_weight {
    ft_weight w;
    void *own; /* its bytes if they are in no file */
} ft_serve_weight;

/* Copies of device memory, in host memory. */
typedef struct ft_serve_kept {
    unsigned char *p; /* NULL: none */
    size_t bytes;
} ft_serve_kept;

typedef struct ft_remote_server {
    ft_remote_params p;
    ft_dev *dev;             /* NULL: not open */
    const unsigned char *at; /* the rest of the message that is being read */
    size_t left;
    ft_map file[64];
    int n_file;
    ft_serve_mem *mem;
    int n_mem;
    ft_serve_weight *weight; /* [cap_weight], by number */
    uint32_t cap_weight;
    ft_serve_kept *kept; /* [cap_kept], by number */
    uint32_t cap_kept;
    unsigned char *arena;
    size_t arena_used;
    void *stage; /* host memory for copies */
    size_t stage_bytes;
    bool stage_pinned; /* it is the device's */
    char *theirs;      /* the path that rank 0 has for the model */
    ft_batch batch;
    unsigned char *batch_bytes; /* its arrays */
    size_t batch_cap;
    int32_t *pages[2];
    size_t n_pages;
    int32_t top_page[2]; /* the largest of them so far, */
    bool top_stale;      /* unless the memory that they are pages of has changed */
    ft_status failed;
    ft_err error;
} ft_remote_server;

/* The next n bytes of the message. */
const void *ft_serve_bytes(ft_remote_server *s, size_t n);
void ft_serve_fail(ft_remote_server *s, ft_status code, const char *text);
void *ft_serve_scratch(ft_remote_server *s, size_t n);
void ft_serve_scratch_ready(ft_remote_server *s); /* before the arguments of an op */
/* The memory for n bytes at an address of rank 0; NULL: the address is NULL, or they are not in one
 * allocation, which is an error. */
void *ft_serve_address(ft_remote_server *s, uint64_t p, uint64_t n);
/* Carries out the commands of a message; false: the last one was the end. */
bool ft_serve_message(ft_remote_server *s, const void *message, size_t n);
void ft_serve_init(ft_remote_server *s, const ft_remote_params *p);
void ft_serve_release(ft_remote_server *s);

/* remote_serve_ops.c: a batch, and ops. */
void ft_serve_record(ft_remote_server *s);
void ft_serve_op(ft_remote_server *s, ft_remote_op op);

#endif
