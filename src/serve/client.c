/* serve/client.c - identifies the client of a call, so that the queue can be shared fairly between
 * clients. */
#define _GNU_SOURCE
#include "serve/server.h"

#include <netinet/in.h>
#include <strings.h>
#include <xxhash.h>

/* Hash of an IPv4 address, or of the /64 network of an IPv6 address, which one client usually
 * has. */
static uint64_t address_hash(int fd)
{
    struct sockaddr_storage a;
    socklen_t n = sizeof a;
    if (getpeername(fd, (struct sockaddr *)&a, &n)) return 0;
    if (a.ss_family == AF_INET) return XXH3_64bits(&((struct sockaddr_in *)&a)->sin_addr, 4) | 1;
    if (a.ss_family != AF_INET6) return 0;
    const struct in6_addr *six = &((struct sockaddr_in6 *)&a)->sin6_addr;
    const bool mapped = IN6_IS_ADDR_V4MAPPED(six);
    return XXH3_64bits(mapped ? &six->s6_addr[12] : &six->s6_addr[0], mapped ? 4 : 8) | 1;
}

uint64_t ft_call_client(const ft_call *c)
{
    const ft_auth *g = &c->s->auth;
    if (g->n_key < 2) return address_hash(c->fd);
    const char *key = ft_call_header(c, "Authorization"); /* same precedence as in ft_auth_allows */
    const bool bearer = key && !strncasecmp(key, "Bearer ", 7);
    key = bearer ? key + 7 : ft_call_header(c, "X-Api-Key");
    return key ? XXH3_64bits(key, strlen(key)) | 1 : 0;
}
