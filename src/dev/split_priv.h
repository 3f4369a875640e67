/* dev/split_priv.h - inside of dev/split.h: where memory lies, and what is valid where. */
#ifndef FT_DEV_SPLIT_PRIV_H
#define FT_DEV_SPLIT_PRIV_H

#include "dev/split.h"

/* A run of bytes of a pair that is valid on the sides of `mask`. Runs lie in order, without gaps.
 */
typedef struct ft_split_run {
    size_t end;
    unsigned mask;
} ft_split_run;

/* Memory that was allocated: on one side, or the same on both. */
typedef struct ft_split_mem {
    unsigned char *p[2]; /* of a pair p[FT_SPLIT_FAST] is the address that callers know */
    size_t bytes;
    int side; /* -1: a pair */
    ft_split_run *run;
    int n_run, cap_run;
} ft_split_mem;

typedef struct ft_split {
    ft_dev dev;
    ft_dev *half[2];
    ft_split_rule rule;
    char alloc_for[96]; /* the tensor that is being bound; "": none, memory of steps */
    ft_split_mem *mem;
    int n_mem, cap_mem; /* sorted by the address that callers know */
    char words[64];
} ft_split;

ft_split_mem *ft_split_find(const ft_split *s, const void *p);
int ft_split_of(const ft_split *s, const void *p); /* the side of memory that is on one */
/* Bytes [from, from + n) of a pair, about to be read or written on a side: brought there, or gone
 * on the other. */
void ft_split_need(ft_split *s, const void *from, size_t n, int side);
void ft_split_wrote(ft_split *s, const void *from, size_t n, int side);
/* Whether they are valid there as they are. */
bool ft_split_valid(const ft_split *s, const void *from, size_t n, int side);
/* The address on a side of an address that callers know. */
void *ft_split_at(const ft_split *s, const void *p, int side);

extern const ft_ops ft_split_ops;

#endif
