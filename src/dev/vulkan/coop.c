/* Cooperative matrices: whether a device has those of coop.glsl. The declarations of
 * VK_KHR_cooperative_matrix are here because Vulkan headers before 1.3.255 lack them. */
#include "dev/vulkan/vulkan.h"

#include <stdlib.h>
#include <string.h>

enum {
    /* VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR, and of a shape */
    COOP_FEATURES = 1000506000,
    COOP_SHAPE = 1000506001,
    COOP_F16 = 0, /* VkComponentTypeKHR */
    COOP_F32 = 1,
    COOP_SUBGROUP = 3,   /* VkScopeKHR */
    COOP_SHARED = 40960, /* bytes of shared memory that many.comp and attention need */
    SHAPES = 256,
};

typedef struct coop_shape { /* VkCooperativeMatrixPropertiesKHR */
    VkStructureType sType;
    void *pNext;
    uint32_t m, n, k;
    int32_t a, b, c, result;
    VkBool32 saturating;
    int32_t scope;
} coop_shape;

typedef VkResult(VKAPI_PTR *list_shapes)(VkPhysicalDevice, uint32_t *, coop_shape *);

static bool has_shape(VkInstance instance, VkPhysicalDevice gpu)
{
    list_shapes list = (list_shapes)vkGetInstanceProcAddr(
        instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    coop_shape all[SHAPES];
    uint32_t n = SHAPES;
    if (!list) return false;
    for (int i = 0; i < SHAPES; i++) all[i] = (coop_shape){.sType = (VkStructureType)COOP_SHAPE};
    if (list(gpu, &n, all) < 0) return false;
    for (uint32_t i = 0; i < n; i++)
        if (all[i].m == 16 && all[i].n == 8 && all[i].k == 16 && all[i].a == COOP_F16 &&
            all[i].b == COOP_F16 && all[i].c == COOP_F32 && all[i].result == COOP_F32 &&
            all[i].scope == COOP_SUBGROUP)
            return true;
    return false;
}

static bool has_extension(VkPhysicalDevice gpu)
{
    uint32_t n = 0;
    bool found = false;
    vkEnumerateDeviceExtensionProperties(gpu, NULL, &n, NULL);
    VkExtensionProperties *all = ft_new_n(VkExtensionProperties, n + 1);
    if (vkEnumerateDeviceExtensionProperties(gpu, NULL, &n, all) < 0) n = 0;
    for (uint32_t i = 0; i < n; i++) found = found || !strcmp(all[i].extensionName, FT_VK_COOP);
    ft_free(all);
    return found;
}

bool ft_vk_coop_offered(VkInstance instance, VkPhysicalDevice gpu)
{
    const char *wanted = getenv("FT_VULKAN");
    VkPhysicalDeviceSubgroupProperties group = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES};
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                     .pNext = &group};
    ft_vk_coop_features coop = {.sType = (VkStructureType)COOP_FEATURES};
    VkPhysicalDeviceVulkan12Features v12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, .pNext = &coop};
    VkPhysicalDeviceFeatures2 f = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                   .pNext = &v12};
    if ((wanted && !strcmp(wanted, "basic")) || !has_extension(gpu)) return false;
    vkGetPhysicalDeviceProperties2(gpu, &p);
    vkGetPhysicalDeviceFeatures2(gpu, &f);
    return coop.matrices && v12.shaderFloat16 && v12.vulkanMemoryModel &&
           group.subgroupSize == 32 && (group.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) &&
           p.properties.limits.maxComputeSharedMemorySize >= COOP_SHARED &&
           has_shape(instance, gpu);
}

void *ft_vk_coop_enable(ft_vk_coop_features *coop, VkPhysicalDeviceVulkan12Features *v12)
{
    *coop = (ft_vk_coop_features){.sType = (VkStructureType)COOP_FEATURES, .matrices = VK_TRUE};
    v12->shaderFloat16 = v12->vulkanMemoryModel = VK_TRUE;
    return coop;
}

/* Which elements a lane has is the driver's choice: a product of numbers says whether they are
 * those of coop.glsl. */
void ft_vk_coop_check(ft_vk *v)
{
    enum { LANES = 32, LAYOUTS = 4 };
    int32_t wrong[LAYOUTS][LANES];
    void *p = v->coop ? ft_vk_alloc(&v->dev, sizeof wrong) : NULL;
    v->coop = false;
    if (!p) return;
    memset(wrong, 1, sizeof wrong);
    ft_vk_upload(&v->dev, p, wrong, sizeof wrong);
    for (uint32_t i = 0; i < LAYOUTS; i++) {
        const uint64_t to = ft_vk_address(p) + i * sizeof wrong[0];
        FT_VK_RUN(v, FT_VK_LAYOUT, FT_VK_SPEC(0, 0, 0, 0, 0, i), to, 1, 1, 1);
    }
    ft_vk_download(&v->dev, wrong, p, sizeof wrong);
    ft_vk_free(&v->dev, p);
    for (uint32_t i = 0; i < LAYOUTS && !v->coop && !v->error; i++) {
        int bad = 0;
        for (int j = 0; j < LANES; j++) bad += wrong[i][j] != 0;
        v->coop = !bad;
        v->order = i;
    }
}

/* ---- SPIR-V: SPV_NV_cooperative_matrix to SPV_KHR_cooperative_matrix ---- */

enum {
    OP_EXTENSION = 10,
    OP_CAPABILITY = 17,
    OP_TYPE_FLOAT = 22,
    OP_CONSTANT = 43,
    OP_TYPE_KHR = 4456,
    OP_MUL_ADD_KHR = 4459,
    OP_TYPE_NV = 5358,
    OP_MUL_ADD_NV = 5361,
    CAPABILITY_NV = 5357,
    CAPABILITY_KHR = 6022,
    SPIRV_HEAD = 5,  /* words before the first instruction */
    SPIRV_BOUND = 3, /* where the number of ids is */
    USES = 3,        /* operands A and B, and the sum */
};

/* The instruction of type `op` that has this result, at word `at` of it; NULL: none. */
static const uint32_t *result_of(const uint32_t *code, size_t words, uint32_t op, int at,
                                 uint32_t id)
{
    for (size_t i = SPIRV_HEAD; i < words; i += code[i] >> 16)
        if ((code[i] & 0xffff) == op && code[i + (size_t)at] == id) return code + i;
    return NULL;
}

/* What a matrix is used for: sums are f32, and only A is square. */
static uint32_t use_of(const uint32_t *code, size_t words, const uint32_t *type)
{
    const uint32_t *value = result_of(code, words, OP_TYPE_FLOAT, 1, type[2]);
    if (value && value[2] == 32) return 2;
    return type[4] == type[5] ? 0 : 1;
}

uint32_t *ft_vk_coop_code(const uint32_t *code, size_t *bytes)
{
    const size_t words = *bytes / sizeof *code;
    uint32_t *out = ft_new_n(uint32_t, words + 4 * USES + 16), first = 0;
    size_t n = SPIRV_HEAD;
    memcpy(out, code, SPIRV_HEAD * sizeof *code);
    for (size_t i = SPIRV_HEAD; i < words; i += code[i] >> 16) {
        const uint32_t *from = code + i, op = from[0] & 0xffff, length = from[0] >> 16;
        const uint32_t *scope =
            op == OP_TYPE_NV ? result_of(code, words, OP_CONSTANT, 2, from[3]) : NULL;
        if (scope && !first) { /* the constants 0 to 2, of the type of the scope */
            first = out[SPIRV_BOUND];
            out[SPIRV_BOUND] += USES;
            for (uint32_t u = 0; u < USES; u++) {
                const uint32_t constant[] = {4u << 16 | OP_CONSTANT, scope[1], first + u, u};
                memcpy(out + n, constant, sizeof constant);
                n += FT_COUNT(constant);
            }
        }
        memcpy(out + n, from, length * sizeof *from);
        if (op == OP_CAPABILITY && from[1] == CAPABILITY_NV) out[n + 1] = CAPABILITY_KHR;
        if (op == OP_EXTENSION && !strcmp((const char *)(from + 1), "SPV_NV_cooperative_matrix"))
            memcpy(out + n + 1, "SPV_KHR_cooperative_matrix", sizeof "SPV_KHR_cooperative_matrix");
        if (op == OP_MUL_ADD_NV) out[n] = length << 16 | OP_MUL_ADD_KHR;
        if (op == OP_TYPE_NV) {
            out[n] = (length + 1) << 16 | OP_TYPE_KHR;
            out[n + length] = first + use_of(code, words, from);
            n++;
        }
        n += length;
    }
    *bytes = n * sizeof *out;
    return out;
}
