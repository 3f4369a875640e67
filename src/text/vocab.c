#include "text/vocab.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "gguf/show.h"
#include "text/bytemap.h"
#include "text/vocab_priv.h"

#include <stdio.h>

#define MAX_TOKENS  ((uint64_t)1 << 24)
#define SPACE_MARK  "\xE2\x96\x81" /* U+2581, which represents a space in Gemma vocabularies */
#define KEY(name)   "tokenizer.ggml." name
#define EMPTY_BYTES 24 /* size of "[EMPTY_<id>]" */

/* ---- keys of the file ---- */

static ft_status read_family(ft_vocab *v, const ft_gguf *g, ft_err *err)
{
    ft_str model, pre;
    if (!ft_gguf_str(g, KEY("model"), &model))
        return ft_fail(err, FT_EFORMAT, "no key " KEY("model") ": the file has no vocabulary");
    if (ft_str_is(model, "gemma4")) {
        v->family = FT_FAMILY_CHARS;
        v->chars = ft_new(ft_char_ids);
        return FT_OK;
    }
    if (!ft_str_is(model, "gpt2"))
        return ft_fail(err, FT_EUNSUPPORTED, "tokenizer model \"%s\", want gpt2 or gemma4",
                       ft_show(model).text);
    v->family = FT_FAMILY_BYTES;
    if (!ft_gguf_str(g, KEY("pre"), &pre))
        return ft_fail(err, FT_EFORMAT, "no key " KEY("pre") ", want qwen2 or qwen35");
    return ft_pretok_open(&v->pretok, pre, err);
}

/* Finds the array of a key, of strings or of integers. */
static ft_status find_array(const ft_gguf_kv **out, const ft_gguf *g, const char *key, bool strings,
                            uint64_t max, ft_err *err)
{
    const ft_gguf_kv *kv = ft_gguf_kv_find(g, key);
    if (!kv) return ft_fail(err, FT_EFORMAT, "no key %s", key);
    if (!kv->array || (kv->kind == FT_GGUF_STR) != strings)
        return ft_fail(err, FT_EFORMAT, "%s is not an array of %s", key,
                       strings ? "strings" : "integers");
    if (kv->n > max)
        return ft_fail(err, FT_ELIMIT, "%s has %llu entries, want at most %llu", key,
                       (unsigned long long)kv->n, (unsigned long long)max);
    *out = kv;
    return FT_OK;
}

static ft_status read_texts(ft_vocab *v, const ft_gguf *g, ft_err *err)
{
    const ft_gguf_kv *kv;
    const ft_status st = find_array(&kv, g, KEY("tokens"), true, MAX_TOKENS, err);
    if (st) return st;
    if (kv->n == 0) return ft_fail(err, FT_EFORMAT, KEY("tokens") " is empty");
    v->n = (int32_t)kv->n;
    const size_t n = (size_t)kv->n;
    size_t bytes = 0;
    ft_str s;
    for (size_t i = 0; i < n; i++) {
        if (!ft_gguf_kv_str(kv, i, &s))
            return ft_fail(err, FT_EFORMAT, KEY("tokens") " entry %zu cannot be read", i);
        bytes += s.n ? s.n : EMPTY_BYTES;
    }
    v->text_data = ft_try_alloc(bytes);
    v->text = ft_try_alloc(n * sizeof *v->text);
    if (!v->text_data || !v->text)
        return ft_fail(err, FT_ENOMEM, "no memory for the texts of %zu tokens", n);
    char *at = v->text_data;
    for (size_t i = 0; i < n; i++) {
        ft_gguf_kv_str(kv, i, &s);
        if (s.n)
            memcpy(at, s.p, s.n);
        else
            s.n = (size_t)snprintf(at, EMPTY_BYTES, "[EMPTY_%zu]", i);
        v->text[i] = (ft_str){at, s.n};
        at += s.n;
        if (!ft_dict_put(&v->by_text, v->text[i], (uint32_t)i))
            return ft_fail(err, FT_EFORMAT, "tokens %d and %zu have the same text \"%s\"",
                           ft_vocab_find(v, v->text[i]), i, ft_show(v->text[i]).text);
    }
    return FT_OK;
}

static ft_status read_types(ft_vocab *v, const ft_gguf *g, ft_err *err)
{
    v->type = ft_alloc((size_t)v->n);
    v->eog = ft_new_n(bool, (size_t)v->n);
    memset(v->type, FT_TOKEN_NORMAL, (size_t)v->n);
    if (!ft_gguf_kv_find(g, KEY("token_type"))) return FT_OK;
    const ft_gguf_kv *kv;
    const ft_status st = find_array(&kv, g, KEY("token_type"), false, MAX_TOKENS, err);
    if (st) return st;
    if (kv->n != (uint64_t)v->n)
        return ft_fail(err, FT_EFORMAT, KEY("token_type") " has %llu entries for %d tokens",
                       (unsigned long long)kv->n, v->n);
    for (int32_t i = 0; i < v->n; i++) {
        int64_t t;
        if (!ft_gguf_kv_i64(kv, (uint64_t)i, &t) || t < 0 || t > FT_TOKEN_BYTE)
            return ft_fail(err, FT_EFORMAT, "the type of token %d is out of range, want 0 to 6", i);
        v->type[i] = (uint8_t)t;
    }
    return FT_OK;
}

static ft_status read_suppressed(ft_vocab *v, const ft_gguf *g, ft_err *err)
{
    const ft_gguf_kv *kv = ft_gguf_kv_find(g, KEY("suppress_tokens"));
    if (!kv) return FT_OK;
    const ft_status st = find_array(&kv, g, KEY("suppress_tokens"), false, MAX_TOKENS, err);
    if (st) return st;
    v->suppress = ft_new_n(int32_t, (size_t)kv->n);
    for (uint64_t i = 0; i < kv->n; i++) {
        int64_t id;
        if (ft_gguf_kv_i64(kv, i, &id) && id >= 0 && id < v->n)
            v->suppress[v->n_suppress++] = (int32_t)id;
    }
    return FT_OK;
}

/* ---- special ids and the end of a response ---- */

static int32_t id_of(const ft_vocab *v, const ft_gguf *g, const char *key, const char *text)
{
    uint32_t id;
    if (ft_gguf_u32(g, key, &id) && id < (uint32_t)v->n) return (int32_t)id;
    return text ? ft_vocab_find(v, ft_str_of(text)) : FT_NO_TOKEN;
}

static void read_ids(ft_vocab *v, const ft_gguf *g)
{
    v->ids = (ft_vocab_ids){
        .bos = id_of(v, g, KEY("bos_token_id"), NULL),
        .eos = id_of(v, g, KEY("eos_token_id"), NULL),
        .eot = id_of(v, g, KEY("eot_token_id"), NULL),
        .eom = id_of(v, g, KEY("eom_token_id"), NULL),
        .unk = id_of(v, g, KEY("unknown_token_id"), NULL),
        .sep =
            id_of(v, g, KEY("seperator_token_id"), NULL), /* misspelled like this in the format */
        .pad = id_of(v, g, KEY("padding_token_id"), NULL),
        .mask = id_of(v, g, KEY("mask_token_id"), NULL),
        .fim_pre = id_of(v, g, KEY("fim_pre_token_id"), "<|fim_prefix|>"),
        .fim_suf = id_of(v, g, KEY("fim_suf_token_id"), "<|fim_suffix|>"),
        .fim_mid = id_of(v, g, KEY("fim_mid_token_id"), "<|fim_middle|>"),
        .fim_pad = id_of(v, g, KEY("fim_pad_token_id"), "<|fim_pad|>"),
        .fim_rep = id_of(v, g, KEY("fim_rep_token_id"), "<|repo_name|>"),
        .fim_sep = id_of(v, g, KEY("fim_sep_token_id"), "<|file_sep|>"),
    };
    static const char *const turn_end[] = {"<|im_end|>", "<turn|>", "<end_of_turn>", "<|eot_id|>"};
    for (size_t i = 0; i < FT_COUNT(turn_end) && v->ids.eot == FT_NO_TOKEN; i++)
        v->ids.eot = ft_vocab_find(v, ft_str_of(turn_end[i]));
    ft_gguf_bool(g, KEY("add_bos_token"), &v->add_bos);
    ft_gguf_bool(g, KEY("add_eos_token"), &v->add_eos);
    /* Gemma models need BOS, although some files set the key to false. */
    if (v->family == FT_FAMILY_CHARS) v->add_bos = true;
}

static void mark_eog(ft_vocab *v)
{
    static const char *const text[] = {
        "<|im_end|>",      "<|endoftext|>", "<eos>",      "<turn|>",   "<|tool_response>",
        "<end_of_turn>",   "<|eot_id|>",    "<|eom_id|>", "<|end|>",   "<|return|>",
        "<|end_of_text|>", "<|call|>",      "<|flush|>",  "<|calls|>", "<EOT>",
        "[EOT]",           "[EOS]",
    };
    for (size_t i = 0; i < FT_COUNT(text); i++) {
        const int32_t id = ft_vocab_find(v, ft_str_of(text[i]));
        if (id == FT_NO_TOKEN) continue;
        v->eog[id] = true;
        v->type[id] = FT_TOKEN_CONTROL; /* some files store <eos> as a normal token */
    }
    const int32_t id[] = {v->ids.eos,     v->ids.eot,     v->ids.eom,
                          v->ids.fim_pad, v->ids.fim_rep, v->ids.fim_sep};
    for (size_t i = 0; i < FT_COUNT(id); i++)
        if (id[i] != FT_NO_TOKEN) v->eog[id[i]] = true;
}

/* ---- pieces: the bytes that tokens print ---- */

/* The byte value of "<0xHH>", else -1. */
static int named_byte(ft_str s)
{
    static const char hex[] = "0123456789ABCDEF";
    if (s.n != 6 || memcmp(s.p, "<0x", 3) || s.p[5] != '>') return -1;
    const char *hi = memchr(hex, s.p[3], 16), *lo = memchr(hex, s.p[4], 16);
    return hi && lo ? (int)((hi - hex) * 16 + (lo - hex)) : -1;
}

static size_t print_bytes(char *out, ft_str s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n;) {
        int len;
        const uint32_t c = ft_utf8_decode(s.p + i, s.n - i, &len);
        const int b = c < FT_BYTEMAP_CHARS ? ft_bytemap_byte(c) : -1;
        if (b >= 0) {
            out[n++] = (char)b;
        } else {
            memcpy(out + n, s.p + i, (size_t)len);
            n += (size_t)len;
        }
        i += (size_t)len;
    }
    return n;
}

static size_t print_chars(char *out, ft_str s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n;) {
        if (s.n - i >= 3 && !memcmp(s.p + i, SPACE_MARK, 3)) {
            out[n++] = ' ';
            i += 3;
        } else {
            out[n++] = s.p[i++];
        }
    }
    return n;
}

static ft_status build_pieces(ft_vocab *v, ft_err *err)
{
    const ft_str last = v->text[v->n - 1];
    v->piece_data = ft_try_alloc((size_t)(last.p + last.n - v->text_data));
    v->piece = ft_try_alloc((size_t)v->n * sizeof *v->piece);
    if (!v->piece_data || !v->piece)
        return ft_fail(err, FT_ENOMEM, "no memory for the pieces of %d tokens", v->n);
    char *at = v->piece_data;
    for (int32_t i = 0; i < v->n; i++) {
        const ft_str s = v->text[i];
        size_t n = 0;
        switch (v->type[i]) {
        case FT_TOKEN_NORMAL:
            n = v->family == FT_FAMILY_BYTES ? print_bytes(at, s) : print_chars(at, s);
            break;
        case FT_TOKEN_BYTE:
            if (named_byte(s) < 0)
                return ft_fail(err, FT_EFORMAT,
                               "token %d \"%s\" has the type byte, want a text like <0x41>", i,
                               ft_show(s).text);
            *at = (char)named_byte(s);
            n = 1;
            break;
        case FT_TOKEN_USER: /* in some Gemma files, runs of spaces are user-defined tokens */
            if (v->family == FT_FAMILY_CHARS) {
                n = print_chars(at, s);
                break;
            }
            v->piece[i] = s;
            continue;
        case FT_TOKEN_CONTROL:
        case FT_TOKEN_UNKNOWN: v->piece[i] = s; continue;
        default: break; /* unused tokens print nothing */
        }
        v->piece[i] = (ft_str){at, n};
        at += n;
    }
    return FT_OK;
}

/* ---- symbols, merges, special tokens ---- */

static void build_symbols(ft_vocab *v)
{
    for (unsigned b = 0; b < 256; b++) {
        char s[8];
        int n;
        if (v->family == FT_FAMILY_BYTES)
            n = ft_utf8_encode(ft_bytemap_char((uint8_t)b), s);
        else
            n = snprintf(s, sizeof s, "<0x%02X>", b);
        const int32_t id = ft_vocab_find(v, (ft_str){s, (size_t)n});
        v->byte_sym[b] = id == FT_NO_TOKEN ? FT_NO_SYM : (uint32_t)id;
    }
    if (v->family != FT_FAMILY_CHARS) return;
    for (int32_t i = 0; i < v->n; i++) {
        const ft_str s = v->text[i];
        int len;
        if (s.n > 4) continue;
        const uint32_t c = ft_utf8_decode(s.p, s.n, &len);
        if (c == FT_UTF8_BAD || (size_t)len != s.n) continue;
        uint32_t **page = &v->chars->page[c >> 8];
        if (!*page) {
            *page = ft_new_n(uint32_t, 256);
            memset(*page, 0xFF, 256 * sizeof **page); /* FT_NO_SYM */
        }
        (*page)[c & 255] = (uint32_t)i;
    }
    /* A space is encoded as its marker; a token that is one plain space is never produced. */
    const int32_t mark = ft_vocab_find(v, FT_STR(SPACE_MARK));
    if (!v->chars->page[0]) {
        v->chars->page[0] = ft_new_n(uint32_t, 256);
        memset(v->chars->page[0], 0xFF, 256 * sizeof **v->chars->page);
    }
    v->chars->page[0][' '] = mark == FT_NO_TOKEN ? FT_NO_SYM : (uint32_t)mark;
}

static ft_status put_merge(ft_vocab *v, ft_str rule, uint64_t rank, ft_buf *joined, ft_err *err)
{
    const size_t gap = rule.n > 1 ? ft_str_find(rule, FT_STR(" "), 1) : SIZE_MAX;
    if (gap == SIZE_MAX)
        return ft_fail(err, FT_EFORMAT, "merge %llu \"%s\" has no space between two parts",
                       (unsigned long long)rank, ft_show(rule).text);
    const ft_str a = {rule.p, gap}, b = {rule.p + gap + 1, rule.n - gap - 1};
    ft_buf_clear(joined);
    ft_buf_put_str(joined, a);
    ft_buf_put_str(joined, b);
    uint32_t ia, ib, id;
    if (!ft_dict_find(&v->by_text, a, &ia) || !ft_dict_find(&v->by_text, b, &ib) ||
        !ft_dict_find(&v->by_text, ft_buf_str(joined), &id))
        return ft_fail(err, FT_EFORMAT,
                       "merge %llu \"%s\": want both parts and their join to be tokens",
                       (unsigned long long)rank, ft_show(rule).text);
    ft_merges_put(&v->merges, ia, ib, id);
    if (b.n >= 3 && !memcmp(b.p, SPACE_MARK, 3)) v->joins_space[(unsigned char)a.p[a.n - 1]] = true;
    return FT_OK;
}

static ft_status read_merges(ft_vocab *v, const ft_gguf *g, ft_err *err)
{
    const ft_gguf_kv *kv;
    ft_status st = find_array(&kv, g, KEY("merges"), true, FT_MAX_RULES, err);
    if (st) return st;
    if (!ft_merges_init(&v->merges, (uint32_t)kv->n))
        return ft_fail(err, FT_ENOMEM, "no memory for %llu merges", (unsigned long long)kv->n);
    ft_buf joined;
    ft_buf_init(&joined, SIZE_MAX / 2);
    for (uint64_t i = 0; i < kv->n && !st; i++) {
        ft_str rule;
        if (!ft_gguf_kv_str(kv, i, &rule))
            st = ft_fail(err, FT_EFORMAT, KEY("merges") " entry %llu cannot be read",
                         (unsigned long long)i);
        else
            st = put_merge(v, rule, i, &joined, err);
    }
    ft_buf_release(&joined);
    v->joins_space[' '] =
        v->joins_space[0x81]; /* the last byte of the marker: a space after a space */
    return st;
}

/* Builds the tree from the symbols and their bytes in a text. A plain space is the symbol of the
 * marker; text that contains the marker itself is rare, and is encoded by merging. */
static void build_tree(ft_vocab *v)
{
    const size_t max = v->family == FT_FAMILY_BYTES ? 256 : (size_t)v->n;
    ft_base_sym *sym = ft_new_n(ft_base_sym, max);
    size_t n = 0;
    char byte[256];
    if (v->family == FT_FAMILY_BYTES) {
        for (unsigned b = 0; b < 256; b++) {
            byte[b] = (char)b;
            if (v->byte_sym[b] != FT_NO_SYM)
                sym[n++] = (ft_base_sym){{&byte[b], 1}, v->byte_sym[b]};
        }
    } else {
        for (int32_t i = 0; i < v->n; i++) {
            const ft_str s = v->text[i];
            int len;
            if (s.n > 4 || ft_utf8_decode(s.p, s.n, &len) == FT_UTF8_BAD || (size_t)len != s.n)
                continue;
            if (ft_str_is(s, " ")) continue;
            sym[n++] = (ft_base_sym){ft_str_is(s, SPACE_MARK) ? FT_STR(" ") : s, (uint32_t)i};
        }
    }
    v->tree = ft_merge_tree_new(&v->merges, sym, n, (uint32_t)v->n);
    ft_free(sym);
}

static void build_special(ft_vocab *v)
{
    size_t n = 0;
    for (int32_t i = 0; i < v->n; i++)
        n += v->type[i] == FT_TOKEN_CONTROL || v->type[i] == FT_TOKEN_USER ||
             v->type[i] == FT_TOKEN_UNKNOWN;
    ft_special_token *list = ft_new_n(ft_special_token, n);
    size_t k = 0;
    for (int32_t i = 0; i < v->n; i++)
        if (v->type[i] == FT_TOKEN_CONTROL || v->type[i] == FT_TOKEN_USER ||
            v->type[i] == FT_TOKEN_UNKNOWN)
            list[k++] = (ft_special_token){v->text[i], i, v->type[i] == FT_TOKEN_USER};
    ft_special_init(&v->special, list, n);
}

void ft_vocab_add_alias(ft_vocab *v, const char *alias, int32_t id)
{
    const size_t n = v->special.n;
    ft_special_token *list = ft_new_n(ft_special_token, n + 1);
    if (n) memcpy(list, v->special.token, n * sizeof *list);
    v->alias = ft_realloc(v->alias, sizeof *v->alias * (v->n_alias + 1));
    v->alias[v->n_alias] = ft_strdup(alias);
    list[n] = (ft_special_token){ft_str_of(v->alias[v->n_alias++]), -2 - id, false};
    ft_special_release(&v->special);
    ft_special_init(&v->special, list, n + 1);
}

/* ---- open and free ---- */

ft_status ft_vocab_open(ft_vocab **out, const ft_gguf *g, ft_err *err)
{
    ft_vocab *v = ft_new(ft_vocab);
    ft_dict_init(&v->by_text);
    v->pool = ft_encoder_pool_new();
    ft_status st;
    if ((st = read_family(v, g, err))) goto fail;
    if ((st = read_texts(v, g, err))) goto fail;
    if ((st = read_types(v, g, err))) goto fail;
    if ((st = read_suppressed(v, g, err))) goto fail;
    read_ids(v, g);
    mark_eog(v);
    if ((st = build_pieces(v, err))) goto fail;
    build_symbols(v);
    if ((st = read_merges(v, g, err))) goto fail;
    build_tree(v);
    build_special(v);
    *out = v;
    return FT_OK;
fail:
    ft_vocab_close(v);
    return st;
}

void ft_vocab_close(ft_vocab *v)
{
    if (!v) return;
    ft_encoder_pool_free(v->pool);
    ft_special_release(&v->special);
    for (size_t i = 0; i < v->n_alias; i++) ft_free(v->alias[i]);
    ft_free(v->alias);
    ft_merge_tree_free(v->tree);
    ft_merges_release(&v->merges);
    ft_pretok_free(v->pretok);
    if (v->chars)
        for (size_t i = 0; i < FT_COUNT(v->chars->page); i++) ft_free(v->chars->page[i]);
    ft_free(v->chars);
    ft_dict_release(&v->by_text);
    ft_free(v->text_data);
    ft_free(v->piece_data);
    ft_free(v->text);
    ft_free(v->piece);
    ft_free(v->type);
    ft_free(v->eog);
    ft_free(v->suppress);
    ft_free(v);
}

/* ---- queries ---- */

static bool is_valid_id(const ft_vocab *v, int32_t id)
{
    return id >= 0 && id < v->n;
}

int32_t ft_vocab_count(const ft_vocab *v)
{
    return v->n;
}

ft_str ft_vocab_text(const ft_vocab *v, int32_t id)
{
    return is_valid_id(v, id) ? v->text[id] : FT_STR("");
}

ft_token_type ft_vocab_type(const ft_vocab *v, int32_t id)
{
    return is_valid_id(v, id) ? (ft_token_type)v->type[id] : FT_TOKEN_UNDEFINED;
}

bool ft_vocab_is_eog(const ft_vocab *v, int32_t id)
{
    return is_valid_id(v, id) && v->eog[id];
}

ft_str ft_vocab_piece(const ft_vocab *v, int32_t id, bool special)
{
    if (!is_valid_id(v, id)) return FT_STR("");
    const bool hidden = v->type[id] == FT_TOKEN_CONTROL || v->type[id] == FT_TOKEN_UNKNOWN;
    return hidden && !special ? FT_STR("") : v->piece[id];
}

int32_t ft_vocab_find(const ft_vocab *v, ft_str text)
{
    uint32_t id;
    return ft_dict_find(&v->by_text, text, &id) ? (int32_t)id : FT_NO_TOKEN;
}

const ft_vocab_ids *ft_vocab_special(const ft_vocab *v)
{
    return &v->ids;
}

bool ft_vocab_add_bos(const ft_vocab *v)
{
    return v->add_bos;
}

bool ft_vocab_add_eos(const ft_vocab *v)
{
    return v->add_eos;
}

const int32_t *ft_vocab_suppressed(const ft_vocab *v, size_t *n)
{
    *n = v->n_suppress;
    return v->suppress;
}
