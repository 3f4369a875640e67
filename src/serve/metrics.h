/* serve/metrics.h - what is counted, and how Prometheus reads it. Safe from many threads. */
#ifndef FT_SERVE_METRICS_H
#define FT_SERVE_METRICS_H

#include "base/buf.h"
#include "foretoken.h"

#include <pthread.h>
#include <stdatomic.h>

enum { FT_BUCKETS = 14, FT_ROUTE_CODES = 256 };

typedef struct ft_histogram {
    uint64_t at[FT_BUCKETS + 1], n;
    double sum;
} ft_histogram;

typedef struct ft_metrics {
    pthread_mutex_t lock;
    ft_histogram first_token, between_tokens;
    struct {
        const char *route; /* of the route table */
        int code;
        uint64_t n;
    } request[FT_ROUTE_CODES];
    int n_request;
    uint64_t spec_rounds, spec_at[FT_DRAFT_MAX];
    int tokens_max; /* of one sequence */
    /* for the rates since the last time somebody asked */
    uint64_t last_prompt, last_output;
    double last_prompt_s, last_output_s;
    atomic_int active; /* requests that are not answered yet */
} ft_metrics;

void ft_metrics_init(ft_metrics *m);
void ft_metrics_release(ft_metrics *m);
void ft_metrics_request(ft_metrics *m, const char *route, int code);
/* A response has ended; first_s: from the request to its first token, < 0 when there was none. */
void ft_metrics_response(ft_metrics *m, const ft_response *r, double first_s);
/* Appends the page; counts may be NULL while there is no model. */
void ft_metrics_write(ft_metrics *m, const ft_llm_stats *counts, ft_buf *out);

#endif
