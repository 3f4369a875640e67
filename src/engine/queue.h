/* engine/queue.h - the request queue of the engine thread.
 * Other threads add, inspect and cancel entries. The engine thread assigns slots in the order of
 * arrival, runs steps while any slot has work, and reports to each entry through its callbacks.
 * Without work it sleeps. All access to a running engine goes through this queue. */
#ifndef FT_ENGINE_QUEUE_H
#define FT_ENGINE_QUEUE_H

#include "engine/engine.h"

#include <stdatomic.h>

typedef struct ft_queue ft_queue;
typedef struct ft_entry ft_entry;

/* A queued or running request. The owner fills the fields up to `done` and must not free the entry
 * before `done` was called. The callbacks run on the engine thread, without locks. */
struct ft_entry {
    ft_task task;
    int wish;        /* requested slot; -1: any */
    uint64_t client; /* client for the limit per client; 0: not limited */
    bool continues;  /* part of a request that was accepted: not rejected if the queue is full */
    /* Whether the response may continue; if not, it is paused until ft_queue_kick. */
    bool (*ready)(ft_entry *e);
    /* After each step that the entry took part in. */
    void (*stepped)(ft_entry *e);
    /* The last callback: finish, stats and error are set. */
    void (*done)(ft_entry *e);

    atomic_bool cancel; /* set by ft_queue_cancel */
    atomic_int slot;    /* -1: waiting */
    atomic_int read;    /* tokens of the prompt in the cache */
    atomic_int cached;  /* tokens of the prompt that were already cached */
    uint64_t id;
    int64_t t_put;

    ft_finish finish;
    bool cancelled;
    char error[500];
    ft_stats stats;
    double wait_s;

    /* used by the queue: list of waiting entries, list of all entries */
    ft_entry *next, *inside_prev, *inside_next;
};

/* What the queue may use. foretoken.h has it as ft_queue_params. */
typedef struct ft_queue_limits {
    int per_client; /* maximum number of requests of one client that run or wait; 0: no limit */
    int waiting;    /* entries that may wait for a slot */
    double step_ms; /* longest step with prompt tokens while others generate; 0: any */
    uint64_t prefix_bytes; /* memory for shared prefixes; 0: none */
    const char *cache_dir; /* folder that keeps them when the program ends; NULL: none */
} ft_queue_limits;

enum { FT_QUEUE_BUCKETS = 16 };

/* Totals since the start and the present state. foretoken.h has it as ft_llm_stats. */
typedef struct ft_queue_totals {
    uint64_t prompt_tokens, cached_tokens, output_tokens, steps, decode_steps, drafted, accepted;
    uint64_t preempted, cancelled, responses;
    double prompt_s, output_s;
    int busy, waiting;
    uint64_t prefix_bytes, prefix_hits, prefix_misses, prefix_entries, prefix_state;
    uint64_t pages, pages_free;
    uint64_t pages_cached;                  /* pages in use that idle slots hold */
    uint64_t step_at[FT_QUEUE_BUCKETS + 1]; /* steps of up to 2^i / 4096 s; the last: longer */
    double step_s;
    double run_s, device_s; /* ft_device_time */
    bool failed; /* the device has failed: no further entry will be run */
} ft_queue_totals;

/* Starts the thread; takes all slots, so none may be taken. */
ft_status ft_queue_new(ft_queue **out, ft_engine *e, const ft_queue_limits *p, ft_err *err);
/* See ft_llm_stop. */
void ft_queue_stop(ft_queue *q, bool drain);
bool ft_queue_stopped(ft_queue *q);
void ft_queue_free(ft_queue *q); /* accepts NULL; stops it first */

/* FT_EBUSY: the queue is full, or its client has its share. FT_ECANCELLED: stopping. */
ft_status ft_queue_put(ft_queue *q, ft_entry *e, ft_err *err);
void ft_queue_cancel(ft_queue *q, ft_entry *e);      /* takes effect within a step */
void ft_queue_kick(ft_queue *q);                     /* an entry may be ready again */
int ft_queue_before(ft_queue *q, const ft_entry *e); /* entries that wait in front of it */

/* Runs fn between two steps on the engine thread, or on this one when that has ended; returns
 * when it is done. */
void ft_queue_call(ft_queue *q, void (*fn)(void *user, ft_queue *q), void *user);
/* For fn. */
int ft_queue_ctx(const ft_queue *q);          /* maximum context length */
ft_slot *ft_queue_slot(ft_queue *q, int i);   /* NULL if there is no slot i */
ft_entry *ft_queue_entry(ft_queue *q, int i); /* the entry that runs in slot i; NULL: idle */

void ft_queue_counts(ft_queue *q, ft_queue_totals *out);

#endif
