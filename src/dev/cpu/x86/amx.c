/* AMX: products of packed rows with nine columns or more, except those with blocks of 256
 * (amx_wide.c). The codes of 32 (or 16) values of sixteen rows become a tile of signed bytes, the
 * activations of sixteen columns are another, and one instruction gives the integer sums of all
 * sixteen by sixteen outputs. They are scaled and added as packed.h does, in the same order: the
 * results are bit-identical to those of the narrow kernels.
 *
 * Codes and scales of a group of rows are decoded once for all columns, PART blocks at a time,
 * which stay in the L1 cache while columns pass. */
#include "dev/cpu/x86/amx_tile.h"
#include "dev/cpu/x86/avx512_vec.h"

#include "dev/cpu/x86/amx_columns.h"

enum {
    PART = 16,       /* blocks that are decoded together */
    AHEAD_TILES = 2, /* blocks that are multiplied before one of them is added */
    SUMS = 4         /* blocks whose sums are in memory */
};

/* What products of up to FT_MANY_COLS columns need of PART blocks. */
typedef struct scratch {
    _Alignas(64) int8_t w[PART][8][64]; /* eight quads of each block */
    scales scale[PART];
    int32_t sum[SUMS][2][COLS][PACK_ROWS];
    int32_t base[COLS][PACK_ROWS];  /* BASE_BITS: what sums begin with */
    float d[SETS][PART][COLS];      /* of ft_col8, as add_block takes them */
    float s[SETS][PART][COLS];      /* with minima: sums of 32 */
    int8_t x[SETS][PART][COLS][32]; /* columns that are not the same distance apart */
} scratch;

/* Tiles 0 and 1 are sums, 4 and 5 activations, 6 and 7 weights. */
static void configure(const x86_format f, int n)
{
    tile_config c = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        c.bytes[i] = (uint16_t)(i == 4 || i == 5 ? f.sub : 64);
        c.rows[i] = (uint8_t)(i < 6 ? n : f.sub / 4);
    }
    tile_configure(&c);
}

/* ---- weights ---- */

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

/* What to_float and add_block use of them. */
INLINE void put_scales(const x86_format f, scales *to, const scales *from)
{
    to->scale[0] = from->scale[0];
    to->base = from->base;
    if (f.sub == 16) to->scale[1] = from->scale[1];
    if (f.min) to->min[0] = from->min[0];
}

/* Blocks [from, to) of a group of rows; those of the next group are fetched into the L2 cache. */
INLINE void decode_part(const x86_format f, scratch *s, const unsigned char *w, int k, int from,
                        int to)
{
    const vi book = f.book ? v_book_load(ft_x86_book[f.book]) : v_zero();
    const size_t bytes = x86_plane_bytes(f.plane), group = x86_group_bytes(f, k);
    const unsigned char *p = w + x86_planes_at(f, k) + (size_t)from * bytes;
    scales sc = {.d = f_zero(), .d_min = f_zero()};
    for (int b = from; b < to; b++, p += bytes) {
        for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(p + group + i, 0, 2);
        decode(f, s->w[b - from], p, book);
        scales_of(f, &sc, w, b, 0);
        put_scales(f, &s->scale[b - from], &sc);
    }
    tile_written(s);
}

/* ---- activations ---- */

/* Blocks [from, to) of `blocks` of all columns. */
static void prepare(const x86_format f, scratch *s, const column_set *set, int sets, int blocks,
                    int from, int to)
{
    const int n = to - from;
    for (int i = 0; i < sets; i++) {
        gather(s->d[i], &set[i], false, from, n);
        if (f.min) gather(s->s[i], &set[i], true, SUM_32 * blocks + from, n);
        if (set[i].even) continue;
        for (int c = 0; c < set[i].n; c++)
            for (int b = 0; b < n; b++) memcpy(s->x[i][b][c], set[i].x[c].q + 32 * (from + b), 32);
    }
    tile_written(s);
}

/* ---- products ---- */

/* The sums of block u of sixteen rows with the activations at x, `step` bytes from one column to
 * the next. */
INLINE void multiply(const x86_format f, scratch *s, const int8_t *x, size_t step, int u)
{
    int32_t(*sum)[COLS][PACK_ROWS] = s->sum[u % SUMS];
    _tile_loadd(4, x, step);
    _tile_loadd(6, s->w[u], 64);
    _tile_loadd(0, s->base, 64);
    _tile_dpbssd(0, 4, 6);
    _tile_stored(0, sum[0], 64);
    if (f.sub == 32) return;
    _tile_loadd(5, x + 16, step);
    _tile_loadd(7, s->w[u][4], 64);
    _tile_loadd(1, s->base, 64);
    _tile_dpbssd(1, 5, 7);
    _tile_stored(1, sum[1], 64);
}

/* Adds block u. Without the barrier gcc loads all sums before it uses the first, and has too few
 * registers. */
INLINE void add_up(const x86_format f, vf *acc, const scratch *s, int set, int u, const int n)
{
    const scales sc = s->scale[u];
    UNROLL for (int c = 0; c < COLS; c++)
    {
        if (c == n) break;
        const vi sum[2] = {v_load(s->sum[u % SUMS][0][c]), v_load(s->sum[u % SUMS][1][c])};
        vf v[2];
        to_float(f, v, sum, &sc);
        acc[c] = add_block(f, acc[c], v, &sc, s->d[set][u][c], s->s[set][u][c], 0);
        tile_written(s);
    }
}

/* Adds the blocks [from, to) of a group of rows to the outputs of n columns. */
INLINE void multiply_set(const x86_format f, float *const *y, scratch *s, const column_set *x,
                         int set, int from, int to, const int n)
{
    const int8_t *at = x->even ? x->x[0].q + 32 * from : s->x[set][0][0];
    const size_t step = x->even ? (size_t)(x->x[n > 1].q - x->x[0].q) : 32;
    const size_t block = x->even ? 32 : sizeof s->x[0][0];
    vf acc[COLS];
    UNROLL for (int c = 0; c < COLS; c++) acc[c] = f_zero();
    UNROLL for (int c = 0; c < COLS; c++) if (from && c < n) acc[c] = f_load(y[c]);
    const int blocks = to - from;
    for (int u = 0; u < FT_MIN(AHEAD_TILES, blocks); u++)
        multiply(f, s, at + (size_t)u * block, step, u);
    for (int u = 0; u < blocks; u++) {
        const int next = u + AHEAD_TILES;
        if (next < blocks) multiply(f, s, at + (size_t)next * block, step, next);
        add_up(f, acc, s, set, u, n);
    }
    UNROLL for (int c = 0; c < COLS; c++) if (c < n) f_store(y[c], acc[c]);
}

INLINE void tiles(const x86_format f, float *const *y, const unsigned char *w, size_t group,
                  int rows, int k, const ft_col8 *x, int n)
{
    scratch s;
    column_set set[SETS];
    const int blocks = k / 32, sets = sets_of(set, x, n);
    for (int c = 0; c < COLS; c++) _mm512_store_si512(s.base[c], v_set32(BASE_BITS));
    configure(f, FT_MIN(COLS, n));
    for (int from = 0; from < blocks; from += PART) {
        const int to = FT_MIN(from + PART, blocks);
        prepare(f, &s, set, sets, blocks, from, to);
        for (int o = 0; o < rows; o += PACK_ROWS) {
            decode_part(f, &s, w + (size_t)(o / PACK_ROWS) * group, k, from, to);
            for (int i = 0; i < sets; i++) {
                float *out[COLS];
                for (int c = 0; c < COLS; c++) out[c] = y[FT_MIN(COLS * i + c, n - 1)] + o;
                if (set[i].n == COLS)
                    multiply_set(f, out, &s, &set[i], i, from, to, COLS);
                else
                    multiply_set(f, out, &s, &set[i], i, from, to, set[i].n);
            }
        }
    }
    _tile_release();
}

static double spin(int n)
{
    tile_configure_full();
    for (int i = 0; i < n; i++) {
        _tile_dpbssd(0, 4, 6);
        _tile_dpbssd(1, 4, 7);
        _tile_dpbssd(2, 5, 6);
        _tile_dpbssd(3, 5, 7);
    }
    _tile_release();
    return 4 * 16 * 16 * 64 * 2;
}

#define TILES(name)                                                                                \
    static void tiles_##name(float *const *y, const unsigned char *w, size_t group, int rows,      \
                             int k, const ft_col8 *x, int n)                                       \
    {                                                                                              \
        tiles(x86_##name, y, w, group, rows, k, x, n);                                             \
    }

TILES(q8_0)
TILES(q4_0)
TILES(q4_1)
TILES(q5_0)
TILES(q5_1)
TILES(iq4_nl)
TILES(mxfp4)
TILES(nvfp4)
TILES(trits)

void ft_kern_amx(ft_kern *k)
{
#define KERNEL(type, layout) {type, tiles_##layout},
    static const struct {
        ft_type type;
        ft_dot8_fn *many;
    } kernel[] = {X86_TYPES(KERNEL)};
#undef KERNEL
    for (size_t i = 0; i < FT_COUNT(kernel); i++) k->many[kernel[i].type] = kernel[i].many;
    k->spin = spin;
}
