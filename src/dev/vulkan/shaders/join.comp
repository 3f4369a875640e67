/* Joins the positions before the recent-token window and those in it. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(local_size_x = 128) in;
layout(push_constant, scalar) uniform Push {
    Mat o;
    ADDRESS part;
} a;

void main()
{
    const int h = int(gl_WorkGroupID.x), t = int(gl_WorkGroupID.y), d = a.o.d;
    const uint64_t at = a.part + 8ul * uint64_t(t * a.o.H + h) * uint64_t(d + 2);
    F32 p = F32(at), q = F32(at + 4ul * uint64_t(d + 2));
    const float top = max(p.v[d], q.v[d]);
    const float wp = p.v[d + 1] > 0.0 ? p.v[d + 1] * exp_of(p.v[d] - top) : 0.0;
    const float wq = q.v[d + 1] > 0.0 ? q.v[d + 1] * exp_of(q.v[d] - top) : 0.0;
    const float inverse = wp + wq > 0.0 ? 1.0 / (wp + wq) : 0.0;
    F32 o = head(a.o, t, h);
    for (int i = int(gl_LocalInvocationIndex); i < d; i += 128) {
        precise float v = (p.v[i] * wp + q.v[i] * wq) * inverse;
        o.v[i] = v;
    }
}
