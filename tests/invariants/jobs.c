/* tests/invariants/jobs.c - jobs of the public API, on the embedded model: the text, parts and
 * probabilities of a job are those of the response of a session, whatever other jobs run. */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/mem.h"
#include "folder.h"
#include "foretoken.h"
#include "invariants.h"
#include "posted.h"

#include <pthread.h>
#include <semaphore.h>
#include <time.h>

enum { REQUESTS = 6 };

typedef struct heard {
    ft_buf part[4]; /* by ft_event_part */
    ft_buf ids, probs;
    ft_response response;
} heard;

static void heard_init(heard *h)
{
    *h = (heard){0};
    for (int i = 0; i < 4; i++) ft_buf_init(&h->part[i], 1 << 20);
    ft_buf_init(&h->ids, 1 << 20);
    ft_buf_init(&h->probs, 1 << 22);
}

static void heard_release(heard *h)
{
    for (int i = 0; i < 4; i++) ft_buf_release(&h->part[i]);
    ft_buf_release(&h->ids);
    ft_buf_release(&h->probs);
}

static bool record_event(void *user, const ft_event *e)
{
    heard *h = user;
    ft_buf_put(&h->part[e->part], e->text, e->bytes);
    if (e->id >= 0) ft_buf_put(&h->ids, &e->id, sizeof e->id);
    ft_buf_put(&h->probs, e->probs, sizeof *e->probs * (size_t)e->n_probs);
    return true;
}

static bool same_buf(const ft_buf *a, const ft_buf *b)
{
    return a->len == b->len && (!a->len || !memcmp(a->data, b->data, a->len));
}

static bool same_output(const heard *a, const heard *b)
{
    bool ok = same_buf(&a->ids, &b->ids) && same_buf(&a->probs, &b->probs);
    for (int i = 0; i < 4; i++) ok &= same_buf(&a->part[i], &b->part[i]);
    return ok && a->response.reason == b->response.reason &&
           a->response.output_tokens == b->response.output_tokens &&
           a->response.thought_tokens == b->response.thought_tokens;
}

static ft_llm *open_tiny(int slots)
{
    ft_llm_params p;
    ft_llm *m = NULL;
    ft_err err;
    ft_llm_defaults(&p);
    p.model = "models/foretoken-tiny.gguf";
    p.slots = slots;
    p.ctx = 3072;
    p.threads = 1;
    if (!ft_llm_open(&m, &p, &err)) return m;
    printf("%s\n", err.text);
    exit(1);
}

/* One request of each kind. */
typedef struct sample_request {
    const char *text, *options, *schema, *grammar, *stop[1];
    int n_stop, max_tokens, top, budget;
    float temperature;
} sample_request;

static const sample_request sample_requests[REQUESTS] = {
    {"What does tar do?", "{\"enable_thinking\":false}", .max_tokens = 40, .top = 3, .budget = -1},
    {"List the files here.", "{\"enable_thinking\":true}", .max_tokens = 60, .top = -1,
     .budget = -1, .temperature = 0.8f},
    {"Define river.", "{\"enable_thinking\":true}", .max_tokens = 60, .top = -1, .budget = 5},
    {"What is 3 + 4?", "{\"enable_thinking\":false}", .max_tokens = 60, .top = 0, .budget = -1,
     .schema = "{\"type\":\"object\",\"properties\":{\"sum\":{\"type\":\"integer\"}},"
               "\"required\":[\"sum\"]}"},
    {"What is 5 + 4?", "{\"enable_thinking\":true}", .max_tokens = 80, .top = -1, .budget = 8,
     .schema = "{\"type\":\"object\",\"properties\":{\"sum\":{\"type\":\"integer\"}},"
               "\"required\":[\"sum\"]}"},
    {"Say something.", "{\"enable_thinking\":false}", .max_tokens = 60, .top = -1, .budget = -1,
     .stop = {"e"}, .n_stop = 1},
};

static char *request_of(ft_request *r, ft_llm *m, const sample_request *a, uint64_t seed)
{
    char messages[400], *prompt;
    ft_err err;
    snprintf(messages, sizeof messages, "[{\"role\":\"user\",\"content\":\"%s\"}]", a->text);
    ft_request_defaults(r, m);
    if (ft_llm_render(m, messages, a->options, &prompt, &r->in_thought, &err)) {
        printf("%s\n", err.text);
        exit(1);
    }
    r->prompt = prompt;
    r->prompt_bytes = strlen(prompt);
    r->parse = true;
    r->max_tokens = a->max_tokens;
    r->top_logprobs = a->top;
    r->json_schema = a->schema;
    r->grammar = a->grammar;
    r->stop = a->stop;
    r->n_stop = a->n_stop;
    r->reasoning_budget = a->budget;
    r->sampling.temperature = a->temperature;
    r->sampling.seed = seed;
    return prompt;
}

static void by_session(heard *h, ft_llm *m, const sample_request *a, uint64_t seed)
{
    ft_request r;
    ft_err err;
    char *prompt = request_of(&r, m, a, seed);
    ft_session *s = ft_session_new(m);
    heard_init(h);
    r.on_event = record_event;
    r.user = h;
    if (ft_session_generate(s, &r, &h->response, &err)) check(false, "session: %s", err.text);
    ft_session_free(s);
    free(prompt);
}

static void wake(void *user)
{
    sem_post(user);
}

static ft_job *begin_job(ft_llm *m, const sample_request *a, uint64_t seed, sem_t *sem)
{
    ft_request r;
    ft_err err;
    ft_job *j = NULL;
    char *prompt = request_of(&r, m, a, seed);
    if (ft_job_new(&j, m, &r, wake, sem, &err)) {
        printf("job: %s\n", err.text);
        exit(1);
    }
    memset(prompt, 'x', strlen(prompt)); /* the job must have copied it */
    free(prompt);
    return j;
}

static void read_all(heard *h, ft_job *j, sem_t *sem)
{
    ft_event e;
    ft_err err;
    heard_init(h);
    while (!ft_job_done(j)) {
        if (ft_job_next(j, &e))
            record_event(h, &e);
        else if (!ft_job_done(j))
            sem_wait(sem);
    }
    if (ft_job_result(j, &h->response, &err)) check(false, "job: %s", err.text);
}

static void start_queue(ft_llm *m, int waiting)
{
    ft_queue_params p;
    ft_err err;
    ft_queue_defaults(&p);
    p.waiting = waiting;
    if (!ft_llm_start(m, &p, &err)) return;
    printf("start: %s\n", err.text);
    exit(1);
}

static void as_session(ft_llm *m)
{
    heard want[REQUESTS], got;
    ft_job *j[REQUESTS];
    sem_t sem[REQUESTS];
    for (int i = 0; i < REQUESTS; i++) by_session(&want[i], m, &sample_requests[i], 7);
    start_queue(m, REQUESTS);
    check(!ft_session_new(m), "a session was created while the queue runs");
    for (int i = 0; i < REQUESTS; i++) {
        sem_init(&sem[i], 0, 0);
        j[i] = begin_job(m, &sample_requests[i], 7, &sem[i]);
    }
    for (int i = REQUESTS - 1; i >= 0; i--) { /* the first job waits for its reader */
        read_all(&got, j[i], &sem[i]);
        check(same_output(&got, &want[i]),
              "job %d: \"%s\" after \"%s\", a session says \"%s\" after \"%s\"", i,
              ft_buf_z(&got.part[0]), ft_buf_z(&got.part[1]), ft_buf_z(&want[i].part[0]),
              ft_buf_z(&want[i].part[1]));
        check(got.response.slot >= 0, "job %d has no slot", i);
        heard_release(&got);
        ft_job_free(j[i]);
        sem_destroy(&sem[i]);
    }
    check(want[2].response.thought_tokens <= 5 + 4,
          "a reasoning budget of 5 gave %d reasoning tokens", want[2].response.thought_tokens);
    check(want[2].part[FT_PART_ANSWER].len > 0, "no content after reasoning that was cut off");
    check(want[4].part[FT_PART_THOUGHT].len > 0, "a schema suppressed the reasoning");
    check(want[4].part[FT_PART_ANSWER].len && want[4].part[FT_PART_ANSWER].data[0] == '{',
          "an answer behind a thought is not the schema's: %s",
          ft_buf_z(&want[4].part[FT_PART_ANSWER]));
    for (int i = 0; i < REQUESTS; i++) heard_release(&want[i]);
    ft_llm_stop(m, true);
}

/* Jobs cancelled at any time, and a stop while jobs exist. */
static void check_cancel(ft_llm *m)
{
    sem_t sem;
    ft_event e;
    ft_job *kept[3];
    struct timespec soon;
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_sec += 5;
    sem_init(&sem, 0, 0);
    start_queue(m, 100);
    for (int i = 0; i < 40; i++) {
        ft_job *j = begin_job(m, &sample_requests[i % REQUESTS], (uint64_t)i, &sem);
        if (i % 4 == 1) ft_job_end_thought(j);
        for (int k = 0; k < i % 5; k++) {
            if (i % 3 && !ft_job_done(j)) sem_timedwait(&sem, &soon);
            ft_job_next(j, &e);
        }
        if (i % 7 == 0) ft_job_cancel(j);
        ft_job_free(j);
        while (!sem_trywait(&sem)) {
        }
    }
    for (int i = 0; i < 3; i++) kept[i] = begin_job(m, &sample_requests[1], 1, &sem);
    ft_llm_stop(m, false);
    for (int i = 0; i < 3; i++) {
        ft_response r;
        while (ft_job_next(kept[i], &e)) {
        }
        check(ft_job_done(kept[i]) && !ft_job_result(kept[i], &r, NULL) &&
                  r.reason == FT_REASON_CANCEL,
              "a job outlived the queue");
        ft_job_free(kept[i]);
    }
    ft_llm_stats s;
    ft_llm_counts(m, &s);
    check(s.busy == 0 && s.waiting == 0 && s.responses == 43, "%d responses counted, want 43",
          (int)s.responses);
    sem_destroy(&sem);
}

/* ---- conversations ---- */

typedef struct conversation_state {
    ft_buf messages;      /* JSON, without the closing bracket */
    int evaluated, fresh; /* tokens of the last turn: evaluated, and new since the turn before */
    int before;           /* tokens of the prompt of the turn before, without the header */
    int after;            /* tokens of that prompt and its response */
    int again;            /* evaluated in the last turn besides what followed them */
    int draft_max;
    double accepted; /* acceptance rate */
} conversation_state;

static void add_member(ft_buf *b, const char *key, const char *text)
{
    ft_buf_printf(b, ",\"%s\":\"", key);
    for (; *text; text++) {
        if (*text == '\n')
            ft_buf_puts(b, "\\n");
        else if (*text == '"' || *text == '\\')
            ft_buf_printf(b, "\\%c", *text);
        else if ((unsigned char)*text >= ' ')
            ft_buf_putc(b, *text);
    }
    ft_buf_putc(b, '"');
}

static void add_message(conversation_state *t, const char *role, const char *text,
                        const char *thought)
{
    ft_buf_puts(&t->messages, t->messages.len ? "," : "[");
    ft_buf_printf(&t->messages, "{\"role\":\"%s\"", role);
    add_member(&t->messages, "content", text);
    if (*thought) add_member(&t->messages, "reasoning_content", thought);
    ft_buf_putc(&t->messages, '}');
}

/* Tokens of the response header, which the template renders again in the next prompt. */
static int header(ft_llm *m, const ft_request *r)
{
    int32_t *ids;
    size_t n;
    const char *at = r->prompt;
    for (const char *next; (next = strstr(at + 1, "<|im_start|>"));) at = next;
    if (ft_vocab_encode(ft_llm_vocab(m), at, strlen(at), FT_ENCODE_PARSE_SPECIAL, &ids, &n, NULL))
        exit(1);
    free(ids);
    return (int)n;
}

/* One turn as a job; the ids of the response are compared with those of a model without cache. */
static void one_turn(conversation_state *t, ft_llm *m, ft_llm *cold, const char *role,
                     const char *words, int max_tokens)
{
    ft_request r;
    ft_err err;
    ft_job *j = NULL;
    char *prompt;
    heard h, want;
    sem_t sem;
    add_message(t, role, words, "");
    ft_buf all;
    ft_buf_init(&all, 1 << 20);
    ft_buf_put_str(&all, ft_buf_str(&t->messages));
    ft_buf_putc(&all, ']');
    ft_request_defaults(&r, m);
    r.sampling.temperature = 0;
    r.parse = true;
    r.max_tokens = max_tokens;
    r.draft_fixed = true;
    r.draft_max = t->draft_max;
    if (ft_llm_render(m, ft_buf_z(&all), "{}", &prompt, &r.in_thought, &err)) {
        printf("%s: %s\n", err.text, ft_buf_z(&all));
        exit(1);
    }
    r.prompt = prompt;
    r.prompt_bytes = strlen(prompt);
    sem_init(&sem, 0, 0);
    if (ft_job_new(&j, m, &r, wake, &sem, &err)) {
        printf("%s\n", err.text);
        exit(1);
    }
    read_all(&h, j, &sem);
    ft_job_free(j);
    r.cache_prompt = false;
    if (ft_job_new(&j, cold, &r, wake, &sem, &err)) exit(1);
    read_all(&want, j, &sem);
    ft_job_free(j);
    sem_destroy(&sem);
    check(same_output(&h, &want), "a turn with a cached prefix: \"%s\", want \"%s\"",
          ft_buf_z(&h.part[0]), ft_buf_z(&want.part[0]));
    check(h.response.accepted == want.response.accepted,
          "%d draft tokens accepted, without a cache %d", (int)h.response.accepted,
          (int)want.response.accepted);
    t->evaluated = h.response.prompt_tokens - h.response.cached_tokens;
    t->fresh = h.response.prompt_tokens - t->before;
    t->again = t->evaluated - (h.response.prompt_tokens - t->after);
    t->after = h.response.prompt_tokens + h.response.output_tokens;
    t->before = h.response.prompt_tokens - header(m, &r);
    add_message(t, "assistant", ft_buf_z(&h.part[FT_PART_ANSWER]),
                ft_buf_z(&h.part[FT_PART_THOUGHT]));
    heard_release(&h);
    heard_release(&want);
    ft_buf_release(&all);
    free(prompt);
}

/* Many turns; each evaluates the new tokens and less than a page more. The server restarts
 * half-way.
 */
static void conversation(ft_llm *cold)
{
    static const char *const asks2[] = {"What does tar do?", "Define river.", "What is 3 + 4?",
                                        "How do I list files by size?"};
    char dir[64];
    conversation_state t = {.draft_max = -1};
    ft_queue_params p;
    ft_err err;
    ft_buf_init(&t.messages, 1 << 20);
    folder_new(dir);
    ft_queue_defaults(&p);
    p.cache_dir = dir;
    p.prefix_bytes = 64 << 20;
    start_queue(cold, 4);
    ft_llm *m = open_tiny(2);
    if (ft_llm_start(m, &p, &err)) exit(1);
    add_message(&t, "system",
                "You are a helpful assistant that explains shell commands and words. Be "
                "brief, be exact, and say so when you do not know something at all.",
                "");
    for (int i = 0; i < 10; i++) {
        one_turn(&t, m, cold, "user", asks2[i % 4], 24);
        if (i)
            check(t.evaluated < t.fresh + 64, "turn %d evaluated %d tokens for %d new ones", i,
                  t.evaluated, t.fresh);
        if (i != 5) continue;
        ft_llm_close(m);
        m = open_tiny(2);
        if (ft_llm_start(m, &p, &err)) exit(1);
    }
    ft_llm_stats s;
    ft_llm_counts(m, &s);
    check(s.prefix_hits >= 4 && s.prefix_bytes > 0 && s.prefix_entries > 0,
          "counts of what was found: %d hits", (int)s.prefix_hits);
    ft_llm_close(m);
    ft_llm_stop(cold, true);
    ft_buf_release(&t.messages);
    if (folder_free(dir)) perror(dir);
}

/* ---- slots and vectors ---- */

static int response_salted(ft_llm *m, const int32_t *ids, int n, uint64_t salt, heard *h)
{
    ft_request r;
    ft_err err;
    ft_job *j = NULL;
    sem_t sem;
    sem_init(&sem, 0, 0);
    ft_request_defaults(&r, m);
    r.ids = ids;
    r.n_ids = n;
    r.max_tokens = 8;
    r.sampling.temperature = 0;
    r.slot = 1;
    r.cache_salt = salt;
    if (ft_job_new(&j, m, &r, wake, &sem, &err)) exit(1);
    read_all(h, j, &sem);
    check(h->response.slot == 1, "on slot %d, want 1", h->response.slot);
    ft_job_free(j);
    sem_destroy(&sem);
    return h->response.cached_tokens;
}

static int response_cached(ft_llm *m, const int32_t *ids, int n, heard *h)
{
    return response_salted(m, ids, n, 0, h);
}

/* Requests with one salt find nothing of those with another, in memory, on the slot, in a folder or
 * in a file; the text is the same. */
static void salts(void)
{
    char dir[sizeof FOLDER], path[100];
    int32_t ids[200];
    heard h[5];
    ft_slot_info info[2];
    ft_queue_params q;
    ft_err err;
    int n;
    folder_new(dir);
    snprintf(path, sizeof path, "%s/slot", dir);
    for (int i = 0; i < 200; i++) ids[i] = 300 + i * 41 % 5000;
    for (int again = 0; again < 2; again++) {
        ft_llm *m = open_tiny(2);
        ft_queue_defaults(&q);
        q.cache_dir = dir;
        if (ft_llm_start(m, &q, &err)) exit(1);
        const int found = again ? 192 : 0; /* the second time in the folder */
        check(response_salted(m, ids, 200, 11, &h[0]) == found, "salt 11 finds %d, want %d",
              h[0].response.cached_tokens, found);
        check(response_salted(m, ids, 200, 22, &h[1]) == found, "salt 22 finds %d, want %d",
              h[1].response.cached_tokens, found);
        check(response_salted(m, ids, 200, 33 + (uint64_t)again, &h[2]) == 0,
              "another salt finds %d", h[2].response.cached_tokens);
        check(response_salted(m, ids, 200, 11, &h[3]) == 192,
              "salt 11 finds %d of its own, want 192", h[3].response.cached_tokens);
        check(same_buf(&h[0].ids, &h[1].ids) && same_buf(&h[0].ids, &h[3].ids),
              "a salt changes the text");
        check(ft_llm_slots(m, info, 2) == 2 && info[1].cache_salt == 11, "a lane knows its salt");
        check(ft_slot_save(m, 1, 22, path, &n, &err) == FT_ENOTFOUND, "saved with another salt");
        check(ft_slot_erase(m, 1, 22, &n, &err) == FT_ENOTFOUND, "erased with another salt");
        check(!ft_slot_save(m, 1, 11, path, &n, &err), "%s", err.text);
        check(!ft_slot_erase(m, 1, 11, &n, &err), "%s", err.text);
        check(ft_slot_restore(m, 1, 22, path, &n, &err) == FT_EUNSUPPORTED, "restored for another");
        check(!ft_slot_restore(m, 1, 11, path, &n, &err), "%s", err.text);
        ft_llm_close(m);
        for (int i = 0; i < 4; i++) heard_release(&h[i]);
    }
    if (folder_free(dir)) perror(dir);
}

static char *file_bytes(const char *path, long *n)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END)) exit(1);
    *n = ftell(f);
    rewind(f);
    char *p = malloc((size_t)*n);
    if (!p || fread(p, 1, (size_t)*n, f) != (size_t)*n) exit(1);
    fclose(f);
    return p;
}

static void write_bytes(const char *path, const char *p, long n)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(p, 1, (size_t)n, f) != (size_t)n || fclose(f)) exit(1);
}

/* A saved slot with any bit changed, cut anywhere or with something behind it is refused. */
static void damaged_slots(void)
{
    char path[64];
    int32_t ids[200];
    heard h;
    ft_err err;
    int got, accepted = 0;
    long n;
    snprintf(path, sizeof path, "/tmp/foretoken-damaged-lane-%d", (int)getpid());
    for (int i = 0; i < 200; i++) ids[i] = 300 + i * 37 % 5000;
    ft_llm *m = open_tiny(2);
    start_queue(m, 4);
    response_cached(m, ids, 200, &h);
    check(!ft_slot_save(m, 1, 0, path, &got, &err), "%s", err.text);
    char *right = file_bytes(path, &n);
    struct stat st;
    check(!stat(path, &st) && (st.st_mode & 0777) == 0600, "mode %o, want 600", st.st_mode & 0777);
    for (int i = 0; i < 600; i++) {
        const long at = i < 400 ? i * 3 % n : (long)((uint64_t)i * 2654435761u % (uint64_t)n);
        right[at] = (char)(right[at] ^ (1 << i % 8));
        write_bytes(path, right, n);
        accepted += ft_slot_restore(m, 1, 0, path, &got, &err) == FT_OK;
        right[at] = (char)(right[at] ^ (1 << i % 8));
    }
    for (int i = 0; i < 40; i++) {
        write_bytes(path, right, i * n / 40);
        accepted += ft_slot_restore(m, 1, 0, path, &got, &err) == FT_OK;
    }
    char *longer = calloc(1, (size_t)n + 1);
    memcpy(longer, right, (size_t)n);
    write_bytes(path, longer, n + 1);
    accepted += ft_slot_restore(m, 1, 0, path, &got, &err) == FT_OK;
    check(accepted == 0, "%d of 641 damaged files were accepted", accepted);
    write_bytes(path, right, n);
    check(!ft_slot_restore(m, 1, 0, path, &got, &err), "the file itself: %s", err.text);
    unlink(path);
    check(!symlink("/etc/hostname", path), "symlink");
    check(ft_slot_restore(m, 1, 0, path, &got, &err) == FT_EIO, "a link was followed");
    unlink(path);
    free(longer);
    free(right);
    heard_release(&h);
    ft_llm_close(m);
}

/* Saves the context of a slot to a file and restores it in a new instance. */
static void slots(void)
{
    char path[64];
    int32_t ids[200];
    heard a, b;
    ft_err err;
    int n;
    ft_slot_info info[4];
    snprintf(path, sizeof path, "/tmp/foretoken-invariant-slot-%d", (int)getpid());
    for (int i = 0; i < 200; i++) ids[i] = 300 + i * 37 % 5000;
    ft_llm *m = open_tiny(2);
    start_queue(m, 4);
    check(response_cached(m, ids, 200, &a) == 0, "cached tokens in a new instance");
    check(!ft_slot_save(m, 1, 0, path, &n, &err) && n >= 200, "%d tokens saved: %s", n, err.text);
    check(ft_llm_slots(m, info, 4) == 2 && !info[1].busy && info[1].prompt_tokens == 200,
          "two lanes, the second with 200 tokens");
    check(ft_slot_save(m, 2, 0, path, &n, &err) == FT_ENOTFOUND, "a third slot was accepted");
    check(!ft_slot_erase(m, 1, 0, &n, &err) && n >= 200, "erase");
    ft_llm_close(m);
    m = open_tiny(2);
    start_queue(m, 4);
    check(ft_slot_restore(m, 1, 0, "/tmp/nothing-here", &n, &err) != FT_OK,
          "a file that is not there");
    check(!ft_slot_restore(m, 1, 0, path, &n, &err) && n >= 200, "%d tokens restored", n);
    check(response_cached(m, ids, 200, &b) == 192, "%d cached tokens after a restore, want 192",
          b.response.cached_tokens);
    check(same_buf(&a.ids, &b.ids), "a restored slot continues with other ids");
    FILE *f = fopen(path, "r+b");
    fseek(f, 2000, SEEK_SET);
    fputc(77, f);
    fclose(f);
    ft_llm_close(m);
    m = open_tiny(2);
    start_queue(m, 4);
    check(ft_slot_restore(m, 1, 0, path, &n, &err) == FT_EFORMAT, "a damaged file");
    ft_llm_close(m);
    unlink(path);
    heard_release(&a);
    heard_release(&b);
}

static void check_vectors(ft_llm *m)
{
    enum { N = 90 };
    int32_t ids[N];
    ft_err err;
    const size_t D = (size_t)ft_llm_about(m)->width;
    float *a = ft_new_n(float, D), *b = ft_new_n(float, D);
    for (int i = 0; i < N; i++) ids[i] = 500 + i * 13;
    check(!ft_llm_embed(m, ids, N, FT_POOL_MEAN, a, &err), "embed: %s", err.text);
    double norm = 0;
    for (size_t i = 0; i < D; i++) norm += (double)a[i] * (double)a[i];
    check(norm > 0.999 && norm < 1.001, "a vector of norm %g, want 1", norm);
    start_queue(m, 4);
    sem_t sem;
    sem_init(&sem, 0, 0);
    ft_job *j = begin_job(m, &sample_requests[1], 1, &sem);
    check(!ft_llm_embed(m, ids, N, FT_POOL_MEAN, b, &err), "embed: %s", err.text);
    check(!memcmp(a, b, D * sizeof *a), "a vector computed beside a response differs");
    check(!ft_llm_embed(m, ids, N, FT_POOL_LAST, b, &err) && memcmp(a, b, D * sizeof *a),
          "the last row is the mean of all");
    check(ft_llm_embed(m, ids, 0, FT_POOL_MEAN, b, &err) == FT_EINVAL,
          "a vector of no tokens was accepted");
    ft_job_free(j);
    ft_llm_stop(m, true);
    sem_destroy(&sem);
    ft_free(a);
    ft_free(b);
}

static void post_done(void *user)
{
    sem_post(user);
}

/* Many texts at once: the vectors of each alone; cancelled they end, and nothing waits for them. */
static void many_vectors(ft_llm *m)
{
    enum { TEXTS = 1000, LEN = 400 };
    static int32_t ids[TEXTS][LEN];
    static const int32_t *text[TEXTS];
    static int n_ids[TEXTS];
    ft_err err;
    ft_llm_stats before, after;
    ft_embedding *b = NULL;
    const float *out;
    const size_t D = (size_t)ft_llm_about(m)->width;
    float *alone = ft_new_n(float, D);
    sem_t sem;
    sem_init(&sem, 0, 0);
    for (int i = 0; i < TEXTS; i++) {
        for (int k = 0; k < LEN; k++) ids[i][k] = 500 + (i * 31 + k * 13) % 2000;
        text[i] = ids[i];
        n_ids[i] = i < 9 ? 5 + i : LEN;
    }
    ft_embedding_params p = {.ids = text, .n_ids = n_ids, .n = 9, .wake = post_done, .user = &sem};
    start_queue(m, 1); /* the queue has fewer places than there are texts */
    check(!ft_embedding_new(&b, m, &p, &err), "embedding: %s", err.text);
    check(posted(&sem) && ft_embedding_done(b), "9 vectors are never done");
    check(!ft_embedding_result(b, &out, &err), "9 vectors: %s", err.text);
    for (int i = 0; i < 9; i++) {
        ft_llm_embed(m, text[i], n_ids[i], FT_POOL_MEAN, alone, &err);
        check(!memcmp(alone, out + (size_t)i * D, D * sizeof *alone), "vector %d differs", i);
    }
    ft_embedding_free(b);
    p.n = TEXTS;
    ft_llm_counts(m, &before);
    check(!ft_embedding_new(&b, m, &p, &err), "embedding: %s", err.text);
    ft_embedding_cancel(b);
    check(posted(&sem), "a cancelled embedding is never done");
    ft_llm_counts(m, &after);
    check(after.responses - before.responses < TEXTS / 2, "%d texts ran after the cancel",
          (int)(after.responses - before.responses));
    check(ft_embedding_result(b, &out, &err) == FT_ECANCELLED, "a cancelled one has a result");
    ft_embedding_free(b);
    check(!ft_embedding_new(&b, m, &p, &err), "embedding: %s", err.text);
    ft_embedding_free(b); /* while it runs: */
    ft_llm_stop(m, true); /* nothing is left to drain */
    ft_llm_counts(m, &before);
    check(before.responses - after.responses < TEXTS / 2, "texts of a freed embedding ran");
    n_ids[3] = 0;
    start_queue(m, 1);
    check(ft_embedding_new(&b, m, &p, &err) == FT_EINVAL, "a vector of no tokens was accepted");
    ft_llm_stop(m, true);
    sem_destroy(&sem);
    ft_free(alone);
}

static void check_rejections(ft_llm *m)
{
    ft_request r;
    ft_err err;
    ft_job *j = NULL;
    int32_t *ids = ft_new_n(int32_t, 4000);
    start_queue(m, 1);
    ft_request_defaults(&r, m);
    r.ids = ids;
    r.n_ids = 3072;
    check(ft_job_new(&j, m, &r, NULL, NULL, &err) == FT_ECONTEXT,
          "a prompt as long as the context");
    r.n_ids = 10;
    ids[3] = -1;
    check(ft_job_new(&j, m, &r, NULL, NULL, &err) == FT_EINVAL, "a negative id was accepted");
    ids[3] = 0;
    r.grammar = "root ::= (";
    check(ft_job_new(&j, m, &r, NULL, NULL, &err) != FT_OK, "an invalid grammar was accepted");
    r.grammar = NULL;
    r.sampling.repeat_penalty = 0;
    check(ft_job_new(&j, m, &r, NULL, NULL, &err) == FT_EINVAL, "an invalid penalty was accepted");
    ft_llm_stop(m, true);
    r.sampling.repeat_penalty = 1;
    check(ft_job_new(&j, m, &r, NULL, NULL, &err) == FT_ECANCELLED,
          "a job was accepted after the stop");
    ft_free(ids);
}

/* A loop of tool results: the template keeps what the model wrote since the last message of the
 * user, so that its responses are not evaluated again. */
static void tool_loop(ft_llm *cold, int draft_max)
{
    static const char *const result[] = {"ok", "3 results for river", "12:30", "7"};
    conversation_state t = {.draft_max = draft_max};
    ft_queue_params p;
    ft_err err;
    ft_buf_init(&t.messages, 1 << 20);
    ft_queue_defaults(&p);
    start_queue(cold, 4);
    ft_llm *m = open_tiny(1);
    if (ft_llm_start(m, &p, &err)) exit(1);
    one_turn(&t, m, cold, "user", "Show me how to use tar.", 150);
    int longest = 0;
    for (int i = 0; i < 4; i++) {
        longest = FT_MAX(longest, t.after - t.before);
        one_turn(&t, m, cold, "tool", result[i], 100);
        check(t.again <= 64, "step %d of a tool loop, %d drafts: %d tokens evaluated again", i,
              draft_max, t.again);
    }
    check(longest > 100, "all responses of the tool loop are short: at most %d tokens", longest);
    ft_llm_close(m);
    ft_llm_stop(cold, true);
    ft_buf_release(&t.messages);
}

int main(void)
{
    ft_llm *m = open_tiny(3);
    as_session(m);
    check_cancel(m);
    check_rejections(m);
    conversation(m);
    tool_loop(m, 0);
    tool_loop(m, 3);
    check_vectors(m);
    many_vectors(m);
    ft_llm_close(m);
    slots();
    salts();
    damaged_slots();
    return inv_end();
}
