/* text/chat_builtin.c - chat templates by name, for models whose file has none or a broken one: the
 * names that llama.cpp has for the formats of our families. */
#include "text/chat.h"

#include "base/mem.h"

/* The text of message m: its content, or the text parts of it, one per line. */
#define TEXT                                                                                       \
    "{%- macro text(m) -%}"                                                                        \
    "{%- if m.content is string -%}{{- m.content -}}"                                              \
    "{%- else -%}{{- m.content | selectattr('type', 'equalto', 'text') | map(attribute='text') | " \
    "join('\n') -}}"                                                                               \
    "{%- endif -%}{%- endmacro -%}"

static const struct {
    const char *name, *source;
} builtin[] = {
    {"chatml",
     TEXT "{%- for m in messages -%}"
          "{{- '<|im_start|>' + m.role + '\n' + text(m) + '<|im_end|>\n' -}}"
          "{%- endfor -%}"
          "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}"},
    /* Gemma 1 to 3 have no system role: its text comes before the first message. */
    {"gemma",
     TEXT "{{- bos_token -}}{%- set ns = namespace(system='') -%}"
          "{%- for m in messages -%}"
          "{%- if m.role == 'system' -%}{%- set ns.system = text(m) + '\n\n' -%}"
          "{%- else -%}"
          "{{- '<start_of_turn>' + ('model' if m.role == 'assistant' else 'user') + '\n' -}}"
          "{%- if m.role != 'assistant' -%}{{- ns.system -}}{%- set ns.system = '' -%}{%- endif -%}"
          "{{- text(m) | trim + '<end_of_turn>\n' -}}"
          "{%- endif -%}{%- endfor -%}"
          "{%- if add_generation_prompt -%}{{- '<start_of_turn>model\n' -}}{%- endif -%}"},
    {"gemma4", TEXT "{{- bos_token -}}{%- for m in messages -%}"
                    "{{- '<|turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' -}}"
                    "{{- text(m) | trim + '<turn|>\n' -}}{%- endfor -%}"
                    "{%- if add_generation_prompt -%}{{- '<|turn>model\n' -}}{%- endif -%}"},
};

const char *ft_chat_builtin(const char *name)
{
    for (size_t i = 0; i < FT_COUNT(builtin); i++)
        if (!strcmp(builtin[i].name, name)) return builtin[i].source;
    return NULL;
}
