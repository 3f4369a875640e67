#include "engine/sample_list.h"

#include "base/mem.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

/* Entries are scanned in blocks of this many: the compiler vectorises the loop, and a block with
 * nothing above the threshold is skipped. */
#define BLOCK 16
/* Up to this many, a heap is faster than a selection over all entries. */
#define HEAP_MAX 256

typedef struct cutoff {
    float key;
    int32_t id; /* kept are larger keys, and this key with ids up to this one */
} cutoff;

typedef float v4f __attribute__((vector_size(16)));
typedef int32_t v4i __attribute__((vector_size(16)));
typedef uint32_t v4u __attribute__((vector_size(16)));

static v4f load4(const float *x)
{
    v4f v;
    memcpy(&v, x, sizeof v);
    return v;
}

/* Whether one of the BLOCK values at x is at least (strictly: above) t. NaN is not. */
static bool any_from(const float *x, float t, bool strictly)
{
    const v4f a = load4(x), b = load4(x + 4), c = load4(x + 8), d = load4(x + 12), f = {t, t, t, t};
    const v4i m = strictly ? (a > f) | (b > f) | (c > f) | (d > f)
                           : (a >= f) | (b >= f) | (c >= f) | (d >= f);
    uint64_t w[2];
    memcpy(w, &m, sizeof w);
    return (w[0] | w[1]) != 0;
}

static void copy_counted(float *restrict to, const float *restrict x, int32_t n)
{
    int32_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK)
        for (int j = 0; j < BLOCK; j++) to[i + j] = ft_logit_finite(x[i + j]);
    for (; i < n; i++) to[i] = ft_logit_finite(x[i]);
}

void ft_list_load(ft_list *l, const float *logits, const uint32_t *mask)
{
    const int32_t V = l->V;
    copy_counted(l->x, logits, V);
    if (mask) {
        for (int32_t w = 0; w < V; w += 32) {
            const uint32_t m = mask[w / 32];
            if (m == UINT32_MAX) continue;
            const int32_t end = FT_MIN(w + 32, V);
            for (int32_t i = w; i < end; i++) l->x[i] = m >> (i - w) & 1 ? l->x[i] : -INFINITY;
        }
    }
    l->n = V;
    l->dense = true;
}

static v4f larger(v4f a, v4f b)
{
    const v4i m = a > b;
    return (v4f)((m & (v4i)a) | (~m & (v4i)b));
}

float ft_list_max(const ft_list *l)
{
    const float *x = l->x;
    v4f a = {-INFINITY, -INFINITY, -INFINITY, -INFINITY}, b = a, c = a, d = a;
    int32_t i = 0;
    for (; i + BLOCK <= l->n; i += BLOCK) {
        a = larger(load4(x + i), a);
        b = larger(load4(x + i + 4), b);
        c = larger(load4(x + i + 8), c);
        d = larger(load4(x + i + 12), d);
    }
    a = larger(larger(a, b), larger(c, d));
    float max = -INFINITY;
    for (int k = 0; k < 4; k++) max = a[k] > max ? a[k] : max;
    for (; i < l->n; i++) max = x[i] > max ? x[i] : max;
    return max;
}

/* Adding to this rounds to multiples of 2^24; the low bits of the sum are the multiple. */
#define COARSE 0x1.8p47f

/* ft_weigh for four values: the same operations in the same order; values above 0 count as 0,
 * NaN as nothing. There are no vector conversions to 64 bits, so a weight is split into its
 * nearest multiple of 2^24 and the rest, within 2^23; the rest is negative only for weights
 * without a fraction. */
static inline void weigh4(v4f below, v4u *multiple, v4i *rest)
{
    const v4f low = {-87.0f, -87.0f, -87.0f, -87.0f};
    const v4i in = below > low, over = below > 0;
    const v4f x = (v4f)(~over & ((in & (v4i)below) | (~in & (v4i)low)));
    const v4f shifted = x * 1.44269504f + 12582912.0f; /* its low bits are n */
    const v4f n = shifted - 12582912.0f;
    const v4f r = (x - n * 0.693145752f) - n * 1.42860677e-6f;
    v4f y = r * 1.38888889e-3f + 8.33333333e-3f;
    y = y * r + 4.16666667e-2f;
    y = y * r + 1.66666667e-1f;
    y = y * r + 0.5f;
    y = y * r + 1.0f;
    y = y * r + 1.0f;
    y *= (v4f)(((v4u)shifted << 23) + ((127u + 40) << 23)); /* 2^(n + 40) */
    const v4f coarse = y + COARSE;
    *multiple += (v4u)coarse;
    *rest += __builtin_convertvector(y - (coarse - COARSE), v4i);
}

/* Sums FT_LIST_PART values, few enough that no vector element can overflow. Four vectors at a
 * time hide the latency. */
static uint64_t sum_part(const float *x, float max)
{
    const v4u none = (v4u)(v4f){COARSE, COARSE, COARSE, COARSE};
    v4u mul = none * (0u - FT_LIST_PART / 4);
    v4i rest = {0};
    for (int i = 0; i < FT_LIST_PART; i += BLOCK) {
        weigh4(load4(x + i) - max, &mul, &rest);
        weigh4(load4(x + i + 4) - max, &mul, &rest);
        weigh4(load4(x + i + 8) - max, &mul, &rest);
        weigh4(load4(x + i + 12) - max, &mul, &rest);
    }
    int64_t sum = 0;
    for (int k = 0; k < 4; k++) sum += ((int64_t)mul[k] << 24) + rest[k];
    return (uint64_t)sum;
}

uint64_t ft_sum_exp(const float *x, int32_t n, float max, uint64_t *part)
{
    uint64_t all = 0;
    int32_t i = 0;
    for (; i + FT_LIST_PART <= n; i += FT_LIST_PART) {
        const uint64_t sum = sum_part(x + i, max);
        if (part) part[i / FT_LIST_PART] = sum;
        all += sum;
    }
    for (; i < n; i++) all += ft_weigh(x[i] > max ? 0 : x[i] - max);
    return all;
}

uint64_t ft_list_sum(ft_list *l, float max)
{
    return ft_sum_exp(l->x, l->n, max, l->part);
}

int32_t ft_list_at(const ft_list *l, float max, uint64_t at)
{
    uint64_t sum = 0;
    int32_t i = 0;
    for (; i + FT_LIST_PART < l->n && sum + l->part[i / FT_LIST_PART] <= at; i += FT_LIST_PART)
        sum += l->part[i / FT_LIST_PART];
    while ((sum += ft_weigh(l->x[i] - max)) <= at && i + 1 < l->n) i++;
    return i;
}

double ft_log_weight(uint64_t sum)
{
    return log((double)sum / (double)FT_WEIGHT_ONE);
}

void ft_list_pack(ft_list *l)
{
    int32_t n = 0;
    for (int32_t i = 0; i < l->n; i++) {
        if (l->x[i] == -INFINITY) continue;
        const int32_t id = ft_list_id(l, i);
        l->x[n] = l->x[i];
        l->id[n++] = id;
    }
    l->n = n;
    l->dense = false;
}

/* Keeps the values at or above the cutoff. */
static void keep_above(ft_list *l, cutoff c)
{
    int32_t n = 0;
    int32_t i = 0;
    while (i < l->n) {
        if (i + BLOCK <= l->n && !any_from(l->x + i, c.key, false)) {
            i += BLOCK;
            continue;
        }
        const int32_t end = FT_MIN(i + BLOCK, l->n);
        for (; i < end; i++) {
            const int32_t id = ft_list_id(l, i);
            const float x = l->x[i];
            if (x < c.key || (x == c.key && id > c.id) || x == -INFINITY) continue;
            l->x[n] = x;
            l->id[n++] = id;
        }
    }
    l->n = n;
    l->dense = false;
}

/* ---- the n largest ---- */

static bool worse(const float *x, int32_t a, int32_t b)
{
    return x[a] < x[b] || (x[a] == x[b] && a > b);
}

static void sift(const float *x, int32_t *h, int32_t n, int32_t i)
{
    for (;;) {
        int32_t c = 2 * i + 1;
        if (c >= n) return;
        if (c + 1 < n && worse(x, h[c + 1], h[c])) c++;
        if (!worse(x, h[c], h[i])) return;
        const int32_t t = h[c];
        h[c] = h[i];
        h[i] = t;
        i = c;
    }
}

/* Indices of the n largest as a heap with the worst on top. */
static int32_t heap_of(const float *x, int32_t V, int32_t n, int32_t *h)
{
    int32_t have = 0, i = 0;
    for (; i < V && have < n; i++)
        if (x[i] > -INFINITY) h[have++] = i;
    for (int32_t k = have / 2 - 1; k >= 0; k--) sift(x, h, have, k);
    while (i < V) {
        if (i + BLOCK <= V && !any_from(x + i, x[h[0]], true)) {
            i += BLOCK;
            continue;
        }
        const int32_t end = FT_MIN(i + BLOCK, V);
        for (; i < end; i++) {
            if (!(x[i] > x[h[0]])) continue;
            h[0] = i;
            sift(x, h, have, 0);
        }
    }
    return have;
}

int32_t ft_top_n(const float *x, int32_t V, int32_t n, int32_t *out)
{
    if (n > V) n = V;
    if (n <= 0) return 0;
    const int32_t have = heap_of(x, V, n, out);
    for (int32_t m = have - 1; m > 0; m--) {
        const int32_t t = out[0];
        out[0] = out[m];
        out[m] = t;
        sift(x, out, m, 0);
    }
    return have;
}

/* ---- where the cumulative weight reaches a value ---- */

static bool better(const ft_list *l, int32_t a, int32_t b)
{
    return l->key[a] > l->key[b] || (l->key[a] == l->key[b] && l->tie[a] < l->tie[b]);
}

static void swap(ft_list *l, int32_t a, int32_t b)
{
    const float k = l->key[a], w = l->weight[a];
    const int32_t t = l->tie[a];
    l->key[a] = l->key[b], l->weight[a] = l->weight[b], l->tie[a] = l->tie[b];
    l->key[b] = k, l->weight[b] = w, l->tie[b] = t;
}

typedef struct goal {
    uint64_t mass;
    bool strict; /* more than mass; else at least */
    int32_t count;
} goal;

static bool reached(goal g, uint64_t mass, int32_t count)
{
    return (g.strict ? mass > g.mass : mass >= g.mass) && count >= g.count;
}

/* Moves entries that rank before the middle one to its left; returns its final index. */
static int32_t partition(ft_list *l, int32_t lo, int32_t hi, uint64_t *mass)
{
    const int32_t mid = lo + (hi - lo) / 2;
    if (better(l, mid, lo)) swap(l, mid, lo);
    if (better(l, hi - 1, lo)) swap(l, hi - 1, lo);
    if (better(l, hi - 1, mid)) swap(l, hi - 1, mid);
    swap(l, mid, hi - 1);
    int32_t m = lo;
    *mass = ft_weight_of(l->weight[hi - 1]);
    for (int32_t i = lo; i < hi - 1; i++) {
        if (!better(l, i, hi - 1)) continue;
        *mass += ft_weight_of(l->weight[i]);
        swap(l, i, m++);
    }
    swap(l, m, hi - 1);
    return m;
}

/* key, weight and tie hold n > 0 entries. Returns the last entry of the shortest best-first
 * prefix that reaches the goal. */
static cutoff select_mass(ft_list *l, int32_t n, goal g)
{
    int32_t lo = 0, hi = n;
    uint64_t acc = 0;
    while (hi - lo > 24) {
        uint64_t mass;
        const int32_t m = partition(l, lo, hi, &mass);
        if (!reached(g, acc + mass, m + 1)) {
            acc += mass;
            lo = m + 1;
        } else if (reached(g, acc + mass - ft_weight_of(l->weight[m]), m)) {
            hi = m;
        } else {
            return (cutoff){l->key[m], l->tie[m]};
        }
    }
    for (int32_t i = lo + 1; i < hi; i++)
        for (int32_t j = i; j > lo && better(l, j, j - 1); j--) swap(l, j, j - 1);
    for (; lo < hi - 1; lo++) {
        acc += ft_weight_of(l->weight[lo]);
        if (reached(g, acc, lo + 1)) break;
    }
    return lo < n ? (cutoff){l->key[lo], l->tie[lo]} : (cutoff){-INFINITY, INT32_MAX};
}

void ft_list_top_k(ft_list *l, int32_t k)
{
    if (k <= 0 || k >= l->n) return;
    if (k <= HEAP_MAX) {
        int32_t h[HEAP_MAX];
        const int32_t have = heap_of(l->x, l->n, k, h);
        if (have == k)
            keep_above(l, (cutoff){l->x[h[0]], ft_list_id(l, h[0])});
        else
            ft_list_pack(l);
        return;
    }
    ft_list_pack(l);
    if (k >= l->n) return;
    for (int32_t i = 0; i < l->n; i++) {
        l->key[i] = l->x[i];
        l->weight[i] = 1;
        l->tie[i] = l->id[i];
    }
    keep_above(l, select_mass(l, l->n, (goal){.mass = (uint64_t)k * ft_weight_of(1)}));
}

/* Collects entries down to `depth` below the maximum; returns their mass. */
static uint64_t gather(ft_list *l, float max, float depth, int32_t *count)
{
    uint64_t mass = 0;
    int32_t n = 0;
    const float floor = max - depth;
    for (int32_t i = 0; i < l->n;) {
        if (i + BLOCK <= l->n && !any_from(l->x + i, floor, false)) {
            i += BLOCK;
            continue;
        }
        const int32_t end = FT_MIN(i + BLOCK, l->n);
        for (; i < end; i++) {
            if (l->x[i] < floor || l->x[i] == -INFINITY) continue;
            l->key[n] = l->x[i];
            l->weight[n] = ft_exp_neg(l->x[i] - max);
            l->tie[n] = ft_list_id(l, i);
            mass += ft_weight_of(l->weight[n++]);
        }
    }
    *count = n;
    return mass;
}

void ft_list_top_p(ft_list *l, float p, int32_t min_keep)
{
    if (!(p < 1.0f) || l->n <= 1) return;
    const float max = ft_list_max(l);
    if (max == -INFINITY) return;
    const goal g = {.mass = ft_top_p_goal(p, ft_sum_exp(l->x, l->n, max, NULL)),
                    .count = FT_MAX(min_keep, 1)};
    static const float depth[] = {6, 12, 24, INFINITY};
    int32_t n = 0;
    for (size_t d = 0; d < FT_COUNT(depth); d++)
        if (reached(g, gather(l, max, depth[d], &n), n)) break;
    keep_above(l, select_mass(l, n, g));
}

void ft_list_min_p(ft_list *l, float p, int32_t min_keep)
{
    if (!(p > 0.0f) || l->n <= 1) return;
    const float max = ft_list_max(l);
    if (max == -INFINITY) return;
    const float floor = max + logf(p);
    int32_t count = 0;
    for (int32_t i = 0; i < l->n; i++) count += l->x[i] >= floor;
    if (count < FT_MAX(min_keep, 1))
        ft_list_top_k(l, FT_MAX(min_keep, 1));
    else
        keep_above(l, (cutoff){floor, INT32_MAX});
}

/* log of the sum of exponentials; the list is packed and not empty */
static double log_sum(const ft_list *l)
{
    const float max = ft_list_max(l);
    return (double)max + ft_log_weight(ft_sum_exp(l->x, l->n, max, NULL));
}

static double entropy(const ft_list *l, double lse)
{
    double h = 0;
    for (int32_t i = 0; i < l->n; i++) {
        const double lp = (double)l->x[i] - lse;
        h -= exp(lp) * lp;
    }
    return h;
}

void ft_list_typical(ft_list *l, float p, int32_t min_keep)
{
    if (!(p < 1.0f)) return;
    ft_list_pack(l);
    if (l->n <= 1) return;
    const double lse = log_sum(l), h = entropy(l, lse);
    for (int32_t i = 0; i < l->n; i++) {
        const double lp = (double)l->x[i] - lse;
        l->key[i] = (float)-fabs(-lp - h);
        l->weight[i] = (float)exp(lp);
        l->tie[i] = l->id[i];
    }
    const goal g = {
        .mass = ft_weight_of(FT_MAX(p, 0)), .strict = true, .count = FT_MAX(min_keep, 1)};
    const cutoff c = select_mass(l, l->n, g);
    int32_t n = 0;
    for (int32_t i = 0; i < l->n; i++) {
        const float key = (float)-fabs(-((double)l->x[i] - lse) - h);
        if (key < c.key || (key == c.key && l->id[i] > c.id)) continue;
        l->x[n] = l->x[i];
        l->id[n++] = l->id[i];
    }
    l->n = n;
}

void ft_list_top_n_sigma(ft_list *l, float n)
{
    if (!(n > 0.0f)) return;
    ft_list_pack(l);
    if (l->n <= 1) return;
    double mean = 0, var = 0;
    for (int32_t i = 0; i < l->n; i++) mean += (double)l->x[i];
    mean /= l->n;
    for (int32_t i = 0; i < l->n; i++) {
        const double d = (double)l->x[i] - mean;
        var += d * d;
    }
    const double floor = (double)ft_list_max(l) - (double)n * sqrt(var / l->n);
    keep_above(l, (cutoff){(float)floor, INT32_MAX});
}

void ft_list_xtc(ft_list *l, float threshold, int32_t min_keep)
{
    ft_list_pack(l);
    if (l->n < 2) return;
    const double lse = log_sum(l);
    cutoff least = {INFINITY, -1};
    int32_t above = 0;
    for (int32_t i = 0; i < l->n; i++) {
        if (exp((double)l->x[i] - lse) < (double)threshold) continue;
        above++;
        if (l->x[i] <= least.key) least = (cutoff){l->x[i], l->id[i]};
    }
    if (above < 2 || l->n - (above - 1) < min_keep) return;
    int32_t n = 0;
    for (int32_t i = 0; i < l->n; i++) {
        if (l->x[i] > least.key || (l->x[i] == least.key && l->id[i] < least.id)) continue;
        l->x[n] = l->x[i];
        l->id[n++] = l->id[i];
    }
    l->n = n;
}

void ft_list_temperature(ft_list *l, float t)
{
    if (t == 1.0f) return;
    float *x = l->x;
    int32_t i = 0;
    for (; i + BLOCK <= l->n; i += BLOCK)
        for (int j = 0; j < BLOCK; j++) x[i + j] = ft_logit_tempered(x[i + j], t);
    for (; i < l->n; i++) x[i] = ft_logit_tempered(x[i], t);
}

void ft_list_dynatemp(ft_list *l, float t, float range, float exponent)
{
    ft_list_pack(l);
    if (l->n <= 1) return;
    const double low = FT_MAX(0.0, (double)t - (double)range), high = (double)t + (double)range;
    const double share = entropy(l, log_sum(l)) / log((double)l->n);
    const double dyn = low + (high - low) * pow(FT_MIN(FT_MAX(share, 0.0), 1.0), (double)exponent);
    if (dyn > 0)
        ft_list_temperature(l, (float)dyn);
    else
        ft_list_top_k(l, 1);
}

void ft_list_surprise(ft_list *l, float mu)
{
    ft_list_pack(l);
    if (l->n <= 1) return;
    const double floor = log_sum(l) - (double)mu * 0.693147180559945309;
    const float max = ft_list_max(l);
    if ((double)max < floor)
        ft_list_top_k(l, 1);
    else
        keep_above(l, (cutoff){(float)floor, INT32_MAX});
}

int32_t ft_list_mirostat_k(const ft_list *l, float mu, int32_t V)
{
    int32_t top[100];
    const int32_t n = ft_top_n(l->x, l->n, (int32_t)FT_COUNT(top), top);
    double tb = 0, tt = 0;
    for (int32_t i = 0; i + 1 < n; i++) {
        const double t = log((double)(i + 2) / (double)(i + 1));
        tb += t * ((double)l->x[top[i]] - (double)l->x[top[i + 1]]);
        tt += t * t;
    }
    if (!(tt > 0)) return 1;
    const double s = tb / tt, e = s - 1;
    const double k = pow(e * pow(2, (double)mu) / (1 - pow(V, -e)), 1 / s);
    if (!(k > 1)) return 1;
    return k < (double)V ? (int32_t)k : V;
}

int32_t ft_argmax(const float *x, const uint32_t *mask, int32_t V)
{
    float best = -INFINITY;
    int32_t at = -1;
    for (int32_t i = 0; i < V; i += BLOCK) {
        const uint32_t bits = mask ? mask[i / 32] >> i % 32 : UINT32_MAX;
        if (!bits) continue;
        if (i + BLOCK <= V && !any_from(x + i, best, true)) continue;
        for (int32_t j = i; j < FT_MIN(i + BLOCK, V); j++)
            if ((bits >> (j - i) & 1) && x[j] > best) best = x[j], at = j;
    }
    return at;
}

/* Updates the two largest values with v. */
static inline void rank(float *first, float *second, float v)
{
    const float low = v > *first ? *first : v;
    *first = v > *first ? v : *first;
    *second = low > *second ? low : *second;
}

float ft_margin(const float *x, int32_t n)
{
    enum { SLOTS = 16 }; /* wide enough for the compiler to vectorise */
    float first[SLOTS], second[SLOTS];
    int32_t i = 0;
    for (int j = 0; j < SLOTS; j++) first[j] = second[j] = -INFINITY;
    for (; i + SLOTS <= n; i += SLOTS)
        for (int j = 0; j < SLOTS; j++) rank(&first[j], &second[j], x[i + j]);
    for (int j = 0; i < n; i++, j++) rank(&first[j], &second[j], x[i]);
    float best = -INFINITY, next = -INFINITY;
    for (int j = 0; j < SLOTS; j++) {
        rank(&best, &next, first[j]);
        next = FT_MAX(next, second[j]);
    }
    return next > -INFINITY ? best - next : 0;
}
