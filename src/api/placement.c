/* api/placement.c - where a model's layers are: all on one device, or split over several and the
 * CPU. The required memory is computed before anything is loaded: weights in the devices' layouts,
 * KV cache and journals of their layers, the buffers of steps, and a drafter. */
#include "api/adapters.h"
#include "api/images.h"
#include "base/log.h"
#include "base/mem.h"
#include "model/adapter.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct plan {
    ft_model *model;   /* bound to a device without memory, to compute sizes */
    ft_model *drafter; /* the same for a drafter in its own file; NULL: none */
    const ft_engine_params *engine;
    ft_dev *part[FT_SPLIT_MAX];  /* [n], as in dev/split.h; part[FT_SPLIT_HOST] may be NULL: it is
                                  * opened if it is needed */
    uint64_t room[FT_SPLIT_MAX]; /* bytes that may be used; 0: unknown */
    double share[FT_SPLIT_MAX];  /* of the layers; all 0: by memory */
    int n;
    int local;        /* the device of a draft model and of images (ft_split_local) */
    bool host_shares; /* the host gets layers like the others, not only what does not fit there */
    bool experts;
    uint64_t step, draft, cache[FT_ENGINE_LAYERS]; /* of the engine */
    int n_cache;
    const ft_split_override *over; /* --override-tensor */
    int n_over;
} plan;

/* ---- memory ---- */

/* Bytes of a model's weights on a device; no rule: all of them. Vectors are too small to matter. */
static uint64_t weights_on(const plan *p, const ft_model *m, const ft_split_rule *r, int side)
{
    ft_dev *d = p->part[side];
    uint64_t sum = m->table_bytes;
    for (int i = 0; i < m->n_weights; i++) {
        const ft_weight *w = m->weights[i];
        if (r && w->E > 1 && ft_split_spreads(r, w->name)) {
            ft_weight own = *w;
            int first;
            own.E = ft_split_spread_range(r, w->E, side, &first);
            if (own.E) sum += d->weight_bytes(d, &own);
            continue;
        }
        if (!r || ft_split_matrix_side(r, w->name, w->lookup) == side) sum += d->weight_bytes(d, w);
        /* an embedding that is also the output layer is stored twice (ft_bind_ends) */
        if (r && r->lookup && w->rows && ft_split_side(r, w->name, true) == side)
            sum += d->weight_bytes(d, w);
    }
    return sum;
}

/* Matrices that an override moves to the CPU. */
static int overridden(const plan *p, const ft_split_rule *r)
{
    ft_split_rule plain = *r;
    int n = 0;
    plain.n_over = 0;
    for (int i = 0; i < p->model->n_weights; i++) {
        const ft_weight *w = p->model->weights[i];
        n += ft_split_matrix_side(r, w->name, w->lookup) == FT_SPLIT_HOST &&
             ft_split_matrix_side(&plain, w->name, w->lookup) != FT_SPLIT_HOST;
    }
    return n;
}

/* What a device captures of a split model: its layers of each step, if all devices with weights
 * capture (dev/split.h), and the draft layers on the device of the output. */
static void split_graphs(const plan *p, const ft_split_rule *r, int side, ft_dev_limits *l)
{
    bool all = r->lookup && !r->first && !r->experts && !r->n_over && !r->spread;
    for (int i = FT_SPLIT_FAST; i < p->n; i++) all = all && p->part[i]->capture_pass;
    l->layers = 0;
    for (int i = 0; i < r->layers; i++) l->layers += ft_split_layer_side(r, i) == side;
    if (!all) l->graphs = 0;
    if (!all || side != ft_split_output_side(r)) l->draft_graphs = 0;
}

/* Bytes on a device; no rule: the whole model. A drafter in its own file is on the device of the
 * output, a draft model on the first GPU of this process. */
static uint64_t bytes_on(const plan *p, const ft_split_rule *r, int side)
{
    ft_dev *d = p->part[side];
    ft_dev_limits l = ft_engine_limits(p->model, p->drafter, p->engine);
    if (r) split_graphs(p, r, side, &l);
    uint64_t sum = d->step_bytes(d, &l) + weights_on(p, p->model, r, side) + p->step;
    for (int i = 0; i < p->n_cache; i++)
        if (!r || ft_split_layer_side(r, i) == side) sum += p->cache[i];
    if (!p->drafter) return sum;
    ft_split_rule whole = {.output = true, .n_end = r ? r->n_end : 0};
    if (p->drafter->target)
        sum += weights_on(p, p->drafter, r ? &whole : NULL, side);
    else if (side == p->local)
        sum += weights_on(p, p->drafter, NULL, side) + p->draft;
    return sum;
}

static bool fits(const plan *p, const ft_split_rule *r)
{
    for (int i = p->host_shares ? FT_SPLIT_HOST : FT_SPLIT_FAST; i < p->n; i++)
        if (p->room[i] && bytes_on(p, r, i) > p->room[i]) return false;
    return true;
}

/* ---- ranges of layers ---- */

/* Bytes of a layer: its weights in the layout of the last device, and its cache. */
static uint64_t layer_bytes(const plan *p, int l)
{
    uint64_t sum = p->cache[l];
    ft_dev *d = p->part[p->n - 1];
    char prefix[24];
    const size_t n = (size_t)snprintf(prefix, sizeof prefix, "blk.%d.", l);
    for (int i = 0; i < p->model->n_weights; i++)
        if (!strncmp(p->model->weights[i]->name, prefix, n))
            sum += d->weight_bytes(d, p->model->weights[i]);
    return sum;
}

/* The share of a device in the layers: as requested, or what is left of its memory when the parts
 * of the model that are no layers are placed. */
static double share_of(const plan *p, const ft_split_rule *r, int side)
{
    double sum = 0;
    for (int i = 0; i < p->n; i++) sum += p->share[i];
    if (sum > 0) return p->share[side];
    if (p->part[side]->cpu) return p->part[side]->threads;
    if (!p->room[side]) return 1;
    ft_split_rule none = *r;
    none.first = none.layers = 0;
    const uint64_t fixed = bytes_on(p, &none, side);
    return p->room[side] > fixed ? (double)(p->room[side] - fixed) : 0;
}

/* Sets the ranges: device by device, a layer goes to the device in whose share its middle is. */
static void distribute(const plan *p, ft_split_rule *r)
{
    const int L = r->layers, from = p->host_shares ? FT_SPLIT_HOST : FT_SPLIT_FAST;
    double share[FT_SPLIT_MAX], shares = 0, bytes = 0, before = 0, upto = 0;
    r->n_end = p->n - 1 - FT_SPLIT_FAST;
    if (p->host_shares) r->first = 0;
    for (int i = from; i < p->n; i++) shares += share[i] = share_of(p, r, i);
    for (int l = r->first; l < L; l++) bytes += (double)layer_bytes(p, l);
    int l = r->first;
    for (int i = from; i < p->n; i++) {
        upto += shares > 0 ? share[i] / shares : 1;
        while (l < L && (i == p->n - 1 || before + (double)layer_bytes(p, l) / 2 < upto * bytes))
            before += (double)layer_bytes(p, l++);
        if (i == FT_SPLIT_HOST)
            r->first = l;
        else if (i < p->n - 1)
            r->end[i - FT_SPLIT_FAST] = l;
    }
    r->lookup = p->n > 2 && !r->first && !r->experts && !p->host_shares;
}

/* Experts are moved to the CPU first, because a token needs few of them; then layers, from the
 * first. */
static bool make_fit(const plan *p, ft_split_rule *r, bool experts_given)
{
    const int L = r->layers;
    if (!experts_given && p->experts)
        for (r->experts = 1; r->experts < L; r->experts++) {
            distribute(p, r);
            if (fits(p, r)) return true;
        }
    if (!experts_given) r->experts = p->experts ? L : 0;
    for (int first = 0; first <= L; first++) {
        r->first = first;
        distribute(p, r);
        if (fits(p, r)) return true;
        if (p->host_shares) return false; /* it has its share already */
    }
    return false;
}

/* What was requested, or what fits. false: the whole model is on the first device. */
static ft_status choose(const plan *p, const ft_llm_params *q, bool several, ft_split_rule *r,
                        bool *split, ft_err *err)
{
    const int L = p->model->L;
    const bool layers = q->gpu_layers >= 0, experts = q->cpu_moe >= 0;
    ft_dev *fast = p->part[FT_SPLIT_FAST];
    *r = (ft_split_rule){.output = true, .layers = L, .over = p->over, .n_over = p->n_over};
    if (experts && q->cpu_moe > 0 && !p->experts)
        ft_log(FT_LOG_WARN, "the model has no experts: --cpu-moe has no effect");
    if (experts && p->experts) r->experts = FT_MIN(q->cpu_moe, L);
    if (layers) r->first = FT_MAX(0, L + 1 - FT_MIN(q->gpu_layers, L + 1));
    if (q->split_mode && !strcmp(q->split_mode, "expert")) {
        if (!p->experts)
            ft_log(FT_LOG_WARN, "the model has no experts: --split-mode expert is taken as layer");
        else if (several)
            r->spread = (UINT64_C(1) << p->n) - (p->host_shares ? 1 : 2); /* not the host */
    }
    *split = r->first > 0 || r->experts > 0 || overridden(p, r) > 0;
    const uint64_t room = p->room[FT_SPLIT_FAST];
    if (!several && !*split && (layers || !room || bytes_on(p, NULL, FT_SPLIT_FAST) <= room))
        return FT_OK;
    *split = true;
    distribute(p, r);
    if (layers || fits(p, r)) return FT_OK;
    if (make_fit(p, r, experts && p->experts)) return FT_OK;
    char need[24], have[24];
    int bad = FT_SPLIT_FAST;
    for (int i = FT_SPLIT_FAST; i < p->n; i++)
        if (p->room[i] && bytes_on(p, r, i) > p->room[i]) fast = p->part[bad = i];
    return ft_fail(err, FT_ENOMEM,
                   "%s has %s to spare, and the output and the buffers of steps alone take %s; a "
                   "shorter context, a smaller batch, or --device cpu may do",
                   fast->name, ft_human_bytes(have, p->room[bad]),
                   ft_human_bytes(need, bytes_on(p, r, bad)));
}

/* ---- description ---- */

typedef struct words {
    char *at;
    size_t left;
} words;

static void add_words(words *w, const char *fmt, ...) FT_PRINTF(2, 3);
static void add_words(words *w, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(w->at, w->left, fmt, ap);
    va_end(ap);
    const size_t used = FT_MIN((size_t)FT_MAX(n, 0), w->left - 1);
    w->at += used;
    w->left -= used;
}

/* The layers of a device: [*lo, *hi). */
static void range_of(const ft_split_rule *r, int side, int *lo, int *hi)
{
    *lo = *hi = 0;
    for (int l = 0; l < r->layers; l++)
        if (ft_split_layer_side(r, l) == side) {
            if (*hi == *lo) *lo = l;
            *hi = l + 1;
        }
}

/* "cuda: layers 4 to 7 and the output, 3 GB of 8 GB; " for each device but the host. */
static void describe_parts(ft_llm *m, const plan *p, const ft_split_rule *r, words *w)
{
    char bytes[24], room[24];
    for (int i = FT_SPLIT_FAST; i < p->n; i++) {
        const uint64_t on = bytes_on(p, r, i);
        int lo, hi;
        range_of(r, i, &lo, &hi);
        m->info.device_bytes += on;
        add_words(w, "%s: ", p->part[i]->name);
        if (lo < hi) add_words(w, "layers %d to %d", lo, hi - 1);
        if (i == p->n - 1)
            add_words(w, "%sthe output", lo < hi ? " and " : "");
        else if (lo == hi)
            add_words(w, "no layer");
        add_words(w, ", %s of %s; ", ft_human_bytes(bytes, on),
                  ft_human_bytes(room, p->part[i]->free_bytes(p->part[i])));
    }
}

static void describe_placement(ft_llm *m, const plan *p, const ft_split_rule *r, bool split)
{
    words w = {m->place, sizeof m->place};
    ft_dev *fast = p->part[FT_SPLIT_FAST];
    char bytes[24], room[24];
    m->info.device_bytes = 0;
    if (!split) {
        m->info.device_bytes = bytes_on(p, NULL, FT_SPLIT_FAST);
        add_words(&w, "%s: all of the model, %s of %s", fast->name,
                  ft_human_bytes(bytes, m->info.device_bytes),
                  ft_human_bytes(room, fast->free_bytes(fast)));
        return;
    }
    describe_parts(m, p, r, &w);
    if (r->lookup && !overridden(p, r)) { /* nothing is on the CPU */
        w.at[-2] = 0;
        return;
    }
    add_words(&w, "cpu: ");
    if (r->first) add_words(&w, "layers 0 to %d, ", r->first - 1);
    if (r->experts > r->first)
        add_words(&w, "experts of layers %d to %d, ", r->first, r->experts - 1);
    if (overridden(p, r))
        add_words(&w, "%d matrices by pattern%s", overridden(p, r), r->lookup ? "" : ", ");
    if (!r->lookup) add_words(&w, "the embedding");
}

/* ---- the plan ---- */

static bool has_experts(const ft_model *m)
{
    for (int i = 0; i < m->n_weights; i++)
        if (m->weights[i]->E > 1) return true;
    return false;
}

/* The devices of the plan that are not used are closed. */
static void close_others(ft_llm *m)
{
    for (int i = 0; i < m->n_more; i++) ft_dev_close(m->more[i]);
    m->n_more = 0;
}

static ft_status place(ft_llm *m, plan *p, const ft_llm_params *q, ft_err *err)
{
    ft_split_rule r;
    bool split = true;
    ft_status st = FT_OK;
    if (m->all_gpus) { /* one is enough if the model fits */
        plan first = *p;
        first.n = FT_SPLIT_FAST + 1;
        first.share[FT_SPLIT_FAST] = 1;
        st = choose(&first, q, false, &r, &split, err);
        if (!st && !split) {
            describe_placement(m, &first, &r, false);
            close_others(m);
            return FT_OK;
        }
    }
    st = choose(p, q, m->n_more > 0, &r, &split, err);
    if (st) return st;
    describe_placement(m, p, &r, split);
    if (!split) return FT_OK;
    if (!p->part[FT_SPLIT_HOST]) p->part[FT_SPLIT_HOST] = ft_dev_cpu(q->threads);
    m->dev = ft_dev_split(p->part, p->n, &r);
    m->n_more = 0; /* it owns them */
    m->rule = r;
    return FT_OK;
}

/* The CPU device holds everything; so does a device with host memory unless a split was
 * requested. */
static bool nothing_to_place(const ft_llm *m, const ft_llm_params *p)
{
    const bool asked = (p->gpu_layers >= 0 && p->gpu_layers < INT_MAX) || p->cpu_moe > 0 ||
                       p->n_override_tensor > 0;
    if (m->n_more) return false;
    if (strcmp(m->dev->name, "cpu")) return m->dev->unified && !asked;
    if (p->gpu_layers > 0 || p->cpu_moe > 0 || p->n_override_tensor > 0)
        ft_log(FT_LOG_WARN, "the device is cpu, which has all layers: --gpu-layers, --cpu-moe and "
                            "--override-tensor have no effect");
    return true;
}

/* The vision tower and its largest image. */
static uint64_t images_bytes(const ft_llm *m, const plan *a, const ft_llm_params *p, ft_dev *none)
{
    int most = 0;
    ft_vision *v = ft_llm_size_images(m, p, none, &most);
    const uint64_t bytes = v ? weights_on(a, v->m, NULL, a->local) + ft_vision_bytes(v, most) : 0;
    ft_vision_close(v);
    return bytes;
}

/* Of the adapters, as if all of them were on the device. */
static uint64_t adapters_bytes(const plan *a, const ft_model *m)
{
    ft_dev *d = a->part[a->local];
    uint64_t sum = 0;
    for (int i = 0; i < m->n_adapter; i++)
        for (int j = 0; j < m->adapter[i]->n; j++) {
            const ft_lora *l = &m->adapter[i]->lora[j];
            sum += d->weight_bytes(d, &l->a) + d->weight_bytes(d, &l->b);
        }
    return sum;
}

/* ---- devices and shares ---- */

static bool is_cpu(const ft_dev *d)
{
    return !strcmp(d->name, "cpu");
}

/* The host is the first CPU of the list; without one, a CPU that gets what does not fit elsewhere.
 * It has the same share as the others if there is no GPU. listed[i]: the device at place i of
 * --device. */
static void order_devices(plan *a, const ft_llm *m, int *listed)
{
    a->n = FT_SPLIT_FAST;
    a->host_shares = true;
    for (int i = 0; i <= m->n_more; i++) {
        ft_dev *d = i ? m->more[i - 1] : m->dev;
        const bool host = m->n_more && is_cpu(d) && !a->part[FT_SPLIT_HOST];
        a->host_shares = a->host_shares && d->cpu;
        listed[i] = host ? FT_SPLIT_HOST : a->n++;
        a->part[listed[i]] = d;
    }
    a->host_shares = a->host_shares && m->n_more;
    for (int i = a->n - 1; i >= FT_SPLIT_FAST; i--)
        if (!a->part[i]->remote && !is_cpu(a->part[i])) a->local = i;
}

/* --tensor-split: "3,1", or "3/1". */
static ft_status read_shares(plan *a, const ft_llm *m, const int *listed, const char *text,
                             ft_err *err)
{
    double sum = 0;
    int n = 0;
    if (!text || !*text) return FT_OK;
    for (const char *at = text; at; n++) {
        char *end;
        const double v = strtod(at, &end);
        if (end == at || !(v >= 0 && v < 1e9) || (*end && *end != ',' && *end != '/'))
            return ft_fail(err, FT_EINVAL, "--tensor-split %.80s, want numbers from 0 on: 3,1",
                           text);
        if (n <= m->n_more) {
            a->share[listed[n]] = v;
            if (listed[n] == FT_SPLIT_HOST && v > 0) a->host_shares = true;
        } else if (v > 0) {
            return ft_fail(err, FT_EINVAL,
                           "--tensor-split %.80s has more than %d shares, want one "
                           "for each device",
                           text, m->n_more + 1);
        }
        sum += v;
        at = *end ? end + 1 : NULL;
    }
    if (sum > 0) return FT_OK;
    return ft_fail(err, FT_EINVAL, "--tensor-split %.80s, want a share above 0", text);
}

static void read_rooms(plan *a, const ft_llm_params *p)
{
    const uint64_t spare = (uint64_t)p->fit_target << 20;
    for (int i = 0; i < a->n; i++) {
        uint64_t room = a->part[i] ? a->part[i]->free_bytes(a->part[i]) : 0, same = 0;
        for (int j = 0; room && j < a->n; j++) /* opened twice: they share the memory */
            same += a->part[j] && !strcmp(a->part[j]->name, a->part[i]->name);
        if (same) room /= same;
        a->room[i] = room > spare ? room - spare : room ? 1 : 0;
    }
}

/* Binds the model and the -md file without memory and computes their sizes. A drafter that
 * cannot be read is reported later. */
static ft_status place_file(ft_llm *m, ft_dev *none, const ft_llm_params *p,
                            const ft_draft_methods *d, ft_err *err)
{
    ft_llm seen = {.dev = none};
    ft_llm_params q = *p;
    ft_draft_methods kinds = *d;
    ft_engine_params e;
    int listed[FT_SPLIT_MAX];
    plan *a = ft_new(plan);
    q.progress = NULL;
    q.no_mmap = false;
    order_devices(a, m, listed);
    ft_status st = read_shares(a, m, listed, p->tensor_split, err);
    if (!st) st = ft_llm_open_file(&seen.model, m->path, none, NULL, &q, err);
    if (!st) (void)ft_llm_open_drafter(&seen, &q, &kinds, NULL);
    if (!st) (void)ft_llm_open_adapters(&seen, &q, NULL);
    if (!st) st = ft_llm_engine_params(&e, seen.model, p, &kinds, err);
    if (!st) {
        a->model = seen.model;
        a->drafter = seen.assistant;
        a->engine = &e;
        a->experts = has_experts(seen.model);
        a->over = m->over;
        a->n_over = m->n_over;
        a->n_cache = ft_engine_parts(a->model, a->drafter, &e, &a->step, &a->draft, a->cache);
        read_rooms(a, p);
        uint64_t *room = &a->room[a->local];
        const uint64_t more = *room && a->part[a->local]
                                  ? images_bytes(m, a, p, none) + adapters_bytes(a, seen.model)
                                  : 0;
        if (more) *room = *room > more ? *room - more : 1;
        st = place(m, a, p, err);
    }
    ft_free(a);
    ft_model_close(seen.assistant);
    ft_model_close(seen.model);
    return st;
}

ft_status ft_llm_place(ft_llm *m, const ft_llm_params *p, const ft_draft_methods *d, ft_err *err)
{
    const ft_status bad = ft_llm_read_overrides(m, p, err);
    if (bad) return bad;
    if (nothing_to_place(m, p)) return FT_OK;
    if (p->gpu_layers == 0) { /* nothing is on the devices: they are not needed */
        close_others(m);
        ft_dev_close(m->dev);
        m->dev = ft_dev_cpu(p->threads);
        snprintf(m->place, sizeof m->place, "cpu: all of the model");
        return FT_OK;
    }
    ft_dev *none = ft_dev_ref();
    const ft_status st = place_file(m, none, p, d, err);
    ft_dev_close(none);
    return st;
}
