/* api/overrides.c - tensors that are placed by patterns of their names: --override-tensor. */
#include "api/model.h"
#include "base/mem.h"

#include <stdlib.h>
#include <strings.h>

/* The GPU that a name means, counted from 0 in the order of --device; -1: none. */
static int gpu_of(const ft_llm *m, const char *name)
{
    char *end;
    int gpus = strcmp(m->dev->name, "cpu") != 0;
    for (int i = 0; i < m->n_more; i++) gpus += strcmp(m->more[i]->name, "cpu") != 0;
    if (!strcasecmp(name, m->dev->name)) return 0;
    if (strncasecmp(name, "CUDA", 4)) return -1;
    const char *digits = name[4] == ':' ? name + 5 : name + 4;
    const long n = *digits >= '0' && *digits <= '9' ? strtol(digits, &end, 10) : -1;
    return n >= 0 && n < FT_MAX(gpus, 1) && !*end ? (int)n : -1;
}

/* "PATTERN=NAME". POSIX patterns have no \d, which people use. */
static ft_status add_override(ft_llm *m, char *text, ft_err *err)
{
    char *name = strrchr(text, '=');
    if (!name || name == text)
        return ft_fail(err, FT_EINVAL, "--override-tensor: \"%.80s\", want PATTERN=CPU", text);
    *name++ = 0;
    const int gpu = gpu_of(m, name);
    if (strcasecmp(name, "CPU") && gpu < 0)
        return ft_fail(err, FT_EINVAL, "--override-tensor: %.80s=%.40s, want CPU or CUDA0%s", text,
                       name, m->n_more ? ", CUDA1, ..." : "");
    ft_buf pattern;
    ft_buf_init(&pattern, 1 << 16);
    for (const char *p = text; *p; p++) {
        const bool digit = p[0] == '\\' && p[1] == 'd', pair = p[0] == '\\' && p[1];
        if (digit)
            ft_buf_puts(&pattern, "[0-9]");
        else
            ft_buf_put(&pattern, p, pair ? 2 : 1);
        p += pair;
    }
    m->over = ft_realloc(m->over, sizeof *m->over * (size_t)(m->n_over + 1));
    ft_split_override *o = &m->over[m->n_over];
    *o = (ft_split_override){.side = strcasecmp(name, "CPU") ? FT_SPLIT_FAST + gpu : FT_SPLIT_HOST};
    const int bad = regcomp(&o->re, ft_buf_z(&pattern), REG_EXTENDED | REG_NOSUB);
    ft_buf_release(&pattern);
    if (!bad) {
        m->n_over++;
        return FT_OK;
    }
    char why[100];
    regerror(bad, &o->re, why, sizeof why);
    return ft_fail(err, FT_EINVAL, "--override-tensor: pattern \"%.80s\": %s", text, why);
}

ft_status ft_llm_read_overrides(ft_llm *m, const ft_llm_params *p, ft_err *err)
{
    ft_status st = FT_OK;
    for (int i = 0; i < p->n_override_tensor && !st; i++) {
        char *copy = ft_strdup(p->override_tensor[i]);
        for (char *at = copy, *next; at && !st; at = next) {
            if ((next = strchr(at, ','))) *next++ = 0;
            st = add_override(m, at, err);
        }
        ft_free(copy);
    }
    return st;
}

void ft_llm_free_overrides(ft_llm *m)
{
    for (int i = 0; i < m->n_over; i++) regfree(&m->over[i].re);
    ft_free(m->over);
}
