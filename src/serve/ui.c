/* serve/ui.c - the web page: the files of web/ and the JavaScript libraries found at build time,
 * all embedded in the program. They are served without an API key, since they are public; the
 * requests that the page sends need one. */
#include "serve/routes.h"
#include "serve/server.h"

#include <string.h>

/* files.inc is written by scripts/web.sh: WEB_FILE(number, name, type, path, compressed with gzip).
 * The bytes of a file are between ft_web_N_begin and ft_web_N_end. */
#define WEB_FILE(n, name, type, path, gzip)                                                        \
    __asm__(".pushsection .rodata\n"                                                               \
            ".global ft_web_" #n "_begin\n.global ft_web_" #n "_end\n"                             \
            ".hidden ft_web_" #n "_begin\n.hidden ft_web_" #n "_end\n"                             \
            "ft_web_" #n "_begin:\n.incbin \"" path "\"\nft_web_" #n "_end:\n"                     \
            ".popsection\n");                                                                      \
    extern const char ft_web_##n##_begin[], ft_web_##n##_end[];
#include "files.inc"
#undef WEB_FILE

typedef struct web_file {
    const char *name, *type;
    const char *begin, *end;
    bool gzip;
} web_file;

#define WEB_FILE(n, name, type, path, gzip)                                                        \
    {name, type, ft_web_##n##_begin, ft_web_##n##_end, gzip},
static const web_file FILES[] = {
#include "files.inc"
    {NULL, NULL, NULL, NULL, false},
};

static const web_file *find_file(const char *name)
{
    const web_file *f = FILES;
    while (f->name && strcmp(f->name, name)) f++;
    return f->name ? f : NULL;
}

void ft_run_page(ft_call *c)
{
    const web_file *f = find_file(c->part[0] ? c->part : "index.html");
    if (c->s->p.no_page || !f) {
        ft_http_error error;
        if (c->s->p.no_page)
            ft_http_error_set(&error, FT_ERR_NOT_FOUND, NULL,
                              "the web page is disabled; start the server without --no-webui");
        else
            ft_http_error_set(&error, FT_ERR_NOT_FOUND, NULL, "the web page has no file \"%s\"",
                              c->part);
        ft_call_fail(c, &error);
        return;
    }
    ft_call_bytes(c, 200, f->type, f->begin, (size_t)(f->end - f->begin));
    if (f->gzip) ft_call_add_header(c, "Content-Encoding", "gzip");
    ft_call_add_header(c, "Cache-Control", f->gzip ? "max-age=86400" : "no-cache");
    ft_call_add_header(c, "X-Content-Type-Options", "nosniff");
    ft_call_add_header(c, "Referrer-Policy", "no-referrer");
    ft_call_add_header(c, "Content-Security-Policy",
                       "default-src 'none'; script-src 'self'; style-src 'self'; "
                       "img-src 'self' data:; font-src 'self'; connect-src 'self'; "
                       "worker-src 'self'; base-uri 'none'; form-action 'self'; "
                       "frame-ancestors 'none'");
}
