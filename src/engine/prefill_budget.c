/* engine/prefill_budget.c - how much of a prompt a step may read while responses wait for their
 * next token. */
#include "base/mem.h"
#include "engine/slot.h"

#include <limits.h>
#include <math.h>

/* A step with a prompt may take this many times as long as one without: responses then still come
 * at a prefill that a reader does not notice. */
static const double slower = 2.5;

void ft_engine_limit_step(ft_engine *e, double ms)
{
    e->prefill = (ft_prefill_budget){.limit_s = ms * 1e-3};
}

/* What a step may take beyond the rows of its responses. */
static double spare_time(const ft_prefill_budget *p)
{
    double limit = p->limit_s;
    if (p->plain_s > 0) limit = FT_MIN(limit, slower * p->plain_s);
    return limit - p->plain_s - p->images_s;
}

int ft_prefill_rows(const ft_engine *e, int responses)
{
    const ft_prefill_budget *p = &e->prefill;
    const int least = p->images_s > 0 ? 0 : FT_CHUNK_ROWS;
    if (!responses || p->limit_s <= 0) return INT_MAX;
    if (p->row_s <= 0) return least; /* to learn what it takes */
    const double n = spare_time(p) / p->row_s;
    return n < FT_CHUNK_ROWS ? least : n > 1e6 ? INT_MAX : (int)n;
}

double ft_prefill_image_time(const ft_engine *e, int responses)
{
    return !responses || e->prefill.limit_s <= 0 ? HUGE_VAL : FT_MAX(0, spare_time(&e->prefill));
}

/* Follows what is measured, quickly at first. */
static void follow(double *to, double x)
{
    *to += *to > 0 ? 0.2 * (x - *to) : x;
}

void ft_prefill_record(ft_engine *e, int responses, double seconds)
{
    ft_prefill_budget *p = &e->prefill;
    seconds -= p->images_s;
    if (!p->rows && responses) follow(&p->plain_s, seconds);
    if (p->rows < FT_CHUNK_ROWS / 2) return; /* too few to tell */
    const double prompt = seconds - (responses ? p->plain_s : 0);
    if (prompt > 0) follow(&p->row_s, prompt / p->rows);
}
