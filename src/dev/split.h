/* dev/split.h - one device made of several: the host, and others (GPUs, processes on other
 * machines). Every weight, KV cache and layer state is on one of them; an op runs where its weight
 * or cache is or, if it has neither, where its input is. Activations have memory on all of them,
 * and a value is copied when another device reads it: models and the engine see an ordinary device.
 *
 * Steps are captured where all devices with weights capture theirs: every device captures its ops
 * between two copies, and a captured step replays these parts and copies in order. */
#ifndef FT_DEV_SPLIT_H
#define FT_DEV_SPLIT_H

#include "dev/dev.h"

#include <regex.h>

enum { FT_SPLIT_MAX = 63 }; /* devices */

/* Indices: the host is device 0, the others follow. */
enum { FT_SPLIT_HOST, FT_SPLIT_FAST };

/* Matrices whose name has a match of `re` are on this device. */
typedef struct ft_split_override {
    regex_t re;
    int side;
} ft_split_override;

/* Placement of tensors by their names. */
typedef struct ft_split_rule {
    int first;   /* layers below this are on the host */
    int experts; /* so are the experts of layers below this */
    bool output; /* the output layer is on the last device, and so are draft layers; else on the
                  * host */
    bool lookup; /* tables that are only looked up (the embedding) are where layer 0 is; else on the
                  * host */
    int layers;  /* of the main model; later layers are draft layers */
    /* The layers from `first` on: device 1 + i has those below end[i], the next one those below
     * end[i + 1], and device 1 + n_end the rest. */
    int end[FT_SPLIT_MAX];
    int n_end;
    uint64_t spread; /* the devices over which the experts of every layer are spread; 0: they are
                      * where their layer is */
    const ft_split_override *over; /* [n_over] borrowed; the first match counts */
    int n_over;
} ft_split_rule;

/* The device of a layer, and of the output layer. */
int ft_split_layer_side(const ft_split_rule *r, int layer);
int ft_split_output_side(const ft_split_rule *r);
/* The device of the vector or cache with this name; looked_up: only single rows of it are read. */
int ft_split_side(const ft_split_rule *r, const char *tensor, bool looked_up);
/* The device of the matrix with this name: the same, with the overrides. Matrices that one op reads
 * (gate and up, the experts of a layer) are together: a match of one is a match of all. */
int ft_split_matrix_side(const ft_split_rule *r, const char *tensor, bool looked_up);

/* Whether the experts with this name are spread, and the number of E experts on a device, from
 * *first on. */
bool ft_split_spreads(const ft_split_rule *r, const char *tensor);
int ft_split_spread_range(const ft_split_rule *r, int E, int side, int *first);

/* Takes ownership of the n devices; the first one, the host, must be unified. */
ft_dev *ft_dev_split(ft_dev *const *dev, int n, const ft_split_rule *r);
/* One of the devices if d is split, else d: for a model that is on one device as a whole. */
ft_dev *ft_split_device(ft_dev *d, int side);
/* The device for such a model: the first that is not the host's and not of another process, or the
 * host. */
ft_dev *ft_split_local(ft_dev *d);
/* Their number; 1 if d is not split. */
int ft_split_count(const ft_dev *d);
/* Sets the placement from now on; does nothing if d is not split. */
void ft_split_set_rule(ft_dev *d, const ft_split_rule *r);

#endif
