/* The gated delta rule. The columns of a state are independent: a workgroup keeps 32 of a head's
 * columns in registers from the first row of a span to the last. Rows are loaded and normalised in
 * blocks, so that nothing waits between the rows of a block; each row is computed as if it were
 * alone, so the bits depend neither on the blocks nor on how a prompt is cut. A replay repeats the
 * operations of the rows it replaces. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(constant_id = 0) const int S = 128;
const int WG = 32, FOURS = (S + 3) / 4; /* vectors of four, zeros at the end */
const int ROWS = S > 512 ? 2 : S > 256 ? 4 : S > 128 ? 8 : 16; /* rows of a block */
layout(local_size_x = 32) in;
layout(push_constant, scalar) uniform Push {
    ADDRESS o, y, al, be, A, dt, state, j_k, j_d, j_g, batch;
    int o_rs, o_hs, y_rs, al_rs, be_rs, J;
    int heads; /* Hk in the lower half, Hv in the upper one */
} a;

vec4 z[FOURS];                             /* a column */
shared vec4 unit[2 * ROWS * FOURS];        /* keys of the block, then queries */
shared float part[2 * ROWS * (WG + 1)];    /* sums of their squares */
shared float gate[ROWS], decay[ROWS], beta[ROWS];

F32 row_of(ADDRESS base, int64_t at)
{
    return F32(base + 4ul * uint64_t(at));
}

vec4 four_at(F32 p, int i)
{
    return vec4(p.v[i], i + 1 < S ? p.v[i + 1] : 0.0, i + 2 < S ? p.v[i + 2] : 0.0,
                i + 3 < S ? p.v[i + 3] : 0.0);
}

float dot_of(int at)
{
    vec4 s = vec4(0.0);
    [[unroll]] for (int i = 0; i < FOURS; i++) s = fma(z[i], unit[at * FOURS + i], s);
    precise float sum = (s.x + s.y) + (s.z + s.w);
    return sum;
}

/* Z = e^g Z + k d^T */
void advance(int r, float d)
{
    const vec4 e = vec4(decay[r]);
    [[unroll]] for (int i = 0; i < FOURS; i++) {
        precise vec4 kd = unit[r * FOURS + i] * d;
        z[i] = fma(e, z[i], kd);
    }
}

void store(F32 to, int j)
{
    [[unroll]] for (int i = 0; i < FOURS; i++)
        [[unroll]] for (int k = 0; k < 4; k++)
            if (4 * i + k < S) to.v[(4 * i + k) * S + j] = z[i][k];
}

/* Keys and queries of rows [t, t + n), divided by their norms. */
void load_units(int t, int n, int kh, int Hk)
{
    const int me = int(gl_LocalInvocationIndex);
    for (int u = 0; u < 2 * n; u++) {
        const int r = u % n, at = u < n ? r : ROWS + r, from = u < n ? Hk + kh : kh;
        F32 x = row_of(a.y, int64_t(t + r) * a.y_rs + int64_t(from * S));
        vec4 sum = vec4(0.0);
        for (int i = me; i < FOURS; i += WG) {
            const vec4 v = four_at(x, 4 * i);
            unit[at * FOURS + i] = v;
            sum = fma(v, v, sum);
        }
        precise float all = (sum.x + sum.y) + (sum.z + sum.w);
        part[at * (WG + 1) + me] = all;
    }
    barrier();
    for (int at = me; at < 2 * ROWS; at += WG) {
        precise float sum = 0.0;
        for (int i = 0; i < WG; i++) sum += part[at * (WG + 1) + i];
        part[at * (WG + 1)] = (at < ROWS ? 1.0 : 1.0 / sqrt(float(S))) / sqrt(sum + 1e-6);
    }
    barrier();
    for (int u = 0; u < 2 * n; u++) {
        const int at = u < n ? u : ROWS + u - n;
        const float scale = part[at * (WG + 1)];
        for (int i = me; i < FOURS; i += WG) unit[at * FOURS + i] *= scale;
    }
}

void load_gates(int t, int n, int h)
{
    const int r = int(gl_LocalInvocationIndex);
    if (r >= n) return;
    const float al = row_of(a.al, int64_t(t + r) * a.al_rs).v[h] + F32(a.dt).v[h];
    precise float g = F32(a.A).v[h] * softplus(al);
    gate[r] = g;
    decay[r] = exp_of(g);
    beta[r] = sigmoid(row_of(a.be, int64_t(t + r) * a.be_rs).v[h]);
}

void replay(Span sp, int h, int kh, int j)
{
    const int Hk = a.heads & 0xffff, Hv = a.heads >> 16, me = int(gl_LocalInvocationIndex);
    const int64_t rows = int64_t(sp.slot * 2 + sp.plane) * a.J;
    for (int first = 0; first < sp.replay; first += ROWS) {
        const int n = min(ROWS, sp.replay - first);
        barrier();
        for (int r = 0; r < n; r++) {
            F32 k = row_of(a.j_k, ((rows + first + r) * Hk + kh) * S);
            for (int i = me; i < FOURS; i += WG) unit[r * FOURS + i] = four_at(k, 4 * i);
        }
        if (me < n) decay[me] = exp_of(row_of(a.j_g, (rows + first + me) * Hv).v[h]);
        barrier();
        for (int r = 0; r < n; r++)
            advance(r, j < S ? row_of(a.j_d, ((rows + first + r) * Hv + h) * S).v[j] : 0.0);
    }
}

void put_journal(int64_t row, int r, int h, int kh, int j, float d)
{
    const int Hk = a.heads & 0xffff, Hv = a.heads >> 16, me = int(gl_LocalInvocationIndex);
    if (j < S) row_of(a.j_d, (row * Hv + h) * S).v[j] = d;
    if (gl_WorkGroupID.z != 0u) return;
    if (me == 0) row_of(a.j_g, row * Hv).v[h] = gate[r];
    if (h < Hk)
        for (int i = me; i < S; i += WG)
            row_of(a.j_k, (row * Hk + kh) * S).v[i] = unit[r * FOURS + i / 4][i % 4];
}

void main()
{
    const int Hk = a.heads & 0xffff, Hv = a.heads >> 16;
    const int h = int(gl_WorkGroupID.x), kh = h % Hk;
    const int j = int(gl_WorkGroupID.z) * WG + int(gl_LocalInvocationIndex);
    const Span sp = Spans(Batch(a.batch).span).v[gl_WorkGroupID.y];
    F32 stored = row_of(a.state, int64_t(sp.slot * Hv + h) * S * S);
    if (sp.n == 0 && sp.replay == 0) return;
    [[unroll]] for (int i = 0; i < FOURS; i++)
        [[unroll]] for (int k = 0; k < 4; k++)
            z[i][k] = j < S && 4 * i + k < S ? stored.v[(4 * i + k) * S + j] : 0.0;
    replay(sp, h, kh, j);
    if (sp.tentative != 0 && sp.replay > 0 && j < S) store(stored, j);
    const int64_t rows = int64_t(sp.slot * 2 + 1 - sp.plane) * a.J;
    for (int first = 0; first < sp.n; first += ROWS) {
        const int t = sp.row + first, n = min(ROWS, sp.n - first);
        barrier();
        load_gates(t, n, h);
        load_units(t, n, kh, Hk);
        barrier();
        for (int r = 0; r < n; r++) {
            const float value =
                j < S ? row_of(a.y, int64_t(t + r) * a.y_rs).v[(2 * Hk + h) * S + j] : 0.0;
            precise float seen = decay[r] * dot_of(r);
            precise float d = beta[r] * (value - seen);
            advance(r, d);
            const float o = dot_of(ROWS + r);
            if (j < S) row_of(a.o, int64_t(t + r) * a.o_rs + int64_t(h) * a.o_hs).v[j] = o;
            if (sp.tentative != 0) put_journal(rows + first + r, r, h, kh, j, d);
        }
    }
    if (sp.tentative == 0 && j < S) store(stored, j);
}
