#include "tools/synth_vocab.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <assert.h>
#include <stdio.h>

enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER = 4, UNUSED = 5, BYTE = 6 };

/* Merges in rank order; '_' is replaced by the space marker of the family. Both halves are single
 * letters or results of earlier merges. */
static const char *const merges[] = {
    "_ t", "h e", "i n",  "_ a", "r e",  "o n",  "_t he", "e r", "_ s",   "a t",
    "e n", "n d", "_ w",  "o r", "i s",  "i t",  "_ o",   "e s", "_a nd", "in g",
    "_ h", "o u", "_o f", "_ b", "a n",  "l l",  "_t o",  "_ c", "e d",   "_ in",
    "_ f", "_ m", "_ d",  "a r", "_w h", "_h e", "_b e",  "l e", "_y ou", "_ is",
};
static const char extra_merge[] = "_ y"; /* goes before "_y ou" */

/* In the order of the family, from <|endoftext|> on. */
static const char *const qwen_special[] = {
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
    "<tool_call>",
    "</tool_call>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
};

static const struct {
    const char *text;
    int id, type;
} gemma_special[] = {
    {"<pad>", 0, CONTROL},      {"<eos>", 1, NORMAL}, /* as in files of this family */
    {"<bos>", 2, CONTROL},      {"<unk>", 3, CONTROL},          {"<mask>", 4, CONTROL},
    {"<|tool>", 46, CONTROL},   {"<tool|>", 47, CONTROL},       {"<|tool_call>", 48, USER},
    {"<tool_call|>", 49, USER}, {"<|tool_response>", 50, USER}, {"<tool_response|>", 51, USER},
    {"<|\"|>", 52, USER},       {"<|think|>", 98, CONTROL},     {"<|channel>", 100, USER},
    {"<channel|>", 101, USER},  {"<|turn>", 105, CONTROL},      {"<turn|>", 106, CONTROL},
};
/* With their ids in the full vocabulary; in others they are its last tokens. */
static const struct {
    const char *text;
    int id;
} gemma_images[] = {{"<|image>", 255999}, {"<|image|>", 258880}, {"<image|>", 258882}};
enum { GEMMA_FIRST_BYTE = 238, QWEN_SPECIAL_FULL = 248044, QWEN_VOCAB_FULL = 248320 };

/* The content of a message: a text, or texts and images. */
#define CONTENT_MACRO(image)                                                                       \
    "{%- macro show(content) %}\n"                                                                 \
    "{%- if content is string %}{{- content }}\n"                                                  \
    "{%- else %}{%- for part in content %}\n"                                                      \
    "{{- '" image "' if part.type == 'image' else part.text }}\n"                                  \
    "{%- endfor %}{%- endif %}\n"                                                                  \
    "{%- endmacro %}\n"

static const char qwen_template[] = CONTENT_MACRO(
    "<|vision_start|><|image_pad|><|vision_end|>") "{%- for message in messages %}\n"
                                                   "{{- '<|im_start|>' + message.role + '\\n' + "
                                                   "show(message.content) + '<|im_end|>\\n' }}\n"
                                                   "{%- endfor %}\n"
                                                   "{%- if add_generation_prompt %}\n"
                                                   "{{- '<|im_start|>assistant\\n' }}\n"
                                                   "{%- if enable_thinking is defined and "
                                                   "enable_thinking is false %}\n"
                                                   "{{- '<think>\\n\\n</think>\\n\\n' }}\n"
                                                   "{%- else %}\n"
                                                   "{{- '<think>\\n' }}\n"
                                                   "{%- endif %}\n"
                                                   "{%- endif %}\n";

static const char gemma_template[] = CONTENT_MACRO(
    "<|image|>") "{{- bos_token }}\n"
                 "{%- for message in messages %}\n"
                 "{%- set role = 'model' if message.role == 'assistant' else message.role %}\n"
                 "{{- '<|turn>' + role + '\\n' + show(message.content) + '<turn|>\\n' }}\n"
                 "{%- endfor %}\n"
                 "{%- if add_generation_prompt %}\n"
                 "{{- '<|turn>model\\n' }}\n"
                 "{%- endif %}\n";

typedef struct vocab {
    char (*text)[32];
    int32_t *type;
    int n, used;
    const char *space; /* the space marker, in UTF-8 */
    char (*merge)[32];
    int n_merge;
} vocab;

static void vocab_init(vocab *v, int n, const char *space)
{
    *v = (vocab){.n = n, .space = space};
    v->text = ft_alloc_n((size_t)n, sizeof *v->text);
    v->type = ft_new_n(int32_t, (size_t)n);
    v->merge = ft_alloc_n(FT_COUNT(merges) + 2, sizeof *v->merge);
}

static void vocab_release(vocab *v)
{
    ft_free(v->text);
    ft_free(v->type);
    ft_free(v->merge);
}

static void set_token(vocab *v, int id, const char *text, int type)
{
    assert(id < v->n && !v->type[id] && strlen(text) < sizeof *v->text);
    snprintf(v->text[id], sizeof *v->text, "%s", text);
    v->type[id] = type;
}

/* Assigns the text to the next free id. */
static void push_token(vocab *v, const char *text, int type)
{
    while (v->used < v->n && v->type[v->used]) v->used++;
    set_token(v, v->used, text, type);
}

/* Adds the merge "A B" with its '_' replaced, and the token AB. */
static void push_merge(vocab *v, const char *pair)
{
    char *rule = v->merge[v->n_merge++], token[32];
    size_t n = 0, m = 0;
    for (const char *p = pair; *p; p++) {
        const char *text = *p == '_' ? v->space : p;
        const size_t len = *p == '_' ? strlen(v->space) : 1;
        memcpy(rule + n, text, len);
        n += len;
        if (*p != ' ') {
            memcpy(token + m, text, len);
            m += len;
        }
    }
    token[m] = 0;
    push_token(v, token, NORMAL);
}

static void push_merges(vocab *v)
{
    for (size_t i = 0; i < FT_COUNT(merges); i++) {
        if (!strcmp(merges[i], "_y ou")) push_merge(v, extra_merge);
        push_merge(v, merges[i]);
    }
}

/* Fills ids with made-up words of three syllables after a space; none of them is the result of a
 * merge. */
static void push_words(vocab *v, int last)
{
    static const char consonant[] = "bcdfghjklmnprstvwxyz", vowel[] = "aeiou";
    for (unsigned k = 0; v->used < last; k++) {
        while (v->used < last && v->type[v->used]) v->used++;
        if (v->used >= last) break;
        char word[16];
        size_t n = 0;
        for (unsigned rest = k, i = 0; i < 3; i++, rest /= 100) {
            word[n++] = consonant[rest % 20];
            word[n++] = vowel[rest / 20 % 5];
        }
        word[n] = 0;
        char text[32];
        snprintf(text, sizeof text, "%s%s", v->space, word);
        push_token(v, text, NORMAL);
    }
}

static void push_padding(vocab *v)
{
    for (; v->used < v->n; v->used++) {
        if (v->type[v->used]) continue;
        char text[32];
        snprintf(text, sizeof text, "[PAD%d]", v->used);
        set_token(v, v->used, text, UNUSED);
    }
}

static void put_lists(ft_gguf_writer *w, const vocab *v)
{
    ft_str *s = ft_new_n(ft_str, (size_t)v->n);
    for (int i = 0; i < v->n; i++) s[i] = ft_str_of(v->text[i]);
    ft_gguf_put_str_array(w, "tokenizer.ggml.tokens", s, (uint64_t)v->n);
    ft_gguf_put_array(w, "tokenizer.ggml.token_type", FT_GGUF_I32, v->type, (uint64_t)v->n);
    for (int i = 0; i < v->n_merge; i++) s[i] = ft_str_of(v->merge[i]);
    ft_gguf_put_str_array(w, "tokenizer.ggml.merges", s, (uint64_t)v->n_merge);
    ft_free(s);
}

/* Adds the alphabet of byte-level BPE: printable bytes map to themselves, the others to code points
 * from U+0100 on. */
static void push_bytes(vocab *v)
{
    uint32_t moved = 0;
    for (uint32_t b = 0; b < 256; b++) {
        const bool same = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        char text[5] = {0};
        ft_utf8_encode(same ? b : 256 + moved++, text);
        push_token(v, text, NORMAL);
    }
}

void ft_synth_vocab_qwen(ft_gguf_writer *w, int n)
{
    enum { SPECIALS = FT_COUNT(qwen_special) };
    vocab v;
    vocab_init(&v, n, "\xc4\xa0");
    push_bytes(&v);
    push_merges(&v);
    snprintf(v.merge[v.n_merge++], sizeof *v.merge, "\xc4\x8a \xc4\x8a"); /* two newlines */
    push_token(&v, "\xc4\x8a\xc4\x8a", NORMAL);
    const int first = n == QWEN_VOCAB_FULL ? (int)QWEN_SPECIAL_FULL : n - (int)SPECIALS;
    for (int i = 0; i < (int)SPECIALS; i++)
        set_token(&v, first + i, qwen_special[i], qwen_special[i][1] == '|' ? CONTROL : USER);
    push_words(&v, first);
    push_padding(&v);
    ft_gguf_put_str(w, "tokenizer.ggml.model", FT_STR("gpt2"));
    ft_gguf_put_str(w, "tokenizer.ggml.pre", FT_STR("qwen35"));
    put_lists(w, &v);
    ft_gguf_put_u32(w, "tokenizer.ggml.bos_token_id", (uint32_t)first);
    ft_gguf_put_u32(w, "tokenizer.ggml.eos_token_id", (uint32_t)first + 2);
    ft_gguf_put_u32(w, "tokenizer.ggml.padding_token_id", (uint32_t)first);
    ft_gguf_put_bool(w, "tokenizer.ggml.add_bos_token", false);
    ft_gguf_put_str(w, "tokenizer.chat_template", ft_str_of(qwen_template));
    vocab_release(&v);
}

void ft_synth_vocab_gemma(ft_gguf_writer *w, int n)
{
    enum { IMAGES = FT_COUNT(gemma_images) };
    vocab v;
    vocab_init(&v, n, "\xe2\x96\x81");
    for (size_t i = 0; i < FT_COUNT(gemma_special); i++)
        set_token(&v, gemma_special[i].id, gemma_special[i].text, gemma_special[i].type);
    for (int i = 0; i < IMAGES; i++)
        set_token(&v, n > gemma_images[IMAGES - 1].id ? gemma_images[i].id : n - IMAGES + i,
                  gemma_images[i].text, CONTROL);
    char text[32];
    for (int i = 0; i < 256; i++) {
        snprintf(text, sizeof text, "<0x%02X>", (unsigned)i);
        set_token(&v, GEMMA_FIRST_BYTE + i, text, BYTE);
    }
    for (int i = 1; i <= 4; i++) { /* runs of newlines are tokens of their own */
        memset(text, '\n', (size_t)i);
        text[i] = 0;
        push_token(&v, text, i == 1 ? NORMAL : USER);
    }
    push_token(&v, v.space, NORMAL);
    for (int c = '!'; c <= '~'; c++) push_token(&v, (char[]){(char)c, 0}, NORMAL);
    push_merges(&v);
    push_words(&v, n);
    push_padding(&v);
    ft_gguf_put_str(w, "tokenizer.ggml.model", FT_STR("gemma4"));
    put_lists(w, &v);
    float *scores = ft_new_n(float, (size_t)n);
    for (int i = 0; i < n; i++) scores[i] = -1000;
    ft_gguf_put_array(w, "tokenizer.ggml.scores", FT_GGUF_F32, scores, (uint64_t)n);
    ft_free(scores);
    ft_gguf_put_u32(w, "tokenizer.ggml.bos_token_id", 2);
    ft_gguf_put_u32(w, "tokenizer.ggml.eos_token_id", 106);
    ft_gguf_put_u32(w, "tokenizer.ggml.unknown_token_id", 3);
    ft_gguf_put_u32(w, "tokenizer.ggml.padding_token_id", 0);
    ft_gguf_put_bool(w, "tokenizer.ggml.add_bos_token", true);
    ft_gguf_put_bool(w, "tokenizer.ggml.add_space_prefix", false);
    ft_gguf_put_str(w, "tokenizer.chat_template", ft_str_of(gemma_template));
    vocab_release(&v);
}
