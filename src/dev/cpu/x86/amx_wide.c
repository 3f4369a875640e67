/* AMX: products of types with blocks of 256 and nine columns or more (wide.h). Codes are multiplied
 * by their integer scales once for all columns. That gives numbers of two bytes: two tiles of
 * weights for 64 values. */
#include "dev/cpu/x86/amx_columns.h"
#include "dev/cpu/x86/wide.h"

enum {
    TILES = LONG / 64, /* of a block */
    PART = 4           /* blocks whose activations are prepared together */
};

/* What products of up to FT_MANY_COLS columns need. w: products of codes and scales in two parts of
 * a byte, whose second one counts 8 or 256 times. */
typedef struct scratch {
    _Alignas(64) uint8_t w[2][TILES][16][64];
    int32_t sum[2][2][2][COLS][PACK_ROWS]; /* of two pairs of sets, of each set and part */
    float acc[SETS][COLS][PACK_ROWS];
    float d[SETS][PART][COLS];
    int8_t x[SETS][PART][TILES][COLS][64]; /* columns that are not the same distance apart */
} scratch;

/* Whether codes are so small that a byte times a part of its scale is a byte, and whether one part
 * is enough. */
INLINE bool small_codes(const x86_format f)
{
    return f.shift < 0;
}

INLINE bool one_part(const x86_format f)
{
    return f.plane == PLANE_2;
}

/* Tiles 0 to 3 are sums of two sets, 4 and 5 activations, 6 and 7 weights. */
static void configure(int n)
{
    tile_config c = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        c.bytes[i] = 64;
        c.rows[i] = (uint8_t)(i < 6 ? n : 16);
    }
    tile_configure(&c);
}

/* A quad times its scales, which are repeated in both halves of a row's 32 bits. */
INLINE void scale_quad(const x86_format f, uint8_t *low, uint8_t *high, vi q, vi s)
{
    if (small_codes(f)) {
        _mm512_store_si512(low,
                           _mm512_mullo_epi16(q, one_part(f) ? s : v_and(s, v_set32(0x70007))));
        if (!one_part(f)) _mm512_store_si512(high, _mm512_mullo_epi16(q, v_shr(s, 3)));
        return;
    }
    const vi code = f.book ? q : _mm512_sub_epi8(q, v_set8(128 >> f.shift)); /* signed */
    const vi lower = v_set32(0xff00ff);
    const vi even = _mm512_mullo_epi16(_mm512_srai_epi16(v_shl(code, 8), 8), s);
    const vi odd = _mm512_mullo_epi16(_mm512_srai_epi16(code, 8), s);
    /* where `lower` is set the first, else the second */
    _mm512_store_si512(low, _mm512_ternarylogic_epi32(lower, even, v_shl(odd, 8), 0xca));
    _mm512_store_si512(high, _mm512_ternarylogic_epi32(lower, v_shr(even, 8), odd, 0xca));
}

/* p: planes of a block, w: its scales. What follows `next` bytes later is fetched. */
INLINE void decode(const x86_format f, scratch *s, const unsigned char *p, const unsigned char *w,
                   size_t next)
{
    const vi book = f.book ? v_book_load(ft_x86_book[f.book]) : v_zero();
    for (int b = 0; b < PIECES; b++, p += x86_plane_bytes(f.plane)) {
        for (size_t i = 0; i < x86_plane_bytes(f.plane); i += 64)
            __builtin_prefetch(p + next + i, 0, 2);
        UNROLL for (int h = 0; h < 2; h++)
        {
            const unsigned char *at = scale_bytes(f, w, b, f.sub == 16 ? h : 0);
            const vi wide = _mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)at));
            const vi scale = v_or(_mm512_slli_epi32(wide, 16), v_and(wide, v_set32(0xffff)));
            vi q[4];
            quads(f, q, p, h, book);
            UNROLL for (int j = 0; j < 4; j++)
            {
                const int quad = 8 * (b % 2) + 4 * h + j;
                scale_quad(f, s->w[0][b / 2][quad], s->w[1][b / 2][quad], q[j], scale);
            }
        }
    }
    tile_written(s);
}

/* Blocks [from, to) of all columns. */
static void prepare(scratch *s, const column_set *set, int sets, int from, int to)
{
    for (int i = 0; i < sets; i++) {
        gather(s->d[i], &set[i], false, from, to - from);
        if (set[i].even) continue;
        for (int c = 0; c < set[i].n; c++)
            for (int b = from; b < to; b++)
                for (int t = 0; t < TILES; t++)
                    memcpy(s->x[i][b - from][t][c], set[i].x[c].q + LONG * b + 64 * t, 64);
    }
    tile_written(s);
}

typedef struct tile_rows {
    const int8_t *at;
    size_t step, next; /* from one column and from one tile to the next */
} tile_rows;

INLINE tile_rows tile_rows_of(const scratch *s, const column_set *set, int i, int from, int block)
{
    if (!set[i].even) return (tile_rows){s->x[i][block - from][0][0], 64, sizeof s->x[0][0][0]};
    const ft_col8 *x = set[i].x;
    return (tile_rows){x->q + LONG * block, (size_t)(x[set[i].n > 1].q - x->q), 64};
}

/* The sums of sets i and, if there is one, i + 1. */
INLINE void multiply(const x86_format f, scratch *s, int32_t (*sum)[2][COLS][PACK_ROWS],
                     tile_rows a, tile_rows b, const bool two)
{
    const bool low_only = one_part(f);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    UNROLL for (int t = 0; t < TILES; t++)
    {
        _tile_loadd(4, a.at + (size_t)t * a.next, a.step);
        _tile_loadd(6, s->w[0][t], 64);
        _tile_dpbsud(0, 4, 6);
        if (two) _tile_loadd(5, b.at + (size_t)t * b.next, b.step);
        if (two) _tile_dpbsud(2, 5, 6);
        if (low_only) continue;
        _tile_loadd(7, s->w[1][t], 64);
        if (small_codes(f)) {
            _tile_dpbsud(1, 4, 7);
            if (two) _tile_dpbsud(3, 5, 7);
        } else {
            _tile_dpbssd(1, 4, 7);
            if (two) _tile_dpbssd(3, 5, 7);
        }
    }
    _tile_stored(0, sum[0][0], 64);
    if (!low_only) _tile_stored(1, sum[0][1], 64);
    if (two) _tile_stored(2, sum[1][0], 64);
    if (two && !low_only) _tile_stored(3, sum[1][1], 64);
}

/* Adds a block of a set; w: its scales. */
INLINE void add_up(const x86_format f, scratch *s, const int32_t (*sum)[COLS][PACK_ROWS],
                   const column_set *set, int i, int from, int block, const unsigned char *w)
{
    const long_scales scale = load_scales(f, w);
    for (int c = 0; c < set[i].n; c++) {
        const wide_sums *x = sums_at(&set[i].x[c], block);
        const vf acc = block ? f_load(s->acc[i][c]) : f_zero();
        vi S = v_load(sum[0][c]);
        if (!one_part(f))
            S = v_add32(S, _mm512_slli_epi32(v_load(sum[1][c]), small_codes(f) ? 3 : 8));
        f_store(s->acc[i][c], add_long(f, acc, f_from_i32(S), &scale, x, s->d[i][block - from][c]));
    }
}

/* Block `block` of a group of rows, for all sets: one pair is multiplied while the one before is
 * added. */
INLINE void long_block(const x86_format f, scratch *s, const column_set *set, int sets, int from,
                       int block, const unsigned char *w)
{
    for (int i = 0; i < sets + 2; i += 2) {
        if (i + 1 < sets)
            multiply(f, s, s->sum[i / 2 % 2], tile_rows_of(s, set, i, from, block),
                     tile_rows_of(s, set, i + 1, from, block), true);
        else if (i < sets)
            multiply(f, s, s->sum[i / 2 % 2], tile_rows_of(s, set, i, from, block), (tile_rows){0},
                     false);
        for (int j = i - 2; j >= 0 && j < i && j < sets; j++)
            add_up(f, s, s->sum[(i / 2 + 1) % 2][j % 2], set, j, from, block, w);
    }
}

INLINE void many(const x86_format f, float *const *y, const unsigned char *w, size_t group,
                 int rows, int k, const ft_col8 *x, int n)
{
    scratch s;
    column_set set[SETS];
    const size_t planes = PIECES * x86_plane_bytes(f.plane);
    const int blocks = k / LONG, sets = sets_of(set, x, n);
    configure(FT_MIN(COLS, n));
    for (int from = 0; from < blocks; from += PART) {
        const int to = FT_MIN(from + PART, blocks);
        prepare(&s, set, sets, from, to);
        for (int o = 0; o < rows; o += PACK_ROWS) {
            const unsigned char *at = w + (size_t)(o / PACK_ROWS) * group;
            for (int c = 0; from && c < n; c++)
                f_store(s.acc[c / COLS][c % COLS], f_load(y[c] + o));
            for (int b = from; b < to; b++) {
                const unsigned char *scale = at + (size_t)b * x86_scale_bytes(f);
                decode(f, &s, at + x86_planes_at(f, k) + (size_t)b * planes, scale, group);
                long_block(f, &s, set, sets, from, b, scale);
            }
            for (int c = 0; c < n; c++) f_store(y[c] + o, f_load(s.acc[c / COLS][c % COLS]));
        }
    }
    _tile_release();
}

#define MANY(name)                                                                                 \
    static void many_##name(float *const *y, const unsigned char *w, size_t group, int rows,       \
                            int k, const ft_col8 *x, int n)                                        \
    {                                                                                              \
        many(x86_##name, y, w, group, rows, k, x, n);                                              \
    }
MANY(q2_k)
MANY(q3_k)
MANY(q4_k)
MANY(q5_k)
MANY(q6_k)
MANY(iq4_xs)
MANY(iq3_xxs)
MANY(iq3_s)
MANY(iq2_xxs)
MANY(iq2_s)
MANY(iq1_s)
MANY(iq1_m)

void ft_kern_amx_wide(ft_kern *k)
{
#define KERNEL(type, layout) {type, many_##layout},
    static const struct {
        ft_type type;
        ft_dot8_fn *many;
    } kernel[] = {X86_TYPES_256(KERNEL)};
#undef KERNEL
    for (size_t i = 0; i < FT_COUNT(kernel); i++) k->many[kernel[i].type] = kernel[i].many;
}
