/* Device memory: blocks from the driver, with an arena in each (dev/arena.h); copies; weights. On
 * integrated GPUs and CPUs the blocks are mapped, and nothing goes through a staging buffer. */
#include "dev/vulkan/vulkan.h"

#include "quant/grids.h"

#include <string.h>

enum {
    BLOCK = 128 << 20, /* bytes of a block, for allocations of less than LARGE bytes; */
    LARGE = 16 << 20,  /* others have a block of their own, so that little is lost at the ends */
    STAGE = 32 << 20,
};

/* ---- buffers ---- */

VkResult ft_vk_buffer_open(ft_vk *v, ft_vk_buffer *b, uint64_t bytes, bool host)
{
    const VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = bytes,
        .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                 VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT,
    };
    const VkMemoryAllocateFlagsInfo flags = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
        .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT,
    };
    VkMemoryRequirements need;
    void *at = NULL;
    *b = (ft_vk_buffer){.bytes = bytes};
    VkResult r = vkCreateBuffer(v->device, &info, NULL, &b->buffer);
    if (r) return r;
    vkGetBufferMemoryRequirements(v->device, b->buffer, &need);
    const VkMemoryAllocateInfo memory = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
        .pNext = &flags,
        .allocationSize = need.size,
        .memoryTypeIndex = host ? v->host : v->local,
    };
    r = vkAllocateMemory(v->device, &memory, NULL, &b->memory);
    if (!r) r = vkBindBufferMemory(v->device, b->buffer, b->memory, 0);
    if (!r && (host || v->mapped)) r = vkMapMemory(v->device, b->memory, 0, VK_WHOLE_SIZE, 0, &at);
    if (r) {
        ft_vk_buffer_close(v, b);
        return r;
    }
    b->host = at;
    b->address = vkGetBufferDeviceAddress(
        v->device, &(VkBufferDeviceAddressInfo){
                       .sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, .buffer = b->buffer});
    return VK_SUCCESS;
}

void ft_vk_buffer_close(ft_vk *v, ft_vk_buffer *b)
{
    vkDestroyBuffer(v->device, b->buffer, NULL);
    vkFreeMemory(v->device, b->memory, NULL);
    *b = (ft_vk_buffer){0};
}

/* ---- blocks ---- */

/* All of a block is there from the start. */
static bool map(void *owner, uint64_t at, uint64_t bytes)
{
    (void)owner, (void)at, (void)bytes;
    return true;
}

static void unmap(void *owner, uint64_t at, uint64_t bytes)
{
    (void)owner, (void)at, (void)bytes;
}

static ft_vk_block *block_open(ft_vk *v, size_t bytes)
{
    const uint64_t whole = ft_arena_alloc_size(bytes);
    ft_vk_buffer b;
    if (whole > v->most_bytes) return NULL;
    uint64_t size = FT_MIN(whole < LARGE ? (uint64_t)BLOCK : whole, v->most_bytes);
    size -= size % FT_ARENA_ALIGN;
    VkResult r = ft_vk_buffer_open(v, &b, size, false);
    if (r && size > whole) r = ft_vk_buffer_open(v, &b, size = whole, false);
    if (r) return NULL;
    if (v->n_block == v->cap_block)
        v->block = ft_realloc(v->block, sizeof *v->block * (size_t)(v->cap_block += 32));
    ft_vk_block *k = &v->block[v->n_block++];
    const ft_arena_memory memory = {FT_ARENA_ALIGN, size, map, unmap, NULL};
    *k = (ft_vk_block){.b = b, .arena = ft_arena_new(size, &memory)};
    return k;
}

static void block_close(ft_vk *v, ft_vk_block *k)
{
    ft_arena_free(k->arena);
    ft_vk_buffer_close(v, &k->b);
    *k = v->block[--v->n_block];
}

static ft_vk_block *block_of(ft_vk *v, const void *p)
{
    const uint64_t at = ft_vk_address(p);
    for (int i = 0; i < v->n_block; i++) {
        ft_vk_block *k = &v->block[i];
        if (at >= k->b.address && at - k->b.address < k->b.bytes) return k;
    }
    return NULL;
}

static void *piece(ft_vk *v, size_t bytes)
{
    uint64_t at;
    for (int i = 0; i <= v->n_block; i++) {
        ft_vk_block *k = i < v->n_block ? &v->block[i] : block_open(v, bytes);
        if (!k) return NULL;
        if (!ft_arena_alloc(k->arena, bytes, &at)) continue;
        k->pieces++;
        return (void *)(uintptr_t)(k->b.address + at);
    }
    return NULL;
}

void *ft_vk_alloc(ft_dev *d, size_t bytes)
{
    ft_vk *v = (ft_vk *)d;
    void *p = piece(v, bytes);
    if (!p) return NULL;
    const ft_vk_block *k = block_of(v, p);
    const uint64_t at = ft_vk_address(p) - k->b.address, n = ft_arena_alloc_size(bytes);
    if (k->b.host) {
        memset(k->b.host + at, 0, n);
        return p;
    }
    v->keep_not = true; /* a step that is submitted again must not clear memory */
    ft_vk_fill(v, k->b.buffer, at, n);
    return p;
}

static void piece_free(ft_vk *v, void *p)
{
    ft_vk_block *k = block_of(v, p);
    if (!k) return;
    ft_arena_dealloc(k->arena, ft_vk_address(p) - k->b.address);
    if (--k->pieces == 0) block_close(v, k);
}

void ft_vk_free(ft_dev *d, void *p)
{
    ft_vk *v = (ft_vk *)d;
    if (!p) return;
    ft_vk_drop_kept(v); /* they may contain the address */
    piece_free(v, p);
}

/* Outgrown memory stays until the recorded steps, which may contain its address, are dropped; so
 * that it is not more than what is in use, a size at least doubles. */
uint64_t ft_vk_scratch(ft_vk *v, ft_vk_scratch_id which, size_t bytes)
{
    if (bytes <= v->scratch_bytes[which]) return ft_vk_address(v->scratch[which]);
    bytes = FT_MAX(bytes, 2 * v->scratch_bytes[which]);
    if (v->scratch[which]) {
        v->retired = ft_realloc(v->retired, sizeof *v->retired * (size_t)(v->n_retired + 1));
        v->retired[v->n_retired++] = v->scratch[which];
    }
    v->scratch[which] = piece(v, bytes);
    v->scratch_bytes[which] = v->scratch[which] ? bytes : 0;
    if (!v->scratch[which]) ft_vk_check(v, VK_ERROR_OUT_OF_DEVICE_MEMORY, "scratch memory");
    return ft_vk_address(v->scratch[which]);
}

void ft_vk_free_retired(ft_vk *v)
{
    for (int i = 0; i < v->n_retired; i++) piece_free(v, v->retired[i]);
    v->n_retired = 0;
}

/* What the driver says is left, or the size of the heap without our own blocks. */
uint64_t ft_vk_free_bytes(ft_dev *d)
{
    ft_vk *v = (ft_vk *)d;
    const uint32_t heap = v->memory.memoryTypes[v->local].heapIndex;
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 all = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
        .pNext = v->budget ? &budget : NULL};
    uint64_t own = 0, idle = 0;
    for (int i = 0; i < v->n_block; i++) {
        own += v->block[i].b.bytes;
        idle += v->block[i].b.bytes - ft_arena_mapped(v->block[i].arena) +
                ft_arena_idle(v->block[i].arena);
    }
    vkGetPhysicalDeviceMemoryProperties2(v->gpu, &all);
    const uint64_t most = v->budget ? budget.heapBudget[heap] : v->memory.memoryHeaps[heap].size;
    const uint64_t used = v->budget ? budget.heapUsage[heap] : own;
    return (most > used ? most - used : 0) + idle;
}

/* ---- copies ---- */

/* One piece through the staging buffer, to or from device memory. */
static void stage_copy(ft_vk *v, VkBuffer device, uint64_t at, size_t bytes, bool up)
{
    const VkBufferCopy part = {up ? 0 : at, up ? at : 0, bytes};
    ft_vk_copy(v, up ? v->stage.buffer : device, up ? device : v->stage.buffer, part);
    ft_vk_wait(v);
}

static bool stage_ready(ft_vk *v)
{
    if (!v->stage.host) ft_vk_check(v, ft_vk_buffer_open(v, &v->stage, STAGE, true), "staging");
    return v->stage.host && !v->error;
}

static void copy(ft_vk *v, void *device, void *host, size_t bytes, bool up)
{
    const ft_vk_block *k = block_of(v, device);
    const ft_vk_buffer b = k ? k->b : (ft_vk_buffer){0}; /* a wait may move blocks */
    const uint64_t at = ft_vk_address(device) - b.address;
    if (!bytes) return;
    if (!k || bytes > b.bytes - at) {
        ft_vk_check(v, VK_ERROR_UNKNOWN, "a copy outside of device memory");
        return;
    }
    if (b.host) {
        ft_vk_wait(v);
        memcpy(up ? b.host + at : host, up ? host : b.host + at, bytes);
        return;
    }
    for (size_t i = 0; i < bytes && stage_ready(v); i += STAGE) {
        const size_t n = FT_MIN((size_t)STAGE, bytes - i);
        if (up) memcpy(v->stage.host, (unsigned char *)host + i, n);
        stage_copy(v, b.buffer, at + i, n, up);
        if (!up) memcpy((unsigned char *)host + i, v->stage.host, n);
    }
}

void ft_vk_upload(ft_dev *d, void *dst, const void *src, size_t bytes)
{
    copy((ft_vk *)d, dst, (void *)(uintptr_t)src, bytes, true);
}

void ft_vk_download(ft_dev *d, void *dst, const void *src, size_t bytes)
{
    copy((ft_vk *)d, (void *)(uintptr_t)src, dst, bytes, false);
}

/* Between the staging buffer and the host: the pieces lie one after the other there. */
static void stage_host(ft_vk *v, const ft_copy *list, size_t n, bool up)
{
    unsigned char *at = v->stage.host;
    for (size_t i = 0; i < n; at += list[i++].bytes)
        memcpy(up ? at : list[i].host, up ? list[i].host : at, list[i].bytes);
}

/* As many pieces as fit into the staging buffer; returns how many. */
static size_t copy_some(ft_vk *v, const ft_copy *list, size_t n, bool up)
{
    size_t fit = 0, bytes = 0;
    for (; fit < n && list[fit].bytes <= STAGE - bytes; fit++) {
        const ft_vk_block *k = block_of(v, list[fit].device);
        if (!k || k->b.host) break;
        bytes += list[fit].bytes;
    }
    if (fit < 2 || !stage_ready(v)) {
        copy(v, list->device, list->host, list->bytes, up);
        return 1;
    }
    if (up) stage_host(v, list, fit, true);
    for (size_t i = 0, at = 0; i < fit; at += list[i++].bytes) {
        const ft_vk_buffer *b = &block_of(v, list[i].device)->b;
        const uint64_t there = ft_vk_address(list[i].device) - b->address;
        const VkBufferCopy part = {up ? at : there, up ? there : at, list[i].bytes};
        if (!list[i].bytes) continue;
        ft_vk_copy(v, up ? v->stage.buffer : b->buffer, up ? b->buffer : v->stage.buffer, part);
    }
    ft_vk_wait(v);
    if (!up) stage_host(v, list, fit, false);
    return fit;
}

void ft_vk_copy_list(ft_dev *d, const ft_copy *list, size_t n, bool up)
{
    for (size_t i = 0; i < n;) i += copy_some((ft_vk *)d, list + i, n - i, up);
}

void ft_vk_move(ft_dev *d, void *dst, const void *src, size_t bytes)
{
    ft_vk *v = (ft_vk *)d;
    const ft_vk_block *to = block_of(v, dst), *from = block_of(v, src);
    if (!bytes || !to || !from) return;
    const VkBufferCopy part = {ft_vk_address(src) - from->b.address,
                               ft_vk_address(dst) - to->b.address, bytes};
    ft_vk_copy(v, from->b.buffer, to->b.buffer, part);
}

/* ---- weights: in file layout ---- */

/* The tables of quant/grids.h in the order of quant.glsl. */
static void grid_ready(ft_vk *v)
{
    static const struct {
        const uint16_t *from;
        size_t n;
    } part[] = {{ft_grid_iq2xxs, 256}, {ft_grid_iq2xs, 512}, {ft_grid_iq2s, 1024},
                {ft_grid_iq3xxs, 256}, {ft_grid_iq3s, 512},  {ft_grid_iq1s, 2048}};
    uint16_t all[4608];
    size_t at = 0;
    if (v->grid) return;
    for (size_t i = 0; i < FT_COUNT(part); at += part[i++].n)
        memcpy(all + at, part[i].from, part[i].n * sizeof *all);
    void *p = piece(v, sizeof all);
    if (!p) return;
    ft_vk_upload(&v->dev, p, all, sizeof all);
    v->grid = ft_vk_address(p);
}

ft_status ft_vk_bind(ft_dev *d, ft_weight *w, const void *host, ft_err *err)
{
    ft_vk *v = (ft_vk *)d;
    w->row_bytes = ft_type_row(w->type, (size_t)w->k);
    w->packed = NULL;
    grid_ready(v);
    const size_t bytes = w->row_bytes * (size_t)w->n * (size_t)w->E;
    void *p = v->grid ? piece(v, bytes) : NULL;
    w->data = p;
    if (!p)
        return ft_fail(err, FT_ENOMEM, "no device memory for \"%s\": %zu bytes wanted",
                       w->name ? w->name : "?", bytes);
    ft_vk_upload(d, p, host, bytes);
    if (ft_vk_packs(v, w)) {
        void *to = piece(v, ft_vk_packed_bytes(w));
        if (to) ft_vk_pack(v, w, to, p);
        ft_vk_free(d, p);
        w->data = w->packed = to;
        if (!to)
            return ft_fail(err, FT_ENOMEM, "no device memory for \"%s\"", w->name ? w->name : "?");
    }
    return v->error ? ft_vk_sync(d, err) : FT_OK;
}

void ft_vk_unbind(ft_dev *d, ft_weight *w)
{
    ft_vk_free(d, (void *)(uintptr_t)w->data);
    w->data = w->packed = NULL;
}

/* ---- open and close ---- */

/* A memory type with all of these properties; of those, one that has `better` too. */
static bool find_type(const ft_vk *v, VkMemoryPropertyFlags want, VkMemoryPropertyFlags better,
                      uint32_t *out)
{
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < v->memory.memoryTypeCount; i++) {
            const VkMemoryPropertyFlags all = pass ? want : want | better;
            if ((v->memory.memoryTypes[i].propertyFlags & all) == all) return *out = i, true;
        }
    return false;
}

bool ft_vk_memory_open(ft_vk *v, ft_err *err)
{
    const VkMemoryPropertyFlags seen =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    const VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    const bool shares = v->props.deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU ||
                        v->props.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    vkGetPhysicalDeviceMemoryProperties(v->gpu, &v->memory);
    v->mapped = shares && find_type(v, local | seen, VK_MEMORY_PROPERTY_HOST_CACHED_BIT, &v->local);
    if ((v->mapped || find_type(v, local, 0, &v->local)) &&
        find_type(v, seen, VK_MEMORY_PROPERTY_HOST_CACHED_BIT, &v->host))
        return true;
    ft_fail(err, FT_EUNSUPPORTED, "vulkan device \"%s\" has no memory that this build can use",
            v->props.deviceName);
    return false;
}

void ft_vk_memory_close(ft_vk *v)
{
    ft_vk_buffer_close(v, &v->stage);
    while (v->n_block) block_close(v, &v->block[0]);
    ft_free(v->block);
    ft_free(v->retired);
}
