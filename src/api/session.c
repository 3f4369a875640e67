/* api/session.c - generates on the caller's thread. */
#include "api/generate.h"
#include "base/mem.h"

struct ft_session {
    ft_llm *m;
    ft_slot *slot;
};

ft_session *ft_session_new(ft_llm *m)
{
    ft_slot *slot = ft_slot_new(m->engine);
    if (!slot) return NULL;
    ft_session *s = ft_new(ft_session);
    s->m = m;
    s->slot = slot;
    return s;
}

void ft_session_free(ft_session *s)
{
    if (!s) return;
    ft_slot_free(s->slot);
    ft_free(s);
}

ft_status ft_session_generate(ft_session *s, const ft_request *r, ft_response *out, ft_err *err)
{
    ft_generate a;
    ft_status st = ft_generate_init(&a, s->m, r, r->on_event, r->user, err);
    if (st) return st;
    const ft_task t = ft_generate_task(&a);
    st = ft_slot_start(s->slot, &t, err);
    while (!st && ft_slot_busy(s->slot)) ft_engine_step(s->m->engine);
    if (!st && ft_slot_finish(s->slot) == FT_FINISH_ERROR)
        st = ft_fail(err, FT_EDEVICE, "%s", ft_slot_error(s->slot));
    if (!st) {
        ft_generate_end(&a);
        ft_generate_result(&a, ft_slot_finish(s->slot), ft_slot_stats(s->slot), out);
    }
    ft_generate_release(&a);
    return st;
}
