/* gguf/gguf.h - a checked, read-only view of a GGUF file, or of all parts of a split one.
 * Owns the mappings and the tensor directory. Opening rejects every offset, size or count that is
 * not inside the file, so callers need no further checks. Names, strings and tensors returned here
 * are borrowed until ft_gguf_close(). Safe to read from many threads. */
#ifndef FT_GGUF_H
#define FT_GGUF_H

#include "base/err.h"
#include "base/type.h"

typedef struct ft_gguf ft_gguf;

typedef struct ft_gguf_tensor {
    ft_str name; /* also zero-terminated */
    ft_type type;
    int n_dims;       /* 0..4, as in the file */
    int64_t n[4];     /* n[0] is the fastest; unused ones are 1 */
    const void *data; /* inside the mapping, aligned to general.alignment */
    size_t bytes;
} ft_gguf_tensor;

typedef enum ft_gguf_kind {
    FT_GGUF_U8 = 0,
    FT_GGUF_I8 = 1,
    FT_GGUF_U16 = 2,
    FT_GGUF_I16 = 3,
    FT_GGUF_U32 = 4,
    FT_GGUF_I32 = 5,
    FT_GGUF_F32 = 6,
    FT_GGUF_BOOL = 7,
    FT_GGUF_STR = 8,
    FT_GGUF_ARR = 9,
    FT_GGUF_U64 = 10,
    FT_GGUF_I64 = 11,
    FT_GGUF_F64 = 12,
} ft_gguf_kind;

/* One key. For an array, `kind` is the kind of its n elements and array is true. */
typedef struct ft_gguf_kv {
    ft_str key; /* also zero-terminated */
    ft_gguf_kind kind;
    bool array;
    uint64_t n;       /* elements; 1 for a scalar */
    const void *data; /* packed little-endian values, unaligned; strings go through _kv_str */
    size_t bytes;
    const ft_str *str; /* the n strings when kind is FT_GGUF_STR, else NULL */
    bool changed;      /* it is not what the file has: ft_gguf_set */
} ft_gguf_kv;

/* The first part of a split model opens all parts; any other part is rejected with an error that
 * names the first one. */
ft_status ft_gguf_open(ft_gguf **out, const char *path, bool use_mmap, ft_err *err);
/* The same for a file in memory, which the caller keeps until ft_gguf_close(). Rejects a split
 * file. */
ft_status ft_gguf_open_memory(ft_gguf **out, const void *p, size_t n, ft_err *err);
void ft_gguf_close(ft_gguf *g);

const char *ft_gguf_path(const ft_gguf *g); /* as given to open; "" for bytes in memory */
uint32_t ft_gguf_version(const ft_gguf *g);
uint64_t ft_gguf_file_bytes(const ft_gguf *g);              /* all parts */
bool ft_gguf_same_file(const ft_gguf *g, const char *path); /* device and inode */

size_t ft_gguf_n_tensor(const ft_gguf *g);
const ft_gguf_tensor *ft_gguf_tensor_at(const ft_gguf *g, size_t i); /* in file order */
ft_type ft_gguf_main_type(const ft_gguf *g);                         /* of most weight bytes */
const ft_gguf_tensor *ft_gguf_tensor_find(const ft_gguf *g, const char *name);

size_t ft_gguf_n_kv(const ft_gguf *g);
const ft_gguf_kv *ft_gguf_kv_at(const ft_gguf *g, size_t i);
const ft_gguf_kv *ft_gguf_kv_find(const ft_gguf *g, const char *key);

/* Replaces a key, or adds it, with a scalar value of `bytes` bytes (a string without its zero).
 * Before other threads read. */
void ft_gguf_set(ft_gguf *g, const char *key, ft_gguf_kind kind, const void *value, size_t bytes);
/* The same from text: "KEY=TYPE:VALUE" with the types int, float, bool and str; several are
 * separated by commas. */
ft_status ft_gguf_override(ft_gguf *g, const char *text, ft_err *err);

/* Scalar values; false when the key is absent, of an incompatible kind, or out of range. All
 * integer widths are accepted for an integer. */
bool ft_gguf_u32(const ft_gguf *g, const char *key, uint32_t *out);
bool ft_gguf_i64(const ft_gguf *g, const char *key, int64_t *out);
bool ft_gguf_f32(const ft_gguf *g, const char *key, float *out);
bool ft_gguf_bool(const ft_gguf *g, const char *key, bool *out);
bool ft_gguf_str(const ft_gguf *g, const char *key, ft_str *out);

/* Bytes of one element; 0 for a string, SIZE_MAX for a number that is not an element kind. */
size_t ft_gguf_kind_bytes(uint32_t kind);
/* Element i < kv->n of an array, or a scalar with i = 0; false when the kind is incompatible. */
bool ft_gguf_kv_i64(const ft_gguf_kv *kv, uint64_t i, int64_t *out); /* integers and bools */
bool ft_gguf_kv_f64(const ft_gguf_kv *kv, uint64_t i, double *out);  /* any number */
bool ft_gguf_kv_str(const ft_gguf_kv *kv, uint64_t i, ft_str *out);  /* O(1) */

#endif
