/* engine/sample.c - the sampler chain, the token history of the penalties, and the sampling
 * itself. */
#include "engine/sample.h"

#include "engine/sample_list.h"

#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"

#include <assert.h>
#include <float.h>
#include <math.h>

struct ft_sampler {
    ft_sample_params p;
    int32_t V;
    ft_list *l;
    bool own_list;
    ft_logit_bias *bias;
    size_t n_bans; /* number of them */
    ft_id_seq *breaker;
    int32_t *breaker_ids;
    int32_t *z, *uniq, *count; /* scratch of the length of the history */
    bool wants_penalties, wants_dry, far;
    /* state */
    int32_t *ring; /* the most recent id is ring[(head - 1) mod cap] */
    int32_t cap, head, n;
    float mu;
    int32_t drawn;    /* the last id that was sampled and not accepted yet, -1: none */
    float drawn_bits; /* its surprise in bits */
};

const char *ft_sampler_kind_name(ft_sampler_kind k)
{
    return ft_sampler_names[k].name;
}

void ft_sample_defaults(ft_sample_params *p)
{
    *p = (ft_sample_params){.n_order = FT_SAMPLE_KINDS};
#define FT_SAMPLING(type, field, number, ...) p->field = (type)(number);
#include "base/request.def"
    for (int i = 0; i < FT_SAMPLE_KINDS; i++) p->order[i] = (ft_sampler_kind)i;
}

ft_status ft_sample_order_parse(ft_sample_params *p, const char *list, ft_err *err)
{
    unsigned seen = 0;
    int n = 0;
    for (const char *z = list; *z;) {
        const size_t len = strcspn(z, ";,");
        int k = 0;
        while (k < FT_SAMPLE_KINDS &&
               !ft_str_eq((ft_str){z, len}, ft_str_of(ft_sampler_names[k].name)))
            k++;
        if (k == FT_SAMPLE_KINDS)
            return ft_fail(err, FT_EINVAL,
                           "sampler '%.*s', want one of penalties dry top_n_sigma "
                           "top_k typ_p top_p min_p xtc temperature",
                           (int)FT_MIN(len, 40), z);
        if (seen >> k & 1)
            return ft_fail(err, FT_EINVAL, "sampler '%s' twice", ft_sampler_names[k].name);
        seen |= 1u << k;
        p->order[n++] = (ft_sampler_kind)k;
        z += len;
        if (*z) z++;
    }
    p->n_order = n;
    return FT_OK;
}

ft_sample_scratch *ft_sample_scratch_new(int32_t V)
{
    ft_list *l = ft_new(ft_list);
    const size_t n = (size_t)V;
    l->V = V;
    l->x = ft_new_n(float, n);
    l->id = ft_new_n(int32_t, n);
    l->mark = ft_new_n(int32_t, n);
    l->key = ft_new_n(float, n);
    l->weight = ft_new_n(float, n);
    l->tie = ft_new_n(int32_t, n);
    l->part = ft_new_n(uint64_t, n / FT_LIST_PART);
    return l;
}

void ft_sample_scratch_free(ft_sample_scratch *l)
{
    if (!l) return;
    ft_free(l->x);
    ft_free(l->id);
    ft_free(l->mark);
    ft_free(l->key);
    ft_free(l->weight);
    ft_free(l->tie);
    ft_free(l->part);
    ft_free(l);
}

static ft_status check_last_n(const char *name, int32_t n, ft_err *err)
{
    if (n >= 0 && n <= FT_SAMPLE_LAST_N_MAX) return FT_OK;
    return ft_fail(err, FT_EINVAL, "%s is %d, want 0..%d", name, n, FT_SAMPLE_LAST_N_MAX);
}

ft_status ft_sample_check(const ft_sample_params *p, int32_t V, ft_err *err)
{
    ft_status st;
    if (V < 1) return ft_fail(err, FT_EINVAL, "vocabulary of %d, want at least 1", V);
    if ((st = check_last_n("repeat_last_n", p->repeat_last_n, err))) return st;
    if ((st = check_last_n("dry_penalty_last_n", p->dry_last_n, err))) return st;
    const struct {
        const char *name;
        double v;
    } finite[] = {
#define FT_SAMPLING(type, field, number, ...) {#field, (double)p->field},
#include "base/request.def"
    };
    for (size_t i = 0; i < FT_COUNT(finite); i++)
        if (!isfinite(finite[i].v))
            return ft_fail(err, FT_EINVAL, "%s is not a finite number", finite[i].name);
    if (!(p->repeat_penalty > 0))
        return ft_fail(err, FT_EINVAL, "repeat_penalty is %g, want more than 0",
                       (double)p->repeat_penalty);
    if (p->mirostat < 0 || p->mirostat > 2)
        return ft_fail(err, FT_EINVAL, "mirostat is %d, want 0, 1 or 2", p->mirostat);
    if (p->n_order < 0 || p->n_order > FT_SAMPLE_KINDS)
        return ft_fail(err, FT_EINVAL, "%d samplers in the order, want 0..%d", p->n_order,
                       FT_SAMPLE_KINDS);
    for (size_t i = 0; i < p->n_bias; i++)
        if (p->bias[i].id < 0 || p->bias[i].id >= V || isnan(p->bias[i].bias))
            return ft_fail(err, FT_EINVAL,
                           "logit bias %g for id %d, want a number for an id in 0..%d",
                           (double)p->bias[i].bias, p->bias[i].id, V - 1);
    return FT_OK;
}

static bool has(const ft_sample_params *p, ft_sampler_kind k)
{
    for (int i = 0; i < p->n_order; i++)
        if (p->order[i] == k) return true;
    return false;
}

static void copy_lists(ft_sampler *s)
{
    const ft_sample_params *p = &s->p;
    s->bias = ft_new_n(ft_logit_bias, p->n_bias);
    if (p->n_bias) memcpy(s->bias, p->bias, p->n_bias * sizeof *s->bias);
    for (size_t i = 0; i < p->n_bias; i++) s->n_bans += s->bias[i].bias == -INFINITY;
    size_t ids = 0;
    for (size_t i = 0; i < p->n_dry_breakers; i++) ids += p->dry_breakers[i].n;
    s->breaker = ft_new_n(ft_id_seq, p->n_dry_breakers);
    s->breaker_ids = ft_new_n(int32_t, ids);
    int32_t *at = s->breaker_ids;
    for (size_t i = 0; i < p->n_dry_breakers; i++) {
        const size_t n = p->dry_breakers[i].n;
        if (n) memcpy(at, p->dry_breakers[i].id, n * sizeof *at);
        s->breaker[i] = (ft_id_seq){at, n};
        at += n;
    }
    s->p.bias = s->bias;
    s->p.dry_breakers = s->breaker;
}

/* Position of a sampler in the fixed order that devices implement; 0: it does nothing here. */
static int rank(const ft_sampler *s, ft_sampler_kind k)
{
    const ft_sample_params *p = &s->p;
    switch (k) {
    case FT_SAMPLE_PENALTIES: return s->wants_penalties ? 1 : 0;
    case FT_SAMPLE_TOP_K: return p->top_k > 0 ? 2 : 0;
    case FT_SAMPLE_TOP_P: return p->top_p < 1 ? 3 : 0;
    case FT_SAMPLE_MIN_P: return p->min_p > 0 ? 4 : 0;
    case FT_SAMPLE_TEMPERATURE: return 5;
    case FT_SAMPLE_DRY: return s->wants_dry ? -1 : 0;
    case FT_SAMPLE_TOP_N_SIGMA: return p->top_n_sigma > 0 ? -1 : 0;
    case FT_SAMPLE_TYP_P: return p->typical_p < 1 ? -1 : 0;
    case FT_SAMPLE_XTC: return p->xtc_probability > 0 ? -1 : 0;
    case FT_SAMPLE_KINDS: break;
    }
    return -1;
}

static bool biases_differ(const ft_sampler *s)
{
    for (size_t i = 0; i < s->p.n_bias; i++)
        for (size_t j = 0; j < i; j++)
            if (s->bias[i].id == s->bias[j].id) return false;
    return true;
}

/* Implements ft_sampler_on_device. */
static bool knows(const ft_sampler *s)
{
    const ft_sample_params *p = &s->p;
    const size_t edits = p->n_bias + (s->wants_penalties ? (size_t)p->repeat_last_n : 0);
    if (p->mirostat || edits > FT_DRAW_EDITS || !biases_differ(s)) return false;
    if (ft_sampler_greedy(s)) return !s->wants_dry;
    if (p->min_keep > 1 || p->top_k > FT_DRAW_K || p->min_p > 1 || p->dynatemp_range > 0)
        return false;
    int last = 0;
    for (int i = 0; i < p->n_order; i++) {
        const int at = rank(s, p->order[i]);
        if (at && at < last) return false;
        last = FT_MAX(last, at);
    }
    return true;
}

ft_status ft_sampler_new(ft_sampler **out, const ft_sample_params *p, int32_t V,
                         ft_sample_scratch *scratch, ft_err *err)
{
    const ft_status st = ft_sample_check(p, V, err);
    if (st) return st;
    assert(!scratch || scratch->V == V);
    ft_sampler *s = ft_new(ft_sampler);
    s->p = *p;
    s->V = V;
    if (s->p.dry_base < 1) s->p.dry_base = 1.75f;
    copy_lists(s);
    s->wants_penalties =
        has(p, FT_SAMPLE_PENALTIES) && p->repeat_last_n > 0 &&
        (p->repeat_penalty != 1.0f || p->frequency_penalty != 0.0f || p->presence_penalty != 0.0f);
    s->wants_dry = has(p, FT_SAMPLE_DRY) && p->dry_multiplier > 0.0f && p->dry_last_n > 0;
    s->far = knows(s);
    if (s->wants_penalties) s->cap = p->repeat_last_n;
    if (s->wants_dry) s->cap = FT_MAX(s->cap, p->dry_last_n);
    const size_t cap = (size_t)s->cap;
    s->ring = ft_new_n(int32_t, cap);
    s->z = ft_new_n(int32_t, cap);
    s->uniq = ft_new_n(int32_t, cap);
    s->count = ft_new_n(int32_t, cap);
    s->own_list = !scratch;
    s->l = scratch ? scratch : ft_sample_scratch_new(V);
    ft_sampler_reset(s);
    *out = s;
    return FT_OK;
}

void ft_sampler_free(ft_sampler *s)
{
    if (!s) return;
    if (s->own_list) ft_sample_scratch_free(s->l);
    ft_free(s->bias);
    ft_free(s->breaker);
    ft_free(s->breaker_ids);
    ft_free(s->ring);
    ft_free(s->z);
    ft_free(s->uniq);
    ft_free(s->count);
    ft_free(s);
}

void ft_sampler_reset(ft_sampler *s)
{
    s->head = s->n = 0;
    s->mu = 2 * s->p.mirostat_tau;
    s->drawn = -1;
}

void ft_sampler_copy(ft_sampler *dst, const ft_sampler *src)
{
    assert(dst->cap == src->cap);
    if (src->cap) memcpy(dst->ring, src->ring, (size_t)src->cap * sizeof *dst->ring);
    dst->head = src->head;
    dst->n = src->n;
    dst->mu = src->mu;
    dst->drawn = src->drawn;
    dst->drawn_bits = src->drawn_bits;
}

void ft_sampler_accept(ft_sampler *s, int32_t id)
{
    if (s->cap) {
        s->ring[s->head] = id;
        s->head = s->head + 1 == s->cap ? 0 : s->head + 1;
        s->n = FT_MIN(s->n + 1, s->cap);
    }
    if (s->p.mirostat && id == s->drawn)
        s->mu -= s->p.mirostat_eta * (s->drawn_bits - s->p.mirostat_tau);
    s->drawn = -1;
}

/* The id that was accepted i tokens ago; 0 is the most recent. */
static int32_t past(const ft_sampler *s, int32_t i)
{
    const int32_t at = s->head - 1 - i;
    return s->ring[at < 0 ? at + s->cap : at];
}

/* Applies an edit to the list entries of the ids in uniq. In a dense list the entry is the id
 * itself. */
typedef void edit_fn(const ft_sampler *s, float *x, int32_t u);

static void edit(ft_sampler *s, int32_t n_uniq, edit_fn *fn)
{
    ft_list *l = s->l;
    if (l->dense)
        for (int32_t u = 0; u < n_uniq; u++) fn(s, &l->x[s->uniq[u]], u);
    else
        for (int32_t i = 0; i < l->n; i++)
            if (l->mark[l->id[i]]) fn(s, &l->x[i], l->mark[l->id[i]] - 1);
    for (int32_t u = 0; u < n_uniq; u++) l->mark[s->uniq[u]] = 0;
}

/* The index of id in uniq, added when new; -1 for an id outside the vocabulary. */
static int32_t place(ft_sampler *s, int32_t id, int32_t *n_uniq)
{
    if (id < 0 || id >= s->V) return -1;
    if (!s->l->mark[id]) {
        s->uniq[*n_uniq] = id;
        s->count[*n_uniq] = 0;
        s->l->mark[id] = ++*n_uniq;
    }
    return s->l->mark[id] - 1;
}

static void penalize(const ft_sampler *s, float *x, int32_t u)
{
    *x = ft_logit_penalized(*x, s->count[u], s->p.repeat_penalty, s->p.frequency_penalty,
                            s->p.presence_penalty);
}

static void penalties(ft_sampler *s)
{
    int32_t n_uniq = 0;
    const int32_t n = FT_MIN(s->n, s->p.repeat_last_n);
    for (int32_t i = 0; i < n; i++) {
        const int32_t u = place(s, past(s, i), &n_uniq);
        if (u >= 0) s->count[u]++;
    }
    edit(s, n_uniq, penalize);
}

/* How many of the most recent tokens follow the last breaker; n when there is none. */
static int32_t since_breaker(const ft_sampler *s, int32_t n)
{
    int32_t least = n;
    for (size_t b = 0; b < s->p.n_dry_breakers; b++) {
        const ft_id_seq seq = s->p.dry_breakers[b];
        if (!seq.n || seq.n > (size_t)n) continue;
        for (int32_t after = 0; after + (int32_t)seq.n <= n && after < least; after++) {
            size_t k = 0;
            while (k < seq.n && past(s, after + (int32_t)k) == seq.id[seq.n - 1 - k]) k++;
            if (k == seq.n) least = after;
        }
    }
    return least;
}

static void dry_penalize(const ft_sampler *s, float *x, int32_t u)
{
    if (s->count[u] < s->p.dry_allowed_length) return;
    const double most = log((double)FLT_MAX) / log(FT_MAX((double)s->p.dry_base, 1.000001));
    const double len = FT_MIN((double)(s->count[u] - s->p.dry_allowed_length), most);
    const double by = (double)s->p.dry_multiplier * pow((double)s->p.dry_base, len);
    *x -= (float)FT_MIN(by, (double)FLT_MAX / 4);
}

/* z[i]: how many of the most recent tokens also occur, in the same order, i tokens further back.
 * The token that followed the earlier occurrence would extend the repetition, so it is
 * penalised. */
static void dry(ft_sampler *s)
{
    const int32_t n = FT_MIN(s->n, s->p.dry_last_n), allowed = s->p.dry_allowed_length;
    if (n <= allowed) return;
    const int32_t limit = since_breaker(s, n);
    if (limit < allowed) return;
    int32_t left = 0, right = 0, n_uniq = 0;
    for (int32_t i = 1; i < n; i++) {
        int32_t k = i < right ? FT_MIN(right - i, s->z[i - left]) : 0;
        while (i + k < n && past(s, k) == past(s, i + k)) k++;
        s->z[i] = k;
        if (i + k > right) left = i, right = i + k;
        const int32_t len = FT_MIN(k, limit);
        if (len < FT_MAX(allowed, 1)) continue;
        const int32_t u = place(s, past(s, i - 1), &n_uniq);
        if (u >= 0) s->count[u] = FT_MAX(s->count[u], len);
    }
    edit(s, n_uniq, dry_penalize);
}

static bool penalised(const ft_sampler *s)
{
    return s->n && (s->wants_penalties || s->wants_dry);
}

static void add_bias(ft_sampler *s)
{
    float *x = s->l->x; /* dense */
    for (size_t i = 0; i < s->p.n_bias; i++)
        x[s->bias[i].id] = ft_logit_biased(x[s->bias[i].id], s->bias[i].bias);
}

static void load_logits(ft_sampler *s, const float *logits, const uint32_t *mask)
{
    ft_list_load(s->l, logits, mask);
    add_bias(s);
}

/* The penalties alone, in their order: all that greedy sampling and mirostat use. */
static void tilt(ft_sampler *s)
{
    for (int i = 0; i < s->p.n_order; i++) {
        if (s->p.order[i] == FT_SAMPLE_PENALTIES && s->wants_penalties) penalties(s);
        if (s->p.order[i] == FT_SAMPLE_DRY && s->wants_dry) dry(s);
    }
}

static void apply(ft_sampler *s, ft_sampler_kind k, uint64_t position)
{
    const ft_sample_params *p = &s->p;
    ft_list *l = s->l;
    switch (k) {
    case FT_SAMPLE_PENALTIES:
        if (s->wants_penalties) penalties(s);
        break;
    case FT_SAMPLE_DRY:
        if (s->wants_dry) dry(s);
        break;
    case FT_SAMPLE_TOP_N_SIGMA: ft_list_top_n_sigma(l, p->top_n_sigma); break;
    case FT_SAMPLE_TOP_K: ft_list_top_k(l, FT_MAX(p->top_k, p->top_k > 0 ? p->min_keep : 0)); break;
    case FT_SAMPLE_TYP_P: ft_list_typical(l, p->typical_p, p->min_keep); break;
    case FT_SAMPLE_TOP_P: ft_list_top_p(l, p->top_p, p->min_keep); break;
    case FT_SAMPLE_MIN_P: ft_list_min_p(l, p->min_p, p->min_keep); break;
    case FT_SAMPLE_XTC:
        if (p->xtc_probability > 0.0f && p->xtc_threshold <= 0.5f &&
            ft_unit_f64(ft_rng_at(p->seed, position, FT_STREAM_XTC)) < (double)p->xtc_probability)
            ft_list_xtc(l, p->xtc_threshold, p->min_keep);
        break;
    case FT_SAMPLE_TEMPERATURE:
        if (p->dynatemp_range > 0.0f)
            ft_list_dynatemp(l, p->temperature, p->dynatemp_range, p->dynatemp_exponent);
        else
            ft_list_temperature(l, p->temperature);
        break;
    case FT_SAMPLE_KINDS: break;
    }
}

/* Applies all samplers to the loaded list. */
static void chain(ft_sampler *s, uint64_t position)
{
    if (!s->p.mirostat) {
        for (int i = 0; i < s->p.n_order; i++) apply(s, s->p.order[i], position);
        return;
    }
    tilt(s);
    ft_list_temperature(s->l, s->p.temperature);
    if (s->p.mirostat == 2)
        ft_list_surprise(s->l, s->mu);
    else
        ft_list_top_k(s->l, ft_list_mirostat_k(s->l, s->mu, s->V));
}

bool ft_sampler_greedy(const ft_sampler *s)
{
    return s->p.temperature <= 0.0f;
}

bool ft_sampler_plain(const ft_sampler *s)
{
    return ft_sampler_greedy(s) && s->p.n_bias == s->n_bans && !penalised(s);
}

bool ft_sampler_bans(const ft_sampler *s, int32_t id)
{
    if (!s->n_bans) return false;
    for (size_t i = 0; i < s->p.n_bias; i++)
        if (s->bias[i].id == id && s->bias[i].bias == -INFINITY) return true;
    return false;
}

static int32_t greedy(ft_sampler *s, const float *logits, const uint32_t *mask)
{
    if (ft_sampler_plain(s)) {
        const int32_t id = ft_argmax(logits, mask, s->V);
        if (!ft_sampler_bans(s, id)) return id;
    }
    load_logits(s, logits, mask);
    tilt(s);
    return ft_argmax(s->l->x, NULL, s->V);
}

/* Samples from the loaded list. */
static int32_t draw(ft_sampler *s, uint64_t position)
{
    chain(s, position);
    ft_list *l = s->l;
    const float max = ft_list_max(l);
    if (max == -INFINITY) return s->drawn = -1;
    const uint64_t total = ft_list_sum(l, max);
    const int32_t i = ft_list_at(l, max, ft_draw_at(s->p.seed, position, total));
    s->drawn_bits =
        (float)(((double)(max - l->x[i]) + ft_log_weight(total)) / 0.693147180559945309);
    return s->drawn = ft_list_id(l, i);
}

int32_t ft_sampler_draw(ft_sampler *s, const float *logits, const uint32_t *mask, uint64_t position)
{
    if (ft_sampler_greedy(s)) return s->drawn = greedy(s, logits, mask);
    load_logits(s, logits, mask);
    return draw(s, position);
}

bool ft_sampler_probs(ft_sampler *s, const float *logits, const uint32_t *mask, uint64_t position,
                      float *p)
{
    for (int32_t i = 0; i < s->V; i++) p[i] = 0;
    if (ft_sampler_greedy(s)) {
        const int32_t id = greedy(s, logits, mask);
        if (id >= 0) p[id] = 1;
        return id >= 0;
    }
    load_logits(s, logits, mask);
    chain(s, position);
    const ft_list *l = s->l;
    const float max = ft_list_max(l);
    if (max == -INFINITY) return false;
    const double total = (double)ft_sum_exp(l->x, l->n, max, NULL);
    for (int32_t i = 0; i < l->n; i++)
        p[ft_list_id(l, i)] = (float)((double)ft_weigh(l->x[i] - max) / total);
    return true;
}

/* ---- sampling on a device ---- */

bool ft_sampler_on_device(const ft_sampler *s)
{
    return s->far;
}

/* The ids of the penalties' window with their counts, when n_more ids follow the history. */
static int32_t count_past(ft_sampler *s, const int32_t *more, int32_t n_more, ft_edit *e)
{
    int32_t n_uniq = 0;
    const int32_t n = s->wants_penalties ? FT_MIN(s->n + n_more, s->p.repeat_last_n) : 0;
    for (int32_t i = 0; i < n; i++) {
        const int32_t id = i < n_more ? more[n_more - 1 - i] : past(s, i - n_more);
        const int32_t u = place(s, id, &n_uniq);
        if (u >= 0) s->count[u]++;
    }
    for (int32_t u = 0; u < n_uniq; u++) e[u] = (ft_edit){s->uniq[u], s->count[u], 0};
    return n_uniq;
}

void ft_sampler_put(ft_sampler *s, const int32_t *more, int32_t n_more, uint64_t position,
                    ft_draw *d, ft_edit *e)
{
    const ft_sample_params *p = &s->p;
    const int32_t counted = count_past(s, more, n_more, e);
    int32_t n = counted;
    for (size_t i = 0; i < p->n_bias; i++) {
        const int32_t id = s->bias[i].id, u = s->l->mark[id];
        if (u)
            e[u - 1].bias = s->bias[i].bias;
        else
            e[n++] = (ft_edit){id, 0, s->bias[i].bias};
    }
    for (int32_t u = 0; u < counted; u++) s->l->mark[s->uniq[u]] = 0;
    const bool cold = ft_sampler_greedy(s) || has(p, FT_SAMPLE_TEMPERATURE);
    d->temperature = cold ? p->temperature : 1;
    d->top_k = has(p, FT_SAMPLE_TOP_K) ? FT_MAX(p->top_k, 0) : 0;
    d->top_p = has(p, FT_SAMPLE_TOP_P) ? p->top_p : 1;
    d->log_min_p = has(p, FT_SAMPLE_MIN_P) && p->min_p > 0 ? logf(p->min_p) : -INFINITY;
    d->repeat = p->repeat_penalty;
    d->frequency = p->frequency_penalty;
    d->presence = p->presence_penalty;
    d->seed = s->p.seed;
    d->position = position;
    d->n_edit = n;
}

/* ---- helpers ---- */

float ft_logprob_of(float x, float max, uint64_t sum)
{
    if (x != x || !sum) return -INFINITY;
    return (float)((double)FT_MIN(x, max) - ((double)max + ft_log_weight(sum)));
}

int32_t ft_logprobs(const float *logits, int32_t V, int32_t id, int32_t top_n, ft_logprob *out)
{
    const int32_t best = ft_argmax(logits, NULL, V);
    const float max = best < 0 ? 0 : FT_MIN(logits[best], FLT_MAX);
    const uint64_t sum = ft_sum_exp(logits, V, max, NULL);
    int32_t top[FT_LOGPROBS_MAX];
    const int32_t n = 1 + ft_top_n(logits, V, FT_MIN(top_n, FT_LOGPROBS_MAX), top);
    out[0].id = id;
    for (int32_t i = 1; i < n; i++) out[i].id = top[i - 1];
    for (int32_t i = 0; i < n; i++) out[i].logprob = ft_logprob_of(logits[out[i].id], max, sum);
    return n;
}
