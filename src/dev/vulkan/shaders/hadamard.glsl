/* hadamard.glsl - the transform of turbo rows (quant/turbo.c) in shared memory, by a workgroup of
 * WG invocations: vector has whole groups. */
float signed_by(uint minus[4], int i, float x)
{
    return uintBitsToFloat(floatBitsToUint(x) ^ (minus[i / 32] >> i % 32 & 1u) << 31);
}

#define HADAMARD(vector, width, group, from, to, root)                                             \
    {                                                                                              \
        const int me_ = int(gl_LocalInvocationIndex);                                              \
        barrier();                                                                                 \
        for (int i = me_; i < (width); i += WG)                                                    \
            vector[i] = signed_by(from, i % (group), vector[i]);                                   \
        for (int h = 1; h < (group); h *= 2) {                                                     \
            barrier();                                                                             \
            for (int i = me_; i < (width) / 2; i += WG) {                                          \
                const int j = i / h * 2 * h + i % h;                                               \
                precise float p = vector[j] + vector[j + h], q = vector[j] - vector[j + h];        \
                vector[j] = p;                                                                     \
                vector[j + h] = q;                                                                 \
            }                                                                                      \
        }                                                                                          \
        barrier();                                                                                 \
        for (int i = me_; i < (width); i += WG) {                                                  \
            precise float p = vector[i] * (root);                                                  \
            vector[i] = signed_by(to, i % (group), p);                                             \
        }                                                                                          \
        barrier();                                                                                 \
    }
