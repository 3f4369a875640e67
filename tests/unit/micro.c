/* tests/unit/micro.c - how a step is cut into micro-batches, and which way is chosen. */
#include "unit.h"

#include "base/mem.h"
#include "base/rng.h"
#include "engine/micro.h"
#include "engine/step.h"

#include <string.h>

enum { ROWS = 600, SPANS = 40 };

static int32_t out_row[ROWS], span_of[ROWS];
static ft_span span[SPANS];

/* Sequences with one token and its drafts, then prompts that begin anywhere. */
static ft_rowset random_rows(ft_rng *g)
{
    ft_rowset w = {.out_row = out_row, .span_of = span_of, .span = span};
    const int decode = (int)(ft_rng_u64(g) % 20), prompts = (int)(ft_rng_u64(g) % 4);
    for (int i = 0; i < decode + prompts || !i; i++) {
        const bool prompt = i >= decode;
        const int n = prompt ? 1 + (int)(ft_rng_u64(g) % 140) : 1 + (int)(ft_rng_u64(g) % 5);
        ft_span *s = &span[w.S++];
        *s = (ft_span){.slot = i, .row = w.T, .n = n, .start = (int)(ft_rng_u64(g) % 300)};
        s->tentative = !prompt && n > 1;
        s->replay = (int)(ft_rng_u64(g) % 3);
        s->serial = prompt ? (int)(ft_rng_u64(g) % (unsigned)(n + 1)) : 0;
        for (int k = 0; k < n; k++) {
            span_of[w.T + k] = i;
            if (!prompt || k == n - 1) out_row[w.n_out++] = w.T + k;
        }
        w.T += n;
    }
    return w;
}

/* The spans of all parts are those of the step, in order. */
static void check_parts(const ft_micro *m, const ft_rowset *w, int most)
{
    int row = 0, out = 0, at = 0, from = 0;
    assert_true(m->n > 1 && m->n <= most);
    for (int k = 0; k < m->n; k++) {
        const ft_micro_part *p = &m->part[k];
        int rows = 0;
        assert_int_equal(p->row, row);
        assert_int_equal(p->out, out);
        assert_true(p->T > 0 && p->S > 0);
        for (int i = 0; i < p->S; i++) {
            const ft_span *s = &m->span[p->span + i], *whole = &w->span[at];
            assert_int_equal(s->slot, whole->slot);
            assert_int_equal(s->row, rows);
            assert_int_equal(s->start, whole->start + from);
            assert_int_equal(s->replay, from ? 0 : whole->replay);
            assert_int_equal(s->tentative, whole->tentative);
            assert_int_equal(s->serial, FT_MAX(0, FT_MIN(whole->serial - from, s->n)));
            for (int t = 0; t < s->n; t++) assert_int_equal(m->span_of[row + rows + t], i);
            rows += s->n;
            from += s->n;
            assert_true(from <= whole->n);
            if (from < whole->n) { /* only prompts are cut, where delta nets cut them */
                assert_true(whole->n > FT_DECODE_ROWS && !whole->tentative);
                assert_int_equal((whole->start + from) % FT_CHUNK_ROWS, 0);
                continue;
            }
            from = 0;
            at++;
        }
        assert_int_equal(rows, p->T);
        for (int i = 0; i < p->n_out; i++, out++)
            assert_int_equal(m->out_row[out] + row, w->out_row[out]);
        row += p->T;
    }
    assert_int_equal(row, w->T);
    assert_int_equal(out, w->n_out);
    assert_int_equal(at, w->S);
}

static void cuts(void **state)
{
    ft_micro m;
    ft_rng g = {25};
    int cut = 0;
    (void)state;
    ft_micro_init(&m, ROWS, ROWS);
    for (int round = 0; round < 3000; round++) {
        const ft_rowset w = random_rows(&g);
        const int most = 1 + (int)(ft_rng_u64(&g) % 9), n = ft_micro_cut(&m, &w, most);
        if (n > 1) check_parts(&m, &w, most);
        cut += n > 1;
    }
    assert_true(cut > 2000);
    ft_micro_release(&m);
}

/* Equal sequences are shared equally. */
static void equal_parts(void **state)
{
    ft_micro m;
    (void)state;
    ft_micro_init(&m, ROWS, ROWS);
    for (int n = 2; n <= 16; n++) {
        ft_rowset w = {.T = n, .S = n, .n_out = n};
        w.out_row = out_row;
        w.span = span;
        for (int i = 0; i < n; i++) {
            span[i] = (ft_span){.slot = i, .row = i, .n = 1};
            out_row[i] = i;
        }
        for (int most = 2; most <= n; most++) {
            assert_int_equal(ft_micro_cut(&m, &w, most), most);
            for (int i = 0; i < most; i++)
                assert_true(m.part[i].T == n / most || m.part[i].T == n / most + 1);
        }
    }
    ft_micro_release(&m);
}

static void output_rows_out_of_order(void **state)
{
    ft_micro m;
    (void)state;
    ft_micro_init(&m, ROWS, ROWS);
    ft_rowset w = {.T = 2, .S = 2, .n_out = 2, .out_row = out_row, .span = span};
    span[0] = (ft_span){.n = 1};
    span[1] = (ft_span){.slot = 1, .row = 1, .n = 1};
    out_row[0] = 1;
    out_row[1] = 0;
    assert_int_equal(ft_micro_cut(&m, &w, 2), 1);
    ft_micro_release(&m);
}

/* The fastest way is found, and found again when it changes. */
static void choices(void **state)
{
    static const double each[2][FT_MICRO_CHOICES] = {{1.0, 0.7, 0.8}, {0.5, 0.7, 0.8}};
    (void)state;
    for (int T = 1; T <= 100; T += 33) {
        ft_micro_times t = {0};
        for (int era = 0; era < 2; era++) {
            int used[FT_MICRO_CHOICES] = {0};
            for (int i = 0; i < 20000; i++) {
                const int choice = ft_micro_choose(&t, T);
                assert_true(choice >= 0 && choice < FT_MICRO_CHOICES);
                ft_micro_timed(&t, T, choice, each[era][choice] * T);
                used[choice] += i >= 15000;
            }
            assert_true(used[era ? 0 : 1] > 4900);
            for (int i = 0; i < FT_MICRO_CHOICES; i++) assert_true(used[i] > 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts),
        cmocka_unit_test(equal_parts),
        cmocka_unit_test(output_rows_out_of_order),
        cmocka_unit_test(choices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
