/* Compute pipelines: one for each shader and set of specialisation constants, made when an op first
 * needs it. The driver's compiled code is kept in a file of the cache folder. */
#include "dev/vulkan/vulkan.h"

#include "base/file.h"
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
    [FT_VK_EACH] = SHADER(each),     [FT_VK_NORM] = SHADER(norm),
    [FT_VK_ANGLES] = SHADER(angles), [FT_VK_EMBED] = SHADER(embed),
    [FT_VK_LINEAR] = SHADER(linear), [FT_VK_PLAN] = SHADER(plan),
    [FT_VK_SELECT] = SHADER(select), [FT_VK_CENTROID] = SHADER(centroid),
    [FT_VK_KV_PUT] = SHADER(kv_put), [FT_VK_ATTEND] = SHADER(attend),
    [FT_VK_FOLD] = SHADER(fold),     [FT_VK_JOIN] = SHADER(join),
    [FT_VK_CONV] = SHADER(conv),     [FT_VK_DELTA] = SHADER(delta),
    [FT_VK_LAYOUT] = SHADER(layout), [FT_VK_PACK] = SHADER(pack),
    [FT_VK_HALVES] = SHADER(halves),
    [FT_VK_FEW] = SHADER(few),       [FT_VK_MANY] = SHADER(many),
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

static void module_open(ft_vk *v, ft_vk_shader s)
{
    size_t bytes = shader[s].bytes;
    uint32_t *translated = s >= FT_VK_LAYOUT ? ft_vk_coop_code(shader[s].code, &bytes) : NULL;
    const VkShaderModuleCreateInfo code = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                           .codeSize = bytes,
                                           .pCode = translated ? translated : shader[s].code};
    ft_vk_check(v, vkCreateShaderModule(v->device, &code, NULL, &v->module[s]), "a shader");
    ft_free(translated);
}

static VkPipeline compile(ft_vk *v, ft_vk_shader s, const uint32_t *spec)
{
    VkSpecializationMapEntry entry[FT_VK_SPECS];
    for (uint32_t i = 0; i < FT_VK_SPECS; i++)
        entry[i] = (VkSpecializationMapEntry){i, i * (uint32_t)sizeof *spec, sizeof *spec};
    const VkSpecializationInfo constants = {FT_VK_SPECS, entry, FT_VK_SPECS * sizeof *spec, spec};
    VkPipeline p = VK_NULL_HANDLE;
    if (!v->module[s]) module_open(v, s);
    const VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = v->module[s],
                  .pName = "main",
                  .pSpecializationInfo = &constants},
        .layout = v->layout};
    if (v->error) return VK_NULL_HANDLE;
    ft_vk_check(v, vkCreateComputePipelines(v->device, v->cache, 1, &info, NULL, &p), "a pipeline");
    v->cache_new = true;
    return p;
}

static VkPipeline pipeline_of(ft_vk *v, ft_vk_shader s, const uint32_t *spec)
{
    ft_vk_shader_pipelines *all = &v->pipelines[s];
    for (int i = 0; i < all->n; i++)
        if (!memcmp(all->v[i].spec, spec, sizeof all->v[i].spec)) return all->v[i].pipeline;
    if (all->n == all->cap)
        all->v = ft_realloc(all->v, sizeof *all->v * (size_t)(all->cap = 2 * all->cap + 8));
    ft_vk_pipeline *p = &all->v[all->n++];
    memcpy(p->spec, spec, sizeof p->spec);
    return p->pipeline = compile(v, s, spec);
}

void ft_vk_dispatch(ft_vk *v, ft_vk_shader s, const uint32_t *spec, const void *push, size_t bytes,
                    size_t x, size_t y, size_t z)
{
    VkCommandBuffer cmd = ft_vk_cmd(v);
    VkPipeline p = cmd && x && y && z ? pipeline_of(v, s, spec) : VK_NULL_HANDLE;
    assert(bytes <= FT_VK_PUSH);
    if (!p) return;
    vkCmdBindPipeline(cmd, VK_PIPELINE_BIND_POINT_COMPUTE, p);
    vkCmdPushConstants(cmd, v->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, (uint32_t)bytes, push);
    vkCmdDispatch(cmd, (uint32_t)x, (uint32_t)y, (uint32_t)z);
    v->dirty = true;
}

/* ---- open and close ---- */

bool ft_vk_pipelines_open(ft_vk *v, ft_err *err)
{
    const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, FT_VK_PUSH};
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
        for (int i = 0; i < v->pipelines[s].n; i++)
            vkDestroyPipeline(v->device, v->pipelines[s].v[i].pipeline, NULL);
        ft_free(v->pipelines[s].v);
        vkDestroyShaderModule(v->device, v->module[s], NULL);
    }
    vkDestroyPipelineCache(v->device, v->cache, NULL);
    vkDestroyPipelineLayout(v->device, v->layout, NULL);
    ft_free(v->cache_path);
}
