/* Sampling: the passes over all logits of a row, in chunks that are shared by a.blocks workgroups
 * (CHOOSE: one). Only ids leave the device. The threshold of a sampler (top_k, top_p, min_p) is
 * found in two steps: logits are counted and weighed in bins by their distance to the largest, and
 * the logits of the bin that contains the threshold are collected and sorted (draw_row.comp).
 * Usually few logits are above that bin; then they are collected too, and the rest is done there
 * (NEAR). In a flat distribution (WIDE) only that bin is collected, and the token is found from the
 * sums of the chunks. A row whose bin has too many logits is left to the host. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(constant_id = 0) const int OP = 0;
const int BEST = 0, WEIGH = 1, COLLECT = 2, SUM = 3, CHOOSE = 4; /* ft_vk_draw_scan in draw.c */
#include "draw.glsl"
const int EACH = CHUNK / WG, OWN = BINS / WG;
const uint LOW = (1u << 20) - 1u;

shared float v[CHUNK];
/* A weight is added as two numbers, whose sums over one chunk cannot overflow. */
shared uint bin_count[BINS], bin_high[BINS], bin_low[BINS];

/* The logits of a chunk after mask, bias and penalties. */
void load_chunk(Draw d, int chunk)
{
    const int me = int(gl_LocalInvocationIndex), from = chunk * CHUNK, n = min(CHUNK, a.x.d - from);
    F32 row = F32(uint64_t(head(a.x, d.row, 0)) + 4ul * uint64_t(from));
    const ADDRESS words = Batch(a.batch).draw_words;
    U32 mask = U32(words + 4ul * uint64_t(max(d.mask, 0) + from / 32));
    Edits e = Edits(words + 4ul * uint64_t(d.edit));
    barrier(); /* the chunk before may still be read */
    for (int i = me; i < CHUNK; i += WG) {
        const bool in_row = i < n && (d.mask < 0 || (mask.v[i / 32] >> i % 32 & 1u) != 0u);
        v[i] = in_row ? logit_finite(row.v[i]) : -INF;
    }
    barrier();
    for (int i = me; i < d.n_edit; i += WG) {
        const int at = e.v[i].id - from;
        if (at >= 0 && at < n) v[at] = logit_edited(v[at], e.v[i], d);
    }
    barrier();
}

void best_of_chunks(Draw d, int t, int block)
{
    uint64_t best = 0ul;
    for (int chunk = block; chunk < a.n; chunk += a.blocks) {
        load_chunk(d, chunk);
        for (int i = int(gl_LocalInvocationIndex); i < CHUNK; i += WG)
            best = max(best, key_of(v[i], chunk * CHUNK + i));
    }
    best = largest_of(best);
    if (gl_LocalInvocationIndex == 0u) at64(a.best, t * a.blocks + block).v[0] = best;
}

/* Unless the distribution is flat most logits are in the last bin, which is summed apart. */
void weigh_chunks(Draw d, int t, int block)
{
    const int me = int(gl_LocalInvocationIndex);
    const bool weighs = d.top_k <= 0 || d.list >= 0;
    const uint64_t best = row_best(t);
    const float top = key_value(best);
    uint64_t own[OWN], last = 0ul, last_mass = 0ul;
    for (int k = 0; k < OWN; k++) own[k] = 0ul;
    for (int i = me; i < BINS; i += WG) bin_count[i] = bin_high[i] = bin_low[i] = 0u;
    for (int chunk = block; chunk < a.n && best != 0ul; chunk += a.blocks) {
        load_chunk(d, chunk);
        for (int i = me; i < CHUNK; i += WG) {
            if (!(v[i] > -INF)) continue;
            precise float below = v[i] - top;
            const int at = bin_of(v[i], top);
            const uint64_t w = weighs ? weigh(below) : 0ul;
            if (at == BINS - 1) {
                last++;
                last_mass += w;
                continue;
            }
            atomicAdd(bin_count[at], 1u);
            if (w != 0ul) atomicAdd(bin_high[at], uint(w >> 20));
            if (w != 0ul) atomicAdd(bin_low[at], uint(w) & LOW);
        }
        barrier();
        for (int k = 0; k < OWN; k++) {
            const int i = k * WG + me;
            own[k] += (uint64_t(bin_high[i]) << 20) + uint64_t(bin_low[i]);
            bin_high[i] = bin_low[i] = 0u;
        }
    }
    last = sum_all(last);
    last_mass = sum_all(last_mass);
    for (int k = 0; k < OWN; k++) {
        const int i = k * WG + me, to = (t * a.blocks + block) * BINS + i;
        const bool at_end = i == BINS - 1;
        U32(a.count + 4ul * uint64_t(to)).v[0] = at_end ? uint(last) : bin_count[i];
        at64(a.mass, to).v[0] = at_end ? last_mass : own[k];
    }
}

void collect(Draw d, int t, int block)
{
    States s = States(a.row);
    const float top = key_value(s.v[t].best);
    const int first = s.v[t].first, last = s.v[t].last;
    for (int chunk = block; chunk < a.n; chunk += a.blocks) {
        load_chunk(d, chunk);
        for (int i = int(gl_LocalInvocationIndex); i < CHUNK; i += WG) {
            if (!(v[i] > -INF)) continue;
            const int at = bin_of(v[i], top);
            if (at < first || at > last) continue;
            const int k = atomicAdd(s.v[t].found, 1); /* at most PICKS: they were counted */
            at64(a.pick, t * PICKS + k).v[0] = key_of(v[i], chunk * CHUNK + i);
        }
    }
}

/* Weight of a logit in the draw from a wide row. */
uint64_t wide_weight(float x, int id, Draw d, State s)
{
    const float top = key_value(s.best);
    precise float lowest = top + d.log_min_p;
    if (!(x >= lowest) || key_of(x, id) < s.cut) return 0ul;
    precise float below =
        logit_tempered(x, d.temperature) - logit_tempered(top, d.temperature);
    return weigh(below);
}

void sum_chunks(Draw d, int t, int block)
{
    const State s = States(a.row).v[t];
    for (int chunk = block; chunk < a.n; chunk += a.blocks) {
        load_chunk(d, chunk);
        uint64_t sum = 0ul;
        for (int i = int(gl_LocalInvocationIndex); i < CHUNK; i += WG)
            sum += wide_weight(v[i], chunk * CHUNK + i, d, s);
        sum = sum_all(sum);
        if (gl_LocalInvocationIndex == 0u) at64(a.kept, t * a.n + chunk).v[0] = sum;
    }
}

shared int chosen;
shared uint64_t rest;

/* The chunk that contains the drawn cumulative weight, and the id in it. */
void choose(Draw d, int t)
{
    const int me = int(gl_LocalInvocationIndex);
    const State s = States(a.row).v[t];
    U64 kept = at64(a.kept, t * a.n);
    uint64_t sum = 0ul, all, w[EACH];
    for (int i = me; i < a.n; i += WG) sum += kept.v[i];
    sum = sum_all(sum);
    if (me == 0) {
        uint64_t at = draw_at(d, sum);
        int i = 0;
        for (; i + 1 < a.n && kept.v[i] <= at; i++) at -= kept.v[i];
        chosen = i;
        rest = at;
    }
    barrier();
    const int from = me * EACH, first = chosen * CHUNK + from;
    load_chunk(d, chosen);
    sum = 0ul;
    for (int i = 0; i < EACH; i++) sum += w[i] = wide_weight(v[from + i], first + i, d, s);
    uint64_t before = sum_before(sum, all);
    for (int i = 0; i < EACH; i++) {
        if (before <= rest && before + w[i] > rest) write_id(d, first + i);
        before += w[i];
    }
}

void main()
{
    const int t = int(gl_WorkGroupID.y), block = int(gl_WorkGroupID.x);
    const Draw d = draw_of(t);
    if (d.row < 0) return;
    if (OP == BEST) {
        best_of_chunks(d, t, block);
        return;
    }
    if (OP == WEIGH) {
        if (!is_greedy(d)) weigh_chunks(d, t, block);
        return;
    }
    const int way = States(a.row).v[t].way;
    if (OP == COLLECT && (way == NEAR || way == CUT)) collect(d, t, block);
    if (OP == SUM && way == WIDE) sum_chunks(d, t, block);
    if (OP == CHOOSE && way == WIDE) choose(d, t);
}
