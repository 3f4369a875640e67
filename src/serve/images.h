/* serve/images.h - images in requests: what each API calls them becomes the image parts of a chat,
 * and those become bytes beside the prompt. Images come inside the request; addresses are refused.
 */
#ifndef FT_SERVE_IMAGES_H
#define FT_SERVE_IMAGES_H

#include "serve/params.h"

/* Whether a message's content has an image among its parts. */
bool ft_images_in(const json_t *content);
/* Parts as templates read them, {"type":"image"} and text; the images join those of a, in order.
 * i: the message's number, for errors. *out is new. */
bool ft_images_read(ft_gen_params *a, const ft_served *d, const json_t *content, size_t i,
                    json_t **out, ft_http_error *error);
/* An image given as base64 or as a data URI; where: its name in errors. */
bool ft_images_add(ft_gen_params *a, const ft_served *d, const char *text, size_t n,
                   const char *detail, const char *where, ft_http_error *error);
/* A text in which FT_MEDIA_MARKER stands for images, with the model's own placeholders. */
#define FT_MEDIA_MARKER "<__media__>"
json_t *ft_images_marked(const ft_served *d, const json_t *text);
/* Tokens of a prompt of n ids whose placeholders stand for a's images. */
int ft_images_count(const ft_gen_params *a, const ft_served *d, int n);

/* An image block of Anthropic's as an OpenAI part; NULL: error says why. */
json_t *ft_images_from_anthropic(const json_t *block, size_t i, ft_http_error *error);
/* The images of an Ollama message before its text. */
void ft_images_from_ollama(json_t *message, const json_t *images);
/* A content of these parts before the text, or the text alone; the text is taken over. */
json_t *ft_images_before(const json_t *parts, json_t *text);

#endif
