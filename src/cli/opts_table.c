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
    {"outtype", NULL, FT_OPT_CHOICE, FT_CMD_CONVERT, "auto", "auto|f32|f16|bf16|q8_0", 0, 0, NULL,
     "type of the matrices; auto keeps the checkpoint's"},
    {"convert-mtp", "--mtp", FT_OPT_CHOICE, FT_CMD_CONVERT, "keep", "keep|drop|only", 0, 0, NULL,
     "the MTP block: with the model, left out, or alone"},
    {"vocab-only", NULL, FT_OPT_FLAG, FT_CMD_CONVERT, NULL, NULL, 0, 0, NULL,
     "write keys and vocabulary; the folder needs no weights"},
    {"no-vocab", NULL, FT_OPT_FLAG, FT_CMD_CONVERT, NULL, NULL, 0, 0, NULL,
     "write no vocabulary; the folder needs no tokenizer"},

    /* quantize */
    {"tensor-type", NULL, FT_OPT_LIST, FT_CMD_QUANTIZE, NULL, "PATTERN=TYPE", 0, 0, NULL,
     "type for the tensors whose name matches a regular expression; may be repeated"},
    {"tensor-type-file", NULL, FT_OPT_TEXT, FT_CMD_QUANTIZE, NULL, "FILE", 0, 0, NULL,
     "more of them, one PATTERN=TYPE on a line"},
    {"output-tensor-type", NULL, FT_OPT_TEXT, FT_CMD_QUANTIZE, NULL, "TYPE", 0, 0, NULL,
     "type of the output matrix"},
    {"token-embedding-type", NULL, FT_OPT_TEXT, FT_CMD_QUANTIZE, NULL, "TYPE", 0, 0, NULL,
     "type of the token embeddings"},
    {"leave-output-tensor", NULL, FT_OPT_FLAG, FT_CMD_QUANTIZE, NULL, NULL, 0, 0, NULL,
     "leave the output matrix as it is"},
    {"imatrix", NULL, FT_OPT_TEXT, FT_CMD_QUANTIZE, NULL, "FILE", 0, 0, NULL,
     "importance matrix (GGUF) that weighs the columns"},
    {"keep-mtp", NULL, FT_OPT_FLAG, FT_CMD_QUANTIZE, "1", NULL, 0, 0, NULL,
     "MTP tensors at Q8_0, so that drafts stay good"},
    {"pure", NULL, FT_OPT_FLAG, FT_CMD_QUANTIZE, NULL, NULL, 0, 0, NULL,
     "one type for all matrices, no mix"},
    {"allow-requantize", NULL, FT_OPT_FLAG, FT_CMD_QUANTIZE, NULL, NULL, 0, 0, NULL,
     "also read tensors that are quantised already; costs quality"},
    {"dry-run", NULL, FT_OPT_FLAG, FT_CMD_QUANTIZE | FT_CMD_SYNTH, NULL, NULL, 0, 0, NULL,
     "print types and sizes, write nothing (OUT may be left out)"},

    /* inspect */
    {"ctx", "-c", FT_OPT_INT, FT_CMD_INSPECT, "8192", "N", 1, 1 << 30, NULL,
     "context length to count memory for"},
    {"mmap", NULL, FT_OPT_FLAG, FT_CMD_INSPECT, "1", NULL, 0, 0, NULL,
     "map the file instead of reading it into memory"},
    {"check", NULL, FT_OPT_FLAG, FT_CMD_INSPECT, NULL, NULL, 0, 0, NULL,
     "read every tensor and look for scales that are not finite"},
    {"extract-mtp", NULL, FT_OPT_TEXT, FT_CMD_INSPECT, NULL, "OUT", 0, 0, NULL,
     "write the drafter inside the file to a file of its own"},
    {"merge-mtp", NULL, FT_OPT_TEXT, FT_CMD_INSPECT, NULL, "HEAD", 0, 0, NULL,
     "put the drafter of the file HEAD into a copy of the model; the second word names the copy"},

    /* synth */
    {"seed", "-s", FT_OPT_INT, FT_CMD_SYNTH, "1", "N", 0, 4294967295.0, NULL,
     "the same seed gives the same file"},
    {"no-mtp", NULL, FT_OPT_FLAG, FT_CMD_SYNTH, NULL, NULL, 0, 0, NULL, "leave out the MTP block"},

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
