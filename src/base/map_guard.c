/* base/map_guard.c - mapped files that change under a running program.
 *
 * Reading behind the new end of a file that was cut off raises SIGBUS, which ends the process. With
 * ft_map_guard the missing pages read as zeros instead and ft_map_broken says what happened, so
 * that a server can answer with errors and stop in order. */
#define _GNU_SOURCE
#include "base/file.h"

#include "base/mem.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FREE, TAKEN, SHOWN };

/* Static, because a signal handler reads it. A map that finds no place is not guarded. */
static struct {
    atomic_int state;
    uintptr_t at;
    size_t bytes;
    uint64_t dev, inode;
    struct timespec changed;
    char path[1024];
} guarded[64];

static atomic_int broken; /* 0, or 1 + the index of the first that was */

void ft_map_watch(const ft_map *m, const char *path, const struct stat *st)
{
    const size_t n = strlen(path) + 1;
    for (size_t i = 0; n <= sizeof guarded[0].path && i < FT_COUNT(guarded); i++) {
        int was = FREE;
        if (!atomic_compare_exchange_strong(&guarded[i].state, &was, TAKEN)) continue;
        guarded[i].at = (uintptr_t)m->data;
        guarded[i].bytes = m->bytes;
        guarded[i].dev = m->dev;
        guarded[i].inode = m->inode;
        guarded[i].changed = st->st_mtim;
        memcpy(guarded[i].path, path, n);
        atomic_store(&guarded[i].state, SHOWN);
        return;
    }
}

void ft_map_unwatch(const ft_map *m)
{
    for (size_t i = 0; i < FT_COUNT(guarded); i++)
        if (atomic_load(&guarded[i].state) == SHOWN && guarded[i].at == (uintptr_t)m->data)
            atomic_store(&guarded[i].state, FREE);
}

bool ft_map_find(const void *p, ft_mapped *out)
{
    for (size_t i = 0; i < FT_COUNT(guarded); i++) {
        if (atomic_load(&guarded[i].state) != SHOWN || (uintptr_t)p < guarded[i].at ||
            (uintptr_t)p - guarded[i].at >= guarded[i].bytes)
            continue;
        *out = (ft_mapped){guarded[i].path, (const unsigned char *)guarded[i].at, guarded[i].bytes};
        return true;
    }
    return false;
}

static void break_at(size_t i)
{
    int was = 0;
    atomic_compare_exchange_strong(&broken, &was, (int)i + 1);
}

/* Zeros from the page that is missing to the end of the map: behind a cut nothing is left. */
static void on_bus(int sig, siginfo_t *info, void *context)
{
    const uintptr_t at = (uintptr_t)info->si_addr, page = (uintptr_t)sysconf(_SC_PAGESIZE);
    (void)context;
    for (size_t i = 0; i < FT_COUNT(guarded); i++) {
        if (atomic_load(&guarded[i].state) != SHOWN || at < guarded[i].at ||
            at - guarded[i].at >= guarded[i].bytes)
            continue;
        const uintptr_t from = at / page * page, end = guarded[i].at + guarded[i].bytes;
        void *p = mmap((void *)from, end - from, PROT_READ,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) break;
        break_at(i);
        return;
    }
    signal(sig, SIG_DFL); /* not ours: it happens again, and ends the process */
}

void ft_map_guard(void)
{
    struct sigaction sa = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigemptyset(&sa.sa_mask);
    sigaction(SIGBUS, &sa, NULL);
}

void ft_map_check(void)
{
    struct stat st;
    for (size_t i = 0; i < FT_COUNT(guarded); i++) {
        if (atomic_load(&guarded[i].state) != SHOWN || stat(guarded[i].path, &st)) continue;
        /* another file of that name is no trouble: ours lives on without it */
        if (st.st_dev != guarded[i].dev || st.st_ino != guarded[i].inode) continue;
        if ((size_t)st.st_size != guarded[i].bytes ||
            st.st_mtim.tv_sec != guarded[i].changed.tv_sec ||
            st.st_mtim.tv_nsec != guarded[i].changed.tv_nsec)
            break_at(i);
    }
}

const char *ft_map_broken(void)
{
    const int i = atomic_load(&broken);
    return i ? guarded[i - 1].path : NULL;
}
