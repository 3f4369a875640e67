#include "cli/json_text.h"

#include "base/buf.h"
#include "base/utf8.h"

json_t *ft_json_text(const char *p, size_t n)
{
    ft_buf b;
    ft_buf_init(&b, SIZE_MAX / 2);
    for (size_t i = 0; i < n;) {
        int len;
        if (ft_utf8_decode(p + i, n - i, &len) == FT_UTF8_BAD)
            ft_buf_puts(&b, "\xEF\xBF\xBD");
        else
            ft_buf_put(&b, p + i, (size_t)len);
        i += (size_t)len;
    }
    json_t *s = json_stringn(ft_buf_z(&b), b.len);
    ft_buf_release(&b);
    return s;
}
