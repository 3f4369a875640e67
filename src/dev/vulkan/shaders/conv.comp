/* The convolution of a gated delta net: outputs and journal, or (WINDOW) the last inputs, which the
 * outputs read and which change in a second dispatch. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(constant_id = 0) const bool WINDOW = false;
layout(local_size_x = 128) in;
layout(push_constant, scalar) uniform Push {
    Mat y, u;
    ADDRESS w, conv, journal, batch;
    int CH, C, J;
} a;

/* Row 0 of a journal of a slot. */
F32 journal_of(int slot, int plane, int c)
{
    return F32(a.journal + 4ul * (uint64_t((slot * 2 + plane) * a.J) * uint64_t(a.CH) +
                                  uint64_t(c)));
}

/* Input i of a channel in time order: the stored window, the accepted journal rows, the rows. */
float input_at(Span sp, int c, int i)
{
    if (i < a.C - 1)
        return F32(a.conv + 4ul * uint64_t(sp.slot * (a.C - 1)) * uint64_t(a.CH)).v[i * a.CH + c];
    i -= a.C - 1;
    if (i < sp.replay) return journal_of(sp.slot, sp.plane, c).v[i * a.CH];
    return head(a.u, sp.row + i - sp.replay, 0).v[c];
}

void main()
{
    const int c = int(gl_WorkGroupID.x * 128u + gl_LocalInvocationIndex);
    if (c >= a.CH) return;
    Batch b = Batch(a.batch);
    if (WINDOW) {
        const Span sp = Spans(b.span).v[gl_WorkGroupID.y];
        const int shift = sp.replay + (sp.tentative != 0 ? 0 : sp.n);
        float last[16];
        if (shift == 0) return;
        for (int i = 0; i < a.C - 1; i++) last[i] = input_at(sp, c, shift + i);
        F32 to = F32(a.conv + 4ul * uint64_t(sp.slot * (a.C - 1)) * uint64_t(a.CH));
        for (int i = 0; i < a.C - 1; i++) to.v[i * a.CH + c] = last[i];
        return;
    }
    const int t = int(gl_WorkGroupID.y);
    const Span sp = Spans(b.span).v[I32(b.span_of).v[t]];
    const int r = t - sp.row;
    float sum = 0.0;
    for (int k = 0; k < a.C; k++)
        sum = fma(F32(a.w).v[c * a.C + k], input_at(sp, c, sp.replay + r + k), sum);
    head(a.y, t, 0).v[c] = act_of(sum, SILU);
    if (sp.tentative != 0)
        journal_of(sp.slot, 1 - sp.plane, c).v[r * a.CH] = head(a.u, t, 0).v[c];
}
