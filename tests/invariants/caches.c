/* tests/invariants/caches.c - for every KV cache type: the ids do not change with drafting, with
 * other sequences in the batch, or when the prompt starts with positions that the slot has cached.
 */
#define _XOPEN_SOURCE 700
#include "engine/calibrate.h"
#include "invariants.h"

enum { PROMPT = 70, REPLY = 16 }; /* crosses a page boundary */
enum { LONG = 375 }; /* long enough to move the window of recent positions and to free old pages */

static const ft_kv_calibration *calibration; /* of the current model, or NULL */

static ft_engine_params params_of(ft_kv_type kt, ft_kv_type vt, bool exact, int draft_max)
{
    ft_engine_params p = inv_params(draft_max);
    p.calibration = calibration;
    p.ctx = 512;
    p.kt = kt;
    p.vt = vt;
    p.kv_exact = exact;
    p.kv_tail = true;
    return p;
}

static void check_batched(const inv_model *m, ft_engine_params p, const inv_response *alone,
                          const char *what)
{
    static inv_response r[2];
    int32_t other[33];
    p.slots = 2;
    ft_engine *e = inv_engine(m, &p);
    const ft_task j = inv_job(REPLY, 0);
    inv_prompt(other, 33, m->m->V, 77);
    inv_start(&r[0], ft_slot_new(e), &j, other, 33);
    inv_start(&r[1], ft_slot_new(e), &j, alone->id, alone->n_prompt);
    while (ft_engine_step(e)) {
    }
    inv_done(&r[1]);
    check(inv_same(alone, &r[1]), "%s, %s: other sequences change token %d", m->name, what,
          inv_first_difference(alone, &r[1]));
    ft_engine_free(e);
}

static void check_cached_prompt(const inv_model *m, ft_engine_params p, const inv_response *alone,
                                const char *what)
{
    static inv_response first, second;
    ft_engine *e = inv_engine(m, &p);
    ft_slot *s = ft_slot_new(e);
    const ft_task j = inv_job(REPLY, 0), few = inv_job(3, 0);
    inv_response_on(&first, s, &few, alone->id, alone->n_prompt - 20);
    inv_response_on(&second, s, &j, alone->id, alone->n_prompt);
    check(inv_same(alone, &second), "%s, %s: a cached prefix changes token %d", m->name, what,
          inv_first_difference(alone, &second));
    ft_engine_free(e);
}

static void check_types(const inv_model *m, ft_kv_type kt, ft_kv_type vt, bool exact)
{
    const int n = exact ? PROMPT : LONG;
    static inv_response plain, drafted;
    char what[64];
    int32_t ids[LONG];
    snprintf(what, sizeof what, "%s/%s%s%s", ft_kv_type_name(kt), ft_kv_type_name(vt),
             exact ? ", exact" : "", calibration ? ", centred" : "");
    inv_prompt(ids, n, m->m->V, 4);
    const ft_engine_params p = params_of(kt, vt, exact, 0), q = params_of(kt, vt, exact, 5);
    const ft_task j = inv_job(REPLY, 0), k = inv_job(REPLY, 5);
    inv_response_alone(&plain, m, &p, &j, ids, n);
    inv_oracle o = {.silent = 2, .rng = {9}};
    inv_response_oracle(&drafted, &o, &plain, m, &q, &k);
    check(inv_same(&plain, &drafted), "%s, %s: drafting changes token %d", m->name, what,
          inv_first_difference(&plain, &drafted));
    check(o.decode_steps > 0 && o.wrong == 0, "%s, %s: %d of %d steps accepted wrong draft tokens",
          m->name, what, o.wrong, o.decode_steps);
    check_batched(m, p, &plain, what);
    check_cached_prompt(m, p, &plain, what);
}

/* Keys with their mean subtracted: the calibration is set so that this encoding is required. */
static void check_centred_keys(const inv_model *m)
{
    ft_kv_calibration *g = NULL;
    ft_err err;
    int32_t ids[PROMPT];
    inv_prompt(ids, PROMPT, m->m->V, 5);
    if (ft_calibrate(&g, m->m, FT_KV_TURBO4, ids, PROMPT, 256, &err)) {
        check(false, "%s: %s", m->name, err.text);
        return;
    }
    int n = 0;
    for (int l = 0; l < m->m->L; l++) {
        if (!g[l].measured) continue;
        check(g[l].plain > 0.9 && g[l].centred > 0.9, "%s: scores of layer %d correlate by %g, %g",
              m->name, l, g[l].plain, g[l].centred);
        g[l].plain = 0;
        n++;
    }
    check(n > 0, "%s: no layer was measured", m->name);
    calibration = g;
    check_types(m, FT_KV_TURBO4, FT_KV_TURBO3, false);
    calibration = NULL;
    ft_calibration_free(g, m->m);
}

int main(int argc, char **argv)
{
    static const char *const model[][2] = {{"qwen35-gqa", NULL},
                                           {"gemma4-gqa", "gemma4-gqa-assistant"}};
    for (size_t i = 0; i < FT_COUNT(model); i++) {
        if (!inv_wanted(argc, argv, model[i][0])) continue;
        inv_model m = inv_model_golden(model[i][0], model[i][1], 2);
        for (int t = 0; t < FT_KV_TYPES; t++) {
            if (!ft_kv_row_fits((ft_kv_type)t, m.m->limits.head_d)) continue;
            check_types(&m, (ft_kv_type)t, (ft_kv_type)t, true);
        }
        check_types(&m, FT_KV_TURBO3, FT_KV_TURBO3, false);
        check_types(&m, FT_KV_F16, FT_KV_TURBO4, true);
        check_types(&m, FT_KV_TURBO4, FT_KV_TURBO2, false);
        check_centred_keys(&m);
        inv_model_close(&m);
    }
    return inv_end();
}
