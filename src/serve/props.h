/* serve/props.h - GET /props of a loaded model; called under the server's lock. */
#ifndef FT_SERVE_PROPS_H
#define FT_SERVE_PROPS_H

#include "serve/models.h"

json_t *ft_props_json(const ft_served *d, bool sleeping);

#endif
