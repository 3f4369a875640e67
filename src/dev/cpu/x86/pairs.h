/* dev/cpu/x86/pairs.h - half_sum for packed.h without VNNI. Sums of two byte products have 16 bits
 * and must not saturate: with unsigned bytes below 32 the sums of four quads can be added, below 64
 * those of two, below 128 none. Of other bytes the magnitude is multiplied, with the sign applied
 * to the activation. */
#ifndef FT_DEV_CPU_X86_PAIRS_H
#define FT_DEV_CPU_X86_PAIRS_H

enum { SIGNED_BYTES = 1 };

/* start + four values of each row times x[0 ... 3], and so on for four quads */
INLINE vi half_sum(vi start, const vi *q, const int8_t *x, const int kind)
{
    vi sum[4];
    UNROLL for (int j = 0; j < 4; j++)
    {
        const vi xs = v_four(x + 4 * j);
        sum[j] = kind == BYTES_ANY ? v_dot2(v_abs8(q[j]), v_negate8(xs, q[j])) : v_dot2(q[j], xs);
    }
    const int step = kind == BYTES_SMALL ? 4 : kind == BYTES_64 ? 2 : 1;
    if (step > 1) sum[0] = v_add16(sum[0], sum[1]), sum[2] = v_add16(sum[2], sum[3]);
    if (step > 2) sum[0] = v_add16(sum[0], sum[2]);
    UNROLL for (int j = 0; j < 4; j += step) start = v_add32(start, v_sum2(sum[j]));
    return start;
}

/* sum + products of unsigned and signed bytes, as fast as the CPU adds them */
INLINE vi add_products(vi sum, vi u, vi s)
{
    return v_add16(sum, v_dot2(u, s));
}

#endif
