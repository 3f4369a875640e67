/* y = x W^T on cooperative matrices, for many rows of x, which halves.comp has rounded to f16 and
 * put in the order of the operands. A workgroup has 128 outputs and 16 NT rows; its subgroups have
 * 32 outputs and 8 NT rows each. Weights are decoded in registers, rows pass through shared memory
 * 64 columns at a time. The products and sums of a row are those of few.comp, in the same order.
 * Without experts, workgroups with the same weights are next to each other in the grid. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "coop.glsl"
#include "coop_weights.glsl"
layout(constant_id = 1) const int NT = 8;
layout(constant_id = 2) const int EXPERTS = 0;
layout(local_size_x = 256) in;
#define ROW_GROUP int(EXPERTS == 0 ? gl_WorkGroupID.x : gl_WorkGroupID.y)
#include "coop_rows.glsl"

const int ROWS = 16 * NT, OWN = ROWS / 32; /* rows, and chunks of 16 bytes of an invocation */
shared uvec4 tile[2][ROWS * 8];            /* [row][chunk], chunks swapped in odd rows */

MAT_C acc[2][NT], sum[2][NT];
ADDRESS row[4], x[OWN];
uvec4 codes[4], upper[4], high[4], staged[OWN];
Factor factor[4];

void load_codes(int b, int h, int t)
{
    [[unroll]] for (int i = 0; i < 4; i++) {
        codes[i] = codes_at(row[i] + uint64_t(b * BLOCK), h, t);
        upper[i] = upper_at(row[i] + uint64_t(b * BLOCK), h, t);
    }
}

/* Moves the loaded 64 columns to shared memory, and loads those from chunk `next` on. */
void stage(int at, int next)
{
    const int me = int(gl_LocalInvocationIndex);
    [[unroll]] for (int i = 0; i < OWN; i++) {
        const int r = me / 8 + 32 * i;
        tile[at][r * 8 + (me % 8 ^ 4 * (r & 1))] = staged[i];
    }
    barrier();
    [[unroll]] for (int i = 0; i < OWN; i++) staged[i] = Words(x[i]).v[next];
}

/* The 16 lower and 16 upper columns of word w of the codes, which are word j of those in `tile`. */
void multiply(uvec4 words[4], uvec4 more[4], int h, int w, int j, int at, int row0, int g, int t)
{
    MAT_A p[2], q[2];
    [[unroll]] for (int i = 0; i < 2; i++) {
        const int r = 2 * i;
        const uint w0 = words[r][w], w8 = words[r + 1][w];
        const uint h0 = high_of(high[r], h, w, t), h8 = high_of(high[r + 1], h, w, t);
        const uint u0 = TYPE == Q8_0 ? more[r][w] : w0, u8 = TYPE == Q8_0 ? more[r + 1][w] : w8;
        p[i] = weights(w0, w8, h0, h8, false, factor[r], factor[r + 1]);
        q[i] = weights(u0, u8, h0, h8, true, factor[r], factor[r + 1]);
    }
    [[unroll]] for (int i = 0; i < NT; i++) {
        const int r = row0 + 8 * i + g;
        const uvec4 v = tile[at][r * 8 + (4 * j + t ^ 4 * (r & 1))];
        const MAT_B x0 = operand_b(unpackFloat2x16(v.x), unpackFloat2x16(v.y));
        const MAT_B x1 = operand_b(unpackFloat2x16(v.z), unpackFloat2x16(v.w));
        [[unroll]] for (int m = 0; m < 2; m++) {
            acc[m][i] = coop_mul_add(p[m], x0, acc[m][i]);
            acc[m][i] = coop_mul_add(q[m], x1, acc[m][i]);
        }
    }
}

/* Block b; `codes` and `staged` have the beginning of it, and then that of block `then`. */
void multiply_block(int b, int then, int row0, int g, int t)
{
    uvec4 head[4];
    [[unroll]] for (int i = 0; i < 4; i++) {
        head[i] = head_at(row[i] + uint64_t(b * BLOCK), t);
        high[i] = high_at(row[i] + uint64_t(b * BLOCK), t);
    }
    [[unroll]] for (int h = 0; h < 2; h++) {
        const uvec4 words[4] = codes, more[4] = upper;
        load_codes(h == 0 ? b : then, 1 - h, t);
        [[unroll]] for (int i = 0; i < 4; i++) factor[i] = factor_of(head[i], h, t);
        [[unroll]] for (int s = 0; s < 2; s++) {
            stage(s, h + s == 2 ? 32 * then : 32 * b + 8 * (2 * h + s + 1));
            [[unroll]] for (int j = 0; j < 2; j++)
                multiply(words, more, h, 2 * s + j, j, s, row0, g, t);
        }
    }
}

void main()
{
    const int warp = int(gl_SubgroupID), lane = int(gl_SubgroupInvocationID), g = lane / 4,
              t = lane % 4, me = int(gl_LocalInvocationIndex), blocks = a.k / 256;
    const uint outputs = EXPERTS == 0 ? gl_WorkGroupID.y : gl_WorkGroupID.x;
    const int out0 = int(outputs) * 128 + warp % 4 * 32, row0 = warp / 4 * 8 * NT;
    const Group rows = group_of(0);
    if (rows.n == 0) return;
    [[unroll]] for (int i = 0; i < 4; i++)
        row[i] = rows.w + uint64_t(min(out0 + 8 * i + g, a.n - 1)) * uint64_t(a.row_bytes);
    [[unroll]] for (int i = 0; i < OWN; i++) {
        const int r = source_at(rows, min(me / 8 + 32 * i, rows.n - 1));
        x[i] = a.x + 2ul * uint64_t(r) * uint64_t(a.k) + uint64_t(16 * (me % 8));
        staged[i] = Words(x[i]).v[0];
    }
    load_codes(0, 0, t);
    [[unroll]] for (int i = 0; i < 2 * NT; i++) sum[i / NT][i % NT] = coop_c(0.0);
    for (int part = 0; part < min(PARTS, blocks); part++) {
        [[unroll]] for (int i = 0; i < 2 * NT; i++) acc[i / NT][i % NT] = coop_c(0.0);
        for (int b = part; b < blocks; b += PARTS)
            multiply_block(b, b + PARTS < blocks ? b + PARTS : min(part + 1, blocks - 1), row0, g, t);
        [[unroll]] for (int i = 0; i < 2 * NT; i++)
            sum[i / NT][i % NT] = sum[i / NT][i % NT] + acc[i / NT][i % NT];
    }
    [[unroll]] for (int i = 0; i < 2 * NT; i++) {
        const vec4 e = elements(sum[i / NT][i % NT]);
        const int r = row0 + 8 * (i % NT) + 2 * t, o = out0 + 16 * (i / NT) + g;
        store(rows, r, o, e.x);
        store(rows, r + 1, o, e.y);
        store(rows, r, o + 8, e.z);
        store(rows, r + 1, o + 8, e.w);
    }
}
