/* KV cache and attention. */
#include "dev/vulkan/vulkan.h"

#include <string.h>

enum attend_flags { OUTPUT_ROWS = 1, AHEAD = 2, WINDOW_SPACE = 4, GATED = 8 }; /* fold.glsl */

enum {
    RANGE = 512,            /* fold.glsl */
    SPLITS = 64,            /* workgroups that share a row's ranges, at most */
    SPLIT_ROWS = 16,        /* more rows fill a device without */
    PART_BYTES = 128 << 20, /* maximum size of partial results */
    TILE = 16,              /* query vectors of a subgroup: attend_coop.comp */
    TILES = 4,              /* subgroups of a workgroup there */
};

void ft_vk_kv_put(ft_dev *d, const ft_kv *kv, ft_mat k, ft_mat v)
{
    ft_vk *dev = (ft_vk *)d;
    struct {
        ft_vk_mat k, v;
        uint64_t k_to, v_to, mean, batch, cs, w;
        uint32_t k_page, v_page, k_row, v_row;
        int32_t space, cs_rs, rot;
    } a = {.k = ft_vk_mat_of(k),
           .v = ft_vk_mat_of(v),
           .k_to = ft_vk_address(kv->k),
           .v_to = ft_vk_address(kv->v),
           .mean = ft_vk_address(kv->mean),
           .batch = dev->batch_mem.address,
           .k_page = (uint32_t)kv->k_page,
           .v_page = (uint32_t)kv->v_page,
           .k_row = (uint32_t)kv->k_row,
           .v_row = (uint32_t)kv->v_row,
           .space = kv->space};
    ft_vk_rotation r;
    uint32_t eps = 0;
    const bool rope = ft_vk_take_rotation(dev, k, v, &r);
    if (rope) {
        memcpy(&eps, &r.eps, sizeof eps);
        a.cs = r.cs.p;
        a.cs_rs = r.cs.rs;
        a.rot = r.cs.H * r.cs.d;
        a.w = r.w;
    }
    assert(kv->d <= FT_VK_HEAD);
    FT_VK_RUN(dev, FT_VK_KV_PUT, FT_VK_SPEC(kv->kt, kv->vt, (uint32_t)kv->d, rope, eps), a,
              2 * (size_t)kv->G, (size_t)k.T, 1);
}

/* Push constants of attend.comp, attend_coop.comp and fold.comp. */
typedef struct attend_args {
    ft_vk_mat q, o;
    uint64_t k, v, batch, part;
    uint32_t k_page, v_page, k_row, v_row;
    float scale;
    int32_t window, first, flags, piece, group, ranges, rows;
} attend_args;

/* Whether attend_coop.comp computes it, for any number of rows. */
static bool coop(const ft_vk *v, const ft_kv *kv, int group)
{
    return v->coop && !kv->recent && kv->kt == FT_KV_F16 && kv->vt == FT_KV_F16 &&
           kv->d % 64 == 0 && kv->d <= 256 && group <= TILE;
}

/* The positions of one cache: all, or before or in the recent-token window, whose results go to
 * `pieces`. Where few rows have a long context, workgroups share its ranges. */
static void attend_piece(ft_vk *v, attend_args a, const ft_kv *kv, int T, uint64_t pieces)
{
    const uint32_t kt = kv->kt, vt = kv->vt, D = (uint32_t)kv->d;
    const size_t heads = (size_t)a.q.H, rows = (size_t)T, width = ft_vk_groups(D, 64) * 64;
    const size_t bytes = rows * heads * (size_t)a.ranges * (width + 2) * sizeof(float);
    a.k = ft_vk_address(kv->k);
    a.v = ft_vk_address(kv->v);
    a.k_page = (uint32_t)kv->k_page;
    a.v_page = (uint32_t)kv->v_page;
    a.k_row = (uint32_t)kv->k_row;
    a.v_row = (uint32_t)kv->v_row;
    a.flags |= kv->space == FT_SPACE_WINDOW ? WINDOW_SPACE : 0;
    a.part = pieces;
    const bool split = v->shape.ctx > RANGE && a.piece != 2 && T <= SPLIT_ROWS && a.ranges > 1 &&
                       bytes <= PART_BYTES;
    const bool tiled = !a.piece && coop(v, kv, a.group);
    const size_t tiles = ft_vk_groups(rows, tiled ? (size_t)(TILE / a.group) : 1);
    const ft_vk_shader shader = tiled ? FT_VK_ATTEND_COOP : FT_VK_ATTEND;
    const size_t x = tiled ? (size_t)kv->G : heads;
    if (!split) {
        const bool sliced = tiled && T <= SPLIT_ROWS;
        FT_VK_RUN(v, shader, FT_VK_SPEC(kt, vt, D, 0, sliced, v->order), a, x,
                  tiled && !sliced ? ft_vk_groups(tiles, TILES) : tiles, 1);
        return;
    }
    const size_t shares = tiled ? ft_vk_groups((size_t)a.ranges, TILES) : (size_t)a.ranges;
    a.part = ft_vk_scratch(v, FT_VK_SCRATCH_ATTEND, bytes);
    if (!a.part) return;
    FT_VK_RUN(v, shader, FT_VK_SPEC(kt, vt, D, 1, 0, v->order), a, x, tiles,
              FT_MIN(shares, (size_t)SPLITS));
    a.k = pieces;
    FT_VK_RUN(v, FT_VK_FOLD, FT_VK_SPEC(kt, vt, D), a, heads, rows, 1);
}

void ft_vk_attend(ft_dev *d, ft_mat o, ft_mat q, const ft_kv *kv, ft_attn p)
{
    ft_vk *v = (ft_vk *)d;
    attend_args a = {.q = ft_vk_mat_of(q),
                     .o = ft_vk_mat_of(o),
                     .batch = v->batch_mem.address,
                     .scale = p.scale,
                     .window = p.window,
                     .first = p.first,
                     .flags = (p.out ? OUTPUT_ROWS : 0) | (p.ahead ? AHEAD : 0),
                     .group = q.H / kv->G,
                     .ranges = (v->batch.pages_per_seq * FT_PAGE_ROWS + RANGE - 1) / RANGE,
                     .rows = q.T};
    assert(kv->d <= FT_VK_HEAD);
    if (!kv->recent) {
        attend_piece(v, a, kv, q.T, 0);
        return;
    }
    const size_t heads = (size_t)q.T * (size_t)q.H;
    const uint64_t pieces =
        ft_vk_scratch(v, FT_VK_SCRATCH_PIECES, 2 * heads * (size_t)(kv->d + 2) * sizeof(float));
    if (!pieces) return;
    a.piece = 1;
    attend_piece(v, a, kv, q.T, pieces);
    a.piece = 2;
    attend_piece(v, a, kv->recent, q.T, pieces);
    const struct {
        ft_vk_mat o;
        uint64_t part;
    } join = {a.o, pieces};
    FT_VK_RUN(v, FT_VK_JOIN, FT_VK_SPEC(0), join, (size_t)q.H, (size_t)q.T, 1);
}

bool ft_vk_attend_gate(ft_vk *v, ft_mat y, ft_mat g)
{
    ft_vk_command *c = v->cmd && v->n_list ? &v->list[v->n_list - 1] : NULL;
    const ft_vk_mat to = ft_vk_mat_of(y), gate = ft_vk_mat_of(g);
    attend_args a;
    if (!c || c->kind != FT_VK_DISPATCH) return false;
    const ft_vk_shader s = c->pipeline->shader;
    if (s != FT_VK_FOLD && ((s != FT_VK_ATTEND && s != FT_VK_ATTEND_COOP) || c->pipeline->spec[3]))
        return false;
    memcpy(&a, c->push, sizeof a);
    ft_vk_mat beside = a.q; /* a query's gate follows it */
    beside.p += (uint64_t)a.q.d * sizeof(float);
    if (a.piece || a.flags & GATED || a.rows != y.T || memcmp(&a.o, &to, sizeof to) ||
        memcmp(&beside, &gate, sizeof gate))
        return false;
    a.flags |= GATED;
    memcpy(c->push, &a, sizeof a);
    return true;
}
