/* The gated delta net, row by row: convolution and recurrence with their journals. The columns of a
 * state are independent, so they are distributed over blocks; a block keeps its columns in
 * registers from the first row of a span to the last. A replay repeats exactly the operations of
 * the rows it replaces.
 *
 * Memory traffic: every state is read and written once, in lines of 128 bytes. On an H200 a kernel
 * that only reads and writes the states of 64 sequences of the 27b (403 MB) so takes 103 us, 3.9
 * TB/s, and 139 where a warp reads 32 bytes of four rows; a step of 64 sequences takes 14.8 ms
 * instead of 15.5 (docs/why/0037). One sequence: 6.3 MB in 5 us, 27 % of a plain read, most of it
 * launch latency and waiting for the convolution. The convolution of a prompt of 2048 rows
 * (10240 channels): 68 us, 168 MB, 55 %; a thread has one channel and loads eight of its rows at a
 * time. That of 64 sequences: 11.5 us, 21 MB, most of it windows, 1.8 TB/s. */
#include "dev/cuda/delta.cuh"

/* ---- convolution ---- */

enum { CONV_ROWS = 32, CONV_CHANNELS = 128, CONV_AHEAD = 8, CONV_TOGETHER = 4, CONV_FEW = 8 };

/* Inputs of one channel in time order: the stored window, the accepted journal rows, the rows of
 * the span. */
typedef struct history {
    const float *window, *journal, *u;
    int taps, replay, CH, step;
} history;

__device__ __forceinline__ float history_at(const history &h, int i)
{
    if (i < h.taps - 1) return h.window[(size_t)i * h.CH];
    i -= h.taps - 1;
    if (i < h.replay) return h.journal[(size_t)i * h.CH];
    return h.u[(size_t)(i - h.replay) * h.step];
}

/* A block computes some channels of a piece of a span; the block of the first piece updates the
 * window. C: taps. */
template <int C>
static __global__ void __launch_bounds__(CONV_CHANNELS)
    conv_kernel(ft_mat y, ft_mat u, ft_vec w, const ft_delta s, const ft_batch b)
{
    int span, from;
    const int ch = blockIdx.y * CONV_CHANNELS + threadIdx.x;
    if (!span_piece(b, blockIdx.x, CONV_ROWS, &span, &from) || ch >= s.CH) return;
    const ft_span sp = b.span[span];
    float *window = s.conv + (size_t)sp.slot * (C - 1) * s.CH + ch;
    const history h = {window,
                       journal(s.j_conv, s, sp.slot, sp.plane, 0, s.CH) + ch,
                       mat_head(u, sp.row, 0) + ch,
                       C,
                       sp.replay,
                       s.CH,
                       u.rs};
    const int to = min(from + CONV_ROWS, sp.n);
    float tap[C], x[C]; /* x: the last C inputs */
#pragma unroll
    for (int k = 0; k < C; k++) tap[k] = w.p[(size_t)ch * C + k];
    if (from)
        wait_for_previous_kernel(); /* the first piece reads only results of earlier steps before
                                       this */
#pragma unroll
    for (int k = 0; k < C - 1; k++) x[k + 1] = history_at(h, sp.replay + from + k);
    if (!from) wait_for_previous_kernel();
    for (int r = from; r < to; r += CONV_AHEAD) {
        float v[CONV_AHEAD]; /* all loads are issued before the first value is used */
#pragma unroll
        for (int i = 0; i < CONV_AHEAD; i++) v[i] = h.u[(size_t)min(r + i, to - 1) * u.rs];
#pragma unroll
        for (int i = 0; i < CONV_AHEAD; i++) {
            if (r + i >= to) break;
#pragma unroll
            for (int k = 0; k < C - 1; k++) x[k] = x[k + 1];
            x[C - 1] = v[i];
            float sum = 0;
#pragma unroll
            for (int k = 0; k < C; k++) sum = fmaf(tap[k], x[k], sum);
            mat_head(y, sp.row + r + i, 0)[ch] = silu(sum);
            if (sp.tentative) journal(s.j_conv, s, sp.slot, 1 - sp.plane, r + i, s.CH)[ch] = v[i];
        }
    }
    const int shift = sp.replay + (sp.tentative ? 0 : sp.n);
    if (from || !shift) return;
    for (int i = 0; i < C - 1; i++) window[(size_t)i * s.CH] = history_at(h, shift + i);
}

/* The same for short spans: a thread has four channels of every ROWS-th row. Inputs before the span
 * are in registers for its first row alone, so ROWS is 1, at least C - 1, or the longest span. */
template <int C, int ROWS>
static __global__ void __launch_bounds__(CONV_CHANNELS, 8)
    conv_fours_kernel(ft_mat y, ft_mat u, ft_vec w, const ft_delta s, const ft_batch b)
{
    const int first = ROWS > 1 ? threadIdx.y : 0;
    const int ch = 4 * (blockIdx.y * (CONV_CHANNELS / ROWS) + threadIdx.x);
    const ft_span sp = b.span[blockIdx.x];
    if (!sp.n || ch >= s.CH) return;
    float4 *window = (float4 *)(s.conv + (size_t)sp.slot * (C - 1) * s.CH + ch);
    const float4 *old = (const float4 *)(journal(s.j_conv, s, sp.slot, sp.plane, 0, s.CH) + ch);
    const float4 *in = (const float4 *)(mat_head(u, sp.row, 0) + ch);
    const int next = s.CH / 4, step = u.rs / 4;
    float tap[4][C];
    float4 x[C]; /* the last C inputs */
#pragma unroll
    for (int i = 0; i < 4 * C; i++) tap[i / C][i % C] = w.p[(size_t)ch * C + i];
        /* those before the rows of the span: of the stored window, then accepted journal rows */
#pragma unroll
    for (int k = 0; k < C - 1; k++) {
        const int i = sp.replay + first + k;
        if (first + k < C - 1) x[k] = i < C - 1 ? window[i * next] : old[(i - (C - 1)) * next];
    }
    if (ROWS > 1) __syncthreads(); /* all threads have read the window */
    wait_for_previous_kernel();
    if (sp.tentative && sp.replay && !first)
#pragma unroll
        for (int k = 0; k < C - 1; k++) window[k * next] = x[k];
#pragma unroll 1
    for (int r = first; r < sp.n; r += ROWS) {
#pragma unroll
        for (int k = 0; k < C; k++) {
            if (ROWS == 1 && k < C - 1)
                x[k] = r ? x[k + 1] : x[k];
            else if (r + k >= C - 1)
                x[k] = in[(r + k - (C - 1)) * step];
        }
        float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
        for (int k = 0; k < C; k++)
            sum = make_float4(fmaf(tap[0][k], x[k].x, sum.x), fmaf(tap[1][k], x[k].y, sum.y),
                              fmaf(tap[2][k], x[k].z, sum.z), fmaf(tap[3][k], x[k].w, sum.w));
        *(float4 *)(mat_head(y, sp.row + r, 0) + ch) =
            make_float4(silu(sum.x), silu(sum.y), silu(sum.z), silu(sum.w));
        if (sp.tentative)
            *(float4 *)(journal(s.j_conv, s, sp.slot, 1 - sp.plane, r, s.CH) + ch) = x[C - 1];
        else if (r == sp.n - 1)
#pragma unroll
            for (int k = 0; k < C - 1; k++) window[k * next] = x[k + 1];
    }
}

typedef void conv_fn(ft_mat, ft_mat, ft_vec, const ft_delta, const ft_batch);

/* Kernels for 2 to 16 taps. together: rows that threads of a block compute at the same time, four
 * channels each; 0: a thread has one channel. */
template <int C> static conv_fn *conv_of(int taps, int together)
{
    if (taps != C) return conv_of<C + 1>(taps, together);
    if constexpr (C <= CONV_TOGETHER + 1) {
        if (together == 1) return conv_fours_kernel<C, 1>;
        if (together == 2) return conv_fours_kernel<C, 2>;
        if (together) return conv_fours_kernel<C, CONV_TOGETHER>;
    }
    return conv_kernel<C>;
}

template <> conv_fn *conv_of<17>(int, int)
{
    return NULL;
}

/* Whether four values of a row can be read with one load. */
static bool conv_aligned(ft_mat m)
{
    return m.rs % 4 == 0 && (uintptr_t)m.p % 16 == 0;
}

/* Rows that threads of a block compute at the same time, four channels each; 0: one channel. */
static int conv_together(const ft_cuda *c, ft_mat y, ft_mat u, const ft_delta *s)
{
    const int rows = c->shape.rows;
    if (rows > FT_DECODE_ROWS || s->C > CONV_TOGETHER + 1 || s->CH % 4 || !conv_aligned(u) ||
        !conv_aligned(y))
        return 0;
    /* Of many sequences that may have two rows most have one: half of the threads would have no
     * work. */
    if (rows < 2 || (rows == 2 && c->shape.T > CONV_FEW)) return 1;
    return rows == 2 ? 2 : CONV_TOGETHER;
}

extern "C" void ft_cuda_conv(ft_dev *d, ft_mat y, ft_mat u, ft_vec w, const ft_delta *s)
{
    ft_cuda *c = (ft_cuda *)d;
    const int together = conv_together(c, y, u, s);
    const dim3 block(CONV_CHANNELS / FT_MAX(1, together), FT_MAX(1, together));
    const dim3 grid(together ? (unsigned)FT_MAX(1, c->batch.S)
                             : span_pieces(c->batch.T, c->batch.S, CONV_ROWS),
                    ft_blocks((size_t)s->CH, block.x * (together ? 4 : 1)));
    ft_cuda_wrote(c, y);
    conv_fn *conv = conv_of<2>(s->C, together);
    FT_LAUNCH_NEXT(c, conv, grid, block, 0, y, u, w, *s, c->batch);
}

/* ---- recurrence ---- */

enum {
    COLS = 32,
    BATCH = 16,
    DELTA_THREADS = 128,
    DELTA_BLOCKS = 4, /* that share a multiprocessor, at least */
    STREAM_SPANS = 8, /* sequences whose states do not stay in the L2 cache until the next step */
    AHEAD_SPANS = 16  /* sequences with which prefetching states is faster */
};

/* Inputs of some rows of a head, prepared for the recurrence. */
template <int S> struct delta_rows {
    float q[BATCH][S], k[BATCH][S], v[BATCH][COLS], decay[BATCH], beta[BATCH], g[BATCH];
};

/* Rows [from, from + n) of the span. A warp reads one row at a time, lane l every 32nd value:
 * reading more at once would take registers and cost one block per multiprocessor. */
template <int S>
__device__ __forceinline__ void read_rows(delta_rows<S> *to, const delta_args &a, const ft_span &sp,
                                          int from, int n, int h, int col)
{
    const int lane = threadIdx.x & 31, kh = h % a.s.Hk;
#pragma unroll 1
    for (int r = threadIdx.x / 32; r < n; r += DELTA_THREADS / 32) {
        const float *in = mat_head(a.y, sp.row + from + r, 0);
        float q[S / 32], k[S / 32], qq = 0, kk = 0;
#pragma unroll
        for (int j = 0; j < S / 32; j++) {
            q[j] = in[kh * S + 32 * j + lane];
            k[j] = in[(a.s.Hk + kh) * S + 32 * j + lane];
        }
        const float v = in[(2 * a.s.Hk + h) * S + col + lane];
        const float g = log_decay(a, sp.row + from + r, h), beta = beta_of(a, sp.row + from + r, h);
#pragma unroll
        for (int j = 0; j < S / 32; j++) {
            qq = fmaf(q[j], q[j], qq);
            kk = fmaf(k[j], k[j], kk);
        }
        const float fq = 1.0f / sqrtf(warp_sum(qq) + 1e-6f) / sqrtf((float)S);
        const float fk = 1.0f / sqrtf(warp_sum(kk) + 1e-6f);
#pragma unroll
        for (int j = 0; j < S / 32; j++) {
            to->q[r][32 * j + lane] = q[j] * fq;
            to->k[r][32 * j + lane] = k[j] * fk;
        }
        to->v[r][lane] = v;
        if (lane) continue;
        to->g[r] = g;
        to->decay[r] = expf(g);
        to->beta[r] = beta;
    }
}

/* A warp has a quarter of the rows of the block's 32 columns, a lane those of one column: so a warp
 * reads and writes whole lines of 128 bytes. */
template <int S> struct columns {
    float z[S / 4];
};

/* This warp's quarter of a vector of S values. */
template <int S> __device__ __forceinline__ const float4 *quarter(const float *x)
{
    return (const float4 *)(x + threadIdx.x / 32 * (S / 4));
}

template <int S>
__device__ __forceinline__ void advance(columns<S> &c, const float *k, float decay, float d)
{
#pragma unroll
    for (int m = 0; m < S / 4; m += 4) {
        const float4 x = quarter<S>(k)[m / 4];
        c.z[m] = advanced(c.z[m], decay, x.x, d);
        c.z[m + 1] = advanced(c.z[m + 1], decay, x.y, d);
        c.z[m + 2] = advanced(c.z[m + 2], decay, x.z, d);
        c.z[m + 3] = advanced(c.z[m + 3], decay, x.w, d);
    }
}

/* Z^T x for this lane's column: each warp adds its rows as two independent sums, and the sums of
 * the warps are added in order. All threads of the block call it; before a second call with the
 * same `parts` there is one with others. */
template <int S>
__device__ __forceinline__ float product(const columns<S> &c, const float *x,
                                         float (&parts)[DELTA_THREADS / 32][COLS])
{
    const int lane = threadIdx.x & 31;
    float even = 0, odd = 0;
#pragma unroll
    for (int m = 0; m < S / 4; m += 4) {
        const float4 v = quarter<S>(x)[m / 4];
        even = fmaf(c.z[m], v.x, even);
        odd = fmaf(c.z[m + 1], v.y, odd);
        even = fmaf(c.z[m + 2], v.z, even);
        odd = fmaf(c.z[m + 3], v.w, odd);
    }
    parts[threadIdx.x / 32][lane] = even + odd;
    __syncthreads();
    return parts[0][lane] + parts[1][lane] + (parts[2][lane] + parts[3][lane]);
}

/* STREAM: the state will not stay in the L2 cache until it is read again. */
template <int S, bool STORE, bool STREAM>
__device__ __forceinline__ void move_state(columns<S> &c, float *Z, int col)
{
    Z += (size_t)(threadIdx.x / 32 * (S / 4)) * S + col;
#pragma unroll
    for (int m = 0; m < S / 4; m++, Z += S) {
        if (STORE && STREAM)
            __stcs(Z, c.z[m]);
        else if (STORE)
            *Z = c.z[m];
        else
            c.z[m] = STREAM ? __ldcs(Z) : *Z;
    }
}

/* Rows [from, from + n) of the span, with the inputs in `in`. */
template <int S>
__device__ __forceinline__ void compute_rows(columns<S> &c, const delta_args &a, const ft_span &sp,
                                             const delta_rows<S> *in, int from, int n, int h,
                                             int col)
{
    __shared__ float parts[2][DELTA_THREADS / 32][COLS];
    const ft_delta &s = a.s;
    const int lane = threadIdx.x & 31;
    for (int r = 0; r < n; r++) {
        const float decay = in->decay[r], zk = product<S>(c, in->k[r], parts[0]);
        const float d = update_of(in->v[r][lane], decay, zk, in->beta[r]);
        advance<S>(c, in->k[r], decay, d);
        const float o = product<S>(c, in->q[r], parts[1]);
        if (threadIdx.x < COLS) {
            mat_head(a.o, sp.row + from + r, h)[col + lane] = o;
            if (sp.tentative)
                journal(s.j_d, s, sp.slot, 1 - sp.plane, from + r, s.Hv * S)[h * S + col + lane] =
                    d;
        }
    }
}

/* The block of column 0 writes the part of the journal that all blocks of a head share. */
template <int S>
__device__ __forceinline__ void journal_rows(const delta_args &a, const ft_span &sp,
                                             const delta_rows<S> *in, int from, int n, int h)
{
    const ft_delta &s = a.s;
    for (int i = threadIdx.x; i < n * S && h < s.Hk; i += DELTA_THREADS)
        journal(s.j_k, s, sp.slot, 1 - sp.plane, from + i / S, s.Hk * S)[h * S + i % S] =
            in->k[i / S][i % S];
    for (int r = threadIdx.x; r < n; r += DELTA_THREADS)
        journal(s.j_g, s, sp.slot, 1 - sp.plane, from + r, s.Hv)[h] = in->g[r];
}

template <int S, bool STREAM>
static __global__ void __launch_bounds__(DELTA_THREADS) delta_kernel(const delta_args a)
{
    __shared__ delta_rows<S> rows;
    const ft_delta &s = a.s;
    const ft_span sp = a.b.span[blockIdx.y];
    if (!sp.n) return; /* surplus span */
    const int h = blockIdx.x / (S / COLS), col = blockIdx.x % (S / COLS) * COLS, kh = h % s.Hk;
    const int own = col + threadIdx.x % COLS;
    int from, to;
    pass_rows(sp, a.pass, &from, &to);
    const int replay = a.pass == LAST ? 0 : sp.replay;
    float *Z = state_of(a, sp.slot, h);
    columns<S> c;
    if (a.ahead && blockIdx.y + a.ahead < gridDim.y && threadIdx.x < S) {
        const ft_span next = a.b.span[blockIdx.y + a.ahead];
        if (next.n)
            prefetch_l2(state_of(a, next.slot, h) + (size_t)threadIdx.x * S + col, 4 * COLS, 0, 1);
    }
    if (threadIdx.x < 2) prefetch_l2(threadIdx.x ? a.A + h : a.dt + h, 4, 0, 1);
    if (a.pass != LAST)
        move_state<S, false, STREAM>(c, Z, own); /* an earlier step wrote it: no need to wait */
    for (int r = 0; r < replay; r++)
        advance<S>(c, journal(s.j_k, s, sp.slot, sp.plane, r, s.Hk * S) + kh * S,
                   expf(journal(s.j_g, s, sp.slot, sp.plane, r, s.Hv)[h]),
                   journal(s.j_d, s, sp.slot, sp.plane, r, s.Hv * S)[h * S + own]);
    wait_for_previous_kernel();
    if (from >= to && !replay) return;
    if (a.pass == LAST) move_state<S, false, STREAM>(c, Z, own);
    if (replay && sp.tentative) move_state<S, true, STREAM>(c, Z, own);
    for (; from < to; from += BATCH) {
        const int n = min(BATCH, to - from);
        __syncthreads(); /* the previous rows have been used */
        read_rows(&rows, a, sp, from, n, h, col);
        __syncthreads();
        compute_rows(c, a, sp, &rows, from, n, h, col);
        if (sp.tentative && !col) journal_rows(a, sp, &rows, from, n, h);
    }
    if (!sp.tentative) move_state<S, true, STREAM>(c, Z, own);
}

/* ---- recurrence for heads of other sizes ---- */

/* Normalises a row of a head to unit length, by a block. red: 33 floats. */
__device__ void scalar_unit(float *to, const float *x, int S, float scale, float *red)
{
    float sum = 0;
    for (int i = threadIdx.x; i < S; i += DELTA_THREADS) sum = fmaf(x[i], x[i], sum);
    const float f = 1.0f / sqrtf(block_sum(sum, red) + 1e-6f) * scale;
    for (int i = threadIdx.x; i < S; i += DELTA_THREADS) to[i] = x[i] * f;
}

__device__ void scalar_column(float *Z, const float *q, const float *k, float v, float decay,
                              float beta, int S, float *o, float *d)
{
    float zk = 0, zq = 0;
    for (int i = 0; i < S; i++) zk = fmaf(Z[(size_t)i * S], k[i], zk);
    *d = update_of(v, decay, zk, beta);
    for (int i = 0; i < S; i++) {
        const float z = advanced(Z[(size_t)i * S], decay, k[i], *d);
        Z[(size_t)i * S] = z;
        zq = fmaf(z, q[i], zq);
    }
    *o = zq;
}

static __global__ void __launch_bounds__(DELTA_THREADS) delta_scalar_kernel(const delta_args a)
{
    extern __shared__ float delta_scalar_shared[];
    __shared__ float red[33];
    wait_for_previous_kernel();
    const ft_delta &s = a.s;
    const ft_span sp = a.b.span[blockIdx.y];
    if (!sp.n) return;
    const int S = s.S, h = blockIdx.x, kh = h % s.Hk, plane = 1 - sp.plane;
    float *q = delta_scalar_shared, *k = q + S, *Z = state_of(a, sp.slot, h), *work = Z;
    if (sp.tentative) work = a.copy + ((size_t)blockIdx.y * s.Hv + h) * S * S;
    for (int j = threadIdx.x; j < S; j += DELTA_THREADS)
        for (int i = 0; i < S; i++) {
            float z = Z[(size_t)i * S + j];
            for (int r = 0; r < sp.replay; r++)
                z = advanced(z, expf(journal(s.j_g, s, sp.slot, sp.plane, r, s.Hv)[h]),
                             journal(s.j_k, s, sp.slot, sp.plane, r, s.Hk * S)[kh * S + i],
                             journal(s.j_d, s, sp.slot, sp.plane, r, s.Hv * S)[h * S + j]);
            Z[(size_t)i * S + j] = work[(size_t)i * S + j] = z;
        }
    for (int r = 0; r < sp.n; r++) {
        const int t = sp.row + r;
        const float *in = mat_head(a.y, t, 0);
        const float g = log_decay(a, t, h), decay = expf(g), beta = beta_of(a, t, h);
        scalar_unit(q, in + kh * S, S, 1.0f / sqrtf((float)S), red);
        scalar_unit(k, in + (s.Hk + kh) * S, S, 1.0f, red);
        __syncthreads();
        for (int j = threadIdx.x; j < S; j += DELTA_THREADS) {
            float o, d;
            scalar_column(work + j, q, k, in[(2 * s.Hk + h) * S + j], decay, beta, S, &o, &d);
            mat_head(a.o, t, h)[j] = o;
            if (!sp.tentative) continue;
            journal(s.j_d, s, sp.slot, plane, r, s.Hv * S)[h * S + j] = d;
            if (h < s.Hk) journal(s.j_k, s, sp.slot, plane, r, s.Hk * S)[h * S + j] = k[j];
            if (!j) journal(s.j_g, s, sp.slot, plane, r, s.Hv)[h] = g;
        }
        __syncthreads();
    }
}

extern "C" void ft_cuda_delta_rule(ft_dev *dev, ft_mat o, ft_mat y, ft_mat a, ft_mat b, ft_vec A,
                                   ft_vec dt, const ft_delta *s)
{
    ft_cuda *c = (ft_cuda *)dev;
    delta_args args = {c->batch, o, y, a, b, A.p, dt.p, *s};
    const unsigned S = (unsigned)s->S, spans = (unsigned)FT_MAX(1, c->batch.S);
    const dim3 grid((unsigned)s->Hv * (S / COLS), spans);
    ft_cuda_wrote(c, o);
    if (grid.x) args.ahead = (int)ft_blocks((size_t)c->sms * DELTA_BLOCKS, grid.x);
    switch (S) {
    case 32: FT_LAUNCH_NEXT(c, (delta_kernel<32, false>), grid, DELTA_THREADS, 0, args); return;
    case 64: FT_LAUNCH_NEXT(c, (delta_kernel<64, false>), grid, DELTA_THREADS, 0, args); return;
    case 128:
        args.pass = c->shape.rows > FT_DECODE_ROWS && ft_cuda_chunk_scratch(c, &args) ? FIRST : ALL;
        if (args.pass == ALL && spans >= STREAM_SPANS) {
            if (spans < AHEAD_SPANS) args.ahead = 0;
            FT_LAUNCH_NEXT(c, (delta_kernel<128, true>), grid, DELTA_THREADS, 0, args);
            return;
        }
        FT_LAUNCH_NEXT(c, (delta_kernel<128, false>), grid, DELTA_THREADS, 0, args);
        if (args.pass == ALL) return;
        ft_cuda_chunks(c, &args);
        args.pass = LAST;
        FT_LAUNCH_NEXT(c, (delta_kernel<128, false>), grid, DELTA_THREADS, 0, args);
        return;
    }
    args.copy = (float *)ft_cuda_scratch(c, FT_SCRATCH_DELTA,
                                         sizeof(float) * (size_t)spans * s->Hv * S * S);
    FT_LAUNCH_NEXT(c, delta_scalar_kernel, dim3((unsigned)s->Hv, spans), DELTA_THREADS,
                   2 * S * sizeof(float), args);
}
