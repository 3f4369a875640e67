/* serve/image_url.h - downloads the images of requests that give their addresses. Off unless the
 * server names the hosts. A server must not become a way into the network behind it: only public
 * addresses are connected to, which is checked for every connection after its name was resolved,
 * and every redirection is checked like the first address. */
#ifndef FT_SERVE_IMAGE_URL_H
#define FT_SERVE_IMAGE_URL_H

#include "base/err.h"

#include <sys/socket.h>

enum { FT_IMAGE_URL_REDIRECTS = 3 };

typedef struct ft_image_url_rules {
    const char *hosts; /* names separated by commas, or "any" */
    size_t bytes;      /* maximum size of an image */
    double seconds;    /* maximum time of a download, with its redirections */
    /* Which addresses may be connected to; NULL: ft_address_is_public. */
    bool (*may_connect)(const struct sockaddr *a);
} ft_image_url_rules;

/* Whether an address belongs to the public Internet: not private, loopback, link-local, shared,
 * multicast, reserved, nor one of those inside of an IPv6 address. */
bool ft_address_is_public(const struct sockaddr *a);
/* Whether the list has the host; case does not matter. */
bool ft_image_url_listed(const char *hosts, const char *host);
/* The bytes at an http or https address; yours (free()). FT_EINVAL: the address is not allowed;
 * FT_EIO: the host cannot be reached or reports an error; FT_ELIMIT: too large or too slow. */
ft_status ft_image_url_get(const char *url, const ft_image_url_rules *r, void **bytes, size_t *n,
                           ft_err *err);

#endif
