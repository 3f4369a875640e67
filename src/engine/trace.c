/* engine/trace.c - draft tokens and acceptances as lines of JSON. */
#include "base/buf.h"
#include "base/mem.h"
#include "engine/slot.h"

#include <math.h>

enum { MAX_LINE = 4096 };

static const char *drafter_name(const ft_slot *s)
{
    if (s->draft.method >= 0) return s->e->ngram_drafter[s->draft.method].name;
    return s->e->kind == FT_DRAFT_MODEL       ? "model"
           : s->e->kind == FT_DRAFT_ASSISTANT ? "assistant"
                                              : "mtp";
}

static void put_ids(ft_buf *b, const char *key, const int32_t *id, int n)
{
    ft_buf_printf(b, ",\"%s\":[", key);
    for (int i = 0; i < n; i++) ft_buf_printf(b, "%s%d", i ? "," : "", id[i]);
    ft_buf_putc(b, ']');
}

static void emit(const ft_slot *s, ft_buf *b)
{
    ft_buf_putc(b, '}');
    s->e->trace(s->e->trace_user, ft_buf_z(b));
    ft_buf_release(b);
}

/* The hidden row that the first draft token was made from: its index among the last step's rows
 * of this sequence, and its norm, which jumps when it is the wrong row. */
static void put_hidden(ft_buf *b, const ft_slot *s)
{
    const ft_engine *e = s->e;
    if (s->draft.method >= 0 || e->kind == FT_DRAFT_MODEL) return;
    const int cell = slot_len(s) - 1;
    float *row = ft_new_n(float, (size_t)e->m->D);
    ft_runner_hidden_get(e->runner, ft_slot_hidden_row(s, cell), row);
    double sum = 0;
    for (int i = 0; i < e->m->D; i++) sum += (double)row[i] * (double)row[i];
    ft_buf_printf(b, ",\"h_idx\":%d,\"h_l2\":%.4f", cell - s->rows.first_pos, sqrt(sum));
    ft_free(row);
}

void ft_trace_draft(const ft_slot *s, double seconds)
{
    if (!s->e->trace) return;
    ft_buf b;
    ft_buf_init(&b, MAX_LINE);
    ft_buf_printf(
        &b, "{\"evt\":\"mtp_draft\",\"iter\":%lld,\"path\":\"sync\",\"seq_id\":%d,\"id_last\":%d,",
        (long long)s->iter, slot_index(s), s->ids[s->n_ids - 1]);
    ft_buf_printf(&b, "\"attn_pos\":%d,\"n_steps\":%d,\"drafter\":\"%s\",\"t_draft_us\":%.0f",
                  slot_len(s), s->draft.n, drafter_name(s), seconds * 1e6);
    put_hidden(&b, s);
    put_ids(&b, "drafts", s->draft.id, s->draft.n);
    emit(s, &b);
}

void ft_trace_accept(const ft_slot *s, int drafted, int kept, const char *reason)
{
    if (!s->e->trace) return;
    ft_buf b;
    ft_buf_init(&b, MAX_LINE);
    ft_buf_printf(&b,
                  "{\"evt\":\"mtp_accept\",\"iter\":%lld,\"seq_id\":%d,\"n_accepted\":%d,"
                  "\"n_drafted_prev\":%d,\"reason\":\"%s\"",
                  (long long)s->iter, slot_index(s), kept, drafted, reason);
    const int n = kept + 1;
    put_ids(&b, "ids", s->ids + s->n_ids - n, n);
    emit(s, &b);
}
