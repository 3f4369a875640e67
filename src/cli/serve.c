/* cli/serve.c - foretoken serve: starts the server, loads its models, and ends on a signal. */
#define _GNU_SOURCE
#include "serve/serve.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cmd.h"
#include "cli/model_opts.h"
#include "cli/serve_models.h"
#include "cli/serve_sandbox.h"
#include "cli/serve_store.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#ifdef FT_HAVE_HTTPD

enum { SCORE_ROWS = 64 };  /* prompt tokens per step whose log probabilities can be returned */
enum { EXIT_RESTART = 3 }; /* a device failed, or a model file was changed */

typedef struct serving {
    const ft_opts *o;
    ft_server *s;
    ft_serve_list list;
    pthread_mutex_t lock; /* protects list, mo and listed, which a scan extends */
    ft_model_opts **mo;   /* of each model that is loaded */
    int n_mo;
    ft_served_model *listed; /* the list, as the server gets it */
    char *kwargs;
    int drain_s;         /* that running responses get to finish after a signal */
    atomic_bool started; /* start() has returned, */
    ft_status st;        /* with this */
    ft_err err;
} serving;

/* After the drain: seconds in which the server cancels everything and unloads its models. */
enum { CLOSE_S = 10 };

static void log_line(void *user, ft_log_level level, const char *line)
{
    (void)user;
    fprintf(stderr, "%s%s\n",
            level == FT_LOG_WARN    ? "foretoken: warning: "
            : level == FT_LOG_ERROR ? "foretoken: "
                                    : "",
            line);
}

/* ---- options ---- */

static ft_status template_kwargs(serving *u, ft_err *err)
{
    json_t *j;
    const ft_status st = ft_model_opts_template(u->o, &j, err);
    if (st) return st;
    json_object_del(j, "add_generation_prompt");
    if (ft_opts_flag(u->o, "reasoning-preserve"))
        json_object_set_new(j, "preserve_thinking", json_true());
    u->kwargs = json_dumps(j, JSON_COMPACT);
    json_decref(j);
    return FT_OK;
}

static int pooling_of(const ft_opts *o)
{
    static const char *const name[] = {[FT_POOL_MEAN] = "mean",
                                       [FT_POOL_LAST] = "last",
                                       [FT_POOL_CLS] = "cls",
                                       [FT_POOL_NONE] = "none",
                                       [FT_POOL_RANK] = "rank"};
    const char *given = ft_opts_text(o, "pooling");
    for (size_t i = 0; given && i < FT_COUNT(name); i++)
        if (!strcmp(given, name[i])) return (int)i;
    return ft_opts_flag(o, "rerank") ? (int)FT_POOL_RANK : -1;
}

static void serve_params(serving *u, ft_serve_params *p)
{
    const ft_opts *o = u->o;
    ft_serve_defaults(p);
    p->host = ft_opts_text(o, "host");
    p->port = (int)ft_opts_int(o, "port");
    p->api_prefix = ft_opts_text(o, "api-prefix");
    p->alias = ft_opts_text(o, "alias");
    p->tags = ft_opts_text(o, "tags");
    p->api_key = ft_opts_text(o, "api-key");
    p->api_key_file = ft_opts_text(o, "api-key-file");
    p->slot_save_path = ft_opts_text(o, "slot-save-path");
    p->cors_origins = ft_opts_text(o, "cors-origins");
    p->cors_methods = ft_opts_text(o, "cors-methods");
    p->cors_headers = ft_opts_text(o, "cors-headers");
    p->cors_credentials = ft_opts_flag(o, "cors-credentials");
    p->tls_key = ft_opts_text(o, "ssl-key-file");
    p->tls_cert = ft_opts_text(o, "ssl-cert-file");
    p->threads = FT_MAX(0, (int)ft_opts_int(o, "threads-http"));
    p->connections = (int)ft_opts_int(o, "max-connections");
    p->body_max = (size_t)ft_opts_int(o, "max-body") << 20;
    p->body_memory = (size_t)ft_opts_int(o, "max-body-memory") << 20;
    p->per_address = (int)ft_opts_int(o, "max-connections-per-address");
    p->allowed_hosts = ft_opts_text(o, "allowed-hosts");
    p->image_hosts = ft_opts_text(o, "allow-image-urls");
    p->media_path = ft_opts_text(o, "media-path");
    p->cache_shared = ft_opts_flag(o, "cache-shared");
    p->queue = (int)ft_opts_int(o, "queue-max");
    p->timeout_s = (int)ft_opts_int(o, "timeout");
    p->ping_s = (int)ft_opts_int(o, "sse-ping-interval");
    p->slots = ft_opts_flag(o, "slots");
    p->metrics = ft_opts_flag(o, "metrics");
    p->props = ft_opts_flag(o, "props");
    p->no_page = !ft_opts_flag(o, "webui");
    p->prompts_dir = ft_opts_text(o, "log-prompts-dir");
    p->normalize = ft_opts_flag(o, "normalize-prompts");
    p->log_requests = !ft_opts_flag(o, "log-disable") && !ft_opts_flag(o, "quiet");
    p->log_json = !strcmp(ft_opts_text(o, "log-format"), "json");
    p->verbose = ft_opts_flag(o, "verbose") ||
                 (ft_opts_set(o, "log-verbosity") && ft_opts_int(o, "log-verbosity") == 5);
    p->reasoning_format = ft_opts_text(o, "reasoning-format");
    p->reasoning_budget = (int)ft_opts_int(o, "reasoning-budget");
    p->reasoning_message = ft_opts_text(o, "reasoning-budget-message");
    p->reasoning_effort = ft_opts_text(o, "reasoning-effort");
    p->template_kwargs = u->kwargs; /* includes --thinking */
    p->cache_prompt = ft_opts_flag(o, "cache-prompt");
    p->seed = ft_opts_int(o, "seed");
    p->pooling = pooling_of(o);
    p->embd_normalize = (int)ft_opts_int(o, "embd-normalize");
    u->drain_s = p->drain_s;
}

static int slots_of(const ft_opts *o)
{
    const int n = (int)ft_opts_int(o, "parallel");
    return n > 0 ? n : 4;
}

static void queue_params(const ft_opts *o, ft_queue_params *q)
{
    const int64_t mib = ft_opts_int(o, "cache-ram");
    ft_queue_defaults(q);
    q->waiting = (int)ft_opts_int(o, "queue-max");
    q->per_client = (int)ft_opts_int(o, "queue-per-client");
    if (q->per_client < 0) q->per_client = FT_MAX(1, (q->waiting + slots_of(o)) / 4 * 3);
    q->step_ms = ft_opts_float(o, "max-step-ms");
    q->prefix_bytes = mib < 0 ? UINT64_MAX / 4 : (uint64_t)mib << 20;
    if (!ft_opts_flag(o, "cache-prompt")) q->prefix_bytes = 0;
    q->cache_dir = ft_opts_text(o, "cache-dir");
}

/* Raises the limit of open files, which is also the limit of connections. */
static void allow_files(void)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) || l.rlim_cur == l.rlim_max) return;
    l.rlim_cur = l.rlim_max;
    setrlimit(RLIMIT_NOFILE, &l);
}

/* ---- start and end ---- */

static void print_model(const ft_opts *o, const ft_llm *m, const ft_request *r)
{
    const ft_llm_info *i = ft_llm_about(m);
    const ft_sampling *s = &r->sampling;
    if (ft_opts_flag(o, "quiet")) return;
    fprintf(stderr, "%s: %s, device %s, context %d tokens, %d slots\n", i->path, i->arch, i->device,
            i->ctx, i->slots);
    if (i->place[0]) fprintf(stderr, "%s\n", i->place);
    fputs(i->cache, stderr);
    fprintf(stderr, "drafter: %s\n", i->drafter);
    fprintf(stderr, "sampling: temperature %g, top-k %d, top-p %g, min-p %g\n",
            (double)s->temperature, s->top_k, (double)s->top_p, (double)s->min_p);
}

static ft_status load_model(void *user, int i, ft_llm **out, ft_request *r, ft_err *err)
{
    serving *u = user;
    pthread_mutex_lock(&u->lock);
    const ft_opts *o = u->list.at[i].o;
    ft_model_opts *mo = u->mo[i];
    pthread_mutex_unlock(&u->lock);
    ft_llm_params p;
    ft_queue_params q;
    ft_llm *m = NULL;
    ft_status st = ft_model_opts_params(mo, o, &p, err);
    p.slots = slots_of(o);
    p.cells = ft_opts_int(o, "kv-cells");
    p.score_rows = SCORE_ROWS;
    queue_params(o, &q);
    if (!st) st = ft_llm_open(&m, &p, err);
    if (!st) st = ft_model_opts_request(mo, o, m, r, err);
    if (!st) st = ft_llm_start(m, &q, err);
    if (st) {
        ft_llm_close(m);
        ft_model_opts_release(mo);
        return st;
    }
    print_model(o, m, r);
    *out = m;
    return FT_OK;
}

static void unload_model(void *user, int i, ft_llm *m)
{
    serving *u = user;
    ft_llm_stop(m, false);
    ft_llm_close(m);
    pthread_mutex_lock(&u->lock);
    ft_model_opts_release(u->mo[i]);
    pthread_mutex_unlock(&u->lock);
}

static ft_status check_model(void *user, int i, ft_err *err)
{
    serving *u = user;
    pthread_mutex_lock(&u->lock);
    const ft_serve_model m = u->list.at[i];
    pthread_mutex_unlock(&u->lock);
    return ft_serve_model_check(&m, err);
}

/* Under the lock, or before the server runs: makes mo and listed as long as the list. */
static void extend(serving *u)
{
    u->mo = ft_realloc(u->mo, sizeof *u->mo * (size_t)FT_MAX(1, u->list.n));
    u->listed = ft_realloc(u->listed, sizeof *u->listed * (size_t)FT_MAX(1, u->list.n));
    for (; u->n_mo < u->list.n; u->n_mo++) u->mo[u->n_mo] = ft_new(ft_model_opts);
    for (int i = 0; i < u->list.n; i++) {
        const ft_serve_model *m = &u->list.at[i];
        u->listed[i] = (ft_served_model){
            .name = m->name,
            .bytes = m->bytes,
            .aliases = m->aliases,
            .error = m->error,
            .sha256 = m->sha256,
            .gone = m->gone,
        };
    }
}

static ft_status scan_models(void *user, const ft_served_model **at, int *n, ft_err *err)
{
    serving *u = user;
    pthread_mutex_lock(&u->lock);
    const ft_status st = ft_serve_list_scan(&u->list, u->o, err);
    extend(u);
    *at = u->listed;
    *n = u->list.n;
    pthread_mutex_unlock(&u->lock);
    return st;
}

/* ---- changes of the store ---- */

static ft_status pull_model(void *user, const char *name, ft_pull_progress *progress,
                            void *progress_user, ft_err *err)
{
    serving *u = user;
    return ft_store_pull(u->o, name, progress, progress_user, err);
}

static ft_status remove_model(void *user, int i, ft_err *err)
{
    serving *u = user;
    pthread_mutex_lock(&u->lock);
    const ft_status st = ft_store_remove(&u->list, i, &(ft_removed){0}, err);
    pthread_mutex_unlock(&u->lock);
    return st;
}

static ft_status derive_model(void *user, int i, const char *name, const char *params, ft_err *err)
{
    serving *u = user;
    pthread_mutex_lock(&u->lock);
    const ft_status st = ft_store_derive(&u->list, u->o, i, name, params, err);
    pthread_mutex_unlock(&u->lock);
    return st;
}

static void print_start(const serving *u)
{
    const char *prefix = ft_opts_text(u->o, "api-prefix");
    if (ft_opts_flag(u->o, "quiet")) return;
    if (u->list.n > 1) {
        fprintf(stderr, "models:");
        for (int i = 0; i < u->list.n; i++) fprintf(stderr, " %s", u->list.at[i].name);
        fputc('\n', stderr);
    }
    fprintf(stderr, "ready at %s%s\n", ft_server_address(u->s), prefix ? prefix : "");
}

static ft_status start_models(serving *u, ft_err *err)
{
    const int n = u->list.n, idle = (int)ft_opts_int(u->o, "sleep-idle-seconds");
    ft_models_params p = {
        .n = n,
        .max = (int)ft_opts_int(u->o, "models-max"),
        .memory = (uint64_t)ft_opts_int(u->o, "models-memory") << 20,
        .idle_s = FT_MAX(0, idle),
        .no_autoload = !ft_opts_flag(u->o, "models-autoload"),
        .load = load_model,
        .unload = unload_model,
        .check = check_model,
        .scan = u->list.dir || u->list.preset ? scan_models : NULL,
        .user = u,
    };
    if (ft_opts_flag(u->o, "manage-models")) {
        p.pull = pull_model;
        p.remove = remove_model;
        p.derive = derive_model;
    }
    extend(u);
    p.at = u->listed;
    ft_status st = ft_server_models(u->s, &p, err);
    if (!st) st = ft_server_load(u->s, u->list.at_once, err);
    return st;
}

static ft_status start_server(serving *u, ft_err *err)
{
    ft_serve_params p;
    ft_status st = template_kwargs(u, err);
    if (!st) st = ft_serve_list_find(&u->list, u->o, err);
    if (!st && ft_opts_flag(u->o, "sandbox")) st = ft_serve_sandbox(u->o, &u->list, err);
    if (st) return st;
    serve_params(u, &p);
    if ((st = ft_server_open(&u->s, &p, err))) return st;
    if ((st = start_models(u, err))) return st;
    print_start(u);
    return FT_OK;
}

/* The next signal, or 0 after s seconds. */
static int next_signal(const sigset_t *set, double s)
{
    const struct timespec t = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};
    for (;;) {
        const int sig = sigtimedwait(set, NULL, &t);
        if (sig > 0) return sig;
        if (errno != EINTR) return 0;
    }
}

/* Nothing but another process will do better; whoever supervises this one shall start it. */
static bool broken(serving *u, ft_err *err)
{
    ft_map_check();
    if (ft_map_broken())
        ft_fail(err, FT_EDEVICE, "%s was changed while it was in use", ft_map_broken());
    else if (ft_server_failed(u->s))
        ft_fail(err, FT_EDEVICE, "the device has failed");
    else
        return false;
    return true;
}

/* SIGHUP reads the API keys again where there is a file of them; every other signal stops. */
static bool stops(serving *u, int sig)
{
    ft_err err;
    if (sig != SIGHUP || !ft_opts_text(u->o, "api-key-file")) return sig != 0;
    if (ft_server_reload(u->s, &err))
        ft_log(FT_LOG_WARN, "the API keys stay as they were: %s", err.text);
    else
        ft_log(FT_LOG_INFO, "the API keys were read again");
    return false;
}

/* Starting lasts until the first model is loaded; signals are handled meanwhile. */
static void *start_thread(void *arg)
{
    serving *u = arg;
    u->st = start_server(u, &u->err);
    atomic_store(&u->started, true);
    return NULL;
}

static ft_status start_or_end(serving *u, const sigset_t *set, ft_err *err)
{
    pthread_t t;
    if (pthread_create(&t, NULL, start_thread, u))
        return ft_fail(err, FT_EIO, "cannot start a thread");
    while (!atomic_load(&u->started)) {
        if (!next_signal(set, 0.02)) continue;
        fprintf(stderr, "ended while the model was loading\n");
        _exit(0);
    }
    pthread_join(t, NULL);
    *err = u->err;
    return u->st;
}

/* Loading a model cannot be interrupted, nor can a step on a device that hangs: the process ends
 * without them. */
static void *end_anyway(void *arg)
{
    const struct timespec t = {CLOSE_S, 0};
    (void)arg;
    nanosleep(&t, NULL);
    fprintf(stderr, "foretoken: the server did not end within %d s, the process does\n", CLOSE_S);
    _exit(1);
}

static void close_in_time(serving *u)
{
    pthread_t t;
    if (!pthread_create(&t, NULL, end_anyway, NULL)) pthread_detach(t);
    ft_server_close(u->s);
}

/* Gives running responses drain_s seconds; a second signal ends them at once. */
static void drain(serving *u, const sigset_t *set)
{
    const double until = ft_now_s() + u->drain_s;
    ft_server_drain(u->s);
    while (ft_server_busy(u->s) && ft_now_s() < until)
        if (next_signal(set, 0.05)) break;
}

int ft_cmd_serve(const ft_opts *o)
{
    ft_err err;
    serving u = {.o = o};
    pthread_mutex_init(&u.lock, NULL);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set,
                    NULL); /* inherited by every thread; next_signal waits for them */
    allow_files();
    ft_map_guard();
    ft_log_to(log_line, NULL);
    ft_status st = start_or_end(&u, &set, &err);
    if (!st) {
        while (!broken(&u, &err) && !stops(&u, next_signal(&set, 1))) continue;
        if (broken(&u, &err)) st = FT_EDEVICE;
        drain(&u, &set);
    }
    close_in_time(&u);
    ft_serve_list_release(&u.list);
    for (int i = 0; i < u.n_mo; i++) ft_free(u.mo[i]);
    ft_free(u.mo);
    ft_free(u.listed);
    pthread_mutex_destroy(&u.lock);
    free(u.kwargs);
    if (st) ft_die(&err);
    return st == FT_EDEVICE ? EXIT_RESTART : st ? 1 : 0;
}

#else

int ft_cmd_serve(const ft_opts *o)
{
    ft_err err;
    (void)o;
    ft_fail(&err, FT_EUNSUPPORTED, "this build has no server: libmicrohttpd was not found");
    return ft_die(&err);
}

#endif
