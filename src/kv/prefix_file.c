#define _GNU_SOURCE
#include "kv/prefix_file.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

enum {
    VERSION = 3,
    NAME_BYTES = 40,
    MAX_FILES = 1 << 14,
    MAX_HEAD = 8 << 20, /* header and ids of a file: two million tokens */
};

#define SUFFIX ".prefix"

/* The layout in the file, little-endian, without gaps. The ids follow, then pages, then state. */
typedef struct head {
    char magic[8];
    uint32_t version, page_rows;
    uint64_t digest, salt;
    uint64_t key[2], parent[2];
    uint32_t from, len;
    uint64_t pages, state; /* bytes */
    uint64_t sum_body;     /* of pages and state */
    uint64_t sum_head;     /* of this with 0 here, and of the ids */
} head;

_Static_assert(sizeof(head) == 104, "no gaps");

static const char magic[8] = {'f', 't', 'p', 'r', 'e', 'f', 'i', 'x'};

/* ---- blobs ---- */

ft_blob *ft_blob_new(size_t bytes)
{
    ft_blob *b = ft_try_alloc(sizeof *b + bytes);
    if (!b) return NULL;
    atomic_store(&b->users, 1);
    b->bytes = bytes;
    return b;
}

ft_blob *ft_blob_use(ft_blob *b)
{
    if (b) atomic_fetch_add(&b->users, 1);
    return b;
}

void ft_blob_drop(ft_blob *b)
{
    if (!b || atomic_fetch_sub(&b->users, 1) != 1) return;
    ft_copying_wait(&b->copying);
    if (b->release) b->release(b->elsewhere);
    ft_free(b);
}

bool ft_blob_wait(ft_blob *b)
{
    return !b || ft_copying_wait(&b->copying);
}

/* ---- sizes ---- */

int ft_point_pages_end(const ft_point_shape *s, int len)
{
    return (len + s->page_rows - 1) / s->page_rows;
}

size_t ft_point_pages_bytes(const ft_point_shape *s, int from, int len)
{
    return (size_t)(ft_point_pages_end(s, len) - from / s->page_rows) * s->page;
}

int ft_point_window_first(const ft_point_shape *s, int len)
{
    return s->window ? FT_MAX(0, len + 1 - s->window) / s->page_rows : 0;
}

size_t ft_point_state_bytes(const ft_point_shape *s, int len)
{
    const int n = s->window ? ft_point_pages_end(s, len) - ft_point_window_first(s, len) : 0;
    return (size_t)n * s->window_page + s->rest;
}

/* ---- one file ---- */

static uint64_t head_sum(head h, const int32_t *ids, size_t n)
{
    h.sum_head = 0;
    return XXH3_64bits_withSeed(ids, n * sizeof *ids, XXH3_64bits(&h, sizeof h));
}

static uint64_t body_sum(const void *pages, size_t n_pages, const void *state, size_t n_state)
{
    return XXH3_64bits_withSeed(state, n_state, XXH3_64bits(pages, n_pages));
}

static ft_status check_head(const head *h, uint64_t file_bytes, const ft_point_shape *s,
                            ft_err *err)
{
    const uint32_t rows = (uint32_t)s->page_rows;
    if (memcmp(h->magic, magic, sizeof magic)) return ft_fail(err, FT_EFORMAT, "not a prefix file");
    if (h->version != VERSION)
        return ft_fail(err, FT_EUNSUPPORTED, "prefix file of version %u, want %d", h->version,
                       VERSION);
    if (h->digest != s->digest || h->page_rows != rows)
        return ft_fail(err, FT_EUNSUPPORTED, "prefix file of another model or cache");
    if (h->len == 0 || h->len > (uint32_t)s->cells || h->from >= h->len)
        return ft_fail(err, FT_EFORMAT, "prefix file of cells %u to %u, want up to %d", h->from,
                       h->len, s->cells);
    const size_t pages = ft_point_pages_bytes(s, (int)h->from, (int)h->len);
    const size_t state = ft_point_state_bytes(s, (int)h->len);
    const uint64_t want =
        sizeof *h + sizeof(int32_t) * (uint64_t)(h->len - h->from) + h->pages + h->state;
    if (h->pages != pages || (h->state != state && h->state != 0) || file_bytes != want)
        return ft_fail(err, FT_EFORMAT, "prefix file of %llu bytes, want %llu",
                       (unsigned long long)file_bytes, (unsigned long long)want);
    return FT_OK;
}

static ft_status read_body(ft_point *p, const head *h, const unsigned char *at, ft_err *err)
{
    const unsigned char *state = at + h->pages;
    if (body_sum(at, h->pages, state, h->state) != h->sum_body)
        return ft_fail(err, FT_EFORMAT, "prefix file with a wrong checksum");
    p->pages = ft_blob_new(h->pages);
    if (h->state) p->state = ft_blob_new(h->state);
    if (!p->pages || (h->state && !p->state))
        return ft_fail(err, FT_ENOMEM, "no memory for a prefix of %u tokens", h->len);
    memcpy(p->pages->data, at, h->pages);
    if (h->state) memcpy(p->state->data, state, h->state);
    return FT_OK;
}

ft_status ft_point_parse(ft_point *out, const void *data, size_t n, uint64_t file_bytes,
                         const ft_point_shape *s, bool whole, ft_err *err)
{
    const unsigned char *at = data;
    head h;
    *out = (ft_point){0};
    if (n < sizeof h) return ft_fail(err, FT_EFORMAT, "file ends inside the prefix header");
    memcpy(&h, at, sizeof h);
    ft_status st = check_head(&h, file_bytes, s, err);
    if (st) return st;
    const size_t n_ids = h.len - h.from, ids = n_ids * sizeof(int32_t);
    if (n - sizeof h < ids || (whole && n != file_bytes))
        return ft_fail(err, FT_EFORMAT, "prefix file ends early");
    out->ids = ft_new_n(int32_t, n_ids);
    memcpy(out->ids, at + sizeof h, ids);
    out->salt = h.salt;
    out->key = (ft_key){h.key[0], h.key[1]};
    out->parent = (ft_key){h.parent[0], h.parent[1]};
    out->from = (int)h.from;
    out->len = (int)h.len;
    if (head_sum(h, out->ids, n_ids) != h.sum_head)
        st = ft_fail(err, FT_EFORMAT, "prefix file with a wrong checksum");
    if (!st && whole) st = read_body(out, &h, at + sizeof h + ids, err);
    if (st) ft_point_release(out);
    return st;
}

void ft_point_release(ft_point *p)
{
    ft_free(p->ids);
    ft_blob_drop(p->pages);
    ft_blob_drop(p->state);
    *p = (ft_point){0};
}

uint64_t ft_point_bytes(const ft_point *p)
{
    return sizeof(head) + sizeof *p->ids * (uint64_t)(p->len - p->from) + p->pages->bytes +
           (p->state ? p->state->bytes : 0);
}

void ft_point_put(ft_out_file *o, const ft_point *p, const ft_point_shape *s)
{
    const size_t n_ids = (size_t)(p->len - p->from), state = p->state ? p->state->bytes : 0;
    head h = {
        .version = VERSION,
        .page_rows = (uint32_t)s->page_rows,
        .digest = s->digest,
        .salt = p->salt,
        .key = {p->key.low, p->key.high},
        .parent = {p->parent.low, p->parent.high},
        .from = (uint32_t)p->from,
        .len = (uint32_t)p->len,
        .pages = p->pages->bytes,
        .state = state,
        .sum_body =
            body_sum(p->pages->data, p->pages->bytes, p->state ? p->state->data : NULL, state),
    };
    memcpy(h.magic, magic, sizeof magic);
    h.sum_head = head_sum(h, p->ids, n_ids);
    ft_out_write(o, &h, sizeof h);
    ft_out_write(o, p->ids, n_ids * sizeof *p->ids);
    ft_out_write(o, p->pages->data, p->pages->bytes);
    if (state) ft_out_write(o, p->state->data, state);
}

static ft_status write_point(const char *path, const ft_point *p, const ft_point_shape *s,
                             ft_err *err)
{
    ft_out_file *o;
    const ft_status st = ft_out_open_private(&o, path, err);
    if (st) return st;
    ft_point_put(o, p, s);
    return ft_out_commit(o, err);
}

/* ---- the folder ---- */

typedef struct order {
    ft_point p; /* to write; without pages: to remove */
    struct order *next;
} order;

struct ft_point_dir {
    char *path;
    ft_point_shape s;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work;
    order *first, *last;
    bool closing, complained;
};

static char *file_of(const ft_point_dir *d, ft_key k)
{
    const size_t n = strlen(d->path) + NAME_BYTES + sizeof SUFFIX;
    char *z = ft_alloc(n);
    snprintf(z, n, "%s/%016llx%016llx" SUFFIX, d->path, (unsigned long long)k.high,
             (unsigned long long)k.low);
    return z;
}

static void carry_out(ft_point_dir *d, const order *o)
{
    char *path = file_of(d, o->p.key);
    ft_err err;
    if (!o->p.pages) {
        unlink(path);
    } else if (ft_blob_wait(o->p.pages) && ft_blob_wait(o->p.state) &&
               write_point(path, &o->p, &d->s, &err) && !d->complained) {
        d->complained = true; /* a full disk would be reported for every checkpoint */
        ft_log(FT_LOG_WARN, "the prefix cache cannot be written: %s", err.text);
    }
    ft_free(path);
}

static void *writer(void *user)
{
    ft_point_dir *d = user;
    pthread_mutex_lock(&d->lock);
    for (;;) {
        while (!d->first && !d->closing) pthread_cond_wait(&d->work, &d->lock);
        order *o = d->first;
        if (!o) break;
        d->first = o->next;
        if (!d->first) d->last = NULL;
        pthread_mutex_unlock(&d->lock);
        carry_out(d, o);
        ft_point_release(&o->p);
        ft_free(o);
        pthread_mutex_lock(&d->lock);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

ft_status ft_point_dir_open(ft_point_dir **out, const char *path, const ft_point_shape *s,
                            ft_err *err)
{
    ft_status st = ft_folder_private(path, err);
    if (st) return st;
    ft_point_dir *d = ft_new(ft_point_dir);
    const size_t n = strlen(path) + 32;
    d->path = ft_alloc(n);
    d->s = *s;
    snprintf(d->path, n, "%s/%016llx", path, (unsigned long long)s->digest);
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->work, NULL);
    st = ft_folder_private(d->path, err);
    if (!st && pthread_create(&d->thread, NULL, writer, d))
        st = ft_fail(err, FT_EIO, "the thread that writes the prefix cache could not be started");
    if (st) {
        ft_free(d->path);
        ft_free(d);
        return st;
    }
    *out = d;
    return FT_OK;
}

void ft_point_dir_close(ft_point_dir *d)
{
    if (!d) return;
    pthread_mutex_lock(&d->lock);
    d->closing = true;
    pthread_cond_signal(&d->work);
    pthread_mutex_unlock(&d->lock);
    pthread_join(d->thread, NULL);
    pthread_mutex_destroy(&d->lock);
    pthread_cond_destroy(&d->work);
    ft_free(d->path);
    ft_free(d);
}

static void give(ft_point_dir *d, ft_point p)
{
    order *o = ft_new(order);
    o->p = p;
    pthread_mutex_lock(&d->lock);
    if (d->last)
        d->last->next = o;
    else
        d->first = o;
    d->last = o;
    pthread_cond_signal(&d->work);
    pthread_mutex_unlock(&d->lock);
}

void ft_point_dir_write(ft_point_dir *d, const ft_point *p)
{
    ft_point copy = *p;
    const size_t n = (size_t)(p->len - p->from);
    copy.ids = ft_new_n(int32_t, n);
    memcpy(copy.ids, p->ids, n * sizeof *p->ids);
    copy.pages = ft_blob_use(p->pages);
    copy.state = ft_blob_use(p->state);
    give(d, copy);
}

void ft_point_dir_remove(ft_point_dir *d, ft_key key)
{
    give(d, (ft_point){.key = key});
}

/* ---- reading it ---- */

ft_status ft_point_dir_load(ft_point_dir *d, ft_point *p, ft_err *err)
{
    char *path = file_of(d, p->key);
    ft_map map;
    ft_status st = ft_map_open_private(&map, path, err);
    if (!st) {
        ft_point got;
        st = ft_point_parse(&got, map.data, map.bytes, map.bytes, &d->s, true, err);
        if (!st && (got.from != p->from || got.len != p->len || got.salt != p->salt ||
                    memcmp(got.ids, p->ids, sizeof *p->ids * (size_t)(p->len - p->from))))
            st = ft_fail(err, FT_EFORMAT, "prefix file of other ids");
        if (!st) {
            ft_blob_drop(p->pages);
            ft_blob_drop(p->state);
            p->pages = ft_blob_use(got.pages);
            p->state = ft_blob_use(got.state);
        }
        ft_point_release(&got);
        ft_map_close(&map);
    }
    if (st) ft_err_prefix(err, "%s", path);
    ft_free(path);
    return st;
}

static int by_from(const void *a, const void *b)
{
    const ft_point *x = a, *y = b;
    return x->from != y->from ? (x->from > y->from) - (x->from < y->from)
                              : (x->len > y->len) - (x->len < y->len);
}

static ft_status read_head(ft_point *p, const ft_point_dir *d, const char *path, ft_err *err)
{
    unsigned char *data;
    size_t n;
    uint64_t size;
    ft_status st = ft_file_begin(&data, &n, &size, path, MAX_HEAD, err);
    if (st) return st;
    st = ft_point_parse(p, data, n, size, &d->s, false, err);
    ft_free(data);
    return st;
}

void ft_point_dir_list(ft_point_dir *d, void (*fn)(void *user, ft_point *p), void *user)
{
    DIR *dir = opendir(d->path);
    ft_point *list = NULL;
    size_t n = 0, cap = 0;
    for (struct dirent *e; dir && n < MAX_FILES && (e = readdir(dir));) {
        const size_t bytes = strlen(e->d_name);
        if (bytes != 32 + strlen(SUFFIX) || strcmp(e->d_name + 32, SUFFIX)) continue;
        char *path = ft_alloc(strlen(d->path) + bytes + 2);
        sprintf(path, "%s/%s", d->path, e->d_name);
        ft_point p;
        ft_err err;
        if (n == cap) list = ft_realloc(list, sizeof *list * (cap = FT_MAX(64, 2 * cap)));
        if (read_head(&p, d, path, &err)) {
            ft_log(FT_LOG_WARN, "%s: %s", path, err.text);
            unlink(path); /* it can never be used */
        } else {
            list[n++] = p;
        }
        ft_free(path);
    }
    if (dir) closedir(dir);
    if (n) qsort(list, n, sizeof *list, by_from);
    for (size_t i = 0; i < n; i++) fn(user, &list[i]);
    ft_free(list);
}
