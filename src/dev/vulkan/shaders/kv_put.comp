/* Stores keys and values in the KV cache, byte for byte as quant/ encodes them: sums that decide
 * about a byte run over ascending indices, and nothing is fused. A workgroup has a row of a head;
 * an invocation encodes a block of 32, and all of them a group of a turbo row. Keys can be normed
 * and rotated here first (ROPE), in place. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "exact.glsl"
#include "kv.glsl"
layout(constant_id = 0) const int KT = 0;
layout(constant_id = 1) const int VT = 0;
layout(constant_id = 2) const int D = 128;
layout(constant_id = 3) const bool ROPE = false;
layout(constant_id = 4) const float EPS = 0.0; /* of the norm; negative: none */
const int WG = 128, MOST_D = 1024;
layout(local_size_x = 128) in;
#include "hadamard.glsl"
#include "reduce.glsl"
layout(push_constant, scalar) uniform Push {
    Mat k, v;
    ADDRESS k_to, v_to, mean, batch;
    ADDRESS cs, w; /* ROPE: cos and sin of each row, and the weights of the norm or 0 */
    uint k_page, v_page, k_row, v_row;
    int space, cs_rs, rot; /* rot: how many values of a key are rotated */
} a;

shared float x[MOST_D], group_v[128], square[128];
shared int code[128];
shared float shared_sum;

float finite_or_zero(float y)
{
    return is_finite(y) ? y : 0.0;
}

void put_byte(ADDRESS to, int i, uint y)
{
    U8(to).v[i] = uint8_t(y);
}

/* Stores the nearest f16 and returns the value that decoding gives. */
float put_half(ADDRESS to, int i, float y)
{
    const uint h = half_of(y);
    U16(to + i).v[0] = uint16_t(h);
    return half_value(h);
}

uint bf16_of(float y)
{
    const uint u = floatBitsToUint(y), top = u & 0x7fffffffu;
    if (top >= 0x7f800000u) return 0u;
    if (top >= 0x7f7f8000u) return u >> 31 << 15 | 0x7f7fu;
    return u + 0x7fffu + (u >> 16 & 1u) >> 16;
}

/* The low eight bits of the integer nearest to y in [lo, hi]. */
uint whole_of(float y, float lo, float hi)
{
    y = y > lo ? y : lo;
    y = y < hi ? y : hi;
    precise float at = y + 12582912.0;
    return floatBitsToUint(at) & 255u;
}

float ratio(float p, float q)
{
    return q != 0.0 ? div_rn(p, q) : 0.0;
}

/* ---- blocks of 32 ---- */

/* Values are scaled into [1, 2) by a power of two, which changes no byte and keeps sums in range. */
int block_from;
float block_mul, block_unit;

float value_of(int i)
{
    precise float y = finite_or_zero(x[block_from + i]) * block_mul;
    return y;
}

uint block_top()
{
    uint top = 0u;
    for (int i = 0; i < 32; i++)
        top = max(top, floatBitsToUint(finite_or_zero(x[block_from + i])) & 0x7fffffffu);
    return top;
}

void block_open(int from)
{
    block_from = from;
    const uint e = min(block_top() >> 23, 253u);
    block_mul = e != 0u ? uintBitsToFloat(254u - e << 23) : 0.0;
    block_unit = e != 0u ? uintBitsToFloat(e << 23) : 1.0;
}

/* Stores a scale or minimum of the block, and returns what decoding gives. */
float put_number(ADDRESS to, int i, float y)
{
    precise float at = y * block_unit;
    precise float seen = put_half(to, i, at) * block_mul; /* the inverse of a power of two */
    return block_mul != 0.0 ? seen : put_half(to, i, at);
}

void bounds(out float low, out float high)
{
    low = high = value_of(0);
    for (int i = 1; i < 32; i++) {
        const float y = value_of(i);
        low = low < y ? low : y;
        high = high > y ? high : y;
    }
}

float extreme()
{
    float low, high;
    bounds(low, high);
    return -low > high ? low : high;
}

float nearest_whole(float y)
{
    precise float at = y + 12582912.0;
    precise float r = at - 12582912.0;
    return r;
}

/* Codes of four or five bits: the integers nearest to x * mul + add. */
void put_codes(ADDRESS to, float mul, float add, bool five)
{
    uint fifth = 0u;
    const int codes = five ? 4 : 0;
    const float most = five ? 31.0 : 15.0;
    for (int i = 0; i < 16; i++) {
        precise float p = value_of(i) * mul, q = value_of(i + 16) * mul;
        p = p + add;
        q = q + add;
        const uint low = whole_of(p, 0.0, most), high = whole_of(q, 0.0, most);
        put_byte(to, codes + i, (low & 15u) | (high & 15u) << 4);
        fifth |= low >> 4 << i | high >> 4 << i + 16;
    }
    if (!five) return;
    U16(to).v[0] = uint16_t(fifth & 0xffffu);
    U16(to).v[1] = uint16_t(fifth >> 16);
}

void put_q8_0(ADDRESS to, int from)
{
    block_from = from;
    const float scale = div_rn(uintBitsToFloat(block_top()), 127.0);
    const float inverse = ratio(1.0, put_half(to, 0, scale));
    for (int i = 0; i < 32; i++) {
        precise float y = finite_or_zero(x[from + i]) * inverse;
        put_byte(to, 2 + i, whole_of(y, -127.0, 127.0));
    }
}

/* Q4_0 and Q5_0: the scale with the least squared error after one rounding. */
void put_scaled_block(ADDRESS to, int from, bool five)
{
    block_open(from);
    const float most = five ? 15.0 : 7.0, spacing = ratio(five ? -16.1 : -8.15, extreme());
    precise float xq = 0.0, qq = 0.0;
    for (int i = 0; i < 32; i++) {
        const float y = value_of(i);
        precise float at = y * spacing;
        float q = nearest_whole(at);
        q = q < most ? q : most;
        precise float p1 = q * y, p2 = q * q;
        xq = xq + p1;
        qq = qq + p2;
    }
    const float inverse = ratio(1.0, put_number(to, 0, ratio(xq, qq)));
    put_codes(to + 2, inverse, five ? 16.0 : 8.0, five);
}

/* Q4_1 and Q5_1: the line with the least squared error after one rounding, or a constant. */
void put_line_block(ADDRESS to, int from, bool five)
{
    block_open(from);
    const float most = five ? 31.0 : 15.0, cut = five ? 0.006 : 0.02, n = 32.0;
    precise float inner = 1.0 - cut;
    inner = inner - cut;
    float low, high;
    bounds(low, high);
    precise float range = high - low, margin = range * cut, start = low + margin;
    precise float wide = range * inner;
    const float spacing = ratio(most, wide);
    precise float sx = 0.0, sq = 0.0, qq = 0.0, xq = 0.0;
    for (int i = 0; i < 32; i++) {
        const float y = value_of(i);
        precise float off = y - start, at = off * spacing;
        float q = nearest_whole(at);
        q = q > 0.0 ? q : 0.0;
        q = q < most ? q : most;
        precise float p1 = q * q, p2 = q * y;
        sx = sx + y;
        sq = sq + q;
        qq = qq + p1;
        xq = xq + p2;
    }
    precise float a1 = n * xq, a2 = sx * sq, a3 = n * qq, a4 = sq * sq;
    precise float above = a1 - a2, below = a3 - a4;
    float scale = ratio(above, below);
    precise float b1 = scale * sq, b2 = sx - b1;
    float low_at = div_rn(b2, n);
    const float mean = div_rn(sx, n);
    precise float twice = 2.0 * sx, c1 = mean * n, c2 = twice - c1, flat_gain = c2 * mean;
    precise float d1 = low_at * sq, d2 = xq - d1, d3 = 2.0 * d2, d4 = scale * qq, slope = d3 - d4;
    precise float e1 = low_at * n, e2 = twice - e1, e3 = low_at * e2, e4 = scale * slope;
    precise float gain = e4 + e3;
    if (!(gain > flat_gain && scale > 0.0)) scale = 0.0, low_at = mean;
    const float inverse = ratio(1.0, put_number(to, 0, scale));
    precise float add = -put_number(to, 2, low_at) * inverse;
    put_codes(to + 4, inverse, add, five);
}

/* Between neighbouring steps of IQ4_NL: a value above is nearer to the upper one. And how far apart
 * they are. */
const float step_limit[15] = float[](-115.5, -93.5, -74.0, -57.0, -42.0, -28.5, -16.0, -4.5, 7.0,
                                     19.0, 31.5, 45.5, 61.0, 79.0, 101.0);
const float step_rise[15] = float[](23.0, 21.0, 18.0, 16.0, 14.0, 13.0, 12.0, 11.0, 12.0, 12.0,
                                    13.0, 15.0, 16.0, 20.0, 24.0);

/* IQ4_NL: of several scales the one with the least squared error. */
void put_steps_block(ADDRESS to, int from)
{
    const float trial[6] = float[](-127.0, -119.0, -110.0, -136.0, 113.0, 122.0);
    block_open(from);
    const float inverse = ratio(1.0, extreme());
    float scale = 0.0, best = 0.0;
    for (int t = 0; t <= 6; t++) {
        precise float tried = t < 6 ? inverse * trial[t] : 0.0;
        const float spacing = t < 6 ? tried : ratio(1.0, scale);
        precise float xq = 0.0, qq = 0.0;
        for (int i = 0; i < 32; i++) {
            const float y = value_of(i);
            precise float at = y * spacing;
            float q = -127.0;
            for (int j = 0; j < 15; j++) q += at > step_limit[j] ? step_rise[j] : 0.0;
            precise float p1 = q * y, p2 = q * q;
            xq = xq + p1;
            qq = qq + p2;
        }
        const float s = ratio(xq, qq);
        precise float gain = s * xq;
        if (gain > best) best = gain, scale = s;
    }
    const float spacing = ratio(1.0, put_number(to, 0, scale));
    for (int i = 0; i < 16; i++) {
        precise float low = value_of(i) * spacing, high = value_of(i + 16) * spacing;
        uint c = 0u;
        for (int j = 0; j < 15; j++)
            c += (low > step_limit[j] ? 1u : 0u) + (high > step_limit[j] ? 16u : 0u);
        put_byte(to, 2 + i, c);
    }
}

void put_block(int type, ADDRESS row, int i)
{
    switch (type) {
    case KV_Q8_0: put_q8_0(row + 34 * i, 32 * i); break;
    case KV_Q4_0: put_scaled_block(row + 18 * i, 32 * i, false); break;
    case KV_Q5_0: put_scaled_block(row + 22 * i, 32 * i, true); break;
    case KV_Q4_1: put_line_block(row + 20 * i, 32 * i, false); break;
    case KV_Q5_1: put_line_block(row + 24 * i, 32 * i, true); break;
    default: put_steps_block(row + 18 * i, 32 * i);
    }
}

/* ---- turbo rows ---- */

const float turbo2_limit[2] = float[](0.0, 0.086728);
const float turbo3_limit[4] = float[](0.0, 0.043589, 0.091775, 0.154259);
const float turbo4_limit[8] = float[](0.0, 0.022824, 0.046174, 0.070671, 0.097164, 0.127026,
                                      0.162947, 0.212203);
const float legacy_limit[8] = float[](0.0, 0.013963, 0.028293, 0.043430, 0.060009, 0.079142,
                                      0.103361, 0.145560);

float turbo_limit(int type, int j)
{
    switch (type) {
    case KV_TURBO2: return turbo2_limit[j];
    case KV_TURBO3: return turbo3_limit[j];
    case KV_TURBO4: return turbo4_limit[j];
    default: return legacy_limit[j];
    }
}

int nearest_code(int type, float y)
{
    const int half_n = 1 << turbo_bits(type) - 1;
    int c = y >= 0.0 ? half_n : half_n - 1;
    for (int j = 1; j < half_n; j++) {
        const float limit = turbo_limit(type, j);
        c += (y >= limit ? 1 : 0) - (y < -limit ? 1 : 0);
    }
    return c;
}

uint code_byte(int bits, int n, int i)
{
    if (bits == 4) return uint(code[2 * i] | code[2 * i + 1] << 4);
    if (i < n / 4)
        return uint((code[4 * i] & 3) | (code[4 * i + 1] & 3) << 2 | (code[4 * i + 2] & 3) << 4 |
                    (code[4 * i + 3] & 3) << 6);
    uint third = 0u; /* the third bits follow all pairs */
    for (int j = 0; j < 8; j++) third |= uint(code[8 * (i - n / 4) + j] >> 2) << j;
    return third;
}

/* The sum of n squares in their order. */
float ordered_sum(int n)
{
    barrier();
    if (gl_LocalInvocationIndex == 0u) {
        precise float sum = 0.0;
        for (int i = 0; i < n; i++) sum = sum + square[i];
        shared_sum = sum;
    }
    barrier();
    return shared_sum;
}

void put_group(int type, ADDRESS to, int from)
{
    const int me = int(gl_LocalInvocationIndex), n = turbo_group(D), bits = turbo_bits(type);
    const int h = turbo_head(type);
    float y = 0.0;
    if (me < n) {
        y = clamp(finite_or_zero(x[from + me]), -1e9, 1e9);
        precise float s = y * y;
        square[me] = s;
    }
    const float norm = sqrt_rn(ordered_sum(n)), inverse = norm > 1e-10 ? div_rn(1.0, norm) : 0.0;
    precise float unit = y * inverse;
    if (me < n) group_v[me] = unit;
    HADAMARD(group_v, n, n, turbo_before, turbo_after, 0.08838834764831845)
    if (me < n) {
        code[me] = nearest_code(type, group_v[me]);
        const float c = turbo_value(type, code[me]);
        precise float s = c * c;
        square[me] = s;
    }
    const float size = ordered_sum(n);
    if (me == 0) put_half(to, 0, div_rn(norm, sqrt_rn(size)));
    if (me == 0 && h == 4) U16(to + 2).v[0] = uint16_t(0u);
    for (int i = me; i < n * bits / 8; i += WG) put_byte(to, h + i, code_byte(bits, n, i));
    barrier();
}

void put_row(int type, ADDRESS row)
{
    const int me = int(gl_LocalInvocationIndex);
    if (is_turbo(type)) {
        const int n = turbo_group(D), bytes = turbo_head(type) + n * turbo_bits(type) / 8;
        for (int i = 0; i < row_width(type, D) / n; i++) put_group(type, row + i * bytes, i * n);
        return;
    }
    if (type <= KV_BF16) {
        for (int i = me; i < D; i += WG) {
            if (type == KV_F32)
                F32(row).v[i] = finite_or_zero(x[i]);
            else if (type == KV_F16)
                put_half(row, 2 * i, finite_or_zero(x[i]));
            else
                U16(row).v[i] = uint16_t(bf16_of(x[i]));
        }
        return;
    }
    for (int i = me; i < D / 32; i += WG) put_block(type, row, i);
}

float gain(int i)
{
    return a.w != 0ul ? F32(a.w).v[i] : 1.0;
}

/* The key in x, normed and rotated with the operations of norm.comp, which has 64 invocations. */
void rotate_key(int t)
{
    const int me = int(gl_LocalInvocationIndex), half_n = a.rot / 2;
    F32 cs = F32(a.cs + 4ul * uint64_t(int64_t(t) * a.cs_rs));
    float r = 1.0, sum = 0.0;
    if (EPS >= 0.0) {
        for (int i = me; me < 64 && i < D; i += 64) sum = fma(x[i], x[i], sum);
        r = 1.0 / sqrt(wg_sum(sum) / float(a.k.d) + EPS);
    }
    for (int i = me; i < D; i += WG) {
        if (i >= half_n && i < a.rot) continue;
        precise float p = x[i] * r * gain(i);
        if (i < half_n) {
            precise float q = x[i + half_n] * r * gain(i + half_n);
            precise float u = p * cs.v[i] - q * cs.v[i + half_n];
            q = q * cs.v[i] + p * cs.v[i + half_n];
            x[i + half_n] = q;
            p = u;
        }
        x[i] = p;
    }
    barrier();
}

void main()
{
    const int t = int(gl_WorkGroupID.y), g = int(gl_WorkGroupID.x) / 2;
    const bool values = gl_WorkGroupID.x % 2u != 0u;
    Batch b = Batch(a.batch);
    const int cell = I32(b.cell).v[t], slot = slot_of(b, t);
    const int page = I32(b.page[a.space]).v[slot * b.pages_per_seq + cell / 64];
    const uint row = uint(g * 64 + cell % 64);
    F32 from = values ? head(a.v, t, g) : head(a.k, t, g);
    const int me = int(gl_LocalInvocationIndex);
    for (int i = me; i < (D + 63) / 64 * 64; i += WG) x[i] = i < D ? from.v[i] : 0.0;
    barrier();
    if (ROPE && !values) {
        rotate_key(t);
        for (int i = me; i < D; i += WG) from.v[i] = x[i];
    }
    if (!values && a.mean != 0ul) {
        for (int i = me; i < D; i += WG) {
            precise float y = x[i] - F32(a.mean).v[g * D + i];
            x[i] = y;
        }
    }
    barrier();
    if (values)
        put_row(VT, a.v_to + uint64_t(page) * uint64_t(a.v_page) + uint64_t(row * a.v_row));
    else
        put_row(KT, a.k_to + uint64_t(page) * uint64_t(a.k_page) + uint64_t(row * a.k_row));
}
