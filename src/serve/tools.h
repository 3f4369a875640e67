/* serve/tools.h - tools, tool_choice and parallel_tool_calls of a chat request. */
#ifndef FT_SERVE_TOOLS_H
#define FT_SERVE_TOOLS_H

#include "serve/ask.h"

/* Checks the tools and puts those that are functions into the template's options and the ask. */
bool ft_tools_read(ft_ask *a, const ft_served *d, const json_t *body, json_t *options, ft_bad *bad);
/* The grammar that calls have to follow. After the prompt is known. */
bool ft_tools_constrain(ft_ask *a, const ft_served *d, const json_t *body, ft_bad *bad);

#endif
