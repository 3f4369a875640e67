/* dev/batch.h - which rows a step computes, for whom, and what each may see. Filled on the host,
 * uploaded once per step; ops read it on the device, so a captured step serves the next one too.
 *
 * The rows of one sequence are adjacent and in order: a span. A row's cell is its index in the
 * sequence's cache; for text it equals the position. */
#ifndef FT_DEV_BATCH_H
#define FT_DEV_BATCH_H

#include "dev/draw.h"

#include <stdbool.h>

enum {
    FT_PAGE_ROWS = 64,   /* cells of a page */
    FT_DECODE_ROWS = 16, /* up to this many rows of a span, delta nets run row by row */
    FT_CHUNK_ROWS = 64,  /* longer spans run in chunks that end at multiples of this position */
};

typedef struct ft_span {
    int32_t slot;      /* the sequence: index of its page tables and states */
    int32_t row, n;    /* its rows are [row, row + n) */
    int32_t past;      /* cell of the first row */
    int32_t replay;    /* journal rows that were accepted since the state was stored */
    int32_t plane;     /* 0 or 1: the journal half that holds them; new rows go to the other */
    int32_t tentative; /* 1: journal the rows and leave the state; 0: store the state after them */
} ft_span;

typedef struct ft_batch {
    int T, S;               /* rows, spans */
    int n_out;              /* rows whose result is wanted */
    int max_past;           /* longest visible past of any row, for sizing scratch */
    const int32_t *token;   /* [T]; below 0: drawn[-1 - token] */
    const int32_t *drawn;   /* on the device: ids that a step before this one left; or NULL */
    const int32_t *pos[3];  /* [T] each: time, height, width; equal for text */
    const int32_t *cell;    /* [T] where a row's keys and values go */
    const int32_t *end;     /* [T] the row sees cells below this; in a span the same, or one more
                               with each row */
    const int32_t *span_of; /* [T] index into span */
    const int32_t *out_row; /* [n_out] */
    const int32_t *src_row; /* [T] row of another buffer that a gather takes */
    const int32_t *dst_row; /* [T] row of another buffer that a scatter fills, -1 for none */
    const int32_t
        *image_row;         /* [T] row of the step's image rows, -1 for text; NULL: all are text */
    const int32_t *ahead;   /* [T] as end, but all rows of an image see its last one; NULL: none */
    const ft_span *span;    /* [S] */
    const int32_t *page[2]; /* page tables of both spaces: page[space][slot * pages_per_seq + i] */
    int32_t pages_per_seq, slots;
    bool loose; /* how its rows lie in spans is not worth a shape of its own (dev/shape.h) */
    /* a step of draws has nothing of the above but T */
    const ft_draw *draw;   /* [T] */
    const uint32_t *aside; /* [n_aside]: the draws' masks and edits */
    int32_t n_aside;
    int32_t sampled; /* the most that one of them asks for: ft_draw_kind */
} ft_batch;

/* Ids of the last argmax as tokens of this step; its host has not seen them. One that is none is
 * token 0: whatever follows is not kept. */
static inline int32_t ft_token_drawn(int i)
{
    return -1 - i;
}

static inline int32_t ft_token_of(const ft_batch *b, int t)
{
    const int32_t id = b->token[t] < 0 ? b->drawn[-1 - b->token[t]] : b->token[t];
    return id < 0 ? 0 : id;
}

/* Page spaces: layers that keep everything, and layers that keep a window. */
enum { FT_SPACE_FULL, FT_SPACE_WINDOW };

#endif
