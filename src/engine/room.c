/* engine/room.c - pages for everyone: when they run out, the latest to arrive waits with what it
 * has in host memory. A lane never loses a request, nor a bit of it, for want of pages; only one
 * that is alone and still does not fit ends. */
#include "base/mem.h"
#include "engine/lane.h"

static bool busy(const ft_lane *l)
{
    return l->state >= LANE_PROMPT && !l->parked;
}

/* Cells that a lane holds only in case that it is asked to go on. */
static bool drop_idle(ft_engine *e, const ft_lane *but)
{
    for (int i = 0; i < e->p.lanes; i++) {
        ft_lane *l = &e->lane[i];
        if (l == but || l->state != LANE_IDLE || !ft_seq_pages(l->seq)) continue;
        ft_seq_rewind(l->seq, 0);
        l->fed = 0;
        return true;
    }
    return false;
}

/* The latest to arrive that has no rows in this step. */
static ft_lane *latest(ft_engine *e)
{
    ft_lane *last = NULL;
    for (int i = 0; i < e->p.lanes; i++) {
        ft_lane *l = &e->lane[i];
        if (busy(l) && !l->n_rows && ft_seq_pages(l->seq) && (!last || l->arrival > last->arrival))
            last = l;
    }
    return last;
}

static bool others(const ft_engine *e, const ft_lane *but)
{
    for (int i = 0; i < e->p.lanes; i++)
        if (&e->lane[i] != but && busy(&e->lane[i])) return true;
    return false;
}

static bool park(ft_lane *l)
{
    l->parked = ft_seq_park(l->seq);
    l->e->preempted += l->parked != NULL;
    return l->parked != NULL;
}

void ft_room_idle(ft_lane *l, int cells)
{
    const int pages = cells / FT_PAGE_ROWS + 2;
    while (ft_cache_free_pages(l->e->cache) + ft_seq_pages(l->seq) < pages && drop_idle(l->e, l)) {
    }
}

bool ft_room_for(ft_lane *l, int n)
{
    ft_engine *e = l->e;
    while (!ft_seq_reserve(l->seq, n)) {
        if (n > e->p.ctx - lane_len(l)) return false;
        if (drop_idle(e, NULL)) continue;
        ft_lane *last = latest(e);
        if (last && last != l && last->arrival > l->arrival && park(last)) continue;
        /* Older ones go first; without any there is nothing to wait for. */
        if (!others(e, l))
            ft_lane_end(l, FT_FINISH_CONTEXT);
        else if (ft_seq_pages(l->seq) && !park(l))
            ft_lane_end(l, FT_FINISH_CONTEXT);
        return false;
    }
    return true;
}

void ft_room_back(ft_engine *e)
{
    for (;;) {
        ft_lane *first = NULL;
        for (int i = 0; i < e->p.lanes; i++) {
            ft_lane *l = &e->lane[i];
            if (l->parked && (!first || l->arrival < first->arrival)) first = l;
        }
        if (!first) return;
        /* Not before a few rounds of everyone's would fit, lest it leaves again at once. */
        int want = 1;
        for (int i = 0; i < e->p.lanes; i++) want += busy(&e->lane[i]);
        const int pages = ft_parked_pages(first->parked) + want;
        while (ft_cache_free_pages(e->cache) < pages && drop_idle(e, NULL)) {
        }
        if (others(e, first) && ft_cache_free_pages(e->cache) < pages) return;
        if (!ft_seq_unpark(first->seq, first->parked)) return;
        first->parked = NULL;
    }
}

bool ft_engine_room(const ft_engine *e, const ft_task *t)
{
    int64_t have = ft_cache_free_pages(e->cache), want = 0;
    bool any = false;
    for (int i = 0; i < e->p.lanes; i++) {
        const ft_lane *l = &e->lane[i];
        if (l->parked) return false;
        if (l->state == LANE_IDLE) have += ft_seq_pages(l->seq);
        if (l->state == LANE_PROMPT) want += l->job.n_prompt / FT_PAGE_ROWS - ft_seq_pages(l->seq);
        if (busy(l)) want += 2; /* a reply grows */
        any |= busy(l);
    }
    return !any || have - want >= t->n_prompt / FT_PAGE_ROWS + 2;
}
