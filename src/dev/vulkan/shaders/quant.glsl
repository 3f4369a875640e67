/* quant.glsl - decodes eight values of a row in file layout, for every type of quant/. TYPE is a
 * specialisation constant: a pipeline contains the code of one type. Rows are at multiples of their
 * block's alignment; k is a multiple of eight, except for rows of plain numbers. */
layout(constant_id = 0) const int TYPE = 0;

/* The numbers of base/type.h. */
const int F32_T = 0, F16_T = 1, Q4_0 = 2, Q4_1 = 3, Q5_0 = 6, Q5_1 = 7, Q8_0 = 8, Q2_K = 10,
          Q3_K = 11, Q4_K = 12, Q5_K = 13, Q6_K = 14, IQ2_XXS = 16, IQ2_XS = 17, IQ3_XXS = 18,
          IQ1_S = 19, IQ4_NL = 20, IQ3_S = 21, IQ2_S = 22, IQ4_XS = 23, I16_T = 25, F64_T = 28,
          IQ1_M = 29, BF16_T = 30, TQ1_0 = 34, TQ2_0 = 35, MXFP4 = 39, NVFP4 = 40, Q1_0 = 41,
          Q2_0 = 42, TQ3_1S = 45, TQ4_1S = 46, Q2_0_FORK = 47;

/* The tables of quant/grids.h, one behind the other. */
const int GRID_IQ2XXS = 0, GRID_IQ2XS = 256, GRID_IQ2S = 768, GRID_IQ3XXS = 1792, GRID_IQ3S = 2048,
          GRID_IQ1S = 2560;

float v[8]; /* the result */

uint rd8(ADDRESS p, int i)
{
    return uint(U8(p).v[i]);
}

uint rd16(ADDRESS p, int i)
{
    return rd8(p, i) | rd8(p, i + 1) << 8;
}

uint rd32(ADDRESS p, int i)
{
    return rd16(p, i) | rd16(p, i + 2) << 16;
}

/* A half at an even address. */
float rd_half(ADDRESS p, int i)
{
    return half_value(uint(U16(p + i).v[0]));
}

/* Four bytes at an even address. */
uint rd_pair(ADDRESS p, int i)
{
    U16 u = U16(p + i);
    return uint(u.v[0]) | uint(u.v[1]) << 16;
}

const float iq4_values[16] = float[](-127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0,
                                     13.0, 25.0, 38.0, 53.0, 69.0, 89.0, 113.0);
const float fp4_values[16] = float[](0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, -0.0, -1.0, -2.0,
                                     -3.0, -4.0, -6.0, -8.0, -12.0);

float half_e8m0(uint e)
{
    return uintBitsToFloat(e < 2u ? 0x00200000u << e : (e - 1u) << 23);
}

float half_ue4m3(uint b)
{
    const uint e = b >> 3 & 15u, m = b & 7u;
    if (b == 0u || b == 0x7fu) return 0.0;
    if (e == 0u) return float(m) * 0.0009765625;
    return uintBitsToFloat((e + 119u) << 23 | m << 20);
}

uint even_signs(uint x)
{
    x &= 127u;
    return x | (uint(bitCount(x)) & 1u) << 7;
}

/* Eight nibbles: those of a word's bytes, the lower or the upper ones, of two words. */
void nibbles(uint a, uint b, int up, float scale, float add)
{
    [[unroll]] for (int j = 0; j < 4; j++) {
        v[j] = fma(float(a >> 8 * j + up & 15u), scale, add);
        v[4 + j] = fma(float(b >> 8 * j + up & 15u), scale, add);
    }
}

/* ---- 32 values and one scale ---- */

void decode_q4(ADDRESS row, int k)
{
    const int i = k % 32, at = i % 16, up = 4 * (i / 16), size = TYPE == Q4_1 ? 20 : 18;
    const ADDRESS s = row + size * (k / 32);
    const int codes = TYPE == Q4_1 ? 4 : 2;
    const float d = rd_half(s, 0);
    const uint a = rd_pair(s, codes + at), b = rd_pair(s, codes + at + 4);
    if (TYPE == IQ4_NL) {
        [[unroll]] for (int j = 0; j < 4; j++) {
            v[j] = d * iq4_values[a >> 8 * j + up & 15u];
            v[4 + j] = d * iq4_values[b >> 8 * j + up & 15u];
        }
        return;
    }
    nibbles(a, b, up, d, TYPE == Q4_1 ? rd_half(s, 2) : -8.0 * d);
}

void decode_q5(ADDRESS row, int k)
{
    const int i = k % 32, at = i % 16, up = 4 * (i / 16), size = TYPE == Q5_1 ? 24 : 22;
    const ADDRESS s = row + size * (k / 32);
    const int fifth = TYPE == Q5_1 ? 4 : 2;
    const float d = rd_half(s, 0), m = TYPE == Q5_1 ? rd_half(s, 2) : -16.0 * d;
    const uint high = rd_pair(s, fifth) >> i;
    const uint a = rd_pair(s, fifth + 4 + at), b = rd_pair(s, fifth + 8 + at);
    [[unroll]] for (int j = 0; j < 4; j++) {
        v[j] = fma(float((a >> 8 * j + up & 15u) | (high >> j & 1u) << 4), d, m);
        v[4 + j] = fma(float((b >> 8 * j + up & 15u) | (high >> 4 + j & 1u) << 4), d, m);
    }
}

void decode_q8(ADDRESS row, int k)
{
    const ADDRESS s = row + 34 * (k / 32);
    const float d = rd_half(s, 0);
    [[unroll]] for (int j = 0; j < 8; j += 4) {
        const int w = int(rd_pair(s, 2 + k % 32 + j));
        [[unroll]] for (int i = 0; i < 4; i++) v[j + i] = float(w << 24 - 8 * i >> 24) * d;
    }
}

void decode_mxfp4(ADDRESS row, int k)
{
    const int i = k % 32, at = i % 16, up = 4 * (i / 16);
    const ADDRESS s = row + 17 * (k / 32);
    const float d = half_e8m0(rd8(s, 0));
    for (int j = 0; j < 8; j++) v[j] = fp4_values[rd8(s, 1 + at + j) >> up & 15u] * d;
}

void decode_nvfp4(ADDRESS row, int k)
{
    const int i = k % 64;
    const ADDRESS s = row + 36 * (k / 64);
    const float d = half_ue4m3(rd8(s, i / 16));
    for (int j = 0; j < 8; j++)
        v[j] = fp4_values[rd8(s, 4 + 8 * (i / 16) + j) >> 4 * (i / 8 % 2) & 15u] * d;
}

/* Undoes the signs and the Walsh-Hadamard transform of 32 values. */
void decode_tq_1s(ADDRESS row, int k)
{
    const float book3[8] = float[](-1.996684, -1.291398, -0.740341, -0.247508, 0.230106, 0.725222,
                                   1.277503, 1.988943);
    const float book4[8] = float[](0.128395, 0.388048, 0.656759, 0.942340, 1.256231, 1.618046,
                                   2.069017, 2.732590);
    const bool four = TYPE == TQ4_1S;
    const ADDRESS s = row + (four ? 20 : 16) * (k / 32);
    const float d[2] = float[](rd_half(s, 0), rd_half(s, 2));
    const int i = k % 32;
    float x[32];
    for (int j = 0; j < 32; j++) {
        float b;
        if (four) {
            const int q = int(rd8(s, 4 + j / 2) >> 4 * (j % 2) & 15u);
            b = q < 8 ? -book4[7 - q] : book4[q - 8];
        } else {
            const int p = 4 + 3 * (j / 8);
            b = book3[(rd16(s, p) | rd8(s, p + 2) << 16) >> 3 * (j % 8) & 7u];
        }
        x[j] = b * d[j / 16];
    }
    for (int h = 1; h < 32; h *= 2)
        for (int j = 0; j < 32; j++) {
            if ((j & h) != 0) continue;
            const float p = x[j], q = x[j + h];
            x[j] = p + q;
            x[j + h] = p - q;
        }
    for (int j = 0; j < 8; j++)
        v[j] = x[i + j] *
               ((0x696b4b4au >> i + j & 1u) != 0u ? -0.17677669529663688 : 0.17677669529663688);
}

/* ---- 256 values and scales of scales ---- */

void decode_q2_k(ADDRESS row, int k)
{
    const int b16 = k % 256 / 16;
    const ADDRESS s = row + 84 * (k / 256);
    const int q = 16 + 32 * (b16 / 8) + 16 * (b16 % 2) + k % 16, shift = 2 * (b16 / 2 % 4);
    const uint sc = rd8(s, b16);
    const float scale = rd_half(s, 80) * float(sc & 15u), low = rd_half(s, 82) * float(sc >> 4);
    const uint a = U32(s + q).v[0], b = U32(s + q).v[1];
    [[unroll]] for (int j = 0; j < 4; j++) {
        v[j] = fma(scale, float(a >> 8 * j + shift & 3u), -low);
        v[4 + j] = fma(scale, float(b >> 8 * j + shift & 3u), -low);
    }
}

void decode_q3_k(ADDRESS row, int k)
{
    const int b16 = k % 256 / 16, at = 16 * (b16 % 2) + k % 16;
    const ADDRESS s = row + 110 * (k / 256);
    const int q = 32 + 32 * (b16 / 8) + at, shift = 2 * (b16 / 2 % 4);
    const uint lo = rd8(s, 96 + b16 % 8) >> 4 * (b16 / 8) & 15u;
    const uint hi = rd8(s, 104 + b16 % 4) >> 2 * (b16 / 4) & 3u;
    const float scale = rd_half(s, 108) * float(int(lo | hi << 4) - 32);
    [[unroll]] for (int j = 0; j < 8; j += 4) {
        const uint a = rd_pair(s, q + j) >> shift, h = rd_pair(s, at + j) >> b16 / 2;
        [[unroll]] for (int i = 0; i < 4; i++)
            v[j + i] = scale * float(int((a >> 8 * i & 3u) | (h >> 8 * i & 1u) << 2) - 4);
    }
}

/* Q4_K and Q5_K: blocks of 144 and 176 bytes, at multiples of 16. */
void decode_q45_k(ADDRESS row, int k)
{
    const bool five = TYPE == Q5_K;
    const int b32 = k % 256 / 32, q = (five ? 12 : 4) + 8 * (b32 / 2) + k % 32 / 4;
    U32 s = U32(row + (five ? 176 : 144) * (k / 256));
    const uint s0 = s.v[1] >> 8 * (b32 % 4), s1 = s.v[2] >> 8 * (b32 % 4),
               s2 = s.v[3] >> 8 * (b32 % 4);
    uint sc, mn;
    if (b32 < 4) {
        sc = s0 & 63u;
        mn = s1 & 63u;
    } else {
        sc = (s2 & 15u) | (s0 >> 6 & 3u) << 4;
        mn = (s2 >> 4 & 15u) | (s1 >> 6 & 3u) << 4;
    }
    const vec2 d = unpackHalf2x16(s.v[0]);
    const float scale = d.x * float(sc), low = d.y * float(mn);
    const int up = 4 * (b32 % 2);
    const uint a = s.v[q], b = s.v[q + 1];
    if (!five) {
        nibbles(a, b, up, scale, -low);
        return;
    }
    const uint ha = s.v[4 + k % 32 / 4] >> b32, hb = s.v[5 + k % 32 / 4] >> b32;
    [[unroll]] for (int j = 0; j < 4; j++) {
        v[j] = fma(float((a >> 8 * j + up & 15u) | (ha >> 8 * j & 1u) << 4), scale, -low);
        v[4 + j] = fma(float((b >> 8 * j + up & 15u) | (hb >> 8 * j & 1u) << 4), scale, -low);
    }
}

void decode_q6_k(ADDRESS row, int k)
{
    const int b16 = k % 256 / 16, g = b16 / 2 % 4, r = 16 * (b16 % 2) + k % 16;
    const ADDRESS s = row + 210 * (k / 256);
    const int lo = 64 * (b16 / 8) + 32 * (g % 2) + r, hi = 128 + 32 * (b16 / 8) + r;
    const int sc = int(rd8(s, 192 + b16)) << 24 >> 24;
    const float scale = rd_half(s, 208) * float(sc);
    [[unroll]] for (int j = 0; j < 8; j += 4) {
        const uint a = rd_pair(s, lo + j) >> 4 * (g / 2), h = rd_pair(s, hi + j) >> 2 * g;
        [[unroll]] for (int i = 0; i < 4; i++)
            v[j + i] = scale * float(int((a >> 8 * i & 15u) | (h >> 8 * i & 3u) << 4) - 32);
    }
}

void decode_iq4_xs(ADDRESS row, int k)
{
    const int b32 = k % 256 / 32, q = 8 + 16 * b32 + k % 16;
    const ADDRESS s = row + 136 * (k / 256);
    const uint ls = (rd8(s, 4 + b32 / 2) >> 4 * (b32 % 2) & 15u) |
                    (rd16(s, 2) >> 2 * b32 & 3u) << 4;
    const float scale = rd_half(s, 0) * float(int(ls) - 32);
    const int up = 4 * (k / 16 % 2);
    const uint a = U32(s + q).v[0], b = U32(s + q).v[1];
    [[unroll]] for (int j = 0; j < 4; j++) {
        v[j] = scale * iq4_values[a >> 8 * j + up & 15u];
        v[4 + j] = scale * iq4_values[b >> 8 * j + up & 15u];
    }
}

/* ---- -1, 0 and 1 ---- */

float trit(uint byte, int digit, float d)
{
    const uint pow3[5] = uint[](1u, 3u, 9u, 27u, 81u);
    return float(int((byte * pow3[digit] & 255u) * 3u >> 8) - 1) * d;
}

void decode_tq1_0(ADDRESS row, int k)
{
    const ADDRESS s = row + 54 * (k / 256);
    const float d = rd_half(s, 52);
    for (int j = 0; j < 8; j++) {
        const int i = k % 256 + j;
        if (i < 160)
            v[j] = trit(rd8(s, i % 32), i / 32, d);
        else if (i < 240)
            v[j] = trit(rd8(s, 32 + (i - 160) % 16), (i - 160) / 16, d);
        else
            v[j] = trit(rd8(s, 48 + (i - 240) % 4), (i - 240) / 4, d);
    }
}

void decode_tq2_0(ADDRESS row, int k)
{
    const int b32 = k % 256 / 32;
    const ADDRESS s = row + 66 * (k / 256);
    const float d = rd_half(s, 64);
    for (int j = 0; j < 8; j++)
        v[j] = float(int(rd8(s, 32 * (b32 / 4) + k % 32 + j) >> 2 * (b32 % 4) & 3u) - 1) * d;
}

void decode_bits(ADDRESS row, int k) /* Q1_0, Q2_0 */
{
    const ADDRESS s = row + 18 * (k / (TYPE == Q1_0 ? 128 : 64));
    const float d = rd_half(s, 0);
    for (int j = 0; j < 8; j++) {
        if (TYPE == Q1_0)
            v[j] = (rd8(s, 2 + k % 128 / 8) >> j & 1u) != 0u ? d : -d;
        else
            v[j] = float(int(rd8(s, 2 + (k % 64 + j) / 4) >> 2 * (j % 4) & 3u) - 1) * d;
    }
}

/* ---- vectors of a codebook ---- */

/* One index of eight values or two of four, a bit for each value (IQ1: all equal) and the scale
 * (sub + 1/2) d. */
uint code0, code1, signs;
int sub;
float code_d;

void iq1_codes(ADDRESS row, int k)
{
    const int b = k / 256, g = k % 256 / 8;
    code1 = 0u;
    if (TYPE == IQ1_S) {
        const ADDRESS s = row + 50 * b;
        const uint h = rd16(s, 34 + 2 * (g / 4));
        code0 = rd8(s, 2 + g) | (h >> 3 * (g % 4) & 7u) << 8;
        signs = h >> 15;
        sub = int(h >> 12 & 7u);
        code_d = 2.0 * rd_half(s, 0);
        return;
    }
    const ADDRESS s = row + 56 * b;
    const uint h = rd8(s, 49) >> 4 | (rd8(s, 51) & 0xf0u) | (rd8(s, 53) & 0xf0u) << 4 |
                   (rd8(s, 55) & 0xf0u) << 8;
    const uint nibble = rd8(s, 32 + g / 2) >> 4 * (g % 2) & 15u;
    code0 = rd8(s, g) | (nibble & 7u) << 8;
    signs = nibble >> 3;
    sub = int(rd16(s, 48 + 2 * (g / 8)) >> 3 * (g / 2 % 4) & 7u);
    code_d = 2.0 * half_value(h);
}

void iq2_codes(ADDRESS row, int k)
{
    const int b = k / 256, g = k % 256 / 8;
    code1 = 0u;
    if (TYPE == IQ2_XXS) {
        const ADDRESS s = row + 66 * b;
        const uint w = rd32(s, 6 + 8 * (g / 4));
        code0 = rd8(s, 2 + 8 * (g / 4) + g % 4);
        signs = even_signs(w >> 7 * (g % 4));
        sub = int(w >> 28);
        code_d = 0.25 * rd_half(s, 0);
    } else if (TYPE == IQ2_XS) {
        const ADDRESS s = row + 74 * b;
        const uint w = rd16(s, 2 + 2 * g);
        code0 = w & 511u;
        signs = even_signs(w >> 9);
        sub = int(rd8(s, 66 + g / 4) >> 4 * (g / 2 % 2) & 15u);
        code_d = 0.25 * rd_half(s, 0);
    } else {
        const ADDRESS s = row + 82 * b;
        code0 = rd8(s, 2 + g) | (rd8(s, 66 + g / 4) >> 2 * (g % 4) & 3u) << 8;
        signs = rd8(s, 34 + g);
        sub = int(rd8(s, 74 + g / 4) >> 4 * (g / 2 % 2) & 15u);
        code_d = 0.25 * rd_half(s, 0);
    }
}

void iq3_codes(ADDRESS row, int k)
{
    const int b = k / 256, g = k % 256 / 8;
    if (TYPE == IQ3_XXS) {
        const ADDRESS s = row + 98 * b;
        const uint w = rd32(s, 66 + 4 * (g / 4));
        code0 = rd8(s, 2 + 2 * g);
        code1 = rd8(s, 3 + 2 * g);
        signs = even_signs(w >> 7 * (g % 4));
        sub = int(w >> 28);
        code_d = 0.5 * rd_half(s, 0);
    } else {
        const ADDRESS s = row + 110 * b;
        const uint high = rd8(s, 66 + g / 4) >> 2 * (g % 4);
        code0 = rd8(s, 2 + 2 * g) | (high & 1u) << 8;
        code1 = rd8(s, 3 + 2 * g) | (high & 2u) << 7;
        signs = rd8(s, 74 + g);
        sub = int(rd8(s, 106 + g / 8) >> 4 * (g / 4 % 2) & 15u);
        code_d = 2.0 * rd_half(s, 0);
    }
}

void decode_iq1(ADDRESS row, int k, ADDRESS grid)
{
    iq1_codes(row, k);
    const float delta = signs != 0u ? -0.125 : 0.125, scale = code_d * (float(sub) + 0.5);
    const uint entry = uint(U16(grid).v[GRID_IQ1S + code0]);
    for (int j = 0; j < 8; j++) v[j] = scale * (float(int(entry >> 2 * j & 3u) - 1) + delta);
}

void decode_iq2(ADDRESS row, int k, ADDRESS grid)
{
    iq2_codes(row, k);
    const int from = TYPE == IQ2_XXS ? GRID_IQ2XXS : TYPE == IQ2_XS ? GRID_IQ2XS : GRID_IQ2S;
    const float scale = code_d * (float(sub) + 0.5);
    const uint entry = uint(U16(grid).v[from + code0]);
    for (int j = 0; j < 8; j++) {
        const uint c = entry >> 2 * j & 3u;
        const float x = scale * (c == 0u ? 8.0 : c == 1u ? 25.0 : 43.0);
        v[j] = (signs >> j & 1u) != 0u ? -x : x;
    }
}

void decode_iq3(ADDRESS row, int k, ADDRESS grid)
{
    iq3_codes(row, k);
    const int from = TYPE == IQ3_S ? GRID_IQ3S : GRID_IQ3XXS;
    const float scale = code_d * (float(sub) + 0.5);
    for (int j = 0; j < 8; j++) {
        const uint q = uint(U16(grid).v[from + (j < 4 ? code0 : code1)]) >> 3 * (j % 4) & 7u;
        const float level = TYPE == IQ3_S ? 1.0 + 2.0 * float(q)
                                          : q == 7u ? 62.0 : 4.0 + 8.0 * float(q);
        v[j] = (signs >> j & 1u) != 0u ? -scale * level : scale * level;
    }
}

/* ---- plain numbers ---- */

float plain_value(ADDRESS row, int i)
{
    switch (TYPE) {
    case F32_T: return F32(row).v[i];
    case F16_T: return half_value(uint(U16(row).v[i]));
    case BF16_T: return uintBitsToFloat(uint(U16(row).v[i]) << 16);
    case I16_T: return float(int(uint(U16(row).v[i]) << 16) >> 16);
    default: { /* F64: rounded to the nearest f32 by hand, as shaders may have no doubles */
        const uint lo = U32(row).v[2 * i], hi = U32(row).v[2 * i + 1];
        const int e = int(hi >> 20 & 2047u) - 1023 + 127;
        if (e <= 0) return 0.0;
        const uint sign = hi & 0x80000000u, m = (hi & 0xfffffu) << 3 | lo >> 29;
        const uint rest = lo & 0x1fffffffu, half_unit = 0x10000000u;
        const uint up = rest > half_unit || (rest == half_unit && (m & 1u) != 0u) ? 1u : 0u;
        return uintBitsToFloat(sign | (e > 254 ? 0x7f800000u : (uint(e) << 23 | m) + up));
    }
    }
}

/* v = values [k, k + 8) of a row of K values; zeros beyond its end. */
void decode8(ADDRESS row, int k, int K, ADDRESS grid)
{
    switch (TYPE) {
    case Q4_0:
    case Q4_1:
    case IQ4_NL: decode_q4(row, k); return;
    case Q5_0:
    case Q5_1: decode_q5(row, k); return;
    case Q8_0: decode_q8(row, k); return;
    case MXFP4: decode_mxfp4(row, k); return;
    case NVFP4: decode_nvfp4(row, k); return;
    case TQ3_1S:
    case TQ4_1S: decode_tq_1s(row, k); return;
    case Q2_K: decode_q2_k(row, k); return;
    case Q3_K: decode_q3_k(row, k); return;
    case Q4_K:
    case Q5_K: decode_q45_k(row, k); return;
    case Q6_K: decode_q6_k(row, k); return;
    case IQ4_XS: decode_iq4_xs(row, k); return;
    case TQ1_0: decode_tq1_0(row, k); return;
    case TQ2_0: decode_tq2_0(row, k); return;
    case Q1_0:
    case Q2_0:
    case Q2_0_FORK: decode_bits(row, k); return;
    case IQ1_S:
    case IQ1_M: decode_iq1(row, k, grid); return;
    case IQ2_XXS:
    case IQ2_XS:
    case IQ2_S: decode_iq2(row, k, grid); return;
    case IQ3_XXS:
    case IQ3_S: decode_iq3(row, k, grid); return;
    default:
        [[unroll]] for (int j = 0; j < 8; j++) v[j] = k + j < K ? plain_value(row, k + j) : 0.0;
    }
}
