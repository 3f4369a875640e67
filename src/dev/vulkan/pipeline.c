/* Compute pipelines: one for each shader and set of specialisation constants, made when a step
 * first needs it, the new ones of a step at the same time. The driver's compiled code is kept in a
 * file of the cache folder. */
#include "dev/vulkan/vulkan.h"

#include "base/file.h"
#include "base/pool.h"
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "angles.spv.h"
#include "attend.spv.h"
#include "attend_coop.spv.h"
#include "centroid.spv.h"
#include "conv.spv.h"
#include "delta.spv.h"
#include "delta_conv.spv.h"
#include "delta_shuffle.spv.h"
#include "draw.spv.h"
#include "draw_row.spv.h"
#include "each.spv.h"
#include "embed.spv.h"
#include "few.spv.h"
#include "fold.spv.h"
#include "halves.spv.h"
#include "join.spv.h"
#include "kv_put.spv.h"
#include "layout.spv.h"
#include "linear.spv.h"
#include "many.spv.h"
#include "norm.spv.h"
#include "one.spv.h"
#include "pack.spv.h"
#include "plan.spv.h"
#include "select.spv.h"

#define SHADER(s)                                                                                  \
    {                                                                                              \
        s##_spv, sizeof s##_spv                                                                    \
    }
static const struct {
    const uint32_t *code;
    size_t bytes;
} shader[FT_VK_SHADERS] = {
    [FT_VK_EACH] = SHADER(each),
    [FT_VK_NORM] = SHADER(norm),
    [FT_VK_ANGLES] = SHADER(angles),
    [FT_VK_EMBED] = SHADER(embed),
    [FT_VK_LINEAR] = SHADER(linear),
    [FT_VK_PLAN] = SHADER(plan),
    [FT_VK_SELECT] = SHADER(select),
    [FT_VK_CENTROID] = SHADER(centroid),
    [FT_VK_KV_PUT] = SHADER(kv_put),
    [FT_VK_ATTEND] = SHADER(attend),
    [FT_VK_FOLD] = SHADER(fold),
    [FT_VK_JOIN] = SHADER(join),
    [FT_VK_CONV] = SHADER(conv),
    [FT_VK_DELTA] = SHADER(delta),
    [FT_VK_DRAW] = SHADER(draw),
    [FT_VK_DRAW_ROW] = SHADER(draw_row),
    [FT_VK_DELTA_SHUFFLE] = SHADER(delta_shuffle),
    [FT_VK_DELTA_CONV] = SHADER(delta_conv),
    [FT_VK_LAYOUT] = SHADER(layout),
    [FT_VK_PACK] = SHADER(pack),
    [FT_VK_HALVES] = SHADER(halves),
    [FT_VK_ONE] = SHADER(one),
    [FT_VK_FEW] = SHADER(few),
    [FT_VK_MANY] = SHADER(many),
    [FT_VK_ATTEND_COOP] = SHADER(attend_coop),
};

/* ---- the cache file ---- */

enum { CACHE_MOST = 256 << 20 };

/* ~/.cache/foretoken/vulkan-ID.bin, with the identity of driver and device; NULL without a home. */
static char *cache_path(const ft_vk *v)
{
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char path[1024], id[2 * VK_UUID_SIZE + 1];
    for (size_t i = 0; i < VK_UUID_SIZE; i++)
        snprintf(id + 2 * i, 3, "%02x", v->props.pipelineCacheUUID[i]);
    if (base && base[0] == '/')
        snprintf(path, sizeof path, "%.900s/foretoken", base);
    else if (home && home[0] == '/')
        snprintf(path, sizeof path, "%.900s/.cache/foretoken", home);
    else
        return NULL;
    const size_t n = strlen(path);
    snprintf(path + n, sizeof path - n, "/vulkan-%s.bin", id);
    return ft_strdup(path);
}

/* The driver checks the file's header, and ignores one that is not its own. */
static void cache_open(ft_vk *v)
{
    char *data = NULL;
    size_t n = 0;
    ft_err err;
    v->cache_path = cache_path(v);
    if (v->cache_path && ft_file_read(&data, &n, v->cache_path, CACHE_MOST, &err)) n = 0;
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
                                      .initialDataSize = n,
                                      .pInitialData = data};
    if (vkCreatePipelineCache(v->device, &info, NULL, &v->cache)) {
        info.initialDataSize = 0;
        ft_vk_check(v, vkCreatePipelineCache(v->device, &info, NULL, &v->cache), "pipeline cache");
    }
    ft_free(data);
}

/* A cache that cannot be written costs time at the next start, nothing else. */
static void cache_save(ft_vk *v)
{
    size_t n = 0;
    ft_out_file *f;
    ft_err err;
    if (!v->cache_path || !v->cache_new || vkGetPipelineCacheData(v->device, v->cache, &n, NULL))
        return;
    unsigned char *data = ft_alloc(n ? n : 1);
    char *slash = strrchr(v->cache_path, '/');
    *slash = 0;
    const bool folder = mkdir(v->cache_path, 0700) == 0 || ft_file_exists(v->cache_path);
    *slash = '/';
    if (folder && !vkGetPipelineCacheData(v->device, v->cache, &n, data) &&
        !ft_out_open_private(&f, v->cache_path, &err)) {
        ft_out_write(f, data, n);
        (void)ft_out_commit(f, &err);
    }
    ft_free(data);
}

/* ---- pipelines ---- */

static void compile(void *user, size_t i)
{
    ft_vk *v = user;
    ft_vk_pipeline *p = v->fresh.v[i];
    const size_t bytes = sizeof *p->spec;
    VkSpecializationMapEntry entry[FT_VK_SPECS];
    for (uint32_t k = 0; k < FT_VK_SPECS; k++)
        entry[k] = (VkSpecializationMapEntry){k, k * (uint32_t)bytes, bytes};
    const VkSpecializationInfo constants = {FT_VK_SPECS, entry, FT_VK_SPECS * bytes, p->spec};
    const VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = v->module[p->shader],
                  .pName = "main",
                  .pSpecializationInfo = &constants},
        .layout = v->layout};
    p->result = vkCreateComputePipelines(v->device, v->cache, 1, &info, NULL, &p->pipeline);
}

void ft_vk_pipelines_compile(ft_vk *v)
{
    const int n = v->fresh.n;
    if (!n || v->error) return;
    ft_pool *pool = ft_pool_new(FT_MIN(n, ft_cpu_count()), 0);
    ft_pool_each(pool, (size_t)n, compile, v);
    ft_pool_free(pool);
    for (int i = 0; i < n; i++) ft_vk_check(v, v->fresh.v[i]->result, "a pipeline");
    v->fresh.n = 0;
    v->cache_new = true;
}

static void module_ready(ft_vk *v, ft_vk_shader s)
{
    size_t bytes = shader[s].bytes;
    if (v->module[s]) return;
    uint32_t *translated = s >= FT_VK_LAYOUT ? ft_vk_coop_code(shader[s].code, &bytes) : NULL;
    const VkShaderModuleCreateInfo code = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                           .codeSize = bytes,
                                           .pCode = translated ? translated : shader[s].code};
    ft_vk_check(v, vkCreateShaderModule(v->device, &code, NULL, &v->module[s]), "a shader");
    ft_free(translated);
}

static void add(ft_vk_pipelines *to, ft_vk_pipeline *p)
{
    if (to->n == to->cap)
        to->v = ft_realloc(to->v, sizeof *to->v * (size_t)(to->cap = 2 * to->cap + 8));
    to->v[to->n++] = p;
}

static const ft_vk_pipeline *pipeline_of(ft_vk *v, ft_vk_shader s, const uint32_t *spec)
{
    const ft_vk_pipelines *all = &v->pipelines[s];
    for (int i = 0; i < all->n; i++)
        if (!memcmp(all->v[i]->spec, spec, sizeof all->v[i]->spec)) return all->v[i];
    ft_vk_pipeline *p = ft_new(ft_vk_pipeline);
    p->shader = s;
    memcpy(p->spec, spec, sizeof p->spec);
    module_ready(v, s);
    add(&v->pipelines[s], p);
    add(&v->fresh, p);
    return p;
}

void ft_vk_dispatch(ft_vk *v, ft_vk_shader s, const uint32_t *spec, const void *push, size_t bytes,
                    size_t x, size_t y, size_t z)
{
    assert(bytes <= FT_VK_PUSH);
    ft_vk_command *c = x && y && z ? ft_vk_command_add(v, FT_VK_DISPATCH) : NULL;
    if (!c) return;
    c->pipeline = pipeline_of(v, s, spec);
    c->grid[0] = (uint32_t)x;
    c->grid[1] = (uint32_t)y;
    c->grid[2] = (uint32_t)z;
    c->push_bytes = (uint32_t)bytes;
    memcpy(c->push, push, bytes);
}

/* ---- open and close ---- */

bool ft_vk_pipelines_open(ft_vk *v, ft_err *err)
{
    const uint32_t bytes = FT_MIN(v->props.limits.maxPushConstantsSize, (uint32_t)FT_VK_PUSH);
    const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, bytes};
    const VkPipelineLayoutCreateInfo layout = {.sType =
                                                   VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                               .pushConstantRangeCount = 1,
                                               .pPushConstantRanges = &range};
    ft_vk_check(v, vkCreatePipelineLayout(v->device, &layout, NULL, &v->layout), "a layout");
    if (!v->error) cache_open(v);
    return !v->error || ft_vk_sync(&v->dev, err) == FT_OK;
}

void ft_vk_pipelines_close(ft_vk *v)
{
    if (v->cache) cache_save(v);
    for (int s = 0; s < FT_VK_SHADERS; s++) {
        for (int i = 0; i < v->pipelines[s].n; i++) {
            vkDestroyPipeline(v->device, v->pipelines[s].v[i]->pipeline, NULL);
            ft_free(v->pipelines[s].v[i]);
        }
        ft_free(v->pipelines[s].v);
        vkDestroyShaderModule(v->device, v->module[s], NULL);
    }
    vkDestroyPipelineCache(v->device, v->cache, NULL);
    vkDestroyPipelineLayout(v->device, v->layout, NULL);
    ft_free(v->fresh.v);
    ft_free(v->cache_path);
}
