/* dev/remote.h - the device of another rank, or of another thread, as a device of this one. Calls
 * are written into a stream of commands that the other rank carries out in order
 * (dev/remote_serve.c); only calls that return something wait for it. Rows go from rank to rank
 * directly. Weights are not sent: the other rank maps the same file, which is checked, and takes
 * the tensor from there.
 *
 * A rank that has ended or failed is reported by sync; calls after that do nothing. */
#ifndef FT_DEV_REMOTE_H
#define FT_DEV_REMOTE_H

#include "dev/dev.h"
#include "dev/link.h"

/* Opens the device of a rank; one at a time per rank. */
ft_status ft_dev_remote(ft_dev **out, int rank, ft_err *err);
/* A device of this process that a thread of its own drives: its steps run while the calling thread
 * goes on. Takes ownership of the device. */
ft_status ft_dev_thread(ft_dev **out, ft_dev *own, ft_err *err);
bool ft_dev_is_thread(const ft_dev *d);

/* Carries out the commands of rank 0 until it ends. device: what ft_dev_open opens; or the device
 * itself. own: the file that this rank uses in place of the one that rank 0 has. */
typedef struct ft_remote_params {
    const char *device;
    int threads;
    const char *own;
    ft_dev *dev;
    bool direct; /* rows are sent from device memory, also where MPI does not say that it can */
} ft_remote_params;
ft_status ft_remote_serve(const ft_remote_params *p, ft_err *err);
/* On rank 0: tells the other ranks to end. And which file is theirs to replace (NULL: none). */
void ft_remote_end(void);
void ft_remote_model(const char *path);

#endif
