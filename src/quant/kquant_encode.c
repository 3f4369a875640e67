/* Encoders of the 256-value blocks: Q2_K to Q6_K. */
#include "base/mem.h"
#include "quant/family.h"
#include "quant/super.h"

/* ---- a scale and a min per sub-block: Q2_K, Q4_K, Q5_K ---- */

typedef struct mins {
    v4 scale[4], min[4]; /* integers; the min is subtracted */
    float d, dmin;       /* normalised */
} mins;

/* Error of one group when its scale is s and its min m (both in units of x). */
INLINE v4 line_error(const v4 *x, const v4 *w, int n, float hi, v4 s, v4 m)
{
    const v4 spacing = ratio(splat(1), s);
    v4 sum = splat(0);
    for (int i = 0; i < n; i++) {
        const v4 t = x[i] + m;
        const v4 e = t - s * clamp(whole(t * spacing), splat(0), splat(hi));
        sum += w ? w[i] * e * e : e * e;
    }
    return sum;
}

/* Tries the neighbours of the rounded scale and min of one group. */
INLINE void line_polish(const v4 *x, const v4 *w, int n, float hi, mins *k, int g, float top)
{
    static const int8_t step[][2] = {{0, 0}, {1, 0}, {-1, 0}, {0, 1}, {0, -1}, {1, 1}, {-1, -1}};
    const v4 scale = k->scale[g], min = k->min[g];
    v4 best = splat(0);
    for (size_t t = 0; t < FT_COUNT(step); t++) {
        const v4 s = clamp(scale + splat(step[t][0]), splat(0), splat(top));
        const v4 m = clamp(min + splat(step[t][1]), splat(0), splat(top));
        const v4 e = line_error(x, w, n, hi, s * splat(k->d), m * splat(k->dmin));
        if (t == 0) {
            best = e;
            continue;
        }
        const m4 better = e < best;
        best = pick(better, e, best);
        k->scale[g] = pick(better, s, k->scale[g]);
        k->min[g] = pick(better, m, k->min[g]);
    }
}

/* The d and dmin of the block with the least squared error for the chosen sub-scales and quants. */
INLINE void line_refit(const super *s, bool weighted, int n, float hi, mins *k)
{
    v4 aa = splat(0), ab = splat(0), bb = splat(0), ax = splat(0), bx = splat(0);
    for (int g = 0; g < SUPER / LANES / n; g++) {
        const v4 *x = s->lane + g * n, *w = weighted ? s->weight + g * n : NULL;
        const v4 sc = k->scale[g], mn = k->min[g];
        const v4 spacing = ratio(splat(1), sc * splat(k->d)), m = mn * splat(k->dmin);
        v4 qq = splat(0), q1 = splat(0), qx = splat(0), w1 = splat(0), wx = splat(0);
        for (int i = 0; i < n; i++) {
            const v4 q = clamp(whole((x[i] + m) * spacing), splat(0), splat(hi));
            const v4 wq = w ? w[i] * q : q;
            qq += wq * q;
            q1 += wq;
            qx += wq * x[i];
            w1 += w ? w[i] : splat(1);
            wx += w ? w[i] * x[i] : x[i];
        }
        const v4 part = s->share[g];
        aa += part * sc * sc * qq;
        ab += part * sc * mn * q1;
        bb += part * mn * mn * w1;
        ax += part * sc * qx;
        bx += part * mn * wx;
    }
    const float a2 = sum4(aa), c = sum4(ab), b2 = sum4(bb), p = sum4(ax), r = sum4(bx);
    const float det = a2 * b2 - c * c;
    if (det > 1e-6f * a2 * b2) {
        const float d = (p * b2 - r * c) / det, dmin = (p * c - r * a2) / det;
        if (d > 0 && dmin >= 0) {
            k->d = d;
            k->dmin = dmin;
        }
    } else if (a2 > 0 && b2 == 0 && p > 0) {
        k->d = p / a2;
    }
}

static float largest(const v4 *v, int groups)
{
    float top = 0;
    for (int g = 0; g < groups; g++)
        for (int l = 0; l < LANES; l++) top = FT_MAX(top, v[g][l]);
    return top;
}

typedef struct recipe {
    const cut *trial; /* of fit_line */
    int trials, refits;
} recipe;

/* n values per sub-block, quants up to hi, sub-scales up to top; d and dmin are written at dst. */
INLINE void fit_mins(mins *k, const super *s, bool weighted, int n, float hi, float top, recipe how,
                     uint8_t *dst)
{
    const int groups = SUPER / LANES / n;
    v4 scale[4], min[4];
    for (int g = 0; g < groups; g++) {
        const line l = fit_line(s->lane + g * n, weighted ? s->weight + g * n : NULL, n, hi, true,
                                how.trial, how.trials, how.refits);
        scale[g] = l.scale;
        min[g] = -l.min;
    }
    k->d = wr_f16(dst, largest(scale, groups) / top * s->unit) / s->unit;
    k->dmin = wr_f16(dst + 2, largest(min, groups) / top * s->unit) / s->unit;
    for (int g = 0; g < groups; g++) {
        const v4 sc = whole(scale[g] * splat(ratio1(1, k->d)));
        const v4 mn = whole(min[g] * splat(ratio1(1, k->dmin)));
        k->scale[g] = clamp(sc, splat(0), splat(top));
        k->min[g] = clamp(mn, splat(0), splat(top));
        line_polish(s->lane + g * n, weighted ? s->weight + g * n : NULL, n, hi, k, g, top);
    }
    line_refit(s, weighted, n, hi, k);
    k->d = wr_f16(dst, k->d * s->unit) / s->unit;
    k->dmin = wr_f16(dst + 2, k->dmin * s->unit) / s->unit;
}

INLINE void mins_quantise(uint8_t *restrict code, const super *s, const mins *k, int n, float hi)
{
    for (int b = 0; b < SUPER / n; b++) {
        const float scale = k->d * k->scale[b / LANES][b % LANES];
        const float min = k->dmin * k->min[b / LANES][b % LANES], inverse = ratio1(1, scale);
        quantise(code + n * b, s->x + n * b, n, inverse, min * inverse, 0, hi);
    }
}

/* Parts of the range to cut off: some at both ends, some at one. */
static const cut plain2[] = {{-0.05f, -0.05f}, {0, 0},         {0.05f, 0.05f},
                             {0.1f, 0.1f},     {0.15f, 0.15f}, {0.2f, 0.2f}};
static const cut plain4[] = {{-0.01f, -0.01f}, {0, 0},           {0.02f, 0.02f}, {0.04f, 0.04f},
                             {0.06f, 0.06f},   {0.085f, 0.085f}, {0, 0.05f},     {0.05f, 0},
                             {0, 0.1f},        {0.1f, 0}};
static const cut plain5[] = {{-0.01f, -0.01f}, {0, 0},         {0.015f, 0.015f},
                             {0.03f, 0.03f},   {0.05f, 0.05f}, {0, 0.03f},
                             {0.03f, 0},       {0, 0.06f},     {0.06f, 0}};

static const recipe recipe2 = {plain2, FT_COUNT(plain2), 2};
static const recipe recipe4 = {plain4, FT_COUNT(plain4), 2};
static const recipe recipe5 = {plain5, FT_COUNT(plain5), 2};
static const recipe weighed4 = {ft_cut4, FT_COUNT(ft_cut4), 3};
static const recipe weighed5 = {ft_cut5, FT_COUNT(ft_cut5), 3};

void ft_encode_q2_k(uint8_t *dst, const float *src, size_t blocks, const float *weight)
{
    for (; blocks--; dst += 84, src += SUPER) {
        super s;
        mins k;
        uint8_t code[SUPER];
        super_load(&s, src, weight, 16);
        if (weight) {
            fit_mins(&k, &s, true, 16, 3, 15, weighed4, dst + 80);
            weight += SUPER;
        } else {
            fit_mins(&k, &s, false, 16, 3, 15, recipe2, dst + 80);
        }
        mins_quantise(code, &s, &k, 16, 3);
        for (int b = 0; b < 16; b++)
            dst[b] = (uint8_t)((int)k.scale[b / 4][b % 4] | (int)k.min[b / 4][b % 4] << 4);
        for (int h = 0; h < 2; h++)
            for (int r = 0; r < 32; r++) {
                const uint8_t *c = code + 128 * h + r;
                dst[16 + 32 * h + r] = (uint8_t)(c[0] | c[32] << 2 | c[64] << 4 | c[96] << 6);
            }
    }
}

static void put_scale_min_k4(uint8_t *restrict s, const mins *k)
{
    for (int b = 0; b < 4; b++) {
        const int sc = (int)k->scale[0][b], mn = (int)k->min[0][b];
        const int sc4 = (int)k->scale[1][b], mn4 = (int)k->min[1][b];
        s[b] = (uint8_t)(sc | sc4 >> 4 << 6);
        s[b + 4] = (uint8_t)(mn | mn4 >> 4 << 6);
        s[b + 8] = (uint8_t)((sc4 & 15) | (mn4 & 15) << 4);
    }
}

static void put_low_bits(uint8_t *restrict qs, const uint8_t *restrict code)
{
    for (int p = 0; p < 128; p += 16) {
        const uint8_t *low = code + 64 * (p / 32) + p % 32;
        put_nibbles(qs + p, low, low + 32);
    }
}

void ft_encode_q4_k(uint8_t *dst, const float *src, size_t blocks, const float *weight)
{
    for (; blocks--; dst += 144, src += SUPER) {
        super s;
        mins k;
        uint8_t code[SUPER];
        super_load(&s, src, weight, 32);
        if (weight) {
            fit_mins(&k, &s, true, 32, 15, 63, weighed4, dst);
            weight += SUPER;
        } else {
            fit_mins(&k, &s, false, 32, 15, 63, recipe4, dst);
        }
        mins_quantise(code, &s, &k, 32, 15);
        put_scale_min_k4(dst + 4, &k);
        put_low_bits(dst + 16, code);
    }
}

void ft_encode_q5_k(uint8_t *dst, const float *src, size_t blocks, const float *weight)
{
    for (; blocks--; dst += 176, src += SUPER) {
        super s;
        mins k;
        uint8_t code[SUPER];
        super_load(&s, src, weight, 32);
        if (weight) {
            fit_mins(&k, &s, true, 32, 31, 63, weighed5, dst);
            weight += SUPER;
        } else {
            fit_mins(&k, &s, false, 32, 31, 63, recipe5, dst);
        }
        mins_quantise(code, &s, &k, 32, 31);
        put_scale_min_k4(dst + 4, &k);
        for (int r = 0; r < 32; r++) {
            int high = 0;
            for (int b = 0; b < 8; b++) high |= (code[32 * b + r] >> 4) << b;
            dst[16 + r] = (uint8_t)high;
        }
        put_low_bits(dst + 48, code);
    }
}

/* ---- a signed scale per sub-block of 16: Q3_K, Q6_K ---- */

typedef struct scales {
    v4 scale[4]; /* integers */
    float d;     /* normalised */
} scales;

INLINE v4 scale_error(const v4 *x, const v4 *w, float lo, float hi, v4 s)
{
    const v4 spacing = ratio(splat(1), s);
    v4 sum = splat(0);
    for (int i = 0; i < 16; i++) {
        const v4 e = x[i] - s * clamp(whole(x[i] * spacing), splat(lo), splat(hi));
        sum += w ? w[i] * e * e : e * e;
    }
    return sum;
}

INLINE void scale_polish(const v4 *x, const v4 *w, float lo, float hi, v4 *scale, float d,
                         float bottom)
{
    const v4 start = *scale;
    v4 best = scale_error(x, w, lo, hi, start * splat(d));
    for (int step = -1; step <= 1; step += 2) {
        const v4 t = clamp(start + splat((float)step), splat(bottom), splat(-bottom - 1));
        const v4 e = scale_error(x, w, lo, hi, t * splat(d));
        const m4 better = e < best;
        best = pick(better, e, best);
        *scale = pick(better, t, *scale);
    }
}

INLINE float scale_refit(const super *s, bool weighted, float lo, float hi, const scales *k)
{
    v4 qq = splat(0), qx = splat(0);
    for (int g = 0; g < 4; g++) {
        const v4 *x = s->lane + 16 * g, *w = weighted ? s->weight + 16 * g : NULL;
        const v4 sc = k->scale[g], spacing = ratio(splat(1), sc * splat(k->d));
        v4 a = splat(0), b = splat(0);
        for (int i = 0; i < 16; i++) {
            const v4 q = clamp(whole(x[i] * spacing), splat(lo), splat(hi));
            const v4 wq = w ? w[i] * q : q;
            a += wq * q;
            b += wq * x[i];
        }
        qq += s->share[g] * sc * sc * a;
        qx += s->share[g] * sc * b;
    }
    const float a = sum4(qq), b = sum4(qx);
    return a > 0 && b / a * k->d > 0 ? b / a : k->d;
}

/* Quants in [lo, hi], sub-scales in [bottom, -bottom - 1]; d is written at dst. */
INLINE void fit_scales(scales *k, const super *s, bool weighted, float lo, float hi, float bottom,
                       const float *trial, int trials, bool polish, uint8_t *dst)
{
    v4 scale[4];
    float top = 0;
    for (int g = 0; g < 4; g++) {
        const v4 *w = weighted ? s->weight + 16 * g : NULL;
        scale[g] = fit_scale(s->lane + 16 * g, w, 16, lo, hi, trial, trials);
        for (int l = 0; l < LANES; l++)
            if (scale[g][l] * scale[g][l] > top * top) top = scale[g][l];
    }
    k->d = wr_f16(dst, top / bottom * s->unit) / s->unit;
    for (int g = 0; g < 4; g++) {
        const v4 *w = weighted ? s->weight + 16 * g : NULL;
        const v4 sc = whole(scale[g] * splat(ratio1(1, k->d)));
        k->scale[g] = clamp(sc, splat(bottom), splat(-bottom - 1));
        if (polish) scale_polish(s->lane + 16 * g, w, lo, hi, &k->scale[g], k->d, bottom);
    }
    k->d = wr_f16(dst, scale_refit(s, weighted, lo, hi, k) * s->unit) / s->unit;
}

/* code = q - lo */
INLINE void scales_quantise(uint8_t *restrict code, const super *s, const scales *k, float lo,
                            float hi)
{
    for (int b = 0; b < 16; b++) {
        const float inverse = ratio1(1, k->d * k->scale[b / LANES][b % LANES]);
        quantise(code + 16 * b, s->x + 16 * b, 16, inverse, -lo, 0, hi - lo);
    }
}

static const float plain3[] = {-4, -3.5f, -4.5f, -5, 3.2f};
static const float wide3[] = {-4, -3.3f, -3.6f, -4.4f, -4.8f, -5.3f, -6, -7, 3, 3.5f, 4, 5};
static const float plain6[] = {-32, -31.3f, -31.6f, -32.4f, -32.8f, -33.3f, 31.4f, 32};
static const float wide6[] = {-32, -31.3f, -31.7f, -32.4f, -32.8f, -33.3f, -34,
                              -35, -36.5f, -38.5f, -41,    -45,    -50,    31};

void ft_encode_q3_k(uint8_t *dst, const float *src, size_t blocks, const float *weight)
{
    for (; blocks--; dst += 110, src += SUPER) {
        super s;
        scales k;
        uint8_t code[SUPER];
        super_load(&s, src, weight, 16);
        if (weight) {
            fit_scales(&k, &s, true, -4, 3, -32, wide3, FT_COUNT(wide3), true, dst + 108);
            weight += SUPER;
        } else {
            fit_scales(&k, &s, false, -4, 3, -32, plain3, FT_COUNT(plain3), true, dst + 108);
        }
        scales_quantise(code, &s, &k, -4, 3);
        memset(dst, 0, 108);
        for (int b = 0; b < 8; b++)
            for (int r = 0; r < 32; r++) {
                dst[r] |= (uint8_t)(code[32 * b + r] >> 2 << b);
                dst[32 + 32 * (b / 4) + r] |= (uint8_t)((code[32 * b + r] & 3) << 2 * (b % 4));
            }
        for (int b = 0; b < 16; b++) {
            const int sc = (int)k.scale[b / 4][b % 4] + 32;
            dst[96 + b % 8] |= (uint8_t)((sc & 15) << 4 * (b / 8));
            dst[104 + b % 4] |= (uint8_t)(sc >> 4 << 2 * (b / 4));
        }
    }
}

void ft_encode_q6_k(uint8_t *dst, const float *src, size_t blocks, const float *weight)
{
    for (; blocks--; dst += 210, src += SUPER) {
        super s;
        scales k;
        uint8_t code[SUPER];
        super_load(&s, src, weight, 16);
        if (weight) {
            fit_scales(&k, &s, true, -32, 31, -128, wide6, FT_COUNT(wide6), false, dst + 208);
            weight += SUPER;
        } else {
            fit_scales(&k, &s, false, -32, 31, -128, plain6, FT_COUNT(plain6), false, dst + 208);
        }
        scales_quantise(code, &s, &k, -32, 31);
        for (int b = 0; b < 16; b++) dst[192 + b] = (uint8_t)(int8_t)k.scale[b / 4][b % 4];
        for (int h = 0; h < 2; h++)
            for (int r = 0; r < 32; r++) {
                const uint8_t *c = code + 128 * h + r;
                dst[64 * h + r] = (uint8_t)((c[0] & 15) | c[64] << 4);
                dst[64 * h + 32 + r] = (uint8_t)((c[32] & 15) | c[96] << 4);
                dst[128 + 32 * h + r] =
                    (uint8_t)(c[0] >> 4 | c[32] >> 4 << 2 | c[64] >> 4 << 4 | c[96] >> 4 << 6);
            }
    }
}
