/* cli/json_text.h - strings of any bytes as JSON. */
#ifndef FT_CLI_JSON_TEXT_H
#define FT_CLI_JSON_TEXT_H

#include <jansson.h>
#include <stddef.h>

/* A JSON string. Bytes that are not UTF-8 become U+FFFD. */
json_t *ft_json_text(const char *p, size_t n);

#endif
