/* serve/tools.h - tools, tool_choice and parallel_tool_calls of a chat request. */
#ifndef FT_SERVE_TOOLS_H
#define FT_SERVE_TOOLS_H

#include "serve/params.h"

/* Checks the tools and adds the functions among them to the template's options and to a. */
bool ft_tools_read(ft_gen_params *a, const ft_served *d, const json_t *body, json_t *options,
                   ft_http_error *error);
/* Sets the grammar for tool calls. Called after the prompt is rendered. */
bool ft_tools_constrain(ft_gen_params *a, const ft_served *d, const json_t *body,
                        ft_http_error *error);

#endif
