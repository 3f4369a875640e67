/* dev/split_plan.c - captured steps of a split device. A device captures the ops between two copies
 * as one graph. The plan of a step lists these graphs and the copies between devices in order; what
 * the step reads of earlier steps, and on which device; and which bytes are valid where after it. A
 * later step of the same shape replays the plan: neither the model's code nor an op is called. */
#include "dev/split_priv.h"

#include "base/mem.h"

#include <string.h>

enum { PLANS = 2048, KEYS = 1 << 12 };

static void plan_clear(ft_split_plan *p)
{
    p->n_action = p->n_read = p->n_wrote = p->n_key = 0;
    p->embeds = 0;
    p->complete = false;
}

void ft_split_drop_plans(ft_split *s)
{
    ft_split_plans *all = &s->plans;
    for (int i = 0; i < all->n; i++) {
        ft_free(all->plan[i]->action);
        ft_free(all->plan[i]->read);
        ft_free(all->plan[i]->wrote);
        ft_free(all->plan[i]);
    }
    ft_free(all->plan);
    ft_free(all->hash);
    *all = (ft_split_plans){.ids = all->ids, .only = all->only};
}

/* ---- the plan of a shape ---- */

static uint32_t hash_of(const void *pass, const ft_batch_shape *s)
{
    const uint64_t words[] = {(uint64_t)(uintptr_t)pass, (uint64_t)s->T << 32 | (uint32_t)s->n_out,
                              (uint64_t)s->S << 32 | (uint32_t)s->rows, (uint64_t)s->ctx};
    uint64_t h = 0;
    for (size_t i = 0; i < FT_COUNT(words); i++) h = (h ^ words[i]) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(h >> 32);
}

static ft_split_plan *plan_of(ft_split *s, const void *pass, const ft_batch_shape *shape)
{
    ft_split_plans *all = &s->plans;
    const uint32_t hash = hash_of(pass, shape);
    for (int i = 0; i < all->n; i++) {
        ft_split_plan *p = all->plan[i];
        if (all->hash[i] == hash && p->pass == pass && ft_batch_shape_same(&p->shape, shape))
            return p;
    }
    if (all->n == PLANS) ft_split_drop_plans(s); /* as many as a device has graphs */
    if (all->n == all->cap) {
        all->cap = 2 * all->cap + 64;
        all->plan = ft_realloc(all->plan, sizeof(void *) * (size_t)all->cap);
        all->hash = ft_realloc(all->hash, sizeof *all->hash * (size_t)all->cap);
    }
    ft_split_plan *p = ft_new(ft_split_plan);
    p->pass = pass;
    p->shape = *shape;
    p->id = ++all->ids;
    all->hash[all->n] = hash;
    return all->plan[all->n++] = p;
}

/* The number of ids of an earlier step that the tokens refer to. */
static int drawn_ids(const ft_batch *b)
{
    int n = 0;
    for (int t = 0; b->token && t < b->T; t++) n = FT_MAX(n, -b->token[t]);
    return n;
}

/* ---- capture ---- */

/* The run lists while a step is captured that does not run. */
static void save_runs(ft_split *s)
{
    for (int i = 0; i < s->n_mem; i++) {
        ft_split_mem *m = &s->mem[i];
        if (m->side >= 0) continue;
        m->saved = ft_new_n(ft_split_run, (size_t)m->n_run);
        memcpy(m->saved, m->run, sizeof *m->run * (size_t)m->n_run);
        m->n_saved = m->n_run;
    }
}

static void restore_runs(ft_split *s)
{
    for (int i = 0; i < s->n_mem; i++) {
        ft_split_mem *m = &s->mem[i];
        if (!m->saved) continue;
        memcpy(m->run, m->saved, sizeof *m->run * (size_t)m->n_saved);
        m->n_run = m->n_saved;
        ft_free(m->saved);
        m->saved = NULL;
    }
}

static void begin_capture(ft_split *s, ft_split_plan *p)
{
    ft_split_plans *all = &s->plans;
    all->capturing = true;
    all->to = p;
    if (p) plan_clear(p);
    if (all->only) save_runs(s);
}

static ft_split_action *add_action(ft_split_plan *p)
{
    if (p->n_action == p->cap_action)
        p->action = ft_realloc(p->action,
                               sizeof *p->action * (size_t)(p->cap_action = 2 * p->cap_action + 8));
    return &p->action[p->n_action++];
}

static void add_range(ft_split_range **list, int *n, int *cap, ft_split_range r)
{
    if (*n == *cap) *list = ft_realloc(*list, sizeof r * (size_t)(*cap = 2 * *cap + 8));
    (*list)[(*n)++] = r;
}

ft_dev *ft_split_op(ft_split *s, int side)
{
    ft_split_plans *all = &s->plans;
    ft_dev *part = ft_split_use(s, side);
    if (!all->capturing || all->open >> side & 1) return part;
    const void *key = NULL;
    if (all->to && all->to->n_key < KEYS) {
        key = (const void *)(uintptr_t)(all->to->id * KEYS + (uint64_t)all->to->n_key++);
        *add_action(all->to) = (ft_split_action){.from = side, .to = -1, .key = key};
    }
    part->capture_pass(part, key);
    all->open |= UINT64_C(1) << side;
    return part;
}

void ft_split_commit_part(ft_split *s, int side)
{
    ft_dev *part = ft_split_use(s, side);
    part->commit(part);
    s->plans.open &= ~(UINT64_C(1) << side);
}

/* Bytes that the step has not written itself come from earlier steps. */
void ft_split_note_read(ft_split *s, const ft_split_mem *m, const void *from, size_t n, int side)
{
    ft_split_plan *p = s->plans.to;
    const size_t lo = (size_t)((uintptr_t)from - (uintptr_t)m->known), hi = lo + n;
    size_t at = 0;
    if (!p) return;
    for (int i = 0; i < m->n_run && at < hi; at = m->run[i++].end) {
        const size_t a = FT_MAX(at, lo), b = FT_MIN(m->run[i].end, hi);
        bool known = a >= b || m->run[i].mask & FT_SPLIT_FRESH;
        for (int k = 0; k < p->n_read && !known; k++)
            known = p->read[k].mask == (uint64_t)side && m->known + a >= p->read[k].at &&
                    m->known + b <= p->read[k].at + p->read[k].n;
        if (!known)
            add_range(&p->read, &p->n_read, &p->cap_read,
                      (ft_split_range){m->known + a, b - a, (uint64_t)side});
    }
}

void ft_split_note_copy(ft_split *s, int from, void *src, int to, void *dst, size_t n)
{
    if (s->plans.to)
        *add_action(s->plans.to) =
            (ft_split_action){.from = from, .to = to, .src = src, .dst = dst, .n = n};
}

/* Collects what the step has written. */
static void end_capture(ft_split *s)
{
    ft_split_plans *all = &s->plans;
    ft_split_plan *p = all->to;
    for (int i = 0; i < s->n_mem; i++) {
        ft_split_mem *m = &s->mem[i];
        size_t at = 0;
        if (m->side >= 0) continue;
        for (int k = 0; k < m->n_run; at = m->run[k++].end) {
            if (!(m->run[k].mask & FT_SPLIT_FRESH)) continue;
            m->run[k].mask &= ~FT_SPLIT_FRESH;
            if (p)
                add_range(&p->wrote, &p->n_wrote, &p->cap_wrote,
                          (ft_split_range){m->known + at, m->run[k].end - at, m->run[k].mask});
        }
        ft_split_join_runs(m);
    }
    if (p) p->complete = p->n_key < KEYS;
    if (all->only) restore_runs(s);
    all->capturing = false;
    all->to = NULL;
}

void ft_split_commit(ft_dev *d)
{
    ft_split *s = (ft_split *)d;
    for (int i = 0; i < s->n; i++) ft_split_commit_part(s, i);
    if (s->plans.capturing) end_capture(s);
}

void ft_split_capture(ft_dev *d, bool on)
{
    ft_split *s = (ft_split *)d;
    s->plans.only = on;
    for (int i = 0; i < s->n; i++)
        if (s->part[i]->capture) s->part[i]->capture(ft_split_use(s, i), on);
}

/* ---- replay ---- */

static bool is_captured(ft_split *s, const ft_split_plan *p)
{
    for (int i = 0; i < p->n_action; i++) {
        const ft_split_action *a = &p->action[i];
        if (a->to < 0 && !s->part[a->from]->captured(s->part[a->from], a->key)) return false;
    }
    return p->complete;
}

static void run_plan(ft_split *s, const ft_split_plan *p)
{
    for (int i = 0; i < p->n_read; i++)
        ft_split_need(s, p->read[i].at, p->read[i].n, (int)p->read[i].mask);
    for (int i = 0; i < s->n; i++)
        if (p->embeds >> i & 1) ft_split_need_drawn(s, i);
    for (int i = 0; i < p->n_action; i++) {
        const ft_split_action *a = &p->action[i];
        ft_dev *part = ft_split_use(s, a->from);
        if (a->to < 0)
            part->replay(part, a->key);
        else
            ft_split_copy(s, a->from, a->src, a->to, a->dst, a->n);
    }
    for (int i = 0; i < p->n_wrote; i++)
        ft_split_wrote_all(s, p->wrote[i].at, p->wrote[i].n, p->wrote[i].mask);
}

/* As on one device: the first step of a shape that was not captured at start-up runs uncaptured,
 * the second is captured. */
bool ft_split_replay(ft_dev *d, const void *pass)
{
    ft_split *s = (ft_split *)d;
    ft_split_plans *all = &s->plans;
    const ft_batch_shape shape = ft_batch_shape_of(d->batch);
    const int drawn = drawn_ids(d->batch);
    const bool kept = shape.T <= FT_SHAPE_ROWS && drawn <= FT_SHAPE_ROWS;
    d->uncaptured = false;
    if (!d->captures || (!kept && !all->only)) return false;
    ft_split_plan *p = kept ? plan_of(s, pass, &shape) : NULL;
    if (p && is_captured(s, p)) {
        if (!all->only) run_plan(s, p);
        return true;
    }
    d->uncaptured = !all->only;
    if (!all->only && p->seen++ == 0) return false;
    begin_capture(s, p);
    return false;
}
