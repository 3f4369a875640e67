/* cli/opts_table.c - every option of every program, in one place. The environment is otherwise
 * read for three debug switches only: FT_CPU, FT_LOG and FT_PROBE. */
#include "cli/opts.h"

#define ANY   FT_CMD_ANY
#define MODEL FT_CMD_MODEL

const ft_opt ft_opt_table[] = {
    {"help", "-h", FT_OPT_FLAG, ANY, NULL, NULL, 0, 0, NULL, "show this help"},
    {"quiet", "-q", FT_OPT_FLAG, ANY, NULL, NULL, 0, 0, NULL, "no progress, no notes"},
    {"threads", "-t", FT_OPT_INT, MODEL | FT_CMD_CONVERT | FT_CMD_QUANTIZE | FT_CMD_SYNTH, "0", "N",
     0, 1024, "LLAMA_ARG_THREADS", "threads to work with; 0 = one per core"},
    {"json", NULL, FT_OPT_FLAG, MODEL | FT_CMD_INSPECT | FT_CMD_QUANTIZE, NULL, NULL, 0, 0, NULL,
     "print one JSON object instead of text"},

    /* convert */

    /* quantize */

    /* inspect */

    /* synth */

    /* tokenize, template */
    {"model", "-m", FT_OPT_TEXT, FT_CMD_TOKENIZE | FT_CMD_TEMPLATE, NULL, "FILE", 0, 0, NULL,
     "GGUF file that has the vocabulary and the template"},
    {"file", "-f", FT_OPT_TEXT, FT_CMD_TOKENIZE | FT_CMD_TEMPLATE, NULL, "FILE", 0, 0, NULL,
     "tokenize: the input, - or nothing: standard input; template: the Jinja template"},
    {"jsonl", NULL, FT_OPT_FLAG, FT_CMD_TOKENIZE | FT_CMD_TEMPLATE, NULL, NULL, 0, 0, NULL,
     "one JSON object per line, in and out: {\"text\": ...} to {\"ids\": [...]}, or "
     "{\"messages\": ...} to {\"prompt\": ...}"},
    {"detokenize", NULL, FT_OPT_FLAG, FT_CMD_TOKENIZE, NULL, NULL, 0, 0, NULL,
     "the way back: ids in, text out"},
    {"ids", NULL, FT_OPT_FLAG, FT_CMD_TOKENIZE, NULL, NULL, 0, 0, NULL,
     "print the ids alone, on one line"},
    {"nfc", NULL, FT_OPT_FLAG, FT_CMD_TOKENIZE, "1", NULL, 0, 0, NULL,
     "normalise the text to Unicode form C where the model was trained so"},
    {"parse-special", NULL, FT_OPT_FLAG, FT_CMD_TOKENIZE, "1", NULL, 0, 0, NULL,
     "the text of a control token is that token"},
    {"add-special", NULL, FT_OPT_FLAG, FT_CMD_TOKENIZE, NULL, NULL, 0, 0, NULL,
     "begin and end as the model wants: BOS, EOS"},

    /* models */

    {NULL, NULL, FT_OPT_FLAG, 0, NULL, NULL, 0, 0, NULL, NULL},
};
