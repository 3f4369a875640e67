/* cli/chat.c - foretoken chat. On a terminal with prompts and colours; otherwise every line of the
 * input is a message and the output has only the answers. */
#define _POSIX_C_SOURCE 200809L
#include "cli/chat.h"

#include "base/mem.h"
#include "cli/cmd.h"
#include "cli/line.h"
#include "report/report.h"

#include <errno.h>
#include <stdio.h>

/* ---- messages ---- */

static json_t *message(const char *role, const char *text, size_t n)
{
    json_t *m = json_object();
    json_object_set_new(m, "role", json_string(role));
    json_object_set_new(m, "content", ft_json_string(text, n));
    return m;
}

static bool has_role(const ft_chat *c, size_t i, const char *role)
{
    const char *r = json_string_value(json_object_get(json_array_get(c->messages, i), "role"));
    return r && !strcmp(r, role);
}

void ft_chat_say(ft_chat *c, const char *role, const char *text, size_t n)
{
    json_t *m = message(role, text, n);
    if (json_array_size(c->attached)) {
        json_t *parts = json_copy(c->attached);
        json_array_append_new(
            parts, json_pack("{s:s, s:O}", "type", "text", "text", json_object_get(m, "content")));
        json_object_set_new(m, "content", parts);
        json_array_clear(c->attached);
    }
    json_array_append_new(c->messages, m);
}

/* ---- images ---- */

const ft_image_input *ft_chat_image(ft_chat *c, const char *path, ft_err *err)
{
    for (int i = 0; i < c->n_file; i++)
        if (!strcmp(c->file[i].path, path)) return &c->file[i].image;
    struct ft_chat_file f = {0};
    int tokens;
    if (ft_model_opts_image(&c->mo, path, &f.image, err)) return NULL;
    if (ft_llm_image_tokens(c->m, &f.image, &tokens, err)) {
        ft_err_prefix(err, "%s", path);
        return NULL;
    }
    f.path = ft_strdup(path);
    c->file = ft_realloc(c->file, sizeof *c->file * (size_t)(c->n_file + 1));
    c->file[c->n_file] = f;
    return &c->file[c->n_file++].image;
}

ft_status ft_chat_attach(ft_chat *c, const char *path, ft_err *err)
{
    if (!ft_chat_image(c, path, err)) return FT_EINVAL;
    json_array_append_new(c->attached, json_pack("{s:s, s:s}", "type", "image", "path", path));
    return FT_OK;
}

/* The images of all messages, in their order, for the request. */
static ft_status collect_images(ft_chat *c, ft_err *err)
{
    const json_t *m, *part;
    size_t i, k;
    c->r.images = c->image;
    c->r.n_images = 0;
    json_array_foreach(c->messages, i, m)
    {
        json_array_foreach(json_object_get(m, "content"), k, part)
        {
            const char *path = json_string_value(json_object_get(part, "path"));
            if (!path) continue;
            if (c->r.n_images == FT_REQUEST_IMAGES)
                return ft_fail(err, FT_EINVAL,
                               "the conversation has more than %d images (/clear starts a new one)",
                               FT_REQUEST_IMAGES);
            const ft_image_input *image = ft_chat_image(c, path, err);
            if (!image) return FT_EINVAL;
            c->image[c->r.n_images++] = *image;
        }
    }
    return FT_OK;
}

void ft_chat_system(ft_chat *c, const char *text)
{
    if (has_role(c, 0, "system")) json_array_remove(c->messages, 0);
    if (text) json_array_insert_new(c->messages, 0, message("system", text, strlen(text)));
}

bool ft_chat_back(ft_chat *c, bool user_too)
{
    size_t at = json_array_size(c->messages);
    while (at && !has_role(c, at - 1, "user")) at--;
    if (!at) return false;
    if (user_too) at--;
    while (json_array_size(c->messages) > at)
        json_array_remove(c->messages, json_array_size(c->messages) - 1);
    return true;
}

/* ---- responses ---- */

static void add_up(ft_response *sum, const ft_response *r)
{
    sum->prompt_tokens += r->prompt_tokens;
    sum->cached_tokens += r->cached_tokens;
    sum->output_tokens += r->output_tokens;
    sum->prompt_s += r->prompt_s;
    sum->output_s += r->output_s;
    sum->decode_steps += r->decode_steps;
    sum->draft_steps += r->draft_steps;
    sum->drafted += r->drafted;
    sum->accepted += r->accepted;
    for (size_t i = 0; i < FT_COUNT(sum->drafted_at); i++) {
        sum->drafted_at[i] += r->drafted_at[i];
        sum->accepted_at[i] += r->accepted_at[i];
    }
}

/* Adds the response to the conversation, also when it was interrupted. */
static void remember(ft_chat *c, const ft_printer *p)
{
    json_t *m = message("assistant", ft_buf_z(&p->answer), p->answer.len);
    if (p->thought.len)
        json_object_set_new(m, "reasoning_content",
                            ft_json_string(ft_buf_z(&p->thought), p->thought.len));
    json_array_append_new(c->messages, m);
}

static void print_end(const ft_chat *c)
{
    const bool watched = c->term.out && c->term.err && !ft_opts_flag(c->o, "quiet");
    if (watched && c->last.reason == FT_REASON_CANCEL) ft_term_note(&c->term, "(stopped)");
    if (watched && c->last.context_full)
        ft_term_note(
            &c->term,
            "(the context of %d tokens is full; /clear starts a new conversation, and with "
            "--context-shift the oldest messages are left out)",
            ft_llm_about(c->m)->ctx);
    if (watched || ft_opts_flag(c->o, "show-timings")) ft_response_note(&c->term, &c->last);
}

static ft_status response(ft_chat *c, ft_printer *p, ft_err *err)
{
    char *prompt;
    ft_status st = collect_images(c, err);
    if (!st) st = ft_model_opts_render(c->m, c->messages, c->options, &c->r, &prompt, err);
    if (st) return st;
    ft_printer_attach(p, &c->r);
    ft_interrupt_mode(FT_INTERRUPT_STOPS);
    st = ft_session_generate(c->s, &c->r, &c->last, err);
    ft_free(prompt);
    if (!ft_printer_finish(p)) c->over = true;
    return st;
}

/* Removes the oldest message of the user and what followed it, so that the rest fits in the
 * context; the system message and the last message of the user stay. false: there is nothing to
 * remove. */
static bool drop_oldest(ft_chat *c)
{
    const size_t from = has_role(c, 0, "system"), n = json_array_size(c->messages);
    size_t to = from + 1;
    while (to < n && !has_role(c, to, "user")) to++;
    if (to >= n) return false;
    for (size_t i = from; i < to; i++) json_array_remove(c->messages, from);
    ft_term_note(&c->term,
                 "(the context of %d tokens is full: the oldest %zu messages are left out)",
                 ft_llm_about(c->m)->ctx, to - from);
    return true;
}

bool ft_chat_generate(ft_chat *c)
{
    ft_err err;
    ft_printer p;
    ft_printer_init(&p, &c->term, ft_llm_vocab(c->m));
    p.show_drafts = ft_opts_flag(c->o, "show-drafts");
    if (ft_opts_flag(c->o, "word-wrap")) p.wrap.width = ft_term_width(&c->term);
    ft_status st = response(c, &p, &err);
    while (st == FT_ECONTEXT && ft_opts_flag(c->o, "context-shift") && drop_oldest(c))
        st = response(c, &p, &err);
    if (st) {
        c->last = (ft_response){0};
        c->failed = true;
        ft_die(&err);
        if (st == FT_ECONTEXT && c->term.in)
            ft_term_note(&c->term,
                         "(/clear starts a new conversation, /undo removes messages; with "
                         "--context-shift the oldest ones are left out)");
    } else {
        add_up(&c->sum, &c->last);
        remember(c, &p);
        if (!c->over) print_end(c);
    }
    if (p.write_errno && p.write_errno != EPIPE) {
        errno = p.write_errno;
        ft_fail_errno(&err, "cannot write to standard output");
        ft_die(&err);
        c->failed = true;
    }
    ft_printer_release(&p);
    return !st;
}

/* ---- messages of the user ---- */

static void turn(ft_chat *c, const char *text, size_t n)
{
    if (strlen(text) != n) {
        ft_err err;
        ft_fail(&err, FT_EINVAL, "the message has a zero byte at %zu, want text", strlen(text));
        ft_die(&err);
        c->failed = true;
        return;
    }
    const bool slash = text[0] == '/';
    if (slash && text[1] != '/') {
        ft_chat_command(c, text);
        return;
    }
    if (!n) return;
    ft_chat_say(c, "user", text + slash, n - slash); /* // is not a command */
    if (!ft_chat_generate(c)) ft_chat_back(c, true);
    if (ft_opts_flag(c->o, "single-turn")) c->over = true;
}

static void converse(ft_chat *c)
{
    const char *text;
    size_t n;
    ft_line *l = ft_line_new(&c->term, ft_opts_text(c->o, "history"), ft_chat_command_name);
    while (!c->over) {
        ft_interrupt_mode(c->term.in ? FT_INTERRUPT_STOPS : FT_INTERRUPT_EXITS);
        const ft_line_end e = ft_line_read(l, &text, &n);
        if (e == FT_LINE_INTERRUPTED) {
            if (c->term.out) putchar('\n');
            ft_term_note(&c->term, "(/quit or Ctrl-D ends the program)");
        } else if (e == FT_LINE_EOF) {
            if (c->term.in && c->term.out) putchar('\n');
            break;
        } else {
            turn(c, text, n);
        }
    }
    ft_line_free(l);
}

/* Options that this build or this terminal cannot honour. */
static void warn_unused(const ft_chat *c)
{
    if (!c->term.colour)
        ft_opts_warn_unused(c->o, "show-drafts", "standard output has no colours (--color on)");
#ifdef FT_HAVE_EDIT
    if (!c->term.in || !c->term.out)
        ft_opts_warn_unused(c->o, "history", "the program does not run in a terminal");
#else
    ft_opts_warn_unused(c->o, "history", "this build has no libedit");
#endif
}

static void greet(const ft_chat *c)
{
    const bool notes = c->term.in && c->term.out && !ft_opts_flag(c->o, "quiet");
    ft_model_opts_cache_note(c->o, c->m, &c->term, notes);
    if (!notes) return;
    const ft_llm_info *i = ft_llm_about(c->m);
    ft_term_note(&c->term, "%s (%s), context %d tokens, drafter: %s", i->name, i->arch, i->ctx,
                 i->drafter);
    if (!ft_opts_text(c->o, "model") && !ft_opts_text(c->o, "hf-repo"))
        ft_term_note(&c->term, "This very small model only knows sums, units, common shell "
                               "commands and words, and foretoken. A better one: foretoken chat "
                               "-hf unsloth/Qwen3.5-4B-MTP-GGUF:Q4_K_M");
    ft_term_note(&c->term, "/help lists the commands; Ctrl-C stops a response");
}

/* The message from the command line, printed as if it had been typed. */
static void first_turn(ft_chat *c, const char *text, size_t n)
{
    if (c->term.in && c->term.out) {
        printf("%s>%s ", ft_style_begin(c->term.colour, FT_STYLE_PROMPT),
               ft_style_begin(c->term.colour, FT_STYLE_NONE));
        ft_term_put(text, n);
        putchar('\n');
    }
    turn(c, text, n);
}

static ft_status open_chat(ft_chat *c, ft_err *err)
{
    ft_llm_params p;
    const char *system;
    ft_status st = ft_model_opts_params(&c->mo, c->o, &p, err);
    if (!st) st = ft_model_opts_template(c->o, &c->options, err);
    if (!st) st = ft_model_opts_system(&c->mo, c->o, &system, err);
    if (!st) st = ft_llm_open(&c->m, &p, err);
    if (!st) st = ft_model_opts_request(&c->mo, c->o, c->m, &c->r, err);
    if (st) return st;
    if (system) ft_chat_system(c, system);
    c->s = ft_session_new(c->m);
    return c->s ? FT_OK : ft_fail(err, FT_ELIMIT, "every slot is in use");
}

int ft_cmd_chat(const ft_opts *o)
{
    ft_err err;
    ft_chat c = {.o = o,
                 .term = ft_term_open(ft_opts_text(o, "color")),
                 .messages = json_array(),
                 .attached = json_array()};
    char *first;
    size_t n;
    ft_interrupt_mode(FT_INTERRUPT_EXITS);
    ft_status st = ft_model_opts_prompt(&c.mo, o, false, &first, &n, &err);
    if (!st) st = open_chat(&c, &err);
    if (!st) {
        warn_unused(&c);
        greet(&c);
        if (n) first_turn(&c, first, n);
        converse(&c);
    }
    ft_session_free(c.s);
    ft_llm_close(c.m);
    json_decref(c.messages);
    json_decref(c.options);
    json_decref(c.attached);
    for (int i = 0; i < c.n_file; i++) ft_free(c.file[i].path);
    ft_free(c.file);
    ft_model_opts_release(&c.mo);
    return st ? ft_die(&err) : c.failed;
}
