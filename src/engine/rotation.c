#include "engine/rotation.h"

#include <stdbool.h>

/* Fewer responses run only if that gives this many times the tokens per second. */
static const double least_gain = 1.015;

static bool known(const ft_rotation *r, int n)
{
    return r->time[n].n >= FT_ROTATION_SAMPLES;
}

static double rate(const ft_rotation *r, int n)
{
    return n / r->time[n].seconds;
}

/* The next smaller number that may run instead of n; 0: it would leave out more than a quarter. */
static int fewer(int of, int n)
{
    const int m = (of - 1) / FT_ROTATION_TILE * FT_ROTATION_TILE;
    return 4 * m >= 3 * n ? m : 0;
}

int ft_rotation_choose(ft_rotation *r, int n)
{
    if (n > FT_ROTATION_ROWS || !fewer(n, n) || !known(r, n)) return n;
    const unsigned step = ++r->steps;
    int best = n;
    for (int m = fewer(n, n); m; m = fewer(m, n)) {
        if (!known(r, m)) {
            if (step % FT_ROTATION_APART == 0) return m;
        } else if (rate(r, m) > rate(r, best) * (best == n ? least_gain : 1)) {
            best = m;
        }
    }
    if (step % FT_ROTATION_AGAIN == 0) return best == n ? fewer(n, n) : n;
    return best;
}

void ft_rotation_timed(ft_rotation *r, int n, double seconds)
{
    if (n < 1 || n > FT_ROTATION_ROWS) return;
    ft_rotation_time *t = &r->time[n];
    if (!t->n || seconds < t->seconds)
        t->seconds = seconds;
    else
        t->seconds += (seconds - t->seconds) / 16; /* contexts grow */
    if (t->n < FT_ROTATION_SAMPLES) t->n++;
}
