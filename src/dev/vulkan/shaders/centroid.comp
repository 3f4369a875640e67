/* Logits of the tokens of the chosen centroids. 32 lanes have a token; the order of the sums is
 * that of linear.comp. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "quant.glsl"
layout(local_size_x = 128) in;
layout(push_constant, scalar) uniform Push {
    Mat y, x;
    ADDRESS w, scale, grid, order, chosen;
    uint row_bytes;
    int k, group, top;
} a;

shared float part[128];

void main()
{
    const int lane = int(gl_LocalInvocationIndex) % 32, warp = int(gl_LocalInvocationIndex) / 32;
    const int t = int(gl_WorkGroupID.y), i = min(int(gl_WorkGroupID.x) * 4 + warp,
                                                 a.group * a.top - 1);
    const int c = I32(a.chosen).v[t * a.top + i / a.group];
    const int id = I32(a.order).v[c * a.group + i % a.group];
    F32 x = head(a.x, t, 0);
    float acc = 0.0;
    for (int k = 8 * lane; k < a.k; k += 256) {
        decode8(a.w + uint64_t(id) * uint64_t(a.row_bytes), k, a.k, a.grid);
        for (int j = 0; j < 8; j++) acc = fma(v[j], k + j < a.k ? x.v[k + j] : 0.0, acc);
    }
    part[gl_LocalInvocationIndex] = acc;
    barrier();
    if (lane != 0) return;
    precise float sum = 0.0;
    for (int l = 0; l < 32; l++) sum += part[32 * warp + l];
    precise float r = sum * (a.scale != 0ul ? F32(a.scale).v[0] : 1.0);
    put(a.y, t, id, r);
}
