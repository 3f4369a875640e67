/* Attention on cooperative matrices, for f16 caches. A subgroup has a tile of up to 16 query
 * vectors: the query heads of a KV head, of as many rows as there is space for. Positions are taken
 * 32 at a time: scores are Q K^T, keys are read as operands; then the weights, as f16, are operands
 * themselves and are multiplied with V. Sums of a range of 512 positions start anew and are joined
 * in order, as in fold.comp: by the subgroup, in the output, or (SPLIT, few rows) by fold.comp.
 * Of few rows (SLICED), the subgroups of a workgroup have the same query vectors, and 64 columns of
 * the values each: fewer registers, so that more loads are under way.
 * Steps and ranges begin at multiples of their size, and a position that a row does not see adds
 * zero: so a row has the same bits in every batch. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "coop.glsl"
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_vote : require
#define PIECES a.part
#include "fold.glsl"
layout(constant_id = 3) const bool SPLIT = false;
layout(constant_id = 4) const bool SLICED = false;

const int STEP = 32, CHUNKS = D / 8; /* chunks of 16 bytes of a row */
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Words {
    uvec4 v[];
};

const int MATRICES = SLICED ? 8 : CHUNKS; /* matrices of a subgroup: 64 columns are eight */
const int TILES = SLICED ? 1 : 4;    /* of a workgroup */
shared uvec4 queries[TILES * 16 * CHUNKS]; /* chunks swapped in odd rows */

MAT_C o[MATRICES];
float top[2], all[2]; /* of query vectors g and g + 8: of this range; `all` of a lane's columns */
Range range[2];       /* what they see; empty: nothing */

/* Row of q, and head, of query vector i of a tile; -1: none. */
ivec2 query_of(int tile, int i)
{
    const int each = 16 / a.group, row = tile * each + i / a.group;
    const bool is_one = i < each * a.group && row < a.rows;
    return ivec2(is_one ? row : -1, int(gl_WorkGroupID.x) * a.group + i % a.group);
}

f16vec2 halves_at(F32 q, int i)
{
    return f16vec2(q.v[i], q.v[i + 1]);
}

/* Tile `to` of those in shared memory, by all invocations or (not SLICED) by a subgroup. */
void load_queries(int to, int me, int tile)
{
    const int step = 128 / TILES;
    [[unroll]] for (int first = 0; first < 16 * CHUNKS; first += step) {
        const int r = (first + me) / CHUNKS, c = (first + me) % CHUNKS;
        const ivec2 at = query_of(tile, r);
        F32 q = F32(uint64_t(head(a.q, max(at.x, 0), at.y)) + uint64_t(32 * c));
        const uvec4 v = uvec4(packFloat2x16(halves_at(q, 0)), packFloat2x16(halves_at(q, 2)),
                              packFloat2x16(halves_at(q, 4)), packFloat2x16(halves_at(q, 6)));
        queries[(to * 16 + r) * CHUNKS + (c ^ 4 * (r & 1))] = at.x >= 0 ? v : uvec4(0u);
    }
}

uvec4 key_at(ADDRESS key, int position, int chunk)
{
    return Words(key + uint64_t(uint(position) * a.k_row)).v[chunk];
}

/* Adds the products of four chunks, from 4 i on, of queries at `at` and keys. */
void multiply_keys(uvec4 k[4], int at, int i, int g, int t, inout MAT_C s[4])
{
    const int odd = 4 * (g & 1);
    const uvec4 p = queries[at + (4 * i + t ^ odd)];
    const uvec4 q = queries[at + 8 * CHUNKS + (4 * i + t ^ odd)];
    const MAT_A first = operand_a(unpackFloat2x16(p.x), unpackFloat2x16(q.x),
                                  unpackFloat2x16(p.y), unpackFloat2x16(q.y));
    const MAT_A second = operand_a(unpackFloat2x16(p.z), unpackFloat2x16(q.z),
                                   unpackFloat2x16(p.w), unpackFloat2x16(q.w));
    [[unroll]] for (int n = 0; n < 4; n++) {
        s[n] = coop_mul_add(first, operand_b(unpackFloat2x16(k[n].x), unpackFloat2x16(k[n].y)),
                            s[n]);
        s[n] = coop_mul_add(second, operand_b(unpackFloat2x16(k[n].z), unpackFloat2x16(k[n].w)),
                            s[n]);
    }
}

/* Scores of 32 positions, the keys from `key` on. */
void scores_of(ADDRESS key, int warp, int g, int t, out MAT_C s[4])
{
    [[unroll]] for (int n = 0; n < 4; n++) s[n] = coop_c(0.0);
    const int at = ((SLICED ? 0 : warp) * 16 + g) * CHUNKS;
    if (SLICED) { /* all loads at once */
        uvec4 all_k[CHUNKS / 4][4];
        [[unroll]] for (int i = 0; i < CHUNKS; i++)
            all_k[i / 4][i % 4] = key_at(key, 8 * (i % 4) + g, i / 4 * 4 + t);
        [[unroll]] for (int i = 0; i < CHUNKS / 4; i++) multiply_keys(all_k[i], at, i, g, t, s);
        return;
    }
    uvec4 k[4], next[4];
    [[unroll]] for (int n = 0; n < 4; n++) next[n] = key_at(key, 8 * n + g, t);
    for (int i = 0; i < CHUNKS / 4; i++) {
        [[unroll]] for (int n = 0; n < 4; n++) {
            k[n] = next[n];
            next[n] = key_at(key, 8 * n + g, min(4 * i + 4, CHUNKS - 4) + t);
        }
        multiply_keys(k, at, i, g, t, s);
    }
}

/* Value j of eight halves. */
float16_t half_at(uvec4 v, int j)
{
    const f16vec2 p = unpackFloat2x16(v[j / 2]);
    return j % 2 == 0 ? p.x : p.y;
}

/* The values of 16 positions in the columns from 64 c on; those from `seen` on are zeros. */
void load_values(ADDRESS value, int c, int seen, int g, int t, out uvec4 v[4])
{
    [[unroll]] for (int i = 0; i < 4; i++) {
        const int p = 2 * t + i % 2 + 8 * (i / 2);
        v[i] = p < seen ? Words(value + uint64_t(uint(p) * a.v_row)).v[8 * c + g] : uvec4(0u);
    }
}

/* Adds the weights times these values to the matrices from 8 n on. */
void multiply_values(uvec4 v[4], MAT_A weights, int n)
{
    [[unroll]] for (int j = 0; j < 8; j++) {
        const MAT_B b = operand_b(f16vec2(half_at(v[0], j), half_at(v[1], j)),
                                  f16vec2(half_at(v[2], j), half_at(v[3], j)));
        o[8 * n + j] = coop_mul_add(weights, b, o[8 * n + j]);
    }
}

/* o += weights times the values of 16 positions. */
void add_values(ADDRESS value, MAT_A weights, int seen, int g, int t)
{
    [[unroll]] for (int c = 0; c < MATRICES / 8; c++) {
        uvec4 v[4];
        load_values(value, c, seen, g, t, v);
        multiply_values(v, weights, c);
    }
}

/* The weights of a step, in place of its scores; o and `all` are scaled where a maximum grows. */
void softmax_weights(inout MAT_C s[4], int base, int t)
{
    vec4 x[4];
    float most[2] = float[](-INF, -INF), grow[2];
    [[unroll]] for (int n = 0; n < 4; n++) {
        x[n] = elements(s[n]);
        [[unroll]] for (int i = 0; i < 4; i++) {
            const int p = base + 8 * n + 2 * t + i % 2;
            precise float y = x[n][i] * a.scale;
            x[n][i] = p >= range[i / 2].lo && p < range[i / 2].hi ? y : -INF;
            most[i / 2] = max(most[i / 2], x[n][i]);
        }
    }
    [[unroll]] for (int i = 0; i < 2; i++) {
        most[i] = max(most[i], subgroupShuffleXor(most[i], 1u));
        most[i] = max(most[i], subgroupShuffleXor(most[i], 2u));
        most[i] = max(most[i], top[i]);
        grow[i] = top[i] > -INF ? exp_of(top[i] - most[i]) : 1.0;
        top[i] = most[i];
        precise float scaled = all[i] * grow[i];
        all[i] = scaled;
    }
    if (!subgroupAll(grow[0] == 1.0 && grow[1] == 1.0)) {
        [[unroll]] for (int c = 0; c < MATRICES; c++) {
            const vec4 e = elements(o[c]);
            o[c] = operand_c(e.x * grow[0], e.y * grow[0], e.z * grow[1], e.w * grow[1]);
        }
    }
    [[unroll]] for (int n = 0; n < 4; n++) {
        [[unroll]] for (int i = 0; i < 4; i++) {
            x[n][i] = x[n][i] > -INF ? exp_of(x[n][i] - top[i / 2]) : 0.0;
            precise float sum = all[i / 2] + x[n][i];
            all[i / 2] = sum;
        }
        s[n] = operand_c(x[n].x, x[n].y, x[n].z, x[n].w);
    }
}

MAT_A weights_of(MAT_C p, MAT_C q)
{
    const vec4 x = elements(p), y = elements(q);
    return operand_a(f16vec2(x.xy), f16vec2(x.zw), f16vec2(y.xy), f16vec2(y.zw));
}

/* o, top and all of the positions [from, to) of a range, which begins at a multiple of STEP. */
void attend(int from, int to, I32 pages, int warp, int g, int t)
{
    const int kv = int(gl_WorkGroupID.x);
    top[0] = top[1] = -INF;
    all[0] = all[1] = 0.0;
    [[unroll]] for (int c = 0; c < MATRICES; c++) o[c] = coop_c(0.0);
    for (int base = from; base < to; base += STEP) {
        const uint64_t page = uint64_t(pages.v[base / 64]);
        const uint row = uint(kv * 64 + base % 64);
        const ADDRESS key = a.k + page * uint64_t(a.k_page) + uint64_t(row * a.k_row);
        const ADDRESS value = a.v + page * uint64_t(a.v_page) + uint64_t(row * a.v_row);
        MAT_C s[4];
        scores_of(key, warp, g, t, s);
        if (SLICED) {
            uvec4 v[2][4];
            load_values(value, warp, to - base, g, t, v[0]);
            load_values(value + uint64_t(16u * a.v_row), warp, to - base - 16, g, t, v[1]);
            softmax_weights(s, base, t);
            multiply_values(v[0], weights_of(s[0], s[1]), 0);
            multiply_values(v[1], weights_of(s[2], s[3]), 0);
            continue;
        }
        softmax_weights(s, base, t);
        add_values(value, weights_of(s[0], s[1]), to - base, g, t);
        add_values(value + uint64_t(16u * a.v_row), weights_of(s[2], s[3]), to - base - 16, g, t);
    }
    [[unroll]] for (int i = 0; i < 2; i++) {
        precise float sum = all[i] + subgroupShuffleXor(all[i], 1u);
        sum = sum + subgroupShuffleXor(sum, 2u);
        all[i] = sum;
    }
}

/* The lane's values of a query vector: 16 of each 64 columns of the subgroup. */
float value_at(int i, int c, int j)
{
    const vec4 e = elements(o[8 * c + j % 8]);
    return e[2 * i + j / 8];
}

void write_part(int i, int tile, int n, int g, int t)
{
    const ivec2 at = query_of(tile, g + 8 * i);
    if (range[i].hi <= range[i].lo) return;
    F32 to = part_at(at.x, at.y, n);
    [[unroll]] for (int c = 0; c < MATRICES / 8; c++)
        [[unroll]] for (int j = 0; j < 16; j++) to.v[64 * c + 16 * t + j] = value_at(i, c, j);
    if (t == 0) {
        to.v[D] = top[i];
        to.v[D + 1] = all[i];
    }
}

/* Joins the range with those before, whose sum is in the output; the last one ends it. */
void join_range(int i, int tile, int warp, int g, int t, inout float whole_top, inout float whole,
                bool last)
{
    const ivec2 at = query_of(tile, g + 8 * i);
    const bool before = whole > 0.0, now = all[i] > 0.0;
    const float most = max(whole_top, top[i]);
    const float p = !now ? 1.0 : before ? exp_of(whole_top - most) : 0.0;
    const float q = now ? exp_of(top[i] - most) : 0.0;
    if (now) {
        precise float sum = whole * p + all[i] * q;
        whole = sum;
        whole_top = most;
    }
    if (range[i].slot < 0 || !(now || last)) return;
    const float inverse = !last ? 1.0 : whole > 0.0 ? 1.0 / whole : 0.0;
    F32 to = head(a.o, at.x, at.y);
    [[unroll]] for (int c = 0; c < MATRICES / 8; c++)
        [[unroll]] for (int j = 0; j < 16; j++) {
            const int column = 64 * (SLICED ? warp : c) + 16 * t + j;
            const float old = before ? to.v[column] : 0.0;
            precise float v = old * p + value_at(i, c, j) * q;
            if (!now) v = old;
            precise float result = v * inverse;
            to.v[column] = last ? gated(result, at.x, at.y, column) : result;
        }
}

/* The query vectors of the rows of one sequence. */
void attend_slot(int tile, int slot, int warp, int g, int t)
{
    Batch b = Batch(a.batch);
    int lo = 0x7fffffff, hi = 0;
    [[unroll]] for (int i = 0; i < 2; i++) {
        const ivec2 at = query_of(tile, g + 8 * i);
        range[i] = at.x < 0 ? Range(0, 0, -1) : range_of(at.x);
        if (range[i].slot != slot) range[i] = Range(0, 0, -1);
        if (range[i].hi > range[i].lo) {
            lo = min(lo, range[i].lo);
            hi = max(hi, range[i].hi);
        }
    }
    [[unroll]] for (uint s = 4u; s < 32u; s *= 2u) {
        lo = min(lo, subgroupShuffleXor(lo, s));
        hi = max(hi, subgroupShuffleXor(hi, s));
    }
    I32 pages = I32(b.page[(a.flags & 4) != 0 ? 1 : 0] + 4ul * uint64_t(slot * b.pages_per_seq));
    const int n = hi > lo ? (hi + RANGE - 1) / RANGE : 0;
    if (SPLIT) {
        for (int r = lo / RANGE + int(gl_WorkGroupID.z) * 4 + warp; r < n;
             r += 4 * int(gl_NumWorkGroups.z)) {
            attend(max(r * RANGE, lo / STEP * STEP), min((r + 1) * RANGE, hi), pages, warp, g, t);
            write_part(0, tile, r, g, t);
            write_part(1, tile, r, g, t);
        }
        return;
    }
    float whole_top[2] = float[](-INF, -INF), whole[2] = float[](0.0, 0.0);
    for (int r = n == 0 ? 0 : lo / RANGE; r < max(n, 1); r++) {
        attend(max(r * RANGE, lo / STEP * STEP), min((r + 1) * RANGE, hi), pages, warp, g, t);
        [[unroll]] for (int i = 0; i < 2; i++)
            join_range(i, tile, warp, g, t, whole_top[i], whole[i], r + 1 >= n);
    }
}

void main()
{
    const int warp = int(gl_SubgroupID), lane = int(gl_SubgroupInvocationID);
    const int tile = SPLIT || SLICED ? int(gl_WorkGroupID.y) : int(gl_WorkGroupID.y) * 4 + warp;
    const int each = 16 / a.group;
    int slot = -1;
    if (SLICED) {
        load_queries(0, 32 * warp + lane, tile);
        barrier();
        if (64 * warp >= D) return;
    } else {
        load_queries(warp, lane, tile);
        subgroupMemoryBarrierShared();
        subgroupBarrier();
    }
    for (int row = tile * each; row < min((tile + 1) * each, a.rows); row++) {
        const int own = range_of(row).slot;
        if (own != slot) attend_slot(tile, own, warp, lane / 4, lane % 4);
        slot = own;
    }
}
