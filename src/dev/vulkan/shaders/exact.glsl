/* exact.glsl - division and square root rounded to nearest, for the bytes of the KV cache: Vulkan
 * allows errors of 2.5 units in the last place. The error of a result is computed exactly, with
 * products split in two (Dekker), and corrected. */

float product_error(float a, float b, float p)
{
    precise float ca = 4097.0 * a, cb = 4097.0 * b;
    precise float ah = ca - (ca - a), bh = cb - (cb - b);
    precise float al = a - ah, bl = b - bh;
    precise float e = ((ah * bh - p) + ah * bl + al * bh) + al * bl;
    return e;
}

bool splits(float a)
{
    return abs(a) < 1e30 && abs(a) > 1e-25;
}

float div_rn(float a, float b)
{
    precise float q = a / b;
    if (!splits(a) || !splits(b) || !splits(q)) return q;
    precise float p = q * b;
    precise float r = (a - p) - product_error(q, b, p);
    precise float y = q + r / b;
    return y;
}

float sqrt_rn(float a)
{
    precise float s = sqrt(a);
    if (!splits(a)) return s;
    precise float p = s * s;
    precise float r = (a - p) - product_error(s, s, p);
    precise float y = s + r / (2.0 * s);
    return y;
}
