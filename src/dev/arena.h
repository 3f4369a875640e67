/* dev/arena.h - allocations in one reserved address range, with memory mapped on demand.
 * A device that provides memory in blocks of 2 MB wastes half a block on average for every large
 * allocation with blocks of its own. Here the address range is reserved once and allocations are
 * adjacent; memory is mapped block by block, and unmapped when no allocation uses it any more. An
 * allocation takes ft_arena_alloc_size bytes, and all together waste less than a block at their
 * end. The arena works with offsets only: its owner maps memory and adds the base address. Not
 * thread-safe. */
#ifndef FT_DEV_ARENA_H
#define FT_DEV_ARENA_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ft_arena ft_arena;

typedef struct ft_arena_memory {
    uint64_t block; /* granularity of mappings: a power of two, at least FT_ARENA_ALIGN */
    uint64_t most;  /* largest mapping, whole blocks; a mapping is unmapped as a whole */
    /* Both in whole blocks; unmap gets the arguments of one earlier map. false: no memory left. */
    bool (*map)(void *owner, uint64_t at, uint64_t bytes);
    void (*unmap)(void *owner, uint64_t at, uint64_t bytes);
    void *owner;
} ft_arena_memory;

enum {
    FT_ARENA_ALIGN = 256
}; /* of every allocation: kernels read up to 16 bytes at once, a cache line has 128 */

/* size of the address range in bytes; whole blocks. */
ft_arena *ft_arena_new(uint64_t size, const ft_arena_memory *memory);
/* Unmaps everything; accepts NULL. */
void ft_arena_free(ft_arena *a);

/* Allocates `bytes`, which may be 0; false when memory or addresses run out, and then nothing has
 * changed. Holes that are already mapped are filled first. */
bool ft_arena_alloc(ft_arena *a, uint64_t bytes, uint64_t *at);
/* at: the offset that ft_arena_alloc returned. */
void ft_arena_dealloc(ft_arena *a, uint64_t at);

/* Bytes that are mapped, and those of them that no allocation uses. */
uint64_t ft_arena_mapped(const ft_arena *a);
uint64_t ft_arena_idle(const ft_arena *a);

static inline uint64_t ft_arena_alloc_size(uint64_t bytes)
{
    const uint64_t n = bytes ? bytes : 1, align = FT_ARENA_ALIGN;
    return (n + align - 1) & ~(align - 1);
}

#endif
