/* cli/plot.h - a line chart as an SVG file. */
#ifndef FT_CLI_PLOT_H
#define FT_CLI_PLOT_H

#include "base/err.h"

enum { FT_PLOT_LINES = 8, FT_PLOT_X = 32 };

typedef struct ft_plot_line {
    const char *name;
    double y[FT_PLOT_X]; /* at x = 0, 1, 2, ... */
    double mark;         /* one more value, as a dashed line; 0: none */
} ft_plot_line;

typedef struct ft_plot {
    const char *title;
    int n_x, n_line;
    const int *x_name; /* labels of x = 0, 1, 2, ...; NULL: these numbers */
    ft_plot_line line[FT_PLOT_LINES];
} ft_plot;

ft_status ft_plot_write(const ft_plot *p, const char *path, ft_err *err);

#endif
