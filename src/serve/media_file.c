#define _GNU_SOURCE
#include "serve/media_file.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* One step down from `at`, which is closed: to a folder, or to the file if `last`. O_NONBLOCK: a
 * FIFO would block. */
static int step_down(int at, const char *part, bool last)
{
    const int kind = last ? O_NONBLOCK | O_NOCTTY : O_DIRECTORY;
    const int next = openat(at, part, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | kind);
    const int why = errno;
    close(at);
    errno = why;
    return next;
}

/* Opens a file below the folder, part by part, so that no link can lead out of it. */
static ft_status open_below(int *fd, const char *folder, const char *name, ft_err *err)
{
    char *path = ft_strdup(name), *more, *part = strtok_r(path, "/", &more), *next;
    ft_status st = FT_OK;
    int at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at < 0)
        st = ft_fail(err, FT_EIO, "--media-path %s: %s", folder, strerror(errno));
    else if (!part)
        st = ft_fail(err, FT_EINVAL, "the address names no file");
    for (; part && !st; part = next) {
        next = strtok_r(NULL, "/", &more);
        if (!strcmp(part, ".."))
            st = ft_fail(err, FT_EINVAL, "the name %.200s has \"..\", want a file below the folder",
                         name);
        else if ((at = step_down(at, part, !next)) < 0)
            st = errno == ELOOP
                     ? ft_fail(err, FT_EINVAL, "%.200s is a symbolic link, want a file", name)
                     : ft_fail(err, FT_EIO, "%.200s: %s", name, strerror(errno));
    }
    ft_free(path);
    if (st && at >= 0) close(at);
    *fd = at;
    return st;
}

static ft_status read_all(void **bytes, size_t *n, int fd, const char *name, size_t max,
                          ft_err *err)
{
    struct stat s;
    if (fstat(fd, &s) || !S_ISREG(s.st_mode))
        return ft_fail(err, FT_EINVAL, "%.200s is not a regular file", name);
    if (s.st_size < 1 || (uint64_t)s.st_size > max)
        return ft_fail(err, FT_ELIMIT, "%.200s has %lld bytes, want 1 to %zu", name,
                       (long long)s.st_size, max);
    const size_t size = (size_t)s.st_size;
    unsigned char *to = malloc(size);
    size_t have = 0;
    if (!to) return ft_fail(err, FT_ENOMEM, "no memory for %.200s", name);
    for (ssize_t r = 1; have < size && r > 0; have += r > 0 ? (size_t)r : 0) do
            r = read(fd, to + have, size - have);
        while (r < 0 && errno == EINTR);
    if (have < size) { /* it became shorter, or cannot be read */
        free(to);
        return ft_fail(err, FT_EIO, "%.200s: %zu of %zu bytes were read", name, have, size);
    }
    *bytes = to;
    *n = size;
    return FT_OK;
}

ft_status ft_media_read(void **bytes, size_t *n, const char *folder, const char *name, size_t max,
                        ft_err *err)
{
    int fd;
    ft_status st = open_below(&fd, folder, name, err);
    if (st) return st;
    st = read_all(bytes, n, fd, name, max, err);
    close(fd);
    return st;
}
