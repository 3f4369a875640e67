/* Rows of a table, by token. An invocation has eight columns. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "quant.glsl"
layout(local_size_x = 64) in;
layout(push_constant, scalar) uniform Push {
    Mat y;
    ADDRESS w, scale, grid, batch;
    uint row_bytes;
    int k;
    float f;
} a;

void main()
{
    const int t = int(gl_WorkGroupID.y);
    const int k = 8 * int(gl_WorkGroupID.x * 64u + gl_LocalInvocationIndex);
    if (k >= a.k) return;
    Batch b = Batch(a.batch);
    int id = I32(b.token).v[t];
    if (id < 0) id = max(0, I32(b.drawn).v[-1 - id]); /* ft_token_of */
    decode8(a.w + uint64_t(id) * uint64_t(a.row_bytes), k, a.k, a.grid);
    const float s = a.f * (a.scale != 0ul ? F32(a.scale).v[0] : 1.0);
    for (int j = 0; j < 8 && k + j < a.k; j++) put(a.y, t, k + j, s * v[j]);
}
