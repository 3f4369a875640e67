/* tools/synth_blocks.h - random blocks of any type, made at once rather than encoded.
 * A tile is a few MB of blocks with random quants and patched scales. Its number of blocks is a
 * prime, so that the rows of a matrix cut from it step and step all differ. */
#ifndef FT_TOOLS_SYNTH_BLOCKS_H
#define FT_TOOLS_SYNTH_BLOCKS_H

#include "base/type.h"

typedef struct ft_tile {
    ft_type type;
    double deviation;
    unsigned char *data;
    size_t blocks, bytes;
} ft_tile;

/* Blocks whose values have mean 0 and about this deviation. about: bytes wanted. */
void ft_tile_init(ft_tile *t, ft_type type, double deviation, size_t about, uint64_t seed);
void ft_tile_release(ft_tile *t);

/* Can random blocks of this type be made? */
bool ft_tile_can(ft_type type);

#endif
