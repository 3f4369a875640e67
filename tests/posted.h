/* tests/posted.h - waits for a semaphore, but not for ever. */
#ifndef FT_TEST_POSTED_H
#define FT_TEST_POSTED_H

#include <semaphore.h>
#include <stdbool.h>
#include <time.h>

static inline bool posted(sem_t *sem)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += 60;
    return !sem_timedwait(sem, &t);
}

#endif
