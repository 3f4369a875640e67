/* tools/synth_blocks.h - generates random blocks of any type directly, without encoding.
 * A tile is a few MB of blocks with random quants and computed scales. Its number of blocks is a
 * prime, so that the rows of a matrix that repeats the tile are all different. */
#ifndef FT_TOOLS_SYNTH_BLOCKS_H
#define FT_TOOLS_SYNTH_BLOCKS_H

#include "base/type.h"

typedef struct ft_tile {
    ft_type type;
    double deviation;
    unsigned char *data;
    size_t blocks, bytes;
} ft_tile;

/* Makes blocks whose values have mean 0 and about this standard deviation; about: approximate size
 * in bytes. */
void ft_tile_init(ft_tile *t, ft_type type, double deviation, size_t about, uint64_t seed);
void ft_tile_release(ft_tile *t);

/* true when random blocks of this type can be generated. */
bool ft_tile_can(ft_type type);

#endif
