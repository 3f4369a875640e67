/* engine/images.c - the images of a prompt: which of its tokens stand for rows of a vision tower,
 * where these rows are rotated to, and how far they see. In a slot's ids an image token is a
 * negative number made of the image and its place in it, so that prompts with other images differ
 * wherever ids are compared. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "engine/slot.h"

#include <stdio.h>

int32_t ft_image_id(uint64_t key, int i)
{
    const uint64_t h = ft_mix64(key + ((uint64_t)i + 1) * 0x9E3779B97F4A7C15u);
    return -2 - (int32_t)(h >> 34);
}

static int tokens_of(const ft_task_image *m)
{
    return m->rows * m->cols;
}

/* The image that a cell of the prompt belongs to, or NULL. */
static const ft_task_image *image_at(const ft_slot *s, int cell)
{
    for (int i = 0; i < s->task.n_image; i++) {
        const ft_task_image *m = &s->task.image[i];
        if (cell >= m->first && cell < m->first + tokens_of(m)) return m;
    }
    return NULL;
}

ft_status ft_images_check(const ft_engine *e, const ft_task *t, ft_err *err)
{
    int at = 0;
    for (int i = 0; i < t->n_image; i++) {
        const ft_task_image *m = &t->image[i];
        assert(m->rows > 0 && m->cols > 0 && m->first >= at);
        assert(m->first + tokens_of(m) <= t->n_prompt);
        at = m->first + tokens_of(m);
        if (t->images_ahead && tokens_of(m) > e->p.rows)
            return ft_fail(err, FT_EINVAL,
                           "image %d has %d tokens, which are read in one step: a step has %d rows "
                           "(--ubatch-size)",
                           i + 1, tokens_of(m), e->p.rows);
    }
    return FT_OK;
}

/* The first token whose image is still needed: those before it are in the cache, and the draft head
 * has read them. */
static int first_needed(const ft_slot *s)
{
    const int len = slot_len(s);
    return s->e->kind == FT_DRAFT_MTP ? FT_MIN(len, s->head.fed) : len;
}

static ft_slot *next_preparing(ft_engine *e)
{
    ft_slot *first = NULL;
    for (int i = 0; i < e->p.slots; i++) {
        ft_slot *s = &e->slot[i];
        if (s->state == SLOT_PREFILL && s->preparing && (!first || s->arrival < first->arrival))
            first = s;
    }
    return first;
}

/* Whether a response waits for its next token, or a prompt for its rows. */
static bool any_in(const ft_engine *e, slot_state state)
{
    for (int i = 0; i < e->p.slots; i++) {
        const ft_slot *s = &e->slot[i];
        if (s->state == state && !s->paused && !s->swapped && !s->preparing) return true;
    }
    return false;
}

/* Steps that encode images may have no time for prompts: these alternate with steps that do not. */
void ft_images_prepare(ft_engine *e)
{
    ft_err err;
    ft_slot *s = next_preparing(e);
    const bool responses = any_in(e, SLOT_DECODE);
    const bool other = responses && e->prefill.images_last && any_in(e, SLOT_PREFILL);
    e->prefill.images_s = 0;
    e->prefill.images_last = s && !other;
    if (!e->prefill.images_last) return;
    bool done = false;
    const int64_t start = ft_now_ns();
    const double seconds = ft_prefill_image_time(e, responses);
    const ft_status st =
        s->task.prepare(s->task.prepare_user, first_needed(s), seconds, &done, &err);
    e->prefill.images_s = (double)(ft_now_ns() - start) * 1e-9;
    s->preparing = !done;
    if (!st) return;
    snprintf(s->error, sizeof s->error, "%s", err.text);
    ft_slot_end(s, FT_FINISH_ERROR);
}

/* Time, height and width. An image takes as many places as its longer side has tokens. */
void ft_slot_pos(const ft_slot *s, int cell, int32_t pos[3])
{
    int32_t shift = 0;
    for (int i = 0; s->task.images_by_axis && i < s->task.n_image; i++) {
        const ft_task_image *m = &s->task.image[i];
        const int in = cell - m->first;
        if (in < 0) break;
        if (in < tokens_of(m)) {
            pos[0] = m->first + shift;
            pos[1] = pos[0] + in / m->cols;
            pos[2] = pos[0] + in % m->cols;
            return;
        }
        shift += FT_MAX(m->rows, m->cols) - tokens_of(m);
    }
    pos[0] = pos[1] = pos[2] = cell + shift;
}

void ft_images_place(const ft_slot *s, ft_rowset *w, int row, int cell, bool head)
{
    int32_t pos[3];
    if (!s->task.n_image) return;
    ft_slot_pos(s, head ? cell - 1 : cell, pos);
    for (int i = 0; i < 3; i++) pos[i] += head;
    ft_rows_at(w, row, pos);
}

/* The cells from `cell` on that belong to the same image, or one of text. */
static int run_at(const ft_slot *s, int cell, int n, const ft_task_image **m)
{
    *m = image_at(s, cell);
    return *m ? FT_MIN(n, (*m)->first + tokens_of(*m) - cell) : 1;
}

ft_status ft_images_load(const ft_slot *s, int row, int cell, int n, ft_err *err)
{
    const size_t D = (size_t)s->e->m->D;
    ft_status st = FT_OK;
    for (int i = 0, run; s->task.n_image && i < n && !st; i += run) {
        const ft_task_image *m;
        run = run_at(s, cell + i, n - i, &m);
        if (m)
            st = ft_runner_image_put(s->e->runner, row + i,
                                     m->data + (size_t)(cell + i - m->first) * D, run, err);
    }
    return st;
}

void ft_images_rows(const ft_slot *s, ft_rowset *w, int row, int cell, int n, bool head)
{
    for (int i = 0; s->task.n_image && i < n; i++) {
        const ft_task_image *m = image_at(s, cell + i);
        ft_images_place(s, w, row + i, cell + i, head);
        if (!m) continue;
        w->token[row + i] = 0;
        ft_rows_image(w, row + i, row + i);
        if (s->task.images_ahead && !head) ft_rows_ahead(w, row + i, m->first + tokens_of(m));
    }
}

/* Rows of one image that see each other are read in one step. */
int ft_images_chunk(const ft_slot *s, int at, int n, int most)
{
    const int end = at + n;
    const ft_task_image *m = s->task.images_ahead ? image_at(s, end) : NULL;
    if (!m || end == m->first) return n;
    if (m->first > at) return m->first - at;
    const int whole = m->first + tokens_of(m) - at;
    return whole <= most ? whole : 0;
}
