/* report/report.h - what the command line and the server report in the same way: JSON strings, and
 * the speed of a response. */
#ifndef FT_REPORT_H
#define FT_REPORT_H

#include "foretoken.h"

#include <jansson.h>

/* A JSON string of any bytes. Bytes that are not UTF-8 become U+FFFD. */
json_t *ft_json_string(const char *p, size_t n);

/* Tokens per second; 0: nothing was measured. */
double ft_prompt_rate(const ft_response *r);
double ft_response_rate(const ft_response *r);

/* The timings object, with llama.cpp's names and, if there were draft tokens, our draft_ fields. */
json_t *ft_timings_json(const ft_response *r);

#endif
