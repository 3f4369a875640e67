/* dev/split_priv.h - internals of dev/split.h: where memory is, and which bytes are valid on which
 * side. */
#ifndef FT_DEV_SPLIT_PRIV_H
#define FT_DEV_SPLIT_PRIV_H

#include "dev/split.h"

/* A run of bytes that is valid on the sides of `mask`. The runs of an allocation are in order,
 * without gaps. */
typedef struct ft_split_run {
    size_t end;
    unsigned mask;
} ft_split_run;

/* An allocation: on one side, or mirrored on both. */
typedef struct ft_split_mem {
    unsigned char *p[2]; /* mirrored: p[FT_SPLIT_FAST] is the address that callers use */
    size_t bytes;
    int side; /* -1: mirrored */
    ft_split_run *run;
    int n_run, cap_run;
} ft_split_mem;

typedef struct ft_split {
    ft_dev dev;
    ft_dev *half[2];
    ft_split_rule rule;
    char alloc_for[96]; /* the tensor that is being bound; "": activations */
    ft_split_mem *mem;
    int n_mem, cap_mem; /* sorted by the address that callers use */
    char words[64];
} ft_split;

ft_split_mem *ft_split_find(const ft_split *s, const void *p);
int ft_split_of(const ft_split *s, const void *p); /* the side of memory that is on one side */
/* Bytes [from, from + n) of mirrored memory are about to be read or have been written on a side:
 * copies them there, or marks them invalid on the other side. */
void ft_split_need(ft_split *s, const void *from, size_t n, int side);
void ft_split_wrote(ft_split *s, const void *from, size_t n, int side);
/* Whether they are valid there without a copy. */
bool ft_split_valid(const ft_split *s, const void *from, size_t n, int side);
/* The address on a side for an address that callers use. */
void *ft_split_at(const ft_split *s, const void *p, int side);

extern const ft_ops ft_split_ops;

#endif
