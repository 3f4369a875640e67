/* dev/link.h - messages between the processes (ranks) of an MPI job. Rank 0 runs the engine, the
 * others compute for it (dev/remote.h). Messages of one sender arrive in order. Any thread may
 * call these functions, one at a time per rank and tag.
 *
 * Besides MPI, every rank has a TCP connection to rank 0 on which nothing is sent: it ends when a
 * process ends, so that no rank waits for one that is gone. In builds without MPI=1 there is one
 * rank, besides threads of this process (dev/link_local.h). */
#ifndef FT_DEV_LINK_H
#define FT_DEV_LINK_H

#include "base/err.h"

/* What a rank says about itself when the job starts. */
typedef struct ft_rank_info {
    char host[64];
    char version[96];
    int32_t pid;
    int32_t local_rank, local_size; /* among the ranks of its machine */
} ft_rank_info;

/* What the ranks send to rank 0 when the job starts. */
enum { FT_RANK_MAGIC = 0x01020304 }; /* reads differently in the other byte order */
typedef struct ft_rank_hello {
    uint32_t magic;
    ft_rank_info info;
} ft_rank_hello;
/* Whether all n ranks fit together; if not, `why` names the first that does not. */
bool ft_ranks_alike(const ft_rank_hello *all, int n, char *why, size_t cap);

enum { FT_LINK_COMMAND = 1, FT_LINK_REPLY, FT_LINK_ROWS, FT_LINK_ACK }; /* tags */

/* Joins the job if the program was started by mpirun. Fails, on rank 0 with a message that names
 * the rank, if ranks differ in version or byte order. */
ft_status ft_link_open(const char *version, ft_err *err);
/* Ends the job's messages. On rank 0 the others must have been told to end. */
void ft_link_close(void);
int ft_link_rank(void);
int ft_link_size(void);
const ft_rank_info *ft_link_info(int rank); /* on rank 0 of all ranks, else of this rank */

uint64_t ft_link_bytes(void); /* of all messages between processes so far, sent and received */

/* Copies the bytes and returns. */
void ft_link_send(int to, int tag, const void *p, size_t n);
/* Whether messages can be sent from device memory and received there (a CUDA-aware MPI). Sends from
 * it, without a copy; returns when it may change again. Of fewer than FT_LINK_PIECE bytes. */
#define FT_LINK_PIECE ((size_t)256 << 20)
bool ft_link_direct(void);
ft_status ft_link_send_direct(int to, int tag, const void *p, size_t n, ft_err *err);
/* Waits for the next message and its bytes: n of them if n is given, else as many as it has, in
 * *out (ft_free), with their number in *got. Fails when the sender has ended. */
ft_status ft_link_recv(int from, int tag, void *p, size_t n, ft_err *err);
ft_status ft_link_take(int from, int tag, void **out, size_t *got, ft_err *err);

#endif
