/* api/placement.c - where a model's layers are: all on its device, or some on the CPU. The
 * required memory is computed before anything is loaded: weights in the device's layout, KV
 * cache and journals of its layers, the buffers of steps, and a drafter. */
#include "api/adapters.h"
#include "api/images.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "model/adapter.h"

#include <limits.h>
#include <stdio.h>
#include <strings.h>

typedef struct plan {
    ft_model *model;   /* bound to a device without memory, to compute sizes */
    ft_model *drafter; /* the same for a drafter in its own file; NULL: none */
    const ft_engine_params *engine;
    ft_dev *dev;
    uint64_t room;
    bool experts;
    const ft_split_override *over; /* --override-tensor */
    int n_over;
} plan;

/* Bytes of a model's weights on the device; no rule: all of them. Vectors are too small to
 * matter. */
static uint64_t weights_on(const plan *p, const ft_model *m, const ft_split_rule *r)
{
    uint64_t sum = m->table_bytes;
    for (int i = 0; i < m->n_weights; i++) {
        const ft_weight *w = m->weights[i];
        if (!r || ft_split_matrix_side(r, w->name, w->lookup) == FT_SPLIT_FAST)
            sum += p->dev->weight_bytes(p->dev, w);
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
             ft_split_matrix_side(&plain, w->name, w->lookup) == FT_SPLIT_FAST;
    }
    return n;
}

/* Bytes on the device; no rule: the whole model. A drafter is always on the device. */
static uint64_t bytes_on(const plan *p, const ft_split_rule *r)
{
    static const ft_split_rule whole = {.output = true};
    ft_dev_limits l = ft_engine_limits(p->model, p->drafter, p->engine);
    if (r) l.graphs = l.draft_graphs = 0; /* steps across two devices are not captured */
    uint64_t sum = p->dev->step_bytes(p->dev, &l) + weights_on(p, p->model, r) +
                   ft_engine_bytes_from(p->model, p->drafter, p->engine, r ? r->first : 0);
    if (p->drafter) sum += weights_on(p, p->drafter, r && p->drafter->target ? &whole : NULL);
    return sum;
}

/* Experts are moved to the CPU first, because a token needs few of them; then layers, from the
 * first. */
static bool make_fit(const plan *p, ft_split_rule *r, bool experts_given)
{
    const int L = r->layers;
    if (!experts_given && p->experts)
        for (r->experts = 1; r->experts < L; r->experts++)
            if (bytes_on(p, r) <= p->room) return true;
    if (!experts_given) r->experts = p->experts ? L : 0;
    for (r->first = 0; r->first <= L; r->first++)
        if (bytes_on(p, r) <= p->room) return true;
    return false;
}

/* What was requested, or what fits. false: the whole model is on the device. */
static ft_status choose(const plan *p, const ft_llm_params *q, ft_split_rule *r, bool *split,
                        ft_err *err)
{
    const int L = p->model->L;
    const bool layers = q->gpu_layers >= 0, experts = q->cpu_moe >= 0;
    *r = (ft_split_rule){.output = true, .layers = L, .over = p->over, .n_over = p->n_over};
    if (experts && q->cpu_moe > 0 && !p->experts)
        ft_log(FT_LOG_WARN, "the model has no experts: --cpu-moe has no effect");
    if (experts && p->experts) r->experts = FT_MIN(q->cpu_moe, L);
    if (layers) r->first = FT_MAX(0, L + 1 - FT_MIN(q->gpu_layers, L + 1));
    *split = r->first > 0 || r->experts > 0 || overridden(p, r) > 0;
    if (layers || !p->room || bytes_on(p, *split ? r : NULL) <= p->room) return FT_OK;
    *split = true;
    if (make_fit(p, r, experts && p->experts)) return FT_OK;
    char need[24], have[24];
    return ft_fail(err, FT_ENOMEM,
                   "%s has %s to spare, and the output and the buffers of steps alone take %s; a "
                   "shorter context, a smaller batch, or --device cpu may do",
                   p->dev->name, ft_human_bytes(have, p->room),
                   ft_human_bytes(need, bytes_on(p, r)));
}

/* ---- description ---- */

static void describe_placement(ft_llm *m, const plan *p, const ft_split_rule *r, bool split)
{
    char *out = m->place, bytes[24], room[24];
    const size_t cap = sizeof m->place;
    const int L = p->model->L;
    m->info.device_bytes = bytes_on(p, split ? r : NULL);
    ft_human_bytes(bytes, m->info.device_bytes);
    ft_human_bytes(room, p->dev->free_bytes(p->dev));
    if (!split) {
        snprintf(out, cap, "%s: all of the model, %s of %s", p->dev->name, bytes, room);
        return;
    }
    int n = snprintf(out, cap, "%s: ", p->dev->name);
    if (r->first < L)
        n += snprintf(out + n, cap - (size_t)n, "layers %d to %d and ", r->first, L - 1);
    n += snprintf(out + n, cap - (size_t)n, "the output, %s of %s; cpu: ", bytes, room);
    if (r->first) n += snprintf(out + n, cap - (size_t)n, "layers 0 to %d, ", r->first - 1);
    if (r->experts > r->first)
        n += snprintf(out + n, cap - (size_t)n, "experts of layers %d to %d, ", r->first,
                      r->experts - 1);
    if (overridden(p, r))
        n += snprintf(out + n, cap - (size_t)n, "%d matrices by pattern, ", overridden(p, r));
    snprintf(out + n, cap - (size_t)n, "the embedding");
}

/* ---- the plan ---- */

static bool has_experts(const ft_model *m)
{
    for (int i = 0; i < m->n_weights; i++)
        if (m->weights[i]->E > 1) return true;
    return false;
}

static ft_status place(ft_llm *m, const plan *p, const ft_llm_params *q, ft_err *err)
{
    ft_split_rule r;
    bool split;
    const ft_status st = choose(p, q, &r, &split, err);
    if (st) return st;
    describe_placement(m, p, &r, split);
    if (split) m->dev = ft_dev_split(m->dev, ft_dev_cpu(q->threads), &r);
    if (split) m->rule = r;
    return FT_OK;
}

/* The CPU device holds everything; so does a device with host memory unless a split was
 * requested. */
static bool nothing_to_place(const ft_llm *m, const ft_llm_params *p)
{
    const bool asked = (p->gpu_layers >= 0 && p->gpu_layers < INT_MAX) || p->cpu_moe > 0 ||
                       p->n_override_tensor > 0;
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
    const uint64_t bytes = v ? weights_on(a, v->m, NULL) + ft_vision_bytes(v, most) : 0;
    ft_vision_close(v);
    return bytes;
}

/* Of the adapters, as if all of them were on the device. */
static uint64_t adapters_bytes(const plan *a, const ft_model *m)
{
    uint64_t sum = 0;
    for (int i = 0; i < m->n_adapter; i++)
        for (int j = 0; j < m->adapter[i]->n; j++) {
            const ft_lora *l = &m->adapter[i]->lora[j];
            sum += a->dev->weight_bytes(a->dev, &l->a) + a->dev->weight_bytes(a->dev, &l->b);
        }
    return sum;
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
    q.progress = NULL;
    q.no_mmap = false;
    ft_status st = ft_llm_open_file(&seen.model, m->path, none, NULL, &q, err);
    if (!st) (void)ft_llm_open_drafter(&seen, &q, &kinds, NULL);
    if (!st) (void)ft_llm_open_adapters(&seen, &q, NULL);
    if (!st) st = ft_llm_engine_params(&e, seen.model, p, &kinds, err);
    if (!st) {
        const uint64_t room = m->dev->free_bytes(m->dev), spare = (uint64_t)p->fit_target << 20;
        plan a = {.model = seen.model,
                  .drafter = seen.assistant,
                  .engine = &e,
                  .dev = m->dev,
                  .room = room > spare ? room - spare
                          : room       ? 1
                                       : 0,
                  .experts = has_experts(seen.model),
                  .over = m->over,
                  .n_over = m->n_over};
        const uint64_t more =
            a.room ? images_bytes(m, &a, p, none) + adapters_bytes(&a, seen.model) : 0;
        if (more) a.room = a.room > more ? a.room - more : 1;
        st = place(m, &a, p, err);
    }
    ft_model_close(seen.assistant);
    ft_model_close(seen.model);
    return st;
}

/* ---- tensors by pattern ---- */

/* "PATTERN=NAME". POSIX patterns have no \d, which people use. */
static ft_status add_override(ft_llm *m, char *text, ft_err *err)
{
    char *name = strrchr(text, '=');
    if (!name || name == text)
        return ft_fail(err, FT_EINVAL, "--override-tensor: \"%.80s\", want PATTERN=CPU", text);
    *name++ = 0;
    const bool host = !strcasecmp(name, "CPU");
    if (!host && strcasecmp(name, m->dev->name) && strcasecmp(name, "CUDA0"))
        return ft_fail(err, FT_EINVAL, "--override-tensor: %.80s=%.40s, want CPU or CUDA0", text,
                       name);
    ft_buf pattern;
    ft_buf_init(&pattern, 1 << 16);
    for (const char *p = text; *p; p++) {
        const bool digit = p[0] == '\\' && p[1] == 'd', pair = p[0] == '\\' && p[1];
        if (digit)
            ft_buf_puts(&pattern, "[0-9]");
        else
            ft_buf_put(&pattern, p, pair ? 2 : 1);
        p += pair;
    }
    m->over = ft_realloc(m->over, sizeof *m->over * (size_t)(m->n_over + 1));
    ft_split_override *o = &m->over[m->n_over];
    *o = (ft_split_override){.side = host ? FT_SPLIT_HOST : FT_SPLIT_FAST};
    const int bad = regcomp(&o->re, ft_buf_z(&pattern), REG_EXTENDED | REG_NOSUB);
    ft_buf_release(&pattern);
    if (!bad) {
        m->n_over++;
        return FT_OK;
    }
    char why[100];
    regerror(bad, &o->re, why, sizeof why);
    return ft_fail(err, FT_EINVAL, "--override-tensor: pattern \"%.80s\": %s", text, why);
}

static ft_status read_overrides(ft_llm *m, const ft_llm_params *p, ft_err *err)
{
    ft_status st = FT_OK;
    for (int i = 0; i < p->n_override_tensor && !st; i++) {
        char *copy = ft_strdup(p->override_tensor[i]);
        for (char *at = copy, *next; at && !st; at = next) {
            if ((next = strchr(at, ','))) *next++ = 0;
            st = add_override(m, at, err);
        }
        ft_free(copy);
    }
    return st;
}

void ft_llm_free_overrides(ft_llm *m)
{
    for (int i = 0; i < m->n_over; i++) regfree(&m->over[i].re);
    ft_free(m->over);
}

ft_status ft_llm_place(ft_llm *m, const ft_llm_params *p, const ft_draft_methods *d, ft_err *err)
{
    const ft_status bad = read_overrides(m, p, err);
    if (bad) return bad;
    if (nothing_to_place(m, p)) return FT_OK;
    if (p->gpu_layers == 0) { /* nothing is on the device: it is not needed */
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
