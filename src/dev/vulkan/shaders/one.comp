/* y = x W^T on cooperative matrices, for up to ROWS rows of x (1 to 4). A tile has 16 outputs;
 * SHARE subgroups share its columns, and their sums are added in order, as in few.comp. A subgroup
 * loads the next block of weights, and the columns of x that belong to it, into the registers of
 * those it has used. Each lane converts eight columns of a row of x to f16; the subgroup exchanges
 * them in shared memory. A workgroup may have several tiles, and does not wait between them: sums
 * are kept KEPT times.
 *
 * With experts, the rows are pairs of a row and one of its K experts: one pair (DIRECT), or those
 * of an expert (PLANNED, plan.comp). Where the experts are being chosen at the same time (ROUTED,
 * select.comp), every workgroup finds its own in the scores of the router. Of gate and up, a
 * workgroup computes the same tile of both and joins them. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "coop.glsl"
#include "coop_weights.glsl"
layout(constant_id = 1) const int SHARE = 8;
layout(constant_id = 2) const int MATRICES = 1; /* 2: gate and up */
layout(constant_id = 3) const bool FOURS = true; /* x can be read in fours */
layout(constant_id = 4) const int EXPERTS = 0;
layout(constant_id = 6) const int ROWS = 1;
layout(local_size_x = 256) in;
#define ROW_GROUP int(gl_WorkGroupID.y)
#include "coop_rows.glsl"
const int NUMBERS = EXPERTS == ROUTED ? 512 : 4;
#include "rank.glsl"

/* Of rows g and g + 8 of a tile. */
struct Raw {
    uvec4 head[2], high[2];
    uvec4 codes[4], upper[4]; /* of each half */
};

const int TILES = 8 / SHARE; /* of a workgroup at the same time */
const int KEPT = 8 / ROWS;   /* times */
shared float part[KEPT * ROWS * MATRICES * 128]; /* [time][matrix][subgroup][output][row] */
shared uvec4 words[ROWS * 256];                  /* [subgroup][row], chunks swapped in odd rows */
shared int finalist[EXPERTS == ROUTED ? 256 : 1], chosen;

ADDRESS row[2], x[ROWS];
vec4 columns[2 * ROWS]; /* of x, 32 apart */
Raw raw;
MAT_C acc;

vec4 floats(ADDRESS p)
{
    if (FOURS) return V4(p).v[0];
    F32 f = F32(p);
    return vec4(f.v[0], f.v[1], f.v[2], f.v[3]);
}

uvec4 halves(vec4 lower, vec4 upper)
{
    lower *= X_SCALE;
    upper *= X_SCALE;
    return uvec4(packFloat2x16(f16vec2(lower.xz)), packFloat2x16(f16vec2(lower.yw)),
                 packFloat2x16(f16vec2(upper.xz)), packFloat2x16(f16vec2(upper.yw)));
}

void load_head(int b, int t)
{
    [[unroll]] for (int i = 0; i < ROWS; i++) {
        columns[2 * i] = floats(x[i] + 1024ul * uint64_t(b));
        columns[2 * i + 1] = floats(x[i] + 1024ul * uint64_t(b) + 128ul);
    }
    [[unroll]] for (int i = 0; i < 2; i++) raw.head[i] = head_at(row[i] + uint64_t(b * BLOCK), t);
}

void load_codes(int b, int h, int t)
{
    [[unroll]] for (int i = 0; i < 2; i++) {
        const ADDRESS block = row[i] + uint64_t(b * BLOCK);
        if (h == 1) raw.high[i] = high_at(block, t);
        raw.codes[2 * i + h] = codes_at(block, h, t);
        raw.upper[2 * i + h] = upper_at(block, h, t);
    }
}

void load(int b, int t)
{
    load_head(b, t);
    load_codes(b, 0, t);
    load_codes(b, 1, t);
}

/* Where the eight columns of chunk `at` of a row of x are. */
uint word_at(uint row, uint at)
{
    return (gl_SubgroupID * uint(ROWS) + row) * 32u + (ROWS > 1 ? at ^ 4u * (row & 1u) : at);
}

void multiply(Raw r, Factor f0, Factor f8, int h, int t)
{
    const uint own = gl_SubgroupInvocationID / 4u % uint(ROWS); /* row of x in column g of B */
    [[unroll]] for (int j = 0; j < 4; j++) {
        const uint w0 = r.codes[h][j], w8 = r.codes[2 + h][j];
        const uint h0 = high_of(r.high[0], h, j, t), h8 = high_of(r.high[1], h, j, t);
        const uint u0 = TYPE == Q8_0 ? r.upper[h][j] : w0;
        const uint u8 = TYPE == Q8_0 ? r.upper[2 + h][j] : w8;
        const uvec4 v = words[word_at(own, uint(16 * h + 4 * j + t))];
        acc = coop_mul_add(weights(w0, w8, h0, h8, false, f0, f8),
                           operand_b(unpackFloat2x16(v.x), unpackFloat2x16(v.y)), acc);
        acc = coop_mul_add(weights(u0, u8, h0, h8, true, f0, f8),
                           operand_b(unpackFloat2x16(v.z), unpackFloat2x16(v.w)), acc);
    }
}

/* Multiplies the block that is loaded, and loads block `next` of `row`, unless that is negative. */
void multiply_block(int next, int t)
{
    const Raw r = raw;
    Factor f[4];
    subgroupBarrier();
    [[unroll]] for (int i = 0; i < ROWS; i++)
        words[word_at(uint(i), gl_SubgroupInvocationID)] =
            halves(columns[2 * i], columns[2 * i + 1]);
    [[unroll]] for (int i = 0; i < 4; i++) f[i] = factor_of(r.head[i % 2], i / 2, t);
    subgroupMemoryBarrierShared();
    subgroupBarrier();
    if (next >= 0) load_head(next, t);
    [[unroll]] for (int h = 0; h < 2; h++) {
        multiply(r, f[2 * h], f[2 * h + 1], h, t);
        if (next >= 0) load_codes(next, h, t);
    }
}

void find_weights(ADDRESS w, int tile, int g)
{
    [[unroll]] for (int i = 0; i < 2; i++)
        row[i] = w + uint64_t(min(16 * tile + g + 8 * i, a.n - 1)) * uint64_t(a.row_bytes);
}

/* Sum of output o and row c of a tile: the partial sums in order. */
float total(int at, int o, int c)
{
    precise float sum = 0.0;
    [[unroll]] for (int p = 0; p < SHARE; p++) sum += part[at + (16 * p + o) * ROWS + c];
    return sum;
}

/* act(gate) * up, as each.comp computes it. */
void store_pair(Group r, int c, int o, float g, float u)
{
    if (o >= a.n) return;
    precise float gate = g * r.scale, up = u * r.up_scale;
    precise float v = act_of(gate, a.act) * up;
    if (a.by != 0ul) v = v * sigmoid(F32(a.by).v[row_at(r, c) * a.by_rs]);
    place(r, c, o).v[0] = v;
}

/* The results of `times` times TILES tiles, the first ones at `first`. */
void finish(Group rows, int first, int times)
{
    const int each = TILES * 16, stride = int(gl_NumWorkGroups.x) * each;
    for (int i = int(gl_LocalInvocationIndex); i < times * each * ROWS; i += 256) {
        const int time = i / (each * ROWS), c = i / each % ROWS, o = i % each;
        const int at = (time * MATRICES * 8 + o / 16 * SHARE) * 16 * ROWS;
        const int to = 16 * first + time * stride + o;
        if (ROWS > 1 && c >= rows.n) continue;
        if (MATRICES == 2)
            store_pair(rows, c, to, total(at, o % 16, c), total(at + 128 * ROWS, o % 16, c));
        else
            store(rows, c, to, total(at, o % 16, c));
    }
}

/* The expert of this pair, of up to 256 with scores at a.plan: the first K of every 32 scores are
 * ranked among each other. */
int routed_expert()
{
    const int me = int(gl_LocalInvocationIndex), pair = int(gl_WorkGroupID.y), own = me / 32;
    F32 score = F32(a.plan + 4ul * uint64_t(pair / a.K) * uint64_t(a.by_rs));
    const float v = me < a.T ? number(score.v[me]) : -INF;
    numbers[me / 4][me % 4] = v;
    barrier();
    const int rank = rank_of(8 * own, me % 32, 8), to = own * a.K + rank;
    if (rank < a.K) {
        numbers[64 + to / 4][to % 4] = v;
        finalist[to] = me;
    }
    barrier();
    if (me < 8 * a.K && rank_of(64, me, 2 * a.K) == pair % a.K) chosen = finalist[me];
    barrier();
    return chosen;
}

/* The sums of a subgroup: output g or g + 8, rows 2 t and 2 t + 1. */
void put_part(int at, int g, int t)
{
    const vec4 e = elements(acc);
    if (2 * t < ROWS) {
        part[at + g * ROWS + 2 * t] = e.x;
        part[at + (g + 8) * ROWS + 2 * t] = e.z;
    }
    if (2 * t + 1 < ROWS) {
        part[at + g * ROWS + 2 * t + 1] = e.y;
        part[at + (g + 8) * ROWS + 2 * t + 1] = e.w;
    }
}

void main()
{
    const int warp = int(gl_SubgroupID), lane = int(gl_SubgroupInvocationID), g = lane / 4,
              t = lane % 4, blocks = a.k / 256, own = warp % SHARE, tiles = (a.n + 15) / 16;
    const int stride = int(gl_NumWorkGroups.x) * TILES;
    int expert = 0;
    if (EXPERTS == ROUTED) expert = routed_expert();
    const Group rows = group_of(expert);
    int first = int(gl_WorkGroupID.x) * TILES, n = 0;
    if (ROWS > 1 && rows.n == 0) return;
    [[unroll]] for (int i = 0; i < ROWS; i++) {
        const int from = source_at(rows, ROWS > 1 ? min(i, rows.n - 1) : 0);
        x[i] = a.x + 4ul * (uint64_t(from) * uint64_t(a.x_rs) +
                            uint64_t(128 * (g / 4) + 4 * (g % 4) + 64 * (t / 2) + 16 * (t % 2)));
    }
    find_weights(rows.w, first + warp / SHARE, g);
    load(min(own, blocks - 1), t);
    for (int tile = first; tile < tiles; tile += stride) {
        for (int m = 0; m < MATRICES; m++) {
            const bool last = m + 1 == MATRICES;
            acc = coop_c(0.0);
            for (int b = own; b < blocks; b += PARTS) {
                int next = b + PARTS;
                if (next >= blocks) {
                    next = last && tile + stride >= tiles ? -1 : own;
                    find_weights(last ? rows.w : rows.up,
                                 tile + warp / SHARE + (last ? stride : 0), g);
                }
                multiply_block(next, t);
            }
            put_part(((n * MATRICES + m) * 8 + warp) * 16 * ROWS, g, t);
        }
        n++;
        if (n < KEPT && tile + stride < tiles) continue;
        barrier();
        finish(rows, first, n);
        first = tile + stride;
        n = 0;
        if (first < tiles) barrier();
    }
}
