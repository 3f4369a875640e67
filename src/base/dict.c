#include "base/dict.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"

static uint64_t hash(ft_str s)
{
    static uint64_t seed;
    if (!seed) seed = ft_mix64((uint64_t)ft_now_ns() ^ (uint64_t)(uintptr_t)&seed) | 1;
    uint64_t h = seed, w;
    size_t i = 0;
    for (; i + 8 <= s.n; i += 8) {
        memcpy(&w, s.p + i, 8);
        h = (h ^ w) * 0x9E3779B97F4A7C15u;
        h ^= h >> 29;
    }
    w = 0;
    if (s.n > i) memcpy(&w, s.p + i, s.n - i);
    return ft_mix64(h ^ w ^ ((uint64_t)s.n << 56));
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

/* The slot where key is or would go. n_slot > 0. */
static size_t probe(const ft_dict *d, ft_str key)
{
    size_t i = hash(key) & (d->n_slot - 1);
    while (d->slot[i] && !ft_str_eq(d->key[d->slot[i] - 1], key)) i = (i + 1) & (d->n_slot - 1);
    return i;
}

static void grow(ft_dict *d)
{
    if (d->n == d->cap) {
        d->cap = d->cap ? d->cap * 2 : 32;
        d->key = ft_realloc(d->key, d->cap * sizeof *d->key);
        d->value = ft_realloc(d->value, d->cap * sizeof *d->value);
    }
    if ((d->n + 1) * 2 <= d->n_slot) return;
    d->n_slot = d->n_slot ? d->n_slot * 2 : 64;
    ft_free(d->slot);
    d->slot = ft_new_n(uint32_t, d->n_slot);
    for (size_t k = 0; k < d->n; k++) d->slot[probe(d, d->key[k])] = (uint32_t)k + 1;
}

bool ft_dict_put(ft_dict *d, ft_str key, uint32_t value)
{
    grow(d);
    const size_t i = probe(d, key);
    if (d->slot[i]) return false;
    d->key[d->n] = key;
    d->value[d->n] = value;
    d->slot[i] = (uint32_t)++d->n;
    return true;
}

bool ft_dict_find(const ft_dict *d, ft_str key, uint32_t *value)
{
    if (!d->n_slot) return false;
    const size_t i = probe(d, key);
    if (!d->slot[i]) return false;
    if (value) *value = d->value[d->slot[i] - 1];
    return true;
}
