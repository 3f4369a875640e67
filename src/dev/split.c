#include "dev/split_priv.h"

#include "base/mem.h"
#include "dev/copies.h"
#include "dev/remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- placement ---- */

int ft_split_output_side(const ft_split_rule *r)
{
    return r->output ? FT_SPLIT_FAST + r->n_end : FT_SPLIT_HOST;
}

int ft_split_layer_side(const ft_split_rule *r, int layer)
{
    int i = 0;
    if (layer >= r->layers) return ft_split_output_side(r);
    if (layer < r->first) return FT_SPLIT_HOST;
    while (i < r->n_end && layer >= r->end[i]) i++;
    return FT_SPLIT_FAST + i;
}

int ft_split_side(const ft_split_rule *r, const char *tensor, bool looked_up)
{
    int l;
    /* one row per token: not worth GPU memory if the host computes too */
    if (looked_up) return r->lookup ? ft_split_layer_side(r, 0) : FT_SPLIT_HOST;
    if (!strncmp(tensor, "per_layer_", 10)) return ft_split_layer_side(r, 0);
    if (sscanf(tensor, "blk.%d.", &l) != 1) return ft_split_output_side(r);
    if (l < r->layers && l < r->experts && strstr(tensor, "_exps")) return FT_SPLIT_HOST;
    return ft_split_layer_side(r, l);
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

/* The device of an allocation. The factors of a matrix are where it is. */
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
    ft_split *s = (ft_split *)d;
    if (d->alloc_for != alloc_for) return;
    s->rule = *r;
    /* ids are sampled where the logits are, if that device can */
    s->ops.draw = s->part[ft_split_output_side(r)]->op->draw ? ft_split_ops.draw : NULL;
}

ft_dev *ft_split_device(ft_dev *d, int side)
{
    return d->alloc_for == alloc_for ? ((ft_split *)d)->part[side] : d;
}

ft_dev *ft_split_local(ft_dev *d)
{
    if (d->alloc_for != alloc_for) return d;
    const ft_split *s = (const ft_split *)d;
    for (int i = FT_SPLIT_FAST; i < s->n; i++)
        if (!s->part[i]->remote) return s->part[i];
    return s->part[FT_SPLIT_HOST];
}

int ft_split_count(const ft_dev *d)
{
    return d->alloc_for == alloc_for ? ((const ft_split *)d)->n : 1;
}

ft_dev *ft_split_use(const ft_split *s, int side)
{
    ft_dev *d = s->part[side];
    if (d->enter) d->enter(d);
    return d;
}

/* ---- memory ---- */

uint64_t ft_split_all(const ft_split *s)
{
    return (UINT64_C(1) << s->n) - 1;
}

/* The first entry whose address is above p. */
static int index_above(const ft_split *s, const void *p)
{
    int lo = 0, hi = s->n_mem;
    while (lo < hi) {
        const int mid = (lo + hi) / 2;
        if ((uintptr_t)s->mem[mid].known > (uintptr_t)p)
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
    return (uintptr_t)p - (uintptr_t)m->known < FT_MAX(m->bytes, 1u) ? m : NULL;
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
    return m->p[side] + ((uintptr_t)p - (uintptr_t)m->known);
}

static void release_parts(ft_split *s, ft_split_mem *m)
{
    for (int i = 0; i < s->n; i++)
        if (m->p[i]) ft_split_use(s, i)->free(s->part[i], m->p[i]);
    ft_free(m->p);
}

static void *split_alloc(ft_dev *d, size_t bytes)
{
    ft_split *s = (ft_split *)d;
    ft_split_mem m = {.bytes = bytes, .side = -1};
    m.scratch = !strcmp(s->alloc_for, FT_ALLOC_SCRATCH);
    /* tables that belong to no tensor are needed by all layers, factors of experts that are spread
     * by several devices */
    if (s->alloc_for[0] && !m.scratch && strcmp(s->alloc_for, "model") &&
        !ft_split_spreads(&s->rule, s->alloc_for))
        m.side = alloc_side(s);
    m.p = ft_new_n(unsigned char *, (size_t)s->n);
    for (int i = 0; i < s->n; i++) {
        if (m.side >= 0 && m.side != i) continue;
        m.p[i] = ft_split_use(s, i)->alloc(s->part[i], bytes);
        if (m.p[i]) continue;
        release_parts(s, &m);
        return NULL;
    }
    m.known = m.p[FT_MAX(m.side, 0)];
    if (m.side < 0) {
        m.run = ft_new_n(ft_split_run, 64);
        m.cap_run = 64;
        m.run[m.n_run++] = (ft_split_run){bytes, ft_split_all(s)};
    }
    if (s->n_mem == s->cap_mem)
        s->mem = ft_realloc(s->mem, sizeof m * (size_t)(s->cap_mem = 2 * s->cap_mem + 64));
    const int at = index_above(s, m.known);
    memmove(s->mem + at + 1, s->mem + at, sizeof m * (size_t)(s->n_mem - at));
    s->mem[at] = m;
    s->n_mem++;
    return m.known;
}

static void split_free(ft_dev *d, void *p)
{
    ft_split *s = (ft_split *)d;
    if (!p) return;
    ft_split_mem *m = ft_split_find(s, p);
    assert(m && m->known == p);
    release_parts(s, m);
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

void ft_split_join_runs(ft_split_mem *m)
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

static void free_bounce(ft_split *s)
{
    if (s->bounce_of)
        s->bounce_of->host_free(s->bounce_of, s->bounce);
    else
        ft_free(s->bounce);
    s->bounce = NULL;
    s->bounce_of = NULL;
}

/* Memory of the first device that makes copies fast with it. */
static void bounce_ready(ft_split *s, size_t n)
{
    if (n <= s->bounce_bytes) return;
    free_bounce(s);
    for (int i = 0; i < s->n && !s->bounce; i++) {
        ft_dev *d = s->part[i];
        s->bounce = d->host_alloc ? ft_split_use(s, i)->host_alloc(d, n) : NULL;
        s->bounce_of = s->bounce ? d : NULL;
    }
    if (!s->bounce) s->bounce = ft_alloc(n);
    s->bounce_bytes = n;
}

void ft_split_copy(ft_split *s, int from, void *src, int to, void *dst, size_t n)
{
    ft_dev *a = s->part[from], *b = s->part[to];
    ft_split_commit_part(s, from);
    ft_split_commit_part(s, to);
    if (s->plans.only) return;
    if (b->copy_from && b->copy_from(b, dst, a, src, n)) return;
    if (!b->unified && !a->unified) bounce_ready(s, n);
    void *host = b->unified ? dst : a->unified ? src : s->bounce;
    if (!a->unified || b->unified) ft_split_use(s, from)->download(a, host, src, n);
    if (!b->unified) ft_split_use(s, to)->upload(b, dst, host, n);
}

static size_t offset_in(const ft_split_mem *m, const void *p)
{
    return (size_t)((uintptr_t)p - (uintptr_t)m->known);
}

int ft_split_last(uint64_t mask)
{
    return mask ? 63 - __builtin_clzll(mask) : FT_SPLIT_HOST;
}

uint64_t ft_split_valid(const ft_split *s, const void *from, size_t n)
{
    const ft_split_mem *m = ft_split_find(s, from);
    if (!m) return ft_split_all(s);
    if (m->side >= 0) return UINT64_C(1) << m->side;
    const size_t lo = offset_in(m, from), hi = lo + n;
    uint64_t mask = ft_split_all(s);
    size_t at = 0;
    for (int i = 0; i < m->n_run && at < hi; at = m->run[i++].end)
        if (m->run[i].end > lo) mask &= m->run[i].mask;
    return mask;
}

void ft_split_need(ft_split *s, const void *from, size_t n, int side)
{
    ft_split_mem *m = ft_split_find(s, from);
    if (!m || m->side >= 0) return;
    if (s->plans.capturing) ft_split_note_read(s, m, from, n, side);
    if (ft_split_valid(s, from, n) >> side & 1) return;
    const size_t lo = offset_in(m, from), hi = lo + n;
    const int first = run_from(m, lo), last = run_from(m, hi);
    for (int i = first; i < last; i++) {
        if (m->run[i].mask >> side & 1) continue;
        const size_t at = i ? m->run[i - 1].end : 0;
        const int by = ft_split_last(m->run[i].mask & ~FT_SPLIT_FRESH);
        const size_t bytes = m->run[i].end - at;
        ft_split_copy(s, by, m->p[by] + at, side, m->p[side] + at, bytes);
        /* others are made before a captured step begins (ft_split_note_read) */
        if (m->run[i].mask & FT_SPLIT_FRESH)
            ft_split_note_copy(s, by, m->p[by] + at, side, m->p[side] + at, bytes);
        m->run[i].mask |= UINT64_C(1) << side;
    }
    ft_split_join_runs(m);
    /* A device may cache its activations in other forms: invalidates them. */
    ft_dev *part = ft_split_use(s, side);
    if (part->unified) part->record(part, part->batch);
}

void ft_split_wrote_all(ft_split *s, const void *from, size_t n, uint64_t mask)
{
    ft_split_mem *m = ft_split_find(s, from);
    if (!m || m->side >= 0) return;
    const size_t lo = offset_in(m, from);
    const int first = run_from(m, lo), last = run_from(m, lo + n);
    if (s->plans.capturing) mask |= FT_SPLIT_FRESH;
    for (int i = first; i < last; i++) m->run[i].mask = mask;
    ft_split_join_runs(m);
}

void ft_split_wrote(ft_split *s, const void *from, size_t n, int side)
{
    ft_split_wrote_all(s, from, n, UINT64_C(1) << side);
}

/* Tables of the model are uploaded to all devices, activations to the host. */
static void upload(ft_dev *d, void *dst, const void *src, size_t bytes)
{
    ft_split *s = (ft_split *)d;
    const ft_split_mem *m = ft_split_find(s, dst);
    assert(m);
    const bool everywhere = m->side < 0 && s->alloc_for[0];
    for (int i = everywhere ? s->n - 1 : FT_MAX(m->side, 0); i >= 0; i--) {
        ft_dev *part = ft_split_use(s, i);
        part->commit(part);
        part->upload(part, ft_split_at(s, dst, i), src, bytes);
        if (part->unified && m->side < 0) part->record(part, part->batch);
        if (!everywhere) break;
    }
    ft_split_wrote_all(s, dst, bytes,
                       everywhere ? ft_split_all(s) : UINT64_C(1) << FT_MAX(m->side, 0));
}

static void download(ft_dev *d, void *dst, const void *src, size_t bytes)
{
    ft_split *s = (ft_split *)d;
    const uint64_t valid = ft_split_valid(s, src, bytes);
    const int side = valid & 1 ? FT_SPLIT_HOST : ft_split_last(valid);
    ft_split_need(s, src, bytes, side);
    ft_dev *part = ft_split_use(s, side);
    part->commit(part);
    part->download(part, dst, ft_split_at(s, src, side), bytes);
}

/* What one device holds is copied together. copying: in the background, or NULL. */
static void copy_parts(ft_dev *d, const ft_copy *list, size_t n, bool in, ft_copying *copying)
{
    ft_split *s = (ft_split *)d;
    ft_copies *of = ft_new_n(ft_copies, (size_t)s->n);
    for (size_t i = 0; i < n; i++) {
        const ft_copy *k = &list[i];
        const ft_split_mem *m = ft_split_find(s, k->device);
        assert(m);
        if (m->side < 0) {
            if (in)
                upload(d, k->device, k->host, k->bytes);
            else
                download(d, k->host, k->device, k->bytes);
            continue;
        }
        of[m->side].dev = ft_split_use(s, m->side);
        of[m->side].in = in;
        ft_copies_add(&of[m->side], k->host, ft_split_at(s, k->device, m->side), k->bytes);
    }
    for (int i = 0; i < s->n; i++) {
        if (!of[i].dev) continue;
        ft_split_use(s, i)->commit(of[i].dev);
        if (copying)
            ft_copies_save(&of[i], copying);
        else
            ft_copies_run(&of[i]);
    }
    ft_free(of);
}

static void copy_list(ft_dev *d, const ft_copy *list, size_t n, bool in)
{
    copy_parts(d, list, n, in, NULL);
}

static void save_list(ft_dev *d, const ft_copy *list, size_t n, ft_copying *copying)
{
    copy_parts(d, list, n, false, copying);
}

static void move(ft_dev *d, void *dst, const void *src, size_t bytes)
{
    ft_split *s = (ft_split *)d;
    const int side = ft_split_last(ft_split_valid(s, src, bytes));
    ft_dev *part = ft_split_use(s, side);
    ft_split_need(s, src, bytes, side);
    part->commit(part);
    part->move(part, ft_split_at(s, dst, side), ft_split_at(s, src, side), bytes);
    ft_split_wrote(s, dst, bytes, side);
}

static ft_dev *holder(ft_dev *d, const void *p)
{
    const ft_split *s = (const ft_split *)d;
    const ft_split_mem *m = ft_split_find(s, p);
    return m && m->side >= 0 ? s->part[m->side] : NULL;
}

/* ---- weights and steps ---- */

enum { GPU_ROWS = 512, CPU_ROWS = 64 };

/* The devices that compute at the same time; a GPU that was opened twice is one. */
static void count_stages(ft_split *s)
{
    s->dev.stages = 0;
    s->dev.part_rows = CPU_ROWS;
    for (int i = 0; i < s->n && !s->spread; i++) {
        const ft_dev *d = s->part[i];
        bool another = s->busy >> i & 1;
        if (another && !d->cpu) s->dev.part_rows = GPU_ROWS;
        for (int j = 0; j < i && !d->cpu; j++)
            another = another && !(s->busy >> j & 1 && !strcmp(d->name, s->part[j]->name));
        s->dev.stages += another;
    }
}

/* Steps are captured if all devices that compute can do that. */
static void choose_capture(ft_split *s)
{
    bool all = s->used != 0 && !s->spread;
    for (int i = 0; i < s->n; i++)
        if (s->used >> i & 1) all = all && s->part[i]->capture_pass;
    s->dev.captures = all;
    s->dev.capture = all ? ft_split_capture : NULL;
    count_stages(s);
}

static ft_status bind(ft_dev *d, ft_weight *w, const void *host, ft_err *err)
{
    ft_split *s = (ft_split *)d;
    const char *name = s->alloc_for[0] ? s->alloc_for : w->name ? w->name : "";
    if (w->E > 1 && ft_split_spreads(&s->rule, name)) {
        const ft_status st = ft_split_bind_spread(s, w, host, err);
        s->ops.expert_linear = NULL; /* adapters for them are refused */
        choose_capture(s);
        return st;
    }
    w->side = w->scale ? ft_split_of(s, w->scale) : ft_split_matrix_side(&s->rule, name, w->lookup);
    if (!w->lookup) s->busy |= UINT64_C(1) << w->side;
    s->used |= UINT64_C(1) << w->side;
    choose_capture(s);
    return ft_split_use(s, w->side)->bind(s->part[w->side], w, host, err);
}

static void unbind(ft_dev *d, ft_weight *w)
{
    ft_split *s = (ft_split *)d;
    if (w->side == FT_SPLIT_SPREAD)
        ft_split_unbind_spread(s, w);
    else
        ft_split_use(s, w->side)->unbind(s->part[w->side], w);
}

static ft_status reserve(ft_dev *d, const ft_dev_limits *l, ft_err *err)
{
    ft_split *s = (ft_split *)d;
    ft_status st = FT_OK;
    ft_split_drop_plans(s);
    for (int i = 0; i < s->n && !st; i++) st = ft_split_use(s, i)->reserve(s->part[i], l, err);
    return st;
}

static void record(ft_dev *d, const ft_batch *b)
{
    ft_split *s = (ft_split *)d;
    d->batch = b;
    s->output = s->output || b->n_out || b->draw;
    for (int i = 0; i < s->n; i++) {
        if (b->draw && i != ft_split_output_side(&s->rule)) continue; /* a step of that one alone */
        s->batch[i] = *b;
        if (b->drawn) s->batch[i].drawn = ft_split_at(s, b->drawn, i);
        ft_split_use(s, i)->record(s->part[i], &s->batch[i]);
    }
    for (int i = 0; i < s->n_mem; i++)
        if (s->mem[i].scratch) {
            s->mem[i].n_run = 1;
            s->mem[i].run[0] = (ft_split_run){s->mem[i].bytes, ft_split_all(s)};
        }
}

/* Devices that run steps on their own are not waited for if the step has no output rows: then they
 * compute parts of a prompt at the same time, each its layers. What has failed is reported by a
 * later call. */
static ft_status sync(ft_dev *d, ft_err *err)
{
    ft_split *s = (ft_split *)d;
    ft_status st = FT_OK;
    if (s->rows_failed)
        return ft_fail(err, FT_ENOMEM,
                       "no device memory for the rows of experts on several devices");
    const bool wait = !d->batch || s->output;
    s->output = false;
    for (int i = 0; i < s->n && !st; i++)
        if (wait || !s->part[i]->pipelined) st = ft_split_use(s, i)->sync(s->part[i], err);
    return st;
}

/* Of the other devices: host memory is not scarce. */
static uint64_t weight_bytes(ft_dev *d, const ft_weight *w)
{
    if (w->side == FT_SPLIT_SPREAD) return ft_split_spread_bytes((ft_split *)d, w);
    ft_dev *part = ft_split_use((ft_split *)d, w->side);
    return w->side == FT_SPLIT_HOST ? 0 : part->weight_bytes(part, w);
}

static uint64_t step_bytes(ft_dev *d, const ft_dev_limits *l)
{
    ft_split *s = (ft_split *)d;
    uint64_t sum = 0;
    for (int i = FT_SPLIT_FAST; i < s->n; i++) sum += ft_split_use(s, i)->step_bytes(s->part[i], l);
    return sum;
}

/* The host's if the others use it too. */
static uint64_t free_bytes(ft_dev *d)
{
    ft_split *s = (ft_split *)d;
    uint64_t sum = 0;
    for (int i = FT_SPLIT_FAST; i < s->n; i++) {
        const uint64_t bytes = ft_split_use(s, i)->free_bytes(s->part[i]);
        if (s->part[i]->unified || ft_dev_is_thread(s->part[i])) return bytes;
        if (!bytes) return 0;
        sum += bytes;
    }
    return sum;
}

static double read_rate(ft_dev *d)
{
    ft_dev *local = ft_split_local(d);
    return local->read_rate(local);
}

static void close(ft_dev *d)
{
    ft_split *s = (ft_split *)d;
    ft_split_free_rows(s);
    free_bounce(s);
    for (int i = s->n - 1; i >= 0; i--) ft_dev_close(ft_split_use(s, i));
    ft_split_drop_plans(s);
    ft_free(s->mem);
    ft_free(s);
}

/* "cuda, cuda:1 and cpu" */
static void name_parts(ft_split *s)
{
    int n = 0;
    for (int i = 1; i <= s->n && n < (int)sizeof s->words; i++)
        n += snprintf(s->words + n, sizeof s->words - (size_t)n, "%s%s",
                      i == 1      ? ""
                      : i == s->n ? " and "
                                  : ", ",
                      s->part[i % s->n]->name);
}

/* A CPU device computes when it is called: beside the host it gets a thread, so that both compute
 * at the same time. */
static ft_dev *on_thread(ft_dev *d)
{
    ft_dev *as = d;
    if (!d->cpu || !d->unified || d->captures) return d;
    (void)ft_dev_thread(&as, d, NULL);
    return as;
}

ft_dev *ft_dev_split(ft_dev *const *dev, int n, const ft_split_rule *r)
{
    assert(n > 1 && n <= FT_SPLIT_MAX && dev[FT_SPLIT_HOST]->unified);
    ft_split *s = ft_new(ft_split);
    bool fused = false;
    for (int i = 0; i < n; i++) {
        s->part[i] = i ? on_thread(dev[i]) : dev[i];
        fused = fused || s->part[i]->op->moe_shared;
    }
    s->ops = ft_split_ops;
    if (!fused) s->ops.moe_shared = NULL;
    for (int i = 0; i < n; i++)
        if (!s->part[i]->op->expert_linear) s->ops.expert_linear = NULL;
    s->n = n;
    name_parts(s);
    s->dev = (ft_dev){
        .op = &s->ops,
        .name = s->words,
        .threads = dev[FT_SPLIT_HOST]->threads,
        .pipelined = true,
        .alloc_for = alloc_for,
        .alloc = split_alloc,
        .free = split_free,
        .upload = upload,
        .download = download,
        .copy_list = copy_list,
        .save_list = save_list,
        .move = move,
        .holder = holder,
        .bind = bind,
        .unbind = unbind,
        .reserve = reserve,
        .weight_bytes = weight_bytes,
        .step_bytes = step_bytes,
        .record = record,
        .replay = ft_split_replay,
        .commit = ft_split_commit,
        .sync = sync,
        .free_bytes = free_bytes,
        .read_rate = read_rate,
        .close = close,
    };
    ft_split_set_rule(&s->dev, r);
    return &s->dev;
}
