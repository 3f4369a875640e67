/* cos and sin of position times frequency. The frequency is a double; its product with a position
 * needs more bits than a float has, and doubles are not everywhere, so that angles are counted in
 * turns of 2^64 units, whose overflow is the reduction to one turn. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(local_size_x = 64) in;
layout(push_constant, scalar) uniform Push {
    Mat cs;
    ADDRESS freq, axis, batch;
    float mscale;
} a;

/* Turns per position times 2^64: freq / (2 pi). */
uint64_t turns_of(uint64_t bits)
{
    const int e = int(bits >> 52 & 2047ul);
    if (e == 0) return 0ul;
    const uint64_t m = bits & 0xffffffffffffful | 0x10000000000000ul;
    const uint64_t inverse = 0x28be60db9391054aul; /* 2^64 / (2 pi) */
    /* 117 bits of m * inverse, as two words */
    const uint64_t m0 = m & 0xfffffffful, m1 = m >> 32, i0 = inverse & 0xfffffffful,
                   i1 = inverse >> 32;
    const uint64_t low = m0 * i0, mid = m1 * i0 + (low >> 32), mid2 = m0 * i1 + (mid & 0xfffffffful);
    const uint64_t high = m1 * i1 + (mid >> 32) + (mid2 >> 32);
    const uint64_t lower = mid2 << 32 | low & 0xfffffffful;
    const int shift = 1075 - e; /* m * 2^-shift is the frequency */
    if (shift <= 0) return lower << min(-shift, 63);
    if (shift < 64) return lower >> shift | high << 64 - shift;
    return shift < 128 ? high >> shift - 64 : 0ul;
}

/* sin and cos of an angle in 2^32 units per turn. */
vec2 sin_cos(uint angle)
{
    const uint quarter = angle + 0x20000000u >> 30;
    const float x = float(int(angle - (quarter << 30))) * 1.4629180792671596e-9;
    const float q = x * x;
    float s = fma(q, 2.7557319e-6, -1.9841270e-4);
    s = fma(s, q, 8.3333333e-3);
    s = fma(s, q, -1.6666667e-1);
    s = fma(s * q, x, x);
    float c = fma(q, 2.4801587e-5, -1.3888889e-3);
    c = fma(c, q, 4.1666667e-2);
    c = fma(c, q, -0.5);
    c = fma(c, q, 1.0);
    if (quarter == 0u) return vec2(s, c);
    if (quarter == 1u) return vec2(c, -s);
    return quarter == 2u ? vec2(-s, -c) : vec2(-c, s);
}

void main()
{
    const int t = int(gl_WorkGroupID.y), half_n = cols(a.cs) / 2;
    const int j = int(gl_WorkGroupID.x * 64u + gl_LocalInvocationIndex);
    if (j >= half_n) return;
    Batch b = Batch(a.batch);
    const uint64_t freq = U64(a.freq).v[j];
    const int axis = int(U8(a.axis).v[j]), pos = I32(b.pos[axis]).v[t];
    const uint64_t angle = uint64_t(int64_t(pos)) * turns_of(freq);
    /* the nearest of 2^32 units */
    const vec2 sc = sin_cos(uint(angle + 0x80000000ul >> 32));
    put(a.cs, t, j, sc.y * a.mscale);
    put(a.cs, t, j + half_n, sc.x * a.mscale);
}
