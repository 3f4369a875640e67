/* cli/inspect.c - foretoken inspect FILE */
#include "tools/inspect.h"

#include "base/mem.h"
#include "cli/cmd.h"

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
        .quiet = ft_opts_flag(o, "quiet"),
    };
    if (out && head)
        return ft_fail(err, FT_EINVAL, "--extract-mtp and --merge-mtp, want one of them");
    if (!m.out)
        return ft_fail(err, FT_EINVAL,
                       "no output, want: foretoken inspect FILE --merge-mtp HEAD OUT");
    return head ? ft_mtp_merge(&m, err) : ft_mtp_extract(&m, err);
}

/* What the cache takes in every encoding, for models that this program can run. */
static void put_caches(ft_buf *b, const ft_opts *o)
{
    static const char *const type[] = {"f32",    "f16",    "q8_0",    "q4_0",     "turbo4",
                                       "turbo3", "turbo2", "quality", "balanced", "compact"};
    enum { N = FT_COUNT(type) };
    ft_cache_size size[N];
    const int ctx = (int)FT_MIN(ft_opts_int(o, "ctx"), 1 << 24);
    if (ft_cache_sizes(ft_opts_word(o, 0), ctx, type, N, size, NULL)) return;
    ft_buf_printf(b,
                  "\ncache of one sequence of %d tokens, drafter and states included:\n  %-12s "
                  "%12s %12s %8s  %s\n",
                  ctx, "keys, values", "total", "bytes/token", "f16/x", "layers that get more");
    for (int i = 0; i < N; i++) {
        char total[24];
        ft_buf_printf(b, "  %-12s %12s %12.0f %8.2f%s%s\n", type[i],
                      ft_human_bytes(total, size[i].bytes), size[i].token_bytes, size[i].ratio,
                      size[i].special[0] ? "  " : "", size[i].special);
    }
}

int ft_cmd_inspect(const ft_opts *o)
{
    ft_err err;
    if (ft_opts_set(o, "extract-mtp") || ft_opts_set(o, "merge-mtp"))
        return rewrite(o, &err) ? ft_die(&err) : 0;
    if (ft_opts_n_word(o) > 1) {
        ft_fail(&err, FT_EINVAL, "inspect: %d files, want one", ft_opts_n_word(o));
        return ft_die(&err);
    }
    const ft_inspect_opts i = {
        .path = ft_opts_word(o, 0),
        .use_mmap = ft_opts_flag(o, "mmap"),
        .ctx = (uint32_t)ft_opts_int(o, "ctx"),
        .json = ft_opts_flag(o, "json"),
        .check = ft_opts_flag(o, "check"),
    };
    ft_buf b;
    ft_buf_init(&b, (size_t)1 << 30);
    const ft_status st = ft_inspect(&b, &i, &err);
    if (!st && !i.json) put_caches(&b, o);
    const bool written = fwrite(ft_buf_z(&b), 1, b.len, stdout) == b.len && !fflush(stdout);
    ft_buf_release(&b);
    if (st) return ft_die(&err);
    if (!written && errno != EPIPE) { /* a reader that has seen enough is none */
        ft_fail_errno(&err, "standard output: write");
        return ft_die(&err);
    }
    return 0;
}
