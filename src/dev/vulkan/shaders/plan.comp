/* Sorts the pairs of rows and chosen experts by expert, and cuts each expert's pairs into tiles of
 * up to COLS, for linear.comp. One workgroup; an invocation has some experts. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(local_size_x = 256) in;
layout(push_constant, scalar) uniform Push {
    ADDRESS id, plan;
    int pairs, E, tile, tiles; /* tiles: the most there can be */
} a;

const int MOST = 2048; /* experts: FT_VK_EXPERTS */
shared int first[MOST], first_tile[MOST];

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Tiles {
    int n, pad;
    ivec3 v[];
};

void main()
{
    const int me = int(gl_LocalInvocationIndex);
    I32 id = I32(a.id), pair = I32(a.plan + 8ul + 12ul * uint64_t(a.tiles));
    Tiles t = Tiles(a.plan);
    for (int e = me; e < a.E; e += 256) {
        int n = 0;
        for (int i = 0; i < a.pairs; i++) n += id.v[i] == e ? 1 : 0;
        first[e] = n;
    }
    barrier();
    if (me == 0) {
        int pairs = 0, tiles = 0;
        for (int e = 0; e < a.E; e++) {
            const int n = first[e];
            first[e] = pairs;
            first_tile[e] = tiles;
            pairs += n;
            tiles += (n + a.tile - 1) / a.tile;
        }
        t.n = tiles;
    }
    barrier();
    for (int e = me; e < a.E; e += 256) {
        int n = 0;
        for (int i = 0; i < a.pairs; i++)
            if (id.v[i] == e) pair.v[first[e] + n++] = i;
        for (int i = 0; i < n; i += a.tile)
            t.v[first_tile[e] + i / a.tile] = ivec3(e, first[e] + i, min(a.tile, n - i));
    }
}
