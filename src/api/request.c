/* api/request.c - default values of a request, and deep copies. */
#include "api/request.h"

#include "base/mem.h"
#include "base/params.h"

#include <string.h>

void ft_request_defaults(ft_request *r, const ft_llm *m)
{
    *r = (ft_request){0};
#define FT_REQUEST(type, field, number, ...) r->field = number;
#include "base/request.def"
    ft_sampling_defaults(&r->sampling, m);
}

static void *copy(const void *p, size_t bytes)
{
    if (!p || !bytes) return NULL;
    void *q = ft_alloc(bytes);
    memcpy(q, p, bytes);
    return q;
}

static char *copy_text(const char *z)
{
    return z ? ft_strdup(z) : NULL;
}

static char **copy_texts(const char *const *z, int n)
{
    if (!z) return NULL; /* NULL means the default list, not an empty one */
    char **out = ft_new_n(char *, (size_t)FT_MAX(1, n));
    for (int i = 0; i < n; i++) out[i] = ft_strdup(z[i]);
    return out;
}

static void free_texts(const char *const *z, int n)
{
    for (int i = 0; z && i < n; i++) ft_free((void *)(uintptr_t)z[i]);
    ft_free((void *)(uintptr_t)z);
}

static float *copy_scales(const float *v, int n)
{
    if (!v) return NULL; /* NULL means those of the model, none means 0 */
    float *out = ft_new_n(float, (size_t)FT_MAX(1, n));
    if (n > 0) memcpy(out, v, sizeof *out * (size_t)n);
    return out;
}

static ft_image_input *copy_images(const ft_image_input *m, int n)
{
    ft_image_input *out = n > 0 ? copy(m, sizeof *m * (size_t)n) : NULL;
    for (int i = 0; i < n; i++) out[i].bytes = copy(m[i].bytes, m[i].n);
    return out;
}

void ft_request_copy(ft_request *out, const ft_request *r)
{
    *out = *r;
    out->prompt = r->ids ? NULL : copy(r->prompt, r->prompt_bytes);
    out->ids = copy(r->ids, sizeof *r->ids * (size_t)FT_MAX(0, r->n_ids));
    out->images = copy_images(r->images, r->n_images);
    out->lora = copy_scales(r->lora, r->n_lora);
    out->grammar = copy_text(r->grammar);
    out->json_schema = copy_text(r->json_schema);
    out->tools = copy_text(r->tools);
    out->reasoning_message = copy_text(r->reasoning_message);
    out->stop = (const char *const *)copy_texts(r->stop, r->n_stop);
    out->grammar_trigger =
        (const char *const *)copy_texts(r->grammar_trigger, r->n_grammar_trigger);
    ft_sampling *s = &out->sampling;
    s->dry_breakers = (const char *const *)copy_texts(s->dry_breakers, s->n_dry_breakers);
    s->samplers = copy_text(s->samplers);
    s->bias_id = copy(s->bias_id, sizeof *s->bias_id * (size_t)FT_MAX(0, s->n_bias));
    s->bias = copy(s->bias, sizeof *s->bias * (size_t)FT_MAX(0, s->n_bias));
}

void ft_request_release(ft_request *r)
{
    const ft_sampling *s = &r->sampling;
    for (int i = 0; i < r->n_images; i++) ft_free((void *)(uintptr_t)r->images[i].bytes);
    ft_free((void *)(uintptr_t)r->images);
    const void *const owned[] = {r->prompt, r->ids,      r->grammar, r->json_schema,       r->tools,
                                 s->bias,   s->samplers, s->bias_id, r->reasoning_message, r->lora};
    for (size_t i = 0; i < FT_COUNT(owned); i++) ft_free((void *)(uintptr_t)owned[i]);
    free_texts(r->stop, r->n_stop);
    free_texts(r->grammar_trigger, r->n_grammar_trigger);
    free_texts(s->dry_breakers, s->n_dry_breakers);
    *r = (ft_request){0};
}
