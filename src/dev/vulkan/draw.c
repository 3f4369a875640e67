/* Sampling on the device. */
#include "dev/vulkan/vulkan.h"

#include <stddef.h>

enum {
    CHUNK = 2048,     /* draw.glsl */
    BINS = 1024,      /* draw.glsl */
    PICKS = 2048,     /* draw.glsl */
    STATE_BYTES = 56, /* State of draw.glsl */
    BLOCKS = 32,      /* workgroups that share the chunks of a row, at most, */
    ALL_BLOCKS = 512, /* and of all rows together */
};

enum ft_vk_draw_scan { DRAW_BEST, DRAW_WEIGH, DRAW_COLLECT, DRAW_SUM, DRAW_CHOOSE };

/* The structures of draw.glsl. */
_Static_assert(sizeof(ft_draw) == 72 && offsetof(ft_draw, seed) == 40 &&
                   offsetof(ft_draw, mask) == 56,
               "Draw of draw.glsl");
_Static_assert(sizeof(ft_drawn) == 280 && offsetof(ft_drawn, top) == 24, "Drawn of draw.glsl");
_Static_assert((int)FT_DRAW_K <= (int)PICKS, "picks of a row");

/* Push constants of draw.comp and draw_row.comp. */
typedef struct draw_args {
    ft_vk_mat x;
    uint64_t y, batch, row, best, mass, count, pick, kept;
    int32_t n, blocks;
} draw_args;

static uint64_t take(uint64_t *at, size_t bytes)
{
    const uint64_t p = *at;
    *at += bytes;
    return p;
}

/* Scratch is sized for the maximum number of rows, so that its address does not change. */
static bool draw_places(ft_vk *v, draw_args *a, size_t n)
{
    const size_t T = FT_DRAW_ROWS, all = ALL_BLOCKS, u64 = sizeof(uint64_t), u32 = sizeof(uint32_t);
    uint64_t at =
        ft_vk_scratch(v, FT_VK_SCRATCH_DRAW,
                      T * (STATE_BYTES + (PICKS + n) * u64) + all * (u64 + BINS * (u64 + u32)));
    if (!at) return false;
    a->row = take(&at, T * STATE_BYTES);
    a->best = take(&at, all * u64);
    a->mass = take(&at, all * BINS * u64);
    a->pick = take(&at, T * PICKS * u64);
    a->kept = take(&at, T * n * u64);
    a->count = at;
    return true;
}

static void scan(ft_vk *v, enum ft_vk_draw_scan op, const draw_args *a, size_t T)
{
    const size_t blocks = op == DRAW_CHOOSE ? 1 : (size_t)a->blocks;
    FT_VK_RUN(v, FT_VK_DRAW, FT_VK_SPEC(op), *a, blocks, T, 1);
}

void ft_vk_draw(ft_dev *d, ft_drawn *y, ft_mat x)
{
    ft_vk *v = (ft_vk *)d;
    const size_t T = (size_t)d->batch->T, n = ft_vk_groups((size_t)x.d, CHUNK);
    const int sampled = d->batch->sampled;
    draw_args a = {.x = ft_vk_mat_of(x),
                   .y = ft_vk_address(y),
                   .batch = v->batch_mem.address,
                   .n = (int32_t)n};
    if (!T || !draw_places(v, &a, n)) return;
    a.blocks = (int32_t)FT_MIN(FT_MIN(n, (size_t)BLOCKS), ALL_BLOCKS / T);
    scan(v, DRAW_BEST, &a, T);
    if (sampled) scan(v, DRAW_WEIGH, &a, T);
    FT_VK_RUN(v, FT_VK_DRAW_ROW, FT_VK_SPEC(0), a, T, 1, 1);
    if (!sampled) return;
    scan(v, DRAW_COLLECT, &a, T);
    FT_VK_RUN(v, FT_VK_DRAW_ROW, FT_VK_SPEC(1), a, T, 1, 1);
    if (sampled < 2) return; /* with top_k no row is wide */
    scan(v, DRAW_SUM, &a, T);
    scan(v, DRAW_CHOOSE, &a, T);
}
