/* The gated delta rule. The columns of a state are independent: a workgroup keeps 32 of a head's
 * columns in registers from the first row of a span to the last, each in four parts, whose sums are
 * added in one order. Rows are loaded and normalised in blocks, so that no row waits for memory;
 * each is computed as if it were alone, so the bits depend neither on the blocks nor on how a
 * prompt is cut. A replay repeats the operations of the rows it replaces. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(constant_id = 0) const int S = 128;
const int COLS = 32, PARTS = 4, WG = COLS * PARTS;
const int OWN = (S + 15) / 16;                                 /* vectors of four in a part */
const int FOURS = OWN * PARTS;                                 /* in a column; zeros at its end */
const int ROWS = S > 512 ? 2 : S > 256 ? 4 : S > 128 ? 8 : 16; /* rows of a block */
layout(local_size_x = 128) in;
layout(push_constant, scalar) uniform Push {
    ADDRESS o, y, al, be, A, dt, state, j_k, j_d, j_g, batch;
    int o_rs, o_hs, y_rs, al_rs, be_rs, J;
    int heads; /* Hk in the lower half, Hv in the upper one */
} a;

vec4 z[OWN];                        /* a part of a column */
shared vec4 unit[2 * ROWS * FOURS]; /* keys of the block, then queries */
shared float square[2 * ROWS * PARTS], norm[2 * ROWS], value[ROWS * COLS];
shared float gate[ROWS], decay[ROWS], beta[ROWS];
shared float seen_part[WG], out_part[WG]; /* sums of the parts */

F32 row_of(ADDRESS base, int64_t at)
{
    return F32(base + 4ul * uint64_t(at));
}

int invocation()
{
    return int(gl_LocalInvocationIndex);
}

/* This part of the product of a column and a key or query. */
float part_of(int at)
{
    const int from = at * FOURS + invocation() / COLS * OWN;
    vec4 s = vec4(0.0);
    [[unroll]] for (int i = 0; i < OWN; i++) s = fma(z[i], unit[from + i], s);
    precise float sum = (s.x + s.y) + (s.z + s.w);
    return sum;
}

/* Z = e^g Z + k d^T */
void advance(int r, float d)
{
    const int from = r * FOURS + invocation() / COLS * OWN;
    const vec4 e = vec4(decay[r]);
    [[unroll]] for (int i = 0; i < OWN; i++) {
        precise vec4 kd = unit[from + i] * d;
        z[i] = fma(e, z[i], kd);
    }
}

/* Moves a part of column j between registers and memory. */
void load_state(F32 from, int j)
{
    const int first = invocation() / COLS * OWN * 4;
    [[unroll]] for (int i = 0; i < OWN; i++)
        [[unroll]] for (int k = 0; k < 4; k++) {
            const int row = first + 4 * i + k;
            z[i][k] = j < S && row < S ? from.v[row * S + j] : 0.0;
        }
}

void store_state(F32 to, int j)
{
    const int first = invocation() / COLS * OWN * 4;
    [[unroll]] for (int i = 0; i < OWN; i++)
        [[unroll]] for (int k = 0; k < 4; k++)
            if (j < S && first + 4 * i + k < S) to.v[(first + 4 * i + k) * S + j] = z[i][k];
}

void put_unit(int at, F32 from, int i)
{
    unit[at * FOURS + i / 4][i % 4] = i < S ? from.v[i] : 0.0;
}

/* Keys and queries of rows [t, t + n), divided by their norms. */
void load_units(int t, int n, int kh, int Hk)
{
    const int me = invocation();
    for (int e = me; e < 2 * n * 4 * FOURS; e += WG) {
        const int u = e / (4 * FOURS), i = e % (4 * FOURS), r = u < n ? u : u - n;
        const int at = u < n ? r : ROWS + r, from = u < n ? Hk + kh : kh;
        put_unit(at, row_of(a.y, int64_t(t + r) * a.y_rs + int64_t(from * S)), i);
    }
    barrier();
    if (me < 2 * ROWS * PARTS) {
        vec4 s = vec4(0.0);
        for (int i = me * OWN; i < (me + 1) * OWN; i++) s = fma(unit[i], unit[i], s);
        precise float sum = (s.x + s.y) + (s.z + s.w);
        square[me] = sum;
    }
    barrier();
    if (me < 2 * ROWS) {
        const int at = me * PARTS;
        precise float sum = (square[at] + square[at + 1]) + (square[at + 2] + square[at + 3]);
        norm[me] = (me < ROWS ? 1.0 : 1.0 / sqrt(float(S))) / sqrt(sum + 1e-6);
    }
    barrier();
    for (int e = me; e < 2 * n * FOURS; e += WG) {
        const int u = e / FOURS, at = u < n ? u : ROWS + u - n;
        unit[at * FOURS + e % FOURS] *= norm[at];
    }
}

void load_block(int t, int n, int h, int kh, int Hk)
{
    const int me = invocation(), first = int(gl_WorkGroupID.z) * COLS;
    barrier(); /* the block before may still be read */
    if (me < n) {
        const float al = row_of(a.al, int64_t(t + me) * a.al_rs).v[h] + F32(a.dt).v[h];
        precise float g = F32(a.A).v[h] * softplus(al);
        gate[me] = g;
        decay[me] = exp_of(g);
        beta[me] = sigmoid(row_of(a.be, int64_t(t + me) * a.be_rs).v[h]);
    }
    for (int e = me; e < n * COLS; e += WG) {
        const int j = first + e % COLS;
        F32 v = row_of(a.y, int64_t(t + e / COLS) * a.y_rs + int64_t((2 * Hk + h) * S));
        value[e] = j < S ? v.v[j] : 0.0;
    }
    load_units(t, n, kh, Hk);
    barrier();
}

void replay(Span sp, int h, int kh, int j)
{
    const int Hk = a.heads & 0xffff, Hv = a.heads >> 16, me = invocation();
    const int64_t rows = int64_t(sp.slot * 2 + sp.plane) * a.J;
    for (int first = 0; first < sp.replay; first += ROWS) {
        const int n = min(ROWS, sp.replay - first);
        barrier();
        for (int e = me; e < n * 4 * FOURS; e += WG) {
            const int r = e / (4 * FOURS);
            put_unit(r, row_of(a.j_k, ((rows + first + r) * Hk + kh) * S), e % (4 * FOURS));
        }
        if (me < n) decay[me] = exp_of(row_of(a.j_g, (rows + first + me) * Hv).v[h]);
        barrier();
        for (int r = 0; r < n; r++)
            advance(r, j < S ? row_of(a.j_d, ((rows + first + r) * Hv + h) * S).v[j] : 0.0);
    }
}

void put_journal(int64_t row, int r, int h, int kh, int j, float d)
{
    const int Hk = a.heads & 0xffff, Hv = a.heads >> 16, me = invocation();
    if (j < S && me < COLS) row_of(a.j_d, (row * Hv + h) * S).v[j] = d;
    if (gl_WorkGroupID.z != 0u) return;
    if (me == 0) row_of(a.j_g, row * Hv).v[h] = gate[r];
    if (h < Hk)
        for (int i = me; i < S; i += WG)
            row_of(a.j_k, (row * Hk + kh) * S).v[i] = unit[r * FOURS + i / 4][i % 4];
}

float sum_of_parts(float p0, float p1, float p2, float p3)
{
    precise float sum = (p0 + p1) + (p2 + p3);
    return sum;
}

/* Row r of the block; returns d. Two barriers: each array of parts is read before the other one's
 * next barrier. */
float run_row(int r, int t, int h, int j)
{
    const int me = invocation(), c = me % COLS;
    seen_part[me] = part_of(r);
    barrier();
    precise float seen = decay[r] * sum_of_parts(seen_part[c], seen_part[COLS + c],
                                                 seen_part[2 * COLS + c], seen_part[3 * COLS + c]);
    precise float d = beta[r] * (value[r * COLS + c] - seen);
    advance(r, d);
    out_part[me] = part_of(ROWS + r);
    barrier();
    if (me < COLS && j < S)
        row_of(a.o, int64_t(t) * a.o_rs + int64_t(h) * a.o_hs).v[j] =
            sum_of_parts(out_part[c], out_part[COLS + c], out_part[2 * COLS + c],
                         out_part[3 * COLS + c]);
    return d;
}

void main()
{
    const int Hk = a.heads & 0xffff, Hv = a.heads >> 16;
    const int h = int(gl_WorkGroupID.x), kh = h % Hk;
    const int j = int(gl_WorkGroupID.z) * COLS + invocation() % COLS;
    const Span sp = Spans(Batch(a.batch).span).v[gl_WorkGroupID.y];
    F32 stored = row_of(a.state, int64_t(sp.slot * Hv + h) * S * S);
    if (sp.n == 0 && sp.replay == 0) return;
    load_state(stored, j);
    replay(sp, h, kh, j);
    if (sp.tentative != 0 && sp.replay > 0) store_state(stored, j);
    const int64_t rows = int64_t(sp.slot * 2 + 1 - sp.plane) * a.J;
    for (int first = 0; first < sp.n; first += ROWS) {
        const int t = sp.row + first, n = min(ROWS, sp.n - first);
        load_block(t, n, h, kh, Hk);
        for (int r = 0; r < n; r++) {
            const float d = run_row(r, t + r, h, j);
            if (sp.tentative != 0) put_journal(rows + first + r, r, h, kh, j, d);
        }
    }
    if (sp.tentative == 0) store_state(stored, j);
}
