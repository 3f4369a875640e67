/* api/version.c - the version and the messages of foretoken.h. */
#include "foretoken.h"

#include "base/log.h"

const char *ft_version(void)
{
    return FT_VERSION;
}

static struct {
    void (*fn)(void *user, int level, const char *line);
    void *user;
} log_sink;

static void log_line(void *user, ft_log_level level, const char *line)
{
    (void)user;
    log_sink.fn(log_sink.user, (int)level, line);
}

void ft_log_set(void (*fn)(void *user, int level, const char *line), void *user)
{
    log_sink.fn = fn;
    log_sink.user = user;
    ft_log_to(fn ? log_line : NULL, NULL);
}
