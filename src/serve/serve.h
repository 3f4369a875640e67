/* serve/serve.h - the HTTP server, as the program that starts it sees it.
 * It listens from ft_server_open() on and says that the model is loading until it is given one, or
 * the means to load some. A model that it is given must have its queue running (ft_llm_start) and
 * must outlive the server. */
#ifndef FT_SERVE_H
#define FT_SERVE_H

#include "foretoken.h"

typedef struct ft_server ft_server;

typedef struct ft_serve_params {
    const char *host; /* an address, a name, or a path that ends in .sock */
    int port;         /* 0: one that is free */
    const char *api_prefix;
    const char *alias; /* names of the model, separated by commas; NULL: its file name */
    const char *api_key, *api_key_file; /* keys separated by commas; one per line. NULL: open */
    const char *cors_origins, *cors_methods, *cors_headers;
    bool cors_credentials;
    const char *tls_key, *tls_cert; /* files; NULL: plain HTTP */
    int threads;                    /* that parse, render and write; 0: some */
    int connections;                /* at a time */
    int per_address;                /* of them from one address; 0: half */
    int queue;                      /* requests that may wait; what ft_llm_start was told */
    int timeout_s;                  /* of a whole request */
    int ping_s;                     /* comment lines in silent streams; < 0: none */
    int header_s, body_s, write_s;  /* slow senders and readers */
    int drain_s;                    /* what running responses get when the server stops */
    size_t body_max;                /* bytes of one request */
    size_t body_memory;             /* bytes of all requests, raw and parsed; one may take 1/4 */
    const char *allowed_hosts;      /* names in Host beside localhost, or "*"; NULL: none */
    bool cache_shared;              /* prompts of one API key may be cached for another */
    const char *slot_save_path;     /* NULL: slots cannot be saved */
    bool slots, metrics, props;     /* routes; props: POST changes the defaults */
    bool no_page;                   /* no web page at / */
    bool log_requests;              /* one line for each */
    const char *prompts_dir;        /* the bodies of requests are kept there; NULL: nowhere */
    bool normalize;                 /* lines that change with each request leave system messages */
    const char *thinking;           /* "on", "off", "auto" */
    const char *reasoning_format;   /* "none", "deepseek", "deepseek-legacy", "auto" */
    const char *reasoning_effort;   /* for the template; NULL: none */
    const char *template_kwargs;    /* a JSON object; NULL: none */
    int reasoning_budget;           /* tokens; < 0: no limit */
    const char *reasoning_message;  /* said when the budget is used up; NULL: nothing */
    bool cache_prompt;              /* unless a request says otherwise */
    int64_t seed;                   /* the same; < 0: random */
} ft_serve_params;

typedef struct ft_served_model {
    const char *name; /* what requests call it */
    uint64_t bytes;   /* of its file */
} ft_served_model;

/* Models that the server may load and unload. */
typedef struct ft_models_params {
    const ft_served_model *at;
    int n;
    int max;          /* loaded at a time; 0: any number */
    uint64_t memory;  /* bytes of all that are loaded; 0: as much as there is */
    int idle_s;       /* unload after so long without a request; 0: never */
    bool no_autoload; /* only POST /models/load loads */
    /* Opens model i, starts its queue and says how its requests begin; and the other way step.
     * From one thread, one at a time. FT_ENOMEM: others have to go first. */
    ft_status (*load)(void *user, int i, ft_llm **out, ft_request *defaults, ft_err *err);
    void (*unload)(void *user, int i, ft_llm *m);
    void *user;
} ft_models_params;

void ft_serve_defaults(ft_serve_params *p);
/* Texts in p must live as long as the server. FT_EUNSUPPORTED: built without libmicrohttpd. */
ft_status ft_server_open(ft_server **out, const ft_serve_params *p, ft_err *err);
/* From now on requests are answered: by this model, */
void ft_server_attach(ft_server *s, ft_llm *m);
/* Reads the file of API keys again; FT_EINVAL: there is none. When it fails the keys stay. */
ft_status ft_server_reload(ft_server *s, ft_err *err);
/* or by these. Once ft_server_load has loaded one, or with
 * i < 0 without, the others follow when somebody asks for them. */
ft_status ft_server_models(ft_server *s, const ft_models_params *p, ft_err *err);
ft_status ft_server_load(ft_server *s, int i, ft_err *err);
/* Where it listens: "http://127.0.0.1:8080". Borrowed. */
const char *ft_server_address(const ft_server *s);
int ft_server_port(const ft_server *s);
/* Accepts no more connections, answers new requests with 503. */
void ft_server_drain(ft_server *s);
int ft_server_busy(ft_server *s); /* requests that are not answered yet */
/* A model's device has failed: only another process will do better. */
bool ft_server_failed(ft_server *s);
/* Ends what is still running. accepts NULL */
void ft_server_close(ft_server *s);

#endif
