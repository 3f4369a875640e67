/* tests/unit/arena.c - the arena allocator, over memory simulated by an array of blocks. */
#include "dev/arena.h"

#include "base/mem.h"
#include "base/rng.h"

#include "unit.h"

#include <string.h>

enum { BLOCK = 4096, BLOCKS = 512, MOST = 8 };

typedef struct memory {
    int owner[BLOCKS]; /* the mapping that provides it; 0: not mapped */
    int maps, blocks, limit;
} memory;

static bool map(void *owner, uint64_t at, uint64_t bytes)
{
    memory *m = owner;
    assert_true(bytes && at % BLOCK == 0 && bytes % BLOCK == 0 && bytes <= MOST * BLOCK);
    assert_true(at + bytes <= BLOCKS * BLOCK);
    const int n = (int)(bytes / BLOCK);
    if (m->blocks + n > m->limit) return false;
    m->maps++;
    m->blocks += n;
    for (int i = 0; i < n; i++) {
        assert_int_equal(m->owner[at / BLOCK + (uint64_t)i], 0);
        m->owner[at / BLOCK + (uint64_t)i] = m->maps;
    }
    return true;
}

static void unmap(void *owner, uint64_t at, uint64_t bytes)
{
    memory *m = owner;
    const uint64_t from = at / BLOCK, to = (at + bytes) / BLOCK;
    const int who = m->owner[from];
    assert_true(who && at % BLOCK == 0 && bytes % BLOCK == 0);
    for (uint64_t i = from; i < to; i++) {
        assert_int_equal(m->owner[i], who); /* exactly the blocks of one mapping */
        m->owner[i] = 0;
    }
    assert_true(!from || m->owner[from - 1] != who);
    assert_true(to == BLOCKS || m->owner[to] != who);
    m->blocks -= (int)(to - from);
}

static ft_arena *arena_over(memory *m, int limit)
{
    memset(m, 0, sizeof *m);
    m->limit = limit;
    const ft_arena_memory way = {BLOCK, MOST * BLOCK, map, unmap, m};
    return ft_arena_new((uint64_t)BLOCKS * BLOCK, &way);
}

static uint64_t take_bytes(ft_arena *a, uint64_t bytes)
{
    uint64_t at = UINT64_MAX;
    assert_true(ft_arena_alloc(a, bytes, &at));
    assert_int_equal(at % FT_ARENA_ALIGN, 0);
    return at;
}

/* Allocations take the sum of their sizes, each rounded up to 256, up to the end of the last block.
 */
static void allocations_are_adjacent(void **state)
{
    (void)state;
    static const uint64_t bytes[] = {1, 0, 256, 257, 20000, 3, 100000, 5120, 4096};
    memory m;
    ft_arena *a = arena_over(&m, BLOCKS);
    uint64_t sum = 0;
    for (size_t i = 0; i < FT_COUNT(bytes); i++) {
        assert_int_equal(take_bytes(a, bytes[i]), sum);
        sum += ft_arena_alloc_size(bytes[i]);
        assert_int_equal(ft_arena_mapped(a), ft_round_up(sum, BLOCK));
        assert_int_equal(ft_arena_idle(a), ft_round_up(sum, BLOCK) - sum);
        assert_int_equal(ft_arena_mapped(a), m.blocks * BLOCK);
    }
    assert_int_equal(ft_arena_alloc_size(0), 256);
    assert_int_equal(ft_arena_alloc_size(257), 512);
    ft_arena_free(a);
    assert_int_equal(m.blocks, 0);
    ft_arena_free(NULL);
}

/* An allocation uses the smallest hole that fits, and maps no memory for it. */
static void fills_holes(void **state)
{
    (void)state;
    memory m;
    ft_arena *a = arena_over(&m, BLOCKS);
    uint64_t at[6];
    for (int i = 0; i < 6; i++) at[i] = take_bytes(a, i == 1 ? 1024 : 512); /* all in one block */
    ft_arena_dealloc(a, at[1]);
    ft_arena_dealloc(a, at[3]);
    assert_int_equal(take_bytes(a, 512), at[3]);
    assert_int_equal(take_bytes(a, 600), at[1]);
    assert_int_equal(m.maps, 1);
    ft_arena_free(a);
}

/* Only the end of a hole may be mapped: a large allocation was freed, but its last blocks stay
 * mapped for the next allocation. */
static void fills_the_far_end(void **state)
{
    (void)state;
    memory m;
    ft_arena *a = arena_over(&m, BLOCKS);
    take_bytes(a, BLOCK);
    const uint64_t large = take_bytes(a, 2 * MOST * BLOCK + 512), next = take_bytes(a, 256);
    ft_arena_dealloc(a, large);
    assert_int_equal(m.blocks, 2);
    const int maps = m.maps;
    assert_int_equal(take_bytes(a, 256), next - 256);
    assert_int_equal(m.maps, maps);
    ft_arena_free(a);
}

/* A mapping has a maximum size, which bounds the memory that stays mapped for one allocation. */
static void unmaps_when_empty(void **state)
{
    (void)state;
    memory m;
    ft_arena *a = arena_over(&m, BLOCKS);
    const uint64_t large = take_bytes(a, 10 * MOST * BLOCK - 512), small = take_bytes(a, 100);
    assert_int_equal(m.blocks, 10 * MOST);
    assert_int_equal(m.maps, 10);
    ft_arena_dealloc(a, large);
    assert_int_equal(m.blocks, MOST);
    ft_arena_dealloc(a, small);
    assert_int_equal(m.blocks, 0);
    assert_int_equal(take_bytes(a, 1), 0); /* the addresses are free again */
    ft_arena_free(a);
}

static void runs_out(void **state)
{
    (void)state;
    memory m;
    uint64_t at;
    ft_arena *a = arena_over(&m, 20);
    const uint64_t first = take_bytes(a, 10 * BLOCK - 256);
    assert_false(ft_arena_alloc(a, 11 * BLOCK, &at)); /* its second mapping fails */
    assert_int_equal(m.blocks, 10);                   /* the first was unmapped again */
    assert_int_equal(ft_arena_idle(a), 256);
    assert_int_equal(take_bytes(a, 10 * BLOCK), first + 10 * BLOCK - 256);
    assert_int_equal(take_bytes(a, 256), first + 20 * BLOCK - 256);
    assert_false(ft_arena_alloc(a, 1, &at));
    ft_arena_dealloc(a, first);
    assert_int_equal(m.blocks, 12); /* two blocks were mapped with the next allocation */
    assert_int_equal(take_bytes(a, 5 * BLOCK), first + 5 * BLOCK - 256);
    assert_int_equal(m.blocks, 16);
    ft_arena_free(a);
    assert_int_equal(m.blocks, 0);
}

static void address_space_is_limited(void **state)
{
    (void)state;
    memory m;
    uint64_t at;
    ft_arena *a = arena_over(&m, BLOCKS);
    static const uint64_t too_many[] = {(uint64_t)BLOCKS * BLOCK + 1, UINT64_MAX, UINT64_MAX - 255};
    for (size_t i = 0; i < FT_COUNT(too_many); i++)
        assert_false(ft_arena_alloc(a, too_many[i], &at));
    take_bytes(a, (uint64_t)BLOCKS * BLOCK);
    assert_false(ft_arena_alloc(a, 0, &at));
    ft_arena_free(a);
}

typedef struct piece {
    uint64_t at, bytes;
} piece;

/* Allocations do not overlap, all are mapped, and no mapping is without an allocation. */
static void check_arena(const memory *m, const ft_arena *a, const piece *p, int n)
{
    static unsigned char used[BLOCKS * BLOCK / FT_ARENA_ALIGN];
    static bool wanted[BLOCKS * 100];
    memset(used, 0, sizeof used);
    memset(wanted, 0, sizeof wanted);
    uint64_t sum = 0;
    for (int i = 0; i < n; i++) {
        sum += ft_arena_alloc_size(p[i].bytes);
        const uint64_t end = p[i].at + ft_arena_alloc_size(p[i].bytes);
        for (uint64_t b = p[i].at; b < end; b += FT_ARENA_ALIGN) {
            assert_int_equal(used[b / FT_ARENA_ALIGN]++, 0);
            assert_int_not_equal(m->owner[b / BLOCK], 0);
            wanted[m->owner[b / BLOCK]] = true;
        }
    }
    for (int i = 0; i < BLOCKS; i++) assert_true(!m->owner[i] || wanted[m->owner[i]]);
    assert_int_equal(ft_arena_mapped(a), m->blocks * BLOCK);
    assert_int_equal(ft_arena_idle(a), (uint64_t)m->blocks * BLOCK - sum);
}

/* Models that are loaded and freed: small and large allocations, freed in any order. */
static void random_allocations(void **state)
{
    (void)state;
    memory m;
    ft_rng rng = {7};
    ft_arena *a = arena_over(&m, BLOCKS / 2);
    piece p[300];
    int n = 0, refused = 0;
    for (int i = 0; i < 6000; i++) {
        const bool grows = i / 150 % 2 == 0;
        if (n && (ft_rng_u64(&rng) % 4 == 0 || n == (int)FT_COUNT(p)) == grows) {
            const int k = (int)(ft_rng_u64(&rng) % (uint64_t)n);
            ft_arena_dealloc(a, p[k].at);
            p[k] = p[--n];
        } else if (n < (int)FT_COUNT(p)) {
            const uint64_t most = ft_rng_u64(&rng) % 5 ? 3000 : 40 * BLOCK;
            p[n].bytes = ft_rng_u64(&rng) % most;
            if (ft_arena_alloc(a, p[n].bytes, &p[n].at))
                n++;
            else
                refused++;
        }
        if (i % 10 == 0) check_arena(&m, a, p, n);
    }
    assert_true(refused > 20 && refused < 2000);
    while (n) ft_arena_dealloc(a, p[--n].at);
    assert_int_equal(m.blocks, 0);
    ft_arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_are_adjacent),
        cmocka_unit_test(fills_holes),
        cmocka_unit_test(fills_the_far_end),
        cmocka_unit_test(unmaps_when_empty),
        cmocka_unit_test(runs_out),
        cmocka_unit_test(address_space_is_limited),
        cmocka_unit_test(random_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
