/* GPU memory: allocations in an arena (dev/arena.h). The driver provides memory in blocks of 2 MB,
 * and cudaMalloc rounds every large allocation up to a multiple of that. Here a virtual
 * address range is reserved when the device is opened, and physical memory is mapped on demand. If
 * the driver does not support that, cudaMalloc is used. Scratch, which may grow while a step is
 * captured, uses cudaMalloc too. */
#include "dev/cuda/cuda.h"

extern "C" {
#include "dev/arena.h"
}

#include <cuda.h>

enum {
    MOST = 64 << 20, /* largest mapping; memory is released in the same units */
    RANGES = 2, /* size of the address range relative to GPU memory: there may be unmapped holes */
};

/* Driver functions, looked up at run time, so that the program starts without a driver. */
struct driver {
    decltype(cuMemGetAllocationGranularity) *granularity;
    decltype(cuMemAddressReserve) *reserve;
    decltype(cuMemAddressFree) *unreserve;
    decltype(cuMemCreate) *create;
    decltype(cuMemRelease) *release;
    decltype(cuMemMap) *map;
    decltype(cuMemUnmap) *unmap;
    decltype(cuMemSetAccess) *access;
};

struct ft_cuda_memory {
    driver f;
    CUmemAllocationProp kind;
    CUdeviceptr base;
    size_t bytes; /* of the address range */
    ft_arena *arena;
};

template <class F> static bool find(F **f, const char *name)
{
    void *p = NULL;
#if CUDART_VERSION >= 12050
    const cudaError_t e = cudaGetDriverEntryPointByVersion(name, &p, 11000, cudaEnableDefault);
#else
    const cudaError_t e = cudaGetDriverEntryPoint(name, &p, cudaEnableDefault);
#endif
    if (e != cudaSuccess) cudaGetLastError();
    *f = (F *)p;
    return e == cudaSuccess && p;
}

static bool find_all(driver *f)
{
    return find(&f->granularity, "cuMemGetAllocationGranularity") &&
           find(&f->reserve, "cuMemAddressReserve") && find(&f->unreserve, "cuMemAddressFree") &&
           find(&f->create, "cuMemCreate") && find(&f->release, "cuMemRelease") &&
           find(&f->map, "cuMemMap") && find(&f->unmap, "cuMemUnmap") &&
           find(&f->access, "cuMemSetAccess");
}

/* ---- callbacks of the arena ---- */

static bool map(void *owner, uint64_t at, uint64_t bytes)
{
    const ft_cuda_memory *m = (const ft_cuda_memory *)owner;
    CUmemGenericAllocationHandle h;
    CUmemAccessDesc may = {};
    may.location = m->kind.location;
    may.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    cudaSetDevice(m->kind.location.id); /* a thread that has not called the runtime yet has no
                                         * context */
    if (m->f.create(&h, bytes, &m->kind, 0) != CUDA_SUCCESS) return false;
    bool ok = m->f.map(m->base + at, bytes, 0, h, 0) == CUDA_SUCCESS;
    if (ok && m->f.access(m->base + at, bytes, &may, 1) != CUDA_SUCCESS) {
        m->f.unmap(m->base + at, bytes);
        ok = false;
    }
    m->f.release(h); /* the memory is released when it is unmapped */
    return ok;
}

static void unmap(void *owner, uint64_t at, uint64_t bytes)
{
    const ft_cuda_memory *m = (const ft_cuda_memory *)owner;
    m->f.unmap(m->base + at, bytes);
}

/* ---- open and close ---- */

void ft_cuda_memory_open(ft_cuda *c, size_t gpu_bytes)
{
    int can = 0;
    size_t block = 0;
    ft_cuda_memory *m = c->memory = ft_new(ft_cuda_memory);
    m->kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    m->kind.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    m->kind.location.id = c->index;
    decltype(cuDeviceGetAttribute) *attribute;
    if (!find(&attribute, "cuDeviceGetAttribute") || !find_all(&m->f)) return;
    if (attribute(&can, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, c->index) || !can)
        return;
    if (m->f.granularity(&block, &m->kind, CU_MEM_ALLOC_GRANULARITY_MINIMUM)) return;
    if (!block || (block & (block - 1)) || block > MOST || block < FT_ARENA_ALIGN) return;
    m->bytes = RANGES * ft_round_up(gpu_bytes, block);
    if (m->f.reserve(&m->base, m->bytes, 0, 0, 0) != CUDA_SUCCESS) return;
    const ft_arena_memory memory = {block, MOST, map, unmap, m};
    m->arena = ft_arena_new(m->bytes, &memory);
}

void ft_cuda_memory_close(ft_cuda *c)
{
    ft_cuda_memory *m = c->memory;
    if (!m) return;
    if (m->arena) {
        ft_arena_free(m->arena);
        m->f.unreserve(m->base, m->bytes);
    }
    ft_free(m);
    c->memory = NULL;
}

static void *piece(const ft_cuda_memory *m, size_t bytes)
{
    uint64_t at;
    void *p = NULL;
    if (m->arena) return ft_arena_alloc(m->arena, bytes, &at) ? (void *)(m->base + at) : NULL;
    if (cudaMalloc(&p, bytes ? bytes : 1) == cudaSuccess) return p;
    cudaGetLastError(); /* the caller reports that memory ran out; it is not a device error */
    return NULL;
}

void *ft_cuda_alloc(ft_dev *d, size_t bytes)
{
    ft_cuda *c = (ft_cuda *)d;
    ft_cuda_enter(d);
    void *p = piece(c->memory, bytes);
    if (p) ft_cuda_check(c, cudaMemsetAsync(p, 0, bytes, c->stream), "cudaMemset");
    return p;
}

void ft_cuda_free(ft_dev *d, void *p)
{
    ft_cuda *c = (ft_cuda *)d;
    if (!p) return;
    ft_cuda_enter(d);
    for (int i = 0; i < FT_CUDA_BF16_COPIES; i++) c->bf16[i].valid = false;
    ft_cuda_drop_graphs(c); /* a graph may contain the address */
    ft_cuda_check(c, cudaStreamSynchronize(c->stream), "cudaStreamSynchronize");
    if (c->memory->arena)
        ft_arena_dealloc(c->memory->arena, (CUdeviceptr)p - c->memory->base);
    else
        cudaFree(p);
}

uint64_t ft_cuda_alloc_size(const ft_cuda *c, uint64_t bytes)
{
    if (c->memory->arena) return ft_arena_alloc_size(bytes);
    return bytes < FT_CUDA_BLOCK / 2 ? bytes : ft_round_up(bytes, FT_CUDA_BLOCK);
}

uint64_t ft_cuda_free_bytes(ft_dev *d)
{
    const ft_cuda_memory *m = ((ft_cuda *)d)->memory;
    size_t free_bytes = 0, all = 0;
    ft_cuda_enter(d);
    if (cudaMemGetInfo(&free_bytes, &all) != cudaSuccess) return 0;
    return free_bytes + (m->arena ? ft_arena_idle(m->arena) : 0);
}
