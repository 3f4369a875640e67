/* cli/chat.h - a conversation: what was said, and what makes the next response. */
#ifndef FT_CLI_CHAT_H
#define FT_CLI_CHAT_H

#include "cli/model_opts.h"
#include "cli/response.h"

typedef struct ft_chat {
    const ft_opts *o;
    ft_model_opts mo;
    ft_llm *m;
    ft_session *s;
    ft_term term;
    ft_request r;
    json_t *messages; /* with the system's, when there is one, in front */
    json_t *options;  /* for the template */
    ft_response last; /* of the latest response; all zero before the first */
    ft_response sum;  /* of all responses: tokens, seconds, drafts */
    bool failed;      /* some response did */
    bool over;
} ft_chat;

/* Appends a message; text may be any bytes. */
void ft_chat_say(ft_chat *c, const char *role, const char *text, size_t n);
/* Sets the system message, or with NULL removes it. */
void ft_chat_system(ft_chat *c, const char *text);
/* Drops everything behind the last message of the user, and that one too when asked. false when
 * the user has said nothing. */
bool ft_chat_back(ft_chat *c, bool user_too);
/* Responses to the messages as they are; an error is printed and leaves them as they are. */
bool ft_chat_generate(ft_chat *c);

/* A line that begins with a slash: does what it says. */
void ft_chat_command(ft_chat *c, const char *line);

#endif
