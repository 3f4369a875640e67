/* dev/split_priv.h - internals of dev/split.h: where memory is, and which bytes are valid on which
 * device. */
#ifndef FT_DEV_SPLIT_PRIV_H
#define FT_DEV_SPLIT_PRIV_H

#include "dev/split.h"

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
    int side; /* -1: mirrored */
    ft_split_run *run;
    int n_run, cap_run;
} ft_split_mem;

typedef struct ft_split {
    ft_dev dev;
    ft_ops ops;
    ft_dev *part[FT_SPLIT_MAX];
    int n;
    uint64_t busy; /* devices with weights that products read */
    ft_split_rule rule;
    char alloc_for[96]; /* the tensor that is being bound; "": activations */
    ft_split_mem *mem;
    int n_mem, cap_mem; /* sorted by the address that callers use */
    void *bounce;       /* for copies between two devices without host memory */
    size_t bounce_bytes;
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
/* The address on a device for an address that callers use. */
void *ft_split_at(const ft_split *s, const void *p, int side);

extern const ft_ops ft_split_ops;

#endif
