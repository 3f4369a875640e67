/* y = x W^T on cooperative matrices, for up to 8 NT rows of x. A tile has 16 outputs; SHARE
 * subgroups share its columns, and their sums are added in order. Of few rows most columns of a
 * product are unused: the weights' bandwidth is the limit.
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
const int PLANNED = 1, DIRECT = 2;
layout(local_size_x = 256) in;
#include "coop_rows.glsl"

struct Raw {
    uvec4 head[2], high[2];         /* of rows g and g + 8 */
    uvec4 codes[2][2], upper[2][2]; /* and of each half */
};

shared float part[8 * NT * 128];

ADDRESS row[2], x[NT];
bool seen[NT];
MAT_C acc[NT];

Raw load(int b, int t)
{
    Raw r;
    [[unroll]] for (int i = 0; i < 2; i++) {
        const ADDRESS block = row[i] + uint64_t(b * BLOCK);
        r.head[i] = head_at(block, t);
        r.high[i] = high_at(block, t);
        [[unroll]] for (int h = 0; h < 2; h++) {
            r.codes[i][h] = codes_at(block, h, t);
            r.upper[i][h] = upper_at(block, h, t);
        }
    }
    return r;
}

MAT_B inputs(int i, int k)
{
    vec4 v = vec4(0.0);
    if (seen[i]) {
        if (FOURS) {
            v = V4(x[i] + 4ul * uint64_t(k)).v[0];
        } else {
            F32 p = F32(x[i] + 4ul * uint64_t(k));
            v = vec4(p.v[0], p.v[1], p.v[2], p.v[3]);
        }
        v *= X_SCALE;
    }
    return operand_b(f16vec2(v.xz), f16vec2(v.yw));
}

void multiply(Raw r, int b, int t)
{
    [[unroll]] for (int h = 0; h < 2; h++) {
        const Factor f0 = factor_of(r.head[0], h, t), f8 = factor_of(r.head[1], h, t);
        [[unroll]] for (int j = 0; j < 4; j++) {
            const uint w0 = r.codes[0][h][j], w8 = r.codes[1][h][j];
            const uint h0 = high_of(r.high[0], h, j, t), h8 = high_of(r.high[1], h, j, t);
            const uint u0 = TYPE == Q8_0 ? r.upper[0][h][j] : w0;
            const uint u8 = TYPE == Q8_0 ? r.upper[1][h][j] : w8;
            const MAT_A lower = weights(w0, w8, h0, h8, false, f0, f8);
            const MAT_A upper = weights(u0, u8, h0, h8, true, f0, f8);
            const int k = 256 * b + 128 * h + 4 * j;
            [[unroll]] for (int i = 0; i < NT; i++) {
                acc[i] = coop_mul_add(lower, inputs(i, k), acc[i]);
                acc[i] = coop_mul_add(upper, inputs(i, k + 32), acc[i]);
            }
        }
    }
}

/* Adds the partial sums of the tiles of the workgroup. */
void finish(Group rows, int first_tile)
{
    for (int i = int(gl_LocalInvocationIndex); i < 8 / SHARE * NT * 128; i += 256) {
        const int which = i / (NT * 128), c = i % (NT * 128) / 16, o = i % 16;
        const int from = (which * SHARE * NT + c / 8) * 128 + 8 * o + c % 8;
        precise float sum = 0.0;
        [[unroll]] for (int p = 0; p < SHARE; p++) sum += part[from + p * NT * 128];
        store(rows, c, 16 * (first_tile + which) + o, sum);
    }
}

void main()
{
    const int warp = int(gl_SubgroupID), lane = int(gl_SubgroupInvocationID), g = lane / 4,
              t = lane % 4, blocks = a.k / 256, own = warp % SHARE;
    const int first_tile =
        int(gl_WorkGroupID.x + gl_WorkGroupID.z * gl_NumWorkGroups.x) * (8 / SHARE);
    const int tile = first_tile + warp / SHARE;
    const Group rows = group_of();
    if (rows.n == 0) return;
    [[unroll]] for (int i = 0; i < 2; i++)
        row[i] = rows.w + uint64_t(min(16 * tile + g + 8 * i, a.n - 1)) * uint64_t(a.row_bytes);
    [[unroll]] for (int i = 0; i < NT; i++) {
        const int c = 8 * i + g;
        seen[i] = c < rows.n;
        x[i] = a.x + 4ul * (uint64_t(source_at(rows, min(c, rows.n - 1))) * uint64_t(a.x_rs) +
                            uint64_t(64 * (t / 2) + 16 * (t % 2)));
        acc[i] = coop_c(0.0);
    }
    Raw next = load(min(own, blocks - 1), t);
    for (int b = own; b < blocks; b += PARTS) {
        const Raw r = next;
        if (b + PARTS < blocks) next = load(b + PARTS, t);
        multiply(r, b, t);
    }
    [[unroll]] for (int i = 0; i < NT; i++) {
        const vec4 e = elements(acc[i]);
        const int at = (warp * NT + i) * 128 + 8 * g + 2 * t;
        part[at] = e.x;
        part[at + 1] = e.y;
        part[at + 64] = e.z;
        part[at + 65] = e.w;
    }
    barrier();
    finish(rows, first_tile);
}
