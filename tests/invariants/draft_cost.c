/* tests/invariants/draft_cost.c - what a draft pass of the 27b reads, relative to a verification
 * pass: at most 0.12, for every encoding of the cache. Decoding is limited by memory bandwidth, so
 * that this is also the bound of the times; docs/bench/50-draft-gpu.json has those of an H200. And
 * what the head computes while a prompt is read: at most 0.02 of the products of the model.
 * Undoing rejected draft tokens costs neither a pass nor an op.
 * The passes run on a device whose ops add up the bytes and compute nothing, with a file of the
 * real shape that has no data. All logits are zero, so every draft token is accepted. */
#define _XOPEN_SOURCE 700
#include "invariants.h"

#include "dev/profile.h"
#include "tools/synth.h"

enum { PROMPT = 64, TOKENS = 12, DRAFTS = 3 };

/* Of one pass, and the extremes of all passes of a kind. */
static struct {
    double bytes, products;
    int delta_nets; /* a pass without any is one of the draft head */
    double least_trunk, most_draft;
    double prompt_trunk, prompt_head; /* products */
    int trunks, drafts;
    int ops, least_ops, most_ops; /* of a pass, and of all passes of the trunk */
} count;

static void read_weight(const ft_weight *w, int T)
{
    count.ops++;
    count.bytes += (double)w->row_bytes * w->n;
    count.products += (double)T * w->n * w->k;
}

static void linear(ft_dev *d, ft_mat y, ft_mat x, const ft_weight *w, bool acc)
{
    (void)d, (void)y, (void)acc;
    read_weight(w, x.T);
}

static void linears(ft_dev *d, const ft_product_out *o, int n, ft_mat x)
{
    (void)d;
    for (int i = 0; i < n; i++) read_weight(o[i].w, x.T);
}

static void glu(ft_dev *d, ft_mat y, ft_mat u, ft_mat x, const ft_weight *gate, const ft_weight *up,
                ft_act act)
{
    (void)d, (void)y, (void)u, (void)act;
    read_weight(gate, x.T);
    read_weight(up, x.T);
}

static void attend(ft_dev *d, ft_mat o, ft_mat q, const ft_kv *kv, ft_attn p)
{
    (void)o, (void)q;
    count.ops++;
    count.bytes += ft_profile_attended(d->batch, p).cells * kv->G * (double)(kv->k_row + kv->v_row);
}

static void delta_rule(ft_dev *d, ft_mat o, ft_mat y, ft_mat a, ft_mat b, ft_vec A, ft_vec dt,
                       const ft_delta *s)
{
    (void)o, (void)y, (void)a, (void)b, (void)A, (void)dt;
    count.bytes += (double)d->batch->S * s->Hv * s->S * s->S * (double)sizeof *s->state;
    count.delta_nets++;
    count.ops++;
}

/* ---- ops whose bytes are left out: those of activations ---- */

static void embed(ft_dev *d, ft_mat y, const ft_weight *w, float scale)
{
    (void)d, (void)y, (void)w, (void)scale;
}

static void rmsnorm(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, float eps)
{
    (void)d, (void)y, (void)x, (void)w, (void)eps;
}

static void rope_angles(ft_dev *d, ft_mat cs, const ft_rope *r)
{
    (void)d, (void)cs, (void)r;
}

static void norm_rope(ft_dev *d, ft_mat x, ft_vec w, float eps, ft_mat cs)
{
    (void)d, (void)x, (void)w, (void)eps, (void)cs;
}

static void kv_put(ft_dev *d, const ft_kv *kv, ft_mat k, ft_mat v)
{
    (void)d, (void)kv, (void)k, (void)v;
}

static void sigmoid_mul(ft_dev *d, ft_mat y, ft_mat g)
{
    (void)d, (void)y, (void)g;
}

static void norm_add(ft_dev *d, ft_mat y, ft_mat x, ft_vec w, float eps, float scale,
                     const ft_norm_out *o, int n)
{
    (void)d, (void)y, (void)x, (void)w, (void)eps, (void)scale, (void)o, (void)n;
}

static void gather(ft_dev *d, ft_mat y, ft_mat x, int which)
{
    (void)d, (void)y, (void)x, (void)which;
}

static void scatter(ft_dev *d, ft_mat y, ft_mat x)
{
    (void)d, (void)y, (void)x;
}

static void conv(ft_dev *d, ft_mat y, ft_mat u, ft_vec w, const ft_delta *s)
{
    (void)d, (void)y, (void)u, (void)w, (void)s;
    count.ops++;
}

static void gated_norm(ft_dev *d, ft_mat y, ft_mat o, ft_mat z, ft_vec w, float eps)
{
    (void)d, (void)y, (void)o, (void)z, (void)w, (void)eps;
}

static const ft_ops counting = {.embed = embed,
                                .rmsnorm = rmsnorm,
                                .linear = linear,
                                .linears = linears,
                                .glu = glu,
                                .rope_angles = rope_angles,
                                .norm_rope = norm_rope,
                                .kv_put = kv_put,
                                .attend = attend,
                                .sigmoid_mul = sigmoid_mul,
                                .norm_add = norm_add,
                                .gather = gather,
                                .scatter = scatter,
                                .conv = conv,
                                .delta_rule = delta_rule,
                                .gated_norm = gated_norm};

/* ---- passes ---- */

static void end_pass(ft_dev *d)
{
    const bool trunk = count.delta_nets > 0;
    if (d->batch->T > DRAFTS + 1) {
        *(trunk ? &count.prompt_trunk : &count.prompt_head) += count.products;
    } else if (trunk) {
        count.least_trunk = count.trunks ? FT_MIN(count.least_trunk, count.bytes) : count.bytes;
        count.least_ops = count.trunks++ ? FT_MIN(count.least_ops, count.ops) : count.ops;
        count.most_ops = FT_MAX(count.most_ops, count.ops);
    } else {
        count.most_draft = FT_MAX(count.most_draft, count.bytes);
        count.drafts++;
    }
    count.bytes = count.products = 0;
    count.delta_nets = count.ops = 0;
}

static ft_model *blank_27b(ft_dev *dev)
{
    char path[128];
    ft_err err;
    ft_synth_result made;
    snprintf(path, sizeof path, "/tmp/foretoken-invariant-%d-27b.gguf", (int)getpid());
    const ft_synth_opts o = {
        .shape = "27b", .type = "Q4_K", .path = path, .mtp = true, .threads = 1, .blank = true};
    if (ft_synth(&made, &o, &err)) {
        printf("%s\n", err.text);
        exit(1);
    }
    ft_model *m = inv_open(path, dev, NULL);
    unlink(path);
    return m;
}

static void check_cost(const inv_model *m, ft_kv_type kt, ft_kv_type vt)
{
    static inv_response r;
    int32_t ids[PROMPT];
    ft_engine_params p = inv_params(DRAFTS);
    p.kt = kt;
    p.vt = vt;
    inv_prompt(ids, PROMPT, m->m->V, 1);
    memset(&count, 0, sizeof count);
    const ft_task j = inv_job(TOKENS, DRAFTS);
    inv_response_alone(&r, m, &p, &j, ids, PROMPT);
    const double share = count.most_draft / count.least_trunk;
    check(r.stats.accepted == r.stats.drafted && r.stats.drafted > TOKENS / 2,
          "%d of %d draft tokens were accepted", (int)r.stats.accepted, (int)r.stats.drafted);
    /* the pass that reads the prompt drafts the first token */
    check(count.trunks == r.stats.decode_steps && count.drafts >= r.stats.drafted - 1,
          "%d verification passes in %d steps, %d draft passes for %d draft tokens", count.trunks,
          (int)r.stats.decode_steps, count.drafts, (int)r.stats.drafted);
    check(count.least_trunk > 13e9 && count.least_trunk < 17e9,
          "a verification pass reads %.3g bytes, want those of a 27b", count.least_trunk);
    check(share > 0.02 && share <= 0.12,
          "caches %d and %d: a draft pass reads %.3f of a verification pass, want 0.12 at most",
          (int)kt, (int)vt, share);
    const double head = count.prompt_head / count.prompt_trunk;
    check(head > 0 && head <= 0.02,
          "the head computes %.4f of the products of a prompt, want 0.02 at most", head);
}

/* Steps in which all draft tokens are accepted, and steps in which none is. */
static void check_rollback(const inv_model *m)
{
    static inv_response r;
    static const double none[FT_DRAFT_MAX];
    double all[FT_DRAFT_MAX];
    int32_t ids[PROMPT];
    int ops[2];
    const ft_engine_params p = inv_params(DRAFTS);
    for (int i = 0; i < FT_DRAFT_MAX; i++) all[i] = 1;
    inv_prompt(ids, PROMPT, m->m->V, 1);
    for (int kept = 0; kept < 2; kept++) {
        memset(&count, 0, sizeof count);
        ft_task j = inv_job(TOKENS, DRAFTS);
        j.sim_accept = kept ? all : none;
        inv_response_alone(&r, m, &p, &j, ids, PROMPT);
        check(r.stats.accepted == (kept ? r.stats.drafted : 0) && r.stats.drafted > TOKENS / 2,
              "%d of %d draft tokens accepted", (int)r.stats.accepted, (int)r.stats.drafted);
        check(count.trunks == r.stats.decode_steps, "%d passes in %d steps", count.trunks,
              (int)r.stats.decode_steps);
        check(count.least_ops == count.most_ops, "verifications of %d and %d ops", count.least_ops,
              count.most_ops);
        ops[kept] = count.most_ops;
    }
    check(ops[0] == ops[1] && ops[0] > 0, "a verification has %d ops after rejections, else %d",
          ops[0], ops[1]);
}

int main(void)
{
    if (getenv("FT_TEST_DEV") && strcmp(getenv("FT_TEST_DEV"), "cpu")) return inv_end();
    inv_model m = {.name = "27b", .dev = ft_dev_ref()};
    m.dev->op = &counting;
    m.dev->commit = end_pass;
    m.m = blank_27b(m.dev);
    for (ft_kv_type t = 0; t < FT_KV_TYPES; t++) check_cost(&m, t, t);
    check_cost(&m, FT_KV_Q8_0, FT_KV_TURBO3);
    check_rollback(&m);
    inv_model_close(&m);
    return inv_end();
}
