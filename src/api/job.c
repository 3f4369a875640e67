/* api/job.c - responses on the engine thread: events are buffered until their reader takes them,
 * and generation pauses while the buffer is full. */
#include "api/generate.h"
#include "api/prompt_scores.h"
#include "api/request.h"
#include "base/mem.h"

enum {
    HOLD_BYTES = 64 << 10,     /* unread events that pause a response */
    MAX_BYTES = 1 << 30,       /* more than a step can add to that */
    ALIGN = sizeof(ft_event *) /* of an event in the buffer */
};

struct ft_job {
    ft_entry entry; /* must be first: the queue's callbacks receive a pointer to it */
    ft_llm *m;
    ft_request r;
    ft_generate answer;
    atomic_bool end_thought;
    atomic_int owners; /* the caller, and the queue until the entry is done */

    pthread_mutex_t lock;
    ft_buf in; /* events that were not read yet */
    bool news, done, paused;
    void (*wake)(void *user); /* NULL: the owner has left */
    void *user;
    ft_status st;
    ft_err err;
    ft_response response;

    ft_buf out; /* the reader's: events up to `at` were returned */
    size_t at;
};

static ft_job *job_of(ft_entry *e)
{
    return (ft_job *)(void *)e;
}

/* ---- on the engine thread ---- */

/* An event, then its text, then its probabilities. */
static bool push(void *user, const ft_event *e)
{
    ft_job *j = user;
    static const char none[ALIGN];
    const size_t probs = sizeof *e->probs * (size_t)e->n_probs;
    pthread_mutex_lock(&j->lock);
    ft_buf_put(&j->in, e, sizeof *e);
    ft_buf_put(&j->in, e->probs, probs);
    ft_buf_put(&j->in, e->text, e->bytes);
    ft_buf_put(&j->in, none, ft_round_up(j->in.len, ALIGN) - j->in.len);
    j->news = true;
    pthread_mutex_unlock(&j->lock);
    return true;
}

static bool ready(ft_entry *e)
{
    ft_job *j = job_of(e);
    pthread_mutex_lock(&j->lock);
    j->paused = j->in.len >= HOLD_BYTES;
    const bool ok = !j->paused;
    pthread_mutex_unlock(&j->lock);
    return ok;
}

static void after_step(ft_entry *e)
{
    ft_job *j = job_of(e);
    pthread_mutex_lock(&j->lock);
    if (j->wake && (j->news || j->r.progress)) j->wake(j->user);
    j->news = false;
    pthread_mutex_unlock(&j->lock);
}

static void drop(ft_job *j)
{
    if (atomic_fetch_sub(&j->owners, 1) > 1) return;
    ft_generate_release(&j->answer);
    ft_request_release(&j->r);
    ft_buf_release(&j->in);
    ft_buf_release(&j->out);
    pthread_mutex_destroy(&j->lock);
    ft_free(j);
}

static void job_done(ft_entry *e)
{
    ft_job *j = job_of(e);
    if (e->cancelled) j->answer.cancelled = true;
    if (e->finish == FT_FINISH_ERROR) {
        const char *spent = j->answer.state ? ft_grammar_spent(j->answer.state) : NULL;
        j->st = spent ? ft_fail(&j->err, FT_ELIMIT, "%s", spent)
                      : ft_fail(&j->err, FT_EDEVICE, "%s", e->error);
    } else {
        ft_generate_end(&j->answer);
        if (!j->answer.cancelled) ft_scores_end(&j->answer, j->m);
        ft_generate_result(&j->answer, e->finish, &e->stats, &j->response);
        if (!j->response.prompt_tokens) j->response.prompt_tokens = e->task.n_prompt;
        j->response.slot = atomic_load(&e->slot);
        j->response.wait_s = e->wait_s;
    }
    pthread_mutex_lock(&j->lock);
    j->done = true;
    if (j->wake) j->wake(j->user);
    pthread_mutex_unlock(&j->lock);
    drop(j);
}

/* ---- on the owner's thread ---- */

ft_status ft_job_new(ft_job **out, ft_llm *m, const ft_request *r, void (*wake)(void *user),
                     void *user, ft_err *err)
{
    if (!m->queue) return ft_fail(err, FT_EINVAL, "the model's queue was not started");
    ft_job *j = ft_new(ft_job);
    pthread_mutex_init(&j->lock, NULL);
    ft_buf_init(&j->in, MAX_BYTES);
    ft_buf_init(&j->out, MAX_BYTES);
    atomic_store(&j->owners, 1);
    j->m = m;
    j->wake = wake;
    j->user = user;
    ft_request_copy(&j->r, r);
    ft_status st = ft_generate_init(&j->answer, m, &j->r, push, j, err);
    if (!st) {
        j->answer.thought.end = &j->end_thought;
        j->entry.task = ft_generate_task(&j->answer);
        j->entry.wish = r->slot;
        j->entry.client = r->client;
        j->entry.ready = ready;
        j->entry.stepped = after_step;
        j->entry.done = job_done;
        st = ft_task_check(m->engine, &j->entry.task, err);
    }
    if (!st) {
        atomic_store(&j->owners, 2);
        st = ft_queue_put(m->queue, &j->entry, err);
        if (st) atomic_store(&j->owners, 1);
    }
    if (st) {
        drop(j);
        return st;
    }
    *out = j;
    return FT_OK;
}

/* Takes the new events for the reader; resumes a paused response. */
static bool fetch(ft_job *j)
{
    pthread_mutex_lock(&j->lock);
    const ft_buf read = j->out;
    j->out = j->in;
    j->in = read;
    ft_buf_clear(&j->in);
    const bool kick = j->paused;
    j->paused = false;
    pthread_mutex_unlock(&j->lock);
    j->at = 0;
    if (kick) ft_queue_kick(j->m->queue);
    return j->out.len > 0;
}

bool ft_job_next(ft_job *j, ft_event *e)
{
    if (j->at >= j->out.len && !fetch(j)) return false;
    const char *p = j->out.data + j->at;
    memcpy(e, p, sizeof *e);
    p += sizeof *e;
    const size_t probs = sizeof *e->probs * (size_t)e->n_probs;
    e->probs = e->n_probs ? (const ft_token_prob *)(const void *)p : NULL;
    e->text = p + probs;
    j->at += ft_round_up(sizeof *e + probs + e->bytes, ALIGN);
    return true;
}

bool ft_job_done(ft_job *j)
{
    if (j->at < j->out.len) return false;
    pthread_mutex_lock(&j->lock);
    const bool done = j->done && !j->in.len;
    pthread_mutex_unlock(&j->lock);
    return done;
}

ft_status ft_job_result(ft_job *j, ft_response *out, ft_err *err)
{
    if (!ft_job_done(j)) return ft_fail(err, FT_EINVAL, "the response is not complete");
    if (j->st && err) *err = j->err;
    if (!j->st) *out = j->response;
    return j->st;
}

const ft_token_prob *ft_job_scores(const ft_job *j, int *n, int *width)
{
    *n = j->answer.score ? (int)j->answer.ids.n : 0;
    *width = 1 + FT_MIN(j->r.top_logprobs, FT_LOGPROBS_MAX);
    return j->answer.score;
}

void ft_job_look(ft_job *j, ft_job_progress *out)
{
    *out = (ft_job_progress){
        .prompt_tokens = j->entry.task.n_prompt,
        .cached_tokens = atomic_load(&j->entry.cached),
        .done_tokens = atomic_load(&j->entry.read),
        .slot = atomic_load(&j->entry.slot),
        .id = j->entry.id,
    };
    if (out->slot < 0) out->waiting_before = ft_queue_before(j->m->queue, &j->entry);
}

void ft_job_cancel(ft_job *j)
{
    ft_queue_cancel(j->m->queue, &j->entry);
}

void ft_job_end_thought(ft_job *j)
{
    atomic_store(&j->end_thought, true);
}

void ft_job_free(ft_job *j)
{
    if (!j) return;
    pthread_mutex_lock(&j->lock);
    j->wake = NULL;
    const bool done = j->done;
    pthread_mutex_unlock(&j->lock);
    if (!done) ft_job_cancel(j);
    drop(j);
}
