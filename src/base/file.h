/* base/file.h - files, read whole or mapped, and written so that they appear only when complete. */
#ifndef FT_BASE_FILE_H
#define FT_BASE_FILE_H

#include "base/err.h"

#include <string.h>

/* ---- reading ---- */

typedef struct ft_map {
    const unsigned char *data; /* NULL for an empty file */
    size_t bytes;
    bool mapped;         /* else the bytes were read into memory */
    uint64_t dev, inode; /* two paths to one file share these */
} ft_map;

/* Regular files only. With use_mmap false the bytes are read into memory. */
ft_status ft_map_open(ft_map *m, const char *path, bool use_mmap, ft_err *err);
/* The same for files that only we write: links are not followed, and the bytes are read. */
ft_status ft_map_open_private(ft_map *m, const char *path, ft_err *err);
void ft_map_close(ft_map *m);
/* At most max bytes from the beginning of such a file, and its size. *out is yours (ft_free). */
ft_status ft_file_begin(unsigned char **out, size_t *n, uint64_t *file_bytes, const char *path,
                        size_t max, ft_err *err);

/* ---- map_guard.c: mapped files that are cut off or overwritten while they are mapped ---- */

/* From now on reading behind the end of a mapped file that became shorter gives zeros, where it
 * would end the process (SIGBUS). */
void ft_map_guard(void);
void ft_map_check(void);         /* looks whether a mapped file was changed in place */
const char *ft_map_broken(void); /* NULL, or the first file to which either has happened */
/* The mapped file that an address is in; false: none. */
typedef struct ft_mapped {
    const char *path;
    const unsigned char *data;
    size_t bytes;
} ft_mapped;
bool ft_map_find(const void *p, ft_mapped *out);
struct stat;
void ft_map_watch(const ft_map *m, const char *path, const struct stat *st); /* of ft_map_open */
void ft_map_unwatch(const ft_map *m);

/* The whole of a file or, for "-", of standard input; at most max bytes, else FT_ELIMIT. The
 * result is followed by a zero byte; the caller frees it with ft_free. */
ft_status ft_file_read(char **out, size_t *n, const char *path, size_t max, ft_err *err);

/* ---- writing: a temporary file next to the target, fsync, rename ---- */

typedef struct ft_out_file ft_out_file;

/* Fails when path is a directory or its folder cannot be written. A temporary file left behind by
 * an interrupted program is removed by the signal handler that the first open installs. */
ft_status ft_out_open(ft_out_file **out, const char *path, ft_err *err);
/* For the owner's eyes: mode 0600 whatever the umask is. */
ft_status ft_out_open_private(ft_out_file **out, const char *path, ft_err *err);
/* A folder for such files, made with mode 0700 when it is not there; temporary files that writers
 * left behind are removed. */
ft_status ft_folder_private(const char *path, ft_err *err);
void ft_out_sweep(const char *folder); /* removes such temporary files */
/* Write at the end. Errors stick; they are reported by commit. */
void ft_out_write(ft_out_file *o, const void *p, size_t n);
/* Overwrite earlier bytes (headers whose content is known at the end); safe from many threads. */
void ft_out_write_at(ft_out_file *o, uint64_t offset, const void *p, size_t n);
uint64_t ft_out_size(const ft_out_file *o); /* bytes written at the end so far */
void ft_out_grow(ft_out_file *o,
                 uint64_t bytes); /* the end moves on by bytes, to be filled by write_at */
/* Flush, fsync, rename. The object is gone afterwards, also on failure (no file appears then). */
ft_status ft_out_commit(ft_out_file *o, ft_err *err);
void ft_out_abort(ft_out_file *o); /* accepts NULL; removes the temporary file */

bool ft_file_exists(const char *path);

/* The part of a path after its last slash. */
static inline const char *ft_file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

#endif
