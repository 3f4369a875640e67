/* dev/cpu/x86/amx_tile.h - what files with AMX instructions share. */
#ifndef FT_DEV_CPU_X86_AMX_TILE_H
#define FT_DEV_CPU_X86_AMX_TILE_H

#include <immintrin.h>
#include <stdint.h>

typedef struct tile_config {
    uint8_t palette, start, zero[14];
    uint16_t bytes[16]; /* of a row of each tile */
    uint8_t rows[16];
} tile_config;

/* What was written at p is in memory before the tile instructions that follow: in gcc 12 these do
 * not say that they read it. */
static inline void tile_written(const void *p)
{
    __asm__ volatile("" : : "r"(p) : "memory");
}

static inline void tile_configure(const tile_config *c)
{
    tile_written(c);
    _tile_loadconfig(c);
}

/* All tiles have sixteen rows of 64 bytes. */
static inline void tile_configure_full(void)
{
    tile_config c = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        c.bytes[i] = 64;
        c.rows[i] = 16;
    }
    tile_configure(&c);
}

#endif
