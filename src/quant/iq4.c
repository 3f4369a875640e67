/* IQ4_NL and IQ4_XS: four-bit indices into a table of sixteen non-uniform steps. */
#include "base/mem.h"
#include "quant/quad.h"
#include "quant/super.h"

const int8_t ft_iq4_value[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                 1,    13,   25,  38,  53,  69,  89,  113};

void ft_decode_iq4_nl(float *dst, const uint8_t *src, size_t blocks)
{
    for (; blocks--; src += 18, dst += 32) {
        const float d = rd_f16(src);
        for (int i = 0; i < 32; i++)
            dst[i] = d * (float)ft_iq4_value[src[2 + i % 16] >> 4 * (i / 16) & 15];
    }
}

void ft_decode_iq4_xs(float *dst, const uint8_t *src, size_t blocks)
{
    for (; blocks--; src += 136, dst += 256) {
        const float d = rd_f16(src);
        const int high = rd16(src + 2);
        for (int b = 0; b < 8; b++) {
            const int ls = (src[4 + b / 2] >> 4 * (b % 2) & 15) | (high >> 2 * b & 3) << 4;
            const float scale = d * (float)(ls - 32);
            const uint8_t *qs = src + 8 + 16 * b;
            for (int i = 0; i < 32; i++)
                dst[32 * b + i] = scale * (float)ft_iq4_value[qs[i % 16] >> 4 * (i / 16) & 15];
        }
    }
}

/* A value above limit[j] is nearer to step j + 1 than to step j. */
static const float limit[15] = {-115.5f, -93.5f, -74,   -57,   -42, -28.5f, -16, -4.5f,
                                7,       19,     31.5f, 45.5f, 61,  79,     101};
static const float rise[15] = {23, 21, 18, 16, 14, 13, 12, 11, 12, 12, 13, 15, 16, 20, 24};

INLINE v4 nearest_step(v4 t)
{
    v4 v = splat(-127);
    for (int j = 0; j < 15; j++) v += (v4)((m4)splat(rise[j]) & (t > splat(limit[j])));
    return v;
}

/* Like fit_scale, with the sixteen steps in place of integers. */
INLINE v4 fit_steps(const v4 *x, const v4 *w)
{
    static const float trial[] = {-127, -119, -110, -136, 113, 122};
    const v4 inverse = ratio(splat(1), extreme(x, N));
    v4 scale = splat(0), best = splat(0);
    for (size_t t = 0; t <= FT_COUNT(trial); t++) {
        const v4 spacing = t < FT_COUNT(trial) ? inverse * splat(trial[t]) : ratio(splat(1), scale);
        v4 xq = splat(0), qq = splat(0);
        for (int i = 0; i < N; i++) {
            const v4 q = nearest_step(x[i] * spacing), wq = w ? w[i] * q : q;
            xq += wq * x[i];
            qq += wq * q;
        }
        const v4 s = ratio(xq, qq), gain = s * xq;
        const m4 better = gain > best;
        best = pick(better, gain, best);
        scale = pick(better, s, scale);
    }
    return scale;
}

static void put_steps(uint8_t *restrict qs, const float *restrict x, float scale)
{
    const float inverse = ratio1(1, scale);
    int code[N] = {0};
    for (int j = 0; j < 15; j++)
        for (int i = 0; i < N; i++) code[i] += x[i] * inverse > limit[j];
    for (int i = 0; i < 16; i++) qs[i] = (uint8_t)(code[i] | code[i + 16] << 4);
}

void ft_encode_iq4_nl(uint8_t *dst, const float *src, size_t blocks, const float *weight)
{
    for (size_t n; blocks; blocks -= n) {
        quad q;
        n = quad_load(&q, src, blocks, weight, false);
        const v4 scale = weight ? fit_steps(q.lane, q.weight) : fit_steps(q.lane, NULL);
        const v4 seen = quad_put(&q, dst, 18, n, scale);
        for (size_t b = 0; b < n; b++, dst += 18, src += N)
            put_steps(dst + 2, q.x + N * b, seen[b]);
        if (weight) weight += n * N;
    }
}

/* The block scale with the least squared error for the chosen sub-scales and steps. */
INLINE float steps_refit(const super *s, bool weighted, const v4 sub[2], float d)
{
    v4 qq = splat(0), qx = splat(0);
    for (int g = 0; g < 2; g++) {
        const v4 *x = s->lane + N * g, *w = weighted ? s->weight + N * g : NULL;
        const v4 spacing = ratio(splat(1), sub[g] * splat(d));
        v4 a = splat(0), b = splat(0);
        for (int i = 0; i < N; i++) {
            const v4 q = nearest_step(x[i] * spacing), wq = w ? w[i] * q : q;
            a += wq * q;
            b += wq * x[i];
        }
        qq += s->share[g] * sub[g] * sub[g] * a;
        qx += s->share[g] * sub[g] * b;
    }
    const float a = sum4(qq), b = sum4(qx);
    return a > 0 && b / a * d > 0 ? b / a : d;
}

INLINE float fit_super(v4 sub[2], const super *s, bool weighted, uint8_t *dst)
{
    v4 scale[2];
    float top = 0;
    for (int g = 0; g < 2; g++) {
        scale[g] = fit_steps(s->lane + N * g, weighted ? s->weight + N * g : NULL);
        for (int l = 0; l < LANES; l++)
            if (scale[g][l] * scale[g][l] > top * top) top = scale[g][l];
    }
    const float d = wr_f16(dst, top / -32 * s->unit) / s->unit;
    for (int g = 0; g < 2; g++)
        sub[g] = clamp(whole(scale[g] * splat(ratio1(1, d))), splat(-32), splat(31));
    return wr_f16(dst, steps_refit(s, weighted, sub, d) * s->unit) / s->unit;
}

void ft_encode_iq4_xs(uint8_t *dst, const float *src, size_t blocks, const float *weight)
{
    for (; blocks--; dst += 136, src += SUPER) {
        super s;
        v4 sub[2];
        super_load(&s, src, weight, N);
        const float d = weight ? fit_super(sub, &s, true, dst) : fit_super(sub, &s, false, dst);
        if (weight) weight += SUPER;
        memset(dst + 4, 0, 4);
        uint32_t high = 0;
        for (int b = 0; b < 8; b++) {
            const float sc = sub[b / LANES][b % LANES];
            const uint32_t ls = (uint32_t)((int)sc + 32);
            dst[4 + b / 2] |= (uint8_t)((ls & 15) << 4 * (b % 2));
            high |= ls >> 4 << 2 * b;
            put_steps(dst + 8 + 16 * b, s.x + N * b, d * sc);
        }
        wr16(dst + 2, high);
    }
}
