/* fuzz/hf.c - the JSON files of a Hugging Face folder: config.json, tokenizer.json,
 * tokenizer_config.json and generation_config.json, in this order, separated by zero bytes. Keys
 * and vocabulary are built from them and discarded. */
#define _POSIX_C_SOURCE 200809L
#include "tools/hf.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void no_log(void *user, ft_log_level level, const char *line)
{
    (void)user;
    (void)level;
    (void)line;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    ft_hf h;
    ft_err err;
    memset(&h, 0, sizeof h);
    ft_dict_init(&h.by_name);
    ft_log_to(no_log, NULL);
    json_t **part[] = {&h.config, &h.tokenizer, &h.tokenizer_config, &h.generation};
    const char *p = (const char *)data, *end = p + n;
    for (size_t i = 0; i < 4 && p < end; i++) {
        const char *zero = memchr(p, 0, (size_t)(end - p)), *stop = zero ? zero : end;
        ft_hf_json_parse(part[i], p, (size_t)(stop - p), "part", &err);
        p = stop + 1;
    }
    char path[64];
    snprintf(path, sizeof path, "/tmp/foretoken-fuzz-hf-%d.gguf", (int)getpid());
    if (!ft_hf_setup(&h, "/nonexistent", &err) && !ft_gguf_writer_open(&h.w, path, &err)) {
        h.family->build(&h);
        if (!h.note.st) ft_hf_vocab(&h, &err);
        ft_gguf_writer_abort(h.w);
    }
    ft_hf_close(&h);
    return 0;
}
