#define _GNU_SOURCE /* strcasestr */
#include "report/names.h"

#include "base/file.h"
#include "base/mem.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool is_text(const char *name, size_t n_name, const char *text, size_t n)
{
    return n == n_name && !memcmp(name, text, n);
}

bool ft_name_is(const char *name, const char *aliases, const char *text)
{
    const char *slash = strrchr(text, '/'), *list[] = {name, aliases};
    size_t n = strlen(text);
    if (n > 7 && !strcmp(text + n - 7, ":latest")) n -= 7;
    const size_t bare = n > 5 && !strncmp(text + n - 5, ".gguf", 5) ? n - 5 : n;
    for (size_t i = 0; i < FT_COUNT(list); i++)
        for (const char *p = list[i]; p && *p;) {
            const size_t k = strcspn(p, ",");
            if (is_text(p, k, text, n) || is_text(p, k, text, bare)) return true;
            if (slash && is_text(p, k, slash + 1, bare - (size_t)(slash + 1 - text))) return true;
            p += k + (p[k] == ',');
        }
    return false;
}

/* Letters of a type, then a digit. */
static bool starts_type(const char *p)
{
    static const char *const letters[] = {"Q", "IQ", "TQ", "F", "BF", "MXFP", "NVFP"};
    for (size_t i = 0; i < FT_COUNT(letters); i++) {
        const size_t n = strlen(letters[i]);
        if (!strncasecmp(p, letters[i], n) && isdigit((unsigned char)p[n])) return true;
    }
    return false;
}

const char *ft_name_quantization(const char *name, char out[32])
{
    for (const char *p = name + strlen(name); p > name; p--) {
        const size_t n = strcspn(p, "-.");
        if (!strchr("-.", p[-1]) || n >= 32 || !starts_type(p)) continue;
        snprintf(out, 32, "%.*s", (int)n, p);
        return out;
    }
    return NULL;
}

static bool is_gguf(const char *name)
{
    const size_t n = strlen(name);
    return n > 5 && !strcasecmp(name + n - 5, ".gguf");
}

bool ft_name_is_mmproj(const char *path)
{
    const char *name = ft_file_name(path);
    return is_gguf(name) && strcasestr(name, "mmproj");
}

/* NAME-00002-of-00003.gguf and so on. */
static bool is_further_part(const char *name)
{
    const char *p = name;
    while ((p = strstr(p, "-of-"))) {
        if (p - name > 6 && p[-6] == '-' && strspn(p - 5, "0123456789") == 5 &&
            strspn(p + 4, "0123456789") == 5)
            return memcmp(p - 5, "00001", 5) != 0;
        p++;
    }
    return false;
}

bool ft_name_is_model(const char *path)
{
    const char *name = ft_file_name(path);
    return is_gguf(name) && !ft_name_is_mmproj(name) && !strcasestr(name, "imatrix") &&
           !is_further_part(name);
}
