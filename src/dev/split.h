/* dev/split.h - one device made of two: a fast one with little memory (a GPU), and the host. Every
 * weight, KV cache and layer state is on one side; an op runs on the side of its weight or cache
 * or, if it has neither, on the side of its input. Activations have memory on both sides, and a
 * value is copied when the other side reads it: models and the engine see an ordinary device.
 *
 * A step waits at every change of sides, so steps are neither captured nor pipelined. */
#ifndef FT_DEV_SPLIT_H
#define FT_DEV_SPLIT_H

#include "dev/dev.h"

#include <regex.h>

enum { FT_SPLIT_FAST, FT_SPLIT_HOST };

/* Matrices whose name has a match of `re` are on this side. */
typedef struct ft_split_override {
    regex_t re;
    int side;
} ft_split_override;

/* Placement of tensors by their names. */
typedef struct ft_split_rule {
    int first;   /* layers below this are on the host */
    int experts; /* so are the experts of layers below this */
    bool output; /* the output layer is on the fast side, and so are draft layers */
    int layers;  /* of the main model; later layers are draft layers */
    const ft_split_override *over; /* [n_over] borrowed; the first match counts */
    int n_over;
} ft_split_rule;

/* The side of the vector or cache with this name; looked_up: only single rows of it are read. */
int ft_split_side(const ft_split_rule *r, const char *tensor, bool looked_up);
/* The side of the matrix with this name: the same, with the overrides. Matrices that one op reads
 * (gate and up, the experts of a layer) are together: a match of one is a match of all. */
int ft_split_matrix_side(const ft_split_rule *r, const char *tensor, bool looked_up);

/* Takes ownership of both devices; `host` must be unified. */
ft_dev *ft_dev_split(ft_dev *fast, ft_dev *host, const ft_split_rule *r);
/* The device of one side if d is split, else d: for a model that is on one side as a whole. */
ft_dev *ft_split_device(ft_dev *d, int side);
/* Sets the placement from now on; does nothing if d is not split. */
void ft_split_set_rule(ft_dev *d, const ft_split_rule *r);

#endif
