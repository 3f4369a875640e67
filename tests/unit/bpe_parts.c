/* tests/unit/bpe_parts.c - the parts of the encoder, each compared with a naive implementation. */
#include "base/mem.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "text/bytemap.h"
#include "text/merge.h"
#include "text/merge_tree.h"
#include "text/nfc.h"
#include "text/special.h"

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <utf8proc.h>

/* ---- merges ---- */

typedef struct rules {
    uint32_t a[400], b[400], id[400];
    uint32_t n;
} rules;

/* The definition: merge the pair of lowest rank, leftmost first, until there is none. */
static size_t merge_naive(const rules *r, ft_sym *s, size_t n)
{
    for (;;) {
        uint32_t best = UINT32_MAX;
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++)
            for (uint32_t k = 0; k < r->n && k < best; k++)
                if (r->a[k] == s[i].id && r->b[k] == s[i + 1].id) {
                    best = k;
                    at = i;
                }
        if (best == UINT32_MAX) return n;
        s[at] = (ft_sym){r->id[best], s[at].len + s[at + 1].len};
        memmove(s + at + 1, s + at + 2, (n - at - 2) * sizeof *s);
        n--;
    }
}

static void shuffle_rules(rules *r, ft_rng *g)
{
    for (uint32_t i = r->n; i > 1; i--) {
        const uint32_t k = (uint32_t)(ft_rng_u64(g) % i);
        const uint32_t t[3] = {r->a[i - 1], r->b[i - 1], r->id[i - 1]};
        r->a[i - 1] = r->a[k], r->b[i - 1] = r->b[k], r->id[i - 1] = r->id[k];
        r->a[k] = t[0], r->b[k] = t[1], r->id[k] = t[2];
    }
}

/* Makes random rules over `letters` symbols. Results are new tokens in rank order, as training
 * produces them, or in any order when `wild` is set. */
static void make_rules(rules *r, ft_rng *g, uint32_t letters, uint32_t n, bool wild)
{
    uint32_t tokens = letters;
    r->n = 0;
    while (r->n < n) {
        const uint32_t a = (uint32_t)(ft_rng_u64(g) % tokens),
                       b = (uint32_t)(ft_rng_u64(g) % tokens);
        bool known = false;
        for (uint32_t k = 0; k < r->n; k++) known |= r->a[k] == a && r->b[k] == b;
        if (known) continue;
        r->a[r->n] = a;
        r->b[r->n] = b;
        r->id[r->n++] = tokens++;
    }
    if (wild) shuffle_rules(r, g);
}

static void merging_follows_the_definition(void **state)
{
    (void)state;
    ft_rng g = {5};
    ft_merge_work w = {0};
    static rules r;
    for (int round = 0; round < 400; round++) {
        const uint32_t letters = 1 + (uint32_t)(ft_rng_u64(&g) % 5);
        make_rules(&r, &g, letters, 1 + (uint32_t)(ft_rng_u64(&g) % (round % 2 ? 12 : 150)),
                   round % 3 == 0);
        ft_merges m;
        assert_true(ft_merges_init(&m, r.n));
        for (uint32_t i = 0; i < r.n; i++) ft_merges_put(&m, r.a[i], r.b[i], r.id[i]);
        for (int text = 0; text < 4; text++) {
            static ft_sym want[1200], got[1200];
            const size_t n = 1 + ft_rng_u64(&g) % (text ? 1199 : 60);
            for (size_t i = 0; i < n; i++) {
                const bool hole = ft_rng_u64(&g) % 97 == 0;
                want[i] = (ft_sym){hole ? FT_NO_SYM : (uint32_t)(ft_rng_u64(&g) % letters), 1};
                if (text == 3 && !hole) want[i].id = (uint32_t)(i / 40) % letters; /* long runs */
            }
            memcpy(got, want, sizeof got);
            const size_t k = merge_naive(&r, want, n);
            assert_int_equal(ft_merge(&m, &w, got, n), k);
            for (size_t i = 0; i < k; i++) {
                assert_int_equal(got[i].id, want[i].id);
                assert_int_equal(got[i].len, want[i].len);
            }
        }
        ft_merges_release(&m);
        ft_merge_work_release(&w); /* working memory belongs to one set of rules */
    }
}

/* Makes rules by BPE training: repeatedly the most frequent pair of a text. */
static void train_rules(rules *r, ft_rng *g, uint32_t letters, uint32_t n)
{
    static ft_sym text[250];
    size_t len = FT_COUNT(text);
    for (size_t i = 0; i < len; i++) {
        const bool again = i > 20 && ft_rng_u64(g) % 4; /* some repetition */
        text[i] = (ft_sym){
            again ? text[i - 1 - ft_rng_u64(g) % 20].id : (uint32_t)(ft_rng_u64(g) % letters), 1};
    }
    for (r->n = 0; r->n < n && len > 1;) {
        size_t best = 0, most = 0;
        for (size_t i = 0; i + 1 < len; i++) {
            size_t k = 0;
            for (size_t o = 0; o + 1 < len; o++)
                k += text[o].id == text[i].id && text[o + 1].id == text[i + 1].id;
            if (k > most) most = k, best = i;
        }
        r->a[r->n] = text[best].id;
        r->b[r->n] = text[best + 1].id;
        r->id[r->n] = letters + r->n;
        r->n++;
        len = merge_naive(r, text, len);
    }
}

/* Makes a rule for every way to build a word of a random list from two others, in any order or the
 * shortest words first: one token then has several rules. */
static void split_rules(rules *r, ft_rng *g, uint32_t letters, bool wild)
{
    char word[60][8];
    uint32_t n = 0;
    for (; n < letters; n++) snprintf(word[n], sizeof *word, "%c", (char)('a' + n));
    for (int tries = 0; tries < 120 && n < FT_COUNT(word); tries++) {
        char both[8];
        snprintf(both, sizeof both, "%.3s%.4s", word[ft_rng_u64(g) % n], word[ft_rng_u64(g) % n]);
        memcpy(word[n], both, sizeof both);
        bool known = false;
        for (uint32_t i = 0; i < n; i++) known |= !strcmp(word[i], word[n]);
        n += !known;
    }
    r->n = 0;
    for (size_t len = 2; len < sizeof *word; len++)
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t k = 0; k < n * n && strlen(word[i]) == len && r->n < 400; k++) {
                char both[16];
                snprintf(both, sizeof both, "%s%s", word[k / n], word[k % n]);
                if (strcmp(both, word[i])) continue;
                r->a[r->n] = k / n, r->b[r->n] = k % n, r->id[r->n++] = i;
            }
    if (wild) shuffle_rules(r, g);
}

/* Encoding with the tree, where there is one, gives the result of the definition. */
static void tree_follows_the_definition(void **state)
{
    (void)state;
    ft_rng g = {29};
    static rules r;
    int trees[3] = {0}, refused = 0;
    for (int round = 0; round < 600; round++) {
        const uint32_t letters = 1 + (uint32_t)(ft_rng_u64(&g) % 5);
        const uint32_t n_rules = 1 + (uint32_t)(ft_rng_u64(&g) % (round % 2 ? 12 : 60));
        const bool wild = round % 5 == 0;
        if (round % 3 == 0) make_rules(&r, &g, letters, n_rules, wild);
        if (round % 3 == 1) train_rules(&r, &g, letters, n_rules);
        if (round % 3 == 2) split_rules(&r, &g, letters, wild);
        ft_merges m;
        assert_true(ft_merges_init(&m, r.n));
        for (uint32_t i = 0; i < r.n; i++) ft_merges_put(&m, r.a[i], r.b[i], r.id[i]);
        ft_base_sym base[5];
        for (uint32_t i = 0; i < letters; i++) base[i] = (ft_base_sym){{&"abcde"[i], 1}, i};
        ft_merge_tree *t = ft_merge_tree_new(&m, base, letters, letters + 400);
        ft_merges_release(&m);
        refused += !t;
        trees[round % 3] += t != NULL;
        ft_tree_work w = {0};
        for (int text = 0; t && text < 12; text++) {
            static ft_sym want[700];
            static char s[700];
            const size_t n = 1 + ft_rng_u64(&g) % (text % 2 ? 699 : 30);
            const size_t run = 1 + ft_rng_u64(&g) % 60;
            for (size_t i = 0; i < n; i++) {
                want[i] = (ft_sym){(uint32_t)(ft_rng_u64(&g) % letters), 1};
                if (text == 4 || text == 5) want[i].id = (uint32_t)(i / run) % letters;
                if (text > 5 && i >= run && ft_rng_u64(&g) % 40)
                    want[i].id = (uint32_t)(s[i - run] - 'a');
                s[i] = (char)('a' + want[i].id);
            }
            const size_t k = merge_naive(&r, want, n);
            assert_int_equal(ft_merge_tree_encode(t, &w, (ft_str){s, n}), k);
            for (size_t i = 0; i < k; i++) assert_int_equal(w.id[i], want[i].id);
            s[n / 2] = 'z';
            assert_int_equal(ft_merge_tree_encode(t, &w, (ft_str){s, n}), 0);
        }
        ft_tree_work_release(&w);
        ft_merge_tree_free(t);
    }
    for (int i = 0; i < 3; i++) assert_in_range(trees[i], 60, 200);
    assert_in_range(refused, 30, 400);
}

static void first_of_two_equal_rules_wins(void **state)
{
    (void)state;
    ft_merges m;
    ft_merge_work w = {0};
    assert_true(ft_merges_init(&m, 2));
    ft_merges_put(&m, 0, 1, 7);
    ft_merges_put(&m, 0, 1, 8);
    ft_sym s[2] = {{0, 1}, {1, 1}};
    assert_int_equal(ft_merge(&m, &w, s, 2), 1);
    assert_int_equal(s[0].id, 7);
    ft_merges_release(&m);
    ft_merge_work_release(&w);
}

/* ---- special tokens ---- */

static void cutting_is_longest_first(void **state)
{
    (void)state;
    ft_rng g = {17};
    for (int round = 0; round < 4000; round++) {
        char text[40], name[8][8];
        ft_special_token list[8];
        const size_t n_list = 1 + ft_rng_u64(&g) % 8, n = ft_rng_u64(&g) % sizeof text;
        size_t k = 0;
        for (size_t i = 0; i < n_list; i++) {
            const size_t len = 1 + ft_rng_u64(&g) % 7;
            for (size_t c = 0; c < len; c++) name[k][c] = (char)('a' + ft_rng_u64(&g) % 2);
            list[k] = (ft_special_token){{name[k], len}, (int32_t)k, ft_rng_u64(&g) % 2};
            bool again = false; /* texts are unique, and tokens of equal length have no order */
            for (size_t o = 0; o < k; o++) again |= list[o].text.n == len;
            if (!again) k++;
        }
        for (size_t i = 0; i < n; i++) text[i] = (char)('a' + ft_rng_u64(&g) % 2);
        const bool parse = ft_rng_u64(&g) % 2;
        int32_t owner[40]; /* which match a byte belongs to: its start * 8 + token, or -1 */
        for (size_t i = 0; i < n; i++) owner[i] = -1;
        for (size_t len = 7; len > 0; len--)
            for (size_t t = 0; t < k; t++) {
                if (list[t].text.n != len || !(parse || list[t].user)) continue;
                for (size_t i = 0; i + len <= n; i++) {
                    bool is_free = !memcmp(text + i, list[t].text.p, len);
                    for (size_t c = 0; c < len; c++) is_free &= owner[i + c] == -1;
                    for (size_t c = 0; is_free && c < len; c++) owner[i + c] = (int32_t)(i * 8 + t);
                }
            }
        ft_special s;
        ft_special_token *take = ft_new_n(ft_special_token, k);
        memcpy(take, list, k * sizeof *take);
        ft_special_init(&s, take, k);
        ft_special_cut cut;
        ft_special_cut_init(&cut, &s, (ft_str){text, n}, parse);
        ft_special_match m;
        size_t at = 0;
        while (ft_special_cut_next(&cut, &m)) {
            for (; at < m.at; at++) assert_int_equal(owner[at], -1);
            for (; at < m.at + m.len; at++) assert_int_equal(owner[at], m.at * 8 + (size_t)m.id);
        }
        for (; at < n; at++) assert_int_equal(owner[at], -1);
        ft_special_cut_release(&cut);
        ft_special_release(&s);
    }
}

/* ---- normalisation ---- */

static void normal_form_equals_utf8proc(void **state)
{
    (void)state;
    static const uint32_t c[] = {
        'a',    'e',    'o',    'q',     0xE9,    0x1EBF,  0x300,   0x301,   0x302,
        0x307,  0x308,  0x30A,  0x316,   0x323,   0x328,   0x334,   0x338,   0x344,
        0x345,  0x3B1,  0x1100, 0x1112,  0x1161,  0x1175,  0x11A8,  0x11C2,  0xAC00,
        0xAC01, 0x212B, 0x2126, 0x958,   0x915,   0x93C,   0x9C7,   0x9BE,   0x3099,
        0x304B, 0x4E00, 0xF900, 0x1F600, 0x11099, 0x110BA, 0x1D15E, 0x1D165, 0xFB1D,
        0x5B0,  0x2ADC, 0x7FD,  0x7F0,   0xE0100, ' ',     '\n',    0};
    ft_rng g = {23};
    ft_nfc_work w = {0};
    int changed = 0;
    for (int round = 0; round < 50000; round++) {
        char text[128];
        size_t n = 0;
        for (uint64_t k = 1 + ft_rng_u64(&g) % 12; k > 0; k--)
            n += (size_t)ft_utf8_encode(c[ft_rng_u64(&g) % FT_COUNT(c)], text + n);
        utf8proc_uint8_t *want;
        const utf8proc_ssize_t len =
            utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n, &want,
                         UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        assert_true(len > 0);
        ft_buf got;
        ft_buf_init(&got, 1024);
        ft_nfc((ft_str){text, n}, &w, &got);
        assert_int_equal(got.len, len);
        assert_memory_equal(got.data, want, got.len);
        const bool same = got.len == n && !memcmp(got.data, text, n);
        if (!same) assert_true(ft_nfc_needed((ft_str){text, n}));
        changed += !same;
        ft_buf_release(&got);
        free(want);
    }
    assert_true(changed > 10000);
    ft_nfc_work_release(&w);
}

/* No character that the quick check considers inert may change, alone or after another. */
static void quick_check_is_conservative(void **state)
{
    (void)state;
    ft_nfc_work w = {0};
    ft_buf got;
    ft_buf_init(&got, 64);
    static const uint32_t before[] = {0, 'a', 0x1100, 0xAC00, 0x915, 0x3046, 0x9C7, 0x1025};
    for (uint32_t c = 0x80; c < 0x110000; c++) {
        if (c >= 0xD800 && c < 0xE000) continue;
        for (size_t i = 0; i < FT_COUNT(before); i++) {
            char text[8];
            size_t n = before[i] ? (size_t)ft_utf8_encode(before[i], text) : 0;
            n += (size_t)ft_utf8_encode(c, text + n);
            if (ft_nfc_needed((ft_str){text, n})) continue;
            ft_buf_clear(&got);
            ft_nfc((ft_str){text, n}, &w, &got);
            assert_int_equal(got.len, n);
            assert_memory_equal(got.data, text, n);
        }
    }
    ft_buf_release(&got);
    ft_nfc_work_release(&w);
}

static void long_runs_of_marks_take_linear_time(void **state)
{
    (void)state;
    enum { N = 200000 };
    ft_buf text, got;
    ft_buf_init(&text, 8 * N);
    ft_buf_init(&got, 8 * N);
    for (int i = 0; i < N; i++) ft_buf_puts(&text, i < N / 2 ? "\u0301" : "\u0316");
    ft_nfc_work w = {0};
    ft_nfc(ft_buf_str(&text), &w, &got); /* minutes, when it is quadratic */
    assert_int_equal(got.len, text.len);
    assert_memory_equal(got.data, "\u0316\u0316", 4);
    ft_nfc_work_release(&w);
    ft_buf_release(&text);
    ft_buf_release(&got);
}

static void byte_alphabet_is_one_to_one(void **state)
{
    (void)state;
    for (int b = 0; b < 256; b++) assert_int_equal(ft_bytemap_byte(ft_bytemap_char((uint8_t)b)), b);
    int n = 0;
    for (uint32_t c = 0; c < 0x400; c++) n += ft_bytemap_byte(c) >= 0;
    assert_int_equal(n, 256);
    assert_int_equal(ft_bytemap_char(' '), 0x120);
    assert_int_equal(ft_bytemap_char('\n'), 0x10A);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merging_follows_the_definition),
        cmocka_unit_test(tree_follows_the_definition),
        cmocka_unit_test(first_of_two_equal_rules_wins),
        cmocka_unit_test(cutting_is_longest_first),
        cmocka_unit_test(normal_form_equals_utf8proc),
        cmocka_unit_test(quick_check_is_conservative),
        cmocka_unit_test(long_runs_of_marks_take_linear_time),
        cmocka_unit_test(byte_alphabet_is_one_to_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
