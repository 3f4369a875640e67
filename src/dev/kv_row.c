#include "dev/kv_row.h"

#include "base/mem.h"
#include "quant/quant.h"

#include <assert.h>
#include <strings.h>

static const struct {
    const char *name;
    ft_type type; /* of the blocks, unless turbo */
    bool is_turbo;
    ft_turbo turbo;
} encoding[FT_KV_TYPES] = {
    [FT_KV_F32] = {"f32", FT_F32, false, 0},
    [FT_KV_F16] = {"f16", FT_F16, false, 0},
    [FT_KV_BF16] = {"bf16", FT_BF16, false, 0},
    [FT_KV_Q8_0] = {"q8_0", FT_Q8_0, false, 0},
    [FT_KV_Q4_0] = {"q4_0", FT_Q4_0, false, 0},
    [FT_KV_TURBO2] = {"turbo2", 0, true, FT_TURBO2},
    [FT_KV_TURBO3] = {"turbo3", 0, true, FT_TURBO3},
    [FT_KV_TURBO4] = {"turbo4", 0, true, FT_TURBO4},
    [FT_KV_TURBO4_LEGACY] = {"turbo4-legacy", 0, true, FT_TURBO4_LEGACY},
    [FT_KV_Q4_1] = {"q4_1", FT_Q4_1, false, 0},
    [FT_KV_Q5_0] = {"q5_0", FT_Q5_0, false, 0},
    [FT_KV_Q5_1] = {"q5_1", FT_Q5_1, false, 0},
    [FT_KV_IQ4_NL] = {"iq4_nl", FT_IQ4_NL, false, 0},
};

const char *ft_kv_type_name(ft_kv_type t)
{
    return encoding[t].name;
}

bool ft_kv_type_find(ft_str name, ft_kv_type *out)
{
    for (size_t i = 0; i < FT_COUNT(encoding); i++) {
        const char *n = encoding[i].name;
        if (strlen(n) != name.n || strncasecmp(n, name.p, name.n)) continue;
        *out = (ft_kv_type)i;
        return true;
    }
    return false;
}

const char *ft_kv_type_names(void)
{
    return "f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0, iq4_nl, turbo2, turbo3, turbo4 or "
           "turbo4-legacy";
}

bool ft_kv_is_turbo(ft_kv_type t)
{
    return encoding[t].is_turbo;
}

ft_turbo ft_kv_turbo(ft_kv_type t)
{
    assert(ft_kv_is_turbo(t));
    return encoding[t].turbo;
}

bool ft_kv_row_fits(ft_kv_type t, int d)
{
    return ft_kv_is_turbo(t) || d % ft_type_of(encoding[t].type)->elems == 0;
}

size_t ft_kv_row_bytes(ft_kv_type t, int d)
{
    return ft_kv_is_turbo(t) ? ft_turbo_row_bytes(encoding[t].turbo, d)
                             : ft_type_row(encoding[t].type, (size_t)d);
}

int ft_kv_row_width(ft_kv_type t, int d)
{
    return ft_kv_is_turbo(t) ? ft_turbo_width(d) : d;
}

void ft_kv_row_encode(ft_kv_type t, void *dst, const float *x, int d)
{
    if (ft_kv_is_turbo(t))
        ft_turbo_encode(encoding[t].turbo, dst, x, d);
    else
        ft_row_encode(encoding[t].type, dst, x, (size_t)d, NULL);
}

void ft_kv_row_decode(ft_kv_type t, float *y, const void *src, int d)
{
    if (ft_kv_is_turbo(t))
        ft_turbo_decode(encoding[t].turbo, y, src, d);
    else
        ft_row_decode(encoding[t].type, y, src, (size_t)d);
}
