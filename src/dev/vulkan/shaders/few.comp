/* y = x W^T on cooperative matrices, for up to 8 NT rows of x. A tile has 16 outputs, a subgroup MT
 * of them; SHARE subgroups share their columns, and their sums are added in order. Of few rows most
 * columns of a product are unused: the weights' bandwidth is the limit.
 *
 * With experts, the rows are pairs of a row and one of its K experts: PLANNED, sorted by expert
 * (plan.comp), or DIRECT, a tile for each. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "coop.glsl"
#include "coop_weights.glsl"
layout(constant_id = 1) const int NT = 1;
layout(constant_id = 2) const int SHARE = 8;
layout(constant_id = 3) const bool FOURS = true; /* x can be read in fours */
layout(constant_id = 4) const int EXPERTS = 0;
layout(constant_id = 6) const int MT = 1;
layout(constant_id = 7) const int SOURCE = 0; /* of x: */
layout(constant_id = 10) const bool PAIR = false; /* the tiles of a subgroup are gate and up */
layout(constant_id = 11) const int NORM = 0; /* SHARED: x is normed here; the WG of norm.comp */
layout(constant_id = 8) const int WIDTH = 1;  /* words of x in shared memory */
const int PLANNED = 1, DIRECT = 2;
const int FLOATS = 0, COPY = 1, SHARED = 2;
const int TILES = PAIR ? 1 : MT; /* of results, for a subgroup */
layout(local_size_x = 256) in;
#include "coop_rows.glsl"

/* Of rows g and g + 8 of each tile. */
struct Raw {
    uvec4 head[4], high[4];
    uvec4 codes[8], upper[8]; /* of each half */
};

shared float part[8 * MT * NT * 128];
shared uvec4 staged[WIDTH];

ADDRESS row[2 * MT], x[NT];
MAT_C acc[MT * NT];
uvec4 own[8], ahead[8]; /* x of one row group: a block */

Raw load(int b, int t)
{
    Raw r;
    [[unroll]] for (int i = 0; i < 2 * MT; i++) {
        const ADDRESS block = row[i] + uint64_t(b * BLOCK);
        r.head[i] = head_at(block, t);
        r.high[i] = high_at(block, t);
        [[unroll]] for (int h = 0; h < 2; h++) {
            r.codes[2 * i + h] = codes_at(block, h, t);
            r.upper[2 * i + h] = upper_at(block, h, t);
        }
    }
    return r;
}

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

/* The columns of word j of half h that lane t has, as in halves.comp. */
uvec4 words_of(int i, int b, int h, int j, int t)
{
    const int at = 32 * b + 16 * h + 4 * j + t;
    if (SOURCE == SHARED) return staged[at];
    if (SOURCE == COPY) return Words(x[i]).v[at];
    const ADDRESS p = x[i] + 4ul * uint64_t(256 * b + 128 * h + 4 * j);
    return halves(floats(p), floats(p + 128ul));
}

/* Block b of the first row group. */
void load_rows(int b, int t)
{
    if (SOURCE == FLOATS) {
        vec4 v[16];
        [[unroll]] for (int i = 0; i < 16; i++)
            v[i] = floats(x[0] + 4ul * uint64_t(256 * b + 128 * (i / 8) + 4 * (i % 8 / 2) +
                                                32 * (i % 2)));
        [[unroll]] for (int i = 0; i < 8; i++) ahead[i] = halves(v[2 * i], v[2 * i + 1]);
    } else {
        [[unroll]] for (int i = 0; i < 8; i++) ahead[i] = words_of(0, b, i / 4, i % 4, t);
    }
}

void multiply(Raw r, int b, int t)
{
    [[unroll]] for (int h = 0; h < 2; h++) {
        Factor f[4];
        [[unroll]] for (int i = 0; i < 2 * MT; i++) f[i] = factor_of(r.head[i], h, t);
        [[unroll]] for (int j = 0; j < 4; j++) {
            MAT_A lower[2], upper[2];
            [[unroll]] for (int m = 0; m < MT; m++) {
                const int p = 2 * m, q = 2 * m + 1;
                const uint w0 = r.codes[2 * p + h][j], w8 = r.codes[2 * q + h][j];
                const uint h0 = high_of(r.high[p], h, j, t), h8 = high_of(r.high[q], h, j, t);
                const uint u0 = TYPE == Q8_0 ? r.upper[2 * p + h][j] : w0;
                const uint u8 = TYPE == Q8_0 ? r.upper[2 * q + h][j] : w8;
                lower[m] = weights(w0, w8, h0, h8, false, f[p], f[q]);
                upper[m] = weights(u0, u8, h0, h8, true, f[p], f[q]);
            }
            [[unroll]] for (int i = 0; i < NT; i++) {
                const uvec4 v = NT == 1 ? own[4 * h + j] : words_of(i, b, h, j, t);
                const MAT_B x0 = operand_b(unpackFloat2x16(v.x), unpackFloat2x16(v.y));
                const MAT_B x1 = operand_b(unpackFloat2x16(v.z), unpackFloat2x16(v.w));
                [[unroll]] for (int m = 0; m < MT; m++)
                    acc[m * NT + i] = coop_mul_add(lower[m], x0, acc[m * NT + i]);
                [[unroll]] for (int m = 0; m < MT; m++)
                    acc[m * NT + i] = coop_mul_add(upper[m], x1, acc[m * NT + i]);
            }
        }
    }
}

/* Sum (c, o) of a tile of the workgroup: the partial sums in order. */
float total(int tile, int c, int o)
{
    const int from = ((tile / MT * SHARE * MT + tile % MT) * NT + c / 8) * 128 + 8 * o + c % 8;
    precise float sum = 0.0;
    [[unroll]] for (int p = 0; p < SHARE; p++) sum += part[from + p * MT * NT * 128];
    return sum;
}

/* act(gate) * up, as each.comp computes it. */
void store_pair(Group r, int i, int o, float g, float u)
{
    if (o >= a.n) return;
    precise float v = act_of(g * r.scale, a.act) * (u * r.up_scale);
    if (a.by != 0ul) v = v * sigmoid(F32(a.by).v[row_at(r, i) * a.by_rs]);
    place(r, i, o).v[0] = v;
}

void finish(Group rows, int first_tile)
{
    for (int i = int(gl_LocalInvocationIndex); i < 8 / SHARE * TILES * NT * 128; i += 256) {
        const int tile = i / (NT * 128), c = i % (NT * 128) / 16, o = i % 16;
        if (c >= rows.n) continue;
        if (PAIR)
            store_pair(rows, c, 16 * (first_tile + tile) + o, total(2 * tile, c, o),
                       total(2 * tile + 1, c, o));
        else
            store(rows, c, 16 * (first_tile + tile) + o, total(tile, c, o));
    }
}

/* 1 / rms of the row, with the sums of norm.comp. */
float inv_rms(F32 x)
{
    const int me = int(gl_LocalInvocationIndex);
    float own[4];
    [[unroll]] for (int q = 0; q < NORM / 256; q++) own[q] = 0.0;
    for (int first = 0; first < a.k; first += NORM)
        [[unroll]] for (int q = 0; q < NORM / 256; q++) {
            const int i = first + 256 * q + me;
            const float v = i < a.k ? x.v[i] : 0.0;
            own[q] = fma(v, v, own[q]);
        }
    precise float sum = own[0];
    if (NORM == 1024) {
        precise float p = own[0] + own[2], q = own[1] + own[3];
        sum = p + q;
    }
    part[me] = sum;
    barrier();
    for (int s = 128; s > 0; s /= 2) {
        if (me < s) {
            precise float both = part[me] + part[me + s];
            part[me] = both;
        }
        barrier();
    }
    return 1.0 / sqrt(part[0] / float(a.k) + intBitsToFloat(a.K));
}

/* The one row of the group in shared memory. */
void stage(Group rows)
{
    const ADDRESS from = a.x + 4ul * uint64_t(source_at(rows, 0)) * uint64_t(a.x_rs);
    float r = 1.0;
    if (NORM != 0) r = inv_rms(F32(from));
    for (int i = int(gl_LocalInvocationIndex); i < WIDTH; i += 256) {
        const int t = i % 4, k = 128 * (i / 16) + 64 * (t / 2) + 16 * (t % 2) + 4 * (i / 4 % 4);
        const ADDRESS p = from + 4ul * uint64_t(k), w = a.plan + 4ul * uint64_t(k);
        precise vec4 lower = floats(p), upper = floats(p + 128ul);
        if (NORM != 0) {
            lower = lower * r * V4(w).v[0];
            upper = upper * r * V4(w + 128ul).v[0];
        }
        staged[i] = halves(lower, upper);
    }
    barrier();
}

void find_rows(Group rows, int g, int t)
{
    [[unroll]] for (int i = 0; i < NT; i++) {
        const int r = source_at(rows, min(8 * i + g, rows.n - 1));
        x[i] = SOURCE == COPY
                   ? a.x + 2ul * uint64_t(r) * uint64_t(a.k)
                   : a.x + 4ul * (uint64_t(r) * uint64_t(a.x_rs) +
                                  uint64_t(64 * (t / 2) + 16 * (t % 2)));
    }
}

void main()
{
    const int warp = int(gl_SubgroupID), lane = int(gl_SubgroupInvocationID), g = lane / 4,
              t = lane % 4, blocks = a.k / 256, mine = warp % SHARE;
    const int first_tile =
        int(gl_WorkGroupID.x + gl_WorkGroupID.z * gl_NumWorkGroups.x) * (8 / SHARE * TILES);
    const int tile = first_tile + warp / SHARE * TILES;
    const Group rows = group_of();
    if (rows.n == 0) return;
    [[unroll]] for (int i = 0; i < 2 * MT; i++) {
        const int o = 16 * tile + g + 8 * (PAIR ? i % 2 : i);
        row[i] = (PAIR && i >= 2 ? rows.up : rows.w) +
                 uint64_t(min(o, a.n - 1)) * uint64_t(a.row_bytes);
    }
    [[unroll]] for (int i = 0; i < MT * NT; i++) acc[i] = coop_c(0.0);
    Raw next = load(min(mine, blocks - 1), t);
    find_rows(rows, g, t);
    if (SOURCE == SHARED) stage(rows);
    if (SOURCE == COPY && NT == 1) load_rows(min(mine, blocks - 1), t);
    for (int b = mine; b < blocks; b += PARTS) {
        const Raw r = next;
        if (SOURCE == COPY) own = ahead;
        if (b + PARTS < blocks) {
            next = load(b + PARTS, t);
            if (SOURCE == COPY && NT == 1) load_rows(b + PARTS, t);
        }
        if (SOURCE != COPY && NT == 1) {
            load_rows(b, t);
            own = ahead;
        }
        multiply(r, b, t);
    }
    [[unroll]] for (int i = 0; i < MT * NT; i++) {
        const vec4 e = elements(acc[i]);
        const int at = (warp * MT * NT + i) * 128 + 8 * g + 2 * t;
        part[at] = e.x;
        part[at + 1] = e.y;
        part[at + 64] = e.z;
        part[at + 65] = e.w;
    }
    barrier();
    finish(rows, first_tile);
}
