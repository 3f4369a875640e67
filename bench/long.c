/* long: drafting with long contexts: the time that the draft head adds to a prompt, the speed of
 * each number of draft tokens, whether all of them generate the same ids, and whether acceptance
 * falls with the length of the context or within a long response.
 *   long [-m MODEL] [-d DEVICE] [-l LENGTH,...] [-n TOKENS,...] [-k DRAFTS,...] [-p PROMPTS]
 *        [-t THREADS] [-x RATIO]
 * One line per length and number of draft tokens: tokens per second of the prompt, and relative to
 * an engine without a drafter; tokens per second of the response, and relative to the first number;
 * acceptance rate, tokens per step, and the share of tokens that were drafted in the last quarter
 * of the response relative to the first quarter. A prompt is computed for the first number of draft
 * tokens; the others continue from its checkpoint. TOKENS: one length of the response for each
 * number of draft tokens, the last one for all further ones. PROMPTS: per length, all in one line.
 * Fails if ids differ, or if a prompt has less than RATIO (0.98; 0: not measured) of the speed
 * without a drafter. A prompt is text of bench/prompts, repeated. */
#define _XOPEN_SOURCE 700
#include "common.h"

#include "api/model.h"
#include "base/file.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 16, TEXT_BYTES = 1 << 20, WARM_UP = 512 };
#define CHECKPOINT_BYTES ((uint64_t)24 << 30)

typedef struct bench {
    ft_llm_params p;
    int length[MOST], n_length, draft[MOST], n_draft, tokens[MOST], n_tokens;
    int prompts;
    double ratio;
    double plain_s[MOST]; /* seconds of all prompts without a drafter, by length */
    int32_t *text;
    size_t n_text;
    int failed;
} bench;

/* The first ids of a response, those of draft tokens marked, and the sums of several responses. */
typedef struct response {
    int32_t *id;
    bool *drafted;
    int n, most;
    ft_response out;
} response;

typedef struct sums {
    double prompt_s, output_s;
    int64_t tokens, drafted, accepted, began, ended;
    bool cached, other_ids;
} sums;

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

/* A prompt of n tokens that shares no beginning with others. */
static void generate(const bench *b, ft_llm *m, int n, int prompt, int draft_max, int tokens,
                     response *r)
{
    const size_t from = (size_t)n * 7 + (size_t)prompt * (b->n_text / (size_t)b->prompts + 1);
    int32_t *ids = ft_new_n(int32_t, (size_t)n);
    ft_request q;
    ft_err err;
    for (int i = 0; i < n; i++) ids[i] = b->text[((size_t)i + from) % b->n_text];
    ft_request_defaults(&q, m);
    q.ids = ids;
    q.n_ids = n;
    q.max_tokens = tokens;
    q.ignore_eos = true;
    q.cache_prompt = true;
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
    int tokens = 0;
    p.draft_max = draft_max;
    p.slots = 1;
    for (int i = 0; i < b->n_tokens; i++) tokens = FT_MAX(tokens, b->tokens[i]);
    for (int i = 0; i < b->n_length; i++) p.ctx = FT_MAX(p.ctx, b->length[i] + tokens + 32);
    stop_on(ft_llm_open(&m, &p, &err), &err);
    stop_on(ft_engine_share(m->engine, CHECKPOINT_BYTES, NULL, &err), &err);
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

static int count_drafted(const response *r, int from, int n)
{
    int k = 0;
    for (int i = from; i < from + n; i++) k += r->drafted[i];
    return k;
}

static void add(sums *to, const response *r)
{
    const int quarter = r->n / 4;
    to->prompt_s += r->out.prompt_s;
    to->output_s += r->out.output_s;
    to->tokens += r->n;
    to->drafted += (int64_t)r->out.drafted;
    to->accepted += (int64_t)r->out.accepted;
    to->began += count_drafted(r, 0, quarter);
    to->ended += count_drafted(r, r->n - quarter, quarter);
    to->cached = to->cached || r->out.cached_tokens;
}

static double ratio_of(double a, double b)
{
    return b > 0 ? a / b : 0;
}

static double speed_of(const sums *s)
{
    return ratio_of((double)s->tokens, s->output_s);
}

static void print_line(bench *b, int at, int draft, const sums *s, const sums *first)
{
    const int n = b->length[at];
    const double ratio = ratio_of(b->plain_s[at], s->prompt_s);
    printf("%7d %2d ", n, draft);
    if (s->cached)
        printf("%10s %6s", "-", "-");
    else
        printf("%10.1f %6.3f", (double)n * b->prompts / s->prompt_s, ratio);
    printf(" %9.2f %6.3f %7.3f %8.3f %6.2f%s\n", speed_of(s), speed_of(s) / speed_of(first),
           ratio_of((double)s->accepted, (double)s->drafted),
           ratio_of((double)s->tokens, (double)(s->tokens - s->accepted)),
           ratio_of((double)s->ended, (double)s->began), s->other_ids ? "  OTHER IDS" : "");
    fflush(stdout);
    b->failed += s->other_ids || (!s->cached && ratio < b->ratio);
}

/* All prompts with each number of draft tokens. */
static void one_length(bench *b, ft_llm *m, int at)
{
    response *first = ft_new_n(response, (size_t)b->prompts);
    sums before = {0};
    for (int i = 0; i < b->n_draft; i++) {
        const int tokens = b->tokens[FT_MIN(i, b->n_tokens - 1)];
        sums s = {0};
        for (int p = 0; p < b->prompts; p++) {
            response r = response_new(tokens);
            generate(b, m, b->length[at], p, b->draft[i], tokens, &r);
            add(&s, &r);
            const size_t same = i ? (size_t)FT_MIN(tokens, first[p].most) : 0;
            s.other_ids = s.other_ids || r.n != tokens ||
                          (same && memcmp(r.id, first[p].id, sizeof *r.id * same));
            if (i)
                response_free(&r);
            else
                first[p] = r;
        }
        if (!i) before = s;
        print_line(b, at, b->draft[i], &s, &before);
    }
    for (int p = 0; p < b->prompts; p++) response_free(&first[p]);
    ft_free(first);
}

/* Seconds of the prompts without a drafter. */
static void time_prompts(bench *b)
{
    ft_llm *m = open_model(b, 0);
    response r = response_new(4);
    read_text(b, m);
    generate(b, m, FT_MIN(b->length[0], (int)WARM_UP), 0, 0, 1, &r);
    for (int i = 0; i < b->n_length && b->ratio > 0; i++)
        for (int p = 0; p < b->prompts; p++) {
            generate(b, m, b->length[i], p, 0, 1, &r);
            b->plain_s[i] += r.out.prompt_s;
        }
    response_free(&r);
    ft_llm_close(m);
}

static void options(bench *b, int argc, char **argv)
{
    bool ok = true;
    for (int c; (c = getopt(argc, argv, "m:d:l:n:k:p:t:x:")) != -1;) {
        if (c == 'm') b->p.model = optarg;
        if (c == 'd') b->p.device = optarg;
        if (c == 'l') ok = ok && (b->n_length = parse_ints(optarg, 0, b->length, MOST));
        if (c == 'k') ok = ok && (b->n_draft = parse_ints(optarg, 0, b->draft, MOST));
        if (c == 'n') ok = ok && (b->n_tokens = parse_ints(optarg, 0, b->tokens, MOST));
        if (c == 'p') b->prompts = atoi(optarg);
        if (c == 't') b->p.threads = atoi(optarg);
        if (c == 'x') b->ratio = atof(optarg);
        ok = ok && c != '?';
    }
    for (int i = 0; i < b->n_length; i++) ok = ok && b->length[i] > 0;
    for (int i = 0; i < b->n_tokens; i++) ok = ok && b->tokens[i] > 3;
    if (ok && b->prompts > 0 && optind == argc) return;
    fprintf(stderr, "usage: long [-m MODEL] [-d DEVICE] [-l LENGTH,...] [-n TOKENS,...] "
                    "[-k DRAFTS,...] [-p PROMPTS] [-t THREADS] [-x RATIO]\n");
    exit(1);
}

int main(int argc, char **argv)
{
    bench b = {.length = {1024, 8192},
               .n_length = 2,
               .draft = {0, 2, 3, 4},
               .n_draft = 4,
               .tokens = {64},
               .n_tokens = 1,
               .prompts = 1,
               .ratio = 0.98};
    int most = 1;
    ft_llm_defaults(&b.p);
    options(&b, argc, argv);
    for (int i = 0; i < b.n_draft; i++) most = FT_MAX(most, b.draft[i]);
    time_prompts(&b);
    ft_llm *m = open_model(&b, most);
    printf("%7s %2s %10s %6s %9s %6s %7s %8s %6s\n", "context", "K", "prompt/s", "x none",
           "decode/s", "x K=0", "accept", "tok/step", "drift");
    for (int i = 0; i < b.n_length; i++) one_length(&b, m, i);
    ft_llm_close(m);
    free(b.text);
    if (b.failed) fprintf(stderr, "lines with other ids or a slow prompt: %d\n", b.failed);
    return b.failed != 0;
}
