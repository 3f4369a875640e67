/* y = x W^T on cooperative matrices, for up to 8 NT rows of x; one.comp has up to four. A tile has
 * 16 outputs; SHARE subgroups share its columns, and their sums are added in order. Of few rows
 * most columns of a product are unused: the weights' bandwidth is the limit. The weights of the
 * next block are loaded before those of this one are used.
 *
 * With experts (PLANNED), the rows are pairs of a row and one of its K experts, sorted by expert
 * (plan.comp). Of gate and up, a workgroup computes the same tile of both and joins them. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "coop.glsl"
#include "coop_weights.glsl"
layout(constant_id = 1) const int NT = 1;
layout(constant_id = 2) const int SHARE = 8;
layout(constant_id = 3) const bool FOURS = true; /* x can be read in fours */
layout(constant_id = 4) const int EXPERTS = 0;
layout(constant_id = 6) const int MATRICES = 1; /* 2: gate and up */
layout(local_size_x = 256) in;
#define ROW_GROUP int(gl_WorkGroupID.y)
#include "coop_rows.glsl"

/* Of rows g and g + 8 of a tile. */
struct Raw {
    uvec4 head[2], high[2];
    uvec4 codes[4], upper[4]; /* of each half */
};

const int PART = 8 * NT * 128; /* partial sums of a matrix */
shared float part[MATRICES * PART];

ADDRESS row[2], x[NT];
MAT_C acc[NT];

Raw load(int b, int t)
{
    Raw r;
    [[unroll]] for (int i = 0; i < 2; i++) {
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
    const ADDRESS p = x[i] + 4ul * uint64_t(256 * b + 128 * h + 4 * j);
    return halves(floats(p), floats(p + 128ul));
}

void multiply(Raw r, int b, int t)
{
    uvec4 own[8]; /* x of one group of rows: all loads of a block at once */
    if (NT == 1)
        [[unroll]] for (int i = 0; i < 8; i++) own[i] = words_of(0, b, i / 4, i % 4, t);
    [[unroll]] for (int h = 0; h < 2; h++) {
        const Factor f0 = factor_of(r.head[0], h, t), f8 = factor_of(r.head[1], h, t);
        [[unroll]] for (int j = 0; j < 4; j++) {
            const uint w0 = r.codes[h][j], w8 = r.codes[2 + h][j];
            const uint h0 = high_of(r.high[0], h, j, t), h8 = high_of(r.high[1], h, j, t);
            const uint u0 = TYPE == Q8_0 ? r.upper[h][j] : w0;
            const uint u8 = TYPE == Q8_0 ? r.upper[2 + h][j] : w8;
            const MAT_A lower = weights(w0, w8, h0, h8, false, f0, f8);
            const MAT_A upper = weights(u0, u8, h0, h8, true, f0, f8);
            [[unroll]] for (int i = 0; i < NT; i++) {
                uvec4 v;
                if (NT == 1)
                    v = own[4 * h + j];
                else
                    v = words_of(i, b, h, j, t);
                acc[i] = coop_mul_add(
                    lower, operand_b(unpackFloat2x16(v.x), unpackFloat2x16(v.y)), acc[i]);
                acc[i] = coop_mul_add(
                    upper, operand_b(unpackFloat2x16(v.z), unpackFloat2x16(v.w)), acc[i]);
            }
        }
    }
}

/* Sum (c, o) of a tile: the partial sums in order. */
float total(int matrix, int tile, int c, int o)
{
    const int from = matrix * PART + (tile * SHARE * NT + c / 8) * 128 + 8 * o + c % 8;
    precise float sum = 0.0;
    [[unroll]] for (int p = 0; p < SHARE; p++) sum += part[from + p * NT * 128];
    return sum;
}

/* act(gate) * up, as each.comp computes it. */
void store_pair(Group r, int i, int o, float g, float u)
{
    if (o >= a.n) return;
    precise float gate = g * r.scale, up = u * r.up_scale;
    precise float v = act_of(gate, a.act) * up;
    if (a.by != 0ul) v = v * sigmoid(F32(a.by).v[row_at(r, i) * a.by_rs]);
    place(r, i, o).v[0] = v;
}

/* The results of the workgroup's tiles. */
void finish(Group rows, int first_tile)
{
    for (int i = int(gl_LocalInvocationIndex); i < 8 / SHARE * NT * 128; i += 256) {
        const int tile = i / (NT * 128), c = i % (NT * 128) / 16, o = i % 16;
        const int to = 16 * (first_tile + tile) + o;
        if (c >= rows.n) continue;
        if (MATRICES == 2)
            store_pair(rows, c, to, total(0, tile, c, o), total(1, tile, c, o));
        else
            store(rows, c, to, total(0, tile, c, o));
    }
}

void find_rows(Group rows, int g, int t)
{
    [[unroll]] for (int i = 0; i < NT; i++) {
        const int r = source_at(rows, min(8 * i + g, rows.n - 1));
        x[i] = a.x + 4ul * (uint64_t(r) * uint64_t(a.x_rs) + uint64_t(64 * (t / 2) + 16 * (t % 2)));
    }
}

void find_weights(ADDRESS w, int tile, int g)
{
    [[unroll]] for (int i = 0; i < 2; i++)
        row[i] = w + uint64_t(min(16 * tile + g + 8 * i, a.n - 1)) * uint64_t(a.row_bytes);
}

void put_part(int at, int g, int t)
{
    [[unroll]] for (int i = 0; i < NT; i++) {
        const vec4 e = elements(acc[i]);
        const int to = at + i * 128 + 8 * g + 2 * t;
        part[to] = e.x;
        part[to + 1] = e.y;
        part[to + 64] = e.z;
        part[to + 65] = e.w;
    }
}

void main()
{
    const int warp = int(gl_SubgroupID), lane = int(gl_SubgroupInvocationID), g = lane / 4,
              t = lane % 4, blocks = a.k / 256, own = warp % SHARE;
    const int first_tile =
        int(gl_WorkGroupID.x + gl_WorkGroupID.z * gl_NumWorkGroups.x) * (8 / SHARE);
    const int tile = first_tile + warp / SHARE;
    const Group rows = group_of(0);
    if (rows.n == 0) return;
    find_weights(rows.w, tile, g);
    Raw next = load(min(own, blocks - 1), t);
    find_rows(rows, g, t);
    for (int m = 0; m < MATRICES; m++) {
        [[unroll]] for (int i = 0; i < NT; i++) acc[i] = coop_c(0.0);
        for (int b = own; b < blocks; b += PARTS) {
            const Raw r = next;
            if (b + PARTS < blocks) {
                next = load(b + PARTS, t);
            } else if (m + 1 < MATRICES) {
                find_weights(rows.up, tile, g);
                next = load(own, t);
            }
            multiply(r, b, t);
        }
        put_part(m * PART + warp * NT * 128, g, t);
    }
    barrier();
    finish(rows, first_tile);
}
