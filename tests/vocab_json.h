/* tests/vocab_json.h - writes a GGUF with the vocabulary of a tokenizer.json and no tensors. */
#ifndef FT_TESTS_VOCAB_JSON_H
#define FT_TESTS_VOCAB_JSON_H

#include "base/buf.h"
#include "base/mem.h"
#include "gguf/writer.h"

#include <jansson.h>
#include <stdio.h>

enum { VJ_NORMAL = 1, VJ_CONTROL = 3, VJ_USER = 4, VJ_UNUSED = 5, VJ_BYTE = 6 };

/* true when `what` is part of any string in a pre-tokenizer, at any depth. */
static bool vj_mentions(const json_t *j, const char *what)
{
    const char *key;
    size_t i;
    json_t *v;
    if (json_is_string(j)) return strstr(json_string_value(j), what) != NULL;
    if (json_is_array(j)) {
        json_array_foreach(j, i, v) if (vj_mentions(v, what)) return true;
        return false;
    }
    json_object_foreach((json_t *)j, key, v) if (vj_mentions(v, what)) return true;
    return false;
}

static void vj_token(const json_t *id, ft_str text, int32_t type, ft_str **texts, int32_t **types,
                     size_t *n)
{
    const size_t at = (size_t)json_integer_value(id);
    for (; *n <= at; ++*n) {
        *texts = ft_realloc(*texts, (*n + 1) * sizeof **texts);
        *types = ft_realloc(*types, (*n + 1) * sizeof **types);
        (*texts)[*n] = (ft_str){NULL, 0};
        (*types)[*n] = VJ_UNUSED;
    }
    (*texts)[at] = text;
    (*types)[at] = type;
}

static void vj_id(ft_gguf_writer *w, const char *key, const ft_str *texts, size_t n,
                  const char *text)
{
    for (size_t i = 0; i < n; i++)
        if (ft_str_is(texts[i], text)) ft_gguf_put_u32(w, key, (uint32_t)i);
}

static void vj_merges(ft_gguf_writer *w, const json_t *merges)
{
    const size_t n = json_array_size(merges);
    ft_str *rule = ft_new_n(ft_str, n + 1);
    ft_buf all;
    ft_buf_init(&all, SIZE_MAX / 2);
    size_t *at = ft_new_n(size_t, n + 1);
    for (size_t i = 0; i < n; i++) {
        const json_t *m = json_array_get(merges, i);
        at[i] = all.len;
        if (json_is_string(m)) {
            ft_buf_puts(&all, json_string_value(m));
        } else {
            ft_buf_puts(&all, json_string_value(json_array_get(m, 0)));
            ft_buf_putc(&all, ' ');
            ft_buf_puts(&all, json_string_value(json_array_get(m, 1)));
        }
    }
    at[n] = all.len;
    for (size_t i = 0; i < n; i++) rule[i] = (ft_str){all.data + at[i], at[i + 1] - at[i]};
    ft_gguf_put_str_array(w, "tokenizer.ggml.merges", rule, n);
    ft_free(rule);
    ft_free(at);
    ft_buf_release(&all);
}

/* pre: the name of the split pattern; NULL: that of the file. */
static ft_status vj_write_as(const char *json_path, const char *gguf_path, const char *pre_name,
                             ft_err *err)
{
    json_error_t e;
    json_t *root = json_load_file(json_path, 0, &e), *v;
    if (!root) return ft_fail(err, FT_EFORMAT, "%s: %s", json_path, e.text);
    ft_str *texts = NULL;
    int32_t *types = NULL;
    size_t n = 0, i;
    const json_t *model = json_object_get(root, "model"),
                 *pre = json_object_get(root, "pre_tokenizer");
    const bool bytes = vj_mentions(pre, "ByteLevel");
    const char *key;
    json_object_foreach(json_object_get(model, "vocab"), key, v)
    {
        const ft_str text = ft_str_of(key);
        const bool byte = !bytes && text.n == 6 && !strncmp(key, "<0x", 3);
        vj_token(v, text, byte ? VJ_BYTE : VJ_NORMAL, &texts, &types, &n);
    }
    json_array_foreach(json_object_get(root, "added_tokens"), i, v) vj_token(
        json_object_get(v, "id"), ft_str_of(json_string_value(json_object_get(v, "content"))),
        json_is_true(json_object_get(v, "special")) ? VJ_CONTROL : VJ_USER, &texts, &types, &n);
    char(*pad)[24] = ft_alloc_n(n + 1, sizeof *pad); /* ids that are missing in the file */
    for (i = 0; i < n; i++)
        if (!texts[i].p)
            texts[i] = (ft_str){pad[i], (size_t)snprintf(pad[i], sizeof *pad, "[PAD%zu]", i)};
    ft_gguf_writer *w;
    ft_status st = ft_gguf_writer_open(&w, gguf_path, err);
    if (st) return st;
    ft_gguf_put_str(w, "general.architecture", bytes ? FT_STR("qwen35") : FT_STR("gemma4"));
    ft_gguf_put_str(w, "tokenizer.ggml.model", bytes ? FT_STR("gpt2") : FT_STR("gemma4"));
    const char *found = !bytes ? "gemma4" : vj_mentions(pre, "\\p{M}") ? "qwen35" : "qwen2";
    ft_gguf_put_str(w, "tokenizer.ggml.pre", ft_str_of(pre_name ? pre_name : found));
    ft_gguf_put_str_array(w, "tokenizer.ggml.tokens", texts, n);
    ft_gguf_put_array(w, "tokenizer.ggml.token_type", FT_GGUF_I32, types, n);
    vj_merges(w, json_object_get(model, "merges"));
    vj_id(w, "tokenizer.ggml.bos_token_id", texts, n, "<bos>");
    vj_id(w, "tokenizer.ggml.eos_token_id", texts, n, bytes ? "<|im_end|>" : "<eos>");
    ft_free(texts);
    ft_free(types);
    ft_free(pad);
    json_decref(root);
    st = ft_gguf_writer_begin(w, err);
    if (st) {
        ft_gguf_writer_abort(w);
        return st;
    }
    return ft_gguf_writer_commit(w, err);
}

#endif
