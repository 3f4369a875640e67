/* Sampling from rows of up to a quarter of a million logits: only ids leave the device.
 *
 * A row is cut into chunks, which are distributed over blocks. The threshold of a sampler (top_k,
 * top_p, min_p) is found in two steps: logits are counted and weighed in bins by their distance to
 * the largest, and the logits of the bin that contains the threshold are collected and sorted.
 * Usually few logits are above that bin; then they are collected too, and one block does the rest
 * (NEAR). In a flat distribution (WIDE) only that bin is collected, and the token is found from the
 * sums of the chunks. Weights are integers, so the order of additions does not matter. A row whose
 * bin has too many logits is left to the host.
 *
 * On an H200, 16 rows of 248,320 logits without top_k, in the order of the kernels (times of a
 * profiler, which lowers the clock): 5, 11, 7, 5, 37, 5 and 6 us. Reading the 16 MB from memory
 * would take 3.4; they come from the L2 cache, where the pass before left them. Half of the time is
 * the sort, which uses one block per row and leaves most of the GPU idle. */
#include "dev/cuda/common.cuh"

enum {
    CHUNK = 2048,  /* logits that a block processes at a time */
    THREADS = 256, /* threads of such a block */
    EACH = CHUNK / THREADS,
    BINS = 2048, /* the last one has all lower logits */
    FINE = 12,   /* down to this distance bins are 1/128 wide, beyond it 1/8 */
    FINE_BINS = 128,
    COARSE_BINS = 8,
    PICKS = 4096,   /* maximum number of logits to sort */
    RESIDENT = 4,   /* blocks per multiprocessor */
    SORTERS = 1024, /* threads of a block that sorts */
};

typedef unsigned long long u64;

typedef enum way { DONE, NEAR, CUT, WIDE } way;

/* State of a row's draw. */
typedef struct row_state {
    u64 best;            /* the largest logit: its key, then its complemented index */
    u64 sum;             /* sum of all weights */
    u64 above;           /* sum of the weights in bins before the first collected one */
    u64 goal;            /* target of top_p, unless top_k is set */
    u64 cut;             /* WIDE: the last candidate, in the form of `best` */
    int32_t first, last; /* bins that are collected */
    int32_t found;
    int32_t way;
} row_state;

/* Scratch memory for T rows in n chunks. */
typedef struct draw_scratch {
    row_state *row;  /* [T] */
    u64 *best;       /* [T][blocks]: the largest logit of each block's chunks */
    u64 *kept;       /* [T][n]: sum of the weights that remain after filtering */
    u64 *mass;       /* [T][BINS] */
    uint32_t *count; /* [T][BINS] */
    u64 *pick;       /* [T][PICKS] */
    int n, blocks;
} draw_scratch;

/* Larger logits have larger keys; 0: excluded. +0 and -0 have the same key. */
__device__ __forceinline__ u64 key_of(float x, int id)
{
    if (!(x > -INFINITY)) return 0;
    const uint32_t b = __float_as_uint(x + 0.0f);
    return (u64)(b & 0x80000000u ? ~b : b | 0x80000000u) << 32 | (uint32_t)~id;
}

__device__ __forceinline__ float key_value(u64 key)
{
    const uint32_t b = (uint32_t)(key >> 32);
    return __uint_as_float(b & 0x80000000u ? b & 0x7fffffffu : ~b);
}

__device__ __forceinline__ int key_id(u64 key)
{
    return (int)~(uint32_t)key;
}

/* A lower logit never has a lower bin. The threshold of top_p is near the largest logit; that of
 * top_k may be far from it. */
__device__ __forceinline__ int bin_of(float x, float max)
{
    const float below = max - x, far = (below - FINE) * COARSE_BINS + FINE * FINE_BINS;
    return (int)fminf(below < FINE ? below * FINE_BINS : far, BINS - 1.0f);
}

/* Distance below the largest logit at which the last bin begins. */
__device__ __forceinline__ float last_below()
{
    return FINE + (BINS - 1.0f - FINE * FINE_BINS) / COARSE_BINS;
}

__device__ __forceinline__ u64 warp_total(u64 v)
{
#pragma unroll
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
    return v;
}

__device__ __forceinline__ u64 warp_largest(u64 v)
{
#pragma unroll
    for (int o = 16; o; o >>= 1) {
        const u64 w = __shfl_xor_sync(0xffffffffu, v, o);
        v = w > v ? w : v;
    }
    return v;
}

/* Over all threads of a block, returned to each. shared: one value per warp and one more. */
__device__ static u64 block_largest(u64 v, u64 *shared)
{
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    v = warp_largest(v);
    __syncthreads(); /* an earlier call may still read `shared` */
    if (!lane) shared[warp] = v;
    __syncthreads();
    return warp_largest(lane < warps ? shared[lane] : 0);
}

/* Exclusive prefix sum over the threads, and the total. */
__device__ static u64 block_before(u64 v, u64 *shared, u64 *all)
{
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    u64 upto = v;
#pragma unroll
    for (int o = 1; o < 32; o <<= 1) {
        const u64 w = __shfl_up_sync(0xffffffffu, upto, o);
        if (lane >= o) upto += w;
    }
    __syncthreads(); /* an earlier call may still read `shared` */
    if (lane == 31) shared[warp] = upto;
    __syncthreads();
    const u64 w = lane < warps ? shared[lane] : 0;
    *all = warp_total(w);
    return upto - v + warp_total(lane < warp ? w : 0);
}

/* Sorts n values, a power of two, in descending order; by all threads of the block. */
__device__ static void sort_falling(u64 *v, int n)
{
    for (int k = 2; k <= n; k *= 2)
        for (int j = k / 2; j; j /= 2) {
            __syncthreads();
            for (int i = threadIdx.x; i < n / 2; i += blockDim.x) {
                const int a = 2 * i - (i & (j - 1)), b = a + j;
                const u64 x = v[a], y = v[b];
                if ((x < y) == !(a & k)) v[a] = y, v[b] = x;
            }
        }
    __syncthreads();
}

/* The logits of a chunk after mask, bias and penalties. */
__device__ static void load_chunk(float *v, const ft_batch *b, const ft_draw &d, ft_mat x,
                                  int chunk)
{
    const int from = chunk * CHUNK, n = min(CHUNK, x.d - from);
    const float *row = x.p + (size_t)d.row * x.rs + from;
    const uint32_t *mask = d.mask < 0 ? NULL : b->draw_words + d.mask + from / 32;
    const ft_edit *e = (const ft_edit *)(b->draw_words + d.edit);
#pragma unroll
    for (int k = 0; k < EACH; k++) { /* all loads of a thread at once */
        const int i = k * THREADS + threadIdx.x;
        const bool in = i < n && (!mask || (mask[i / 32] >> i % 32 & 1));
        v[i] = in ? ft_logit_finite(row[i]) : -INFINITY;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < d.n_edit; i += THREADS) {
        const int at = e[i].id - from;
        if (at >= 0 && at < n) v[at] = ft_logit_edited(v[at], e[i], &d);
    }
    __syncthreads();
}

__device__ __forceinline__ bool greedy(const ft_draw &d)
{
    return d.temperature <= 0 && d.list < 0;
}

/* The largest logit of each block's chunks; also clears the counters of the next kernels. */
static __global__ void draw_best_kernel(draw_scratch p, const ft_batch *b, ft_mat x)
{
    wait_for_previous_kernel();
    __shared__ float v[CHUNK];
    __shared__ u64 shared[33];
    const int t = blockIdx.x;
    const ft_draw &d = b->draw[t];
    if (d.row < 0) return;
    u64 best = 0;
    for (int chunk = blockIdx.y; chunk < p.n; chunk += p.blocks) {
        load_chunk(v, b, d, x, chunk);
        for (int i = threadIdx.x; i < CHUNK; i += THREADS) {
            const u64 k = key_of(v[i], chunk * CHUNK + i);
            best = k > best ? k : best;
        }
    }
    best = block_largest(best, shared);
    if (!threadIdx.x) p.best[(size_t)t * p.blocks + blockIdx.y] = best;
    for (int i = blockIdx.y * THREADS + threadIdx.x; i < BINS; i += p.blocks * THREADS) {
        p.mass[(size_t)t * BINS + i] = 0;
        p.count[(size_t)t * BINS + i] = 0;
    }
}

/* The largest logit of the row. */
__device__ static u64 row_best(const draw_scratch &p, int t, u64 *shared)
{
    u64 best = 0;
    for (int i = threadIdx.x; i < p.blocks; i += blockDim.x) {
        const u64 k = p.best[(size_t)t * p.blocks + i];
        best = k > best ? k : best;
    }
    return block_largest(best, shared);
}

/* Bins in shared memory, where only 32-bit additions are fast: a weight is added as two numbers,
 * whose sums over one chunk cannot overflow, and which are moved to registers after each chunk.
 * Unless the distribution is flat most logits are in the last bin, which is therefore not counted
 * here. */
typedef struct chunk_bins {
    uint32_t count[BINS], high[BINS], low[BINS];
} chunk_bins;
enum { LOW_BITS = 20, OWN = BINS / THREADS };

__device__ __forceinline__ void put_weight(chunk_bins *to, int at, u64 w)
{
    if (w >> LOW_BITS) atomicAdd(&to->high[at], (uint32_t)(w >> LOW_BITS));
    atomicAdd(&to->low[at], (uint32_t)w & ((1u << LOW_BITS) - 1));
}

/* Adds a thread's bins to its sums and clears them. */
__device__ static void take_weights(chunk_bins *from, u64 *own)
{
#pragma unroll
    for (int k = 0; k < OWN; k++) {
        const int i = k * THREADS + threadIdx.x;
        own[k] += ((u64)from->high[i] << LOW_BITS) + from->low[i];
        from->high[i] = from->low[i] = 0;
    }
}

/* Counts the logits per bin and, if needed, sums their weights. */
static __global__ __launch_bounds__(THREADS, RESIDENT) void draw_weigh_kernel(draw_scratch p,
                                                                              const ft_batch *b,
                                                                              ft_mat x)
{
    wait_for_previous_kernel();
    __shared__ float v[CHUNK];
    __shared__ u64 shared[33];
    __shared__ chunk_bins in;
    const int t = blockIdx.x;
    const ft_draw &d = b->draw[t];
    if (d.row < 0 || greedy(d)) return;
    const bool weighs = d.top_k <= 0 || d.list >= 0;
    for (int i = threadIdx.x; i < BINS; i += THREADS) in.count[i] = in.high[i] = in.low[i] = 0;
    const u64 best = row_best(p, t, shared);
    const float max = key_value(best);
    u64 own[OWN] = {}, last = 0, last_mass = 0;
    for (int chunk = blockIdx.y; chunk < p.n && best; chunk += p.blocks) {
        load_chunk(v, b, d, x, chunk);
#pragma unroll 2
        for (int i = threadIdx.x; i < CHUNK; i += THREADS) {
            if (!(v[i] > -INFINITY)) continue;
            const int at = bin_of(v[i], max);
            const u64 w = weighs ? ft_weigh(v[i] - max) : 0;
            if (at == BINS - 1) {
                last++;
                last_mass += w;
                continue;
            }
            atomicAdd(&in.count[at], 1u);
            if (w) put_weight(&in, at, w);
        }
        __syncthreads();
        if (weighs) take_weights(&in, own); /* the next chunk begins with a barrier */
    }
    block_before(last, shared, &last);
    block_before(last_mass, shared, &last_mass);
    for (int k = 0; k < OWN; k++) {
        const int i = k * THREADS + threadIdx.x;
        const bool at_end = i == BINS - 1;
        const uint32_t n = at_end ? (uint32_t)last : in.count[i];
        const u64 w = at_end ? last_mass : own[k];
        if (n) atomicAdd(&p.count[(size_t)t * BINS + i], n);
        if (w) atomicAdd(&p.mass[(size_t)t * BINS + i], w);
    }
}

__device__ static void write_id(ft_drawn *y, const ft_draw &d, ft_mat x, int id)
{
    y->id = id;
    if (id >= 0) y->x = x.p[(size_t)d.row * x.rs + id];
}

/* The bins to collect. With top_k all of its candidates are collected, and the later samplers
 * filter those. Otherwise the last bin is the one with the threshold of top_p, or where min_p ends.
 */
typedef struct bins {
    int last;
    bool by_p;    /* it contains the threshold of top_p */
    u64 before;   /* sum of the weights in the bins above it */
    int upto, in; /* logits in all bins down to it, and in it */
} bins;

/* One block, two bins per thread. */
__device__ static bins find_bins(const ft_draw &d, const u64 *mass, const uint32_t *count,
                                 float max, u64 *sum, u64 *goal, u64 *shared)
{
    __shared__ bins r;
    __shared__ int cut;
    const int i = 2 * threadIdx.x;
    const u64 m[2] = {mass[i], mass[i + 1]}, c[2] = {count[i], count[i + 1]};
    u64 all;
    const u64 logits = block_before(c[0] + c[1], shared, &all);
    const u64 weight = block_before(m[0] + m[1], shared, sum);
    *goal = ft_top_p_goal(d.top_p, *sum);
    if (!threadIdx.x) cut = BINS - 1;
    __syncthreads();
    for (int k = 0; k < 2; k++) {
        const u64 n = logits + (k ? c[0] : 0), w = weight + (k ? m[0] : 0);
        const bool by_k = n < (u64)d.top_k && n + c[k] >= (u64)d.top_k;
        const bool by_p = c[k] && w + m[k] >= *goal && (w < *goal || !n);
        if (d.top_k > 0 ? by_k : d.top_p < 1 && by_p) cut = i + k;
    }
    __syncthreads();
    const int floor = d.top_k > 0 ? BINS - 1 : bin_of(max + d.log_min_p, max);
    const int last = min(cut, floor), k = last - i;
    if (k == 0 || k == 1) {
        r.last = last;
        r.by_p = d.top_k <= 0 && d.top_p < 1 && cut <= floor;
        r.before = weight + (k ? m[0] : 0);
        r.in = (int)c[k];
        r.upto = (int)(logits + c[0] + (k ? c[1] : 0));
    }
    __syncthreads();
    return r;
}

/* Whether the logits of the last bin have weight zero for top_p and for the draw, and are not
 * needed otherwise. Only with top_k: then all bins above it have few logits. */
__device__ static bool weightless(const ft_draw &d)
{
    return d.top_k > 0 && d.list <= 0 && last_below() > 28 * fmaxf(d.temperature, 1.0f);
}

/* Chooses the logits to collect; for greedy draws, the id. One block per row. */
static __global__ __launch_bounds__(BINS /
                                    2) void draw_threshold_kernel(draw_scratch p, ft_drawn *y,
                                                                  const ft_batch *b, ft_mat x)
{
    wait_for_previous_kernel();
    __shared__ u64 shared[33];
    const int t = blockIdx.x;
    const ft_draw &d = b->draw[t];
    if (d.row < 0) return;
    row_state s = {};
    s.best = row_best(p, t, shared);
    s.way = DONE;
    int id = s.best ? key_id(s.best) : -1;
    if (s.best && !greedy(d)) {
        const float max = key_value(s.best);
        const bins r = find_bins(d, p.mass + (size_t)t * BINS, p.count + (size_t)t * BINS, max,
                                 &s.sum, &s.goal, shared);
        s.last = r.last;
        s.way = NEAR;
        if (r.last == BINS - 1 && weightless(d)) {
            s.last--; /* logits there are never drawn */
        } else if (r.upto > PICKS) {
            s.above = r.before;
            s.first = r.by_p ? r.last : BINS;
            s.way = r.by_p ? CUT : WIDE;
            if (d.top_k > 0 || (r.by_p && r.in > PICKS)) id = FT_DRAW_MORE, s.way = DONE;
        }
    }
    if (threadIdx.x) return;
    p.row[t] = s;
    y[d.to].max = s.best ? key_value(s.best) : -INFINITY;
    y[d.to].sum = d.list >= 0 ? s.sum : 0;
    y[d.to].n = 0;
    if (s.way == DONE) write_id(&y[d.to], d, x, id);
}

static __global__ void draw_collect_kernel(draw_scratch p, const ft_batch *b, ft_mat x)
{
    wait_for_previous_kernel();
    __shared__ float v[CHUNK];
    const int t = blockIdx.x;
    const ft_draw &d = b->draw[t];
    if (d.row < 0) return;
    row_state *s = &p.row[t];
    if (s->way != NEAR && s->way != CUT) return;
    const float max = key_value(s->best);
    const int first = s->first, last = s->last;
    for (int chunk = blockIdx.y; chunk < p.n; chunk += p.blocks) {
        load_chunk(v, b, d, x, chunk);
        for (int i = threadIdx.x; i < CHUNK; i += THREADS) {
            if (!(v[i] > -INFINITY)) continue;
            const int at = bin_of(v[i], max);
            if (at < first || at > last) continue;
            const int k = atomicAdd(&s->found, 1); /* at most PICKS: they were counted */
            p.pick[(size_t)t * PICKS + k] = key_of(v[i], chunk * CHUNK + i);
        }
    }
}

/* The index of the first of n sorted picks at which the cumulative weight, starting from `above`,
 * reaches the goal; n - 1 if none does. */
__device__ static int reach(const u64 *v, int n, float max, u64 above, u64 goal, u64 *shared)
{
    __shared__ int at;
    const int each = PICKS / SORTERS, from = threadIdx.x * each;
    u64 sum = 0, all;
    if (!threadIdx.x) at = n - 1;
    for (int i = from; i < min(from + each, n); i++) sum += ft_weigh(key_value(v[i]) - max);
    u64 before = above + block_before(sum, shared, &all);
    for (int i = from; i < min(from + each, n); i++) {
        const u64 upto = before + ft_weigh(key_value(v[i]) - max);
        if (upto >= goal && (before < goal || !i)) at = i;
        before = upto;
    }
    __syncthreads();
    const int r = at;
    __syncthreads();
    return r;
}

/* The id that is drawn from the n best. */
__device__ static int draw_near(u64 *v, int n, const ft_draw &d, u64 *shared)
{
    __shared__ int id;
    const float max = ft_logit_tempered(key_value(v[0]), d.temperature);
    int m = 1;
    while (m < n) m *= 2;
    __syncthreads();
    for (int i = threadIdx.x; i < m; i += SORTERS) v[i] = i < n ? v[i] << 32 | v[i] >> 32 : 0;
    sort_falling(v, m); /* descending in complemented indices: ascending in indices */
    const int each = PICKS / SORTERS, from = threadIdx.x * each;
    u64 w[PICKS / SORTERS], sum = 0, all;
    for (int i = 0; i < each; i++) {
        const float x = from + i < n ? key_value(v[from + i] << 32) : -INFINITY;
        w[i] = ft_weigh(ft_logit_tempered(x, d.temperature) - max);
        sum += w[i];
    }
    u64 before = block_before(sum, shared, &all);
    const u64 at = ft_draw_at(d.seed, d.position, all);
    for (int i = 0; i < each; i++) {
        if (before <= at && before + w[i] > at) id = key_id(v[from + i] >> 32);
        before += w[i];
    }
    __syncthreads();
    return id;
}

/* The number of candidates among the sorted picks, when all candidates have been collected. */
__device__ static int keep_near(const u64 *v, int n, const ft_draw &d, const row_state &s,
                                u64 *shared)
{
    __shared__ int kept;
    const float max = key_value(s.best), floor = max + d.log_min_p;
    u64 goal = s.goal;
    if (d.top_k > 0) {
        n = min(n, d.top_k);
        u64 sum = 0, all;
        for (int i = threadIdx.x; i < n; i += SORTERS) sum += ft_weigh(key_value(v[i]) - max);
        block_before(sum, shared, &all);
        goal = ft_top_p_goal(d.top_p, all);
    }
    if (d.top_p < 1) n = reach(v, n, max, 0, goal, shared) + 1;
    if (!threadIdx.x) kept = 1;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += SORTERS)
        if (key_value(v[i]) >= floor && (i + 1 == n || key_value(v[i + 1]) < floor)) kept = i + 1;
    __syncthreads();
    return kept;
}

/* Sorts the collected logits. NEAR: draws. CUT: finds the threshold of top_p. One block per row. */
static __global__ __launch_bounds__(SORTERS) void draw_sort_kernel(draw_scratch p, ft_drawn *y,
                                                                   const ft_batch *b, ft_mat x)
{
    wait_for_previous_kernel();
    __shared__ u64 v[PICKS], shared[33];
    const int t = blockIdx.x;
    const ft_draw &d = b->draw[t];
    if (d.row < 0) return;
    const row_state s = p.row[t];
    if (s.way != NEAR && s.way != CUT) return;
    int m = 1;
    while (m < s.found) m *= 2;
    for (int i = threadIdx.x; i < m; i += SORTERS)
        v[i] = i < s.found ? p.pick[(size_t)t * PICKS + i] : 0;
    sort_falling(v, m);
    if (s.way == CUT) {
        const int at = reach(v, s.found, key_value(s.best), s.above, s.goal, shared);
        if (threadIdx.x) return;
        p.row[t].cut = v[at];
        p.row[t].way = WIDE;
        return;
    }
    const int list = min(d.list, s.found);
    if ((int)threadIdx.x < list)
        y[d.to].top[threadIdx.x] = ft_pick{key_id(v[threadIdx.x]), key_value(v[threadIdx.x])};
    int id = key_id(v[0]);
    if (d.temperature > 0) id = draw_near(v, keep_near(v, s.found, d, s, shared), d, shared);
    if (threadIdx.x) return;
    y[d.to].n = max(list, 0);
    write_id(&y[d.to], d, x, id);
}

/* Weight of a logit in the draw from a wide row. */
__device__ __forceinline__ u64 wide_weight(float x, int id, const ft_draw &d, const row_state &s)
{
    const float max = key_value(s.best);
    if (!(x >= max + d.log_min_p) || key_of(x, id) < s.cut) return 0;
    return ft_weigh(ft_logit_tempered(x, d.temperature) - ft_logit_tempered(max, d.temperature));
}

static __global__ void draw_sum_kernel(draw_scratch p, const ft_batch *b, ft_mat x)
{
    wait_for_previous_kernel();
    __shared__ float v[CHUNK];
    __shared__ u64 shared[33];
    const int t = blockIdx.x;
    const ft_draw &d = b->draw[t];
    if (d.row < 0 || p.row[t].way != WIDE) return;
    const row_state s = p.row[t];
    for (int chunk = blockIdx.y; chunk < p.n; chunk += p.blocks) {
        load_chunk(v, b, d, x, chunk);
        u64 sum = 0, all;
        for (int i = threadIdx.x; i < CHUNK; i += THREADS)
            sum += wide_weight(v[i], chunk * CHUNK + i, d, s);
        block_before(sum, shared, &all);
        if (!threadIdx.x) p.kept[(size_t)t * p.n + chunk] = all;
    }
}

/* The chunk that contains the cumulative weight `at`; reduces `at` to the part inside it. */
__device__ static int find_chunk(const u64 *kept, int n, u64 *at)
{
    int i = 0;
    while (i + 1 < n && kept[i] <= *at) *at -= kept[i++];
    return i;
}

/* One block per wide row. */
static __global__ void draw_choose_kernel(draw_scratch p, ft_drawn *y, const ft_batch *b, ft_mat x)
{
    wait_for_previous_kernel();
    __shared__ float v[CHUNK];
    __shared__ u64 shared[33], rest;
    __shared__ int chunk;
    const int t = blockIdx.x;
    const ft_draw &d = b->draw[t];
    if (d.row < 0 || p.row[t].way != WIDE) return;
    const row_state s = p.row[t];
    const u64 *kept = p.kept + (size_t)t * p.n;
    u64 sum = 0, all;
    for (int i = threadIdx.x; i < p.n; i += THREADS) sum += kept[i];
    block_before(sum, shared, &all);
    if (!threadIdx.x) {
        u64 at = ft_draw_at(d.seed, d.position, all);
        chunk = find_chunk(kept, p.n, &at);
        rest = at;
    }
    __syncthreads();
    load_chunk(v, b, d, x, chunk);
    const int from = threadIdx.x * EACH, first = chunk * CHUNK + from;
    u64 w[EACH];
    sum = 0;
    for (int i = 0; i < EACH; i++) sum += w[i] = wide_weight(v[from + i], first + i, d, s);
    u64 before = block_before(sum, shared, &all);
    for (int i = 0; i < EACH; i++) {
        if (before <= rest && before + w[i] > rest) write_id(&y[d.to], d, x, first + i);
        before += w[i];
    }
}

static draw_scratch draw_places(ft_cuda *c, size_t T, size_t n)
{
    const size_t wide = T * (2 * n + BINS + PICKS) * sizeof(u64);
    const size_t bytes = wide + T * (BINS * sizeof(uint32_t) + sizeof(row_state));
    u64 *at = (u64 *)ft_cuda_scratch(c, FT_SCRATCH_DRAW, bytes);
    draw_scratch p = {};
    if (!at) return p;
    p.row = (row_state *)at;
    p.best = (u64 *)(p.row + T);
    p.kept = p.best + T * n;
    p.mass = p.kept + T * n;
    p.pick = p.mass + T * BINS;
    p.count = (uint32_t *)(p.pick + T * PICKS);
    p.n = (int)n;
    return p;
}

/* Scratch is sized for the maximum number of rows, so that its address does not change. */
extern "C" void ft_cuda_draw(ft_dev *d, ft_drawn *y, ft_mat x)
{
    ft_cuda *c = (ft_cuda *)d;
    const unsigned T = (unsigned)c->batch.T, n = ft_blocks((size_t)x.d, CHUNK);
    draw_scratch p = draw_places(c, FT_DRAW_ROWS, n);
    if (!p.row || !T) return;
    p.blocks = (int)FT_MIN(n, ft_blocks((size_t)c->sms * RESIDENT, T));
    const dim3 chunks(T, (unsigned)p.blocks);
    FT_LAUNCH_NEXT(c, draw_best_kernel, chunks, THREADS, 0, p, c->on, x);
    if (c->batch.sampled) FT_LAUNCH_NEXT(c, draw_weigh_kernel, chunks, THREADS, 0, p, c->on, x);
    FT_LAUNCH_NEXT(c, draw_threshold_kernel, T, BINS / 2, 0, p, y, c->on, x);
    if (!c->batch.sampled) return;
    FT_LAUNCH_NEXT(c, draw_collect_kernel, chunks, THREADS, 0, p, c->on, x);
    FT_LAUNCH_NEXT(c, draw_sort_kernel, T, SORTERS, 0, p, y, c->on, x);
    if (c->batch.sampled < 2) return; /* with top_k no row is wide */
    FT_LAUNCH_NEXT(c, draw_sum_kernel, chunks, THREADS, 0, p, c->on, x);
    FT_LAUNCH_NEXT(c, draw_choose_kernel, T, THREADS, 0, p, y, c->on, x);
}
