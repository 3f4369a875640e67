/* dev/remote_wire.h - the commands of dev/remote.h as bytes: an opcode, then its arguments. Both
 * sides are the same version of the program (dev/link.h), so structures are copied as they are.
 * Addresses are those of rank 0, which stand for allocations of the other rank; weights are
 * numbers. */
#ifndef FT_DEV_REMOTE_WIRE_H
#define FT_DEV_REMOTE_WIRE_H

#include "dev/remote.h"

typedef enum ft_remote_op {
    /* without an answer */
    FT_REMOTE_END = 1, /* of the process */
    FT_REMOTE_CLOSE,   /* of the device */
    FT_REMOTE_FREE,    /* address */
    FT_REMOTE_WRITE,   /* address, bytes, the bytes */
    FT_REMOTE_MOVE,    /* to, from, bytes */
    FT_REMOTE_PUSH,    /* rank, address, bytes: sends them to the rank */
    FT_REMOTE_PULL,    /* rank, address, bytes: receives them */
    FT_REMOTE_UNBIND,  /* weight */
    FT_REMOTE_RECORD,  /* a batch; an acknowledgement tells that the step begins */
    FT_REMOTE_COMMIT,
    /* with an answer */
    FT_REMOTE_OPEN,    /* -> ft_remote_facts */
    FT_REMOTE_MODEL,   /* path: the file that the rank may replace */
    FT_REMOTE_FILE,    /* path, bytes, digest */
    FT_REMOTE_ALLOC,   /* address, bytes */
    FT_REMOTE_BIND,    /* weight, ft_weight, file and offset, or the bytes; a thread: the address */
    FT_REMOTE_RESERVE, /* ft_dev_limits */
    FT_REMOTE_READ,    /* address, bytes -> the bytes */
    FT_REMOTE_SYNC,
    FT_REMOTE_WEIGHT_BYTES, /* ft_weight -> uint64_t */
    FT_REMOTE_STEP_BYTES,   /* ft_dev_limits -> uint64_t */
    FT_REMOTE_FREE_BYTES,   /* -> uint64_t */
    /* ops */
    FT_REMOTE_OPS,
    FT_REMOTE_EMBED = FT_REMOTE_OPS,
    FT_REMOTE_RMSNORM,
    FT_REMOTE_LINEAR,
    FT_REMOTE_LINEARS,
    FT_REMOTE_GLU,
    FT_REMOTE_ROPE_ANGLES,
    FT_REMOTE_NORM_ROPE,
    FT_REMOTE_KV_PUT,
    FT_REMOTE_ATTEND,
    FT_REMOTE_ACT_MUL,
    FT_REMOTE_SIGMOID_MUL,
    FT_REMOTE_ADD,
    FT_REMOTE_NORM_ADD,
    FT_REMOTE_SOFTCAP,
    FT_REMOTE_GATHER,
    FT_REMOTE_ARGMAX,
    FT_REMOTE_SCATTER,
    FT_REMOTE_CONV,
    FT_REMOTE_DELTA_RULE,
    FT_REMOTE_GATED_NORM,
    FT_REMOTE_ROUTE,
    FT_REMOTE_MOE,
    FT_REMOTE_EXPERT_LINEAR,
    FT_REMOTE_MOE_SHARED,
    FT_REMOTE_CENTROID_HEAD,
    FT_REMOTE_IMAGE_ROWS,
    FT_REMOTE_MIX,
    /* copies of device memory that stay there */
    FT_REMOTE_KEEP,      /* number, bytes; with an answer */
    FT_REMOTE_KEEP_FREE, /* number */
    FT_REMOTE_KEEP_CUT,  /* number, bytes */
    FT_REMOTE_KEEP_SAVE, /* number, offset, address, bytes */
    FT_REMOTE_KEEP_LOAD, /* number, offset, address, bytes */
    FT_REMOTE_KEEP_READ, /* number, bytes -> the bytes */
} ft_remote_op;

typedef struct ft_remote_facts {
    char name[64];
    int32_t threads;
    int32_t cpu, moe_shared, expert_linear; /* 0 or 1 */
    uint64_t free_bytes;
} ft_remote_facts;

/* The head of every answer; the result follows. */
typedef struct ft_remote_answer {
    int32_t status;
    uint32_t bytes; /* of the result */
    char text[240]; /* the error */
} ft_remote_answer;

/* Arrays of a batch that may be absent. */
enum { FT_REMOTE_HAS_IMAGES = 1, FT_REMOTE_HAS_AHEAD = 2 };

typedef struct ft_remote_batch {
    int32_t T, S, n_out, max_ctx;
    int32_t pages_per_seq, slots;
    int32_t has;
    int32_t pad_spans;
    uint64_t drawn; /* address */
} ft_remote_batch;

/* A weight as an argument: its number, and its outputs, which may be fewer than it has. */
typedef struct ft_remote_weight {
    uint32_t id; /* 0: none */
    int32_t n;
} ft_remote_weight;

/* A hash of the size of a file and of samples of its bytes. */
uint64_t ft_remote_digest(const unsigned char *p, size_t n);

enum { FT_REMOTE_HERE = 1 << 20 }; /* in place of a file: an address of this process */
enum { FT_REMOTE_KEPT = 1 << 20 }; /* numbers of FT_REMOTE_KEEP are below it */
enum { FT_REMOTE_AHEAD = 3 };      /* steps that rank 0 may be ahead of another rank */

#endif
