/* Ops that compute every value alone. A workgroup has 256 columns of a row. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(constant_id = 0) const int OP = 0;
layout(constant_id = 1) const int K = 1; /* experts of a row */
layout(local_size_x = 256) in;
/* The order of ft_vk_each in vulkan.h. */
const int ACT_MUL = 0, SIGMOID_MUL = 1, ADD = 2, SOFTCAP = 3, GATHER = 4, SCATTER = 5, AFFINE = 6,
          CLAMP = 7, MIX = 8, IMAGE_ROWS = 9, MINUS_INF = 10, COMBINE = 11;
layout(push_constant, scalar) uniform Push {
    Mat y, x, z;
    ADDRESS p, q;
    float f, g;
    int i, acc;
} a;

/* p: a factor of each row, `acc` values apart, or none. */
float act_mul(int t, int c)
{
    precise float v = act_of(get(a.x, t, c), a.i) * get(a.z, t, c);
    if (a.p != 0ul) v = v * sigmoid(F32(a.p).v[t * a.acc]);
    return v;
}

float affine(int t, int c)
{
    float v = get(a.y, t, c);
    if (a.p != 0ul) v += F32(a.p).v[c];
    if (a.q != 0ul) v *= F32(a.q).v[c];
    return act_of(v, a.i);
}

/* sum over j < i of q[t, j] x[p[t, j]] */
float mix_of(int t, int c)
{
    I32 row = I32(a.p + 4ul * uint64_t(t * a.i));
    F32 w = F32(a.q + 4ul * uint64_t(t * a.i));
    precise float sum = a.acc != 0 ? get(a.y, t, c) : 0.0;
    for (int j = 0; j < a.i; j++) sum = fma(w.v[j], get(a.x, row.v[j], c), sum);
    return sum;
}

/* The results of a row's K experts, weighted by q. */
float combine(int t, int c)
{
    F32 w = F32(a.q + 4ul * uint64_t(t * K));
    precise float sum = a.acc != 0 ? get(a.y, t, c) : 0.0;
    [[unroll]] for (int j = 0; j < K; j++) sum = fma(w.v[j], head(a.x, t * K + j, 0).v[c], sum);
    return sum;
}

void main()
{
    const int t = int(gl_WorkGroupID.y);
    const int c = int(gl_WorkGroupID.x * 256u + gl_LocalInvocationIndex);
    if (c >= cols(a.y)) return;
    switch (OP) {
    case ACT_MUL: put(a.y, t, c, act_mul(t, c)); break;
    case SIGMOID_MUL:
        put(a.y, t, c, get(a.y, t, c) * sigmoid(get(a.x, t, cols(a.x) == 1 ? 0 : c)));
        break;
    case ADD: {
        precise float v = (get(a.y, t, c) + get(a.x, t, c)) * a.f;
        put(a.y, t, c, v);
        break;
    }
    case SOFTCAP: put(a.y, t, c, a.f * tanh_of(get(a.y, t, c) / a.f)); break;
    case GATHER: {
        const ADDRESS rows = a.i == 0 ? Batch(a.q).out_row : Batch(a.q).src_row; /* FT_OUT, FT_SRC */
        put(a.y, t, c, get(a.x, I32(rows).v[t], c));
        break;
    }
    case SCATTER: {
        const int to = I32(Batch(a.q).dst_row).v[t];
        if (to >= 0) put(a.y, to, c, get(a.x, t, c));
        break;
    }
    case AFFINE: put(a.y, t, c, affine(t, c)); break;
    case CLAMP: put(a.y, t, c, min(max(get(a.x, t, c), a.f), a.g)); break;
    case MIX: put(a.y, t, c, mix_of(t, c)); break;
    case IMAGE_ROWS: {
        const int from = I32(Batch(a.q).image_row).v[t];
        if (from >= 0) put(a.y, t, c, get(a.x, from, c));
        break;
    }
    case MINUS_INF: put(a.y, t, c, -INF); break;
    case COMBINE: put(a.y, t, c, combine(t, c)); break;
    }
}
