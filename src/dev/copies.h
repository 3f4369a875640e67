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

#endif
