/* engine/preempt.c - preemption: when the pages of the cache run out, a sequence waits with what it
 * has in host memory: first one whose reader is behind, then the latest to arrive. No sequence
 * loses a request, nor a bit of it, for want of pages; only one that is alone and still does not
 * fit ends. A paused sequence keeps nobody else from pages: it is moved out when they are needed,
 * and comes back when its reader has caught up. */
#include "base/mem.h"
#include "engine/slot.h"

static bool busy(const ft_slot *s)
{
    return s->state >= SLOT_PREFILL && !s->swapped;
}

/* Cells that a slot holds only in case that it is asked to go on. */
static bool drop_idle(ft_engine *e, const ft_slot *but)
{
    for (int i = 0; i < e->p.slots; i++) {
        ft_slot *s = &e->slot[i];
        if (s == but || s->state != SLOT_IDLE || !ft_seq_pages(s->seq)) continue;
        ft_seq_rewind(s->seq, 0);
        s->head.fed = 0;
        return true;
    }
    return false;
}

/* The latest to arrive that has no rows in this step. */
static ft_slot *latest(ft_engine *e)
{
    ft_slot *last = NULL;
    for (int i = 0; i < e->p.slots; i++) {
        ft_slot *s = &e->slot[i];
        if (busy(s) && !s->rows.n && ft_seq_pages(s->seq) && (!last || s->arrival > last->arrival))
            last = s;
    }
    return last;
}

static bool others(const ft_engine *e, const ft_slot *but)
{
    for (int i = 0; i < e->p.slots; i++)
        if (&e->slot[i] != but && busy(&e->slot[i])) return true;
    return false;
}

static bool swap_out(ft_slot *s)
{
    s->swapped = ft_seq_swap_out(s->seq);
    s->e->preempted += s->swapped != NULL;
    return s->swapped != NULL;
}

/* Moves out a sequence that is paused. */
static bool park_paused(ft_engine *e, const ft_slot *but)
{
    for (int i = 0; i < e->p.slots; i++) {
        ft_slot *s = &e->slot[i];
        if (s != but && s->paused && busy(s) && !s->rows.n && ft_seq_pages(s->seq) && swap_out(s))
            return true;
    }
    return false;
}

void ft_preempt_idle(ft_slot *s, int cells)
{
    const int pages = cells / FT_PAGE_ROWS + 2;
    while (ft_cache_free_pages(s->e->cache) + ft_seq_pages(s->seq) < pages && drop_idle(s->e, s)) {
    }
}

bool ft_preempt_reserve(ft_slot *s, int n)
{
    ft_engine *e = s->e;
    while (!ft_seq_reserve(s->seq, n)) {
        if (n > e->p.ctx - slot_len(s)) return false;
        if (drop_idle(e, NULL) || park_paused(e, s)) continue;
        ft_slot *last = latest(e);
        if (last && last != s && last->arrival > s->arrival && swap_out(last)) continue;
        /* Older ones go first; without any there is nothing to wait for. */
        if (!others(e, s))
            ft_slot_end(s, FT_FINISH_CONTEXT);
        else if (ft_seq_pages(s->seq) && !swap_out(s))
            ft_slot_end(s, FT_FINISH_CONTEXT);
        return false;
    }
    return true;
}

void ft_preempt_restore(ft_engine *e)
{
    for (;;) {
        ft_slot *first = NULL;
        for (int i = 0; i < e->p.slots; i++) {
            ft_slot *s = &e->slot[i];
            if (s->swapped && !s->paused && (!first || s->arrival < first->arrival)) first = s;
        }
        if (!first) return;
        /* Not before a few steps of everyone's would fit, lest it leaves again at once. */
        int want = 1;
        for (int i = 0; i < e->p.slots; i++) want += busy(&e->slot[i]);
        const int pages = ft_swapped_pages(first->swapped) + want;
        while (ft_cache_free_pages(e->cache) < pages &&
               (drop_idle(e, NULL) || park_paused(e, first))) {
        }
        if (others(e, first) && ft_cache_free_pages(e->cache) < pages) return;
        if (!ft_seq_swap_in(first->seq, first->swapped)) return;
        first->swapped = NULL;
    }
}

bool ft_engine_can_admit(const ft_engine *e, const ft_task *t)
{
    int64_t have = ft_cache_free_pages(e->cache), want = 0;
    bool any = false;
    for (int i = 0; i < e->p.slots; i++) {
        const ft_slot *s = &e->slot[i];
        if (s->paused && s->state >= SLOT_PREFILL) { /* moved out when its pages are needed */
            have += s->swapped ? 0 : ft_seq_pages(s->seq);
            continue;
        }
        if (s->swapped) return false;
        if (s->state == SLOT_IDLE) have += ft_seq_pages(s->seq);
        if (s->state == SLOT_PREFILL)
            want += s->task.n_prompt / FT_PAGE_ROWS - ft_seq_pages(s->seq);
        if (busy(s)) want += 2; /* a response grows */
        any |= busy(s);
    }
    return !any || have - want >= t->n_prompt / FT_PAGE_ROWS + 2;
}
