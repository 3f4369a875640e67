#define _GNU_SOURCE
#include "base/file.h"

#include "base/buf.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- reading ---- */

static ssize_t read_full(int fd, void *p, size_t n)
{
    size_t done = 0;
    while (done < n) {
        const size_t ask = FT_MIN(n - done, (size_t)1 << 30);
        const ssize_t r = read(fd, (char *)p + done, ask);
        if (r < 0 && errno == EINTR) continue;
        if (r < 0) return -1;
        if (r == 0) break;
        done += (size_t)r;
    }
    return (ssize_t)done;
}

static ft_status map_fd(ft_map *m, int fd, const char *path, bool use_mmap, ft_err *err)
{
    struct stat st;
    if (fstat(fd, &st)) return ft_fail_errno(err, "%s", path);
    if (!S_ISREG(st.st_mode)) return ft_fail(err, FT_EINVAL, "%s: not a regular file", path);
    *m = (ft_map){.bytes = (size_t)st.st_size, .dev = st.st_dev, .inode = st.st_ino};
    if (m->bytes == 0) return FT_OK;
    if (use_mmap) {
        void *p = mmap(NULL, m->bytes, PROT_READ, MAP_SHARED, fd, 0);
        if (p != MAP_FAILED) {
            m->data = p;
            m->mapped = true;
            ft_map_watch(m, path, &st);
            return FT_OK;
        }
    }
    void *p = NULL;
    if (posix_memalign(&p, 4096, m->bytes))
        return ft_fail(err, FT_ENOMEM, "%s: no memory for %zu bytes", path, m->bytes);
    const ssize_t got = read_full(fd, p, m->bytes);
    if (got != (ssize_t)m->bytes) {
        const ft_status s = got < 0 ? ft_fail_errno(err, "%s: read", path)
                                    : ft_fail(err, FT_EIO, "%s: file shrank while reading", path);
        free(p);
        return s;
    }
    m->data = p;
    return FT_OK;
}

static ft_status map_path(ft_map *m, const char *path, int flags, bool use_mmap, ft_err *err)
{
    *m = (ft_map){0};
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
    if (fd < 0) return ft_fail_errno(err, "%s", path);
    const ft_status s = map_fd(m, fd, path, use_mmap, err);
    close(fd);
    if (s) *m = (ft_map){0};
    return s;
}

ft_status ft_map_open(ft_map *m, const char *path, bool use_mmap, ft_err *err)
{
    return map_path(m, path, 0, use_mmap, err);
}

ft_status ft_map_open_private(ft_map *m, const char *path, ft_err *err)
{
    return map_path(m, path, O_NOFOLLOW, false, err);
}

ft_status ft_file_begin(unsigned char **out, size_t *n, uint64_t *file_bytes, const char *path,
                        size_t max, ft_err *err)
{
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st)) {
        const ft_status s = ft_fail_errno(err, "%s", path);
        if (fd >= 0) close(fd);
        return s;
    }
    *file_bytes = (uint64_t)st.st_size;
    *out = ft_alloc((size_t)FT_MIN(*file_bytes, (uint64_t)max) + 1);
    const ssize_t got =
        S_ISREG(st.st_mode) ? read_full(fd, *out, (size_t)FT_MIN(*file_bytes, (uint64_t)max)) : -1;
    close(fd);
    if (got < 0) {
        ft_free(*out);
        *out = NULL;
        return ft_fail(err, FT_EIO, "%s: cannot be read", path);
    }
    *n = (size_t)got;
    return FT_OK;
}

void ft_map_close(ft_map *m)
{
    if (m->mapped) ft_map_unwatch(m);
    if (m->mapped)
        munmap((void *)(uintptr_t)m->data, m->bytes);
    else
        free((void *)(uintptr_t)m->data);
    *m = (ft_map){0};
}

ft_status ft_file_read(char **out, size_t *n, const char *path, size_t max, ft_err *err)
{
    const bool from_stdin = path[0] == '-' && !path[1];
    const int fd = from_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return ft_fail_errno(err, "%s", path);
    ft_buf b;
    ft_buf_init(&b, max);
    char chunk[65536];
    ssize_t r;
    while ((r = read_full(fd, chunk, sizeof chunk)) > 0 && !b.full)
        ft_buf_put(&b, chunk, (size_t)r);
    ft_status st = FT_OK;
    if (r < 0)
        st = ft_fail_errno(err, "%s: read", path);
    else if (b.full)
        st = ft_fail(err, FT_ELIMIT, "%s: larger than %zu bytes", path, max);
    if (!from_stdin) close(fd);
    if (st) {
        ft_buf_release(&b);
        return st;
    }
    *n = b.len;
    *out = ft_buf_take(&b);
    return FT_OK;
}

bool ft_file_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* ---- writing ---- */

struct ft_out_file {
    int fd;
    int error; /* errno of the first failed write */
    uint64_t size, buf_at;
    size_t buf_len;
    char *path, *tmp;
    int watch; /* index in watched, or -1 */
    pthread_mutex_t lock;
    char buf[1 << 16];
};

/* Names of the temporary files that exist now, so that a signal handler can remove them. They are
 * copied into this table because another thread may free an ft_out while the handler runs. When
 * the table is full, a further temporary file is not removed on a signal. */
static struct {
    atomic_int state; /* FREE, TAKEN (being written), SHOWN */
    char name[4096];
} watched[32];
enum { FREE, TAKEN, SHOWN };

static void remove_on_signal(int sig)
{
    for (size_t i = 0; i < FT_COUNT(watched); i++)
        if (atomic_load(&watched[i].state) == SHOWN) unlink(watched[i].name);
    signal(sig, SIG_DFL);
    raise(sig);
}

static void watch_signals(void)
{
    static const int sigs[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < FT_COUNT(sigs); i++) {
        struct sigaction old;
        if (sigaction(sigs[i], NULL, &old) || old.sa_handler != SIG_DFL) continue;
        struct sigaction sa = {.sa_handler = remove_on_signal};
        sigemptyset(&sa.sa_mask);
        sigaction(sigs[i], &sa, NULL);
    }
}

static void watch(ft_out_file *o)
{
    const size_t n = strlen(o->tmp) + 1;
    o->watch = -1;
    for (size_t i = 0; n <= sizeof watched[0].name && i < FT_COUNT(watched); i++) {
        int was = FREE;
        if (!atomic_compare_exchange_strong(&watched[i].state, &was, TAKEN)) continue;
        memcpy(watched[i].name, o->tmp, n);
        atomic_store(&watched[i].state, SHOWN);
        o->watch = (int)i;
        return;
    }
}

static void unwatch(const ft_out_file *o)
{
    if (o->watch >= 0) atomic_store(&watched[o->watch].state, FREE);
}

/* A new file beside the target, which nobody else has and no link leads to. The lock says that its
 * writer lives. */
static int open_part(char *tmp, mode_t mode)
{
    static const char letter[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    char *at = tmp + strlen(tmp) - strlen("XXXXXX.part");
    for (int tries = 0; tries < 100; tries++) {
        uint8_t r[6];
        if (getrandom(r, sizeof r, 0) != (ssize_t)sizeof r) return -1;
        for (size_t i = 0; i < sizeof r; i++) at[i] = letter[r[i] % (sizeof letter - 1)];
        const int fd = open(tmp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        if (fd >= 0) flock(fd, LOCK_EX | LOCK_NB);
        if (fd >= 0 || errno != EEXIST) return fd;
    }
    return -1;
}

static ft_status out_open(ft_out_file **out, const char *path, mode_t mode, ft_err *err)
{
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return ft_fail(err, FT_EINVAL, "%s: exists and is not a regular file", path);
    ft_out_file *o = ft_new(ft_out_file);
    const size_t n = strlen(path) + 16;
    o->path = ft_strdup(path);
    o->tmp = ft_alloc(n);
    snprintf(o->tmp, n, "%s.XXXXXX.part", path);
    o->fd = open_part(o->tmp, mode);
    if (o->fd < 0) {
        const ft_status s = ft_fail_errno(err, "%s: cannot write there", path);
        ft_free(o->path);
        ft_free(o->tmp);
        ft_free(o);
        return s;
    }
    pthread_mutex_init(&o->lock, NULL);
    watch(o);
    watch_signals();
    *out = o;
    return FT_OK;
}

ft_status ft_out_open(ft_out_file **out, const char *path, ft_err *err)
{
    return out_open(out, path, 0666, err);
}

ft_status ft_out_open_private(ft_out_file **out, const char *path, ft_err *err)
{
    return out_open(out, path, 0600, err);
}

ft_status ft_folder_private(const char *path, ft_err *err)
{
    struct stat st;
    if (mkdir(path, 0700) && errno != EEXIST) return ft_fail_errno(err, "folder %s", path);
    if (stat(path, &st)) return ft_fail_errno(err, "folder %s", path);
    if (!S_ISDIR(st.st_mode)) return ft_fail(err, FT_EINVAL, "%s: not a folder", path);
    ft_out_sweep(path);
    return FT_OK;
}

/* "NAME.abc123.part" */
static bool is_part(const char *name)
{
    const size_t n = strlen(name);
    return n > 12 && !strcmp(name + n - 5, ".part") && name[n - 12] == '.';
}

void ft_out_sweep(const char *folder)
{
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        struct stat st;
        if (!is_part(e->d_name)) continue;
        const int fd =
            openat(dirfd(dir), e->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0) continue;
        /* one that was made this minute may not have its lock yet */
        const bool old = !fstat(fd, &st) && S_ISREG(st.st_mode) && time(NULL) - st.st_mtime > 60;
        if (old && !flock(fd, LOCK_EX | LOCK_NB)) unlinkat(dirfd(dir), e->d_name, 0);
        close(fd);
    }
    if (dir) closedir(dir);
}

static void write_all_at(ft_out_file *o, uint64_t at, const char *p, size_t n)
{
    while (n) {
        const ssize_t w = pwrite(o->fd, p, FT_MIN(n, (size_t)1 << 30), (off_t)at);
        if (w < 0 && errno == EINTR) continue;
        if (w <= 0) {
            pthread_mutex_lock(&o->lock);
            if (!o->error) o->error = w < 0 ? errno : ENOSPC;
            pthread_mutex_unlock(&o->lock);
            return;
        }
        p += w;
        n -= (size_t)w;
        at += (uint64_t)w;
    }
}

static void flush_buf(ft_out_file *o)
{
    if (o->buf_len) write_all_at(o, o->buf_at, o->buf, o->buf_len);
    o->buf_at = o->size;
    o->buf_len = 0;
}

void ft_out_write(ft_out_file *o, const void *p, size_t n)
{
    if (n > sizeof o->buf - o->buf_len) flush_buf(o);
    if (n > sizeof o->buf) {
        write_all_at(o, o->size, p, n);
        o->size += n;
        o->buf_at = o->size;
        return;
    }
    if (n) memcpy(o->buf + o->buf_len, p, n);
    o->buf_len += n;
    o->size += n;
}

void ft_out_write_at(ft_out_file *o, uint64_t offset, const void *p, size_t n)
{
    write_all_at(o, offset, p, n);
}

uint64_t ft_out_size(const ft_out_file *o)
{
    return o->size;
}

void ft_out_grow(ft_out_file *o, uint64_t bytes)
{
    flush_buf(o);
    o->size += bytes;
    o->buf_at = o->size;
    if (ftruncate(o->fd, (off_t)o->size) && !o->error) o->error = errno;
}

static void out_free(ft_out_file *o)
{
    if (o->fd >= 0) close(o->fd);
    unwatch(o);
    pthread_mutex_destroy(&o->lock);
    ft_free(o->path);
    ft_free(o->tmp);
    ft_free(o);
}

ft_status ft_out_commit(ft_out_file *o, ft_err *err)
{
    flush_buf(o);
    if (!o->error && fsync(o->fd)) o->error = errno;
    const int fd = o->fd;
    o->fd = -1;
    if (close(fd) && !o->error) o->error = errno;
    if (!o->error && rename(o->tmp, o->path)) o->error = errno;
    ft_status st = FT_OK;
    if (o->error) {
        errno = o->error;
        st = ft_fail_errno(err, "%s: write", o->path);
        unlink(o->tmp);
    }
    out_free(o);
    return st;
}

void ft_out_abort(ft_out_file *o)
{
    if (!o) return;
    unlink(o->tmp);
    out_free(o);
}
