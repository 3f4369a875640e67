/* serve/tools.h - tools, tool_choice and parallel_tool_calls of a chat request. */
#ifndef FT_SERVE_TOOLS_H
#define FT_SERVE_TOOLS_H

#include "serve/params.h"

/* Checks the tools and puts those that are functions into the template's options and the ask. */
bool ft_tools_read(ft_gen_params *a, const ft_served *d, const json_t *body, json_t *options,
                   ft_http_error *error);
/* The grammar that calls have to follow. After the prompt is known. */
bool ft_tools_constrain(ft_gen_params *a, const ft_served *d, const json_t *body,
                        ft_http_error *error);

#endif
