/* api/template.c - ft_template: chat templates for other programs; JSON in, prompt out. */
#include "base/mem.h"
#include "foretoken.h"
#include "gguf/gguf.h"
#include "text/jinja.h"

#define MAX_OUTPUT ((size_t)64 << 20)

struct ft_template {
    ft_jinja *jinja;
    char *bos, *eos; /* NULL when the file names none */
};

ft_status ft_template_new(ft_template **out, const char *source, size_t bytes, ft_err *err)
{
    ft_template *t = ft_new(ft_template);
    const ft_status st = ft_jinja_new(&t->jinja, (ft_str){source, bytes}, err);
    if (st) {
        ft_template_free(t);
        return st;
    }
    *out = t;
    return FT_OK;
}

/* The text of the token whose id is the value of the key, or NULL. */
static char *token_text(const ft_gguf *g, const char *key)
{
    uint32_t id;
    ft_str s;
    const ft_gguf_kv *tokens = ft_gguf_kv_find(g, "tokenizer.ggml.tokens");
    if (!tokens || !ft_gguf_u32(g, key, &id) || id >= tokens->n) return NULL;
    if (!ft_gguf_kv_str(tokens, id, &s)) return NULL;
    char *z = ft_alloc(s.n + 1);
    memcpy(z, s.p, s.n);
    return z;
}

ft_status ft_template_load(ft_template **out, const char *path, ft_err *err)
{
    ft_gguf *g;
    ft_str source;
    ft_status st = ft_gguf_open(&g, path, true, err);
    if (st) return st;
    if (!ft_gguf_str(g, "tokenizer.chat_template", &source))
        st = ft_fail(err, FT_ENOTFOUND, "%s has no tokenizer.chat_template", path);
    else
        st = ft_template_new(out, source.p, source.n, err);
    if (!st) {
        (*out)->bos = token_text(g, "tokenizer.ggml.bos_token_id");
        (*out)->eos = token_text(g, "tokenizer.ggml.eos_token_id");
    }
    ft_gguf_close(g);
    return st;
}

void ft_template_free(ft_template *t)
{
    if (!t) return;
    ft_jinja_free(t->jinja);
    ft_free(t->bos);
    ft_free(t->eos);
    ft_free(t);
}

static void set_default(json_t *vars, const char *name, const char *value)
{
    if (value && !json_object_get(vars, name))
        json_object_set_new(vars, name, json_string_nocheck(value));
}

ft_status ft_template_render(const ft_template *t, const char *json, size_t bytes, char **text,
                             size_t *text_bytes, ft_err *err)
{
    json_error_t e;
    json_t *vars = json_loadb(json, bytes, JSON_ALLOW_NUL, &e);
    if (!vars) return ft_fail(err, FT_EFORMAT, "not JSON at byte %d: %s", e.position, e.text);
    ft_status st;
    if (!json_is_object(vars)) {
        st = ft_fail(err, FT_EFORMAT, "want a JSON object of template variables");
    } else {
        ft_buf b;
        ft_buf_init(&b, MAX_OUTPUT);
        set_default(vars, "bos_token", t->bos);
        set_default(vars, "eos_token", t->eos);
        st = ft_jinja_render(t->jinja, vars, NULL, &b, err);
        if (!st) {
            *text_bytes = b.len;
            ft_buf_putc(&b, 0); /* so that an empty text is allocated too */
            *text = ft_buf_take(&b);
        }
        ft_buf_release(&b);
    }
    json_decref(vars);
    return st;
}
