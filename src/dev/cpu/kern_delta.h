/* dev/cpu/kern_delta.h - the recurrence of a delta net over a few rows, for a file that includes
 * this and defines
 *     vf, W a vector of W floats; f_load f_store f_set1 f_zero f_mul; f_spread: one
 *                      float of memory in all elements
 *     f_fma, f_fnma a b + c, c - a b
 *     DELTA_V, DELTA_WIDE vectors of a block, and of one for up to two rows
 *     DELTA_E journal entries that are applied together, at least 2
 *
 * The value columns of a state are independent: a block of them is processed completely, journal
 * entries and rows, while it is in the L1 cache. It is read from memory once. (For up to two rows,
 * reading whole rows of the state is faster where the registers allow it.) The pass that computes a
 * row's state also computes the product with the next row's key, and the state after the last
 * tentative row is never stored. Each value has one order of operations, however passes are joined.
 */
#ifndef FT_DEV_CPU_KERN_DELTA_H
#define FT_DEV_CPU_KERN_DELTA_H

#include "base/mem.h"
#include "dev/cpu/kern.h"

/* What a pass over the keys does with each row z of the state: */
enum {
    DELTA_UPDATE = 1, /* z = decay z + k u */
    DELTA_HOLD = 2,   /* stored in scratch */
    DELTA_STORE = 4,  /* stored in the state */
    DELTA_OUT = 8,    /* out += z q */
    DELTA_NEXT = 16,  /* next += z n */
    DELTA_AHEAD = 32, /* the adjacent block is prefetched */
};

typedef struct delta_pass {
    const float *from; /* rows `step` apart */
    int step, S;
    float *hold, *state; /* rows W V and S apart */
    const float *k, *q, *n;
    float decay;
} delta_pass;

/* Prefetches the row of the adjacent block. */
INLINE void delta_ahead(const float *z, const int V)
{
    UNROLL for (int i = 0; i < W * V; i += 16) __builtin_prefetch(z + W * V + i);
}

/* u: the update, input; the products with n, output. */
INLINE void delta_walk(const delta_pass *p, vf *u, float *o, const int does, const int V)
{
    const float *from = p->from;
    float *hold = p->hold, *state = p->state;
    const int step = p->step, S = p->S;
    const vf fade = f_set1(p->decay);
    vf out[DELTA_WIDE], next[DELTA_WIDE];
    UNROLL for (int j = 0; j < V; j++) out[j] = next[j] = f_zero();
    for (int i = 0; i < S; i++, from += step, hold += W * V, state += S) {
        if (does & DELTA_AHEAD) delta_ahead(from, V);
        const vf k = does & DELTA_UPDATE ? f_spread(p->k + i) : f_zero();
        const vf q = does & DELTA_OUT ? f_spread(p->q + i) : f_zero();
        const vf n = does & DELTA_NEXT ? f_spread(p->n + i) : f_zero();
        UNROLL for (int j = 0; j < V; j++)
        {
            vf z = f_load(from + W * j);
            if (does & DELTA_UPDATE) z = f_fma(u[j], k, f_mul(z, fade));
            if (does & DELTA_HOLD) f_store(hold + W * j, z);
            if (does & DELTA_STORE) f_store(state + W * j, z);
            if (does & DELTA_OUT) out[j] = f_fma(z, q, out[j]);
            if (does & DELTA_NEXT) next[j] = f_fma(z, n, next[j]);
        }
    }
    UNROLL for (int j = 0; j < V; j++)
    {
        if (does & DELTA_OUT) f_store(o + W * j, out[j]);
        if (does & DELTA_NEXT) u[j] = next[j];
    }
}

/* Applies E journal entries, from `first` on, in one pass; u: the product of the result with n. */
INLINE void delta_apply(const delta_pass *p, const ft_delta_rows *r, int j, int first, vf *u,
                        const int E, const int V)
{
    const int S = p->S;
    float *state = p->state;
    const float *k[DELTA_E];
    vf fade[DELTA_E], d[DELTA_E][DELTA_WIDE];
    UNROLL for (int e = 0; e < E; e++)
    {
        k[e] = r->jk + (first + e) * r->jk_step;
        fade[e] = f_set1(r->j_decay[first + e]);
        UNROLL for (int c = 0; c < V; c++) d[e][c] =
            f_load(r->jd + (first + e) * r->jd_step + j + W * c);
    }
    UNROLL for (int c = 0; c < V; c++) u[c] = f_zero();
    for (int i = 0; i < S; i++, state += S) {
        delta_ahead(state, V);
        const vf n = f_spread(p->n + i);
        vf key[DELTA_E];
        UNROLL for (int e = 0; e < E; e++) key[e] = f_spread(k[e] + i);
        UNROLL for (int c = 0; c < V; c++)
        {
            vf z = f_load(state + W * c);
            UNROLL for (int e = 0; e < E; e++) z = f_fma(d[e][c], key[e], f_mul(z, fade[e]));
            f_store(state + W * c, z);
            u[c] = f_fma(z, n, u[c]);
        }
    }
}

/* Applies the journal; u: the product with the first row's key. As many entries share a pass as the
 * registers can hold. */
INLINE void delta_enter(delta_pass *p, const ft_delta_rows *r, int j, vf *u, const int V)
{
    const int most = DELTA_E * DELTA_V / V < DELTA_E ? DELTA_E * DELTA_V / V : DELTA_E;
    p->n = r->n ? r->k : r->jk;
    if (!r->replay) delta_walk(p, u, NULL, DELTA_NEXT | DELTA_AHEAD, V);
    for (int e = 0; e < r->replay; e += most) {
        const int n = FT_MIN(r->replay - e, most);
        if (n == 1)
            delta_apply(p, r, j, e, u, 1, V);
        else if (n == 2)
            delta_apply(p, r, j, e, u, 2, V);
        else if (n == 3 && most > 3)
            delta_apply(p, r, j, e, u, 3, V);
        else
            delta_apply(p, r, j, e, u, most, V);
    }
}

/* V vectors of columns from j on. The rows of a state are a power of two apart, so a block of it
 * maps to few cache sets: between rows it is kept in contiguous scratch. */
INLINE void delta_block(float *Z, const ft_delta_rows *r, int j, float *work, const int V)
{
    const int S = r->S;
    delta_pass p = {.from = Z + j, .step = S, .S = S, .hold = work, .state = Z + j};
    vf u[DELTA_WIDE];
    UNROLL for (int c = 0; c < V; c++) u[c] = f_zero();
    delta_enter(&p, r, j, u, V);
    for (int t = 0; t < r->n; t++) {
        const float *v = r->v + (size_t)t * (size_t)r->v_step + j;
        float *o = r->o + (size_t)t * (size_t)r->o_step + j, *upd = r->upd + t * S + j;
        const vf fade = f_set1(r->decay[t]), share = f_set1(r->beta[t]);
        UNROLL for (int c = 0; c < V; c++)
        {
            u[c] = f_mul(f_fnma(u[c], fade, f_load(v + W * c)), share);
            f_store(upd + W * c, u[c]);
        }
        p.k = r->k + t * S;
        p.q = r->q + t * S;
        p.n = p.k + S;
        p.decay = r->decay[t];
        if (t + 1 < r->n)
            delta_walk(&p, u, o, DELTA_UPDATE | DELTA_HOLD | DELTA_OUT | DELTA_NEXT, V);
        else if (r->store_state)
            delta_walk(&p, u, o, DELTA_UPDATE | DELTA_STORE | DELTA_OUT, V);
        else
            delta_walk(&p, u, o, DELTA_UPDATE | DELTA_OUT, V);
        p.from = work;
        p.step = W * V;
    }
}

/* One column that is left over after the vectors. */
static void delta_column(float *Z, const ft_delta_rows *r, int j, float *z)
{
    const int S = r->S;
    for (int i = 0; i < S; i++) {
        float *at = Z + (size_t)i * (size_t)S + j;
        for (int e = 0; e < r->replay; e++)
            *at = ft_fma(r->jd[e * r->jd_step + j], r->jk[e * r->jk_step + i], *at * r->j_decay[e]);
        z[i] = *at;
    }
    for (int t = 0; t < r->n; t++) {
        const float *k = r->k + (size_t)t * (size_t)S, *q = r->q + (size_t)t * (size_t)S;
        float u = 0, out = 0;
        for (int i = 0; i < S; i++) u = ft_fma(z[i], k[i], u);
        u = ft_fma(-u, r->decay[t], r->v[(size_t)t * (size_t)r->v_step + (size_t)j]) * r->beta[t];
        r->upd[t * S + j] = u;
        for (int i = 0; i < S; i++) {
            z[i] = ft_fma(u, k[i], z[i] * r->decay[t]);
            out = ft_fma(z[i], q[i], out);
        }
        r->o[(size_t)t * (size_t)r->o_step + (size_t)j] = out;
    }
    for (int i = 0; r->store_state && i < S; i++) Z[(size_t)i * (size_t)S + (size_t)j] = z[i];
}

static void delta_rows(float *Z, const ft_delta_rows *r, float *work)
{
    int j = 0;
    for (; r->n <= 2 && j + DELTA_WIDE * W <= r->S; j += DELTA_WIDE * W)
        delta_block(Z, r, j, work, DELTA_WIDE);
    for (; j + DELTA_V * W <= r->S; j += DELTA_V * W) delta_block(Z, r, j, work, DELTA_V);
    for (; j + W <= r->S; j += W) delta_block(Z, r, j, work, 1);
    for (; j < r->S; j++) delta_column(Z, r, j, work);
}

#endif
