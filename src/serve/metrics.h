/* serve/metrics.h - counters of the server, in Prometheus format. Thread-safe. */
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
        const char *route; /* path in the route table */
        int code;
        uint64_t n;
    } request[FT_ROUTE_CODES];
    int n_request;
    uint64_t spec_rounds, spec_at[FT_DRAFT_MAX];
    int tokens_max; /* of one sequence */
    /* counters at the last scrape, for rates */
    uint64_t last_prompt, last_output;
    double last_prompt_s, last_output_s;
    atomic_int active; /* requests without a complete response */
} ft_metrics;

void ft_metrics_init(ft_metrics *m);
void ft_metrics_release(ft_metrics *m);
void ft_metrics_request(ft_metrics *m, const char *route, int code);
/* Records a finished response. first_s: time to first token; < 0: no token. */
void ft_metrics_response(ft_metrics *m, const ft_response *r, double first_s);
/* Appends the metrics page. counts may be NULL while no model is loaded. */
void ft_metrics_write(ft_metrics *m, const ft_llm_stats *counts, ft_buf *out);

#endif
