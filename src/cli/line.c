#define _GNU_SOURCE
#include "cli/line.h"

#include "base/buf.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <wchar.h>
#ifdef FT_HAVE_EDIT
#include <histedit.h>
#endif

#define MAX_MESSAGE ((size_t)1 << 26)
#define BREAK       "\xE2\x8F\x8E" /* U+23CE, a line break while a message is edited */
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
    const char *(*command)(int i);
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

/* The terminal sends pasted text between ESC [ 200 ~ and ESC [ 201 ~. It is inserted as it is, line
 * breaks as a visible character, so that Enter sends all of it. */
static unsigned char paste(EditLine *el, int first)
{
    static const wchar_t end[] = L"\x1b[201~";
    wchar_t c, text[2] = {0};
    size_t met = 0;
    (void)first;
    while (met < 6 && el_wgetc(el, &c) == 1) {
        met = c == end[met] ? met + 1 : c == end[0];
        if (met || c == L'\r') {
            if (c == L'\r') el_winsertstr(el, L"\x23CE");
            continue;
        }
        text[0] = c == L'\n' ? L'\x23CE' : c == L'\t' ? L' ' : c;
        if (text[0] >= 32) el_winsertstr(el, text);
    }
    return CC_REFRESH;
}

/* Tab: the command that the line begins with, or the name of a file. */
static unsigned char complete(EditLine *el, int key)
{
    void *user;
    el_get(el, EL_CLIENTDATA, &user);
    const ft_line *l = user;
    const LineInfo *at = el_line(el);
    const size_t n = (size_t)(at->cursor - at->buffer);
    if (!n || at->buffer[0] != '/' || memchr(at->buffer, ' ', n)) return _el_fn_complete(el, key);
    const char *found = NULL, *name;
    size_t same = 0; /* bytes that all matches share */
    for (int i = 0; (name = l->command(i)); i++) {
        if (strncmp(name, at->buffer, n)) continue;
        size_t k = 0;
        while (found && name[k] && name[k] == found[k]) k++;
        same = found ? FT_MIN(same, k) : strlen(name);
        found = found ? found : name;
    }
    if (!found || same < n) return CC_ERROR;
    char rest[64];
    const bool whole = same == strlen(found);
    snprintf(rest, sizeof rest, "%.*s%s", (int)(same - n), found + n, whole ? " " : "");
    if (!*rest || el_insertstr(el, rest)) return CC_ERROR;
    return CC_REFRESH;
}

static void set_paste(bool on)
{
    fputs(on ? "\x1b[?2004h" : "\x1b[?2004l", stdout);
    fflush(stdout);
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
    el_set(l->el, EL_ADDFN, "ft-paste", "insert pasted text", paste);
    el_set(l->el, EL_BIND, "\x1b[200~", "ft-paste", NULL);
    el_set(l->el, EL_ADDFN, "ft-complete", "complete a command or file name", complete);
    el_set(l->el, EL_BIND, "^I", "ft-complete", NULL);
    el_source(l->el, NULL); /* ~/.editrc */
}

static void editor_close(ft_line *l)
{
    HistEvent ev;
    if (l->file) {
        const int fd =
            open(l->file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600); /* private from the start */
        if (fd >= 0) close(fd);
        history(l->past, &ev, H_SAVE, l->file);
        ft_free(l->file);
    }
    if (l->past) history_end(l->past);
    if (l->el) el_end(l->el);
}

static ft_line_end editor_read(ft_line *l, const char **text, size_t *bytes)
{
    int n = 0;
    errno = 0;
    set_paste(true);
    *text = el_gets(l->el, &n);
    set_paste(false);
    if (*text && n > 0) {
        *bytes = (size_t)n;
        return FT_LINE_OK;
    }
    if (!ft_interrupted()) return FT_LINE_EOF;
    el_reset(l->el);
    return FT_LINE_INTERRUPTED;
}

/* Adds a message to the history, as one line. */
static void editor_remember(ft_line *l)
{
    HistEvent ev;
    ft_buf line;
    if (!l->el || !l->message.len) return;
    ft_buf_init(&line, MAX_MESSAGE * 3);
    for (size_t i = 0; i < l->message.len; i++) {
        if (l->message.data[i] == '\n')
            ft_buf_puts(&line, BREAK);
        else
            ft_buf_putc(&line, l->message.data[i]);
    }
    ft_buf_putc(&line, '\n');
    history(l->past, &ev, H_ENTER, ft_buf_z(&line));
    ft_buf_release(&line);
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

ft_line *ft_line_new(const ft_term *t, const char *history_file, const char *(*command)(int i))
{
    ft_line *l = ft_new(ft_line);
    l->term = t;
    ft_buf_init(&l->message, MAX_MESSAGE);
#ifdef FT_HAVE_EDIT
    l->command = command;
    if (t->in && t->out) editor_open(l, history_file);
#else
    (void)history_file, (void)command;
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

/* Appends a line; in a terminal with the line breaks of pasted text and of the history. */
static void put_line(ft_line *l, ft_str line)
{
    const ft_str mark = FT_STR(BREAK);
#ifdef FT_HAVE_EDIT
    for (size_t at; l->el && (at = ft_str_find(line, mark, 0)) != SIZE_MAX;) {
        ft_buf_put(&l->message, line.p, at);
        ft_buf_putc(&l->message, '\n');
        line = (ft_str){line.p + at + mark.n, line.n - at - mark.n};
    }
#else
    (void)mark;
#endif
    ft_buf_put_str(&l->message, line);
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
        put_line(l, line);
        if (!goes_on) break;
        if ((e = read_one(l, true, &line)) == FT_LINE_INTERRUPTED) return e;
        if (e == FT_LINE_EOF) break;
    }
#ifdef FT_HAVE_EDIT
    editor_remember(l);
#endif
    *text = ft_buf_z(&l->message);
    *bytes = l->message.len;
    return FT_LINE_OK;
}
