/* The gated delta rule on devices without subgroup shuffles. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#define INVOCATION int(gl_LocalInvocationIndex)
shared float quad[128];

/* The sum over four adjacent invocations, in the order of delta_shuffle.comp. */
float quad_sum(float x)
{
    const int me = INVOCATION, first = me / 4 * 4;
    quad[me] = x;
    barrier();
    precise float sum = (quad[first] + quad[first + 1]) + (quad[first + 2] + quad[first + 3]);
    barrier();
    return sum;
}
#include "delta.glsl"
