/* The convolution of a gated delta net. FEW: an invocation computes a channel of all rows of a
 * span, and then its window. Otherwise it computes EACH rows (ROWS), and the window, the last
 * inputs, which all rows read, changes in a second dispatch (WINDOW). Where the delta rule computes
 * the rows by itself, the journal and the window are written afterwards (STATE). */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(constant_id = 0) const int WHICH = 0;
layout(constant_id = 1) const int C = 4;            /* taps */
const int ROWS = 0, WINDOW = 1, FEW = 2, STATE = 3; /* the order of ft_vk_conv_part in delta.c */
const int EACH = 8;                                 /* the same there */
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

/* Channel c of EACH rows from `first` on: an input is loaded once for the rows of a span. */
void compute_rows(Conv k, Batch b, int c, int first)
{
    float w[C], x[C];
    [[unroll]] for (int i = 0; i < C; i++) w[i] = F32(a.w).v[c * C + i];
    for (int t = first; t < min(first + EACH, b.T); t++) {
        const Span sp = Spans(b.span).v[I32(b.span_of).v[t]];
        const int r = t - sp.row;
        const bool anew = t == first || r == 0;
        [[unroll]] for (int i = 0; i < C; i++) {
            if (anew)
                x[i] = conv_input(k, sp, c, sp.replay + r + i);
            else
                x[i] = i + 1 < C ? x[min(i + 1, C - 1)] : conv_row(k, t, c).v[0];
        }
        float sum = 0.0;
        [[unroll]] for (int i = 0; i < C; i++) sum = fma(w[i], x[i], sum);
        head(a.y, t, 0).v[c] = act_of(sum, SILU);
        put_journal(k, sp, c, r);
    }
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
    if (WHICH == ROWS) {
        compute_rows(k, b, c, i * EACH);
        return;
    }
    const Span sp = Spans(b.span).v[i];
    if (WHICH == FEW)
        for (int r = 0; r < sp.n; r++) compute_row(k, sp, c, r);
    if (WHICH == STATE)
        for (int r = 0; r < sp.n; r++) put_journal(k, sp, c, r);
    move_window(k, sp, c);
}
