/* serve/server.c - small functions shared by the files of the server. */
#define _GNU_SOURCE
#include "serve/server.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"

#include <malloc.h>
#include <stdio.h>
#include <sys/random.h>
#include <time.h>

void ft_serve_defaults(ft_serve_params *p)
{
    *p = (ft_serve_params){
        .host = "127.0.0.1",
        .port = 8080,
        .cors_origins = "",
        .cors_methods = "GET, POST, DELETE, OPTIONS",
        .cors_headers = "*",
        .connections = 1024,
        .queue = 256,
        .timeout_s = 3600,
        .ping_s = 30,
        .header_s = 10,
        .body_s = 60,
        .write_s = 30,
        .drain_s = 10,
        .body_max = (size_t)32 << 20,
        .body_memory = (size_t)1 << 30,
        .slots = true,
        .log_requests = true,
        .thinking = "auto",
        .reasoning_format = "auto",
        .reasoning_budget = -1,
        .cache_prompt = true,
        .seed = -1,
        .pooling = -1,
        .embd_normalize = 2,
    };
}

const char *ft_server_address(const ft_server *s)
{
    return s->address;
}

int ft_server_port(const ft_server *s)
{
    return s->port;
}

int ft_server_busy(ft_server *s)
{
    return atomic_load(&s->metrics.active);
}

void ft_random_id(char *out, const char *prefix, int n)
{
    static const char letter[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    static atomic_ullong counter;
    out = stpcpy(out, prefix);
    uint8_t r[64];
    if (getrandom(r, sizeof r, 0) !=
        (ssize_t)sizeof r) { /* cannot happen once the system has booted */
        ft_rng g = {(uint64_t)ft_now_ns() ^ atomic_fetch_add(&counter, 1)};
        for (size_t i = 0; i < sizeof r; i++) r[i] = (uint8_t)ft_rng_u64(&g);
    }
    for (int i = 0; i < n; i++) *out++ = letter[r[i % 64] % (sizeof letter - 1)];
    *out = 0;
}

void ft_server_trim(ft_server *s)
{
    if (atomic_exchange(&s->trim_due, false)) malloc_trim(0);
}

uint64_t ft_call_salt(const ft_call *c)
{
    return c->s->p.cache_shared ? 0 : c->key;
}

bool ft_call_may_change(ft_call *c, const char *what)
{
    ft_http_error error;
    if (!ft_call_salt(c)) return true;
    ft_http_error_set(&error, FT_ERR_FORBIDDEN, NULL,
                      "%s those of all keys; with several keys, changing them requires "
                      "--cache-shared",
                      what);
    ft_call_fail(c, &error);
    return false;
}

ft_status ft_server_reload(ft_server *s, ft_err *err)
{
    return ft_auth_reload(&s->auth, err);
}

int64_t ft_unix_time(void)
{
    return (int64_t)time(NULL);
}
