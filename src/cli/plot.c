#include "cli/plot.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"

enum { W = 720, H = 420, LEFT = 70, RIGHT = 130, TOP = 40, BOTTOM = 50 };

static const char *const colour[FT_PLOT_LINES] = {"#1b6ca8", "#c0392b", "#27834a", "#8e44ad",
                                                  "#b9770e", "#16848c", "#7f3f1f", "#555555"};

static double x_of(const ft_plot *p, double x)
{
    return LEFT + (W - LEFT - RIGHT) * x / FT_MAX(1, p->n_x - 1);
}

static double y_of(double y, double top)
{
    return H - BOTTOM - (H - TOP - BOTTOM) * y / top;
}

/* The largest value, rounded up to 1, 2 or 5 times a power of ten. */
static double top_of(const ft_plot *p)
{
    double top = 0, step = 1;
    for (int l = 0; l < p->n_line; l++) {
        top = FT_MAX(top, p->line[l].mark);
        for (int x = 0; x < p->n_x; x++) top = FT_MAX(top, p->line[l].y[x]);
    }
    while (step * 10 <= top) step *= 10;
    return top <= step ? step : top <= 2 * step ? 2 * step : top <= 5 * step ? 5 * step : 10 * step;
}

static void axes(ft_buf *b, const ft_plot *p, double top)
{
    for (int i = 0; i <= 5; i++) {
        const double v = top * i / 5, y = y_of(v, top);
        ft_buf_printf(b, "<line x1='%d' y1='%.1f' x2='%d' y2='%.1f' stroke='#ddd'/>\n", LEFT, y,
                      W - RIGHT, y);
        ft_buf_printf(b, "<text x='%d' y='%.1f' text-anchor='end'>%.0f</text>\n", LEFT - 8, y + 4,
                      v);
    }
    for (int x = 0; x < p->n_x; x++)
        ft_buf_printf(b, "<text x='%.1f' y='%d' text-anchor='middle'>%d</text>\n", x_of(p, x),
                      H - BOTTOM + 20, p->x_name ? p->x_name[x] : x);
}

static void line(ft_buf *b, const ft_plot *p, int i, double top)
{
    const ft_plot_line *l = &p->line[i];
    ft_buf_printf(b, "<polyline fill='none' stroke='%s' stroke-width='2' points='", colour[i]);
    for (int x = 0; x < p->n_x; x++) ft_buf_printf(b, "%.1f,%.1f ", x_of(p, x), y_of(l->y[x], top));
    ft_buf_printf(b, "'/>\n<text x='%d' y='%.1f' fill='%s'>%s</text>\n", W - RIGHT + 10,
                  y_of(l->y[p->n_x - 1], top) + 4, colour[i], l->name);
    if (l->mark > 0)
        ft_buf_printf(b,
                      "<line x1='%d' y1='%.1f' x2='%d' y2='%.1f' stroke='%s' "
                      "stroke-dasharray='3 4'/>\n",
                      LEFT, y_of(l->mark, top), W - RIGHT, y_of(l->mark, top), colour[i]);
}

ft_status ft_plot_write(const ft_plot *p, const char *path, ft_err *err)
{
    ft_buf b;
    ft_out_file *out;
    const double top = top_of(p);
    ft_buf_init(&b, 1 << 20);
    ft_buf_printf(&b,
                  "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' "
                  "font-family='sans-serif' font-size='12'>\n"
                  "<rect width='100%%' height='100%%' fill='white'/>\n"
                  "<text x='%d' y='22' font-size='14'>%s</text>\n",
                  W, H, LEFT, p->title);
    axes(&b, p, top);
    for (int i = 0; i < p->n_line; i++) line(&b, p, i, top);
    ft_buf_puts(&b, "</svg>\n");
    ft_status st = ft_out_open(&out, path, err);
    if (!st) {
        ft_out_write(out, b.data, b.len);
        st = ft_out_commit(out, err);
    }
    ft_buf_release(&b);
    return st;
}
