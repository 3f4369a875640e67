/* fold.glsl - partial results of attention: the largest score, the sum of e^(score - largest), and
 * the weighted sum of values, invocation i having values i, i + WG, ... Two are joined in the order
 * of positions, wherever they were computed. */
layout(constant_id = 0) const int KT = 0;
layout(constant_id = 1) const int VT = 0;
layout(constant_id = 2) const int D = 128;
const int WG = 128, RANGE = 512;
const int MOST_D = 1024;
const int OWN = ((D + 63) / 64 * 64 + 127) / 128; /* values of an invocation */
layout(local_size_x = 128) in;
#include "kv.glsl"
#include "hadamard.glsl"
layout(push_constant, scalar) uniform Push {
    Mat q, o;
    ADDRESS k, v, batch, part;
    uint k_page, v_page, k_row, v_row;
    float scale;
    int window, first;
    int flags; /* 1: q has the output rows alone, 2: rows see ahead, 4: page space of windows,
                * 8: the result times the sigmoid of the D values that follow a query */
    int piece; /* 0: all positions, 1: those before the recent-token window, 2: those in it */
    int group, ranges; /* query heads per KV head; ranges of a context */
    int rows;          /* of q */
} a;

struct Sum {
    float top, all;
    float o[MOST_D / WG]; /* OWN of them are used */
};

Sum sum_none()
{
    Sum s;
    s.top = -INF;
    s.all = 0.0;
    [[unroll]] for (int i = 0; i < MOST_D / WG; i++) s.o[i] = 0.0;
    return s;
}

void fold(inout Sum s, Sum n)
{
    if (!(n.all > 0.0)) return;
    const float top = max(s.top, n.top);
    const float p = s.all > 0.0 ? exp_of(s.top - top) : 0.0, q = exp_of(n.top - top);
    precise float all = s.all * p + n.all * q;
    s.all = all;
    s.top = top;
    [[unroll]] for (int i = 0; i < OWN; i++) {
        precise float o = s.o[i] * p + n.o[i] * q;
        s.o[i] = o;
    }
}

struct Range {
    int lo, hi, slot;
};

/* The positions that row t of q sees, of the piece. */
Range range_of(int t)
{
    Batch b = Batch(a.batch);
    const int row = (a.flags & 1) != 0 ? I32(b.out_row).v[t] : t, end = I32(b.end).v[row];
    Range r;
    r.slot = slot_of(b, row);
    r.hi = (a.flags & 2) != 0 ? I32(b.ahead).v[row] : end;
    r.lo = a.window != 0 && end > a.window ? end - a.window : 0;
    r.lo = max(r.lo, a.first);
    r.hi = max(r.hi, r.lo);
    const int recent = r.hi > 128 ? (r.hi - 128) / 64 * 64 : 0; /* FT_KV_RECENT_FROM */
    const int cut = min(r.hi, max(r.lo, recent));
    if (a.piece == 1) r.hi = cut;
    if (a.piece == 2) r.lo = cut;
    return r;
}

/* Value i of a result, after its gate if there is one. */
float gated(float v, int t, int h, int i)
{
    return (a.flags & 8) != 0 ? v * sigmoid(head(a.q, t, h).v[D + i]) : v;
}

shared float vec[MOST_D];

/* Writes the result of a row and head: the output, or a piece for join.comp at PIECES. */
void finish(Sum s, int t, int h)
{
    const int me = int(gl_LocalInvocationIndex), width = row_width(VT, D);
    const float inverse = s.all > 0.0 ? 1.0 / s.all : 0.0;
    barrier();
    [[unroll]] for (int i = 0; i < OWN; i++)
        if (me + i * WG < width) vec[me + i * WG] = s.o[i] * inverse;
    if (is_turbo(VT))
        HADAMARD(vec, width, turbo_group(D), turbo_after, turbo_before,
                 turbo_group(D) == 128 ? 0.08838834764831845 : 0.125)
    F32 to = head(a.o, t, h);
    if (a.piece != 0) {
        const uint64_t at = uint64_t(2 * (t * a.q.H + h) + a.piece - 1);
        to = F32(PIECES + 4ul * at * uint64_t(D + 2));
        if (me == 0) {
            to.v[D] = s.top;
            to.v[D + 1] = s.all;
        }
    }
    for (int i = me; i < D; i += WG) to.v[i] = gated(vec[i], t, h, i);
}

/* Where the partial result of a range is. */
F32 part_at(int t, int h, int range)
{
    const uint64_t i = uint64_t(t * a.q.H + h) * uint64_t(a.ranges) + uint64_t(range);
    return F32(a.part + 4ul * i * uint64_t(row_width(VT, D) + 2));
}
