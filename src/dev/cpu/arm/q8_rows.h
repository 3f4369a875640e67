/* dev/cpu/arm/q8_rows.h - woven Q8_0 weights against 2, 3 and 4 columns: the rows of a step that
 * verifies drafts. The same sums as woven32 in interleaved.h, bit for bit, written out by hand.
 *
 * Weights come in at the speed of memory, and on a Neoverse-N1 two columns of arithmetic already
 * take as long. What compilers make of woven32 loses a fifth of the turns: the tail of a block,
 * three instructions of different lengths in a row for each column, holds up the units. Here the
 * tail of a block runs between the products of the next one, long after its sums are there.
 *
 * v0 - v3 are the sums of the first block of a pair, v8 - v11 of the second; v4 - v7 weights, v16 -
 * v19 activations, v12 - v15 their scales, v24 - v26 those of weights, v27 what sums begin with. */
#ifndef FT_DEV_CPU_ARM_Q8_ROWS_H
#define FT_DEV_CPU_ARM_Q8_ROWS_H

#include "dev/cpu/arm/dot8.h"

/* The registers of column c. */
#define QQ0 "16"
#define QQ1 "17"
#define QQ2 "18"
#define QQ3 "19"
#define XD0 "12"
#define XD1 "13"
#define XD2 "14"
#define XD3 "15"
#define SA0 "0"
#define SA1 "1"
#define SA2 "2"
#define SA3 "3"
#define SB0 "8"
#define SB1 "9"
#define SB2 "10"
#define SB3 "11"

/* For column c; S: SA or SB, the sums of this block or of the one before. */
#define LOAD_D(c, _)      "ldr d" XD##c ", [%[d" #c "]], #8\n\t"
#define ZERO_D(c, _)      "movi v" XD##c ".4s, #0\n\t"
#define LOAD_Q(c, at)     "ldr q" QQ##c ", [%[q" #c "], #" #at "]\n\t"
#define STEP_Q(c, _)      "add %[q" #c "], %[q" #c "], #64\n\t"
#define BEGIN(c, S)       "ldr q" S##c ", %[start]\n\t"
#define DOT(c, S, w, j)   "sdot v" S##c ".4s, v" #w ".16b, v" QQ##c ".4b[" #j "]\n\t"
#define SUB(c, S)         "fsub v" S##c ".4s, v" S##c ".4s, v27.4s\n\t"
#define MUL(c, S, d)      "fmul v" S##c ".4s, v" S##c ".4s, v" #d ".4s\n\t"
#define ADD(c, S, lane)   "fmla %[a" #c "].4s, v" S##c ".4s, v" XD##c ".s[" #lane "]\n\t"
#define WEIGHTS(a, b, at) "ldp q" #a ", q" #b ", [%[p], #" #at "]\n\t"

/* All columns; the first two; the others. */
#define FIRST2(f, ...) f(0, __VA_ARGS__) f(1, __VA_ARGS__)
#define FIRST3(f, ...) FIRST2(f, __VA_ARGS__)
#define FIRST4(f, ...) FIRST2(f, __VA_ARGS__)
#define REST2(f, ...)
#define REST3(f, ...) f(2, __VA_ARGS__)
#define REST4(f, ...) f(2, __VA_ARGS__) f(3, __VA_ARGS__)
#define OF(N, f, ...) FIRST##N(f, __VA_ARGS__) REST##N(f, __VA_ARGS__)

/* One block: its sums S, where its weights and activations lie; between its products the tail of
 * the block before, with sums T, scales d and lane; then `after` that tail. */
#define BLOCK_OF(N, S, w0, w1, w2, w3, x0, x1, T, d, lane, after)                                  \
    WEIGHTS(4, 5, w0)                                                                              \
    OF(N, LOAD_Q, x0)                                                                              \
    OF(N, BEGIN, S)                                                                                \
    OF(N, DOT, S, 4, 0)                                                                            \
    FIRST##N(SUB, T) WEIGHTS(6, 7, w1) OF(N, DOT, S, 5, 1) REST##N(SUB, T) OF(N, DOT, S, 6, 2)     \
        FIRST##N(MUL, T, d) OF(N, DOT, S, 7, 3) REST##N(MUL, T, d) WEIGHTS(4, 5, w2)               \
            OF(N, LOAD_Q, x1) OF(N, DOT, S, 4, 0) FIRST##N(ADD, T, lane) WEIGHTS(6, 7, w3)         \
                OF(N, DOT, S, 5, 1) REST##N(ADD, T, lane) OF(N, DOT, S, 6, 2) after                \
                OF(N, DOT, S, 7, 3)

#define PAIRS_OF(N)                                                                                \
    "ldr q27, %[start]\n\t" OF(N, BEGIN, SB) OF(                                                   \
        N, ZERO_D,                                                                                 \
        _) "movi v26.4s, #0\n\t"                                                                   \
           "1:\n\t"                                                                                \
           "ldr q24, [%[p]]\n\t" BLOCK_OF(N, SA, 16, 48, 80, 112, 0, 16, SB, 26, 1,                \
                                          OF(N, LOAD_D, _) "fcvtl v25.4s, v24.4h\n\t")             \
               BLOCK_OF(                                                                           \
                   N, SB, 144, 176, 208, 240, 32, 48, SA, 25, 0,                                   \
                   "fcvtl2 v26.4s, v24.8h\n\t") "add %[p], %[p], #272\n\t" OF(N, STEP_Q,           \
                                                                              _) "subs %w[n], "    \
                                                                                 "%w[n], #1\n\t"   \
                                                                                 "b.gt 1b\n\t" OF( \
                                                                                     N, SUB, SB)   \
                                                                                     OF(N, MUL,    \
                                                                                        SB, 26)    \
                                                                                         OF(N,     \
                                                                                            ADD,   \
                                                                                            SB, 1)

#define USED                                                                                       \
    "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", \
        "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", \
        "cc", "memory"

#define COLUMN(c) [a##c] "+w"(a[c]), [q##c] "+r"(q[c]), [d##c] "+r"(d[c])
#define COLUMNS2  COLUMN(0), COLUMN(1)
#define COLUMNS3  COLUMNS2, COLUMN(2)
#define COLUMNS4  COLUMNS3, COLUMN(3)

/* k is a multiple of 64. */
#define Q8_ROWS(N)                                                                                 \
    static void q8_rows##N(float *const *y, const unsigned char *w, size_t group, int rows, int k, \
                           const ft_col8 *x)                                                       \
    {                                                                                              \
        for (int o = 0; o < rows; o += 4, w += group) {                                            \
            const unsigned char *p = w;                                                            \
            const int8_t *q[N];                                                                    \
            const float *d[N];                                                                     \
            float32x4_t a[N];                                                                      \
            int n = k / 64;                                                                        \
            UNROLL for (int c = 0; c < N; c++)                                                     \
            {                                                                                      \
                q[c] = x[c].q;                                                                     \
                d[c] = x[c].d;                                                                     \
                a[c] = vdupq_n_f32(0);                                                             \
            }                                                                                      \
            __asm__ volatile(PAIRS_OF(N)                                                           \
                             : [p] "+r"(p), [n] "+r"(n), COLUMNS##N                                \
                             : [start] "m"(sum_start)                                              \
                             : USED);                                                              \
            UNROLL for (int c = 0; c < N; c++) vst1q_f32(y[c] + o, a[c]);                          \
        }                                                                                          \
    }

Q8_ROWS(2)
Q8_ROWS(3)
Q8_ROWS(4)

#endif
