/* dev/cpu/kern.h - the inner loops of the CPU device, as a table of functions that is filled once
 * for the machine. The C versions come first and are complete; every instruction set replaces those
 * that it does faster.
 *
 * A result never depends on how many columns or rows one call handles: each output has its own
 * accumulators and a fixed order of additions. The files in this folder are compiled with
 * -ffp-contract=off, so a multiply-add is fused only where it is written so. */
#ifndef FT_DEV_CPU_KERN_H
#define FT_DEV_CPU_KERN_H

#include "base/half.h"
#include "dev/tensor.h"
#include "quant/turbo.h"

#include <math.h>

enum {
    FT_COLS = 4,         /* maximum columns per call, */
    FT_MANY_COLS = 128,  /* and per call of kernels for many columns, */
    FT_MANY_GRAIN = 16,  /* which take this many at a time */
    FT_PACK_ROWS = 16,   /* maximum rows of a packed group */
    FT_BLOCK8 = 32,      /* activations that share a scale, */
    FT_WIDE8 = 256,      /* or this many, */
    FT_HADAMARD8 = 4,    /* or this few if Hadamard-transformed, */
    FT_SUMS8 = 3,        /* floats at s for FT_BLOCK8 of them, */
    FT_STARTS8 = 16,     /* and integers at t */
    FT_SPLIT_COLS = 128, /* maximum columns per call with split activations */
    FT_SPLIT_PAD = 32,   /* split rows are padded to this many values */
    FT_SCALED16 = 32     /* activations as scaled f16: rows are padded to this many bytes */
};

/* A row of activations as bytes: x[i] = d[i / 32] * q[i]. At s and t are sums of q in the form that
 * the kernels of an instruction set need (x86/pack.h; Arm: s[i / 16] is d times the sum of sixteen
 * q, and at t is nothing). Kernels may read eight bytes after the last q. For a `wide` layout 256
 * activations share a scale and what is at t depends on the machine (ft_wide8 on Arm, x86/wide.h).
 * A Hadamard-transformed row has neither s nor t, and d[i / 4]: its values are multiplied with a
 * rounded codebook, so their own rounding error must be smaller.
 *
 * A row may be split into two parts instead, and has neither d nor s nor t: x[i] is the sum of two
 * bf16 numbers. split_rows rows are interleaved, in an order that the kernels define: q of a row is
 * split_step bytes behind that of the row before it.
 *
 * For F16 weights that have a dot8 kernel q is a row of f16 numbers and d one scale for all of
 * them, a power of two: x[i] = d[0] * q[i]. The values are padded with zeros to a multiple of
 * sixteen. */
typedef struct ft_col8 {
    const int8_t *q;
    const float *d, *s;
    const int32_t *t;
} ft_col8;

/* The second of two rows of bytes whose sum is a row of k activations: what rounding left. */
static inline ft_col8 ft_col8_rest(ft_col8 x, int k)
{
    const int blocks = k / FT_BLOCK8;
    return (ft_col8){x.q + k, x.d + blocks, x.s + blocks * FT_SUMS8, x.t + blocks * FT_STARTS8};
}

/* Arm: what a `wide` packed layout finds at t for each 256 activations, which share one scale. Sums
 * of activations are stored as 128 hi + lo, lo below 128. */
typedef struct ft_wide8 {
    int32_t start[8][4];              /* a sum's bias and 128 times those of 32, four times */
    int8_t sum16[2][16], sum32[2][8]; /* hi, lo */
    float d, unused[3];
} ft_wide8;

/* y[c][o] = W[o] . x[c] for `rows` rows of k weights, row_bytes apart; n <= FT_COLS, or the limit
 * of the layout. */
typedef void ft_dot8_fn(float *const *y, const unsigned char *w, size_t row_bytes, int rows, int k,
                        const ft_col8 *x, int n);
typedef void ft_dotf_fn(float *const *y, const unsigned char *w, size_t row_bytes, int rows, int k,
                        const float *const *x, int n);

/* A packed layout: groups of interleaved rows. The last group of a matrix is padded with rows of
 * zero bytes. */
typedef struct ft_pack {
    int group, cols;        /* rows of a group; maximum columns per call */
    size_t (*bytes)(int k); /* bytes of a group */
    void (*rows)(unsigned char *to, const unsigned char *from, size_t row_bytes, int k);
    ft_dot8_fn *dot; /* w: the first group, row_bytes: of a group, rows: a multiple of `rows` */
    bool wide;       /* activations come from quantise_wide */
} ft_pack;

/* Rows of a turbo cache. Sixteen bytes of codes at a time are unpacked into planes: the first code
 * of each byte, then the second of each, and so on; ft_turbo_plane gives the index of the value.
 * Queries are permuted in the same way, and sums of values are put back in order at the end. */
typedef struct ft_kern_turbo {
    ft_dot8_fn *dot; /* x.d: one scale per group, which includes the step of the codebook */
    /* y[rows, group]: the codebook values of one group of each row, without its scale */
    void (*values)(float *y, const unsigned char *group, size_t row_bytes, int rows, int n);
} ft_kern_turbo;

/* The upper halves of the codebook's floats, rounded: their lower and their upper bytes. */
static inline void ft_turbo_upper(uint8_t low[16], uint8_t high[16], ft_turbo t)
{
    for (int i = 0; i < 16; i++) {
        const uint32_t b = ft_f32_bits(ft_turbo_of(t)->value[i]) + 0x8000;
        low[i] = (uint8_t)(b >> 16);
        high[i] = (uint8_t)(b >> 24);
    }
}

/* The index in a row of the value at index i of the planes. */
static inline int ft_turbo_plane(int bits, int i)
{
    const int per = bits == 4 ? 2 : 4, run = 16 * per, in = i % run;
    return i - in + in % 16 * per + in / 16;
}

enum { FT_DELTA_COLS = 128 }; /* columns of a state that are processed together, at most */

/* The recurrence for the state of one head of a delta net. First the journal entries are applied:
 *     Z = decay Z + k d^T
 * and stored; then n rows are computed from there:
 *     upd = beta (v - decay Z^T k), Z = decay Z + k upd^T, o = Z^T q
 * store_state: the final state is stored too. A row gives the same bits as its journal entry. */
typedef struct ft_delta_rows {
    int S, replay, n;
    const float *jk, *jd, *j_decay; /* of entry e: jk + e jk_step, ... */
    int jk_step, jd_step;
    const float *q, *k; /* [n, S] */
    const float *v;     /* rows v_step apart */
    float *o;           /* rows o_step apart */
    float *upd;         /* [n, S] */
    int v_step, o_step;
    const float *decay, *beta; /* [n] */
    bool store_state;
} ft_delta_rows;

typedef struct ft_kern {
    ft_kern_turbo turbo[FT_TURBO_MAX];
    ft_pack pack[FT_TYPE_MAX];     /* dot NULL: the file layout is used */
    ft_dot8_fn *many[FT_TYPE_MAX]; /* like pack.dot, for more columns; or NULL */
    ft_dot8_fn *dot8[FT_TYPE_MAX]; /* NULL: dotf on the decoded row is used; TQ: x is
                                      Hadamard-transformed; F16: x is scaled f16 */
    /* Products with split activations, of weights that are `rounded`, and of other large matrices
     * of the types in splits_large; NULL: there is none. split: n values of a row, from a multiple
     * of FT_SPLIT_PAD on. */
    ft_dot8_fn *dot_split[FT_TYPE_MAX];
    void (*split)(unsigned char *to, const float *x, int n);
    int split_rows, split_step;
    bool splits_large[FT_TYPE_MAX];
    void (*to_scaled_f16)(unsigned char *to, float *scale, const float *x, int n); /* likewise */
    ft_dotf_fn *dotf[FT_TYPE_MAX]; /* F32, F16, BF16; Q8_0 of caches */
    /* x: columns [lo, hi) of a row of k values, whole blocks */
    void (*quantise)(ft_col8 to, const float *x, int lo, int hi, int k);
    void (*quantise_wide)(ft_col8 to, const float *x, int lo, int hi);
    float (*dot)(const float *a, const float *b, int n);
    float (*sum)(const float *x, int n);
    /* c[m, n] += a[m, k] b[k, n], each output summed in the order of k. */
    void (*mm)(float *c, int ldc, const float *a, int lda, const float *b, int ldb, int m, int n,
               int k);
    void (*f16_to_f32)(float *y, const unsigned char *x, int n);
    void (*q8_0_to_f32)(float *y, const unsigned char *x, int n);
    void (*f32_to_f16)(unsigned char *y, const float *x, int n);
    void (*exp_minus)(float *y, const float *x, float m, int n); /* y = e^(x - m) */
    void (*silu)(float *y, int n);
    void (*silu_mul)(float *y, const float *g, const float *u, int n);
    void (*gelu_mul)(float *y, const float *g, const float *u, int n);
    void (*sigmoid_mul)(float *y, const float *g, int n);
    void (*softcap)(float *y, float c, int n);
    /* y[i] = the sum over j of w[4 i + j] x[j][i], j = 0 to 3 in order */
    void (*conv4)(float *y, const float *const *x, const float *w, int n);
    /* Z: the state of a head, [S, S]; work: scratch of FT_DELTA_COLS columns of it. */
    void (*delta_rows)(float *Z, const ft_delta_rows *r, float *work);
    /* n iterations of the fastest multiply-add with operands in registers; returns the operations
     * of one of them. */
    double (*spin)(int n);
} ft_kern;

void ft_kern_init(ft_kern *k, unsigned isa);
void ft_kern_c(ft_kern *k);
void ft_kern_c_turbo(ft_kern *k);
void ft_kern_c_tq(ft_kern *k);
void ft_kern_neon(ft_kern *k);
void ft_kern_dotprod(ft_kern *k);
void ft_kern_fhm(ft_kern *k);
void ft_kern_i8mm(ft_kern *k);
void ft_kern_bf16(ft_kern *k);
void ft_kern_avx2(ft_kern *k);
void ft_kern_avxvnni(ft_kern *k);
void ft_kern_avx512(ft_kern *k);
void ft_kern_avx512vnni(ft_kern *k);
void ft_kern_avx512vnni_wide(ft_kern *k);
void ft_kern_amx(ft_kern *k);
void ft_kern_amx_plain(ft_kern *k);
void ft_kern_amx_wide(ft_kern *k);

/* Fused where the machine has the instruction, else two roundings: libm's emulation is very slow.
 */
static inline float ft_fma(float a, float b, float c)
{
#ifdef FP_FAST_FMAF
    return fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

#endif
