/* serve/route.c - the table of routes. */
#include "serve/routes.h"
#include "serve/server.h"

#define OPENAI    FT_API_OPENAI, false, false
#define ANTHROPIC FT_API_ANTHROPIC, false, false
#define OLLAMA    FT_API_OLLAMA, false, false
#define OPEN      FT_API_OPENAI, true, false
#define LIST      FT_API_OPENAI, false, true

static const ft_http_route TABLE[] = {
    {"GET", "/", ft_run_page, OPEN},
    {"GET", "/web/{}", ft_run_page, OPEN},

    {"GET", "/health", ft_run_health, OPEN},
    {"GET", "/v1/health", ft_run_health, OPEN},
    {"GET", "/v1/models", ft_run_models, OPENAI},
    {"GET", "/v1/models/{+}", ft_run_model, OPENAI},
    {"GET", "/models", ft_run_models, OPENAI},
    {"POST", "/models/load", ft_run_models_load, OPENAI},
    {"POST", "/models/unload", ft_run_models_unload, OPENAI},
    {"GET", "/props", ft_run_props, OPENAI},
    {"POST", "/props", ft_run_props_set, OPENAI},
    {"GET", "/slots", ft_run_slots, OPENAI},
    {"POST", "/slots/{}", ft_run_slot_action, OPENAI},
    {"GET", "/metrics", ft_run_metrics, OPENAI},
    {"GET", "/lora-adapters", ft_run_lora, OPENAI},
    {"POST", "/lora-adapters", ft_run_lora_set, LIST},

    {"POST", "/v1/chat/completions", ft_run_chat, OPENAI},
    {"POST", "/chat/completions", ft_run_chat, OPENAI},
    {"POST", "/v1/chat/completions/input_tokens", ft_run_chat_count, OPENAI},
    {"POST", "/chat/completions/input_tokens", ft_run_chat_count, OPENAI},
    {"POST", "/v1/chat/completions/control", ft_run_chat_control, OPENAI},
    {"POST", "/v1/completions", ft_run_completions, OPENAI},
    {"POST", "/completion", ft_run_completion, OPENAI},
    {"POST", "/completions", ft_run_completion, OPENAI},
    {"POST", "/infill", ft_run_infill, OPENAI},
    {"POST", "/v1/responses", ft_run_responses, OPENAI},
    {"POST", "/responses", ft_run_responses, OPENAI},
    {"POST", "/v1/responses/input_tokens", ft_run_responses_count, OPENAI},
    {"POST", "/responses/input_tokens", ft_run_responses_count, OPENAI},
    {"POST", "/v1/messages", ft_run_messages, ANTHROPIC},
    {"POST", "/v1/messages/count_tokens", ft_run_messages_count, ANTHROPIC},

    {"POST", "/tokenize", ft_run_tokenize, OPENAI},
    {"POST", "/detokenize", ft_run_detokenize, OPENAI},
    {"POST", "/apply-template", ft_run_template, OPENAI},
    {"POST", "/v1/embeddings", ft_run_embeddings, OPENAI},
    {"POST", "/embedding", ft_run_embedding, OPENAI},
    {"POST", "/embeddings", ft_run_embedding, OPENAI},
    {"POST", "/rerank", ft_run_rerank, OPENAI},
    {"POST", "/v1/rerank", ft_run_rerank, OPENAI},
    {"POST", "/reranking", ft_run_rerank, OPENAI},
    {"POST", "/v1/reranking", ft_run_rerank, OPENAI},

    {"GET", "/api/version", ft_run_ollama_version, OLLAMA},
    {"GET", "/api/tags", ft_run_ollama_tags, OLLAMA},
    {"GET", "/api/ps", ft_run_ollama_ps, OLLAMA},
    {"POST", "/api/show", ft_run_ollama_show, OLLAMA},
    {"POST", "/api/chat", ft_run_ollama_chat, OLLAMA},
    {"POST", "/api/generate", ft_run_ollama_generate, OLLAMA},
    {"POST", "/api/embed", ft_run_ollama_embed, OLLAMA},
    {"POST", "/api/embeddings", ft_run_ollama_embeddings, OLLAMA},
    {"POST", "/api/pull", ft_run_ollama_pull, OLLAMA},
    {"DELETE", "/api/delete", ft_run_ollama_delete, OLLAMA},
    {"POST", "/api/copy", ft_run_ollama_copy, OLLAMA},
    {"POST", "/api/create", ft_run_ollama_create, OLLAMA},
    {"POST", "/api/push", ft_run_ollama_unsupported, OLLAMA},
    {NULL, NULL, NULL, OPENAI},
};

/* Whether the path matches the pattern; part receives what matches "{}" or "{+}" at its end. */
static bool fits(const char *pattern, const char *path, char part[FT_PART])
{
    const size_t n = strcspn(pattern, "{");
    if (!pattern[n]) return !strcmp(pattern, path);
    if (strncmp(pattern, path, n)) return false;
    const char *rest = path + n;
    const bool slashes = pattern[n + 1] == '+';
    if (!*rest || (!slashes && strchr(rest, '/')) || strlen(rest) >= FT_PART) return false;
    memcpy(part, rest, strlen(rest) + 1);
    return true;
}

static const char *below_prefix(const ft_server *s, const char *path)
{
    const char *prefix = s->p.api_prefix ? s->p.api_prefix : "";
    const size_t n = strlen(prefix);
    return strncmp(path, prefix, n) ? NULL : path + n;
}

ft_api ft_route_api(const ft_server *s, const char *path)
{
    const char *rest = below_prefix(s, path);
    if (rest && !strncmp(rest, "/api/", 5)) return FT_API_OLLAMA;
    return rest && !strncmp(rest, "/v1/messages", 12) ? FT_API_ANTHROPIC : FT_API_OPENAI;
}

const ft_http_route *ft_route_find(const ft_server *s, const char *method, const char *path,
                                   char part[FT_PART], char allow[64], ft_http_error *error)
{
    const char *rest = below_prefix(s, path);
    allow[0] = 0;
    for (const ft_http_route *r = TABLE; rest && r->path; r++) {
        if (!fits(r->path, rest, part)) continue;
        if (!strcmp(r->method, method)) return r;
        strcat(strcat(allow, allow[0] ? ", " : ""), r->method);
    }
    if (allow[0])
        ft_http_error_set(error, FT_ERR_METHOD, NULL, "%.20s is not a method of %.80s, want %s",
                          method, path, allow);
    else
        ft_http_error_set(error, FT_ERR_NOT_FOUND, NULL, "no route %.80s", path);
    return NULL;
}
