/* conv.glsl - the convolution of a gated delta net. C, the number of taps, is defined before it is
 * included. */
struct Conv {
    ADDRESS u, w, window, journal; /* window: the last inputs of each slot */
    int u_rs, channels, J;
};

/* Channel c of row 0 of a journal of a slot. */
F32 conv_journal(Conv k, int slot, int plane, int c)
{
    return F32(k.journal + 4ul * (uint64_t((slot * 2 + plane) * k.J) * uint64_t(k.channels) +
                                  uint64_t(c)));
}

F32 conv_row(Conv k, int t, int c)
{
    return F32(k.u + 4ul * uint64_t(int64_t(t) * k.u_rs + int64_t(c)));
}

/* Input i of a channel in time order: the stored window, the accepted journal rows, the rows. */
float conv_input(Conv k, Span sp, int c, int i)
{
    const int r = i - (C - 1);
    const ADDRESS window =
        k.window + 4ul * (uint64_t(sp.slot * (C - 1) + i) * uint64_t(k.channels) + uint64_t(c));
    const ADDRESS journal =
        uint64_t(conv_journal(k, sp.slot, sp.plane, c)) + 4ul * uint64_t(r * k.channels);
    const ADDRESS row = uint64_t(conv_row(k, sp.row + r - sp.replay, c));
    return F32(r < 0 ? window : r < sp.replay ? journal : row).v[0];
}

/* Channel c of row r of a span. */
float conv_of(Conv k, Span sp, int c, int r)
{
    float sum = 0.0;
    [[unroll]] for (int i = 0; i < C; i++)
        sum = fma(F32(k.w).v[c * C + i], conv_input(k, sp, c, sp.replay + r + i), sum);
    return act_of(sum, SILU);
}
