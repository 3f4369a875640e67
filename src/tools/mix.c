#include "tools/mix.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const ft_mix mixes[] = {
    {"F32", 0, FT_F32},        {"F16", 1, FT_F16},        {"BF16", 32, FT_BF16},
    {"Q8_0", 7, FT_Q8_0},      {"Q6_K", 18, FT_Q6_K},     {"Q5_K_M", 17, FT_Q5_K},
    {"Q5_K_S", 16, FT_Q5_K},   {"Q5_1", 9, FT_Q5_1},      {"Q5_0", 8, FT_Q5_0},
    {"Q4_K_M", 15, FT_Q4_K},   {"Q4_K_S", 14, FT_Q4_K},   {"Q4_1", 3, FT_Q4_1},
    {"Q4_0", 2, FT_Q4_0},      {"IQ4_NL", 25, FT_IQ4_NL}, {"IQ4_XS", 30, FT_IQ4_XS},
    {"Q3_K_L", 13, FT_Q3_K},   {"Q3_K_M", 12, FT_Q3_K},   {"Q3_K_S", 11, FT_Q3_K},
    {"Q2_K", 10, FT_Q2_K},     {"Q2_K_S", 21, FT_Q2_K},   {"MXFP4", 38, FT_MXFP4},
    {"TQ4_1S", 44, FT_TQ4_1S}, {"TQ3_1S", 43, FT_TQ3_1S},
};

static const struct {
    const char *alias, *name;
} aliases[] = {{"Q4_K", "Q4_K_M"}, {"Q5_K", "Q5_K_M"}, {"Q3_K", "Q3_K_M"}, {"MXFP4_MOE", "MXFP4"}};

/* ---- rules: the first that matches a tensor decides, else the base type of the mix ---- */

enum kind { VALUE, DOWN, ATTN_OUT, OTHER };

enum where {
    ALL,
    MANY_GROUPED,   /* four or more query heads share a key head: the tensor is small */
    FIRST_2,        /* of its kind */
    FIRST_4,        /* of its kind */
    FIRST_16TH,     /* of the layers */
    FIRST_8TH,      /* of the layers */
    FIRST_8TH_IMAT, /* of the layers, with an importance matrix */
    FIRST_8TH_BARE, /* of the layers, without one */
    MORE_BITS,      /* the first and the last eighth, and every third between */
};

static const struct rule {
    const char *mix;
    enum kind kind;
    enum where where;
    ft_type type;
} rules[] = {
    {"Q2_K", VALUE, MANY_GROUPED, FT_Q4_K},
    {"Q2_K", VALUE, ALL, FT_Q3_K},
    {"Q2_K", DOWN, ALL, FT_Q3_K},
    {"Q2_K", ATTN_OUT, ALL, FT_Q3_K},
    {"Q2_K_S", VALUE, MANY_GROUPED, FT_Q4_K},
    {"Q2_K_S", DOWN, FIRST_8TH, FT_Q4_K},
    {"Q3_K_M", VALUE, FIRST_2, FT_Q5_K},
    {"Q3_K_M", VALUE, ALL, FT_Q4_K},
    {"Q3_K_M", DOWN, FIRST_16TH, FT_Q5_K},
    {"Q3_K_M", DOWN, ALL, FT_Q4_K},
    {"Q3_K_M", ATTN_OUT, ALL, FT_Q4_K},
    {"Q3_K_L", VALUE, ALL, FT_Q5_K},
    {"Q3_K_L", DOWN, ALL, FT_Q5_K},
    {"Q3_K_L", ATTN_OUT, ALL, FT_Q5_K},
    {"Q4_K_S", VALUE, FIRST_4, FT_Q5_K},
    {"Q4_K_S", DOWN, FIRST_8TH, FT_Q5_K},
    {"Q4_K_M", VALUE, MORE_BITS, FT_Q6_K},
    {"Q4_K_M", DOWN, MORE_BITS, FT_Q6_K},
    {"Q5_K_M", VALUE, MORE_BITS, FT_Q6_K},
    {"Q5_K_M", DOWN, MORE_BITS, FT_Q6_K},
    {"IQ4_NL", VALUE, MANY_GROUPED, FT_Q5_K},
    {"IQ4_NL", DOWN, FIRST_8TH_BARE, FT_Q5_K},
    {"IQ4_XS", VALUE, MANY_GROUPED, FT_Q5_K},
    {"IQ4_XS", DOWN, FIRST_8TH_BARE, FT_Q5_K},
    {"Q4_0", DOWN, FIRST_8TH_IMAT, FT_Q4_1},
    {"Q5_0", DOWN, FIRST_8TH_IMAT, FT_Q5_1},
};

const ft_mix *ft_mix_find(const char *name)
{
    for (size_t i = 0; i < FT_COUNT(aliases); i++)
        if (!strcasecmp(name, aliases[i].alias)) name = aliases[i].name;
    for (size_t i = 0; i < FT_COUNT(mixes); i++)
        if (!strcasecmp(name, mixes[i].name)) return &mixes[i];
    return NULL;
}

const char *ft_mix_names(void)
{
    static char text[256];
    size_t at = 0;
    for (size_t i = 0; i < FT_COUNT(mixes) && at < sizeof text; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", i ? " " : "", mixes[i].name);
    return text;
}

static bool contains(ft_str s, const char *part)
{
    return ft_str_find(s, ft_str_of(part), 0) != SIZE_MAX;
}

bool ft_mix_keeps(ft_str name, int n_dims)
{
    return n_dims < 2 || !ft_str_ends(name, FT_STR("weight")) || contains(name, "_norm.weight") ||
           contains(name, "ffn_gate_inp.weight") || contains(name, "ffn_gate_inp_shexp.weight") ||
           contains(name, "ssm_conv1d") || contains(name, "per_layer_model_proj") ||
           contains(name, "v.position_embd.") || contains(name, "v.patch_embd.");
}

bool ft_mix_is_value(ft_str name)
{
    return contains(name, "attn_v.weight") || contains(name, "attn_qkv.weight");
}

int ft_mix_layer(ft_str name)
{
    size_t first = 4;
    if (ft_str_starts(name, FT_STR("v.blk.")))
        first = 6;
    else if (!ft_str_starts(name, FT_STR("blk.")))
        return -1;
    int layer = 0;
    size_t i = first;
    for (; i < name.n && name.p[i] >= '0' && name.p[i] <= '9' && layer < 100000; i++)
        layer = layer * 10 + (name.p[i] - '0');
    return i > first ? layer : -1;
}

static enum kind kind_of(ft_str name)
{
    if (ft_mix_is_value(name)) return VALUE;
    if (contains(name, "attn_output.weight") || contains(name, "attn_out.weight")) return ATTN_OUT;
    return contains(name, "ffn_down") ? DOWN : OTHER;
}

static bool rule_matches(enum where where, const ft_mix_model *m, int i, int n)
{
    switch (where) {
    case ALL: return true;
    case MANY_GROUPED: return m->gqa >= 4;
    case FIRST_2: return i < 2;
    case FIRST_4: return i < 4;
    case FIRST_16TH: return i < n / 16;
    case FIRST_8TH: return i < n / 8;
    case FIRST_8TH_IMAT: return i < n / 8 && m->imatrix;
    case FIRST_8TH_BARE: return i < n / 8 && !m->imatrix;
    case MORE_BITS: return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
    }
    return false;
}

/* The type of the output matrix, or of the embedding of a tied model. */
static ft_type output_type(const ft_mix *m, int64_t n)
{
    if (m->base == FT_MXFP4 || n % ft_type_of(m->base)->elems) return FT_Q8_0;
    return m->base == FT_Q8_0 ? FT_Q8_0 : FT_Q6_K;
}

ft_type ft_mix_type(const ft_mix *m, const ft_mix_model *model, ft_str name, int64_t n,
                    int value_no, int value_n)
{
    if (!ft_type_of(m->base)->quant) return m->base;
    const bool embd =
        ft_str_is(name, "token_embd.weight") || ft_str_is(name, "per_layer_token_embd.weight");
    if (ft_str_is(name, "output.weight") || (embd && model->tied)) return output_type(m, n);
    if (m->base == FT_MXFP4 && !contains(name, "_exps.")) return FT_Q8_0;
    const enum kind kind = kind_of(name);
    const int i = kind == VALUE ? value_no : ft_mix_layer(name);
    const int of = kind == VALUE ? value_n : model->layers;
    for (size_t r = 0; r < FT_COUNT(rules); r++)
        if (rules[r].kind == kind && !strcmp(rules[r].mix, m->name) &&
            rule_matches(rules[r].where, model, i, of))
            return rules[r].type;
    return m->base;
}

ft_type ft_mix_fit(ft_type t, int64_t n)
{
    if (n % ft_type_of(t)->elems == 0) return t;
    ft_type other = FT_F16;
    switch (t) {
    case FT_IQ4_XS: other = FT_IQ4_NL; break;
    case FT_Q2_K:
    case FT_Q3_K: other = FT_Q4_0; break;
    case FT_Q4_K: other = FT_Q5_0; break;
    case FT_Q5_K: other = FT_Q5_1; break;
    case FT_Q6_K: other = FT_Q8_0; break;
    default: break;
    }
    return n % ft_type_of(other)->elems == 0 ? other : FT_F16;
}
