#define _GNU_SOURCE
#include "serve/models.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "report/names.h"
#include "serve/params.h"
#include "serve/props.h"
#include "serve/routes.h"
#include "serve/server.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

typedef struct ft_models {
    ft_server *s;
    ft_models_params p;
    ft_served **at; /* entries stay where they are while the list grows */
    int n;
    pthread_mutex_t scanning; /* one scan at a time */
    double scanned_s;         /* time of the last scan */
    ft_llm_stats unloaded;    /* totals of unloaded models */
    pthread_t thread;
    pthread_cond_t change; /* signalled under the server's lock */
    bool running, stop;
} ft_models;

/* ---- the list of models ---- */

int ft_models_count(const ft_server *s)
{
    return s->models->n;
}

ft_served *ft_models_at(ft_server *s, int i)
{
    return s->models->at[i];
}

bool ft_models_one(const ft_server *s)
{
    return s->models->n == 1 && !s->models->p.scan;
}

const ft_models_params *ft_models_params_of(const ft_server *s)
{
    return &s->models->p;
}

void ft_models_let_go(ft_server *s, int i)
{
    pthread_mutex_lock(&s->lock);
    ft_served *d = s->models->at[i];
    if (d->state == FT_SERVED_LOADED) d->state = FT_SERVED_DRAINING;
    d->evicted = false;
    pthread_cond_signal(&s->models->change);
    pthread_mutex_unlock(&s->lock);
}

const char *ft_served_status(const ft_served *d)
{
    static const char *const words[] = {"unloaded", "loading", "unloading", "loaded", "loaded"};
    return d->state == FT_SERVED_UNLOADED && d->error[0] ? "failed" : words[d->state];
}

int ft_models_max(const ft_server *s)
{
    return s->models->p.max;
}

bool ft_models_autoload(const ft_server *s)
{
    return !s->models->p.no_autoload;
}

/* The model used last if it is loaded; otherwise the first that is not known to be broken. */
static ft_served *default_model(ft_models *m)
{
    ft_served *best = NULL;
    for (int i = 0; i < m->n; i++) {
        ft_served *d = m->at[i];
        const bool loaded = d->state == FT_SERVED_LOADED;
        if (!loaded && (d->error[0] || d->gone)) continue;
        if (!best || (loaded && (best->state != FT_SERVED_LOADED || d->used_s > best->used_s)))
            best = d;
    }
    return best ? best : m->n ? m->at[0] : NULL;
}

/* Under the lock. */
static ft_served *find_name(ft_models *m, const char *name)
{
    for (int i = 0; i < m->n; i++)
        if (!m->at[i]->gone && ft_name_is(m->at[i]->name, m->at[i]->aliases, name)) return m->at[i];
    return NULL;
}

/* Looks for new models unless that was done within the last second. */
static void rescan_sometimes(ft_server *s)
{
    ft_err err;
    pthread_mutex_lock(&s->lock);
    const bool due = ft_now_s() - s->models->scanned_s > 1;
    pthread_mutex_unlock(&s->lock);
    if (due && ft_models_rescan(s, &err)) ft_log(FT_LOG_WARN, "%s", err.text);
}

ft_served *ft_models_named(ft_server *s, const char *name)
{
    pthread_mutex_lock(&s->lock);
    ft_served *d = find_name(s->models, name);
    pthread_mutex_unlock(&s->lock);
    if (d || !s->models->p.scan) return d;
    rescan_sometimes(s);
    pthread_mutex_lock(&s->lock);
    d = find_name(s->models, name);
    pthread_mutex_unlock(&s->lock);
    return d;
}

ft_served *ft_models_find(ft_server *s, const char *name)
{
    ft_models *m = s->models;
    if (ft_models_one(s)) return m->at[0];
    if (name && *name) return ft_models_named(s, name);
    pthread_mutex_lock(&s->lock);
    ft_served *d = default_model(m);
    pthread_mutex_unlock(&s->lock);
    return d;
}

/* Adds counters, which survive unloading; gauges do not. */
static void add_counts(ft_llm_stats *to, const ft_llm_stats *n)
{
    to->prompt_tokens += n->prompt_tokens;
    to->cached_tokens += n->cached_tokens;
    to->output_tokens += n->output_tokens;
    to->decode_steps += n->decode_steps;
    to->drafted += n->drafted;
    to->accepted += n->accepted;
    to->responses += n->responses;
    to->cancelled += n->cancelled;
    to->preempted += n->preempted;
    to->steps += n->steps;
    to->prefix_hits += n->prefix_hits;
    to->prefix_misses += n->prefix_misses;
    to->prompt_s += n->prompt_s;
    to->output_s += n->output_s;
    to->run_s += n->run_s;
    to->device_s += n->device_s;
    for (int i = 0; i <= FT_STEP_BUCKETS; i++) to->step_at[i] += n->step_at[i];
    to->step_s += n->step_s;
}

static void add_gauges(ft_llm_stats *to, const ft_llm_stats *n)
{
    to->busy += n->busy;
    to->waiting += n->waiting;
    to->pages += n->pages;
    to->pages_free += n->pages_free;
    to->pages_cached += n->pages_cached;
    to->prefix_bytes += n->prefix_bytes;
    to->prefix_entries += n->prefix_entries;
    to->prefix_state = FT_MAX(to->prefix_state, n->prefix_state);
    to->failed |= n->failed;
}

void ft_models_counts(ft_server *s, ft_llm_stats *out)
{
    ft_models *m = s->models;
    pthread_mutex_lock(&s->lock);
    *out = m->unloaded;
    for (int i = 0; i < m->n; i++) {
        ft_llm_stats n;
        if (m->at[i]->state < FT_SERVED_LOADED) continue;
        ft_llm_counts(m->at[i]->llm, &n);
        add_counts(out, &n);
        add_gauges(out, &n);
    }
    pthread_mutex_unlock(&s->lock);
}

bool ft_server_failed(ft_server *s)
{
    ft_llm_stats n;
    if (!atomic_load(&s->ready)) return false;
    ft_models_counts(s, &n);
    return n.failed;
}

/* ---- holding a model ---- */

void ft_served_hold(ft_server *s, ft_served *d)
{
    pthread_mutex_lock(&s->lock);
    d->holders++;
    pthread_mutex_unlock(&s->lock);
}

void ft_served_drop(ft_server *s, ft_served *d)
{
    if (!d) return;
    pthread_mutex_lock(&s->lock);
    d->holders--;
    d->used_s = ft_now_s();
    pthread_cond_signal(&s->models->change);
    pthread_mutex_unlock(&s->lock);
}

/* Under the lock: marks the model to be loaded. */
static void want_model(ft_served *d)
{
    if (!d->wanted) d->wanted_s = ft_now_s();
    d->wanted = true;
}

/* Under the lock: the call holds the model if it is loaded. */
static bool take_model(ft_call *c, ft_served *d)
{
    if (d->state != FT_SERVED_LOADED) return false;
    d->holders++;
    c->served = d;
    return true;
}

/* Under the lock: the call stops waiting. A model for which no call waits is no longer wanted. */
static void stop_waiting(ft_call *c)
{
    ft_served *d = c->awaits;
    if (!d) return;
    c->awaits = NULL;
    c->cancel = c->release = NULL;
    d->waiting--;
    d->wanted = d->wanted && (d->waiting || d->requested);
    pthread_cond_signal(&c->s->models->change);
}

/* Called when the call ends. */
static void release(ft_call *c)
{
    pthread_mutex_lock(&c->s->lock);
    stop_waiting(c);
    pthread_mutex_unlock(&c->s->lock);
}

/* pump of a waiting call: runs its handler, fails, or waits on. */
static bool await(ft_call *c)
{
    ft_server *s = c->s;
    ft_http_error error;
    pthread_mutex_lock(&s->lock);
    ft_served *d = c->awaits; /* NULL: cancelled */
    const bool here = d && (c->served || take_model(c, d));
    const bool failed = d && !here && d->failures != c->failures;
    if (failed)
        ft_http_error_set(&error, FT_ERR_SERVER, "model",
                          "the model %.80s could not be loaded: %.300s", d->name, d->error);
    if (here || failed) {
        stop_waiting(c);
        c->pump = NULL;
    }
    if (d && !here && !failed) want_model(d);
    pthread_cond_signal(&s->models->change);
    pthread_mutex_unlock(&s->lock);
    if (!here && !failed) return false;
    if (failed) {
        ft_call_fail(c, &error);
        return true;
    }
    ft_call_list(c, false);
    c->route->run(c);
    if (!c->response || c->stream) ft_call_list(c, true);
    if (!c->status) ft_call_wake(c); /* the state may have changed before pump was set */
    return c->status && !c->stream;
}

static ft_served *fail_call(ft_call *c, ft_error_kind kind, const char *words, const char *name)
{
    ft_http_error error;
    if (name)
        ft_http_error_set(&error, kind, "model", "the model %.80s %s", name, words);
    else
        ft_http_error_set(&error, kind, NULL, "%s", words);
    ft_call_fail(c, &error);
    return NULL;
}

ft_served *ft_call_named(ft_call *c, const char *name)
{
    ft_server *s = c->s;
    if (!name && c->body) name = json_string_value(ft_get(c->body, "model"));
    if (!name) name = ft_call_query(c, "model");
    c->model = name;
    if (c->served) return c->served; /* the handler runs again, with the model loaded */
    if (!atomic_load(&s->ready))
        return fail_call(c, FT_ERR_UNAVAILABLE, "the model is loading", NULL);
    ft_served *d = ft_models_find(s, name);
    if (d) return d;
    return fail_call(c, FT_ERR_NOT_FOUND, "does not exist; GET /v1/models lists the models",
                     name ? name : "");
}

ft_served *ft_call_model(ft_call *c, const char *name)
{
    ft_server *s = c->s;
    ft_served *d = ft_call_named(c, name);
    if (!d || c->served) return d;
    pthread_mutex_lock(&s->lock);
    const bool here = take_model(c, d);
    const bool load_model = d->state != FT_SERVED_UNLOADED || !s->models->p.no_autoload;
    c->failures = d->failures;
    if (!here && load_model) {
        want_model(d);
        d->waiting++;
        c->awaits = d;
        c->pump = await;
        c->cancel = stop_waiting;
        c->release = release;
        pthread_cond_signal(&s->models->change);
    }
    pthread_mutex_unlock(&s->lock);
    if (!here && !load_model)
        return fail_call(c, FT_ERR_INVALID, "is not loaded; POST /models/load loads it", d->name);
    return here ? d : NULL;
}

/* ---- the loader thread ---- */

/* Under the lock. */
static void attach_model(ft_server *s, ft_served *d, ft_llm *m, const ft_request *r)
{
    d->llm = m;
    d->info = ft_llm_about(m);
    d->vocab = ft_llm_vocab(m);
    d->defaults = *r;
    d->defaults.cache_prompt = s->p.cache_prompt;
    d->defaults.reasoning_budget = s->p.reasoning_budget;
    d->defaults.reasoning_message = s->p.reasoning_message;
    d->bytes = d->info->weight_bytes + d->info->cache_bytes;
    d->state = FT_SERVED_LOADED;
    json_decref(d->props);
    d->props = ft_props_json(d, true);
}

/* Called and returns with the lock held; no call holds the model. */
static void unload_model(ft_models *m, ft_served *d)
{
    ft_llm *llm = d->llm;
    ft_llm_stats n;
    ft_llm_counts(llm, &n);
    add_counts(&m->unloaded, &n);
    d->llm = NULL;
    d->info = NULL;
    d->vocab = NULL;
    d->state = FT_SERVED_UNLOADING;
    d->evicted = false;
    d->keep_set = false;
    pthread_mutex_unlock(&m->s->lock);
    m->p.unload(m->p.user, d->index, llm);
    ft_log(FT_LOG_INFO, "unloaded %s", d->name);
    pthread_mutex_lock(&m->s->lock);
    d->state = FT_SERVED_UNLOADED;
}

/* Waiting calls hold the model at once, so that it cannot be unloaded before they run. */
static void wake_waiting(ft_models *m, ft_served *d)
{
    for (ft_call *c = m->s->calls; c; c = c->next) {
        if (c->awaits != d) continue;
        if (!c->served) take_model(c, d);
        ft_call_wake(c);
    }
}

static bool fits(const ft_models *m, const ft_served *d)
{
    int n = 1;
    uint64_t bytes = d->bytes;
    for (int i = 0; i < m->n; i++) {
        if (m->at[i]->state < FT_SERVED_LOADED) continue;
        n++;
        bytes += m->at[i]->bytes;
    }
    return (m->p.max <= 0 || n <= m->p.max) && (!m->p.memory || bytes <= m->p.memory);
}

/* The model to evict: one that is already draining, else the one that has been idle longest; if
 * none is idle, the one used least recently. */
static ft_served *victim(ft_models *m)
{
    ft_served *best = NULL;
    for (int i = 0; i < m->n; i++) {
        ft_served *d = m->at[i];
        if (d->state == FT_SERVED_DRAINING) return d;
        if (d->state != FT_SERVED_LOADED) continue;
        if (!best || !!d->holders < !!best->holders ||
            (!d->holders == !best->holders && d->used_s < best->used_s))
            best = d;
    }
    return best;
}

/* Under the lock: tells all that wait for the model. */
static void fail_load(ft_models *m, ft_served *d, const ft_err *err)
{
    d->wanted = d->requested = false;
    d->failures++;
    d->checked = false; /* the file may change */
    snprintf(d->error, sizeof d->error, "%s", err->text);
    if (atomic_load(&m->s->ready)) ft_log(FT_LOG_WARN, "%s: %s", d->name, err->text);
    wake_waiting(m, d);
}

/* Returns false if there is not enough memory: other models must be unloaded first. */
static bool load_model(ft_models *m, ft_served *d)
{
    ft_llm *llm = NULL;
    ft_request r;
    ft_err err;
    d->state = FT_SERVED_LOADING;
    pthread_mutex_unlock(&m->s->lock);
    const ft_status st = m->p.load(m->p.user, d->index, &llm, &r, &err);
    pthread_mutex_lock(&m->s->lock);
    d->state = FT_SERVED_UNLOADED;
    d->used_s = ft_now_s();
    d->error[0] = 0;
    if (!st) attach_model(m->s, d, llm, &r);
    if (st == FT_ENOMEM && victim(m)) return false;
    if (st) {
        fail_load(m, d, &err);
        return true;
    }
    d->wanted = d->requested = d->checked = false;
    if (atomic_load(&m->s->ready))
        ft_log(FT_LOG_INFO, "loaded %s in %.1f s", d->name, d->info->load_s);
    wake_waiting(m, d);
    return true;
}

/* No model needs memory any more: models that were to be evicted stay loaded. */
static void cancel_evictions(ft_models *m)
{
    for (int i = 0; i < m->n; i++) {
        ft_served *d = m->at[i];
        if (!d->evicted) continue;
        d->evicted = false;
        d->state = FT_SERVED_LOADED;
        d->wanted = d->requested = false;
        wake_waiting(m, d);
    }
}

/* The model that has been wanted longest. */
static ft_served *next_wanted(ft_models *m)
{
    ft_served *best = NULL;
    for (int i = 0; i < m->n; i++) {
        ft_served *d = m->at[i];
        if (!d->wanted || d->state != FT_SERVED_UNLOADED) continue;
        if (!best || d->wanted_s < best->wanted_s) best = d;
    }
    return best;
}

double ft_served_idle_limit(const ft_server *s, const ft_served *d)
{
    const int usual = s->models->p.idle_s;
    return d->keep_set ? d->keep_s : usual > 0 ? usual : -1;
}

bool ft_served_keep(ft_server *s, ft_served *d, const double *idle_s)
{
    if (!s->models->running) return !idle_s || *idle_s != 0;
    pthread_mutex_lock(&s->lock);
    d->keep_set = idle_s != NULL;
    d->keep_s = idle_s ? *idle_s : 0;
    pthread_mutex_unlock(&s->lock);
    return true;
}

/* A DRAINING model that no call holds, or a model that has been idle for long enough. */
static ft_served *next_to_unload(ft_models *m)
{
    const double now = ft_now_s();
    for (int i = 0; i < m->n; i++) {
        ft_served *d = m->at[i];
        const double limit = ft_served_idle_limit(m->s, d);
        const bool idle = d->state == FT_SERVED_LOADED && limit >= 0 && now - d->used_s >= limit;
        if (!d->holders && (d->state == FT_SERVED_DRAINING || idle)) return d;
    }
    return NULL;
}

static bool any_idle_limit(const ft_models *m)
{
    for (int i = 0; i < m->n; i++)
        if (m->at[i]->state == FT_SERVED_LOADED && ft_served_idle_limit(m->s, m->at[i]) >= 0)
            return true;
    return false;
}

static void wait_for_change(ft_models *m)
{
    const struct timespec t = ft_deadline(CLOCK_REALTIME, 100);
    if (any_idle_limit(m))
        pthread_cond_timedwait(&m->change, &m->s->lock, &t);
    else
        pthread_cond_wait(&m->change, &m->s->lock);
}

/* Called and returns with the lock held. A model that cannot be loaded must not displace others. */
static bool check_model(ft_models *m, ft_served *d)
{
    ft_err err;
    if (!m->p.check || d->checked) return true;
    pthread_mutex_unlock(&m->s->lock);
    const ft_status st = m->p.check(m->p.user, d->index, &err);
    pthread_mutex_lock(&m->s->lock);
    d->checked = !st;
    if (st) fail_load(m, d, &err);
    return !st;
}

/* Unloads the model, or waits until no call holds it. */
static void evict(ft_models *m, ft_served *d)
{
    if (d->state == FT_SERVED_LOADED) {
        d->state = FT_SERVED_DRAINING;
        d->evicted = true;
    }
    if (d->holders) wait_for_change(m);
}

static void *loader_thread(void *user)
{
    ft_models *m = user;
    bool tight = false; /* the last load failed for lack of memory */
    pthread_mutex_lock(&m->s->lock);
    while (!m->stop) {
        ft_served *d = next_wanted(m);
        if (!d) cancel_evictions(m);
        ft_served *gone = next_to_unload(m), *other = victim(m);
        if (!d || gone) tight = false;
        if (gone)
            unload_model(m, gone);
        else if (!d)
            wait_for_change(m);
        else if (!other || (fits(m, d) && !tight))
            tight = !load_model(m, d);
        else if (check_model(m, d))
            evict(m, other);
    }
    pthread_mutex_unlock(&m->s->lock);
    return NULL;
}

/* ---- start and stop ---- */

struct ft_models *ft_models_new(ft_server *s)
{
    ft_models *m = ft_new(ft_models);
    m->s = s;
    pthread_mutex_init(&m->scanning, NULL);
    pthread_cond_init(&m->change, NULL);
    return m;
}

/* Adds a model. names: its name, then aliases, separated by commas. */
static ft_served *put_model(ft_models *m, const char *names, const char *aliases)
{
    const size_t n = strcspn(names, ",");
    ft_served *d = ft_new(ft_served);
    d->index = m->n;
    d->name = ft_alloc(n + 1);
    memcpy(d->name, names, n);
    if (!aliases && names[n]) aliases = names + n + 1;
    if (aliases) d->aliases = ft_strdup(aliases);
    m->at = ft_realloc(m->at, sizeof *m->at * (size_t)(m->n + 1));
    m->at[m->n++] = d;
    return d;
}

static void put_listed(ft_models *m, const ft_served_model *from)
{
    ft_served *d = put_model(m, from->name, from->aliases);
    d->bytes = d->file_bytes = from->bytes;
    d->gone = from->gone;
    if (from->sha256) d->sha256 = ft_strdup(from->sha256);
    if (from->error) snprintf(d->error, sizeof d->error, "%s", from->error);
}

ft_status ft_models_rescan(ft_server *s, ft_err *err)
{
    ft_models *m = s->models;
    const ft_served_model *at;
    int n;
    if (!m->p.scan) return FT_OK;
    pthread_mutex_lock(&m->scanning);
    const ft_status st = m->p.scan(m->p.user, &at, &n, err);
    pthread_mutex_lock(&s->lock);
    m->scanned_s = ft_now_s();
    for (int i = 0; !st && i < n; i++) {
        if (i == m->n) {
            put_listed(m, &at[i]);
            ft_log(FT_LOG_INFO, "found the model %s", m->at[i]->name);
        }
        m->at[i]->gone = at[i].gone;
    }
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_unlock(&m->scanning);
    return st;
}

void ft_server_attach(ft_server *s, ft_llm *llm)
{
    ft_served *d;
    if (s->p.alias && *s->p.alias) {
        d = put_model(s->models, s->p.alias, NULL);
    } else {
        char *name = ft_strdup(ft_file_name(ft_llm_about(llm)->path));
        const size_t n = strlen(name);
        if (n > 5 && !strcmp(name + n - 5, ".gguf")) name[n - 5] = 0;
        d = put_model(s->models, name, NULL);
        ft_free(name);
    }
    ft_request r;
    ft_request_defaults(&r, llm);
    attach_model(s, d, llm, &r);
    atomic_store(&s->ready, true);
}

ft_status ft_server_models(ft_server *s, const ft_models_params *p, ft_err *err)
{
    ft_models *m = s->models;
    m->p = *p;
    for (int i = 0; i < p->n; i++) {
        put_listed(m, &p->at[i]);
        for (int k = 0; k < i; k++)
            if (!strcmp(m->at[k]->name, m->at[i]->name))
                return ft_fail(err, FT_EINVAL, "two models are called %s, want different names",
                               m->at[i]->name);
    }
    m->scanned_s = ft_now_s();
    if (pthread_create(&m->thread, NULL, loader_thread, m))
        return ft_fail(err, FT_EIO, "the thread that loads models could not be started");
    m->running = true;
    return FT_OK;
}

ft_status ft_server_load(ft_server *s, int i, ft_err *err)
{
    ft_models *m = s->models;
    ft_served *d = i >= 0 ? m->at[i] : NULL;
    ft_status st = FT_OK;
    pthread_mutex_lock(&s->lock);
    if (d) want_model(d), d->requested = true;
    pthread_cond_signal(&m->change);
    while (d && d->wanted) {
        pthread_mutex_unlock(&s->lock);
        usleep(5000);
        pthread_mutex_lock(&s->lock);
    }
    if (d && d->failures) st = ft_fail(err, FT_EFORMAT, "%s", d->error);
    pthread_mutex_unlock(&s->lock);
    if (!st) atomic_store(&s->ready, true);
    return st;
}

void ft_models_free(ft_models *m)
{
    if (!m) return;
    if (m->running) {
        pthread_mutex_lock(&m->s->lock);
        m->stop = true;
        pthread_cond_signal(&m->change);
        pthread_mutex_unlock(&m->s->lock);
        pthread_join(m->thread, NULL);
    }
    for (int i = 0; i < m->n; i++) {
        ft_served *d = m->at[i];
        if (d->llm && m->p.unload) m->p.unload(m->p.user, i, d->llm);
        ft_free(d->name);
        ft_free(d->aliases);
        ft_free(d->sha256);
        json_decref(d->props);
        ft_free(d);
    }
    pthread_mutex_destroy(&m->scanning);
    pthread_cond_destroy(&m->change);
    ft_free(m->at);
    ft_free(m);
}

/* ---- routes ---- */

static ft_served *model_in_body(ft_call *c)
{
    ft_http_error error;
    const char *name = NULL;
    if (!ft_want_text(c->body, "model", &name, &error)) {
        ft_call_fail(c, &error);
        return NULL;
    }
    if (!name)
        return fail_call(c, FT_ERR_INVALID, "model is missing, want the name of a model", NULL);
    ft_served *d = atomic_load(&c->s->ready) ? ft_models_find(c->s, name) : NULL;
    if (!d || !c->s->models->running)
        return fail_call(c, FT_ERR_NOT_FOUND, "cannot be loaded or unloaded by request", name);
    return d;
}

void ft_run_models_load(ft_call *c)
{
    ft_served *d = model_in_body(c);
    if (!d) return;
    pthread_mutex_lock(&c->s->lock);
    const bool there = d->state == FT_SERVED_LOADED;
    if (!there) want_model(d), d->requested = true;
    pthread_cond_signal(&c->s->models->change);
    pthread_mutex_unlock(&c->s->lock);
    if (there)
        fail_call(c, FT_ERR_INVALID, "is already loaded", d->name);
    else
        ft_call_json(c, 200, json_pack("{s:b}", "success", 1));
}

void ft_run_models_unload(ft_call *c)
{
    ft_served *d = model_in_body(c);
    if (!d) return;
    pthread_mutex_lock(&c->s->lock);
    const bool there = d->state >= FT_SERVED_LOADED;
    if (there) d->state = FT_SERVED_DRAINING; /* unloaded when the running responses are complete */
    d->evicted = false;
    pthread_cond_signal(&c->s->models->change);
    pthread_mutex_unlock(&c->s->lock);
    if (!there)
        fail_call(c, FT_ERR_INVALID, "is not loaded", d->name);
    else
        ft_call_json(c, 200, json_pack("{s:b}", "success", 1));
}
