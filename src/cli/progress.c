#define _POSIX_C_SOURCE 200809L
#include "cli/progress.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 30, REDRAW_NS = 50000000 };

/* There is one standard error, so there is one bar. */
static struct {
    pthread_mutex_t lock;
    char what[64];
    uint64_t total;
    int64_t start, drawn;
    int tenth;
    bool open; /* a line that has no newline yet */
} bar = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void begin(const char *what, uint64_t total)
{
    snprintf(bar.what, sizeof bar.what, "%s", what);
    bar.total = total;
    bar.start = ft_now_ns();
    bar.drawn = 0;
    bar.tenth = 0;
}

static void amounts(char out[80], uint64_t done, bool bytes)
{
    char a[24], b[24], r[24];
    const double s = (double)(ft_now_ns() - bar.start) * 1e-9;
    if (!bytes) {
        snprintf(out, 80, "%llu/%llu", (unsigned long long)done, (unsigned long long)bar.total);
        return;
    }
    const uint64_t rate = s > 0 ? (uint64_t)((double)done / s) : 0;
    snprintf(out, 80, "%s of %s, %s/s", ft_human_bytes(a, done), ft_human_bytes(b, bar.total),
             ft_human_bytes(r, rate));
}

static void draw(uint64_t done, bool bytes)
{
    const int64_t now = ft_now_ns();
    const int pct = (int)(100.0 * (double)done / (double)bar.total);
    char amount[80], line[WIDTH + 1] = "";
    if (isatty(STDERR_FILENO)) {
        if (done < bar.total && now - bar.drawn < REDRAW_NS) return;
        bar.drawn = now;
        bar.open = true;
        for (int i = 0; i < WIDTH; i++) line[i] = i * 100 < pct * WIDTH ? '#' : '.';
        amounts(amount, done, bytes);
        fprintf(stderr, "\r\x1b[K%s [%s] %3d %% %s", bar.what, line, pct, amount);
        fflush(stderr);
    } else if (pct / 10 > bar.tenth) {
        bar.tenth = pct / 10;
        amounts(amount, done, bytes);
        fprintf(stderr, "%s: %d %% (%s)\n", bar.what, pct, amount);
    }
}

static void report(const char *what, uint64_t done, uint64_t total, bool bytes, uint64_t smallest)
{
    pthread_mutex_lock(&bar.lock);
    if (!what) { /* the end: whatever follows begins on a line of its own */
        if (bar.open) fputc('\n', stderr);
        bar.open = false;
        bar.total = 0;
    } else if (total >= smallest) {
        if (total != bar.total || strncmp(what, bar.what, sizeof bar.what - 1) != 0)
            begin(what, total);
        draw(done, bytes);
    }
    pthread_mutex_unlock(&bar.lock);
}

void ft_bar_count(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)user;
    report(what, done, total, false, 0);
}

void ft_bar_bytes(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)user;
    report(what, done, total, true, (uint64_t)64 << 20);
}

void ft_bar_load(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)user;
    report(what, done, total, true, (uint64_t)(isatty(STDERR_FILENO) ? 64 : 1024) << 20);
}

void ft_bar_download(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)user;
    report(what, done, total, true, 0);
}
