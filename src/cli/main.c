/* cli/main.c - finds the program that the first word names. */
#include "base/cpu.h"
#include "base/log.h"
#include "cli/cmd.h"
#include "foretoken.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

const ft_cmd ft_cmd_table[] = {
    {"run", FT_CMD_RUN, ft_cmd_run, "[PROMPT ...]", "answer one prompt", 0, 1 << 20},
    {"chat", FT_CMD_CHAT, ft_cmd_chat, "[MESSAGE ...]", "talk with a model", 0, 1 << 20},
    {"serve", FT_CMD_SERVE, ft_cmd_serve, "", "answer requests over HTTP", 0, 0},
    {"perplexity", FT_CMD_PERPLEXITY, ft_cmd_perplexity, "-f FILE",
     "how well a model predicts a text", 0, 0},
    {"bench", FT_CMD_BENCH, ft_cmd_bench, "", "how fast a model is here", 0, 0},
    {"kvbench", FT_CMD_KVBENCH, ft_cmd_kvbench, "-f FILE [TYPE ...]",
     "what each cache encoding costs and saves", 0, 64},
    {"pull", FT_CMD_PULL, ft_cmd_pull, "USER/NAME[:QUANT]",
     "fetch a model by name, or list those that are here", 0, 1},
    {"convert", FT_CMD_CONVERT, ft_cmd_convert, "FOLDER OUT.gguf",
     "turn a Hugging Face folder into a GGUF file", 2, 2},
    {"tokenize", FT_CMD_TOKENIZE, ft_cmd_tokenize, "[TEXT ...]", "text to token ids and back", 0,
     1 << 20},
    {"inspect", FT_CMD_INSPECT, ft_cmd_inspect, "FILE",
     "say what is in a model file, or move its drafter", 1, 2},
    {"synth", FT_CMD_SYNTH, ft_cmd_synth, "SHAPE TYPE OUT.gguf",
     "write a model of a known shape with random weights", 2, 3},
    {"quantize", FT_CMD_QUANTIZE, ft_cmd_quantize, "IN.gguf OUT.gguf TYPE",
     "write a GGUF file with smaller tensor types", 2, 3},
    {"template", FT_CMD_TEMPLATE, ft_cmd_template, "< INPUT", "render a chat template", 0, 0},
    {NULL, 0, NULL, NULL, NULL, 0, 0},
};

int ft_die(const ft_err *err)
{
    fprintf(stderr, "foretoken: %s\n", err->text);
    return 1;
}

static int usage(void)
{
    puts("foretoken - runs Qwen3.5/3.6 and Gemma 4 models, with multi-token prediction\n\n"
         "usage: foretoken PROGRAM [options]\n\nprograms:");
    for (const ft_cmd *c = ft_cmd_table; c->name; c++) printf("  %-12s %s\n", c->name, c->help);
    puts("\nforetoken PROGRAM --help explains one; foretoken --version names what this build has.");
    return 0;
}

static int version(void)
{
    printf("foretoken %s\n", ft_version());
#ifdef FT_HAVE_CUDA
    printf("devices: cpu, cuda\n");
#else
    printf("devices: cpu\n");
#endif
    printf("instruction sets: %s\n", ft_cpu_isa_names());
    printf("libraries: %s\n", FT_LIBRARIES);
    if (FT_ABSENT[0]) printf("built without: %s\n", FT_ABSENT);
    return 0;
}

static int run_command(const ft_cmd *c, int argc, char **argv)
{
    ft_err err;
    ft_opts *o = NULL;
    if (ft_opts_parse(&o, c->bit, argc, argv, &err)) return ft_die(&err);
    int rc;
    if (ft_opts_flag(o, "help")) {
        printf("foretoken %s - %s\n\nusage: foretoken %s %s [options]\n", c->name, c->help, c->name,
               c->words);
        ft_opts_help(c->bit);
        rc = 0;
    } else if (ft_opts_n_word(o) < c->min_words || ft_opts_n_word(o) > c->max_words) {
        ft_fail(&err, FT_EINVAL, "%s: %d words given, want: foretoken %s %s", c->name,
                ft_opts_n_word(o), c->name, c->words);
        rc = ft_die(&err);
    } else {
        rc = c->run(o);
    }
    ft_opts_free(o);
    return rc;
}

static void print_log(void *user, ft_log_level level, const char *line)
{
    (void)user;
    fprintf(stderr, "%s%s\n", level == FT_LOG_WARN ? "warning: " : "", line);
}

int main(int argc, char **argv)
{
    ft_log_to(print_log, NULL);
    signal(SIGPIPE, SIG_IGN);
    const char *name = argc > 1 ? argv[1] : "--help";
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) return usage();
    if (!strcmp(name, "--version") || !strcmp(name, "version")) return version();
    for (const ft_cmd *c = ft_cmd_table; c->name; c++)
        if (!strcmp(c->name, name)) return run_command(c, argc - 1, argv + 1);
    ft_err err;
    ft_fail(&err, FT_EINVAL, "no program \"%s\" (foretoken --help lists them)", name);
    return ft_die(&err);
}
