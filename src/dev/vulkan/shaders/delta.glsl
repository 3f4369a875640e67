/* delta.glsl - the gated delta rule. The columns of a state are independent: a workgroup keeps some
 * of a head's columns in registers from the first row of a span to the last, four invocations per
 * column. Rows are loaded and normalised in blocks, so that nothing waits between the rows of a
 * block, and the next block is read meanwhile; each row is computed as if it were alone, so the
 * bits depend neither on the blocks nor on how a prompt is cut. The output q^T Z of a row is
 * computed from the state before it, e^g (q^T Z) + (q^T k) d, beside what the update needs, k^T Z.
 * A replay repeats the operations of the rows it replaces. A workgroup with all columns of a head
 * can compute the gated norm of the rows, too, and (CONV) the convolution of their channels:
 * several heads repeat that of a key and a query, and conv.comp writes its state afterwards. */
layout(constant_id = 0) const int S = 128;
layout(constant_id = 1) const int WG = 128;
layout(constant_id = 2) const int J = 1; /* rows of a journal */
layout(constant_id = 3) const bool GATED = false;
layout(constant_id = 4) const float EPS = 0.0; /* of the norm */
const int COLUMNS = WG / 4; /* at least 2 ROWS */
const int OWN = (S + 15) / 16, FOURS = 4 * OWN; /* vectors of an invocation, of a row: zeros last */
const int ROWS = S > 512 ? 2 : S > 256 ? 4 : S > 128 ? 8 : 16; /* rows of a block */
const int VALUES = (ROWS * COLUMNS + WG - 1) / WG; /* of an invocation */
layout(local_size_x_id = 1) in;
layout(push_constant, scalar) uniform Push {
    ADDRESS o, y, al, be, A, dt, state, j_k, j_d, j_g, batch;
    ADDRESS z, w; /* of the norm: the gate, laid out like o, and the weights */
    int o_rs, o_hs, y_rs, al_rs, be_rs;
    int heads; /* Hk in the lower half, Hv in the upper one */
#ifdef CONV
    int u_rs;
    ADDRESS u, conv_w, conv, j_conv;
#endif
} a;
#ifdef CONV
layout(constant_id = 5) const int C = 4; /* taps of the convolution */
#include "conv.glsl"
#endif

vec4 z[OWN];                        /* a fourth of a column: vectors q, q + 4, ... */
vec4 own_unit[OWN];                 /* of the next block: a fourth of a key or query, */
float own_value[VALUES];            /* some values, */
float own_al, own_be;               /* and what the gates of a row are computed from */
shared vec4 unit[2 * ROWS * FOURS]; /* keys of the block, then queries */
shared float value[ROWS * COLUMNS]; /* then the results, if GATED */
shared float squares[GATED ? WG : 1];
shared float gate[ROWS], decay[ROWS], beta[ROWS];
shared float mixed[ROWS]; /* query times key */

F32 row_of(ADDRESS base, int64_t at)
{
    return F32(base + 4ul * uint64_t(at));
}

vec4 four_at(F32 p, int i)
{
    return vec4(i < S ? p.v[i] : 0.0, i + 1 < S ? p.v[i + 1] : 0.0, i + 2 < S ? p.v[i + 2] : 0.0,
                i + 3 < S ? p.v[i + 3] : 0.0);
}

/* The columns of Z times the key (x) and the query (y) of row r. */
vec2 dots_of(int r, int q)
{
    vec4 s = vec4(0.0), u = vec4(0.0);
    [[unroll]] for (int i = 0; i < OWN; i++) {
        s = fma(z[i], unit[r * FOURS + 4 * i + q], s);
        u = fma(z[i], unit[(ROWS + r) * FOURS + 4 * i + q], u);
    }
    precise float key = (s.x + s.y) + (s.z + s.w), query = (u.x + u.y) + (u.z + u.w);
    return vec2(quad_sum(key), quad_sum(query));
}

/* Z = e^g Z + k d^T */
void advance(int r, float d, int q)
{
    const vec4 e = vec4(decay[r]);
    [[unroll]] for (int i = 0; i < OWN; i++) {
        precise vec4 kd = unit[r * FOURS + 4 * i + q] * d;
        z[i] = fma(e, z[i], kd);
    }
}

void store(F32 to, int j, int q)
{
    [[unroll]] for (int i = 0; i < OWN; i++)
        [[unroll]] for (int k = 0; k < 4; k++) {
            const int at = 4 * (4 * i + q) + k;
            if (at < S && j < S) to.v[at * S + j] = z[i][k];
        }
}

#ifdef CONV
/* Channels of rows [first, first + n) of a span: queries and keys to `unit`, values to `value`, and
 * all to y, once. */
void convolve(Span sp, int first, int n, int h, int kh)
{
    const int Hk = a.heads & 0xffff, Hv = a.heads >> 16;
    const Conv k = Conv(a.u, a.conv_w, a.conv, a.j_conv, a.u_rs, (2 * Hk + Hv) * S, J);
    for (int i = INVOCATION; i < 3 * n * S; i += WG) {
        const int r = i / (3 * S), part = i / S % 3, j = i % S;
        const int c = (part == 0 ? kh : part == 1 ? Hk + kh : 2 * Hk + h) * S + j;
        const float v = conv_of(k, sp, c, first + r);
        if (part == 2)
            value[r * COLUMNS + j] = v;
        else
            unit[(part == 0 ? ROWS + r : r) * FOURS + j / 4][j % 4] = v;
        if (part == 2 || h == kh) row_of(a.y, int64_t(sp.row + first + r) * a.y_rs).v[c] = v;
    }
}
#endif

/* Reads what an invocation moves to shared memory of rows [t, t + n). */
void load_block(int t, int n, int h, int kh)
{
    const int Hk = a.heads & 0xffff, me = INVOCATION, u = me / 4;
#ifndef CONV
    F32 x = row_of(a.y, int64_t(t + min(u % ROWS, n - 1)) * a.y_rs +
                            int64_t((u < ROWS ? Hk + kh : kh) * S));
    [[unroll]] for (int i = 0; i < OWN; i++) own_unit[i] = four_at(x, 4 * (4 * i + me % 4));
    [[unroll]] for (int i = 0; i < VALUES; i++) {
        const int at = me + i * WG, r = min(at / COLUMNS, n - 1);
        const int j = int(gl_WorkGroupID.z) * COLUMNS + at % COLUMNS;
        own_value[i] =
            j < S ? row_of(a.y, int64_t(t + r) * a.y_rs + int64_t((2 * Hk + h) * S)).v[j] : 0.0;
    }
#endif
    const int r = min(me, n - 1);
    own_al = row_of(a.al, int64_t(t + r) * a.al_rs).v[h];
    own_be = row_of(a.be, int64_t(t + r) * a.be_rs).v[h];
}

/* A key or query u of the block, divided by its norm, by four invocations. */
void put_unit(int u, int q)
{
    vec4 sum = vec4(0.0);
    [[unroll]] for (int i = 0; i < OWN; i++) sum = fma(own_unit[i], own_unit[i], sum);
    precise float own = (sum.x + sum.y) + (sum.z + sum.w);
    const float scale = (u < ROWS ? 1.0 : 1.0 / sqrt(float(S))) / sqrt(quad_sum(own) + 1e-6);
    if (u >= 2 * ROWS) return;
    [[unroll]] for (int i = 0; i < OWN; i++) unit[u * FOURS + 4 * i + q] = own_unit[i] * scale;
}

void put_gates(int n, int h)
{
    const int r = INVOCATION;
    if (r >= n) return;
    precise float g = F32(a.A).v[h] * softplus(own_al + F32(a.dt).v[h]);
    gate[r] = g;
    decay[r] = exp_of(g);
    beta[r] = sigmoid(own_be);
}

void put_values()
{
    [[unroll]] for (int i = 0; i < VALUES; i++)
        if (INVOCATION + i * WG < ROWS * COLUMNS) value[INVOCATION + i * WG] = own_value[i];
}

/* Queries times keys of the block's rows. */
void mix_units(int q)
{
    const int r = INVOCATION / 4, from = min(r, ROWS - 1) * FOURS + q;
    vec4 sum = vec4(0.0);
    [[unroll]] for (int i = 0; i < OWN; i++)
        sum = fma(unit[from + 4 * i], unit[from + ROWS * FOURS + 4 * i], sum);
    precise float own = (sum.x + sum.y) + (sum.z + sum.w);
    const float all = quad_sum(own);
    if (r < ROWS && q == 0) mixed[r] = all;
}

void replay(Span sp, int h, int kh, int j, int q)
{
    const int Hk = a.heads & 0xffff, Hv = a.heads >> 16, me = INVOCATION;
    const int64_t rows = int64_t(sp.slot * 2 + sp.plane) * J;
    for (int first = 0; first < sp.replay; first += ROWS) {
        const int n = min(ROWS, sp.replay - first);
        barrier();
        for (int i = me; i < n * FOURS; i += WG)
            unit[i] = four_at(row_of(a.j_k, ((rows + first + i / FOURS) * Hk + kh) * S),
                              4 * (i % FOURS));
        if (me < n) decay[me] = exp_of(row_of(a.j_g, (rows + first + me) * Hv).v[h]);
        barrier();
        for (int r = 0; r < n; r++)
            advance(r, j < S ? row_of(a.j_d, ((rows + first + r) * Hv + h) * S).v[j] : 0.0, q);
    }
}

void put_journal(int64_t row, int r, int h, int kh, int j, float d)
{
    const int Hk = a.heads & 0xffff, Hv = a.heads >> 16, me = INVOCATION;
    if (j < S && me % 4 == 0) row_of(a.j_d, (row * Hv + h) * S).v[j] = d;
    if (gl_WorkGroupID.z != 0u) return;
    if (me == 0) row_of(a.j_g, row * Hv).v[h] = gate[r];
    if (h < Hk)
        for (int i = me; i < S; i += WG)
            row_of(a.j_k, (row * Hk + kh) * S).v[i] = unit[r * FOURS + i / 4][i % 4];
}

/* The gated norm of n rows from t on, with the operations of norm.comp: 64 invocations for each. */
void norm_rows(int t, int n, int h)
{
    const int me = INVOCATION, i = me % 64, own = (S + 63) / 64;
    for (int first = 0; first < n; first += WG / 64) {
        const int r = min(first + me / 64, n - 1);
        float v[own], sum = 0.0;
        [[unroll]] for (int j = 0; j < own; j++) {
            v[j] = i + 64 * j < S ? value[r * COLUMNS + i + 64 * j] : 0.0;
            sum = fma(v[j], v[j], sum);
        }
        squares[me] = sum;
        barrier();
        for (int s = 32; s > 0; s /= 2) {
            if (i < s) {
                precise float both = squares[me] + squares[me + s];
                squares[me] = both;
            }
            barrier();
        }
        const float inv = 1.0 / sqrt(squares[me - i] / float(S) + EPS);
        const int64_t at = int64_t(t + r) * a.o_rs + int64_t(h) * a.o_hs;
        F32 to = row_of(a.o, at), gate = row_of(a.z, at);
        if (first + me / 64 < n)
            [[unroll]] for (int j = 0; j < own; j++) {
                const int c = i + 64 * j;
                if (c >= S) continue;
                precise float y = v[j] * inv * F32(a.w).v[c];
                to.v[c] = y * act_of(gate.v[c], SILU);
            }
        barrier();
    }
}

void main()
{
    const int Hk = a.heads & 0xffff, Hv = a.heads >> 16, me = INVOCATION, q = me % 4;
    const int h = int(gl_WorkGroupID.x), kh = h % Hk;
    const int j = int(gl_WorkGroupID.z) * COLUMNS + me / 4;
    const Span sp = Spans(Batch(a.batch).span).v[gl_WorkGroupID.y];
    F32 stored = row_of(a.state, int64_t(sp.slot * Hv + h) * S * S);
    if (sp.n == 0 && sp.replay == 0) return;
    [[unroll]] for (int i = 0; i < OWN; i++)
        [[unroll]] for (int k = 0; k < 4; k++) {
            const int at = 4 * (4 * i + q) + k;
            z[i][k] = j < S && at < S ? stored.v[at * S + j] : 0.0;
        }
    replay(sp, h, kh, j, q);
    if (sp.tentative != 0 && sp.replay > 0) store(stored, j, q);
    const int64_t rows = int64_t(sp.slot * 2 + 1 - sp.plane) * J;
    if (sp.n > 0) load_block(sp.row, min(ROWS, sp.n), h, kh);
    for (int first = 0; first < sp.n; first += ROWS) {
        const int t = sp.row + first, n = min(ROWS, sp.n - first), left = sp.n - first - ROWS;
        barrier();
        put_gates(n, h);
#ifdef CONV
        convolve(sp, first, n, h, kh);
        barrier();
        [[unroll]] for (int i = 0; i < OWN; i++)
            own_unit[i] = unit[min(me / 4, 2 * ROWS - 1) * FOURS + 4 * i + q];
        put_unit(me / 4, q);
#else
        put_values();
        put_unit(me / 4, q);
#endif
        barrier();
        mix_units(q);
        if (left > 0) load_block(t + ROWS, min(ROWS, left), h, kh);
        barrier();
        for (int r = 0; r < n; r++) {
            const vec2 dots = dots_of(r, q);
            precise float seen = decay[r] * dots.x, before = decay[r] * dots.y;
            precise float d = beta[r] * (value[r * COLUMNS + me / 4] - seen);
            advance(r, d, q);
            const float o = fma(mixed[r], d, before);
            F32 to = row_of(a.o, int64_t(t + r) * a.o_rs + int64_t(h) * a.o_hs);
            if (GATED) {
                if (q == 0) value[r * COLUMNS + me / 4] = o; /* its four invocations have read it */
            } else if (j < S && q == 0) {
                to.v[j] = o;
            }
            if (sp.tentative != 0) put_journal(rows + first + r, r, h, kh, j, d);
        }
        if (GATED) {
            barrier();
            norm_rows(t, n, h);
        }
    }
    if (sp.tentative == 0) store(stored, j, q);
}
