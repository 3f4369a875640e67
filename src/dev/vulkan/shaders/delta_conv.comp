/* The gated delta rule, with the convolution of its rows. */
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "common.glsl"
#define INVOCATION int(gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID)

/* The sum over four adjacent invocations; all of them have the same. */
float quad_sum(float x)
{
    precise float sum = x + subgroupShuffleXor(x, 1u);
    sum = sum + subgroupShuffleXor(sum, 2u);
    return sum;
}
#define CONV
#include "delta.glsl"
