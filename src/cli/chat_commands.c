/* cli/chat_commands.c - the commands of foretoken chat: lines that begin with a slash. */
#define _POSIX_C_SOURCE 200809L
#include "base/file.h"
#include "base/mem.h"
#include "cli/chat.h"
#include "cli/cmd.h"
#include "report/report.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_SAVED ((size_t)1 << 28)

typedef struct command {
    const char *name, *arg;
    void (*run)(ft_chat *c, const char *arg);
    const char *help;
} command;

static void fail(ft_chat *c, const ft_err *err)
{
    ft_die(err);
    if (!c->term.in) c->failed = true; /* reported by the exit code */
}

static void clear(ft_chat *c, const char *arg)
{
    (void)arg;
    json_t *first = json_incref(json_array_get(c->messages, 0));
    const char *role = json_string_value(json_object_get(first, "role"));
    json_array_clear(c->messages);
    if (role && !strcmp(role, "system")) json_array_append(c->messages, first);
    json_decref(first);
    json_array_clear(c->attached);
    ft_term_note(&c->term, "(new conversation)");
}

static void system_message(ft_chat *c, const char *arg)
{
    if (!*arg) {
        const json_t *first = json_array_get(c->messages, 0);
        const char *role = json_string_value(json_object_get(first, "role"));
        const char *text = json_string_value(json_object_get(first, "content"));
        const bool has = role && text && !strcmp(role, "system");
        ft_term_note(&c->term, has ? "(system message: %s)" : "(no system message%s)",
                     has ? text : "");
        return;
    }
    ft_chat_system(c, strcmp(arg, "none") ? arg : NULL);
    ft_term_note(&c->term, "(used from the next response on)");
}

static void think(ft_chat *c, const char *arg)
{
    if (!strcmp(arg, "auto")) {
        json_object_del(c->options, "enable_thinking");
    } else if (!strcmp(arg, "on") || !strcmp(arg, "off")) {
        json_object_set_new(c->options, "enable_thinking", json_boolean(!strcmp(arg, "on")));
    } else {
        ft_err err;
        ft_fail(&err, FT_EINVAL, "/think \"%.40s\", want on, off or auto", arg);
        fail(c, &err);
        return;
    }
    ft_term_note(&c->term, "(thinking: %s)", arg);
}

static void retry(ft_chat *c, const char *arg)
{
    (void)arg;
    if (!ft_chat_back(c, false)) {
        ft_term_note(&c->term, "(there is no message to respond to)");
        return;
    }
    c->r.sampling.seed++; /* the same seed would give the same response */
    ft_chat_generate(c);
}

static void undo(ft_chat *c, const char *arg)
{
    (void)arg;
    ft_term_note(&c->term, ft_chat_back(c, true)
                               ? "(your last message and its response are removed)"
                               : "(there is no message to remove)");
}

/* ---- files ---- */

static void attach(ft_chat *c, const char *path)
{
    ft_err err;
    ft_status st = FT_OK;
    if (!*path)
        st = ft_fail(&err, FT_EINVAL, "/image has no file name, want /image FILE");
    else
        st = ft_chat_attach(c, path, &err);
    if (st)
        fail(c, &err);
    else
        ft_term_note(&c->term, "(%s goes with your next message)", path);
}

static void save(ft_chat *c, const char *path)
{
    ft_err err;
    ft_out_file *out;
    if (!*path) {
        ft_fail(&err, FT_EINVAL, "/save has no file name, want /save FILE");
        fail(c, &err);
        return;
    }
    if (ft_out_open(&out, path, &err)) {
        fail(c, &err);
        return;
    }
    char *text = json_dumps(c->messages, JSON_INDENT(2));
    ft_out_write(out, text, strlen(text));
    ft_out_write(out, "\n", 1);
    free(text);
    if (ft_out_commit(out, &err)) {
        fail(c, &err);
        return;
    }
    ft_term_note(&c->term, "(%zu messages saved to %s)", json_array_size(c->messages), path);
}

/* A text, or parts: texts, and images by the paths of their files. */
static bool is_content(const json_t *v)
{
    const json_t *part;
    size_t i;
    if (json_is_string(v)) return true;
    json_array_foreach(v, i, part)
    {
        const char *type = json_string_value(json_object_get(part, "type"));
        const bool image = type && !strcmp(type, "image");
        if (!image && (!type || strcmp(type, "text"))) return false;
        if (!json_is_string(json_object_get(part, image ? "path" : "text"))) return false;
    }
    return json_array_size(v) > 0;
}

/* An array of messages; the file can also be an object with "messages". */
static ft_status check_messages(const json_t *list, ft_err *err)
{
    if (!json_is_array(list)) return ft_fail(err, FT_EFORMAT, "want an array of messages");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *m = json_array_get(list, i);
        if (!json_is_string(json_object_get(m, "role")) ||
            !is_content(json_object_get(m, "content")))
            return ft_fail(err, FT_EFORMAT,
                           "message %zu, want an object with the texts \"role\" and \"content\"",
                           i);
    }
    return FT_OK;
}

static ft_status load_messages(const char *path, json_t **out, ft_err *err)
{
    char *text;
    size_t n;
    ft_status st = ft_file_read(&text, &n, path, MAX_SAVED, err);
    if (st) return st;
    json_error_t e;
    json_t *j = json_loadb(text ? text : "", n, JSON_REJECT_DUPLICATES, &e);
    ft_free(text);
    if (!j) return ft_fail(err, FT_EFORMAT, "%s: line %d: %s", path, e.line, e.text);
    json_t *list = json_is_object(j) ? json_object_get(j, "messages") : j;
    if ((st = check_messages(list, err)))
        ft_err_prefix(err, "%s", path);
    else
        *out = json_incref(list);
    json_decref(j);
    return st;
}

static void load_conversation(ft_chat *c, const char *path)
{
    ft_err err;
    json_t *list = NULL;
    if (!*path || !strcmp(path, "-")) {
        ft_fail(&err, FT_EINVAL, "/load has no file name, want /load FILE");
        fail(c, &err);
        return;
    }
    if (load_messages(path, &list, &err)) {
        fail(c, &err);
        return;
    }
    json_decref(c->messages);
    c->messages = list;
    ft_term_note(&c->term, "(%zu messages loaded from %s)", json_array_size(list), path);
}

/* ---- statistics ---- */

static void stats(ft_chat *c, const char *arg)
{
    (void)arg;
    const ft_llm_info *i = ft_llm_about(c->m);
    const ft_response *r = &c->last, *sum = &c->sum;
    char a[24], b[24];
    printf("model     %s (%s), weights %s, device %s, %d threads\n", i->name, i->arch,
           ft_human_bytes(a, i->weight_bytes), i->device, i->threads);
    if (i->place[0]) printf("          %s\n", i->place);
    printf("context   %d of %d tokens, cache and buffers %s\n", r->prompt_tokens + r->output_tokens,
           i->ctx, ft_human_bytes(b, i->cache_bytes));
    printf("last      %d tokens, %.1f tok/s; prompt %d tokens (%d cached), %.1f tok/s\n",
           r->output_tokens, ft_response_rate(r), r->prompt_tokens, r->cached_tokens,
           ft_prompt_rate(r));
    printf("total     %d tokens in %.1f s, prompts %d tokens in %.1f s\n", sum->output_tokens,
           sum->output_s, sum->prompt_tokens - sum->cached_tokens, sum->prompt_s);
    fputs(i->cache, stdout);
    printf("drafter   %s\n", i->drafter);
    if (!sum->drafted) return;
    printf("          accepted %lld of %lld in %lld steps, %.2f tokens per step; by position:",
           (long long)sum->accepted, (long long)sum->drafted, (long long)sum->draft_steps,
           sum->draft_steps ? 1 + (double)sum->accepted / (double)sum->draft_steps : 0);
    for (size_t k = 0; k < FT_COUNT(sum->drafted_at) && sum->drafted_at[k]; k++)
        printf(" %.0f %%", 100 * (double)sum->accepted_at[k] / (double)sum->drafted_at[k]);
    putchar('\n');
}

static void quit(ft_chat *c, const char *arg)
{
    (void)arg;
    c->over = true;
}

static void help(ft_chat *c, const char *arg);

static const command table[] = {
    {"/help", "", help, "list the commands"},
    {"/clear", "", clear, "start a new conversation; the system message stays"},
    {"/system", "TEXT", system_message,
     "set the system message; none: remove it; without TEXT: show it"},
    {"/think", "on|off|auto", think,
     "let the model think before it answers; auto: if its template can"},
    {"/retry", "", retry, "generate another response to your last message"},
    {"/undo", "", undo, "remove your last message and its response"},
    {"/image", "FILE", attach, "attach a JPEG, PNG or WebP image to your next message"},
    {"/save", "FILE", save, "write the conversation to FILE as JSON"},
    {"/load", "FILE", load_conversation, "continue a saved conversation"},
    {"/stats", "", stats, "print the model, its memory and its speed"},
    {"/quit", "", quit, "end the program, as Ctrl-D does"},
};

const char *ft_chat_command_name(int i)
{
    return i < (int)FT_COUNT(table) ? table[i].name : NULL;
}

static void help(ft_chat *c, const char *arg)
{
    (void)c, (void)arg;
    for (size_t i = 0; i < FT_COUNT(table); i++) {
        char left[32];
        snprintf(left, sizeof left, "%s %s", table[i].name, table[i].arg);
        printf("  %-20s %s\n", left, table[i].help);
    }
    puts("  a message of several lines: end each but the last with \\, or put the message between\n"
         "  \"\"\" and \"\"\"\n"
         "  //TEXT               a message that begins with one slash");
}

void ft_chat_command(ft_chat *c, const char *line)
{
    const size_t n = strcspn(line, " \t");
    const char *arg = line + n + strspn(line + n, " \t");
    ft_buf trimmed;
    ft_buf_init(&trimmed, MAX_SAVED);
    size_t len = strlen(arg);
    while (len && strchr(" \t\n", arg[len - 1])) len--;
    ft_buf_put(&trimmed, arg, len);
    const command *found = NULL;
    for (size_t i = 0; i < FT_COUNT(table); i++)
        if (strlen(table[i].name) == n && !memcmp(table[i].name, line, n)) found = &table[i];
    if (n == 5 && !memcmp(line, "/exit", n)) found = &table[FT_COUNT(table) - 1];
    if (found) {
        found->run(c, ft_buf_z(&trimmed));
    } else {
        ft_err err;
        ft_fail(&err, FT_EINVAL, "unknown command %.*s (/help lists the commands)",
                (int)FT_MIN(n, (size_t)40), line);
        fail(c, &err);
    }
    fflush(stdout);
    ft_buf_release(&trimmed);
}
