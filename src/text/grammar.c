/* text/grammar.c - computes token masks from positions (`place`) in the grammar automaton.
 *
 * The mask of a place is computed by walking the trie of the vocabulary. As long as a token stays
 * inside the rule of the place, the result depends only on the state, so this part is cached per
 * state (`view`): the tokens that stay inside the rule, and the trie nodes at which the rule may
 * end
 * (`exit`). Only from those nodes does the walk continue with the actual context of the place.
 * Inside a JSON string these are a few thousand nodes out of half a million. */
#include "text/grammar.h"

#include "text/grammar_auto.h"
#include "text/grammar_step.h"
#include "text/grammar_trie.h"

#include "base/mem.h"

enum { VIEW_BYTES_MAX = 64 << 20, WORD_MAX = 128, TRIGGERS_MAX = 1024 };

struct ft_grammar {
    ft_auto a;
};

typedef struct view {
    uint32_t *bits; /* [V] */
    uint32_t *exit; /* trie nodes with children */
    size_t n_exit, cap_exit;
} view;

/* Data shared by a state and its clones. */
typedef struct shared {
    size_t refs;
    const ft_grammar *g;
    const ft_trie *t;
    ft_stepper *step;
    view **view;      /* [n_state] */
    uint32_t *viewed; /* states that have one */
    size_t n_view, view_bytes;
    ft_places walk; /* scratch */
    int32_t *trigger;
    ft_str *word; /* owns the bytes */
    size_t n_trigger, n_word, longest;
    bool feed;
} shared;

struct ft_grammar_state {
    shared *sh;
    ft_places at;
    bool waiting, dead;  /* dead: also after the end of the text */
    char tail[WORD_MAX]; /* waiting: the end of the text so far, shorter than the longest word */
    size_t n_tail;
};

/* ---- the grammar ---- */

ft_status ft_grammar_new(ft_grammar **out, ft_str gbnf, const char *root, ft_err *err)
{
    ft_grammar *g = ft_new(ft_grammar);
    ft_gbnf text;
    ft_status st = ft_gbnf_init(&text, gbnf, root ? root : "root", err);
    if (!st) st = ft_auto_init(&g->a, &text, err);
    ft_gbnf_release(&text);
    if (st) {
        ft_grammar_free(g);
        return st;
    }
    *out = g;
    return FT_OK;
}

void ft_grammar_free(ft_grammar *g)
{
    if (!g) return;
    ft_auto_release(&g->a);
    ft_free(g);
}

size_t ft_grammar_states(const ft_grammar *g)
{
    return g->a.n_state;
}

/* ---- walking the trie ---- */

typedef struct level {
    uint32_t end; /* trie node after the last one that starts from these places */
    size_t from, n;
} level;

static void set_token(const ft_trie *t, uint32_t *bits, uint32_t node)
{
    for (int32_t id = t->token[node]; id >= 0; id = t->twin[id]) bits[id / 32] |= 1u << id % 32;
}

static void put_exit(view *v, uint32_t node)
{
    if (v->n_exit == v->cap_exit) {
        v->cap_exit = v->cap_exit ? v->cap_exit * 2 : 64;
        v->exit = ft_realloc(v->exit, v->cap_exit * sizeof *v->exit);
    }
    v->exit[v->n_exit++] = node;
}

/* Sets the bits of the tokens below `top` that can be read from the places walk.p[from..from+n).
 * Nodes where the context FT_CTX_EXIT is reached go to v, which may be NULL. */
static void walk(shared *sh, uint32_t top, size_t from, size_t n, uint32_t *bits, view *v)
{
    const ft_trie *t = sh->t;
    const ft_auto *a = &sh->g->a;
    ft_places *w = &sh->walk;
    level path[FT_TRIE_DEPTH_MAX + 1];
    size_t depth = 0;
    path[0] = (level){t->end[top], from, n};
    for (uint32_t i = top + 1; i < path[0].end && ft_stepper_spend(sh->step, 1);) {
        while (i >= path[depth].end) depth--;
        const level *l = &path[depth];
        bool exit = false;
        size_t at = l->from + l->n, m = 0;
        w->n = at;
        if (l->n == 1) { /* most of a walk is here: one place, inside a rule */
            const ft_place p = w->p[l->from];
            const uint32_t q = a->next[p.state * (size_t)a->n_class + a->class_of[t->byte[i]]];
            if (!q) {
                i = t->end[i];
                continue;
            }
            if (a->flags[q] == FT_AUTO_BYTES) {
                set_token(t, bits, i);
                if (t->end[i] > i + 1) {
                    if (w->n == w->cap) w->p = ft_realloc(w->p, (w->cap *= 2) * sizeof *w->p);
                    w->p[at] = (ft_place){q, p.ctx};
                    path[++depth] = (level){t->end[i], at, 1};
                }
                i++;
                continue;
            }
        }
        ft_step_byte(sh->step, w, l->from, l->n, t->byte[i]);
        exit = w->exit;
        m = w->n - at;
        if (!m && !exit && !w->end) {
            i = t->end[i];
            continue;
        }
        set_token(t, bits, i);
        if (t->end[i] == i + 1) {
            i++;
            continue;
        }
        if (exit && v) put_exit(v, i);
        if (m) {
            path[++depth] = (level){t->end[i], at, m};
            i++;
        } else {
            i = t->end[i];
        }
    }
}

static size_t words(const ft_trie *t)
{
    return ((size_t)t->V + 31) / 32;
}

static void drop_views(shared *sh)
{
    for (size_t i = 0; i < sh->n_view; i++) {
        view **v = &sh->view[sh->viewed[i]];
        ft_free((*v)->bits);
        ft_free((*v)->exit);
        ft_free(*v);
        *v = NULL;
    }
    sh->n_view = sh->view_bytes = 0;
}

static void start_walk(shared *sh, ft_place p)
{
    if (!sh->walk.cap) sh->walk.p = ft_new_n(ft_place, sh->walk.cap = 256);
    sh->walk.n = 1;
    sh->walk.p[0] = p;
}

static const view *view_of(shared *sh, uint32_t state)
{
    view *v = sh->view[state];
    if (v) return v;
    if (sh->view_bytes > VIEW_BYTES_MAX) drop_views(sh);
    v = ft_new(view);
    v->bits = ft_new_n(uint32_t, words(sh->t));
    start_walk(sh, (ft_place){state, FT_CTX_EXIT});
    walk(sh, 0, 0, 1, v->bits, v);
    sh->view[state] = v;
    sh->viewed[sh->n_view++] = state;
    sh->view_bytes += sizeof *v + words(sh->t) * 4 + v->cap_exit * 4;
    return v;
}

static void mask_place(shared *sh, ft_place p, uint32_t *bits)
{
    const view *v = view_of(sh, p.state);
    for (size_t i = 0; i < words(sh->t); i++) bits[i] |= v->bits[i];
    if (!v->n_exit || p.ctx == FT_CTX_END) return;
    start_walk(sh, p);
    sh->walk.n = 0;
    ft_step_leave(sh->step, &sh->walk, p.ctx);
    const size_t n = sh->walk.n;
    for (size_t i = 0; n && i < v->n_exit; i++) walk(sh, v->exit[i], 0, n, bits, NULL);
}

/* false: the work went over its bound, and bits are not complete. */
static bool mask_places(ft_grammar_state *s, uint32_t *bits)
{
    shared *sh = s->sh;
    ft_stepper_refill(sh->step, true);
    const uint32_t mark = ft_stepper_mark(sh->step);
    for (size_t i = 0; i < s->at.n; i++) mask_place(sh, s->at.p[i], bits);
    ft_stepper_drop(sh->step, mark);
    return !ft_stepper_spent(sh->step);
}

bool ft_grammar_allow(ft_grammar_state *s, uint32_t *bits, int32_t V)
{
    const ft_trie *t = s->sh->t;
    if (s->waiting) return false;
    const size_t bytes = ((size_t)V + 31) / 32 * sizeof *bits;
    memset(bits, 0, bytes);
    if (s->dead || V < t->V) return true;
    if (!mask_places(s, bits)) {
        memset(bits, 0, bytes);
        s->dead = true;
        return true;
    }
    if (s->at.end)
        for (size_t i = 0; i < t->n_eog; i++) bits[t->eog[i] / 32] |= 1u << t->eog[i] % 32;
    return true;
}

ft_status ft_grammar_probe(ft_grammar_state *s, ft_err *err)
{
    uint32_t *bits = ft_new_n(uint32_t, words(s->sh->t));
    const bool ok = mask_places(s, bits);
    ft_free(bits);
    return ok ? FT_OK : ft_fail(err, FT_ELIMIT, "%s", ft_stepper_spent(s->sh->step));
}

/* ---- moving ---- */

/* One byte further; the places of `at` are replaced. */
static bool move(shared *sh, ft_places *at, uint8_t byte)
{
    const size_t n = at->n;
    ft_step_byte(sh->step, at, 0, n, byte);
    at->n -= n;
    if (at->n) memmove(at->p, at->p + n, at->n * sizeof *at->p);
    return at->n || at->end;
}

static bool move_all(shared *sh, ft_places *at, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (i % FT_TRIE_DEPTH_MAX == 0) ft_stepper_refill(sh->step, false);
        if (!move(sh, at, (uint8_t)p[i])) return false;
    }
    return true;
}

/* The bytes of a token, from the trie; they end at buf[FT_TRIE_DEPTH_MAX]. */
static ft_str bytes_of(const ft_trie *t, int32_t id, char buf[FT_TRIE_DEPTH_MAX])
{
    size_t n = FT_TRIE_DEPTH_MAX;
    if (id >= 0 && id < t->V)
        for (uint32_t i = t->of[id]; i; i = t->above[i]) buf[--n] = (char)t->byte[i];
    return (ft_str){buf + n, FT_TRIE_DEPTH_MAX - n};
}

static void places_copy(ft_places *dst, const ft_places *src)
{
    if (dst->cap < src->n) {
        dst->cap = src->n;
        dst->p = ft_realloc(dst->p, dst->cap * sizeof *dst->p);
    }
    if (src->n) memcpy(dst->p, src->p, src->n * sizeof *src->p);
    dst->n = src->n;
    dst->end = src->end;
}

bool ft_grammar_allows(ft_grammar_state *s, int32_t id)
{
    shared *sh = s->sh;
    if (s->waiting) return true;
    if (s->dead || ft_stepper_spent(sh->step) || id < 0 || id >= sh->t->V) return false;
    if (sh->t->is_eog[id]) return s->at.end;
    char buf[FT_TRIE_DEPTH_MAX];
    const ft_str b = bytes_of(sh->t, id, buf);
    const uint32_t mark = ft_stepper_mark(sh->step);
    places_copy(&sh->walk, &s->at);
    const bool ok = b.n && move_all(sh, &sh->walk, b.p, b.n);
    ft_stepper_drop(sh->step, mark);
    return ok;
}

/* ---- lazy ---- */

/* Adds the bytes to the tail and looks for the first word; true: *rest is where the grammar begins.
 */
static bool find_word(ft_grammar_state *s, ft_str b, char *text, ft_str *rest)
{
    const shared *sh = s->sh;
    memcpy(text, s->tail, s->n_tail);
    memcpy(text + s->n_tail, b.p, b.n);
    const ft_str all = {text, s->n_tail + b.n};
    size_t best = SIZE_MAX, len = 0;
    for (size_t i = 0; i < sh->n_word; i++) {
        const size_t at = ft_str_find(all, sh->word[i], 0);
        if (at < best || (at == best && at != SIZE_MAX && sh->word[i].n > len))
            best = at, len = sh->word[i].n;
    }
    if (best != SIZE_MAX) {
        const size_t from = sh->feed ? best : best + len;
        *rest = (ft_str){text + from, all.n - from};
        return true;
    }
    const size_t keep = FT_MIN(all.n, sh->longest ? sh->longest - 1 : 0);
    memcpy(s->tail, text + all.n - keep, keep);
    s->n_tail = keep;
    return false;
}

static bool begin(ft_grammar_state *s, ft_str fed)
{
    s->waiting = false;
    if (!move_all(s->sh, &s->at, fed.p, fed.n)) s->dead = true;
    return !s->dead;
}

static bool accept_bytes(ft_grammar_state *s, ft_str b)
{
    while (s->waiting && b.n) {
        char text[WORD_MAX + FT_TRIE_DEPTH_MAX];
        const ft_str part = {b.p, FT_MIN(b.n, (size_t)FT_TRIE_DEPTH_MAX)};
        ft_str rest;
        b = (ft_str){b.p + part.n, b.n - part.n};
        if (find_word(s, part, text, &rest)) begin(s, rest);
    }
    if (s->dead) return false;
    if (!move_all(s->sh, &s->at, b.p, s->waiting ? 0 : b.n)) s->dead = true;
    return !s->dead;
}

bool ft_grammar_accept_bytes(ft_grammar_state *s, ft_str bytes)
{
    return accept_bytes(s, bytes);
}

bool ft_grammar_accept(ft_grammar_state *s, int32_t id)
{
    shared *sh = s->sh;
    char buf[FT_TRIE_DEPTH_MAX];
    const ft_str b = bytes_of(sh->t, id, buf);
    ft_stepper_token(sh->step);
    if (s->waiting) {
        for (size_t i = 0; i < sh->n_trigger; i++)
            if (sh->trigger[i] == id) return begin(s, sh->feed ? b : (ft_str){0});
        return accept_bytes(s, b);
    }
    const bool eog = id >= 0 && id < sh->t->V && sh->t->is_eog[id];
    if (s->dead || eog || !b.n) {
        const bool ok = !s->dead && eog && s->at.end;
        s->dead = true;
        return ok;
    }
    return accept_bytes(s, b);
}

bool ft_grammar_waiting(const ft_grammar_state *s)
{
    return s->waiting;
}

bool ft_grammar_accepting(const ft_grammar_state *s)
{
    return s->waiting || (!s->dead && s->at.end);
}

bool ft_grammar_ended(const ft_grammar_state *s)
{
    return !s->waiting && (s->dead || !s->at.n);
}

const char *ft_grammar_limit(const ft_grammar_state *s)
{
    return ft_stepper_limit(s->sh->step);
}

const char *ft_grammar_spent(const ft_grammar_state *s)
{
    return ft_stepper_spent(s->sh->step);
}

void ft_grammar_stop(ft_grammar_state *s)
{
    ft_stepper_stop(s->sh->step);
}

/* ---- states ---- */

static ft_status copy_lazy(shared *sh, const ft_grammar_lazy *lazy, ft_err *err)
{
    if (lazy->n_id > TRIGGERS_MAX || lazy->n_word > TRIGGERS_MAX)
        return ft_fail(err, FT_ELIMIT, "%zu triggers, want at most %d",
                       FT_MAX(lazy->n_id, lazy->n_word), TRIGGERS_MAX);
    sh->feed = lazy->feed;
    sh->trigger = ft_new_n(int32_t, lazy->n_id);
    sh->word = ft_new_n(ft_str, lazy->n_word);
    for (size_t i = 0; i < lazy->n_id; i++) sh->trigger[sh->n_trigger++] = lazy->id[i];
    for (size_t i = 0; i < lazy->n_word; i++) {
        const ft_str w = lazy->word[i];
        if (!w.n || w.n > WORD_MAX)
            return ft_fail(err, FT_EINVAL, "a trigger word of %zu bytes, want 1..%d", w.n,
                           WORD_MAX);
        char *own = ft_alloc(w.n);
        memcpy(own, w.p, w.n);
        sh->word[sh->n_word++] = (ft_str){own, w.n};
        sh->longest = FT_MAX(sh->longest, w.n);
    }
    return FT_OK;
}

ft_status ft_grammar_state_new(ft_grammar_state **out, const ft_grammar *g, const ft_trie *t,
                               const ft_grammar_lazy *lazy, ft_err *err)
{
    ft_grammar_state *s = ft_new(ft_grammar_state);
    shared *sh = s->sh = ft_new(shared);
    sh->refs = 1;
    sh->g = g;
    sh->t = t;
    sh->step = ft_stepper_new(&g->a);
    sh->view = ft_new_n(view *, g->a.n_state);
    sh->viewed = ft_new_n(uint32_t, g->a.n_state);
    const ft_status st = lazy ? copy_lazy(sh, lazy, err) : FT_OK;
    if (st) {
        ft_grammar_state_free(s);
        return st;
    }
    s->waiting = lazy != NULL;
    ft_step_start(sh->step, &s->at);
    *out = s;
    return FT_OK;
}

void ft_grammar_state_free(ft_grammar_state *s)
{
    if (!s) return;
    shared *sh = s->sh;
    if (--sh->refs == 0) {
        drop_views(sh);
        for (size_t i = 0; i < sh->n_word; i++) ft_free((char *)(uintptr_t)sh->word[i].p);
        ft_free(sh->word);
        ft_free(sh->trigger);
        ft_free(sh->view);
        ft_free(sh->viewed);
        ft_free(sh->walk.p);
        ft_stepper_free(sh->step);
        ft_free(sh);
    }
    ft_free(s->at.p);
    ft_free(s);
}

ft_grammar_state *ft_grammar_state_clone(const ft_grammar_state *s)
{
    ft_grammar_state *c = ft_new(ft_grammar_state);
    c->sh = s->sh;
    c->sh->refs++;
    ft_grammar_state_copy(c, s);
    return c;
}

void ft_grammar_state_copy(ft_grammar_state *dst, const ft_grammar_state *src)
{
    places_copy(&dst->at, &src->at);
    dst->waiting = src->waiting;
    dst->dead = src->dead;
    memcpy(dst->tail, src->tail, src->n_tail);
    dst->n_tail = src->n_tail;
}

/* ---- the constraint interface of the engine ---- */

static bool mask_allow(void *user, uint32_t *bits, int32_t V)
{
    return ft_grammar_allow(user, bits, V);
}

static bool mask_allows(void *user, int32_t id)
{
    return ft_grammar_allows(user, id);
}

static void mask_accept(void *user, int32_t id)
{
    ft_grammar_accept(user, id);
}

static void *mask_clone(void *user)
{
    return ft_grammar_state_clone(user);
}

static void mask_copy(void *user, const void *from)
{
    ft_grammar_state_copy(user, from);
}

static void mask_free(void *user)
{
    ft_grammar_state_free(user);
}

static void mask_stop(void *user)
{
    ft_grammar_stop(user);
}

const ft_grammar_mask ft_grammar_mask_functions = {
    mask_allow, mask_allows, mask_accept, mask_clone, mask_copy, mask_free, mask_stop,
};
