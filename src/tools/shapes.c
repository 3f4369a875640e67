#include "tools/shapes.h"

#include <stdio.h>

#define QWEN                                                                                       \
    .vocab = 248320, .context = 262144, .head = 256, .rotary = 64, .every = 4, .state = 128,       \
    .conv = 4
#define GEMMA .family = FT_GEMMA4, .vocab = 262144, .head = 256, .global_head = 512
#define DRAFTER                                                                                    \
    .family = FT_GEMMA4_ASSISTANT, .vocab = 262144, .layers = 4, .every = 4, .head = 256,          \
    .global_head = 512, .shared_kv = 4

#define MICRO_DRAFTER                                                                              \
    .family = FT_GEMMA4_ASSISTANT, .layers = 4, .every = 4, .width = 32, .ffn = 64, .vocab = 704,  \
    .heads = 2, .kv_heads = 1, .global_kv_heads = 1, .head = 32, .global_head = 64, .window = 32,  \
    .shared_kv = 4, .target_width = 64, .context = 4096

/* Where a size is not published, the value is inferred from the sizes of similar models. */
/* clang-format off */
static const ft_model_shape table[] = {
    {.name = "27b", .aliases = "qwen35-27b", QWEN, .layers = 64, .width = 5120, .ffn = 17408,
     .heads = 24, .kv_heads = 4, .key_heads = 16, .value_heads = 48, .untied = true},
    {.name = "35b-a3b", .aliases = "qwen35moe-35b-a3b", .family = FT_QWEN35MOE, QWEN, .layers = 40,
     .width = 2048, .heads = 16, .kv_heads = 2, .key_heads = 16, .value_heads = 32, .experts = 256,
     .used = 8, .expert_ffn = 512, .shared_ffn = 512, .untied = true},
    {.name = "9b", .aliases = "qwen35-9b", QWEN, .layers = 32, .width = 4096, .ffn = 12288,
     .heads = 16, .kv_heads = 4, .key_heads = 16, .value_heads = 32, .untied = true},
    {.name = "4b", .aliases = "qwen35-4b", QWEN, .layers = 32, .width = 2560, .ffn = 9216,
     .heads = 16, .kv_heads = 4, .key_heads = 16, .value_heads = 32},
    {.name = "2b", .aliases = "qwen35-2b", QWEN, .layers = 24, .width = 2048, .ffn = 6144,
     .heads = 8, .kv_heads = 2, .key_heads = 16, .value_heads = 16},
    {.name = "0.8b", .aliases = "qwen35-0.8b", QWEN, .layers = 24, .width = 1024, .ffn = 3584,
     .heads = 8, .kv_heads = 2, .key_heads = 16, .value_heads = 16},
    {.name = "tiny", .layers = 8, .width = 1024, .ffn = 2048, .vocab = 8192, .context = 32768,
     .heads = 4, .kv_heads = 2, .head = 256, .rotary = 64, .every = 4, .key_heads = 4,
     .value_heads = 8, .state = 128, .conv = 4},
    {.name = "tiny-moe", .family = FT_QWEN35MOE, .layers = 8, .width = 512, .vocab = 8192,
     .context = 32768, .heads = 4, .kv_heads = 2, .head = 128, .rotary = 32, .every = 4,
     .key_heads = 2, .value_heads = 4, .state = 128, .conv = 4, .experts = 16, .used = 4,
     .expert_ffn = 256, .shared_ffn = 256, .untied = true},
    {.name = "micro", .layers = 4, .width = 64, .ffn = 128, .vocab = 352, .context = 4096,
     .heads = 2, .kv_heads = 1, .head = 32, .rotary = 8, .every = 4, .key_heads = 2,
     .value_heads = 4, .state = 16, .conv = 4},
    {.name = "gemma4-e2b", .aliases = "e2b", GEMMA, .layers = 35, .every = 5, .width = 1536,
     .ffn = 6144, .wide_ffn = 12288, .heads = 8, .kv_heads = 1, .global_kv_heads = 1, .window = 512,
     .shared_kv = 20, .per_layer = 256, .context = 131072},
    {.name = "gemma4-e4b", .aliases = "e4b", GEMMA, .layers = 42, .every = 6, .width = 2560,
     .ffn = 10240, .heads = 8, .kv_heads = 2, .global_kv_heads = 2, .window = 512, .shared_kv = 18,
     .per_layer = 256, .context = 131072},
    {.name = "gemma4-12b", .aliases = "12b", GEMMA, .layers = 48, .every = 6, .width = 3840,
     .ffn = 15360, .heads = 16, .kv_heads = 8, .global_kv_heads = 1, .window = 1024, .k_is_v = true,
     .context = 262144},
    {.name = "gemma4-26b-a4b", .aliases = "26b-a4b", GEMMA, .layers = 30, .every = 6, .width = 2816,
     .ffn = 2112, .heads = 16, .kv_heads = 8, .global_kv_heads = 2, .window = 1024, .k_is_v = true,
     .experts = 128, .used = 8, .expert_ffn = 704, .context = 262144},
    {.name = "gemma4-31b", .aliases = "31b", GEMMA, .layers = 60, .every = 6, .width = 5376,
     .ffn = 21504, .heads = 32, .kv_heads = 16, .global_kv_heads = 4, .window = 1024,
     .k_is_v = true, .context = 262144},
    {.name = "micro-gemma", .family = FT_GEMMA4, .layers = 6, .every = 3, .width = 64, .ffn = 128,
     .vocab = 704, .heads = 2, .kv_heads = 1, .global_kv_heads = 1, .head = 32, .global_head = 64,
     .window = 32, .shared_kv = 3, .per_layer = 32, .context = 4096},
    {.name = "gemma4-e2b-assistant", .aliases = "e2b-assistant", DRAFTER, .width = 256, .ffn = 2048,
     .heads = 4, .kv_heads = 1, .global_kv_heads = 1, .window = 512, .target_width = 1536,
     .centroids = 2048, .context = 131072},
    {.name = "gemma4-e4b-assistant", .aliases = "e4b-assistant", DRAFTER, .width = 256, .ffn = 2048,
     .heads = 4, .kv_heads = 2, .global_kv_heads = 2, .window = 512, .target_width = 2560,
     .centroids = 2048, .context = 131072},
    {.name = "gemma4-12b-assistant", .aliases = "12b-assistant", DRAFTER, .width = 1024,
     .ffn = 8192, .heads = 16, .kv_heads = 8, .global_kv_heads = 1, .window = 1024,
     .target_width = 3840, .context = 262144},
    {.name = "gemma4-26b-a4b-assistant", .aliases = "26b-a4b-assistant", DRAFTER, .width = 1024,
     .ffn = 8192, .heads = 16, .kv_heads = 8, .global_kv_heads = 2, .window = 1024,
     .target_width = 2816, .context = 262144},
    {.name = "gemma4-31b-assistant", .aliases = "31b-assistant", DRAFTER, .width = 1024,
     .ffn = 8192, .heads = 32, .kv_heads = 16, .global_kv_heads = 4, .window = 1024,
     .target_width = 5376, .context = 262144},
    {.name = "micro-gemma-assistant", MICRO_DRAFTER},
    {.name = "micro-gemma-centroid-assistant", MICRO_DRAFTER, .centroids = 32},
};
/* clang-format on */

static bool in_word_list(const char *words, const char *name)
{
    const size_t n = strlen(name);
    for (const char *p = words; p && *p;) {
        const size_t len = strcspn(p, " ");
        if (len == n && !memcmp(p, name, n)) return true;
        p += len + (p[len] == ' ');
    }
    return false;
}

const ft_model_shape *ft_shape_find(const char *name, ft_err *err)
{
    enum { N = sizeof table / sizeof table[0] };
    for (size_t i = 0; i < N; i++)
        if (!strcmp(table[i].name, name) || in_word_list(table[i].aliases, name)) return &table[i];
    char list[400];
    size_t at = 0;
    list[0] = 0;
    for (size_t i = 0; i < N && at < sizeof list; i++) {
        /* assistant names follow a rule; omitting them keeps the message short */
        if (table[i].family == FT_GEMMA4_ASSISTANT) continue;
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", at ? ", " : "", table[i].name);
    }
    ft_fail(err, FT_EINVAL,
            "no shape \"%.60s\", want one of %s, or a Gemma name followed by -assistant", name,
            list);
    return NULL;
}

const char *ft_shape_arch(const ft_model_shape *s)
{
    static const char *const names[] = {"qwen35", "qwen35moe", "gemma4", "gemma4-assistant"};
    return names[s->family];
}
