/* dev/batch.h - the rows of a step: their tokens, sequences and attention ranges. Filled on the
 * host and uploaded once per step; ops read it on the device, so that a captured step can be
 * replayed with another batch.
 *
 * The rows of one sequence are adjacent and in order: a span. A row's cell is its position in the
 * sequence's KV cache. For text it equals the RoPE position; the rows of an image differ. */
#ifndef FT_DEV_BATCH_H
#define FT_DEV_BATCH_H

#include "dev/draw.h"

#include <stdbool.h>

enum {
    FT_PAGE_ROWS = 64,   /* positions per page of the KV cache */
    FT_DECODE_ROWS = 16, /* delta nets compute spans of up to this many rows row by row */
    FT_CHUNK_ROWS = 64,  /* and longer spans in chunks that end at multiples of this position */
};

typedef struct ft_span {
    int32_t slot;      /* the sequence: index of its page tables and states */
    int32_t row, n;    /* its rows are [row, row + n) */
    int32_t start;     /* cache position of the first row */
    int32_t replay;    /* accepted journal rows that are not in the stored state yet */
    int32_t plane;     /* 0 or 1: the journal that holds them; new rows go to the other */
    int32_t tentative; /* 1: write the rows to the journal only; 0: store the state after them */
    int32_t serial;    /* so many rows at its beginning are computed row by row by delta nets, as
                        * they are when a response is generated */
} ft_span;

typedef struct ft_batch {
    int T, S;               /* rows, spans */
    int n_out;              /* rows whose logits are computed */
    int max_ctx;            /* largest `end`: sizes scratch */
    const int32_t *token;   /* [T]; below 0: drawn[-1 - token] */
    const int32_t *drawn;   /* on the device: ids computed by an earlier step; or NULL */
    const int32_t *pos[3];  /* [T] each: time, height, width; equal for text */
    const int32_t *cell;    /* [T] cache position where a row's keys and values are stored */
    const int32_t *end;     /* [T] the row sees positions below this; inside a span it is constant
                               or grows by one per row */
    const int32_t *span_of; /* [T] index into span */
    const int32_t *out_row; /* [n_out] */
    const int32_t *src_row; /* [T] row of another buffer that gather reads */
    const int32_t *dst_row; /* [T] row of another buffer that scatter writes, -1: none */
    /* [T] index of a row's image row, -1: text; NULL: all rows are text */
    const int32_t *image_row;
    /* [T] as end, but rows of an image see all of it; NULL: no row does */
    const int32_t *ahead;
    const ft_span *span;    /* [S] */
    const int32_t *page[2]; /* page tables of both spaces: page[space][slot * pages_per_seq + i] */
    int32_t pages_per_seq, slots;
    bool pad_spans; /* the shape does not depend on the lengths of the spans (dev/batch_shape.h) */
    /* In a step with draws only T and these are set. */
    const ft_draw *draw;        /* [T] */
    const uint32_t *draw_words; /* [n_draw_words]: masks and edits of the draws */
    int32_t n_draw_words;
    int32_t sampled; /* largest ft_draw_kind of the draws */
} ft_batch;

/* The token that stands for the i-th id drawn by an earlier step, which the host has not read yet.
 * If no id was drawn (-1), token 0 is used; the results of that row are discarded. */
static inline int32_t ft_token_drawn(int i)
{
    return -1 - i;
}

static inline int32_t ft_token_of(const ft_batch *b, int t)
{
    const int32_t id = b->token[t] < 0 ? b->drawn[-1 - b->token[t]] : b->token[t];
    return id < 0 ? 0 : id;
}

/* Page spaces: for layers that cache the whole context, and for layers with a sliding window. */
enum { FT_SPACE_FULL, FT_SPACE_WINDOW };

#endif
