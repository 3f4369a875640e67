#include "cli/json_text.h"

#include "base/buf.h"
#include "base/utf8.h"

json_t *ft_json_text(const char *p, size_t n)
{
    ft_buf b;
    ft_buf_init(&b, SIZE_MAX / 2);
    ft_utf8_repair(&b, p, n);
    json_t *s = json_stringn(ft_buf_z(&b), b.len);
    ft_buf_release(&b);
    return s;
}
