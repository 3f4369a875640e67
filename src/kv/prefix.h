/* kv/prefix.h - prefix checkpoints: beginnings of prompts that were computed before, shared by
 * all sequences.
 * A tree of checkpoints. A checkpoint is a position from which a sequence can resume. It owns the
 * full-attention pages between its parent and itself, and the window pages, delta-net states and
 * hidden row at that position. The caller chooses positions at which a prompt that resumes is
 * bit-identical to a prompt computed from the start (engine/prefix_reuse.c), and ids that tell
 * apart what was computed differently.
 * Everything is copied out of the cache and into it, so nothing here refers to pages of a
 * running sequence. The bytes of layers that another rank computes stay there (kv/kept.h). One
 * budget in bytes covers all of it, in each process. The checkpoint that saves the fewest
 * tokens per byte is evicted first, the longer unused the sooner; one with children loses its
 * state before its pages. With a folder, every checkpoint has a file there (kv/prefix_file.h).
 * Only the engine thread may call these functions. */
#ifndef FT_KV_PREFIX_H
#define FT_KV_PREFIX_H

#include "kv/kv.h"

typedef struct ft_prefix ft_prefix;

typedef struct ft_prefix_params {
    uint64_t bytes;
    const char *dir; /* created if missing; NULL: memory only */
    uint64_t model;  /* a digest of everything outside the cache that pages depend on */
    size_t extra;    /* bytes that the caller stores with a checkpoint */
} ft_prefix_params;

typedef struct ft_prefix_counts {
    uint64_t bytes, points;
    uint64_t state; /* bytes of one checkpoint besides its pages, at the longest context */
} ft_prefix_counts;

ft_status ft_prefix_new(ft_prefix **out, ft_cache *c, const ft_prefix_params *p, ft_err *err);
void ft_prefix_free(ft_prefix *p); /* accepts NULL; returns when every file is written */

/* salt: points that were kept with one are found with the same one alone, so that one client does
 * not learn what another has sent.
 *
 * Brings the sequence to the longest point that is a beginning of the n ids, has more than `longer`
 * cells and fewer than n. Returns its cells and fills extra; 0 when there is none: the sequence is
 * untouched then, unless pages ran out, which leave it empty. */
int ft_prefix_find(ft_prefix *p, uint64_t salt, const int32_t *ids, int n, int longer, ft_seq *s,
                   void *extra);
/* Makes a point of the sequence's first len cells, whose ids these are. extra NULL: zeros. false
 * when the sequence does not hold what that takes, or the budget is too small. */
bool ft_prefix_put(ft_prefix *p, uint64_t salt, const int32_t *ids, int len, const ft_seq *s,
                   const void *extra);
/* All points on the way to these ids in one file, with the ids; and back into the tree. *ids is the
 * caller's (ft_free). The same checks as for files of the folder. */
ft_status ft_prefix_save(ft_prefix *p, uint64_t salt, const int32_t *ids, int n, const char *path,
                         ft_err *err);
ft_status ft_prefix_load(ft_prefix *p, uint64_t salt, const char *path, int32_t **ids, int *n,
                         ft_err *err);
void ft_prefix_count(const ft_prefix *p, ft_prefix_counts *out);

#endif
