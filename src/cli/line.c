#define _GNU_SOURCE
#include "cli/line.h"

#include "base/buf.h"
#include "base/mem.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#ifdef FT_HAVE_EDIT
#include <histedit.h>
#endif

#define MAX_MESSAGE ((size_t)1 << 26)
enum { MAX_HISTORY = 1000 };

struct ft_line {
    const ft_term *term;
    ft_buf message;
    const char *prompt;
    char *plain; /* getline's memory */
    size_t plain_cap;
#ifdef FT_HAVE_EDIT
    EditLine *el;
    History *past;
    char *file;
#endif
};

/* ---- with libedit ---- */

#ifdef FT_HAVE_EDIT
static char *prompt_of(EditLine *el)
{
    void *l;
    el_get(el, EL_CLIENTDATA, &l);
    return (char *)(uintptr_t)((ft_line *)l)->prompt;
}

/* libedit uses the encoding of the locale; messages are always UTF-8. */
static void use_utf8(void)
{
    if (!setlocale(LC_CTYPE, "") || strcmp(nl_langinfo(CODESET), "UTF-8"))
        setlocale(LC_CTYPE, "C.UTF-8");
}

static void editor_open(ft_line *l, const char *file)
{
    use_utf8();
    l->el = el_init("foretoken", stdin, stdout, stderr);
    if (!l->el) return;
    HistEvent ev;
    l->past = history_init();
    history(l->past, &ev, H_SETSIZE, MAX_HISTORY);
    history(l->past, &ev, H_SETUNIQUE, 1);
    if (file) {
        l->file = ft_strdup(file);
        history(l->past, &ev, H_LOAD, file);
    }
    el_set(l->el, EL_CLIENTDATA, l);
    el_set(l->el, EL_PROMPT_ESC, prompt_of, '\1');
    el_set(l->el, EL_EDITOR, "emacs");
    el_set(l->el, EL_HIST, history, l->past);
    el_set(l->el, EL_SIGNAL, 0); /* cli/term.c handles signals; the read below returns */
    el_source(l->el, NULL);      /* ~/.editrc */
}

static void editor_close(ft_line *l)
{
    HistEvent ev;
    if (l->file) {
        const mode_t mask = umask(077);
        history(l->past, &ev, H_SAVE, l->file);
        umask(mask);
        ft_free(l->file);
    }
    if (l->past) history_end(l->past);
    if (l->el) el_end(l->el);
}

static ft_line_end editor_read(ft_line *l, const char **text, size_t *bytes)
{
    int n = 0;
    HistEvent ev;
    errno = 0;
    *text = el_gets(l->el, &n);
    if (*text && n > 0) {
        if (n > 1) history(l->past, &ev, H_ENTER, *text);
        *bytes = (size_t)n;
        return FT_LINE_OK;
    }
    if (!ft_interrupted()) return FT_LINE_EOF;
    el_reset(l->el);
    return FT_LINE_INTERRUPTED;
}
#endif

/* ---- without libedit ---- */

static ft_line_end plain_read(ft_line *l, const char **text, size_t *bytes)
{
    if (l->term->in && l->term->out) {
        for (const char *p = l->prompt; *p; p++)
            if (*p != '\1') putchar(*p);
        fflush(stdout);
    }
    errno = 0;
    const ssize_t n = getline(&l->plain, &l->plain_cap, stdin);
    if (n < 0) {
        if (!ft_interrupted()) return FT_LINE_EOF;
        clearerr(stdin);
        return FT_LINE_INTERRUPTED;
    }
    *text = l->plain;
    *bytes = (size_t)n;
    return FT_LINE_OK;
}

/* ---- lines to messages ---- */

ft_line *ft_line_new(const ft_term *t, const char *history_file)
{
    ft_line *l = ft_new(ft_line);
    l->term = t;
    ft_buf_init(&l->message, MAX_MESSAGE);
#ifdef FT_HAVE_EDIT
    if (t->in && t->out) editor_open(l, history_file);
#else
    (void)history_file;
#endif
    return l;
}

void ft_line_free(ft_line *l)
{
    if (!l) return;
#ifdef FT_HAVE_EDIT
    editor_close(l);
#endif
    ft_buf_release(&l->message);
    free(l->plain);
    ft_free(l);
}

/* One line without its end. */
static ft_line_end read_one(ft_line *l, bool more, ft_str *out)
{
    /* \1 encloses bytes that do not move the cursor; libedit drops them at the very end */
    l->prompt = !l->term->colour ? (more ? "... " : "> ")
                : more           ? "\1\x1b[2m\1...\1\x1b[0m\1 "
                                 : "\1\x1b[1;32m\1>\1\x1b[0m\1 ";
    ft_line_end e;
#ifdef FT_HAVE_EDIT
    e = l->el ? editor_read(l, &out->p, &out->n) : plain_read(l, &out->p, &out->n);
#else
    e = plain_read(l, &out->p, &out->n);
#endif
    if (e) return e;
    while (out->n && (out->p[out->n - 1] == '\n' || out->p[out->n - 1] == '\r')) out->n--;
    return FT_LINE_OK;
}

ft_line_end ft_line_read(ft_line *l, const char **text, size_t *bytes)
{
    static const ft_str fence = {"\"\"\"", 3};
    ft_str line;
    ft_line_end e = read_one(l, false, &line);
    ft_buf_clear(&l->message);
    if (e) return e;
    const bool block = ft_str_starts(line, fence);
    if (block) line = (ft_str){line.p + fence.n, line.n - fence.n};
    for (bool first = true;; first = false) {
        const bool closed = block && ft_str_ends(line, fence);
        const bool goes_on = block ? !closed : line.n && line.p[line.n - 1] == '\\';
        if (closed) line.n -= fence.n;
        if (goes_on && !block) line.n--;
        if (!first && l->message.len) ft_buf_putc(&l->message, '\n');
        ft_buf_put_str(&l->message, line);
        if (!goes_on) break;
        if ((e = read_one(l, true, &line)) == FT_LINE_INTERRUPTED) return e;
        if (e == FT_LINE_EOF) break;
    }
    *text = ft_buf_z(&l->message);
    *bytes = l->message.len;
    return FT_LINE_OK;
}
