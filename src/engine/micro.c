#include "engine/micro.h"

#include "base/mem.h"
#include "engine/step.h"

enum {
    SAMPLES = 4, /* of each way, before the fastest one is taken */
    AGAIN = 256, /* steps after which another way is measured again */
};

void ft_micro_init(ft_micro *m, int rows, int out)
{
    *m = (ft_micro){.span = ft_new_n(ft_span, (size_t)rows + FT_MICRO_MAX),
                    .span_of = ft_new_n(int32_t, (size_t)rows),
                    .out_row = ft_new_n(int32_t, (size_t)out + 1)};
}

void ft_micro_release(ft_micro *m)
{
    ft_free(m->span);
    ft_free(m->span_of);
    ft_free(m->out_row);
    *m = (ft_micro){0};
}

/* ---- cutting ---- */

/* The part that is being filled; a new one begins when it has its share of the rows. */
typedef struct filling {
    ft_micro *m;
    int most, rows; /* maximum parts; rows of the step */
    int n_span;
} filling;

static ft_micro_part *current(const filling *f)
{
    return &f->m->part[f->m->n - 1];
}

/* Rows that the current part still takes, so that the parts from it on become equal. */
static int room_of(const filling *f)
{
    const ft_micro_part *p = current(f);
    const int left = f->rows - p->row, parts = f->most - f->m->n + 1;
    return (left + parts - 1) / parts - p->T;
}

static void next_part(filling *f)
{
    const ft_micro_part *p = f->m->n ? current(f) : NULL;
    const int row = p ? p->row + p->T : 0;
    f->m->part[f->m->n++] = (ft_micro_part){.row = row, .span = f->n_span};
}

/* Adds n rows of a span, from its row `from` on. */
static void add_piece(filling *f, const ft_span *whole, int from, int n)
{
    ft_micro_part *p = current(f);
    ft_span s = *whole;
    s.row = p->T;
    s.n = n;
    s.start += from;
    if (from) s.replay = 0; /* the state after the rows before it is stored */
    s.serial = FT_MAX(0, FT_MIN(whole->serial - from, n));
    for (int i = 0; i < n; i++) f->m->span_of[p->row + p->T + i] = p->S;
    f->m->span[f->n_span++] = s;
    p->S++;
    p->T += n;
}

/* A span whose rows stay together: into the part that is nearer to its share. */
static void add_whole(filling *f, const ft_span *s)
{
    if (f->m->n < f->most && current(f)->T && room_of(f) < (s->n + 1) / 2) next_part(f);
    add_piece(f, s, 0, s->n);
}

/* The rows of a prompt. */
static void add_prompt(filling *f, const ft_span *s)
{
    for (int from = 0; from < s->n;) {
        const int left = s->n - from, at = s->start + from, room = room_of(f);
        int n = left;
        if (f->m->n < f->most && room < left) {
            n = (at + FT_MAX(room, 0)) / FT_CHUNK_ROWS * FT_CHUNK_ROWS - at;
            if (n <= 0 && !current(f)->T) n = FT_CHUNK_ROWS - at % FT_CHUNK_ROWS;
            n = FT_MIN(n, left);
        }
        if (n > 0) add_piece(f, s, from, n);
        from += FT_MAX(n, 0);
        if (from < s->n) next_part(f);
    }
}

/* false: the output rows are not in the order of the rows. */
static bool share_out_rows(ft_micro *m, const ft_rowset *w)
{
    int i = 0;
    for (int k = 0; k < m->n; k++) {
        ft_micro_part *p = &m->part[k];
        p->out = i;
        for (; i < w->n_out && w->out_row[i] < p->row + p->T; i++) {
            if (w->out_row[i] < p->row) return false;
            m->out_row[i] = w->out_row[i] - p->row;
        }
        p->n_out = i - p->out;
    }
    return i == w->n_out;
}

int ft_micro_cut(ft_micro *m, const ft_rowset *w, int most)
{
    filling f = {.m = m, .most = FT_MIN(most, (int)FT_MICRO_MAX), .rows = w->T};
    m->n = 0;
    if (f.most < 2) return 1;
    next_part(&f);
    for (int i = 0; i < w->S; i++) {
        const ft_span *s = &w->span[i];
        if (s->tentative || s->n <= FT_DECODE_ROWS)
            add_whole(&f, s);
        else
            add_prompt(&f, s);
    }
    return m->n > 1 && share_out_rows(m, w) ? m->n : 1;
}

/* ---- choosing ---- */

static int size_of(int T)
{
    int i = 0;
    while (T > 1 && i < FT_MICRO_SIZES - 1) T /= 2, i++;
    return i;
}

int ft_micro_choose(ft_micro_times *t, int T)
{
    const int size = size_of(T);
    int fewest = 0, best = 0;
    for (int i = 1; i < FT_MICRO_CHOICES; i++) {
        if (t->n[size][i] < t->n[size][fewest]) fewest = i;
        if (t->row_s[size][i] < t->row_s[size][best]) best = i;
    }
    if (t->n[size][fewest] < SAMPLES) return fewest;
    return ++t->steps % AGAIN ? best : (int)(t->steps / AGAIN % FT_MICRO_CHOICES);
}

/* Near the shortest time: what other processes take does not count. */
void ft_micro_timed(ft_micro_times *t, int T, int choice, double seconds)
{
    double *at = &t->row_s[size_of(T)][choice];
    const double each = seconds / T;
    unsigned *n = &t->n[size_of(T)][choice];
    *at = !*n || each < *at ? each : *at + (each - *at) / 16;
    if (*n < UINT32_MAX) ++*n;
}
