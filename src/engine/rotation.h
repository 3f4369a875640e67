/* engine/rotation.h - how many responses run in one step. Devices compute rows in tiles, so that
 * one response more can make a step longer than it is worth: 65 sequences of a 27B model took 16 %
 * longer than 64 on an H200. Then fewer run in each step, in rotation: all of them together get
 * more tokens per second, and each of them misses one step in many. The ids of a response do not
 * depend on it. */
#ifndef FT_ENGINE_ROTATION_H
#define FT_ENGINE_ROTATION_H

enum {
    FT_ROTATION_ROWS = 256,   /* of more responses, all run */
    FT_ROTATION_TILE = 16,    /* fewer than all means a multiple of this */
    FT_ROTATION_SAMPLES = 4,  /* steps of a size before its time is compared */
    FT_ROTATION_APART = 32,   /* steps between two that measure a size for the first time */
    FT_ROTATION_AGAIN = 1024, /* steps after which sizes that are not used are measured again */
};

/* Steps that have one row for each response, by their number. */
typedef struct ft_rotation_time {
    double seconds; /* near the shortest time: what other processes take does not count */
    unsigned n;
} ft_rotation_time;

typedef struct ft_rotation {
    ft_rotation_time time[FT_ROTATION_ROWS + 1];
    unsigned steps; /* that could have fewer responses */
    int first;      /* the slot that is considered first in this step */
} ft_rotation;

/* How many of n responses run in this step. */
int ft_rotation_choose(ft_rotation *r, int n);
void ft_rotation_timed(ft_rotation *r, int n, double seconds);

#endif
