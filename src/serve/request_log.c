/* serve/request_log.c - the log line of a request, as text or as a JSON object. */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/log.h"
#include "serve/server.h"

#include <stdlib.h>
#include <time.h>

static void write_time(char out[32])
{
    struct timespec now;
    struct tm t;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &t);
    const size_t n = strftime(out, 32, "%Y-%m-%dT%H:%M:%S", &t);
    snprintf(out + n, 32 - n, ".%03ldZ", now.tv_nsec / 1000000);
}

static void log_json(const ft_call *c, const char *time, double ms)
{
    json_t *j = json_pack("{s:s, s:s, s:s, s:s, s:i, s:f}", "time", time, "id", c->id, "method",
                          c->method, "path", c->path, "status", c->status, "ms", ms);
    if (c->usage.set) {
        json_t *u =
            json_pack("{s:i, s:i, s:i, s:f, s:f, s:f, s:s}", "prompt_tokens", c->usage.prompt,
                      "cached_tokens", c->usage.cached, "output_tokens", c->usage.output,
                      "first_token_ms", c->usage.first_ms, "tokens_per_second", c->usage.per_second,
                      "tokens_per_step", c->usage.per_step, "finish_reason", c->usage.reason);
        json_object_update(j, u);
        json_decref(u);
    }
    if (atomic_load(&c->gone)) json_object_set_new(j, "disconnected", json_true());
    char *text = json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(6));
    if (text) ft_log(FT_LOG_INFO, "%s", text);
    free(text);
    json_decref(j);
}

void ft_request_log(const ft_call *c, double s)
{
    char time[32], usage[200] = "";
    write_time(time);
    if (c->s->p.log_json) {
        log_json(c, time, s * 1e3);
        return;
    }
    if (c->usage.set)
        snprintf(usage, sizeof usage,
                 ", prompt %d cached %d output %d, first token %.1f ms, %.1f tokens/s, %.2f tokens "
                 "per step, %s",
                 c->usage.prompt, c->usage.cached, c->usage.output, c->usage.first_ms,
                 c->usage.per_second, c->usage.per_step, c->usage.reason);
    ft_log(FT_LOG_INFO, "%s %s %s %d %.1f ms%s%s %s", time, c->method, c->path, c->status, s * 1e3,
           usage, atomic_load(&c->gone) ? " (client disconnected)" : "", c->id);
}
