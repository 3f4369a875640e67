/* quant/turbo.h - TurboQuant rows: the cache encodings turbo2, turbo3 and turbo4.
 *
 * A row of d values is cut into groups of 128 or 64. A group is divided by its norm and turned by a
 * fixed orthogonal transform (signs, Walsh-Hadamard, signs), after which every coordinate looks
 * like the same Gaussian: one codebook fits all. Stored are one f16 scale, which keeps the norm
 * exact, and the codes.
 *
 * Decoding stops in the turned basis: the transform keeps products, so keys are compared with a
 * turned query, and a sum of turned values is turned back once. A row whose size is no multiple of
 * 64 is padded with zeros; the turned basis has the padded width. */
#ifndef FT_QUANT_TURBO_H
#define FT_QUANT_TURBO_H

#include <stddef.h>
#include <stdint.h>

typedef enum ft_turbo {
    FT_TURBO2,
    FT_TURBO3,
    FT_TURBO3_REVISED, /* the Lloyd-Max table; as good as the plain one, other bytes */
    FT_TURBO4,
    FT_TURBO4_LEGACY, /* a table 0.6 times too narrow, with twice the error, as older forks have it
                       */
    FT_TURBO_MAX,
} ft_turbo;

typedef struct ft_turbo_format {
    int bits;           /* of a code */
    int head;           /* bytes in front of the codes: the scale first */
    float value[16];    /* what a code stands for, ascending */
    float threshold[8]; /* the non-negative ones; a value equal to one belongs above it */
    int8_t small[16];   /* the codebook in whole numbers, so that ... */
    float step;         /* ... value is about small times step */
} ft_turbo_format;

const ft_turbo_format *ft_turbo_of(ft_turbo t);

int ft_turbo_group(int d); /* values of a group: 64 or 128 */
int ft_turbo_width(int d); /* d, padded */
size_t ft_turbo_group_bytes(ft_turbo t, int group);
size_t ft_turbo_row_bytes(ft_turbo t, int d);

/* The turn of a group by its parts, for devices that do it themselves: which values change their
 * sign before and after the transform (bit i of four words), and the factor. */
const uint32_t *ft_turbo_signs(int after);
float ft_turbo_root(int group);

/* y[ft_turbo_width(d)] = x[d] turned. y may be x where nothing is padded. */
void ft_turbo_turn(float *y, const float *x, int d);
/* The way back: x[d] from y[ft_turbo_width(d)], which is destroyed unless it is x. */
void ft_turbo_turn_back(float *x, float *y, int d);

/* Values that are not finite count as zero. dst and src may be unaligned. */
void ft_turbo_encode(ft_turbo t, void *dst, const float *x, int d);
/* y[ft_turbo_width(d)], turned */
void ft_turbo_decode(ft_turbo t, float *y, const void *src, int d);

#endif
