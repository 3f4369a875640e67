#define _POSIX_C_SOURCE 200809L
#include "cli/response.h"

#include "base/mem.h"
#include "report/report.h"

#include <errno.h>
#include <stdio.h>

#define MAX_REPLY ((size_t)1 << 30)

void ft_printer_init(ft_printer *p, const ft_term *t, const ft_vocab *v)
{
    *p = (ft_printer){.term = t, .vocab = v, .ids = json_array(), .newline = true};
    ft_buf_init(&p->answer, MAX_REPLY);
    ft_buf_init(&p->thought, MAX_REPLY);
    ft_buf_init(&p->call, MAX_REPLY);
}

void ft_printer_release(ft_printer *p)
{
    ft_buf_release(&p->answer);
    ft_buf_release(&p->thought);
    ft_buf_release(&p->call);
    json_decref(p->ids);
    json_decref(p->logprobs);
}

/* ---- text ---- */

static ft_style style_of(ft_event_part part)
{
    return part == FT_PART_THOUGHT  ? FT_STYLE_THOUGHT
           : part == FT_PART_ANSWER ? FT_STYLE_ANSWER
                                    : FT_STYLE_CALL;
}

/* Thinking is printed on a terminal only; a pipe gets the answer alone. */
static bool hidden(const ft_printer *p, ft_event_part part)
{
    return p->silent || (part == FT_PART_THOUGHT && !p->term->out);
}

static void change_part(ft_printer *p, ft_event_part part)
{
    if (part == p->part) return;
    const bool colour = p->term->colour;
    if (!hidden(p, p->part)) fputs(ft_style_begin(colour, FT_STYLE_NONE), stdout);
    if (!hidden(p, p->part) && p->thought.len && p->part == FT_PART_THOUGHT) {
        fputs(p->newline ? "\n" : "\n\n", stdout);
        ft_wrap_restart(&p->wrap);
    }
    p->part = part;
    if (!hidden(p, part)) fputs(ft_style_begin(colour, style_of(part)), stdout);
}

static void print_text(ft_printer *p, const ft_event *e)
{
    change_part(p, e->part);
    if (hidden(p, e->part)) return;
    const bool mark = p->show_drafts && e->drafted && p->term->colour;
    if (mark) fputs("\x1b[4m", stdout);
    if (p->term->out) {
        ft_buf b;
        ft_buf_init(&b, MAX_REPLY);
        ft_term_clean(&b, e->text, e->bytes);
        ft_buf wrapped;
        ft_buf_init(&wrapped, MAX_REPLY);
        ft_wrap_put(&p->wrap, &wrapped, ft_buf_z(&b), b.len);
        fwrite(ft_buf_z(&wrapped), 1, wrapped.len, stdout);
        ft_buf_release(&wrapped);
        ft_buf_release(&b);
    } else
        fwrite(e->text, 1, e->bytes, stdout);
    if (mark) fputs("\x1b[24m", stdout);
    p->newline = e->text[e->bytes - 1] == '\n';
    if (fflush(stdout)) p->write_errno = errno;
}

/* ---- log probabilities ---- */

static json_t *prob_json(const ft_printer *p, const ft_token_prob *t)
{
    char *text;
    size_t n;
    json_t *j = json_object();
    if (!ft_vocab_decode(p->vocab, &t->id, 1, true, &text, &n, NULL)) {
        json_t *bytes = json_array();
        for (size_t i = 0; i < n; i++)
            json_array_append_new(bytes, json_integer((unsigned char)text[i]));
        json_object_set_new(j, "token", ft_json_string(text, n));
        json_object_set_new(j, "bytes", bytes);
        ft_free(text);
    }
    json_object_set_new(j, "id", json_integer(t->id));
    json_object_set_new(j, "logprob", json_real((double)t->logprob));
    return j;
}

static void keep_probs(ft_printer *p, const ft_event *e)
{
    if (!p->logprobs) p->logprobs = json_array();
    json_t *j = prob_json(p, &e->probs[0]), *top = json_array();
    for (int i = 1; i < e->n_probs; i++) json_array_append_new(top, prob_json(p, &e->probs[i]));
    json_object_set_new(j, "top_logprobs", top);
    json_array_append_new(p->logprobs, j);
}

/* ---- events ---- */

/* One tool call per line: its name, a space, its arguments. */
static void keep_call(ft_printer *p, const ft_event *e)
{
    if (e->part == FT_PART_CALL && p->call.len && p->part != FT_PART_CALL)
        ft_buf_putc(&p->call, '\n');
    if (e->part == FT_PART_ARGS && p->part == FT_PART_CALL) ft_buf_putc(&p->call, ' ');
    ft_buf_put(&p->call, e->text, e->bytes);
}

static bool on_event(void *user, const ft_event *e)
{
    ft_printer *p = user;
    if (!p->begun && p->interruptible) ft_interrupt_mode(FT_INTERRUPT_STOPS);
    p->begun = true;
    if (e->id >= 0) json_array_append_new(p->ids, json_integer(e->id));
    if (e->n_probs > 0) keep_probs(p, e);
    if (e->bytes) {
        if (e->part == FT_PART_THOUGHT)
            ft_buf_put(&p->thought, e->text, e->bytes);
        else if (e->part == FT_PART_ANSWER)
            ft_buf_put(&p->answer, e->text, e->bytes);
        else
            keep_call(p, e);
        print_text(p, e);
    }
    return !p->write_errno && !ft_interrupted();
}

void ft_printer_attach(ft_printer *p, ft_request *r)
{
    p->part = r->in_thought ? FT_PART_THOUGHT : FT_PART_ANSWER;
    if (!hidden(p, p->part)) fputs(ft_style_begin(p->term->colour, style_of(p->part)), stdout);
    r->on_event = on_event;
    r->user = p;
}

bool ft_printer_finish(ft_printer *p)
{
    if (!p->silent && !p->write_errno) {
        fputs(ft_style_begin(p->term->colour, FT_STYLE_NONE), stdout);
        if (!p->newline) fputc('\n', stdout);
        p->newline = true;
        if (fflush(stdout)) p->write_errno = errno;
    }
    return !p->write_errno;
}

/* ---- numbers ---- */

const char *ft_reason_name(ft_reason r)
{
    return r == FT_REASON_STOP ? "stop" : r == FT_REASON_LENGTH ? "length" : "cancelled";
}

static double ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

void ft_draft_details_json(json_t *timings, const ft_response *r)
{
    if (r->drafted <= 0) return;
    json_object_set_new(timings, "draft_ms", json_real(r->draft_s * 1e3));
    json_object_set_new(timings, "verify_ms", json_real(r->verify_s * 1e3));
    json_t *at = json_array();
    for (int i = 0; i < FT_DRAFT_MAX && r->drafted_at[i]; i++)
        json_array_append_new(at,
                              json_real(ratio((double)r->accepted_at[i], (double)r->draft_steps)));
    json_object_set_new(timings, "draft_accepted_at", at);
}

/* Whole numbers from 100 on. */
static const char *rate_text(char out[24], double rate)
{
    snprintf(out, 24, "%.*f", rate < 100 ? 1 : 0, rate);
    return out;
}

void ft_response_note(const ft_term *t, const ft_response *r)
{
    char cached[48] = "", drafts[128] = "", speed[2][24];
    if (r->cached_tokens) snprintf(cached, sizeof cached, " (%d cached)", r->cached_tokens);
    if (r->drafted > 0)
        snprintf(drafts, sizeof drafts,
                 " | draft acceptance %.0f %% (%lld/%lld), %.2f tokens per step",
                 100 * ratio((double)r->accepted, (double)r->drafted), (long long)r->accepted,
                 (long long)r->drafted, 1 + ratio((double)r->accepted, (double)r->draft_steps));
    ft_term_note(t, "[%d token%s, %s tok/s | prompt %d tokens%s, %s tok/s%s]", r->output_tokens,
                 r->output_tokens == 1 ? "" : "s", rate_text(speed[0], ft_response_rate(r)),
                 r->prompt_tokens, cached, rate_text(speed[1], ft_prompt_rate(r)), drafts);
}
