/* dev/arena.h - pieces of memory, side by side in one range of addresses.
 * A device that gives memory in blocks of 2 MB loses half of one behind every large piece that has
 * blocks of its own. Here the addresses are reserved once and pieces lie one behind the other;
 * memory is mapped under them block by block, and leaves when no piece lies on it any more. A piece
 * takes ft_arena_alloc_size of its size, and all together lose less than a block at their end.
 * Numbers only: who owns the arena maps, and adds offsets to an address. One thread at a time. */
#ifndef FT_DEV_ARENA_H
#define FT_DEV_ARENA_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ft_arena ft_arena;

typedef struct ft_arena_memory {
    uint64_t block; /* what memory comes in: a power of two, at least FT_ARENA_ALIGN */
    uint64_t most;  /* mapped at once, whole blocks: it leaves as a whole too */
    /* Both in whole blocks; unmap gets what one map had. false: no memory left. */
    bool (*map)(void *owner, uint64_t at, uint64_t bytes);
    void (*unmap)(void *owner, uint64_t at, uint64_t bytes);
    void *owner;
} ft_arena_memory;

enum { FT_ARENA_ALIGN = 256 }; /* of every piece: the widest read of a kernel is 16, a line 128 */

/* size: of the range, in bytes; whole blocks. */
ft_arena *ft_arena_new(uint64_t size, const ft_arena_memory *way);
/* Unmaps everything; accepts NULL. */
void ft_arena_free(ft_arena *a);

/* A piece of `bytes`, which may be 0; false when there is no memory or no address left, and then
 * nothing has changed. Holes that have memory are filled first. */
bool ft_arena_alloc(ft_arena *a, uint64_t bytes, uint64_t *at);
/* at: what take gave. */
void ft_arena_dealloc(ft_arena *a, uint64_t at);

/* Bytes with memory under them, and those of them that no piece lies on. */
uint64_t ft_arena_mapped(const ft_arena *a);
uint64_t ft_arena_idle(const ft_arena *a);

static inline uint64_t ft_arena_alloc_size(uint64_t bytes)
{
    const uint64_t n = bytes ? bytes : 1, align = FT_ARENA_ALIGN;
    return (n + align - 1) & ~(align - 1);
}

#endif
