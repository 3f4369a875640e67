/* tools/hf.h - a Hugging Face folder, and the plan that turns its tensors into those of a GGUF.
 * A family (one file each: hf_qwen35.c, hf_gemma4.c) reads the config, puts the keys, and lists the
 * tensors that the architecture has, each with its place in the checkpoint, its shape and what is
 * done to it. Every output row is one source row, perhaps from another place; nothing is read here
 * but names and shapes. The first missing or misshapen tensor is remembered (ft_hf_note). */
#ifndef FT_TOOLS_HF_H
#define FT_TOOLS_HF_H

#include "base/dict.h"
#include "base/type.h"
#include "gguf/safetensors.h"
#include "gguf/writer.h"
#include "tools/convert.h"
#include "tools/hf_json.h"

/* ---- what is done to a tensor ---- */

enum {
    FT_HF_PLUS_ONE = 1 << 0,   /* the checkpoint holds w, the model multiplies with 1 + w */
    FT_HF_NEG_EXP = 1 << 1,    /* -exp(x) */
    FT_HF_HEADS = 1 << 2,      /* value heads from grouped to tiled order: rows of S */
    FT_HF_HEADS_TAIL = 1 << 3, /* the same for the rows behind query and key */
    FT_HF_HEADS_ONE = 1 << 4,  /* the same, one row per head */
    FT_HF_HEADS_COLS = 1 << 5, /* the same for columns */
    FT_HF_OPTIONAL = 1 << 6,   /* not an error when absent */
    FT_HF_MORE_ROWS = 1 << 7,  /* rows past the wanted ones are left out */
    FT_HF_LOWER = 1 << 8,      /* of each group of rows the first half */
    FT_HF_UPPER = 1 << 9,      /* of each group of rows the second half */
    FT_HF_FRAMES = 1 << 10,    /* the third of five dimensions is two frames: LOWER or UPPER */
    FT_HF_CHANNELS = 1 << 11,  /* columns from [y][x][channel] to [channel][y][x] */
    FT_HF_PLANES = 1 << 12,    /* rows from [n][2] to [2][n] */
};

#define FT_HF_MAX_DIM 40

/* One line of a family's table. The shape is written as the checkpoint has it, slowest first, in
 * indexes of ft_hf_plan.dim; 0 ends it, and dimensions named FT_HF_ONE vanish. */
typedef struct ft_hf_row {
    const char *hf, *gguf;
    uint8_t shape[5];
    unsigned how;
} ft_hf_row;

enum { FT_HF_END = 0, FT_HF_ONE = 1, FT_HF_DIM0 = 2 }; /* a family's own dims start at DIM0 */

typedef struct ft_hf_part {
    const ft_st_tensor *t;
    const ft_st_tensor *scale; /* block scales of an 8-bit float tensor, or NULL */
} ft_hf_part;

typedef struct ft_hf_item {
    char name[64];
    ft_type type;
    int n_dims;
    int64_t n[4];
    int64_t rows, cols; /* as written: n[0] = cols unless values are handled one by one */
    ft_hf_part *src;    /* the parts' rows follow each other; NULL for values we make */
    int n_src;
    int64_t src_rows; /* rows of each part */
    unsigned how;
    int64_t group;     /* source rows per group for LOWER and UPPER */
    int64_t row_first; /* rows before this one keep their place */
    int64_t row_unit, col_unit;
    float *made; /* values of a tensor that the checkpoint does not have */
} ft_hf_item;

typedef struct ft_hf_plan {
    ft_hf_item *item;
    size_t n, cap;
    int64_t dim[FT_HF_MAX_DIM];
    int64_t Hk, Hv, S;        /* for the FT_HF_HEADS moves */
    int64_t block_r, block_c; /* of 8-bit float scales */
} ft_hf_plan;

/* ---- the folder ---- */

typedef struct ft_hf {
    const char *dir;
    json_t *config, *generation, *tokenizer, *tokenizer_config; /* NULL when absent */
    json_t *preprocessor, *processor;                           /* of pictures; NULL when absent */
    ft_hf_obj cfg;                                              /* text_config, then the whole */
    ft_hf_note note;
    ft_st *st;   /* NULL when only the vocabulary is wanted */
    char **name; /* tensor names without "language_model." */
    ft_dict by_name;
    bool *used;
    ft_convert_mtp mtp;
    const struct ft_hf_family *family;
    const char *arch;
    int64_t V;
    ft_gguf_writer *w;
    ft_hf_plan plan;
} ft_hf;

typedef struct ft_hf_family {
    const char *model_types;        /* separated by spaces */
    const char *skip;               /* prefixes of tensors that are not the text model's */
    void (*build)(ft_hf *h);        /* puts keys, fills the plan */
    const char *vision;             /* prefixes of the vision tower's tensors */
    void (*build_vision)(ft_hf *h); /* the same for the mmproj file */
} ft_hf_family;

extern const ft_hf_family ft_hf_qwen35, ft_hf_gemma4;

/* Reads the JSON files (the tokenizer's with vocab) and, with weights, the tensor directory. What
 * it points to lives until ft_hf_close(), which is called after a failure too. */
ft_status ft_hf_open(ft_hf *h, const char *dir, bool weights, bool vocab, ft_err *err);
/* The part of it that comes after reading: h holds the JSON values and is otherwise zero. */
ft_status ft_hf_setup(ft_hf *h, const char *dir, ft_err *err);
void ft_hf_close(ft_hf *h);

/* ---- for the families ---- */

/* Keys below the architecture's name: "context_length" becomes "qwen35.context_length". */
void ft_hf_key_u32(ft_hf *h, const char *key, int64_t v);
void ft_hf_key_f32(ft_hf *h, const char *key, double v);
void ft_hf_key_bool(ft_hf *h, const char *key, bool v);
void ft_hf_key_i32s(ft_hf *h, const char *key, const int32_t *v, size_t n);

bool ft_hf_tensor_has(const ft_hf *h, const char *name);
/* Adds rows of a table; both prefixes end in a dot or are empty. */
void ft_hf_add(ft_hf *h, const char *hf, const char *gguf, const ft_hf_row *row, size_t n);
/* Adds a stack of X matrices [rows, cols] that the checkpoint holds one by one; hf has one %d. */
void ft_hf_add_stack(ft_hf *h, const char *hf, const char *gguf, int64_t X, uint8_t rows,
                     uint8_t cols);
/* Adds a vector that we make; v is copied. */
void ft_hf_add_made(ft_hf *h, const char *gguf, const float *v, int64_t n);
/* Adds the I64 vector of n ids as I32 after checking that it is a permutation. */
void ft_hf_add_ids(ft_hf *h, const char *hf, const char *gguf, int64_t n);
/* true when a tied head is declared or, with nothing declared, when there is no lm_head */
bool ft_hf_tied(ft_hf *h);
/* A folder says it as a bool list or not at all: every layer's name must be one of two. The result
 * is L flags (true: the first name), yours; NULL after an error or when absent. */
bool *ft_hf_layer_types(ft_hf *h, int64_t L, const char *yes, const char *no);

/* Leaves out, on purpose, all tensors whose name starts so. */
void ft_hf_forget(ft_hf *h, const char *prefix);
/* After build: no tensor of the checkpoint was overlooked. */
void ft_hf_check_all_used(ft_hf *h);

/* Whether the folder has a vision tower; and the plans of both families' (hf_vision.c). */
bool ft_hf_has_vision(const ft_hf *h);
void ft_hf_qwen35_vision(ft_hf *h);
void ft_hf_gemma4_vision(ft_hf *h);

/* Reads output row r as numbers. scratch holds it->cols values and is used for moved columns. */
void ft_hf_read_row(const ft_hf_plan *p, const ft_hf_item *it, int64_t r, float *out,
                    float *scratch);
/* The row of part *part that output row r comes from. */
int64_t ft_hf_source_row(const ft_hf_plan *p, const ft_hf_item *it, int64_t r, int *part);

/* ---- the vocabulary (hf_vocab.c) ---- */

/* Puts the tokenizer's keys; the token list is padded to h->V. */
ft_status ft_hf_vocab(ft_hf *h, ft_err *err);

#endif
