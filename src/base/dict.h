/* base/dict.h - a hash table from borrowed strings to numbers; keys must outlive it.
 * The hash is seeded per process, so that crafted input cannot force collisions. */
#ifndef FT_BASE_DICT_H
#define FT_BASE_DICT_H

#include "base/str.h"

typedef struct ft_dict_slot {
    uint32_t entry; /* index + 1, 0 is empty */
    uint32_t hash;
} ft_dict_slot;

typedef struct ft_dict {
    ft_str *key;
    uint32_t *value;
    ft_dict_slot *slot;
    size_t n, cap, n_slot;
} ft_dict;

void ft_dict_init(ft_dict *d);
void ft_dict_release(ft_dict *d);
/* false when the key is already present (its value does not change) */
bool ft_dict_put(ft_dict *d, ft_str key, uint32_t value);
bool ft_dict_find(const ft_dict *d, ft_str key, uint32_t *value); /* value may be NULL */

#endif
