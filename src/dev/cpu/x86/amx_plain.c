/* AMX: products with F16 and BF16 weights, for any number of rows. AMX multiplies bf16 numbers and
 * adds f32 ones. A BF16 weight is one bf16 number, and an F16 weight is exactly the sum of two. An
 * activation is the sum of two with an error of at most 2^-17 of it. The products of all parts are
 * added. F16 weights are only multiplied like this in vision towers: splitting them takes longer
 * than reading them, so decoding would be slower.
 *
 * A tile of weights is one part of 32 values of sixteen rows. A tile of activations is both parts
 * of 32 values of eight columns. Their product has sixteen rows of eight sums with first parts of
 * activations, and eight with second parts, which are added at the end. An output has one order of
 * sums, whatever is computed with it: the blocks of 32 values in their order, and in a block the
 * parts of the weights in theirs. */
#include "dev/cpu/x86/amx_tile.h"
#include "dev/cpu/x86/avx512_vec.h"

#include "base/mem.h"

enum {
    BLOCK = 32, /* values of a row in a tile */
    ROWS = 16,
    COLS = 8,
    TILE = 1024, /* bytes */
    GROUPS = 2,  /* tiles of rows and of columns that are multiplied with each other */
    RUN = 4,     /* blocks that are multiplied with all columns before the next ones */
    PARTS = 2,   /* of a weight */
    COL_TILES = FT_SPLIT_COLS / COLS
};

/* Up to eight columns of all values. */
typedef struct columns {
    const unsigned char *at; /* the tiles that hold all of them; NULL: they are in several tiles */
    const ft_col8 *x;
    int n, place[COLS]; /* where they are in a tile */
} columns;

typedef struct scratch {
    _Alignas(64) unsigned char w[2][RUN][GROUPS][PARTS][TILE]; /* parts of one run, and the next */
    unsigned char x[RUN][GROUPS][TILE];                        /* columns of different tiles */
    unsigned char sum[COL_TILES][GROUPS][TILE];
} scratch;

/* Up to 32 rows of weights. */
typedef struct strip {
    const unsigned char *w;
    size_t row_bytes;
    int rows, k;
} strip;

/* ---- activations ---- */

/* The upper halves of the 32-bit elements of two vectors. */
INLINE vi upper_halves(vi a, vi b)
{
    static const uint16_t odd[32] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21,
                                     23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43,
                                     45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
    return _mm512_permutex2var_epi16(a, v_load(odd), b);
}

/* x as a bf16 number, rounded to nearest; *rest: what is left, 0 for an infinity. */
INLINE vi first_part(vf x, vf *rest)
{
    const vi bits = _mm512_castps_si512(x);
    const vi odd = v_and(_mm512_srli_epi32(bits, 16), v_set32(1));
    const vi round = v_add32(v_add32(bits, v_set32(0x7fff)), odd);
    const __mmask16 infinite =
        _mm512_cmpeq_epi32_mask(v_and(bits, v_set32(0x7fffffff)), v_set32(0x7f800000));
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    const vi part = v_and(_mm512_mask_mov_epi32(round, nan, bits), v_set32((int32_t)0xffff0000));
    *rest = _mm512_maskz_sub_ps(_knot_mask16(infinite), x, _mm512_castsi512_ps(part));
    return part;
}

static void split(unsigned char *to, const float *x, int n)
{
    for (int at = 0; at < n; at += BLOCK, to += TILE) {
        const int left = FT_MIN(BLOCK, n - at);
        const __mmask16 a = (__mmask16)(left >= 16 ? 0xffff : (1 << left) - 1);
        const __mmask16 b = (__mmask16)(left >= 16 ? (1 << (left - 16)) - 1 : 0);
        vf rest[2], none;
        const vi a1 = first_part(_mm512_maskz_loadu_ps(a, x + at), &rest[0]);
        const vi b1 = first_part(_mm512_maskz_loadu_ps(b, x + at + 16), &rest[1]);
        const vi a2 = first_part(rest[0], &none), b2 = first_part(rest[1], &none);
        _Alignas(64) int32_t first[16], second[16];
        _mm512_store_si512(first, upper_halves(a1, b1));
        _mm512_store_si512(second, upper_halves(a2, b2));
        for (int i = 0; i < 16; i++) {
            memcpy(to + 64 * i, &first[i], 4);
            memcpy(to + 64 * i + 4 * COLS, &second[i], 4);
        }
    }
}

/* ---- weights ---- */

enum { KIND_BF16 = 1, KIND_F16 }; /* the number of parts */

/* n values of a row. The first part of an F16 weight is cut off, so that the second one is exact.
 */
INLINE void split_row(unsigned char *to, const unsigned char *w, int n, const int kind)
{
    const __mmask32 m = n >= BLOCK ? 0xffffffff : (__mmask32)((1u << n) - 1);
    const vi upper = v_set32((int32_t)0xffff0000);
    if (kind == KIND_BF16) {
        _mm512_store_si512(to, _mm512_maskz_loadu_epi16(m, w));
        return;
    }
    const vf a = _mm512_cvtph_ps(_mm256_maskz_loadu_epi16((__mmask16)m, w));
    const vf b = _mm512_cvtph_ps(_mm256_maskz_loadu_epi16((__mmask16)(m >> 16), w + 32));
    const vi a1 = v_and(_mm512_castps_si512(a), upper), b1 = v_and(_mm512_castps_si512(b), upper);
    const vf a2 = _mm512_sub_ps(a, _mm512_castsi512_ps(a1));
    const vf b2 = _mm512_sub_ps(b, _mm512_castsi512_ps(b1));
    _mm512_store_si512(to, upper_halves(a1, b1));
    _mm512_store_si512(to + TILE, upper_halves(_mm512_castps_si512(a2), _mm512_castps_si512(b2)));
}

/* Block b of all rows, zeros where there is no row. The same values of the next rows are fetched.
 */
INLINE void split_block(unsigned char (*out)[PARTS][TILE], const strip *s, int b, const int G,
                        const int kind)
{
    const int n = FT_MIN(BLOCK, s->k - b * BLOCK);
    const unsigned char *at = s->w + (size_t)b * BLOCK * 2;
    for (int r = 0; r < G * ROWS; r++, at += s->row_bytes) {
        unsigned char *row = out[r / ROWS][0] + 64 * (r % ROWS);
        __builtin_prefetch(at + (size_t)(G * ROWS) * s->row_bytes, 0, 2);
        if (r >= s->rows)
            for (int p = 0; p < kind; p++) _mm512_store_si512(row + p * TILE, v_zero());
        else if (n == BLOCK)
            split_row(row, at, BLOCK, kind);
        else
            split_row(row, at, n, kind);
    }
    tile_written(out);
}

/* ---- tiles ---- */

/* Tiles 0 to 3 are sums: rows g and columns c in tile 2 c + g. 4 and 5 are weights, 6 and 7
 * activations. */
INLINE void load_sums(unsigned char (*sum)[GROUPS][TILE], const int G, const int C)
{
    _tile_loadd(0, sum[0][0], 64);
    if (G > 1) _tile_loadd(1, sum[0][1], 64);
    if (C > 1) _tile_loadd(2, sum[1][0], 64);
    if (G > 1 && C > 1) _tile_loadd(3, sum[1][1], 64);
}

INLINE void store_sums(unsigned char (*sum)[GROUPS][TILE], const int G, const int C)
{
    _tile_stored(0, sum[0][0], 64);
    if (G > 1) _tile_stored(1, sum[0][1], 64);
    if (C > 1) _tile_stored(2, sum[1][0], 64);
    if (G > 1 && C > 1) _tile_stored(3, sum[1][1], 64);
}

INLINE void zero_sums(void)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

/* x: the tiles of the first block, and step bytes from one block to the next. */
INLINE void multiply_run(unsigned char (*w)[GROUPS][PARTS][TILE], const unsigned char *const *x,
                         size_t step, int blocks, const int G, const int C, const int kind)
{
    for (int b = 0; b < blocks; b++) {
        _tile_loadd(6, x[0] + (size_t)b * step, 64);
        if (C > 1) _tile_loadd(7, x[1] + (size_t)b * step, 64);
        UNROLL for (int p = 0; p < kind; p++)
        {
            _tile_loadd(4, w[b][0][p], 64);
            if (G > 1) _tile_loadd(5, w[b][1][p], 64);
            _tile_dpbf16ps(0, 4, 6);
            if (G > 1) _tile_dpbf16ps(1, 5, 6);
            if (C > 1) _tile_dpbf16ps(2, 4, 7);
            if (G > 1 && C > 1) _tile_dpbf16ps(3, 5, 7);
        }
    }
}

/* Copies the blocks [from, to) of columns of different tiles. */
static void gather(unsigned char (*out)[GROUPS][TILE], int at, const columns *c, int from, int to)
{
    for (int b = from; b < to; b++)
        for (int i = 0; i < c->n; i++) {
            const unsigned char *x = (const unsigned char *)c->x[i].q + (size_t)b * TILE;
            unsigned char *to_x = out[b - from][at] + 4 * c->place[i];
            for (int r = 0; r < 16; r++) {
                memcpy(to_x + 64 * r, x + 64 * r, 4);
                memcpy(to_x + 64 * r + 4 * COLS, x + 64 * r + 4 * COLS, 4);
            }
        }
    tile_written(out);
}

/* Block b of C tiles of columns. */
INLINE void columns_at(scratch *s, const unsigned char **x, const columns *c, int b, const int C)
{
    UNROLL for (int i = 0; i < C; i++)
    {
        x[i] = s->x[0][i];
        if (c[i].at)
            x[i] = c[i].at + (size_t)b * TILE;
        else
            gather(s->x, i, &c[i], b, b + 1);
    }
}

/* One block of BF16 weights of sixteen rows. */
INLINE void multiply_block(const unsigned char *w, size_t row_bytes, const unsigned char *const *x,
                           const int C)
{
    _tile_loadd(6, x[0], 64);
    if (C > 1) _tile_loadd(7, x[1], 64);
    _tile_loadd(4, w, row_bytes);
    _tile_dpbf16ps(0, 4, 6);
    if (C > 1) _tile_dpbf16ps(2, 4, 7);
}

/* Adds the products of the blocks [from, to) with C tiles of columns. */
INLINE void add_run(scratch *s, unsigned char (*w)[GROUPS][PARTS][TILE], const columns *c, int from,
                    int to, const int G, const int C, const int kind)
{
    const unsigned char *x[GROUPS];
    const bool together = c[0].at && (C == 1 || c[1].at);
    for (int i = 0; i < C; i++) {
        if (together)
            x[i] = c[i].at + (size_t)from * TILE;
        else {
            gather(s->x, i, &c[i], from, to);
            x[i] = s->x[0][i];
        }
    }
    multiply_run(w, x, together ? TILE : sizeof s->x[0], to - from, G, C, kind);
}

/* Up to sixteen columns: the sums stay in their tiles. Blocks of BF16 weights are tiles already;
 * others are split while the one before is multiplied. */
INLINE void few_columns(scratch *s, const strip *w, const columns *c, const int C, const int kind)
{
    const int blocks = (w->k + BLOCK - 1) / BLOCK;
    const int direct = kind == KIND_BF16 && w->rows == ROWS ? w->k / BLOCK : 0;
    zero_sums();
    for (int b = 0; b < direct; b++) {
        const unsigned char *at = w->w + (size_t)b * TILE / ROWS, *x[GROUPS];
        columns_at(s, x, c, b, C);
        for (int r = 0; r < ROWS; r++)
            __builtin_prefetch(at + (size_t)(ROWS + r) * w->row_bytes, 0, 2);
        multiply_block(at, w->row_bytes, x, C);
    }
    if (direct < blocks) split_block(s->w[0][direct % 2], w, direct, 1, kind);
    for (int b = direct; b < blocks; b++) {
        if (b + 1 < blocks) split_block(s->w[0][(b + 1) % 2], w, b + 1, 1, kind);
        add_run(s, &s->w[0][b % 2], c, b, b + 1, 1, C, kind);
    }
    store_sums(s->sum, 1, C);
}

/* More columns: their sums are kept in memory between two runs. Blocks of the next run are split
 * while this one is multiplied. */
INLINE void many_columns(scratch *s, const strip *w, const columns *c, int n, const int G,
                         const int kind)
{
    const int blocks = (w->k + BLOCK - 1) / BLOCK;
    for (int b = 0; b < FT_MIN(RUN, blocks); b++) split_block(s->w[0][b], w, b, G, kind);
    for (int b = 0; b < blocks; b += RUN) {
        const int at = b / RUN % 2, to = FT_MIN(b + RUN, blocks);
        int next = to;
        for (int i = 0; i < n; i += 2) {
            if (next < FT_MIN(to + RUN, blocks)) {
                split_block(s->w[!at][next - to], w, next, G, kind);
                next++;
            }
            if (b)
                load_sums(&s->sum[i], G, 2);
            else
                zero_sums();
            if (i + 1 < n)
                add_run(s, s->w[at], c + i, b, to, G, 2, kind);
            else
                add_run(s, s->w[at], c + i, b, to, G, 1, kind);
            store_sums(&s->sum[i], G, 2);
        }
        for (; next < FT_MIN(to + RUN, blocks); next++)
            split_block(s->w[!at][next - to], w, next, G, kind);
    }
}

/* ---- results ---- */

/* a[i][j] becomes a[j][i]. */
INLINE void transpose8(__m256 *a)
{
    __m256 b[8], c[8];
    UNROLL for (int i = 0; i < 8; i += 2)
    {
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
    }
    UNROLL for (int i = 0; i < 8; i += 4)
    {
        c[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
        c[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
        c[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44);
        c[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee);
    }
    UNROLL for (int i = 0; i < 4; i++)
    {
        a[i] = _mm256_permute2f128_ps(c[i], c[i + 4], 0x20);
        a[i + 4] = _mm256_permute2f128_ps(c[i], c[i + 4], 0x31);
    }
}

/* The outputs [o, o + rows) of some columns from a tile of sums. */
INLINE void finish(float *const *y, int o, const unsigned char *tile, int rows, const columns *x)
{
    const float *sum = (const float *)(const void *)tile;
    for (int h = 0; h < ROWS && h < rows; h += 8, sum += 8 * ROWS) {
        __m256 a[8];
        const __mmask8 exist = (__mmask8)(rows - h >= 8 ? 0xff : (1 << (rows - h)) - 1);
        UNROLL for (int r = 0; r < 8; r++) a[r] =
            _mm256_add_ps(_mm256_load_ps(sum + 16 * r), _mm256_load_ps(sum + 16 * r + 8));
        transpose8(a);
        for (int c = 0; c < x->n; c++) _mm256_mask_storeu_ps(y[c] + o + h, exist, a[x->place[c]]);
    }
}

/* ---- products ---- */

/* The first tile of a column; tiles are aligned to 64 bytes. */
static const unsigned char *tile_of(ft_col8 x)
{
    return (const unsigned char *)x.q - (uintptr_t)x.q % 64;
}

static int columns_of(columns *to, const ft_col8 *x, int n)
{
    int tiles = 0;
    for (int i = 0; i < n; i += COLS, tiles++) {
        columns *c = &to[tiles];
        *c = (columns){tile_of(x[i]), x + i, FT_MIN(COLS, n - i), {0}};
        for (int j = 1; j < c->n; j++)
            if (tile_of(x[i + j]) != tile_of(x[i])) c->at = NULL;
        for (int j = 0; j < c->n; j++)
            c->place[j] = c->at ? (int)((const unsigned char *)x[i + j].q - c->at) / 4 : j;
    }
    return tiles;
}

/* With few columns memory is the limit, and rows are read sixteen at a time: more of them are more
 * streams than a CPU fetches ahead. */
INLINE void one_strip(scratch *s, const strip *w, const columns *c, int tiles, const int kind)
{
    if (tiles == 1)
        few_columns(s, w, c, 1, kind);
    else if (tiles == 2)
        few_columns(s, w, c, 2, kind);
    else if (w->rows > ROWS)
        many_columns(s, w, c, tiles, 2, kind);
    else
        many_columns(s, w, c, tiles, 1, kind);
}

INLINE void dot_plain(float *const *y, const unsigned char *w, size_t row_bytes, int rows, int k,
                      const ft_col8 *x, int n, const int kind)
{
    scratch s;
    columns c[COL_TILES];
    const int tiles = columns_of(c, x, n), step = tiles > 2 ? GROUPS * ROWS : ROWS;
    tile_configure_full();
    for (int o = 0; o < rows; o += step) {
        const strip now = {w + (size_t)o * row_bytes, row_bytes, FT_MIN(step, rows - o), k};
        one_strip(&s, &now, c, tiles, kind);
        for (int i = 0; i < tiles; i++)
            for (int g = 0; g * ROWS < now.rows; g++)
                finish(y + COLS * i, o + g * ROWS, s.sum[i][g], now.rows - g * ROWS, &c[i]);
    }
    _tile_release();
}

#define DOT(name, kind)                                                                            \
    static void dot_##name(float *const *y, const unsigned char *w, size_t row_bytes, int rows,    \
                           int k, const ft_col8 *x, int n)                                         \
    {                                                                                              \
        dot_plain(y, w, row_bytes, rows, k, x, n, kind);                                           \
    }
DOT(f16, KIND_F16)
DOT(bf16, KIND_BF16)

void ft_kern_amx_plain(ft_kern *k)
{
    k->split = split;
    k->split_rows = COLS;
    k->split_step = 4;
    k->dot_split[FT_F16] = dot_f16;
    k->dot_split[FT_BF16] = dot_bf16;
    k->splits_large[FT_BF16] = true;
}
