/* y = x W^T on cooperative matrices, for up to 8 NT rows of x. A tile has 16 outputs; SHARE
 * subgroups share its blocks, and their partial sums are added in order. Of few rows most columns
 * of a product are unused: the bandwidth of the weights, and decoding them, is the limit.
 *
 * With GLU there are two matrices of the same shape, gate and up, and y = act(gate) * up.
 *
 * With experts, the rows are pairs of a row and one of its K experts: PLANNED, sorted by expert
 * (plan.comp), or DIRECT, a tile for each. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "coop.glsl"
#include "coop_weights.glsl"
layout(constant_id = 1) const int NT = 1;
layout(constant_id = 2) const int SHARE = 8; /* 1, 2, 4 or 8 */
layout(constant_id = 3) const bool FOURS = true; /* x can be read in fours */
layout(constant_id = 4) const int EXPERTS = 0;
layout(constant_id = 6) const int GLU = 0; /* 0: none, otherwise 1 + ft_act */
const int PLANNED = 1, DIRECT = 2;
layout(local_size_x = 256) in;
#include "coop_rows.glsl"

const int SETS = GLU != 0 ? 2 : 1;   /* matrices */
const int SUMS = SHARE == 4 ? 2 : 1; /* of a subgroup: those of blocks b and b + 4 differ */
const bool STAGED = NT == 1;         /* rows pass through shared memory */

struct Raw {
    uvec4 head[2], high[2];         /* of rows g and g + 8 */
    uvec4 codes[2][2], upper[2][2]; /* and of each half */
};

/* First [subgroup][row][chunk] of the rows, chunks swapped in odd rows; at the end partial sums:
 * [tile][matrix][partial sum][group of 8 rows][16 outputs][8 rows]. */
const int PARTIAL = 8 * SETS * SUMS * NT * 32, ROWS = STAGED ? 8 * 8 * 32 : 0;
shared uvec4 pool[PARTIAL > ROWS ? PARTIAL : ROWS];

ADDRESS row[SETS][2], x[NT];
bool seen[NT];
MAT_C acc[SETS][SUMS][NT];

Raw load(int set, int b, int t)
{
    Raw r;
    [[unroll]] for (int i = 0; i < 2; i++) {
        const ADDRESS block = row[set][i] + uint64_t(b * BLOCK);
        r.head[i] = head_at(block, t);
        r.high[i] = high_at(block, t);
        [[unroll]] for (int h = 0; h < 2; h++) {
            r.codes[i][h] = codes_at(block, h, t);
            r.upper[i][h] = upper_at(block, h, t);
        }
    }
    return r;
}

uvec2 four(ADDRESS p)
{
    vec4 v;
    if (FOURS) {
        v = V4(p).v[0];
    } else {
        F32 s = F32(p);
        v = vec4(s.v[0], s.v[1], s.v[2], s.v[3]);
    }
    v *= X_SCALE;
    return uvec2(packFloat2x16(f16vec2(v.xz)), packFloat2x16(f16vec2(v.yw)));
}

/* Block b of the rows, in the order of halves.comp. */
void stage(Group rows, int b, int warp, int lane)
{
    const int t = lane % 4;
    const int k = 256 * b + 128 * (lane / 16) + 64 * (t / 2) + 16 * (t % 2) + 4 * (lane / 4 % 4);
    subgroupBarrier();
    for (int i = 0; i < rows.n; i++) {
        const ADDRESS p = a.x + 4ul * (uint64_t(source_at(rows, i)) * uint64_t(a.x_rs) +
                                       uint64_t(k));
        pool[(warp * 8 + i) * 32 + (lane ^ 4 * (i & 1))] = uvec4(four(p), four(p + 128ul));
    }
    subgroupMemoryBarrierShared();
    subgroupBarrier();
}

/* The columns of word j of half h for a lane: lower ones, upper ones. */
uvec4 inputs(int i, int b, int h, int j, int warp, int g, int t)
{
    if (!seen[i]) return uvec4(0u);
    if (STAGED) return pool[(warp * 8 + g) * 32 + (16 * h + 4 * j + t ^ 4 * (g & 1))];
    const ADDRESS p = x[i] + 4ul * uint64_t(256 * b + 128 * h + 4 * j);
    return uvec4(four(p), four(p + 128ul));
}

void multiply(Raw r, int set, int s, int b, int warp, int g, int t)
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
            [[unroll]] for (int i = 0; i < NT; i++) {
                const uvec4 v = inputs(i, b, h, j, warp, g, t);
                const MAT_B p = operand_b(unpackFloat2x16(v.x), unpackFloat2x16(v.y));
                const MAT_B q = operand_b(unpackFloat2x16(v.z), unpackFloat2x16(v.w));
                acc[set][s][i] = coop_mul_add(lower, p, acc[set][s][i]);
                acc[set][s][i] = coop_mul_add(upper, q, acc[set][s][i]);
            }
        }
    }
}

void put_part(int i, float v)
{
    pool[i >> 2][i & 3] = floatBitsToUint(v);
}

/* Leaves the partial sums of a subgroup for `finish`. */
void put_parts(int which, int own, int g, int t)
{
    [[unroll]] for (int set = 0; set < SETS; set++)
        [[unroll]] for (int s = 0; s < SUMS; s++)
            [[unroll]] for (int i = 0; i < NT; i++) {
                const vec4 e = elements(acc[set][s][i]);
                const int p = (which * SETS + set) * SHARE * SUMS + s * SHARE + own;
                const int at = (p * NT + i) * 128 + 8 * g + 2 * t;
                put_part(at, e.x);
                put_part(at + 1, e.y);
                put_part(at + 64, e.z);
                put_part(at + 65, e.w);
            }
}

float sum_of(int which, int set, int c, int o)
{
    const int each = SHARE * SUMS;
    const int from = ((which * SETS + set) * each * NT + c / 8) * 128 + 8 * o + c % 8;
    precise float sum = 0.0;
    [[unroll]] for (int p = 0; p < each; p++) {
        const int i = from + p * NT * 128;
        sum += uintBitsToFloat(pool[i >> 2][i & 3]);
    }
    return sum;
}

/* Adds the partial sums of the tiles of the workgroup. */
void finish(Group rows, int first_tile)
{
    for (int i = int(gl_LocalInvocationIndex); i < 8 / SHARE * NT * 128; i += 256) {
        const int which = i / (NT * 128), c = i % (NT * 128) / 16, o = i % 16;
        const int to = 16 * (first_tile + which) + o;
        if (GLU == 0)
            store(rows, c, to, sum_of(which, 0, c, o));
        else
            store_glu(rows, c, to, sum_of(which, 0, c, o), sum_of(which, SETS - 1, c, o), GLU - 1);
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
    magic = a.magic;
    [[unroll]] for (int i = 0; i < 2 * SETS; i++) {
        const int o = min(16 * tile + g + 8 * (i % 2), a.n - 1);
        row[i / 2][i % 2] =
            (i < 2 ? rows.w : rows.w_up) + uint64_t(o) * uint64_t(a.row_bytes);
    }
    [[unroll]] for (int i = 0; i < NT; i++) {
        const int c = 8 * i + g;
        seen[i] = c < rows.n;
        x[i] = a.x + 4ul * (uint64_t(source_at(rows, min(c, rows.n - 1))) * uint64_t(a.x_rs) +
                            uint64_t(64 * (t / 2) + 16 * (t % 2)));
        [[unroll]] for (int s = 0; s < SETS * SUMS; s++) acc[s / SUMS][s % SUMS][i] = coop_c(0.0);
    }
    Raw next = load(0, min(own, blocks - 1), t);
    for (int first = own; first < blocks; first += SHARE * SUMS) {
        [[unroll]] for (int s = 0; s < SUMS; s++) {
            const int b = first + s * SHARE;
            if (b < blocks) {
                if (STAGED) stage(rows, b, warp, lane);
                [[unroll]] for (int set = 0; set < SETS; set++) {
                    const Raw r = next;
                    if (set + 1 < SETS)
                        next = load(set + 1, b, t);
                    else if (b + SHARE < blocks)
                        next = load(0, b + SHARE, t);
                    multiply(r, set, s, b, warp, g, t);
                }
            }
        }
    }
    if (STAGED) barrier();
    put_parts(warp / SHARE, own, g, t);
    barrier();
    finish(rows, first_tile);
}
