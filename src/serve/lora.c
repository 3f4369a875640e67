/* serve/lora.c - the LoRA adapters of a model: GET and POST /lora-adapters, and their scales in
 * requests. */
#include "serve/lora.h"

#include "serve/routes.h"

#include <math.h>

static bool read_one(const json_t *entry, size_t i, int adapters, const char *name, float *scale,
                     ft_http_error *error)
{
    const json_t *id = ft_get(entry, "id"), *value = ft_get(entry, "scale");
    char brief[72];
    if (!json_is_object(entry) || !json_is_integer(id))
        return ft_http_error_set(error, FT_ERR_INVALID, name,
                                 "%s[%zu] is %s, want an object with id and scale", name, i,
                                 ft_json_brief(entry, brief));
    const json_int_t n = json_integer_value(id);
    if (n < 0 || n >= adapters)
        return ft_http_error_set(error, FT_ERR_INVALID, name,
                                 "%s[%zu].id is %lld, the model has %d adapters", name, i,
                                 (long long)n, adapters);
    const double x = json_number_value(value);
    if (!json_is_number(value) || !isfinite((float)x))
        return ft_http_error_set(error, FT_ERR_INVALID, name, "%s[%zu].scale is %s, want a number",
                                 name, i, ft_json_brief(value, brief));
    scale[n] = (float)x;
    return true;
}

bool ft_lora_read(const ft_served *d, const json_t *list, const char *name, float *scale,
                  ft_http_error *error)
{
    const int adapters = ft_llm_adapters(d->llm, NULL, 0);
    const json_t *entry;
    size_t i;
    char brief[72];
    for (int k = 0; k < FT_ADAPTERS_MAX; k++) scale[k] = 0;
    if (!json_is_array(list))
        return ft_http_error_set(error, FT_ERR_INVALID, name,
                                 "%s is %s, want an array of objects with id and scale", name,
                                 ft_json_brief(list, brief));
    json_array_foreach(list, i,
                       entry) if (!read_one(entry, i, adapters, name, scale, error)) return false;
    return true;
}

bool ft_lora_field(ft_gen_params *a, const ft_served *d, const json_t *body, ft_http_error *error)
{
    const json_t *list = ft_get(body, "lora");
    if (!list || (json_is_array(list) && !json_array_size(list))) return true;
    if (!ft_lora_read(d, list, "lora", a->lora, error)) return false;
    a->r.lora = a->lora;
    a->r.n_lora = ft_llm_adapters(d->llm, NULL, 0);
    return true;
}

json_t *ft_lora_json(const ft_request *r)
{
    json_t *list = json_array();
    for (int i = 0; r->lora && i < r->n_lora; i++)
        json_array_append_new(list, json_pack("{s:i, s:f}", "id", i, "scale", (double)r->lora[i]));
    return list;
}

void ft_run_lora(ft_call *c)
{
    ft_adapter_info info[FT_ADAPTERS_MAX];
    const ft_served *d = ft_call_model(c, NULL);
    if (!d) return;
    json_t *list = json_array();
    const int n = ft_llm_adapters(d->llm, info, FT_ADAPTERS_MAX);
    for (int i = 0; i < n; i++)
        json_array_append_new(
            list,
            json_pack("{s:i, s:o, s:f, s:o, s:o}", "id", i, "path",
                      ft_json_string(info[i].path, strlen(info[i].path)), "scale",
                      (double)info[i].scale, "task_name",
                      ft_json_string(info[i].task_name, strlen(info[i].task_name)), "prompt_prefix",
                      ft_json_string(info[i].prompt_prefix, strlen(info[i].prompt_prefix))));
    ft_call_json(c, 200, list);
}

void ft_run_lora_set(ft_call *c)
{
    float scale[FT_ADAPTERS_MAX];
    ft_http_error error;
    ft_err err;
    if (!ft_call_may_change(c, "the scales of adapters are")) return;
    const ft_served *d = ft_call_model(c, NULL);
    if (!d) return;
    const json_t *list = ft_get(c->body, "list");
    bool ok = list ? ft_lora_read(d, list, "list", scale, &error)
                   : ft_http_error_set(&error, FT_ERR_INVALID, NULL,
                                       "the body is an object, want an array of objects with id "
                                       "and scale");
    const ft_status st =
        ok ? ft_llm_adapt(d->llm, scale, ft_llm_adapters(d->llm, NULL, 0), &err) : FT_OK;
    if (st) ok = ft_http_error_from(&error, st, NULL, &err);
    if (ok)
        ft_call_json(c, 200, json_pack("{s:b}", "success", 1));
    else
        ft_call_fail(c, &error);
}
