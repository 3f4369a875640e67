/* cli/main.c - runs the program that the first argument names. */
#include "base/cpu.h"
#include "base/log.h"
#include "cli/cmd.h"
#include "cli/model_opts.h"
#include "foretoken.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

const ft_cmd ft_cmd_table[] = {
    {"run", FT_CMD_RUN, ft_cmd_run, "[PROMPT ...]", "generate a response to one prompt", 0,
     1 << 20},
    {"chat", FT_CMD_CHAT, ft_cmd_chat, "[MESSAGE ...]", "chat with a model in the terminal", 0,
     1 << 20},
    {"serve", FT_CMD_SERVE, ft_cmd_serve, "",
     "serve models over HTTP (OpenAI, Anthropic and Ollama APIs)", 0, 0},
    {"perplexity", FT_CMD_PERPLEXITY, ft_cmd_perplexity, "-f FILE",
     "measure how well a model predicts a text", 0, 0},
    {"bench", FT_CMD_BENCH, ft_cmd_bench, "", "measure the speed of a model on this machine", 0, 0},
    {"kvbench", FT_CMD_KVBENCH, ft_cmd_kvbench, "-f FILE [TYPE ...]",
     "compare KV-cache encodings: quality, memory and speed", 0, 64},
    {"pull", FT_CMD_PULL, ft_cmd_pull, "USER/NAME[:QUANT]",
     "download a model from Hugging Face, or list local copies", 0, 1},
    {"list", FT_CMD_LIST, ft_cmd_list, "", "list the downloaded models", 0, 0},
    {"rm", FT_CMD_RM, ft_cmd_rm, "NAME ...", "remove downloaded models", 1, 1 << 20},
    {"convert", FT_CMD_CONVERT, ft_cmd_convert, "FOLDER OUT.gguf",
     "convert a Hugging Face checkpoint to a GGUF file", 2, 2},
    {"tokenize", FT_CMD_TOKENIZE, ft_cmd_tokenize, "[TEXT ...]",
     "convert text to token ids and back", 0, 1 << 20},
    {"inspect", FT_CMD_INSPECT, ft_cmd_inspect, "FILE",
     "print what is in a model file, or move its drafter", 1, 2},
    {"synth", FT_CMD_SYNTH, ft_cmd_synth, "SHAPE TYPE OUT.gguf",
     "write a model with random weights, for tests", 2, 3},
    {"quantize", FT_CMD_QUANTIZE, ft_cmd_quantize, "IN.gguf OUT.gguf TYPE", "quantise a GGUF file",
     2, 3},
    {"template", FT_CMD_TEMPLATE, ft_cmd_template, "< INPUT", "render a chat template", 0, 0},
    {NULL, 0, NULL, NULL, NULL, 0, 0},
};

int ft_die(const ft_err *err)
{
    fprintf(stderr, "foretoken: %s\n", err->text);
    return 1;
}

void ft_print_usage_of(const char *path, ft_str arch)
{
    if (ft_str_is(arch, "clip"))
        printf("to use it: foretoken chat -m MODEL.gguf --mmproj %s\n", path);
    else if (ft_str_is(arch, "gemma4-assistant"))
        printf("to use it: foretoken chat -m MODEL.gguf -md %s\n", path);
    else
        printf("to use it: foretoken chat -m %s\n", path);
}

static int usage(void)
{
    puts("foretoken - runs Qwen3.5/3.6 and Gemma 4 models, with multi-token prediction\n\n"
         "usage: foretoken PROGRAM [options]\n\nprograms:");
    for (const ft_cmd *c = ft_cmd_table; c->name; c++) printf("  %-12s %s\n", c->name, c->help);
    puts("\nforetoken PROGRAM --help lists the options of a program; foretoken --version prints "
         "what\n"
         "this build supports.");
    return 0;
}

#ifdef FT_HAVE_CUDA
#define WITH_CUDA ", cuda"
#else
#define WITH_CUDA ""
#endif
#ifdef FT_HAVE_VULKAN
#define WITH_VULKAN ", vulkan"
#else
#define WITH_VULKAN ""
#endif

static int list_devices(void)
{
    char text[1024];
    for (int i = 0; ft_device_at(i, text, sizeof text); i++) puts(text);
    return 0;
}

static int version(void)
{
    printf("foretoken %s\n", ft_version());
    puts("devices: cpu" WITH_CUDA WITH_VULKAN);
    printf("instruction sets: %s\n", ft_cpu_isa_names());
    printf("libraries: %s\n", FT_LIBRARIES);
    if (FT_ABSENT[0]) printf("built without: %s\n", FT_ABSENT);
    return 0;
}

/* Options that print something and end, for llama.cpp's users: false if none is given. */
static bool print_and_end(const ft_opts *o, int *rc)
{
    if (ft_opts_flag(o, "version"))
        *rc = version();
    else if (ft_opts_has(o, "cache-list") && ft_opts_flag(o, "cache-list"))
        *rc = ft_pull_list();
    else if (ft_opts_has(o, "list-devices") && ft_opts_flag(o, "list-devices"))
        *rc = list_devices();
    else
        return false;
    return true;
}

static void set_log_level(const ft_opts *o, unsigned cmd)
{
    static const ft_log_level of[] = {FT_LOG_ERROR, FT_LOG_ERROR, FT_LOG_WARN,
                                      FT_LOG_INFO,  FT_LOG_DEBUG, FT_LOG_DEBUG};
    if (!ft_opts_has(o, "log-verbosity")) return;
    if (ft_opts_set(o, "log-verbosity"))
        ft_log_max(of[ft_opts_int(o, "log-verbosity")]);
    else if ((cmd & (FT_CMD_SERVE | FT_CMD_BENCH)) && ft_opts_flag(o, "verbose"))
        ft_log_max(FT_LOG_DEBUG);
    else if (cmd == FT_CMD_SERVE && !ft_opts_flag(o, "quiet"))
        ft_log_max(FT_LOG_INFO);
}

/* A program that runs a model. Under mpirun only rank 0 runs it; the others compute for it, and end
 * when it does. */
static int run_ranks(const ft_cmd *c, const ft_opts *o)
{
    ft_err err;
    int rank = 0, ranks = 1;
    if (ft_ranks_start(&rank, &ranks, &err)) return rank ? 1 : ft_die(&err);
    if (!rank) {
        const int rc = c->run(o);
        ft_ranks_end();
        return rc;
    }
    ft_model_opts mo = {0};
    ft_llm_params p;
    signal(SIGINT, SIG_IGN); /* rank 0 ends the job */
    signal(SIGTERM, SIG_IGN);
    ft_status st = ft_model_opts_params(&mo, o, &p, &err);
    if (!st) st = ft_ranks_serve(&p, &err);
    ft_model_opts_release(&mo);
    ft_ranks_end();
    return st ? 1 : 0;
}

static int run_command(const ft_cmd *c, int argc, char **argv)
{
    ft_err err;
    ft_opts *o = NULL;
    if (ft_opts_parse(&o, c->bit, argc, argv, &err)) return ft_die(&err);
    int rc;
    set_log_level(o, c->bit);
    const bool all = ft_opts_flag(o, "help-all");
    if (ft_opts_flag(o, "help-list")) {
        ft_opts_list(c->bit);
        rc = 0;
    } else if (all || ft_opts_flag(o, "help")) {
        printf("foretoken %s - %s\n\nusage: foretoken %s %s%s[options]\n", c->name, c->help,
               c->name, c->words, *c->words ? " " : "");
        ft_opts_help(c->bit, all);
        rc = 0;
    } else if (print_and_end(o, &rc)) {
        /* done */
    } else if (ft_opts_n_word(o) < c->min_words || ft_opts_n_word(o) > c->max_words) {
        const int n = ft_opts_n_word(o);
        ft_fail(&err, FT_EINVAL, "%s has %d argument%s, want: foretoken %s %s%s[options]", c->name,
                n, n == 1 ? "" : "s", c->name, c->words, *c->words ? " " : "");
        rc = ft_die(&err);
    } else {
        rc = c->bit & FT_CMD_MODEL ? run_ranks(c, o) : c->run(o);
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
    ft_fail(&err, FT_EINVAL, "unknown program \"%s\" (foretoken --help lists the programs)", name);
    return ft_die(&err);
}
