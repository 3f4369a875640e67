#define _POSIX_C_SOURCE 200809L
#include "base/log.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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
    if ((int)level > max_level) return;
    char line[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    if (sink)
        sink(sink_user, level, line);
    else
        fprintf(stderr, "%s%s\n", level == FT_LOG_WARN ? "warning: " : "", line);
}

/* ---- progress ---- */

struct ft_progress {
    char what[64], note[64];
    uint64_t total, done;
    int64_t start, drawn;
    int tenth;
    bool bytes, tty, quiet;
    pthread_mutex_t lock;
};

ft_progress *ft_progress_new(const char *what, uint64_t total, bool bytes, bool quiet)
{
    ft_progress *p = ft_new(ft_progress);
    snprintf(p->what, sizeof p->what, "%s", what);
    p->total = total ? total : 1;
    p->bytes = bytes;
    p->quiet = quiet;
    p->tty = isatty(STDERR_FILENO);
    p->start = ft_now_ns();
    pthread_mutex_init(&p->lock, NULL);
    return p;
}

static void format_amounts(const ft_progress *p, char out[80])
{
    char a[24], b[24], r[24];
    const double s = (double)(ft_now_ns() - p->start) * 1e-9;
    if (!p->bytes) {
        snprintf(out, 80, "%llu/%llu", (unsigned long long)p->done, (unsigned long long)p->total);
        return;
    }
    const uint64_t rate = s > 0 ? (uint64_t)((double)p->done / s) : 0;
    snprintf(out, 80, "%s of %s, %s/s", ft_human_bytes(a, p->done), ft_human_bytes(b, p->total),
             ft_human_bytes(r, rate));
}

static void draw_progress(ft_progress *p, bool last)
{
    const int64_t now = ft_now_ns();
    const int pct = (int)(100.0 * (double)p->done / (double)p->total);
    char amount[80];
    if (p->tty) {
        if (!last && now - p->drawn < 50000000) return;
        p->drawn = now;
        char bar[31];
        for (int i = 0; i < 30; i++) bar[i] = i * 100 < pct * 30 ? '#' : '.';
        bar[30] = 0;
        format_amounts(p, amount);
        fprintf(stderr, "\r\x1b[K%s [%s] %3d %% %s %s", p->what, bar, pct, amount, p->note);
        if (last) fputc('\n', stderr);
        fflush(stderr);
    } else if (pct / 10 > p->tenth) {
        p->tenth = pct / 10;
        format_amounts(p, amount);
        fprintf(stderr, "%s: %d %% (%s)\n", p->what, pct, amount);
    }
}

void ft_progress_add(ft_progress *p, uint64_t done)
{
    if (!p || p->quiet) return;
    pthread_mutex_lock(&p->lock);
    p->done = FT_MIN(p->total, p->done + done);
    draw_progress(p, false);
    pthread_mutex_unlock(&p->lock);
}

void ft_progress_note(ft_progress *p, const char *note)
{
    if (!p || p->quiet) return;
    pthread_mutex_lock(&p->lock);
    snprintf(p->note, sizeof p->note, "%s", note);
    pthread_mutex_unlock(&p->lock);
}

void ft_progress_free(ft_progress *p)
{
    if (!p) return;
    if (!p->quiet && p->tty) draw_progress(p, true);
    pthread_mutex_destroy(&p->lock);
    ft_free(p);
}
