/* cli/plot.h - line charts and bar charts as SVG files, readable on light and dark pages. */
#ifndef FT_CLI_PLOT_H
#define FT_CLI_PLOT_H

#include "base/err.h"

enum { FT_PLOT_LINES = 8, FT_PLOT_X = 32, FT_BARS_SERIES = 4, FT_BARS_GROUPS = 16 };

typedef struct ft_plot_line {
    const char *name;
    double y[FT_PLOT_X]; /* at x = 0, 1, 2, ... */
    double mark;         /* one more value, as a dashed line; 0: none */
} ft_plot_line;

typedef struct ft_plot {
    const char *title;
    int n_x, n_line;
    const int *x_name; /* labels below x = 0, 1, 2, ...; NULL: these numbers */
    ft_plot_line line[FT_PLOT_LINES];
} ft_plot;

ft_status ft_plot_write(const ft_plot *p, const char *path, ft_err *err);

/* Horizontal bars in groups: one label per group, one bar per series below it. */
typedef struct ft_bars {
    const char *title, *unit;
    int n_group, n_series;
    const char *group[FT_BARS_GROUPS];
    const char *series[FT_BARS_SERIES];
    double value[FT_BARS_GROUPS][FT_BARS_SERIES]; /* below 0: no bar */
} ft_bars;

ft_status ft_bars_write(const ft_bars *b, const char *path, ft_err *err);

#endif
