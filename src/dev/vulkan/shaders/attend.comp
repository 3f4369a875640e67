/* Attention of a row and head. Positions are taken in tiles of 128: an invocation computes the
 * score of one of them, then sums some columns of the values over all of them. Tiles of a range of
 * 512 are joined first, then ranges; both begin at multiples of their size, so that the order of
 * the sums depends on the positions that a row sees and nothing else. A workgroup has all ranges of
 * a row, or (SPLIT) some, and fold.comp joins them. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#define PIECES a.part
#include "fold.glsl"
layout(constant_id = 3) const bool SPLIT = false;

shared float query[MOST_D];
shared float score[WG];
shared float spare[WG];

ADDRESS row_at(ADDRESS base, uint page_bytes, uint row_bytes, I32 pages, int g, int c)
{
    return base + uint64_t(pages.v[c / 64]) * uint64_t(page_bytes) +
           uint64_t(uint(g * 64 + c % 64) * row_bytes);
}

float dot_of(ADDRESS key)
{
    const int n = row_width(KT, D);
    float s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0;
    if (KT == KV_F16 && D % 8 == 0) {
        U32 p = U32(key);
        for (int i = 0; i < D; i += 4) {
            const vec2 x = unpackHalf2x16(p.v[i / 2]), y = unpackHalf2x16(p.v[i / 2 + 1]);
            s0 = fma(query[i], x.x, s0);
            s1 = fma(query[i + 1], x.y, s1);
            s2 = fma(query[i + 2], y.x, s2);
            s3 = fma(query[i + 3], y.y, s3);
        }
    } else {
        for (int i = 0; i < n; i += 4) {
            s0 = fma(query[i], kv_at(KT, key, i, D), s0);
            if (i + 1 < n) s1 = fma(query[i + 1], kv_at(KT, key, i + 1, D), s1);
            if (i + 2 < n) s2 = fma(query[i + 2], kv_at(KT, key, i + 2, D), s2);
            if (i + 3 < n) s3 = fma(query[i + 3], kv_at(KT, key, i + 3, D), s3);
        }
    }
    precise float s = (s0 + s1) + (s2 + s3);
    return s;
}

float largest(float x)
{
    const uint i = gl_LocalInvocationIndex;
    spare[i] = x;
    barrier();
    for (uint s = WG / 2; s > 0; s /= 2) {
        if (i < s) spare[i] = max(spare[i], spare[i + s]);
        barrier();
    }
    const float r = spare[0];
    barrier();
    return r;
}

/* The positions [from, to) of a tile that starts at `base`. */
Sum tile_of(int base, int from, int to, I32 pages, int g)
{
    const int me = int(gl_LocalInvocationIndex), c = base + me;
    Sum s = sum_none();
    const bool in_range = c >= from && c < to;
    float x = -INF;
    if (in_range) {
        precise float y = dot_of(row_at(a.k, a.k_page, a.k_row, pages, g, c)) * a.scale;
        x = y;
    }
    s.top = largest(x);
    score[me] = in_range ? exp_of(x - s.top) : 0.0;
    barrier();
    precise float all = 0.0;
    for (int i = from - base; i < to - base; i++) all += score[i];
    s.all = all;
    for (int p = from; p < to; p++) {
        const ADDRESS value = row_at(a.v, a.v_page, a.v_row, pages, g, p);
        const float w = score[p - base];
        [[unroll]] for (int i = 0; i < OWN; i++) {
            if (me + i * WG < row_width(VT, D)) 
                s.o[i] = fma(w, kv_at(VT, value, me + i * WG, D), s.o[i]);
        }
    }
    barrier();
    return s;
}

Sum tiles_of(int lo, int hi, int range, I32 pages, int g)
{
    Sum s = sum_none();
    for (int base = range * RANGE; base < (range + 1) * RANGE; base += WG) {
        const int from = max(base, lo), to = min(base + WG, hi);
        if (from < to) fold(s, tile_of(base, from, to, pages, g));
    }
    return s;
}

void load_query(int t, int h)
{
    F32 q = head(a.q, t, h);
    for (int i = int(gl_LocalInvocationIndex); i < row_width(KT, D); i += WG)
        query[i] = i < D ? q.v[i] : 0.0;
    if (is_turbo(KT))
        HADAMARD(query, row_width(KT, D), turbo_group(D), turbo_before, turbo_after,
                 turbo_group(D) == 128 ? 0.08838834764831845 : 0.125)
    barrier();
}

void main()
{
    const int h = int(gl_WorkGroupID.x), t = int(gl_WorkGroupID.y), g = h / a.group;
    Batch b = Batch(a.batch);
    const Range r = range_of(t);
    I32 pages = I32(b.page[(a.flags & 4) != 0 ? 1 : 0] + 4ul * uint64_t(r.slot * b.pages_per_seq));
    load_query(t, h);
    const int n = r.hi > r.lo ? (r.hi + RANGE - 1) / RANGE : 0;
    if (!SPLIT) {
        Sum s = sum_none();
        for (int i = r.lo / RANGE; i < n; i++) fold(s, tiles_of(r.lo, r.hi, i, pages, g));
        finish(s, t, h);
        return;
    }
    for (int i = r.lo / RANGE + int(gl_WorkGroupID.z); i < n; i += int(gl_NumWorkGroups.z)) {
        const Sum s = tiles_of(r.lo, r.hi, i, pages, g);
        const int width = row_width(VT, D), me = int(gl_LocalInvocationIndex);
        F32 to = part_at(t, h, i);
        for (int j = 0; j < OWN; j++)
            if (me + j * WG < width) to.v[me + j * WG] = s.o[j];
        if (me == 0) {
            to.v[width] = s.top;
            to.v[width + 1] = s.all;
        }
    }
}
