/* row_norm.glsl - products of one row that compute its norm themselves, with the sums of norm.comp:
 * a workgroup of ROW_WG invocations has the partial sums of NORM ones (0: x is used as it is). */
shared float row_sum[ROW_WG];
const int VIRTUAL = NORM / ROW_WG;

/* 1 / rms of a row. */
float row_inv_rms(F32 x, int n, float eps)
{
    const int me = int(gl_LocalInvocationIndex);
    float own[8];
    [[unroll]] for (int q = 0; q < VIRTUAL; q++) own[q] = 0.0;
    for (int first = 0; first < n; first += NORM)
        [[unroll]] for (int q = 0; q < VIRTUAL; q++) {
            const int i = first + ROW_WG * q + me;
            const float v = i < n ? x.v[i] : 0.0;
            own[q] = fma(v, v, own[q]);
        }
    [[unroll]] for (int s = VIRTUAL / 2; s > 0; s /= 2)
        [[unroll]] for (int q = 0; q < s; q++) {
            precise float both = own[q] + own[q + s];
            own[q] = both;
        }
    row_sum[me] = own[0];
    barrier();
    for (int s = ROW_WG / 2; s > 0; s /= 2) {
        if (me < s) {
            precise float both = row_sum[me] + row_sum[me + s];
            row_sum[me] = both;
        }
        barrier();
    }
    return 1.0 / sqrt(row_sum[0] / float(n) + eps);
}

vec4 normed(vec4 x, float inv_rms, vec4 gain)
{
    precise vec4 v = x * inv_rms * gain;
    return v;
}
