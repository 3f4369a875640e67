/* cli/run.c - foretoken run: one prompt, one response; as text while it is generated, or as JSON.
 */
#define _POSIX_C_SOURCE 200809L
#include "base/mem.h"
#include "cli/cmd.h"
#include "cli/model_opts.h"
#include "cli/response.h"
#include "report/report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct run_state {
    const ft_opts *o;
    ft_model_opts mo;
    ft_llm *m;
    ft_session *s;
    ft_term term;
    ft_request r;
    ft_printer printer;
    char *rendered; /* the prompt: as text, */
    int32_t *ids;   /* or as ids */
    ft_image_input image[FT_REQUEST_IMAGES];
} run_state;

static json_t *message(const char *role, const char *text, size_t n)
{
    json_t *m = json_object();
    json_object_set_new(m, "role", json_string(role));
    json_object_set_new(m, "content", ft_json_string(text, n));
    return m;
}

/* Renders the prompt as a user message, after the system message if there is one. */
static ft_status render(run_state *u, const char *prompt, size_t n, ft_err *err)
{
    const char *system;
    json_t *options;
    ft_status st = ft_model_opts_system(&u->mo, u->o, &system, err);
    if (!st) st = ft_model_opts_template(u->o, &options, err);
    if (st) return st;
    json_t *list = json_array();
    if (system) json_array_append_new(list, message("system", system, strlen(system)));
    json_t *user = message("user", "", 0);
    json_object_set_new(user, "content",
                        ft_model_opts_content(ft_json_string(prompt, n), u->r.n_images));
    json_array_append_new(list, user);
    st = ft_model_opts_render(u->m, list, options, &u->r, &u->rendered, err);
    json_decref(list);
    json_decref(options);
    return st;
}

/* Encodes the prompt without a template, with the BOS token of the model unless it has one. */
static ft_status encode(run_state *u, const char *prompt, size_t n, ft_err *err)
{
    const ft_vocab *v = ft_llm_vocab(u->m);
    int32_t *with = NULL, *without = NULL;
    size_t n_with = 0, n_without = 0;
    const unsigned parse = FT_ENCODE_PARSE_SPECIAL, add = FT_ENCODE_ADD_SPECIAL;
    ft_status st = ft_vocab_encode(v, prompt, n, parse | add, &with, &n_with, err);
    if (!st) st = ft_vocab_encode(v, prompt, n, parse, &without, &n_without, err);
    const bool there = !st && n_without > 0 && with[0] == without[0];
    u->ids = there ? without : with;
    ft_free(there ? with : without);
    u->r.ids = u->ids;
    u->r.n_ids = (int)FT_MIN(there ? n_without : n_with, (size_t)INT32_MAX);
    return st;
}

/* The files of --image, for the placeholders that the template, or a raw prompt, has for them. */
static ft_status read_images(run_state *u, ft_err *err)
{
    const int n = ft_opts_count(u->o, "image");
    if (n > FT_REQUEST_IMAGES)
        return ft_fail(err, FT_EINVAL, "--image is given %d times, at most %d are allowed", n,
                       FT_REQUEST_IMAGES);
    if (n && !ft_llm_about(u->m)->vision)
        return ft_fail(err, FT_EUNSUPPORTED,
                       "--image: the model has no vision tower, give one with --mmproj");
    for (int i = 0; i < n; i++) {
        const ft_status st =
            ft_model_opts_image(&u->mo, ft_opts_at(u->o, "image", i), &u->image[i], err);
        if (st) return st;
    }
    u->r.images = u->image;
    u->r.n_images = n;
    return FT_OK;
}

/* Print notes? On a terminal, without --quiet and --json. */
static bool notes_wanted(const run_state *u)
{
    return u->term.out && u->term.err && !ft_opts_flag(u->o, "quiet") &&
           !ft_opts_flag(u->o, "json");
}

static ft_status prepare(run_state *u, ft_err *err)
{
    ft_llm_params p;
    char *prompt;
    size_t n;
    ft_status st = ft_model_opts_prompt(&u->mo, u->o, true, &prompt, &n, err);
    if (st) return st;
    if (!n) return ft_fail(err, FT_EINVAL, "the prompt is empty, want some text");
    const bool raw = ft_opts_flag(u->o, "raw");
    if (!raw && strlen(prompt) != n)
        return ft_fail(err, FT_EINVAL, "the prompt has a zero byte at %zu, want text",
                       strlen(prompt));
    if (!ft_opts_flag(u->o, "json"))
        ft_opts_warn_unused(u->o, "logprobs", "log probabilities are printed with --json only");
    if (!u->term.colour)
        ft_opts_warn_unused(u->o, "show-drafts", "standard output has no colours (--color on)");
    if ((st = ft_model_opts_params(&u->mo, u->o, &p, err))) return st;
    if ((st = ft_llm_open(&u->m, &p, err))) return st;
    ft_model_opts_cache_note(u->o, u->m, &u->term, notes_wanted(u));
    if ((st = ft_model_opts_request(&u->mo, u->o, u->m, &u->r, err))) return st;
    if ((st = read_images(u, err))) return st;
    if ((st = raw ? encode(u, prompt, n, err) : render(u, prompt, n, err))) return st;
    u->s = ft_session_new(u->m);
    return u->s ? FT_OK : ft_fail(err, FT_ELIMIT, "every slot is in use");
}

/* ---- JSON ---- */

static json_t *usage_json(const ft_response *r)
{
    json_t *j = json_object(), *details = json_object();
    json_object_set_new(details, "cached_tokens", json_integer(r->cached_tokens));
    json_object_set_new(j, "prompt_tokens", json_integer(r->prompt_tokens));
    json_object_set_new(j, "completion_tokens", json_integer(r->output_tokens));
    json_object_set_new(j, "total_tokens", json_integer(r->prompt_tokens + r->output_tokens));
    json_object_set_new(j, "prompt_tokens_details", details);
    return j;
}

static void print_json(const run_state *u, const ft_response *r)
{
    const ft_printer *p = &u->printer;
    json_t *j = json_object();
    json_object_set_new(j, "model", json_string(ft_llm_about(u->m)->name));
    json_object_set(j, "ids", p->ids);
    json_object_set_new(j, "text", ft_json_string(ft_buf_z(&p->answer), p->answer.len));
    if (p->thought.len)
        json_object_set_new(j, "reasoning_content",
                            ft_json_string(ft_buf_z(&p->thought), p->thought.len));
    if (p->call.len)
        json_object_set_new(j, "tool_calls_text", ft_json_string(ft_buf_z(&p->call), p->call.len));
    json_object_set_new(j, "finish_reason", json_string(ft_reason_name(r->reason)));
    if (r->stop_text) json_object_set_new(j, "stop_text", json_string(r->stop_text));
    json_object_set_new(j, "truncated", json_boolean(r->context_full));
    json_object_set_new(j, "seed", json_integer((json_int_t)u->r.sampling.seed));
    if (p->logprobs) {
        json_t *l = json_object();
        json_object_set(l, "content", p->logprobs);
        json_object_set_new(j, "logprobs", l);
    }
    json_object_set_new(j, "usage", usage_json(r));
    json_t *timings = ft_timings_json(r);
    ft_draft_details_json(timings, r);
    json_object_set_new(j, "timings", timings);
    json_object_set_new(j, "drafter", json_string(ft_llm_about(u->m)->drafter));
    char *s = json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(9));
    puts(s ? s : "{}");
    free(s);
    json_decref(j);
}

/* A closed pipe is not an error; any other failure to write is one. */
static ft_status written(const run_state *u, ft_err *err)
{
    if (!u->printer.write_errno || u->printer.write_errno == EPIPE) return FT_OK;
    errno = u->printer.write_errno;
    return ft_fail_errno(err, "cannot write to standard output");
}

static ft_status response(run_state *u, bool *stopped, ft_err *err)
{
    const bool json = ft_opts_flag(u->o, "json");
    ft_printer *p = &u->printer;
    p->silent = json;
    p->interruptible = true;
    p->show_drafts = ft_opts_flag(u->o, "show-drafts");
    ft_printer_attach(p, &u->r);
    ft_response r;
    const ft_status st = ft_session_generate(u->s, &u->r, &r, err);
    *stopped = ft_interrupted();
    const bool good = ft_printer_finish(p);
    if (st) return st;
    if (json) {
        print_json(u, &r);
        if (fflush(stdout)) p->write_errno = errno;
    }
    if (good && (notes_wanted(u) || ft_opts_flag(u->o, "show-timings"))) {
        ft_term_note(&u->term, "[drafter: %s]", ft_llm_about(u->m)->drafter);
        ft_response_note(&u->term, &r);
    }
    return written(u, err);
}

int ft_cmd_run(const ft_opts *o)
{
    ft_err err;
    run_state u = {.o = o, .term = ft_term_open(ft_opts_text(o, "color"))};
    bool stopped = false;
    ft_interrupt_mode(FT_INTERRUPT_EXITS); /* until the response begins */
    ft_status st = prepare(&u, &err);
    if (!st) {
        ft_printer_init(&u.printer, &u.term, ft_llm_vocab(u.m));
        st = response(&u, &stopped, &err);
        ft_printer_release(&u.printer);
    }
    ft_session_free(u.s);
    ft_llm_close(u.m);
    ft_free(u.rendered);
    ft_free(u.ids);
    ft_model_opts_release(&u.mo);
    if (st) return ft_die(&err);
    return stopped ? FT_EXIT_INTERRUPTED : 0;
}
