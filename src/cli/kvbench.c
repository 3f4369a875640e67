/* cli/kvbench.c - compares KV-cache encodings: quality, memory, speed. */
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/cmd.h"
#include "cli/model_opts.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { GEN = 32, MAX_TYPES = 64 };

static void show(void *user, const char *what, int done, int all)
{
    (void)user;
    fprintf(stderr, "%s %d/%d\n", what, done, all);
}

/* ---- output ---- */

static void print_text(const ft_kvbench_row *r, int n, bool speed)
{
    printf("%-16s %9s %8s %10s %8s %7s %11s %6s", "keys/values", "ppl", "ratio", "KL f16", "top-1",
           "worst", "bytes/token", "f16/x");
    puts(speed ? "   tok/s" : "");
    for (int i = 0; i < n; i++, r++) {
        printf("%-16s %9.4f %8.5f %10.3g %7.2f%% %7.4f %11.0f %6.2f", r->type, r->ppl, r->ppl_ratio,
               r->kld, 100 * r->top1, r->correlation, r->token_bytes, r->ratio);
        if (speed) printf(" %7.2f", r->gen_s > 0 ? 1 / r->gen_s : 0);
        putchar('\n');
    }
    puts("ratio: perplexity divided by that of f16; top-1: tokens with the same most likely\n"
         "successor; worst: correlation of the attention scores in the worst layer (below 0.95:\n"
         "check the quality, below 0.83: do not use)");
}

static void print_json(const ft_llm *m, const ft_kvbench_row *r, int n, const ft_kvbench_params *p)
{
    json_t *rows = json_array();
    for (int i = 0; i < n; i++, r++) {
        json_t *j = json_object();
        json_object_set_new(j, "cache", json_string(r->type));
        json_object_set_new(j, "ppl", json_real(r->ppl));
        json_object_set_new(j, "ppl_ratio", json_real(r->ppl_ratio));
        json_object_set_new(j, "kld", json_real(r->kld));
        json_object_set_new(j, "kld_max", json_real(r->kld_max));
        json_object_set_new(j, "top1", json_real(r->top1));
        json_object_set_new(j, "worst_correlation", json_real(r->correlation));
        json_object_set_new(j, "bytes_per_token", json_real(r->token_bytes));
        json_object_set_new(j, "ratio", json_real(r->ratio));
        if (r->gen_s > 0) {
            json_object_set_new(j, "prompt_tps", json_real(1 / r->prompt_s));
            json_object_set_new(j, "decode_tps", json_real(1 / r->gen_s));
        }
        json_array_append_new(rows, j);
    }
    json_t *all = json_object();
    json_object_set_new(all, "model", json_string(ft_llm_about(m)->name));
    json_object_set_new(all, "n_ctx", json_integer(p->ctx));
    if (p->n_gen) json_object_set_new(all, "speed_depth", json_integer(p->depth));
    json_object_set_new(all, "caches", rows);
    char *s = json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(8));
    puts(s);
    free(s);
    json_decref(all);
}

/* x: bytes per token; y: divergence, logarithmic. */
static ft_status plot(const char *path, const ft_kvbench_row *r, int n, ft_err *err)
{
    enum { W = 720, H = 440, LEFT = 80, RIGHT = 130, TOP = 20, BOTTOM = 50 };
    double most = 1, lo = 0, hi = -20;
    for (int i = 0; i < n; i++) {
        most = fmax(most, r[i].token_bytes);
        if (r[i].kld <= 0) continue;
        lo = fmin(lo, floor(log10(r[i].kld)));
        hi = fmax(hi, ceil(log10(r[i].kld)));
    }
    if (hi <= lo) hi = lo + 1;
    ft_buf b;
    ft_buf_init(&b, 1 << 20);
    ft_buf_printf(&b,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
                  "font-family=\"sans-serif\" font-size=\"12\">\n"
                  "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n",
                  W, H, W, H);
    const double w = W - LEFT - RIGHT, h = H - TOP - BOTTOM;
    for (int step = 0; step <= (int)(hi - lo); step++) {
        const double e = lo + step, y = TOP + h * (hi - e) / (hi - lo);
        ft_buf_printf(&b,
                      "<path d=\"M%d %.1fH%.1f\" stroke=\"#ccc\"/><text x=\"%d\" y=\"%.1f\" "
                      "text-anchor=\"end\">1e%.0f</text>\n",
                      LEFT, y, LEFT + w, LEFT - 6, y + 4, e);
    }
    for (int i = 0; i <= 4; i++)
        ft_buf_printf(&b, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.0f</text>\n",
                      LEFT + w * i / 4, H - BOTTOM + 18, most * i / 4);
    for (int i = 0; i < n; i++) {
        if (r[i].kld <= 0) continue;
        const double x = LEFT + w * r[i].token_bytes / most;
        const double y = TOP + h * (hi - log10(r[i].kld)) / (hi - lo);
        ft_buf_printf(&b,
                      "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"#246\"/><text x=\"%.1f\" "
                      "y=\"%.1f\">%s</text>\n",
                      x, y, x + 7, y + 4, r[i].type);
    }
    ft_buf_printf(&b,
                  "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">bytes per token</text>\n"
                  "<text transform=\"translate(16 %.1f) rotate(-90)\" text-anchor=\"middle\">KL "
                  "divergence from f16</text>\n</svg>\n",
                  LEFT + w / 2, H - 10, TOP + h / 2);
    ft_out_file *f;
    ft_status st = ft_out_open(&f, path, err);
    if (!st) {
        ft_out_write(f, b.data, b.len);
        st = ft_out_commit(f, err);
    }
    ft_buf_release(&b);
    return st;
}

/* ---- the program ---- */

static ft_status measure(const ft_opts *o, ft_llm *m, int ctx, ft_err *err)
{
    static const char *const usual[] = {"f16",    "q8_0",    "q4_0",     "turbo4", "turbo3",
                                        "turbo2", "quality", "balanced", "compact"};
    const char *type[MAX_TYPES];
    const int words = ft_opts_n_word(o), n = words ? words : (int)FT_COUNT(usual);
    for (int i = 0; i < n; i++) type[i] = words ? ft_opts_word(o, i) : usual[i];
    ft_kvbench_row row[MAX_TYPES];
    int32_t *ids = NULL;
    ft_kvbench_params p = {.type = type,
                           .n_type = n,
                           .exact = ft_opts_flag(o, "kv-exact"),
                           .tail = ft_model_opts_tail(o),
                           .ctx = ctx,
                           .chunks = (int)ft_opts_int(o, "chunks"),
                           .depth = (int)ft_opts_int(o, "speed-depth")};
    p.n_gen = p.depth ? GEN : 0;
    p.progress = ft_opts_flag(o, "quiet") ? NULL : show;
    ft_status st = ft_model_opts_ids(o, m, &ids, &p.n_ids, err);
    p.ids = ids;
    if (!st) st = ft_llm_kvbench(m, &p, row, err);
    ft_free(ids);
    if (st) return st;
    if (ft_opts_flag(o, "json"))
        print_json(m, row, n, &p);
    else
        print_text(row, n, p.n_gen > 0);
    if (ft_opts_text(o, "plot")) st = plot(ft_opts_text(o, "plot"), row, n, err);
    if (!st && fflush(stdout) && errno != EPIPE)
        return ft_fail_errno(err, "cannot write to standard output");
    return st;
}

static void prepare(ft_llm_params *p, int ctx)
{
    (void)ctx;
    p->ctx = 64; /* the measurement allocates its own caches */
}

int ft_cmd_kvbench(const ft_opts *o)
{
    return ft_model_opts_chunks(o, prepare, measure);
}
