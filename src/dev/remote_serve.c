/* dev/remote_serve.c - a rank that computes for rank 0: reads its commands, carries them out on a
 * device of its own, and answers those that want an answer. An error sticks: it is the answer to
 * all later commands. */
#include "base/file.h"
#include "base/mem.h"
#include "dev/remote_serve_priv.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_FILES = 64, ARENA = 1 << 20, PATHS = 4096 };

/* ---- reading arguments ---- */

const void *ft_serve_bytes(ft_remote_server *s, size_t n)
{
    static const unsigned char zeros[4096];
    if (n > s->left) {
        s->left = 0;
        ft_serve_fail(s, FT_EFORMAT, "a command of rank 0 is cut off");
        return n <= sizeof zeros ? zeros : NULL;
    }
    const unsigned char *p = s->at;
    s->at += n;
    s->left -= n;
    return p;
}

static uint64_t take_u64(ft_remote_server *s)
{
    uint64_t v;
    memcpy(&v, ft_serve_bytes(s, sizeof v), sizeof v);
    return v;
}

static const char *take_text(ft_remote_server *s)
{
    const uint64_t n = take_u64(s);
    const char *text = n && n <= PATHS ? ft_serve_bytes(s, n) : NULL;
    return text && !text[n - 1] ? text : "";
}

void ft_serve_fail(ft_remote_server *s, ft_status code, const char *text)
{
    if (!s->failed) s->failed = ft_fail(&s->error, code, "%s", text);
}

/* Memory that lasts until the next step: ops keep pointers to their arguments until they run. */
void *ft_serve_scratch(ft_remote_server *s, size_t n)
{
    n = ft_round_up(n, 16);
    assert(s->arena_used + n <= ARENA);
    void *p = s->arena + s->arena_used;
    s->arena_used += n;
    return p;
}

void ft_serve_scratch_ready(ft_remote_server *s)
{
    if (s->arena_used < ARENA / 2) return; /* no op needs more than the other half */
    s->dev->commit(s->dev);
    s->arena_used = 0;
}

/* ---- answers ---- */

static void reply(ft_remote_server *s, ft_status st, const ft_err *err, const void *p, size_t n)
{
    ft_remote_answer a = {.status = s->failed ? s->failed : st};
    const ft_err *why = s->failed ? &s->error : err;
    a.bytes = a.status ? 0 : (uint32_t)n;
    if (a.status) snprintf(a.text, sizeof a.text, "%.239s", why ? why->text : "");
    ft_link_send(0, FT_LINK_REPLY, &a, sizeof a);
    if (!a.status && n) ft_link_send(0, FT_LINK_REPLY, p, n);
}

/* ---- memory ---- */

/* Allocations are in the order of their addresses, which only grow. */
void *ft_serve_address(const ft_remote_server *s, uint64_t p)
{
    int lo = 0, hi = s->n_mem;
    if (!p) return NULL;
    while (lo < hi) {
        const int mid = (lo + hi) / 2;
        if (s->mem[mid].at > p)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo ? s->mem[lo - 1].p + (p - s->mem[lo - 1].at) : NULL;
}

static void *take_address(ft_remote_server *s)
{
    return ft_serve_address(s, take_u64(s));
}

static void alloc_memory(ft_remote_server *s)
{
    const uint64_t at = take_u64(s), bytes = take_u64(s);
    ft_err err = {0};
    ft_status st = FT_OK;
    void *p = s->failed ? NULL : s->dev->alloc(s->dev, bytes);
    if (!p)
        st = ft_fail(&err, FT_ENOMEM, "no device memory for %llu bytes", (unsigned long long)bytes);
    if (p) {
        s->mem = ft_realloc(s->mem, sizeof *s->mem * (size_t)(s->n_mem + 1));
        s->mem[s->n_mem++] = (ft_serve_mem){at, bytes, p};
    }
    reply(s, st, &err, NULL, 0);
}

static void free_memory(ft_remote_server *s)
{
    const uint64_t at = take_u64(s);
    for (int i = 0; i < s->n_mem; i++) {
        if (s->mem[i].at != at) continue;
        s->dev->free(s->dev, s->mem[i].p);
        memmove(&s->mem[i], &s->mem[i + 1], sizeof *s->mem * (size_t)(--s->n_mem - i));
        return;
    }
}

/* Values that were written behind the device's back: it may have copies of them in other forms. */
static void wrote(ft_remote_server *s)
{
    if (s->dev->unified) s->dev->record(s->dev, s->dev->batch);
}

static void write_memory(ft_remote_server *s)
{
    void *to = take_address(s);
    const uint64_t n = take_u64(s);
    const void *from = ft_serve_bytes(s, n);
    if (s->failed) return;
    s->dev->commit(s->dev);
    s->dev->upload(s->dev, to, from, n);
    wrote(s);
}

static void *staging(ft_remote_server *s, size_t n)
{
    if (n > s->stage_bytes) {
        ft_free(s->stage);
        s->stage = ft_alloc(s->stage_bytes = n);
    }
    return s->stage;
}

/* The bytes at an address of the device, in host memory. */
static const void *read_memory(ft_remote_server *s, const void *from, size_t n)
{
    s->dev->commit(s->dev);
    if (s->dev->unified) return from;
    s->dev->download(s->dev, staging(s, n), from, n);
    return s->stage;
}

static void move_memory(ft_remote_server *s)
{
    void *to = take_address(s), *from = take_address(s);
    const uint64_t n = take_u64(s);
    if (s->failed) return;
    s->dev->commit(s->dev);
    s->dev->move(s->dev, to, from, n);
    wrote(s);
}

static void push(ft_remote_server *s)
{
    const int rank = (int)take_u64(s);
    const void *from = take_address(s);
    const uint64_t n = take_u64(s);
    if (s->failed) from = staging(s, n); /* the other rank waits for them */
    ft_link_send(rank, FT_LINK_ROWS, s->failed ? from : read_memory(s, from, n), n);
}

static void pull(ft_remote_server *s)
{
    const int rank = (int)take_u64(s);
    void *to = take_address(s);
    const uint64_t n = take_u64(s);
    ft_err err = {0};
    s->dev->commit(s->dev);
    const bool direct = s->dev->unified && !s->failed;
    void *host = direct ? to : staging(s, n);
    if (ft_link_recv(rank, FT_LINK_ROWS, host, n, &err)) ft_serve_fail(s, FT_EIO, err.text);
    if (s->failed) return;
    if (!direct) s->dev->upload(s->dev, to, host, n);
    wrote(s);
}

/* ---- weights ---- */

static void open_file(ft_remote_server *s)
{
    const char *named = take_text(s);
    const uint64_t bytes = take_u64(s), digest = take_u64(s);
    const bool model = s->theirs && !strcmp(named, s->theirs) && s->p.own;
    const char *path = model ? s->p.own : named;
    ft_err err = {0};
    ft_map m = {0};
    ft_status st = s->n_file == MAX_FILES
                       ? ft_fail(&err, FT_ELIMIT, "more than %d files", MAX_FILES)
                       : ft_map_open(&m, path, true, &err);
    if (!st && m.bytes != bytes)
        st =
            ft_fail(&err, FT_EINVAL, "%s is another file than that of rank 0: %zu bytes, want %llu",
                    path, m.bytes, (unsigned long long)bytes);
    else if (!st && ft_remote_digest(m.data, m.bytes) != digest)
        st = ft_fail(&err, FT_EINVAL, "%s is another file than that of rank 0: its digest differs",
                     path);
    if (!st)
        s->file[s->n_file++] = m;
    else
        ft_map_close(&m);
    reply(s, st, &err, NULL, 0);
}

static void bind_weight(ft_remote_server *s)
{
    uint32_t id;
    ft_err err = {0};
    ft_serve_weight w = {0};
    memcpy(&id, ft_serve_bytes(s, sizeof id), sizeof id);
    memcpy(&w.w, ft_serve_bytes(s, sizeof w.w), sizeof w.w);
    const uint64_t bytes = take_u64(s), file = take_u64(s), at = take_u64(s);
    const void *data = NULL;
    if (file && file <= (uint64_t)s->n_file && at <= s->file[file - 1].bytes &&
        bytes <= s->file[file - 1].bytes - at)
        data = s->file[file - 1].data + at;
    else if (!file && ft_serve_bytes(s, 0) && bytes <= s->left)
        data = w.own = memcpy(ft_alloc_aligned(bytes + 64, 64), ft_serve_bytes(s, bytes), bytes);
    w.w.name = "a weight of rank 0";
    w.w.lora = NULL;
    w.w.scale = ft_serve_address(s, (uintptr_t)w.w.scale);
    w.w.data = w.w.packed = NULL;
    ft_status st = data ? s->dev->bind(s->dev, &w.w, data, &err)
                        : ft_fail(&err, FT_EFORMAT, "a weight outside of its file");
    if (id >= s->cap_weight && !st) {
        const uint32_t cap = 2 * id + 64;
        s->weight = ft_realloc(s->weight, sizeof *s->weight * cap);
        memset(s->weight + s->cap_weight, 0, sizeof *s->weight * (cap - s->cap_weight));
        s->cap_weight = cap;
    }
    if (!st) s->weight[id] = w;
    reply(s, st, &err, NULL, 0);
}

static void unbind_weight(ft_remote_server *s)
{
    uint32_t id;
    memcpy(&id, ft_serve_bytes(s, sizeof id), sizeof id);
    if (id >= s->cap_weight || !s->weight[id].w.data) return;
    s->dev->unbind(s->dev, &s->weight[id].w);
    ft_free(s->weight[id].own);
    s->weight[id] = (ft_serve_weight){0};
}

/* ---- the device ---- */

static void open_device(ft_remote_server *s)
{
    ft_err err = {0};
    ft_remote_facts f = {0};
    s->failed = FT_OK;
    const ft_status st = ft_dev_open(&s->dev, s->p.device, s->p.threads, &err);
    if (!st) {
        snprintf(f.name, sizeof f.name, "%.16s on %.40s", s->dev->name,
                 ft_link_info(ft_link_rank())->host);
        f.threads = s->dev->threads;
        f.cpu = s->dev->cpu;
        f.moe_shared = s->dev->op->moe_shared != NULL;
        f.expert_linear = s->dev->op->expert_linear != NULL;
    }
    reply(s, st, &err, &f, sizeof f);
}

static void close_device(ft_remote_server *s)
{
    if (!s->dev) return;
    s->dev->commit(s->dev);
    s->dev->sync(s->dev, NULL);
    for (uint32_t i = 0; i < s->cap_weight; i++) {
        if (s->weight[i].w.data) s->dev->unbind(s->dev, &s->weight[i].w);
        ft_free(s->weight[i].own);
    }
    for (int i = 0; i < s->n_mem; i++) s->dev->free(s->dev, s->mem[i].p);
    for (int i = 0; i < s->n_file; i++) ft_map_close(&s->file[i]);
    for (int i = 0; i < 2; i++) ft_free(s->pages[i]);
    ft_dev_close(s->dev);
    ft_free(s->weight);
    ft_free(s->mem);
    ft_free(s->batch_bytes);
    s->weight = NULL;
    s->mem = NULL;
    s->batch_bytes = NULL;
    s->dev = NULL;
    s->pages[0] = s->pages[1] = NULL;
    s->cap_weight = 0;
    s->n_mem = s->n_file = 0;
    s->n_pages = s->batch_cap = 0;
}

static void answer_sync(ft_remote_server *s)
{
    ft_err err = {0};
    s->dev->commit(s->dev);
    const ft_status st = s->dev->sync(s->dev, &err);
    if (st) ft_serve_fail(s, st, err.text);
    reply(s, st, &err, NULL, 0);
}

static void answer_read(ft_remote_server *s)
{
    const void *from = take_address(s);
    const uint64_t n = take_u64(s);
    reply(s, FT_OK, NULL, s->failed ? NULL : read_memory(s, from, n), n);
}

/* GPU or CPU memory that other ranks of this machine want too. */
static uint64_t share_of_memory(const ft_remote_server *s)
{
    const int n = s->dev->cpu ? ft_link_info(ft_link_rank())->local_size : 1;
    return s->dev->free_bytes(s->dev) / (uint64_t)FT_MAX(n, 1);
}

static void answer_number(ft_remote_server *s, ft_remote_op op)
{
    uint64_t n = 0;
    ft_weight w;
    ft_dev_limits l;
    if (op == FT_REMOTE_WEIGHT_BYTES) {
        memcpy(&w, ft_serve_bytes(s, sizeof w), sizeof w);
        n = s->dev->weight_bytes(s->dev, &w);
    } else if (op == FT_REMOTE_STEP_BYTES) {
        memcpy(&l, ft_serve_bytes(s, sizeof l), sizeof l);
        n = s->dev->step_bytes(s->dev, &l);
    } else {
        n = share_of_memory(s);
    }
    reply(s, FT_OK, NULL, &n, sizeof n);
}

static void answer_reserve(ft_remote_server *s)
{
    ft_dev_limits l;
    ft_err err = {0};
    memcpy(&l, ft_serve_bytes(s, sizeof l), sizeof l);
    reply(s, s->dev->reserve(s->dev, &l, &err), &err, NULL, 0);
}

static void take_model(ft_remote_server *s)
{
    ft_free(s->theirs);
    s->theirs = ft_strdup(take_text(s));
    reply(s, FT_OK, NULL, NULL, 0);
}

/* ---- commands ---- */

/* false: the end. */
static bool carry_out(ft_remote_server *s, ft_remote_op op)
{
    if (op == FT_REMOTE_END) return false;
    if (!s->dev && op != FT_REMOTE_OPEN && op != FT_REMOTE_MODEL && op != FT_REMOTE_CLOSE) {
        ft_serve_fail(s, FT_EFORMAT, "a command of rank 0 without a device");
        s->left = 0;
        return true;
    }
    switch (op) {
    case FT_REMOTE_CLOSE: close_device(s); break;
    case FT_REMOTE_FREE: free_memory(s); break;
    case FT_REMOTE_WRITE: write_memory(s); break;
    case FT_REMOTE_MOVE: move_memory(s); break;
    case FT_REMOTE_PUSH: push(s); break;
    case FT_REMOTE_PULL: pull(s); break;
    case FT_REMOTE_UNBIND: unbind_weight(s); break;
    case FT_REMOTE_RECORD: ft_serve_record(s); break;
    case FT_REMOTE_COMMIT: s->dev->commit(s->dev); break;
    case FT_REMOTE_OPEN: open_device(s); break;
    case FT_REMOTE_MODEL: take_model(s); break;
    case FT_REMOTE_FILE: open_file(s); break;
    case FT_REMOTE_ALLOC: alloc_memory(s); break;
    case FT_REMOTE_BIND: bind_weight(s); break;
    case FT_REMOTE_RESERVE: answer_reserve(s); break;
    case FT_REMOTE_READ: answer_read(s); break;
    case FT_REMOTE_SYNC: answer_sync(s); break;
    case FT_REMOTE_WEIGHT_BYTES:
    case FT_REMOTE_STEP_BYTES:
    case FT_REMOTE_FREE_BYTES: answer_number(s, op); break;
    default: ft_serve_op(s, op);
    }
    return true;
}

ft_status ft_remote_serve(const ft_remote_params *p, ft_err *err)
{
    ft_remote_server s = {.p = *p};
    bool more = true;
    ft_status st = FT_OK;
    s.arena = ft_alloc_aligned(ARENA, 64);
    while (more && !st) {
        void *message = NULL;
        size_t n = 0;
        st = ft_link_take(0, FT_LINK_COMMAND, &message, &n, err);
        s.at = message;
        s.left = n;
        while (more && !st && s.left) {
            uint32_t code;
            memcpy(&code, ft_serve_bytes(&s, sizeof code), sizeof code);
            more = carry_out(&s, (ft_remote_op)code);
        }
        ft_free(message);
    }
    close_device(&s);
    ft_free(s.arena);
    ft_free(s.stage);
    ft_free(s.theirs);
    return st;
}
