#include "engine/governor_times.h"

#include "base/mem.h"

/* Assumed cost of a row beyond all timed sizes, as a share of the step. */
static const double row_share = 0.05;

int ft_times_size(int rows)
{
    const int wide = (FT_MAX(rows - FT_GOV_ROWS, 0) + FT_GOV_WIDE - 1) / FT_GOV_WIDE;
    return FT_MIN(FT_MIN(rows, FT_GOV_ROWS) + wide, FT_GOV_SIZES - 1);
}

int ft_times_rows(const ft_gov_times *table, int size)
{
    const int most = size + FT_MAX(size - FT_GOV_ROWS, 0) * (FT_GOV_WIDE - 1);
    return FT_MAX(most, table[size].rows);
}

/* A class that is timed for the first time becomes the nearest one of those around it. */
static void link_size(ft_gov_times *table, int size)
{
    if (!ft_times_first(table) || size < table[0].n) table[0].n = (uint8_t)size;
    if (size > ft_times_last(table)) table[0].at = (uint8_t)size;
    for (int i = size; i < FT_GOV_SIZES && table[i].below < size; i++)
        table[i].below = (uint8_t)size;
    for (int i = size; i > 0 && (!table[i].above || table[i].above > size); i--)
        table[i].above = (uint8_t)size;
}

void ft_times_put(ft_gov_times *table, int rows, double seconds)
{
    const int size = ft_times_size(rows);
    ft_gov_times *t = &table[size];
    if (!t->n) link_size(table, size);
    t->sample[t->at] = (float)seconds;
    t->at = (uint8_t)((t->at + 1) % FT_GOV_SAMPLES);
    t->rows = (int16_t)FT_MIN(rows, INT16_MAX);
    if (t->n < FT_GOV_SAMPLES) t->n++;
    t->least = t->sample[0];
    for (int i = 1; i < t->n; i++) t->least = FT_MIN(t->least, t->sample[i]);
}

double ft_times_of(const ft_gov_times *table, int rows)
{
    const int size = ft_times_size(rows);
    const ft_gov_times *lo = &table[table[size].below], *hi = &table[table[size].above];
    if (lo == table) return hi == table ? 0 : (double)hi->least * rows / hi->rows;
    const double a = (double)lo->least;
    if (lo == &table[size]) return a;
    if (hi == table) return a * (1 + row_share * (rows - lo->rows));
    return a + ((double)hi->least - a) * (rows - lo->rows) / (hi->rows - lo->rows);
}

double ft_times_about(const ft_gov_times *table, double rows)
{
    const int lo = (int)rows;
    const double a = ft_times_of(table, lo);
    return rows > lo ? a + (rows - lo) * (ft_times_of(table, lo + 1) - a) : a;
}

bool ft_times_any(const ft_gov_times *table, int lo, int hi)
{
    const int last = ft_times_size(hi);
    int i = table[FT_MAX(1, ft_times_size(lo))].above;
    while (i && i <= last && table[i].n < 3) i = ft_times_next(table, i);
    return i && i <= last;
}

/* A similar size was timed, or sizes not far away on both sides. Small steps must be timed
 * themselves, because extra rows may be free. */
bool ft_times_known(const ft_gov_times *table, int rows)
{
    if (ft_times_any(table, rows - rows / 8, rows + rows / 8)) return true;
    return rows > 8 && ft_times_any(table, rows / 2, rows) && ft_times_any(table, rows, 2 * rows);
}

double ft_times_slope(const ft_gov_times *table)
{
    const ft_gov_times *lo = &table[ft_times_first(table)], *hi = &table[ft_times_last(table)];
    if (!ft_times_first(table) || 2 * hi->rows < 3 * lo->rows) return -1;
    return FT_MAX(0.0, (double)hi->least - (double)lo->least) / (hi->rows - lo->rows);
}
