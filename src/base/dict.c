#include "base/dict.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"

#include <stdatomic.h>

/* Several threads may make the first call at the same time; all of them return the same seed. */
static uint64_t seed_of_process(void)
{
    static _Atomic uint64_t seed;
    uint64_t s = atomic_load_explicit(&seed, memory_order_relaxed);
    if (s) return s;
    const uint64_t mine = ft_mix64((uint64_t)ft_now_ns() ^ (uint64_t)(uintptr_t)&seed) | 1;
    return atomic_compare_exchange_strong(&seed, &s, mine) ? mine : s;
}

static uint32_t hash_key(ft_str s)
{
    uint64_t h = seed_of_process(), w;
    size_t i = 0;
    for (; i + 8 <= s.n; i += 8) {
        memcpy(&w, s.p + i, 8);
        h = (h ^ w) * 0x9E3779B97F4A7C15u;
        h ^= h >> 29;
    }
    w = 0;
    if (s.n > i) memcpy(&w, s.p + i, s.n - i);
    return (uint32_t)ft_mix64(h ^ w ^ ((uint64_t)s.n << 56));
}

void ft_dict_init(ft_dict *d)
{
    *d = (ft_dict){0};
}

void ft_dict_release(ft_dict *d)
{
    ft_free(d->key);
    ft_free(d->value);
    ft_free(d->slot);
    *d = (ft_dict){0};
}

/* The slot that holds key, or the free slot where it would be inserted. n_slot > 0. */
static ft_dict_slot *probe_slot(const ft_dict *d, ft_str key, uint32_t h)
{
    for (size_t i = h & (d->n_slot - 1);; i = (i + 1) & (d->n_slot - 1)) {
        ft_dict_slot *s = &d->slot[i];
        if (!s->entry || (s->hash == h && ft_str_eq(d->key[s->entry - 1], key))) return s;
    }
}

static void grow_dict(ft_dict *d)
{
    if (d->n == d->cap) {
        d->cap = d->cap ? d->cap * 2 : 32;
        d->key = ft_realloc(d->key, d->cap * sizeof *d->key);
        d->value = ft_realloc(d->value, d->cap * sizeof *d->value);
    }
    if ((d->n + 1) * 2 <= d->n_slot) return;
    const ft_dict old = *d;
    d->n_slot = old.n_slot ? old.n_slot * 2 : 64;
    d->slot = ft_new_n(ft_dict_slot, d->n_slot);
    for (size_t k = 0; k < old.n_slot; k++) {
        if (!old.slot[k].entry) continue;
        size_t i = old.slot[k].hash & (d->n_slot - 1);
        while (d->slot[i].entry) i = (i + 1) & (d->n_slot - 1);
        d->slot[i] = old.slot[k];
    }
    ft_free(old.slot);
}

bool ft_dict_put(ft_dict *d, ft_str key, uint32_t value)
{
    grow_dict(d);
    const uint32_t h = hash_key(key);
    ft_dict_slot *s = probe_slot(d, key, h);
    if (s->entry) return false;
    d->key[d->n] = key;
    d->value[d->n] = value;
    *s = (ft_dict_slot){(uint32_t)++d->n, h};
    return true;
}

bool ft_dict_find(const ft_dict *d, ft_str key, uint32_t *value)
{
    if (!d->n_slot) return false;
    const ft_dict_slot *s = probe_slot(d, key, hash_key(key));
    if (!s->entry) return false;
    if (value) *value = d->value[s->entry - 1];
    return true;
}
