/* serve/text.c - the tokenizer and the template as routes. */
#include "base/mem.h"
#include "base/utf8.h"
#include "serve/chat.h"
#include "serve/images.h"
#include "serve/prompts.h"
#include "serve/routes.h"

#include <stdlib.h>

/* A token's bytes: text where they are UTF-8, else numbers. */
static json_t *piece_of(const ft_served *d, int32_t id)
{
    char *text;
    size_t n;
    if (ft_vocab_decode(d->vocab, &id, 1, true, &text, &n, NULL)) return json_string("");
    json_t *j;
    if (ft_utf8_valid((ft_str){text, n})) {
        j = json_stringn(text, n);
    } else {
        j = json_array();
        for (size_t i = 0; i < n; i++)
            json_array_append_new(j, json_integer((unsigned char)text[i]));
    }
    free(text);
    return j;
}

void ft_run_tokenize(ft_call *c)
{
    ft_http_error error;
    const char *content = NULL;
    bool add = false, parse = true, pieces = false;
    ft_served *d = ft_call_model(c, NULL);
    if (!d) return;
    if (!ft_want_text(c->body, "content", &content, &error) ||
        !ft_want_bool(c->body, "add_special", &add, &error) ||
        !ft_want_bool(c->body, "parse_special", &parse, &error) ||
        !ft_want_bool(c->body, "with_pieces", &pieces, &error)) {
        ft_call_fail(c, &error);
        return;
    }
    int32_t *ids;
    size_t n;
    ft_err err;
    const unsigned flags =
        (add ? FT_ENCODE_ADD_SPECIAL : 0u) | (parse ? FT_ENCODE_PARSE_SPECIAL : 0u);
    const size_t bytes = content ? json_string_length(ft_get(c->body, "content")) : 0;
    const ft_status st =
        ft_vocab_encode(d->vocab, content ? content : "", bytes, flags, &ids, &n, &err);
    if (st) {
        ft_http_error_from(&error, st, "content", &err);
        ft_call_fail(c, &error);
        return;
    }
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(
            list, pieces ? json_pack("{s:i, s:o}", "id", ids[i], "piece", piece_of(d, ids[i]))
                         : json_integer(ids[i]));
    free(ids);
    ft_call_json(c, 200, json_pack("{s:o}", "tokens", list));
}

void ft_run_detokenize(ft_call *c)
{
    ft_http_error error;
    ft_err err;
    ft_prompt p = {0};
    ft_served *d = ft_call_model(c, NULL);
    if (!d) return;
    char *text = NULL;
    size_t n = 0;
    bool ok = ft_ids_read(d, ft_get(c->body, "tokens"), "tokens", &p, &error);
    if (ok) {
        const ft_status st = ft_vocab_decode(d->vocab, p.ids, (size_t)p.n, true, &text, &n, &err);
        if (st) ok = ft_http_error_from(&error, st, "tokens", &err);
    }
    if (ok)
        ft_call_json(c, 200, json_pack("{s:o}", "content", ft_json_string(text, n)));
    else
        ft_call_fail(c, &error);
    free(text);
    free(p.ids);
}

/* ---- chat bodies that are not answered with a response ---- */

static void template_of(ft_call *c, bool count)
{
    ft_http_error error;
    ft_gen_params a;
    ft_chat_prompt p;
    ft_served *d = ft_call_model(c, NULL);
    if (!d) return;
    ft_gen_params_init(&a, c->s, d);
    if (!ft_chat_read(&a, c->s, d, c->body, &p, &error))
        ft_call_fail(c, &error);
    else if (count)
        ft_call_json(c, 200,
                     json_pack("{s:s, s:i}", "object", "response.input_tokens", "input_tokens",
                               ft_images_count(&a, d, p.ids.n)));
    else
        ft_call_json(c, 200, json_pack("{s:o}", "prompt", ft_json_string(p.text, strlen(p.text))));
    ft_chat_release(&p);
    ft_gen_params_release(&a);
}

void ft_run_template(ft_call *c)
{
    template_of(c, false);
}

void ft_run_chat_count(ft_call *c)
{
    template_of(c, true);
}
