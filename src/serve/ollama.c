/* serve/ollama.c - Ollama's API: converts POST /api/chat and /api/generate to chat bodies, and
 * describes the models. */
#include "serve/ollama.h"

#include "base/mem.h"
#include "serve/images.h"
#include "serve/prompts.h"
#include "serve/routes.h"

#include <stdlib.h>

void ft_run_ollama_version(ft_call *c)
{
    ft_call_json(c, 200, json_pack("{s:s}", "version", "0.9.0"));
}

/* The type of most weights; of a model that was never loaded, what the file name says: the last
 * part of it that looks like "Q4_K_M". */
static const char *quantization(const ft_served *d, char out[32])
{
    if (d->state >= FT_SERVED_LOADED) return d->info->weight_type;
    for (const char *p = d->name + strlen(d->name); p > d->name; p--) {
        if (!strchr("-.", p[-1]) || !strchr("QIBFqibf", *p)) continue;
        const size_t n = strcspn(p, "-.");
        if (strcspn(p, "0123456789") >= n || n >= 32) continue;
        snprintf(out, 32, "%.*s", (int)n, p);
        return out;
    }
    return "unknown";
}

static json_t *details(const ft_served *d)
{
    char size[32] = "unknown", type[32];
    const bool there = d->state >= FT_SERVED_LOADED;
    const char *family = there ? d->info->arch : "unknown";
    const double n = there ? (double)d->info->parameters : 0;
    if (there)
        snprintf(size, sizeof size, n < 1e9 ? "%.1fM" : "%.1fB", n * (n < 1e9 ? 1e-6 : 1e-9));
    return json_pack("{s:s, s:s, s:s, s:[s], s:s, s:s}", "parent_model", "", "format", "gguf",
                     "family", family, "families", family, "parameter_size", size,
                     "quantization_level", quantization(d, type));
}

json_t *ft_ollama_entry(const ft_served *d)
{
    char when[40];
    const bool there = d->state >= FT_SERVED_LOADED;
    const uint64_t size = d->file_bytes ? d->file_bytes : there ? d->info->weight_bytes : d->bytes;
    json_t *j =
        json_pack("{s:s, s:s, s:s, s:I, s:o}", "name", d->name, "model", d->name, "modified_at",
                  ft_ollama_time(when), "size", (json_int_t)size, "details", details(d));
    if (d->sha256) json_object_set_new(j, "digest", json_string(d->sha256));
    return j;
}

/* All models, or only the loaded ones. */
static void list_models(ft_call *c, bool loaded)
{
    ft_server *s = c->s;
    json_t *list = json_array();
    pthread_mutex_lock(&s->lock);
    for (int i = 0; atomic_load(&s->ready) && i < ft_models_count(s); i++) {
        const ft_served *d = ft_models_at(s, i);
        if (d->gone || (loaded && d->state < FT_SERVED_LOADED)) continue;
        json_t *e = ft_ollama_entry(d);
        json_array_append_new(list, e);
        if (!loaded) continue;
        json_object_set_new(e, "size_vram", json_integer(0));
        json_object_set_new(e, "context_length", json_integer(d->info->ctx));
        char when[40];
        const double idle = ft_served_idle_limit(s, d);
        json_object_set_new(
            e, "expires_at",
            json_string(idle < 0 ? "2318-01-01T00:00:00Z" : ft_ollama_later(when, idle)));
    }
    pthread_mutex_unlock(&s->lock);
    ft_call_json(c, 200, json_pack("{s:o}", "models", list));
}

void ft_run_ollama_tags(ft_call *c)
{
    list_models(c, false);
}

void ft_run_ollama_ps(ft_call *c)
{
    list_models(c, true);
}

void ft_run_ollama_show(ft_call *c)
{
    const char *name = json_string_value(ft_get(c->body, "model"));
    ft_served *d = ft_call_model(c, name ? name : json_string_value(ft_get(c->body, "name")));
    if (!d) return;
    const char *template = d->info->template_text ? d->info->template_text : "";
    json_t *info = json_pack("{s:s, s:I, s:i}", "general.architecture", d->info->arch,
                             "general.parameter_count", (json_int_t)d->info->parameters,
                             "context_length", d->info->ctx);
    json_t *can = json_pack("[s,s,s]", "completion", "tools", "thinking");
    if (d->info->vision) json_array_append_new(can, json_string("vision"));
    ft_call_json(c, 200,
                 json_pack("{s:s, s:s, s:s, s:o, s:o, s:o}", "modelfile", "", "parameters", "",
                           "template", template, "details", details(d), "model_info", info,
                           "capabilities", can));
}

/* ---- request bodies ---- */

static void format(const json_t *body, json_t *out)
{
    json_t *f = ft_get(body, "format");
    if (!f) return;
    const char *word = json_string_value(f);
    if (word && !*word) return;
    json_object_set_new(
        out, "response_format",
        word ? json_pack("{s:s}", "type", "json_object")
             : json_pack("{s:s, s:{s:O}}", "type", "json_schema", "json_schema", "schema", f));
}

static void think(const json_t *body, json_t *out)
{
    json_t *v = ft_get(body, "think");
    if (!v) return;
    if (json_is_string(v)) json_object_set(out, "reasoning_effort", v);
    json_object_set_new(out, "chat_template_kwargs",
                        json_pack("{s:b}", "enable_thinking", !json_is_false(v)));
}

/* The chat body of both routes: the members of `options` move to the top level, and stream defaults
 * to true. */
static json_t *chat_body(const json_t *body, json_t *messages)
{
    json_t *options = ft_get(body, "options"), *stream = ft_get(body, "stream");
    json_t *out = json_is_object(options) ? json_copy(options) : json_object();
    json_object_set_new(out, "messages", messages);
    json_t *tools = ft_get(body, "tools");
    if (tools) json_object_set(out, "tools", tools);
    json_object_set_new(out, "stream", stream ? json_incref(stream) : json_true());
    format(body, out);
    think(body, out);
    return out;
}

static json_t *messages_of(const json_t *body)
{
    json_t *list = json_array(), *m;
    size_t i;
    json_array_foreach(ft_get(body, "messages"), i, m)
    {
        json_t *one = json_is_object(m) ? json_copy(m) : json_incref(m);
        json_t *thought = ft_get(m, "thinking");
        if (thought) json_object_set(one, "reasoning_content", thought);
        if (json_is_object(one) && !ft_get(one, "content"))
            json_object_set_new(one, "content", json_string(""));
        ft_images_from_ollama(one, ft_get(m, "images"));
        json_array_append_new(list, one);
    }
    return list;
}

static json_t *prompt_messages(const json_t *body)
{
    json_t *list = json_array(), *system = ft_get(body, "system"), *prompt = ft_get(body, "prompt");
    if (json_is_string(system) && json_string_length(system))
        json_array_append_new(list, ft_chat_message("system", json_incref(system)));
    json_t *m = ft_chat_message("user", json_incref(prompt));
    ft_images_from_ollama(m, ft_get(body, "images"));
    json_array_append_new(list, m);
    return list;
}

/* "1h30m", "300ms", "-1": a duration in the notation of Go, or plain seconds. */
static bool parse_duration(const char *text, double *out)
{
    static const struct {
        const char *name;
        double s;
    } unit[] = {{"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}, {"h", 3600}, {"m", 60}, {"s", 1}};
    const bool negative = *text == '-';
    double sum = 0;
    if (negative || *text == '+') text++;
    if (!*text) return false;
    while (*text) {
        char *end;
        if (!strchr("0123456789.", *text)) return false;
        const double x = strtod(text, &end);
        size_t i = 0;
        while (i < FT_COUNT(unit) && strncmp(end, unit[i].name, strlen(unit[i].name))) i++;
        if (*end && i == FT_COUNT(unit)) return false;
        sum += x * (*end ? unit[i].s : 1);
        text = *end ? end + strlen(unit[i].name) : end;
    }
    *out = negative ? -sum : sum;
    return true;
}

bool ft_ollama_keep_alive(ft_call *c, ft_served *d, bool *unload, ft_http_error *error)
{
    const json_t *v = ft_get(c->body, "keep_alive");
    char brief[72];
    double s = json_number_value(v);
    *unload = false;
    if (!v) return ft_served_keep(c->s, d, NULL);
    if (!json_is_number(v) && !(json_is_string(v) && parse_duration(json_string_value(v), &s)))
        return ft_http_error_set(error, FT_ERR_INVALID, "keep_alive",
                                 "keep_alive is %s, want seconds or a duration such as \"5m\"",
                                 ft_json_brief(v, brief));
    *unload = s == 0;
    if (ft_served_keep(c->s, d, &s)) return true;
    return ft_http_error_set(error, FT_ERR_INVALID, "keep_alive",
                             "keep_alive is 0, but this server cannot unload its model");
}

/* Responds to a request without a prompt, which clients send to load or unload the model. */
static void send_loaded(ft_call *c, const ft_served *d, const char *model, bool chat, bool unload)
{
    char when[40];
    json_t *j =
        json_pack("{s:s, s:s, s:b, s:s}", "model", model ? model : d->name, "created_at",
                  ft_ollama_time(when), "done", 1, "done_reason", unload ? "unload" : "load");
    if (chat)
        json_object_set_new(j, "message",
                            json_pack("{s:s, s:s}", "role", "assistant", "content", ""));
    else
        json_object_set_new(j, "response", json_string(""));
    ft_call_json(c, 200, j);
}

static bool log_probs(ft_gen_params *a, const json_t *body, ft_http_error *error)
{
    bool wanted = false;
    int top = 0;
    if (!ft_want_bool(body, "logprobs", &wanted, error) ||
        !ft_want_int(body, "top_logprobs", 0, 20, &top, error))
        return false;
    a->r.top_logprobs = wanted || top ? top : -1;
    return true;
}

/* Fields of Ollama that would change the response and are not supported. */
static bool is_supported(const json_t *body, ft_http_error *error)
{
    static const char *const field[] = {"template", "context"};
    for (size_t i = 0; i < FT_COUNT(field); i++) {
        const json_t *v = ft_get(body, field[i]);
        if (json_array_size(v) || json_string_length(v))
            return ft_http_error_set(error, FT_ERR_INVALID, field[i],
                                     "%s is not supported, want messages or a raw prompt",
                                     field[i]);
    }
    return true;
}

/* A raw prompt bypasses the template, and so does one with a suffix: the response is the text
 * between the two. */
static bool read_request(ft_call *c, const ft_served *d, ft_gen_params *a, json_t *chat,
                         ft_chat_prompt *p, ft_http_error *error)
{
    bool raw = false;
    const char *suffix = NULL;
    if (!is_supported(c->body, error) || !ft_want_bool(c->body, "raw", &raw, error) ||
        !ft_want_text(c->body, "suffix", &suffix, error))
        return false;
    const bool infill = suffix && *suffix;
    if (!infill && !raw) return ft_chat_read(a, c->s, d, chat, p, error);
    const json_t *prompt = ft_get(c->body, "prompt");
    const char *text = json_string_value(prompt);
    if (!text)
        return ft_http_error_set(error, FT_ERR_INVALID, "prompt",
                                 "prompt is missing, want a string with %s",
                                 infill ? "suffix" : "raw");
    *p = (ft_chat_prompt){0};
    if (!ft_gen_params_fields(a, d, chat, error)) return false;
    return infill ? ft_prompt_infill(d, NULL, text, "", suffix, &p->ids, error)
                  : ft_encode_prompt(d, text, json_string_length(prompt), &p->ids, error);
}

static void run_ollama(ft_call *c, bool chat)
{
    const char *model = NULL, *text = NULL;
    ft_http_error error;
    ft_served *d = ft_call_model(c, NULL);
    if (!d) return;
    if (!ft_want_text(c->body, "model", &model, &error) ||
        !ft_want_text(c->body, "prompt", &text, &error)) {
        ft_call_fail(c, &error);
        return;
    }
    bool unload;
    if (!ft_ollama_keep_alive(c, d, &unload, &error)) {
        ft_call_fail(c, &error);
        return;
    }
    if (chat ? !json_array_size(ft_get(c->body, "messages")) : !text || !*text) {
        send_loaded(c, d, model, chat, unload);
        return;
    }
    ft_gen_params a;
    ft_chat_prompt p = {0};
    ft_gen_params_init(&a, c->s, d);
    json_t *body = chat_body(c->body, chat ? messages_of(c->body) : prompt_messages(c->body));
    if (read_request(c, d, &a, body, &p, &error) && log_probs(&a, c->body, &error)) {
        a.n = 1;
        a.ping_s = -1; /* a line that is not JSON would be an error here */
        ft_generation_start(c, d, chat ? &ft_ollama_chat_format : &ft_ollama_generate_format,
                            "ollama-", &a, &p.ids, 1, model, NULL);
    } else {
        ft_call_fail(c, &error);
    }
    ft_chat_release(&p);
    ft_gen_params_release(&a);
    json_decref(body);
}

void ft_run_ollama_chat(ft_call *c)
{
    run_ollama(c, true);
}

void ft_run_ollama_generate(ft_call *c)
{
    run_ollama(c, false);
}
