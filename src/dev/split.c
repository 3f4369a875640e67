#include "dev/split_priv.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BOTH = 3 };

/* ---- placement ---- */

int ft_split_side(const ft_split_rule *r, const char *tensor, bool looked_up)
{
    int l;
    if (looked_up) return FT_SPLIT_HOST; /* one row per token: not worth GPU memory */
    if (sscanf(tensor, "blk.%d.", &l) != 1 || l >= r->layers)
        return r->output ? FT_SPLIT_FAST : FT_SPLIT_HOST;
    if (l < r->first) return FT_SPLIT_HOST;
    return l < r->experts && strstr(tensor, "_exps") ? FT_SPLIT_HOST : FT_SPLIT_FAST;
}

/* The override that a name matches, or NULL. */
static const ft_split_override *find_override(const ft_split_rule *r, const char *name)
{
    for (int i = 0; i < r->n_over; i++)
        if (!regexec(&r->over[i].re, name, 0, NULL, 0)) return &r->over[i];
    return NULL;
}

int ft_split_matrix_side(const ft_split_rule *r, const char *tensor, bool looked_up)
{
    static const char *const experts[] = {"gate", "up", "gate_up", "down", NULL};
    static const char *const pair[] = {"gate", "up", NULL}, *const alone[] = {NULL};
    const ft_split_override *o = find_override(r, tensor);
    const char *ffn = strstr(tensor, ".ffn_"), *what = ffn ? ffn + 5 : "";
    const char *exps = strstr(what, "_exps."), *shared = strstr(what, "_shexp.");
    const char *rest = exps ? exps : shared ? shared : what + strcspn(what, ".");
    const size_t n = (size_t)(rest - what);
    const bool gated = (n == 4 && !memcmp(what, "gate", n)) || (n == 2 && !memcmp(what, "up", n));
    for (const char *const *m = exps ? experts : gated ? pair : alone; !o && *m; m++) {
        char other[128];
        snprintf(other, sizeof other, "%.*s.ffn_%s%s", (int)(ffn - tensor), tensor, *m, rest);
        o = find_override(r, other);
    }
    return o ? o->side : ft_split_side(r, tensor, looked_up);
}

/* The side of an allocation. The factors of a matrix are on its side. */
static int alloc_side(const ft_split *s)
{
    char matrix[sizeof s->alloc_for + 8];
    const size_t n = strlen(s->alloc_for);
    if (n < 6 || strcmp(s->alloc_for + n - 6, ".scale"))
        return ft_split_side(&s->rule, s->alloc_for, false);
    snprintf(matrix, sizeof matrix, "%.*s.weight", (int)(n - 6), s->alloc_for);
    return ft_split_matrix_side(&s->rule, matrix, false);
}

static void alloc_for(ft_dev *d, const char *tensor)
{
    ft_split *s = (ft_split *)d;
    snprintf(s->alloc_for, sizeof s->alloc_for, "%s", tensor ? tensor : "");
}

void ft_split_set_rule(ft_dev *d, const ft_split_rule *r)
{
    if (d->alloc_for == alloc_for) ((ft_split *)d)->rule = *r;
}

ft_dev *ft_split_device(ft_dev *d, int side)
{
    return d->alloc_for == alloc_for ? ((ft_split *)d)->half[side] : d;
}

/* ---- memory ---- */

static unsigned char *known_as(const ft_split_mem *m)
{
    return m->p[m->side < 0 ? FT_SPLIT_FAST : m->side];
}

/* The first entry whose address is above p. */
static int index_above(const ft_split *s, const void *p)
{
    int lo = 0, hi = s->n_mem;
    while (lo < hi) {
        const int mid = (lo + hi) / 2;
        if ((uintptr_t)known_as(&s->mem[mid]) > (uintptr_t)p)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

ft_split_mem *ft_split_find(const ft_split *s, const void *p)
{
    const int i = index_above(s, p) - 1;
    if (i < 0) return NULL;
    ft_split_mem *m = &s->mem[i];
    return (uintptr_t)p - (uintptr_t)known_as(m) < FT_MAX(m->bytes, 1u) ? m : NULL;
}

int ft_split_of(const ft_split *s, const void *p)
{
    const ft_split_mem *m = ft_split_find(s, p);
    assert(m && m->side >= 0);
    return m->side;
}

void *ft_split_at(const ft_split *s, const void *p, int side)
{
    const ft_split_mem *m = ft_split_find(s, p);
    if (!m || m->side >= 0) return (void *)(uintptr_t)p;
    return m->p[side] + ((uintptr_t)p - (uintptr_t)m->p[FT_SPLIT_FAST]);
}

static void *split_alloc(ft_dev *d, size_t bytes)
{
    ft_split *s = (ft_split *)d;
    ft_split_mem m = {.bytes = bytes, .side = -1};
    if (s->alloc_for[0]) m.side = alloc_side(s);
    for (int i = 0; i < 2; i++) {
        if (m.side >= 0 && m.side != i) continue;
        m.p[i] = s->half[i]->alloc(s->half[i], bytes);
        if (m.p[i]) continue;
        if (i) s->half[0]->free(s->half[0], m.p[0]);
        return NULL;
    }
    if (m.side < 0) {
        m.run = ft_new_n(ft_split_run, 64);
        m.cap_run = 64;
        m.run[m.n_run++] = (ft_split_run){bytes, BOTH};
    }
    if (s->n_mem == s->cap_mem)
        s->mem = ft_realloc(s->mem, sizeof m * (size_t)(s->cap_mem = 2 * s->cap_mem + 64));
    const int at = index_above(s, known_as(&m));
    memmove(s->mem + at + 1, s->mem + at, sizeof m * (size_t)(s->n_mem - at));
    s->mem[at] = m;
    s->n_mem++;
    return known_as(&m);
}

static void split_free(ft_dev *d, void *p)
{
    ft_split *s = (ft_split *)d;
    if (!p) return;
    ft_split_mem *m = ft_split_find(s, p);
    assert(m && known_as(m) == p);
    for (int i = 0; i < 2; i++)
        if (m->p[i]) s->half[i]->free(s->half[i], m->p[i]);
    ft_free(m->run);
    memmove(m, m + 1, sizeof *m * (size_t)(s->mem + --s->n_mem - m));
}

/* ---- validity ---- */

/* The run that begins at `at`; splits the run that contains it if need be. */
static int run_from(ft_split_mem *m, size_t at)
{
    int i = 0;
    while (i < m->n_run && m->run[i].end <= at) i++;
    if (i == m->n_run || at == (i ? m->run[i - 1].end : 0)) return i;
    if (m->n_run == m->cap_run)
        m->run = ft_realloc(m->run, sizeof *m->run * (size_t)(m->cap_run *= 2));
    memmove(m->run + i + 1, m->run + i, sizeof *m->run * (size_t)(m->n_run++ - i));
    m->run[i].end = at;
    return i + 1;
}

static void join_runs(ft_split_mem *m)
{
    int n = 0;
    for (int i = 0; i < m->n_run; i++) {
        if (n && m->run[n - 1].mask == m->run[i].mask)
            m->run[n - 1].end = m->run[i].end;
        else
            m->run[n++] = m->run[i];
    }
    m->n_run = n;
}

/* Waits until everything recorded so far has run. */
static void wait_for_both(ft_split *s)
{
    for (int i = 0; i < 2; i++) {
        s->half[i]->commit(s->half[i]);
        s->half[i]->sync(s->half[i], NULL); /* the device keeps the error */
    }
}

/* Both sides are idle: earlier reads of the destination have finished. */
static void copy_run(ft_split *s, const ft_split_mem *m, size_t from, size_t to, int side)
{
    ft_dev *fast = s->half[FT_SPLIT_FAST];
    unsigned char *f = m->p[FT_SPLIT_FAST] + from, *h = m->p[FT_SPLIT_HOST] + from;
    if (side == FT_SPLIT_HOST)
        fast->download(fast, h, f, to - from);
    else
        fast->upload(fast, f, h, to - from);
}

static size_t offset_in(const ft_split_mem *m, const void *p)
{
    return (size_t)((uintptr_t)p - (uintptr_t)m->p[FT_SPLIT_FAST]);
}

bool ft_split_valid(const ft_split *s, const void *from, size_t n, int side)
{
    const ft_split_mem *m = ft_split_find(s, from);
    if (!m || m->side >= 0) return true;
    const size_t lo = offset_in(m, from), hi = lo + n;
    size_t at = 0;
    for (int i = 0; i < m->n_run && at < hi; at = m->run[i++].end)
        if (m->run[i].end > lo && !(m->run[i].mask >> side & 1)) return false;
    return true;
}

void ft_split_need(ft_split *s, const void *from, size_t n, int side)
{
    ft_split_mem *m = ft_split_find(s, from);
    if (ft_split_valid(s, from, n, side)) return;
    wait_for_both(s);
    const size_t lo = offset_in(m, from), hi = lo + n;
    const int first = run_from(m, lo), last = run_from(m, hi);
    for (int i = first; i < last; i++) {
        if (!(m->run[i].mask >> side & 1))
            copy_run(s, m, i ? m->run[i - 1].end : 0, m->run[i].end, side);
        m->run[i].mask = BOTH;
    }
    join_runs(m);
    /* A device may cache its activations in other forms: invalidates them. */
    if (s->half[side]->unified) s->half[side]->record(s->half[side], s->half[side]->batch);
}

void ft_split_wrote(ft_split *s, const void *from, size_t n, int side)
{
    ft_split_mem *m = ft_split_find(s, from);
    if (!m || m->side >= 0) return;
    const size_t lo = offset_in(m, from);
    const int first = run_from(m, lo), last = run_from(m, lo + n);
    for (int i = first; i < last; i++) m->run[i].mask = 1u << side;
    join_runs(m);
}

static void upload(ft_dev *d, void *dst, const void *src, size_t bytes)
{
    ft_split *s = (ft_split *)d;
    const ft_split_mem *m = ft_split_find(s, dst);
    assert(m);
    const int side = m->side >= 0 ? m->side : FT_SPLIT_HOST;
    wait_for_both(s);
    s->half[side]->upload(s->half[side], ft_split_at(s, dst, side), src, bytes);
    ft_split_wrote(s, dst, bytes, side);
}

static void download(ft_dev *d, void *dst, const void *src, size_t bytes)
{
    ft_split *s = (ft_split *)d;
    const ft_split_mem *m = ft_split_find(s, src);
    assert(m);
    const int side = m->side >= 0 ? m->side : FT_SPLIT_HOST;
    ft_split_need(s, src, bytes, side);
    wait_for_both(s);
    s->half[side]->download(s->half[side], dst, ft_split_at(s, src, side), bytes);
}

static void move(ft_dev *d, void *dst, const void *src, size_t bytes)
{
    ft_split *s = (ft_split *)d;
    const int side = ft_split_valid(s, src, bytes, FT_SPLIT_FAST) ? FT_SPLIT_FAST : FT_SPLIT_HOST;
    s->half[side]->commit(s->half[side]);
    s->half[side]->move(s->half[side], ft_split_at(s, dst, side), ft_split_at(s, src, side), bytes);
    ft_split_wrote(s, dst, bytes, side);
}

/* ---- weights and steps ---- */

static ft_status bind(ft_dev *d, ft_weight *w, const void *host, ft_err *err)
{
    ft_split *s = (ft_split *)d;
    const char *name = s->alloc_for[0] ? s->alloc_for : w->name ? w->name : "";
    w->side = w->scale ? ft_split_of(s, w->scale) : ft_split_matrix_side(&s->rule, name, w->lookup);
    return s->half[w->side]->bind(s->half[w->side], w, host, err);
}

static void unbind(ft_dev *d, ft_weight *w)
{
    ft_split *s = (ft_split *)d;
    s->half[w->side]->unbind(s->half[w->side], w);
}

static ft_status reserve(ft_dev *d, const ft_dev_limits *l, ft_err *err)
{
    ft_split *s = (ft_split *)d;
    const ft_status st = s->half[0]->reserve(s->half[0], l, err);
    return st ? st : s->half[1]->reserve(s->half[1], l, err);
}

static void record(ft_dev *d, const ft_batch *b)
{
    ft_split *s = (ft_split *)d;
    d->batch = b;
    for (int i = 0; i < 2; i++) s->half[i]->record(s->half[i], b);
}

static bool replay(ft_dev *d, const void *pass)
{
    (void)d, (void)pass;
    return false;
}

static void commit(ft_dev *d)
{
    ft_split *s = (ft_split *)d;
    for (int i = 0; i < 2; i++) s->half[i]->commit(s->half[i]);
}

static ft_status sync(ft_dev *d, ft_err *err)
{
    ft_split *s = (ft_split *)d;
    const ft_status st = s->half[0]->sync(s->half[0], err);
    return st ? st : s->half[1]->sync(s->half[1], err);
}

/* Of the fast side only: host memory is not scarce. */
static uint64_t weight_bytes(ft_dev *d, const ft_weight *w)
{
    ft_dev *fast = ((ft_split *)d)->half[FT_SPLIT_FAST];
    return w->side == FT_SPLIT_FAST ? fast->weight_bytes(fast, w) : 0;
}

static uint64_t step_bytes(ft_dev *d, const ft_dev_limits *l)
{
    ft_dev *fast = ((ft_split *)d)->half[FT_SPLIT_FAST];
    return fast->step_bytes(fast, l);
}

static uint64_t free_bytes(ft_dev *d)
{
    ft_split *s = (ft_split *)d;
    return s->half[FT_SPLIT_FAST]->free_bytes(s->half[FT_SPLIT_FAST]);
}

static double read_rate(ft_dev *d)
{
    ft_split *s = (ft_split *)d;
    return s->half[FT_SPLIT_FAST]->read_rate(s->half[FT_SPLIT_FAST]);
}

static void close(ft_dev *d)
{
    ft_split *s = (ft_split *)d;
    for (int i = 0; i < 2; i++) ft_dev_close(s->half[i]);
    ft_free(s->mem);
    ft_free(s);
}

ft_dev *ft_dev_split(ft_dev *fast, ft_dev *host, const ft_split_rule *r)
{
    assert(host->unified);
    ft_split *s = ft_new(ft_split);
    s->half[FT_SPLIT_FAST] = fast;
    s->half[FT_SPLIT_HOST] = host;
    s->rule = *r;
    snprintf(s->words, sizeof s->words, "%s and %s", fast->name, host->name);
    s->dev = (ft_dev){
        .op = &ft_split_ops,
        .name = s->words,
        .threads = host->threads,
        .alloc_for = alloc_for,
        .alloc = split_alloc,
        .free = split_free,
        .upload = upload,
        .download = download,
        .move = move,
        .bind = bind,
        .unbind = unbind,
        .reserve = reserve,
        .weight_bytes = weight_bytes,
        .step_bytes = step_bytes,
        .record = record,
        .replay = replay,
        .commit = commit,
        .sync = sync,
        .free_bytes = free_bytes,
        .read_rate = read_rate,
        .close = close,
    };
    return &s->dev;
}
