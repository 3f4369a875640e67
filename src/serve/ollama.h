/* serve/ollama.h - the part of Ollama's API that editors use: request parsing (ollama.c) and
 * response formatting (ollama_out.c). */
#ifndef FT_SERVE_OLLAMA_H
#define FT_SERVE_OLLAMA_H

#include "serve/chat.h"

/* Applies keep_alive to the model. *unload: it is 0, so the model is unloaded after the response.
 */
bool ft_ollama_keep_alive(ft_call *c, ft_served *d, bool *unload, ft_http_error *error);

extern const ft_api_format ft_ollama_chat_format, ft_ollama_generate_format;
/* "2026-11-15T06:00:00.123456Z", now or some seconds from now */
const char *ft_ollama_time(char out[40]);
const char *ft_ollama_later(char out[40], double s);
/* An entry of /api/tags. Under the server's lock. */
json_t *ft_ollama_entry(const ft_served *d);

#endif
