#include "api/reasoning.h"

#include "base/mem.h"

enum { MAX_TAIL = 1 << 16, MAX_IDS = 1 << 16 };

static bool ids_may(const ft_thought *t, int32_t id)
{
    return t->force->id[t->at] == id;
}

static void force(ft_thought *t, const ft_ids *ids)
{
    t->force = ids->n ? ids : NULL;
    t->at = 0;
}

/* No grammar, or one that applies only after the reasoning: the response must not end before. */
static bool asleep(const ft_thought *t)
{
    return !t->inner.user || t->where == FT_THOUGHT_OPEN;
}

/* ---- the constraint ---- */

/* Between two tokens: checks whether the reasoning has to be closed. */
static void look_for_end(ft_thought *t)
{
    if (t->where != FT_THOUGHT_OPEN || t->force) return;
    const bool wanted = t->end && atomic_load_explicit(t->end, memory_order_relaxed);
    if (wanted || (t->budget >= 0 && t->spent >= t->budget)) force(t, &t->end_ids);
}

static bool allow(void *user, uint32_t *bits, int32_t V)
{
    ft_thought *t = user;
    look_for_end(t);
    if (t->force) {
        const int32_t id = t->force->id[t->at];
        memset(bits, 0, sizeof *bits * FT_MASK_WORDS(V));
        bits[id / 32] |= 1u << id % 32;
        return true;
    }
    if (!asleep(t)) return t->inner.allow(t->inner.user, bits, V);
    if (!t->inner.user) return false;
    memset(bits, 0xff, sizeof *bits * FT_MASK_WORDS(V));
    for (int i = 0; i < t->m->n_eog; i++) bits[t->m->eog[i] / 32] &= ~(1u << t->m->eog[i] % 32);
    return true;
}

static bool allows(void *user, int32_t id)
{
    ft_thought *t = user;
    look_for_end(t);
    if (t->force) return ids_may(t, id);
    if (!asleep(t)) return t->inner.allows(t->inner.user, id);
    return !t->inner.user || !ft_vocab_is_eog(t->m->vocab, id);
}

/* Only a mask of the grammar takes time. */
static bool quick(void *user)
{
    ft_thought *t = user;
    look_for_end(t);
    return t->force || asleep(t) || (t->inner.quick && t->inner.quick(t->inner.user));
}

/* Whether the tag has occurred; of the text so far, only a possible beginning of it is kept. */
static bool met(ft_thought *t, ft_str tag)
{
    const ft_str s = ft_buf_str(&t->tail);
    for (size_t i = 0; i < s.n; i++) {
        const size_t n = FT_MIN(tag.n, s.n - i);
        if (memcmp(s.p + i, tag.p, n)) continue;
        if (n == tag.n) {
            ft_buf_clear(&t->tail);
            return true;
        }
        memmove(t->tail.data, t->tail.data + i, s.n - i);
        t->tail.len = s.n - i;
        return false;
    }
    ft_buf_clear(&t->tail);
    return false;
}

static void watch(ft_thought *t, int32_t id)
{
    ft_buf_put_str(&t->tail, ft_vocab_piece(t->m->vocab, id, true));
    if (t->where == FT_THOUGHT_BEFORE && met(t, t->open)) {
        t->where = FT_THOUGHT_OPEN;
    } else if (t->where == FT_THOUGHT_OPEN) {
        t->spent++;
        if (!met(t, t->close)) return;
        t->where = FT_THOUGHT_OVER;
        if (t->inner.user && !t->force) force(t, &t->gap_ids);
    }
}

static void accept(void *user, int32_t id)
{
    ft_thought *t = user;
    const bool forced = t->force != NULL;
    if (forced && ++t->at == t->force->n) t->force = NULL;
    const bool inner = !forced && !asleep(t);
    if (t->where == FT_THOUGHT_BEFORE || t->where == FT_THOUGHT_OPEN) watch(t, id);
    if (inner) t->inner.accept(t->inner.user, id);
}

/* A clone has its own state, tail and grammar; it shares the forced texts. */
static void copy(void *user, const void *from)
{
    ft_thought *t = user;
    const ft_thought *f = from;
    void *const inner = t->inner.user;
    const ft_buf tail = t->tail;
    *t = *f;
    t->inner.user = inner;
    t->tail = tail;
    ft_buf_clear(&t->tail);
    ft_buf_put_str(&t->tail, ft_buf_str(&f->tail));
    if (inner) t->inner.copy(inner, f->inner.user);
}

static void *clone(void *user)
{
    const ft_thought *f = user;
    ft_thought *t = ft_new(ft_thought);
    ft_buf_init(&t->tail, MAX_TAIL);
    if (f->inner.user) t->inner.user = f->inner.clone(f->inner.user);
    copy(t, f);
    return t;
}

static void free_clone(void *user)
{
    ft_thought *t = user;
    ft_buf_release(&t->tail);
    if (t->inner.user) t->inner.free(t->inner.user);
    ft_free(t);
}

static void stop(void *user)
{
    ft_thought *t = user;
    if (t->inner.user) t->inner.stop(t->inner.user);
}

/* ---- creation and destruction ---- */

static ft_status encode(const ft_llm *m, const char *text, ft_ids *out, ft_err *err)
{
    return ft_encode(m->vocab, ft_str_of(text), FT_BPE_PARSE_SPECIAL, out, err);
}

static ft_status closing(ft_thought *t, const ft_request *r, bool qwen, ft_err *err)
{
    ft_ids_init(&t->end_ids, MAX_IDS);
    ft_ids_init(&t->gap_ids, MAX_IDS);
    ft_status st = FT_OK;
    if (r->reasoning_message) st = encode(t->m, r->reasoning_message, &t->end_ids, err);
    /* as these models were trained to end their reasoning */
    if (!st) st = encode(t->m, qwen ? "\n</think>\n\n" : "<channel|>", &t->end_ids, err);
    if (!st && qwen) st = encode(t->m, "\n\n", &t->gap_ids, err);
    for (size_t i = 0; i < t->end_ids.n && !st; i++)
        if (t->end_ids.id[i] >= t->m->model->V)
            st = ft_fail(err, FT_EUNSUPPORTED, "token %d closes a thought, the model has %d",
                         t->end_ids.id[i], t->m->model->V);
    return st;
}

ft_status ft_thought_init(ft_thought *t, const ft_llm *m, const ft_request *r, ft_mask *mask,
                          ft_err *err)
{
    *t = (ft_thought){.m = m, .budget = r->reasoning_budget, .inner = *mask};
    const ft_chat_family f = m->chat ? ft_chat_family_of(m->chat) : FT_CHAT_PLAIN;
    if (!r->parse || f == FT_CHAT_PLAIN) return FT_OK;
    /* If the prompt does not open a reasoning block, a grammar applies from the first token:
     * none can begin. */
    if (!r->in_thought && mask->user) return FT_OK;
    t->where = r->in_thought ? FT_THOUGHT_OPEN : FT_THOUGHT_BEFORE;
    t->open = f == FT_CHAT_QWEN ? FT_STR("<think>") : FT_STR("<|channel>thought");
    t->close = f == FT_CHAT_QWEN ? FT_STR("</think>") : FT_STR("<channel|>");
    ft_buf_init(&t->tail, MAX_TAIL);
    *mask = (ft_mask){t, allow, allows, accept, clone, copy, free_clone, stop, quick};
    return closing(t, r, f == FT_CHAT_QWEN, err);
}

void ft_thought_release(ft_thought *t)
{
    ft_buf_release(&t->tail);
    ft_ids_release(&t->end_ids);
    ft_ids_release(&t->gap_ids);
    *t = (ft_thought){0};
}

bool ft_thought_open(const ft_thought *t)
{
    return t->where == FT_THOUGHT_OPEN;
}
