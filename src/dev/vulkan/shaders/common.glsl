/* common.glsl - what every shader includes: memory by address, the batch, mathematics.
 * Sums that decide about a result are written with fma or marked precise, so that a driver cannot
 * round them differently in two pipelines. Functions such as exp are written out: Vulkan allows
 * errors of the built-in ones that are too large, and drivers differ. */
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

#define ADDRESS uint64_t

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer F32 { float v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer V4 { vec4 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer I32 { int v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer U32 { uint v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer U64 { uint64_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer U16 { uint16_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 1) buffer U8 { uint8_t v[]; };

/* ft_mat of dev/tensor.h; the rows are in the grid. */
struct Mat {
    ADDRESS p;
    int rs, hs, d, H;
};

F32 head(Mat m, int t, int h)
{
    return F32(m.p + 4ul * uint64_t(int64_t(t) * m.rs + int64_t(h) * m.hs));
}

float get(Mat m, int t, int c)
{
    return head(m, t, c / m.d).v[c % m.d];
}

void put(Mat m, int t, int c, float x)
{
    head(m, t, c / m.d).v[c % m.d] = x;
}

int cols(Mat m)
{
    return m.H * m.d;
}

/* ft_span and ft_batch of dev/batch.h, arrays by address (0: none). */
struct Span {
    int slot, row, n, start, replay, plane, tentative, serial;
};

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Spans { Span v[]; };

layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Batch {
    int T, S, n_out, pages_per_seq;
    ADDRESS token, drawn, pos[3], cell, end, span_of, out_row, src_row, dst_row, image_row, ahead,
        span, page[2], draw, draw_words;
};

int slot_of(Batch b, int row)
{
    return Spans(b.span).v[I32(b.span_of).v[row]].slot;
}

/* ---- mathematics ---- */

#define INF uintBitsToFloat(0x7f800000u)

bool is_finite(float x)
{
    return (floatBitsToUint(x) & 0x7f800000u) != 0x7f800000u;
}

/* e^x, relative error below 2e-7; 0 below -87. */
float exp_of(float x)
{
    if (!(x > -87.0)) return x < 0.0 ? 0.0 : x; /* a NaN stays one */
    x = min(x, 88.7);
    const float n = roundEven(x * 1.44269504);
    precise float r = fma(n, -0.693145752, x);
    r = fma(n, -1.42860677e-6, r);
    float y = fma(1.98412698e-4, r, 1.38888889e-3);
    y = fma(y, r, 8.33333333e-3);
    y = fma(y, r, 4.16666667e-2);
    y = fma(y, r, 1.66666667e-1);
    y = fma(y, r, 0.5);
    y = fma(y, r, 1.0);
    y = fma(y, r, 1.0);
    const int e = int(n);
    return y * uintBitsToFloat(uint(e / 2 + 127) << 23) *
           uintBitsToFloat(uint(e - e / 2 + 127) << 23);
}

/* Natural logarithm of a normal number. */
float log_of(float x)
{
    const uint u = floatBitsToUint(x);
    int e = int(u >> 23) - 127;
    float m = uintBitsToFloat((u & 0x7fffffu) | 0x3f800000u);
    if (m > 1.41421356) m *= 0.5, e++;
    const float s = (m - 1.0) / (m + 1.0), q = s * s;
    float p = fma(q, 0.22222222, 0.28571429); /* 2 (s + s^3 / 3 + s^5 / 5 + ...) */
    p = fma(p, q, 0.4);
    p = fma(p, q, 0.66666667);
    const float y = fma(p * q, s, 2.0 * s);
    return fma(float(e), 0.693145752, fma(float(e), 1.42860677e-6, y));
}

float softplus(float x)
{
    if (x > 20.0) return x;
    const float e = exp_of(x);
    if (e < 0.02) return e * fma(e, fma(e, fma(e, -0.25, 0.33333333), -0.5), 1.0);
    return log_of(1.0 + e);
}

float sigmoid(float x)
{
    return 1.0 / (1.0 + exp_of(-x));
}

float tanh_of(float x)
{
    const float a = abs(x), q = x * x;
    if (a < 0.35) {
        float p = fma(q, -8.8632355e-3, 2.18694885e-2);
        p = fma(p, q, -5.39682540e-2);
        p = fma(p, q, 1.33333333e-1);
        p = fma(p, q, -3.33333333e-1);
        return fma(p * q, x, x);
    }
    const float y = 1.0 - 2.0 / (exp_of(2.0 * min(a, 20.0)) + 1.0);
    return x < 0.0 ? -y : y;
}

/* 1 + erf(x): the series of erf near zero, a continued fraction of erfc in the tails. */
float erf_plus_one(float x)
{
    const float a = abs(x);
    if (a < 1.0) {
        const float q = x * x;
        float p = fma(q, 1.0 / 75600.0, -1.0 / 9360.0);
        p = fma(p, q, 1.0 / 1320.0);
        p = fma(p, q, -1.0 / 216.0);
        p = fma(p, q, 1.0 / 42.0);
        p = fma(p, q, -0.1);
        p = fma(p, q, 0.33333333);
        p = fma(-p, q, 1.0);
        return fma(1.12837917 * x, p, 1.0);
    }
    if (a > 9.0) return x < 0.0 ? 0.0 : 2.0;
    float f = a; /* erfc(a) = exp(-a^2) / sqrt(pi) / (a + 1/2 / (a + 1 / (a + 3/2 / (a + ...)))) */
    for (int i = 40; i > 0; i--) f = a + 0.5 * float(i) / f;
    const float tail = exp_of(-a * a) * 0.564189584 / f;
    return x < 0.0 ? tail : 2.0 - tail;
}

const int SILU = 0, GELU = 1, GELU_ERF = 2, ACT_NONE = 3; /* ft_act */

float act_of(float x, int act)
{
    if (act == SILU) return x * sigmoid(x);
    if (act == GELU) return x * sigmoid(1.5957691216 * x * fma(0.044715 * x, x, 1.0));
    if (act == GELU_ERF) return 0.5 * x * erf_plus_one(x * 0.70710678);
    return x;
}

/* The finite f16 nearest to x, ties to even. */
uint half_of(float x)
{
    const uint u = floatBitsToUint(clamp(x, -65504.0, 65504.0)), sign = u >> 16 & 0x8000u;
    const uint a = u & 0x7fffffffu;
    if (a < 0x38800000u) /* below 2^-14: units of 2^-24 */
        return sign | uint(int(roundEven(uintBitsToFloat(a) * 16777216.0)));
    return sign | (a + 0xfffu + (a >> 13 & 1u)) - 0x38000000u >> 13;
}

float half_value(uint h)
{
    return unpackHalf2x16(h & 0xffffu).x;
}
