/* Reads memory, so that the device's cache has it when the next dispatches need it. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(local_size_x = 256) in;
const uint EACH = 8, SECTOR = 32; /* reads of an invocation; bytes that the cache loads at least */
layout(push_constant, scalar) uniform Push {
    ADDRESS from, sink;
    uint sectors;
} a;

void main()
{
    uint all = 0u;
    [[unroll]] for (uint i = 0u; i < EACH; i++) {
        const uint n = (gl_WorkGroupID.x * EACH + i) * 256u + gl_LocalInvocationIndex;
        if (n < a.sectors) all |= U32(a.from + uint64_t(n * SECTOR)).v[0];
    }
    if (a.sectors == 0u) U32(a.sink).v[0] = all; /* never: the reads must not be left out */
}
