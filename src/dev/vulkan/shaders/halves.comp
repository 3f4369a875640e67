/* Rows of x as f16, times X_SCALE, in the order of many.comp: of each 256 columns first those of
 * the first half; of a half for each word of codes 32 values: for each of four lanes four columns
 * of the lower nibbles, then four of the upper ones, both as (0, 2, 1, 3). An invocation writes the
 * eight of a lane. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "coop.glsl"
#include "coop_weights.glsl"
layout(local_size_x = 128) in;
layout(push_constant, scalar) uniform Push {
    ADDRESS x, y;
    int x_rs, k;
} a;

layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer Halves {
    uvec4 v[];
};

uvec2 four(F32 x, int k)
{
    const vec4 v = vec4(x.v[k], x.v[k + 1], x.v[k + 2], x.v[k + 3]) * X_SCALE;
    return uvec2(packFloat2x16(f16vec2(v.xz)), packFloat2x16(f16vec2(v.yw)));
}

void main()
{
    const int i = int(gl_WorkGroupID.x * 128u + gl_LocalInvocationIndex);
    const int row = int(gl_WorkGroupID.y);
    if (8 * i >= a.k) return;
    const int t = i % 4, word = i / 4 % 4, half_block = i / 16;
    F32 x = F32(a.x + 4ul * uint64_t(row) * uint64_t(a.x_rs));
    const int k = 128 * half_block + 64 * (t / 2) + 16 * (t % 2) + 4 * word;
    Halves(a.y + 2ul * uint64_t(row) * uint64_t(a.k)).v[i] = uvec4(four(x, k), four(x, k + 32));
}
