/* serve/ui.c - the page at "/": the files of web/, baked into the program. They need no key, since
 * they hold nothing that is not public; what they ask of the server does. */
#include "serve/routes.h"
#include "serve/server.h"

#include <string.h>

/* The bytes of a file of web/ as NAME_begin .. NAME_end. */
#define BAKE(name, file)                                                                           \
    __asm__(".pushsection .rodata\n"                                                               \
            ".global ft_web_" #name "_begin\n.global ft_web_" #name "_end\n"                       \
            "ft_web_" #name "_begin:\n.incbin \"web/" file "\"\nft_web_" #name "_end:\n"           \
            ".popsection\n");                                                                      \
    extern const char ft_web_##name##_begin[], ft_web_##name##_end[];

BAKE(index, "index.html")
BAKE(style, "style.css")
BAKE(app, "app.js")
BAKE(markdown, "markdown.js")
BAKE(store, "store.js")
BAKE(stream, "stream.js")

typedef struct page {
    const char *path, *type;
    const char *begin, *end;
} page;

#define SCRIPT "text/javascript; charset=utf-8"
static const page PAGE[] = {
    {"", "text/html; charset=utf-8", ft_web_index_begin, ft_web_index_end},
    {"style.css", "text/css; charset=utf-8", ft_web_style_begin, ft_web_style_end},
    {"app.js", SCRIPT, ft_web_app_begin, ft_web_app_end},
    {"markdown.js", SCRIPT, ft_web_markdown_begin, ft_web_markdown_end},
    {"store.js", SCRIPT, ft_web_store_begin, ft_web_store_end},
    {"stream.js", SCRIPT, ft_web_stream_begin, ft_web_stream_end},
};

void ft_run_page(ft_call *c)
{
    if (c->s->p.no_page) {
        ft_http_error error;
        ft_http_error_set(&error, FT_ERR_NOT_FOUND, NULL,
                          "the page is off; start the server without --no-webui");
        ft_call_fail(c, &error);
        return;
    }
    const char *name = strrchr(c->route->path, '/') + 1;
    const page *p = PAGE;
    while (strcmp(p->path, name)) p++; /* route.c has no row for a page that is not here */
    ft_call_bytes(c, 200, p->type, p->begin, (size_t)(p->end - p->begin));
    ft_call_add_header(c, "Cache-Control", "no-cache");
    ft_call_add_header(c, "X-Content-Type-Options", "nosniff");
    ft_call_add_header(c, "Referrer-Policy", "no-referrer");
    ft_call_add_header(c, "Content-Security-Policy",
                       "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
                       "img-src 'self' data:; connect-src 'self'; base-uri 'none'; "
                       "form-action 'self'; frame-ancestors 'none'");
}
