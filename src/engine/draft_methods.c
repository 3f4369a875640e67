#include "engine/draft_methods.h"

#include "base/mem.h"
#include "base/str.h"

#include <stdio.h>

static const struct {
    const char *name;
    unsigned kind; /* 0: known, but not supported */
} names[] = {
    {"ngram-simple", FT_SPEC_NGRAM_SIMPLE},
    {"ngram-map-k", FT_SPEC_NGRAM_MAP_K},
    {"ngram-map-k4v", FT_SPEC_NGRAM_MAP_K4V},
    {"ngram-mod", FT_SPEC_NGRAM_MOD},
    {"ngram-cache", FT_SPEC_NGRAM_CACHE},
    {"draft-mtp", FT_SPEC_HEAD},
    {"mtp", FT_SPEC_HEAD},
    {"nextn", FT_SPEC_HEAD},
    {"draft-simple", FT_SPEC_MODEL},
    {"draft", FT_SPEC_MODEL},
    {"draft-eagle3", 0},
    {"eagle3", 0},
    {"draft-dflash", 0},
    {"draft-dspark", 0},
};

#define WANTED                                                                                     \
    "want auto, none, draft-mtp, draft-simple, ngram-simple, ngram-map-k, ngram-map-k4v, "         \
    "ngram-mod or ngram-cache"

void ft_draft_methods_defaults(ft_draft_methods *d)
{
    *d = (ft_draft_methods){
        .kinds = FT_SPEC_HEAD | FT_SPEC_AUTO,
        .simple = {12, 48, 1},
        .map_k = {12, 48, 1},
        .map_k4v = {12, 48, 1},
        .mod = {24, 48, 64},
    };
}

static ft_status one(unsigned *kinds, ft_str name, ft_err *err)
{
    for (size_t i = 0; i < FT_COUNT(names); i++) {
        if (!ft_str_is(name, names[i].name)) continue;
        if (!names[i].kind)
            return ft_fail(err, FT_EUNSUPPORTED, "drafter \"%s\" is not supported, " WANTED,
                           names[i].name);
        if (*kinds & names[i].kind)
            return ft_fail(err, FT_EINVAL, "drafter \"%s\" is named twice", names[i].name);
        *kinds |= names[i].kind;
        return FT_OK;
    }
    return ft_fail(err, FT_EINVAL, "drafter \"%.*s\", " WANTED, FT_STR_FMT(name));
}

ft_status ft_draft_methods_parse(unsigned *kinds, const char *list, ft_err *err)
{
    *kinds = 0;
    if (!strcmp(list, "none")) return FT_OK;
    if (!strcmp(list, "auto")) {
        *kinds = FT_SPEC_HEAD | FT_SPEC_AUTO;
        return FT_OK;
    }
    for (const char *p = list;; p++) {
        const size_t n = strcspn(p, ",");
        const ft_str name = {p, n};
        if (ft_str_is(name, "none") || ft_str_is(name, "auto"))
            return ft_fail(err, FT_EINVAL, "drafter \"%.*s\" beside others, want it alone",
                           FT_STR_FMT(name));
        const ft_status st = one(kinds, name, err);
        if (st) return st;
        p += n;
        if (*kinds & FT_SPEC_HEAD && *kinds & FT_SPEC_MODEL)
            return ft_fail(err, FT_EINVAL, "draft-mtp beside draft-simple, want one of them");
        if (!*p) return FT_OK;
    }
}

static ft_status check_size(const char *what, int value, int lo, ft_err *err)
{
    if (value >= lo && value <= FT_NGRAM_MAX) return FT_OK;
    return ft_fail(err, FT_EINVAL, "%s is %d, want %d to %d", what, value, lo, FT_NGRAM_MAX);
}

ft_status ft_draft_methods_check(const ft_draft_methods *d, ft_err *err)
{
    const ft_ngram *const copies[] = {&d->simple, &d->map_k, &d->map_k4v};
    ft_status st = FT_OK;
    for (size_t i = 0; i < FT_COUNT(copies) && !st; i++) {
        st = check_size("the pattern of an n-gram drafter", copies[i]->n, 1, err);
        if (!st) st = check_size("the copy of an n-gram drafter", copies[i]->m, 1, err);
        if (!st) st = check_size("min-hits of an n-gram drafter", copies[i]->min_hits, 0, err);
    }
    if (!st) st = check_size("n-match of ngram-mod", d->mod.n_match, 1, err);
    if (!st) st = check_size("n-max of ngram-mod", d->mod.n_max, 1, err);
    if (!st) st = check_size("n-min of ngram-mod", d->mod.n_min, 0, err);
    if (!st && d->mod.n_min > d->mod.n_max)
        st = ft_fail(err, FT_EINVAL, "n-min of ngram-mod is %d, want at most its n-max, %d",
                     d->mod.n_min, d->mod.n_max);
    return st;
}

ft_status ft_draft_methods_add(ft_engine *e, const ft_draft_methods *d, int slots, ft_err *err)
{
    if (d->kinds & FT_SPEC_NGRAM_SIMPLE) ft_engine_add_ngram_drafter(e, ft_ngram_simple(d->simple));
    if (d->kinds & FT_SPEC_NGRAM_MAP_K)
        ft_engine_add_ngram_drafter(e, ft_ngram_map(d->map_k, slots, false));
    if (d->kinds & FT_SPEC_NGRAM_MAP_K4V)
        ft_engine_add_ngram_drafter(e, ft_ngram_map(d->map_k4v, slots, true));
    if (d->kinds & FT_SPEC_NGRAM_MOD) ft_engine_add_ngram_drafter(e, ft_ngram_table(d->mod, slots));
    if (d->kinds & FT_SPEC_NGRAM_CACHE) {
        ft_ngram_drafter g;
        const ft_status st = ft_ngram_cache(&g, d->corpus, d->responses, slots, err);
        if (st) return st;
        ft_engine_add_ngram_drafter(e, g);
    }
    return FT_OK;
}

void ft_draft_methods_names(unsigned kinds, char *out, size_t bytes)
{
    size_t n = 0;
    out[0] = 0;
    for (size_t i = 0; i < FT_COUNT(names); i++)
        if (kinds & FT_SPEC_NGRAMS & names[i].kind && n < bytes)
            n += (size_t)snprintf(out + n, bytes - n, "%s%s", n ? ", " : "", names[i].name);
}

/* The sizes of an n-gram method, as its options name them; "": it has none. */
static void put_sizes(const ft_draft_methods *d, unsigned kind, char out[80])
{
    const ft_ngram *g = kind == FT_SPEC_NGRAM_SIMPLE    ? &d->simple
                        : kind == FT_SPEC_NGRAM_MAP_K   ? &d->map_k
                        : kind == FT_SPEC_NGRAM_MAP_K4V ? &d->map_k4v
                                                        : NULL;
    out[0] = 0;
    if (g) snprintf(out, 80, " (size-n %d, size-m %d, min-hits %d)", g->n, g->m, g->min_hits);
    if (kind == FT_SPEC_NGRAM_MOD)
        snprintf(out, 80, " (n-match %d, n-min %d, n-max %d)", d->mod.n_match, d->mod.n_min,
                 d->mod.n_max);
}

void ft_draft_methods_text(const ft_draft_methods *d, char *out, size_t bytes)
{
    size_t n = 0;
    char sizes[80];
    out[0] = 0;
    for (size_t i = 0; i < FT_COUNT(names); i++) {
        if (!(d->kinds & FT_SPEC_NGRAMS & names[i].kind) || n >= bytes) continue;
        put_sizes(d, names[i].kind, sizes);
        n += (size_t)snprintf(out + n, bytes - n, "%s%s%s", n ? ", " : "", names[i].name, sizes);
    }
}
