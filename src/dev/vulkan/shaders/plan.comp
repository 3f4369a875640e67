/* Sorts the pairs of rows and chosen experts by expert, and cuts each expert's pairs into tiles of
 * up to a.tile, for linear.comp. One workgroup; an invocation has some adjacent experts. The order
 * of an expert's pairs is not fixed: the result of a pair does not depend on the others. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(local_size_x = 256) in;
layout(push_constant, scalar) uniform Push {
    ADDRESS id, plan;
    int pairs, E, tile, tiles; /* tiles: the most there can be */
} a;

const int WG = 256, MOST = 2048; /* experts: FT_VK_EXPERTS */
const int EACH = MOST / WG;
shared int next[MOST]; /* the number of an expert's pairs, then the place of its next one */
shared ivec2 upto[WG]; /* pairs and tiles of the experts of all invocations up to this one */

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Tiles {
    int n, pad;
    ivec3 v[]; /* expert, first pair, pairs */
};

void main()
{
    const int me = int(gl_LocalInvocationIndex), first = me * EACH;
    I32 id = I32(a.id), pair = I32(a.plan + 8ul + 12ul * uint64_t(a.tiles));
    Tiles t = Tiles(a.plan);
    for (int e = me; e < MOST; e += WG) next[e] = 0;
    barrier();
    for (int i = me; i < a.pairs; i += WG) atomicAdd(next[id.v[i]], 1);
    barrier();
    ivec2 own = ivec2(0);
    for (int e = first; e < first + EACH; e++)
        own += ivec2(next[e], (next[e] + a.tile - 1) / a.tile);
    upto[me] = own;
    barrier();
    for (int s = 1; s < WG; s *= 2) {
        const ivec2 more = me >= s ? upto[me - s] : ivec2(0);
        barrier();
        upto[me] += more;
        barrier();
    }
    ivec2 at = upto[me] - own;
    if (me == WG - 1) t.n = upto[me].y;
    for (int e = first; e < first + EACH; e++) {
        const int n = next[e];
        for (int i = 0; i < n; i += a.tile)
            t.v[at.y++] = ivec3(e, at.x + i, min(a.tile, n - i));
        next[e] = at.x;
        at.x += n;
    }
    barrier();
    for (int i = me; i < a.pairs; i += WG) pair.v[atomicAdd(next[id.v[i]], 1)] = i;
}
