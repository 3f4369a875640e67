/* Joins the ranges of a row and head that attend.comp computed apart. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#define PIECES a.k
#include "fold.glsl"

void main()
{
    const int h = int(gl_WorkGroupID.x), t = int(gl_WorkGroupID.y);
    const int width = row_width(VT, D), me = int(gl_LocalInvocationIndex);
    const Range r = range_of(t);
    const int n = r.hi > r.lo ? (r.hi + RANGE - 1) / RANGE : 0;
    Sum s = sum_none();
    for (int i = r.lo / RANGE; i < n; i++) {
        F32 from = part_at(t, h, i);
        Sum next = sum_none();
        next.top = from.v[width];
        next.all = from.v[width + 1];
        for (int j = 0; j < OWN; j++)
            if (me + j * WG < width) next.o[j] = from.v[me + j * WG];
        fold(s, next);
    }
    finish(s, t, h);
}
