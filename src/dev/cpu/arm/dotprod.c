/* The SDOT instruction: sixteen byte products into four sums at once. On woven weights it takes
 * four values of each of four rows against four activations: the four sums are four outputs. */
#include <arm_neon.h>

static inline int32x4_t dot16(int32x4_t acc, int8x16_t a, int8x16_t b)
{
    return vdotq_s32(acc, a, b);
}

static inline int32x4_t fours16(int8x16_t a, int8x16_t b)
{
    return vdotq_s32(vdupq_n_s32(0), a, b);
}

#include "dev/cpu/arm/tq.h"
#include "dev/cpu/arm/turbo.h"

enum { PIECE = 4 };

/* Four values of four rows in a vector. */
static inline void place(int r, int k, int *v, int *byte)
{
    *v = k / 4;
    *byte = 4 * r + k % 4;
}

INLINE void tile_zero(float32x4_t *acc, const int n)
{
    UNROLL for (int c = 0; c < n; c++) acc[c] = vdupq_n_f32(0);
}

INLINE void tile_store(float *const *y, int o, const float32x4_t *acc, const int n)
{
    UNROLL for (int c = 0; c < n; c++) vst1q_f32(y[c] + o, acc[c]);
}

static int32x4_t sum_begin(void);
static float32x4_t sum_end(int32x4_t i);

/* acc += four values of four rows times those of a column in lane j of q */
INLINE int32x4_t dot_lane(int32x4_t acc, int8x16_t v, int8x16_t q, const int j)
{
    return j == 0   ? vdotq_laneq_s32(acc, v, q, 0)
           : j == 1 ? vdotq_laneq_s32(acc, v, q, 1)
           : j == 2 ? vdotq_laneq_s32(acc, v, q, 2)
                    : vdotq_laneq_s32(acc, v, q, 3);
}

/* i[c] += half a block for n columns; these take turns, because a sum waits for itself. */
INLINE void dot_half(int32x4_t *i, const int8x16_t *v, const ft_col8 *x, const int n, int at)
{
    int8x16_t q[8];
    UNROLL for (int c = 0; c < n; c++) q[c] = vld1q_s8(x[c].q + at);
    UNROLL for (int j = 0; j < 4; j++) UNROLL for (int c = 0; c < n; c++) i[c] =
        dot_lane(i[c], v[j], q[c], j);
}

INLINE void few_block(float32x4_t *acc, const int8x16_t *v, float32x4_t s, const ft_col8 *x,
                      const int n, int b)
{
    int32x4_t i[8];
    UNROLL for (int c = 0; c < n; c++) i[c] = sum_begin();
    dot_half(i, v, x, n, 32 * b);
    dot_half(i, v + 4, x, n, 32 * b + 16);
    UNROLL for (int c = 0; c < n; c++) acc[c] =
        vfmaq_n_f32(acc[c], vmulq_f32(sum_end(i[c]), s), x[c].d[b]);
}

/* One column alone: two sums. */
INLINE void one_block(float32x4_t *acc, const int8x16_t *v, float32x4_t s, const ft_col8 *x, int b)
{
    const int8x16_t q = vld1q_s8(x->q + 32 * b), r = vld1q_s8(x->q + 32 * b + 16);
    int32x4_t i = sum_begin(), k = vdupq_n_s32(0);
    UNROLL for (int j = 0; j < 4; j++)
    {
        i = dot_lane(i, v[j], q, j);
        k = dot_lane(k, v[j + 4], r, j);
    }
    *acc = vfmaq_n_f32(*acc, vmulq_f32(sum_end(vaddq_s32(i, k)), s), x->d[b]);
}

/* Block b, scaled by s. */
INLINE void tile_block(float32x4_t *acc, const int8x16_t *v, float32x4_t s, const ft_col8 *x,
                       const int n, int b)
{
    if (n == 1) {
        one_block(acc, v, s, x, b);
        return;
    }
    few_block(acc, v, s, x, n, b);
}

#include "dev/cpu/arm/woven.h"

/* Sixteen sums: more than the instruction's latency times its rate. */
static double spin(int n)
{
    int32x4_t s[16];
    const int8x16_t v = vdupq_n_s8(1);
    _Pragma("GCC unroll 16") for (int j = 0; j < 16; j++) s[j] = vdupq_n_s32(j);
    for (int i = 0; i < n; i++)
        _Pragma("GCC unroll 16") for (int j = 0; j < 16; j++) __asm__ volatile(
            "sdot %0.4s, %1.16b, %1.16b" : "+w"(s[j]) : "w"(v));
    return 16 * 32;
}

void ft_kern_dotprod(ft_kern *k)
{
    fill_dot8(k);
    fill_turbo(k);
    fill_tq(k);
    fill_woven(k);
    k->spin = spin;
}
