/* rank.glsl - the order of the values of a row: of equal ones the lower index is first; a NaN counts
 * as -inf. Before it is included, NUMBERS is defined. */
shared vec4 numbers[NUMBERS / 4];

float number(float x)
{
    return x == x ? x : -INF;
}

bool before(float p, int i, float q, int j)
{
    return p > q || (p == q && i < j);
}

/* How many of the numbers in `fours` vectors, from vector `from` on, are before number e there. */
int rank_of(int from, int e, int fours)
{
    const vec4 own = numbers[from + e / 4], v = vec4(own[e % 4]);
    ivec4 rank = ivec4(0);
    for (int j = 0; j < e / 4; j++) rank += ivec4(greaterThanEqual(numbers[from + j], v));
    for (int j = e / 4 + 1; j < fours; j++) rank += ivec4(greaterThan(numbers[from + j], v));
    for (int c = 0; c < 4; c++) rank.x += before(own[c], c, v.x, e % 4) ? 1 : 0;
    return rank.x + rank.y + rank.z + rank.w;
}
