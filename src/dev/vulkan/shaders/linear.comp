/* y = x W^T. 32 lanes compute ROWS outputs of up to COLS rows of x: lane l takes the values
 * [8 l, 8 l + 8) of every 256, and the 32 sums are added in the order of lanes. So the order of a
 * sum depends on k alone, whatever ROWS and COLS are and whatever a driver's subgroups are.
 *
 * A row alone may be normed here, so that its norm needs no dispatch before this one.
 *
 * With experts, the rows are pairs of a row and one of its K experts, sorted by expert (plan.comp):
 * a tile has up to COLS pairs of one expert. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "quant.glsl"
layout(constant_id = 1) const int ROWS = 4;
layout(constant_id = 2) const int COLS = 8;
layout(constant_id = 3) const bool FOURS = false; /* x can be read in fours */
layout(constant_id = 4) const bool EXPERTS = false;
layout(constant_id = 5) const int NORM = 0; /* one row, normed here; the WG of norm.comp */
layout(local_size_x = 128) in;
layout(push_constant, scalar) uniform Push {
    ADDRESS w, x, y, scale, grid, plan, matrix; /* matrix: bytes of one expert's weights */
    int n, k, T, x_rs, y_rs, y_hs, y_d;
    uint row_bytes;
    int acc, K;   /* K: rows of x are pairs / K */
    ADDRESS gain; /* of the norm */
    float eps;
} a;

/* Columns are loaded in so many steps at once: of one row of x and plain weights, such as a router,
 * there is little else to do while a load is under way. */
const int STEPS = COLS > 2 ? 1 : TYPE == F32_T ? 4 : TYPE == BF16_T ? 4 : 1;

shared float part[4 * 1024];
const int WG = 128;
#include "reduce.glsl"

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Tiles {
    int n, pad;
    ivec3 v[]; /* expert, first pair, pairs */
};

float acc[ROWS * COLS];
ADDRESS x[COLS];
float inv_rms;
int col[COLS]; /* the row of y of each column, -1: none */

void accumulate(int r, int c, vec4 lo, vec4 hi)
{
    const int i = r * COLS + c;
    acc[i] = fma(v[0], lo.x, acc[i]);
    acc[i] = fma(v[1], lo.y, acc[i]);
    acc[i] = fma(v[2], lo.z, acc[i]);
    acc[i] = fma(v[3], lo.w, acc[i]);
    acc[i] = fma(v[4], hi.x, acc[i]);
    acc[i] = fma(v[5], hi.y, acc[i]);
    acc[i] = fma(v[6], hi.z, acc[i]);
    acc[i] = fma(v[7], hi.w, acc[i]);
}

float x_at(ADDRESS p, int i)
{
    return i < a.k ? F32(p).v[i] : 0.0;
}

layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Words {
    uvec4 v[];
};

/* v = values [k, k + 8) of a row. Where x can be read in fours, rows of plain numbers can, too. */
void decode(ADDRESS row, int k)
{
    if (FOURS && TYPE == F32_T) {
        const uvec4 p = Words(row).v[k / 4], q = Words(row).v[k / 4 + 1];
        [[unroll]] for (int j = 0; j < 4; j++) {
            v[j] = uintBitsToFloat(p[j]);
            v[4 + j] = uintBitsToFloat(q[j]);
        }
    } else if (FOURS && TYPE == BF16_T) {
        const uvec4 p = Words(row).v[k / 8];
        [[unroll]] for (int j = 0; j < 4; j++) {
            v[2 * j] = uintBitsToFloat(p[j] << 16);
            v[2 * j + 1] = uintBitsToFloat(p[j] & 0xffff0000u);
        }
    } else {
        decode8(row, k, a.k, a.grid);
    }
}

/* 1 / rms of the row with the sums of norm.comp: an invocation has those of OWN ones there. */
float row_inv_rms(F32 x)
{
    const int me = int(gl_LocalInvocationIndex);
    const int OWN = NORM > 128 ? NORM / 128 : 1, TURNS = NORM > 512 ? 1 : 4;
    float sum[8], own[8];
    [[unroll]] for (int q = 0; q < OWN; q++) sum[q] = 0.0;
    for (int first = 0; first < a.k; first += TURNS * NORM) {
        [[unroll]] for (int i = 0; i < TURNS * OWN; i++) {
            const int c = first + 128 * i + me;
            own[i] = c < a.k ? x.v[c] : 0.0;
        }
        [[unroll]] for (int i = 0; i < TURNS * OWN; i++)
            sum[i % OWN] = fma(own[i], own[i], sum[i % OWN]);
    }
    [[unroll]] for (int s = OWN / 2; s > 0; s /= 2)
        [[unroll]] for (int q = 0; q < s; q++) {
            precise float both = sum[q] + sum[q + s];
            sum[q] = both;
        }
    return 1.0 / sqrt(wg_sum(sum[0]) / float(a.k) + a.eps);
}

vec4 normed(vec4 x, vec4 gain)
{
    precise vec4 v = x * inv_rms * gain;
    return v;
}

/* The columns [k, k + 8) of all outputs and rows. */
void multiply(ADDRESS w, int row0, int k)
{
    vec4 lo[COLS], hi[COLS];
    [[unroll]] for (int c = 0; c < COLS; c++) {
        if (FOURS) {
            V4 p = V4(x[c] + 4ul * uint64_t(k));
            lo[c] = p.v[0];
            hi[c] = p.v[1];
            if (NORM != 0) {
                V4 gain = V4(a.gain + 4ul * uint64_t(k));
                lo[c] = normed(lo[c], gain.v[0]);
                hi[c] = normed(hi[c], gain.v[1]);
            }
        } else {
            lo[c] = vec4(x_at(x[c], k), x_at(x[c], k + 1), x_at(x[c], k + 2), x_at(x[c], k + 3));
            hi[c] = vec4(x_at(x[c], k + 4), x_at(x[c], k + 5), x_at(x[c], k + 6),
                         x_at(x[c], k + 7));
        }
    }
    [[unroll]] for (int r = 0; r < ROWS; r++) {
        const int o = min(row0 + r, a.n - 1);
        decode(w + uint64_t(o) * uint64_t(a.row_bytes), k);
        [[unroll]] for (int c = 0; c < COLS; c++) accumulate(r, c, lo[c], hi[c]);
    }
}

void main()
{
    const int lane = int(gl_LocalInvocationIndex) % 32, warp = int(gl_LocalInvocationIndex) / 32;
    const int block = int(gl_WorkGroupID.x + gl_WorkGroupID.z * gl_NumWorkGroups.x);
    const int row0 = (block * 4 + warp) * ROWS, first = int(gl_WorkGroupID.y) * COLS;
    ADDRESS w = a.w;
    float scale = 1.0;
    if (EXPERTS) {
        Tiles t = Tiles(a.plan);
        if (int(gl_WorkGroupID.y) >= t.n) return;
        const ivec3 tile = t.v[gl_WorkGroupID.y];
        I32 pair = I32(a.plan + 8ul + 12ul * uint64_t(gl_NumWorkGroups.y));
        w += a.matrix * uint64_t(tile.x);
        if (a.scale != 0ul) scale = F32(a.scale).v[tile.x];
        [[unroll]] for (int c = 0; c < COLS; c++) col[c] = c < tile.z ? pair.v[tile.y + c] : -1;
    } else {
        if (a.scale != 0ul) scale = F32(a.scale).v[0];
        [[unroll]] for (int c = 0; c < COLS; c++) col[c] = first + c < a.T ? first + c : -1;
    }
    [[unroll]] for (int c = 0; c < COLS; c++)
        x[c] = a.x + 4ul * uint64_t(max(col[c], 0) / a.K) * uint64_t(a.x_rs);
    [[unroll]] for (int i = 0; i < ROWS * COLS; i++) acc[i] = 0.0;
    if (NORM != 0) inv_rms = row_inv_rms(F32(x[0]));
    int k = 8 * lane;
    for (; k + 256 * (STEPS - 1) < a.k; k += 256 * STEPS)
        [[unroll]] for (int u = 0; u < STEPS; u++) multiply(w, row0, k + 256 * u);
    for (; k < a.k; k += 256) multiply(w, row0, k);
    [[unroll]] for (int i = 0; i < ROWS * COLS; i++)
        part[warp * 1024 + i * 32 + (lane + i) % 32] = acc[i];
    barrier();
    if (lane >= ROWS * COLS) return;
    precise float sum = 0.0;
    for (int l = 0; l < 32; l++) sum += part[warp * 1024 + lane * 32 + (l + lane) % 32];
    const int o = row0 + lane / COLS;
    int to = -1;
    [[unroll]] for (int c = 0; c < COLS; c++)
        if (c == lane % COLS) to = col[c];
    if (o >= a.n || to < 0) return;
    F32 y = F32(a.y + 4ul * uint64_t(int64_t(to) * a.y_rs + int64_t(o / a.y_d) * a.y_hs));
    precise float r = sum * scale;
    if (a.acc != 0) r = y.v[o % a.y_d] + r;
    y.v[o % a.y_d] = r;
}
