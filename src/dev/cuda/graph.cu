/* Steps as CUDA graphs. A step is captured while its ops are called; from then on the graph is
 * launched instead of the ops. Kernels do not run during capture, so steps can be captured at
 * start-up. */
#include "dev/cuda/cuda.h"

#include <string.h>

/* ---- memory ---- */

void ft_cuda_retire(ft_cuda *c, void *p)
{
    if (!p) return;
    if (!c->n_graph && !c->capturing) {
        ft_cuda_check(c, cudaStreamSynchronize(c->stream), "cudaStreamSynchronize");
        cudaFree(p);
        return;
    }
    c->retired = (void **)ft_realloc(c->retired, sizeof *c->retired * (size_t)(c->n_retired + 1));
    c->retired[c->n_retired++] = p;
}

void ft_cuda_drop_graphs(ft_cuda *c)
{
    if (c->n_graph || c->n_retired)
        ft_cuda_check(c, cudaStreamSynchronize(c->stream), "cudaStreamSynchronize");
    for (int i = 0; i < c->n_graph; i++)
        if (c->graph[i].exec) cudaGraphExecDestroy(c->graph[i].exec);
    for (int i = 0; i < c->n_retired; i++) cudaFree(c->retired[i]);
    c->n_graph = c->n_retired = 0;
}

/* ---- the graph of a shape ---- */

static uint32_t hash_of(const ft_cuda *c, const void *pass)
{
    const ft_batch_shape *s = &c->shape;
    const uint64_t words[] = {(uint64_t)(uintptr_t)pass, (uint64_t)s->T << 32 | (uint32_t)s->n_out,
                              (uint64_t)s->S << 32 | (uint32_t)s->rows,
                              (uint64_t)s->ctx << 1 | c->parts_overflow};
    uint64_t h = 0;
    for (size_t i = 0; i < FT_COUNT(words); i++) h = (h ^ words[i]) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(h >> 32);
}

/* An entry for one more graph; the least recently used one is evicted if need be. */
static int free_place(ft_cuda *c)
{
    if (c->n_graph < FT_CUDA_GRAPHS) return c->n_graph++;
    int old = 0;
    for (int i = 1; i < FT_CUDA_GRAPHS; i++)
        if (c->graph[i].used < c->graph[old].used) old = i;
    if (c->graph[old].exec) {
        ft_cuda_check(c, cudaStreamSynchronize(c->stream), "cudaStreamSynchronize");
        cudaGraphExecDestroy(c->graph[old].exec);
    }
    return old;
}

/* NULL: there is none yet. */
static ft_cuda_graph *find_graph(ft_cuda *c, const void *pass, uint32_t hash)
{
    for (int i = 0; i < c->n_graph; i++) {
        ft_cuda_graph *g = &c->graph[i];
        if (c->hash[i] == hash && g->pass == pass && ft_batch_shape_same(&g->shape, &c->shape) &&
            g->parts_overflow == c->parts_overflow) {
            g->used = ++c->graph_clock;
            return g;
        }
    }
    return NULL;
}

static ft_cuda_graph *graph_of(ft_cuda *c, const void *pass)
{
    const uint32_t hash = hash_of(c, pass);
    ft_cuda_graph *const old = find_graph(c, pass, hash);
    if (old) return old;
    const int at = free_place(c);
    ft_cuda_graph *g = &c->graph[at];
    c->hash[at] = hash;
    memset(g, 0, sizeof *g);
    g->used = ++c->graph_clock;
    g->pass = pass;
    g->shape = c->shape;
    g->parts_overflow = c->parts_overflow;
    return g;
}

/* ---- steps ---- */

/* What shared memory does not take is L1 cache, which the rows of a product are read through. Three
 * blocks of product_stream for two to four rows fit into 164 of 228 KB; with more than 28 rows a
 * second block is worth less than the cache; product_groups needs all of it. On an H200, 27b: 4
 * rows 5.94 ms instead of 6.05, 32 sequences 14.2 instead of 15.5; but one row 5.63 instead
 * of 5.56, 25 sequences 14.2 instead of 13.0. Experts need the shared memory: two rows of the
 * 35b-a3b 2.23 ms instead of 2.19, four rows 2.70 instead of 2.67. */
static int carveout_of(const ft_cuda *c)
{
    const int T = c->shape.T;
    int driver = 0; /* an older one may not know the launch attribute */
    if (c->experts || c->cc != 90 || cudaDriverGetVersion(&driver) != cudaSuccess || driver < 12080)
        return 0;
    if (T > 28 && T <= 32) return ft_cuda_wide(c, T) ? 0 : 72;
    return T >= 2 && T <= 4 ? 72 : 0;
}

/* Relaxed mode: scratch may be allocated and kernels may be loaded during capture. */
static void begin_capture(ft_cuda *c, ft_cuda_graph *g)
{
    ft_cuda_check(c, cudaStreamBeginCapture(c->stream, cudaStreamCaptureModeRelaxed),
                  "cudaStreamBeginCapture");
    c->capturing = true;
    c->carveout = carveout_of(c);
    c->capture_to = g;
}

/* The first step of a shape that was not captured at start-up runs uncaptured: most of these shapes
 * do not repeat, and a capture takes longer than the launches. The second one is captured. */
bool ft_cuda_replay(ft_dev *d, const void *pass)
{
    ft_cuda *c = (ft_cuda *)d;
    const bool kept = c->shape.T <= FT_SHAPE_ROWS;
    d->uncaptured = false;
    if (c->error != cudaSuccess || (!kept && !c->capture_only)) return false;
    ft_cuda_graph *g = kept ? graph_of(c, pass) : NULL;
    if (g && g->exec) {
        if (!c->capture_only)
            ft_cuda_check(c, cudaGraphLaunch(g->exec, c->stream), "cudaGraphLaunch");
        return true;
    }
    d->uncaptured = !c->capture_only;
    if (!c->capture_only && g->seen++ == 0) return false;
    begin_capture(c, g);
    return false;
}

/* After an error nothing runs any more: it is the same as if all were captured. */
bool ft_cuda_captured(ft_dev *d, const void *pass)
{
    ft_cuda *c = (ft_cuda *)d;
    const ft_cuda_graph *g = find_graph(c, pass, hash_of(c, pass));
    return c->error != cudaSuccess || (g && g->exec);
}

void ft_cuda_capture_pass(ft_dev *d, const void *pass)
{
    ft_cuda *c = (ft_cuda *)d;
    ft_cuda_graph *g = pass ? graph_of(c, pass) : NULL;
    if (c->error != cudaSuccess) return;
    if (g && g->exec) {
        ft_cuda_check(c, cudaStreamSynchronize(c->stream), "cudaStreamSynchronize");
        cudaGraphExecDestroy(g->exec);
        g->exec = NULL;
    }
    begin_capture(c, g);
}

void ft_cuda_commit(ft_dev *d)
{
    ft_cuda *c = (ft_cuda *)d;
    if (!c->capturing) return;
    ft_cuda_route_now(c); /* what follows on another device may read the choice */
    ft_cuda_graph *g = c->capture_to;
    cudaGraph_t graph = NULL;
    c->capturing = false;
    c->carveout = 0;
    ft_cuda_check(c, cudaStreamEndCapture(c->stream, &graph), "cudaStreamEndCapture");
    if (!graph) return;
    if (g) ft_cuda_check(c, cudaGraphInstantiate(&g->exec, graph, 0), "cudaGraphInstantiate");
    cudaGraphDestroy(graph);
    if (!g || !g->exec) return;
    if (c->capture_only)
        ft_cuda_check(c, cudaGraphUpload(g->exec, c->stream), "cudaGraphUpload");
    else
        ft_cuda_check(c, cudaGraphLaunch(g->exec, c->stream), "cudaGraphLaunch");
}

void ft_cuda_capture(ft_dev *d, bool on)
{
    ((ft_cuda *)d)->capture_only = on;
}
