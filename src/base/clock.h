/* base/clock.h - monotonic time. */
#ifndef FT_BASE_CLOCK_H
#define FT_BASE_CLOCK_H

#include <stdint.h>

int64_t ft_now_ns(void);

static inline double ft_now_s(void)
{
    return (double)ft_now_ns() * 1e-9;
}

#endif
