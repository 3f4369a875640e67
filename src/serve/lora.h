/* serve/lora.h - scales of LoRA adapters in request bodies. */
#ifndef FT_SERVE_LORA_H
#define FT_SERVE_LORA_H

#include "serve/params.h"

/* Reads an array of {"id", "scale"} into scale[FT_ADAPTERS_MAX]; adapters that are not in it get 0.
 * name: of the array, for messages. */
bool ft_lora_read(const ft_served *d, const json_t *list, const char *name, float *scale,
                  ft_http_error *error);
/* The field `lora` of a request; absent or empty: the server's scales. */
bool ft_lora_field(ft_gen_params *a, const ft_served *d, const json_t *body, ft_http_error *error);
/* The same array for generation_settings; empty if the request has no scales of its own. */
json_t *ft_lora_json(const ft_request *r);

#endif
