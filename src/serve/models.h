/* serve/models.h - the models that the server can answer with: which of them are loaded, who uses
 * them, who has to wait, and who has to go.
 *
 * A call that names a model holds it from ft_call_model until it ends, and with it the work that it
 * left behind. A model that is not loaded is loaded by a thread of its own while the call waits
 * without one; then its route runs again. One that has to make room answers nobody new: it finishes
 * what it has begun, goes, and comes back for those who asked for it meanwhile. So no request is
 * lost, and two models that fit only one at a time take turns. */
#ifndef FT_SERVE_MODELS_H
#define FT_SERVE_MODELS_H

#include "serve/call.h"
#include "serve/serve.h"

typedef enum ft_served_state {
    FT_SERVED_UNLOADED,
    FT_SERVED_LOADING,
    FT_SERVED_UNLOADING,
    FT_SERVED_LOADED,  /* from here on there is an llm */
    FT_SERVED_LEAVING, /* as soon as nobody holds it */
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
    bool wanted;       /* somebody waits for it, */
    double wanted_s;   /* since then */
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

/* The model that a call names, held; or NULL: then it was answered, or its route will run again.
 * name NULL: as its body or its query has it. */
ft_served *ft_call_model(ft_call *c, const char *name);
void ft_served_hold(struct ft_server *s, ft_served *d); /* once more, by whoever holds it */
void ft_served_drop(struct ft_server *s, ft_served *d); /* NULL: nothing */

#endif
