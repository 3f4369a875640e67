/* reduce.glsl - sums of a workgroup of WG invocations, a multiple of 32, in an order that no driver
 * can change. */
shared float reduce_v[WG];
shared vec4 reduce_part[8];

/* The sum in the order of a tree: x[i] + x[i + WG / 2], then WG / 4 and so on down to 1. Invocations
 * up to 31 add those a multiple of 32 from theirs; all of them add these 32 sums. */
float wg_sum(float x)
{
    const int i = int(gl_LocalInvocationIndex), OWN = WG / 32;
    reduce_v[i] = x;
    barrier();
    if (i < 32) {
        float own[OWN];
        [[unroll]] for (int j = 0; j < OWN; j++) own[j] = reduce_v[i + 32 * j];
        [[unroll]] for (int s = OWN / 2; s > 0; s /= 2)
            [[unroll]] for (int j = 0; j < s; j++) {
                precise float both = own[j] + own[j + s];
                own[j] = both;
            }
        reduce_part[i / 4][i % 4] = own[0];
    }
    barrier();
    vec4 four[4];
    [[unroll]] for (int j = 0; j < 4; j++) {
        precise vec4 both = reduce_part[j] + reduce_part[j + 4];
        four[j] = both;
    }
    precise vec4 sum = (four[0] + four[2]) + (four[1] + four[3]);
    precise vec2 two = sum.xy + sum.zw;
    precise float one = two.x + two.y;
    return one;
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
