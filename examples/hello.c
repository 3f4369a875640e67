/* hello.c - sends one question to a model and prints the response while it is generated.
 *   cc hello.c $(pkg-config --cflags --libs foretoken) -o hello && ./hello [MODEL.gguf] */
#include <foretoken.h>
#include <stdio.h>
#include <stdlib.h>

static bool print(void *user, const ft_event *e)
{
    (void)user;
    fwrite(e->text, 1, e->bytes, stdout);
    return fflush(stdout) == 0; /* false cancels the response */
}

int main(int argc, char **argv)
{
    ft_err err;
    ft_llm_params params;
    ft_llm_defaults(&params);
    if (argc > 1) params.model = argv[1];

    ft_llm *model;
    if (ft_llm_open(&model, &params, &err)) return fprintf(stderr, "hello: %s\n", err.text), 1;
    ft_session *session = ft_session_new(model);

    ft_request request;
    ft_request_defaults(&request, model);
    request.max_tokens = 64;
    request.on_event = print;
    char *prompt;
    ft_response response;
    if (ft_llm_render(model, "[{\"role\": \"user\", \"content\": \"Who are you?\"}]", NULL, &prompt,
                      &request.in_thought, &err))
        return fprintf(stderr, "hello: %s\n", err.text), 1;
    request.prompt = prompt;
    for (request.prompt_bytes = 0; prompt[request.prompt_bytes];) request.prompt_bytes++;
    if (ft_session_generate(session, &request, &response, &err))
        return fprintf(stderr, "hello: %s\n", err.text), 1;
    printf("\n(%d tokens in %.2f s)\n", response.output_tokens, response.output_s);

    free(prompt);
    ft_session_free(session);
    ft_llm_close(model);
    return 0;
}
