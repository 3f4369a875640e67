/* base/params.h - parameters: options of the programs and fields of request bodies.
 *
 * A parameter is one row. The row says what it is called on the command line, in the environment
 * and in the request bodies of each API, its type, range, default and unit, and what --help prints.
 * The command line (cli/opts.c), the server (serve/params.c, serve/settings.c), the sampler's
 * struct (engine/sample.h), the block of ft_sampling in foretoken.h, the manual pages, the shell
 * completions and the field tables of docs/api.md all read these rows or are compared with them by
 * tests/unit/opts_table.c.
 *
 * Rows that a request can set are in base/request.def, because the engine, the API, the server and
 * the command line all need them and base/ is the only module that all four may include. Rows that
 * only the command line needs are in cli/opts_*.c. */
#ifndef FT_BASE_PARAMS_H
#define FT_BASE_PARAMS_H

#include "base/status.h"

#include <stdbool.h>

/* Programs that take an option, as bits. */
enum {
    FT_CMD_RUN = 1 << 0,
    FT_CMD_CHAT = 1 << 1,
    FT_CMD_SERVE = 1 << 2,
    FT_CMD_BENCH = 1 << 3,
    FT_CMD_PERPLEXITY = 1 << 4,
    FT_CMD_INSPECT = 1 << 5,
    FT_CMD_CONVERT = 1 << 6,
    FT_CMD_QUANTIZE = 1 << 7,
    FT_CMD_SYNTH = 1 << 8,
    FT_CMD_TOKENIZE = 1 << 9,
    FT_CMD_TEMPLATE = 1 << 10,
    FT_CMD_KVBENCH = 1 << 11,
    FT_CMD_PULL = 1 << 12,
    FT_CMD_LIST = 1 << 13,
    FT_CMD_RM = 1 << 14,
    FT_CMD_TERMINAL = FT_CMD_RUN | FT_CMD_CHAT, /* generate for a person at a terminal */
    FT_CMD_GENERATE = FT_CMD_TERMINAL | FT_CMD_SERVE,
    FT_CMD_DRAFT = FT_CMD_GENERATE | FT_CMD_BENCH,                    /* can decode speculatively */
    FT_CMD_MODEL = FT_CMD_DRAFT | FT_CMD_PERPLEXITY | FT_CMD_KVBENCH, /* load a model to run it */
    FT_CMD_ANY = (1 << 15) - 1,
};

typedef enum ft_param_kind {
    FT_PARAM_FLAG,   /* no value; --no-NAME unsets it */
    FT_PARAM_INT,    /* lo..hi */
    FT_PARAM_FLOAT,  /* lo..hi */
    FT_PARAM_TEXT,   /* any string */
    FT_PARAM_CHOICE, /* one of the words of `value`, separated by '|' */
    FT_PARAM_LIST,   /* any string, may be given many times */
} ft_param_kind;

/* Headings of --help, in the order in which they are printed. */
typedef enum ft_param_group {
    FT_GROUP_GENERAL,
    FT_GROUP_MODEL,
    FT_GROUP_INPUT,
    FT_GROUP_PROMPT,
    FT_GROUP_CONTEXT,
    FT_GROUP_DEVICE,
    FT_GROUP_DRAFT,
    FT_GROUP_NGRAM,
    FT_GROUP_SAMPLING,
    FT_GROUP_RESPONSE,
    FT_GROUP_SERVER,
    FT_GROUP_MODELS,
    FT_GROUP_SECURITY,
    FT_GROUP_MEASURE,
    FT_GROUP_OUTPUT,
    FT_GROUP_COMPAT,
    FT_GROUPS
} ft_param_group;

/* APIs whose request bodies spell a parameter. Every route accepts every spelling. */
typedef enum ft_json_api {
    FT_JSON_LLAMA, /* llama.cpp's server, and our own additions */
    FT_JSON_OPENAI,
    FT_JSON_ANTHROPIC,
    FT_JSON_OLLAMA,
    FT_JSON_APIS
} ft_json_api;

enum {                         /* bits of ft_param.flags */
       FT_PARAM_LONG = 1,      /* only --help-all lists it */
       FT_PARAM_CLAMP = 2,     /* JSON: a value outside the range becomes the nearest one inside */
       FT_PARAM_PROPS = 4,     /* POST /props changes the server's default */
       FT_PARAM_REPORTED = 8,  /* generation_settings has it */
       FT_PARAM_IGNORED = 16,  /* has no effect here: other values than the default warn */
       FT_PARAM_REFUSED = 32,  /* not supported: other values than the default are errors */
       FT_PARAM_AT_LOAD = 64,  /* the option is applied when the model is loaded, not per request */
       FT_PARAM_NEAREST = 128, /* option: a number outside the range becomes the nearest one inside,
                                  with a warning */
       FT_PARAM_BARE = 256,    /* CHOICE: the value may be left out, which means "on" */
};

typedef struct ft_param {
    const char *name;    /* of the option, without dashes: "ctx-size"; NULL: no option */
    const char *aliases; /* other spellings as typed, separated by spaces; NULL: none */
    const char *unset;   /* FLAG: spellings as typed that unset it, beside --no-NAME */
    ft_param_kind kind;
    ft_param_group group;
    unsigned programs, flags;
    const char *value;    /* what --help calls the value: "N"; or the choices: "f32|f16" */
    double lo, hi;        /* of INT and FLOAT */
    const char *def;      /* the default as it would be typed; NULL: none */
    const char *def_note; /* the default in words where `def` does not tell all of it */
    const char *unit;     /* "tokens", "MiB", "seconds"; NULL: a plain number */
    const char *env;      /* environment variables that set it, separated by spaces; or NULL */
    const char *json[FT_JSON_APIS]; /* fields, separated by spaces; NULL: that API has none */
    const char *json_note;          /* shape of the JSON value where `kind` does not tell it */
    const char *gguf;               /* key with which a model file recommends a value; or NULL */
    const char *help;
    const char *why; /* IGNORED, REFUSED: the reason given in the message */
} ft_param;

/* Parts of rows. */
#define FT_IS_FLAG               .kind = FT_PARAM_FLAG
#define FT_IS_INT(v, min, max)   .kind = FT_PARAM_INT, .value = v, .lo = min, .hi = max
#define FT_IS_FLOAT(v, min, max) .kind = FT_PARAM_FLOAT, .value = v, .lo = min, .hi = max
#define FT_IS_TEXT(v)            .kind = FT_PARAM_TEXT, .value = v
#define FT_IS_CHOICE(v)          .kind = FT_PARAM_CHOICE, .value = v
#define FT_IS_LIST(v)            .kind = FT_PARAM_LIST, .value = v

/* The rows of base/request.def: ft_request_params[FT_ROW_min_p] is that of the field min_p. */
enum {
#define FT_SAMPLING(type, field, value, ...) FT_ROW_##field,
#define FT_REQUEST(type, field, value, ...)  FT_ROW_##field,
#define FT_ANSWER(type, field, value, ...)   FT_ROW_##field,
#define FT_SHAPED(field, ...)                FT_ROW_##field,
#include "base/request.def"
    FT_REQUEST_ROWS
};

extern const ft_param ft_request_params[FT_REQUEST_ROWS];

/* The n-th spelling of a row in request bodies, from 0 on, each once: those of llama.cpp first,
 * then OpenAI's, Anthropic's and Ollama's. false: there are no more. */
bool ft_param_json_name(const ft_param *p, int n, char out[64]);

/* One step of the sampler chain: its name in "samplers", and its letter in the short form. */
typedef struct ft_sampler_name {
    const char *name;
    char letter;
} ft_sampler_name;

extern const ft_sampler_name ft_sampler_names[]; /* in the default order; ends with name == NULL */

#endif
