/* tests/unit/sample.c - the sampler: each filter against a naive implementation, samples against
 * their distribution, and the guarantees of the header. With --bench: microseconds per sample. */
#include "engine/sample.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "dev/dev.h"

#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define V_MAX 700

typedef struct entry {
    int id;
    double x, p, key;
} entry;

static int by_key(const void *a, const void *b)
{
    const entry *l = a, *r = b;
    if (l->key != r->key) return l->key > r->key ? -1 : 1;
    return l->id - r->id;
}

static void softmax(entry *e, int n)
{
    double max = (double)-INFINITY, sum = 0;
    for (int i = 0; i < n; i++) max = fmax(max, e[i].x);
    for (int i = 0; i < n; i++) sum += e[i].p = exp(e[i].x - max);
    for (int i = 0; i < n; i++) e[i].p /= sum;
}

static void sort_by_x(entry *e, int n)
{
    for (int i = 0; i < n; i++) e[i].key = e[i].x;
    qsort(e, (size_t)n, sizeof *e, by_key);
}

/* Naive implementations of the filters; each returns the new length. */
static int naive_top_p(entry *e, int n, double p, int min_keep)
{
    softmax(e, n);
    sort_by_x(e, n);
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += e[i].p;
        if (sum >= p && i + 1 >= min_keep) return i + 1;
    }
    return n;
}

static int naive_typical(entry *e, int n, double p)
{
    softmax(e, n);
    double h = 0, sum = 0;
    for (int i = 0; i < n; i++)
        if (e[i].p > 0) h -= e[i].p * log(e[i].p);
    for (int i = 0; i < n; i++) e[i].key = (double)(float)-fabs(-log(e[i].p) - h);
    qsort(e, (size_t)n, sizeof *e, by_key);
    for (int i = 0; i < n; i++) {
        sum += e[i].p;
        if (sum > p) return i + 1;
    }
    return n;
}

static int naive_min_p(entry *e, int n, double p)
{
    softmax(e, n);
    sort_by_x(e, n);
    int k = 0;
    while (k < n && e[k].p >= p * e[0].p) k++;
    return k;
}

static int naive_xtc(entry *e, int n, double threshold)
{
    softmax(e, n);
    sort_by_x(e, n);
    int last = -1;
    for (int i = 0; i < n; i++)
        if (e[i].p >= threshold) last = i;
    if (last <= 0) return n;
    memmove(e, e + last, (size_t)(n - last) * sizeof *e);
    return n - last;
}

static int naive_sigma(entry *e, int n, double k)
{
    double mean = 0, var = 0;
    for (int i = 0; i < n; i++) mean += e[i].x / n;
    for (int i = 0; i < n; i++) var += (e[i].x - mean) * (e[i].x - mean) / n;
    sort_by_x(e, n);
    const double floor = e[0].x - k * sqrt(var);
    int m = 0;
    while (m < n && e[m].x >= floor) m++;
    return m;
}

static void fill_random(ft_rng *r, float *x, int n, double spread)
{
    for (int i = 0; i < n; i++) x[i] = (float)(ft_rng_normal(r) * spread);
}

static ft_sample_params only_samplers(const char *order)
{
    ft_sample_params p;
    ft_sample_defaults(&p);
    p.temperature = 1;
    assert_int_equal(ft_sample_order_parse(&p, order, NULL), FT_OK);
    return p;
}

static ft_sampler *new_sampler(const ft_sample_params *p, int V)
{
    ft_sampler *s;
    ft_err err;
    if (ft_sampler_new(&s, p, V, NULL, &err)) fail_msg("%s", err.text);
    return s;
}

/* The probabilities of the sampler must equal the softmax over the entries left by the naive
 * filter.
 */
static void expect(const ft_sample_params *p, const float *x, int V, entry *e, int n)
{
    ft_sampler *s = new_sampler(p, V);
    float got[V_MAX];
    double want[V_MAX] = {0};
    softmax(e, n);
    for (int i = 0; i < n; i++) want[e[i].id] = e[i].p;
    assert_true(ft_sampler_probs(s, x, NULL, 0, got));
    for (int i = 0; i < V; i++)
        if (fabs((double)got[i] - want[i]) > 2e-6)
            fail_msg("V %d id %d: %g, want %g (n %d)", V, i, (double)got[i], want[i], n);
    ft_sampler_free(s);
}

static int entries(entry *e, const float *x, int V)
{
    for (int i = 0; i < V; i++) e[i] = (entry){.id = i, .x = (double)x[i]};
    return V;
}

static void filters_match_their_definition(void **state)
{
    (void)state;
    ft_rng r = {11};
    float x[V_MAX];
    entry e[V_MAX];
    for (int round = 0; round < 300; round++) {
        const int V = 2 + (int)(ft_rng_u64(&r) % (V_MAX - 2));
        fill_random(&r, x, V, 0.1 + 4 * ft_rng_f64(&r));
        const double u = 0.01 + 0.98 * ft_rng_f64(&r);
        ft_sample_params p = only_samplers("top_k");
        p.top_k = 1 + (int)(u * V);
        entries(e, x, V);
        sort_by_x(e, V);
        expect(&p, x, V, e, p.top_k);
        p = only_samplers("top_p");
        p.top_p = (float)u;
        p.min_keep = round % 5;
        expect(&p, x, V, e, naive_top_p(e, entries(e, x, V), (double)p.top_p, p.min_keep));
        p = only_samplers("min_p");
        p.min_p = (float)u;
        expect(&p, x, V, e, naive_min_p(e, entries(e, x, V), (double)p.min_p));
        p = only_samplers("typ_p");
        p.typical_p = (float)u;
        expect(&p, x, V, e, naive_typical(e, entries(e, x, V), (double)p.typical_p));
        p = only_samplers("xtc");
        p.xtc_probability = 1;
        p.xtc_threshold = (float)(u * 0.2);
        expect(&p, x, V, e, naive_xtc(e, entries(e, x, V), (double)p.xtc_threshold));
        p = only_samplers("top_n_sigma");
        p.top_n_sigma = (float)(3 * u);
        expect(&p, x, V, e, naive_sigma(e, entries(e, x, V), (double)p.top_n_sigma));
        p = only_samplers("temperature");
        p.temperature = (float)(2 * u);
        entries(e, x, V);
        for (int i = 0; i < V; i++) e[i].x /= (double)p.temperature;
        expect(&p, x, V, e, V);
    }
}

static void ties_go_to_the_lower_id(void **state)
{
    (void)state;
    float x[600], p[600];
    for (int i = 0; i < 600; i++) x[i] = (float)(i % 3 == 1);
    ft_sample_params sp = only_samplers("top_k");
    const int ks[] = {1, 5, 150, 199, 300, 500};
    for (size_t j = 0; j < FT_COUNT(ks); j++) {
        sp.top_k = ks[j];
        ft_sampler *s = new_sampler(&sp, 600);
        assert_true(ft_sampler_probs(s, x, NULL, 0, p));
        int seen = 0;
        for (int i = 0; i < 600; i++) seen += p[i] > 0;
        assert_int_equal(seen, ks[j]);
        for (int i = 1, k = 0; i < 600 && k < FT_MIN(ks[j], 200); i += 3, k++)
            assert_true(p[i] > 0);
        ft_sampler_free(s);
    }
    assert_int_equal(ft_argmax(x, NULL, 600), 1);
    x[7] = NAN, x[1] = NAN;
    assert_int_equal(ft_argmax(x, NULL, 600), 4);
}

static void order_matters(void **state)
{
    (void)state;
    const float x[4] = {4, 3, 2, 1};
    float a[4], b[4];
    ft_sample_params p = only_samplers("top_p;temperature");
    p.top_p = 0.6f;
    p.temperature = 10;
    ft_sampler *s = new_sampler(&p, 4);
    ft_sampler_probs(s, x, NULL, 0, a);
    ft_sampler_free(s);
    assert_int_equal(ft_sample_order_parse(&p, "temperature;top_p", NULL), FT_OK);
    s = new_sampler(&p, 4);
    ft_sampler_probs(s, x, NULL, 0, b);
    ft_sampler_free(s);
    assert_true(a[1] == 0 && b[1] > 0);
    ft_err err;
    assert_int_equal(ft_sample_order_parse(&p, "top_k;nonsense", &err), FT_EINVAL);
    assert_non_null(strstr(err.text, "nonsense"));
    assert_int_equal(ft_sample_order_parse(&p, "top_k;top_k", &err), FT_EINVAL);
}

static void draws_follow_the_distribution(void **state)
{
    (void)state;
    enum { V = 12, N = 60000 };
    static const char *const chains[] = {"", "temperature", "top_k;temperature",
                                         "top_p;min_p;temperature", "typ_p;temperature"};
    ft_rng r = {5};
    float x[V], p[V];
    for (size_t c = 0; c < FT_COUNT(chains); c++) {
        fill_random(&r, x, V, 1.5);
        ft_sample_params sp = only_samplers(chains[c]);
        sp.top_k = 6, sp.typical_p = 0.7f, sp.temperature = 0.7f, sp.seed = c;
        ft_sampler *s = new_sampler(&sp, V);
        int count[V] = {0}, df = -1;
        for (int i = 0; i < N; i++) count[ft_sampler_draw(s, x, NULL, (uint64_t)i)]++;
        ft_sampler_probs(s, x, NULL, 0, p);
        double chi = 0, rest = 0, rest_seen = 0;
        for (int i = 0; i < V; i++) {
            const double want = (double)p[i] * N;
            if (p[i] == 0) assert_int_equal(count[i], 0);
            if (want < 10) {
                rest += want, rest_seen += count[i];
                continue;
            }
            chi += (count[i] - want) * (count[i] - want) / want;
            df++;
        }
        if (rest > 5) chi += (rest_seen - rest) * (rest_seen - rest) / rest, df++;
        assert_true(chi < df + 5 * sqrt(2.0 * df) + 5);
        ft_sampler_free(s);
    }
}

static void a_draw_belongs_to_its_position(void **state)
{
    (void)state;
    enum { V = 200, N = 300 };
    ft_rng r = {9};
    float x[V];
    fill_random(&r, x, V, 1);
    ft_sample_params p;
    ft_sample_defaults(&p);
    p.seed = 42, p.xtc_probability = 0.5f;
    ft_sampler *a = new_sampler(&p, V), *b = new_sampler(&p, V);
    int ids[N], same = 0;
    for (int i = 0; i < N; i++) ids[i] = ft_sampler_draw(a, x, NULL, (uint64_t)i);
    for (int i = N - 1; i >= 0; i--) {
        if (i % 3 == 0) ft_sampler_draw(b, x, NULL, 12345); /* a rejected row shifts nothing */
        assert_int_equal(ft_sampler_draw(b, x, NULL, (uint64_t)i), ids[i]);
    }
    p.seed = 43;
    ft_sampler *c = new_sampler(&p, V);
    for (int i = 0; i < N; i++) same += ft_sampler_draw(c, x, NULL, (uint64_t)i) == ids[i];
    assert_true(same < N / 2);
    ft_sampler_free(a), ft_sampler_free(b), ft_sampler_free(c);
}

static void penalties_are_exact(void **state)
{
    (void)state;
    const float x[6] = {2, -2, 1, 0.5f, 3, -1};
    ft_sample_params p = only_samplers("penalties");
    p.repeat_penalty = 1.5f, p.frequency_penalty = 0.25f, p.presence_penalty = 0.5f;
    p.repeat_last_n = 4;
    ft_sampler *s = new_sampler(&p, 6);
    const int hist[] = {4, 4, 0, 1, 0, 5}; /* the two 4s are outside the penalty window */
    for (size_t i = 0; i < FT_COUNT(hist); i++) ft_sampler_accept(s, hist[i]);
    entry e[6];
    entries(e, x, 6);
    e[0].x = 2 / 1.5 - 2 * 0.25 - 0.5;
    e[1].x = -2 * 1.5 - 0.25 - 0.5;
    e[5].x = -1 * 1.5 - 0.25 - 0.5;
    float got[6];
    softmax(e, 6);
    ft_sampler_probs(s, x, NULL, 0, got);
    for (int i = 0; i < 6; i++) assert_true(fabs((double)got[i] - e[i].p) < 1e-6);
    p.temperature = 0, p.repeat_last_n = 64; /* penalties apply to greedy sampling too */
    ft_sampler *g = new_sampler(&p, 6);
    assert_int_equal(ft_sampler_draw(g, x, NULL, 0), 4);
    for (int i = 0; i < 8; i++) ft_sampler_accept(g, 4);
    assert_int_equal(ft_sampler_draw(g, x, NULL, 0), 0);
    ft_sampler_free(s), ft_sampler_free(g);
    /* after a filter the list is not dense; the result over the remaining entries is the same */
    ft_sample_order_parse(&p, "top_k;penalties", NULL);
    p.temperature = 1, p.top_k = 5;
    s = new_sampler(&p, 6);
    for (size_t i = 2; i < FT_COUNT(hist); i++) ft_sampler_accept(s, hist[i]);
    entries(e, x, 6);
    e[0].x = 2 / 1.5 - 2 * 0.25 - 0.5;
    e[5].x = -1 * 1.5 - 0.25 - 0.5;
    e[1].x = (double)-INFINITY;
    softmax(e, 6);
    ft_sampler_probs(s, x, NULL, 0, got);
    for (int i = 0; i < 6; i++) assert_true(fabs((double)got[i] - e[i].p) < 1e-6);
    ft_sampler_free(s);
}

/* The longest earlier run that equals the most recent tokens, by trying every position. */
static void naive_dry(const int *h, int n, int limit, int allowed, int *len)
{
    for (int end = 0; end < n - 1; end++) {
        int k = 0;
        while (k <= end && h[end - k] == h[n - 1 - k]) k++;
        k = FT_MIN(k, limit);
        if (k >= allowed && k > len[h[end + 1]]) len[h[end + 1]] = k;
    }
}

static void dry_is_exact(void **state)
{
    (void)state;
    enum { V = 6 };
    ft_rng r = {3};
    const int32_t brk[] = {5, 4};
    const ft_id_seq breaker = {brk, 2};
    for (int round = 0; round < 500; round++) {
        ft_sample_params p = only_samplers("dry");
        p.dry_multiplier = 0.8f, p.dry_last_n = 30, p.dry_allowed_length = 1 + round % 3;
        p.dry_breakers = &breaker, p.n_dry_breakers = 1;
        ft_sampler *s = new_sampler(&p, V);
        int h[80];
        const int n = 3 + (int)(ft_rng_u64(&r) % 70);
        for (int i = 0; i < n; i++) {
            h[i] = (int)(ft_rng_u64(&r) % (round % 2 ? 6 : 2));
            ft_sampler_accept(s, h[i]);
        }
        const int m = FT_MIN(n, 30);
        const int *w = h + n - m;
        int limit = m, len[V] = {0};
        for (int i = 0; i + 1 < m; i++)
            if (w[i] == 5 && w[i + 1] == 4) limit = m - i - 2;
        naive_dry(w, m, limit, p.dry_allowed_length, len);
        const float x[V] = {0.5f, 0, 1, -1, 0.25f, 0};
        entry e[V];
        float got[V];
        entries(e, x, V);
        for (int i = 0; i < V; i++)
            if (len[i]) e[i].x -= (double)0.8f * pow(1.75, len[i] - p.dry_allowed_length);
        softmax(e, V);
        ft_sampler_probs(s, x, NULL, 0, got);
        for (int i = 0; i < V; i++) assert_true(fabs((double)got[i] - e[i].p) < 1e-6);
        ft_sampler_free(s);
    }
}

static void masks_and_biases_hold(void **state)
{
    (void)state;
    enum { V = 70 };
    float x[V], p[V];
    ft_rng r = {1};
    fill_random(&r, x, V, 1);
    x[40] = 50;
    x[41] = NAN;
    uint32_t mask[FT_MASK_WORDS(V)] = {0};
    mask[0] = 1u << 3 | 1u << 9;
    mask[2] = 1u << 5;
    const ft_logit_bias bias[] = {{3, -INFINITY}, {69, 2}, {40, 100}, {41, 5}};
    for (int greedy = 0; greedy < 2; greedy++) {
        ft_sample_params sp;
        ft_sample_defaults(&sp);
        sp.temperature = greedy ? 0 : 1;
        ft_sampler *s = new_sampler(&sp, V);
        for (uint64_t i = 0; i < 200; i++) {
            const int id = ft_sampler_draw(s, x, mask, i);
            assert_true(id == 3 || id == 9 || id == 69);
        }
        const uint32_t none[FT_MASK_WORDS(V)] = {0};
        assert_int_equal(ft_sampler_draw(s, x, none, 0), -1);
        assert_false(ft_sampler_probs(s, x, none, 0, p));
        ft_sampler_free(s);
        sp.bias = bias, sp.n_bias = FT_COUNT(bias);
        s = new_sampler(&sp, V);
        for (uint64_t i = 0; i < 200; i++) assert_int_not_equal(ft_sampler_draw(s, x, mask, i), 3);
        ft_sampler_free(s);
    }
    float nan[V];
    for (int i = 0; i < V; i++) nan[i] = i % 2 ? NAN : -INFINITY;
    ft_sample_params sp;
    ft_sample_defaults(&sp);
    ft_sampler *s = new_sampler(&sp, V);
    assert_int_equal(ft_sampler_draw(s, nan, NULL, 0), -1);
    nan[8] = INFINITY;
    assert_int_equal(ft_sampler_draw(s, nan, NULL, 0), 8);
    ft_sampler_free(s);
}

static void greedy_is_the_largest(void **state)
{
    (void)state;
    ft_rng r = {77};
    for (int round = 0; round < 200; round++) {
        const int V = 1 + (int)(ft_rng_u64(&r) % V_MAX);
        float x[V_MAX];
        uint32_t mask[FT_MASK_WORDS(V_MAX)];
        for (int i = 0; i < V; i++) x[i] = (float)(ft_rng_u64(&r) % 50);
        for (size_t i = 0; i < FT_COUNT(mask); i++)
            mask[i] = (uint32_t)ft_rng_u64(&r) | (round & 1 ? ~0u : 0);
        int want = -1;
        for (int i = 0; i < V; i++)
            if ((mask[i / 32] >> i % 32 & 1) && (want < 0 || x[i] > x[want])) want = i;
        ft_sample_params p;
        ft_sample_defaults(&p);
        p.temperature = 0, p.xtc_probability = 1, p.typical_p = 0.1f;
        ft_sampler *s = new_sampler(&p, V);
        assert_int_equal(ft_sampler_draw(s, x, mask, 0), want);
        ft_sampler_free(s);
    }
}

/* When an arg-max over the raw row is enough: bans are checked afterwards. */
static void bans_are_plain(void **state)
{
    (void)state;
    enum { V = 50 };
    float x[V];
    for (int i = 0; i < V; i++) x[i] = (float)i;
    const ft_logit_bias bias[] = {{V - 1, -INFINITY}, {V - 2, -INFINITY}, {7, 0.5f}};
    for (size_t n = 0; n <= FT_COUNT(bias); n++) {
        ft_sample_params p;
        ft_sample_defaults(&p);
        p.temperature = 0, p.bias = bias, p.n_bias = n;
        ft_sampler *s = new_sampler(&p, V);
        assert_int_equal(ft_sampler_plain(s), n < 3);
        for (int i = 0; i < V; i++)
            assert_int_equal(ft_sampler_bans(s, i), i > V - 1 - (int)FT_MIN(n, 2u));
        assert_int_equal(ft_sampler_draw(s, x, NULL, 0), V - 1 - (int)FT_MIN(n, 2u));
        ft_sampler_free(s);
    }
}

static void copies_give_the_same_ids(void **state)
{
    (void)state;
    enum { V = 50 };
    float x[V];
    ft_rng r = {8};
    ft_sample_params p;
    ft_sample_defaults(&p);
    p.repeat_penalty = 1.3f, p.dry_multiplier = 0.5f, p.mirostat = 2, p.repeat_last_n = 7;
    ft_sampler *a = new_sampler(&p, V), *b = new_sampler(&p, V);
    for (uint64_t i = 0; i < 100; i++) {
        fill_random(&r, x, V, 2);
        if (i % 10 == 5) ft_sampler_copy(b, a);
        const int id = ft_sampler_draw(a, x, NULL, i);
        if (i % 10 >= 5) assert_int_equal(ft_sampler_draw(b, x, NULL, i), id);
        ft_sampler_accept(a, id);
        if (i % 10 >= 5) ft_sampler_accept(b, id);
    }
    ft_sampler_free(a), ft_sampler_free(b);
}

/* Mirostat controls the mean surprise towards tau. */
static void mirostat_holds_its_target(void **state)
{
    (void)state;
    enum { V = 400, N = 3000 };
    static float x[V], q[V];
    for (int i = 0; i < V; i++) x[i] = (float)(-1.1 * log(i + 1.0));
    for (int version = 1; version <= 2; version++) {
        ft_sample_params p;
        ft_sample_defaults(&p);
        p.mirostat = version, p.mirostat_tau = 3, p.temperature = 1;
        ft_sampler *s = new_sampler(&p, V);
        double bits = 0;
        for (uint64_t i = 0; i < N; i++) {
            ft_sampler_probs(s, x, NULL, i, q);
            const int id = ft_sampler_draw(s, x, NULL, i);
            bits -= log2((double)q[id]) / N;
            ft_sampler_accept(s, id);
        }
        assert_true(fabs(bits - 3) < 0.25);
        ft_sampler_free(s);
    }
}

static void dynatemp_reaches_both_ends(void **state)
{
    (void)state;
    ft_sample_params p = only_samplers("temperature");
    p.temperature = 1, p.dynatemp_range = 0.5f;
    const float flat[4] = {1, 1, 1, 1}, sure[4] = {60, 0, 0, 0}, some[3] = {1, 0.5f, 0};
    float q[4];
    ft_sampler *s = new_sampler(&p, 4), *t = new_sampler(&p, 3);
    ft_sampler_probs(s, flat, NULL, 0, q);
    for (int i = 0; i < 4; i++) assert_true(fabs((double)q[i] - 0.25) < 1e-6);
    ft_sampler_probs(s, sure, NULL, 0, q);
    assert_true(q[0] > 0.999f);
    entry e[3];
    entries(e, some, 3);
    softmax(e, 3);
    double h = 0;
    for (int i = 0; i < 3; i++) h -= e[i].p * log(e[i].p);
    for (int i = 0; i < 3; i++) e[i].x /= 0.5 + h / log(3);
    softmax(e, 3);
    ft_sampler_probs(t, some, NULL, 0, q);
    for (int i = 0; i < 3; i++) assert_true(fabs((double)q[i] - e[i].p) < 1e-6);
    ft_sampler_free(s), ft_sampler_free(t);
}

static void logprobs_are_of_the_raw_logits(void **state)
{
    (void)state;
    enum { V = 333 };
    float x[V];
    entry e[V];
    ft_rng r = {21};
    fill_random(&r, x, V, 3);
    x[5] = NAN, x[6] = -INFINITY;
    entries(e, x, V);
    e[5].x = (double)-INFINITY;
    softmax(e, V);
    ft_logprob out[11];
    assert_int_equal(ft_logprobs(x, V, 17, 10, out), 11);
    assert_int_equal(out[0].id, 17);
    assert_true(fabs((double)out[0].logprob - log(e[17].p)) < 1e-4);
    sort_by_x(e, V);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(out[i + 1].id, e[i].id);
        assert_true(fabs((double)out[i + 1].logprob - log(e[i].p)) < 1e-4);
    }
    assert_int_equal(ft_logprobs(x, V, 5, 0, out), 1);
    assert_true(isinf(out[0].logprob));
}

static void bad_parameters_are_named(void **state)
{
    (void)state;
    ft_sample_params p;
    ft_sampler *s;
    ft_err err;
    ft_sample_defaults(&p);
    p.repeat_last_n = -1;
    assert_int_equal(ft_sampler_new(&s, &p, 10, NULL, &err), FT_EINVAL);
    assert_non_null(strstr(err.text, "repeat_last_n"));
    ft_sample_defaults(&p);
    p.top_p = NAN;
    assert_int_equal(ft_sampler_new(&s, &p, 10, NULL, &err), FT_EINVAL);
    assert_non_null(strstr(err.text, "top_p"));
    const ft_logit_bias b = {10, 0};
    ft_sample_defaults(&p);
    p.bias = &b, p.n_bias = 1;
    assert_int_equal(ft_sampler_new(&s, &p, 10, NULL, &err), FT_EINVAL);
    assert_non_null(strstr(err.text, "10"));
}

static void time_one(const char *name, ft_sample_params p, const float *x, int V)
{
    ft_sampler *s = new_sampler(&p, V);
    for (uint64_t i = 0; i < 64; i++) ft_sampler_accept(s, (int)(i * 37));
    enum { DRAWS = 200 }; /* near the beginning of the row and near its end */
    ft_sampler_draw(s, x, NULL, 0);
    const int64_t t = ft_now_ns();
    for (uint64_t i = 0; i < DRAWS; i++) ft_sampler_draw(s, x, NULL, i);
    printf("%-40s %8.1f us\n", name, (double)(ft_now_ns() - t) * 1e-3 / DRAWS);
    ft_sampler_free(s);
}

/* A sampler chain that devices support; the enabled samplers depend on the iteration. */
static ft_sample_params far_chain(ft_rng *r, int round, const ft_logit_bias *bias)
{
    ft_sample_params p;
    ft_sample_defaults(&p);
    p.seed = (uint64_t)round;
    p.top_k = round % 3 ? 1 + (int)(ft_rng_u64(r) % 60) : 0;
    p.top_p = round % 4 == 3 ? 1 : 0.3f + 0.7f * (float)ft_rng_f64(r);
    p.min_p = round % 5 < 2 ? 0 : 0.2f * (float)ft_rng_f64(r);
    p.temperature = round % 7 ? 0.2f + 2 * (float)ft_rng_f64(r) : 0;
    if (round % 2) p.repeat_penalty = 0.9f + 0.4f * (float)ft_rng_f64(r);
    if (round % 6 == 1) p.frequency_penalty = 0.3f, p.presence_penalty = -0.1f;
    if (round % 5 == 0) p.bias = bias, p.n_bias = 3;
    if (round % 9 == 8) ft_sample_order_parse(&p, "top_p;min_p", NULL);
    p.repeat_last_n = round % 8 == 1 ? 5 : 64;
    return p;
}

static ft_drawn far_draw(ft_dev *d, ft_draw *w, const ft_edit *e, const float *x,
                         const uint32_t *mask)
{
    uint32_t aside[V_MAX / 32 + 1 + 3 * FT_DRAW_EDITS];
    ft_drawn y;
    memcpy(aside, e, sizeof *e * (size_t)w->n_edit);
    w->mask = mask ? 3 * w->n_edit : -1;
    if (mask) memcpy(aside + w->mask, mask, sizeof *mask * (V_MAX / 32 + 1));
    const ft_batch b = {.T = 1, .draw = w, .draw_words = aside, .sampled = 2};
    d->record(d, &b);
    d->op->draw(d, &y, ft_mat_at((float *)(uintptr_t)x, 1, V_MAX));
    return y;
}

/* Sampling on a device with the exported parameters gives the id of the sampler itself, also for a
 * position a few ids ahead, and the same logprobs. */
static void a_device_draws_the_same(void **state)
{
    (void)state;
    ft_rng r = {77};
    ft_dev *d = ft_dev_ref();
    ft_edit e[FT_DRAW_EDITS];
    for (int round = 0; round < 500; round++) {
        const ft_logit_bias bias[] = {{3, 2}, {9, -INFINITY}, {200, -0.5f}};
        const ft_sample_params p = far_chain(&r, round, bias);
        ft_sampler *a, *b;
        assert_int_equal(ft_sampler_new(&a, &p, V_MAX, NULL, NULL), FT_OK);
        assert_int_equal(ft_sampler_new(&b, &p, V_MAX, NULL, NULL), FT_OK);
        assert_true(ft_sampler_on_device(b));
        float x[V_MAX];
        uint32_t mask[V_MAX / 32 + 1];
        int32_t more[4];
        int n_more = 0;
        for (int step = 0; step < 24; step++) {
            for (int i = 0; i < V_MAX; i++)
                x[i] = roundf((float)ft_rng_normal(&r) * 24) / (round % 2 ? 8 : 7.3f);
            if (round % 11 == 0)
                for (int i = 60; i < V_MAX; i++) x[i] = i % 2 ? -INFINITY : NAN;
            for (size_t i = 0; i < FT_COUNT(mask); i++) mask[i] = (uint32_t)ft_rng_u64(&r);
            const uint32_t *m = round % 4 == 1 ? mask : NULL;
            const int32_t want = ft_sampler_draw(a, x, m, (uint64_t)step);
            ft_draw w = {.list = -1};
            ft_sampler_put(b, more, n_more, (uint64_t)step, &w, e);
            const ft_drawn got = far_draw(d, &w, e, x, m);
            assert_int_equal(got.id, want);
            if (want < 0) continue;
            ft_sampler_accept(a, want);
            more[n_more++] = want;
            for (int i = 0; n_more == 4 && i < 4; i++) ft_sampler_accept(b, more[i]);
            n_more %= 4;

            ft_logprob lp[21];
            const int n = ft_logprobs(x, V_MAX, want, 20, lp);
            ft_draw l = {.temperature = 1, .top_p = 1, .log_min_p = -INFINITY, .list = 20};
            const ft_drawn list = far_draw(d, &l, e, x, NULL);
            assert_int_equal(1 + list.n, n);
            assert_true(ft_logprob_of(got.x, list.max, list.sum) == lp[0].logprob);
            for (int i = 1; i < n; i++) {
                assert_int_equal(list.top[i - 1].id, lp[i].id);
                assert_true(ft_logprob_of(list.top[i - 1].x, list.max, list.sum) == lp[i].logprob);
            }
        }
        ft_sampler_free(a);
        ft_sampler_free(b);
    }
    ft_dev_close(d);
}

static void unsupported_on_a_device(void **state)
{
    (void)state;
    const ft_logit_bias twice[] = {{3, 1}, {4, 1}, {3, 1}};
    for (int i = 0; i < 12; i++) {
        ft_sample_params p;
        ft_sampler *s;
        ft_sample_defaults(&p);
        if (i == 0) p.mirostat = 2;
        if (i == 1) p.dry_multiplier = 0.5f;
        if (i == 2) p.top_n_sigma = 1;
        if (i == 3) p.typical_p = 0.9f;
        if (i == 4) p.xtc_probability = 0.1f;
        if (i == 5) p.dynatemp_range = 0.1f;
        if (i == 6) p.bias = twice, p.n_bias = 3;
        if (i == 7) p.min_keep = 2;
        if (i == 8) p.top_k = FT_DRAW_K + 1;
        if (i == 9) p.repeat_last_n = FT_DRAW_EDITS + 1, p.repeat_penalty = 1.1f;
        if (i == 10) ft_sample_order_parse(&p, "temperature;top_p", NULL);
        assert_int_equal(ft_sampler_new(&s, &p, V_MAX, NULL, NULL), FT_OK);
        assert_int_equal(ft_sampler_on_device(s), i == 11);
        ft_sampler_free(s);
    }
}

static int bench(void)
{
    const int V = 248320;
    float *x = ft_new_n(float, V);
    ft_rng r = {1};
    fill_random(&r, x, V, 3);
    for (int i = 0; i < 40; i++) x[i * 5000 + 3] += 12;
    ft_sample_params p = only_samplers("");
    p.temperature = 0;
    time_one("greedy", p, x, V);
    p.repeat_penalty = 1.1f;
    ft_sample_order_parse(&p, "penalties", NULL);
    time_one("greedy, repeat penalty", p, x, V);
    p = only_samplers("top_k;top_p;temperature");
    p.temperature = 0.8f;
    time_one("top_k 40, top_p, temperature", p, x, V);
    ft_sample_defaults(&p);
    p.repeat_penalty = 1.1f, p.dry_multiplier = 0.8f;
    time_one("defaults, repeat penalty, dry", p, x, V);
    p = only_samplers("top_p");
    time_one("top_p 0.95", p, x, V);
    p = only_samplers("temperature");
    time_one("nothing but the draw", p, x, V);
    p.temperature = 0.8f;
    time_one("temperature", p, x, V);
    ft_logprob out[21];
    const int64_t t = ft_now_ns();
    ft_logprobs(x, V, 3, 20, out);
    printf("%-40s %8.1f us\n", "logprobs 20", (double)(ft_now_ns() - t) * 1e-3);
    fill_random(&r, x, V, 0.5);
    p = only_samplers("top_p");
    time_one("top_p 0.95, flat", p, x, V);
    ft_free(x);
    return 0;
}

/* The margin between the largest value and the next one, at any positions. */
static void margin(void **state)
{
    (void)state;
    float x[100];
    for (int n = 2; n <= 100; n += 7)
        for (int best = 0; best < n; best++) {
            for (int i = 0; i < n; i++) x[i] = (float)-i;
            x[best] = 9;
            x[(best + 1 + best * 5 % (n - 1)) % n] = 7.5f;
            assert_true(ft_margin(x, n) == 1.5f);
        }
    assert_true(ft_margin(x, 1) == 0);
    x[0] = x[1] = 3;
    assert_true(ft_margin(x, 2) == 0);
    x[0] = NAN;
    assert_true(ft_margin(x, 2) == 0);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--bench")) return bench();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(margin),
        cmocka_unit_test(filters_match_their_definition),
        cmocka_unit_test(ties_go_to_the_lower_id),
        cmocka_unit_test(order_matters),
        cmocka_unit_test(draws_follow_the_distribution),
        cmocka_unit_test(a_draw_belongs_to_its_position),
        cmocka_unit_test(penalties_are_exact),
        cmocka_unit_test(dry_is_exact),
        cmocka_unit_test(masks_and_biases_hold),
        cmocka_unit_test(greedy_is_the_largest),
        cmocka_unit_test(bans_are_plain),
        cmocka_unit_test(copies_give_the_same_ids),
        cmocka_unit_test(mirostat_holds_its_target),
        cmocka_unit_test(dynatemp_reaches_both_ends),
        cmocka_unit_test(logprobs_are_of_the_raw_logits),
        cmocka_unit_test(bad_parameters_are_named),
        cmocka_unit_test(a_device_draws_the_same),
        cmocka_unit_test(unsupported_on_a_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
