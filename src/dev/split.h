/* dev/split.h - one device made of two: a fast one whose memory is short, and the host's.
 * Every weight, and what a layer remembers, lies on one side; an op runs where its weight or its
 * cache lies, and where neither says anything, where its input is. What steps compute has a place
 * on both sides, and a value is copied when the other side asks for it: models and the engine see a
 * device like any other.
 *
 * A step waits at every border, so steps are neither captured nor enqueued ahead. */
#ifndef FT_DEV_SPLIT_H
#define FT_DEV_SPLIT_H

#include "dev/dev.h"

enum { FT_SPLIT_FAST, FT_SPLIT_HOST };

/* Which side things lie on, by the names of their tensors. */
typedef struct ft_split_rule {
    int first;   /* layers below this are the host's */
    int experts; /* so are the experts of layers below this */
    bool output; /* what follows the last layer is on the fast side, and so are draft blocks */
    int layers;  /* of the trunk; blocks from here on count as what follows it */
} ft_split_rule;

/* Where the tensor of this name goes; looked_up: only single rows of it are read. */
int ft_split_side(const ft_split_rule *r, const char *tensor, bool looked_up);

/* Takes both devices; `host` must be unified. */
ft_dev *ft_dev_split(ft_dev *fast, ft_dev *host, const ft_split_rule *r);
/* The side itself where d is split, else d: for a model that lies on one side as a whole. */
ft_dev *ft_split_device(ft_dev *d, int side);
/* The rule from now on; nothing happens where d is not split. */
void ft_split_set_rule(ft_dev *d, const ft_split_rule *r);

#endif
