/* AVX-512 VNNI: products of types with blocks of 256 and up to eight columns (wide.h). */
#include "dev/cpu/x86/wide.h"

INLINE vi v_dot4(vi start, vi u, vi s)
{
    return _mm512_dpbusd_epi32(start, u, s);
}

#include "dev/cpu/x86/vnni.h"

#include "dev/cpu/x86/packed.h"

static void put_sums(wide_sums *s, const int8_t *q)
{
    static const int raise16[] = {4, 16, 32, 64}, raise32[] = {16, 32, 64, 128};
    for (int i = 0; i < 4; i++) { /* sixteen sums of four values each */
        _Alignas(64) int32_t four[16];
        _mm512_store_si512(four, v_dot4(v_zero(), v_set8(1), v_load(q + 64 * i)));
        for (int j = 0; j < 16; j += 4)
            s->sum16[4 * i + j / 4] = (int16_t)(four[j] + four[j + 1] + four[j + 2] + four[j + 3]);
    }
    for (int i = 0; i < 8; i++) s->sum32[i] = (int16_t)(s->sum16[2 * i] + s->sum16[2 * i + 1]);
    for (int r = 0; r < 4; r++) {
        for (int i = 0; i < 16; i++) s->start16[r][i] = -raise16[r] * s->sum16[i];
        for (int i = 0; i < 8; i++) s->start32[r][i] = -raise32[r] * s->sum32[i];
    }
}

static void quantise_wide(ft_col8 to, const float *x, int lo, int hi)
{
    const vi magnitude = v_set32(0x7fffffff);
    for (int b = lo / LONG; b < hi / LONG; b++, x += LONG) {
        int8_t *q = (int8_t *)to.q + LONG * b;
        wide_sums *s = (wide_sums *)(void *)to.t + b;
        vi top = v_zero();
        for (int i = 0; i < LONG; i += W)
            top = _mm512_max_epi32(top, v_and(v_load(x + i), magnitude));
        const float amax = ft_f32_of_bits((uint32_t)_mm512_reduce_max_epi32(top));
        const vf inv = f_set1(amax > 0 ? 127.0f / amax : 0);
        ((float *)to.d)[b] = amax / 127.0f;
        for (int i = 0; i < 16; i++) {
            const vi v = _mm512_cvtps_epi32(f_mul(f_load(x + 16 * i), inv));
            _mm_storeu_si128((void *)(q + 16 * i), _mm512_cvtsepi32_epi8(v));
        }
        put_sums(s, q);
    }
}

/* Values whose S is exact in f32, which takes less time than integer products; 0: too few. */
INLINE int exact_values(const x86_format f)
{
    if (f.book)
        return f.book == BOOK_IQ3_S || f.book == BOOK_IQ1 ? 256 : f.book == BOOK_IQ3_XXS ? 128 : 0;
    return f.plane == PLANE_2 || f.plane == PLANE_2_1 ? 256 : f.plane == PLANE_4 ? 128 : 0;
}

/* What the sum of half h of piece b begins with. */
INLINE vi start_of(const x86_format f, const wide_sums *x, int b, int h)
{
    if (f.shift < 0) return v_zero();
    if (f.sub == 32) return v_set32(x->start32[3 - f.shift][b]);
    return v_set32(x->start16[f.shift == 5 ? 0 : 4 - f.shift][2 * b + h]);
}

/* S of n columns: as an integer, or as an exact float. */
typedef struct long_sum {
    vi whole[PACKED_COLS];
    vf part[PACKED_COLS];
} long_sum;

/* Adds piece b of a block. w, p: its scales and its planes. */
INLINE void add_piece(const x86_format f, long_sum *S, const unsigned char *w,
                      const unsigned char *p, vi book, const ft_col8 *x, int block, int b,
                      const int n)
{
    vi sum[PACKED_COLS];
    UNROLL for (int h = 0; h < 2; h++)
    {
        vi q[4];
        quads(f, q, p, h, book);
        UNROLL for (int c = 0; c < n; c++)
        {
            const int8_t *at = x[c].q + LONG * block + 32 * b + 16 * h;
            if (h == 0 || f.sub == 16) sum[c] = start_of(f, sums_at(&x[c], block), b, h);
            sum[c] = half_sum(sum[c], q, at, 0);
        }
        if (h == 0 && f.sub == 32) continue;
        const unsigned char *at = scale_bytes(f, w, b, f.sub == 16 ? h : 0);
        const vi scale = _mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)at));
        const vf f_scale = f_from_i32(scale);
        UNROLL for (int c = 0; c < n; c++)
        {
            if (exact_values(f))
                S->part[c] = f_fma(f_from_i32(sum[c]), f_scale, S->part[c]);
            else
                S->whole[c] = v_add32(S->whole[c], _mm512_mullo_epi32(sum[c], scale));
        }
    }
}

/* Results are in memory between blocks: there are too few registers for eight columns. */
INLINE void few(const x86_format f, float *const *y, int o, const unsigned char *w, int k,
                const ft_col8 *x, const int n)
{
    const int exact = exact_values(f), run = exact ? exact / 32 : PIECES;
    const unsigned char *p = w + x86_planes_at(f, k);
    const vi book = f.book ? book_of(f) : v_zero();
    for (int block = 0; block < k / LONG; block++, w += x86_scale_bytes(f)) {
        vf total[PACKED_COLS];
        UNROLL for (int c = 0; c < n; c++) total[c] = f_zero();
        for (int first = 0; first < PIECES; first += run) {
            long_sum S;
            UNROLL for (int c = 0; c < n; c++) S.part[c] = f_zero(), S.whole[c] = v_zero();
            for (int b = first; b < first + run; b++, p += x86_plane_bytes(f.plane)) {
                fetch_ahead(p, (int)x86_plane_bytes(f.plane));
                add_piece(f, &S, w, p, book, x, block, b, n);
            }
            UNROLL for (int c = 0; c < n; c++) total[c] =
                exact ? f_add(total[c], S.part[c]) : f_from_i32(S.whole[c]);
        }
        const long_scales s = load_scales(f, w);
        UNROLL for (int c = 0; c < n; c++)
        {
            const vf acc = block ? f_load(y[c] + o) : f_zero();
            f_store(y[c] + o, add_long(f, acc, total[c], &s, sums_at(&x[c], block), x[c].d[block]));
        }
    }
}

INLINE void few_groups(const x86_format f, float *const *y, const unsigned char *w, size_t group,
                       int rows, int k, const ft_col8 *x, const int n)
{
    for (int o = 0; o < rows; o += PACK_ROWS, w += group) few(f, y, o, w, k, x, n);
}

#define WIDE(name)                                                                                 \
    static void dot_##name(float *const *y, const unsigned char *w, size_t group, int rows, int k, \
                           const ft_col8 *x, int n)                                                \
    {                                                                                              \
        switch (n) {                                                                               \
        case 1: few_groups(x86_##name, y, w, group, rows, k, x, 1); break;                         \
        case 2: few_groups(x86_##name, y, w, group, rows, k, x, 2); break;                         \
        case 3: few_groups(x86_##name, y, w, group, rows, k, x, 3); break;                         \
        case 4: few_groups(x86_##name, y, w, group, rows, k, x, 4); break;                         \
        case 5: few_groups(x86_##name, y, w, group, rows, k, x, 5); break;                         \
        case 6: few_groups(x86_##name, y, w, group, rows, k, x, 6); break;                         \
        case 7: few_groups(x86_##name, y, w, group, rows, k, x, 7); break;                         \
        default: few_groups(x86_##name, y, w, group, rows, k, x, 8);                               \
        }                                                                                          \
    }
WIDE(q2_k)
WIDE(q3_k)
WIDE(q4_k)
WIDE(q5_k)
WIDE(q6_k)
WIDE(iq4_xs)
WIDE(iq3_xxs)
WIDE(iq3_s)
WIDE(iq2_xxs)
WIDE(iq2_s)
WIDE(iq1_s)
WIDE(iq1_m)

void ft_kern_avx512vnni_wide(ft_kern *k)
{
#define KERNEL(type, layout) {type, dot_##layout},
    static const struct {
        ft_type type;
        ft_dot8_fn *dot;
    } kernel[] = {X86_TYPES_256(KERNEL)};
#undef KERNEL
    for (size_t i = 0; i < FT_COUNT(kernel); i++) {
        ft_pack *p = &k->pack[kernel[i].type];
        p->cols = PACKED_COLS;
        p->dot = kernel[i].dot;
        p->wide = true;
    }
    k->quantise_wide = quantise_wide;
}
