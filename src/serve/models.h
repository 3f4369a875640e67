/* serve/models.h - the models that the server can answer with: which of them are loaded, which
 * calls use them, and which are unloaded to make memory free.
 *
 * A call that names a model holds it from ft_call_model until the call ends; work that outlives the
 * call holds it too. One thread, the loader, loads and unloads; a call whose model is not loaded
 * waits for it without a thread, and then its route runs again.
 *
 *     UNLOADED --loader, when wanted--> LOADING --> LOADED, or UNLOADED with an error
 *     LOADED --unload request, or another model needs the memory--> LEAVING
 *     LOADED --idle for idle_s--> UNLOADING --> UNLOADED
 *     LEAVING --last holder gone--> UNLOADING --> UNLOADED
 *     LEAVING --the other model is no longer wanted--> LOADED
 *
 * A model that is LEAVING is given to no further call. Calls that name it wait until it is loaded
 * again, so that no request is lost and two models that do not fit together alternate.
 *
 * A model is wanted while a live call waits for it, or after a request to load it until the loader
 * has tried. A call whose client has left or whose time is up stops waiting at once; with the last
 * one the model is no longer wanted.
 *
 *     who waits                       for what                      who wakes it
 *     a call (suspended, `awaits`)    LOADED, or a failed attempt   the loader: ft_call_wake
 *     the loader (`change`)           a wanted model, a last        ft_call_model, ft_served_drop,
 * the holder, stop                  routes, ft_models_free ft_server_load                  the
 * first attempt             looks every 5 ms ft_models_free                  the loader's end a
 * running load is waited for */
#ifndef FT_SERVE_MODELS_H
#define FT_SERVE_MODELS_H

#include "serve/call.h"
#include "serve/serve.h"

typedef enum ft_served_state {
    FT_SERVED_UNLOADED,
    FT_SERVED_LOADING,
    FT_SERVED_UNLOADING,
    FT_SERVED_LOADED,  /* from here on there is an llm */
    FT_SERVED_LEAVING, /* unloaded as soon as nobody holds it */
} ft_served_state;

/* A model. Who does not hold it reads llm, info and vocab under the lock, from LOADED on. */
typedef struct ft_served {
    int index;
    char *name;     /* the first alias, or the file's name */
    uint64_t bytes; /* that it takes, or of its file before that is known */
    ft_llm *llm;
    const ft_llm_info *info;
    const ft_vocab *vocab;
    ft_request defaults; /* of a request; POST /props changes it */
    /* under the server's lock */
    ft_served_state state;
    int holders;
    int waiting;       /* live calls that wait for it */
    bool requested;    /* POST /models/load, or the server's start, waits for an attempt */
    bool wanted;       /* it shall be loaded: for one of these two, */
    double wanted_s;   /* since then */
    bool evicted;      /* LEAVING because another model needs the memory */
    double used_s;     /* when it was last let go */
    uint64_t failures; /* to load it, so far */
    char error[512];   /* of the last one */
    json_t *props;     /* GET /props of it, for when it sleeps; NULL: it never was loaded */
} ft_served;

struct ft_models;

/* Before anything else: none, and nobody is answered. */
struct ft_models *ft_models_new(struct ft_server *s);
void ft_models_free(struct ft_models *m); /* unloads what was loaded here */

int ft_models_count(const struct ft_server *s);
ft_served *ft_models_at(struct ft_server *s, int i);
bool ft_models_one(const struct ft_server *s); /* a single one, which answers to any name */
/* By its name, "name:latest" as Ollama says it, or the one used last without; NULL: none. */
ft_served *ft_models_find(struct ft_server *s, const char *name);
/* Sums over all models, also over what they did before they were unloaded. */
void ft_models_counts(struct ft_server *s, ft_llm_stats *out);
const char *ft_served_status(const ft_served *d); /* "loaded" and so on; under the lock */

/* The model that a call names, not held and perhaps not loaded; or NULL: the call was answered with
 * an error. name NULL: as its body or its query has it. */
ft_served *ft_call_named(ft_call *c, const char *name);
/* The same, loaded and held; or NULL: then the call was answered, or its route will run again. */
ft_served *ft_call_model(ft_call *c, const char *name);
void ft_served_hold(struct ft_server *s, ft_served *d); /* once more, by whoever holds it */
void ft_served_drop(struct ft_server *s, ft_served *d); /* NULL: nothing */

#endif
