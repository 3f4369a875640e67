/* api/tools.c - the tool calls that a request allows, as a grammar. */
#include "api/model.h"
#include "base/mem.h"
#include "text/toolgram.h"

#include <stdlib.h>

enum { MAX_GRAMMAR = 16 << 20 };

static ft_call_syntax syntax_of(const ft_llm *m)
{
    if (ft_chat_family_of(m->chat) == FT_CHAT_GEMMA4) return FT_CALLS_GEMMA4;
    return strstr(m->info.template_text, "<function=") ? FT_CALLS_XML : FT_CALLS_JSON;
}

const char *ft_llm_call_marker(const ft_llm *m)
{
    if (!m->chat || ft_chat_family_of(m->chat) == FT_CHAT_PLAIN) return NULL;
    return ft_toolgram_trigger(syntax_of(m));
}

ft_status ft_llm_tool_grammar(const ft_llm *m, const char *tools, const ft_tool_rules *rules,
                              char **gbnf, const char **trigger, ft_err *err)
{
    *gbnf = NULL;
    *trigger = NULL;
    if (!m->chat || ft_chat_family_of(m->chat) == FT_CHAT_PLAIN)
        return ft_fail(err, FT_EUNSUPPORTED, "the model's chat template knows no tool calls");
    json_error_t e;
    json_t *list = json_loads(tools, 0, &e);
    if (!json_is_array(list)) {
        json_decref(list);
        return ft_fail(err, FT_EFORMAT, "tools: want a JSON array");
    }
    ft_buf b;
    ft_buf_init(&b, MAX_GRAMMAR);
    const ft_toolgram g = {syntax_of(m), list, rules->name, rules->one_call, rules->answer_schema};
    const ft_status st = ft_toolgram_gbnf(&b, &g, err);
    if (!st) {
        *gbnf = ft_buf_take(&b);
        *trigger = ft_toolgram_trigger(g.syntax);
    }
    ft_buf_release(&b);
    json_decref(list);
    return st;
}
