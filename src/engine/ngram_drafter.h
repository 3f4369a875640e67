/* engine/ngram_drafter.h - drafters that need no model: they guess from the ids alone.
 * An engine asks its n-gram drafters in order; the first that proposes something drafts the step,
 * and the model's own head, if any, drafts where none did. State is kept per slot by the n-gram
 * drafter. */
#ifndef FT_ENGINE_NGRAM_DRAFTER_H
#define FT_ENGINE_NGRAM_DRAFTER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ft_ngram_drafter {
    const char *name; /* as --spec-type spells it */
    void *state;
    /* A prompt was read on this slot. */
    void (*begin)(void *state, int slot, const int32_t *ids, int n);
    /* Up to max ids that may follow ids[0..n-1]; the last of these is not in any cache yet. */
    int (*draft)(void *state, int slot, const int32_t *ids, int n, int max, int32_t *out);
    /* How a step went: mine when this n-gram drafter had drafted it. */
    void (*accept)(void *state, int slot, int drafted, int accepted, bool mine);
    void (*free)(void *state);
} ft_ngram_drafter;

#endif
