/* Multiplies two matrices of small integers, made and read as coop.glsl says, and counts the wrong
 * results of each lane: whether the driver's layout is that one. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "coop.glsl"
layout(local_size_x = 32) in;
layout(push_constant, scalar) uniform Push {
    ADDRESS to;
} a;

float left(int row, int col)
{
    return float((row * 37 + col * 11 + row * col) % 17 - 8);
}

float right(int row, int col)
{
    return float((row * 13 + col * 29 + row * row * col) % 19 - 9);
}

f16vec2 lefts(int row, int col)
{
    return f16vec2(left(row, col), left(row, col + 1));
}

f16vec2 rights(int row, int col)
{
    return f16vec2(right(row, col), right(row + 1, col));
}

int wrong(float x, int row, int col)
{
    float sum = float(row - col);
    for (int i = 0; i < 16; i++) sum += left(row, i) * right(i, col);
    return x == sum ? 0 : 1;
}

void main()
{
    const int lane = int(gl_SubgroupInvocationID), g = lane / 4, t = 2 * (lane % 4);
    const MAT_A x = operand_a(lefts(g, t), lefts(g + 8, t), lefts(g, t + 8), lefts(g + 8, t + 8));
    const MAT_B y = operand_b(rights(t, g), rights(t + 8, g));
    const vec4 e = elements(coop_mul_add(x, y, operand_c(float(g - t), float(g - t - 1),
                                                         float(g + 8 - t), float(g + 7 - t))));
    I32(a.to).v[lane] = wrong(e.x, g, t) + wrong(e.y, g, t + 1) + wrong(e.z, g + 8, t) +
                        wrong(e.w, g + 8, t + 1);
}
