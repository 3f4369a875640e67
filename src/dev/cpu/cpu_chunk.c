/* The gated delta rule for a chunk of rows at once, as products of small matrices:
 *   G_i  = g_1 + ... + g_i,  D_ij = e^(G_i - G_j) for i >= j
 *   A_ij = beta_i (k_i . k_j) D_ij for i > j
 *   Y    = (1 + A)^-1 diag(beta) (V - diag(e^G) K Z)      by forward substitution
 *   o_i  = e^(G_i) Z^T q_i + sum over j <= i of (q_i . k_j) D_ij Y_j
 *   Z    = e^(G_n) Z + sum over j of e^(G_n - G_j) k_j Y_j^T
 * No exponent is positive: differences are taken before the exponential, in double. */
#include "dev/cpu/cpu_dev.h"

#include <string.h>

enum {
    N = FT_CHUNK_ROWS,
    R = 16 /* rows of a triangle that are computed together; values above the diagonal are skipped
            */
};

typedef struct work {
    float *KT;    /* [S, N] */
    float *A, *M; /* [N, N] */
    float *Y;     /* [N, S] */
    float *D;     /* [N, N] */
    float *fall;  /* [N]: e^(G_i) */
    double G[N];
} work;

size_t ft_delta_chunk_scratch(int S)
{
    return 2 * N * (size_t)S + 3 * (size_t)N * N + N;
}

static work place(float *m, int S)
{
    work w;
    w.KT = m;
    w.Y = w.KT + (size_t)N * (size_t)S;
    w.A = w.Y + (size_t)N * (size_t)S;
    w.M = w.A + (size_t)N * N;
    w.D = w.M + (size_t)N * N;
    w.fall = w.D + (size_t)N * N;
    return w;
}

static void decays(const ft_kern *k, work *w, const float *g, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        w->G[i] = sum += (double)g[i];
        w->fall[i] = (float)sum;
        float *row = w->D + (size_t)i * N;
        for (int j = 0; j <= i; j++) row[j] = (float)(sum - w->G[j]);
        k->exp_minus(row, row, 0, i + 1);
    }
    k->exp_minus(w->fall, w->fall, 0, n);
}

/* A and M: lower triangles of K K^T and Q K^T, weighted. */
static void triangles(const ft_kern *k, work *w, const ft_chunk *c)
{
    const size_t S = (size_t)c->S;
    memset(w->A, 0, 2 * (size_t)N * N * sizeof(float)); /* M follows A */
    for (int r = 0; r < c->n; r += R) {
        const int rows = FT_MIN(R, c->n - r);
        const size_t at = (size_t)r;
        k->mm(w->A + at * N, N, c->k + at * S, c->S, w->KT, N, rows, r + rows, c->S);
        k->mm(w->M + at * N, N, c->q + at * S, c->S, w->KT, N, rows, r + rows, c->S);
    }
    for (int i = 0; i < c->n; i++) {
        float *a = w->A + (size_t)i * N, *m = w->M + (size_t)i * N;
        const float *d = w->D + (size_t)i * N;
        for (int j = 0; j < i; j++) a[j] *= -c->beta[i] * d[j];
        for (int j = 0; j <= i; j++) m[j] *= d[j];
        for (int j = i + 1; j < c->n; j++) m[j] = 0;
    }
}

/* Y = V - ...: first the contribution of the state, then of earlier rows of the chunk: those before
 * the rows that are computed together, then these one by one. */
static void new_values(const ft_kern *k, work *w, const ft_chunk *c)
{
    const int S = c->S;
    memset(w->Y, 0, (size_t)c->n * (size_t)S * sizeof(float));
    k->mm(w->Y, S, c->k, S, c->Z, S, c->n, S, S);
    for (int i = 0; i < c->n; i++) {
        float *y = w->Y + (size_t)i * (size_t)S;
        const float *v = c->v + (size_t)i * (size_t)c->v_step;
        for (int j = 0; j < S; j++) y[j] = c->beta[i] * ft_fma(-w->fall[i], y[j], v[j]);
    }
    for (int r = 0; r < c->n; r += R) {
        const int end = FT_MIN(r + R, c->n);
        float *first = w->Y + (size_t)r * (size_t)S;
        k->mm(first, S, w->A + (size_t)r * N, N, w->Y, S, end - r, S, r);
        for (int i = r + 1; i < end; i++)
            k->mm(w->Y + (size_t)i * (size_t)S, S, w->A + (size_t)i * N + r, N, first, S, 1, S,
                  i - r);
    }
}

void ft_delta_chunk(const ft_kern *k, const ft_chunk *c, float *scratch)
{
    const int n = c->n, S = c->S;
    work w = place(scratch, S);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < S; j++)
            w.KT[(size_t)j * N + (size_t)i] = c->k[(size_t)i * (size_t)S + (size_t)j];
    decays(k, &w, c->g, n);
    triangles(k, &w, c);
    new_values(k, &w, c);
    for (int i = 0; i < n; i++)
        memset(c->o + (size_t)i * (size_t)c->o_step, 0, (size_t)S * sizeof(float));
    k->mm(c->o, c->o_step, c->q, S, c->Z, S, n, S, S);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < S; j++) c->o[(size_t)i * (size_t)c->o_step + (size_t)j] *= w.fall[i];
    for (int r = 0; r < n; r += R) {
        const int rows = FT_MIN(R, n - r);
        k->mm(c->o + (size_t)r * (size_t)c->o_step, c->o_step, w.M + (size_t)r * N, N, w.Y, S, rows,
              S, r + rows);
    }
    for (int s = 0; s < S; s++)
        for (int j = 0; j < n; j++)
            w.KT[(size_t)s * N + (size_t)j] *= w.D[(size_t)(n - 1) * N + (size_t)j];
    for (size_t i = 0; i < (size_t)S * (size_t)S; i++) c->Z[i] *= w.fall[n - 1];
    k->mm(c->Z, S, w.KT, N, w.Y, S, S, S, n);
}
