/* tests/unit/kv_plan.c - the plan of the KV cache: the types of each layer. */
#include "kv/plan.h"

#include "base/mem.h"

#include "unit.h"

enum { L = 13 };

/* Twelve layers and one of a drafter: delta nets at 0, 4 and 8, a window at 1, full attention
 * elsewhere. */
static ft_cache_params params(ft_layer_state *layer, ft_kv_type kt, ft_kv_type vt, int group)
{
    for (int l = 0; l < L; l++)
        layer[l] = (ft_layer_state){.kind = l % 4 ? FT_STATE_FULL : FT_STATE_DELTA,
                                    .G = 2,
                                    .d = 128,
                                    .group = group,
                                    .Hk = 1,
                                    .Hv = 1,
                                    .S = 16,
                                    .C = 4};
    layer[1].kind = FT_STATE_WINDOW;
    layer[1].window = 512;
    layer[12].kind = FT_STATE_FULL;
    return (ft_cache_params){.layer = layer,
                             .n_layer = L,
                             .trunk = 12,
                             .kt = kt,
                             .vt = vt,
                             .slots = 1,
                             .cells = 1024,
                             .tentative = 4};
}

static void windows_keep_f16(void **state)
{
    (void)state;
    ft_layer_state layer[L];
    ft_cache_params p = params(layer, FT_KV_TURBO3, FT_KV_TURBO3, 2);
    assert_int_equal(ft_kv_plan_layer(&p, 1).kt, FT_KV_F16);
    assert_int_equal(ft_kv_plan_layer(&p, 1).vt, FT_KV_F16);
    assert_int_equal(ft_kv_plan_layer(&p, 2).kt, FT_KV_TURBO3);
    assert_null(ft_kv_plan_layer(&p, 2).why);
    p.kt = FT_KV_Q8_0;
    assert_int_equal(ft_kv_plan_layer(&p, 1).kt, FT_KV_Q8_0);
    assert_int_equal(ft_kv_plan_layer(&p, 1).vt, FT_KV_F16);
    p.exact = true;
    assert_int_equal(ft_kv_plan_layer(&p, 1).vt, FT_KV_TURBO3);
}

static void keys_of_many_heads_become_q8_0(void **state)
{
    (void)state;
    ft_layer_state layer[L];
    ft_cache_params p = params(layer, FT_KV_TURBO4, FT_KV_TURBO3, 6);
    assert_int_equal(ft_kv_plan_layer(&p, 5).kt, FT_KV_Q8_0);
    assert_int_equal(ft_kv_plan_layer(&p, 5).vt, FT_KV_TURBO3);
    assert_non_null(ft_kv_plan_layer(&p, 5).why);
    p.vt = FT_KV_F16; /* only one of keys and values is turbo: as requested */
    assert_int_equal(ft_kv_plan_layer(&p, 5).kt, FT_KV_TURBO4);
    p.vt = FT_KV_TURBO3;
    p.exact = true;
    assert_int_equal(ft_kv_plan_layer(&p, 5).kt, FT_KV_TURBO4);
}

/* The types of calibrated layers follow from the calibration. */
static void measured_keys(void **state)
{
    (void)state;
    static const struct {
        double plain, centred;
        ft_kv_type kt;
        bool mean;
    } want[] = {{0.99, 0.99, FT_KV_TURBO4, false}, {0.951, 0.999, FT_KV_TURBO4, false},
                {0.94, 0.99, FT_KV_TURBO4, true},  {0.3, 0.84, FT_KV_TURBO4, true},
                {0.94, 0.5, FT_KV_TURBO4, false},  {0.82, 0.82, FT_KV_Q8_0, false},
                {0.1, 0.7, FT_KV_Q8_0, false}};
    ft_layer_state layer[L];
    ft_cache_params p = params(layer, FT_KV_TURBO4, FT_KV_TURBO3, 8);
    float mean[2 * 128];
    ft_kv_calibration g[12] = {0};
    p.calibration = g;
    for (size_t i = 0; i < FT_COUNT(want); i++) {
        g[5] = (ft_kv_calibration){true, want[i].plain, want[i].centred, mean};
        const ft_kv_choice c = ft_kv_plan_layer(&p, 5);
        assert_int_equal(c.kt, want[i].kt);
        assert_int_equal(c.centred, want[i].mean);
        assert_int_equal(c.vt, FT_KV_TURBO3);
        assert_int_equal(c.why != NULL, c.centred || c.kt == FT_KV_Q8_0);
    }
    /* the other layers and that of the drafter were not measured: the head count decides */
    assert_int_equal(ft_kv_plan_layer(&p, 6).kt, FT_KV_Q8_0);
    assert_int_equal(ft_kv_plan_layer(&p, 12).kt, FT_KV_Q8_0);
    assert_true(ft_kv_pair_measured(FT_STR("compact")) && !ft_kv_pair_measured(FT_STR("turbo4")));
}

static uint64_t cache_bytes(ft_cache_params p)
{
    ft_kv_choice *plan = ft_kv_plan_new(&p);
    p.plan = plan;
    const uint64_t bytes = ft_cache_bytes(&p);
    ft_free(plan);
    return bytes;
}

/* The most recent positions of the turbo layers of the model are also stored in q8_0, in little
 * memory. */
static void recent_positions(void **state)
{
    (void)state;
    ft_layer_state layer[L];
    ft_cache_params p = params(layer, FT_KV_TURBO3, FT_KV_TURBO3, 2);
    assert_false(ft_kv_plan_layer(&p, 2).tail);
    p.tail = true;
    assert_true(ft_kv_plan_layer(&p, 2).tail && ft_kv_plan_layer(&p, 2).nt == FT_KV_Q8_0);
    assert_false(ft_kv_plan_layer(&p, 1).tail);  /* a window is f16 anyway */
    assert_false(ft_kv_plan_layer(&p, 12).tail); /* the layer of a drafter may be behind */
    layer[2].d = 80;
    assert_int_equal(ft_kv_plan_layer(&p, 2).nt, FT_KV_F16);
    layer[2].d = 128;
    p.vt = FT_KV_F16;
    assert_true(ft_kv_plan_layer(&p, 2).tail);
    p.kt = FT_KV_Q8_0;
    assert_false(ft_kv_plan_layer(&p, 2).tail);
    p.kt = p.vt = FT_KV_TURBO3;
    layer[1].kind = FT_STATE_FULL; /* no other windows */
    p.cells = 32768;
    p.rows = 512;
    const uint64_t with = cache_bytes(p);
    p.tail = false;
    assert_false(ft_kv_plan_layer(&p, 2).tail);
    const uint64_t without = cache_bytes(p);
    assert_true(with > without && (double)with < 1.08 * (double)without);
    p.tail = true;
    p.exact = true;
    assert_true(cache_bytes(p) == without);
    assert_true(ft_kv_tail_wanted(-1, "quality") && ft_kv_tail_wanted(-1, "balanced"));
    assert_false(ft_kv_tail_wanted(-1, "compact") || ft_kv_tail_wanted(-1, "turbo3"));
    assert_true(ft_kv_tail_wanted(1, NULL) && !ft_kv_tail_wanted(0, "quality"));
    assert_false(ft_kv_tail_wanted(-1, NULL));
}

static void boundaries_of_turbo2(void **state)
{
    (void)state;
    ft_layer_state layer[L];
    ft_cache_params p = params(layer, FT_KV_Q8_0, FT_KV_TURBO2, 2);
    /* full-attention layers of the model: 2 3 5 6 7 9 10 11 */
    for (int l = 2; l < L; l++) {
        if (layer[l].kind != FT_STATE_FULL) continue;
        const bool edge = l == 2 || l == 3 || l == 10 || l == 11;
        assert_int_equal(ft_kv_plan_layer(&p, l).vt, edge ? FT_KV_Q8_0 : FT_KV_TURBO2);
        const ft_kv_choice with = ft_kv_plan_layer(&p, l);
        p.n_layer = 12; /* the same without a drafter */
        assert_int_equal(ft_kv_plan_layer(&p, l).vt, with.vt);
        p.n_layer = L;
    }
    p.vt = FT_KV_TURBO3;
    assert_int_equal(ft_kv_plan_layer(&p, 2).vt, FT_KV_TURBO3);
    p.vt = FT_KV_TURBO2;
    layer[7].kind = FT_STATE_DELTA; /* seven are too few */
    assert_int_equal(ft_kv_plan_layer(&p, 2).vt, FT_KV_TURBO2);
}

static void names_of_pairs(void **state)
{
    (void)state;
    ft_kv_type k, v;
    assert_true(ft_kv_pair_find(FT_STR("quality"), &k, &v));
    assert_true(k == FT_KV_Q8_0 && v == FT_KV_TURBO4);
    assert_true(ft_kv_pair_find(FT_STR("turbo4-legacy"), &k, &v));
    assert_true(k == FT_KV_TURBO4_LEGACY && v == k);
    assert_true(ft_kv_pair_find(FT_STR("Q8_0/turbo2"), &k, &v));
    assert_true(k == FT_KV_Q8_0 && v == FT_KV_TURBO2);
    static const char *const bad[] = {"", "/", "turbo5", "q8_0/", "/f16", "f16/f16/f16", "q8_0/x"};
    for (size_t i = 0; i < FT_COUNT(bad); i++)
        assert_false(ft_kv_pair_find(ft_str_of(bad[i]), &k, &v));
    for (int t = 0; t < FT_KV_TYPES; t++) {
        assert_true(ft_kv_type_find(ft_str_of(ft_kv_type_name((ft_kv_type)t)), &k));
        assert_int_equal(k, t);
        assert_non_null(strstr(ft_kv_type_names(), ft_kv_type_name((ft_kv_type)t)));
    }
}

static void bytes_and_ratios(void **state)
{
    (void)state;
    static const struct {
        ft_kv_type t;
        double ratio128, ratio64;
    } want[] = {{FT_KV_TURBO4, 3.8, 3.76}, {FT_KV_TURBO3, 5.1, 4.92}, {FT_KV_TURBO2, 7.5, 7.11}};
    for (size_t i = 0; i < FT_COUNT(want); i++)
        for (int d = 64; d <= 512; d *= 2) {
            ft_layer_state layer[L];
            ft_cache_params p = params(layer, want[i].t, want[i].t, 2);
            p.exact = true;
            for (int l = 0; l < L; l++) {
                layer[l].d = d;
                if (layer[l].kind == FT_STATE_DELTA) layer[l].kind = FT_STATE_NONE;
            }
            const uint64_t bytes = cache_bytes(p);
            double f16;
            ft_kv_choice *plan = ft_kv_plan_new(&p);
            p.plan = plan;
            const double token = ft_kv_token_bytes(&p, &f16);
            ft_free(plan);
            p.kt = p.vt = FT_KV_F16;
            const double need = d == 64 ? want[i].ratio64 : want[i].ratio128;
            assert_true((double)cache_bytes(p) / (double)bytes >= need - 0.005);
            assert_true(f16 / token >= need - 0.005);
        }
}

static void the_table_names_what_is_special(void **state)
{
    (void)state;
    ft_layer_state layer[L];
    ft_cache_params p = params(layer, FT_KV_TURBO4, FT_KV_TURBO2, 8);
    ft_kv_choice *plan = ft_kv_plan_new(&p);
    p.plan = plan;
    ft_buf b;
    ft_buf_init(&b, 1 << 16);
    ft_kv_plan_table(&b, &p);
    static const char *const words[] = {
        "last 512", "window",     "q8_0",    "turbo2",
        "boundary", "many query", "drafter", "times smaller than f16"};
    for (size_t i = 0; i < FT_COUNT(words); i++) assert_non_null(strstr(ft_buf_z(&b), words[i]));
    ft_buf_release(&b);
    ft_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_keep_f16),     cmocka_unit_test(keys_of_many_heads_become_q8_0),
        cmocka_unit_test(boundaries_of_turbo2), cmocka_unit_test(measured_keys),
        cmocka_unit_test(recent_positions),     cmocka_unit_test(names_of_pairs),
        cmocka_unit_test(bytes_and_ratios),     cmocka_unit_test(the_table_names_what_is_special),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
