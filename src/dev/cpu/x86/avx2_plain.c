/* AVX2: f32 kernels, and quantisation of activations to bytes. */
#include "dev/cpu/x86/avx2_vec.h"

enum { TILE_ROWS = 2, DOT_ROWS = 3 };

#include "dev/cpu/x86/plain.h"

/* The sum of sixteen bytes. */
INLINE int sum16(__m128i v)
{
    const __m128i pairs = _mm_maddubs_epi16(_mm_set1_epi8(1), v);
    __m128i s = _mm_madd_epi16(pairs, _mm_set1_epi16(1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

/* The sums of 32 bytes (x86/pack.h); step: from one array to the next. */
INLINE void put_sums(float *s, int32_t *t, int step, const int8_t *q)
{
    const int first = sum16(_mm_loadu_si128((const void *)q));
    const int last = sum16(_mm_loadu_si128((const void *)(q + 16))), all = first + last;
    /* in the order of x86_start */
    static const int raise[] = {128, 64, 32, 16, 8, 1}, raise_half[] = {128, 64, 32, 16, 4};
    s[0] = (float)first;
    s[step] = (float)last;
    s[SUM_32 * step] = (float)all;
    UNROLL for (int i = 0; i < 6; i++) t[i * step] = BASE_BITS - raise[i] * all;
    UNROLL for (int i = 0; i < 5; i++)
    {
        t[(6 + 2 * i) * step] = BASE_BITS - raise_half[i] * first;
        t[(7 + 2 * i) * step] = BASE_BITS - raise_half[i] * last;
    }
}

/* The largest magnitude is compared as bits: a NaN is above every number and is propagated. */
static void quantise(ft_col8 to, const float *x, int lo, int hi, int k)
{
    const vi magnitude = v_set32(0x7fffffff);
    const int blocks = k / FT_BLOCK8;
    for (int b = lo / FT_BLOCK8; b < hi / FT_BLOCK8; b++, x += FT_BLOCK8) {
        int8_t *q = (int8_t *)to.q + FT_BLOCK8 * b;
        vi top = v_zero(), out[4];
        UNROLL for (int j = 0; j < 4; j++) top =
            _mm256_max_epi32(top, v_and(v_load(x + W * j), magnitude));
        __m128i m = _mm_max_epi32(_mm256_castsi256_si128(top), _mm256_extracti128_si256(top, 1));
        m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
        m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
        const float amax = _mm_cvtss_f32(_mm_castsi128_ps(m)), inv = amax > 0 ? 127.0f / amax : 0;
        UNROLL for (int j = 0; j < 4; j++) out[j] =
            _mm256_cvtps_epi32(f_mul(f_load(x + W * j), f_set1(inv)));
        const vi words0 = _mm256_packs_epi32(out[0], out[1]);
        const vi words1 = _mm256_packs_epi32(out[2], out[3]);
        const vi bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(words0, words1),
                                                     _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        _mm256_storeu_si256((void *)q, bytes);
        ((float *)to.d)[b] = amax / 127.0f;
        put_sums((float *)to.s + b, (int32_t *)to.t + b, blocks, q);
    }
}

void ft_kern_avx2_plain(ft_kern *k)
{
    fill_plain(k);
    k->dot8[FT_TQ3_1S] = k->dot8[FT_TQ4_1S] = NULL; /* single rows of packed weights are decoded */
    k->quantise = quantise;
}
