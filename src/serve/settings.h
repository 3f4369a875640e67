/* serve/settings.h - generation_settings: the parameters of a request, as /completion, /props and
 * /slots report them. */
#ifndef FT_SERVE_SETTINGS_H
#define FT_SERVE_SETTINGS_H

#include "serve/params.h"

json_t *ft_settings_json(const ft_served *d, const ft_request *r, uint64_t seed);
/* Sets the fields that say how the response is sent. */
void ft_settings_add(json_t *settings, const ft_gen_params *a);
/* Copies what POST /props may change: numbers and flags. */
void ft_settings_copy(ft_request *to, const ft_request *from);

#endif
