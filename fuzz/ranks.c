/* fuzz/ranks.c - arbitrary bytes as messages between the ranks of an MPI job. The first byte
 * selects the direction: commands that a rank receives from rank 0, or answers that rank 0
 * receives. The device of the rank only touches the first and last byte of its arguments: an op
 * must never get memory that is not its own. */
#define _GNU_SOURCE
#include "base/mem.h"
#include "dev/host.h"
#include "dev/remote_priv.h"
#include "dev/remote_serve_priv.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* ---- messages: from the input, to nowhere ---- */

static const uint8_t *input;
static size_t input_left;

ft_status ft_link_open(const char *version, ft_err *err)
{
    (void)version, (void)err;
    return FT_OK;
}

void ft_link_close(void)
{
}

int ft_link_rank(void)
{
    return 0;
}

int ft_link_size(void)
{
    return 3;
}

const ft_rank_info *ft_link_info(int rank)
{
    static const ft_rank_info info = {.host = "host", .local_size = 1};
    (void)rank;
    return &info;
}

void ft_link_send(int to, int tag, const void *p, size_t n)
{
    (void)tag;
    if (to < 0 || to >= 3) abort();
    if (n) (void)((const volatile unsigned char *)p)[n - 1];
}

ft_status ft_link_recv(int from, int tag, void *p, size_t n, ft_err *err)
{
    (void)tag;
    if (n > input_left) return ft_fail(err, FT_EIO, "rank %d has ended", from);
    if (n) memcpy(p, input, n);
    input += n;
    input_left -= n;
    return FT_OK;
}

ft_status ft_link_take(int from, int tag, void **out, size_t *got, ft_err *err)
{
    (void)tag, (void)out, (void)got;
    return ft_fail(err, FT_EIO, "rank %d has ended", from);
}

bool ft_link_direct(void)
{
    return false;
}

ft_status ft_link_send_direct(int to, int tag, const void *p, size_t n, ft_err *err)
{
    (void)err;
    ft_link_send(to, tag, p, n);
    return FT_OK;
}

uint64_t ft_link_bytes(void)
{
    return 0;
}

/* ---- a device that touches what it gets ---- */

static volatile unsigned char sink;

static void touch(const void *p, size_t n)
{
    if (!p && n) abort();
    if (!p || !n) return;
    sink = ((const unsigned char *)p)[0];
    sink = ((const unsigned char *)p)[n - 1];
}

static void touch_mat(ft_mat m)
{
    touch(m.p, ft_mat_extent(m));
}

static void touch_vec(ft_vec v)
{
    if (v.p) touch(v.p, sizeof *v.p * (size_t)v.n);
}

static void touch_weight(const ft_weight *w)
{
    touch(w->data, w->row_bytes * (size_t)w->n * (size_t)w->E);
    if (w->scale) touch(w->scale, sizeof *w->scale * (size_t)w->E);
}

static void touch_choices(ft_expert_choice c, size_t n)
{
    touch(c.id, sizeof *c.id * n);
    touch(c.w, sizeof *c.w * n);
}

static void touch_kv(const ft_dev *d, const ft_kv *kv)
{
    const ft_batch *b = d->batch;
    for (int i = 0; i < b->slots * b->pages_per_seq; i++) {
        touch(kv->k + (size_t)b->page[kv->space][i] * kv->k_page, kv->k_page);
        touch(kv->v + (size_t)b->page[kv->space][i] * kv->v_page, kv->v_page);
    }
    if (kv->mean) touch(kv->mean, sizeof *kv->mean * (size_t)kv->G * (size_t)kv->d);
    if (kv->recent) touch_kv(d, kv->recent);
}

static void touch_delta(const ft_dev *d, const ft_delta *s)
{
    const size_t slots = (size_t)d->batch->slots, S = (size_t)s->S;
    touch(s->conv, 4 * slots * (size_t)(s->C - 1) * (size_t)s->CH);
    touch(s->state, 4 * slots * (size_t)s->Hv * S * S);
    touch(s->j_conv, 8 * slots * (size_t)s->J * (size_t)s->CH);
    touch(s->j_k, 8 * slots * (size_t)s->J * (size_t)s->Hk * S);
    touch(s->j_d, 8 * slots * (size_t)s->J * (size_t)s->Hv * S);
    touch(s->j_g, 8 * slots * (size_t)s->J * (size_t)s->Hv);
}

static void on_embed(ft_dev *d, ft_mat y, const ft_weight *w, float scale)
{
    (void)scale;
    touch_mat(y);
    touch_weight(w);
    for (int t = 0; t < y.T; t++) {
        const int32_t id = d->batch->token[t];
        if (id < 0)
            touch(d->batch->drawn - 1 - id, 4);
        else
            touch((const unsigned char *)w->data + (size_t)id * w->row_bytes, w->row_bytes);
    }
}

static void on_rmsnorm(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, float eps)
{
    (void)d, (void)eps;
    touch_mat(y);
    touch_mat(x);
    touch_vec(w);
}

static void on_linear(ft_dev *d, ft_mat y, ft_mat x, const ft_weight *w, bool acc)
{
    (void)d, (void)acc;
    touch_mat(y);
    touch_mat(x);
    touch_weight(w);
}

static void on_linears(ft_dev *d, const ft_product_out *o, int n, ft_mat x)
{
    for (int i = 0; i < n; i++) on_linear(d, o[i].y, x, o[i].w, false);
}

static void on_glu(ft_dev *d, ft_mat y, ft_mat u, ft_mat x, const ft_weight *gate,
                   const ft_weight *up, ft_act act)
{
    (void)act;
    on_linear(d, y, x, gate, false);
    on_linear(d, u, x, up, false);
}

static void on_rope_angles(ft_dev *d, ft_mat cs, const ft_rope *r)
{
    (void)d;
    touch_mat(cs);
    touch(r->freq, sizeof *r->freq * (size_t)(r->n / 2));
    touch(r->axis, (size_t)(r->n / 2));
}

static void on_norm_rope(ft_dev *d, ft_mat x, ft_vec w, float eps, ft_mat cs)
{
    on_rmsnorm(d, x, cs, w, eps);
}

static void on_kv_put(ft_dev *d, const ft_kv *kv, ft_mat k, ft_mat v)
{
    touch_kv(d, kv);
    touch_mat(k);
    touch_mat(v);
}

static void on_attend(ft_dev *d, ft_mat o, ft_mat q, const ft_kv *kv, ft_attn p)
{
    (void)p;
    on_kv_put(d, kv, o, q);
}

static void on_act_mul(ft_dev *d, ft_mat y, ft_mat g, ft_mat u, ft_act act)
{
    (void)d, (void)act;
    touch_mat(y);
    touch_mat(g);
    touch_mat(u);
}

static void on_two(ft_dev *d, ft_mat y, ft_mat x)
{
    (void)d;
    touch_mat(y);
    touch_mat(x);
}

static void on_add(ft_dev *d, ft_mat y, ft_mat x, float scale)
{
    (void)scale;
    on_two(d, y, x);
}

static void on_norm_add(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, float eps, float scale,
                        const ft_norm_out *o, int n)
{
    (void)scale;
    on_rmsnorm(d, y, x, w, eps);
    for (int i = 0; i < n; i++) on_rmsnorm(d, o[i].y, x, o[i].w, eps);
}

static void on_softcap(ft_dev *d, ft_mat y, float c)
{
    (void)d, (void)c;
    touch_mat(y);
}

static void on_gather(ft_dev *d, ft_mat y, ft_mat x, int which)
{
    const int32_t *row = which == FT_OUT ? d->batch->out_row : d->batch->src_row;
    touch_mat(y);
    for (int i = 0; i < y.T; i++) touch_mat(ft_rows(x, row[i], 1));
}

static void on_scatter(ft_dev *d, ft_mat y, ft_mat x)
{
    touch_mat(x);
    for (int i = 0; i < x.T; i++)
        if (d->batch->dst_row[i] >= 0) touch_mat(ft_rows(y, d->batch->dst_row[i], 1));
}

static void on_image_rows(ft_dev *d, ft_mat y, ft_mat x)
{
    touch_mat(y);
    for (int i = 0; i < y.T; i++)
        if (d->batch->image_row[i] >= 0) touch_mat(ft_rows(x, d->batch->image_row[i], 1));
}

static void on_argmax(ft_dev *d, int32_t *id, ft_mat x)
{
    (void)d;
    touch_mat(x);
    touch(id, sizeof *id * (size_t)x.T);
}

static void on_conv(ft_dev *d, ft_mat y, ft_mat u, ft_vec w, const ft_delta *s)
{
    on_rmsnorm(d, y, u, w, 0);
    touch_delta(d, s);
}

static void on_delta_rule(ft_dev *d, ft_mat o, ft_mat y, ft_mat a, ft_mat b, ft_vec A, ft_vec dt,
                          const ft_delta *s)
{
    on_rmsnorm(d, o, y, A, 0);
    on_rmsnorm(d, a, b, dt, 0);
    touch_delta(d, s);
}

static void on_gated_norm(ft_dev *d, ft_mat y, ft_mat o, ft_mat z, ft_vec w, float eps)
{
    on_rmsnorm(d, y, o, w, eps);
    touch_mat(z);
}

static void on_route(ft_dev *d, ft_expert_choice r, ft_mat x)
{
    (void)d;
    touch_mat(x);
    touch_choices(r, (size_t)x.T * (size_t)r.K);
}

static void on_moe(ft_dev *d, ft_mat y, ft_mat x, const ft_experts *e, ft_expert_choice r,
                   ft_mat tmp, bool acc)
{
    (void)acc;
    on_act_mul(d, y, x, tmp, FT_SILU);
    touch_choices(r, (size_t)x.T * (size_t)r.K);
    if ((size_t)tmp.T < (size_t)x.T * (size_t)r.K) abort();
    const ft_weight *const each[] = {&e->gate, &e->up, &e->gate_up, &e->down};
    for (size_t i = 0; i < FT_COUNT(each); i++)
        if (each[i]->data) touch_weight(each[i]);
}

static void on_expert_linear(ft_dev *d, ft_mat y, ft_mat x, const ft_weight *w, ft_expert_choice r,
                             bool acc)
{
    on_linear(d, y, x, w, acc);
    touch_choices(r, (size_t)y.T);
}

static void on_moe_shared(ft_dev *d, ft_mat y, ft_mat x, const ft_experts *e, ft_expert_choice r,
                          ft_mat tmp, const ft_shared_expert *sh)
{
    on_moe(d, y, x, e, r, tmp, true);
    on_glu(d, sh->g, sh->u, x, sh->gate, sh->up, FT_SILU);
    on_linear(d, y, sh->s, sh->down, true);
}

static void on_centroid_head(ft_dev *d, ft_mat y, ft_mat x, ft_mat score, const ft_weight *w,
                             const int32_t *order, int top)
{
    (void)top;
    on_linear(d, y, x, w, false);
    touch_mat(score);
    touch(order, sizeof *order * (size_t)w->n);
}

static void on_mix(ft_dev *d, ft_mat y, ft_mat x, ft_mixing m, bool acc)
{
    (void)acc;
    on_two(d, y, x);
    touch(m.row, 4 * (size_t)y.T * (size_t)m.n);
    touch(m.w, 4 * (size_t)y.T * (size_t)m.n);
}

static const ft_ops touch_ops = {
    .embed = on_embed,
    .rmsnorm = on_rmsnorm,
    .linear = on_linear,
    .linears = on_linears,
    .glu = on_glu,
    .rope_angles = on_rope_angles,
    .norm_rope = on_norm_rope,
    .kv_put = on_kv_put,
    .attend = on_attend,
    .act_mul = on_act_mul,
    .sigmoid_mul = on_two,
    .add = on_add,
    .norm_add = on_norm_add,
    .softcap = on_softcap,
    .gather = on_gather,
    .argmax = on_argmax,
    .scatter = on_scatter,
    .conv = on_conv,
    .delta_rule = on_delta_rule,
    .gated_norm = on_gated_norm,
    .route = on_route,
    .moe = on_moe,
    .expert_linear = on_expert_linear,
    .moe_shared = on_moe_shared,
    .centroid_head = on_centroid_head,
    .mix = on_mix,
    .image_rows = on_image_rows,
};

static void *small_alloc(ft_dev *d, size_t bytes)
{
    return bytes <= 1 << 16 ? ft_host_alloc(d, bytes) : NULL;
}

static void unbind(ft_dev *d, ft_weight *w)
{
    (void)d;
    w->data = NULL;
}

static ft_status reserve(ft_dev *d, const ft_dev_limits *l, ft_err *err)
{
    (void)d, (void)l, (void)err;
    return FT_OK;
}

static void record(ft_dev *d, const ft_batch *b)
{
    d->batch = b;
}

static void commit(ft_dev *d)
{
    (void)d;
}

static ft_status sync_device(ft_dev *d, ft_err *err)
{
    (void)d, (void)err;
    return FT_OK;
}

static void close_device(ft_dev *d)
{
    ft_free(d);
}

int ft_dev_gpus(void)
{
    return 0;
}

ft_status ft_dev_open(ft_dev **out, const char *name, int threads, ft_err *err)
{
    ft_dev *d = ft_new(ft_dev);
    (void)err;
    *d = (ft_dev){
        .op = &touch_ops,
        .name = name,
        .threads = threads,
        .unified = true,
        .alloc = small_alloc,
        .free = ft_host_free,
        .upload = ft_host_copy,
        .download = ft_host_copy,
        .move = ft_host_copy,
        .bind = ft_host_bind,
        .unbind = unbind,
        .reserve = reserve,
        .weight_bytes = ft_host_weight_bytes,
        .step_bytes = ft_host_step_bytes,
        .record = record,
        .replay = ft_host_replay,
        .commit = commit,
        .sync = sync_device,
        .free_bytes = ft_host_free_bytes,
        .close = close_device,
    };
    *out = d;
    return FT_OK;
}

/* ---- both directions ---- */

static void put(ft_buf *b, const void *p, size_t n)
{
    ft_buf_put(b, p, n);
}

/* A device with 4 allocations, and weights of 4 x 4 as float and 32 x 32 as Q8_0. */
static void prepare(ft_remote_server *s)
{
    ft_buf b;
    ft_buf_init(&b, 1 << 20);
    uint32_t code = FT_REMOTE_OPEN;
    put(&b, &code, 4);
    for (uint64_t i = 1; i <= 4; i++) {
        const uint64_t at = i << 16, bytes = 4096 * i;
        code = FT_REMOTE_ALLOC;
        put(&b, &code, 4);
        put(&b, &at, 8);
        put(&b, &bytes, 8);
    }
    for (uint32_t id = 1; id <= 3; id++) {
        static const unsigned char zeros[4096];
        const int n = id == 2 ? 32 : 4, E = id == 3 ? 2 : 1;
        const ft_weight w = {.type = id == 2 ? FT_Q8_0 : FT_F32, .n = n, .k = n, .E = E};
        const uint64_t more[] = {ft_type_row(w.type, (size_t)n) * (size_t)n * (size_t)E, 0, 0};
        code = FT_REMOTE_BIND;
        put(&b, &code, 4);
        put(&b, &id, 4);
        put(&b, &w, sizeof w);
        put(&b, more, sizeof more);
        put(&b, zeros, more[0]);
    }
    ft_serve_message(s, b.data, b.len);
    if (s->failed) abort();
    ft_buf_release(&b);
}

static void serve(const uint8_t *data, size_t n)
{
    ft_remote_server s;
    ft_serve_init(&s, &(ft_remote_params){.device = "touch", .threads = 1});
    prepare(&s);
    void *message = memcpy(ft_alloc(n + 1), data, n);
    ft_serve_message(&s, message, n);
    ft_free(message);
    ft_serve_release(&s);
}

/* Rank 0 asks; the input answers. */
static void ask(void)
{
    ft_dev *d = NULL;
    ft_err err = {0};
    unsigned char bytes[64];
    if (ft_dev_remote(&d, 1, &err)) return;
    void *p = d->alloc(d, 256);
    ft_weight w = {.type = FT_F32, .n = 2, .k = 2, .E = 1, .name = "w"};
    const float values[4] = {0};
    const ft_dev_limits l = {.rows = 1};
    (void)d->weight_bytes(d, &w);
    (void)d->step_bytes(d, &l);
    (void)d->free_bytes(d);
    if (!d->bind(d, &w, values, &err)) d->unbind(d, &w);
    (void)d->reserve(d, &l, &err);
    if (p) d->download(d, bytes, p, sizeof bytes);
    (void)d->sync(d, &err);
    if (strlen(d->name) > 90 || strnlen(err.text, sizeof err.text) == sizeof err.text) abort();
    d->free(d, p);
    ft_dev_close(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (!n) return 0;
    input = data + 1;
    input_left = n - 1;
    if (data[0] & 1)
        ask();
    else
        serve(data + 1, n - 1);
    return 0;
}
