/* serve/settings.h - generation_settings: the parameters of a request, as /completion, /props and
 * /slots report them. */
#ifndef FT_SERVE_SETTINGS_H
#define FT_SERVE_SETTINGS_H

#include "serve/params.h"

json_t *ft_settings_json(const ft_request *r, uint64_t seed);
/* Copies what POST /props may change: numbers and flags. */
void ft_settings_copy(ft_request *to, const ft_request *from);

#endif
