/* cli/perplexity.c - measures the perplexity of a text: in chunks of the context length, of which
 * the second half is scored. */
#include "base/file.h"
#include "base/mem.h"
#include "cli/cmd.h"
#include "cli/model_opts.h"
#include "cli/term.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    SCORE_ROWS = 64, /* rows of logits kept at a time: 64 MB for a vocabulary of 250,000 */
};

static void show(void *user, int chunk, int chunks, double ppl)
{
    const ft_term *t = user;
    if (t->err) {
        fprintf(stderr, "\r\x1b[K%d/%d chunks, ppl %.4f", chunk, chunks, ppl);
        if (chunk == chunks) fputs("\r\x1b[K", stderr);
    } else {
        fprintf(stderr, "chunk %d/%d: ppl %.4f\n", chunk, chunks, ppl);
    }
}

static void print_json(const ft_llm *m, const ft_perplexity *r, int ctx)
{
    json_t *j = json_object();
    json_object_set_new(j, "model", json_string(ft_llm_about(m)->name));
    json_object_set_new(j, "ppl", json_real(r->ppl));
    json_object_set_new(j, "ppl_error", json_real(r->error));
    json_object_set_new(j, "nll", json_real(r->nll));
    json_object_set_new(j, "n_ctx", json_integer(ctx));
    json_object_set_new(j, "chunks", json_integer(r->chunks));
    json_object_set_new(j, "tokens", json_integer(r->tokens));
    json_object_set_new(j, "seconds", json_real(r->seconds));
    char *s = json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(12));
    puts(s);
    free(s);
    json_decref(j);
}

static ft_status measure(const ft_opts *o, ft_llm *m, int ctx, ft_err *err)
{
    ft_term term = ft_term_open("auto");
    const bool quiet = ft_opts_flag(o, "quiet");
    int32_t *ids = NULL;
    size_t n = 0;
    ft_perplexity r;
    ft_status st = ft_model_opts_ids(o, m, &ids, &n, err);
    if (!st)
        st = ft_llm_perplexity(m, ids, n, ctx, (int)ft_opts_int(o, "chunks"), quiet ? NULL : show,
                               &term, &r, err);
    ft_free(ids);
    if (st) return st;
    if (ft_opts_flag(o, "json"))
        print_json(m, &r, ctx);
    else
        printf("ppl %.4f +- %.4f (%lld tokens scored in %d chunks of %d, %.1f s)\n", r.ppl, r.error,
               (long long)r.tokens, r.chunks, ctx, r.seconds);
    if (fflush(stdout) && errno != EPIPE)
        return ft_fail_errno(err, "cannot write to standard output");
    return FT_OK;
}

static void prepare(ft_llm_params *p, int ctx)
{
    p->ctx = ctx;
    p->score_rows = SCORE_ROWS;
}

int ft_cmd_perplexity(const ft_opts *o)
{
    return ft_model_opts_chunks(o, prepare, measure);
}
