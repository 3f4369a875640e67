/* Sorts the pairs of rows and chosen experts by expert, and cuts each expert's pairs into tiles,
 * for the products. One workgroup; an invocation has some pairs, and EACH adjacent experts. The
 * order of an expert's pairs varies from run to run; no result depends on it. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(constant_id = 0) const int WG = 256;
layout(local_size_x_id = 0) in;
const int MOST = 2048, EACH = MOST / WG; /* MOST experts: FT_VK_EXPERTS */
layout(push_constant, scalar) uniform Push {
    ADDRESS id, plan;
    int pairs, E, tile, tiles; /* tiles: the most there can be */
} a;

shared int place[MOST];  /* pairs of an expert, then the place of its next pair */
shared ivec2 before[WG]; /* pairs and tiles of the experts up to those of an invocation */

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Tiles {
    int n, pad;
    ivec3 v[];
};

ivec2 count_of(int e)
{
    return e < a.E ? ivec2(place[e], (place[e] + a.tile - 1) / a.tile) : ivec2(0);
}

void main()
{
    const int me = int(gl_LocalInvocationIndex);
    I32 id = I32(a.id), pair = I32(a.plan + 8ul + 12ul * uint64_t(a.tiles));
    Tiles t = Tiles(a.plan);
    for (int e = me; e < MOST; e += WG) place[e] = 0;
    barrier();
    for (int i = me; i < a.pairs; i += WG) atomicAdd(place[id.v[i]], 1);
    barrier();
    ivec2 own = ivec2(0);
    for (int i = 0; i < EACH; i++) own += count_of(me * EACH + i);
    before[me] = own;
    barrier();
    for (int s = 1; s < WG; s *= 2) {
        const ivec2 more = me >= s ? before[me - s] : ivec2(0);
        barrier();
        before[me] += more;
        barrier();
    }
    ivec2 at = before[me] - own;
    if (me == WG - 1) t.n = before[me].y;
    for (int e = me * EACH; e < min(me * EACH + EACH, a.E); e++) {
        const ivec2 n = count_of(e);
        for (int i = 0; i < n.y; i++)
            t.v[at.y + i] = ivec3(e, at.x + i * a.tile, min(a.tile, n.x - i * a.tile));
        place[e] = at.x;
        at += n;
    }
    barrier();
    for (int i = me; i < a.pairs; i += WG) pair.v[atomicAdd(place[id.v[i]], 1)] = i;
}
