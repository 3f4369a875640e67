/* cli/chat.h - a conversation: its messages, and what the next response needs. */
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
    json_t *messages; /* the system message first, if there is one */
    json_t *options;  /* for the template */
    json_t *attached; /* parts of the next message: images */
    struct ft_chat_file {
        char *path;
        ft_image_input image;
    } * file; /* [n_file]: images that were read; parts name them by path */
    int n_file;
    ft_image_input image[FT_REQUEST_IMAGES]; /* those of the messages */
    ft_response last; /* statistics of the latest response; zero before the first */
    ft_response sum;  /* of all responses: tokens, seconds, draft tokens */
    bool failed;      /* some response or command failed */
    bool over;
} ft_chat;

/* Appends a message with the attached images; text may be any bytes. */
void ft_chat_say(ft_chat *c, const char *role, const char *text, size_t n);
/* Reads an image file once; NULL: an error. */
const ft_image_input *ft_chat_image(ft_chat *c, const char *path, ft_err *err);
/* Attaches an image to the next message. */
ft_status ft_chat_attach(ft_chat *c, const char *path, ft_err *err);
/* Sets the system message, or with NULL removes it. */
void ft_chat_system(ft_chat *c, const char *text);
/* Removes everything after the last user message, and with user_too that message as well. false:
 * there is no user message. */
bool ft_chat_back(ft_chat *c, bool user_too);
/* Generates a response to the messages; an error is printed and leaves them unchanged. */
bool ft_chat_generate(ft_chat *c);

/* Command i of the list, such as "/save"; NULL: there are no more. */
const char *ft_chat_command_name(int i);
/* Runs a command: a line that begins with a slash. */
void ft_chat_command(ft_chat *c, const char *line);

#endif
