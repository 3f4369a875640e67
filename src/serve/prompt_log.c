/* serve/prompt_log.c - requests as they came, in files of their own (--log-prompts-dir): the only
 * place where the server writes down what people say. */
#include "base/buf.h"
#include "base/log.h"
#include "serve/server.h"

#include <errno.h>
#include <stdio.h>

/* A client may have chosen the id: only letters and digits of it name a file. */
static void file_name(char *out, size_t size, const char *id)
{
    size_t n = 0;
    for (; *id && n + 1 < size; id++) {
        const bool plain = (*id >= '0' && *id <= '9') || (*id >= 'A' && *id <= 'Z') ||
                           (*id >= 'a' && *id <= 'z') || *id == '_' || *id == '-';
        out[n++] = plain ? *id : '_';
    }
    out[n] = 0;
}

void ft_prompt_log(const ft_call *c, ft_str body)
{
    char name[sizeof c->id];
    ft_buf path;
    if (!c->s->p.prompts_dir) return;
    file_name(name, sizeof name, c->id);
    ft_buf_init(&path, 4096);
    ft_buf_printf(&path, "%s/%s.json", c->s->p.prompts_dir, name);
    FILE *f = fopen(ft_buf_z(&path), "wb");
    if (!f || fwrite(body.p, 1, body.n, f) != body.n)
        ft_log(FT_LOG_WARN, "%s: %s", ft_buf_z(&path), strerror(errno));
    if (f) fclose(f);
    ft_buf_release(&path);
}
