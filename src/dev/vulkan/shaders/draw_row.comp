/* Sampling: what one workgroup does for a row (see draw.comp). THRESHOLD chooses the bins to
 * collect, and the id of a greedy draw. SORT sorts the collected logits: of a NEAR row the token is
 * drawn, of a CUT row the threshold of top_p is found. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(constant_id = 0) const bool SORT = false;
#include "draw.glsl"
const int OWN = BINS / WG, EACH = PICKS / WG;
const int MORE = -2; /* FT_DRAW_MORE */

/* The bins to collect. With top_k all of its candidates are collected, and the later samplers
 * filter those. Otherwise the last bin is the one with the threshold of top_p, or where min_p
 * ends. */
struct Bins {
    int last;
    bool by_p;       /* it contains the threshold of top_p */
    uint64_t before; /* sum of the weights in the bins above it */
    int upto, own;   /* logits in all bins down to it, and in it */
};

shared int cut_bin, kept_n, at_pick;
shared Bins found_bins;

Bins find_bins(Draw d, int t, float top, out uint64_t sum, out uint64_t goal)
{
    const int me = int(gl_LocalInvocationIndex), from = me * OWN;
    uint64_t m[OWN], c[OWN], logits = 0ul, weight = 0ul, all;
    for (int k = 0; k < OWN; k++) {
        m[k] = c[k] = 0ul;
        for (int b = 0; b < a.blocks; b++) {
            const int at = (t * a.blocks + b) * BINS + from + k;
            m[k] += at64(a.mass, at).v[0];
            c[k] += uint64_t(U32(a.count + 4ul * uint64_t(at)).v[0]);
        }
        logits += c[k];
        weight += m[k];
    }
    logits = sum_before(logits, all);
    weight = sum_before(weight, sum);
    goal = top_p_goal(d.top_p, sum);
    if (me == 0) cut_bin = BINS - 1;
    barrier();
    uint64_t n = logits, w = weight;
    for (int k = 0; k < OWN; n += c[k], w += m[k], k++) {
        const bool by_k = n < uint64_t(d.top_k) && n + c[k] >= uint64_t(d.top_k);
        const bool by_p = c[k] != 0ul && w + m[k] >= goal && (w < goal || n == 0ul);
        if (d.top_k > 0 ? by_k : d.top_p < 1.0 && by_p) cut_bin = from + k;
    }
    barrier();
    precise float lowest = top + d.log_min_p;
    const int end = d.top_k > 0 ? BINS - 1 : bin_of(lowest, top), last = min(cut_bin, end);
    n = logits;
    w = weight;
    for (int k = 0; k < OWN; n += c[k], w += m[k], k++) {
        if (from + k != last) continue;
        found_bins.last = last;
        found_bins.by_p = d.top_k <= 0 && d.top_p < 1.0 && cut_bin <= end;
        found_bins.before = w;
        found_bins.own = int(c[k]);
        found_bins.upto = int(n + c[k]);
    }
    barrier();
    return found_bins;
}

/* Whether the logits of the last bin have weight zero for top_p and for the draw, and are not
 * needed otherwise. Only with top_k: then all bins above it have few logits. */
bool weightless(Draw d)
{
    const float last_below =
        float(FINE) + float(BINS - 1 - FINE * FINE_BINS) / float(COARSE_BINS);
    return d.top_k > 0 && d.list <= 0 && last_below > 28.0 * max(d.temperature, 1.0);
}

void threshold(Draw d, int t)
{
    State s;
    s.best = row_best(t);
    s.sum = s.above = s.goal = s.cut = 0ul;
    s.first = s.last = s.found = 0;
    s.way = DONE;
    int id = s.best != 0ul ? key_id(s.best) : -1;
    if (s.best != 0ul && !is_greedy(d)) {
        const Bins r = find_bins(d, t, key_value(s.best), s.sum, s.goal);
        s.last = r.last;
        s.way = NEAR;
        if (r.last == BINS - 1 && weightless(d)) {
            s.last--; /* logits there are never drawn */
        } else if (r.upto > PICKS) {
            s.above = r.before;
            s.first = r.by_p ? r.last : BINS;
            s.way = r.by_p ? CUT : WIDE;
            if (d.top_k > 0 || (r.by_p && r.own > PICKS)) {
                id = MORE;
                s.way = DONE;
            }
        }
    }
    if (gl_LocalInvocationIndex != 0u) return;
    States(a.row).v[t] = s;
    Drawn y = drawn_of(d);
    y.max = s.best != 0ul ? key_value(s.best) : -INF;
    y.sum = d.list >= 0 ? s.sum : 0ul;
    y.n = 0;
    if (s.way == DONE) write_id(d, id);
}

/* ---- sorted logits ---- */

shared uint64_t pick[PICKS];

/* Sorts n values, a power of two, in descending order. */
void sort_falling(int n)
{
    for (int k = 2; k <= n; k *= 2)
        for (int j = k / 2; j > 0; j /= 2) {
            barrier();
            for (int i = int(gl_LocalInvocationIndex); i < n / 2; i += WG) {
                const int p = 2 * i - (i & j - 1), q = p + j;
                const uint64_t x = pick[p], y = pick[q];
                if ((x < y) == ((p & k) == 0)) {
                    pick[p] = y;
                    pick[q] = x;
                }
            }
        }
    barrier();
}

int power_of_two(int n)
{
    int m = 1;
    while (m < n) m *= 2;
    return m;
}

uint64_t pick_weight(int i, float top)
{
    precise float below = key_value(pick[i]) - top;
    return weigh(below);
}

/* The index of the first of n picks at which the cumulative weight, starting from `above`, reaches
 * the goal; n - 1 if none does. */
int reach(int n, float top, uint64_t above, uint64_t goal)
{
    const int me = int(gl_LocalInvocationIndex), from = me * EACH, to = min(from + EACH, n);
    uint64_t sum = 0ul, all;
    if (me == 0) at_pick = n - 1;
    for (int i = from; i < to; i++) sum += pick_weight(i, top);
    uint64_t before = above + sum_before(sum, all);
    for (int i = from; i < to; i++) {
        const uint64_t upto = before + pick_weight(i, top);
        if (upto >= goal && (before < goal || i == 0)) at_pick = i;
        before = upto;
    }
    barrier();
    return at_pick;
}

/* The number of candidates among the sorted picks, when all candidates have been collected. */
int keep_near(int n, Draw d, State s)
{
    const int me = int(gl_LocalInvocationIndex);
    const float top = key_value(s.best);
    precise float lowest = top + d.log_min_p;
    uint64_t goal = s.goal;
    if (d.top_k > 0) {
        n = min(n, d.top_k);
        uint64_t sum = 0ul;
        for (int i = me; i < n; i += WG) sum += pick_weight(i, top);
        goal = top_p_goal(d.top_p, sum_all(sum));
    }
    if (d.top_p < 1.0) n = reach(n, top, 0ul, goal) + 1;
    if (me == 0) kept_n = 1;
    barrier();
    for (int i = me; i < n; i += WG)
        if (key_value(pick[i]) >= lowest && (i + 1 == n || key_value(pick[i + 1]) < lowest))
            kept_n = i + 1;
    barrier();
    return kept_n;
}

/* The id that is drawn from the n best, in ascending order of ids. */
void draw_near(int n, Draw d)
{
    const int me = int(gl_LocalInvocationIndex), from = me * EACH, m = power_of_two(n);
    const float top = logit_tempered(key_value(pick[0]), d.temperature);
    uint64_t w[EACH], sum = 0ul, all;
    barrier();
    for (int i = me; i < m; i += WG) pick[i] = i < n ? pick[i] << 32 | pick[i] >> 32 : 0ul;
    sort_falling(m); /* descending in complemented ids */
    for (int i = 0; i < EACH; i++) {
        const float x = from + i < n ? key_value(pick[from + i] << 32) : -INF;
        precise float below = logit_tempered(x, d.temperature) - top;
        sum += w[i] = from + i < n ? weigh(below) : 0ul;
    }
    uint64_t before = sum_before(sum, all);
    const uint64_t at = draw_at(d, all);
    for (int i = 0; i < EACH; i++) {
        if (before <= at && before + w[i] > at) write_id(d, key_id(pick[from + i] >> 32));
        before += w[i];
    }
}

void sort_row(Draw d, int t)
{
    const int me = int(gl_LocalInvocationIndex);
    const State s = States(a.row).v[t];
    if (s.way != NEAR && s.way != CUT) return;
    const int m = power_of_two(s.found);
    for (int i = me; i < m; i += WG)
        pick[i] = i < s.found ? at64(a.pick, t * PICKS + i).v[0] : 0ul;
    sort_falling(m);
    if (s.way == CUT) {
        const int at = reach(s.found, key_value(s.best), s.above, s.goal);
        if (me != 0) return;
        States(a.row).v[t].cut = pick[at];
        States(a.row).v[t].way = WIDE;
        return;
    }
    const int list = min(d.list, s.found);
    Drawn y = drawn_of(d);
    if (me < list) y.top[me] = Pick(key_id(pick[me]), key_value(pick[me]));
    if (me == 0) y.n = max(list, 0);
    if (d.temperature > 0.0) {
        draw_near(keep_near(s.found, d, s), d);
    } else if (me == 0) {
        write_id(d, key_id(pick[0]));
    }
}

void main()
{
    const int t = int(gl_WorkGroupID.x);
    const Draw d = draw_of(t);
    if (d.row < 0) return;
    if (SORT)
        sort_row(d, t);
    else
        threshold(d, t);
}
