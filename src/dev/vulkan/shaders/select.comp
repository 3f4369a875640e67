/* The largest values of a row, by a workgroup: argmax, the experts of route, the centroids of
 * centroid_head. Of equal values the lower index is first; a NaN counts as -inf. Rows as wide as a
 * vocabulary are shared by K workgroups (PART), whose results are compared then (JOIN). */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
const int WG = 256;
layout(local_size_x = 256) in;
#include "reduce.glsl"
layout(constant_id = 0) const int OP = 0;
/* the order of ft_vk_select in vulkan.h */
const int ARGMAX = 0, ROUTE = 1, TOP = 2, PART = 3, JOIN = 4;
const int NONE = 0x7fffffff;
layout(push_constant, scalar) uniform Push {
    Mat x;
    ADDRESS id, w;
    int K;
} a;

const int RANKED = 512;
const int NUMBERS = RANKED; /* NaN as -inf, -inf beyond the last */
#include "rank.glsl"
shared float best[WG], ranked[RANKED];
shared int at[WG];

/* The first of the values and indices that each invocation has. */
int first_of(float v, int k)
{
    const int me = int(gl_LocalInvocationIndex);
    best[me] = v;
    at[me] = k;
    barrier();
    for (int s = WG / 2; s > 0; s /= 2) {
        if (me < s && before(best[me + s], at[me + s], best[me], at[me])) {
            best[me] = best[me + s];
            at[me] = at[me + s];
        }
        barrier();
    }
    const int r = at[0];
    barrier();
    return r;
}

/* The index in [from, to) that follows (bound, last) in the order; NONE when there is none. */
int next(F32 x, int from, int to, float bound, int last)
{
    float v = -INF;
    int k = NONE;
    for (int j = from + int(gl_LocalInvocationIndex); j < to; j += WG) {
        const float y = number(x.v[j]);
        if (before(bound, last, y, j) && before(y, j, v, k)) v = y, k = j;
    }
    return first_of(v, k);
}

/* The first of the K indices of the parts of a row. */
int join(F32 x, I32 part)
{
    float v = -INF;
    int k = NONE;
    for (int i = int(gl_LocalInvocationIndex); i < a.K; i += WG) {
        const int j = part.v[i];
        const float y = j != NONE ? number(x.v[j]) : -INF;
        if (before(y, j, v, k)) v = y, k = j;
    }
    return first_of(v, k);
}

/* The experts of a row with at most RANKED of them: each value counts those before it. */
void route_ranked(F32 x, int n, I32 id, F32 w)
{
    const int me = int(gl_LocalInvocationIndex);
    float sum = 0.0;
    for (int e = me; e < (n + 3) / 4 * 4; e += WG) {
        const float v = e < n ? x.v[e] : -INF;
        ranked[e] = v;
        numbers[e / 4][e % 4] = number(v);
    }
    barrier();
    for (int e = me; e < n; e += WG) {
        const int rank = rank_of(0, e, (n + 3) / 4);
        if (rank < a.K) at[rank] = e;
    }
    barrier();
    const float top = max(-3.4028235e38, number(ranked[at[0]]));
    for (int e = me; e < n; e += WG) sum += exp_of(ranked[e] - top);
    const float all = wg_sum(sum);
    if (me < a.K) best[me] = exp_of(ranked[at[me]] - top) / all;
    barrier();
    if (me >= a.K) return;
    precise float picked = 0.0;
    for (int i = 0; i < a.K; i++) picked += best[i];
    id.v[me] = at[me];
    w.v[me] = best[me] / max(picked, 6.103515625e-5);
}

void main()
{
    const int t = int(gl_WorkGroupID.x), n = cols(a.x), me = int(gl_LocalInvocationIndex);
    F32 x = head(a.x, t, 0);
    if (OP == PART) {
        const int p = int(gl_WorkGroupID.y), each = (n + a.K - 1) / a.K;
        const int i = next(x, p * each, min(n, (p + 1) * each), INF, -1);
        if (me == 0) I32(a.w).v[t * a.K + p] = i;
        return;
    }
    if (OP == ARGMAX || OP == JOIN) {
        const int i = OP == JOIN ? join(x, I32(a.w + 4ul * uint64_t(t * a.K)))
                                 : next(x, 0, n, INF, -1);
        if (me == 0) I32(a.id).v[t] = i != NONE && number(x.v[i]) > -INF ? i : -1;
        return;
    }
    I32 id = I32(a.id + 4ul * uint64_t(t * a.K));
    if (OP == ROUTE && n <= RANKED && a.K <= WG) {
        route_ranked(x, n, id, F32(a.w + 4ul * uint64_t(t * a.K)));
        return;
    }
    float bound = INF;
    int last = -1;
    for (int i = 0; i < a.K; i++) {
        const int found = next(x, 0, n, bound, last);
        last = found != NONE ? found : 0;
        bound = number(x.v[last]);
        if (me == 0) id.v[i] = last;
    }
    if (OP != ROUTE) return;
    float top = -3.4028235e38, sum = 0.0;
    for (int e = me; e < n; e += WG) top = max(top, x.v[e]);
    top = wg_max(top);
    for (int e = me; e < n; e += WG) sum += exp_of(x.v[e] - top);
    const float all = wg_sum(sum);
    if (me != 0) return;
    F32 w = F32(a.w + 4ul * uint64_t(t * a.K));
    precise float picked = 0.0;
    for (int i = 0; i < a.K; i++) picked += exp_of(x.v[id.v[i]] - top) / all;
    picked = max(picked, 6.103515625e-5);
    for (int i = 0; i < a.K; i++) w.v[i] = exp_of(x.v[id.v[i]] - top) / all / picked;
}
