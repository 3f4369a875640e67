/* Any text as a data URI or bare base64. */
#include "image/image.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    unsigned char *p = NULL;
    size_t bytes = 0;
    ft_err err = {0};
    if (ft_data_uri_decode(&p, &bytes, (const char *)data, n, 4096, &err)) {
        if (!err.text[0] || strchr(err.text, '\n')) abort();
        return 0;
    }
    if (bytes > 4096 || bytes > n) abort();
    unsigned sum = 0;
    for (size_t i = 0; i < bytes; i++) sum += p[i];
    if (bytes && sum > 255 * bytes) abort();
    ft_free(p);
    return 0;
}
