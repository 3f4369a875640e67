/* serve/status.c - health, properties, slots and metrics of the server. */
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "serve/images.h"
#include "serve/props.h"
#include "serve/routes.h"
#include "serve/settings.h"

#include <stdlib.h>
#include <sys/stat.h>

enum { MAX_SLOTS = 1024 }; /* maximum number of slots that /slots lists */

void ft_run_health(ft_call *c)
{
    ft_http_error error;
    const bool ready = atomic_load(&c->s->ready);
    if (ready && !ft_map_broken() && !ft_server_failed(c->s)) {
        ft_call_json(c, 200, json_pack("{s:s}", "status", "ok"));
        return;
    }
    ft_http_error_set(&error, FT_ERR_UNAVAILABLE, NULL, "%s",
                      !ready            ? "the model is loading"
                      : ft_map_broken() ? "the model file was changed while it was in use"
                                        : "the device has failed");
    ft_call_fail(c, &error);
}

/* ---- props ---- */

static json_t *speculative(const ft_served *d, const ft_request *r)
{
    const ft_llm_info *i = d->info;
    const int most = r->draft_max < 0 ? i->draft_max : FT_MIN(r->draft_max, i->draft_max);
    return json_pack("{s:s, s:b, s:i, s:f, s:b, s:s}", "type", i->draft_type, "active", i->drafts,
                     "n_max", most, "p_min", (double)r->draft_p_min, "adapt", i->draft_adapts,
                     i->drafts ? "description" : "reason", i->drafter);
}

json_t *ft_props_json(const ft_served *d, bool sleeping)
{
    const ft_request r = d->defaults;
    const ft_llm_info *i = d->info;
    json_t *j = json_pack("{s:{s:i, s:o}, s:i, s:s, s:s, s:{s:b, s:b}, s:s, s:b, s:o}",
                          "default_generation_settings", "n_ctx", i->ctx, "params",
                          ft_settings_json(d, &r, r.sampling.seed), "total_slots", i->slots,
                          "model_path", ft_file_name(i->path), "model_alias", d->name, "modalities",
                          "vision", i->vision, "audio", 0, "build_info", ft_version(),
                          "is_sleeping", sleeping, "speculative", speculative(d, &r));
    json_object_set_new(j, "chat_template", json_string(i->template_text ? i->template_text : ""));
    json_object_set_new(j, "chat_template_caps", json_pack("{s:b}", "tools", i->has_template));
    json_object_set_new(j, "bos_token", json_string(i->bos ? i->bos : ""));
    json_object_set_new(j, "eos_token", json_string(i->eos ? i->eos : ""));
    if (i->vision) json_object_set_new(j, "media_marker", json_string(FT_MEDIA_MARKER));
    json_object_set_new(j, "model_arch", json_string(i->arch));
    json_object_set_new(j, "n_layer", json_integer(i->layers));
    json_object_set_new(j, "n_layer_draft", json_integer(i->draft_layers));
    return j;
}

/* Of a model that was never loaded, only the name is known. */
static json_t *unknown_props(const ft_served *d)
{
    return json_pack("{s:{}, s:i, s:s, s:s, s:b}", "default_generation_settings", "total_slots", 0,
                     "model_alias", d->name, "build_info", ft_version(), "is_sleeping", 1);
}

/* Without a name, a server of several models describes itself. */
static json_t *router_props(const ft_server *s)
{
    return json_pack("{s:s, s:i, s:b, s:s, s:s, s:{s:{}, s:i}, s:s}", "role", "router",
                     "max_instances", ft_models_max(s), "models_autoload", ft_models_autoload(s),
                     "model_alias", "foretoken", "model_path", "none",
                     "default_generation_settings", "params", "n_ctx", 0, "build_info",
                     ft_version());
}

/* Does not load the model. */
void ft_run_props(ft_call *c)
{
    if (atomic_load(&c->s->ready) && !ft_models_one(c->s) && !ft_call_query(c, "model")) {
        ft_call_json(c, 200, router_props(c->s));
        return;
    }
    const ft_served *d = ft_call_named(c, NULL);
    if (!d) return;
    pthread_mutex_lock(&c->s->lock);
    json_t *j = d->state >= FT_SERVED_LOADED ? ft_props_json(d, false)
                : d->props                   ? json_deep_copy(d->props)
                                             : unknown_props(d);
    pthread_mutex_unlock(&c->s->lock);
    ft_call_json(c, 200, j);
}

/* Changes the model's default parameters; the fields are those of a request. */
void ft_run_props_set(ft_call *c)
{
    ft_http_error error;
    ft_gen_params a;
    if (!c->s->p.props) {
        ft_http_error_set(&error, FT_ERR_UNSUPPORTED, NULL,
                          "changing the defaults is disabled; start the server with --props");
        ft_call_fail(c, &error);
        return;
    }
    if (!ft_call_may_change(c, "the defaults are")) return;
    ft_served *d = ft_call_model(c, NULL);
    if (!d) return;
    ft_gen_params_init(&a, c->s, d);
    if (!ft_gen_params_fields(&a, d, c->body, &error)) {
        ft_call_fail(c, &error);
    } else {
        pthread_mutex_lock(&c->s->lock);
        ft_settings_copy(&d->defaults, &a.r);
        pthread_mutex_unlock(&c->s->lock);
        ft_call_json(c, 200, json_pack("{s:b}", "success", 1));
    }
    ft_gen_params_release(&a);
}

/* ---- slots ---- */

/* A request of another API key is not shown. */
static json_t *slot(const ft_served *d, ft_slot_info slot, uint64_t salt, const ft_request *r)
{
    const ft_slot_info *l = &slot;
    if (slot.cache_salt && slot.cache_salt != salt)
        slot = (ft_slot_info){.id = slot.id, .busy = slot.busy, .ctx = slot.ctx};
    json_t *next =
        json_pack("{s:b, s:b, s:i, s:i}", "has_next_token", l->busy, "has_new_line", 0, "n_remain",
                  l->busy ? l->ctx - l->prompt_tokens - l->output_tokens : -1, "n_decoded",
                  l->busy ? l->output_tokens : 0);
    json_t *j = json_pack(
        "{s:i, s:I, s:i, s:b, s:b, s:i, s:i, s:i, s:f, s:f, s:[o]}", "id", l->id, "id_task",
        l->job ? (json_int_t)l->job : -1, "n_ctx", l->ctx, "speculative", d->info->drafts,
        "is_processing", l->busy, "n_prompt_tokens", l->prompt_tokens, "n_prompt_tokens_processed",
        l->prompt_tokens - l->cached_tokens, "n_prompt_tokens_cache", l->cached_tokens,
        "accept_len", l->accept_len, "k", l->draft_mean, "next_token", next);
    if (l->busy) json_object_set_new(j, "params", ft_settings_json(d, r, r->sampling.seed));
    return j;
}

/* The engine is queried between two steps, and a step may take long, so a worker thread waits for
 * it. */
typedef struct slot_query {
    ft_served *d;
    ft_slot_info *at;
    int n;
} slot_query;

static void query_slots(void *arg)
{
    slot_query *l = arg;
    l->n = FT_MIN(ft_llm_slots(l->d->llm, l->at, MAX_SLOTS), (int)MAX_SLOTS);
}

static void send_slots(ft_call *c, void *arg)
{
    const slot_query *l = arg;
    ft_http_error error;
    pthread_mutex_lock(&c->s->lock);
    const ft_request r = l->d->defaults;
    pthread_mutex_unlock(&c->s->lock);
    json_t *list = json_array();
    bool free_one = false;
    for (int i = 0; i < l->n; i++) {
        free_one |= !l->at[i].busy;
        json_array_append_new(list, slot(l->d, l->at[i], ft_call_salt(c), &r));
    }
    const char *q = ft_call_query(c, "fail_on_no_slot");
    if (!q || !strcmp(q, "0") || free_one) {
        ft_call_json(c, 200, list);
        return;
    }
    json_decref(list);
    ft_http_error_set(&error, FT_ERR_UNAVAILABLE, NULL, "no slot is free, all %d are busy", l->n);
    ft_call_fail(c, &error);
}

static void free_slot_query(void *arg)
{
    slot_query *l = arg;
    ft_free(l->at);
    ft_free(l);
}

void ft_run_slots(ft_call *c)
{
    static const ft_work_item work = {query_slots, send_slots, free_slot_query};
    ft_http_error error;
    if (!c->s->p.slots) {
        ft_http_error_set(&error, FT_ERR_UNSUPPORTED, NULL,
                          "slots are disabled; start the server without --no-slots");
        ft_call_fail(c, &error);
        return;
    }
    ft_served *d = ft_call_model(c, NULL);
    if (!d) return;
    slot_query *l = ft_new(slot_query);
    l->d = d;
    l->at = ft_new_n(ft_slot_info, MAX_SLOTS);
    ft_work_start(c, &work, l);
}

/* ---- saving and restoring a slot ---- */

typedef struct action {
    ft_served *d;
    ft_status (*file)(ft_llm *m, int slot, uint64_t salt, const char *path, int *n, ft_err *err);
    uint64_t salt;
    int slot, n;
    const char *name, *verb;
    char *path, *filename;
    ft_status st;
    ft_err err;
    double ms;
    json_int_t bytes; /* size of the file */
} action;

static void run_action(void *arg)
{
    action *a = arg;
    const double from = ft_now_s();
    a->st = a->file ? a->file(a->d->llm, a->slot, a->salt, a->path, &a->n, &a->err)
                    : ft_slot_erase(a->d->llm, a->slot, a->salt, &a->n, &a->err);
    a->ms = (ft_now_s() - from) * 1e3;
    struct stat st;
    if (!a->st && a->path && !stat(a->path, &st)) a->bytes = (json_int_t)st.st_size;
}

static void send_action(ft_call *c, void *arg)
{
    const action *a = arg;
    ft_http_error error;
    if (a->st) {
        ft_http_error_from(&error, a->st, NULL, &a->err);
        const bool saving = a->file == ft_slot_save;
        if ((a->st == FT_EIO && !saving) || a->st == FT_ENOTFOUND) error.kind = FT_ERR_INVALID;
        ft_call_fail(c, &error);
        return;
    }
    json_t *j = json_pack("{s:i, s:i}", "id_slot", a->slot, a->name, a->n);
    if (a->filename) {
        json_object_set_new(j, "filename", json_string(a->filename));
        json_object_set_new(j, a->file == ft_slot_save ? "n_written" : "n_read",
                            json_integer(a->bytes));
    }
    if (!a->file) /* prefixes of the erased context may be left in the cache of all slots */
        json_object_set_new(j, "cache_shared", json_boolean(c->s->p.cache_prompt));
    json_object_set_new(j, "timings", json_pack("{s:f}", a->verb, a->ms));
    ft_call_json(c, 200, j);
}

static void free_action(void *arg)
{
    action *a = arg;
    ft_free(a->path);
    ft_free(a->filename);
    ft_free(a);
}

static bool action_path(action *a, const json_t *body, const char *folder, ft_http_error *error)
{
    const char *name = NULL;
    if (!ft_want_text(body, "filename", &name, error)) return false;
    if (!folder)
        return ft_http_error_set(error, FT_ERR_UNSUPPORTED, NULL,
                                 "slots cannot be saved; start the server with --slot-save-path");
    if (name && (strchr(name, '/') || name[0] == '.'))
        return ft_http_error_set(error, FT_ERR_FORBIDDEN, "filename",
                                 "filename is \"%.60s\", want a name without a path", name);
    if (!name || !*name || strlen(name) > 200)
        return ft_http_error_set(error, FT_ERR_INVALID, "filename",
                                 "filename has %zu bytes, want a name of 1 to 200",
                                 name ? strlen(name) : 0);
    ft_buf b;
    ft_buf_init(&b, 4096);
    ft_buf_printf(&b, "%s/%s", folder, name);
    a->path = ft_buf_take(&b);
    a->filename = ft_strdup(name);
    return true;
}

static bool read_action(action *a, ft_call *c, ft_http_error *error)
{
    const char *what = ft_call_query(c, "action");
    int64_t slot;
    const int slots = a->d->info->slots;
    if (!ft_parse_i64(c->part, 0, slots - 1, &slot))
        return ft_http_error_set(error, FT_ERR_NOT_FOUND, NULL,
                                 "slot %s does not exist, want 0 to %d", c->part, slots - 1);
    a->slot = (int)slot;
    if (what && !strcmp(what, "erase")) {
        a->name = "n_erased", a->verb = "erase_ms";
        return true;
    }
    if (what && !strcmp(what, "save"))
        a->file = ft_slot_save, a->name = "n_saved", a->verb = "save_ms";
    else if (what && !strcmp(what, "restore"))
        a->file = ft_slot_restore, a->name = "n_restored", a->verb = "restore_ms";
    else
        return ft_http_error_set(error, FT_ERR_INVALID, "action",
                                 "action is \"%.40s\", want save, restore or erase",
                                 what ? what : "");
    return action_path(a, c->body, c->s->p.slot_save_path, error);
}

void ft_run_slot_action(ft_call *c)
{
    static const ft_work_item work = {run_action, send_action, free_action};
    ft_http_error error;
    ft_served *d = ft_call_model(c, NULL);
    if (!d) return;
    action *a = ft_new(action);
    a->d = d;
    a->salt = ft_call_salt(c);
    if (read_action(a, c, &error)) {
        ft_work_start(c, &work, a);
        return;
    }
    ft_call_fail(c, &error);
    free_action(a);
}

/* ---- metrics ---- */

void ft_run_metrics(ft_call *c)
{
    ft_llm_stats n;
    ft_http_error error;
    if (!c->s->p.metrics) {
        ft_http_error_set(&error, FT_ERR_UNSUPPORTED, NULL,
                          "metrics are disabled; start the server with --metrics");
        ft_call_fail(c, &error);
        return;
    }
    const bool ready = atomic_load(&c->s->ready);
    if (ready) ft_models_counts(c->s, &n);
    ft_buf b;
    ft_buf_init(&b, 1 << 20);
    ft_metrics_write(&c->s->metrics, ready ? &n : NULL, &b);
    ft_call_bytes(c, 200, "text/plain; version=0.0.4", ft_buf_z(&b), b.len);
    char start[32];
    snprintf(start, sizeof start, "%lld", (long long)c->s->created);
    ft_call_add_header(c, "Process-Start-Time-Unix", start);
    ft_buf_release(&b);
}
