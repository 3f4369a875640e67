/* Rows of x as f16, times X_SCALE, in the order of many.comp: of each 256 columns first those of
 * the first half; of a half for each word of codes 32 values: for each of four lanes four columns
 * of the lower nibbles, then four of the upper ones, both as (0, 2, 1, 3). An invocation writes the
 * eight of a lane. GLU: of act(x) * up, times the sigmoid of a row's `by`, if any, as each.comp
 * computes it. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "coop.glsl"
#include "coop_weights.glsl"
layout(constant_id = 1) const bool GLU = false;
layout(local_size_x = 128) in;
layout(push_constant, scalar) uniform Push {
    ADDRESS x, y;
    int x_rs, k;
    ADDRESS up, by;
    int up_rs, by_rs, act;
} a;

layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer Halves {
    uvec4 v[];
};

vec4 floats(F32 p, int k)
{
    return vec4(p.v[k], p.v[k + 1], p.v[k + 2], p.v[k + 3]);
}

uvec2 four(F32 x, F32 up, int k, float by)
{
    vec4 v = floats(x, k);
    if (GLU) {
        const vec4 u = floats(up, k);
        [[unroll]] for (int i = 0; i < 4; i++) {
            precise float y = act_of(v[i], a.act) * u[i];
            if (a.by != 0ul) y = y * by;
            v[i] = y;
        }
    }
    v *= X_SCALE;
    return uvec2(packFloat2x16(f16vec2(v.xz)), packFloat2x16(f16vec2(v.yw)));
}

void main()
{
    const int i = int(gl_WorkGroupID.x * 128u + gl_LocalInvocationIndex);
    const int row = int(gl_WorkGroupID.y);
    if (8 * i >= a.k) return;
    const int t = i % 4, word = i / 4 % 4, half_block = i / 16;
    F32 x = F32(a.x + 4ul * uint64_t(row) * uint64_t(a.x_rs));
    F32 up = F32(a.up + 4ul * uint64_t(row) * uint64_t(a.up_rs));
    const int k = 128 * half_block + 64 * (t / 2) + 16 * (t % 2) + 4 * word;
    const float by = GLU && a.by != 0ul ? sigmoid(F32(a.by).v[row * a.by_rs]) : 1.0;
    Halves(a.y + 2ul * uint64_t(row) * uint64_t(a.k)).v[i] =
        uvec4(four(x, up, k, by), four(x, up, k + 32, by));
}
