/* long: drafting with long contexts: the time that the draft head adds to a prompt, the speed of
 * each number of draft tokens, whether all of them generate the same ids, and whether acceptance
 * falls in a long response.
 *   long [-m MODEL] [-d DEVICE] [-l LENGTH,...] [-n TOKENS] [-k DRAFTS,...] [-t THREADS] [-x RATIO]
 * One line per length and number of draft tokens: tokens per second of the prompt, and relative to
 * an engine without a drafter; tokens per second of the response, and relative to K = 0; acceptance
 * rate, and that of the last quarter of the response relative to the first quarter.
 * Fails if ids differ, or if a prompt has less than RATIO (0.98; 0: any) of the speed without a
 * drafter. A prompt is text of bench/prompts, repeated. */
#define _XOPEN_SOURCE 700
#include "common.h"

#include "base/file.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 16, TEXT_BYTES = 1 << 20 };

typedef struct bench {
    ft_llm_params p;
    int length[MOST], n_length, draft[MOST], n_draft;
    int tokens;
    double ratio;
    double plain_s[MOST]; /* prompt seconds without a drafter, by length */
    int32_t *text;
    size_t n_text;
    int failed;
} bench;

typedef struct response {
    int32_t *id;
    bool *drafted;
    int n, most;
    ft_response out;
} response;

static bool take(void *user, const ft_event *e)
{
    response *r = user;
    if (e->id < 0 || r->n == r->most) return true;
    r->drafted[r->n] = e->drafted;
    r->id[r->n++] = e->id;
    return true;
}

static response response_new(int most)
{
    return (response){.id = ft_new_n(int32_t, (size_t)most),
                      .drafted = ft_new_n(bool, (size_t)most),
                      .most = most};
}

static void response_free(response *r)
{
    ft_free(r->id);
    ft_free(r->drafted);
}

/* A prompt of n tokens that shares no beginning with those of other lengths. */
static void generate(const bench *b, ft_llm *m, int n, int draft_max, int tokens, response *r)
{
    int32_t *ids = ft_new_n(int32_t, (size_t)n);
    ft_request q;
    ft_err err;
    for (int i = 0; i < n; i++) ids[i] = b->text[((size_t)i + (size_t)n * 7) % b->n_text];
    ft_request_defaults(&q, m);
    q.ids = ids;
    q.n_ids = n;
    q.max_tokens = tokens;
    q.ignore_eos = true;
    q.sampling.temperature = 0;
    q.draft_max = draft_max;
    q.draft_fixed = true;
    q.on_event = take;
    q.user = r;
    r->n = 0;
    ft_session *s = ft_session_new(m);
    stop_on(ft_session_generate(s, &q, &r->out, &err), &err);
    ft_session_free(s);
    ft_free(ids);
}

static ft_llm *open_model(const bench *b, int draft_max)
{
    ft_llm_params p = b->p;
    ft_llm *m = NULL;
    ft_err err;
    p.draft_max = draft_max;
    p.slots = 1;
    for (int i = 0; i < b->n_length; i++) p.ctx = FT_MAX(p.ctx, b->length[i] + b->tokens + 32);
    stop_on(ft_llm_open(&m, &p, &err), &err);
    return m;
}

/* Ids of all prompt files. */
static void read_text(bench *b, ft_llm *m)
{
    static const char *const name[] = {"dialogue", "code", "prose", "repetition"};
    char *all = ft_alloc(TEXT_BYTES);
    size_t at = 0;
    ft_err err;
    for (size_t i = 0; i < FT_COUNT(name); i++) {
        char path[64], *text;
        size_t n;
        snprintf(path, sizeof path, "bench/prompts/%s.txt", name[i]);
        stop_on(ft_file_read(&text, &n, path, TEXT_BYTES / FT_COUNT(name), &err), &err);
        memcpy(all + at, text, n);
        at += n;
        ft_free(text);
    }
    stop_on(ft_vocab_encode(ft_llm_vocab(m), all, at, 0, &b->text, &b->n_text, &err), &err);
    ft_free(all);
}

/* Share of accepted draft tokens among n tokens from `from` on. */
static double drafted_share(const response *r, int from, int n)
{
    int k = 0;
    for (int i = from; i < from + n; i++) k += r->drafted[i];
    return n ? (double)k / n : 0;
}

static void one_length(bench *b, ft_llm *m, int at)
{
    const int n = b->length[at];
    response first = response_new(b->tokens), r = response_new(b->tokens);
    for (int i = 0; i < b->n_draft; i++) {
        response *to = i ? &r : &first;
        generate(b, m, n, b->draft[i], b->tokens, to);
        const bool same = !memcmp(to->id, first.id, sizeof *to->id * (size_t)b->tokens);
        const ft_response *o = &to->out;
        const double ratio = b->plain_s[at] / o->prompt_s, quarter = b->tokens / 4.0;
        const double began = drafted_share(to, 0, (int)quarter);
        const double ended = drafted_share(to, b->tokens - (int)quarter, (int)quarter);
        printf("%7d %2d %10.1f %6.3f %9.2f %6.3f %7.3f %6.2f%s\n", n, b->draft[i], n / o->prompt_s,
               ratio, to->n / o->output_s, first.out.output_s / o->output_s,
               o->drafted ? (double)o->accepted / (double)o->drafted : 0,
               began > 0 ? ended / began : 0, same ? "" : "  OTHER IDS");
        fflush(stdout);
        b->failed += !same || ratio < b->ratio || to->n != b->tokens;
    }
    response_free(&first);
    response_free(&r);
}

static int parse_list(const char *text, int *out)
{
    int n = 0;
    for (const char *p = text; n < MOST; p++) {
        char *end;
        out[n++] = (int)strtol(p, &end, 10);
        if (end == p || out[n - 1] < 0) return 0;
        if (!*end) return n;
        p = end;
    }
    return 0;
}

static void options(bench *b, int argc, char **argv)
{
    bool ok = true;
    for (int c; (c = getopt(argc, argv, "m:d:l:n:k:t:x:")) != -1;) {
        if (c == 'm') b->p.model = optarg;
        if (c == 'd') b->p.device = optarg;
        if (c == 'l') ok = ok && (b->n_length = parse_list(optarg, b->length));
        if (c == 'k') ok = ok && (b->n_draft = parse_list(optarg, b->draft));
        if (c == 'n') b->tokens = atoi(optarg);
        if (c == 't') b->p.threads = atoi(optarg);
        if (c == 'x') b->ratio = atof(optarg);
        ok = ok && c != '?';
    }
    for (int i = 0; i < b->n_length; i++) ok = ok && b->length[i] > 0;
    if (ok && b->tokens > 3 && optind == argc) return;
    fprintf(stderr, "usage: long [-m MODEL] [-d DEVICE] [-l LENGTH,...] [-n TOKENS] "
                    "[-k DRAFTS,...] [-t THREADS] [-x RATIO]\n");
    exit(1);
}

int main(int argc, char **argv)
{
    bench b = {.length = {1024, 8192},
               .n_length = 2,
               .draft = {0, 2, 3, 4},
               .n_draft = 4,
               .tokens = 64,
               .ratio = 0.98};
    int most = 0;
    ft_llm_defaults(&b.p);
    options(&b, argc, argv);
    for (int i = 0; i < b.n_draft; i++) most = FT_MAX(most, b.draft[i]);
    ft_llm *m = open_model(&b, 0);
    read_text(&b, m);
    response r = response_new(4);
    for (int i = 0; i < b.n_length; i++) { /* the first run is a warm-up, the second counts */
        for (int k = 0; k < 2; k++) generate(&b, m, b.length[i], 0, 1, &r);
        b.plain_s[i] = r.out.prompt_s;
    }
    response_free(&r);
    ft_llm_close(m);
    m = open_model(&b, FT_MAX(1, most));
    printf("%7s %2s %10s %6s %9s %6s %7s %6s\n", "context", "K", "prompt/s", "x none", "decode/s",
           "x K=0", "accept", "drift");
    for (int i = 0; i < b.n_length; i++) one_length(&b, m, i);
    ft_llm_close(m);
    free(b.text);
    if (b.failed) fprintf(stderr, "%d runs with other ids or a slow prompt\n", b.failed);
    return b.failed != 0;
}
