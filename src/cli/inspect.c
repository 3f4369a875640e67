/* cli/inspect.c - foretoken inspect: prints what is in a model file. */
#include "tools/inspect.h"

#include "base/mem.h"
#include "cli/cmd.h"
#include "cli/progress.h"
#include "foretoken.h"

#include <errno.h>
#include <stdio.h>

/* The options that write a file instead of reporting. */
static ft_status rewrite(const ft_opts *o, ft_err *err)
{
    const char *out = ft_opts_text(o, "extract-mtp"), *head = ft_opts_text(o, "merge-mtp");
    const ft_mtp_opts m = {
        .path = ft_opts_word(o, 0),
        .head = head,
        .out = head ? ft_opts_word(o, 1) : out,
        .use_mmap = ft_opts_flag(o, "mmap"),
        .progress = ft_opts_flag(o, "quiet") ? NULL : ft_bar_bytes,
    };
    if (out && head)
        return ft_fail(err, FT_EINVAL,
                       "both --extract-mtp and --merge-mtp are given, want one of them");
    if (!m.out)
        return ft_fail(err, FT_EINVAL,
                       "no output file, want: foretoken inspect FILE --merge-mtp HEAD OUT");
    return head ? ft_mtp_merge(&m, err) : ft_mtp_extract(&m, err);
}

/* Memory of the cache in every encoding. */
static const char *const cache_type[] = {"f32",    "f16",    "q8_0",    "q4_0",     "turbo4",
                                         "turbo3", "turbo2", "quality", "balanced", "compact"};
typedef struct caches {
    int ctx;
    ft_cache_size size[FT_COUNT(cache_type)];
} caches;

/* false for models that this program cannot run */
static bool count_caches(caches *c, const ft_opts *o)
{
    c->ctx = (int)FT_MIN(ft_opts_int(o, "ctx"), 1 << 24);
    return !ft_cache_sizes(ft_opts_word(o, 0), c->ctx, cache_type, FT_COUNT(cache_type), c->size,
                           NULL);
}

static void put_caches(ft_buf *b, const caches *c)
{
    ft_buf_printf(
        b,
        "\ncache of one sequence of %d tokens, with drafter and recurrent states:\n  %-12s "
        "%12s %12s %8s  %s\n",
        c->ctx, "keys, values", "total", "bytes/token", "f16/x", "layers with another encoding");
    for (size_t i = 0; i < FT_COUNT(cache_type); i++) {
        const ft_cache_size *s = &c->size[i];
        char total[24];
        ft_buf_printf(b, "  %-12s %12s %12.0f %8.2f%s%s\n", cache_type[i],
                      ft_human_bytes(total, s->bytes), s->token_bytes, s->ratio,
                      s->special[0] ? "  " : "", s->special);
    }
}

static json_t *caches_json(const caches *c)
{
    json_t *all = json_array();
    for (size_t i = 0; i < FT_COUNT(cache_type); i++) {
        const ft_cache_size *s = &c->size[i];
        json_array_append_new(all, json_pack("{s:s, s:I, s:f, s:f, s:s}", "cache", cache_type[i],
                                             "bytes", (json_int_t)s->bytes, "token_bytes",
                                             s->token_bytes, "ratio_to_f16", s->ratio, "special",
                                             s->special));
    }
    return all;
}

int ft_cmd_inspect(const ft_opts *o)
{
    ft_err err;
    if (ft_opts_set(o, "extract-mtp") || ft_opts_set(o, "merge-mtp"))
        return rewrite(o, &err) ? ft_die(&err) : 0;
    if (ft_opts_n_word(o) > 1) {
        ft_fail(&err, FT_EINVAL, "inspect has %d files, want one", ft_opts_n_word(o));
        return ft_die(&err);
    }
    caches c;
    const bool known = count_caches(&c, o);
    const ft_inspect_opts i = {
        .path = ft_opts_word(o, 0),
        .use_mmap = ft_opts_flag(o, "mmap"),
        .ctx = (uint32_t)ft_opts_int(o, "ctx"),
        .json = ft_opts_flag(o, "json"),
        .check = ft_opts_flag(o, "check"),
        .caches = known && ft_opts_flag(o, "json") ? caches_json(&c) : NULL,
    };
    ft_buf b;
    ft_buf_init(&b, (size_t)1 << 30);
    const ft_status st = ft_inspect(&b, &i, &err);
    json_decref(i.caches);
    if (!st && !i.json && known) put_caches(&b, &c);
    const bool written = fwrite(ft_buf_z(&b), 1, b.len, stdout) == b.len && !fflush(stdout);
    ft_buf_release(&b);
    if (st) return ft_die(&err);
    if (!written && errno != EPIPE) { /* a closed pipe is not an error */
        ft_fail_errno(&err, "standard output: write");
        return ft_die(&err);
    }
    return 0;
}
