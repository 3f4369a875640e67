/* Packs Q6_K and Q8_0 for coop_weights.glsl: rows of blocks at multiples of 16 bytes. Q6_K: codes
 * of both halves, the bits above them, scales times d; Q8_0: scales, codes. An invocation packs a
 * block of 256 columns. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(constant_id = 0) const int TYPE = 14;
const int Q8_0 = 8, Q6_K = 14;
layout(local_size_x = 64) in;
layout(push_constant, scalar) uniform Push {
    ADDRESS from, to;
    int blocks; /* of a row */
    int rows;
    uint row_bytes; /* of the file */
} a;

uint byte_at(ADDRESS p, int i)
{
    return uint(U8(p).v[i]);
}

float half_at(ADDRESS p)
{
    return half_value(uint(U16(p).v[0]));
}

/* The first of the 16 columns that lane t has of half h. */
int column(int h, int t)
{
    return 128 * h + 64 * (t / 2) + 16 * (t % 2);
}

uint code_q6_k(ADDRESS s, int c)
{
    const int h = c / 128, g = c % 128 / 32, l = c % 32;
    return (byte_at(s, 64 * h + 32 * (g % 2) + l) >> 4 * (g / 2) & 15u) |
           (byte_at(s, 128 + 32 * h + l) >> 2 * g & 3u) << 4;
}

void pack_q6_k(ADDRESS s, U8 to)
{
    for (int i = 0; i < 128; i++) {
        const int c = column(i / 64, i % 64 / 16) + i % 16;
        to.v[i] = uint8_t((code_q6_k(s, c) & 15u) | (code_q6_k(s, c + 32) & 15u) << 4);
    }
    for (int i = 0; i < 64; i++) {
        uint v = 0u;
        for (int j = 0; j < 4; j++)
            v |= code_q6_k(s, column(j / 2, i / 16) + 32 * (j % 2) + i % 16) >> 4 << 2 * j;
        to.v[128 + i] = uint8_t(v);
    }
    const float d = half_at(s + 208);
    U16 scale = U16(uint64_t(to) + 192);
    for (int i = 0; i < 16; i++) {
        const int c = column(i % 4 / 2, i / 4) + 32 * (i % 2);
        const int sc = int(byte_at(s, 192 + c / 16)) << 24 >> 24;
        scale.v[i] = uint16_t(half_of(d * float(sc)));
    }
}

void pack_q8_0(ADDRESS s, U8 to)
{
    U16 scale = U16(uint64_t(to));
    for (int i = 0; i < 8; i++)
        scale.v[i] = U16(s + 34 * (4 * (i % 4 / 2) + 2 * (i / 4) + i % 2)).v[0];
    for (int i = 0; i < 256; i++) {
        const int c = column(i / 128, i % 128 / 32) + 32 * (i % 32 / 16) + i % 16;
        to.v[16 + i] = uint8_t(byte_at(s, 34 * (c / 32) + 2 + c % 32));
    }
}

void main()
{
    const int b = int(gl_WorkGroupID.x * 64u + gl_LocalInvocationIndex);
    const int row = int(gl_WorkGroupID.y + gl_WorkGroupID.z * gl_NumWorkGroups.y);
    if (b >= a.blocks || row >= a.rows) return;
    const ADDRESS s = a.from + uint64_t(row) * uint64_t(a.row_bytes);
    const uint64_t at = uint64_t(row) * uint64_t(a.blocks) + uint64_t(b);
    if (TYPE == Q6_K)
        pack_q6_k(s + 210 * b, U8(a.to + 224ul * at));
    else
        pack_q8_0(s + 272 * b, U8(a.to + 272ul * at));
}
