/* serve/ollama.h - the part of Ollama's API that editors use: request parsing (ollama.c) and
 * response formatting (ollama_out.c). */
#ifndef FT_SERVE_OLLAMA_H
#define FT_SERVE_OLLAMA_H

#include "serve/chat.h"

extern const ft_api_format ft_ollama_chat_format, ft_ollama_generate_format;
/* "2026-11-15T06:00:00.123456Z" */
const char *ft_ollama_time(char out[40]);

#endif
