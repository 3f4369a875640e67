#include "serve/metrics.h"

#include "base/mem.h"

#include <stdio.h>

static const double BUCKET[FT_BUCKETS] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                          0.25,  0.5,    1,     2.5,  5,     10,   30};

void ft_metrics_init(ft_metrics *m)
{
    *m = (ft_metrics){0};
    pthread_mutex_init(&m->lock, NULL);
}

void ft_metrics_release(ft_metrics *m)
{
    pthread_mutex_destroy(&m->lock);
}

static void observe(ft_histogram *h, double s, uint64_t times)
{
    int i = 0;
    while (i < FT_BUCKETS && s > BUCKET[i]) i++;
    h->at[i] += times;
    h->n += times;
    h->sum += s * (double)times;
}

void ft_metrics_request(ft_metrics *m, const char *route, int code)
{
    pthread_mutex_lock(&m->lock);
    int i = 0;
    while (i < m->n_request && (m->request[i].route != route || m->request[i].code != code)) i++;
    if (i < FT_ROUTE_CODES) {
        m->request[i].route = route;
        m->request[i].code = code;
        m->request[i].n++;
        if (i == m->n_request) m->n_request++;
    }
    pthread_mutex_unlock(&m->lock);
}

void ft_metrics_response(ft_metrics *m, const ft_response *r, double first_s)
{
    pthread_mutex_lock(&m->lock);
    if (first_s >= 0) observe(&m->first_token, first_s, 1);
    if (r->output_tokens > 1) {
        const int gaps = r->output_tokens - 1;
        observe(&m->between_tokens, r->output_s / gaps, (uint64_t)gaps);
    }
    m->spec_rounds += (uint64_t)r->draft_steps;
    for (int i = 0; i < FT_DRAFT_MAX; i++) m->spec_at[i] += (uint64_t)r->accepted_at[i];
    m->tokens_max = FT_MAX(m->tokens_max, r->prompt_tokens + r->output_tokens);
    pthread_mutex_unlock(&m->lock);
}

/* ---- the metrics page ---- */

static void head(ft_buf *out, const char *name, const char *kind, const char *help)
{
    ft_buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind);
}

/* Writes a value under two names: llama.cpp's and ours. */
static void metric(ft_buf *out, const char *name, const char *kind, const char *help, double v)
{
    static const char *const prefix[] = {"llamacpp", "foretoken"};
    for (int i = 0; i < 2; i++) {
        char full[96];
        snprintf(full, sizeof full, "%s:%s", prefix[i], name);
        head(out, full, kind, help);
        ft_buf_printf(out, "%s %.9g\n", full, v);
    }
}

static void histogram(ft_buf *out, const char *name, const char *help, const ft_histogram *h)
{
    uint64_t sum = 0;
    head(out, name, "histogram", help);
    for (int i = 0; i < FT_BUCKETS; i++) {
        sum += h->at[i];
        ft_buf_printf(out, "%s_bucket{le=\"%g\"} %llu\n", name, BUCKET[i], (unsigned long long)sum);
    }
    ft_buf_printf(out, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum %.9g\n%s_count %llu\n", name,
                  (unsigned long long)h->n, name, h->sum, name, (unsigned long long)h->n);
}

static double rate(double n, double s)
{
    return s > 0 ? n / s : 0;
}

static void tokens(ft_metrics *m, const ft_llm_stats *c, ft_buf *out)
{
    metric(out, "prompt_tokens_total", "counter", "Prompt tokens evaluated.",
           (double)c->prompt_tokens);
    metric(out, "prompt_tokens_cached_total", "counter", "Prompt tokens found in the cache.",
           (double)c->cached_tokens);
    metric(out, "prompt_seconds_total", "counter", "Time spent on prompts, in seconds.",
           c->prompt_s);
    metric(out, "tokens_predicted_total", "counter", "Generated tokens.", (double)c->output_tokens);
    metric(out, "tokens_predicted_seconds_total", "counter", "Time spent generating, in seconds.",
           c->output_s);
    metric(out, "n_decode_total", "counter", "Passes through the model.", (double)c->steps);
    metric(out, "n_tokens_max", "counter", "Tokens of the longest sequence so far.", m->tokens_max);
    metric(out, "prompt_tokens_seconds", "gauge", "Prompt tokens per second since the last scrape.",
           rate((double)(c->prompt_tokens - m->last_prompt), c->prompt_s - m->last_prompt_s));
    metric(out, "predicted_tokens_seconds", "gauge",
           "Generated tokens per second since the last scrape.",
           rate((double)(c->output_tokens - m->last_output), c->output_s - m->last_output_s));
    m->last_prompt = c->prompt_tokens;
    m->last_output = c->output_tokens;
    m->last_prompt_s = c->prompt_s;
    m->last_output_s = c->output_s;
}

static void drafts(const ft_metrics *m, const ft_llm_stats *c, ft_buf *out)
{
    metric(out, "spec_decode_num_draft_tokens_total", "counter", "Draft tokens.",
           (double)c->drafted);
    metric(out, "spec_decode_num_accepted_tokens_total", "counter", "Accepted draft tokens.",
           (double)c->accepted);
    metric(out, "spec_decode_num_drafts_total", "counter", "Steps with draft tokens.",
           (double)m->spec_rounds);
    metric(out, "spec_k_mean", "gauge", "Mean number of draft tokens per step.",
           rate((double)c->drafted, (double)m->spec_rounds));
    for (int p = 0; p < 2; p++) {
        char name[96];
        snprintf(name, sizeof name, "%s:spec_decode_num_accepted_tokens_per_pos_total",
                 p ? "foretoken" : "llamacpp");
        head(out, name, "counter", "Steps in which the draft token at this position was accepted.");
        for (int i = 0; i < FT_DRAFT_MAX; i++)
            if (m->spec_at[i])
                ft_buf_printf(out, "%s{position=\"%d\"} %llu\n", name, i,
                              (unsigned long long)m->spec_at[i]);
    }
}

static void cache(const ft_llm_stats *c, ft_buf *out)
{
    const struct {
        const char *name, *help;
        uint64_t n;
    } page[] = {
        {"foretoken:pages_used", "KV cache pages of running sequences.",
         c->pages - c->pages_free - c->pages_cached},
        {"foretoken:pages_free", "Free KV cache pages.", c->pages_free},
        {"foretoken:pages_cached", "KV cache pages of idle slots.", c->pages_cached},
    };
    for (size_t i = 0; i < FT_COUNT(page); i++) {
        head(out, page[i].name, "gauge", page[i].help);
        ft_buf_printf(out, "%s %llu\n", page[i].name, (unsigned long long)page[i].n);
    }
    head(out, "foretoken:snapshots_bytes", "gauge", "Memory of prefix checkpoints, in bytes.");
    ft_buf_printf(out, "foretoken:snapshots_bytes{tier=\"host\"} %llu\n",
                  (unsigned long long)c->prefix_bytes);
    head(out, "foretoken:prefix_entries", "gauge", "Prefix checkpoints.");
    ft_buf_printf(out, "foretoken:prefix_entries %llu\n", (unsigned long long)c->prefix_entries);
    head(out, "foretoken:prefix_checkpoint_bytes", "gauge",
         "Memory of one prefix checkpoint besides its pages, in bytes.");
    ft_buf_printf(out, "foretoken:prefix_checkpoint_bytes %llu\n",
                  (unsigned long long)c->prefix_state);
    head(out, "foretoken:prefix_hits_total", "counter", "Prompts that begin with cached tokens.");
    ft_buf_printf(out, "foretoken:prefix_hits_total %llu\n", (unsigned long long)c->prefix_hits);
    head(out, "foretoken:prefix_misses_total", "counter", "Prompts without cached tokens.");
    ft_buf_printf(out, "foretoken:prefix_misses_total %llu\n",
                  (unsigned long long)c->prefix_misses);
    head(out, "foretoken:prefix_hit_tokens_total", "counter", "Prompt tokens found in the cache.");
    ft_buf_printf(out, "foretoken:prefix_hit_tokens_total %llu\n",
                  (unsigned long long)c->cached_tokens);
    head(out, "foretoken:prefix_miss_tokens_total", "counter",
         "Prompt tokens not found in the cache.");
    ft_buf_printf(out, "foretoken:prefix_miss_tokens_total %llu\n",
                  (unsigned long long)c->prompt_tokens);
    head(out, "foretoken:preemptions_total", "counter",
         "Sequences preempted for lack of KV cache pages.");
    ft_buf_printf(out, "foretoken:preemptions_total %llu\n", (unsigned long long)c->preempted);
    head(out, "foretoken:run_seconds_total", "counter",
         "Time in which there was a request to run.");
    ft_buf_printf(out, "foretoken:run_seconds_total %g\n", c->run_s);
    head(out, "foretoken:gpu_busy_seconds_total", "counter",
         "Of that, time in which the GPU ran a step; 0 without a GPU.");
    ft_buf_printf(out, "foretoken:gpu_busy_seconds_total %g\n", c->device_s);
    head(out, "foretoken:gpu_idle_ratio", "gauge",
         "Share of that time in which the GPU waited for the CPU; 0 without a GPU.");
    ft_buf_printf(out, "foretoken:gpu_idle_ratio %g\n",
                  c->device_s > 0 && c->run_s > c->device_s ? 1 - c->device_s / c->run_s : 0);
    head(out, "foretoken:cancelled_total", "counter",
         "Responses cancelled because the client disconnected.");
    ft_buf_printf(out, "foretoken:cancelled_total %llu\n", (unsigned long long)c->cancelled);
}

/* Step durations, counted by the engine. */
static void steps(const ft_llm_stats *c, ft_buf *out)
{
    const char *name = "foretoken:step_seconds";
    uint64_t sum = 0;
    head(out, name, "histogram", "Duration of an engine step.");
    for (int i = 0; i < FT_STEP_BUCKETS; i++) {
        sum += c->step_at[i];
        ft_buf_printf(out, "%s_bucket{le=\"%.9g\"} %llu\n", name, (double)(1 << i) / 4096,
                      (unsigned long long)sum);
    }
    sum += c->step_at[FT_STEP_BUCKETS];
    ft_buf_printf(out, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum %.9g\n%s_count %llu\n", name,
                  (unsigned long long)sum, name, c->step_s, name, (unsigned long long)sum);
}

void ft_metrics_write(ft_metrics *m, const ft_llm_stats *c, ft_buf *out)
{
    pthread_mutex_lock(&m->lock);
    if (c) {
        tokens(m, c, out);
        metric(out, "requests_processing", "gauge", "Requests being processed.", c->busy);
        metric(out, "requests_deferred", "gauge", "Requests waiting for a slot.", c->waiting);
        metric(out, "n_busy_slots_per_decode", "gauge",
               "Mean number of busy slots per decode step.",
               rate((double)c->decode_steps, (double)c->steps));
        drafts(m, c, out);
        cache(c, out);
        steps(c, out);
    }
    histogram(out, "foretoken:time_to_first_token_seconds", "From the request to its first token.",
              &m->first_token);
    histogram(out, "foretoken:inter_token_seconds", "Mean time between two tokens of a response.",
              &m->between_tokens);
    head(out, "foretoken:http_requests_total", "counter", "Requests answered.");
    for (int i = 0; i < m->n_request; i++)
        ft_buf_printf(out, "foretoken:http_requests_total{route=\"%s\",code=\"%d\"} %llu\n",
                      m->request[i].route, m->request[i].code, (unsigned long long)m->request[i].n);
    pthread_mutex_unlock(&m->lock);
}
