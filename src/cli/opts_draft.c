/* cli/opts_draft.c - options of speculative decoding. Those that a request can change too
 * (--spec-draft-n-max, --spec-draft-n-min, --spec-draft-p-min) are in base/request.def. */
#include "cli/opts_rows.h"

#define DRAFT .group = FT_GROUP_DRAFT, .programs = FT_CMD_DRAFT
#define NGRAM .group = FT_GROUP_NGRAM, .programs = FT_CMD_DRAFT, .flags = FT_PARAM_LONG
#define DRAFT_UNUSED                                                                               \
    .group = FT_GROUP_COMPAT, .programs = FT_CMD_DRAFT, .flags = FT_PARAM_LONG | FT_PARAM_IGNORED

/* The three numbers of one n-gram drafter. */
#define NGRAM_SIZES(kind)                                                                          \
    {.name = "spec-ngram-" kind "-size-n",                                                         \
     FT_IS_INT("N", 1, 1024),                                                                      \
     NGRAM,                                                                                        \
     .unit = "tokens",                                                                             \
     .def_note = "--spec-ngram-size-n",                                                            \
     .help = "--spec-ngram-size-n for ngram-" kind " alone"},                                      \
        {.name = "spec-ngram-" kind "-size-m",                                                     \
         FT_IS_INT("N", 1, 1024),                                                                  \
         NGRAM,                                                                                    \
         .unit = "tokens",                                                                         \
         .def_note = "--spec-ngram-size-m",                                                        \
         .help = "--spec-ngram-size-m for ngram-" kind " alone"},                                  \
    {                                                                                              \
        .name = "spec-ngram-" kind "-min-hits", FT_IS_INT("N", 0, 1024), NGRAM,                    \
        .def_note = "--spec-ngram-min-hits",                                                       \
        .help = "--spec-ngram-min-hits for ngram-" kind " alone"                                   \
    }

const ft_param ft_opts_draft[] = {
    {.name = "spec-type",
     FT_IS_TEXT("LIST"),
     DRAFT,
     .def = "auto",
     .env = "LLAMA_ARG_SPEC_TYPE",
     .help = "draft methods, separated by commas: auto (the file named by -md, or the model's MTP "
             "head), none, draft-mtp, draft-simple (a smaller model), ngram-simple, ngram-map-k, "
             "ngram-map-k4v, ngram-mod, ngram-cache"},
    {.name = "spec-default", FT_IS_FLAG, DRAFT, .help = "the same as --spec-type ngram-mod"},
    {.name = "mtp-spec",
     .aliases = "-mtp",
     FT_IS_FLAG,
     DRAFT,
     .help = "the same as --spec-type draft-mtp"},
    {.name = "spec-draft-model",
     .aliases = "-md --model-draft --mtp-head --mtp-draft-model",
     FT_IS_TEXT("FILE"),
     DRAFT,
     .env = "LLAMA_ARG_SPEC_DRAFT_MODEL LLAMA_ARG_MODEL_DRAFT LLAMA_ARG_MTP_HEAD",
     .help = "GGUF file with a Gemma assistant, a Qwen draft head, or a smaller model with the "
             "same vocabulary"},
    {.name = "spec-draft-hf",
     .aliases = "-hfd -hfrd --hf-repo-draft",
     FT_IS_TEXT("USER/NAME[:QUANT]"),
     DRAFT,
     .env = "LLAMA_ARG_SPEC_DRAFT_HF_REPO",
     .help = "the same, from Hugging Face; downloaded unless there is a local copy"},
    {.name = "spec-adapt",
     FT_IS_CHOICE("on|off"),
     DRAFT,
     .def = "on",
     .help = "draft only as many tokens as is faster, by measured times and acceptance; off: "
             "always the maximum"},
    {.name = "draft-block-size",
     FT_IS_INT("N", 0, FT_DRAFT_MAX + 1),
     DRAFT,
     .unit = "tokens",
     .def_note = "--spec-draft-n-max + 1",
     .env = "LLAMA_ARG_DRAFT_BLOCK_SIZE",
     .help = "the same as --spec-draft-n-max N-1"},
    {.name = "spec-sampling",
     FT_IS_CHOICE("match|reject"),
     DRAFT,
     .def = "match",
     .help = "match: a seed gives the same response with and without drafting; reject: rejection "
             "sampling, which accepts more draft tokens and gives another response of the same "
             "distribution"},
    {.name = "draft-vocab",
     FT_IS_TEXT("N|auto"),
     DRAFT,
     .def = "auto",
     .help = "draft from the N most frequent tokens only, which is faster (0: all; auto: half of "
             "a large vocabulary)"},
    {.name = "draft-vocab-text",
     FT_IS_TEXT("FILE"),
     DRAFT,
     .def_note = "frequent tokens come first in the vocabulary",
     .help = "text in which the frequency of tokens is counted for --draft-vocab"},
    {.name = "spec-trace",
     FT_IS_TEXT("FILE"),
     DRAFT,
     .env = "FT_SPEC_TRACE LLAMA_MTP_ACC_TRACE",
     .help = "append one line of JSON for every draft and every acceptance (1: standard error)"},

    {.name = "spec-ngram-size-n",
     FT_IS_INT("N", 1, 1024),
     NGRAM,
     .def = "12",
     .unit = "tokens",
     .help = "length of the n-gram that must have occurred before, for ngram-simple, ngram-map-k "
             "and ngram-map-k4v"},
    {.name = "spec-ngram-size-m",
     FT_IS_INT("N", 1, 1024),
     NGRAM,
     .def = "48",
     .unit = "tokens",
     .help = "maximum number of tokens copied after the earlier occurrence"},
    {.name = "spec-ngram-min-hits",
     FT_IS_INT("N", 0, 1024),
     NGRAM,
     .def = "1",
     .help = "minimum number of earlier occurrences"},
    NGRAM_SIZES("simple"),
    NGRAM_SIZES("map-k"),
    NGRAM_SIZES("map-k4v"),
    {.name = "spec-ngram-mod-n-match",
     FT_IS_INT("N", 1, 1024),
     NGRAM,
     .def = "24",
     .unit = "tokens",
     .help = "ngram-mod: number of recent tokens that are hashed"},
    {.name = "spec-ngram-mod-n-min",
     FT_IS_INT("N", 0, 1024),
     NGRAM,
     .def = "48",
     .unit = "tokens",
     .help = "ngram-mod: a shorter continuation is not proposed"},
    {.name = "spec-ngram-mod-n-max",
     FT_IS_INT("N", 1, 1024),
     NGRAM,
     .def = "64",
     .unit = "tokens",
     .help = "ngram-mod: a continuation is followed for at most this long"},
    {.name = "lookup-cache-static",
     .aliases = "-lcs",
     FT_IS_TEXT("FILE"),
     NGRAM,
     .help = "ngram-cache: n-gram counts of a corpus"},
    {.name = "lookup-cache-dynamic",
     .aliases = "-lcd",
     FT_IS_TEXT("FILE"),
     NGRAM,
     .help = "ngram-cache: n-gram counts of earlier responses; updated when the program ends"},

    {.name = "spec-draft-backend-sampling",
     FT_IS_FLAG,
     DRAFT_UNUSED,
     .def = "1",
     .env = "LLAMA_ARG_SPEC_DRAFT_BACKEND_SAMPLING",
     .help = "sample draft tokens on the device",
     .why = "draft tokens are always sampled on the device"},
    {.name = "spec-draft-device",
     .aliases = "-devd --device-draft",
     FT_IS_LIST("NAME"),
     DRAFT_UNUSED,
     .help = "device of the drafter",
     .why = "the drafter runs on the model's device"},
    {.name = "spec-draft-ngl",
     .aliases = "-ngld --gpu-layers-draft --n-gpu-layers-draft",
     FT_IS_LIST("N"),
     DRAFT_UNUSED,
     .env = "LLAMA_ARG_N_GPU_LAYERS_DRAFT",
     .help = "layers of the drafter in GPU memory",
     .why = "the drafter runs on the model's device"},
    {.name = "spec-draft-cpu-moe",
     .aliases = "-cmoed --cpu-moe-draft",
     FT_IS_FLAG,
     DRAFT_UNUSED,
     .env = "LLAMA_ARG_SPEC_DRAFT_CPU_MOE",
     .help = "keep the drafter's experts in CPU memory",
     .why = "the drafter runs on the model's device"},
    {.name = "spec-draft-n-cpu-moe",
     .aliases = "-ncmoed --spec-draft-ncmoe --n-cpu-moe-draft",
     FT_IS_LIST("N"),
     DRAFT_UNUSED,
     .env = "LLAMA_ARG_SPEC_DRAFT_N_CPU_MOE",
     .help = "keep the experts of N layers of the drafter in CPU memory",
     .why = "the drafter runs on the model's device"},
    {.name = "spec-draft-type-k",
     .aliases = "-ctkd --cache-type-k-draft",
     FT_IS_LIST("TYPE"),
     DRAFT_UNUSED,
     .env = "LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_K",
     .help = "encoding of the drafter's cached keys",
     .why = "the drafter's cache has the encoding of the model's"},
    {.name = "spec-draft-type-v",
     .aliases = "-ctvd --cache-type-v-draft",
     FT_IS_LIST("TYPE"),
     DRAFT_UNUSED,
     .env = "LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_V",
     .help = "encoding of the drafter's cached values",
     .why = "the drafter's cache has the encoding of the model's"},
    {.name = "ctx-size-draft",
     .aliases = "-cd",
     FT_IS_LIST("N"),
     DRAFT_UNUSED,
     .help = "context length of the drafter",
     .why = "the drafter has the context length of the model"},
    {.name = "spec-draft-threads",
     .aliases = "-td --threads-draft --spec-draft-threads-batch -tbd --threads-batch-draft",
     FT_IS_LIST("N"),
     DRAFT_UNUSED,
     .help = "threads of the drafter",
     .why = "the drafter uses the threads of the model (--threads)"},
    {.name = "spec-draft-cpu-mask",
     .aliases = "-Cd --cpu-mask-draft --spec-draft-cpu-range -Crd --cpu-range-draft "
                "--spec-draft-cpu-strict --cpu-strict-draft --spec-draft-prio --prio-draft "
                "--spec-draft-poll --poll-draft --spec-draft-cpu-mask-batch -Cbd "
                "--cpu-mask-batch-draft --spec-draft-cpu-range-batch -Crbd --cpu-range-batch-draft "
                "--spec-draft-cpu-strict-batch --cpu-strict-batch-draft "
                "--spec-draft-prio-batch --prio-batch-draft --spec-draft-poll-batch "
                "--poll-batch-draft",
     FT_IS_LIST("X"),
     DRAFT_UNUSED,
     .help = "CPU affinity, priority and polling of the drafter",
     .why = "the drafter uses the threads of the model (--threads)"},
    {.name = "spec-draft-p-split",
     .aliases = "--draft-p-split",
     FT_IS_LIST("P"),
     DRAFT_UNUSED,
     .env = "LLAMA_ARG_SPEC_DRAFT_P_SPLIT",
     .help = "probability at which a draft branches",
     .why = "a draft is a single sequence"},
};
const int ft_n_opts_draft = FT_COUNT(ft_opts_draft);
