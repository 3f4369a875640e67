/* The gated delta rule for chunks of up to 64 rows of heads of 128 values, as matrix products:
 *   G_i = g_1 + ... + g_i, D_ij = e^(G_i - G_j) for i >= j
 *   A_ij = beta_i (k_i . k_j) D_ij for i > j
 *   Y = (1 + A)^-1 diag(beta) (V - diag(e^G) K Z)
 *   o_i = e^(G_i) Z^T q_i + sum over j <= i of (q_i . k_j) D_ij Y_j
 *   Z = e^(G_n) Z + sum over j of e^(G_n - G_j) k_j Y_j^T
 * What does not depend on Z is computed for all chunks in parallel (chunk_prepare_kernel). Then a
 * block runs through the chunks of a span with 32 columns of a state (chunk_scan_kernel), which
 * stays in registers as f32; operands of products are f16, sums f32. No exponent is positive.
 *
 * On an H200, 4096 rows of the 48 heads of the 27b: 425 us, 45 TFLOP/s, 4 % of the time of a
 * prompt. The scan is 64 chunks in sequence, by 192 blocks of four warps, with five dependent
 * products per chunk: it is bound by latency. Eight warps per block with half the columns each were
 * 10 % slower, since each reads the same queries, keys and triangles from shared memory again. */
#include "dev/cuda/delta.cuh"

enum { N = FT_CHUNK_ROWS, S = 128, COLS = 32, THREADS = 128, TRI = N * N, QK = N * S };

/* ---- preparation ---- */

typedef struct prepare_shared {
    uint4 q[QK / 8], k[QK / 8]; /* swizzled rows of halves */
    float A[N][N + 4], T[N][N + 4];
    float G[N], beta[N];
} prepare_shared;

/* Normalises rows to unit length times `scale`, every fourth row per warp; rows from n on are zero.
 */
__device__ __forceinline__ void unit_rows(uint4 *to, const delta_args &a, const ft_span &sp,
                                          int from, int n, int column, float scale)
{
    enum { EACH = N / (THREADS / 32) };
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    float4 v[EACH]; /* all loads are issued before the first value is used */
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int r = 4 * i + warp;
        v[i] = make_float4(0, 0, 0, 0);
        if (r < n)
            v[i] = *(const float4 *)(mat_head(a.y, sp.row + from + r, 0) + column + 4 * lane);
    }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const float x = v[i].x, y = v[i].y, z = v[i].z, w = v[i].w;
        const float sum = warp_sum(fmaf(x, x, y * y) + fmaf(z, z, w * w));
        const float f = 1.0f / sqrtf(sum + 1e-6f) * scale;
        uint32_t *piece = (uint32_t *)(to + swizzled(4 * i + warp, lane / 2, S / 8)) + lane % 2 * 2;
        piece[0] = pack_half(x * f, y * f);
        piece[1] = pack_half(z * f, w * f);
    }
}

/* Cumulative log decays, and beta; by a warp. */
__device__ void gates(prepare_shared *sh, const delta_args &a, const ft_span &sp, int from, int n,
                      int h)
{
    const int lane = threadIdx.x & 31;
    float before = 0;
    for (int r = lane; r < N; r += 32) {
        float sum = r < n ? log_decay(a, sp.row + from + r, h) : 0.0f;
#pragma unroll
        for (int o = 1; o < 32; o *= 2) {
            const float other = __shfl_up_sync(0xffffffffu, sum, o);
            if (lane >= o) sum += other;
        }
        sum += before;
        before = __shfl_sync(0xffffffffu, sum, 31);
        sh->G[r] = sum;
        sh->beta[r] = r < n ? beta_of(a, sp.row + from + r, h) : 0.0f;
    }
}

/* Column c of (1 + A)^-1 for the 32 rows and columns of A from `at` on, into `to`. */
__device__ __forceinline__ void invert_half(const prepare_shared *sh, float (*to)[N + 4], int at,
                                            int c)
{
    float x[N / 2];
#pragma unroll
    for (int i = 0; i < N / 2; i++) {
        float sum[4] = {i == c ? 1.0f : 0.0f, 0, 0, 0};
#pragma unroll
        for (int j = 0; j < i; j += 4) {
            const float4 row = *(const float4 *)&sh->A[at + i][at + j];
            sum[0] = fmaf(-row.x, x[j], sum[0]);
            if (j + 1 < i) sum[1] = fmaf(-row.y, x[j + 1], sum[1]);
            if (j + 2 < i) sum[2] = fmaf(-row.z, x[j + 2], sum[2]);
            if (j + 3 < i) sum[3] = fmaf(-row.w, x[j + 3], sum[3]);
        }
        x[i] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
        to[at + i][at + c] = x[i];
    }
}

/* y[32, 32] = -f a b, one thread per 8 columns of a row; f = +1 or -1. */
__device__ __forceinline__ void square_product(float (*y)[N + 4], const float (*a)[N + 4],
                                               const float (*b)[N + 4], float f)
{
    const int r = threadIdx.x / 4, c = threadIdx.x % 4 * 8;
    float sum[8] = {};
#pragma unroll 8
    for (int k = 0; k < N / 2; k++) {
        const float4 lo = *(const float4 *)&b[k][c], hi = *(const float4 *)&b[k][c + 4];
        const float x = a[r][k];
        sum[0] = fmaf(x, lo.x, sum[0]);
        sum[1] = fmaf(x, lo.y, sum[1]);
        sum[2] = fmaf(x, lo.z, sum[2]);
        sum[3] = fmaf(x, lo.w, sum[3]);
        sum[4] = fmaf(x, hi.x, sum[4]);
        sum[5] = fmaf(x, hi.y, sum[5]);
        sum[6] = fmaf(x, hi.z, sum[6]);
        sum[7] = fmaf(x, hi.w, sum[7]);
    }
#pragma unroll
    for (int i = 0; i < 8; i++) y[r][c + i] = f * sum[i];
}

typedef float (*rows32)[N + 4];

/* (1 + A)^-1 in sh->T. With A in quarters, the lower left quarter of the inverse is -(1 + A22)^-1
 * A21 (1 + A11)^-1; the quarter right of the diagonal is used as scratch. */
__device__ __forceinline__ void invert(prepare_shared *sh)
{
    enum { H = N / 2 };
    const int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    if (warp < 2) invert_half(sh, sh->T, H * warp, lane);
    __syncthreads();
    rows32 between = (rows32)&sh->T[0][H];
    square_product(between, (rows32)&sh->A[H][0], (rows32)&sh->T[0][0], 1.0f);
    __syncthreads();
    square_product((rows32)&sh->T[H][0], (rows32)&sh->T[H][H], between, -1.0f);
    __syncthreads();
}

static __global__ void __launch_bounds__(THREADS) chunk_prepare_kernel(const delta_args a)
{
    extern __shared__ uint4 chunk_prepare_shared[];
    prepare_shared *sh = (prepare_shared *)chunk_prepare_shared;
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32, m = 16 * warp;
    const int h = blockIdx.y, kh = h % a.s.Hk, piece = blockIdx.x;
    int span, from, to, first, last;
    wait_for_previous_kernel();
    if (!span_chunk(a.b, piece, N, &span, &from, &to)) return;
    const ft_span sp = a.b.span[span];
    pass_rows(sp, CHUNKS, &first, &last);
    from = max(from, first);
    if (from >= to || to > last) return; /* rows that are computed row by row */
    const int n = to - from;
    unit_rows(sh->q, a, sp, from, n, kh * S, 1.0f / sqrtf((float)S));
    unit_rows(sh->k, a, sp, from, n, (a.s.Hk + kh) * S, 1.0f);
    if (!warp) gates(sh, a, sp, from, n, h);
    __syncthreads();
    uint16_t *tri = a.tri + ((size_t)piece * a.s.Hv + h) * 2 * TRI;
    float kk[N / 8][4] = {}, qk[N / 8][4] = {};
    rows_by_rows<S>(kk, shared_at(sh->k), shared_at(sh->k), m, 0);
    rows_by_rows<S>(qk, shared_at(sh->q), shared_at(sh->k), m, 0);
#pragma unroll
    for (int t = 0; t < N / 8; t++)
#pragma unroll
        for (int e = 0; e < 4; e += 2) {
            const int i = m + lane / 4 + 4 * e, j = 8 * t + 2 * (lane % 4);
            float w[2];
            for (int x = 0; x < 2; x++) {
                const float D = i >= j + x ? expf(sh->G[i] - sh->G[j + x]) : 0.0f;
                sh->A[i][j + x] = i > j + x ? sh->beta[i] * kk[t][e + x] * D : 0.0f;
                w[x] = D > 0 ? qk[t][e + x] * D : 0.0f;
            }
            *(uint32_t *)(tri + TRI + i * N + j) = pack_half(w[0], w[1]);
        }
    __syncthreads();
    float *fall = a.fall + ((size_t)piece * a.s.Hv + h) * 3 * N;
    invert(sh);
    for (int i = threadIdx.x; i < TRI / 2; i += THREADS) {
        const int r = i / (N / 2), c = i % (N / 2) * 2;
        *(uint32_t *)(tri + r * N + c) =
            pack_half(c <= r ? sh->T[r][c] * sh->beta[c] : 0.0f,
                      c < r ? sh->T[r][c + 1] * sh->beta[c + 1] : 0.0f);
    }
    if (threadIdx.x < N) {
        const int i = threadIdx.x;
        fall[i] = expf(sh->G[i]);
        fall[N + i] = i < n ? expf(sh->G[N - 1] - sh->G[i]) : 0.0f;
        fall[2 * N + i] = expf(sh->G[N - 1]);
    }
    if (h >= a.s.Hk) return;
    uint4 *out = (uint4 *)a.qk + ((size_t)piece * a.s.Hk + h) * 2 * (QK / 8);
    for (int i = threadIdx.x; i < QK / 8; i += THREADS) { /* copied in their swizzled order */
        out[i] = sh->q[i];
        out[QK / 8 + i] = sh->k[i];
    }
}

/* ---- scan ---- */

enum { PITCH = 80 }; /* bytes of a row of 32 halves: eight rows use different banks */

typedef struct scan_shared {
    uint4 qk[2][2 * QK / 8]; /* queries and keys of this chunk and of the next one */
    uint4 tri[2][TRI / 8];   /* swizzled */
    unsigned char Z[S * PITCH], R[N * PITCH], Y[N * PITCH], F[N * PITCH];
} scan_shared;

typedef struct chunk_scan {
    scan_shared *sh;
    const delta_args *a;
    ft_span sp;
    int h, kh, col;
} chunk_scan;

__device__ __forceinline__ void fetch_qk(const chunk_scan &w, int piece, int half)
{
    const uint4 *from = (const uint4 *)w.a->qk + ((size_t)piece * w.a->s.Hk + w.kh) * 2 * (QK / 8);
    for (int i = threadIdx.x; i < 2 * QK / 8; i += THREADS)
        copy_16(shared_at(&w.sh->qk[half][i]), from + i);
}

__device__ __forceinline__ void fetch_tri(const chunk_scan &w, int piece)
{
    const uint4 *from = (const uint4 *)w.a->tri + ((size_t)piece * w.a->s.Hv + w.h) * 2 * (TRI / 8);
    for (int i = threadIdx.x; i < 2 * TRI / 8; i += THREADS) {
        const int which = i / (TRI / 8), r = i % (TRI / 8) / (N / 8), c = i % (N / 8);
        copy_16(shared_at(&w.sh->tri[which][swizzled(r, c, N / 8)]), from + i);
    }
}

/* s[16, 32] += rows [m, m + 16) of a swizzled tile, K wide, times b[upto, 32] of rows PITCH apart.
 */
template <int K>
__device__ __forceinline__ void rows_by_columns(float (&s)[4][4], uint32_t tile, uint32_t b, int m,
                                                int upto)
{
    const int lane = threadIdx.x & 31, x = lane & 7;
    const uint32_t row = tile + (m + lane % 16) * 2 * K, column = b + lane * PITCH;
    uint32_t at[4];
#pragma unroll
    for (int i = 0; i < 4; i++) at[i] = row + 16 * ((2 * i + lane / 16) ^ x);
#pragma unroll
    for (int k = 0; k < K; k += 32) {
        uint32_t a0[4], a1[4], y[4];
        if (k >= upto) break;
        load_frags(a0, at[k / 16 % 4] + k / 64 * 128);
        load_frags(a1, at[k / 16 % 4 + 1] + k / 64 * 128);
#pragma unroll
        for (int n = 0; n < 4; n++) {
            load_frags_transposed(y, column + k * PITCH + 16 * n);
            mma_f16(s[n], a0, y[0], y[1]);
            mma_f16(s[n], a1, y[2], y[3]);
        }
    }
}

/* z[16, 32] += columns [m, m + 16) of the keys, transposed, times b[64, 32]. */
__device__ __forceinline__ void keys_by_rows(float (&z)[4][4], uint32_t keys, uint32_t b, int m)
{
    const int lane = threadIdx.x & 31;
    /* matrices in the order of a fragment: rows 0 .. 7 and columns m .., m + 8 .., then rows 8 ..
     */
    const int r = lane % 8 + lane / 16 * 8, piece = m / 8 + lane / 8 % 2;
    const uint32_t at = keys + 16 * swizzled(r, piece, S / 8), column = b + lane * PITCH;
#pragma unroll
    for (int k = 0; k < N; k += 32) {
        uint32_t a0[4], a1[4], y[4];
        load_frags_transposed(a0, at + k * 2 * S);
        load_frags_transposed(a1, at + (k + 16) * 2 * S);
#pragma unroll
        for (int n = 0; n < 4; n++) {
            load_frags_transposed(y, column + k * PITCH + 16 * n);
            mma_f16(z[n], a0, y[0], y[1]);
            mma_f16(z[n], a1, y[2], y[3]);
        }
    }
}

/* Rows m + lane / 4 and + 8, 32 columns, as halves; each row is multiplied by its factor. */
__device__ __forceinline__ void put_rows(unsigned char *to, const float (&s)[4][4], int m, float f0,
                                         float f1)
{
    const int lane = threadIdx.x & 31;
    unsigned char *row = to + (m + lane / 4) * PITCH + 4 * (lane % 4);
#pragma unroll
    for (int n = 0; n < 4; n++) {
        *(uint32_t *)(row + 16 * n) = pack_half(s[n][0] * f0, s[n][1] * f0);
        *(uint32_t *)(row + 8 * PITCH + 16 * n) = pack_half(s[n][2] * f1, s[n][3] * f1);
    }
}

/* Rows [from, to) of the span: one chunk. z: this warp's 32 rows of the state. */
__device__ __forceinline__ void scan_chunk(const chunk_scan &w, float (&z)[2][4][4], uint32_t qk,
                                           int piece, int from, int to)
{
    const delta_args &a = *w.a;
    scan_shared *sh = w.sh;
    const int lane = threadIdx.x & 31, m = threadIdx.x / 32 * 16;
    const float *fall = a.fall + ((size_t)piece * a.s.Hv + w.h) * 3 * N + m + lane / 4;
    const float e0 = fall[0], e1 = fall[8], f0 = fall[N], f1 = fall[N + 8], all = fall[2 * N];
    float kz[4][4] = {}, o[4][4] = {}, y[4][4] = {};
    float2 v[2][4]; /* loaded during the products */
#pragma unroll
    for (int j = 0; j < 2; j++) {
        const int r = min(from + m + lane / 4 + 8 * j, to - 1);
        const float *row = mat_head(a.y, w.sp.row + r, 0) + (2 * a.s.Hk + w.h) * S + w.col;
#pragma unroll
        for (int n = 0; n < 4; n++) v[j][n] = *(const float2 *)(row + 8 * n + 2 * (lane % 4));
    }
    rows_by_columns<S>(kz, qk + 2 * QK, shared_at(sh->Z), m, S);
    rows_by_columns<S>(o, qk, shared_at(sh->Z), m, S);
#pragma unroll
    for (int j = 0; j < 2; j++) {
        const bool there = from + m + lane / 4 + 8 * j < to;
        const float e = j ? e1 : e0;
#pragma unroll
        for (int n = 0; n < 4; n++) {
            kz[n][2 * j] = there ? fmaf(-e, kz[n][2 * j], v[j][n].x) : 0.0f;
            kz[n][2 * j + 1] = there ? fmaf(-e, kz[n][2 * j + 1], v[j][n].y) : 0.0f;
            o[n][2 * j] *= e;
            o[n][2 * j + 1] *= e;
        }
    }
    put_rows(sh->R, kz, m, 1, 1);
    copy_wait<1>(); /* the triangles */
    __syncthreads();
    const int upto = m < 32 ? 32 : 64; /* values right of the diagonal are zero */
    rows_by_columns<N>(y, shared_at(sh->tri[0]), shared_at(sh->R), m, upto);
    put_rows(sh->Y, y, m, 1, 1);
    put_rows(sh->F, y, m, f0, f1);
    __syncthreads();
    rows_by_columns<N>(o, shared_at(sh->tri[1]), shared_at(sh->Y), m, upto);
#pragma unroll
    for (int j = 0; j < 2; j++) {
        const int r = from + m + lane / 4 + 8 * j;
        float *row = mat_head(a.o, w.sp.row + r, w.h) + w.col + 2 * (lane % 4);
        if (r >= to) continue;
#pragma unroll
        for (int n = 0; n < 4; n++)
            *(float2 *)(row + 8 * n) = make_float2(o[n][2 * j], o[n][2 * j + 1]);
    }
#pragma unroll
    for (int t = 0; t < 2; t++) {
#pragma unroll
        for (int n = 0; n < 4; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) z[t][n][i] *= all;
        keys_by_rows(z[t], qk + 2 * QK, shared_at(sh->F), 2 * m + 16 * t);
        put_rows(sh->Z, z[t], 2 * m + 16 * t, 1, 1);
    }
}

/* This warp's part of the state: rows 32 warp .., as fragments. */
template <bool STORE>
__device__ __forceinline__ void move_part(float (&z)[2][4][4], float *Z, int col)
{
    const int lane = threadIdx.x & 31, m = threadIdx.x / 32 * 32;
#pragma unroll
    for (int t = 0; t < 2; t++)
#pragma unroll
        for (int n = 0; n < 4; n++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                float2 *at = (float2 *)(Z + (size_t)(m + 16 * t + lane / 4 + 8 * j) * S + col +
                                        8 * n + 2 * (lane % 4));
                if (STORE) {
                    *at = make_float2(z[t][n][2 * j], z[t][n][2 * j + 1]);
                } else {
                    const float2 v = *at;
                    z[t][n][2 * j] = v.x;
                    z[t][n][2 * j + 1] = v.y;
                }
            }
}

static __global__ void __launch_bounds__(THREADS, 2) chunk_scan_kernel(const delta_args a)
{
    extern __shared__ uint4 chunk_scan_shared[];
    chunk_scan w;
    wait_for_previous_kernel();
    w.sh = (scan_shared *)chunk_scan_shared;
    w.a = &a;
    w.sp = a.b.span[blockIdx.y];
    w.h = blockIdx.x / (S / COLS);
    w.kh = w.h % a.s.Hk;
    w.col = blockIdx.x % (S / COLS) * COLS;
    int at, last;
    pass_rows(w.sp, CHUNKS, &at, &last);
    if (at >= last) return;
    int piece = first_chunk(a.b, blockIdx.y, N) + (w.sp.start % N + at) / N;
    float *Z = state_of(a, w.sp.slot, w.h), z[2][4][4];
    fetch_qk(w, piece, 0);
    copy_commit();
    fetch_tri(w, piece);
    copy_commit();
    move_part<false>(z, Z, w.col);
    for (int t = 0; t < 2; t++) put_rows(w.sh->Z, z[t], threadIdx.x / 32 * 32 + 16 * t, 1, 1);
    for (int half = 0; at < last; piece++, half ^= 1) {
        const int to = min(last, at + N - (w.sp.start + at) % N);
        copy_wait<1>();
        __syncthreads(); /* queries and keys of this chunk, and the state as halves */
        if (to < last) fetch_qk(w, piece + 1, half ^ 1);
        copy_commit();
        scan_chunk(w, z, shared_at(w.sh->qk[half]), piece, at, to);
        __syncthreads(); /* all warps have used the triangles */
        if (to < last) fetch_tri(w, piece + 1);
        copy_commit();
        at = to;
    }
    move_part<true>(z, Z, w.col);
}

/* ---- launches ---- */

/* Allocates memory for the chunks of this step; 0: no memory, or too little shared memory. */
size_t ft_cuda_chunk_scratch(ft_cuda *c, delta_args *a)
{
    if (c->smem < sizeof(scan_shared)) return 0;
    const size_t pieces = span_chunks(c->batch.T, FT_MAX(1, c->batch.S), N);
    const size_t qk = pieces * (size_t)a->s.Hk * 2 * QK * sizeof(uint16_t);
    const size_t tri = pieces * (size_t)a->s.Hv * 2 * TRI * sizeof(uint16_t);
    const size_t fall = pieces * (size_t)a->s.Hv * 3 * N * sizeof(float);
    unsigned char *p = (unsigned char *)ft_cuda_scratch(c, FT_SCRATCH_DELTA, qk + tri + fall);
    a->qk = (uint16_t *)p;
    a->tri = (uint16_t *)(p + qk);
    a->fall = (float *)(p + qk + tri);
    return p ? qk + tri + fall : 0;
}

void ft_cuda_chunks(ft_cuda *c, const delta_args *a)
{
    const unsigned spans = (unsigned)FT_MAX(1, c->batch.S);
    const dim3 all(span_chunks(c->batch.T, (int)spans, N), (unsigned)a->s.Hv);
    const dim3 grid((unsigned)a->s.Hv * (S / COLS), spans);
    ft_cuda_shared(c, (const void *)chunk_prepare_kernel, (int)sizeof(prepare_shared));
    ft_cuda_shared(c, (const void *)chunk_scan_kernel, (int)sizeof(scan_shared));
    FT_LAUNCH_NEXT(c, chunk_prepare_kernel, all, THREADS, sizeof(prepare_shared), *a);
    FT_LAUNCH_NEXT(c, chunk_scan_kernel, grid, THREADS, sizeof(scan_shared), *a);
}
