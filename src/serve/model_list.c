/* serve/model_list.c - GET /v1/models: the models of the server, with the fields of OpenAI,
 * Anthropic and llama.cpp. */
#define _GNU_SOURCE
#include "base/mem.h"
#include "serve/ollama.h"
#include "serve/routes.h"
#include "serve/server.h"

#include <time.h>

static json_t *meta(const ft_served *d)
{
    return json_pack("{s:i, s:i, s:i, s:i, s:I, s:I, s:s}", "n_vocab", d->info->vocab, "n_ctx",
                     d->info->ctx, "n_ctx_train", d->info->ctx_train, "n_embd", d->info->width,
                     "n_params", (json_int_t)d->info->parameters, "size",
                     (json_int_t)d->info->weight_bytes, "ftype", d->info->weight_type);
}

/* The items of a comma-separated list. */
static json_t *items(const char *list)
{
    json_t *out = json_array();
    while (list && *list) {
        const size_t n = strcspn(list, ",");
        if (n) json_array_append_new(out, ft_json_string(list, n));
        list += n + (list[n] == ',');
    }
    return out;
}

/* Under the lock. d NULL: the only model is being loaded. */
static json_t *model_entry(ft_server *s, const ft_served *d)
{
    char date[40];
    struct tm t;
    const time_t created = (time_t)s->created;
    const bool one = !d || ft_models_count(s) == 1;
    json_t *aliases = one ? items(s->p.alias) : json_array();
    json_t *name = d                              ? json_string(d->name)
                   : json_array_size(aliases) > 0 ? json_incref(json_array_get(aliases, 0))
                                                  : json_string("loading");
    json_t *status = json_pack("{s:s}", "value", d ? ft_served_status(d) : "loading");
    if (d && d->error[0]) json_object_set_new(status, "error", json_string(d->error));
    gmtime_r(&created, &t);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &t);
    const bool there = d && d->state >= FT_SERVED_LOADED;
    json_t *can = json_pack("[s]", "completion");
    if (there && d->info->vision) json_array_append_new(can, json_string("multimodal"));
    return json_pack("{s:o, s:o, s:o, s:s, s:s, s:O, s:I, s:s, s:s, s:o, s:o, s:o}", "id", name,
                     "aliases", aliases, "tags", items(one ? s->p.tags : NULL), "object", "model",
                     "type", "model", "display_name", name, "created", (json_int_t)s->created,
                     "created_at", date, "owned_by", "foretoken", "status", status, "meta",
                     there ? meta(d) : json_null(), "capabilities", can);
}

static json_t *first_and_last(json_t *j, const json_t *list)
{
    const size_t n = json_array_size(list);
    const char *const key[] = {"first_id", "last_id"};
    for (size_t i = 0; i < 2; i++) {
        json_t *id = json_object_get(json_array_get(list, i && n ? n - 1 : 0), "id");
        json_object_set_new(j, key[i], id ? json_incref(id) : json_null());
    }
    return j;
}

void ft_run_models(ft_call *c)
{
    ft_server *s = c->s;
    const char *reload = ft_call_query(c, "reload");
    ft_err err;
    if (reload && strcmp(reload, "0") && ft_models_rescan(s, &err)) {
        ft_http_error error;
        ft_http_error_from(&error, err.code, NULL, &err);
        ft_call_fail(c, &error);
        return;
    }
    const bool ready = atomic_load(&s->ready);
    json_t *list = json_array(), *models = json_array();
    pthread_mutex_lock(&s->lock);
    const int n = ready ? ft_models_count(s) : 0;
    if (!ready) json_array_append_new(list, model_entry(s, NULL));
    for (int i = 0; i < n; i++) {
        const ft_served *d = ft_models_at(s, i);
        if (d->gone) continue;
        json_t *entry = model_entry(s, d), *model = ft_ollama_entry(d);
        json_object_set(model, "capabilities", json_object_get(entry, "capabilities"));
        json_array_append_new(list, entry);
        json_array_append_new(models, model);
    }
    pthread_mutex_unlock(&s->lock);
    ft_call_json(c, 200,
                 first_and_last(json_pack("{s:s, s:o, s:o, s:b}", "object", "list", "data", list,
                                          "models", models, "has_more", 0),
                                list));
}

/* One model, which need not be loaded. */
void ft_run_model(ft_call *c)
{
    ft_server *s = c->s;
    ft_http_error error;
    ft_served *d = atomic_load(&s->ready) ? ft_models_named(s, c->part) : NULL;
    if (!d) {
        ft_http_error_set(&error, FT_ERR_NOT_FOUND, "model", "the model %.80s does not exist",
                          c->part);
        ft_call_fail(c, &error);
        return;
    }
    pthread_mutex_lock(&s->lock);
    json_t *j = model_entry(s, d);
    pthread_mutex_unlock(&s->lock);
    ft_call_json(c, 200, j);
}
