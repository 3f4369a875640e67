/* serve_scripted PORT [SLOTS]: the server with the scripted model as a program, for tests with
 * clients in other languages. It ends when its standard input is closed. */
#define _GNU_SOURCE
#include "serve/scripted.h"
#include "serve/serve.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    ft_serve_params p;
    ft_server *s;
    ft_err err;
    ft_serve_defaults(&p);
    p.port = argc > 1 ? atoi(argv[1]) : 0;
    ft_llm *m = ft_scripted_open("models/foretoken-tiny.gguf", argc > 2 ? atoi(argv[2]) : 8, 256);
    if (ft_server_open(&s, &p, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    ft_server_attach(s, m);
    printf("%s\n", ft_server_address(s));
    fflush(stdout);
    while (getchar() != EOF) continue;
    ft_server_close(s);
    ft_scripted_close(m);
    return 0;
}
