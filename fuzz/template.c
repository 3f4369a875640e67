/* fuzz/template.c - arbitrary bytes as a template: an error or a text, within small limits. The
 * part after a zero byte is the JSON of the variables. */
#include "text/jinja.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char standard[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"assistant\",\"content\":"
        "null,\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"a\":1.5}}}]}],"
        "\"tools\":[{\"name\":\"f\"}],\"add_generation_prompt\":true,\"bos_token\":\"<s>\"}";
    const ft_jinja_limits limits = {20000, (size_t)2 << 20, (size_t)1 << 16};
    const uint8_t *zero = n ? memchr(data, 0, n) : NULL;
    const size_t source = zero ? (size_t)(zero - data) : n;
    ft_jinja *t;
    ft_err err;
    if (ft_jinja_new(&t, (ft_str){(const char *)data, source}, &err)) return 0;
    json_t *vars = NULL;
    if (zero) vars = json_loadb((const char *)zero + 1, n - source - 1, JSON_ALLOW_NUL, NULL);
    if (!json_is_object(vars)) {
        json_decref(vars);
        vars = json_loads(standard, 0, NULL);
    }
    ft_buf b;
    ft_buf_init(&b, (size_t)1 << 17);
    ft_jinja_render(t, vars, &limits, &b, &err);
    ft_buf_release(&b);
    json_decref(vars);
    ft_jinja_free(t);
    return 0;
}
