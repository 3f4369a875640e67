#define _GNU_SOURCE
#include "cli/term.h"

#include "base/str.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* Written by the signal handler if the program ends inside a coloured line. */
static const char reset[] = "\x1b[0m\n", no_paste[] = "\x1b[?2004l";
static volatile sig_atomic_t exits = 1, count, coloured, both; /* input and output are terminals */
static struct termios found; /* the terminal before a line editor changed it */
static volatile sig_atomic_t has_found;

ft_term ft_term_open(const char *when)
{
    const char *kind = getenv("TERM");
    const bool dumb = !kind || !strcmp(kind, "dumb");
    ft_term t = {
        .in = isatty(STDIN_FILENO), .out = isatty(STDOUT_FILENO), .err = isatty(STDERR_FILENO)};
    const char *none = getenv("NO_COLOR"); /* no-color.org: unless it is empty */
    const bool plain = dumb || (none && *none);
    t.colour = strcmp(when, "auto") ? !strcmp(when, "on") : t.out && !plain;
    t.colour_notes = t.err && !dumb && (strcmp(when, "auto") ? !strcmp(when, "on") : !plain);
    coloured = t.colour && t.out;
    both = t.in && t.out;
    has_found = t.in && !tcgetattr(STDIN_FILENO, &found);
    return t;
}

const char *ft_style_begin(bool colour, ft_style s)
{
    static const char *const code[] = {
        [FT_STYLE_NONE] = "\x1b[0m",      [FT_STYLE_ANSWER] = "",
        [FT_STYLE_THOUGHT] = "\x1b[2;3m", [FT_STYLE_CALL] = "\x1b[36m",
        [FT_STYLE_PROMPT] = "\x1b[1;32m", [FT_STYLE_NOTE] = "\x1b[2m",
    };
    return colour ? code[s] : "";
}

/* Bytes of the control character at p, 0 when there is none. C1 controls are two bytes. */
static size_t control(const char *p, size_t n)
{
    const unsigned char a = (unsigned char)p[0];
    if (a == '\n' || a == '\t') return 0;
    if (a < 0x20 || a == 0x7F) return 1;
    return n > 1 && a == 0xC2 && (unsigned char)p[1] < 0xA0 ? 2 : 0;
}

void ft_term_clean(ft_buf *out, const char *text, size_t n)
{
    size_t from = 0;
    for (size_t i = 0; i < n;) {
        const size_t len = control(text + i, n - i);
        if (!len) {
            i++;
            continue;
        }
        ft_buf_put(out, text + from, i - from);
        ft_buf_puts(out, "\xEF\xBF\xBD");
        from = i += len;
    }
    ft_buf_put(out, text + from, n - from);
}

void ft_term_put(const char *text, size_t n)
{
    ft_buf b;
    ft_buf_init(&b, SIZE_MAX / 2);
    ft_term_clean(&b, text, n);
    fwrite(ft_buf_z(&b), 1, b.len, stdout);
    ft_buf_release(&b);
}

int ft_term_width(const ft_term *t)
{
    struct winsize w;
    return t->out && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) ? w.ws_col : 0;
}

void ft_term_note(const ft_term *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs(ft_style_begin(t->colour_notes, FT_STYLE_NOTE), stderr);
    vfprintf(stderr, fmt, ap);
    fputs(ft_style_begin(t->colour_notes, FT_STYLE_NONE), stderr);
    fputc('\n', stderr);
    va_end(ap);
}

/* ---- Ctrl-C ---- */

static void restore(void)
{
    if (has_found) tcsetattr(STDIN_FILENO, TCSANOW, &found);
    if (both && write(STDOUT_FILENO, no_paste, sizeof no_paste - 1) < 0) _exit(1);
    if (coloured && write(STDOUT_FILENO, reset, sizeof reset - 1) < 0) _exit(1);
}

static void on_interrupt(int sig)
{
    (void)sig;
    count = count + 1;
    if (!exits && count < 3) return;
    restore();
    _exit(FT_EXIT_INTERRUPTED);
}

static void on_end(int sig)
{
    restore();
    raise(sig); /* ends the program: SA_RESETHAND */
}

void ft_interrupt_mode(ft_on_interrupt m)
{
    count = 0;
    exits = m == FT_INTERRUPT_EXITS;
    struct sigaction sa = {.sa_handler = on_interrupt};
    sigemptyset(&sa.sa_mask);
    sigaction(SIGINT, &sa, NULL); /* no SA_RESTART: the line editor must return */
    sa.sa_handler = on_end;
    sa.sa_flags = (int)SA_RESETHAND;
    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGHUP, &sa, NULL);
}

bool ft_interrupted(void)
{
    return count > 0;
}
