/* engine/pace.c - how much of a prompt a round may read while replies wait for their next token. */
#include "base/mem.h"
#include "engine/lane.h"

#include <limits.h>

/* A round with a prompt may take this many times as long as one without: replies then still come at
 * a pace that a reader does not notice. */
static const double slower = 2.5;

void ft_engine_pace(ft_engine *e, double ms)
{
    e->pace = (ft_pace){.limit_s = ms * 1e-3};
}

int ft_pace_rows(const ft_engine *e, int replies)
{
    const ft_pace *p = &e->pace;
    if (!replies || p->limit_s <= 0) return INT_MAX;
    if (p->row_s <= 0) return FT_CHUNK_ROWS; /* to learn what it takes */
    double limit = p->limit_s;
    if (p->plain_s > 0) limit = FT_MIN(limit, slower * p->plain_s);
    const double n = (limit - p->plain_s) / p->row_s;
    return n < FT_CHUNK_ROWS ? FT_CHUNK_ROWS : n > 1e6 ? INT_MAX : (int)n;
}

/* Follows what is measured, quickly at first. */
static void follow(double *to, double x)
{
    *to += *to > 0 ? 0.2 * (x - *to) : x;
}

void ft_pace_round(ft_engine *e, int replies, double seconds)
{
    ft_pace *p = &e->pace;
    if (!p->rows && replies) follow(&p->plain_s, seconds);
    if (p->rows < FT_CHUNK_ROWS / 2) return; /* too few to tell */
    const double prompt = seconds - (replies ? p->plain_s : 0);
    if (prompt > 0) follow(&p->row_s, prompt / p->rows);
}
