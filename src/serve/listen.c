/* serve/listen.c - opens the listening socket: an address and port, or a Unix socket. */
#define _GNU_SOURCE
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "serve/server.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 1024 };

static ft_status listen_unix(ft_server *s, const char *path, ft_err *err)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof a.sun_path)
        return ft_fail(err, FT_EINVAL, "--host %s: %zu bytes, want at most %zu for a socket", path,
                       strlen(path), sizeof a.sun_path - 1);
    memcpy(a.sun_path, path, strlen(path) + 1);
    struct stat st;
    if (!stat(path, &st) && S_ISSOCK(st.st_mode))
        unlink(path); /* left over from a server that no longer runs */
    s->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s->listen_fd < 0) return ft_fail_errno(err, "cannot create a socket");
    if (bind(s->listen_fd, (struct sockaddr *)&a, sizeof a) || listen(s->listen_fd, BACKLOG))
        return ft_fail_errno(err, "cannot listen on %s", path);
    s->unix_path = ft_strdup(path);
    snprintf(s->address, sizeof s->address, "unix:%s", path);
    return FT_OK;
}

static int port_of(int fd)
{
    struct sockaddr_storage a;
    socklen_t n = sizeof a;
    if (getsockname(fd, (struct sockaddr *)&a, &n)) return 0;
    return ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port
                                         : ((struct sockaddr_in *)&a)->sin_port);
}

static int bound(const struct addrinfo *a)
{
    const int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol), on = 1;
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (!bind(fd, a->ai_addr, a->ai_addrlen) && !listen(fd, BACKLOG)) return fd;
    const int e = errno;
    close(fd);
    errno = e;
    return -1;
}

static bool on_loopback(int fd)
{
    struct sockaddr_storage a;
    socklen_t n = sizeof a;
    if (getsockname(fd, (struct sockaddr *)&a, &n)) return false;
    if (a.ss_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((struct sockaddr_in6 *)&a)->sin6_addr);
    return ntohl(((struct sockaddr_in *)&a)->sin_addr.s_addr) >> 24 == 127;
}

ft_status ft_listen(ft_server *s, ft_err *err)
{
    const char *host = s->p.host ? s->p.host : "127.0.0.1";
    s->listen_fd = -1;
    ft_status st = FT_OK;
    if (ft_str_ends(ft_str_of(host), FT_STR(".sock"))) {
        if ((st = listen_unix(s, host, err))) return st;
    } else {
        char port[16];
        snprintf(port, sizeof port, "%d", s->p.port);
        struct addrinfo hint = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *list;
        const int rc = getaddrinfo(host, port, &hint, &list);
        if (rc) return ft_fail(err, FT_EINVAL, "--host %s: %s", host, gai_strerror(rc));
        for (struct addrinfo *a = list; a && s->listen_fd < 0; a = a->ai_next)
            s->listen_fd = bound(a);
        freeaddrinfo(list);
        if (s->listen_fd < 0)
            return ft_fail_errno(err, "cannot listen on %s, port %d", host, s->p.port);
        s->port = port_of(s->listen_fd);
        snprintf(s->address, sizeof s->address, "%s://%s:%d", s->p.tls_key ? "https" : "http", host,
                 s->port);
        s->auth.check_host = on_loopback(s->listen_fd);
        if (!s->auth.check_host && !ft_auth_has_keys(&s->auth))
            ft_log(FT_LOG_WARN,
                   "%s can be reached from other machines and no --api-key is set: anyone who "
                   "can reach it can use it",
                   s->address);
    }
    fcntl(s->listen_fd, F_SETFL, fcntl(s->listen_fd, F_GETFL) | O_NONBLOCK);
    return FT_OK;
}
