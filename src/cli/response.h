/* cli/response.h - prints a response as it is generated, or collects it for JSON. */
#ifndef FT_CLI_RESPONSE_H
#define FT_CLI_RESPONSE_H

#include "base/buf.h"
#include "cli/term.h"
#include "cli/wrap.h"
#include "foretoken.h"

#include <jansson.h>

/* Collects a response and, unless silent, prints it as it is generated. */
typedef struct ft_printer {
    const ft_term *term;
    const ft_vocab *vocab;
    bool silent;        /* print nothing */
    bool show_drafts;   /* underline accepted draft tokens */
    ft_wrap wrap;       /* of text on a terminal; width 0: lines are left to the terminal */
    bool interruptible; /* Ctrl-C stops the response once it has begun */

    ft_buf answer, thought, call; /* the text of each part */
    json_t *ids;
    json_t *logprobs; /* NULL: none so far */
    ft_event_part part;
    bool begun;      /* the first event has come */
    bool newline;    /* the last byte printed was a newline */
    int write_errno; /* of standard output, which stopped the response; 0: none */
} ft_printer;

void ft_printer_init(ft_printer *p, const ft_term *t, const ft_vocab *v);
void ft_printer_release(ft_printer *p);
/* Sets the printer as the event callback of r. */
void ft_printer_attach(ft_printer *p, ft_request *r);
/* Ends the colour and the line; false when standard output could not be written. */
bool ft_printer_finish(ft_printer *p);

/* "stop", "length", "cancelled" */
const char *ft_reason_name(ft_reason r);
/* Adds the time spent drafting and verifying, and the acceptance rate at each draft position. */
void ft_draft_details_json(json_t *timings, const ft_response *r);
/* Prints the statistics line on standard error: tokens, speed, acceptance. */
void ft_response_note(const ft_term *t, const ft_response *r);

#endif
