/* schema_sample SCHEMA N SEED: prints N random documents that match the grammar of a schema, one
 * per line. Exit code 1 and the reason on standard error when the schema is rejected. */
#include "base/file.h"
#include "base/mem.h"
#include "text/schema.h"

#include "schema_gen.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int64_t n, seed;
    char *text;
    size_t bytes;
    ft_err err;
    ft_grammar *g;
    ft_grammar_state *s;
    if (argc != 4 || !ft_parse_i64(argv[2], 0, 1000000, &n) ||
        !ft_parse_i64(argv[3], 0, INT64_MAX, &seed)) {
        fprintf(stderr, "usage: schema_sample SCHEMA N SEED\n");
        return 2;
    }
    if (ft_file_read(&text, &bytes, argv[1], FT_SCHEMA_TEXT_MAX, &err) ||
        ft_schema_grammar(&g, (ft_str){text, bytes}, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    ft_trie *t = gen_trie();
    if (ft_grammar_state_new(&s, g, t, NULL, &err)) return 1;
    ft_rng r = {(uint64_t)seed};
    bool letters[128];
    gen_letters((ft_str){text, bytes}, letters);
    ft_buf out;
    ft_buf_init(&out, 1 << 20);
    int rc = 0;
    for (int64_t i = 0; i < n && !rc; i++) {
        if (!gen_text(&out, s, &r, letters, 200, 200000)) {
            fprintf(stderr, "no end after %.200s\n", ft_buf_z(&out));
            rc = 3;
        }
        printf("%s\n", ft_buf_z(&out));
    }
    ft_buf_release(&out);
    ft_grammar_state_free(s);
    ft_trie_free(t);
    ft_grammar_free(g);
    ft_free(text);
    return rc;
}
