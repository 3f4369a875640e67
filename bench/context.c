/* context: the acceptance of draft tokens over the length of the context, for a trained model.
 *   context [-m MODEL] [-d DEVICE] [-f TEXT] [-l LENGTH,...] [-q QUESTIONS] [-c CONVERSATIONS]
 *           [-k DRAFTS] [-t THREADS]
 * First, questions of bench/prompts/dialogue.txt after a system message with about LENGTH tokens of
 * TEXT: acceptance rate, tokens per step, and how many answers are those without the text, which
 * shows up to which length the model can be used. Then conversations in which all these questions
 * are asked one after another, in different orders: the same by the length of the context.
 * Decoding is greedy, with a fixed number of draft tokens. All figures but tokens per second are
 * counts and do not depend on the load of the machine. */
#define _XOPEN_SOURCE 700
#include "common.h"

#include "api/model.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MOST = 16,
    QUESTIONS = 64,
    TOKENS = 96,
    ANSWER_BYTES = 4096,
    TEXT_BYTES = 1 << 20,
    CLASS = 256, /* tokens of context that a line of the second table covers */
    CLASSES = 8,
};
#define CHECKPOINT_BYTES ((uint64_t)1 << 30)

typedef struct bench {
    ft_llm_params p;
    ft_llm *m;
    const char *file;
    int length[MOST], n_length, asked, conversations, drafts;
    char *text, *lines, *question[QUESTIONS];
    double bytes_per_token; /* of the text */
    int n_question;
} bench;

typedef struct answer {
    char text[ANSWER_BYTES];
    size_t n;
    ft_response out;
} answer;

typedef struct sums {
    int64_t tokens, drafted, accepted, prompt;
    int responses, same;
    double seconds;
} sums;

static bool take(void *user, const ft_event *e)
{
    answer *a = user;
    const size_t n = FT_MIN(e->bytes, sizeof a->text - 1 - a->n);
    if (e->part != FT_PART_ANSWER) return true;
    memcpy(a->text + a->n, e->text, n);
    a->text[a->n += n] = 0;
    return true;
}

static void ask(const bench *b, json_t *messages, answer *a)
{
    char *json = json_dumps(messages, JSON_COMPACT), *prompt;
    ft_request q;
    ft_err err;
    ft_request_defaults(&q, b->m);
    stop_on(ft_llm_render(b->m, json, NULL, &prompt, &q.in_thought, &err), &err);
    a->n = a->text[0] = 0;
    q.prompt = prompt;
    q.prompt_bytes = strlen(prompt);
    q.max_tokens = TOKENS;
    q.parse = true;
    q.cache_prompt = true;
    q.sampling.temperature = 0;
    q.draft_max = b->drafts;
    q.draft_fixed = true;
    q.on_event = take;
    q.user = a;
    ft_session *s = ft_session_new(b->m);
    stop_on(ft_session_generate(s, &q, &a->out, &err), &err);
    ft_session_free(s);
    free(prompt);
    free(json);
}

static void add_message(json_t *messages, const char *role, const char *text, size_t n)
{
    json_array_append_new(messages,
                          json_pack("{s:s, s:o}", "role", role, "content", json_stringn(text, n)));
}

static void count(sums *s, const answer *a)
{
    s->tokens += a->out.output_tokens;
    s->drafted += a->out.drafted;
    s->accepted += a->out.accepted;
    s->prompt += a->out.prompt_tokens;
    s->seconds += a->out.output_s;
    s->responses++;
}

static void print_sums(const sums *s)
{
    printf(" %9d %7lld %7.3f %8.3f %9.1f", s->responses, (long long)s->tokens,
           (double)s->accepted / (double)FT_MAX(1, s->drafted),
           (double)s->tokens / (double)FT_MAX(1, s->tokens - s->accepted),
           (double)(s->tokens - s->responses) / s->seconds);
}

/* The bytes of about n tokens of the text, up to the end of a line. */
static size_t text_bytes(const bench *b, int n)
{
    size_t bytes = FT_MIN(strlen(b->text), (size_t)(n * b->bytes_per_token));
    while (n && bytes && b->text[bytes - 1] != '\n') bytes--;
    return bytes;
}

static void after_text(const bench *b)
{
    static answer plain[QUESTIONS], a;
    printf("%7s %9s %7s %7s %8s %9s %5s\n", "context", "responses", "tokens", "accept", "tok/step",
           "tokens/s", "same");
    for (int i = -1; i < b->n_length; i++) {
        sums s = {0};
        for (int k = 0; k < b->asked; k++) {
            json_t *messages = json_array();
            if (i >= 0) add_message(messages, "system", b->text, text_bytes(b, b->length[i]));
            add_message(messages, "user", b->question[k], strlen(b->question[k]));
            ask(b, messages, i < 0 ? &plain[k] : &a);
            json_decref(messages);
            count(&s, i < 0 ? &plain[k] : &a);
            s.same += i < 0 || !strcmp(a.text, plain[k].text);
        }
        printf("%7lld", (long long)s.prompt / s.responses);
        print_sums(&s);
        printf(" %5d\n", s.same);
        fflush(stdout);
    }
}

static void conversations(const bench *b)
{
    static answer a;
    sums by_length[CLASSES] = {{0}};
    ft_rng r = {1};
    for (int c = 0; c < b->conversations; c++) {
        json_t *messages = json_array();
        int order[QUESTIONS];
        for (int i = 0; i < b->n_question; i++) {
            const int k = (int)(ft_rng_u64(&r) % (uint64_t)(i + 1));
            order[i] = order[k];
            order[k] = i;
        }
        for (int i = 0, n = 0; i < b->n_question && n < CLASS * CLASSES; i++) {
            const char *q = b->question[order[i]];
            add_message(messages, "user", q, strlen(q));
            ask(b, messages, &a);
            add_message(messages, "assistant", a.text, a.n);
            n = a.out.prompt_tokens;
            if (n < CLASS * CLASSES) count(&by_length[n / CLASS], &a);
        }
        json_decref(messages);
    }
    printf("%9s %9s %7s %7s %8s %9s\n", "position", "responses", "tokens", "accept", "tok/step",
           "tokens/s");
    for (int i = 0; i < CLASSES; i++) {
        if (!by_length[i].responses) continue;
        printf("%4d-%4d", i * CLASS, (i + 1) * CLASS - 1);
        print_sums(&by_length[i]);
        putchar('\n');
    }
}

static void options(bench *b, int argc, char **argv)
{
    bool ok = true;
    for (int c; (c = getopt(argc, argv, "m:d:f:l:q:c:k:t:")) != -1;) {
        if (c == 'm') b->p.model = optarg;
        if (c == 'd') b->p.device = optarg;
        if (c == 'f') b->file = optarg;
        if (c == 'l') ok = ok && (b->n_length = parse_ints(optarg, 1, b->length, MOST));
        if (c == 'q') b->asked = atoi(optarg);
        if (c == 'c') b->conversations = atoi(optarg);
        if (c == 'k') b->drafts = atoi(optarg);
        if (c == 't') b->p.threads = atoi(optarg);
        ok = ok && c != '?';
    }
    if (ok && b->asked > 0 && b->drafts >= 0 && b->drafts <= FT_DRAFT_MAX && optind == argc) return;
    fprintf(stderr, "usage: context [-m MODEL] [-d DEVICE] [-f TEXT] [-l LENGTH,...] "
                    "[-q QUESTIONS] [-c CONVERSATIONS] [-k DRAFTS] [-t THREADS]\n");
    exit(1);
}

static void read_files(bench *b)
{
    size_t n, n_ids;
    int32_t *ids;
    ft_err err;
    stop_on(ft_file_read(&b->lines, &n, "bench/prompts/dialogue.txt", TEXT_BYTES, &err), &err);
    for (char *q = strtok(b->lines, "\n"); q && b->n_question < QUESTIONS; q = strtok(NULL, "\n"))
        b->question[b->n_question++] = q;
    b->asked = FT_MIN(b->asked, b->n_question);
    stop_on(ft_file_read(&b->text, &n, b->file, TEXT_BYTES, &err), &err);
    stop_on(ft_vocab_encode(ft_llm_vocab(b->m), b->text, n, 0, &ids, &n_ids, &err), &err);
    b->bytes_per_token = (double)n / (double)FT_MAX(1, n_ids);
    free(ids);
}

int main(int argc, char **argv)
{
    bench b = {.file = "docs/api.md",
               .length = {256, 512, 768, 1024, 1536, 2048, 3072, 4096},
               .n_length = 8,
               .asked = 20,
               .conversations = 10,
               .drafts = 3};
    int most = CLASS * CLASSES;
    ft_err err;
    ft_llm_defaults(&b.p);
    options(&b, argc, argv);
    for (int i = 0; i < b.n_length; i++) most = FT_MAX(most, b.length[i] + b.length[i] / 4);
    b.p.ctx = FT_MAX(b.p.ctx, most + 4 * TOKENS);
    b.p.slots = 1;
    b.p.draft_max = b.drafts;
    stop_on(ft_llm_open(&b.m, &b.p, &err), &err);
    stop_on(ft_engine_share(b.m->engine, CHECKPOINT_BYTES, NULL, &err), &err);
    read_files(&b);
    after_text(&b);
    conversations(&b);
    ft_free(b.text);
    ft_free(b.lines);
    ft_llm_close(b.m);
    return 0;
}
