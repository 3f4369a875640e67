/* serve/models.h - the models of the server: which are loaded, which requests use them, and which
 * are unloaded to free memory.
 *
 * A call holds its model from ft_call_model until the call ends; work that outlives the call holds
 * it too. One thread, the loader, loads and unloads models. A call whose model is not loaded is
 * suspended, without blocking a thread; once the model is loaded its handler runs again.
 *
 *     UNLOADED  -> LOADING    the loader starts to load a wanted model
 *     LOADING   -> LOADED     or -> UNLOADED, with an error
 *     LOADED    -> DRAINING   unload request, or another model needs the memory
 *     LOADED    -> UNLOADING  idle for idle_s
 *     DRAINING  -> UNLOADING  no call holds it any more
 *     DRAINING  -> LOADED     the other model is no longer wanted
 *     UNLOADING -> UNLOADED
 *
 * A DRAINING model accepts no further calls. Calls that name it wait until it is loaded again, so
 * no request is lost, and two models that do not fit together alternate.
 *
 * A model is wanted while an active call waits for it, or after a load request until the loader has
 * tried. A call that was cancelled or timed out stops waiting at once; when no call waits any more,
 * the model is no longer wanted.
 *
 * Waiting and waking:
 * - A call (suspended, `awaits`) waits for LOADED or a failed load. The loader wakes it with
 *   ft_call_wake.
 * - The loader (`change`) waits for a wanted model, the release of a model, or stop. ft_call_model,
 *   ft_served_drop, the load and unload routes and ft_models_free signal it.
 * - ft_server_load waits for the first load; it polls every 5 ms.
 * - ft_models_free joins the loader; a load that is running is completed first. */
#ifndef FT_SERVE_MODELS_H
#define FT_SERVE_MODELS_H

#include "serve/call.h"
#include "serve/serve.h"

typedef enum ft_served_state {
    FT_SERVED_UNLOADED,
    FT_SERVED_LOADING,
    FT_SERVED_UNLOADING,
    FT_SERVED_LOADED,   /* llm is set in this state and in DRAINING */
    FT_SERVED_DRAINING, /* unloaded as soon as no call holds it */
} ft_served_state;

/* One model. Code that does not hold it must take the lock to read llm, info and vocab, and only in
 * the states LOADED and DRAINING. */
typedef struct ft_served {
    int index;
    char *name;     /* first alias, or the file name without .gguf */
    char *aliases;  /* other names, comma-separated; NULL: none */
    uint64_t bytes; /* memory used; the file size until that is known */
    uint64_t file_bytes;
    ft_llm *llm;
    const ft_llm_info *info;
    const ft_vocab *vocab;
    ft_request defaults; /* default request parameters; POST /props changes them */
    /* protected by the server's lock */
    ft_served_state state;
    int holders;
    int waiting;       /* active calls that wait for it */
    bool requested;    /* POST /models/load, or the start of the server, waits for a load */
    bool wanted;       /* to be loaded: waiting > 0 or requested */
    double wanted_s;   /* time at which wanted was set */
    bool evicted;      /* DRAINING because another model needs the memory */
    double used_s;     /* time at which it was last released */
    bool keep_set;     /* a request has set keep_s, which replaces the server's idle time */
    double keep_s;     /* unload after this many idle seconds; < 0: never */
    uint64_t failures; /* number of failed loads */
    char error[512];   /* message of the last failed load or check */
    bool checked;      /* the metadata of the file is good */
    bool gone;         /* the file was removed; listed no more */
    char *sha256;      /* of the file; NULL: not known */
    json_t *props;     /* last GET /props while loaded; NULL: never loaded */
} ft_served;

/* Sets the idle time after which the model is unloaded (Ollama's keep_alive); NULL: the server's.
 * Returns false if this server cannot unload its model. */
bool ft_served_keep(struct ft_server *s, ft_served *d, const double *idle_s);
/* Idle seconds after which the model is unloaded; < 0: never. Under the lock. */
double ft_served_idle_limit(const struct ft_server *s, const ft_served *d);

struct ft_models;

/* Creates an empty list. No request can be handled yet. */
struct ft_models *ft_models_new(struct ft_server *s);
void ft_models_free(struct ft_models *m); /* unloads the models that the loader loaded */

int ft_models_count(const struct ft_server *s);
ft_served *ft_models_at(struct ft_server *s, int i);
bool ft_models_one(const struct ft_server *s); /* there is one model, used for any name */
/* Finds a model by its name, an alias, its file name or, as in Ollama, "name:latest"; without a
 * name, the model used last; a server of one model accepts any name. NULL: none. */
ft_served *ft_models_find(struct ft_server *s, const char *name);
ft_served *ft_models_named(struct ft_server *s, const char *name); /* by name only */
int ft_models_max(const struct ft_server *s);                      /* 0: no limit */
bool ft_models_autoload(const struct ft_server *s);
/* Looks for new models now. */
ft_status ft_models_rescan(struct ft_server *s, ft_err *err);
const ft_models_params *ft_models_params_of(const struct ft_server *s);
/* Unloads model i, which was removed, when no call uses it any more. */
void ft_models_let_go(struct ft_server *s, int i);
/* Totals over all models, including what they counted before they were unloaded. */
void ft_models_counts(struct ft_server *s, ft_llm_stats *out);
const char *ft_served_status(const ft_served *d); /* "loaded" etc.; under the lock */

/* The model that a call names (name NULL: the name in its body or query), not held and perhaps not
 * loaded. NULL: an error response was sent. */
ft_served *ft_call_named(ft_call *c, const char *name);
/* Like ft_call_named, but loaded and held. NULL: a response was sent, or the handler will run
 * again. */
ft_served *ft_call_model(ft_call *c, const char *name);
void ft_served_hold(struct ft_server *s,
                    ft_served *d); /* holds it once more; the caller must hold it */
void ft_served_drop(struct ft_server *s, ft_served *d); /* releases it; NULL: no effect */

#endif
