/* reduce.glsl - sums of a workgroup of WG invocations, in an order that no driver can change. */
shared float reduce_v[WG];

float wg_sum(float x)
{
    const uint i = gl_LocalInvocationIndex;
    reduce_v[i] = x;
    barrier();
    for (uint s = WG / 2; s > 0; s /= 2) {
        if (i < s) {
            precise float sum = reduce_v[i] + reduce_v[i + s];
            reduce_v[i] = sum;
        }
        barrier();
    }
    const float r = reduce_v[0];
    barrier();
    return r;
}

float wg_max(float x)
{
    const uint i = gl_LocalInvocationIndex;
    reduce_v[i] = x;
    barrier();
    for (uint s = WG / 2; s > 0; s /= 2) {
        if (i < s) reduce_v[i] = max(reduce_v[i], reduce_v[i + s]);
        barrier();
    }
    const float r = reduce_v[0];
    barrier();
    return r;
}
