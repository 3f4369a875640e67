#include "serve/prompts.h"

#include "base/mem.h"
#include "serve/images.h"

#include <stdlib.h>

static bool put_part(const ft_served *d, ft_prompt *p, const json_t *v, const char *param,
                     ft_http_error *error)
{
    char brief[72];
    const json_int_t id = json_integer_value(v);
    if (!json_is_integer(v) || id < 0 || id >= d->info->vocab)
        return ft_http_error_set(error, FT_ERR_INVALID, param,
                                 "%s has %s, want token ids from 0 to %d", param,
                                 ft_json_brief(v, brief), d->info->vocab - 1);
    if (!(p->n & (p->n - 1)))
        p->ids = ft_realloc(p->ids, sizeof *p->ids * (size_t)(p->n ? 2 * p->n : 1));
    p->ids[p->n++] = (int32_t)id;
    return true;
}

static bool put_text(const ft_served *d, ft_prompt *p, const json_t *v, const char *param,
                     ft_http_error *error)
{
    int32_t *ids;
    size_t n;
    ft_err err;
    const unsigned flags = FT_ENCODE_PARSE_SPECIAL | (p->n ? 0u : (unsigned)FT_ENCODE_ADD_SPECIAL);
    const ft_status st = ft_vocab_encode(d->vocab, json_string_value(v), json_string_length(v),
                                         flags, &ids, &n, &err);
    if (st) return ft_http_error_from(error, st, param, &err);
    n = FT_MIN(n, (size_t)INT32_MAX / 4);
    /* put_part doubles at powers of two, so the capacity is the next one */
    size_t cap = 1;
    while (cap < (size_t)p->n + n) cap *= 2;
    p->ids = ft_realloc(p->ids, sizeof *p->ids * cap);
    if (n) memcpy(p->ids + p->n, ids, sizeof *ids * n);
    p->n += (int)n;
    free(ids);
    return true;
}

bool ft_ids_read(const ft_served *d, const json_t *v, const char *param, ft_prompt *p,
                 ft_http_error *error)
{
    char brief[72];
    const json_t *one;
    size_t i;
    if (!json_is_array(v))
        return ft_http_error_set(error, FT_ERR_INVALID, param,
                                 "%s is %s, want an array of token ids", param,
                                 ft_json_brief(v, brief));
    json_array_foreach(v, i, one) if (!put_part(d, p, one, param, error)) return false;
    return true;
}

/* {"prompt_string": S, "multimodal_data": [base64, ...]}; S has a marker for each image. */
static bool put_media(ft_gen_params *a, const ft_served *d, ft_prompt *p, const json_t *v,
                      const char *param, ft_http_error *error)
{
    const json_t *text = ft_get(v, "prompt_string"), *media = ft_get(v, "multimodal_data"), *one;
    char where[64], brief[72];
    size_t i;
    if (!a)
        return ft_http_error_set(error, FT_ERR_INVALID, param,
                                 "%s has media, want one prompt of text and images", param);
    if (!json_is_string(text))
        return ft_http_error_set(error, FT_ERR_INVALID, param,
                                 "%s.prompt_string is %s, want a string", param,
                                 ft_json_brief(text, brief));
    if (!json_is_array(media))
        return ft_http_error_set(error, FT_ERR_INVALID, param,
                                 "%s.multimodal_data is %s, want an array of base64 strings", param,
                                 ft_json_brief(media, brief));
    json_array_foreach(media, i, one)
    {
        snprintf(where, sizeof where, "%.20s.multimodal_data[%zu]", param, i);
        if (!json_is_string(one))
            return ft_http_error_set(error, FT_ERR_INVALID, where, "%s is %s, want base64", where,
                                     ft_json_brief(one, brief));
        if (!ft_images_add(a, d, json_string_value(one), json_string_length(one), NULL, where,
                           error))
            return false;
    }
    json_t *marked = ft_images_marked(d, text);
    const bool ok = put_text(d, p, marked, param, error);
    json_decref(marked);
    return ok;
}

static bool read_one(ft_gen_params *a, const ft_served *d, const json_t *v, const char *param,
                     ft_prompt *p, ft_http_error *error)
{
    char brief[72];
    const json_t *one;
    size_t i;
    if (json_is_object(v)) {
        const json_t *media = ft_get(v, "multimodal_data");
        if (media && (!json_is_array(media) || json_array_size(media)))
            return put_media(a, d, p, v, param, error);
        v = ft_get(v, "prompt_string");
    }
    if (json_is_string(v)) return put_text(d, p, v, param, error);
    if (!json_is_array(v))
        return ft_http_error_set(error, FT_ERR_INVALID, param, "%s is %s, want text or token ids",
                                 param, ft_json_brief(v, brief));
    json_array_foreach(v, i, one)
    {
        const bool ok = json_is_string(one) ? put_text(d, p, one, param, error)
                                            : put_part(d, p, one, param, error);
        if (!ok) return false;
    }
    return true;
}

/* Whether the array is a list of prompts: only strings, or an element that is neither a string nor
 * an id. An array that mixes strings and ids is one prompt. */
static bool is_list(const json_t *v)
{
    const json_t *one;
    size_t i, texts = 0, n = json_array_size(v);
    if (!json_is_array(v) || !n) return false;
    json_array_foreach(v, i, one)
    {
        if (json_is_array(one) || json_is_object(one)) return true;
        texts += json_is_string(one);
    }
    return texts == n;
}

bool ft_prompts_read(ft_gen_params *a, const ft_served *d, const json_t *v, const char *param,
                     ft_prompts *out, ft_http_error *error)
{
    char brief[72];
    const bool list = is_list(v);
    const size_t n = list ? json_array_size(v) : 1;
    *out = (ft_prompts){0};
    if (!v) return ft_http_error_set(error, FT_ERR_INVALID, param, "%s is missing", param);
    if (n > FT_PROMPTS_MAX)
        return ft_http_error_set(error, FT_ERR_INVALID, param,
                                 "%s has %zu prompts, the maximum is %d", param, n, FT_PROMPTS_MAX);
    if (json_is_array(v) && !json_array_size(v))
        return ft_http_error_set(error, FT_ERR_INVALID, param, "%s is %s, want text or token ids",
                                 param, ft_json_brief(v, brief));
    out->at = ft_new_n(ft_prompt, n);
    out->n = (int)n;
    for (size_t i = 0; i < n; i++)
        if (!read_one(list ? NULL : a, d, list ? json_array_get(v, i) : v, param, &out->at[i],
                      error))
            return false;
    return true;
}

void ft_prompts_release(ft_prompts *p)
{
    for (int i = 0; i < p->n; i++) ft_free(p->at[i].ids);
    ft_free(p->at);
    *p = (ft_prompts){0};
}

/* ---- infill ---- */

static void put_token(ft_prompt *p, int32_t id)
{
    p->ids = ft_realloc(p->ids, sizeof *p->ids * (size_t)(p->n + 1));
    p->ids[p->n++] = id;
}

static bool put_plain(const ft_served *d, ft_prompt *p, const char *text, ft_http_error *error)
{
    int32_t *ids;
    size_t n;
    ft_err err;
    const ft_status st = ft_vocab_encode(d->vocab, text, strlen(text), 0, &ids, &n, &err);
    if (st) return ft_http_error_from(error, st, "input_prefix", &err);
    p->ids = ft_realloc(p->ids, sizeof *p->ids * ((size_t)p->n + n + 1));
    if (n) memcpy(p->ids + p->n, ids, sizeof *ids * n);
    p->n += (int)n;
    free(ids);
    return true;
}

bool ft_prompt_infill(const ft_served *d, const json_t *extra, const char *prefix, const char *more,
                      const char *suffix, ft_prompt *p, ft_http_error *error)
{
    const ft_infill_ids k = ft_vocab_infill(d->vocab);
    const json_t *f;
    size_t i;
    if (k.prefix < 0 || k.suffix < 0 || k.middle < 0)
        return ft_http_error_set(
            error, FT_ERR_UNSUPPORTED, NULL,
            "this model has no tokens for infill (FIM prefix, suffix and middle)");
    json_array_foreach(extra, i, f)
    {
        const char *name = NULL, *text = NULL;
        if (!ft_want_text(f, "filename", &name, error) || !ft_want_text(f, "text", &text, error))
            return false;
        if (!text)
            return ft_http_error_set(error, FT_ERR_INVALID, "input_extra",
                                     "input_extra[%zu] has no text, want {filename, text}", i);
        if (k.file >= 0) put_token(p, k.file);
        if (!put_plain(d, p, name ? name : "extra", error) || !put_plain(d, p, "\n", error) ||
            !put_plain(d, p, text, error))
            return false;
    }
    put_token(p, k.prefix);
    if (!put_plain(d, p, prefix, error) || !put_plain(d, p, more, error)) return false;
    put_token(p, k.suffix);
    if (!put_plain(d, p, suffix, error)) return false;
    put_token(p, k.middle);
    return true;
}
