/* The gated delta rule, row by row. The columns of a state are independent: a workgroup keeps 32 of
 * a head's columns in registers from the first row of a span to the last. A replay repeats the
 * operations of the rows it replaces. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(constant_id = 0) const int S = 128;
const int WG = 32;
layout(local_size_x = 32) in;
#include "reduce.glsl"
layout(push_constant, scalar) uniform Push {
    ADDRESS o, y, al, be, A, dt, state, j_k, j_d, j_g, batch;
    int o_rs, o_hs, y_rs, al_rs, be_rs, J;
    int heads; /* Hk in the lower half, Hv in the upper one */
} a;

float z[S]; /* a column */
shared float key[S], query[S];

/* Z = e^g Z + k d^T */
void advance(float d, float g)
{
    const float decay = exp_of(g);
    [[unroll]] for (int i = 0; i < S; i++) {
        precise float kd = key[i] * d;
        z[i] = fma(decay, z[i], kd);
    }
}

F32 row_of(ADDRESS base, int64_t at)
{
    return F32(base + 4ul * uint64_t(at));
}

void load_unit(F32 from, bool is_key, float scale)
{
    const int me = int(gl_LocalInvocationIndex);
    float sum = 0.0;
    for (int i = me; i < S; i += WG) sum = fma(from.v[i], from.v[i], sum);
    const float r = scale / sqrt(wg_sum(sum) + 1e-6);
    for (int i = me; i < S; i += WG) {
        if (is_key)
            key[i] = from.v[i] * r;
        else
            query[i] = from.v[i] * r;
    }
}

void main()
{
    const int Hk = a.heads & 0xffff, Hv = a.heads >> 16, me = int(gl_LocalInvocationIndex);
    const int h = int(gl_WorkGroupID.x), kh = h % Hk, j = int(gl_WorkGroupID.z) * WG + me;
    const Span sp = Spans(Batch(a.batch).span).v[gl_WorkGroupID.y];
    const bool mine = j < S;
    F32 stored = row_of(a.state, int64_t(sp.slot * Hv + h) * S * S);
    if (sp.n == 0 && sp.replay == 0) return;
    [[unroll]] for (int i = 0; i < S; i++) z[i] = mine ? stored.v[i * S + j] : 0.0;
    int64_t rows = int64_t(sp.slot * 2 + sp.plane) * a.J;
    for (int r = 0; r < sp.replay; r++) {
        F32 k = row_of(a.j_k, ((rows + r) * Hk + kh) * S);
        barrier();
        for (int i = me; i < S; i += WG) key[i] = k.v[i];
        barrier();
        const float d = mine ? row_of(a.j_d, ((rows + r) * Hv + h) * S).v[j] : 0.0;
        advance(d, row_of(a.j_g, (rows + r) * Hv).v[h]);
    }
    if (sp.tentative != 0 && sp.replay > 0 && mine)
        [[unroll]] for (int i = 0; i < S; i++) stored.v[i * S + j] = z[i];
    rows = int64_t(sp.slot * 2 + 1 - sp.plane) * a.J;
    for (int r = 0; r < sp.n; r++) {
        const int t = sp.row + r;
        F32 x = row_of(a.y, int64_t(t) * a.y_rs);
        barrier();
        load_unit(F32(uint64_t(x) + 4ul * uint64_t(kh * S)), false, 1.0 / sqrt(float(S)));
        load_unit(F32(uint64_t(x) + 4ul * uint64_t((Hk + kh) * S)), true, 1.0);
        barrier();
        const float al = row_of(a.al, int64_t(t) * a.al_rs).v[h] + F32(a.dt).v[h];
        precise float g = F32(a.A).v[h] * softplus(al);
        float sum = 0.0;
        [[unroll]] for (int i = 0; i < S; i++) sum = fma(z[i], key[i], sum);
        const float value = mine ? x.v[(2 * Hk + h) * S + j] : 0.0;
        precise float seen = exp_of(g) * sum;
        precise float d = sigmoid(row_of(a.be, int64_t(t) * a.be_rs).v[h]) * (value - seen);
        advance(d, g);
        float o = 0.0;
        [[unroll]] for (int i = 0; i < S; i++) o = fma(z[i], query[i], o);
        if (mine) row_of(a.o, int64_t(t) * a.o_rs + int64_t(h) * a.o_hs).v[j] = o;
        if (sp.tentative == 0) continue;
        if (mine) row_of(a.j_d, ((rows + r) * Hv + h) * S).v[j] = d;
        if (gl_WorkGroupID.z == 0u && me == 0) row_of(a.j_g, (rows + r) * Hv).v[h] = g;
        if (gl_WorkGroupID.z == 0u && h < Hk)
            for (int i = me; i < S; i += WG) row_of(a.j_k, ((rows + r) * Hk + kh) * S).v[i] = key[i];
    }
    if (sp.tentative == 0 && mine)
        [[unroll]] for (int i = 0; i < S; i++) stored.v[i * S + j] = z[i];
}
