#define _GNU_SOURCE
#include "dev/link.h"

#include "base/mem.h"
#include "dev/link_local.h"

#include <stdio.h>
#include <string.h>

bool ft_ranks_alike(const ft_rank_hello *all, int n, char *why, size_t cap)
{
    for (int i = 1; i < n; i++) {
        const ft_rank_info *first = &all[0].info, *own = &all[i].info;
        if (all[i].magic != FT_RANK_MAGIC) {
            snprintf(why, cap, "rank %d has another byte order than rank 0", i);
            return false;
        }
        if (strncmp(own->version, first->version, sizeof own->version)) {
            snprintf(why, cap, "rank %d (%.63s) is foretoken %.95s, rank 0 is %.95s", i, own->host,
                     own->version, first->version);
            return false;
        }
    }
    return true;
}

static const ft_rank_info alone = {.local_size = 1};

/* As ft_link_recv, from a thread of this process. */
static ft_status recv_local(int from, int tag, void *p, size_t n, ft_err *err)
{
    size_t got = 0;
    void *bytes = ft_local_take(from, tag, &got);
    if (got == n && n) memcpy(p, bytes, n);
    ft_free(bytes);
    return got == n ? FT_OK : ft_fail(err, FT_EFORMAT, "%zu bytes from a thread, want %zu", got, n);
}

#ifndef FT_HAVE_MPI

ft_status ft_link_open(const char *version, ft_err *err)
{
    (void)version, (void)err;
    return FT_OK;
}

void ft_link_close(void)
{
}

int ft_link_rank(void)
{
    return ft_local_self();
}

int ft_link_size(void)
{
    return 1;
}

const ft_rank_info *ft_link_info(int rank)
{
    (void)rank;
    return &alone;
}

uint64_t ft_link_bytes(void)
{
    return 0;
}

void ft_link_send(int to, int tag, const void *p, size_t n)
{
    if (ft_local_has(to)) ft_local_send(to, tag, p, n);
}

bool ft_link_direct(void)
{
    return false;
}

ft_status ft_link_send_direct(int to, int tag, const void *p, size_t n, ft_err *err)
{
    (void)err;
    ft_link_send(to, tag, p, n);
    return FT_OK;
}

ft_status ft_link_recv(int from, int tag, void *p, size_t n, ft_err *err)
{
    if (ft_local_has(from)) return recv_local(from, tag, p, n, err);
    return ft_fail(err, FT_EUNSUPPORTED, "no rank %d: this build has no MPI", from);
}

ft_status ft_link_take(int from, int tag, void **out, size_t *got, ft_err *err)
{
    if (!ft_local_has(from)) return ft_link_recv(from, tag, NULL, 0, err);
    *out = ft_local_take(from, tag, got);
    return FT_OK;
}

#else

#include "base/clock.h"

#include <assert.h>
#include <errno.h>
#include <mpi.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    PIECE = FT_LINK_PIECE,       /* of a message: MPI counts in int */
    SPIN_NS = 50 * 1000,         /* waiting without sleeping */
    CHECK_NS = 20 * 1000 * 1000, /* between looks at the connections */
    JOIN_MS = 20 * 1000,
};

/* A message on its way: its bytes stay until MPI has sent them. */
typedef struct parcel {
    struct parcel *next;
    MPI_Request request;
    unsigned char bytes[];
} parcel;

static struct {
    bool open;
    int rank, size;
    ft_rank_info *info;
    int *line; /* [size] the connections: of rank 0 to all, of the others to rank 0; -1: none */
    pthread_mutex_t lock; /* around every MPI call */
    pthread_cond_t more;
    pthread_t pump;
    parcel *sent;
    uint64_t bytes;
    bool end;
} job = {.size = 1, .lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

int ft_link_rank(void)
{
    return ft_local_self() ? ft_local_self() : job.rank;
}

int ft_link_size(void)
{
    return job.size;
}

const ft_rank_info *ft_link_info(int rank)
{
    return job.info && !ft_local_has(rank) ? &job.info[rank] : &alone;
}

/* ---- connections ---- */

/* The end of the connection: the process has ended. */
static bool is_gone(int rank)
{
    char byte;
    const int fd = job.line ? job.line[job.rank ? 0 : rank] : -1;
    if (fd < 0) return false;
    const ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

static int gone_rank(void)
{
    for (int i = 0; i < job.size; i++)
        if (i != job.rank && is_gone(i)) return i;
    return -1;
}

static void keep_alive(int fd)
{
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

static int listen_on(int *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    socklen_t n = sizeof a;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    a.sin_addr.s_addr = htonl(INADDR_ANY);
    if (fd >= 0 && !bind(fd, (struct sockaddr *)&a, n) && !listen(fd, job.size) &&
        !getsockname(fd, (struct sockaddr *)&a, &n)) {
        *port = ntohs(a.sin_port);
        return fd;
    }
    if (fd >= 0) close(fd);
    return -1;
}

static void accept_ranks(int fd)
{
    const int64_t until = ft_now_ns() + (int64_t)JOIN_MS * 1000000;
    for (int n = 1; n < job.size;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        const int64_t left = (until - ft_now_ns()) / 1000000;
        if (left <= 0 || poll(&p, 1, (int)left) <= 0) return;
        const int c = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
        int32_t rank = -1;
        if (c < 0) continue;
        if (recv(c, &rank, sizeof rank, MSG_WAITALL) != sizeof rank || rank < 1 ||
            rank >= job.size || job.line[rank] >= 0) {
            close(c); /* a stranger */
            continue;
        }
        keep_alive(c);
        job.line[rank] = c;
        n++;
    }
}

static void connect_to(const char *host, int port)
{
    char service[16];
    const int32_t rank = job.rank;
    const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    snprintf(service, sizeof service, "%d", port);
    if (getaddrinfo(host, service, &hints, &list)) return;
    for (const struct addrinfo *a = list; a && job.line[0] < 0; a = a->ai_next) {
        const int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, 0);
        if (fd < 0) continue;
        if (!connect(fd, a->ai_addr, a->ai_addrlen) &&
            send(fd, &rank, sizeof rank, MSG_NOSIGNAL) == sizeof rank) {
            keep_alive(fd);
            job.line[0] = fd;
        } else {
            close(fd);
        }
    }
    freeaddrinfo(list);
}

/* Without a connection (a firewall) the end of a rank is noticed by mpirun only. */
static void join_lines(void)
{
    int port = 0, fd = -1;
    job.line = ft_new_n(int, (size_t)job.size);
    for (int i = 0; i < job.size; i++) job.line[i] = -1;
    if (!job.rank) fd = listen_on(&port);
    MPI_Bcast(&port, 1, MPI_INT, 0, MPI_COMM_WORLD);
    char host[sizeof job.info->host];
    memcpy(host, job.info[0].host, sizeof host);
    MPI_Bcast(host, sizeof host, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (!port) return;
    if (job.rank)
        connect_to(strcmp(host, job.info[job.rank].host) ? host : "127.0.0.1", port);
    else
        accept_ranks(fd);
    if (fd >= 0) close(fd);
}

/* ---- start and end ---- */

static bool started_by_mpirun(void)
{
    static const char *const sign[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"};
    for (size_t i = 0; i < FT_COUNT(sign); i++)
        if (getenv(sign[i])) return true;
    return false;
}

/* Sends wait for their receivers; a thread sees to it that MPI goes on with them meanwhile. */
static void *pump(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&job.lock);
    while (!job.end) {
        for (parcel **p = &job.sent; *p;) {
            parcel *const at = *p;
            int done = 0;
            MPI_Test(&at->request, &done, MPI_STATUS_IGNORE);
            if (done) {
                *p = at->next;
                ft_free(at);
            } else {
                p = &at->next;
            }
        }
        if (!job.sent) {
            pthread_cond_wait(&job.more, &job.lock);
            continue;
        }
        pthread_mutex_unlock(&job.lock);
        usleep(100);
        pthread_mutex_lock(&job.lock);
    }
    pthread_mutex_unlock(&job.lock);
    return NULL;
}

/* Rank 0 compares; all ranks learn the result. */
static ft_status compare_ranks(const char *version, ft_err *err)
{
    ft_rank_hello own = {.magic = FT_RANK_MAGIC}, *all = ft_new_n(ft_rank_hello, (size_t)job.size);
    char why[300] = "";
    MPI_Comm here;
    snprintf(own.info.version, sizeof own.info.version, "%s", version);
    gethostname(own.info.host, sizeof own.info.host - 1);
    own.info.pid = getpid();
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
    MPI_Comm_rank(here, &own.info.local_rank);
    MPI_Comm_size(here, &own.info.local_size);
    MPI_Comm_free(&here);
    MPI_Gather(&own, sizeof own, MPI_BYTE, all, sizeof own, MPI_BYTE, 0, MPI_COMM_WORLD);
    job.info = ft_new_n(ft_rank_info, (size_t)job.size);
    for (int i = 0; i < job.size; i++) job.info[i] = all[i].info;
    job.info[job.rank] = own.info;
    if (!job.rank) ft_ranks_alike(all, job.size, why, sizeof why);
    ft_free(all);
    MPI_Bcast(why, sizeof why, MPI_CHAR, 0, MPI_COMM_WORLD);
    return *why ? ft_fail(err, FT_EUNSUPPORTED, "%s", why) : FT_OK;
}

/* Open MPI may read the memory of another process of this machine, which the sandbox of the server
 * does not allow: the read fails, and the message has wrong bytes. */
static void avoid_single_copies(void)
{
    setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
    setenv("OMPI_MCA_btl_sm_single_copy_mechanism", "none", 0);
    setenv("OMPI_MCA_smsc", "^cma,knem,xpmem", 0);
}

ft_status ft_link_open(const char *version, ft_err *err)
{
    int level;
    if (job.open || !started_by_mpirun()) return FT_OK;
    avoid_single_copies();
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS ||
        level < MPI_THREAD_SERIALIZED)
        return ft_fail(err, FT_EUNSUPPORTED, "this MPI cannot be used by several threads");
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    job.open = true;
    if (job.size == 1) return FT_OK;
    const ft_status st = compare_ranks(version, err);
    if (st) return st;
    join_lines();
    if (pthread_create(&job.pump, NULL, pump, NULL))
        return ft_fail(err, FT_ENOMEM, "no thread for the messages between ranks");
    return FT_OK;
}

void ft_link_close(void)
{
    if (!job.open) return;
    job.open = false;
    const bool broken = job.line && gone_rank() >= 0;
    /* MPI would wait for a rank that is gone. */
    if (broken) return;
    for (int64_t until = ft_now_ns() + 5000000000; job.line && ft_now_ns() < until; usleep(1000)) {
        pthread_mutex_lock(&job.lock);
        const bool done = !job.sent;
        pthread_mutex_unlock(&job.lock);
        if (done) break;
    }
    if (job.line) {
        pthread_mutex_lock(&job.lock);
        job.end = true;
        pthread_cond_signal(&job.more);
        pthread_mutex_unlock(&job.lock);
        pthread_join(job.pump, NULL);
    }
    MPI_Finalize();
    for (int i = 0; job.line && i < job.size; i++)
        if (job.line[i] >= 0) close(job.line[i]);
    ft_free(job.line);
    ft_free(job.info);
    job.line = NULL;
    job.info = NULL;
}

/* ---- messages ---- */

uint64_t ft_link_bytes(void)
{
    pthread_mutex_lock(&job.lock);
    const uint64_t n = job.bytes;
    pthread_mutex_unlock(&job.lock);
    return n;
}

static void send_piece(int to, int tag, const void *p, size_t n)
{
    parcel *at = ft_realloc(NULL, sizeof *at + n);
    memcpy(at->bytes, p, n);
    pthread_mutex_lock(&job.lock);
    MPI_Isend(at->bytes, (int)n, MPI_BYTE, to, tag, MPI_COMM_WORLD, &at->request);
    at->next = job.sent;
    job.sent = at;
    job.bytes += n;
    pthread_cond_signal(&job.more);
    pthread_mutex_unlock(&job.lock);
}

/* A message ends with the first piece that is not full. */
void ft_link_send(int to, int tag, const void *p, size_t n)
{
    const unsigned char *at = p;
    if (ft_local_has(to)) {
        ft_local_send(to, tag, p, n);
        return;
    }
    if (is_gone(to)) return; /* who receives from it will notice */
    for (; n >= PIECE; n -= PIECE, at += PIECE) send_piece(to, tag, at, PIECE);
    send_piece(to, tag, at, n);
}

bool ft_link_direct(void)
{
#if defined(MPIX_CUDA_AWARE_SUPPORT) && MPIX_CUDA_AWARE_SUPPORT
    return MPIX_Query_cuda_support() == 1;
#else
    return false;
#endif
}

/* This thread drives the message: the other ones do not use the device. */
ft_status ft_link_send_direct(int to, int tag, const void *p, size_t n, ft_err *err)
{
    MPI_Request r;
    int64_t look = ft_now_ns() + CHECK_NS;
    int done = 0;
    assert(n < PIECE && !ft_local_has(to));
    pthread_mutex_lock(&job.lock);
    MPI_Isend(p, (int)n, MPI_BYTE, to, tag, MPI_COMM_WORLD, &r);
    job.bytes += n;
    while (!done) {
        MPI_Test(&r, &done, MPI_STATUS_IGNORE);
        pthread_mutex_unlock(&job.lock);
        if (!done) sched_yield();
        if (!done && ft_now_ns() > look) {
            look = ft_now_ns() + CHECK_NS;
            if (gone_rank() >= 0)
                return ft_fail(err, FT_EIO, "a rank has ended: the model cannot be computed");
        }
        pthread_mutex_lock(&job.lock);
    }
    pthread_mutex_unlock(&job.lock);
    return FT_OK;
}

static bool find_message(int from, int tag, MPI_Message *m, int *bytes)
{
    MPI_Status st;
    int found = 0;
    pthread_mutex_lock(&job.lock);
    MPI_Improbe(from, tag, MPI_COMM_WORLD, &found, m, &st);
    if (found) MPI_Get_count(&st, MPI_BYTE, bytes);
    pthread_mutex_unlock(&job.lock);
    return found;
}

/* Spins at first: a step takes milliseconds, and a sleep may take as long. */
static ft_status wait_message(int from, int tag, MPI_Message *m, int *bytes, ft_err *err)
{
    const int64_t start = ft_now_ns();
    int64_t look = start + CHECK_NS;
    while (!find_message(from, tag, m, bytes)) {
        const int64_t now = ft_now_ns();
        if (now - start < SPIN_NS)
            sched_yield();
        else
            usleep(now - start < 1000000000 ? 30 : 500);
        if (now < look) continue;
        look = now + CHECK_NS;
        const int gone = gone_rank();
        if (gone >= 0 && !find_message(from, tag, m, bytes))
            return ft_fail(err, FT_EIO, "rank %d (%s) has ended: the model cannot be computed",
                           gone, job.rank ? "the first" : job.info[gone].host);
        if (gone >= 0) return FT_OK;
    }
    return FT_OK;
}

/* MPI_Mrecv would hold the lock until the sender has sent all of it, and the sender may need this
 * process to go on. */
static void receive(MPI_Message *m, void *p, int n)
{
    MPI_Request r;
    int done = 0;
    pthread_mutex_lock(&job.lock);
    MPI_Imrecv(p, n, MPI_BYTE, m, &r);
    job.bytes += (uint64_t)n;
    MPI_Test(&r, &done, MPI_STATUS_IGNORE);
    pthread_mutex_unlock(&job.lock);
    while (!done) {
        sched_yield();
        pthread_mutex_lock(&job.lock);
        MPI_Test(&r, &done, MPI_STATUS_IGNORE);
        pthread_mutex_unlock(&job.lock);
    }
}

ft_status ft_link_recv(int from, int tag, void *p, size_t n, ft_err *err)
{
    unsigned char *at = p;
    if (ft_local_has(from)) return recv_local(from, tag, p, n, err);
    for (;;) {
        const size_t want = n >= PIECE ? PIECE : n;
        MPI_Message m;
        int got = 0;
        const ft_status st = wait_message(from, tag, &m, &got, err);
        if (st) return st;
        if ((size_t)got != want)
            return ft_fail(err, FT_EFORMAT, "%d bytes from rank %d, want %zu", got, from, want);
        receive(&m, at, got);
        if (n < PIECE) return FT_OK;
        n -= PIECE;
        at += PIECE;
    }
}

ft_status ft_link_take(int from, int tag, void **out, size_t *got, ft_err *err)
{
    unsigned char *all = NULL;
    size_t n = 0;
    if (ft_local_has(from)) {
        *out = ft_local_take(from, tag, got);
        return FT_OK;
    }
    for (int bytes = PIECE; bytes == PIECE;) {
        MPI_Message m;
        const ft_status st = wait_message(from, tag, &m, &bytes, err);
        if (st) {
            ft_free(all);
            return st;
        }
        all = ft_realloc(all, n + (size_t)bytes + 1);
        receive(&m, all + n, bytes);
        n += (size_t)bytes;
    }
    *out = all;
    *got = n;
    return FT_OK;
}

#endif
