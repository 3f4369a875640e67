/* quant/turbo.h - TurboQuant rows: the KV cache encodings turbo2, turbo3 and turbo4.
 *
 * A row of d values is cut into groups of 128 or 64. A group is divided by its norm and transformed
 * by a fixed orthogonal transform (signs, Walsh-Hadamard, signs), after which every coordinate has
 * about the same Gaussian distribution: one codebook fits all. One f16 scale, which keeps the norm
 * exact, and the codes are stored.
 *
 * Decoding does not undo the transform: it preserves dot products, so keys are multiplied with a
 * transformed query, and a sum of transformed values is transformed back once. A row whose size is
 * not a multiple of 64 is padded with zeros; a decoded row has the padded width. */
#ifndef FT_QUANT_TURBO_H
#define FT_QUANT_TURBO_H

#include <stddef.h>
#include <stdint.h>

typedef enum ft_turbo {
    FT_TURBO2,
    FT_TURBO3,
    FT_TURBO3_REVISED, /* the Lloyd-Max table; as accurate as the plain one, but other bytes */
    FT_TURBO4,
    FT_TURBO4_LEGACY, /* a table that is too narrow by 0.6, with twice the error, for compatibility
                         with older forks */
    FT_TURBO_MAX,
} ft_turbo;

typedef struct ft_turbo_format {
    int bits;           /* per code */
    int head;           /* bytes in front of the codes: the scale first */
    float value[16];    /* value of each code, ascending */
    float threshold[8]; /* the non-negative ones; a value equal to a threshold belongs above it */
    int8_t small[16];   /* the codebook in integers, so that ... */
    float step;         /* ... value is about small times step */
} ft_turbo_format;

const ft_turbo_format *ft_turbo_of(ft_turbo t);

int ft_turbo_group(int d); /* values of a group: 64 or 128 */
int ft_turbo_width(int d); /* d, padded */
size_t ft_turbo_group_bytes(ft_turbo t, int group);
size_t ft_turbo_row_bytes(ft_turbo t, int d);

/* The parts of a group's transform, for devices that compute it themselves: which values change
 * their sign before and after the Walsh-Hadamard transform (bit i of four words), and the factor.
 */
const uint32_t *ft_turbo_signs(int after);
float ft_turbo_root(int group);

/* y[ft_turbo_width(d)] = transform of x[d]. y may be x if there is no padding. */
void ft_turbo_hadamard(float *y, const float *x, int d);
/* The inverse: x[d] from y[ft_turbo_width(d)], which is overwritten unless it is x. */
void ft_turbo_hadamard_inverse(float *x, float *y, int d);

/* Values that are not finite count as zero. dst and src may be unaligned. */
void ft_turbo_encode(ft_turbo t, void *dst, const float *x, int d);
/* y[ft_turbo_width(d)], transformed */
void ft_turbo_decode(ft_turbo t, float *y, const void *src, int d);

#endif
