/* kv.glsl - rows of the KV cache: ft_kv_type of dev/ops.h, blocks as in quant/, turbo rows as in
 * quant/turbo.c. Rows have even addresses. */
const int KV_F32 = 0, KV_F16 = 1, KV_BF16 = 2, KV_Q8_0 = 3, KV_Q4_0 = 4, KV_TURBO2 = 5,
          KV_TURBO3 = 6, KV_TURBO4 = 7, KV_TURBO4_LEGACY = 8, KV_Q4_1 = 9, KV_Q5_0 = 10,
          KV_Q5_1 = 11, KV_IQ4_NL = 12;

const float turbo2_book[4] = float[](-0.133462, -0.039994, 0.039994, 0.133462);
const float turbo3_book[8] = float[](-0.190685, -0.117832, -0.065717, -0.021460, 0.021460, 0.065717,
                                     0.117832, 0.190685);
const float turbo4_book[16] = float[](-0.241529, -0.182877, -0.143016, -0.111036, -0.083292,
                                      -0.058050, -0.034299, -0.011349, 0.011349, 0.034299, 0.058050,
                                      0.083292, 0.111036, 0.143016, 0.182877, 0.241529);
const float legacy_book[16] = float[](-0.173926, -0.117195, -0.089527, -0.068756, -0.051262,
                                      -0.035597, -0.020989, -0.006938, 0.006938, 0.020989, 0.035597,
                                      0.051262, 0.068756, 0.089527, 0.117195, 0.173926);
const uint turbo_before[4] = uint[](0xe46a0359u, 0x42f85949u, 0xa4c63bbbu, 0x49f250a9u);
const uint turbo_after[4] = uint[](0x16acee90u, 0x3f628fdcu, 0xb7a5357au, 0xbea56562u);
const float kv_iq4[16] = float[](-127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0,
                                 13.0, 25.0, 38.0, 53.0, 69.0, 89.0, 113.0);

bool is_turbo(int type)
{
    return type >= KV_TURBO2 && type <= KV_TURBO4_LEGACY;
}

int turbo_bits(int type)
{
    return type == KV_TURBO2 ? 2 : type == KV_TURBO3 ? 3 : 4;
}

int turbo_head(int type)
{
    return type == KV_TURBO4_LEGACY ? 4 : 2;
}

int turbo_group(int d)
{
    return (d + 63) / 64 % 2 != 0 ? 64 : 128;
}

int row_width(int type, int d)
{
    return is_turbo(type) ? (d + 63) / 64 * 64 : d;
}

float turbo_value(int type, int code)
{
    switch (type) {
    case KV_TURBO2: return turbo2_book[code];
    case KV_TURBO3: return turbo3_book[code];
    case KV_TURBO4: return turbo4_book[code];
    default: return legacy_book[code];
    }
}

float kv_half(ADDRESS p, int i)
{
    return half_value(uint(U16(p + i).v[0]));
}

uint kv_byte(ADDRESS p, int i)
{
    return uint(U8(p).v[i]);
}

float turbo_at(int type, ADDRESS row, int i, int d)
{
    const int group = turbo_group(d), bits = turbo_bits(type), h = turbo_head(type);
    const ADDRESS s = row + i / group * (h + group * bits / 8);
    const int j = i % group;
    int code;
    if (bits == 4) {
        code = int(kv_byte(s, h + j / 2) >> 4 * (j % 2) & 15u);
    } else {
        code = int(kv_byte(s, h + j / 4) >> 2 * (j % 4) & 3u);
        if (bits == 3) code |= int(kv_byte(s, h + group / 4 + j / 8) >> j % 8 & 1u) << 2;
    }
    return turbo_value(type, code) * kv_half(s, 0);
}

float block_at(int type, ADDRESS row, int i)
{
    const bool minimum = type == KV_Q4_1 || type == KV_Q5_1;
    const bool five = type == KV_Q5_0 || type == KV_Q5_1;
    const int fifth = minimum ? 4 : 2, codes = fifth + (five ? 4 : 0), j = i % 32;
    const ADDRESS s = row + i / 32 * (codes + 16);
    const float d = kv_half(s, 0);
    uint code = kv_byte(s, codes + j % 16) >> 4 * (j / 16) & 15u;
    if (type == KV_IQ4_NL) return d * kv_iq4[code];
    if (five) code |= (kv_byte(s, fifth + j / 8) >> j % 8 & 1u) << 4;
    return fma(float(code), d, minimum ? kv_half(s, 2) : (five ? -16.0 : -8.0) * d);
}

/* Value i of a row, transformed where the encoding is a turbo one. */
float kv_at(int type, ADDRESS row, int i, int d)
{
    switch (type) {
    case KV_F32: return F32(row).v[i];
    case KV_F16: return half_value(uint(U16(row).v[i]));
    case KV_BF16: return uintBitsToFloat(uint(U16(row).v[i]) << 16);
    case KV_Q8_0: {
        const ADDRESS s = row + 34 * (i / 32);
        return float(int(kv_byte(s, 2 + i % 32)) << 24 >> 24) * kv_half(s, 0);
    }
    case KV_TURBO2:
    case KV_TURBO3:
    case KV_TURBO4:
    case KV_TURBO4_LEGACY: return turbo_at(type, row, i, d);
    default: return block_at(type, row, i);
    }
}
