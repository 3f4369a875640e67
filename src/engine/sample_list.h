/* engine/sample_list.h - the candidate tokens, and the filters over them. The list is always in
 * ascending order of id. While it is `dense`, entry i is id i and removed entries are -inf;
 * afterwards only the remaining entries are stored. Every filter computes a cutoff and keeps the
 * entries above it in place, so the result does not depend on how the cutoff was found. */
#ifndef FT_ENGINE_SAMPLE_LIST_H
#define FT_ENGINE_SAMPLE_LIST_H

#include "engine/sample.h"

enum { FT_LIST_PART = 256 };

struct ft_sample_scratch {
    int32_t V;
    float *x;      /* [V] logits of the list */
    int32_t *id;   /* [V] ids of the list, when not dense */
    int32_t *mark; /* [V] all zero between uses */
    float *key, *weight;
    int32_t *tie;   /* [V] each: arrays that a selection permutes */
    uint64_t *part; /* [V / FT_LIST_PART] sums of weights, of ft_list_sum */
    int32_t n;
    bool dense;
};
typedef ft_sample_scratch ft_list;

static inline int32_t ft_list_id(const ft_list *l, int32_t i)
{
    return l->dense ? i : l->id[i];
}

void ft_list_load(ft_list *l, const float *logits, const uint32_t *mask);
void ft_list_pack(ft_list *l);       /* removes entries that are -inf; no longer dense */
float ft_list_max(const ft_list *l); /* -inf when empty */
/* Sum of ft_weigh(x - max); NaN is ignored, and values above max count as max. part: receives
 * the sums of all whole blocks of FT_LIST_PART values, or NULL. */
uint64_t ft_sum_exp(const float *x, int32_t n, float max, uint64_t *part);
/* That of the list; and the first entry at which the cumulative weight exceeds `at`. */
uint64_t ft_list_sum(ft_list *l, float max);
int32_t ft_list_at(const ft_list *l, float max, uint64_t at);
double ft_log_weight(uint64_t sum); /* the logarithm of the sum that it represents */
void ft_list_top_k(ft_list *l, int32_t k);
void ft_list_top_p(ft_list *l, float p, int32_t min_keep);
void ft_list_min_p(ft_list *l, float p, int32_t min_keep);
void ft_list_typical(ft_list *l, float p, int32_t min_keep);
void ft_list_top_n_sigma(ft_list *l, float n);
void ft_list_xtc(ft_list *l, float threshold, int32_t min_keep);
void ft_list_temperature(ft_list *l, float t);
void ft_list_dynatemp(ft_list *l, float t, float range, float exponent);
void ft_list_surprise(ft_list *l,
                      float mu); /* mirostat 2: removes tokens whose surprise exceeds mu bits */
int32_t ft_list_mirostat_k(const ft_list *l, float mu, int32_t V);

/* The largest n values in descending order, ties by lower id; returns how many (fewer when -inf).
 */
int32_t ft_top_n(const float *x, int32_t V, int32_t n, int32_t *out);

#endif
