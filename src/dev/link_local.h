/* dev/link_local.h - messages between threads of this process, as those between ranks (dev/link.h):
 * a thread that computes for the engine thread is a rank with a number from FT_LINK_LOCAL on, and
 * the engine thread is rank 0 to it. */
#ifndef FT_DEV_LINK_LOCAL_H
#define FT_DEV_LINK_LOCAL_H

#include "base/err.h"

enum { FT_LINK_LOCAL = 1 << 10, FT_LINK_LOCALS = 256 };

int ft_local_open(void); /* a number, 0: all are taken */
void ft_local_close(int rank);
void ft_local_enter(int rank); /* the calling thread is this rank from now on */
int ft_local_self(void);       /* the rank of the calling thread, 0: it is none of these */

/* Whether a message to or from this rank stays in this process. */
bool ft_local_has(int rank);

/* As ft_link_send and ft_link_take. */
void ft_local_send(int to, int tag, const void *p, size_t n);
void *ft_local_take(int from, int tag, size_t *got);

#endif
