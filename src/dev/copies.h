/* dev/copies.h - a list of copies between host and device memory that are made together. Thousands
 * of pages, each copied on its own, are limited by the latency of a copy. */
#ifndef FT_DEV_COPIES_H
#define FT_DEV_COPIES_H

#include "dev/dev.h"

typedef struct ft_copies {
    ft_dev *dev;
    bool in; /* into the device */
    ft_copy *list;
    size_t n, room;
} ft_copies;

void ft_copies_add(ft_copies *c, void *host, void *device, size_t bytes);
/* Makes all copies and empties the list. */
void ft_copies_run(ft_copies *c);
/* The same out of the device, in the background where the device can: host memory must stay, and
 * must not be read, until ft_copying_wait has returned. */
void ft_copies_save(ft_copies *c, ft_copying *copying);

/* Returns when nothing is pending: false if a copy failed, now or earlier. Any thread may call it,
 * and the other two, by which a device counts its copies. */
bool ft_copying_wait(ft_copying *c);
void ft_copying_begin(ft_copying *c);
void ft_copying_end(ft_copying *c, bool ok);

#endif
