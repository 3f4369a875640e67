#include "cli/spec_opts.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void set(const ft_opts *o, const char *name, int *out)
{
    if (ft_opts_set(o, name)) *out = (int)ft_opts_int(o, name);
}

/* Sizes of an n-gram drafter: the options for all n-gram drafters, then its own. */
static void ngram(const ft_opts *o, const char *kind, ft_ngram_params *p)
{
    char name[64];
    const struct {
        const char *what;
        int *value;
    } part[] = {{"size-n", &p->size_n}, {"size-m", &p->size_m}, {"min-hits", &p->min_hits}};
    for (size_t i = 0; i < FT_COUNT(part); i++) {
        snprintf(name, sizeof name, "spec-ngram-%s", part[i].what);
        set(o, name, part[i].value);
        snprintf(name, sizeof name, "spec-ngram-%s-%s", kind, part[i].what);
        set(o, name, part[i].value);
    }
}

static int draft_max(const ft_opts *o)
{
    if (ft_opts_set(o, "draft-block-size") && !ft_opts_set(o, "spec-draft-n-max"))
        return FT_MAX(0, (int)ft_opts_int(o, "draft-block-size") - 1);
    return (int)ft_opts_int(o, "spec-draft-n-max");
}

static ft_status kinds(const ft_opts *o, ft_llm_params *p, ft_err *err)
{
    const bool type = ft_opts_set(o, "spec-type"), usual = ft_opts_flag(o, "spec-default"),
               mtp = ft_opts_flag(o, "mtp-spec");
    if (type + usual + mtp > 1)
        return ft_fail(
            err, FT_EINVAL,
            "more than one of --spec-type, --spec-default and --mtp-spec is given, want one");
    p->spec_type = usual ? "ngram-mod" : mtp ? "draft-mtp" : ft_opts_text(o, "spec-type");
    return FT_OK;
}

static ft_status draft_vocab(int *out, const char *text, ft_err *err)
{
    char *end;
    const long n = strtol(text, &end, 10);
    *out = -1;
    if (!strcmp(text, "auto")) return FT_OK;
    if (end == text || *end || n < 0 || n > 1 << 24)
        return ft_fail(err, FT_EINVAL, "--draft-vocab %s, want auto or a number from 0 to %d", text,
                       1 << 24);
    *out = (int)n;
    return FT_OK;
}

static void print_trace(void *user, const char *line)
{
    (void)user;
    fprintf(stderr, "%s\n", line);
}

static void trace_opts(const char *to, ft_llm_params *p)
{
    if (!to || !strcmp(to, "0")) return;
    if (strcmp(to, "1") != 0)
        p->spec_trace = to;
    else
        p->trace = print_trace;
}

ft_status ft_spec_opts(const ft_opts *o, ft_llm_params *p, ft_err *err)
{
    ft_status st = kinds(o, p, err);
    if (!st) st = draft_vocab(&p->draft_vocab, ft_opts_text(o, "draft-vocab"), err);
    if (st) return st;
    p->draft_model = ft_opts_text(o, "spec-draft-model");
    p->draft_max = draft_max(o);
    p->draft_fixed = !strcmp(ft_opts_text(o, "spec-adapt"), "off");
    p->spec_reject = !strcmp(ft_opts_text(o, "spec-sampling"), "reject");
    p->draft_vocab_text = ft_opts_text(o, "draft-vocab-text");
    trace_opts(ft_opts_text(o, "spec-trace"), p);
    ngram(o, "simple", &p->ngram_simple);
    ngram(o, "map-k", &p->ngram_map_k);
    ngram(o, "map-k4v", &p->ngram_map_k4v);
    set(o, "spec-ngram-mod-n-match", &p->ngram_mod_match);
    set(o, "spec-ngram-mod-n-min", &p->ngram_mod_min);
    set(o, "spec-ngram-mod-n-max", &p->ngram_mod_max);
    p->lookup_static = ft_opts_text(o, "lookup-cache-static");
    p->lookup_dynamic = ft_opts_text(o, "lookup-cache-dynamic");
    return FT_OK;
}
