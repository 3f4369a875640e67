/* row_norm.glsl - the norm of a row that norm.comp computes with NORM invocations, computed by the WG
 * invocations of a product with the same operations: an invocation has the sums of OWN ones there. */
float row_inv_rms(F32 x, int n, float eps)
{
    const int me = int(gl_LocalInvocationIndex), OWN = NORM > WG ? NORM / WG : 1, TIMES = 8 / OWN;
    float sum[8], own[8];
    [[unroll]] for (int q = 0; q < OWN; q++) sum[q] = 0.0;
    for (int first = 0; first < n; first += TIMES * OWN * WG) {
        [[unroll]] for (int i = 0; i < TIMES * OWN; i++) {
            const int c = first + WG * i + me;
            own[i] = c < n ? x.v[c] : 0.0;
        }
        [[unroll]] for (int i = 0; i < TIMES * OWN; i++)
            sum[i % OWN] = fma(own[i], own[i], sum[i % OWN]);
    }
    [[unroll]] for (int s = OWN / 2; s > 0; s /= 2)
        [[unroll]] for (int q = 0; q < s; q++) {
            precise float both = sum[q] + sum[q + s];
            sum[q] = both;
        }
    return 1.0 / sqrt(wg_sum(sum[0]) / float(n) + eps);
}

vec4 normed(vec4 x, float inv_rms, vec4 gain)
{
    precise vec4 v = x * inv_rms * gain;
    return v;
}
