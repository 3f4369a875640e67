/* ft_session.c - one conversation on the caller's own thread. */
#include "base/mem.h"
#include "ft_answer.h"

struct ft_session {
    ft_llm *m;
    ft_lane *lane;
};

ft_session *ft_session_new(ft_llm *m)
{
    ft_lane *l = ft_lane_new(m->engine);
    if (!l) return NULL;
    ft_session *s = ft_new(ft_session);
    s->m = m;
    s->lane = l;
    return s;
}

void ft_session_free(ft_session *s)
{
    if (!s) return;
    ft_lane_free(s->lane);
    ft_free(s);
}

ft_status ft_session_reply(ft_session *s, const ft_request *r, ft_reply *out, ft_err *err)
{
    ft_answer a;
    ft_status st = ft_answer_init(&a, s->m, r, r->on_event, r->user, err);
    if (st) return st;
    const ft_task t = ft_answer_task(&a);
    st = ft_lane_start(s->lane, &t, err);
    while (!st && ft_lane_busy(s->lane)) ft_engine_round(s->m->engine);
    if (!st && ft_lane_finish(s->lane) == FT_FINISH_ERROR)
        st = ft_fail(err, FT_EDEVICE, "%s", ft_lane_error(s->lane));
    if (!st) {
        ft_answer_end(&a);
        ft_answer_reply(&a, ft_lane_finish(s->lane), ft_lane_stats(s->lane), out);
    }
    ft_answer_release(&a);
    return st;
}
