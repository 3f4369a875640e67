/* serve/text.c - routes of the tokenizer and the chat template. */
#include "base/mem.h"
#include "serve/chat.h"
#include "serve/images.h"
#include "serve/prompts.h"
#include "serve/routes.h"

#include <stdlib.h>

/* The bytes of a token: a string if they are UTF-8, else an array of numbers. */
static void put_piece(ft_buf *b, const ft_served *d, int32_t id)
{
    char *text, *quoted = NULL;
    size_t n;
    if (ft_vocab_decode(d->vocab, &id, 1, true, &text, &n, NULL)) {
        ft_buf_puts(b, "\"\"");
        return;
    }
    json_t *j = json_stringn(text, n); /* NULL if not UTF-8 */
    if (j) quoted = json_dumps(j, JSON_ENCODE_ANY);
    if (quoted) ft_buf_puts(b, quoted);
    for (size_t i = 0; !quoted && i < n; i++)
        ft_buf_printf(b, "%s%d%s", i ? "," : "[", (unsigned char)text[i], i + 1 < n ? "" : "]");
    json_decref(j);
    free(quoted);
    free(text);
}

/* Writes the JSON text directly: json_t values would take a hundred times the memory. */
static void send_tokens(ft_call *c, const ft_served *d, const int32_t *ids, size_t n, bool pieces)
{
    ft_buf b;
    ft_buf_init(&b, (size_t)1 << 30);
    ft_buf_puts(&b, "{\"tokens\":[");
    for (size_t i = 0; i < n; i++) {
        ft_buf_printf(&b, pieces ? "%s{\"id\":%d,\"piece\":" : "%s%d", i ? "," : "", ids[i]);
        if (pieces) put_piece(&b, d, ids[i]);
        if (pieces) ft_buf_putc(&b, '}');
    }
    ft_buf_puts(&b, "]}");
    ft_call_bytes(c, 200, "application/json; charset=utf-8", ft_buf_z(&b), b.len);
    ft_buf_release(&b);
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
    send_tokens(c, d, ids, n, pieces);
    free(ids);
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

/* ---- chat bodies without generation ---- */

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
    else {
        char *text = ft_llm_prompt_text(d->llm, p.text);
        ft_call_json(c, 200, json_pack("{s:o}", "prompt", ft_json_string(text, strlen(text))));
        free(text);
    }
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
