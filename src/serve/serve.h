/* serve/serve.h - the HTTP server, as the program that starts it sees it. It listens from
 * ft_server_open() on and responds with "the model is loading" until ft_server_attach or
 * ft_server_models. An attached model must have its queue running (ft_llm_start) and must outlive
 * the server. */
#ifndef FT_SERVE_H
#define FT_SERVE_H

#include "foretoken.h"

typedef struct ft_server ft_server;

typedef struct ft_serve_params {
    const char *host; /* an address, a host name, or a path that ends in .sock */
    int port;         /* 0: any free port */
    const char *api_prefix;
    const char *alias;                  /* comma-separated model names; NULL: the file name */
    const char *tags;                   /* comma-separated, for GET /v1/models; NULL: none */
    const char *api_key, *api_key_file; /* comma-separated keys; a file with one key per line; NULL:
                                           no authentication */
    const char *cors_origins, *cors_methods, *cors_headers;
    bool cors_credentials;
    const char *tls_key, *tls_cert; /* PEM files; NULL: plain HTTP */
    int threads;                    /* HTTP threads; 0: 4 */
    int connections;                /* maximum number of connections */
    int per_address;                /* maximum per client address; 0: half of connections */
    int queue;                     /* maximum number of queued requests, as given to ft_llm_start */
    int timeout_s;                 /* time limit of a request */
    int ping_s;                    /* interval of SSE keep-alive comments; < 0: none */
    int header_s, body_s, write_s; /* time limits for reading headers and body, and for writing */
    int drain_s;                   /* time that running responses get on shutdown */
    size_t body_max;               /* maximum size of a request body in bytes */
    size_t body_memory;         /* memory limit of all bodies, raw and parsed; one may take 1/4 */
    const char *allowed_hosts;  /* allowed Host names besides localhost, or "*"; NULL: none */
    const char *image_hosts;    /* of images that requests give by address, separated by
                                 * commas, or "any"; NULL: none */
    const char *media_path;     /* folder of images with file:// addresses; NULL: none */
    bool cache_shared;          /* share cached prompts between API keys */
    const char *slot_save_path; /* directory of saved slots; NULL: disabled */
    bool slots, metrics, props; /* enable these routes; props: POST /props */
    bool no_page;               /* do not serve the web page at / */
    bool log_requests;          /* log one line per request */
    bool log_json;              /* these lines are JSON objects */
    bool verbose;               /* default of the request field: __verbose in responses */
    const char *prompts_dir;    /* directory to which request bodies are written; NULL: none */
    bool normalize;       /* remove lines that change with each request from system messages */
    const char *thinking; /* "on", "off", "auto" */
    const char *reasoning_format;  /* "none", "deepseek", "deepseek-legacy", "auto" */
    const char *reasoning_effort;  /* passed to the template; NULL: none */
    const char *template_kwargs;   /* a JSON object; NULL: none */
    int reasoning_budget;          /* tokens; < 0: no limit */
    const char *reasoning_message; /* text inserted when the budget is used up; NULL: none */
    bool cache_prompt;             /* default of the request field */
    int64_t seed;                  /* default of the request field; < 0: random */
    int pooling;        /* ft_pooling of embeddings; < 0: as the file says, or the mean */
    int embd_normalize; /* 0: largest absolute value 1; P: P-norm 1; < 0: as they are. Default of
                         * the request field */
} ft_serve_params;

typedef struct ft_served_model {
    const char *name;    /* name in requests */
    uint64_t bytes;      /* file size */
    const char *aliases; /* other names, comma-separated; NULL: none */
    const char *error;   /* why the file cannot be loaded; NULL: it may be */
    const char *sha256;  /* of the file, in hex; NULL: not known */
    bool gone;           /* the file was removed */
} ft_served_model;

/* sha256: in hex, "": not known. Returns false to end the download. */
typedef bool ft_pull_progress(void *user, const char *file, const char *sha256, uint64_t got,
                              uint64_t total);

/* Models that the server may load and unload. */
typedef struct ft_models_params {
    const ft_served_model *at;
    int n;
    int max;          /* maximum number of loaded models; 0: no limit */
    uint64_t memory;  /* memory limit of all loaded models in bytes; 0: what is available */
    int idle_s;       /* unload after this many idle seconds; 0: never */
    bool no_autoload; /* only POST /models/load loads a model */
    /* load opens model i, starts its queue and sets its default parameters; unload reverses that.
     * Both are called from one thread. load returns FT_ENOMEM if other models must be unloaded
     * first. */
    ft_status (*load)(void *user, int i, ft_llm **out, ft_request *defaults, ft_err *err);
    void (*unload)(void *user, int i, ft_llm *m);
    /* check reads only the metadata of model i: a model that fails it does not displace others. May
     * be NULL. */
    ft_status (*check)(void *user, int i, ft_err *err);
    /* scan looks for new models; NULL: the list never changes. *at: all models, those known before
     * first and in the same order; valid until the next call. Called by one thread at a time. */
    ft_status (*scan)(void *user, const ft_served_model **at, int *n, ft_err *err);
    /* Changes by request; NULL: not allowed. They run on threads of their own; scan shows the
     * result. pull downloads a model by its name and calls progress, which returns false to end it.
     * remove deletes model i. derive adds a model `name` that is model i with other parameters: a
     * JSON object with Ollama's names; NULL: the same ones. */
    ft_status (*pull)(void *user, const char *name, ft_pull_progress *progress, void *progress_user,
                      ft_err *err);
    ft_status (*remove)(void *user, int i, ft_err *err);
    ft_status (*derive)(void *user, int i, const char *name, const char *params, ft_err *err);
    void *user;
} ft_models_params;

void ft_serve_defaults(ft_serve_params *p);
/* Strings in p must outlive the server. Returns FT_EUNSUPPORTED if built without libmicrohttpd. */
ft_status ft_server_open(ft_server **out, const ft_serve_params *p, ft_err *err);
/* Serves one model, which is loaded. */
void ft_server_attach(ft_server *s, ft_llm *m);
/* Reads the API key file again. FT_EINVAL: there is none. On failure the current keys stay in
 * use. */
ft_status ft_server_reload(ft_server *s, ft_err *err);
/* Serves several models. ft_server_load loads model i and waits for it (i < 0: loads none) and
 * starts to accept requests; further models are loaded on request. */
ft_status ft_server_models(ft_server *s, const ft_models_params *p, ft_err *err);
ft_status ft_server_load(ft_server *s, int i, ft_err *err);
/* The URL it listens on, such as "http://127.0.0.1:8080". Borrowed. */
const char *ft_server_address(const ft_server *s);
int ft_server_port(const ft_server *s);
/* Stops accepting connections and responds to new requests with 503. */
void ft_server_drain(ft_server *s);
int ft_server_busy(ft_server *s); /* requests without a complete response */
/* A model's device has failed. Only a restart of the process helps. */
bool ft_server_failed(ft_server *s);
/* Cancels running requests and frees the server. s may be NULL. */
void ft_server_close(ft_server *s);

#endif
