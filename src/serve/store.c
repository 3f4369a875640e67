/* serve/store.c - Ollama's routes that change which models there are: pull, delete, copy, create.
 * The program that started the server does the work (ft_models_params.pull and so on) if it allows
 * it.
 *
 * A pull has a thread of its own, one at a time. It ends early when its call ends: the client has
 * gone, or the server closes. The call (suspended) waits for progress or the end; the thread wakes
 * it with ft_call_wake. ft_store_stop joins the thread. */
#include "base/clock.h"
#include "base/mem.h"
#include "serve/ollama.h"
#include "serve/routes.h"
#include "serve/server.h"

#include <string.h>

#define PROGRESS_S 0.1 /* minimum time between two events of a pull */

static bool forbidden(ft_http_error *error, const char *what)
{
    return ft_http_error_set(error, FT_ERR_FORBIDDEN, NULL,
                             "%s is not allowed; start the server with --manage-models", what);
}

/* The text of the first of these members, "model" or its older name; required. */
static bool want_name(const json_t *body, const char *key, const char *older, const char **out,
                      ft_http_error *error)
{
    *out = NULL;
    if (!ft_want_text(body, key, out, error)) return false;
    if (!*out && older && !ft_want_text(body, older, out, error)) return false;
    if (*out && **out) return true;
    return ft_http_error_set(error, FT_ERR_INVALID, key, "%s is missing, want the name of a model",
                             key);
}

static ft_served *find_model(ft_call *c, const char *name, ft_http_error *error)
{
    ft_served *d = atomic_load(&c->s->ready) ? ft_models_named(c->s, name) : NULL;
    if (!d) ft_http_error_set(error, FT_ERR_NOT_FOUND, "model", "model \"%.80s\" not found", name);
    return d;
}

/* ---- pull ---- */

/* Shared by the thread and the call; the last of them frees it. */
typedef struct pull {
    ft_server *s;
    char *name;
    bool stream;
    pthread_mutex_t lock; /* protects what follows */
    ft_call *c;           /* NULL: the call has ended */
    bool done;
    ft_status st;
    ft_err err;
    bool fresh; /* the progress has not been sent */
    double told_s;
    char file[256], sha256[72];
    uint64_t got, total;
} pull;

static void free_pull(pull *p)
{
    pthread_mutex_destroy(&p->lock);
    ft_free(p->name);
    ft_free(p);
}

static bool pull_progress(void *user, const char *file, const char *sha256, uint64_t got,
                          uint64_t total)
{
    pull *p = user;
    const double now = ft_now_s();
    pthread_mutex_lock(&p->lock);
    const bool wanted = p->c != NULL;
    const bool other = strcmp(p->file, file) != 0;
    if (wanted && (other || got == total || now - p->told_s >= PROGRESS_S)) {
        snprintf(p->file, sizeof p->file, "%s", file);
        snprintf(p->sha256, sizeof p->sha256, "%s", sha256);
        p->got = got;
        p->total = total;
        p->told_s = now;
        p->fresh = true;
        ft_call_wake(p->c);
    }
    pthread_mutex_unlock(&p->lock);
    return wanted;
}

static void *pull_thread(void *arg)
{
    pull *p = arg;
    ft_err err;
    const ft_models_params *m = ft_models_params_of(p->s);
    ft_status st = m->pull(m->user, p->name, pull_progress, p, &err);
    if (!st) st = ft_models_rescan(p->s, &err);
    atomic_store(&p->s->pulling, false);
    pthread_mutex_lock(&p->lock);
    p->st = st;
    p->err = err;
    p->done = true;
    const bool last = !p->c;
    if (!last) ft_call_wake(p->c);
    pthread_mutex_unlock(&p->lock);
    if (last) free_pull(p);
    return NULL;
}

static void put_line(ft_call *c, json_t *j)
{
    char *text = json_dumps(j, JSON_COMPACT);
    ft_buf_printf(&c->out, "%s\n", text);
    free(text);
    json_decref(j);
}

static void put_status(ft_call *c, const char *text)
{
    put_line(c, json_pack("{s:s}", "status", text));
}

static void put_progress(ft_call *c, const pull *p)
{
    char text[300], digest[80];
    snprintf(text, sizeof text, "pulling %s", p->file);
    json_t *j = json_pack("{s:s, s:I, s:I}", "status", text, "total", (json_int_t)p->total,
                          "completed", (json_int_t)p->got);
    snprintf(digest, sizeof digest, "sha256:%s", p->sha256);
    if (p->sha256[0]) json_object_set_new(j, "digest", json_string(digest));
    put_line(c, j);
}

static void end_pull(ft_call *c, const pull *p)
{
    ft_http_error error;
    if (p->st) ft_http_error_from(&error, p->st, NULL, &p->err);
    if (p->st == FT_EIO) error.kind = FT_ERR_REMOTE;
    if (p->st == FT_ENOTFOUND) error.kind = FT_ERR_NOT_FOUND;
    if (!p->stream && p->st)
        ft_call_fail(c, &error);
    else if (!p->stream)
        ft_call_json(c, 200, json_pack("{s:s}", "status", "success"));
    else if (p->st)
        put_line(c, json_pack("{s:s}", "error", error.text));
    else
        put_status(c, "verifying sha256 digest"), put_status(c, "success");
}

static bool pump_pull(ft_call *c)
{
    pull *p = c->user;
    pthread_mutex_lock(&p->lock);
    if (p->stream && p->fresh) put_progress(c, p);
    p->fresh = false;
    const bool done = p->done;
    if (done) end_pull(c, p);
    pthread_mutex_unlock(&p->lock);
    return done;
}

static void release_pull(ft_call *c)
{
    pull *p = c->user;
    pthread_mutex_lock(&p->lock);
    p->c = NULL;
    const bool last = p->done;
    pthread_mutex_unlock(&p->lock);
    if (last) free_pull(p);
}

void ft_store_stop(ft_server *s)
{
    if (s->pull_open) pthread_join(s->pull, NULL);
    s->pull_open = false;
}

/* Starts the thread; false: another pull runs. */
static bool start_pull(ft_call *c, const char *name, bool stream, ft_http_error *error)
{
    ft_server *s = c->s;
    if (atomic_exchange(&s->pulling, true))
        return ft_http_error_set(error, FT_ERR_UNAVAILABLE, NULL,
                                 "another model is being downloaded");
    pull *p = ft_new(pull);
    *p = (pull){.s = s, .name = ft_strdup(name), .stream = stream, .c = c};
    pthread_mutex_init(&p->lock, NULL);
    ft_store_stop(s); /* the thread of an earlier one, which has ended */
    if (pthread_create(&s->pull, NULL, pull_thread, p)) {
        atomic_store(&s->pulling, false);
        free_pull(p);
        return ft_http_error_set(error, FT_ERR_SERVER, NULL, "cannot start a thread");
    }
    s->pull_open = true;
    c->user = p;
    c->pump = pump_pull;
    c->release = release_pull;
    if (!stream) return true;
    ft_call_stream(c, "application/x-ndjson");
    put_status(c, "pulling manifest");
    return true;
}

static void answer_present(ft_call *c, bool stream)
{
    static const char LINES[] = "{\"status\":\"pulling manifest\"}\n{\"status\":\"success\"}\n";
    if (stream)
        ft_call_bytes(c, 200, "application/x-ndjson", LINES, sizeof LINES - 1);
    else
        ft_call_json(c, 200, json_pack("{s:s}", "status", "success"));
}

/* A model that the server has is not downloaded again. */
void ft_run_ollama_pull(ft_call *c)
{
    const char *name;
    bool stream = true;
    ft_http_error error;
    bool ok = want_name(c->body, "model", "name", &name, &error) &&
              ft_want_bool(c->body, "stream", &stream, &error);
    if (ok && atomic_load(&c->s->ready) && ft_models_named(c->s, name)) {
        answer_present(c, stream);
        return;
    }
    if (ok && !ft_models_params_of(c->s)->pull)
        ok = ft_http_error_set(&error, FT_ERR_NOT_FOUND, "model",
                               "the model %.80s is not here; run: foretoken pull %.80s, or start "
                               "the server with --manage-models",
                               name, name);
    if (ok) ok = start_pull(c, name, stream, &error);
    if (!ok) ft_call_fail(c, &error);
}

/* ---- delete, copy, create ---- */

typedef enum change_kind { REMOVE, DERIVE } change_kind;

typedef struct change {
    ft_server *s;
    change_kind kind;
    int model; /* index of the model that is removed or copied */
    char *name, *params;
    bool stream;
    ft_status st;
    ft_err err;
} change;

static void run_change(void *arg)
{
    change *a = arg;
    const ft_models_params *m = ft_models_params_of(a->s);
    a->st = a->kind == REMOVE ? m->remove(m->user, a->model, &a->err)
                              : m->derive(m->user, a->model, a->name, a->params, &a->err);
    if (!a->st) a->st = ft_models_rescan(a->s, &a->err);
}

static void send_change(ft_call *c, void *arg)
{
    const change *a = arg;
    ft_http_error error;
    if (a->st) {
        ft_http_error_from(&error, a->st, NULL, &a->err);
        if (a->st == FT_ENOTFOUND) error.kind = FT_ERR_NOT_FOUND;
        ft_call_fail(c, &error);
    } else if (a->stream) {
        ft_call_bytes(c, 200, "application/x-ndjson", "{\"status\":\"success\"}\n", 21);
    } else {
        ft_call_json(c, 200, json_pack("{s:s}", "status", "success"));
    }
    if (!a->st && a->kind == REMOVE) ft_models_let_go(a->s, a->model);
}

static void free_change(void *arg)
{
    change *a = arg;
    ft_free(a->name);
    ft_free(a->params);
    ft_free(a);
}

static void start_change(ft_call *c, change_kind kind, const ft_served *d, const char *name,
                         const json_t *params, bool stream)
{
    static const ft_work_item work = {run_change, send_change, free_change};
    change *a = ft_new(change);
    a->s = c->s;
    a->kind = kind;
    a->model = d->index;
    a->stream = stream;
    if (name) a->name = ft_strdup(name);
    if (params) {
        char *text = json_dumps(params, JSON_COMPACT);
        a->params = ft_strdup(text ? text : "{}");
        free(text);
    }
    ft_work_start(c, &work, a);
}

void ft_run_ollama_delete(ft_call *c)
{
    const char *name;
    ft_http_error error;
    const ft_served *d = NULL;
    bool ok = want_name(c->body, "model", "name", &name, &error);
    if (ok && !ft_models_params_of(c->s)->remove) ok = forbidden(&error, "deleting models");
    if (ok) ok = (d = find_model(c, name, &error)) != NULL;
    if (ok)
        start_change(c, REMOVE, d, NULL, NULL, false);
    else
        ft_call_fail(c, &error);
}

/* A new model must have a name of its own. */
static bool is_free(ft_call *c, const char *name, ft_http_error *error)
{
    if (!atomic_load(&c->s->ready) || !ft_models_named(c->s, name)) return true;
    return ft_http_error_set(error, FT_ERR_INVALID, "model",
                             "there is a model \"%.80s\" already; delete it first", name);
}

void ft_run_ollama_copy(ft_call *c)
{
    const char *from, *to;
    ft_http_error error;
    const ft_served *d = NULL;
    bool ok = want_name(c->body, "source", NULL, &from, &error) &&
              want_name(c->body, "destination", NULL, &to, &error);
    if (ok && !ft_models_params_of(c->s)->derive) ok = forbidden(&error, "copying models");
    if (ok) ok = (d = find_model(c, from, &error)) && is_free(c, to, &error);
    if (ok)
        start_change(c, DERIVE, d, to, NULL, false);
    else
        ft_call_fail(c, &error);
}

/* Members that would change the model and are not supported. */
static bool no_others(const json_t *body, ft_http_error *error)
{
    static const char *const other[] = {"files",    "adapters", "quantize", "template",
                                        "messages", "system",   "modelfile"};
    for (size_t i = 0; i < FT_COUNT(other); i++)
        if (ft_get(body, other[i]))
            return ft_http_error_set(error, FT_ERR_INVALID, other[i],
                                     "%s is not supported, want from and parameters", other[i]);
    return true;
}

void ft_run_ollama_create(ft_call *c)
{
    const char *from, *to;
    bool stream = true;
    char brief[72];
    ft_http_error error;
    const ft_served *d = NULL;
    const json_t *params = ft_get(c->body, "parameters");
    bool ok = want_name(c->body, "model", "name", &to, &error) && no_others(c->body, &error) &&
              want_name(c->body, "from", NULL, &from, &error) &&
              ft_want_bool(c->body, "stream", &stream, &error);
    if (ok && params && !json_is_object(params))
        ok = ft_http_error_set(&error, FT_ERR_INVALID, "parameters",
                               "parameters is %s, want an object", ft_json_brief(params, brief));
    if (ok && !ft_models_params_of(c->s)->derive) ok = forbidden(&error, "creating models");
    if (ok) ok = (d = find_model(c, from, &error)) && is_free(c, to, &error);
    if (ok)
        start_change(c, DERIVE, d, to, params, stream);
    else
        ft_call_fail(c, &error);
}

void ft_run_ollama_unsupported(ft_call *c)
{
    ft_http_error error;
    ft_http_error_set(&error, FT_ERR_UNSUPPORTED, NULL, "%s is not supported", c->route->path);
    ft_call_fail(c, &error);
}
