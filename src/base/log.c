#define _POSIX_C_SOURCE 200809L
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ft_log_fn *sink;
static void *sink_user;
static int max_level = FT_LOG_WARN;
static bool max_from_env;

static void read_env(void)
{
    static bool done;
    if (done) return;
    done = true;
    static const char *const name[] = {"error", "warn", "info", "debug"};
    const char *v = getenv("FT_LOG");
    for (int i = 0; v && i < 4; i++) {
        if (strcmp(v, name[i])) continue;
        max_level = i;
        max_from_env = true;
    }
}

void ft_log_to(ft_log_fn *fn, void *user)
{
    sink = fn;
    sink_user = user;
}

void ft_log_max(ft_log_level level)
{
    read_env();
    if (!max_from_env) max_level = (int)level;
}

void ft_log(ft_log_level level, const char *fmt, ...)
{
    read_env();
    if (!sink || (int)level > max_level) return;
    char line[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    sink(sink_user, level, line);
}
