/* tests/invariants/files.c - a draft head in a separate file gives bit-identical draft tokens to
 * the same head inside the model, in both file formats; the head of another model is rejected. Of
 * two heads the first one drafts. Tensors that do not fit are rejected, not ignored. */
#define _XOPEN_SOURCE 700
#include "gguf/writer.h"
#include "invariants.h"
#include "tools/inspect.h"

typedef struct lines {
    char text[64 << 10];
    size_t n;
} lines;

/* Records the ids of drafts and acceptances, without times. */
static void record_trace(void *user, const char *line)
{
    lines *l = user;
    const char *ids = strchr(line, '[');
    l->n += (size_t)snprintf(l->text + l->n, sizeof l->text - l->n, "%s\n", ids ? ids : line);
}

static void drafts_of(lines *l, inv_response *r, const inv_model *m, ft_task j)
{
    int32_t ids[20];
    inv_prompt(ids, 20, m->m->V, 6);
    const ft_engine_params p = inv_params(3);
    ft_engine *e = inv_engine(m, &p);
    *l = (lines){0};
    ft_engine_trace(e, record_trace, l);
    inv_response_on(r, ft_slot_new(e), &j, ids, 20);
    ft_engine_free(e);
}

/* What a copy of a file has that the file has not. */
typedef struct change {
    const char *arch;          /* another architecture */
    const char *key[2];        /* other numbers */
    uint32_t number[2];        /* of these keys */
    const char *twice, *again; /* tensors of this prefix once more, with another prefix */
    const char *scale;         /* one more tensor of n_scale ones */
    int n_scale;
    const char *repeated; /* of this tensor of int32_t the second entry becomes the first */
} change;

static bool change_key(ft_gguf_writer *w, const ft_gguf_kv *kv, const change *c)
{
    if (c->arch && ft_str_is(kv->key, "general.architecture")) {
        ft_gguf_put_str(w, "general.architecture", ft_str_of(c->arch));
        return true;
    }
    for (int i = 0; i < 2; i++)
        if (c->key[i] && ft_str_is(kv->key, c->key[i])) {
            ft_gguf_put_u32(w, c->key[i], c->number[i]);
            return true;
        }
    return false;
}

static void put_data(ft_gguf_writer *w, size_t at, const ft_gguf_tensor *t, const change *c)
{
    ft_gguf_writer_data(w, at, 0, t->data, t->bytes);
    if (c->repeated && ft_str_is(t->name, c->repeated))
        ft_gguf_writer_data(w, at, sizeof(int32_t), t->data, sizeof(int32_t));
}

static void changed_copy(const char *from, const char *to, const change *c)
{
    ft_gguf *g = NULL;
    ft_gguf_writer *w = NULL;
    ft_err err;
    char name[128];
    if (ft_gguf_open(&g, from, true, &err) || ft_gguf_writer_open(&w, to, &err)) exit(1);
    for (size_t i = 0; i < ft_gguf_n_kv(g); i++) {
        const ft_gguf_kv *kv = ft_gguf_kv_at(g, i);
        if (!change_key(w, kv, c)) ft_gguf_put_kv(w, kv);
    }
    const size_t n = ft_gguf_n_tensor(g), cut = c->twice ? strlen(c->twice) : 0;
    size_t *source = ft_new_n(size_t, 2 * n), all = 0;
    for (size_t i = 0; i < n; i++) {
        const ft_gguf_tensor *t = ft_gguf_tensor_at(g, i);
        source[ft_gguf_put_tensor(w, t->name.p, t->type, t->n_dims, t->n)] = i;
        all++;
        if (!c->twice || !ft_str_starts(t->name, ft_str_of(c->twice))) continue;
        snprintf(name, sizeof name, "%s%s", c->again, t->name.p + cut);
        source[ft_gguf_put_tensor(w, name, t->type, t->n_dims, t->n)] = i;
        all++;
    }
    const int64_t ones = c->n_scale;
    if (c->scale) ft_gguf_put_tensor(w, c->scale, FT_F32, 1, &ones);
    if (ft_gguf_writer_begin(w, &err)) exit(1);
    for (size_t i = 0; i < all; i++) put_data(w, i, ft_gguf_tensor_at(g, source[i]), c);
    for (size_t i = 0; c->scale && i < (size_t)ones; i++)
        ft_gguf_writer_data(w, all, i * sizeof(float), &(float){1}, sizeof(float));
    if (ft_gguf_writer_commit(w, &err)) exit(1);
    ft_free(source);
    ft_gguf_close(g);
}

static void head_alone(const char *name, const char *fork_arch)
{
    static lines inside, outside;
    static inv_response a, b;
    char path[128], head[160], fork[160];
    ft_err err;
    inv_golden_file(name, path);
    snprintf(head, sizeof head, "%s.head", path);
    snprintf(fork, sizeof fork, "%s.fork", path);
    const ft_mtp_opts o = {.path = path, .out = head, .use_mmap = true};
    check(!ft_mtp_extract(&o, &err), "%s: %s", name, err.text);
    changed_copy(head, fork, &(change){.arch = fork_arch});
    inv_model m = {.name = name, .dev = inv_dev(1)};
    m.m = inv_open(path, m.dev, NULL);
    drafts_of(&inside, &a, &m, inv_job(40, 3));
    check(inside.n > 100, "%s: nothing was drafted", name);
    const char *const files[] = {head, fork};
    for (int i = 0; i < 2; i++) {
        m.assistant = inv_open(files[i], m.dev, m.m);
        check(m.assistant->weight_bytes * 2 < m.m->weight_bytes, "%s: the head has %llu bytes",
              name, (unsigned long long)m.assistant->weight_bytes);
        drafts_of(&outside, &b, &m, inv_job(40, 3));
        check(inv_same(&a, &b) && !strcmp(inside.text, outside.text),
              "%s: other drafts from a file of their own (%d)", name, i);
        ft_model_close(m.assistant);
    }
    /* alone it is not a model; with another model it is rejected, and the error names both widths
     */
    ft_gguf *g = NULL;
    ft_model *none = NULL;
    check(!ft_gguf_open(&g, head, true, &err) && ft_model_open(&none, g, m.dev, NULL, NULL, &err) &&
              strstr(err.text, "draft head alone"),
          "%s: a head alone: %s", name, err.text);
    inv_model tiny = inv_model_tiny(1);
    const bool refused = ft_model_open(&none, g, tiny.dev, tiny.m, NULL, &err) != FT_OK;
    check(refused && (strcmp(name, "qwen35-dense") ||
                      (strstr(err.text, "width 256") && strstr(err.text, "512"))),
          "%s: the head of another model: %s", name, err.text);
    ft_gguf_close(g);
    inv_model_close(&tiny);
    m.assistant = NULL;
    inv_model_close(&m);
    unlink(path);
    unlink(head);
    unlink(fork);
}

typedef struct few_ids {
    int drafts, wrong; /* wrong: not a multiple of step below limit */
    int step, limit;
} few_ids;

static void outside(void *user, const char *line)
{
    few_ids *n = user;
    const char *p = strstr(line, "\"drafts\":[");
    if (!p) return;
    for (p += 9; *p && *p != ']'; p = strpbrk(p, ",]")) {
        const int id = atoi(++p);
        n->drafts++;
        n->wrong += id % n->step != 0 || id >= n->limit;
    }
}

/* A head over some ids, or over the first ids, drafts only those; the response is the same. */
static void narrow(inv_model m, bool first)
{
    static inv_response wide, few;
    int32_t ids[100], prompt[20];
    few_ids n = {.step = first ? 1 : 3, .limit = first ? 4 * FT_NARROW : 300};
    ft_model *drafter = m.assistant ? m.assistant : m.m;
    ft_err err;
    const ft_engine_params p = inv_params(3);
    const ft_task j = inv_job(60, 3);
    inv_prompt(prompt, 20, m.m->V, 6);
    inv_response_alone(&wide, &m, &p, &j, prompt, 20);
    for (int i = 0; i < 100; i++) ids[i] = 3 * i;
    const uint64_t before = ft_engine_bytes(m.m, m.assistant, &p);
    check(!ft_model_narrow(drafter, first ? NULL : ids, first ? 4 * FT_NARROW : 100, &err),
          "%s: %s", m.name, err.text);
    check(ft_engine_bytes(m.m, m.assistant, &p) <= before,
          "%s: a head over fewer ids takes more memory", m.name);
    ft_engine *e = inv_engine(&m, &p);
    ft_engine_trace(e, outside, &n);
    inv_response_on(&few, ft_slot_new(e), &j, prompt, 20);
    check(inv_same(&wide, &few), "%s: different id at %d with a head over fewer ids", m.name,
          inv_first_difference(&wide, &few));
    check(n.drafts > 20 && n.wrong == 0, "%s: %d of %d draft tokens outside the ids of the head",
          m.name, n.wrong, n.drafts);
    ft_engine_free(e);
    inv_model_close(&m);
}

/* A copy of a golden model, with a change; the caller unlinks it. */
static void golden_changed(const char *name, char out[160], const change *c)
{
    char path[128];
    inv_golden_file(name, path);
    snprintf(out, 160, "%s.changed", path);
    changed_copy(path, out, c);
    unlink(path);
}

/* Of two MTP blocks the first one drafts, as if it were the only one. */
static void two_heads(void)
{
    static lines one, two;
    static inv_response a, b;
    char path[160];
    inv_model m = inv_model_golden("qwen35-dense", NULL, 1);
    const int L = m.m->L;
    char twice[32], again[32];
    snprintf(twice, sizeof twice, "blk.%d.", L);
    snprintf(again, sizeof again, "blk.%d.", L + 1);
    golden_changed("qwen35-dense", path,
                   &(change){.key = {"qwen35.block_count", "qwen35.nextn_predict_layers"},
                             .number = {(uint32_t)L + 2, 2},
                             .twice = twice,
                             .again = again});
    inv_model copy = {.name = "two heads", .dev = inv_dev(1)};
    copy.m = inv_open(path, copy.dev, NULL);
    check(copy.m->L == L && copy.m->drafter == FT_DRAFT_MTP && copy.m->draft_heads == 2,
          "two heads: %d layers, %d heads", copy.m->L, copy.m->draft_heads);
    drafts_of(&one, &a, &m, inv_job(40, 3));
    drafts_of(&two, &b, &copy, inv_job(40, 3));
    check(inv_same(&a, &b) && one.n > 100 && !strcmp(one.text, two.text),
          "two heads: other drafts than with the first one alone");
    ft_err err;
    const ft_mtp_opts o = {.path = path, .out = "/nowhere/head.gguf", .use_mmap = true};
    check(ft_mtp_extract(&o, &err) && strstr(err.text, "2 MTP blocks"), "two heads: %s", err.text);
    inv_model_close(&m);
    inv_model_close(&copy);
    unlink(path);
}

/* A changed file that must be rejected, or must load. */
static void opens(const char *name, const inv_model *target, const change *c, const char *text)
{
    char path[160];
    ft_err err = {0};
    ft_gguf *g = NULL;
    ft_model *m = NULL;
    ft_dev *dev = target ? target->dev : inv_dev(1);
    golden_changed(name, path, c);
    if (ft_gguf_open(&g, path, true, &err)) exit(1);
    const ft_status st = ft_model_open(&m, g, dev, target ? target->m : NULL, NULL, &err);
    check(text ? st && strstr(err.text, text) : !st, "%s: \"%s\", want \"%s\"", name, err.text,
          text ? text : "");
    if (st)
        ft_gguf_close(g);
    else
        ft_model_close(m);
    if (!target) ft_dev_close(dev);
    unlink(path);
}

static void damaged(void)
{
    opens("qwen35-dense", NULL, &(change){.scale = "blk.0.ffn_down.scale", .n_scale = 1}, NULL);
    opens("qwen35-dense", NULL, &(change){.scale = "blk.0.ffn_down.scale", .n_scale = 3},
          "blk.0.ffn_down.scale is [3, 1, 1, 1], want [1, 1, 1, 1]");
    opens("qwen35-dense", NULL, &(change){.scale = "blk.4.nextn.eh_proj.scale", .n_scale = 1},
          NULL);
    opens("qwen35-dense", NULL, &(change){.scale = "blk.4.nextn.eh_proj.scale", .n_scale = 3},
          "blk.4.nextn.eh_proj.scale is [3, 1, 1, 1], want [1, 1, 1, 1]");
    opens("qwen35-dense", NULL, &(change){.scale = "blk.4.nextn.other.scale", .n_scale = 1},
          "blk.4.nextn.other.scale belongs to a matrix that is missing");
    /* of fused gate and up matrices */
    opens("gemma4-moe", NULL, &(change){.scale = "blk.0.ffn_up_exps.scale", .n_scale = 16}, NULL);
    opens("gemma4-moe", NULL, &(change){.scale = "blk.0.ffn_up_exps.scale", .n_scale = 3},
          "blk.0.ffn_up_exps.scale is [3, 1, 1, 1], want [16, 1, 1, 1]");
    inv_model m = inv_model_golden("gemma4-edge", NULL, 1);
    opens("gemma4-edge-assistant", &m, &(change){0}, NULL);
    opens("gemma4-edge-assistant", &m, &(change){.repeated = "masked_embd_ordering"},
          "want each id once");
    inv_model_close(&m);
}

int main(void)
{
    two_heads();
    damaged();
    for (int first = 0; first < 2; first++) {
        narrow(inv_model_golden("qwen35-dense", NULL, 1), first);
        narrow(inv_model_golden("gemma4-gqa", "gemma4-gqa-assistant", 1), first);
    }
    head_alone("qwen35-dense", "qwen35_mtp");
    head_alone("qwen35-moe", "qwen35moe_mtp");
    return inv_end();
}
