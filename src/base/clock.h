/* base/clock.h - monotonic time, and deadlines. */
#ifndef FT_BASE_CLOCK_H
#define FT_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

int64_t ft_now_ns(void);

/* The time of a clock (CLOCK_REALTIME, ...) in ms milliseconds, for functions that wait until then.
 */
struct timespec ft_deadline(int clock, int ms);

static inline double ft_now_s(void)
{
    return (double)ft_now_ns() * 1e-9;
}

#endif
