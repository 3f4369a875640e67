#define _GNU_SOURCE
#include "serve/image_url.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- addresses ---- */

typedef struct network {
    uint32_t first;
    int bits;
} network;

static bool is_public_v4(uint32_t a)
{
    static const network closed[] = {
        {0x00000000, 8},  /* this host */
        {0x0a000000, 8},  /* private */
        {0x64400000, 10}, /* shared by providers */
        {0x7f000000, 8},  /* loopback */
        {0xa9fe0000, 16}, /* link-local */
        {0xac100000, 12}, /* private */
        {0xc0000000, 24}, /* protocol assignments */
        {0xc0000200, 24}, /* documentation */
        {0xc0586300, 24}, /* 6to4 relays */
        {0xc0a80000, 16}, /* private */
        {0xc6120000, 15}, /* benchmarks */
        {0xc6336400, 24}, /* documentation */
        {0xcb007100, 24}, /* documentation */
        {0xe0000000, 3},  /* multicast, reserved, broadcast */
    };
    for (size_t i = 0; i < FT_COUNT(closed); i++)
        if ((a ^ closed[i].first) >> (32 - closed[i].bits) == 0) return false;
    return true;
}

static uint32_t four_bytes(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* 2000::/3 is what is assigned; transition mechanisms carry an IPv4 address. */
static bool is_public_v6(const unsigned char p[16])
{
    static const unsigned char nat64[12] = {0, 0x64, 0xff, 0x9b}, mapped[12] = {[10] = 255, 255};
    if (!memcmp(p, mapped, 12) || !memcmp(p, nat64, 12)) return is_public_v4(four_bytes(p + 12));
    if (p[0] >> 5 != 1) return false;
    if (p[0] == 0x20 && p[1] == 0x02) return is_public_v4(four_bytes(p + 2)); /* 6to4 */
    const uint32_t head = four_bytes(p);
    if (head >> 9 == 0x20010000u >> 9) return false;      /* protocol assignments, Teredo */
    return head != 0x20010db8u && head >> 12 != 0x3fff0u; /* documentation */
}

bool ft_address_is_public(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return is_public_v4(ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr));
    if (a->sa_family == AF_INET6)
        return is_public_v6(((const struct sockaddr_in6 *)(const void *)a)->sin6_addr.s6_addr);
    return false;
}

bool ft_image_url_listed(const char *hosts, const char *host)
{
    const size_t n = strlen(host);
    if (!strcmp(hosts, "any")) return true;
    for (const char *p = hosts; *p;) {
        const size_t len = strcspn(p, ",");
        if (len == n && !strncasecmp(p, host, n)) return true;
        p += len + (p[len] == ',');
    }
    return false;
}

#ifdef FT_HAVE_CURL
#include <curl/curl.h>

/* ---- downloads ---- */

typedef struct transfer {
    const ft_image_url_rules *rules;
    ft_buf b;
    bool refused; /* the name has an address that may not be connected to */
    bool too_large;
} transfer;

static size_t on_data(char *p, size_t size, size_t n, void *user)
{
    transfer *t = user;
    t->too_large = n * size > t->rules->bytes - t->b.len;
    if (t->too_large) return 0;
    ft_buf_put(&t->b, p, n * size);
    return n * size;
}

/* The address is the one that is connected to next, after the name was resolved. */
static curl_socket_t on_socket(void *user, curlsocktype type, struct curl_sockaddr *a)
{
    transfer *t = user;
    const ft_image_url_rules *r = t->rules;
    (void)type;
    if (!(r->may_connect ? r->may_connect : ft_address_is_public)(&a->addr)) {
        t->refused = true;
        return CURL_SOCKET_BAD;
    }
    return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

static CURL *open_handle(const char *url, transfer *t, double seconds)
{
    CURL *c = curl_easy_init();
    if (!c) return NULL;
    curl_easy_setopt(c, CURLOPT_URL, url);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "foretoken");
    curl_easy_setopt(c, CURLOPT_PROXY, ""); /* a proxy would connect to any address for us */
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)(seconds * 1e3) + 1);
    curl_easy_setopt(c, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)t->rules->bytes);
#if LIBCURL_VERSION_NUM >= 0x075500 /* 7.85 */
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(c, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, on_socket);
    curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, t);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
    return c;
}

/* Only http and https without a password, and a host of the list. */
static ft_status check_url(const char *url, const char *hosts, ft_err *err)
{
    CURLU *u = curl_url();
    char *scheme = NULL, *host = NULL, *user = NULL;
    ft_status st = FT_OK;
    if (!u || curl_url_set(u, CURLUPART_URL, url, 0) ||
        curl_url_get(u, CURLUPART_SCHEME, &scheme, 0))
        st = ft_fail(err, FT_EINVAL, "%.200s is not an address", url);
    else if (strcmp(scheme, "http") && strcmp(scheme, "https"))
        st = ft_fail(err, FT_EINVAL, "%.200s has the scheme %s, want http or https", url, scheme);
    else if (curl_url_get(u, CURLUPART_HOST, &host, 0))
        st = ft_fail(err, FT_EINVAL, "%.200s names no host", url);
    else if (!curl_url_get(u, CURLUPART_USER, &user, 0))
        st = ft_fail(err, FT_EINVAL, "%.60s...: the address has a user name, want none", scheme);
    else if (!ft_image_url_listed(hosts, host))
        st = ft_fail(err, FT_EINVAL, "the host %.200s is not among those of --allow-image-urls",
                     host);
    curl_free(scheme);
    curl_free(host);
    curl_free(user);
    curl_url_cleanup(u);
    return st;
}

/* What a transfer ended with. *next: where it is redirected to; yours. */
static ft_status outcome(CURL *c, CURLcode rc, const transfer *t, const char *url, char **next,
                         ft_err *err)
{
    long code = 0;
    char *to = NULL;
    if (t->refused)
        return ft_fail(err, FT_EINVAL,
                       "%.200s: its host has a private or local address, want a public one", url);
    if (t->too_large || rc == CURLE_FILESIZE_EXCEEDED)
        return ft_fail(err, FT_ELIMIT, "%.200s: more than %zu bytes", url, t->rules->bytes);
    if (rc == CURLE_OPERATION_TIMEDOUT)
        return ft_fail(err, FT_ELIMIT, "%.200s: not received within %g seconds", url,
                       t->rules->seconds);
    if (rc) return ft_fail(err, FT_EIO, "%.200s: %s", url, curl_easy_strerror(rc));
    curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &code);
    curl_easy_getinfo(c, CURLINFO_REDIRECT_URL, &to);
    if (code >= 300 && code < 400 && to) {
        *next = ft_strdup(to);
        return FT_OK;
    }
    if (code == 200) return FT_OK;
    return ft_fail(err, code >= 500 ? FT_EIO : FT_EINVAL, "%.200s: status %ld, want 200", url,
                   code);
}

static ft_status get_one(const char *url, transfer *t, double seconds, char **next, ft_err *err)
{
    ft_status st = check_url(url, t->rules->hosts, err);
    if (st) return st;
    CURL *c = open_handle(url, t, seconds);
    if (!c) return ft_fail(err, FT_ENOMEM, "libcurl cannot be initialised");
    ft_buf_clear(&t->b);
    st = outcome(c, curl_easy_perform(c), t, url, next, err);
    curl_easy_cleanup(c);
    return st;
}

static void init_curl(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

ft_status ft_image_url_get(const char *url, const ft_image_url_rules *r, void **bytes, size_t *n,
                           ft_err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_curl);
    const int64_t start = ft_now_ns();
    transfer t = {.rules = r};
    char *at = ft_strdup(url);
    ft_status st = FT_OK;
    ft_buf_init(&t.b, r->bytes + 1);
    for (int hops = 0; !st && at; hops++) {
        char *next = NULL;
        const double left = r->seconds - (double)(ft_now_ns() - start) * 1e-9;
        if (hops > FT_IMAGE_URL_REDIRECTS)
            st = ft_fail(err, FT_EINVAL, "%.200s: more than %d redirections", url,
                         FT_IMAGE_URL_REDIRECTS);
        else if (left <= 0)
            st = ft_fail(err, FT_ELIMIT, "%.200s: not received within %g seconds", url, r->seconds);
        else
            st = get_one(at, &t, left, &next, err);
        ft_free(at);
        at = next;
    }
    ft_free(at);
    if (!st) {
        *n = t.b.len;
        *bytes = t.b.len ? ft_buf_take(&t.b) : ft_strdup("");
    }
    ft_buf_release(&t.b);
    return st;
}

#else

ft_status ft_image_url_get(const char *url, const ft_image_url_rules *r, void **bytes, size_t *n,
                           ft_err *err)
{
    (void)r, (void)bytes, (void)n;
    return ft_fail(err, FT_EUNSUPPORTED, "%.200s: cannot download it: this build has no libcurl",
                   url);
}

#endif
