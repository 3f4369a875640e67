/* Norms of the heads of a row; a workgroup has a head. Its size depends on the width alone. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(constant_id = 0) const int OP = 0;
layout(constant_id = 1) const int WG = 64;
layout(constant_id = 2) const int K = 1; /* experts of a row (SUM) */
layout(local_size_x_id = 1) in;
#include "reduce.glsl"
/* The order of ft_vk_norm in vulkan.h. */
const int RMS = 0, ROPE = 1, GATED = 2, NORM_ADD = 3, LAYER = 4, SUM = 5;
layout(push_constant, scalar) uniform Push {
    Mat y, x, z; /* z: the gate, cos and sin, or the results of experts */
    ADDRESS w, b;
    float eps, scale;
    int acc; /* SUM: x += */
} a;

/* Values that an invocation loads at once: own, own + WG, ... */
const int BATCH = 8;

void load(F32 p, int first, int n, out float v[BATCH])
{
    [[unroll]] for (int j = 0; j < BATCH; j++) {
        const int i = first + j * WG + int(gl_LocalInvocationIndex);
        v[j] = i < n ? p.v[i] : 0.0;
    }
}

float squares(float v[BATCH], float sum)
{
    [[unroll]] for (int j = 0; j < BATCH; j++) sum = fma(v[j], v[j], sum);
    return sum;
}

/* Values of a row of x: the results of its K experts, weighted by b, as each.comp adds them. */
void sum_experts(F32 x, int t, int first, int n, out float v[BATCH])
{
    F32 w = F32(a.b + 4ul * uint64_t(t * K));
    float more[BATCH];
    [[unroll]] for (int j = 0; j < BATCH; j++) v[j] = 0.0;
    if (a.acc != 0) load(x, first, n, v);
    [[unroll]] for (int k = 0; k < K; k++) {
        load(head(a.z, t * K + k, 0), first, n, more);
        [[unroll]] for (int j = 0; j < BATCH; j++) v[j] = fma(w.v[k], more[j], v[j]);
    }
    [[unroll]] for (int j = 0; j < BATCH; j++) {
        const int i = first + j * WG + int(gl_LocalInvocationIndex);
        if (i < n) x.v[i] = v[j];
    }
}

void load_row(F32 x, int t, int first, int n, out float v[BATCH])
{
    if (OP == SUM)
        sum_experts(x, t, first, n, v);
    else
        load(x, first, n, v);
}

/* own: the first values of the row, loaded before. */
float inv_rms(F32 x, int t, int n, float own[BATCH])
{
    float sum = squares(own, 0.0), more[BATCH];
    for (int first = BATCH * WG; first < n; first += BATCH * WG) {
        load_row(x, t, first, n, more);
        sum = squares(more, sum);
    }
    return 1.0 / sqrt(wg_sum(sum) / float(n) + a.eps);
}

float weight(int i)
{
    return a.w != 0ul ? F32(a.w).v[i] : 1.0;
}

void load_gain(int first, int n, out float v[BATCH])
{
    [[unroll]] for (int j = 0; j < BATCH; j++) v[j] = 1.0;
    if (a.w != 0ul) load(F32(a.w), first, n, v);
}

void rope(F32 x, int n, int t)
{
    float own[BATCH];
    load(x, 0, n, own);
    const float r = a.eps < 0.0 ? 1.0 : inv_rms(x, t, n, own);
    const int rot = cols(a.z), half_n = rot / 2;
    F32 cs = head(a.z, t, 0);
    for (int i = int(gl_LocalInvocationIndex); i < n; i += WG) {
        if (i >= half_n && i < rot) continue;
        precise float p = x.v[i] * r * weight(i);
        if (i < half_n) {
            precise float q = x.v[i + half_n] * r * weight(i + half_n);
            precise float u = p * cs.v[i] - q * cs.v[i + half_n];
            q = q * cs.v[i] + p * cs.v[i + half_n];
            x.v[i + half_n] = q;
            p = u;
        }
        x.v[i] = p;
    }
}

void layer(F32 y, F32 x, int n)
{
    float sum = 0.0, squares = 0.0;
    for (int i = int(gl_LocalInvocationIndex); i < n; i += WG) sum += x.v[i];
    const float mean = wg_sum(sum) / float(n);
    for (int i = int(gl_LocalInvocationIndex); i < n; i += WG)
        squares = fma(x.v[i] - mean, x.v[i] - mean, squares);
    const float r = 1.0 / sqrt(wg_sum(squares) / float(n) + a.eps);
    for (int i = int(gl_LocalInvocationIndex); i < n; i += WG) {
        precise float v = (x.v[i] - mean) * r * F32(a.w).v[i] + F32(a.b).v[i];
        y.v[i] = v;
    }
}

void main()
{
    const int t = int(gl_WorkGroupID.y), h = int(gl_WorkGroupID.x), n = a.x.d;
    F32 x = head(a.x, t, h), y = head(a.y, t, h);
    if (OP == ROPE) {
        rope(x, n, t);
        return;
    }
    if (OP == LAYER) {
        layer(y, x, n);
        return;
    }
    float own[BATCH], gain[BATCH], gate[BATCH];
    load_gain(0, n, gain);
    load_row(x, t, 0, n, own);
    if (OP == GATED) load(head(a.z, t, h), 0, n, gate);
    const float r = inv_rms(x, t, n, own);
    for (int first = 0; first < n; first += BATCH * WG) {
        if (first > 0) {
            load(x, first, n, own);
            load_gain(first, n, gain);
            if (OP == GATED) load(head(a.z, t, h), first, n, gate);
        }
        [[unroll]] for (int j = 0; j < BATCH; j++) {
            const int i = first + j * WG + int(gl_LocalInvocationIndex);
            if (i >= n) continue;
            precise float v = own[j] * r * gain[j];
            if (OP == GATED) y.v[i] = v * act_of(gate[j], SILU);
            if (OP == NORM_ADD) {
                v = (y.v[i] + v) * a.scale;
                y.v[i] = v;
            }
            if (OP == RMS || OP == SUM) y.v[i] = v;
        }
    }
}
