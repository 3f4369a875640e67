/* coop.glsl - cooperative matrices of a subgroup of 32: A [16, 16] times B [16, 8], f16, added to
 * C [16, 8], f32. Written with GL_NV_cooperative_matrix, because glslang before 12.3 does not know
 * GL_KHR_cooperative_matrix; coop.c translates the few instructions. Lane 4 g + t has these
 * elements, which layout.comp checks:
 *   A 0-1: row g, columns 2t and 2t + 1; 2-3: row g + 8; 4-5: row g, 8 columns on; 6-7: both
 *     (LAYOUT 1: 2-5 in the other order)
 *   B 0-1: rows 2t and 2t + 1 of column g; 2-3: 8 rows on
 *     (LAYOUT 2: row g, columns 2t and 2t + 1; 2-3: row g + 8)
 *   C 0-1: row g, columns 2t and 2t + 1; 2-3: row g + 8
 * Operands are therefore made in registers. The order of the 16 columns of A, rows of B, is
 * arbitrary as long as both have the same. */
#pragma use_vulkan_memory_model
#extension GL_KHR_memory_scope_semantics : require
#extension GL_NV_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
layout(constant_id = 5) const int LAYOUT = 0;

#define MAT_A fcoopmatNV<16, gl_ScopeSubgroup, 16, 16>
#define MAT_B fcoopmatNV<16, gl_ScopeSubgroup, 16, 8>
#define MAT_C fcoopmatNV<32, gl_ScopeSubgroup, 16, 8>

/* Of rows g and g + 8: first and second pair of columns. */
MAT_A operand_a(f16vec2 p0, f16vec2 p8, f16vec2 q0, f16vec2 q8)
{
    MAT_A m;
    m[0] = p0.x;
    m[1] = p0.y;
    if ((LAYOUT & 1) != 0) {
        m[2] = q0.x;
        m[3] = q0.y;
        m[4] = p8.x;
        m[5] = p8.y;
    } else {
        m[2] = p8.x;
        m[3] = p8.y;
        m[4] = q0.x;
        m[5] = q0.y;
    }
    m[6] = q8.x;
    m[7] = q8.y;
    return m;
}

/* Element (k, n) of B, k = g + 8 * (of q), from the lane that has rows k of column n. */
float16_t moved(f16vec2 p, uint n)
{
    const uint g = gl_SubgroupInvocationID / 4u;
    const f16vec2 v = unpackFloat2x16(subgroupShuffle(packFloat2x16(p), 4u * n + g / 2u));
    return g % 2u == 0u ? v.x : v.y;
}

MAT_B operand_b(f16vec2 p, f16vec2 q)
{
    MAT_B m;
    if ((LAYOUT & 2) != 0) {
        const uint n = gl_SubgroupInvocationID % 4u * 2u;
        m[0] = moved(p, n);
        m[1] = moved(p, n + 1u);
        m[2] = moved(q, n);
        m[3] = moved(q, n + 1u);
        return m;
    }
    m[0] = p.x;
    m[1] = p.y;
    m[2] = q.x;
    m[3] = q.y;
    return m;
}

MAT_C operand_c(float p0, float q0, float p8, float q8)
{
    MAT_C m;
    m[0] = p0;
    m[1] = q0;
    m[2] = p8;
    m[3] = q8;
    return m;
}

MAT_C coop_c(float x)
{
    return MAT_C(x);
}

MAT_C coop_mul_add(MAT_A a, MAT_B b, MAT_C c)
{
    return coopMatMulAddNV(a, b, c);
}

vec4 elements(MAT_C m)
{
    return vec4(m[0], m[1], m[2], m[3]);
}
