/* engine/ngram_drafter.h - the interface of drafters that need no model: they propose tokens
 * from the ids alone. The engine asks them in order; the first proposal is used. The model's MTP
 * head or draft model drafts where none of them proposed anything. Drafters keep their state per
 * slot. */
#ifndef FT_ENGINE_NGRAM_DRAFTER_H
#define FT_ENGINE_NGRAM_DRAFTER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ft_ngram_drafter {
    const char *name; /* as in --spec-type */
    void *state;
    /* A prompt was read on this slot. */
    void (*begin)(void *state, int slot, const int32_t *ids, int n);
    /* Proposes up to max ids that may follow ids[0..n-1]; ids[n-1] is not in any cache yet. */
    int (*draft)(void *state, int slot, const int32_t *ids, int n, int max, int32_t *out);
    /* Reports a step; mine: this drafter had proposed the draft tokens. */
    void (*accept)(void *state, int slot, int drafted, int accepted, bool mine);
    void (*free)(void *state);
} ft_ngram_drafter;

#endif
