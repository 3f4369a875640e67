/* tools/hf.h - a Hugging Face folder, and the plan that converts its tensors to those of a GGUF.
 * Each model family (hf_qwen35.c, hf_gemma4.c) reads the config, writes the keys, and lists the
 * tensors of the architecture, each with its name in the checkpoint, its shape and its
 * transformation. Every output row is one source row, possibly at another position; making the plan
 * reads only names and shapes. The first missing or misshapen tensor is kept as the error
 * (ft_hf_note). */
#ifndef FT_TOOLS_HF_H
#define FT_TOOLS_HF_H

#include "base/dict.h"
#include "base/type.h"
#include "gguf/safetensors.h"
#include "gguf/writer.h"
#include "tools/convert.h"
#include "tools/hf_json.h"

/* ---- transformations of a tensor ---- */

enum {
    FT_HF_PLUS_ONE = 1 << 0,   /* the checkpoint holds w, the model multiplies with 1 + w */
    FT_HF_NEG_EXP = 1 << 1,    /* -exp(x) */
    FT_HF_HEADS = 1 << 2,      /* value heads from grouped to tiled order: rows of S */
    FT_HF_HEADS_TAIL = 1 << 3, /* the same for the rows after query and key */
    FT_HF_HEADS_ONE = 1 << 4,  /* the same, one row per head */
    FT_HF_HEADS_COLS = 1 << 5, /* the same for columns */
    FT_HF_OPTIONAL = 1 << 6,   /* not an error when absent */
    FT_HF_MORE_ROWS = 1 << 7,  /* extra rows at the end are dropped */
    FT_HF_LOWER = 1 << 8,      /* the first half of each group of rows */
    FT_HF_UPPER = 1 << 9,      /* the second half of each group of rows */
};

#define FT_HF_MAX_DIM 40

/* One row of a family's table. The shape is that of the checkpoint, slowest dimension first, as
 * indexes into ft_hf_plan.dim; 0 ends it, and FT_HF_ONE dimensions are removed. */
typedef struct ft_hf_row {
    const char *hf, *gguf;
    uint8_t shape[3];
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
    int64_t rows, cols; /* of the output; n[0] = cols unless values are processed one by one */
    ft_hf_part *src;    /* the rows of the parts are concatenated; NULL for generated values */
    int n_src;
    int64_t src_rows; /* rows of each part */
    unsigned how;
    int64_t group;     /* source rows per group for LOWER and UPPER */
    int64_t row_first; /* rows before this one keep their position */
    int64_t row_unit, col_unit;
    float *made; /* values of a generated tensor, which the checkpoint does not contain */
} ft_hf_item;

typedef struct ft_hf_plan {
    ft_hf_item *item;
    size_t n, cap;
    int64_t dim[FT_HF_MAX_DIM];
    int64_t Hk, Hv, S;        /* for the FT_HF_HEADS reorderings */
    int64_t block_r, block_c; /* of 8-bit float scales */
} ft_hf_plan;

/* ---- the folder ---- */

typedef struct ft_hf {
    const char *dir;
    json_t *config, *generation, *tokenizer, *tokenizer_config; /* NULL when absent */
    ft_hf_obj cfg; /* text_config, then the whole object */
    ft_hf_note note;
    ft_st *st;   /* NULL when only the vocabulary is converted */
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
    const char *model_types; /* separated by spaces */
    const char *skip;        /* prefixes of tensors that do not belong to the text model */
    void (*build)(ft_hf *h); /* writes the keys, fills the plan */
} ft_hf_family;

extern const ft_hf_family ft_hf_qwen35, ft_hf_gemma4;

/* Reads the JSON files (those of the tokenizer when vocab is set) and, when weights is set, the
 * tensor directory. Everything it points to lives until ft_hf_close(), which must also be called
 * after a failure. */
ft_status ft_hf_open(ft_hf *h, const char *dir, bool weights, bool vocab, ft_err *err);
/* The second part of ft_hf_open: h holds the parsed JSON and is otherwise zero. */
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
/* Adds a stack of X matrices [rows, cols] that are separate tensors in the checkpoint; hf contains
 * one %d. */
void ft_hf_add_stack(ft_hf *h, const char *hf, const char *gguf, int64_t X, uint8_t rows,
                     uint8_t cols);
/* Adds a generated vector; v is copied. */
void ft_hf_add_made(ft_hf *h, const char *gguf, const float *v, int64_t n);
/* Adds the I64 vector of n ids as I32 after checking that it is a permutation. */
void ft_hf_add_ids(ft_hf *h, const char *hf, const char *gguf, int64_t n);
/* true when a tied head is declared or, with nothing declared, when there is no lm_head */
bool ft_hf_tied(ft_hf *h);
/* Reads layer_types, where each of the L entries must be `yes` or `no`. The result is L flags
 * (true: `yes`), owned by the caller; NULL after an error or when the list is absent. */
bool *ft_hf_layer_types(ft_hf *h, int64_t L, const char *yes, const char *no);

/* Skips all tensors whose name starts with prefix. */
void ft_hf_forget(ft_hf *h, const char *prefix);
/* After build: reports an error when a tensor of the checkpoint was neither used nor skipped. */
void ft_hf_check_all_used(ft_hf *h);

/* Reads output row r as f32. scratch holds it->cols values and is used when columns are reordered.
 */
void ft_hf_read_row(const ft_hf_plan *p, const ft_hf_item *it, int64_t r, float *out,
                    float *scratch);
/* The row of part *part that output row r comes from. */
int64_t ft_hf_source_row(const ft_hf_plan *p, const ft_hf_item *it, int64_t r, int *part);

/* ---- the vocabulary (hf_vocab.c) ---- */

/* Writes the keys of the tokenizer; the token list is padded to h->V. */
ft_status ft_hf_vocab(ft_hf *h, ft_err *err);

#endif
