/* The convolution of a gated delta net. FEW: an invocation computes a channel of all rows of a
 * span, and then its window. Otherwise it computes one row (ROWS), and the window, the last inputs,
 * which all rows read, changes in a second dispatch (WINDOW). Where the delta rule computes the
 * rows by itself, the journal and the window are written afterwards (STATE). */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(constant_id = 0) const int WHICH = 0;
layout(constant_id = 1) const int C = 4;            /* taps */
const int ROWS = 0, WINDOW = 1, FEW = 2, STATE = 3; /* the order of ft_vk_conv_part in delta.c */
layout(local_size_x = 128) in;
#include "conv.glsl"
layout(push_constant, scalar) uniform Push {
    Mat y, u;
    ADDRESS w, conv, journal, batch;
    int CH, J;
} a;

void put_journal(Conv k, Span sp, int c, int r)
{
    if (sp.tentative != 0)
        conv_journal(k, sp.slot, 1 - sp.plane, c).v[r * a.CH] = conv_row(k, sp.row + r, c).v[0];
}

void compute_row(Conv k, Span sp, int c, int r)
{
    head(a.y, sp.row + r, 0).v[c] = conv_of(k, sp, c, r);
    put_journal(k, sp, c, r);
}

void move_window(Conv k, Span sp, int c)
{
    const int shift = sp.replay + (sp.tentative != 0 ? 0 : sp.n);
    float last[16];
    if (shift == 0) return;
    [[unroll]] for (int i = 0; i < C - 1; i++) last[i] = conv_input(k, sp, c, shift + i);
    F32 to = F32(a.conv + 4ul * uint64_t(sp.slot * (C - 1)) * uint64_t(a.CH));
    [[unroll]] for (int i = 0; i < C - 1; i++) to.v[i * a.CH + c] = last[i];
}

void main()
{
    const int c = int(gl_WorkGroupID.x * 128u + gl_LocalInvocationIndex);
    const int i = int(gl_WorkGroupID.y);
    const Conv k = Conv(a.u.p, a.w, a.conv, a.journal, a.u.rs, a.CH, a.J);
    if (c >= a.CH) return;
    Batch b = Batch(a.batch);
    const Span sp = Spans(b.span).v[WHICH == ROWS ? I32(b.span_of).v[i] : i];
    if (WHICH == ROWS) compute_row(k, sp, c, i - sp.row);
    if (WHICH == FEW)
        for (int r = 0; r < sp.n; r++) compute_row(k, sp, c, r);
    if (WHICH == STATE)
        for (int r = 0; r < sp.n; r++) put_journal(k, sp, c, r);
    if (WHICH != ROWS) move_window(k, sp, c);
}
