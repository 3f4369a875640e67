/* coop_weights.glsl - weights as operands of cooperative matrices: blocks of 256 columns at
 * multiples of 16 bytes, Q4_K and Q5_K in file layout, Q6_K and Q8_0 as pack.comp has packed them.
 * Lane 4 g + t has of rows g and g + 8, and of each half of a block, the codes of 32 columns:
 * 16 "lower" ones from 64 * (t / 2) + 16 * (t % 2) on, and the 16 "upper" ones 32 columns later,
 * which are in the lower and upper nibbles of its 16 bytes (Q8_0: in 16 bytes each). A word of
 * codes is the operand of a product for its lower columns and of one for its upper ones; pairs are
 * (0, 2) and (1, 3) of the four. A product takes 16 columns, and there are eight partial sums:
 * block b belongs to sum b % 8. So the order of an output's sum depends on k alone. */
layout(constant_id = 0) const int TYPE = 12;
const int Q8_0 = 8, Q4_K = 12, Q5_K = 13, Q6_K = 14;
const int BLOCK = TYPE == Q4_K ? 144 : TYPE == Q5_K ? 176 : TYPE == Q6_K ? 224 : 272, PARTS = 8;
const float X_SCALE = 0.0625; /* of activations: f16 ends at 65504 */

layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Words {
    uvec4 v[];
};

/* The codes of half `h` of a block: words of four columns; upper: those of Q8_0. */
uvec4 codes_at(ADDRESS block, int h, int t)
{
    if (TYPE == Q8_0) return Words(block).v[1 + 8 * h + 2 * t];
    return Words(block).v[(TYPE == Q5_K ? 3 : TYPE == Q6_K ? 0 : 1) + 4 * h + t];
}

uvec4 upper_at(ADDRESS block, int h, int t)
{
    return TYPE == Q8_0 ? Words(block).v[2 + 8 * h + 2 * t] : uvec4(0u);
}

/* The scales of both halves: of Q6_K and Q8_0 four f16 numbers, lower and upper of each half. */
uvec4 head_at(ADDRESS block, int t)
{
    if (TYPE == Q4_K || TYPE == Q5_K) return Words(block).v[0];
    U32 s = U32(block + (TYPE == Q6_K ? 192 + 8 * t : 8 * (t / 2)));
    return uvec4(s.v[0], s.v[1], 0u, 0u);
}

/* The bits above the nibbles. Q5_K: of sub-block i in bit i of each byte; Q6_K: of half h from bit
 * 4 h on, two for the lower and two for the upper column. */
uvec4 high_at(ADDRESS block, int t)
{
    if (TYPE == Q6_K) return Words(block).v[8 + t];
    return TYPE == Q5_K ? Words(block).v[1 + t % 2] : uvec4(0u);
}

uint high_of(uvec4 high, int h, int j, int t)
{
    return TYPE == Q5_K ? high[j] >> 4 * h + t / 2 * 2 : high[j] >> 4 * h;
}

/* Two bytes as numbers. */
f16vec2 bytes_of(uint b)
{
    return unpackFloat2x16((b & 0xffu) | (b & 0xff00u) << 8 | 0x64006400u) - float16_t(1024.0);
}

/* Factors of a row's half: x for the lower columns, y for the upper ones. */
struct Factor {
    f16vec2 scale, low;
};

Factor factor_of(uvec4 head, int h, int t)
{
    const int up = 16 * (t / 2);
    const uint a = head.y >> up, b = head.z >> up, c = head.w >> up;
    Factor f;
    if (TYPE == Q6_K || TYPE == Q8_0) {
        f.scale = unpackFloat2x16(head[h]);
        f.low = f16vec2(0.0);
        return f;
    }
    if (h == 0) {
        f.scale = bytes_of(a & 0x3f3fu);
        f.low = bytes_of(b & 0x3f3fu);
    } else {
        f.scale = bytes_of((c & 0x0f0fu) | (a >> 2 & 0x3030u));
        f.low = bytes_of((c >> 4 & 0x0f0fu) | (b >> 2 & 0x3030u));
    }
    const f16vec2 d = unpackFloat2x16(head.x);
    f.scale *= d.x;
    f.low *= -d.y;
    return f;
}

/* The first pair of a word's lower or upper columns: in the mantissa of 1024, then as a number. */
f16vec2 pair_of(uint word, uint high, bool upper, f16vec2 scale, f16vec2 low)
{
    if (TYPE == Q8_0) {
        const uint v = (word & 0x00ff00ffu ^ 0x00800080u) | 0x64006400u;
        return (unpackFloat2x16(v) - float16_t(1152.0)) * scale;
    }
    uint v = (upper ? word & 0x00f000f0u : word & 0x000f000fu) | 0x64006400u;
    if (TYPE == Q5_K) v |= upper ? high << 7 & 0x01000100u : high << 4 & 0x00100010u;
    if (TYPE == Q6_K) v |= upper ? high << 6 & 0x03000300u : high << 4 & 0x00300030u;
    const float16_t zero = float16_t(TYPE == Q6_K ? 32.0 : 0.0);
    const f16vec2 q =
        upper ? fma(unpackFloat2x16(v), f16vec2(0.0625), f16vec2(float16_t(-64.0) - zero))
              : unpackFloat2x16(v) - (float16_t(1024.0) + zero);
    return TYPE == Q6_K ? q * scale : fma(q, scale, low);
}

/* Words of rows g and g + 8 as an operand. */
MAT_A weights(uint w0, uint w8, uint h0, uint h8, bool upper, Factor f0, Factor f8)
{
    const f16vec2 s0 = f16vec2(upper ? f0.scale.y : f0.scale.x);
    const f16vec2 m0 = f16vec2(upper ? f0.low.y : f0.low.x);
    const f16vec2 s8 = f16vec2(upper ? f8.scale.y : f8.scale.x);
    const f16vec2 m8 = f16vec2(upper ? f8.low.y : f8.low.x);
    return operand_a(pair_of(w0, h0, upper, s0, m0), pair_of(w8, h8, upper, s8, m8),
                     pair_of(w0 >> 8, h0 >> 8, upper, s0, m0),
                     pair_of(w8 >> 8, h8 >> 8, upper, s8, m8));
}
