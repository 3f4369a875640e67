/* dev/remote_serve.c - a rank that computes for rank 0: reads its commands, carries them out on a
 * device of its own, and answers those that want an answer. An error sticks: it is the answer to
 * all later commands. */
#include "base/file.h"
#include "base/mem.h"
#include "dev/link_local.h"
#include "dev/remote_serve_priv.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    MAX_FILES = 64,
    ARENA = 1 << 20,
    PATHS = 4096,
    MAX_WEIGHTS = 1 << 20,
    MAX_SIZE = 1 << 26, /* of a dimension */
};

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
void *ft_serve_address(ft_remote_server *s, uint64_t p, uint64_t n)
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
    const ft_serve_mem *m = lo ? &s->mem[lo - 1] : NULL;
    if (m && p - m->at <= m->bytes && n <= m->bytes - (p - m->at)) return m->p + (p - m->at);
    ft_serve_fail(s, FT_EFORMAT, "a command of rank 0 uses memory that is not allocated");
    return NULL;
}

/* An address, a number of bytes, and the memory. */
static void *take_memory(ft_remote_server *s, uint64_t *n)
{
    const uint64_t at = take_u64(s);
    *n = take_u64(s);
    return ft_serve_address(s, at, *n);
}

static void alloc_memory(ft_remote_server *s)
{
    const uint64_t at = take_u64(s), bytes = take_u64(s);
    ft_err err = {0};
    ft_status st = FT_OK;
    s->top_stale = true;
    const ft_serve_mem *last = s->n_mem ? &s->mem[s->n_mem - 1] : NULL;
    if (!at || at + bytes < at || (last && at <= last->at + last->bytes))
        ft_serve_fail(s, FT_EFORMAT, "rank 0 allocates memory that it has already");
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
    uint64_t n;
    void *to = take_memory(s, &n);
    const void *from = ft_serve_bytes(s, n);
    if (s->failed || !to || !from) return;
    s->dev->commit(s->dev);
    s->dev->upload(s->dev, to, from, n);
    wrote(s);
}

static void free_staging(ft_remote_server *s)
{
    if (s->stage_pinned)
        s->dev->host_free(s->dev, s->stage);
    else
        ft_free(s->stage);
    s->stage = NULL;
    s->stage_bytes = 0;
    s->stage_pinned = false;
}

static void *staging(ft_remote_server *s, size_t n)
{
    if (n <= s->stage_bytes) return s->stage;
    free_staging(s);
    s->stage = s->dev && s->dev->host_alloc ? s->dev->host_alloc(s->dev, n) : NULL;
    s->stage_pinned = s->stage != NULL;
    if (!s->stage) s->stage = ft_alloc(n);
    s->stage_bytes = n;
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
    const uint64_t dst = take_u64(s);
    uint64_t n;
    void *from = take_memory(s, &n), *to = ft_serve_address(s, dst, n);
    if (s->failed || !to || !from) return;
    s->dev->commit(s->dev);
    s->dev->move(s->dev, to, from, n);
    wrote(s);
}

/* Whether these rows are sent from device memory, or received there: all steps before have run. */
static bool goes_direct(ft_remote_server *s, size_t n)
{
    ft_err err = {0};
    if (s->failed || ft_local_self() || n >= FT_LINK_PIECE) return false;
    if (!s->p.direct && (s->dev->unified || !ft_link_direct())) return false;
    s->dev->commit(s->dev);
    const ft_status st = s->dev->sync(s->dev, &err);
    if (st) ft_serve_fail(s, st, err.text);
    return !st;
}

static bool rank_exists(uint64_t rank)
{
    return ft_local_self() || rank < (uint64_t)ft_link_size();
}

static void push(ft_remote_server *s)
{
    const uint64_t rank = take_u64(s);
    uint64_t n;
    const void *from = take_memory(s, &n);
    if (!from || !rank_exists(rank)) {
        ft_serve_fail(s, FT_EFORMAT, "rank 0 wants rows to be sent that do not exist");
        return;
    }
    if (goes_direct(s, n)) {
        ft_err err = {0};
        const ft_status st = ft_link_send_direct((int)rank, FT_LINK_ROWS, from, n, &err);
        if (st) ft_serve_fail(s, st, err.text);
        return;
    }
    if (s->failed) from = staging(s, n); /* the other rank waits for them */
    ft_link_send((int)rank, FT_LINK_ROWS, s->failed ? from : read_memory(s, from, n), n);
}

static void pull(ft_remote_server *s)
{
    const uint64_t rank = take_u64(s);
    uint64_t n;
    void *to = take_memory(s, &n);
    ft_err err = {0};
    if (!to || !rank_exists(rank)) {
        ft_serve_fail(s, FT_EFORMAT, "rank 0 wants rows to be received that do not exist");
        return;
    }
    s->dev->commit(s->dev);
    const bool direct = goes_direct(s, n) || (s->dev->unified && !s->failed);
    void *host = direct ? to : staging(s, n);
    if (ft_link_recv((int)rank, FT_LINK_ROWS, host, n, &err)) ft_serve_fail(s, FT_EIO, err.text);
    if (s->failed) return;
    if (!direct) s->dev->upload(s->dev, to, host, n);
    wrote(s);
}

/* ---- copies of device memory ---- */

static uint32_t take_u32(ft_remote_server *s)
{
    uint32_t v;
    memcpy(&v, ft_serve_bytes(s, sizeof v), sizeof v);
    return v;
}

/* The copy under the number that comes next; NULL: there is none, which is an error. */
static ft_serve_kept *take_kept(ft_remote_server *s)
{
    const uint32_t number = take_u32(s);
    if (number < s->cap_kept && s->kept[number].p) return &s->kept[number];
    ft_serve_fail(s, FT_EFORMAT, "rank 0 uses a copy that does not exist");
    return NULL;
}

static void keep_memory(ft_remote_server *s)
{
    const uint32_t number = take_u32(s);
    const uint64_t bytes = take_u64(s);
    ft_err err = {0};
    ft_status st = FT_OK;
    if (number >= FT_REMOTE_KEPT || (number < s->cap_kept && s->kept[number].p) || !bytes)
        ft_serve_fail(s, FT_EFORMAT, "rank 0 makes a copy that it has already");
    uint64_t all = 0;
    for (int i = 0; i < s->n_mem; i++) all += s->mem[i].bytes;
    if (bytes > all) ft_serve_fail(s, FT_EFORMAT, "rank 0 makes a copy that is too large");
    unsigned char *p = s->failed ? NULL : ft_try_alloc(bytes);
    if (!p) st = ft_fail(&err, FT_ENOMEM, "no memory for a copy");
    if (p && number >= s->cap_kept) {
        const uint32_t cap = 2 * number + 64;
        s->kept = ft_realloc(s->kept, sizeof *s->kept * cap);
        memset(s->kept + s->cap_kept, 0, sizeof *s->kept * (cap - s->cap_kept));
        s->cap_kept = cap;
    }
    if (p) s->kept[number] = (ft_serve_kept){p, bytes};
    reply(s, st, &err, NULL, 0);
}

static void free_kept(ft_remote_server *s)
{
    ft_serve_kept *k = take_kept(s);
    if (!k) return;
    ft_free(k->p);
    *k = (ft_serve_kept){0};
}

static void cut_kept(ft_remote_server *s)
{
    ft_serve_kept *k = take_kept(s);
    const uint64_t n = take_u64(s);
    if (!k || n >= k->bytes) return;
    k->bytes -= n;
    memmove(k->p, k->p + n, k->bytes);
    k->p = ft_realloc(k->p, k->bytes);
}

/* Between a copy and device memory. */
static void move_kept(ft_remote_server *s, bool save)
{
    const ft_serve_kept *k = take_kept(s);
    const uint64_t at = take_u64(s);
    uint64_t n;
    void *device = take_memory(s, &n);
    if (k && (at > k->bytes || n > k->bytes - at))
        ft_serve_fail(s, FT_EFORMAT, "rank 0 uses bytes that a copy does not have");
    if (s->failed || !device) return;
    s->dev->commit(s->dev);
    if (save)
        s->dev->download(s->dev, k->p + at, device, n);
    else
        s->dev->upload(s->dev, device, k->p + at, n);
}

static void answer_kept(ft_remote_server *s)
{
    const ft_serve_kept *k = take_kept(s);
    const uint64_t n = take_u64(s);
    if (k && n > k->bytes)
        ft_serve_fail(s, FT_EFORMAT, "rank 0 uses bytes that a copy does not have");
    reply(s, FT_OK, NULL, s->failed ? NULL : k->p, n);
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

/* A weight of a known type, whose rows are whole blocks. Pointers of rank 0 mean nothing here. */
static bool take_weight(ft_remote_server *s, ft_weight *w)
{
    const unsigned char *from = ft_serve_bytes(s, sizeof *w);
    /* a byte that is neither 0 nor 1 is no bool */
    for (size_t i = offsetof(ft_weight, lookup); i <= offsetof(ft_weight, rounded); i++)
        if (from[i] > 1) from = NULL, i = sizeof *w;
    if (from) memcpy(w, from, sizeof *w);
    const ft_type_info *t = from ? ft_type_of((uint32_t)w->type) : NULL;
    const bool ok = t && t->name && w->n > 0 && w->n <= MAX_SIZE && w->k > 0 && w->k <= MAX_SIZE &&
                    w->E > 0 && w->E <= MAX_SIZE && w->k % t->elems == 0;
    if (!ok) {
        ft_serve_fail(s, FT_EFORMAT, "a weight of rank 0 has a wrong type or size");
        *w = (ft_weight){.n = 1, .k = 1, .E = 1};
    }
    w->name = "a weight of rank 0";
    w->lora = NULL;
    w->data = w->packed = NULL;
    w->scale = ft_serve_address(s, (uintptr_t)w->scale, sizeof *w->scale * (size_t)w->E);
    w->row_bytes = ft_type_row(w->type, (size_t)w->k);
    return ok && !s->failed;
}

static void bind_weight(ft_remote_server *s)
{
    uint32_t id;
    ft_err err = {0};
    ft_serve_weight w = {0};
    memcpy(&id, ft_serve_bytes(s, sizeof id), sizeof id);
    bool ok = take_weight(s, &w.w);
    const uint64_t bytes = take_u64(s), file = take_u64(s), at = take_u64(s);
    const uint64_t rows = (uint64_t)w.w.n * (uint64_t)w.w.E;
    const void *data = NULL;
    ok = ok && id && id < MAX_WEIGHTS && (id >= s->cap_weight || !s->weight[id].w.data) &&
         bytes / rows == w.w.row_bytes && bytes % rows == 0;
    if (file == FT_REMOTE_HERE && s->p.dev)
        data = (const void *)(uintptr_t)at;
    else if (file && file <= (uint64_t)s->n_file && at <= s->file[file - 1].bytes &&
             bytes <= s->file[file - 1].bytes - at)
        data = s->file[file - 1].data + at;
    else if (!file && bytes && bytes <= s->left)
        data = w.own = memcpy(ft_alloc_aligned(bytes + 64, 64), ft_serve_bytes(s, bytes), bytes);
    ft_status st = !s->failed && ok && data
                       ? s->dev->bind(s->dev, &w.w, data, &err)
                       : ft_fail(&err, FT_EFORMAT, "a weight outside of its file");
    if (st) ft_free(w.own);
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
    if (s->dev) ft_serve_fail(s, FT_EFORMAT, "rank 0 opens a device twice");
    if (!s->dev) s->failed = FT_OK;
    const bool given = !s->dev && s->p.dev;
    ft_status st = s->failed;
    if (given)
        s->dev = s->p.dev;
    else if (!s->dev)
        st = ft_dev_open(&s->dev, s->p.device, s->p.threads, &err);
    if (!st) {
        if (given)
            snprintf(f.name, sizeof f.name, "%.63s", s->dev->name);
        else
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
    for (uint32_t i = 0; i < s->cap_kept; i++) ft_free(s->kept[i].p);
    free_staging(s);
    for (int i = 0; i < 2; i++) ft_free(s->pages[i]);
    ft_dev_close(s->dev);
    ft_free(s->kept);
    s->kept = NULL;
    s->cap_kept = 0;
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
    s->top_page[0] = s->top_page[1] = 0;
    s->batch = (ft_batch){0};
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
    uint64_t n;
    const void *from = take_memory(s, &n);
    if (!from) ft_serve_fail(s, FT_EFORMAT, "rank 0 reads memory that is not allocated");
    reply(s, FT_OK, NULL, s->failed ? NULL : read_memory(s, from, n), n);
}

/* GPU or CPU memory that other ranks of this machine want too. */
static uint64_t share_of_memory(const ft_remote_server *s)
{
    const int n = s->dev->cpu ? ft_link_info(ft_link_rank())->local_size : 1;
    return s->dev->free_bytes(s->dev) / (uint64_t)FT_MAX(n, 1);
}

static ft_dev_limits take_limits(ft_remote_server *s)
{
    ft_dev_limits l = {0};
    const unsigned char *from = ft_serve_bytes(s, sizeof l);
    if (from[offsetof(ft_dev_limits, recent)] <= 1 && from[offsetof(ft_dev_limits, encoded)] <= 1)
        memcpy(&l, from, sizeof l);
    const int each[] = {l.rows, l.k,     l.experts, l.expert_k, l.heads,       l.head_d,
                        l.ctx,  l.vocab, l.layers,  l.graphs,   l.draft_graphs};
    for (size_t i = 0; i < FT_COUNT(each); i++)
        if (each[i] < 0 || each[i] > MAX_SIZE)
            ft_serve_fail(s, FT_EFORMAT, "rank 0 sets a limit that is too large");
    return l;
}

static void answer_number(ft_remote_server *s, ft_remote_op op)
{
    uint64_t n = 0;
    ft_weight w;
    if (op == FT_REMOTE_WEIGHT_BYTES) {
        if (take_weight(s, &w)) n = s->dev->weight_bytes(s->dev, &w);
    } else if (op == FT_REMOTE_STEP_BYTES) {
        const ft_dev_limits l = take_limits(s);
        if (!s->failed) n = s->dev->step_bytes(s->dev, &l);
    } else {
        n = share_of_memory(s);
    }
    reply(s, FT_OK, NULL, &n, sizeof n);
}

static void answer_reserve(ft_remote_server *s)
{
    ft_err err = {0};
    const ft_dev_limits l = take_limits(s);
    reply(s, s->failed ? s->failed : s->dev->reserve(s->dev, &l, &err), &err, NULL, 0);
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
    case FT_REMOTE_KEEP_FREE: free_kept(s); break;
    case FT_REMOTE_KEEP_CUT: cut_kept(s); break;
    case FT_REMOTE_KEEP_SAVE: move_kept(s, true); break;
    case FT_REMOTE_KEEP_LOAD: move_kept(s, false); break;
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
    case FT_REMOTE_KEEP: keep_memory(s); break;
    case FT_REMOTE_KEEP_READ: answer_kept(s); break;
    case FT_REMOTE_SYNC: answer_sync(s); break;
    case FT_REMOTE_WEIGHT_BYTES:
    case FT_REMOTE_STEP_BYTES:
    case FT_REMOTE_FREE_BYTES: answer_number(s, op); break;
    default: ft_serve_op(s, op);
    }
    return true;
}

bool ft_serve_message(ft_remote_server *s, const void *message, size_t n)
{
    bool more = true;
    s->at = message;
    s->left = n;
    while (more && s->left) {
        uint32_t code;
        memcpy(&code, ft_serve_bytes(s, sizeof code), sizeof code);
        more = carry_out(s, (ft_remote_op)code);
    }
    return more;
}

void ft_serve_init(ft_remote_server *s, const ft_remote_params *p)
{
    *s = (ft_remote_server){.p = *p};
    s->arena = ft_alloc_aligned(ARENA, 64);
}

void ft_serve_release(ft_remote_server *s)
{
    close_device(s);
    free_staging(s);
    ft_free(s->arena);
    ft_free(s->theirs);
}

ft_status ft_remote_serve(const ft_remote_params *p, ft_err *err)
{
    ft_remote_server s;
    bool more = true;
    ft_status st = FT_OK;
    ft_serve_init(&s, p);
    while (more && !st) {
        void *message = NULL;
        size_t n = 0;
        st = ft_link_take(0, FT_LINK_COMMAND, &message, &n, err);
        more = !st && ft_serve_message(&s, message, n);
        ft_free(message);
    }
    ft_serve_release(&s);
    return st;
}
