/* AMX: products of packed rows with nine to sixteen columns. The codes of 32 (or 16) values of
 * sixteen rows become a tile of signed bytes, the activations of the columns are another, and one
 * instruction gives the integer sums of all sixteen by sixteen outputs. They are scaled and added
 * as packed.h does, in the same order: the results are bit-identical to those of the narrow
 * kernels. */
#include "dev/cpu/x86/amx_tile.h"
#include "dev/cpu/x86/avx512_vec.h"

enum { SIGNED_BYTES = 0 };

/* The tiles compute the products; packed.h only decodes here. */
INLINE vi half_sum(vi start, const vi *q, const int8_t *x, const int kind)
{
    (void)q, (void)x, (void)kind;
    return start;
}

#include "dev/cpu/x86/packed.h"

enum { RUN = 4 }; /* blocks that are decoded and multiplied before the previous run is added */

typedef struct scratch {
    _Alignas(64) int8_t w[RUN][8][64]; /* eight quads of each block */
    int8_t x[FT_PACK_COLS][32 * RUN];
    int32_t sum[RUN][2][FT_PACK_COLS][16];
} scratch;

/* Tiles 0 to 3 are sums, 4 and 5 activations, 6 and 7 weights. */
static void configure(const x86_format f, int n)
{
    tile_config c = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        c.bytes[i] = (uint16_t)(i == 4 || i == 5 ? f.sub : 64);
        c.rows[i] = (uint8_t)(i < 6 ? n : f.sub / 4);
    }
    tile_configure(&c);
}

/* The codes of a block as signed bytes; the values of a codebook are signed already. */
INLINE void decode(const x86_format f, int8_t (*to)[64], const unsigned char *p, vi book)
{
    const int raise = f.shift >= 0 && !f.book ? 128 >> f.shift : 0;
    UNROLL for (int h = 0; h < 2; h++)
    {
        vi q[4];
        quads(f, q, p, h, book);
        UNROLL for (int j = 0; j < 4; j++)
            _mm512_store_si512(to[4 * h + j], raise ? _mm512_sub_epi8(q[j], v_set8(raise)) : q[j]);
    }
}

/* Sums of `blocks` blocks. x: the activations of the first column, `step` bytes from one to the
 * next. */
INLINE void multiply(const x86_format f, scratch *s, const int8_t *x, size_t step, int blocks)
{
    tile_written(s);
    for (int u = 0; u < blocks; u++, x += 32) {
        _tile_loadd(4, x, step);
        _tile_loadd(6, s->w[u], 64);
        _tile_zero(0);
        _tile_dpbssd(0, 4, 6);
        _tile_stored(0, s->sum[u][0], 64);
        if (f.sub == 32) continue;
        _tile_loadd(5, x + 16, step);
        _tile_loadd(7, s->w[u][4], 64);
        _tile_zero(1);
        _tile_dpbssd(1, 5, 7);
        _tile_stored(1, s->sum[u][1], 64);
    }
}

/* One group of rows and the parameters of its runs. */
typedef struct work {
    const unsigned char *w, *p; /* scales, planes */
    const ft_col8 *x;
    int blocks, n;
    bool even; /* all columns are the same distance apart */
} work;

INLINE void add_up(const x86_format f, vf *acc, const scratch *s, int u, const scales *sc,
                   const work *g, int b, int n)
{
    UNROLL for (int c = 0; c < FT_PACK_COLS; c++)
    {
        if (c == n) break;
        const vf v[2] = {f_mul(f_from_i32(v_load(s->sum[u][0][c])), sc->scale[0]),
                         f_from_i32(v_load(s->sum[u][f.sub == 16][c]))};
        acc[c] = add_block(f, acc[c], v, sc, &g->x[c], b, g->blocks);
    }
}

/* true when all columns are the same distance apart */
static bool in_step(const ft_col8 *x, int n)
{
    const ptrdiff_t step = x[1].q - x[0].q;
    for (int c = 2; c < n; c++)
        if (x[c].q - x[c - 1].q != step) return false;
    return step > 0;
}

/* Decodes and multiplies the run that begins at block b. */
INLINE void run_multiply(const x86_format f, const work *g, scratch *s, int b, vi book)
{
    const int blocks = FT_MIN(RUN, g->blocks - b);
    const unsigned char *p = g->p + (size_t)b * x86_plane_bytes(f.plane);
    for (int u = 0; u < blocks; u++, p += x86_plane_bytes(f.plane)) decode(f, s->w[u], p, book);
    if (g->even) {
        multiply(f, s, g->x[0].q + 32 * b, (size_t)(g->x[1].q - g->x[0].q), blocks);
        return;
    }
    for (int c = 0; c < g->n; c++) {
        const int8_t *x = g->x[c].q + 32 * b;
        if (blocks == RUN) /* a constant size: no call of memcpy */
            memcpy(s->x[c], x, sizeof s->x[c]);
        else
            memcpy(s->x[c], x, (size_t)(32 * blocks));
    }
    multiply(f, s, s->x[0], sizeof s->x[0], blocks);
}

/* Tile loads and stores are slow: while one run is added, the next is computed. */
INLINE void group16(const x86_format f, float *const *y, int o, const work *g, const int n)
{
    const vi book = f.book ? v_book_load(ft_x86_book[f.book]) : v_zero();
    scratch s[2];
    scales sc = {.d = f_zero(), .d_min = f_zero()};
    vf acc[FT_PACK_COLS];
    UNROLL for (int c = 0; c < FT_PACK_COLS; c++) acc[c] = f_zero();
    run_multiply(f, g, &s[0], 0, book);
    for (int b = 0; b < g->blocks; b += RUN) {
        const int blocks = FT_MIN(RUN, g->blocks - b);
        if (b + RUN < g->blocks) run_multiply(f, g, &s[(b / RUN + 1) % 2], b + RUN, book);
        for (int u = 0; u < blocks; u++) {
            scales_of(f, &sc, g->w, b + u, 0);
            add_up(f, acc, &s[b / RUN % 2], u, &sc, g, b + u, n);
        }
    }
    UNROLL for (int c = 0; c < FT_PACK_COLS; c++)
    {
        if (c == n) break;
        f_store(y[c] + o, acc[c]);
    }
}

INLINE void tiles(const x86_format f, float *const *y, const unsigned char *w, size_t group,
                  int rows, int k, const ft_col8 *x, int n)
{
    work g = {.x = x, .blocks = k / 32, .n = n, .even = in_step(x, n)};
    configure(f, n);
    for (int o = 0; o < rows; o += PACK_ROWS, w += group) {
        g.w = w;
        g.p = w + x86_planes_at(f, k);
        if (n == FT_PACK_COLS)
            group16(f, y, o, &g, FT_PACK_COLS);
        else
            group16(f, y, o, &g, n);
    }
    _tile_release();
}

#define TILES(name)                                                                                \
    static void tiles_##name(float *const *y, const unsigned char *w, size_t group, int rows,      \
                             int k, const ft_col8 *x, int n)                                       \
    {                                                                                              \
        tiles(x86_##name, y, w, group, rows, k, x, n);                                             \
    }

TILES(q8_0)
TILES(q4_0)
TILES(q4_k)
TILES(q5_k)
TILES(q6_k)
TILES(q3_k)
TILES(q2_k)
TILES(iq4_nl)
TILES(iq4_xs)
TILES(iq3_xxs)
TILES(iq2_xxs)
TILES(mxfp4)

void ft_kern_amx(ft_kern *k)
{
    k->many[FT_Q8_0] = tiles_q8_0;
    k->many[FT_Q4_0] = tiles_q4_0;
    k->many[FT_Q4_K] = tiles_q4_k;
    k->many[FT_Q5_K] = tiles_q5_k;
    k->many[FT_Q6_K] = tiles_q6_k;
    k->many[FT_Q3_K] = tiles_q3_k;
    k->many[FT_Q2_K] = tiles_q2_k;
    k->many[FT_IQ4_NL] = tiles_iq4_nl;
    k->many[FT_IQ4_XS] = tiles_iq4_xs;
    k->many[FT_IQ3_XXS] = tiles_iq3_xxs;
    k->many[FT_IQ2_XXS] = tiles_iq2_xxs;
    k->many[FT_MXFP4] = tiles_mxfp4;
}
