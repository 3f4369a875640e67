/* engine/prefill_budget.c - how much of a prompt a step may read while responses wait for their
 * next token. */
#include "base/mem.h"
#include "engine/slot.h"

#include <limits.h>

/* A step with a prompt may take this many times as long as one without: responses then still come
 * at a prefill that a reader does not notice. */
static const double slower = 2.5;

void ft_engine_limit_step(ft_engine *e, double ms)
{
    e->prefill = (ft_prefill_budget){.limit_s = ms * 1e-3};
}

int ft_prefill_rows(const ft_engine *e, int responses)
{
    const ft_prefill_budget *p = &e->prefill;
    if (!responses || p->limit_s <= 0) return INT_MAX;
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

void ft_prefill_record(ft_engine *e, int responses, double seconds)
{
    ft_prefill_budget *p = &e->prefill;
    if (!p->rows && responses) follow(&p->plain_s, seconds);
    if (p->rows < FT_CHUNK_ROWS / 2) return; /* too few to tell */
    const double prompt = seconds - (responses ? p->plain_s : 0);
    if (prompt > 0) follow(&p->row_s, prompt / p->rows);
}
