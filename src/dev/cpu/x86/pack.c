/* Repacks blocks in file layout to the layout of pack.h. For every type a function decodes 32
 * values to codes, scales and minima; the rest is common. */
#include "dev/cpu/x86/pack.h"

#include "dev/cpu/iq.h"
#include "dev/cpu/small_codes.h"

const int8_t ft_x86_book[BOOKS][16] = {
    [BOOK_IQ4] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113},
    [BOOK_FP4] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12},
    [BOOK_IQ2] = {FT_BOOK_IQ2},
    [BOOK_IQ3_XXS] = {FT_BOOK_IQ3_XXS},
    [BOOK_IQ3_S] = {FT_BOOK_IQ3_S},
    [BOOK_IQ1] = {FT_BOOK_IQ1},
};

/* Thirty-two values of a row. sub and sub_min: of each half where a scale is for sixteen. */
typedef struct piece {
    uint8_t code[32];
    uint16_t scale[2], min;
    int8_t sub[2], sub_min[2];
} piece;

/* Number b of the groups of 32 of a block. */
typedef void piece_fn(piece *p, const uint8_t *block, int b);

/* ---- one scale for 32 ---- */

static void nibbles(uint8_t *code, const uint8_t *q)
{
    for (int i = 0; i < 16; i++) code[i] = q[i] & 15;
    for (int i = 0; i < 16; i++) code[16 + i] = q[i] >> 4;
}

static void fifth_bits(uint8_t *code, uint32_t high)
{
    for (int i = 0; i < 32; i++) code[i] |= (uint8_t)((high >> i & 1) << 4);
}

static void q8_0(piece *p, const uint8_t *s, int b)
{
    (void)b;
    p->scale[0] = rd16(s);
    for (int i = 0; i < 32; i++) p->code[i] = s[2 + i] ^ 0x80;
}

static void q4_0(piece *p, const uint8_t *s, int b) /* and IQ4_NL */
{
    (void)b;
    p->scale[0] = rd16(s);
    nibbles(p->code, s + 2);
}

static void q4_1(piece *p, const uint8_t *s, int b)
{
    (void)b;
    p->scale[0] = rd16(s);
    p->min = rd16(s + 2) ^ 0x8000;
    nibbles(p->code, s + 4);
}

static void q5_0(piece *p, const uint8_t *s, int b)
{
    (void)b;
    p->scale[0] = rd16(s);
    nibbles(p->code, s + 6);
    fifth_bits(p->code, rd32(s + 2));
}

static void q5_1(piece *p, const uint8_t *s, int b)
{
    (void)b;
    p->scale[0] = rd16(s);
    p->min = rd16(s + 2) ^ 0x8000;
    nibbles(p->code, s + 8);
    fifth_bits(p->code, rd32(s + 4));
}

/* Half of 2^(e - 127), since the codebook has doubled values: exact in bf16. */
static void mxfp4(piece *p, const uint8_t *s, int b)
{
    (void)b;
    p->scale[0] = (uint16_t)(s[0] < 2 ? 0x20 << s[0] : (s[0] - 1) << 7);
    nibbles(p->code, s + 1);
}

static void nvfp4(piece *p, const uint8_t *s, int b)
{
    ft_codes_nvfp4(p->code, s, b);
    for (int h = 0; h < 2; h++) p->scale[h] = ft_scale_nvfp4(s, b, h);
}

static void tq3_1s(piece *p, const uint8_t *s, int b)
{
    (void)b;
    for (int h = 0; h < 2; h++) p->scale[h] = rd16(s + 2 * h);
    for (int i = 0; i < 32; i++) {
        const uint8_t *g = s + 4 + 3 * (i / 8);
        p->code[i] = (uint8_t)((g[0] | g[1] << 8 | g[2] << 16) >> 3 * (i % 8) & 7);
    }
}

static void tq4_1s(piece *p, const uint8_t *s, int b)
{
    (void)b;
    for (int h = 0; h < 2; h++) p->scale[h] = rd16(s + 2 * h);
    for (int i = 0; i < 32; i++) p->code[i] = s[4 + i / 2] >> 4 * (i % 2) & 15;
}

/* ---- 256 values with quantised scales ---- */

static void k4_scales(piece *p, const uint8_t *s, int b)
{
    int scale, min;
    ft_scale_min_k4(s + 4, b, &scale, &min);
    p->scale[0] = rd16(s);
    p->min = rd16(s + 2);
    p->sub[0] = (int8_t)scale;
    p->sub_min[0] = (int8_t)min;
}

static void q4_k(piece *p, const uint8_t *s, int b)
{
    const uint8_t *q = s + 16 + 32 * (b / 2);
    k4_scales(p, s, b);
    for (int i = 0; i < 32; i++) p->code[i] = q[i] >> 4 * (b % 2) & 15;
}

static void q5_k(piece *p, const uint8_t *s, int b)
{
    const uint8_t *q = s + 48 + 32 * (b / 2), *high = s + 16;
    k4_scales(p, s, b);
    for (int i = 0; i < 32; i++)
        p->code[i] = (uint8_t)((q[i] >> 4 * (b % 2) & 15) | (high[i] >> b & 1) << 4);
}

static void q6_k(piece *p, const uint8_t *s, int b)
{
    const int n = b / 4, g = b % 4;
    const uint8_t *lo = s + 64 * n + 32 * (g % 2), *hi = s + 128 + 32 * n;
    p->scale[0] = rd16(s + 208);
    for (int h = 0; h < 2; h++) p->sub[h] = (int8_t)s[192 + 2 * b + h];
    for (int i = 0; i < 32; i++)
        p->code[i] = (uint8_t)((lo[i] >> 4 * (g / 2) & 15) | (hi[i] >> 2 * g & 3) << 4);
}

static void q3_k(piece *p, const uint8_t *s, int b)
{
    const uint8_t *q = s + 32 + 32 * (b / 4), *scales = s + 96;
    p->scale[0] = rd16(s + 108);
    for (int h = 0; h < 2; h++) {
        const int at = 2 * b + h, lo = scales[at % 8] >> 4 * (at / 8) & 15;
        p->sub[h] = (int8_t)((lo | (scales[8 + at % 4] >> 2 * (at / 4) & 3) << 4) - 32);
    }
    for (int i = 0; i < 32; i++)
        p->code[i] = (uint8_t)((q[i] >> 2 * (b % 4) & 3) | (s[i] >> b & 1) << 2);
}

static void q2_k(piece *p, const uint8_t *s, int b)
{
    const uint8_t *q = s + 16 + 32 * (b / 4);
    p->scale[0] = rd16(s + 80);
    p->min = rd16(s + 82);
    for (int h = 0; h < 2; h++) {
        p->sub[h] = s[2 * b + h] & 15;
        p->sub_min[h] = (int8_t)(s[2 * b + h] >> 4);
    }
    for (int i = 0; i < 32; i++) p->code[i] = q[i] >> 2 * (b % 4) & 3;
}

static void iq4_xs(piece *p, const uint8_t *s, int b)
{
    const int lo = s[4 + b / 2] >> 4 * (b % 2) & 15, hi = rd16(s + 2) >> 2 * b & 3;
    p->scale[0] = rd16(s);
    p->sub[0] = (int8_t)((lo | hi << 4) - 32);
    nibbles(p->code, s + 8 + 16 * b);
}

/* ---- vectors from a codebook ---- */

static void iq(piece *p, const uint8_t *s, const ft_iq32 *v)
{
    p->scale[0] = rd16(s);
    memcpy(p->code, v->code, sizeof p->code);
    for (int h = 0; h < 2; h++) p->sub[h] = (int8_t)v->scale[h];
}

#define IQ(name)                                                                                   \
    static void name(piece *p, const uint8_t *s, int b)                                            \
    {                                                                                              \
        ft_iq32 v;                                                                                 \
        ft_##name(&v, s, b);                                                                       \
        iq(p, s, &v);                                                                              \
    }
IQ(iq2_xxs)
IQ(iq2_xs)
IQ(iq2_s)
IQ(iq3_xxs)
IQ(iq3_s)
IQ(iq1_s)

static void iq1_m(piece *p, const uint8_t *s, int b)
{
    ft_iq32 v;
    ft_iq1_m(&v, s, b);
    iq(p, s, &v);
    p->scale[0] = ft_iq1_m_scale(s);
}

/* ---- ternary ---- */

#define TERNARY(name, at)                                                                          \
    static void name(piece *p, const uint8_t *s, int b)                                            \
    {                                                                                              \
        p->scale[0] = rd16(s + at);                                                                \
        ft_codes_##name(p->code, s, b);                                                            \
    }
TERNARY(tq1_0, 52)
TERNARY(tq2_0, 64)
TERNARY(q1_0, 0)
TERNARY(q2_0, 0)

/* ---- common to all types ---- */

/* Bit number `bit` of the codes of row r, quad by quad. */
static void put_bits(unsigned char *to, int r, const uint8_t *code, int bit)
{
    for (int i = 0; i < 4; i++) {
        int byte = 0;
        for (int j = 0; j < 8; j++) byte |= (code[4 * j + i] >> bit & 1) << j;
        to[4 * r + i] = (unsigned char)byte;
    }
}

/* Bits `bit` and `bit` + 1. */
static void put_pairs(unsigned char *to, int r, const uint8_t *code, int bit)
{
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < 4; i++) {
            int byte = 0;
            for (int j = 0; j < 4; j++) byte |= (code[16 * h + 4 * j + i] >> bit & 3) << 2 * j;
            to[64 * h + 4 * r + i] = (unsigned char)byte;
        }
}

static void put_nibbles(unsigned char *to, int r, const uint8_t *code)
{
    uint8_t both[16];
    for (int i = 0; i < 16; i++) both[i] = (uint8_t)((code[i] & 15) | code[16 + i] << 4);
    for (int j = 0; j < 4; j++) memcpy(to + 64 * j + 4 * r, both + 4 * j, 4);
}

static void put_codes(unsigned char *to, int r, const uint8_t *code, int plane)
{
    switch (plane) {
    case PLANE_2_1: put_bits(to + 128, r, code, 2); /* fall through */
    case PLANE_2: put_pairs(to, r, code, 0); break;
    case PLANE_4_1:
        put_nibbles(to, r, code);
        put_bits(to + 256, r, code, 4);
        break;
    case PLANE_4_2:
        put_nibbles(to, r, code);
        put_pairs(to + 256, r, code, 4);
        break;
    case PLANE_4: put_nibbles(to, r, code); break;
    default:
        for (int j = 0; j < 8; j++) memcpy(to + 64 * j + 4 * r, code + 4 * j, 4);
    }
}

static void put_scales(unsigned char *to, int r, const piece *p, int b, const x86_format *f)
{
    const int halves = 32 / f->sub;
    if (!f->super) {
        to += (size_t)b * x86_scale_bytes(*f) + (size_t)(2 * r);
        for (int h = 0; h < halves; h++) wr16(to + 32 * h, p->scale[h]);
        if (f->min) wr16(to + 32 * halves, p->min);
        return;
    }
    to += (size_t)(b / 8) * x86_scale_bytes(*f);
    wr16(to + 2 * r, p->scale[0]);
    if (f->min) wr16(to + 32 + 2 * r, p->min);
    to += f->min ? 64 : 32;
    for (int h = 0; h < halves; h++) {
        const int at = 16 * (b % 8 * halves + h) + r;
        to[at] = (unsigned char)p->sub[h];
        if (f->min) to[16 * 8 * halves + at] = (unsigned char)p->sub_min[h];
    }
}

static inline void pack_rows(const x86_format *f, piece_fn *fn, unsigned char *to,
                             const unsigned char *from, size_t row_bytes, int k, ft_type type)
{
    const ft_type_info *info = ft_type_of(type);
    const int per = info->elems / 32;
    unsigned char *planes = to + x86_planes_at(*f, k);
    for (int b = 0; b < k / 32; b++, planes += x86_plane_bytes(f->plane))
        for (int r = 0; r < PACK_ROWS; r++) {
            piece p = {.min = 0};
            fn(&p, from + (size_t)r * row_bytes + (size_t)(b / per) * info->bytes, b % per);
            put_codes(planes, r, p.code, f->plane);
            put_scales(to, r, &p, b, f);
        }
}

#define LAYOUT(type, format, fn)                                                                   \
    static size_t fn##_bytes(int k)                                                                \
    {                                                                                              \
        return x86_group_bytes(format, k);                                                         \
    }                                                                                              \
    static void fn##_rows(unsigned char *to, const unsigned char *from, size_t row_bytes, int k)   \
    {                                                                                              \
        pack_rows(&format, fn, to, from, row_bytes, k, type);                                      \
    }

LAYOUT(FT_Q8_0, x86_q8_0, q8_0)
LAYOUT(FT_Q4_0, x86_q4_0, q4_0) /* IQ4_NL and Q4_0 differ only in their kernels */
LAYOUT(FT_Q4_1, x86_q4_1, q4_1)
LAYOUT(FT_Q5_0, x86_q5_0, q5_0)
LAYOUT(FT_Q5_1, x86_q5_1, q5_1)
LAYOUT(FT_Q2_K, x86_q2_k, q2_k)
LAYOUT(FT_Q3_K, x86_q3_k, q3_k)
LAYOUT(FT_Q4_K, x86_q4_k, q4_k)
LAYOUT(FT_Q5_K, x86_q5_k, q5_k)
LAYOUT(FT_Q6_K, x86_q6_k, q6_k)
LAYOUT(FT_IQ4_XS, x86_iq4_xs, iq4_xs)
LAYOUT(FT_IQ3_XXS, x86_iq3_xxs, iq3_xxs)
LAYOUT(FT_IQ3_S, x86_iq3_s, iq3_s)
LAYOUT(FT_IQ2_XXS, x86_iq2_xxs, iq2_xxs)
LAYOUT(FT_IQ2_XS, x86_iq2_s, iq2_xs)
LAYOUT(FT_IQ2_S, x86_iq2_s, iq2_s)
LAYOUT(FT_IQ1_S, x86_iq1_s, iq1_s)
LAYOUT(FT_IQ1_M, x86_iq1_m, iq1_m)
LAYOUT(FT_MXFP4, x86_mxfp4, mxfp4)
LAYOUT(FT_NVFP4, x86_nvfp4, nvfp4)
LAYOUT(FT_TQ3_1S, x86_tq3_1s, tq3_1s)
LAYOUT(FT_TQ4_1S, x86_tq4_1s, tq4_1s)
LAYOUT(FT_TQ1_0, x86_trits, tq1_0)
LAYOUT(FT_TQ2_0, x86_trits, tq2_0)
LAYOUT(FT_Q1_0, x86_trits, q1_0)
LAYOUT(FT_Q2_0, x86_trits, q2_0)

void ft_x86_pack(ft_kern *k)
{
    static const struct {
        ft_type type;
        size_t (*bytes)(int k);
        void (*rows)(unsigned char *to, const unsigned char *from, size_t row_bytes, int k);
    } layout[] = {
        {FT_Q8_0, q8_0_bytes, q8_0_rows},          {FT_Q4_0, q4_0_bytes, q4_0_rows},
        {FT_IQ4_NL, q4_0_bytes, q4_0_rows},        {FT_Q4_1, q4_1_bytes, q4_1_rows},
        {FT_Q5_0, q5_0_bytes, q5_0_rows},          {FT_Q5_1, q5_1_bytes, q5_1_rows},
        {FT_Q2_K, q2_k_bytes, q2_k_rows},          {FT_Q3_K, q3_k_bytes, q3_k_rows},
        {FT_Q4_K, q4_k_bytes, q4_k_rows},          {FT_Q5_K, q5_k_bytes, q5_k_rows},
        {FT_Q6_K, q6_k_bytes, q6_k_rows},          {FT_IQ4_XS, iq4_xs_bytes, iq4_xs_rows},
        {FT_IQ3_XXS, iq3_xxs_bytes, iq3_xxs_rows}, {FT_IQ3_S, iq3_s_bytes, iq3_s_rows},
        {FT_IQ2_XXS, iq2_xxs_bytes, iq2_xxs_rows}, {FT_IQ2_XS, iq2_xs_bytes, iq2_xs_rows},
        {FT_IQ2_S, iq2_s_bytes, iq2_s_rows},       {FT_IQ1_S, iq1_s_bytes, iq1_s_rows},
        {FT_IQ1_M, iq1_m_bytes, iq1_m_rows},       {FT_MXFP4, mxfp4_bytes, mxfp4_rows},
        {FT_NVFP4, nvfp4_bytes, nvfp4_rows},       {FT_TQ1_0, tq1_0_bytes, tq1_0_rows},
        {FT_TQ2_0, tq2_0_bytes, tq2_0_rows},       {FT_Q1_0, q1_0_bytes, q1_0_rows},
        {FT_Q2_0, q2_0_bytes, q2_0_rows},          {FT_Q2_0_FORK, q2_0_bytes, q2_0_rows},
        {FT_TQ3_1S, tq3_1s_bytes, tq3_1s_rows},    {FT_TQ4_1S, tq4_1s_bytes, tq4_1s_rows},
    };
    for (size_t i = 0; i < FT_COUNT(layout); i++) {
        ft_pack *p = &k->pack[layout[i].type];
        p->group = PACK_ROWS;
        p->bytes = layout[i].bytes;
        p->rows = layout[i].rows;
    }
}
