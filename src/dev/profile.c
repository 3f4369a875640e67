#include "dev/profile.h"

#include "base/clock.h"
#include "base/mem.h"
#include "dev/host.h"

void ft_profile_begin(ft_profile *m, int T)
{
    for (int i = 0; m->on && i < m->n; i++) {
        ft_profile_row *r = &m->row[i];
        if (r->seconds > 0 && (r->best == 0 || r->seconds < r->best)) r->best = r->seconds;
        r->seconds = 0;
    }
    m->on = T >= m->least && T <= m->most && (!m->last || T >= m->rows);
    if (m->on && m->last) m->n = m->steps = m->rows = 0;
    m->steps += m->on;
    m->rows += m->on ? T : 0;
    m->mark = ft_now_ns();
}

/* Names are literals of dev/step.h: pointers are compared; at worst a name has two rows. */
static ft_profile_row *row_of(ft_profile *m, const char *op, int layer)
{
    for (int i = 0; i < m->n; i++)
        if (m->row[i].op == op && m->row[i].layer == layer) return &m->row[i];
    if (m->n == FT_PROFILE_ROWS) return NULL;
    m->row[m->n] = (ft_profile_row){.op = op, .layer = layer};
    return &m->row[m->n++];
}

void ft_profile_op(ft_profile *m, ft_dev *d, const char *op, int layer, double bytes, double flops)
{
    if (!m->on) return;
    d->commit(d);
    d->sync(d, NULL); /* the device keeps the error and the step fails */
    ft_profile_row *r = row_of(m, op, layer);
    const int64_t now = ft_now_ns();
    if (r) {
        r->calls++;
        r->seconds += (double)(now - m->mark) * 1e-9;
        r->bytes += bytes;
        r->flops += flops;
    }
    m->mark = ft_now_ns();
}

ft_attended ft_profile_attended(const ft_batch *b, ft_attn p)
{
    ft_attended s = {0};
    const int n = p.out ? b->n_out : b->T;
    for (int i = 0, span = -1, last = 0; i < n; i++) {
        const int row = p.out ? b->out_row[i] : i;
        int lo, hi;
        ft_attn_range(b, p, row, &lo, &hi);
        s.pairs += FT_MAX(0, hi - lo);
        if (b->span_of[row] != span) last = lo;
        s.cells += FT_MAX(0, hi - FT_MAX(lo, last));
        span = b->span_of[row];
        last = FT_MAX(last, hi);
    }
    return s;
}
