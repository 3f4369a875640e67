/* quant/grids.h - the codebooks of the IQ1, IQ2 and IQ3 types. They are part of the file format: a
 * block stores an index, and the table has the 4 or 8 magnitudes of this entry. An entry packs one
 * small code per value, first value lowest; the code selects one of the few magnitudes that occur
 * in that table. */
#ifndef FT_QUANT_GRIDS_H
#define FT_QUANT_GRIDS_H

#include <stdint.h>

extern const uint16_t ft_grid_iq2xxs[256]; /* 8 codes of 2 bits */
extern const uint16_t ft_grid_iq2xs[512];
extern const uint16_t ft_grid_iq2s[1024];
extern const uint16_t ft_grid_iq3xxs[256]; /* 4 codes of 3 bits */
extern const uint16_t ft_grid_iq3s[512];
extern const uint16_t ft_grid_iq1s[2048]; /* 8 codes of 2 bits */

static inline int ft_grid_iq2_value(uint16_t entry, int j)
{
    static const uint8_t magnitude[4] = {8, 25, 43, 0};
    return magnitude[entry >> 2 * j & 3];
}

static inline int ft_grid_iq3xxs_value(uint16_t entry, int j)
{
    static const uint8_t magnitude[8] = {4, 12, 20, 28, 36, 44, 52, 62};
    return magnitude[entry >> 3 * j & 7];
}

static inline int ft_grid_iq3s_value(uint16_t entry, int j)
{
    return 2 * (entry >> 3 * j & 7) + 1;
}

static inline int ft_grid_iq1s_value(uint16_t entry, int j)
{
    return (entry >> 2 * j & 3) - 1;
}

#endif
