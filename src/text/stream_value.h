/* text/stream_value.h - converts the values of tool calls to JSON. */
#ifndef FT_TEXT_STREAM_VALUE_H
#define FT_TEXT_STREAM_VALUE_H

#include "base/buf.h"

#include <jansson.h>

enum { /* JSON types a schema allows, as bits */
       FT_TYPE_STRING = 1,
       FT_TYPE_NUMBER = 2,
       FT_TYPE_BOOLEAN = 4,
       FT_TYPE_NULL = 8,
       FT_TYPE_ARRAY = 16,
       FT_TYPE_OBJECT = 32,
};

/* The types that the schema of tools[name].parameters.properties[key] allows. A parameter that is
 * not in the schema is a string; without tools or without a type: 0, any type. */
unsigned ft_tool_types(const json_t *tools, ft_str name, ft_str key);
bool ft_tool_known(const json_t *tools, ft_str name);

/* true for the white space of JSON. */
static inline bool ft_json_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}
/* Appends text escaped for a JSON string, without the quotes; invalid UTF-8 becomes U+FFFD. */
void ft_json_escape(ft_buf *out, ft_str text);
/* Appends the raw text of a parameter as JSON of an allowed type, or else as a string. */
void ft_json_of_text(ft_buf *out, ft_str text, unsigned types);
/* Parses {"name": ..., "arguments": {...}}; false when the text has another form. */
bool ft_json_call(ft_str text, ft_buf *name, ft_buf *args);
/* Parses call:NAME{key:value,...} with strings between <|"|>; false when the text has another form.
 */
bool ft_gemma_call(ft_str text, ft_buf *name, ft_buf *args);

#endif
