/* dev/cpu/x86/vnni.h - half_sum for packed.h with VNNI. A file that includes this defines v_dot4:
 * one instruction that adds the products of four unsigned codes of each row with four activations.
 */
#ifndef FT_DEV_CPU_X86_VNNI_H
#define FT_DEV_CPU_X86_VNNI_H

enum { SIGNED_BYTES = 0 };

/* start + four values of each row times x[0 ... 3], and so on for four quads */
INLINE vi half_sum(vi start, const vi *q, const int8_t *x, const int kind)
{
    (void)kind;
    UNROLL for (int j = 0; j < 4; j++) start = v_dot4(start, q[j], v_four(x + 4 * j));
    return start;
}

/* sum + products of unsigned and signed bytes, as fast as the CPU adds them */
INLINE vi add_products(vi sum, vi u, vi s)
{
    return v_dot4(sum, u, s);
}

#endif
