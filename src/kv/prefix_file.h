/* kv/prefix_file.h - checkpoint files: one per checkpoint, named after its key, verified before
 * any byte of it is used. A thread writes them under a temporary name first, so that a reader
 * never sees a partial file; a file with any defect is ignored. */
#ifndef FT_KV_PREFIX_FILE_H
#define FT_KV_PREFIX_FILE_H

#include "dev/copies.h"

#include <stdatomic.h>

/* Bytes that the tree and the writer share, with a reference count. */
typedef struct ft_blob {
    atomic_int users;
    void *elsewhere; /* what belongs to it outside of this process (kv/kept.h); NULL: nothing */
    void (*release)(void *elsewhere);
    ft_copying copying; /* into data, in the background */
    size_t bytes;
    unsigned char data[];
} ft_blob;

ft_blob *ft_blob_new(size_t bytes); /* NULL when memory runs out */
ft_blob *ft_blob_use(ft_blob *b);   /* accepts NULL */
void ft_blob_drop(ft_blob *b);      /* accepts NULL */
/* Waits until data is there, to be called before it is read; false when it could not be copied.
 * Accepts NULL. */
bool ft_blob_wait(ft_blob *b);

typedef struct ft_key {
    uint64_t low, high;
} ft_key;

/* What all files of a folder have in common; sizes follow from it. */
typedef struct ft_point_shape {
    uint64_t digest; /* of model and cache */
    int page_rows, cells;
    size_t page, window_page, rest; /* bytes: a full page, a window page, states and extra */
    int window;                     /* positions; 0: none */
} ft_point_shape;

typedef struct ft_point {
    uint64_t salt;      /* of the requests that may use it */
    ft_key key, parent; /* of all ids up to len, and up to from; parent of from 0: zeros */
    int from, len;      /* positions */
    int32_t *ids;       /* [len - from] */
    ft_blob *pages;     /* full-attention pages that have any of these positions */
    ft_blob *state;     /* window pages, states and extra at len; NULL: none */
} ft_point;

int ft_point_pages_end(const ft_point_shape *s, int len); /* pages of len positions */
size_t ft_point_pages_bytes(const ft_point_shape *s, int from, int len);
size_t ft_point_state_bytes(const ft_point_shape *s, int len);
int ft_point_window_first(const ft_point_shape *s, int len);

typedef struct ft_out_file ft_out_file;
uint64_t ft_point_bytes(const ft_point *p);                                    /* as a file */
void ft_point_put(ft_out_file *o, const ft_point *p, const ft_point_shape *s); /* appends it */
/* Parses the bytes of a file. whole false: only the beginning of the file, with ids but without
 * pages. */
ft_status ft_point_parse(ft_point *out, const void *data, size_t n, uint64_t file_bytes,
                         const ft_point_shape *s, bool whole, ft_err *err);
void ft_point_release(ft_point *p);

/* ---- a folder of checkpoints ---- */

typedef struct ft_point_dir ft_point_dir;

/* Creates the folder and, in it, one for this shape; starts the writer. */
ft_status ft_point_dir_open(ft_point_dir **out, const char *path, const ft_point_shape *s,
                            ft_err *err);
void ft_point_dir_close(ft_point_dir *d); /* accepts NULL; writes what is pending */
/* Calls fn for every checkpoint of the folder without its pages, parents before children; other
 * files are ignored. */
void ft_point_dir_list(ft_point_dir *d, void (*fn)(void *user, ft_point *p), void *user);
ft_status ft_point_dir_load(ft_point_dir *d, ft_point *p, ft_err *err); /* pages and state */
void ft_point_dir_write(ft_point_dir *d, const ft_point *p);            /* asynchronous */
void ft_point_dir_remove(ft_point_dir *d, ft_key key);                  /* asynchronous */

#endif
