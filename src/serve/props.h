/* serve/props.h - GET /props of a model that is loaded, under the server's lock. */
#ifndef FT_SERVE_PROPS_H
#define FT_SERVE_PROPS_H

#include "serve/models.h"

json_t *ft_props_json(const ft_served *d, bool sleeping);

#endif
