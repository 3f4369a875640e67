/* cli/hub_get.c - downloads with libcurl. An interrupted transfer is resumed a few times, and again
 * the next time the program is started. */
#define _POSIX_C_SOURCE 200809L
#include "cli/hub.h"

#ifdef FT_HAVE_CURL
#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/sha256.h"
#include "cli/progress.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum { TRIES = 5, CONNECT_S = 20, SILENT_S = 30, REDIRECTS = 8 };

static _Thread_local struct {
    ft_hub_watch_fn *fn;
    void *user;
} watch;

void ft_hub_watch(ft_hub_watch_fn *fn, void *user)
{
    watch.fn = fn;
    watch.user = user;
}

static CURL *handle(ft_hub_url from)
{
    static bool ready;
    if (!ready) curl_global_init(CURL_GLOBAL_DEFAULT);
    ready = true;
    CURL *c = curl_easy_init();
    if (!c) return NULL;
    curl_easy_setopt(c, CURLOPT_URL, from.url);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "foretoken");
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(c, CURLOPT_MAXREDIRS, (long)REDIRECTS);
#if LIBCURL_VERSION_NUM >= 0x075500 /* 7.85 */
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(c, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
    curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    curl_easy_setopt(c, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)SILENT_S);
    if (from.token && *from.token) {
        curl_easy_setopt(c, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
        curl_easy_setopt(c, CURLOPT_XOAUTH2_BEARER, from.token);
    }
    return c;
}

/* The error message for a failed transfer. */
static ft_status explain(CURL *c, CURLcode rc, const char *url, ft_err *err)
{
    long code = 0;
    curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &code);
    if (rc != CURLE_HTTP_RETURNED_ERROR)
        return ft_fail(err, FT_EIO, "%.300s: %s", url, curl_easy_strerror(rc));
    if (code == 401 || code == 403)
        return ft_fail(err, FT_EINVAL,
                       "%.300s: access denied (status %ld); set HF_TOKEN or --hf-token to a "
                       "token that can read it",
                       url, code);
    if (code == 404) return ft_fail(err, FT_ENOTFOUND, "%.300s: not found (status 404)", url);
    return ft_fail(err, FT_EIO, "%.300s: status %ld, want 200", url, code);
}

/* ---- into memory ---- */

typedef struct sink {
    ft_buf b;
    size_t max;
} sink;

static size_t to_memory(char *p, size_t size, size_t n, void *user)
{
    sink *s = user;
    if (n * size > s->max - s->b.len) return 0;
    ft_buf_put(&s->b, p, n * size);
    return n * size;
}

ft_status ft_hub_size(ft_hub_url url, uint64_t *bytes, ft_err *err)
{
    CURL *c = handle(url);
    if (!c) return ft_fail(err, FT_ENOMEM, "libcurl cannot be initialised");
    curl_off_t n = -1;
    curl_easy_setopt(c, CURLOPT_NOBODY, 1L);
    const CURLcode rc = curl_easy_perform(c);
    ft_status st = rc ? explain(c, rc, url.url, err) : FT_OK;
    if (!st) curl_easy_getinfo(c, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &n);
    if (!st && n <= 0)
        st =
            ft_fail(err, FT_EFORMAT, "%.300s: the host does not say how long the file is", url.url);
    *bytes = (uint64_t)n;
    curl_easy_cleanup(c);
    return st;
}

ft_status ft_hub_get(ft_hub_url url, size_t max, char **out, size_t *n, ft_err *err)
{
    CURL *c = handle(url);
    if (!c) return ft_fail(err, FT_ENOMEM, "libcurl cannot be initialised");
    sink s = {.max = max};
    ft_buf_init(&s.b, max + 1);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, to_memory);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, &s);
    const CURLcode rc = curl_easy_perform(c);
    ft_status st = FT_OK;
    if (rc == CURLE_WRITE_ERROR)
        st = ft_fail(err, FT_ELIMIT, "%.300s: more than %zu bytes", url.url, max);
    else if (rc)
        st = explain(c, rc, url.url, err);
    else {
        *out = ft_strdup(ft_buf_z(&s.b));
        *n = strlen(*out);
    }
    ft_buf_release(&s.b);
    curl_easy_cleanup(c);
    return st;
}

/* ---- into a file ---- */

typedef struct download {
    FILE *f;
    uint64_t have, bytes;
    ft_sha256 sum;
    ft_progress *bar;
    const char *name, *sha256;
    bool full, too_long, ended;
} download;

static size_t to_file(char *p, size_t size, size_t n, void *user)
{
    download *d = user;
    const size_t k = n * size;
    if (k > d->bytes - d->have) {
        d->too_long = true;
        return 0;
    }
    if (fwrite(p, 1, k, d->f) != k) {
        d->full = true;
        return 0;
    }
    ft_sha256_add(&d->sum, p, k);
    ft_progress_add(d->bar, k);
    d->have += k;
    d->ended = watch.fn && !watch.fn(watch.user, d->name, d->sha256, d->have, d->bytes);
    return d->ended ? 0 : k;
}

/* Hashes what an earlier run has downloaded. */
static ft_status resume(download *d, const char *part, ft_err *err)
{
    unsigned char *chunk = ft_alloc(1 << 20);
    size_t n;
    rewind(d->f);
    ft_sha256_init(&d->sum);
    d->have = 0;
    while ((n = fread(chunk, 1, 1 << 20, d->f)) > 0) {
        ft_sha256_add(&d->sum, chunk, n);
        d->have += n;
    }
    ft_free(chunk);
    if (ferror(d->f)) return ft_fail(err, FT_EIO, "%s: %s", part, strerror(errno));
    ft_progress_add(d->bar, d->have);
    return FT_OK;
}

static ft_status start_over(download *d, const char *part, ft_err *err)
{
    rewind(d->f);
    if (ftruncate(fileno(d->f), 0)) return ft_fail(err, FT_EIO, "%s: %s", part, strerror(errno));
    ft_sha256_init(&d->sum);
    d->have = 0;
    return FT_OK;
}

static bool worth_another(CURLcode rc, CURL *c)
{
    long code = 0;
    curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &code);
    if (rc == CURLE_HTTP_RETURNED_ERROR) return code >= 500 || code == 408 || code == 429;
    return rc == CURLE_PARTIAL_FILE || rc == CURLE_RECV_ERROR || rc == CURLE_GOT_NOTHING ||
           rc == CURLE_OPERATION_TIMEDOUT || rc == CURLE_COULDNT_CONNECT || rc == CURLE_SEND_ERROR;
}

static ft_status transfer(download *d, ft_hub_url url, const char *part, ft_err *err)
{
    for (int attempt = 1;; attempt++) {
        CURL *c = handle(url);
        if (!c) return ft_fail(err, FT_ENOMEM, "libcurl cannot be initialised");
        curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, to_file);
        curl_easy_setopt(c, CURLOPT_WRITEDATA, d);
        curl_easy_setopt(c, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)d->have);
        const uint64_t before = d->have;
        const CURLcode rc = curl_easy_perform(c);
        ft_status st = FT_OK;
        bool again = false;
        if (d->too_long)
            st = ft_fail(err, FT_EFORMAT, "%.300s: longer than the %llu bytes of the listing",
                         url.url, (unsigned long long)d->bytes);
        else if (d->full)
            st = ft_fail(err, FT_EIO, "%s: %s", part, strerror(errno));
        else if (d->ended)
            st = ft_fail(err, FT_EIO, "%s: the download was ended", part);
        else if (rc == CURLE_RANGE_ERROR) { /* the host cannot resume: start again */
            st = start_over(d, part, err);
            again = !st;
        } else if (rc) {
            st = explain(c, rc, url.url, err);
            again = worth_another(rc, c);
        }
        curl_easy_cleanup(c);
        if (!rc || !again || (st && attempt >= TRIES)) return st;
        if (d->have > before) attempt = 0; /* some bytes came: not a failed attempt */
        if (st) nanosleep(&(struct timespec){attempt, 200000000}, NULL);
    }
}

/* Is there enough disk space for the rest? */
static ft_status room(const char *part, uint64_t want, ft_err *err)
{
    struct statvfs v;
    char *folder = ft_strdup(part), *slash = strrchr(folder, '/');
    if (slash) *slash = 0;
    const bool known = !statvfs(slash ? folder : ".", &v);
    const uint64_t have = known ? (uint64_t)v.f_bavail * v.f_frsize : UINT64_MAX;
    ft_free(folder);
    if (have >= want) return FT_OK;
    return ft_fail(err, FT_EIO, "%s: %llu bytes to download, but only %llu bytes of disk space",
                   part, (unsigned long long)want, (unsigned long long)have);
}

static ft_status finish(download *d, const char *part, const char *path, const char *sha256,
                        ft_err *err)
{
    char sum[65], note[4200];
    ft_sha256_hex(&d->sum, sum);
    if (d->have != d->bytes)
        return ft_fail(err, FT_EIO, "%s: %llu bytes downloaded, want %llu", path,
                       (unsigned long long)d->have, (unsigned long long)d->bytes);
    if (*sha256 && strcmp(sum, sha256)) {
        unlink(part);
        return ft_fail(err, FT_EFORMAT, "%s: its SHA-256 is %s, want %s; the download is discarded",
                       path, sum, sha256);
    }
    if (fflush(d->f) || fsync(fileno(d->f)) || rename(part, path))
        return ft_fail(err, FT_EIO, "%s: %s", path, strerror(errno));
    snprintf(note, sizeof note, "%s.sha256", path);
    FILE *f = fopen(note, "w"); /* without it the file is downloaded again */
    if (f) {
        fprintf(f, "%s\n", sum);
        fclose(f);
    }
    return FT_OK;
}

ft_status ft_hub_fetch(ft_hub_url url, const char *path, uint64_t bytes, const char *sha256,
                       bool quiet, ft_err *err)
{
    char part[4200];
    download d = {.bytes = bytes};
    if (snprintf(part, sizeof part, "%s.part", path) >= (int)sizeof part)
        return ft_fail(err, FT_ELIMIT, "%.100s...: the path is too long", path);
    const int fd = open(part, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0 || !(d.f = fdopen(fd, "r+b")))
        return ft_fail(err, FT_EIO, "%s: %s", part, strerror(errno));
    ft_status st = FT_OK;
    if (flock(fd, LOCK_EX | LOCK_NB))
        st = ft_fail(err, FT_EIO, "%s: another program is downloading it", path);
    d.name = ft_file_name(path);
    d.sha256 = sha256;
    d.bar = ft_progress_new(d.name, bytes, quiet ? NULL : ft_bar_download, NULL);
    if (!st) st = resume(&d, part, err);
    if (!st && d.have > bytes) st = start_over(&d, part, err);
    if (!st) st = room(part, bytes - d.have, err);
    if (!st && fseek(d.f, 0, SEEK_END)) st = ft_fail(err, FT_EIO, "%s: %s", part, strerror(errno));
    if (!st && d.have < bytes) st = transfer(&d, url, part, err);
    ft_progress_free(d.bar);
    if (!st) st = finish(&d, part, path, sha256, err);
    fclose(d.f);
    return st;
}

#else

void ft_hub_watch(ft_hub_watch_fn *fn, void *user)
{
    (void)fn, (void)user;
}

ft_status ft_hub_size(ft_hub_url url, uint64_t *bytes, ft_err *err)
{
    (void)bytes;
    return ft_fail(err, FT_EUNSUPPORTED, "%.300s: cannot download it: this build has no libcurl",
                   url.url);
}

ft_status ft_hub_get(ft_hub_url url, size_t max, char **out, size_t *n, ft_err *err)
{
    (void)max, (void)out, (void)n;
    return ft_fail(err, FT_EUNSUPPORTED, "%.300s: cannot download it: this build has no libcurl",
                   url.url);
}

ft_status ft_hub_fetch(ft_hub_url url, const char *path, uint64_t bytes, const char *sha256,
                       bool quiet, ft_err *err)
{
    (void)path, (void)bytes, (void)sha256, (void)quiet;
    return ft_fail(err, FT_EUNSUPPORTED, "%.300s: cannot download it: this build has no libcurl",
                   url.url);
}

#endif
