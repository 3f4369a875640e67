/* The Vulkan device: which one, what it must have, and the table of its functions. */
#include "dev/vulkan/vulkan.h"

#include <stdio.h>
#include <string.h>

enum { GPUS = 32 };
#define BUDGET "VK_EXT_memory_budget"

void ft_vk_check(ft_vk *v, VkResult r, const char *where)
{
    if (r >= 0 || v->error) return;
    v->error = r;
    v->where = where;
}

const char *ft_vk_error_name(VkResult r)
{
    switch (r) {
    case VK_ERROR_OUT_OF_HOST_MEMORY: return "out of host memory";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY: return "out of device memory";
    case VK_ERROR_INITIALIZATION_FAILED: return "the driver could not be started";
    case VK_ERROR_DEVICE_LOST: return "the device was lost: the driver reset it, or it hung";
    case VK_ERROR_MEMORY_MAP_FAILED: return "memory could not be mapped";
    case VK_ERROR_LAYER_NOT_PRESENT: return "a layer that was asked for is not installed";
    case VK_ERROR_EXTENSION_NOT_PRESENT: return "an extension is missing";
    case VK_ERROR_FEATURE_NOT_PRESENT: return "a feature is missing";
    case VK_ERROR_INCOMPATIBLE_DRIVER: return "no driver is installed";
    case VK_ERROR_TOO_MANY_OBJECTS: return "too many objects";
    default: return "an unknown error";
    }
}

/* ---- devices of this machine ---- */

static bool has_extension(const VkExtensionProperties *e, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(e[i].extensionName, name)) return true;
    return false;
}

static VkResult instance_open(VkInstance *out)
{
    VkExtensionProperties all[256];
    uint32_t n = FT_COUNT(all);
    if (vkEnumerateInstanceExtensionProperties(NULL, &n, all) < 0) n = 0;
    /* drivers that are layers over another API, such as MoltenVK, are listed on request only */
    const char *portability = "VK_KHR_portability_enumeration";
    const bool more = has_extension(all, n, portability);
    const VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                   .pApplicationName = "foretoken",
                                   .apiVersion = VK_API_VERSION_1_2};
    const VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                       .flags = more ? 1 : 0,
                                       .pApplicationInfo = &app,
                                       .enabledExtensionCount = more ? 1 : 0,
                                       .ppEnabledExtensionNames = &portability};
    return vkCreateInstance(&info, NULL, out);
}

static uint32_t list_gpus(VkInstance instance, VkPhysicalDevice *gpu)
{
    uint32_t n = GPUS;
    return vkEnumeratePhysicalDevices(instance, &n, gpu) < 0 ? 0 : n;
}

/* ---- features ---- */

typedef struct features {
    VkPhysicalDeviceFeatures2 core;
    VkPhysicalDeviceVulkan11Features v11;
    VkPhysicalDeviceVulkan12Features v12;
} features;

static void features_init(features *f)
{
    *f = (features){.core = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2},
                    .v11 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES},
                    .v12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES}};
    f->core.pNext = &f->v11;
    f->v11.pNext = &f->v12;
}

/* The first feature or limit that a device lacks, or NULL. */
static const char *lacks(VkPhysicalDevice gpu, const VkPhysicalDeviceProperties *p)
{
    features f;
    if (p->apiVersion < VK_API_VERSION_1_2) return "Vulkan 1.2";
    features_init(&f);
    vkGetPhysicalDeviceFeatures2(gpu, &f.core);
    if (!f.v12.bufferDeviceAddress) return "buffer device addresses";
    if (!f.core.features.shaderInt64) return "integers of 64 bits";
    if (!f.v12.storageBuffer8BitAccess) return "storage of 8 bits";
    if (!f.v11.storageBuffer16BitAccess) return "storage of 16 bits";
    if (!f.v12.scalarBlockLayout) return "scalar block layout";
    if (!f.v12.timelineSemaphore) return "timeline semaphores";
    if (p->limits.maxComputeSharedMemorySize < FT_VK_SHARED) return "24 KiB of shared memory";
    if (p->limits.maxComputeWorkGroupInvocations < 256) return "workgroups of 256";
    return NULL;
}

static bool compute_family(VkPhysicalDevice gpu, uint32_t *out)
{
    VkQueueFamilyProperties all[64];
    uint32_t n = FT_COUNT(all);
    vkGetPhysicalDeviceQueueFamilyProperties(gpu, &n, all);
    for (uint32_t i = 0; i < n; i++)
        if (all[i].queueFlags & VK_QUEUE_COMPUTE_BIT) return *out = i, true;
    return false;
}

static const char *kind_name(VkPhysicalDeviceType t)
{
    switch (t) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return "discrete GPU";
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return "integrated GPU";
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return "virtual GPU";
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return "CPU";
    default: return "other device";
    }
}

/* Extensions of a device; the caller frees them. */
static VkExtensionProperties *list_extensions(VkPhysicalDevice gpu, uint32_t *n)
{
    *n = 0;
    vkEnumerateDeviceExtensionProperties(gpu, NULL, n, NULL);
    VkExtensionProperties *all = ft_new_n(VkExtensionProperties, *n + 1);
    if (vkEnumerateDeviceExtensionProperties(gpu, NULL, n, all) < 0) *n = 0;
    return all;
}

/* Bytes of the largest heap of device memory, and how many of them are free. */
static void heap_bytes(VkPhysicalDevice gpu, ft_dev_info *out)
{
    uint32_t n;
    VkExtensionProperties *all = list_extensions(gpu, &n);
    const bool known = has_extension(all, n, BUDGET);
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 m = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
        .pNext = known ? &budget : NULL};
    vkGetPhysicalDeviceMemoryProperties2(gpu, &m);
    for (uint32_t i = 0; i < m.memoryProperties.memoryHeapCount; i++) {
        const VkMemoryHeap *h = &m.memoryProperties.memoryHeaps[i];
        if (!(h->flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) || h->size <= out->bytes) continue;
        out->bytes = h->size;
        out->free = budget.heapBudget[i] - FT_MIN(budget.heapBudget[i], budget.heapUsage[i]);
    }
    ft_free(all);
}

bool ft_dev_vulkan_info(int index, ft_dev_info *out)
{
    VkInstance instance;
    VkPhysicalDevice gpu[GPUS];
    VkPhysicalDeviceDriverProperties driver = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                     .pNext = &driver};
    if (instance_open(&instance)) return false;
    const bool found = index >= 0 && (uint32_t)index < list_gpus(instance, gpu);
    if (found) {
        vkGetPhysicalDeviceProperties2(gpu[index], &p);
        const char *missing = lacks(gpu[index], &p.properties);
        *out = (ft_dev_info){.kind = kind_name(p.properties.deviceType)};
        heap_bytes(gpu[index], out);
        snprintf(out->name, sizeof out->name, "%.159s", p.properties.deviceName);
        snprintf(out->driver, sizeof out->driver, "%.120s %.120s", driver.driverName,
                 driver.driverInfo);
        snprintf(out->features, sizeof out->features, "Vulkan %u.%u%s",
                 VK_API_VERSION_MAJOR(p.properties.apiVersion),
                 VK_API_VERSION_MINOR(p.properties.apiVersion),
                 ft_vk_coop_offered(instance, gpu[index]) ? ", cooperative matrices" : "");
        snprintf(out->lacks, sizeof out->lacks, "%s", missing ? missing : "");
    }
    vkDestroyInstance(instance, NULL);
    return found;
}

int ft_dev_vulkan_discrete(void)
{
    VkInstance instance;
    VkPhysicalDevice gpu[GPUS];
    VkPhysicalDeviceProperties p;
    int found = -1;
    if (instance_open(&instance)) return -1;
    const int n = (int)list_gpus(instance, gpu);
    for (int i = 0; i < n && found < 0; i++) {
        vkGetPhysicalDeviceProperties(gpu[i], &p);
        if (p.deviceType == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU && !lacks(gpu[i], &p)) found = i;
    }
    vkDestroyInstance(instance, NULL);
    return found;
}

/* ---- open and close ---- */

static bool device_open(ft_vk *v)
{
    static const char *const wanted[] = {BUDGET, "VK_KHR_portability_subset"};
    const char *use[FT_COUNT(wanted) + 1];
    uint32_t n, n_use = 0;
    const float priority = 1;
    features f;
    ft_vk_coop_features coop;
    VkExtensionProperties *all = list_extensions(v->gpu, &n);
    for (size_t i = 0; i < FT_COUNT(wanted); i++)
        if (has_extension(all, n, wanted[i])) use[n_use++] = wanted[i];
    v->budget = has_extension(all, n, wanted[0]);
    v->coop = ft_vk_coop_offered(v->instance, v->gpu);
    ft_free(all);
    features_init(&f);
    f.core.features.shaderInt64 = VK_TRUE;
    f.v11.storageBuffer16BitAccess = VK_TRUE;
    f.v12.bufferDeviceAddress = f.v12.storageBuffer8BitAccess = VK_TRUE;
    f.v12.scalarBlockLayout = f.v12.timelineSemaphore = VK_TRUE;
    if (v->coop) {
        f.v12.pNext = ft_vk_coop_enable(&coop, &f.v12);
        use[n_use++] = FT_VK_COOP;
    }
    const VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                           .queueFamilyIndex = v->family,
                                           .queueCount = 1,
                                           .pQueuePriorities = &priority};
    const VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                     .pNext = &f.core,
                                     .queueCreateInfoCount = 1,
                                     .pQueueCreateInfos = &queue,
                                     .enabledExtensionCount = n_use,
                                     .ppEnabledExtensionNames = use};
    ft_vk_check(v, vkCreateDevice(v->gpu, &info, NULL, &v->device), "vkCreateDevice");
    if (!v->error) vkGetDeviceQueue(v->device, v->family, 0, &v->queue);
    return !v->error;
}

/* Of an NVIDIA GPU; 0: not known. */
static uint32_t multiprocessors(const ft_vk *v)
{
    uint32_t n;
    VkPhysicalDeviceShaderSMBuiltinsPropertiesNV sm = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV};
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                     .pNext = &sm};
    VkExtensionProperties *all = list_extensions(v->gpu, &n);
    if (has_extension(all, n, VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME))
        vkGetPhysicalDeviceProperties2(v->gpu, &p);
    ft_free(all);
    return sm.shaderSMCount;
}

static void close_dev(ft_dev *d)
{
    ft_vk *v = (ft_vk *)d;
    if (v->device) {
        if (v->kept) ft_vk_drop_kept(v);
        vkDeviceWaitIdle(v->device);
        ft_vk_pipelines_close(v);
        ft_vk_steps_close(v);
        ft_vk_memory_close(v);
        vkDestroyDevice(v->device, NULL);
    }
    vkDestroyInstance(v->instance, NULL);
    ft_free(v);
}

/* A batch that outgrows its memory would drop the recorded steps: there is enough for the rows of a
 * step, and for the masks of sampling. */
static ft_status reserve(ft_dev *d, const ft_dev_limits *l, ft_err *err)
{
    const size_t words = sizeof(uint32_t) * ft_draw_words(l->vocab);
    ft_vk_batch_reserve((ft_vk *)d, FT_MAX((size_t)l->rows * 128, words));
    return ((ft_vk *)d)->error ? ft_vk_sync(d, err) : FT_OK;
}

static uint64_t weight_bytes(ft_dev *d, const ft_weight *w)
{
    if (ft_vk_packs((ft_vk *)d, w)) return ft_arena_alloc_size(ft_vk_packed_bytes(w));
    return ft_arena_alloc_size((uint64_t)w->row_bytes * (uint64_t)w->n * (uint64_t)w->E);
}

/* Results of experts; partial results of attention (attend.c); pieces of a recent-token window;
 * f16 copies of inputs (product.c); a part of a block. */
static uint64_t step_bytes(ft_dev *d, const ft_dev_limits *l)
{
    (void)d;
    const uint64_t rows = (uint64_t)l->rows, heads = (uint64_t)l->heads * (uint64_t)(l->head_d + 2);
    const uint64_t experts = rows * (uint64_t)l->experts * (uint64_t)l->k * sizeof(float);
    const uint64_t halves = 2 * rows * (uint64_t)FT_MAX(l->k, l->experts * l->expert_k);
    return experts + halves + (l->recent ? 2 * rows * heads * sizeof(float) : 0) + (192u << 20);
}

static double read_rate(ft_dev *d)
{
    (void)d;
    return 0;
}

static const ft_ops ops = {
    .embed = ft_vk_embed,
    .rmsnorm = ft_vk_rmsnorm,
    .linear = ft_vk_linear,
    .linears = ft_vk_linears,
    .glu = ft_vk_glu,
    .rope_angles = ft_vk_rope_angles,
    .norm_rope = ft_vk_norm_rope,
    .kv_put = ft_vk_kv_put,
    .attend = ft_vk_attend,
    .act_mul = ft_vk_act_mul,
    .sigmoid_mul = ft_vk_sigmoid_mul,
    .add = ft_vk_add,
    .norm_add = ft_vk_norm_add,
    .softcap = ft_vk_softcap,
    .gather = ft_vk_gather,
    .argmax = ft_vk_argmax,
    .draw = ft_vk_draw,
    .scatter = ft_vk_scatter,
    .conv = ft_vk_conv,
    .delta_rule = ft_vk_delta_rule,
    .gated_norm = ft_vk_gated_norm,
    .route = ft_vk_route,
    .moe = ft_vk_moe,
    .moe_shared = ft_vk_moe_shared,
    .expert_linear = ft_vk_expert_linear,
    .centroid_head = ft_vk_centroid_head,
    .layernorm = ft_vk_layernorm,
    .affine = ft_vk_affine,
    .clamp = ft_vk_clamp,
    .mix = ft_vk_mix,
    .image_rows = ft_vk_image_rows,
};

static void fill_device(ft_vk *v)
{
    if (v->index)
        snprintf(v->name, sizeof v->name, "vulkan:%d", v->index);
    else
        snprintf(v->name, sizeof v->name, "vulkan");
    v->dev = (ft_dev){
        .op = &ops,
        .name = v->name,
        .threads = 1,
        .pipelined = true,
        .captures = true,
        .alloc = ft_vk_alloc,
        .free = ft_vk_free,
        .upload = ft_vk_upload,
        .download = ft_vk_download,
        .copy_list = ft_vk_copy_list,
        .move = ft_vk_move,
        .bind = ft_vk_bind,
        .unbind = ft_vk_unbind,
        .reserve = reserve,
        .weight_bytes = weight_bytes,
        .step_bytes = step_bytes,
        .record = ft_vk_record,
        .replay = ft_vk_replay,
        .commit = ft_vk_commit,
        .capture = ft_vk_capture,
        .capture_pass = ft_vk_capture_pass,
        .captured = ft_vk_captured,
        .sync = ft_vk_sync,
        .free_bytes = ft_vk_free_bytes,
        .read_rate = read_rate,
        .close = close_dev,
    };
}

/* A device that this build can use; v->gpu and what is known about it. */
static ft_status choose(ft_vk *v, int index, ft_err *err)
{
    VkPhysicalDevice gpu[GPUS];
    const VkResult r = instance_open(&v->instance);
    const uint32_t n = r ? 0 : list_gpus(v->instance, gpu);
    if (!n)
        return ft_fail(err, FT_EUNSUPPORTED, "no Vulkan device: %s",
                       r ? ft_vk_error_name(r) : "no driver is installed");
    if ((uint32_t)index >= n)
        return ft_fail(err, FT_EUNSUPPORTED,
                       "device \"vulkan:%d\", this machine has %u Vulkan device%s", index, n,
                       n == 1 ? "" : "s");
    v->gpu = gpu[index];
    VkPhysicalDeviceSubgroupProperties group = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES};
    VkPhysicalDeviceMaintenance3Properties limits = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES, .pNext = &group};
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                     .pNext = &limits};
    vkGetPhysicalDeviceProperties2(v->gpu, &p);
    v->props = p.properties;
    v->most_bytes = limits.maxMemoryAllocationSize;
    v->shuffles = group.subgroupSize >= 4 &&
                  (group.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) &&
                  (group.supportedOperations & VK_SUBGROUP_FEATURE_SHUFFLE_BIT);
    const char *missing = lacks(v->gpu, &v->props);
    if (!missing && !compute_family(v->gpu, &v->family)) missing = "a compute queue";
    if (!missing) return FT_OK;
    return ft_fail(err, FT_EUNSUPPORTED, "Vulkan device \"%s\" lacks %s", v->props.deviceName,
                   missing);
}

ft_status ft_dev_vulkan(ft_dev **out, int index, ft_err *err)
{
    ft_vk *v = ft_new(ft_vk);
    v->index = index;
    fill_device(v);
    ft_status st = choose(v, index, err);
    if (!st && !device_open(v))
        st = ft_fail(err, FT_EUNSUPPORTED, "Vulkan device \"%s\" cannot be opened: %s",
                     v->props.deviceName, ft_vk_error_name(v->error));
    if (!st &&
        !(ft_vk_memory_open(v, err) && ft_vk_steps_open(v, err) && ft_vk_pipelines_open(v, err)))
        st = FT_EUNSUPPORTED;
    if (st) {
        close_dev(&v->dev);
        return st;
    }
    ft_vk_coop_check(v);
    v->multiprocessors = multiprocessors(v);
    *out = &v->dev;
    return FT_OK;
}
