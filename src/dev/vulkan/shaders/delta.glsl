/* delta.glsl - the gated delta rule. The columns of a state are independent: a workgroup keeps some
 * of a head's columns in registers from the first row of a span to the last, four invocations per
 * column. Rows are loaded and normalised in blocks, so that nothing waits between the rows of a
 * block; each row is computed as if it were alone, so the bits depend neither on the blocks nor on
 * how a prompt is cut. A replay repeats the operations of the rows it replaces. A workgroup with
 * all columns of a head can compute the gated norm of the rows, too, and (CONV) the convolution of
 * their channels: several heads repeat that of a key and a query, and conv.comp writes its state
 * afterwards. */
layout(constant_id = 0) const int S = 128;
layout(constant_id = 1) const int WG = 128;
layout(constant_id = 2) const int J = 1; /* rows of a journal */
layout(constant_id = 3) const bool GATED = false;
layout(constant_id = 4) const float EPS = 0.0; /* of the norm */
const int COLUMNS = WG / 4;
const int OWN = (S + 15) / 16, FOURS = 4 * OWN; /* vectors of an invocation, of a row: zeros last */
const int ROWS = S > 512 ? 2 : S > 256 ? 4 : S > 128 ? 8 : 16; /* rows of a block */
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
shared vec4 unit[2 * ROWS * FOURS]; /* keys of the block, then queries */
shared float value[ROWS * COLUMNS]; /* then the results, if GATED */
shared float squares[GATED ? WG : 1];
shared float gate[ROWS], decay[ROWS], beta[ROWS];

F32 row_of(ADDRESS base, int64_t at)
{
    return F32(base + 4ul * uint64_t(at));
}

vec4 four_at(F32 p, int i)
{
    return vec4(i < S ? p.v[i] : 0.0, i + 1 < S ? p.v[i + 1] : 0.0, i + 2 < S ? p.v[i + 2] : 0.0,
                i + 3 < S ? p.v[i + 3] : 0.0);
}

float dot_of(int at, int q)
{
    vec4 s = vec4(0.0);
    [[unroll]] for (int i = 0; i < OWN; i++) s = fma(z[i], unit[at * FOURS + 4 * i + q], s);
    precise float sum = (s.x + s.y) + (s.z + s.w);
    return quad_sum(sum);
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

/* Keys and queries of rows [t, t + n), divided by their norms: four invocations for each. */
void load_units(int t, int n, int kh, int Hk)
{
    const int me = INVOCATION, q = me % 4;
    for (int first = 0; first < 2 * ROWS; first += COLUMNS) {
        const int u = first + me / 4, r = min(u % ROWS, n - 1), from = u < ROWS ? Hk + kh : kh;
        F32 x = row_of(a.y, int64_t(t + r) * a.y_rs + int64_t(from * S));
        vec4 v[OWN], sum = vec4(0.0);
        [[unroll]] for (int i = 0; i < OWN; i++) {
#ifdef CONV
            v[i] = u < 2 * ROWS ? unit[u * FOURS + 4 * i + q] : vec4(0.0);
#else
            v[i] = four_at(x, 4 * (4 * i + q));
#endif
            sum = fma(v[i], v[i], sum);
        }
        precise float own = (sum.x + sum.y) + (sum.z + sum.w);
        const float scale = (u < ROWS ? 1.0 : 1.0 / sqrt(float(S))) / sqrt(quad_sum(own) + 1e-6);
        if (u >= 2 * ROWS) continue;
        [[unroll]] for (int i = 0; i < OWN; i++) unit[u * FOURS + 4 * i + q] = v[i] * scale;
    }
}

void load_gates(int t, int n, int h)
{
    const int r = INVOCATION;
    if (r >= n) return;
    const float al = row_of(a.al, int64_t(t + r) * a.al_rs).v[h] + F32(a.dt).v[h];
    precise float g = F32(a.A).v[h] * softplus(al);
    gate[r] = g;
    decay[r] = exp_of(g);
    beta[r] = sigmoid(row_of(a.be, int64_t(t + r) * a.be_rs).v[h]);
}

void load_values(int t, int n, int from)
{
    const int j0 = int(gl_WorkGroupID.z) * COLUMNS;
    for (int i = INVOCATION; i < n * COLUMNS; i += WG) {
        const int j = j0 + i % COLUMNS;
        value[i] = j < S ? row_of(a.y, int64_t(t + i / COLUMNS) * a.y_rs).v[from + j] : 0.0;
    }
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
    for (int first = 0; first < sp.n; first += ROWS) {
        const int t = sp.row + first, n = min(ROWS, sp.n - first);
        barrier();
        load_gates(t, n, h);
#ifdef CONV
        convolve(sp, first, n, h, kh);
        barrier();
#else
        load_values(t, n, (2 * Hk + h) * S);
#endif
        load_units(t, n, kh, Hk);
        barrier();
        for (int r = 0; r < n; r++) {
            precise float seen = decay[r] * dot_of(r, q);
            precise float d = beta[r] * (value[r * COLUMNS + me / 4] - seen);
            advance(r, d, q);
            const float o = dot_of(ROWS + r, q);
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
