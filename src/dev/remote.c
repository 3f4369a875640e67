/* dev/remote.c - the device of another rank, seen from rank 0. The ops are in remote_ops.c. */
#define _GNU_SOURCE
#include "dev/remote_priv.h"

#include "base/file.h"
#include "base/mem.h"
#include "dev/batch_shape.h"
#include "dev/link_local.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <xxhash.h>

enum {
    FLUSH_BYTES = 1 << 18,
    ALIGN = 4096, /* of the addresses that stand for allocations */
    SAMPLES = 256,
};

/* Their number, for a rank and for a thread; the first of them stand for weights. */
#define RANGE_BYTES  (UINT64_C(1) << 42)
#define THREAD_BYTES (UINT64_C(1) << 38)
#define WEIGHT_BYTES (UINT64_C(1) << 24)

/* The devices of ranks that are open: before one is waited for, all must have their commands. */
static ft_remote *open_devices[FT_SPLIT_RANKS];
static const char *model_path;

uint64_t ft_remote_digest(const unsigned char *p, size_t n)
{
    uint64_t h = XXH3_64bits_withSeed(&n, sizeof n, 25);
    for (size_t i = 0; i < SAMPLES && n; i++) {
        const size_t at = (size_t)((double)n * (double)i / SAMPLES), most = n - at;
        h = XXH3_64bits_withSeed(p + at, FT_MIN(most, (size_t)512), h);
    }
    return h;
}

/* ---- the stream of commands ---- */

void ft_remote_flush(ft_remote *r)
{
    if (!r->cmd.len) return;
    if (!r->failed) ft_link_send(r->rank, FT_LINK_COMMAND, r->cmd.data, r->cmd.len);
    ft_buf_clear(&r->cmd);
}

static void flush_all(ft_remote *r)
{
    ft_remote_flush(r);
    if (r->thread) return; /* others may belong to another engine */
    for (int i = 0; i < FT_SPLIT_RANKS; i++)
        if (open_devices[i]) ft_remote_flush(open_devices[i]);
}

void ft_remote_begin(ft_remote *r, ft_remote_op op)
{
    const uint32_t code = op;
    if (r->cmd.len > FLUSH_BYTES) ft_remote_flush(r);
    ft_buf_put(&r->cmd, &code, sizeof code);
    r->asked = true;
}

void ft_remote_put(ft_remote *r, const void *p, size_t n)
{
    ft_buf_put(&r->cmd, p, n);
}

static void put_address(ft_remote *r, const void *p)
{
    const uint64_t at = (uintptr_t)p;
    ft_remote_put(r, &at, sizeof at);
}

static void put_u64(ft_remote *r, uint64_t v)
{
    ft_remote_put(r, &v, sizeof v);
}

static void put_text(ft_remote *r, const char *text)
{
    const uint64_t n = strlen(text) + 1;
    put_u64(r, n);
    ft_remote_put(r, text, n);
}

static ft_status fail(ft_remote *r, const ft_err *why)
{
    if (!r->failed) r->error = *why;
    return r->failed = why->code ? why->code : FT_EIO;
}

/* Waits for the answer to the last command: a result of n bytes. */
static ft_status answer(ft_remote *r, void *out, size_t n, ft_err *err)
{
    ft_remote_answer a;
    ft_err why = {0};
    flush_all(r);
    if (!r->failed && !ft_link_recv(r->rank, FT_LINK_REPLY, &a, sizeof a, &why) && !a.status) {
        r->asked = false;
        if (a.bytes != (uint32_t)n)
            ft_fail(&why, FT_EFORMAT, "rank %d answers with %u bytes, want %zu", r->rank, a.bytes,
                    n);
        else if (!n || !ft_link_recv(r->rank, FT_LINK_REPLY, out, n, &why))
            return FT_OK;
    } else if (!r->failed && !why.code) {
        r->asked = false;
        a.text[sizeof a.text - 1] = 0;
        if (a.status > 0 || a.status < FT_ENOSPC) a.status = FT_EIO;
        return ft_fail(err, (ft_status)a.status, "rank %d (%s): %s", r->rank,
                       ft_link_info(r->rank)->host, a.text);
    }
    if (out) memset(out, 0, n);
    const ft_status st = r->failed ? r->failed : fail(r, &why);
    if (err) *err = r->error;
    return st;
}

/* ---- memory ---- */

static void *remote_alloc(ft_dev *d, size_t bytes)
{
    ft_remote *r = (ft_remote *)d;
    const uint64_t size = ft_round_up(bytes + 1, ALIGN);
    if (size > r->bytes - r->used) return NULL;
    void *at = r->range + r->used;
    ft_remote_begin(r, FT_REMOTE_ALLOC);
    put_address(r, at);
    put_u64(r, bytes);
    if (answer(r, NULL, 0, NULL)) return NULL;
    r->used += size;
    return at;
}

static void remote_free(ft_dev *d, void *p)
{
    ft_remote *r = (ft_remote *)d;
    if (!p) return;
    ft_remote_begin(r, FT_REMOTE_FREE);
    put_address(r, p);
}

static void upload(ft_dev *d, void *dst, const void *src, size_t bytes)
{
    ft_remote *r = (ft_remote *)d;
    ft_remote_begin(r, FT_REMOTE_WRITE);
    put_address(r, dst);
    put_u64(r, bytes);
    ft_remote_put(r, src, bytes);
}

static void download(ft_dev *d, void *dst, const void *src, size_t bytes)
{
    ft_remote *r = (ft_remote *)d;
    ft_remote_begin(r, FT_REMOTE_READ);
    put_address(r, src);
    put_u64(r, bytes);
    answer(r, dst, bytes, NULL); /* the device keeps the error */
}

static void move(ft_dev *d, void *dst, const void *src, size_t bytes)
{
    ft_remote *r = (ft_remote *)d;
    ft_remote_begin(r, FT_REMOTE_MOVE);
    put_address(r, dst);
    put_address(r, src);
    put_u64(r, bytes);
}

/* ---- copies that stay there ---- */

static void put_u32(ft_remote *r, uint32_t v)
{
    ft_remote_put(r, &v, sizeof v);
}

static void keep_free(ft_dev *d, uint32_t kept)
{
    ft_remote *r = (ft_remote *)d;
    ft_remote_begin(r, FT_REMOTE_KEEP_FREE);
    put_u32(r, kept);
    r->free_kept[r->n_free_kept++] = kept;
}

static uint32_t keep(ft_dev *d, size_t bytes)
{
    ft_remote *r = (ft_remote *)d;
    if (!r->n_free_kept) {
        if (r->top_kept + 1 == FT_REMOTE_KEPT) return 0;
        r->free_kept = ft_realloc(r->free_kept, sizeof *r->free_kept * (r->top_kept + 1));
        r->free_kept[r->n_free_kept++] = ++r->top_kept;
    }
    const uint32_t kept = r->free_kept[r->n_free_kept - 1];
    ft_remote_begin(r, FT_REMOTE_KEEP);
    put_u32(r, kept);
    put_u64(r, bytes);
    if (answer(r, NULL, 0, NULL)) return 0;
    r->n_free_kept--;
    return kept;
}

static void keep_cut(ft_dev *d, uint32_t kept, size_t bytes)
{
    ft_remote *r = (ft_remote *)d;
    ft_remote_begin(r, FT_REMOTE_KEEP_CUT);
    put_u32(r, kept);
    put_u64(r, bytes);
}

static void put_piece(ft_remote *r, ft_remote_op op, uint32_t kept, size_t at, const void *p,
                      size_t bytes)
{
    ft_remote_begin(r, op);
    put_u32(r, kept);
    put_u64(r, at);
    put_address(r, p);
    put_u64(r, bytes);
}

static void keep_save(ft_dev *d, uint32_t kept, size_t at, const void *src, size_t bytes)
{
    put_piece((ft_remote *)d, FT_REMOTE_KEEP_SAVE, kept, at, src, bytes);
}

static void keep_load(ft_dev *d, void *dst, uint32_t kept, size_t at, size_t bytes)
{
    put_piece((ft_remote *)d, FT_REMOTE_KEEP_LOAD, kept, at, dst, bytes);
}

static void keep_read(ft_dev *d, void *host, uint32_t kept, size_t bytes)
{
    ft_remote *r = (ft_remote *)d;
    ft_remote_begin(r, FT_REMOTE_KEEP_READ);
    put_u32(r, kept);
    put_u64(r, bytes);
    answer(r, host, bytes, NULL);
}

/* From a device of this rank the bytes travel with the commands, from another rank directly. */
static bool copy_from(ft_dev *to, void *dst, ft_dev *from, const void *src, size_t bytes)
{
    ft_remote *r = (ft_remote *)to, *other = (ft_remote *)from;
    if (from->copy_from != copy_from) {
        if (!from->unified) return false;
        upload(to, dst, src, bytes);
        ft_remote_flush(r);
        return true;
    }
    ft_remote_begin(other, FT_REMOTE_PUSH);
    put_u64(other, (uint64_t)r->rank);
    put_address(other, src);
    put_u64(other, bytes);
    ft_remote_begin(r, FT_REMOTE_PULL);
    put_u64(r, (uint64_t)other->rank);
    put_address(r, dst);
    put_u64(r, bytes);
    ft_remote_flush(other);
    ft_remote_flush(r);
    return true;
}

/* ---- weights ---- */

/* The number of the file on the other rank, which checks that it has the same; 0: not in a file. */
static ft_status file_number(ft_remote *r, const ft_mapped *f, uint64_t *number, ft_err *err)
{
    for (int i = 0; i < r->n_file; i++)
        if (r->file[i].data == f->data && r->file[i].bytes == f->bytes) {
            *number = (uint64_t)i + 1;
            return FT_OK;
        }
    if (r->n_file == FT_REMOTE_FILES)
        return ft_fail(err, FT_ELIMIT, "more than %d files", FT_REMOTE_FILES);
    ft_remote_begin(r, FT_REMOTE_FILE);
    put_text(r, f->path);
    put_u64(r, f->bytes);
    put_u64(r, ft_remote_digest(f->data, f->bytes));
    const ft_status st = answer(r, NULL, 0, err);
    if (st) return st;
    r->file[r->n_file++] = *f;
    *number = (uint64_t)r->n_file;
    return FT_OK;
}

static ft_status bind(ft_dev *d, ft_weight *w, const void *host, ft_err *err)
{
    ft_remote *r = (ft_remote *)d;
    ft_mapped f;
    uint64_t number = 0, at = 0;
    w->row_bytes = ft_type_row(w->type, (size_t)w->k);
    if (r->thread) {
        number = FT_REMOTE_HERE;
        at = (uintptr_t)host;
    } else if (ft_map_find(host, &f)) {
        const ft_status st = file_number(r, &f, &number, err);
        if (st) return st;
        at = (uint64_t)((const unsigned char *)host - f.data);
    }
    const uint64_t bytes = (uint64_t)w->row_bytes * (uint64_t)w->n * (uint64_t)w->E;
    const uint32_t id = ++r->weights;
    ft_remote_begin(r, FT_REMOTE_BIND);
    ft_remote_put(r, &id, sizeof id);
    ft_remote_put(r, w, sizeof *w);
    put_u64(r, bytes);
    put_u64(r, number);
    put_u64(r, at);
    if (!number) ft_remote_put(r, host, bytes);
    w->packed = NULL;
    w->data = r->range + id; /* no address, but not NULL */
    return answer(r, NULL, 0, err);
}

static void unbind(ft_dev *d, ft_weight *w)
{
    ft_remote *r = (ft_remote *)d;
    const uint32_t id = ft_remote_weight_of(r, w).id;
    ft_remote_begin(r, FT_REMOTE_UNBIND);
    ft_remote_put(r, &id, sizeof id);
    w->data = NULL;
}

ft_remote_weight ft_remote_weight_of(const ft_remote *r, const ft_weight *w)
{
    if (!w->data) return (ft_remote_weight){0};
    return (ft_remote_weight){(uint32_t)((const unsigned char *)w->data - r->range), w->n};
}

static ft_status reserve(ft_dev *d, const ft_dev_limits *l, ft_err *err)
{
    ft_remote *r = (ft_remote *)d;
    ft_remote_begin(r, FT_REMOTE_RESERVE);
    ft_remote_put(r, l, sizeof *l);
    return answer(r, NULL, 0, err);
}

/* ---- planning ---- */

/* Few kinds of weights occur: the answers are kept. */
static uint64_t weight_bytes(ft_dev *d, const ft_weight *w)
{
    ft_remote *r = (ft_remote *)d;
    for (int i = 0; i < r->n_kind; i++) {
        const ft_weight *k = &r->kind[i].w;
        if (k->type == w->type && k->n == w->n && k->k == w->k && k->E == w->E &&
            k->lookup == w->lookup && k->rows == w->rows && k->rounded == w->rounded)
            return r->kind[i].bytes;
    }
    ft_remote_kind *k = &r->kind[FT_MIN(r->n_kind, FT_REMOTE_KINDS - 1)];
    k->w = *w;
    k->w.name = NULL;
    k->w.scale = NULL;
    ft_remote_begin(r, FT_REMOTE_WEIGHT_BYTES);
    ft_remote_put(r, &k->w, sizeof k->w);
    answer(r, &k->bytes, sizeof k->bytes, NULL);
    if (r->n_kind < FT_REMOTE_KINDS) r->n_kind++;
    return k->bytes;
}

static uint64_t step_bytes(ft_dev *d, const ft_dev_limits *l)
{
    ft_remote *r = (ft_remote *)d;
    if (r->step_bytes && !memcmp(&r->step_limits, l, sizeof *l)) return r->step_bytes;
    ft_remote_begin(r, FT_REMOTE_STEP_BYTES);
    ft_remote_put(r, l, sizeof *l);
    answer(r, &r->step_bytes, sizeof r->step_bytes, NULL);
    r->step_limits = *l;
    return r->step_bytes;
}

static uint64_t free_bytes(ft_dev *d)
{
    ft_remote *r = (ft_remote *)d;
    uint64_t bytes = 0;
    ft_remote_begin(r, FT_REMOTE_FREE_BYTES);
    answer(r, &bytes, sizeof bytes, NULL);
    return bytes;
}

static double read_rate(ft_dev *d)
{
    (void)d;
    return 0; /* it is not known here */
}

/* ---- steps ---- */

static void put_ints(ft_remote *r, const int32_t *p, int n)
{
    ft_remote_put(r, p, sizeof *p * (size_t)n);
}

/* Page tables are sent for the slots whose table has changed. */
static void put_pages(ft_remote *r, const ft_batch *b)
{
    const size_t each = (size_t)b->pages_per_seq, n = each * (size_t)b->slots;
    for (int space = 0; space < 2; space++) {
        ft_remote_pages *p = &r->pages[space];
        const bool fresh = p->n != n;
        if (fresh) {
            ft_free(p->sent);
            p->sent = ft_new_n(int32_t, n + 1);
            p->n = n;
        }
        for (int32_t s = 0; s < b->slots; s++) {
            const int32_t *from = b->page[space] + (size_t)s * each;
            int32_t *sent = p->sent + (size_t)s * each;
            if (!fresh && !memcmp(from, sent, each * sizeof *from)) continue;
            memcpy(sent, from, each * sizeof *from);
            put_ints(r, &s, 1);
            put_ints(r, from, (int)each);
        }
        put_ints(r, &(int32_t){-1}, 1);
    }
}

static void put_batch(ft_remote *r, const ft_batch *b)
{
    const ft_remote_batch head = {b->T,
                                  b->S,
                                  b->n_out,
                                  b->max_ctx,
                                  b->pages_per_seq,
                                  b->slots,
                                  (b->image_row ? FT_REMOTE_HAS_IMAGES : 0) |
                                      (b->ahead ? FT_REMOTE_HAS_AHEAD : 0),
                                  b->pad_spans,
                                  (uintptr_t)b->drawn};
    const int32_t *const each[] = {b->token, b->pos[0],  b->pos[1],  b->pos[2], b->cell,
                                   b->end,   b->span_of, b->src_row, b->dst_row};
    ft_remote_put(r, &head, sizeof head);
    for (size_t i = 0; i < FT_COUNT(each); i++) put_ints(r, each[i], b->T);
    put_ints(r, b->out_row, b->n_out);
    if (b->image_row) put_ints(r, b->image_row, b->T);
    if (b->ahead) put_ints(r, b->ahead, b->T);
    ft_remote_put(r, b->span, sizeof *b->span * (size_t)b->S);
    put_pages(r, b);
}

static void record(ft_dev *d, const ft_batch *b)
{
    ft_remote *r = (ft_remote *)d;
    ft_err why = {0};
    char byte;
    d->batch = b;
    /* Rows on their way take memory: this rank may only be a few steps ahead. */
    while (!r->failed && r->steps - r->begun >= FT_REMOTE_AHEAD) {
        flush_all(r);
        if (ft_link_recv(r->rank, FT_LINK_ACK, &byte, 1, &why))
            fail(r, &why);
        else
            r->begun++;
    }
    r->steps++;
    r->output = r->output || b->n_out;
    ft_remote_begin(r, FT_REMOTE_RECORD);
    put_batch(r, b);
}

static bool replay(ft_dev *d, const void *pass)
{
    (void)d, (void)pass;
    return false;
}

static void commit(ft_dev *d)
{
    ft_remote *r = (ft_remote *)d;
    if (!r->asked) return;
    ft_remote_begin(r, FT_REMOTE_COMMIT);
    ft_remote_flush(r);
}

/* Does not wait for a step without output rows, so that ranks compute parts of a prompt at the same
 * time. What has failed is reported by a later call. */
static ft_status sync(ft_dev *d, ft_err *err)
{
    ft_remote *r = (ft_remote *)d;
    if (r->failed) {
        if (err) *err = r->error;
        return r->failed;
    }
    if (!r->asked || !r->output) return FT_OK;
    r->output = false;
    ft_remote_begin(r, FT_REMOTE_SYNC);
    return answer(r, NULL, 0, err);
}

/* ---- open and close ---- */

static void release(ft_remote *r)
{
    if (!r->thread)
        open_devices[r->rank] = NULL;
    else if (r->rank)
        ft_local_close(r->rank);
    if (r->range) munmap(r->range, r->bytes);
    for (int i = 0; i < 2; i++) ft_free(r->pages[i].sent);
    ft_buf_release(&r->cmd);
    ft_free(r->free_kept);
    ft_free(r);
}

static void close_device(ft_dev *d)
{
    ft_remote *r = (ft_remote *)d;
    char byte;
    ft_remote_begin(r, FT_REMOTE_CLOSE);
    if (r->thread) ft_remote_begin(r, FT_REMOTE_END);
    ft_remote_flush(r);
    for (; !r->failed && r->begun < r->steps; r->begun++)
        if (ft_link_recv(r->rank, FT_LINK_ACK, &byte, 1, NULL)) break;
    if (r->thread) pthread_join(r->runs, NULL);
    release(r);
}

static ft_status open_range(ft_remote *r, ft_err *err)
{
    r->bytes = r->thread ? THREAD_BYTES : RANGE_BYTES;
    void *p = mmap(NULL, r->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return ft_fail_errno(err, "no addresses for the memory of rank %d", r->rank);
    r->range = p;
    r->used = WEIGHT_BYTES;
    return FT_OK;
}

static void fill_device(ft_remote *r, const ft_remote_facts *f)
{
    if (r->thread)
        snprintf(r->name, sizeof r->name, "%.63s", f->name);
    else
        snprintf(r->name, sizeof r->name, "rank %d (%.63s)", r->rank, f->name);
    r->ops = ft_remote_ops;
    if (!f->moe_shared) r->ops.moe_shared = NULL;
    if (!f->expert_linear) r->ops.expert_linear = NULL;
    r->dev = (ft_dev){
        .op = &r->ops,
        .name = r->name,
        .threads = FT_MAX(f->threads, 1),
        .cpu = f->cpu != 0,
        .remote = true,
        .copy_from = copy_from,
        .alloc = remote_alloc,
        .free = remote_free,
        .upload = upload,
        .download = download,
        .move = move,
        .bind = bind,
        .unbind = unbind,
        .reserve = reserve,
        .weight_bytes = weight_bytes,
        .step_bytes = step_bytes,
        .record = record,
        .replay = replay,
        .commit = commit,
        .sync = sync,
        .free_bytes = free_bytes,
        .read_rate = read_rate,
        .close = close_device,
    };
    if (r->thread) return; /* its memory is that of this process */
    r->dev.keep = keep;
    r->dev.keep_free = keep_free;
    r->dev.keep_cut = keep_cut;
    r->dev.keep_save = keep_save;
    r->dev.keep_load = keep_load;
    r->dev.keep_read = keep_read;
}

/* The device there; r is released if that fails. */
static ft_status open_there(ft_dev **out, ft_remote *r, ft_err *err)
{
    ft_remote_facts f;
    ft_status st = FT_OK;
    if (model_path && !r->thread) {
        ft_remote_begin(r, FT_REMOTE_MODEL);
        put_text(r, model_path);
        st = answer(r, NULL, 0, err);
    }
    if (!st) {
        ft_remote_begin(r, FT_REMOTE_OPEN);
        st = answer(r, &f, sizeof f, err);
    }
    if (st) {
        release(r);
        return st;
    }
    fill_device(r, &f);
    *out = &r->dev;
    return FT_OK;
}

static ft_remote *remote_new(int rank, bool thread)
{
    ft_remote *r = ft_new(ft_remote);
    r->rank = rank;
    r->thread = thread;
    ft_buf_init(&r->cmd, SIZE_MAX / 2);
    return r;
}

ft_status ft_dev_remote(ft_dev **out, int rank, ft_err *err)
{
    assert(rank > 0 && rank < ft_link_size());
    if (rank >= FT_SPLIT_RANKS)
        return ft_fail(err, FT_ELIMIT, "%d ranks, want at most %d", ft_link_size(), FT_SPLIT_RANKS);
    if (open_devices[rank])
        return ft_fail(err, FT_EUNSUPPORTED, "rank %d computes for another model, want one", rank);
    ft_remote *r = open_devices[rank] = remote_new(rank, false);
    const ft_status st = open_range(r, err);
    if (!st) return open_there(out, r, err);
    release(r);
    return st;
}

static void *run_thread(void *arg)
{
    const ft_remote *r = arg;
    ft_local_enter(r->rank);
    (void)ft_remote_serve(&(ft_remote_params){.dev = r->own}, NULL);
    return NULL;
}

ft_status ft_dev_thread(ft_dev **out, ft_dev *own, ft_err *err)
{
    ft_remote *r = remote_new(ft_local_open(), true);
    ft_status st =
        r->rank ? open_range(r, err) : ft_fail(err, FT_ELIMIT, "too many devices with threads");
    r->own = own;
    if (!st && pthread_create(&r->runs, NULL, run_thread, r))
        st = ft_fail(err, FT_ENOMEM, "no thread for a device");
    if (!st) return open_there(out, r, err);
    release(r);
    return st;
}

bool ft_dev_is_thread(const ft_dev *d)
{
    return d->close == close_device && ((const ft_remote *)d)->thread;
}

void ft_remote_model(const char *path)
{
    model_path = path;
}

void ft_remote_end(void)
{
    const uint32_t code = FT_REMOTE_END;
    for (int i = 1; i < ft_link_size(); i++) ft_link_send(i, FT_LINK_COMMAND, &code, sizeof code);
}
