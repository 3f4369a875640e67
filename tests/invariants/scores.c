/* tests/invariants/scores.c - the perplexity of a text does not depend on drafting: the same bits
 * from an engine without a drafter and from one whose other slot drafts in the same steps, for
 * every cache type. */
#include "foretoken.h"
#include "invariants.h"

enum { TEXT = 150, FROM = 8 };

typedef struct scores {
    float logprob[TEXT];
    int n;
} scores;

static void take_score(void *user, int i, const ft_logprob *p, int n)
{
    scores *s = user;
    if (i <= FROM || i >= TEXT || n != 1) check(false, "token %d has %d scores", i, n);
    s->logprob[i] = p[0].logprob;
    s->n++;
}

static bool no_tokens(void *user, const ft_emit *e)
{
    (void)user, (void)e;
    return true;
}

static double perplexity(const scores *s)
{
    double sum = 0;
    for (int i = 0; i < TEXT; i++) sum += (double)s->logprob[i];
    return exp(-sum / s->n);
}

/* draft_max > 0: while another slot drafts that many tokens in each of its steps. */
static void score_text(const inv_model *m, const int32_t *ids, ft_kv_type t, int draft_max,
                       scores *out)
{
    static inv_response other;
    ft_engine_params p = inv_params(draft_max);
    ft_err err;
    p.slots = 2;
    p.rows = 64; /* several steps, each with rows of the other slot */
    p.score_rows = 64;
    p.kt = p.vt = t;
    ft_engine *e = inv_engine(m, &p);
    ft_slot *writer = ft_slot_new(e), *reader = ft_slot_new(e);
    *out = (scores){.n = 0};
    if (draft_max) {
        ft_task j = inv_job(32, draft_max);
        j.ignore_eog = true;
        inv_start(&other, writer, &j, ids, 12);
        while (other.n < 16 && ft_engine_step(e)) continue;
    }
    ft_task j = inv_job(0, draft_max);
    j.prompt = ids;
    j.n_prompt = TEXT;
    j.scored = take_score;
    j.score_from = FROM;
    j.top_logprobs = 0;
    j.emit = no_tokens;
    j.user = out;
    check(!ft_slot_start(reader, &j, &err), "a text to score");
    while (ft_slot_busy(reader)) ft_engine_step(e);
    if (draft_max) {
        while (ft_slot_busy(writer)) ft_engine_step(e);
        inv_done(&other);
        check(other.stats.drafted > 8, "%d draft tokens beside the text, want more than 8",
              (int)other.stats.drafted);
    }
    ft_engine_free(e);
}

/* Fewer rows than a chunk of a prompt would leave a scored prompt waiting for ever. */
static void too_few_rows(void)
{
    ft_llm_params p;
    ft_llm *m = NULL;
    ft_err err;
    ft_llm_defaults(&p);
    p.model = "models/foretoken-tiny.gguf";
    p.score_rows = 16;
    const ft_status st = ft_llm_open(&m, &p, &err);
    check(st == FT_EINVAL && strstr(err.text, "16 score_rows, want 0 or 64"),
          "16 score_rows: status %d", (int)st);
    if (!st) ft_llm_close(m);
}

int main(void)
{
    static scores off, on;
    static inv_response text;
    inv_model m = inv_model_tiny(1);
    const int32_t start[] = {17, 300, 42, 900, 5, 77, 1200, 60};
    ft_engine_params p = inv_params(0);
    ft_task j = inv_job(TEXT - FT_COUNT(start), 0);
    j.ignore_eog = true;
    inv_response_alone(&text, &m, &p, &j, start, FT_COUNT(start));
    check(text.n == TEXT, "a text of %d tokens, want %d", text.n, TEXT);
    for (ft_kv_type t = 0; t < FT_KV_TYPES; t++) {
        const bool cuda = !strncmp(m.dev->name, "cuda", 4);
        if (cuda && t == FT_KV_F32) continue;
        score_text(&m, text.id, t, 0, &off);
        score_text(&m, text.id, t, 3, &on);
        check(off.n == TEXT - FROM - 1 && on.n == off.n, "type %d: %d scores, want %d", (int)t,
              on.n, TEXT - FROM - 1);
        check(!memcmp(off.logprob, on.logprob, sizeof off.logprob),
              "type %d: perplexity %.6f beside drafting, %.6f without", (int)t, perplexity(&on),
              perplexity(&off));
    }
    inv_model_close(&m);
    too_few_rows();
    return inv_end();
}
