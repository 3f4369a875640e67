/* tests/schema_gen.h - generates random texts of a grammar, byte by byte, that end. */
#ifndef FT_TESTS_SCHEMA_GEN_H
#define FT_TESTS_SCHEMA_GEN_H

#include "base/buf.h"
#include "base/rng.h"
#include "text/grammar.h"

#define GEN_EOG 256

static ft_str gen_bytes(void *user, int32_t id)
{
    (void)user;
    static unsigned char all[256];
    all[id & 255] = (unsigned char)id;
    return (ft_str){(char *)all + (id & 255), 1};
}

static bool gen_eog(void *user, int32_t id)
{
    (void)user;
    return id == GEN_EOG;
}

static inline ft_trie *gen_trie(void)
{
    const ft_token_source src = {NULL, 257, gen_bytes, gen_eog};
    return ft_trie_new(&src);
}

static bool gen_in(const uint32_t *bits, int id)
{
    return bits[id / 32] >> id % 32 & 1;
}

/* The characters in the patterns of a schema: random text matches a pattern without anchors only
 * with these characters. */
static inline void gen_letters(ft_str schema, bool in[128])
{
    memset(in, 0, 128);
    for (size_t at = 0; (at = ft_str_find(schema, FT_STR("\"pattern\""), at)) != SIZE_MAX;)
        for (at = ft_str_find(schema, FT_STR("\""), at + 9) + 1;
             at < schema.n && schema.p[at] != '"'; at++)
            if (schema.p[at] > 32) in[schema.p[at] & 127] = true;
}

static int gen_among(ft_rng *r, const uint32_t *bits, const bool in[128])
{
    int n = 0, got = -1;
    for (int id = 0; id < 128; id++)
        if (in[id] && gen_in(bits, id) && ft_rng_u64(r) % (uint64_t)++n == 0) got = id;
    return got;
}

/* Picks the next byte. After `soft` bytes, bytes that lead to an end are preferred. */
static int gen_pick(ft_rng *r, const uint32_t *bits, bool closing, const bool letters[128])
{
    static const int ends[] = {GEN_EOG, '"', '}', ']', '0', '1', 'n', 't', 'f', ','};
    const int letter = gen_among(r, bits, letters);
    for (int i = 0; i < 10 && closing; i++) {
        if (i == 2 && letter >= 0 && ft_rng_u64(r) % 20) return letter;
        if (gen_in(bits, ends[i])) return ends[i];
    }
    if (letter >= 0 && ft_rng_u64(r) % 2) return letter;
    for (int i = 0; i < 4; i++)
        if (gen_in(bits, ends[i]) && ft_rng_u64(r) % 6 == 0) return ends[i];
    const bool plain = ft_rng_u64(r) % 4 != 0; /* mostly ASCII, where there is a choice */
    int n = 0, got = -1;
    for (int id = 0; id < (plain ? 128 : 257); id++)
        if (gen_in(bits, id) && ft_rng_u64(r) % (uint64_t)++n == 0) got = id;
    for (int id = 128; got < 0 && id < 257; id++)
        if (gen_in(bits, id) && ft_rng_u64(r) % (uint64_t)++n == 0) got = id;
    for (int id = 128; n && got < 0 && id < 257; id++)
        if (gen_in(bits, id)) got = id;
    return got;
}

/* false: a dead end, or no end within `hard` bytes */
static inline bool gen_text(ft_buf *out, const ft_grammar_state *start, ft_rng *r,
                            const bool letters[128], size_t soft, size_t hard)
{
    ft_grammar_state *s = ft_grammar_state_clone(start);
    bool ok = false;
    ft_buf_clear(out);
    while (out->len < hard) {
        uint32_t bits[9];
        ft_grammar_allow(s, bits, 257);
        const int id = gen_pick(r, bits, out->len >= soft, letters);
        if (id < 0 || !ft_grammar_accept(s, id)) break;
        ok = id == GEN_EOG;
        if (ok) break;
        ft_buf_putc(out, (char)id);
    }
    ft_grammar_state_free(s);
    return ok;
}

#endif
