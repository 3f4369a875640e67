/* cli/response.h - a response on its way to the screen or into JSON. */
#ifndef FT_CLI_RESPONSE_H
#define FT_CLI_RESPONSE_H

#include "base/buf.h"
#include "cli/term.h"
#include "foretoken.h"

#include <jansson.h>

/* Collects a response and, unless silent, prints it as it comes. */
typedef struct ft_printer {
    const ft_term *term;
    const ft_vocab *vocab;
    bool silent;        /* print nothing */
    bool show_drafts;   /* underline what was drafted */
    bool interruptible; /* Ctrl-C stops the response once it has begun */

    ft_buf answer, thought, call; /* the text of each part */
    json_t *ids;
    json_t *logprobs; /* NULL until there are some */
    ft_event_part part;
    bool begun;      /* something came */
    bool newline;    /* what was printed last ends a line */
    int write_errno; /* of standard output; the response was stopped then */
} ft_printer;

void ft_printer_init(ft_printer *p, const ft_term *t, const ft_vocab *v);
void ft_printer_release(ft_printer *p);
/* Makes r call the printer. */
void ft_printer_attach(ft_printer *p, ft_request *r);
/* Ends the colour and the line; false when standard output could not be written. */
bool ft_printer_finish(ft_printer *p);

/* "stop", "length", "cancelled" */
const char *ft_reason_name(ft_reason r);
/* The timings object that the server gives too. */
json_t *ft_timings_json(const ft_response *r);
/* Tokens per second; 0 where there is nothing to measure. */
double ft_prompt_rate(const ft_response *r);
double ft_response_rate(const ft_response *r);
/* One line on standard error: tokens, speed, drafts. */
void ft_response_note(const ft_term *t, const ft_response *r);

#endif
