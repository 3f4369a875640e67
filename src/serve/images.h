/* serve/images.h - images in requests: converts each API's image parts to chat image parts and
 * decodes their bytes. Images are part of the request, or are downloaded (image_url.h). */
#ifndef FT_SERVE_IMAGES_H
#define FT_SERVE_IMAGES_H

#include "serve/params.h"

/* Whether content, an array of parts, has an image. */
bool ft_images_in(const json_t *content);
/* Converts parts to what templates expect, {"type":"image"} and text, and appends the images to a.
 * i: index of the message, for errors. *out is a new reference. */
bool ft_images_read(ft_gen_params *a, const ft_served *d, const json_t *content, size_t i,
                    json_t **out, ft_http_error *error);
/* Adds an image given as base64, as a data URI or by its address. where: its name in error
 * messages. */
bool ft_images_add(ft_gen_params *a, const ft_served *d, const char *text, size_t n,
                   const char *detail, const char *where, ft_http_error *error);
/* Replaces each FT_MEDIA_MARKER in a text by the model's image placeholder. */
#define FT_MEDIA_MARKER "<__media__>"
json_t *ft_images_marked(const ft_served *d, const json_t *text);
/* Prompt length in tokens: n ids, with the placeholders expanded to a's images. */
int ft_images_count(const ft_gen_params *a, const ft_served *d, int n);

/* Converts an Anthropic image block to an OpenAI part. Returns NULL and fills error on failure. */
json_t *ft_images_from_anthropic(const json_t *block, size_t i, ft_http_error *error);
/* Puts the images of an Ollama message before its text. */
void ft_images_from_ollama(json_t *message, const json_t *images);
/* Content of these parts followed by the text, or the text alone. Takes ownership of text. */
json_t *ft_images_before(const json_t *parts, json_t *text);

#endif
