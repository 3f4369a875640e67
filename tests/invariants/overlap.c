/* tests/invariants/overlap.c - the work of readers (formatting and sending events) overlaps the
 * steps of the engine, and that changes nothing: a job whose reader works during the steps has the
 * events and draft tokens of a session, whose events are handled between steps. The reader of a job
 * handles its first event until further tokens have been drafted: if a step waited for it, neither
 * would go on. */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "foretoken.h"
#include "invariants.h"
#include "posted.h"

#include <pthread.h>

enum { REQUESTS = 4, SLOTS = 2, DRAFTS = 3, AHEAD = 4 };

static bool same_buf(const ft_buf *a, const ft_buf *b)
{
    return ft_str_eq(ft_buf_str(a), ft_buf_str(b));
}

/* What a response consisted of. */
typedef struct heard {
    ft_buf events; /* id, part and whether it was drafted, of every event; then its text */
    ft_buf drafts; /* of every draft: what it was made from, and its tokens */
    ft_response response;
} heard;

/* The drafts of each slot, traced on the engine's thread. */
static struct {
    ft_buf drafts[SLOTS];
    sem_t made[SLOTS];
} traced;

static int slot_of(const char *line)
{
    const char *at = strstr(line, "\"seq_id\":");
    return at ? atoi(at + strlen("\"seq_id\":")) : -1;
}

/* The last token, position, hidden row and draft tokens of a line; the time is left out. */
static void record_draft(void *user, const char *line)
{
    (void)user;
    const int slot = slot_of(line);
    const char *from = strstr(line, "\"id_last\""), *time = strstr(line, ",\"t_draft_us\""),
               *rest = strstr(line, ",\"h_idx\"");
    if (!from) return;
    check(slot >= 0 && slot < SLOTS && time && rest, "a trace of another form: %s", line);
    if (slot < 0 || slot >= SLOTS || !time || !rest) return;
    ft_buf_put(&traced.drafts[slot], from, (size_t)(time - from));
    ft_buf_puts(&traced.drafts[slot], rest);
    sem_post(&traced.made[slot]);
}

static bool record_event(void *user, const ft_event *e)
{
    heard *h = user;
    ft_buf_printf(&h->events, "%d %d %d ", (int)e->id, (int)e->part, e->drafted);
    ft_buf_put(&h->events, e->text, e->bytes);
    return true;
}

static void heard_init(heard *h)
{
    *h = (heard){0};
    ft_buf_init(&h->events, 1 << 20);
    ft_buf_init(&h->drafts, 1 << 20);
}

static void heard_release(heard *h)
{
    ft_buf_release(&h->events);
    ft_buf_release(&h->drafts);
}

/* Moves the drafts of a slot to the response that ran there. */
static void take_drafts(heard *h, int slot)
{
    ft_buf *from = &traced.drafts[slot];
    ft_buf_put(&h->drafts, from->data, from->len);
    from->len = 0;
    while (!sem_trywait(&traced.made[slot])) continue;
}

static ft_llm *open_traced(void)
{
    ft_llm_params p;
    ft_llm *m = NULL;
    ft_err err;
    for (int i = 0; i < SLOTS; i++) {
        ft_buf_init(&traced.drafts[i], 1 << 20);
        sem_init(&traced.made[i], 0, 0);
    }
    ft_llm_defaults(&p);
    p.model = "models/foretoken-tiny.gguf";
    p.slots = SLOTS;
    p.ctx = 512;
    p.threads = 1;
    p.trace = record_draft;
    if (!ft_llm_open(&m, &p, &err)) return m;
    printf("%s\n", err.text);
    exit(1);
}

/* Greedy and sampled responses, the last two with reasoning. Draft lengths are fixed, because
 * adaptive ones depend on times. */
static char *request_of(ft_request *r, ft_llm *m, int i)
{
    static const char *const text[REQUESTS] = {"What does tar do?", "List the files here.",
                                               "How do I copy a folder?", "Define river."};
    char messages[200], *prompt;
    ft_err err;
    snprintf(messages, sizeof messages, "[{\"role\":\"user\",\"content\":\"%s\"}]", text[i]);
    ft_request_defaults(r, m);
    if (ft_llm_render(m, messages, i < 2 ? "{\"enable_thinking\":false}" : "{}", &prompt,
                      &r->in_thought, &err)) {
        printf("%s\n", err.text);
        exit(1);
    }
    r->prompt = prompt;
    r->prompt_bytes = strlen(prompt);
    r->parse = true;
    r->cache_prompt = false;
    r->max_tokens = 60;
    r->ignore_eos = true;
    r->draft_fixed = true;
    r->draft_max = DRAFTS;
    r->slot = i % SLOTS;
    r->sampling.temperature = i % 2 ? 0.8f : 0;
    r->sampling.seed = 7;
    return prompt;
}

/* Without overlap: no step runs while an event is handled. */
static void by_session(heard *h, ft_llm *m, int i)
{
    ft_request r;
    ft_err err;
    char *prompt = request_of(&r, m, i);
    ft_session *s = ft_session_new(m);
    heard_init(h);
    r.on_event = record_event;
    r.user = h;
    if (ft_session_generate(s, &r, &h->response, &err)) check(false, "session: %s", err.text);
    take_drafts(h, 0);
    ft_session_free(s);
    free(prompt);
}

/* ---- jobs ---- */

typedef struct reader {
    int i;
    ft_job *job;
    sem_t news;
    heard got;
    pthread_t thread;
    bool waited, blocked;
} reader;

static void wake(void *user)
{
    sem_post(user);
}

/* The first event takes until AHEAD drafts were made, of which one can precede it. */
static void handle_event(reader *r, const ft_event *e)
{
    for (int k = 0; k < AHEAD && !r->waited && !r->blocked; k++)
        r->blocked = !posted(&traced.made[r->i % SLOTS]);
    r->waited = true;
    record_event(&r->got, e);
}

static void *read_job(void *user)
{
    reader *r = user;
    ft_event e;
    while (!ft_job_done(r->job)) {
        if (ft_job_next(r->job, &e))
            handle_event(r, &e);
        else if (!ft_job_done(r->job))
            sem_wait(&r->news);
    }
    return NULL;
}

static void reader_start(reader *r, ft_llm *m, int i)
{
    ft_request q;
    ft_err err;
    *r = (reader){.i = i};
    heard_init(&r->got);
    sem_init(&r->news, 0, 0);
    char *prompt = request_of(&q, m, i);
    if (ft_job_new(&r->job, m, &q, wake, &r->news, &err) ||
        pthread_create(&r->thread, NULL, read_job, r)) {
        printf("job: %s\n", err.text);
        exit(1);
    }
    free(prompt);
}

static void reader_end(reader *r, const heard *want)
{
    ft_err err;
    heard *got = &r->got;
    pthread_join(r->thread, NULL);
    if (ft_job_result(r->job, &got->response, &err)) check(false, "job: %s", err.text);
    check(got->response.slot == r->i % SLOTS, "request %d ran on slot %d", r->i,
          got->response.slot);
    take_drafts(got, r->i % SLOTS);
    check(r->waited && !r->blocked, "request %d: no step while its reader was at work", r->i);
    check(same_buf(&got->events, &want->events), "request %d: other events: \"%s\", want \"%s\"",
          r->i, ft_buf_z(&got->events), ft_buf_z(&want->events));
    check(same_buf(&got->drafts, &want->drafts), "request %d: other drafts: %s, want %s", r->i,
          ft_buf_z(&got->drafts), ft_buf_z(&want->drafts));
    check(got->response.drafted == want->response.drafted &&
              got->response.accepted == want->response.accepted,
          "request %d: other counts of draft tokens", r->i);
    ft_job_free(r->job);
    sem_destroy(&r->news);
    heard_release(got);
}

int main(void)
{
    if (getenv("FT_TEST_DEV") && strcmp(getenv("FT_TEST_DEV"), "cpu")) return inv_end();
    ft_llm *m = open_traced();
    ft_queue_params p;
    ft_err err;
    heard want[REQUESTS];
    reader r[SLOTS];
    for (int i = 0; i < REQUESTS; i++) {
        by_session(&want[i], m, i);
        check(want[i].response.accepted > 0 && want[i].response.draft_steps > AHEAD + 1,
              "request %d: %d steps with drafts are too few for this test", i,
              (int)want[i].response.draft_steps);
    }
    ft_queue_defaults(&p);
    if (ft_llm_start(m, &p, &err)) check(false, "start: %s", err.text);
    for (int i = 0; i < REQUESTS; i++) { /* alone */
        reader_start(&r[0], m, i);
        reader_end(&r[0], &want[i]);
    }
    for (int i = 0; i < REQUESTS; i += SLOTS) { /* and beside each other */
        for (int k = 0; k < SLOTS; k++) reader_start(&r[k], m, i + k);
        for (int k = 0; k < SLOTS; k++) reader_end(&r[k], &want[i + k]);
    }
    ft_llm_close(m);
    for (int i = 0; i < REQUESTS; i++) heard_release(&want[i]);
    for (int i = 0; i < SLOTS; i++) {
        ft_buf_release(&traced.drafts[i]);
        sem_destroy(&traced.made[i]);
    }
    return inv_end();
}
