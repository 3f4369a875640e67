/* tools/hf_vocab.c - converts tokenizer.json, tokenizer_config.json and the chat templates to the
 * tokenizer.* keys of a GGUF. Supports byte-level BPE (Qwen) and BPE over text with U+2581 for
 * spaces (Gemma); other schemes are rejected. The scheme and the split pattern come from the file,
 * not from the model family. */
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "tools/hf.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { NORMAL = 1, CONTROL = 3, USER = 4, UNUSED = 5, BYTE = 6 }; /* token types in a file */

typedef enum scheme { BYTE_LEVEL, SPACES } scheme;

typedef struct vocab {
    ft_hf_obj tok, conf; /* tokenizer.json, tokenizer_config.json */
    ft_hf_note *note;
    scheme scheme;
    const char *pre;
    int64_t V;
    ft_str *text; /* p NULL: no token has this id */
    int32_t *type;
    ft_dict by_text;
    char *pad; /* texts of the ids that have none */
} vocab;

/* ---- the scheme ---- */

static const struct {
    const char *name, *regex;
} patterns[] = {
    {"qwen2", "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
              "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
    {"qwen35", "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"
               "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
};

static const char *text_of(const json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));
    return s ? s : "";
}

/* Finds the step of this type in a pre-tokenizer or normalizer, which may be a sequence of steps.
 */
static const json_t *find_step(const json_t *step, const char *list, const char *type)
{
    if (!strcmp(text_of(step, "type"), type)) return step;
    const json_t *steps = json_object_get(step, list);
    for (size_t i = 0; i < json_array_size(steps); i++) {
        const json_t *s = json_array_get(steps, i);
        if (!strcmp(text_of(s, "type"), type)) return s;
    }
    return NULL;
}

static void find_scheme(vocab *v)
{
    const json_t *pre = ft_hf_get(&v->tok, "pre_tokenizer");
    const json_t *norm = ft_hf_get(&v->tok, "normalizer");
    const json_t *space = find_step(norm, "normalizers", "Replace");
    if (!find_step(pre, "pretokenizers", "ByteLevel")) {
        const char *what = text_of(json_object_get(space, "pattern"), "String");
        if (strcmp(what, " ") || strcmp(text_of(space, "content"), "\xE2\x96\x81"))
            ft_hf_bad(&v->tok,
                      "pre_tokenizer is \"%.40s\", want ByteLevel, or a normalizer that "
                      "replaces spaces by U+2581",
                      text_of(pre, "type"));
        v->scheme = SPACES;
        v->pre = "gemma4";
        return;
    }
    v->scheme = BYTE_LEVEL;
    const json_t *split = find_step(pre, "pretokenizers", "Split");
    const char *regex = text_of(json_object_get(split, "pattern"), "Regex");
    for (size_t i = 0; i < FT_COUNT(patterns); i++)
        if (!strcmp(regex, patterns[i].regex)) v->pre = patterns[i].name;
    if (!v->pre)
        ft_hf_bad(&v->tok, "the split pattern is \"%.200s\", want that of qwen2 or qwen35", regex);
}

/* ---- tokens ---- */

static bool is_byte(ft_str t) /* <0xHH> */
{
    return t.n == 6 && !memcmp(t.p, "<0x", 3) && isxdigit((unsigned char)t.p[3]) &&
           isxdigit((unsigned char)t.p[4]) && t.p[5] == '>';
}

static void put_token(vocab *v, const json_t *id, ft_str text, int32_t type)
{
    const int64_t i = json_is_integer(id) ? json_integer_value(id) : -1;
    if (i < 0 || i >= v->V) {
        ft_hf_bad(&v->tok, "token \"%.*s\" has the id %lld, want 0 to %lld (vocab_size)",
                  (int)FT_MIN(text.n, 60), text.p, (long long)i, (long long)v->V - 1);
        return;
    }
    if (v->text[i].p && !ft_str_eq(v->text[i], text)) {
        ft_hf_bad(&v->tok, "the id %lld belongs to \"%.*s\" and to \"%.*s\"", (long long)i,
                  (int)FT_MIN(v->text[i].n, 60), v->text[i].p, (int)FT_MIN(text.n, 60), text.p);
        return;
    }
    v->text[i] = text;
    v->type[i] = type;
    uint32_t other;
    if (!ft_dict_put(&v->by_text, text, (uint32_t)i) && ft_dict_find(&v->by_text, text, &other) &&
        other != (uint32_t)i)
        ft_hf_bad(&v->tok, "token \"%.*s\" has the ids %u and %lld", (int)FT_MIN(text.n, 60),
                  text.p, other, (long long)i);
}

/* Tokens that the response parser needs: they are rendered although the file marks them special. */
static bool always_rendered(ft_str t)
{
    static const char *const seen[] = {"<|channel>",   "<channel|>",       "<|tool_call>",
                                       "<tool_call|>", "<|tool_response>", "<tool_response|>",
                                       "<|\"|>"};
    for (size_t i = 0; i < FT_COUNT(seen); i++)
        if (ft_str_is(t, seen[i])) return true;
    return false;
}

/* Added tokens are matched in the text before the split; those that are not special get the type
 * user-defined. */
static int32_t added_type(const vocab *v, ft_str t, bool special)
{
    const bool seen = v->scheme == SPACES && always_rendered(t);
    return special && !seen ? CONTROL : USER;
}

static void read_tokens(vocab *v)
{
    ft_hf_obj model = ft_hf_inner(&v->tok, "model");
    const char *type = ft_hf_text_or(&model, "type", "BPE"), *key;
    if (strcmp(type, "BPE")) ft_hf_bad(&v->tok, "model.type is \"%.40s\", want BPE", type);
    json_t *list = ft_hf_get(&model, "vocab"), *value;
    if (!json_is_object(list)) {
        ft_hf_bad(&v->tok, "model.vocab: want an object");
        return;
    }
    json_object_foreach(list, key, value)
    {
        const ft_str t = ft_str_of(key);
        put_token(v, value, t, v->scheme == SPACES && is_byte(t) ? BYTE : NORMAL);
        if (v->note->st) return;
    }
    const json_t *added = ft_hf_get(&v->tok, "added_tokens");
    for (size_t i = 0; i < json_array_size(added) && !v->note->st; i++) {
        const json_t *a = json_array_get(added, i), *s = json_object_get(a, "content");
        if (!json_is_string(s)) {
            ft_hf_bad(&v->tok, "added_tokens[%zu]: want a content string", i);
            return;
        }
        const ft_str t = {json_string_value(s), json_string_length(s)};
        put_token(v, json_object_get(a, "id"), t,
                  added_type(v, t, json_is_true(json_object_get(a, "special"))));
    }
}

/* Gives every id below V a text; readers would treat an empty text as missing. */
static void fill_gaps(vocab *v)
{
    size_t gaps = 0;
    for (int64_t i = 0; i < v->V; i++) gaps += !v->text[i].n;
    v->pad = ft_alloc(gaps * 24 + 1);
    char *at = v->pad;
    for (int64_t i = 0; i < v->V; i++) {
        if (v->text[i].n) continue;
        const int n = snprintf(at, 24, v->text[i].p ? "[EMPTY_%lld]" : "[PAD%lld]", (long long)i);
        if (!v->text[i].p) v->type[i] = UNUSED;
        v->text[i] = (ft_str){at, (size_t)n};
        at += n + 1;
    }
}

static void put_tokens(vocab *v, ft_gguf_writer *w)
{
    const uint64_t n = (uint64_t)v->V;
    ft_gguf_put_str(w, "tokenizer.ggml.model", ft_str_of(v->scheme == SPACES ? "gemma4" : "gpt2"));
    ft_gguf_put_str(w, "tokenizer.ggml.pre", ft_str_of(v->pre));
    ft_gguf_put_str_array(w, "tokenizer.ggml.tokens", v->text, n);
    if (v->scheme == SPACES) {
        float *score = ft_new_n(float, n);
        for (uint64_t i = 0; i < n; i++) score[i] = -1000.0f; /* not used: the rank decides */
        ft_gguf_put_array(w, "tokenizer.ggml.scores", FT_GGUF_F32, score, n);
        ft_free(score);
    }
    ft_gguf_put_array(w, "tokenizer.ggml.token_type", FT_GGUF_I32, v->type, n);
}

/* ---- merges ---- */

/* The two halves of merge i; a half with a space in it cannot be written as "A B". */
static bool merge_at(vocab *v, const json_t *list, size_t i, ft_str half[2])
{
    const json_t *m = json_array_get(list, i);
    if (json_is_string(m)) {
        const ft_str s = {json_string_value(m), json_string_length(m)};
        const size_t at = s.n ? ft_str_find(s, FT_STR(" "), 1) : SIZE_MAX;
        if (at != SIZE_MAX && at + 1 < s.n) {
            half[0] = (ft_str){s.p, at};
            half[1] = (ft_str){s.p + at + 1, s.n - at - 1};
            return true;
        }
    } else if (json_array_size(m) == 2) {
        bool good = true;
        for (size_t k = 0; k < 2; k++) {
            const json_t *s = json_array_get(m, k);
            half[k] = (ft_str){json_string_value(s), json_string_length(s)};
            good = good && half[k].n && ft_str_find(half[k], FT_STR(" "), 0) == SIZE_MAX;
        }
        if (good) return true;
    }
    ft_hf_bad(&v->tok, "model.merges[%zu]: want two strings without spaces", i);
    return false;
}

static void put_merges(vocab *v, ft_gguf_writer *w)
{
    ft_hf_obj model = ft_hf_inner(&v->tok, "model");
    const json_t *list = ft_hf_get(&model, "merges");
    const size_t n = json_array_size(list);
    size_t bytes = 0;
    ft_str half[2];
    if (!json_is_array(list)) ft_hf_bad(&v->tok, "model.merges: want an array");
    for (size_t i = 0; i < n && !v->note->st; i++)
        if (merge_at(v, list, i, half)) bytes += half[0].n + 1 + half[1].n;
    if (v->note->st) return;
    char *text = ft_alloc(bytes + 1), *at = text;
    ft_str *merge = ft_new_n(ft_str, n + 1);
    for (size_t i = 0; i < n && merge_at(v, list, i, half); i++) {
        merge[i] = (ft_str){at, half[0].n + 1 + half[1].n};
        memcpy(at, half[0].p, half[0].n);
        at[half[0].n] = ' ';
        memcpy(at + half[0].n + 1, half[1].p, half[1].n);
        at += merge[i].n;
    }
    ft_gguf_put_str_array(w, "tokenizer.ggml.merges", merge, n);
    ft_free(merge);
    ft_free(text);
}

/* ---- special ids ---- */

/* tokenizer_config.json names a special token by its text, or by an object that has it. */
static bool named_id(vocab *v, const char *name, uint32_t *id)
{
    char key[32];
    snprintf(key, sizeof key, "%s_token", name);
    const json_t *t = ft_hf_get(&v->conf, key);
    if (json_is_object(t)) t = json_object_get(t, "content");
    if (!json_is_string(t)) return false;
    return ft_dict_find(&v->by_text, ft_str_of(json_string_value(t)), id);
}

static bool valid_id(const vocab *v, const json_t *j, uint32_t *id)
{
    if (!json_is_integer(j) || json_integer_value(j) < 0 || json_integer_value(j) >= v->V)
        return false;
    *id = (uint32_t)json_integer_value(j);
    return true;
}

/* eos_token_id may be a list: the first id other than eos becomes eot (end of turn), the next eom
 * (end of message). */
static void put_ends(vocab *v, ft_hf *h)
{
    const json_t *list = json_object_get(h->generation, "eos_token_id");
    if (!list) list = ft_hf_get(&h->cfg, "eos_token_id");
    uint32_t eos, id;
    bool have = named_id(v, "eos", &eos);
    if (!have) have = valid_id(v, json_is_array(list) ? json_array_get(list, 0) : list, &eos);
    if (!have) return;
    ft_gguf_put_u32(h->w, "tokenizer.ggml.eos_token_id", eos);
    static const char *const name[] = {"eot", "eom"};
    for (size_t i = 0; i < 2; i++) {
        char key[64];
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", name[i]);
        if (named_id(v, name[i], &id) && id != eos) ft_gguf_put_u32(h->w, key, id);
    }
    uint32_t eot = eos;
    const bool turn = named_id(v, "eot", &eot);
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (!valid_id(v, json_array_get(list, i), &id) || id == eos || id == eot) continue;
        if (!turn && !ft_gguf_has(h->w, "tokenizer.ggml.eot_token_id"))
            ft_gguf_put_u32(h->w, "tokenizer.ggml.eot_token_id", id);
        else if (!ft_gguf_has(h->w, "tokenizer.ggml.eom_token_id"))
            ft_gguf_put_u32(h->w, "tokenizer.ggml.eom_token_id", id);
    }
}

static void put_special(vocab *v, ft_hf *h)
{
    static const struct {
        const char *hf, *gguf;
    } row[] = {
        {"bos", "bos"},     {"unk", "unknown"},
        {"pad", "padding"}, {"sep", "seperator"}, /* misspelled like this in the format */
        {"mask", "mask"},
    };
    for (size_t i = 0; i < FT_COUNT(row); i++) {
        char hf[64], gguf[64];
        uint32_t id;
        snprintf(hf, sizeof hf, "%s_token_id", row[i].hf);
        snprintf(gguf, sizeof gguf, "tokenizer.ggml.%s_token_id", row[i].gguf);
        if (named_id(v, row[i].hf, &id) || valid_id(v, ft_hf_get(&h->cfg, hf), &id))
            ft_gguf_put_u32(h->w, gguf, id);
    }
    put_ends(v, h);
    const bool gemma = v->scheme == SPACES;
    ft_gguf_put_bool(h->w, "tokenizer.ggml.add_bos_token",
                     gemma || ft_hf_bool_or(&v->conf, "add_bos_token", false));
    if (ft_hf_has(&v->conf, "add_eos_token"))
        ft_gguf_put_bool(h->w, "tokenizer.ggml.add_eos_token",
                         ft_hf_bool_or(&v->conf, "add_eos_token", false));
    if (gemma) ft_gguf_put_bool(h->w, "tokenizer.ggml.add_space_prefix", false);
    const json_t *mute = json_object_get(h->generation, "suppress_tokens");
    const size_t n = json_array_size(mute);
    int32_t *ids = ft_new_n(int32_t, n + 1);
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t id;
        if (valid_id(v, json_array_get(mute, i), &id)) ids[used++] = (int32_t)id;
    }
    if (used) ft_gguf_put_array(h->w, "tokenizer.ggml.suppress_tokens", FT_GGUF_I32, ids, used);
    ft_free(ids);
}

/* ---- chat templates ---- */

static void put_named_templates(ft_hf *h, const json_t *list)
{
    const size_t n = json_array_size(list);
    ft_str *name = ft_new_n(ft_str, n + 1);
    size_t named = 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *t = json_array_get(list, i);
        const char *which = text_of(t, "name");
        const ft_str text = ft_str_of(text_of(t, "template"));
        char key[128];
        if (!strcmp(which, "default")) {
            ft_gguf_put_str(h->w, "tokenizer.chat_template", text);
            continue;
        }
        int at = snprintf(key, sizeof key, "tokenizer.chat_template.");
        for (const char *c = which; *c && at < 100; c++)
            key[at++] = isalnum((unsigned char)*c) ? *c : '_';
        key[at] = 0;
        if (!*which || ft_gguf_has(h->w, key)) continue;
        ft_gguf_put_str(h->w, key, text);
        name[named++] = ft_str_of(which);
    }
    if (named) ft_gguf_put_str_array(h->w, "tokenizer.chat_templates", name, named);
    ft_free(name);
}

static ft_status put_template(vocab *v, ft_hf *h, ft_err *err)
{
    char path[4096], *text;
    size_t n;
    if (snprintf(path, sizeof path, "%s/chat_template.jinja", h->dir) < (int)sizeof path &&
        ft_file_exists(path)) {
        ft_status st = ft_file_read(&text, &n, path, (size_t)1 << 24, err);
        if (st) return st;
        ft_gguf_put_str(h->w, "tokenizer.chat_template", (ft_str){text, n});
        ft_free(text);
        return FT_OK;
    }
    const json_t *t = ft_hf_get(&v->conf, "chat_template");
    if (json_is_string(t))
        ft_gguf_put_str(h->w, "tokenizer.chat_template",
                        (ft_str){json_string_value(t), json_string_length(t)});
    else
        put_named_templates(h, t);
    return FT_OK;
}

ft_status ft_hf_vocab(ft_hf *h, ft_err *err)
{
    ft_status st = FT_OK;
    if (!h->tokenizer)
        return ft_fail(err, FT_ENOTFOUND,
                       "%s: no tokenizer.json (--no-vocab converts without a vocabulary)", h->dir);
    vocab v = {
        .tok = {.at = {h->tokenizer}, .file = "tokenizer.json", .note = &h->note},
        .conf = {.at = {h->tokenizer_config}, .file = "tokenizer_config.json", .note = &h->note},
        .note = &h->note,
        .V = h->V};
    h->note.err = err;
    v.text = ft_new_n(ft_str, (size_t)v.V);
    v.type = ft_new_n(int32_t, (size_t)v.V);
    ft_dict_init(&v.by_text);
    find_scheme(&v);
    if (!v.note->st) read_tokens(&v);
    if (!v.note->st) {
        fill_gaps(&v);
        put_tokens(&v, h->w);
        put_merges(&v, h->w);
        put_special(&v, h);
        st = put_template(&v, h, err);
    }
    ft_dict_release(&v.by_text);
    ft_free(v.text);
    ft_free(v.type);
    ft_free(v.pad);
    return v.note->st ? v.note->st : st;
}
