/* engine/guess.h - drafters that need no model: they guess from the ids alone.
 * An engine asks its guessers in order; the first that proposes something drafts the round, and the
 * model's own head, if any, drafts where none did. State is kept per lane by the guesser. */
#ifndef FT_ENGINE_GUESS_H
#define FT_ENGINE_GUESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ft_guesser {
    const char *name; /* as --spec-type spells it */
    void *state;
    /* A prompt was read on this lane. */
    void (*begin)(void *state, int lane, const int32_t *ids, int n);
    /* Up to max ids that may follow ids[0..n-1]; the last of these is not in any cache yet. */
    int (*draft)(void *state, int lane, const int32_t *ids, int n, int max, int32_t *out);
    /* How a round went: mine when this guesser had drafted it. */
    void (*accept)(void *state, int lane, int drafted, int accepted, bool mine);
    void (*free)(void *state);
} ft_guesser;

#endif
