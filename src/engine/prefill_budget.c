/* engine/prefill_budget.c - how much of a prompt a step may read while responses wait for their
 * next token. */
#include "base/mem.h"
#include "engine/slot.h"

#include <limits.h>
#include <math.h>

/* Each prompt that waits may add this many times the duration of a step without prompts: with one
 * prompt readers hardly notice it, and with many none of them waits long for its first token. */
static const double per_prompt = 1.5;

void ft_engine_limit_step(ft_engine *e, double ms)
{
    e->prefill = (ft_prefill_budget){.limit_s = ms * 1e-3};
}

static int waiting_prompts(const ft_engine *e)
{
    int n = 0;
    for (int i = 0; i < e->p.slots; i++)
        n += e->slot[i].state == SLOT_PREFILL && !e->slot[i].swapped;
    return n;
}

/* The time of a step with so many response rows and no prompt. While every step has prompts, that
 * is not measured: the rows' share of such steps is the least it can be. */
static double plain_time(const ft_prefill_budget *p, int rows)
{
    return FT_MAX(p->plain_s, rows * p->row_s);
}

/* What a step may take. */
static double step_time(const ft_engine *e, double plain)
{
    const ft_prefill_budget *p = &e->prefill;
    if (plain <= 0) return p->limit_s;
    return FT_MIN(p->limit_s, plain * (1 + per_prompt * waiting_prompts(e)));
}

int ft_prefill_rows(const ft_engine *e, int response_rows)
{
    const ft_prefill_budget *p = &e->prefill;
    const int least = p->images_s > 0 ? 0 : FT_CHUNK_ROWS;
    if (!response_rows || p->limit_s <= 0) return INT_MAX;
    if (p->row_s <= 0) return least; /* to learn what it takes */
    const double left = step_time(e, plain_time(p, response_rows)) - p->images_s;
    const double n = left / p->row_s - response_rows;
    return n < FT_CHUNK_ROWS ? least : n > 1e6 ? INT_MAX : (int)n;
}

double ft_prefill_image_time(const ft_engine *e, int responses)
{
    const ft_prefill_budget *p = &e->prefill;
    if (!responses || p->limit_s <= 0) return HUGE_VAL;
    return FT_MAX(0, step_time(e, p->plain_s) - p->plain_s);
}

/* Follows what is measured, quickly at first. */
static void follow(double *to, double x)
{
    *to += *to > 0 ? 0.2 * (x - *to) : x;
}

void ft_prefill_record(ft_engine *e, int response_rows, double seconds)
{
    ft_prefill_budget *p = &e->prefill;
    seconds -= p->images_s;
    if (!response_rows) return;
    if (!p->rows) follow(&p->plain_s, seconds);
    if (p->rows >= FT_CHUNK_ROWS / 2) follow(&p->row_s, seconds / (p->rows + response_rows));
}
