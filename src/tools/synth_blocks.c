#include "tools/synth_blocks.h"

#include "base/half.h"
#include "base/mem.h"
#include "base/rng.h"
#include "quant/quant.h"

#include <assert.h>
#include <math.h>

static void put16(unsigned char *p, uint16_t v)
{
    p[0] = (unsigned char)v;
    p[1] = (unsigned char)(v >> 8);
}

static void put_half(unsigned char *p, double v)
{
    put16(p, ft_f32_to_f16((float)v));
}

/* A scale with a random sign, so that quants that are not symmetric around zero have mean zero over
 * many blocks. */
static double either_sign(ft_rng *r, double d)
{
    return ft_rng_u64(r) & 1 ? d : -d;
}

/* The 12 scale bytes of Q4_K and Q5_K: the minimum of each sub-block gets the code of its scale, so
 * that one dmin centres all sub-blocks. */
static void same_mins(unsigned char s[12])
{
    for (int i = 0; i < 4; i++) {
        s[4 + i] = s[i];
        s[8 + i] = (unsigned char)((s[8 + i] & 15) | (s[8 + i] & 15) << 4);
    }
}

/* The two-bit codes 0 1 2 3 mean -1 0 1 2 in these types. Without code 3 the mean is zero. */
static void no_threes(unsigned char *q, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned both = q[i] & (q[i] >> 1) & 0x55u;
        q[i] = (unsigned char)(q[i] & ~(both << 1)); /* 3 becomes 1 */
    }
}

static void patch_iq1_m(unsigned char *b, double d)
{
    const uint16_t h = ft_f32_to_f16((float)d);
    for (int i = 0; i < 4; i++) {
        unsigned char *top = b + 48 + 2 * i + 1;
        *top = (unsigned char)((*top & 15) | ((h >> (4 * i)) & 15) << 4);
    }
}

/* The unsigned 8-bit float of NVFP4 that is nearest to v, never zero. */
static unsigned char nearest_ue4m3(double v)
{
    int best = 1;
    double err = (double)INFINITY;
    for (int c = 1; c < 0x7f; c++) {
        const int e = c >> 3, m = c & 7;
        const double u = 0.5 * (e ? ldexp(1 + m / 8.0, e - 7) : ldexp(m, -9));
        if (fabs(u - v) >= err) continue;
        err = fabs(u - v);
        best = c;
    }
    return (unsigned char)best;
}

static void patch_fp4(ft_type t, unsigned char *b, double d)
{
    if (t == FT_MXFP4) { /* a power of two: 2^(e - 128) */
        const long e = lrint(log2(d)) + 128;
        b[0] = (unsigned char)FT_MAX(1, FT_MIN(e, 254));
    } else {
        memset(b, nearest_ue4m3(d), 4);
    }
}

/* Sets the scale of a block of random bytes to d. */
static void set_block_scale(ft_type t, unsigned char *b, double d, ft_rng *r)
{
    switch (t) {
    case FT_Q4_0:
    case FT_Q5_0:
    case FT_Q8_0:
    case FT_IQ4_NL:
    case FT_IQ4_XS:
    case FT_Q1_0: put_half(b, either_sign(r, d)); break;
    case FT_Q4_1: put_half(b, d), put_half(b + 2, -7.5 * d); break;
    case FT_Q5_1: put_half(b, d), put_half(b + 2, -15.5 * d); break;
    case FT_Q2_K:
        for (int i = 0; i < 16; i++) b[i] = (unsigned char)((b[i] & 15) | (b[i] & 15) << 4);
        put_half(b + 80, d), put_half(b + 82, 1.5 * d);
        break;
    case FT_Q3_K: put_half(b + 108, either_sign(r, d)); break;
    case FT_Q4_K: put_half(b, d), put_half(b + 2, 7.5 * d), same_mins(b + 4); break;
    case FT_Q5_K: put_half(b, d), put_half(b + 2, 15.5 * d), same_mins(b + 4); break;
    case FT_Q6_K: put_half(b + 208, either_sign(r, d)); break;
    case FT_IQ2_XXS:
    case FT_IQ2_XS:
    case FT_IQ2_S:
    case FT_IQ3_XXS:
    case FT_IQ3_S:
    case FT_IQ1_S: put_half(b, d); break;
    case FT_IQ1_M: patch_iq1_m(b, d); break;
    case FT_TQ1_0: put_half(b + 52, either_sign(r, d)); break;
    case FT_TQ2_0: no_threes(b, 64), put_half(b + 64, d); break;
    case FT_Q2_0:
    case FT_Q2_0_FORK: put_half(b, d), no_threes(b + 2, 16); break;
    case FT_TQ3_1S:
    case FT_TQ4_1S: put_half(b, either_sign(r, d)), put_half(b + 2, either_sign(r, d)); break;
    case FT_MXFP4:
    case FT_NVFP4: patch_fp4(t, b, d); break;
    case FT_F32: {
        const float v = (float)(d * ft_rng_normal(r));
        memcpy(b, &v, 4);
        break;
    }
    case FT_F16: put_half(b, d * ft_rng_normal(r)); break;
    case FT_BF16: put16(b, ft_f32_to_bf16((float)(d * ft_rng_normal(r)))); break;
    default: assert(!"a type without random blocks");
    }
}

bool ft_tile_can(ft_type type)
{
    return ft_type_of(type)->quant || type == FT_F32 || type == FT_F16 || type == FT_BF16;
}

static void fill_tile(ft_tile *t, size_t blocks, double d, uint64_t seed)
{
    const size_t size = ft_type_of(t->type)->bytes;
    ft_rng r = {seed};
    for (size_t i = 0; i < blocks; i++) {
        unsigned char *b = t->data + i * size;
        for (size_t k = 0; k < size; k += 8) {
            const uint64_t bits = ft_rng_u64(&r);
            memcpy(b + k, &bits, FT_MIN(size - k, (size_t)8));
        }
        set_block_scale(t->type, b, d, &r);
    }
}

/* Standard deviation around zero of the values of the first blocks. */
static double measure_deviation(const ft_tile *t, size_t blocks)
{
    const ft_type_info *info = ft_type_of(t->type);
    float v[256];
    double sum = 0;
    for (size_t i = 0; i < blocks; i++) {
        ft_row_decode(t->type, v, t->data + i * info->bytes, info->elems);
        for (int k = 0; k < info->elems; k++) sum += (double)v[k] * (double)v[k];
    }
    return sqrt(sum / (double)(blocks * info->elems));
}

static bool is_prime(size_t n)
{
    for (size_t i = 2; i * i <= n; i++)
        if (n % i == 0) return false;
    return n > 1;
}

void ft_tile_init(ft_tile *t, ft_type type, double deviation, size_t about, uint64_t seed)
{
    const size_t size = ft_type_of(type)->bytes, probe = 512;
    size_t blocks = FT_MAX(about / size, probe);
    while (!is_prime(blocks)) blocks++;
    *t = (ft_tile){type, deviation, ft_alloc(blocks * size), blocks, blocks * size};
    double unit = 1; /* standard deviation at scale 1; always 1 for types without blocks */
    if (ft_type_of(type)->quant) {
        fill_tile(t, probe, 1, seed);
        unit = measure_deviation(t, probe);
    }
    fill_tile(t, blocks, deviation / unit, seed);
}

void ft_tile_release(ft_tile *t)
{
    ft_free(t->data);
    *t = (ft_tile){0};
}
