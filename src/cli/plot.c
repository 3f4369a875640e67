#include "cli/plot.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

enum { W = 720, H = 420, LEFT = 70, RIGHT = 130, TOP = 40, BOTTOM = 50 };
enum { BAR = 16, GAP = 3, GROUP = 40, BAR_LEFT = 20, BAR_RIGHT = 90, HEAD = 64 };

/* Colours are classes, so that a page with a dark background gets lighter ones. */
static const char *const STYLE =
    "<style>\n"
    ".t { fill: #24292f } .grid { stroke: #d0d7de }\n"
    ".c0 { fill: #8c959f } .c1 { fill: #1b6ca8 } .c2 { fill: #27834a } .c3 { fill: #b9770e }\n"
    ".c4 { fill: #8e44ad } .c5 { fill: #16848c } .c6 { fill: #c0392b } .c7 { fill: #7f3f1f }\n"
    ".l0 { stroke: #8c959f } .l1 { stroke: #1b6ca8 } .l2 { stroke: #27834a } .l3 { stroke: #b9770e "
    "}\n"
    ".l4 { stroke: #8e44ad } .l5 { stroke: #16848c } .l6 { stroke: #c0392b } .l7 { stroke: #7f3f1f "
    "}\n"
    "@media (prefers-color-scheme: dark) {\n"
    ".t { fill: #d0d7de } .grid { stroke: #444c56 }\n"
    ".c1 { fill: #539bf5 } .c2 { fill: #57ab5a } .c3 { fill: #d4a72c } .c4 { fill: #b083f0 }\n"
    ".l1 { stroke: #539bf5 } .l2 { stroke: #57ab5a } .l3 { stroke: #d4a72c } .l4 { stroke: #b083f0 "
    "}\n"
    "}\n</style>\n";

static void put_escaped(ft_buf *b, const char *s)
{
    for (; *s; s++) {
        if (*s == '<')
            ft_buf_puts(b, "&lt;");
        else if (*s == '>')
            ft_buf_puts(b, "&gt;");
        else if (*s == '&')
            ft_buf_puts(b, "&amp;");
        else
            ft_buf_printf(b, "%c", *s);
    }
}

/* `class`: "t" for plain text, "c1" for the colour of series 1. */
static void put_text(ft_buf *b, double x, double y, const char *class, const char *anchor,
                     const char *text)
{
    ft_buf_printf(b, "<text class='%s' x='%.1f' y='%.1f' text-anchor='%s'>", class, x, y, anchor);
    put_escaped(b, text);
    ft_buf_puts(b, "</text>\n");
}

static void svg_begin(ft_buf *b, int height, const char *title)
{
    ft_buf_init(b, 1 << 20);
    ft_buf_printf(b,
                  "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' "
                  "viewBox='0 0 %d %d' font-family='sans-serif' font-size='12'>\n",
                  W, height, W, height);
    ft_buf_puts(b, STYLE);
    ft_buf_printf(b, "<g font-size='14' font-weight='bold'>\n");
    put_text(b, BAR_LEFT, 22, "t", "start", title);
    ft_buf_puts(b, "</g>\n");
}

static ft_status svg_end(ft_buf *b, const char *path, ft_err *err)
{
    ft_out_file *out;
    ft_buf_puts(b, "</svg>\n");
    ft_status st = ft_out_open(&out, path, err);
    if (!st) {
        ft_out_write(out, b->data, b->len);
        st = ft_out_commit(out, err);
    }
    ft_buf_release(b);
    return st;
}

/* The value rounded up to 1, 2 or 5 times a power of ten. */
static double round_up(double top)
{
    double step = 1;
    while (step * 10 <= top) step *= 10;
    return top <= step ? step : top <= 2 * step ? 2 * step : top <= 5 * step ? 5 * step : 10 * step;
}

/* ---- lines ---- */

static double x_of(const ft_plot *p, double x)
{
    return LEFT + (W - LEFT - RIGHT) * x / FT_MAX(1, p->n_x - 1);
}

static double y_of(double y, double top)
{
    return H - BOTTOM - (H - TOP - BOTTOM) * y / top;
}

static double top_of(const ft_plot *p)
{
    double top = 0;
    for (int l = 0; l < p->n_line; l++) {
        top = FT_MAX(top, p->line[l].mark);
        for (int x = 0; x < p->n_x; x++) top = FT_MAX(top, p->line[l].y[x]);
    }
    return round_up(top);
}

static void put_axes(ft_buf *b, const ft_plot *p, double top)
{
    char label[32];
    for (int i = 0; i <= 5; i++) {
        const double v = top * i / 5, y = y_of(v, top);
        ft_buf_printf(b, "<line class='grid' x1='%d' y1='%.1f' x2='%d' y2='%.1f'/>\n", LEFT, y,
                      W - RIGHT, y);
        snprintf(label, sizeof label, "%.0f", v);
        put_text(b, LEFT - 8, y + 4, "t", "end", label);
    }
    for (int x = 0; x < p->n_x; x++) {
        snprintf(label, sizeof label, "%d", p->x_name ? p->x_name[x] : x);
        put_text(b, x_of(p, x), H - BOTTOM + 20, "t", "middle", label);
    }
}

static void put_line(ft_buf *b, const ft_plot *p, int i, double top)
{
    const ft_plot_line *l = &p->line[i];
    char class[8];
    const int c = (i + 1) % FT_PLOT_LINES;
    snprintf(class, sizeof class, "c%d", c);
    ft_buf_printf(b, "<polyline class='l%d' fill='none' stroke-width='2' points='", c);
    for (int x = 0; x < p->n_x; x++) ft_buf_printf(b, "%.1f,%.1f ", x_of(p, x), y_of(l->y[x], top));
    ft_buf_puts(b, "'/>\n");
    put_text(b, W - RIGHT + 10, y_of(l->y[p->n_x - 1], top) + 4, class, "start", l->name);
    if (l->mark > 0)
        ft_buf_printf(b,
                      "<line class='l%d' x1='%d' y1='%.1f' x2='%d' y2='%.1f' "
                      "stroke-dasharray='3 4'/>\n",
                      c, LEFT, y_of(l->mark, top), W - RIGHT, y_of(l->mark, top));
}

ft_status ft_plot_write(const ft_plot *p, const char *path, ft_err *err)
{
    ft_buf b;
    const double top = top_of(p);
    svg_begin(&b, H, p->title);
    put_axes(&b, p, top);
    for (int i = 0; i < p->n_line; i++) put_line(&b, p, i, top);
    return svg_end(&b, path, err);
}

/* ---- bars ---- */

static void put_legend(ft_buf *b, const ft_bars *p)
{
    double x = BAR_LEFT;
    for (int s = 0; s < p->n_series; s++) {
        ft_buf_printf(b, "<rect class='c%d' x='%.1f' y='38' width='11' height='11'/>\n", s, x);
        put_text(b, x + 16, 48, "t", "start", p->series[s]);
        x += 34 + 6.6 * (double)strlen(p->series[s]);
    }
    put_text(b, W - BAR_LEFT, 48, "t", "end", p->unit);
}

static void put_group(ft_buf *b, const ft_bars *p, int g, double y, double top)
{
    put_text(b, BAR_LEFT, y + 12, "t", "start", p->group[g]);
    y += 18;
    for (int s = 0; s < p->n_series; s++, y += BAR + GAP) {
        const double v = p->value[g][s], w = (W - BAR_LEFT - BAR_RIGHT) * v / top;
        if (v < 0) continue;
        char label[32];
        snprintf(label, sizeof label, "%.4g", v);
        ft_buf_printf(b, "<rect class='c%d' x='%d' y='%.1f' width='%.1f' height='%d'/>\n", s,
                      BAR_LEFT, y, w, BAR);
        put_text(b, BAR_LEFT + w + 6, y + 12.5, "t", "start", label);
    }
}

ft_status ft_bars_write(const ft_bars *p, const char *path, ft_err *err)
{
    ft_buf b;
    double top = 0;
    const int step = GROUP - 12 + p->n_series * (BAR + GAP);
    for (int g = 0; g < p->n_group; g++)
        for (int s = 0; s < p->n_series; s++) top = FT_MAX(top, p->value[g][s]);
    svg_begin(&b, HEAD + p->n_group * step, p->title);
    put_legend(&b, p);
    for (int g = 0; g < p->n_group; g++) put_group(&b, p, g, HEAD + g * step, top > 0 ? top : 1);
    return svg_end(&b, path, err);
}
