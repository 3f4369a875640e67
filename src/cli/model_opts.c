#define _GNU_SOURCE
#include "cli/model_opts.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/params.h"
#include "base/rng.h"
#include "cli/cmd.h"
#include "cli/hub.h"
#include "cli/progress.h"
#include "cli/spec_opts.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_FILE  ((size_t)1 << 30)
#define MAX_IMAGE ((size_t)20 << 20)

static void *keep(ft_model_opts *mo, void *p)
{
    mo->own = ft_realloc(mo->own, sizeof *mo->own * (size_t)(mo->n_own + 1));
    mo->own[mo->n_own++] = p;
    return p;
}

void ft_model_opts_release(ft_model_opts *mo)
{
    for (int i = 0; i < mo->n_own; i++) ft_free(mo->own[i]);
    ft_free(mo->own);
    *mo = (ft_model_opts){0};
}

/* An option that also comes as a file: NAME and NAME-file. */
static ft_status text_or_file(ft_model_opts *mo, const ft_opts *o, const char *name,
                              const char *file_name, const char **out, ft_err *err)
{
    const char *text = ft_opts_text(o, name), *path = ft_opts_text(o, file_name);
    *out = text;
    if (!path) return FT_OK;
    if (text)
        return ft_fail(err, FT_EINVAL, "both --%s and --%s are given, want one of them", name,
                       file_name);
    char *read;
    size_t n;
    const ft_status st = ft_file_read(&read, &n, path, MAX_FILE, err);
    if (st) return st;
    *out = keep(mo, read ? read : ft_strdup(""));
    return FT_OK;
}

/* The values of a list option, with escape sequences replaced if --escape is given. */
static const char *const *list(ft_model_opts *mo, const ft_opts *o, const char *name, int *n)
{
    *n = ft_opts_has(o, name) ? ft_opts_count(o, name) : 0;
    const char **out = keep(mo, ft_new_n(const char *, (size_t)*n + 1));
    const bool escapes = ft_opts_has(o, "escape") && ft_opts_flag(o, "escape");
    for (int i = 0; i < *n; i++) {
        char *text = keep(mo, ft_strdup(ft_opts_at(o, name, i)));
        if (escapes) ft_unescape(text);
        out[i] = text;
    }
    return out;
}

/* ---- the model ---- */

/* A model of Hugging Face, which may be downloaded; mmproj: and with it a vision tower, or NULL. */
static ft_status take_hub(ft_model_opts *mo, const ft_opts *o, const char *name, const char *file,
                          const char **out, const char **mmproj, ft_err *err)
{
    ft_hub_name hub;
    char *path, *tower = NULL;
    ft_hub_set_token(ft_opts_text(o, "hf-token"));
    ft_status st = ft_hub_parse(&hub, name, file, err);
    if (!st)
        st = ft_hub_take(&hub, ft_opts_flag(o, "offline"), ft_opts_flag(o, "quiet"), &path,
                         mmproj ? &tower : NULL, err);
    if (!st) *out = keep(mo, path);
    if (!st && tower) *mmproj = keep(mo, tower);
    return st;
}

/* The file at an address, which may be downloaded. */
static ft_status take_url(ft_model_opts *mo, const ft_opts *o, const char *url, const char **out,
                          ft_err *err)
{
    char *path;
    const ft_status st =
        ft_hub_take_url(url, ft_opts_flag(o, "offline"), ft_opts_flag(o, "quiet"), &path, err);
    if (!st) *out = keep(mo, path);
    return st;
}

/* The model file: -m, -hf or -mu; -hf may find a vision tower too. */
static ft_status find_model(ft_model_opts *mo, const ft_opts *o, const char **out,
                            const char **mmproj, ft_err *err)
{
    const bool sees = ft_opts_has(o, "mmproj") && !ft_opts_text(o, "mmproj") &&
                      !ft_opts_text(o, "mmproj-url") && !ft_opts_flag(o, "no-mmproj");
    const char *name = ft_opts_text(o, "hf-repo"), *url = ft_opts_text(o, "model-url");
    *out = ft_opts_text(o, "model");
    if (!name) ft_opts_warn_unused(o, "hf-file", "there is no --hf-repo");
    if ((*out != NULL) + (name != NULL) + (url != NULL) > 1)
        return ft_fail(err, FT_EINVAL,
                       "more than one of --model, --hf-repo and --model-url is given, want one");
    if (name)
        return take_hub(mo, o, name, ft_opts_text(o, "hf-file"), out, sees ? mmproj : NULL, err);
    return url ? take_url(mo, o, url, out, err) : FT_OK;
}

/* Placement on GPU and CPU: -ngl, --cpu-moe, --n-cpu-moe, --fit. */
static ft_status place_opts(const ft_opts *o, ft_llm_params *p, ft_err *err)
{
    const char *layers = ft_opts_text(o, "gpu-layers");
    char *end;
    const long n = strtol(layers, &end, 10);
    const bool number = *layers && !*end && n >= -1 && n <= INT_MAX;
    if (!strcmp(layers, "all"))
        p->gpu_layers = INT_MAX;
    else if (number && n >= 0)
        p->gpu_layers = (int)n;
    else if (strcmp(layers, "auto") && !number)
        return ft_fail(err, FT_EINVAL, "--gpu-layers %s, want a number, auto or all", layers);
    else if (!strcmp(ft_opts_text(o, "fit"), "off"))
        p->gpu_layers = INT_MAX;
    p->cpu_moe = (int)ft_opts_int(o, "n-cpu-moe");
    if (ft_opts_flag(o, "cpu-moe")) p->cpu_moe = INT_MAX;
    p->fit_target = (int)ft_opts_int(o, "fit-target");
    return FT_OK;
}

/* --split-mode row and tensor are not implemented: layers are split instead. */
static const char *split_mode(const ft_opts *o)
{
    const char *mode = ft_opts_text(o, "split-mode");
    if (!strcmp(mode, "none") || !strcmp(mode, "layer") || !strcmp(mode, "expert")) return mode;
    ft_opts_warn("--split-mode %s is not supported: whole layers are distributed (layer)", mode);
    return "layer";
}

/* Prompt tokens per step: the smaller of --batch-size and --ubatch-size. */
static int batch_of(const ft_opts *o)
{
    enum { LEAST = 64 };
    const int b = (int)ft_opts_int(o, "batch-size"), ub = (int)ft_opts_int(o, "ubatch-size");
    const int n = b && ub ? FT_MIN(b, ub) : FT_MAX(b, ub);
    if (!n || n >= LEAST) return n;
    ft_opts_warn("--%s %d is rounded up to %d, the smallest step",
                 n == b ? "batch-size" : "ubatch-size", n, LEAST);
    return LEAST;
}

static void load_mode(const ft_opts *o, ft_llm_params *p)
{
    const char *mode = ft_opts_text(o, "load-mode");
    p->no_mmap = !ft_opts_flag(o, "mmap") || !strcmp(mode, "none");
    if (strstr(mode, "mlock") || !strcmp(mode, "dio"))
        ft_opts_warn("--load-mode %s: the file is mapped; memory is never locked, and files are "
                     "read through the page cache",
                     mode);
}

static void rope_opts(const ft_opts *o, ft_llm_params *p)
{
    p->rope_scaling = ft_opts_text(o, "rope-scaling");
    p->rope_freq_base = (float)ft_opts_float(o, "rope-freq-base");
    p->rope_scale = (float)ft_opts_float(o, "rope-scale");
    if (ft_opts_set(o, "rope-freq-scale") && !ft_opts_set(o, "rope-scale"))
        p->rope_scale = (float)(1 / ft_opts_float(o, "rope-freq-scale"));
    p->yarn_orig_ctx = (int)ft_opts_int(o, "yarn-orig-ctx");
    p->yarn_ext_factor = (float)ft_opts_float(o, "yarn-ext-factor");
    p->yarn_attn_factor = (float)ft_opts_float(o, "yarn-attn-factor");
    p->yarn_beta_slow = (float)ft_opts_float(o, "yarn-beta-slow");
    p->yarn_beta_fast = (float)ft_opts_float(o, "yarn-beta-fast");
}

int ft_model_opts_tail(const ft_opts *o)
{
    const char *tail = ft_opts_text(o, "kv-tail");
    return !strcmp(tail, "auto") ? -1 : !strcmp(tail, "on");
}

/* Variables of a llama.cpp fork that have no option here. */
static void warn_rotation(void)
{
    static const char *const name[] = {"LLAMA_ATTN_ROT_DISABLE", "LLAMA_ATTN_ROT_K_OVERRIDE",
                                       "LLAMA_ATTN_ROT_V_OVERRIDE", "LLAMA_ATTN_ROT_K_NROT"};
    for (size_t i = 0; i < FT_COUNT(name); i++) {
        const char *value = getenv(name[i]);
        if (value && *value && strcmp(value, "0"))
            ft_opts_warn("%s has no effect: turbo caches are Hadamard-transformed, others never",
                         name[i]);
    }
}

/* One adapter of --lora: FILE or FILE:SCALE. */
static ft_status read_adapter(ft_lora_file *f, char *text, ft_err *err)
{
    char *colon = strrchr(text, ':');
    double scale;
    *f = (ft_lora_file){.path = text, .scale = 1};
    if (colon && ft_parse_f64(colon + 1, -1e6, 1e6, &scale)) {
        *colon = 0;
        f->scale = (float)scale;
    }
    return *text ? FT_OK : ft_fail(err, FT_EINVAL, "--lora: no file, want FILE or FILE:SCALE");
}

static ft_status lora_opts(ft_model_opts *mo, const ft_opts *o, ft_llm_params *p, ft_err *err)
{
    ft_lora_file *f = keep(mo, ft_new_n(ft_lora_file, FT_ADAPTERS_MAX));
    ft_status st = FT_OK;
    p->lora = f;
    for (int i = 0; i < ft_opts_count(o, "lora"); i++) {
        char *rest = NULL, *text = keep(mo, ft_strdup(ft_opts_at(o, "lora", i)));
        for (text = strtok_r(text, ",", &rest); text && !st; text = strtok_r(NULL, ",", &rest)) {
            if (p->n_lora == FT_ADAPTERS_MAX)
                return ft_fail(err, FT_ELIMIT, "--lora: more than %d adapters", FT_ADAPTERS_MAX);
            st = read_adapter(&f[p->n_lora++], text, err);
        }
    }
    for (int i = 0; i < p->n_lora && ft_opts_flag(o, "lora-init-without-apply"); i++)
        f[i].scale = 0;
    return st;
}

ft_status ft_model_opts_params(ft_model_opts *mo, const ft_opts *o, ft_llm_params *p, ft_err *err)
{
    warn_rotation();
    ft_llm_defaults(p);
    const char *found = NULL;
    ft_status st = find_model(mo, o, &p->model, &found, err);
    if (st) return st;
    p->device = ft_opts_text(o, "device");
    p->split_mode = split_mode(o);
    p->micro_batches = (int)ft_opts_int(o, "micro-batches");
    p->tensor_split = ft_opts_text(o, "tensor-split");
    p->main_gpu = (int)ft_opts_int(o, "main-gpu");
    if ((st = place_opts(o, p, err))) return st;
    p->cache_k = ft_opts_text(o, "cache-type-k");
    p->cache_v = ft_opts_text(o, "cache-type-v");
    p->cache = ft_opts_has(o, "kv") ? ft_opts_text(o, "kv") : NULL;
    p->cache_exact = ft_opts_flag(o, "kv-exact");
    p->cache_tail = ft_model_opts_tail(o);
    p->threads = FT_MAX(0, (int)ft_opts_int(o, "threads"));
    p->ctx = (int)ft_opts_int(o, "ctx-size");
    if (!p->ctx && ft_opts_set(o, "ctx-size")) p->ctx = -1; /* as trained */
    p->batch = batch_of(o);
    load_mode(o, p);
    rope_opts(o, p);
    p->override_kv = list(mo, o, "override-kv", &p->n_override_kv);
    p->override_tensor = list(mo, o, "override-tensor", &p->n_override_tensor);
    if ((st = lora_opts(mo, o, p, err))) return st;
    p->progress = ft_opts_flag(o, "quiet") ? NULL : ft_bar_load;
    if (ft_opts_has(o, "mmproj")) {
        const char *url = ft_opts_text(o, "mmproj-url");
        p->mmproj = found ? found : ft_opts_text(o, "mmproj");
        p->mmproj_found = found;
        if (url && ft_opts_text(o, "mmproj"))
            return ft_fail(err, FT_EINVAL, "--mmproj and --mmproj-url, want one of them");
        if (url && (st = take_url(mo, o, url, &p->mmproj, err))) return st;
        p->no_mmproj = ft_opts_flag(o, "no-mmproj");
        p->image_min_tokens = (int)ft_opts_int(o, "image-min-tokens");
        p->image_max_tokens = (int)ft_opts_int(o, "image-max-tokens");
        p->image_cache_mib = (int)ft_opts_int(o, "image-cache-mib");
        p->image_background = ft_opts_text(o, "image-background");
        if (p->mmproj && p->no_mmproj)
            return ft_fail(err, FT_EINVAL, "--mmproj and --no-mmproj, want one of them");
    } else {
        p->no_mmproj = true;
    }
    if (!ft_opts_has(o, "spec-type")) { /* a program that makes no responses */
        p->draft_max = 0;
        return FT_OK;
    }
    st = ft_spec_opts(o, p, err);
    const char *draft = ft_opts_text(o, "spec-draft-hf");
    if (!st && draft && p->draft_model)
        st = ft_fail(err, FT_EINVAL, "--spec-draft-model and --spec-draft-hf, want one of them");
    if (!st && draft) st = take_hub(mo, o, draft, NULL, &p->draft_model, NULL, err);
    if (st || !ft_opts_has(o, "chat-template")) return st;
    return text_or_file(mo, o, "chat-template", "chat-template-file", &p->template_text, err);
}

/* ---- images ---- */

ft_status ft_model_opts_image(ft_model_opts *mo, const char *path, ft_image_input *out, ft_err *err)
{
    char *bytes;
    size_t n;
    const ft_status st = ft_file_read(&bytes, &n, path, MAX_IMAGE, err);
    if (st) return st;
    *out = (ft_image_input){.bytes = keep(mo, bytes), .n = n};
    return FT_OK;
}

json_t *ft_model_opts_content(json_t *text, int images)
{
    if (!images) return text;
    json_t *parts = json_array();
    for (int i = 0; i < images; i++)
        json_array_append_new(parts, json_pack("{s:s}", "type", "image"));
    json_array_append_new(parts, json_pack("{s:s, s:o}", "type", "text", "text", text));
    return parts;
}

/* ---- the request ---- */

/* Writes the value of a request parameter to its field, if the option was given. */
static void set_field(const ft_opts *o, int row, void *to)
{
    const ft_param *p = &ft_request_params[row];
    if (!p->name || (p->flags & FT_PARAM_AT_LOAD)) return;
    if (!ft_opts_has(o, p->name) || !ft_opts_set(o, p->name)) return;
    if (p->kind == FT_PARAM_FLAG)
        *(bool *)to = ft_opts_flag(o, p->name);
    else if (p->kind == FT_PARAM_FLOAT)
        *(float *)to = (float)ft_opts_float(o, p->name);
    else
        *(int *)to = (int)ft_opts_int(o, p->name);
}

static void set_sampling(const ft_opts *o, ft_sampling *s)
{
#define FT_SAMPLING(type, field, number, ...) set_field(o, FT_ROW_##field, &s->field);
#include "base/request.def"
}

static void set_request(const ft_opts *o, ft_request *r)
{
#define FT_REQUEST(type, field, number, ...) set_field(o, FT_ROW_##field, &r->field);
#include "base/request.def"
}

static uint64_t seed(const ft_opts *o)
{
    const int64_t given = ft_opts_int(o, "seed");
    if (given >= 0) return (uint64_t)given;
    uint32_t s;
    if (getrandom(&s, sizeof s, 0) != sizeof s)
        s = (uint32_t)ft_mix64((uint64_t)ft_now_ns() ^ (uint64_t)getpid());
    return s;
}

/* "123+4.5", "123-4.5" or "123-inf". */
static ft_status bias(const char *text, int32_t *id, float *value, ft_err *err)
{
    const size_t digits = strspn(text, "0123456789");
    char number[16];
    int64_t i;
    double v;
    const bool sign = text[digits] == '+' || text[digits] == '-';
    if (digits && digits < sizeof number && sign) {
        memcpy(number, text, digits);
        number[digits] = 0;
        const char *amount = text + digits + (text[digits] == '+');
        const bool never = !strcmp(amount, "-inf");
        if (ft_parse_i64(number, 0, INT32_MAX, &i) &&
            (never || ft_parse_f64(amount, -1e9, 1e9, &v))) {
            *id = (int32_t)i;
            *value = never ? -1e30f : (float)v;
            return FT_OK;
        }
    }
    return ft_fail(err, FT_EINVAL, "--logit-bias: \"%.60s\", want a token id, + or -, and a number",
                   text);
}

static ft_status biases(ft_model_opts *mo, const ft_opts *o, ft_sampling *s, ft_err *err)
{
    const int n = ft_opts_count(o, "logit-bias");
    int32_t *id = keep(mo, ft_new_n(int32_t, (size_t)n + 1));
    float *value = keep(mo, ft_new_n(float, (size_t)n + 1));
    for (int i = 0; i < n; i++) {
        const ft_status st = bias(ft_opts_at(o, "logit-bias", i), &id[i], &value[i], err);
        if (st) return st;
    }
    s->bias_id = id;
    s->bias = value;
    s->n_bias = n;
    return FT_OK;
}

static void breakers(ft_model_opts *mo, const ft_opts *o, ft_sampling *s)
{
    if (!ft_opts_set(o, "dry-sequence-breaker")) return;
    s->dry_breakers = list(mo, o, "dry-sequence-breaker", &s->n_dry_breakers);
    if (s->n_dry_breakers == 1 && !strcmp(s->dry_breakers[0], "none")) s->n_dry_breakers = 0;
}

const ft_sampling *ft_model_opts_bench_sampling(const ft_opts *o, const ft_llm *m, ft_sampling *s)
{
    if (!ft_opts_set(o, "temp")) return NULL;
    ft_sampling_defaults(s, m);
    set_sampling(o, s);
    return s;
}

/* --sampler-seq: the samplers by their letters. */
static ft_status sampler_letters(ft_model_opts *mo, const char *letters, const char **out,
                                 ft_err *err)
{
    ft_buf b;
    ft_buf_init(&b, 1 << 12);
    for (const char *p = letters; *p; p++) {
        const ft_sampler_name *s = ft_sampler_names;
        while (s->name && s->letter != *p) s++;
        if (!s->name) {
            ft_buf_release(&b);
            return ft_fail(err, FT_EINVAL, "--sampler-seq: \"%.40s\", want letters of edskypmxt",
                           letters);
        }
        ft_buf_printf(&b, "%s%s", b.len ? ";" : "", s->name);
    }
    *out = keep(mo, b.data ? ft_buf_take(&b) : ft_strdup(""));
    return FT_OK;
}

static ft_status sampling(ft_model_opts *mo, const ft_opts *o, ft_sampling *s, ft_err *err)
{
    s->seed = seed(o);
    set_sampling(o, s);
    if (ft_opts_set(o, "samplers")) s->samplers = ft_opts_text(o, "samplers");
    if (ft_opts_set(o, "sampler-seq")) {
        const ft_status st = sampler_letters(mo, ft_opts_text(o, "sampler-seq"), &s->samplers, err);
        if (st) return st;
    }
    breakers(mo, o, s);
    return biases(mo, o, s, err);
}

/* Warns about the keywords of a schema that cannot be enforced, and uses it without them. */
static ft_status relax_schema(ft_model_opts *mo, const char **schema, ft_err *err)
{
    char *relaxed, *removed;
    size_t i;
    json_t *one;
    const ft_status st = ft_schema_enforceable(*schema, &relaxed, &removed, err);
    if (st) return st;
    json_t *list = json_loads(removed, 0, NULL);
    json_array_foreach(list, i, one)
        ft_opts_warn("--json-schema: not enforced: %s", json_string_value(one));
    json_decref(list);
    free(removed);
    *schema = keep(mo, relaxed);
    return FT_OK;
}

ft_status ft_model_opts_request(ft_model_opts *mo, const ft_opts *o, const ft_llm *m, ft_request *r,
                                ft_err *err)
{
    ft_request_defaults(r, m);
    ft_status st = sampling(mo, o, &r->sampling, err);
    if (!st) st = text_or_file(mo, o, "grammar", "grammar-file", &r->grammar, err);
    if (!st) st = text_or_file(mo, o, "json-schema", "json-schema-file", &r->json_schema, err);
    if (st) return st;
    if (r->grammar && r->json_schema)
        return ft_fail(err, FT_EINVAL,
                       "both a grammar and a JSON schema are given, want one of them");
    if (r->json_schema && (st = relax_schema(mo, &r->json_schema, err))) return st;
    set_request(o, r);
    r->reasoning_message = ft_opts_text(o, "reasoning-budget-message");
    r->stop = list(mo, o, "stop", &r->n_stop);
    return FT_OK;
}

/* ---- the prompt ---- */

ft_status ft_model_opts_template(const ft_opts *o, json_t **out, ft_err *err)
{
    const char *given = ft_opts_text(o, "chat-template-kwargs");
    json_error_t e;
    json_t *j = given ? json_loads(given, JSON_REJECT_DUPLICATES, &e) : json_object();
    if (!j) return ft_fail(err, FT_EFORMAT, "--chat-template-kwargs: %s", e.text);
    if (!json_is_object(j)) {
        json_decref(j);
        return ft_fail(err, FT_EFORMAT, "--chat-template-kwargs: \"%.60s\", want a JSON object",
                       given);
    }
    const char *thinking = ft_opts_flag(o, "no-thinking") ? "off" : ft_opts_text(o, "thinking");
    if (strcmp(thinking, "auto"))
        json_object_set_new(j, "enable_thinking", json_boolean(!strcmp(thinking, "on")));
    json_object_set_new(j, "add_generation_prompt", json_true());
    *out = j;
    return FT_OK;
}

ft_status ft_model_opts_system(ft_model_opts *mo, const ft_opts *o, const char **out, ft_err *err)
{
    return text_or_file(mo, o, "system-prompt", "system-prompt-file", out, err);
}

static int hex(char c)
{
    return c >= '0' && c <= '9'                 ? c - '0'
           : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                : -1;
}

size_t ft_unescape(char *text)
{
    static const char from[] = "ntr0e\\\"'", to[] = "\n\t\r\0\x1b\\\"'";
    char *out = text;
    for (const char *p = text; *p;) {
        if (*p != '\\' || !p[1]) {
            *out++ = *p++;
            continue;
        }
        const char *at = strchr(from, p[1]);
        if (at) {
            *out++ = to[at - from];
            p += 2;
        } else if (p[1] == 'x' && hex(p[2]) >= 0 && hex(p[3]) >= 0) {
            *out++ = (char)(hex(p[2]) * 16 + hex(p[3]));
            p += 4;
        } else {
            *out++ = *p++;
        }
    }
    *out = 0;
    return (size_t)(out - text);
}

/* The words of the command line, joined by spaces. */
static char *words(const ft_opts *o)
{
    ft_buf b;
    ft_buf_init(&b, MAX_FILE);
    for (int i = 0; i < ft_opts_n_word(o); i++) {
        if (i) ft_buf_putc(&b, ' ');
        ft_buf_puts(&b, ft_opts_word(o, i));
    }
    return b.data ? ft_buf_take(&b) : ft_strdup("");
}

/* A pipe or a file, which ends; not a terminal, /dev/null or a service manager's socket. */
static bool stdin_is_input(void)
{
    struct stat st;
    return !fstat(STDIN_FILENO, &st) && (S_ISFIFO(st.st_mode) || S_ISREG(st.st_mode));
}

/* Appends standard input to the prompt after an empty line: git diff | foretoken run "Summarise".
 */
static ft_status append_stdin(ft_model_opts *mo, char **prompt, size_t *bytes, ft_err *err)
{
    char *read;
    size_t n;
    const ft_status st = ft_file_read(&read, &n, "-", MAX_FILE, err);
    if (st || !n) return st;
    char *both = keep(mo, ft_alloc(*bytes + n + 3));
    memcpy(both, *prompt, *bytes);
    memcpy(both + *bytes, "\n\n", 2);
    memcpy(both + *bytes + 2, read, n + 1);
    ft_free(read);
    *prompt = both;
    *bytes += n + 2;
    return FT_OK;
}

ft_status ft_model_opts_prompt(ft_model_opts *mo, const ft_opts *o, bool from_stdin, char **out,
                               size_t *bytes, ft_err *err)
{
    const char *given = ft_opts_text(o, "prompt");
    const char *path = from_stdin ? ft_opts_text(o, "file") : NULL;
    *out = NULL;
    *bytes = 0;
    if ((ft_opts_n_word(o) > 0) + (given != NULL) + (path != NULL) > 1)
        return ft_fail(err, FT_EINVAL,
                       "more than one prompt is given (words, -p, -f), want one of them");
    if (ft_opts_n_word(o) || given) {
        *out = keep(mo, given ? ft_strdup(given) : words(o));
        *bytes = ft_opts_flag(o, "escape") ? ft_unescape(*out) : strlen(*out);
        return from_stdin && stdin_is_input() ? append_stdin(mo, out, bytes, err) : FT_OK;
    }
    if (!from_stdin) return FT_OK;
    if (!path && isatty(STDIN_FILENO))
        return ft_fail(err, FT_EINVAL, "no prompt, want words, -p TEXT, -f FILE or standard input");
    char *read;
    const ft_status st = ft_file_read(&read, bytes, path ? path : "-", MAX_FILE, err);
    if (st) return st;
    *out = keep(mo, read ? read : ft_strdup(""));
    return FT_OK;
}

ft_status ft_model_opts_render(const ft_llm *m, const json_t *messages, const json_t *options,
                               ft_request *r, char **prompt, ft_err *err)
{
    char *list_text = json_dumps(messages, JSON_COMPACT);
    char *options_text = json_dumps(options, JSON_COMPACT);
    *prompt = NULL;
    const ft_status st = ft_llm_render(m, list_text, options_text, prompt, &r->in_thought, err);
    free(list_text);
    free(options_text);
    if (st) return st;
    r->prompt = *prompt;
    r->prompt_bytes = strlen(*prompt);
    r->parse = true;
    return FT_OK;
}

/* ---- text to measure, notes ---- */

ft_status ft_model_opts_ids(const ft_opts *o, const ft_llm *m, int32_t **ids, size_t *n,
                            ft_err *err)
{
    const char *path = ft_opts_text(o, "file");
    if (!path && isatty(STDIN_FILENO))
        return ft_fail(err, FT_EINVAL, "no text, want -f FILE or standard input");
    char *text;
    size_t bytes;
    ft_status st = ft_file_read(&text, &bytes, path ? path : "-", MAX_FILE, err);
    if (st) return st;
    st = ft_vocab_encode(ft_llm_vocab(m), text ? text : "", bytes, FT_ENCODE_ADD_SPECIAL, ids, n,
                         err);
    ft_free(text);
    return st;
}

int ft_model_opts_chunks(const ft_opts *o, void (*prepare)(ft_llm_params *p, int ctx),
                         ft_status (*fn)(const ft_opts *o, ft_llm *m, int ctx, ft_err *err))
{
    enum { CHUNK = 512 };
    ft_err err;
    ft_model_opts mo = {0};
    ft_llm *m = NULL;
    ft_llm_params p;
    const int asked = (int)ft_opts_int(o, "ctx-size"), ctx = asked ? asked : CHUNK;
    ft_status st = ft_model_opts_params(&mo, o, &p, &err);
    if (!st) prepare(&p, ctx);
    if (!st) st = ft_llm_open(&m, &p, &err);
    if (!st) st = fn(o, m, ctx, &err);
    ft_llm_close(m);
    ft_model_opts_release(&mo);
    return st ? ft_die(&err) : 0;
}

void ft_model_opts_cache_note(const ft_opts *o, const ft_llm *m, const ft_term *t, bool notes)
{
    const ft_llm_info *i = ft_llm_about(m);
    if (i->place[0] && (notes || ft_opts_flag(o, "verbose"))) ft_term_note(t, "%s", i->place);
    if (ft_opts_flag(o, "verbose"))
        fputs(i->cache, stderr);
    else if (notes && i->cache_small)
        ft_term_note(t, "%s", i->cache_summary);
}
