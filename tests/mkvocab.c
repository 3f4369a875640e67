/* usage: mkvocab TOKENIZER.json OUT.gguf - the vocabulary of a checkpoint, for the tests. */
#include "vocab_json.h"

int main(int argc, char **argv)
{
    ft_err err;
    if (argc != 3) {
        fprintf(stderr, "usage: mkvocab TOKENIZER.json OUT.gguf\n");
        return 1;
    }
    if (vj_write_as(argv[1], argv[2], NULL, &err)) {
        fprintf(stderr, "mkvocab: %s\n", err.text);
        return 1;
    }
    return 0;
}
