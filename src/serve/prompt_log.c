/* serve/prompt_log.c - writes request bodies to files (--log-prompts-dir). This is the only place
 * where the server stores the contents of requests. */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/log.h"
#include "serve/server.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* The client may choose the id, so only its letters and digits become part of the file name. */
static void file_name(char *out, size_t size, const char *id)
{
    size_t n = 0;
    for (; *id && n + 1 < size; id++) {
        const bool plain = (*id >= '0' && *id <= '9') || (*id >= 'A' && *id <= 'Z') ||
                           (*id >= 'a' && *id <= 'z') || *id == '_' || *id == '-';
        out[n++] = plain ? *id : '_';
    }
    out[n] = 0;
}

/* Creates a new file; an existing one belongs to another request. */
static int open_new(ft_buf *path, const char *folder, const char *name)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    ft_buf_printf(path, "%s/%s.json", folder, name);
    int fd = open(ft_buf_z(path), flags, 0600);
    for (int i = 0; fd < 0 && errno == EEXIST && i < 8; i++) {
        char more[16];
        ft_random_id(more, "-", 12);
        ft_buf_clear(path);
        ft_buf_printf(path, "%s/%s%s.json", folder, name, more);
        fd = open(ft_buf_z(path), flags, 0600);
    }
    return fd;
}

void ft_prompt_log(const ft_call *c, ft_str body)
{
    char name[sizeof c->id];
    ft_buf path;
    if (!c->s->p.prompts_dir) return;
    file_name(name, sizeof name, c->id);
    ft_buf_init(&path, 4096);
    const int fd = open_new(&path, c->s->p.prompts_dir, name);
    bool ok = fd >= 0;
    for (size_t at = 0; ok && at < body.n;) {
        const ssize_t n = write(fd, body.p + at, body.n - at);
        ok = n > 0 || (n < 0 && errno == EINTR);
        if (n > 0) at += (size_t)n;
    }
    if (!ok) ft_log(FT_LOG_WARN, "%s: %s", ft_buf_z(&path), strerror(errno));
    if (fd >= 0) close(fd);
    ft_buf_release(&path);
}
