/* kv/kept.h - the bytes of a prefix checkpoint, each in the memory of the process that has the
 * layer they belong to. A blob holds those of this process; devices of other ranks keep theirs
 * under a number (ft_dev.keep), and nothing but commands travels when a checkpoint is made or used.
 * A blob that was read from a file is whole: it holds all bytes. */
#ifndef FT_KV_KEPT_H
#define FT_KV_KEPT_H

#include "kv/prefix_file.h"
#include "kv/save.h"

enum { FT_OWNERS = 64 };

/* The processes that own layers: number 0 is this one. Sizes are bytes of a page, of a window page
 * and of the delta-net states. */
typedef struct ft_owners {
    int n;
    ft_dev *dev[FT_OWNERS];
    uint8_t *of; /* [n_layer] */
    size_t page[FT_OWNERS], window_page[FT_OWNERS], state[FT_OWNERS];
} ft_owners;

void ft_owners_init(ft_owners *o, const ft_cache *c, bool alone); /* alone: all bytes stay here */
void ft_owners_release(ft_owners *o);

/* Bytes of pages, of window pages, and of a state. */
typedef struct ft_kept_size {
    int pages, window_pages;
    bool state;
    size_t extra; /* bytes of the caller, in this process */
} ft_kept_size;

/* Of an owner; whole: of all of them, in this process. */
size_t ft_kept_bytes(const ft_owners *o, const ft_kept_size *n, int owner, bool whole);
/* NULL when memory runs out, here or there. */
ft_blob *ft_kept_new(const ft_owners *o, const ft_kept_size *n);
bool ft_kept_whole(const ft_owners *o, const ft_blob *b);
/* The same without its first pages; b is dropped. NULL when memory runs out: b is unchanged. */
ft_blob *ft_kept_without(const ft_owners *o, ft_blob *b, int pages);
/* A whole blob with the same bytes; NULL when memory runs out. */
ft_blob *ft_kept_gather(const ft_owners *o, const ft_cache *c, ft_blob *b, const ft_kept_size *n);

/* Copies between a sequence and a blob, piece after piece. */
typedef struct ft_kept_copy {
    const ft_owners *o;
    ft_blob *b;
    bool save; /* out of the cache */
    size_t at[FT_OWNERS];
} ft_kept_copy;
void ft_kept_pages(ft_kept_copy *k, const ft_seq *s, int space, int from, int to);
void ft_kept_state(ft_kept_copy *k, const ft_seq *s);

#endif
