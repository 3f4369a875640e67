/* The convolution of a gated delta net. FEW: an invocation computes a channel of all rows of a
 * span, and then its window. Otherwise it computes one row (ROWS), and the window, the last inputs,
 * which all rows read, changes in a second dispatch (WINDOW). */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(constant_id = 0) const int WHICH = 0;
layout(constant_id = 1) const int C = 4; /* taps */
const int ROWS = 0, WINDOW = 1, FEW = 2; /* the order of ft_vk_conv_part in delta.c */
layout(local_size_x = 128) in;
layout(push_constant, scalar) uniform Push {
    Mat y, u;
    ADDRESS w, conv, journal, batch;
    int CH, J;
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
    const int r = i - (C - 1);
    const ADDRESS window =
        a.conv + 4ul * (uint64_t(sp.slot * (C - 1) + i) * uint64_t(a.CH) + uint64_t(c));
    const ADDRESS journal =
        uint64_t(journal_of(sp.slot, sp.plane, c)) + 4ul * uint64_t(r * a.CH);
    const ADDRESS row = uint64_t(head(a.u, sp.row + r - sp.replay, 0)) + 4ul * uint64_t(c);
    return F32(r < 0 ? window : r < sp.replay ? journal : row).v[0];
}

void compute_row(Span sp, int c, int r)
{
    const int t = sp.row + r;
    float sum = 0.0;
    [[unroll]] for (int k = 0; k < C; k++)
        sum = fma(F32(a.w).v[c * C + k], input_at(sp, c, sp.replay + r + k), sum);
    head(a.y, t, 0).v[c] = act_of(sum, SILU);
    if (sp.tentative != 0)
        journal_of(sp.slot, 1 - sp.plane, c).v[r * a.CH] = head(a.u, t, 0).v[c];
}

void move_window(Span sp, int c)
{
    const int shift = sp.replay + (sp.tentative != 0 ? 0 : sp.n);
    float last[16];
    if (shift == 0) return;
    [[unroll]] for (int i = 0; i < C - 1; i++) last[i] = input_at(sp, c, shift + i);
    F32 to = F32(a.conv + 4ul * uint64_t(sp.slot * (C - 1)) * uint64_t(a.CH));
    [[unroll]] for (int i = 0; i < C - 1; i++) to.v[i * a.CH + c] = last[i];
}

void main()
{
    const int c = int(gl_WorkGroupID.x * 128u + gl_LocalInvocationIndex);
    const int i = int(gl_WorkGroupID.y);
    if (c >= a.CH) return;
    Batch b = Batch(a.batch);
    const Span sp = Spans(b.span).v[WHICH == ROWS ? I32(b.span_of).v[i] : i];
    if (WHICH == ROWS) compute_row(sp, c, i - sp.row);
    if (WHICH == FEW)
        for (int r = 0; r < sp.n; r++) compute_row(sp, c, r);
    if (WHICH != ROWS) move_window(sp, c);
}
