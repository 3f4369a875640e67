/* cli/json_text.h - strings of any bytes as JSON. */
#ifndef FT_CLI_JSON_TEXT_H
#define FT_CLI_JSON_TEXT_H

#include <jansson.h>
#include <stddef.h>

/* JSON has no way to write bytes that are not UTF-8; each of those becomes U+FFFD. */
json_t *ft_json_text(const char *p, size_t n);

#endif
