/* engine/governor_times.h - times of passes by their number of rows. A table has one element per
 * class of sizes. Choices read times far more often than steps write them, so that reading one
 * takes no search. */
#ifndef FT_ENGINE_GOVERNOR_TIMES_H
#define FT_ENGINE_GOVERNOR_TIMES_H

#include "base/err.h"

enum {
    FT_GOV_ROWS = 64,  /* steps of up to this many rows have a class each ... */
    FT_GOV_WIDE = 32,  /* ... and larger ones are grouped by this many */
    FT_GOV_SIZES = 96, /* classes of step sizes: up to 1,056 rows */
    FT_GOV_SAMPLES = 8,
};

typedef struct ft_gov_times {
    float sample[FT_GOV_SAMPLES];
    float least; /* the shortest sample: disturbances only make a pass longer */
    uint8_t n, at;
    int16_t rows;         /* of the last sample */
    uint8_t below, above; /* the nearest timed classes, or this one; 0: none */
} ft_gov_times;

/* The smallest and the largest class that was timed; 0: none was. The first element of a table, a
 * class that no step has, holds them. */
static inline int ft_times_first(const ft_gov_times *table)
{
    return table[0].n;
}

static inline int ft_times_last(const ft_gov_times *table)
{
    return table[0].at;
}

/* The next timed class after this one; 0: none. */
static inline int ft_times_next(const ft_gov_times *table, int size)
{
    return size < ft_times_last(table) ? table[size + 1].above : 0;
}

int ft_times_size(int rows); /* the class of steps with this many rows */
/* The largest number of rows in a class, or in its last sample: the last class has no bound. */
int ft_times_rows(const ft_gov_times *table, int size);
void ft_times_put(ft_gov_times *table, int rows, double seconds);
/* Seconds of a pass with this many rows: measured, or interpolated between measured neighbours;
 * below the smallest one, proportional to the rows. Then the same where the number of rows is an
 * average. */
double ft_times_of(const ft_gov_times *table, int rows);
double ft_times_about(const ft_gov_times *table, double rows);
/* Whether any size from `lo` to `hi` rows was timed. */
bool ft_times_any(const ft_gov_times *table, int lo, int hi);
/* Whether the time of this many rows is known well enough. */
bool ft_times_known(const ft_gov_times *table, int rows);
/* Seconds per row between the smallest and the largest timed size; < 0: they are too similar. */
double ft_times_slope(const ft_gov_times *table);

#endif
